"""Tests of per-record losses, and of the scores and decisions of a module."""

from __future__ import annotations

import pytest
import torch
from skorch import NeuralNetClassifier
from torch import nn

from skfairdp.engine.inference import probabilities
from skfairdp.engine.nets import link_of
from skfairdp.engine.objectives import (
    Objective,
    WeightedObjective,
    check_losses,
    objective_for,
    softmax_by_row,
)

LOGITS = torch.randn(7, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
CLASSES = torch.tensor([0, 1, 2, 0, 1, 2, 0])
BINARY = (CLASSES > 0).double()


@pytest.mark.parametrize("question", ["scores", "decisions"])
def test_an_objective_that_knows_no_classes_says_what_to_define(question):
    class Wrapped(Objective):
        pass

    with pytest.raises(TypeError, match=rf"Wrapped.{question}\(output\), or hand it on"):
        getattr(Wrapped(), question)(LOGITS)


@pytest.mark.parametrize("output_shape", [(7,), (7, 1)])
@pytest.mark.parametrize("target_shape", [(7,), (7, 1)])
def test_binary_losses_have_one_entry_a_record(output_shape, target_shape):
    output = LOGITS[:, 0].reshape(output_shape)
    losses = objective_for(nn.BCEWithLogitsLoss())(output, BINARY.reshape(target_shape))
    want = nn.BCEWithLogitsLoss(reduction="none")(LOGITS[:, 0], BINARY)
    torch.testing.assert_close(losses, want)


def test_binary_loss_of_several_outputs_is_their_mean():
    target = (LOGITS > 0.3).double()
    losses = objective_for(nn.BCEWithLogitsLoss(pos_weight=torch.tensor(2.0)))(LOGITS, target)
    assert losses.shape == (7,)
    whole = nn.BCEWithLogitsLoss(pos_weight=torch.tensor(2.0))(LOGITS, target)
    torch.testing.assert_close(losses.mean(), whole)


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_cross_entropy_equals_torch_record_by_record(smoothing):
    criterion = nn.CrossEntropyLoss(label_smoothing=smoothing)
    losses = objective_for(criterion)(LOGITS, CLASSES)
    torch.testing.assert_close(losses.mean(), criterion(LOGITS, CLASSES))


def test_class_weights_are_not_divided_by_the_weights_of_the_batch():
    objective = objective_for(nn.CrossEntropyLoss(weight=torch.tensor([1.0, 5.0, 9.0]).double()))
    alone = objective(LOGITS[1:2], CLASSES[1:2])
    torch.testing.assert_close(objective(LOGITS, CLASSES)[1:2], alone)


def test_nll_follows_skorch():
    net = NeuralNetClassifier(nn.Linear, module__in_features=3, module__out_features=3)
    net.initialize()
    probabilities = LOGITS.softmax(dim=1)
    losses = objective_for(nn.NLLLoss())(probabilities, CLASSES)
    torch.testing.assert_close(losses.mean(), net.get_loss(probabilities, CLASSES))


@pytest.mark.parametrize(
    ("criterion", "output", "target"),
    [
        (nn.BCEWithLogitsLoss(), LOGITS[:, 0], BINARY),
        (nn.BCEWithLogitsLoss(), LOGITS[:, :1], BINARY),
        (nn.BCEWithLogitsLoss(), LOGITS, (LOGITS > 0).double()),
        (nn.CrossEntropyLoss(), LOGITS, CLASSES),
        (nn.CrossEntropyLoss(ignore_index=-1), LOGITS, CLASSES),
    ],
)
def test_closed_form_gradient_equals_automatic_differentiation(criterion, output, target):
    objective = objective_for(criterion)
    leaf = output.clone().requires_grad_()
    (want,) = torch.autograd.grad(objective(leaf, target).sum(), leaf)
    before = output.clone()
    got = objective.gradient(output, target)
    assert got is not None
    assert got.shape == output.shape
    torch.testing.assert_close(got, want)
    assert torch.equal(output, before)


@pytest.mark.parametrize("n_columns", [1, 2, 5, 15, 16])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_the_softmax_of_a_row_is_its_own_to_the_last_bit(n_columns, dtype):
    generator = torch.Generator().manual_seed(n_columns)
    logits = torch.randn(288, n_columns, generator=generator).to(dtype) * 9
    found = softmax_by_row(logits)
    torch.testing.assert_close(found, logits.softmax(dim=1))
    for shift in (1, 7, 149):
        assert torch.equal(softmax_by_row(logits.roll(shift, 0)).roll(-shift, 0), found)
    for kept in (32, 96):  # whole vectors
        assert torch.equal(softmax_by_row(logits[:kept]), found[:kept])


@pytest.mark.parametrize("ignored", [-100, 1])
def test_an_ignored_target_has_no_loss_and_changes_no_other_record(ignored):
    target = CLASSES.clone()
    target[2] = ignored
    objective = objective_for(nn.CrossEntropyLoss(ignore_index=ignored))
    assert float(objective(LOGITS, target)[2]) == 0.0
    got, others = objective.gradient(LOGITS, target), objective.gradient(LOGITS, CLASSES)
    assert not got[2].any()
    keep = torch.arange(len(target)) != 2
    assert torch.equal(got[keep], others[keep])  # to the last bit: the same arithmetic
    leaf = LOGITS.clone().requires_grad_()
    (want,) = torch.autograd.grad(objective(leaf, target).sum(), leaf)
    torch.testing.assert_close(got, want)


@pytest.mark.parametrize(
    ("criterion", "output", "target"),
    [
        (nn.BCEWithLogitsLoss(), LOGITS, BINARY),
        (nn.BCEWithLogitsLoss(), LOGITS[:6, 0], BINARY),
        (nn.CrossEntropyLoss(), LOGITS[:, 0], CLASSES),
        (nn.CrossEntropyLoss(), LOGITS, BINARY),
        (nn.NLLLoss(), LOGITS, CLASSES[:, None]),
    ],
)
def test_shapes_that_would_broadcast_are_refused_without_the_batch_size(criterion, output, target):
    with pytest.raises(ValueError, match="for B records") as caught:
        objective_for(criterion)(output, target)
    assert not set("67") & set(str(caught.value))


def test_other_criteria_are_refused_by_name():
    class Mine(nn.BCEWithLogitsLoss):
        pass

    for criterion in (nn.L1Loss(), nn.BCELoss(), Mine()):
        with pytest.raises(ValueError, match=type(criterion).__name__):
            objective_for(criterion)


def test_weight_per_batch_position_is_refused():
    with pytest.raises(ValueError, match="per position in a batch"):
        objective_for(nn.BCEWithLogitsLoss(weight=torch.ones(7, 1)))


def test_module_that_returns_a_tuple_is_refused():
    with pytest.raises(TypeError, match="returned a tuple"):
        objective_for(nn.CrossEntropyLoss())((LOGITS, LOGITS), CLASSES)


@pytest.mark.parametrize(
    ("criterion", "output"),
    [
        (nn.BCEWithLogitsLoss(), LOGITS[:, 0]),
        (nn.BCEWithLogitsLoss(), LOGITS[:, :1]),
        (nn.CrossEntropyLoss(), LOGITS),
        (nn.NLLLoss(), torch.softmax(LOGITS, dim=1)),
    ],
)
def test_scores_and_decisions_know_what_the_module_returns(criterion, output):
    objective = objective_for(criterion)
    predicted = probabilities(output.reshape(7, -1).numpy(), link_of(criterion))
    torch.testing.assert_close(objective.scores(output).numpy(), predicted)
    assert objective.decisions(output).tolist() == predicted.argmax(axis=1).tolist()
    # The mistake that they are for: the largest of one logit is always the first.
    if output.reshape(7, -1).shape[1] == 1:
        assert output.reshape(7, -1).argmax(dim=1).tolist() != predicted.argmax(axis=1).tolist()


def test_a_loss_of_numbers_has_no_decisions():
    with pytest.raises(TypeError, match="not the loss of a classifier"):
        objective_for(nn.MSELoss()).decisions(LOGITS[:, 0])


def test_a_loss_without_a_gradient_in_closed_form_says_so() -> None:
    output, labels = torch.zeros(3, 1), torch.tensor([0.0, 1.0, 1.0])
    assert Objective().gradient(output, labels) is None
    with pytest.raises(NotImplementedError):
        Objective()(output, labels)
    weighted = objective_for(nn.BCEWithLogitsLoss(pos_weight=torch.tensor(2.0)))
    assert weighted.gradient(output, labels) is None
    assert WeightedObjective(weighted, [1.0, 0.5]).gradient(output, labels) is None
    plain = WeightedObjective(objective_for(nn.BCEWithLogitsLoss()), [1.0, 0.5])
    found = plain.gradient(output, labels)
    assert found is not None
    assert found.ravel().tolist() == [0.5, -0.25, -0.25]


def test_losses_that_are_not_one_a_record_are_refused() -> None:
    with pytest.raises(ValueError, match="must return one loss per record"):
        check_losses(torch.zeros(3, 2), (3,))
    with pytest.raises(ValueError, match="MSELoss or HuberLoss"):
        objective_for(nn.MSELoss())(torch.zeros(3, 2), torch.zeros(3))
