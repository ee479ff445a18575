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
    code._folders_by_package.cache_clear()
    yield tmp_path
    for name in set(sys.modules) - known:
        del sys.modules[name]
    code._installed.cache_clear()
    code._folders_by_package.cache_clear()


def test_a_wheel_in_any_folder_is_a_library(folder):
    """Fails where libraries are those of the environment's own folders alone."""
    step = importlib.import_module(made(folder, "put_by_a_wheel", wheel=True)).Step
    assert code.is_library("put_by_a_wheel")
    assert code.library_name(step) == "put_by_a_wheel.Step"


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
