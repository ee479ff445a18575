"""Costs of mistakes that differ by class."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

from skfairdp import DPAdditiveClassifier, DPSGDClassifier, PrivacyLedger
from skfairdp.engine.objectives import BinaryObjective, WeightedObjective

RNG = np.random.default_rng(0)
X = RNG.uniform(size=(2000, 2))
Y = np.where(RNG.random(2000) < 0.5 * X[:, 0], "yes", "no")
MODELS = {
    "DP-SGD": DPSGDClassifier(max_epochs=2, progress=False),
    "additive": DPAdditiveClassifier((0, 1), n_bins=4, max_epochs=4, progress=False),
}


@pytest.fixture(params=MODELS)
def model(request: pytest.FixtureRequest) -> object:
    return MODELS[request.param]


def fitted(model: object, weights: object, **options: object) -> object:
    return (
        model.__class__(**(model.get_params(deep=False) | options))
        .set_params(class_weight=weights)
        .fit(X, Y)
    )


def test_the_costlier_class_is_predicted_more_often_at_the_same_privacy(model) -> None:
    plain = fitted(model, None, epsilon=8.0)
    costly = fitted(model, {"yes": 5.0, "no": 1}, epsilon=8.0)
    assert np.mean(costly.predict(X) == "yes") > np.mean(plain.predict(X) == "yes") + 0.2
    assert costly.plan_ == plain.plan_


def test_even_weights_of_any_size_change_nothing(model) -> None:
    same = {"random_state": 0, "reproducible_noise": True}
    plain, even = (fitted(model, w, **same) for w in (None, {"yes": 7, "no": 7}))
    assert np.array_equal(plain.predict_proba(X), even.predict_proba(X))


@pytest.mark.parametrize(
    ("weights", "match"),
    [
        ("balanced", "sizes of the classes, which are private"),
        ({"yes": 2}, "one weight for each class"),
        ({"yes": 2, "no": 1, "maybe": 1}, "one weight for each class"),
        ({"yes": 0, "no": 1}, "must map classes to"),
        ({"yes": math.nan, "no": 1}, "must map classes to"),
        ({"yes": "5", "no": 1}, "must map classes to"),
        (3.0, "class_weight"),
    ],
)
def test_wrong_weights_are_refused_before_a_charge(tmp_path, model, weights, match) -> None:
    ledger = PrivacyLedger(tmp_path / "l.db", "rows")
    with pytest.raises(ValueError, match=match):
        fitted(model, weights, ledger=ledger)
    assert ledger.entries() == ()


def test_weights_do_not_change_which_class_an_output_stands_for() -> None:
    plain, output = BinaryObjective(), torch.tensor([[0.3], [-1.0], [2.0]])
    weighted = WeightedObjective(plain, [0.25, 1.0])
    assert torch.equal(weighted.decisions(output), plain.decisions(output))
    assert torch.equal(weighted.scores(output, 2.0), plain.scores(output, 2.0))


def test_weighted_losses_have_weighted_gradients() -> None:
    objective = WeightedObjective(BinaryObjective(), [0.25, 1.0])
    output = torch.tensor([[0.3], [-1.0], [2.0]], requires_grad=True)
    target = torch.tensor([0.0, 1.0, 0.0])
    losses = objective(output, target)
    unweighted = nn.functional.binary_cross_entropy_with_logits(
        output[:, 0], target, reduction="none"
    )
    assert torch.allclose(losses, unweighted * torch.tensor([0.25, 1.0, 0.25]))
    (expected,) = torch.autograd.grad(losses.sum(), output)
    assert torch.allclose(objective.gradient(output.detach(), target), expected)
