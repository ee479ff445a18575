"""Choices along a fair path hold in nine fits of ten, with noise as large as the tolerance."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import beta, binom

from skfairdp import FairPathClassifier
from skfairdp.fairness.notions import NOTIONS
from skfairdp.inprocessing.fair_path import path as path_module
from skfairdp.inprocessing.fair_path.compared_rates import Rates
from skfairdp.inprocessing.fair_path.path import MARGIN, SIDE, ReleasedPath, around
from skfairdp.privacy.noise import NoiseSource
from tests.inprocessing.redrawn import Redrawn

ERROR = 0.1


def crowd(
    n: int, share: float, n_groups: int, n_classes: int = 2, seed: int = 1
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of one large group and of small ones, which are `share` of all and selected less.

    Of several classes the first two are as of two, and the others have some of both.
    """
    rng = np.random.default_rng(seed)
    small = rng.random(n) < share
    groups = np.where(small, rng.integers(1, n_groups, n), 0)
    X = rng.normal(size=(n, 2))
    X[:, 0] -= 1.2 * small * (1.0 + 0.3 * groups)
    X[:, 1] += 1.5 * groups
    y = (rng.random(n) < 1.0 / (1.0 + np.exp(-2.0 * X[:, 0]))).astype(int)
    if n_classes > 2:
        y = np.where(rng.random(n) < 0.4, rng.integers(2, n_classes, n), y)
        X[:, 1] += y
    return X, y, groups


def fit(
    notion: str, n_groups: int, share: float, tolerance: float, n: int = 20_000, n_classes: int = 2
):
    X, y, groups = crowd(n, share, n_groups, n_classes)
    settings = {"epsilon": 1.0, "delta": 1e-6, "max_epochs": 20, "progress": False}
    model = FairPathClassifier(notion=notion, tolerance=tolerance, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the start may not keep to it
        model.fit(X, y, sensitive_features=groups)
    return model, (X, y, groups)


def tables_of(
    notion: str, n_groups: int, share: float, n_classes: int = 2, n: int = 20_000
) -> tuple[Redrawn, float]:
    """Tables of a fit, and a tolerance that its start keeps to by about the margin or not."""
    model, rows = fit(notion, n_groups, share, 0.2, n, n_classes)
    redrawn, noise = Redrawn(model, *rows, 9.6 * n / 20_000), NoiseSource()
    paths = [redrawn.path(noise)[0] for _ in range(9)]
    at_start = [p.gaps[p.start] + MARGIN * p.gap_stds[p.start] for p in paths]
    return redrawn, min(float(np.median(at_start)), 0.9)


def missed(redrawn: Redrawn, tolerance: float, n: int, *, honest: bool = True) -> np.ndarray:
    """Count tables: kept; kept and above the tolerance; above `kept`; above a bound of any point.

    `honest`: False for the broken twin, whose start is the smallest gap of the tables that say how
    far to walk.
    """
    noise, found = NoiseSource(), np.zeros(4, dtype=int)
    for _ in range(n):
        path, exact = redrawn.path(noise, None if honest else 0.0)
        if not honest:
            path = replace(path, start=int(np.argmin(path.gaps)))
        point, kept = path.choose(tolerance)
        beyond = (exact > path.gap_bounds)[path.points()[0]].any()
        found += kept <= tolerance, kept <= tolerance < exact[point], exact[point] > kept, beyond
    return found


# -- a start that corrects too much -------------------------------------------------------


def straight(
    left: float, end: float, outwards: float = 1.0, swapped: bool = False, std: float = 0.0
) -> ReleasedPath:
    """Path of two groups whose gap goes evenly from `left` without a constraint to `end`.

    `outwards`: sign of the multipliers. `swapped`: whether the other group is selected more.
    """
    multipliers, half = around(4.0 * outwards), np.array([5000.0, 1000.0])
    gaps = np.linspace(end, left, SIDE + 1) / (2.0 * outwards)
    signs = np.array([1.0, -1.0]) if swapped else np.array([-1.0, 1.0])
    selected = half[:, None] * (1.0 + 2.0 * outwards * signs[:, None] * gaps)
    changed = np.zeros((2, 1, 2, SIDE))
    changed[0 if outwards > 0.0 else 1, 0] = selected[:, 1:] - selected[:, :1]
    decided = np.stack([2.0 * half - selected[:, 0], selected[:, 0]], axis=1)[:, None]
    rates = Rates.of("demographic_parity")
    direction = rates.direction(np.ones((2, 2))) * (-1.0 if swapped != (outwards < 0.0) else 1.0)
    return ReleasedPath(
        rates, multipliers, np.concatenate([decided, decided], axis=1) / 2.0, changed,
        np.zeros((2, SIDE)), std, np.full(SIDE, std), np.ones(SIDE),
        start=SIDE, direction=direction,
    )  # fmt: skip


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("outwards", [-1.0, 1.0])
def test_a_start_that_corrects_too_much_is_left(outwards: float, swapped: bool) -> None:
    path = straight(0.2, -0.2, outwards, swapped, std=5.0)
    assert path.gaps[path.start] == pytest.approx(0.2)
    assert (path.under[0, 0], path.under[0, -1]) == pytest.approx((-0.2, 0.2))
    point, kept = path.choose(0.1)
    assert kept == 0.1
    assert 0.06 < path.under[0, np.abs(point - path.start)] <= 0.1
    points, tolerances = path.points()
    assert (np.diff(tolerances[1:]) >= 0.0).all()
    # The start is listed with what it keeps to, though a smaller tolerance has another answer.
    assert points[0] == path.start
    assert tolerances[0] > 0.2 > tolerances[1]
    for tolerance in (0.05, 0.1, 0.19, 0.21, 0.3):
        listed = points[tolerances <= tolerance][-1]
        assert path.choose(tolerance) == (listed, tolerance)
    assert path.choose(0.5 * tolerances[1]) == (path.start, tolerances[0])


def test_a_gap_that_changes_sides_at_once_is_not_passed_over() -> None:
    """No point keeps to the tolerance, so neither walk may stop between."""
    path = straight(0.2, -0.2, std=5.0)
    jump = path.changed.copy()
    jump[0, 0, :, : SIDE // 2] = 0.0  # -0.2 up to here
    jump[0, 0, :, SIDE // 2 :] = path.changed[0, 0, :, -1:]
    path = replace(path, changed=jump)
    point, kept = path.choose(0.1)
    assert point == path.start
    assert kept > 0.2


@pytest.mark.parametrize("holds", [True, False])
@pytest.mark.parametrize("left", [0.11, 0.2])
def test_walks_from_both_sides_keep_in_nine_of_ten(left: float, holds: bool, monkeypatch) -> None:
    """Noise is a third of the tolerance. Fails with a chance of 1e-6 where the error is .1."""
    if not holds:
        monkeypatch.setattr(path_module, "INWARD_MARGIN", -1.0)
        monkeypatch.setattr(path_module, "OUTWARD_MARGIN", -1.0)
    std, n = 30.0, 200
    path = straight(left, -0.2, std=std)
    exact, rng = path.gaps, np.random.default_rng(0)
    kept = over = 0
    for _ in range(n):
        noise = rng.normal(0.0, std, (*path.decided.shape, 1))[..., 0]
        noisy = replace(
            path,
            decided=path.decided + noise,
            changed=path.changed + rng.normal(0.0, std, (2, 1, 2, 1)),
        )
        point, reached = noisy.choose(0.1)
        kept += reached <= 0.1
        over += reached <= 0.1 < exact[point]
    assert kept > n / 2
    assert (over <= binom.ppf(1.0 - 1e-6, n, ERROR)) == holds


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("notion", sorted(NOTIONS))
def test_successes_of_the_group_that_pays_fall(notion: str, n_classes: int) -> None:
    """Costs of one group's successes alone make it the dearer one of each of its pairs."""
    rates = Rates.of(notion, range(n_classes))
    for dear in range(3):
        for rate, successes in enumerate(rates.successes):
            costs = np.zeros((3, n_classes, n_classes))
            costs[dear] = successes
            signs = rates.dearer(rates.plain(costs)).reshape(len(rates.names), 3)[rate]
            pairs = [(0, 1), (0, 2), (1, 2)]
            for sign, (first, second) in zip(signs, pairs, strict=True):
                if dear in (first, second):
                    assert sign == (1.0 if dear == second else -1.0)


def at_most(count: int, n: int, level: float = 0.95) -> float:
    """Upper limit of a chance."""
    return float(beta.ppf(level, count + 1, n - count))


SLOW = [
    ("equal_opportunity", 2, 0.1, {}),
    ("demographic_parity", 3, 0.1, {}),
    ("equalized_odds", 2, 0.1, {}),
    # With as much noise a row, on fewer of them.
    ("demographic_parity", 2, 0.3, {"n_classes": 3, "n": 3000}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("notion", "n_groups", "share", "more"), SLOW)
def test_a_tolerance_is_kept_in_nine_tables_of_ten(notion, n_groups, share, more) -> None:
    """Fails with a chance of 1e-6 where the error is .1."""
    redrawn, tolerance = tables_of(notion, n_groups, share, **more)
    n = 150
    kept, *errors = missed(redrawn, tolerance, n)
    assert kept > n / 10
    assert max(errors) <= binom.ppf(1.0 - 1e-6, n, ERROR)


@pytest.mark.slow
def test_a_start_among_the_same_noise_is_caught() -> None:
    """Passes by chance of 1e-3 where the error is .1."""
    model, rows = fit("equal_opportunity", 2, 0.08, 0.3)
    _, over, wrong, _ = missed(Redrawn(model, *rows, 9.6), 0.3, 300, honest=False)
    assert max(over, wrong) > binom.ppf(1.0 - 1e-3, 300, ERROR)


# -- the large ones ---------------------------------------------------------------------

COMPARED = ["demographic_parity", "equal_opportunity", "equalized_odds"]


@pytest.mark.campaign
@pytest.mark.parametrize("n_classes", [2, 3, 4])
@pytest.mark.parametrize("share", [0.02, 0.05, 0.1])
@pytest.mark.parametrize("n_groups", [2, 3])
@pytest.mark.parametrize("notion", COMPARED)
def test_nine_of_ten_over_a_thousand_tables(notion, n_groups, share, n_classes, capsys) -> None:
    redrawn, tolerance = tables_of(notion, n_groups, share, n_classes)
    n = 1000
    kept, *errors = missed(redrawn, tolerance, n).tolist()
    limits = [round(at_most(count, n), 4) for count in errors]
    setting = f"{notion}, {n_groups} groups, {n_classes} classes, {share}"
    with capsys.disabled():
        print(f"\n{setting}, {tolerance=:.3f}: {kept=}", errors, limits)
    assert max(limits) <= ERROR


@pytest.mark.campaign
@pytest.mark.parametrize("n_groups", [2, 3])
@pytest.mark.parametrize("notion", COMPARED)
def test_nine_of_ten_over_three_hundred_fits(notion, n_groups, capsys) -> None:
    """Net, direction and tables anew each time, at the tolerance of a middling start."""
    share, n = 0.08, 300
    _, tolerance = tables_of(notion, n_groups, share)
    found = np.zeros(3, dtype=int)
    for _ in range(n):
        model, (X, y, groups) = fit(notion, n_groups, share, tolerance)
        gap, kept = gap_among(model, X, y, groups), model.kept_tolerance_
        found += kept <= tolerance, kept <= tolerance < gap, gap > kept
    kept, *errors = found.tolist()
    limits = [round(at_most(count, n), 4) for count in errors]
    with capsys.disabled():
        print(f"\n{notion}, {n_groups} groups, {share}, {tolerance=:.3f}: {kept=}", errors, limits)
    assert max(limits) <= ERROR


@pytest.mark.campaign
@pytest.mark.parametrize(("n_classes", "most"), [(3, 0.005), (4, 0.05)])
def test_noise_costs_little_accuracy_on_twenty_thousand_rows(n_classes, most, capsys) -> None:
    """Ten pairs of fits with equal initial weights, at equal gaps of 200,000 other rows.

    Four classes do not keep to the limit of three, .005: a start may correct too much. In one run
    they lost .028 at a gap of .08 and .006 at .2.
    """
    X, y, groups = crowd(20_000, 0.1, 2, n_classes)
    others, labels, of_group = crowd(200_000, 0.1, 2, n_classes, seed=7)
    gaps = [0.06, 0.08, 0.1, 0.15, 0.2]

    def line(epsilon: float, seed: int) -> np.ndarray:
        settings = {"epsilon": epsilon, "delta": 1e-6, "max_epochs": 20, "progress": False}
        model = FairPathClassifier(notion="demographic_parity", random_state=seed, **settings)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # no privacy, and a start that keeps to no tolerance
            model.fit(X, y, sensitive_features=groups)
            answers = [model.at(t).predict(others) for t in (0.05, 0.08, 0.1, 0.15, 0.2, 0.3)]
        found = [[largest_gap(a, of_group), (a == labels).mean()] for a in answers]
        return np.array(found)

    pairs = np.array([[line(epsilon, seed) for epsilon in (1.0, np.inf)] for seed in range(10)])
    means = pairs.mean(axis=0)
    private, free = (
        np.interp(gaps, *points[points[:, 0].argsort()].T, left=np.nan, right=np.nan)
        for points in means
    )
    lost = dict(zip(gaps, (free - private).round(4).tolist(), strict=True))
    errors = (pairs[:, 1, :, 1] - pairs[:, 0, :, 1]).std(axis=0, ddof=1) / 10**0.5
    with capsys.disabled():
        print(f"\n{n_classes} classes: {lost=} {means.round(4).tolist()} {errors.round(4)}")
    known = [value for value in lost.values() if not np.isnan(value)]
    assert len(known) >= 3
    assert max(known) <= most


def largest_gap(answers: np.ndarray, groups: np.ndarray) -> float:
    """Largest difference between two groups, over the answers."""
    rates = [[(answers[groups == g] == k).mean() for k in np.unique(answers)] for g in (0, 1)]
    return float(np.abs(np.diff(rates, axis=0)).max())


def gap_among(model, X: np.ndarray, y: np.ndarray, groups: np.ndarray) -> float:
    """Largest gap that the model's predictions have among these rows."""
    selected, labels = model.predict(X), {"equal_opportunity": [1], "equalized_odds": [0, 1]}
    strata = [y == label for label in labels.get(model.notion, [])] or [y == y]
    rates = [[selected[s & (groups == g)].mean() for g in np.unique(groups)] for s in strata]
    return max(max(of_all) - min(of_all) for of_all in rates)
