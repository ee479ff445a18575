"""Models that write into the rows they are given: nobody else may see what they wrote."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler
from skorch import NeuralNetClassifier
from torch import nn

from skfairdp import DPSGDClassifier, certify
from skfairdp.model_selection import PrivateSearchCV, specify
from skfairdp.receipts import unwrap

# Many fits here follow a step that learns from rows, which warns.
pytestmark = pytest.mark.filterwarnings("ignore:.* may have learned from the rows")


class InPlace(nn.Module):
    """Halves its rows where they lie."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """Logits."""
        return self.layer(X.mul_(0.5))


class InPlaceMixture(InPlace):
    """The same, and lets rows influence each other."""

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """Logits."""
        X.mul_(0.5)
        return self.layer(X - X.mean(0))


def net(module: type[nn.Module]) -> NeuralNetClassifier:
    return NeuralNetClassifier(module, criterion=nn.CrossEntropyLoss)


def two_groups(n: int = 2000) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    groups = np.arange(n) % 2
    X = np.c_[100 + 3 * groups + 2 * rng.normal(size=n), 50 + 3 * rng.normal(size=n)]
    return X, (X[:, 0] + rng.normal(size=n) > 101.5).astype(int), groups


@pytest.mark.parametrize("container", [np.asarray, pd.DataFrame])
def test_the_bound_is_about_the_rows_and_not_about_what_the_model_made_of_them(container) -> None:
    X, y, groups = two_groups()
    model = make_pipeline(StandardScaler(copy=False), LogisticRegression())
    model.fit(X[:1000].copy(), y[:1000])
    held = container(X[1000:].copy())
    answers = model.predict(container(X[1000:].copy()))
    gap = answers[groups[1000:] == 1].mean() - answers[groups[1000:] == 0].mean()
    claim = certify(model, held, sensitive_features=groups[1000:], holdout="public").fairness[0]
    assert claim.estimate == pytest.approx(abs(gap))
    assert claim.bound > gap > 0.4
    assert np.array_equal(np.asarray(held), X[1000:])


def test_without_a_copy_the_bound_would_be_false(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unwrap, "deepcopy", lambda X: X)
    X, y, groups = two_groups()
    model = make_pipeline(StandardScaler(copy=False), LogisticRegression())
    model.fit(X[:1000].copy(), y[:1000])
    claim = certify(
        model, X[1000:].copy(), sensitive_features=groups[1000:], holdout="public"
    ).fairness[0]
    assert claim.bound < 0.1


def test_a_fit_and_an_answer_leave_the_rows_as_they_are() -> None:
    X = np.random.default_rng(0).normal(size=(256, 3)).astype(np.float32)
    given = X.copy()
    model = DPSGDClassifier(net(InPlace), max_epochs=1).fit(given, (X[:, 0] > 0).astype(int))
    model.predict(given)
    assert np.array_equal(given, X)


def test_a_mixture_in_place_is_refused() -> None:
    X = np.random.default_rng(0).normal(size=(64, 3))
    with pytest.raises(ValueError, match="mixes the records"):
        DPSGDClassifier(net(InPlaceMixture), max_epochs=1).fit(X, (X[:, 0] > 0).astype(int))


class Noted(Normalizer):
    """Writes into its rows, and notes what it was given."""

    given: ClassVar[list[float]] = []

    def transform(self, X, copy=None):
        """Unit rows."""
        type(self).given.append(round(float(np.abs(X).sum()), 6))
        X *= 0.5
        return X


@pytest.mark.parametrize("kind", ["search", "specify"])
def test_candidates_all_get_the_same_rows(kind: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y, groups = (X[:, 0] > 0).astype(int), rng.integers(2, size=300)
    step, before = FrozenEstimator(Noted().fit(X)), X.sum()
    model = make_pipeline(step, DPSGDClassifier(max_epochs=1, progress=False))
    Noted.given = []
    if kind == "search":
        prior = {"dpsgdclassifier__max_grad_norm": [0.5, 1.0]}
        search = PrivateSearchCV(model, prior, n_iter=4, epsilon=3.0, scoring="roc_auc")
        search.fit(X, y, sensitive_features=groups)
    else:
        grid = {"dpsgdclassifier__max_grad_norm": [0.5, 1.0]}
        specify(model, grid, X, y, sensitive_features=groups, epsilon=3.0, tolerance=0.1)
    # Training and held-out rows; the steps are tried on all rows first, before the charge.
    assert len(set(Noted.given)) == 3
    assert X.sum() == before
