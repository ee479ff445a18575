"""Data sets, splits and public preprocessing of the FairDP tables.

Nothing here is learned from rows: columns are scaled by declared bounds, categories are
encoded from declared lists, pixels are divided by a constant.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd
from fairdp_images import face_features
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from skfairdp.datasets import (
    fetch_abalone,
    fetch_adult,
    fetch_bank,
    fetch_compas,
    fetch_default_credit,
    fetch_law_school,
    fetch_utkface,
    load_mortgage_approvals,
    make_biased_gaussians,
)
from skfairdp.preprocessing import PublicEncoder, PublicScaler

TABULAR = ("adult", "default", "law", "abalone", "synthetic")
IMAGES = ("utkface", "utkface5")
TITLES = {
    "adult": "Adult",
    "default": "Default-CCC",
    "utkface": "UTK-Face",
    "utkface5": "UTK-Face, five races",
    "law": "Law School",
    "abalone": "Abalone",
    "synthetic": "Synthetic (001, appendix F)",
    "bank": "Bank",
    "compas": "Compas",
    "mortgages": "Mortgage approvals",
}
DESCRIPTIONS = {
    "adult": (
        "UCI Adult, 48,842 rows; label 1: income above 50,000 dollars; groups: sex, which is not "
        "a feature; all other attributes but fnlwgt and education (a copy of education-num); the "
        "official split, 32,561 to train and 16,281 to test; the seeds differ in initial weights "
        "and noise only."
    ),
    "default": (
        "Default of Credit Card Clients, 30,000 rows; label 1: default; groups: sex, which is not "
        "a feature; all 22 other columns; 70 % to train, drawn anew for every seed, stratified by "
        "group."
    ),
    "utkface": (
        "UTK-Face, grey, 48 x 48, exact duplicates removed; label 1: older than 35 (the papers do "
        "not state their rule; this one is nearest to their count of positives); groups: White "
        'against all other races (the papers write "race"; their Monte-Carlo errors fit these two '
        "groups); the loader's split, 80 % to train; "
        "the seeds differ in initial weights and noise only."
    ),
    "utkface5": "The same with all five races as groups.",
    "law": (
        "Law School (LSAC bar passage, cleaned, 20,798 rows: not the admission file of 86,022 rows "
        "that the first version of the paper used); label 1: passed the bar; groups: White and "
        "Non-White, which is not a feature; 70 % to train, drawn anew for every seed, stratified "
        "by group."
    ),
    "abalone": (
        "Abalone, the 1,418 rows and the split (1,057 to train) that the authors of FairDP "
        "published; label 1: ten rings or more; groups: sex, which is not a feature; the seeds "
        "differ in initial weights and noise only."
    ),
    "synthetic": (
        "`make_biased_gaussians`: 10,000 rows, 12 features, label 1 for 80 % of one group and "
        "20 % of the other, x given the label Gaussian with means +1 and -1 and covariance I + J "
        "(J all ones; the paper leaves it open); 80 % to train; data and split drawn anew for "
        "every seed."
    ),
    "bank": (
        "UCI Bank Marketing, the balanced version of 11,162 rows; label 1: subscribed; groups: "
        "25 to 60 years old or not (8.0 %), age is not a feature; `duration`, known only after "
        "the call, is left out; 70 % to train, drawn anew for every seed, stratified by group."
    ),
    "compas": (
        "ProPublica's COMPAS, 6,172 rows; label 1: charged again; groups: sex, which is not a "
        "feature; 70 % to train, drawn anew for every seed, stratified by group."
    ),
    "mortgages": (
        "Mortgage approvals in Boston, 1,989 rows; label 1: approved; groups: race (white or "
        "other), which is not a feature; 70 % to train, drawn anew for every seed, stratified by "
        "group."
    ),
}
# Other public bounds, without logarithms. The loader's spread capital gains between 0 and the
# census's top code of 99,999 dollars, on a logarithmic scale; but above some ten thousand dollars
# nearly all have label 1, and below few have.
CLIPPED = {"adult": {"capital-gain": (0, 15_000), "capital-loss": (0, 3_000)}}


@dataclass(frozen=True)
class Task:
    """One data set split for one seed; features are ready for a network.

    Parameters
    ----------
    X, X_test : ndarray of float32, shape (n, d) or (n, 1, 48, 48)
    y, y_test : ndarray of int64
    groups, groups_test : ndarray of str
    """

    X: np.ndarray
    y: np.ndarray
    groups: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    groups_test: np.ndarray


@lru_cache(maxsize=8)
def _rows(
    dataset: str, data_home: str | None, seed: int, cache: Path | None, images: bool, columns: str
) -> tuple:
    """Encoded rows of a data set; `seed` matters to the synthetic one only."""
    fetch = {
        "adult": fetch_adult,
        "default": fetch_default_credit,
        "law": fetch_law_school,
        "abalone": lambda **where: fetch_abalone(subset="fairdp", **where),
        "utkface": fetch_utkface,
        "utkface5": fetch_utkface,
        "bank": lambda **where: fetch_bank(subset="balanced", **where),
        "compas": lambda **where: fetch_compas(sensitive="sex", **where),
        "mortgages": lambda **_: load_mortgage_approvals(),
    }
    if dataset == "synthetic":
        rows = make_biased_gaussians(random_state=seed)
    else:
        rows = fetch[dataset](data_home=data_home)
    groups = np.asarray(rows.sensitive_features, dtype=str)
    if dataset == "utkface":
        groups = np.where(groups == "White", "White", "other")
    if dataset in IMAGES:
        X = rows.data if images else face_features(rows.data, cache)
    elif columns == "raw":
        categories = [name for name in rows.categories if name in rows.data]
        X = pd.get_dummies(rows.data, columns=categories).to_numpy(dtype=np.float64)
    else:
        clipped = CLIPPED.get(dataset, {}) if columns == "clipped" else {}
        log_columns = [name for name in rows.log_columns if name not in clipped]
        encode = make_pipeline(
            PublicScaler({**rows.bounds, **clipped}, log_columns=log_columns),
            PublicEncoder(rows.categories),
        )
        X = np.asarray(encode.fit_transform(rows.data), dtype=np.float32)
    return X, np.asarray(rows.target, dtype=np.int64), groups, getattr(rows, "split", None)


def load_task(
    dataset: str,
    data_home: str | None,
    seed: int,
    cache: Path | None,
    *,
    images: bool = False,
    columns: str = "declared",
) -> Task:
    """Load a data set and split it as the tables say.

    Parameters
    ----------
    dataset : str
        A key of `TITLES`.
    data_home : str or None
        Folder with the data files.
    seed : int
        Seed of the split, where there is no official one.
    cache : Path or None
        Where features of images are kept.
    images : bool, default=False
        UTK-Face: the images themselves instead of features.
    columns : {"declared", "clipped", "raw"}, default="declared"
        Tables: scale and encode by the loader's bounds and categories; the same with the
        bounds of `CLIPPED`; or raw numbers, and indicators of the categories in the rows.

    Returns
    -------
    Task
    """
    drawn = seed if dataset == "synthetic" else 0
    X, y, groups, split = _rows(dataset, data_home, drawn, cache, images, columns)
    if split is not None:
        train, test = np.flatnonzero(split == "train"), np.flatnonzero(split == "test")
    else:
        share = 0.2 if dataset == "synthetic" else 0.3
        # Stratified by group: group sizes, and with them the plan, are those of every seed.
        train, test = train_test_split(
            np.arange(len(y)), test_size=share, random_state=seed, stratify=groups
        )
    return Task(X[train], y[train], groups[train], X[test], y[test], groups[test])


def thin_majority(task: Task, ratio: float, seed: int) -> Task:
    """Drop training rows of the largest group until it is `ratio` times the smallest.

    Parameters
    ----------
    task : Task
    ratio : float
        The paper's rho, >= 1; a ratio above the natural one changes nothing.
    seed : int
        Which rows stay.

    Returns
    -------
    Task
        With the test part as it was.
    """
    labels, counts = np.unique(task.groups, return_counts=True)
    rows = np.flatnonzero(task.groups == labels[counts.argmax()])
    wanted = min(len(rows), round(ratio * counts.min()))
    gone = np.random.default_rng(seed).permutation(rows)[wanted:]
    kept = np.setdiff1d(np.arange(len(task.y)), gone)
    return Task(
        task.X[kept], task.y[kept], task.groups[kept], task.X_test, task.y_test, task.groups_test
    )
