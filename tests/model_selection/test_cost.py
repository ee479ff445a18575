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
    KFold,
    PredefinedSplit,
    RandomizedSearchCV,
    ShuffleSplit,
    StratifiedGroupKFold,
    check_cv,
)

from skfairdp import DPSGDClassifier, certify
from skfairdp.foundation.figures import epsilon_text
from skfairdp.model_selection import PrivateSearchCV, search_cost
from skfairdp.privacy.accounting.plan_cost import compose
from tests.common.roster import FAST, people
from tests.privacy.ledger.statements import ledger_in


def test_a_grid_costs_the_composition_of_its_fits_and_its_scores_are_named() -> None:
    X, y, _ = people()
    model = DPSGDClassifier(**FAST | {"batch_size": "auto"})  # at one rate in all folds
    search = GridSearchCV(model, {"max_grad_norm": [0.5, 1.0]}, cv=3).fit(X, y)
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


class Repeating(KFold):
    """Trains on each row of its folds twenty times."""

    def split(self, X, y=None, groups=None):
        for train, test in super().split(X, y, groups):
            yield np.repeat(train, 20), test


class RepeatingPublic(PredefinedSplit):
    def split(self, X=None, y=None, groups=None):
        for train, test in super().split(X, y, groups):
            yield np.repeat(train, 20), test


TWICE = [(np.repeat(np.arange(200), 2), np.arange(200, 300))] * 2
SHADOWED = KFold(2)
SHADOWED.split = Repeating(2).split


@pytest.mark.parametrize(
    "cv",
    [Repeating(2), TWICE, check_cv(TWICE), SHADOWED, RepeatingPublic(np.repeat([-1, 0], 150))],
    ids=["class", "list", "wrapped list", "method", "predefined"],
)
def test_folds_that_may_hold_a_row_many_times_have_no_cost(cv) -> None:
    """With declared sizes the plan of a fit does not follow from the number of its rows."""
    X, y, _ = people()
    model = DPSGDClassifier(**FAST, dataset_size=200)
    search = GridSearchCV(model, {"max_grad_norm": [1.0]}, cv=cv).fit(X, y)
    cost = search_cost(search)
    assert cost.privacy.is_void
    assert cost.fits is None
    assert "would alone compose" not in certify(search).privacy.assumptions[0]
    with pytest.raises(ValueError, match="contradicts cv="):
        search_cost(search, public_validation=True)


def test_folds_of_whole_groups_are_of_any_size() -> None:
    """Taken for even, one fit on 99 rows of 300 was stated as one on 200 rows."""
    X, y, _ = people()
    groups = np.r_[np.zeros(201), np.arange(1, 100)]
    settings = FAST | {"epsilon": None, "noise_multiplier": 1.0, "batch_size": 40}
    search = GridSearchCV(
        DPSGDClassifier(**settings), {"max_grad_norm": [1.0]}, cv=StratifiedGroupKFold(3)
    ).fit(X, y, groups=groups)
    assert search_cost(search).fits is None


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
