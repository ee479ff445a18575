"""R² of the private regressors and of ridge regression without privacy, over five splits.

Reads abalone.csv.gz, law_school_clean.csv.gz and communities_crime.csv.gz from the folder that
SKFAIRDP_DATA names. Run from the root: ``python -m examples.reproduce.regressors``.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.linear_model import Ridge
from sklearn.model_selection import train_test_split

from skfairdp import DPAdditiveRegressor, DPSGDRegressor

SPLITS = range(10, 15)  # settings were chosen on the splits 0 to 4
EPSILONS = (0.5, 1.0, 2.0, 4.0)
_ABALONE = {
    "Length": 1.0, "Diameter": 1.0, "Height": 0.5, "Whole_weight": 3.0, "Shucked_weight": 1.5,
    "Viscera_weight": 1.0, "Shell_weight": 1.5,
}  # fmt: skip
_LAW = {
    "lsat": (10, 50), "fam_inc": (1, 5), "tier": (1, 6), "male": (0, 1), "fulltime": (1, 2),
}  # fmt: skip


def tables() -> dict[str, tuple[np.ndarray, np.ndarray, tuple[float, float]]]:
    """Features in [-1, 1] by public bounds, targets, and the declared bounds of these."""
    folder = Path(os.environ["SKFAIRDP_DATA"])

    def read(name: str) -> pd.DataFrame:
        return pd.read_csv(folder / f"{name}.csv.gz")

    rows = read("abalone")
    sexes = [np.where(rows["Sex"] == sex, 1.0, -1.0) for sex in "FIM"]
    sizes = [(2.0 * rows[c] / high - 1.0).clip(-1.0, 1.0) for c, high in _ABALONE.items()]
    abalone = np.column_stack([*sexes, *sizes])
    law = read("law_school_clean")
    scaled = [2.0 * (law[c] - low) / (high - low) - 1.0 for c, (low, high) in _LAW.items()]
    crime = read("communities_crime").drop(columns=["Black", "class"])
    numeric = crime.drop(columns=["state", "communityname", "fold"]).select_dtypes("number")
    crimes = numeric.pop("ViolentCrimesPerPop").to_numpy(dtype=float)
    return {
        "Abalone": (abalone, rows["Rings"].to_numpy(dtype=float), (1.0, 20.0)),
        "Law School": (np.column_stack(scaled).clip(-1, 1), law["ugpa"].to_numpy(float), (1, 4)),
        "Communities": (2.0 * numeric.fillna(0.5).to_numpy() - 1.0, crimes, (0.0, 1.0)),
    }


def models(bounds: tuple[float, float], epsilon: float) -> dict[str, Any]:
    """The private regressors: linear, by default, and additive."""
    given = {"target_bounds": bounds, "epsilon": epsilon, "delta": 1e-5, "progress": False}
    linear = DPSGDRegressor(**given, batch_size=512, max_epochs=40)
    linear.set_params(net__module__hidden_sizes=(), net__lr=0.1)
    return {
        "linear": linear,
        "default": DPSGDRegressor(**given),
        "additive": DPAdditiveRegressor((-1, 1), **given, n_bins=8),
    }


def main() -> None:
    """Print mean and standard deviation of R² on held-out fifths."""
    for name, (X, y, bounds) in tables().items():
        cuts = [train_test_split(X, y, test_size=0.2, random_state=seed) for seed in SPLITS]
        ridge = [Ridge().fit(a, p).score(b, q) for a, b, p, q in cuts]
        print(f"{name}: ridge without privacy {np.mean(ridge):.3f} ± {np.std(ridge):.3f}")
        for epsilon in (0.54, *EPSILONS) if name == "Abalone" else EPSILONS:
            for kind, model in models(bounds, epsilon).items():
                found = [model.fit(a, p).score(b, q) for a, b, p, q in cuts]
                print(f"  ε = {epsilon:g}, {kind}: {np.mean(found):.3f} ± {np.std(found):.3f}")


if __name__ == "__main__":
    import warnings

    from skfairdp.exceptions import PrivacyWarning

    warnings.simplefilter("ignore", PrivacyWarning)
    main()
