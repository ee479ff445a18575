"""Tests of noisy releases, the only way from rows to released state."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

from skfairdp.engine.clipping.clippers import make_clipper
from skfairdp.engine.modules import MLP
from skfairdp.engine.objectives import objective_for
from skfairdp.engine.optimizers import flatten
from skfairdp.engine.release import NoisyRelease, Rows, Statistic
from skfairdp.privacy.noise import NoiseSource
from skfairdp.privacy.plan import Block, CountRelease, Segment
from skfairdp.records.sampling import Batch
from tests.privacy.plans import empty_plan, unlimited

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

    def release(self, codes=None, seed=3, exact_noise=False):
        clipper = make_clipper(self.module, self.flat, objective_for(torch.nn.BCEWithLogitsLoss()))
        codes = self.codes if codes is None else codes
        rows, plan = (
            Rows(self.X, (self.y,), codes),
            empty_plan(self.n_cells, exact_noise=exact_noise),
        )
        return unlimited(NoisyRelease(rows, plan, clipper, NoiseSource(seed)))

    def segment(self, weights, std=0.0, n_heads=1, rate=1.0):
        sizes = tuple(rate * float((self.codes == k).sum()) for k in range(self.n_cells))
        return Segment(
            steps=1,
            rates=(rate,) * self.n_cells,
            expected_sizes=sizes,
            blocks=(Block(name="gradient", max_norm=CLIP, weights=weights, noise_std=std),),
            n_heads=n_heads,
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


@pytest.mark.parametrize("exact_noise", [True, False])
def test_the_noise_has_the_plans_standard_deviation(bench, exact_noise):
    std = 0.3
    release, segment = bench.release(exact_noise=exact_noise), bench.segment((0.1, 0.1), std)
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

    release._batches.sampler = Fixed()
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
    vectors = torch.stack([d.vector for d in drawn]).numpy()
    assert not vectors[:, where].any(), "the head leaves once, by itself"
    body = np.delete(vectors, np.arange(vectors.shape[1])[where], axis=1)
    for values, expected in (
        (body.ravel(), std),
        (torch.stack([d.heads for d in drawn]).numpy().ravel(), n_heads * std),
    ):
        low, high = stats.chi2.ppf([5e-7, 1 - 5e-7], len(values))
        assert low <= (values**2).sum() / expected**2 <= high


def test_counts_carry_discrete_laplace_noise_of_the_price_paid(bench):
    release = bench.release()
    price = CountRelease(name="groups", epsilon=0.5)
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
    table = release.counts(CountRelease(name="g", epsilon=float("inf")), lambda rows: rows.codes, 2)
    assert table.sum() == len(codes) - 1


# A gradient and a statistic of one batch.

STATISTIC_CLIP = 1.5


def of_output(output, labels):
    """Of any length: from far below the clipping norm to far above it."""
    score = output.reshape(-1)
    return torch.stack([2 * score, score * labels, torch.ones_like(score)], dim=1)


STATISTIC = Statistic(3, of_output)
LINEAR = torch.nn.Linear(4, 1).double()


class Sine(nn.Module):
    """Taken record by record: no stack of layers."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 1)

    def forward(self, X):
        return torch.sin(self.layer(X)) * 3


class Mean(nn.Module):
    """Mixes the records of a batch."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 1)

    def forward(self, X):
        return self.layer(X - X.mean(dim=0))


def two_blocks(bench, weights, stds=(0.0, 0.0), rate=1.0):
    gradient = Block(name="gradient", max_norm=CLIP, weights=weights, noise_std=stds[0])
    statistic = Block(name="statistic", max_norm=STATISTIC_CLIP, weights=weights, noise_std=stds[1])
    return Segment(
        steps=1,
        rates=(rate,) * bench.n_cells,
        expected_sizes=(20.0,) * bench.n_cells,
        blocks=(gradient, statistic),
    )


def bench_of(module, **settings):
    bench = Bench(**settings)
    torch.manual_seed(0)
    bench.module = module().double()
    bench.flat = flatten(bench.module)
    return bench


def both(release, segment):
    gradient, statistic = release.gradient_and_statistic(segment, STATISTIC)
    return gradient.clone(), statistic


@pytest.mark.parametrize("module", [lambda: MLP(4, hidden_sizes=(3,)), Sine])
def test_removing_a_record_moves_both_sums_by_at_most_their_bounds(module):
    bench = bench_of(module, n=30)
    bench.X[7] = float("nan")
    weights = (0.02, 0.5)
    segment = two_blocks(bench, weights)
    full = both(bench.release(), segment)
    assert all(bool(total.isfinite().all()) for total in full)
    assert full[1].dtype == torch.float64
    tight = [False, False]
    for row in range(30):
        part = both(bench.release(without(bench, row)), segment)
        for k, bound in enumerate((CLIP, STATISTIC_CLIP)):
            moved = float((full[k] - part[k]).norm())
            allowed = weights[bench.codes[row]] * bound
            # The row of NaN adds nothing: only the order in which others are added may change.
            assert moved <= allowed * (1e-12 if row == 7 else 1 + 1e-9)
            tight[k] |= moved >= 0.99 * allowed
    assert tight == [True, True]  # bounds that bind: a wider clip would break them


def test_a_statistic_within_its_bound_is_summed_as_it_is():
    bench = bench_of(Sine, n=25, scale=0.1)
    weights = (0.3, 2.0)
    vectors = of_output(bench.module(bench.X), bench.y).detach() * 0.1
    small = Statistic(3, lambda output, labels: 0.1 * of_output(output, labels))
    assert float(vectors.norm(dim=1).max()) < STATISTIC_CLIP
    _, got = bench.release().gradient_and_statistic(two_blocks(bench, weights), small)
    want = torch.tensor(np.array(weights)[bench.codes]) @ vectors
    torch.testing.assert_close(got, want, rtol=1e-10, atol=1e-12)


def test_the_gradient_beside_a_statistic_is_the_gradient_alone():
    bench = Bench()
    segment = two_blocks(bench, (0.1, 0.2))
    alone = bench.release().gradient(segment).clone()
    torch.testing.assert_close(both(bench.release(), segment)[0], alone, rtol=0, atol=0)


def test_gradient_and_statistic_read_one_batch():
    bench = bench_of(lambda: LINEAR, n=200, scale=1e-3)
    one = Statistic(1, lambda output, labels: torch.ones(len(output), 1))
    blocks = (
        Block(name="gradient", max_norm=1e9, weights=(1.0, 1.0), noise_std=0.0),
        Block(name="statistic", max_norm=2.0, weights=(1.0, 1.0), noise_std=0.0),
    )
    segment = Segment(steps=1, rates=(0.3, 0.3), expected_sizes=(30.0, 30.0), blocks=blocks)
    release = bench.release()
    with torch.no_grad():  # every record's gradient with respect to the bias is then 1/2 - y
        bench.flat.vector.zero_()
    bench.y.zero_()
    for _ in range(20):
        gradient, count = release.gradient_and_statistic(segment, one)
        assert float(gradient[-1]) * 2 == pytest.approx(float(count), rel=1e-9)
        assert 0 < float(count) < 200


def noise_is(values, std):
    low, high = stats.chi2.ppf([5e-7, 1 - 5e-7], values.size)
    assert low <= (values**2).sum() / std**2 <= high


@pytest.mark.parametrize("empty", [False, True], ids=["full batch", "empty batch"])
def test_both_blocks_carry_the_noise_of_the_plan(empty):
    bench = Bench(n=10)
    codes = np.full(10, -1) if empty else bench.codes
    exact = both(bench.release(codes), two_blocks(bench, (0.1, 0.1)))
    release, segment = bench.release(codes), two_blocks(bench, (0.1, 0.1), (0.3, 2.0))
    drawn = [both(release, segment) for _ in range(400)]
    for k, std in enumerate((0.3, 2.0)):
        noise = (torch.stack([d[k] for d in drawn]) - exact[k]).numpy()
        noise_is(noise, std)
    # Drawn independently: no correlation of the first coordinates.
    first, second = (np.array([float(d[k][0] - exact[k][0]) for d in drawn]) for k in (0, 1))
    assert stats.pearsonr(first, second).pvalue > 1e-6


def test_cells_combined_by_released_weights_keep_the_law_of_their_noisy_sums():
    bench = Bench(n=20)
    combine = np.array([3.0, -0.5])
    clean = two_blocks(bench, (0.1, 0.2))
    release = bench.release()
    parts = []
    for cell in range(2):
        codes = np.where(bench.codes == cell, cell, -1)
        parts.append(both(bench.release(codes), clean)[0])
    total, _ = release.gradient_and_statistic(clean, STATISTIC, cell_weights=combine)
    torch.testing.assert_close(total.clone(), 3.0 * parts[0] - 0.5 * parts[1])
    noisy = two_blocks(bench, (0.1, 0.2), (0.3, 0.0))
    drawn = [
        release.gradient_and_statistic(noisy, STATISTIC, cell_weights=combine)[0] - total
        for _ in range(400)
    ]
    noise_is(torch.stack(drawn).numpy(), 0.3 * np.linalg.norm(combine))


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_a_statistic_that_is_no_number_counts_as_zero(bad):
    bench = Bench(n=12)

    def broken(output, labels):
        vectors = of_output(output, labels)
        vectors[2] = bad  # rows come cell after cell: row 4, of cell 0
        return vectors

    segment = two_blocks(bench, (1.0, 1.0))
    _, got = bench.release().gradient_and_statistic(segment, Statistic(3, broken))
    _, want = both(bench.release(without(bench, 4)), segment)
    torch.testing.assert_close(got, want)


# A statistic alone.


def statistic_segment(bench, std=0.0, rate=1.0):
    block = Block(name="statistic", max_norm=STATISTIC_CLIP, weights=(1.0, 0.5), noise_std=std)
    return Segment(steps=1, rates=(rate,) * 2, expected_sizes=(20.0, 20.0), blocks=(block,))


def test_a_statistic_alone_is_the_one_beside_a_gradient():
    bench = Bench()
    alone = bench.release().statistic(statistic_segment(bench), STATISTIC, bench.module)
    segment = two_blocks(bench, (1.0, 0.5))
    torch.testing.assert_close(alone, both(bench.release(), segment)[1])


def test_removing_a_record_moves_a_statistic_by_its_bound_even_if_the_module_mixes():
    bench = bench_of(Mean, n=20)
    full = bench.release().statistic(statistic_segment(bench), STATISTIC, bench.module)
    for row in range(20):
        part = bench.release(without(bench, row)).statistic(
            statistic_segment(bench), STATISTIC, bench.module
        )
        allowed = (1.0, 0.5)[bench.codes[row]] * STATISTIC_CLIP
        assert float((full - part).norm()) <= allowed * (1 + 1e-9)


@pytest.mark.parametrize("n_rows", [0, 10])
def test_a_statistic_alone_carries_the_noise_of_the_plan(n_rows):
    bench = Bench(n=10)
    codes = np.where(np.arange(10) < n_rows, bench.codes, -1)
    exact = bench.release(codes).statistic(statistic_segment(bench), STATISTIC, bench.module)
    release = bench.release(codes)
    drawn = [
        release.statistic(statistic_segment(bench, 0.4), STATISTIC, bench.module) - exact
        for _ in range(400)
    ]
    noise_is(torch.stack(drawn).numpy(), 0.4)


def test_a_statistic_leaves_the_module_as_it_was():
    bench = bench_of(lambda: nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.5), nn.Linear(3, 1)))
    bench.module[1].eval()
    modes = [part.training for part in bench.module.modules()]
    first = bench.release().statistic(statistic_segment(bench), STATISTIC, bench.module)
    assert [part.training for part in bench.module.modules()] == modes
    again = bench.release().statistic(statistic_segment(bench), STATISTIC, bench.module)
    assert torch.equal(first, again)  # as at prediction: nothing is dropped


# Clipping norms chosen from noisy counts.


def counted(bench, stds=(0.0, 0.0), weights=(0.1, 0.1), rate=1.0):
    counts = Block(name="counts", max_norm=1.0, weights=(1.0, 1.0), noise_std=stds[0])
    gradient = Block(name="gradient", max_norm=1.0, weights=weights, noise_std=stds[1])
    return Segment(
        steps=1, rates=(rate,) * 2, expected_sizes=(20.0, 20.0), blocks=(counts, gradient)
    )


class Chooser:
    """Gives fixed clipping norms and remembers the counts."""

    def __init__(self, *norms):
        self.norms = np.array(norms)
        self.seen = []

    def __call__(self, counts):
        self.seen.append(counts)
        return self.norms


def test_counts_say_how_many_gradients_of_each_cell_are_long(bench):
    clipper = make_clipper(bench.module, bench.flat, objective_for(nn.BCEWithLogitsLoss()))
    norms = clipper.norms(bench.X, (bench.y,)).numpy()
    base = float(np.median(norms))
    bench.X[3] = float("nan")  # counts once, like everybody
    choose = Chooser(1.0, 1.0)
    bench.release().adaptive_gradient(counted(bench), base, choose)
    long = norms > base
    long[3] = False
    for cell in range(2):
        mine = bench.codes == cell
        assert choose.seen[0][cell].tolist() == [long[mine].sum(), (~long[mine]).sum()]


def test_a_record_moves_one_count_by_one_and_the_scaled_sum_by_its_weight(bench):
    bench.X[3] = float("nan")
    weights, norms = (0.02, 0.5), (2.0, 0.5)
    full = Chooser(*norms)
    gradient, given = bench.release().adaptive_gradient(counted(bench, weights=weights), 1.0, full)
    gradient = gradient.clone()
    assert given.tolist() == list(norms)
    bound_met = False
    for row in range(len(bench.codes)):
        part = Chooser(*norms)
        moved, _ = bench.release(without(bench, row)).adaptive_gradient(
            counted(bench, weights=weights), 1.0, part
        )
        assert np.abs(full.seen[0] - part.seen[0]).sum() == 1.0
        # The plan promises a sensitivity of one weight in units of the largest norm.
        cell = bench.codes[row]
        allowed = weights[cell] * norms[cell]
        assert float((gradient - moved).norm()) <= allowed * (1 + 1e-9)
        bound_met |= float((gradient - moved).norm()) >= 0.99 * allowed
    assert bound_met


@pytest.mark.parametrize(
    ("norms", "present"),
    [
        *(((1.0, 3.0), present) for present in ((0, 1), (0,), (1,), ())),
        ((3.0, 1.0), (1,)),
        ((0.2, 0.2), (0, 1)),
    ],
    ids=str,
)
def test_noise_follows_the_largest_norm_of_all_cells_whoever_is_there(norms, present):
    bench = Bench(n=12)
    codes = np.where(np.isin(bench.codes, present), bench.codes, -1)
    std = 0.05
    exact, _ = bench.release(codes).adaptive_gradient(counted(bench), 1.0, Chooser(*norms))
    release, exact = bench.release(codes), exact.clone()
    drawn = [
        release.adaptive_gradient(counted(bench, (0.7, std)), 1.0, Chooser(*norms))[0] - exact
        for _ in range(100)
    ]
    noise_is(torch.stack(drawn).numpy(), std * max(norms))


def test_counts_carry_the_gaussian_noise_of_the_plan(bench):
    exact, noisy = Chooser(1.0, 1.0), Chooser(1.0, 1.0)
    bench.release().adaptive_gradient(counted(bench), 1.0, exact)
    release = bench.release()
    for _ in range(250):
        release.adaptive_gradient(counted(bench, (4.0, 0.1)), 1.0, noisy)
    noise_is(np.stack(noisy.seen) - exact.seen[0], 4.0)


def test_counts_and_gradient_read_one_batch():
    bench = bench_of(lambda: nn.Linear(4, 1), n=200, scale=1e-3)
    with torch.no_grad():
        bench.flat.vector.zero_()
    bench.y.zero_()
    release, choose = bench.release(), Chooser(1e6, 1e6)
    for _ in range(20):
        gradient, _ = release.adaptive_gradient(counted(bench, rate=0.3), 1.0, choose)
        drawn = choose.seen[-1].sum()
        assert float(gradient[-1]) == pytest.approx(0.1 * 0.5 * drawn, rel=1e-9)
        assert 0 < drawn < 200
