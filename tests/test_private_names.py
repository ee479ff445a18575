"""Private names: those of other libraries are listed, those of our bases explained to an author.

A name of another library may be gone in the next version. The CI runs the tests with the lowest
and the newest versions, so that what is listed here fails there first.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from skfairdp.inprocessing.gradient import GradientClassifier
from tests.sources import nodes_of

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "skfairdp"
FILES = sorted(PACKAGE.rglob("*.py"))
# File: the test that fails where a version changes a name, then the names.
LISTED: dict[str, tuple[str, set[str]]] = {
    "base/fitted_state.py": ("tests/common/test_every_estimator.py", {"_sklearn_version"}),
    "comparators/base.py": ("tests/comparators/test_base.py", {"_sklearn_version"}),
    "engine/modules.py": (
        "tests/engine/clipping/test_clippers.py",
        {
            "_backward_hooks", "_backward_pre_hooks", "_forward_hooks", "_forward_pre_hooks",
            "_modules",
        },
    ),
    "engine/exact_products.py": (
        "tests/attacks/test_rows_apart.py",
        {
            "_C", "_DisableTorchDispatch", "_dispatch_has_kernel_for_dispatch_key",
            "_get_current_dispatch_mode_stack", "_op_dk", "_overloadname", "_python_dispatch",
            "_schema",
        },
    ),
    "engine/inspection.py": ("tests/engine/test_modules.py", {"_BatchNorm", "_InstanceNorm"}),
    "engine/processes.py": (
        "tests/engine/test_processes.py",
        {"_get_backend", "_get_default_store"},
    ),
    "engine/randomness.py": ("tests/attacks/test_generators.py", {"_overloadname", "_schema"}),
    "foundation/parameters.py": ("tests/attacks/test_callbacks.py", {"_skl_callbacks"}),
    "interchange/skops_files.py": (
        "tests/interchange/test_skops_files.py",
        {"_audit", "_get_state", "_get_trusted", "_protocol", "_utils"},
    ),
    "receipts/digests/code.py": ("tests/attacks/test_digest.py", {"_abc_impl"}),
    "receipts/digests/state.py": (
        "tests/attacks/test_digest.py",
        {
            "_forward_hooks", "_forward_pre_hooks", "_is_full_backward_hook", "_load_state_dict",
            "_optimizers", "_shape", "_state_dict",
        },
    ),
    "receipts/harmless_steps.py": (
        "tests/receipts/test_harmless_steps.py",
        {"_fill_dtype", "_fit_dtype", "_sklearn_output_config", "_stop_words_id"},
    ),
    "records/stored_rows.py": ("tests/records/test_stored_rows.py", {"_mmap"}),
}  # fmt: skip
# Documented in spite of the underscore, of named tuples and of CPython; ends of names of columns.
PUBLIC = {"_make", "_getframe", "_among_all", "_id"}


def is_private(name: str) -> bool:
    return name.isidentifier() and name.startswith("_") and name[1:2] not in ("", "_")


def defined(files: list[Path]) -> set[str]:
    """Private names that the package itself gives to something."""
    found: set[str] = set()
    for file in files:
        for node in nodes_of(file):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                found.add(node.name)
            elif isinstance(node, ast.arg):
                found.add(node.arg)
            elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
                found.add(node.id if isinstance(node, ast.Name) else node.attr)
    return found


def of_others(nodes: Iterable[ast.AST], ours: set[str]) -> Iterator[str]:
    """Private names of other libraries that a file imports, reads or writes as a text."""
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and not node.level:
            modules = (node.module or "").split(".")
            if modules[0] not in ("skfairdp", "__future__"):
                names = [*modules, *(alias.name for alias in node.names)]
                yield from (name for name in names if is_private(name))
        elif isinstance(node, ast.Attribute) and node.attr not in ours and is_private(node.attr):
            yield node.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from (name for name in [node.value] if is_private(name) and name not in ours)


@pytest.fixture(scope="module")
def found() -> dict[str, set[str]]:
    ours = defined(FILES)
    names = {file: {*of_others(nodes_of(file), ours)} - PUBLIC for file in FILES}
    return {file.relative_to(PACKAGE).as_posix(): some for file, some in names.items() if some}


def test_private_names_of_other_libraries_are_listed(found: dict[str, set[str]]) -> None:
    # Use a public name. Where none serves, say why in a comment, and list the name with its test.
    assert found == {file: names for file, (_, names) in LISTED.items()}


def test_the_tests_that_the_list_names_exist() -> None:
    assert [test for test, _ in LISTED.values() if not (ROOT / test).is_file()] == []


ALLOWED = "self._ours, getattr(self, '_ours')"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("from sklearn.utils import _safe_indexing", "_safe_indexing"),
        ("from torch.utils._pytree import tree_map", "_pytree"),
        ("import torch\n\ntorch._C.DispatchKey", "_C"),
        ("getattr(estimator, '_validate_data')", "_validate_data"),
    ],
)
def test_a_private_name_is_found(text: str, name: str) -> None:
    assert name in of_others(ast.walk(ast.parse(text)), {"_ours"})
    assert not list(of_others(ast.walk(ast.parse(ALLOWED)), {"_ours"}))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.relative_to(PACKAGE).as_posix())
def test_no_function_hands_on_all_its_names(file: Path) -> None:
    """``locals()`` as an argument and ``globals().update`` hide which names are meant."""
    calls = [node for node in nodes_of(file) if is_call(node)]
    assert not calls


def is_call(node: ast.AST) -> bool:
    called = node.func if isinstance(node, ast.Call) else None
    if not isinstance(called, ast.Name) or not isinstance(node, ast.Call):
        return False
    return called.id in ("locals", "globals") or (called.id == "vars" and not node.args)


# Private names that a mechanism inherits. They only go down: every one is a name that its author
# has to know, or replaces by accident.
MOST_NAMES = 78


def inherited() -> set[str]:
    """Private names of the bases of a mechanism."""
    ours = [base for base in GradientClassifier.__mro__ if base.__module__.startswith("skfairdp.")]
    names = {
        name for base in ours for name in (*vars(base), *vars(base).get("__annotations__", {}))
    }
    return {name for name in names if is_private(name) and "__" not in name}


def explained(text: str) -> set[str]:
    """Private names in the code of a text, whether a class defines them or the template."""
    code = " ".join(re.findall(r"`([^`\n]+)`", text))
    return {*re.findall(r"(?<![\w/])_[a-z]\w*", code)}


def test_every_private_name_that_a_mechanism_inherits_is_explained() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert inherited() - explained(text) == set()
    assert inherited() - explained(text.replace("`_net(", "`net(")) == {"_net"}
    assert len(inherited()) <= MOST_NAMES


def test_the_tables_for_mechanisms_name_nothing_that_is_gone() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    start, end = text.index("defines only these names"), text.index("The template's `_fit`")
    rows = [line.split("|")[1] for line in text[start:end].splitlines() if line.startswith("| `_")]
    assert len(rows) > 30
    assert {name for row in rows for name in explained(row)} - inherited() == set()
