"""Charged part of a report: training, certificate, files; and its state if it breaks off."""

from __future__ import annotations

import hashlib
import pickle
import warnings
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from sklearn.pipeline import Pipeline

from skfairdp import Certificate, FairPathClassifier, PrivacyLedger, certify
from skfairdp.base import PrivateEstimator
from skfairdp.certificate.facts import PUBLIC, UNKNOWN, Fact
from skfairdp.certificate.outcomes import HARDLY_EVER_WRONG
from skfairdp.certificate.registry import to_be_stated
from skfairdp.certificate.signing import sign_certificate
from skfairdp.command_line.files import document_text, say, write_whole
from skfairdp.command_line.path_points import largest_shown, other_tolerances
from skfairdp.command_line.planning import TABLE_SHARE, Outlook, whole_charge
from skfairdp.command_line.request import Request, encoder_of, estimator_of
from skfairdp.command_line.schema import stated
from skfairdp.command_line.table import People
from skfairdp.exceptions import FairnessWarning, PlanError, SkfairdpError
from skfairdp.foundation import assumptions
from skfairdp.foundation.figures import as_given, rounded_down
from skfairdp.model_selection import fit_within
from skfairdp.preprocessing import PublicEncoder, PublicScaler
from skfairdp.privacy.guarantee import PrivacyGuarantee
from skfairdp.privacy.ledger.rendering import ledger_cells
from skfairdp.privacy.ledger.totals import covered
from skfairdp.privacy.noise import NoiseSource

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


@dataclass
class ChargedReport:
    """Training on some rows, and a certificate from the others."""

    request: Request
    trained_on: People
    held_out: People
    outlook: Outlook
    noise: NoiseSource
    ledger: PrivacyLedger | None
    key: Ed25519PrivateKey | None
    about: Mapping[str, Any]
    written: list[Path] = field(default_factory=list)

    def file(self) -> int:
        """Train, certify, write; an error names the charge and the files that were written."""
        known = () if self.ledger is None else [entry.number for entry in self.ledger.entries()]
        try:
            return self._charged()
        except BaseException as error:
            charged = self._what_was_charged(known)
            if charged is not None:
                files = ", ".join(map(str, self.written)) or "none"
                # In place of what its parts say, of which none knows that the run is one charge.
                error.__notes__ = []
                error.add_note(f"What was charged stays charged: {charged}.")
                error.add_note(f"Files written: {files}.")
            raise

    def _charged(self) -> int:
        request, ledger = self.request, self.ledger
        inner = ledger if request.count_epsilon is None else None
        estimator = estimator_of(request, self.trained_on, self.outlook.aim, inner)
        once = nullcontext() if ledger is None or ledger is inner else self._one_charge(estimator)
        with once as entry:
            say(request, f"Training {request.mechanism}")
            with warnings.catch_warnings():
                # About the aim of the training, which nobody asked for: the answer is worded below.
                warnings.simplefilter("ignore", FairnessWarning)
                model = trained(self.trained_on, estimator)
                if isinstance(model[-1], FairPathClassifier):
                    last = model.steps[-1][0], largest_shown(model[-1], self.outlook)
                    model.steps[-1] = last
            for step in model:  # the path of the ledger does not travel with the model
                if isinstance(step, PrivateEstimator):
                    step.set_params(ledger=None)
            content = pickle.dumps(model)
            self._write(request.model, content)
            say(request, "Certifying on the rows held out")
            # Which certificate on these people this is: each such run, and each by itself.
            others = [] if entry is None or ledger is None else ledger.entries()
            certificate = self._certificate(
                model,
                count_epsilon=request.count_epsilon,
                ledger=inner,
                certificate_index=entry
                and entry.ordinal + sum(other.activity == "certify" for other in others),
            )
            self._check_within(certificate.privacy)
        if request.model is not None:
            certificate = replace(certificate, model_file=hashlib.sha256(content).hexdigest())
        if request.monitor is not None:
            certificate = certificate.with_monitor(request.monitor)
        if request.certificate is not None:
            text = certificate.to_json()
            signed = text if self.key is None else sign_certificate(text, self.key)
            self._write(request.certificate, signed)
        self._write_pages(certificate, model[-1])
        code = self._answer(certificate)
        if isinstance(model[-1], FairPathClassifier):
            print(other_tolerances(model[-1]))
        return code

    def _write_pages(self, certificate: Certificate, final: Any) -> None:
        request = self.request
        asked: dict[str, Any] = {
            "title": f"Certificate of privacy and fairness: {request.target}",
            "ledger": self.ledger,
            "about": self.about,
            **{n: getattr(request, n) for n in ("epsilon", "tolerance", "template")},
        }
        if isinstance(final, FairPathClassifier):
            asked["path"] = final
        if request.card is not None:
            self._write(request.card, certificate.to_model_card(**asked))
        self._write(request.out, certificate.to_html(**asked))
        if request.registry is not None:
            entry = certificate.to_registry(self.about, ledger=self.ledger)
            self._write(request.registry, document_text(entry))
            left = ", ".join(to_be_stated(entry))
            if left:
                say(request, f"Left to be stated in {request.registry}, by --about: {left}")

    @property
    def _unit(self) -> str:
        return "record" if self.trained_on.ids is None else "person"

    def _one_charge(self, estimator: Any) -> Any:
        # A row is trained on or held out, by its own draw: protecting the latter at the same
        # epsilon adds nothing to the cost of a record. So the run is one charge. With public
        # rows there is nothing but the training, which charges itself.
        whole = whole_charge(self.request, self.trained_on)
        assert self.ledger is not None
        return self.ledger.charge(whole, activity="fit", estimator=type(estimator).__name__)

    def _certificate(self, model: Pipeline, **asked: Any) -> Certificate:
        request, people = self.request, self.held_out
        drawn = "per_record" if people.ids is None else "by_person"
        certificate = certify(
            model,
            people.X,
            pd.Series(people.y, name=request.target),
            sensitive_features=people.groups,
            notion=list(request.notion),
            confidence_level=request.confidence,
            person_ids=people.ids,
            holdout="public" if asked["count_epsilon"] is None else drawn,
            pos_label=people.positive if len(people.outcomes) == 2 else None,
            count_noise=self.noise,
            scores=request.scores,
            **asked,
        )
        claims = tuple(
            replace(claim, assumptions=(*claim.assumptions, people.coding))
            for claim in certificate.fairness
        )
        certificate = replace(certificate, fairness=claims)
        if people.of_unknown_group:
            unknown = f"{people.of_unknown_group:,} of the table, left out (--skip-blank)"
            facts = (*certificate.facts, Fact(UNKNOWN, unknown, PUBLIC))
            certificate = replace(certificate, facts=facts)
        if certificate.privacy is None:
            return certificate
        public = [assumptions.PUBLIC_BOUNDS] * request.bounds_are_public
        rests_on = (*certificate.privacy.assumptions, assumptions.GROUPS_SEEN, *public)
        return replace(certificate, privacy=replace(certificate.privacy, assumptions=rests_on))

    def _check_within(self, spent: PrivacyGuarantee | None) -> None:
        """Stop where a run spent more than was charged, which no mechanism of the command does."""
        epsilon, delta = self.request.epsilon, self.request.delta
        unit = self._unit
        (cost,) = covered([spent or PrivacyGuarantee.void(protects=unit)], "zero-out", unit)
        # Refusals looked at groups: no promise for removed records may leave the command.
        removed = spent is not None and spent.adjacency != "zero-out"
        if removed or not cost.satisfies(epsilon, delta):
            raise PlanError(
                f"The run spent ε = {as_given(cost.epsilon)}, δ = {as_given(cost.delta)} under "
                f"{'another relation' if removed else 'zero-out'}, and was charged ε = "
                f"{as_given(epsilon)}, δ = {as_given(delta)} under zero-out."
            )

    def _write(self, path: Path | None, content: str | bytes) -> None:
        if path is not None:
            write_whole(path, content)
            self.written.append(path)
            say(self.request, f"Wrote {path}")

    def _what_was_charged(self, known: Any) -> str | None:
        epsilon, delta = as_given(self.request.epsilon), as_given(self.request.delta)
        budget = f"so count ε = {epsilon}, δ = {delta}"
        if self.ledger is None:
            return f"no ledger keeps account, {budget} as spent"
        try:
            entries = [entry for entry in self.ledger.entries() if entry.number not in known]
        except (SkfairdpError, OSError) as error:
            return f"the ledger could not be read ({type(error).__name__}), {budget}"
        if not entries:
            return None
        named = ("{0} ({2}, {3}: ε = {4}, δ = {5}, {7})".format(*ledger_cells(e)) for e in entries)
        return f"entry {', entry '.join(named)} of {self.ledger.path}"

    def _answer(self, certificate: Certificate) -> int:
        request = self.request
        print(certificate.sentence)
        differ = certificate.satisfies(request.epsilon, request.tolerance)
        epsilon, tolerance = as_given(request.epsilon), as_given(request.tolerance)
        kept = differ
        if request.ratio is not None:
            lowest = min((each.low for each in certificate.impact_ratios), default=0.0)
            alike = lowest >= request.ratio
            kept = kept and alike
            print(
                f"Asked for: a ratio of selection rates of at least {as_given(request.ratio)}. "
                f"{'Shown' if alike else 'NOT shown'}: each is at least {rounded_down(lowest)}."
            )
        shown = "Shown." if differ else "NOT shown by this certificate."
        usual = "" if request.tolerance_is_named else " (the default of --tolerance)"
        print(f"Asked for: ε ≤ {epsilon} and differences ≤ {tolerance}{usual}. {shown}")
        if not kept and self.ledger is not None:
            print(
                "Another run is another release: the ledger adds it to what these people have "
                "spent."
            )
        if certificate.almost_alike:
            print(
                "NEARLY CONSTANT: almost all decisions are alike. Such a model treats groups alike "
                "by not deciding, so the exit code is 1."
            )
        elif certificate.nearly_constant:
            print(
                "NO BETTER THAN A CONSTANT: the model is not shown to be better than one answer "
                "for everybody, so the exit code is 1."
            )
        elif certificate.accuracy is not None and certificate.accuracy.hardly_ever_wrong:
            print(HARDLY_EVER_WRONG)
        return 0 if kept and not certificate.nearly_constant else 1


def trained(people: People, estimator: Any) -> Pipeline:
    """Fit an estimator behind the columns of a table; it says which outcome is positive."""
    schema = people.schema or {}
    if people.learned:
        table = encoder_of(people, estimator.ledger)
        fitted = fit_within(
            Pipeline([("table", table), ("classify", estimator)]),
            people.X,
            people.y,
            epsilon=estimator.epsilon,
            table_share=TABLE_SHARE,
            sensitive_features=people.groups,
            person_ids=people.ids,
        )
    else:
        log = tuple(name for name, bent in stated(schema, "log").items() if bent)
        fill = stated(schema, "fill") or None
        scaler = PublicScaler(stated(schema, "bounds"), log_columns=log, fill=fill)
        encoder = PublicEncoder(stated(schema, "categories"))
        fitted = Pipeline([("scale", scaler), ("encode", encoder), ("classify", estimator)])
        fitted.fit(
            people.X,
            people.y,
            classify__sensitive_features=people.groups,
            classify__person_ids=people.ids,
        )
    if people.positive is not None:
        fitted.positive_ = people.positive
    return fitted
