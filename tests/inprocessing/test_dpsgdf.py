"""DPSGD-F: clipping norms that follow noisy counts of long gradients."""

from __future__ import annotations

import numpy as np
import pytest

from skfairdp import DPSGDFClassifier
from skfairdp.engine.release import NoisyRelease
from skfairdp.inprocessing.dpsgdf import adaptive_norms
from skfairdp.privacy.accounting.accountants import event_epsilon
from skfairdp.privacy.accounting.plan_cost import epsilons
from skfairdp.privacy.sizes import Sizes
from tests.inprocessing.rows import two_groups
from tests.privacy.oracle import oracle_epsilon

REFERENCE = Sizes(("a", "b"), (7_500, 2_500), "add-remove")


def reference_plan(multiplier=1.0, **changes):
    settings = dict(batch_size=100, max_epochs=10, delta=1e-5, count_noise_ratio=1.0)
    return DPSGDFClassifier(**{**settings, **changes})._plan(REFERENCE, multiplier)


def test_counts_and_gradient_of_a_batch_are_charged_as_one_query():
    plan = reference_plan()
    assert plan.steps == 1000
    assert plan.segments[0].rates == (0.01, 0.01)
    assert plan.segments[0].multiplier(0) == pytest.approx(2**-0.5)
    # Two queries charged apart, each with a batch of its own, would print 2.58.
    assert list(epsilons(plan).values()) == pytest.approx([4.4808] * 2, abs=5e-4)
    assert oracle_epsilon(plan, 1e-5) == pytest.approx(4.4808, rel=3e-3)


def test_renyi_accounting_of_the_reference_plan():
    from dp_accounting import dp_event
    from dp_accounting.rdp import RdpAccountant

    sigma = reference_plan().segments[0].multiplier(0)
    event = dp_event.PoissonSampledDpEvent(0.01, dp_event.GaussianDpEvent(float(sigma)))
    by_renyi = RdpAccountant().compose(event, 1000).get_epsilon(1e-5)
    assert by_renyi == pytest.approx(5.2612, abs=5e-4)
    whole = dp_event.SelfComposedDpEvent(event, 1000)
    assert event_epsilon(whole, 1e-5, "add-remove") <= by_renyi


@pytest.mark.usefixtures("accounted_finely")
def test_ten_times_the_noise_on_counts_costs_little():
    plan = reference_plan(count_noise_ratio=10.0)
    assert list(epsilons(plan).values()) == pytest.approx([1.8474] * 2, abs=5e-4)
    assert plan.segments[0].multiplier(0) == pytest.approx(1.01**-0.5)


@pytest.mark.parametrize(
    ("counts", "norms"),
    [
        ([[10, 90], [30, 70]], [0.5 * 1.5, 0.5 * 2.5]),  # shares .1 and .3, together .2
        ([[0, 100], [50, 50]], [0.5, 0.5 * 3.0]),
        ([[0, 0], [50, 50]], [0.5, 0.5 * 2.0]),  # nobody of the first group drawn
        ([[0, 100], [0, 100]], [0.5, 0.5]),  # nothing is long
        ([[0, 0], [0, 0]], [0.5, 0.5]),
        ([[-40, 100], [20, -10]], [0.5, 2.0]),
        ([[90, 10], [1, 900]], [2.0, 0.5 * (1 + (1 / 901) / (91 / 1001))]),
    ],
)
def test_norms_follow_the_share_of_long_gradients_within_their_range(counts, norms):
    got = adaptive_norms(np.array(counts, dtype=float), 0.5, 4.0)
    np.testing.assert_allclose(got, norms)


def test_norms_stay_in_their_range_whatever_the_noise():
    rng = np.random.default_rng(0)
    for scale in (1e-3, 1.0, 1e3, 1e12):
        counts = rng.normal(size=(500, 3, 2)) * scale
        norms = np.array([adaptive_norms(table, 0.7, 3.0) for table in counts])
        assert ((norms >= 0.7) & (norms <= 2.1)).all()


class Watch:
    """What each step gave to the optimizer, and what it was made of."""

    def __init__(self, monkeypatch):
        self.norms, self.stds = [], []
        adaptive, noisy = NoisyRelease.adaptive_gradient, NoisyRelease._noisy

        def watched(release, segment, base_norm, choose):
            gradient, norms = adaptive(release, segment, base_norm, choose)
            self.norms.append(norms)
            return gradient, norms

        def noisy_watched(release, total, std):
            self.stds.append(std)
            return noisy(release, total, std)

        monkeypatch.setattr(NoisyRelease, "adaptive_gradient", watched)
        monkeypatch.setattr(NoisyRelease, "_noisy", noisy_watched)


def test_the_loop_does_what_the_plan_says_and_keeps_released_norms_alone(monkeypatch):
    X, y, groups = two_groups()
    watch = Watch(monkeypatch)
    model = DPSGDFClassifier(max_epochs=3).fit(X, y, sensitive_features=groups)
    (segment,) = model.plan_.segments
    assert len(watch.norms) == segment.steps == 30
    # Counts, then the gradient, in units of the largest norm.
    assert watch.stds == [block.noise_std for block in segment.blocks] * 30
    means = np.mean(watch.norms, axis=0)
    assert model.clip_norms_ == pytest.approx({"a": means[0], "b": means[1]})
    assert segment.blocks[1].multiplier(0) == pytest.approx(model.noise_multiplier_)
    assert segment.blocks[0].multiplier(0) == pytest.approx(10 * model.noise_multiplier_)


@pytest.mark.slow
def test_noise_has_one_scale_whoever_is_drawn():
    """The published code takes the largest norm of the records in the batch."""
    from tests.engine.test_release import Bench, Chooser, counted, noise_is

    norms = (1.0, 3.0)  # the larger one belongs to a group that is not there
    bench = Bench(n=12)
    for present in ((0, 1), (0,), ()):
        codes = np.where(np.isin(bench.codes, present), bench.codes, -1)
        clean, noisy = counted(bench), counted(bench, (1.0, 0.05))
        exact = bench.release(codes).adaptive_gradient(clean, 1.0, Chooser(*norms))[0].clone()
        release = bench.release(codes)
        drawn = [
            (release.adaptive_gradient(noisy, 1.0, Chooser(*norms))[0] - exact).numpy()
            for _ in range(200)
        ]
        noise_is(np.stack(drawn), 0.05 * 3.0)


def test_a_factor_of_one_is_plain_clipping():
    X, y, groups = two_groups()
    model = DPSGDFClassifier(max_epochs=2, max_norm_factor=1.0, max_grad_norm=0.5)
    model.fit(X, y, sensitive_features=groups)
    assert model.clip_norms_ == {"a": 0.5, "b": 0.5}


def test_the_group_with_longer_gradients_gets_the_larger_norm():
    X, y, groups = two_groups(1500)
    rng = np.random.default_rng(1)
    y = np.where(groups == "b", rng.integers(2, size=len(y)), y)  # cannot be learned
    model = DPSGDFClassifier(epsilon=8.0, max_epochs=10, max_grad_norm=1.0)
    model.fit(X, y, sensitive_features=groups)
    assert model.clip_norms_["b"] > model.clip_norms_["a"] + 0.1


def test_several_classes_and_groups():
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=900)
    X = rng.normal(size=(900, 3)) + 2.5 * np.eye(3)[y]
    groups = np.array(["a", "b", "c"])[rng.integers(3, size=900)]
    model = DPSGDFClassifier(epsilon=5.0).fit(X, y, sensitive_features=groups)
    assert (model.predict(X) == y).mean() > 0.8


@pytest.mark.parametrize(
    ("setting", "value"), [("max_norm_factor", 0.9), ("count_noise_ratio", 0.0)]
)
def test_settings_out_of_range_are_named(setting, value):
    X, y, groups = two_groups(100)
    with pytest.raises(ValueError, match=setting):
        DPSGDFClassifier(**{setting: value}).fit(X, y, sensitive_features=groups)
