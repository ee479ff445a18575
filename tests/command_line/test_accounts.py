"""Ledgers of tables: people who may be known are never charged as new ones."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Barrier

import pandas as pd
import pytest

from skfairdp import PrivacyLedger
from skfairdp.command_line import accounts, reporting
from skfairdp.command_line.errors import CommandError
from skfairdp.command_line.parsing import _parser
from skfairdp.command_line.request import Request
from skfairdp.privacy.ledger import store

PEOPLE = pd.DataFrame({"age": ["31", "42"], "city": ["Ulm", "Bonn"]})
OTHERS = PEOPLE.assign(city="Kiel")
LEDGER = "loans.skfairdp-ledger.db"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def request_of(table: str, *options: str) -> Request:
    asked = ["report", table, "--target", "age", "--sensitive", "sex", "--epsilon", "1"]
    return Request.of(_parser().parse_args([*asked, "--out", "report.html", *options]))


def run(table: str, *options: str, people: pd.DataFrame = PEOPLE, charged: bool = True) -> str:
    """Do with the ledger what a report does; its name for the people."""
    request = request_of(table, *options)
    ledger, known = accounts.ledger_of(request, people)
    assert ledger is not None
    if not known:
        accounts.remember(request, ledger, people)
    if charged:
        ledger.reserve(None, activity="fit", estimator="a model")
    return f"{ledger.path.name}: {ledger.data_set}"


def key_of(ledger: str = LEDGER) -> Path:
    return Path(f"{ledger}.key")


def entries() -> int:
    """Entries of all ledgers in the folder, under all names."""
    every = [PrivacyLedger(path) for path in Path().glob("*.db")]
    return sum(len(book.on(name).entries()) for book in every for name in book.data_sets)


def test_people_are_recognised_with_a_key_for_its_owner_alone() -> None:
    assert run("loans.csv") == f"{LEDGER}: loans"
    assert run("renamed.csv", people=PEOPLE[::-1]) == f"{LEDGER}: loans"
    assert run("others.csv", people=OTHERS) == "others.skfairdp-ledger.db: others"
    assert key_of().stat().st_mode & 0o077 == 0
    assert [path.name for path in Path().glob("loans*.key*")] == [key_of().name]


@pytest.mark.parametrize(
    "more", [("--target", "a"), ("--bounds-are-public",), ("--person-ids", "sex")]
)
def test_people_are_recognised_whatever_values_the_options_of_a_run_ask_for(
    more: tuple[str, ...],
) -> None:
    lines = ["a,sex,y", "1.50,m,TRUE", "2.00,f,FALSE", ",m,TRUE", "7 ,m,FALSE"]
    for name in ("loans.csv", "renamed.csv"):
        Path(name).write_text("\n".join(lines), encoding="utf-8")
    first, typed = reporting._rows(request_of("loans.csv", "--target", "y", "--quiet"))
    then, others = reporting._rows(request_of("renamed.csv", "--target", "y", "--quiet", *more))
    assert typed["y"].tolist() == [True, False, True, False]
    assert first["y"].tolist() == ["TRUE", "FALSE", "TRUE", "FALSE"]
    assert "--person-ids" in more or not typed.equals(others)
    assert run("loans.csv", people=first) == f"{LEDGER}: loans"
    assert run("renamed.csv", *more, people=then) == f"{LEDGER}: loans"


@pytest.mark.parametrize("first", [("--person-ids", "city"), ()], ids=["ids first", "ids later"])
def test_people_are_recognised_with_and_without_their_ids(first: tuple[str, ...]) -> None:
    then = () if first else ("--person-ids", "city")
    assert run("loans.csv", *first) == f"{LEDGER}: loans"
    assert run("renamed.csv", *then) == f"{LEDGER}: loans"
    visits = pd.concat([PEOPLE, PEOPLE.assign(age="50")])
    again = f"{LEDGER}: loans" if first else "visits.skfairdp-ledger.db: visits"
    assert run("visits.csv", "--person-ids", "city", people=visits) == again


@pytest.mark.parametrize("left", [b"", b"part of a key"])
def test_the_next_run_replaces_a_key_that_a_killed_run_left_unfinished(left: bytes) -> None:
    key_of().write_bytes(left)
    run("loans.csv")
    assert len(key_of().read_bytes()) == accounts.KEY_BYTES
    assert run("renamed.csv") == f"{LEDGER}: loans"


@pytest.mark.parametrize(
    ("left", "state"),
    [
        (None, r"\.key is missing"),
        (b"", "has 0 bytes instead of 32"),
        (b"k" * 32, r"\.key is another one than that of its earlier runs"),
    ],
)
@pytest.mark.parametrize("table", ["loans.csv", "renamed.csv"])
def test_a_ledger_whose_key_is_gone_is_refused_with_what_to_do(
    left: bytes | None, state: str, table: str
) -> None:
    run("loans.csv")
    whole = key_of().read_bytes()
    key_of().unlink()
    if left is not None:
        key_of().write_bytes(left)
    for options in ((), ("--ledger", LEDGER), ("--ledger", LEDGER, "--data-set", "fresh")):
        with pytest.raises(CommandError, match=state) as refused:
            run(table, *options)
        for part in ("may be those of 'loans'", "Put a copy of the key", "--new-ledger-key"):
            assert part in str(refused.value)
    assert entries() == 1
    assert (key_of().read_bytes() if key_of().exists() else None) == left
    key_of().write_bytes(whole)
    assert run(table) == f"{LEDGER}: loans"


def test_a_ledger_without_its_key_in_the_folder_names_a_way_for_other_people() -> None:
    run("loans.csv")
    key_of().unlink()
    with pytest.raises(CommandError, match="take another ledger: --ledger .*renamed"):
        run("renamed.csv")
    own = "renamed.skfairdp-ledger.db"
    assert run("renamed.csv", "--ledger", own) == f"{own}: renamed"
    assert run("renamed.csv") == f"{own}: renamed"


def test_a_ledger_goes_on_with_a_new_key_where_the_run_says_so() -> None:
    run("loans.csv")
    run("others.csv", "--ledger", LEDGER, people=OTHERS)
    key_of().unlink()
    named = ("--ledger", LEDGER, "--data-set", "loans", "--new-ledger-key")
    assert run("loans.csv", *named) == f"{LEDGER}: loans"
    assert run("renamed.csv") == f"{LEDGER}: loans"
    with pytest.raises(CommandError, match="leave the option out"):
        run("renamed.csv", *named)
    # The new key does not know the others: they are never taken for new people in silence.
    with pytest.raises(CommandError, match="key is a new one.*may be those of 'others'.*name the"):
        run("copy.csv", people=OTHERS)
    assert run("copy.csv", *named[:2], "--data-set", "others", people=OTHERS)
    assert run("again.csv", people=OTHERS) == f"{LEDGER}: others"


@pytest.mark.parametrize("given", [(), ("--ledger", LEDGER), ("--data-set", "loans")])
def test_a_new_key_needs_a_ledger_and_a_name(given: tuple[str, ...]) -> None:
    with pytest.raises(CommandError, match="needs --ledger, .*and --data-set"):
        request_of("loans.csv", "--new-ledger-key", *given)


def test_a_ledger_that_has_its_key_gets_no_new_one() -> None:
    named = ("--ledger", LEDGER, "--data-set", "loans", "--new-ledger-key")
    with pytest.raises(CommandError, match="has not: leave the option out"):
        run("loans.csv", *named)


@pytest.mark.parametrize("broken", ["fsync", "replace"])
def test_a_run_that_breaks_off_leaves_no_part_of_a_key(
    monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    PrivacyLedger(LEDGER).recognise(OTHERS, b"k" * 32)  # the file is there, and then no other sync
    key_of().write_bytes(b"k" * 32)
    monkeypatch.setattr(accounts, "key_of", lambda ledger: (key_of(), None))
    unknown = store.Recognised(None, is_charged=False, others=(), lacks_key=False)
    monkeypatch.setattr(store.Store, "recognised", lambda *asked: unknown)
    monkeypatch.setattr(os, broken, stop)
    with pytest.raises(KeyboardInterrupt):
        run("loans.csv", "--ledger", LEDGER, "--data-set", "loans")
    assert [path.read_bytes() for path in Path().glob("*.key*")] == [b"k" * 32]


def test_a_key_that_vanishes_after_a_first_look_stops_the_run() -> None:
    request = request_of("renamed.csv", "--ledger", LEDGER)
    ledger, known = accounts.ledger_of(request, PEOPLE)
    assert ledger is not None
    assert not known
    run("loans.csv", "--ledger", LEDGER)  # meanwhile
    key_of().unlink()
    with pytest.raises(CommandError, match=r"the key of the ledger .* was removed.*run it again"):
        accounts.remember(request, ledger, PEOPLE)
    assert not key_of().exists()
    assert entries() == 1


def test_people_whom_another_run_named_after_a_first_look_get_no_second_name() -> None:
    request = request_of("renamed.csv", "--ledger", LEDGER)
    ledger, _ = accounts.ledger_of(request, PEOPLE)
    assert ledger is not None
    run("loans.csv", "--ledger", LEDGER)  # meanwhile
    with pytest.raises(CommandError, match="another run on these people has begun as 'loans'"):
        accounts.remember(request, ledger, PEOPLE)
    assert run("renamed.csv") == f"{LEDGER}: loans"


@pytest.mark.parametrize("options", [(), ("--ledger", LEDGER)], ids=["a ledger each", "one ledger"])
def test_of_two_runs_at_once_on_copies_of_a_table_not_both_are_charged_as_new(
    options: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    together = Barrier(2)
    look = accounts.ledger_of

    def at_once(*asked: object) -> object:
        found = look(*asked)  # type: ignore[arg-type]
        together.wait(20)
        return found

    monkeypatch.setattr(accounts, "ledger_of", at_once)

    def outcome(table: str) -> str:
        with suppress(CommandError):
            return run(table, *options)
        return ""

    with ThreadPoolExecutor(2) as pool:
        charged = [name for name in pool.map(outcome, ["b.csv", "a.csv"]) if name]
    assert len(charged) == entries() <= 1
    monkeypatch.setattr(accounts, "ledger_of", look)
    names = {run(table, *options) for table in ("b.csv", "a.csv", "b.csv")}
    assert len(names) == 1
    assert set(charged) <= names


def test_two_runs_at_once_that_replace_a_lost_key_share_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run("loans.csv")
    key_of().unlink()
    named = request_of("loans.csv", "--ledger", LEDGER, "--data-set", "x", "--new-ledger-key")
    other = request_of("loans.csv", "--ledger", LEDGER, "--data-set", "y", "--new-ledger-key")
    books = [accounts.ledger_of(each, PEOPLE)[0] for each in (named, other)]
    assert books[0] is not None
    assert books[1] is not None
    accounts.remember(named, books[0], PEOPLE)
    key = key_of().read_bytes()
    with pytest.raises(CommandError, match="has begun as 'x'"):
        accounts.remember(other, books[1], PEOPLE)
    accounts.remember(other, books[1], OTHERS)
    assert key_of().read_bytes() == key
    assert run("renamed.csv") == f"{LEDGER}: x"
    assert run("copy.csv", people=OTHERS) == f"{LEDGER}: y"


def test_a_ledger_is_read_before_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key is older than its digests, so that one just made is not taken for a lost one."""
    first = accounts.reading

    @contextmanager
    def slow(path: Path) -> Iterator[store.Store]:
        if path.exists():
            with first(path) as found:
                yield found
            return
        with first(path) as found:
            monkeypatch.setattr(accounts, "reading", first)
            run("loans.csv", "--ledger", LEDGER)
            yield found

    monkeypatch.setattr(accounts, "reading", slow)
    ((_, look),) = accounts._looks(request_of("loans.csv", "--ledger", LEDGER), [PEOPLE])
    assert not look.others
    assert not look.lacks_key
