"""Several classes: one fit and all tolerances, without noise too, and DP2DP.

``python examples/reproduce/classes.py --out FOLDER`` writes classes.csv (a row a model, set, seed
and tolerance); ``--sets``, ``--methods``, ``--notions`` and ``--seeds`` choose, and what is in the
file already is not run again. ``--table`` prints the table of docs/results/classes.md, ``--gaps``
compares at equal gaps with DP2DP and with the path without noise, and ``--picture FILE`` draws the
picture.
"""

from __future__ import annotations

import argparse
import itertools
import math
import time
import warnings
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from classes_data import SETS, ClassTask
from dp2dp import DP2DP
from fair_path import keep

from skfairdp import FairPathClassifier
from skfairdp.exceptions import FairnessWarning, PrivacyWarning
from skfairdp.fairness.notions import NOTIONS

TOLERANCES = (0.02, 0.03, 0.05, 0.07, 0.1)
GAPS = (0.01, 0.015, 0.02, 0.025, 0.03, 0.035, 0.04, 0.05, 0.06, 0.07, 0.08)
KEYS = ["set", "notion", "method", "seed"]
FREE = "path without noise"


def gap_of(y: np.ndarray, answers: np.ndarray, groups: np.ndarray, notion: str) -> float:
    """Largest gap of a notion over classes and groups."""
    classes, names = np.unique(y), np.unique(groups)
    table = np.zeros((len(names), len(classes), len(classes)))
    places = (np.searchsorted(names, groups), *(np.searchsorted(classes, v) for v in (y, answers)))
    np.add.at(table, places, 1)
    counted = (stratum.count(table) for stratum in NOTIONS[notion].strata(classes.tolist()))
    return max(float(np.ptp(hit / np.maximum(hit + miss, 1))) for hit, miss in counted)


def path(task: ClassTask, seed: int, notion: str, epsilon: float, *, aware: bool) -> list[dict]:
    """One fit of the path; with the group as a column, where it is aware."""
    one = (task.a == np.unique(task.a)[1]).astype(np.float32)
    other = (task.a_test == np.unique(task.a)[1]).astype(np.float32)
    X = np.column_stack([task.X, one]) if aware else task.X
    X_test = np.column_stack([task.X_test, other]) if aware else task.X_test
    model = FairPathClassifier(notion=notion, epsilon=epsilon, random_state=seed, progress=False)
    start = time.process_time()
    model.fit(X, task.y, sensitive_features=task.a)
    seconds = time.process_time() - start
    rows = []
    for tolerance in TOLERANCES:
        point = model.at(tolerance)
        answers, trained = point.predict(X_test), point.predict(X)
        rows.append(
            {
                "tolerance": tolerance,
                "kept_tolerance": point.kept_tolerance_,
                "accuracy": (answers == task.y_test).mean(),
                "gap": gap_of(task.y_test, answers, task.a_test, notion),
                "gap of training": gap_of(task.y, trained, task.a, notion),
                "accuracy of training": (trained == task.y).mean(),
                "seconds": seconds,
            }
        )
    return rows


def dp2dp(task: ClassTask, seed: int, notion: str, epsilon: float) -> list[dict]:
    """Two private phases; the group is known at prediction. The second one is run a tolerance."""
    rows = []
    model = DP2DP(epsilon=epsilon, delta=1e-6, seed=seed).fit(task.X, task.y, task.a)
    for tolerance in TOLERANCES:
        model.calibrate(tolerance)
        answers = model.predict(task.X_test, task.a_test)
        trained = model.predict(task.X, task.a)
        rows.append(
            {
                "tolerance": tolerance,
                "accuracy": (answers == task.y_test).mean(),
                "gap": gap_of(task.y_test, answers, task.a_test, notion),
                "gap of training": gap_of(task.y, trained, task.a, notion),
                "accuracy of training": (trained == task.y).mean(),
            }
        )
    return rows


METHODS = {
    "path": lambda *job: path(*job, 1.0, aware=False),
    FREE: lambda *job: path(*job, math.inf, aware=False),
    "path with the group": lambda *job: path(*job, 1.0, aware=True),
    "DP2DP": lambda *job: dp2dp(*job, 1.0),
}


def main() -> None:
    """Run the selected experiments."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--sets", nargs="*", default=list(SETS))
    parser.add_argument("--methods", nargs="*", default=list(METHODS))
    parser.add_argument("--notions", nargs="*", default=["demographic_parity"])
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--gaps", action="store_true")
    parser.add_argument("--picture", type=Path)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    if options.table:
        print(table(pd.read_csv(options.out / "classes.csv")))
        return
    if options.gaps:
        for pair in itertools.product(("path", "path with the group"), ("DP2DP", FREE)):
            print(ahead(pd.read_csv(options.out / "classes.csv"), *pair), end="\n\n")
        return
    if options.picture:
        draw(pd.read_csv(options.out / "classes.csv"), options.picture)
        return
    jobs = [
        (name, notion, method, seed)
        for seed in range(options.seeds)
        for name in options.sets
        for notion in options.notions
        for method in options.methods
        if method != "DP2DP" or notion == "demographic_parity"
    ]

    @lru_cache(maxsize=4)
    def task(name: str, seed: int) -> ClassTask:
        return ClassTask(name, seed)

    def run(name: str, notion: str, method: str, seed: int) -> list[dict]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FairnessWarning)
            warnings.simplefilter("ignore", PrivacyWarning)
            rows = METHODS[method](task(name, seed), seed, notion)
        return [row | dict(zip(KEYS, (name, notion, method, seed), strict=True)) for row in rows]

    keep(options.out / "classes.csv", KEYS, jobs, run)


def table(rows: pd.DataFrame) -> str:
    """Means over the seeds; and fits whose gap among the training rows is what they state."""
    stated = rows["gap of training"] <= rows[["tolerance", "kept_tolerance"]].max(axis=1)
    rows = rows.assign(stated=stated)
    by = rows.groupby(["set", "notion", "method", "tolerance"])
    found = by[["accuracy", "gap", "gap of training", "kept_tolerance"]].mean().round(4)
    found["stated"] = by["stated"].sum().astype(str) + " of " + by["stated"].count().astype(str)
    return found.reset_index().astype(object).fillna("").to_markdown(index=False)


def at_gaps(rows: pd.DataFrame) -> np.ndarray:
    """Accuracy at `GAPS` between the mean points of a method; NaN outside of them."""
    means = rows.groupby("tolerance")[["gap", "accuracy"]].mean().sort_values("gap")
    return np.interp(GAPS, means["gap"], means["accuracy"], left=np.nan, right=np.nan)


def ahead(rows: pd.DataFrame, first: str, second: str) -> str:
    """What one method is ahead of another by at equal gaps, over the seeds that both have.

    Standard errors are those of the paired differences, from seeds drawn with replacement, times
    the root of n / (n - 1).
    """
    rng, found = np.random.default_rng(0), {}
    for name, own in rows[rows["notion"] == "demographic_parity"].groupby("set"):
        parts = [own[own["method"] == method] for method in (first, second)]
        seeds = sorted(set(parts[0]["seed"]) & set(parts[1]["seed"]))
        if len(seeds) < 2:
            continue
        of_seed = [{seed: part[part["seed"] == seed] for seed in seeds} for part in parts]

        def less(drawn: Sequence[int], of_seed: list[dict] = of_seed) -> np.ndarray:
            one, other = (at_gaps(pd.concat([part[s] for s in drawn])) for part in of_seed)
            return one - other

        means = less(seeds)
        drawn = np.array([less(rng.choice(seeds, len(seeds))) for _ in range(200)])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # gaps that no draw has
            spread = np.nanstd(drawn, axis=0) * (len(seeds) / (len(seeds) - 1)) ** 0.5
        pairs = zip(means, spread, strict=True)
        cells = ["" if np.isnan(m) else f"{m:+.4f} ± {e:.4f}" for m, e in pairs]
        found[f"{name}, {len(seeds)} seeds"] = cells
    shown = pd.DataFrame(found, index=[f"{gap:g}" for gap in GAPS])
    return f"{first} less {second}, at equal gaps\n" + shown.to_markdown()


def draw(rows: pd.DataFrame, file: Path) -> None:
    """Draw accuracy against the gap on test rows of Adult, a line a method."""
    figure, axes = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
    adult = rows[(rows["set"] == "adult_hours") & (rows["notion"] == "demographic_parity")]
    for (method, points), marker in zip(adult.groupby("method"), "osD^v", strict=False):
        means = points.groupby("tolerance")[["gap", "accuracy"]].mean()
        line = ":" if method.endswith("without noise") else "-"
        axes.plot(means["gap"], means["accuracy"], line, marker=marker, label=method)
    axes.set(xlabel="gap between women and men (test rows)", ylabel="accuracy", xlim=(0, None))
    axes.legend(loc="lower right")
    figure.savefig(file, dpi=150)


if __name__ == "__main__":
    main()
