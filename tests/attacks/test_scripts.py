"""The command that runs attack scripts of other folders."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from tests.attacks.__main__ import main
from tests.attacks.old_names import MOVED
from tests.attacks.scripts import RECORDS, ROOT, Record, outcome_of, verdict_on


@pytest.mark.parametrize("new", sorted(set(MOVED.values())))
def test_moved_modules_are_where_the_table_says(new: str) -> None:
    importlib.import_module(new)


def test_scripts_that_cannot_run_have_a_test_in_their_place() -> None:
    replaced = [record for record in RECORDS.values() if record.needs]
    assert replaced
    assert all((ROOT / record.now).is_file() for record in replaced)


@pytest.mark.slow
def test_a_stale_import_is_a_failure_and_a_moved_module_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("stale", "moved", "waits"):
        monkeypatch.setitem(RECORDS, name, Record(unjudged="it is made up"))
    (tmp_path / "new.py").write_text("print(1)\n")
    assert outcome_of(tmp_path / "new.py", 60.0).failed  # nobody said how to read it
    (tmp_path / "stale.py").write_text("from skfairdp.engine.flat import gone\n")
    (tmp_path / "moved.py").write_text("from skfairdp.engine.flat import flatten\nprint(1)\n")
    (tmp_path / "waits.py").write_text("import time\ntime.sleep(60)\n")
    assert outcome_of(tmp_path / "waits.py", 0.2).verdict == "exceeded the time limit"
    assert main([str(tmp_path), "--seconds", "60", "--only", "moved"]) == 0
    assert main([str(tmp_path), "--seconds", "60", "--only", "stale"]) == 1
    assert "ImportError: cannot import name 'gone'" in capsys.readouterr().out


def test_without_folders_nothing_is_said_to_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("SKFAIRDP_ATTACKS", raising=False)
    assert main([]) == 2
    assert "SKFAIRDP_ATTACKS" in capsys.readouterr().err
    assert main([str(tmp_path / "none")]) == 2
    assert main([str(tmp_path)]) == 1  # a folder without scripts


@pytest.mark.parametrize(
    ("record", "status", "printed", "failed"),
    [
        (Record(unjudged="no output"), 0, "", False),
        (Record(unjudged="no output"), 1, "", True),
        (Record(stops="ValueError", prints="0 of 40"), 1, "1 of 40", True),
        (Record(stops="ValueError"), 1, "", False),
        (Record(stops="ValueError"), 0, "", True),
        (Record(prints="void True"), 0, "eps inf void True", False),
        (Record(prints="void True"), 0, "eps 1.0", True),
        (Record(never_prints=r"[1-9]\d* of"), 0, "0 of 60", False),
        (Record(never_prints=r"[1-9]\d* of"), 0, "12 of 60", True),
    ],
)
def test_output_is_compared_with_the_record(
    record: Record, status: int, printed: str, failed: bool
) -> None:
    assert verdict_on(record, status, printed, "ValueError: refused")[1] is failed


def test_a_record_says_how_an_output_is_read_or_why_it_is_not() -> None:
    with pytest.raises(ValueError, match="or why it is not"):
        Record(arguments=("20",))
