"""Parameters that the table alone cannot judge, whom warnings point at, and runs without noise."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

from skfairdp import DPFermiClassifier, DPSGDClassifier, FairDPClassifier
from skfairdp.exceptions import PrivacyWarning
from skfairdp.privacy.noise import NoiseSource
from skfairdp.privacy.sizes import Sizes
from skfairdp.receipts import RowFacts
from skfairdp.records.groups import Groups
from tests.inprocessing.rows import two_groups


@pytest.mark.parametrize("given", [{}, {"a": 1.0}, {"a": "loud", "b": 1.0}, {"a": -1.0, "b": 1.0}])
def test_noise_by_group_needs_a_number_for_every_group(given):
    X, y, groups = two_groups(60)
    model = FairDPClassifier(epsilon=None, noise_multiplier=given)
    with pytest.raises(ValueError, match="'noise_multiplier' must map every group to a number"):
        model.fit(X, y, sensitive_features=groups)


def test_classes_as_one_text_are_refused():
    X, y, _ = two_groups(60)
    with pytest.raises(
        ValueError, match="'classes' parameter of .* must be a list of at least two"
    ):
        DPSGDClassifier(classes="01").fit(X, y)


def test_an_epsilon_that_no_accountant_finishes_is_refused():
    X, y, _ = two_groups(60)
    with pytest.raises(ValueError, match="'epsilon'.*must be a number >= 0.0001"):
        DPSGDClassifier(epsilon=1e-6).fit(X, y)


@pytest.mark.parametrize("settings", [{"delta": 0.01}, {"epsilon": float("inf")}])
@pytest.mark.parametrize("kind", [DPSGDClassifier, FairDPClassifier])
def test_warnings_point_at_the_call_of_fit(kind, settings):
    X, y, groups = two_groups(60)
    model = kind(max_epochs=1, **settings)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", PrivacyWarning)
        model.fit(X, y, sensitive_features=groups)
    assert [w.filename for w in caught if w.category is PrivacyWarning] == [__file__]


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
