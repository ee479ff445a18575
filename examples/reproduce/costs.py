"""Costs of mistakes: a threshold bought under ε, that of exact chances, and others.

German credit, Default-CCC and bank-full; a mistake about the second class costs five times one
about the first; ε = 1, five splits with a fifth of the rows held out. Run as

    python -m examples.reproduce.costs fit RESULTS.jsonl [--data german ...]
    python -m examples.reproduce.costs report RESULTS.jsonl

The first line skips what the file has. German credit is ``german_credit.csv.gz`` in the folder of
SKFAIRDP_DATA: UCI's rows with texts for the codes.
"""

from __future__ import annotations

import argparse
import itertools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.utils import Bunch

from examples.reproduce.additive import DATA, DELTA, add, held_out, jobs_in, results_in
from skfairdp import DPAdditiveClassifier, DPSGDClassifier
from skfairdp.preprocessing import PublicEncoder, PublicScaler

EPSILON, SEEDS, RATIO = 1.0, range(5), 5.0
TITLES = {"german": "German credit", "default": "Default-CCC", "bank": "bank-full"}
LEARNERS = {"additive": "`DPAdditiveClassifier`", "dpsgd": "`DPSGDClassifier`"}
# Public ends of German credit's columns of numbers: months, marks, years, per cent, counts.
ENDS = {
    "duration": (0, 100),
    "credit-amount": (0, 20_000),
    "age": (18, 100),
    "installment-rate": (1, 4),
    "residence-since": (1, 4),
    "existing-credits": (1, 4),
    "numner-people-provide-maintenance-for": (1, 2),
}
FIGURES = {
    "half": "1/2",
    "exact": "1/6, costs no ε",
    "private": "bought",
    "weighted": "`class_weight`, 1/2",
    "best": "best, not private",
    "least": "least noisy cost",
}


def german() -> Bunch:
    """German credit; categories are those of the file, which UCI's codebook lists."""
    table = pd.read_csv(Path(os.environ["SKFAIRDP_DATA"]) / "german_credit.csv.gz")
    target = (table.pop("class-label") == 0).astype(int)  # 1 for a bad credit, as UCI has it
    kinds = {c: sorted(table[c].astype(str).unique()) for c in table if c not in ENDS}
    table = table.astype(dict.fromkeys(kinds, str))
    return Bunch(data=table, target=target, bounds=ENDS, categories=kinds, log_columns=())


def rows_of(name: str) -> Bunch:
    """Rows, bounds and categories of a data set."""
    return german() if name == "german" else DATA[name][0]()


def models(bunch: Bunch, learner: str) -> Callable[..., Any]:
    """Make unfitted models of a learner, with parameters for its last step."""
    given = {"epsilon": EPSILON, "delta": DELTA, "progress": False}
    if learner == "additive":
        return lambda **more: make_pipeline(
            DPAdditiveClassifier(bunch.bounds, bunch.categories, **given, **more)
        )
    return lambda **more: make_pipeline(
        PublicScaler(bunch.bounds, log_columns=bunch.log_columns),
        PublicEncoder(bunch.categories),
        DPSGDClassifier(**given, **more),
    )


def mean_cost(answers: np.ndarray, labels: np.ndarray) -> float:
    """Mean cost of a row; a mistake about the first class costs 1."""
    return float(np.mean(np.where(labels == 1, RATIO, 1.0) * (answers != labels)))


def best_threshold(chances: np.ndarray, labels: np.ndarray) -> float:
    """Threshold with the least cost among rows, without privacy."""
    order = np.argsort(-chances)
    saved = np.cumsum(np.where(labels[order] == 1, RATIO, -1.0))
    ends = np.flatnonzero(np.append(np.diff(chances[order]) < 0.0, True))
    place = ends[np.argmax(saved[ends])]
    return float(chances[order][place]) - 1e-12 if saved[place] > 0.0 else 1.0


def fit(path: Path, names: list[str]) -> None:
    """Fit what the file does not have yet."""
    known = jobs_in(path)
    for name in names:
        bunch = rows_of(name)
        for learner, seed in itertools.product(LEARNERS, SEEDS):
            job = (name, EPSILON, learner, seed)
            if job not in known:
                add(path, {"job": job} | measured(bunch, learner, seed))


def measured(bunch: Bunch, learner: str, seed: int) -> dict[str, Any]:
    """Costs of the fits of one split among its held-out rows."""
    make, costs, t0 = models(bunch, learner), {0: 1.0, 1: RATIO}, 1.0 / (1.0 + RATIO)
    y, rows, test = np.asarray(bunch.target).astype(int), bunch.data, held_out(bunch, seed)
    train = ~test
    plain = make().fit(rows[train], y[train])
    bought = make(costs=costs).fit(rows[train], y[train])
    weighted = make(class_weight=costs).fit(rows[train], y[train])
    best = best_threshold(plain.predict_proba(rows[train])[:, 1], y[train])
    table = bought[-1].threshold_table_
    least = float(table["threshold"][table["cost"].argmin()])

    def above(threshold: float, model: Any) -> float:
        chances = model.predict_proba(rows[test])[:, 1]
        return mean_cost((chances > threshold).astype(int), y[test])

    share = float(np.mean(y[train]))
    return {
        "half": mean_cost(plain.predict(rows[test]), y[test]),
        "exact": above(t0, plain),
        "private": mean_cost(bought.predict(rows[test]), y[test]),
        "weighted": mean_cost(weighted.predict(rows[test]), y[test]),
        "best": above(best, plain),
        "least": above(least, bought),
        "constant": min(1.0 - share, RATIO * share),
        "thresholds": [bought[-1].threshold_, best, least],
        "free": above(t0, not_private(bunch, train, y)),
    }


def not_private(bunch: Bunch, train: np.ndarray, y: np.ndarray) -> Any:
    """Logistic regression on scaled and encoded rows, without privacy."""
    steps = make_pipeline(
        PublicScaler(bunch.bounds, log_columns=bunch.log_columns),
        PublicEncoder(bunch.categories),
        LogisticRegression(max_iter=2000),
    )
    return steps.fit(bunch.data[train], y[train])


def report(path: Path) -> None:
    """Print the table."""
    rows = results_in(path)
    print(f"| data | learner | {' | '.join(FIGURES.values())} | bought thresholds |")
    print("|---|---|" + "---|" * (len(FIGURES) + 1))
    for name, title in TITLES.items():
        for learner, called in LEARNERS.items():
            some = rows[(rows["data"] == name) & (rows["method"] == learner)]
            if not len(some):
                continue
            cells = [f"{some[f].mean():.3f} ± {some[f].std(ddof=0):.3f}" for f in FIGURES]
            found = ", ".join(f"{each[0]:.2f}" for each in some["thresholds"])
            print(f"| {title} | {called} | {' | '.join(cells)} | {found} |")
        own = rows[rows["data"] == name]
        if len(own):
            print(f"\n{title}: one answer for all {own['constant'].mean():.3f}, ", end="")
            print(f"logistic regression without privacy at 1/6 {own['free'].mean():.3f}")
            for learner in LEARNERS:
                some = own[own["method"] == learner]
                gains = [f"{gain:+.3f}" for gain in some["private"] - some["exact"]]
                print(f"{learner}, bought less 1/6, split by split: {', '.join(gains)}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("action", choices=("fit", "report"))
    parser.add_argument("results", type=Path)
    parser.add_argument("--data", nargs="+", default=list(TITLES), choices=list(TITLES))
    given = parser.parse_args()
    if given.action == "fit":
        fit(given.results, given.data)
    else:
        report(given.results)
