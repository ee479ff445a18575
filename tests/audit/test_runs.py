"""Audits of a mechanism whose privacy is known exactly."""

from __future__ import annotations

import functools
import math
import pickle
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from dp_accounting.dp_event import GaussianDpEvent
from scipy.stats import norm
from sklearn.base import BaseEstimator, ClassifierMixin

from skfairdp import DPSGDRegressor
from skfairdp.audit import (
    AuditResult,
    Canaries,
    audit_many_runs,
    audit_one_run,
    closeness,
    log_odds,
    orthogonal_canaries,
)
from skfairdp.audit.declared import profile_of
from skfairdp.privacy.guarantee import PrivacyGuarantee


class NoisySum(ClassifierMixin, BaseEstimator):
    """One Gaussian release of the sum of +-x / |x|: its delta(epsilon) is a closed formula.

    `broken` divides the noise; the claim stays.
    """

    def __init__(
        self,
        sigma=1.0,
        delta=1e-5,
        dataset_size=None,
        group_sizes=None,
        classes=None,
        broken=1.0,
        adjacency="add-remove",
    ):
        self.sigma = sigma
        self.delta = delta
        self.dataset_size = dataset_size
        self.group_sizes = group_sizes
        self.classes = classes
        self.broken = broken
        self.adjacency = adjacency

    def fit(self, X, y, *, sensitive_features=None):
        X = np.asarray(X, dtype=float)
        assert len(X) == len(y)
        if sensitive_features is not None:
            assert len(sensitive_features) == len(X)
        self.classes_ = np.unique(y) if self.classes is None else np.asarray(self.classes)
        units = X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-12)
        sign = np.where(np.asarray(y) == self.classes_[1], 1.0, -1.0)
        noise = np.random.default_rng().normal(size=X.shape[1]) * self.sigma / self.broken
        self.weights_ = sign @ units + noise
        epsilon = exact_epsilon(1 / self.sigma, self.delta)
        per_group = None
        if self.group_sizes is not None:
            per_group = {g: epsilon / (1 + (g == "b")) for g in self.group_sizes}
        self.privacy_ = PrivacyGuarantee(
            epsilon,
            self.delta,
            self.adjacency,
            per_group=per_group,
            event=GaussianDpEvent(self.sigma),
        )
        return self

    def predict_proba(self, X):
        positive = 1 / (1 + np.exp(-np.asarray(X) @ self.weights_ / 10))
        return np.column_stack([1 - positive, positive])


@functools.cache
def exact_epsilon(mu, delta):
    """Epsilon of the Gaussian mechanism with sensitivity / std = mu (Balle and Wang 2018)."""
    low, high = 0.0, 200.0
    for _ in range(80):
        eps = (low + high) / 2
        got = norm.cdf(mu / 2 - eps / mu) - math.exp(eps) * norm.cdf(-mu / 2 - eps / mu)
        low, high = (eps, high) if got > delta else (low, eps)
    return high


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    return rng.normal(size=(200, 3)), rng.integers(0, 2, 200)


# Both audits below run at confidence 1 - 1e-9: a right claim is refuted with chance <= 1e-9.
LEVEL = 1 - 1e-9


def test_one_run_audit_passes_the_right_claim_and_catches_a_quarter_of_the_noise(rows):
    X, canaries = orthogonal_canaries(rows[0], 1000)
    # mu = .5: claimed epsilon 2.0; with a quarter of the noise mu = 2, true epsilon 10.
    honest = audit_one_run(NoisySum(2.0), X, rows[1], canaries, confidence_level=LEVEL)
    assert not honest.refutes_claim
    assert honest.p_value > 1e-9
    twin = audit_one_run(NoisySum(2.0, broken=4.0), X, rows[1], canaries, confidence_level=0.999)
    assert twin.claimed_epsilon == honest.claimed_epsilon
    assert twin.refutes_claim
    assert twin.p_value < 1e-3
    assert twin.epsilon_lower_bound < exact_epsilon(2.0, 1e-5)


@pytest.mark.slow
def test_many_run_audit_passes_the_right_claim_and_catches_less_noise_early(rows):
    X, canary = orthogonal_canaries(rows[0], 1)

    def audit(broken, error, n_runs):
        # mu = 1; a doubled clipping norm is half of the noise.
        return audit_many_runs(
            NoisySum(1.0, broken=broken), X, rows[1], canary,
            confidence_level=1.0 - error, n_runs=n_runs, n_threshold_runs=20,
        )  # fmt: skip

    honest = audit(1.0, 1e-9, 200)
    assert not honest.refutes_claim
    assert honest.p_value > 1e-9
    assert honest.settings["n_runs"] == 200
    # Of 100 simulated audits none needed more than 79 and 325 pairs.
    for broken, n_runs in ((4.0, 150), (2.0, 700)):
        twin = audit(broken, 1e-5, n_runs)
        assert twin.claimed_epsilon == honest.claimed_epsilon
        assert twin.refutes_claim
        assert twin.p_value < 1e-5
        assert twin.settings["n_runs"] < n_runs  # it stopped early
        assert "at a larger delta" in str(twin)


def test_what_an_event_costs_at_large_deltas_is_claimed_too(rows):
    _, canary = orthogonal_canaries(rows[0], 1)
    fitted = NoisySum(2.0).fit(rows[0], rows[1])
    found = profile_of(fitted, canary)
    for epsilon, delta in found:
        exact = exact_epsilon(0.5, delta)
        assert exact - 1e-9 <= epsilon <= exact + 0.01
    assert found[-1][0] == 0.0  # the two releases differ by .197 in total variation
    fitted.privacy_ = PrivacyGuarantee(1.0, 0.0, "add-remove")  # no event is stated
    assert profile_of(fitted, canary) == []


def test_worlds_with_and_without_canaries_share_the_declared_sizes(rows):
    seen = []

    class Recorder(NoisySum):
        def fit(self, X, y, *, sensitive_features=None):
            seen.append((self.dataset_size, self.group_sizes, self.classes, len(X)))
            return super().fit(X, y, sensitive_features=sensitive_features)

    X, canary = orthogonal_canaries(rows[0], 1, group="b", classes=(1,))
    groups = np.array(["a"] * 150 + ["b"] * 50)
    estimator = Recorder(2.0)
    audit_many_runs(
        estimator, X, rows[1], canary, sensitive_features=groups, n_runs=2, n_threshold_runs=1
    )
    assert {size for *_, size in seen} == {200, 201}
    assert all(s[:3] == (201, {"a": 150, "b": 51}, [0, 1]) for s in seen)
    assert estimator.dataset_size is None
    assert not hasattr(estimator, "weights_")


def test_canaries_of_one_group_are_held_against_the_epsilon_of_that_group(rows):
    groups = np.array(["a", "b"] * 100)
    claims = {}
    for group in ("a", "b"):
        X, canaries = orthogonal_canaries(rows[0], 10, group=group)
        result = audit_one_run(NoisySum(2.0), X, rows[1], canaries, sensitive_features=groups)
        claims[group] = result.claimed_epsilon
    assert claims["b"] == claims["a"] / 2
    mixed = Canaries(canaries.X, canaries.y, np.array(["a", "b"] * 5))
    result = audit_one_run(NoisySum(2.0), X, rows[1], mixed, sensitive_features=groups)
    assert result.claimed_epsilon == claims["a"]


def test_coins_follow_random_state_and_include_about_half(rows):
    sizes = []

    class Recorder(NoisySum):
        def fit(self, X, y, *, sensitive_features=None):
            sizes.append(np.flatnonzero(np.asarray(X)[200:].sum(axis=0)).tolist())
            return super().fit(X, y)

    X, canaries = orthogonal_canaries(rows[0], 400)
    for seed in (1, 1, 2):
        audit_one_run(Recorder(), X, rows[1], canaries, random_state=seed)
    assert sizes[0] == sizes[1] != sizes[2]
    # Binomial(400, 1/2) leaves 130..270 with chance 1e-12.
    assert all(130 <= len(included) <= 270 for included in sizes)


def test_data_frames_and_several_attributes_stay_what_they_are(rows):
    kinds = []

    class Recorder(NoisySum):
        def fit(self, X, y, *, sensitive_features=None):
            kinds.append((type(X), list(X.columns), type(sensitive_features)))
            self.group_sizes = dict.fromkeys(self.group_sizes, 1)
            return super().fit(X.to_numpy(), y, sensitive_features=sensitive_features)

    X = pd.DataFrame(rows[0], columns=["u", "v", "w"])
    A = pd.DataFrame({"s": ["a", "b"] * 100, "t": [0, 0, 1, 1] * 50})
    canaries = Canaries(X.iloc[:20] * 5, rows[1][:20], A.iloc[:20])
    audit_one_run(Recorder(), X, rows[1], canaries, sensitive_features=A)
    assert kinds == [(pd.DataFrame, ["u", "v", "w"], pd.DataFrame)]


def test_a_white_box_score_may_be_given(rows):
    X, canaries = orthogonal_canaries(rows[0], 200)

    def inner_product(model, X, y):
        return (2 * y - 1) * (X @ model.weights_)

    result = audit_one_run(NoisySum(0.01), X, rows[1], canaries, score=inner_product, n_guesses=100)
    assert result.settings == {"n_canaries": 200, "n_guesses": 100, "n_correct": 100}


def test_a_void_or_absent_guarantee_claims_nothing(rows):
    class Void(NoisySum):
        def fit(self, X, y, *, sensitive_features=None):
            super().fit(X, y)
            self.privacy_ = None
            return self

    X, canaries = orthogonal_canaries(rows[0], 100)
    result = audit_one_run(Void(0.01), X, rows[1], canaries)
    assert result.claimed_epsilon == math.inf
    assert result.p_value == 1.0
    assert not result.refutes_claim
    assert "no finite epsilon is claimed" in str(result)


def test_results_stored_earlier_can_be_read():
    assert pickle.loads(b"cskfairdp.audit.result\nAuditResult\n.") is AuditResult
    found = AuditResult("one-run", 0.5, 1.0, 1e-5, 0.95, 0.4)
    assert pickle.loads(pickle.dumps(found)) == found


def test_log_odds_are_those_of_the_label():
    model = SimpleNamespace(
        classes_=np.array(["a", "b", "c"]),
        predict_proba=lambda X: np.array([[0.5, 0.25, 0.25], [0.0, 1.0, 0.0]]),
    )
    scores = log_odds(model, np.zeros((2, 1)), np.array(["b", "b"]))
    assert scores[0] == pytest.approx(math.log(1 / 3))
    assert np.isfinite(scores[1])
    assert scores[1] > 100


def test_closeness_is_that_of_the_prediction_and_the_score_of_regressors():
    model = SimpleNamespace(predict=lambda X: np.array([1.0, 5.0]))
    assert closeness(model, np.zeros((2, 1)), np.array([1.5, 2.0])).tolist() == [-0.5, -3.0]
    X, canaries = orthogonal_canaries(np.ones((40, 2)), 20, classes=(0.0, 4.0))
    quick = {"max_epochs": 1, "progress": False, "delta": 1e-4}
    regressor = DPSGDRegressor(target_bounds=(0, 4), **quick)
    result = audit_one_run(regressor, X, np.arange(40.0) / 10, canaries, confidence_level=0.999)
    assert result.claimed_epsilon <= 1.0
    assert not result.refutes_claim  # a right claim, in 1e-3 of runs at most


def test_canaries_are_orthogonal_to_everything():
    X, canaries = orthogonal_canaries(np.ones((4, 2)), 3, norm=7.0, classes=("n", "y"), group="g")
    gram = np.vstack([X, canaries.X]) @ np.vstack([X, canaries.X]).T
    assert np.array_equal(gram[4:, 4:], 49.0 * np.eye(3))
    assert not gram[:4, 4:].any()
    assert canaries.y.tolist() == ["n", "y", "n"]
    assert canaries.sensitive_features.tolist() == ["g", "g", "g"]


def test_the_text_says_what_the_result_does_not_prove():
    result = AuditResult("one-run", 0.5, 1.0, 1e-5, 0.95, 0.4, settings={"n_canaries": 10})
    assert "That is no proof" in str(result)
    assert "refuted: the implementation" in str(AuditResult("one-run", 1.5, 1.0, 1e-5, 0.95, 0.001))
    assert pickle.loads(pickle.dumps(result)) == result
    assert hash(result) == hash(pickle.loads(pickle.dumps(result)))


def test_what_cannot_be_audited_is_refused(rows):
    X, canaries = orthogonal_canaries(rows[0], 10)
    y, groups = rows[1], np.array(["a", "b"] * 100)

    class Sizeless(BaseEstimator):
        pass

    with pytest.raises(ValueError, match="neither dataset_size nor group_sizes"):
        audit_one_run(Sizeless(), X, y, canaries)
    with pytest.raises(ValueError, match="give it for both"):
        audit_one_run(NoisySum(), X, y, canaries, sensitive_features=groups)
    with pytest.raises(ValueError, match="'zero-out' neighbours"):
        audit_one_run(NoisySum(adjacency="zero-out"), X, y, canaries)
    with pytest.raises(ValueError, match="exactly one"):
        audit_many_runs(NoisySum(), X, y, canaries)
    with pytest.raises(ValueError, match="n_runs"):
        audit_many_runs(NoisySum(), X, y, canaries.take(np.arange(10) == 0), n_runs=0)
    with pytest.raises(ValueError, match="two records"):
        audit_one_run(NoisySum(), X, y, canaries.take(np.arange(10) == 0))
    with pytest.raises(ValueError, match="3 entries for 2"):
        Canaries(np.zeros((2, 1)), np.zeros(3))
    with pytest.raises(ValueError, match="n_canaries"):
        orthogonal_canaries(rows[0], 0)
    with pytest.raises(ValueError, match="norm"):
        orthogonal_canaries(rows[0], 1, norm=0.0)
