"""Parts of a page from what is kept beside a certificate: a ledger, a monitor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from skfairdp.certificate.render.elements import (
    Element,
    Listing,
    Paragraph,
    Picture,
    Section,
    Table,
)
from skfairdp.privacy.ledger import PrivacyLedger
from skfairdp.privacy.ledger.rendering import HEADINGS, ledger_cells

if TYPE_CHECKING:
    import pandas as pd

_EXCERPT = 40


class Watch(Protocol):
    """What a page shows of a monitor: its words, its batches, its picture."""

    @property
    def history_(self) -> pd.DataFrame:
        """A line for each batch."""
        ...

    def plot(self, ax: Any = None) -> Any:
        """Draw the bounds so far."""
        ...


def of_ledger(ledger: PrivacyLedger) -> Section:
    """An excerpt of what a data set has spent."""
    rows = tuple(map(ledger_cells, ledger.entries()))
    title = f"What was charged to the ledger for the data set “{ledger.data_set}”."
    elements: list[Element] = [Paragraph(title), Listing(tuple(ledger.statements()))]
    if len(rows) > _EXCERPT:
        elements.append(Paragraph(f"The last {_EXCERPT} of {len(rows)} entries:"))
    if rows:
        elements.append(Table("Entries of the ledger", rows[-_EXCERPT:], HEADINGS))
    return Section("Privacy ledger", tuple(elements))


def of_monitor(monitor: Watch) -> Section:
    """What has been seen since the certificate."""
    lines = monitor.history_.tail(_EXCERPT)
    rows = tuple(tuple(map(str, line)) for line in lines.itertuples(index=False))
    table = Table(f"The last {len(rows)} batches", rows, tuple(lines.columns), numbers_from=2)
    return Section(
        "Since then", (Paragraph(str(monitor)), Picture(str(monitor), 3.5, monitor.plot), table)
    )
