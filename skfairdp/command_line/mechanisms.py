"""Which estimators the command line can train, by name."""

from __future__ import annotations

import argparse
from typing import Any

import skfairdp  # which imports an estimator when it is asked for
from skfairdp.command_line.errors import CommandError

# Rows times epsilon from which the noise in the tables of a path is small beside usual tolerances.
ENOUGH_FOR_TABLES = 10_000
# What is taken for one notion, what for several or for fewer rows, and the others.
MECHANISMS = ("fair-path", "rates", "fairdp", "dpsgd")


def estimator_of(arguments: argparse.Namespace, ledger: skfairdp.PrivacyLedger | None) -> Any:
    """Make the estimator that was asked for; outcomes are 0 and 1 by declaration."""
    name, threshold = arguments.mechanism, arguments.threshold
    if len(arguments.notion) > 1 and name == "fair-path":
        raise CommandError("--mechanism fair-path takes one --notion; for several take rates.")
    if threshold is not None and name != "fairdp":
        raise CommandError(
            f"--threshold has no meaning for --mechanism {name}; leave it out, or take fairdp."
        )
    shared = {
        "epsilon": arguments.epsilon,
        "delta": arguments.delta,
        "classes": [0, 1],
        "progress": False if arguments.quiet else None,
        "ledger": ledger,
    }
    if name == "fairdp":
        return skfairdp.FairDPClassifier(
            threshold=0.5 if threshold is None else threshold, **shared
        )
    if name == "dpsgd":
        return skfairdp.DPSGDClassifier(**shared)
    # Half of what is asked for: a certificate adds what held-out rows leave uncertain.
    shared["tolerance"] = arguments.tolerance / 2.0
    if name == "fair-path":
        return skfairdp.FairPathClassifier(notion=arguments.notion[0], **shared)
    return skfairdp.RateConstrainedClassifier(notion=tuple(arguments.notion), **shared)
