"""Parts of a page from what is kept beside a certificate: a ledger, a monitor."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from skfairdp.certificate.render.elements import Element, Picture, Section, Table
from skfairdp.exceptions import MonitorError
from skfairdp.fairness.guarantee import FairnessGuarantee
from skfairdp.fairness.scopes import DEPLOYED
from skfairdp.figures import rounded_down, rounded_up
from skfairdp.privacy.ledger import PrivacyLedger
from skfairdp.privacy.ledger.rendering import HEADINGS, ledger_cells

if TYPE_CHECKING:
    import pandas as pd

_EXCERPT = 40


class Watch(Protocol):
    """Parts of a monitor's section: the notion it watches, its sentences, batches and picture."""

    notion: str

    @property
    def groups_(self) -> tuple[Hashable, ...] | None: ...
    @property
    def history_(self) -> pd.DataFrame: ...
    def plot(self, ax: Any = None) -> Any: ...


def of_ledger(ledger: PrivacyLedger) -> Section:
    """An excerpt of what a data set has spent."""
    rows = tuple(map(ledger_cells, ledger.entries()))
    title = f"What was charged to the ledger for the data set “{ledger.data_set}”."
    elements: list[Element] = [title, tuple(ledger.statements())]
    if len(rows) > _EXCERPT:
        elements.append(f"The last {_EXCERPT} of {len(rows)} entries:")
    if rows:
        elements.append(Table("Entries of the ledger", rows[-_EXCERPT:], HEADINGS))
    return Section("Privacy ledger", tuple(elements))


def check_watch(monitor: Watch, claims: Sequence[FairnessGuarantee]) -> None:
    """Refuse a monitor of anything that is not claimed of the deployed model."""
    if not any(
        claim.scope == DEPLOYED
        and claim.notion == monitor.notion
        and monitor.groups_ in (None, claim.groups)
        for claim in claims
    ):
        raise MonitorError(
            f"The monitor watches {monitor.notion} of the groups {monitor.groups_}, which this "
            "certificate does not claim of the deployed model."
        )


def of_monitor(monitor: Watch) -> Section:
    """Section on the observations since the certificate."""
    rows = tuple(
        (
            str(line["batch"]),
            line["time"][:16].replace("T", " "),
            f"{line['rows']:,}",
            rounded_down(line["lower_bound"]),
            rounded_up(line["upper_bound"]),
            ", ".join(name for name, value in line.items() if value is True),
        )
        for line in monitor.history_.tail(_EXCERPT).to_dict("records")
    )
    headings = ("batch", "UTC", "rows", "at least", "at most", "so far")
    table = Table(f"The last {len(rows)} batches", rows, headings, numbers_from=2)
    picture = Picture("Bounds on the largest gap, after each batch.", 3.5, monitor.plot)
    return Section("Since then", (str(monitor), picture, table))
