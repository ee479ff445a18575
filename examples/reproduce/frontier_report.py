"""Pages and tables of the frontiers."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd
from frontier_facts import CONSTANT, best_within, facts
from frontier_figures import draw_by_mechanism, draw_frontier
from frontier_jobs import DATASETS, FIGURES, Job
from frontier_texts import HEAD, KNOBS, LEFT_OUT, MEASURED, PROTECTS, TITLES
from pages import write_pages

from skfairdp.model_selection import save_explorer

__all__ = ["models_of", "write_report"]

KEYS = ["mechanism", "epsilon", "tolerance", "threshold"]


def write_report(jobs: list[Job], fits: dict[Job, list[dict]], out: Path) -> str:
    """Write pictures, explorer pages and frontier.md.

    Parameters
    ----------
    jobs : list of Job
        All that were planned.
    fits : dict
        Measurements of those that were made.
    out : Path
        Folder for the results.

    Returns
    -------
    str
        The page that was written.
    """
    relation = {job.mechanism: lines[0]["protects"] for job, lines in fits.items()}
    parts = [HEAD]
    for protects, title in TITLES.items():
        sections = []
        for dataset in DATASETS:
            own = [
                j for j in jobs if j.dataset == dataset and relation.get(j.mechanism) == protects
            ]
            # A seed that was stopped half way would favour the mechanisms that came first.
            seeds = {j.seed for j in own} - {j.seed for j in own if j not in fits}
            made = pd.DataFrame([line for j in own if j.seed in seeds for line in fits[j]])
            if not made.empty:
                sections.append(_section(made, dataset, protects, out))
        if sections:
            parts += [f"## {title}\n", *sections]
    page = "\n".join([*parts, MEASURED, _mechanisms(fits), LEFT_OUT.strip(), ""])
    write_pages(out / "frontier.md", page)
    return page


def models_of(made: pd.DataFrame) -> tuple[pd.DataFrame, float]:
    """Average over seeds, and say what one answer for all scores.

    Parameters
    ----------
    made : DataFrame
        Measurements, one row a fit and threshold.

    Returns
    -------
    models : DataFrame
        One row a model, with its name.
    constant : float
        Accuracy of the better constant answer on the same test rows.
    """
    own = made.assign(tolerance=made["tolerance"].astype(float))
    models = own.groupby(KEYS, sort=False, dropna=False)[list(FIGURES)].mean().reset_index()
    many = made["threshold"].nunique() > 1
    models.insert(0, "name", [_name(row, many) for row in models.itertuples(index=False)])
    return models, float(made.groupby("seed")["constant"].first().mean())


def _name(row: Any, many_thresholds: bool) -> str:
    parts = [row.mechanism]
    if pd.notna(row.tolerance):
        parts.append(f"knob {row.tolerance:g}")
    if many_thresholds:
        parts.append(f"yes above {row.threshold:g}")
    return ", ".join(parts)


def _mechanisms(fits: dict[Job, list[dict]]) -> str:
    """Table of the mechanisms, and what they state."""
    rows = []
    for name in dict.fromkeys(job.mechanism for job in fits):
        first = next(lines[0] for job, lines in fits.items() if job.mechanism == name)
        rows.append({"mechanism": name, "knob t": KNOBS[name], "relation": first["adjacency"]})
    stated = [lines[0]["stated_epsilon"] / job.epsilon for job, lines in fits.items()]
    return (
        pd.DataFrame(rows).to_markdown(index=False)
        + f"\n\nNo model states more than the ε that was asked for: the stated one is "
        f"{min(stated):.3f} to {max(stated):.3f} times that in {len(fits)} fits.\n"
    )


def _section(made: pd.DataFrame, dataset: str, protects: str, out: Path) -> str:
    models, constant = models_of(made)
    useful = models[models["accuracy"] > constant + 1e-9]
    suffix, protected = PROTECTS[protects]
    title, stem = f"{DATASETS[dataset][0]}, {protected}", f"frontier_{dataset}{suffix}"
    n_seeds, n_fits = made["seed"].nunique(), len(made.drop_duplicates([*KEYS[:3], "seed"]))
    run = f"{n_seeds} seed{'s' * (n_seeds > 1)}, {n_fits} fits"
    lost = Counter(models.loc[~models.index.isin(useful.index), "mechanism"]).most_common()
    left_out = (
        f"{len(models) - len(useful)} of {len(models)} models are no more accurate than one answer "
        f"for all ({constant:.3f}) and are left out of pictures and page: "
        + ", ".join(f"{name} {n}" for name, n in lost)
        if lost
        else f"One answer for all has accuracy {constant:.3f}"
    ) + "."
    if useful.empty:
        return f"### {title}\n\n{run}. {left_out}\n"
    draw_frontier(useful, title, out / f"{stem}.png")
    draw_by_mechanism(useful, constant, title, out / f"{stem}_mechanisms.png")
    save_explorer(
        useful[["name", "mechanism", "epsilon", *FIGURES]].round(4),
        out / f"{stem}.html",
        title=title,
        label="mechanism",
        names="name",
        notes=f"Means over {run}, on test rows that no model was trained on: estimates, not "
        f"certificates. Relation: {', '.join(sorted(set(made['adjacency'])))}. ε is that of one "
        "fit, δ = 1e-5; to look at many models of private rows and to choose costs more. The "
        "knob is the tolerance that was asked for, or what a setting was made from. " + left_out,
    )
    best = best_within(models, constant)
    order = ["ε", "gap ≤", "kept by", "model", "accuracy", "demographic_parity", "equalized_odds"]
    better = best[best["mechanism"] != CONSTANT]
    rest = len(best) - len(better)
    # A wider limit on the gap that gains nothing needs no row of its own.
    shown = (
        better.drop_duplicates(["ε", "model"])[order]
        .round(3)
        .rename(columns=lambda name: name.replace("_", " "))
    )
    return "\n".join(
        [
            f"### {title}",
            "",
            f'{run}; <a href="{stem}.html">look around in the explorer page</a>. {left_out}',
            "",
            *facts(models, best, constant),
            "",
            f"![{title}: models that no other beats]({stem}.png)",
            "",
            f"![{title}: frontier of each mechanism]({stem}_mechanisms.png)",
            "",
            "Most accurate model at each ε that keeps a gap in demographic parity; *kept by*: how "
            "many models keep it."
            + (f" For {rest} of {len(best)} pairs none beats {CONSTANT}." if rest else ""),
            "",
            shown.to_markdown(index=False),
            "",
        ]
    )
