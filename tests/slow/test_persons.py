"""No audit refutes a promise about persons; where each row is clipped the same audit does.

As in test_audit_claims: each of 1,000 canaries is a person with eight rows and an own feature.
"""

from __future__ import annotations

import numpy as np
import pytest

from skfairdp import DPSGDClassifier
from skfairdp.audit import audit_one_run, orthogonal_canaries
from skfairdp.records.sampling import PersonSampler
from tests.engine.test_person_rows import rows_clipped
from tests.slow.test_audit_claims import REFUTED, net, own_weight

pytestmark = pytest.mark.slow

N_PERSONS, N_CANARIES, N_GUESSES, STEPS, RATE = 200, 1000, 200, 4, 1.0


class EightRowsEach(DPSGDClassifier):
    """Takes each row for a person who has it eight times."""

    def fit(self, X, y, *, sensitive_features=None, person_ids=None):
        ids = np.arange(len(X)).repeat(8)
        return super().fit(X.repeat(8, axis=0), y.repeat(8), person_ids=ids)


@pytest.mark.parametrize("twin", ["sound", "rows clipped"])
def test_an_audit_by_person_stays_below_the_claim_and_catches_rows(twin, monkeypatch):
    if twin != "sound":
        monkeypatch.setattr(PersonSampler, "draw", rows_clipped(PersonSampler.draw))
    X, canaries = orthogonal_canaries(np.zeros((N_PERSONS, 1), dtype=np.float32), N_CANARIES)
    n = N_PERSONS + N_CANARIES
    model = EightRowsEach(
        net(n / (20.0 * STEPS)),
        epsilon=2.0,
        delta=1e-7,
        batch_size=round(RATE * n),
        max_epochs=round(RATE * STEPS),
        learning_rate_schedule=None,
    )
    result = audit_one_run(
        model,
        X,
        np.arange(N_PERSONS) % 2,
        canaries,
        n_guesses=N_GUESSES,
        score=own_weight,
        confidence_level=1 - REFUTED,
    )
    assert 1.9 < result.claimed_epsilon <= 2.0
    if twin == "sound":
        assert result.p_value > REFUTED, result
    else:
        # Of 96 runs the fewest right guesses were 197, with a p-value below 1e-5.
        assert result.p_value < 1e-3, result
