"""Products of matrices that do not depend on the processor, nor on where a row stands.

A processor adds the terms of a product in an order of its own choosing: by the place of a row
in its block, by the alignment of memory, by how many rows there are. Where it lets the place of a
row decide (:mod:`skfairdp.engine.row_blocks`), the last bits of a row's result depend on the other
rows, and at the kink of a ReLU a last bit switches a unit on. Here nothing is left to round:
each row of the left matrix and each column of the right one is first rounded to a grid so coarse
that all products and all their sums are float64 numbers. Whatever the order of the additions, the
result is the same.

The grid of a row has ``2**bits`` points up to the row's largest entry, with ``2 bits + log2(k)
<= 53`` for sums of k terms: 23 bits for k up to 128, 21 for k up to 2048, about as fine as
float32 itself. A float64 matrix is split into two such parts, and its products into four,
which are added in a fixed order: 46 bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack

from skfairdp.foundation.assumptions import AS_TORCH_MULTIPLIES, EXACTLY

# torch has no public name for what this module and `randomness` need: a mode that sees every
# function (`TorchDispatchMode`, which the manual's chapter on extending torch imports from here),
# the modes that are on, and the parts of composite functions. tests/attacks/test_rows_apart.py and
# test_generators.py fail if a version changes one; the CI runs them with the lowest and the
# newest version of torch.
multiply = torch.matmul
_COMPOSITE = torch._C.DispatchKey.CompositeImplicitAutograd
# The bits of a float64 number that hold its exponent.
_EXPONENT = 0x7FF0000000000000
# Steps of float64 matrices follow from entries in this range: products neither vanish nor overflow.
_SMALLEST, _LARGEST = 2.0**-400, 2.0**400
FEW_COLUMNS = 16
"""Columns that fill a vector of a processor: a table of fewer is faster transposed."""


def bits_for(terms: int) -> int:
    """Return the bits that entries may have so that a sum of `terms` products is exact."""
    return (53 - max(0, math.ceil(math.log2(max(terms, 1))))) // 2


def on_grid(values: Tensor, dim: int, bits: int) -> Tensor:
    """Round to multiples of a power of two that follows from the largest entry along `dim`.

    `dim`: what is added up later runs along this dimension. `bits`: entries become whole
    multiples, up to ``2**bits``, of one power of two. Result: a new tensor. NaN all along `dim`
    where one entry is not finite.
    """
    largest = values.abs().amax(dim, keepdim=True) if values.shape[dim] else values.sum(dim, True)
    wide = values.dtype == torch.float64
    power = largest.double()
    power.view(torch.int64).bitwise_and_(_EXPONENT)  # at most `largest`, more than half of it
    if wide:
        power.clamp_(min=_SMALLEST).masked_fill_(power > _LARGEST, math.inf)
    # Where 1.5 * 2**52 grid steps are added, no room is left for digits below one step.
    shift = power.mul_(1.5 * 2.0 ** (53 - bits))
    return (values.add(shift) if wide else values.double().add_(shift)).sub_(shift)


def parts_of(values: Tensor, dim: int, terms: int | None = None) -> list[Tensor]:
    """Split a matrix into parts on grids: one, or two for float64.

    `dim`: as in `on_grid`. `terms`: how many products are added; the length along `dim` by
    default. Result: they sum to the matrix, but for what is rounded off.
    """
    terms = values.shape[dim] if terms is None else terms
    if terms == 1 and values.dtype != torch.float64:
        return [values.double()]  # a float32 number has 24 bits, the grid 26
    bits = bits_for(terms)
    first = on_grid(values, dim, bits)
    if values.dtype != torch.float64:
        return [first]
    return [first, on_grid(values - first, dim, bits)]


def product(left: list[Tensor], right: list[Tensor]) -> Tensor:
    """Multiply two matrices given as parts (:func:`parts_of`), in float64.

    Every product of two parts is exact, so the sum of all of them, in this fixed order, is a
    function of the row and the column alone.
    """
    first, *others = (multiply(a, b) for a in left for b in right)
    for other in others:
        first += other
    return first


def exact_matmul(left: Any, right: Any) -> Any:
    """Multiply rows by columns, exactly: each entry depends on its row and column alone."""
    if isinstance(left, np.ndarray):
        return exact_matmul(torch.from_numpy(left.copy()), torch.from_numpy(right.copy())).numpy()
    if right.dim() == 1:
        return exact_matmul(left, right.unsqueeze(1)).squeeze(-1)
    found = product(parts_of(left, -1), parts_of(right, -2))
    return found.to(torch.promote_types(left.dtype, right.dtype))


def exact_linear(rows: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Apply a linear layer, exactly but for the last rounding."""
    found = product(parts_of(rows, -1), [part.t() for part in parts_of(weight, 1)])
    return (found if bias is None else found.add_(bias)).to(rows.dtype)


class DispatchMode(TorchDispatchMode):
    """A mode that does not import torch's compiler, which takes longer than most fits."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Answer a function of torch; one that is made of others by these."""
        if _is_composite(func):  # met in inference mode only
            with self:
                return func._op_dk(_COMPOSITE, *args, **(kwargs or {}))
        return self._answer(func, args, kwargs or {})

    def _answer(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        raise NotImplementedError


class _Replaced(DispatchMode):
    """Replaces products while it is on torch's stack of modes."""

    def _answer(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        exact = _PRODUCTS.get(func._schema.name.removeprefix("aten::"))
        if exact and func._overloadname == "default" and args[0].is_floating_point():
            # No mode around this one has to see the dozen functions that it is made of.
            with torch._C._DisableTorchDispatch():
                return exact(*args, **kwargs)
        return func(*args, **kwargs)


@contextmanager
def exactly() -> Iterator[None]:
    """Compute all products of matrices inside the block exactly, in any module.

    Linear and convolutional layers, ``@`` and ``einsum`` of any module, and of its derivatives,
    end in the few functions that are replaced here. A block inside a block does nothing.
    """
    with nullcontext() if is_on(_Replaced) else _Replaced():
        yield


def elementwise() -> AbstractContextManager[None]:
    """Make a block of code, without products of matrices and draws, in which our modes look away.

    Modes of others, such as those that record a module for an ONNX file, still see all of it.
    """
    modes = _get_current_dispatch_mode_stack()
    if modes and all(isinstance(mode, DispatchMode) for mode in modes):
        only_ours: AbstractContextManager[None] = torch._C._DisableTorchDispatch()
        return only_ours
    return nullcontext()


def is_on(kind: type[DispatchMode]) -> bool:
    """Return whether a mode of some kind is on this thread's stack."""
    return any(isinstance(mode, kind) for mode in _get_current_dispatch_mode_stack())


@cache
def _is_composite(func: Any) -> bool:
    return torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd")


def _added(bias: Tensor, left: Tensor, right: Tensor, *, beta: float = 1, alpha: float = 1) -> Any:
    found = product(parts_of(left, -1), parts_of(right, -2 if right.dim() > 1 else -1))
    found = found if alpha == 1 else found.mul_(alpha)
    found = found if beta == 0 else found + (bias if beta == 1 else bias * beta)
    return found.to(left.dtype)


def _vector(left: Tensor, right: Tensor) -> Tensor:
    return product(parts_of(left, -1), parts_of(right, -1)).to(left.dtype)


def _convolution(rows: Tensor, weight: Tensor, bias: Tensor | None, *how: Any) -> Tensor:
    """A convolution: each output sums products of entries of one row and one kernel."""
    transposed, groups = how[3], how[5]
    if transposed:  # as torch computes it: a rehearsal finds where places matter
        as_torch: Tensor = torch.ops.aten.convolution(rows, weight, bias, *how)
        return as_torch
    terms = weight[0].numel()
    apart = rows.reshape(len(rows), groups, -1)
    rows_apart = [part.view(rows.shape) for part in parts_of(apart, 2, terms)]
    kernels = [p.view(weight.shape) for p in parts_of(weight.flatten(1), 1)]
    first, *others = (
        torch.ops.aten.convolution(a, b, None, *how) for a in rows_apart for b in kernels
    )
    for other in others:
        first += other
    if bias is not None:
        first += bias.view(-1, *(1,) * (rows.dim() - 2))
    found: Tensor = first.to(rows.dtype)
    return found


_PRODUCTS: dict[str, Callable[..., Tensor]] = {
    "mm": exact_matmul,
    "bmm": exact_matmul,
    "addmm": _added,
    "baddbmm": _added,
    "mv": _vector,
    "addmv": _added,
    "dot": _vector,
    "convolution": _convolution,
}


def linear_by_outputs(rows: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Apply a linear layer as torch does; of few outputs, multiply weights by transposed rows.

    Kernels of products hold many columns at once. With a column for each of few outputs they take
    one row at a time, and add up its terms in an order that follows from its address. With a column
    for each row they are full, and faster.
    """
    if rows.dim() != 2 or not 1 < len(weight) < FEW_COLUMNS or rows.device.type != "cpu":
        return functional.linear(rows, weight, bias)
    if bias is None:
        return torch.mm(weight, rows.t()).t().contiguous()
    return torch.addmm(bias.unsqueeze(1), weight, rows.t()).t().contiguous()


class _ByOutputs(TorchFunctionMode):
    """Replaces linear layers by `linear_by_outputs` while it is on."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        func = linear_by_outputs if func is functional.linear else func
        return func(*args, **(kwargs or {}))


def by_outputs() -> AbstractContextManager[Any]:
    """Make a block of code in which linear layers of any module are `linear_by_outputs`."""
    mode: AbstractContextManager[Any] = _ByOutputs()
    return mode


class Products(NamedTuple):
    """Way to multiply rows by weights."""

    matmul: Callable[[Tensor, Tensor], Tensor]
    linear: Callable[[Tensor, Tensor, Tensor | None], Tensor]
    # Makes a block of code in which any module multiplies in this way
    everywhere: Callable[[], AbstractContextManager[None]]
    assumed: str  # What a certificate says of it


AS_TORCH = Products(torch.matmul, linear_by_outputs, nullcontext, AS_TORCH_MULTIPLIES)
EXACT = Products(exact_matmul, exact_linear, exactly, EXACTLY)
