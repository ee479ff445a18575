"""Amounts, percentages and numbers in brackets are read; everything else is left alone."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skfairdp.records.written_numbers import plain_number


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("$1,234.50", "1234.50"),
        ("-$5", "-5"),
        ("$-5", "-5"),
        ("- € 2", "-2"),
        ("3 EUR", "3"),
        ("12%", "12"),
        ("0.5 %", "0.5"),
        ("1,234,567", "1234567"),
        ("(1,234)", "-1234"),
        ("(500)", "-500"),
        ("($1,234.50)", "-1234.50"),
        ("$ (1,234.50)", "-1234.50"),
        ("( 7 %)", "-7"),
        ("(3) EUR", "-3"),
    ],
)
def test_numbers_are_written_plainly(text: str, number: str) -> None:
    assert plain_number(text) == number


@pytest.mark.parametrize(
    "text",
    ["1,23", "12,34,567", "$", "%", "()", "1-2", "1 2", "12%%", "A1", "3/4/2026", "- 5", "--5",
     "-$-5", "(-5)", "(5", "5)", "((5))", "-(5)", "\u0663%", "(other)", "1,234,", ""],
)  # fmt: skip
def test_other_texts_are_no_numbers(text: str) -> None:
    assert plain_number(text) is None


@given(st.text(alphabet="0123456789.,+-()$% eE", max_size=12))
def test_a_text_of_plain_characters_is_what_python_reads(text: str) -> None:
    plain = plain_number(text)
    if plain is None:
        return
    read = float(plain)
    assert math.isfinite(read)
    if not set(text) & set(",()$%"):
        assert read == float(text)
