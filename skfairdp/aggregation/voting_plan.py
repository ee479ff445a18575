"""What the queries to an ensemble of teachers cost."""

from __future__ import annotations

import math
from dataclasses import dataclass

from skfairdp.privacy.accounting.calibration import noise_multiplier_for
from skfairdp.privacy.accounting.plan_cost import epsilon as plan_epsilon
from skfairdp.privacy.plan import Block, Plan, Segment
from skfairdp.privacy.relations import NEIGHBOURS

# One record takes a vote from one class and gives one to another.
VOTES_NORM = math.sqrt(2.0)
# A changed attribute does the same, but is accounted as two halves that compose: a Gaussian
# query of half the squared sensitivity each.
HALF = math.sqrt(0.5)


@dataclass(frozen=True)
class VotingNoise:
    """Noise of the two releases of a query.

    Parameters
    ----------
    threshold : float or None
        Standard deviation on the largest count, in votes; None where no test is made.
    votes : float
        Standard deviation on every count, in votes.
    """

    threshold: float | None
    votes: float


def voting_plan(
    n_queries: int,
    n_answers: int,
    noise: VotingNoise,
    *,
    delta: float,
    adjacency: str = "add-remove",
) -> Plan:
    """State everything that a fixed number of queries releases.

    Parameters
    ----------
    n_queries : int
        Q, the largest number of queries: threshold tests, where there are any.
    n_answers : int
        A, the largest number of noisy votes.
    noise : VotingNoise
        Noise of both.
    delta : float
        Probability in (0, 1).
    adjacency : {"add-remove", "change-attribute"}, default="add-remove"
        What distinguishes neighbouring data sets; under both one teacher changes.

    Returns
    -------
    Plan
        Nothing in it depends on the private rows.

    Notes
    -----
    Which release comes next depends on earlier answers, but at most Q tests and A votes
    are made, each a Gaussian query: the sum of their squared sensitivities over noise is
    bounded in advance, and then the composition costs what the fixed one does (Smith
    and Thakurta, "Fully Adaptive Composition for Gaussian Differential Privacy", 2022).

    Examples
    --------
    >>> from skfairdp.aggregation.voting_plan import VotingNoise, voting_plan
    >>> from skfairdp.privacy import epsilon
    >>> plan = voting_plan(3, 2, VotingNoise(threshold=40.0, votes=15.0), delta=1e-6)
    >>> round(epsilon(plan), 4)
    0.5697
    """
    share = HALF if NEIGHBOURS[adjacency].two_cells else 1.0
    tests: tuple[Segment, ...] = ()
    if noise.threshold is not None:
        tests = (_segment("threshold", n_queries, share, noise.threshold),)
    votes = _segment("votes", n_answers, VOTES_NORM * share, noise.votes)
    return Plan(cells=("all",), segments=(*tests, votes), adjacency=adjacency, delta=float(delta))


def _segment(name: str, steps: int, norm: float, std: float) -> Segment:
    # Every query asks the whole ensemble: no sampling, nothing is averaged.
    block = Block(name=name, max_norm=norm, weights=(1.0,), noise_std=float(std))
    return Segment(steps=int(steps), rates=(1.0,), expected_sizes=(1.0,), blocks=(block,))


def calibrated_noise(
    epsilon: float, delta: float, n_queries: int, n_answers: int, *, ratio: float | None
) -> VotingNoise:
    """Find the noise with which a fixed number of queries meets a budget.

    `epsilon`: budget in nats, finite and positive. `delta`: probability in (0, 1). `ratio`: noise
    of the test over noise of the votes; None where no test is made. Raises ValueError: the budget
    is not met by any usable noise.
    """

    def noise(multiplier: float) -> VotingNoise:
        votes = multiplier * VOTES_NORM
        return VotingNoise(None if ratio is None else ratio * votes, votes)

    return noise(
        noise_multiplier_for(
            epsilon, delta, lambda m: voting_plan(n_queries, n_answers, noise(m), delta=delta)
        )
    )


def affordable_answers(epsilon: float, delta: float, n_queries: int, noise: VotingNoise) -> int:
    """Count the answers that a budget pays for at given noise.

    `epsilon`: budget in nats, finite and positive. `delta`: probability in (0, 1). `n_queries`:
    largest number of threshold tests; they are paid first. Result: at most `n_queries`; 0 where
    the budget does not even pay for one answer.
    """

    def cost(n_answers: int) -> float:
        return plan_epsilon(voting_plan(n_queries, n_answers, noise, delta=delta))

    low, high = 0, n_queries
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if cost(middle) <= epsilon else (low, middle - 1)
    return low
