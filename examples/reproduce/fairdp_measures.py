"""Rates, gaps and tests from the counts that a fit leaves behind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
from scipy import stats

from skfairdp.fairness.bounds.rate_gaps import gap_upper_bound

DISTANCES = (0.0, 0.1, 0.2, 0.3)  # of shifted test parts
DRAWS = 40  # directions of the shift for each seed


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
        "accuracy_parity": float(
            np.ptp((table[:, 0, 0] + table[:, 1, 1]) / table.sum(axis=(1, 2)))
        ),
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


def margin(values: np.ndarray, printed: float, *, larger_is_better: bool, digits: int = 3) -> str:
    """Whether the mean is better than a printed figure, and by how many standard deviations."""
    sign = 1.0 if larger_is_better else -1.0
    # Ours as printed; the published figure is taken at face value.
    ahead = sign * (round(float(values.mean()), digits) - printed)
    if abs(ahead) < 1e-9:
        return "equal"
    word = "better" if ahead > 0 else "worse"
    std = values.std(ddof=1) if len(values) > 1 else 0.0
    if std < 5e-5:
        return f"{word} by {abs(ahead):.{digits}f}, no spread"
    return f"{word} by {abs(ahead) / std:.1f} std"


def welch(a: np.ndarray, b: np.ndarray) -> str:
    """P-value of a two-tailed Welch t-test, as text."""
    if len(a) < 2 or len(b) < 2 or (np.ptp(a) < 1e-12 and np.ptp(b) < 1e-12):
        return "–"
    moments = [f(x) for x in (a, b) for f in (np.mean, lambda x: np.std(x, ddof=1), len)]
    return f"{stats.ttest_ind_from_stats(*moments, equal_var=False).pvalue:.2g}"


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


def shift_estimates(rows: list[dict], name: str, method: str, epsilon: float | None) -> np.ndarray:
    """Parity gaps on resampled test rows, shape (n_distances, n_fits * DRAWS)."""
    norm = 1.0 if method == "fairdp" else None
    fits = chosen(
        rows, part="main", dataset=name, method=method, epsilon=epsilon, max_head_norm=norm
    )
    return np.array(
        [
            [
                gaps(moved)["parity"]
                for fit in fits
                for moved in shifted_tables(
                    np.array(fit["table"], dtype=float), distance, DRAWS, fit["seed"]
                )
            ]
            for distance in DISTANCES
        ]
    )


def threshold_frontier(fits: Sequence[dict]) -> Callable[[float], float]:
    """What moving a model's threshold reaches: accuracy against parity gap.

    Parameters
    ----------
    fits : sequence of dict
        Measures of fits with a "curve": a table of counts for every threshold.

    Returns
    -------
    callable
        From a gap to the best accuracy at no larger gap, mean over fits. Between two
        neighbouring thresholds counts are interpolated; giving all the frequent
        label is always possible.
    """
    curves = []
    for fit in fits:
        curve = np.array(fit["curve"], dtype=float)
        share = np.linspace(0, 1, 21)[:, None, None, None]
        points = [gaps(t) for a, b in pairwise(curve) for t in a + share * (b - a)]
        constant = curve[0].sum(axis=(0, 2)).max() / curve[0].sum()
        curves.append(
            [(0.0, constant), *((point["parity"], point["accuracy"]) for point in points)]
        )

    def best(gap: float) -> float:
        return float(
            np.mean([max(acc for at, acc in curve if at <= gap + 1e-9) for curve in curves])
        )

    return best
