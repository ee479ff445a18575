"""The parity gate's promise over many random streams at once."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from skfairdp.fairness import ParityGate
from skfairdp.fairness.gate import smallest_cold_start

pytestmark = pytest.mark.slow

STREAMS, QUERIES = 300, 160  # for each of twelve shapes: 3,600 streams


def excess(tables: NDArray[np.int64], tolerance: NDArray[np.float64]) -> NDArray[np.float64]:
    """Σ max(Γ − γ, 0) of tables of shape (..., n_groups, n_classes)."""
    own = tables.sum(axis=-1, keepdims=True)
    others = tables.sum(axis=-2, keepdims=True) - tables
    rest = others.sum(axis=-1, keepdims=True)
    gaps = tables / np.maximum(own, 1) - others / np.maximum(rest, 1)
    gaps = np.where((own > 0) & (rest > 0), gaps, 0.0)
    return np.maximum(gaps - tolerance[..., None, None], 0.0).sum(axis=(-1, -2))


@pytest.mark.parametrize("n_groups", [2, 3, 4, 5])
@pytest.mark.parametrize("n_classes", [2, 3, 4])
def test_excess_never_grows_after_the_cold_start(n_groups: int, n_classes: int) -> None:
    rng = np.random.default_rng(100 * n_groups + n_classes)
    tolerance = rng.choice([0.1, 0.15, 0.2, 0.3, 0.5], STREAMS)
    # Groups of different sizes and tastes; half of the streams change taste midway.
    sizes = rng.dirichlet(np.ones(n_groups), STREAMS)
    tastes = rng.dirichlet(np.full(n_classes, 0.5), (2, STREAMS, n_groups))
    tables = np.zeros((STREAMS, QUERIES + 1, n_groups, n_classes), dtype=np.int64)
    opened = np.zeros((STREAMS, QUERIES + 1), dtype=bool)
    refused = 0
    for s in range(STREAMS):
        start = smallest_cold_start(tolerance[s])
        gate = ParityGate(n_groups, n_classes, tolerance=tolerance[s], cold_start=start)
        late = rng.choice(n_groups, QUERIES, p=sizes[s])
        # The cold start comes in blocks, so that every stream is gated for most of its length.
        groups = np.concatenate([np.repeat(np.arange(n_groups), start), late])[:QUERIES]
        draws = rng.random(QUERIES)
        half = np.where(np.arange(QUERIES) > QUERIES // 2, s % 2, 0)
        below = np.cumsum(tastes[half, s, groups], axis=1) < draws[:, np.newaxis]
        labels = np.minimum(below.sum(axis=1), n_classes - 1)
        for t, query in enumerate(zip(groups.tolist(), labels.tolist(), strict=True)):
            refused += not gate.offer(*query)
            tables[s, t + 1] = gate.counts
            opened[s, t + 1] = gate.open
    found = excess(tables, np.repeat(tolerance[:, None], QUERIES + 1, axis=1))
    gated = opened[:, :-1]  # the table before the query was past its cold start
    rises = np.diff(found, axis=1)[gated]
    assert rises.size > STREAMS * QUERIES / 4
    assert refused > rises.size / 50, "streams that the gate never refuses test nothing"
    assert rises.max() <= 1e-9
    # Once every cell is within, it stays so.
    within = (found <= 1e-9) & opened
    assert not (within[:, :-1] & ~within[:, 1:]).any()
