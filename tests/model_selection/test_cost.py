"""Tests of the cost of scikit-learn's searches: fits compose, scores have no finite cost."""

from __future__ import annotations

import math

import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.pld import PLDAccountant
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    PredefinedSplit,
    RandomizedSearchCV,
    ShuffleSplit,
)

from skfairdp import DPSGDClassifier
from skfairdp.foundation.figures import epsilon_text
from skfairdp.model_selection import PrivateSearchCV, search_cost
from skfairdp.privacy.accounting.plan_cost import compose
from tests.common.roster import FAST, people
from tests.privacy.ledger.statements import ledger_in


def test_a_grid_costs_the_composition_of_its_fits_and_its_scores_are_named() -> None:
    X, y, _ = people()
    search = GridSearchCV(DPSGDClassifier(**FAST), {"max_grad_norm": [0.5, 1.0]}, cv=3).fit(X, y)
    cost = search_cost(search)
    assert cost.n_fits == 2 * 2 + 1
    assert cost.privacy.epsilon == math.inf
    assert "not private" in cost.sentence
    assert "exact scores" in cost.privacy.assumptions[0]
    (segment,) = search.best_estimator_.plan_.segments
    step = dp_event.PoissonSampledDpEvent(
        segment.rates[0], dp_event.GaussianDpEvent(float(segment.multiplier(0)))
    )
    accountant = PLDAccountant(value_discretization_interval=1e-4)
    accountant.compose(dp_event.SelfComposedDpEvent(step, 5 * segment.steps))
    expected = accountant.get_epsilon(1e-6)
    assert cost.fits.epsilon == pytest.approx(expected, rel=0.01)
    assert str(cost) == cost.sentence
    assert epsilon_text(cost.fits.epsilon) in cost.sentence


def test_public_validation_rows_leave_the_fits() -> None:
    X, y, _ = people()
    public = PredefinedSplit(np.where(np.arange(300) < 100, 0, -1))
    search = RandomizedSearchCV(
        DPSGDClassifier(**FAST), {"max_grad_norm": [0.5, 1.0]}, n_iter=2, cv=public
    ).fit(X, y)
    cost = search_cost(search, public_validation=True)
    assert cost.n_fits == 3
    assert 1.0 < cost.privacy.epsilon == cost.fits.epsilon < 3.0
    assert "declared public" in cost.privacy.assumptions[-1]
    assert search_cost(search).privacy.is_void
    folds = GridSearchCV(DPSGDClassifier(**FAST), {"max_grad_norm": [1.0]}, cv=2).fit(X, y)
    with pytest.raises(ValueError, match="contradicts cv=2"):
        search_cost(folds, public_validation=True)


def test_a_private_search_has_its_own_finite_figure() -> None:
    X, y, _ = people()
    search = PrivateSearchCV(DPSGDClassifier(**FAST), {"max_grad_norm": [1.0]}, n_iter=2)
    cost = search_cost(search.fit(X, y))
    assert cost.privacy == search.privacy_
    assert cost.n_fits is None
    assert "how many candidates it fitted is secret" in cost.sentence


def test_costs_that_cannot_be_read_off_are_not_guessed() -> None:
    X, y, _ = people()
    # How many rows a fold has cannot be known without the rows.
    search = GridSearchCV(DPSGDClassifier(**FAST), {"max_grad_norm": [1.0]}, cv=GroupKFold(2))
    cost = search_cost(search.fit(X, y, groups=np.arange(len(y)) % 5))
    assert cost.privacy.is_void
    assert cost.fits is None
    assert "cannot be read off" in cost.sentence


def test_what_is_no_fitted_search_of_ours_is_refused() -> None:
    X, y, _ = people()
    with pytest.raises(TypeError, match="takes a fitted search"):
        search_cost(DPSGDClassifier())
    foreign = GridSearchCV(LogisticRegression(), {"C": [1.0]}, cv=2).fit(X, y)
    with pytest.raises(TypeError, match="LogisticRegression, which is not"):
        search_cost(foreign)


@pytest.mark.parametrize(
    ("settings", "grid", "cv"),
    [
        ({"batch_size": 60}, {"max_grad_norm": [0.5, 1.0]}, 3),
        ({"epsilon": None}, {"noise_multiplier": [1.0, 2.0]}, 2),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in [
                ({}, {"batch_size": [16, 150]}, 3),
                ({}, {"max_epochs": [1, 6], "epsilon": [0.5, 3.0]}, 2),
                (
                    {"epsilon": None, "noise_multiplier": 1.0, "batch_size": 40},
                    {"max_epochs": [1, 2]},
                    2,
                ),
                ({"dataset_size": 300, "batch_size": 40}, {"epsilon": [1.0, 2.0]}, 3),
                ({"batch_size": 40}, {"epsilon": [1.0, 2.0]}, ShuffleSplit(2, test_size=0.5)),
            ]
        ),
    ],
)
def test_fits_cost_what_the_ledger_says(settings, grid, cv, tmp_path) -> None:
    X, y, _ = people()
    ledger = ledger_in(tmp_path)
    model = DPSGDClassifier(**{**FAST, "max_epochs": 2, **settings}, ledger=ledger)
    search = GridSearchCV(model, grid, cv=cv).fit(X, y)
    *fits, refit = [entry.guarantee for entry in ledger.entries()]
    folds = isinstance(cv, int)  # then a row misses one fold of each candidate
    fits = [fit for i, fit in enumerate(fits) if not folds or i % cv]
    cost = search_cost(search)
    assert cost.n_fits == len(fits) + 1
    assert cost.fits.epsilon == pytest.approx(compose([*fits, refit]).epsilon, rel=2e-3)
