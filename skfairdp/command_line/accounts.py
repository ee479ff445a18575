"""Ledger of a table: its default file, and a check that its people have no other name there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from shlex import quote

import pandas as pd

from skfairdp import PrivacyLedger
from skfairdp.command_line.errors import CommandError
from skfairdp.command_line.request import Request
from skfairdp.privacy.ledger.row_digests import KEY_BYTES, key_of, new_key
from skfairdp.privacy.ledger.store import Recognised, reading, writing

SUFFIX = ".skfairdp-ledger.db"
DEFAULT_NOTE = "Other runs on these people add up there; --no-ledger keeps no account."


def ledger_of(request: Request, rows: pd.DataFrame) -> tuple[PrivacyLedger | None, bool]:
    """Find the ledger that a run is charged to, None without one, and whether it knows the people.

    The same people are recognised under whatever name of the file: by a keyed digest of all rows,
    or of all ids where ids are given. A ledger that cannot tell whether it knows them is
    refused, unless the request says under which name they are charged.
    """
    if request.no_ledger:
        return None, False
    people = who(request, rows)
    looks = {}
    for path, look in _looks(request, people):
        looks[path] = look
        if request.new_ledger_key and not look.lacks_key:
            raise CommandError(
                "--new-ledger-key is for a ledger that has lost the key by which it recognised "
                f"people, and {path} has not: leave the option out."
            )
        if look.is_charged:
            return _named(request, PrivacyLedger(path), look.name)
    for path, look in looks.items():
        if look.name is not None:
            return _named(request, PrivacyLedger(path), look.name)
    usual = next(iter(looks))
    for path, look in looks.items():
        if look.others:
            _refuse_unless_named(request, path, look, usual)
    return _named(request, PrivacyLedger(usual), None)


def _looks(request: Request, people: list[pd.DataFrame]) -> Iterator[tuple[Path, Recognised]]:
    """Ask the named ledger about people, or the table's own one and all others next to it."""
    folder = request.data.absolute().parent
    paths = [folder / f"{request.data.stem}{SUFFIX}", *sorted(folder.glob(f"*{SUFFIX}"))]
    if request.ledger is not None:
        paths = [request.ledger.expanduser().absolute()]
    for path in dict.fromkeys(paths):
        with reading(path) as store:
            _, key = key_of(path)  # after the records, as it is older than the digests it makes
            look = store.recognised(key, *people)
        yield path, look


def _refuse_unless_named(request: Request, path: Path, look: Recognised, usual: Path) -> None:
    """Refuse people who may be known, unless the request says how they are charged."""
    named = request.ledger is not None and request.data_set is not None
    if named and request.new_ledger_key == look.lacks_key:
        return
    ledger, option = quote(str(path)), " --new-ledger-key" if look.lacks_key else ""
    restore = "Put a copy of the key in its place. If there is none, " if option else ""
    name = f"{restore}name the data set that this run is added to"
    elsewhere = ""
    if path != usual:
        elsewhere = " If these people are in none of its runs, take another ledger: --ledger "
        elsewhere += quote(str(usual))
    raise CommandError(
        f"The ledger {path} recognises people in renamed tables by a key, and "
        f"{_state_of_key(path, look)}. So these people may be those of "
        f"{' or '.join(map(repr, look.others))}, and under a new name they would have a fresh "
        f"budget. Nothing was spent. {name[0].upper()}{name[1:]}: --ledger {ledger} --data-set "
        f"NAME{option}. NAME is one that skfairdp ledger {ledger} lists, or a new one if these "
        f"people are in none of its runs.{elsewhere}"
    )


def _state_of_key(ledger: Path, look: Recognised) -> str:
    """Say why a ledger's key recognises not all of its people."""
    path, key = key_of(ledger)
    if not look.lacks_key:
        return f"{path} is a new one, which does not recognise the people of all earlier runs"
    if not path.is_file():
        return f"{path} is missing"
    if key is None:
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
        path, key = key_of(ledger.path)
        look = store.recognised(key, *people)
        if look.lacks_key and not request.new_ledger_key:
            raise _meanwhile(f"the key of the ledger {ledger.path} was removed")
        if look.name not in (None, ledger.data_set):
            raise _meanwhile(f"another run on these people has begun as {look.name!r}")
        if look.name is None:
            store.recognise(ledger.data_set, key or new_key(path), *people)
    # A run on a renamed copy has a ledger of its own: that which looks last sees the other.
    for other, look in _looks(request, people):
        if other != ledger.path and look.name is not None:
            raise _meanwhile(f"another run on these people has begun with the ledger {other}")


def _meanwhile(event: str) -> CommandError:
    return CommandError(f"Since this run began, {event}. Nothing was spent: run it again.")


def who(request: Request, rows: pd.DataFrame) -> list[pd.DataFrame]:
    """Tables by which people are recognised: all that is in the file, and their ids if given."""
    if request.person_ids is None:
        return [rows]
    return [rows, rows[[request.person_ids]].drop_duplicates()]


def default_note(request: Request, ledger: PrivacyLedger | None) -> str | None:
    """Say where a run is charged that named no ledger."""
    if ledger is None or request.ledger is not None:
        return None
    known = "" if Path(ledger.path).exists() else ", a new one"
    return (
        f"This run is charged to the ledger {ledger.path}{known}, as {ledger.data_set!r}. "
        + DEFAULT_NOTE
    )
