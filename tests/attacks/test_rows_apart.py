"""Tests that an output of a row depends on that row alone, to the last bit.

A unit at the kink of a ReLU switches with the last bit of its input. If that bit depended on
how many rows share a batch, one record less would turn the clipped gradients of others.
"""

from __future__ import annotations

import math
from contextlib import nullcontext
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from sklearn.utils.estimator_checks import check_methods_subset_invariance
from torch import nn

import skfairdp
from skfairdp.engine import exact_products, inference, rehearsal
from skfairdp.engine.clipping import base
from skfairdp.engine.clipping.base import Clipper
from skfairdp.engine.clipping.clippers import make_clipper
from skfairdp.engine.clipping.functional import FunctionalClipper
from skfairdp.engine.clipping.norms import row_capacity, sum_margin
from skfairdp.engine.exact_products import (
    Products,
    bits_for,
    exact_matmul,
    exactly,
    linear_by_outputs,
)
from skfairdp.engine.inference import features_and_output, outputs, outputs_by_row
from skfairdp.engine.modules import MLP, OfEachRow, SmallCNN
from skfairdp.engine.objectives import objective_for
from skfairdp.engine.optimizers import flatten
from skfairdp.engine.public_features import PublicBatch
from skfairdp.engine.rehearsal import rehearse
from skfairdp.engine.release import NoisyRelease, Rows
from skfairdp.engine.row_blocks import all_alike, block_rows, fill, repeated_rows
from skfairdp.foundation.assumptions import ALONE, EXACTLY
from skfairdp.inprocessing.fair_numbers.objective import NumberAndGroupObjective
from skfairdp.privacy.noise import NoiseSource
from skfairdp.privacy.plan import Block, Plan, Segment
from skfairdp.records.sampling import Batch
from tests.common.halves import with_groups_made_up
from tests.privacy.plans import empty_plan

BINARY = nn.BCEWithLogitsLoss()
# Clippers are asked without the margin that a plan has for the rounding of a sum.
ROUNDED = 1.0 + sum_margin(1056, row_capacity(1100), [1.0])
pytestmark = pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning")
REHEARSES_ANEW = True


class Sine(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(width, 7), nn.Linear(7, 1)

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        return self.last(torch.sin(self.first(X)))


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.last = nn.Linear(1, 4), nn.Linear(4, 1)
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        h = self.embed(X.unsqueeze(-1))
        return self.last(self.attention(h, h, h)[0].mean(1))


class Recurrent(nn.Module):
    def __init__(self, kind: str) -> None:
        super().__init__()
        self.cell = getattr(nn, kind)(1, 4, batch_first=True)
        self.last = nn.Linear(4, 1)

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        return self.last(self.cell(X.unsqueeze(-1))[0][:, -1])


NETS = {
    "linear": (lambda: nn.Linear(107, 1), 107),
    "default": (lambda: MLP(107), 107),
    "kinked": (lambda: MLP(30, 1, (65, 33), nn.ReLU), 30),
    "wide": (lambda: MLP(784, 1, (64,), nn.GELU), 784),
    "narrow": (lambda: MLP(1, 1, (1, 3, 1), nn.Sigmoid), 1),
    "tail": (lambda: nn.Sequential(nn.Linear(5, 3), nn.SiLU(), nn.Linear(3, 1), nn.Tanh()), 5),
    "by record": (lambda: Sine(11), 11),
    "attention": (Attention, 5),
    "convolution": (lambda: SmallCNN((1, 12, 12), channels=(4, 8)), 144),
    "recurrent": (lambda: Recurrent("GRU"), 4),
}
QUICK = ("default", "kinked", "narrow", "by record", "convolution")
every_net = pytest.mark.parametrize(
    ("make", "width"),
    [
        pytest.param(*case, id=name, marks=() if name in QUICK else pytest.mark.slow)
        for name, case in NETS.items()
    ],
)


def clipper_of(module: nn.Module):
    return make_clipper(module, flatten(module), objective_for(BINARY))


def rehearsed(module: nn.Module, width: int, expected: float = 20.0):
    """The clipper as a fit uses it: where a row's place plays a part, records go one by one."""
    clipper = clipper_of(module)
    block = Block(name="gradient", max_norm=1.0, weights=(1.0,), noise_std=1.0)
    plan = Plan(
        cells=("all",),
        segments=(Segment(steps=1, rates=(1.0,), expected_sizes=(expected,), blocks=(block,)),),
        adjacency="zero-out",
        delta=1e-6,
    )
    dtype = next(module.parameters()).dtype
    rehearse(
        module, clipper, torch.zeros(20, width, dtype=dtype), (torch.zeros(20).to(dtype),), plan
    )
    return clipper


def seen(clipper, X, y, rows):
    """Each row's norm and output, and the whole gradients of the first three."""
    out: list[torch.Tensor] = []
    weights = torch.eye(len(X), dtype=torch.float64)[:3]
    sums = clipper.clipped_sums(X, (y,), 0.01, weights, out, rows).clone()
    return torch.cat(out), clipper.norms(X, (y,), rows), sums


BLOCKS = {"96": (96, torch.float32), "float64": (96, torch.float64), "288": (288, torch.float32)}


@pytest.mark.parametrize(
    ("make", "width", "rows", "dtype"),
    [
        pytest.param(
            *NETS[net],
            *BLOCKS[block],
            id=f"{block}-{net}",
            marks=() if net in QUICK and block == "96" else pytest.mark.slow,
        )
        for block in BLOCKS
        for net in NETS
        # These take rows one by one: the size of a block plays no part.
        if block != "288" or net not in ("attention", "recurrent")
    ],
)
def test_no_bit_of_a_row_depends_on_its_batch(make, width, rows, dtype):
    torch.manual_seed(0)
    module = make().to(dtype)
    slow = isinstance(module, (Recurrent, Attention))
    clipper = rehearsed(module, width, {96: 20.0, 288: 256.0}[rows])
    n = 2 * rows + 5
    X = torch.randn(n, width).to(dtype)
    y = torch.randint(0, 2, (n,)).to(dtype)
    want = seen(clipper, X, y, rows)
    generator = torch.Generator().manual_seed(1)
    for kept in (n - 1, 9) if slow else (n - 1, rows + 1, rows, rows - 1, 9, 8, 3):
        order = torch.cat([torch.arange(3), 3 + torch.randperm(n - 3, generator=generator)])[:kept]
        turned = order.roll(kept // 3)  # the first three stand elsewhere
        back = turned.argsort()[: len(order)]
        sorted_rows = turned.sort().values
        got = seen(clipper, X[turned], y[turned], rows)
        assert torch.equal(got[0][back], want[0][sorted_rows])
        assert torch.equal(got[1][back], want[1][sorted_rows])
        got = seen(clipper, X[order], y[order], rows)
        assert torch.equal(got[2], want[2])


FEW_OUTPUTS = pytest.mark.parametrize(
    ("make", "n_outputs"),
    [(lambda: nn.Linear(89, 2), 2), (lambda: MLP(13, 3, (5,)), 3)],
    ids=["linear", "hidden layer"],
)


def moved(make, n_outputs: int, products: Products | None = None) -> int:
    """In how many of three other batches some norm of a row has other bits."""
    torch.manual_seed(0)
    clipper = make_clipper(module := make(), flatten(module), NumberAndGroupObjective())
    width = next(module.parameters()).shape[1]
    X, y = torch.randn(300, width), torch.rand(300)
    targets = y, torch.randint(0, n_outputs, (300,)).float()
    rehearse(module, clipper, X, targets, empty_plan())
    serving = clipper.serving(X)
    assert serving.path == "fused"
    serving.products = serving.products if products is None else products
    norms = serving.norms(X, targets, 96)
    batches = (torch.arange(300).roll(1), torch.randperm(300), torch.arange(1, 300))
    found = [serving.norms(X[kept], tuple(t[kept] for t in targets), 96) for kept in batches]
    return sum(not torch.equal(f, norms[kept]) for f, kept in zip(found, batches, strict=True))


@FEW_OUTPUTS
def test_no_bit_of_a_row_depends_on_its_batch_with_few_outputs(make, n_outputs):
    assert moved(make, n_outputs) == 0


@FEW_OUTPUTS
def test_products_of_few_outputs_by_the_place_of_a_row_would_be_seen(make, n_outputs):
    assert moved(make, n_outputs, TURNED) == 3


@every_net
def test_no_bit_of_an_answer_depends_on_the_rows_beside_it(make, width):
    torch.manual_seed(0)
    module = make().eval()
    X = torch.randn(600, width)
    for answer in (
        lambda rows: outputs(module, rows.numpy()),
        lambda rows: outputs_by_row(module, rows).numpy() if len(rows) else np.empty((0, 1)),
    ):
        want = answer(X)
        order = np.random.default_rng(0).permutation(600)
        assert np.array_equal(answer(X[order]), want[order])
        for kept in (1, 2, 7, 287, 288, 289):
            assert np.array_equal(answer(X[:kept]), want[:kept])
        assert answer(X[:0]).shape == (0, 1)


class Doubled(OfEachRow):
    """Answers of a module in float64."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        return self.module(X).double()


def answers_with_a_hook() -> tuple[torch.Tensor, torch.Tensor]:
    """Answers of a net whose hook adds the mean over its rows: to seven rows, alone and in 300."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(6, 2))
    module.register_forward_hook(lambda _, inputs, output: output + output.mean(0))
    X = torch.randn(300, 6)
    return outputs_by_row(Doubled(module), X[:7]), outputs_by_row(Doubled(module), X)[:7]


def test_answers_of_a_net_with_a_hook_are_each_rows_own():
    assert torch.equal(*answers_with_a_hook())


def test_answers_of_such_a_net_in_blocks_would_be_seen(monkeypatch):
    monkeypatch.setattr(inference, "goes_row_by_row", lambda module: True)
    monkeypatch.setattr(inference, "_alike_everywhere", lambda *of_trial: True)
    assert not torch.equal(*answers_with_a_hook())


@pytest.mark.parametrize("n_outputs", [1, 2, 9, 15, 16])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(96, 14), (3, 32, 14)], ids=["rows", "tables"])
def test_products_by_outputs_are_those_of_torch_but_for_the_last_bits(n_outputs, bias, shape):
    torch.manual_seed(0)
    layer, X = nn.Linear(14, n_outputs, bias=bias), torch.randn(shape)
    found = linear_by_outputs(X, layer.weight, layer.bias)
    assert found.is_contiguous()
    torch.testing.assert_close(found, layer(X), rtol=1e-5, atol=1e-6)


def test_products_by_outputs_are_tried_before_exact_ones(monkeypatch):
    module, X = nn.Linear(14, 3), np.ones((5, 14))
    tried, multiplied = Mock(side_effect=[False, True]), Mock(side_effect=linear_by_outputs)
    monkeypatch.setattr(inference, "_alike_everywhere", tried)
    monkeypatch.setattr(exact_products, "linear_by_outputs", multiplied)
    monkeypatch.setattr(exact_products, "multiply", Mock(side_effect=AssertionError("exact")))
    assert outputs(module, X).shape == (5, 3)
    assert multiplied.called


def test_features_in_front_of_a_head_are_each_rows_own():
    module = MLP(6, 1, (5,))
    X = np.random.default_rng(0).normal(size=(300, 6)).astype(np.float32)
    features, output = features_and_output(module, module.head, X)
    assert features.shape == (300, 5)
    alone = [features_and_output(module, module.head, X[i : i + 1]) for i in (0, 287, 288, 299)]
    for i, (feature, out) in zip((0, 287, 288, 299), alone, strict=True):
        assert np.array_equal(feature[0], features[i])
        assert np.array_equal(out[0], output[i])


@pytest.mark.parametrize("shape", [(200, 8, 9), (50, 1, 257)], ids=str)
def test_one_record_less_switches_no_unit_of_another(shape):
    assert kinked(*shape, tries=60) <= ROUNDED


@pytest.mark.slow
@pytest.mark.parametrize(
    "shape", [(200, 8, 9), (200, 64, 9), (50, 1, 1025), (50, 1, 257), (784, 64, 2)], ids=str
)
def test_one_record_less_switches_no_unit_of_another_in_many_tries(shape):
    assert kinked(*shape, tries=700) <= ROUNDED


def kinked(
    width: int, hidden: int, n: int, tries: int, every: int = 1, rehearse: bool = True
) -> float:
    """Largest move of the sum, over the bound, with rows at the kink of a unit in some places."""
    torch.manual_seed(0)
    module = MLP(width, 1, (hidden,), nn.ReLU)
    expected = float(n)
    clipper = rehearsed(module, width, expected) if rehearse else clipper_of(module)
    rows = block_rows(expected)
    layer = module.features[0]
    W, b = layer.weight.detach().double().numpy(), layer.bias.detach().double().numpy()
    target = -np.ones(hidden)
    target[0] = 0.0
    inverse = np.linalg.pinv(W)
    start, free = inverse @ (target - b), np.eye(width) - inverse @ W
    rng, worst = np.random.default_rng(0), 0.0
    y, weights = torch.zeros(n), torch.ones(n, dtype=torch.float64)
    for _ in range(tries):
        x = start + free @ rng.normal(size=width) * 20
        X = torch.zeros(n, width)
        X[::every] = torch.from_numpy(x.astype(np.float32))
        full = clipper.clipped_sums(X, (y,), 0.1, weights, rows=rows).clone()
        part = clipper.clipped_sums(X[1:], (y[1:],), 0.1, weights[1:], rows=rows)
        worst = max(worst, float((full - part).norm()) / 0.1)
    return worst


# Processors of our own making, which err by more than a last bit so that it shows on any: one that
# rounds by how many rows it gets, as some do, and one that rounds by where a row stands.

LINEAR = nn.functional.linear


def by_number(value, weight, bias=None):
    product = LINEAR(value, weight, bias)
    return product + 2.0**-16 if len(value) % 2 else product


def with_processor(monkeypatch, linear) -> None:
    monkeypatch.setattr(nn.functional, "linear", linear)


def turned(left, right):
    """Adds the terms of some rows the other way round."""
    product = torch.matmul(left, right)
    product[..., ::2, :] = torch.matmul(left[..., ::2, :].flip(-1), right.flip(-2))
    return product


def turned_linear(rows, weight, bias):
    return turned(rows, weight.t()) + bias


def products_of(matmul=torch.matmul, linear=LINEAR) -> Products:
    return Products(matmul, linear, nullcontext, "by place")


TURNED = products_of(turned, turned_linear)


def by_place(monkeypatch, products: Products = TURNED) -> None:
    """Make torch's products of linear layers those of a processor that goes by the place of a row.

    What the exact products are made of goes by it too.
    """
    monkeypatch.setattr(Clipper, "products", products)
    for module in (base, rehearsal):
        monkeypatch.setattr(module, "AS_TORCH", products)
    monkeypatch.setattr(exact_products, "multiply", turned)


def test_a_processor_that_adds_by_the_place_of_a_row_does_no_harm(monkeypatch):
    by_place(monkeypatch)
    assert kinked(50, 1, 257, tries=20, every=2) <= ROUNDED


def test_without_a_rehearsal_such_a_processor_would_do_harm(monkeypatch):
    by_place(monkeypatch)
    assert kinked(50, 1, 257, tries=20, every=2, rehearse=False) > 1.5


@pytest.mark.parametrize("terms", [1, 2, 107, 784, 5000])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_products_are_the_same_in_every_order_and_near_the_truth(terms, dtype):
    generator = torch.Generator().manual_seed(terms)
    left = torch.randn(33, terms, generator=generator).to(dtype)
    left *= 10.0 ** torch.randint(-9, 9, left.shape, generator=generator)
    right = torch.randn(terms, 5, generator=generator).to(dtype)
    found = exact_matmul(left, right)
    rows, order = torch.randperm(33, generator=generator), torch.randperm(terms)
    again = exact_matmul(left[rows][:, order], right[order])
    assert torch.equal(again, found[rows])
    size = left.double().abs().amax(1, keepdim=True) * right.double().abs().amax(0)
    error = (found.double() - left.double() @ right.double()).abs()
    digits = min(23, bits_for(terms)) if dtype == torch.float32 else 2 * bits_for(terms)
    assert bool((error <= size * terms * 2.0 ** (1 - digits)).all())


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, 3e38, 1e-45, 0.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_no_entry_of_a_row_moves_another_rows_product(value, dtype):
    left = torch.randn(4, 3, generator=torch.Generator().manual_seed(0)).to(dtype)
    right = torch.randn(3, 2, generator=torch.Generator().manual_seed(1)).to(dtype)
    want = exact_matmul(left, right)
    left[1, 2] = value
    found = exact_matmul(left, right)
    assert torch.equal(found[[0, 2, 3]], want[[0, 2, 3]])
    assert bool(found[1].isfinite().all()) == math.isfinite(value)


@pytest.mark.parametrize("extreme", [1e-300, 1e300])
def test_numbers_too_small_or_large_for_exact_products_are_lost_not_rounded(extreme):
    found = exact_matmul(
        torch.full((1, 2), extreme, dtype=torch.float64), torch.ones(2, 1).double()
    )
    assert found.isnan().all() if extreme > 1 else found == 0.0


def test_what_replaces_the_products_of_any_module_leaves_nothing_behind():
    module, rows = nn.Conv2d(2, 4, 3, groups=2), torch.randn(3, 2, 6, 6)
    want = module(rows)
    with exactly(), exactly():
        found = module(rows)
        assert torch.equal(module(rows.flip(0)).flip(0), found)
    assert torch.allclose(found, want, atol=1e-5)
    assert torch.equal(module(rows), want)


def last_rows(how_many: int) -> Products:
    """Products that add the terms of the last rows of a block in another order."""

    def linear(rows, weight, bias):
        found = LINEAR(rows, weight, bias)
        found[-how_many:] = turned_linear(rows[-how_many:], weight, bias)
        return found

    return products_of(linear=linear)


KERNELS = {
    "every other row": TURNED,
    "the last row": last_rows(1),
    "the last two rows": last_rows(2),
    "backward alone": products_of(turned),
}


@pytest.mark.parametrize("products", KERNELS.values(), ids=KERNELS)
@pytest.mark.parametrize(
    "make",
    [lambda: MLP(6, 1, (4,)), lambda: nn.Linear(6, 1), lambda: MLP(6, 1, (4, 3), nn.ReLU)],
    ids=["one hidden layer", "linear", "two hidden layers"],
)
def test_a_kernel_that_depends_on_place_is_caught_and_products_become_exact(
    products, make, monkeypatch
):
    by_place(monkeypatch, products)
    torch.manual_seed(0)
    module, X, y = make(), torch.randn(60, 6), torch.zeros(60)
    clipper = rehearsed(module, 6)
    if products.linear is LINEAR and isinstance(module, nn.Linear):
        assert clipper.serving(X).arithmetic == "by place"  # nothing flows back there
        return
    assert clipper.serving(X).arithmetic == EXACTLY
    norms = clipper.norms(X, (y,), 96)
    order = torch.arange(60).roll(1)
    assert torch.equal(clipper.norms(X[order], (y,), 96), norms[order])


def test_threads_of_which_one_takes_denormal_numbers_for_zeros_are_caught(monkeypatch):
    def linear(rows, weight, bias):
        half, tiny = len(rows) // 2, torch.finfo(rows.dtype).tiny
        kept = torch.where(rows[half:].abs() < tiny, 0.0, rows[half:])
        return LINEAR(torch.cat([rows[:half], kept]), weight, bias)

    by_place(monkeypatch, products_of(linear=linear))
    clipper = rehearsed(nn.Linear(6, 1, bias=False), 6)
    assert clipper.serving(torch.zeros(2, 6)).arithmetic == EXACTLY


def test_where_exact_products_are_not_enough_records_go_one_by_one(monkeypatch):
    by_place(monkeypatch)
    monkeypatch.setattr(base, "EXACT", products_of(turned, turned_linear))
    torch.manual_seed(0)
    module, X, y = MLP(6, 1, (4,)), torch.randn(20, 6), torch.zeros(20)
    unheard = clipper_of(module)
    order = torch.arange(20).roll(1)
    norms = unheard.norms(X, (y,), 96)
    assert not torch.equal(unheard.norms(X[order], (y,), 96), norms[order])  # the twin
    clipper = rehearsed(module, 6)
    assert clipper.serving(X).arithmetic == ALONE
    norms = clipper.norms(X, (y,), 96)
    assert torch.equal(clipper.norms(X[order], (y,), 96), norms[order])
    assert not clipper.draws_nothing(X)  # it left the fused path


class Drawing(nn.Module):
    """Draws at prediction too."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(4, 1)

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        return self.head(X + torch.randn_like(X))


def test_products_of_a_module_that_always_draws_are_exact():
    clipper = rehearsed(Drawing(), 4)
    assert clipper.serving(torch.zeros(2, 4)).arithmetic == EXACTLY


def test_the_path_that_training_takes_is_tried_where_dropout_is_active(monkeypatch):
    module = nn.Sequential(nn.Linear(6, 4), nn.Dropout(0.5), nn.Linear(4, 1)).train()
    tried = []
    before = FunctionalClipper._gradients
    monkeypatch.setattr(
        FunctionalClipper, "_gradients", lambda *of: tried.append(len(of[1])) or before(*of)
    )
    assert rehearsed(module, 6).serving(torch.zeros(2, 6)).path == "functional"
    assert block_rows(20.0) in tried


@pytest.mark.parametrize("width", [0, 1], ids=["all alike", "one cell apart"])
def test_rows_that_are_alike_are_seen_to_be(width):
    found = torch.ones(5, 2)
    found[3, 1] += width * 2.0**-23
    assert all_alike([found]) == (width == 0)


def test_repeated_rows_hold_ordinary_huge_and_denormal_numbers():
    blocks = list(repeated_rows(torch.zeros(0, 107), 96, 10_000))
    assert all(torch.equal(block, block[:1].expand(96, 107)) for block in blocks)
    *ordinary, extreme, denormal = (block[0].abs() for block in blocks)
    assert len(ordinary) == 8
    assert float(extreme.max()) > 1e4
    assert float(extreme.min()) < 1e-25
    assert bool((denormal > 0).all() and (denormal < torch.finfo(torch.float32).tiny).all())
    assert len(list(repeated_rows(torch.zeros(0, 2), 96, 3))) == 26


@every_net
def test_a_rehearsal_changes_nothing_where_nothing_is_wrong(make, width):
    torch.manual_seed(0)
    module = make().train()
    fast = isinstance(module, (nn.Linear, MLP, nn.Sequential))
    clipper = rehearsed(module, width)
    assert module.training
    assert clipper.draws_nothing(torch.zeros(2, width)) == fast


class Counting(nn.Module):
    """Remembers in a Python number how often it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.head, self.calls = nn.Linear(4, 1), 0

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return self.head(X) / self.calls


class Remembering(nn.Module):
    """Keeps the last row in a tensor that is no buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.head, self.last = nn.Linear(4, 1), torch.zeros(1, 4)

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        mixed = X + self.last
        self.last.copy_(X.detach())
        return self.head(mixed)


@pytest.mark.parametrize(
    ("make", "words"),
    [(Counting, "from call to call"), (Remembering, "values of its rows")],
)
def test_modules_that_keep_something_between_calls_are_refused(make, words):
    with pytest.raises(ValueError, match=words):
        rehearsed(make(), 4)


# Public rows beside private ones.


@pytest.mark.parametrize("size", [1.0, 1e6, 1e15])
def test_public_rows_round_nothing_away_of_what_the_noise_covers(size):
    torch.manual_seed(0)
    n, rng = 60, np.random.default_rng(0)
    module = MLP(3, 1, (4,))
    clipper = rehearsed(module, 3, 30.0)
    X = torch.randn(n, 3)
    X[40:] *= size
    rows = Rows(X, (torch.from_numpy(rng.integers(2, size=n)).float(),), np.zeros(n, int))
    release = NoisyRelease(rows, empty_plan(), clipper, NoiseSource(0))
    block = Block(name="gradient", max_norm=1e-6, weights=(0.1,), noise_std=0.0)
    segment = Segment(steps=1, rates=(0.5,), expected_sizes=(30.0,), blocks=(block,))
    public = PublicBatch(np.arange(40, 60), ())
    batch = Batch(np.arange(25), (25,))
    alone, none, _ = release._gradient_sum(segment, batch, (0.1,), None)
    alone = alone.clone()
    beside, mean, _ = release._gradient_sum(segment, batch, (0.1,), public)
    assert none is None
    # They never meet: nothing but the order of 25 additions in float64 may differ.
    assert float((beside - alone).abs().max()) <= 1e-13 * float(alone.abs().max())
    mean = mean.clone()
    fewer = Batch(np.arange(24), (24,))
    assert torch.equal(release._gradient_sum(segment, fewer, (0.1,), public)[1], mean)
    assert float(mean.norm()) > 1e4 * float(alone.norm())
    # One sum of both, as a float32 or in floats at all, would have rounded:
    assert not torch.equal((mean.float() + alone.float()) - mean.float(), alone.float())


# Predictions.


@pytest.mark.parametrize(
    "estimator",
    [
        skfairdp.DPSGDClassifier(reproducible_noise=True, random_state=0, max_epochs=2),
        skfairdp.FairDPClassifier(reproducible_noise=True, random_state=0, max_epochs=2),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_predictions_are_invariant_to_subsets_on_any_processor(estimator, monkeypatch):
    with_processor(monkeypatch, by_number)
    name = type(estimator).__name__
    check_methods_subset_invariance(name, with_groups_made_up(estimator))


def test_predictions_in_batches_of_any_size_would_be_seen(monkeypatch):
    with_processor(monkeypatch, by_number)
    module, X = MLP(3), np.ones((4, 3))
    assert np.array_equal(outputs(module, X)[:1], outputs(module, X[:1]))
    found = []
    for rows in (4, 1):  # blocks as large as what is asked
        monkeypatch.setattr(inference, "DEFAULT_ROWS", rows)
        found.append(outputs(module, X[:rows])[0])
    assert not np.array_equal(*found)


def test_a_block_is_filled_up_and_its_size_is_a_multiple_of_the_vectors():
    for expected in (0.0, 1, 9, 128, 256, 1000, 1500, 4096, 32_561, 10**7):
        rows = block_rows(expected)
        assert rows % 96 == 0
        assert 96 <= rows <= 2048
    tensor = torch.ones(5, 2)
    assert fill(tensor, 4).shape == (8, 2)
    assert not fill(tensor, 4)[5:].any()
    assert fill(tensor[:4], 4).data_ptr() == tensor.data_ptr()
    assert fill(tensor[:0], 4).shape == (0, 2)
