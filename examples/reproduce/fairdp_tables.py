"""The tables and figures of the FairDP papers, on the data sets that are here.

Run it as

    python examples/reproduce/fairdp_tables.py --data-home "$SKFAIRDP_DATA"

It fits some 1,100 small models and takes about half an hour on one core. Every fit's
measurements are kept in the folder of --cache, so that an interrupted run continues, and
so that tables and figures can be made again without fitting again. Results go to
docs/results.
"""

from __future__ import annotations

import argparse
import os
import warnings
from pathlib import Path

from fairdp_data import IMAGES, TABULAR
from fairdp_figures import draw_figures
from fairdp_jobs import PARTS, planned
from fairdp_protocol import append_cache, read_cache, run
from fairdp_report import write_report
from joblib import Parallel, delayed
from tqdm import tqdm

from skfairdp.exceptions import PrivacyWarning

CACHE = Path.home() / ".cache" / "skfairdp" / "fairdp_tables"


def fitted(job, data_home: str | None, cache: Path) -> tuple:
    """Run a job in whatever process; return it with its row."""
    with warnings.catch_warnings():
        # The papers' delta of 1e-5 is above 1/(10 n), and "clean" has no noise on purpose.
        warnings.simplefilter("ignore", PrivacyWarning)
        return job, run(job, data_home, cache)


def main() -> None:
    """Fit what is missing, then write tables and figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-home", default=os.environ.get("SKFAIRDP_DATA"))
    parser.add_argument("--datasets", nargs="+", default=[*TABULAR, *IMAGES])
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=PARTS)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=1, help="processes, one thread each")
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    parser.add_argument("--cache", type=Path, default=CACHE)
    parser.add_argument("--report-only", action="store_true", help="fit nothing")
    options = parser.parse_args()
    options.cache.mkdir(parents=True, exist_ok=True)
    options.out.mkdir(parents=True, exist_ok=True)

    jobs = list(planned(options.parts, options.datasets, options.seeds))
    known = read_cache(options.cache)
    missing = [] if options.report_only else [job for job in jobs if job.key not in known]
    results = Parallel(n_jobs=options.jobs, return_as="generator_unordered")(
        delayed(fitted)(job, options.data_home, options.cache) for job in missing
    )
    for job, row in tqdm(results, total=len(missing), desc="fits"):
        append_cache(options.cache, job, row)
        known[job.key] = row
    if not jobs:
        parser.error("these --parts have nothing for these --datasets")
    rows = [known[job.key] for job in jobs if job.key in known]
    if not rows:
        parser.error("--report-only, but nothing is in the cache")
    pictures = draw_figures(rows, options.out)
    print(write_report(rows, pictures, options.out, seeds=options.seeds))


if __name__ == "__main__":
    main()
