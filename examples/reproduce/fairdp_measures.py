"""Rates, gaps and tests from the counts that a fit leaves behind."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import stats

from skfairdp.fairness.intervals import gap_upper_bound

NOTIONS = ("parity", "opportunity", "odds", "false_positive")


def measures(row: dict) -> dict[str, float]:
    """Accuracy, AUC, gaps and share of positive predictions of one fit's test rows.

    "odds" is the larger of the gaps of true and of false positive rates.
    """
    return {**row, **gaps(np.array(row["table"], dtype=float))}


def gaps(table: np.ndarray) -> dict[str, float]:
    """Gaps of a (group, label, prediction) table of counts."""
    with np.errstate(invalid="ignore"):
        rate = table[:, :, 1] / table.sum(axis=2)
    overall = table[:, :, 1].sum(axis=1) / table.sum(axis=(1, 2))
    opportunity, false_positive = np.ptp(rate[:, 1]), np.ptp(rate[:, 0])
    return {
        "parity": float(np.ptp(overall)),
        "opportunity": float(opportunity),
        "false_positive": float(false_positive),
        "odds": float(max(opportunity, false_positive)),
        "selected": float(table[:, :, 1].sum() / table.sum()),
        "accuracy": float((table[:, 0, 0].sum() + table[:, 1, 1].sum()) / table.sum()),
    }


def parity_bound(table: np.ndarray) -> float:
    """95 % bound on the parity gap from test counts."""
    return float(gap_upper_bound(table[:, :, 1].sum(axis=1), table.sum(axis=(1, 2))))


def chosen(rows: Sequence[dict], **wanted: object) -> list[dict]:
    """Measures of the fits with the given fields."""
    return [
        measures(row) for row in rows if all(row[name] == value for name, value in wanted.items())
    ]


def column(fits: Sequence[dict], name: str) -> np.ndarray:
    """One measure of several fits, without those that lack it."""
    return np.array([fit[name] for fit in fits if fit.get(name) is not None], dtype=float)


def spread(values: np.ndarray, digits: int = 3) -> str:
    """Mean and standard deviation over seeds, as text."""
    if len(values) == 0:
        return "–"
    if len(values) == 1:
        return f"{values[0]:.{digits}f}"
    return f"{values.mean():.{digits}f} ± {values.std(ddof=1):.{digits}f}"


def margin(values: np.ndarray, target: float, *, larger_is_better: bool, digits: int = 3) -> str:
    """Whether the mean meets a target, and by how many standard deviations over seeds."""
    sign = 1.0 if larger_is_better else -1.0
    # Published figures are rounded; so are ours before they are compared.
    ahead = sign * (round(float(values.mean()), digits) - target)
    word = "met" if ahead >= 0 else "missed"
    std = values.std(ddof=1) if len(values) > 1 else 0.0
    if std < 5e-7:
        return f"{word} by {abs(ahead):.{digits}f}, no spread"
    return f"{word} by {abs(ahead) / std:.1f} std"


def welch(a: np.ndarray, b: np.ndarray) -> str:
    """P-value of a two-tailed Welch t-test, as text."""
    if len(a) < 2 or len(b) < 2 or (np.ptp(a) < 1e-12 and np.ptp(b) < 1e-12):
        return "–"
    p = stats.ttest_ind(a, b, equal_var=False).pvalue
    return f"{p:.2g}"


def table(heading: list[str], lines: list[list[str]]) -> str:
    """Markdown table."""
    shown = [heading, ["---"] * len(heading), *lines]
    return "\n".join("| " + " | ".join(line) + " |" for line in shown)


def shifted_tables(table: np.ndarray, distance: float, draws: int, seed: int) -> np.ndarray:
    """Resample test rows so that the shares of (group, label) cells move by `distance`.

    The new shares lie on the line from the old ones towards a random point of the
    simplex; their total variation distance from the old ones is `distance`. Rows of a cell
    are drawn with replacement, so their predictions are binomial.

    Parameters
    ----------
    table : ndarray, shape (n_groups, 2, 2)
        Counts by (group, label, prediction).
    distance : float
        Total variation distance, in [0, 1).
    draws : int
        How many directions.
    seed : int

    Returns
    -------
    ndarray, shape (draws, n_groups, 2, 2)
    """
    generator = np.random.default_rng(seed)
    cells = table.sum(axis=2)
    share = cells / cells.sum()
    rate = table[:, :, 1] / np.maximum(cells, 1)
    found = []
    while len(found) < draws:
        towards = generator.dirichlet(np.ones(share.size)).reshape(share.shape)
        reach = 0.5 * np.abs(towards - share).sum()
        if reach < distance:
            continue
        moved = share + (distance / reach) * (towards - share)
        rows = np.rint(moved * cells.sum()).astype(np.int64)
        positive = generator.binomial(rows, rate)
        found.append(np.stack([rows - positive, positive], axis=-1))
    return np.array(found, dtype=float)
