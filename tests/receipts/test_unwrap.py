"""A threshold that was set by hand, around a frozen private model, keeps the model's privacy."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.pipeline import make_pipeline

from skfairdp import Certificate, DPSGDClassifier, FairDPClassifier, certify

# Many fits here follow a step that learns from rows, which warns.
pytestmark = pytest.mark.filterwarnings("ignore:.* may have learned from the rows")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 2))
Y = (X[:, 0] > 0).astype(int)
GROUPS = (X[:, 1] > 0).astype(int)


@pytest.fixture(scope="module")
def private() -> DPSGDClassifier:
    return DPSGDClassifier(max_epochs=1, progress=False).fit(X, Y)


def at(threshold: float, model: object, kind: type = FixedThresholdClassifier) -> object:
    return kind(FrozenEstimator(model), threshold=threshold).fit(X, Y)


def certified(model: object) -> Certificate:
    return certify(model, X[:100], Y[:100], sensitive_features=GROUPS[:100], holdout="public")


def test_it_states_what_the_model_spent_and_speaks_of_its_own_answers(private) -> None:
    wrapped = at(0.0, private)
    found = certified(wrapped)
    assert found.privacy == certify(private).privacy
    assert np.all(wrapped.predict(X) == 1)
    assert found.verify(wrapped)
    assert certify(at(0.3, make_pipeline(FrozenEstimator(private)))).privacy == found.privacy


def test_another_threshold_is_another_model(private) -> None:
    assert not certified(at(0.3, private)).verify(at(0.4, private))


def test_a_bound_of_the_mechanism_is_none_of_the_threshold() -> None:
    """What is known of a mechanism's decisions beforehand is not known of others."""
    model = FairDPClassifier(max_epochs=1, progress=False).fit(X, Y, sensitive_features=GROUPS)
    assert model._mechanism_fairness("demographic_parity")
    assert certify(model).fairness
    assert not certify(at(0.4, model)).fairness


class Own(FixedThresholdClassifier):
    """A subclass, which may do anything with the rows."""


def fitted_inside(model: DPSGDClassifier) -> object:
    return FixedThresholdClassifier(model, threshold=0.4).fit(X, Y)


def holding_rows(model: DPSGDClassifier) -> object:
    wrapped = at(0.4, model)
    wrapped.rows_ = X
    return wrapped


def other_predict(model: DPSGDClassifier) -> object:
    wrapped = at(0.4, model)
    wrapped.predict = lambda rows: Y[: len(rows)]
    return wrapped


@pytest.mark.parametrize(
    "wrap",
    [
        lambda model: at(0.4, model, Own),
        fitted_inside,
        holding_rows,
        other_predict,
        lambda model: at(0.4, make_pipeline(PCA(1), DPSGDClassifier(max_epochs=1)).fit(X, Y)),
    ],
    ids=["subclass", "fitted inside", "holds rows", "its own predict", "a step that learned"],
)
def test_what_may_have_learned_from_the_rows_voids_privacy(private, wrap) -> None:
    assert certify(wrap(private)).privacy.is_void


def test_a_model_that_was_changed_after_its_fit_voids_privacy() -> None:
    model = DPSGDClassifier(max_epochs=1, progress=False).fit(X, Y)
    wrapped = at(0.4, model)
    model.classes_ = np.array([1, 0])
    assert certify(wrapped).privacy.is_void
