"""Certificates of the package's own estimators, in the forms that users deploy."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from scipy import stats
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from skfairdp import Certificate, DPSGDClassifier, FairDPClassifier, certify
from skfairdp.preprocessing import PublicScaler

BOUNDS = {"x0": (-4.0, 4.0), "x1": (-4.0, 4.0)}


@pytest.fixture(scope="module")
def frame(rows):
    import pandas as pd

    return pd.DataFrame(rows.X, columns=["x0", "x1"])


@pytest.fixture(scope="module")
def pipeline(frame, rows):
    model = make_pipeline(PublicScaler(BOUNDS), DPSGDClassifier(max_epochs=2, delta=1e-4))
    return model.fit(frame, rows.y)


def test_a_pipeline_with_public_steps_keeps_its_guarantee(pipeline, frame, rows):
    certificate = certify(pipeline, frame, sensitive_features=rows.groups, holdout="public")
    assert certificate.privacy == pipeline[-1].privacy_
    assert certificate.satisfies(epsilon=1.0)
    assert certificate.fairness[0].groups == ("a", "b")
    assert Certificate.from_json(certificate.to_json()) == certificate
    assert any("AES-128" in text for text in certificate.privacy.assumptions)


def test_the_digest_follows_the_network_and_the_scaler(pipeline):
    certificate = certify(pipeline)
    assert certificate.verify(pickle.loads(pickle.dumps(pipeline)))
    changed = copy.deepcopy(pipeline)
    next(changed[-1].module_.parameters()).data.view(-1)[0] += 1e-6
    assert not certificate.verify(changed)
    shifted = copy.deepcopy(pipeline)
    shifted[0].set_params(bounds=BOUNDS | {"x0": (-4.0, 4.5)})
    assert not certificate.verify(shifted)


def test_a_search_names_the_composition_of_its_fits(rows):
    model = DPSGDClassifier(max_epochs=1, delta=1e-4)
    search = GridSearchCV(model, {"epsilon": [0.5, 1.0]}, cv=2).fit(rows.X, rows.y)
    certificate = certify(search)
    reason = certificate.privacy.assumptions[0]
    assert "3 fits on overlapping rows (2 candidates times 1 folds" in reason
    total = float(reason.split("ε = ")[1].split(" ")[0])
    best = search.best_estimator_.privacy_.epsilon
    # More than the dearest fit, less than the sum of all.
    assert max(1.0, best) < total < 0.5 + 1.0 + best


@pytest.mark.usefixtures("accounted_finely")
def test_declared_sizes_give_the_reference_epsilon(rows):
    model = DPSGDClassifier(
        epsilon=None,
        noise_multiplier=1.1,
        delta=1e-5,
        dataset_size=10_000,
        batch_size=100,
        max_epochs=10,
    ).fit(rows.X, rows.y)
    certificate = certify(model)
    assert certificate.privacy.epsilon == pytest.approx(1.5154, abs=5e-5)
    assert certificate.privacy.adjacency == "add-remove"
    assert "ε = 1.5154" in certificate.sentence


@pytest.mark.parametrize("settings", [{"prediction": "gibbs", "n_heads": 3}, {"smoothing": 0.5}])
def test_random_predictions_are_certified_by_counts_and_on_average_by_probabilities(rows, settings):
    model = FairDPClassifier(max_epochs=1, delta=1e-4, **settings)
    model.fit(rows.X, rows.y, sensitive_features=rows.groups)
    counted, claim = certify(
        model, rows.X, sensitive_features=rows.groups, holdout="public"
    ).fairness[:2]
    hits = [int((model.predict(rows.X)[rows.groups == g] == 1).sum()) for g in ("a", "b")]
    assert (counted.scope, [c.successes for c in counted.counts]) == ("deployed model", hits)
    scores = model.predict_proba(rows.X)[:, 1]
    rates = [scores[rows.groups == g].mean() for g in ("a", "b")]
    assert claim.estimate == pytest.approx(abs(rates[0] - rates[1]))
    assert (claim.scope, claim.method[:9]) == ("averaged over its draws", "Hoeffding")
    # The predictions themselves have those rates, within a failure probability of 1e-9.
    drawn = model.predict(rows.X).mean()
    assert abs(drawn - scores.mean()) < stats.norm.isf(5e-10) * 0.5 / np.sqrt(len(scores))


def test_no_noise_and_reproducible_noise_are_said(rows):
    with pytest.warns(match="nothing is protected"):
        free = DPSGDClassifier(epsilon=float("inf"), max_epochs=1).fit(rows.X, rows.y)
    assert certify(free).privacy is None
    tied = DPSGDClassifier(max_epochs=1, delta=1e-4, random_state=0, reproducible_noise=True)
    certificate = certify(tied.fit(rows.X, rows.y))
    assert certificate.privacy.is_void
    assert "reproducible_noise" in certificate.privacy.assumptions[0]
