"""A certificate's promise is about what a fit left, and void for what was put in its place."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.pipeline import make_pipeline
from skorch import NeuralNetClassifier
from torch import nn

from skfairdp import (
    AbstainingClassifier,
    DPSGDClassifier,
    PrivateFairEncoder,
    SmoothedClassifier,
    certify,
)
from skfairdp.base import PrivateEstimator, fitted_state
from skfairdp.model_selection import PrivateSearchCV
from skfairdp.preprocessing import PublicScaler
from skfairdp.privacy import PrivacyGuarantee
from skfairdp.receipts import Receipt
from tests.common import roster
from tests.common.roster import build, once, people

X, Y, GROUPS = people()
# One of each class, of each class around each other, and of each way to train it: what a fit
# leaves has the same names in their other settings.
KINDS: dict[Any, str] = {}
for names in (
    roster.ROSTER, roster.AROUND, roster.ATTRIBUTE, roster.CONSTRAINED, roster.VOTING,
    roster.CLOSED_FORM, roster.SMOOTHED, ["randomised attribute"],
):  # fmt: skip
    for name in names:
        model = roster.EVERY[name][1]
        inside = type(getattr(model, "estimator", None))
        KINDS.setdefault((type(model), inside, getattr(model, "training", None)), name)
NAMES = list(KINDS.values())


def fitted(name: str) -> Any:
    """A copy, since tests change it."""
    return copy.deepcopy(once(name))


def spoilt(value: Any) -> bool:
    """Change the first weight that is found inside a released value, in place."""
    if isinstance(value, np.ndarray) and value.dtype.kind == "f" and value.size:
        value.flags.writeable = True
        value.flat[0] += 1.0
        return True
    if isinstance(value, nn.Module):
        with torch.no_grad():
            next(value.parameters()).view(-1)[0] += 1.0
        return True
    if isinstance(value, list | tuple):
        return any(map(spoilt, value))
    if isinstance(value, PrivateEstimator):
        return any(spoilt(vars(value)[n]) for n in value._released if n in vars(value))
    return any(map(spoilt, getattr(value, "__dict__", {}).values()))


def is_void(model: Any) -> bool:
    privacy = certify(model).privacy
    return privacy is not None and privacy.is_void


@pytest.mark.parametrize("name", NAMES)
def test_what_a_fit_left_is_promised_for_also_after_use_and_storing(name: str) -> None:
    model = fitted(name)
    stated = certify(once(name)).privacy
    assert stated is not None
    assert not stated.is_void
    model.predict(X[:20])
    for same in (model, pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert certify(same).privacy == stated
        assert same._changed_since_fit() == ()
    model.set_params(**{n: None for n in ("random_state", "progress") if n in model.get_params()})
    assert certify(model).privacy == stated


@pytest.mark.parametrize("name", NAMES)
def test_other_weights_and_promises_void_privacy_and_are_named(name: str) -> None:
    weighty = [n for n in once(name)._released if n in vars(once(name))]
    spoilable = 0
    for attribute in weighty:
        model = fitted(name)
        if spoilt(vars(model)[attribute]):
            spoilable += 1
            stated = certify(model).privacy
            assert stated.is_void, attribute
            assert attribute in stated.assumptions[0]
            assert is_void(pickle.loads(pickle.dumps(model))), attribute
    assert spoilable > 0
    model = fitted(name)
    inner = model if model._charges_privacy else model.estimator_
    other = PrivacyGuarantee(0.01, 0.0, "zero-out")
    inner.receipt_ = inner.receipt_.stating(other, one_of_several=False)
    stated = certify(model).privacy
    assert stated.is_void
    assert "privacy_ is not" in " ".join(stated.assumptions)


@pytest.mark.parametrize("name", NAMES)
def test_methods_put_in_place_of_the_class_void_privacy(name: str) -> None:
    model = fitted(name)
    model.predict = lambda X: np.resize(Y, len(X))
    assert is_void(model)


def other_plan(receipt: Receipt) -> Receipt:
    """A receipt of half as many epochs."""
    plan = receipt.quote.plan
    assert plan is not None
    segments = tuple(replace(segment, steps=segment.steps // 2) for segment in plan.segments)
    quote = replace(receipt.quote, plan=replace(plan, segments=segments))
    return replace(receipt, quote=quote)


CHANGES: dict[str, Callable[[Any], Any]] = {
    "budget": lambda m: m.set_params(epsilon=0.01),
    "repeatable noise": lambda m: m.set_params(reproducible_noise=True),
    "network": lambda m: m.set_params(net__lr=0.5),
    "module": lambda m: setattr(m, "module_", fitted("DP-SGD").module_.__class__(4, 1)),
    "classes": lambda m: setattr(m, "classes_", m.classes_[::-1]),
    "plan": lambda m: setattr(m, "receipt_", other_plan(m.receipt_)),
    "nothing is known": lambda m: setattr(m, "receipt_", replace(m.receipt_, digests={})),
}


@pytest.mark.parametrize("change", CHANGES)
def test_changes_after_fit_void_until_they_are_undone_or_it_is_fitted_again(change: str) -> None:
    model = fitted("DP-SGD")
    CHANGES[change](model)
    assert is_void(model)
    assert is_void(make_pipeline(PublicScaler((-6.0, 6.0)).fit(X), model))
    if change in ("budget", "repeatable noise"):
        old = once("DP-SGD").get_params(deep=False)
        model.set_params(epsilon=old["epsilon"], reproducible_noise=False)
        assert not is_void(model)
    else:
        model.set_params(net=None).fit(X, Y)
        assert not is_void(model)


def test_a_model_inside_another_is_bound_too() -> None:
    search = PrivateSearchCV(
        DPSGDClassifier(max_epochs=1, progress=False, delta=1e-4),
        {"max_grad_norm": [0.5, 1.0]},
        n_iter=2,
        delta=1e-4,
    ).fit(X, Y)
    gate = AbstainingClassifier(DPSGDClassifier(max_epochs=1, progress=False, delta=1e-4))
    gate.fit(X, Y, sensitive_features=GROUPS)
    smoothed = SmoothedClassifier(DPSGDClassifier(max_epochs=1, progress=False, delta=1e-4))
    smoothed.fit(X, Y, sensitive_features=GROUPS)
    for outer, inner in (
        (search, "best_estimator_"),
        (gate, "estimator_"),
        (smoothed, "estimator_"),
    ):
        assert not is_void(outer)
        assert not is_void(getattr(outer, inner))  # states what the whole has spent
        if outer is gate:
            gate.predict(X, sensitive_features=GROUPS)  # counts, and learns nothing
            assert not is_void(gate)
        for other in (copy.deepcopy(outer), pickle.loads(pickle.dumps(outer))):
            assert spoilt(getattr(other, inner).module_)
            assert is_void(other)
            assert is_void(getattr(other, inner))
    smoothed.model_ = smoothed.model_.moved(smoothed.model_.vector + 1.0)
    assert is_void(smoothed)


def test_an_encoders_releases_are_bound_to_its_fit() -> None:
    encoder = PrivateFairEncoder(max_epochs=1, progress=False, epsilon=1.0)
    encoder.fit(X, Y, sensitive_features=GROUPS)
    encoder.transform(X[:5], ids=np.arange(5))
    assert not is_void(encoder)
    assert not is_void(pickle.loads(pickle.dumps(encoder)))
    encoder.bound_ = 100.0
    assert is_void(encoder)
    for other in (encoder, make_pipeline(encoder, build("DP-SGD")).fit(X, Y)):
        other_encoder = other if other is encoder else other[0]
        other_encoder.module_ = copy.deepcopy(other_encoder.module_)
        assert spoilt(other_encoder.module_)
        assert is_void(other)


def test_bounds_of_the_mechanism_end_with_what_it_trained() -> None:
    model = build("FairDP", max_head_norm=1.0).fit(X, Y, sensitive_features=GROUPS)
    scopes = [claim.scope for claim in certify(model).fairness]
    assert "training mechanism" in scopes
    assert spoilt(model.module_)
    assert "training mechanism" not in [claim.scope for claim in certify(model).fairness]


def test_a_model_without_digests_of_its_fit_would_be_found(monkeypatch) -> None:
    """The broken twin: binding nothing leaves every change unseen."""
    monkeypatch.setattr(fitted_state, "bound_state_of", lambda model: {})
    model = build("DP-SGD").fit(X, Y)
    assert spoilt(model.module_)
    assert not is_void(model)


def test_code_that_another_python_wrote_is_said_to_be_incomparable() -> None:
    class Net(nn.Linear):
        def __init__(self, n_features: int, n_outputs: int) -> None:
            super().__init__(n_features, n_outputs)

    net = NeuralNetClassifier(Net, criterion=nn.CrossEntropyLoss, train_split=None, verbose=0)
    model = DPSGDClassifier(net, max_epochs=1, progress=False, delta=1e-4).fit(X, Y)
    assert not is_void(model)
    other = {"python": "3.99", "module_": "sha256:" + "0" * 64 + "+"}
    model.receipt_ = replace(model.receipt_, digests={**model.receipt_.digests, **other})
    (reason, *_) = certify(model).privacy.assumptions
    assert "Python 3.99" in reason
    assert "cannot compare" in reason
