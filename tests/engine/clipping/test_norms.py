"""Margins for the rounding of sums, which no plan may exceed."""

from __future__ import annotations

import pytest
import torch

from skfairdp.engine.clipping.norms import (
    refuse_unbounded_sums,
    rounding_margin,
    row_capacity,
    sum_margin,
)
from skfairdp.privacy.sizes import Sizes


def test_far_more_rows_than_were_declared_are_refused_without_their_number() -> None:
    assert row_capacity(1000.0, 2**16) == 2**16
    assert row_capacity(20_000.0, 80_000) == 80_000
    with pytest.raises(ValueError, match="more than 65,536 rows; where 1,000 were declared") as e:
        row_capacity(1000.0, 77_123)
    assert "77" not in str(e.value)


def test_weights_that_differ_too_much_for_the_rounding_are_refused() -> None:
    assert 0.0 < sum_margin(96, 2**16, (1.0, 1e-3)) < sum_margin(96, 2**16, (1.0, 1e-4)) < 1e-3
    # A cell without weight is in no sum.
    assert sum_margin(96, 2**16, (1.0, 0.0)) == sum_margin(96, 2**16, (1.0,))
    assert sum_margin(96, 2**16, (0.0, 0.0)) == 0.0
    with pytest.raises(ValueError, match="could be lost in rounding"):
        sum_margin(96, 2**32, (1.0, 1e-9))


def test_the_margin_of_persons_is_wider_and_a_plan_is_refused_as_a_whole() -> None:
    assert sum_margin(96, 2**16, (1.0,), of_persons=1e-12) > sum_margin(96, 2**16, (1.0,))
    sizes = Sizes(("a", "b"), (10**6, 10), "add-remove")
    plan = sizes.plan(
        sizes.whole(("gradient", 1.0, 1.0), weights=(1e-12, 1.0)), delta=1e-8, exact_noise=True
    )
    with pytest.raises(ValueError, match="could be lost in rounding"):
        refuse_unbounded_sums(plan, 10**6)


def test_a_layer_too_wide_for_the_dtype_of_the_module_is_refused() -> None:
    assert rounding_margin(torch.float32, 1000) < 1e-4
    with pytest.raises(ValueError, match="Use a float64 module or smaller layers"):
        rounding_margin(torch.float32, 2**24)
