"""Sections of a page about a certificate's ledger and monitor."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Protocol

import pandas as pd

from skfairdp.certificate.render.elements import Element, Picture, Section, Table
from skfairdp.exceptions import MonitorError
from skfairdp.fairness.guarantee import FairnessGuarantee
from skfairdp.fairness.scopes import DEPLOYED
from skfairdp.foundation.figures import rounded_down, rounded_up
from skfairdp.privacy.ledger import PrivacyLedger
from skfairdp.privacy.ledger.rendering import HEADINGS, ledger_cells

_EXCERPT = 40
_POINTS = 8


class Watch(Protocol):
    """Parts of a monitor's section: the notion it watches, its sentences, batches and picture."""

    notion: str

    @property
    def groups_(self) -> tuple[Hashable, ...] | None: ...
    @property
    def history_(self) -> pd.DataFrame: ...
    def plot(self, ax: Any = None) -> Any: ...


class Frontier(Protocol):
    """Parts of a fitted path: its points, the one in use, and its picture."""

    multiplier_: float

    def path(self) -> pd.DataFrame: ...
    def plot_path(self, **options: Any) -> Any: ...


def of_path(model: Frontier) -> Section:
    """Section on other tolerances that the same fit gives."""
    path = model.path().drop_duplicates("tolerance", keep="last")
    used = path[path["multiplier"] == model.multiplier_]
    every = path.iloc[:: max(1, len(path) // _POINTS)]
    shown = pd.concat([every, used]).sort_values("tolerance").drop_duplicates("tolerance")
    rows = tuple(
        (
            f"{line['tolerance']:.3f}",
            f"{min(line['gap'], 1.0):.3f} ± {line['gap_std']:.3f}",
            f"{line['accuracy']:.3f} ± {line['accuracy_std']:.3f}",
            "yes" if line["multiplier"] == model.multiplier_ else "no",
        )
        for line in shown.to_dict("records")
    )
    how = (
        "One private fit has released every point between the smallest gap and no constraint. "
        "Moving to another point costs these people nothing more. The figures are estimates about "
        "the training rows, with the standard error of the noise. Only the claims above are "
        "bounds, and only for the point in use."
    )
    picture = Picture("Accuracy against the gap, and the point in use.", 3.2, _drawn(model))
    headings = ("tolerance kept", "gap", "accuracy", "in use")
    return Section("Other tolerances", (how, picture, Table("Points of the path", rows, headings)))


def _drawn(model: Frontier) -> Any:
    def draw(ax: Any) -> None:
        model.plot_path(ax=ax)

    return draw


def of_ledger(ledger: PrivacyLedger) -> Section:
    """Excerpt of the ledger: the privacy spent on a data set."""
    rows = tuple(map(ledger_cells, ledger.entries()))
    title = f"Charges to the ledger for the data set “{ledger.data_set}”."
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
