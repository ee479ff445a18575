"""What is known of one pair of groups in one stratum: evidence, limits, rows without a partner."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from skfairdp.monitoring.evidence import (
    STAKES,
    NoisyEvidence,
    PairedEvidence,
    drift_statistics,
    lower_limit,
    pair_steps,
    upper_limit,
)

__all__ = ["Levels", "PairState"]

# Rows that are kept until rows of the other group come; of more, the oldest go.
MOST_PENDING = 10_000


@dataclass(frozen=True)
class Levels:
    """What limits are computed with.

    Parameters
    ----------
    tolerance : float
        Of the monitor.
    error : float
        Of an upper limit.
    shared : float
        Of a lower limit: the same over the number of pairs.
    """

    tolerance: float
    error: float
    shared: float


@dataclass(frozen=True)
class PairState:
    """One unordered pair of groups in one stratum.

    Parameters
    ----------
    stratum : int
        Position of the stratum.
    groups : (int, int)
        Positions of the groups.
    evidence : PairedEvidence or NoisyEvidence
        All of it.
    upper : (float, float)
        Upper limits of the gap in either direction.
    lower : float
        Lower limit of its size.
    below : (bool, bool)
        Whether the gap in either direction has ever been shown to be below the tolerance.
    drift : ndarray of float64, shape (2, n_bets)
        Logarithms of the drift statistics.
    drift_peak : float
        Logarithm of the largest value of their mean.
    side : int
        Which of the groups has rows without a partner.
    pending : str
        Their outcomes, oldest first, as the characters 0 and 1.
    """

    stratum: int
    groups: tuple[int, int]
    evidence: PairedEvidence | NoisyEvidence
    upper: tuple[float, float]
    lower: float
    below: tuple[bool, bool]
    drift: NDArray[np.float64]
    drift_peak: float
    side: int
    pending: str

    @classmethod
    def new(cls, stratum: int, groups: tuple[int, int], epsilon: float | None) -> Self:
        """Nothing seen yet; `epsilon` where counts are noisy."""
        evidence = PairedEvidence() if epsilon is None else NoisyEvidence.none(epsilon)
        drift = np.full((2, len(STAKES)), -math.inf)
        return cls(
            stratum, groups, evidence, (1.0, 1.0), 0.0, (False, False), drift, -math.inf, 0, ""
        )

    def with_rows(self, first: NDArray[np.int8], second: NDArray[np.int8], levels: Levels) -> Self:
        """Pair rows, the i-th of one group with the i-th of the other."""
        assert isinstance(self.evidence, PairedEvidence)
        sides = [first, second]
        waited = np.frombuffer(self.pending.encode(), dtype=np.int8) - ord("0")
        sides[self.side] = np.concatenate([waited, sides[self.side]])
        paired = min(map(len, sides))
        differences = (sides[0][:paired] - sides[1][:paired]).astype(np.int8)
        side = int(len(sides[1]) > paired)
        rest = sides[side][paired:][-MOST_PENDING:].astype(np.int8)
        drift, peak = drift_statistics(self.drift, pair_steps(differences, levels.tolerance))
        return replace(
            self,
            evidence=self.evidence.with_pairs(differences),
            side=side,
            pending=(rest + ord("0")).astype(np.int8).tobytes().decode(),
            drift=drift,
            drift_peak=max(self.drift_peak, peak),
        )._limited(levels)

    def with_noisy_counts(
        self, hits: tuple[float, float], rows: tuple[int, int], terms: int, levels: Levels
    ) -> Self:
        """Add a batch; see `NoisyEvidence.with_batch`."""
        assert isinstance(self.evidence, NoisyEvidence)
        if not all(rows):
            return self
        evidence, alone = self.evidence.with_batch(hits, rows, terms)
        steps = np.stack([e.log_factors(levels.tolerance) for e in (alone, alone.reversed)])
        drift, peak = drift_statistics(self.drift, steps[np.newaxis])
        return replace(
            self, evidence=evidence, drift=drift, drift_peak=max(self.drift_peak, peak)
        )._limited(levels)

    def _limited(self, levels: Levels) -> Self:
        found = (
            upper_limit(self.evidence, levels.error),
            upper_limit(self.evidence.reversed, levels.error),
        )
        return replace(
            self,
            upper=found,
            lower=lower_limit(self.evidence, levels.shared),
            below=(
                self.below[0] or found[0] < levels.tolerance,
                self.below[1] or found[1] < levels.tolerance,
            ),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return JSON types."""
        if isinstance(self.evidence, PairedEvidence):
            evidence: dict[str, Any] = vars(self.evidence).copy()
        else:
            evidence = vars(self.evidence) | {"costs": self.evidence.costs.tolist()}
        return vars(self) | {
            "groups": list(self.groups),
            "evidence": evidence,
            "upper": list(self.upper),
            "below": list(self.below),
            # JSON has no infinity.
            "drift": [[max(x, -1e300) for x in row] for row in self.drift.tolist()],
            "drift_peak": max(self.drift_peak, -1e300),
        }

    @classmethod
    def from_dict(cls, document: dict[str, Any]) -> Self:
        """Rebuild a state from `to_dict`."""
        found = dict(document["evidence"])
        noisy = "costs" in found
        evidence: PairedEvidence | NoisyEvidence = (
            NoisyEvidence(**(found | {"costs": np.array(found["costs"])}))
            if noisy
            else PairedEvidence(**found)
        )
        return cls(
            **document
            | {
                "groups": tuple(document["groups"]),
                "evidence": evidence,
                "upper": tuple(document["upper"]),
                "below": tuple(document["below"]),
                "drift": np.array(document["drift"]),
            }
        )
