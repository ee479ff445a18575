"""FairPathRegressor keeps to its claim: the noise of its tables is audited, by many releases.

Its net is trained by the engine's steps, which other audits cover.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from skfairdp import FairPathRegressor
from skfairdp.engine.clipping.clippers import make_clipper
from skfairdp.engine.objectives import NumberObjective
from skfairdp.engine.optimizers import flatten
from skfairdp.engine.release import NoisyRelease, Rows
from skfairdp.inprocessing.fair_numbers import tables
from skfairdp.privacy.mechanisms.prefix_sums import PrefixSums
from skfairdp.privacy.noise import NoiseSource
from skfairdp.privacy.sizes import Sizes
from tests.slow.test_audit_claims import REFUTED
from tests.slow.test_fair_path import divided, shown_by

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:'delta'")]


def audit_table(error: float) -> tuple[float, float, float]:
    """Lower bound on the epsilon of the scores by group, and what their plan is charged.

    The estimator's own segment, door and entries. The attacker knows all other records, looks at
    the canary's entry with a matched filter, and has fixed the thresholds.
    """
    n = 60
    model = FairPathRegressor(
        target_bounds=(0, 1), group_at_predict="raw", delta=1e-5, batch_size=n, max_epochs=1
    )
    sizes = Sizes.of_all(n, n)
    (table,) = (s for s in model._plan(sizes, 1.1).segments if s.blocks[0].name != "gradient")
    plan = sizes.plan(table, delta=1e-5)
    rng = np.random.default_rng(0)
    numbers, groups = rng.uniform(-1, 1, size=n), rng.integers(0, 2, size=n)
    numbers[-1], groups[-1] = -0.99, 1  # the first cell moves all sums
    places = (np.searchsorted(tables.ENDS, numbers) - 1) + tables.CELLS * groups
    counts = np.zeros((2, 2, tables.CELLS))
    for code, rows in enumerate((places[:-1], places[-1:])):
        np.add.at(counts[code].reshape(-1), rows, 1.0)
    matrix = PrefixSums(tables.CELLS, table.blocks[0].noise_std)._matrix / 2.0**38
    known, own = counts @ matrix.T
    module = torch.nn.Linear(1, 1)
    clipper = make_clipper(module, flatten(module), NumberObjective(0.1))

    def score(present: bool, noise: NoiseSource) -> float:
        codes = np.append(np.zeros(n - 1, dtype=int), 0 if present else -1)
        rows = Rows(torch.zeros(n, 1), (torch.zeros(n), torch.from_numpy(groups)), codes)
        release = NoisyRelease(rows, plan, clipper, noise)
        sums = tables.released(release, table, lambda _: numbers, 2)
        # Differences are counts, and the matrix brings back the noise's own coordinates.
        seen = np.diff(sums, axis=-1, prepend=0.0) @ matrix.T - known
        return float((seen * own).sum() / (own**2).sum())

    return shown_by(score, plan, error)


def test_the_table_of_scores_stays_below_the_claim() -> None:
    found, claimed, seen = audit_table(REFUTED)
    assert 1.5 < claimed < 2.5
    assert found <= claimed
    assert seen > 6.0  # the attack sees the canary


def test_a_quarter_of_the_tables_noise_is_caught(monkeypatch) -> None:
    divided(monkeypatch, "tables")
    found, claimed, _ = audit_table(1e-3)
    assert 1.5 < claimed < 2.5
    assert found > claimed
