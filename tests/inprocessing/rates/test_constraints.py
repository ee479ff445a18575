"""Tests of gaps from a table of predictions, and of the share of each record in them."""

from __future__ import annotations

import numpy as np
import pytest

from skfairdp.fairness.notions import NOTIONS
from skfairdp.inprocessing.rates.constraints import RateConstraints
from skfairdp.inprocessing.rates.training import DualAscent, Lagrangian, ScaledAscent

NAMES = list(NOTIONS)


def table(n_groups: int, n_classes: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.ones(n_groups * n_classes**2))
    return shares.reshape(n_groups, n_classes, n_classes)


def gaps_in(constraints: RateConstraints, H: np.ndarray, floor: float = 0.0) -> np.ndarray:
    masses = constraints.masses(H)
    rates = constraints.successes(H) / np.maximum(masses, max(floor, 1e-300))
    return constraints.gaps_of(rates, masses, floor=floor)


@pytest.mark.parametrize("notion", [*NAMES, ["demographic_parity", "equalized_odds"]], ids=str)
@pytest.mark.parametrize(("n_groups", "n_classes"), [(2, 2), (4, 2), (3, 4)])
@pytest.mark.parametrize("against", ["pairs", "population"])
def test_coefficients_are_derivatives_of_the_weighted_gaps(
    notion, n_groups, n_classes, against
) -> None:
    constraints = RateConstraints(notion, range(n_classes), n_groups, 0.1, against=against)
    rng = np.random.default_rng(1)
    multipliers = rng.normal(size=len(constraints))
    H = table(n_groups, n_classes)
    coefficients = constraints.coefficients_of(constraints.masses(H), multipliers)
    step = 1e-6
    for _ in range(20):
        group, label = rng.integers(n_groups), rng.integers(n_classes)
        source, target = rng.choice(n_classes, size=2, replace=False)
        moved = [H.copy(), H.copy()]  # predictions move mass within a cell
        for sign, other in zip((1.0, -1.0), moved, strict=True):
            other[group, label, target] += sign * step
            other[group, label, source] -= sign * step
        up, down = (multipliers @ gaps_in(constraints, other) for other in moved)
        expected = coefficients[group, label, target] - coefficients[group, label, source]
        assert (up - down) / (2 * step) == pytest.approx(expected, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("notion", NAMES)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_largest_gap_is_that_of_the_metrics(notion, n_classes) -> None:
    from skfairdp.metrics.gaps import group_gap

    rng = np.random.default_rng(2)
    y, predicted = rng.integers(0, n_classes, size=(2, 600))
    groups = rng.integers(0, 3, size=600)
    H = np.zeros((3, n_classes, n_classes))
    np.add.at(H, (groups, y, predicted), 1.0)
    constraints = RateConstraints(notion, range(n_classes), 3, 0.1)
    expected = group_gap(y, predicted, sensitive_features=groups, notion=notion)
    assert np.abs(gaps_in(constraints, H)).max() == pytest.approx(expected)


def test_a_rate_that_two_notions_share_is_constrained_once_by_the_smaller_tolerance() -> None:
    both = RateConstraints(
        ["equal_opportunity", "equalized_odds"],
        [0, 1],
        3,
        {"equal_opportunity": 0.01, "equalized_odds": 0.1},
    )
    assert len(both) == 2 * 3  # two labels, three pairs
    assert sorted(both.tolerances) == [0.01] * 3 + [0.1] * 3


@pytest.mark.parametrize("against", ["pairs", "population"])
def test_an_empty_cell_never_binds_and_never_raises(against) -> None:
    constraints = RateConstraints("equalized_odds", [0, 1], 2, 0.0, against=against)
    H = np.array([[[0.2, 0.1], [0.1, 0.2]], [[-1e-4, 1e-4], [0.3, 0.1]]])  # one cell: noise alone
    gaps = gaps_in(constraints, H, floor=0.01).reshape(2, -1)
    assert gaps[0, -1] == 0.0
    assert gaps[1, -1] != 0.0
    masses = constraints.masses(H)
    coefficients = constraints.coefficients_of(masses, np.ones(len(constraints)), floor=0.01)
    assert np.isfinite(coefficients).all()
    assert np.abs(coefficients).max() < 201.0


@pytest.mark.parametrize("tolerance", [-0.1, 1.0, float("nan"), True, "0.1", None])
def test_tolerances_outside_are_refused_by_name(tolerance) -> None:
    with pytest.raises(ValueError, match=r"'tolerance'.*\[0, 1\)"):
        RateConstraints("demographic_parity", [0, 1], 2, tolerance)


@pytest.mark.parametrize(
    "tolerances", [{}, {"equal_opportunity": 0.1}, {"demographic_parity": 0.1, "parity": 0.2}]
)
def test_tolerances_of_other_notions_are_refused(tolerances) -> None:
    with pytest.raises(ValueError, match="must map exactly the notions"):
        RateConstraints("demographic_parity", [0, 1], 2, tolerances)


def noisy_tables(H: np.ndarray, std: float, steps: int) -> np.ndarray:
    return H + np.random.default_rng(3).normal(0.0, std, size=(steps, *H.shape))


def test_tracked_rates_have_no_bias_from_noisy_divisors() -> None:
    """Group 1 has mass .04 and noise .02: a quotient of noisy sums is far off.

    Noise of a tracked rate: .02 * sqrt(.1 / 1.9) / .04 = .115; over 4,000 steps with a
    correlation time of 19 steps the mean has .115 * sqrt(19 / 4000) = .008. Five of them.
    """
    H = np.array([[[0.3, 0.3], [0.06, 0.3]], [[0.008, 0.008], [0.012, 0.012]]])
    constraints = RateConstraints("demographic_parity", [0, 1], 2, 0.05)
    lagrangian = Lagrangian(
        constraints,
        DualAscent(constraints.tolerances, rate=0.0, penalty=0.0, limit=1.0),
        memory=0.9,
        noise_std=0.02,
    )
    seen = []
    for released in noisy_tables(H, 0.02, 5000):
        lagrangian.observe(released)
        seen.append(lagrangian.rates[0].copy())
    assert np.mean(seen[1000:], axis=0) == pytest.approx([0.625, 0.5], abs=0.04)


def test_multipliers_grow_with_the_violation_and_fall_with_the_slack() -> None:
    dual = DualAscent(np.array([0.1, 0.1]), rate=1.0, penalty=0.0, limit=2.0)
    none = np.zeros(2)
    assert dual.update(np.array([0.3, -0.5]), none) == pytest.approx([0.2, -0.4])
    assert dual.update(np.array([0.0, -0.1]), none) == pytest.approx([0.1, -0.4])
    for _ in range(20):
        last = dual.update(np.array([0.9, 0.9]), none)
    assert last == pytest.approx([2.0, 2.0])  # the limit


def test_scaled_steps_do_not_depend_on_the_size_of_the_gap_but_on_its_noise() -> None:
    def after(gap: float, noise: float) -> float:
        dual = ScaledAscent(
            np.array([0.001]), rate=0.01, penalty=0.0, limit=1.0, factors=np.ones(50)
        )
        for _ in range(50):
            last = dual.update(np.array([gap]), np.array([noise]))
        return float(last[0])

    assert after(0.2, 0.0) == pytest.approx(after(0.02, 0.0), rel=0.06)
    assert after(0.2, 0.0) == pytest.approx(0.5, rel=0.01)
    assert after(0.2, 0.2) == pytest.approx(after(0.2, 0.0) / 3.0)
