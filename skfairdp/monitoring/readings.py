"""Readings of a monitor: bounds, events, history, a figure, JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Self

import pandas as pd

from skfairdp.exceptions import MonitorError
from skfairdp.fairness.guarantee import label_from_json
from skfairdp.fairness.notions import Stratum
from skfairdp.fairness.smallest_gap import SmallestGap, certifiable, smallest_gap
from skfairdp.foundation.documentation import completed_by
from skfairdp.foundation.figures import as_given, percent_text, rounded_down, rounded_up
from skfairdp.foundation.parameters import COUNT, Number, check_values
from skfairdp.monitoring import evidence
from skfairdp.monitoring.store import Document, FileStore, MemoryStore
from skfairdp.privacy.ledger import PrivacyLedger

FORMAT = 2
# With the format and the groups they tell one monitor from another.
SETTINGS = ("notion", "tolerance", "confidence_level", "count_epsilon", "run_length")
BOUNDS = "target_bounds"  # a setting of monitors of numbers alone
EVENTS = {
    "alarm": "ALARM: the gap exceeds",
    "cleared": "cleared: the gap is below",
    "drift": "DRIFT: for some time the gap has exceeded",
}


class Readings:
    """Base of the monitor: methods that do not change its state."""

    notion: str
    tolerance: float
    confidence_level: float
    count_epsilon: float | None
    target_bounds: tuple[float, ...] | None
    _strata: Sequence[Stratum]

    _store: MemoryStore | FileStore
    _document: Document

    def _check(self, found: Document) -> None:
        """Refuse the state of a monitor with other settings, or with other known groups."""
        groups = self._document["groups"]
        wanted = self._settings() | ({} if groups is None else {"groups": groups})
        other = [name for name, value in wanted.items() if found.get(name) != value]
        if other:
            raise MonitorError(
                f"This state belongs to a monitor with another {' and '.join(other)}. A monitor "
                "keeps its settings: use a new file for other settings."
            )

    def _settings(self) -> Document:
        figures = ((name, getattr(self, name)) for name in SETTINGS[1:])
        numbers = {name: value if value is None else float(value) for name, value in figures}
        of_numbers = {} if self.target_bounds is None else {BOUNDS: [*self.target_bounds]}
        return {"format": FORMAT, "notion": self.notion} | numbers | of_numbers

    def refresh(self) -> Self:
        """Read the writes of other workers, and return the monitor."""
        found = self._store.read()
        self._check(found)
        self._document = found
        return self

    @property
    def groups_(self) -> tuple[Hashable, ...] | None:
        """The groups; None before the first batch."""
        return labels_of(self._document)

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
        return evidence.bounds(evidence.states_of(self._document))[0]

    @property
    def upper_bound_(self) -> float:
        """The largest gap (of numbers: at the thresholds) is at most this; as of `lower_bound_`."""
        return evidence.bounds(evidence.states_of(self._document))[1]

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
        columns = ["batch", "time", "rows", "lower_bound", "upper_bound", *EVENTS]
        return pd.DataFrame(self._store.history(), columns=columns)

    @completed_by(certifiable)
    def certifiable(
        self,
        group_sizes: Mapping[Any, int] | Sequence[int],
        *,
        rate: float = 0.5,
        n_batches: int = 1,
    ) -> SmallestGap:
        """Compute, before a row is used, the smallest bound that a number of rows can show.

        Parameters
        ----------
        group_sizes : mapping of group to int, or sequence of int
            Decisions that are expected in each group (for rates given a label, with that label):
            public, declared or bought numbers.
        n_batches : int, default=1
            With `count_epsilon`, batches of one size that these rows come in.

        Returns
        -------
        SmallestGap
            `upper_bound_` if all groups' rates are observed to be equal. Of streams with equal
            rates half clear within 1.3 times the rows that this asks for.

        Examples
        --------
        >>> from skfairdp import GapMonitor
        >>> print(GapMonitor(tolerance=0.1).certifiable({"a": 1000, "b": 100}))
        Equal rates of 0.5 would show a gap of at most 0.220: at such rates they cannot show a ...
        """
        check_values(rate=(rate, Number(0.0, 1.0)), n_batches=(n_batches, COUNT))

        def shown(sizes: Sequence[int]) -> float:
            found: evidence.PairedEvidence | evidence.NoisyEvidence
            if self.count_epsilon is None:
                apart = min(sizes) * rate * (1.0 - rate)
                found = evidence.PairedEvidence(apart, min(sizes) - 2.0 * apart, apart)
            else:
                rows = [n / n_batches for n in sorted(sizes)[:2]]
                if not all(rows):
                    return 1.0
                hits, terms = [rate * n for n in rows], evidence.noise_terms(self._strata[0])
                nothing = evidence.NoisyEvidence.none(self.count_epsilon)
                _, alone = nothing.with_batch(hits, rows, terms)
                costs = [n_batches * cost for cost in alone.costs]
                found = alone._replace(weight=n_batches * alone.weight, costs=costs)
            return evidence.upper_limit(found, 1.0 - self.confidence_level)

        return smallest_gap(group_sizes, self.tolerance, rate, shown)

    def __str__(self) -> str:
        found = [
            f"{text} {as_given(self.tolerance)} (batch {self._document['events'][name]})"
            for name, text in EVENTS.items()
            if name in self._document["events"]
        ]
        # Between thresholds distributions may differ by more.
        n = len(self._strata)
        where = "" if self.target_bounds is None else f" at any of {n} public numbers"
        return (
            f"{self.notion}: over {self.n_rows_:,} rows the largest gap{where} is between "
            f"{rounded_down(self.lower_bound_)} and {rounded_up(self.upper_bound_)}, each with "
            f"{percent_text(self.confidence_level)} confidence at all times if it is constant; "
            f"{'; '.join(found) or 'no alarm, not cleared'}"
        )

    def to_json(self) -> str:
        """Return all that the monitor knows."""
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
            When there is no state of a monitor.
        """
        with _no_state():
            content = json.loads(text)
            store = MemoryStore(content["state"], list(content["history"]))
        return cls._of(store, ledger)

    @classmethod
    @completed_by(from_json)
    def from_file(
        cls,
        state: str | os.PathLike[str],
        *,
        ledger: str | os.PathLike[str] | PrivacyLedger | None = None,
    ) -> Self:
        """Open the file of a monitor, whatever its settings.

        Parameters
        ----------
        state : path-like
            The file, as `state` of a monitor.
        """
        return cls._of(FileStore(state), ledger)

    @classmethod
    def _of(cls, store: MemoryStore | FileStore, ledger: Any) -> Self:
        with _no_state():
            document = store.read()
            settings = {name: document[name] for name in SETTINGS}
            settings |= {"groups": labels_of(document), "ledger": ledger}
            settings[BOUNDS] = document.get(BOUNDS)
            monitor = cls(**settings)
            monitor._store = store
            known, wanted = evidence.states_of(document), evidence.states_of(monitor._document)
            if [state[:2] for state in known] != [state[:2] for state in wanted]:
                raise ValueError("pairs of groups are missing")
            monitor.refresh()
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
        bounds_ = history["lower_bound"], history["upper_bound"]
        ax.fill_between(history["rows"], *bounds_, step="post", alpha=0.3)
        ax.axhline(self.tolerance, color="black", linestyle="--", linewidth=1, label="tolerance")
        for name, color in zip(EVENTS, ("C3", "C2", "C1"), strict=True):
            first = history[history[name]]["rows"]
            if len(first):
                ax.axvline(first.iloc[0], color=color, label=name)
        ax.set(xlabel="rows", ylabel="largest gap", ylim=(0, None))
        ax.locator_params(axis="x", nbins=6)
        ax.xaxis.set_major_formatter("{x:,.0f}")
        ax.legend()
        return ax


@contextmanager
def _no_state() -> Iterator[None]:
    """Report any other error as an invalid state of a monitor."""
    try:
        yield
    except (ValueError, KeyError, TypeError) as error:
        raise MonitorError(f"This is not a state of a monitor: {error!r}.") from error


def labels_of(document: Document) -> tuple[Hashable, ...] | None:
    """Groups of a monitor; None before the first batch."""
    known = document["groups"]
    return None if known is None else tuple(map(label_from_json, known))
