"""Declared sizes are public: they fix the plan whatever the rows are."""

from __future__ import annotations

import numpy as np
import pytest

from skfairdp import DPSGDClassifier, FairDPClassifier, certify
from tests.common.roster import FAST, ROSTER, build, every_estimator, once, people

SIZES = {"a": 200, "b": 100}


def declared(name: str) -> dict:
    return {"dataset_size": 300} if name.startswith("DP-SGD") else {"group_sizes": SIZES}


@every_estimator
def test_the_plan_of_declared_sizes_does_not_depend_on_the_rows(name: str) -> None:
    X, y, groups = people()
    whole = build(name, **declared(name)).fit(X, y, sensitive_features=groups)
    without = build(name, **declared(name)).fit(X[1:], y[1:], sensitive_features=groups[1:])
    assert without.plan_ == whole.plan_
    assert without.noise_multiplier_ == whole.noise_multiplier_
    for model in (whole, without):
        assert model.privacy_.adjacency == "add-remove"
        assert model.certify().satisfies(epsilon=1.0, adjacency="add-remove")


@every_estimator
def test_sizes_taken_from_the_rows_mean_another_relation(name: str) -> None:
    model = once(name)
    assert model.privacy_.adjacency == "zero-out"
    assert not model.certify().satisfies(epsilon=1.0, adjacency="add-remove")


FAIRDP = [name for name in ROSTER if not name.startswith("DP-SGD")]


@pytest.mark.parametrize("name", FAIRDP)
def test_a_declared_group_without_rows_still_trains(name: str) -> None:
    X, y, groups = people()
    model = build(name, group_sizes={**SIZES, "c": 20})
    model.fit(X, y, sensitive_features=groups)
    assert model.groups_ == ("a", "b", "c")
    assert set(model.privacy_.per_group) == {"a", "b", "c"}
    assert np.isfinite(model.predict_proba(X)).all()


@pytest.mark.parametrize("name", FAIRDP)
def test_a_group_of_one_row_is_protected_like_the_others(name: str) -> None:
    X, y, groups = people()
    groups = np.where(np.arange(300) == 0, "lone", groups)
    model = build(name).fit(X, y, sensitive_features=groups)
    assert model.privacy_.per_group["lone"] <= 1.0
    claim = certify(model, X, sensitive_features=groups, holdout="public").fairness[0]
    assert claim.bound > 0.45, "one person proves little about a group"


@pytest.mark.parametrize("name", FAIRDP)
def test_rows_of_other_groups_contribute_nothing(name: str) -> None:
    X, y, groups = people()
    wild = np.where(np.arange(300) < 40, "elsewhere", groups)
    X_wild = np.where((wild == "elsewhere")[:, None], 1e6, X)
    settings = {"group_sizes": SIZES, "reproducible_noise": True, "random_state": 0}
    with_them = build(name, **settings).fit(X_wild, y, sensitive_features=wild)
    known = wild != "elsewhere"
    alone = build(name, **settings).fit(X[known], y[known], sensitive_features=wild[known])
    assert np.array_equal(with_them.predict_proba(X), alone.predict_proba(X))


@pytest.mark.parametrize("name", FAIRDP)
def test_bought_sizes_cost_part_of_epsilon(name: str) -> None:
    X, y, groups = people()
    model = build(name, group_sizes_epsilon=0.2).fit(X, y, sensitive_features=groups)
    assert model.plan_.prior_epsilon == 0.2
    assert 0.95 <= model.privacy_.epsilon <= 1.0
    assert model.privacy_.adjacency == "add-remove"


def test_stopping_by_the_gap_is_part_of_the_budget() -> None:
    X, y, groups = people()
    model = FairDPClassifier(
        stop_tolerance=0.3, check_every=2, check_epsilon=0.05, max_epochs=6, progress=False
    )
    model.fit(X, y, sensitive_features=groups)
    assert 1 <= len(model.released_gaps_) <= 2
    assert model.plan_.counts[0].releases == 2
    assert model.privacy_.epsilon <= 1.0


def test_labels_that_were_not_declared_contribute_nothing() -> None:
    X, y, _ = people()
    y_wild = y.astype(object)
    y_wild[:30] = "other"
    settings = {"classes": ["no", "yes"], "dataset_size": 300, **FAST}
    settings |= {"reproducible_noise": True, "random_state": 0}
    with_them = DPSGDClassifier(**settings).fit(X, y_wild)
    alone = DPSGDClassifier(**settings).fit(X[30:], y[30:])
    assert with_them.classes_.tolist() == ["no", "yes"]
    assert np.array_equal(with_them.predict_proba(X), alone.predict_proba(X))
