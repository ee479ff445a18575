"""Means over seeds, the chosen number of answers, and who dominates whom."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from fairpate_against import WEIGHTS
from fairpate_sweep import EPSILONS, TOLERANCES
from fairpate_votes import FIRST_SEARCH_SEED

TITLES = {"adult": "Adult", "utkface": "UTK-Face", "utkface5": "UTK-Face, five races"}
OTHERS = (
    *("DP-SGD", "FairDP"),
    *(f"FairDP-SGD, λ = {weight:g}" for weight in WEIGHTS),
)


@dataclass
class Results:
    """Rows of the tables by what identifies them, one entry for each seed.

    Parameters
    ----------
    cells : mapping from (dataset, rule, epsilon, tolerance, n_answers) to rows
    fits : mapping from (dataset, method, epsilon) to rows
    chosen : mapping from (dataset, epsilon) to n_answers
    """

    cells: dict[tuple, list[dict]] = field(default_factory=lambda: defaultdict(list))
    fits: dict[tuple, list[dict]] = field(default_factory=lambda: defaultdict(list))
    chosen: dict[tuple, int] = field(default_factory=dict)

    def at(self, dataset: str, epsilon: float, tolerance: float | None) -> list[dict]:
        """Rows with the chosen number of answers."""
        n_answers = self.chosen[dataset, epsilon]
        return self.cells[dataset, "all_cells", epsilon, tolerance, n_answers]

    def behind_gate(
        self, dataset: str, method: str, epsilon: float, tolerance: float
    ) -> list[dict]:
        """What a method says behind the gate at inference: one entry for each seed."""
        if method in ("PATE", "FairPATE"):
            rows = self.at(dataset, epsilon, None if method == "PATE" else tolerance)
        else:
            rows = self.fits[dataset, method, epsilon]
        return [row["abstaining"][str(tolerance)] for row in rows]


def summarised(rows: Iterable[dict]) -> Results:
    """Sort rows; choose answers by the accuracy of PATE without a gate, on the search seed."""
    results = Results()
    found: dict[tuple, dict[int, float]] = defaultdict(dict)
    for row in rows:
        if "method" in row:
            weight = row["weight"]
            method = row["method"] + ("" if weight is None else f", λ = {weight:g}")
            results.fits[row["dataset"], method, row["epsilon"]].append(row)
        elif row["seed"] < FIRST_SEARCH_SEED:
            names = ("dataset", "rule", "epsilon", "tolerance", "n_answers")
            results.cells[tuple(row[name] for name in names)].append(row)
        elif row["tolerance"] is None and row["n_answers"] is not None:
            found[row["dataset"], row["epsilon"]][row["n_answers"]] = row["accuracy"]
    results.chosen = {where: max(table, key=table.__getitem__) for where, table in found.items()}
    return results


def means(rows: list[dict], *names: str) -> list[float]:
    """Mean of each figure over seeds."""
    return [float(np.mean([row[name] for row in rows])) for name in names]


def frontier(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Points (gap, accuracy) that no other beats: less gap, more accuracy."""
    best = []
    for gap, accuracy in sorted(points, key=lambda p: (p[0], -p[1])):
        if not best or accuracy > best[-1][1]:
            best.append((gap, accuracy))
    return best


def joint_points(
    results: Results, dataset: str, budget: float, tolerances: tuple
) -> list[tuple[float, float]]:
    """(gap, accuracy) of the students of all aggregators within a budget."""
    return [
        tuple(means(rows, "gap", "accuracy"))
        for (name, rule, epsilon, tolerance, _), rows in results.cells.items()
        if (name, rule) == (dataset, "all_cells") and epsilon <= budget and tolerance in tolerances
    ]


def duels(results: Results, dataset: str, method: str) -> dict[str, int]:
    """Compare FairPATE with another method at equal epsilon and equal tolerance.

    One dominates if it is at least as good in accuracy among the answered and in coverage,
    and better in one of the two by more than two standard errors of the difference.
    """
    counts = {"FairPATE dominates": 0, "neither": 0, "it dominates": 0}
    for epsilon in EPSILONS:
        for tolerance in TOLERANCES:
            other = results.behind_gate(dataset, method, epsilon, tolerance)
            ours = results.behind_gate(dataset, "FairPATE", epsilon, tolerance)
            if not other or not ours:
                continue
            signs = [_sign(ours, other, name) for name in ("accuracy", "coverage")]
            if max(signs) > 0 and min(signs) >= 0:
                counts["FairPATE dominates"] += 1
            elif min(signs) < 0 and max(signs) <= 0:
                counts["it dominates"] += 1
            else:
                counts["neither"] += 1
    return counts


def _sign(ours: list[dict], other: list[dict], name: str) -> int:
    a, b = ([row[name] for row in rows] for rows in (ours, other))
    error = np.sqrt(np.var(a, ddof=1) / len(a) + np.var(b, ddof=1) / len(b))
    difference = np.mean(a) - np.mean(b)
    return 0 if abs(difference) <= 2 * error else int(np.sign(difference))
