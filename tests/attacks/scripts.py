"""Records of attack scripts: arguments, and the output that shows whether an attack succeeds."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tests.attacks.old_names import TRAINING_ROWS

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Record:
    """How a script is run, and how its output is read.

    `arguments`: on its command line. `prints`, `never_prints`: regular expressions; `^` and `$`
    match at lines. `stops`: the error with which it ends, where a refusal is the defence. `helper`:
    a module that other scripts import, which does nothing by itself. `needs`: what the script
    expects and lacks: a file next to it, or a private function that is gone. `now`: the test that
    attacks the same place today. `unjudged`: why no output shows whether the attack succeeds.
    `seconds`: a time limit of its own. `folders`: folders that it writes into. `copies`: files that
    it reads from the empty folder, each with the script in its own folder that is meant.
    `training_rows`: whether it certifies on the rows that it trains on, which is refused today.
    """

    arguments: tuple[str, ...] = ()
    prints: str = ""
    never_prints: str = ""
    stops: str = ""
    helper: bool = False
    needs: str = ""
    now: str = ""
    unjudged: str = ""
    seconds: float = 0.0
    folders: tuple[str, ...] = ()
    copies: tuple[tuple[str, str], ...] = ()
    training_rows: bool = False

    def __post_init__(self) -> None:
        """Refuse a record that judges nothing and does not say why."""
        for pattern in (self.prints, self.never_prints, self.stops):
            re.compile(pattern, re.MULTILINE)
        judged = self.prints or self.never_prints or self.stops
        if not (judged or self.helper or self.unjudged or (self.needs and self.now)):
            raise ValueError("A record says how the output is read, or why it is not.")


# A figure above 1 by more than the order of additions explains. Clipping norms are lowered by
# that, at another place than the one that these scripts call.
_ABOVE_ONE = r"(?:[2-9]|\d\d|1\.(?!0{9}|0\b))"

RECORDS: dict[str, Record] = {
    "a1b": Record(
        prints=r"cal \| one record out, same seed \| changed 1 of 20 \| L2 1\.41",
        never_prints=r"changed (?:[2-9]|1\d|20) of|other global seed \| changed [1-9]",
    ),
    "a1d": Record(prints=r"\(1, 1\.41\)", never_prints=r"\((?:[2-9]|\d\d),"),
    "a2_net_fail": Record(prints="bad record: True -> fitted", never_prints="raised"),
    "a3_sfpate": Record(prints=r"0\.99\d+ change-attribute", never_prints="<<<<"),
    "a5_bar": Record(
        prints=r"without record 3 \[\('40', '40'\)\]", never_prints=r"\('(?!40', '40'\))"
    ),
    "a6_stdout": Record(never_prints=r"\S"),
    "a7_pate_e2e": Record(
        prints="votes moved: largest L2", never_prints=r"L2 (?:1\.4[2-9]|1\.[5-9]|[2-9]|\d\d)"
    ),
    "byindex": Record(
        prints="so the whole search is not private", never_prints="^(?:None|by_index) add-remove"
    ),
    "cat_cli": Record(
        needs="a request of the command line with fewer fields", now="tests/attacks/test_cells.py"
    ),
    "climake": Record(
        folders=("cli",), unjudged="it writes tables for other scripts, and prints nothing"
    ),
    # Bounds of confidence .95: exact coverage, without simulation.
    "cov2": Record(
        seconds=3600.0,
        prints="200 200 worst miss exact",
        never_prints=r"(?:exact|diff) (?:0\.05(?!00)|0\.0[6-9]|0\.[1-9]|[1-9])",
    ),
    "ct": Record(prints=r"^inf 4\ninf 3", never_prints=r"^(?:selector )?\d\.\d+ \d"),
    "digest": Record(
        training_rows=True,
        prints="self True pickled True",
        never_prints=r"verify\(other\)=True|verify True|weights: True|edit True|same\? True",
    ),
    # The exact ratio is 1, and 200,000 draws show it with a standard deviation of .006.
    "e3_enc": Record(
        prints=r"order/one-by-one/prefix/floatid \[True, True, True, True\]",
        never_prints=r"order\S+ \[.*False|(?:BN|Mix|MixW|Cnt) \w+ fitted"
        r"|ratio (?:[2-9]|\d\d|1\.(?:0[4-9]|[1-9]))"
        r"|by other rows: (?!0\.0)",
    ),
    "f32_e2e": Record(
        arguments=("2000", "20"),
        prints="epsilon >=",
        never_prints=rf"sensitivity / claimed: {_ABOVE_ONE}|epsilon >= [1-9]",
    ),
    "f32acc3": Record(prints=r"^100000 \(", never_prints=rf"\({_ABOVE_ONE}"),
    "fp_data": Record(helper=True),
    "fp_e2e": Record(
        arguments=("2000", ".1", "1.0", "equal_opportunity", ".05", "60"),
        prints="gap>tau unwarned",
        never_prints=r"unwarned [1-9]\d* gap>tau unwarned \d+ =[\d.]+ \(>= 0\.[1-9]",
    ),
    "ftinv": Record(prints="printed inf void True", never_prints="printed [0-9]"),
    # Copies of a model answer for themselves; the page of threats says so.
    "g2_abst": Record(
        prints=r"threads: table of answers = gate's True worst 0\.0", never_prints="stuck True"
    ),
    "halts": Record(
        prints="^group unhashable -> fits",
        never_prints=r"-> (?:TypeError|IndexError|KeyError|AttributeError|RuntimeError)",
    ),
    "k_cert1": Record(prints="===== fairdp claims", never_prints="accepted"),
    "k_cert2": Record(
        copies=(("cert1.py", "k_cert1.py"),),
        prints="forged notion: verify False holds False",
        stops="'accuracy' does not follow from its counts",
    ),
    "k_dist": Record(arguments=("dtype",), prints="labels float/int"),
    "k_dist3": Record(
        prints=r"functional \n\s+0 \(\('ValueError'.*one process alone",
        never_prints=r"(additive|thinning|encoder)[\w ]*\n\s+0 \(\('(DP|Private)",
    ),
    "k_dist4": Record(prints="PrivateSearchCV is fitted by one process alone"),
    # Both processes are refused, and it waits for their answers.
    "k_dist5": Record(stops="Two processes of this fit hold the same rows"),
    "k_enc1": Record(
        prints="again rows released differently: 0",
        never_prints=r"(?:again|permuted|by one.*|frame|object|pickle) rows .*differently: [1-9]",
    ),
    # Two guesses of three are right by chance and one release; 200 near-copies tell no more.
    "k_enc2": Record(
        prints=r"near-copies 200 right guesses of the hidden code 0\.[67]",
        never_prints=r"near-copies \d+ right guesses of the hidden code (?:1|0\.[89])",
    ),
    "k_pate1": Record(needs="teachers.py", now="tests/aggregation/teachers/test_parallel.py"),
    "k_post1": Record(
        prints="thinning huge epochs n=996 -> ", never_prints=r"-> .*\b(?:996|1001|1003)\b.*\| ctx"
    ),
    "k_sig": Record(
        prints="small order SignatureError",
        never_prints=r"(?:fact added|S\+L|zero width|NFC of NFD|-0\.0|derived \w+) -> True",
    ),
    # It keeps the first draw that breaks its bound, and takes it apart; there is none.
    "keyed": Record(
        stops="cannot unpack non-iterable NoneType", prints="the certified bound: 0 of 40"
    ),
    # Each of ten lines is of 40 certificates that fail with chance .05; 10 of 40 has chance 2e-5.
    "keyed3": Record(prints="violated", never_prints=r"violated [1-4]\d of"),
    "kink2": Record(prints="remove-one / C", never_prints=rf"C = {_ABOVE_ONE}"),
    "last": Record(
        prints="Pipeline subclass with own predict verifies: False", never_prints="verifies: True"
    ),
    "ld_float2": Record(
        needs="skfairdp.engine.release._combined",
        now="tests/inprocessing/attribute/test_lagrangian_dual.py",
    ),
    # Its search has a parameter that is gone; tests/attacks/test_pipeline_steps.py has such a one.
    "ledhtml": Record(
        stops="unexpected keyword argument 'mean_fits'", prints='with this model among it": False'
    ),
    # What follows calls Block by place; tests/engine/test_rehearsal.py tries such settings.
    "misc": Record(prints="no row of class 2: ValueError The module MLP returns outputs"),
    "misc2": Record(
        prints="path_share",
        never_prints=r"^\{'path_share': 1e-18\}.*entries [1-9]|OverflowError|ZeroDivisionError",
    ),
    # Steps that learned nothing; a fitted model alone, also behind a given threshold; a step that
    # is taken away after the fit (the guarantee starts at the array that the estimator's fit gets).
    "misuse": Record(
        prints="^StandardScaler +eps=inf",
        never_prints=r"^(?!plain|FunctionTransformer ufunc|imputer const|passthrough|CT ok|Frozen f"
        r"|FixedThr|Grid\.best|dropped scaler|scaler->).*eps=\d",
    ),
    "pld_direct2": Record(prints="package", never_prints=r"package \S+ \(\+(?:[1-9]|0\.[2-9])"),
    "pld_direct_lib": Record(helper=True),
    "pld_scan": Record(never_prints="UNDER"),
    "post": Record(
        prints=r"module_ swapped for a noiseless one -> privacy: \(inf",
        never_prints=r"(?:to hold a row|swapped for a noiseless one|inf then .*) -> privacy: \(\d",
    ),
    "pq1": Record(prints=r"float32\(1\.1529216e\+18\) 0100805d\n(.*\n){2}.*0100805d"),
    "pq2": Record(
        arguments=("20",), prints="printed 0.99", never_prints=r"eps >= [1-9]|^null: .*\b1\.\d"
    ),
    "pq3": Record(prints=r"half True ValueError", never_prints=r"(list|struct) ok"),
    "q1_quote": Record(prints="quotes value: False", never_prints="quotes value: True"),
    "rm1": Record(prints="^20000 relu", never_prints=rf" {_ABOVE_ONE}$"),
    "sf2": Record(prints="attribute of person 3 changed", never_prints=r"'(?!40')\d+', '"),
    "sfc": Record(
        unjudged="it shows how SFC64 is inverted; noise is from AES-128 today",
        prints="reconstructed from 192 bits",
    ),
    "skmod": Record(helper=True),
    "skorchv": Record(unjudged="it writes files for the command line and judges nothing"),
    "small": Record(never_prints="reserved third"),
    "t2": Record(prints="inner groups", never_prints="AttributeError|TypeError|KeyError"),
    "tamper": Record(needs="cli/c_ok.json", now="tests/attacks/test_mutated_certificates.py"),
    "te1": Record(never_prints=r"(published: [1-9]\d* of)", prints="published: 0 of 60"),
    "threads": Record(prints="global torch state restored: True", never_prints="restored: False"),
    "tight": Record(prints="30 9 9 package 0.2"),
    "ufout": Record(prints=r"eps inf void True", never_prints=r"eps \d"),
    "ycert": Record(prints="counts released"),
    "ylist": Record(prints="printed", never_prints=r"eps >= [1-9]"),
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
    name = f"{script.parent.name}/{script.name}"
    record = RECORDS.get(script.stem)
    if record is None:
        return Outcome(name, 0.0, "has no record: tests/attacks/scripts.py", failed=True)
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
    command = [sys.executable, "-W", "ignore", "-m", "tests.attacks.old_names"]
    command += [TRAINING_ROWS] * record.training_rows
    limit, start = max(limit, record.seconds), time.perf_counter()
    with tempfile.TemporaryDirectory() as place:
        for folder in record.folders:
            (Path(place) / folder).mkdir()
        for name_here, source in record.copies:
            shutil.copy(script.with_name(source), Path(place) / name_here)
        with subprocess.Popen(
            [*command, str(script), *record.arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            cwd=place,
            env=environment,
            start_new_session=True,
        ) as process:
            try:
                printed, errors = process.communicate(timeout=limit)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)  # with the processes that it started
                return Outcome(name, limit, "exceeded the time limit", failed=True)
    verdict, failed = verdict_on(record, process.returncode, printed, errors)
    return Outcome(name, time.perf_counter() - start, verdict, failed)


def verdict_on(record: Record, status: int, printed: str, errors: str) -> tuple[str, bool]:
    """Compare a run with its record: a sentence, and whether it failed."""
    if status:
        last = (errors.strip().splitlines() or [f"status {status}"])[-1][:160]
        if not record.stops or not re.search(record.stops, errors):
            return f"stopped: {last}", True
        verdict = f"refused: {last}"
    elif record.stops:
        return "was not refused", True
    else:
        verdict = "a module of other scripts" if record.helper else "as recorded"
    if record.prints and not re.search(record.prints, printed, re.MULTILINE):
        return f"does not print {record.prints!r}", True
    if record.never_prints and (found := re.search(record.never_prints, printed, re.MULTILINE)):
        return f"prints {found[0]!r}", True
    return (f"ran, not judged: {record.unjudged}" if record.unjudged else verdict), False
