"""Small plans that the tests of privacy share."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from skfairdp.privacy import Block, CountRelease, Plan, Segment

DELTA = 1e-5


def empty_plan(n_cells: int = 1, *, adjacency: str = "zero-out", exact_noise: bool = False) -> Plan:
    """A plan that holds nothing."""
    cells = tuple(range(n_cells))
    return Plan(cells=cells, segments=(), adjacency=adjacency, delta=DELTA, exact_noise=exact_noise)


def unlimited(release: Any) -> Any:
    """Let a release give whatever it is asked for: for tests of sums, where nothing is charged."""
    release.meter.draw = lambda _: None
    release.meter.stop()
    return release


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
    block = Block(name="gradient", max_norm=2.0, weights=(0.01,), noise_std=0.02 * multiplier)
    segments = (
        (Segment(steps=steps, rates=(rate,), expected_sizes=(100.0,), blocks=(block,)),)
        if steps
        else ()
    )
    return Plan(cells=("all",), segments=segments, counts=counts, adjacency=adjacency, delta=delta)


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
    block = Block(
        name="gradient", max_norm=1.0, weights=weights, noise_std=std, charged_multipliers=charged
    )
    cells = tuple(f"g{k}" for k in range(len(sizes)))
    return Plan(
        cells=cells,
        segments=(Segment(steps=steps, rates=rates, expected_sizes=expected, blocks=(block,)),),
        delta=DELTA,
        adjacency="zero-out",
    )
