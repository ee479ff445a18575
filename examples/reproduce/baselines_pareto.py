"""Every private row of the comparison against RateConstrained."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from baselines_frontier import Difference, difference, points, with_constant
from baselines_jobs import ASKED, DATASETS, FRONTIER, LOOSE, METHODS, NOTIONS, SHOWN, WORDS
from fairdp_data import TITLES
from fairdp_measures import chosen, column, table


def pareto(rows: list[dict]) -> str:
    """Every private row at epsilon 1 against RateConstrained."""
    lines, beaten, behind = [], [], []
    for name in DATASETS:
        at_one = {"dataset": name, "epsilon": 1.0}
        asked = {**at_one, "method": "rate", "notion": "demographic_parity"}
        reached = points(rows, [{**asked, "tolerance": t} for t in (*FRONTIER, LOOSE)])
        for method, row in METHODS.items():
            fits = chosen(rows, method=method, **at_one)
            if method == "rate" or not fits or len(reached.gap) == 0:
                continue
            label = f"{row.title} on {TITLES[name]}"
            by = _beats(rows, fits, at_one)
            beaten += [(f"{label} ({text})", ahead) for gap, text, ahead in by if gap == "parity"]
            apart = difference(
                with_constant(reached, fits), column(fits, "parity"), column(fits, "accuracy")
            )
            if apart is not None and apart.mean < 0:
                behind.append(f"{label} by {-apart.mean:.4f}")
            lines.append(
                [TITLES[name], row.title, f"{column(fits, 'accuracy').mean():.3f}",
                 *(f"{column(fits, gap).mean():.3f}" for gap in NOTIONS),
                 "; ".join(text for _, text, _ in by) or "none", signed(apart, 4)]
            )  # fmt: skip
    if not lines:
        return ""
    clear = [text for text, ahead in beaten if ahead >= 2.0]
    summary = (
        "At once more accurate than RateConstrained and with a smaller parity gap, by two standard "
        f"errors or more: {'; '.join(clear) or 'none'}. By less, which is noise: "
        f"{len(beaten) - len(clear)} of {len(lines) * (len(ASKED) + 1)} comparisons. At a row's "
        "own gap RateConstrained is less accurate "
        + (f"than {'; '.join(behind)}." if behind else "than none.")
    )
    heading = ["data", "row", "accuracy", *WORDS.values(),
               "beats RateConstrained asked for", "RateConstrained at its parity gap"]  # fmt: skip
    return (
        f"## Pareto comparison at ε = 1\n\n{summary}\n\n"
        '"Beats": the row is on average better than RateConstrained in accuracy *and* in the gap '
        "that RateConstrained was asked to keep small, same seeds and splits; after it, by how "
        "many standard errors of the mean difference (s.e.), the smaller of the two figures. "
        f"RateConstrained was asked for a demographic parity gap of "
        f"{', '.join(f'{t:g}' for t in (*ASKED, LOOSE))}, and for {SHOWN:g} of each other notion. "
        "Last column: accuracy of RateConstrained minus the row's, at the row's parity gap (found "
        "as for the frontier above; the constant answer, gap 0, is one of the settings).\n\n"
        + table(heading, lines)
    )


def _beats(rows: list[dict], fits: list[dict], at_one: dict) -> list[tuple[str, str, float]]:
    """Requests to RateConstrained at which `fits` are better in accuracy and gap at once."""
    found = []
    for gap, notion in NOTIONS.items():
        for tolerance in (*ASKED, LOOSE) if gap == "parity" else (SHOWN,):
            ours = chosen(rows, method="rate", notion=notion, tolerance=tolerance, **at_one)
            ahead = _ahead(fits, ours, gap)
            if ahead is not None:
                words = f"{WORDS[gap]} {tolerance:g}, by {ahead:.1f} s.e."
                found.append((gap, words, ahead))
    return found


def _ahead(fits: Sequence[dict], ours: Sequence[dict], gap: str) -> float | None:
    """By how many standard errors `fits` are better in both; None where they are not."""
    own = {fit["seed"]: fit for fit in ours}
    pairs = [(fit, own[fit["seed"]]) for fit in fits if fit["seed"] in own]
    errors = []
    for what, sign in (("accuracy", 1.0), (gap, -1.0)):
        apart = sign * np.array([theirs[what] - mine[what] for theirs, mine in pairs])
        if len(apart) == 0 or apart.mean() < 0:
            return None
        error = apart.std(ddof=1) / math.sqrt(len(apart)) if len(apart) > 1 else 0.0
        errors.append(apart.mean() / error if error > 0 else math.inf)
    return min(errors)


def signed(apart: Difference | None, digits: int) -> str:
    """Write a difference with its standard deviation over seeds."""
    if apart is None:
        return "its gap is smaller"
    spread_of = "" if math.isnan(apart.std) else f" ± {apart.std:.{digits}f}"
    return f"{apart.mean:+.{digits}f}{spread_of}"
