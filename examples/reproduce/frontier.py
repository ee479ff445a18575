"""All mechanisms, several ε and tolerances, three data sets: frontier pictures and pages.

    python examples/reproduce/frontier.py --data-home "$SKFAIRDP_DATA"

It fits some 1,400 small models and takes about an hour on one core. Every fit's
measurements are kept in the folder of --cache, so that an interrupted run continues, and
so that pictures and pages can be made again without fitting again. Results go to
docs/results. ``--only mortgages --seeds 1`` is a first look of a few minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import warnings
from pathlib import Path

from frontier_jobs import SEEDS, key, load, planned, run
from frontier_mechanisms import present
from frontier_report import write_report
from tqdm import tqdm

from skfairdp.exceptions import PrivacyWarning

CACHE = Path.home() / ".cache" / "skfairdp" / "frontier"


def kept(path: Path) -> dict[str, list[dict]]:
    """Measurements of earlier runs, by the key of the fit; a line that was cut is no fit."""
    known = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        try:
            known.update([json.loads(line)])
        except json.JSONDecodeError:
            continue
    return known


def main() -> None:
    """Fit what is missing, then write pictures and pages."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-home", default=os.environ.get("SKFAIRDP_DATA"))
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    parser.add_argument("--cache", type=Path, default=CACHE)
    parser.add_argument("--only", nargs="+", choices=SEEDS, default=list(SEEDS))
    parser.add_argument("--mechanisms", nargs="+", help="names of the table; all by default")
    parser.add_argument("--seeds", type=int, default=max(SEEDS.values()), help="most seeds")
    parser.add_argument("--report-only", action="store_true", help="fit nothing")
    options = parser.parse_args()
    options.cache.mkdir(parents=True, exist_ok=True)
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.cache / "fits.jsonl"

    table = {m.name: m for m in present() if m.name in (options.mechanisms or [m.name])}
    jobs = [job for job in planned(options.only, tuple(table.values())) if job.seed < options.seeds]
    keys = {job: key(job, table[job.mechanism]) for job in jobs}
    known = kept(path)
    missing = [] if options.report_only else [job for job in jobs if keys[job] not in known]
    for job in tqdm(missing, desc="fits", mininterval=5):
        with warnings.catch_warnings():
            # δ = 1e-5 of the papers is above 1/(10 n).
            warnings.simplefilter("ignore", PrivacyWarning)
            lines = run(job, table[job.mechanism], load(job.dataset, options.data_home))
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps([keys[job], lines]) + "\n")
        known[keys[job]] = lines
    if not any(keys[job] in known for job in jobs):
        parser.error("there is nothing to report: no fit was asked for that is in the cache")
    fits = {job: known[keys[job]] for job in jobs if keys[job] in known}
    print(write_report(jobs, fits, options.out))


if __name__ == "__main__":
    main()
