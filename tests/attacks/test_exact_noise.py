"""Attacks on the last bits of a release: float noise reveals everything, exact noise nothing.

numpy draws a normal number as a whole number of 52 bits times one of 256 constants (Marsaglia
and Tsang's ziggurat). Near zero a float64 has more bits than such products use. So a released
number near zero is one of them if nothing was added to it, and hardly ever one if anything
was: however small the sum of a record's gradient is, one release tells that it is there. No
epsilon stands for that, and the package says so (an assumption of every certificate with float
noise). With ``exact_noise=True`` the same numbers can come out whatever the sum is.
"""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from randomgen import UserBitGenerator
from scipy.special import log_ndtr
from sklearn.datasets import make_classification

from skfairdp import (
    Certificate,
    DPFermiClassifier,
    DPSGDClassifier,
    DPSGDFClassifier,
    FairDPClassifier,
    FunctionalMechanismClassifier,
    ImportanceSamplingDPSGDClassifier,
    LagrangianDualClassifier,
    PrivacyLedger,
    RateConstrainedClassifier,
)
from skfairdp.model_selection.budget import search_budget
from skfairdp.model_selection.number_of_runs import NumberOfRuns
from skfairdp.privacy import Block, NoiseSource, Plan, Segment, epsilon
from skfairdp.privacy.accounting.events import without_failures
from skfairdp.privacy.mechanisms.integer_noise import SCALE_BITS
from skfairdp.privacy.plan import GRID_FAILURE, GRID_MARGIN, LEAST_MULTIPLIER, MOST_NUMBERS
from tests.common.roster import EVERY, build, each
from tests.common.test_quotes import facts_of
from tests.privacy.plans import sgd_plan

NEAR_ZERO = 2.0**-14


def constant_of(layer: int) -> float:
    """What numpy multiplies whole numbers with in one layer, read off a rigged generator."""
    words = iter([(2**50 << 9) | layer])
    rigged = UserBitGenerator(lambda _: next(words, 0), bits=64)
    return float(np.random.Generator(rigged).standard_normal()) / 2**50


CONSTANTS = np.array([constant_of(layer) for layer in range(256)])


def untouched(released: np.ndarray) -> tuple[int, int]:
    """Of the released numbers near zero: how many there are, how many are products."""
    near = released[np.abs(released) < NEAR_ZERO]
    products = np.rint(near[:, None] / CONSTANTS) * CONSTANTS
    return len(near), int((products == near[:, None]).any(axis=1).sum())


@pytest.mark.parametrize("sum_of_the_record", [1e-7, -3e-9, 1e-12])
def test_one_float_release_tells_that_a_record_is_there(sum_of_the_record):
    """The sum is a millionth of the noise or less: epsilon below 1e-5 by any accountant."""
    noise = NoiseSource(generator_seed=0).gaussian(2**20, 1.0)
    near, found = untouched(noise)
    assert near > 20
    assert found == near
    near, found = untouched(noise + sum_of_the_record)
    assert near > 20
    assert found < near / 2


@pytest.mark.parametrize("sum_of_the_record", [0.0, 1e-7, -3e-9, 1e-12])
def test_exact_noise_releases_the_same_numbers_whatever_the_sum(sum_of_the_record):
    noise = NoiseSource(generator_seed=1)
    released = noise.on_grid(np.full(2**20, sum_of_the_record), 1.0)
    steps = released * 2.0**SCALE_BITS
    assert np.array_equal(steps, np.rint(steps))
    near, found = untouched(released)
    assert near > 20
    # Multiples of one number, near zero: none of 256 others', but for 0 itself.
    assert found <= near / 2


def test_parity_of_grid_steps_tells_nothing():
    """A sum of an odd number of steps: even and odd numbers come out alike."""
    noise = NoiseSource(generator_seed=2)
    for units in (0, 1, 12345):
        released = noise.on_grid(np.full(2**18, units * 2.0**-SCALE_BITS), 1.0)
        odd = int((np.rint(released * 2.0**SCALE_BITS).astype(np.int64) & 1).sum())
        # Five deviations of a fair coin: falsely fails once in 1.7 million runs.
        assert abs(odd - 2**17) < 5 * math.sqrt(2**16)


@settings(max_examples=200, derandomize=True, deadline=None)
@given(
    st.lists(st.floats(-1e6, 1e6) | st.floats(-1e-9, 1e-9), min_size=1, max_size=6),
    st.floats(1e-6, 1e3),
    st.integers(0, 2**32),
)
def test_a_sum_is_rounded_by_at_most_one_step(sums, std, seed):
    """What the margin is made from; cut sums are no farther apart than they were."""
    source, other = NoiseSource(generator_seed=seed), NoiseSource(generator_seed=seed)
    at_zero = source.on_grid(np.zeros(len(sums)), std)
    shifted = other.on_grid(np.array(sums), std)
    step = Fraction(std) / 2**SCALE_BITS
    for noise, released, exact in zip(at_zero, shifted, sums, strict=True):
        steps = min(max(Fraction(exact) / step, -(2**52)), 2**52)
        whole = round(Fraction(float(noise)) / step)
        # Released numbers are float64: whole steps times a float64 step, rounded once.
        moved = Fraction(float(released)) / step - whole
        assert abs(moved - steps) <= 1 + Fraction(abs(float(released))) / step * Fraction(2) ** -52


def test_rounding_and_tails_are_charged():
    plan = sgd_plan(0.01, 1.1, 1000)
    exact = Plan(
        cells=plan.cells,
        segments=plan.segments,
        counts=(),
        adjacency=plan.adjacency,
        delta=plan.delta,
        exact_noise=True,
    )
    (segment,) = exact.segments
    charged = exact.charged_multiplier(segment, 0)
    # Two data sets are rounded apart by up to two steps in each of 2**24 numbers.
    moved = 1 / 1.1 + 2 * math.sqrt(MOST_NUMBERS) * 2.0**-SCALE_BITS
    assert charged == pytest.approx(1 / moved, rel=1e-15)
    assert charged < 1.1
    assert epsilon(plan) < epsilon(exact) < epsilon(plan) * (1 + 1e-6)
    blocks = (
        Block(name="a", max_norm=1.0, weights=(1.0,), noise_std=2.0),
        Block(name="b", max_norm=1.0, weights=(1.0,), noise_std=3.0),
    )
    both = Plan(
        cells=("all",),
        segments=(Segment(steps=1, rates=(0.1,), expected_sizes=(1.0,), blocks=blocks),),
        exact_noise=True,
        adjacency="zero-out",
        delta=1e-6,
    )
    expected = sum((1 / s + GRID_MARGIN) ** 2 for s in (2.0, 3.0)) ** -0.5
    assert both.charged_multiplier(both.segments[0], 0) <= expected


def test_tails_that_are_never_drawn_are_rarer_than_charged():
    plan = Plan(cells=("all",), segments=(), exact_noise=True, adjacency="zero-out", delta=1e-6)
    failure = plan.charged_failure(Segment(steps=1, rates=(1.0,), expected_sizes=(1.0,), blocks=()))
    tails = math.log(2 * MOST_NUMBERS) + log_ndtr(-(16.0 - 1.0 / LEAST_MULTIPLIER))
    assert tails <= math.log(failure)
    assert failure <= 2.0**-80


MECHANISMS = [
    DPSGDClassifier,
    DPSGDFClassifier,
    FairDPClassifier,
    DPFermiClassifier,
    ImportanceSamplingDPSGDClassifier,
    RateConstrainedClassifier,
    LagrangianDualClassifier,
]


@pytest.fixture
def releases(monkeypatch):
    """Every Gaussian release: whether it was on a grid, and what came out."""
    seen = {"float": 0, "grid": []}
    gaussian, on_grid = NoiseSource.gaussian, NoiseSource.on_grid

    def counted(self, *arguments, **options):
        seen["float"] += 1
        return gaussian(self, *arguments, **options)

    def kept(self, sums, std):
        released = on_grid(self, sums, std)
        seen["grid"].append((released.copy(), std))
        return released

    monkeypatch.setattr(NoiseSource, "gaussian", counted)
    monkeypatch.setattr(NoiseSource, "on_grid", kept)
    return seen


def fitted(kind, **settings):
    X, y = make_classification(400, random_state=0)
    groups = (X[:, 0] > 0).astype(int)
    model = kind(epsilon=2.0, delta=1e-4, max_epochs=2, progress=False, **settings)
    return model.fit(X, y, sensitive_features=groups)


@pytest.mark.parametrize("kind", MECHANISMS)
def test_every_sum_of_a_fit_is_on_a_grid_by_default(kind, releases):
    model = fitted(kind)
    assert releases["float"] == 0
    noisy = sum(segment.steps for segment in model.plan_.segments if segment.blocks)
    assert len(releases["grid"]) >= noisy > 0
    for released, std in releases["grid"]:
        steps = released / (std * 2.0**-SCALE_BITS)
        assert np.abs(steps - np.rint(steps)).max() <= np.abs(steps).max() * 2.0**-50
    assert model.plan_.exact_noise
    assert model.privacy_.epsilon <= 2.0
    text = " ".join(model.privacy_.assumptions)
    assert "drawn exactly" in text
    assert "last bits" not in text
    assert "set aside for tails" in model.privacy_.accountant


@pytest.mark.parametrize("kind", MECHANISMS[:2])
def test_without_it_the_certificate_says_what_is_not_covered(kind, releases):
    model = fitted(kind, exact_noise=False)
    assert releases["grid"] == []
    assert releases["float"] > 0
    text = " ".join(model.privacy_.assumptions)
    assert "last bits is not covered" in text
    assert "drawn exactly" not in text


def test_what_is_not_proved_is_refused():
    X, y = make_classification(400, random_state=0)
    model = DPSGDClassifier(epsilon=None, noise_multiplier=0.2, exact_noise=True, delta=1e-4)
    with pytest.raises(ValueError, match=r"multipliers from 0\.25; got 0\.2"):
        model.fit(X, y)
    plan = Plan(
        cells=("all",),
        segments=sgd_plan(0.1, 1.0, 1).segments,
        exact_noise=True,
        adjacency="zero-out",
        delta=1e-6,
    )
    plan.check_exact_noise(MOST_NUMBERS // 4)
    with pytest.raises(ValueError, match="numbers; this net has"):
        plan.check_exact_noise(MOST_NUMBERS)


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_moments_of_the_functional_mechanism_are_on_a_grid(noise, releases, monkeypatch):
    kept = []
    on_grid = NoiseSource.laplace_on_grid
    monkeypatch.setattr(
        NoiseSource, "laplace_on_grid", lambda *of: kept.append(of[1].size) or on_grid(*of)
    )
    X, y = make_classification(400, 5, random_state=0)
    bounds = (-10.0, 10.0)
    model = FunctionalMechanismClassifier(
        noise=noise, feature_bounds=bounds, epsilon=2.0, delta=1e-4
    )
    model.fit(X, y)
    assert releases["float"] == 0
    sizes = kept if noise == "laplace" else [released.size for released, _ in releases["grid"]]
    assert sizes == [6, 6, 15]
    assert model.privacy_.epsilon <= 2.0


@each(EVERY)
def test_no_default_certificate_assumes_that_nobody_reads_last_bits(name):
    model = build(name)
    quoted = model.quote(**facts_of(name, model))
    assumed = () if quoted.privacy is None else quoted.privacy.assumptions
    assert not [text for text in assumed if "last bits is not covered" in text]


def test_a_certificate_with_floating_point_noise_would_be_seen():
    quoted = DPSGDClassifier(exact_noise=False).quote(n_rows=10_000)
    assert [text for text in quoted.privacy.assumptions if "last bits is not covered" in text]


@pytest.mark.slow
def test_accuracy_does_not_suffer():
    """The same steps with either noise: two fits differ as two fits always do."""
    X, y = make_classification(3000, random_state=0)
    scores = {
        exact: np.mean(
            [
                DPSGDClassifier(epsilon=4.0, exact_noise=exact, progress=False)
                .fit(X, y)
                .score(X, y)
                for _ in range(3)
            ]
        )
        for exact in (False, True)
    }
    assert abs(scores[True] - scores[False]) < 0.05


def exactly(plan: Plan) -> Plan:
    return dataclasses.replace(plan, exact_noise=True)


def test_a_search_leaves_room_for_what_may_fail_in_any_candidate():
    runs = NumberOfRuns(5.0, 1.0)
    plans = [lambda sigma, n=n: sgd_plan(0.02, sigma, n) for n in (200, 2000)]
    budget = search_budget(lambda sigma: exactly(plans[0](sigma)), runs, 2.0, 1e-5)
    assert without_failures(budget.event)[1] >= 2000 * GRID_FAILURE
    assert budget.epsilon <= 2.0
    assert budget.multiplier_for(lambda sigma: exactly(plans[1](sigma))) > budget.multiplier
    without = search_budget(plans[0], runs, 2.0, 1e-5)
    assert without_failures(without.event)[1] == 0.0
    with pytest.raises(ValueError, match="exact_noise on the estimator"):
        without.multiplier_for(lambda sigma: exactly(plans[0](sigma)))


def test_a_certificate_and_a_ledger_keep_what_may_fail(tmp_path):
    ledger = PrivacyLedger(tmp_path / "ledger.db", "people", budget=(5.0, 1e-3))
    first = fitted(DPSGDClassifier, exact_noise=True, ledger=ledger)
    fitted(DPSGDClassifier, exact_noise=True, ledger=ledger)
    (total,) = ledger.totals()
    assert first.privacy_.epsilon < total.epsilon < 5.0
    assert without_failures(total.event)[1] == pytest.approx(2 * first.plan_.steps * GRID_FAILURE)
    certificate = first.certify()
    again = Certificate.from_json(certificate.to_json())
    assert again == certificate
    stored = again.privacy
    assert epsilon(stored.event, stored.delta, stored.adjacency) == pytest.approx(stored.epsilon)
