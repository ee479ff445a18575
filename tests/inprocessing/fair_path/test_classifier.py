"""The optimal fair classifier is a threshold, and one released table says where to put it."""

from __future__ import annotations

import copy
import itertools
import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.optimize import linprog
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from skorch import NeuralNet
from torch import nn

from skfairdp import FairPathClassifier, PrivacyLedger, default_net
from skfairdp.engine.modules import MLP
from skfairdp.engine.release import NoisyRelease, Rows
from skfairdp.exceptions import FairnessWarning, PrivacyWarning
from skfairdp.fairness.notions import NOTIONS
from skfairdp.inprocessing.fair_path.envelope import Envelopes
from skfairdp.inprocessing.fair_path.path import (
    AROUND_ONE,
    MULTIPLIERS,
    SIDE,
    ReleasedPath,
    around,
)
from skfairdp.inprocessing.fair_path.public_scores import _softmax_from_sums
from skfairdp.inprocessing.fair_path.scores import Chances, Rates, Scores, ScoresObjective
from skfairdp.inprocessing.fair_path.tables import Tables, plan_tables, planned
from skfairdp.model_selection import PrivateSearchCV, specify
from skfairdp.privacy import epsilon
from skfairdp.privacy.mechanisms.prefix_sums import PrefixSums, prefix_norm
from skfairdp.privacy.noise import NoiseSource
from skfairdp.privacy.sizes import Sizes
from tests.inprocessing.redrawn import Redrawn, released_path, without_noise
from tests.inprocessing.rows import two_groups

FAST = {"max_epochs": 3, "progress": False}


# -- the theorem, against a linear programme ------------------------------------------


def population(seed: int, n_points: int, n_groups: int, *, aware: bool) -> np.ndarray:
    """P(x, a, y), shape (n_points, n_groups, 2); with the group at prediction, x tells it."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(n_points * n_groups * 2, 0.7)).reshape(n_points, n_groups, 2)
    if aware:
        known = np.arange(n_points) % n_groups
        p = np.where(known[:, None, None] == np.arange(n_groups)[None, :, None], p, 0.0)
    return p / p.sum()


def rates_of(p: np.ndarray, notion: str) -> tuple[np.ndarray, np.ndarray]:
    """Slopes (n_strata, n_groups, n_points) and constants of each rate, linear in h(x)."""
    slopes, constants = [], []
    for stratum in NOTIONS[notion].strata((0, 1)):
        trials = (stratum.successes | stratum.failures).any(axis=1)
        mass = p.sum(axis=0)[:, trials].sum(axis=1)
        weight = stratum.successes[:, 1].astype(float) - stratum.successes[:, 0]
        slopes.append((p @ weight).T / mass[:, None])
        constants.append(p.sum(axis=0) @ stratum.successes[:, 0] / mass)
    return np.array(slopes), np.array(constants)


def solve(p: np.ndarray, notion: str, tolerance: float, threshold: float = 0.5):
    """Least cost over all randomised h, and the multiplier of every pair's constraint."""
    slopes, constants = rates_of(p, notion)
    gain = p[..., 1].sum(axis=1) - threshold * p.sum(axis=(1, 2))
    pairs = list(itertools.permutations(range(p.shape[1]), 2))
    A = np.concatenate([slopes[:, u] - slopes[:, v] for u, v in pairs])
    b = np.concatenate([tolerance - constants[:, u] + constants[:, v] for u, v in pairs])
    found = linprog(-gain, A_ub=A, b_ub=b, bounds=(0.0, 1.0))
    assert found.success
    return found, b


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("threshold", [0.5, 0.3])
@pytest.mark.parametrize("aware", [False, True], ids=["blind", "aware"])
@pytest.mark.parametrize("n_groups", [2, 3])
@pytest.mark.parametrize("notion", sorted(NOTIONS))
def test_the_best_classifier_is_a_threshold_on_the_scores(
    notion: str, n_groups: int, aware: bool, threshold: float, seed: int
) -> None:
    p = population(seed, 24, n_groups, aware=aware)
    tolerance = 0.03
    found, b = solve(p, notion, tolerance, threshold)
    # The rule of the theory page: eta - t + sum of multiplier * P(a=k, y=l | x) / P(a=k, y in l).
    mass = p.sum(axis=(1, 2))
    eta = p[..., 1].sum(axis=1) / mass
    slopes, _ = rates_of(p, notion)
    n_strata = len(slopes)
    pairs = list(itertools.permutations(range(n_groups), 2))
    nu = -found.ineqlin.marginals.reshape(len(pairs), n_strata)
    weights = np.zeros((n_strata, n_groups))
    for (u, v), price in zip(pairs, nu, strict=True):
        weights[:, u] -= price
        weights[:, v] += price
    assert np.allclose(weights.sum(axis=1), 0.0)
    score = eta - threshold + np.einsum("sk,skx->x", weights, slopes) / mass
    h = found.x
    assert (h[score > 1e-7] == 1.0).all()
    assert (h[score < -1e-7] == 0.0).all()
    # Ties are drawn, and there are no more of them than multipliers.
    drawn = (h > 1e-9) & (h < 1.0 - 1e-9)
    assert drawn.sum() <= (nu > 1e-9).sum()
    # Strong duality: no fair classifier is better, whatever it looks like.
    dual = np.maximum(score * mass, 0.0).sum() + (nu.ravel() * b).sum()
    assert dual == pytest.approx(-found.fun, abs=1e-9)


def chances_of(p: np.ndarray, rates: Rates, threshold: float = 0.5) -> Chances:
    """The estimator's own module, fed with the logits of exact chances."""
    eta = p[..., 1].sum(axis=1) / p.sum(axis=(1, 2))
    logits = [np.log(eta) - np.log1p(-eta)]
    for labels in rates.heads:
        of_groups = p[..., list(labels)].sum(axis=2)
        logits += list(np.log(of_groups[:, 1:] / of_groups[:, :1]).T)
    module = Chances(nn.Identity(), rates, p.shape[1], threshold)
    module.logits = torch.from_numpy(np.stack(logits, 1))
    return module


def crowd(seed: int, n_groups: int) -> tuple[np.ndarray, np.ndarray]:
    """Counts of a population, and their shares, shape (30, n_groups, 2)."""
    p = population(seed, 30, n_groups, aware=False)
    counts = 1 + np.round(p * 10**6).astype(int)
    return counts, counts / counts.sum()


class Exact:
    """Prefix sums without noise; rows are a population's (point, group, label)."""

    def __init__(self, p: np.ndarray, rates: Rates, threshold: float = 0.5) -> None:
        n_points, n_groups, _ = p.shape
        self.counts = p.reshape(-1) * 1e9
        self.chances = chances_of(p, rates, threshold)
        groups, labels = np.divmod(np.tile(np.arange(2 * n_groups), n_points), 2)
        points = np.repeat(np.arange(n_points), 2 * n_groups)
        targets = tuple(map(torch.from_numpy, (labels, groups)))
        self.rows = Rows(self.chances.logits[points], targets, points)
        sizes = Sizes(("all",), (10**9,), "add-remove")
        plan = sizes.plan(*plan_tables(sizes, 0.0, rates, ascent=True), delta=1e-12)
        self.meter = SimpleNamespace(plan=plan)

    def prefix_sums(self, segment, assign, shape, n_entries=1):
        entries, signs = assign(self.rows)
        table = np.zeros(math.prod(shape))
        kept = entries >= 0
        np.add.at(table, entries[kept], (self.counts * signs.T).T[kept])
        return table.reshape(shape).cumsum(axis=-1), np.zeros(shape[-1])


def path_of(
    counts: np.ndarray, rates: Rates, direction: np.ndarray, threshold: float = 0.5
) -> tuple:
    """The estimator's scores and tables, with a population in place of rows."""
    table = Exact(counts / 1e9, rates, threshold)
    scores = Scores(table.chances, direction)(table.chances.logits).numpy()
    tables = Tables(table, table.chances, rates, "unused", counts.shape[1])
    return scores, released_path(tables, direction)


@pytest.mark.parametrize("n_groups", [2, 3])
@pytest.mark.parametrize(
    ("seed", "threshold"),
    [
        *((0, 0.5), (0, 0.2), (1, 0.7)),
        *(pytest.param(seed, 0.5, marks=pytest.mark.slow) for seed in (1, 2)),
    ],
)
@pytest.mark.parametrize("notion", sorted(NOTIONS))
def test_every_point_of_a_path_is_optimal_for_its_own_gaps(
    notion: str, seed: int, threshold: float, n_groups: int
) -> None:
    """Whatever the direction: no classifier of a larger gain has smaller gaps, so weighted."""
    counts, p = crowd(seed, n_groups)
    rates = Rates.of(notion)
    slopes, constants = rates_of(p, notion)
    mass = np.einsum("sl,kl->sk", rates.trials, p.sum(axis=0))
    if n_groups == 2 and len(slopes) == 1:
        direction = rates.direction(counts.sum(axis=0).astype(float))
        weights = np.array([[-1.0, 1.0]]) / (1.0 / mass).sum()
    else:
        weights = np.random.default_rng(seed).normal(size=(len(slopes), n_groups))
        weights -= weights.mean(axis=1, keepdims=True)
        direction = np.einsum("sk,sl->kl", weights / mass, rates.selected[..., 1])
    scores, path = path_of(counts, rates, direction, threshold)
    pairs = list(itertools.combinations(range(n_groups), 2))
    for j in range(0, len(path.multipliers), 20):
        multiplier = path.multipliers[j]
        h = scores[:, 0] - multiplier * scores[:, 1] > 0.0
        accuracy = p[h, :, 1].sum() + p[~h, :, 0].sum()
        levels = slopes @ h + constants
        assert np.allclose(path.levels[..., j], levels)
        assert path.accuracies[j] == pytest.approx(accuracy)
        gaps = np.array([levels[:, v] - levels[:, u] for u, v in pairs])
        assert path.gaps[j] == pytest.approx(np.abs(gaps).max())
        gain = p[..., 1].sum(axis=1) - threshold * p.sum(axis=(1, 2))
        towards = 1.0 if multiplier >= 0.0 else -1.0
        weighted = towards * np.einsum("sk,skx->x", weights, slopes)
        best = linprog(-gain, A_ub=weighted[None], b_ub=[weighted @ h + 1e-12], bounds=(0.0, 1.0))
        assert -best.fun == pytest.approx(gain @ h, abs=1e-7)


@pytest.mark.parametrize(
    ("notion", "n_groups"),
    [("equalized_odds", 2), ("equalized_odds", 3), ("demographic_parity", 3)],
)
def test_the_ascent_finds_the_multipliers_of_the_linear_programme(notion, n_groups) -> None:
    """On a population of many points, nearly; the path then has a point as good."""
    rng = np.random.default_rng(0)
    tolerance = 0.05
    x = rng.normal(size=4000)
    of_group = rng.dirichlet(np.full(n_groups, 3.0), size=4000) + 0.2
    of_group[:, 0] *= np.exp(0.7 * x)
    of_group /= of_group.sum(axis=1, keepdims=True)
    eta = 1.0 / (1.0 + np.exp(-1.5 * x - of_group[:, 0]))
    p = of_group[:, :, None] * np.stack([1.0 - eta, eta], 1)[:, None] / 4000
    found, _ = solve(p, notion, tolerance)
    rates = Rates.of(notion)
    table = Exact(p, rates)
    tables = Tables(table, table.chances, rates, notion, n_groups)
    _, path = path_of(p * 1e9, rates, tables.ascend(tables.first(), tolerance))
    point, kept = path.choose(tolerance)
    best = 2.0 * -found.fun + p[..., 0].sum()
    free = int(np.searchsorted(path.multipliers, 0.0))
    unconstrained = path.accuracies[free]
    assert path.gaps[free] > 2 * tolerance
    assert kept <= tolerance
    # What the constraint costs, the rule pays but a little more.
    assert unconstrained - path.accuracies[point] <= 1.15 * (unconstrained - best)


# -- what the net learns ----------------------------------------------------------------


@pytest.mark.parametrize("n_groups", [2, 4])
@pytest.mark.parametrize("notion", sorted(NOTIONS))
def test_the_gradient_is_the_losss(notion: str, n_groups: int) -> None:
    rates = Rates.of(notion)
    objective = ScoresObjective(rates, n_groups)
    rng = np.random.default_rng(0)
    shape = 8, rates.n_logits(n_groups)
    output = torch.from_numpy(rng.normal(size=shape)).requires_grad_()
    targets = tuple(torch.from_numpy(rng.integers(0, k, 8).astype(float)) for k in (2, n_groups))
    (expected,) = torch.autograd.grad(objective(output, *targets).sum(), output)
    assert torch.allclose(objective.gradient(output.detach(), *targets), expected)


def test_equal_opportunity_learns_groups_from_positives_alone() -> None:
    objective = ScoresObjective(Rates.of("equal_opportunity"), 2)
    output, label = torch.zeros(2, 2), torch.tensor([0.0, 1.0])
    gradient = objective.gradient(output, label, torch.ones(2))
    assert gradient[0, 1] == 0.0
    assert gradient[1, 1] == -0.5


# -- the estimator ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def rows():
    return two_groups(3000)


@pytest.fixture(scope="module")
def fitted(rows):
    """A path that its tests leave as it is."""
    X, y, groups = rows
    model = FairPathClassifier(tolerance=0.9, epsilon=20.0, **FAST)
    return model.fit(X, y, sensitive_features=groups)


def test_tolerances_count_on_the_noise_that_was_released(fitted) -> None:
    """A quarter of it would let smaller ones seem to be kept."""
    stds = {
        segment.blocks[0].name: segment.blocks[0].noise_std for segment in fitted.plan_.segments
    }
    path = fitted._path_of(fitted.plan_)
    of_path, of_accuracy = (PrefixSums(SIDE, stds[name]).stds for name in ("path", "accuracy"))
    assert path.decided_std == stds["decisions"]
    assert np.array_equal(path.changed_stds, of_path * path.rates.balanced_std)
    assert np.array_equal(path.improved_stds, of_accuracy)
    assert fitted.kept_tolerance_ == path.choose(fitted.tolerance)[1]
    quarter = {name: getattr(path, name) / 4.0 for name in ("decided_std", "changed_stds")}
    assert (replace(path, **quarter).gap_bounds < path.gap_bounds).all()


@pytest.mark.parametrize(
    ("notion", "threshold"),
    [*((notion, 0.5) for notion in sorted(NOTIONS)), ("demographic_parity", 0.3)],
)
@pytest.mark.parametrize(
    "protects", ["record", pytest.param("sensitive_features", marks=pytest.mark.slow)]
)
def test_without_noise_the_path_is_what_the_classifier_does(
    notion, threshold, protects, rows
) -> None:
    """Tables, scores and predictions agree to the last row, at every multiplier."""
    X, y, groups = (part[:1000] for part in rows)
    settings = {"tolerance": 0.9, "epsilon": math.inf, "random_state": 0, **FAST}
    model = FairPathClassifier(notion=notion, threshold=threshold, protects=protects, **settings)
    with pytest.warns(PrivacyWarning):
        model.fit(X, y, sensitive_features=groups)
    path = model._path_of(model.plan_)
    assert model.privacy_ is None
    p = np.array([[((groups == g) & (y == label)) for label in (0, 1)] for g in "ab"])
    for j in range(0, len(path.multipliers), 40 if protects == "record" else 3):
        model.multiplier_ = path.multipliers[j]
        selected = model.predict(X) == 1
        for s, stratum in enumerate(NOTIONS[notion].strata((0, 1))):
            for g in (0, 1):
                table = np.array(
                    [[[(p[g, k] & (selected == d)).sum() for d in (0, 1)] for k in (0, 1)]]
                )
                hit, miss = stratum.count(table)
                assert path.levels[s, g, j] == pytest.approx(float(hit[0] / (hit[0] + miss[0])))
        assert path.accuracies[j] == pytest.approx((selected == y).mean())
    model.multiplier_ = 0.0
    assert np.array_equal(model.predict(X) == 1, model.predict_proba(X)[:, 1] > threshold)


@pytest.mark.parametrize("threshold", [0.5, 0.3])
def test_without_noise_tables_of_persons_count_what_the_threshold_decides(threshold, rows) -> None:
    """Two equal rows of each person: one of them counts. A person more adds 1 to each table."""
    X, y, groups = (np.repeat(part[:600], 2, axis=0) for part in rows)
    persons = {"sensitive_features": groups, "person_ids": np.arange(1200) // 2}
    settings = {"tolerance": 0.9, "epsilon": math.inf, "random_state": 0, **FAST}
    model = FairPathClassifier(threshold=threshold, dataset_size=600, **settings)
    with pytest.warns(PrivacyWarning):
        model.fit(X, y, **persons)
    path = model._path_of(model.plan_)
    y, groups = y[::2], groups[::2]
    for j in range(0, len(path.multipliers), 40):
        model.multiplier_ = path.multipliers[j]
        selected = model.predict(X[::2]) == 1
        shares = [selected[groups == g].mean() for g in "ab"]
        np.testing.assert_allclose(path.levels[0, :, j], shares, rtol=1e-12)
        assert path.accuracies[j] == pytest.approx((selected == y).mean())
    assert model.decided_.sum() == pytest.approx(600.0)


def test_a_threshold_changes_decisions_and_neither_chances_nor_the_price(rows) -> None:
    X, y, groups = rows
    settings = {"tolerance": 0.9, "epsilon": 20.0, "random_state": 0, **FAST}
    settings["reproducible_noise"] = True
    fits = {}
    for threshold in (0.5, 0.2):
        model = FairPathClassifier(threshold=threshold, **settings)
        fits[threshold] = model.fit(X, y, sensitive_features=groups)
    chances = [model.predict_proba(X) for model in fits.values()]
    np.testing.assert_allclose(*chances, rtol=0.0, atol=1e-15)
    selected = [(model.at(0.9).predict(X) == 1).mean() for model in fits.values()]
    assert selected[0] < selected[1] - 0.1
    quoted = [
        FairPathClassifier(threshold=t, epsilon=2.0)
        .quote(n_rows=3000, groups={"a": 1500, "b": 1500})
        .privacy
        for t in fits
    ]
    assert quoted[0] == quoted[1]
    moved = fits[0.2]
    certificate = moved.certify()
    assert certificate.verify(moved)
    assert moved.at(0.8).certify().verify(moved.at(0.8))
    # Whoever changes it afterwards has another model, which no tolerance was chosen for.
    moved.set_params(threshold=0.5)
    assert not certificate.verify(moved)


@pytest.mark.parametrize("threshold", [0.0, 1.0, -0.2, "half", math.nan])
def test_a_threshold_outside_is_refused_before_the_charge(threshold, rows, tmp_path) -> None:
    X, y, groups = rows
    ledger = PrivacyLedger(tmp_path / "ledger.json")
    model = FairPathClassifier(threshold=threshold, ledger=ledger, **FAST)
    with pytest.raises(ValueError, match="threshold"):
        model.fit(X, y, sensitive_features=groups)
    several = FairPathClassifier(threshold=0.3, ledger=ledger, **FAST)
    with pytest.raises(
        ValueError, match="'threshold' has a meaning for two classes alone; got 0.3"
    ):
        several.fit(X, np.arange(len(y)) % 3, sensitive_features=groups)
    assert len(ledger.entries()) == 0


def one_of_many(path: ReleasedPath) -> ReleasedPath:
    """The path where all groups together are public."""
    parts = {}
    for name, axis, exact in (("decided", 0, 2000.0), ("changed", 2, 0.0)):
        noisy = getattr(path, name)
        parts[name] = noisy + (exact - noisy.sum(axis=axis, keepdims=True)) / noisy.shape[axis]
    return replace(path, **parts, shared=1.0 / len(path.decided))


@pytest.mark.parametrize("n_groups", [2, 4])
@pytest.mark.parametrize("notion", ["accuracy_parity", "equalized_odds"])
def test_what_all_groups_share_of_the_noise_is_taken_off(notion: str, n_groups: int) -> None:
    rates = Rates.of(notion)
    sizes = 500.0 * np.arange(1, n_groups + 1)[:, None, None]
    decided = sizes * np.array([[0.7, 0.3], [0.4, 0.6]])
    decided += (2000.0 - decided.sum(axis=0)) / n_groups
    exact = ReleasedPath(
        rates, AROUND_ONE, decided, np.zeros((2, len(rates.names), n_groups, 8)),
        np.zeros((2, 8)),
        8.0, np.full(8, 12.0), np.zeros(8), start=0, direction=np.ones((n_groups, 2)),
    )  # fmt: skip
    noise, drawn = NoiseSource(2), []
    for _ in range(400):
        changed = noise.gaussian(exact.changed.shape, 12.0)
        noisy = replace(
            exact, decided=decided + noise.gaussian(decided.shape, 8.0), changed=changed
        )
        drawn.append(one_of_many(noisy))
    said = one_of_many(exact)
    spread = np.std([d.differences[0] for d in drawn], axis=0)
    # Of either side; in the middle the path adds nothing.
    assert np.allclose(spread[:, :8].mean(1), said.differences[1][:, :8].mean(1), rtol=0.1)
    assert np.allclose(spread[:, 8], said.differences[1][:, 8], rtol=0.15)
    spread = np.std([d.levels for d in drawn], axis=0)
    assert np.allclose(spread[..., :8].mean(-1), said.level_stds[..., :8].mean(-1), rtol=0.1)


@pytest.mark.parametrize(
    ("small", "tolerance", "start"), [(700, 0.05, 4.5), (250, 0.15, 4.5), (700, 0.08, 1.0)]
)
def test_a_tolerance_is_kept_where_the_path_is_around_one(
    small: int, tolerance: float, start: float
) -> None:
    """Also where the ascent was wrong: the gap is 0 at m = 4, and the point is far from the middle.

    All fits count, those that say that they keep to nothing among those that do not overstep.
    """
    sizes = np.array([8000.0, small])
    left = 1.0 - AROUND_ONE / (1.0 + AROUND_ONE) / 0.8
    successes = np.round(sizes[:, None] * (0.3 + np.array([[0.0], [0.3]]) * left))
    middle = successes[:, 8]
    decided = np.stack([sizes - middle, middle], axis=1)[:, None] * [[0.5], [0.5]]
    changes = successes - middle[:, None]
    changed = np.stack([changes[:, 7::-1], changes[:, 9:]])[:, None]
    sums = PrefixSums(8, 13.0 * prefix_norm(8))
    rates = Rates.of("demographic_parity")
    exact = ReleasedPath(
        rates, AROUND_ONE, decided, changed, np.zeros((2, 8)), 10.0, sums.stds, np.zeros(8),
        shared=0.5, start=AROUND_ONE.tolist().index(start),
        direction=rates.direction(decided.sum(axis=2)),
    )  # fmt: skip
    counts = np.diff(changed, axis=-1, prepend=0.0).astype(np.int64)
    noise, kept, over = NoiseSource(4), 0, 0
    for _ in range(400):
        drawn = decided + noise.gaussian(decided.shape, 10.0), sums.release(counts, noise)
        drawn = (
            drawn[0] + (decided - drawn[0]).mean(axis=0),
            drawn[1] + (changed - drawn[1]).mean(axis=2, keepdims=True),
        )
        point, reached = replace(exact, decided=drawn[0], changed=drawn[1]).choose(tolerance)
        kept += reached <= tolerance
        over += reached <= tolerance < exact.gaps[point]
    assert (kept > 60) == (exact.gaps[exact.start] < tolerance)
    assert over <= 0.1 * 400 + 3 * (0.09 * 400) ** 0.5


@pytest.mark.slow
@pytest.mark.parametrize("notion", ["accuracy_parity", "equal_opportunity"])
def test_standard_errors_are_those_of_the_noise(notion: str) -> None:
    X, y, groups = two_groups(8000)
    model = without_noise(X, y, groups, notion=notion, tolerance=0.9, max_epochs=3)
    redrawn, noise = Redrawn(model, X, y, groups, 8.0), NoiseSource(1)
    # A deviation is known to 4 %.
    tables = [redrawn.tables(noise) for _ in range(300)]
    drawn = [released_path(each, model.direction_, 0.7) for each in tables]
    at = slice(0, None, 25)
    spread = np.std([d.differences[0][0, at] for d in drawn], axis=0)
    stated = np.mean([d.differences[1][0, at] for d in drawn], axis=0)  # sizes are noisy
    assert np.allclose(spread, stated, rtol=0.15)
    spread = np.std([d.accuracies[at] for d in drawn], axis=0)
    assert np.allclose(spread, drawn[0].accuracy_stds[at], rtol=0.2)


@pytest.mark.parametrize("multipliers", [MULTIPLIERS, AROUND_ONE, around(-2.5), around(0.3)])
def test_a_row_flips_once_at_most(multipliers: np.ndarray) -> None:
    rng = np.random.default_rng(0)
    scores = np.round(rng.normal(size=(300, 2)), 1)  # zeros and ties among them
    lines = Envelopes(*(np.column_stack([np.zeros(300), part]) for part in scores.T))
    found = lines.changes(multipliers)
    table = np.array([scores[:, 0] - m * scores[:, 1] > 0.0 for m in multipliers]).T
    assert np.array_equal(table, np.array([lines.answers(m) == 1 for m in multipliers]).T)
    middle = len(multipliers) // 2
    assert (found.places >= 0).sum() > 50
    parts = found.places[:, 0], found.left[:, 0], found.entered[:, 0]
    for row, place, left, entered in zip(table, *parts, strict=True):
        expected = np.full(len(multipliers), row[middle])
        if place >= 0:
            side, first = divmod(place, middle)
            expected[slice(middle + 1 + first, None) if side else slice(0, middle - first)] ^= True
            assert (left, entered) == (row[middle], not row[middle])
        assert (row == expected).all()


def test_all_tolerances_are_one_release(rows, tmp_path, monkeypatch) -> None:
    X, y, groups = rows
    ledger = PrivacyLedger(tmp_path / "ledger.json")
    model = FairPathClassifier(tolerance=0.4, epsilon=8.0, ledger=ledger, **FAST)
    model.fit(X, y, sensitive_features=groups)
    charged = len(ledger.entries())
    monkeypatch.setattr(NoisyRelease, "__init__", None)  # no rows from here on
    monkeypatch.setattr(NoiseSource, "on_grid", None)
    other = model.at(0.6)
    assert other.privacy_ == model.privacy_
    assert other.module_ is model.module_
    assert (other.tolerance, model.tolerance) == (0.6, 0.4)
    assert len(ledger.entries()) == charged == 1
    first, second = model.certify(), other.certify()
    assert first.verify(model)
    assert second.verify(other)
    assert not first.verify(other)
    assert model.at(0.4).certify().verify(model)


def test_the_path_lists_what_at_answers(rows) -> None:
    X, y, groups = rows
    X = X.copy()
    X[:, 0] += 1.5 * (groups == "a")
    model = FairPathClassifier(tolerance=0.5, epsilon=20.0, **FAST)
    model.fit(X, y, sensitive_features=groups)
    path = model.path()
    assert list(path["tolerance"]) == sorted(path["tolerance"])
    assert path["multiplier"].iloc[-1] == 0.0
    assert {"rate of a", "rate of b"} <= set(path.columns)
    for tolerance, rows_of in path.groupby("tolerance"):
        if tolerance < 1.0:
            assert model.at(tolerance).multiplier_ == rows_of["multiplier"].iloc[-1]
    assert (model.decision_function(X) > 0).astype(int).tolist() == model.predict(X).tolist()
    same = model.at(0.5)
    assert np.array_equal(same.predict_proba(X), model.at(0.3).predict_proba(X))


def test_where_the_start_does_not_keep_to_it_the_model_says_so_and_stays_there(rows) -> None:
    X, y, groups = rows
    model = FairPathClassifier(tolerance=0.001, epsilon=1.0, **FAST)
    with pytest.warns(FairnessWarning, match="keep to 'tolerance' = 0.001: where it starts"):
        model.fit(X, y, sensitive_features=groups)
    path = model.path()
    assert model.multiplier_ == model.start_ == path["multiplier"].iloc[0]
    assert model.kept_tolerance_ == path["tolerance"].iloc[0] > 0.001
    with pytest.warns(FairnessWarning):
        model.at(0.002)


def test_an_empty_cell_is_private_and_raises_nothing() -> None:
    X, y, groups = two_groups(600)
    keep = ~((groups == "b") & (y == 1))
    model = FairPathClassifier(notion="equal_opportunity", tolerance=0.02, **FAST)
    with pytest.warns(FairnessWarning):
        model.fit(X[keep], y[keep], sensitive_features=groups[keep])
    assert np.isfinite(model.path().to_numpy()).all()
    assert np.isfinite(model.decision_function(X)).all()


@pytest.mark.parametrize("tolerance", [0.0, 1.0, -0.1, "small", math.nan])
def test_a_tolerance_outside_is_refused_before_the_charge(
    tolerance, rows, fitted, tmp_path
) -> None:
    X, y, groups = rows
    ledger = PrivacyLedger(tmp_path / "ledger.json")
    with pytest.raises(ValueError, match="'tolerance'.* must be"):
        FairPathClassifier(tolerance=tolerance, ledger=ledger, **FAST).fit(
            X, y, sensitive_features=groups
        )
    assert not ledger.entries()
    with pytest.raises(ValueError, match="'tolerance'.* must be"):
        fitted.at(tolerance)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"protects": "labels"}, "'protects'"),
        ({"protects": "sensitive_features", "dataset_size": 3000}, "'dataset_size'"),
        ({"notion": "parity"}, "'notion'"),
        ({"path_share": 1.0}, "'path_share'"),
        ({"net": NeuralNet(MLP, criterion=nn.CrossEntropyLoss)}, "BCEWithLogitsLoss"),
        ({"net": NeuralNet(MLP, nn.BCEWithLogitsLoss, module__n_outputs=3)}, "2 logits"),
        ({"epsilon": None, "noise_multiplier": 0.2, "path_share": 0.99}, "multipliers from 0.25"),
        ({"groups": ["a"]}, "two groups"),
    ],
    ids=str,
)
def test_bad_settings_are_refused_before_the_charge(change, message, rows, tmp_path) -> None:
    X, y, groups = rows
    ledger = PrivacyLedger(tmp_path / "ledger.json")
    with pytest.raises(ValueError, match=message):
        FairPathClassifier(**change, ledger=ledger, **FAST).fit(X, y, sensitive_features=groups)
    assert not ledger.entries()


def test_rows_of_other_groups_contribute_nothing(rows) -> None:
    X, y, groups = rows
    wild = np.where(np.arange(len(y)) < 400, "elsewhere", groups)
    settings = {"groups": ["a", "b"], "dataset_size": 3000, "tolerance": 0.9, "epsilon": 30.0}
    settings |= {"reproducible_noise": True, "random_state": 0, **FAST}
    known = wild != "elsewhere"
    X_wild = np.where(known[:, None], X, 1e6)
    some = FairPathClassifier(**settings).fit(X_wild, y, sensitive_features=wild)
    same = FairPathClassifier(**settings).fit(X[known], y[known], sensitive_features=wild[known])
    assert np.array_equal(some.changed_, same.changed_)
    assert np.array_equal(some.decision_function(X), same.decision_function(X))


def test_rows_of_no_declared_group_are_not_made_up_from_what_is_public(rows) -> None:
    X, y, groups = rows
    wild = np.where(np.arange(len(y)) < 400, "elsewhere", groups)
    settings = {"protects": "sensitive_features", "tolerance": 0.9, "epsilon": 50.0, **FAST}
    model = FairPathClassifier(groups=["a", "b"], **settings)
    model.fit(X, y, sensitive_features=wild)
    sizes = [(wild == group).sum() for group in "ab"]
    assert np.allclose(model.decided_.sum(axis=(1, 2)), sizes, atol=30)


def test_a_model_that_was_changed_has_no_path_to_stand_on(fitted) -> None:
    model = copy.deepcopy(fitted)
    assert model.at(0.5).multiplier_ == fitted.at(0.5).multiplier_
    with torch.no_grad():
        next(model.module_.parameters()).add_(1.0)
    with pytest.raises(ValueError, match="was changed after fit"):
        model.at(0.5)


def test_certificates_of_a_path_hold_together(fitted) -> None:
    model = fitted
    held = two_groups(2000, seed=5)
    certificates = model.certify_path(
        held[0], held[1], sensitive_features=held[2], tolerances=(0.3, 0.6), holdout="public"
    )
    alone = model.at(0.6).certify(held[0], held[1], sensitive_features=held[2], holdout="public")
    assert list(certificates) == [0.3, 0.6]
    # The error is shared, so each bound is wider than one alone.
    assert certificates[0.6].fairness[0].bound > alone.fairness[0].bound
    assert certificates[0.6].fairness[0].estimate == alone.fairness[0].estimate
    assert certificates[0.3].verify(model.at(0.3))


@pytest.mark.parametrize("tolerances", [0.1, [], "0.1", ["0.1"], [0.1, 2.0], None], ids=repr)
def test_tolerances_of_another_form_are_refused(fitted, rows, tolerances) -> None:
    X, y, groups = rows
    with pytest.raises(ValueError, match="'tolerances?' must be a"):
        fitted.certify_path(
            X, y, sensitive_features=groups, tolerances=tolerances, holdout="public"
        )


def test_the_picture_shows_the_point_in_use(rows, fitted) -> None:
    pytest.importorskip("matplotlib")
    X, y, groups = rows
    model = fitted.at(0.5)
    proofs = model.certify_path(
        X, y, sensitive_features=groups, tolerances=(0.4,), holdout="public"
    )
    display = model.plot_path(certificates=proofs)
    used = display.ax_.lines[1].get_xydata()
    path = model.path()
    row = path[path["multiplier"] == model.multiplier_].iloc[0]
    assert used[0].tolist() == [row["tolerance"], row["accuracy"]]
    assert row["tolerance"] <= model.kept_tolerance_ == model.tolerance
    assert display.ax_.get_xlabel() == "gap"


# -- several multipliers, the attribute alone, and searches -------------------------------


def three_groups(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    X, y, groups = two_groups(n)
    groups = np.where(np.random.default_rng(1).random(n) < 0.3, "c", groups)
    X[:, 0] += 1.0 * (groups == "a") - 0.5 * (groups == "c")
    X[:, 2] += 1.5 * (groups == "a")
    X[:, 3] += 1.5 * (groups == "c")
    return X, y, groups


@pytest.mark.parametrize(
    "notion",
    ["demographic_parity", pytest.param("equalized_odds", marks=pytest.mark.slow)],
)
def test_three_groups_are_evened_out(notion: str) -> None:
    X, y, groups = three_groups(20_000)
    model = FairPathClassifier(
        notion=notion, tolerance=0.08, epsilon=20.0, random_state=0, max_epochs=15, progress=False
    )
    model.fit(X, y, sensitive_features=groups)
    assert model.groups_ == ("a", "b", "c")
    assert model.kept_tolerance_ <= 0.08
    path = model.path()
    assert path["gap"].iloc[-1] > 0.13
    held = three_groups(20_000)
    claim = model.certify(
        held[0], held[1], sensitive_features=held[2], notion=notion, holdout="public"
    ).fairness[0]
    assert claim.estimate < 0.09
    # Every release of the ascent is in the plan, and charged.
    steps = {s.blocks[0].name: s.steps for s in model.plan_.segments}
    assert steps["ascent"] > 1
    shorter = replace(model.plan_, segments=model.plan_.segments[:2] + model.plan_.segments[3:])
    assert epsilon(shorter) < 0.999 * model.privacy_.epsilon


def test_the_attribute_alone_is_protected_and_costs_less() -> None:
    X, y, groups = three_groups(4000)
    settings = {"tolerance": 0.15, "epsilon": 1.0, "random_state": 0, "progress": False}
    net = default_net().set_params(module__hidden_sizes=(), lr=0.02)
    model = FairPathClassifier(net, protects="sensitive_features", max_epochs=30, **settings)
    model.fit(X, y, sensitive_features=groups)
    assert model.privacy_.protects == "sensitive_features"
    assert model.privacy_.adjacency == "change-attribute"
    assert 0.99 < model.privacy_.epsilon <= 1.0
    assert model.kept_tolerance_ <= 0.15
    held = three_groups(20_000)
    # Among training rows it is below .15, but for the tables' noise.
    assert (
        model.certify(held[0], sensitive_features=held[2], holdout="public").fairness[0].estimate
        < 0.18
    )
    # What needs no group is known: all groups together, and who is decided about rightly.
    path = model._path_of(model.plan_)
    selected = model.decision_function(X) > 0.0
    right = np.interp(model.multiplier_, path.multipliers, path.accuracies)
    assert right == pytest.approx((selected == y).mean(), abs=1e-9)
    model.multiplier_ = 1.0
    together = np.histogram2d(y, model.decision_function(X) > 0.0, bins=2)[0]
    assert np.allclose(model.decided_.sum(axis=0), together)
    assert not path.accuracy_stds.any()
    names = [s.blocks[0].name for s in model.plan_.segments[2:]]
    assert names == ["decisions", "adjusted decisions", "path"]
    # The label's score is that of a fit without any noise.
    label = LogisticRegression().fit(X, y).predict_proba(X)[:, 1]
    assert np.abs(model.predict_proba(X)[:, 1] - label).max() < 0.1


def test_decisions_in_the_middle_carry_the_noise_that_is_charged() -> None:
    """What is released is the truth at multiplier 1 and noise of the planned size, no less."""
    X, y, groups = three_groups(1000)
    settings = {"protects": "sensitive_features", "tolerance": 0.9, **FAST}
    settings |= {"epsilon": None, "noise_multiplier": 1.5}
    net = default_net().set_params(module__hidden_sizes=(), lr=0.02)
    errors = []
    for _ in range(3):
        model = FairPathClassifier(net, notion="equalized_odds", **settings)
        model.fit(X, y, sensitive_features=groups)
        table = planned(model.plan_)["adjusted decisions"]
        model.multiplier_ = 1.0
        selected = model.decision_function(X) > 0.0
        true = np.array(
            [[[((groups == g) & (y == k) & (selected == d)).sum() for d in (0, 1)] for k in (0, 1)]
             for g in "abc"]
        )  # fmt: skip
        assert (true[..., 1].sum(axis=1) > 0).all()
        # Of three groups, whose sum is known, each has two thirds of a count's variance.
        errors.append((model.decided_ - true) / (table.multiplier(0) * (2.0 / 3.0) ** 0.5))
    assert 0.5 < np.std(errors) < 1.6
    others = tuple(s for s in model.plan_.segments if s != table)
    assert epsilon(replace(model.plan_, segments=others)) < 0.95 * epsilon(model.plan_)


def test_rows_of_undeclared_labels_are_in_no_public_sum() -> None:
    X, y, groups = three_groups(1000)
    settings = {"protects": "sensitive_features", "epsilon": 50.0, "tolerance": 0.9}
    model = FairPathClassifier(classes=(0, 1), **settings, **FAST)
    labels = np.where(np.arange(len(y)) < 400, 7, y)
    model.fit(X, labels, sensitive_features=groups)
    assert model.decided_.sum() == pytest.approx(600)  # all together are known
    right = model._path_of(model.plan_).accuracies[0]  # without a constraint
    assert right == pytest.approx(((model.predict_proba(X)[400:, 1] > 0.5) == y[400:]).mean())


class Backwards(nn.Module):
    """Defines its output layer first."""

    def __init__(self, n_features: int, n_outputs: int = 2) -> None:
        super().__init__()
        self.out = nn.Linear(5, n_outputs)
        self.body = nn.Linear(n_features, 5)

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        return self.out(torch.relu(self.body(X)))


class WithoutBias(nn.Module):
    def __init__(self, n_features: int, n_outputs: int = 2) -> None:
        super().__init__()
        self.head = nn.Linear(n_features, n_outputs, bias=False)

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        return self.head(X)


@pytest.mark.parametrize("module", [Backwards, WithoutBias])
def test_where_the_table_has_no_head_to_write_to_nothing_is_charged(module, rows, tmp_path) -> None:
    X, y, groups = rows
    ledger = PrivacyLedger(tmp_path / "l.db", "rows")
    net = default_net().set_params(module=module)
    with pytest.raises(ValueError, match="must be those of a torch.nn.Linear with a bias"):
        FairPathClassifier(net, protects="sensitive_features", ledger=ledger, **FAST).fit(
            X, y, sensitive_features=groups
        )
    assert ledger.entries() == ()


@pytest.mark.parametrize("std", [0.0, 5.0])
def test_a_softmax_from_sums_is_the_most_likely_one(std: float) -> None:
    rng = np.random.default_rng(0)
    features = np.column_stack([rng.normal(size=(6000, 3)), np.ones(6000)])
    true = np.array([[1.0, -1.0, 0.0, 0.5], [0.0, 1.0, 1.0, -0.5]])
    logits = np.column_stack([np.zeros(6000), features @ true.T])
    groups = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    sums = np.array([features[groups == g].sum(axis=0) for g in range(3)])
    noisy = sums + std * rng.normal(size=sums.shape)
    found = _softmax_from_sums(features, np.ones(6000), noisy, 1e-3)
    assert np.abs(found - true).max() < 0.15
    if std == 0.0:
        model = LogisticRegression(C=1e4, fit_intercept=False, tol=1e-8).fit(features, groups)
        assert np.allclose(found, model.coef_[1:] - model.coef_[:1], atol=2e-3)


def test_a_record_adds_to_the_sums_no_more_than_its_bound(rows, monkeypatch) -> None:
    """What another group moves in the one table that sees it, against what is charged."""
    X, y, groups = rows
    seen: list[torch.Tensor] = []
    noises: list[torch.Tensor] = []
    honest = NoisyRelease._noisy

    def watched(self, total, std):
        seen.append(total.clone())
        released = honest(self, total, std)
        noises.append((released - total) / self.meter.plan.segments[1].multiplier(0))
        return released

    monkeypatch.setattr(NoisyRelease, "_noisy", watched)
    settings = {"tolerance": 0.9, "random_state": 0, "reproducible_noise": True, **FAST}
    other = np.where(np.arange(len(y)) == 7, np.where(groups == "a", "b", "a"), groups)
    for who in (groups, other):
        model = FairPathClassifier(protects="sensitive_features", epsilon=5.0, **settings)
        model.fit(X, y, sensitive_features=who)
    first, second = seen
    assert 0.6 < torch.cat(noises).std() < 1.6
    # Out of one cell and into another: both directions are charged, of all tables.
    alone = replace(model.plan_, adjacency="zero-out")
    assert epsilon(model.plan_) > 1.3 * epsilon(alone)
    # Out of one group's block, into the other's: each by at most 1, and not by nearly nothing.
    for block in (first - second).reshape(2, -1):
        assert 0.2 < block.norm() <= 1.0


def test_a_specification_of_tolerances_pays_for_one_fit() -> None:
    X, y, groups = two_groups(6000)
    model = make_pipeline(FunctionTransformer(), FairPathClassifier(max_epochs=3))
    grid = {"fairpathclassifier__tolerance": [0.2, 0.4, 0.8]}
    fitted: list[float] = []
    with pytest.MonkeyPatch.context() as patch:
        honest = FairPathClassifier._train
        patch.setattr(
            FairPathClassifier,
            "_train",
            lambda self, run: (fitted.append(epsilon(run.plan)), honest(self, run))[1],
        )
        answer = specify(model, grid, X, y, sensitive_features=groups, epsilon=4.0, tolerance=0.9)
        assert answer.verify()
    assert len(fitted) == 1
    assert 3.9 < fitted[0] <= 4.0
    stood = [attempt.model[-1].tolerance for attempt in answer.attempts]
    assert stood == [0.2, 0.4, 0.8]
    multipliers = [abs(attempt.model[-1].multiplier_) for attempt in answer.attempts]
    assert multipliers == sorted(multipliers, reverse=True)
    assert answer.privacy.epsilon <= 4.0


@pytest.mark.slow
def test_searches_over_a_path() -> None:
    X, y, groups = two_groups(3000)
    model = FairPathClassifier(tolerance=0.9, epsilon=8.0, **FAST)
    plain = GridSearchCV(model, {"max_grad_norm": [0.5, 2.0]}, cv=2)
    plain.fit(X, y, sensitive_features=groups)
    assert plain.best_estimator_.start_ in MULTIPLIERS
    private = PrivateSearchCV(
        model, {"max_grad_norm": [0.5, 2.0]}, epsilon=8.0, delta=1e-5, n_iter=2
    )
    private.fit(X, y, sensitive_features=groups)
    assert private.privacy_.epsilon <= 8.0
    assert set(private.predict(X)) <= {0, 1}


@pytest.mark.parametrize("protects", ["record", "sensitive_features"])
def test_a_share_too_small_for_the_tables_is_refused_before_the_charge(protects, tmp_path) -> None:
    ledger = PrivacyLedger(tmp_path / "ledger.db")
    X, y, groups = two_groups(300)
    model = FairPathClassifier(path_share=1e-18, protects=protects, ledger=ledger, **FAST)
    with pytest.raises(ValueError, match="'path_share' = 1e-18 leaves so little"):
        model.fit(X, y, sensitive_features=groups)
    assert not ledger.entries()
