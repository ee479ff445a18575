"""What a monitor shows of what it knows: bounds, events, history, a figure, JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Hashable
from typing import Any, Self

import pandas as pd

from skfairdp.exceptions import MonitorError
from skfairdp.fairness.guarantee import label_from_json
from skfairdp.figures import as_given, percent_text, rounded_down, rounded_up
from skfairdp.monitoring.pairs import bounds, states_of
from skfairdp.monitoring.store import Document, FileStore, MemoryStore
from skfairdp.privacy.ledger import PrivacyLedger

FORMAT = 2
# With the format and the groups they tell one monitor from another.
SETTINGS = ("notion", "tolerance", "confidence_level", "count_epsilon", "run_length")
EVENTS = {
    "alarm": "ALARM: the gap exceeds",
    "cleared": "cleared: the gap is below",
    "drift": "DRIFT: for some time the gap has exceeded",
}
_COLORS = {"alarm": "C3", "cleared": "C2", "drift": "C1"}


class Readings:
    """Base of the monitor: all that does not change what it knows."""

    notion: str
    tolerance: float
    confidence_level: float

    def _keep(self, store: MemoryStore | FileStore, groups: list[Any] | None = None) -> None:
        """Use a store if it belongs to a monitor of these settings, and of groups if given."""
        found = store.read()
        wanted = self._settings() | ({} if groups is None else {"groups": groups})
        other = [name for name, value in wanted.items() if found.get(name) != value]
        if other:
            raise MonitorError(
                f"This state is that of another monitor: {', '.join(other)} differ. A monitor "
                "keeps its settings; take another file for other ones."
            )
        self._store, self._document = store, found

    def _settings(self) -> Document:
        figures = {name: getattr(self, name) for name in SETTINGS[1:]}
        numbers = {
            name: value if value is None else float(value) for name, value in figures.items()
        }
        return {"format": FORMAT, "notion": self.notion} | numbers

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
        return bounds(states_of(self._document))[0]

    @property
    def upper_bound_(self) -> float:
        """The largest gap is at most this; as of `lower_bound_`."""
        return bounds(states_of(self._document))[1]

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
            settings = {name: document[name] for name in SETTINGS}
            settings |= {"groups": labels_of(document), "ledger": ledger}
            monitor = cls(**settings)
            monitor._keep(MemoryStore(document, history))
            states_of(document)
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
        for name, color in _COLORS.items():
            first = history[history[name]]["rows"]
            if len(first):
                ax.axvline(first.iloc[0], color=color, label=name)
        ax.set(xlabel="rows", ylabel="largest gap", ylim=(0, None))
        if ax.get_legend_handles_labels()[0]:
            ax.legend()
        return ax


def labels_of(document: Document) -> tuple[Hashable, ...] | None:
    """Groups of a monitor; None before the first batch."""
    known = document["groups"]
    return None if known is None else tuple(map(label_from_json, known))
