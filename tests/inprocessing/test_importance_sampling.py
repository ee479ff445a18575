"""DP-IS-SGD: balanced batches, charged at the largest rate."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from skfairdp import DPSGDClassifier, ImportanceSamplingDPSGDClassifier
from skfairdp.engine.release import NoisyRelease
from skfairdp.privacy.accounting.plan_cost import epsilons
from skfairdp.privacy.sizes import Sizes
from tests.inprocessing.rows import two_groups
from tests.privacy.oracle import oracle_epsilons

SIZES = Sizes(("large", "small"), (9_000, 1_000), "add-remove")


def plan_of(sizes=SIZES, multiplier=1.1, **settings):
    settings = {"batch_size": 100, "max_epochs": 10, "delta": 1e-5, **settings}
    return ImportanceSamplingDPSGDClassifier(**settings)._plan(sizes, multiplier)


def test_rates_give_every_group_the_same_expected_share():
    (segment,) = plan_of().segments
    assert segment.rates == pytest.approx((0.01 * 10_000 / (2 * 9_000), 0.05))
    assert segment.expected_sizes == pytest.approx((50.0, 50.0))
    assert segment.blocks[0].weights == pytest.approx((0.01, 0.01))
    assert segment.steps == 1000


def test_a_rate_is_at_most_one_and_the_divisor_is_what_is_then_expected():
    (segment,) = plan_of(Sizes(("large", "small"), (9_990, 10), "add-remove")).segments
    assert segment.rates == pytest.approx((50 / 9_990, 1.0))
    assert segment.expected_sizes == pytest.approx((50.0, 10.0))
    assert segment.blocks[0].weights == pytest.approx((1 / 60, 1 / 60))


def test_rates_of_three_groups_are_those_of_the_theory():
    sizes = Sizes(("a", "b", "c"), (9_000, 900, 100), "add-remove")
    (segment,) = plan_of(sizes, batch_size=1000).segments
    # p_g = min(1, q n / (K n_g)) with q n / K = 1000 / 3.
    assert segment.rates == pytest.approx((1000 / 3 / 9_000, 1000 / 3 / 900, 1.0))
    assert segment.expected_sizes == pytest.approx((1000 / 3, 1000 / 3, 100.0))


def test_privacy_is_that_of_the_largest_rate_and_stated_for_each_group():
    plan = plan_of()
    costs, expected = epsilons(plan), oracle_epsilons(plan, 1e-5)
    assert costs == pytest.approx(expected, rel=5e-3)
    assert costs["small"] > 5 * costs["large"]
    # The base rate, at which the published training script prints, would say 1.5154.
    assert costs["small"] > 1.5154


def test_the_certificate_states_the_largest_and_every_groups_epsilon():
    X, y, groups = two_groups()
    model = ImportanceSamplingDPSGDClassifier(
        group_sizes={"large": 9_000, "small": 1_000},
        batch_size=100,
        max_epochs=1,
        epsilon=None,
        noise_multiplier=1.1,
        delta=1e-5,
    ).fit(X, y, sensitive_features=np.where(groups == "a", "large", "small"))
    stated = model.privacy_
    assert stated.epsilon == max(stated.per_group.values()) == stated.per_group["small"]
    assert stated.per_group["large"] < stated.epsilon
    assert stated.adjacency == "add-remove"


def test_batches_have_as_many_of_every_group():
    from tests.engine.test_release import Bench

    bench = Bench(n=400)
    codes = np.where(np.arange(400) < 360, 0, 1)
    plan = plan_of(Sizes(("large", "small"), (360, 40), "zero-out"), batch_size=40)
    sampler = bench.release(codes)._batches.sampler
    sizes = np.array([sampler.draw(plan.segments[0].rates).sizes for _ in range(2000)])
    # Binomial(360, 1/18) and Binomial(40, 1/2), both with mean 20.
    for column, (n, rate) in enumerate(((360, 1 / 18), (40, 0.5))):
        error = stats.norm.isf(5e-7) * np.sqrt(n * rate * (1 - rate) / 2000)
        assert abs(sizes[:, column].mean() - 20.0) < error


def test_the_loop_does_what_the_plan_says(monkeypatch):
    X, y, groups = two_groups()
    seen = []
    original = NoisyRelease.gradient

    def watched(self, segment):
        seen.append(segment)
        return original(self, segment)

    monkeypatch.setattr(NoisyRelease, "gradient", watched)
    model = ImportanceSamplingDPSGDClassifier(max_epochs=3).fit(X, y, sensitive_features=groups)
    assert seen == [model.plan_.segments[0]] * model.plan_.steps


def test_groups_of_one_size_are_sampled_as_in_dp_sgd():
    plan = plan_of(Sizes(("a", "b"), (5_000, 5_000), "zero-out"))
    plain = DPSGDClassifier(batch_size=100, max_epochs=10, delta=1e-5)._plan(
        Sizes(("all",), (10_000,), "zero-out"), 1.1
    )
    assert plan.segments[0].rates == pytest.approx(plain.segments[0].rates * 2)
    assert plan.segments[0].blocks[0].noise_std == plain.segments[0].blocks[0].noise_std


def test_a_small_group_is_learned_better_than_without():
    """Where the groups' labels contradict each other, a linear net must choose."""
    rng = np.random.default_rng(0)
    groups = np.where(rng.random(4000) < 0.12, "small", "large")
    X = rng.normal(size=(4000, 2))
    y = np.where(groups == "large", X[:, 0] > 0, X[:, 0] < 0).astype(int)
    X[:, 1] += 0.5 * (groups == "small")
    settings = {"epsilon": 8.0, "net__module__hidden_sizes": (), "random_state": 0}
    small = groups == "small"
    accuracy = {}
    for kind in (DPSGDClassifier, ImportanceSamplingDPSGDClassifier):
        model = kind().set_params(**settings, max_epochs=10)
        model.fit(X, y, sensitive_features=groups)
        accuracy[kind] = (model.predict(X) == y)[small].mean()
    # Some 480 people: a standard error of at most .023.
    assert accuracy[ImportanceSamplingDPSGDClassifier] > accuracy[DPSGDClassifier] + 0.1


def test_several_classes():
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=900)
    X = rng.normal(size=(900, 3)) + 2.5 * np.eye(3)[y]
    groups = np.where(rng.random(900) < 0.2, "b", "a")
    model = ImportanceSamplingDPSGDClassifier(epsilon=5.0).fit(X, y, sensitive_features=groups)
    assert (model.predict(X) == y).mean() > 0.8
