"""Sentences about a frontier that are computed from its models."""

from __future__ import annotations

from collections import Counter

import pandas as pd
from frontier_jobs import EPSILONS, FIGURES, TOLERANCES

__all__ = ["CONSTANT", "best_within", "facts"]

CONSTANT = "one answer for all"
ASKED = 0.02
GAP = "demographic_parity"


def best_within(models: pd.DataFrame, constant: float) -> pd.DataFrame:
    """Most accurate model for every epsilon and limit on the demographic-parity gap.

    Parameters
    ----------
    models : DataFrame
    constant : float
        Accuracy of one answer for all, which keeps every limit.

    Returns
    -------
    DataFrame
    """
    rows = []
    for epsilon in EPSILONS:
        for limit in TOLERANCES:
            kept = models[(models["epsilon"] == epsilon) & (models[GAP] <= limit)]
            row = {"ε": epsilon, "gap ≤": limit, "mechanism": CONSTANT, "model": CONSTANT}
            row |= {**dict.fromkeys(FIGURES, 0.0), "accuracy": constant, "auc": 0.5}
            if len(kept) and kept["accuracy"].max() > constant:
                best = kept.loc[kept["accuracy"].idxmax()]
                row |= {"mechanism": best["mechanism"], "model": best["name"]}
                row |= {name: best[name] for name in FIGURES}
            rows.append(row | {"kept by": len(kept)})
    return pd.DataFrame(rows)


def facts(models: pd.DataFrame, best: pd.DataFrame, constant: float) -> list[str]:
    """Say what the models show, in a few lines.

    Parameters
    ----------
    models : DataFrame
    best : DataFrame
        See `best_within`.
    constant : float

    Returns
    -------
    list of str
    """
    wins = Counter(best["mechanism"]).most_common()
    at_one = models[models["epsilon"] == 1.0]
    within = at_one[at_one[GAP] <= ASKED]
    within = within[within["accuracy"] > constant]
    reached = within.groupby("mechanism")["accuracy"].max().sort_values(ascending=False)
    free = at_one.loc[at_one["accuracy"].idxmax()]
    lines = [
        f"* Most accurate under the {len(best)} pairs of limits in the table: "
        + ", ".join(f"{name} {count}" for name, count in wins) + ".",
        f"* At ε = 1, without a limit on the gap: {free['name']}, accuracy {free['accuracy']:.3f} "
        f"with a gap of {free[GAP]:.3f}. Within a gap of {ASKED}: "
        + ", ".join(f"{name} {value:.3f}" for name, value in reached.items())
        + ("; no other" if len(reached) else "no")
        + f" mechanism is there more accurate than {CONSTANT} ({constant:.3f}).",
    ]  # fmt: skip
    if len(reached):
        first = within.loc[within["accuracy"].idxmax()]
        if first["equalized_odds"] > 2 * ASKED:
            lines.append(
                f"* What is even in one notion need not be in another: {first['name']} has a gap "
                f"of {first[GAP]:.3f} in demographic parity and {first['equalized_odds']:.3f} in "
                "equalized odds."
            )
    price = [
        f"{kept['accuracy'].max():.3f} at ε = {epsilon:g}"
        for epsilon in EPSILONS
        if len(kept := models[(models["epsilon"] == epsilon) & (models[GAP] <= ASKED)])
    ]
    lines.append(f"* Best accuracy within a gap of {ASKED}: {', '.join(price) or 'none'}.")
    return lines
