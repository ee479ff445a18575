"""The script behind docs/results/rivals.md prints its tables, whichever notions its file has."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.processes import in_one_worker, run_fresh

pytestmark = [pytest.mark.slow, in_one_worker]

SCRIPT = Path(__file__).parents[2] / "examples" / "reproduce" / "rivals.py"


@pytest.mark.parametrize("notion", ["demographic_parity", "equal_opportunity"])
def test_a_report_of_one_notion_is_printed(notion: str, tmp_path: Path) -> None:
    methods = ["path", "CDP-Fair, with the group"]
    with (tmp_path / "fits.jsonl").open("w") as file:
        for method in methods:
            for seed in range(2):
                figures = [(0.02, 0.015, 0.80), (0.05, 0.045 + 0.001 * seed, 0.82)]
                points = [
                    {"tolerance": tolerance, "gap": gap, "accuracy": accuracy, "seconds": 1.0}
                    for tolerance, gap, accuracy in figures
                ]
                job = ["compas", notion, method, seed]
                print(json.dumps({"job": job, "points": points}), file=file)
    arguments = "report", str(tmp_path / "fits.jsonl"), str(tmp_path)
    ended = run_fresh(SCRIPT, *arguments, environment={"MPLBACKEND": "Agg"})
    assert ended.returncode == 0, ended.stderr[-2000:]
    assert f"## Compas, {notion}: 2 seeds" in ended.stdout
    drawn = notion == "demographic_parity"
    assert (tmp_path / "rivals.png").exists() == drawn
    assert ("No picture" in ended.stdout) != drawn
