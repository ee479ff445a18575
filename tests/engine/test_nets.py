"""Tests of the settings that are taken from a user's net, such as learning-rate policies."""

from __future__ import annotations

import pytest
import torch
from skorch import NeuralNet
from skorch.callbacks import LRScheduler, WarmRestartLR
from skorch.dataset import ValidSplit
from torch import nn

from skfairdp.engine.modules import MLP
from skfairdp.engine.nets import PreparedNet, check_net, prepare_net


def net(**settings: object) -> NeuralNet:
    return NeuralNet(MLP, criterion=nn.BCEWithLogitsLoss, lr=0.8, **settings)


def prepared(**settings: object) -> PreparedNet:
    return prepare_net(net(**settings), n_features=3, n_classes=2, seed=0)


def test_a_scheduler_by_epoch_or_batch_sets_the_rate_of_every_step():
    by_epoch = LRScheduler("StepLR", step_size=1, gamma=0.5)
    found = prepared(callbacks=[by_epoch]).learning_rates(6, 2)
    assert found == pytest.approx([0.8, 0.8, 0.4, 0.4, 0.2, 0.2])
    by_batch = LRScheduler(torch.optim.lr_scheduler.ExponentialLR, gamma=0.5, step_every="batch")
    found = prepared(callbacks=[("rate", by_batch)]).learning_rates(3, 2)
    assert found == pytest.approx([0.8, 0.4, 0.2])


def test_the_default_policy_of_the_scheduler_works():
    assert LRScheduler().policy == "WarmRestartLR" or LRScheduler().policy is WarmRestartLR
    assert len(prepared(callbacks=[LRScheduler()]).learning_rates(4, 2)) == 4


@pytest.mark.parametrize("method", ["get_loss", "train_step_single", "infer", "get_iterator"])
def test_methods_of_training_that_no_fit_calls_are_refused(method):
    own = type("Own", (NeuralNet,), {method: lambda *_, **__: None})
    with pytest.raises(ValueError, match=f"Own with a {method} of its own"):
        check_net(own(nn.Linear, criterion=nn.BCEWithLogitsLoss))
    check_net(type("Own", (NeuralNet,), {})(nn.Linear, criterion=nn.BCEWithLogitsLoss))


@pytest.mark.parametrize("callbacks", [None, [], "disable"])
def test_a_net_without_callbacks_keeps_its_rate(callbacks: object):
    assert prepared(callbacks=callbacks).learning_rates(2, 1) == [0.8, 0.8]


def test_a_policy_that_follows_losses_is_refused():
    with pytest.raises(ValueError, match="follows private losses"):
        check_net(net(callbacks=[LRScheduler("ReduceLROnPlateau")]))


def test_warm_start_is_refused_in_whole_sentences():
    with pytest.raises(ValueError, match="warm_start=True; leave it out: every fit starts afresh"):
        check_net(net(warm_start=True))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"train_split": ValidSplit(3)}, "would publish their losses"),
        ({"iterator_train": list}, "batches are Poisson"),
    ],
)
def test_what_would_read_rows_without_noise_is_refused(settings, words):
    with pytest.raises(ValueError, match=words):
        check_net(net(**settings))


def test_a_loss_of_two_classes_is_refused_for_three():
    of_two = NeuralNet(nn.Linear, criterion=nn.BCEWithLogitsLoss)
    with pytest.raises(ValueError, match="is for two classes; there are 3. Use CrossEntropyLoss"):
        prepare_net(of_two, n_features=3, n_classes=3, seed=0)
