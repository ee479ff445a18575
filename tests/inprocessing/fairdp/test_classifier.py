"""FairDP: plan, loop, head, ensembles, stopping."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy import stats
from skorch import NeuralNet
from torch import nn

from skfairdp import FairDPClassifier
from skfairdp.engine import nets
from skfairdp.engine.inference import outputs
from skfairdp.engine.objectives import BinaryObjective
from skfairdp.engine.release import NoisyRelease
from skfairdp.exceptions import PrivacyWarning
from skfairdp.inprocessing.fairdp.checks import GapStop
from skfairdp.inprocessing.fairdp.head_ensembles import row_uniforms
from skfairdp.privacy.accounting.plan_cost import epsilons
from skfairdp.privacy.sizes import Sizes
from tests.inprocessing.rows import two_groups

REFERENCE = Sizes(("small", "large"), (10_771, 21_790), "add-remove")


def reference_plan(**changes):
    settings = dict(
        max_grad_norm=0.5,
        batch_size=round(0.01 * REFERENCE.total),
        final_batch_size=None,
        max_epochs=10,
        sampling={"small": 0.01, "large": 0.01},
        group_update="mean",
        releases="average",
        sgd_fraction=0.1,
        n_heads=1,
        delta=1e-5,
    )
    return FairDPClassifier(**{**settings, **changes})._plan(REFERENCE, 1.2)


@pytest.mark.usefixtures("accounted_finely")
def test_charging_for_the_average_gives_the_reference_epsilons():
    plan = reference_plan()
    assert plan.steps == 1000
    costs = epsilons(plan)
    assert costs["small"] == pytest.approx(1.0877, abs=5e-4)
    assert costs["large"] == pytest.approx(0.4283, abs=5e-4)


@pytest.mark.usefixtures("accounted_finely")
def test_charging_for_group_models_gives_the_published_epsilon():
    costs = epsilons(reference_plan(releases="group_models"))
    assert list(costs.values()) == pytest.approx([1.2986, 1.2986], abs=5e-4)


def test_micro_batches_cost_nothing_more():
    assert epsilons(reference_plan(n_heads=10)) == epsilons(reference_plan())


@pytest.mark.parametrize("group_update", ["mean", "sum"])
def test_multiplier_of_a_group_follows_the_derivation(group_update):
    plan = reference_plan(group_update=group_update)
    b = plan.segments[0].expected_sizes
    for k in range(2):
        expected = (
            1.2 * b[k] * math.sqrt(sum(1 / x**2 for x in b))
            if group_update == "mean"
            else 1.2 * math.sqrt(2)
        )
        assert plan.segments[0].multiplier(k) == pytest.approx(expected, rel=1e-12)


def test_the_average_needs_root_k_less_noise_for_equal_groups():
    equal = Sizes(tuple("abcd"), (5000,) * 4, "zero-out")
    settings = dict(
        max_grad_norm=1.0, batch_size=200, final_batch_size=None, max_epochs=1,
        sampling="proportional", group_update="mean", sgd_fraction=0.1, n_heads=1, delta=1e-5,
    )  # fmt: skip
    average = FairDPClassifier(releases="average", **settings)._plan(equal, 1.0)
    published = FairDPClassifier(releases="group_models", **settings)._plan(equal, 1.0)
    ratio = average.segments[0].multiplier(0) / published.segments[0].multiplier(0)
    assert ratio == pytest.approx(2.0)


def test_phases_follow_the_plan_and_the_head_stays_in_its_ball(monkeypatch):
    X, y, groups = two_groups()
    norms, segments = [], []
    original = NoisyRelease.gradient

    def watched(self, segment):
        segments.append(segment)
        head = vectors[-1][flats[-1].positions("head")]
        norms.append(float(head.norm()))
        return original(self, segment)

    flats, vectors = [], []
    original_flatten = nets.flatten

    def flatten(module):
        flats.append(original_flatten(module))
        vectors.append(flats[-1].vector)
        return flats[-1]

    monkeypatch.setattr(nets, "flatten", flatten)

    monkeypatch.setattr(NoisyRelease, "gradient", watched)
    model = FairDPClassifier(max_epochs=4, max_head_norm=0.3, sgd_fraction=0.2, n_heads=3)
    model.fit(X, y, sensitive_features=groups)
    first, second, last = model.plan_.segments
    assert segments == [first] * first.steps + [second] * second.steps
    assert (first.steps, second.steps, last.steps, last.n_heads) == (32, 7, 1, 3)
    assert max(norms) <= 0.3 * (1 + 1e-6)
    assert model.heads_.shape == (3, 65)


@pytest.mark.parametrize("n_heads", [1, 6])
def test_the_mean_score_is_the_score_of_the_modules_head(n_heads):
    X, y, groups = two_groups()
    model = FairDPClassifier(max_epochs=2, n_heads=n_heads, sgd_learning_rate=0.5)
    model.fit(X, y, sensitive_features=groups)
    score = outputs(model.module_, X)[:, 0]
    np.testing.assert_allclose(model.decision_function(X), score, atol=1e-4)
    np.testing.assert_array_equal(model.predict(X), (score > 0).astype(int))


def ensemble(prediction="gibbs", smoothing=None, n_heads=9, seed=0):
    rng = np.random.default_rng(seed)
    model = FairDPClassifier(prediction=prediction, smoothing=smoothing)
    model.heads_, model.key_ = rng.normal(size=(n_heads, 4)), b"key"
    return model


def test_a_drawn_head_decides_positively_as_often_as_heads_do():
    X = np.random.default_rng(1).normal(size=(5000, 3))
    model = ensemble()
    rates = model._decide(X, X).mean(), model._positive(X).mean()
    # Independent keyed draws: Hoeffding with failure probability 1e-6.
    assert abs(rates[0] - rates[1]) < math.sqrt(math.log(2e6) / (2 * 5000))


def test_smoothing_has_the_exact_probability_of_fresh_noise_on_the_head():
    rng = np.random.default_rng(2)
    features = rng.normal(size=(6, 3))
    model = ensemble("score_mean", smoothing=0.7, n_heads=1)
    draws = 40_000
    noisy = model.heads_[0] + 0.7 * rng.standard_normal((draws, 4))
    share = ((features @ noisy[:, :-1].T + noisy[:, -1]) > 0).mean(axis=1)
    error = stats.norm.isf(1e-7) * 0.5 / math.sqrt(draws)
    np.testing.assert_allclose(model._positive(features), share, atol=error)


def test_a_row_gets_the_same_draw_whatever_its_company():
    X = np.random.default_rng(3).normal(size=(50, 3))
    together = row_uniforms(X, b"k")
    np.testing.assert_array_equal(together[::-1], row_uniforms(X[::-1], b"k"))
    np.testing.assert_array_equal(row_uniforms(X[7:8], b"k"), together[7:8])
    assert (row_uniforms(X, b"other") != together).all()
    np.testing.assert_array_equal(
        row_uniforms(-np.zeros((1, 3)), b"k"), row_uniforms(np.zeros((1, 3)), b"k")
    )
    assert stats.kstest(row_uniforms(np.arange(4000.0)[:, None], b"k"), "uniform").pvalue > 1e-6


def test_votes_and_single_heads_agree_for_one_head():
    X = np.random.default_rng(4).normal(size=(40, 3))
    decisions = [ensemble(p, n_heads=1)._decide(X, X) for p in ("score_mean", "vote", "gibbs")]
    np.testing.assert_array_equal(decisions[0], decisions[1])
    np.testing.assert_array_equal(decisions[0], decisions[2])


def test_smoothing_cannot_be_combined_with_votes():
    X, y, groups = two_groups(100)
    with pytest.raises(ValueError, match="'smoothing' works on the mean head"):
        FairDPClassifier(smoothing=1.0, prediction="vote").fit(X, y, sensitive_features=groups)


def test_declared_sizes_fix_groups_rates_and_adjacency():
    X, y, groups = two_groups()
    sizes = {"a": 300, "b": 100, "c": 50}
    model = FairDPClassifier(group_sizes=sizes, max_epochs=2)
    model.fit(X, y, sensitive_features=groups)  # nobody of group "c" is there
    assert model.groups_ == ("a", "b", "c")
    assert model.privacy_.adjacency == "add-remove"
    assert set(model.privacy_.per_group) == {"a", "b", "c"}
    assert model.plan_.segments[0].rates[0] == pytest.approx(45 / 450)


def test_rows_of_an_undeclared_group_contribute_nothing():
    X, y, groups = two_groups(300)
    settings = dict(
        group_sizes={"a": 200, "b": 100}, max_epochs=2, random_state=0, reproducible_noise=True
    )
    plain = FairDPClassifier(**settings).fit(X, y, sensitive_features=groups)
    more = FairDPClassifier(**settings).fit(
        np.vstack([X, X[:1]]), np.append(y, 1), sensitive_features=np.append(groups, "z")
    )
    np.testing.assert_array_equal(plain.heads_, more.heads_)


def test_bought_sizes_come_out_of_the_budget():
    X, y, groups = two_groups()
    model = FairDPClassifier(epsilon=1.0, group_sizes_epsilon=0.2, max_epochs=2)
    model.fit(X, y, sensitive_features=groups)
    assert model.plan_.prior_epsilon == 0.2
    # What the plan costs depends on the noisy answer; only the budget was fixed before.
    assert model.privacy_.epsilon == 1.0
    assert 0.98 < max(epsilons(model.plan_).values()) <= 1.0
    with_multiplier = FairDPClassifier(
        epsilon=None, noise_multiplier=2.0, group_sizes_epsilon=0.2, max_epochs=2
    ).fit(X, y, sensitive_features=groups)
    assert with_multiplier.privacy_.is_void
    with pytest.raises(ValueError, match="uses up"):
        FairDPClassifier(epsilon=1.0, group_sizes_epsilon=1.0).fit(X, y, sensitive_features=groups)


@pytest.mark.parametrize("tolerance", [0.0, 1.0])
def test_stopping_pays_for_every_planned_table(tolerance):
    X, y, groups = two_groups()
    model = FairDPClassifier(
        epsilon=2.0, max_epochs=7, check_every=2, check_epsilon=0.1, stop_tolerance=tolerance
    ).fit(X, y, sensitive_features=groups)
    assert model.plan_.counts[0].releases == 3
    assert 1 <= len(model.released_gaps_) <= 3
    assert model.privacy_.epsilon <= 2.0
    without = FairDPClassifier(epsilon=2.0, max_epochs=7).fit(X, y, sensitive_features=groups)
    assert model.noise_multiplier_ > without.noise_multiplier_


def test_tables_that_eat_the_budget_are_refused():
    X, y, groups = two_groups(100)
    with pytest.raises(ValueError, match="'check_epsilon' = 0.5 for 3 tables uses up"):
        FairDPClassifier(stop_tolerance=0.1, check_epsilon=0.5).fit(X, y, sensitive_features=groups)


def test_stopping_keeps_the_last_model_within_the_target():
    vector = torch.zeros(2)
    gaps = iter([0.3, 0.1, 0.15, 0.4, 0.05])

    class Tables:
        def counts(self, price, assign, n):
            gap = next(gaps)
            rate = np.array([0.5 + gap / 2, 0.5 - gap / 2])
            table = np.zeros((2, 2, 2))
            table[:, 0, 1], table[:, 0, 0] = 1000 * rate, 1000 * (1 - rate)
            return table.ravel()

    run = SimpleNamespace(
        release=Tables(),
        plan=SimpleNamespace(counts=(SimpleNamespace(releases=5),), cells=("a", "b")),
        prepared=SimpleNamespace(flat=SimpleNamespace(vector=vector)),
        steps_per_epoch=5,
    )
    stop = GapStop(run, FairDPClassifier(stop_tolerance=0.2, check_every=2), cut=0.0)
    ended = []
    for step in range(1, 51):
        vector.fill_(step)
        ended.append(stop.after_step(step))
        if ended[-1]:
            break
    assert step == 40
    assert stop.gaps == pytest.approx([0.3, 0.1, 0.15, 0.4])
    stop.restore()
    assert vector.tolist() == [30.0, 30.0]


def test_one_group_by_name_is_refused():
    X, y, _ = two_groups(100)
    with pytest.raises(ValueError, match="at least two groups"):
        FairDPClassifier().fit(X, y, sensitive_features=["a"] * 100)


def test_a_total_without_group_sizes_is_refused_where_there_are_groups():
    X, y, groups = two_groups(100)
    with pytest.raises(ValueError, match="'dataset_size' = 500 declares no size of a group"):
        FairDPClassifier(dataset_size=500).fit(X, y, sensitive_features=groups)


@pytest.mark.parametrize("threshold", [0.3, 0.5, 0.8])
def test_the_sign_of_the_score_is_the_decision(threshold):
    X, y, groups = two_groups()
    model = FairDPClassifier(threshold=threshold, max_epochs=2)
    model.fit(X, y, sensitive_features=groups)
    np.testing.assert_array_equal(model.decision_function(X) > 0, model.predict(X) == 1)


def test_group_specific_noise_and_rates():
    X, y, groups = two_groups()
    model = FairDPClassifier(
        epsilon=None,
        noise_multiplier={"a": 1.0, "b": 3.0},
        sampling={"a": 0.05, "b": 0.2},
        releases="group_models",
        max_epochs=2,
    ).fit(X, y, sensitive_features=groups)
    segment = model.plan_.segments[0]
    assert segment.rates == (0.05, 0.2)
    assert (segment.multiplier(0), segment.multiplier(1)) == (1.0, 3.0)
    with pytest.raises(ValueError, match="'noise_multiplier' must map every group"):
        FairDPClassifier(epsilon=None, noise_multiplier={"a": 1.0}).fit(
            X, y, sensitive_features=groups
        )


def test_balanced_sampling_draws_as_many_of_every_group():
    X, y, groups = two_groups()
    model = FairDPClassifier(sampling="balanced", max_epochs=1)
    model.fit(X, y, sensitive_features=groups)
    assert model.plan_.segments[0].expected_sizes == pytest.approx((20.0, 20.0))


def test_without_noise_nothing_is_promised():
    X, y, groups = two_groups()
    with pytest.warns(PrivacyWarning):
        model = FairDPClassifier(
            epsilon=float("inf"), max_epochs=2, stop_tolerance=0.5, check_every=1
        ).fit(X, y, sensitive_features=groups)
    assert model.privacy_ is None


class AroundTheHead(nn.Module):
    def __init__(self, n_features=5):
        super().__init__()
        self.head = nn.Linear(n_features, 1)

    def forward(self, X):
        return self.head(torch.tanh(X)) + X.sum(dim=1, keepdim=True)


class FrozenBias(nn.Module):
    def __init__(self, n_features=5):
        super().__init__()
        self.features = nn.Linear(n_features, 3)
        self.head = nn.Linear(3, 1)
        self.head.bias.requires_grad_(False)

    def forward(self, X):
        return self.head(self.features(X))


class TiedHead(nn.Module):
    def __init__(self, n_features=5):
        super().__init__()
        self.features = nn.Linear(n_features, 1)
        self.head = nn.Linear(n_features, 1)
        self.head.weight = self.features.weight

    def forward(self, X):
        return self.head(X * self.features(X))


@pytest.mark.parametrize(
    ("module", "words"),
    [(AroundTheHead, "last layer"), (FrozenBias, "frozen"), (TiedHead, "shares")],
)
def test_a_head_that_is_not_all_that_decides_is_refused(module, words):
    X, y, groups = two_groups(200)
    net = NeuralNet(module, criterion=nn.BCEWithLogitsLoss)
    with pytest.raises(ValueError, match=words):
        FairDPClassifier(net, delta=1e-4).fit(X, y, sensitive_features=groups)


def test_the_mechanism_bound_is_that_of_the_fit_or_none_whatever_the_parameters_say_now():
    X, y, groups = two_groups(200)
    model = FairDPClassifier(delta=1e-4, max_epochs=1).fit(X, y, sensitive_features=groups)
    before = model.certify().fairness[0].bound
    given = model.get_params()
    model.set_params(max_head_norm=1e-9, max_grad_norm=1e-9, n_heads=50, sgd_learning_rate=1e9)
    changed = model.certify()
    assert changed.privacy.is_void
    assert changed.fairness == ()
    assert model.set_params(**given).certify().fairness[0].bound == before


def test_rows_of_unlisted_groups_count_for_nothing_when_one_group_is_declared():
    X, y, _ = two_groups(200)
    model = FairDPClassifier(
        epsilon=math.inf,
        delta=1e-4,
        max_epochs=1,
        batch_size=200,
        group_sizes={"a": 200},
        random_state=0,
        reproducible_noise=True,
    )
    with pytest.warns(PrivacyWarning):
        model.fit(X, y, sensitive_features=["a"] * 200)
    alone = model.heads_
    more, labels = np.vstack([X, X + 50]), np.append(y, 1 - y)
    with pytest.warns(PrivacyWarning):
        model.fit(more, labels, sensitive_features=["a"] * 200 + ["z"] * 200)
    assert np.allclose(alone, model.heads_)


class Mixing(nn.Module):
    def forward(self, X):
        return (X - X.mean(dim=0)).sum(dim=1, keepdim=True)


def test_the_table_for_stopping_takes_each_row_by_itself():
    X = torch.randn(50, 3) + 1.0
    rows = SimpleNamespace(X=X, codes=np.zeros(50, dtype=int), targets=(torch.zeros(50),))

    def cells(module):
        prepared = SimpleNamespace(module=module)
        run = SimpleNamespace(prepared=prepared, decisions=BinaryObjective().decisions)
        return GapStop(run, FairDPClassifier(), cut=0.0)._cell(rows)

    assert not cells(Mixing()).any()
    noisy = nn.Sequential(nn.Linear(3, 1), nn.Dropout(0.9))
    assert (cells(noisy) == (noisy[0](X).reshape(-1) > 0).numpy()).all()
    assert noisy.training
    assert noisy[1].training


@pytest.mark.parametrize("sampling", ["proportional", "balanced"])
def test_a_step_is_the_mean_over_groups_of_means_plus_the_noise_of_the_theory(sampling):
    for segment in reference_plan(sampling=sampling).segments:
        (block,), sizes = segment.blocks, np.array(segment.expected_sizes)
        assert np.allclose(np.array(block.weights) * sizes, 0.5)
        assert block.noise_std == pytest.approx(1.2 * 0.5 / 2 * math.sqrt((sizes**-2.0).sum()))
    for segment in reference_plan(sampling=sampling, group_update="sum").segments:
        (block,) = segment.blocks
        assert block.weights == (0.5, 0.5)
        assert block.noise_std == pytest.approx(1.2 * 0.5 / math.sqrt(2))
