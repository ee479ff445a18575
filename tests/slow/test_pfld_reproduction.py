"""The script behind docs/results/pfld.md runs, resumes and writes its page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.processes import Ended, in_one_worker, run_fresh

pytestmark = [pytest.mark.slow, in_one_worker]

SCRIPT = Path(__file__).parents[2] / "examples" / "reproduce" / "pfld_table2.py"


def run(*arguments: str) -> Ended:
    return run_fresh(SCRIPT, *arguments, environment={"MPLBACKEND": "Agg"})


def test_two_folds_give_a_page_and_a_rerun_fits_nothing(data_home, tmp_path):
    out, page = tmp_path / "fits.jsonl", tmp_path / "page.md"
    arguments = (
        *("--data-home", str(data_home), "--datasets", "compas", "--methods", "clf", "z", "m"),
        *("--folds", "2", "--out", str(out), "--page", str(page)),
    )
    first = run(*arguments)
    assert first.returncode == 0, first.stderr[-2000:]
    fits = [json.loads(line) for line in out.read_text().splitlines()]
    assert len(fits) == 2 * (1 + 3 + 3)
    for fit in fits:
        # A fifth of 6,172 rows, of which the table is a partition.
        assert sum(sum(map(sum, group)) for group in fit["table"]) == pytest.approx(1235, abs=1)
        assert (fit["epsilon_spent"] is None) == (fit["method"] != "m")
    text = page.read_text()
    assert "| Compas | M |" in text
    assert "0.661 ± 0.019" in text  # the published M under accuracy parity
    again = run(*arguments)
    assert again.returncode == 0, again.stderr[-2000:]
    assert len(out.read_text().splitlines()) == len(fits)
