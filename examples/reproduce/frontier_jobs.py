"""Jobs of the frontier: what is fitted on which rows, and what is measured."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np
from frontier_mechanisms import Mechanism
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.utils import Bunch

from skfairdp.datasets import fetch_adult, fetch_default_credit, load_mortgage_approvals
from skfairdp.preprocessing import PublicEncoder, PublicScaler

DELTA = 1e-5
EPSILONS = (0.5, 1.0, 2.0, 4.0)
TOLERANCES = (0.01, 0.02, 0.05, 0.1)
NOTIONS = ("demographic_parity", "equal_opportunity", "equalized_odds")
FIGURES = ("accuracy", "auc", *NOTIONS)
# What the data set's mechanisms share; those that lack a parameter go without.
DATASETS: dict[str, tuple[str, dict[str, Any]]] = {
    "adult": (
        "Adult",
        {"batch_size": 1024, "max_epochs": 20, "n_teachers": 250, "n_answers": 300},
    ),
    "default": (
        "Default-CCC",
        {"batch_size": 512, "max_epochs": 20, "n_teachers": 250, "n_answers": 300},
    ),
    "mortgages": (
        "Mortgage approvals",
        {"batch_size": 300, "max_epochs": 20, "n_teachers": 50, "n_answers": 100},
    ),
}
# Nine of ten applications are approved, so at one half nearly all are. Where a trained
# model says yes is free to choose.
THRESHOLDS = {"mortgages": (0.5, 0.7, 0.8, 0.85, 0.9, 0.95)}
PUBLIC_SHARE = 0.2
# Seeds of each data set, and their largest number where the attribute alone is protected.
SEEDS = {"mortgages": 5, "default": 3, "adult": 3}
PROTECTED = {"record": 5, "sensitive_features": 2}
# Two tolerances only, to save time: where the attribute alone is protected, and on the largest
# data set for mechanisms whose knob promised least at a first look.
FEW = (0.01, 0.05)
COARSE = ("FairDP, M < 1", "smoothed DP-SGD", "FairPATE")


@dataclass(frozen=True)
class Job:
    """One fit.

    Parameters
    ----------
    dataset : str
        A key of `DATASETS`.
    mechanism : str
        Name in the table of mechanisms.
    epsilon : float
    tolerance : float or None
        None for a mechanism without a knob.
    seed : int
    """

    dataset: str
    mechanism: str
    epsilon: float
    tolerance: float | None
    seed: int


@dataclass(frozen=True, eq=False)
class Rows:
    """Encoded rows of a data set, with the official split if there is one."""

    X: np.ndarray
    y: np.ndarray
    groups: np.ndarray
    official: np.ndarray | None

    def split(self, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Positions of training and test rows: the official ones, or 30 % of each group."""
        if self.official is not None:
            return (
                np.flatnonzero(self.official == "train"),
                np.flatnonzero(self.official == "test"),
            )
        train, test = train_test_split(
            np.arange(len(self.y)), test_size=0.3, random_state=seed, stratify=self.groups
        )
        return train, test


def planned(datasets: list[str], mechanisms: tuple[Mechanism, ...]) -> Iterator[Job]:
    """Every fit, seeds outermost, so that a stopped run has whole pictures."""
    rounds = product(range(max(SEEDS.values())), PROTECTED, datasets, mechanisms)
    for seed, protects, dataset, mechanism in rounds:
        if mechanism.protects == protects and seed < min(SEEDS[dataset], PROTECTED[protects]):
            for epsilon, tolerance in product(EPSILONS, knobs(dataset, mechanism)):
                yield Job(dataset, mechanism.name, epsilon, tolerance, seed)


def knobs(dataset: str, mechanism: Mechanism) -> tuple[float | None, ...]:
    """Tolerances that a mechanism is run with."""
    if not mechanism.has_knob:
        return (None,)
    few = dataset == "adult" and mechanism.name in COARSE
    return FEW if few or mechanism.protects != "record" else TOLERANCES


def estimator(job: Job, mechanism: Mechanism) -> Any:
    """Build the unfitted estimator of a job."""
    common = {**DATASETS[job.dataset][1], "delta": DELTA, "progress": False}
    return mechanism.build(job.epsilon, job.tolerance, random_state=job.seed, **common)


def key(job: Job, mechanism: Mechanism) -> str:
    """Identity of a fit; other settings make another one."""
    return json.dumps([*asdict(job).values(), repr(estimator(job, mechanism))])


@lru_cache
def load(dataset: str, data_home: str | None) -> Rows:
    """Rows of a data set, scaled by declared bounds and encoded by declared categories."""
    if dataset == "mortgages":
        rows: Bunch = load_mortgage_approvals()
    else:
        fetch = {"adult": fetch_adult, "default": fetch_default_credit}[dataset]
        rows = fetch(data_home=data_home)
    public = make_pipeline(
        PublicScaler(rows.bounds, log_columns=rows.log_columns), PublicEncoder(rows.categories)
    )
    X = np.asarray(public.fit_transform(rows.data), dtype=np.float32)
    groups = np.asarray(rows.sensitive_features, dtype=str)
    return Rows(X, np.asarray(rows.target), groups, getattr(rows, "split", None))


def gaps(y: np.ndarray, predicted: np.ndarray, groups: np.ndarray) -> dict[str, float]:
    """Differences of rates between groups, in the notions of `skfairdp.metrics.group_gap`.

    That one is careful and slow; here are thousands of tables of two labels.
    """
    by_group = [(y == 1, predicted == 1, groups == group) for group in np.unique(groups)]
    rates = np.array(
        [[said[own].mean(), said[own & true].mean(), said[own & ~true].mean()]
         for true, said, own in by_group]
    )  # fmt: skip
    parity, true_positive, false_positive = np.ptp(rates, axis=0).tolist()
    odds = max(true_positive, false_positive)
    return dict(zip(NOTIONS, (parity, true_positive, odds), strict=True))


def run(job: Job, mechanism: Mechanism, rows: Rows) -> list[dict]:
    """Train one model and measure it on the test rows, at each threshold.

    Parameters
    ----------
    job : Job
    mechanism : Mechanism
    rows : Rows

    Returns
    -------
    list of dict
        Plain numbers, one mapping a threshold.

    Raises
    ------
    AssertionError
        The model states a larger epsilon than the one that was asked for, or protects
        something else than the table says.
    """
    X, y, groups = rows.X, rows.y, rows.groups
    train, test = rows.split(job.seed)
    public = {}
    if mechanism.public:
        # Played by training rows, whose labels are not shown, and which are then not private.
        train, shown = train_test_split(train, test_size=PUBLIC_SHARE, random_state=job.seed)
        public = {"X_public": X[shown], "sensitive_features_public": groups[shown]}
    model = estimator(job, mechanism)
    began = time.perf_counter()
    model.fit(X[train], y[train], sensitive_features=groups[train], **public)
    seconds = time.perf_counter() - began
    privacy = model.certify().privacy
    assert privacy.epsilon <= job.epsilon * (1 + 1e-9), (job, privacy.epsilon)
    assert privacy.protects == mechanism.protects, (job, privacy.protects)
    sure = model.predict_proba(X[test])[:, 1]
    measured = []
    for threshold in THRESHOLDS.get(job.dataset, (0.5,)):
        half = threshold == 0.5
        predicted = model.predict(X[test]) if half else (sure > threshold).astype(int)
        measured.append(
            asdict(job)
            | {
                "threshold": threshold,
                "accuracy": float(np.mean(predicted == y[test])),
                "auc": float(roc_auc_score(y[test], sure)),
                "constant": float(max(y[test].mean(), 1 - y[test].mean())),
                **gaps(y[test], predicted, groups[test]),
                "stated_epsilon": float(privacy.epsilon),
                "adjacency": privacy.adjacency,
                "protects": privacy.protects,
                "seconds": round(seconds, 2),
            }
        )
    return measured
