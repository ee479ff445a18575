"""Figures in print, and labels in JSON.

In print an upper bound is rounded up, a lower one down, a setting not at all: the printed number,
read as a float, is never on the wrong side of the computed one. In JSON labels of groups are
read back as they were.
"""

from __future__ import annotations

import math
import re
from collections.abc import Hashable
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext
from typing import Any

from skfairdp.foundation.parameters import plain_label


def rounded_up(value: float, digits: int = 3) -> str:
    """Print a number with `digits` decimals, never smaller than it is; infinity as ∞."""
    return _fixed(value, digits, ROUND_CEILING)


def rounded_down(value: float, digits: int = 3) -> str:
    """Print a number with `digits` decimals, never larger than it is; see `rounded_up`."""
    return _fixed(value, digits, ROUND_FLOOR)


def significant_up(value: float, digits: int = 6) -> str:
    """Print at most `digits` significant digits, never less than the number; 1e-6, not 1e-06."""
    return _significant(value, digits, ROUND_CEILING)


def significant_down(value: float, digits: int = 6) -> str:
    """Print at most `digits` significant digits, never more than it is; see `significant_up`."""
    return _significant(value, digits, ROUND_FLOOR)


def as_given(value: float) -> str:
    """Print a setting so that it is read as the same float: 1, 1e-6, 0.1."""
    return _plain(repr(float(value)).removesuffix(".0")) if math.isfinite(value) else _other(value)


def epsilon_text(epsilon: float) -> str:
    """Print epsilon with up to four decimals, rounded up: 1.0, 0.9985."""
    digits = rounded_up(epsilon, 4).rstrip("0")
    return f"{digits}0" if digits.endswith(".") else digits


def factor_text(epsilon: float) -> str:
    """Print the factor e^epsilon, with its figure where that can be pictured."""
    if epsilon >= 10.0:
        return "e^ε"
    # The exponential is right to one unit in its last place.
    return f"e^ε = {significant_up(math.nextafter(math.exp(epsilon), math.inf), 3)}"


def percent_text(share: float) -> str:
    """Print a finite share in percent, with all of its digits."""
    return f"{(_shortest(share) * 100).normalize():f} %"


def _fixed(value: float, digits: int, rounding: str) -> str:
    if not math.isfinite(value):
        return _other(value)
    with localcontext(prec=350, rounding=rounding):
        return f"{_shortest(value).quantize(Decimal(1).scaleb(-digits)):f}"


def _significant(value: float, digits: int, rounding: str) -> str:
    if not math.isfinite(value):
        return _other(value)
    with localcontext(prec=digits, rounding=rounding):
        return _plain(f"{float(+_shortest(value)):.{digits}g}")


def _shortest(value: float) -> Decimal:
    """The shortest decimal that is read as this float; in full it has some 50 digits more."""
    return Decimal(repr(float(value)))


def _plain(text: str) -> str:
    return re.sub(r"e([+-])0*", r"e\1", text).replace("e+", "e")


def _other(value: float) -> str:
    return "not a number" if math.isnan(value) else "∞" if value > 0 else "-∞"


def label_to_json(label: Hashable) -> Any:
    """Write a group label; an intersection (a tuple) becomes a list."""
    label = plain_label(label)
    if isinstance(label, tuple):
        return [label_to_json(part) for part in label]
    if isinstance(label, float) and not math.isfinite(label):
        raise ValueError(f"cannot write the group label {label!r}: give finite numbers")
    if isinstance(label, str) and any("\ud800" <= letter <= "\udfff" for letter in label):
        raise ValueError(f"cannot write the group label {label!a}: give text in Unicode")
    if label is None or isinstance(label, (str, bool, int, float)):
        return label
    raise ValueError(
        f"cannot write a group label of type {type(label).__name__}: use str, bool, int or float"
    )


def label_from_json(document: Any) -> Hashable:
    if isinstance(document, list):
        return tuple(label_from_json(part) for part in document)
    label: Hashable = document
    return label
