"""The additive model with its defaults and DP-EBM, both with the same declared bounds.

Five data sets, five budgets, five splits: Adult's official one (five fits), elsewhere a random
fifth is held out, on Diabetes 130-US Hospitals a fifth of the patients. DP-EBM is fitted by its
defaults, and with settings that are chosen on three quarters and a quarter of the training rows of
the first split, for each data set and budget; this choice is not charged to its budget. Limits
without privacy: the additive model's own steps without noise; the exact minimum of the logistic
loss for its inputs, with the best of RIDGES by the same part of training rows; both again with the
levels of an encoder that has its share of ε = 1 and nothing declared; boosted trees. Run

    python examples/reproduce/additive.py fit RESULTS.jsonl [--data adult ...] [--epsilons 1 ...]
        [--methods additive undeclared noiseless ridge boosted]
    python examples/reproduce/additive.py report RESULTS.jsonl docs/results/additive.png

The first line needs ``interpret-core`` (the extra ``bench``) and skips what the file has.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import csr_matrix
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GroupShuffleSplit
from sklearn.pipeline import make_pipeline

from skfairdp import DPAdditiveClassifier, PrivateTableEncoder, datasets
from skfairdp.additive.design import Design, levels_of
from skfairdp.exceptions import PrivacyWarning
from skfairdp.model_selection import fit_within
from skfairdp.preprocessing import PublicBinner

DATA = {
    "adult": (datasets.fetch_adult, "Adult"),
    "default": (datasets.fetch_default_credit, "Default-CCC"),
    "bank": (datasets.fetch_bank, "bank-full"),
    "law": (datasets.fetch_law_school, "Law School"),
    "diabetes": (datasets.fetch_diabetes130, "Diabetes130"),
}
EPSILONS, SEEDS, DELTA = (0.25, 0.5, 1.0, 2.0, 4.0), range(5), 1e-6
METHODS = {
    "additive": "`DPAdditiveClassifier`, defaults",
    "pairs": "with `pairs=8`",
    "undeclared": "with nothing declared",
    "tuned": "DP-EBM, tuned",
    "default": "DP-EBM, defaults",
}
# Settings of DP-EBM that are tried, with the declared heavy tails as logarithms; those that won are
# among them where more were tried, at ε = 1 and on three sets at .25.
GRID = [
    {"max_rounds": rounds, "learning_rate": rate, "max_leaves": leaves, "log": True}
    for (rounds, rate), leaves in itertools.product(
        ((50, 0.03), (300, 0.03), (100, 0.1), (300, 0.1), (100, 0.3)), (3, 8)
    )
]
BINS, REPEATS = (16, 32, 64), 2
PARTS = ("data", "epsilon", "method", "seed")
RIDGES = (0.001, 0.01, 0.1, 1.0)  # scikit-learn's C, of inputs of norm 4
LIMITS = {
    "noiseless": "steps without noise",
    "ridge": "exact minimum with a ridge",
    "undeclared_noiseless": "steps without noise, nothing declared",
    "undeclared_ridge": "exact minimum with a ridge, nothing declared",
    "boosted": "boosted trees",
}


def held_out(bunch: Any, seed: int, share: float = 0.2, among: Any = None) -> np.ndarray:
    """Mask of the rows that are held out: a share of the rows, or of the patients."""
    rows = np.arange(len(bunch.data)) if among is None else np.flatnonzero(among)
    owners = bunch.get("owners", np.arange(len(bunch.data)))[rows]
    split = GroupShuffleSplit(1, test_size=share, random_state=seed)
    mask = np.zeros(len(bunch.data), dtype=bool)
    mask[rows[next(split.split(rows, groups=owners))[1]]] = True
    return mask


def additive(bunch: Any, train: np.ndarray, epsilon: float, settings: dict) -> Any:
    """Our model; all settings are its defaults, or pairs are looked for."""
    model = DPAdditiveClassifier(
        bunch.bounds, bunch.categories, **settings, epsilon=epsilon, delta=DELTA, progress=False
    )
    return model.fit(bunch.data[train], bunch.target[train]).decision_function


def renamed(table: pd.DataFrame) -> pd.DataFrame:
    """Codes without names of identifiers, which the encoder refuses undeclared."""
    return table.rename(columns=lambda name: name.removesuffix("_id"))


def behind_encoder(bunch: Any, train: np.ndarray, epsilon: float, settings: dict) -> Any:
    """Our model in a pipeline with an encoder that learns bins and categories, one budget."""
    last = DPAdditiveClassifier(**settings, delta=DELTA, progress=False)
    steps = make_pipeline(PrivateTableEncoder(encoding="levels"), last)
    return fit_within(steps, renamed(bunch.data[train]), bunch.target[train], epsilon=epsilon)


def undeclared(bunch: Any, train: np.ndarray, epsilon: float, settings: dict) -> Any:
    """Our model with nothing declared."""
    model = behind_encoder(bunch, train, epsilon, settings)
    return lambda table: model.decision_function(renamed(table))


def undeclared_noiseless(bunch: Any, train: np.ndarray, epsilon: None, settings: dict) -> Any:
    """Our model without noise, with an encoder's levels at ε = 1; not private."""
    encoder = behind_encoder(bunch, train, 1.0, settings)[0]
    model = DPAdditiveClassifier(**settings, epsilon=math.inf, delta=DELTA, progress=False)
    model.fit(encoder.transform(renamed(bunch.data[train])), bunch.target[train])
    return lambda table: model.decision_function(encoder.transform(renamed(table)))


def noiseless(bunch: Any, train: np.ndarray, epsilon: None, settings: dict) -> Any:
    """Our model without noise; not private."""
    return additive(bunch, train, math.inf, settings)


def ridge(bunch: Any, train: np.ndarray, epsilon: None, settings: dict) -> Any:
    """Exact minimum for our model's inputs; not private."""
    binner = PublicBinner(bunch.bounds, bunch.categories, n_bins=16).fit(bunch.data)
    return exact(binner.transform, bunch, train, settings)


def undeclared_ridge(bunch: Any, train: np.ndarray, epsilon: None, settings: dict) -> Any:
    """Exact minimum for our model's inputs, with an encoder's levels at ε = 1; not private."""
    encoder = behind_encoder(bunch, train, 1.0, {})[0]
    return exact(lambda table: encoder.transform(renamed(table)), bunch, train, settings)


def exact(levels: Any, bunch: Any, train: np.ndarray, settings: dict) -> Any:
    """Exact minimum of the logistic loss with a ridge, for tables of `levels`."""
    design = Design([level for _, level in levels_of(levels(bunch.data[:2]))])

    def inputs(table: pd.DataFrame) -> csr_matrix:
        return csr_matrix(design.rows(levels(table)))

    model = LogisticRegression(**settings, max_iter=300)
    model.fit(inputs(bunch.data[train]), bunch.target[train])
    return lambda rows: model.decision_function(inputs(rows))


def ebm(bunch: Any, train: np.ndarray, epsilon: float, settings: dict) -> Any:
    """DP-EBM with declared bounds and kinds."""
    from interpret.privacy import DPExplainableBoostingClassifier

    bent = bunch.log_columns if settings.get("log") else ()

    def rows(table: pd.DataFrame) -> pd.DataFrame:
        return table.assign(**{c: np.sign(table[c]) * np.log1p(table[c].abs()) for c in bent})

    limits = rows(pd.DataFrame(bunch.bounds, dtype=float))
    model = DPExplainableBoostingClassifier(
        feature_types=["continuous" if c in bunch.bounds else "nominal" for c in bunch.data],
        privacy_bounds={c: tuple(limits[c]) for c in limits},
        epsilon=epsilon,
        delta=DELTA,
        n_jobs=1,
        **{name: value for name, value in settings.items() if name != "log"},
    )
    model.fit(rows(bunch.data[train]), bunch.target[train])
    return lambda table: model.decision_function(rows(table))


def boosted(bunch: Any, train: np.ndarray, epsilon: float, settings: dict) -> Any:
    """Boosted trees; not private."""
    table = bunch.data.assign(
        **{c: pd.Categorical(bunch.data[c], k).codes for c, k in bunch.categories.items()}
    )
    few = [c for c, k in bunch.categories.items() if len(k) < 255]
    model = HistGradientBoostingClassifier(categorical_features=few, random_state=0)
    model.fit(table[train], bunch.target[train])
    return lambda rows: model.decision_function(table.loc[rows.index])


def measured(fit: Any, bunch: Any, train: Any, test: Any, epsilon: float, settings: dict) -> dict:
    """Accuracy, AUC and seconds of one fit."""
    start = time.process_time()
    score = fit(bunch, train, epsilon, settings)
    seconds = time.process_time() - start
    odds, y = score(bunch.data[test]), np.asarray(bunch.target[test])
    auc, right = float(roc_auc_score(y, odds)), float(np.mean((odds > 0) == y))
    return {"auc": auc, "accuracy": right, "seconds": seconds}


def chosen(bunch: Any, train: np.ndarray, epsilon: float) -> dict:
    """Settings of DP-EBM with the largest AUC on a quarter of the training rows."""

    def quality(settings: dict, seed: int) -> float:
        test = held_out(bunch, seed, 0.25, among=train)
        return measured(ebm, bunch, train & ~test, test, epsilon, settings)["auc"]

    best = max(GRID, key=lambda settings: quality(settings, 0))
    tried = [best | {"max_bins": bins} for bins in BINS]
    means = [np.mean([quality(one, 1 + seed) for seed in range(REPEATS)]) for one in tried]
    return tried[int(np.argmax(means))]


def jobs_in(path: Path) -> set[tuple]:
    """Jobs that a file of results has: data, ε, method and seed."""
    lines = path.read_text().splitlines() if path.exists() else []
    return {tuple(json.loads(line)["job"]) for line in lines}


def add(path: Path, result: dict) -> None:
    """Add a result to a file, in a line of its own."""
    with path.open("a") as file:
        file.write(json.dumps(result) + "\n")


def results_in(path: Path, parts: Sequence[str] = PARTS) -> pd.DataFrame:
    """Results of a file, with the parts of each job as columns; prints how many fits each has."""
    rows = pd.DataFrame(map(json.loads, path.read_text().splitlines()))
    rows[list(parts)] = rows["job"].to_list()
    print(rows.groupby(list(parts[:-1]), dropna=False).size().unique(), "fits each")
    return rows


def best_ridge(fit: Any, bunch: Any, train: np.ndarray) -> dict:
    """The ridge of a limit with the largest AUC on a quarter of the training rows."""
    test = held_out(bunch, 0, 0.25, among=train)
    tried = [{"C": C} for C in RIDGES]
    aucs = [measured(fit, bunch, train & ~test, test, 0.0, one)["auc"] for one in tried]
    return tried[int(np.argmax(aucs))]


def fit(path: Path, names: list[str], epsilons: list[float], methods: list[str]) -> None:
    """Fit what the file does not have yet."""
    known = jobs_in(path)
    trained_by = {"additive": additive, "pairs": additive, "tuned": ebm, "default": ebm}
    trained_by |= {
        "undeclared": undeclared,
        "noiseless": noiseless,
        "ridge": ridge,
        "undeclared_noiseless": undeclared_noiseless,
        "undeclared_ridge": undeclared_ridge,
        "boosted": boosted,
    }
    for name in names:
        bunch = DATA[name][0]()
        for epsilon, method in itertools.product([*epsilons, None], methods):
            settings: dict | None = None
            for seed in SEEDS:
                job = (name, epsilon, method, seed)
                if job in known or (epsilon is None) != (method in LIMITS):
                    continue
                official = bunch.split
                test = held_out(bunch, seed) if official is None else official == "test"
                if settings is None:
                    first = held_out(bunch, 0) if official is None else test
                    settings = {"pairs": 8} if method == "pairs" else {}
                    if method == "tuned":
                        settings = chosen(bunch, ~first, epsilon)
                    elif method in ("ridge", "undeclared_ridge"):
                        settings = best_ridge(trained_by[method], bunch, ~first)
                found = measured(trained_by[method], bunch, ~test, test, epsilon, settings)
                add(path, {"job": job, "settings": settings} | found)


def report(path: Path, picture: Path) -> None:
    """Print the table and draw the picture."""
    import matplotlib.pyplot as plt

    rows = results_in(path)
    print("| data | ε | " + " | ".join(METHODS.values()) + " | ahead of tuned |")
    print("|---|---|" + "---|" * (len(METHODS) + 1))
    figure, axes = plt.subplots(1, len(DATA), figsize=(3 * len(DATA), 3), layout="constrained")
    for axis, (name, (_, title)) in zip(axes, DATA.items(), strict=True):
        mine = rows[rows["data"] == name]
        for at, epsilon in enumerate(EPSILONS):
            cells, auc = [], {}
            for method in METHODS:
                some = mine[(mine["method"] == method) & (mine["epsilon"] == epsilon)]
                auc[method] = some["auc"].mean()
                shown = f"{auc[method]:.4f} ± {some['auc'].std(ddof=0):.4f}"
                shown += f" ({some['accuracy'].mean():.4f})"
                cells.append(shown if len(some) else "not run")
            ahead = f"{auc['additive'] - auc['tuned']:+.4f}".replace("+nan", "")
            print(f"| {'' if at else title} | {epsilon:g} | {' | '.join(cells)} | {ahead} |")
        for method, label in METHODS.items():
            by = mine[mine["method"] == method].groupby("epsilon")["auc"]
            axis.errorbar(by.mean().index, by.mean(), by.std(ddof=0), label=label.replace("`", ""))
        free = mine[mine["method"] == "boosted"]
        axis.axhline(free["auc"].mean(), color="grey", ls=":", label="boosted trees, not private")
        for method, label in LIMITS.items():
            free = mine[mine["method"] == method]
            print(
                f"| | *not private: {label}* | {free['auc'].mean():.4f} "
                f"({free['accuracy'].mean():.4f}) | | | |"
            )
        axis.set(xscale="log", xticks=EPSILONS, xticklabels=map("{:g}".format, EPSILONS))
        axis.minorticks_off()
        axis.set(title=title, xlabel="ε")
    axes[0].set_ylabel("AUC on held-out rows")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    figure.savefig(picture, dpi=110)
    print("\nSeconds of one fit (one core), and settings that were chosen for DP-EBM:")
    print(rows.groupby(["data", "method"])["seconds"].mean().unstack().round(1).to_string())
    tuned = rows[rows["method"] == "tuned"].drop_duplicates(["data", "epsilon"])
    for _, one in tuned.iterrows():
        print(one["data"], one["epsilon"], one["settings"])


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("task", choices=("fit", "report"))
    parser.add_argument("results", type=Path)
    parser.add_argument("picture", type=Path, nargs="?")
    parser.add_argument("--data", nargs="+", default=list(DATA), choices=list(DATA))
    parser.add_argument("--epsilons", nargs="+", type=float, default=EPSILONS)
    everyone = [*METHODS, *LIMITS]
    parser.add_argument("--methods", nargs="+", default=everyone, choices=everyone)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", PrivacyWarning)
    if arguments.task == "fit":
        fit(arguments.results, arguments.data, arguments.epsilons, arguments.methods)
    else:
        report(arguments.results, arguments.picture)


if __name__ == "__main__":
    main()
