"""Table 2 and the sweeps of the PF-LD paper, on its five data sets.

Run it as

    python examples/reproduce/pfld_table2.py --data-home "$SKFAIRDP_DATA" --parts table

Every fit's measurements are added to the file of --out, so that an interrupted run continues,
and so that the page can be written again without fitting again (--report-only).
"""

from __future__ import annotations

import argparse
import os
import warnings
from pathlib import Path

from joblib import Parallel, delayed
from pfld_data import FOLDS, SETS, TABLE_2
from pfld_jobs import METHODS, PARTS, Job, planned
from pfld_protocol import append_result, read_results, run
from pfld_published import NOTIONS
from pfld_report import write_report
from sklearn.exceptions import ConvergenceWarning
from tqdm import tqdm

from skfairdp.exceptions import PrivacyWarning

OUT = Path.home() / ".cache" / "skfairdp" / "pfld.jsonl"


def fitted(job: Job, data_home: str | None) -> dict:
    """Run a job in whatever process."""
    with warnings.catch_warnings():
        # The paper's delta of 1e-5 is near 1/(10 n), and CLF has no noise on purpose.
        warnings.simplefilter("ignore", PrivacyWarning)
        # fairlearn's own use of pandas.
        warnings.simplefilter("ignore", DeprecationWarning)
        # Z's constraints of misclassified rows may be met up to a kink only.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return run(job, data_home)


def main() -> None:
    """Fit what is missing, then write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-home", default=os.environ.get("SKFAIRDP_DATA"))
    parser.add_argument("--datasets", nargs="+", default=list(TABLE_2), choices=SETS)
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--notions", nargs="+", default=list(NOTIONS), choices=NOTIONS)
    parser.add_argument("--parts", nargs="+", default=["table"], choices=PARTS)
    parser.add_argument("--folds", type=int, default=FOLDS)
    parser.add_argument("--jobs", type=int, default=1, help="processes, one thread each")
    parser.add_argument("--out", type=Path, default=OUT, help="measured fits")
    parser.add_argument("--page", type=Path, default=Path("docs/results/pfld.md"))
    parser.add_argument("--report-only", action="store_true", help="fit nothing")
    options = parser.parse_args()
    for path in (options.out, options.page):
        path.parent.mkdir(parents=True, exist_ok=True)

    known = read_results(options.out)
    jobs = {job.key: job for job in planned(options.parts, options.datasets, options.methods,
                                            options.folds)}  # fmt: skip
    missing = [
        job
        for key, job in jobs.items()
        if key not in known and job.notion in (None, *options.notions) and not options.report_only
    ]
    # The first fold of everything first; in it, one data set after the other.
    missing.sort(key=lambda job: (job.fold, job.dataset))
    results = Parallel(n_jobs=options.jobs, return_as="generator_unordered")(
        delayed(fitted)(job, options.data_home) for job in missing
    )
    for row in tqdm(results, total=len(missing), desc="fits"):
        append_result(options.out, row)
        known[row["key"]] = row
    if not known:
        parser.error("nothing was fitted, and --out is empty")
    write_report(known, options.page, folds=options.folds)
    print(options.page)


if __name__ == "__main__":
    main()
