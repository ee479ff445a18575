"""Callbacks of scikit-learn see every row of a fit: no promise is made where there are any."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import Binarizer

from skfairdp import DPSGDClassifier, PATEClassifier, certify
from skfairdp.model_selection import PrivateSearchCV
from skfairdp.privacy import PrivacyLedger
from skfairdp.receipts import quote

if not hasattr(Pipeline, "set_callbacks"):
    pytest.skip("callbacks are new in scikit-learn 1.9", allow_module_level=True)

X = np.random.default_rng(0).normal(size=(80, 3))
Y = (X[:, 0] > 0).astype(int)
MODEL = DPSGDClassifier(max_epochs=1, delta=1e-3, progress=False)


class Keeps:
    """A callback that keeps what it is shown."""

    def __init__(self) -> None:
        self.shown: list[Any] = []

    def setup(self, estimator: Any, context: Any) -> None:
        pass

    def teardown(self, estimator: Any, context: Any) -> None:
        pass

    def on_fit_task_begin(self, estimator: Any, context: Any, *, X: Any = None) -> None:
        if X is not None:
            self.shown.append(X)

    def on_fit_task_end(self, estimator: Any, context: Any) -> None:
        pass


def test_a_pipeline_whose_callback_keeps_all_rows_promises_nothing() -> None:
    model = Pipeline([("model", MODEL)]).set_callbacks(Keeps()).fit(X, Y)
    kept, *_ = pickle.loads(pickle.dumps(model))._skl_callbacks[0].shown
    assert np.array_equal(kept, X)
    privacy = certify(model).privacy
    assert privacy is not None
    assert privacy.is_void
    assert "Step 'callbacks' (Pipeline: callbacks" in privacy.assumptions[0]
    model.set_callbacks()
    assert certify(model.fit(X, Y)).privacy.epsilon <= 1.0


@pytest.mark.filterwarnings("ignore:.* may have learned from the rows")
def test_callbacks_of_steps_and_of_searches_count() -> None:
    step = Binarizer()
    step._skl_callbacks = [Keeps()]  # as a version of scikit-learn with more callbacks has them
    inner = Pipeline([("step", Binarizer())]).set_callbacks(Keeps())
    for first in (step, inner):
        privacy = certify(make_pipeline(first, MODEL).fit(X, Y)).privacy
        assert privacy is not None
        assert privacy.is_void
        assert "callbacks" in privacy.assumptions[0]
    search = GridSearchCV(MODEL, {"max_grad_norm": [1.0]}, cv=2).set_callbacks(Keeps())
    assert "callbacks" in str(certify(search.fit(X, Y)).privacy.assumptions)
    quoted = quote(Pipeline([("model", MODEL)]).set_callbacks(Keeps()), n_rows=80, n_features=3)
    assert quoted.privacy.is_void


def test_no_estimator_takes_one_with_callbacks(tmp_path: Any) -> None:
    """A search would show how often it ran, and teachers their shards."""
    ledger = PrivacyLedger(tmp_path / "spent.db")
    callback = Keeps()
    watched = Pipeline([("model", MODEL)]).set_callbacks(callback)
    search = PrivateSearchCV(watched, {"model__max_grad_norm": [1.0]}, n_iter=2, ledger=ledger)
    teacher = make_pipeline(Binarizer(), LogisticRegression().set_callbacks(callback))
    votes = PATEClassifier(teacher, n_teachers=4, n_answers=5, ledger=ledger)
    for model, given in ((search, {}), (votes, {"X_public": X[:40]})):
        with pytest.raises(ValueError, match=r"callbacks of scikit-learn.*set_callbacks\(\)"):
            model.fit(X, Y, **given)
    assert callback.shown == []
    assert ledger.entries() == ()
