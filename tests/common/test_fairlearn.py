"""Our estimators under fairlearn's metrics and beneath its post-processing."""

from __future__ import annotations

import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest
from fairlearn.metrics import MetricFrame, demographic_parity_difference, selection_rate
from fairlearn.postprocessing import ThresholdOptimizer
from sklearn.metrics import accuracy_score

from skfairdp import certify
from tests.common.roster import build, costs_of, every_estimator, people


@every_estimator
def test_metric_frame_takes_predictions(name: str) -> None:
    X, y, groups = people()
    model = build(name).fit(X, y, sensitive_features=groups)
    rate = partial(selection_rate, pos_label="yes")
    metrics = {"accuracy": accuracy_score, "rate": rate}
    frame = MetricFrame(
        metrics=metrics, y_true=y, y_pred=model.predict(X), sensitive_features=groups
    )
    assert frame.by_group.index.tolist() == ["a", "b"]
    if name not in {"FairDP, five heads, one drawn", "FairDP, smoothed"}:
        # The certificate counts the same decisions (of a drawn predictor: their probabilities).
        estimate = (
            certify(model, X, sensitive_features=groups, holdout="public").fairness[0].estimate
        )
        assert frame.difference()["rate"] == pytest.approx(estimate, abs=1e-12)


@every_estimator
def test_threshold_optimizer_around_a_fitted_model(name: str) -> None:
    X, y, groups = people(600)
    positive = (y == "yes").astype(int)
    train, held = slice(0, 300), slice(300, None)
    model = build(name, **costs_of(name, (0, 1)))
    model.fit(X[train], positive[train], sensitive_features=groups[train])
    optimizer = ThresholdOptimizer(
        estimator=model, prefit=True, predict_method="predict_proba",
        constraints="demographic_parity",
    )  # fmt: skip
    frame, race = pd.DataFrame(X[held]), pd.Series(groups[held])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # fairlearn's own use of pandas
        optimizer.fit(frame.to_numpy(), positive[held], sensitive_features=race)
        decided = optimizer.predict(frame.to_numpy(), sensitive_features=race, random_state=0)
    assert set(np.unique(decided)) <= {0, 1}
    gap = demographic_parity_difference(positive[held], decided, sensitive_features=race)
    # Randomised to equal rates: 200 and 100 draws differ by more than 0.3 with p < 1e-5.
    assert gap < 0.3
