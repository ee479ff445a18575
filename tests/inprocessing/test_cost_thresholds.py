"""Thresholds for stated costs of mistakes: what is released, what is charged, what is chosen."""

from __future__ import annotations

import math
import pickle
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.special import expit
from scipy.stats import binom
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from skfairdp import (
    DPAdditiveClassifier,
    DPSGDClassifier,
    PrivacyLedger,
    PrivateTableEncoder,
    SmoothedClassifier,
    certify,
    fit_many,
    quote,
)
from skfairdp.engine.release import NoisyRelease, Rows
from skfairdp.exceptions import PlanError
from skfairdp.inprocessing.cost_thresholds import (
    FAILURE,
    N_BINS,
    StatedCosts,
    counted_scores,
    with_table,
)
from skfairdp.model_selection import fit_within
from skfairdp.preprocessing import PublicScaler
from skfairdp.privacy.noise import NoiseSource
from skfairdp.privacy.sizes import Sizes
from skfairdp.records.sampling import PersonSampler, PoissonSampler

N = 3000
RNG = np.random.default_rng(0)
X = RNG.uniform(size=(N, 3))
Y = np.where(RNG.random(N) < 0.5 * X[:, 0] ** 2, "yes", "no")
COSTS = {"yes": 5.0, "no": 1.0}
DP_SGD = DPSGDClassifier(max_epochs=2, progress=False, costs=COSTS)
ADDITIVE = DPAdditiveClassifier((0, 1), n_bins=4, max_epochs=3, progress=False, costs=COSTS)
MODELS = {"DP-SGD": DP_SGD, "additive": ADDITIVE}


@pytest.fixture(params=MODELS)
def model(request: pytest.FixtureRequest) -> Any:
    return clone(MODELS[request.param])


def cost_of(answers: np.ndarray, labels: np.ndarray, costs: dict[str, float] = COSTS) -> float:
    """Mean cost of answers in units of the larger cost."""
    each = np.array([costs[label] for label in labels])
    return float(np.mean(each * (answers != labels)) / max(costs.values()))


# -- what the threshold does --------------------------------------------------------------


def test_answers_follow_the_threshold_and_chances_stay(model) -> None:
    model.fit(X, Y)
    chances = model.predict_proba(X)
    assert np.array_equal(model.predict(X) == "yes", chances[:, 1] > model.threshold_)
    assert np.array_equal(model.predict(X) == "yes", model.decision_function(X) > 0.0)
    assert model.threshold_ in model.threshold_table_["threshold"].to_numpy()


def test_costs_change_no_chance_and_no_draw_before_the_table(model) -> None:
    """With a given noise multiplier and even learning rates, training is what it is without."""
    fixed = {"epsilon": None, "noise_multiplier": 1.5, "random_state": 0}
    fixed |= {"reproducible_noise": True}
    if isinstance(model, DPSGDClassifier):
        fixed |= {"learning_rate_schedule": None}
    share = 0.1 if isinstance(model, DPSGDClassifier) else 0.0
    with_costs = model.set_params(**fixed, threshold_share=share).fit(X, Y)
    without = clone(model).set_params(costs=None).fit(X, Y)
    assert np.array_equal(with_costs.predict_proba(X), without.predict_proba(X))


def test_without_a_share_the_threshold_is_that_of_exact_chances_and_costs_nothing(model) -> None:
    model.set_params(threshold_share=0.0).fit(X, Y)
    plain = clone(model).set_params(costs=None)
    assert model.threshold_ == pytest.approx(1.0 / 6.0)
    assert model.plan_ == plain.quote(n_rows=N, n_features=3).plan
    assert not hasattr(model, "score_counts_")
    with pytest.raises(AttributeError, match="no table of scores"):
        _ = model.threshold_table_
    assert not hasattr(plain.fit(X, Y), "threshold_")


def test_weights_of_the_loss_move_the_threshold_of_exact_chances(model) -> None:
    """A loss that weighs "yes" as much as it costs has its minimum where 1/2 is right."""
    model.set_params(threshold_share=0.0, class_weight={"yes": 10, "no": 2})
    assert model.fit(X, Y).threshold_ == pytest.approx(0.5)


def test_a_threshold_that_is_wrong_for_exact_chances_is_found() -> None:
    """The net is made to give chances whose log-odds are two below the true ones."""
    model = clone(ADDITIVE).set_params(max_epochs=15, epsilon=20.0).fit(X, Y)
    with torch.no_grad():
        model.module_.head.bias -= 2.0
    costs = StatedCosts.of(COSTS, {}, ["no", "yes"])
    chances = model.predict_proba(X)[:, 1]
    counts = np.zeros((N_BINS, 2))
    np.add.at(counts, (costs.bins(chances), (Y == "yes").astype(int)), 1.0)
    chosen = costs.chosen(costs.table(counts, model.plan_))
    assert chosen < costs.middle / 3.0
    found = [np.where(chances > t, "yes", "no") for t in (chosen, costs.middle)]
    assert cost_of(found[0], Y) < cost_of(found[1], Y) - 0.02


@pytest.mark.parametrize("costs", [COSTS, {"yes": 1, "no": 1}, {"yes": 0.01, "no": 3}])
def test_the_table_counts_the_cost_of_every_threshold(costs) -> None:
    """Without noise, against answers that are compared one by one."""
    stated = StatedCosts.of(costs, {}, ["no", "yes"])
    chances = RNG.uniform(size=N) ** 3
    counts = np.zeros((N_BINS, 2))
    np.add.at(counts, (stated.bins(chances), (Y == "yes").astype(int)), 1.0)
    table = stated.table(counts, plan_of(0.0))
    expected = [cost_of(np.where(chances > t, "yes", "no"), Y, costs) for t in stated.thresholds]
    np.testing.assert_allclose(table["cost"], expected, atol=1e-12)
    np.testing.assert_allclose(table["change"], np.array(expected) - expected[16], atol=1e-12)
    assert not table["margin"].any()
    assert stated.chosen(table) == stated.thresholds[np.argmin(expected)] or np.isclose(
        min(expected), expected[list(stated.thresholds).index(stated.chosen(table))]
    )


def test_scores_that_are_no_number_or_certain_have_a_bin() -> None:
    stated = StatedCosts.of(COSTS, {}, ["no", "yes"])
    assert stated.bins(np.array([0.0, 1.0, math.nan])).tolist() == [0, N_BINS - 1, N_BINS - 1]
    on_the_grid = stated.bins(stated.thresholds)  # a chance equal to a threshold is not above it
    assert on_the_grid.tolist() == list(range(N_BINS - 1))


@pytest.mark.parametrize("clip", [0.5, 2.0616, 3.0, 40.0])
def test_scores_of_the_additive_model_are_cut_where_chances_are(clip) -> None:
    model = DPAdditiveClassifier(max_grad_norm=clip)
    for chance in (1e-9, 0.01, 1 / 6, 0.5, 0.6, 0.999):
        score = np.array([model._score_at(chance)])
        assert model._chances(score)[0, 1] == pytest.approx(chance, rel=1e-9)


# -- what is promised ---------------------------------------------------------------------


def plan_of(multiplier: float, n: int = N):
    sizes = Sizes(("all",), (n,), "add-remove")
    return sizes.plan(sizes.whole(("scores", 1.0, multiplier)), delta=1e-5)


def drawn_tables(std: float, assumed: float, draws: int = 400) -> tuple[int, int]:
    """Tables of which a margin fails, and those of which a costlier threshold is chosen."""
    rng = np.random.default_rng(3)
    stated = StatedCosts.of(COSTS, {}, ["no", "yes"])
    # Every other threshold costs more, a little: what noise shows as a gain is luck.
    counts = np.array([[500.0, 95.0]] * (N_BINS // 2) + [[500.0, 105.0]] * (N_BINS // 2))
    truth = stated.table(counts, plan_of(0.0))["change"].to_numpy()
    failed = worse = 0
    for _ in range(draws):
        noisy = counts + std * rng.standard_normal(counts.shape)
        table = stated.table(noisy, plan_of(assumed))
        failed += bool((np.abs(table["change"] - truth) > table["margin"]).any())
        place = list(stated.thresholds).index(stated.chosen(table))
        worse += truth[place] > 1e-12
    return failed, worse


@pytest.mark.parametrize("assumed", [30.0, 15.0])
def test_margins_hold_for_all_thresholds_at_once(assumed) -> None:
    """In .05 of tables one may fail, and a threshold be chosen that costs more: more than the limit
    by chance in 1e-6. With half of the noise assumed, both are seen."""
    limit = binom.isf(1e-6, 400, FAILURE)
    failed, worse = drawn_tables(30.0, assumed)
    assert (failed <= limit) == (assumed == 30.0)
    assert (worse <= limit) == (assumed == 30.0)


def test_the_chosen_threshold_is_within_two_margins_of_every_other() -> None:
    """The bound on the excess cost: as often as the margins hold; and the bound on its mean."""
    rng = np.random.default_rng(4)
    stated = StatedCosts.of(COSTS, {}, ["no", "yes"])
    broken, excesses = 0, []
    for _ in range(100):
        counts = rng.uniform(0.0, 300.0, size=(N_BINS, 2))
        truth = stated.table(counts, plan_of(0.0))["change"].to_numpy()
        noisy = counts + 30.0 * rng.standard_normal(counts.shape)
        table = stated.table(noisy, plan_of(30.0))
        place = list(stated.thresholds).index(stated.chosen(table))
        broken += truth[place] > min(0.0, np.min(truth + 2.0 * table["margin"])) + 1e-12
        excesses.append(truth[place] - truth.min())
    assert broken <= binom.isf(1e-6, 100, FAILURE)
    assert 0.0 < np.mean(excesses) < (3.17 * 4.0 + 22.7) * 30.0 * math.hypot(0.2, 1.0) / N


# -- what is charged and what is released --------------------------------------------------


def test_the_plan_holds_one_more_table_with_its_share(model) -> None:
    priced = model.quote(n_rows=N, n_features=3)
    *others, table = priced.plan.segments
    assert (table.steps, table.rates, table.blocks[0].name) == (1, (1.0,), "scores")
    assert table.blocks[0].max_norm == 1.0
    shares = [s.steps * (s.rates[0] / s.multiplier(0)) ** 2 for s in (*others, table)]
    assert shares[-1] == pytest.approx(0.1 * sum(shares), rel=1e-9)
    assert priced.privacy.epsilon <= 1.0
    free = clone(model).set_params(costs=None).quote(n_rows=N, n_features=3)
    assert [s.blocks[0].name for s in free.plan.segments] == [s.blocks[0].name for s in others]


def released_without_noise(n: int, ids: Any = None) -> np.ndarray:
    """Table of a fit without noise whose net stays at its initial weights."""
    model = clone(DP_SGD).set_params(
        epsilon=math.inf, classes=["no", "yes"], dataset_size=300, random_state=0, net__lr=0.0
    )
    with pytest.warns(Warning, match="nothing is protected"):
        return model.fit(X[:n], Y[:n], person_ids=ids).score_counts_


def moved_by_one_record() -> float:
    return float(np.linalg.norm(released_without_noise(300) - released_without_noise(299)))


def test_a_record_moves_the_table_by_the_norm_that_is_charged(monkeypatch) -> None:
    assert moved_by_one_record() == 1.0
    honest = NoisyRelease._counted_tables  # broken: each record counts twice
    monkeypatch.setattr(
        NoisyRelease, "_counted_tables", lambda self, *args: 2 * honest(self, *args)
    )
    assert moved_by_one_record() == 2.0


def test_a_person_with_many_rows_counts_once_in_the_table(monkeypatch) -> None:
    """Without noise; the last of 100 persons has 12 rows, more than a step takes."""
    ids = np.append(np.arange(288) % 99, np.full(12, 99))
    whole = released_without_noise(300, ids)
    without = released_without_noise(288, ids[:288])
    assert (whole.sum(), without.sum()) == (100.0, 99.0)
    # Broken: all rows of a person count.
    monkeypatch.setattr(PersonSampler, "counted", PoissonSampler.counted)
    assert released_without_noise(300, ids).sum() == 300.0


def release_of(multiplier: float, n: int = 60) -> NoisyRelease:
    """Release of one table about made-up rows, whose scores are their only number."""
    scores = np.random.default_rng(5).uniform(size=60)[:n]
    features = torch.from_numpy(scores)[:, None]
    labels = (features[:, 0] > 0.5).double()
    rows = Rows(features, (labels,), np.zeros(n, dtype=np.int64))
    return NoisyRelease(rows, plan_of(multiplier, 60), NoClipper(), NoiseSource(None))


class NoClipper:
    """Stands where no gradient is clipped."""

    product_terms = 1


STATED = StatedCosts.of(COSTS, {}, ["no", "yes"])


def table_of(release: NoisyRelease) -> np.ndarray:
    return counted_scores(release, STATED, lambda X: X[:, 0].numpy())


def quartered(monkeypatch, divided: float) -> None:
    """Draw less noise than is charged."""
    noisy = NoisyRelease._noisy
    monkeypatch.setattr(
        NoisyRelease, "_noisy", lambda self, total, std: noisy(self, total, std / divided)
    )


@pytest.mark.parametrize("divided", [1.0, 4.0])
def test_the_table_has_the_noise_that_is_charged(monkeypatch, divided) -> None:
    """100 tables; a quarter of the noise is seen. Fails by chance in 1e-6 runs."""
    quartered(monkeypatch, divided)
    exact = table_of(release_of(0.0))
    found = np.array([table_of(release_of(3.0)) - exact for _ in range(100)])
    as_charged = abs(float(found.std()) / 3.0 - 1.0) < 5.0 / math.sqrt(2 * found.size)
    assert as_charged == (divided == 1.0)


@pytest.mark.parametrize("divided", [1.0, 4.0])
def test_an_attacker_learns_from_the_table_what_is_charged_and_no_more(
    monkeypatch, divided
) -> None:
    """The best test for one record is its entry: normal, and with or without the record apart by
    1 / multiplier standard deviations. Twice 300 releases; 5 standard errors, 1e-6."""
    quartered(monkeypatch, divided)
    entry = np.argwhere(table_of(release_of(0.0, 60)) != table_of(release_of(0.0, 59)))
    (place,) = map(tuple, entry)
    seen = [[table_of(release_of(2.0, n))[place] for _ in range(300)] for n in (60, 59)]
    apart = (np.mean(seen[0]) - np.mean(seen[1])) / np.std(seen[1])
    as_charged = abs(apart - 0.5) < 5.0 * math.sqrt(2.0 / 300)
    assert as_charged == (divided == 1.0)


def test_a_table_is_released_once_and_in_whole_steps() -> None:
    release = release_of(3.0)
    counts = table_of(release) / (3.0 * (1.0 + 2.0**-20) * 2.0**-38)
    if release.meter.plan.exact_noise:
        np.testing.assert_allclose(counts, np.rint(counts))
    with pytest.raises(PlanError):
        table_of(release)


def test_noise_is_exact_by_default() -> None:
    assert DP_SGD.quote(n_rows=N).plan.exact_noise
    assert ADDITIVE.quote(n_rows=N, n_features=3).plan.exact_noise


def test_an_unused_table_is_an_error(monkeypatch, model) -> None:
    monkeypatch.setattr(type(model), "_choose_threshold", lambda self, run: None)
    with pytest.raises(PlanError):
        model.fit(X, Y)
    assert not hasattr(model, "module_")


# -- quotes, ledgers, persons, rows on disk, pipelines, copies --------------------------------


def test_a_quote_is_the_charge_bit_for_bit(model, tmp_path) -> None:
    ledger = PrivacyLedger(tmp_path / "ledger.db", "rows")
    priced = model.quote(n_rows=N, n_features=3, n_persons=N // 2)
    fitted = clone(model).set_params(ledger=ledger).fit(X, Y, person_ids=np.arange(N) // 2)
    assert priced.privacy.epsilon == fitted.privacy_.epsilon
    assert priced.plan == fitted.plan_
    (entry,) = ledger.entries()
    assert entry.guarantee.epsilon == priced.privacy.epsilon
    assert fitted.privacy_.protects == "person"
    assert fitted.score_counts_.sum() == pytest.approx(N / 2, abs=10 * 20 * math.sqrt(2 * N_BINS))


def test_a_certificate_holds_for_a_stored_copy_and_notices_another_threshold(model) -> None:
    model.fit(X, Y)
    read = pickle.loads(pickle.dumps(model))
    assert np.array_equal(read.predict(X), model.predict(X))
    pd.testing.assert_frame_equal(read.threshold_table_, model.threshold_table_)
    certificate = certify(model)
    assert certificate.verify(read)
    read.threshold_ = 0.5
    assert not certificate.verify(read)


def test_a_model_that_was_fitted_again_without_costs_has_no_threshold(model) -> None:
    model.fit(X, Y).set_params(costs=None)
    with pytest.warns(Warning, match="fit"):
        model.fit(X, Y)
    assert not hasattr(model, "threshold_")
    assert np.array_equal(model.predict(X) == "yes", model.predict_proba(X)[:, 1] > 0.5)


def test_rows_on_disk_give_what_the_same_rows_in_memory_give(model, tmp_path) -> None:
    stored = np.memmap(tmp_path / "rows", dtype=np.float64, mode="w+", shape=X.shape)
    stored[:] = X
    model.set_params(random_state=0, reproducible_noise=True)
    memory, mapped = (clone(model).fit(rows, Y) for rows in (X, stored))
    assert np.array_equal(memory.score_counts_, mapped.score_counts_)
    assert np.array_equal(memory.predict(X), mapped.predict(stored))


def test_pipelines_and_searches_pass_costs_on() -> None:
    steps = make_pipeline(PublicScaler((0, 1)), clone(DP_SGD))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the epochs, which are few
        model = clone(steps).fit(X, Y)
    certificate = certify(model)
    assert certificate.privacy.epsilon == quote(steps, n_rows=N, n_features=3).privacy.epsilon
    assert certificate.verify(model)
    search = GridSearchCV(steps, {"dpsgdclassifier__costs": [None, COSTS]}, cv=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of each fit without a ledger
        search.fit(X, Y)
    assert search.best_params_["dpsgdclassifier__costs"] in (None, COSTS)
    assert clone(search).get_params()["estimator__dpsgdclassifier__costs"] == COSTS


def test_one_budget_pays_for_levels_and_the_table() -> None:
    levels = make_pipeline(PrivateTableEncoder(encoding="levels"), clone(ADDITIVE))
    levels[-1].set_params(bounds=None)
    found = fit_within(levels, pd.DataFrame(X), Y, epsilon=3.0)
    assert certify(found).privacy.epsilon <= 3.0
    assert found[-1].score_counts_.shape == (N_BINS, 2)


def test_a_net_with_a_logit_for_each_class_is_read_by_its_chances() -> None:
    model = clone(DP_SGD).set_params(net__criterion=torch.nn.CrossEntropyLoss, epsilon=50.0)
    model.fit(X, Y)
    exact = np.zeros((N_BINS, 2))
    chances = model.predict_proba(X)[:, 1]
    np.add.at(exact, (STATED.bins(chances), (Y == "yes").astype(int)), 1.0)
    std = model.plan_.segments[-1].blocks[0].noise_std
    # A chance that rounds to the other side of a threshold moves two counts by one.
    assert np.abs(model.score_counts_ - exact).max() < 6.0 * std + 2.0


def test_smoothing_and_common_training_refuse_costs() -> None:
    with pytest.raises(ValueError, match="leave 'costs' out of 'estimator'"):
        SmoothedClassifier(clone(DP_SGD)).fit(X, Y)
    linear = clone(DP_SGD).set_params(net__module__hidden_sizes=())
    with pytest.raises(ValueError, match="leave 'costs' out, or fit one by one"):
        fit_many(linear, 2, X, Y)
    with pytest.raises(ValueError, match="leave 'costs' out, or fit one by one"):
        fit_many(clone(linear).set_params(costs=None), [{"costs": COSTS}], X, Y)


# -- messages ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"costs": 5.0}, "The 'costs' parameter .* a mapping"),
        ({"costs": "balanced"}, "The 'costs' parameter .* a mapping"),
        ({"costs": {}}, r"each of two classes to a number > 0, such as \{0: 1, 1: 5\}; got \{\}"),
        ({"costs": {"yes": 5}}, r"each of two classes .* got \{'yes': 5\}"),
        ({"costs": {"yes": 5, "no": 0}}, r"each of two classes .* got \{'no': 0\}"),
        ({"costs": {"yes": math.nan, "no": 1}}, "each of two classes"),
        ({"costs": {"yes": math.inf, "no": 1}}, "each of two classes"),
        ({"costs": {"yes": "5", "no": 1}}, "each of two classes"),
        ({"costs": {"yes": True, "no": 1}}, "each of two classes"),
        ({"costs": {"yes": 2e6, "no": 1}}, "differ by a factor of at most 1e"),
        (
            {"costs": {"yes": 5, "maybe": 1}},
            r"one cost for each class, \['no', 'yes'\]; got costs for \['yes', 'maybe'\]",
        ),
        ({"threshold_share": 1.0}, "The 'threshold_share' parameter .* >= 0 and < 1"),
        ({"threshold_share": -0.1}, "The 'threshold_share' parameter .* >= 0 and < 1"),
        ({"threshold_share": None}, "The 'threshold_share' parameter .* >= 0 and < 1"),
    ],
)
def test_wrong_costs_are_refused_before_a_charge(tmp_path, model, settings, match) -> None:
    ledger = PrivacyLedger(tmp_path / "ledger.db", "rows")
    with pytest.raises(ValueError, match=match):
        model.set_params(**settings, ledger=ledger).fit(X, Y)
    assert ledger.entries() == ()


def test_more_than_two_classes_are_refused_by_quote_and_fit(tmp_path) -> None:
    ledger = PrivacyLedger(tmp_path / "ledger.db", "rows")
    model = clone(DP_SGD).set_params(ledger=ledger)
    with pytest.raises(ValueError, match="two classes alone; got 3 classes"):
        model.quote(n_rows=N, n_features=3, classes=3)
    with pytest.raises(ValueError, match="two classes alone; got 3 classes"):
        model.fit(X, np.where(X[:, 1] > 0.5, "maybe", Y))
    assert ledger.entries() == ()


def test_messages_and_attributes_hold_no_row(model) -> None:
    with pytest.raises(ValueError, match="one cost for each class") as caught:
        model.set_params(costs={0: 1, 1: 5}).fit(X, Y)
    assert not any(f"{value:.6g}" in str(caught.value) for value in X[:50].ravel())


def test_shares_of_a_plan_without_noise_have_none() -> None:
    sizes = Sizes(("all",), (60,), "add-remove")
    free = with_table(plan_of(0.0, 60), sizes, 0.1)
    assert free.segments[-1].blocks[0].noise_std == 0.0
    assert with_table(plan_of(1.0, 60), sizes, 0.0) == plan_of(1.0, 60)
    assert with_table(plan_of(1.0, 60), sizes, 0.5).segments[-1].multiplier(0) == 1.0
    assert expit(STATED.odds) == pytest.approx(1.0 / 6.0)
