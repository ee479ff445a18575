"""Choice of the cheapest way to clip: only clippers turn private rows into a bounded sum."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

import torch
from torch import nn

from skfairdp.engine.clipping.base import Clipper
from skfairdp.engine.clipping.functional import FunctionalClipper
from skfairdp.engine.clipping.fused import FusedClipper
from skfairdp.engine.clipping.layered import LayeredClipper, record_layers
from skfairdp.engine.inspection import refuse_mixing_modules
from skfairdp.engine.modules import linear_stack
from skfairdp.engine.optimizers import FlatParameters


class _FastClipper(Clipper):
    """Clipper with a fast path, and the functional path for batches that the former refuses.

    A linear layer accepts more than two dimensions, and a dropout layer may be
    switched on after the clipper was made. Both show only when a batch is there.
    """

    def __init__(
        self, fast: FusedClipper | LayeredClipper, functional: Callable[[], FunctionalClipper]
    ) -> None:
        self._fast = fast
        self._make_functional = functional
        self.one_by_one = fast.one_by_one
        self.path = fast.path
        self.product_terms = fast.product_terms

    @cached_property
    def _functional(self) -> FunctionalClipper:
        return self._make_functional()

    def clipped_sums(self, X: torch.Tensor, *of_batch: Any, **options: Any) -> torch.Tensor:
        return self.serving(X).clipped_sums(X, *of_batch, **options)

    def norms(self, X: torch.Tensor, *of_batch: Any, **options: Any) -> torch.Tensor:
        return self.serving(X).norms(X, *of_batch, **options)

    def draws_nothing(self, X: torch.Tensor) -> bool:
        return self.path == "fused" and self.serving(X) is self._fast

    def serving(self, X: torch.Tensor) -> Clipper:
        fast = not self.one_by_one and self._fast.accepts(X)
        chosen = self._fast if fast else self._functional
        chosen.products = self.products
        chosen.one_by_one = chosen.one_by_one or self.one_by_one
        return chosen


def make_clipper(
    module: nn.Module, flat: FlatParameters, objective: Callable[..., torch.Tensor]
) -> Clipper:
    """Return the way to sum clipped per-record gradients of a module.

    `module`: batch first. Refused if it mixes records. `flat`: ``flatten(module)``; only its
    parameters are trained, clipped and summed. `objective`: ``objective(output, *targets)``
    returns the losses of the records, shape (B,), each depending on its own record only; see
    :func:`skfairdp.engine.objectives.objective_for`. Result: with ``path`` "fused" for stacks of
    linear layers and elementwise activations (``nn.Sequential`` and our ``MLP``), else
    "functional". Raises ValueError: if a layer mixes the records of a batch.
    """
    refuse_mixing_modules(module)
    stack = linear_stack(module)
    layers = None if stack is not None else record_layers(module)
    functional = partial(FunctionalClipper, module, flat, objective)
    if stack is not None:
        return _FastClipper(FusedClipper(stack, flat, objective), functional)
    if layers is not None:
        return _FastClipper(LayeredClipper(module, layers, flat, objective), functional)
    return functional()
