"""Claims of a certificate: fields, sentence, tolerances met, JSON."""

from __future__ import annotations

import importlib.metadata
import json
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from typing import Any, Self

import skfairdp
from skfairdp.certificate.facts import COUNTED, Fact
from skfairdp.certificate.group_rates import ImpactRatio, impact_ratios
from skfairdp.certificate.json_document import (
    FORMAT,
    checked_document,
    content_digest,
)
from skfairdp.certificate.number_errors import NumberErrors
from skfairdp.certificate.outcomes import Accuracy, Outcomes
from skfairdp.certificate.score_counts import ScoreCounts
from skfairdp.certificate.sentence import certificate_sentence
from skfairdp.fairness.guarantee import FairnessGuarantee
from skfairdp.fairness.notions import get_notion
from skfairdp.fairness.scopes import DEPLOYED, SCOPES
from skfairdp.foundation.parameters import NONE, Number, check_arguments
from skfairdp.privacy.guarantee import PrivacyGuarantee

_AS_WRITTEN = ("model_digest", "model_name", "n_rows", "remarks", "created")

NOT_INSTALLED = "not installed as a distribution"


@cache
def version_of(package: str) -> str:
    """Version of a package, as certificates name it."""
    if package == "skfairdp":  # an editable installation keeps the metadata of an older version
        return skfairdp.__version__
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return NOT_INSTALLED


@dataclass(frozen=True)
class Claims:
    """Guarantees of one fitted model; made by `skfairdp.certify`.

    Parameters
    ----------
    privacy : PrivacyGuarantee or None
        Guarantee of the training records, with an infinite epsilon if there is none and
        the reason among its assumptions; None after training with ``epsilon=inf``.
    fairness : tuple of FairnessGuarantee
        Bounds on differences between groups, those from held-out rows first.
    model_digest : str
        Digest of the model's fitted state.
    model_name : str
        Class names of the model's steps.
    n_rows : int or None
        Held-out rows inside the claim; None without any, or where their number is private.
    remarks : tuple of str
        Why something is not claimed.
    created : str
        Time of certification, UTC; not part of equality.
    versions : tuple of (str, str)
        Library versions; not part of equality.
    model_file : str or None
        SHA-256 of the model's file, in hexadecimal digits, to be compared before anything in it
        is run; not part of equality.
    accuracy : Accuracy or None
        Right answers on the held-out rows, where their labels were given.
    errors : NumberErrors or None
        Errors on the held-out rows, where a model predicts numbers and their targets were given.
    monitor_file : str or None
        File of the `GapMonitor` that watches a claim, as it was named; not part of equality.
    facts : tuple of Fact
        Columns, rows and terms of the model, each marked as public, declared or bought;
        not part of equality.
    outcomes : Outcomes or None
        Held-out rows by group, label and answer, from which the rates by group follow.
    scores : ScoreCounts or None
        Held-out rows by group, label and score, from which calibration and scoring rates follow.
    edited : bool
        Whether these claims, or those that they are a copy of, were read from a file whose
        contents have another digest than it states; not part of equality.
    """

    privacy: PrivacyGuarantee | None
    fairness: tuple[FairnessGuarantee, ...]
    model_digest: str
    model_name: str = ""
    n_rows: int | None = None
    remarks: tuple[str, ...] = ()
    created: str = field(default="", compare=False)
    versions: tuple[tuple[str, str], ...] = field(default=(), compare=False)
    model_file: str | None = field(default=None, compare=False)
    accuracy: Accuracy | None = None
    errors: NumberErrors | None = None
    monitor_file: str | None = field(default=None, compare=False)
    facts: tuple[Fact, ...] = field(default=(), compare=False)
    outcomes: Outcomes | None = None
    scores: ScoreCounts | None = None
    edited: bool = field(default=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("fairness", "remarks", "facts"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        object.__setattr__(self, "versions", tuple((k, v) for k, v in self.versions))

    @property
    def library_versions(self) -> dict[str, str]:
        """Versions of the libraries at the time of certification."""
        return dict(self.versions)

    @property
    def nearly_constant(self) -> bool:
        """Whether decisions are almost all alike, or no better than a constant answer."""
        measured = self.measured
        return self.almost_alike or (measured is not None and measured.no_better)

    @property
    def almost_alike(self) -> bool:
        """Whether almost all people get the same decision."""
        return any(claim.nearly_constant for claim in self.fairness)

    @property
    def measured(self) -> Accuracy | NumberErrors | None:
        """Accuracy, or errors of numbers, where targets of the held-out rows were given."""
        return self.errors if self.accuracy is None else self.accuracy

    @property
    def impact_ratios(self) -> tuple[ImpactRatio, ...]:
        """Selection rates of groups, and of the values of single columns, over the highest."""
        return tuple(ratio for claim in self.fairness for ratio in impact_ratios(claim))

    @property
    def sentence(self) -> str:
        """The certificate in one sentence."""
        return certificate_sentence(self.privacy, self.fairness, self.n_rows)

    def satisfies(
        self,
        epsilon: float | None = None,
        tolerance: float | None = None,
        *,
        delta: float | None = None,
        adjacency: str | None = None,
        protects: str | None = None,
        notion: str | None = None,
        confidence_level: float | None = None,
        scope: str | None = None,
    ) -> bool:
        """Whether the certificate supports a requirement.

        Parameters
        ----------
        epsilon : float, optional
            Largest acceptable privacy loss, in nats.
        tolerance : float, optional
            Largest acceptable difference of rates between two groups, in [0, 1].
        delta : float, optional
            Largest acceptable delta; with `epsilon` only.
        adjacency : str, optional
            Relation that the privacy claim must be about.
        protects : str, optional
            The unit that the privacy claim must protect.
        notion : str, optional
            The notion that `tolerance` is about; None asks it of all certified ones.
        confidence_level : float, optional
            Smallest acceptable confidence; None accepts the certificate's.
        scope : str, optional
            Scope that the claim must have, see `skfairdp.fairness.FairnessGuarantee`. None asks
            about the deployed model and people like those held out, which no average over draws,
            training or releases bounds.

        Returns
        -------
        bool
            True only if everything asked for is guaranteed.

        Raises
        ------
        ValueError
            When nothing is asked for, a name is unknown, or a number is out of range.
        """
        if epsilon is None and tolerance is None:
            raise ValueError("satisfies() needs epsilon, tolerance, or both.")
        if epsilon is None and (delta, adjacency, protects) != (None, None, None):
            raise ValueError("delta, adjacency and protects qualify epsilon, which is not given.")
        if tolerance is None and (notion, confidence_level, scope) != (None, None, None):
            raise ValueError("notion, confidence_level and scope qualify tolerance: none is given.")
        if scope is not None and scope not in SCOPES:
            raise ValueError(f"scope={scope!r} is not known; use one of {SCOPES}.")
        if notion is not None and notion not in {claim.notion for claim in self.fairness}:
            get_notion(notion)
        check_arguments(
            {"epsilon": epsilon, "tolerance": tolerance, "confidence_level": confidence_level},
            epsilon=(NONE, Number(0.0, finite=False)),
            tolerance=(NONE, Number(0.0, 1.0)),
            confidence_level=(NONE, Number(0.0, 1.0)),
        )
        private = epsilon is None or (
            self.privacy is not None
            and self.privacy.satisfies(epsilon, delta, adjacency=adjacency, protects=protects)
        )
        kept = {
            claim.notion
            for claim in self.fairness
            if claim.scope == (scope or DEPLOYED)
            and (claim.confidence_level or 1.0) >= (confidence_level or 0.0)
            and claim.bound <= (0.0 if tolerance is None else tolerance)
        }
        asked = {claim.notion for claim in self.fairness} if notion is None else {notion}
        return private and (tolerance is None or (bool(asked) and asked <= kept))

    def to_json(self, *, indent: int | None = 2) -> str:
        """Write the certificate as JSON; infinity is the text "inf".

        Parameters
        ----------
        indent : int or None, default=2
            Indentation of the text.

        Returns
        -------
        str

        Raises
        ------
        ValueError
            When the claims are `edited`: a new file would state a digest that fits.
        """
        if self.edited:
            raise ValueError(
                "The file that this certificate was read from was edited, so it cannot be "
                "written again; use the filed file, or make a new certificate with certify()."
            )
        document = {
            "format": FORMAT,
            "sentence": self.sentence,
            "privacy": None if self.privacy is None else self.privacy.to_dict(),
            "fairness": [claim.to_dict() for claim in self.fairness],
            "model_digest": self.model_digest,
            "model_name": self.model_name,
            "model_file": self.model_file,
            "n_rows": self.n_rows,
            "remarks": list(self.remarks),
            "created": self.created,
            "library_versions": self.library_versions,
        }
        if self.monitor_file is not None:
            document["monitor_file"] = self.monitor_file
        if self.accuracy is not None:
            document["accuracy"] = self.accuracy.to_dict()
        if self.outcomes is not None:
            document["outcomes"] = self.outcomes.to_dict()
        if self.scores is not None:
            document["scores"] = self.scores.to_dict()
        if self.errors is not None:
            document["errors"] = self.errors.to_dict()
        if self.facts:  # files of earlier versions are written as they were
            document["facts"] = [asdict(fact) for fact in self.facts]
            document["derived"] = self._derived
            document["content_digest"] = content_digest(document)
        return json.dumps(document, indent=indent, ensure_ascii=False, allow_nan=False)

    @property
    def _derived(self) -> dict[str, Any]:
        """Derived figures, for readers of the file without this package."""

        def shown(x: float | None) -> float | None:
            """Shares with three decimals; numbers of any size with four digits."""
            return x and (round(x, 3) if self.errors is None else float(f"{x:.4g}"))

        of_scores = (
            {}
            if self.scores is None
            else {
                "calibration": [line.to_dict() for line in self.scores.calibration],
                "scoring_rates": [rate.to_dict() for rate in self.scores.scoring_rates],
            }
        )
        return {
            "nearly_constant": self.nearly_constant,
            "utility": [
                {"measure": name, "model": shown(x), "constant_answer": shown(y)}
                for name, x, y in (self.measured.measures if self.measured else ())
            ],
            "impact_ratios": [ratio.to_dict() for ratio in self.impact_ratios],
            "outcomes": [] if self.outcomes is None else [r.to_dict() for r in self.outcomes.rates],
            **of_scores,
        }

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read a certificate that `to_json` wrote.

        Parameters
        ----------
        text : str
            The JSON text.

        Returns
        -------
        Certificate

        Raises
        ------
        ValueError
            When the text is not a certificate of a known format, or states what no
            certificate can.
        """
        document = checked_document(text)
        privacy, known = document["privacy"], document.get("accuracy")
        counted = document.get("outcomes")
        errors, scores = document.get("errors"), document.get("scores")
        try:
            found = cls(
                privacy=None if privacy is None else PrivacyGuarantee.from_dict(privacy),
                fairness=tuple(map(FairnessGuarantee.from_dict, document["fairness"])),
                model_file=document.get("model_file"),
                monitor_file=document.get("monitor_file"),
                accuracy=None if known is None else Accuracy(**known),
                outcomes=None if counted is None else Outcomes.from_dict(counted),
                errors=None if errors is None else NumberErrors(**errors),
                scores=None if scores is None else ScoreCounts.from_dict(scores),
                facts=tuple(Fact(**fact) for fact in document.get("facts", ())),
                versions=tuple(document["library_versions"].items()),
                **{name: document[name] for name in _AS_WRITTEN},
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(
                f"The text is not a whole certificate: {type(error).__name__}: {error}."
            ) from error
        # Other versions may say the same in other words; the first ones named no file.
        same = found.library_versions.get("skfairdp") == version_of("skfairdp")
        if same and "model_file" in document and document["sentence"] != found.sentence:
            raise ValueError(
                f"The summary sentence does not match the figures. Expected: {found.sentence}"
            )
        # Without what a bound follows from, its intervals do not follow either: `examine` says so.
        whole = all(c.derivation is not None for c in found.fairness if impact_ratios(c))
        stated = same and whole and "derived" in document
        if stated and not _alike(document["derived"], found._derived):
            raise ValueError(
                "The values under 'derived' do not follow from the certificate's figures."
            )
        digest = document.get("content_digest")
        # Not in files of earlier versions, which state none of these either.
        newer = scores is not None or any(fact.name == COUNTED for fact in found.facts)
        edited = newer if digest is None else digest != content_digest(document)
        return replace(found, edited=edited)


def _alike(stated: Any, found: Any) -> bool:
    """Whether two JSON values are equal, but for the last digit that is printed of a number."""
    if isinstance(found, float):
        return isinstance(stated, int | float) and abs(stated - found) < 0.0015
    if isinstance(found, list) and isinstance(stated, list):
        return len(stated) == len(found) and all(map(_alike, stated, found))
    if isinstance(found, dict) and isinstance(stated, dict):
        return stated.keys() == found.keys() and all(_alike(stated[k], found[k]) for k in found)
    return type(stated) is type(found) and bool(stated == found)
