"""A table as features, labels and groups."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import partial
from shlex import quote
from typing import Any

import numpy as np
import pandas as pd

from skfairdp.command_line.errors import CommandError, all_of
from skfairdp.command_line.schema import Schema, public_schema, stated
from skfairdp.persons import Persons, encode_persons, looks_like_an_identifier
from skfairdp.preprocessing.cells import distinct_cells, read_cells

# Sizes and names of groups are public in what follows; a bound about fewer says nothing.
SMALLEST_GROUP = 20
LARGEST_NUMBER = 20
# A target value that fewer rows have is not shown in messages.
_SHOWN = 20


@dataclass(frozen=True, eq=False)
class People:
    """The rows of a table, sorted out."""

    X: pd.DataFrame  # Features
    y: np.ndarray  # Outcomes as the table has them
    groups: pd.Series | pd.DataFrame
    schema: Schema | None  # None where bounds and categories have to be learned
    outcomes: tuple[Any, Any]  # Sorted
    positive: Any  # The favourable one
    coding: str  # What is what, in words
    ids: pd.Series | None = None  # Whose row it is; None where each is a person

    def part(self, chosen: np.ndarray) -> People:
        ids = None if self.ids is None else self.ids[chosen]
        X, y, groups = self.X[chosen], self.y[chosen], self.groups[chosen]
        return replace(self, X=X, y=y, groups=groups, ids=ids)

    @property
    def persons(self) -> Persons:
        """Map rows to persons."""
        return encode_persons(np.arange(len(self.y)) if self.ids is None else self.ids, len(self.y))


def people_of(rows: pd.DataFrame, asked: argparse.Namespace, schema: Schema | None) -> People:
    """Sort out a table, and refuse one that can't be used; `asked` are options of ``report``."""
    target, sensitive, dropped = asked.target, asked.sensitive, asked.drop
    whose = [] if asked.person_ids is None else [asked.person_ids]
    given = {"--target": [target], "--sensitive": sensitive, "--person-ids": whose}
    options = (given | {"--drop": dropped}).items()
    all_of(*(partial(_check_columns, rows, names, option) for option, names in options))
    without = {target, *sensitive, *whose}
    if len(without) < 1 + len(sensitive) + len(whose) or without & set(dropped):
        raise CommandError("A column takes --target, --sensitive, --person-ids or --drop, not two.")
    rows = rows.drop(columns=list(dropped))
    for name in (target, *sensitive):  # one "1.0" among many "1" says nothing
        column = rows[name]
        if pd.api.types.is_float_dtype(column) and (column == column.round()).all():
            rows[name] = column.astype(np.int64)
    (y, outcomes, favourable), groups, (X, kept) = all_of(
        partial(_outcome, rows[target], asked.positive),
        partial(_groups, rows, sensitive, whose),
        partial(_what_is_learned_from, rows, without, schema, asked.bounds_are_public),
    )
    other = outcomes[outcomes[0] == favourable]
    coding = (
        f"The positive outcome is {target} = {favourable}, and the other one {target} = {other}; "
        f"groups are those of {', '.join(sensitive)}."
    )
    ids = rows[asked.person_ids] if whose else None
    return People(X, y, groups, kept, outcomes, favourable, coding, ids)


def _what_is_learned_from(
    rows: pd.DataFrame, without: set[str], schema: Schema | None, bounds_are_public: bool
) -> tuple[pd.DataFrame, Schema | None]:
    """Features and their declarations."""
    if schema is None and not bounds_are_public:
        X = rows.drop(columns=list(without))
        alike = [quote(str(name)) for name in X.columns if looks_like_an_identifier(name)]
        if alike:
            raise CommandError(
                "Columns have names of identifiers, from which a model learns nothing but who is "
                "who. If a person has several rows, name the column that says whose row it is, so "
                f"that epsilon protects persons: --person-ids {alike[0]}. If every row is another "
                f"person, leave them out: {' '.join(f'--drop {n}' for n in alike)}."
            )
        if X.columns.empty:
            raise CommandError("No column is left as a feature.")
        return X, None
    schema = schema or {}
    unknown = sorted(set(schema) - set(rows.columns))
    if unknown:
        raise CommandError(f"The schema names columns that the table lacks: {', '.join(unknown)}.")
    undeclared = [name for name in rows.columns if name not in {*schema, *without}]
    if undeclared and not bounds_are_public:
        raise CommandError(
            f"Nothing is declared about the columns {', '.join(undeclared)}. Bounds and categories "
            "that are read off the rows would show extreme people's values. Declare them in "
            "--schema FILE (or drop them there); leave the schema out, and a part of epsilon is "
            "spent to learn all of them; or say --bounds-are-public if the smallest and largest "
            "values and all categories in this file are public anyway."
        )
    schema = public_schema(rows, schema, without) if bounds_are_public else schema
    used = {**stated(schema, "bounds"), **stated(schema, "categories")}.keys() - without
    if not used:
        raise CommandError("No column is left as a feature; declare at least one in --schema.")
    kept = {name: facts for name, facts in schema.items() if name in used}
    return _features(rows, kept), kept


def _check_columns(rows: pd.DataFrame, names: Sequence[str], option: str) -> None:
    missing = [name for name in names if name not in rows.columns]
    if missing:
        spelt = {str(name).lower(): str(name) for name in rows.columns}
        near = get_close_matches(missing[0].lower(), spelt, n=1)
        meant = f" Is {spelt[near[0]]!r} meant?" if near else ""
        raise CommandError(
            f"{option} names {', '.join(map(repr, missing))}, which is not a column of the table. "
            f"Are the names of the columns in its first line, and spelt like this?{meant}"
        )


def _outcome(column: pd.Series, positive: str | None) -> tuple[np.ndarray, tuple[Any, Any], Any]:
    """Outcomes, the two that there are, and the favourable one."""
    name = column.name
    if column.isna().any():
        raise CommandError(f"The target {name!r} is missing in some rows; leave those rows out.")
    found = column.unique().tolist()
    if len(found) != 2:
        many = "one value" if len(found) < 2 else "more than two values"
        raise CommandError(
            f"The target {name!r} has {many}; it must have two, such as approved and refused. "
            "A number such as an age has to be cut in two first."
        )
    if not any(all(isinstance(value, kind) for value in found) for kind in (str, int | float)):
        column = column.astype(str)  # dates, or kinds that have no common order
        found = column.unique().tolist()
    first, second = sorted(found)
    # The two classes are public, but a value of a few rows may be a slip that names a person.
    numbers = column.value_counts()
    choices = " or ".join(
        f"--positive {value}" if numbers[value] >= _SHOWN else "a value of very few rows"
        for value in (first, second)
    )
    if positive is None:
        raise CommandError(
            f"Name the favourable outcome of the target {name!r}: {choices}. The certificate "
            "compares how often each group gets it. A larger number is not always better for a "
            "person: 1 may stand for a default or a refusal."
        )
    chosen = [value for value in found if str(value) == positive]
    if not chosen:
        raise CommandError(
            f"--positive {positive!r} is not a value of the target {name!r}; give one of its "
            f"two values as the table spells it: {choices}."
        )
    favourable = chosen[0]
    y = np.where((column == second).to_numpy(dtype=bool), second, first)
    return y, (first, second), favourable


def _features(rows: pd.DataFrame, schema: Schema) -> pd.DataFrame:
    """Features as the schema declares them; each cell is read by itself."""
    bounded, listed = stated(schema, "bounds"), stated(schema, "categories")
    found = all_of(
        *(partial(_bounded, rows[name], "fill" in schema[name]) for name in bounded),
        *(partial(_categories, rows[name], values) for name, values in listed.items()),
    )
    X = rows[[name for name in rows.columns if name in schema]].copy()
    for name, column in zip([*bounded, *listed], found, strict=True):
        X[name] = column  # not `assign`, whose keywords cannot be any name: "self" is its own
    return X


def _bounded(column: pd.Series, filled: bool) -> np.ndarray:
    numbers = read_cells(column).numbers
    none = np.isnan(numbers)
    for wrong, what in (
        (none & column.notna(), "bounds in the schema, but holds text; declare its categories"),
        (np.isinf(numbers), "infinite values; write what they stand for, or leave the column out"),
        (none & (not filled), 'missing values; declare one in the schema, e.g. "fill": 0'),
    ):
        if wrong.any():
            raise CommandError(f"The column {column.name!r} has {what}.")
    return numbers


def _categories(column: pd.Series, listed: Sequence[Any]) -> pd.Series:
    """Cells as the listed values that they stand for, others as missing.

    Text is a listed text if it is written alike. A number is a listed one of the same value,
    whatever the type of the column, which one missing cell may change.
    """
    texts: dict[Any, Any] = {value: value for value in listed if isinstance(value, str)}
    of_cells: dict[Any, Any] = dict(zip(_numbers(listed), listed, strict=True))
    of_cells.pop(None, None)
    of_texts = {number: v for number, v in of_cells.items() if not isinstance(v, str)}
    codes, distinct = distinct_cells(column)
    stands = [
        of_texts.get(number, texts.get(value))
        if isinstance(value, str)
        else of_cells.get(number, texts.get(str(value)))
        for value, number in zip(distinct, _numbers(distinct), strict=True)
    ]
    never = [value for value in listed if not any(value is known for known in stands)]
    if never and any(known is None for known in stands):
        raise CommandError(
            f"The column {column.name!r} holds values that the schema does not list, and never "
            f"{', '.join(map(repr, never))}, which it lists; is that spelt as in the table? If it "
            "is, leave it out of the schema; unlisted values then count as missing."
        )
    found = np.array([*stands, None], dtype=object)[codes]
    return pd.Series(found, index=column.index, dtype=object)


def _numbers(values: Sequence[Any]) -> list[float | None]:
    read = read_cells(pd.Series(list(values), dtype=object)).numbers
    return [None if np.isnan(number) else float(number) for number in read]


def _groups(
    rows: pd.DataFrame, sensitive: Sequence[str], whose: Sequence[str]
) -> pd.Series | pd.DataFrame:
    groups, named = rows[list(sensitive)], ", ".join(map(repr, sensitive))
    gaps = ", ".join(repr(name) for name in sensitive if groups[name].isna().any())
    if gaps:
        raise CommandError(
            f"{gaps} is missing in some rows. Leave those rows out of "
            "the file, and so out of the claim, or merge them with a group that they are treated "
            "like; its own value, such as 'not stated', needs rows enough to show anything."
        )
    for name in whose:
        try:
            codes = groups.groupby(list(sensitive), observed=True).ngroup().to_numpy()
            encode_persons(rows[name], len(rows)).one_each(
                codes, f"Some person has rows of different groups in {named}."
            )
        except ValueError as error:
            raise CommandError(f"--person-ids {name}: {error}") from None
    people = groups[~rows.duplicated(whose)] if whose else groups
    sizes = people.groupby(list(sensitive), observed=True).size()
    if len(sizes) > LARGEST_NUMBER:
        raise CommandError(
            f"{named} makes {len(sizes)} groups; at most "
            f"{LARGEST_NUMBER} can be compared. Sort them into a few, such as age classes."
        )
    if len(sizes) < 2:
        raise CommandError(f"{named} makes one group; two are needed.")
    small = int((sizes < SMALLEST_GROUP).sum())
    if small:
        raise CommandError(
            f"{named} makes {len(sizes)} groups, {small} of them with fewer than {SMALLEST_GROUP} "
            f"{'persons' if whose else 'rows'}: too few to say anything about. Put small groups "
            "together with others, or leave them out."
        )
    return groups[sensitive[0]] if len(sensitive) == 1 else groups
