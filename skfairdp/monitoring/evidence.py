"""Evidence about one difference of rates that may be looked at after every row, and its limits.

The derivations are in docs/theory/monitoring.md. All functions return logarithms. For a pair of
groups (k, l) `below(d)` is the logarithm of an e-process of "the gap p_k - p_l is d or more", and
rises with d; `reversed.below(-d)` is that of "it is d or less".
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy import special

from skfairdp.fairness.notions import Stratum
from skfairdp.monitoring.store import Document

Floats = NDArray[np.float64]
# Bets, as parts of the largest that cannot lose everything: a mixture of all of them.
STAKES = np.geomspace(0.008, 0.95, 8)
# Tilts of noisy sums. None above 4 helps, and the noise has no moments from twice epsilon on.
LARGEST_TILT = 4.0
_PRECISION = 45  # halvings
MOST_PENDING = 10_000  # rows kept until rows of the other group come; of more, the oldest go
NOTHING = -1e300  # logarithm of a drift statistic of 0: JSON has no infinity


class PairedEvidence(NamedTuple):
    """Pairs of rows, one of each group, counted by the order of their outcomes."""

    more: float = 0
    same: float = 0
    less: float = 0

    @property
    def reversed(self) -> Self:
        """The same pairs with the groups exchanged."""
        return type(self)(self.less, self.same, self.more)

    def with_pairs(self, differences: NDArray[np.int8]) -> Self:
        less, same, more = np.bincount(differences + 1, minlength=3).tolist()
        return type(self)(self.more + more, self.same + same, self.less + less)

    def below(self, d: float) -> float:
        """Evidence against a gap of `d` or more, with d < 1."""
        gain = 1.0 + STAKES * (d / (1.0 - d))
        most = 1.0 + STAKES * ((1.0 + d) / (1.0 - d))
        terms = self.more * np.log1p(-STAKES) + self.same * np.log(gain) + self.less * np.log(most)
        return _log_mean(terms)


class NoisyEvidence(NamedTuple):
    """Sums of weighted differences of noisy rates of batches."""

    epsilon: float  # of one release, which fixes the tilts
    total: float  # sum of the weighted differences
    weight: float  # sum of the weights
    costs: Sequence[float]  # for each tilt, log of the moment that chance alone could have

    @classmethod
    def none(cls, epsilon: float) -> Self:
        return cls(epsilon, 0.0, 0.0, [0.0] * len(STAKES))

    @property
    def tilts(self) -> Floats:
        """Factors of the sums."""
        return STAKES * min(LARGEST_TILT, 2.0 * self.epsilon)

    @property
    def reversed(self) -> Self:
        """The same batches with the groups exchanged."""
        return type(self)(self.epsilon, -self.total, self.weight, self.costs)

    def with_batch(
        self, hits: Sequence[float], rows: Sequence[float], terms: int
    ) -> tuple[Self, Self]:
        """Add a batch; return the evidence with it, and that of the batch by itself.

        `hits`: successes of the two groups, true ones plus half a sum of `terms` draws of noise;
        `rows`: their rows, both at least 1.
        """
        weight = rows[0] * rows[1] / (rows[0] + rows[1])
        cost = self.tilts**2 * weight / 8.0  # Hoeffding, for the rows
        for n in rows:
            cost = cost + terms * log_laplace_moment(self.tilts * weight / n / 2.0, self.epsilon)
        gap = weight * (hits[0] / rows[0] - hits[1] / rows[1])
        alone = type(self)(self.epsilon, gap, weight, cost.tolist())
        costs = (np.array(self.costs) + cost).tolist()
        return type(self)(self.epsilon, self.total + gap, self.weight + weight, costs), alone

    def log_factors(self, d: float) -> Floats:
        """Evidence against a gap of `d` or less, tilt by tilt."""
        return self.tilts * (self.total - d * self.weight) - np.array(self.costs)

    def below(self, d: float) -> float:
        """Evidence against a gap of `d` or more."""
        return _log_mean(self.reversed.log_factors(-d))


def log_laplace_moment(s: Floats, epsilon: float) -> Floats:
    """Logarithm of E exp(s Z), |s| < epsilon, where Pr(Z = z) ~ exp(-epsilon |z|)."""
    ends = np.log(-np.expm1(s - epsilon)) + np.log(-np.expm1(-s - epsilon))
    return 2.0 * math.log(-math.expm1(-epsilon)) - ends


def upper_limit(evidence: PairedEvidence | NoisyEvidence, error: float) -> float:
    """Smallest gap, rounded up, that is excluded, the true one ever with chance `error` at most."""
    return _crossing(evidence.below, -math.log(error))


def lower_limit(evidence: PairedEvidence | NoisyEvidence, error: float) -> float:
    """Size of the gap, rounded down, below which the mean of both directions excludes it."""

    def either(negative: float) -> float:
        both = evidence.reversed.below(negative), evidence.below(negative)
        return float(np.logaddexp(*both)) - math.log(2)

    return max(0.0, -_crossing(either, -math.log(error)))


def _crossing(rising: Callable[[float], float], level: float) -> float:
    """Where a rising function of d reaches a level; 1 if it does not below 1."""
    low, high = -1.0, 1.0
    for _ in range(_PRECISION):
        middle = (low + high) / 2.0
        low, high = (low, middle) if rising(middle) >= level else (middle, high)
    return high


def drift_statistics(start: Floats, steps: Floats) -> tuple[Floats, float]:
    """Follow Shiryaev-Roberts statistics R -> (R + 1) L of a mixture of bets, by logarithms.

    Result: those of `start` (..., n_bets) after `steps` (n_steps, ..., n_bets), and the largest
    value of their mean.
    """
    largest = -math.inf
    # R_t = exp(S_t) (R_0 + sum of exp(-S_i) for i < t), S the sums of the steps.
    for first in range(0, len(steps), 4096):
        sums = np.cumsum(steps[first : first + 4096], axis=0)
        before = np.concatenate([np.zeros_like(sums[:1]), sums[:-1]])
        before = np.concatenate([start[np.newaxis], -before])
        path = np.logaddexp.accumulate(before, axis=0)[1:] + sums
        largest = max(largest, float(special.logsumexp(path.reshape(len(path), -1), axis=1).max()))
        start = path[-1]
    return start, largest - math.log(start.size)


def pair_steps(differences: NDArray[np.int8], tolerance: float) -> Floats:
    """Factors of pairs of rows against "at most the tolerance": (n_pairs, 2 directions, n_bets)."""
    scaled = STAKES / (1.0 + tolerance)
    table = np.log1p(np.array([-1.0, 0.0, 1.0])[:, np.newaxis] * scaled - tolerance * scaled)
    return np.stack([table[differences + 1], table[1 - differences]], axis=1)


def _log_mean(terms: Floats) -> float:
    """Logarithm of the mean of exp(terms), fast for few terms.

    Equal to the last bit to the result of `scipy.special.logsumexp`, whose checks take far longer.
    """
    top = terms.max()
    if not np.isfinite(top):
        return float(special.logsumexp(terms)) - math.log(terms.size)
    largest = terms == top
    n = np.float64(np.count_nonzero(largest))
    others = np.exp(np.where(largest, -np.inf, terms) - top).sum() / n
    return float(np.log1p(others) + np.log(n) + top) - math.log(terms.size)


class Levels(NamedTuple):
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
    """States of all pairs, from stored values."""
    states = [PairState(*fields) for fields in document["pairs"]]
    kinds = [PairedEvidence if len(state.evidence) == 3 else NoisyEvidence for state in states]
    return [s._replace(evidence=kind(*s.evidence)) for s, kind in zip(states, kinds, strict=True)]


def bounds(states: list[PairState]) -> tuple[float, float]:
    """Largest limits of all pairs; 0 and 1 without pairs."""
    lower = max((state.lower for state in states), default=0.0)
    return lower, max(0.0, max((max(state.upper) for state in states), default=1.0))
