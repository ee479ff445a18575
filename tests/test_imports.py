"""The import graph points one way, and torch stays in the rooms that train or transform.

The files are read, not imported, so an import inside a function counts as well: a cycle
hidden in a function is still a cycle.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sources import nodes_of, tree_of

PACKAGE = Path(__file__).parents[1] / "skfairdp"

# A room may import rooms of earlier layers, and itself. Rooms of one layer do not know
# each other.
LAYERS = (
    {"exceptions"},
    {"foundation"},
    {"records"},
    {"datasets"},
    {"privacy", "fairness"},
    {"protocol"},
    {"receipts"},
    {"engine", "certificate"},
    {"base"},
    {
        "inprocessing",
        "preprocessing",
        "postprocessing",
        "aggregation",
        "comparators",
    },
    {"additive", "representation"},
    {"model_selection", "metrics", "audit", "monitoring"},
    {"interchange"},
    {"command_line"},
    {"__main__"},
)
RANKS = {room: rank for rank, rooms in enumerate(LAYERS) for room in rooms}
TORCH_ROOMS = LAYERS[RANKS["inprocessing"]] | {"engine", "representation", "interchange"}
# Files elsewhere that train a network by themselves, and why they stay where they are.
TORCH_FILES = {
    "metrics/information/mine.py": "the critic of MINE; torch is imported when it is called",
}
FILES = sorted(PACKAGE.rglob("*.py"))


def room_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return "" if parts == ("__init__",) else parts[0]


def imported_modules(path: Path) -> Iterator[tuple[int, str]]:
    """Line and absolute name of every module that a file imports, at any depth."""
    package = ("skfairdp", *path.relative_to(PACKAGE).parent.parts)
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join((*base, *([node.module] if node.module else [])))
            yield node.lineno, module
            # `from skfairdp import base` imports the module skfairdp.base.
            yield from ((node.lineno, f"{module}.{alias.name}") for alias in node.names)


def arrows_back(path: Path) -> list[str]:
    room = room_of(path)
    found = []
    for line, module in imported_modules(path):
        parts = module.split(".")
        if parts[0] != "skfairdp" or len(parts) < 2 or parts[1] == room or room == "":
            continue
        target = parts[1]
        if target in RANKS and RANKS[target] >= RANKS[room]:
            found.append(f"{path.name}:{line}: {room} must not import {target}")
    return found


def test_imports_point_one_way() -> None:
    assert [arrow for path in FILES for arrow in arrows_back(path)] == []


def test_torch_is_imported_only_where_models_are_trained() -> None:
    found = [
        f"{path.relative_to(PACKAGE)}:{line}: {module}"
        for path in FILES
        if room_of(path) not in TORCH_ROOMS and str(path.relative_to(PACKAGE)) not in TORCH_FILES
        for line, module in imported_modules(path)
        if module.split(".")[0] in {"torch", "skorch"}
    ]
    assert found == []


def imports_at_first(path: Path) -> list[str]:
    """Modules that are imported with a file: neither in a function nor for a type checker."""
    body = tree_of(path).body
    statements = (node for node in body if isinstance(node, ast.ImportFrom))
    return [node.module or "" for node in statements]


def test_no_module_that_fits_loads_certificates() -> None:
    found = [
        str(path.relative_to(PACKAGE))
        for path in FILES
        if room_of(path) in {"engine", "base"} | LAYERS[RANKS["inprocessing"]] | {"additive"}
        and any(module.startswith("skfairdp.certificate") for module in imports_at_first(path))
    ]
    assert found == []


# Whether a batch holds a person of several rows, whose gradients are averaged.
AVERAGING = {"batch_sums.py", "clipping/base.py", "clipping/functional.py", "clipping/fused.py"}


def modes_asked(path: Path) -> set[str]:
    """What a file asks about its rows: whether they are on disk, or persons have several."""
    found = set()
    for node in nodes_of(path):
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Is | ast.IsNot):
            found.add(ast.unparse(node.left).rpartition(".")[2].removeprefix("_"))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance":
            found |= {name.rpartition(".")[2] for name in ast.unparse(node.args[1]).split(" | ")}
    return found & {"persons", "stored", "Persons", "PersonRows", "StoredRows", "StoredBatches"}


def test_the_engine_does_not_ask_where_rows_are_or_whose() -> None:
    engine = PACKAGE / "engine"
    asked = {str(path.relative_to(engine)): modes_asked(path) for path in engine.rglob("*.py")}
    asked = {name: names for name, names in asked.items() if names}
    assert asked == {name: {"persons"} for name in AVERAGING}
    assert modes_asked(PACKAGE / "records" / "sampling.py") == {"persons", "stored"}


def test_every_room_is_in_a_layer() -> None:
    rooms = {room_of(path) for path in FILES} - {""}
    assert rooms <= set(RANKS), f"put {sorted(rooms - set(RANKS))} into a layer of LAYERS"


def test_an_arrow_back_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check itself works: absolute, relative and nested imports are all seen."""
    monkeypatch.setitem(globals(), "PACKAGE", tmp_path)
    (tmp_path / "privacy").mkdir()
    bad = tmp_path / "privacy" / "plan.py"
    for statement in (
        "import skfairdp.engine.clipping.clippers",
        "from skfairdp.engine import clipping",
        "from skfairdp import engine",
        "from ..engine import clipping",
        "from .. import engine",
        "def f():\n    from skfairdp.fairness.notions import Notion",
    ):
        bad.write_text(statement)
        assert arrows_back(bad), statement
    bad.write_text("from skfairdp.exceptions import PrivacyWarning\nfrom . import noise")
    assert arrows_back(bad) == []


@pytest.mark.parametrize("started", [["-c", "import skfairdp"], ["-m", "skfairdp", "--help"]])
def test_nothing_heavy_is_imported_before_it_is_used(started: list[str]) -> None:
    command = [sys.executable, "-X", "importtime", *started]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    imported = {line.rsplit("|", 1)[1].strip() for line in ran.stderr.splitlines()}
    assert "skfairdp" in imported or "skfairdp.command_line" in imported
    heavy = {"torch", "sklearn", "scipy", "pandas", "matplotlib", "dp_accounting"}
    assert imported & heavy == set()


THREADS = """
import sys, threading, time, types
import lazy_loader, skfairdp

busy, most = 0, 0

def slow(name):
    global busy, most
    busy += 1
    most = max(most, busy)
    time.sleep(0.02)
    busy -= 1
    return types.SimpleNamespace(**dict.fromkeys(skfairdp.__all__, name))

lazy_loader.importlib = types.SimpleNamespace(import_module=slow)
names = [name for name in skfairdp.__all__ if name[0].isupper()]
threads = [threading.Thread(target=getattr, args=(skfairdp, name)) for name in names[:8]]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
sys.exit(most != 1)
"""


def test_threads_that_are_the_first_to_ask_import_one_after_another():
    done = subprocess.run([sys.executable, "-c", THREADS], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_plan_loads_nothing_that_only_fits_or_certificates_need() -> None:
    code = "import sys, skfairdp.command_line.reporting; print(*sys.modules, sep='\\n')"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(ran.stdout.split())
    of_scikit_learn = {f"sklearn.{name}" for name in ("ensemble", "metrics", "pipeline")}
    others = {"torch", "matplotlib", "mpmath", "skfairdp.certificate.examination"}
    assert "skfairdp.receipts.quoting" in loaded
    assert loaded & (of_scikit_learn | others) == set()
