"""One record more or less moves a computed sum by no more than the plan charges for it.

Sums are compared as they are computed, in floats, before the noise; the difference itself is
exact, because both sums are float64 numbers and fractions hold them.
"""

from __future__ import annotations

import math
import os
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.utils import check_random_state
from torch import nn

from skfairdp import DPSGDClassifier, PrivacyLedger, default_net
from skfairdp.engine import batch_sums as sums_module
from skfairdp.engine.clipping import norms
from skfairdp.engine.clipping.clippers import make_clipper
from skfairdp.engine.clipping.fused import FusedClipper
from skfairdp.engine.clipping.norms import refuse_unbounded_sums, row_capacity, sum_margin
from skfairdp.engine.modules import MLP, SmallCNN
from skfairdp.engine.moment_sums import MomentSums, l1_bounds, l2_bounds
from skfairdp.engine.nets import prepare_net
from skfairdp.engine.objectives import objective_for
from skfairdp.engine.optimizers import flatten
from skfairdp.engine.rehearsal import rehearse
from skfairdp.engine.release import NoisyRelease, Rows, Statistic
from skfairdp.engine.row_blocks import PairwiseSum
from skfairdp.privacy.noise import NoiseSource
from skfairdp.privacy.plan import Block, LaplaceSum, Plan, Segment
from tests.privacy.plans import empty_plan, unlimited

REHEARSES_ANEW = True
BINARY = nn.BCEWithLogitsLoss()


class Sine(nn.Module):
    """Goes record by record: no stack of layers."""

    def __init__(self, width: int, outputs: int) -> None:
        super().__init__()
        self.first = nn.Linear(width, 3)
        self.scale = nn.Parameter(torch.tensor(1.5))
        self.last = nn.Linear(3, outputs)

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        return self.last(torch.sin(self.first(X))) * self.scale


NETS = {
    "linear": lambda width, outputs: nn.Linear(width, outputs),
    "kinked": lambda width, outputs: MLP(width, outputs, (5, 4), nn.ReLU),
    "smooth": lambda width, outputs: MLP(width, outputs, (6,)),
    "by record": Sine,
    "without bias": lambda width, outputs: nn.Sequential(
        nn.Flatten(), nn.Linear(width, 4, bias=False), nn.GELU(), nn.Linear(4, outputs)
    ),
    "convolution": lambda width, outputs: SmallCNN((1, 4, width // 4), outputs, channels=(4, 4)),
}
CRITERIA = {
    "logit": (BINARY, 1),
    "classes": (nn.CrossEntropyLoss(), 3),
    "smoothed classes": (nn.CrossEntropyLoss(label_smoothing=0.1), 3),
}


def norm_above(difference: np.ndarray, bound: float) -> bool:
    """Whether a vector of float64 is longer than a float64 number, in exact arithmetic."""
    peak = float(np.abs(difference).max(initial=0.0))
    if peak < 0.5 * bound / math.sqrt(max(1, difference.size)):
        return False
    squares = sum(Fraction(float(value)) ** 2 for value in difference[difference != 0.0])
    return squares > Fraction(bound) ** 2


def moved(one: torch.Tensor, other: torch.Tensor) -> np.ndarray:
    """Difference of two sums, rounded by one part in 2**53 at most."""
    return (one - other).numpy()


class Door:
    """A release whose batch is every row of the cells that are in."""

    def __init__(self, module, criterion, X, y, codes, weights, max_norm):
        self.module, self.X, self.y, self.codes = module, X, y, codes
        self.flat = flatten(module)
        self.clipper = make_clipper(module, self.flat, objective_for(criterion))
        expected = tuple(float((codes == k).sum()) for k in range(len(weights)))
        block = Block(name="gradient", max_norm=max_norm, weights=tuple(weights), noise_std=0.0)
        self.segment = Segment(
            steps=1, rates=(1.0,) * len(weights), expected_sizes=expected, blocks=(block,)
        )

    def sum(self, without: int | None = None) -> torch.Tensor:
        """The released sum, without noise."""
        keep = np.arange(len(self.X)) != (-1 if without is None else without)
        rows = Rows(self.X[keep], (self.y[keep],), self.codes[keep])
        plan = empty_plan(len(self.segment.rates))
        release = unlimited(NoisyRelease(rows, plan, self.clipper, NoiseSource(0)))
        return release.gradient(self.segment).clone()

    def rehearse(self) -> None:
        """Let a rehearsal choose how products are formed, as before every fit."""
        plan = replace(empty_plan(len(self.segment.rates)), segments=(self.segment,))
        rehearse(self.module, self.clipper, self.X, (self.y,), plan)

    def bound(self, record: int) -> float:
        """What the plan charges for a record."""
        block = self.segment.blocks[0]
        return block.weights[self.codes[record]] * block.max_norm


def check(door: Door, records) -> None:
    full = door.sum()
    assert bool(full.isfinite().all())
    for record in records:
        assert not norm_above(moved(full, door.sum(record)), door.bound(record))


@st.composite
def doors(draw, largest: int) -> tuple[Door, list[int]]:
    """Nets, losses, sizes, magnitudes, weights and cells."""
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    n = draw(st.integers(1, largest))
    width = draw(st.sampled_from((4, 8, 36)))
    criterion, outputs = CRITERIA[draw(st.sampled_from(sorted(CRITERIA)))]
    torch.manual_seed(seed)
    module = NETS[draw(st.sampled_from(sorted(NETS)))](width, outputs)
    dtype = draw(st.sampled_from((torch.float32, torch.float32, torch.float64)))
    module = module.to(dtype)
    # Magnitudes of rows and weights: from subnormal to the largest, also within one batch.
    low, high = sorted(draw(st.tuples(st.integers(-44, 38), st.integers(-44, 38))))
    X = rng.normal(size=(n, width)) * 10.0 ** rng.uniform(low, high, size=(n, 1))
    if draw(st.booleans()):
        X[rng.integers(n)] = rng.choice([np.nan, np.inf, -np.inf, 0.0])
    with torch.no_grad():
        shrink = 10.0 ** draw(st.sampled_from((0.0, 0.0, -3.0, -20.0, 3.0)))
        for parameter in module.parameters():
            parameter.mul_(shrink)
    y = rng.integers(outputs if outputs > 1 else 2, size=n)
    cells = draw(st.integers(1, 4))
    weights = [draw(st.sampled_from((1.0, 0.3, 1e-3, 7.0, 1 / 3))) / n for _ in range(cells)]
    max_norm = 10.0 ** draw(st.floats(-45, 3))
    with np.errstate(over="ignore", under="ignore"):
        rows = torch.from_numpy(X).to(dtype)
    labels = torch.from_numpy(y)
    door = Door(
        module,
        criterion,
        rows,
        labels.to(dtype) if criterion is BINARY else labels,
        rng.integers(cells, size=n),
        weights,
        max_norm,
    )
    one_number = width < 36 and isinstance(module, SmallCNN)  # which its norm of groups refuses
    if draw(st.booleans()) and not one_number:
        door.rehearse()
    return door, rng.integers(n, size=3).tolist()


COMMON = dict(
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@settings(max_examples=40, **COMMON)
@given(doors(largest=70))
def test_a_record_moves_the_sum_by_its_bound_at_most(case):
    check(*case)


@pytest.mark.slow
@settings(max_examples=150, **COMMON)
@given(doors(largest=900))
def test_a_record_moves_a_sum_of_several_blocks_by_its_bound_at_most(case):
    check(*case)


# `SKFAIRDP_CASES=100000 pytest -m campaign -s tests/attacks/test_sums.py` tries as many as it says.
@pytest.mark.campaign
@pytest.mark.timeout(0)
@settings(max_examples=int(os.environ.get("SKFAIRDP_CASES", "20000")), **COMMON)
@given(doors(largest=400))
def test_campaign_of_sums(case):
    check(*case)


# Accumulation: many records that add the same, up to a power of two, then others that add less
# than half a unit in the last place each. One record less at the front, and the sum stays below
# the power of two, where what the others add is not lost.


def last_place(
    n: int, dtype: torch.dtype, bits: int, module: nn.Module | None = None
) -> tuple[Door, float]:
    """The construction at n records, for sums with a mantissa of some bits."""
    torch.manual_seed(1)
    module = MLP(1, 1, ()).to(dtype) if module is None else module
    w0, b0 = module.head.weight.item(), module.head.bias.item()
    weight, clip = 1.0 / n, 0.1

    def rows(m: int, x: float) -> tuple[torch.Tensor, torch.Tensor]:
        X = np.r_[np.zeros(m), np.full(n - m, x)][:, None]
        y = np.r_[np.zeros(m), np.ones(n - m)]
        return torch.from_numpy(X).to(dtype), torch.from_numpy(y).to(dtype)

    def door(m: int, x: float = 0.0) -> Door:
        return Door(module, BINARY, *rows(m, x), np.zeros(n, dtype=int), (weight,), clip)

    def bias(m: int) -> float:
        X, y = torch.zeros(m, 1, dtype=dtype), torch.zeros(m, dtype=dtype)
        weights = torch.full((m,), weight, dtype=torch.float64)
        return float(make.clipped_sums(X, (y,), clip, weights, rows=in_block)[1])

    in_block = sums_module.rows_of(door(1).segment)
    make = make_clipper(module, flatten(module), objective_for(BINARY))
    power = math.ceil(math.log2(bias(n // 3)))
    low, high = n // 3, n
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if bias(middle) >= 2.0**power else (middle, high)
    small = 0.3 * 2.0 ** (power - bits) / weight
    x = (math.log(1.0 / small) - b0) / w0
    best = max((door(m, x) for m in range(max(1, high - 2), min(n, high + 3))), key=excess)
    return best, excess(best)


def excess(door: Door) -> float:
    """How far removing the first record moves the sum, over what is charged for it."""
    return float(np.linalg.norm(moved(door.sum(), door.sum(0)))) / door.bound(0)


@pytest.mark.parametrize("bits", [24, 53])
def test_many_small_records_after_a_power_of_two(bits):
    door, found = last_place(4096, torch.float32, bits - 1)
    assert found <= 1.0
    check(door, [0])


@pytest.mark.slow
@pytest.mark.parametrize("n", [1024, 8192, 32_561, 100_000])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
def test_many_small_records_after_a_power_of_two_at_all_sizes(n, dtype):
    for bits in (23, 52):
        door, _ = last_place(n, dtype, bits)
        check(door, [0])


@pytest.mark.campaign
@pytest.mark.parametrize("n", [131_072, 200_000])
def test_campaign_of_accumulation(n):
    for bits in (23, 52):
        door, found = last_place(n, torch.float32, bits)
        print(f"n {n}, {bits + 1} bits: removing one record moves the sum by {found:.9f}")
        check(door, [0, n // 2, n - 1])


def float32_accumulation(monkeypatch) -> None:
    """Twin: records are added one after another in float32."""

    def in_float32(self, inputs, scaled, parts):
        for value, delta, product in zip(inputs, scaled, self._products, strict=True):
            product.copy_(delta.float().t() @ value.float())
        for part, of_product in parts:
            part.copy_(of_product)

    monkeypatch.setattr(FusedClipper, "_weighted_sum", in_float32)
    monkeypatch.setattr(sums_module, "rows_of", lambda *_: 1 << 17)


def test_float32_accumulation_would_be_seen(monkeypatch):
    float32_accumulation(monkeypatch)
    door, found = last_place(4096, torch.float32, 23)
    assert found > 1.02
    with pytest.raises(AssertionError):
        check(door, [0])


# The margin for the rounding of a sum.


@pytest.mark.parametrize("rows", [32, 288, 1056])
def test_the_margin_of_a_sum_covers_the_bound_for_any_order(rows):
    capacity = row_capacity(100_000)
    weights = (1.0, 0.25)
    margin = Fraction(sum_margin(rows, capacity, weights, 3))
    depth = Fraction(rows + 67 + 3, 2**53)
    needed = 2 * depth / (1 - depth) * capacity * Fraction(4)
    assert margin >= needed * (1 - Fraction(1, 10**9))
    assert margin <= needed * (1 + Fraction(1, 10**9))


@pytest.mark.parametrize("n", [5, 1000, 4096, 10_007])
def test_a_pairwise_sum_rounds_each_term_no_more_often_than_the_margin_says(n):
    """Counts additions: each term is a vector of its own path's length."""

    class Counted:
        def __init__(self, depth: int) -> None:
            self.depth = depth

        def add_(self, other):
            return Counted(max(self.depth, other.depth) + 1)

    total = PairwiseSum()
    for _ in range(n):
        total.add(Counted(0))
    assert total.total().depth <= 2 * math.ceil(math.log2(n + 1)) <= 64
    total = PairwiseSum(in_turn=36)
    for _ in range(n):
        total.add(Counted(0))
    assert total.total().depth <= 36 + 2 * math.ceil(math.log2(n / 36 + 2))
    assert PairwiseSum().total() is None


@pytest.mark.parametrize("n", [700, 1400])
def test_a_sum_without_its_margin_would_be_seen(n, monkeypatch):
    """In float64, where a record's own margin does not hide the sum's."""
    door, found = last_place(n, torch.float64, 52)
    assert found <= 1.0
    check(door, [0])
    monkeypatch.setattr("skfairdp.engine.clipping.norms.sum_margin", lambda *_: 0.0)
    monkeypatch.setattr("skfairdp.engine.batch_sums.LEAST_MARGIN", 0.0)
    door, found = last_place(n, torch.float64, 52)
    assert found > 1.0
    with pytest.raises(AssertionError):
        check(door, [0])


def test_weights_that_differ_too_much_and_rows_that_are_too_many_are_refused():
    def plan(weights, sizes=(1000.0, 1000.0)):
        block = Block(name="gradient", max_norm=1.0, weights=weights, noise_std=1.0)
        return Plan(
            cells=("a", "b"),
            segments=(Segment(steps=1, rates=(1.0, 1.0), expected_sizes=sizes, blocks=(block,)),),
            adjacency="zero-out",
            delta=1e-6,
        )

    refuse_unbounded_sums(plan((1.0, 1e-3)), 2000)
    refuse_unbounded_sums(plan((1.0, 0.0)), 65_536)
    with pytest.raises(ValueError, match="lost in rounding"):
        refuse_unbounded_sums(plan((1.0, 1e-9)), 2000)
    with pytest.raises(ValueError, match="more than 65,536 rows.*'dataset_size'"):
        refuse_unbounded_sums(plan((1.0, 1.0)), 65_537)
    with pytest.raises(ValueError, match="more than 4,000,000 rows"):
        refuse_unbounded_sums(plan((1.0, 1.0), (10.0**6, 0.0)), 4_000_001)


def test_too_many_rows_are_refused_before_anything_is_charged(tmp_path, monkeypatch):
    monkeypatch.setattr(norms, "_FEWEST_ROWS", 64)
    ledger = PrivacyLedger(tmp_path / "ledger.db")
    X = np.random.default_rng(0).normal(size=(300, 3))
    model = DPSGDClassifier(
        dataset_size=50, batch_size=10, classes=[0, 1], delta=1e-3, ledger=ledger
    )
    with pytest.raises(ValueError, match="more than 200 rows"):
        model.fit(X, X[:, 0] > 0)
    assert len(ledger.entries()) == 0


# Statistics and moments.


@pytest.mark.parametrize("n", [3, 700])
def test_a_record_moves_a_statistic_by_its_bound_at_most(n):
    rng = np.random.default_rng(n)
    module = nn.Linear(3, 1)
    X, y = torch.from_numpy(rng.normal(size=(n, 3))).float(), torch.zeros(n)
    codes = rng.integers(2, size=n)
    clipper = make_clipper(module, flatten(module), objective_for(BINARY))
    blocks = (
        Block(name="gradient", max_norm=1.0, weights=(1.0, 0.1), noise_std=0.0),
        Block(name="table", max_norm=0.7, weights=(1.0, 0.1), noise_std=0.0),
    )
    segment = Segment(
        steps=1,
        rates=(1.0, 1.0),
        expected_sizes=tuple(map(float, np.bincount(codes, minlength=2))),
        blocks=blocks,
    )
    statistic = Statistic(2, lambda output, labels: torch.cat([output, output + 1], 1) * 100)

    def of(keep):
        rows = Rows(X[keep], (y[keep],), codes[keep])
        release = unlimited(NoisyRelease(rows, empty_plan(2), clipper, NoiseSource(0)))
        return release.gradient_and_statistic(segment, statistic)[1]

    full = of(np.full(n, True))
    for record in range(min(n, 10)):
        part = of(np.arange(n) != record)
        assert not norm_above(moved(full, part), (1.0, 0.1)[codes[record]] * 0.7)


@pytest.mark.parametrize("law", ["gaussian", "laplace"])
@pytest.mark.parametrize("n", [4, 3000])
def test_a_record_moves_the_moments_by_their_bounds_at_most(law, n):
    rng = np.random.default_rng(n)
    d, weights = 4, (1.0, 0.03)
    rows = rng.choice([-0.5, 0.5], size=(n, d))  # in the unit ball exactly: every bound is met
    targets, codes = rng.choice([-0.5, 0.5], size=n), rng.integers(2, size=n)
    upper = np.triu_indices(d)

    def of(keep):
        given = rows[keep], targets[keep], codes[keep], empty_plan(2)
        sums = unlimited(MomentSums(*given, NoiseSource(0), expected=n))
        if law == "gaussian":
            blocks = (
                Block(name="", max_norm=norm, weights=weights, noise_std=0.0)
                for norm in l2_bounds()
            )
            rates, sizes = (1.0, 1.0), (n / 2, n / 2)
            step = Segment(steps=1, rates=rates, expected_sizes=sizes, blocks=tuple(blocks))
            return sums.gaussian(step)
        parts = (
            LaplaceSum(name="", max_norm=norm, weights=weights, scale=0.0) for norm in l1_bounds(d)
        )
        return sums.laplace(*parts)

    full = of(np.full(n, True))
    for record in range(4):
        part, weight = of(np.arange(n) != record), weights[codes[record]]
        pairs = ((full.linear[0], part.linear[0]), (full.quadratic[0], part.quadratic[0]))
        for (one, other), norm in zip(pairs, l2_bounds(), strict=True):
            assert not norm_above((one - other).ravel(), weight * norm)
        for (one, other), norm in zip(pairs, l1_bounds(d), strict=True):
            change = one - other if one.ndim == 1 else (one - other)[upper]
            total = sum(abs(Fraction(float(value))) for value in change)
            assert total <= Fraction(weight * norm)


# End to end: what the weights tell.


# At epsilon 1 a guess between two data sets of even odds is right with probability
# e / (1 + e) + delta at most; more right guesses than this have probability 1e-6.
GUESSES = 100
RIGHT = stats.binom.isf(1e-6, GUESSES, math.e / (1.0 + math.e) + 1e-6)


@pytest.mark.slow
def test_weights_do_not_tell_the_two_data_sets_apart():
    assert distinguish(32_768) <= RIGHT


@pytest.mark.slow
def test_weights_from_float32_sums_would_tell_them_apart(monkeypatch):
    float32_accumulation(monkeypatch)
    assert distinguish(32_768) > RIGHT


def distinguish(n: int) -> int:
    """Right guesses of an attacker who knows everything but whether one record is there."""
    net = default_net().set_params(module__hidden_sizes=(), optimizer=torch.optim.SGD, lr=1.0)
    seed = int(check_random_state(0).randint(2**31 - 1))  # public, as random_state is
    start = prepare_net(net, n_features=1, n_classes=2, seed=seed)
    door, _ = last_place(n, torch.float32, 23, start.module)
    X, y = door.X.numpy(), door.y.numpy().astype(int)

    def released(X, y):
        model = DPSGDClassifier(
            net=net, epsilon=1.0, max_grad_norm=0.1, batch_size=n, max_epochs=1, dataset_size=n,
            classes=[0, 1], learning_rate_schedule=None, random_state=0, delta=1e-6,
        )  # fmt: skip
        return model.fit(X, y).module_.head.bias.item()

    half = GUESSES // 2
    there = np.array([released(X, y) for _ in range(2 * half)])
    gone = np.array([released(X[1:], y[1:]) for _ in range(2 * half)])
    cut = (there[:half].mean() + gone[:half].mean()) / 2
    sign = np.sign(there[:half].mean() - gone[:half].mean())
    return int((sign * (there[half:] - cut) > 0).sum() + (sign * (gone[half:] - cut) < 0).sum())
