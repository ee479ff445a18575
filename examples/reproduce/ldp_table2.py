"""Table 2 and the figures of "Privacy for Fairness" (Xie et al. 2024), on its data sets.

Run it as

    python examples/reproduce/ldp_table2.py --data-home "$SKFAIRDP_DATA"

Every fit's measurements are added to files in the folder --cache, so that an interrupted run
continues, and so that the page can be written again without fitting again (--report-only). Fair
codes have their own page.
"""

from __future__ import annotations

import argparse
import os
import warnings
from pathlib import Path

import torch
from ldp_codes import codes_page
from ldp_data import SETS
from ldp_jobs import PARTS, SEEDS, planned
from ldp_protocol import append_result, read_results, run
from ldp_report import write_report
from pages import write_pages
from tqdm import tqdm

from skfairdp.exceptions import PrivacyWarning

CACHE = Path.home() / ".cache" / "skfairdp" / "ldp_table2"


def main() -> None:
    """Fit what is missing, then write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-home", default=os.environ.get("SKFAIRDP_DATA"))
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=PARTS)
    parser.add_argument("--datasets", nargs="+", default=list(SETS), choices=SETS)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--limit", type=int, help="largest number of jobs to fit")
    parser.add_argument("--cache", type=Path, default=CACHE, help="folder of measured fits")
    parser.add_argument("--page", type=Path, default=Path("docs/results/representations.md"))
    parser.add_argument("--report-only", action="store_true", help="fit nothing")
    options = parser.parse_args()
    for folder in (options.cache, options.page.parent):
        folder.mkdir(parents=True, exist_ok=True)

    torch.set_num_threads(1)
    known = read_results(options.cache)
    wanted = [] if options.report_only else planned(options.parts, options.datasets, options.seeds)
    missing = [job for job in wanted if job.key not in known][: options.limit]
    with warnings.catch_warnings():
        # An epsilon of 1000 is no protection, on purpose.
        warnings.simplefilter("ignore", PrivacyWarning)
        for job in tqdm(missing, desc="fits"):
            append_result(options.cache, run(job, options.data_home))
    current = {job.key for job in planned(PARTS, SETS, SEEDS)}
    rows = {key: row for key, row in read_results(options.cache).items() if key in current}
    codes = options.page.with_name("fair_codes.md")
    if any(row["part"] == "codes" for row in rows.values()):
        write_pages(codes, codes_page(rows))
        print(codes)
    if any(row["part"] == "table" for row in rows.values()):
        write_report(rows, options.page)
        print(options.page)


if __name__ == "__main__":
    main()
