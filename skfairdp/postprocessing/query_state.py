"""State of an abstaining classifier's queries: in one process, or in a file."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skfairdp.fairness.gate import ParityGate
from skfairdp.postprocessing.shared_table import SharedTable


@dataclass
class _Table:
    """A parity gate, and the number of its queries."""

    gate: ParityGate
    asked: NDArray[np.int64]
    without_group: int = 0

    @classmethod
    def empty(cls, settings: Mapping[str, Any]) -> _Table:
        gate = ParityGate(**{name: v for name, v in settings.items() if name != "counts"})
        return cls(gate, np.zeros(gate.n_groups, dtype=np.int64))

    @classmethod
    def of(cls, saved: Mapping[str, Any], settings: Mapping[str, Any]) -> _Table:
        whole = set(saved) == {"gate", "asked", "without_group"}
        if not whole or not isinstance(saved["gate"], Mapping):
            raise ValueError("The state was not made by save(): keys are missing or unknown.")
        gate = cls.empty(settings).gate.restore(saved["gate"])
        asked, without = np.asarray(saved["asked"]), saved["without_group"]
        if (
            asked.shape != (gate.n_groups,)
            or asked.dtype.kind not in "iu"
            or (asked < gate.counts.sum(axis=1)).any()
            or not isinstance(without, int)
            or without < 0
        ):
            raise ValueError(
                f"asked must hold {gate.n_groups} integers, each at least the number of answers "
                "of its group, and without_group an integer that must not be negative."
            )
        return cls(gate, asked.astype(np.int64), int(without))

    def save(self) -> dict[str, Any]:
        return {
            "gate": self.gate.state,
            "asked": self.asked.tolist(),
            "without_group": self.without_group,
        }


class Turnstile:
    """A parity gate with a count of the queries, safe to share between threads.

    Without a file, copies and pickles carry the counts and get their own lock; two
    processes that load one pickle therefore count apart from each other, and each keeps its
    promise for its own answers only. With a file, all copies count in it, in all processes.

    Parameters
    ----------
    gate : ParityGate
        Decides which answers pass; owned by this object from now on.
    path : path-like or None, default=None
        SQLite file for the counts, in which this object makes its own entry. None
        keeps them in memory.

    Raises
    ------
    TableError
        The file cannot be written, or belongs to another program.

    Examples
    --------
    >>> import numpy as np
    >>> from skfairdp.fairness import ParityGate
    >>> from skfairdp.postprocessing import Turnstile
    >>> turnstile = Turnstile(ParityGate(2, 2, tolerance=0.5, cold_start=2))
    >>> turnstile.admit(np.array([0, 1, -1]), np.array([0, 0, 1])).tolist()
    [True, True, False]
    >>> turnstile.coverage_by_group.tolist(), round(turnstile.coverage, 3)
    ([1.0, 1.0], 0.667)
    """

    def __init__(self, gate: ParityGate, path: str | os.PathLike[str] | None = None) -> None:
        self._settings = {name: v for name, v in gate.state.items() if name != "counts"}
        table = _Table(gate, np.zeros(gate.n_groups, dtype=np.int64))
        self._table = table if path is None else None
        self._file = None if path is None else SharedTable(path, table.save())
        self._begin(stored=None)

    def _begin(self, stored: int | None) -> None:
        self._stored, self._process, self._lock = stored, os.getpid(), threading.Lock()

    @property
    def scope(self) -> str:
        """Name the copies of the model that count their answers together."""
        if self._file is not None:
            return (
                f"The table lies in the file {self._file.path.name!r}: it holds the answers of all "
                "copies of this fitted model, in all processes."
            )
        forked = self._process != os.getpid()
        stored = "" if self._stored is None else f" with {self._stored} answers"
        apart = (
            f" This one went on from a copy that was stored{stored}: what was answered elsewhere "
            "since then is not in its table."
            if forked or self._stored is not None
            else ""
        )
        return (
            "The table is that of this copy of the model in this process. Other copies, such as "
            "pickles that several workers load, count apart, and the answers of all together may "
            f"be less even (table= names a file that all share).{apart}"
        )

    def admit(self, groups: NDArray[np.int64], labels: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Decide a batch of queries, in order and without another batch in between.

        Parameters
        ----------
        groups : ndarray of int64, shape (n_rows,)
            Group codes; -1 for a row without a group, which is never answered.
        labels : ndarray of int64, shape (n_rows,)
            Codes of the labels that would be answered.

        Returns
        -------
        ndarray of bool, shape (n_rows,)
            Which rows are answered.
        """
        rows = list(zip(groups.tolist(), labels.tolist(), strict=True))
        with self._changing() as table:
            passed = [group >= 0 and table.gate.offer(group, label) for group, label in rows]
            table.asked += np.bincount(groups[groups >= 0], minlength=table.gate.n_groups)
            table.without_group += int((groups < 0).sum())
        return np.array(passed, dtype=bool)

    @property
    def gate(self) -> ParityGate:
        """Copy of the gate as it stands."""
        return self._now().gate

    @property
    def asked(self) -> NDArray[np.int64]:
        """Queries of each group so far, shape (n_groups,)."""
        return self._now().asked

    @property
    def answered(self) -> NDArray[np.int64]:
        """Answers of each group so far, shape (n_groups,)."""
        return self.gate.counts.sum(axis=1)

    @property
    def without_group(self) -> int:
        """Queries so far that had no group and were not answered."""
        return self._now().without_group

    @property
    def coverage(self) -> float:
        """Answers over all queries, those without a group among them; NaN before any."""
        gate, asked, without = self.snapshot()
        total = int(asked.sum()) + without
        return int(gate.counts.sum()) / total if total else float("nan")

    @property
    def coverage_by_group(self) -> NDArray[np.float64]:
        """Answers over queries of each group, shape (n_groups,); NaN before any."""
        gate, asked, _ = self.snapshot()
        shares = gate.counts.sum(axis=1) / np.maximum(asked, 1)
        return np.where(asked > 0, shares, np.nan)

    def snapshot(self) -> tuple[ParityGate, NDArray[np.int64], int]:
        """Copy what is known, all of the same moment.

        Returns
        -------
        gate : ParityGate
        asked : ndarray of int64, shape (n_groups,)
            Queries of each group.
        without_group : int
            Queries without one.
        """
        table = self._now()
        return table.gate, table.asked, table.without_group

    def save(self) -> dict[str, Any]:
        """Write everything down.

        Returns
        -------
        dict
            Of JSON types, for `restore`.
        """
        return self._now().save()

    def restore(self, saved: Mapping[str, Any]) -> Turnstile:
        """Continue from the state that `save` returned.

        Parameters
        ----------
        saved : mapping
            Perhaps after a round trip through JSON.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            It belongs to a gate with other settings, or holds impossible counts. The
            object is left as it was.
        """
        return self._replace(_Table.of(saved, self._settings))

    def reset(self) -> Turnstile:
        """Forget all queries; the cold start begins anew, and so does the promise."""
        return self._replace(_Table.empty(self._settings))

    def _replace(self, new: _Table) -> Turnstile:
        with self._changing() as table:
            vars(table).update(vars(new))
        return self

    def _now(self) -> _Table:
        if self._file is not None:
            return _Table.of(self._file.read(), self._settings)
        with self._lock:
            assert self._table is not None
            return deepcopy(self._table)

    @contextmanager
    def _changing(self) -> Iterator[_Table]:
        """Lock the table; all changes inside the block count together, or none."""
        if self._file is not None:
            with self._file.exchange() as state:
                table = _Table.of(state, self._settings)
                yield table
                state.update(table.save())
            return
        with self._lock:
            assert self._table is not None
            table = deepcopy(self._table)
            yield table
            self._table = table

    def __getstate__(self) -> dict[str, Any]:
        """Keep the counts, or where they lie; a lock belongs to one process."""
        return {
            "settings": self._settings,
            "file": self._file,
            "table": self._table and self.save(),
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take the counts back, with a fresh lock."""
        self._settings, self._file = state["settings"], state["file"]
        saved = state["table"]
        self._table = None if saved is None else _Table.of(saved, self._settings)
        counted = None if self._table is None else int(self._table.gate.counts.sum())
        self._begin(stored=counted)
