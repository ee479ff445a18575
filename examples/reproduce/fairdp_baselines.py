"""Private and fair learners side by side on Adult and Default-CCC, and the private frontier.

Run it as

    python examples/reproduce/fairdp_baselines.py --data-home "$SKFAIRDP_DATA"

It fits some 800 small models and takes about forty minutes on one core. Every fit's
measurements are kept in the folder of --cache, so that an interrupted run continues, and
so that tables and pictures can be made again without fitting again. Results go to
docs/results.
"""

from __future__ import annotations

import argparse
import os
import warnings
from pathlib import Path

from baselines_figures import draw_figures
from baselines_jobs import (
    DATASETS,
    FRONTIER_SEEDS,
    METHODS,
    OTHER_DATASETS,
    REDUCTION,
    ROW_SEEDS,
    planned,
)
from baselines_protocol import run
from baselines_report import write_report
from fairdp_protocol import append_cache, read_cache
from tqdm import tqdm

from skfairdp.exceptions import PrivacyWarning

CACHE = Path.home() / ".cache" / "skfairdp" / "fairdp_baselines"
EVERYTHING = (*DATASETS, *OTHER_DATASETS)


def main() -> None:
    """Fit what is missing, then write tables and figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-home", default=os.environ.get("SKFAIRDP_DATA"))
    parser.add_argument("--datasets", nargs="+", default=EVERYTHING, choices=EVERYTHING)
    parser.add_argument("--methods", nargs="+", default=[*METHODS, REDUCTION])
    parser.add_argument("--row-seeds", type=int, default=ROW_SEEDS)
    parser.add_argument("--frontier-seeds", type=int, default=FRONTIER_SEEDS)
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    parser.add_argument("--cache", type=Path, default=CACHE)
    parser.add_argument("--report-only", action="store_true", help="fit nothing")
    options = parser.parse_args()
    options.cache.mkdir(parents=True, exist_ok=True)
    options.out.mkdir(parents=True, exist_ok=True)

    jobs = [
        job
        for job in planned(options.datasets, options.row_seeds, options.frontier_seeds)
        if job.method in options.methods
    ]
    known = read_cache(options.cache)
    missing = [] if options.report_only else [job for job in jobs if job.key not in known]
    for job in tqdm(missing, desc="fits", mininterval=5):
        with warnings.catch_warnings():
            # The papers' delta of 1e-5 is above 1/(10 n), and "clean" has no noise on purpose.
            warnings.simplefilter("ignore", PrivacyWarning)
            known[job.key] = run(job, options.data_home)
        append_cache(options.cache, job, known[job.key])
    rows = [known[job.key] for job in jobs if job.key in known]
    if not rows:
        parser.error("there is nothing to report: no fit was asked for that is in the cache")
    print(write_report(rows, draw_figures(rows, options.out), options.out))


if __name__ == "__main__":
    main()
