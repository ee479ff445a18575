"""Records of attack scripts: arguments, and the output that shows whether an attack succeeds."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Record:
    """How a script is run, and how its output is read.

    `arguments`: on its command line. `prints`, `never_prints`: regular expressions. `stops`: the
    error with which it ends, where a refusal is the defence. `helper`: a module that other scripts
    import, which does nothing by itself. `needs`: what the script expects and lacks: a file next to
    it, or a private function that is gone. `now`: the test that attacks the same place today.
    `folders`: folders that it writes into.
    """

    arguments: tuple[str, ...] = ()
    prints: str = ""
    never_prints: str = ""
    stops: str = ""
    helper: bool = False
    needs: str = ""
    now: str = ""
    folders: tuple[str, ...] = ()


RECORDS: dict[str, Record] = {
    "a3_sfpate": Record(
        needs="the module skfairdp.aggregation.accounting", now="tests/aggregation/test_sfpate.py"
    ),
    "cat_cli": Record(stops="no attribute 'categories'"),
    "climake": Record(folders=("cli",)),
    "f32_e2e": Record(arguments=("2000", "20")),
    "fp_data": Record(helper=True),
    "fp_e2e": Record(
        arguments=("2000", ".1", "1.0", "equal_opportunity", ".05", "60"),
        never_prints=r"unwarned [1-9]\d* gap>tau unwarned \d+ =[\d.]+ \(>= 0\.[1-9]",
    ),
    "ftinv": Record(prints="printed inf void True", never_prints="printed [0-9]"),
    "k_cert2": Record(needs="cert1.py", now="tests/attacks/test_mutated_certificates.py"),
    "k_dist": Record(arguments=("dtype",)),
    "k_dist3": Record(
        prints=r"functional \n\s+0 \(\('ValueError'.*one process alone",
        never_prints=r"(additive|thinning|encoder)[\w ]*\n\s+0 \(\('(DP|Private)",
    ),
    "k_dist4": Record(prints="PrivateSearchCV is fitted by one process alone"),
    "k_pate1": Record(needs="teachers.py", now="tests/aggregation/test_teachers_elsewhere.py"),
    "k_sig": Record(prints="small order SignatureError", never_prints="fact added -> True"),
    # It keeps the first draw that breaks its bound, and takes it apart; there is none.
    "keyed": Record(stops="cannot unpack non-iterable NoneType"),
    "ld_float2": Record(
        needs="skfairdp.engine.release._combined", now="tests/inprocessing/test_lagrangian_dual.py"
    ),
    "ledhtml": Record(stops="learned from rows without noise"),
    "pld_direct_lib": Record(helper=True),
    "pq1": Record(prints=r"float32\(1\.1529216e\+18\) 0100805d\n(.*\n){2}.*0100805d"),
    "pq3": Record(prints=r"half True ValueError", never_prints=r"(list|struct) ok"),
    "skmod": Record(helper=True),
    "tamper": Record(needs="cli/c_ok.json", now="tests/attacks/test_mutated_certificates.py"),
    "te1": Record(never_prints=r"(published: [1-9]\d* of)", prints="published: 0 of 60"),
    "ufout": Record(prints=r"eps inf void True", never_prints=r"eps \d"),
    "ycert": Record(prints="counts released"),
}


@dataclass(frozen=True)
class Outcome:
    """The result of one script."""

    name: str
    seconds: float
    verdict: str
    failed: bool

    def __str__(self) -> str:
        mark = "FAILED" if self.failed else "ok"
        return f"{mark:6} {self.name:24} {self.seconds:6.1f} s  {self.verdict}"


def outcome_of(script: Path, limit: float) -> Outcome:
    """Run a script in an empty folder and read its output."""
    record = RECORDS.get(script.stem, Record())
    name = f"{script.parent.name}/{script.name}"
    if record.needs:
        missing = not (ROOT / record.now).is_file()
        verdict = f"not run: needs {record.needs}, which is not there; see {record.now}"
        return Outcome(name, 0.0, verdict, failed=missing)
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(script.parent)]),
        "MPLBACKEND": "Agg",
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, "-W", "ignore", "-m", "tests.attacks.old_names", str(script)]
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as place:
        for folder in record.folders:
            (Path(place) / folder).mkdir()
        try:
            ran = subprocess.run(
                [*command, *record.arguments],
                capture_output=True,
                text=True,
                errors="replace",
                cwd=place,
                env=environment,
                timeout=limit,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Outcome(name, limit, "exceeded the time limit", failed=True)
    verdict, failed = verdict_on(record, ran.returncode, ran.stdout, ran.stderr)
    return Outcome(name, time.perf_counter() - start, verdict, failed)


def verdict_on(record: Record, status: int, printed: str, errors: str) -> tuple[str, bool]:
    """Compare a run with its record: a sentence, and whether it failed."""
    if status:
        last = (errors.strip().splitlines() or [f"status {status}"])[-1][:160]
        if record.stops and re.search(record.stops, errors):
            return f"refused: {last}", False
        return f"stopped: {last}", True
    if record.stops:
        return "was not refused", True
    if record.helper:
        return "a module of other scripts", False
    if record.prints and not re.search(record.prints, printed):
        return f"does not print {record.prints!r}", True
    if record.never_prints and (found := re.search(record.never_prints, printed)):
        return f"prints {found[0]!r}", True
    known = record.prints or record.never_prints
    return ("as recorded" if known else "ran; its output has no record"), False
