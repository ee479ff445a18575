"""Run attack scripts of folders outside this repository: ``python -m tests.attacks FOLDER...``.

Every script runs by itself in an empty folder, with the names of modules that it was written for.
Its output is compared with its record, where it has one. The exit status is 1 if a script stops
with an error, exceeds the time limit or prints other than recorded, and 2 without folders.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from tests.attacks.scripts import Outcome, outcome_of

VARIABLE = "SKFAIRDP_ATTACKS"


def main(arguments: list[str] | None = None) -> int:
    """Run all scripts and print a line for each."""
    parser = argparse.ArgumentParser(prog="python -m tests.attacks", description=__doc__)
    given = [folder for folder in os.environ.get(VARIABLE, "").split(os.pathsep) if folder]
    parser.add_argument("folders", nargs="*", type=Path, default=[Path(one) for one in given])
    parser.add_argument("--seconds", type=float, default=3600.0, help="time limit of a script")
    parser.add_argument("--only", default="", help="part of the names of the scripts to run")
    options = parser.parse_args(arguments)
    missing = [str(folder) for folder in options.folders if not folder.is_dir()]
    if missing or not options.folders:
        print(
            f"No folder of scripts: {', '.join(missing)}." if missing else "No folder was named.",
            f"Name folders of Python scripts, or set {VARIABLE} to them.",
            file=sys.stderr,
        )
        return 2
    scripts = sorted(
        script
        for folder in options.folders
        for script in folder.glob("*.py")
        if options.only in script.name
    )
    outcomes: list[Outcome] = []
    for script in scripts:
        outcomes.append(outcome_of(script, options.seconds))
        print(outcomes[-1], flush=True)
    failed = [one for one in outcomes if one.failed]
    print(f"{len(outcomes)} scripts, {len(failed)} failed")
    return 1 if failed or not outcomes else 0


if __name__ == "__main__":
    sys.exit(main())
