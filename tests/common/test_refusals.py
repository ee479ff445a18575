"""Bad input is refused by name, before training, and without quoting anybody's row."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.exceptions import NotFittedError
from skorch import NeuralNet
from skorch.callbacks import EarlyStopping
from torch import nn

from skfairdp import FairDPClassifier, default_net
from skfairdp.engine.modules import MLP
from tests.common.roster import FAST, build, every_class, people

# Occurs in one private row; must not occur in any message.
PLANTED = 7319.4625
PLANTED_AS_SHOWN = re.compile(r"7319\.46|7\.3194")  # however numpy prints it
SECRET = "planted-secret"

Rows = tuple[Any, Any, Any]
Break = Callable[[np.ndarray, np.ndarray, np.ndarray], Rows]


def put(value: Any, *, dtype: Any = float) -> Break:
    def change(X: np.ndarray, y: np.ndarray, groups: np.ndarray) -> Rows:
        X = X.astype(dtype)
        X[2, 1] = value
        return X, y, groups

    return change


def group(value: Any) -> Break:
    def change(X: np.ndarray, y: np.ndarray, groups: np.ndarray) -> Rows:
        groups = groups.astype(object)
        groups[3] = value
        return X, y, groups

    return change


def label(value: Any) -> Break:
    def change(X: np.ndarray, y: np.ndarray, groups: np.ndarray) -> Rows:
        y = (y == "yes").astype(float if isinstance(value, float) else object)
        y[3] = value
        return X, y, groups

    return change


BAD_ROWS: dict[str, tuple[Break, str]] = {
    "NaN": (put(np.nan), "X contains NaN.*PublicScaler.*PrivateTableEncoder"),
    "infinity": (put(np.inf), "X contains infinity"),
    "huge": (put(1e30), "'X' holds values above"),
    "text in an object column": (put(SECRET, dtype=object), "'X' holds values that are not"),
    "text column": (
        lambda X, y, a: (pd.DataFrame(X).assign(job=pd.array([SECRET] * len(X), "string")), y, a),
        "'X' has columns that are not numbers: job",
    ),
    "text in an object column of a table": (
        lambda X, y, a: (pd.DataFrame(put(SECRET, dtype=object)(X, y, a)[0]), y, a),
        "'X' holds values that are not",
    ),
    "two columns of one name": (
        lambda X, y, a: (pd.DataFrame(X, columns=["p", "q", "q", "r"]), y, a),
        "'X' has several columns of one name",
    ),
    "complex": (lambda X, y, a: (X + 1j, y, a), "[Cc]omplex data not supported"),
    "one dimension": (lambda X, y, a: (X[:, 0], y, a), "2D array, got 1D.*[Rr]eshape"),
    "a single number": (lambda X, y, a: (PLANTED, y, a), "2D array, got scalar"),
    "no rows": (lambda X, y, a: (X[:0], y[:0], a[:0]), "0 sample"),
    "no columns": (lambda X, y, a: (X[:, :0], y, a), r"0 feature\(s\)"),
    "one row": (lambda X, y, a: (X[:1], y[:1], a[:1]), "minimum of 2|at least two"),
    "labels of other length": (lambda X, y, a: (X, y[:-1], a), "inconsistent numbers of samples"),
    "no labels": (lambda X, y, a: (X, None, a), "y"),
    "missing label": (label(np.nan), "y contains NaN"),
    "whole numbers as objects": (
        lambda X, y, groups: (X, np.where(y == "yes", 1, 0).astype(object), groups),
        r"Unknown label type: unknown\. 'y' must hold .*y\.astype\(int\)",
    ),
    "continuous label": (label(PLANTED), "Unknown label type: continuous"),
    "mixed labels": (label(SECRET), "label"),
    "one class": (lambda X, y, a: (X, np.full(len(X), "yes"), a), "1 class"),
    "two columns of labels": (lambda X, y, a: (X, np.c_[y, y], a), "y|label"),
    "groups of other length": (
        lambda X, y, a: (X, y, a[:-1]),
        "sensitive_features has another number of rows",
    ),
    "group None": (group(None), "sensitive_features has missing values"),
    "group NaN": (group(float("nan")), "sensitive_features has missing values"),
    "group pd.NA": (group(pd.NA), "sensitive_features has missing values"),
    "pandas text with a gap": (
        lambda X, y, a: (X, y, pd.Series([None, *a[1:]], dtype="str")),
        "sensitive_features has missing values",
    ),
    "group of an unhashable type": (group([1]), "unhashable"),
    "groups with three dimensions": (
        lambda X, y, a: (X, y, a.reshape(-1, 1, 1)),
        "sensitive_features has 3 dimensions",
    ),
}


def planted_people() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    X, y, groups = people()
    X[0, 0] = X[2, 0] = PLANTED
    return X, y, groups


@every_class
@pytest.mark.parametrize("case", BAD_ROWS)
def test_bad_rows(name: str, case: str) -> None:
    change, message = BAD_ROWS[case]
    X, y, groups = change(*planted_people())
    model = build(name)
    with pytest.raises((ValueError, TypeError), match=message) as caught:
        model.fit(X, y, sensitive_features=groups)
    shown = "".join(traceback.format_exception(caught.value))
    assert SECRET not in shown
    assert not PLANTED_AS_SHOWN.search(shown)
    with pytest.raises(NotFittedError):
        model.predict(people()[0])


@every_class
@pytest.mark.parametrize("case", ["NaN", "infinity", "huge", "text in an object column"])
def test_bad_rows_at_prediction(name: str, case: str) -> None:
    X, y, groups = people()
    model = build(name).fit(X, y, sensitive_features=groups)
    change, message = BAD_ROWS[case]
    with pytest.raises(ValueError, match=message) as caught:
        model.predict(change(*planted_people())[0])
    shown = "".join(traceback.format_exception(caught.value))
    assert SECRET not in shown
    assert not PLANTED_AS_SHOWN.search(shown)


class WithBatchNorm(nn.Module):
    """Mixes the records of a batch."""

    def __init__(self, n_features: int) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(n_features, 4), nn.BatchNorm1d(4))
        self.head = nn.Linear(4, 1)

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(X))


def net(**parameters: Any) -> NeuralNet:
    return default_net().set_params(**parameters)


BAD_PARAMETERS: dict[str, tuple[dict[str, Any], str]] = {
    "epsilon 0": ({"epsilon": 0}, "'epsilon'"),
    "epsilon negative": ({"epsilon": -1.0}, "'epsilon'"),
    "epsilon NaN": ({"epsilon": float("nan")}, "'epsilon'"),
    "epsilon text": ({"epsilon": "1"}, "'epsilon'"),
    "epsilon True": ({"epsilon": True}, "'epsilon'"),
    "epsilon and noise": ({"noise_multiplier": 1.0}, "'epsilon'.*'noise_multiplier'"),
    "neither": ({"epsilon": None}, "'epsilon'.*'noise_multiplier'"),
    "noise 0": ({"epsilon": None, "noise_multiplier": 0.0}, "'noise_multiplier'"),
    "delta 0": ({"delta": 0.0}, "'delta'"),
    "delta 1": ({"delta": 1.0}, "'delta'"),
    "delta 1/n": ({"delta": 1 / 300}, "'delta' must be below 1/n"),
    "clip 0": ({"max_grad_norm": 0.0}, "'max_grad_norm'"),
    "clip infinite": ({"max_grad_norm": float("inf")}, "'max_grad_norm'"),
    "batch 0": ({"batch_size": 0}, "'batch_size'"),
    "batch of half a row": ({"batch_size": 2.5}, "'batch_size'"),
    "batch text": ({"batch_size": "big"}, "'batch_size'"),
    "batch above n": ({"batch_size": 301}, "'batch_size' must be at most .* 300; got 301"),
    "epochs 0": ({"max_epochs": 0}, "'max_epochs'"),
    "dataset_size 1": ({"dataset_size": 1}, "'dataset_size'"),
    "classes text": ({"classes": 3}, "'classes'"),
    "classes twice": ({"classes": ["no", "yes", "no"]}, "'classes'"),
    "one declared class": ({"classes": ["no"]}, "class"),
    "schedule": ({"learning_rate_schedule": "step"}, "'learning_rate_schedule'"),
    "seed": ({"random_state": "x"}, "'random_state'"),
    "repeatable": ({"reproducible_noise": "yes"}, "'reproducible_noise'"),
    "net not skorch": ({"net": MLP(4)}, "'net' must be a skorch NeuralNet"),
    "module instance": ({"net": NeuralNet(MLP(4), nn.BCEWithLogitsLoss)}, "'net'.*instance of MLP"),
    "misspelt": ({"net": net(module__hiden_sizes=(3,))}, "module__hiden_sizes"),
    "net of other rows": (
        {"net": net(module__n_features=99)},
        r"Rows have 4 features: set net__module__n_features accordingly\.",
    ),
    "net batch": ({"net": net(batch_size=64)}, "batch_size"),
    "net epochs": ({"net": net(max_epochs=3)}, "max_epochs"),
    "net warm": ({"net": net(warm_start=True)}, "warm_start"),
    "net callbacks": ({"net": net(callbacks=[EarlyStopping()])}, "EarlyStopping"),
    "net loss": ({"net": net(criterion=nn.MSELoss)}, "MSELoss"),
    "BatchNorm": ({"net": net(module=WithBatchNorm)}, "BatchNorm"),
}


@every_class
@pytest.mark.parametrize("case", BAD_PARAMETERS)
def test_bad_parameters(name: str, case: str) -> None:
    parameters, message = BAD_PARAMETERS[case]
    X, y, groups = people()
    model = build(name, **parameters)
    with pytest.raises((ValueError, TypeError), match=message):
        model.fit(X, y, sensitive_features=groups)
    with pytest.raises(NotFittedError):
        model.predict(X)


BAD_FAIRDP: dict[str, tuple[dict[str, Any], str]] = {
    "head norm": ({"max_head_norm": 0.0}, "'max_head_norm'"),
    "heads": ({"n_heads": 0}, "'n_heads'"),
    "prediction": ({"prediction": "mean"}, "'prediction'"),
    "smoothing": ({"smoothing": 0.0}, "'smoothing'"),
    "smoothing of a vote": ({"smoothing": 1.0, "prediction": "vote"}, "'smoothing'"),
    "threshold": ({"threshold": 1.0}, "'threshold'"),
    "releases": ({"releases": "all"}, "'releases'"),
    "update": ({"group_update": "max"}, "'group_update'"),
    "rates": ({"sampling": {"a": 0.5}}, "'sampling' must map every group"),
    "noise of a group": (
        {"epsilon": None, "noise_multiplier": {"a": 1.0}},
        "'noise_multiplier' must map every group",
    ),
    "sizes empty": ({"group_sizes": {}}, "'group_sizes'"),
    "sizes not integers": ({"group_sizes": {"a": 1.5, "b": 2}}, "'group_sizes'"),
    "sizes twice": (
        {"group_sizes": {"a": 200, "b": 100}, "group_sizes_epsilon": 0.1},
        "'group_sizes'.*'group_sizes_epsilon'",
    ),
    "sizes too dear": ({"group_sizes_epsilon": 1.0}, "'group_sizes_epsilon'"),
    "sums differ": ({"group_sizes": {"a": 200, "b": 100}, "dataset_size": 299}, "'dataset_size'"),
    "head unknown": ({"head": "tail"}, "head"),
    "tolerance": ({"stop_tolerance": -0.1}, "'stop_tolerance'"),
    "tables too dear": (
        {"stop_tolerance": 0.1, "check_every": 1, "check_epsilon": 1.0},
        "'check_epsilon'",
    ),
}


@pytest.mark.parametrize("case", BAD_FAIRDP)
def test_bad_parameters_of_fairdp(case: str) -> None:
    parameters, message = BAD_FAIRDP[case]
    X, y, groups = people()
    with pytest.raises((ValueError, TypeError), match=message):
        build("FairDP", **parameters).fit(X, y, sensitive_features=groups)


def test_fairdp_refuses_one_group_and_three_classes() -> None:
    X, y, groups = people()
    with pytest.raises(ValueError, match="at least two groups"):
        FairDPClassifier(**FAST).fit(X, y, sensitive_features=np.full(300, "a"))
    with pytest.raises(ValueError, match="Only binary"):
        FairDPClassifier(**FAST).fit(X, np.arange(300) % 3, sensitive_features=groups)


@every_class
def test_a_misspelt_parameter_is_refused_when_it_is_set(name: str) -> None:
    with pytest.raises(ValueError, match="max_gradnorm"):
        build(name).set_params(max_gradnorm=1.0)
    with pytest.raises(ValueError, match="learningrate"):
        build(name).set_params(net__learningrate=1.0)
