"""Tests of the prices of tables in runs without noise."""

from __future__ import annotations

import math

import numpy as np
import pytest

from skfairdp import DPFermiClassifier, FairDPClassifier
from skfairdp.exceptions import PrivacyWarning
from skfairdp.privacy.noise import NoiseSource
from skfairdp.privacy.sizes import Sizes
from skfairdp.receipts import RowFacts
from skfairdp.records.groups import Groups

SIZES = Sizes(("a", "b"), (500, 500), "add-remove")
FACTS = RowFacts(1000, Groups(("a", "b"), np.arange(1000) % 2))


@pytest.mark.parametrize(
    "model",
    [
        FairDPClassifier(stop_tolerance=0.1, epsilon=math.inf),
        DPFermiClassifier(notion="equalized_odds", epsilon=math.inf, max_dual_grad_norm=1.0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_tables_have_no_noise_where_epsilon_is_infinite(model):
    with pytest.warns(PrivacyWarning, match="trains without noise"):
        quote = model._priced_for(FACTS, NoiseSource(), SIZES)
    plan = quote.plan
    assert quote.noise_multiplier == 0.0
    assert plan.counts
    assert all(math.isinf(table.epsilon) for table in plan.counts)
    priced = model.set_params(epsilon=8.0)._priced_for(FACTS, NoiseSource(), SIZES).plan
    assert all(math.isfinite(table.epsilon) for table in priced.counts)
