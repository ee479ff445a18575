"""R² of the private regressors, of DP-EBM's regressor, and of ridge regression without privacy.

Three data sets, five splits, a random fifth held out; twenty at the ε of a published figure, with
the linear regressor's steps without noise as its limit. Our settings were chosen once, on the
splits 0 to 4, and are the same on every data set at every ε. DP-EBM is fitted by its defaults, and
with settings that are chosen for each data set and ε on a quarter of the training rows of the first
split; this choice is not charged to its budget. All get the same rows in [-1, 1] and the same
declared bounds. Run as

    python -m examples.reproduce.regressors fit RESULTS.jsonl [--data Abalone ...]
    python -m examples.reproduce.regressors report RESULTS.jsonl docs/results/regressors.png
    python -m examples.reproduce.regressors pairs

The first line reads abalone.csv.gz, law_school_clean.csv.gz and communities_crime.csv.gz from the
folder that SKFAIRDP_DATA names, needs ``interpret-core`` (the extra ``bench``) and skips what the
file has.
"""

from __future__ import annotations

import argparse
import itertools
import math
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.linear_model import Ridge
from sklearn.model_selection import train_test_split

from examples.reproduce.additive import add, jobs_in, results_in
from skfairdp import DPAdditiveRegressor, DPSGDRegressor
from skfairdp.exceptions import PrivacyWarning

SPLITS, CHOICES = range(10, 15), range(5)  # held-out rows of the second ones chose our settings
MORE_SPLITS = range(10, 30)  # of our regressors, at the ε of a published figure
EPSILONS, DELTA = (0.5, 1.0, 2.0, 4.0), 1e-5
PUBLISHED = {"Abalone": 0.54}  # the ε of a published figure
METHODS = {
    "additive": "`DPAdditiveRegressor`, 8 bins",
    "linear": "`DPSGDRegressor`, linear",
    "network": "`DPSGDRegressor`, defaults",
    "tuned": "DP-EBM, tuned",
    "ebm": "DP-EBM, defaults",
}
# Settings of DP-EBM that are tried.
GRID = [
    {"max_rounds": rounds, "learning_rate": rate, "max_bins": bins}
    for (rounds, rate), bins in itertools.product(
        ((50, 0.03), (300, 0.01), (100, 0.1), (300, 0.1)), (8, 32)
    )
]
_ABALONE = {
    "Length": 1.0, "Diameter": 1.0, "Height": 0.5, "Whole_weight": 3.0, "Shucked_weight": 1.5,
    "Viscera_weight": 1.0, "Shell_weight": 1.5,
}  # fmt: skip
_LAW = {
    "lsat": (10, 50), "fam_inc": (1, 5), "tier": (1, 6), "male": (0, 1), "fulltime": (1, 2),
}  # fmt: skip
Table = tuple[np.ndarray, np.ndarray, tuple[float, float]]


def _read(name: str) -> pd.DataFrame:
    return pd.read_csv(Path(os.environ["SKFAIRDP_DATA"]) / f"{name}.csv.gz")


def abalone() -> Table:
    """Rings of shells, from 1 to 20."""
    rows = _read("abalone")
    sexes = [np.where(rows["Sex"] == sex, 1.0, -1.0) for sex in "FIM"]
    sizes = [(2.0 * rows[c] / high - 1.0).clip(-1.0, 1.0) for c, high in _ABALONE.items()]
    return np.column_stack([*sexes, *sizes]), rows["Rings"].to_numpy(dtype=float), (1.0, 20.0)


def law_school() -> Table:
    """Grades of undergraduates, from 1 to 4."""
    law = _read("law_school_clean")
    scaled = [2.0 * (law[c] - low) / (high - low) - 1.0 for c, (low, high) in _LAW.items()]
    return np.column_stack(scaled).clip(-1, 1), law["ugpa"].to_numpy(float), (1.0, 4.0)


def communities() -> Table:
    """Violent crimes of communities, from 0 to 1."""
    crime = _read("communities_crime").drop(columns=["Black", "class"])
    numeric = crime.drop(columns=["state", "communityname", "fold"]).select_dtypes("number")
    crimes = numeric.pop("ViolentCrimesPerPop").to_numpy(dtype=float)
    return 2.0 * numeric.fillna(0.5).to_numpy() - 1.0, crimes, (0.0, 1.0)


DATA: dict[str, Callable[[], Table]] = {
    "Abalone": abalone,
    "Law School": law_school,
    "Communities": communities,
}


def made(method: str, bounds: tuple[float, float], epsilon: float | None, settings: dict) -> Any:
    """Make the regressor that a method names."""
    if method == "ridge":
        return Ridge()
    if method in ("ebm", "tuned"):
        from interpret.privacy import DPExplainableBoostingRegressor

        low, high = bounds
        given = {"privacy_target_min": low, "privacy_target_max": high, "n_jobs": 1}
        return DPExplainableBoostingRegressor(epsilon=epsilon, delta=DELTA, **given, **settings)
    epsilon = math.inf if method == "noiseless" else epsilon
    given = {"target_bounds": bounds, "epsilon": epsilon, "delta": DELTA, "progress": False}
    if method == "additive":
        return DPAdditiveRegressor((-1, 1), **given, n_bins=8)
    if method == "network":
        return DPSGDRegressor(**given)
    linear = DPSGDRegressor(**given, batch_size=512, max_epochs=40)
    return linear.set_params(net__module__hidden_sizes=(), net__lr=0.1)


def measured(method: str, rows: tuple, bounds: Any, epsilon: Any, settings: dict) -> dict[str, Any]:
    """R² on held-out rows and seconds of CPU of one fit."""
    X, others, y, held_out = rows
    if method in ("ebm", "tuned"):
        settings = settings | {"privacy_bounds": np.tile([-1.0, 1.0], (X.shape[1], 1))}
        settings["feature_types"] = ["continuous"] * X.shape[1]
    start = time.process_time()
    model = made(method, bounds, epsilon, settings).fit(X, y)
    seconds = time.process_time() - start
    return {"r2": float(model.score(others, held_out)), "seconds": seconds}


def chosen(rows: tuple, bounds: Any, epsilon: float) -> dict:
    """Settings of DP-EBM with the largest R² on a quarter of the training rows, of two cuts."""
    cuts = [train_test_split(rows[0], rows[2], test_size=0.25, random_state=k) for k in (0, 1)]
    means = [
        np.mean([measured("tuned", tuple(cut), bounds, epsilon, one)["r2"] for cut in cuts])
        for one in GRID
    ]
    return GRID[int(np.argmax(means))]


def fit(path: Path, names: list[str], methods: list[str]) -> None:
    """Fit what the file does not have yet."""
    known = jobs_in(path)
    for name in names:
        X, y, bounds = DATA[name]()
        splits = MORE_SPLITS if name in PUBLISHED else SPLITS
        cuts = {s: train_test_split(X, y, test_size=0.2, random_state=s) for s in splits}
        budgets = sorted({*EPSILONS, PUBLISHED.get(name, 1.0)})
        jobs = [*itertools.product(budgets, METHODS), (None, "ridge"), (None, "noiseless")]
        for epsilon, method in jobs:
            settings: dict | None = None
            often = epsilon in (None, PUBLISHED.get(name)) and method not in ("ebm", "tuned")
            for seed, rows in cuts.items():
                job = (name, epsilon, method, seed)
                if job in known or method not in methods or (seed not in SPLITS and not often):
                    continue
                if settings is None:
                    first = tuple(cuts[SPLITS[0]])
                    settings = chosen(first, bounds, epsilon) if method == "tuned" else {}
                found = measured(method, tuple(rows), bounds, epsilon, settings)
                add(path, {"job": job, "settings": settings} | found)


def report(path: Path, picture: Path) -> None:
    """Print the table and draw the picture."""
    import matplotlib.pyplot as plt

    every = results_in(path)
    for name, epsilon in PUBLISHED.items():
        own = every[(every["data"] == name) & every["epsilon"].isin([epsilon, np.nan])]
        print(f"\n{name}, ε = {epsilon:g}, all splits: mean R² and its standard error")
        print(own.groupby("method")["r2"].agg(["count", "mean", "sem"]).round(3).to_string(), "\n")
    rows = every[every["seed"].isin(SPLITS)]
    print("| data | ε | " + " | ".join(METHODS.values()) + " |")
    print("|---|---|" + "---|" * len(METHODS))
    figure, axes = plt.subplots(1, len(DATA), figsize=(3.5 * len(DATA), 3.8), layout="constrained")
    for axis, name in zip(axes, DATA, strict=True):
        mine = rows[rows["data"] == name]
        for at, epsilon in enumerate(sorted(mine["epsilon"].dropna().unique())):
            found = mine[mine["epsilon"] == epsilon].groupby("method")["r2"]
            cells = [f"{found.mean()[m]:.3f} ± {found.std(ddof=0)[m]:.3f}" for m in METHODS]
            print(f"| {'' if at else name} | {epsilon:g} | {' | '.join(cells)} |")
        for method, label in METHODS.items():
            some = mine[(mine["method"] == method) & mine["epsilon"].isin(EPSILONS)]
            by = some.groupby("epsilon")["r2"]
            axis.errorbar(by.mean().index, by.mean(), by.std(ddof=0), label=label.replace("`", ""))
        free = mine[mine["method"] == "ridge"]["r2"]
        axis.axhline(free.mean(), color="grey", ls=":", label="ridge, not private")
        axis.set(xscale="log", xticks=EPSILONS, xticklabels=map("{:g}".format, EPSILONS))
        axis.minorticks_off()
        axis.set(title=name, xlabel="ε", ylim=(0.0, 1.2 * free.mean()))
        print(f"| | *not private: ridge* | {free.mean():.3f} ± {free.std(ddof=0):.3f} | | | | |")
    axes[0].set_ylabel("R² on held-out rows")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    figure.savefig(picture, dpi=110)
    print("\nSeconds of one fit (one core), and settings that were chosen for DP-EBM:")
    print(rows.groupby(["data", "method"])["seconds"].mean().unstack().round(1).to_string())
    tuned = rows[rows["method"] == "tuned"].drop_duplicates(["data", "epsilon"])
    for _, one in tuned.iterrows():
        print(one["data"], one["epsilon"], one["settings"])


def simulated() -> Table:
    """Numbers that depend on whether two of six columns have one sign, and on two others."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(20_000, 6))
    together = np.where((X[:, 0] > 0) == (X[:, 1] > 0), 5.0, 3.0)
    return X, together + X[:, 2] + X[:, 3] + rng.normal(0, 0.5, len(X)), (0.0, 8.0)


def compare_pairs(names: list[str]) -> None:
    """Print R² of `DPAdditiveRegressor` without and with pairs, on the splits for choices."""
    tables = DATA | {"Simulated": simulated}
    print("| data | ε | without | with | difference | pairs chosen |\n|---|---|---|---|---|---|")
    for name, epsilon in itertools.product([*names, "Simulated"], (1.0, 4.0)):
        X, y, bounds = tables[name]()
        found: dict[int, list[float]] = {0: [], 8: []}
        chosen: list[str] = []
        for seed, pairs in itertools.product(CHOICES, found):
            train, test, target, held_out = train_test_split(X, y, test_size=0.2, random_state=seed)
            model = made("additive", bounds, epsilon, {}).set_params(pairs=pairs)
            found[pairs].append(model.fit(train, target).score(test, held_out))
            chosen += [str(len(model.pairs_))] if pairs else []
        more = np.subtract(found[8], found[0])
        cells = [f"{np.mean(found[k]):.3f} ± {np.std(found[k]):.3f}" for k in found]
        cells += [f"{more.mean():+.4f} ± {more.std(ddof=1) / math.sqrt(len(more)):.4f}"]
        print(f"| {name} | {epsilon:g} | {' | '.join(cells)} | {', '.join(chosen)} |", flush=True)


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("task", choices=("fit", "report", "pairs"))
    parser.add_argument("results", type=Path, nargs="?")
    parser.add_argument("picture", type=Path, nargs="?")
    parser.add_argument("--data", nargs="+", default=list(DATA), choices=list(DATA))
    everyone = [*METHODS, "ridge", "noiseless"]
    parser.add_argument("--methods", nargs="+", default=everyone, choices=everyone)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", PrivacyWarning)
    if arguments.task == "fit":
        fit(arguments.results, arguments.data, arguments.methods)
    elif arguments.task == "pairs":
        compare_pairs(arguments.data)
    else:
        report(arguments.results, arguments.picture)


if __name__ == "__main__":
    main()
