"""Sums over persons: what one person moves, however many rows there are, and what the sums are."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from skfairdp.engine import person_rows, row_blocks
from skfairdp.engine.clipping import base, functional, fused, norms
from skfairdp.engine.clipping.clippers import make_clipper
from skfairdp.engine.clipping.functional import FunctionalClipper
from skfairdp.engine.clipping.fused import FusedClipper
from skfairdp.engine.objectives import objective_for
from skfairdp.engine.optimizers import flatten
from skfairdp.engine.release import NoisyRelease, Rows, Statistic
from skfairdp.privacy.noise import NoiseSource
from skfairdp.privacy.plan import Block, CountRelease, Segment
from skfairdp.records.persons import Persons, encode_persons
from skfairdp.records.sampling import Batch, PersonSampler, PoissonSampler
from tests.attacks.test_sums import BINARY, NETS, norm_above
from tests.privacy.plans import empty_plan, unlimited

MOST = 12


def people(seed=0, n=25, width=16):
    """Rows, labels and ids: some persons with one row, some with many, in no order."""
    rng = np.random.default_rng(seed)
    ids = rng.permutation(np.repeat(np.arange(n), rng.choice([1, 1, 2, 5, 11], n)))
    X = torch.from_numpy(rng.normal(size=(len(ids), width)).astype(np.float32))
    y = torch.from_numpy(rng.integers(2, size=len(ids)).astype(np.float32))
    return X, y, ids


class Door:
    """A release whose batch is every person."""

    def __init__(self, name, X, y, ids, weights=(0.5,), codes=None, most=MOST):
        torch.manual_seed(0)
        self.module = NETS[name](X.shape[1], 1)
        flat = flatten(self.module)
        self.clipper = make_clipper(self.module, flat, objective_for(BINARY))
        self.X, self.y, self.ids, self.most = X, y, ids, most
        self.codes = np.zeros(len(X), dtype=np.int64) if codes is None else codes
        self.weights, self.flat = weights, flat

    def release(self, keep=slice(None), persons=True):
        ids = self.ids[keep]
        own = encode_persons(ids, len(ids), self.most) if persons else None
        rows = Rows(self.X[keep], (self.y[keep],), self.codes[keep], own)
        return unlimited(NoisyRelease(rows, empty_plan(len(self.weights)), self.clipper, SOURCE()))

    def segment(self, *names, norm=1.0, **options):
        n = len(self.weights)
        blocks = tuple(
            Block(name=name, max_norm=norm, weights=self.weights, noise_std=0.0) for name in names
        )
        size = (float(len(np.unique(self.ids))) / n,) * n
        return Segment(steps=1, rates=(1.0,) * n, expected_sizes=size, blocks=blocks, **options)

    def sum(self, keep=slice(None), norm=1.0, persons=True):
        segment = self.segment("gradient", norm=norm)
        return self.release(keep, persons).gradient(segment).clone()

    def gradients(self):
        """Gradient of each row, in float64, by plain automatic differentiation."""
        found = []
        for row, label in zip(self.X, self.y, strict=True):
            loss = BINARY(self.module(row[None]).reshape(1), label[None])
            parts = torch.autograd.grad(loss, list(self.module.parameters()))
            found.append(torch.cat([part.reshape(-1) for part in parts]).double())
        return torch.stack(found)


def SOURCE():
    return NoiseSource(0)


WIDTHS = {"linear": 16, "smooth": 16, "without bias": 16, "by record": 16, "convolution": 64}


@pytest.mark.parametrize(("name", "width"), WIDTHS.items())
def test_a_sum_is_that_of_clipped_means(name, width):
    X, y, ids = people(width=width)
    door = Door(name, X, y, ids)
    rows = door.gradients()
    means = torch.stack([rows[ids == person].mean(dim=0) for person in np.unique(ids)])
    norm = float(means.norm(dim=1).median())  # half of the persons are clipped
    factors = (norm / means.norm(dim=1)).clamp(max=1.0)
    expected = 0.5 * (factors[:, None] * means).sum(0)
    torch.testing.assert_close(door.sum(norm=norm), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("name", "width"), WIDTHS.items())
def test_persons_of_one_row_are_rows_bit_for_bit(name, width):
    X, y, _ = people(width=width)
    door = Door(name, X, y, np.arange(len(X))[::-1] * 3)
    assert torch.equal(door.sum(norm=0.5), door.sum(norm=0.5, persons=False))


def hostile(kind, X, y, rng, n=1000):
    """Rows of one person who wants to move a sum by more than is charged."""
    width = X.shape[1]
    rows = torch.from_numpy(rng.normal(size=(n, width)).astype(np.float32))
    labels = torch.ones(n)
    if kind == "alike":
        rows[:] = rows[0]
    if kind == "cancelling":  # the same huge row with both labels
        rows[:] = 1e6 * rows[0]
        labels[::2] = 0.0
    if kind == "not finite":
        rows[5] = torch.inf
    if kind == "one long":
        rows[7] *= 1e8
    return torch.cat([X, rows]), torch.cat([y, labels])


KINDS = ["alike", "scattered", "cancelling", "not finite", "one long"]


@pytest.mark.parametrize(
    ("name", "kind", "most"),
    [
        *(("kinked", kind, MOST) for kind in KINDS),
        *(("linear", kind, 1000) for kind in KINDS),
        ("by record", "one long", MOST),
        ("by record", "cancelling", MOST),
    ],
)
def test_a_person_of_a_thousand_rows_moves_a_sum_by_one_clip_norm(name, kind, most):
    X, y, ids = people()
    X, y = hostile(kind, X, y, np.random.default_rng(1))
    ids = np.append(ids, np.full(1000, 999))
    door = Door(name, X, y, ids, most=most)
    for norm in (1e-3, 1.0):
        moved = door.sum(norm=norm) - door.sum(ids != 999, norm=norm)
        assert not norm_above(moved.numpy(), 0.5 * norm)


def rows_not_averaged(persons, of_persons, rows):
    """A broken twin: the sum of a person's gradients in place of their mean."""
    parts = of_persons.repeat_interleave(torch.from_numpy(persons.counts), dim=-1)
    return torch.nn.functional.pad(parts, (0, rows - parts.shape[-1]))


def rows_clipped(draw):
    """A broken twin: each row of a person is clipped by itself."""

    def drawn(self, rates):
        batch = draw(self, rates)
        return Batch(batch.rows, (len(batch.rows),))

    return drawn


@pytest.mark.parametrize("twin", ["sound", "not averaged", "rows clipped"])
def test_a_mean_that_is_not_taken_or_not_clipped_as_one_is_seen(twin, monkeypatch):
    X, y, ids = people()
    X, y = hostile("scattered", X, y, np.random.default_rng(1))
    ids = np.append(ids, np.full(1000, 999))
    if twin == "not averaged":
        monkeypatch.setattr(fused, "shares", rows_not_averaged)
    if twin == "rows clipped":
        monkeypatch.setattr(PersonSampler, "draw", rows_clipped(PersonSampler.draw))
    door = Door("linear", X, y, ids)
    moved = door.sum(norm=1e-3) - door.sum(ids != 999, norm=1e-3)
    assert norm_above(moved.numpy(), 0.5 * 1e-3) == (twin != "sound")


def test_rows_that_cancel_round_nothing_of_others_away(monkeypatch):
    X, y, ids = people()
    X, y = hostile("cancelling", X, y, np.random.default_rng(1), n=2)
    X[-2:] *= 1e9
    ids = np.append(ids, [999, 999])
    door = Door("linear", X, y, ids)
    with torch.no_grad():
        door.flat.vector.zero_()  # both rows have the same gradient, with opposite signs
    others = door.sum(ids != 999)
    assert float((door.sum() - others).norm()) < 1e-13
    monkeypatch.setattr(person_rows, "CANCELLED", 1e-30)
    monkeypatch.setattr(person_rows, "product_error", lambda *_: 0.0)
    # A twin that takes the mean for as short as it is loses digits of all other persons.
    assert float((door.sum() - others).norm()) > 1e-11


def test_statistics_heads_and_norms_are_those_of_persons():
    X, y, ids = people()
    door = Door("kinked", X, y, ids)
    statistic = Statistic(2, lambda output, label: torch.stack([label, 1 - label], dim=1))
    segment = door.segment("gradient", "statistic")
    _, found = door.release().gradient_and_statistic(segment, statistic)
    means = np.array([y.numpy()[ids == person].mean() for person in np.unique(ids)])
    np.testing.assert_allclose(found[0], 0.5 * means.sum(), rtol=1e-4)
    np.testing.assert_allclose(found.sum(), 0.5 * len(means), rtol=1e-4)

    alone = door.release().statistic(door.segment("statistic"), statistic, door.module)
    np.testing.assert_array_equal(alone, found)

    n = len(door.flat.vector)
    heads = door.release().heads(
        door.segment("gradient", n_heads=3), slice(n - 5, n), radii=(1e3,), head_scale=3.0
    )
    total = door.sum()
    torch.testing.assert_close(heads.vector[: n - 5], total[: n - 5], rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(heads.heads.sum(0) / 3, total[n - 5 :], rtol=1e-4, atol=1e-4)

    door.weights = (1.0,)
    chosen = []
    door.release().adaptive_gradient(
        door.segment("counts", "gradient"), 0.5, lambda counts: chosen.append(counts) or [1.0]
    )
    lengths = [float(door.gradients()[ids == p].mean(0).norm()) for p in np.unique(ids)]
    assert chosen[0].tolist() == [[sum(v > 0.5 for v in lengths), sum(v <= 0.5 for v in lengths)]]


def test_a_table_counts_one_row_of_each_person():
    X, y, ids = people()
    door = Door("linear", X, y, ids)
    release = door.release()
    table = CountRelease(name="labels", epsilon=np.inf)
    counted = [release.counts(table, lambda rows: rows.targets[0].long().numpy(), 2) for _ in "ab"]
    assert counted[0].sum() == len(np.unique(ids))
    assert counted[0].tolist() == counted[1].tolist(), "tables of one fit are about the same rows"


def test_drawn_persons_bring_their_rows_or_some_of_them_all_alike():
    codes = np.array([0] * 6 + [1] * 3 + [-1] + [0])
    persons = Persons(np.array([0] * 6 + [1] * 3 + [2, 2]), 3, most=3)
    sampler = PersonSampler(codes, 2, np.random.default_rng(0), persons)
    seen = np.zeros(len(codes), dtype=int)
    for _ in range(2000):
        batch = sampler.draw((1.0, 1.0))
        assert batch.sizes == (2, 1)
        assert set(batch.rows[:3]) < {0, 1, 2, 3, 4, 5}
        assert len(set(batch.rows[:3])) == 3
        assert batch.rows[3:].tolist() == [10, 6, 7, 8]
        seen[batch.rows] += 1
    # Each of six rows is in half of the batches: five standard errors.
    assert np.all(np.abs(seen[:6] - 1000) < 5 * np.sqrt(500))
    assert seen[9] == 0, "a row that contributes nothing is never drawn"
    drawn = np.array([len(sampler.draw((0.25, 0.5))) for _ in range(4000)])
    assert abs(drawn.mean() - 1.0) < 5 * np.sqrt((2 * 0.25 * 0.75 + 0.25) / 4000)


def test_one_row_each_is_drawn_like_rows():
    codes = np.random.default_rng(0).integers(-1, 3, size=50)
    persons = Persons(np.arange(50), 50, most=8)
    rates = (0.3, 0.5, 0.1)
    of_persons = PersonSampler(codes, 3, np.random.default_rng(1), persons)
    of_rows = PoissonSampler(codes, 3, np.random.default_rng(1))
    for _ in range(100):
        a, b = of_persons.draw(rates), of_rows.draw(rates)
        assert a.rows.tolist() == b.rows.tolist()
        assert a.sizes == b.sizes


def test_a_person_in_two_cells_is_refused():
    persons = Persons(np.array([0, 0]), 1, most=8)
    with pytest.raises(ValueError, match="several cells"):
        PersonSampler(np.array([0, 1]), 2, np.random.default_rng(0), persons)


def one_record_at_a_time(clipper) -> None:
    while not clipper.one_by_one:
        clipper.retreat()


def test_large_persons_go_through_whole_also_one_by_one():
    X, y, ids = people(n=6)
    ids = np.append(ids, np.full(70, 500))
    X, y = torch.cat([X, 3 * X[:1].repeat(70, 1)]), torch.cat([y, y[:1].repeat(70)])
    door = Door("by record", X, y, ids, most=70)
    batched = door.sum(norm=0.1)
    one_record_at_a_time(door.clipper)
    torch.testing.assert_close(door.sum(norm=0.1), batched, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "where", "one_by_one"),
    [
        ("linear", (FusedClipper, "_weighted_sum"), False),
        ("by record", (FunctionalClipper, "_block_sums"), False),
        ("by record", (FunctionalClipper, "_block_sums"), True),
    ],
)
def test_no_more_rows_are_added_at_once_than_the_margin_is_for(
    name, where, one_by_one, monkeypatch
):
    X, y, ids = people(n=3)
    most = 40 if one_by_one else 1100
    X, y = hostile("scattered", X, y, np.random.default_rng(1), n=most)
    ids = np.append(ids, np.full(most, 999))
    if one_by_one:  # nearly all have one row, so that a block holds many
        ids = np.maximum(1, np.arange(len(ids)))
    door = Door(name, X, y, ids, most=most)
    if one_by_one:  # as a large module goes
        monkeypatch.setattr(functional, "_LARGEST_MODULE", 0)
        one_record_at_a_time(door.clipper)
    in_turn = []
    monkeypatch.setattr(
        base, "PairwiseSum", lambda n: in_turn.append(n) or row_blocks.PairwiseSum(n)
    )
    added, counted = [], []
    kind, method = where
    plain, margin = getattr(kind, method), norms.sum_margin

    def adding(self, gradients, others, *rest):
        added.append(len(gradients[0]))
        return plain(self, gradients, others, *rest)

    def counting(rows, *rest):
        counted.append(rows)
        return margin(rows, *rest)

    monkeypatch.setattr(kind, method, adding)
    monkeypatch.setattr(norms, "sum_margin", counting)
    door.sum()
    assert max(added) >= (0.8 if one_by_one else 1) * most, "a whole block is added in one product"
    assert counted == [max(row_blocks.PERSON_BLOCKS[-1], -(-most // 96) * 96)]
    assert max(added) * max(in_turn, default=1) <= counted[0]
