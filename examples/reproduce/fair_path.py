"""One fit, the whole frontier: figures of docs/results/fair_path.md.

``python examples/reproduce/fair_path.py --out FOLDER`` writes figures.csv (a row a model, seed
and tolerance). ``--sets``, ``--methods``, ``--notions``, ``--epsilons`` and ``--seeds`` choose;
what is in figures.csv already is not run again. ``--attribute`` runs Table 2 of PF-LD instead,
where the group alone is protected, and writes attribute.csv. The page is written by
``fair_path_report.py``.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from fairlearn.postprocessing import ThresholdOptimizer
from fairlearn.reductions import (
    DemographicParity,
    EqualizedOdds,
    ErrorRateParity,
    ExponentiatedGradient,
    TruePositiveRateParity,
)
from pfld_data import load_task
from pfld_published import TABLE_2
from scipy.sparse import csr_matrix
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from skfairdp import FairPathClassifier, RateConstrainedClassifier, default_net
from skfairdp.datasets import (
    fetch_adult,
    fetch_bank,
    fetch_compas,
    fetch_default_credit,
    fetch_law_school,
    load_mortgage_approvals,
)
from skfairdp.exceptions import FairnessWarning, PrivacyWarning
from skfairdp.inprocessing.fair_path.path import MULTIPLIERS
from skfairdp.inprocessing.fair_path.scores import Rates
from skfairdp.preprocessing import PublicEncoder

TOLERANCES = (0.02, 0.05, 0.07)
# One fit answers all of them.
ALONG = (0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.07, 0.085, 0.1)
CONSTRAINTS = {
    "demographic_parity": DemographicParity,
    "equal_opportunity": TruePositiveRateParity,
    "equalized_odds": EqualizedOdds,
    "accuracy_parity": ErrorRateParity,
}


SETS = {
    "adult": fetch_adult,
    "default_ccc": fetch_default_credit,
    "bank_full": lambda: fetch_bank(subset="full"),
    "law_school": fetch_law_school,
    "compas": fetch_compas,
    "mortgages": load_mortgage_approvals,
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
    if data.categories:
        encoded = PublicEncoder(data.categories).fit_transform(data.data[list(data.categories)])
        columns.append(np.asarray(encoded, dtype=np.float32))
    return np.hstack(columns)


def one_hot(data: Any) -> np.ndarray:
    """Numbers as they are, and categories."""
    return np.asarray(PublicEncoder(data.categories).fit_transform(data.data), dtype=np.float64)


def level_codes(data: Any) -> np.ndarray:
    """Numbers as they are, and categories by their places, as trees take them."""
    places = {
        name: pd.Categorical(data.data[name], categories=list(levels)).codes
        for name, levels in data.categories.items()
    }
    return data.data.assign(**places).to_numpy(dtype=np.float64)


class Task:
    """A data set, by its own split if it has one; the groups are no feature.

    Of Compas the two largest groups. Without a split of its own, 30 % of the rows are held out,
    others for each seed.
    """

    def __init__(self, name: str, columns: str, seed: int) -> None:
        data = SETS[name]()
        make = {"bins": public_bins, "raw": one_hot, "codes": level_codes}[columns]
        X = make(data)
        y, a = np.asarray(data.target), np.asarray(data.sensitive_features, dtype=str).ravel()
        kept = np.isin(a, pd.Series(a).value_counts().index[:2])
        if data.get("split") is not None:
            train = np.asarray(data.split == "train")
        else:
            train = np.random.default_rng(seed).random(len(y)) >= 0.3
        part, rest = kept & train, kept & ~train
        self.X, self.y, self.a = X[part], y[part], a[part]
        self.X_test, self.y_test, self.a_test = X[rest], y[rest], a[rest]

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


def path(task: Task, seed: int, notion: str, epsilon: float) -> list[dict]:
    """One private fit, and all tolerances."""
    settings = {"notion": notion, "epsilon": epsilon, "random_state": seed}
    model = FairPathClassifier(**settings, progress=False)
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairnessWarning)
        warnings.simplefilter("ignore", PrivacyWarning)
        model.fit(task.X, task.y, sensitive_features=task.a)
        seconds = time.process_time() - start
        points = {tolerance: model.at(tolerance) for tolerance in ALONG}
    auc = roc_auc_score(task.y_test, model.predict_proba(task.X_test)[:, 1])
    return [
        {
            "tolerance": tolerance,
            "auc": auc,
            "seconds": seconds,
            "kept_tolerance": point.kept_tolerance_,
            "multiplier": point.multiplier_,
            **task.measure(point.predict(task.X_test) == model.classes_[1], notion),
        }
        for tolerance, point in points.items()
    ]


def rates(task: Task, seed: int, notion: str, epsilon: float) -> list[dict]:
    """One private fit a tolerance."""
    rows = []
    for tolerance in TOLERANCES:
        net = default_net().set_params(module__hidden_sizes=(), lr=0.05)
        model = RateConstrainedClassifier(
            net,
            notion=notion,
            tolerance=tolerance,
            epsilon=epsilon,
            random_state=seed,
            progress=False,
        )
        start = time.process_time()
        model.fit(task.X, task.y, sensitive_features=task.a)
        rows.append(
            {
                "tolerance": tolerance,
                "seconds": time.process_time() - start,
                **task.measure(model.predict(task.X_test) == model.classes_[1], notion),
            }
        )
    return rows


def reduction(task: Task, seed: int, notion: str, epsilon: float, *, learner: str) -> list[dict]:
    """fairlearn's reduction; not private."""
    boosting = learner == "boosting"
    # The reduction takes dense columns; most of one-hot cells are 0.
    scale = StandardScaler() if learner == "raw" else FunctionTransformer(csr_matrix)
    linear = make_pipeline(scale, LogisticRegression(max_iter=500))
    # The reduction hands sample weights to whatever it is given.
    estimator = HistGradientBoostingClassifier(random_state=seed) if boosting else linear
    fit_param = "sample_weight" if boosting else "logisticregression__sample_weight"
    rows = []
    for tolerance in TOLERANCES:
        model = ExponentiatedGradient(
            estimator,
            CONSTRAINTS[notion](difference_bound=tolerance),
            sample_weight_name=fit_param,
            max_iter=15 if boosting else 50,
        )
        model.fit(task.X, task.y, sensitive_features=task.a)
        chance = model._pmf_predict(task.X_test)[:, 1]
        rows.append({"tolerance": tolerance, **task.measure(chance, notion)})
    return rows


def boosted_scores(task: Task, seed: int, notion: str, epsilon: float) -> list[dict]:
    """The rule on the scores of boosted trees, for two groups and one rate; not private."""
    rates, y = Rates.of(notion), (task.y == task.y.max()).astype(int)
    one = np.unique(task.a, return_inverse=True)[1]
    of_label = HistGradientBoostingClassifier(random_state=seed).fit(task.X, y)
    of_group = {}
    for labels in rates.heads:
        kept = np.isin(y, labels)
        trees = HistGradientBoostingClassifier(random_state=seed).fit(task.X[kept], one[kept])
        of_group |= dict.fromkeys(labels, trees)
    sizes = np.array([[((one == g) & (y == label)).sum() for label in (0, 1)] for g in (0, 1)])
    direction = rates.direction(sizes)

    def scores(X: np.ndarray) -> np.ndarray:
        chance = of_label.predict_proba(X)
        of_gaps = np.zeros(len(X))
        for label, trees in of_group.items():
            of_gaps += chance[:, label] * (trees.predict_proba(X) @ direction[:, label])
        return np.column_stack([2.0 * chance[:, 1] - 1.0, of_gaps])

    def selected(scores: np.ndarray, multiplier: float) -> np.ndarray:
        return (scores[:, 0] - multiplier * scores[:, 1] > 0.0).astype(float)

    trained, held_out = scores(task.X), scores(task.X_test)
    mine = Task.__new__(Task)
    mine.y_test, mine.a_test = y, one
    outwards = sorted(MULTIPLIERS[3::4], key=abs)
    gaps = np.array([mine.measure(selected(trained, m), notion)["gap"] for m in outwards])
    rows: list[dict] = []
    for tolerance in ALONG:
        # The first multiplier, outwards, whose gap among the training rows is small enough.
        multiplier = outwards[int(np.argmax(gaps <= max(tolerance, gaps.min())))]
        chance = selected(held_out, multiplier)
        rows.append({"tolerance": tolerance, **task.measure(chance, notion)})
    return rows


def thresholds(task: Task, seed: int, notion: str, epsilon: float) -> list[dict]:
    """A threshold for each group, which has to be known at prediction; not private."""
    constraint = {"equal_opportunity": "true_positive_rate_parity"}.get(notion, notion)
    model = ThresholdOptimizer(
        estimator=LogisticRegression(max_iter=500),
        constraints=constraint,
        predict_method="predict_proba",
    ).fit(task.X.astype(np.float64), task.y, sensitive_features=task.a)
    X_test = task.X_test.astype(np.float64)
    chance = model._pmf_predict(X_test, sensitive_features=task.a_test)[:, 1]
    return [{"tolerance": 0.0, **task.measure(chance, notion)}]


PATH = "path, one fit"
EPSILONS = {"private": [0.5, 1.0, 2.0, 4.0], "at 1": [1.0], "once": [float("inf")]}
METHODS: dict[str, tuple[str, str, Any]] = {
    PATH: ("bins", "private", path),
    "path without noise": ("bins", "once", lambda *args: path(*args[:3], float("inf"))),
    "RateConstrained, a fit a tolerance": ("bins", "at 1", rates),
    "reduction, logistic, raw columns": (
        "raw",
        "once",
        lambda *args: reduction(*args, learner="raw"),
    ),
    "reduction, logistic, bins": ("bins", "once", lambda *args: reduction(*args, learner="bins")),
    "reduction, boosting": ("codes", "once", lambda *args: reduction(*args, learner="boosting")),
    "bias scores, boosting": ("codes", "once", boosted_scores),
    "thresholds by group, logistic, bins": ("bins", "once", thresholds),
}

# The optimiser of thresholds knows no parity of accuracy; scores of one rate no two of them.
CANNOT = {
    ("thresholds by group, logistic, bins", "accuracy_parity"),
    ("bias scores, boosting", "equalized_odds"),
}


def seeds_of(name: str, method: str, epsilon: float, seeds: int) -> int:
    """Ten for the path at ε = 1; one where neither noise nor the split is drawn."""
    if method == PATH and epsilon == 1.0:
        return 2 * seeds
    return 1 if METHODS[method][1] == "once" and name == "adult" else seeds


def attribute(fold: int, dataset: str, notion: str, budget: float) -> dict[str, Any]:
    """One cell of Table 2 of PF-LD: groups protected at epsilon = `budget`, delta = 1e-5."""
    task = load_task(dataset, None, fold)
    published = TABLE_2[dataset, notion]["pfld"]
    model = FairPathClassifier(
        notion=notion,
        tolerance=published[2],  # the published gap
        epsilon=budget,
        protects="sensitive_features",
        delta=1e-5,
        random_state=fold,
        progress=False,
    )
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairnessWarning)
        warnings.simplefilter("ignore", PrivacyWarning)
        model.fit(task.X, task.y, sensitive_features=task.groups)
    seconds = time.process_time() - start
    right = model.predict(task.X_test) == task.y_test
    claim = model.certify(
        task.X_test,
        task.y_test,
        sensitive_features=task.groups_test,
        notion=notion,
        holdout="public",
    ).fairness[0]
    return {
        "dataset": dataset,
        "notion": notion,
        "fold": fold,
        "accuracy": right.mean(),
        "violation": claim.estimate,
        "published accuracy": published[0],
        "published violation": published[2],
        "kept_tolerance": model.kept_tolerance_,
        "epsilon": np.inf if model.privacy_ is None else model.privacy_.epsilon,
        "budget": budget,
        "seconds": seconds,
    }


def main() -> None:
    """Run the selected experiments."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--sets", nargs="*", help="all by default")
    parser.add_argument("--methods", nargs="*", default=list(METHODS))
    parser.add_argument("--notions", nargs="*", default=list(CONSTRAINTS))
    parser.add_argument("--epsilons", nargs="*", type=float, default=EPSILONS["private"])
    parser.add_argument("--attribute", action="store_true")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    if options.attribute:
        names = list(dict.fromkeys(dataset for dataset, _ in TABLE_2))
        chosen = options.sets or names
        jobs = [
            (fold, *cell, budget)
            for budget in (1.0, float("inf"))
            for cell in TABLE_2
            if cell[0] in chosen
            for fold in range(5)
        ]
        keys = ["fold", "dataset", "notion", "budget"]
        keep(options.out / "attribute.csv", keys, jobs, lambda *job: [attribute(*job)])
        return
    keys = ["set", "notion", "method", "epsilon", "seed"]
    jobs = [
        (name, notion, method, epsilon, seed)
        for name in options.sets or SETS
        for notion in options.notions
        for method in options.methods
        for epsilon in EPSILONS[METHODS[method][1]]
        if (method, notion) not in CANNOT and epsilon in [*options.epsilons, float("inf")]
        for seed in range(seeds_of(name, method, epsilon, options.seeds))
    ]

    @lru_cache(maxsize=2)
    def task(name: str, columns: str, seed: int) -> Task:
        return Task(name, columns, seed)

    def run(name: str, notion: str, method: str, epsilon: float, seed: int) -> list[dict]:
        columns, _, fit = METHODS[method]
        rows = fit(task(name, columns, seed), seed, notion, epsilon)
        job = dict(zip(keys, (name, notion, method, epsilon, seed), strict=True))
        return [row | job for row in rows]

    keep(options.out / "figures.csv", keys, jobs, run)


def keep(file: Path, keys: list[str], jobs: list[tuple], run: Callable[..., list[dict]]) -> None:
    """Run what a file does not hold yet, and add it."""
    for job in jobs:
        before = pd.read_csv(file) if file.exists() else pd.DataFrame(columns=keys)
        if (before[keys] == list(job)).all(axis=1).any():
            continue
        rows = pd.DataFrame(run(*job))
        pd.concat([before, rows] if len(before) else [rows]).to_csv(file, index=False)
        print(rows.round(4).to_string(), flush=True)


if __name__ == "__main__":
    main()
