"""Fair regressors: optimal maps, released tables, tolerances from one fit."""

import itertools
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, stats
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from skfairdp import (
    DPSGDRegressor,
    FairPathRegressor,
    PrivacyLedger,
    PrivateTableEncoder,
    certify,
)
from skfairdp.exceptions import FairnessWarning, PrivacyWarning, UnknownGroupError
from skfairdp.inprocessing.fair_numbers import tables
from skfairdp.inprocessing.fair_numbers.points import NumberPath
from skfairdp.inprocessing.fair_numbers.tables import CELLS, ENDS, Table
from skfairdp.inprocessing.fair_numbers.transport import Scores, band, shifts
from skfairdp.model_selection import fit_within
from skfairdp.privacy import NoiseSource
from skfairdp.privacy.mechanisms.prefix_sums import PrefixSums
from skfairdp.privacy.sizes import Sizes

CHECKS_TRAINING_ROWS = True
QUICK = {"max_epochs": 3, "progress": False, "target_bounds": (0.0, 10.0)}


def rows(n=900, seed=0):
    """Rows whose first two columns say the target, and the second in part the group."""
    rng = np.random.default_rng(seed)
    group = np.where(np.arange(n) % 3 == 0, "b", "a")
    X = rng.uniform(-1, 1, size=(n, 3))
    X[:, 1] = np.clip(X[:, 1] + (group == "b"), -1, 1)
    return X, 5.0 + 2.0 * X[:, 0] + 2.0 * X[:, 1] + rng.normal(size=n), group


def fitted(**parameters):
    X, y, group = rows()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairnessWarning)
        warnings.simplefilter("ignore", PrivacyWarning)
        return FairPathRegressor(**QUICK | parameters).fit(X, y, sensitive_features=group)


def of_values(seed, n_groups, n_values):
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, 30, size=(n_groups, n_values)) * rng.integers(1, 4, size=(n_groups, 1))
    ends = np.linspace(-0.5, n_values - 0.5, n_values + 1)
    return Scores.of(counts.cumsum(axis=1).astype(float), ends, np.arange(float(n_values)))


def moved(scores, tolerance):
    """Squared error, and distributions, of values that are moved, each spread over its levels."""
    n_groups, n_values = scores.levels.shape
    draws = (np.arange(400) + 0.5) / 400
    found, cost = [], 0.0
    limits = band(scores, tolerance)
    for code in range(n_groups):
        values = np.repeat(np.arange(float(n_values)), 400)
        codes = np.full(len(values), code)
        to = limits.limited(values, scores.places(values, codes, np.tile(draws, n_values)))
        weights = np.repeat(np.diff(scores.levels[code], prepend=0.0) / 400, 400)
        cost += scores.shares[code] * float((weights * (to - values) ** 2).sum())
        found.append((to, weights))
    return cost, found


@pytest.mark.parametrize("tolerance", [0.0, 0.05, 0.2, 0.5])
@pytest.mark.parametrize("n_groups", [2, 3])
def test_maps_cost_no_more_than_a_linear_programme_and_keep_to_the_tolerance(n_groups, tolerance):
    scores = of_values(n_groups, n_groups, 5)
    cost, found = moved(scores, tolerance)
    for (to, w), (other, v) in itertools.combinations(found, 2):
        thresholds = np.concatenate([to, other])[::7] + 1e-9
        apart = [w[to <= t].sum() - v[other <= t].sum() for t in thresholds]
        assert np.abs(apart).max() <= tolerance + 0.005
    # Couplings of each group's values with a fine grid, with levels that are near a common one.
    grid = np.linspace(0.0, 4.0, 33)
    sizes = n_groups, 5, len(grid)
    n = int(np.prod(sizes))
    costs = scores.shares[:, None, None] * (np.arange(5.0)[:, None] - grid) ** 2 * np.ones(sizes)
    equal = np.zeros((n_groups * 5, *sizes))
    for row, (g, k) in enumerate(itertools.product(range(n_groups), range(5))):
        equal[row, g, k] = 1.0
    masses = np.diff(scores.levels, prepend=0.0, axis=1).ravel()
    levels = np.zeros((n_groups * len(grid), *sizes))
    for row, (g, t) in enumerate(itertools.product(range(n_groups), range(len(grid)))):
        levels[row, g, :, : t + 1] = 1.0
    levels = levels.reshape(len(levels), n)
    common = np.tile(np.eye(len(grid)), (n_groups, 1))
    upper = np.vstack([np.hstack([levels, -common]), np.hstack([-levels, common])])
    solved = optimize.linprog(
        np.append(costs.ravel(), np.zeros(len(grid))),
        A_ub=upper,
        b_ub=np.full(len(upper), 0.5 * tolerance),
        A_eq=np.hstack([equal.reshape(len(equal), n), np.zeros((len(equal), len(grid)))]),
        b_eq=masses,
    )
    # The grid of the programme is as fine as an eighth: it may cost more, by its rounding.
    assert solved.fun - 0.01 <= cost <= solved.fun + 0.005


def test_shifts_are_the_smallest_that_bring_means_together():
    scores = of_values(5, 3, 6)
    for tolerance in (0.0, 0.1, 0.4):
        found = scores.means + shifts(scores, tolerance)
        assert np.ptp(found) <= tolerance + 1e-9

        def cost(middle, tolerance=tolerance):
            half = 0.5 * tolerance
            off = np.clip(scores.means, middle - half, middle + half) - scores.means
            return float((scores.shares * off**2).sum())

        best = optimize.minimize_scalar(cost, bounds=(0, 5), method="bounded").fun
        assert (scores.shares * shifts(scores, tolerance) ** 2).sum() <= best + 1e-9


@pytest.mark.parametrize("group_at_predict", ["none", pytest.param("raw", marks=pytest.mark.slow)])
def test_every_tolerance_is_read_off_one_fit(group_at_predict):
    X, _, group = rows()
    model = fitted(group_at_predict=group_at_predict, epsilon=float("inf"), max_epochs=40)
    gaps = {}
    for tolerance in (0.02, 0.1, 0.2, 0.9):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FairnessWarning)
            other = model.at(tolerance)
        assert other.module_ is model.module_
        found = other.predict(X, sensitive_features=group)
        gaps[tolerance] = stats.ks_2samp(found[group == "a"], found[group == "b"]).statistic
        if other.kept_tolerance_ <= tolerance:
            assert gaps[tolerance] <= tolerance + 0.04  # rows within a cell are not even
    assert gaps[0.02] < gaps[0.9]
    assert gaps[0.9] > 0.3
    with pytest.raises(ValueError, match="'tolerance' must be"):
        model.at(1.5)
    model.scored_ = model.scored_ + 1
    with pytest.raises(ValueError, match="was changed after fit"):
        model.at(0.2)


@pytest.mark.slow
def test_means_are_brought_together():
    X, _, group = rows()
    for where in ("none", "raw"):
        model = fitted(
            notion="mean_gap", group_at_predict=where, epsilon=float("inf"), max_epochs=40
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FairnessWarning)
            models = model.at(0.9), model.at(0.03)
        wide, near = (each.predict(X, sensitive_features=group) for each in models)
        apart = [abs(p[group == "a"].mean() - p[group == "b"].mean()) for p in (wide, near)]
        assert apart[1] < 0.6 * apart[0]


def test_a_blind_model_looks_at_no_group_and_the_other_needs_each():
    X, _, group = rows()
    blind, aware = (fitted(group_at_predict=where) for where in ("none", "raw"))
    assert np.array_equal(blind.predict(X), blind.predict(X, sensitive_features=group))
    with pytest.raises(ValueError, match="needs sensitive_features"):
        aware.predict(X)
    with pytest.raises(UnknownGroupError):
        aware.predict(X, sensitive_features=np.full(len(X), "c"))
    for model in (blind, aware):
        found = model.predict(X, sensitive_features=group)
        assert (found >= 0.0).all()
        assert (found <= 10.0).all()
        again = model.predict(X[::-1], sensitive_features=group[::-1])[::-1]
        assert np.array_equal(found, again)


@pytest.mark.parametrize("notion", [tables.DISTRIBUTIONS, tables.MEANS])
@pytest.mark.parametrize("group_at_predict", [pytest.param("none", marks=pytest.mark.slow), "raw"])
def test_the_path_lists_what_at_answers(group_at_predict, notion):
    X, _, group = rows()
    model = fitted(
        group_at_predict=group_at_predict, notion=notion, epsilon=float("inf"), max_epochs=20
    )
    path = model.path()
    assert len(path) == (21 if group_at_predict == "raw" else 5)
    assert path["squared_move"].iloc[-1] == pytest.approx(0.0, abs=1e-3)
    aware = group_at_predict == "raw"
    assert path["gap"].is_monotonic_increasing or not aware
    free = model.at(0.99).predict(X, sensitive_features=group)
    for _, point in path.iloc[:: 5 if aware else 1].iterrows():
        if not 0.0 < point["tolerance"] < 1.0:
            continue
        stood = model.at(point["tolerance"])
        assert stood.kept_tolerance_ <= point["tolerance"] + 1e-12
        if aware:
            assert stood.aim_ == pytest.approx(point["aim"])
            found = stood.predict(X, sensitive_features=group)
            # Rows are not even within their cells.
            moved = ((found - free) ** 2).mean()
            assert moved == pytest.approx(point["squared_move"], rel=0.2, abs=0.02)
            assert found[group == "a"].mean() == pytest.approx(point["mean of a"], abs=0.1)
        else:  # one that moves scores less may keep to it too
            assert stood.multiplier_ <= point["multiplier"]


@pytest.mark.parametrize("group_at_predict", ["none", "raw"])
def test_tolerances_count_on_the_noise_that_was_released(group_at_predict):
    """A quarter of it would let them seem to be kept."""
    model = fitted(group_at_predict=group_at_predict)
    stds = {s.blocks[0].name: s.blocks[0].noise_std for s in model.plan_.segments}

    def kept(times):
        scores, *moved = (
            Table(counts, times * stds[name])
            for name, counts in [
                ("scores by group", model.scored_),
                *(("moved scores by group", counts) for counts in model.moved_),
            ]
        )
        return NumberPath(model.notion, scores, tuple(moved)).choose(model.tolerance).kept

    assert model.kept_tolerance_ == kept(1.0) > kept(0.25)


@pytest.mark.slow
@pytest.mark.parametrize("group_at_predict", ["none", "raw"])
def test_certificates_of_a_path_hold_together(group_at_predict):
    X, y, group = rows(seed=1)
    model = fitted(group_at_predict=group_at_predict)
    found = model.certify_path(
        X, y, sensitive_features=group, tolerances=(0.2, 0.9), holdout="public"
    )
    for tolerance, certificate in found.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FairnessWarning)
            stood = model.at(tolerance)
        assert certificate.verify(stood)
        alone = certify(stood, X, y, sensitive_features=group, holdout="public")
        assert certificate.fairness[0].estimate == alone.fairness[0].estimate
        assert certificate.fairness[0].bound > alone.fairness[0].bound
    with pytest.raises(ValueError, match="must be a list"):
        model.certify_path(X, y, sensitive_features=group, tolerances=0.2, holdout="public")


def test_every_tolerance_refuses_rows_that_its_net_was_trained_on():
    X, y, group = rows()
    stood = fitted(group_at_predict="raw").at(0.9)
    with pytest.raises(ValueError, match="trained on"):
        certify(stood, X, y, sensitive_features=group, holdout="public")


@pytest.mark.parametrize("group_at_predict", ["none", pytest.param("raw", marks=pytest.mark.slow)])
def test_certificates_compare_predictions_as_they_are_deployed(group_at_predict):
    X, y, group = rows(seed=1)
    model = fitted(group_at_predict=group_at_predict)
    certificate = certify(model, X, y, sensitive_features=group, holdout="public")
    found = model.predict(X, sensitive_features=group)
    expected = stats.ks_2samp(found[group == "a"], found[group == "b"]).statistic
    assert certificate.fairness[0].estimate == pytest.approx(expected, abs=0.01)
    assert certificate.verify(model)
    assert certificate.privacy.epsilon <= 1.0


@pytest.mark.parametrize("group_at_predict", ["none", "raw"])
@pytest.mark.parametrize("share", [0.2, 0.5])
def test_tables_have_their_share_of_the_budget(share, group_at_predict):
    """As Gaussian releases, whose costs are about the squares of rates over multipliers."""
    model = FairPathRegressor(path_share=share, group_at_predict=group_at_predict, **QUICK)
    training, *released = model._plan(Sizes.of_all(4000, 4000), 1.3).segments
    steps, of_tables = (
        sum(s.steps * (s.rates[0] / s.multiplier(0)) ** 2 for s in segments)
        for segments in ([training], released)
    )
    assert of_tables / (steps + of_tables) == pytest.approx(share, rel=1e-9)


def test_a_quote_is_what_a_fit_charges(tmp_path):
    for where in ("none", "raw"):
        ledger = PrivacyLedger(tmp_path / where, "rows")
        model = fitted(group_at_predict=where, ledger=ledger)
        quote = FairPathRegressor(**QUICK, group_at_predict=where).quote(
            n_rows=900, groups={"a": 600, "b": 300}, n_features=3
        )
        assert (quote.epsilon, quote.delta) == (model.privacy_.epsilon, model.privacy_.delta)
        assert quote.plan == model.plan_
        names = [segment.blocks[0].name for segment in model.plan_.segments[1:]]
        assert names == list(tables._BLIND if where == "none" else tables._AWARE)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": np.full(900, 3.0)}, "constant"),
        ({"y": np.full(900, np.nan)}, "NaN"),
        ({"y": np.r_[np.zeros(899), np.inf]}, "infinity"),
        (
            {"sensitive_features": np.full(900, "a")},
            "at least two groups, whose predictions are compared; got one. DPSGDRegressor trains",
        ),
        ({"sensitive_features": None}, "sensitive_features=None.*DPSGDRegressor trains"),
    ],
)
def test_what_cannot_be_fitted_is_refused_before_a_charge(change, message, tmp_path):
    X, y, group = rows()
    ledger = PrivacyLedger(tmp_path / "ledger", "rows")
    model = FairPathRegressor(**QUICK, ledger=ledger)
    given = {"y": y, "sensitive_features": group} | change
    with pytest.raises(ValueError, match=message):
        model.fit(X, given["y"], sensitive_features=given["sensitive_features"])
    assert not ledger.entries()
    assert not hasattr(model, "privacy_")


class Counting:
    """A door that keeps what each row would add to a table."""

    def prefix_sums(self, segment, assign, shape):
        self.entries = assign(self.rows)
        return np.zeros(shape), None


def test_a_row_adds_one_to_one_count_of_each_table_whatever_the_others_are():
    import torch

    rng = np.random.default_rng(0)
    numbers, groups = rng.normal(size=50) * 3, rng.integers(0, 3, size=50)

    class Rows:
        targets = (torch.zeros(50), torch.from_numpy(groups))

    door = Counting()
    door.rows = Rows
    for n_groups in (None, 3):
        tables.released(door, None, lambda rows: numbers, n_groups)
        places, signs = door.entries
        assert (signs == 1).all()
        cells = np.clip(np.searchsorted(ENDS[1:-1], numbers, side="right"), 0, CELLS - 1)
        assert np.array_equal(places, cells + (0 if n_groups is None else CELLS * groups))


@pytest.mark.slow
def test_rows_on_disk_and_persons_are_taken(tmp_path):
    X, y, group = rows(300)
    stored = np.memmap(tmp_path / "rows", dtype=np.float64, mode="w+", shape=X.shape)
    stored[:] = X
    settings = QUICK | {"reproducible_noise": True, "random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairnessWarning)
        in_memory, on_disk = (
            FairPathRegressor(**settings).fit(of, y, sensitive_features=group) for of in (X, stored)
        )
        persons = FairPathRegressor(**QUICK).fit(
            X, y, sensitive_features=group, person_ids=np.arange(300)
        )
    assert np.array_equal(in_memory.predict(X), on_disk.predict(X))
    assert persons.privacy_.protects == "person"


@pytest.mark.parametrize("kind", [DPSGDRegressor, FairPathRegressor])
def test_a_learned_table_and_a_net_for_numbers_share_one_budget(kind):
    X, y, group = rows(600)
    table = pd.DataFrame(X).add_prefix("c")
    steps = make_pipeline(PrivateTableEncoder(encoding="onehot"), kind(**QUICK))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few rows: noise, and no tolerance is shown
        model = fit_within(steps, table, y, epsilon=1.0, sensitive_features=group)
    assert 0.99 <= certify(model).privacy.epsilon <= 1.0
    assert model.predict(table).shape == (600,)


def test_a_search_over_fair_regressors_states_the_cost_of_its_fits():
    X, y, group = rows(300)
    search = GridSearchCV(FairPathRegressor(**QUICK), {"tolerance": [0.2, 0.4]}, cv=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairnessWarning)
        search.fit(X, y, sensitive_features=group)
    stated = certify(search).privacy
    assert stated.is_void  # scores without noise
    assert "3 fits on overlapping rows" in " ".join(stated.assumptions)


def misses_with_groups(draws, noise_std, stated_std, notion, tolerance):
    """How often the gap of moved rows is above what is said to be kept, groups known."""
    rng, sizes = np.random.default_rng(0), (900, 400)
    groups = [rng.beta(4, 6, sizes[0]) * 2 - 1, rng.beta(5, 5, sizes[1]) * 2 - 1]
    counts = np.array([np.histogram(group, ENDS)[0] for group in groups])
    codes = np.repeat([0, 1], sizes)
    # Rows that are spread evenly over their cells, as is assumed.
    even = [
        np.concatenate(
            [ENDS[k] + (np.arange(n) + 0.5) / n * (ENDS[1] - ENDS[0]) for k, n in enumerate(row)]
        )
        for row in counts
    ]
    numbers, missed = np.concatenate(even), 0
    for _ in range(draws):
        noisy = PrefixSums(CELLS, noise_std).release(counts, NoiseSource())
        table = Table(noisy, stated_std)
        point = NumberPath(notion, table, ()).choose(tolerance)
        moved = tables.with_groups(table.scores, numbers, codes, notion, point.aim)
        first, second = (moved[codes == code] for code in (0, 1))
        if notion == tables.DISTRIBUTIONS:
            gap = stats.ks_2samp(first, second).statistic - 1.0 / min(sizes)
        else:
            gap = abs(first.mean() - second.mean()) / 2.0 - 1e-3
        missed += gap > point.kept
    return missed


@pytest.mark.slow
@pytest.mark.parametrize("notion", [tables.DISTRIBUTIONS, tables.MEANS])
def test_with_groups_tolerances_are_kept_in_nine_fits_of_ten_and_not_with_four_times_the_noise(
    notion,
):
    """Either passes by chance of 1e-6 where the truth is what it refutes."""
    draws, allowed = 100, stats.binom.isf(1e-6, 100, tables.ERROR)
    # Noise hides more than the second tolerance, so that nothing but noise is left of the gap.
    for tolerance in (0.08, 0.001):
        assert misses_with_groups(draws, 8.0, 8.0, notion, tolerance) <= allowed
    assert misses_with_groups(draws, 32.0, 8.0, notion, 0.001) > allowed


@pytest.mark.slow
@pytest.mark.parametrize("notion", [tables.DISTRIBUTIONS, tables.MEANS])
def test_blind_bounds_hold_in_nine_fits_of_ten_and_not_with_four_times_the_noise(notion):
    """Either passes by chance of 1e-6 where the truth is what it refutes.

    All rows are in the first cell or the last, so that one level, which has the noise of one
    prefix sum, says all of either gap: the largest of many noisy levels is too large, not too
    small.
    """
    counts = np.zeros((2, 2), dtype=int)
    counts[0], counts[1] = (600, 300), (150, 250)
    truth = Table(counts.cumsum(axis=1).astype(float)).bound(notion, 0.5)
    draws, allowed = 1000, stats.binom.isf(1e-6, 1000, 0.8 * tables.ERROR)
    for times, caught in ((1.0, False), (4.0, True)):
        missed = 0
        for _ in range(draws):
            noisy = PrefixSums(2, 8.0 * times).release(counts, NoiseSource())
            missed += Table(noisy, 8.0).bound(notion, 0.8 * tables.ERROR) < truth
        assert (missed > allowed) == caught
