"""Tests of the claims about a Pipeline with a private release among its steps."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from skfairdp import DPSGDClassifier, certify
from skfairdp.exceptions import PrivacyWarning
from skfairdp.representation import LaplaceTransformer, downstream_bound
from tests.certificate.fakes import PrivateCenterer

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 2))
S = RNG.integers(2, size=300)
Y = (X[:, 0] > 0).astype(int)
EPSILON = 0.5


def fitted(*steps):
    return make_pipeline(*steps).fit(X, Y)


def test_any_classifier_behind_releases_is_covered_but_for_its_labels():
    certificate = certify(
        fitted(LaplaceTransformer(EPSILON), StandardScaler(), LogisticRegression())
    )
    privacy = certificate.privacy
    assert privacy.epsilon == EPSILON
    assert (privacy.adjacency, privacy.protects) == ("local", "released_representation")
    assert any("labels and groups" in text and "are not" in text for text in privacy.assumptions)
    (claim,) = certificate.fairness
    assert (claim.scope, claim.bound) == ("any downstream predictor", downstream_bound(EPSILON))


def test_held_out_rows_are_released_and_counted():
    model = fitted(LaplaceTransformer(EPSILON), LogisticRegression())
    certificate = certify(model, X, Y, sensitive_features=S, holdout="public")
    # Once to fit, and at least once to evaluate.
    assert certificate.privacy.epsilon == model[0].releases_.total * EPSILON >= 2 * EPSILON
    assert [claim.scope for claim in certificate.fairness] == [
        "deployed model",
        "any downstream predictor",
    ]
    assert certificate.fairness[0].estimate <= downstream_bound(EPSILON) + 0.3
    assert certificate.verify(model)


@pytest.mark.parametrize("holdout", ["by_index", "training"])
def test_noisy_counts_are_stated_beside_releases_for_training_rows_too(holdout):
    model = fitted(LaplaceTransformer(EPSILON), LogisticRegression())
    rows = X if holdout == "training" else RNG.normal(size=X.shape)
    asked = {"groups": [0, 1], "pos_label": 1, "count_epsilon": 0.25, "holdout": holdout}
    found = certify(model, rows, Y, sensitive_features=S, **asked)
    said = [text for text in found.privacy.assumptions if "at ε = 0.25 for each" in text]
    assert len(said) == 1
    assert found.privacy.epsilon == model[0].releases_.total * EPSILON


def test_a_private_classifier_behind_releases_states_its_promise_beside():
    final = DPSGDClassifier(epsilon=3.0, delta=1e-4, max_epochs=1, progress=False)
    privacy = certify(fitted(LaplaceTransformer(EPSILON), final)).privacy
    assert privacy.epsilon == EPSILON
    assert privacy.adjacency == "local"
    beside = [text for text in privacy.assumptions if "not composed with it" in text]
    assert len(beside) == 1
    assert "δ = 0.0001" in beside[0]


@pytest.mark.parametrize(
    ("before", "said"),
    [
        (StandardScaler(), "learned from rows without noise"),
        (PrivateCenterer(), "promise of another kind"),
    ],
)
def test_what_learned_from_rows_before_the_release_voids_it(before, said):
    certificate = certify(fitted(before, LaplaceTransformer(EPSILON), LogisticRegression()))
    assert certificate.privacy.is_void
    assert said in certificate.privacy.assumptions[0]


def test_a_public_step_before_the_release_is_declared():
    model = fitted(StandardScaler(), LaplaceTransformer(EPSILON), LogisticRegression())
    privacy = certify(model, public_steps=["standardscaler"]).privacy
    assert privacy.epsilon == EPSILON
    assert any("declared public" in text for text in privacy.assumptions)
    square = fitted(FunctionTransformer(np.square), LaplaceTransformer(1.0), LogisticRegression())
    assert certify(square).privacy.epsilon == 1.0


@pytest.mark.parametrize(
    "beside",
    [
        FeatureUnion([("released", LaplaceTransformer(EPSILON)), ("raw", "passthrough")]),
        ColumnTransformer(
            [("released", LaplaceTransformer(EPSILON), [0])], remainder="passthrough"
        ),
    ],
    ids=["union", "columns"],
)
def test_columns_that_pass_beside_the_release_leave_no_claim(beside):
    certificate = certify(fitted(beside, LogisticRegression()))
    assert certificate.privacy.is_void
    assert certificate.fairness == ()


@pytest.mark.parametrize("inside", [True, False])
def test_held_out_rows_are_not_released_to_see_whether_they_were_trained_on(inside):
    step = LaplaceTransformer(EPSILON)
    final = DPSGDClassifier(epsilon=3.0, delta=1e-4, max_epochs=1, progress=False)
    model = fitted(FeatureUnion([("released", step)]) if inside else step, final)
    step = model[0].transformer_list[0][1] if inside else model[0]
    before = step.releases_.total
    with pytest.raises(ValueError, match="declare them as groups"):
        certify(model, X + 1.0, Y, sensitive_features=S, count_epsilon=1.0)
    assert step.releases_.total == before  # refused, so nobody's row was used
    predictions = 1 if inside else 2  # and codes for the bound on all that sees them alone
    certify(model, X + 1.0, Y, sensitive_features=S, holdout="public")
    assert step.releases_.total == before + predictions


def test_a_search_around_releases_is_not_covered():
    pipeline = make_pipeline(LaplaceTransformer(EPSILON), LogisticRegression())
    search = GridSearchCV(pipeline, {"logisticregression__C": [0.1, 1.0]}, cv=2).fit(X, Y)
    privacy = certify(search).privacy
    assert privacy.is_void
    assert "GridSearchCV" in privacy.assumptions[0]


class ByGroup(ClassifierMixin, BaseEstimator):
    """Predicts the group that it gets."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict(self, X, *, sensitive_features):
        return np.asarray(sensitive_features)


def test_who_also_sees_the_group_has_no_downstream_bound():
    model = fitted(LaplaceTransformer(EPSILON), ByGroup())
    assert model[-1].predict(X, sensitive_features=S) is not None
    assert certify(model).fairness == ()


def test_releases_without_noise_promise_nothing():
    with pytest.warns(PrivacyWarning):
        model = fitted(LaplaceTransformer(math.inf), LogisticRegression())
    certificate = certify(model)
    assert certificate.privacy is None
    assert certificate.fairness == ()


def test_reproducible_releases_are_void_in_a_pipeline_too():
    step = LaplaceTransformer(EPSILON, reproducible_noise=True, random_state=0)
    certificate = certify(fitted(step, LogisticRegression()))
    assert certificate.privacy.is_void
    assert certificate.fairness == ()


def test_ids_reach_the_release_through_a_pipeline():
    with config_context(enable_metadata_routing=True):
        step = LaplaceTransformer(EPSILON).set_transform_request(ids=True)
        model = make_pipeline(step, LogisticRegression()).fit(X, Y, ids=np.arange(300))
        first = model.predict_proba(X, ids=np.arange(300))
        assert np.array_equal(first, model.predict_proba(X, ids=np.arange(300)))
        assert model[0].releases_.total == 1
        assert certify(model).privacy.epsilon == EPSILON
