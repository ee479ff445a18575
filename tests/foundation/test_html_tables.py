"""Tables as HTML: every cell is named for those who hear the page."""

from __future__ import annotations

import re

from skfairdp.foundation.html_tables import html_table


def test_a_table_has_a_name_and_every_heading_a_scope_and_a_text() -> None:
    table = html_table("Sizes", ("group", "rows"), [("a", "3"), ("<b>", "4")])
    assert table.startswith("<table><caption>Sizes</caption>")
    headings = re.findall(r"<th scope='(col|row)'>([^<]+)</th>", table)
    assert headings == [("col", "group"), ("col", "rows"), ("row", "a"), ("row", "&lt;b&gt;")]
    assert len(headings) == table.count("<th ")
    assert re.findall(r"<td>([^<]*)</td>", table) == ["3", "4"]
