"""Ledger charges of a certificate, and findings that it reports to the ledger of its training."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from typing import Any

from sklearn.frozen import FrozenEstimator

from skfairdp.certificate.composition import counts_guarantee, model_privacy, sorted_steps
from skfairdp.certificate.evaluation_settings import EvaluationSettings
from skfairdp.privacy.guarantee import PrivacyGuarantee
from skfairdp.privacy.ledger import PrivacyLedger, as_ledger
from skfairdp.privacy.ledger.findings import declare_public, record_void
from skfairdp.privacy.noise import NoiseSource
from skfairdp.receipts.receipt import receipt_of
from skfairdp.receipts.unwrap import Deployed


@contextmanager
def charged(
    book: PrivacyLedger | None,
    settings: EvaluationSettings,
    source: NoiseSource | None,
    name: str,
    X: Any,
) -> Iterator[EvaluationSettings]:
    """Charge an evaluation of a model before a block, and commit after it.

    Yields settings that say how many certificates the ledger has seen, this one included. A number
    beyond those that were planned is refused and given back, as nothing was shown yet.
    """
    if book is None:
        yield settings
        return
    cost, rows = None, None if settings.private else X
    if settings.count_epsilon is not None:
        assert source is not None
        asked: dict[str, Any] = {"public_sizes": settings.public_sizes, "protects": settings.unit}
        cost = counts_guarantee(settings.parts_of_epsilon, source=source, **asked)
    entry = book.reserve(cost, activity="certify", estimator=name, public_rows=rows)
    try:
        settings.check_index(settings.certificate_index or entry.ordinal)
    except BaseException:
        book.give_back(entry)
        raise
    if settings.certificate_index is None:
        settings = dataclasses.replace(settings, certificate_index=entry.ordinal, counted=True)
    with book.finishing(entry):
        yield settings


def tell_ledgers(
    deployed: Deployed, privacy: PrivacyGuarantee | None, public_steps: Sequence[str]
) -> None:
    """Mark the totals of the ledgers that training charged where they do not hold.

    A fit charges its own cost: it does not know a step before it that learned from rows without
    noise, or of exact scores that a search has shown.
    """
    # Declarations of one fit do not hold for the steps of another. Noise makes fits
    # distinguishable; without noise, a digest would reveal rows.
    parts = (part for _, part in deployed._ours() if getattr(part, "privacy_", None) is not None)
    receipts = [receipt_of(part) for part in parts if not part.privacy_.is_void]
    noisy = [None if receipt is None else receipt.digests for receipt in receipts]
    whose = f"found about the model of the fit {blake2b(repr(noisy).encode()).hexdigest()[:16]}"
    for ledger in _ledgers(deployed.trained):
        if privacy is not None and privacy.is_void:
            # What was put into a model after its fit says nothing about what the fit has shown.
            _, declared = sorted_steps(deployed.trained.leaves(), public_steps)
            others = {*deployed.changes, *declared}
            reasons = tuple(text for text in privacy.assumptions if text not in others)
            if reasons:
                found = dataclasses.replace(privacy, assumptions=(*reasons, whose))
                record_void(ledger, found, deployed.name)
        elif public_steps:
            without = model_privacy(deployed, ())
            if without is not None and without.is_void:
                known = (*without.assumptions, whose)
                without = dataclasses.replace(without, assumptions=known)
                declare_public(ledger, without, deployed.name)


def _ledgers(deployed: Deployed) -> tuple[PrivacyLedger, ...]:
    """Ledgers of all parts, also where another estimator holds one of skfairdp."""
    parts = [*deployed.searches, *(step for _, step in deployed.leaves()), deployed.final]
    held: list[Any] = []
    for part in parts:
        given = part.get_params(deep=True) if hasattr(part, "get_params") else {}
        books = (v for name, v in given.items() if name.rpartition("__")[2] == "ledger")
        held += [as_ledger(book) for book in books if book is not None]
        # These do not show the parameters of what they hold.
        parts += [v.estimator for v in given.values() if isinstance(v, FrozenEstimator)]
    return tuple(dict.fromkeys(held))
