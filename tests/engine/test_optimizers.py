"""Optimizers on one vector that holds all trainable parameters, in place."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace

import pytest
import torch
from torch import nn

from skfairdp.engine.modules import MLP
from skfairdp.engine.optimizers import flat_optimizer, flatten, unflatten
from skfairdp.engine.row_blocks import few_threads


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


CASES = {
    "SGD": (torch.optim.SGD, {"lr": 0.1}),
    "SGD with momentum": (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}),
    "Adam": (torch.optim.Adam, {"lr": 0.01}),
    "Adam with other numbers": (torch.optim.Adam, {"lr": 0.1, "betas": (0.5, 0.9), "eps": 1e-3}),
    "Adam with decay": (torch.optim.Adam, {"lr": 0.01, "weight_decay": 0.1}),
    "AMSGrad": (torch.optim.Adam, {"lr": 0.01, "amsgrad": True}),
    "maximise": (torch.optim.Adam, {"lr": 0.01, "maximize": True}),
    "AdamW": (torch.optim.AdamW, {"lr": 0.01}),
}


@pytest.mark.parametrize(("kind", "options"), CASES.values(), ids=CASES.keys())
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_steps_are_those_of_torch(kind, options, dtype):
    torch.manual_seed(0)
    module = MLP(3, hidden_sizes=(4,)).to(dtype)
    flat = flatten(module)
    parameter = torch.nn.Parameter(flat.vector.clone())
    theirs = kind([parameter], **options)
    ours = flat_optimizer(kind, (), options, dict(module.named_parameters()), flat)
    for step in range(40):
        rate = options["lr"] * (1.0 - step / 50)
        ours.set_lr(rate)
        theirs.param_groups[0]["lr"] = rate
        gradient = torch.randn(len(parameter), dtype=torch.float64) * 10.0 ** (step % 5 - 2)
        parameter.grad = gradient.to(dtype)
        before = gradient.clone()
        ours.step(gradient)
        theirs.step()
        assert torch.equal(gradient, before)
    torch.testing.assert_close(flat.vector, parameter.detach(), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
    ("rows", "shape", "weights", "alone"),
    [(256, (5,), 1000, True), (4096, (5,), 100_000, False), (256, (3, 8, 8), 1000, False)],
)
def test_threads_are_woken_where_they_pay(rows, shape, weights, alone):
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with few_threads(rows, shape, weights):
            assert torch.get_num_threads() == (1 if alone else 2)
        with pytest.raises(KeyError), few_threads(rows, shape, weights):
            raise KeyError
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_a_part_of_a_module_lies_in_one_piece_of_the_vector_or_is_refused() -> None:
    module = torch.nn.ModuleDict(
        {name: torch.nn.Linear(2, 1) for name in ("body", "head")} | {"bare": torch.nn.ReLU()}
    )
    flat = flatten(module)
    assert (flat.positions("body"), flat.positions("head")) == (slice(0, 3), slice(3, 6))
    with pytest.raises(KeyError, match="No trainable parameter belongs to the submodule 'bare'"):
        flat.positions("bare")
    moved = replace(flat.layout[1], slice=slice(6, 7))
    apart = replace(flat, layout=(flat.layout[0], moved, *flat.layout[2:]))
    with pytest.raises(ValueError, match="not registered one after the other"):
        apart.positions("body")
