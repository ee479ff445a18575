"""Groups of a table: merging, leaving out, and their smallest size."""

from __future__ import annotations

from collections.abc import Sequence
from shlex import quote

import pandas as pd

from skfairdp.command_line.errors import CommandError
from skfairdp.command_line.request import Request
from skfairdp.records.persons import encode_persons

# Sizes and names of groups are public in what follows; a bound about fewer says nothing.
SMALLEST_GROUP = 20
LARGEST_NUMBER = 20
# A value that fewer rows have may be a slip that names a person, and is not shown.
_SHOWN = 5


def with_groups_as_asked(rows: pd.DataFrame, request: Request) -> pd.DataFrame:
    """Merge groups and leave rows out, as options say; each row is looked at by itself."""
    named = [*request.sensitive]
    rows = rows.copy(deep=False)
    for name in named:
        if request.merge:  # a new name is a text, so the others become texts
            rows[name] = rows[name].astype(str).where(rows[name].notna())
        for new, values in request.merge:
            rows[name] = rows[name].mask(rows[name].isin(values), new)
    known = {str(value) for name in named for value in rows[name].dropna().unique()}
    merged = {new for new, _ in request.merge}
    asked = [value for _, values in request.merge for value in values]
    missing = [value for value in asked if not _occurs(value, rows, request)]
    missing += [value for value in request.leave_out if value not in known | merged]
    if missing:
        one = " Name values of one column, not of an intersection." if len(named) > 1 else ""
        raise CommandError(
            f"--merge or --leave-out names {', '.join(map(repr, missing))}, which is no value of "
            f"{', '.join(map(repr, named))}. Is it spelt as in the table?{one}"
        )
    left = pd.Series(True, index=rows.index)
    for name in named:
        left &= ~rows[name].astype(str).isin(request.leave_out)
    if request.skip_blank:
        left &= rows[[request.target, *named]].notna().all(axis=1)
    return rows if left.all() else rows[left].reset_index(drop=True)


def _occurs(value: str, rows: pd.DataFrame, request: Request) -> bool:
    """Whether a value that was merged had been there; it is under its new name now."""
    new = next(new for new, values in request.merge if value in values)
    return any((rows[name].astype(str) == new).any() for name in request.sensitive)


def checked_groups(
    rows: pd.DataFrame, sensitive: Sequence[str], whose: Sequence[str]
) -> pd.Series | pd.DataFrame:
    """Take the groups of rows; refuse missing, changing, too small and too many ones."""
    groups, named = rows[list(sensitive)], " and ".join(map(repr, sensitive))
    makes = f"{named} makes" if len(sensitive) == 1 else f"{named} together make"
    gaps = ", ".join(repr(name) for name in sensitive if groups[name].isna().any())
    if gaps:
        raise CommandError(
            f"{gaps} is missing in some rows. Leave those rows out of the claim by --skip-blank, "
            "or give them their own value, such as 'not stated', in the file; a group of its "
            "own needs enough rows to show anything."
        )
    for name in whose:
        try:
            codes = groups.groupby(list(sensitive), observed=True).ngroup().to_numpy()
            encode_persons(rows[name], len(rows)).one_each(
                codes,
                f"Some person has rows of different groups in {named}. Write one group into all "
                "rows of a person, such as that at the first visit, or leave the column that "
                "changes out of --sensitive.",
            )
        except ValueError as error:
            raise CommandError(f"--person-ids {name}: {error}") from None
    people = groups[~rows.duplicated(whose)] if whose else groups
    sizes = people.groupby(list(sensitive), observed=True).size()
    if len(sizes) > LARGEST_NUMBER:
        raise CommandError(
            f"{makes} {len(sizes)} groups; at most "
            f"{LARGEST_NUMBER} can be compared. Sort them into a few, such as age classes, or put "
            "some together: --merge NEW=a,b."
        )
    if len(sizes) < 2:
        raise CommandError(
            f"{makes} one group; two are needed. Name a column that tells people apart by "
            "--sensitive, or several: --sensitive sex --sensitive age_class."
        )
    small = sizes[sizes < SMALLEST_GROUP]
    if len(small):
        named_ones = [n if isinstance(n, tuple) else (n,) for n in small[small >= _SHOWN].index]
        columns = [f"{name} = " * (len(sensitive) > 1) for name in sensitive]
        shown = "; ".join(
            " and ".join(f"{column}{value}" for column, value in zip(columns, n, strict=True))
            for n in named_ones
        )
        hidden = len(small) - len(named_ones)
        if hidden:
            few = f"{hidden} of fewer than {_SHOWN}, which are not named here"
            shown = f"{shown}; and {few}" if shown else few
        ways = " (--merge NEW=a,b), or leave them out (--leave-out GROUP)"
        if named_ones and len(sensitive) > 1:
            value = quote(str(min(named_ones[0], key=lambda v: sum((groups == v).any(axis=1)))))
            ways = (
                f": --merge NEW={value},ANOTHER puts values of one column together, and "
                f"--leave-out {value} leaves all rows with this value out"
            )
        elif named_ones:
            values = [quote(str(name)) for (name,) in named_ones]
            new = "NEW" if "other" in values else "other"
            merged = [*values, "ANOTHER"][: max(2, len(values))]
            ways = (
                f" (--merge {new}={','.join(merged)}), or leave them out (--leave-out {values[0]})"
            )
        raise CommandError(
            f"{makes} {len(sizes)} groups, {len(small)} of them with fewer than "
            f"{SMALLEST_GROUP} {'persons' if whose else 'rows'}: too few to say anything about"
            f"{': ' * bool(shown)}{shown}. Put small groups together with others{ways}."
        )
    return groups[sensitive[0]] if len(sensitive) == 1 else groups
