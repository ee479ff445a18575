"""Findings about a model after its fit that make the totals of its ledger untrue."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from skfairdp.privacy.guarantee import PrivacyGuarantee
from skfairdp.privacy.ledger.ledger import PrivacyLedger
from skfairdp.privacy.ledger.records import COMMITTED, DECLARED, VOIDED, Entry, charges
from skfairdp.privacy.ledger.store import reading, writing

Choice = Callable[[tuple[Entry, ...]], Iterable[PrivacyGuarantee]]


def record_void(ledger: PrivacyLedger, found: PrivacyGuarantee, model: str) -> None:
    """Record that a model has no guarantee, although its fit charged a figure.

    Every total is infinite from then on. A reason that is known already is not written again;
    without a file, there is no total that could be untrue. `found`: void, with its reasons.
    """

    def unknown(entries: tuple[Entry, ...]) -> list[PrivacyGuarantee]:
        voids = [stated for _, stated in charges(entries) if stated.is_void]
        known = {text for stated in voids for text in stated.assumptions}
        return [] if known.issuperset(found.assumptions) else [found]

    _note(ledger, VOIDED, unknown, model)


def declare_public(ledger: PrivacyLedger, without: PrivacyGuarantee, model: str) -> None:
    """Remove the record about a model whose steps are declared public now.

    `without`: what is found about the model without the declaration, which is an assumption like
    any other: the entry that it makes says so.
    """

    def standing(entries: tuple[Entry, ...]) -> list[PrivacyGuarantee]:
        return [
            stated
            for entry, stated in charges(entries)
            if (entry.activity, entry.estimator) == (VOIDED, model)
            and set(without.assumptions).issuperset(stated.assumptions)
        ]

    _note(ledger, DECLARED, standing, model)


def _note(ledger: PrivacyLedger, activity: str, choose: Choice, model: str) -> None:
    with reading(ledger.path) as store:  # mostly there is nothing to write, nor a right to
        if not choose(store.entries(ledger.data_set)):
            return
    if not ledger.path.exists():
        return
    with writing(ledger.path, new=False) as store:
        for found in choose(store.entries(ledger.data_set)):
            entry = store.reserve(ledger.data_set, activity, model, found)
            store.end(entry, COMMITTED)
