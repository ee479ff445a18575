"""Totals of a ledger: compositions of its releases, one for each relation."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from skfairdp.exceptions import BudgetExceededError
from skfairdp.foundation.figures import as_given, significant_up
from skfairdp.privacy.accounting.plan_cost import compose
from skfairdp.privacy.guarantee import PrivacyGuarantee
from skfairdp.privacy.ledger.filter import filtered_epsilon
from skfairdp.privacy.relations import IMPLIED, NEIGHBOURS, PROTECTED, PROTECTS, check_name

FIXED = (
    "a total of several charges holds where no plan was chosen by looking at earlier releases; a "
    "budget holds in either case"
)


def covered(
    guarantees: Iterable[PrivacyGuarantee], adjacency: str, protects: str
) -> list[PrivacyGuarantee]:
    """Read guarantees in one relation, in order; one that says nothing there is void, and why."""
    read = (_implied(item, adjacency, protects) for item in guarantees)
    return [dataclasses.replace(item, adjacency=adjacency, protects=protects) for item in read]


def _implied(item: PrivacyGuarantee, adjacency: str, protects: str) -> PrivacyGuarantee:
    """Guarantee that another one implies in a relation, or a void one."""
    if item.is_void or (item.adjacency, item.protects) == (adjacency, protects):
        return item
    how = IMPLIED.get(((item.adjacency, item.protects), (adjacency, protects)))
    if how == "event":
        return item
    if how == "twice":
        delta = item.delta * (1.0 + math.exp(min(item.epsilon, 700.0)))
        if delta < 1.0:
            bare = dataclasses.replace(item, event=None, per_group=None, exposures=())
            return dataclasses.replace(bare, epsilon=2.0 * item.epsilon, delta=delta)
    if how == "figures":
        return dataclasses.replace(item, event=None, exposures=())
    return PrivacyGuarantee.void(
        f"what protects {PROTECTS[item.protects]} ({item.adjacency}) does not bound what is shown "
        f"of {PROTECTS[protects]} ({adjacency})"
    )


def totals(
    guarantees: Sequence[PrivacyGuarantee], *, delta: float | None = None
) -> tuple[PrivacyGuarantee, ...]:
    """Compose guarantees about the same rows, relation by relation.

    `delta`: see `compose`. Result: one a relation, in order of appearance; they stand side by side
    and have no sum. Each counts everything: void, with the reasons, if one release has no bound in
    its relation.
    """
    bounded = dict.fromkeys((g.adjacency, g.protects) for g in guarantees if not g.is_void)
    relations = bounded or dict.fromkeys((g.adjacency, g.protects) for g in guarantees[:1])
    # A mixture of removed and blanked records has a total for blanked ones alone.
    return tuple(
        _total(covered(guarantees, *relation), delta)
        for relation in relations
        if not any(IMPLIED.get((relation, other)) == "event" for other in relations)
    )


def _total(parts: list[PrivacyGuarantee], delta: float | None) -> PrivacyGuarantee:
    if any(item.is_void for item in parts):
        reasons, first = dict.fromkeys(p.assumptions[0] for p in parts if p.is_void), parts[0]
        return PrivacyGuarantee.void(*reasons, adjacency=first.adjacency, protects=first.protects)
    total = compose(parts, delta=delta)
    if len(parts) < 2:
        return total
    return dataclasses.replace(total, assumptions=(FIXED, *total.assumptions))


NO_BUDGET = (
    "'budget' must be a pair (epsilon, delta) of numbers, a finite epsilon > 0 and delta in "
    "[0, 1), such as (2.0, 1e-6); got {}."
)


@dataclass(frozen=True)
class Budget:
    """Limit on the total cost for one data set, in one relation."""

    epsilon: float  # Largest total privacy loss in nats, > 0
    delta: float  # Delta of the total, in [0, 1)
    adjacency: str | None = None  # Relation of the total. None takes that of the first entry
    protects: str | None = None  # What is protected. None takes that of the first entry

    def __post_init__(self) -> None:
        if not 0.0 < self.epsilon < math.inf or not 0.0 <= self.delta < 1.0:
            raise ValueError(NO_BUDGET.format((self.epsilon, self.delta)))
        if self.adjacency is not None:
            check_name("adjacency", self.adjacency, NEIGHBOURS)
        if self.protects is not None:
            check_name("protects", self.protects, PROTECTED)

    def same_amount(self, other: Budget) -> bool:
        """Whether the figures agree, and the relations as far as both name one."""
        named = None in (self.adjacency, other.adjacency) or self.adjacency == other.adjacency
        return (self.epsilon, self.delta) == (other.epsilon, other.delta) and named

    def for_first(self, *planned: PrivacyGuarantee) -> Budget:
        """Return the budget in the first relation that all entries bound, where it named none."""
        bounded = [item for item in planned if not item.is_void]
        if not bounded:
            return self
        read = [covered(bounded, item.adjacency, item.protects) for item in bounded]
        guarantee = next((p[0] for p in read if not any(i.is_void for i in p)), bounded[0])
        adjacency = guarantee.adjacency if self.adjacency is None else self.adjacency
        protects = guarantee.protects if self.protects is None else self.protects
        return dataclasses.replace(self, adjacency=adjacency, protects=protects)

    def refuse(
        self, spent: Sequence[PrivacyGuarantee], planned: Sequence[PrivacyGuarantee], data_set: str
    ) -> None:
        """Raise unless there is room for releases that were planned together."""
        name = f"The budget of {self.text} for the data set {data_set!r}"
        if (void := next((item for item in planned if item.is_void), None)) is not None:
            raise BudgetExceededError(
                f"{name} has no room for a release without a guarantee: {void.assumptions[0]}"
            )
        budget = self.for_first(*planned)
        assert budget.adjacency is not None
        assert budget.protects is not None
        relation = budget.adjacency, budget.protects
        parts = covered([*spent, *planned], *relation)
        read = zip(planned, parts[len(spent) :], strict=True)
        if (new := next((item for item, part in read if part.is_void), None)) is not None:
            raise BudgetExceededError(
                f"{name} is about {budget.protects!r} under {budget.adjacency!r}, but this release "
                f"protects {new.protects!r} under {new.adjacency!r}, and costs of different "
                "relations have no total. Train under the relation of the budget (sizes that are "
                "declared give 'add-remove', sizes from the rows 'zero-out'), or keep another "
                "ledger."
            )
        lost = next((item for item in parts if item.is_void), None)
        if lost is not None:
            raise BudgetExceededError(
                f"{name} cannot be kept any more ({budget.protects} under {budget.adjacency}): "
                f"{lost.assumptions[0]}. Nothing was released."
            )
        # What was fixed beforehand comes first: without earlier entries, that is all of this, and
        # its losses compose. Where more is chosen later, the filter counts each part: if it keeps
        # to the budget in one run, so do these parts in every run.
        limits = self.epsilon, self.delta, budget.adjacency
        total = filtered_epsilon(parts if spent else [compose(parts)], *limits)
        if total <= self.epsilon:
            return
        used = filtered_epsilon(parts[: len(spent)], *limits) if spent else 0.0
        of = f"{significant_up(min(used, self.epsilon), 4)} of {as_given(self.epsilon)}"
        if math.isinf(total):
            earlier = math.fsum(item.delta for item in parts[: len(spent)])
            asked = math.fsum(item.delta for item in parts[len(spent) :])
            raise BudgetExceededError(
                f"{name} has too little delta left: this release states delta = "
                f"{significant_up(asked)}, earlier ones {significant_up(earlier)}. A first release "
                "may take all of the budget's delta; later ones, together with it, half (a "
                "statement whose loss is not composed as noise is charged its whole delta). Of "
                f"epsilon {of} is spent. Nothing was released. Ask for a smaller delta, or give "
                "the next data set's ledger a budget with more delta."
            )
        raise BudgetExceededError(
            f"This release would bring the data set {data_set!r} to a total of epsilon = "
            f"{significant_up(total, 4)} at delta = {as_given(self.delta)} "
            f"({budget.adjacency}); the budget is "
            f"{as_given(self.epsilon)}, and {significant_up(min(used, self.epsilon), 4)} of "
            "it is spent (counted so that it holds for plans chosen by looking at earlier "
            "releases). Nothing was released. Spend less (a smaller epsilon), or stop here."
        )

    @property
    def text(self) -> str:
        return f"epsilon = {as_given(self.epsilon)}, delta = {as_given(self.delta)}"
