"""Per-record gradients of convolutional stacks, layer by layer.

In a sequence of layers none of which mixes records, one backward pass through the
outputs of the layers gives every record's upstream gradient ``d``. The gradient of a
layer's weights then follows from ``d`` and the layer's input alone: for a convolution
it is ``d`` times the input's patches. This saves most of what ``torch.func`` spends on
one convolution per record; the results are the same.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.nn.grad import conv2d_input

from skfairdp.engine.clipping.functional import FunctionalClipper
from skfairdp.engine.exact_products import Products
from skfairdp.engine.modules import SmallCNN, activation_for, leaves_of
from skfairdp.engine.objectives import check_losses
from skfairdp.engine.optimizers import FlatParameters

_POOLS = (nn.AvgPool2d, nn.MaxPool2d, nn.AdaptiveAvgPool2d, nn.AdaptiveMaxPool2d)
# Patches of a few records at a time stay in the cache between copy and product.
_PATCH_ELEMENTS = 1 << 18
# Images of a block: few, as what layers keep of an image is large.
_MOST_ROWS = 96


def record_layers(module: nn.Module) -> list[tuple[str, nn.Module]] | None:
    """Return the layers of a convolutional stack by name, None for any other module.

    `module`: exactly our ``SmallCNN`` or nested ``nn.Sequential``, of ``Conv2d``, ``GroupNorm``,
    pooling, ``Flatten``, elementwise activations and ``Linear``.
    """
    leaves = leaves_of(module)
    if leaves is None or not all(_keeps_records_apart(leaf) for _, leaf in leaves):
        return None
    if len({id(leaf) for _, leaf in leaves}) != len(leaves):
        return None
    owners = [id(p) for _, leaf in leaves for p in leaf.parameters(recurse=False)]
    return leaves if len(set(owners)) == len(owners) else None


def _keeps_records_apart(layer: nn.Module) -> bool:
    if type(layer) is nn.Conv2d:
        return (
            layer.groups == 1
            and layer.padding_mode == "zeros"
            and not isinstance(layer.padding, str)
        )
    if type(layer) is nn.Flatten:
        return (layer.start_dim, layer.end_dim) == (1, -1)
    if type(layer) in (*_POOLS, nn.GroupNorm, nn.Linear, nn.Identity, nn.Dropout):
        return not getattr(layer, "return_indices", False)
    return activation_for(layer) is not None and not getattr(layer, "inplace", False)


class LayeredClipper(FunctionalClipper):
    """Sums of clipped gradients of a convolutional stack.

    `layers`: ``record_layers(module)``.
    """

    def __init__(
        self,
        module: nn.Module,
        layers: list[tuple[str, nn.Module]],
        flat: FlatParameters,
        objective: Callable[..., torch.Tensor],
    ) -> None:
        super().__init__(module, flat, objective)
        self._layers = layers
        self._trained = {slot.name for slot in flat.layout}
        self._image_shape = module.image_shape if type(module) is SmallCNN else None

    def accepts(self, X: torch.Tensor) -> bool:
        """Return whether no layer draws."""
        drawing = (type(x) is nn.Dropout and x.training and x.p > 0 for _, x in self._layers)
        return not any(drawing)

    def _rows_of_block(self, rows: int) -> int:
        return min(super()._rows_of_block(rows), _MOST_ROWS)

    def _gradients(
        self, X: torch.Tensor, targets: tuple[torch.Tensor, ...], n: int
    ) -> tuple[list[torch.Tensor], torch.Tensor]:
        if self._image_shape is not None:
            X = X.reshape(-1, *self._image_shape)
        with torch.enable_grad():
            value, trained = X, []
            for name, layer in self._layers:
                if type(layer) is nn.Linear and value.dim() != 2:
                    return super()._gradients(X, targets, n)
                if not any(True for _ in layer.parameters(recurse=False)):
                    value = layer(value)
                    continue
                before, value = value.detach(), _frozen(layer, value, self.products)
                if self._trained & {f"{name}.weight", f"{name}.bias"}:
                    if not value.requires_grad:
                        value.requires_grad_()
                    trained.append((name, layer, before, value))
            losses = self._objective(value, *targets)
            check_losses(losses, X.shape[:1])
            deltas = torch.autograd.grad(losses.sum(), [out for *_, out in trained])
        gradients = {}
        with torch.no_grad():
            for (name, layer, before, _), delta in zip(trained, deltas, strict=True):
                weight, bias = _layer_gradients(layer, before, delta, n)
                gradients[f"{name}.weight"], gradients[f"{name}.bias"] = weight, bias
        return [gradients[slot.name] for slot in self._layout], value.detach()


def _frozen(layer: nn.Module, value: torch.Tensor, products: Products) -> torch.Tensor:
    """Apply a layer; gradients flow to its input only."""
    weight = layer.weight.detach() if isinstance(layer.weight, torch.Tensor) else None
    bias = layer.bias.detach() if isinstance(layer.bias, torch.Tensor) else None
    if isinstance(layer, nn.GroupNorm):
        return functional.group_norm(value, layer.num_groups, weight, bias, layer.eps)
    kind: Any = _Convolution if isinstance(layer, nn.Conv2d) else _Linear
    how = layer if isinstance(layer, nn.Conv2d) else products
    applied: torch.Tensor = kind.apply(value, weight, bias, how)
    return applied


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        value: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
        products: Products,
    ) -> torch.Tensor:
        ctx.save_for_backward(weight)
        ctx.products = products
        return products.linear(value, weight, bias)

    @staticmethod
    def backward(ctx: Any, *deltas: torch.Tensor) -> Any:
        return ctx.products.matmul(deltas[0], ctx.saved_tensors[0]), None, None, None


class _Convolution(torch.autograd.Function):
    """Convolution whose backward pass is fast on a CPU, and repeatable on a GPU."""

    @staticmethod
    def forward(
        ctx: Any,
        value: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
        layer: nn.Conv2d,
    ) -> torch.Tensor:
        ctx.save_for_backward(weight)
        ctx.layer, ctx.shape = layer, value.shape
        assert not isinstance(layer.padding, str)
        return functional.conv2d(value, weight, bias, layer.stride, layer.padding, layer.dilation)

    @staticmethod
    def backward(ctx: Any, *deltas: torch.Tensor) -> Any:
        back = _by_channels_last if deltas[0].device.type == "cpu" else _by_patches
        return back(ctx.layer, ctx.shape, *ctx.saved_tensors, *deltas), None, None, None


def _by_channels_last(
    layer: nn.Conv2d, shape: torch.Size, weight: torch.Tensor, delta: torch.Tensor
) -> torch.Tensor:
    """Return the gradient of a convolution's input, in half the time of the usual layout."""
    weight, delta = (t.contiguous(memory_format=torch.channels_last) for t in (weight, delta))
    how: Any = layer.stride, layer.padding, layer.dilation
    back: torch.Tensor = conv2d_input(shape, weight, delta, *how)
    return back.contiguous()


def _by_patches(
    layer: nn.Conv2d, shape: torch.Size, weight: torch.Tensor, delta: torch.Tensor
) -> torch.Tensor:
    """Return the gradient of a convolution's input by a product, and sums over patches.

    cuDNN may add the terms of this gradient in another order at every call, in float32 without
    TF32 for example. Then each record would have to go through the network by itself.
    """
    kernels = weight.flatten(1).t().expand(len(delta), -1, -1)
    patches = torch.bmm(kernels, delta.flatten(2))
    how: Any = layer.kernel_size, layer.dilation, layer.padding, layer.stride
    back: torch.Tensor = functional.fold(patches, shape[2:], *how)
    return back


def _layer_gradients(
    layer: nn.Module, before: torch.Tensor, delta: torch.Tensor, n: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return per-record gradients of weight and bias from a layer's input and output side."""
    if isinstance(layer, nn.Conv2d):
        return _patch_products(layer, before, delta, n), delta.flatten(2).sum(2)
    if isinstance(layer, nn.GroupNorm):
        scaled = functional.group_norm(before, layer.num_groups, eps=layer.eps).mul_(delta)
        return scaled.flatten(2).sum(2), delta.flatten(2).sum(2)
    return delta.unsqueeze(2) * before.unsqueeze(1), delta


def _patch_products(
    layer: nn.Conv2d, before: torch.Tensor, delta: torch.Tensor, n: int
) -> torch.Tensor:
    """Return each record's weight gradient, computed in equal parts of the block.

    Parts without any of the first `n` records are left out: zeros.
    """
    upstream = delta.flatten(2)
    out = delta.new_zeros(len(delta), layer.out_channels, layer.weight[0].numel())
    rows = len(delta)
    if delta.device.type == "cpu":  # a GPU has no such cache, and is fastest with all rows at once
        rows = _rows_of_part(rows, _PATCH_ELEMENTS // (out.shape[2] * upstream.shape[2]))
    for start in range(0, n, rows):
        part = slice(start, start + rows)
        patches = _patches(layer, before[part], delta.shape[2:])
        torch.bmm(upstream[part], patches.transpose(1, 2), out=out[part])
    return out


@cache
def _rows_of_part(rows: int, cached: int) -> int:
    """Return the largest divisor of a number of rows that is at most `cached`, or 1.

    Kernels of products are chosen by shape: a shorter last part could be rounded otherwise than the
    parts before it, so that the place of a record in its block would matter.
    """
    return max(part for part in range(1, max(1, min(rows, cached)) + 1) if rows % part == 0)


def _patches(layer: nn.Conv2d, images: torch.Tensor, outputs: torch.Size) -> torch.Tensor:
    """Return what the kernel sees at each output, (B, weights of a channel, outputs).

    The same as ``torch.nn.functional.unfold`` in half the time: one strided copy.
    """
    padding = layer.padding
    assert not isinstance(padding, str)
    images = functional.pad(images, (padding[1], padding[1], padding[0], padding[0]))
    for axis in (2, 3):
        size, step = layer.kernel_size[axis - 2], layer.dilation[axis - 2]
        # Each call moves the window to a new last axis.
        images = images.unfold(axis, step * (size - 1) + 1, layer.stride[axis - 2])
        images = images[..., ::step]
    columns = images.permute(0, 1, 4, 5, 2, 3)
    return columns.reshape(len(images), -1, outputs.numel())
