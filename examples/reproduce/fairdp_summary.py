"""First section of the report: findings as sentences made from the figures."""

from __future__ import annotations

import numpy as np
from fairdp_data import TITLES
from fairdp_jobs import HEAD_NORMS
from fairdp_measures import chosen, column, spread, threshold_frontier
from fairdp_published import TABLE_3

LEAD = """\
FairDP with sound accounting does not make groups more equal: on Adult its parity gap is that of
the same network without privacy. A smaller M only gives more people the frequent label.
For a small gap at the same ε, use [rate constraints](baselines.md).
"""
END = """\
Columns and data: [how it was measured](#how-it-was-measured). "000" is
the paper's later version, "001" its first.
"""


def summary(rows: list[dict]) -> str:
    """Compare the data sets of Table III with the published figures, and say what follows."""
    lines = [_data_set(rows, name) for name in TABLE_3 if chosen(rows, part="main", dataset=name)]
    if not lines:
        return END
    return "\n".join(
        [LEAD, *lines, *_thresholds(rows), *_certificates(rows), *_noise(rows), "", END]
    )


def _data_set(rows: list[dict], name: str) -> str:
    auc, accuracy, parity, *_ = TABLE_3[name][1.0]
    main = {"part": "main", "dataset": name}
    ours = chosen(rows, method="fairdp", epsilon=1.0, max_head_norm=1.0, **main)
    clean = column(chosen(rows, method="clean", **main), "parity")
    gap = column(ours, "parity")
    figures = ", ".join(
        f"{what} {spread(column(ours, key))} (published {printed:.2f})"
        for what, key, printed in (("accuracy", "accuracy", accuracy), ("AUC", "auc", auc))
    )
    text = (
        f"* **{TITLES[name]}**: FairDP at ε = 1, M = 1 has {figures} and a parity gap of "
        f"{spread(gap)} (published {parity:.3f}; without privacy {spread(clean)})."
    )
    if round(gap.mean(), 3) <= parity:
        return text
    small = [
        (norm, fits)
        for norm in reversed(HEAD_NORMS)
        if (fits := chosen(rows, method="fairdp", epsilon=1.0, max_head_norm=norm, **main))
        and round(column(fits, "parity").mean(), 3) <= parity
    ]
    if not small:
        return f"{text} No M has a gap as small as published."
    norm, fits = small[0]
    return (
        f"{text} M = {norm:g} has a gap as small as published, at accuracy "
        f"{spread(column(fits, 'accuracy'))} with "
        f"{100 * column(fits, 'selected').mean():.1f} % positive predictions (of "
        f"{100 * np.mean([_base_rate(fit) for fit in fits]):.1f} % positive labels)."
    )


def _base_rate(fit: dict) -> float:
    counts = np.array(fit["table"], dtype=float)
    return float(counts[:, 1].sum() / counts.sum())


def _thresholds(rows: list[dict]) -> list[str]:
    compared, apart = [], []
    for name, published in TABLE_3.items():
        clean = chosen(rows, part="main", dataset=name, method="clean")
        if clean:
            _, accuracy, parity, *_ = published[1.0]
            moved = threshold_frontier(clean)(parity)
            compared.append(f"{TITLES[name]} {moved:.3f} (published {accuracy:.2f})")
            apart.append(abs(moved - accuracy))
    if not compared:
        return []
    return [
        "* **A threshold explains the published gaps.** Giving more people the frequent label, by "
        "moving the threshold of the clean model until its parity gap is the published one for "
        f"M = 1, leaves the accuracy {', '.join(compared)}. So, to within {max(apart):.3f} in "
        "accuracy, the published gaps are what a threshold does; our networks fit better at M = 1 "
        "and are pushed less far along that line."
    ]


def _certificates(rows: list[dict]) -> list[str]:
    fits = [fit for fit in chosen(rows, part="main") if fit.get("certified_bound") is not None]
    if not fits:
        return []
    above = np.array([fit["certified_bound"] - fit["parity"] for fit in fits])
    return [
        f"* **Certificates** state parity gaps {above.min():.3f} to {above.max():.3f} (median "
        f"{np.median(above):.3f}) above the test estimate. Large gaps are certified as large: "
        "FairDP does not equalise, and its certificate says so."
    ]


def _noise(rows: list[dict]) -> list[str]:
    lines = []
    for name in ("adult", "default", "utkface", "law"):
        free = column(
            chosen(rows, part="main", dataset=name, method="fairdp", epsilon=None), "parity"
        )
        noisy = column(
            chosen(
                rows, part="main", dataset=name, method="fairdp", epsilon=0.5, max_head_norm=1.0
            ),
            "parity",
        )
        if len(free) and len(noisy):
            lines.append(f"{TITLES[name]} {free.mean():.3f} → {noisy.mean():.3f}")
    if not lines:
        return []
    return [
        "* **How the gap moves with ε.** Parity gap of "
        f"FairDP at M = 1 from no noise to ε = 0.5: {', '.join(lines)}."
    ]
