"""Searches over regressors: noisy errors of held-out rows, and the gaps of predictions."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import stats
from sklearn.base import BaseEstimator, RegressorMixin, is_regressor

from skfairdp import (
    DPSGDClassifier,
    DPSGDRegressor,
    FairPathRegressor,
    PrivacyLedger,
    certify,
)
from skfairdp.certificate.holdout import GroupedRows
from skfairdp.exceptions import PrivacyWarning
from skfairdp.model_selection import PrivateSearchCV, holding_out
from skfairdp.model_selection.holding_out import Score, divide
from skfairdp.model_selection.number_scores import ABSOLUTE, PARTS, SQUARED, NumberScoring
from skfairdp.privacy import NoiseSource
from skfairdp.records.groups import Groups
from skfairdp.records.labels import SECRET_PART
from skfairdp.records.numbers import TargetBounds, check_numbers
from skfairdp.records.persons import Persons, encode_persons

BOUNDS = TargetBounds(0.0, 4.0)
NOTIONS = ["distribution_gap", "mean_gap"]


class First(RegressorMixin, BaseEstimator):
    """Answers with the first column, whatever it holds."""

    def __sklearn_is_fitted__(self):
        return True

    def fit(self, X, y):
        return self

    def predict(self, X):
        return np.asarray(X)[:, 0]


def held_out() -> GroupedRows:
    """Rows with targets and predictions inside and outside of the bounds, and one of NaN."""
    rng = np.random.default_rng(0)
    X = np.append(rng.normal(2.0, 3.0, 60), [np.nan, np.inf, 1e300, -1e300])[:, None]
    y = np.append(rng.normal(2.0, 3.0, 60), [1e300, -1e300, 0.0, 4.0])
    return GroupedRows(X, y, None, Groups(("a", "b"), rng.integers(2, size=64)))


def scoring(
    measure: str = ABSOLUTE, tolerance: float | None = 0.1, notion: str = "mean_gap"
) -> NumberScoring:
    return NumberScoring(BOUNDS, measure, tolerance, notion)


def unit_of(score: NumberScoring, name: str) -> int:
    """Most that one row may change a table by, in L1."""
    counted = name == "predictions" and score.notion == "distribution_gap"
    return 1 if counted else PARTS


def largest_change(score: NumberScoring) -> float:
    """Largest L1 change of a table, in records, when any one of the rows is left out."""
    rows, source = held_out(), NoiseSource()
    whole = score.tables(First(), rows, math.inf, source)
    changes = []
    for left_out in range(len(rows)):
        less = rows.part(np.delete(np.arange(len(rows)), left_out))
        found = score.tables(First(), less, math.inf, source)
        changes += [
            np.abs(whole[name] - found[name]).sum() / unit_of(score, name) for name in whole
        ]
    return max(changes)


@pytest.mark.parametrize("measure", [ABSOLUTE, SQUARED])
@pytest.mark.parametrize("notion", NOTIONS)
def test_one_row_moves_the_tables_by_its_parts_and_no_more(measure: str, notion: str) -> None:
    assert largest_change(scoring(measure, notion=notion)) == 1.0


def test_errors_that_are_not_clipped_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def unclipped(self: TargetBounds, numbers: Any) -> Any:
        return np.nan_to_num((numbers - self.middle) / self.half, nan=0.0, posinf=9.0).clip(-9, 9)

    monkeypatch.setattr(TargetBounds, "scaled", unclipped)
    assert largest_change(scoring()) > 2.0


@pytest.mark.parametrize("notion", NOTIONS)
def test_noise_of_both_tables_has_the_stated_size(notion: str) -> None:
    rows, source, price = held_out(), NoiseSource(), 0.5
    score = scoring(notion=notion)
    exact = score.tables(First(), rows, math.inf, source)
    drawn = [score.tables(First(), rows, price, source) for _ in range(300)]
    for name, table in exact.items():
        noise = np.stack([each[name] - table for each in drawn]) / unit_of(score, name)
        # Two tables at half the price: Laplace noise of scale 2 / price. Of 600 draws or more,
        # of kurtosis 6, the variance is known to within 50 % at 1e-6.
        assert noise.var() == pytest.approx(2 * (2 / price) ** 2, rel=0.5)
        assert np.all(noise.std(axis=0) > 0)
    alone = scoring(tolerance=None)
    assert [*alone.tables(First(), rows, math.inf, source)] == ["errors"]


def test_sums_do_not_depend_on_the_order_of_rows() -> None:
    rows = held_out()
    turned = rows.part(np.arange(len(rows))[::-1])
    tables = [scoring().tables(First(), part, math.inf, NoiseSource()) for part in (rows, turned)]
    for name in tables[0]:
        assert tables[0][name].tolist() == tables[1][name].tolist()


def test_scores_are_in_units_of_the_target() -> None:
    rng = np.random.default_rng(1)
    y, answers = rng.uniform(0, 4, size=(2, 500))
    groups = Groups(("a", "b"), (answers > 1.7).astype(np.int64))
    rows = GroupedRows(answers[:, None], y, None, groups)
    apart = np.abs(y - answers)
    for measure, error in ((ABSOLUTE, apart.mean()), (SQUARED, (apart**2).mean())):
        plain = scoring(measure, tolerance=None)
        score, gap = plain.score_of(plain.tables(First(), rows, math.inf, NoiseSource()))
        assert score.value == pytest.approx(-error, abs=0.01)
        assert (score.shortfall, gap) == (0.0, None)
    means = [answers[groups.codes == code].mean() for code in (0, 1)]
    tables = scoring().tables(First(), rows, math.inf, NoiseSource())
    score, gap = scoring().score_of(tables)
    assert gap == pytest.approx((means[1] - means[0]) / 4, abs=1e-3)
    assert score.shortfall == pytest.approx(0.1 - gap)
    of_shares = scoring(notion="distribution_gap")
    tables = of_shares.tables(First(), rows, math.inf, NoiseSource())
    # The threshold 1.75 is on the grid.
    assert of_shares.score_of(tables)[1] > 0.95


def test_negative_noisy_sums_are_no_errors() -> None:
    for notion, n_cells in (("mean_gap", 2), ("distribution_gap", 16)):
        tables = {"errors": np.array([-5, -9]), "predictions": np.full((2, n_cells), -7)}
        found, gap = scoring(notion=notion).score_of(tables)
        assert found == Score(-0.9, -4.0)
        assert gap is None


def test_the_default_notion_is_that_of_distributions() -> None:
    search = SimpleNamespace(notion="demographic_parity", tolerance=0.1, _objective=ABSOLUTE)
    assert NumberScoring.of(search, (0, 4)).notion == "distribution_gap"


def test_a_secret_part_of_equal_targets_is_not_refused() -> None:
    y = np.ones(5)
    with pytest.raises(ValueError, match="y is constant"):
        check_numbers(First(), y, 5)
    secret = SECRET_PART.set(True)
    try:
        assert check_numbers(First(), y, 5).tolist() == y.tolist()
    finally:
        SECRET_PART.reset(secret)


def small_table() -> tuple[np.ndarray, np.ndarray]:
    X = np.random.default_rng(0).uniform(size=(200, 2))
    return X, 4 * X[:, 0]


def test_a_search_over_regressors_predicts_numbers() -> None:
    X, y = small_table()
    inner = DPSGDRegressor(target_bounds=(0, 4), max_epochs=1, batch_size=100)
    # Calibrating noise takes a second; the slow test below does.
    search = PrivateSearchCV(inner, {"net__lr": [0.05]}, n_iter=1, epsilon=math.inf)
    assert is_regressor(search)
    with pytest.warns(PrivacyWarning, match="epsilon=inf"):
        search.fit(X, y)
    assert search.predict(X[:3]).shape == (3,)
    assert math.isfinite(search.score(X, y))
    assert not hasattr(search, "classes_")
    assert -4.0 <= search.best_score_ <= 0.0


PERSONS = np.random.default_rng(5).permutation(np.arange(64) // 4)  # four rows a person


def most_of_a_person(score: NumberScoring) -> float:
    """Largest L1 change of a table of held-out rows, in records, when a person leaves."""
    rows, source = held_out(), NoiseSource()
    place = np.arange(len(rows))[:, None].astype(float)
    divided = divide(place, rows.y, None, 0.7, source, PERSONS)
    held = rows.part(divided.held_out.X[:, 0].astype(int))
    persons = PERSONS[divided.held_out.X[:, 0].astype(int)]
    whole, changes = score.tables(First(), held, math.inf, source), []
    for person in np.unique(persons):
        less = held.part(np.flatnonzero(persons != person))
        found = score.tables(First(), less, math.inf, source)
        changes += [
            np.abs(whole[name] - found[name]).sum() / unit_of(score, name) for name in whole
        ]
    return max(changes)


@pytest.mark.parametrize("notion", NOTIONS)
def test_one_person_moves_the_tables_by_one_row_and_no_more(notion: str) -> None:
    assert most_of_a_person(scoring(notion=notion)) == 1.0


def test_rows_that_are_drawn_without_their_person_would_be_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def of_rows(person_ids: Any, n_rows: int) -> Persons:
        return encode_persons(np.arange(n_rows), n_rows)

    monkeypatch.setattr(holding_out, "encode_persons", of_rows)
    assert most_of_a_person(scoring()) > 1.0


def test_a_person_is_in_one_part_with_all_rows_and_one_is_held_out() -> None:
    place, ids = np.arange(64)[:, None], np.array([f"p{each}" for each in PERSONS])
    counted = np.zeros(64, dtype=int)
    for seed in range(20):
        divided = divide(place, place[:, 0], None, 0.5, NoiseSource(seed), ids)
        training, held = divided.training.X[:, 0], divided.held_out.X[:, 0]
        assert divided.person_ids.tolist() == ids[training].tolist()
        assert set(PERSONS[training]) | set(PERSONS[held]) == set(range(16))
        assert not set(PERSONS[training]) & set(PERSONS[held])
        assert len(training) == 4 * (16 - len(held))
        counted[held] += 1
    # Of 160 held-out rows on average: no place of a person's rows is preferred.
    places = np.argsort(np.argsort(PERSONS, kind="stable")) % 4
    of_place = np.bincount(places, weights=counted)
    assert stats.chisquare(of_place).pvalue > 1e-6


@pytest.mark.parametrize(
    ("ids", "groups", "message"),
    [
        (np.where(np.arange(200) == 3, None, "a"), None, "'person_ids' has missing values"),
        (np.arange(200) // 2, np.arange(200) % 2, "several groups|two groups|one group"),
        (np.arange(10), None, "person_ids"),
    ],
)
def test_persons_that_are_not_clear_are_refused_before_a_charge(ids, groups, message, tmp_path):
    X, y = small_table()
    ledger = PrivacyLedger(tmp_path / "ledger.db")
    inner = DPSGDRegressor(target_bounds=(0, 4))
    search = PrivateSearchCV(inner, {"net__lr": [0.05]}, ledger=ledger)
    with pytest.raises(ValueError, match=message):
        search.fit(X, y, sensitive_features=groups, person_ids=ids)
    assert ledger.entries() == ()


@pytest.mark.slow
@pytest.mark.parametrize("numbers", [True, False])
def test_a_search_over_rows_of_persons_protects_persons(numbers: bool, tmp_path) -> None:
    rng = np.random.default_rng(0)
    X, ids = rng.uniform(size=(800, 2)), np.arange(800) // 2
    groups, y = ids % 2, 4 * X[:, 0]
    of = {"max_epochs": 1, "batch_size": 50, "progress": False}
    inner = DPSGDRegressor(target_bounds=(0, 4), **of) if numbers else DPSGDClassifier(**of)
    ledger = PrivacyLedger(tmp_path / "ledger.db")
    search = PrivateSearchCV(
        inner, {"net__lr": [0.05]}, n_iter=2, epsilon=2.0, tolerance=0.5, ledger=ledger
    )
    quoted = search.quote(n_persons=400, groups={0: 200, 1: 200}).privacy
    target = y if numbers else (y > 2.0).astype(int)
    search.fit(X, target, sensitive_features=groups, person_ids=ids)
    assert quoted.protects == search.privacy_.protects == "person"
    assert search.best_estimator_.privacy_ == search.privacy_
    assert quoted.epsilon == pytest.approx(search.privacy_.epsilon, rel=1e-3)
    assert ledger.totals()[0].protects == "person"
    # About three quarters of 400 persons train, not of 800 rows.
    (rate,) = search.best_estimator_.plan_.segments[0].rates
    assert 50 / 360 < rate < 50 / 240
    stated = certify(search)
    assert stated.verify(search)
    text = " ".join(stated.privacy.assumptions)
    assert "each person was held out with all rows" in text
    assert "one row is one person" not in text


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The tables do not show")
@pytest.mark.parametrize(
    ("inner", "prior", "given"),
    [
        (DPSGDRegressor(target_bounds=(0, 4), max_epochs=1), {"net__lr": [1e-6, 0.05]}, {}),
        (
            FairPathRegressor(target_bounds=(0, 4), max_epochs=1),
            {"tolerance": [0.1, 0.9]},
            {"tolerance": 0.3},
        ),
    ],
)
def test_a_search_over_regressors_meets_its_budget(inner, prior, given, tmp_path) -> None:
    rng = np.random.default_rng(0)
    X, groups = rng.uniform(size=(400, 2)), rng.integers(2, size=400)
    ledger = PrivacyLedger(tmp_path / "ledger.db")
    search = PrivateSearchCV(inner, prior, n_iter=2, epsilon=2.0, ledger=ledger, **given)
    quoted = search.quote(n_rows=400, groups={0: 200, 1: 200}).privacy
    search.fit(X, 4 * X[:, 0], sensitive_features=groups)
    assert 1.98 <= search.privacy_.epsilon <= 2.0
    assert quoted.epsilon == pytest.approx(search.privacy_.epsilon, rel=1e-3)
    assert ledger.totals()[0].epsilon == search.privacy_.epsilon
    stated = certify(search)
    assert stated.privacy.epsilon == search.privacy_.epsilon
    assert stated.verify(search)
    assert any("sums of errors" in text for text in search.privacy_.assumptions)
    assert "target_bounds was declared, not computed from rows" in search.privacy_.assumptions
    assert (search.best_gap_ is None) == (not given)
