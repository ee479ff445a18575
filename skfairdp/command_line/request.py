"""Options of ``report`` as one value, and the estimators that they ask for."""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import skfairdp
from skfairdp.certificate.evaluation_settings import parts_of_epsilon
from skfairdp.command_line.errors import CommandError
from skfairdp.command_line.parsing import MECHANISMS
from skfairdp.records.identifier_names import looks_like_an_identifier
from skfairdp.records.numbers import INTERVAL

if TYPE_CHECKING:
    from skfairdp import PrivacyLedger
    from skfairdp.command_line.table import People

# Largest difference of rates that is asked for where nobody says another one.
TOLERANCE = 0.05
# Steps after which more passes over this number of rows only cost time.
_MOST_STEPS = 2_000


@dataclass(frozen=True)
class Request:
    """Options of a report, checked against each other; no file has been looked at."""

    data: Path
    target: str
    sensitive: tuple[str, ...]
    epsilon: float
    tolerance: float
    tolerance_is_named: bool  # by --tolerance, or by --ratio
    ratio: float | None
    delta: float
    positive: str | None
    numeric: tuple[float, float] | None  # public bounds of a target that is a number
    person_ids: str | None
    check_ids: bool
    header: bool
    drop: tuple[str, ...]
    keep: tuple[str, ...]
    features: tuple[str, ...]
    merge: tuple[tuple[str, tuple[str, ...]], ...]  # a new name, and the values that get it
    leave_out: tuple[str, ...]
    skip_blank: bool
    dates: str | None  # order of dates such as 3/4/2026
    schema: Path | None
    bounds_are_public: bool
    base_rate: float | None
    mechanism: str  # that of `MECHANISMS` which was named, or the usual one
    mechanism_is_named: bool
    threshold: float | None
    notion: tuple[str, ...]
    held_out: float
    held_out_is_public: bool
    scores: bool
    confidence: float
    ledger: Path | None
    no_ledger: bool
    new_ledger_key: bool
    data_set: str | None
    budget: tuple[float, float] | None
    certificate: Path | None
    monitor: Path | None
    card: Path | None
    registry: Path | None
    about: Path | None
    template: str
    model: Path | None
    sign: Path | None
    out: Path
    plan: bool
    anyway: bool
    quiet: bool

    @classmethod
    def of(cls, arguments: argparse.Namespace) -> Self:
        """Take the options of ``report``, with the usual mechanism where none is named."""
        given: dict[str, Any] = vars(arguments)
        notion = tuple(given["notion"] or ["demographic_parity"])
        several = len(notion) > 1
        found = {"notion": notion, "mechanism": given["mechanism"] or MECHANISMS[several]}
        found |= {"mechanism_is_named": given["mechanism"] is not None}
        if given["ratio"] is not None and given["tolerance"] is not None:
            raise CommandError(
                "--ratio with --base-rate sets the tolerance: leave out --tolerance, or both."
            )
        found["tolerance"] = TOLERANCE if given["tolerance"] is None else given["tolerance"]
        found["tolerance_is_named"] = given["tolerance"] is not None or given["ratio"] is not None
        if given["ratio"] is not None and given["base_rate"] is not None:
            # Whatever group has the highest rate, it is at least that of all people together.
            # Rounded, since (1 - .8) * .78 is .15599999999999997 in floats.
            found["tolerance"] = round((1.0 - given["ratio"]) * given["base_rate"], 12)
        values = {**given, **found}
        chosen: dict[str, Any] = {each.name: values[each.name] for each in fields(cls)}
        chosen |= {k: tuple(v) for k, v in chosen.items() if isinstance(v, list)}
        return cls(**chosen)

    def __post_init__(self) -> None:
        if len(self.notion) > 1 and self.mechanism == "fair-path":
            raise CommandError("--mechanism fair-path takes one --notion; for several take rates.")
        if self.numeric is not None:
            self._check_numeric()
        if self.threshold is not None and self.mechanism == "dpsgd":
            raise CommandError(
                "--threshold has no meaning for --mechanism dpsgd; leave out one or the other."
            )
        for option, names in (("--sensitive", self.sensitive), ("--notion", self.notion)):
            twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
            if twice:
                raise CommandError(f"{option} names {twice[0]!r} twice; give each once.")
        if self.sign is not None and self.certificate is None:
            raise CommandError("--sign signs the certificate; say by --certificate where it goes.")
        if self.no_ledger and (self.ledger, self.budget, self.data_set) != (None, None, None):
            raise CommandError(
                "--no-ledger contradicts --ledger, --budget and --data-set, which are about one."
            )
        if self.new_ledger_key and (self.ledger is None or self.data_set is None):
            raise CommandError(
                "--new-ledger-key needs --ledger, the ledger whose key is lost, and --data-set, "
                "the name in it that this run is added to: it no longer recognises its people."
            )
        if self.features and self.drop:
            raise CommandError("--features names all features: leave --drop out, or --features.")
        if self.ratio is not None and self.base_rate is None:
            raise CommandError(
                "--ratio needs --base-rate, the publicly known share of people with the favourable "
                "outcome: a ratio of .8 at a share of .5 allows a difference of .1, at .1 of .02."
            )
        if self.ratio is not None and self.notion != ("demographic_parity",):
            raise CommandError("--ratio compares selection rates: leave --notion out.")
        if self.about is not None and self.registry is None and self.template == "plain":
            raise CommandError(
                "--about answers the questions of a registry entry or a template: name one by "
                "--registry or --template."
            )

    def _check_numeric(self) -> None:
        """Refuse options that are about outcomes and not about numbers."""
        if not INTERVAL.accepts(self.numeric):
            raise CommandError(f"--numeric needs {INTERVAL.describe()}, given as --numeric 0 100.")
        of_outcomes = {
            "--positive": self.positive,
            "--ratio": self.ratio,
            "--base-rate": self.base_rate,
            "--scores": self.scores or None,
            "--threshold": self.threshold,
            "--mechanism": self.mechanism if self.mechanism_is_named else None,
        }
        named = [option for option, value in of_outcomes.items() if value is not None]
        if self.notion != ("demographic_parity",):
            named.append("--notion")
        if named:
            raise CommandError(
                f"--numeric contradicts {' and '.join(named)}: predictions are numbers, and their "
                "distributions are compared between groups. Leave out one or the other."
            )

    def by(self, mechanism: str) -> Self:
        """Return the request with another mechanism."""
        return replace(self, mechanism=mechanism)

    @property
    def count_epsilon(self) -> float | None:
        """Epsilon of the counts of held-out rows; None where these rows are public."""
        return None if self.held_out_is_public else self.epsilon

    @property
    def answers_epsilon(self) -> float | None:
        """Epsilon of the counts that the bound is computed from; None where they are exact."""
        whole = self.count_epsilon
        return None if whole is None else parts_of_epsilon(whole, scores=self.scores)[0]

    @property
    def inputs(self) -> dict[str, Path | None]:
        """Files that are read, by option."""
        named = ("schema", "ledger", "sign", "about")
        return {"data": self.data} | {f"--{name}": getattr(self, name) for name in named}

    @property
    def outputs(self) -> dict[str, Path | None]:
        """Files that are written, by option."""
        named = ("out", "certificate", "model", "card", "registry")
        return {f"--{name}": getattr(self, name) for name in named}


def estimator_of(
    request: Request, people: People, tolerance: float, book: PrivacyLedger | None
) -> Any:
    """Make the estimator that was asked for; the outcomes are declared.

    `tolerance`: of the rows trained on; a certificate adds what held-out rows leave uncertain.
    """
    name = request.mechanism
    shared: dict[str, Any] = {
        "epsilon": request.epsilon,
        "delta": request.delta,
        "classes": list(people.outcomes),
        "progress": False if request.quiet else None,
        "ledger": book,
    }
    if request.numeric is not None:
        del shared["classes"]
        return skfairdp.FairPathRegressor(
            target_bounds=request.numeric, tolerance=tolerance, **shared
        )
    first_is_positive = len(people.outcomes) == 2 and people.positive == people.outcomes[0]
    if request.threshold is not None:
        # The estimators' threshold is that of the second class.
        shared["threshold"] = 1.0 - request.threshold if first_is_positive else request.threshold
    if name == "fairdp":
        return skfairdp.FairDPClassifier(**shared)
    if name == "dpsgd":
        return skfairdp.DPSGDClassifier(**shared)
    shared["tolerance"] = tolerance
    # Equal opportunity is about the second class; equalized odds are about either.
    other = {"equal_opportunity": "equalized_odds"} if first_is_positive else {}
    notions = tuple(dict.fromkeys(other.get(notion, notion) for notion in request.notion))
    if name == "fair-path":
        path = skfairdp.FairPathClassifier(notion=notions[0], **shared)
        n = people.persons.count
        epochs = math.ceil(_MOST_STEPS * path._batch_size(n) / n)
        return path.set_params(max_epochs=min(path.max_epochs, epochs))
    return skfairdp.RateConstrainedClassifier(notion=notions, **shared)


def encoder_of(people: People, book: PrivacyLedger | None) -> skfairdp.PrivateTableEncoder:
    """Make the encoder of columns of which not everything is declared."""
    # A user who keeps a column with the name of an identifier has said that it is not one.
    kept = {name: "any" for name in people.learned if looks_like_an_identifier(name)}
    return skfairdp.PrivateTableEncoder(
        encoding="onehot", columns=(people.declared | kept) or None, ledger=book
    )
