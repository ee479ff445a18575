"""Check what a wheel and a source distribution hold: python .ci/check_distributions.py DIST."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
BY_THE_BUILD = (".dist-info/", ".egg-info", "PKG-INFO", "setup.cfg", "MANIFEST.in")
DATA = (".csv", ".gz", ".npz", ".parquet", ".pkl", ".npy")


def of_wheel(path: Path) -> set[str]:
    """List the files of a wheel."""
    with zipfile.ZipFile(path) as wheel:
        return {name for name in wheel.namelist() if not name.endswith("/")}


def of_source(path: Path) -> set[str]:
    """List the files of a source distribution, without the folder that holds them all."""
    with tarfile.open(path) as source:
        return {member.name.partition("/")[2] for member in source.getmembers() if member.isfile()}


def faults(tracked: set[str], wheel: set[str], source: set[str]) -> list[str]:
    """Compare both with the files of the repository.

    Parameters
    ----------
    tracked, wheel, source : set of str
        Paths in the repository, the wheel and the source distribution.

    Returns
    -------
    list of str
        One sentence for each fault; empty where there is none.
    """
    package = {name for name in tracked if name.startswith("skfairdp/")}
    found = [f"The wheel lacks {name}." for name in sorted(package - wheel)]
    for name in sorted(wheel - package):
        if ".dist-info/" not in name:
            found.append(f"The wheel holds {name}, which is not a tracked file of the package.")
    if not any(name.endswith("dist-info/licenses/LICENSE") for name in wheel):
        found.append("The wheel lacks the licence.")
    wanted = package | {name for name in tracked if name.startswith(("tests/", "examples/"))}
    wanted |= {"LICENSE", "README.md", "CHANGELOG.md", "constraints.txt", "pyproject.toml"}
    found += [f"The source distribution lacks {name}." for name in sorted(wanted - source)]
    for name in sorted(source - tracked):
        if not any(part in name for part in BY_THE_BUILD):
            found.append(f"The source distribution holds {name}, which is not tracked.")
    for name in sorted(wheel | source):
        if name.endswith(DATA):
            found.append(f"A distribution holds data: {name}.")
    return found


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    (wheel_path,), (source_path,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    wrong = faults(set(listed.splitlines()), of_wheel(wheel_path), of_source(source_path))
    print("\n".join(wrong) or f"{wheel_path.name} and {source_path.name} hold what they should.")
    sys.exit(bool(wrong))
