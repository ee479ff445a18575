"""Whether other directions mend blind fair regressors on Communities: best cases, not private.

A blind `FairPathRegressor` with epsilon 1 moves scores along one direction, by what is expected of
the group. Its scores and chances of groups are taken as they are, and better moves are looked for
among the training rows *without noise*, so that each error is below what a private choice could
have. Reads communities_crime.csv.gz from the folder that SKFAIRDP_DATA names. Run from the root:
``python -m examples.reproduce.fair_numbers_basis --epsilon 1``.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
import torch

from examples.reproduce.fair_numbers import distance, split, tables
from skfairdp import FairPathRegressor
from skfairdp.exceptions import FairnessWarning, PrivacyWarning

WEIGHTS = (0.0, 0.03, 0.1, 0.3, 1.0, 3.0)  # of the distance, added to the error
BASES = (1, 4, 8)


def hats(scores: np.ndarray, n: int) -> np.ndarray:
    """Values of n functions that are smooth in the score and add up to one."""
    if n == 1:
        return np.ones((len(scores), 1))
    places = np.linspace(-0.9, 0.3, n)
    width = places[1] - places[0]
    near = np.maximum(1.0 - np.abs(scores.clip(-0.9, 0.3)[:, None] - places) / width, 0.0)
    return np.asarray(near / near.sum(axis=1, keepdims=True))


def best(
    scores: np.ndarray, chance: np.ndarray, y: np.ndarray, group: np.ndarray, n: int, weight: float
) -> np.ndarray:
    """Coefficients of the smallest error and weighted smooth distance among the training rows."""
    of_move = torch.tensor(hats(scores, n) * chance[:, None])
    theta = torch.zeros(n, dtype=torch.float64, requires_grad=True)
    f, target, one = torch.tensor(scores), torch.tensor(y), torch.tensor(group == 1)
    thresholds = torch.linspace(-1.0, 0.8, 24, dtype=torch.float64)
    steps = torch.optim.Adam([theta], lr=0.05)
    for _ in range(150):
        moved = f + of_move @ theta
        below = torch.sigmoid((thresholds - moved[:, None]) / 0.05)
        apart = below[one].mean(dim=0) - below[~one].mean(dim=0)
        loss = ((moved - target) ** 2).mean() + weight * (apart**2).mean()
        steps.zero_grad()
        loss.backward()
        steps.step()
    return theta.detach().numpy()


def main() -> None:
    """Print error and distance on test rows, as they are and with the error recalibrated."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--splits", type=int, default=3)
    asked = parser.parse_args()
    X, y, groups, (low, high), _ = tables()["Communities"]
    _, codes = np.unique(groups, return_inverse=True)
    half = 0.5 * (high - low)
    print("| split | rule | weight | distance | squared error | recalibrated |")
    print("|---|---|---|---|---|---|")
    for seed in range(asked.splits):
        train, test = split(len(y), seed)
        model = FairPathRegressor(
            target_bounds=(low, high), epsilon=asked.epsilon, delta=1e-5, progress=False
        ).fit(X[train], y[train], sensitive_features=groups[train])
        scaled = (y - low) / half - 1.0
        known = [model._known(X[rows]) for rows in (train, test)]
        f, other = (part[:, 0].clip(-1.0, 1.0) for part in known)
        chance, of_test = (part[:, 2] - (codes[train] == 1).mean() for part in known)
        print(f"| {seed} | constant | | 0 | {y[test].var():.4f} | |")
        rows: list[tuple[str, str, np.ndarray, np.ndarray]] = []
        for m in (0.0, 0.25, 0.5, 0.75, 1.0):
            rows.append(("as fitted", f"{m:g}", *(model._moved(part, m) for part in known)))
        for n in BASES:
            for weight in WEIGHTS:
                theta = best(f, chance, scaled[train], codes[train], n, weight)
                moved = f + hats(f, n) * chance[:, None] @ theta
                on_test = other + hats(other, n) * of_test[:, None] @ theta
                rows.append((f"best of {n}", f"{weight:g}", moved, on_test))
        for rule, weight, moved, on_test in rows:
            slope, constant = np.polyfit(moved, scaled[train], 1)
            errors = [
                half**2 * ((answer - scaled[test]) ** 2).mean()
                for answer in (on_test.clip(-1, 1), (slope * on_test + constant).clip(-1, 1))
            ]
            apart = distance(on_test.clip(-1, 1), codes[test])
            figures = f"{apart:.3f} | {errors[0]:.4f} | {errors[1]:.4f}"
            print(f"| {seed} | {rule} | {weight} | {figures} |", flush=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore", PrivacyWarning)
    warnings.simplefilter("ignore", FairnessWarning)
    main()
