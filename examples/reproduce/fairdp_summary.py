"""The first section of the report: what was reached, in sentences made from the figures."""

from __future__ import annotations

import numpy as np
from fairdp_data import TITLES
from fairdp_jobs import HEAD_NORMS
from fairdp_measures import chosen, column, spread, threshold_frontier
from fairdp_published import TABLE_3


def summary(rows: list[dict]) -> str:
    """State, for each data set of Table III, what is reached and what is not."""
    lines = [_data_set(rows, name) for name in TABLE_3 if chosen(rows, part="main", dataset=name)]
    if not lines:
        return ""
    return "\n".join(
        ["## In short", "", *lines, *_thresholds(rows), *_certificates(rows), *_noise(rows)]
    )


def _data_set(rows: list[dict], name: str) -> str:
    auc, accuracy, parity, *_ = TABLE_3[name][1.0]
    main = {"part": "main", "dataset": name}
    ours = chosen(rows, method="fairdp", epsilon=1.0, max_head_norm=1.0, **main)
    clean = column(chosen(rows, method="clean", **main), "parity")
    gap = column(ours, "parity")
    reached = [
        f"{what} {spread(column(ours, key))} (published {target:.2f}: "
        f"{'reached' if round(column(ours, key).mean(), 3) >= target else 'missed'})"
        for what, key, target in (("accuracy", "accuracy", accuracy), ("AUC", "auc", auc))
    ]
    text = (
        f"* **{TITLES[name]}**, FairDP at ε = 1, M = 1: {', '.join(reached)}, parity gap "
        f"{spread(gap)} (published {parity:.3f}: "
    )
    if round(gap.mean(), 3) <= parity:
        return f"{text}reached; clean {spread(clean)})."
    text += f"**missed by {gap.mean() - parity:.3f}**; clean {spread(clean)})."
    small = [
        (norm, fits)
        for norm in reversed(HEAD_NORMS)
        if (fits := chosen(rows, method="fairdp", epsilon=1.0, max_head_norm=norm, **main))
        and round(column(fits, "parity").mean(), 3) <= parity
    ]
    if not small:
        return f"{text} No M reaches it."
    norm, fits = small[0]
    return (
        f"{text} M = {norm:g} gets below it, at accuracy {spread(column(fits, 'accuracy'))} with "
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
        "* **What the published gaps are worth.** Giving more people the frequent label, by moving "
        "the threshold of the clean model until its parity gap is the published one for M = 1, "
        f"leaves the accuracy {', '.join(compared)}. So, to within {max(apart):.3f} in accuracy, "
        "the published gaps are what a threshold does; our networks fit better at M = 1 and are "
        "pushed less far along that line."
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
        "* **Less ε, less gap?** Parity gap of FairDP at M = 1 from no noise to ε = 0.5: "
        f"{', '.join(lines)}."
    ]
