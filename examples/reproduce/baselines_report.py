"""The Markdown page of the comparison."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

import numpy as np
from baselines_frontier import constant_accuracy
from baselines_jobs import (
    ASKED,
    DATASETS,
    LOOSE,
    METHODS,
    NETS,
    NOTIONS,
    OTHER_DATASETS,
    REDUCTION,
    SHOWN,
    WORDS,
)
from baselines_pareto import pareto
from baselines_sections import frontier, published, thresholds, tolerances
from baselines_texts import CAPTIONS, FINDINGS, MEASURED
from fairdp_data import DESCRIPTIONS, TITLES
from fairdp_jobs import DELTA, EPSILONS, PINNED, PINNED_FAIRDP
from fairdp_measures import chosen, column, spread, table
from pages import write_pages

LIBRARIES = ("skfairdp", "torch", "scikit-learn", "fairlearn", "dp-accounting", "numpy", "scipy")
COMMAND = 'python examples/reproduce/fairdp_baselines.py --data-home "$SKFAIRDP_DATA"'


def write_report(rows: list[dict], pictures: dict[str, str], out: Path) -> Path:
    """Write ``baselines.md``.

    Parameters
    ----------
    rows : list of dict
        Measured fits.
    pictures : dict of str to str
        File names of the figures.
    out : Path
        Folder of the page.

    Returns
    -------
    Path
        Of the page.
    """
    parts = [
        "# Private and fair learners side by side",
        FINDINGS,
        _picture(pictures, "frontier"),
        *(section(rows) for section in (frontier, tolerances, pareto, thresholds, published)),
        _tables(rows),
        _figures(pictures),
        _measured(rows),
        _settings(rows),
    ]
    path = out / "baselines.md"
    write_pages(path, "\n\n".join(part.rstrip() for part in parts if part) + "\n")
    return path


def _measured(rows: list[dict]) -> str:
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in LIBRARIES)
    minutes = sum(row["seconds"] for row in rows) / 60
    sets = "\n".join(
        f"* **{TITLES[name]}.** {DESCRIPTIONS[name]}"
        for name in (*DATASETS, *OTHER_DATASETS)
        if any(row["dataset"] == name for row in rows)
    )
    return f"""## How it was measured

    {COMMAND}

{len(rows)} fits, {minutes:.0f} minutes of processor time; {versions}.

{MEASURED.format(delta=DELTA)}
Data sets:

{sets}"""


def _picture(pictures: dict[str, str], name: str) -> str:
    return f"![{CAPTIONS[name]}]({pictures[name]})" if name in pictures else ""


def _figures(pictures: dict[str, str]) -> str:
    shown = [
        f"**{CAPTIONS[name]}**\n\n![{CAPTIONS[name]}]({pictures[name]})"
        for name in ("accuracy", "auc", "relative")
        if name in pictures
    ]
    return "## Figures 3 to 5 of 000, drawn anew\n\n" + "\n\n".join(shown) if shown else ""


def cases(rows: list[dict]) -> list[tuple[str, dict]]:
    """Rows of the large tables: title, and the fields of their fits."""
    found = []
    for name, method in METHODS.items():
        for epsilon in EPSILONS if method.private else (None,):
            wanted = {"method": name, "epsilon": epsilon}
            at = "" if epsilon is None else f", ε = {epsilon:g}"
            if name != "rate":
                found.append((f"{method.title}{at}", wanted))
                continue
            requests = [(gap, t) for t in (*ASKED, LOOSE) for gap in NOTIONS
                        if gap == "parity" or t == SHOWN]  # fmt: skip
            found += [
                (f"{method.title}{at}, asked {WORDS[gap]} {t:g}",
                 {**wanted, "tolerance": t, "notion": NOTIONS[gap]})
                for gap, t in requests
            ]  # fmt: skip
    found.append(("ExponentiatedGradient, bound 0.01", {"method": REDUCTION, "tolerance": 0.01}))
    return [(title, wanted) for title, wanted in found if chosen(rows, **wanted)]


def _tables(rows: list[dict]) -> str:
    blocks = []
    for name in DATASETS:
        lines = [
            _line(title, fits)
            for title, wanted in cases(rows)
            if (fits := chosen(rows, dataset=name, **wanted))
        ]
        if lines:
            heading = ["row", "accuracy", "AUC", *WORDS.values(), "bound", "positive", "protects",
                       "seconds"]  # fmt: skip
            constant = constant_accuracy(chosen(rows, dataset=name))
            blocks.append(
                f"### {TITLES[name]}\n\nThe frequent label for all: accuracy "
                f"{constant:.3f}, every gap 0.\n\n{table(heading, lines)}"
            )
    return "## All rows\n\n" + "\n\n".join(blocks) if blocks else ""


def _line(title: str, fits: list[dict]) -> list[str]:
    protects = sorted({str(fit["protects"]) for fit in fits if fit.get("protects")})
    return [
        title,
        spread(column(fits, "accuracy")),
        spread(column(fits, "auc")),
        *(spread(column(fits, notion)) for notion in NOTIONS),
        spread(column(fits, "certified_bound")),
        f"{column(fits, 'selected').mean():.3f}",
        ", ".join(protects) or "nothing",
        f"{column(fits, 'seconds').mean():.1f}",
    ]


def _settings(rows: list[dict]) -> str:
    lines = [
        [TITLES[name], f"{NETS[name]['batch_size']}", f"{NETS[name]['max_epochs']}",
         f"{NETS[name]['lr']:g}", "x".join(map(str, NETS[name]["hidden_sizes"])) or "none"]
        for name in (*DATASETS, *OTHER_DATASETS) if chosen(rows, dataset=name)
    ]  # fmt: skip
    spent = np.array([row["epsilon_spent"] / row["epsilon"] for row in rows
                      if row.get("epsilon_spent") and row["epsilon"]])  # fmt: skip
    share = f" Largest share of the budget that was spent: {spent.max():.4f}." if len(spent) else ""
    return f"""## Settings

The nets of all rows but FM, FairFM and RateConstrained, as on [FairDP's page](fairdp_tables.md):

{table(["data", "batch", "epochs", "learning rate", "hidden"], lines)}

Clipping norm {PINNED["max_grad_norm"]:g}; Adam, its learning rate falling linearly to 0. FairDP:
M = 1, {100 * PINNED_FAIRDP["sgd_fraction"]:.0f} % of the steps, the last, by plain gradient
descent at learning rate {PINNED_FAIRDP["sgd_learning_rate"]:g}. RateConstrained has the package's
defaults on every data set; all other parameters that are not named are defaults too.{share}"""
