"""Tables and schemas for the commands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

SCHEMA = {
    "columns": {
        "income": {"bounds": [0, 10], "fill": 5},
        "debt": {"bounds": [0, 100], "log": True},
        "purpose": {"categories": ["car", "home", "other"]},
        "id": {"drop": True},
    }
}


def table(n: int = 800, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    group = np.where(rng.random(n) < 0.4, "a", "b")
    income = rng.uniform(0, 10, n)
    approve = (income + rng.normal(0, 2, n) > np.where(group == "a", 5, 4)).astype(int)
    return pd.DataFrame(
        {
            "id": np.arange(n),
            "income": np.where(rng.random(n) < 0.05, np.nan, income),
            "debt": rng.uniform(0, 100, n),
            "purpose": rng.choice(["car", "home", "other"], n),
            "white": group,
            "approve": approve,
        }
    )


def written(folder: Path, rows: pd.DataFrame | None = None, schema: Any = SCHEMA) -> None:
    """Write data.csv and schema.json."""
    (table() if rows is None else rows).to_csv(folder / "data.csv", index=False)
    (folder / "schema.json").write_text(json.dumps(schema), encoding="utf-8")


def report(
    *more: str, epsilon: str = "2", tolerance: str = "0.9", mechanism: str | None = "rates"
) -> list[str]:
    """Arguments of a usual report; the default mechanism may be nearly constant on so few rows."""
    more = more if mechanism is None else ("--mechanism", mechanism, *more)
    more = more if "--positive" in more else ("--positive", "1", *more)
    start = ["report", "data.csv", "--target", "approve", "--sensitive", "white"]
    figures = ["--epsilon", epsilon, "--delta", "1e-5", "--tolerance", tolerance]
    # So few rows can hardly show a tolerance.
    usual = ["--schema", "schema.json", "--out", "report.html", "--quiet", "--anyway"]
    return [*start, *figures, *usual, *more]
