"""The plan of FairDP: phases, per-group weights and noise."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from skfairdp.parameters import NOISE_MULTIPLIER, Number
from skfairdp.privacy.plan import Block, CountRelease, Plan, Segment
from skfairdp.privacy.sizes import Sizes, expected_batch_size, steps_for

_RATE = Number(0.0, 1.0, low_open=True)


def group_multipliers(given: Any, sizes: Sizes, noise_multiplier: float) -> tuple[float, ...]:
    """Noise multiplier on each group's sum: as `given` in a mapping, or the same for all."""
    if not isinstance(given, Mapping):
        return (float(noise_multiplier),) * len(sizes.cells)
    values = [given.get(cell) for cell in sizes.cells]
    if not all(NOISE_MULTIPLIER.accepts(value) for value in values):
        raise ValueError(
            f"'noise_multiplier' must map every group to {NOISE_MULTIPLIER.describe()}; got "
            f"{dict(given)!r} for {len(values)} groups."
        )
    return tuple(float(value) for value in values if value is not None)


def group_rates(sampling: Any, sizes: Sizes, batch_size: int) -> tuple[float, ...]:
    """Sampling rate of each group: alike, for equal numbers of records, or as a mapping says."""
    if isinstance(sampling, Mapping):
        rates = tuple(sampling.get(cell) for cell in sizes.cells)
        if not all(_RATE.accepts(rate) for rate in rates):
            raise ValueError(
                "'sampling' must map every group to a rate in (0, 1]; got "
                f"{dict(sampling)!r} for {len(rates)} groups."
            )
        return tuple(float(rate) for rate in rates if rate is not None)
    if sampling == "balanced":
        share = batch_size / len(sizes.cells)
        return tuple(min(1.0, share / count) for count in sizes.counts)
    return (batch_size / sizes.total,) * len(sizes.cells)


def fairdp_plan(
    sizes: Sizes,
    noise_multipliers: tuple[float, ...],
    *,
    max_grad_norm: float,
    batch_size: Any,
    final_batch_size: Any,
    max_epochs: int,
    sampling: Any,
    group_update: str,
    releases: str,
    sgd_fraction: float,
    n_heads: int,
    counts: tuple[CountRelease, ...],
    delta: float,
    exact_noise: bool = False,
) -> Plan:
    """Lay out FairDP's steps.

    The first phase uses the net's optimizer, the second plain gradient descent, and
    the last step, alone, trains the heads. A group's sum enters with the weight
    ``1 / (K b_k)`` ("mean") or ``1 / K`` ("sum"), b_k its expected batch size. When only the total
    leaves a step its noise is ``s = C sqrt(sum_k (w_k sigma_k)^2)``, and its multiplier for a
    record of group k is ``s / (w_k C)``, at least sigma_k: see ``docs/theory/fairdp.md``.

    Settings are those of `FairDPClassifier`.
    """
    size = expected_batch_size(batch_size, sizes.total)
    last_size = (
        size if final_batch_size is None else expected_batch_size(final_batch_size, sizes.total)
    )
    steps = steps_for(max_epochs, sizes.total, size)
    plain = min(steps, max(1, round(sgd_fraction * steps)))

    def segment(n_steps: int, expected: int, heads: int = 1) -> Segment:
        rates = group_rates(sampling, sizes, expected)
        per_group = tuple(rate * count for rate, count in zip(rates, sizes.counts, strict=True))
        n_groups = len(per_group)
        divisors = per_group if group_update == "mean" else (1.0,) * n_groups
        weights = tuple(1.0 / (n_groups * divisor) for divisor in divisors)
        std = max_grad_norm * math.sqrt(
            sum((w * s) ** 2 for w, s in zip(weights, noise_multipliers, strict=True))
        )
        charged = noise_multipliers if releases == "group_models" else None
        block = Block(
            name="gradient",
            max_norm=max_grad_norm,
            weights=weights,
            noise_std=std,
            charged_multipliers=charged,
        )
        return Segment(
            steps=n_steps, rates=rates, expected_sizes=per_group, blocks=(block,), n_heads=heads
        )

    segments = (
        segment(steps - plain, size),
        segment(plain - 1, last_size),
        segment(1, last_size, n_heads),
    )
    return sizes.plan(*segments, counts=counts, delta=delta, exact_noise=exact_noise)
