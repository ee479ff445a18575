"""Sections of the report that hold our figures against the published ones."""

from __future__ import annotations

import numpy as np
from fairdp_data import TITLES
from fairdp_jobs import HEAD_NORMS
from fairdp_measures import chosen, column, margin, spread, table, threshold_frontier
from fairdp_published import COLUMNS, FIRST_TABLE_3, TABLE_3


def published(rows: list[dict]) -> str:
    """Comparison with Table III of 000."""
    blocks = []
    for name, published in TABLE_3.items():
        lines = []
        for norm, figures in published.items():
            fits = chosen(rows, part="main", dataset=name, method="fairdp", epsilon=1.0,
                          max_head_norm=norm)  # fmt: skip
            if not fits:
                continue
            for index, (what, printed) in enumerate(zip(COLUMNS, figures, strict=True)):
                values = column(fits, what)
                better = what in ("auc", "accuracy")
                lines.append(
                    [
                        f"{norm:g}" if index == 0 else "",
                        what,
                        f"{printed:.3f}",
                        spread(values),
                        margin(values, printed, larger_is_better=better),
                    ]
                )
        if lines:
            heading = ["M", "figure", "published", "ours", "ours against published"]
            blocks.append(f"### {TITLES[name]}\n\n{table(heading, lines)}")
    if not blocks:
        return ""
    return (
        "## Against the published figures (000, Table III: ε = 1)\n\n"
        '"Better by k std": our mean is on the better side of the published figure, by k of our '
        "standard deviations over seeds. A model that always gives the same answer has gap 0; "
        "where the published gap is 0, the published model was such a one: its accuracy is about "
        "the share of the larger class.\n\n" + "\n\n".join(blocks)
    )


def explanation(rows: list[dict], pictures: dict[str, str]) -> str:
    """What M does to scores, decisions and gaps."""
    lines = []
    for name in TITLES:
        main = {"part": "main", "dataset": name}
        clean = chosen(rows, method="clean", **main)
        private = chosen(rows, method="fairdp", epsilon=1.0, **main)
        if not clean or not private:
            continue
        frontier = threshold_frontier(clean)
        cases = [("clean", clean)]
        cases.append(("FairDP, no noise, M = 1",
                      chosen(rows, method="fairdp", epsilon=None, **main)))  # fmt: skip
        cases += [
            (f"FairDP, ε = 1, M = {norm:g}",
             [fit for fit in private if fit["max_head_norm"] == norm])
            for norm in reversed(HEAD_NORMS)
        ]  # fmt: skip
        for index, (label, fits) in enumerate(case for case in cases if case[1]):
            lines.append(
                [
                    TITLES[name] if index == 0 else "",
                    label,
                    spread(column(fits, "mean_abs_logit"), 2),
                    spread(column(fits, "selected")),
                    spread(column(fits, "parity")),
                    spread(column(fits, "accuracy")),
                    f"{frontier(column(fits, 'parity').mean()):.3f}",
                ]
            )
        lines += [
            ["", f"as published, ε = 1, M = {norm:g}", "", "", f"{parity:.3f}", f"{accuracy:.2f}",
             f"{frontier(parity):.3f}"]
            for norm, (_, accuracy, parity, *_) in reversed(TABLE_3.get(name, {}).items())
        ]  # fmt: skip
    if not lines:
        return ""
    heading = ["data", "model", "mean abs. logit", "share positive", "parity gap", "accuracy",
               "accuracy of clean, threshold moved"]  # fmt: skip
    picture = (
        f"\n\n![Accuracy against parity gap]({pictures['tradeoff']})" if "tradeoff" in pictures
        else ""
    )  # fmt: skip
    return f"""## Why the gap shrinks, where it does

M bounds the head's weights and so the size of the scores. Multiplying a head by a constant changes
no decision at threshold 0, so a small M cannot equalise groups by itself. Instead training puts
most of a bounded score into the bias, and more rows get the more frequent label. When nearly all
people get the same answer the gap is small. The table shows how the share of positive predictions
moves away from the clean model's, towards 0 or 1, together with the gap and the accuracy. A simpler
way to the same end is to move the *clean* model's threshold. The last column is the best accuracy
of a moved threshold whose parity gap is no larger than that of the row. On the synthetic set the
labels are balanced, the bias plays no part, and M changes hardly anything.

{table(heading, lines)}{picture}"""


def first_table_3(rows: list[dict]) -> str:
    """Comparison with Table 3 of 001."""
    lines = []
    for (name, epsilon), (gaps, taus) in FIRST_TABLE_3.items():
        fits = chosen(rows, part="main", dataset=name, method="fairdp", epsilon=epsilon,
                      max_head_norm=1.0)  # fmt: skip
        for what, gap, tau in zip(("parity", "opportunity", "odds"), gaps, taus, strict=True):
            if fits:
                released = np.array([fit["tau_emp"]["tau"][what] for fit in fits])
                values = column(fits, what)
                lines.append([TITLES[name], f"{epsilon:g}", what, f"{gap:.3f}", spread(values),
                              margin(values, gap, larger_is_better=False), f"{tau:.3f}",
                              spread(released)])  # fmt: skip
    if not lines:
        return ""
    heading = ["data", "ε", "notion", "published gap", "our gap", "against published",
               "published τ_emp", "our τ_emp"]  # fmt: skip
    return (
        "## 001, Table 3: gaps and τ_emp (M = 1)\n\nSmaller is better. The paper's M lies between "
        "0.1 and 1 and is not said. Law School is another file than the paper's, with other "
        "labels. A gap near 0 is no merit by itself: see the share of positive predictions and the "
        "accuracy in the tables above. Our τ_emp is the released one; on a thousand rows its noise "
        "and the sampling error dominate it, and the published one, close to the gap itself, can "
        "hold neither.\n\n" + table(heading, lines)
    )
