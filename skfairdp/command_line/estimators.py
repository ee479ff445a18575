"""Estimators that a report trains."""

from __future__ import annotations

import math
from typing import Any

import skfairdp
from skfairdp import PrivacyLedger
from skfairdp.command_line.request import Request
from skfairdp.command_line.table import People
from skfairdp.records.identifier_names import looks_like_an_identifier

# Steps after which more passes over this number of rows only cost time.
_MOST_STEPS = 2_000


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
