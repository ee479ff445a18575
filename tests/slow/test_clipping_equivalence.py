"""Fused, functional and one-record-at-a-time sums agree over random modules and shapes."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from skfairdp.engine.clipping.clippers import make_clipper
from skfairdp.engine.clipping.functional import FunctionalClipper
from skfairdp.engine.objectives import objective_for
from skfairdp.engine.optimizers import flatten
from tests.engine.per_record import clipped_sum

pytestmark = pytest.mark.slow

TOLERANCE = {torch.float32: 1e-6, torch.float64: 1e-12}
ACTIVATIONS = [nn.ReLU, nn.Tanh, nn.Sigmoid, nn.GELU, nn.SiLU, nn.LeakyReLU, nn.ELU, nn.Softplus]


@st.composite
def problems(draw):
    """A stack of linear layers, rows, targets, weights and a clipping norm."""
    torch.manual_seed(draw(st.integers(0, 2**31)))
    dtype = draw(st.sampled_from([torch.float32, torch.float64]))
    widths = draw(st.lists(st.integers(1, 40), min_size=1, max_size=4))
    n_outputs = draw(st.sampled_from([1, 1, 2, 5]))
    layers: list[nn.Module] = []
    for before, after in pairwise(widths):
        layers.append(nn.Linear(before, after, bias=draw(st.booleans())))
        layers += [a() for a in draw(st.lists(st.sampled_from(ACTIVATIONS), max_size=2))]
    layers.append(nn.Linear(widths[-1], n_outputs, bias=draw(st.booleans())))
    module = nn.Sequential(*layers).to(dtype)
    for parameter in module.parameters():
        parameter.requires_grad_(draw(st.integers(0, 4)) > 0)
    module[-1].weight.requires_grad_(True)
    n_rows = draw(st.integers(0, 70))
    X = torch.randn(n_rows, widths[0]).to(dtype) * 10 ** draw(st.floats(-3, 3))
    criterion: nn.Module
    if n_outputs == 1:
        criterion, y = nn.BCEWithLogitsLoss(), torch.randint(0, 2, (n_rows,)).to(dtype)
        y = y.reshape(draw(st.sampled_from([(n_rows,), (n_rows, 1)])))
    else:
        criterion, y = nn.CrossEntropyLoss(), torch.randint(0, n_outputs, (n_rows,))
    shape = draw(st.sampled_from([(), (1,), (3,)]))
    weights = torch.rand(*shape, n_rows).to(dtype)
    return module, criterion, X, y, weights, 10 ** draw(st.floats(-3, 3))


def distance(got, want, weights, max_norm):
    """Largest distance of a sum, per unit of what it may hold at most."""
    scale = (weights.double().sum(-1) * max_norm).clamp_min(1e-30)
    return float(((got.double() - want).norm(dim=-1) / scale).max())


def reach(module, X):
    """Largest value that outputs are rounded against: a sum of terms may cancel.

    An output that is off by d changes a gradient of these losses by the fraction d at most.
    """
    largest = X.abs().max() if X.numel() else X.new_zeros(())
    for layer in module:
        if isinstance(layer, nn.Linear):
            largest = largest * layer.weight.detach().abs().sum(dim=1).max() + 1.0
    return float(largest)


@settings(max_examples=400, deadline=None, derandomize=True)
@given(problems())
def test_three_ways_agree(problem):
    module, criterion, X, y, weights, max_norm = problem
    objective = objective_for(criterion)
    flat = flatten(module)
    fused = make_clipper(module, flat, objective)
    assert fused.path == "fused"
    got = fused.clipped_sums(X, (y,), max_norm, weights).clone()
    functional = FunctionalClipper(module, flat, objective).clipped_sums(X, (y,), max_norm, weights)
    target = y.double() if y.is_floating_point() else y
    want = clipped_sum(module.double(), objective, X.double(), (target,), max_norm, weights)
    # Both lower the clipping norm by a margin of at most 48 * eps at these widths.
    assert got.dtype == functional.dtype == torch.float64
    eps = torch.finfo(X.dtype).eps
    allowed = TOLERANCE[X.dtype] + 48 * eps + eps * reach(module, X)
    assert distance(got, want, weights, max_norm) <= allowed
    assert distance(functional, want, weights, max_norm) <= allowed


@settings(max_examples=300, deadline=None, derandomize=True)
@given(problems())
def test_no_record_exceeds_the_clip_norm(problem):
    module, criterion, X, y, _, max_norm = problem
    objective = objective_for(criterion)
    flat = flatten(module)
    eye = torch.eye(len(X), dtype=X.dtype)
    for clipper in (
        make_clipper(module, flat, objective),
        FunctionalClipper(module, flat, objective),
    ):
        norms = clipper.clipped_sums(X, (y,), max_norm, eye).double().norm(dim=1)
        assert float(norms.max() if len(X) else 0.0) <= max_norm
