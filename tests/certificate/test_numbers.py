"""Certificates of models that predict numbers."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skfairdp import Certificate, DPAdditiveRegressor, PrivacyLedger, certify
from skfairdp.certificate import number_claims
from skfairdp.certificate.number_errors import NumberErrors
from skfairdp.privacy import NoiseSource
from tests.certificate.forged import forged_text

WIDTH = 10.0


class Column(RegressorMixin, BaseEstimator):
    """Predicts the first column of its rows, between 0 and 10."""

    target_bounds_ = (0.0, WIDTH)
    groups_ = ("a", "b")

    def fit(self, X, y=None):
        return self

    def __sklearn_is_fitted__(self):
        return True

    def predict(self, X):
        return np.asarray(X, dtype=float)[:, 0]


def rows(n=600, apart=0.2, seed=0):
    """Rows whose first column is uniform, in group b by a share of the range more."""
    rng = np.random.default_rng(seed)
    group = np.where(np.arange(n) % 3 == 0, "b", "a")
    column = WIDTH * (rng.uniform(0.0, 0.8, size=n) + apart * (group == "b"))
    return column[:, None], column + rng.normal(size=n), group


def test_a_regressor_gets_a_bound_on_the_distance_of_distributions():
    X, y, group = rows()
    certificate = certify(Column(), X, y, sensitive_features=group)
    (claim,) = certificate.fairness
    assert claim.notion == "distribution_gap"
    a, b = (X[group == g, 0] for g in "ab")
    assert claim.estimate == pytest.approx(stats.ks_2samp(a, b).statistic, abs=0.01)
    assert claim.estimate < claim.bound < claim.estimate + 0.15
    assert "shares of predictions up to any one number" in certificate.sentence
    assert certificate.satisfies(tolerance=claim.bound, notion="distribution_gap")
    assert not certificate.satisfies(tolerance=claim.bound - 1e-3)


def test_means_are_bounded_as_shares_of_the_range_and_share_the_error():
    X, y, group = rows()
    both = certify(
        Column(), X, y, sensitive_features=group, notion=["distribution_gap", "mean_gap"]
    )
    alone = certify(Column(), X, y, sensitive_features=group, notion="mean_gap")
    means = [X[group == g, 0].mean() for g in "ab"]
    of_both, of_one = both.fairness[1], alone.fairness[0]
    assert of_one.estimate == pytest.approx((means[1] - means[0]) / WIDTH)
    assert of_one.estimate < of_one.bound < of_both.bound
    assert "as shares of the range from 0 to 10" in alone.sentence


def test_errors_are_compared_with_the_best_constants():
    X, y, group = rows()
    certificate = certify(Column(), X, y, sensitive_features=group)
    errors = certificate.errors
    assert errors.absolute == pytest.approx(np.abs(y - X[:, 0]).mean())
    assert errors.r2 == pytest.approx(
        1.0 - ((y - X[:, 0]) ** 2).sum() / ((y - y.mean()) ** 2).sum()
    )
    assert errors.absolute_constant == pytest.approx(np.abs(y - np.median(y)).mean())
    assert not certificate.nearly_constant
    assert "Mean absolute error" in str(certificate)
    assert certify(Column(), X, sensitive_features=group).errors is None


def test_a_constant_prediction_is_said_to_be_no_better_than_a_constant():
    X, y, group = rows()
    certificate = certify(Column(), 0.0 * X + 4.0, y, sensitive_features=group)
    assert certificate.nearly_constant
    assert "NO BETTER THAN A CONSTANT" in str(certificate)
    assert certificate.fairness[0].bound < 0.03


@pytest.mark.slow
def test_intervals_of_errors_hold_in_nineteen_of_twenty_draws():
    rng = np.random.default_rng(0)
    missed = np.zeros(2)
    for _ in range(2000):
        y = rng.normal(size=300)
        errors = NumberErrors.of(y, 0.8 * y + 0.3 * rng.normal(size=300))
        truth = math.sqrt(2 / math.pi) * math.hypot(0.2, 0.3), 1.0 - 0.13
        found = (errors.absolute, errors.absolute_error), (errors.r2, errors.r2_error)
        for place, (true, (value, error)) in enumerate(zip(truth, found, strict=True)):
            missed[place] += abs(value - true) > 1.96 * error
    # To first order: some more than a twentieth.
    assert (missed <= stats.binom.isf(1e-6, 2000, 0.06)).all()
    assert (missed >= stats.binom.ppf(1e-6, 2000, 0.04)).all()


@pytest.mark.parametrize("notion", ["distribution_gap", "mean_gap"])
@pytest.mark.parametrize("bound", ["exact", "difference"])
def test_a_file_is_recomputed_and_a_changed_one_is_caught(notion, bound):
    X, y, group = rows(240)
    certificate = certify(Column(), X, y, sensitive_features=group, notion=notion, bound=bound)
    stored = Certificate.from_json(certificate.to_json())
    assert stored == certificate
    assert stored.verify(Column())
    assert f"bound on {notion} (deployed model)" in stored.examine().recomputed
    document = json.loads(certificate.to_json())
    document.pop("derived", None)
    for change in (
        {"bound": document["fairness"][0]["bound"] - 0.01},
        {"estimate": document["fairness"][0]["estimate"] - 0.01},
        {"derivation": document["fairness"][0]["derivation"] | {"claims": 2}},
        {"derivation": document["fairness"][0]["derivation"] | {"test": "none"}},
    ):
        changed = document | {"fairness": [document["fairness"][0] | change]}
        changed["library_versions"] = {}
        assert not Certificate.from_json(forged_text(changed)).examine().holds
    changed = document | {"n_rows": 241, "library_versions": {}}
    assert len(Certificate.from_json(forged_text(changed)).examine().wrong) == 2


def test_errors_that_contradict_each_other_are_refused():
    X, y, _ = rows(100)
    errors = NumberErrors.of(y, X[:, 0])
    for change in ({"absolute": 99.0}, {"variance": 1e-9}, {"absolute_error": 0.0}, {"rows": 1}):
        with pytest.raises(ValueError, match="errors|error"):
            replace(errors, **change)


@pytest.mark.parametrize("sizes", ["private", "public"])
def test_noisy_counts_bound_the_distance_on_a_public_grid(sizes):
    X, y, group = rows(900)
    certificate = certify(
        Column(), X, y, sensitive_features=group, count_epsilon=0.5, cell_sizes=sizes
    )
    (claim,) = certificate.fairness
    assert certificate.n_rows is None
    assert certificate.errors is None
    assert "any of 15 numbers of a public grid" in certificate.sentence
    exact = certify(Column(), X, y, sensitive_features=group).fairness[0]
    assert exact.estimate - 0.02 < claim.bound < exact.bound + 0.15
    assert Certificate.from_json(certificate.to_json()).examine().holds


@pytest.mark.slow
@pytest.mark.parametrize("times", [1, 8])
def test_noisy_bounds_cover_and_with_eight_times_the_noise_they_do_not(monkeypatch, times):
    # One threshold and a gap near 1: noise can only make the gap look smaller there.
    monkeypatch.setattr(number_claims, "NOISY_CELLS", 2)
    honest = NoiseSource.discrete_laplace
    monkeypatch.setattr(NoiseSource, "discrete_laplace", lambda *given: times * honest(*given))
    rng, n, draws, missed = np.random.default_rng(0), 40, 100, 0
    allowed = stats.binom.isf(1e-6, draws, 0.05)
    group = np.repeat(["a", "b"], n)
    for _ in range(draws):
        high = rng.uniform(size=2 * n) < np.repeat([0.95, 0.05], n)
        X = np.where(high, 0.9, 0.1)[:, None] * WIDTH
        found = certify(Column(), X, sensitive_features=group, count_epsilon=1.0)
        missed += found.fairness[0].bound < 0.9 - 1e-9
        if missed > allowed:
            break
    assert (missed > allowed) == (times == 8)


def test_what_cannot_be_certified_is_refused_before_a_charge(tmp_path):
    X, y, group = rows(60)
    given = {"sensitive_features": group, "ledger": PrivacyLedger(tmp_path / "ledger", "rows")}
    with pytest.raises(ValueError, match="does not compare numbers"):
        certify(Column(), X, y, notion="equal_opportunity", **given)
    with pytest.raises(ValueError, match="no form for noisy counts"):
        certify(Column(), X, y, notion="mean_gap", count_epsilon=1.0, **given)
    with pytest.raises(ValueError, match="missing or infinite"):
        certify(Column(), X, np.full(60, np.nan), **given)
    plain = LinearRegression().fit(X, y)
    with pytest.raises(ValueError, match="target_bounds_"):
        certify(plain, X, y, notion="mean_gap", **given)
    with pytest.raises(ValueError, match="pos_label"):
        certify(Column(), X, y, pos_label=1, **given)
    assert not given["ledger"].entries()
    certify(plain, X, y, **given)
    assert len(given["ledger"].entries()) == 1


def test_a_pipeline_that_ends_in_a_private_regressor_is_certified():
    X, y, group = rows(400)
    regressor = DPAdditiveRegressor((-1, 1), target_bounds=(0, WIDTH), n_bins=4, max_epochs=2)
    pipeline = make_pipeline(FunctionTransformer(), regressor).fit(X / 5.0 - 1.0, y)
    certificate = certify(pipeline, X / 5.0 - 1.0, y, sensitive_features=group)
    assert certificate.privacy.epsilon <= 1.0
    assert certificate.verify(pipeline)
    page = certificate.to_html()
    assert "Predictions by group" in page
    assert "share of the group" in page
