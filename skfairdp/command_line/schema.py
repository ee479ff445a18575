"""Public facts about the columns of a table, from a schema file or declared public."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd

from skfairdp.command_line.errors import CommandError
from skfairdp.command_line.reading import read_rows
from skfairdp.records.identifier_names import looks_like_an_identifier
from skfairdp.records.labels import factorized

EXAMPLE = (
    '{"columns": {"income": {"bounds": [0, 50000], "log": true, "fill": 0}, '
    '"purpose": {"categories": ["car", "home"]}, "id": {"drop": true}}}'
)
# Of a column of numbers, and of one of texts.
_DRAFTS: tuple[dict[str, Any], ...] = ({"bounds": [None, None]}, {"categories": []})
LARGEST = 1e300  # of a bound: differences of two such are finite


# By column: {"bounds": (low, high), "log": ..., "fill": ...}, {"categories": ...}, {"drop": True}.
Schema = Mapping[str, Mapping[str, Any]]


def stated(schema: Schema, key: str) -> dict[str, Any]:
    """Return the entries of one key of a schema, by column."""
    return {name: facts[key] for name, facts in schema.items() if key in facts}


def draft(arguments: argparse.Namespace) -> int:
    """Print the missing declarations of each column."""
    rows = read_rows(arguments.data, header=arguments.header)
    columns = {name: _drafted(name, rows.dtypes[name]) for name in rows.columns}
    print(json.dumps({"columns": columns}, indent=2, ensure_ascii=False))
    return 0


def _drafted(name: str, dtype: Any) -> dict[str, Any]:
    if looks_like_an_identifier(name):
        return {"drop": True}
    if pd.api.types.is_bool_dtype(dtype):
        return {"categories": [False, True]}
    return dict(_DRAFTS[not pd.api.types.is_numeric_dtype(dtype)])


def schema_from(document: Any) -> Schema:
    """Read a schema from the content of its file."""
    columns = document.get("columns") if isinstance(document, dict) else None
    if not isinstance(columns, dict) or not columns or set(document) != {"columns"}:
        raise CommandError(f"A schema is an object of columns, like {EXAMPLE}.")
    # What was drafted and not filled in declares nothing.
    columns = {name: facts for name, facts in columns.items() if facts not in _DRAFTS}
    for name, facts in columns.items():
        _check_facts(name, facts)
    made: dict[str, Callable[[Any], Any]] = {"fill": float, "categories": tuple}
    made["bounds"] = lambda pair: tuple(map(float, pair))
    return {
        name: facts | {key: make(facts[key]) for key, make in made.items() if key in facts}
        for name, facts in columns.items()
    }


def public_schema(rows: pd.DataFrame, known: Schema, without: set[str]) -> Schema:
    """Complete a schema from rows with public bounds."""
    found = dict(known)
    for name in rows.columns:
        column = rows[name].dropna()
        if name in known or name in without or not len(column):
            continue  # a column without values has no effect
        if pd.api.types.is_numeric_dtype(rows[name]):
            # Infinite ones are refused later, with the column's name.
            low, high = float(column.min()), float(column.max())
            low, high = (min(max(end, -LARGEST), LARGEST) for end in (low, high))
            high = high if high > low else low + max(1.0, abs(low))
            found[name] = {"bounds": (low, high), "fill": low / 2.0 + high / 2.0}
        else:
            # Not `unique`, which with pandas 2 takes "a" and "a\0b" as one text.
            found[name] = {"categories": tuple(sorted(factorized(column.astype(str))[1]))}
    return found


def _check_facts(name: Any, facts: Any) -> None:
    allowed = "'bounds' (with 'log' and 'fill' if need be), 'categories', or 'drop': true"
    if not isinstance(name, str) or not isinstance(facts, dict) or not set(facts) <= set(_RIGHT):
        # The entry is not shown: it may be a table by mistake.
        raise CommandError(
            f"The schema has an invalid entry for the column {name!r}; allowed is {allowed}."
        )
    said = [key for key in ("bounds", "categories", "drop") if key in facts]
    if len(said) != 1 or (said != ["bounds"] and len(facts) > 1):
        raise CommandError(f"The schema must give the column {name!r} one of {allowed}.")
    for key, value in facts.items():
        right, words = _RIGHT[key]
        if not right(value):
            raise CommandError(f"{key!r} of the column {name!r} must be {words}.")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _is_pair(value: Any) -> bool:
    pair = isinstance(value, list) and len(value) == 2 and all(map(_is_number, value))
    return bool(pair and value[0] < value[1])


def _is_list(value: Any) -> bool:
    known = (str, int, float, type(None))
    return bool(isinstance(value, list) and value and all(isinstance(v, known) for v in value))


# What may stand behind each key, and how that is said.
_RIGHT: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "bounds": (_is_pair, "two numbers, [low, high]"),
    "log": (lambda value: isinstance(value, bool), "true or false"),
    "fill": (_is_number, "a number"),
    "categories": (_is_list, "a list of values"),
    "drop": (lambda value: value is True, "true"),
}
