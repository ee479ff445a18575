"""Clipped sums for any module, through ``torch.func``.

Every record is differentiated by itself (``vmap`` over ``grad``), so nothing that a
module does can mix records: it only ever sees a batch of one. Nothing is hooked into
the module and nothing stays behind on it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.func import functional_call, grad, vmap

from skfairdp.engine.norms import clip_factors, matmul_rounding, rounding_margin
from skfairdp.engine.randomness import are_served

if TYPE_CHECKING:
    from collections.abc import Callable

    from skfairdp.engine.flat import FlatParameters

__all__ = ["FunctionalClipper"]

_CHUNK_ELEMENTS = 1 << 23
_DECIDES = (
    "decides by the values of its input (an `if` on a tensor, .item(), .tolist()), which cannot "
    "be differentiated record by record. Use torch.where or masks instead."
)
_WRITES = (
    "writes values of its rows into one of its tensors in place. State that is learned from "
    "private rows outside the noisy sum is not allowed; compute it without in-place writes or "
    "leave it out."
)
_DRAWS = (
    "draws random numbers in training, which it did not do on rows of zeros before. Draw at every "
    "forward pass, or never, so that the numbers come from a generator of the fit's own."
)
# What torch.func says when a module cannot be taken record by record, and what we say.
_REFUSALS = (
    ("data-dependent control flow", _DECIDES),
    (".item()", _DECIDES),
    ("vmap: inplace", _WRITES),
    ("doesn't match the broadcast shape", _WRITES),
    ("called random operation", _DRAWS),
)


class FunctionalClipper:
    """Sums of clipped gradients of any module.

    Parameters
    ----------
    module : torch.nn.Module
        Batch first. Buffers that its forward pass writes to are copies, so that no
        statistic of private rows stays on the module.
    flat : FlatParameters
        Of the same module; parameters that are absent count as frozen.
    objective : callable
        ``objective(output, *targets)`` returns the per-record losses, shape (B,).

    Attributes
    ----------
    path : str
        ``"functional"``.
    margin : float
        Relative rounding margin by which the clip norm is lowered.
    """

    path = "functional"

    def __init__(
        self, module: nn.Module, flat: FlatParameters, objective: Callable[..., torch.Tensor]
    ) -> None:
        self._module = module
        self._objective = objective
        self._layout = flat.layout
        self._places = _places(module, flat)
        self._size = flat.vector.numel()
        self._dtype = flat.vector.dtype
        self._device = flat.vector.device
        self._rows_per_chunk = max(1, _CHUNK_ELEMENTS // self._size)
        self.margin = rounding_margin(self._dtype, max(_terms(s.shape) for s in flat.layout))

    def clipped_sums(
        self,
        X: torch.Tensor,
        targets: tuple[torch.Tensor, ...],
        max_norm: float | torch.Tensor,
        weights: torch.Tensor,
        outputs: list[torch.Tensor] | None = None,
    ) -> torch.Tensor:
        """Return weighted sums of clipped per-record gradients.

        See :meth:`skfairdp.engine.clipping.Clipper.clipped_sums`.
        """
        single = weights.dim() == 1
        rows = weights.unsqueeze(0) if single else weights
        sums = torch.zeros(len(rows), self._size, dtype=self._dtype, device=self._device)
        for part in self._chunks(X):
            chunk_targets = tuple(target[part] for target in targets)
            limit = max_norm[part] if isinstance(max_norm, torch.Tensor) else max_norm
            self._add_chunk(sums, X[part], chunk_targets, limit, rows[:, part], outputs)
        return sums[0] if single else sums

    def draws_nothing(self, X: torch.Tensor) -> bool:
        """Tell whether it is certain that no layer draws random numbers: never."""
        return False

    def norms(self, X: torch.Tensor, targets: tuple[torch.Tensor, ...]) -> torch.Tensor:
        """Return the norms of the records' gradients.

        See :meth:`skfairdp.engine.clipping.Clipper.norms`.
        """
        pieces = [torch.zeros(0, dtype=torch.float64, device=self._device)]
        for part in self._chunks(X):
            gradients, _ = self._gradients(X[part], tuple(target[part] for target in targets))
            pieces.append(self._all_squares(gradients).sqrt_())
        return torch.cat(pieces)

    def _chunks(self, X: torch.Tensor) -> list[slice]:
        step = self._rows_per_chunk
        return [slice(start, start + step) for start in range(0, len(X), step)]

    def _add_chunk(
        self,
        sums: torch.Tensor,
        X: torch.Tensor,
        targets: tuple[torch.Tensor, ...],
        max_norm: float | torch.Tensor,
        weights: torch.Tensor,
        outputs: list[torch.Tensor] | None,
    ) -> None:
        gradients, output = self._gradients(X, targets)
        if outputs is not None:
            outputs.append(output)
        margin = self.margin + matmul_rounding(self._dtype)
        factors, all_finite = clip_factors(self._all_squares(gradients), max_norm, margin)
        if not all_finite:
            blank = (factors == 0).unsqueeze(1)
            gradients = [g.flatten(1).masked_fill(blank, 0.0) for g in gradients]
        coefficients = (weights * factors).to(self._dtype)
        for slot, gradient in zip(self._layout, gradients, strict=True):
            sums[:, slot.slice].addmm_(coefficients, gradient.flatten(1))

    def _all_squares(self, gradients: list[torch.Tensor]) -> torch.Tensor:
        """Return upper bounds of the records' squared norms over all parameters."""
        shape = (len(gradients), len(gradients[0]))
        norms = torch.empty(shape, dtype=torch.float64, device=self._device)
        for gradient, norm in zip(gradients, norms, strict=True):
            _squared_norms(gradient, out=norm)
        return norms.sum(0)

    def _gradients(
        self, X: torch.Tensor, targets: tuple[torch.Tensor, ...]
    ) -> tuple[list[torch.Tensor], torch.Tensor]:
        """Return each parameter's per-record gradients, (B, *shape), and the outputs."""
        module, objective = self._module, self._objective
        parameters = dict(module.named_parameters())
        trained = {slot.name: parameters[slot.name].detach() for slot in self._layout}
        buffers = dict(module.named_buffers())
        places = self._places

        def loss(
            values: dict[str, torch.Tensor], row: torch.Tensor, *target: torch.Tensor
        ) -> tuple[torch.Tensor, torch.Tensor]:
            state = {place: values[name] for place, name in places}
            # Copies: what forward writes into a buffer must not stay on the module.
            state.update((name, buffer.clone()) for name, buffer in buffers.items())
            output = functional_call(module, state, (row.unsqueeze(0),), tie_weights=False)
            if isinstance(output, torch.Tensor) and output.dim() == 0:
                # A module that squeezes its output drops the only record's axis.
                output = output.reshape(1)
            losses = objective(output, *(t.unsqueeze(0) for t in target))
            if losses.shape != (1,):
                raise ValueError(
                    f"The objective returned losses of shape {tuple(losses.shape)} for one "
                    "record; it must return one loss per record, shape (1,)."
                )
            return losses[0], output[0]

        in_dims = (None,) + (0,) * (1 + len(targets))
        randomness = "different" if are_served() else "error"
        per_record = vmap(grad(loss, has_aux=True), in_dims=in_dims, randomness=randomness)
        try:
            gradients, outputs = per_record(trained, X, *targets)
        except RuntimeError as error:
            reason = next((text for key, text in _REFUSALS if key in str(error)), None)
            if reason is None:
                raise
            raise ValueError(f"The module {type(module).__name__} {reason}") from error
        return [gradients[slot.name].detach() for slot in self._layout], outputs.detach()


def _places(module: nn.Module, flat: FlatParameters) -> list[tuple[str, str]]:
    """Return (place, name in the layout) for every place that uses a trained parameter.

    A parameter tied to several layers has one place in each. A layer that is used
    twice counts once: ``functional_call``'s own tying would swap its parameter twice
    and leave a differentiated tensor on the module.
    """
    parameters = dict(module.named_parameters())
    names = {id(parameters[slot.name]): slot.name for slot in flat.layout}
    return [
        (f"{prefix}.{key}" if prefix else key, names[id(parameter)])
        for prefix, layer in module.named_modules()
        for key, parameter in layer._parameters.items()
        if parameter is not None and id(parameter) in names
    ]


def _terms(shape: tuple[int, ...]) -> int:
    """Return how many squares of a parameter are added in the module's arithmetic."""
    return math.prod(shape[1:]) if len(shape) > 1 else math.prod(shape)


def _squared_norms(gradient: torch.Tensor, out: torch.Tensor) -> None:
    """Write upper bounds of the records' squared norms of one parameter's gradient.

    Only the trailing axes are added in the module's dtype, the rest in float64, which
    keeps the rounding margin small for layers of millions of weights.
    """
    dtype = gradient.dtype
    pieces = gradient.flatten(2) if gradient.dim() > 2 else gradient.reshape(len(gradient), 1, -1)
    norms = torch.linalg.vector_norm(pieces, dim=2).double()
    torch.sum(norms.square_(), dim=1, out=out)
    out.add_(gradient[0].numel() * torch.finfo(dtype).tiny)
