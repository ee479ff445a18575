"""A table of answers in a file, for copies of one model in several processes."""

from __future__ import annotations

import json
import os
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from skfairdp.exceptions import TableError

APPLICATION = 0x5AFA7AB1  # in the file's header, which distinguishes it from other databases
PATIENCE = 60.0  # seconds that a batch waits for those of other processes


class SharedTable:
    """One entry of an SQLite file, that every process reads and writes as a whole.

    Copies and pickles stand for the same entry. The file, made if need be, is on a disk that all
    processes share and that locks files. `state`: what the new entry holds, as JSON types.
    """

    def __init__(self, path: str | os.PathLike[str], state: dict[str, Any]) -> None:
        self.path = Path(path).absolute()
        self._entry = secrets.token_hex(16)
        with self._transaction(new=True) as connection:
            values = (self._entry, json.dumps(state))
            connection.execute("INSERT INTO tables VALUES (?, ?)", values)

    def read(self) -> dict[str, Any]:
        with self.exchange() as state:
            return state

    @contextmanager
    def exchange(self) -> Iterator[dict[str, Any]]:
        """Hold the entry; it is written back when the block ends, unless that fails."""
        with self._transaction() as connection:
            query = "SELECT state FROM tables WHERE entry = ?"
            found = connection.execute(query, (self._entry,)).fetchone()
            if found is None:
                raise TableError(
                    f"The file {str(self.path)!r} has no table of this model any more. Restore it; "
                    "or fit again, which begins a new one."
                )
            state = json.loads(found[0])
            yield state
            written = json.dumps(state)
            if written != found[0]:
                query = "UPDATE tables SET state = ? WHERE entry = ?"
                connection.execute(query, (written, self._entry))

    @contextmanager
    def _transaction(self, *, new: bool = False) -> Iterator[sqlite3.Connection]:
        """Hold the file, which is made if it is `new`; refuse that of another program."""
        try:
            where = f"{self.path.as_uri()}?mode={'rwc' if new else 'rw'}"
            opened = sqlite3.connect(where, uri=True, timeout=PATIENCE, isolation_level=None)
            # It commits what began, or rolls it back, before it is closed.
            with closing(opened) as connection, connection:
                connection.execute("BEGIN IMMEDIATE")
                found = "SELECT COUNT(*) FROM sqlite_master"
                if new and connection.execute(found).fetchone()[0] == 0:
                    connection.execute("CREATE TABLE tables (entry TEXT PRIMARY KEY, state TEXT)")
                    connection.execute(f"PRAGMA application_id = {APPLICATION}")
                if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION:
                    raise TableError(
                        f"The file {str(self.path)!r} is an SQLite data base of another program, "
                        "not one of tables of answers. Name a file that does not exist yet."
                    )
                yield connection
        except sqlite3.DatabaseError as error:
            raise TableError(
                f"The table of answers in {str(self.path)!r} cannot be used: {error}. Its folder "
                "must exist and be writable, and the file be the one that fit made."
            ) from error
