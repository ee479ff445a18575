"""Small plans that the tests of privacy share."""

from __future__ import annotations

import math
from collections.abc import Callable

from skfairdp.privacy import Block, CountRelease, Plan, Segment

DELTA = 1e-5


def sgd_plan(
    rate: float,
    multiplier: float,
    steps: int,
    *,
    delta: float = DELTA,
    counts: tuple[CountRelease, ...] = (),
    adjacency: str = "zero-out",
) -> Plan:
    """One cell, one block: what DP-SGD runs."""
    block = Block("gradient", max_norm=2.0, weights=(0.01,), noise_std=0.02 * multiplier)
    segments = (Segment(steps, (rate,), (100.0,), (block,)),) if steps else ()
    return Plan(("all",), segments, counts, adjacency, delta)


def maker(rate: float, steps: int, **options) -> Callable[[float], Plan]:
    return lambda multiplier: sgd_plan(rate, multiplier, steps, **options)


def fairdp_plan(
    sizes: tuple[int, ...],
    rates: tuple[float, ...],
    multiplier: float,
    steps: int,
    *,
    published: bool = False,
) -> Plan:
    """Theory: average of K group means, noise of std s = (sigma C / K) sqrt(sum 1/b_k^2)."""
    expected = tuple(rate * size for rate, size in zip(rates, sizes, strict=True))
    weights = tuple(1 / (len(sizes) * b) for b in expected)
    std = multiplier / len(sizes) * math.sqrt(sum(b**-2 for b in expected))
    charged = (multiplier,) * len(sizes) if published else None
    block = Block("gradient", 1.0, weights, std, charged)
    cells = tuple(f"g{k}" for k in range(len(sizes)))
    return Plan(cells, (Segment(steps, rates, expected, (block,)),), delta=DELTA)
