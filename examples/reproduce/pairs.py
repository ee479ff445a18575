"""Pairs of the additive model: what they gain and cost, on a quarter of training rows.

Five data sets, of each the training rows of the first split (`additive.py`); a simulated table in
which two columns say nothing singly and everything together; ε = 1 and 4. Both fits of a comparison
get the same batches and, but for its size, the same noise. Run as

    python -m examples.reproduce.pairs fit RESULTS.jsonl [--data adult ...]
    python -m examples.reproduce.pairs report RESULTS.jsonl docs/results/additive_pairs.png

The first line skips what the file has.
"""

from __future__ import annotations

import argparse
import itertools
import warnings
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score

from examples.reproduce.additive import DATA, DELTA, add, held_out, jobs_in, results_in
from skfairdp import DPAdditiveClassifier
from skfairdp.exceptions import PrivacyWarning
from skfairdp.privacy.noise import NoiseSource

EPSILONS, PAIRS, FITS = (1.0, 4.0), (0, 8), range(10)
TABLES = 10**6  # number of the release of pairs
TITLES = {name: title for name, (_, title) in DATA.items()} | {"parity": "Simulated"}


def simulated(n: int = 40_000, n_columns: int = 8, seed: int = 0) -> tuple[pd.DataFrame, Any]:
    """Rows whose label depends on whether two of their columns are on the same side of a half."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, n_columns))
    chance = np.where((X[:, 0] > 0.5) == (X[:, 1] > 0.5), 0.2, 0.8)
    return pd.DataFrame(X, columns=[f"x{k}" for k in range(n_columns)]), rng.random(n) < chance


def parts(name: str) -> tuple[pd.DataFrame, Any, np.ndarray, dict]:
    """Rows, labels, whether a row is held out, and what is declared."""
    if name == "parity":
        X, y = simulated()
        return X, y, np.arange(len(X)) >= 30_000, {"bounds": (0, 1)}
    bunch = DATA[name][0]()
    train = ~held_out(bunch, 0) if bunch.split is None else np.asarray(bunch.split) != "test"
    test = held_out(bunch, 100, 0.25, among=train)
    declared = {"bounds": bunch.bounds, "categories": bunch.categories}
    return bunch.data[train], np.asarray(bunch.target)[train], test[train], declared


def same_noise(seed: int, pairs: int) -> Any:
    """Noise that depends on the seed and on the release, with or without tables of pairs."""
    calls = itertools.count()

    def noisy(self: Any, sums: np.ndarray, std: float, *, exact: bool = True) -> np.ndarray:
        call = next(calls)  # of levels, of pairs if there are some, and then of each step
        which = call - (pairs > 0) if call > 1 else (TABLES if pairs * call else call)
        # The last number is that of the intercept, after the cells of pairs.
        drawn = np.roll(np.random.default_rng([seed, which]).normal(size=sums.size), -1)
        return sums + std * drawn.reshape(sums.shape)

    return mock.patch.object(NoiseSource, "noisy", noisy)


def fit(path: Path, names: list[str]) -> None:
    """Fit what the file does not have yet."""
    known = jobs_in(path)
    for name in names:
        X, y, test, declared = parts(name)
        for epsilon, seed, pairs in itertools.product(EPSILONS, FITS, PAIRS):
            job = (name, epsilon, pairs, seed)
            if job in known:
                continue
            model = DPAdditiveClassifier(
                **declared, pairs=pairs, epsilon=epsilon, delta=DELTA, progress=False
            ).set_params(random_state=seed, reproducible_noise=True)
            with same_noise(seed, pairs):
                model.fit(X[~test], y[~test])
            score, label = model.decision_function(X[test]), y[test]
            found = {
                "auc": float(roc_auc_score(label, score)),
                "accuracy": float(np.mean(model.predict(X[test]) == label)),
                "pairs": [
                    [model.levels_[column][0] for column in pair.columns]
                    for pair in getattr(model, "pairs_", ())
                ],
            }
            add(path, {"job": job} | found)


def report(path: Path, picture: Path) -> None:
    """Print the table and draw two maps."""
    import matplotlib.pyplot as plt

    rows = results_in(path)
    print("| data | ε | area without | with | difference | accuracy, difference | pairs chosen |")
    print("|---|---|---|---|---|---|---|")
    for name, title in TITLES.items():
        for epsilon in EPSILONS:
            some = rows[(rows["data"] == name) & (rows["epsilon"] == epsilon)]
            if not len(some):
                continue
            without, own = (some[some["method"] == p].set_index("seed") for p in PAIRS)
            cells = [
                f"{part['auc'].mean():.4f} ± {part['auc'].std(ddof=0):.4f}"
                for part in (without, own)
            ]
            for figure in ("auc", "accuracy"):
                apart = (own[figure] - without[figure]).dropna()
                cells.append(f"{apart.mean():+.4f} ± {apart.sem():.4f}")
            counts = ", ".join(str(len(pairs)) for pairs in own["pairs"])
            print(f"| {title} | {epsilon:g} | {' | '.join(cells)} | {counts} |".replace("0.", "."))
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    for axis, name, epsilon in zip(axes, ("parity", "bank"), (1.0, 4.0), strict=True):
        X, y, _, declared = parts(name)
        model = DPAdditiveClassifier(**declared, pairs=8, epsilon=epsilon, progress=False)
        model.fit(X, y)
        first, second = model.pairs_[0].columns
        named = f"{model.levels_[first][0]} × {model.levels_[second][0]}"
        shape = model.shape_functions_[named]
        most = np.abs(shape.to_numpy()).max()
        image = axis.imshow(shape, cmap="RdBu", vmin=-most, vmax=most, aspect="auto")
        axis.set_xticks(range(shape.shape[1]), shape.columns, rotation=20, ha="right", fontsize=7)
        axis.set_yticks(range(shape.shape[0]), shape.index, fontsize=7)
        axis.set(xlabel=shape.columns.name, ylabel=shape.index.name)
        axis.set_title(f"{TITLES[name]}, ε = {epsilon:g}: {named}", fontsize=9)
        figure.colorbar(image, ax=axis, label="contribution to the score")
    figure.savefig(picture, dpi=120)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("action", choices=("fit", "report"))
    parser.add_argument("results", type=Path)
    parser.add_argument("picture", type=Path, nargs="?")
    parser.add_argument("--data", nargs="+", default=list(TITLES), choices=list(TITLES))
    given = parser.parse_args()
    warnings.simplefilter("ignore", PrivacyWarning)
    if given.action == "fit":
        fit(given.results, given.data)
    else:
        report(given.results, given.picture)
