"""Every shell block of README, start page, guides and stories runs as typed."""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.test_pages import CLAIM
from tests.processes import commands_without_imports, in_one_worker

ROOT = Path(__file__).parents[2]
PAGES = [
    *(ROOT / "README.md", ROOT / "docs/start.md", ROOT / "docs/index.md", ROOT / "docs/guide.md"),
    *sorted((ROOT / "docs/guides").glob("*.md")),
]
STORIES = [ROOT / "docs/stories" / f"{name}.md" for name in ("bank", "hospital", "university")]
FENCE = re.compile(r"^```(bash|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TYPED = re.compile(r"^(python3?|pip|skfairdp|\.venv/bin/\w+) ")
# The tests cannot run themselves; .ci/run types this line in a fresh clone.
RUNS_THE_TESTS = ".venv/bin/python -m pytest\n"

# Everything is installed already, so `venv` and `pip` only check that they could do their work.
VENV = """import sys
assert sys.argv[1:] == ["-m", "venv", ".venv"], sys.argv
"""
PIP = """import configparser, pathlib, re, sys
install, option, constraints, editable, here = sys.argv[1:]
assert (install, option, editable) == ("install", "-c", "-e"), sys.argv
assert pathlib.Path(constraints).is_file(), constraints
setup = configparser.ConfigParser()
setup.read("setup.cfg", encoding="utf-8")
wanted = re.fullmatch(r"\\.\\[([\\w,]+)\\]", here)[1].split(",")
assert set(wanted) <= set(setup["options.extras_require"]), wanted
"""
COLUMNS = ["customerID", "sex", "opened", "purpose", "income", "approve"]
CLIENTS = f'\ntable[{COLUMNS}].to_csv("loans.csv", index=False)\n'


def shell_blocks(page: Path) -> list[str]:
    found = FENCE.findall(page.read_text(encoding="utf-8"))
    return [block for kind, block in found if kind == "bash" or TYPED.match(block)]


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Path]:
    """A folder like a copy of the repository, in which the commands of the pages exist."""
    for name in ("constraints.txt", "setup.cfg", "examples"):
        (tmp_path / name).symlink_to(ROOT / name)
    folder = tmp_path / ".venv/bin"
    folder.mkdir(parents=True)
    with commands_without_imports() as forked:
        programs = {
            "python": f'exec {forked} python "$@"',
            "skfairdp": f'exec {forked} skfairdp "$@"',
            "pip": f"exec {sys.executable} -c '{PIP}' \"$@\"",
            "python3": f"exec {sys.executable} -c '{VENV}' \"$@\"",
        }
        for name, line in programs.items():
            program = folder / name
            program.write_text(f"#!/bin/sh\n{line}\n", encoding="utf-8")
            program.chmod(0o755)
        yield tmp_path


def typed(block: str, desk: Path) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(desk / ".venv/bin"), os.environ["PATH"]])
    return subprocess.run(
        ["bash", "-e", "-c", block],
        cwd=desk,
        env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "MPLBACKEND": "agg"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_pages_hold_shell_blocks_and_none_is_of_an_unknown_kind() -> None:
    counts = {page.name: len(blocks) for page in PAGES if (blocks := shell_blocks(page))}
    # The tests below run those of three pages; the index repeats a line of the README.
    assert counts == {"README.md": 3, "start.md": 8, "index.md": 1, "own_table.md": 1}
    (line,) = shell_blocks(ROOT / "docs/index.md")
    assert any(line.strip() in block for block in shell_blocks(ROOT / "README.md"))
    for page in PAGES:
        kinds = set(re.findall(r"^```(\w+)$", page.read_text(encoding="utf-8"), re.MULTILINE))
        assert kinds <= {"bash", "text", "python", "toml", "json"}, page.name


@pytest.mark.slow
@in_one_worker
def test_the_start_page_and_the_readme_run_from_top_to_bottom(desk: Path) -> None:
    blocks = shell_blocks(ROOT / "docs/start.md")
    blocks[5:5] = [blocks[3], blocks[4]]  # "Run step 4 again": the total grows
    totals = []
    readme = ROOT / "README.md"
    (python,) = (b for kind, b in BLOCK.findall(readme.read_text("utf-8")) if kind == "python")
    blocks.append(f"python - <<'END'\n{python}END\n")  # writes the table of README's command
    for block in [*blocks, *shell_blocks(readme)]:
        if block.endswith(RUNS_THE_TESTS):
            continue
        done = typed(block, desk)
        # A report that does not show the tolerance exits with 1, as the page says.
        allowed = {0, 1} if "skfairdp report" in block else {0}
        assert done.returncode in allowed, (block, done.stdout, done.stderr)
        assert "Traceback" not in done.stderr, done.stderr
        totals += re.findall(r"total, record under zero-out: ε = ([\d.]+)", done.stdout)
    assert totals == ["1.0000", "2.0000"]


@pytest.mark.slow
@in_one_worker
def test_the_command_of_the_page_on_own_tables_runs_on_the_table_of_that_page(desk: Path) -> None:
    page = ROOT / "docs/guides/own_table.md"
    text = page.read_text(encoding="utf-8")
    code = next(
        block
        for block in re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S)
        if "customerID" in block
    )
    made = code[: code.index("\n\n", code.index('table["approve"]'))]
    assert typed(f"python - <<'END'\n{made}\n{CLIENTS}END\n", desk).returncode == 0
    for block in shell_blocks(page):
        done = typed(block, desk)
        assert done.returncode in {0, 1}, done.stderr
        assert "Traceback" not in done.stderr, done.stderr
        assert (desk / "report.html").is_file()


def _shape(text: str) -> str:
    """Text without what changes from run to run: its numbers; and without its line ends."""
    return " ".join(re.sub(r"\d[\d.,]*", "#", text).split())


# Noise leaves the start of a path above the tolerance in some fits, and they say so.
@pytest.mark.filterwarnings("ignore::skfairdp.exceptions.FairnessWarning")
@pytest.mark.slow
@in_one_worker
@pytest.mark.usefixtures("data_home")
@pytest.mark.parametrize("page", STORIES, ids=lambda page: page.stem)
def test_a_story_runs_from_top_to_bottom_and_prints_what_it_says_up_to_figures(
    page: Path, desk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(desk)
    names: dict[str, object] = {"__name__": "__main__"}
    said = ""
    for kind, block in BLOCK.findall(page.read_text(encoding="utf-8")):
        if kind == "text":
            for line in block.splitlines():
                assert _shape(line) in _shape(said), line
        elif kind == "bash":
            done = typed(block, desk)
            assert done.returncode == 0, (block, done.stdout, done.stderr)
            assert "Traceback" not in done.stderr, done.stderr
            said = done.stdout
        else:
            assert kind == "python", kind
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(block, page.name, "exec"), names)
            said = printed.getvalue()
            claims = CLAIM.findall(block)
            assert not claims or said.splitlines() == claims
    assert list(desk.glob("*.png"))


def test_every_story_is_typed_by_the_test_above() -> None:
    folder = ROOT / "docs/stories"
    assert {*STORIES} == {*folder.glob("*.md")} - {folder / "index.md"}
