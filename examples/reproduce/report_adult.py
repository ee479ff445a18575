"""Runs of `skfairdp report` on Adult: how often the tolerance is shown, and the accuracy.

Run as

    python examples/reproduce/report_adult.py FOLDER [--runs 20] [--schema]

Each run reads the same CSV file of all 48,842 rows, with a tolerance of .05 at ε = 1, and draws its
own held-out rows and noise, so no two commands print the same. With `--schema` bounds and
categories of all columns are declared; without it the command buys them. Results are in
docs/results/fair_path.md.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
from pathlib import Path

import numpy as np

from skfairdp.command_line import main as command
from skfairdp.datasets import fetch_adult

ASKED = "--target income --positive 1 --sensitive sex --epsilon 1 --tolerance .05 --no-ledger"


def write_table(folder: Path) -> None:
    """Write the table and its schema."""
    adult = fetch_adult()
    groups = {"sex": adult.sensitive_features, "income": adult.target}
    adult.data.assign(**groups).to_csv(folder / "adult.csv", index=False)
    columns = {
        name: {"bounds": list(adult.bounds[name]), "log": name in adult.log_columns}
        if name in adult.bounds
        else {"categories": list(adult.categories[name])}
        for name in adult.data.columns
    }
    (folder / "adult.json").write_text(json.dumps({"columns": columns}), encoding="utf-8")


def main() -> None:
    """Run the command, print each run and the means."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--schema", action="store_true")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    write_table(given.folder)
    words = ["report", str(given.folder / "adult.csv"), *ASKED.split(), "--quiet"]
    words += ["--out", str(given.folder / "report.html")]
    words += ["--certificate", str(given.folder / "certificate.json")]
    words += ["--schema", str(given.folder / "adult.json")] if given.schema else []
    found = []
    for run in range(given.runs):
        with contextlib.redirect_stdout(io.StringIO()):
            code = command(words)
        if code not in (0, 1):
            raise SystemExit(code)
        shown = code == 0
        certificate = json.loads((given.folder / "certificate.json").read_text(encoding="utf-8"))
        right, rows = (certificate["accuracy"][name] for name in ("right", "rows"))
        bound, gap = (certificate["fairness"][0][name] for name in ("bound", "estimate"))
        found.append((right / rows, float(bound), float(gap), shown))
        each = "accuracy {:.4f} bound {:.4f} gap {:.4f} shown {}"
        print(run, each.format(*found[-1]), flush=True)
    accuracy, bounds, gaps, shown = np.array(found, dtype=float).T
    error = accuracy.std(ddof=1) / np.sqrt(len(found)) if len(found) > 1 else float("nan")
    print(
        f"accuracy {accuracy.mean():.4f} ± {error:.4f}, bound {bounds.mean():.3f}, "
        f"gap {gaps.mean():.3f}, shown {int(shown.sum())} of {len(found)}"
    )


if __name__ == "__main__":
    main()
