"""Numbers as people write them in tables: amounts, percentages, and negative ones in brackets."""

from __future__ import annotations

import re

MONEY = r"(?:[$€£¥]|USD|EUR|GBP|CHF|JPY)"
# 1,234 with groups of thousands, or the digits alone.
_DIGITS = r"(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?"
# A currency before or behind, or per cent. Of digits alone it is what Python reads too.
_SIGNED = re.compile(
    rf"(?P<sign>[-+]?(?: ?{MONEY} ?)?|{MONEY} ?[-+])(?P<digits>{_DIGITS}) ?(?:{MONEY}|%)?",
    re.ASCII | re.IGNORECASE,
)
# As accountants write what is below zero.
_IN_BRACKETS = re.compile(
    rf"{MONEY}? ?\( ?{MONEY}? ?(?P<digits>{_DIGITS}) ?(?:{MONEY}|%)? ?\) ?{MONEY}?",
    re.ASCII | re.IGNORECASE,
)


def plain_number(text: str) -> str | None:
    """Write "$1,234.50" as "1234.50", "12%" as "12" and "(1,234)" as "-1234"; None for others.

    The comma groups thousands. One that separates decimals ("1,5") is no number here, but
    "1,234" is 1234 whatever it was meant for: a cell by itself cannot tell.
    """
    if (found := _SIGNED.fullmatch(text)) is not None:
        sign = "-" if "-" in found["sign"] else ""
    elif (found := _IN_BRACKETS.fullmatch(text)) is not None:
        sign = "-"
    else:
        return None
    return f"{sign}{found['digits'].replace(',', '')}"
