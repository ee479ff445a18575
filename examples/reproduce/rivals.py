"""The path and its rivals at equal gaps: figures of docs/results/rivals.md.

``python examples/reproduce/rivals.py --out FOLDER`` writes rivals.csv (a row a model, set, seed
and tolerance); ``--sets``, ``--methods`` and ``--seeds`` choose, and what is in the file already is
not run again. With ``--docs docs/results`` it then draws the pictures and prints the tables of the
page.
"""

from __future__ import annotations

import argparse
import warnings
from functools import lru_cache, partial
from pathlib import Path

import fair_path
import numpy as np
import pandas as pd
from cdp_fair import CDPFair
from fair_path import ALONG, Task, keep, path, rates

from skfairdp.datasets import fetch_diabetes130
from skfairdp.exceptions import FairnessWarning, PrivacyWarning

fair_path.SETS["diabetes"] = partial(fetch_diabetes130, sensitive="race", first_stay_only=True)
# Parity everywhere; where the rate-constrained rival compares false negatives, so do these.
SETTINGS = {
    "adult": ("demographic_parity",),
    "default_ccc": ("demographic_parity", "equal_opportunity"),
    "diabetes": ("demographic_parity", "equal_opportunity"),
    "compas": ("demographic_parity",),
}
KEYS = ["set", "notion", "method", "seed"]


def with_group(task: Task) -> Task:
    """The same rows, with the group as a column."""
    other = Task.__new__(Task)
    vars(other).update(vars(task))
    one = np.unique(task.a)[1]
    other.X = np.column_stack([task.X, task.a == one]).astype(task.X.dtype)
    other.X_test = np.column_stack([task.X_test, task.a_test == one]).astype(task.X.dtype)
    return other


def cdp_fair(task: Task, seed: int, notion: str, epsilon: float) -> list[dict]:
    """Private score and threshold; the group is known at prediction."""
    model = CDPFair(epsilon=epsilon, delta=1e-6, seed=seed).fit(task.X, task.y, task.a)
    rows = []
    for tolerance in ALONG:
        answers = model.calibrate(tolerance).predict(task.X_test, task.a_test)
        chance = (answers == task.y.max()).astype(float)
        rows.append({"tolerance": tolerance, **task.measure(chance, notion)})
    return rows


METHODS = {
    "path": path,
    "path with the group": lambda task, *job: path(with_group(task), *job),
    "CDP-Fair, with the group": cdp_fair,
    "RateConstrained, a fit a tolerance": rates,
}


def main() -> None:
    """Run the selected experiments."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--docs", type=Path)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--sets", nargs="*", default=list(SETTINGS))
    parser.add_argument("--methods", nargs="*", default=list(METHODS))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    jobs = [
        (name, notion, method, seed)
        for seed in range(options.seeds)
        for name in options.sets
        for notion in SETTINGS[name]
        for method in options.methods
        if not (method.startswith("CDP") and notion != "demographic_parity")
    ]

    @lru_cache(maxsize=2)
    def task(name: str, seed: int) -> Task:
        return Task(name, "bins", seed)

    def run(name: str, notion: str, method: str, seed: int) -> list[dict]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FairnessWarning)
            warnings.simplefilter("ignore", PrivacyWarning)
            rows = METHODS[method](task(name, seed), seed, notion, 1.0)
        return [row | dict(zip(KEYS, (name, notion, method, seed), strict=True)) for row in rows]

    keep(options.out / "rivals.csv", KEYS, jobs, run)
    if options.docs is not None:
        found = pd.read_csv(options.out / "rivals.csv")
        found = found[found["method"].isin(options.methods)]
        for (name, notion), every in found.groupby(["set", "notion"], sort=False):
            rows = paired(every)
            print(f"\n{name}, {notion}: {rows['seed'].nunique()} seeds\n\n{equal_gaps(rows)}")
            draw(rows, options.docs / f"rivals_{name}_{notion}.png")


def paired(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of the seeds that all methods have."""
    of_methods = [set(own["seed"]) for _, own in rows.groupby("method")]
    return rows[rows["seed"].isin(set.intersection(*of_methods))]


def points(rows: pd.DataFrame) -> pd.DataFrame:
    """Mean gap and accuracy of each method and tolerance."""
    by = rows.groupby(["method", "tolerance"], sort=False)[["gap", "accuracy"]]
    return by.mean().reset_index()


def equal_gaps(rows: pd.DataFrame) -> str:
    """Mean accuracy at some gaps, between the mean points of each method; blank outside of them."""
    found = points(rows)
    gaps = [0.01, 0.015, 0.02, 0.025, 0.03, 0.04, 0.05, 0.06, 0.07, 0.08]
    columns = {}
    for method in found["method"].unique():
        own = found[found["method"] == method].sort_values("gap")
        at = np.interp(gaps, own["gap"], own["accuracy"], left=np.nan, right=np.nan)
        columns[method] = ["" if np.isnan(each) else f"{each:.4f}" for each in at]
    return pd.DataFrame({"gap": gaps, **columns}).to_markdown(index=False)


def draw(rows: pd.DataFrame, file: Path) -> None:
    """Draw mean accuracy against mean gap."""
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(6.0, 4.0), layout="constrained")
    found = points(rows)
    for method in found["method"].unique():
        own = found[found["method"] == method].sort_values("gap")
        ax.plot(own["gap"], own["accuracy"], "o-", markersize=3, label=method)
    ax.set(xlabel="gap, test rows", ylabel="accuracy, test rows")
    ax.legend()
    figure.savefig(file, dpi=110)
    plt.close(figure)


if __name__ == "__main__":
    main()
