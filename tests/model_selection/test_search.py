"""The conditions of a search that includes its cost, each with the twin that breaks it."""

from __future__ import annotations

import pickle
import warnings
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy import stats
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from skfairdp import (
    DPSGDClassifier,
    DPSGDRegressor,
    FairDPClassifier,
    FairPathClassifier,
    FairPathRegressor,
    PATEClassifier,
    PrivacyLedger,
    certify,
)
from skfairdp.base import PrivateEstimator
from skfairdp.certificate.holdout import GroupedRows
from skfairdp.exceptions import PrivacyWarning
from skfairdp.fairness.notions import get_notion
from skfairdp.model_selection import PrivateSearchCV, candidates, specify
from skfairdp.model_selection import search as search_module
from skfairdp.model_selection import specification as specification_module
from skfairdp.model_selection.holding_out import (
    BINS,
    Score,
    divide,
    noisy_table,
    score_of,
)
from skfairdp.model_selection.number_of_runs import NumberOfRuns, curve
from skfairdp.preprocessing import PrivateTableEncoder, PublicScaler
from skfairdp.privacy import NoiseSource
from skfairdp.privacy.accounting.accountants import event_epsilon
from skfairdp.privacy.accounting.events import covering_event
from skfairdp.records.groups import Groups, encode_groups
from tests.common.roster import FAST, people
from tests.common.test_nothing_private_is_kept import traces
from tests.common.test_scikit_learn_checks import unexpected
from tests.model_selection.test_number_of_runs import misfit
from tests.processes import as_one_of_two

CLIPS = {"max_grad_norm": [0.3, 1.0]}


def build(
    estimator: Any = None, param_distributions: Any = None, **parameters: Any
) -> PrivateSearchCV:
    inner = DPSGDClassifier(**FAST) if estimator is None else estimator
    return PrivateSearchCV(inner, param_distributions or CLIPS, **{"n_iter": 2, **parameters})


def kept_beyond_the_winner(search: PrivateSearchCV) -> set[str]:
    """Fitted attributes that a private search must not have."""
    return {name for name in vars(search) if name.endswith("_")} - set(search._released)


class Recorded(DPSGDClassifier):
    """DP-SGD that shows the test every fit."""

    fits: ClassVar[list[DPSGDClassifier]] = []

    def fit(self, X, y, *, sensitive_features=None):
        super().fit(X, y, sensitive_features=sensitive_features)
        Recorded.fits.append(self)
        return self


@pytest.fixture
def fits() -> list[DPSGDClassifier]:
    Recorded.fits = []
    return Recorded.fits


# -- what it promises -----------------------------------------------------------------------


def test_the_whole_search_meets_the_budget_and_says_so() -> None:
    X, y, groups = people()
    search = build(epsilon=1.5, delta=1e-5, tolerance=0.2, n_iter=4)
    search.fit(X, y, sensitive_features=groups)
    stated = certify(search).privacy
    assert 1.48 <= stated.epsilon <= 1.5
    assert (stated.delta, stated.adjacency, stated.protects) == (1e-5, "zero-out", "record")
    assert stated.event.mean == 4.0
    assert stated.event.shape == 1.0
    assert event_epsilon(stated.event, 1e-5, "zero-out") == stated.epsilon
    assert "RDP" in stated.accountant
    # Taken out, the model states what its rows have spent, not its own fit alone.
    assert search.best_estimator_.privacy_ == search.privacy_
    own_fit = covering_event(search.best_estimator_.plan_)
    assert event_epsilon(own_fit, 1e-5, "zero-out") < 0.7 * stated.epsilon


def test_epsilon_is_the_same_whatever_the_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y, groups = people()
    # One split for all: the number of training rows is part of the plan.
    monkeypatch.setattr(search_module, "divide", lambda *a: divide(*a[:4], NoiseSource(0)))
    flipped = np.where(y == "yes", "no", "yes")
    promises = {
        build(tolerance=0.1).fit(X, labels, sensitive_features=groups).privacy_.epsilon
        for labels in (y, flipped, np.roll(y, 1))
    }
    for value in (0.0, 1.0):
        monkeypatch.setattr(candidates, "score_of", lambda *a, v=value, **k: (Score(0.0, v), v))
        promises.add(build(tolerance=0.1).fit(X, y, sensitive_features=groups).privacy_.epsilon)
    assert len(promises) == 1


def test_the_logarithmic_number_of_runs_leaves_less_noise_for_the_same_budget() -> None:
    X, y, _ = people()
    search = build(n_iter=10, param_distributions={"max_grad_norm": [1.0]})
    rows = divide(X, y, None, 0.25, NoiseSource()).training
    planner = partial(candidates.planner, search.estimator, None, search.delta, rows)
    noise = [search._terms(NumberOfRuns(10.0, shape), planner)[0] for shape in (0.0, 1.0)]
    assert noise[0].multiplier < noise[1].multiplier


@pytest.mark.parametrize(
    "inner",
    [pytest.param(FairDPClassifier(**FAST), marks=pytest.mark.slow), DPSGDClassifier(**FAST)],
)
def test_every_candidate_is_covered_by_the_one_event(inner: Any, monkeypatch) -> None:
    X, y, groups = people()
    plans = []
    keep = candidates.trained

    def recorded(*arguments):
        model = keep(*arguments)
        plans.append(model.plan_)
        return model

    monkeypatch.setattr(candidates, "trained", recorded)
    monkeypatch.setattr(NumberOfRuns, "draw", lambda self, generator: 5)
    prior = {"batch_size": [10, 30, 100], "max_epochs": [1, 2, 4], "max_grad_norm": [0.5, 2.0]}
    search = build(inner, prior, epsilon=2.0).fit(X, y, sensitive_features=groups)
    limit = curve(search.privacy_.event.event)
    assert len({plan.steps for plan in plans}) > 1
    assert all(np.all(curve(covering_event(plan)) <= limit) for plan in plans)


def test_a_candidate_with_a_quarter_of_the_noise_would_be_noticed(fits) -> None:
    X, y, _ = people()
    search = build(Recorded(**FAST)).fit(X, y)
    limit = curve(search.privacy_.event.event)
    plan = fits[0].plan_
    assert np.all(curve(covering_event(plan)) <= limit)
    quiet = fits[0]._plan(
        fits[0]._sizes(None, len(X), NoiseSource()), fits[0].noise_multiplier_ / 4
    )
    assert not np.all(curve(covering_event(quiet)) <= limit)


# -- the number of runs ---------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("mean", "shape"), [(5, 1), (5, 0)])
def test_a_search_runs_as_often_as_the_law_says(mean, shape, monkeypatch) -> None:
    X, y, _ = people(60)
    small = DPSGDClassifier(**FAST | {"batch_size": 20})
    one = clone(small).fit(X, y)
    table = np.ones((1, 2, 2, 1), dtype=np.int64)
    counted: list[int] = []

    def candidate(search, estimator, budget, parameters, rows, prior):
        counted[-1] += 1
        return one

    search = build(small, n_iter=mean, shape=shape)
    rows = divide(X, y, None, 0.25, NoiseSource()).training
    planner = partial(candidates.planner, search.estimator, None, search.delta, rows)
    terms = search._terms(NumberOfRuns(float(mean), float(shape)), planner)
    monkeypatch.setattr(candidates, "trained", candidate)
    monkeypatch.setattr(PrivateSearchCV, "_terms", lambda *a: terms)
    monkeypatch.setattr(candidates, "noisy_table", lambda *a, **k: table)
    monkeypatch.setattr(PrivateEstimator, "_bind", lambda *a: None)  # of `one`, each time
    for _ in range(600):
        counted.append(0)
        search.fit(X, y)
    assert misfit(np.array(counted), NumberOfRuns(float(mean), float(shape))) > 1e-6


def test_the_number_of_runs_is_drawn_once_and_before_the_first(fits, monkeypatch) -> None:
    X, y, _ = people()
    drawn_at = []

    def draw(self, generator):
        drawn_at.append(len(fits))
        return 3

    monkeypatch.setattr(NumberOfRuns, "draw", draw)
    build(Recorded(**FAST)).fit(X, y)
    assert drawn_at == [0]
    assert len(fits) == 3


def test_a_failing_candidate_ends_the_search_and_is_not_replaced(monkeypatch) -> None:
    X, y, _ = people()
    tried = []

    def candidate(search, estimator, budget, parameters, rows, prior):
        tried.append(parameters)
        raise RuntimeError("no such luck")

    monkeypatch.setattr(candidates, "trained", candidate)
    monkeypatch.setattr(NumberOfRuns, "draw", lambda self, generator: 5)
    search = build()
    with pytest.raises(RuntimeError, match="no such luck"):
        search.fit(X, y)
    assert len(tried) == 1
    with pytest.raises(NotFittedError):
        search.predict(X)


def test_neither_bars_nor_prints_nor_warnings_count_the_runs(monkeypatch, capfd) -> None:
    X, y, groups = people()
    monkeypatch.setattr(NumberOfRuns, "draw", lambda self, generator: 6)
    loud = Pipeline(
        [("clf", DPSGDClassifier(max_epochs=2, progress=True, delta=0.5))], verbose=True
    )
    search = build(loud, {"clf__max_grad_norm": [1.0]}, delta=1e-3)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        search.fit(X, y, sensitive_features=groups)
    shown = capfd.readouterr()
    assert shown.out == shown.err == ""
    # One fit on its own warns that delta is large; so does the winner, and nobody else.
    assert [w.category for w in said] == [PrivacyWarning]
    assert "'delta' = 0.001" in str(said[0].message)


def test_candidates_are_independent_draws_from_the_prior(fits, monkeypatch) -> None:
    X, y, _ = people(60)
    monkeypatch.setattr(NumberOfRuns, "draw", lambda self, generator: 15)
    prior = {"max_grad_norm": stats.loguniform(0.1, 2.0), "max_epochs": [1]}
    build(Recorded(**FAST | {"batch_size": "auto"}), prior).fit(X, y)
    clips = [model.max_grad_norm for model in fits]
    assert len(set(clips)) == 15
    assert stats.kstest(np.log(clips), stats.uniform(np.log(0.1), np.log(20)).cdf).pvalue > 1e-6
    weights = {float(next(model.module_.parameters()).detach().sum()) for model in fits}
    assert len(weights) == 15  # its own noise, too


def test_two_searches_share_neither_noise_nor_split_nor_candidates() -> None:
    X, y, _ = people()
    prior = {"max_grad_norm": stats.loguniform(0.1, 2.0)}
    first, second = (build(param_distributions=prior, random_state=0).fit(X, y) for _ in "ab")
    assert first.best_params_ != second.best_params_
    assert not np.array_equal(first.noisy_counts_, second.noisy_counts_)


def test_equal_scores_leave_the_first_candidate(fits, monkeypatch) -> None:
    X, y, _ = people()
    monkeypatch.setattr(NumberOfRuns, "draw", lambda self, generator: 4)
    monkeypatch.setattr(candidates, "score_of", lambda *a, **k: (Score(0.0, 0.5), None))
    search = build(Recorded(**FAST)).fit(X, y)
    assert search.best_estimator_ is fits[0]


# -- nothing else is kept -------------------------------------------------------------------


def test_nothing_but_the_winner_is_kept() -> None:
    X, y, groups = people()
    search = build(tolerance=0.1, n_iter=4).fit(X, y, sensitive_features=groups)
    assert kept_beyond_the_winner(search) == set()
    for name in ("cv_results_", "n_splits_", "refit_time_", "scorer_"):
        assert not hasattr(search, name)
    assert traces(pickle.dumps(search), X, y, groups) == []
    again = pickle.loads(pickle.dumps(search))
    assert np.array_equal(again.predict(X), search.predict(X))


class Leaky(PrivateSearchCV):
    """A search that returns what scikit-learn's would."""

    def _fit(self, given, charge):
        receipt = super()._fit(given, charge)
        self.cv_results_ = {"mean_test_score": np.array([self.best_score_])}
        return receipt


def test_a_search_that_returned_its_results_would_be_noticed() -> None:
    X, y, _ = people()
    search = Leaky(DPSGDClassifier(**FAST), CLIPS, n_iter=2).fit(X, y)
    assert kept_beyond_the_winner(search) == {"cv_results_"}
    # And it would not travel.
    assert not hasattr(pickle.loads(pickle.dumps(search)), "cv_results_")


# -- score and hold-out ---------------------------------------------------------------------


def test_each_record_is_assigned_by_itself() -> None:
    X, y, groups = people(400)
    parts = divide(X, y, groups, 0.25, NoiseSource(3))
    fewer = divide(X[:-1], y[:-1], groups[:-1], 0.25, NoiseSource(3))
    assert len(parts.training) + len(parts.held_out) == 400
    shared = len(fewer.training)
    assert np.array_equal(parts.training.X[:shared], fewer.training.X)
    assert np.array_equal(parts.held_out.X[: len(fewer.held_out)], fewer.held_out.X)
    sizes = [len(divide(X, y, None, 0.25, NoiseSource()).held_out) for _ in range(300)]
    # A split of fixed size has no spread; this one has that of 400 coins.
    assert stats.binomtest(sum(sizes), 400 * 300, 0.25).pvalue > 1e-6
    assert np.var(sizes) > 400 * 0.25 * 0.75 / 3


def test_a_secret_part_without_a_class_is_not_refused(monkeypatch) -> None:
    """By a refusal the caller would learn that chance held all records of a rare label out.

    Given that class, the model is fitted to the noise of its cells.
    """
    X, y, groups = people()
    y = y.astype("U4")
    y[0] = "rare"

    def rare_held_out(X, y, sensitive_features, share, source, person_ids=None):
        parts = divide(X, y, sensitive_features, share, source)
        rows = GroupedRows(X, y, sensitive_features, encode_groups(groups, n_rows=len(y)))
        return replace(parts, training=rows.part(np.arange(1, 220)))

    monkeypatch.setattr(search_module, "divide", rare_held_out)
    model = FairPathClassifier(max_epochs=1, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        found = build(model, {"tolerance": [0.1, 0.2]}).fit(X, y, sensitive_features=groups)
    assert found.best_estimator_.classes_.tolist() == ["no", "rare", "yes"]
    with pytest.raises(ValueError, match="'classes' declares 'rare', which no row of y holds"):
        model.set_params(classes=["no", "rare", "yes"]).fit(
            X[1:], y[1:], sensitive_features=groups[1:]
        )


@pytest.mark.parametrize("declared", [None, 300])
@pytest.mark.parametrize("search", ["search", "specify"])
def test_released_sets_are_those_of_all_rows_and_not_of_the_training_part(
    search: str, declared: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chance decides whether one of two records with a rare label trains: its model must not say.

    If it did, "the class is missing" would have the probability h**2 with both of them and h
    with one, for the share h of held-out rows: four times as much at the default.
    """
    X, y, groups = people()
    y, groups = y.astype("U4"), groups.astype("U4")
    y[:2], groups[:2] = "rare", "few"

    def all_rare_held_out(X, y, sensitive_features, share, source, person_ids=None):
        parts = divide(X, y, sensitive_features, share, source)
        rows = GroupedRows(X, y, sensitive_features, encode_groups(groups, n_rows=len(y)))
        training, held = (rows.part(np.arange(*ends)) for ends in ((2, 220), (220, 300)))
        return replace(parts, training=training, held_out=held)

    model = DPSGDClassifier(dataset_size=declared, **FAST)
    monkeypatch.setattr(search_module, "divide", all_rare_held_out)
    monkeypatch.setattr(specification_module, "divide", all_rare_held_out)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        if search == "search":
            found = build(model).fit(X, y, sensitive_features=groups)
            models = [found.best_estimator_]
            assert found.classes_.tolist() == ["no", "rare", "yes"]
        else:
            given = {"epsilon": 2.0, "delta": 1e-5, "tolerance": 0.9}
            tried = specify(model, CLIPS, X, y, sensitive_features=groups, **given)
            models = [attempt.model for attempt in tried.attempts]
    for chosen in models:
        assert chosen.classes_.tolist() == ["no", "rare", "yes"]
        assert (chosen.classes_ == np.unique(y)).all()
        assert chosen.classes_.dtype == y.dtype
        if declared is not None:
            assert chosen.groups_ == ("a", "b", "few")


@pytest.mark.parametrize("with_scores", [False, True])
def test_one_record_moves_one_count_of_the_score_table(with_scores: bool) -> None:
    X, y, groups = people()
    model = DPSGDClassifier(**FAST).fit(X, y)
    labels, codes = np.unique(groups, return_inverse=True)
    whole = GroupedRows(X, y, groups, Groups(tuple(labels), codes))
    less = GroupedRows(X[1:], y[1:], groups[1:], Groups(tuple(labels), codes[1:]))
    tables = [
        noisy_table(model, rows, float("inf"), NoiseSource(), with_scores=with_scores)
        for rows in (whole, less)
    ]
    assert tables[0].shape == (2, 2, 2, BINS if with_scores else 1)
    assert np.abs(tables[0] - tables[1]).sum() == 1
    assert tables[0].sum() == 300


@pytest.mark.parametrize("with_scores", [False, True])
def test_every_count_of_the_table_has_noise_of_the_stated_size(with_scores: bool) -> None:
    X, y, _ = people()
    model = DPSGDClassifier(**FAST).fit(X, y)
    rows = GroupedRows(X, y, None, Groups(("all",), np.zeros(300, dtype=np.int64)))
    exact = noisy_table(model, rows, float("inf"), NoiseSource(), with_scores=with_scores)
    source, epsilon = NoiseSource(), 0.5
    drawn = np.stack(
        [noisy_table(model, rows, epsilon, source, with_scores=with_scores) for _ in range(150)]
    )
    noise = drawn - exact
    variance = 2 * np.exp(-epsilon) / (1 - np.exp(-epsilon)) ** 2
    # Kurtosis of the law is below 6.2, so its variance is known to within 30 % at 1e-6 here.
    assert noise.var() == pytest.approx(variance, rel=0.6 if noise.size < 2000 else 0.3)
    assert np.all(noise.reshape(150, -1).std(axis=0) > 0)


def test_scores_read_off_the_table() -> None:
    dp = get_notion("demographic_parity")
    arguments = {"notion": dp, "classes": [0, 1]}
    table = np.zeros((2, 2, 2, 1), dtype=np.int64)
    table[0, :, :, 0] = [[40, 10], [10, 40]]  # half is selected
    table[1, :, :, 0] = [[70, 0], [10, 20]]  # a fifth is
    score, gap = score_of(table, objective="accuracy", tolerance=0.2, **arguments)
    assert gap == pytest.approx(0.3)
    assert score.value == pytest.approx(170 / 200)
    assert score.shortfall == pytest.approx(-0.1)
    fair = Score(0.0, 0.1)
    assert fair > score > Score(-0.2, 1.0)
    assert score_of(table, objective="accuracy", tolerance=None, **arguments)[0].shortfall == 0.0
    # Negative noisy counts and empty tables are no errors.
    empty = np.full((2, 2, 2, 1), -3, dtype=np.int64)
    assert score_of(empty, objective="accuracy", tolerance=0.2, **arguments)[0] == Score(-0.8, 0.0)


def test_the_area_from_bins_is_that_of_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=4000)
    bins = np.clip((rng.normal(size=4000) + y) * 4 + 10, 0, BINS - 1).astype(int)
    table = np.zeros((1, 2, 2, BINS), dtype=np.int64)
    np.add.at(table, (0, y, (bins > 10).astype(int), bins), 1)
    score, _ = score_of(
        table, objective="auc", notion=get_notion("demographic_parity"), classes=[0, 1],
        tolerance=None,
    )  # fmt: skip
    assert score.value == pytest.approx(sklearn.metrics.roc_auc_score(y, bins), abs=1e-12)


@pytest.mark.slow
def test_a_good_candidate_is_found_and_an_unfair_one_is_not() -> None:
    rng = np.random.default_rng(0)
    groups = rng.integers(2, size=6000)
    y = (rng.random(6000) < np.where(groups == 1, 0.7, 0.3)).astype(int)
    X = np.column_stack([groups + rng.normal(0, 0.1, 6000), y + rng.normal(0, 0.7, 6000)])
    prior = {"net__lr": [1e-6, 0.01]}  # one learns nothing
    # So many candidates that one of the two is never drawn in 6e-5 of all searches:
    # E .5^J = (g / (1 - (1 - g) / 2))^20 with g = 20 / 45.
    search = build(
        DPSGDClassifier(max_epochs=4), prior, epsilon=20.0, delta=1e-5, n_iter=25, shape=20.0
    )
    assert search.fit(X, y).best_params_ == {"net__lr": 0.01}
    strict = clone(search).set_params(tolerance=0.05).fit(X, y, sensitive_features=groups)
    assert strict.best_gap_ < search.fit(X, y, sensitive_features=groups).best_gap_


def test_a_given_price_of_the_score_is_used_or_refused(monkeypatch) -> None:
    X, y, _ = people()
    priced = []
    keep = candidates.noisy_table
    monkeypatch.setattr(
        candidates,
        "noisy_table",
        lambda m, h, e, s, **k: priced.append(e) or keep(m, h, e, s, **k),
    )
    search = build(score_epsilon=0.01).fit(X, y)
    assert set(priced) == {0.01} == {search.score_epsilon_}
    with pytest.raises(ValueError, match="'score_epsilon' = 0.9 would make the search cost more"):
        build(score_epsilon=0.9).fit(X, y)


# -- scikit-learn ---------------------------------------------------------------------------


@pytest.mark.parametrize("routing", [False, True])
def test_groups_reach_the_last_step_of_a_pipeline(routing: bool) -> None:
    X, y, groups = people()
    inner = Pipeline([("scale", FrozenEstimator(StandardScaler().fit(X))),
                      ("clf", FairDPClassifier(**FAST))])  # fmt: skip
    search = build(inner, {"clf__max_grad_norm": [0.5, 1.0]}, tolerance=0.2)
    with sklearn.config_context(enable_metadata_routing=routing):
        search.fit(pd.DataFrame(X), y, sensitive_features=pd.Series(groups, name="g"))
    assert search.best_estimator_["clf"].groups_ == ("a", "b") == search.groups_
    assert search.predict(pd.DataFrame(X)).shape == (300,)
    assert search.predict_proba(pd.DataFrame(X)).shape == (300, 2)
    assert 0.0 <= search.score(pd.DataFrame(X), y) <= 1.0


def test_it_can_be_cloned_set_and_certified() -> None:
    X, y, groups = people()
    search = build(FairDPClassifier(**FAST), tolerance=0.2)
    search.set_params(estimator__max_epochs=1, n_iter=1)
    other = clone(search).fit(X, y, sensitive_features=groups)
    assert not hasattr(search, "privacy_")
    certificate = other.certify(X, y, sensitive_features=groups, holdout="public")
    assert certificate.verify(other)
    assert certificate.satisfies(epsilon=1.0)
    # A bound that averages over the noise of one fit is not one for the best of several.
    assert {claim.scope for claim in certificate.fairness} == {"deployed model"}
    assert certify(other.best_estimator_).fairness == ()
    assert (
        certify(
            clone(other.best_estimator_)
            .set_params(epsilon=1.0, noise_multiplier=None)
            .fit(X, y, sensitive_features=groups)
        ).fairness
        != ()
    )  # it is one of a single fit


@pytest.mark.slow
def test_scikit_learns_checks() -> None:
    search = build(
        n_iter=1, holdout_fraction=0.1, delta=1e-4, reproducible_noise=True,
        random_state=0,
    )  # fmt: skip
    assert unexpected(search) == []


def test_declared_sizes_make_it_a_claim_about_added_or_removed_records() -> None:
    X, y, _ = people()
    search = build(DPSGDClassifier(dataset_size=225, classes=["no", "yes"], **FAST)).fit(X, y)
    assert search.privacy_.adjacency == "add-remove"


def test_without_noise_or_with_repeatable_noise_nothing_is_promised() -> None:
    X, y, _ = people()
    with pytest.warns(PrivacyWarning, match="epsilon=inf"):
        free = build(epsilon=float("inf")).fit(X, y)
    assert free.privacy_ is None
    assert free.noisy_counts_.sum() < 300
    first, second = (build(reproducible_noise=True, random_state=1).fit(X, y) for _ in "ab")
    assert first.privacy_.is_void
    assert np.array_equal(first.noisy_counts_, second.noisy_counts_)
    assert first.best_params_ == second.best_params_


def test_the_ledger_hears_of_one_search_and_keeps_a_crashed_one(tmp_path, monkeypatch) -> None:
    X, y, groups = people()
    ledger = PrivacyLedger(tmp_path / "ledger.db")
    search = build(n_iter=6, ledger=ledger).fit(X, y)
    (entry,) = ledger.entries()
    assert (entry.activity, entry.state) == ("search", "committed")
    assert ledger.totals()[0].epsilon == search.privacy_.epsilon
    certify(
        search, X, sensitive_features=groups, holdout="public"
    )  # counted where the search was charged
    assert [entry.activity for entry in ledger.entries()] == ["search", "certify"]

    def crash(*arguments):
        raise RuntimeError("power")

    monkeypatch.setattr(candidates, "trained", crash)
    with pytest.raises(RuntimeError, match="power"):
        search.fit(X, y)
    assert ledger.totals()[0].epsilon > 1.2 * 1.0  # charged although nothing came of it


# -- bad input ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("search", "message"),
    [
        (build(LogisticRegression(), {"C": [1.0]}), "'estimator' must be, or be a Pipeline"),
        (build(PATEClassifier()), "PATEClassifier, whose cost is not known"),
        (build(DPSGDRegressor()), "would buy its own bounds.* Declare target_bounds"),
        (build(DPSGDRegressor(target_bounds=(0, 1), outside_epsilon=0.1)), "outside_epsilon=0.1"),
        (build(DPSGDRegressor(target_bounds=(0, 1)), scoring="accuracy"), "predict numbers"),
        (build(DPSGDRegressor(target_bounds=(0, 1)), notion="equalized_odds"), "compare numbers"),
        (build(DPSGDRegressor(target_bounds=(0, 1)), {"target_bounds": [(0, 2)]}), "search sets"),
        (build(FairPathRegressor(target_bounds=(0, 1), group_at_predict="raw")), "rows alone"),
        (build(DPSGDRegressor(target_bounds=(1, 0))), r"target_bounds=\(1, 0\) is not allowed"),
        (build(Pipeline([("clf", DPSGDClassifier(**FAST))]),
               {"clf": [DPSGDClassifier(), DPSGDRegressor(target_bounds=(0, 1))]}),
         "mixes classifiers and regressors"),
        (build(Pipeline([("clf", DPSGDRegressor(target_bounds=(0, 1)))]),
               {"clf": [DPSGDRegressor(target_bounds=(0, 2))]}), "between the same bounds"),
        (build(Pipeline([("clf", DPSGDClassifier(**FAST))]),
               {"clf": [DPSGDClassifier(), PATEClassifier()]}), "whose cost is not known"),
        (build(param_distributions={"max_epochs": [1, -1]}), "'max_epochs' parameter"),
        (build(scoring="neg_mean_absolute_error"), "predict classes"),
        (build(notion="mean_gap"), "mean_gap"),
        (build(param_distributions={"epsilon": [1, 2]}), "names epsilon, which the search sets"),
        (build(param_distributions={"max_grad_nrom": [1]}), "max_grad_nrom"),
        (build(param_distributions=[3]), "must be a mapping of parameter to list"),
        (build(n_iter=0.5), "'n_iter' parameter .* >= 1"),
        (build(shape=-0.5), "'shape' parameter .* >= 0"),
        (build(scoring="f1"), "'scoring' parameter"),
        (build(holdout_fraction=0), "'holdout_fraction' parameter"),
        (build(tolerance=0.1), "sensitive_features=None"),
        (build(DPSGDClassifier(ledger="x.db")), "its own ledger"),
        (build(DPSGDClassifier(reproducible_noise=True)), "share their noise"),
        (build(FairDPClassifier(group_sizes_epsilon=0.1)), "buy its own sizes"),
        (build(Pipeline([("scale", StandardScaler()), ("clf", DPSGDClassifier(**FAST))]),
               {"clf__max_grad_norm": [1.0]}), "Step 'scale' .* learned from rows"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_bad_settings_are_refused_and_leave_nothing_behind(search, message, tmp_path) -> None:
    X, y, _ = people()
    ledger = PrivacyLedger(tmp_path / "ledger.db")
    with pytest.raises(ValueError, match=message):
        search.set_params(ledger=ledger).fit(X, y)
    assert not hasattr(search, "privacy_")
    assert ledger.entries() == ()  # before any charge


@pytest.mark.parametrize(
    ("change", "step", "message"),
    [
        (lambda X: np.where(X > 2, np.nan, X), PublicScaler((-6, 6)), "NaN in .* does not guess"),
        (lambda X: np.where(X > 2, np.inf, X), PublicScaler((-6, 6)), "infinity in"),
        (csr_array, PublicScaler((-6, 6)), "Sparse data was passed"),
        (np.asarray, StandardScaler(), "Step 'scale' .* learned from rows"),
        (
            np.asarray,
            PrivateTableEncoder(encoding="onehot"),
            "Step 'scale' .* privacy cost of its own",
        ),
    ],
)
def test_rows_and_steps_of_a_pipeline_are_refused_before_any_charge(
    tmp_path, monkeypatch, change, step, message
) -> None:
    X, y, _ = people()
    ledger = PrivacyLedger(tmp_path / "ledger.db")
    monkeypatch.setattr(PrivateTableEncoder, "fit", pytest.fail)  # it would release a table
    steps = Pipeline([("scale", step), ("clf", DPSGDClassifier(**FAST))])
    with pytest.raises((ValueError, TypeError), match=message):
        build(steps, {"clf__max_grad_norm": [1.0]}, ledger=ledger).fit(change(X), y)
    assert ledger.entries() == ()


def test_a_search_in_a_process_group_is_refused_before_any_charge(monkeypatch, tmp_path) -> None:
    """Two processes would draw two numbers of runs, and choose twice from one pool."""
    X, y, _ = people()
    as_one_of_two(monkeypatch)
    with pytest.raises(ValueError, match="PrivateSearchCV is fitted by one process alone"):
        build(ledger=tmp_path / "ledger.db").fit(X, y)
    assert not [*tmp_path.iterdir()]


def test_a_draw_that_leaves_too_few_rows_to_train_on_costs_nothing_and_names_no_number(tmp_path):
    """Two of the rows are left with a chance of 1e-11."""
    ledger = PrivacyLedger(tmp_path / "ledger.db")
    search = PrivateSearchCV(
        DPSGDClassifier(**FAST), CLIPS, delta=1e-3, holdout_fraction=1 - 1e-6, ledger=ledger
    )
    X, y, _ = people()
    with pytest.raises(ValueError, match="left too few rows to train on") as refused:
        search.fit(X[:5], y[:5])
    assert not any(letter.isdigit() for letter in str(refused.value).replace("0.999999", ""))
    assert ledger.entries() == ()
