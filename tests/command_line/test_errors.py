"""Tests that no message of the command line shows a cell of a table."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from skfairdp.command_line import errors as complaint
from skfairdp.command_line import main
from skfairdp.command_line.schema import public_schema
from skfairdp.exceptions import PrivacyWarning
from tests.command_line.files import SCHEMA, report, table, written

WORD, NUMBER = "secret-4711", 471147.25
SECRETS = (WORD, "secret", "471147")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def rows(**columns: Any) -> Callable[[], None]:
    """Write the usual table with other columns."""
    return lambda: written(Path(), table().assign(**columns))


def text(content: str | bytes) -> Callable[[], None]:
    """Write something else in place of the table."""

    def write() -> None:
        written(Path())
        Path("data.csv").write_bytes(content if isinstance(content, bytes) else content.encode())

    return write


def schema(content: Any, name: str = "schema.json") -> Callable[[], None]:
    """Write something else in place of the schema."""

    def write() -> None:
        written(Path())
        Path(name).write_text(content if isinstance(content, str) else json.dumps(content))

    return write


def one(column: str, value: Any) -> np.ndarray:
    """A column with one other value."""
    values = table()[column].to_numpy(dtype=object)
    values[7] = value
    return values


LINE = f"id,{NUMBER},{WORD},car,a,1\n"
TABLE = f"id,income,debt,purpose,white,approve\n1,{NUMBER},3,{WORD},a,1\n"
SHORT = ["secret-4711"] * 3 + ["a"] * 397 + ["b"] * 400
AS_YAML = [a.replace("schema.json", "schema.yaml") for a in report()]
VERIFY = ["verify", "data.csv", "data.csv"]

BAD: dict[str, tuple[Callable[[], None], list[str]]] = {
    "no header": (text(LINE * 50), report()),
    "no header, one value twice": (text(f"{WORD},{WORD},1\n" * 50), report()),
    "no header, target is a value": (text(f"approve,white,{WORD}\n" * 50), report()),
    "a row with more fields": (text(TABLE + f"1,2,3,4,5,6,7,{WORD}\n"), report()),
    "all rows with more fields": (text(f"a,b\n{WORD},{NUMBER},1\n" * 30), report()),
    "no table": (text(b"\xff\xfe\x00" + WORD.encode()), report()),
    "another encoding": (text(TABLE.encode("utf-16")), report()),
    "an open quote": (text(TABLE + f'1,2,3,"{WORD}'), report()),
    "zero bytes": (text(f"{TABLE}\x00{WORD}\x00,1\n"), report()),
    "nothing but a line": (text(WORD), report()),
    "nothing but a header": (text(f"{WORD},approve,white\n"), report()),
    "empty": (text(""), report()),
    "three outcomes": (rows(approve=one("approve", WORD)), report()),
    "an outcome of one row": (rows(approve=[WORD, *["no"] * 799]), report()),
    "another favourable outcome": (
        rows(approve=[WORD, *["no"] * 799]),
        report("--positive", "yes"),
    ),
    "one outcome": (rows(approve=WORD), report()),
    "an outcome is missing": (rows(approve=one("approve", None)), report()),
    "a small group": (rows(white=SHORT), report()),
    "many groups": (rows(white=[f"{WORD} {i}" for i in range(800)]), report()),
    "one group": (rows(white=WORD), report()),
    "a group is missing": (rows(white=one("white", None)), report()),
    "text among numbers": (rows(income=one("income", WORD)), report()),
    "text among numbers, public": (
        rows(income=one("income", WORD)),
        report("--bounds-are-public"),
    ),
    "a number is missing": (rows(debt=one("debt", np.nan)), report()),
    "infinite, public bounds": (
        lambda: (
            rows(other=one("income", np.inf), much=NUMBER)(),
            Path("schema.json").write_text(json.dumps(SCHEMA)),
        )[0],
        report("--bounds-are-public"),
    ),
    "the schema is the table": (schema(TABLE), report()),
    "the schema is the table as YAML": (schema(TABLE + "{: [", "schema.yaml"), AS_YAML),
    "the schema is a list as YAML": (schema(f"- {WORD}\n- {NUMBER}\n", "schema.yaml"), AS_YAML),
    "the schema holds columns of values": (
        schema({"columns": {"income": [WORD, NUMBER]}}),
        report(),
    ),
    "the schema holds rows": (schema({"columns": {"income": {WORD: NUMBER}}}), report()),
    "the schema holds a value": (schema({"columns": {"income": WORD}}), report()),
    "the schema holds a word for a bound": (
        schema({"columns": {"income": {"bounds": [0, WORD]}}}),
        report(),
    ),
    "the schema holds bounds the wrong way": (
        schema({"columns": {"income": {"bounds": [NUMBER, 0]}}}),
        report(),
    ),
    "the schema is cut off": (schema(f'{{"columns": {{"income": "{WORD}'), report()),
    "the schema says a thing twice": (schema(f'{{"{WORD}": 1, "{WORD}": 2}}'), report()),
    "the schema is nested": (schema("[" * 10**5), report()),
    "the ledger is the table": (text(TABLE * 200), report("--ledger", "data.csv")),
    "the key is the table": (
        text(TABLE),
        report("--certificate", "c.json", "--sign", "data.csv"),
    ),
    "the certificate is the table": (text(TABLE), VERIFY),
    "the certificate is other JSON": (
        text(json.dumps({"format": WORD, WORD: NUMBER})),
        VERIFY,
    ),
    "the public key is the table": (text(TABLE), [*VERIFY, "--key", "data.csv"]),
}


def said_by(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> str:
    code = main(arguments)
    said = capsys.readouterr()
    assert code in (1, 2), said.err
    assert "Traceback" not in said.err
    assert said.err.startswith("skfairdp: ")
    return said.out + said.err


@pytest.mark.parametrize("name", BAD)
def test_no_message_shows_a_cell(name, capsys) -> None:
    write, arguments = BAD[name]
    write()
    said = said_by(capsys, arguments)
    assert [secret for secret in SECRETS if secret in said] == []


def test_a_message_with_a_cell_would_be_seen(capsys, monkeypatch) -> None:
    """The twin: every message is taken for one of this package."""

    def broken(*args: Any, **kwargs: Any) -> None:
        raise ValueError(WORD)

    written(Path())
    monkeypatch.setattr("skfairdp.command_line.filing.trained", broken)
    assert WORD not in said_by(capsys, report())
    monkeypatch.setattr(complaint, "_worded_here", lambda error: True)
    assert WORD in said_by(capsys, report())


def test_a_model_file_that_is_a_table_is_not_shown(capsys, tmp_path) -> None:
    from sklearn.dummy import DummyClassifier

    from skfairdp import certify

    fitted = DummyClassifier().fit(np.zeros((2, 1)), [0, 1])
    Path("c.json").write_text(certify(fitted).to_json(), encoding="utf-8")
    # Read as a pickle, these lines name a module and what to take from it.
    for content in (f"c{WORD}\n{WORD}\n.", f"{WORD},1\n", TABLE, ""):
        Path("data.csv").write_text(content)
        assert main(["verify", "c.json", "data.csv"]) == 2
        said = capsys.readouterr()
        assert "cannot be loaded as a model" in said.err
        assert WORD not in said.out + said.err


@pytest.mark.parametrize("kind", [ValueError, TypeError, KeyError, RuntimeError, MemoryError])
@pytest.mark.parametrize("place", ["trained", "certify"])
def test_what_another_library_says_is_not_passed_on(kind, place, capsys, monkeypatch) -> None:
    def broken(*args: Any, **kwargs: Any) -> None:
        raise kind(WORD)

    written(Path())
    if place == "certify":
        monkeypatch.setattr("skfairdp.command_line.filing.trained", lambda *a: [Trained()])
    monkeypatch.setattr(f"skfairdp.command_line.filing.{place}", broken)
    assert main(report()) == (2 if kind is ValueError else 4)
    said = capsys.readouterr().err
    assert kind.__name__ in said
    assert WORD not in said


class Trained:
    """Stands for a model, where none is needed."""

    def set_params(self, **parameters: Any) -> None:
        """Take any."""


def test_numpys_own_words_inside_this_package_are_not_passed_on(capsys, monkeypatch) -> None:
    """The innermost frame is ours, but the words are those of what it called."""
    written(Path())
    column = pd.Series(one("income", WORD))

    def careless(*args: Any, **kwargs: Any) -> None:
        complaint_of_numpy(column)

    def complaint_of_numpy(values: pd.Series) -> None:
        np.asarray(values, dtype=object).astype(float)

    monkeypatch.setattr("skfairdp.command_line.filing.trained", careless)
    monkeypatch.setattr(complaint.skfairdp, "__file__", __file__)  # as if this module were ours
    assert main(report()) == 2
    said = capsys.readouterr().err
    assert WORD not in said
    assert "ValueError" in said


def test_warnings_of_other_packages_are_named_and_not_quoted(capsys, monkeypatch) -> None:
    def warns(*args: Any, **kwargs: Any) -> None:
        warnings.warn(WORD, UserWarning, stacklevel=1)
        raise complaint.CommandError("enough")

    written(Path())
    monkeypatch.setattr("skfairdp.command_line.filing.trained", warns)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert main(report()) == 2
    said = capsys.readouterr().err
    assert "note: UserWarning" in said
    assert WORD not in said


def test_notes_of_this_package_name_options_of_the_command(capsys) -> None:
    complaint.show_warning("'delta' = 0.0001 is above 1e-5.", PrivacyWarning, "a.py", 1)
    assert capsys.readouterr().err == "skfairdp: note: --delta = 0.0001 is above 1e-5.\n"


def test_a_run_prints_neither_sizes_of_parts_nor_undeclared_categories(capsys) -> None:
    written(Path(), table().assign(purpose=one("purpose", WORD)))
    arguments = [a for a in report("--mechanism", "dpsgd") if a != "--quiet"]
    assert main(arguments) == 0
    said = capsys.readouterr().err
    assert "rows held out" in said
    assert not any(part.isdigit() and 100 < int(part) < 800 for part in said.split())
    assert WORD not in said + Path("report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("column", ["white", "approve"])
def test_outcomes_and_groups_that_differ_behind_a_nul_are_refused(column, capsys) -> None:
    """With pandas 2 "a" and "a\\0b" are one group, and one row decides what it is called."""
    cells = table()["white"].to_numpy(dtype=object)
    cells[[0, 5]] = cells[0] + "\0" + WORD
    written(Path())
    table().assign(**{column: cells}).to_parquet("data.parquet")  # a CSV file may lose the NUL
    asked = report("--positive", "a") if column == "approve" else report()
    asked[1] = "data.parquet"
    said = said_by(capsys, asked)
    assert f"The column '{column}' has texts with a NUL character" in said
    assert WORD not in said


@pytest.mark.parametrize("first", ["a\0b", "a"])
def test_public_categories_that_differ_behind_a_nul_are_two(first: str) -> None:
    texts = [first, "a" if first != "a" else "a\0b", "c"]
    found = public_schema(pd.DataFrame({"x": pd.Series(texts, dtype=object)}), {}, set())
    assert found == {"x": {"categories": ("a", "a\0b", "c")}}


@pytest.mark.parametrize(
    ("option", "given", "meant"),
    [
        ("--tolerance", "5%", "write 0.05"),
        ("--tolerance", "5 %", "write 0.05"),
        ("--tolerance", "0,05", "write 0.05"),
        ("--tolerance", "5", "write 0.05"),
        ("--confidence", "95", "write 0.95"),
        ("--epsilon", "0,5", "write 0.5"),
    ],
)
def test_a_percentage_or_a_decimal_comma_is_answered_by_the_number(
    option: str, given: str, meant: str, capsys
) -> None:
    with pytest.raises(SystemExit):
        main([*report(), option, given])
    assert meant in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([*report(), option, "often"])
    assert "write" not in capsys.readouterr().err
