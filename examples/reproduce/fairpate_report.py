"""The page of the FairPATE results."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib.metadata import version
from pathlib import Path

import numpy as np
from fairpate_against import EPSILONS as FIT_EPSILONS
from fairpate_claims import in_figures, right_share
from fairpate_figures import PAIR, draw_figures
from fairpate_summary import (
    OTHERS,
    TITLES,
    Results,
    duels,
    means,
    summarised,
)
from fairpate_sweep import DELTA, EPSILONS, TOLERANCES
from fairpate_texts import CAPTIONS, LEAD, MEASURED, REMARKS
from fairpate_votes import SETTINGS
from pages import write_pages

COMMAND = 'python examples/reproduce/fairpate.py --data-home "$SKFAIRDP_DATA"'
PACKAGES = ("skfairdp", "torch", "scikit-learn", "dp-accounting", "numpy")


def write_report(rows: Iterable[dict], out: Path) -> Path:
    """Draw the pictures and write the page.

    Parameters
    ----------
    rows : iterable of dict
        Everything measured.
    out : Path
        Folder.

    Returns
    -------
    Path
        The page.
    """
    results = summarised(rows)
    parts = ["# FairPATE: privacy, fairness, accuracy and coverage", LEAD, REMARKS]
    parts += ["Columns: [how it was measured](#how-it-was-measured)."]
    for name in draw_figures(results, out):
        parts.append(f"![{CAPTIONS[name]}]({name})\n\n{CAPTIONS[name]}")
    parts += ["## The comparisons in figures", in_figures(results)]
    for dataset in PAIR:
        setting = SETTINGS[dataset]
        kind = f"one hidden layer {setting.hidden_sizes}" if setting.hidden_sizes else "linear"
        answers = ", ".join(f"{results.chosen[dataset, e]} at ε = {e:g}" for e in EPSILONS)
        parts += [
            f"## {TITLES[dataset]}: γ × ε",
            f"{setting.n_teachers} teachers ({kind}), GNMax with calibrated noise; answers paid "
            f"for: {answers}. γ = – is PATE, and its figures behind the gate are for γ = 0.05.",
            _sweep(results, dataset),
            f"### {TITLES[dataset]}: published noise",
            "Confident-GNMax with the published T, σ₁ and σ₂, and as many answers as ε pays for.",
            _published(results, dataset),
            f"### {TITLES[dataset]}: against other methods, γ = 0.05",
            _methods(results, dataset),
        ]
    parts += ["## Dominance at equal ε and γ", _duels(results)]
    parts += ["## Two gates, five groups", _rules(results)]
    versions = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    parts += [
        "## How it was measured",
        f"    {COMMAND}",
        versions + ".",
        MEASURED.format(delta=DELTA),
    ]
    page = out / "fairpate.md"
    write_pages(page, "\n\n".join(part.strip("\n") for part in parts) + "\n")
    return page


def _table(header: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    rows = [header, ["---"] * len(header), *lines]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def _pm(rows: list[dict], name: str) -> str:
    values = [row[name] for row in rows]
    return f"{np.mean(values):.3f} ± {np.std(values, ddof=1) if len(values) > 1 else 0:.3f}"


def _by_group(rows: list[dict], name: str) -> str:
    return " / ".join(f"{share:.2f}" for share in np.mean([row[name] for row in rows], axis=0))


def _sweep(results: Results, dataset: str) -> str:
    lines = []
    for epsilon in EPSILONS:
        for tolerance in (None, *TOLERANCES):
            rows = results.at(dataset, epsilon, tolerance)
            method = "PATE" if tolerance is None else "FairPATE"
            said = results.behind_gate(dataset, method, epsilon, tolerance or 0.05)
            passed, labels, worst = means(rows, "query_coverage", "label_accuracy", "worst_cell")
            gap_behind, coverage = means(said, "gap", "coverage")
            lines.append(
                [
                    f"{epsilon:g}", "–" if tolerance is None else f"{tolerance:g}",
                    f"{passed:.2f} ({_by_group(rows, 'query_coverage_by_group')})",
                    f"{labels:.3f}", f"{worst:.3f}", _pm(rows, "accuracy"), _pm(rows, "gap"),
                    _pm(said, "accuracy"),
                    f"{coverage:.3f} ({_by_group(said, 'coverage_by_group')})",
                    f"{gap_behind:.3f}", right_share(said),
                ]
            )  # fmt: skip
    header = (
        "ε", "γ", "queries answered (by group)", "labels right", "worst Γ of answers",
        "student: accuracy", "gap", "behind gate: accuracy", "coverage (by group)", "gap", "right",
    )  # fmt: skip
    return _table(header, lines)


def _published(results: Results, dataset: str) -> str:
    lines = []
    for epsilon in EPSILONS:
        for tolerance in (None, *TOLERANCES):
            rows = results.cells[dataset, "all_cells", epsilon, tolerance, None]
            if rows:
                asked, charged, answered = means(rows, "asked", "charged", "answered")
                (open_share,) = means(rows, "gate_opened") if tolerance else (1.0,)
                lines.append(
                    [
                        f"{epsilon:g}", "–" if tolerance is None else f"{tolerance:g}",
                        f"{asked:.0f}", f"{charged:.0f}", f"{answered:.0f}",
                        f"{means(rows, 'worst_cell')[0]:.3f}",
                        "–" if tolerance is None else f"{open_share:.0%}",
                        _pm(rows, "accuracy"), _pm(rows, "gap"),
                    ]
                )  # fmt: skip
    header = (
        "ε", "γ", "asked", "charged", "answered", "worst Γ", "cold start over", "accuracy", "gap",
    )  # fmt: skip
    return _table(header, lines)


def _methods(results: Results, dataset: str) -> str:
    lines = []
    for epsilon in FIT_EPSILONS:
        for method in ("FairPATE", "PATE", *OTHERS):
            if method in ("FairPATE", "PATE"):
                rows = results.at(dataset, epsilon, 0.05 if method == "FairPATE" else None)
            else:
                rows = results.fits[dataset, method, epsilon]
            if not rows:
                continue
            said = results.behind_gate(dataset, method, epsilon, 0.05)
            lines.append(
                [
                    f"{epsilon:g}", method, f"{max(row['spent'] for row in rows):.3f}",
                    _pm(rows, "accuracy"), _pm(rows, "gap"), _pm(said, "accuracy"),
                    f"{_pm(said, 'coverage')} ({_by_group(said, 'coverage_by_group')})",
                    _pm(said, "gap"), right_share(said),
                ]
            )  # fmt: skip
    header = (
        "ε ≤", "method", "ε spent", "accuracy", "gap", "behind gate: accuracy",
        "coverage (by group)", "gap", "right",
    )  # fmt: skip
    return _table(header, lines)


def _duels(results: Results) -> str:
    text = (
        "Behind the gate all gaps are within γ or at what the cold start left, so accuracy and "
        "coverage are what differs. A method dominates if one of the two is better by more than "
        "two standard errors and the other is not worse by as much. Each line counts pairs of (ε, "
        "γ).\n\n"
    )
    lines = []
    for dataset in PAIR:
        for method in ("PATE", *OTHERS):
            counts = duels(results, dataset, method)
            lines.append([TITLES[dataset], method, *map(str, counts.values())])
    return text + _table(("data", "method", "FairPATE dominates", "neither", "it dominates"), lines)


def _rules(results: Results) -> str:
    text = (
        "UTK-Face with all five races, the same votes, ε = 10, 3,000 answers. The rule over the "
        "queried cell alone, as published, promises nothing about the other cells.\n\n"
    )
    lines = []
    for tolerance in TOLERANCES:
        for rule in ("all_cells", "queried_cell"):
            rows = results.cells["utkface5", rule, 10.0, tolerance, 3000]
            if rows:
                worst = max(row["worst_cell"] for row in rows)
                said = [row["abstaining"][str(tolerance)] for row in rows]
                lines.append(
                    [
                        f"{tolerance:g}", rule, _pm(rows, "query_coverage"),
                        _by_group(rows, "query_coverage_by_group"), _pm(rows, "worst_cell"),
                        f"{worst:.3f}", str(sum(bool(row["gate_stuck"]) for row in rows)),
                        _pm(rows, "accuracy"), _pm(said, "coverage"), _pm(said, "gap"),
                    ]
                )  # fmt: skip
    header = (
        "γ", "rule", "queries answered", "by race", "worst Γ of answers", "largest over seeds",
        "stuck", "student: accuracy", "behind gate: coverage", "worst Γ",
    )  # fmt: skip
    return text + _table(header, lines)
