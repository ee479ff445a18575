"""Charged part of a report: training, certificate, files; and its state if it breaks off."""

from __future__ import annotations

import argparse
import hashlib
import pickle
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from sklearn.pipeline import Pipeline

import skfairdp
from skfairdp import Certificate, FairPathClassifier, PrivacyLedger, assumptions, certify
from skfairdp.base import PrivateEstimator
from skfairdp.certificate.signing import sign_certificate
from skfairdp.command_line.files import say, write_whole
from skfairdp.command_line.schema import stated
from skfairdp.command_line.table import People
from skfairdp.exceptions import PlanError, SkfairdpError
from skfairdp.figures import as_given
from skfairdp.model_selection import fit_within
from skfairdp.preprocessing import PrivateTableEncoder, PublicEncoder, PublicScaler
from skfairdp.privacy.guarantee import PrivacyGuarantee
from skfairdp.privacy.ledger.rendering import ledger_cells
from skfairdp.privacy.ledger.totals import covered
from skfairdp.privacy.noise import NoiseSource

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

# What a path is printed at.
TOLERANCES = (0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2)


@dataclass
class ChargedReport:
    """Training on some rows, and a certificate from the others."""

    arguments: argparse.Namespace
    trained_on: People
    held_out: People
    noise: NoiseSource
    ledger: PrivacyLedger | None
    key: Ed25519PrivateKey | None
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
        # A row is trained on or held out, by its own draw: protecting the latter at the same
        # epsilon adds nothing to the cost of a record. So the run is one charge. With public
        # rows there is nothing but the training, which charges itself.
        arguments, ledger = self.arguments, self.ledger
        count_epsilon = None if arguments.held_out_is_public else arguments.epsilon
        inner = ledger if count_epsilon is None else None
        estimator = estimator_of(arguments, self.trained_on, inner)
        once = nullcontext() if ledger is None or ledger is inner else self._one_charge(estimator)
        with once as entry:
            say(arguments, f"Training {arguments.mechanism}")
            model = trained(self.trained_on, estimator)
            for step in model:  # the path of the ledger does not travel with the model
                if isinstance(step, PrivateEstimator):
                    step.set_params(ledger=None)
            content = pickle.dumps(model)
            self._write(arguments.model, content)
            say(arguments, "Certifying on the rows held out")
            # Which certificate on these people this is: each such run, and each by itself.
            others = [] if entry is None or ledger is None else ledger.entries()
            certificate = self._certificate(
                model,
                count_epsilon=count_epsilon,
                ledger=inner,
                certificate_index=entry
                and entry.ordinal + sum(other.activity == "certify" for other in others),
            )
            self._check_within(certificate.privacy)
        if arguments.model is not None:
            certificate = replace(certificate, model_file=hashlib.sha256(content).hexdigest())
        if arguments.monitor is not None:
            certificate = certificate.with_monitor(arguments.monitor)
        if arguments.certificate is not None:
            text = certificate.to_json()
            signed = text if self.key is None else sign_certificate(text, self.key)
            self._write(arguments.certificate, signed)
        named = {n: getattr(arguments, n) for n in ("epsilon", "tolerance", "template")}
        title = f"Certificate of privacy and fairness: {arguments.target}"
        asked: dict[str, Any] = named | {"title": title, "ledger": ledger}
        if arguments.card is not None:
            self._write(arguments.card, certificate.to_model_card(**asked))
        self._write(arguments.out, certificate.to_html(**asked))
        code = self._answer(certificate)
        if isinstance(model[-1], FairPathClassifier):
            print(_other_tolerances(model[-1]))
        return code

    @property
    def _unit(self) -> str:
        return "record" if self.trained_on.ids is None else "person"

    def _one_charge(self, estimator: Any) -> Any:
        drawn = assumptions.HELD_OUT_BY_DRAW
        if self._unit == "person":
            drawn = assumptions.HELD_OUT_BY_PERSON
        whole = PrivacyGuarantee(
            epsilon=self.arguments.epsilon,
            delta=self.arguments.delta,
            adjacency="zero-out",
            protects=self._unit,
            accountant="the larger of the training and the counts of held-out rows",
            assumptions=(drawn, assumptions.GROUPS_SEEN),
        )
        assert self.ledger is not None
        return self.ledger.charge(whole, activity="fit", estimator=type(estimator).__name__)

    def _certificate(self, model: Pipeline, **asked: Any) -> Certificate:
        arguments, people = self.arguments, self.held_out
        drawn = "per_record" if people.ids is None else "by_person"
        certificate = certify(
            model,
            people.X,
            pd.Series(people.y, name=arguments.target),
            sensitive_features=people.groups,
            notion=arguments.notion,
            confidence_level=arguments.confidence,
            person_ids=people.ids,
            holdout="public" if asked["count_epsilon"] is None else drawn,
            pos_label=people.positive,
            count_noise=self.noise,
            **asked,
        )
        claims = tuple(
            replace(claim, assumptions=(*claim.assumptions, people.coding))
            for claim in certificate.fairness
        )
        certificate = replace(certificate, fairness=claims)
        if certificate.privacy is None:
            return certificate
        public = [assumptions.PUBLIC_BOUNDS] * arguments.bounds_are_public
        rests_on = (*certificate.privacy.assumptions, assumptions.GROUPS_SEEN, *public)
        return replace(certificate, privacy=replace(certificate.privacy, assumptions=rests_on))

    def _check_within(self, spent: PrivacyGuarantee | None) -> None:
        """Stop where a run spent more than was charged, which no mechanism of the command does."""
        epsilon, delta = self.arguments.epsilon, self.arguments.delta
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
            say(self.arguments, f"Wrote {path}")

    def _what_was_charged(self, known: Any) -> str | None:
        epsilon, delta = as_given(self.arguments.epsilon), as_given(self.arguments.delta)
        budget = f"so count ε = {epsilon}, δ = {delta}"
        if self.ledger is None:
            return f"no ledger was named, {budget} as spent"
        try:
            entries = [entry for entry in self.ledger.entries() if entry.number not in known]
        except (SkfairdpError, OSError) as error:
            return f"the ledger could not be read ({type(error).__name__}), {budget}"
        if not entries:
            return None
        named = ("{0} ({2}, {3}: ε = {4}, δ = {5}, {7})".format(*ledger_cells(e)) for e in entries)
        return f"entry {', entry '.join(named)} of {self.ledger.path}"

    def _answer(self, certificate: Certificate) -> int:
        arguments = self.arguments
        print(certificate.sentence)
        kept = certificate.satisfies(arguments.epsilon, arguments.tolerance)
        epsilon, tolerance = as_given(arguments.epsilon), as_given(arguments.tolerance)
        shown = "Shown." if kept else "NOT shown by this certificate."
        print(f"Asked for: ε ≤ {epsilon} and differences ≤ {tolerance}. {shown}")
        if not kept and self.ledger is not None:
            print(
                "Another run is another release: the ledger adds it to what these people have "
                "spent."
            )
        if certificate.nearly_constant:
            print(
                "NEARLY CONSTANT: almost all decisions are alike, or no better than a constant one."
            )
        return 0 if kept and not certificate.nearly_constant else 1


def estimator_of(arguments: argparse.Namespace, people: People, book: PrivacyLedger | None) -> Any:
    """Make the estimator that was asked for; the two outcomes are declared."""
    name = arguments.mechanism
    shared = {
        "epsilon": arguments.epsilon,
        "delta": arguments.delta,
        "classes": list(people.outcomes),
        "progress": False if arguments.quiet else None,
        "ledger": book,
    }
    first_is_positive = people.positive == people.outcomes[0]
    if name == "fairdp":
        # The estimator's threshold is that of the second class.
        threshold = 0.5 if arguments.threshold is None else arguments.threshold
        threshold = 1.0 - threshold if first_is_positive else threshold
        return skfairdp.FairDPClassifier(threshold=threshold, **shared)
    if name == "dpsgd":
        return skfairdp.DPSGDClassifier(**shared)
    # Half of what is asked for: a certificate adds what held-out rows leave uncertain.
    shared["tolerance"] = arguments.tolerance / 2.0
    # Equal opportunity is about the second class; equalized odds are about either.
    other = {"equal_opportunity": "equalized_odds"} if first_is_positive else {}
    notions = tuple(dict.fromkeys(other.get(notion, notion) for notion in arguments.notion))
    if name == "fair-path":
        return FairPathClassifier(notion=notions[0], **shared)
    return skfairdp.RateConstrainedClassifier(notion=notions, **shared)


def trained(people: People, estimator: Any) -> Pipeline:
    """Fit an estimator behind the columns of a table; it says which outcome is positive."""
    schema = people.schema
    if schema is None:
        table = PrivateTableEncoder(encoding="onehot", ledger=estimator.ledger)
        fitted = fit_within(
            Pipeline([("table", table), ("classify", estimator)]),
            people.X,
            people.y,
            epsilon=estimator.epsilon,
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
    fitted.positive_ = people.positive
    return fitted


def _other_tolerances(model: FairPathClassifier) -> str:
    """Describe other tolerances of the same fit, at no further cost."""
    path = model.path().drop_duplicates("tolerance", keep="last")
    reached = [path[path["tolerance"] <= t].tail(1).assign(tolerance=t) for t in TOLERANCES]
    found = pd.concat(reached)[["tolerance", "gap", "gap_std", "accuracy", "accuracy_std"]]
    if found.empty:
        strictest = path.loc[path["tolerance"].idxmin()]
        return (
            f"Other tolerances: by the model's own estimate none of up to {TOLERANCES[-1]} is kept "
            "in nine fits of ten. At the strictest point of the path the gap among the rows "
            f"trained on is estimated as {strictest['gap']:.3f}, with a standard error of "
            f"{strictest['gap_std']:.3f}. The certificate's bound is about other rows, those held "
            "out, and does not depend on this estimate."
        )
    table = found.to_string(index=False, float_format="{:.3f}".format)
    return (
        "The same model at other tolerances, at no further privacy loss (estimated from its own "
        f"tables, about the rows it was trained on; not certified):\n{table}"
    )
