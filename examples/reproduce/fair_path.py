"""One fit, the whole frontier: figures of docs/results/fair_path.md on Adult.

``python examples/reproduce/fair_path.py --out FOLDER`` trains with the official split, writes
figures.csv (a row a model and seed) and the picture. ``--seeds`` and ``--methods`` choose.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from fairlearn.postprocessing import ThresholdOptimizer
from fairlearn.reductions import (
    DemographicParity,
    EqualizedOdds,
    ExponentiatedGradient,
    TruePositiveRateParity,
)
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skfairdp import FairPathClassifier, RateConstrainedClassifier, default_net
from skfairdp.datasets import fetch_adult
from skfairdp.exceptions import FairnessWarning
from skfairdp.preprocessing import PublicEncoder

TOLERANCES = (0.02, 0.05, 0.07)
CONSTRAINTS = {
    "demographic_parity": DemographicParity,
    "equal_opportunity": TruePositiveRateParity,
    "equalized_odds": EqualizedOdds,
}


def public_bins(data: Any, n_cells: int = 32) -> np.ndarray:
    """One-hot cells of declared bounds, on the linear and on the log scale, and categories.

    Nothing here looks at a row: cells are of equal width between the bounds of the codebook.
    """
    columns = []
    for name, (low, high) in data.bounds.items():
        values = data.data[name].to_numpy(dtype=float).clip(low, high) - low
        for place in (values / (high - low), np.log1p(values) / np.log1p(high - low)):
            cell = np.minimum((place * n_cells).astype(int), n_cells - 1)
            columns.append(np.eye(n_cells, dtype=np.float32)[cell])
    encoded = PublicEncoder(data.categories).fit_transform(data.data[list(data.categories)])
    return np.hstack([*columns, np.asarray(encoded, dtype=np.float32)])


class Task:
    """Adult by its official split; sex is the group and no feature."""

    def __init__(self, columns: str) -> None:
        data = fetch_adult()
        raw = PublicEncoder(data.categories).fit_transform(data.data)
        X = public_bins(data) if columns == "bins" else np.asarray(raw, dtype=np.float64)
        train = np.asarray(data.split == "train")
        y, a = np.asarray(data.target), np.asarray(data.sensitive_features).ravel()
        self.X, self.y, self.a = X[train], y[train], a[train]
        self.X_test, self.y_test, self.a_test = X[~train], y[~train], a[~train]

    def measure(self, chance: np.ndarray, notion: str) -> dict[str, float]:
        """Accuracy and gaps of decisions; those of a mixture are chances of being selected."""
        positive = self.y_test == self.y_test.max()
        one = self.a_test == np.unique(self.a_test)[1]
        right = np.where(positive, chance, 1.0 - chance)

        def gap(values: np.ndarray, within: np.ndarray) -> float:
            return abs(values[within & one].mean() - values[within & ~one].mean())

        everyone = np.ones(len(chance), dtype=bool)
        gaps = {
            "demographic_parity": gap(chance, everyone),
            "equal_opportunity": gap(chance, positive),
            "equalized_odds": max(gap(chance, positive), gap(chance, ~positive)),
            "accuracy_parity": gap(right, everyone),
        }
        return {"accuracy": right.mean(), "gap": gaps[notion]}


def path(task: Task, seed: int, notion: str, **settings: Any) -> list[dict]:
    """One private fit, and all tolerances."""
    model = FairPathClassifier(notion=notion, random_state=seed, progress=False, **settings)
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairnessWarning)
        model.fit(task.X, task.y, sensitive_features=task.a)
        seconds = time.process_time() - start
        points = {tolerance: model.at(tolerance) for tolerance in TOLERANCES}
    auc = roc_auc_score(task.y_test, model.predict_proba(task.X_test)[:, 1])
    spent = {"epsilon": model.privacy_.epsilon} if model.privacy_ else {}
    return [
        {
            "tolerance": tolerance,
            "auc": auc,
            "seconds": seconds,
            "kept_tolerance": point.kept_tolerance_,
            "multiplier": point.multiplier_,
            **spent,
            **task.measure(point.predict(task.X_test) == model.classes_[1], notion),
        }
        for tolerance, point in points.items()
    ]


def rates(task: Task, seed: int, notion: str) -> list[dict]:
    """One private fit a tolerance."""
    rows = []
    for tolerance in TOLERANCES:
        net = default_net().set_params(module__hidden_sizes=(), lr=0.05)
        model = RateConstrainedClassifier(
            net, notion=notion, tolerance=tolerance, random_state=seed, progress=False
        )
        start = time.process_time()
        model.fit(task.X, task.y, sensitive_features=task.a)
        rows.append(
            {
                "tolerance": tolerance,
                "seconds": time.process_time() - start,
                "epsilon": model.privacy_.epsilon,
                **task.measure(model.predict(task.X_test) == model.classes_[1], notion),
            }
        )
    return rows


def reduction(task: Task, seed: int, notion: str, *, learner: str) -> list[dict]:
    """fairlearn's reduction; not private."""
    kinds = {
        "logistic": make_pipeline(StandardScaler(), LogisticRegression(max_iter=500)),
        "linear": LogisticRegression(max_iter=500),
        "boosting": HistGradientBoostingClassifier(random_state=seed),
    }
    # The reduction hands sample weights to whatever it is given.
    estimator = kinds[learner]
    fit_param = "logisticregression__sample_weight" if learner == "logistic" else "sample_weight"
    rows = []
    for tolerance in TOLERANCES:
        model = ExponentiatedGradient(
            estimator,
            CONSTRAINTS[notion](difference_bound=tolerance),
            sample_weight_name=fit_param,
        )
        model.fit(task.X, task.y, sensitive_features=task.a)
        chance = model._pmf_predict(task.X_test)[:, 1]
        rows.append({"tolerance": tolerance, **task.measure(chance, notion)})
    return rows


def thresholds(task: Task, seed: int, notion: str) -> list[dict]:
    """A threshold for each group, which has to be known at prediction; not private."""
    names = {"demographic_parity": "demographic_parity", "equal_opportunity": None}
    constraint = names[notion] or "true_positive_rate_parity"
    model = ThresholdOptimizer(
        estimator=LogisticRegression(max_iter=500),
        constraints=constraint,
        predict_method="predict_proba",
    ).fit(task.X.astype(np.float64), task.y, sensitive_features=task.a)
    X_test = task.X_test.astype(np.float64)
    chance = model._pmf_predict(X_test, sensitive_features=task.a_test)[:, 1]
    return [{"tolerance": 0.0, **task.measure(chance, notion)}]


METHODS: dict[str, tuple[str, str, Any]] = {
    "path, one fit at epsilon = 1": ("bins", "private", path),
    "path without noise": (
        "bins",
        "once",
        lambda task, seed, notion: path(task, seed, notion, epsilon=float("inf")),
    ),
    "RateConstrained, a fit a tolerance": ("bins", "private", rates),
    "reduction, logistic, raw columns": (
        "raw",
        "once",
        lambda *args: reduction(*args, learner="logistic"),
    ),
    "reduction, logistic, bins": ("bins", "once", lambda *args: reduction(*args, learner="linear")),
    "reduction, boosting": ("raw", "once", lambda *args: reduction(*args, learner="boosting")),
    "thresholds by group, logistic, bins": ("bins", "once", thresholds),
}


def picture(figures: pd.DataFrame, out: Path) -> None:
    """Accuracy against the gap, of test rows."""
    figure, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
    for method, rows in figures[figures["notion"] == "demographic_parity"].groupby("method"):
        means = rows.groupby("tolerance")[["gap", "accuracy"]].median()
        private = METHODS[method][1] == "private"
        style = "o-" if private else "s--"
        ax.plot(means["gap"], means["accuracy"], style, label=method, alpha=1.0 if private else 0.6)
    ax.set(xlabel="parity gap, test rows", ylabel="accuracy, test rows")
    ax.legend(fontsize=8)
    figure.savefig(out / "fair_path_adult.png", dpi=150)


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--methods", nargs="*", default=list(METHODS))
    parser.add_argument("--notions", nargs="*", default=["demographic_parity"])
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    file = options.out / "figures.csv"
    tasks: dict[str, Task] = {}
    for notion in options.notions:
        for method in options.methods:
            columns, kind, run = METHODS[method]
            task = tasks.setdefault(columns, Task(columns))
            for seed in range(options.seeds if kind == "private" else 1):
                rows = [
                    {"method": method, "notion": notion, "seed": seed, **row}
                    for row in run(task, seed, notion)
                ]
                before = [pd.read_csv(file)] if file.exists() else []
                pd.concat([*before, pd.DataFrame(rows)]).to_csv(file, index=False)
                print(pd.DataFrame(rows).round(4).to_string(), flush=True)
    picture(pd.read_csv(file), options.out)


if __name__ == "__main__":
    main()
