"""Tests of specifications: a model that meets (epsilon, tolerance), or a record of the attempts."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np
import pytest
from scipy import stats

from skfairdp import (
    DPSGDClassifier,
    DPSGDRegressor,
    FairDPClassifier,
    FairPathRegressor,
    PrivacyLedger,
    certify,
)
from skfairdp.fairness.bounds.noisy_counts import (
    NoisyCells,
    private_gap_lower_bound,
    private_gap_upper_bound,
)
from skfairdp.model_selection import pareto_frontier, specify
from skfairdp.model_selection.number_scores import PARTS
from skfairdp.privacy import NoiseSource
from skfairdp.privacy.accounting.accountants import event_epsilon
from skfairdp.privacy.accounting.events import covering_event
from tests.common.roster import FAST


def town(n: int, effect: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows whose label rates differ between two groups by about the effect."""
    rng = np.random.default_rng(seed)
    groups = rng.integers(2, size=n)
    y = (rng.random(n) < 0.5 + effect * (groups - 0.5)).astype(int)
    return np.column_stack([2.0 * y - 1 + rng.normal(0, 0.5, n), rng.normal(size=n)]), y, groups


GRID = {"max_grad_norm": [0.3, 1.0]}
NUMBERS = DPSGDRegressor(target_bounds=(0, 2), **FAST)


def answer(n: int, effect: float, tolerance: float, **options):
    X, y, groups = town(n, effect)
    estimator = DPSGDClassifier(max_epochs=4, progress=False)
    return specify(
        estimator, GRID, X, y, sensitive_features=groups, tolerance=tolerance,
        **{"epsilon": 2.0, "delta": 1e-5, **options},
    )  # fmt: skip


def test_a_model_that_keeps_both_is_found_with_its_certificate() -> None:
    found = answer(8000, 0.0, 0.15)
    assert found.found
    assert found.verify()
    assert found.privacy.epsilon <= 2.0
    assert found.certificate.verify(found.model)
    assert found.certificate.satisfies(
        epsilon=2.0, tolerance=0.15, notion="demographic_parity", confidence_level=0.95
    )
    assert found.sentence.startswith("Found: with 95 % confidence")
    assert found.model.privacy_ == found.privacy
    values = [a.value for a in found.attempts if a.verdict == "kept"]
    assert found.attempts[found.best].value == max(values)
    assert len(pareto_frontier(found, maximize=["value"], minimize=["gap"])) >= 1


def test_a_model_chosen_from_several_has_no_claim_about_one_fit() -> None:
    X, y, groups = town(600, 0.0)
    tried = specify(
        FairDPClassifier(**FAST), GRID, X, y, sensitive_features=groups,
        epsilon=2.0, tolerance=0.9, delta=1e-5,
    )  # fmt: skip
    assert [certify(attempt.model).fairness for attempt in tried.attempts] == [(), ()]


def test_not_found_says_that_the_models_break_it() -> None:
    missed = answer(6000, 0.6, 0.05)
    assert not missed.found
    assert missed.model is missed.certificate is None
    assert {attempt.verdict for attempt in missed.attempts} == {"broken"}
    assert all(a.lower > 0.05 for a in missed.attempts)
    assert "2 of them break it with 95 % confidence" in missed.sentence
    assert "no proof about models that were not tried" in missed.sentence
    assert missed.nearest[0].claim.bound == min(a.claim.bound for a in missed.attempts)
    assert missed.verify()


def test_not_found_says_that_the_rows_were_too_few() -> None:
    missed = answer(400, 0.0, 0.02, delta=1e-4)
    assert not missed.found
    assert {attempt.verdict for attempt in missed.attempts} == {"undecided"}
    assert "The held-out rows are too few for this tolerance" in missed.sentence


@pytest.mark.slow
def test_fits_compose_and_tables_compose_and_both_meet_the_budget() -> None:
    X, y, groups = town(600, 0.2)
    grid = {"max_grad_norm": [0.3, 1.0], "batch_size": [30, 90]}
    asked = specify(
        FairDPClassifier(**FAST), grid, X, y, sensitive_features=groups, epsilon=1.5,
        tolerance=0.1, delta=1e-4,
    )  # fmt: skip
    from dp_accounting.dp_event import ComposedDpEvent

    fits = ComposedDpEvent([covering_event(attempt.model.plan_) for attempt in asked.attempts])
    assert len(asked.attempts) == 4
    assert 1.4 <= event_epsilon(fits, 1e-4, "zero-out") <= 1.5
    assert asked.privacy.epsilon <= 1.5
    assert all(f"ε = {1.5 / 4:g}" in " ".join(a.claim.assumptions) for a in asked.attempts)
    # Four fits at the whole budget each would not do.
    alone = event_epsilon(covering_event(asked.attempts[0].model.plan_), 1e-4, "zero-out")
    assert alone < 1.0


def test_a_proof_that_was_touched_does_not_hold() -> None:
    found = answer(3000, 0.0, 0.2)
    first = found.attempts[0]
    counts = first.noisy_counts.copy()
    counts[0, 0, 0, 0] += 40
    for wrong in (
        dataclasses.replace(first, noisy_counts=counts),
        dataclasses.replace(first, lower=first.lower + 0.01),
        dataclasses.replace(first, verdict="broken"),
        dataclasses.replace(first, model=found.attempts[1].model),
    ):
        assert not dataclasses.replace(found, attempts=(wrong, *found.attempts[1:])).verify()
    assert not dataclasses.replace(found, epsilon=1.0).verify()


def test_the_error_is_shared_by_the_attempts() -> None:
    asked = answer(3000, 0.0, 0.2)
    text = " ".join(asked.attempts[0].claim.assumptions)
    assert "shared by 2 claims" in text
    assert "certificate number 1 about these people of 2 that were planned" in text


def answer_of_numbers(effect: float, n: int = 600, tolerance: float = 0.3, **options):
    X, _, groups = town(n, 0.0)
    X[:, 0] = np.random.default_rng(1).uniform(size=n) + effect * groups
    given = {"epsilon": 2.0, "delta": 1e-4, "tolerance": tolerance} | options
    grid = given.pop("candidates", GRID)
    model = given.pop("estimator", NUMBERS)
    return specify(model, grid, X, X[:, 0], sensitive_features=groups, **given)


@pytest.mark.slow
def test_a_regressor_gets_a_bound_from_its_table_of_predictions(tmp_path) -> None:
    ledger = PrivacyLedger(tmp_path / "ledger.db")
    asked = answer_of_numbers(0.0, ledger=ledger)
    assert asked.verify()
    assert len(ledger) == 1
    assert ledger.totals()[0].epsilon == asked.privacy.epsilon <= 2.0
    first, second = asked.attempts
    assert first.noisy_counts["predictions"].shape == (2, 16)
    assert -2.0 <= first.value <= 0.0
    for attempt in asked.attempts:
        assert attempt.certificate.verify(attempt.model)
        assert attempt.model.privacy_ == attempt.certificate.privacy == asked.privacy
        assert attempt.lower <= attempt.claim.bound
        assert (attempt.claim.notion, attempt.claim.confidence_level) == ("distribution_gap", 0.95)
        # A pair of tables costs half of the budget, and that of predictions half of it.
        assert "allows for it (ε = 0.5 for each" in " ".join(attempt.claim.assumptions)
    text = " ".join(asked.privacy.assumptions)
    assert "2 pairs of tables of held-out counts and sums of errors, at epsilon 1 a pair" in text
    assert "target_bounds was declared, not computed from rows" in asked.privacy.assumptions
    assert "class labels" not in text
    tables = {name: table.copy() for name, table in first.noisy_counts.items()}
    tables["predictions"][0, 0] += 40
    touched = dataclasses.replace(first, noisy_counts=tables)
    assert not dataclasses.replace(asked, attempts=(touched, second)).verify()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The tables do not show")
def test_tolerances_of_a_path_of_numbers_are_one_fit() -> None:
    path = FairPathRegressor(target_bounds=(0, 2), **FAST)
    asked = answer_of_numbers(0.5, estimator=path, candidates={"tolerance": [0.3, 0.9]})
    first, second = (attempt.model for attempt in asked.attempts)
    assert (first.tolerance, second.tolerance) == (0.3, 0.9)
    assert np.array_equal(first.scored_, second.scored_)
    assert "1 models were trained" in asked.privacy.assumptions[0]
    assert asked.verify()


@pytest.mark.slow
def test_tables_of_numbers_are_drawn_at_the_epsilon_that_is_charged(monkeypatch) -> None:
    drawn = []
    keep = NoiseSource.discrete_laplace

    def recorded(self: NoiseSource, epsilon: float, shape: tuple[int, ...]) -> np.ndarray:
        drawn.append((shape, epsilon))
        return keep(self, epsilon, shape)

    monkeypatch.setattr(NoiseSource, "discrete_laplace", recorded)
    asked = answer_of_numbers(0.0)
    # Two attempts share 2, and the tables of one share 1: sums of 1,024 parts, and rows.
    assert drawn == [((2,), 0.5 / PARTS), ((2, 16), 0.5)] * 2
    for attempt in asked.attempts:
        assert attempt.claim.derivation.values["epsilon"] == 0.5


def measured(gap: float, n_draws: int) -> Iterator[NoisyCells]:
    """Noisy counts of groups of a known gap."""
    rng, source = np.random.default_rng(1), NoiseSource(1)
    for _ in range(n_draws):
        rows = np.array([[400, 300, 500]])
        hit = rng.binomial(rows, [[0.4, 0.4 + gap, 0.4]])
        noise = source.discrete_laplace(0.5, (2, 1, 3))
        one = np.array([1])
        yield NoisyCells(hit + noise[0], rows - hit + noise[1], one, one)


@pytest.mark.parametrize("draws", [20, pytest.param(200, marks=pytest.mark.slow)])
@pytest.mark.parametrize("gap", [pytest.param(0.02, marks=pytest.mark.slow), 0.3])
def test_bounds_from_noisy_counts_hold_as_often_as_stated(gap: float, draws: int) -> None:
    seen = list(measured(gap, draws))
    upper = [private_gap_upper_bound(cells, 0.5, confidence_level=0.8) for cells in seen]
    lower = [private_gap_lower_bound(cells, 0.5, confidence_level=0.8) for cells in seen]
    for held in (sum(bound >= gap for bound in upper), sum(bound <= gap for bound in lower)):
        assert stats.binom.cdf(held, draws, 0.8) > 1e-6
    if gap > 0.1:  # the lower bound says something there
        few = min(draws, 60)
        assert sum(bound / 0.5 <= gap for bound in lower[:few]) < 0.8 * few


def test_the_ledger_hears_of_everything_once(tmp_path) -> None:
    ledger = PrivacyLedger(tmp_path / "ledger.db")
    asked = answer(600, 0.0, 0.1, delta=1e-4, ledger=ledger)
    assert len(ledger) == 1
    assert ledger.totals()[0].epsilon == asked.privacy.epsilon


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epsilon": 0.0}, "epsilon=0.0 is not allowed"),
        ({"tolerance": 1.5}, "tolerance=1.5 is not allowed"),
        ({"notion": "equality"}, "notion='equality' is not allowed"),
        ({"sensitive_features": None}, "A gap needs groups"),
        ({"sensitive_features": np.zeros(600)}, "A gap needs two groups"),
        ({"candidates": []}, "'candidates' is empty"),
        ({"candidates": {"epsilon": [1.0]}}, "names epsilon, which the search sets"),
        ({"objective": "neg_mean_absolute_error"}, "objective='neg_mean_absolute_error' is not"),
        ({"estimator": NUMBERS, "objective": "auc"}, "objective='auc' is not allowed"),
        ({"estimator": NUMBERS, "notion": "equal_opportunity"}, "does not compare numbers"),
        ({"estimator": NUMBERS, "notion": "mean_gap"}, "no bound from noisy counts"),
        ({"estimator": DPSGDRegressor(**FAST)}, "'estimator' has target_bounds=None"),
        ({"estimator": NUMBERS, "y": np.full(600, np.nan)}, "Input y contains NaN"),
        ({"estimator": NUMBERS, "y": np.ones(600)}, "y is constant"),
        ({"X": np.full((600, 2), np.nan)}, "Input X contains NaN"),
        ({"estimator": NUMBERS, "X": np.full((600, 2), np.nan)}, "Input X contains NaN"),
        ({"y": None}, "y to be passed"),
        ({"estimator": NUMBERS, "candidates": {"target_bounds": [(0, 1)]}}, "names target_bounds"),
    ],
)
def test_bad_settings_are_refused(options, message, tmp_path) -> None:
    ledger = PrivacyLedger(tmp_path / "ledger.db")
    X, y, groups = town(600, 0.2)
    given = {"sensitive_features": groups, "epsilon": 1.0, "tolerance": 0.1, "delta": 1e-4}
    given |= {"X": X, "y": y}
    given |= options | {"ledger": ledger}
    model = given.pop("estimator", DPSGDClassifier(**FAST))
    with pytest.raises(ValueError, match=message):
        specify(model, given.pop("candidates", GRID), given.pop("X"), given.pop("y"), **given)
    assert ledger.entries() == ()  # before any charge
