"""The plan of FairDP: phases, per-group weights and noise."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from skfairdp.foundation.parameters import NOISE_MULTIPLIER, Number
from skfairdp.privacy.plan import Block, CountRelease, Plan, Segment
from skfairdp.privacy.sizes import Sizes, expected_batch_size, steps_for

_RATE = Number(0.0, 1.0, low_open=True)


def _of_groups(
    name: str, given: Mapping[Any, float], sizes: Sizes, allowed: Number, words: str
) -> tuple[float, ...]:
    """Read the number of each group off a mapping."""
    values = [given.get(cell) for cell in sizes.cells]
    if not all(map(allowed.accepts, values)):
        raise ValueError(
            f"{name!r} must map every group to {words}; got {dict(given)!r} for {len(values)} "
            "groups."
        )
    return tuple(float(value) for value in values if value is not None)


def fairdp_plan(
    model: Any, sizes: Sizes, noise_multiplier: float, counts: tuple[CountRelease, ...]
) -> Plan:
    """Lay out FairDP's steps, by the settings of a `FairDPClassifier`.

    The first phase uses the net's optimizer, the second plain gradient descent, and
    the last step, alone, trains the heads. A group's sum enters with the weight
    ``1 / (K b_k)`` ("mean") or ``1 / K`` ("sum"), b_k its expected batch size. When only the total
    leaves a step its noise is ``s = C sqrt(sum_k (w_k sigma_k)^2)``, and its multiplier for a
    record of group k is ``s / (w_k C)``, at least sigma_k: see ``docs/theory/fairdp.md``.
    """
    n_groups, clip = len(sizes.cells), float(model.max_grad_norm)
    multipliers = (float(noise_multiplier),) * n_groups
    given = model.noise_multiplier
    if isinstance(given, Mapping):
        words = NOISE_MULTIPLIER.describe()
        multipliers = _of_groups("noise_multiplier", given, sizes, NOISE_MULTIPLIER, words)
    size = model._batch_size(sizes.total)
    last_size = size
    if model.final_batch_size is not None:
        last_size = expected_batch_size(model.final_batch_size, sizes.total)
    steps = steps_for(int(model.max_epochs), sizes.total, size)
    plain = min(steps, max(1, round(float(model.sgd_fraction) * steps)))

    def segment(n_steps: int, batch: int, heads: int = 1) -> Segment:
        # One rate for all, the same number of records of every group, or as a mapping says.
        rates = (batch / sizes.total,) * n_groups
        if isinstance(model.sampling, Mapping):
            rates = _of_groups("sampling", model.sampling, sizes, _RATE, "a rate in (0, 1]")
        elif model.sampling == "balanced":
            rates = tuple(min(1.0, batch / n_groups / count) for count in sizes.counts)
        expected = tuple(rate * count for rate, count in zip(rates, sizes.counts, strict=True))
        divisors = expected if model.group_update == "mean" else (1.0,) * n_groups
        weights = tuple(1.0 / (n_groups * divisor) for divisor in divisors)
        std = clip * math.sqrt(sum((w * s) ** 2 for w, s in zip(weights, multipliers, strict=True)))
        block = Block(
            name="gradient",
            max_norm=clip,
            weights=weights,
            noise_std=std,
            charged_multipliers=multipliers if model.releases == "group_models" else None,
        )
        return Segment(
            steps=n_steps, rates=rates, expected_sizes=expected, blocks=(block,), n_heads=heads
        )

    return sizes.plan(
        segment(steps - plain, size),
        segment(plain - 1, last_size),
        segment(1, last_size, int(model.n_heads)),
        counts=counts,
        delta=model.delta,
        exact_noise=model.exact_noise,
    )
