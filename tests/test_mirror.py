"""Tests lie where the code lies: the folders and names of tests are those of the package."""

from __future__ import annotations

from pathlib import Path

import skfairdp

PACKAGE, TESTS = Path(skfairdp.__file__).parent, Path(__file__).parent
# Folders whose tests are about the whole package.
OF_ALL = {"attacks", "benchmarks", "common", "docs", "journeys", "outside", "slow"}
# Files about several modules of their folder at once, and what they have in common.
OF_SEVERAL = {"engine/test_devices.py": "everything that runs on a device"}


def has_module(test: Path) -> bool:
    """Whether a module has the name of a test file, or one that the name begins with."""
    folder, name = PACKAGE / test.parent, test.stem.removeprefix("test_")
    names = {path.stem for path in folder.glob("*.py")} | {
        path.parent.name for path in folder.glob("*/__init__.py")
    }
    return any(name == one or name.startswith(f"{one}_") for one in names)


def test_every_file_of_tests_is_named_after_a_module() -> None:
    files = [path.relative_to(TESTS) for path in TESTS.glob("*/**/test_*.py")]
    without = {str(file) for file in files if file.parts[0] not in OF_ALL and not has_module(file)}
    assert without == {*OF_SEVERAL}
