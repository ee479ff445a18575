"""Confident-GNMax: noisy answers of an ensemble, one query after the other."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from skfairdp.fairness.gate import ParityGate
from skfairdp.foundation.parameters import Number
from skfairdp.privacy.meter import Meter
from skfairdp.privacy.noise import NoiseSource
from skfairdp.privacy.plan import Plan

_STD = Number(0.0)
# Outcomes of a query that was asked.
UNSURE, REFUSED = -1, -2


class ConfidentGNMax:
    """Noisy argmax of votes, released where the largest count passes a noisy threshold.

    Parameters
    ----------
    threshold : float or None
        T: a query is answered if ``max(votes) + N(0, threshold_noise**2) >= T``. None
        answers every query (plain GNMax).
    threshold_noise : float or None
        Standard deviation of the test's noise, in votes. None without a threshold.
    vote_noise : float
        Standard deviation of the noise on every count, in votes.
    noise : NoiseSource
        Where the noise comes from.

    Raises
    ------
    ValueError
        A standard deviation is negative, not finite or missing.

    Notes
    -----
    One record changes one teacher: the largest count moves by at most 1, the counts by
    sqrt(2) in the L2 norm. Two classes with one noisy count have probability zero; with
    a `vote_noise` of 0 the first of them is answered.

    References
    ----------
    Papernot et al., "Scalable Private Learning with PATE", ICLR 2018, Algorithm 1.

    Examples
    --------
    >>> import numpy as np
    >>> from skfairdp.aggregation import ConfidentGNMax
    >>> from skfairdp.privacy import NoiseSource
    >>> aggregator = ConfidentGNMax(75, 2.0, 2.0, NoiseSource(0))
    >>> aggregator.answer(np.array([95, 5])), aggregator.answer(np.array([50, 50]))
    (0, None)
    """

    def __init__(
        self,
        threshold: float | None,
        threshold_noise: float | None,
        vote_noise: float,
        noise: NoiseSource,
    ) -> None:
        stds: dict[str, float | None] = {"vote_noise": vote_noise}
        if threshold is not None:
            stds["threshold_noise"] = threshold_noise
        for name, std in stds.items():
            if not _STD.accepts(std):
                raise ValueError(f"{name!r} must be {_STD.describe()}; got {std!r}.")
        self.threshold = threshold
        self.threshold_noise = threshold_noise
        self.vote_noise = float(vote_noise)
        self.noise = noise
        self._meter: Meter | None = None

    @classmethod
    def planned(cls, threshold: float | None, plan: Plan, noise: NoiseSource) -> ConfidentGNMax:
        """Take noise from a plan, and draw every test and every vote from it.

        Parameters
        ----------
        threshold : float or None
            T; None where the plan has no tests.
        plan : Plan
            Of `skfairdp.aggregation.voting_plan.voting_plan`.
        noise : NoiseSource
            Where the noise comes from.

        Returns
        -------
        ConfidentGNMax
            Its `answer` raises a PlanError where the plan holds no more.
        """
        *tests, votes = (segment.blocks[0].noise_std for segment in plan.segments)
        aggregator = cls(threshold, tests[0] if tests else None, votes, noise)
        aggregator._meter = Meter(plan)
        return aggregator

    def _draw(self, place: int) -> None:
        if self._meter is not None:
            self._meter.draw(self._meter.plan.segments[place])

    def answer(self, votes: np.ndarray) -> int | None:
        """Answer one query.

        Parameters
        ----------
        votes : ndarray of int64, shape (n_classes,)
            Number of teachers for each class.

        Returns
        -------
        int or None
            Code of a class; None where the test was not passed.
        """
        if self.threshold is not None:
            assert self.threshold_noise is not None  # checked in the constructor
            self._draw(0)
            most = np.array([votes.max()], dtype=np.float64)
            if self.noise.noisy(most, self.threshold_noise)[0] < self.threshold:
                return None
        self._draw(-1)
        return int(np.argmax(self.noise.noisy(votes.astype(np.float64), self.vote_noise)))


@dataclass(frozen=True, eq=False)
class Transcript:
    """Releases of an ensemble: the outcome of each query that was asked.

    Parameters
    ----------
    outcomes : ndarray of int64, shape (n_asked,)
        In the order of the queries, the class code of an answer; -1 where the noisy
        test was not passed, -2 where the gate refused an answer.
    """

    outcomes: np.ndarray

    @property
    def n_asked(self) -> int:
        """Queries that were asked: each cost a test, where there is one."""
        return len(self.outcomes)

    @property
    def n_charged(self) -> int:
        """Queries that passed the test: each cost noisy votes, also where the gate refused."""
        return int((self.outcomes != UNSURE).sum())

    @property
    def answered(self) -> np.ndarray:
        """Whether a query was answered, bool of shape (n_asked,)."""
        return self.outcomes >= 0

    @property
    def coverage(self) -> float:
        """Share of answered queries among those that were asked; 0 without any."""
        return float(self.answered.mean()) if self.n_asked else 0.0


def release_labels(
    votes: np.ndarray,
    aggregator: ConfidentGNMax,
    *,
    max_answers: int | None = None,
    gate: ParityGate | None = None,
    groups: np.ndarray | None = None,
) -> Transcript:
    """Put queries to an ensemble in their order, until all are asked or the answers used up.

    Parameters
    ----------
    votes : ndarray of int64, shape (n_queries, n_classes)
        Votes for each public row.
    aggregator : ConfidentGNMax
        Turns votes into noisy answers.
    max_answers : int or None, default=None
        Stop after this many queries have passed the test. Those that the gate refuses
        count: a refusal reveals the answer. None never stops.
    gate : ParityGate or None, default=None
        May refuse an answer; it sees the public group and the noisy answer alone.
    groups : ndarray of int64, shape (n_queries,), optional
        Group of each public row, for the gate.

    Returns
    -------
    Transcript

    Raises
    ------
    ValueError
        A gate without groups, or groups of another length.

    Examples
    --------
    >>> import numpy as np
    >>> from skfairdp.aggregation import ConfidentGNMax, release_labels
    >>> from skfairdp.privacy import NoiseSource
    >>> votes = np.array([[95, 5], [50, 50], [2, 98], [90, 10]])
    >>> aggregator = ConfidentGNMax(75, 5.0, 4.0, NoiseSource(0))
    >>> release_labels(votes, aggregator, max_answers=2).outcomes.tolist()
    [0, -1, 1]
    """
    if gate is not None and (groups is None or len(groups) != len(votes)):
        got = "None" if groups is None else f"{len(groups)}"
        raise ValueError(f"A gate needs the group of each of the {len(votes)} queries; got {got}.")
    limit = math.inf if max_answers is None else max_answers
    outcomes = np.empty(len(votes), dtype=np.int64)
    asked = charged = 0
    for counts in votes:
        if charged >= limit:
            break
        label = aggregator.answer(counts)
        if label is None:
            outcomes[asked] = UNSURE
        else:
            charged += 1
            passed = gate is None or groups is None or gate.offer(int(groups[asked]), label)
            outcomes[asked] = label if passed else REFUSED
        asked += 1
    return Transcript(outcomes[:asked].copy())
