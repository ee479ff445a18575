"""Rest of a ledger's budget after a future release."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from skfairdp.exceptions import BudgetExceededError
from skfairdp.privacy.guarantee import PrivacyGuarantee
from skfairdp.privacy.ledger import as_ledger
from skfairdp.privacy.ledger.totals import totals


@dataclass(frozen=True)
class LedgerRoom:
    """Totals of a ledger before and after releases that are not made yet.

    Parameters
    ----------
    data_set : str
        Name of the data set in the ledger.
    budget : tuple of float or None
        Epsilon and delta of its budget; None where there is none.
    before, after : tuple of PrivacyGuarantee
        Totals, one a relation, without and with the releases.
    refusal : str or None
        Why the ledger would refuse them; None where it would not.
    """

    data_set: str
    budget: tuple[float, float] | None
    before: tuple[PrivacyGuarantee, ...]
    after: tuple[PrivacyGuarantee, ...]
    refusal: str | None

    @property
    def left(self) -> float | None:
        """Epsilon of the budget less the largest total after the releases; None without budget."""
        if self.budget is None:
            return None
        spent = max((total.epsilon for total in self.after), default=0.0)
        return max(0.0, self.budget[0] - spent)


def room_after(ledger: Any, planned: Sequence[PrivacyGuarantee]) -> LedgerRoom | None:
    """Read the rest of a ledger's budget after releases, without writing. None without a ledger."""
    book = as_ledger(ledger)
    if book is None:
        return None
    budget, spent = book.budget_and_promises()
    refusal = None
    if budget is not None and planned:
        try:
            budget.for_first(*spent).refuse(spent, list(planned), book.data_set)
        except BudgetExceededError as error:
            refusal = str(error)
    figures = None if budget is None else (budget.epsilon, budget.delta)
    delta = None if budget is None else budget.delta
    return LedgerRoom(
        data_set=book.data_set,
        budget=figures,
        before=_totals(spent, delta),
        after=_totals([*spent, *planned], delta),
        refusal=refusal,
    )


def _totals(
    guarantees: Sequence[PrivacyGuarantee], delta: float | None
) -> tuple[PrivacyGuarantee, ...]:
    try:
        return totals(guarantees, delta=delta)
    except ValueError:  # deltas that are set aside exceed that of the budget
        return totals(guarantees)
