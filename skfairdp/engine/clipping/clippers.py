"""The only place where private rows turn into a bounded sum, in the cheapest way for a module."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, cast

import torch
from torch import nn

from skfairdp.engine.clipping.functional import FunctionalClipper
from skfairdp.engine.clipping.fused import FusedClipper
from skfairdp.engine.clipping.layered import LayeredClipper, record_layers
from skfairdp.engine.clipping.linear_stacks import linear_stack
from skfairdp.engine.clipping.norms import rounding_margin
from skfairdp.engine.inspection import refuse_mixing_modules
from skfairdp.engine.parameter_vector import FlatParameters
from skfairdp.engine.person_rows import PersonRows
from skfairdp.engine.row_blocks import DEFAULT_ROWS

__all__ = ["Clipper", "make_clipper", "rounding_margin"]


class Clipper(Protocol):
    """Weighted sums of clipped per-record gradients.

    `one_by_one`: whether records go through the module in batches of one.
    """

    path: str  # ``"fused"`` or ``"functional"``; both give the same sums
    # The clip norm is lowered by this fraction, so that no rounding lifts a record's vector above
    # `max_norm` (:func:`rounding_margin`)
    margin: float
    # Products that are added to an inner product of gradients, where norms of means come from these
    product_terms: int

    @property
    def one_by_one(self) -> bool: ...

    def clipped_sums(
        self,
        X: torch.Tensor,
        targets: tuple[torch.Tensor, ...],
        max_norm: float | torch.Tensor,
        weights: torch.Tensor,
        outputs: list[torch.Tensor] | None = None,
        rows: int = DEFAULT_ROWS,
        persons: PersonRows | None = None,
    ) -> torch.Tensor:
        """Return ``sum_i weights[s, i] * clip(gradient of record i)``.

        `X` (B, ...): rows, in the dtype and on the device of the parameters. `targets`: each of
        shape (B, ...); passed to the objective. `max_norm` (B,): l2 bound of one record's
        gradient over all trainable parameters, > 0; one for all records or one for each.
        `weights` (B,): weight of each record in each of S sums. `outputs`: gets the module's
        outputs appended, in the order of the rows (in several pieces for a large batch). They
        cost nothing: the same forward pass. `rows`: rows of the blocks that go through the module
        (fewer where a row is large): a public number, see :mod:`skfairdp.engine.row_blocks`.
        `persons`: whose rows they are: a record is then a person, whose gradient is the mean of its
        rows'; `max_norm` and `weights` are of persons, `outputs` still of rows.
        Result (p,): in the order of the flat parameter vector. The next call may overwrite it. A
        record whose gradient is not finite contributes exactly 0; an empty batch gives zeros.
        """
        ...

    def norms(
        self,
        X: torch.Tensor,
        targets: tuple[torch.Tensor, ...],
        rows: int = DEFAULT_ROWS,
        persons: PersonRows | None = None,
        watch: Callable[[list[torch.Tensor], torch.Tensor], None] | None = None,
    ) -> torch.Tensor:
        """Return the norms of the records' gradients, which must not leave the engine.

        `X` (B, ...): rows. `rows`, `persons`: as in `clipped_sums`. `watch`: is shown the gradients
        of each block, or the vectors that they are products of, and its outputs. Result: (B,):
        upper bounds, tight up to rounding; NaN or infinite for a gradient that is not finite.
        """
        ...

    def draws_nothing(self, X: torch.Tensor) -> bool:
        """Tell whether it is certain that no layer draws random numbers for such rows."""
        ...

    def take_one_by_one(self) -> None:
        """Send records through the module one by one from now on, each in a batch of one."""
        ...

    def serving(self, X: torch.Tensor) -> Clipper:
        """Return the clipper that would sum gradients of such rows now, whatever comes later."""
        ...


class _StackClipper:
    """The fused path where it holds, the functional path for any other batch.

    A linear layer accepts more than two dimensions, and a dropout layer may be
    switched on after the clipper was made. Both show only when a batch is there.
    """

    path = "fused"
    _one_by_one = False

    def __init__(self, fused: FusedClipper, functional: FunctionalClipper) -> None:
        self._fused = fused
        self._functional = functional
        self.margin = max(fused.margin, functional.margin)
        self.product_terms = fused.product_terms

    def clipped_sums(self, X: torch.Tensor, *of_batch: Any, **options: Any) -> torch.Tensor:
        return self.serving(X).clipped_sums(X, *of_batch, **options)

    def norms(self, X: torch.Tensor, *of_batch: Any, **options: Any) -> torch.Tensor:
        return self.serving(X).norms(X, *of_batch, **options)

    @property
    def one_by_one(self) -> bool:
        return self._one_by_one

    def draws_nothing(self, X: torch.Tensor) -> bool:
        return not self._one_by_one and self._fused.accepts(X)

    def take_one_by_one(self) -> None:
        self._one_by_one = True
        self._functional.take_one_by_one()

    def serving(self, X: torch.Tensor) -> Clipper:
        return cast(Clipper, self._fused) if self.draws_nothing(X) else self._functional


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
    if layers is not None:
        return LayeredClipper(module, layers, flat, objective)
    functional = FunctionalClipper(module, flat, objective)
    if stack is None:
        return functional
    return _StackClipper(FusedClipper(stack, flat, objective), functional)
