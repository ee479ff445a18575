"""The published filter does what was published, which is why it may not be certified."""

from __future__ import annotations

import numpy as np
import pytest

from skfairdp.exceptions import SkfairdpError
from skfairdp.preprocessing.sequential_filter import SequentialParityFilter

STREAM = ["00", "01", "10", "11", "00", "10", "00", "00", "00"]  # group, label


def kept(stream: list[str], **settings: float) -> list[int]:
    groups, labels = ([pair[place] for pair in stream] for place in (0, 1))
    chosen = SequentialParityFilter(**settings).select(groups, labels)
    return np.flatnonzero(chosen).tolist()


def test_one_record_changes_more_others_than_the_published_factor_allows():
    settings = {"tolerance": 0.2, "cold_start": 2}
    whole = kept(STREAM, **settings)
    without = kept(STREAM[:5] + STREAM[6:], **settings)
    assert whole == list(range(9))
    assert without == list(range(5))
    published = 2 + np.ceil(2 * 0.2 / (1 - 0.2))
    # Record 5 itself and the three after it.
    assert len(whole) - len(without) == 4 > published == 3


def test_the_cold_start_keeps_everything_and_the_margin_decides_after_it():
    stream = ["00", "00", "11", "11", "00", "11"]
    assert kept(stream, tolerance=0.0, cold_start=2) == [0, 1, 2, 3]
    assert kept(stream, tolerance=0.0, cold_start=3) == [0, 1, 2, 3, 4, 5]
    assert kept(stream, tolerance=1.0, cold_start=1) == [0, 1, 2, 3, 4, 5]


def test_one_group_alone_is_never_refused():
    assert kept(["00", "01", "00"], tolerance=0.0, cold_start=1) == [0, 1, 2]


def test_it_refuses_to_be_certified():
    with pytest.raises(SkfairdpError, match="no privacy guarantee.*PrivateThinningClassifier"):
        SequentialParityFilter(tolerance=0.2, cold_start=2).certify(epsilon=1.0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tolerance": 1.5, "cold_start": 2}, "'tolerance'.*1.5"),
        ({"tolerance": 0.1, "cold_start": 0}, "'cold_start'.*0"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        SequentialParityFilter(**settings)
