"""Fair codes: the bound on all predictors covers, and adversaries on real rows keep to it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline

from skfairdp import PrivateFairEncoder
from skfairdp.datasets import fetch_compas
from skfairdp.fairness.bounds.total_variation import total_variation, total_variation_bound
from skfairdp.fairness.scopes import DOWNSTREAM_LIKE
from skfairdp.preprocessing import PublicEncoder, PublicScaler

pytestmark = pytest.mark.slow

DRAWS = 100
POPULATIONS = {
    "a bit": [[0.7, 0.3], [0.55, 0.45]],
    "a rare code": [[0.97, 0.03], [0.9, 0.1]],
    "four codes": [[0.4, 0.3, 0.2, 0.1], [0.3, 0.35, 0.15, 0.2]],
}
SIZES = (120, 60)


def covered(name: str, bound: Any) -> int:
    """In how many of the draws of held-out rows the true total variation is within a bound."""
    rng, laws = np.random.default_rng(5), np.array(POPULATIONS[name])
    truth = total_variation(np.rint(1e6 * laws.T)[None].astype(np.int64))
    hits = 0
    for _ in range(DRAWS):
        drawn = [rng.multinomial(n, law) for n, law in zip(SIZES, laws, strict=True)]
        hits += bound(np.array(drawn).T[None]) >= truth
    return hits


@pytest.mark.parametrize("name", POPULATIONS)
def test_the_bound_holds_as_often_as_it_says(name: str) -> None:
    least = stats.binom.ppf(1e-6, DRAWS, 0.95)
    assert covered(name, total_variation_bound) >= least


def test_neither_what_was_observed_nor_a_lower_level_is_such_a_bound() -> None:
    least = stats.binom.ppf(1e-6, DRAWS, 0.95)
    assert covered("a bit", total_variation) < least
    assert covered("a bit", lambda c: total_variation_bound(c, confidence_level=0.7)) < least


ADVERSARIES = {
    "forest": RandomForestClassifier(30, random_state=0),
    "boosting": HistGradientBoostingClassifier(max_iter=20, random_state=0),
    "net": MLPClassifier((20,), max_iter=20, random_state=0),
}


@pytest.fixture(scope="module")
def compas(data_home: Any) -> tuple[np.ndarray, ...]:
    """Features, labels, groups, and which rows are for training, as many of each group."""
    bunch = fetch_compas(data_home=data_home, version="ten")
    encoder = make_pipeline(
        PublicScaler(bunch.bounds, log_columns=bunch.log_columns), PublicEncoder(bunch.categories)
    )
    X, s = np.asarray(encoder.fit_transform(bunch.data)), bunch.sensitive_features.to_numpy(str)
    return X, bunch.target.to_numpy(), s, np.asarray(bunch.split == "train")


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("settings", [{}, {"n_codes": 8}, {"encoder_sees_group": True}])
def test_no_adversary_on_real_rows_exceeds_the_bound(settings: dict, compas: Any) -> None:
    X, y, s, train = compas
    encoder = PrivateFairEncoder(
        objective="fair_codes",
        noise="randomized_response",
        tolerance=0.1,
        max_epochs=15,
        random_state=0,
        **settings,
    )
    encoder.fit(X[train], y[train], sensitive_features=s[train])
    certificate = encoder.certify(X[~train], sensitive_features=s[~train], holdout="public")
    (claim,) = (c for c in certificate.fairness if c.scope == DOWNSTREAM_LIKE)
    # Groups are nearly of one size here: who guesses them best widens the gap most.
    first, held = encoder.groups_[0], np.flatnonzero(~train)
    asked = np.tile(held, 10)
    released = [
        np.eye(encoder.n_codes)[encoder.transform(X[rows], sensitive_features=s[rows])[:, 0]]
        for rows in (train, asked)
    ]

    def gap(yes: np.ndarray, groups: np.ndarray) -> float:
        return abs(float(yes[groups == first].mean() - yes[groups != first].mean()))

    gaps = {}
    for name, adversary in ADVERSARIES.items():
        guessed = adversary.fit(released[0], s[train]).predict(released[1]) == first
        gaps[name] = gap(guessed, s[asked])
        # A rule that selects people, told by a purpose of its own: the label, against the group.
        wanted = (y[train] == 1) == (s[train] == first)
        chosen = adversary.fit(released[0], wanted).predict(released[1])
        gaps[f"{name}, selecting"] = gap(chosen, s[asked])
    assert claim.estimate is not None
    # On these very rows no more than the codes differ, but for the noise of ten releases of each.
    slack = 5 * np.sqrt(sum(0.25 / (10 * (s[held] == g).sum()) for g in encoder.groups_))
    assert max(gaps.values()) <= min(claim.bound, claim.estimate + slack)


def test_codes_without_a_constraint_exceed_the_bound_of_fair_ones(compas: Any) -> None:
    X, y, s, train = compas
    settings = {"objective": "fair_codes", "noise": "randomized_response", "max_epochs": 15}
    fair, loose = (
        PrivateFairEncoder(tolerance=tolerance, random_state=0, **settings).fit(
            X[train], y[train], sensitive_features=s[train]
        )
        for tolerance in (0.05, 0.9)
    )
    certificate = fair.certify(X[~train], sensitive_features=s[~train], holdout="public")
    (bound,) = (c.bound for c in certificate.fairness if c.scope == DOWNSTREAM_LIKE)
    released = loose.transform(np.tile(X[~train], (10, 1)))[:, 0]
    first = np.tile(s[~train], 10) == loose.groups_[0]
    assert abs(released[first].mean() - released[~first].mean()) > bound
