"""Print the figures of docs/results/certificate_bound.md: widths, coverage, times."""

from __future__ import annotations

import time

import numpy as np
from scipy import stats

from skfairdp.fairness.bounds.binomial_cells import BinomialCell, clopper_pearson
from skfairdp.fairness.bounds.binomial_pairs import CellPair
from skfairdp.fairness.bounds.noisy_counts import NoisyCells, private_gap_upper_bound
from skfairdp.fairness.bounds.rate_gaps import gap_upper_bound, largest_gap_bound

ALPHA = 0.05


def noisy(hits, sizes, epsilon):
    """Bound from noisy counts of 1,000 rows a group whose noise is 0; `sizes`: None if private."""
    hits, one = np.array([hits]), np.array([1])
    known = None if sizes is None else np.full((1, 2), sizes)
    return private_gap_upper_bound(NoisyCells(hits, 1000 - hits, one, one, known), epsilon)


def exact(y, n, z, m):
    return CellPair(BinomialCell(y, n), BinomialCell(z, m), ALPHA).bound()


def rectangle(y, n, z, m):
    upper = clopper_pearson(y, n - y, ALPHA / 2)[1]
    return float(upper - clopper_pearson(z, m - z, ALPHA / 2)[0])


def score(y, n, z, m):
    """Miettinen and Nurminen's limit: asymptotic, and so no guarantee."""
    low, high = y / n - z / m, 1.0
    for _ in range(40):
        d = (low + high) / 2
        q = (1 - d) * np.sin(np.linspace(1e-6, np.pi / 2 - 1e-6, 20_001)) ** 2
        p = q + d
        likelihood = y * np.log(p) + (n - y) * np.log1p(-p) + z * np.log(q) + (m - z) * np.log1p(-q)
        p, q = p[likelihood.argmax()], q[likelihood.argmax()]
        spread = np.sqrt((p * (1 - p) / n + q * (1 - q) / m) * (n + m) / (n + m - 1))
        kept = (y / n - z / m - d) / spread >= stats.norm.ppf(ALPHA)
        low, high = (d, high) if kept else (low, d)
    return high


def worst_miss(n, m):
    """Largest probability, over pairs of rates, that a bound lies below their difference."""
    bounds = np.array([[exact(y, n, z, m) for z in range(m + 1)] for y in range(n + 1)])
    worst = 0.0
    for value in np.unique(bounds[bounds < 1.0]):
        d = value + 1e-9
        q = (1.0 - d) * np.sin(np.linspace(0.0, np.pi / 2, 257)) ** 2
        first = stats.binom.pmf(np.arange(n + 1), n, np.minimum(q + d, 1.0)[:, None])
        second = stats.binom.pmf(np.arange(m + 1), m, q[:, None])
        chance = np.einsum("ij,jk,ik->i", first, (bounds <= value).astype(float), second)
        worst = max(worst, float(chance.max()))
    return worst


def main() -> None:
    print("| rows | successes | exact | rectangle | asymptotic score | exact / score |")
    print("|---|---|---|---|---|---|")
    for n, m, y, z in (
        *((30, 30, k, k) for k in (3, 9, 15)),
        *((100, 100, k, k) for k in (0, 1, 5, 30, 50)),
        (100, 100, 30, 20),
        *((100, 400, k, 4 * k) for k in (1, 30)),
        *((1_000, 1_000, k, j) for k, j in ((1, 1), (30, 20), (300, 300), (300, 250))),
        (10_000, 10_000, 3_000, 3_000),
    ):
        found, before, asymptotic = exact(y, n, z, m), rectangle(y, n, z, m), score(y, n, z, m)
        print(
            f"| {n:,}, {m:,} | {y:,}, {z:,} | {found:.4f} | {before:.4f} | {asymptotic:.4f} | "
            f"{found / asymptotic:.3f} |"
        )
    print("\n| rows | worst probability of a miss |")
    print("|---|---|")
    for n, m in ((5, 5), (12, 12), (30, 30), (40, 10), (10, 40)):
        print(f"| {n}, {m} | {worst_miss(n, m):.5f} |")
    print("\n| ε | public sizes | private sizes |\n|---|---|---|")
    for epsilon in (0.05, 0.1, 0.3, 1.0, 5.0):
        shown = [noisy([k, j], n, epsilon) for n in (1000, None) for k, j in ((300, 250), (30, 20))]
        print(
            f"| {epsilon:g} | {shown[0]:.4f} ({shown[1]:.4f}) | {shown[2]:.4f} ({shown[3]:.4f}) |"
        )
    rng = np.random.default_rng(0)
    equal = np.full((3, 20), 1000)
    print("\n| 20 groups, 3 strata | bound | CPU seconds |")
    print("|---|---|---|")
    for name, rows, rates in (
        ("1,000 rows each, rates .3", equal, 0.3),
        ("800 to 1,200 rows, rates .3", rng.integers(800, 1200, (3, 20)), 0.3),
        ("800 to 1,200 rows, rates .2 to .4", rng.integers(800, 1200, (3, 20)), None),
    ):
        hits = rng.binomial(rows, rng.uniform(0.2, 0.4, (3, 20)) if rates is None else rates)
        begun = time.process_time()
        cells = [
            [BinomialCell(int(k), int(n)) for k, n in zip(*stratum, strict=True)]
            for stratum in zip(hits, rows, strict=True)
        ]
        found = largest_gap_bound(cells, ALPHA)
        print(f"| {name} | {found:.4f} | {time.process_time() - begun:.2f} |")
    begun = time.process_time()
    found = gap_upper_bound([300_000, 300_000], [1_000_000, 1_000_000])
    print(
        f"\nTwo groups of a million rows: {found:.5f} in {time.process_time() - begun:.1f} "
        "CPU seconds"
    )
    hits, one, begun = np.full((1, 2), 300_000), np.array([1]), time.process_time()
    found = private_gap_upper_bound(NoisyCells(hits, 1_000_000 - hits, one, one), 1.0)
    print(f"With private sizes, epsilon 1: {found:.5f} in {time.process_time() - begun:.1f}")


if __name__ == "__main__":
    main()
