"""The script behind docs/results runs, resumes and writes its page."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.processes import Ended, in_one_worker, run_fresh

pytestmark = [pytest.mark.slow, in_one_worker]

SCRIPT = Path(__file__).parents[2] / "examples" / "reproduce" / "fairdp_tables.py"


def run(*arguments: str) -> Ended:
    return run_fresh(SCRIPT, *arguments, environment={"MPLBACKEND": "Agg"})


def test_one_data_set_and_seed_give_a_page_and_a_rerun_fits_nothing(data_home, tmp_path):
    arguments = (
        *("--data-home", str(data_home), "--datasets", "abalone", "--parts", "main"),
        *("--seeds", "1", "--out", str(tmp_path / "out"), "--cache", str(tmp_path / "cache")),
    )
    first = run(*arguments)
    assert first.returncode == 0, first.stderr[-2000:]
    page = (tmp_path / "out" / "fairdp_tables.md").read_text()
    assert "Abalone" in page
    assert "FairDP" in page
    lines = sum(len(p.read_text().splitlines()) for p in (tmp_path / "cache").glob("*.jsonl"))
    again = run(*arguments)
    assert again.returncode == 0, again.stderr[-2000:]
    assert lines == sum(
        len(p.read_text().splitlines()) for p in (tmp_path / "cache").glob("*.jsonl")
    )
