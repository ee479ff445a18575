"""Ledger of a table: its default file, and a check that its people have no other name there."""

from __future__ import annotations

import os
import secrets
import tempfile
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

import pandas as pd

from skfairdp import PrivacyLedger
from skfairdp.command_line.errors import CommandError
from skfairdp.command_line.request import Request
from skfairdp.privacy.ledger.row_digests import KEY_BYTES
from skfairdp.privacy.ledger.store import reading, writing

SUFFIX = ".skfairdp-ledger.db"
DEFAULT_NOTE = "Other runs on these people add up there; --no-ledger keeps no account."


def ledger_of(request: Request, rows: pd.DataFrame) -> tuple[PrivacyLedger | None, bool]:
    """Find the ledger that a run is charged to, None without one, and whether it knows the people.

    The same people are recognised under whatever name of the file: by a keyed digest of all ids
    where ids are given, else of all rows. A ledger that cannot tell whether it knows them is
    refused, unless the request says under which name they are charged.
    """
    if request.no_ledger:
        return None, False
    people = who(request, rows)
    looks = []
    for path in _candidates(request):
        look = _look(path, people)
        if request.new_ledger_key and not look.needs_new_key:
            raise CommandError(
                "--new-ledger-key is for a ledger that has lost the key by which it recognised "
                f"people, and {path} has not: leave the option out."
            )
        if look.is_charged:
            return _named(request, PrivacyLedger(path), look.known)
        looks.append(look)
    for look in looks:
        if look.known is not None:
            return _named(request, PrivacyLedger(look.path), look.known)
    for look in looks:
        if look.others:
            _refuse_unless_named(request, look)
    return _named(request, PrivacyLedger(looks[0].path), None)


def _own(request: Request) -> Path:
    return request.data.absolute().parent / f"{request.data.stem}{SUFFIX}"


def _candidates(request: Request) -> list[Path]:
    """Paths of the ledgers that may know the people: the named one, or all next to the table."""
    if request.ledger is not None:
        return [request.ledger.expanduser().absolute()]
    own = _own(request)
    return [*dict.fromkeys([own, *sorted(own.parent.glob(f"*{SUFFIX}"))])]


@dataclass(frozen=True)
class _Look:
    """Answer of a ledger about people.

    `known`: the name under which it knows them. `others`: data sets of whose people it cannot tell
    whether they are the same, for want of the key of their digests.
    """

    path: Path
    known: str | None
    is_charged: bool  # under that name
    others: tuple[str, ...]
    needs_new_key: bool


def _look(path: Path, people: pd.DataFrame) -> _Look:
    with reading(path) as store:
        key = _key(path)  # after the records: a key is older than the digests that it makes
        known = None if key is None else store.data_set_of(people, key)
        return _Look(
            path=path,
            known=known,
            is_charged=known is not None and bool(store.entries(known)),
            others=store.recognised_by_other_keys(key),
            needs_new_key=store.lacks_key(key),
        )


def _refuse_unless_named(request: Request, look: _Look) -> None:
    """Refuse people who may be known, unless the request says how they are charged."""
    named = request.ledger is not None and request.data_set is not None
    if named and request.new_ledger_key == look.needs_new_key:
        return
    ledger, option = quote(str(look.path)), " --new-ledger-key" if look.needs_new_key else ""
    restore = "Put a copy of the key in its place. If there is none, " if option else ""
    name = f"{restore}name the data set that this run is added to"
    elsewhere = ""
    if request.ledger is None and look.path != _own(request):
        own = quote(str(_own(request)))
        elsewhere = f" If these people are in none of its runs, take another ledger: --ledger {own}"
    raise CommandError(
        f"The ledger {look.path} recognises people in renamed tables by a key, and "
        f"{_state_of_key(look)}. So these people may be those of "
        f"{' or '.join(map(repr, look.others))}, and under a new name they would have a fresh "
        f"budget. Nothing was spent. {name[0].upper()}{name[1:]}: --ledger {ledger} --data-set "
        f"NAME{option}. NAME is one that skfairdp ledger {ledger} lists, or a new one if these "
        f"people are in none of its runs.{elsewhere}"
    )


def _state_of_key(look: _Look) -> str:
    """Say why a ledger's key recognises not all of its people."""
    path = _path_of_key(look.path)
    if not look.needs_new_key:
        return f"{path} is a new one, which does not recognise the people of all earlier runs"
    if not path.is_file():
        return f"{path} is missing"
    if _key(look.path) is None:
        return f"{path} has {path.stat().st_size} bytes instead of {KEY_BYTES}"
    return f"{path} is another one than that of its earlier runs"


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


def remember(request: Request, ledger: PrivacyLedger, rows: pd.DataFrame) -> None:
    """Let a ledger recognise people it does not know yet; the key lies next to it, for its owner.

    Everything is checked again while no other run can write, so that of two runs on the same
    people under two names only one goes on.
    """
    people = who(request, rows)
    with writing(ledger.path) as store:
        key = _key(ledger.path)
        if store.lacks_key(key) and not request.new_ledger_key:
            raise _meanwhile(f"the key of the ledger {ledger.path} was removed")
        key = key or _new_key(_path_of_key(ledger.path))
        known = store.data_set_of(people, key)
        if known not in (None, ledger.data_set):
            raise _meanwhile(f"another run on these people has begun as {known!r}")
        if known is None:
            store.recognise(ledger.data_set, people, key)
    # A run on a renamed copy has a ledger of its own: that which looks last sees the other.
    for path in _candidates(request):
        if path != ledger.path and _look(path, people).known is not None:
            raise _meanwhile(f"another run on these people has begun with the ledger {path}")


def _meanwhile(event: str) -> CommandError:
    return CommandError(f"Since this run began, {event}. Nothing was spent: run it again.")


def _path_of_key(ledger: Path) -> Path:
    return ledger.with_name(f"{ledger.name}.key")


def _key(ledger: Path) -> bytes | None:
    """Read the key of a ledger's digests of people: without it, they reveal nothing about rows.

    None where the file is missing, or holds a part of a key.
    """
    path = _path_of_key(ledger)
    key = path.read_bytes() if path.is_file() else b""
    return key if len(key) >= KEY_BYTES else None


def _new_key(path: Path) -> bytes:
    """Make a key where there is none, or part of one.

    The file gets its name only once it is whole, so that a broken run leaves no part.
    """
    descriptor, whole = tempfile.mkstemp(dir=path.parent, prefix=f"{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(KEY_BYTES))
            file.flush()
            os.fsync(file.fileno())
        os.replace(whole, path)
    finally:
        Path(whole).unlink(missing_ok=True)
    return path.read_bytes()


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
