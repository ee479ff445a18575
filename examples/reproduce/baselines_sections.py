"""Sections on the private frontier, on tolerances asked and kept, and on thresholds."""

from __future__ import annotations

import math

import numpy as np
from baselines_figures import ASKED_PARITY
from baselines_frontier import (
    NINE_IN_TEN,
    constant_accuracy,
    difference,
    kept,
    points,
)
from baselines_jobs import (
    ASKED,
    BOUNDS,
    DATASETS,
    FRONTIER,
    OTHER_DATASETS,
    REDUCTION,
)
from baselines_pareto import signed
from fairdp_data import TITLES
from fairdp_measures import chosen, column, margin, spread, table, threshold_frontier
from fairdp_published import COLUMNS, TABLE_3


def frontier(rows: list[dict]) -> str:
    """RateConstrained against the reduction at the reduction's gaps."""
    lines, summary = [], []
    for epsilon in (1.0, 0.5):
        found: list[tuple[float, str]] = []
        for name in DATASETS:
            ours = points(
                rows,
                [
                    {"dataset": name, "epsilon": epsilon, "tolerance": t, **ASKED_PARITY}
                    for t in FRONTIER
                ],
            )
            for bound in BOUNDS:
                theirs = chosen(rows, dataset=name, method=REDUCTION, tolerance=bound)
                if not theirs or len(ours.gap) == 0:
                    continue
                gap, accuracy = column(theirs, "parity"), column(theirs, "accuracy")
                apart = difference(ours, gap, accuracy)
                lines.append(
                    [f"{epsilon:g}", TITLES[name], f"{bound:g}", f"{gap.mean():.4f}",
                     f"{accuracy.mean():.4f}", "–" if apart is None else f"{apart.ours:.4f}",
                     signed(apart, 4)]
                )  # fmt: skip
                where = f"{TITLES[name]}, bound {bound:g}"
                found.append((-math.inf if apart is None else apart.mean, where))
        if found:
            summary.append(_range(found, epsilon))
    if not lines:
        return ""
    heading = ["ε", "data", "bound asked of EG", "its gap", "its accuracy",
               "RateConstrained there", "difference"]  # fmt: skip
    return (
        f"## The private frontier and the non-private one\n\n{' '.join(summary)}\n\n"
        f"RateConstrained is asked for {', '.join(f'{t:g}' for t in FRONTIER)}; nothing but the "
        "tolerance changes. Its accuracy at the reduction's test gap is that of the best setting "
        "with no larger mean gap, or the value of the straight line between the two neighbouring "
        "settings. The standard deviation is that of the difference seed by seed (same "
        "split), a seed's deviation in gap charged at the slope of the line.\n\n"
        + table(heading, lines)
    )


def _range(found: list[tuple[float, str]], epsilon: float) -> str:
    least, where = min(found)
    if not math.isfinite(least):
        return f"At ε = {epsilon:g} no tolerance asked gets below the reduction's gap ({where})."
    return (
        f"At ε = {epsilon:g} and the same parity gap, RateConstrained's accuracy is {least:+.4f} "
        f"({where}) to {max(found)[0]:+.4f} against fairlearn's non-private reduction."
    )


def published(rows: list[dict]) -> str:
    """Against what the FairDP paper prints for epsilon 1 and M = 1."""
    lines, compared = [], []
    for name in DATASETS:
        figures = dict(zip(COLUMNS, TABLE_3[name][1.0], strict=True))
        for tolerance in (0.02, 0.01):
            fits = chosen(rows, dataset=name, epsilon=1.0, tolerance=tolerance, **ASKED_PARITY)
            if not fits:
                continue
            cells, behind = [TITLES[name], f"{tolerance:g}"], []
            for what, word in (("accuracy", "accuracy"), ("auc", "AUC"), ("parity", "parity gap")):
                values = column(fits, what)
                verdict = margin(values, figures[what], larger_is_better=what != "parity")
                behind += [word] if verdict.startswith("worse") else []
                cells += [f"{figures[what]:g}", spread(values), verdict]
            lines.append(cells)
            compared.append(
                f"{TITLES[name]} asked {tolerance:g}: "
                + (f"all but {', '.join(behind)}" if behind else "all three")
            )
    if not lines:
        return ""
    heading = ["data", "asked", "published accuracy", "ours", "", "published AUC", "ours", "",
               "published parity gap", "ours", ""]  # fmt: skip
    return (
        "## Against the published FairDP (000, Table III: ε = 1, M = 1)\n\nOf accuracy, AUC and "
        "parity gap, RateConstrained at ε = 1 is at least as good as the published FairDP in: "
        f"{'; '.join(compared)}. [FairDP's page](fairdp_tables.md) has our own FairDP against the "
        "published figures.\n\n" + table(heading, lines)
    )


def tolerances(rows: list[dict]) -> str:
    """What was asked and what the test rows say."""
    lines, failed, total = [], [], 0
    for name in (*DATASETS, *OTHER_DATASETS):
        for tolerance in ASKED:
            fits = chosen(rows, dataset=name, epsilon=1.0, tolerance=tolerance, **ASKED_PARITY)
            if not fits:
                continue
            strict, with_error, error = kept(fits, tolerance)
            total += 1
            if 10 * with_error < 9 * len(fits):
                failed.append(f"{TITLES[name]} at {tolerance:g} ({with_error} of {len(fits)})")
            gap = column(fits, "parity")
            lines.append(
                [TITLES[name], f"{tolerance:g}", spread(gap), f"{gap.max():.3f}",
                 f"{strict} of {len(fits)}", f"{error:.4f}", f"{with_error} of {len(fits)}",
                 spread(column(fits, "accuracy")), f"{column(fits, 'selected').mean():.3f}"]
            )  # fmt: skip
    if not lines:
        return ""
    summary = (
        f"In {total - len(failed)} of {total} cases at least nine of ten seeds have a test gap "
        "within the tolerance + .01 and the test part's sampling error"
        + (f"; not: {', '.join(failed)}." if failed else ".")
    )
    heading = ["data", "asked", "test gap", "largest", "within asked + .01", "sampling error s",
               "within asked + .01 + 1.28 s", "accuracy", "positive"]  # fmt: skip
    return (
        "## Tolerance asked, tolerance kept (ε = 1, the same defaults everywhere)\n\n"
        f"{summary}\n\n"
        "s² = Σ p(1 − p)/n over the two groups, p a group's share of positive predictions and n "
        "its test rows, s averaged over seeds here: the standard error of the gap that the test "
        f"part alone makes. {NINE_IN_TEN:.2f} is the normal quantile of nine in ten: a model "
        "whose true gap is exactly asked + .01 stays within the wider limit with that "
        "probability.\n\n" + table(heading, lines)
    )


def thresholds(rows: list[dict]) -> str:
    """Against the constant, and against thresholds on DP-SGD's scores."""
    lines, behind = [], []
    for name in (*DATASETS, *OTHER_DATASETS):
        base = chosen(rows, dataset=name, method="dpsgd", epsilon=1.0)
        if not base:
            continue
        best = threshold_frontier(base)
        constant = constant_accuracy(base)
        for tolerance in ASKED:
            fits = chosen(rows, dataset=name, epsilon=1.0, tolerance=tolerance, **ASKED_PARITY)
            if not fits:
                continue
            accuracy, gap = column(fits, "accuracy"), column(fits, "parity").mean()
            moved = best(gap)
            if accuracy.mean() <= max(constant, moved):
                behind.append(f"{TITLES[name]} at {tolerance:g}")
            lines.append(
                [TITLES[name], f"{tolerance:g}", f"{gap:.3f}", spread(accuracy),
                 _apart(accuracy, constant), f"{moved:.3f}", _apart(accuracy, moved)]
            )  # fmt: skip
    if not lines:
        return ""
    summary = (
        "RateConstrained is more accurate than the constant answer and than DP-SGD with a moved "
        "threshold, at its own gap"
        + (f", except: {', '.join(behind)}." if behind else ", everywhere.")
    )
    heading = ["data", "asked", "test gap", "accuracy", "above the constant",
               "DP-SGD, best threshold", "above it"]  # fmt: skip
    return (
        f"## Against a threshold (ε = 1)\n\n{summary}\n\nA simple way to a small gap is to move "
        "DP-SGD's one threshold until nearly all people get the same answer. The last "
        "columns hold the accuracy of the best threshold whose parity gap is no larger than "
        "RateConstrained's; it is chosen on the test rows, which favours it.\n\n"
        + table(heading, lines)
    )


def _apart(values: np.ndarray, other: float) -> str:
    ahead = values.mean() - other
    if len(values) < 2 or values.std(ddof=1) < 5e-5:
        return f"{ahead:+.3f}"
    return f"{ahead:+.3f} ({ahead / values.std(ddof=1):+.1f} std)"
