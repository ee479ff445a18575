"""FairPATE on Adult and UTK-Face: accuracy, coverage, gap and epsilon, compared with other methods.

Run it as

    python examples/reproduce/fairpate.py --data-home "$SKFAIRDP_DATA"

Teachers are fitted once for each seed and their votes are kept in the folder of --cache, as
are all measurements, so that an interrupted run continues and tables can be made again.
Everything takes about ten minutes on one core. Results go to docs/results.
"""

from __future__ import annotations

import argparse
import json
import os
import warnings
from dataclasses import asdict
from pathlib import Path

from fairpate_against import Fit, planned_fits, run_fit
from fairpate_report import write_report
from fairpate_sweep import Cell, planned_cells, run_cell
from fairpate_votes import FIRST_SEARCH_SEED, cached_votes, load_rows
from tqdm import tqdm

from skfairdp.exceptions import PrivacyWarning

DATASETS = ("adult", "utkface", "utkface5")
CACHE = Path.home() / ".cache" / "skfairdp" / "fairpate"


def key_of(job: Cell | Fit) -> str:
    """Identity of a job in the cache."""
    return json.dumps([type(job).__name__, asdict(job)], sort_keys=True)


def jobs_of(dataset: str, seed: int, n_fits: int) -> list[Cell | Fit]:
    """Everything that is measured for a data set and a seed."""
    jobs: list[Cell | Fit] = list(planned_cells(dataset, seed))
    if dataset != "utkface5" and seed < n_fits:
        jobs += planned_fits(dataset, seed)
    return jobs


def read_cache(path: Path) -> dict[str, dict | None]:
    """Read what was measured, by `key_of`."""
    if not path.exists():
        return {}
    lines = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return {line["key"]: line["row"] for line in lines}


def main() -> None:
    """Measure what is missing, then write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-home", default=os.environ.get("SKFAIRDP_DATA"))
    parser.add_argument("--datasets", nargs="+", default=DATASETS, choices=DATASETS)
    parser.add_argument("--seeds", type=int, default=5, help="for everything with teachers")
    parser.add_argument("--fits", type=int, default=3, help="seeds of the other methods")
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    parser.add_argument("--cache", type=Path, default=CACHE)
    parser.add_argument("--report-only", action="store_true", help="measure nothing")
    options = parser.parse_args()
    options.cache.mkdir(parents=True, exist_ok=True)
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.cache / "measured.jsonl"
    known = read_cache(path)

    # The search seed comes first: its rows choose the number of answers.
    for seed in (FIRST_SEARCH_SEED, *range(options.seeds)):
        for dataset in () if options.report_only else options.datasets:
            if seed == FIRST_SEARCH_SEED and dataset == "utkface5":
                continue
            missing = [j for j in jobs_of(dataset, seed, options.fits) if key_of(j) not in known]
            if not missing:
                continue
            rows = load_rows(dataset, options.data_home, seed, options.cache)
            # Groups play no part in teachers: both divisions of the faces share their votes.
            votes = cached_votes(dataset.rstrip("5"), rows, seed, options.cache)
            for job in tqdm(missing, desc=f"{dataset}, seed {seed}", mininterval=5):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", PrivacyWarning)  # delta near 1/(10 n)
                    if isinstance(job, Cell):
                        row = run_cell(job, rows, votes)
                    else:
                        row = run_fit(job, rows)
                known[key_of(job)] = row
                with path.open("a", encoding="utf-8") as lines:
                    lines.write(json.dumps({"key": key_of(job), "row": row}) + "\n")
    print(write_report([row for row in known.values() if row is not None], options.out))


if __name__ == "__main__":
    main()
