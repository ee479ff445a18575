"""Tests of which code counts as that of an installed library."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from skfairdp.receipts.digests import code


def made(folder: Path, package: str, *, wheel: bool) -> str:
    """A package in a folder, with the list of files that a wheel leaves there, or without."""
    (folder / package).mkdir(parents=True)
    (folder / package / "__init__.py").write_text("class Step: pass\n")
    if wheel:
        listed = folder / f"{package}-1.0.dist-info"
        listed.mkdir()
        (listed / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (listed / "RECORD").write_text(f"{package}/__init__.py,,\n{listed.name}/RECORD,,\n")
    return package


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder outside of the environment on the path of modules, as ``pip --target`` fills it."""
    monkeypatch.syspath_prepend(str(tmp_path))
    known = set(sys.modules)
    code._installed.cache_clear()
    yield tmp_path
    for name in set(sys.modules) - known:
        del sys.modules[name]
    code._installed.cache_clear()


def test_a_wheel_in_any_folder_is_a_library(folder):
    """Fails where libraries are those of the environment's own folders alone."""
    step = importlib.import_module(made(folder, "put_by_a_wheel", wheel=True)).Step
    assert code.is_library("put_by_a_wheel")
    assert code.library_name(step) == "put_by_a_wheel.Step"


def test_a_module_and_a_package_without_a_file_of_a_wheel_are_libraries(folder):
    (folder / "put_in_parts").mkdir()
    (folder / "put_in_parts" / "step.py").write_text("class Step: pass\n")
    (folder / "put_alone.py").write_text("class Step: pass\n")
    listed = folder / "put-1.0.dist-info"
    listed.mkdir()
    (listed / "METADATA").write_text("Metadata-Version: 2.1\nName: put\nVersion: 1.0\n")
    (listed / "RECORD").write_text("put_in_parts/step.py,,\nput_alone.py,,\n")
    for module in ("put_in_parts.step", "put_alone"):
        step = importlib.import_module(module).Step
        assert code.library_name(step) == f"{module}.Step"


def test_a_module_that_no_wheel_lists_is_none_whatever_else_it_lists(folder):
    """A file added to the folder of a wheel, and a list of files that no wheel wrote."""
    made(folder, "put_by_a_wheel", wheel=True)
    (folder / "put_by_a_wheel.egg-info").mkdir()
    (folder / "put_by_a_wheel.egg-info" / "SOURCES.txt").write_text("added_by_hand.py\n")
    (folder / "added_by_hand.py").write_text("class Step: pass\n")
    importlib.import_module("added_by_hand")
    assert not code.is_library("added_by_hand")


def test_only_lists_of_files_in_the_folder_of_a_package_are_read(folder, monkeypatch):
    """Reading those of all installed libraries takes as long as a small fit."""
    read = []
    found = code.metadata.distributions
    monkeypatch.setattr(
        code.metadata, "distributions", lambda **where: read.append(where) or found(**where)
    )
    importlib.import_module(made(folder, "written_by_a_user", wheel=False))
    assert not code.is_library("written_by_a_user")
    assert read == [{"path": [str(folder / "written_by_a_user"), str(folder)]}]


def test_a_users_package_beside_a_wheel_is_none(folder):
    made(folder, "put_by_a_wheel", wheel=True)
    step = importlib.import_module(made(folder, "beside_a_wheel", wheel=False)).Step
    assert not code.is_library("beside_a_wheel")
    assert code.library_name(step) is None


def test_a_package_of_the_same_name_elsewhere_is_none(folder, monkeypatch):
    """An editable install, e.g.: its files are not where the list of files is."""
    environment, checkout = folder / "environment", folder / "checkout"
    made(environment, "edited_in_place", wheel=True)
    made(checkout, "edited_in_place", wheel=False)
    for path in (environment, checkout):  # the last one comes first
        monkeypatch.syspath_prepend(str(path))
    importlib.import_module("edited_in_place")
    assert not code.is_library("edited_in_place")
