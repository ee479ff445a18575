"""The optimal fair classifier is a threshold, and one released table says where to put it."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from scipy.optimize import linprog
from skorch import NeuralNet
from torch import nn

from skfairdp import FairPathClassifier, PrivacyLedger
from skfairdp.engine.modules import MLP
from skfairdp.engine.release import NoisyRelease
from skfairdp.exceptions import FairnessWarning, PrivacyWarning
from skfairdp.fairness.notions import NOTIONS
from skfairdp.inprocessing.fair_path.path import (
    MULTIPLIERS,
    N_FAMILIES,
    ReleasedPath,
    decisions,
    table_entries,
)
from skfairdp.inprocessing.fair_path.scores import ONE_MULTIPLIER, Rate, Scores, ScoresObjective
from skfairdp.privacy.mechanisms.prefix_sums import PrefixSums
from skfairdp.privacy.noise import NoiseSource
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


def exact_scores(p: np.ndarray, rate: Rate) -> tuple[np.ndarray, float]:
    """Scores of the points by the estimator's own module, fed with exact chances."""
    sizes = p.sum(axis=0)
    share = rate.trials[0] * sizes[:, 0] + rate.trials[1] * sizes[:, 1]
    share = float(share[1] / share.sum())
    chances = [p[..., 1].sum(axis=1) / p.sum(axis=(1, 2))]
    for labels in rate.heads:
        of_groups = p[..., list(labels)].sum(axis=2)
        chances.append(of_groups[:, 1] / of_groups.sum(axis=1))
    logits = torch.from_numpy(np.log(np.stack(chances, 1)) - np.log1p(-np.stack(chances, 1)))
    return Scores(nn.Identity(), rate, share)(logits).numpy(), share


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("notion", ONE_MULTIPLIER)
def test_every_point_of_the_path_is_optimal_for_its_own_gap(notion: str, seed: int) -> None:
    """The estimator's scores, bins and prefix sums, with a population in place of rows."""
    n = 10**6
    counts = 1 + np.round(population(seed, 30, 2, aware=False) * n).astype(int)
    p = counts / counts.sum()
    rate = Rate.of(notion)
    scores, share = exact_scores(p, rate)
    table = np.zeros((*N_FAMILIES, len(MULTIPLIERS)))
    for group, label in itertools.product((0, 1), (0, 1)):
        codes = np.full(30, group), np.full(30, label)
        entry = table_entries(scores, *codes)
        np.add.at(table.reshape(-1), entry[entry >= 0], counts[entry >= 0, group, label])
    sizes = counts.sum(axis=0).astype(float)
    stds = np.zeros(len(MULTIPLIERS))
    path = ReleasedPath(rate, sizes, table.cumsum(axis=-1), 0.0, stds)
    assert path.rate.share_of(sizes) == pytest.approx(share)
    slopes, constants = rates_of(p, notion)
    for j in range(0, len(MULTIPLIERS), 60):
        h = decisions(scores, MULTIPLIERS[j]) > 0.0
        accuracy = p[h, :, 1].sum() + p[~h, :, 0].sum()
        rates = slopes[0] @ h + constants[0]
        assert np.allclose(path.rates[:, j], rates)
        assert path.accuracies[j] == pytest.approx(accuracy)
        # A point maximises accuracy - multiplier * gap: optimal among all of its signed gap or
        # one beyond.
        gap = rates[1] - rates[0]
        towards = 1.0 if MULTIPLIERS[j] >= 0.0 else -1.0
        gain = p[..., 1].sum(axis=1) - 0.5 * p.sum(axis=(1, 2))
        A = towards * (slopes[0, 1] - slopes[0, 0])
        b = towards * (gap - constants[0, 1] + constants[0, 0])
        best = linprog(-gain, A_ub=A[None], b_ub=[b + 1e-12], bounds=(0.0, 1.0))
        assert 2.0 * -best.fun + p[..., 0].sum() == pytest.approx(accuracy, abs=1e-7)


def test_a_notion_of_several_rates_has_no_path() -> None:
    with pytest.raises(ValueError, match="unpack"):
        Rate.of("equalized_odds")


# -- what the net learns ----------------------------------------------------------------


@pytest.mark.parametrize("notion", ONE_MULTIPLIER)
def test_the_gradient_is_the_losss(notion: str) -> None:
    rate = Rate.of(notion)
    objective = ScoresObjective(rate)
    rng = np.random.default_rng(0)
    output = torch.from_numpy(rng.normal(size=(8, rate.n_logits))).requires_grad_()
    targets = tuple(torch.from_numpy(rng.integers(0, 2, 8).astype(float)) for _ in range(2))
    (expected,) = torch.autograd.grad(objective(output, *targets).sum(), output)
    assert torch.allclose(objective.gradient(output.detach(), *targets), expected)


def test_equal_opportunity_learns_groups_from_positives_alone() -> None:
    objective = ScoresObjective(Rate.of("equal_opportunity"))
    output, label = torch.zeros(2, 2), torch.tensor([0.0, 1.0])
    gradient = objective.gradient(output, label, torch.ones(2))
    assert gradient[0, 1] == 0.0
    assert gradient[1, 1] == -0.5


# -- the estimator ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def rows():
    return two_groups(3000)


@pytest.mark.parametrize("notion", ONE_MULTIPLIER)
def test_without_noise_the_path_is_what_the_classifier_does(notion: str, rows) -> None:
    """Table, scores and predictions agree to the last row, at every multiplier."""
    X, y, groups = rows
    model = FairPathClassifier(notion=notion, tolerance=0.9, epsilon=math.inf, **FAST)
    with pytest.warns(PrivacyWarning):
        model.fit(X, y, sensitive_features=groups)
    path = model._path_of(model.plan_)
    for j in range(0, len(MULTIPLIERS), 40):
        model.multiplier_ = MULTIPLIERS[j]
        selected = model.predict(X) == 1
        for g, group in enumerate("ab"):
            for label in (0, 1):
                exact = (selected & (groups == group) & (y == label)).sum()
                assert path.selected[g, label, j] == exact
        assert path.accuracies[j] == pytest.approx((selected == y).mean())


@pytest.mark.slow
def test_a_tolerance_is_kept_in_nine_tables_of_ten() -> None:
    """Only the table's noise is drawn anew: what the margin is for."""
    X, y, groups = two_groups(20_000)
    X[:, 2] += 1.2 * (groups == "a")
    X[:, 0] += 1.0 * (groups == "a")
    settings = {"epsilon": math.inf, "random_state": 0, "progress": False}
    model = FairPathClassifier(tolerance=0.9, max_epochs=20, **settings)
    with pytest.warns(PrivacyWarning):
        model.fit(X, y, sensitive_features=groups)
    exact = model._path_of(model.plan_)
    assert abs(exact.gaps[len(MULTIPLIERS) // 2]) > 0.2
    histogram = np.diff(exact.sums, axis=-1, prepend=0.0).round().astype(np.int64)
    size_std, tolerance, noise = 60.0, 0.05, NoiseSource(3)
    table = PrefixSums(len(MULTIPLIERS), 20.0)
    gaps, kept = [], []
    for _ in range(400):
        sizes = exact.sizes + noise.gaussian((2, 2), size_std)
        sums = table.release(histogram, noise)
        noisy = ReleasedPath(exact.rate, sizes, sums, size_std, table.stds)
        point, reached = noisy.choose(tolerance)
        gaps.append(abs(exact.gaps[point]))
        kept.append(reached <= tolerance)
    assert np.mean(kept) > 0.95
    over = (np.array(gaps) > tolerance).mean()
    assert over <= 0.1 + 3 * (0.1 * 0.9 / 400) ** 0.5
    # And not by being far more careful than that.
    assert np.median(gaps) > tolerance / 3


def test_standard_errors_are_those_of_the_noise() -> None:
    X, y, groups = two_groups(8000)
    model = FairPathClassifier(notion="accuracy_parity", tolerance=0.9, epsilon=math.inf, **FAST)
    with pytest.warns(PrivacyWarning):
        model.fit(X, y, sensitive_features=groups)
    exact = model._path_of(model.plan_)
    histogram = np.diff(exact.sums, axis=-1, prepend=0.0).round().astype(np.int64)
    size_std, noise, table = 30.0, NoiseSource(1), PrefixSums(len(MULTIPLIERS), 20.0)
    drawn = [
        ReleasedPath(
            exact.rate,
            exact.sizes + noise.gaussian((2, 2), size_std),
            table.release(histogram, noise),
            size_std,
            table.stds,
        )
        for _ in range(300)  # a deviation is known to 4 %
    ]
    at = slice(0, None, 100)
    assert np.allclose(np.std([d.gaps[at] for d in drawn], axis=0), drawn[0].gap_stds[at], rtol=0.2)
    spread = np.std([d.accuracies[at] for d in drawn], axis=0)
    assert np.allclose(spread, drawn[0].accuracy_stds[at], rtol=0.2)


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


def test_what_no_point_keeps_is_said_and_the_smallest_gap_used(rows) -> None:
    X, y, groups = rows
    model = FairPathClassifier(tolerance=0.001, epsilon=1.0, **FAST)
    with pytest.warns(FairnessWarning, match="keeps to 'tolerance' = 0.001: the smallest gap"):
        model.fit(X, y, sensitive_features=groups)
    path = model.path()
    assert model.multiplier_ == path["multiplier"].iloc[0]
    assert path["gap"].iloc[0] == path["gap"].min()
    assert model.kept_tolerance_ > 0.001
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
def test_a_tolerance_outside_is_refused_before_the_charge(tolerance, rows, tmp_path) -> None:
    X, y, groups = rows
    ledger = PrivacyLedger(tmp_path / "ledger.json")
    with pytest.raises(ValueError, match="'tolerance'.* must be"):
        FairPathClassifier(tolerance=tolerance, ledger=ledger, **FAST).fit(
            X, y, sensitive_features=groups
        )
    assert not ledger.entries()
    model = FairPathClassifier(tolerance=0.9, epsilon=50.0, **FAST)
    model.fit(X, y, sensitive_features=groups)
    with pytest.raises(ValueError, match="'tolerance'.* must be"):
        model.at(tolerance)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"notion": "equalized_odds"}, "'notion'"),
        ({"notion": "parity"}, "'notion'"),
        ({"path_share": 1.0}, "'path_share'"),
        ({"net": NeuralNet(MLP, criterion=nn.CrossEntropyLoss)}, "BCEWithLogitsLoss"),
        ({"net": NeuralNet(MLP, nn.BCEWithLogitsLoss, module__n_outputs=3)}, "2 logits"),
        ({"epsilon": None, "noise_multiplier": 0.2, "path_share": 0.99}, "multipliers from 0.25"),
        ({"groups": ["a", "b", "c"]}, "two groups"),
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
    assert np.array_equal(some.table_, same.table_)
    assert np.array_equal(some.decision_function(X), same.decision_function(X))


def test_a_model_that_was_changed_has_no_path_to_stand_on(rows) -> None:
    X, y, groups = rows
    model = FairPathClassifier(tolerance=0.9, epsilon=30.0, **FAST)
    model.fit(X, y, sensitive_features=groups)
    with torch.no_grad():
        next(model.module_.parameters()).add_(1.0)
    with pytest.raises(ValueError, match="not as fit left it"):
        model.at(0.5)


def test_certificates_of_a_path_hold_together(rows) -> None:
    X, y, groups = rows
    model = FairPathClassifier(tolerance=0.5, epsilon=10.0, **FAST)
    model.fit(X, y, sensitive_features=groups)
    held = two_groups(2000, seed=5)
    certificates = model.certify_path(
        held[0], held[1], sensitive_features=held[2], tolerances=(0.3, 0.6)
    )
    alone = model.at(0.6).certify(held[0], held[1], sensitive_features=held[2])
    assert list(certificates) == [0.3, 0.6]
    # The error is shared, so each bound is wider than one alone.
    assert certificates[0.6].fairness[0].bound > alone.fairness[0].bound
    assert certificates[0.6].fairness[0].estimate == alone.fairness[0].estimate
    assert certificates[0.3].verify(model.at(0.3))


def test_the_picture_shows_the_point_in_use(rows) -> None:
    pytest.importorskip("matplotlib")
    X, y, groups = rows
    model = FairPathClassifier(tolerance=0.5, epsilon=10.0, **FAST)
    model.fit(X, y, sensitive_features=groups)
    proofs = model.certify_path(X, y, sensitive_features=groups, tolerances=(0.4,))
    display = model.plot_path(certificates=proofs)
    used = display.ax_.lines[1].get_xydata()
    path = model.path()
    row = path[path["multiplier"] == model.multiplier_].iloc[0]
    assert used[0].tolist() == [row["tolerance"], row["accuracy"]]
    assert row["tolerance"] == model.kept_tolerance_
    assert display.ax_.get_xlabel() == "gap"
