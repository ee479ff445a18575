from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from skfairdp.fairness.bounds.binomial_cells import BinomialCell, clopper_pearson
from skfairdp.fairness.bounds.binomial_pairs import CellPair
from skfairdp.fairness.bounds.rate_gaps import (
    gap_estimate,
    gap_upper_bound,
    score_gap_upper_bound,
)


@pytest.mark.parametrize(
    ("successes", "exact", "difference"),
    [([300, 250], 0.0828, 0.1047), ([30, 20], 0.0221, 0.0647)],
)
def test_reference_numbers_of_one_pair(successes, exact, difference):
    rows = [1000, 1000]
    assert gap_upper_bound(successes, rows) == pytest.approx(exact, abs=5e-5)
    bound = gap_upper_bound(successes, rows, bound="difference")
    assert bound == pytest.approx(difference, abs=5e-5)
    assert score_gap_upper_bound(successes, rows) == bound


@given(st.integers(0, 30), st.integers(1, 30), st.sampled_from([0.5, 0.05, 0.025, 1e-4]))
def test_clopper_pearson_inverts_the_binomial_tails(k, n, error):
    k = min(k, n)
    lower, upper = clopper_pearson(k, n - k, error)
    if k == n:
        assert upper == 1.0
    else:
        assert stats.binom.cdf(k, n, upper) == pytest.approx(error, rel=1e-6)
    if k == 0:
        assert lower == 0.0
    else:
        assert stats.binom.sf(k - 1, n, lower) == pytest.approx(error, rel=1e-6)


cells = st.integers(2, 3).flatmap(
    lambda groups: st.lists(
        st.lists(
            st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=groups, max_size=groups
        ),
        min_size=1,
        max_size=2,
    )
)


@pytest.mark.slow
@given(cells, st.sampled_from(["exact", "difference"]), st.sampled_from([0.8, 0.95]))
@settings(max_examples=30)
def test_bound_is_the_slow_maximum_over_ordered_pairs_and_strata(table, form, level):
    successes = np.array([[cell[0] for cell in row] for row in table])
    rows = successes + np.array([[cell[1] for cell in row] for row in table])
    alpha = 1 - level
    worst = 0.0
    for k, n in zip(successes, rows, strict=True):
        for u in range(len(n)):
            for v in range(len(n)):
                if u == v:
                    continue
                if n[u] == 0 or n[v] == 0:
                    pair = 1.0
                elif form == "exact":
                    cells = [BinomialCell(int(k[i]), int(n[i])) for i in (u, v)]
                    pair = CellPair(*cells, alpha).bound()
                else:
                    pair = k[u] / n[u] - k[v] / n[v]
                    pair += np.sqrt(np.log(1 / alpha) * (1 / n[u] + 1 / n[v]) / 2)
                worst = max(worst, min(1.0, float(pair)))
    found = gap_upper_bound(successes, rows, confidence_level=level, bound=form)
    assert found == pytest.approx(worst, abs=1e-12 if form == "difference" else 1e-4)
    estimate = gap_estimate(successes, rows)
    assert estimate is None or estimate <= found


@pytest.mark.parametrize("bound", ["exact", "difference"])
def test_a_cell_without_rows_allows_any_difference(bound):
    assert gap_upper_bound([500, 0], [1000, 0], bound=bound) == 1.0
    assert gap_upper_bound([[5, 5], [5, 0]], [[10, 10], [10, 0]], bound=bound) == 1.0


def test_leading_axes_are_separate_problems():
    successes = np.array([[[3, 5], [1, 9]], [[4, 4], [5, 5]]])
    rows = np.full_like(successes, 10)
    batch = gap_upper_bound(successes, rows)
    assert batch.shape == (2,)
    assert batch.tolist() == [gap_upper_bound(k, n) for k, n in zip(successes, rows, strict=True)]


def test_estimate_needs_two_groups_with_rows():
    assert gap_estimate([[3, 0]], [[10, 0]]) is None
    assert gap_estimate([[3, 0], [1, 2]], [[10, 0], [10, 10]]) == pytest.approx(0.1)


def test_more_confidence_widens_the_bound():
    bounds = [gap_upper_bound([30, 20], [99, 99], confidence_level=c) for c in (0.5, 0.9, 0.99)]
    assert bounds == sorted(bounds)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (([1], [2]), "2 groups"),
        (([3, 1], [2, 2]), "successes <= trials"),
        (([-1, 1], [2, 2]), "successes <= trials"),
        (([1, 1], [2, 2, 2]), "shapes"),
    ],
)
def test_impossible_counts_are_refused(arguments, match):
    with pytest.raises(ValueError, match=match):
        gap_upper_bound(*arguments)


@pytest.mark.parametrize("level", [0.0, 1.0, 95])
def test_confidence_level_must_be_a_probability(level):
    with pytest.raises(ValueError, match="confidence_level"):
        gap_upper_bound([1, 1], [2, 2], confidence_level=level)


def test_unknown_form_is_refused():
    with pytest.raises(ValueError, match=r"'exact' \| 'difference'"):
        gap_upper_bound([1, 1], [2, 2], bound="asymptotic")


@pytest.mark.parametrize(("p", "n"), [(0.5, 12), (0.1, 15)])
def test_level_is_kept_exactly_for_two_small_groups(p, n):
    """Enumerate all outcomes of two groups with equal rates: the failure probability is exact."""
    k = np.arange(n + 1)
    weight = stats.binom.pmf(k, n, p)
    pairs = np.stack(np.meshgrid(k, k, indexing="ij"), axis=-1)[:, :, np.newaxis, :]
    bounds = gap_upper_bound(
        pairs, np.full_like(pairs, n), bound="difference", confidence_level=0.9
    )

    # A true gap: p against the rate that makes the bound fail most often.
    def failure(q):
        other = stats.binom.pmf(k, n, q)
        return float((weight[:, None] * other[None, :] * (bounds < abs(p - q))).sum())

    worst = max(failure(q) for q in np.linspace(0.001, 0.999, 201))
    assert worst <= 0.1
