"""Tables whose target has several classes, with declared bounds and categories."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd
from fair_path import public_bins
from sklearn.utils import Bunch

from skfairdp.datasets import fetch_adult, fetch_diabetes130, fetch_hsls


def adult_hours() -> Bunch:
    """Adult: income above 50,000 or not, and more than 40 hours a week or not; groups by sex."""
    data = fetch_adult()
    hours = np.where(data.data["hours-per-week"] > 40, "long", "usual")
    income = np.where(np.asarray(data.target) == 1, "high", "low")
    return _without(data, "hours-per-week", target=np.char.add(np.char.add(income, " "), hours))


def diabetes() -> Bunch:
    """Diabetes130: readmitted within thirty days, later, or not; the two largest groups by race.

    First stays alone, so that a record is a patient.
    """
    data = fetch_diabetes130(sensitive="race", first_stay_only=True)
    raw = _raw("diabetes130.csv.gz", na_values=["?"])
    return _without(data, target=raw["readmitted"][~raw["patient_nbr"].duplicated()].to_numpy())


def hsls() -> Bunch:
    """HSLS: grade in mathematics, of four; students who are White or Asian, and others."""
    data = fetch_hsls()
    grades = data.data["S1M8GRADE"].replace("Below D", "D")
    return _without(data, "S1M8GRADE", target=grades.to_numpy(), kept=grades.isin(list("ABCD")))


_BANDS = {"0-10%": "low", "10-20%": "low", "20-30%": "low", "30-40%": "middle", "40-50%": "middle"}
_BANDS |= {"50-60%": "middle", "60-70%": "high", "70-80%": "high"}


def oulad() -> Bunch:
    """OULAD: three bands of the index of deprivation of a student's home; groups by gender.

    The first row of each student, so that a record is a person.
    """
    rows = _raw("oulad.csv.gz").drop_duplicates("id_student")
    table = rows.drop(columns=["id_student", "gender", "imd_band"])
    bounds = {"num_of_prev_attempts": (0.0, 6.0), "studied_credits": (0.0, 300.0)}
    named = [name for name in table if name not in bounds]
    # The codes of the modules, regions and so on are those of the university's documentation.
    categories = {name: sorted(table[name].unique()) for name in named}
    return Bunch(
        data=table,
        target=rows["imd_band"].map(_BANDS).fillna("high").to_numpy(),
        sensitive_features=rows["gender"].to_numpy(),
        bounds=bounds,
        categories=categories,
    )


SETS = {"adult_hours": adult_hours, "diabetes": diabetes, "hsls": hsls, "oulad": oulad}


class ClassTask:
    """Training and test rows of a set, two groups of it; the groups are no feature.

    By its own split if it has one, else 30 % of the rows are held out, others for each seed.
    """

    def __init__(self, name: str, seed: int) -> None:
        data = SETS[name]()
        X = public_bins(data)
        y = np.asarray(data.target, dtype=str)
        a = np.asarray(data.sensitive_features, dtype=str).ravel()
        kept = np.isin(a, pd.Series(a).value_counts().index[:2])
        if data.get("split") is not None:
            train = np.asarray(data.split == "train")
        else:
            train = np.random.default_rng(seed).random(len(y)) >= 0.3
        part, rest = kept & train, kept & ~train
        self.X, self.y, self.a = X[part], y[part], a[part]
        self.X_test, self.y_test, self.a_test = X[rest], y[rest], a[rest]


def parity_gap(answers: np.ndarray, groups: np.ndarray) -> float:
    """Largest difference between groups of the share of an answer."""
    shares = pd.crosstab(groups, answers, normalize="index")
    return float((shares.max() - shares.min()).max())


def _without(
    data: Bunch, *dropped: str, target: np.ndarray, kept: pd.Series | None = None
) -> Bunch:
    rows = np.ones(len(target), dtype=bool) if kept is None else kept.to_numpy()
    split = data.get("split")
    return Bunch(
        data=data.data.drop(columns=list(dropped))[rows],
        target=np.asarray(target)[rows],
        sensitive_features=np.asarray(data.sensitive_features)[rows],
        bounds={name: pair for name, pair in data.bounds.items() if name not in dropped},
        categories={name: of for name, of in data.categories.items() if name not in dropped},
        split=None if split is None else np.asarray(split)[rows],
    )


def _raw(name: str, **options: object) -> pd.DataFrame:
    folder = Path(os.environ["SKFAIRDP_DATA"])
    return pd.read_csv(folder / name, keep_default_na=False, low_memory=False, **options)
