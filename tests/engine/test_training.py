from __future__ import annotations

import pytest

from skfairdp.engine.training import schedule_factors


def test_pairs_set_the_factor_from_a_fraction_on_in_any_order():
    assert schedule_factors([(0.5, 0.1), (0, 2)], 4) == [2.0, 2.0, 0.1, 0.1]


@pytest.mark.parametrize(
    "bad", ["fast", 3, [1, 2], [(0.5,)], [(2, 1)], [(0, 0)], [("a", 1)], [(0, float("nan"))]]
)
def test_other_schedules_are_refused_with_what_is_allowed(bad):
    with pytest.raises(ValueError, match="learning_rate_schedule.*sequence of pairs"):
        schedule_factors(bad, 4)
