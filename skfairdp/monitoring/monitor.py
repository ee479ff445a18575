"""Watch the gap between groups while decisions come in."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skfairdp.certificate.composition import counts_guarantee
from skfairdp.exceptions import MonitorError
from skfairdp.fairness.guarantee import json_label
from skfairdp.fairness.notions import NOTIONS, Notion, get_notion
from skfairdp.fairness.number_notions import (
    DISTRIBUTION_GAP,
    GRID_CELLS,
    MEAN_GAP,
    NUMBER_NOTIONS,
    NumberGrid,
)
from skfairdp.foundation.parameters import NONE, PROBABILITY, Number, check_values
from skfairdp.monitoring.evidence import Levels, PairState, bounds, first_states, states_of
from skfairdp.monitoring.readings import EVENTS, Readings, labels_of
from skfairdp.monitoring.store import Document, FileStore, MemoryStore
from skfairdp.monitoring.waiting import Rows, binary, settled, take_labels, wait
from skfairdp.privacy.ledger import PrivacyLedger, as_ledger
from skfairdp.privacy.noise import NoiseSource
from skfairdp.records.groups import encode_groups
from skfairdp.records.labels import count_rows
from skfairdp.records.numbers import INTERVAL, number_column
from skfairdp.records.rows import refuse_other_order


class GapMonitor(Readings):
    """Bounds on the largest gap between groups that hold at every time, with alarm and clearance.

    Look as often as you like, and stop when you like: the error probability covers all times
    together. Decisions are compared in pairs, one row of either group, in the order in
    which they come.

    Parameters
    ----------
    notion : str, default="demographic_parity"
        Notion to compare, see `certify`. "distribution_gap" takes predicted numbers, and compares
        the shares up to each of 15 thresholds that divide `target_bounds` evenly.
    tolerance : float in (0, 1), default=0.05
        Largest acceptable gap.
    confidence_level : float in (0, 1), default=0.95
        One minus the probability of a false alarm, ever; also of a false clearance, ever, and
        of a bound that fails at some time.
    groups : sequence, optional
        The groups that are compared. None takes those of the first batch.
    target_bounds : (float, float), optional
        For "distribution_gap" alone: public bounds (low, high) of the predictions, in their units.
    count_epsilon : float, optional
        Protects the people: each batch is used once, as a table of counts with discrete Laplace
        noise at this cost, in nats. The numbers of rows of each batch, group and true label must
        be public.
    ledger : None, path or PrivacyLedger, default=None
        Where each such batch is charged, before its rows are used. Its total takes it
        that a person may be in all batches.
    state : path-like, optional
        An SQLite file, of one or several workers, that keeps the monitor's state; a batch is in
        it wholly or not at all. None keeps it in memory.
    run_length : float, default=100_000
        For `drift_`: rows that are compared between two groups, on average, until a false one.

    Raises
    ------
    ValueError
        For figures out of range.
    MonitorError
        When `state` is not a file of a monitor, or of one with other settings.

    Notes
    -----
    Assumed is that outcomes of different rows are independent, that which group comes next does
    not depend on outcomes, and, where labels come late, nor does which labels never come. Rows
    of the larger group that find no partner are not used.

    References
    ----------
    Chugg, Cortes-Gomez, Wilder and Ramdas, "Auditing fairness by betting", NeurIPS 2023; Shin,
    Ramdas and Rinaldo, "E-detectors", 2022.

    Examples
    --------
    >>> import numpy as np
    >>> from skfairdp import GapMonitor
    >>> rng = np.random.default_rng(0)
    >>> groups = rng.choice(["a", "b"], 8000)
    >>> monitor = GapMonitor(tolerance=0.05)
    >>> _ = monitor.update(rng.random(8000) < 0.3, groups)
    >>> monitor.alarm_, monitor.cleared_, round(monitor.upper_bound_, 2)
    (False, True, 0.03)
    >>> _ = monitor.update(rng.random(8000) < np.where(groups == "a", 0.2, 0.5), groups)
    >>> monitor.alarm_, monitor.drift_
    (True, True)
    """

    def __init__(
        self,
        notion: str = "demographic_parity",
        tolerance: float = 0.05,
        confidence_level: float = 0.95,
        groups: Sequence[Hashable] | None = None,
        *,
        target_bounds: Sequence[float] | None = None,
        count_epsilon: float | None = None,
        ledger: str | os.PathLike[str] | PrivacyLedger | None = None,
        state: str | os.PathLike[str] | None = None,
        run_length: float = 100_000,
    ) -> None:
        self._grid = _grid(notion, target_bounds)
        self.target_bounds = None if target_bounds is None else tuple(map(float, target_bounds))
        if isinstance(notion, Notion):
            raise ValueError(
                f"'notion' must be a name, one of {[*NOTIONS, DISTRIBUTION_GAP]}; got your own "
                f"Notion {notion.name!r}. A monitor's file keeps the name of a notion alone, and "
                "could go on with other rates of the same name."
            )
        found = get_notion(notion) if self._grid is None else NUMBER_NOTIONS[DISTRIBUTION_GAP]
        self.notion = found.name
        check_values(
            tolerance=(tolerance, PROBABILITY),
            confidence_level=(confidence_level, PROBABILITY),
            count_epsilon=(count_epsilon, NONE, Number(1e-4, 1e3)),
            run_length=(run_length, Number(1.0)),
        )
        self.tolerance, self.confidence_level = float(tolerance), float(confidence_level)
        self.count_epsilon, self.run_length = count_epsilon, run_length
        if count_epsilon is not None and groups is None:
            raise ValueError(
                "count_epsilon protects the people, but the groups that occur among them are "
                "private; declare them as groups=[...]."
            )
        self.ledger = as_ledger(ledger)
        self._needs_labels = found.needs_labels
        if isinstance(found, Notion):
            self._strata = found.strata((0, 1), with_labels=found.needs_labels)
        else:
            assert self._grid is not None
            self._strata = self._grid.strata
        document = self._settings() | {"groups": None, "rows": 0, "batches": 0, "events": {}}
        document |= {"pairs": [], "waiting": [], "seen": []}
        if groups is not None:
            self._begin(document, encode_groups([], n_rows=0, labels=groups).labels)
        store = MemoryStore(document, []) if state is None else FileStore(state, document)
        self._store, self._document = store, document
        self.refresh()

    def _begin(self, document: Document, labels: tuple[Hashable, ...]) -> None:
        if len(labels) < 2:
            raise ValueError("A gap needs at least 2 groups; declare them as groups=[...].")
        document["groups"] = [json_label(label) for label in labels]
        if labels_of(document) != labels:
            raise ValueError(f"Groups must be texts, numbers or booleans; got {labels!r}.")
        document["pairs"] = first_states(len(self._strata), len(labels), self.count_epsilon)

    def update(
        self,
        decisions: ArrayLike,
        sensitive_features: ArrayLike,
        y: ArrayLike | None = None,
        *,
        ids: Sequence[Hashable] | None = None,
        batch: str | None = None,
    ) -> Self:
        """Use a batch of decisions, in the order in which they were made.

        Parameters
        ----------
        decisions : array-like of {0, 1}, shape (n_rows,)
            1 is the positive outcome. For "distribution_gap" the predicted numbers.
        sensitive_features : array-like, shape (n_rows,) or (n_rows, k)
            Groups; rows with a missing one are outside the claim.
        y : array-like of {0, 1} or NaN, shape (n_rows,), optional
            True labels, for notions that need them. Rows without one wait.
        ids : sequence of str or int, optional
            Names of the rows, by which `add_labels` finds those that wait.
        batch : str, optional
            Name of the batch. One that is in already is refused, so that a worker that was
            interrupted may send its batch again.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For rows, labels or ids that do not fit. Nothing is used then.
        UnknownGroupError
            For a group that is not among the monitor's.
        MonitorError
            For a batch that is in already, or a file that can't be used.
        """
        refuse_other_order(decisions=decisions, sensitive_features=sensitive_features, y=y, ids=ids)
        given = self._read(decisions)
        truth = np.full(len(given), np.nan)
        if y is not None:
            truth = binary(y, "y", len(given), missing=True)
        waits = self._needs_labels and bool(np.isnan(truth).any())
        if waits and ids is None:
            raise ValueError(f"{self.notion!r} needs true labels: pass y, or ids for add_labels().")
        if self.count_epsilon is not None and waits:
            raise ValueError("Noisy counts are of whole batches: pass y with each of them.")

        def change(document: Document) -> Document | None:
            self._check(document)
            if batch is not None:
                if batch in document["seen"]:
                    raise MonitorError(f"The batch {batch!r} is in the monitor already.")
                document["seen"].append(batch)
            known = labels_of(document)
            groups = encode_groups(
                sensitive_features,
                n_rows=len(given),
                labels=known,
                on_missing="drop",
                # An error about one private row would reveal it.
                on_unknown="raise" if self.count_epsilon is None else "drop",
            )
            if known is None:
                self._begin(document, groups.labels)
            rows = groups.codes, given, truth
            if waits or document["waiting"]:
                wait(document, rows, ids)
                rows = settled(document)
            return self._use(document, rows)

        self._document = self._store.change(change)
        return self

    def _read(self, decisions: ArrayLike) -> NDArray[np.int8]:
        """Places of the decisions among the answers that are counted."""
        if self._grid is None:
            return binary(decisions, "decisions").astype(np.int8)
        numbers = number_column(decisions, count_rows(decisions), "decisions")
        # An error about one private row would reveal it: there what is no number is the smallest.
        if self.count_epsilon is None and not np.isfinite(numbers).all():
            raise ValueError(
                "decisions holds missing or infinite numbers; leave those rows out. Nothing was "
                "used."
            )
        return self._grid.places(numbers).astype(np.int8)

    def add_labels(self, ids: Sequence[Hashable], y: ArrayLike) -> Self:
        """Bring labels that came late.

        Parameters
        ----------
        ids : sequence of str or int
            Rows that wait.
        y : array-like of {0, 1} or NaN, shape (n_ids,)
            Their labels; NaN for one that will never be known, which leaves the claim.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For ids that nothing waits for, or labels other than 0, 1 and NaN. Nothing is used.
        """
        truth = binary(y, "y", len(ids), missing=True)

        def change(document: Document) -> Document | None:
            self._check(document)
            take_labels(document, ids, truth)
            return self._use(document, settled(document))

        self._document = self._store.change(change)
        return self

    def _use(self, document: Document, rows: Rows) -> Document | None:
        """Bring rows into the document; return the line of the history."""
        codes, decided, truth = rows
        inside = codes >= 0
        labels = truth.astype(np.int8) if self._needs_labels else np.zeros_like(decided)
        codes, decided, labels = codes[inside], decided[inside], labels[inside]
        if not codes.size:
            return None
        states = states_of(document)
        error = 1.0 - self.confidence_level
        levels = Levels(self.tolerance, error, error / len(states))
        add: Callable[..., PairState] = PairState.with_rows
        batch: tuple[NDArray, ...] = codes, labels, decided
        if self.count_epsilon is not None:
            add, batch = PairState.with_noisy_counts, self._counted(len(document["groups"]), batch)
        states = [add(state, self._strata[state.stratum], levels, *batch) for state in states]
        document["pairs"] = states
        document["rows"] += int(codes.size)
        document["batches"] += 1
        lower, upper = bounds(states)
        peak = max(state.drift_peak for state in states)
        for name, happened in (
            ("alarm", lower > self.tolerance),
            ("cleared", all(all(state.below) for state in states)),
            ("drift", peak >= math.log(self.run_length * len(states))),
        ):
            if happened:
                document["events"].setdefault(name, document["batches"])
        return {
            "batch": document["batches"],
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
            "rows": document["rows"],
            "lower_bound": lower,
            "upper_bound": upper,
            **{name: name in document["events"] for name in EVENTS},
        }

    def _counted(self, n_groups: int, rows: tuple[NDArray, ...]) -> tuple[NDArray, NDArray]:
        """Count rows in cells of groups, labels and decisions; the counts, and noisy ones."""
        assert self.count_epsilon is not None
        table = np.zeros((n_groups, *self._strata[0].successes.shape), dtype=np.int64)
        np.add.at(table, rows, 1)
        if all(np.count_nonzero(np.add(*s.count(table))) < 2 for s in self._strata):
            raise ValueError(
                "This batch has rows of fewer than two groups, so its noisy counts would compare "
                "nothing; put it together with another. Nothing was spent or used."
            )
        source = NoiseSource()
        charge: AbstractContextManager[object] = nullcontext()
        if self.ledger is not None:
            cost = counts_guarantee((self.count_epsilon,), public_sizes=True, source=source)
            charge = self.ledger.charge(cost, activity="certify", estimator="GapMonitor")
        with charge:
            return table, table + source.discrete_laplace(self.count_epsilon, table.shape)


def _grid(notion: object, target_bounds: object) -> NumberGrid | None:
    """Thresholds at which predicted numbers are compared; None for decisions."""
    if notion not in (DISTRIBUTION_GAP, MEAN_GAP):
        if target_bounds is not None:
            raise ValueError(
                f"'target_bounds' has no meaning for notion={notion!r}, which compares decisions: "
                f"leave it out, or use notion={DISTRIBUTION_GAP!r} for predicted numbers."
            )
        return None
    if notion == MEAN_GAP:
        raise ValueError(
            f"There is no monitor of notion={MEAN_GAP!r}; use {DISTRIBUTION_GAP!r}, whose bound "
            "times the range of the target bounds means too."
        )
    if not INTERVAL.accepts(target_bounds):
        raise ValueError(
            f"notion={DISTRIBUTION_GAP!r} needs 'target_bounds', {INTERVAL.describe()}, which must "
            f"be public; got {target_bounds!r}."
        )
    assert isinstance(target_bounds, Sequence | np.ndarray)
    return NumberGrid(float(target_bounds[0]), float(target_bounds[1]), GRID_CELLS)
