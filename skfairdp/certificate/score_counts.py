"""Scores of held-out rows by group: calibration and scoring rates, from counts in bins."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from skfairdp.certificate.group_rates import LEVEL, over_highest
from skfairdp.fairness.bounds.binomial_cells import clopper_pearson
from skfairdp.fairness.bounds.noisy_counts import NoisyCells, private_rate_intervals
from skfairdp.fairness.guarantee import group_text
from skfairdp.foundation.figures import label_from_json, label_to_json, rounded_down, rounded_up

# Even bins of scores between 0 and 1, public and fixed before any row is looked at.
BINS = 20
# Of these, as many make one line of a calibration table.
_OF_LINE = 4


@dataclass(frozen=True)
class CalibrationLine:
    """People of one group with scores between two limits, and how many had the positive label."""

    group: str
    least: float
    most: float
    rows: float
    rate: float | None
    low: float
    high: float

    @property
    def verdict(self) -> str:
        """Whether scores are shown to be too high or too low, beyond chance and noise."""
        if self.high < self.least:
            return "too high"
        return "too low" if self.low > self.most else "not shown to be wrong"

    @property
    def informative(self) -> bool:
        """Whether the interval leaves any share out."""
        return self.rate is not None and not self.low <= 0.0 < 1.0 <= self.high

    def to_dict(self) -> dict[str, Any]:
        """Return a dict of JSON types, with the figures as they are printed."""
        return vars(self) | {"rows": round(self.rows, 3)} | _printed(self.rate, self.low, self.high)


@dataclass(frozen=True)
class ScoringRate:
    """Share of a group with scores above the median of all people, to the nearest bin."""

    group: str
    rate: float | None
    low: float
    high: float
    ratio: float | None  # over the highest rate of a group
    ratio_low: float
    ratio_high: float

    def to_dict(self) -> dict[str, Any]:
        """Return a dict of JSON types, with the figures as they are printed."""
        of_ratio = _printed(self.ratio, self.ratio_low, self.ratio_high)
        renamed = {f"ratio_{name}": value for name, value in of_ratio.items() if name != "rate"}
        rate = _printed(self.rate, self.low, self.high)
        return {"group": self.group, **rate, "ratio": of_ratio["rate"], **renamed}


@dataclass(frozen=True)
class ScoreCounts:
    """Held-out rows by group, label and bin of the score for the positive outcome.

    `counts`: by group, label and bin. The second label is the positive one; where rows are
    protected, a third stands for labels that are not among the classes. `unknown`: rows without a
    listed group. `count_epsilon`: of the noise in each count; None without noise.
    """

    groups: tuple[Hashable, ...]
    counts: Sequence[Sequence[Sequence[float]]]
    unknown: float
    count_epsilon: float | None = None

    def __post_init__(self) -> None:
        table = np.asarray(self.counts, dtype=np.float64)
        known = table.ndim == 3 and table.shape[0] == len(self.groups) and table.shape[1] in (2, 3)
        finite = bool(np.isfinite(table).all() and np.isfinite(self.unknown))
        if not known or table.shape[2] != BINS or not finite:
            raise ValueError(f"'scores' must hold counts of each group, label and {BINS} bins.")
        if len(self.groups) < 2:
            raise ValueError(f"'scores' must hold two groups or more; got {len(self.groups)}.")
        if self.count_epsilon is None and min(table.min(), self.unknown) < 0:
            raise ValueError("'scores' holds negative counts, which only noisy counts can be.")
        plain = tuple(tuple(tuple(map(float, bins)) for bins in labels) for labels in table)
        object.__setattr__(self, "counts", plain)
        object.__setattr__(self, "unknown", float(self.unknown))

    @classmethod
    def of_rows(
        cls,
        groups: tuple[Hashable, ...],
        cells: NDArray[np.int64],
        n_labels: int,
        scores: NDArray[np.float64],
    ) -> Self:
        """Count rows without noise; `cells` as `HeldOut` has them, negative without a group."""
        # Clipped before the product: a warning that it overflows would reveal a private row.
        known = np.clip(np.nan_to_num(np.asarray(scores, dtype=np.float64), nan=0.0), 0.0, 1.0)
        bins = np.minimum(np.floor(known * BINS), BINS - 1).astype(np.int64)
        shape = len(groups), n_labels, BINS
        kept = cells >= 0
        flat = np.bincount(cells[kept] * BINS + bins[kept], minlength=int(np.prod(shape)))
        return cls(groups, flat.reshape(shape).tolist(), float((~kept).sum()))

    def with_noise(self, noise: NDArray[np.int64], epsilon: float) -> Self:
        """Add noise to every count, that of unknown groups last: a record is in one of them."""
        table = np.asarray(self.counts)
        noisy = table + noise[:-1].reshape(table.shape)
        return type(self)(self.groups, noisy.tolist(), self.unknown + float(noise[-1]), epsilon)

    @property
    def size(self) -> int:
        """Number of counts."""
        return int(np.asarray(self.counts).size) + 1

    @cached_property
    def calibration(self) -> tuple[CalibrationLine, ...]:
        """Rates of the positive label by group and score; all intervals hold together (95 %)."""
        return tuple(self._calibration())

    def _calibration(self) -> Iterator[CalibrationLine]:
        table = np.asarray(self.counts)
        lines = table.reshape(*table.shape[:2], -1, _OF_LINE).sum(axis=-1)
        misses, hits = lines[:, 0], lines[:, 1]
        n_lines = hits.shape[1]
        low, high = self._ends(hits, misses, _OF_LINE, _OF_LINE, hits.size)
        for (place, line), positive in np.ndenumerate(hits):
            rows = float(positive + misses[place, line])
            yield CalibrationLine(
                group_text(self.groups[place]),
                line / n_lines,
                (line + 1) / n_lines,
                rows,
                _share(float(positive), rows),
                float(low[place, line]),
                float(high[place, line]),
            )

    @cached_property
    def median(self) -> tuple[int, float]:
        """Edge of a bin that about half of all people reach, by the counts, and their share."""
        of_all = np.asarray(self.counts).sum(axis=(0, 1))
        total = max(float(of_all.sum()), 1.0)
        above = np.clip(of_all[::-1].cumsum()[::-1] / total, 0.0, 1.0)
        edge = int(np.abs(above[1:] - 0.5).argmin()) + 1
        return edge, float(above[edge])

    @cached_property
    def scoring_rates(self) -> tuple[ScoringRate, ...]:
        """Share of each group above the median of all; all intervals hold together, with 95 %.

        The edge is read off the same counts, so the error is shared by all edges.
        """
        table = np.asarray(self.counts).sum(axis=1)
        n_labels, (edge, _) = len(self.counts[0]), self.median
        hits, misses = table[:, edge:].sum(axis=1), table[:, :edge].sum(axis=1)
        terms = n_labels * (BINS - edge), n_labels * edge
        n_intervals = len(self.groups) * (BINS - 1)
        low, high = self._ends(hits[:, None], misses[:, None], *terms, n_intervals)
        ends = [(float(a), float(b)) for a, b in zip(low[:, 0], high[:, 0], strict=True)]
        shares = [_share(float(k), float(k + m)) for k, m in zip(hits, misses, strict=True)]
        ratios = over_highest(shares, ends)
        return tuple(
            ScoringRate(group_text(group), rate, low, high, ratio, ratio_low, ratio_high)
            for group, rate, (low, high), (ratio, ratio_low, ratio_high) in zip(
                self.groups, shares, ends, ratios, strict=True
            )
        )

    def _ends(
        self, hits: NDArray, misses: NDArray, of_hits: int, of_misses: int, n_intervals: int
    ) -> tuple[NDArray, NDArray]:
        """Ends of intervals of rates, of which `n_intervals` hold together; arrays of one shape."""
        error = (1.0 - LEVEL) / n_intervals
        if self.count_epsilon is None:
            low, high = clopper_pearson(hits, misses, error / 2.0)
            return np.asarray(low), np.asarray(high)
        chosen, others = (np.rint(each).astype(np.int64) for each in (hits, misses))
        terms = (np.full(len(chosen), n) for n in (of_hits, of_misses))
        cells = NoisyCells(chosen, others, *terms)
        return private_rate_intervals(cells, self.count_epsilon, confidence_level=1.0 - error)

    def to_dict(self) -> dict[str, Any]:
        """Return a dict of JSON types."""
        return {
            "groups": [label_to_json(group) for group in self.groups],
            "counts": [[list(bins) for bins in labels] for labels in self.counts],
            "unknown": self.unknown,
            "count_epsilon": self.count_epsilon,
        }

    @classmethod
    def from_dict(cls, document: Any) -> Self:
        """Read what `to_dict` wrote."""
        groups = tuple(map(label_from_json, document["groups"]))
        return cls(groups, document["counts"], document["unknown"], document["count_epsilon"])


def _share(part: float, whole: float) -> float | None:
    return None if whole <= 0 else min(max(part / whole, 0.0), 1.0)


def _printed(rate: float | None, low: float, high: float) -> dict[str, float | None]:
    rounded = None if rate is None else round(rate, 3)
    return {"rate": rounded, "low": float(rounded_down(low)), "high": float(rounded_up(high))}
