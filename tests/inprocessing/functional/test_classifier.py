"""Functional mechanism: its closed form, its plan, its bounds, and what it refuses."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import norm

from skfairdp import FunctionalMechanismClassifier, certify
from skfairdp.engine.moment_sums import MomentSums
from skfairdp.exceptions import PrivacyWarning
from skfairdp.inprocessing.functional.classifier import noise_norm, solve
from skfairdp.inprocessing.functional.unit_ball import BoundedRows
from skfairdp.privacy import epsilons
from tests.inprocessing.rows import two_groups

BOUNDS = (-6.0, 6.0)


def free(**settings):
    """Without noise and without repair, for comparison with the plain formula."""
    model = FunctionalMechanismClassifier(BOUNDS, epsilon=math.inf, repair_strength=0.0, **settings)
    with pytest.warns(PrivacyWarning, match="epsilon=inf"):
        return model.fit(*ROWS[:2], sensitive_features=ROWS[2])


ROWS = two_groups(400)


def objective(model, X, y, weights) -> Callable[[np.ndarray], float]:
    Z = model.rows_.transform(X)

    def value(theta):
        z = Z @ theta
        return float(weights @ ((0.5 - y) * z + z**2 / 8))

    return value


def test_pooled_weights_minimise_the_expanded_loss():
    X, y, _ = ROWS
    model = free()
    value = objective(model, X, y, np.ones(len(y)))
    best = minimize(value, np.zeros(len(model.theta_)))
    assert value(model.theta_) <= best.fun + 1e-6
    np.testing.assert_allclose(model.theta_, best.x, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("releases", ["average", "group_models"])
def test_group_average_minimises_the_mean_of_the_groups_mean_losses(releases):
    X, y, groups = ROWS
    model = free(objective="group_average", releases=releases)
    n = {label: (groups == label).sum() for label in "ab"}
    value = objective(model, X, y, np.array([1 / (2 * n[label]) for label in groups]))
    best = minimize(value, np.zeros(len(model.theta_)), tol=1e-12)
    np.testing.assert_allclose(model.theta_, best.x, rtol=1e-2, atol=1e-2)
    assert not np.allclose(model.theta_, free().theta_, rtol=1e-2)
    if releases == "group_models":
        for label, theta in zip("ab", model.group_thetas_, strict=True):
            own = objective(model, X, y, (groups == label) * 1.0)
            assert own(theta) <= own(model.theta_)
    else:
        assert model.group_thetas_ is None


def test_copies_of_a_group_do_not_change_the_group_average():
    X, y, groups = ROWS
    twice = np.concatenate([np.arange(len(X)), np.flatnonzero(groups == "a")])
    model = FunctionalMechanismClassifier(
        BOUNDS, epsilon=math.inf, repair_strength=0.0, objective="group_average"
    )
    with pytest.warns(PrivacyWarning):
        model.fit(X[twice], y[twice], sensitive_features=groups[twice])
    np.testing.assert_allclose(model.theta_, free(objective="group_average").theta_, atol=1e-6)


def test_gaussian_noise_is_that_of_one_query_and_does_not_grow_with_features():
    stds = []
    for d in (5, 50):
        X = np.zeros((100, d))
        model = FunctionalMechanismClassifier(BOUNDS).fit(X, np.arange(100) % 2)
        linear, quadratic = model.plan_.segments[0].blocks
        precision = (0.5 / linear.noise_std) ** 2 + (0.125 / quadratic.noise_std) ** 2
        assert precision**-0.5 == pytest.approx(model.noise_multiplier_)
        stds.append((linear.noise_std, quadratic.noise_std))
    assert stds[0] == stds[1]
    # The analytic Gaussian mechanism (Balle and Wang, 2018) at this multiplier.
    mu = 1 / model.noise_multiplier_
    tail = norm.cdf(-1.0 / mu + mu / 2) - math.e * norm.cdf(-1.0 / mu - mu / 2)
    assert tail == pytest.approx(1e-6, rel=0.02)


def test_published_sensitivity_is_the_papers_and_many_times_the_tight_one():
    X, y, _ = ROWS
    d = X.shape[1] + 1
    tight = FunctionalMechanismClassifier(BOUNDS, noise="laplace", quadratic_share=0.5)
    published = FunctionalMechanismClassifier(BOUNDS, noise="laplace", sensitivity="published")
    (_, small), (linear, large) = tight.fit(X, y).plan_.sums, published.fit(X, y).plan_.sums
    assert linear.scale == large.scale == pytest.approx(d**2 / 4 + 3 * d, rel=1e-2)
    assert large.scale > 20 * small.scale
    assert published.privacy_.epsilon <= 1.0


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_the_smaller_group_pays_most_when_only_the_average_is_released(noise):
    X, y, groups = ROWS
    model = FunctionalMechanismClassifier(BOUNDS, noise=noise, objective="group_average")
    per_group = model.fit(X, y, sensitive_features=groups).privacy_.per_group
    assert per_group["a"] < per_group["b"] <= 1.0
    model.set_params(releases="group_models").fit(X, y, sensitive_features=groups)
    per_group = model.privacy_.per_group
    assert per_group["a"] == per_group["b"] == pytest.approx(1.0, abs=5e-3)
    assert max(epsilons(model.plan_).values()) == model.privacy_.epsilon


def test_rows_reach_the_sums_inside_the_unit_ball(monkeypatch):
    seen = {}
    honest = MomentSums.__init__

    def spy(self, rows, *others, **named):
        seen["norms"] = np.linalg.norm(rows, axis=1)
        honest(self, rows, *others, **named)

    monkeypatch.setattr(MomentSums, "__init__", spy)
    X, y, _ = ROWS
    FunctionalMechanismClassifier(BOUNDS, max_row_norm=0.2).fit(1e6 * X, y)
    np.testing.assert_allclose(seen["norms"], 1.0)  # long rows fill the ball
    FunctionalMechanismClassifier(BOUNDS).fit(X, y)
    assert seen["norms"].max() < 1.0


def test_features_outside_the_bounds_count_as_at_the_bounds():
    X, y, _ = ROWS
    settings = {"reproducible_noise": True, "random_state": 0}
    wild = X.copy()
    wild[0] = [1e6, -1e6, 1e6, 0, 0]
    tame = wild.clip(-6, 6)
    models = [FunctionalMechanismClassifier(BOUNDS, **settings).fit(v, y) for v in (wild, tame)]
    assert np.array_equal(models[0].theta_, models[1].theta_)
    assert np.array_equal(models[0].predict_proba(wild), models[0].predict_proba(tame))


def test_bounds_may_differ_between_features_and_zeros_stay_zeros():
    rows = BoundedRows.declared(([0, -2, 0], [4, 1, 0]), 3, max_norm=10.0, intercept=0.6)
    Z = rows.transform(np.array([[4.0, 1.0, 5.0], [0, 0, 0]]))
    assert rows.max_norm == math.sqrt(3)
    np.testing.assert_allclose(Z[0], [0.8 / 3**0.5, 0.4 / 3**0.5, 0.0, 0.6])
    np.testing.assert_allclose(Z[1], [0, 0, 0, 0.6])
    bare = BoundedRows.declared((0, 1), 3, max_norm=10.0, intercept=0.0)
    assert bare.transform(np.ones((1, 3))).shape == (1, 3)
    np.testing.assert_allclose(np.linalg.norm(bare.transform(np.ones((1, 3)))), 1.0)


@pytest.mark.parametrize("repair", ["floor", "trim", "ridge"])
def test_every_repair_gives_finite_weights_from_a_matrix_of_pure_noise(repair):
    rng = np.random.default_rng(0)
    G = rng.normal(size=(30, 30))
    a = rng.normal(size=30)
    for smallest in (0.0, 1.0, 1e6):
        assert np.isfinite(solve(a, G + G.T, repair=repair, smallest=smallest)).all()
    theta = solve(a, 4.0 * np.eye(30), repair=repair, smallest=0.0)
    np.testing.assert_allclose(theta, -a / 8, rtol=1e-6)
    np.testing.assert_array_equal(solve(a, 0.0 * G, repair=repair, smallest=0.0), 0.0)


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_the_expected_norm_of_the_noise_is_right_for_large_matrices(noise):
    d = 300
    X = np.zeros((60, d - 1))
    plan = FunctionalMechanismClassifier(BOUNDS, noise=noise).fit(X, np.arange(60) % 2).plan_
    from skfairdp.privacy import NoiseSource

    nobody = np.zeros((0, d)), np.zeros(0), np.zeros(0, dtype=int)
    door = MomentSums(*nobody, plan, NoiseSource(0), expected=60)
    moments = door.gaussian(*plan.segments) if plan.segments else door.laplace(*plan.sums)
    largest = np.abs(np.linalg.eigvalsh(moments.quadratic[0])).max()
    assert largest == pytest.approx(noise_norm(plan, d), rel=0.15)


BAD_BOUNDS = {
    "none": None,
    "one number": 5.0,
    "three": (0, 1, 2),
    "infinite": (-math.inf, math.inf),
    "one infinite": ([0.0] * 5, [1.0, 1.0, math.inf, 1.0, 1.0]),
    "NaN": (0.0, math.nan),
    "reversed": (1.0, 0.0),
    "too few": ([0.0] * 4, [1.0] * 4),
    "text": ("low", "high"),
}


@pytest.mark.parametrize("case", BAD_BOUNDS)
def test_features_without_finite_bounds_are_refused(case):
    X, y, _ = ROWS
    with pytest.raises(ValueError, match="'feature_bounds' must be a pair .* each of the 5"):
        FunctionalMechanismClassifier(BAD_BOUNDS[case]).fit(X, y)


BAD = {
    "published Gaussian": ({"sensitivity": "published"}, "sensitivity='published' is a bound for"),
    "both": ({"noise_multiplier": 1.0}, "'epsilon'.*'noise_multiplier'"),
    "noise": ({"noise": "normal"}, "'noise'"),
    "sums differ": ({"group_sizes": {"a": 9, "b": 1}, "dataset_size": 9}, "must be the sum"),
    "bought, pooled": ({"group_sizes_epsilon": 0.1}, "'group_sizes_epsilon' is for"),
    "share": ({"quadratic_share": 1.0}, "'quadratic_share'"),
    "intercept": ({"intercept_scale": 1.0}, "'intercept_scale'"),
    "row norm": ({"max_row_norm": 0.0}, "'max_row_norm'"),
    "repair": ({"repair": "shift"}, "'repair'"),
    "objective": ({"objective": "mean"}, "'objective'"),
    "one text": ({"classes": "01"}, "'classes' parameter .* must be a list"),
    "delta": ({"delta": 0.01}, "'delta' must be below 1/n"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_settings_are_refused_by_name(case):
    settings, message = BAD[case]
    X, y, groups = ROWS
    model = FunctionalMechanismClassifier(BOUNDS, **settings)
    with pytest.raises(ValueError, match=message):
        model.fit(X, y, sensitive_features=groups)
    assert not hasattr(model, "theta_")


def test_a_quote_refuses_bounds_that_a_fit_refuses():
    for bounds in (None, ((-1, -1), (1, 1))):
        model = FunctionalMechanismClassifier(feature_bounds=bounds)
        with pytest.raises(ValueError, match="'feature_bounds' must be a pair"):
            model.quote(n_rows=1000, n_features=3)
        assert model.quote(n_rows=1000).epsilon <= 1.0  # their number may not be known yet


def test_more_than_two_classes_are_refused():
    X = ROWS[0]
    with pytest.raises(ValueError, match="Only binary classification"):
        FunctionalMechanismClassifier(BOUNDS).fit(X, np.arange(len(X)) % 3)


def test_the_certificate_names_the_grid_of_laplace_noise():
    X, y, _ = ROWS
    privacy = certify(FunctionalMechanismClassifier(BOUNDS, noise="laplace").fit(X, y)).privacy
    assert any("steps of 2**-32 of its scale" in text for text in privacy.assumptions)
    assert any("feature_bounds and max_row_norm were declared" in t for t in privacy.assumptions)
    privacy = certify(FunctionalMechanismClassifier(BOUNDS).fit(X, y)).privacy
    assert not any("of its scale" in text for text in privacy.assumptions)


def test_bought_sizes_are_paid_from_epsilon():
    X, y, groups = ROWS
    model = FunctionalMechanismClassifier(
        BOUNDS, objective="group_average", group_sizes_epsilon=0.2
    ).fit(X, y, sensitive_features=groups)
    assert model.plan_.prior_epsilon == 0.2
    assert model.privacy_.epsilon == 1.0
    assert model.privacy_.adjacency == "add-remove"
    with pytest.raises(ValueError, match="uses up"):
        model.set_params(group_sizes_epsilon=1.0).fit(X, y, sensitive_features=groups)
