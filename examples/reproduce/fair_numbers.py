"""Distances between groups' predictions at their squared error, on Law School and Communities.

Reads law_school_races.csv.gz and communities_crime.csv.gz from the folder that SKFAIRDP_DATA names.
Run from the root: ``python -m examples.reproduce.fair_numbers`` prints
``docs/results/tables/fair_numbers.md``, and ``--picture FILE`` draws its first table. That one is
of labels as scores, so that ε pays for the table of scores alone, with discrete Laplace noise. In
the second one ε pays for a fit of `FairPathRegressor`.
"""

from __future__ import annotations

import argparse
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from skfairdp import FairPathRegressor
from skfairdp.exceptions import FairnessWarning
from skfairdp.inprocessing.fair_numbers.transport import Scores, band
from skfairdp.privacy.noise import NoiseSource

SPLITS, FITS = range(50), range(5)  # 70/30
AIMS = (0.0, 0.01, 0.012, 0.02, 0.04, 0.08)
TOLERANCES = (0.99, 0.3, 0.2, 0.1)
# Published by Xian, Li, Kamath and Zhao (2024) at ε = 1: distance and squared error.
PUBLISHED = {"Law School": (0.350, 0.091, 0.0106), "Communities": (0.458, 0.068, 0.0181)}
# The page of the tables, up to each of them.
HEAD = """# Numbers that are alike between groups: all tables

What they show, and how it was measured:
[Numbers that are alike between groups](../fair_numbers.md).

## Labels as scores

Mean ± standard deviation of 50 splits, test rows. The last two columns are of answers rounded to
the grid.

| set | ε | aim | distance | squared error | distance, rounded | squared error |
|---|---|---|---|---|---|---|"""
OF_FITS = """
## Fits

Mean ± standard deviation of five splits, test rows.

| set | ε | group at prediction | tolerance | distance | squared error | kept |
|---|---|---|---|---|---|---|"""
AT_PREDICTION = {"raw": "known", "none": "blind"}
_RACES = ("asian", "black", "hisp", "white")
_LAW = {
    "lsat": (10, 50), "fam_inc": (1, 5), "tier": (1, 6), "male": (0, 1), "fulltime": (1, 2),
    "zfygpa": (-3, 3), "zgpa": (-3, 3),
}  # fmt: skip


def tables() -> dict[str, tuple[np.ndarray, np.ndarray, np.ndarray, tuple[float, float], int]]:
    """Features in [-1, 1] by public bounds, targets, groups, bounds and values of a table."""
    folder = Path(os.environ["SKFAIRDP_DATA"])
    law = pd.read_csv(folder / "law_school_races.csv.gz")
    law = law[law["race1"].isin(_RACES)]
    numbers = law[[*_LAW, "ugpa", "pass_bar"]].apply(pd.to_numeric, errors="coerce")
    known = numbers[["ugpa", "pass_bar"]].notna().all(axis=1)  # as in the usual version
    law, numbers = law[known], numbers[known]
    scaled = [2.0 * (numbers[c] - low) / (high - low) - 1.0 for c, (low, high) in _LAW.items()]
    crime = pd.read_csv(folder / "communities_crime.csv.gz")
    numeric = crime.drop(columns=["Black", "class", "state", "communityname", "fold"])
    numeric = numeric.select_dtypes("number")
    crimes = numeric.pop("ViolentCrimesPerPop").to_numpy(dtype=float)
    return {
        "Law School": (
            np.nan_to_num(np.column_stack(scaled).clip(-1, 1)),
            numbers["ugpa"].to_numpy(dtype=float).clip(1, 4),
            law["race1"].to_numpy(),
            (1.0, 4.0),
            31,
        ),
        "Communities": (
            2.0 * numeric.fillna(0.5).to_numpy() - 1.0,
            crimes,
            crime["Black"].to_numpy(),
            (0.0, 1.0),
            21,
        ),
    }


def distance(predictions: np.ndarray, codes: np.ndarray) -> float:
    """Largest Kolmogorov-Smirnov distance between two groups."""
    values = np.unique(predictions.round(9))
    parts = [np.sort(predictions[codes == code].round(9)) for code in np.unique(codes)]
    levels = [np.searchsorted(part, values, side="right") / len(part) for part in parts]
    return float(np.ptp(levels, axis=0).max())


def split(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Positions of seven and of three tenths of the rows."""
    order = np.random.default_rng(seed).permutation(n)
    return order[: int(0.7 * n)], order[int(0.7 * n) :]


def labels_as_scores(name: str, epsilon: float) -> np.ndarray:
    """Distance and squared error on test rows, of each split and aim; and of rounded answers.

    Rounded answers are values of the grid, as those of the published method.
    """
    _, y, groups, (low, high), n_values = tables()[name]
    _, codes = np.unique(groups, return_inverse=True)
    values = np.linspace(low, high, n_values)
    half = 0.5 * (values[1] - values[0])
    ends = np.linspace(low - half, high + half, n_values + 1)
    nearest = np.abs(y[:, None] - values).argmin(axis=1)
    found = []
    for seed in SPLITS:
        train, test = split(len(y), seed)
        counts = np.zeros((codes.max() + 1, n_values), dtype=np.int64)
        np.add.at(counts, (codes[train], nearest[train]), 1)
        if np.isfinite(epsilon):
            counts = counts + NoiseSource(seed).discrete_laplace(epsilon, counts.shape)
        scores = Scores.of(counts.cumsum(axis=1).astype(float), ends, values)
        draws = np.random.default_rng(seed).uniform(size=len(test))
        places = scores.places(values[nearest[test]], codes[test], draws)
        moved = [band(scores, aim).limited(y[test], places) for aim in AIMS]
        rounded = [low + np.rint((m - low) / (2.0 * half)) * 2.0 * half for m in moved]
        found.append(
            [
                [f for m in both for f in (distance(m, codes[test]), ((m - y[test]) ** 2).mean())]
                for both in zip(moved, rounded, strict=True)
            ]
        )
    return np.array(found)


def fits(name: str, epsilon: float, group_at_predict: str) -> np.ndarray:
    """Distance and squared error on test rows, and what is kept, of each fit and tolerance."""
    X, y, groups, bounds, _ = tables()[name]
    found = []
    for seed in FITS:
        train, test = split(len(y), seed)
        model = FairPathRegressor(
            target_bounds=bounds,
            epsilon=epsilon,
            delta=1e-5,
            group_at_predict=group_at_predict,
            progress=False,
        ).fit(X[train], y[train], sensitive_features=groups[train])
        for tolerance in TOLERANCES:
            stood = model.at(tolerance)
            moved = stood.predict(X[test], sensitive_features=groups[test])
            error = ((moved - y[test]) ** 2).mean()
            found.append((distance(moved, groups[test]), error, stood.kept_tolerance_))
    return np.array(found).reshape(len(FITS), len(TOLERANCES), 3)


def shown(figures: np.ndarray) -> str:
    """Mean and standard deviation over splits."""
    return f"{figures.mean():.4f} ± {figures.std():.4f}"


def level(epsilon: float) -> str:
    """Epsilon as the tables name it."""
    return f"{epsilon:g}" if np.isfinite(epsilon) else "∞"


def draw(found: dict[str, Any], path: str) -> None:
    """Draw squared error against distance."""
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    for ax, name in zip(axes, PUBLISHED, strict=True):
        for label, means in found[name].items():
            ax.plot(means[:, 0], means[:, 1], "o-", label=label)
        _, reached, error = PUBLISHED[name]
        ax.plot(reached, error, "k*", markersize=11, label="Xian et al. 2024, ε = 1")
        ax.set(xlabel="distance between groups, test rows", ylabel="squared error", title=name)
        ax.legend()
    figure.savefig(path, dpi=110)


def main() -> None:
    """Print the page of both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--picture", metavar="FILE")
    parser.add_argument("--without-fits", action="store_true", help="the first table alone")
    asked = parser.parse_args()
    curves: dict[str, Any] = {}
    print(HEAD)
    for name, (_, y, groups, *_) in tables().items():
        before = [distance(y[test], groups[test]) for _, test in (split(len(y), s) for s in SPLITS)]
        print(f"| {name} | | before | {shown(np.array(before))} | 0 | | |")
        curves[name] = {}
        for epsilon in (1.0, np.inf):
            found = labels_as_scores(name, epsilon)
            curves[name][f"ε = {level(epsilon)}"] = found.mean(axis=0)[:, 2:]
            for place, aim in enumerate(AIMS):
                figures = " | ".join(map(shown, found[:, place].T))
                print(f"| {name} | {level(epsilon)} | {aim:g} | {figures} |")
    if asked.picture:
        draw(curves, asked.picture)
    if asked.without_fits:
        return
    print(OF_FITS)
    for name in PUBLISHED:
        for epsilon in (1.0, 4.0, np.inf):
            for where, known in AT_PREDICTION.items():
                found = fits(name, epsilon, where)
                for place, tolerance in enumerate(TOLERANCES):
                    *moved, kept = found[:, place].T
                    figures = " | ".join((*map(shown, moved), f"{kept.mean():.4f}"))
                    print(f"| {name} | {level(epsilon)} | {known} | {tolerance:g} | {figures} |")


if __name__ == "__main__":
    from skfairdp.exceptions import PrivacyWarning

    warnings.simplefilter("ignore", PrivacyWarning)
    warnings.simplefilter("ignore", FairnessWarning)
    main()
