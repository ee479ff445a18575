"""Pairs of columns of the additive model: how they are chosen, what is released, what they show."""

from __future__ import annotations

import dataclasses
import math
import pickle
from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import torch
from scipy.special import expit
from scipy.stats import binom
from sklearn.pipeline import make_pipeline

from skfairdp import (
    DPAdditiveClassifier,
    DPAdditiveRegressor,
    PrivacyLedger,
    PrivateTableEncoder,
    certify,
)
from skfairdp.additive import pairs as rooms
from skfairdp.additive.design import SIDE, Design, Pair
from skfairdp.additive.pairs import (
    CHANCES,
    LOG_ODDS,
    MOST_COLUMNS,
    beyond_noise,
    candidates,
    cell_inputs,
    cell_names,
    interactions,
    surprises,
)
from skfairdp.engine.inference import outputs
from skfairdp.engine.objectives import NumberObjective
from skfairdp.engine.release import NoisyRelease, Rows
from skfairdp.exceptions import PlanError
from skfairdp.model_selection import fit_within
from skfairdp.preprocessing.levels import Categories, Intervals
from skfairdp.privacy.noise import NoiseSource
from skfairdp.privacy.sizes import Sizes
from skfairdp.records.numbers import TargetBounds

N = 6000


def rows(n: int = N, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """Two columns that say nothing singly: numbers, some missing, and categories; and two more."""
    rng = np.random.default_rng(seed)
    age = rng.uniform(size=n)
    city = rng.choice(["Oslo", "Bonn"], n)
    chance = np.where((age > 0.5) == (city == "Oslo"), 0.9, 0.1)
    X = pd.DataFrame({"age": age, "city": city, "x": rng.uniform(size=n), "z": rng.random(n)})
    X.loc[rng.random(n) < 0.05, "x"] = np.nan
    return X, np.where(rng.random(n) < chance, "yes", "no")


X, Y = rows()
DECLARED = {
    "bounds": {"age": (0, 1), "x": (0, 1), "z": (0, 1)},
    "categories": {"city": ["Oslo", "Bonn"]},
}


def additive(**options: object) -> DPAdditiveClassifier:
    return DPAdditiveClassifier(**DECLARED, **{"pairs": 8, "progress": False, **options})


@pytest.fixture(scope="module")
def model() -> DPAdditiveClassifier:
    return additive(epsilon=4.0).fit(X, Y)


# -- what a pair is for -------------------------------------------------------------------


def test_a_table_that_no_sum_of_columns_fits_is_learned(model) -> None:
    held_out, labels = rows(seed=1)
    alone = additive(epsilon=4.0, pairs=0).fit(X, Y)
    assert np.mean(alone.predict(held_out) == labels) < 0.6
    assert np.mean(model.predict(held_out) == labels) > 0.85
    assert any({"age", "city"} == set(name.split(" × ")) for name in names(model))


def test_contributions_add_up_to_the_net_and_maps_are_centred(model) -> None:
    parts = model.explain(X)
    (name,) = [name for name in parts if "age" in name and "city" in name]
    assert list(parts) == ["intercept", *(one for one, _ in model.levels_), *names(model)]
    net = outputs(model.module_, model._features(X))[:, 0]
    np.testing.assert_allclose(net, model.decision_function(X), rtol=0.0, atol=1e-5)
    shape = model.shape_functions_[name]
    (pair,) = [pair for pair, one in zip(model.pairs_, names(model), strict=True) if one == name]
    for axis in (0, 1):
        means = np.average(shape, axis=axis, weights=pair.shares[axis])
        np.testing.assert_allclose(means, 0.0, atol=1e-12)
    assert {shape.index.name, shape.columns.name} == {"age", "city"}
    # Each row's contribution is the entry of its cells, which have the names of their ranges.
    of_age = shape if shape.index.name == "age" else shape.T
    starts = [float(text.split()[1]) for text in of_age.index[1:]]
    cells = np.searchsorted(starts, X["age"], side="right")
    expected = [of_age[city].iloc[cell] for cell, city in zip(cells, X["city"], strict=True)]
    np.testing.assert_allclose(parts[name], expected)
    for one, _ in model.levels_:
        assert model.shape_functions_[one]["contribution"].mean() == pytest.approx(0.0, abs=1e-12)


def of_numbers(**options: object) -> DPAdditiveRegressor:
    settings = {"target_bounds": (0, 8), "pairs": 8, "progress": False, **options}
    return DPAdditiveRegressor(**DECLARED, **settings)


@pytest.mark.slow
def test_a_regressor_learns_a_table_that_no_sum_of_columns_fits() -> None:
    rng = np.random.default_rng(5)
    held_out, labels = rows(seed=1)
    numbers, others = (1.0 + 6.0 * (each == "yes") + rng.normal(size=N) for each in (Y, labels))
    model, alone = (of_numbers(epsilon=4.0, pairs=p).fit(X, numbers) for p in (8, 0))
    assert any({"age", "city"} == set(name.split(" × ")) for name in names(model))
    assert alone.score(held_out, others) < 0.05
    assert model.score(held_out, others) > 0.4
    net = model.explain(held_out).sum(axis=1).clip(0, 8)
    np.testing.assert_allclose(model.predict(held_out), net)
    (name,) = [name for name in model.explain(X) if "age" in name and "city" in name]
    assert model.shape_functions_[name].to_numpy().max() > 0.5  # in units of the target


def names(model: DPAdditiveClassifier | DPAdditiveRegressor) -> list[str]:
    return [
        " × ".join(model.levels_[column][0] for column in pair.columns) for pair in model.pairs_
    ]


def test_cells_without_rows_contribute_nothing_of_their_own(model) -> None:
    """No row has a missing city, nor one that is not declared."""
    weights = model.module_.state_dict()["head.weight"].numpy()[0].astype(float)
    for pair, values in zip(model.pairs_, model._design.maps(weights), strict=True):
        for side, column in enumerate(pair.columns):
            if model.levels_[column][0] == "city":
                empty = np.asarray(pair.shares[side]) < 0.1
                assert not np.compress(empty, values, axis=side).any()
                assert np.compress(~empty, values, axis=side).all()


def test_reasons_and_pictures_name_pairs(model) -> None:
    reasons = model.reason_codes(X[:200], n=1)["reason 1"]
    assert reasons.str.contains("age: .*, city: |city: .*, age: ").mean() > 0.3
    figure = model.plot_shapes()
    titles = [axis.get_title() for axis in figure.axes]
    assert set(names(model)) <= set(titles)
    plt.close(figure)


def test_a_stored_model_answers_as_before_and_its_certificate_holds(model) -> None:
    read = pickle.loads(pickle.dumps(model))
    assert np.array_equal(read.decision_function(X), model.decision_function(X))
    certificate = certify(model)
    assert certificate.verify(read)
    read.pairs_ = ()
    assert not certificate.verify(read)


def test_rows_of_the_fit_and_of_a_prediction_have_the_same_inputs(model) -> None:
    design = model._design
    table = model._known(X)
    before = torch.from_numpy(Design(design.levels, (), 8).rows(table))
    np.testing.assert_array_equal(cell_inputs(design)(before).numpy(), design.rows(table))
    norms = np.linalg.norm(design.rows(table), axis=1)
    np.testing.assert_allclose(norms, 4.0, rtol=1e-6)
    assert design.rows(table).shape[1] == model.module_.head.in_features


# -- choice -------------------------------------------------------------------------------


def drawn(
    rng: np.random.Generator, n: int, interaction: float, std: float, rare: float | None = None
) -> np.ndarray:
    """Noisy table (4, 4, 2) of two correlated columns, padded; each cell is `rare` times as
    frequent as the one before it."""
    shares = np.outer(*rng.dirichlet(np.full(4, 3.0), size=2)) + 0.05 * np.diag(rng.random(4))
    if rare is not None:
        shares = np.outer(*[rare ** np.arange(4.0)] * 2)
    of_first, of_second = rng.normal(size=(2, 4))
    odds = of_first[:, None] + of_second - 1.0
    odds = odds + interaction * np.array([1, -1, 1, -1])[:, None] * np.array([1, 1, -1, -1])
    counts = rng.multinomial(n, (shares / shares.sum()).ravel()).reshape(4, 4)
    ones = rng.binomial(counts, expit(odds))
    table = np.zeros((SIDE + 1, SIDE + 1, 2))
    table[:4, :4] = np.stack([counts - ones, ones], axis=-1) + std * rng.normal(size=(4, 4, 2))
    return table


@pytest.mark.parametrize("std", [0.0, 30.0, 150.0])
def test_tables_without_an_interaction_surprise_as_often_as_stated(std) -> None:
    """Of 1,000 tables at a level of .05, 86 or more by chance in 1e-6; with too little noise
    assumed, or none, many more."""
    rng = np.random.default_rng(6)
    tables = np.stack([drawn(rng, 20_000, 0.0, std) for _ in range(1000)])
    shapes = np.full((1000, 2), 4)
    limit = binom.isf(1e-6, 1000, 0.05)
    assert np.sum(surprises(tables, shapes, std) < math.log(0.05)) <= limit
    if std:
        assert np.sum(surprises(tables, shapes, std / 2.0) < math.log(0.05)) > limit


@pytest.mark.slow
def test_tables_of_drawn_labels_surprise_as_often_as_stated_where_means_add_up() -> None:
    """Of 1,000 tables at a level of .05, as above. Log-odds do not add up there."""
    rng = np.random.default_rng(12)
    tables = np.zeros((1000, SIDE + 1, SIDE + 1, 2))
    for table in tables:
        counts = rng.multinomial(20_000, np.full(16, 1 / 16)).reshape(4, 4)
        ones = rng.binomial(counts, np.add.outer([0.1, 0.2, 0.3, 0.45], [0.0, 0.1, 0.2, 0.45]))
        table[:4, :4] = np.stack([counts - ones, ones], axis=-1) + 30.0 * rng.normal(size=(4, 4, 2))
    shapes = np.full((1000, 2), 4)
    limit = binom.isf(1e-6, 1000, 0.05)
    assert np.sum(surprises(tables, shapes, 30.0, CHANCES) < math.log(0.05)) <= limit
    assert np.sum(surprises(tables, shapes, 30.0, LOG_ODDS) < math.log(0.05)) > limit


def test_labels_of_numbers_are_drawn_by_themselves_with_linear_chances() -> None:
    model, objective = of_numbers(), NumberObjective(None)
    objective.bounds = TargetBounds(0.0, 8.0)
    run = SimpleNamespace(objective=objective, noise=NoiseSource())
    labels_of, link = model._labels_of_pairs(run)
    assert link is CHANCES
    targets = torch.tensor([-50.0, 0.0, 2.0, 6.0, 8.0, 900.0]).repeat(20_000)
    of_rows = Rows(torch.zeros(len(targets), 1), (targets,), np.zeros(len(targets), np.int64))
    drawn = labels_of(of_rows).reshape(-1, 6).mean(axis=0)
    # 20,000 draws each: five standard errors, .0153 where the chance is .25 or .75.
    np.testing.assert_allclose(drawn, [0.0, 0.0, 0.25, 0.75, 1.0, 1.0], atol=0.0154)
    assert drawn[[0, 1, 4, 5]].tolist() == [0.0, 0.0, 1.0, 1.0]
    # With the same draws, one changed target moves the label of its own row alone.
    run.noise = SimpleNamespace(sampling=SimpleNamespace(random=lambda n: np.full(n, 0.5)))
    before = labels_of(of_rows)
    targets[7] = 8.0 - targets[7]
    assert np.flatnonzero(before != labels_of(of_rows)).tolist() == [7]


def test_a_table_of_rare_cells_surprises_as_often_as_stated(monkeypatch) -> None:
    """In a row of a table where all is noise nothing is fitted, and no freedom lost.

    At a level of .05; of 2,000 tables, more than the limit by chance in 1e-6. Broken: the freedom
    of a table whose rows and columns are all fitted.
    """
    rng = np.random.default_rng(10)
    tables = np.stack([drawn(rng, 20_000, 0.0, 300.0, rare=0.1) for _ in range(2000)])
    shapes = np.full((2000, 2), 4)
    limit = binom.isf(1e-6, 2000, 0.05)
    assert np.sum(surprises(tables, shapes, 300.0) < math.log(0.05)) <= limit
    honest = rooms._left_by_columns
    monkeypatch.setattr(
        rooms, "_left_by_columns", lambda *args: (*honest(*args)[:2], np.full(2000, 7.0))
    )
    assert np.sum(surprises(tables, shapes, 300.0) < math.log(0.05)) > limit


def test_pairs_beyond_noise_are_those_of_benjamini_and_hochberg() -> None:
    """By hand, of five: limits .04, .08, .12, .16, .2; the third one is above its own."""
    chances = np.array([0.9, 0.15, 0.03, 0.13, 0.07])
    assert beyond_noise(np.log(chances)) == [2, 4, 3, 1]
    assert beyond_noise(np.log(np.array([0.9, 0.25, 0.21]))) == []


def test_weights_of_a_pair_say_nothing_about_one_column() -> None:
    rng = np.random.default_rng(11)
    counts, seen = rng.uniform(20.0, 900.0, (3, 4)), np.ones(12, dtype=bool)
    free = interactions(counts, seen)
    assert free.shape == (12, 6)
    np.testing.assert_allclose(free.T @ free, np.eye(6), atol=1e-12)
    maps = free.T.reshape(6, 3, 4) * counts
    np.testing.assert_allclose(maps.sum(axis=1), 0.0, atol=1e-9)
    np.testing.assert_allclose(maps.sum(axis=2), 0.0, atol=1e-9)
    seen[5] = False
    free = interactions(counts, seen)
    assert free.shape == (12, 5)
    assert not free[5].any()
    one_line = np.arange(12) < 4
    assert interactions(counts, one_line).shape == (12, 0)


def test_the_model_keeps_to_such_weights(monkeypatch) -> None:
    """Means of the maps, weighted by released counts, are 0 before anything is moved."""
    found: list[np.ndarray] = []
    honest = rooms.interactions

    def seen(counts, which):
        found.append(np.where(which.reshape(counts.shape), counts, 0.0))
        return honest(counts, which)

    monkeypatch.setattr(rooms, "interactions", seen)
    fitted = additive(epsilon=4.0).fit(X, Y)
    weights = fitted.module_.state_dict()["head.weight"].numpy()[0].astype(float)
    maps = fitted._design.maps(weights)
    assert len(maps) > 0
    for rows_in, values in zip(found, maps, strict=False):
        for axis in (0, 1):
            assert (
                np.abs((rows_in * values).sum(axis=axis)).max()
                < 1e-6 * np.abs(rows_in * values).sum()
            )


def test_interactions_surprise_more_than_noise_can() -> None:
    rng = np.random.default_rng(7)
    tables = np.stack([drawn(rng, 20_000, 1.0, 30.0) for _ in range(100)])
    assert surprises(tables, np.full((100, 2), 4), 30.0).max() < math.log(0.05 / 276)
    row = np.zeros((1, SIDE + 1, SIDE + 1, 2))
    row[0, 0, :3] = 50.0
    assert surprises(row, np.array([[1, 3]]), 1.0) == [0.0]  # nothing can deviate


def test_columns_that_say_little_are_no_candidates_and_one_pair_is_left_in_any_case() -> None:
    rng = np.random.default_rng(8)
    design = Design([Intervals((0.0,))] * 30)
    counts = np.concatenate([[5000 - k, k, 0] for k in rng.permutation(30) * 80]).astype(float)
    found = candidates(design, counts)
    kept = {column for pair in found for column in pair.columns}
    assert len(kept) == MOST_COLUMNS
    assert min(counts[1::3][sorted(kept)]) > max(np.delete(counts[1::3], sorted(kept)))
    constant = np.tile([1000.0, 0.0, 0.0], 30)
    assert len(candidates(design, constant)) >= 1


def test_cells_are_named_by_their_ranges_and_categories() -> None:
    numbers = Intervals((1.0, 2.0, 3.0))
    assert cell_names(numbers, (0, 0, 1, 1, 2), "x") == ["< 2", ">= 2", "missing"]
    assert cell_names(numbers, (0, 1, 1, 1, 1), "x") == ["< 1", ">= 1"]
    cities = Categories(("a", "b", "c"))
    assert cell_names(cities, (1, 0, 2, 2, 2), "x") == ["b", "a", "3 others"]


@pytest.mark.slow
def test_rows_without_interactions_seldom_get_pairs() -> None:
    """A pair by chance in .2 of fits at most: 28 or more of 60 in 1e-6 of runs at that rate."""
    chosen = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        numbers = pd.DataFrame(rng.uniform(size=(4000, 5)))
        label = rng.random(4000) < expit(2.0 * numbers[0] - 3.0 * numbers[1])
        fitted = DPAdditiveClassifier((0, 1), pairs=8, max_epochs=1, progress=False)
        chosen += len(fitted.fit(numbers, label).pairs_) > 0
    assert chosen <= binom.isf(1e-6, 60, 0.2)


# -- what is charged and what is released ---------------------------------------------------


def test_the_plan_holds_counts_tables_and_steps_and_no_more() -> None:
    plan = DPAdditiveClassifier((0, 1), pairs=1).quote(n_rows=10_000).plan
    assert [s.blocks[0].name for s in plan.segments] == ["levels", "pairs", "gradient"]
    levels, tables, steps = plan.segments
    assert tables.rates == (1.0,)
    assert tables.steps == 1
    assert tables.blocks[0].max_norm == 1.0
    shares = [part.multiplier(0) ** -2 for part in (levels, tables)]
    whole = sum(shares) + steps.steps * (steps.rates[0] / steps.multiplier(0)) ** 2
    assert shares == pytest.approx([0.1 * whole, 0.05 * whole], rel=1e-9)
    without = DPAdditiveClassifier((0, 1)).quote(n_rows=10_000).plan
    assert [s.blocks[0].name for s in without.segments] == ["levels", "gradient"]


def watched_tables(monkeypatch, data, labels, **options) -> list[np.ndarray]:
    """Released tables of a fit on rows."""
    seen: list[list[np.ndarray]] = []
    honest = NoisyRelease.tables

    def watching(self, *args):
        seen.append(honest(self, *args))
        return seen[-1]

    ids = options.pop("person_ids", None)
    numbers = np.asarray(labels).dtype.kind == "f"
    known = {"target_bounds": (0, 1)} if numbers else {"classes": ["no", "yes"]}
    with monkeypatch.context() as patch:
        patch.setattr(NoisyRelease, "tables", watching)
        make = of_numbers if numbers else additive
        make(**{"max_epochs": 1, **known, **options}).fit(data, labels, person_ids=ids)
    (found,) = seen
    return found


def moved_by_one(monkeypatch, *, numbers: bool = False) -> float:
    """Distance between tables with and without one record, over the norm that is charged for.

    `numbers`: of a regressor, whose targets are at the bounds, so that labels are no draws.
    """
    labels = (Y == "yes").astype(float) if numbers else Y
    found = []
    for n in (400, 399):
        with pytest.warns(Warning, match="nothing is protected"):
            tables = watched_tables(
                monkeypatch, X[:n], labels[:n], epsilon=math.inf, dataset_size=400
            )
        found.append(tables)
    assert [len(t) for t in found[0]] == [len(t) for t in found[1]]  # the same candidates
    apart = np.concatenate(found[0]) - np.concatenate(found[1])
    return float(np.linalg.norm(apart)) / math.sqrt(len(found[0]))


@pytest.mark.parametrize("numbers", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_record_moves_the_tables_by_their_norm(monkeypatch, numbers: bool) -> None:
    assert moved_by_one(monkeypatch, numbers=numbers) == pytest.approx(1.0, abs=1e-12)
    honest = NoisyRelease._counted_tables  # broken: each record counts twice
    monkeypatch.setattr(
        NoisyRelease, "_counted_tables", lambda self, *args: 2 * honest(self, *args)
    )
    assert moved_by_one(monkeypatch, numbers=numbers) > 1.9


def test_a_person_with_three_rows_counts_once_in_each_table(monkeypatch) -> None:
    """Without noise: the tables of 134 persons hold 134 each, of 133 of the rows one fewer."""
    ids = np.arange(400) // 3
    with pytest.warns(Warning, match="nothing is protected"):
        tables = watched_tables(
            monkeypatch, X[:400], Y[:400], epsilon=math.inf, dataset_size=134, person_ids=ids
        )
    assert {float(table.sum()) for table in tables} == {134.0}


@pytest.mark.parametrize("divided", [1.0, 4.0])
def test_tables_have_the_noise_that_is_charged(monkeypatch, divided) -> None:
    """Of cells without rows; a quarter of the noise is seen. Fails by chance in 1e-6 runs."""
    if divided > 1.0:
        noisy = NoisyRelease._noisy
        monkeypatch.setattr(
            NoisyRelease, "_noisy", lambda self, total, std: noisy(self, total, std / divided)
        )
    release, segment, _ = released(multiplier=3.0)
    found = release.tables(segment, lambda rows: [-np.ones(60, np.int64)] * 9, [400] * 9)
    std = float(np.std(np.concatenate(found))) / (3.0 * 3.0)
    charged = abs(std - 1.0) < 5.0 / math.sqrt(2 * 3600)
    assert charged == (divided == 1.0)


def released(multiplier: float, n: int = 60, seed: int | None = None):
    """A release of one pass of tables over made-up rows."""
    sizes = Sizes(("all",), (60,), "add-remove")
    segment = sizes.whole(("pairs", 1.0, multiplier))
    plan = sizes.plan(segment, delta=1e-5)
    codes = np.zeros(n, dtype=np.int64)
    of_rows = Rows(torch.zeros(n, 3), (torch.zeros(n),), codes)
    return NoisyRelease(of_rows, plan, NoClipper(), NoiseSource(seed)), segment, plan


class NoClipper:
    """Stands where no gradient is clipped."""

    product_terms = 1


@pytest.mark.parametrize("divided", [1.0, 4.0])
def test_an_attacker_learns_from_the_tables_what_is_charged_and_no_more(
    monkeypatch, divided
) -> None:
    """The best test for one record is the sum of its entries: normal, with or without it apart by
    1 / multiplier standard deviations. Twice 600 releases; 5 standard errors, 1e-6."""
    if divided > 1.0:
        noisy = NoisyRelease._noisy
        monkeypatch.setattr(
            NoisyRelease, "_noisy", lambda self, total, std: noisy(self, total, std / divided)
        )
    rng = np.random.default_rng(9)
    entries = rng.integers(0, 32, size=(10, 60))
    sums = np.empty((2, 600))
    for k, n in enumerate((60, 59)):
        for draw in range(600):
            release, segment, _ = released(multiplier=2.0, n=n)
            tables = release.tables(segment, lambda rows, n=n: list(entries[:, :n]), [32] * 10)
            sums[k, draw] = sum(
                table[entry[-1]] for table, entry in zip(tables, entries, strict=True)
            )
    apart = float(np.mean(sums[0] - sums[1])) / float(np.std(sums[1]))
    as_charged = abs(apart - 0.5) < 5.0 * math.sqrt(2.0 / 600)
    assert as_charged == (divided == 1.0)


def test_a_record_adds_one_entry_to_a_table_whatever_is_asked_for() -> None:
    release, segment, _ = released(multiplier=0.0)
    asked = [np.full(60, 1), np.full(60, 7), np.full(60, -1)]  # two of them outside of the tables
    first, second, third = release.tables(segment, lambda rows: asked, [2, 3, 4])
    assert first.tolist() == [0.0, 60.0]
    assert not second.any()
    assert not third.any()
    with pytest.raises(PlanError):
        release.tables(segment, lambda rows: asked, [2, 3, 4])


def test_tables_of_a_part_of_the_rows_are_refused() -> None:
    release, segment, _ = released(multiplier=1.0)
    half = dataclasses.replace(segment, rates=(0.5,))
    with pytest.raises(PlanError, match="A table counts every record once"):
        release.tables(half, lambda rows: [np.zeros(60, np.int64)], [1])
    with pytest.raises(PlanError, match="16,777,216 numbers at once"):
        release.tables(segment, lambda rows: [np.zeros(60, np.int64)], [2**24 + 1])


def test_recoded_rows_keep_their_shape() -> None:
    release, _, _ = released(multiplier=1.0)
    with pytest.raises(ValueError, match="must return rows of the shape"):
        release.recode(Narrow())


class Narrow(torch.nn.Module):
    def forward(self, X: torch.Tensor) -> torch.Tensor:
        return X[:, :2]


# -- with persons, pipelines and ledgers ------------------------------------------------------


def test_a_quote_is_the_charge_and_persons_are_promised(tmp_path) -> None:
    ledger = PrivacyLedger(tmp_path / "ledger.db")
    model = additive(ledger=ledger, epsilon=4.0)
    model.fit(X, Y, person_ids=np.arange(N) // 2)
    priced = additive(epsilon=4.0).quote(n_rows=N, n_persons=N // 2)
    assert priced.privacy.epsilon == model.privacy_.epsilon
    assert priced.plan == model.plan_
    assert model.privacy_.protects == "person"
    (entry,) = ledger.entries()
    assert entry.guarantee.epsilon == model.privacy_.epsilon
    assert [s.blocks[0].name for s in model.plan_.segments] == ["levels", "pairs", "gradient"]


def test_rows_on_disk_give_what_the_same_rows_in_memory_give(tmp_path) -> None:
    numbers = np.random.default_rng(3).uniform(size=(1000, 3))
    labels = (numbers[:, 0] > 0.5) == (numbers[:, 1] > 0.5)
    stored = np.memmap(tmp_path / "rows", dtype=np.float64, mode="w+", shape=numbers.shape)
    stored[:] = numbers
    settings = {"pairs": 2, "epsilon": 20.0, "random_state": 0, "reproducible_noise": True}
    memory, mapped = (
        DPAdditiveClassifier((0, 1), progress=False, **settings).fit(part, labels)
        for part in (numbers, stored)
    )
    assert memory.pairs_ == mapped.pairs_
    assert len(memory.pairs_) > 0
    assert np.array_equal(memory.predict_proba(numbers), mapped.predict_proba(stored))


def test_nothing_declared_in_a_pipeline_of_one_budget() -> None:
    steps = make_pipeline(PrivateTableEncoder(encoding="levels"), DPAdditiveClassifier(pairs=4))
    steps[-1].set_params(progress=False)
    model = fit_within(steps, X, Y, epsilon=6.0)
    held_out, labels = rows(seed=1)
    assert np.mean(model.predict(held_out) == labels) > 0.8
    certificate = certify(model)
    assert certificate.privacy.epsilon <= 6.0
    assert certificate.verify(model)


@pytest.mark.parametrize("pairs", [-1, 9, 1.5, "age", None])
def test_numbers_of_pairs_outside_are_refused_before_the_charge(pairs, tmp_path) -> None:
    ledger = PrivacyLedger(tmp_path / "ledger.db")
    with pytest.raises(ValueError, match="The 'pairs' parameter .* >= 0 and <= 8"):
        additive(pairs=pairs, ledger=ledger).fit(X, Y)
    assert not ledger.entries()


def test_one_column_has_no_pairs(tmp_path) -> None:
    ledger = PrivacyLedger(tmp_path / "ledger.db")
    alone = DPAdditiveClassifier((0, 1), pairs=2, ledger=ledger, progress=False)
    with pytest.raises(ValueError, match="'pairs' = 2 needs at least two columns; got 1"):
        alone.fit(X[["z"]], Y)
    assert not ledger.entries()


def test_a_pair_knows_its_cells() -> None:
    pair = Pair((2, 0), ((0, 1, 1), (0, 1, 2, 2)), ((0.5, 0.5), (0.2, 0.3, 0.5)))
    assert pair.shape == (2, 3)
    levels = [np.array([3, 1]), np.array([0, 0]), np.array([2, 0])]
    assert pair.codes(levels).tolist() == [5, 1]
