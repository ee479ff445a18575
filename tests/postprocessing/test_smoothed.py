"""Smoothed decisions: exact where they can be, and certificates that hold."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ndtr
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer
from torch import nn

from skfairdp import (
    AbstainingClassifier,
    CovarianceConstrainedClassifier,
    DPAdditiveClassifier,
    DPSGDClassifier,
    DPSGDFClassifier,
    DPSGDRegressor,
    FairDPClassifier,
    FairPathClassifier,
    FunctionalMechanismClassifier,
    LagrangianDualClassifier,
    PATEClassifier,
    PrivacyLedger,
    SmoothedClassifier,
    certify,
    default_net,
)
from skfairdp.exceptions import BudgetExceededError
from skfairdp.fairness.bounds.rate_gaps import gap_upper_bound, own_models_bound, smoothing_distance
from skfairdp.foundation.assumptions import CLOSED_SETS
from skfairdp.postprocessing.smooth_models import NetScore
from skfairdp.privacy import PrivacyGuarantee
from tests.inprocessing.rows import two_groups

X, Y, GROUPS = two_groups(600)
FM = FunctionalMechanismClassifier((-6.0, 6.0))
FAIR_FM = FunctionalMechanismClassifier(
    (-6.0, 6.0), objective="group_average", releases="group_models"
)
NET = default_net().set_params(module__hidden_sizes=())
SGD = DPSGDClassifier(NET, max_epochs=1, progress=False)
DEEP = DPSGDClassifier(max_epochs=1, progress=False)
TWO_LOGITS = default_net().set_params(criterion=nn.CrossEntropyLoss)


def fitted(estimator, **settings):
    model = SmoothedClassifier(estimator, random_state=0, **settings)
    return model.fit(X, Y, sensitive_features=GROUPS)


def test_a_linear_models_smoothed_decisions_are_normal_tails():
    model = fitted(LogisticRegression(), std=0.7)
    inner = model.estimator_
    z = X @ inner.coef_[0] + inner.intercept_[0]
    expected = ndtr(z / (0.7 * np.sqrt((X**2).sum(axis=1) + 1)))
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], expected, rtol=1e-12)


def test_models_of_groups_are_one_charge_of_the_largest(tmp_path):
    ledger = PrivacyLedger(tmp_path / "spent.db", budget=(1.0, 1e-5))
    model = fitted(clone(FM).set_params(ledger=ledger), training="per_group")
    (entry,) = ledger.entries()
    assert entry.estimator == "SmoothedClassifier"
    assert entry.guarantee.epsilon == max(m.privacy_.epsilon for m in model.estimators_)
    assert [m.ledger for m in model.estimators_] == [None, None]
    certify(model, X, sensitive_features=GROUPS, holdout="public")
    assert [entry.activity for entry in ledger.entries()] == ["fit", "certify"]
    with pytest.raises(BudgetExceededError):
        model.fit(X, Y, sensitive_features=GROUPS)


def test_what_a_model_of_a_group_is_charged_for_is_what_it_promises():
    for estimator in (FM, SGD):
        inner = clone(estimator).set_params(classes=[0, 1], dataset_size=300)
        quoted = inner.quote(n_rows=300, n_features=X.shape[1])
        stated = inner.fit(X[:300], Y[:300]).privacy_
        # How this processor multiplies is known at fit.
        assert set(quoted.privacy.assumptions) <= set(stated.assumptions)
        assert quoted.privacy == replace(stated, assumptions=quoted.privacy.assumptions)


def test_models_of_groups_state_what_each_of_them_assumes():
    model = fitted(SGD, training="per_group")
    assumed = {text for each in model.estimators_ for text in each.privacy_.assumptions}
    assert assumed - CLOSED_SETS <= set(model.privacy_.assumptions)


class Around(LogisticRegression):
    def __init__(self, inner=None):
        super().__init__()
        self.inner = inner


def test_a_ledger_further_inside_models_of_groups_is_refused():
    around = Around(clone(FM).set_params(ledger="spent.db"))
    with pytest.raises(ValueError, match="every clone would charge"):
        fitted(around, training="per_group")


@pytest.mark.parametrize("estimator", [FM, SGD], ids=["FM", "linear net"])
def test_exact_smoothing_agrees_with_drawn_parameters(estimator):
    model = fitted(estimator, std=0.4)
    assert model.model_.exact
    rng = np.random.default_rng(0)
    rows, theta = model.model_.embed(X), model.model_.vector
    draws = theta + 0.4 * rng.normal(size=(20_000, len(theta)))
    share = (rows @ draws.T > 0).mean(axis=1)
    # 600 rows, each off by more than .025 with chance 2 exp(-25) at most.
    assert np.abs(model.predict_proba(X)[:, 1] - share).max() < 0.025


@pytest.mark.slow
def test_a_nets_draws_agree_with_the_exact_form_where_both_exist():
    model = fitted(SGD, std=0.2)
    drawn = NetScore(model.estimator_.module_, model.estimator_.link_)
    share = drawn.positive(X[:10], 0.2, np.random.default_rng(0), 4000)
    # float32 scores; 10 rows, each off by more than .06 with chance 2 exp(-28).
    assert np.abs(model.predict_proba(X[:10])[:, 1] - share).max() < 0.06


def test_the_last_layer_of_a_net_is_smoothed_exactly():
    model = fitted(DEEP, std=0.3, part="head")
    assert model.model_.exact
    weights = model.estimator_.module_.head.weight.detach().numpy().ravel()
    assert model.model_.vector[:-1] == pytest.approx(weights)
    # Its decisions without noise are those of the net.
    unsmoothed = model.predict_proba(X)[:, 1] > 0.5
    assert (unsmoothed == (model.estimator_.predict(X) == 1)).mean() > 0.999


def test_draws_are_made_once_and_leave_the_net_alone():
    model = fitted(DEEP, std=0.1, n_draws=7)
    before = model.model_.vector
    first, second = model.predict_proba(X), model.predict_proba(X[::-1])[::-1]
    assert np.array_equal(first, second)
    assert np.array_equal(model.model_.vector, before)
    assert set(np.unique(first[:, 1] * 7).round(6)) <= set(range(8))


def test_drawn_decisions_have_the_smoothed_rates_and_belong_to_the_row():
    model = fitted(FM, std=4.0)
    chosen = model.predict(X) == 1
    positive = model.predict_proba(X)[:, 1]
    spread = math.sqrt((positive * (1 - positive)).sum())
    assert abs(chosen.sum() - positive.sum()) < 6 * spread  # 6 standard deviations
    assert np.array_equal(model.predict(X[::-1])[::-1] == 1, chosen)
    assert (chosen != (positive > 0.5)).any()
    certain = fitted(FM, std=4.0, decision="threshold")
    assert np.array_equal(certain.predict(X) == 1, certain.predict_proba(X)[:, 1] > 0.5)


def test_fairsmooth_averages_models_trained_on_one_group_each():
    model = fitted(LogisticRegression(), training="per_group")
    own = []
    for group in "ab":
        member = group == GROUPS
        inner = LogisticRegression().fit(X[member], Y[member])
        own.append(np.append(inner.coef_, inner.intercept_))
    np.testing.assert_allclose(model.model_.vector, np.mean(own, axis=0))
    distances = [np.linalg.norm(theta - np.mean(own, axis=0)) for theta in own]
    np.testing.assert_allclose(model.distances_, distances)


def test_nets_of_groups_start_from_the_same_weights():
    still = DPSGDClassifier(
        epsilon=None, noise_multiplier=9.0, max_grad_norm=1e-9, max_epochs=1, progress=False
    )
    model = fitted(still, training="per_group", n_draws=2)
    # Clipped to nothing, training does not move them.
    assert np.allclose(*(m.vector for m in model.own_models_), atol=0.2)


def test_privacy_of_fairsmooth_is_the_largest_of_its_groups_models():
    model = fitted(FM, training="per_group")
    privacy = certify(model).privacy
    each = [part.privacy_.epsilon for part in model.estimators_]
    assert privacy.epsilon == max(each) <= 1.0
    assert dict(privacy.per_group) == dict(zip("ab", each, strict=True))
    assert any("the set of class labels is taken from the rows" in t for t in privacy.assumptions)
    assert any("a record is in one group" in text for text in privacy.assumptions)
    assert sum("set of class labels" in text for text in privacy.assumptions) == 1
    # Equal events cover both groups; those of batches differ with the group's size.
    assert privacy.event is not None
    assert certify(fitted(SGD, training="per_group", n_draws=2)).privacy.event is None


def test_smoothing_what_is_not_private_stays_so():
    for training in ("together", "per_group"):
        privacy = certify(fitted(LogisticRegression(), training=training)).privacy
        assert privacy.is_void
        assert "not an estimator of skfairdp" in privacy.assumptions[0]
    mixed = fitted(FM)
    assert certify(mixed).privacy == mixed.estimator_.privacy_
    assert isinstance(certify(mixed).privacy, PrivacyGuarantee)


def true_gap(model, rows, groups):
    positive = model.predict_proba(rows)[:, 1]
    return abs(positive[groups == "a"].mean() - positive[groups == "b"].mean())


@pytest.mark.parametrize("std", [0.5, 5.0, 50.0])
def test_the_length_of_the_weights_bounds_the_gap_of_any_population(std):
    model = fitted(FM, std=std)
    (claim,) = certify(model).fairness
    assert (claim.scope, claim.confidence_level) == ("any population", None)
    # The worst population: everybody of one group along the weights, of the other against.
    theta = model.model_.vector
    lengths = np.linalg.norm(theta)
    reached = ndtr(lengths / std) - ndtr(-lengths / std)
    assert claim.bound == pytest.approx(reached)
    rows = np.random.default_rng(0).normal(size=(4000, 5)) * 10
    side = np.where(rows @ theta[:-1] > 0, "a", "b")
    assert true_gap(model, rows, side) <= claim.bound
    for notion in ("equal_opportunity", "accuracy_parity"):
        assert certify(model, notion=notion).fairness[0].bound == claim.bound


def test_with_rows_both_bounds_on_averages_are_printed_and_share_the_error():
    model = fitted(FAIR_FM, std=10.0)
    held = two_groups(4000, seed=1)
    certificate = certify(model, *held[:2], sensitive_features=held[2], holdout="public")
    counted, direct, own, length = certificate.fairness
    # The first has the whole error, and counts what is answered.
    answers = model.predict(held[0])
    hits = [int((answers[held[2] == g] == 1).sum()) for g in "ab"]
    sizes = [int((held[2] == g).sum()) for g in "ab"]
    assert counted.bound == gap_upper_bound(hits, sizes)
    assert [c.scope for c in certificate.fairness] == [
        "deployed model",
        "averaged over its draws",
        "averaged over its draws",
        "any population",
    ]
    assert direct.method.startswith("Hoeffding")
    assert own.method.startswith("smoothing: every group's own model")
    assert length.method.startswith("smoothing: length")
    assert direct.bound < own.bound < 1.0
    assert {direct.confidence_level, own.confidence_level} == {0.95}
    assert any("times bounds of each" in text for text in own.assumptions)
    # Half of the error for each: the direct one alone would be narrower.
    alone = fitted(FM, std=10.0)
    counted_alone = certify(alone, *held[:2], sensitive_features=held[2], holdout="public")
    assert len(counted_alone.fairness) == 3
    # By hand.
    scores = np.zeros(4000)
    for group, model_of in zip("ab", model.own_models_, strict=True):
        member = held[2] == group
        scores[member] = model_of.positive(held[0][member], 10.0, np.random.default_rng(0), 1)
    rates = [scores[held[2] == g].mean() for g in "ab"]
    n = [(held[2] == g).sum() for g in "ab"]
    spread = math.sqrt(math.log(1 / 0.025) * sum(1 / m for m in n) / 2)
    tv = sum(smoothing_distance(model.distances_, 10.0))
    assert own.bound == pytest.approx(abs(rates[0] - rates[1]) + spread + tv)
    assert own.bound >= true_gap(model, held[0], held[2])


def test_the_certificates_first_sentence_quotes_one_bound_for_a_notion():
    held = two_groups(2000, seed=1)
    model = fitted(FAIR_FM, std=60.0)
    first = str(certify(model, held[0], sensitive_features=held[2], holdout="public")).splitlines()[
        0
    ]
    assert first.startswith("With 95 % confidence the selection rates of any two groups differ")
    assert first.count("selection rates") == 1
    first = str(certify(model)).splitlines()[0]
    assert first.startswith("For any people, averaged over the model's random draws (not")
    assert "held out" not in first


def test_private_holdouts_and_certain_decisions_make_no_second_bound():
    held = two_groups(1000, seed=1)
    private = certify(fitted(FAIR_FM), held[0], sensitive_features=held[2], count_epsilon=1.0)
    assert [claim.method[:9] for claim in private.fairness] == ["exact, fr", "smoothing"]
    certain = fitted(FAIR_FM, decision="threshold")
    claims = certify(certain, held[0], sensitive_features=held[2], holdout="public").fairness
    assert [claim.method[:5] for claim in claims] == ["exact"]


def test_few_draws_of_a_nets_noise_widen_its_second_bound():
    sums, trials, distances = np.array([[40.0, 30.0]]), np.array([[1e5, 1e5]]), np.zeros(2)
    exact = own_models_bound(sums, trials, distances, error=0.05)
    many = own_models_bound(sums, trials, distances, error=0.05, n_draws=10**6)
    few = own_models_bound(sums, trials, distances, error=0.05, n_draws=1000)
    assert exact < many < few
    assert few - exact == pytest.approx(math.sqrt(8 * math.log(2 / 0.005) / 1000), rel=0.02)
    assert own_models_bound(sums, np.array([[9.0, 0.0]]), distances, error=0.05) == 1.0


def test_no_smoothed_decision_moves_by_more_than_the_distance_of_gaussian_laws():
    # Worst rows found by search; the inequality is tight for a row along the difference.
    rng = np.random.default_rng(0)
    model = fitted(FM).model_
    for scale in (0.1, 1.0, 4.0):
        move = rng.normal(size=len(model.vector))
        move *= scale / np.linalg.norm(move)
        centred = [model.moved(half) for half in (move / 2, -move / 2)]
        rows = np.vstack([rng.normal(size=(2000, len(move))), move])
        values = [replace(m, embed=lambda z: z).positive(rows, 1.0, rng, 1) for m in centred]
        differences = np.abs(values[0] - values[1])
        bound = float(smoothing_distance(scale, 1.0))
        assert differences.max() <= bound + 1e-12
        assert differences[-1] == pytest.approx(bound)


BAD = {
    "no classifier": (object(), {}, "'estimator' parameter of SmoothedClassifier must be"),
    "pipeline": (make_pipeline(Normalizer(), LogisticRegression()), {}, "not a Pipeline around"),
    "unreadable": (GaussianNB(), {}, "whose parameters can be read"),
    "smooths itself": (FairDPClassifier(), {}, "set its 'smoothing'"),
    "compares groups": (FAIR_FM, {"training": "per_group"}, "set training='together'"),
    "sizes inside": (
        FunctionalMechanismClassifier((-6, 6), dataset_size=600),
        {"training": "per_group"},
        "declare 'group_sizes' here",
    ),
    "sizes, together": (FM, {"group_sizes": {"a": 1, "b": 2}}, "'group_sizes' is for"),
    "sizes, labels unknown": (
        LogisticRegression(),
        {"training": "per_group", "group_sizes": {"a": 300, "b": 300}},
        "declared 'classes'",
    ),
    "heads of groups": (DEEP, {"training": "per_group", "part": "head"}, "part='head' cannot"),
    "std": (FM, {"std": 0.0}, "'std'"),
    "draws": (FM, {"n_draws": 0}, "'n_draws'"),
    "decision": (FM, {"decision": "mean"}, "'decision'"),
    "training": (FM, {"training": "alone"}, "'training'"),
    "part": (FM, {"part": "body"}, "'part'"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_settings_are_refused_by_name(case):
    estimator, settings, message = BAD[case]
    model = SmoothedClassifier(estimator, **settings)
    with pytest.raises(ValueError, match=message):
        model.fit(X, Y, sensitive_features=GROUPS)
    assert not hasattr(model, "classes_")


@pytest.mark.parametrize(
    ("estimator", "settings", "message"),
    [
        (FairPathClassifier(), {}, "parameters can be read"),
        (DPAdditiveClassifier((-6, 6)), {}, "parameters can be read"),
        (PATEClassifier(), {}, "parameters can be read"),
        (DPSGDRegressor(target_bounds=(0, 1)), {}, "parameters can be read"),
        (AbstainingClassifier(FM), {}, "parameters can be read"),
        (SmoothedClassifier(FM), {}, "parameters can be read"),
        (DPSGDClassifier(TWO_LOGITS), {"part": "head"}, "single logit"),
        (DEEP, {"training": "per_group", "part": "head"}, "cannot be averaged"),
    ],
    ids=lambda part: type(part).__name__ if hasattr(part, "fit") else "",
)
def test_parameters_that_cannot_be_smoothed_are_refused_before_a_charge(
    estimator, settings, message, tmp_path
):
    ledger = PrivacyLedger(tmp_path / "spent.db", budget=(5.0, 1e-5))
    names = [name for name in estimator.get_params() if name.split("__")[-1] == "ledger"]
    charged = clone(estimator).set_params(**dict.fromkeys(names, ledger))
    with pytest.raises(ValueError, match=message):
        fitted(charged, **settings)
    assert not ledger.entries()
    if not settings:  # nets are made at fit
        with pytest.raises(ValueError, match=message):
            SmoothedClassifier(charged).quote(n_rows=600)


def test_a_linear_net_of_two_logits_gets_drawn_noise():
    net = clone(TWO_LOGITS).set_params(module__hidden_sizes=())
    model = fitted(DPSGDClassifier(net, max_epochs=1, progress=False), n_draws=11)
    assert not model.model_.exact
    assert set(np.unique(model.predict_proba(X)[:, 1] * 11).round(6)) <= set(range(12))


def test_the_weights_of_a_fair_linear_model_without_privacy_are_smoothed():
    assert fitted(CovarianceConstrainedClassifier()).model_.exact


def test_fairsmooth_needs_two_groups_and_two_classes():
    model = SmoothedClassifier(FM, training="per_group")
    with pytest.raises(ValueError, match="needs the group of every row"):
        model.fit(X, Y)
    with pytest.raises(ValueError, match="at least two groups"):
        model.fit(X, Y, sensitive_features=np.full(len(X), "a"))
    with pytest.raises(ValueError, match="Only binary"):
        model.fit(X, np.arange(len(X)) % 3, sensitive_features=GROUPS)
    assert not hasattr(LinearRegression, "classes_")


def test_a_group_with_one_label_trains_and_is_not_named():
    y = np.where(GROUPS == "b", 0, Y)
    model = SmoothedClassifier(FM, training="per_group").fit(X, y, sensitive_features=GROUPS)
    assert model.classes_.tolist() == [0, 1]
    assert np.isfinite(model.predict_proba(X)).all()


def test_what_compares_groups_is_not_fitted_on_each_by_itself():
    still = LagrangianDualClassifier(max_epochs=1, warmup_epochs=1, progress=False)
    with pytest.raises(ValueError, match="LagrangianDualClassifier\\) compares groups"):
        fitted(still, training="per_group", n_draws=2)


def test_groups_are_those_that_the_estimator_was_told():
    groups = np.where(np.arange(len(X)) == 7, "nobody knows", GROUPS).astype(object)
    sizes = DPSGDFClassifier(
        NET, group_sizes={"b": 300, "a": 300}, max_epochs=1, progress=False, delta=1e-6
    )
    model = SmoothedClassifier(sizes, n_draws=2).fit(X, Y, sensitive_features=groups)
    assert model.groups_ == model.estimator_.groups_ == ("b", "a")
    groups[7] = None  # allowed where the group alone is protected
    declared = LagrangianDualClassifier(
        groups=["a", "b"], max_epochs=1, warmup_epochs=1, progress=False
    )
    model = SmoothedClassifier(declared, n_draws=2).fit(X, Y, sensitive_features=groups)
    assert model.groups_ == ("a", "b")


def test_another_model_or_key_has_another_digest():
    model = fitted(FM)
    certificate = certify(model)
    assert certificate.verify(model)
    model.set_params(std=2.0)
    assert not certificate.verify(model)
    model.set_params(std=1.0).key_ = b"another"
    assert not certificate.verify(model)
