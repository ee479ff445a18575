"""Versions: of the package, of what it needs, and of Python, the same wherever they are written."""

from __future__ import annotations

import json
import re
from configparser import ConfigParser
from pathlib import Path

import numpy as np
from packaging.requirements import Requirement
from packaging.version import Version

import skfairdp
from skfairdp.certificate.claims import version_of

ROOT = Path(__file__).parents[1]
SETUP = ConfigParser()
SETUP.read(ROOT / "setup.cfg", encoding="utf-8")


def asked_for() -> dict[str, Requirement]:
    """Find every requirement of the package and of its extras that has a lowest version."""
    extras = [SETUP["options.extras_require"][extra] for extra in ("sign", "scale", "skops")]
    lines = [SETUP["options"]["install_requires"], *extras, "matplotlib>=3.10"]
    found = [Requirement(line) for text in lines for line in text.split("\n") if line.strip()]
    return {one.name.replace("_", "-"): one for one in found}


def pinned(name: str) -> dict[str, str]:
    """Read the pins of a constraints file."""
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    pairs = [line.split("==") for line in lines if "==" in line and not line.startswith("#")]
    return {name.lower().replace("_", "-"): version for name, version in pairs}


def test_the_lowest_constraints_pin_what_the_package_asks_for():
    lowest = pinned("constraints-lowest.txt")
    assert set(lowest) == set(asked_for())
    for name, requirement in asked_for().items():
        (floor,) = [one.version for one in requirement.specifier if one.operator == ">="]
        assert Version(lowest[name]) == Version(floor), name


def test_the_tested_versions_are_in_the_ranges():
    tested = pinned("constraints.txt")
    for name, requirement in asked_for().items():
        assert tested[name] in requirement.specifier, name


def test_the_conda_recipe_asks_for_the_same_ranges():
    recipe = (ROOT / ".github/conda/recipe.yaml").read_text(encoding="utf-8")
    listed = re.findall(r"^    - ([a-z_-]+) >=([\d.]+)", recipe.partition("  run:\n")[2], re.M)
    floors = {"torch" if name == "pytorch" else name: version for name, version in listed}
    for line in SETUP["options"]["install_requires"].strip().split("\n"):
        requirement = Requirement(line)
        assert f">={floors.pop(requirement.name)}" in str(requirement.specifier)
    assert floors == {"python": SETUP["options"]["python_requires"].removeprefix(">=")}


def test_one_version_everywhere():
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    released = re.findall(r"^## (\S+) - 20", changelog, re.M)[0]
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    switcher = json.loads((ROOT / "docs/_static/versions.json").read_text(encoding="utf-8"))
    assert changelog.index("## Unreleased") < changelog.index(f"## {released} - 20")
    assert f"\nversion: {released}\n" in citation
    assert [one["version"] for one in switcher if one.get("preferred")] == [released]
    assert (ROOT / f"docs/interfaces/{released}.txt").is_file()
    recipe = (ROOT / ".github/conda/recipe.yaml").read_text(encoding="utf-8")
    assert f'version: "{skfairdp.__version__}"' in recipe


def test_a_build_with_unreleased_changes_is_no_release():
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    unreleased, version = re.split(r"^## ", changelog, flags=re.M)[1:3]
    version, last = Version(skfairdp.__version__), Version(version.split()[0])
    if unreleased.strip() == "Unreleased":
        assert version == last or (version > last and version.is_devrelease)
    else:
        assert version > last
        assert version.is_devrelease


def test_certificates_name_the_version_that_runs():
    assert version_of("skfairdp") == skfairdp.__version__
    assert version_of("numpy") == np.__version__


def test_classifiers_and_workflows_name_the_same_pythons():
    named = re.findall(r":: (3\.\d+)\n", SETUP["metadata"]["classifiers"] + "\n")
    assert named == ["3.11", "3.12", "3.13", "3.14"]
    for workflow in ("ci.yml", "release.yml"):
        text = (ROOT / ".github/workflows" / workflow).read_text(encoding="utf-8")
        assert f"python-version: {json.dumps(named)}" in text
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"Python {named[0]} or newer" in readme
