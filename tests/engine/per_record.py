"""The obvious way: one row, one backward pass, one clip. Slow and easy to believe."""

from __future__ import annotations

import torch
from torch import nn


def row_gradient(module: nn.Module, loss, row: torch.Tensor, targets) -> torch.Tensor:
    """Gradient of one record's loss over the trainable parameters, as one vector."""
    trained = [p for p in module.parameters() if p.requires_grad]
    value = loss(module(row.unsqueeze(0)), *(t.unsqueeze(0) for t in targets)).sum()
    pieces = torch.autograd.grad(value, trained, allow_unused=True, materialize_grads=True)
    return torch.cat([piece.reshape(-1) for piece in pieces])


def row_gradients(module: nn.Module, loss, X: torch.Tensor, targets) -> torch.Tensor:
    """One gradient a row, shape (B, p)."""
    size = sum(p.numel() for p in module.parameters() if p.requires_grad)
    rows = [row_gradient(module, loss, X[i], tuple(t[i] for t in targets)) for i in range(len(X))]
    return torch.stack(rows) if rows else torch.zeros(0, size, dtype=X.dtype)


def clipped_sum(module: nn.Module, loss, X, targets, max_norm, weights) -> torch.Tensor:
    """Weighted sums of clipped gradients, shape (p,) or (S, p), computed in float64.

    `max_norm` is one bound for all records or a tensor with a bound for each.
    """
    gradients = row_gradients(module, loss, X, targets).double()
    norms = gradients.norm(dim=1)
    factors = (max_norm / norms).clamp(max=1.0)
    usable = norms.isfinite()
    clipped = (
        torch.where(usable[:, None], gradients, 0.0) * torch.where(usable, factors, 0.0)[:, None]
    )
    return weights.double() @ clipped
