"""Storage of a monitor: in memory, or in one SQLite file of several workers."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from skfairdp.exceptions import MonitorError

Document = dict[str, Any]
Change = Callable[[Document], Document | None]
APPLICATION = 0x5AFA1E16  # in the file's header, which distinguishes it from other databases
PATIENCE = 600.0  # seconds that a worker waits for the others


class MemoryStore:
    """A document and its history, in memory; threads change it in turn."""

    def __init__(self, document: Document, history: list[Document]) -> None:
        self._text, self._history = json.dumps(document), history
        self._turn = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle and copy the content: a copy has a lock of its own."""
        return MemoryStore, (self.read(), self.history())

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Load a copy of an earlier version, which had no lock."""
        vars(self).update(state, _turn=threading.Lock())

    def read(self) -> Document:
        return json.loads(self._text)

    def change(self, change: Change) -> Document:
        """Apply a change, which returns a line of history, to the document; none if it raises."""
        with self._turn:
            document = self.read()
            line = change(document)
            self._text = json.dumps(document, allow_nan=False)
            if line is not None:
                self._history.append(line)
        return document

    def history(self) -> list[Document]:
        """Return the lines of the history, oldest first."""
        return list(self._history)


class FileStore:
    """Document and history in a file, changed in transactions; created if `document` is given."""

    def __init__(self, path: str | os.PathLike[str], document: Document | None = None) -> None:
        self._path = Path(path).expanduser().absolute()
        with self._opened(new=document is not None) as connection:
            connection.execute("BEGIN" if document is None else "BEGIN IMMEDIATE")
            mark = connection.execute("PRAGMA application_id").fetchone()[0]
            tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
            if (tables or document is None) and mark != APPLICATION:
                raise MonitorError(f"{str(self._path)!r} is not a file of a monitor.")
            if not tables:
                connection.execute(f"PRAGMA application_id = {APPLICATION}")
                connection.execute("CREATE TABLE state (only_one INTEGER PRIMARY KEY, text TEXT)")
                connection.execute(
                    "CREATE TABLE history (number INTEGER PRIMARY KEY AUTOINCREMENT, text TEXT)"
                )
                connection.execute("INSERT INTO state VALUES (1, ?)", (json.dumps(document),))
            connection.execute("COMMIT")

    @contextmanager
    def _opened(self, *, new: bool = False) -> Iterator[sqlite3.Connection]:
        if not (new or self._path.is_file()):
            raise MonitorError(f"There is no monitor's file {str(self._path)!r}.")
        try:
            # Transactions are begun and ended by hand.
            opened = sqlite3.connect(self._path, timeout=PATIENCE, isolation_level=None)
            with closing(opened) as connection:
                connection.execute("PRAGMA synchronous = FULL")
                connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
                yield connection
        except sqlite3.Error as error:
            raise MonitorError(f"The file {str(self._path)!r} cannot be used: {error}.") from error

    def read(self) -> Document:
        with self._opened() as connection:
            return self._document(connection)

    def _document(self, connection: sqlite3.Connection) -> Document:
        try:
            row = connection.execute("SELECT text FROM state").fetchone()
            document: Document = json.loads(row[0])
        except (sqlite3.Error, TypeError, ValueError) as error:
            raise MonitorError(
                f"The monitor's file {str(self._path)!r} is damaged: {error}. Take a backup of it."
            ) from error
        return document

    def change(self, change: Change) -> Document:
        with self._opened() as connection:
            connection.execute("BEGIN IMMEDIATE")
            document = self._document(connection)
            line = change(document)
            text = json.dumps(document, allow_nan=False)
            connection.execute("UPDATE state SET text = ?", (text,))
            if line is not None:
                connection.execute("INSERT INTO history (text) VALUES (?)", (json.dumps(line),))
            connection.execute("COMMIT")
        return document

    def history(self) -> list[Document]:
        with self._opened() as connection:
            rows = connection.execute("SELECT text FROM history ORDER BY number").fetchall()
        return [json.loads(row[0]) for row in rows]
