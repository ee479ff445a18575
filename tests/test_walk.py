"""Files, functions and changes of room that a reader follows stay within limits."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.walk import PACKAGE, walking

# Most files, functions and changes of room of each flow of tests/walk.py. They only go down: a
# change that raises one belongs elsewhere, or needs a reason in its commit.
LIMITS = {
    "DPSGDClassifier.fit": (67, 381, 103),
    "the same with a ledger": (65, 377, 105),
    "FairPathClassifier.fit": (79, 493, 125),
    "certify": (53, 259, 72),
    "str of the certificate": (18, 74, 23),
    "skfairdp report": (139, 856, 224),
}


def test_no_flow_enters_more_files_functions_or_rooms_than_its_limit() -> None:
    # In its own process: what earlier tests have cached would not be entered again.
    command = [sys.executable, "-m", "tests.walk", "--counts"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    counts = json.loads(done.stdout)
    print(done.stdout)
    assert counts.keys() == LIMITS.keys()
    more = {
        flow: f"{[*found.values()]} > {LIMITS[flow]}"
        for flow, found in counts.items()
        if any(n > most for n, most in zip(found.values(), LIMITS[flow], strict=True))
    }
    assert not more


def test_a_call_of_another_room_is_counted() -> None:
    from skfairdp.figures import significant_up
    from skfairdp.privacy.noise import NoiseSource

    with walking() as one:
        significant_up(0.5)
    with walking() as several:
        significant_up(0.5)
        significant_up(0.25)
        NoiseSource(0)
        significant_up(0.125)
    assert one.files == ["figures.py"]
    assert one.changes == 0
    assert several.files[:2] == ["figures.py", "privacy/noise.py"]
    assert several.changes == 1
    assert several.counts["functions"] > one.counts["functions"]
    assert all(code.co_filename.startswith(PACKAGE) for code in several.entered)


@pytest.mark.parametrize("body", ["class A: pass", "[x for x in range(3)]"])
def test_bodies_of_classes_and_parts_of_functions_do_not_count(body: str) -> None:
    code = compile(body, PACKAGE + "made_up.py", "exec")
    with walking() as walk:
        exec(code, {})
    assert walk.counts == {"files": 0, "functions": 0, "changes": 0}
