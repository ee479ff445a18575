"""Composition of pure statements, of relations that accountants don't know, and at small deltas.

A direct convolution, with which the one by Fourier transforms is compared, adds positive products,
so it has no round-off to speak of: each value is right to some 1e-11 of itself.
"""

from __future__ import annotations

import dataclasses
import math

import mpmath as mp
import numpy as np
import pytest
from dp_accounting.dp_event import DiscreteLaplaceDpEvent, GaussianDpEvent

from skfairdp.privacy import PrivacyGuarantee, compose, epsilon
from skfairdp.privacy.accounting import composition
from skfairdp.privacy.accounting.composition import composed_epsilon
from skfairdp.privacy.accounting.loss_distributions import ROUNDING, Losses, gaussian, two_points

PURE = PrivacyGuarantee(0.3, 0.0, "zero-out", event=DiscreteLaplaceDpEvent(0.3, 1))
STATED = PrivacyGuarantee(0.3, 1e-7, "zero-out")
ATTRIBUTE = PrivacyGuarantee(
    0.5, 1e-7, "change-attribute", "sensitive_features", event=GaussianDpEvent(9.0)
)
NOISY = PrivacyGuarantee(
    epsilon(GaussianDpEvent(5.0), 1e-6, "zero-out"), 1e-6, "zero-out", event=GaussianDpEvent(5.0)
)


@pytest.mark.parametrize("count", [2, 8, 20, 50])
@pytest.mark.parametrize("item", [PURE, STATED])
def test_without_a_delta_pure_releases_add_up_and_stay_finite(item, count) -> None:
    total = compose([item] * count)
    assert total.epsilon == pytest.approx(0.3 * count)
    assert total.epsilon <= 0.3 * count * (1 + 1e-9)
    assert total.delta == pytest.approx(item.delta * count)


def test_with_a_delta_they_compose_to_less() -> None:
    assert compose([PURE] * 50, delta=1e-6).epsilon < 0.75 * 15.0
    assert compose([STATED] * 50, delta=5e-6 + 1e-6).epsilon < 0.75 * 15.0


def test_a_mixture_is_at_most_its_parts_added() -> None:
    total = compose([NOISY, STATED, STATED])
    assert total.delta == pytest.approx(1e-6 + 2e-7)
    assert NOISY.epsilon < total.epsilon <= NOISY.epsilon + 0.6


def test_statements_of_a_relation_that_no_accountant_knows_compose() -> None:
    local = dataclasses.replace(ATTRIBUTE, adjacency="local")
    total = compose([local] * 3)
    assert (total.adjacency, total.protects) == ("local", "sensitive_features")
    assert total.epsilon == pytest.approx(1.5)  # their events are not read under another relation
    assert total.delta == pytest.approx(3e-7)
    void = dataclasses.replace(local, epsilon=math.inf)
    assert compose([local, void]).is_void


def test_events_about_a_changed_attribute_are_read_in_both_groups() -> None:
    total = compose([ATTRIBUTE] * 3)
    assert (total.adjacency, total.protects) == ("change-attribute", "sensitive_features")
    # Three releases, each seen in the group that is left and in the one that is joined.
    once = epsilon(GaussianDpEvent(9.0 / math.sqrt(6.0)), 1e-7, "add-remove")
    assert total.epsilon == pytest.approx(once, rel=1e-3)
    assert (total.delta, total.event is None) == (1e-7, False)


def test_a_promise_about_a_changed_attribute_is_added_to_events() -> None:
    promise = dataclasses.replace(ATTRIBUTE, event=None)
    total = compose([ATTRIBUTE, ATTRIBUTE, promise])
    events = compose([ATTRIBUTE, ATTRIBUTE])
    assert total.epsilon == pytest.approx(events.epsilon + 0.5)
    assert (total.delta, total.event) == (pytest.approx(2e-7), None)
    assert compose([promise] * 3).epsilon == pytest.approx(1.5)


INTERVAL = 4e-3
DELTAS = (0.3, 1e-5, 1e-9, 1e-12, 1e-15, 1e-25)


def power(part: Losses, count: int) -> tuple[int, np.ndarray]:
    """Masses of `count` equal losses; what is below 1e-45 is dropped, which lowers delta."""

    def product(a, b):
        masses = np.convolve(a[1], b[1])
        kept = np.flatnonzero(masses > 1e-45)
        return a[0] + b[0] + int(kept[0]), masses[kept[0] : kept[-1] + 1]

    base, result = (part.lower, part.masses), None
    while True:
        if count & 1:
            result = base if result is None else product(result, base)
        count >>= 1
        if not count:
            return result
        base = product(base, base)


def spent_at(composed: tuple[int, np.ndarray], epsilon: float) -> float:
    loss = INTERVAL * (composed[0] + np.arange(len(composed[1])))
    above = loss > epsilon
    return float((composed[1][above] * -np.expm1(epsilon - loss[above])).sum())


def parts(rate: float, sigma: float, way: int = 0) -> Losses:
    return gaussian(rate, sigma, INTERVAL, 1e-40)[way]


def shortfall(part: Losses, count: int, delta: float, composed) -> float:
    """By which factor the direct delta, at the epsilon that was found, exceeds the given one."""
    found = composed_epsilon([(part, count)], INTERVAL, delta)
    return spent_at(composed, found) / delta - 1.0


CASES = [(0.01, 1.5, 2000, 0), (0.01, 1.1, 300, 0), (0.05, 2.0, 300, 1), (1.0, 20.0, 40, 0)]


@pytest.mark.parametrize(("rate", "sigma", "count", "way"), CASES)
def test_epsilon_is_that_of_the_direct_convolution_and_never_less(rate, sigma, count, way):
    part = parts(rate, sigma, way)
    composed = power(part, count)
    for delta in DELTAS:
        found = composed_epsilon([(part, count)], INTERVAL, delta)
        assert spent_at(composed, found) <= delta
        assert found == 0.0 or spent_at(composed, found - 1e-7) > delta * (1 - 1e-6)


def plain_transform(terms, weighted, first, size):
    """No bound on the error, and nothing added."""
    product = np.ones(size // 2 + 1, dtype=complex)
    for term, weights in zip(terms, weighted, strict=True):
        product *= np.fft.rfft(np.bincount(term.position % size, weights, size)) ** term.count
    return np.roll(np.fft.irfft(product, size), -(first % size))


def test_a_plain_transform_of_the_same_masses_hides_the_tail(monkeypatch):
    composed = {case: power(parts(*case[:2], case[3]), case[2]) for case in CASES}

    def worst() -> float:
        return max(
            shortfall(parts(rate, sigma, way), count, delta, composed[rate, sigma, count, way])
            for rate, sigma, count, way in CASES
            for delta in (1e-13, 1e-15, 1e-17)
        )

    assert worst() <= 0.0
    monkeypatch.setattr(composition, "_convolved", plain_transform)
    # The round-off of one transform has one sign nearly everywhere: not always the bad one.
    found = []
    for tilt in (0.5, 1.0, 2.0):
        monkeypatch.setattr(composition, "_tilt", lambda terms, delta, tilt=tilt: tilt)
        found.append(worst())
    assert max(found) > 0.5


def test_different_parts_compose():
    one, two, three = parts(0.02, 1.3), parts(0.005, 0.9), two_points(0.3, INTERVAL)
    composed = power(one, 100)
    for part, count in ((two, 50), (three, 3)):
        lower, masses = power(part, count)
        composed = composed[0] + lower, np.convolve(composed[1], masses)
    for delta in DELTAS:
        found = composed_epsilon([(one, 100), (two, 50), (three, 3)], INTERVAL, delta)
        assert spent_at(composed, found) <= delta
        assert found == 0.0 or spent_at(composed, found - 1e-7) > delta * (1 - 1e-6)


def test_mass_that_wraps_around_is_charged(monkeypatch):
    """With far too few points: too large an epsilon, never too small a one."""
    part = parts(0.05, 1.0)
    composed = power(part, 50)
    honest = composed_epsilon([(part, 50)], INTERVAL, 1e-6)
    monkeypatch.setattr(composition, "REACH", 1.0)
    cramped = composed_epsilon([(part, 50)], INTERVAL, 1e-6)
    assert spent_at(composed, cramped) <= 1e-6
    assert cramped >= honest - 1e-7


@pytest.mark.parametrize("kind", ["peak", "flat", "random"])
def test_the_error_of_a_transform_stays_below_its_bound(kind):
    size = 4096
    rng = np.random.default_rng(1)
    masses = {
        "peak": np.eye(1, size, 7)[0] + 1e-9,
        "flat": np.full(size, 1.0 / size),
        "random": rng.dirichlet(np.full(size, 0.3)),
    }[kind]
    found = np.fft.rfft(masses)
    worst = 0.0
    with mp.workdps(40):
        exact_masses = [mp.mpf(float(m)) for m in masses]
        for k in (1, 2, 3, 1365, 2047):
            turn = [mp.expjpi(mp.mpf(-2 * k * i) / size) for i in range(size)]
            exact = mp.fdot(exact_masses, turn)
            worst = max(worst, float(abs(exact - mp.mpc(complex(found[k])))))
    bound = composition.ERROR * math.log2(size) * ROUNDING * masses.sum()
    assert worst <= bound / 4  # 16 roundings a level were charged; measured below 1
    assert worst > 0.0 or kind != "random"


def test_infinite_losses_come_off_delta():
    part = Losses(-1, np.array([0.4, 0.2, 0.4]), 1e-7)
    assert composed_epsilon([(part, 100)], 0.1, 0.9e-5) == math.inf
    assert composed_epsilon([(part, 100)], 0.1, 1.1e-5) < math.inf
    assert composed_epsilon([(part, 100)], 0.1, 1.0) == 0.0


def test_a_pure_loss_costs_its_sum_at_delta_zero():
    part = two_points(0.7, 1e-4)
    assert composed_epsilon([(part, 2)], 1e-4, 0.0) == pytest.approx(1.4, abs=3e-4)
    assert composed_epsilon([(part, 2)], 1e-4, 1e-300) <= 1.4 + 3e-4
