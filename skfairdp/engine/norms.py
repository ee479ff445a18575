"""Clip factors that hold in floating point.

A record's vector ``v`` enters a sum as ``c * v`` with ``c = min(1, C' / N)``, where
``N`` is the *computed* norm. The guarantee needs the *true* norm of what is summed
to be at most ``C``, so ``C'`` is ``C`` lowered by a margin that covers every rounding
between the two:

* A sum of ``n`` squares in floating point, added in any order, is within a factor
  ``1 ± n u / (1 - n u)`` of the true sum (``u`` is the unit roundoff: 2**-24 for
  float32, 2**-53 for float64); the norm is within half of that. The outer-product
  norm of a layer is a product of two such sums, ``n`` then counts the terms of both.
* Square root, cast of the factor to the module's dtype, product with the record's
  weight and product with the vector: at most 8 roundings more.
* Squares below the smallest normal number may be lost. This error is absolute, not
  relative, and :func:`clip_factors` gets an upper bound of the norm instead: each
  sum of squares is raised by ``n * tiny`` before use.
* Matrix products in reduced precision (TF32, bfloat16), if the user has switched
  them on, round both operands; :func:`matmul_rounding` is added then.

Not covered: the rounding of the sum over records itself, and noise that is a
floating-point number. Both belong to the stated assumption that the guarantee is
for real-valued arithmetic.
"""

from __future__ import annotations

import math

import torch

__all__ = ["clip_factors", "matmul_rounding", "rounding_margin"]

_EXTRA_ROUNDINGS = 8


def rounding_margin(dtype: torch.dtype, n_terms: int = 1024) -> float:
    """Return the fraction by which a clip norm is lowered.

    Parameters
    ----------
    dtype : torch.dtype
        Arithmetic of the module, ``torch.float32`` or ``torch.float64``.
    n_terms : int, default=1024
        Largest number of squares that are added in that arithmetic to get one
        record's norm.

    Returns
    -------
    float
        Relative margin ``m``: vectors are clipped to ``(1 - m) * max_norm``.

    Raises
    ------
    ValueError
        If so many terms are added that the norm has no guaranteed digit.

    Examples
    --------
    >>> import torch
    >>> from skfairdp.engine.clipping import rounding_margin
    >>> round(rounding_margin(torch.float32, n_terms=1024), 6)
    3.1e-05
    """
    unit_roundoff = torch.finfo(dtype).eps / 2
    relative = n_terms * unit_roundoff
    if relative > 0.5:
        raise ValueError(
            f"A layer adds {n_terms} squares in {dtype}; the norm of a gradient is not "
            "reliable there. Use a float64 module or smaller layers."
        )
    return relative / (2 * (1 - relative)) + _EXTRA_ROUNDINGS * unit_roundoff


def matmul_rounding(dtype: torch.dtype) -> float:
    """Return the relative rounding of a product's operands in the current torch mode.

    Parameters
    ----------
    dtype : torch.dtype

    Returns
    -------
    float
        0.0 unless ``torch.set_float32_matmul_precision`` allows reduced precision.
    """
    if dtype != torch.float32:
        return 0.0
    # Both operands of a product, each cut (not rounded) to 11 or 8 significant bits.
    try:
        precision = torch.get_float32_matmul_precision()
    except RuntimeError:  # set for single backends by torch's newer settings: assume the worst
        precision = "medium"
    return {"highest": 0.0, "high": 2.0**-9, "medium": 2.0**-6}[precision]


def clip_factors(
    squared_norms: torch.Tensor, max_norm: float | torch.Tensor, margin: float
) -> tuple[torch.Tensor, bool]:
    """Return the factor that brings each record's vector to at most `max_norm`.

    Parameters
    ----------
    squared_norms : torch.Tensor of shape (B,), float64
        Upper bounds of the squared L2 norms; overwritten.
    max_norm : float or torch.Tensor of shape (B,), float64
        L2 bound of one record's vector, > 0; one for all records or one for each.
    margin : float
        Relative rounding margin.

    Returns
    -------
    factors : torch.Tensor of shape (B,), float64
        In [0, 1]; 0 for a norm that is NaN or infinite.
    all_finite : bool
        False if some norm was NaN or infinite. The caller must then also blank the
        record's vectors, because 0 times NaN is NaN.
    """
    total = squared_norms.sum().item()
    factors = squared_norms.rsqrt_().mul_(max_norm * (1.0 - margin)).clamp_(max=1.0)
    if math.isfinite(total):
        return factors, True
    # 1/inf is 0 already; what is left is NaN (and inf * 0 when max_norm is infinite).
    finite = factors.isfinite() & (factors > 0)
    return torch.where(finite, factors, 0.0), bool(finite.all())
