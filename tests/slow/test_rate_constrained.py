"""RateConstrainedClassifier keeps to its claim, and its defaults to tolerances and accuracy."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

from skfairdp import RateConstrainedClassifier
from skfairdp.audit import Canaries, audit_one_run, orthogonal_canaries
from skfairdp.datasets import fetch_adult, fetch_default_credit
from skfairdp.preprocessing import PublicEncoder, PublicScaler
from skfairdp.privacy.noise import NoiseSource
from tests.slow.test_audit_claims import N_CANARIES, N_GUESSES, N_ROWS, REFUTED, net, own_weight

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:'delta'")]


def audit(rate: float, steps: int):
    """The audit of DP-SGD: nearly all of a record's contribution is its gradient."""
    n = N_ROWS + N_CANARIES
    model = RateConstrainedClassifier(
        net(n / (20.0 * steps)),
        tolerance=0.02,
        epsilon=2.0,
        delta=1e-7,
        max_grad_norm=1.0,
        histogram_share=0.1,
        averaged_share=0.0,
        batch_size=round(rate * n),
        max_epochs=round(rate * steps),
        learning_rate_schedule=None,
    )
    X, canaries = orthogonal_canaries(np.zeros((N_ROWS, 1), dtype=np.float32), N_CANARIES)
    member = np.arange(N_CANARIES) // 2 % 2
    return audit_one_run(
        model,
        X,
        np.arange(N_ROWS) % 2,
        Canaries(canaries.X, canaries.y, member),
        sensitive_features=np.arange(N_ROWS) // 2 % 2,
        n_guesses=N_GUESSES,
        score=own_weight,
        confidence_level=1 - REFUTED,
    )


SETTINGS = [(1.0, 4), (0.5, 20)]


@pytest.mark.parametrize(("rate", "steps"), SETTINGS)
def test_audit_stays_below_the_claim(rate, steps) -> None:
    result = audit(rate, steps)
    assert 1.9 < result.claimed_epsilon <= 2.0
    assert not result.refutes_claim, result
    # No privacy loss leaves 480 right guesses of 800 to a chance of 1e-8.
    assert result.settings["n_correct"] > 480, result


@pytest.mark.parametrize(("rate", "steps"), SETTINGS)
def test_a_quarter_of_the_noise_is_caught_at_the_same_settings(monkeypatch, rate, steps) -> None:
    honest = NoiseSource.noisy
    monkeypatch.setattr(
        NoiseSource,
        "noisy",
        lambda self, sums, std, exact=True: honest(self, sums, std / 4.0, exact=exact),
    )
    result = audit(rate, steps)
    assert 1.9 < result.claimed_epsilon <= 2.0
    assert result.p_value < 1e-3, result


def prepared(data, bounds):
    public = make_pipeline(
        PublicScaler({**data.bounds, **bounds}, log_columns=() if bounds else data.log_columns),
        PublicEncoder(data.categories),
    )
    X = np.asarray(public.fit_transform(data.data), dtype=np.float32)
    return X, np.asarray(data.target), np.asarray(data.sensitive_features).ravel()


def gap_and_accuracy(rows, train, tolerance):
    X, y, groups = rows
    model = RateConstrainedClassifier(tolerance=tolerance, delta=1e-5, progress=False)
    model.fit(X[train], y[train], sensitive_features=groups[train])
    predicted = model.predict(X[~train])
    rates = [predicted[groups[~train] == group].mean() for group in model.groups_]
    return max(rates) - min(rates), float((predicted == y[~train]).mean())


# Accuracy of fairlearn's non-private ExponentiatedGradient around these gaps on the same rows:
# .8317 at .0082, .8328 at .0153, .8360 at .0314, .8442 at .0741.
@pytest.mark.parametrize(("tolerance", "accuracy"), [(0.01, 0.829), (0.02, 0.831), (0.05, 0.836)])
def test_adult_meets_its_tolerance_at_an_accuracy_near_that_without_privacy(
    data_home, tolerance, accuracy
) -> None:
    """Means of three fits: their gaps have standard deviation .004, their accuracies .001."""
    data = fetch_adult(data_home=data_home)
    rows = prepared(data, {"capital-gain": (0, 15_000), "capital-loss": (0, 3_000)})
    train = np.asarray(data.split) == "train"
    results = [gap_and_accuracy(rows, train, tolerance) for _ in range(3)]
    gap, reached = np.mean(results, axis=0)
    assert gap <= tolerance + 0.01
    assert reached >= accuracy


def test_default_credit_meets_its_tolerance(data_home) -> None:
    """.8140 at a gap of .0090 without privacy; accuracies of splits differ by .003."""
    rows = prepared(fetch_default_credit(data_home=data_home), {})
    results = []
    for seed in range(3):
        train = np.random.default_rng(seed).random(len(rows[0])) < 0.7
        results.append(gap_and_accuracy(rows, train, 0.01))
    gap, accuracy = np.mean(results, axis=0)
    assert gap <= 0.01 + 0.01
    assert accuracy >= 0.807
