"""Tests of estimates about true groups from randomised ones, on known distributions."""

from __future__ import annotations

import math

import numpy as np
import pytest

from skfairdp.fairness.notions import NOTIONS, get_notion
from skfairdp.inprocessing.attribute.group_estimates import (
    attenuated_bound,
    estimated_joint,
    even_decisions,
    onto_simplex,
)
from skfairdp.privacy import NoiseSource
from skfairdp.privacy.mechanisms.randomized_response import RandomizedResponse


def law(seed: int, n_groups: int) -> np.ndarray:
    """Joint law of prediction, label and group, each cell filled."""
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.full(4 * n_groups, 2.0)).reshape(2, 2, n_groups)


def revised(joint: np.ndarray, met: np.ndarray) -> np.ndarray:
    """Law of (decision, label, group) when `met` gives the chance of a positive decision."""
    positive = np.einsum("pyk,pk->yk", joint, met)
    return np.stack([joint.sum(axis=0) - positive, positive])


def gap(joint: np.ndarray, notion: str) -> float:
    table = joint.transpose(2, 1, 0)  # group, label, prediction
    rates = [
        hits / (hits + misses)
        for hits, misses in (s.count(table) for s in get_notion(notion).strata((0, 1)))
    ]
    return float(max(np.ptp(rate) for rate in rates))


def accuracy(joint: np.ndarray) -> float:
    return float(joint[0, 0].sum() + joint[1, 1].sum())


@pytest.mark.parametrize("n_groups", [2, 3, 6])
def test_projection_is_the_nearest_table(n_groups: int) -> None:
    rng = np.random.default_rng(n_groups)
    table = rng.normal(0.3, 1.0, size=(50, n_groups))
    table += np.maximum(0.0, -table.sum(axis=1, keepdims=True)) + 0.1
    projected = onto_simplex(table)
    assert (projected >= 0).all()
    assert np.allclose(projected.sum(axis=1), table.sum(axis=1))
    # The nearest point of a convex set: no other point lies on the table's side of it.
    for row, nearest in zip(table, projected, strict=True):
        others = rng.dirichlet(np.ones(n_groups), size=200) * row.sum()
        assert ((others - nearest) @ (row - nearest)).max() <= 1e-9
    assert np.allclose(onto_simplex(projected), projected)


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 3.0, math.inf])
@pytest.mark.parametrize("n_groups", [2, 3, 5])
def test_a_bound_kept_by_answers_keeps_the_tolerance_between_true_groups(
    epsilon: float, n_groups: int
) -> None:
    response, rng = RandomizedResponse(epsilon, n_groups), np.random.default_rng(1)
    worst = 0.0
    for _ in range(300):
        share = rng.dirichlet(np.full(n_groups, 5.0))
        rate = rng.random(n_groups)
        shown = response.matrix @ share
        rate_shown = response.matrix @ (share * rate) / shown
        overall = share @ rate
        deviation = np.abs(rate_shown - overall).max()
        tolerance = np.ptp(rate)
        # A predictor exactly at the bound for some tolerance: its true gap is within it.
        per_unit = attenuated_bound(shown, response, 1.0)
        ratio = tolerance / (deviation / per_unit)
        assert ratio <= 1.0 + 5e-3  # the floor on shares costs at most that much
        worst = max(worst, ratio)
    assert worst > 0.9 if n_groups == 2 else worst > 0.5  # and the bound is not idle


def test_without_randomisation_two_groups_get_the_bound_of_the_larger_share() -> None:
    shares = np.array([0.25, 0.75])
    bound = attenuated_bound(shares, RandomizedResponse(math.inf, 2), 0.04)
    assert bound == pytest.approx(0.03, rel=2e-3)
    assert attenuated_bound(np.zeros(2), RandomizedResponse(1.0, 2), 0.04) == 0.04


def test_the_joint_law_is_recovered_from_answers() -> None:
    n, n_groups = 400_000, 3
    joint, response = law(2, n_groups), RandomizedResponse(1.0, n_groups)
    rng = np.random.default_rng(0)
    cell = rng.choice(joint.size, p=joint.ravel(), size=n)
    prediction, label, group = np.unravel_index(cell, joint.shape)
    reports = response.report(group, NoiseSource())
    found = estimated_joint(prediction.astype(float), label, reports, response)
    assert found.shape == (2, 2, n_groups)
    assert found.sum() == pytest.approx(1.0)
    assert (found > 0).all()
    # Standard error of an entry: at most .5 / sqrt(n) / attenuation; six of them (twelve
    # entries, chance 2e-8), and the floor.
    assert np.abs(found - joint).max() <= 6 * 0.5 / math.sqrt(n) / response.attenuation + 1e-3
    # The table of answers itself is far off: the correction does something.
    raw = np.bincount(
        np.ravel_multi_index((prediction, label, reports), joint.shape), minlength=joint.size
    )
    assert np.abs(raw.reshape(joint.shape) / n - joint).max() > 0.02


@pytest.mark.parametrize("notion", NOTIONS)
@pytest.mark.parametrize("n_groups", [2, 4])
@pytest.mark.parametrize("tolerance", [0.0, 0.05, 0.9])
@pytest.mark.parametrize("epsilon", [0.5, math.inf])
def test_revised_decisions_keep_the_tolerance_and_lose_little(
    notion: str, n_groups: int, tolerance: float, epsilon: float
) -> None:
    for seed in range(5):
        joint = law(seed, n_groups)
        seen = RandomizedResponse(epsilon, n_groups).matrix
        rates = even_decisions(joint, get_notion(notion).strata((0, 1)), tolerance, seen)
        assert rates.shape == (2, n_groups)
        assert ((rates >= 0) & (rates <= 1)).all()
        decided = revised(joint, rates @ seen)
        assert gap(decided, notion) <= tolerance + 1e-7
        if gap(joint, notion) <= tolerance and math.isinf(epsilon):
            assert accuracy(decided) >= accuracy(joint) - 1e-9
        # The same answer for everybody is even under every notion but accuracy parity.
        if notion != "accuracy_parity":
            share = joint[:, 1].sum()
            assert accuracy(decided) >= max(share, 1 - share) - 1e-7


def test_a_loose_tolerance_needs_no_revision_of_accurate_predictions() -> None:
    joint = np.array([[[0.4, 0.2], [0.05, 0.02]], [[0.03, 0.02], [0.18, 0.1]]])
    rates = even_decisions(joint, get_notion("demographic_parity").strata((0, 1)), 0.99, np.eye(2))
    assert np.allclose(rates, [[0.0, 0.0], [1.0, 1.0]])


def test_a_label_that_nobody_has_is_not_compared() -> None:
    joint = law(0, 2)
    joint[:, 1] = 0.0
    rates = even_decisions(joint, get_notion("equalized_odds").strata((0, 1)), 0.0, np.eye(2))
    assert np.allclose(rates, 0.0)
