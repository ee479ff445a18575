"""DP-FERMI: the sum whose largest value is the dependence, its gradients, its loop."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from skfairdp import DPFermiClassifier
from skfairdp.engine.objectives import objective_for
from skfairdp.engine.release import NoisyRelease
from skfairdp.inprocessing.fermi_objective import DualMatrix, ErmiObjective
from skfairdp.privacy.accounting.plan_cost import epsilons
from skfairdp.privacy.sizes import Sizes
from tests.inprocessing.rows import two_groups
from tests.privacy.oracle import oracle_epsilon

REFERENCE = Sizes(("a", "b"), (7_500, 2_500), "add-remove")
LIKE = torch.zeros((), dtype=torch.float64)
LOSSES = {
    "one logit": (nn.BCEWithLogitsLoss(), 1, 2),
    "two logits": (nn.CrossEntropyLoss(), 2, 2),
    "four logits": (nn.CrossEntropyLoss(), 4, 4),
    "probabilities": (nn.NLLLoss(), 3, 3),
}
every_loss = pytest.mark.parametrize("loss", LOSSES)


class Problem:
    """Outputs of some people, a W, and the objective that follows it."""

    def __init__(self, loss="one logit", n=60, n_groups=3, n_strata=1, weight=1.7, seed=0):
        criterion, width, self.n_classes = LOSSES[loss]
        rng = np.random.default_rng(seed)
        self.base = objective_for(criterion)
        self.output = torch.from_numpy(rng.normal(size=(n, width)))
        if loss == "probabilities":
            self.output = torch.softmax(self.output, dim=1)
        self.labels = torch.from_numpy(rng.integers(self.n_classes, size=n))
        self.groups = rng.choice(n_groups, p=[0.5, 0.3, 0.2], size=n)
        strata = self.labels.numpy() if n_strata > 1 else np.zeros(n, dtype=int)
        self.cells = torch.from_numpy(self.groups * n_strata + strata)
        counts = np.bincount(self.cells.numpy(), minlength=n_groups * n_strata)
        counts = counts.reshape(n_groups, n_strata)
        self.shares = counts / counts.sum(axis=0)
        self.dual = DualMatrix(self.shares, self.n_classes, 100.0)
        self.dual.W = rng.normal(size=self.dual.W.shape)
        self.objective = ErmiObjective(self.base, n_groups, n_strata, self.n_classes, weight)
        self.objective.follow(self.dual, LIKE)
        if loss == "one logit":
            self.labels = self.labels.double()
        self.targets = (self.labels, self.cells)

    def soft(self):
        return self.base.scores(self.output).numpy()

    def psi(self, W):
        """psi of every record, as the published formula has it."""
        values = []
        for i, p in enumerate(self.soft()):
            group, stratum = divmod(int(self.cells[i]), self.shares.shape[1])
            w, indicator = W[stratum], np.eye(len(self.shares))[group]
            scale = np.diag(self.shares[:, stratum] ** -0.5)
            quadratic = np.trace(w @ np.diag(p) @ w.T)
            linear = np.trace(np.outer(p, indicator) @ scale @ w)
            values.append(-quadratic + 2 * linear - 1)
        return np.array(values)


@every_loss
@pytest.mark.parametrize("by_label", [False, True])
def test_the_penalty_of_a_record_is_psi_as_published(loss, by_label):
    n_strata = LOSSES[loss][2] if by_label else 1
    problem = Problem(loss, n_strata=n_strata)
    penalty = problem.objective(problem.output, *problem.targets) - problem.base(
        problem.output, problem.labels
    )
    # The constant -1 is left out: it has no gradient.
    np.testing.assert_allclose(penalty, 1.7 * (problem.psi(problem.dual.W) + 1), rtol=1e-9)


@every_loss
def test_gradient_by_the_output_is_that_of_finite_differences(loss):
    problem = Problem(loss)
    step = 1e-6
    output = problem.output.clone().requires_grad_()
    objective, targets = problem.objective, problem.targets
    (by_torch,) = torch.autograd.grad(objective(output, *targets).sum(), output)
    closed = objective.gradient(problem.output, *targets)
    if loss != "probabilities":
        torch.testing.assert_close(closed, by_torch)
    for column in range(problem.output.shape[1]):
        shift = torch.zeros_like(problem.output)
        shift[:, column] = step
        up, down = (objective(problem.output + s, *targets) for s in (shift, -shift))
        torch.testing.assert_close(
            by_torch[:, column], (up - down) / (2 * step), atol=1e-7, rtol=1e-6
        )


@every_loss
@pytest.mark.parametrize("by_label", [False, True])
def test_gradient_by_w_is_that_of_finite_differences(loss, by_label):
    problem = Problem(loss, n_strata=LOSSES[loss][2] if by_label else 1)
    statistic = problem.objective.statistic
    got = statistic.of(problem.output, *problem.targets).numpy()
    W, step = problem.dual.W, 1e-5
    assert got.shape == (60, statistic.size) == (60, W.size)
    for entry in range(W.size):
        shift = np.zeros(W.size)
        shift[entry] = step
        change = problem.psi(W + shift.reshape(W.shape)) - problem.psi(W - shift.reshape(W.shape))
        np.testing.assert_allclose(got[:, entry], change / (2 * step), atol=1e-8)


def best_matrix(joint):
    """W that maximises the mean of psi, from the joint law of group and prediction."""
    return joint / np.sqrt(joint.sum(axis=1, keepdims=True)) / joint.sum(axis=0)


def chi_square(joint):
    return (joint**2 / np.outer(joint.sum(axis=1), joint.sum(axis=0))).sum() - 1


@every_loss
def test_the_largest_value_over_w_is_the_chi_square_divergence(loss):
    problem = Problem(loss)
    joint = np.stack([problem.soft()[problem.groups == g].sum(axis=0) for g in range(3)]) / 60
    best = best_matrix(joint)
    assert problem.psi(best[None]).mean() == pytest.approx(chi_square(joint), rel=1e-9)
    rng = np.random.default_rng(1)
    for _ in range(50):  # concave: no other W does better
        other = best + 0.3 * rng.normal(size=best.shape)
        assert problem.psi(other[None]).mean() < chi_square(joint)


def test_ascent_finds_that_w():
    problem = Problem("four logits")
    statistic, dual = problem.objective.statistic, problem.dual
    for _ in range(3000):
        dual.ascend(statistic.of(problem.output, *problem.targets).mean(dim=0).numpy(), 0.3)
        problem.objective.follow(dual, LIKE)
    joint = np.stack([problem.soft()[problem.groups == g].sum(axis=0) for g in range(3)]) / 60
    np.testing.assert_allclose(dual.W[0], best_matrix(joint), atol=1e-6)


def test_under_equalized_odds_every_label_has_its_own_divergence():
    problem = Problem("two logits", n=200, n_strata=2)
    labels, expected, best = problem.labels.numpy(), 0.0, []
    for y in range(2):
        mine = labels == y
        joint = (
            np.stack([problem.soft()[mine & (problem.groups == g)].sum(axis=0) for g in range(3)])
            / mine.sum()
        )
        best.append(best_matrix(joint))
        expected += mine.mean() * chi_square(joint)
    assert problem.psi(np.stack(best)).mean() == pytest.approx(expected, rel=1e-9)


def test_w_starts_where_independence_has_it():
    shares = np.array([[0.7], [0.3]])
    dual = DualMatrix(shares, 2, 5.0)
    joint = shares @ np.array([[0.8, 0.2]])
    np.testing.assert_allclose(dual.W[0], best_matrix(joint))
    # Every prediction then costs the same: nothing is pushed anywhere.
    np.testing.assert_allclose(dual.coefficients(), 1.0)


def test_w_stays_in_its_ball():
    dual = DualMatrix(np.array([[0.7, 0.2], [0.3, 0.8]]), 3, 1.5)
    rng = np.random.default_rng(0)
    for _ in range(20):
        dual.ascend(rng.normal(size=dual.W.size) * 10, 1.0)
        assert (np.linalg.norm(dual.W, axis=(1, 2)) <= 1.5 * (1 + 1e-12)).all()


# -- plan and loop


def reference_plan(multiplier=1.0, sizes=REFERENCE, **changes):
    settings = dict(batch_size=100, max_epochs=10, delta=1e-5, dual_noise_ratio=1.0)
    return DPFermiClassifier(**{**settings, **changes})._plan(sizes, multiplier)


def test_both_gradients_of_a_batch_are_charged_as_one_query():
    plan = reference_plan()
    assert list(epsilons(plan).values()) == pytest.approx([4.4808] * 2, abs=5e-4)
    assert oracle_epsilon(plan, 1e-5) == pytest.approx(4.4808, rel=3e-3)


@pytest.mark.parametrize(
    ("given", "counts", "clip"), [("auto", (75, 25), 4.0), ("auto", (999, 1), 20.0), (3, (5, 5), 3)]
)
def test_clip_norm_of_the_dual_gradient(given, counts, clip):
    sizes = Sizes(("a", "b"), counts, "zero-out")
    plan = reference_plan(1.5, sizes, max_dual_grad_norm=given, batch_size=5)
    block = plan.segments[0].blocks[1]
    assert block.max_norm == pytest.approx(clip)
    assert block.multiplier(0) == pytest.approx(1.5)


@pytest.mark.parametrize("notion", ["demographic_parity", "equalized_odds"])
def test_no_record_moves_a_step_by_more_than_the_plan_says(notion, monkeypatch):
    """Both clips bind: the bound is met, and would not hold without them."""
    X, y, groups = two_groups(60)
    settings = dict(
        notion=notion, epsilon=float("inf"), batch_size=60, max_epochs=1, random_state=0,
        reproducible_noise=True, group_sizes={"a": 45, "b": 15}, max_grad_norm=0.1,
        max_dual_grad_norm=0.4, fairness_weight=5.0, delta=1e-3,
    )  # fmt: skip
    seen = []
    original = NoisyRelease.gradient_and_statistic

    def watched(self, segment, statistic, **options):
        seen.append(original(self, segment, statistic, **options))
        return seen[-1]

    monkeypatch.setattr(NoisyRelease, "gradient_and_statistic", watched)
    # What was bought before the step is released, and the same for both neighbours.
    table = np.array([18, 27, 9, 6])

    def bought(self, release, *_):
        self.meter.draw(release)
        return table

    monkeypatch.setattr(NoisyRelease, "counts", bought)

    def released(keep):
        seen.clear()
        with pytest.warns(Warning, match="epsilon=inf"):
            DPFermiClassifier(**settings).fit(X[keep], y[keep], sensitive_features=groups[keep])
        gradient, statistic = seen[0]
        return gradient.numpy().copy(), statistic.numpy()

    # Full batches: 60 of the declared 60 are expected, so that every row is drawn.
    full, met = released(np.arange(60)), np.zeros(2)
    for row in range(12):
        part = released(np.arange(60) != row)
        moved = np.array([np.linalg.norm(f - p) for f, p in zip(full, part, strict=True)])
        allowed = np.array([0.1, 0.4]) / 60
        assert (moved <= allowed * (1 + 1e-5)).all()
        met = np.maximum(met, moved / allowed)
    assert (met > 0.99).all()


def test_the_loop_does_what_the_plan_says(monkeypatch):
    X, y, groups = two_groups()
    seen = []
    original = NoisyRelease.gradient_and_statistic

    def watched(self, segment, statistic, **options):
        seen.append(segment)
        return original(self, segment, statistic, **options)

    monkeypatch.setattr(NoisyRelease, "gradient_and_statistic", watched)
    model = DPFermiClassifier(max_epochs=3).fit(X, y, sensitive_features=groups)
    assert seen == [model.plan_.segments[0]] * model.plan_.steps
    first, second = model.plan_.segments[0].blocks
    assert first.multiplier(0) == pytest.approx(model.noise_multiplier_)
    assert second.multiplier(0) == pytest.approx(5 * model.noise_multiplier_)
    assert model.dual_.shape == (1, 2, 2)
    assert np.linalg.norm(model.dual_) <= 5.0


def test_the_label_table_is_part_of_the_budget():
    X, y, groups = two_groups()
    model = DPFermiClassifier(notion="equalized_odds", label_counts_epsilon=0.2, max_epochs=2)
    model.fit(X, y, sensitive_features=groups)
    (price,) = model.plan_.counts
    assert (price.epsilon, price.releases) == (0.2, 1)
    assert model.privacy_.epsilon <= 1.0
    assert model.dual_.shape == (2, 2, 2)
    with pytest.raises(ValueError, match="'label_counts_epsilon' = 1 uses up"):
        model.set_params(label_counts_epsilon=1.0).fit(X, y, sensitive_features=groups)


@pytest.mark.slow
def test_a_larger_weight_narrows_the_gap():
    X, y, groups = two_groups(3000)
    X = np.column_stack([X, (groups == "b") + 0.1 * np.arange(3000) % 2])
    gap = {}
    for weight in (0.0, 8.0):
        model = DPFermiClassifier(fairness_weight=weight, epsilon=8.0, max_epochs=15)
        score = model.fit(X, y, sensitive_features=groups).predict_proba(X)[:, 1]
        gap[weight] = abs(score[groups == "a"].mean() - score[groups == "b"].mean())
    assert gap[0.0] > 0.2  # base rates are .6 and .3
    assert gap[8.0] < 0.5 * gap[0.0]


@pytest.mark.parametrize("notion", ["demographic_parity", "equalized_odds"])
def test_several_classes_and_groups(notion):
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=900)
    X = rng.normal(size=(900, 3)) + 2.5 * np.eye(3)[y]
    groups = np.array(["a", "b", "c"])[rng.integers(3, size=900)]
    model = DPFermiClassifier(notion=notion, epsilon=5.0)
    model.fit(X, y, sensitive_features=groups)
    # One answer for all is right for a third. Thirty fits gave .89 +- .03, at least .74: half is
    # eleven standard deviations below.
    assert (model.predict(X) == y).mean() > 0.5
    assert model.dual_.shape == (3 if notion == "equalized_odds" else 1, 3, 3)


def test_there_must_be_groups_to_be_independent_of():
    X, y, _ = two_groups(100)
    with pytest.raises(ValueError, match="at least two groups"):
        DPFermiClassifier().fit(X, y, sensitive_features=["a"] * 100)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("fairness_weight", -1.0),
        ("dual_noise_ratio", 0.0),
        ("max_dual_grad_norm", "large"),
        ("max_dual_norm", 0.0),
        ("dual_learning_rate", 0.0),
        ("notion", "equal_opportunity"),
    ],
)
def test_settings_out_of_range_are_named(setting, value):
    X, y, groups = two_groups(100)
    with pytest.raises(ValueError, match=setting):
        DPFermiClassifier(**{setting: value}).fit(X, y, sensitive_features=groups)
