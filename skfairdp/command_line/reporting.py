"""``report`` and ``plan``: from a table to a filed report, or to a forecast of it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from shlex import quote
from typing import Any

import numpy as np
import pandas as pd

from skfairdp import PrivacyLedger
from skfairdp.command_line.accounts import default_note, ledger_of, remember
from skfairdp.command_line.errors import CommandError
from skfairdp.command_line.files import check_outputs, read_document, say
from skfairdp.command_line.parsing import ENOUGH_FOR_TABLES
from skfairdp.command_line.planning import Outlook
from skfairdp.command_line.reading import PARQUET, of_one_type, read_rows
from skfairdp.command_line.request import Request
from skfairdp.command_line.schema import schema_from
from skfairdp.command_line.table import People, features_named_like, people_of
from skfairdp.privacy.noise import NoiseSource
from skfairdp.records.persons import warn_of_ids


def plan(arguments: argparse.Namespace) -> int:
    """Say what a report could show and would cost."""
    arguments.plan = True
    return report(arguments)


def report(arguments: argparse.Namespace) -> int:
    """Train, certify, write the page; 1 if the certificate does not show the tolerance."""
    request = Request.of(arguments)  # wrong options show before a file is read
    key = None
    if request.sign is not None and not request.plan:
        from skfairdp.command_line.checking import private_key  # loads what checks certificates

        key = private_key(request.sign)
    if not request.plan:
        check_outputs(request.outputs, request.inputs)
    declared = None if request.schema is None else schema_from(read_document(request.schema))
    about = {} if request.about is None else _said_about(request.about)
    written, rows = _rows(request)
    people = people_of(rows, request, declared)
    for name in features_named_like(request.target, people.X.columns):
        say(
            request,
            f"skfairdp: note: the feature {name!r} is named like the target {request.target!r}. If "
            "it says the same, or is known only after the outcome, leave it out: --drop "
            f"{quote(name)}.",
        )
    persons = people.persons
    usual = not request.mechanism_is_named and request.numeric is None
    if usual and persons.count * request.epsilon < ENOUGH_FOR_TABLES:
        request = request.by("rates")
    ledger, known = ledger_of(request, written)
    noise = NoiseSource()
    # Each person by its own draw: who is held out then depends on nobody else.
    held = (noise.sampling.random(persons.count) < request.held_out)[persons.codes]
    outlook = Outlook(request, people, held if request.held_out_is_public else None)
    if request.plan:
        print("\n".join(outlook.lines(ledger)))
        return 0
    _check_parts(people, held)
    _agree(outlook, ledger)
    if ledger is not None and not known:
        remember(request, ledger, written)
    del written, rows
    # Brings torch: seconds that a wrong option or column need not cost.
    from skfairdp.command_line.filing import ChargedReport

    parts = people.part(~held), people.part(held)
    return ChargedReport(request, *parts, outlook, noise, ledger, key, about).file()


def _said_about(path: Path) -> dict[str, Any]:
    """Read what only the people behind a deployment know."""
    from skfairdp.certificate.registry import ABOUT

    about = read_document(path)
    if not isinstance(about, dict) or set(about) - set(ABOUT):
        raise CommandError(f"--about must be an object with some of: {', '.join(ABOUT)}.")
    return about


def _rows(request: Request) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Read the table as it is written, the same in all runs, and with values of public columns."""
    say(request, f"Reading {request.data}")
    written = read_rows(request.data, inferred=(), header=request.header)
    rows = written.copy(deep=False)
    public = rows if request.bounds_are_public else (request.target, *request.sensitive)
    if request.data.suffix.lower() not in PARQUET:
        for name in dict.fromkeys(public):
            if name in rows.columns:
                rows[name] = of_one_type(rows[name])
    if request.check_ids:
        features = rows.drop(columns=[request.target, *request.sensitive], errors="ignore")
        warn_of_ids(features, persons_known=request.person_ids is not None)
    return written, rows


def _check_parts(people: People, held: np.ndarray) -> None:
    """Refuse, before anything is spent, a draw that leaves nothing to train or certify on."""
    groups = people.groups
    found = [len(groups[part].drop_duplicates()) for part in (held, ~held)]
    if min(found) < len(groups.drop_duplicates()):
        raise CommandError(
            "The draw of --held-out left a group without rows to train or to certify on; choose a "
            "share that leaves some of every group in both parts, such as 0.3."
        )


def _agree(outlook: Outlook, ledger: PrivacyLedger | None) -> None:
    """Say where a run is charged; have it confirmed if it can hardly show its tolerance."""
    request = outlook.request
    note = default_note(request, ledger)
    if outlook.is_likely or request.anyway:
        if note is not None:
            say(request, note)
        return
    shown = "\n".join(line for notion in request.notion for line in outlook.shown(notion))
    said = f"Before anything is spent: these rows can hardly show the requested tolerance.\n{shown}"
    ways = "--plan shows more, without cost; a larger --tolerance or --held-out helps"
    if not sys.stdin.isatty():
        raise CommandError(f"{said}\nNothing was spent. {ways}; --anyway runs all the same.")
    if note is not None:
        say(request, note)
    print(f"{said}\n{ways[0].upper()}{ways[1:]}.", file=sys.stderr, flush=True)
    print("Train and certify all the same? [y/N] ", file=sys.stderr, end="", flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise CommandError("Nothing was spent.")
