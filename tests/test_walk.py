"""Files, functions and changes of room that a reader follows stay within limits."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from skfairdp.records.labels import _CUTS_TEXTS
from tests.processes import in_one_worker, run_fresh
from tests.walk import PACKAGE, walking

# Most files, functions and changes of room of each flow of tests/walk.py: some one in a hundred
# above what they count today. They only go down: a change that reaches one belongs elsewhere, or
# needs a reason in its commit.
LIMITS = {
    "DPSGDClassifier.fit": (54, 381, 50),
    "the same with a ledger": (55, 381, 55),
    "FairPathClassifier.fit": (66, 489, 77),
    "certify": (40, 258, 61),
    "str of the certificate": (20, 105, 29),
    "skfairdp report": (114, 896, 205),
}

# python -m tests.walk --counts
COUNTED = """import runpy, sys
sys.argv = ["tests.walk", "--counts"]
runpy.run_module("tests.walk", run_name="__main__", alter_sys=True)
"""


@pytest.fixture(scope="module")
def counted() -> dict[str, Any]:
    # In a process of its own: what earlier tests have cached would not be entered again.
    done = run_fresh(COUNTED)
    assert done.returncode == 0, done.stderr
    print(done.stdout)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@in_one_worker
def test_no_flow_enters_more_files_functions_or_rooms_than_its_limit(counted) -> None:
    assert counted.keys() == LIMITS.keys()
    counts = {flow: [*found.values()][:3] for flow, found in counted.items()}
    # Pandas 2 cuts texts at NUL characters: labels are marked first, by one function more.
    marked = np.array([0, _CUTS_TEXTS, 0])
    more = {
        flow: f"{found} > {LIMITS[flow]}"
        for flow, found in counts.items()
        if (np.array(found) > LIMITS[flow] + marked).any()
    }
    assert not more


@in_one_worker
def test_a_fit_ends_before_certificates_begin(counted) -> None:
    fits = {flow: found["rooms"] for flow, found in counted.items() if "certi" not in flow}
    del fits["skfairdp report"]
    assert len(fits) == 3
    for flow, rooms in fits.items():
        assert {"base", "receipts", "privacy", "engine"} <= {*rooms}, flow
        assert {"certificate", "model_selection", "metrics"}.isdisjoint(rooms), flow
    assert "certificate" in counted["certify"]["rooms"]
    assert "engine" in counted["certify"]["rooms"]  # predicting, not training


def test_a_call_of_another_room_is_counted() -> None:
    from skfairdp.foundation.figures import significant_up
    from skfairdp.privacy.noise import NoiseSource

    with walking() as one:
        significant_up(0.5)
    with walking() as several:
        significant_up(0.5)
        significant_up(0.25)
        NoiseSource(0)
        significant_up(0.125)
    assert one.files == ["foundation/figures.py"]
    assert one.changes == 0
    assert several.files[:2] == ["foundation/figures.py", "privacy/noise.py"]
    assert several.changes == 1
    assert several.counts["functions"] > one.counts["functions"]
    assert all(code.co_filename.startswith(PACKAGE) for code in several.entered)


@pytest.mark.parametrize("body", ["class A: pass", "[x for x in range(3)]"])
def test_bodies_of_classes_and_parts_of_functions_do_not_count(body: str) -> None:
    code = compile(body, PACKAGE + "made_up.py", "exec")
    with walking() as walk:
        exec(code, {})
    assert walk.counts == {"files": 0, "functions": 0, "changes": 0}
