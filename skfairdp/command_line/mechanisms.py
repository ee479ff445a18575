"""Which estimators the command line can train, by name."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

import skfairdp  # which imports an estimator when it is asked for
from skfairdp.command_line.errors import CommandError

if TYPE_CHECKING:
    from skfairdp.command_line.table import People

# Rows times epsilon from which the noise in the tables of a path is small beside usual tolerances.
ENOUGH_FOR_TABLES = 10_000
# What is taken for one notion, what for several or for fewer rows, and the others.
MECHANISMS = ("fair-path", "rates", "fairdp", "dpsgd")


def enough_for_a_path(n_rows: int, epsilon: float) -> bool:
    """Whether the tables of a path are of use."""
    return n_rows * epsilon >= ENOUGH_FOR_TABLES


def choose_mechanism(arguments: argparse.Namespace) -> None:
    """Take the usual mechanism where none is named, and refuse options that it has not."""
    several = len(arguments.notion) > 1
    name = arguments.mechanism = arguments.mechanism or MECHANISMS[several]
    if several and name == "fair-path":
        raise CommandError("--mechanism fair-path takes one --notion; for several take rates.")
    if arguments.threshold is not None and name != "fairdp":
        raise CommandError(
            f"--threshold has no meaning for --mechanism {name}; leave it out, or take fairdp."
        )


def estimator_of(
    arguments: argparse.Namespace, people: People, ledger: skfairdp.PrivacyLedger | None
) -> Any:
    """Make the estimator that was asked for; the two outcomes are declared."""
    name = arguments.mechanism
    shared = {
        "epsilon": arguments.epsilon,
        "delta": arguments.delta,
        "classes": list(people.outcomes),
        "progress": False if arguments.quiet else None,
        "ledger": ledger,
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
        return skfairdp.FairPathClassifier(notion=notions[0], **shared)
    return skfairdp.RateConstrainedClassifier(notion=notions, **shared)
