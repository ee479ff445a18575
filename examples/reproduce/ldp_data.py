"""Data of the table on locally private representations: numbers, groups, parts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from sklearn.pipeline import make_pipeline

from skfairdp.datasets import fetch_adult, fetch_compas, fetch_hsls
from skfairdp.preprocessing import PublicEncoder, PublicScaler

SETS = ("adult", "compas", "hsls")
TITLES = {"adult": "Adult (sex)", "compas": "Compas (race)", "hsls": "HSLS (race)"}
DESCRIPTIONS = {
    "adult": (
        "UCI Adult, official split (32,561 and 16,281); 12 attributes (sex left out, education and "
        "education-num both kept); U = 1: income above 50,000 dollars."
    ),
    "compas": (
        "ProPublica's 6,172 rows, our split (4,320 and 1,852); 9 attributes (race left out); "
        "U = 1: NO new charge within two years; S: African-American or not."
    ),
    "hsls": (
        "15,906 students with observed race and score, other values imputed by the source "
        "(12,722 and 3,184, the source's split); 22 attributes; U = 1: score in mathematics above "
        "the median; S: White or Asian, or not. Not the 14,509 rows with 57 attributes of the "
        "paper, so published figures are not comparable."
    ),
}


@dataclass(frozen=True)
class Part:
    """Rows of one part of a data set.

    Parameters
    ----------
    X : ndarray of float64, shape (n, p)
        Encoded features.
    u : ndarray of int64, shape (n,)
        Utility label, 1 favourable.
    s : ndarray of str, shape (n,)
        Group.
    """

    X: np.ndarray
    u: np.ndarray
    s: np.ndarray

    def rows(self, index: np.ndarray) -> Part:
        """Return some of the rows."""
        return Part(self.X[index], self.u[index], self.s[index])

    def widened(self, scale: float) -> Part:
        """Return the same rows with columns of numbers multiplied by a constant."""
        numeric = ~np.isin(self.X, (0.0, 1.0)).all(axis=0)
        return Part(np.where(numeric, scale * self.X, self.X), self.u, self.s)


@cache
def parts(dataset: str, data_home: str | None) -> tuple[Part, Part]:
    """Training and test part of a data set, encoded with public constants."""
    if dataset == "adult":
        bunch = fetch_adult(data_home=data_home, include_education=True)
    elif dataset == "compas":
        bunch = fetch_compas(data_home=data_home, version="ten")
    else:
        bunch = fetch_hsls(data_home=data_home)
    encoder = make_pipeline(
        PublicScaler(bunch.bounds, log_columns=bunch.log_columns), PublicEncoder(bunch.categories)
    )
    everything = Part(
        np.asarray(encoder.fit_transform(bunch.data), dtype=np.float64),
        bunch.target.to_numpy(),
        bunch.sensitive_features.to_numpy(dtype=str),
    )
    train = np.asarray(bunch.split == "train")
    return everything.rows(train), everything.rows(~train)


def without_validation(train: Part) -> tuple[Part, Part]:
    """Four fifths of the training rows, and the fifth that settings are chosen on."""
    order = np.random.default_rng(2024).permutation(len(train.u))
    fifth = len(order) // 5
    return train.rows(order[fifth:]), train.rows(order[:fifth])
