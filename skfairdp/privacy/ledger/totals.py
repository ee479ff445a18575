"""Totals of a ledger: compositions of what was released, one for each relation."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from skfairdp.exceptions import BudgetExceededError
from skfairdp.privacy.accounting import compose
from skfairdp.privacy.guarantee import PrivacyGuarantee
from skfairdp.privacy.relations import ADJACENCIES, check_name

__all__ = ["Budget", "covered", "totals"]

# What holds when a record is added or removed under declared sizes also holds, at the
# same cost, when it is blanked: a blank record contributes as much as an absent one. The
# other way round nothing follows, so that a mixture has a total for blanked records alone.
IMPLIED_BY = {"zero-out": ("zero-out", "add-remove")}


def covered(
    guarantees: Iterable[PrivacyGuarantee], adjacency: str, protects: str
) -> list[PrivacyGuarantee]:
    """Guarantees that say something in a relation, read in it; void ones void every one.

    Parameters
    ----------
    guarantees : iterable of PrivacyGuarantee
        Of any relations.
    adjacency, protects : str
        The relation.

    Returns
    -------
    list of PrivacyGuarantee
    """
    implying = IMPLIED_BY.get(adjacency, (adjacency,))
    return [
        dataclasses.replace(item, adjacency=adjacency, protects=protects)
        for item in guarantees
        if item.is_void or (item.adjacency in implying and item.protects == protects)
    ]


def totals(
    guarantees: Sequence[PrivacyGuarantee], *, delta: float | None = None
) -> tuple[PrivacyGuarantee, ...]:
    """Compose guarantees about the same rows, relation by relation.

    Parameters
    ----------
    guarantees : sequence of PrivacyGuarantee
        Everything that was spent.
    delta : float or None, default=None
        Delta of the totals; None takes what `compose` takes.

    Returns
    -------
    tuple of PrivacyGuarantee
        One a relation, in order of appearance; they stand side by side and have no sum.
        Empty if nothing was spent.
    """
    bounded = dict.fromkeys((g.adjacency, g.protects) for g in guarantees if not g.is_void)
    relations = bounded or dict.fromkeys((g.adjacency, g.protects) for g in guarantees[:1])
    mixed = {
        (stronger, protects)
        for adjacency, protects in relations
        for stronger in IMPLIED_BY.get(adjacency, ())
        if stronger != adjacency
    }
    return tuple(
        compose(covered(guarantees, adjacency, protects), delta=delta)
        for adjacency, protects in relations
        if (adjacency, protects) not in mixed
    )


@dataclass(frozen=True)
class Budget:
    """How much may be spent on one data set, in one relation.

    Parameters
    ----------
    epsilon : float
        Largest total privacy loss in nats, > 0.
    delta : float
        Delta of the total, in [0, 1).
    adjacency : str or None, default=None
        Relation of the total. None takes that of the first entry.
    protects : str or None, default=None
        What is protected. None takes that of the first entry.
    """

    epsilon: float
    delta: float
    adjacency: str | None = None
    protects: str | None = None

    def __post_init__(self) -> None:
        if not 0.0 < self.epsilon < math.inf or not 0.0 <= self.delta < 1.0:
            raise ValueError(
                "'budget' must be a pair (epsilon, delta) with a finite epsilon > 0 and delta in "
                f"[0, 1); got {(self.epsilon, self.delta)!r}."
            )
        if self.adjacency is not None:
            check_name("adjacency", self.adjacency, ADJACENCIES)

    def same_amount(self, other: Budget) -> bool:
        """Whether the figures agree, and the relations as far as both name one.

        Parameters
        ----------
        other : Budget
            The other one.

        Returns
        -------
        bool
        """
        named = None in (self.adjacency, other.adjacency) or self.adjacency == other.adjacency
        return (self.epsilon, self.delta) == (other.epsilon, other.delta) and named

    def for_first(self, guarantee: PrivacyGuarantee) -> Budget:
        """Return the budget in the relation of its first entry, where it named none.

        Parameters
        ----------
        guarantee : PrivacyGuarantee
            Of the entry.

        Returns
        -------
        Budget
        """
        if guarantee.is_void:
            return self
        adjacency = guarantee.adjacency if self.adjacency is None else self.adjacency
        protects = guarantee.protects if self.protects is None else self.protects
        return dataclasses.replace(self, adjacency=adjacency, protects=protects)

    def refuse(
        self, spent: Sequence[PrivacyGuarantee], new: PrivacyGuarantee, data_set: str
    ) -> None:
        """Raise unless there is room for one more release.

        Parameters
        ----------
        spent : sequence of PrivacyGuarantee
            All earlier entries, and what must still fit afterwards.
        new : PrivacyGuarantee
            What is about to be spent.
        data_set : str
            For the message.

        Raises
        ------
        BudgetExceededError
            The total would exceed the budget, nothing bounds the new release, or it
            speaks of another relation.
        """
        if new.is_void:
            raise BudgetExceededError(
                f"The budget of {self.text} for the data set {data_set!r} has no room for a "
                f"release without a guarantee: {new.assumptions[0]}"
            )
        budget = self.for_first(new)
        assert budget.adjacency is not None
        assert budget.protects is not None
        if not covered([new], budget.adjacency, budget.protects):
            raise BudgetExceededError(
                f"The budget of {self.text} for the data set {data_set!r} is about "
                f"{budget.protects!r} under {budget.adjacency!r}, but this release protects "
                f"{new.protects!r} under {new.adjacency!r}, and costs of different relations have "
                "no total. Train under the relation of the budget (sizes that are declared give "
                "'add-remove', sizes from the rows 'zero-out'), or keep another ledger."
            )
        parts = covered([*spent, new], budget.adjacency, budget.protects)
        total = self._total(parts)
        if total > self.epsilon:
            before = self._total(parts[:-1]) if len(parts) > 1 else 0.0
            raise BudgetExceededError(
                f"This release would bring the data set {data_set!r} to a total of epsilon = "
                f"{total:.4g} at delta = {self.delta:g} ({budget.adjacency}); the budget is "
                f"{self.epsilon:g}, and {before:.4g} of it is spent or set aside. Nothing was "
                "released. Spend less (a smaller epsilon), or stop here."
            )

    def _total(self, parts: Sequence[PrivacyGuarantee]) -> float:
        # Deltas of statements without an event are set aside whole.
        if sum(item.delta for item in parts if item.event is None) > self.delta:
            return math.inf
        return compose(parts, delta=self.delta).epsilon

    @property
    def text(self) -> str:
        """The figures in words."""
        return f"epsilon = {self.epsilon:g}, delta = {self.delta:g}"
