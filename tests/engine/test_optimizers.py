"""Optimizers on one vector move it as torch's own do."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from skfairdp.engine.modules import MLP
from skfairdp.engine.optimizers import flat_optimizer, flatten
from skfairdp.engine.row_blocks import few_threads

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
