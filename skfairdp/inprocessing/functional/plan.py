"""What the functional mechanism releases, and how released moments become weights."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from skfairdp.engine.moment_sums import l1_bounds, l2_bounds
from skfairdp.privacy.plan import LaplaceSum, Plan
from skfairdp.privacy.sizes import Sizes


def cell_weights(sizes: Sizes) -> tuple[float, ...]:
    """Weights ``min(n) / n_k`` that let every cell count alike.

    Up to a factor their sum is the average over groups of each group's mean objective, and
    a plain sum for one cell.
    """
    smallest = min(sizes.counts)
    return tuple(smallest / count for count in sizes.counts)


def functional_plan(model: Any, sizes: Sizes, noise_multiplier: float) -> Plan:
    """Lay out the release of the linear and of the quadratic coefficients.

    Their shares are of epsilon for "laplace", of the squared inverse multiplier for "gaussian".
    The published bound has one scale for both. `model`: a `FunctionalMechanismClassifier`, whose
    settings say the rest.
    """
    n_cells, names = len(sizes.counts), ("linear", "quadratic")
    weights = (1.0,) * n_cells if model._each_cell else cell_weights(sizes)
    shares = 1.0 - float(model.quadratic_share), float(model.quadratic_share)
    if model.noise == "gaussian":
        parts = zip(names, l2_bounds(), shares, strict=True)
        segment = sizes.whole(
            *((name, x, noise_multiplier * x / math.sqrt(share)) for name, x, share in parts),
            weights=weights,
        )
        return sizes.plan(segment, delta=model.delta)
    d = model.n_features_in_ + int(model.intercept_scale > 0.0)  # coordinates of a row
    norms = l1_bounds(d)
    scales = [norm / share for norm, share in zip(norms, shares, strict=True)]
    if model.sensitivity == "published":
        norms = 3.0 * d, d * d / 4.0
        scales = [sum(norms)] * 2
    sums = tuple(
        LaplaceSum(name=name, max_norm=norm, weights=weights, scale=noise_multiplier * scale)
        for name, norm, scale in zip(names, norms, scales, strict=True)
    )
    return sizes.plan(sums=sums, delta=model.delta)


def noise_norm(plan: Plan, d: int) -> float:
    """Spectral norm expected of the noise of one released quadratic sum.

    It is ``2 s sqrt(d)`` for entries of standard deviation s off the diagonal (Wigner).
    """
    if plan.segments:
        deviation = plan.segments[0].blocks[1].noise_std / math.sqrt(2.0)
    else:
        deviation = math.sqrt(2.0) * plan.sums[1].scale
    return 2.0 * deviation * math.sqrt(d)


def solve(linear: np.ndarray, quadratic: np.ndarray, *, repair: str, smallest: float) -> np.ndarray:
    """Minimise ``theta^T M theta + a^T theta`` after making M positive.

    `repair`: raise eigenvalues below `smallest` to it; leave out their directions; or set negative
    ones to 0 and add `smallest` to all. The result is zero where no direction is left.
    """
    values, vectors = np.linalg.eigh(quadratic)
    # Without noise directions that no row has must not be divided by rounding errors.
    smallest = max(smallest, 1e-9 * float(np.abs(values).max(initial=0.0)))
    if smallest == 0.0:
        return np.zeros_like(linear)
    if repair == "trim":
        inverse = np.where(values > smallest, 1.0 / np.maximum(values, smallest), 0.0)
    elif repair == "ridge":
        inverse = 1.0 / (np.maximum(values, 0.0) + smallest)
    else:
        inverse = 1.0 / np.maximum(values, smallest)
    return np.asarray(-0.5 * vectors @ (inverse * (vectors.T @ linear)))
