"""Cost of declaring nothing: accuracy and AUC of the additive model.

Three ways to its bins: bounds and categories of the codebook; a `PrivateTableEncoder` under the
same total ε (`fit_within`); and the same encoder without noise, which promises nothing. On Adult's
official split with 13 columns (sex among them, fnlwgt not), or on random fifths of others. Run as

    python examples/reproduce/tables.py --seeds 3 [--data adult default bank]
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np
import pandas as pd
from additive import DATA, held_out
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline

from skfairdp import DPAdditiveClassifier, PrivateTableEncoder, certify
from skfairdp.datasets import fetch_adult
from skfairdp.exceptions import PrivacyWarning
from skfairdp.model_selection import fit_within


def declared(rows: pd.DataFrame, bunch: dict, y: np.ndarray, epsilon: float) -> object:
    """Bounds and categories of the codebook."""
    bounds = {name: limits for name, limits in bunch["bounds"].items() if name in rows}
    categories = {name: known for name, known in bunch["categories"].items() if name in rows}
    return DPAdditiveClassifier(bounds, categories, epsilon=epsilon, progress=False).fit(rows, y)


def learned(rows: pd.DataFrame, bunch: dict, y: np.ndarray, epsilon: float) -> object:
    """Nothing declared, one budget."""
    steps = make_pipeline(PrivateTableEncoder(), DPAdditiveClassifier(progress=False))
    return fit_within(steps, rows, y, epsilon=epsilon)


def without_noise(rows: pd.DataFrame, bunch: dict, y: np.ndarray, epsilon: float) -> object:
    """The same levels from exact counts: not private."""
    steps = make_pipeline(
        PrivateTableEncoder(epsilon=float("inf")),
        DPAdditiveClassifier(epsilon=epsilon, progress=False),
    )
    return steps.fit(rows, y)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--data", choices=list(DATA), nargs="+", default=["adult"])
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.5, 1.0, 2.0])
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", PrivacyWarning)
    print("| data | levels | ε of the whole | accuracy | AUC | seconds |")
    print("|---|---|---|---|---|---|")
    for name in arguments.data:
        if name == "adult":
            bunch = fetch_adult(include_education=True, include_sensitive=True)
        else:
            bunch = DATA[name][0]()
        table(name, bunch, arguments.epsilons, arguments.seeds)


def table(name: str, bunch: Any, epsilons: list[float], seeds: int) -> None:
    """Print the rows of one data set."""
    rows, y = bunch.data, np.asarray(bunch.target)
    for fit in (declared, learned, without_noise):
        for epsilon in epsilons:
            found = []
            for seed in range(seeds):
                official = bunch.split
                split = ~held_out(bunch, seed) if official is None else official == "train"
                start = time.perf_counter()
                model = fit(rows[split], bunch, y[split], epsilon)
                seconds = time.perf_counter() - start
                odds = model.decision_function(rows[~split])
                right = float(np.mean((odds > 0) == y[~split]))
                found.append((right, roc_auc_score(y[~split], odds), seconds))
            privacy = certify(model).privacy
            total = "none" if privacy is None else f"{privacy.epsilon:.3f}"
            accuracy, area, seconds = np.mean(found, axis=0)
            spread = np.std(found, axis=0)
            print(
                f"| {name} | {fit.__name__} | {total} | {accuracy:.4f} ± {spread[0]:.4f} | "
                f"{area:.4f} ± {spread[1]:.4f} | {seconds:.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
