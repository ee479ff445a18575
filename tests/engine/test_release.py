"""The one door between rows and released state."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from skfairdp.engine.clipping import make_clipper
from skfairdp.engine.flat import flatten
from skfairdp.engine.modules import MLP
from skfairdp.engine.objectives import objective_for
from skfairdp.engine.release import NoisyRelease, Rows
from skfairdp.engine.sampling import Batch
from skfairdp.privacy.noise import NoiseSource
from skfairdp.privacy.plan import Block, CountRelease, Segment

CLIP = 0.7


class Bench:
    """A small module in float64 with its door."""

    def __init__(self, n=40, n_cells=2, scale=5.0, seed=0):
        rng = np.random.default_rng(seed)
        torch.manual_seed(seed)
        self.module = MLP(4, hidden_sizes=(3,)).double()
        self.flat = flatten(self.module)
        self.n_cells = n_cells
        self.X = torch.from_numpy(rng.normal(size=(n, 4)) * scale)
        self.y = torch.from_numpy(rng.integers(2, size=n).astype(float))
        self.codes = np.arange(n) % n_cells

    def release(self, codes=None, seed=3):
        clipper = make_clipper(self.module, self.flat, objective_for(torch.nn.BCEWithLogitsLoss()))
        codes = self.codes if codes is None else codes
        return NoisyRelease(
            Rows(self.X, (self.y,), codes), self.n_cells, clipper, NoiseSource(seed)
        )

    def segment(self, weights, std=0.0, n_heads=1, rate=1.0):
        sizes = tuple(rate * float((self.codes == k).sum()) for k in range(self.n_cells))
        return Segment(
            1, (rate,) * self.n_cells, sizes, (Block("gradient", CLIP, weights, std),), n_heads
        )


@pytest.fixture
def bench():
    return Bench()


def without(bench, row):
    codes = bench.codes.copy()
    codes[row] = -1
    return codes


def test_removing_a_record_moves_the_sum_by_at_most_its_weighted_clip(bench):
    weights = (0.02, 0.5)
    segment = bench.segment(weights)
    full = bench.release().gradient(segment)
    moved = np.array(
        [
            float((full - bench.release(without(bench, row)).gradient(segment)).norm())
            for row in range(len(bench.codes))
        ]
    )
    allowed = np.array(weights)[bench.codes] * CLIP
    assert (moved <= allowed * (1 + 1e-9)).all()
    # Some records are clipped, so the bound is met and a wider clip would break it.
    assert (moved >= 0.99 * allowed).any()


def test_the_noise_has_the_plans_standard_deviation(bench):
    std = 0.3
    release, segment = bench.release(), bench.segment((0.1, 0.1), std)
    exact = bench.release().gradient(bench.segment((0.1, 0.1)))
    draws = torch.stack([release.gradient(segment) - exact for _ in range(500)]).numpy().ravel()
    low, high = stats.chi2.ppf([5e-7, 1 - 5e-7], len(draws))
    assert low <= (draws**2).sum() / std**2 <= high
    assert abs(draws.mean()) < stats.norm.isf(5e-7) * std / np.sqrt(len(draws))


def test_noise_is_added_to_an_empty_batch(bench):
    release = bench.release(codes=np.full(len(bench.codes), -1))
    noisy = release.gradient(bench.segment((1.0, 1.0), std=1.0))
    assert noisy.dtype == torch.float64
    assert bool((noisy != 0).all())


def heads_with_fixed_batch(bench, kept, slots, segment, radii, head_scale):
    """Release with all kept rows drawn and every row's micro-batch fixed."""
    release = bench.release()
    order = np.concatenate([kept[bench.codes[kept] == k] for k in range(bench.n_cells)])
    sizes = tuple(int((bench.codes[kept] == k).sum()) for k in range(bench.n_cells))

    class Fixed:
        def draw(self, rates):
            return Batch(order, sizes)

        def slots(self, size, n_slots):
            return slots[order]

    release._sampler = Fixed()
    return release.heads(segment, bench.flat.positions("head"), radii=radii, head_scale=head_scale)


@pytest.mark.parametrize("scale", [0.2, 5.0])
@pytest.mark.parametrize("n_heads", [1, 4])
def test_projected_micro_batch_sums_keep_the_sensitivity_of_the_whole_gradient(n_heads, scale):
    bench = Bench(n=30, scale=scale, seed=n_heads)
    weights = (0.3, 0.1)
    segment = bench.segment(weights, n_heads=n_heads)
    rng = np.random.default_rng(0)
    slots = rng.integers(n_heads, size=30)
    radii = (CLIP * 1.5, CLIP * 2.0)  # small enough that projection acts
    everyone = np.arange(30)
    full = heads_with_fixed_batch(bench, everyone, slots, segment, radii, float(n_heads))
    head = bench.flat.positions("head")
    acted = False
    for row in everyone:
        part = heads_with_fixed_batch(
            bench, everyone[everyone != row], slots, segment, radii, float(n_heads)
        )
        body = full.vector - part.vector
        body[head] = 0.0
        # In units of the noise: the body has std s, every head std n_heads * s.
        moved = torch.sqrt((body**2).sum() + ((full.heads - part.heads) ** 2).sum() / n_heads**2)
        assert float(moved) <= weights[bench.codes[row]] * CLIP * (1 + 1e-9)
        acted |= float(moved) > 0.5 * weights[bench.codes[row]] * CLIP
    assert acted or scale < 1.0


def test_projected_head_sums_stay_in_their_balls():
    bench = Bench(n=60)
    n_heads, radii = 3, (0.9, 0.6)
    segment = bench.segment((1.0, 1.0), n_heads=n_heads)
    released = bench.release().heads(
        segment, bench.flat.positions("head"), radii=radii, head_scale=1.0
    )
    assert bool((released.heads.norm(dim=1) <= sum(radii) / n_heads * (1 + 1e-12)).all())


def test_noise_of_heads_and_body_is_what_the_plan_charges():
    bench = Bench(n=10)
    n_heads, std = 5, 0.2
    segment = bench.segment((0.1, 0.1), std, n_heads=n_heads)
    release = bench.release(codes=np.full(10, -1))
    where = bench.flat.positions("head")
    drawn = [
        release.heads(segment, where, radii=(1.0, 1.0), head_scale=float(n_heads))
        for _ in range(300)
    ]
    for values, expected in (
        (torch.stack([d.vector for d in drawn]).numpy().ravel(), std),
        (torch.stack([d.heads for d in drawn]).numpy().ravel(), n_heads * std),
    ):
        low, high = stats.chi2.ppf([5e-7, 1 - 5e-7], len(values))
        assert low <= (values**2).sum() / expected**2 <= high


def test_counts_carry_discrete_laplace_noise_of_the_price_paid(bench):
    release = bench.release()
    price = CountRelease("groups", epsilon=0.5)
    exact = np.bincount(bench.codes, minlength=2)
    noise = np.array(
        [release.counts(price, lambda rows: rows.codes, 2) - exact for _ in range(3000)]
    ).ravel()
    a = np.exp(-0.5)
    support = np.arange(-8, 9)
    pmf = (1 - a) / (1 + a) * a ** np.abs(support)
    observed = np.array([(noise == k).sum() for k in support])
    rest = len(noise) - observed.sum()
    expected = np.append(pmf, 1 - pmf.sum()) * len(noise)
    assert stats.chisquare(np.append(observed, rest), expected).pvalue > 1e-6


def test_rows_of_no_cell_are_not_counted(bench):
    codes = without(bench, 0)
    release = bench.release(codes)
    table = release.counts(CountRelease("g", float("inf")), lambda rows: rows.codes, 2)
    assert table.sum() == len(codes) - 1
