"""Printed figures are never on the wrong side of what was computed."""

from __future__ import annotations

import ast
import dataclasses
import math
import re
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import skfairdp
from skfairdp.certificate.sentence import certainty
from skfairdp.foundation.figures import (
    as_given,
    epsilon_text,
    factor_text,
    percent_text,
    rounded_down,
    rounded_up,
    significant_down,
    significant_up,
)

MANY = settings(max_examples=400, derandomize=True, deadline=None)
FIGURES = st.floats(0.0, 1e9) | st.floats(0.0, 2.0) | st.floats(1e-30, 1e-3)


@MANY
@given(FIGURES, st.integers(1, 8))
@example(0.1 + 0.2, 4)
@example(math.nextafter(1.0, 2.0), 3)
@example(2.999, 3)
def test_what_is_printed_is_on_the_right_side_and_near(value, digits):
    up, down = float(rounded_up(value, digits)), float(rounded_down(value, digits))
    assert down <= value <= up
    assert up - down <= 1.001 * 10.0**-digits + 1e-15 * value
    up, down = float(significant_up(value, digits)), float(significant_down(value, digits))
    assert down <= value <= up
    assert up - down <= value * 10.0 ** (1 - digits) * 1.001


@MANY
@given(FIGURES)
@example(1e-6)
@example(5e-324)
def test_a_setting_is_printed_as_it_is(value):
    assert float(as_given(value)) == value
    assert float(as_given(value).replace("e-", "e-0")) == value


@MANY
@given(st.floats(0.0, 10.0, exclude_max=True))
@example(0.9984)
def test_the_factor_is_never_below_the_exponential(epsilon):
    (figure,) = re.findall(r"= (\S+)$", factor_text(epsilon))
    assert float(figure) >= math.exp(epsilon)
    assert float(figure) <= math.exp(epsilon) * 1.0101
    assert float(epsilon_text(epsilon)) >= epsilon


def test_small_things():
    assert factor_text(0.9984) == "e^ε = 2.72"  # and not 2.71
    assert (as_given(1.0), as_given(1e-6), as_given(1e22)) == ("1", "1e-6", "1e22")
    assert percent_text(0.999999999) == "99.9999999 %"  # and not 100
    assert (epsilon_text(math.inf), rounded_up(math.nan)) == ("∞", "not a number")


ROUNDED = re.compile(r"\.\d+[feg%]$|^[feg]$")


def bounds_rounded_to_nearest(path: Path) -> list[str]:
    """Formats like ``{epsilon:.4g}`` whose name is that of a bound."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.FormattedValue) or node.format_spec is None:
            continue
        spec = ast.unparse(node.format_spec)[2:-1]
        name = ast.unparse(node.value)
        bound = re.search(r"epsilon|delta|bound|exp\(|price|budget", name)
        if ROUNDED.search(spec) and bound:
            found.append(f"{path.name}:{node.lineno} {{{name}:{spec}}}")
    return found


# Messages about settings that were refused, which promise nothing.
REFUSALS = {
    "engine/moment_sums.py",
    "inprocessing/fairdp/classifier.py",
    "inprocessing/fermi.py",
    "inprocessing/budgeted.py",
    "model_selection/budget.py",
    "model_selection/search.py",
}


def test_no_bound_in_the_package_is_rounded_to_the_nearest():
    package = Path(skfairdp.__file__).parent
    found = {
        path.relative_to(package).as_posix(): lines
        for path in sorted(package.rglob("*.py"))
        if (lines := bounds_rounded_to_nearest(path))
    }
    assert set(found) == REFUSALS, found


def test_a_bound_rounded_to_the_nearest_is_seen(tmp_path):
    bad = tmp_path / "bad.py"
    bad.write_text("def f(epsilon, n):\n    return f'at most {epsilon:.3g} of {n:.3g}'\n")
    assert bounds_rounded_to_nearest(bad) == ["bad.py:2 {epsilon:.3g}"]


@pytest.mark.parametrize("level", [0.95, 0.9999999])
def test_a_confidence_is_printed_with_all_its_digits(level):
    @dataclasses.dataclass
    class Claim:
        confidence_level: float

    printed = float(certainty(Claim(level)).removesuffix(" % confidence"))
    assert printed == pytest.approx(100 * level, rel=1e-14)
    assert printed < 100.0
