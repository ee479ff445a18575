"""Parts of parameters that may hold rows are named among the assumptions of a guarantee."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from skorch import NeuralNet
from torch import nn

from skfairdp import (
    DPSGDClassifier,
    PATEClassifier,
    RandomizedAttributeClassifier,
    SFPATEClassifier,
    certify,
    default_net,
)
from skfairdp.model_selection import PrivateSearchCV
from skfairdp.privacy import PrivacyGuarantee
from skfairdp.receipts.brought_along import assuming_parts, parts_of

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 3)).astype(np.float32)
Y = (X[:, 0] > 0).astype(int)
GROUPS = np.where(X[:, 1] > 0, "a", "b")
BY_HEART = KNeighborsClassifier(1).fit(X, Y)
SCALED = make_pipeline(FrozenEstimator(StandardScaler().fit(X)), LogisticRegression())


class Scaled(nn.Module):
    def __init__(self, mean: np.ndarray) -> None:
        super().__init__()
        self.register_buffer("mean", torch.as_tensor(mean))
        self.layer = nn.Linear(3, 1)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self.layer(rows - self.mean)


class Remembers(LogisticRegression):
    """A model of the user, which may hold anything."""


def net(**settings: object) -> NeuralNet:
    return NeuralNet(Scaled, nn.BCEWithLogitsLoss, lr=0.1, module__mean=X.mean(axis=0), **settings)


def said(model: object) -> str:
    """What is assumed about parts; empty where nothing is."""
    stated = assuming_parts(PrivacyGuarantee(1.0, 1e-6, "zero-out"), parts_of(model))
    return " ".join(stated.assumptions).rpartition(": ")[2]


@pytest.mark.parametrize(
    ("model", "named"),
    [
        (DPSGDClassifier(net()), ["Scaled, code of your own", "net__module__mean (ndarray)"]),
        (
            DPSGDClassifier(default_net().set_params(criterion__pos_weight=torch.ones(1))),
            ["net__criterion__pos_weight (Tensor)"],
        ),
        (
            DPSGDClassifier(default_net().set_params(module__start=[0.1] * 9)),
            ["net__module__start (a list of numbers)"],
        ),
        (
            DPSGDClassifier(default_net().set_params(module__activation=nn.Linear(2, 2))),
            ["net__module__activation (Linear)"],
        ),
        (
            PATEClassifier(student=FrozenEstimator(BY_HEART)),
            ["KNeighborsClassifier, fitted before"],
        ),
        (PATEClassifier(SCALED), ["frozenestimator (StandardScaler, fitted before)"]),
        (SFPATEClassifier(student=SCALED), ["student__steps__frozenestimator"]),
        (PATEClassifier(LogisticRegression(class_weight={0: X, 1: 2})), ["class_weight__0"]),
        (RandomizedAttributeClassifier(Remembers()), ["estimator (Remembers, code of your own)"]),
        (PrivateSearchCV(DPSGDClassifier(net()), {}), ["estimator__net__module__mean"]),
        (
            PrivateSearchCV(make_pipeline(SCALED[0], DPSGDClassifier(net())), {}),
            ["estimator__steps__frozenestimator (StandardScaler, fitted before)", "__net__module"],
        ),
    ],
)
def test_parts_that_may_hold_rows_are_named(model, named) -> None:
    assert [part for part in named if part not in said(model)] == []
    assert str(X[0, 0])[:5] not in said(model)


@pytest.mark.parametrize(
    "model",
    [
        DPSGDClassifier(),
        DPSGDClassifier(
            default_net().set_params(
                module__hidden_sizes=(64, 32), optimizer=torch.optim.SGD, optimizer__momentum=0.9
            )
        ),
        DPSGDClassifier(default_net().set_params(module__activation=nn.ReLU(), device="cpu")),
        PATEClassifier(make_pipeline(StandardScaler(), LogisticRegression(C=2.0))),
        PATEClassifier(LogisticRegression(random_state=np.random.RandomState(0))),
        RandomizedAttributeClassifier(LogisticRegression(class_weight={0: 1, 1: 5})),
        PrivateSearchCV(DPSGDClassifier(classes=np.arange(20)), {"max_grad_norm": [0.5, 1.0]}),
    ],
)
def test_plain_settings_are_not(model) -> None:
    assert said(model) == ""


def test_a_certificate_names_a_student_that_holds_all_rows() -> None:
    model = PATEClassifier(
        LogisticRegression(), FrozenEstimator(BY_HEART), n_teachers=20, progress=False
    ).fit(X, Y, X_public=X[:100] + 1)
    assert X[17].tobytes() in pickle.dumps(model)
    stated = certify(model).privacy
    assert stated is not None
    assert stated.assumptions[-1].endswith(": student (KNeighborsClassifier, fitted before)")
    assert model.quote(n_rows=300, n_public=100).privacy.assumptions[-1] == stated.assumptions[-1]


def test_a_fit_and_its_quote_name_what_a_net_holds() -> None:
    model = DPSGDClassifier(net(), max_epochs=1, progress=False).fit(X, Y)
    assert model.privacy_.assumptions[-1].endswith("net__module__mean (ndarray)")
    assert model.quote(n_rows=300).privacy.assumptions[-1] == model.privacy_.assumptions[-1]
    assert pickle.loads(pickle.dumps(model)).privacy_ == model.privacy_
