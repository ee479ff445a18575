"""A search over regressors keeps to its claim: whole searches are audited, with twins that fail.

The attacker knows all rows but the canary's presence, gets the released model and the noisy
tables, and compares these with all tables that could be, with the canary and without it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from skfairdp import DPSGDRegressor
from skfairdp.audit.betting import PairBets
from skfairdp.model_selection import PrivateSearchCV
from skfairdp.model_selection.number_scores import PARTS
from skfairdp.privacy import NoiseSource
from skfairdp.records.numbers import TargetBounds
from tests.slow.test_audit_claims import REFUTED

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:'delta'"),
    pytest.mark.filterwarnings("ignore:Doubtful"),
]

N_OTHERS, SHARE, N_PAIRS = 60, 0.7, 75
# A feature and a target. That of the canary is clipped; constant targets would be refused.
LOW, MIDDLE, CANARY = (0.0, 0.0), (1.0, 0.5), (1.0, 1e6)
# Thresholds of the score, fixed before; no clipped canary reaches the last one.
THRESHOLDS = (-20.0, 0.0, 20.0, 4.0 * PARTS)


def parts_of(model: Any, x: float, y: float) -> np.ndarray:
    """Parts of a held-out row in the two cells of errors, as the theory page has them."""
    guess, target = (min(max(float(v), 0.0), 1.0) for v in (model.predict([[x]])[0], y))
    error = round(PARTS * abs(guess - target))
    return np.array([error, PARTS - error])


def evidence(search: PrivateSearchCV) -> float:
    """By how much nearer the noisy errors are to a table with the canary than to one without it.

    In parts of a row, summed over both cells. Beyond what a clipped canary can do, the excess.
    """
    table = search.noisy_counts_["errors"]
    low, middle, canary = (parts_of(search, *row) for row in (LOW, MIDDLE, CANARY))
    others = np.arange(N_OTHERS)[:, None] * low  # held out, or not
    others = np.concatenate([others, others + middle])
    without, with_it = (np.abs(table - others - more).sum(axis=1).min() for more in (0, canary))
    return float(without - with_it) + max(0.0, table[0] - 1000.0 * PARTS)


def audit(monkeypatch: pytest.MonkeyPatch, error: float) -> tuple[float, float]:
    """Lower bound on the epsilon of whole searches, and what they are charged."""
    terms: list[Any] = []
    keep = PrivateSearchCV._terms

    def calibrated_once(self: PrivateSearchCV, *given: Any) -> Any:
        # Sizes are declared, so the budget is the same whether the canary is there or not.
        terms[:] = terms or [keep(self, *given)]
        return terms[0]

    monkeypatch.setattr(PrivateSearchCV, "_terms", calibrated_once)
    inner = DPSGDRegressor(target_bounds=(0, 1), dataset_size=18, batch_size=18, max_epochs=1)
    prior = {"max_grad_norm": [0.5, 1.0]}
    search = PrivateSearchCV(
        inner, prior, n_iter=2, epsilon=1.0, delta=1e-3, holdout_fraction=SHARE
    )
    rows = np.array([MIDDLE, *[LOW] * (N_OTHERS - 1), CANARY])
    X, y = rows[:, :1], rows[:, 1]
    bets = PairBets(THRESHOLDS)
    for _ in range(N_PAIRS):
        bets.add(evidence(search.fit(X, y)), evidence(search.fit(X[:-1], y[:-1])))
    privacy = search.privacy_
    return bets.epsilon_lower_bound(error, privacy.delta), privacy.epsilon


def test_whole_searches_stay_below_the_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    # A right claim is refuted with chance at most 1e-9.
    found, claimed = audit(monkeypatch, REFUTED)
    assert 0.9 < claimed <= 1.0
    assert found <= claimed


def without_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NoiseSource, "discrete_laplace", lambda self, epsilon, shape: 0)


def of_one_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise as if a row moved a table by one part and not by 1,024."""
    keep = NoiseSource.discrete_laplace
    monkeypatch.setattr(
        NoiseSource,
        "discrete_laplace",
        lambda self, epsilon, shape: keep(self, epsilon * PARTS, shape),
    )


def unclipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        TargetBounds, "scaled", lambda self, numbers: (numbers - self.middle) / self.half
    )


@pytest.mark.parametrize("twin", [without_noise, of_one_part, unclipped])
@pytest.mark.filterwarnings("ignore:PrivateSearchCV.fit was called again")
def test_searches_without_noise_or_with_a_wrong_sensitivity_are_caught(twin, monkeypatch) -> None:
    twin(monkeypatch)
    # A broken twin is missed, or a right claim would be refuted, with chance 1e-3 at most.
    found, claimed = audit(monkeypatch, 1e-3)
    assert 0.9 < claimed <= 1.0
    assert found > claimed
