"""What is publicly known of the columns of a table, from a file or declared public."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from skfairdp.command_line.errors import CommandError
from skfairdp.command_line.files import read_rows
from skfairdp.preprocessing.cells import looks_like_an_identifier

EXAMPLE = (
    '{"columns": {"income": {"bounds": [0, 50000], "log": true, "fill": 0}, '
    '"purpose": {"categories": ["car", "home"]}, "id": {"drop": true}}}'
)
KEYS = {"bounds", "log", "fill", "categories", "drop"}


@dataclass(frozen=True)
class Schema:
    """Bounds, categories and fills of the columns that a model is to use."""

    bounds: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    log: tuple[str, ...] = ()  # Those that are bent by a logarithm
    fill: Mapping[str, float] = field(default_factory=dict)  # What stands for a missing number
    categories: Mapping[str, tuple[Hashable, ...]] = field(default_factory=dict)
    dropped: tuple[str, ...] = ()

    @property
    def used(self) -> tuple[str, ...]:
        """Columns that a model uses."""
        return (*self.bounds, *self.categories)

    @property
    def named(self) -> set[str]:
        """Columns that something is said about."""
        return {*self.used, *self.dropped}


def draft(arguments: argparse.Namespace) -> int:
    """Print what is still to be said of each column.

    Result: 0.
    """
    rows = read_rows(arguments.data)
    columns = {name: _drafted(name, rows.dtypes[name]) for name in rows.columns}
    print(json.dumps({"columns": columns}, indent=2, ensure_ascii=False))
    return 0


def _drafted(name: str, dtype: Any) -> dict[str, Any]:
    if looks_like_an_identifier(name):
        return {"drop": True}
    if pd.api.types.is_bool_dtype(dtype):
        return {"categories": [False, True]}
    return {"bounds": [None, None]} if pd.api.types.is_numeric_dtype(dtype) else {"categories": []}


def schema_from(document: Any) -> Schema:
    """Read a schema from what its file holds.

    `document`: ``{"columns": {name: {"bounds": [low, high], "log": true, "fill": 0} or
    {"categories": [...]} or {"drop": true}}}``.
    """
    columns = document.get("columns") if isinstance(document, dict) else None
    if not isinstance(columns, dict) or not columns or set(document) != {"columns"}:
        raise CommandError(f"A schema is an object of columns, like {EXAMPLE}.")
    bounds, fill, categories, log, dropped = {}, {}, {}, [], []
    for name, facts in columns.items():
        _check_facts(name, facts)
        if facts.get("drop"):
            dropped.append(name)
        elif "categories" in facts:
            categories[name] = tuple(facts["categories"])
        else:
            bounds[name] = tuple(map(float, facts["bounds"]))
            log += [name] if facts.get("log") else []
            if "fill" in facts:
                fill[name] = float(facts["fill"])
    return Schema(bounds, tuple(log), fill, categories, tuple(dropped))  # type: ignore[arg-type]


def public_schema(rows: pd.DataFrame, known: Schema, without: set[str]) -> Schema:
    """Complete a schema by what the rows hold, for rows whose bounds are public."""
    bounds, fill, categories = dict(known.bounds), dict(known.fill), dict(known.categories)
    for name in rows.columns:
        if name in known.named or name in without:
            continue
        column = rows[name].dropna()
        if pd.api.types.is_numeric_dtype(rows[name]) and len(column):
            low, high = float(column.min()), float(column.max())
            bounds[name] = (low, high if high > low else low + 1.0)
            fill[name] = (bounds[name][0] + bounds[name][1]) / 2.0
        else:
            categories[name] = tuple(sorted(column.astype(str).unique()))
    return Schema(bounds, known.log, fill, categories, known.dropped)


def _check_facts(name: Any, facts: Any) -> None:
    allowed = "'bounds' (with 'log' and 'fill' if need be), 'categories', or 'drop': true"
    if not isinstance(name, str) or not isinstance(facts, dict) or not set(facts) <= KEYS:
        # What stands there is not shown: it may be a table by mistake.
        raise CommandError(
            f"The schema says something else of the column {name!r} than it can; say {allowed}."
        )
    if facts.get("drop") is True and len(facts) == 1:
        return
    if ("bounds" in facts) == ("categories" in facts) or "drop" in facts:
        raise CommandError(f"The schema must say one thing of the column {name!r}: {allowed}.")
    if "categories" in facts:
        listed = facts["categories"]
        values = isinstance(listed, list) and all(map(_is_value, listed))
        if not values or not listed or set(facts) != {"categories"}:
            raise CommandError(f"'categories' of the column {name!r} must be a list of values.")
        return
    pair = facts["bounds"]
    ordered = (
        isinstance(pair, list)
        and len(pair) == 2
        and all(_is_number(end) for end in pair)
        and pair[0] < pair[1]
    )
    if not ordered:
        raise CommandError(f"'bounds' of the column {name!r} must be two numbers, [low, high].")
    if "fill" in facts and not _is_number(facts["fill"]):
        raise CommandError(f"'fill' of the column {name!r} must be a number.")
    if not isinstance(facts.get("log", False), bool):
        raise CommandError(f"'log' of the column {name!r} must be true or false.")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _is_value(value: Any) -> bool:
    return value is None or isinstance(value, (str, int, float))
