"""A certificate: claims that can be verified, shown and filed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Self

import pandas as pd

from skfairdp.certificate.claims import Claims
from skfairdp.certificate.examination import Examination, contradictions, examine
from skfairdp.certificate.registry import registry_entry
from skfairdp.certificate.render.elements import PLAIN, printable
from skfairdp.certificate.render.html import html_page, notebook_html
from skfairdp.certificate.render.plot import draw_bounds
from skfairdp.certificate.render.record_sections import Frontier, Watch
from skfairdp.certificate.render.sections import certificate_sections
from skfairdp.certificate.render.text import markdown_card, plain_text
from skfairdp.foundation.documentation import completed_by
from skfairdp.privacy.ledger import PrivacyLedger, as_ledger
from skfairdp.receipts.unwrap import unwrap

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Certificate(Claims):
    __doc__ = Claims.__doc__
    # By this name pickles find it, whatever its file is called.
    __module__ = "skfairdp.certificate"

    def examine(self) -> Examination:
        """Recompute the claims.

        Returns
        -------
        Examination
            The figures that follow from the stored ones, those that don't, and those that can't be
            recomputed.
        """
        return examine(self)

    def verify(self, model: object) -> bool:
        """Whether this certificate names a model in this very state, and its figures hold.

        Parameters
        ----------
        model : estimator, Pipeline or fitted search
            A fitted model.

        Returns
        -------
        bool
            False too where the model depends on something that no digest can cover, and where it
            promises less about its training records. It does not show who issued the certificate;
            for that see `skfairdp.certificate.signing`.

        Raises
        ------
        IncomparableModelError
            The model has your own functions or classes, and another version of Python made
            the certificate.
        """
        python = self.library_versions.get("python", "")
        deployed = unwrap(model)
        return (
            not self.edited
            and deployed.matches(self.model_digest, python)
            and not any(contradictions(self, deployed))
            and self.examine().holds
        )

    def with_monitor(self, path: str | PathLike[str]) -> Self:
        """Name the file of the monitor that watches a claim.

        Parameters
        ----------
        path : path-like
            State of a `GapMonitor`; it is read when a page is asked for, by ``python -m skfairdp
            monitor`` or with ``to_html(monitor=GapMonitor.from_file(certificate.monitor_file))``.

        Returns
        -------
        Certificate
            A copy. A signature is about the certificate without the name: sign it afterwards.
        """
        return replace(self, monitor_file=fspath(path))

    def to_frame(self) -> pd.DataFrame:
        """Put the claims in a table.

        Returns
        -------
        DataFrame
            One row a claim; of privacy the value is epsilon, of a notion the upper bound.
        """
        privacy: dict[str, Any] = {
            "value": float("inf"),
            "scope": "none: trained with epsilon=inf",
            "informative": False,
        }
        if self.privacy is not None:
            privacy = {
                "value": self.privacy.epsilon,
                "delta": self.privacy.delta,
                "scope": f"{self.privacy.protects}, {self.privacy.adjacency}",
                "method": self.privacy.accountant,
                "informative": not self.privacy.is_void,
            }
        same = ("estimate", "confidence_level", "scope", "method", "informative")
        rows = [{"claim": "privacy"} | privacy] + [
            {"claim": claim.notion, "value": claim.bound} | {n: getattr(claim, n) for n in same}
            for claim in self.fairness
        ]
        columns = ["claim", "value", "estimate", "delta", "confidence_level", "scope", "method"]
        frame = pd.DataFrame(rows, columns=[*columns, "informative"])
        return frame.astype(dict.fromkeys(columns[1:5], "float64"))

    def plot(self, *, ax: Axes | None = None, threshold: float | None = None) -> Axes:
        """Draw each notion's observed difference and its upper bound.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; None makes a new figure.
        threshold : float, optional
            Largest acceptable difference, drawn as a line.

        Returns
        -------
        matplotlib.axes.Axes

        Raises
        ------
        ValueError
            When there is no fairness claim to draw.
        """
        if not self.fairness:
            raise ValueError(
                "The certificate has no fairness claim to draw; certify with sensitive_features."
            )
        return draw_bounds(self.fairness, ax, threshold)

    def to_html(
        self,
        *,
        title: str = "Certificate of privacy and fairness",
        ledger: str | PathLike[str] | PrivacyLedger | None = None,
        epsilon: float | None = None,
        tolerance: float | None = None,
        monitor: Watch | None = None,
        template: str = PLAIN,
        path: Frontier | None = None,
        about: Mapping[str, Any] | None = None,
    ) -> str:
        """Write a whole page that can be filed, sent and printed by itself.

        Parameters
        ----------
        title : str, default="Certificate of privacy and fairness"
            Heading of the page.
        ledger : None, path or PrivacyLedger, default=None
            Adds the total cost of the data set.
        epsilon : float, optional
            Largest privacy loss that was asked for; adds whether it is kept.
        tolerance : float, optional
            Largest difference between groups that was asked for.
        monitor : GapMonitor, optional
            Adds its observations since. It must watch one of the claims.
        template : {"plain", "bias-scenario", "eu-ai-act", "nist-800-226"}, default="plain"
            Headings: its own, those of a scenario of bias, those of Annex IV of the European
            Union's AI Act (technical
            documentation), or the questions of NIST SP 800-226. What they ask and the certificate
            does not know is marked "not stated".
        path : FairPathClassifier, optional
            Adds the frontier between accuracy and the gap, with the point in use.
        about : mapping, optional
            Answers that only you know to questions of a template: "justification",
            "intended_use", "data_curators", "actors"; other names as in `to_registry` are not used.

        Returns
        -------
        str
            An HTML document without links, scripts or outside resources: a summary of one printed
            page, then every claim with rates and intervals, assumptions, what is not claimed, the
            model's digest, and pictures where matplotlib is installed.

        Raises
        ------
        MonitorError
            When the monitor watches something else.
        ValueError
            When there is no such template, or `about` names something else.
        """
        book = as_ledger(ledger)
        given = self, book, epsilon, tolerance, monitor, template, path, about
        sections = certificate_sections(*given, whole=True)
        return html_page(printable(title), printable(self._subtitle), sections)

    @completed_by(to_html)
    def to_model_card(
        self,
        *,
        title: str = "Model card",
        ledger: str | PathLike[str] | PrivacyLedger | None = None,
        epsilon: float | None = None,
        tolerance: float | None = None,
        monitor: Watch | None = None,
        template: str = PLAIN,
        path: Frontier | None = None,
        about: Mapping[str, Any] | None = None,
    ) -> str:
        """Write the same as Markdown, to be kept with the model.

        Parameters
        ----------
        title : str, default="Model card"
            Heading of the card.

        Returns
        -------
        str
        """
        book = as_ledger(ledger)
        given = self, book, epsilon, tolerance, monitor, template, path, about
        sections = certificate_sections(*given, whole=True)
        return markdown_card(printable(title), printable(self._subtitle), sections)

    def to_registry(
        self,
        about: Mapping[str, Any] | None = None,
        *,
        ledger: str | PathLike[str] | PrivacyLedger | None = None,
    ) -> dict[str, Any]:
        """Write an entry for the registry of deployments of differential privacy.

        Parameters
        ----------
        about : mapping, optional
            What only you know: "name", "data_curators", "description", "intended_use",
            "data_product_region", "data_product_sector", "publication_date", "actors",
            "justification", "sources", "notes", "registry_authors", "url_slug". What is not given
            is marked "to be stated".
        ledger : None, path or PrivacyLedger, default=None
            Says whether this is one release of many from the same people.

        Returns
        -------
        dict
            Of the registry's schema (three tiers; OpenDP, NIST), to be written as YAML.

        Raises
        ------
        ValueError
            `about` names something else, or the certificate promises no privacy.
        """
        return registry_entry(self, {} if about is None else about, as_ledger(ledger))

    @property
    def _subtitle(self) -> str:
        name = self.model_name or "Model"
        return f"{name}, certified {self.created[:10]}" if self.created else name

    def _repr_html_(self) -> str:
        return notebook_html(certificate_sections(self))

    def __str__(self) -> str:
        return plain_text(certificate_sections(self))

    __repr__ = __str__
