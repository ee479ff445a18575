"""Guarantees and ledgers that the tests of this room share."""

from __future__ import annotations

from pathlib import Path

from skfairdp.privacy import Block, Plan, PrivacyGuarantee, PrivacyLedger, Segment
from skfairdp.privacy.accounting.plan_cost import guarantee

VOID = PrivacyGuarantee.void("no noise was added")


def plan(sigma: float = 4.0, *, steps: int = 100, adjacency: str = "zero-out") -> Plan:
    """A training run with batches of one in fifty."""
    block = Block(name="gradient", max_norm=1.0, weights=(0.1,), noise_std=0.1 * sigma)
    segment = Segment(steps=steps, rates=(0.02,), expected_sizes=(10.0,), blocks=(block,))
    return Plan(cells=("all",), segments=(segment,), adjacency=adjacency, delta=1e-5)


def stated(sigma: float = 4.0, **changes: object) -> PrivacyGuarantee:
    return guarantee(plan(sigma, **changes))  # type: ignore[arg-type]


def pure(epsilon: float, delta: float = 0.0) -> PrivacyGuarantee:
    """A statement without an event."""
    return PrivacyGuarantee(epsilon, delta, "zero-out")


def spend(ledger: PrivacyLedger, *guarantees: PrivacyGuarantee | None) -> None:
    for item in guarantees:
        with ledger.charge(item, activity="fit", estimator="Test"):
            pass


def ledger_in(folder: Path, data_set: str = "people", **settings: object) -> PrivacyLedger:
    return PrivacyLedger(folder / "ledger.db", data_set, **settings)  # type: ignore[arg-type]
