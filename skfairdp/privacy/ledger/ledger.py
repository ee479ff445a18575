"""Privacy ledger: a file, and the name of a data set in it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from skfairdp.exceptions import LedgerError
from skfairdp.foundation.documentation import completed_by
from skfairdp.foundation.parameters import NONE, Kind, Number, given_text
from skfairdp.privacy.guarantee import PrivacyGuarantee
from skfairdp.privacy.ledger.records import COMMITTED, FORMAT, RETURNED, Entry, Head, charges
from skfairdp.privacy.ledger.rendering import (
    ledger_frame,
    ledger_page,
    ledger_statements,
    ledger_text,
    stays_charged,
)
from skfairdp.privacy.ledger.store import reading, writing
from skfairdp.privacy.ledger.totals import NO_BUDGET, Budget, totals

if TYPE_CHECKING:
    import pandas as pd

ACTIVITIES = ("fit", "certify", "transform", "search")


class PrivacyLedger:
    """Record of the cost of every fit, certificate, transform and search on a data set.

    Give it to estimators as ``ledger=``. Each reserves what it is about to spend before
    its training uses a row, and commits when it is done; a fit that fails or is killed
    stays charged. The object is a handle, a path and a name: copies, clones, joblib
    workers and other processes with the same path and name charge the same ledger.

    Parameters
    ----------
    path : str or path-like
        The file (SQLite), made at the first entry in a folder that exists. It has to be
        on a disk that all processes share and that locks files, which some network
        disks don't.
    data_set : str, default="default"
        Name of the rows that are charged. One file can hold several. All fits on parts of
        the same rows, such as folds, belong to one name. It is printed; choose one that
        reveals nothing, or make one with `skfairdp.privacy.ledger.data_set_name`. One that reads
        like another of the file (in capitals, say) is refused.
    budget : (float, float) or None, default=None
        Largest total (epsilon, delta) of the data set, in nats. Written at the first use
        and not changed afterwards; it need not be repeated.
        What would exceed it is refused before a row is used.
    adjacency : str or None, default=None
        Relation of the budget, e.g. "zero-out". None takes that of the first entry.

    Raises
    ------
    ValueError
        An argument is invalid. The file is not looked at before it is
        needed.

    Notes
    -----
    Totals are compositions of the released events, one for each relation. A fit without a
    guarantee, such as one with ``epsilon=inf``, makes every total infinite. A budget also holds
    where a later plan was chosen *because of* an earlier model; a printed total of several
    charges is smaller, and holds where none was.

    The file holds plans, names and times, and no row. Of held-out rows that were declared public
    it keeps a keyed digest, and of people whom it shall recognise one whose key it does not have.
    Its records are chained by digests,
    which finds accidents; with a note of an earlier `head`, `holds` also finds an old copy in its
    place. See ``docs/theory/ledger.md``.

    Examples
    --------
    >>> import tempfile
    >>> from sklearn.datasets import make_classification
    >>> from skfairdp import DPSGDClassifier
    >>> from skfairdp.privacy import PrivacyLedger
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = PrivacyLedger(f"{folder.name}/spent.db", "loans-2026", budget=(2.0, 1e-6))
    >>> X, y = make_classification(500, random_state=0)
    >>> model = DPSGDClassifier(epsilon=1.0, max_epochs=1, ledger=ledger)
    >>> _ = model.fit(X, y)
    >>> _ = model.fit(X, y)
    >>> len(ledger), [round(total.epsilon, 1) for total in ledger.totals()]
    (2, [1.4])
    >>> folder.cleanup()
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        data_set: str = "default",
        *,
        budget: tuple[float, float] | None = None,
        adjacency: str | None = None,
    ) -> None:
        if not isinstance(path, (str, os.PathLike)) or not os.fspath(path):
            raise ValueError(f"'path' must name a file; got {path!r}.")
        if not isinstance(data_set, str) or not data_set.strip():
            raise ValueError(f"'data_set' must be a name, e.g. 'loans-2026'; got {data_set!r}.")
        if adjacency is not None and budget is None:
            raise ValueError("'adjacency' is the relation of a budget; set 'budget' too.")
        # A worker may run in another folder.
        self.path = Path(path).expanduser().absolute()
        self.data_set = data_set
        self._budget = _budget(budget, adjacency)

    def on(self, data_set: str) -> PrivacyLedger:
        """Return a handle for another data set in the same file.

        Parameters
        ----------
        data_set : str
            Its name.

        Returns
        -------
        PrivacyLedger
        """
        return PrivacyLedger(self.path, data_set)

    def reserve(
        self,
        guarantee: PrivacyGuarantee | None,
        *,
        activity: str,
        estimator: str,
        public_rows: Any = None,
    ) -> Entry:
        """Reserve a cost before it is spent.

        Parameters
        ----------
        guarantee : PrivacyGuarantee or None
            What will be promised about the release; void (`PrivacyGuarantee.void`) where
            nothing will. None where no protected row is touched.
        activity : {"fit", "certify", "transform", "search"}
            What is about to be done.
        estimator : str
            Name of what does it.
        public_rows : array-like of shape (n_rows, n_columns) or None, default=None
            Rows that need no protection, on which this is counted: a keyed digest of them,
            whose key is in the file, is kept with the entry. Never give protected rows.

        Returns
        -------
        Entry
            Reserved, and charged from now on whatever becomes of it.

        Raises
        ------
        BudgetExceededError
            The budget has no room for it. Nothing is written.
        LedgerError
            The file cannot be written, or is not a ledger.
        ValueError
            The handle's budget is not the one that the file has.
        """
        return self._reserve_together((guarantee, estimator), activity=activity, rows=public_rows)[
            0
        ]

    def _reserve_together(
        self, *planned: tuple[PrivacyGuarantee | None, str], activity: str, rows: Any = None
    ) -> list[Entry]:
        """Reserve all planned costs before the first release, or none."""
        if activity not in ACTIVITIES:
            raise ValueError(f"activity={activity!r} is not known: use one of {ACTIVITIES}.")
        with writing(self.path) as store:
            budget = self._agreed(store.budget(self.data_set))
            if budget is not None:
                spent = _promises(store.entries(self.data_set))
                new = [guarantee for guarantee, _ in planned if guarantee is not None]
                if new:
                    budget = budget.for_first(*spent)
                    budget.refuse(spent, new, self.data_set)
                    budget = budget.for_first(*new)
                store.set_budget(self.data_set, budget)
            return [
                store.reserve(self.data_set, activity, estimator, guarantee, rows)
                for guarantee, estimator in planned
            ]

    def commit(self, entry: Entry) -> Entry:
        """Record that a reserved release has been made.

        Parameters
        ----------
        entry : Entry
            What `reserve` returned.

        Returns
        -------
        Entry
            The same, committed.

        Raises
        ------
        LedgerError
            The file cannot be written, or holds no such reservation any more.
        """
        return self._end(entry, COMMITTED)

    @completed_by(commit)
    def give_back(self, entry: Entry) -> Entry:
        """Take back a reservation that ended before a row was used.

        Only what was never released may be given back: not after a model, a count, a score
        or a picture was made from the rows, nor after an error whose text or time depended
        on what they contain. Where that is not certain, leave it: a reservation that is
        neither committed nor given back stays charged.

        Returns
        -------
        Entry
            The same, returned: it stays in the file, and is not charged.
        """
        return self._end(entry, RETURNED)

    def _end(self, entry: Entry, state: str) -> Entry:
        with writing(self.path, new=False) as store:
            done = store.end(entry, state)
            if done is None:
                raise LedgerError(
                    f"The privacy ledger {str(self.path)!r} has no open reservation number "
                    f"{entry.number}: was the file replaced meanwhile?"
                )
        return done

    @contextmanager
    @completed_by(reserve)
    def charge(
        self, guarantee: PrivacyGuarantee | None, *, activity: str, estimator: str
    ) -> Iterator[Entry]:
        """Reserve before a block and commit after it.

        Yields
        ------
        Entry
            The reservation, which stays charged if the block fails.
        """
        entry = self.reserve(guarantee, activity=activity, estimator=estimator)
        with self.finishing(entry):
            yield entry

    @contextmanager
    @completed_by(commit)
    def finishing(self, entry: Entry) -> Iterator[None]:
        """Commit a reservation after a block; a note on an error says that it stays charged.

        Yields
        ------
        None
        """
        try:
            yield
            self.commit(entry)
        except BaseException as error:
            self.note_charge(entry, error)
            raise

    def note_charge(self, entry: Entry, error: BaseException) -> None:
        """Add to an error that a reservation stays charged, if it cost anything.

        Parameters
        ----------
        entry : Entry
            What `reserve` returned.
        error : BaseException
            What ended the work; the note shows below its message.
        """
        if entry.guarantee is not None:
            error.add_note(stays_charged(str(self.path), entry))

    @property
    def budget(self) -> tuple[float, float] | None:
        """Budget (epsilon, delta) of the data set, in the file or of this handle."""
        return self._state()[0]

    @property
    def data_sets(self) -> tuple[str, ...]:
        """Names of all data sets in the file."""
        with reading(self.path) as store:
            return store.data_sets()

    @property
    def head(self) -> str:
        """Number of records in the file, and the digest that seals all of them: "17:3fa9…".

        Note it where the file can't be changed, as on a printed certificate: `holds` then
        finds out whether the file was set back to an earlier state since.
        """
        with reading(self.path) as store:
            return str(store.head)

    def holds(self, head: str) -> bool:
        """Whether the file contains all that it held at an earlier `head`.

        Parameters
        ----------
        head : str
            What `head` was then; blanks are ignored.

        Returns
        -------
        bool
            False if the file was replaced, or set back to a state before it.

        Raises
        ------
        ValueError
            `head` is not a number and digest.
        """
        position, _, digest = "".join(head.split()).partition(":")
        if not position.isdecimal():
            raise ValueError(f"'head' must be a value of PrivacyLedger.head; got {head!r}.")
        with reading(self.path) as store:
            return store.holds(Head(int(position), digest))

    def data_set_of(self, people: pd.DataFrame, key: bytes) -> str | None:
        """Find the name under which the same people are known.

        Parameters
        ----------
        people : DataFrame of shape (n_rows, n_columns)
            All rows of a table, or the ids of its people, in any order.
        key : bytes
            At least 32 random bytes, kept with the rows and apart from the ledger.

        Returns
        -------
        str or None
            None where `recognise` was never called with them and this key.
        """
        with reading(self.path) as store:
            return store.recognised(key, people).name

    def recognise(self, people: pd.DataFrame, key: bytes) -> None:
        """Keep a keyed digest of the people of this data set, so that `data_set_of` finds it.

        The file does not hold the key: the file alone reveals nothing about the rows. A party with
        both can test a guess of all rows together, as a party with the rows can.

        Parameters
        ----------
        people : DataFrame of shape (n_rows, n_columns)
            As `data_set_of` will get them.
        key : bytes
            As `data_set_of` will get it.
        """
        if self.data_set_of(people, key) is None:
            with writing(self.path) as store:
                store.recognise(self.data_set, key, people)

    def entries(self) -> tuple[Entry, ...]:
        """Read the entries of the data set.

        Returns
        -------
        tuple of Entry
            All, reserved ones included, oldest first.
        """
        with reading(self.path) as store:
            return store.entries(self.data_set)

    def totals(self, *, delta: float | None = None) -> tuple[PrivacyGuarantee, ...]:
        """Compose all entries, relation by relation.

        Parameters
        ----------
        delta : float or None, default=None
            Delta of the totals, in [0, 1). None takes the largest delta of the entries,
            plus those of entries that have no event.

        Returns
        -------
        tuple of PrivacyGuarantee
            One for each relation; they are never added. Empty if nothing
            was spent. One of several charges holds where no plan was chosen by looking
            at earlier releases, and says so among its assumptions.
        """
        return totals(_promises(self.entries()), delta=delta)

    def to_frame(self) -> pd.DataFrame:
        """Put the entries in a table.

        Returns
        -------
        DataFrame
            One row an entry, with what it promises.
        """
        return ledger_frame(self.entries())

    def to_dict(self) -> dict[str, Any]:
        """Write down budget, entries and totals.

        Returns
        -------
        dict
            Fit for JSON, the entries with their events; infinity is "inf".
        """
        budget, entries, head = self._state()
        return {
            "format": FORMAT,
            "data_set": self.data_set,
            "budget": budget,
            "committed": sum(entry.state == COMMITTED for entry in entries),
            "head": head,
            "totals": [total.to_dict() for total in totals(_promises(entries))],
            "entries": [entry.to_dict() for entry in entries],
        }

    def to_json(self, *, indent: int | None = 2) -> str:
        """Write the data set's entries and totals as JSON.

        Parameters
        ----------
        indent : int or None, default=2
            Indentation of the text.

        Returns
        -------
        str
        """
        return json.dumps(self.to_dict(), indent=indent, ensure_ascii=False, allow_nan=False)

    def summary(self) -> str:
        """Describe the privacy spent, in words.

        Returns
        -------
        str
            Totals first, then one line an entry.
        """
        return ledger_text(self.data_set, self.statements(), self.entries())

    def statements(self) -> list[str]:
        """Say how much was spent, without the entries.

        Returns
        -------
        list of str
            Sentences.
        """
        budget, entries, head = self._state()
        return ledger_statements(budget, entries, totals(_promises(entries)), head)

    def budget_and_promises(self) -> tuple[Budget | None, list[PrivacyGuarantee]]:
        """Read the budget, with its relation, and what all charged entries promise.

        Returns
        -------
        tuple of (Budget or None, list of PrivacyGuarantee)
            The budget of this handle, and no promises, where the file does not exist yet.
        """
        if not self.path.exists():
            return self._budget, []
        with reading(self.path) as store:
            budget = self._agreed(store.budget(self.data_set))
            return budget, _promises(store.entries(self.data_set))

    def _state(self) -> tuple[tuple[float, float] | None, tuple[Entry, ...], str]:
        """Budget, entries and head at one moment."""
        with reading(self.path) as store:
            budget = self._agreed(store.budget(self.data_set))
            figures = None if budget is None else (budget.epsilon, budget.delta)
            return figures, store.entries(self.data_set), str(store.head)

    def _agreed(self, stored: Budget | None) -> Budget | None:
        own = self._budget
        if stored is None or own is None:
            return own if stored is None else stored
        if not own.same_amount(stored):
            raise ValueError(
                f"The ledger has a budget of {stored.text} ({stored.adjacency or 'no relation'}) "
                f"for the data set {self.data_set!r}, and this handle names {own.text} "
                f"({own.adjacency or 'no relation'}). A budget is fixed once; leave 'budget' and "
                "'adjacency' out, or repeat them."
            )
        return stored

    def __len__(self) -> int:
        """Count the committed entries of the data set."""
        return sum(entry.state == COMMITTED for entry in self.entries())

    def __bool__(self) -> bool:
        """Always True: an empty ledger is a ledger."""
        return True

    def __eq__(self, other: object) -> bool:
        """Whether both handles charge the same entries under the same budget."""
        if not isinstance(other, PrivacyLedger):
            return NotImplemented
        return vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((self.path, self.data_set))

    def __repr__(self) -> str:
        """Path and name; the file is not looked at."""
        return f"PrivacyLedger({str(self.path)!r}, {self.data_set!r})"

    def __str__(self) -> str:
        """What was spent and what is left; of a ledger without a file yet, its path and name."""
        if not self.path.exists():
            return repr(self)
        return "\n".join([f"{self!r}:", *self.statements()])

    def _repr_html_(self) -> str:
        return ledger_page(self.data_set, self.statements(), self.entries())


def _promises(entries: Sequence[Entry]) -> list[PrivacyGuarantee]:
    return [guarantee for _, guarantee in charges(entries)]


def _budget(budget: Any, adjacency: str | None) -> Budget | None:
    if budget is None:
        return None
    # A set has no order, and a text such as "10" would read as an epsilon of 1.
    given = budget.tolist() if isinstance(budget, np.ndarray) else budget
    pair = isinstance(given, tuple | list) and len(given) == 2
    if not pair or not all(map(Number(finite=False).accepts, given)):
        raise ValueError(NO_BUDGET.format(given_text(budget)))
    epsilon, delta = map(float, given)
    return Budget(epsilon, delta, adjacency)


# What estimators accept as ``ledger=``.
LEDGER = (NONE, Kind((str, os.PathLike, PrivacyLedger), "a path or a PrivacyLedger"))


def as_ledger(ledger: str | os.PathLike[str] | PrivacyLedger | None) -> PrivacyLedger | None:
    """Open the ledger of an estimator; a path means the data set "default" in it."""
    if ledger is None or isinstance(ledger, PrivacyLedger):
        return ledger
    if isinstance(ledger, (str, os.PathLike)):
        return PrivacyLedger(ledger)
    raise ValueError(f"'ledger' must be None, a path or a PrivacyLedger; got {ledger!r}.")
