from __future__ import annotations

import pytest

from skfairdp import certifiable
from skfairdp.fairness.bounds.rate_gaps import gap_upper_bound
from skfairdp.fairness.guarantee import CellCount, FairnessGuarantee


def test_smallest_tolerance_is_the_bound_of_equal_rates():
    found = certifiable([200, 300], rate=0.2)
    assert found.smallest == gap_upper_bound([40, 60], [200, 300])
    assert found.possible
    assert certifiable([200, 0]).smallest == 1.0


@pytest.mark.parametrize("tolerance", [0.3, 0.1, 0.03])
def test_rows_needed_are_enough_and_a_tenth_fewer_are_not(tolerance):
    found = certifiable([5, 5], tolerance)
    assert not found.possible
    assert certifiable([found.rows_needed] * 2, tolerance).possible
    assert not certifiable([found.rows_needed * 9 // 10] * 2, tolerance).possible


def test_the_group_that_is_too_small_is_named_with_what_to_do():
    found = certifiable({"a": 900, "b": 800, "rare": 12}, 0.1)
    assert found.too_small == ("rare",)
    assert "rare" in str(found)
    assert "merge" in str(found)


def test_an_unreachable_tolerance_is_said_to_be_so():
    found = certifiable([50, 50], 1e-5)
    assert found.rows_needed is None
    assert "more than ten million" in str(found)


def test_claims_share_the_error():
    assert certifiable([99, 99], n_claims=3).smallest > certifiable([99, 99]).smallest


@pytest.mark.parametrize(
    ("sizes", "options", "match"),
    [
        ([5], {}, "two groups"),
        ([5, -1], {}, ">= 0"),
        ([5, 2.5], {}, "whole"),
        ([5, 5], {"tolerance": 1.5}, "tolerance"),
        ([5, 5], {"rate": -0.1}, "rate"),
    ],
)
def test_impossible_arguments_are_refused(sizes, options, match):
    with pytest.raises(ValueError, match=match):
        certifiable(sizes, **options)


def claim(hits, rows, bound):
    counts = tuple(CellCount(g, "", k, n) for g, k, n in zip("ab", hits, rows, strict=True))
    return FairnessGuarantee(
        "demographic_parity",
        bound,
        "deployed model",
        "exact",
        confidence_level=0.95,
        groups=("a", "b"),
        counts=counts,
    )


def test_a_useless_bound_says_what_would_help():
    few = claim([2, 2], [4, 4], 0.7)
    assert few.figure == "no useful bound"
    assert few.bound == 0.7
    assert "rows in each group" in few.remedy
    far = claim([900, 100], [1000, 1000], 0.83)
    assert "more rows alone would not help" in far.remedy
    assert claim([2, 2], [40, 40], 0.2).remedy == ""
