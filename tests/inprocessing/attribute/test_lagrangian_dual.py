"""Lagrangian dual learning: what is secret, what is public, and what the multipliers do."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from skfairdp import LagrangianDualClassifier, certify
from skfairdp.engine.clipping.clippers import make_clipper
from skfairdp.engine.clipping.fused import FusedClipper
from skfairdp.engine.modules import MLP
from skfairdp.engine.objectives import objective_for
from skfairdp.engine.optimizers import flatten
from skfairdp.engine.public_features import PublicBatch, PublicFeatures
from skfairdp.engine.randomness import OwnDraws
from skfairdp.engine.release import NoisyRelease, Rows
from skfairdp.engine.row_blocks import block_rows
from skfairdp.exceptions import PrivacyWarning
from skfairdp.inprocessing.rates.constraints import RateConstraints
from skfairdp.inprocessing.rates.objective import LossOrRates
from skfairdp.metrics.gaps import group_gap
from skfairdp.privacy import epsilon
from skfairdp.privacy.noise import NoiseSource
from skfairdp.privacy.plan import Block, Segment
from skfairdp.privacy.streams import stream_of
from skfairdp.records.sampling import Batch, PoissonSampler
from tests.common.roster import people
from tests.privacy.oracle import oracle_change_epsilon
from tests.privacy.plans import empty_plan, unlimited

FAST: dict[str, Any] = {"max_epochs": 2, "warmup_epochs": 1, "progress": False}
REPEATABLE = {"reproducible_noise": True, "random_state": 0}


def fit(member: Any = None, n: int = 300, **parameters: Any) -> LagrangianDualClassifier:
    X, y, groups = people(n)
    model = LagrangianDualClassifier(**FAST | parameters)
    return model.fit(X, y, sensitive_features=groups if member is None else member)


@pytest.mark.parametrize("dual", ["steps", "epochs"])
def test_epsilon_is_that_of_the_product(dual: str) -> None:
    model = fit(dual=dual)
    privacy = certify(model).privacy
    assert (privacy.protects, privacy.adjacency) == ("sensitive_features", "change-attribute")
    assert 0.97 <= privacy.epsilon <= 1.0
    assert privacy.epsilon == pytest.approx(
        oracle_change_epsilon(model.plan_, model.delta), rel=4e-3
    )
    # Declining to disclose costs less; the certificate prints the product's figure.
    assert epsilon(model.plan_, adjacency="add-remove") < privacy.epsilon
    assert not privacy.satisfies(epsilon=5.0, protects="record")


def test_the_certificate_says_what_is_not_protected() -> None:
    text = str(certify(fit()))
    assert (
        "the sensitive attribute only; features and labels have no protection, and a feature that "
        "predicts the attribute reveals it" in text
    )


@pytest.mark.parametrize("dual", ["steps", "epochs"])
def test_the_plan_knows_no_group_size(dual: str) -> None:
    X, y, groups = people()
    other = np.where(np.arange(300) < 40, "b", groups)
    missing = np.where(np.arange(300) < 40, None, groups)
    settings = {"epsilon": None, "noise_multiplier": 2.0, "dual": dual}
    plans = [
        LagrangianDualClassifier(**FAST | settings).fit(X, y, sensitive_features=g).plan_
        for g in (groups, other, missing)
    ]
    assert plans[0] == plans[1] == plans[2]


def test_every_group_has_a_block_of_its_own() -> None:
    plan = fit(noise_multiplier=2.0, epsilon=None).plan_
    assert plan.cells == ("a", "b")
    warmup, constrained = plan.segments
    assert warmup.blocks == ()
    for cell in (0, 1):
        assert constrained.multiplier(cell) == pytest.approx(2.0)
        assert math.isinf(warmup.multiplier(cell))


def test_public_rows_know_no_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their batches and gradients are the same whatever the groups are."""
    seen: list[tuple] = []
    honest = PublicFeatures.__init__

    def spy(self: PublicFeatures, X: Any, targets: tuple, *rest: Any) -> None:
        seen.append(targets)
        assert rest[-1] == (4,)  # 2 groups x 2 labels: the cell of nobody
        honest(self, X, targets, *rest)

    monkeypatch.setattr(PublicFeatures, "__init__", spy)
    X, y, groups = people()
    for g in (groups, groups[::-1].copy()):
        LagrangianDualClassifier(**FAST).fit(X, y, sensitive_features=g)
    first, second = seen
    assert len(first) == len(second) == 1
    assert torch.equal(first[0], second[0])


def test_blocks_that_public_rows_join_were_rehearsed(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    rehearsed: list[int] = []
    rows_of_block, train = FusedClipper._rows_of_block, LagrangianDualClassifier._train

    def spy(self: FusedClipper, rows: int) -> int:
        seen.append(rows)
        return rows_of_block(self, rows)

    def begins(self: LagrangianDualClassifier, run: Any) -> None:
        rehearsed.extend(seen)
        seen.clear()
        train(self, run)

    monkeypatch.setattr(FusedClipper, "_rows_of_block", spy)
    monkeypatch.setattr(LagrangianDualClassifier, "_train", begins)
    fit(n=300, batch_size=100, loss_batch_size=75, warmup_epochs=0)
    assert set(seen) == {block_rows(100, 75)}
    assert set(seen) < set(rehearsed)


def test_the_mean_of_public_rows_is_the_same_beside_any_batch() -> None:
    """Bit by bit: the secret batch does not reach what is released without noise."""
    X, y, groups = people()
    module = MLP(X.shape[1])
    constraints = RateConstraints("demographic_parity", [0, 1], 2, 0.0, against="population")
    objective = LossOrRates(objective_for(torch.nn.BCEWithLogitsLoss()), constraints, 1.0)
    clipper = make_clipper(module, flatten(module), objective)
    codes = (groups == "b").astype(np.int64)
    labels = (y == "yes").astype(np.int64)
    targets = (torch.from_numpy(labels).float(), torch.from_numpy(2 * codes + labels))
    rows = Rows(torch.from_numpy(X).float(), targets, codes)
    release = NoisyRelease(rows, empty_plan(2), clipper, NoiseSource())
    block = Block(name="gradient", max_norm=1.0, weights=(1.0, 1.0), noise_std=1.0)
    segment = Segment(steps=1, rates=(0.2, 0.2), expected_sizes=(30.0, 30.0), blocks=(block,))
    public = PublicBatch(np.arange(40, 57), (objective.nobody,))
    means = set()
    for size in (0, 1, 7, 30, 63, 200):
        batch = Batch(np.arange(size), (size, 0))
        _, mean, _ = release._gradient_sum(segment, batch, (1.0, 1.0), public)
        assert mean is not None
        means.add(mean.numpy().tobytes())
    assert len(means) == 1


@pytest.mark.slow
def test_the_noisy_batch_is_independent_of_the_loss_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shares of rows in both batches are the product of the shares in each.

    1,000 steps over 300 rows: the mean over rows of the covariance of the two memberships has
    standard deviation below .25 / sqrt(1000 * 300) = 5e-4; 6 of them are allowed.
    """
    secret: list[np.ndarray] = []
    public: list[np.ndarray] = []
    draw, batch_of = PoissonSampler.draw, PublicFeatures.batch

    def spy_draw(self: PoissonSampler, rates: tuple[float, ...]) -> Any:
        batch = draw(self, rates)
        secret.append(np.bincount(batch.rows, minlength=300))
        return batch

    def spy_batch(self: PublicFeatures, size: int) -> PublicBatch:
        result = batch_of(self, size)
        public.append(np.bincount(result.rows, minlength=300))
        return result

    monkeypatch.setattr(PoissonSampler, "draw", spy_draw)
    monkeypatch.setattr(PublicFeatures, "batch", spy_batch)
    X, y, groups = people()
    LagrangianDualClassifier(
        epsilon=None,
        noise_multiplier=5.0,
        batch_size=75,
        loss_batch_size=75,
        warmup_epochs=0,
        max_epochs=250,
        progress=False,
    ).fit(X, y, sensitive_features=groups)
    a, b = np.array(secret, dtype=float), np.array(public, dtype=float)
    assert a.shape == b.shape == (1000, 300)
    covariance = ((a - a.mean(0)) * (b - b.mean(0))).mean()
    assert abs(covariance) < 6 * 5e-4
    assert abs((a * a).mean() - a.mean() ** 2) > 0.1  # the same statistic of equal batches


@pytest.mark.parametrize("value", [None, np.nan])
def test_missing_attributes_contribute_to_the_loss_alone(value: object) -> None:
    some = people()[2].astype(object)
    some[:120] = value
    model = fit(some)
    assert model.groups_ == ("a", "b")
    assert model.privacy_.epsilon <= 1.0
    assert any("declines to disclose" in text for text in model.privacy_.assumptions)


def test_rows_without_an_attribute_are_never_in_a_noisy_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawn: list[np.ndarray] = []
    draw = PoissonSampler.draw

    def spy(self: PoissonSampler, rates: tuple[float, ...]) -> Any:
        batch = draw(self, rates)
        drawn.append(batch.rows)
        return batch

    monkeypatch.setattr(PoissonSampler, "draw", spy)
    some = people()[2].astype(object)
    some[:120] = None
    fit(some)
    assert np.concatenate(drawn).min() >= 120


def test_an_attribute_that_is_missing_for_everybody_is_refused() -> None:
    with pytest.raises(ValueError, match="at least two groups") as caught:
        fit(np.full(300, None))
    assert "Without known attributes" in str(caught.value)
    # With declared groups, whether anybody disclosed is itself protected.
    assert fit(np.full(300, None), groups=["a", "b"]).groups_ == ("a", "b")


def test_rows_of_undeclared_labels_are_left_out() -> None:
    X, y, groups = people()
    wild = np.where(np.arange(300) < 30, "perhaps", y)
    settings = FAST | REPEATABLE | {"classes": ["no", "yes"]}
    with_them = LagrangianDualClassifier(**settings).fit(X, wild, sensitive_features=groups)
    alone = LagrangianDualClassifier(**settings)
    alone.fit(X[30:], y[30:], sensitive_features=groups[30:])
    assert np.array_equal(with_them.predict_proba(X), alone.predict_proba(X))


def test_masks_of_the_loss_do_not_depend_on_the_secret_batch() -> None:
    """Both would draw from one stream, which the secret batch moves by its size."""
    module = torch.nn.Sequential(
        torch.nn.Linear(3, 4), torch.nn.Dropout(0.5), torch.nn.Linear(4, 1)
    )
    flat = flatten(module)
    clipper = make_clipper(module, flat, objective_for(torch.nn.BCEWithLogitsLoss()))
    X, y = torch.ones(20, 3), torch.ones(20)
    gradients = []
    for moved in (1, 2):
        with OwnDraws(np.random.default_rng(0)):
            torch.rand(moved)
            gradients.append(PublicFeatures(X, (y,), clipper, bytes(32)).gradient(20).clone())
    assert torch.equal(*gradients)


def test_what_is_left_of_an_order_of_public_rows_is_left_out() -> None:
    X, y, unused = torch.zeros(5, 1), torch.zeros(5), None
    public = PublicFeatures(X, (y,), unused, bytes(32))  # type: ignore[arg-type]
    drawn = [public.batch(2).rows for _ in range(3)]
    orders = stream_of(bytes(32))
    one, other = orders.permutation(5), orders.permutation(5)
    assert np.array_equal(drawn, [one[:2], one[2:4], other[:2]])


@pytest.mark.parametrize("loss", [torch.nn.BCEWithLogitsLoss(), torch.nn.CrossEntropyLoss()])
def test_a_shared_pass_gives_the_sums_of_two(loss: torch.nn.Module) -> None:
    """Public rows join the noisy sum unclipped, with their loss; the table is the batch's."""
    torch.manual_seed(0)
    binary = isinstance(loss, torch.nn.BCEWithLogitsLoss)
    module = torch.nn.Sequential(
        torch.nn.Linear(4, 5), torch.nn.Tanh(), torch.nn.Linear(5, 1 if binary else 2)
    )
    flat, base = flatten(module), objective_for(loss)
    X, y, groups = people()
    codes = (groups == "b").astype(np.int64)
    labels = torch.from_numpy((y == "yes").astype(np.int64))
    target = labels.float() if binary else labels
    constraints = RateConstraints("equalized_odds", ["no", "yes"], 2, 0.0, against="population")
    objective = LossOrRates(base, constraints, 1.0)
    objective.set_coefficients(np.arange(8.0).reshape(2, 2, 2) ** 2, flat.vector)
    cells = torch.from_numpy(codes) * 2 + labels
    rows = Rows(torch.from_numpy(X).float(), (target, cells), codes)
    clipper = make_clipper(module, flat, objective)
    weights = (0.01, 0.02)
    blocks = (
        Block(name="gradient", max_norm=0.05, weights=weights, noise_std=0.0),
        Block(name="table", max_norm=1.0, weights=weights, noise_std=0.0),
    )
    segment = Segment(steps=1, rates=(0.3, 0.3), expected_sizes=(40.0, 40.0), blocks=blocks)
    sums = []
    for joined in (True, False):
        plan = empty_plan(2, adjacency="change-attribute")
        release = unlimited(NoisyRelease(rows, plan, clipper, NoiseSource(0)))
        public = release.public_rows(make_clipper(module, flat, base), (objective.nobody,))
        assert release.joins
        apart = 0.0 if joined else public.gradient(20).clone()
        gradient, table = release.gradient_and_statistic(
            segment,
            objective.statistic,
            cell_weights=np.array([2.0, 0.5]),
            public=public.batch(20) if joined else None,
        )
        sums.append((gradient + apart, table))
    (joint, table), (separate, other_table) = sums
    assert torch.allclose(joint, separate, rtol=1e-4, atol=1e-6)
    assert joint.norm() > 0.1
    assert torch.equal(table, other_table)


@cache
def without_noise(**settings: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Labels and groups of skewed rows, and what a model that they trained answers."""
    X, y, groups = people(1200)
    skewed = X + 1.2 * (groups == "a")[:, None] * np.array([1.0, 0.0, 0.0, 1.0])
    settings = {"max_multiplier": 4.0, "epsilon": math.inf, **settings}
    with pytest.warns(PrivacyWarning, match="epsilon=inf"):
        model = LagrangianDualClassifier(
            max_epochs=20, warmup_epochs=5, progress=False, random_state=0, **settings
        ).fit(skewed, y, sensitive_features=groups)
    assert model.privacy_ is None
    return y, groups, model.predict(skewed)


@pytest.mark.parametrize(
    ("notion", "dual"),
    [
        ("demographic_parity", "steps"),
        pytest.param("equalized_odds", "epochs", marks=pytest.mark.slow),
        pytest.param("accuracy_parity", "steps", marks=pytest.mark.slow),
        pytest.param("demographic_parity", "epochs", marks=pytest.mark.slow),
        pytest.param("equalized_odds", "steps", marks=pytest.mark.slow),
        pytest.param("accuracy_parity", "epochs", marks=pytest.mark.slow),
    ],
)
def test_gaps_shrink_without_noise(notion: str, dual: str) -> None:
    """F-LD: the same loop, epsilon=inf."""
    # 20 updates in all, or 8 an epoch
    fair = without_noise(notion=notion, dual=dual, dual_rate=0.2 if dual == "steps" else 1.0)
    plain = without_noise(max_multiplier=1e-9)  # which leaves no notion any weight
    gaps = [
        group_gap(y, answers, sensitive_features=groups, notion=notion)
        for y, groups, answers in (plain, fair)
    ]
    assert gaps[1] < max(0.6 * gaps[0], 0.05)


def test_three_groups_and_three_classes_train() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    y = np.digitize(X[:, 0], [-0.5, 0.5])
    groups = rng.integers(0, 3, 400)
    model = LagrangianDualClassifier(notion="equalized_odds", **FAST)
    model.fit(X, y, sensitive_features=groups)
    assert model.predict_proba(X).shape == (400, 3)
    assert model.privacy_.epsilon <= 1.0


@pytest.mark.parametrize(
    "wrong",
    [
        {"notion": "fairness"},
        {"tolerance": 1.0},
        {"dual": "weeks"},
        {"max_constraint_norm": 0.0},
        {"histogram_share": 1.0},
        {"batch_size": 301},
    ],
    ids=str,
)
def test_bad_parameters_are_named(wrong: dict) -> None:
    (name,) = wrong
    with pytest.raises(ValueError, match=name):
        fit(**wrong)


def test_a_change_of_one_group_moves_two_blocks_by_the_clip_norm(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One batch of all rows, no noise: each block moves by at most max_norm / batch."""
    releases: list[tuple[np.ndarray, np.ndarray]] = []
    honest = NoisyRelease.gradient_and_statistic

    def per_block(self: NoisyRelease, segment: Any, statistic: Any, **options: Any) -> Any:
        unlimited(self)  # more is read here than was charged
        sums = []
        for cell in (0, 1):
            gradient, table = honest(self, segment, statistic, cell_weights=np.eye(2)[cell])
            sums.append(gradient.numpy())
        releases.append((np.stack(sums), table.numpy()))
        return honest(self, segment, statistic, **options)

    monkeypatch.setattr(NoisyRelease, "gradient_and_statistic", per_block)
    X, y, groups = people()
    changed = groups.copy()
    changed[7] = "b" if groups[7] == "a" else "a"
    settings = {"batch_size": 300, "max_epochs": 2, "max_multiplier": 5.0, "dual_rate": 1.0}
    for g in (groups, changed):
        with pytest.warns(PrivacyWarning):
            LagrangianDualClassifier(
                **FAST | REPEATABLE | settings, epsilon=math.inf, max_grad_norm=0.01
            ).fit(X, y, sensitive_features=g)
    half = len(releases) // 2
    (blocks, table), (other_blocks, other_table) = releases[0], releases[half]
    moved = np.linalg.norm(blocks - other_blocks, axis=1) * 300
    assert (moved <= 0.01 * (1 + 1e-6)).all()
    # But for the margin
    assert 2.0 * (1 - 2e-5) < np.abs(table - other_table).sum() * 300 <= 2.0 * (1 + 1e-6)
