"""Running time and memory of a fit, a path and a certificate on made-up rows."""

from __future__ import annotations

import warnings

import numpy as np

from skfairdp import DPSGDClassifier, FairPathClassifier
from skfairdp.exceptions import PrivacyWarning

N_ROWS = 10_000


def _rows(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw 20 features, a label and one of two groups that differ in their rates."""
    random = np.random.default_rng(seed)
    groups = random.choice(["a", "b"], N_ROWS, p=[0.3, 0.7])
    X = random.normal(size=(N_ROWS, 20)) + 0.3 * (groups == "b")[:, None]
    y = (X[:, :5].sum(axis=1) + random.normal(size=N_ROWS) > 0).astype(int)
    return X, y, groups


class Flows:
    """One fit of a mechanism, and what follows it."""

    timeout = 300

    def setup(self) -> None:
        """Draw rows, and fit the model that is certified."""
        warnings.simplefilter("ignore", PrivacyWarning)
        self.X, self.y, self.groups = _rows()
        self.held_out = _rows(seed=1)
        self.path = FairPathClassifier(tolerance=0.1)
        self.path.fit(self.X, self.y, sensitive_features=self.groups)

    def time_fit_by_gradients(self) -> None:
        """Train the default net for three epochs."""
        model = DPSGDClassifier(max_epochs=3)
        model.fit(self.X, self.y, sensitive_features=self.groups)

    def time_fair_path(self) -> None:
        """Fit every tolerance at once."""
        model = FairPathClassifier(tolerance=0.1)
        model.fit(self.X, self.y, sensitive_features=self.groups)

    def time_certify(self) -> None:
        """Bound the gap on held-out rows."""
        X, y, groups = self.held_out
        self.path.certify(X, y, sensitive_features=groups, holdout="public")

    def peakmem_fair_path(self) -> None:
        """Fit every tolerance at once, for its peak of memory."""
        self.time_fair_path()
