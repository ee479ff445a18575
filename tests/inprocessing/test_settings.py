"""Parameters that the table alone cannot judge, and whom warnings point at."""

from __future__ import annotations

import warnings

import pytest

from skfairdp import DPSGDClassifier, FairDPClassifier
from skfairdp.exceptions import PrivacyWarning
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
