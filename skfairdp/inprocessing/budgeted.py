"""Estimators whose noise follows from a budget, or is given instead."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar

from skfairdp.base import Calibrated, PrivateClassifier, PrivatePredictor
from skfairdp.exceptions import PrivacyWarning, warn_of_weak_fit, warn_user
from skfairdp.foundation.assumptions import of_attribute, of_training, seed_known
from skfairdp.foundation.parameters import NOISE_MULTIPLIER, NONE
from skfairdp.privacy.accounting.calibration import noise_multiplier_for
from skfairdp.privacy.accounting.plan_cost import budget_guarantee, guarantee
from skfairdp.privacy.guarantee import PrivacyGuarantee
from skfairdp.privacy.noise import NoiseSource, noise_text
from skfairdp.privacy.plan import Plan
from skfairdp.privacy.relations import PROTECTS
from skfairdp.privacy.sizes import Sizes, check_delta
from skfairdp.receipts import Charge, Quote, RowFacts
from skfairdp.receipts.quoted import NOISELESS, WEAK
from skfairdp.records.groups import Groups

if TYPE_CHECKING:
    from skfairdp.engine.processes import Processes

ATTRIBUTE = "sensitive_features"  # what is protected where features and labels are public


def refuse_price(
    epsilon: float | None, price: float, said: str, cure: str = "set it lower"
) -> None:
    """Refuse a price that uses up the budget."""
    if epsilon is not None and price >= epsilon:
        raise ValueError(f"{said} uses up 'epsilon' = {epsilon:g} before training; {cure}.")


class BudgetedPredictor(Calibrated, PrivatePredictor):
    """Template of an estimator with one plan, for a budget or for a noise multiplier.

    Parameters
    ----------
    epsilon : float or None
        Privacy budget in nats, at least 1e-4; the noise is calibrated to it. Infinity
        trains without noise, for comparison. None when `noise_multiplier` is given.
    dataset_size : int or None
        Declared number of records; makes the guarantee one for adding or removing
        a record. None takes the number of rows, which is then public
        ("zero-out" adjacency).

    Attributes
    ----------
    noise_multiplier_ : float
        Calibrated noise multiplier.
    plan_ : Plan
        Everything the accountant charged.
    """

    epsilon: float | None = 1.0
    delta: float = 1e-6
    noise_multiplier: float | None = None
    dataset_size: int | None = None

    _parameters = {"noise_multiplier": (NOISE_MULTIPLIER, NONE)}

    _views: ClassVar[tuple[str, ...]] = ("groups_", "noise_multiplier_", "plan_", "privacy_")

    def _plan(self, sizes: Sizes, noise_multiplier: float) -> Plan:
        raise NotImplementedError

    def _also_assumed(self) -> tuple[str, ...]:
        """Further assumptions of the guarantee."""
        return ()

    def _assumed_at_last(self) -> tuple[str, ...]:
        """Last assumptions, also stated for a void guarantee."""
        return ()

    def _check_settings(self) -> None:
        """Check parameters that depend on each other, beyond the parameter table."""
        if (self.epsilon is None) == (self.noise_multiplier is None):
            raise ValueError(
                "Set either 'epsilon' (the noise is calibrated) or 'noise_multiplier' with "
                f"epsilon=None; got epsilon={self.epsilon!r} and "
                f"noise_multiplier={self.noise_multiplier!r}."
            )

    def _buys(self, groups: Groups | None) -> bool:
        """Whether sizes are bought under noise before the plan is made."""
        return False

    def _sizes(self, groups: Groups | None, n: int, noise: NoiseSource) -> Sizes:
        return Sizes.of_all(n, self.dataset_size)

    def _bought_sizes(self, groups: Groups | None, noise: NoiseSource) -> Sizes:
        raise NotImplementedError

    def _priced(self, facts: RowFacts, noise: NoiseSource) -> Quote:
        if self._buys(facts.groups):
            price = budget_guarantee(
                self.epsilon, self.delta, reproducible=noise.reproducible, protects=facts.unit
            )
            bought = float(getattr(self, "group_sizes_epsilon", None) or 0.0)
            name = type(self).__name__
            return Quote(name, facts, price, charge=price or NOISELESS, bought=bought)
        return self._priced_for(facts, noise)

    def _priced_for(self, facts: RowFacts, noise: NoiseSource, sizes: Sizes | None = None) -> Quote:
        """Price a fit for bought sizes; None: for those that are declared, or read off the rows."""
        sizes, multiplier, plan = self._planned(facts, noise, sizes)
        plan.check_exact_noise(0)  # the size of the net is known to a fit alone
        stated = self._guarantee(plan, noise, facts)
        return Quote(
            type(self).__name__,
            facts,
            stated,
            plan,
            multiplier,
            charge=stated or NOISELESS,
            bought=sizes.prior_epsilon,
            crowd=float(sizes.total),
            sizes=sizes,
        )

    def _settled(
        self,
        facts: RowFacts,
        noise: NoiseSource,
        charge: Charge,
        processes: Processes | None = None,
    ) -> Quote:
        """Price a fit, and buy its sizes, once they are charged, where it buys them.

        `processes`: those that fit the model together; the sizes of the first are those of all.
        """
        quote = self._priced(facts, noise)
        if quote.plan is None:
            charge(quote.charge)  # for the whole fit, as its plan is made from what is bought
            bought = self._bought_sizes(facts.groups, noise)
            if processes is not None:
                bought = processes.first(bought)
            quote = self._priced_for(facts, noise, bought)
        verdict = quote.verdict  # of the plan, so of public sizes
        if verdict is not None and verdict.level in WEAK:
            warn_of_weak_fit(verdict.text)
        return quote

    def _planned(
        self, facts: RowFacts, noise: NoiseSource, bought: Sizes | None
    ) -> tuple[Sizes, float, Plan]:
        """Sizes, noise multiplier and plan of a fit, for sizes that it can protect."""
        sizes = self._sizes(facts.groups, facts.n, noise) if bought is None else bought
        n_groups = None if facts.groups is None else len(facts.groups.labels)
        sizes = replace(sizes, n_groups=n_groups, n_classes=facts.n_classes)
        given, price = self.noise_multiplier, sizes.prior_epsilon
        free = self.epsilon == math.inf  # a run without noise, for comparison
        check_delta(self.delta, sizes.total)
        if isinstance(given, Mapping):
            # Stated in `noise_multiplier_` alone; the plan takes, and checks, each group's own.
            numbers = (v for v in given.values() if isinstance(v, Real))
            multiplier = max(map(float, numbers), default=0.0)
        elif given is not None:
            multiplier = float(given)
        elif free:
            warn_user("epsilon=inf trains without noise: nothing is protected.", PrivacyWarning)
            multiplier = 0.0
        else:
            assert self.epsilon is not None  # checked with the settings
            if price:
                refuse_price(self.epsilon, price, f"'group_sizes_epsilon' = {price:g}")
            multiplier = noise_multiplier_for(
                self.epsilon - price, self.delta, lambda sigma: self._plan(sizes, sigma)
            )
        plan = self._plan(sizes, multiplier)
        if free:  # the tables of a run without noise have none either
            plan = replace(plan, counts=tuple(replace(t, epsilon=math.inf) for t in plan.counts))
        sizes.check(plan, delta=self.delta, exact_noise=getattr(self, "exact_noise", True))
        return sizes, multiplier, plan

    def _guarantee(
        self, plan: Plan, noise: NoiseSource, facts: RowFacts
    ) -> PrivacyGuarantee | None:
        unit, also, last = facts.unit, self._also_assumed(), self._assumed_at_last()
        if plan.noiseless:
            return None
        named = any(getattr(self, n, None) is not None for n in ("group_sizes", "groups"))
        said = noise_text(noise, exact=plan.exact_noise, laplace=bool(plan.sums))
        if noise.reproducible:
            relation = plan.adjacency if unit == ATTRIBUTE else "zero-out"
            stated = PrivacyGuarantee.void(seed_known(), adjacency=relation, protects=unit)
        else:
            if unit == ATTRIBUTE:
                assumed = of_attribute(PROTECTS[unit], said, groups=named, also=also)
            else:
                assumed = of_training(
                    said,
                    # None for a regressor
                    labels=None if not hasattr(self, "classes") else self.classes is not None,
                    groups=None if facts.groups is None else named,
                    also=also,
                    persons=unit == "person",
                )
            budget = self.epsilon if self.noise_multiplier is None else None
            stated = guarantee(plan, protects=unit, budget=budget, assumptions=assumed)
        return replace(stated, assumptions=(*stated.assumptions, *last)) if last else stated


class BudgetedClassifier(PrivateClassifier, BudgetedPredictor):
    """Template of a classifier with one plan, for a budget or for a noise multiplier."""

    classes: Sequence[Any] | None = None
