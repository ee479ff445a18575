"""The path and its rivals at equal gaps: figures of docs/results/rivals.md.

Run as

    python examples/reproduce/rivals.py fit RESULTS.jsonl [--sets adult ...] [--seeds 10]
    python examples/reproduce/rivals.py report RESULTS.jsonl docs/results
    python examples/reproduce/rivals.py choose [--sets adult ...]

The first line adds one line a fit of a set, notion, method and seed, and skips what the file has;
several may run at once. The second prints the tables of the page, and draws its picture where the
file has rows of parity. The
third prints the settings of RaCO-DP with the best figures on a quarter of the training rows of the
first split, by parity, which is not charged to its budget; `CHOSEN` holds them for both notions.
"""

from __future__ import annotations

import argparse
import itertools
import time
import warnings
from functools import lru_cache
from pathlib import Path

import classes_data
import fair_path
import numpy as np
import pandas as pd
from additive import add, jobs_in, results_in
from cdp_fair import CDPFair
from fair_path import ALONG, Task, path, rates
from raco_dp import RaCODP, Settings
from sklearn.utils import Bunch

from skfairdp.exceptions import FairnessWarning, PrivacyWarning


def readmitted() -> Bunch:
    """Diabetes130, first stays: readmitted at all, as within 30 days a constant is best."""
    data = classes_data.diabetes()
    data.target = (np.asarray(data.target) != "NO").astype(int)
    return data


fair_path.SETS["diabetes"] = readmitted
TITLES = {
    "adult": "Adult",
    "default_ccc": "Default-CCC",
    "compas": "Compas",
    "diabetes": "Diabetes130",
}
GAPS = (0.01, 0.015, 0.02, 0.025, 0.03, 0.04, 0.05, 0.06, 0.07, 0.08)
NOTIONS = ("demographic_parity", "equal_opportunity")
KEYS = ["set", "notion", "method", "seed"]
TOLERANCES = (0.01, 0.02, 0.03, 0.05, 0.07, 0.1)
# Settings of RaCO-DP that are tried; its authors', of 3,000 steps or of histograms at 0.5, leave
# too little of a budget of 1 to the gradients. Steps, expected batch, and epsilon of a histogram:
# on ten thousand rows and more, and on fewer.
RELEASES = (
    ((120, 4096, 0.1), (250, 2048, 0.1), (500, 1024, 0.1)),
    ((120, 512, 0.05), (120, 256, 0.1)),
)
RATES = ((0.05, 6.0), (0.1, 6.0), (0.2, 6.0), (0.1, 12.0))  # with clipping norms
CHOSEN = {
    "adult": Settings(120, 4096, 0.2, 0.5, 6.0, 0.1, 4.0),
    "default_ccc": Settings(250, 2048, 0.1, 0.5, 6.0, 0.1, 4.0),
    "compas": Settings(120, 512, 0.1, 0.5, 6.0, 0.05, 2.0),
    "diabetes": Settings(500, 1024, 0.05, 0.5, 6.0, 0.1, 2.0),
}


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
    model = CDPFair(epsilon=epsilon, delta=1e-6, seed=seed, notion=notion)
    model.fit(task.X, task.y, task.a)
    rows = []
    for tolerance in ALONG:
        answers = model.calibrate(tolerance).predict(task.X_test, task.a_test)
        chance = (answers == task.y.max()).astype(float)
        rows.append({"tolerance": tolerance, **task.measure(chance, notion)})
    return rows


def raco_dp(task: Task, notion: str, tolerance: float, settings: Settings, seed: int) -> RaCODP:
    """One private fit for a tolerance."""
    given = {"tolerance": tolerance, "notion": notion, "settings": settings, "seed": seed}
    return RaCODP(**given, epsilon=1.0, delta=1e-6).fit(task.X, task.y, task.a)


def raco_dp_fits(task: Task, seed: int, notion: str, epsilon: float) -> list[dict]:
    """One private fit a tolerance."""
    rows = []
    for tolerance in TOLERANCES:
        start = time.process_time()
        model = raco_dp(task, notion, tolerance, CHOSEN[task.name], seed)
        seconds = time.process_time() - start
        chance = (model.predict(task.X_test) == task.y.max()).astype(float)
        measured = task.measure(chance, notion)
        rows.append({"tolerance": tolerance, "seconds": seconds, **measured})
    return rows


def choose(name: str, notion: str = "demographic_parity") -> Settings:
    """Find the settings with the largest accuracy less what gaps exceed their tolerances by."""
    part = Task(name, "bins", 0)
    held_out = np.random.default_rng(0).random(len(part.y)) < 0.25
    part.X_test, part.y_test, part.a_test = part.X[held_out], part.y[held_out], part.a[held_out]
    part.X, part.y, part.a = part.X[~held_out], part.y[~held_out], part.a[~held_out]

    def quality(settings: Settings) -> float:
        found = []
        for tolerance, seed in itertools.product((0.02, 0.07), (1, 2)):
            try:
                model = raco_dp(part, notion, tolerance, settings, seed)
            except ValueError:  # the histograms alone cost more than the budget
                return -np.inf
            chance = (model.predict(part.X_test) == part.y.max()).astype(float)
            measured = part.measure(chance, notion)
            found.append(measured["accuracy"] - max(0.0, measured["gap"] - tolerance))
        print(name, settings, round(float(np.mean(found)), 4), flush=True)
        return float(np.mean(found))

    of_size = RELEASES[len(part.y) < 10_000]
    grid = [
        Settings(steps, batch_size, rate, 0.5, clip, histogram, temperature)
        for (steps, batch_size, histogram), (rate, clip), temperature in itertools.product(
            of_size, RATES, (2.0, 4.0)
        )
    ]
    return max(grid, key=quality)


METHODS = {
    "path": path,
    "path with the group": lambda task, *job: path(with_group(task), *job),
    "CDP-Fair, with the group": cdp_fair,
    "RaCO-DP, a fit a tolerance": raco_dp_fits,
    "RateConstrained, a fit a tolerance": rates,
}


def fit(file: Path, jobs: list[tuple[str, str, str, int]]) -> None:
    """Fit what the file does not have yet."""

    @lru_cache(maxsize=2)
    def task(name: str, seed: int) -> Task:
        made = Task(name, "bins", seed)
        made.name = name
        return made

    for job in jobs:
        if job in jobs_in(file):
            continue
        name, notion, method, seed = job
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FairnessWarning)
            warnings.simplefilter("ignore", PrivacyWarning)
            points = METHODS[method](task(name, seed), seed, notion, 1.0)
        add(file, {"job": job, "points": [{k: float(v) for k, v in p.items()} for p in points]})


def report(file: Path, docs: Path, methods: list[str]) -> None:
    """Print the tables and draw the picture."""
    found = results_in(file, KEYS).explode("points", ignore_index=True)
    found = found.join(pd.json_normalize(found["points"]))
    found = found[found["method"].isin(methods)]
    place = found["method"].map(list(METHODS).index)
    of_set = found["set"].map(list(TITLES).index)
    found = found.iloc[np.lexsort((found["tolerance"], place, of_set))]
    for (name, notion), every in found.groupby(["set", "notion"], sort=False):
        rows = paired(every)
        print(f"\n## {TITLES[name]}, {notion}: {rows['seed'].nunique()} seeds\n")
        print(equal_gaps(rows).to_markdown(index=False, disable_numparse=True))
        print("\nMean points, and seconds of CPU of one fit:\n")
        print(points(rows).round(4).to_string(index=False))
        print(rows.groupby("method", sort=False)["seconds"].mean().dropna().round(1).to_string())
    of_parity = found[found["notion"] == "demographic_parity"]
    if len(of_parity):
        draw(of_parity, docs / "rivals.png")
    else:
        print(f"\nNo picture: {file} has no rows of demographic_parity.")


def paired(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of the seeds that all methods have."""
    of_methods = [set(own["seed"]) for _, own in rows.groupby("method")]
    return rows[rows["seed"].isin(set.intersection(*of_methods))]


def points(rows: pd.DataFrame) -> pd.DataFrame:
    """Mean gap and accuracy of each method and tolerance."""
    by = rows.groupby(["method", "tolerance"], sort=False)[["gap", "accuracy"]]
    return by.mean().reset_index()


def at_gaps(rows: pd.DataFrame) -> pd.DataFrame:
    """Mean accuracy of each method at `GAPS`, between its mean points; NaN outside of them."""
    found, columns = points(rows), {}
    for method, own in found.groupby("method", sort=False):
        own = own.sort_values("gap")
        columns[method] = np.interp(GAPS, own["gap"], own["accuracy"], left=np.nan, right=np.nan)
    return pd.DataFrame(columns, index=GAPS)


def equal_gaps(rows: pd.DataFrame) -> pd.DataFrame:
    """Accuracies at equal gaps, and that of the first method less each, with standard errors.

    Errors are those of the paired differences, from seeds drawn with replacement.
    """
    rng, seeds = np.random.default_rng(0), rows["seed"].unique()
    of_seed = {seed: rows[rows["seed"] == seed] for seed in seeds}
    means = at_gaps(rows)
    first = means.columns[0]
    draws = [
        at_gaps(pd.concat([of_seed[seed] for seed in rng.choice(seeds, len(seeds))]))
        for _ in range(200)
    ]
    ahead = np.stack([(draw[[first]].to_numpy() - draw.to_numpy()) for draw in draws])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # gaps that no draw has
        spread = pd.DataFrame(np.nanstd(ahead, axis=0), index=GAPS, columns=means.columns)
    shown: dict[str, list[str]] = {"gap": [f"{gap:g}" for gap in GAPS]}
    for method in means:
        shown[method] = []
        for gap in GAPS:
            mean, less = means.loc[gap, method], means.loc[gap, first] - means.loc[gap, method]
            cell = "" if np.isnan(mean) else f"{mean:.4f}"
            if method != first and not np.isnan(less):
                cell += f" ({less:+.4f} ± {spread.loc[gap, method]:.4f})"
            shown[method].append(cell)
    return pd.DataFrame(shown)


def draw(rows: pd.DataFrame, file: Path) -> None:
    """Draw mean accuracy against mean gap, a panel a set."""
    import matplotlib.pyplot as plt

    names = [name for name in TITLES if name in set(rows["set"])]
    figure, axes = plt.subplots(1, len(names), figsize=(4.2 * len(names), 4.2))
    for axis, name in zip(np.atleast_1d(axes), names, strict=True):
        own = paired(rows[rows["set"] == name])
        found = points(own)
        for place, method in enumerate(METHODS):
            line = found[found["method"] == method].sort_values("gap")
            style = {"marker": "os^Dv"[place], "color": f"C{place}", "markersize": 4}
            axis.plot(line["gap"], line["accuracy"], label=method, **style)
        axis.set(title=f"{TITLES[name]}, {own['seed'].nunique()} seeds", xlabel="gap, test rows")
        axis.locator_params(nbins=5)
    np.atleast_1d(axes)[0].set_ylabel("accuracy, test rows")
    handles, labels = np.atleast_1d(axes)[0].get_legend_handles_labels()
    figure.tight_layout(rect=(0.0, 0.12, 1.0, 1.0))
    figure.legend(handles, labels, loc="lower center", ncols=3)
    figure.savefig(file, dpi=110)
    plt.close(figure)


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("task", choices=("fit", "report", "choose"))
    parser.add_argument("results", type=Path, nargs="?")
    parser.add_argument("docs", type=Path, nargs="?")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--sets", nargs="*", default=list(TITLES))
    parser.add_argument("--notions", nargs="*", default=NOTIONS)
    parser.add_argument("--methods", nargs="*", default=list(METHODS))
    options = parser.parse_args()
    if options.task == "report":
        report(options.results, options.docs, options.methods)
        return
    if options.task == "choose":
        for name in options.sets:
            print(name, choose(name), "chosen")
        return
    jobs = [
        (name, notion, method, seed)
        for seed in range(options.seeds)
        for name in options.sets
        for notion in options.notions
        for method in options.methods
    ]
    fit(options.results, jobs)


if __name__ == "__main__":
    main()
