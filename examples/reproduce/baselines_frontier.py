"""Accuracy of a learner at a given gap, and differences of two learners there."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from fairdp_measures import chosen, column

# Quantile of the normal law below which nine of ten draws lie.
NINE_IN_TEN = 1.2816


@dataclass(frozen=True)
class Points:
    """Gap and accuracy by setting (rows) and seed (columns).

    Parameters
    ----------
    gap, accuracy : ndarray, shape (n_settings, n_seeds)
    """

    gap: np.ndarray
    accuracy: np.ndarray


@dataclass(frozen=True)
class Difference:
    """Accuracy of this package minus the other's, at the other's gap or a smaller one.

    Parameters
    ----------
    ours : float
        Mean accuracy.
    mean, std : float
        Of the difference over seeds; the standard deviation is NaN for one seed.
    """

    ours: float
    mean: float
    std: float


def points(rows: Sequence[dict], settings: Sequence[dict], notion: str = "parity") -> Points:
    """Collect the fits of each setting, for the seeds that all of them have.

    Parameters
    ----------
    rows : sequence of dict
        Measured fits.
    settings : sequence of dict
        Fields that name the fits of a setting. Settings without any fit are left out.
    notion : str, default="parity"
        Which gap.

    Returns
    -------
    Points
    """
    found = [{fit["seed"]: fit for fit in chosen(rows, **wanted)} for wanted in settings]
    found = [fits for fits in found if fits]
    seeds = sorted(set.intersection(*map(set, found))) if found else []
    return Points(
        *(
            np.array([[fits[seed][name] for seed in seeds] for fits in found])
            for name in (notion, "accuracy")
        )
    )


def difference(ours: Points, gap: np.ndarray, accuracy: np.ndarray) -> Difference | None:
    """Compare our settings with another learner's fits at its mean gap.

    Ours at a gap is the best setting with no larger mean gap, or the straight line
    between the two settings whose mean gaps enclose it, whichever is higher. For the
    standard deviation the line is followed: a seed whose gap is larger by d than its mean
    is charged d times the line's slope.

    Parameters
    ----------
    ours : Points
    gap, accuracy : ndarray, shape (n_seeds,) or (1,)
        The other learner's; one value is one that has no seed.

    Returns
    -------
    Difference or None
        None when the other's gap is smaller than all of this package's.
    """
    n_seeds = min(ours.gap.shape[1], len(gap)) if len(gap) > 1 else ours.gap.shape[1]
    gap, accuracy = gap[:n_seeds], accuracy[:n_seeds]
    order = np.argsort(ours.gap[:, :n_seeds].mean(axis=1))
    gaps, accuracies = ours.gap[order, :n_seeds], ours.accuracy[order, :n_seeds]
    means, target = gaps.mean(axis=1), gap.mean()
    below = np.flatnonzero(means <= target + 1e-12)
    if len(below) == 0:
        return None
    lines = [accuracies[index] for index in below]
    last = below[-1]
    if last + 1 < len(means):
        width = means[last + 1] - means[last]
        share = (target - means[last]) / width
        slope = (accuracies[last + 1].mean() - accuracies[last].mean()) / width
        on_line = (1 - share) * accuracies[last] + share * accuracies[last + 1]
        its_gap = (1 - share) * gaps[last] + share * gaps[last + 1]
        lines.append(on_line + slope * (gap - its_gap))
    best = max(lines, key=np.mean)
    apart = best - accuracy
    std = float(apart.std(ddof=1)) if n_seeds > 1 else math.nan
    return Difference(float(best.mean()), float(apart.mean()), std)


def with_constant(ours: Points, fits: Sequence[dict]) -> Points:
    """Add the constant answer: gap 0, accuracy the share of the frequent label."""
    share = constant_accuracy(fits)
    n_seeds = ours.gap.shape[1]
    return Points(
        np.vstack([np.zeros(n_seeds), ours.gap]),
        np.vstack([np.full(n_seeds, share), ours.accuracy]),
    )


def constant_accuracy(fits: Sequence[dict]) -> float:
    """Accuracy of the constant answer on the test rows, mean over fits."""
    labels = [np.array(fit["table"]).sum(axis=(0, 2)) for fit in fits]
    return float(np.mean([counts.max() / counts.sum() for counts in labels]))


def sampling_error(fit: dict) -> float:
    """Standard error of the parity gap on the test rows, between two groups.

    sqrt(sum over groups of p (1 - p) / n), p the share of positive predictions; for more
    than two groups that of the largest and the smallest share.
    """
    table = np.array(fit["table"], dtype=float)
    n = table.sum(axis=(1, 2))
    p = table[:, :, 1].sum(axis=1) / n
    ends = [p.argmin(), p.argmax()]
    return float(np.sqrt((p * (1 - p) / n)[ends].sum()))


def kept(fits: Sequence[dict], tolerance: float) -> tuple[int, int, float]:
    """Count fits with a test gap within tolerance + .01.

    Parameters
    ----------
    fits : sequence of dict
        Measures.
    tolerance : float

    Returns
    -------
    strict, with_error : int
        Within tolerance + .01; within that plus `NINE_IN_TEN` sampling errors of the fit:
        a model whose true gap is tolerance + .01 passes nine times in ten.
    error : float
        Mean sampling error.
    """
    gap = column(fits, "parity")
    errors = np.array([sampling_error(fit) for fit in fits])
    limit = tolerance + 0.01
    return (
        int((gap <= limit).sum()),
        int((gap <= limit + NINE_IN_TEN * errors).sum()),
        float(errors.mean()),
    )
