"""A bound on the deployed model holds for its own draws, however few different rows there are.

The attack: people with equal rows share a keyed draw, so where there are two or twelve
different rows the rates of one key lie far from their average over keys. A bound on the
average is then no bound on the model that is deployed.
"""

from __future__ import annotations

import copy
import json
import pickle
import re

import numpy as np
import pytest
from fairlearn.reductions import DemographicParity, ExponentiatedGradient
from scipy import stats
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from skfairdp import (
    Certificate,
    DPSGDClassifier,
    FairDPClassifier,
    PrivateThinningClassifier,
    RandomizedAttributeClassifier,
    SmoothedClassifier,
    certify,
)
from skfairdp.inprocessing.attribute.reduction import positive_votes
from skfairdp.privacy.streams import row_uniforms
from skfairdp.representation import LaplaceTransformer

DEPLOYED, AVERAGED, ANYBODY = "deployed model", "averaged over its draws", "any population"


def proxy(rng, groups):
    """Draw one yes/no feature that goes with the group for 95 % of the people."""
    return np.where(rng.random(len(groups)) < 0.95, groups, 1 - groups)[:, None].astype(float)


def twelve(rng, groups):
    """Draw the same with two features that don't."""
    n = len(groups)
    return np.c_[proxy(rng, groups), rng.integers(0, 2, n), rng.integers(0, 3, n)].astype(float)


def drawn(kind, n, rng):
    groups = rng.integers(0, 2, n)
    X = kind(rng, groups)
    return X, (rng.random(n) < 0.4 + 0.2 * X[:, 0]).astype(int), groups


def different_rows(kind):
    """All rows that occur, and the probability of each in each group."""
    rest = [()] if kind is proxy else [(a, b) for a in (0, 1) for b in (0, 1, 2)]
    rows = np.array([(x, *others) for x in (0, 1) for others in rest], dtype=float)
    share = [np.where(rows[:, 0] == group, 0.95, 0.05) / len(rest) for group in (0, 1)]
    return rows, np.array(share)


def gap_of(values, shares):
    rates = shares @ values
    return abs(rates[0] - rates[1])


def bounds(certificate):
    """Smallest bound of each scope."""
    found = {}
    for claim in certificate.fairness:
        found[claim.scope] = min(claim.bound, found.get(claim.scope, 1.0))
    return found


@pytest.fixture(scope="module")
def divided():
    """A model whose key puts the two different rows on different sides, and its rows."""
    rng = np.random.default_rng(0)
    X, y, groups = drawn(proxy, 4000, rng)
    for seed in range(20):
        model = SmoothedClassifier(LogisticRegression(), std=20.0, random_state=seed)
        model.fit(X[:2000], y[:2000], sensitive_features=groups[:2000])
        if np.ptp(model.predict([[0.0], [1.0]])):
            return model, X[2000:], groups[2000:]
    raise AssertionError("no key of 20 divides two rows: chance 1e-6")


def test_no_sentence_about_the_model_quotes_an_average(divided):
    model, X, groups = divided
    certificate = certify(model, X, sensitive_features=groups, holdout="public")
    found = bounds(certificate)
    assert found[ANYBODY] < 0.05 < found[AVERAGED] < 0.1 < 0.9 < found[DEPLOYED]
    assert not certificate.satisfies(tolerance=0.5)
    assert certificate.satisfies(tolerance=0.1, scope=AVERAGED)
    assert certificate.satisfies(tolerance=0.05, scope=ANYBODY)
    assert certificate.sentence.startswith(
        "No useful bound on differences in selection rates follows for people like the 2000 held"
    )
    without = certify(model)
    assert without.sentence.startswith("For any people, averaged over the model's random")
    assert not without.satisfies(tolerance=0.5)


def test_every_text_gives_each_bound_its_scope_confidence_and_people(divided):
    model, X, groups = divided
    certificate = certify(model, X, sensitive_features=groups, holdout="public")
    terms = {
        DEPLOYED: "deployed model; 95 % confidence; people like the 2000 held out",
        AVERAGED: "averaged over its draws; 95 % confidence; people like the 2000 held out",
        ANYBODY: "any population; derived, not estimated from rows; any people",
    }
    document = json.loads(certificate.to_json())
    assert [claim["scope"] for claim in document["fairness"]] == list(terms)
    assert Certificate.from_json(certificate.to_json()) == certificate
    texts = {
        "plain": str(certificate),
        "notebook": certificate._repr_html_(),
        "report": certificate.to_html(tolerance=0.1),
        "card": certificate.to_model_card(tolerance=0.1),
    }
    for name, text in texts.items():
        words = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", text))
        for scope, said in terms.items():
            assert said[1:] in words, (name, scope)
        about = "About rates averaged over the model's random draws, not about this one model."
        assert words.replace("&#x27;", "'").count(about) >= (1 if name == "plain" else 2), name
    for name in ("report", "card"):
        assert "NOT shown by this certificate for the model as it is deployed" in texts[name]


@pytest.fixture(scope="module")
def crowd():
    return drawn(twelve, 1500, np.random.default_rng(1))


FAST = {"max_epochs": 1, "progress": False, "delta": 1e-5}
MODELS = {
    "smoothed": SmoothedClassifier(LogisticRegression(), std=5.0),
    "smoothed net": SmoothedClassifier(DPSGDClassifier(**FAST), std=1.0, n_draws=5),
    "smoothing": FairDPClassifier(**FAST, smoothing=20.0),
    "gibbs": FairDPClassifier(**FAST, prediction="gibbs", n_heads=5),
    "vote": FairDPClassifier(**FAST, prediction="vote", n_heads=5),
    "thinned": PrivateThinningClassifier(FairDPClassifier(**FAST, smoothing=20.0)),
    "mixture": RandomizedAttributeClassifier(epsilon=3.0, max_iter=5, tolerance=0.0),
    "revised": RandomizedAttributeClassifier(epsilon=3.0, max_iter=5, group_at_predict="raw"),
}


@pytest.mark.parametrize("name", MODELS)
def test_what_is_counted_is_what_predict_answers(name, crowd):
    X, y, groups = crowd
    model = copy.deepcopy(MODELS[name]).fit(X[:500], y[:500], sensitive_features=groups[:500])
    held, of = X[500:], groups[500:]
    asked = {"sensitive_features": of} if name == "revised" else {}
    certificate = certify(model, held, sensitive_features=of, holdout="public")
    claim = certificate.fairness[0]
    assert claim.scope == DEPLOYED
    # Whoever loads the model later, in another process, answers as was counted: the key is in the
    # pickle, and in the digest.
    loaded = pickle.loads(pickle.dumps(model))
    answers = loaded.predict(held, **asked)
    assert [c.successes for c in claim.counts] == [int(answers[of == g].sum()) for g in (0, 1)]
    assert any(
        "asked again, in another order and in 20 parts, it gave each" in text
        for text in claim.assumptions
    )
    assert certificate.verify(loaded)
    keyed = loaded.estimator_ if name == "thinned" else loaded
    keyed.key_ = bytes(len(keyed.key_))
    assert not certificate.verify(loaded)


class CoinPerCall(ClassifierMixin, BaseEstimator):
    """Tosses one coin a call: answers with the feature, or with 0 for everybody."""

    def fit(self, X, y=None):
        self.classes_, self.rng_ = np.array([0, 1]), np.random.default_rng(5)
        return self

    def predict(self, X):
        return (np.asarray(X)[:, 0] * self.rng_.integers(0, 2)).astype(int)


class BeyondTheMean(CoinPerCall):
    """Answers whether a feature exceeds its mean over the rows of the call."""

    def predict(self, X):
        column = np.asarray(X)[:, 0]
        return (column > column.mean()).astype(int)


def test_draws_that_rows_of_one_call_share_are_made_for_each_row_alone():
    X, _, groups = drawn(proxy, 2000, np.random.default_rng(2))
    claim = certify(CoinPerCall().fit(X), X, sensitive_features=groups, holdout="public").fairness[
        0
    ]
    # The average over coins is .45 for everyone who is asked; one coin a call would show 0 or .9.
    # Binomial: the estimate is off by .1 with probability 1e-8.
    assert abs(claim.estimate - 0.45) < 0.1
    assert claim.bound >= 0.45
    assert any("one row at a time" in text for text in claim.assumptions)
    X = np.random.default_rng(2).normal(size=(2000, 1)) + groups[:, None]
    claim = certify(
        BeyondTheMean().fit(X), X, sensitive_features=groups, holdout="public"
    ).fairness[0]
    assert claim.estimate == 0.0  # no row exceeds its own mean


@pytest.mark.filterwarnings("ignore::DeprecationWarning:fairlearn")  # its own use of pandas
@pytest.mark.filterwarnings("ignore::DeprecationWarning:pandas")
def test_a_reduction_that_draws_from_the_global_generator_has_draws_of_its_own_for_each_row():
    X, y, groups = drawn(twelve, 600, np.random.default_rng(3))
    model = ExponentiatedGradient(LogisticRegression(), DemographicParity(), max_iter=5)
    model.fit(X[:300], y[:300], sensitive_features=groups[:300])
    np.random.seed(0)  # noqa: NPY002 - its generator
    claim = certify(model, X[300:], sensitive_features=groups[300:], holdout="public").fairness[0]
    assert any("draws anew for each row" in text for text in claim.assumptions)
    assert all(isinstance(count.successes, int) for count in claim.counts)
    chance = model._pmf_predict(X[300:])[:, 1]
    for count in claim.counts:
        of = groups[300:] == count.group
        # Independent draws of these probabilities: Hoeffding at 1e-9.
        assert abs(count.successes - chance[of].sum()) < np.sqrt(np.log(2e9) * of.sum() / 2)


def test_nobody_is_asked_twice_where_an_answer_costs_privacy():
    X, y, groups = drawn(twelve, 600, np.random.default_rng(4))
    released = make_pipeline(LaplaceTransformer(0.5), LogisticRegression()).fit(X, y)
    before = released[0].releases_.total
    claim = certify(released, X, sensitive_features=groups, holdout="public").fairness[0]
    assert released[0].releases_.total == before + 2  # one for the answers, one for the leakage
    assert any("draws that it makes anew for each answer" in text for text in claim.assumptions)
    model = RandomizedAttributeClassifier(epsilon=2.0, max_iter=3, group_at_predict="randomized")
    model.fit(X, y, sensitive_features=groups)
    asked = []
    original = model.predict
    model.predict = lambda rows, *, sensitive_features=None: (
        asked.append(len(rows)) or original(rows, sensitive_features=sensitive_features)
    )
    claim = certify(model, X, sensitive_features=groups, holdout="public").fairness[0]
    assert asked == [600]
    assert any("draws that it makes anew for each answer" in text for text in claim.assumptions)


def test_private_rows_are_not_told_apart_by_how_they_were_asked():
    X, _, groups = drawn(proxy, 500, np.random.default_rng(2))
    model = CoinPerCall().fit(X)
    private = {"count_epsilon": 1.0, "groups": [0, 1]}
    claims = certify(model, X, sensitive_features=groups, **private).fairness
    assert [claim.scope for claim in claims] == [DEPLOYED]
    assert any("independently of all others" in text for text in claims[0].assumptions)


# -- by simulation --------------------------------------------------------------------

HOLDOUTS = 150
# Smallest number of failures whose probability is below 1e-6 when each has probability .05.
TOO_MANY = int(stats.binom.isf(1e-6, HOLDOUTS, 0.05)) + 1


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "std"), [(proxy, 1.0), (twelve, 5.0), (twelve, 20.0)])
def test_bounds_hold_for_what_they_are_about_where_few_different_rows_exist(kind, std):
    """For fresh keys and hold-outs: each scope's bound against its own gap, and against another's.

    Where every row is answered by a shared draw, the gap of the model is far from the average:
    the check of the deployed bound must catch the averaged one in its place.
    """
    rng = np.random.default_rng(6)
    X, y, groups = drawn(kind, 1000, rng)
    model = SmoothedClassifier(LogisticRegression(), std=std)
    model.fit(X, y, sensitive_features=groups)
    rows, shares = different_rows(kind)
    average = gap_of(model.predict_proba(rows)[:, 1], shares)
    failures = dict.fromkeys((DEPLOYED, AVERAGED, ANYBODY, "average as the model's"), 0)
    for _ in range(HOLDOUTS):
        model.key_ = rng.bytes(8)  # as made by a fit, before the hold-out is drawn
        X, y, groups = drawn(kind, 1000, rng)
        found = bounds(certify(model, X, sensitive_features=groups, holdout="public"))
        gap = gap_of(model.predict(rows), shares)
        failures[DEPLOYED] += found[DEPLOYED] < gap
        failures[AVERAGED] += found[AVERAGED] < average
        failures[ANYBODY] += found[ANYBODY] < average
        failures["average as the model's"] += found[AVERAGED] < gap
    assert failures[DEPLOYED] < TOO_MANY
    assert failures[AVERAGED] < TOO_MANY
    assert failures[ANYBODY] == 0
    assert failures["average as the model's"] >= TOO_MANY, "the check would see a wrong scope"


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{"smoothing": 20.0}, {"prediction": "gibbs", "n_heads": 7}])
def test_bounds_on_fairdp_that_draws_hold_where_few_different_rows_exist(settings):
    rng = np.random.default_rng(7)
    X, y, groups = drawn(twelve, 1000, rng)
    model = FairDPClassifier(**FAST, **settings).fit(X, y, sensitive_features=groups)
    if "prediction" in settings:  # heads that differ as they would at a small epsilon
        model.heads_ = model.heads_ + rng.normal(scale=3.0, size=model.heads_.shape)
    rows, shares = different_rows(twelve)
    failures = {DEPLOYED: 0, AVERAGED: 0}
    for _ in range(HOLDOUTS):
        model.key_ = rng.bytes(32)
        X, y, groups = drawn(twelve, 1000, rng)
        found = bounds(certify(model, X, sensitive_features=groups, holdout="public"))
        gap = gap_of(model.predict(rows), shares)
        failures[DEPLOYED] += found[DEPLOYED] < gap
        failures[AVERAGED] += found[AVERAGED] < gap
    assert failures[DEPLOYED] < TOO_MANY <= failures[AVERAGED]


@pytest.mark.slow
def test_bounds_hold_for_draws_made_anew_for_each_answer():
    """The rate of a model that draws afresh is its rate over rows and draws together."""
    rng = np.random.default_rng(8)
    X, y, groups = drawn(twelve, 1000, rng)
    model = RandomizedAttributeClassifier(epsilon=2.0, max_iter=3, group_at_predict="randomized")
    model.fit(X, y, sensitive_features=groups)
    model.decision_rates_ = np.array([[0.0, 0.6], [0.4, 1.0]])
    rows, shares = different_rows(twelve)
    kept = model.response_.keep_probability
    failures, above = 0, 0
    for _ in range(HOLDOUTS):
        model.key_ = rng.bytes(32)
        # Answers under this key for each report of the group, which is drawn anew.
        scores, draws = (
            positive_votes(model.predictors_, model.weights_, rows),
            row_uniforms(rows, model.key_),
        )
        yes = [draws < (1 - scores) * low + scores * high for low, high in model.decision_rates_.T]
        rate = [shares[g] @ (kept * yes[g] + (1 - kept) * yes[1 - g]) for g in (0, 1)]
        X, y, groups = drawn(twelve, 600, rng)
        claim = certify(model, X, sensitive_features=groups, holdout="public").fairness[0]
        failures += claim.bound < abs(rate[0] - rate[1])
        above += claim.estimate < abs(rate[0] - rate[1])
    assert failures < TOO_MANY <= above
