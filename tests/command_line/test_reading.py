"""Amounts, percentages and declared dates of features are read as numbers and dates."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from skfairdp.command_line.parsing import _parser
from skfairdp.command_line.reading import as_read, looks_like_a_date, read_rows
from skfairdp.command_line.request import Request
from skfairdp.command_line.table import people_of
from skfairdp.preprocessing.cells import days, read_cells


def numbers(*cells: str | None) -> list[float]:
    return read_cells(as_read(pd.Series(cells, dtype=object), None)).numbers.tolist()


AMOUNTS = {"$1,234": 1234.0, "1,234.50": 1234.5, "(1,234)": -1234.0, "12%": 12.0}


def test_amounts_are_the_same_numbers_in_the_command_and_in_python(tmp_path: Path) -> None:
    assert numbers(*AMOUNTS) == [*AMOUNTS.values()]
    table = pd.DataFrame({"balance": [*AMOUNTS]})
    table.to_parquet(tmp_path / "t.parquet")
    table.to_csv(tmp_path / "t.csv", index=False)
    for name in ("t.parquet", "t.csv"):
        column = read_rows(tmp_path / name, ())["balance"]
        assert read_cells(column).numbers.tolist() == [*AMOUNTS.values()]
        assert read_cells(as_read(column, None)).numbers.tolist() == [*AMOUNTS.values()]


def test_commas_that_separate_decimals_are_read_where_semicolons_separate_cells(
    tmp_path: Path,
) -> None:
    cells = ["1.234,50 €", "(1.234,5)", "€ -2,25", "12,5 %", "1,234", "3", "Haus 3,5"]
    (tmp_path / "t.csv").write_text("a;b\n" + "".join(f"{c};x\n" for c in cells), "utf-8")
    read = numbers(*read_rows(tmp_path / "t.csv", ())["a"])
    assert read[:-1] == [1234.5, -1234.5, -2.25, 12.5, 1.234, 3.0]
    assert np.isnan(read[-1])


def test_other_texts_stay_as_they_are() -> None:
    cells = ["1,23", "12,34,567", "(-5)", "1 2", "12%%", "A1", "3/4/2026", " b ", "(other)"]
    assert as_read(pd.Series(cells, dtype=object), None).tolist() == cells


@pytest.mark.parametrize(
    ("dates", "first"), [("month-first", "2026-03-04"), ("day-first", "2026-04-03")]
)
def test_dates_follow_the_declared_order(dates: str, first: str) -> None:
    column = pd.Series(
        ["3/4/2026", "3-4-2026 10:00", "2026-01-02", "31/31/2026", None], dtype=object
    )
    read = read_cells(as_read(column, dates))
    known = days(read)
    expected = np.array([first, first, "2026-01-02"], dtype="datetime64[D]").astype(float)
    assert known[:3].tolist() == expected.tolist()
    assert np.isnan(known[3:]).all()


@pytest.mark.parametrize("dates", [None, "day-first"])
def test_each_cell_is_read_alone(dates: str | None) -> None:
    numbers = ["7", "+5", " 5", "5 ", "- 5", "--5", "-5", "+ 5", "007", "1e5", "5."]
    cells = [
        "$1,234",
        "(1,234)",
        "(5)",
        " (5) ",
        "x",
        "12%",
        None,
        "3/4/2026",
        "3-4-2026",
        *numbers,
    ]
    together = as_read(pd.Series(cells, dtype=object), dates).tolist()
    alone = [as_read(pd.Series([cell], dtype=object), dates).tolist()[0] for cell in cells]
    assert together == alone
    # Without the amounts, the others are a column of numbers alone.
    assert as_read(pd.Series(numbers, dtype=object), dates).tolist() == together[-len(numbers) :]


@pytest.mark.parametrize("name", ["date", "Opened_Date", "DOB", "Geburtsdatum", "fecha de alta"])
def test_names_of_dates_are_recognised(name: str) -> None:
    assert looks_like_a_date(name)
    assert not looks_like_a_date("update_count")
    assert not looks_like_a_date("candidates")


def people(folder: Path, *more: str):
    n = 40
    rows = pd.DataFrame(
        {
            "income": [f"${1_000 + 37 * i:,}" for i in range(n)],
            "rate": [f"{i}%" for i in range(n)],
            "band": ["5%", "10%"] * (n // 2),
            "opened": [f"{1 + i % 12}/28/2026" for i in range(n)],
            "sex": ["f", "m"] * (n // 2),
            "paid": ["yes", "yes", "no", "no"] * (n // 4),
        }
    )
    rows.to_csv(folder / "t.csv", index=False)
    asked = f"report {folder}/t.csv --target paid --positive yes --sensitive sex --epsilon 1"
    request = Request.of(_parser().parse_args([*asked.split(), *more]))
    public = None if request.bounds_are_public else (request.target, *request.sensitive)
    schema = {"band": {"categories": ("5%", "10%")}, "income": {"bounds": (0.0, 5e3)}}
    return people_of(read_rows(request.data, inferred=public), request, schema)


def test_features_are_read_and_declared_categories_are_left_alone(tmp_path: Path) -> None:
    found = people(tmp_path, "--dates", "month-first")
    assert found.X["income"].tolist()[:2] == [1000.0, 1037.0]
    assert read_cells(found.X["rate"]).numbers.tolist()[:3] == [0.0, 1.0, 2.0]
    assert found.X["band"].tolist()[:2] == ["5%", "10%"]
    assert not np.isnan(days(read_cells(found.X["opened"]))).any()
    assert np.isnan(days(read_cells(people(tmp_path).X["opened"]))).all()


def test_public_bounds_are_those_of_the_amounts(tmp_path: Path) -> None:
    found = people(tmp_path, "--bounds-are-public")
    assert found.declared["rate"] == (0.0, 39.0)
