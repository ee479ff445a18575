"""What is known of one pair of groups in one stratum: evidence, limits, rows without a partner."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from skfairdp.fairness.notions import Stratum
from skfairdp.monitoring.evidence import (
    STAKES,
    NoisyEvidence,
    PairedEvidence,
    drift_statistics,
    lower_limit,
    pair_steps,
    upper_limit,
)
from skfairdp.monitoring.store import Document

MOST_PENDING = 10_000  # rows kept until rows of the other group come; of more, the oldest go
NOTHING = -1e300  # logarithm of a drift statistic of 0: JSON has no infinity


class Levels(NamedTuple):
    """What limits are computed with."""

    tolerance: float  # of the monitor
    error: float  # of an upper limit
    shared: float  # of a lower limit: the same over the number of pairs


class PairState(NamedTuple):
    """One unordered pair of groups in one stratum; JSON stores it as a list of its fields."""

    stratum: int  # position of the stratum
    groups: tuple[int, int]  # positions of the groups
    evidence: PairedEvidence | NoisyEvidence  # all of it
    upper: tuple[float, float] = (1.0, 1.0)  # upper limits of the gap in either direction
    lower: float = 0.0  # lower limit of its size
    # Whether the gap in either direction has ever been shown to be below the tolerance
    below: tuple[bool, bool] = (False, False)
    drift: Any = ((NOTHING,) * len(STAKES),) * 2  # logarithms of the drift statistics, (2, n_bets)
    drift_peak: float = NOTHING  # logarithm of the largest value of their mean
    side: int = 0  # which of the groups has rows without a partner
    pending: str = ""  # their outcomes, oldest first, as the characters 0 and 1

    @classmethod
    def from_json(cls, fields: list[Any]) -> Self:
        """Rebuild a state from the list that JSON made of it."""
        state = cls(*fields)
        kind = PairedEvidence if len(state.evidence) == 3 else NoisyEvidence
        return state._replace(evidence=kind(*state.evidence))

    def with_rows(
        self, stratum: Stratum, levels: Levels, codes: NDArray, labels: NDArray, decided: NDArray
    ) -> Self:
        """Pair rows, the i-th of one group with the i-th of the other."""
        assert isinstance(self.evidence, PairedEvidence)
        hit, miss = stratum.successes[labels, decided], stratum.failures[labels, decided]
        sides = [hit[(hit | miss) & (codes == k)].astype(np.int8) for k in self.groups]
        waited = np.frombuffer(self.pending.encode(), dtype=np.int8) - np.int8(ord("0"))
        sides[self.side] = np.concatenate([waited, sides[self.side]])
        paired = min(map(len, sides))
        differences = sides[0][:paired] - sides[1][:paired]
        side = int(len(sides[1]) > paired)
        rest = sides[side][paired:][-MOST_PENDING:]
        state = self._replace(
            evidence=self.evidence.with_pairs(differences),
            side=side,
            pending=(rest + np.int8(ord("0"))).tobytes().decode(),
        )
        return state._followed(pair_steps(differences, levels.tolerance), levels)

    def with_noisy_counts(
        self, stratum: Stratum, levels: Levels, table: NDArray, noisy: NDArray
    ) -> Self:
        """Add a batch, given as counts of rows in cells of groups, labels and decisions."""
        assert isinstance(self.evidence, NoisyEvidence)
        own = list(self.groups)
        rows = np.add(*stratum.count(table[own])).tolist()
        if not all(rows):
            return self
        hit, miss = stratum.count(noisy[own])
        # Both noisy counts measure the same number where the rows are known.
        hits = ((rows + hit - miss) / 2.0).tolist()
        evidence, alone = self.evidence.with_batch(hits, rows, noise_terms(stratum))
        steps = np.stack([e.log_factors(levels.tolerance) for e in (alone, alone.reversed)])
        return self._replace(evidence=evidence)._followed(steps[np.newaxis], levels)

    def _followed(self, steps: NDArray[np.float64], levels: Levels) -> Self:
        """Bring limits and drift up to the evidence."""
        limits = [upper_limit(e, levels.error) for e in (self.evidence, self.evidence.reversed)]
        shown = [limit < levels.tolerance for limit in limits]
        drift, peak = drift_statistics(np.array(self.drift), steps)
        return self._replace(
            upper=(limits[0], limits[1]),
            lower=lower_limit(self.evidence, levels.shared),
            below=(self.below[0] or shown[0], self.below[1] or shown[1]),
            drift=np.maximum(drift, NOTHING).tolist(),
            drift_peak=max(self.drift_peak, peak),
        )


def noise_terms(stratum: Stratum) -> int:
    """Noisy counts that a noisy rate is made of."""
    return int(stratum.successes.sum() + stratum.failures.sum())


def first_states(n_strata: int, n_groups: int, count_epsilon: float | None) -> list[PairState]:
    """States of all pairs before the first row."""
    nothing = PairedEvidence() if count_epsilon is None else NoisyEvidence.none(count_epsilon)
    pairs = itertools.combinations(range(n_groups), 2)
    return [PairState(s, pair, nothing) for s, pair in itertools.product(range(n_strata), pairs)]


def states_of(document: Document) -> list[PairState]:
    """States of all pairs, from what is stored."""
    return [PairState.from_json(fields) for fields in document["pairs"]]


def bounds(states: list[PairState]) -> tuple[float, float]:
    """Largest limits of all pairs; 0 and 1 without pairs."""
    lower = max((state.lower for state in states), default=0.0)
    return lower, max(0.0, max((max(state.upper) for state in states), default=1.0))
