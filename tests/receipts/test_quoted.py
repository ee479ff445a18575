"""Verdicts of quotes: the formula, and fits on both sides of its limits."""

from __future__ import annotations

import math
import re
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV

from skfairdp import (
    DPAdditiveClassifier,
    DPSGDClassifier,
    FairDPClassifier,
    PATEClassifier,
    fit_many,
)
from skfairdp.exceptions import UtilityWarning
from skfairdp.privacy import Block, CountRelease, LaplaceSum, Plan, Segment
from skfairdp.receipts.quoted import ENOUGH, NOT_ENOUGH, noise_ratios, verdict_on


def plan_of(steps: int, batch: float, noise: float, norm: float = 2.0) -> Plan:
    weight = 1.0 / batch
    std = noise * norm * weight
    block = Block(name="gradient", max_norm=norm, weights=(weight,), noise_std=std)
    step = Segment(steps=steps, rates=(0.5,), expected_sizes=(batch,), blocks=(block,))
    return Plan(cells=("all",), segments=(step,), adjacency="zero-out", delta=1e-6)


def test_the_ratio_is_that_of_simulated_sums() -> None:
    """Relative error of a chi mean over 400 draws in 12 dimensions: 6 sigma are below 0.07."""
    steps, batch, noise, n_features = 50, 10.0, 3.0, 11
    rng = np.random.default_rng(0)
    plan = plan_of(steps, batch, noise)
    (block,) = plan.segments[0].blocks
    walks = rng.normal(scale=block.noise_std, size=(400, steps, n_features + 1)).sum(axis=1)
    simulated = math.sqrt((walks**2).sum(axis=1).mean())
    signal = steps * batch * block.weights[0] * block.max_norm
    ((ratio),) = noise_ratios(plan, n_features=n_features).values()
    assert ratio == pytest.approx(simulated / signal, rel=0.07)
    (wrong,) = noise_ratios(plan_of(steps, batch, noise / 4), n_features=n_features).values()
    assert wrong != pytest.approx(simulated / signal, rel=0.07)


@pytest.mark.parametrize(
    ("noise", "level"),
    [(0.0, "no noise"), (1.0, "useful"), (10.0, "doubtful"), (70.0, "too small")],
)
def test_levels_follow_the_limits(noise: float, level: str) -> None:
    assert verdict_on(plan_of(25, 10.0, noise)).level == level


@pytest.mark.parametrize("kind", [DPSGDClassifier, DPAdditiveClassifier])
@pytest.mark.parametrize(
    ("n", "epsilon", "level", "said"),
    [
        (1_595, 1.0, "few", "on those of up to 1,600, no private classifier did"),
        (1_668, 1.0, "few", "none between was measured. Expect"),
        (
            4_937,
            1.0,
            "useful",
            "of 4,900 records and more, the best private classifier came within",
        ),
        (1_591, 4.0, "few", "1,591. On public tables"),
        (4_800, 20.0, "few", "4,800. On public tables"),
        (9_000, 0.5, "few", "At this ε, about 9,800 records have as little noise. Expect"),
        (9_900, 0.5, "useful", "At this ε, about 9,800 records have as little noise. The noise"),
    ],
)
def test_records_are_enough_only_where_measurements_showed_it(
    kind: Any, n: int, epsilon: float, level: str, said: str
) -> None:
    verdict = kind(epsilon=epsilon).quote(n_rows=n, n_features=3).verdict
    assert (verdict.level, said in verdict.text) == (level, True), verdict.text


def test_noise_that_delta_alone_covers_is_weighed_by_itself() -> None:
    noisy = DPSGDClassifier(epsilon=None, noise_multiplier=1e6, delta=1e-5, batch_size=20)
    quote = noisy.quote(n_rows=300, n_features=3)
    assert quote.epsilon == 0.0
    assert quote.verdict.level == "too small"


def test_limits_of_the_verdict_are_those_of_the_published_table() -> None:
    page = Path(__file__).parents[2] / "docs/results/tables/learners.md"
    table = page.read_text(encoding="utf-8").split("\n## ")[1]
    head, *lines = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in table.splitlines()
        if line.startswith("|") and "---" not in line
    ]
    assert table.startswith("Area under the curve")
    not_private = ("logistic regression", "boosted trees", "one answer for all")
    n, lost = 0, {}
    for line in lines:
        cells = dict(zip(head, line, strict=True))
        n = int(cells["training rows"].replace(",", "") or n)  # named once, for all budgets
        areas = {name: float(cells[name].split(" ± ")[0]) for name in head[4:]}
        private = [area for name, area in areas.items() if name not in not_private]
        assert len(private) == 6
        loss = max(areas[name] for name in not_private) - max(private)
        lost[n, float(cells["ε"])] = round(loss, 3)
    assert len(lost) == 12 * 4
    assert all(
        loss > 0.03 for (n, epsilon), loss in lost.items() if epsilon == 1 and n <= NOT_ENOUGH
    )
    enough = [loss for (n, epsilon), loss in lost.items() if n * min(epsilon, 1.0) >= ENOUGH]
    assert max(enough) <= 0.03
    assert lost[1_591, 4.0] > 0.03  # so a larger epsilon does not ask for fewer records
    assert not [n for n, _ in lost if NOT_ENOUGH < n < ENOUGH]


def test_the_sufficient_number_keeps_both_rules() -> None:
    doubtful = DPSGDClassifier(epsilon=1.0).quote(n_rows=150, n_features=20).verdict
    assert doubtful.level == "doubtful"
    named = re.search(r"\(([\d,]+) records would be enough", doubtful.text)
    assert named is not None
    assert int(named[1].replace(",", "")) >= ENOUGH


def test_the_smallest_group_decides() -> None:
    model = FairDPClassifier(epsilon=1.0)
    even = model.quote(groups={"a": 500, "b": 500}).verdict
    uneven = model.quote(groups={"a": 990, "b": 10}).verdict
    assert even.ratio < uneven.ratio
    assert "group 'b'" in uneven.text


def test_more_rows_and_a_larger_budget_never_look_worse() -> None:
    ratios = [DPSGDClassifier().quote(n_rows=n).verdict.ratio for n in (20, 200, 2000)]
    assert ratios == sorted(ratios, reverse=True)
    ratios = [DPSGDClassifier(epsilon=e).quote(n_rows=200).verdict.ratio for e in (0.5, 1.0, 4.0)]
    assert ratios == sorted(ratios, reverse=True)


def test_votes_are_compared_with_the_number_of_teachers() -> None:
    few = PATEClassifier(n_teachers=5, epsilon=1.0).quote(n_rows=1000, n_public=500)
    assert few.verdict.level == "too small"
    many = PATEClassifier(n_teachers=1000, epsilon=4.0).quote(n_rows=100_000, n_public=500)
    assert many.verdict.level != "too small"


def test_releases_whose_signal_nobody_knows_are_left_out() -> None:
    table = CountRelease(name="table", epsilon=0.1)
    counts = Plan(cells=("all",), segments=(), counts=(table,), adjacency="zero-out", delta=0.0)
    found = verdict_on(counts, crowd=10.0)
    assert (found.level, found.ratio) == ("useful", 0.0)
    assert "No release with noise" in found.text
    idle = replace(counts, segments=plan_of(1, 10.0, 5.0).segments[:1])
    steps = tuple(replace(segment, steps=0) for segment in idle.segments)
    assert verdict_on(replace(idle, segments=steps)).ratio == 0.0


def test_a_laplace_sum_is_compared_with_the_largest_sum_of_the_crowd() -> None:
    summed = LaplaceSum(name="moments", max_norm=2.0, weights=(0.5,), scale=3.0)
    plan = Plan(cells=("all",), segments=(), sums=(summed,), adjacency="zero-out", delta=0.0)
    assert noise_ratios(plan) == {}
    (ratio,) = noise_ratios(plan, crowd=60.0).values()
    assert ratio == pytest.approx(math.sqrt(2.0) * 3.0 / (60.0 * 0.5 * 2.0))


@pytest.mark.slow
def test_fits_on_both_sides_of_the_limit() -> None:
    """Where the verdict is "too small" models guess; where it is "useful" they learn.

    Seeded, so the figures are the same at every run.
    """
    means = {}
    for n in (12, 4000):
        model = DPSGDClassifier(epsilon=1.0, progress=False, reproducible_noise=True)
        model.set_params(net__module__hidden_sizes=())
        means[model.quote(n_rows=n, n_features=50).verdict.level] = np.mean(
            [_accuracy(model, n, seed) for seed in range(12)]
        )
    assert means["too small"] < 0.7, means
    assert means["useful"] > 0.8, means


def _accuracy(model: DPSGDClassifier, n: int, seed: int) -> float:
    rng = np.random.default_rng(seed)
    direction = np.ones(50) / math.sqrt(50)
    y = np.arange(n + 2000) % 2
    X = rng.normal(size=(n + 2000, 50)) + 4.0 * np.outer(y - 0.5, direction)
    model.set_params(random_state=seed).fit(X[:n], y[:n])
    return float(np.mean(model.predict(X[n:]) == y[n:]))


@pytest.mark.parametrize("kind", [DPSGDClassifier, FairDPClassifier])
def test_a_fit_on_too_few_rows_warns_in_the_words_of_its_quote(kind) -> None:
    rng = np.random.default_rng(0)
    X, y, groups = rng.uniform(size=(10, 3)), np.tile([0, 1], 5), np.repeat(["a", "b"], 5)
    model = kind(epsilon=0.5, max_epochs=2)
    quote = model.quote(groups={"a": 5, "b": 5}, n_features=3)
    assert quote.verdict.level == "too small"
    with pytest.warns(UserWarning, match="Too few records") as warned:
        model.fit(X, y, sensitive_features=groups)
    (said,) = [str(w.message) for w in warned if "Too few" in str(w.message)]
    assert said == quote.verdict.text


def test_a_fit_warns_of_declared_sizes_and_not_of_its_rows() -> None:
    X, y = np.tile([[0.1], [0.9]], (6, 1)), np.tile([0, 1], 6)
    model = DPSGDClassifier(epsilon=0.2, max_epochs=2, dataset_size=10)
    quote = model.quote(n_rows=7, n_features=1)
    with pytest.warns(UserWarning, match="Too few records") as warned:
        model.fit(X, y)
    assert quote.verdict.text in [str(w.message) for w in warned]


def test_a_fit_on_enough_rows_does_not_warn() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(1_500, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        DPSGDClassifier(epsilon=2.0, max_epochs=2).fit(X, (X[:, 0] > 0.5).astype(int))


def test_a_fit_on_doubtfully_few_rows_warns_too() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.uniform(size=(10, 3)), np.tile([0, 1], 5)
    with pytest.warns(UtilityWarning, match="Doubtful: the noise on 'gradient'"):
        DPSGDClassifier(epsilon=2.0, max_epochs=2).fit(X, y)


def test_many_fits_warn_once_of_the_worst() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.uniform(size=(10, 3)), np.tile([0, 1], 5)
    model = DPSGDClassifier(max_epochs=2).set_params(net__module__hidden_sizes=())
    with pytest.warns(UtilityWarning) as warned:
        fit_many(model, [{"epsilon": 1.0}, {"epsilon": 0.1}, {"epsilon": 0.2}], X, y)
    said = [str(w.message) for w in warned if isinstance(w.message, UtilityWarning)]
    worst = model.set_params(epsilon=0.1).quote(n_rows=10, n_features=3).verdict
    assert worst.level == "too small"
    assert said == [worst.text]


def test_a_search_of_scikit_learn_warns_once() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.uniform(size=(40, 3)), np.tile([0, 1], 20)
    model = DPSGDClassifier(max_epochs=1, delta=1e-3)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        search = GridSearchCV(model, {"epsilon": [0.5, 1.0]}, cv=2).fit(X, y)
        search.fit(X, y)
        GridSearchCV(model, {"epsilon": [0.5, 1.0]}, cv=2).fit(X, y)
    said = [str(w.message) for w in warned if isinstance(w.message, UtilityWarning)]
    assert len(said) == 3  # one a search, each time that it is fitted
    assert all("only the first such one warns" in text for text in said)
    for _ in range(2):
        with pytest.warns(UtilityWarning, match="Doubtful|Too few") as single:
            model.fit(X, y)
        assert not any("of this search" in str(w.message) for w in single)


def test_too_few_teachers_are_warned_of_by_the_quote_alone() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.uniform(size=(60, 2)), np.tile([0, 1], 30)
    model = PATEClassifier(epsilon=0.5, n_teachers=5, n_answers=20, progress=False)
    quote = model.quote(n_rows=60, n_public=30, n_features=2)
    assert quote.verdict.level == "too small"
    with pytest.warns(UtilityWarning, match="Too few records") as warned:
        model.fit(X, y, X_public=rng.uniform(size=(30, 2)))
    assert quote.verdict.text in [str(w.message) for w in warned]


@pytest.mark.parametrize(
    ("ratio", "said"),
    [
        (1.04, "would be as long as their sum"),
        (1.14, "would be 1.1 times as long as their sum"),
        (0.996, "is as long as the longest sum"),
        (0.5, "is 0.5 times as long as the longest sum"),
    ],
)
def test_once_as_long_is_said_without_a_number(ratio: float, said: str) -> None:
    at_one = verdict_on(plan_of(25, 10.0, 1.0)).ratio
    verdict = verdict_on(plan_of(25, 10.0, ratio / at_one))
    assert verdict.ratio == pytest.approx(ratio)
    assert said in verdict.text
    assert " 1 times" not in verdict.text


@pytest.mark.parametrize("ratio", [0.3, 2.0, 50.0])
def test_the_number_of_records_that_would_be_enough_is_written_out(ratio: float) -> None:
    plan = plan_of(steps=1, batch=500.0, noise=500.0 * ratio)  # of 1,000 records
    text = verdict_on(plan).text
    (found,) = re.findall(r"\(([\d,]+) records would be enough by this rule\)", text)
    assert found == f"{round(1000 * ratio / 0.1):,}"
