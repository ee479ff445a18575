"""Estimators that learn from votes, under the checks that the others go through."""

from __future__ import annotations

import copy
import math
import pickle
import random
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from skfairdp import certify
from skfairdp.exceptions import PrivacyWarning
from tests.common.halves import HalfPublicFairPATE, HalfPublicPATE, HalfPublicSFPATE
from tests.common.roster import VOTING, build, every_voting, people
from tests.common.test_nothing_private_is_kept import fitted_names, traces
from tests.common.test_refusals import (
    BAD_ROWS,
    PLANTED_AS_SHOWN,
    SECRET,
    planted_people,
)
from tests.common.test_scikit_learn_checks import unexpected
from tests.privacy.oracle import oracle_epsilons

# Three teachers with noise that seldom turns a vote: the checks want a model that learns.
QUIET: dict[str, Any] = {
    "n_teachers": 3,
    "epsilon": None,
    "vote_noise": 0.36,
    "reproducible_noise": True,
    "random_state": 0,
    "progress": False,
}
KINDS = [HalfPublicPATE, HalfPublicFairPATE, HalfPublicSFPATE]


def fitted(name: str, **parameters: Any) -> Any:
    X, y, groups = people(600)
    return build(name, **parameters).fit(X, y, sensitive_features=groups)


once = cache(fitted)  # for checks that leave it as it is


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_scikit_learns_checks_pass(kind: type) -> None:
    assert unexpected(kind(**QUIET)) == []


@pytest.mark.slow
def test_fresh_noise_fails_only_checks_that_compare_two_fits() -> None:
    # With noise of .36 votes these two fits often agree: a failure is allowed, not required.
    assert unexpected(HalfPublicPATE(**QUIET | {"reproducible_noise": False})) == []


@every_voting
def test_epsilon_is_that_of_the_plan(name: str) -> None:
    model = once(name)
    privacy = certify(model).privacy
    expected = max(oracle_epsilons(model.plan_, model.delta).values())
    assert expected * 0.997 <= privacy.epsilon <= expected * 1.02
    assert 0.97 <= privacy.epsilon <= 1.0
    relation = "change-attribute" if name.startswith("SF") else "add-remove"
    assert privacy.adjacency == model.plan_.adjacency == relation
    assert privacy.protects == ("sensitive_features" if name.startswith("SF") else "record")


@every_voting
def test_repeatable_noise_voids_the_certificate(name: str) -> None:
    privacy = certify(once(name, random_state=0, reproducible_noise=True)).privacy
    assert math.isinf(privacy.epsilon)
    assert "reproducible_noise" in privacy.assumptions[0]


@every_voting
def test_infinite_epsilon_warns_and_promises_nothing(name: str) -> None:
    with pytest.warns(PrivacyWarning, match="epsilon=inf"):
        model = fitted(name, epsilon=math.inf)
    assert model.privacy_ is None
    assert certify(model).privacy is None
    X, y, _ = people(600)
    assert model.score(X, y) > 0.7


@every_voting
def test_the_plan_does_not_depend_on_the_private_rows(name: str) -> None:
    X, y, groups = people(600)
    whole = once(name)
    kept = np.ones(600, dtype=bool)
    kept[[0, 600 - 2]] = False  # two private rows go; the public half stays
    order = np.flatnonzero(kept)
    fewer = [i for i in order if i % 2 == 0]
    public = [i for i in order if i % 2 == 1]
    # Interleave again, so that the same rows are public.
    again = np.array([i for pair in zip(fewer, public, strict=False) for i in pair])
    without = build(name).fit(X[again], y[again], sensitive_features=groups[again])
    assert without.vote_noise_ == whole.vote_noise_
    assert without.plan_ == whole.plan_


@every_voting
def test_no_private_row_is_in_a_pickle_or_a_copy(name: str) -> None:
    X, y, groups = people(600)
    model = once(name)
    private = X[::2], y[::2], groups[::2]
    for stored in (pickle.dumps(model), pickle.dumps(copy.deepcopy(model))):
        assert traces(stored, *private) == []
    allowed = set(model.get_params(deep=False)) | set(model._released)
    assert set(vars(copy.deepcopy(model))) <= allowed


@every_voting
def test_neither_teachers_nor_votes_nor_shards_are_kept(name: str) -> None:
    model = once(name)
    held = set(vars(model)) - set(model.get_params(deep=False)) - {"_sklearn_version"}
    assert held <= set(model._released)
    names = {n.rstrip("_") for n in held}
    assert not names & {"teachers", "votes", "shards", "transcript", "aggregator"}
    # 40 teachers of 16 hidden units would be far bigger.
    assert len(pickle.dumps(model)) < 40_000


@every_voting
def test_a_teacher_or_student_that_was_trained_elsewhere_stays_there(name: str) -> None:
    from sklearn.neighbors import KNeighborsClassifier

    X, y, _ = people(600)
    elsewhere = KNeighborsClassifier().fit(X, y)
    model = build(name).set_params(teacher=elsewhere)
    assert traces(pickle.dumps(model), X, y, y) == []


@every_voting
def test_pickles_and_copies_predict_the_same(name: str) -> None:
    X, _, _ = people(600)
    model = once(name)
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert np.array_equal(other.predict_proba(X), model.predict_proba(X))
        assert other.certify().model_digest == model.certify().model_digest


@every_voting
def test_a_clone_starts_fresh(name: str) -> None:
    assert fitted_names(clone(once(name))) == set()


@every_voting
def test_two_fits_with_one_seed_share_no_noise(name: str) -> None:
    X, _, _ = people(600)
    first, second = (fit(name, random_state=0).predict_proba(X) for fit in (once, fitted))
    # Of 100 answers at this noise some differ, up to a chance below 1e-6.
    assert not np.array_equal(first, second)


@every_voting
def test_repeatable_noise_repeats_bit_for_bit(name: str) -> None:
    X, _, _ = people(600)
    np.random.seed(11)  # noqa: NPY002 - global state must have no influence
    torch.manual_seed(11)
    random.seed(11)
    found = [
        fit(name, random_state=0, reproducible_noise=True).predict_proba(X)
        for fit in (once, fitted)
    ]
    assert np.array_equal(*found)


@every_voting
def test_global_generators_are_left_alone(name: str) -> None:
    np.random.rand(), torch.rand(1), random.random()  # noqa: NPY002
    before = np.random.get_state(), torch.get_rng_state(), random.getstate()  # noqa: NPY002
    model = fitted(name, random_state=0)
    model.predict(people()[0])
    after = np.random.get_state(), torch.get_rng_state(), random.getstate()  # noqa: NPY002
    assert all(np.array_equal(a, b) for a, b in zip(before[0], after[0], strict=True))
    assert torch.equal(before[1], after[1])
    assert before[2] == after[2]


@every_voting
@pytest.mark.parametrize("case", [case for case in BAD_ROWS if "group" not in case])
def test_bad_rows(name: str, case: str) -> None:
    change, message = BAD_ROWS[case]
    X, y, groups = change(*planted_people())
    model = build(name)
    with pytest.raises((ValueError, TypeError), match=message) as caught:
        model.fit(X, y, sensitive_features=groups)
    assert SECRET not in str(caught.value)
    assert not PLANTED_AS_SHOWN.search(str(caught.value))
    with pytest.raises(NotFittedError):
        model.predict(people()[0])


@every_voting
@pytest.mark.parametrize(
    ("labels", "values"),
    [(["no", "yes"], ["a", "b"]), ([False, True], [1, 0]), ([-1, 3], [True, False])],
    ids=str,
)
def test_labels_and_groups_of_any_type(name: str, labels: list, values: list) -> None:
    X, y, groups = people(600)
    y = np.array(labels)[(y == "yes").astype(int)]
    groups = np.array(values)[(groups == "b").astype(int)]
    model = build(name).fit(X, y, sensitive_features=groups)
    assert model.classes_.tolist() == labels
    assert model.groups_ == tuple(sorted(values))
    assert model.predict(X).dtype == y.dtype
    probability = model.predict_proba(X)
    assert probability.shape == (len(X), 2)
    assert probability.dtype == np.float64
    assert np.allclose(probability.sum(axis=1), 1.0)
    claims = certify(model, X, sensitive_features=groups, holdout="public").fairness
    assert claims[0].scope == "deployed model"
    assert claims[0].groups == model.groups_


def test_every_estimator_with_votes_is_here() -> None:
    import skfairdp
    from skfairdp.aggregation.vote_classifier import AggregatedClassifier

    public = {
        value
        for value in (getattr(skfairdp, name) for name in skfairdp.__all__)
        if isinstance(value, type) and issubclass(value, AggregatedClassifier)
    }
    assert public == {type(model).__mro__[1] for model in VOTING.values()}
