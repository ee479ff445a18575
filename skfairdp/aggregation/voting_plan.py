"""Cost of the queries to an ensemble of teachers, and the parameters that fix it."""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from typing import Any

from skfairdp.exceptions import PrivacyWarning, warn_user
from skfairdp.foundation.figures import as_given
from skfairdp.privacy.accounting.calibration import noise_multiplier_for
from skfairdp.privacy.accounting.plan_cost import epsilon as plan_epsilon
from skfairdp.privacy.plan import LEAST_MULTIPLIER, Plan
from skfairdp.privacy.relations import NEIGHBOURS
from skfairdp.privacy.sizes import Sizes

# One record takes a vote from one class and gives one to another.
VOTES_NORM = math.sqrt(2.0)
# A changed attribute does the same, but is accounted as two halves that compose: a Gaussian
# query of half the squared sensitivity each.
HALF = math.sqrt(0.5)
# A test at T passes by noise alone with chance 1e-3 where T is this many noise standard
# deviations above all the votes there are. Published settings have T above the number of
# teachers, with noise to match.
_OUT_OF_REACH = 3.0
# Where the number of answers is left open, as many are bought as leave the noise of a vote
# at half the number of teachers: on Adult (100 to 1000 teachers, epsilon 1 to 4) a student
# learns best from noise of a third to two thirds, and the optimum is flat.
_USEFUL_NOISE, _FEWEST_ANSWERS = 0.5, 100


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
    Which release comes next depends on earlier answers, but at most Q tests and A votes are made:
    the composition costs as much as the fixed one ("The cost of queries, and of refusals" in
    ``docs/theory/fairpate.md``).

    Examples
    --------
    >>> from skfairdp.aggregation.voting_plan import VotingNoise, voting_plan
    >>> from skfairdp.privacy import epsilon
    >>> plan = voting_plan(3, 2, VotingNoise(threshold=40.0, votes=15.0), delta=1e-6)
    >>> round(epsilon(plan), 4)
    0.5697
    """
    share = HALF if NEIGHBOURS[adjacency].two_cells else 1.0
    # Every query asks the whole ensemble, of unknown size: no sampling, nothing is averaged.
    sizes = Sizes(("all",), (0,), adjacency)
    vote, tests = ("votes", VOTES_NORM * share, float(noise.votes)), []
    if noise.threshold is not None:
        test = ("threshold", share, float(noise.threshold))
        tests = [sizes.whole(test, steps=int(n_queries))]
    votes = sizes.whole(vote, steps=int(n_answers))
    return sizes.plan(*tests, votes, delta=delta, exact_noise=True)


def calibrated_noise(
    epsilon: float, delta: float, n_queries: int, n_answers: int, *, ratio: float | None
) -> VotingNoise:
    """Find the noise that meets a budget; `ratio`: of the test's to the votes', None: no test."""

    def noise(multiplier: float) -> VotingNoise:
        votes = multiplier * VOTES_NORM
        return VotingNoise(None if ratio is None else ratio * votes, votes)

    def plan(multiplier: float) -> Plan:
        return voting_plan(n_queries, n_answers, noise(multiplier), delta=delta)

    # A large epsilon is not used up: the noise is exact, which is proved from some noise on.
    least = LEAST_MULTIPLIER / (1.0 if ratio is None else min(1.0, ratio * VOTES_NORM))
    return noise(max(noise_multiplier_for(epsilon, delta, plan), least))


def affordable_answers(epsilon: float, delta: float, n_queries: int, noise: VotingNoise) -> int:
    """Count the answers that a budget pays for at given noise, once all tests are paid."""

    def cost(n_answers: int) -> float:
        return plan_epsilon(voting_plan(n_queries, n_answers, noise, delta=delta))

    return bisect_right(range(1, n_queries + 1), epsilon, key=cost)


def check_settings(estimator: Any) -> None:
    """Check the parameters of an `AggregatedClassifier` that depend on each other."""
    epsilon, threshold = estimator.epsilon, estimator.threshold
    own = {"vote_noise": estimator.vote_noise, "threshold_noise": estimator.threshold_noise}
    if threshold is None and estimator.threshold_noise is not None:
        raise ValueError(
            "'threshold_noise' is set, but 'threshold' is None, so it has no effect. Set both or "
            "neither."
        )
    needed = ["vote_noise"] if threshold is None else ["vote_noise", "threshold_noise"]
    names = " and ".join(map(repr, needed))
    given = [name for name in needed if own[name] is not None]
    if given and given != needed:
        raise ValueError(f"Set {names} together, or none of them; got {own!r}.")
    if epsilon is None and not given:
        raise ValueError(
            "Set 'epsilon' (the noise is calibrated to it, or with the noise given the number of "
            f"answers), or epsilon=None and {names}."
        )
    if epsilon is not None and math.isinf(epsilon) and given:
        raise ValueError(f"epsilon=inf means no noise; leave {names} None.")
    if epsilon is not None and given and estimator.n_answers is not None:
        raise ValueError(
            f"'epsilon' and {names} fix how many answers are paid for; got n_answers="
            f"{estimator.n_answers} as well. Leave 'n_answers', the noise, or 'epsilon' None."
        )


def make_plan(estimator: Any, n_public: int, *, adjacency: str) -> tuple[VotingNoise, Plan]:
    """Fix noise, queries and answers from public numbers alone."""
    n_queries = _at_most(estimator, "n_queries", n_public, "the number of public rows")
    n_answers = _at_most(estimator, "n_answers", n_queries, "the number of queries")
    tested = estimator.threshold is not None
    epsilon, delta = estimator.epsilon, float(estimator.delta)
    if estimator.vote_noise is not None:
        tests = float(estimator.threshold_noise) if tested else None
        noise = VotingNoise(tests, float(estimator.vote_noise))
        if epsilon is not None:
            n_answers = affordable_answers(epsilon, delta, n_queries, noise)
            if n_answers == 0:
                asked = f" after {n_queries} threshold tests (n_queries)" if tests else ""
                raise ValueError(
                    f"'epsilon' = {as_given(epsilon)} is too small for a single answer with "
                    f"vote_noise={noise.votes:g}{asked}. Raise 'epsilon' or the noise, ask fewer "
                    "queries, or leave the noise None to have it calibrated."
                )
    elif math.isinf(epsilon):
        warn_user("epsilon=inf trains without noise: nothing is protected.", PrivacyWarning)
        noise = VotingNoise(0.0 if tested else None, 0.0)
    else:
        ratio = float(estimator.noise_ratio) if tested else None
        if estimator.n_answers is None:
            least = _USEFUL_NOISE * estimator.n_teachers
            useful = VotingNoise(None if ratio is None else ratio * least, least)
            paid = affordable_answers(epsilon, delta, n_queries, useful)
            n_answers = min(n_queries, max(_FEWEST_ANSWERS, paid))
        noise = calibrated_noise(epsilon, delta, n_queries, n_answers, ratio=ratio)
    std, n = noise.threshold, estimator.n_teachers
    if std is not None and estimator.threshold > n + _OUT_OF_REACH * std:
        raise ValueError(
            f"'threshold' = {estimator.threshold:g} is above the number of teachers, {n}, by more "
            f"than {_OUT_OF_REACH:g} standard deviations of the test's noise ({std:.4g}): hardly "
            "any query would pass. Set it to a number of votes that the teachers can reach."
        )
    plan = voting_plan(n_queries, n_answers, noise, delta=delta, adjacency=adjacency)
    plan.check_exact_noise(0)  # of votes, which are few numbers
    return noise, plan


def _at_most(estimator: Any, name: str, limit: int, what: str) -> int:
    value = getattr(estimator, name)
    if value is not None and value > limit:
        raise ValueError(f"{name!r} must be at most {what}, {limit}; got {value}.")
    return limit if value is None else int(value)
