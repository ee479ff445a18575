"""All trainable parameters live in one vector, in place."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch import nn

from skfairdp.engine.modules import MLP
from skfairdp.engine.optimizers import flatten, unflatten


def test_vector_and_parameters_share_memory_and_keep_values():
    module = MLP(3, hidden_sizes=(4,))
    parameters = dict(module.named_parameters())
    before = {name: p.detach().clone() for name, p in parameters.items()}
    flat = flatten(module)
    assert flat.vector.is_contiguous()
    assert [slot.name for slot in flat.layout] == list(before)
    for slot in flat.layout:
        assert parameters[slot.name] is dict(module.named_parameters())[slot.name]
        assert torch.equal(flat.vector[slot.slice].view(slot.shape), before[slot.name])
    flat.vector.add_(1.0)
    assert all(torch.equal(p, before[name] + 1.0) for name, p in module.named_parameters())


def test_frozen_parameters_are_left_out():
    module = MLP(3, hidden_sizes=(4,))
    module.features.requires_grad_(False)
    flat = flatten(module)
    assert [slot.name for slot in flat.layout] == ["head.weight", "head.bias"]
    assert flat.vector.numel() == 5


def test_tied_parameters_appear_once():
    module = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3, bias=False))
    module[1].weight = module[0].weight
    flat = flatten(module)
    assert flat.vector.numel() == 12
    assert module[1].weight is module[0].weight


def test_positions_of_a_submodule():
    flat = flatten(MLP(3, n_outputs=2, hidden_sizes=(4,)))
    assert flat.positions("head") == slice(16, 26)
    assert flat.positions("features") == slice(0, 16)
    with pytest.raises(KeyError, match="tail"):
        flat.positions("tail")


def test_unflatten_gives_every_parameter_its_own_memory():
    module = MLP(3, hidden_sizes=(4,))
    flat = flatten(module)
    before = copy.deepcopy(module.state_dict())
    unflatten(module)
    flat.vector.zero_()
    assert all(torch.equal(before[name], value) for name, value in module.state_dict().items())
    small = len(pickle.dumps(module.head))
    assert small < len(pickle.dumps(module))


def test_nothing_to_train_is_refused():
    with pytest.raises(ValueError, match="Flatten has no trainable parameter"):
        flatten(nn.Flatten())


def test_mixed_or_unsupported_dtypes_are_refused_by_name():
    with pytest.raises(ValueError, match=r"'1\.weight' is torch\.float64"):
        flatten(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1).double()))
    with pytest.raises(ValueError, match=r"'weight' of Linear is torch\.float16"):
        flatten(nn.Linear(2, 1).half())


def test_lazy_parameters_are_refused_by_name():
    with pytest.raises(ValueError, match="'weight' of LazyLinear is lazy"):
        flatten(nn.LazyLinear(1))
