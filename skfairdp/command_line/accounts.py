"""Ledger of a table: its default file, and a check that its people have no other name there."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

import pandas as pd

from skfairdp import PrivacyLedger
from skfairdp.command_line.errors import CommandError
from skfairdp.command_line.request import Request

SUFFIX = ".skfairdp-ledger.db"
DEFAULT_NOTE = "Other runs on these people add up there; --no-ledger keeps no account."


def ledger_of(request: Request, rows: pd.DataFrame) -> tuple[PrivacyLedger | None, bool]:
    """Find the ledger that a run is charged to, None without one, and whether it knows the people.

    The same people are recognised under whatever name of the file: by a keyed digest of all ids
    where ids are given, else of all rows.
    """
    if request.no_ledger:
        return None, False
    people = who(request, rows)
    if request.ledger is not None:
        ledger = PrivacyLedger(request.ledger)
        return _named(request, ledger, _known(ledger, people))
    folder = request.data.absolute().parent
    own = folder / f"{request.data.stem}{SUFFIX}"
    for path in dict.fromkeys((own, *sorted(folder.glob(f"*{SUFFIX}")))):
        ledger = PrivacyLedger(path)
        known = _known(ledger, people)
        if known is not None:
            return _named(request, ledger, known)
    return _named(request, PrivacyLedger(own), None)


def _named(
    request: Request, ledger: PrivacyLedger, known: str | None
) -> tuple[PrivacyLedger, bool]:
    if known is not None and request.data_set not in (None, known):
        raise CommandError(
            f"The ledger {ledger.path} knows these people as {known!r}. Their "
            f"costs under another name, {request.data_set!r}, would not be added to these: leave "
            "--data-set out."
        )
    name = known or request.data_set or request.data.stem
    return PrivacyLedger(ledger.path, name, budget=request.budget), known is not None


def remember(ledger: PrivacyLedger, people: pd.DataFrame) -> None:
    """Let a ledger recognise these people; the key is made next to it, for its owner alone."""
    path = _key_file(ledger)
    if not path.exists():
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(opened, "wb") as file:
            file.write(secrets.token_bytes(32))
    ledger.recognise(people, path.read_bytes())


def _known(ledger: PrivacyLedger, people: pd.DataFrame) -> str | None:
    path = _key_file(ledger)
    return ledger.data_set_of(people, path.read_bytes()) if path.is_file() else None


def _key_file(ledger: PrivacyLedger) -> Path:
    """Key of a ledger's digests of people: without it, they reveal nothing about rows."""
    return ledger.path.with_name(f"{ledger.path.name}.key")


def who(request: Request, rows: pd.DataFrame) -> pd.DataFrame:
    """Columns by which people are recognised: their ids, or all that is in the file."""
    if request.person_ids is None:
        return rows
    return rows[[request.person_ids]].drop_duplicates()


def default_note(request: Request, ledger: PrivacyLedger | None) -> str | None:
    """Say where a run is charged that named no ledger."""
    if ledger is None or request.ledger is not None:
        return None
    known = "" if Path(ledger.path).exists() else ", a new one"
    return (
        f"This run is charged to the ledger {ledger.path}{known}, as {ledger.data_set!r}. "
        + DEFAULT_NOTE
    )
