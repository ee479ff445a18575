"""Tests of the label of an abstention, by the type of the classes."""

from __future__ import annotations

import numpy as np
import pytest

from skfairdp.postprocessing.passing_groups import abstention_marker


@pytest.mark.parametrize(
    ("classes", "marker"),
    [
        ([0, 1], -1),
        ([-1, 1], -2),
        ([-3, 2], -1),
        ([-3, -1, 5], -4),
        ([0.0, 1.0], -1.0),
        (np.array([0, 1], dtype=np.int8), -1),
        (np.array([-128, -1], dtype=np.int8), 0),
        (np.array([0, 7], dtype=np.uint8), 8),
        (["no", "yes"], "abstained"),
        (np.array(["no", "yes"], dtype=object), "abstained"),
        (np.array([0, 1], dtype=object), -1),
    ],
)
def test_auto_is_no_class_and_can_be_stored(classes, marker) -> None:
    classes = np.asarray(classes)
    found, dtype = abstention_marker(classes)
    assert found == marker
    assert dtype.kind == classes.dtype.kind
    assert np.full(2, found, dtype=dtype).tolist() == [found, found]
    assert dtype == classes.dtype or dtype.kind == "U"


@pytest.mark.parametrize(
    ("classes", "label", "match"),
    [
        ([0, 1], 1, "is one of the classes"),
        (["no", "abstained"], "auto", "is one of the classes"),
        (["no", "yes"], "no", "is one of the classes"),
        ([0, 1], "none", "cannot be stored among labels of dtype int64"),
        ([0, 1], 0.5, "cannot be stored"),
        ([0, 1], None, "cannot be stored"),
        (["no", "yes"], -1, "cannot be stored"),
        ([False, True], "auto", "cannot be stored among labels of dtype bool"),
        (np.array([0, 255], dtype=np.uint8), "auto", "cannot be stored"),
    ],
)
def test_impossible_labels_are_refused(classes, label, match) -> None:
    with pytest.raises(ValueError, match=match):
        abstention_marker(np.asarray(classes), label)


def test_explicit_labels_are_taken() -> None:
    assert abstention_marker(np.array([0, 1]), 9) == (9, np.dtype("int64"))
    assert abstention_marker(np.array(["a", "b"]), "nobody")[1] == np.dtype("<U6")
