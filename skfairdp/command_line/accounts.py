"""Ledger of a table: its default file, and a check that its people have no other name there."""

from __future__ import annotations

import os
import secrets
import tempfile
from contextlib import suppress
from pathlib import Path
from shlex import quote

import pandas as pd

from skfairdp import PrivacyLedger
from skfairdp.command_line.errors import CommandError
from skfairdp.command_line.request import Request
from skfairdp.privacy.ledger.row_digests import KEY_BYTES
from skfairdp.privacy.ledger.store import reading

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
    folder = request.data.absolute().parent
    own = folder / f"{request.data.stem}{SUFFIX}"
    paths = (
        [own, *sorted(folder.glob(f"*{SUFFIX}"))] if request.ledger is None else [request.ledger]
    )
    for path in dict.fromkeys(paths):
        ledger = PrivacyLedger(path)
        _, key = _key(ledger)
        known = None if key is None else ledger.data_set_of(people, key)
        if known is not None or path == request.ledger:
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
    """Let a ledger recognise these people; the key is made next to it, for its owner alone.

    The file of the key gets its name only once it is whole, so that a broken run leaves no part.
    """
    path, key = _key(ledger)
    if key is None:
        if path.is_file() and path.stat().st_size < KEY_BYTES:  # no key that was made meanwhile
            path.unlink(missing_ok=True)  # part of a key, which was never used: see `_key`
        descriptor, whole = tempfile.mkstemp(dir=path.parent, prefix=f"{path.name}.")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(secrets.token_bytes(KEY_BYTES))
                file.flush()
                os.fsync(file.fileno())
            with suppress(FileExistsError):  # another program made one just now
                os.link(whole, path)
        finally:
            os.unlink(whole)
        key = path.read_bytes()
    ledger.recognise(people, key)


def _key(ledger: PrivacyLedger) -> tuple[Path, bytes | None]:
    """Find the key of a ledger's digests of people: without it, they reveal nothing about rows.

    None where the file is missing, or holds part of a key that was never used.
    """
    path = ledger.path.with_name(f"{ledger.path.name}.key")
    if not path.is_file():
        return path, None
    key = path.read_bytes()
    if len(key) >= KEY_BYTES:
        return path, key
    with reading(ledger.path) as store:
        if not store.recognises_anyone:
            return path, None
    raise CommandError(
        f"The key {path} has {len(key)} bytes instead of {KEY_BYTES}. The ledger {ledger.path} "
        "needs it to recognise the people of a table. Put a copy of the whole key in its place. If "
        "there is none, delete the file, and name the data set of earlier runs by --data-set, so "
        f"that costs add up: skfairdp ledger {quote(str(ledger.path))} lists them."
    )


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
