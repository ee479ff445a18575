"""Watch the gap between groups while decisions come in."""

from __future__ import annotations

import itertools
import json
import math
import os
from collections.abc import Hashable, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from skfairdp.certificate.composition import counts_guarantee
from skfairdp.exceptions import MonitorError
from skfairdp.fairness.groups import encode_groups
from skfairdp.fairness.guarantee import json_label, label_from_json
from skfairdp.fairness.notions import get_notion
from skfairdp.figures import as_given, percent_text, rounded_down, rounded_up
from skfairdp.monitoring.evidence import NoisyEvidence, PairedEvidence
from skfairdp.monitoring.pairs import Levels, PairState
from skfairdp.monitoring.store import FileStore, MemoryStore
from skfairdp.monitoring.waiting import settled, take_labels, wait
from skfairdp.privacy.ledger import PrivacyLedger, as_ledger
from skfairdp.privacy.noise import NoiseSource

__all__ = ["GapMonitor"]

FORMAT = 2
EVENTS = {
    "alarm": "ALARM: the gap exceeds",
    "cleared": "cleared: the gap is below",
    "drift": "DRIFT: for some time the gap has exceeded",
}
HISTORY = ["batch", "time", "rows", "lower_bound", "upper_bound", *EVENTS]


class GapMonitor:
    """Bounds on the largest gap between groups that hold at every time, with alarm and clearance.

    Look as often as you like, and stop when you like: the error probability covers all times
    together. Decisions are compared in pairs, one row of either group, in the order in
    which they come.

    Parameters
    ----------
    notion : str, default="demographic_parity"
        What is compared, see `certify`.
    tolerance : float in (0, 1), default=0.05
        Largest acceptable gap.
    confidence_level : float in (0, 1), default=0.95
        One minus the probability of a false alarm, ever; also of a false clearance, ever, and
        of a bound that fails at some time.
    groups : sequence, optional
        The groups that are compared. None takes those of the first batch.
    count_epsilon : float, optional
        Protects the people: each batch is used once, as a table of counts with discrete Laplace
        noise at this cost, in nats. The numbers of rows of each batch, group and true label must
        be public.
    ledger : None, path or PrivacyLedger, default=None
        Where each such batch is charged, before its rows are used. Its total takes it
        that a person may be in all batches.
    state : path-like, optional
        An SQLite file that keeps what the monitor knows. Several workers may use one file; a
        batch is in it wholly or not at all. None keeps it in memory.
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
        count_epsilon: float | None = None,
        ledger: str | os.PathLike[str] | PrivacyLedger | None = None,
        state: str | os.PathLike[str] | None = None,
        run_length: float = 100_000,
    ) -> None:
        for name, value in (("tolerance", tolerance), ("confidence_level", confidence_level)):
            if not 0.0 < value < 1.0:
                raise ValueError(f"{name}={value!r} must lie strictly between 0 and 1.")
        if count_epsilon is not None and not 1e-4 <= count_epsilon <= 1e3:
            raise ValueError(f"count_epsilon={count_epsilon!r} must lie between 0.0001 and 1000.")
        if count_epsilon is not None and groups is None:
            raise ValueError(
                "count_epsilon protects the people, but the groups that occur among them are "
                "private; declare them as groups=[...]."
            )
        if not run_length >= 1.0:
            raise ValueError(f"run_length={run_length!r} must be at least 1.")
        self.notion = get_notion(notion).name
        self.tolerance, self.confidence_level = float(tolerance), float(confidence_level)
        self.count_epsilon, self.run_length = count_epsilon, float(run_length)
        self.ledger = as_ledger(ledger)
        self._needs_labels = get_notion(notion).needs_labels
        self._strata = get_notion(notion).strata((0, 1), with_labels=self._needs_labels)
        self._source = NoiseSource()
        document = self._settings() | {
            "groups": None,
            "rows": 0,
            "batches": 0,
            "events": {},
            "pairs": [],
            "waiting": [],
            "seen": [],
        }
        if groups is not None:
            self._begin(document, encode_groups([], n_rows=0, labels=groups).labels)
        self._keep(
            MemoryStore(document, []) if state is None else FileStore(state, document), groups
        )

    def _settings(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "notion": self.notion,
            "tolerance": self.tolerance,
            "confidence_level": self.confidence_level,
            "count_epsilon": self.count_epsilon,
            "run_length": self.run_length,
        }

    def _keep(
        self, store: MemoryStore | FileStore, groups: Sequence[Hashable] | None = None
    ) -> None:
        """Use a store if it belongs to a monitor of these settings."""
        found = store.read()
        wanted = self._settings()
        if groups is not None:
            wanted["groups"] = [json_label(label) for label in groups]
        other = [name for name, value in wanted.items() if found.get(name) != value]
        if other:
            raise MonitorError(
                f"This state is that of another monitor: {', '.join(other)} differ. A monitor "
                "keeps its settings; take another file for other ones."
            )
        self._store, self._document = store, found

    def _begin(self, document: dict[str, Any], labels: tuple[Hashable, ...]) -> None:
        if len(labels) < 2:
            raise ValueError("A gap needs at least 2 groups; declare them as groups=[...].")
        document["groups"] = [json_label(label) for label in labels]
        evidence = (
            PairedEvidence()
            if self.count_epsilon is None
            else NoisyEvidence.none(self.count_epsilon)
        )
        document["pairs"] = [
            PairState(stratum, pair, evidence)
            for stratum in range(len(self._strata))
            for pair in itertools.combinations(range(len(labels)), 2)
        ]

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
            1 is the positive outcome.
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
            For decisions or labels other than 0 and 1, lengths that differ, labels that are
            missing without ids, ids that are waited for already. Nothing is used then.
        UnknownGroupError
            For a group that is not among the monitor's.
        MonitorError
            For a batch that is in already, or a file that can't be used.
        """
        given = _binary(decisions, "decisions").astype(np.int8)
        truth = np.full(len(given), np.nan)
        if y is not None:
            truth = _binary(y, "y", len(given), missing=True)
        waits = self._needs_labels and bool(np.isnan(truth).any())
        if waits and ids is None:
            raise ValueError(
                f"notion={self.notion!r} needs true labels: pass y, or ids by which add_labels() "
                "can bring them later."
            )
        if self.count_epsilon is not None and waits:
            raise ValueError("Noisy counts are of whole batches: pass y with each of them.")

        def change(document: dict[str, Any]) -> dict[str, Any] | None:
            if batch is not None:
                if batch in document["seen"]:
                    raise MonitorError(f"The batch {batch!r} is in the monitor already.")
                document["seen"].append(batch)
            known = document["groups"]
            groups = encode_groups(
                sensitive_features,
                n_rows=len(given),
                labels=None if known is None else [label_from_json(label) for label in known],
                on_missing="drop",
                # An error about one private row would reveal it.
                on_unknown="raise" if self.count_epsilon is None else "drop",
            )
            if known is None:
                self._begin(document, groups.labels)
            if waits or document["waiting"]:
                wait(document, groups.codes, given, truth, ids)
                return self._use(document, *settled(document))
            return self._use(document, groups.codes, given, truth)

        self._document = self._store.change(change)
        return self

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
        truth = _binary(y, "y", len(ids), missing=True)

        def change(document: dict[str, Any]) -> dict[str, Any] | None:
            take_labels(document, ids, truth)
            return self._use(document, *settled(document))

        self._document = self._store.change(change)
        return self

    def _use(
        self,
        document: dict[str, Any],
        codes: NDArray[np.int64],
        decided: NDArray[np.int8],
        truth: NDArray[np.float64],
    ) -> dict[str, Any] | None:
        """Bring rows into the document; return the line of the history."""
        inside = codes >= 0
        labels = truth.astype(np.int8) if self._needs_labels else np.zeros_like(decided)
        codes, decided, labels = codes[inside], decided[inside], labels[inside]
        if not codes.size:
            return None
        states = _states(document)
        error = 1.0 - self.confidence_level
        levels = Levels(self.tolerance, error, error / len(states))
        use = self._plain if self.count_epsilon is None else self._noisy
        document["pairs"] = states = use(states, levels, codes, decided, labels)
        document["rows"] += int(codes.size)
        document["batches"] += 1
        lower, upper = _bounds(states)
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

    def _plain(
        self,
        states: list[PairState],
        levels: Levels,
        codes: NDArray[np.int64],
        decided: NDArray[np.int8],
        labels: NDArray[np.int8],
    ) -> list[PairState]:
        hits = [stratum.successes[labels, decided] for stratum in self._strata]
        inside = [
            hit | stratum.failures[labels, decided]
            for hit, stratum in zip(hits, self._strata, strict=True)
        ]

        def outcomes(s: int, k: int) -> NDArray[np.int8]:
            return hits[s][inside[s] & (codes == k)].astype(np.int8)

        return [
            s.with_rows(outcomes(s.stratum, s.groups[0]), outcomes(s.stratum, s.groups[1]), levels)
            for s in states
        ]

    def _noisy(
        self,
        states: list[PairState],
        levels: Levels,
        codes: NDArray[np.int64],
        decided: NDArray[np.int8],
        labels: NDArray[np.int8],
    ) -> list[PairState]:
        assert self.count_epsilon is not None
        n_groups = 1 + max(max(state.groups) for state in states)
        table = np.zeros((n_groups, *self._strata[0].successes.shape), dtype=np.int64)
        np.add.at(table, (codes, labels, decided), 1)
        with ExitStack() as charges:
            if self.ledger is not None:
                cost = counts_guarantee(self.count_epsilon, public_sizes=True, source=self._source)
                charge = self.ledger.charge(cost, activity="certify", estimator="GapMonitor")
                charges.enter_context(charge)
            noisy = table + self._source.discrete_laplace(self.count_epsilon, table.shape)
        found = []
        for state in states:
            stratum = self._strata[state.stratum]
            rows = np.add(*stratum.count(table))
            hit, miss = stratum.count(noisy)
            # Both noisy counts measure the same number where the rows are known.
            hits = (rows + hit - miss) / 2.0
            k, m = state.groups
            terms = int(stratum.successes.sum() + stratum.failures.sum())
            of_both = (float(hits[k]), float(hits[m])), (int(rows[k]), int(rows[m]))
            found.append(state.with_noisy_counts(*of_both, terms, levels))
        return found

    def refresh(self) -> Self:
        """Read what other workers have written.

        Returns
        -------
        self
        """
        self._document = self._store.read()
        return self

    @property
    def groups_(self) -> tuple[Hashable, ...] | None:
        """The groups; None before the first batch."""
        known = self._document["groups"]
        return None if known is None else tuple(label_from_json(label) for label in known)

    @property
    def n_rows_(self) -> int:
        """Rows that were used."""
        return int(self._document["rows"])

    @property
    def n_waiting_(self) -> int:
        """Rows that wait for a label, theirs or one before."""
        return len(self._document["waiting"])

    @property
    def lower_bound_(self) -> float:
        """The largest gap is at least this.

        It fails, at whatever time one looks, with at most one minus the confidence. A constant gap
        is assumed; of one that changes it speaks of the average so far.
        """
        return _bounds(_states(self._document))[0]

    @property
    def upper_bound_(self) -> float:
        """The largest gap is at most this; as of `lower_bound_`."""
        return _bounds(_states(self._document))[1]

    @property
    def alarm_(self) -> bool:
        """Whether there has ever been evidence that the gap exceeds the tolerance."""
        return "alarm" in self._document["events"]

    @property
    def cleared_(self) -> bool:
        """Whether there has been evidence, for each pair of groups, that it is below."""
        return "cleared" in self._document["events"]

    @property
    def drift_(self) -> bool:
        """Whether the gap seems to exceed the tolerance since some time.

        This rests on an average run length, not on a probability of a false alarm.
        """
        return "drift" in self._document["events"]

    @property
    def history_(self) -> pd.DataFrame:
        """A line for each batch."""
        return pd.DataFrame(self._store.history(), columns=HISTORY)

    def __str__(self) -> str:
        found = [
            f"{text} {as_given(self.tolerance)} (batch {self._document['events'][name]})"
            for name, text in EVENTS.items()
            if name in self._document["events"]
        ]
        return (
            f"{self.notion}: over {self.n_rows_:,} rows the largest gap is between "
            f"{rounded_down(self.lower_bound_)} and {rounded_up(self.upper_bound_)}, each with "
            f"{percent_text(self.confidence_level)} confidence at all times if it is constant; "
            f"{'; '.join(found) or 'no alarm, not cleared'}"
        )

    def to_json(self) -> str:
        """Return all that the monitor knows.

        Returns
        -------
        str
        """
        content = {"state": self._store.read(), "history": self._store.history()}
        return json.dumps(content, allow_nan=False)

    @classmethod
    def from_json(
        cls, text: str, *, ledger: str | os.PathLike[str] | PrivacyLedger | None = None
    ) -> Self:
        """Rebuild a monitor from `to_json`, in memory.

        Parameters
        ----------
        text : str
            What it returned.
        ledger : None, path or PrivacyLedger, default=None
            Where further noisy counts are charged.

        Returns
        -------
        GapMonitor

        Raises
        ------
        MonitorError
            When the text is none.
        """
        try:
            content = json.loads(text)
            document, history = content["state"], content["history"]
            names = ("notion", "tolerance", "confidence_level", "count_epsilon", "run_length")
            labels = document["groups"]
            monitor = cls(
                **{name: document[name] for name in names},
                groups=None if labels is None else [label_from_json(label) for label in labels],
                ledger=ledger,
            )
            monitor._keep(MemoryStore(document, history))
            _states(document)
        except (ValueError, KeyError, TypeError) as error:
            raise MonitorError(f"This is not a state of a monitor: {error!r}.") from error
        return monitor

    def plot(self, ax: Any = None) -> Any:
        """Draw both bounds against the rows.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw.

        Returns
        -------
        matplotlib Axes
        """
        from matplotlib import pyplot as plt

        if ax is None:
            _, ax = plt.subplots(figsize=(7, 3.5))
        history = self.history_
        ax.fill_between(
            history["rows"], history["lower_bound"], history["upper_bound"], step="post", alpha=0.3
        )
        ax.axhline(self.tolerance, color="black", linestyle="--", linewidth=1)
        for name, color in (("alarm", "C3"), ("cleared", "C2"), ("drift", "C1")):
            first = history[history[name]]["rows"]
            if len(first):
                ax.axvline(first.iloc[0], color=color, label=name)
        ax.set(xlabel="rows", ylabel="largest gap", ylim=(0, None))
        if ax.get_legend_handles_labels()[0]:
            ax.legend()
        return ax


def _states(document: dict[str, Any]) -> list[PairState]:
    return [PairState.from_json(fields) for fields in document["pairs"]]


def _bounds(states: list[PairState]) -> tuple[float, float]:
    """Largest limits of all pairs; 0 and 1 without pairs."""
    lower = max((state.lower for state in states), default=0.0)
    return lower, max(0.0, max((max(state.upper) for state in states), default=1.0))


def _binary(
    values: ArrayLike, name: str, length: int | None = None, *, missing: bool = False
) -> NDArray[np.float64]:
    """Column of 0 and 1, and of NaN where values may be missing."""
    found = np.asarray(values)
    fits = found.ndim == 1 and found.dtype.kind in "biuf"
    if not fits or not (np.isin(found, (0, 1)) | (missing & np.isnan(found))).all():
        raise ValueError(
            f"{name} must be one column of {'0, 1 or NaN' if missing else '0 and 1'} (1 is the "
            "positive outcome); translate other labels first. Nothing was used."
        )
    if length is not None and found.size != length:
        raise ValueError(f"{name} has {found.size} rows, where {length} were expected.")
    return found.astype(np.float64)
