"""All that an abstaining classifier remembers of its queries, behind one lock."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skfairdp.fairness.gate import ParityGate

__all__ = ["Turnstile"]


class Turnstile:
    """A parity gate with a count of the queries, safe to share between threads.

    Copies and pickles carry the counts and get a lock of their own; two processes that
    load one pickle therefore count apart from each other, and each keeps its promise
    for its own answers only.

    Parameters
    ----------
    gate : ParityGate
        Decides which answers pass; owned by this object from now on.

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

    def __init__(self, gate: ParityGate) -> None:
        self._gate = gate
        self._asked = np.zeros(gate.n_groups, dtype=np.int64)
        self._without_group = 0
        self._lock = threading.Lock()

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
        with self._lock:
            before = self._gate.copy()
            try:
                passed = [group >= 0 and self._gate.offer(group, label) for group, label in rows]
            except BaseException:
                self._gate = before  # a batch counts whole or not at all
                raise
            self._asked += np.bincount(groups[groups >= 0], minlength=self._gate.n_groups)
            self._without_group += int((groups < 0).sum())
        return np.array(passed, dtype=bool)

    @property
    def gate(self) -> ParityGate:
        """Copy of the gate as it stands."""
        with self._lock:
            return self._gate.copy()

    @property
    def asked(self) -> NDArray[np.int64]:
        """Queries of each group so far, shape (n_groups,)."""
        with self._lock:
            return self._asked.copy()

    @property
    def answered(self) -> NDArray[np.int64]:
        """Answers of each group so far, shape (n_groups,)."""
        return self.gate.counts.sum(axis=1)

    @property
    def without_group(self) -> int:
        """Queries so far that had no group and were not answered."""
        return self._without_group

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
        """Gate, queries by group and queries without one, all of the same moment.

        Returns
        -------
        gate : ParityGate
            A copy.
        asked : ndarray of int64, shape (n_groups,)
            A copy.
        without_group : int
        """
        with self._lock:
            return self._gate.copy(), self._asked.copy(), self._without_group

    def save(self) -> dict[str, Any]:
        """Everything as JSON types, for `restore`.

        Returns
        -------
        dict
        """
        gate, asked, without = self.snapshot()
        return {"gate": gate.state, "asked": asked.tolist(), "without_group": without}

    def restore(self, saved: Mapping[str, Any]) -> Turnstile:
        """Go on from what `save` returned.

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
        own = self.gate
        keys = {"gate", "asked", "without_group"}
        if set(saved) != keys or not isinstance(saved["gate"], Mapping):
            raise ValueError("This is not what save() returned: keys are missing or unknown.")
        gate = ParityGate(**{k: v for k, v in own.state.items() if k != "counts"})
        gate.restore(saved["gate"])
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
        with self._lock:
            self._gate, self._asked = gate, asked.astype(np.int64)
            self._without_group = int(without)
        return self

    def reset(self) -> Turnstile:
        """Forget all queries; the cold start begins anew, and so does the promise.

        Returns
        -------
        self
        """
        settings = {k: v for k, v in self.gate.state.items() if k != "counts"}
        with self._lock:
            self._gate = ParityGate(**settings)
            self._asked = np.zeros(self._gate.n_groups, dtype=np.int64)
            self._without_group = 0
        return self

    def __getstate__(self) -> dict[str, Any]:
        """Keep the counts; a lock belongs to one process."""
        return self.save()

    def __setstate__(self, saved: dict[str, Any]) -> None:
        """Take the counts back, with a fresh lock."""
        settings = {k: v for k, v in saved["gate"].items() if k != "counts"}
        Turnstile.__init__(self, ParityGate(**settings))
        self.restore(saved)
