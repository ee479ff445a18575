"""A table as features, labels and groups."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cached_property, partial
from shlex import quote
from typing import Any

import numpy as np
import pandas as pd

from skfairdp.command_line.errors import CommandError, all_of
from skfairdp.command_line.groups import checked_groups, with_groups_as_asked
from skfairdp.command_line.reading import as_read, of_one_type
from skfairdp.command_line.request import Request
from skfairdp.command_line.schema import Schema, public_schema, stated
from skfairdp.preprocessing.cells import distinct_cells, read_cells
from skfairdp.records.identifier_names import looks_like_an_identifier, may_name_persons
from skfairdp.records.labels import factorized
from skfairdp.records.persons import Persons, encode_persons

# Of a target, as `FairPathClassifier` takes them.
MOST_CLASSES = 10
# Options that are given once for each column.
_REPEATED = ("--sensitive", "--drop", "--keep")
# Fewer letters are in many names by chance.
_TELLING = 4
# A target value that fewer rows have is not shown in messages.
_SHOWN = 20


@dataclass(frozen=True, eq=False)
class People:
    """The rows of a table, sorted out."""

    X: pd.DataFrame  # Features
    y: np.ndarray  # Outcomes as the table has them
    groups: pd.Series | pd.DataFrame
    schema: Schema | None  # None where bounds and categories have to be learned
    outcomes: tuple[Any, ...]  # Sorted
    positive: Any  # The favourable one; None where there are more than two and none was named
    coding: str  # What is what, in words
    ids: pd.Series | None = None  # Whose row it is; None where each is a person
    of_unknown_group: int = 0  # Rows that were left out for it; groups are public

    def part(self, chosen: np.ndarray) -> People:
        ids = None if self.ids is None else self.ids[chosen]
        X, y, groups = self.X[chosen], self.y[chosen], self.groups[chosen]
        return replace(self, X=X, y=y, groups=groups, ids=ids)

    @property
    def declared(self) -> dict[str, Any]:
        """Bounds as tuples and categories as lists, by column, as a table encoder takes them."""
        schema = self.schema or {}
        listed = {name: list(values) for name, values in stated(schema, "categories").items()}
        return stated(schema, "bounds") | listed

    @property
    def learned(self) -> tuple[str, ...]:
        """Features of which nothing is declared."""
        return tuple(name for name in self.X.columns if name not in (self.schema or {}))

    @cached_property
    def persons(self) -> Persons:
        """Map rows to persons."""
        n_rows = len(self.y)
        if self.ids is None:
            return Persons(np.arange(n_rows), n_rows, most=1)
        return encode_persons(self.ids, n_rows)


def people_of(rows: pd.DataFrame, request: Request, schema: Schema | None) -> People:
    """Sort out a table, and refuse one that can't be used."""
    target, sensitive, features = request.target, request.sensitive, request.features
    whose = () if request.person_ids is None else (request.person_ids,)
    given = {"--target": (target,), "--sensitive": sensitive, "--person-ids": whose}
    options = given | {"--drop": request.drop, "--keep": request.keep, "--features": features}
    all_of(*(partial(_check_columns, rows, names, option) for option, names in options.items()))
    without = {target, *sensitive, *whose}
    if len(without) < 1 + len(sensitive) + len(whose) or without & {*request.drop, *features}:
        raise CommandError(
            "A column takes --target, --sensitive, --person-ids, --drop or --features, not two."
        )
    kept = [name for name in rows.columns if not features or name in {*features, *without}]
    rows = rows[[name for name in kept if name not in request.drop]]
    unknown = rows[[*sensitive]].isna().any(axis=1).sum() if request.skip_blank else 0
    rows = with_groups_as_asked(rows, request)
    for name in (target, *sensitive):  # one "1.0" among many "1" says nothing
        column = rows[name]
        if pd.api.types.is_float_dtype(column) and (column == column.round()).all():
            rows[name] = column.astype(np.int64)
    (y, outcomes, favourable), groups, (X, kept_schema) = all_of(
        partial(_number_targets, rows[target])
        if request.numeric is not None
        else partial(_outcome, rows[target], request.positive),
        partial(checked_groups, rows, sensitive, whose),
        partial(_what_is_learned_from, rows, without, schema, request),
    )
    if request.numeric is not None:
        low, high = request.numeric
        coding = f"The target is the number {target}, declared to be between {low:g} and {high:g}"
    elif len(outcomes) > 2:
        _refuse_options_of_two(request)
        listed = ", ".join(map(str, outcomes))
        named = "" if favourable is None else f"; the favourable one is {favourable}"
        coding = f"The outcomes of {target} are {listed}, and differences are those of each{named}"
    else:
        other = outcomes[outcomes[0] == favourable]
        coding = (
            f"The positive outcome is {target} = {favourable}, and the other one {target} = {other}"
        )
    coding += f"; the groups are the values of {', '.join(sensitive)}."
    ids = rows[request.person_ids] if whose else None
    return People(X, y, groups, kept_schema, outcomes, favourable, coding, ids, int(unknown))


def features_named_like(target: str, features: Sequence[str]) -> tuple[str, ...]:
    """Features whose names hold that of the target, or are held by it; no value is looked at."""
    wanted, *given = (re.sub(r"[\W_]", "", name).lower() for name in (target, *features))
    return tuple(
        name
        for name, letters in zip(features, given, strict=True)
        if min(len(wanted), len(letters)) >= _TELLING and (wanted in letters or letters in wanted)
    )


def _what_is_learned_from(
    rows: pd.DataFrame, without: set[str], schema: Schema | None, request: Request
) -> tuple[pd.DataFrame, Schema | None]:
    """Features, and what is declared of them; what is not declared is learned under epsilon."""
    declared = schema or {}
    unknown = sorted(set(declared) - set(rows.columns))
    if unknown and not (request.features or request.drop):
        raise CommandError(f"The schema names columns that the table lacks: {', '.join(unknown)}.")
    left = [name for name in rows.columns if name not in {*declared, *without}]
    alike = [
        str(name)
        for name in left
        if looks_like_an_identifier(name) and name not in {*request.keep, *request.features}
    ]
    if alike and not request.bounds_are_public:
        # Not a phone, which several people share, and no row number that a program wrote.
        whose = next(filter(may_name_persons, alike), None)
        persons = (
            "If a person has several rows, name the column that says whose row it is, so that "
            f"epsilon protects persons: --person-ids {quote(whose)}. "
            if whose is not None and not request.person_ids
            else ""
        )
        nameless = (
            " (The column without a name in the first line is called 'Unnamed: N' here, and "
            "often numbers the rows.)"
            if any(str(name).startswith("Unnamed: ") for name in alike)
            else ""
        )
        drops = " ".join(f"--drop {quote(name)}" for name in alike)
        keeps = " ".join(f"--keep {quote(name)}" for name in alike)
        leave = "Leave" if request.person_ids else "If every row is another person, leave"
        raise CommandError(
            f"Columns have names of identifiers, which only identify people.{nameless} "
            f"{persons}{leave} them out: {drops}. If they are not identifiers, such as codes of a "
            f"codebook or the number of phones in a house, say so: {keeps}."
        )
    for name in rows.columns:
        if name not in without and "categories" not in declared.get(name, {}):
            rows[name] = as_read(rows[name], request.dates)
            if request.bounds_are_public and not pd.api.types.is_numeric_dtype(rows[name]):
                rows[name] = of_one_type(rows[name])
    if request.bounds_are_public:
        declared = public_schema(rows, declared, without)
    used = {**stated(declared, "bounds"), **stated(declared, "categories")}.keys() - without
    used = {name for name in used if name in rows.columns}
    learned = [] if request.bounds_are_public else left
    if not used and not learned:
        raise CommandError("No column is left as a feature.")
    kept = {name: facts for name, facts in declared.items() if name in used}
    if not kept:
        return rows[learned], None
    return _features(rows, kept, learned), kept


def _check_columns(rows: pd.DataFrame, names: Sequence[str], option: str) -> None:
    """Refuse names of no column, and outcomes, groups and ids that cannot be compared."""
    missing = [name for name in names if name not in rows.columns]
    if missing:
        listed = [part.strip() for part in missing[0].split(",")]
        if option in _REPEATED and len(listed) > 1 and all(part in rows.columns for part in listed):
            again = " ".join(f"{option} {quote(part)}" for part in listed)
            raise CommandError(f"{option} names one column; name several by {again}.")
        spelt = {str(name).lower().strip("'` "): str(name) for name in rows.columns}
        near = get_close_matches(missing[0].lower().strip(), spelt, n=1)
        if near:
            hint = f" Is {spelt[near[0]]!r} meant?"
        elif [*rows.columns[:1]] == ["column 1"]:
            hint = f" With --no-header they are 'column 1' to {rows.columns[-1]!r}."
        else:
            hint = " If the file has no line of names, say --no-header."
        raise CommandError(
            f"{option} names {', '.join(map(repr, missing))}, which is not a column of the table. "
            f"Are the names of the columns in its first line, and spelt like this?{hint}"
        )
    if option in ("--drop", "--keep", "--features"):
        return
    # Some versions of pandas compare texts only up to such a character.
    for name in names:
        if any("\0" in value for value in factorized(rows[name])[1] if isinstance(value, str)):
            raise CommandError(
                f"The column {name!r} has texts with a NUL character (a zero byte), and texts that "
                "differ only behind one would count as one outcome, group or person. Write the "
                "file without these characters."
            )


def _refuse_options_of_two(request: Request) -> None:
    """Refuse what is about one favourable outcome of two."""
    if request.mechanism == "fairdp":
        raise CommandError("--mechanism fairdp takes a target of two values; leave it out.")
    of_two = (request.ratio, request.base_rate, request.threshold, request.scores or None)
    if any(option is not None for option in of_two):
        raise CommandError(
            "--ratio, --base-rate, --threshold and --scores are about one favourable outcome of "
            "two; the target has more: leave them out."
        )


def _outcome(column: pd.Series, positive: str | None) -> tuple[np.ndarray, tuple[Any, ...], Any]:
    """Outcomes, the different ones, and the favourable one: of two, or where it was named."""
    name = column.name
    if column.isna().any():
        raise CommandError(
            f"The target {name!r} is missing in some rows. If their outcome is not known, leave "
            "those rows out: --skip-blank. If a blank stands for an outcome, such as 'none', write "
            "that into the file."
        )
    found = column.unique().tolist()
    if not 2 <= len(found) <= MOST_CLASSES:
        many = "one value" if len(found) < 2 else f"more than {MOST_CLASSES} values"
        raise CommandError(
            f"The target {name!r} has {many}; it must have two, such as approved and refused, or "
            f"up to {MOST_CLASSES}. A number such as an age has to be cut into a few first, or "
            "is predicted as a number, between public bounds: --numeric LOW HIGH."
        )
    if not any(all(isinstance(value, kind) for value in found) for kind in (str, int | float)):
        column = column.astype(str)  # dates, or kinds that have no common order
        found = column.unique().tolist()
    outcomes = tuple(sorted(found))
    # The classes are public, but a value of a few rows may be a slip that names a person.
    numbers = column.value_counts()
    rare = [value for value in outcomes if numbers[value] < _SHOWN]
    if len(outcomes) > 2 and rare:
        raise CommandError(
            f"The target {name!r} has {len(outcomes)} values, {len(rare)} of them in fewer than "
            f"{_SHOWN} rows. If these are slips, correct them, else put rare values together."
        )
    choices = " or ".join(
        "a value of very few rows" if value in rare else f"--positive {quote(str(value))}"
        for value in outcomes
    )
    if positive is None and len(outcomes) == 2:
        raise CommandError(
            f"Name the favourable outcome of the target {name!r}: {choices}. The certificate "
            "compares how often each group gets it. A larger number is not always better for a "
            "person: 1 may stand for a default, a failure, a churn or a relapse, and codes 1 and 2 "
            "for yes and no."
        )
    chosen = [value for value in outcomes if str(value) == positive]
    if not chosen and positive is not None and all(isinstance(v, bool) for v in outcomes):
        # Read from TRUE and FALSE, as other programs write them.
        chosen = [value for value in outcomes if str(value).lower() == positive.lower()]
    if positive is not None and not chosen:
        raise CommandError(
            f"--positive {positive!r} is not a value of the target {name!r}; give one of its "
            f"values as the table spells it: {choices}."
        )
    places = pd.Categorical(column, categories=list(outcomes)).codes
    return np.array(outcomes)[places], outcomes, chosen[0] if chosen else None


def _number_targets(column: pd.Series) -> tuple[np.ndarray, tuple[Any, ...], Any]:
    """Targets that are numbers; there are no outcomes, and none is favourable."""
    found = read_cells(column).numbers
    if not np.isfinite(found).all():
        raise CommandError(
            f"The target {column.name!r} is missing, or no number, in some rows. Leave blank ones "
            "out by --skip-blank; without --numeric the target may be a text."
        )
    if len(found) and float(found.min()) == float(found.max()):
        raise CommandError(f"The target {column.name!r} has one value in all rows.")
    return found, (), None


def _features(rows: pd.DataFrame, schema: Schema, learned: Sequence[str]) -> pd.DataFrame:
    """Features as the schema declares them, and `learned` ones; each cell is read by itself."""
    bounded, listed = stated(schema, "bounds"), stated(schema, "categories")
    found = all_of(
        *(partial(_bounded, rows[name], "fill" in schema[name]) for name in bounded),
        *(partial(_categories, rows[name], values) for name, values in listed.items()),
    )
    X = rows[[name for name in rows.columns if name in {*schema, *learned}]].copy()
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
