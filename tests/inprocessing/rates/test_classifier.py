"""RateConstrainedClassifier: what it releases, what it is charged for, what it refuses."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from skorch import NeuralNet
from torch import nn

from skfairdp import PrivacyLedger, RateConstrainedClassifier, default_net
from skfairdp.engine.clipping.fused import FusedClipper
from skfairdp.engine.modules import MLP
from skfairdp.engine.release import NoisyRelease, Statistic
from skfairdp.exceptions import PrivacyWarning
from skfairdp.fairness.notions import NOTIONS
from skfairdp.metrics.gaps import group_gap
from skfairdp.privacy.accounting.plan_cost import epsilons
from skfairdp.privacy.noise import NoiseSource
from skfairdp.privacy.sizes import Sizes
from tests.common.roster import people
from tests.inprocessing.rows import two_groups
from tests.privacy.oracle import oracle_epsilon

FAST: dict[str, Any] = {"max_epochs": 2, "progress": False}
REPEATABLE = {"reproducible_noise": True, "random_state": 0}
REFERENCE = Sizes(("all",), (10_000,), "add-remove")


def fit(**parameters: Any) -> RateConstrainedClassifier:
    X, y, groups = people()
    return RateConstrainedClassifier(**FAST | parameters).fit(X, y, sensitive_features=groups)


def reference_plan(**changes: Any):
    settings = {"batch_size": 100, "max_epochs": 10, "delta": 1e-5, **changes}
    return RateConstrainedClassifier(**settings)._plan(REFERENCE, 1.1)


# -- what is charged and what is released ---------------------------------------------


@pytest.mark.usefixtures("accounted_finely")
@pytest.mark.parametrize("share", [0.05, 0.5, 0.95])
@pytest.mark.parametrize("clip", [0.1, 5.0])
def test_both_blocks_together_cost_what_one_gradient_would(share, clip) -> None:
    plan = reference_plan(histogram_share=share, max_grad_norm=clip)
    gradient, histogram = plan.segments[0].blocks
    assert gradient.multiplier(0) == pytest.approx(1.1 / math.sqrt(1 - share**2))
    assert histogram.multiplier(0) == pytest.approx(1.1 / share)
    assert plan.segments[0].multiplier(0) == pytest.approx(1.1)
    # The reference value of DP-SGD at q = .01, sigma = 1.1, T = 1000.
    assert list(epsilons(plan).values()) == pytest.approx([1.5154], abs=5e-4)
    assert oracle_epsilon(plan, 1e-5) == pytest.approx(1.5154, rel=3e-3)


def test_a_plan_that_forgot_the_histogram_would_print_too_little() -> None:
    plan = reference_plan(histogram_share=0.5)
    (segment,) = plan.segments
    alone = replace(segment, blocks=segment.blocks[:1])
    forgot = replace(plan, segments=(alone,))
    assert oracle_epsilon(forgot, 1e-5) < 0.9 * oracle_epsilon(plan, 1e-5)


def test_noise_is_drawn_for_both_blocks_in_every_step_with_the_planned_std(monkeypatch) -> None:
    drawn: list[tuple[int, float]] = []
    honest = NoiseSource.noisy

    def spy(self, sums, std, *, exact):
        drawn.append((sums.size, std))
        return honest(self, sums, std, exact=exact)

    monkeypatch.setattr(NoiseSource, "noisy", spy)
    model = fit()
    gradient, histogram = model.plan_.segments[0].blocks
    n_weights = sum(p.numel() for p in model.module_.parameters())
    assert drawn == model.plan_.steps * [(n_weights, gradient.noise_std), (8, histogram.noise_std)]
    assert min(gradient.noise_std, histogram.noise_std) > 0.0


def sensitivity(monkeypatch, **parameters: Any) -> tuple[float, float]:
    """How far one record moved the released gradient and table, in units of their bounds."""
    sums: list[tuple[np.ndarray, np.ndarray]] = []
    honest = NoisyRelease.gradient_and_statistic

    def spy(self, segment, statistic, *, cell_weights=None):
        gradient, table = honest(self, segment, statistic, cell_weights=cell_weights)
        sums.append((gradient.numpy().copy(), table.numpy().copy()))
        return gradient, table

    monkeypatch.setattr(NoisyRelease, "gradient_and_statistic", spy)
    X, y, groups = people(100)
    X[0] = 1e3  # an outlier
    settings = {**FAST, "max_epochs": 1, "batch_size": 100, "dataset_size": 100, **REPEATABLE}
    settings |= {"epsilon": math.inf, "groups": ["a", "b"], "classes": ["no", "yes"]}
    for rows in (slice(None), slice(1, None)):
        model = RateConstrainedClassifier(**settings | parameters)
        with pytest.warns(PrivacyWarning, match="epsilon=inf"):
            model.fit(X[rows], y[rows], sensitive_features=groups[rows])
    blocks = model.plan_.segments[0].blocks
    bounds = [block.max_norm * block.weights[0] for block in blocks]
    (gradient, table), (other, without) = sums[0], sums[1]
    return (
        float(np.linalg.norm(gradient - other)) / bounds[0],
        float(np.linalg.norm(table - without)) / bounds[1],
    )


def test_one_record_moves_both_releases_by_their_bounds_at_most(monkeypatch) -> None:
    by_gradient, by_table = sensitivity(monkeypatch, max_grad_norm=0.5)
    assert 0.9 < by_gradient <= 1.0
    assert 1.0 - 2e-5 < by_table <= 1.0  # but for the margin


def test_with_a_threshold_gradients_are_clipped_after_their_costs(monkeypatch) -> None:
    """The first record is one whose mistakes cost 1.9 in place of 1."""
    by_gradient, by_table = sensitivity(monkeypatch, max_grad_norm=0.5, threshold=0.95)
    assert 0.9 < by_gradient <= 1.0
    assert 1.0 - 2e-5 < by_table <= 1.0
    honest = FusedClipper.clipped_sums

    def costs_afterwards(self, X, targets, max_norm, weights, *others):
        cost = torch.where(targets[-1] % 2 == 0, 1.9, 0.1).to(weights)
        return honest(self, X, targets, max_norm, weights * cost[: len(weights)], *others)

    monkeypatch.setattr(FusedClipper, "clipped_sums", costs_afterwards)
    assert sensitivity(monkeypatch, max_grad_norm=0.5)[0] > 1.5


def test_the_check_above_notices_a_gradient_that_is_not_clipped(monkeypatch) -> None:
    honest = FusedClipper.clipped_sums

    def unclipped(self, X, targets, max_norm, weights, *others):
        return honest(self, X, targets, 1e9, weights, *others)

    monkeypatch.setattr(FusedClipper, "clipped_sums", unclipped)
    assert sensitivity(monkeypatch, max_grad_norm=0.5)[0] > 2.0


def test_a_table_that_grows_beyond_its_norm_is_clipped_by_the_engine(monkeypatch) -> None:
    from skfairdp.inprocessing.rates import objective as cost_objective

    honest = cost_objective.hard_histogram

    def five_times(kind, shape):
        statistic = honest(kind, shape)
        return Statistic(statistic.size, lambda *args: 5.0 * statistic.of(*args))

    monkeypatch.setattr(cost_objective, "hard_histogram", five_times)
    assert 1.0 - 2e-5 < sensitivity(monkeypatch)[1] <= 1.0


def test_declared_sizes_fix_the_plan_whatever_the_rows_are() -> None:
    X, y, groups = people()
    settings = {**FAST, "dataset_size": 300, "groups": ["a", "b"], "classes": ["no", "yes"]}
    whole = RateConstrainedClassifier(**settings).fit(X, y, sensitive_features=groups)
    some = RateConstrainedClassifier(**settings)
    some.fit(X[:-40], y[:-40], sensitive_features=groups[:-40])
    assert whole.plan_ == some.plan_
    assert whole.privacy_.adjacency == "add-remove"
    assert any("groups is declared" in text for text in whole.privacy_.assumptions)
    assert fit().privacy_.adjacency == "zero-out"


def test_rows_of_undeclared_groups_and_labels_contribute_nothing() -> None:
    X, y, groups = people()
    wild = np.where(np.arange(300) < 40, "elsewhere", groups)
    label = y.astype(object)
    label[40:70] = "perhaps"
    X_wild = np.where((np.arange(300) < 70)[:, None], 1e6, X)
    settings = {**FAST, **REPEATABLE, "dataset_size": 300}
    settings |= {"groups": ["a", "b"], "classes": ["no", "yes"]}
    with_them = RateConstrainedClassifier(**settings).fit(X_wild, label, sensitive_features=wild)
    alone = RateConstrainedClassifier(**settings)
    alone.fit(X[70:], y[70:], sensitive_features=groups[70:])
    assert np.array_equal(with_them.predict_proba(X), alone.predict_proba(X))


# -- what it does ---------------------------------------------------------------------


def biased(n: int = 12_000, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    member = rng.integers(0, 2, n)
    y = (rng.random(n) < np.where(member == 1, 0.6, 0.3)).astype(int)
    X = rng.normal(size=(n, 6)) + y[:, None] * [1.2, 0.8, 0, 0, 0, 0]
    X[:, 2:4] += member[:, None] * [1.5, 1.0]
    return X, y, np.where(member == 1, "b", "a")


@pytest.mark.parametrize(
    "notion",
    [
        pytest.param(notion, marks=() if notion == "equalized_odds" else pytest.mark.slow)
        for notion in NOTIONS
    ],
)
def test_the_gap_of_every_notion_meets_its_tolerance(notion) -> None:
    """Error of a gap: sampling .015 (6,000 test rows), noise below .01; .05 is allowed."""
    X, y, groups = biased()
    model = RateConstrainedClassifier(notion=notion, tolerance=0.02, epsilon=4.0, progress=False)
    model.fit(X[:6000], y[:6000], sensitive_features=groups[:6000])
    predicted = model.predict(X[6000:])
    gap = group_gap(y[6000:], predicted, sensitive_features=groups[6000:], notion=notion)
    assert gap < 0.02 + 0.05
    assert 0.1 < predicted.mean() < 0.9, "not a constant"
    assert np.mean(predicted == y[6000:]) > 0.6


@pytest.mark.parametrize(
    "notion",
    ["demographic_parity", pytest.param("equal_opportunity", marks=pytest.mark.slow)],
)
def test_a_threshold_lowers_the_cost_that_it_states_at_the_same_tolerance(notion) -> None:
    """Gaps: sampling .015 (6,000 test rows), noise below .01; .05 is allowed."""
    X, y, groups = biased()
    tested = slice(6000, None)
    costs, selected = [], []
    for threshold in (0.25, 0.5):
        model = RateConstrainedClassifier(
            notion=notion, threshold=threshold, epsilon=8.0, max_epochs=10, progress=False
        )
        model.fit(X[:6000], y[:6000], sensitive_features=groups[:6000])
        predicted, label = model.predict(X[tested]), y[tested]
        gap = group_gap(label, predicted, sensitive_features=groups[tested], notion=notion)
        assert gap < 0.02 + 0.05
        assert np.array_equal(predicted == 1, model.predict_proba(X[tested])[:, 1] > 0.5)
        of_mistakes = 0.25 * (label < predicted) + 0.75 * (label > predicted)
        costs.append(of_mistakes.mean())
        selected.append(predicted.mean())
    assert costs[0] < costs[1] - 0.005
    assert 0.1 < selected[1] < selected[0] - 0.1 < 0.85


def test_a_threshold_changes_neither_the_price_nor_the_releases() -> None:
    models = [fit(threshold=threshold) for threshold in (0.1, 0.5)]
    assert models[0].plan_ == models[1].plan_
    assert models[0].privacy_ == models[1].privacy_
    facts = {"n_rows": 300, "groups": ["a", "b"]}
    quoted = [RateConstrainedClassifier(threshold=t, **FAST).quote(**facts) for t in (0.1, 0.5)]
    assert quoted[0].privacy == quoted[1].privacy
    assert quoted[0].privacy.epsilon == models[0].privacy_.epsilon
    certificate = models[0].certify()
    models[0].set_params(threshold=0.5)
    assert not certificate.verify(models[0])


@pytest.mark.slow
def test_without_a_binding_tolerance_the_gap_stays() -> None:
    X, y, groups = biased(6000)
    model = RateConstrainedClassifier(tolerance=0.9, epsilon=4.0, progress=False)
    model.fit(X, y, sensitive_features=groups)
    assert group_gap(y, model.predict(X), sensitive_features=groups) > 0.2
    assert np.abs(model.multipliers_).max() == 0.0


def test_several_notions_groups_classes_and_intersections_train_together() -> None:
    rng = np.random.default_rng(0)
    X, y, _ = two_groups(600)
    y = np.array(["low", "mid", "high"])[(y + rng.integers(0, 2, 600)).clip(0, 2)]
    frame = pd.DataFrame({"sex": rng.choice(["f", "m"], 600), "old": rng.random(600) < 0.4})
    model = RateConstrainedClassifier(
        notion=["demographic_parity", "accuracy_parity"],
        tolerance={"demographic_parity": 0.1, "accuracy_parity": 0.2},
        **FAST,
    ).fit(X, y, sensitive_features=frame)
    assert len(model.groups_) == 4
    assert model.multipliers_.shape == ((3 + 1) * 6,)
    assert model.released_gaps_.shape == model.multipliers_.shape
    assert model.predict_proba(X).shape == (600, 3)
    assert model.privacy_.epsilon <= 1.0


@pytest.mark.parametrize("epsilon", [0.05, math.inf])
def test_a_group_without_a_label_trains_and_raises_nothing(epsilon) -> None:
    X, y, groups = people()
    y = np.where(groups == "b", "no", y)  # whether a cell is empty is private
    model = RateConstrainedClassifier(
        notion="equalized_odds", classes=["no", "yes"], epsilon=epsilon, **FAST
    )
    if math.isinf(epsilon):
        with pytest.warns(PrivacyWarning, match="epsilon=inf"):
            model.fit(X, y, sensitive_features=groups)
        assert model.multipliers_[1] == 0.0  # rates of "yes" are compared with nobody's
    else:
        model.fit(X, y, sensitive_features=groups)
    assert np.isfinite(model.predict_proba(X)).all()


@pytest.mark.parametrize(
    "parameters",
    [{"epsilon": 0.01}, {"dual_rate": 10.0}, {"penalty": 50.0}, {"max_multiplier": 1e6}],
    ids=str,
)
def test_extreme_settings_leave_finite_models(parameters) -> None:
    model = fit(**parameters)
    assert np.isfinite(model.predict_proba(people()[0])).all()
    assert np.isfinite(model.multipliers_).all()


@pytest.mark.slow
def test_large_dual_steps_do_not_collapse_to_a_constant() -> None:
    X, y, groups = biased(6000)
    model = RateConstrainedClassifier(tolerance=0.05, dual_rate=0.1, epsilon=4.0, progress=False)
    predicted = model.fit(X, y, sensitive_features=groups).predict(X)
    assert 0.05 < predicted.mean() < 0.95
    assert np.mean(predicted == y) > np.mean(y == 0)


def test_multipliers_are_bounded() -> None:
    model = fit(max_multiplier=0.01, dual_rate=5.0, tolerance=0.0)
    assert np.abs(model.multipliers_).max() <= 0.01


@pytest.mark.parametrize("criterion", [nn.CrossEntropyLoss, nn.BCEWithLogitsLoss])
def test_nets_of_two_outputs_and_of_one_are_taken(criterion) -> None:
    net = NeuralNet(MLP, criterion=criterion, optimizer=torch.optim.SGD, lr=0.1, train_split=None)
    model = fit(net=net)
    assert model.module_.head.out_features == (1 if criterion is nn.BCEWithLogitsLoss else 2)


# -- what it refuses ------------------------------------------------------------------


def refused(match: str, *, groups: Any = "given", **parameters: Any) -> None:
    X, y, given = people()
    member = given if isinstance(groups, str) else groups
    model = RateConstrainedClassifier(**FAST | parameters)
    with pytest.raises(ValueError, match=match):
        model.fit(X, y, sensitive_features=member)
    assert not hasattr(model, "module_")


@pytest.mark.parametrize("tolerance", [-0.01, 1.0, 3, "a", None])
def test_tolerances_outside_the_interval_are_refused(tolerance) -> None:
    refused("'tolerance'", tolerance=tolerance)


@pytest.mark.parametrize(
    ("notion", "match"),
    [
        ("fairness", "is not known"),
        ([], "empty"),
        (["demographic_parity", "demographic_parity"], "twice"),
        ([3], "notion=3 is not known"),
        (7, "'notion'"),
    ],
)
def test_unknown_empty_and_repeated_notions_are_refused(notion, match) -> None:
    refused(match, notion=notion)


def test_contradictory_tolerances_are_refused() -> None:
    refused("must map exactly", tolerance={"equal_opportunity": 0.1})
    refused("'tolerance' must be a gap", tolerance={"demographic_parity": 1.5})


def test_missing_groups_one_group_and_text_for_a_list_are_refused() -> None:
    refused("needs the group of every row", groups=None)
    refused("at least two groups", groups=np.full(300, "a"))


@pytest.mark.parametrize("threshold", [0.0, 1.0, -0.2, "half", math.nan, None])
def test_a_threshold_outside_is_refused_before_the_charge(threshold, tmp_path) -> None:
    ledger = PrivacyLedger(tmp_path / "ledger.json")
    refused("'threshold'", threshold=threshold, ledger=ledger)
    X, y, groups = people()
    several = RateConstrainedClassifier(threshold=0.3, ledger=ledger, **FAST)
    match = "'threshold' has a meaning for two classes alone; got 0.3 and 3 classes"
    with pytest.raises(ValueError, match=match):
        several.fit(X, np.arange(len(y)) % 3, sensitive_features=groups)
    with pytest.raises(ValueError, match=match):
        several.quote(n_rows=300, groups=["a", "b"], classes=3)
    assert not ledger.entries()


def test_declared_groups_are_checked() -> None:
    X, y, groups = people()
    for declared, match in (
        ("ab", "must be a list"),
        (["a"], "at least two groups"),
    ):
        with pytest.raises(ValueError, match=match):
            RateConstrainedClassifier(groups=declared, **FAST).fit(X, y, sensitive_features=groups)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("histogram_share", 0.0),
        ("histogram_share", 1.0),
        ("dual_rate", 0.0),
        ("penalty", -1.0),
        ("max_multiplier", 0.0),
        ("memory", 1.0),
        ("averaged_share", 1.1),
    ],
)
def test_parameters_outside_their_range_are_refused_by_name(name, value) -> None:
    refused(f"'{name}'", **{name: value})


def test_a_criterion_with_class_weights_is_refused() -> None:
    net = default_net().set_params(criterion__pos_weight=torch.tensor(2.0))
    refused("plain criterion", net=net)
