"""Bad input of PrivateFairEncoder is refused by name, and unusual input treated as stated."""

from __future__ import annotations

import traceback
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.exceptions import NotFittedError

from skfairdp.preprocessing import PublicEncoder
from skfairdp.representation.networks import RepresentationModule, representation_net
from tests.common.roster import people
from tests.common.test_refusals import BAD_ROWS, PLANTED_AS_SHOWN, SECRET, planted_people
from tests.representation.encoders import build, fitted

BAD_PARAMETERS: dict[str, tuple[dict[str, Any], str]] = {
    "epsilon negative": ({"epsilon": -1.0}, "'epsilon'"),
    "epsilon NaN": ({"epsilon": float("nan")}, "'epsilon'"),
    "epsilon text": ({"epsilon": "1"}, "'epsilon'"),
    "epsilon 0 with Laplace": ({"epsilon": 0.0}, "epsilon=0.0 .*randomised response"),
    "noise": ({"noise": "gaussian"}, "'noise'"),
    "beta": ({"beta": -0.1}, "'beta'"),
    "label law": ({"label_law": "brier"}, "'label_law'"),
    "no component": ({"n_components": 0}, "'n_components'"),
    "half a component": ({"n_components": 1.5}, "'n_components'"),
    "no value": ({"noise": "randomized_response", "n_values": 0}, "'n_values'"),
    "bound 0": ({"bound": 0.0}, "'bound'"),
    "bound negative": ({"bound": -0.5}, "'bound'"),
    "bound infinite": ({"bound": float("inf")}, "'bound'"),
    "draws": ({"n_samples": 0}, "'n_samples'"),
    "commitment": ({"commitment": -1.0}, "'commitment'"),
    "output": ({"output": "words"}, "'output'"),
    "column types": ({"column_types": "poisson"}, "'column_types'"),
    "column types of others": ({"column_types": {"bernoulli": [9]}}, "9, which is not a column"),
    "batch 0": ({"batch_size": 0}, "'batch_size'"),
    "batch above n": ({"batch_size": 301}, "'batch_size' must be at most .* 300; got 301"),
    "epochs": ({"max_epochs": 0}, "'max_epochs'"),
    "id column": ({"id_column": 4}, "'id_column' is 4"),
    "id column by name": ({"id_column": "who"}, "'id_column' is 'who'"),
    "export": ({"export_key": "yes"}, "'export_key'"),
    "training epsilon": ({"training_epsilon": 0.0}, "'training_epsilon'"),
    "delta": ({"train_privately": True, "delta": 1 / 300}, "'delta' must be below 1/n"),
    "clip": ({"max_grad_norm": 0.0}, "'max_grad_norm'"),
    "size": ({"dataset_size": 1}, "'dataset_size'"),
    "classes": ({"classes": ["no", "no"]}, "'classes'"),
    "one declared class": ({"classes": ["no"]}, "class"),
    "classes of others": ({"classes": ["a", "b"]}, "no row has a label .* 'classes'"),
    "weights without end": ({"beta": 1e300}, "diverged: .* 'beta' .now 1e.300"),
    "seed": ({"random_state": "x"}, "'random_state'"),
    "net": ({"net": RepresentationModule(4)}, "'net' must be a skorch NeuralNet"),
    "net batch": ({"net": representation_net().set_params(batch_size=64)}, "batch_size"),
}


@pytest.mark.parametrize("case", BAD_PARAMETERS)
def test_bad_parameters(case: str) -> None:
    parameters, message = BAD_PARAMETERS[case]
    X, y, groups = people()
    model = build("laplace", **parameters)
    with pytest.raises((ValueError, TypeError), match=message):
        model.fit(X, y, sensitive_features=groups)
    with pytest.raises(NotFittedError):
        model.transform(X)


@pytest.mark.parametrize("case", BAD_ROWS)
def test_bad_rows(case: str) -> None:
    change, message = BAD_ROWS[case]
    X, y, groups = change(*planted_people())
    model = build("laplace")
    with pytest.raises((ValueError, TypeError), match=message) as caught:
        model.fit(X, y, sensitive_features=groups)
    shown = "".join(traceback.format_exception(caught.value))
    assert SECRET not in shown
    assert not PLANTED_AS_SHOWN.search(shown)
    with pytest.raises(NotFittedError):
        model.transform(people()[0])


@pytest.mark.parametrize("case", ["NaN", "infinity", "huge", "text in an object column"])
def test_bad_rows_at_release_cost_nothing(case: str) -> None:
    model = fitted("laplace")
    change, message = BAD_ROWS[case]
    X = change(*planted_people())[0]
    for method in (model.transform, model.predict, model.predict_proba):
        with pytest.raises(ValueError, match=message) as caught:
            method(X)
        shown = "".join(traceback.format_exception(caught.value))
        assert SECRET not in shown
        assert not PLANTED_AS_SHOWN.search(shown)
    assert model.releases_.total == 0


@pytest.mark.parametrize("method", ["transform", "predict", "predict_proba", "decode", "certify"])
def test_nothing_is_released_before_fit(method: str) -> None:
    with pytest.raises(NotFittedError):
        getattr(build("laplace"), method)(people()[0])


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (np.arange(299), "ids has 299 entries"),
        ([None] * 300, "missing"),
        (np.arange(300) + 0.5, "not whole numbers"),
        ([(1,)] * 300, "ids"),
    ],
    ids=["other length", "missing", "halves", "tuples"],
)
def test_bad_ids_cost_nothing(ids: Any, message: str) -> None:
    model = fitted("laplace")
    with pytest.raises(ValueError, match=message):
        model.transform(people()[0], ids=ids)
    assert model.releases_.total == 0


@pytest.mark.parametrize("Z", [np.zeros((3, 3)), np.zeros(4), [[np.nan, 0.0]], csr_array((2, 2))])
def test_bad_representations(Z: Any) -> None:
    with pytest.raises((ValueError, TypeError), match="Z|array|sparse|Sparse"):
        fitted("laplace").decode(Z)


def test_other_columns_than_at_fit_are_refused() -> None:
    X, y, _ = people()
    model = build("laplace").fit(pd.DataFrame(X, columns=list("pqrs")), y)
    with pytest.raises(ValueError, match="feature names"):
        model.transform(pd.DataFrame(X, columns=list("pqrt")))
    with pytest.raises(ValueError, match="3 features"):
        fitted("laplace").transform(X[:, :3])


def test_a_column_that_is_missing_everywhere_is_refused() -> None:
    X, y, _ = people()
    X[:, 2] = np.nan
    with pytest.raises(ValueError, match="X contains NaN"):
        build("laplace").fit(X, y)


@pytest.mark.parametrize("value", [0.0, 1.0, 7.5])
def test_constant_columns_are_learned_like_others(value: float) -> None:
    X, y, groups = people()
    X[:, 2] = value
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = build("laplace").fit(X, y, sensitive_features=groups)
    assert np.isfinite(model.transform(X)).all()
    everything = build("laplace").fit(np.full((50, 2), value), np.arange(50) % 2)
    assert np.isfinite(everything.transform(np.full((5, 2), value))).all()


def test_categories_that_were_not_declared_are_zeros_and_are_not_rebuilt() -> None:
    rng = np.random.default_rng(0)
    jobs = pd.DataFrame({"job": rng.choice(["cook", "nurse", "pilot"], 200)})
    onehot = PublicEncoder({"job": ["cook", "nurse"]})
    X, y = onehot.fit_transform(jobs), np.arange(200) % 2
    assert (X.sum(axis=1) == 0).any()
    model = build("laplace", column_types={"categorical": [[0, 1]]}).fit(X, y)
    Z = model.transform(onehot.transform(pd.DataFrame({"job": ["actor"]})))
    assert np.isfinite(Z).all()
    assert model.reconstruct(Z).sum() == pytest.approx(1.0, abs=1e-6)


def test_undeclared_labels_train_nothing() -> None:
    X, y, groups = people()
    marked = y.astype(object)
    marked[0] = "perhaps"
    other = X.copy()
    other[0] = 1e6
    for name in ("laplace", "trained privately"):
        first, second = (
            build(
                name, classes=["no", "yes"], column_types="gaussian", random_state=0,
                reproducible_noise=True,
            ).fit(table, marked, sensitive_features=groups)
            for table in (X, other)
        )  # fmt: skip
        assert first.classes_.tolist() == ["no", "yes"]
        assert np.array_equal(first._hidden(X), second._hidden(X))


def test_one_group_alone_trains() -> None:
    X, y, _ = people()
    model = build("laplace").fit(X, y, sensitive_features=np.full(300, "a"))
    assert model.groups_ == ("a",)
