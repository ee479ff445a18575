"""Figures in print: an upper bound is rounded up, a lower one down, a setting not at all.

What is printed, read as a float, is never on the wrong side of what was computed.
"""

from __future__ import annotations

import math
import re
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext


def rounded_up(value: float, digits: int = 3) -> str:
    """Print a number with `digits` decimals, never smaller than it is.

    `value`: a number, such as an upper bound; infinity is printed as ∞.

    Examples
    --------
    >>> from skfairdp.figures import rounded_up
    >>> rounded_up(0.3), rounded_up(0.30001)
    ('0.300', '0.301')
    """
    return _fixed(value, digits, ROUND_CEILING)


def rounded_down(value: float, digits: int = 3) -> str:
    """Print a number with `digits` decimals, never larger than it is; see `rounded_up`."""
    return _fixed(value, digits, ROUND_FLOOR)


def significant_up(value: float, digits: int = 6) -> str:
    """Print at most `digits` significant digits of a number, never less than it is.

    `value`: a number, such as an upper bound; infinity is printed as ∞. Result: as people write
    it: 1e-6 and not 1e-06.

    Examples
    --------
    >>> from skfairdp.figures import significant_up
    >>> significant_up(1e-6), significant_up(2.7139, 3)
    ('1e-6', '2.72')
    """
    return _significant(value, digits, ROUND_CEILING)


def significant_down(value: float, digits: int = 6) -> str:
    """Print at most `digits` significant digits, never more than it is; see `significant_up`."""
    return _significant(value, digits, ROUND_FLOOR)


def as_given(value: float) -> str:
    """Print a setting with all of its digits, and none that it doesn't have.

    `value`: the number; infinity is printed as ∞. Result: read as a float, it is `value`.

    Examples
    --------
    >>> from skfairdp.figures import as_given
    >>> as_given(1.0), as_given(1e-06), as_given(0.1)
    ('1', '1e-6', '0.1')
    """
    return _plain(repr(float(value)).removesuffix(".0")) if math.isfinite(value) else _other(value)


def epsilon_text(epsilon: float) -> str:
    """Print epsilon with up to four decimals, rounded up.

    Examples
    --------
    >>> from skfairdp.figures import epsilon_text
    >>> epsilon_text(1.0), epsilon_text(0.99841)
    ('1.0', '0.9985')
    """
    digits = rounded_up(epsilon, 4).rstrip("0")
    return f"{digits}0" if digits.endswith(".") else digits


def factor_text(epsilon: float) -> str:
    """Print the factor e^epsilon, with its figure where that can be pictured.

    Examples
    --------
    >>> from skfairdp.figures import factor_text
    >>> factor_text(0.9984), factor_text(20.0)
    ('e^ε = 2.72', 'e^ε')
    """
    if epsilon >= 10.0:
        return "e^ε"
    # The exponential is right to one unit in its last place.
    return f"e^ε = {significant_up(math.nextafter(math.exp(epsilon), math.inf), 3)}"


def percent_text(share: float) -> str:
    """Print a share in percent, with all of its digits.

    `share`: a finite number, such as a confidence level.

    Examples
    --------
    >>> from skfairdp.figures import percent_text
    >>> percent_text(0.95), percent_text(0.9999999)
    ('95 %', '99.99999 %')
    """
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
