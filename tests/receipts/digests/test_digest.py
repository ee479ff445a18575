from __future__ import annotations

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVC

from skfairdp import DPSGDClassifier, certify
from skfairdp.receipts.digests.digest import state_digest
from tests.certificate.fakes import ThresholdClassifier


@pytest.mark.parametrize(
    "estimator",
    [
        ThresholdClassifier(),
        LogisticRegression(),
        make_pipeline(StandardScaler(), FunctionTransformer(np.abs), LogisticRegression()),
        RandomForestClassifier(5, random_state=0),
        HistGradientBoostingClassifier(max_iter=3),
        KNeighborsClassifier(algorithm="kd_tree"),
        SVC(),
    ],
    ids=lambda e: type(e).__name__,
)
def test_a_restored_model_has_the_same_digest(estimator, rows):
    model = clone(estimator).fit(rows.X, rows.y)
    digest = state_digest(model)
    assert digest.startswith("sha256:")
    assert len(digest) == 71
    assert state_digest(pickle.loads(pickle.dumps(model))) == digest
    assert state_digest(copy.deepcopy(model)) == digest
    assert state_digest(clone(estimator).fit(rows.X[:300], 1 - rows.y[:300])) != digest or (
        type(estimator) is ThresholdClassifier
    )


def test_weights_thresholds_and_earlier_steps_change_the_digest(rows):
    model = make_pipeline(StandardScaler(), ThresholdClassifier()).fit(rows.X, rows.y)
    certificate = certify(model)
    assert certificate.verify(model)
    for change in (
        lambda m: m[-1].coef_.__setitem__(1, np.nextafter(m[-1].coef_[1], 1)),
        lambda m: m[-1].set_params(threshold=1e-12),
        lambda m: m[0].mean_.__setitem__(0, m[0].mean_[0] + 1e-9),
    ):
        other = copy.deepcopy(model)
        change(other)
        assert not certificate.verify(other)


def test_settings_that_change_no_prediction_do_not_change_the_digest(rows):
    for model in (LogisticRegression(), DPSGDClassifier(max_epochs=1, progress=False)):
        digest = state_digest(model.fit(rows.X, rows.y))
        names = {"n_jobs", "progress", "verbose"} & set(model.get_params())
        assert names
        assert state_digest(model.set_params(**dict.fromkeys(names, 3))) == digest
        other = state_digest(model.set_params(random_state=3))
        assert (other == digest) is isinstance(model, DPSGDClassifier)  # a key is drawn at fit


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([1, 2], [12]),
        (["ab"], ["a", "b"]),
        ("1", 1),
        (None, "None"),
        (0.0, -0.0),
        (np.zeros(4), np.zeros((2, 2))),
        (np.zeros(2, dtype=np.float32), np.zeros(1, dtype=np.float64)),
        ({"a": 1, "b": 2}, {"a": 2, "b": 1}),
        ({1, 2}, [1, 2]),
        (np.array(["a", 1], dtype=object), np.array(["a", "1"], dtype=object)),
        (pd.DataFrame({"a": [1]}), pd.DataFrame({"b": [1]})),
        (lambda x: x + 1, lambda x: x + 2),
        (b"a", "a"),
    ],
)
def test_different_values_have_different_digests(one, other):
    assert state_digest(one) != state_digest(other)


def test_order_and_layout_without_meaning_do_not_count():
    assert state_digest({"a": 1, "b": [2]}) != state_digest({"b": [2], "a": 1})  # it has a meaning
    table = np.arange(6.0).reshape(2, 3)
    assert state_digest(table) == state_digest(np.asfortranarray(table))
    assert state_digest(table) == state_digest(table.astype(">f8"))
    assert state_digest({"x", "y", "z"}) == state_digest({"z", "x", "y"})


def test_objects_that_contain_themselves_have_a_digest():
    loop: list = [1]
    loop.append(loop)
    assert state_digest(loop) == state_digest(loop)
