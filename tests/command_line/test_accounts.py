"""Keys next to ledgers: whole or not there, for their owner alone."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from skfairdp import PrivacyLedger
from skfairdp.command_line import accounts
from skfairdp.command_line.errors import CommandError

PEOPLE = pd.DataFrame({"age": ["31", "42"], "city": ["Ulm", "Bonn"]})
OTHERS = PEOPLE.assign(city="Kiel")


@pytest.fixture
def ledger(tmp_path: Path) -> PrivacyLedger:
    return PrivacyLedger(tmp_path / "spent.db", "loans")


def key_of(ledger: PrivacyLedger) -> Path:
    return Path(f"{ledger.path}.key")


def known(ledger: PrivacyLedger, people: pd.DataFrame) -> str | None:
    _, key = accounts._key(ledger)
    return None if key is None else ledger.data_set_of(people, key)


def test_people_are_recognised_with_a_key_for_its_owner_alone(ledger: PrivacyLedger) -> None:
    assert known(ledger, PEOPLE) is None
    accounts.remember(ledger, PEOPLE)
    assert known(ledger, PEOPLE[::-1]) == "loans"
    assert known(ledger, OTHERS) is None
    assert key_of(ledger).stat().st_mode & 0o077 == 0
    assert [p.name for p in ledger.path.parent.glob("spent.db.key*")] == ["spent.db.key"]


@pytest.mark.parametrize("left", [b"", b"part of a key"])
def test_the_next_run_replaces_a_key_that_a_killed_run_left_unfinished(
    ledger: PrivacyLedger, left: bytes
) -> None:
    key_of(ledger).write_bytes(left)
    assert known(ledger, PEOPLE) is None
    accounts.remember(ledger, PEOPLE)
    assert len(key_of(ledger).read_bytes()) == accounts.KEY_BYTES
    assert known(ledger, PEOPLE) == "loans"


def test_a_cut_key_that_was_used_is_refused_with_what_to_do(ledger: PrivacyLedger) -> None:
    accounts.remember(ledger, PEOPLE)
    whole = key_of(ledger).read_bytes()
    key_of(ledger).write_bytes(b"")
    for use in (known, accounts.remember):
        with pytest.raises(CommandError, match=r"has 0 bytes instead of 32.*--data-set"):
            use(ledger, PEOPLE)
    key_of(ledger).write_bytes(whole)
    assert known(ledger, PEOPLE) == "loans"


@pytest.mark.parametrize("broken", ["fsync", "link"])
def test_a_run_that_breaks_off_leaves_no_part_of_a_key(
    ledger: PrivacyLedger, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, broken, stop)
    with pytest.raises(KeyboardInterrupt):
        accounts.remember(ledger, PEOPLE)
    assert not [*ledger.path.parent.glob("spent.db.key*")]


def test_a_key_that_another_run_made_after_a_first_look_is_kept(
    ledger: PrivacyLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    look = accounts._key

    def too_early(ledger: PrivacyLedger) -> tuple[Path, bytes | None]:
        found = look(ledger)
        key_of(ledger).write_bytes(b"k" * accounts.KEY_BYTES)
        return found

    monkeypatch.setattr(accounts, "_key", too_early)
    accounts.remember(ledger, PEOPLE)
    assert key_of(ledger).read_bytes() == b"k" * accounts.KEY_BYTES


def test_the_key_of_another_run_at_the_same_time_is_taken(
    ledger: PrivacyLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    first: Callable[..., None] = os.link

    def late(whole: str, path: Path) -> None:
        if path == key_of(ledger):  # and not the ledger, which is made in the same way
            path.write_bytes(b"k" * accounts.KEY_BYTES)
        first(whole, path)

    monkeypatch.setattr(os, "link", late)
    accounts.remember(ledger, PEOPLE)
    assert key_of(ledger).read_bytes() == b"k" * accounts.KEY_BYTES
    assert known(ledger, PEOPLE) == "loans"
