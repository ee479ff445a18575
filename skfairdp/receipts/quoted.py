"""Result of `quote`: cost and guarantee of a future fit."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from skfairdp.foundation.figures import as_given, significant_up
from skfairdp.privacy.guarantee import PrivacyGuarantee
from skfairdp.privacy.plan import Plan
from skfairdp.privacy.relations import ADJACENCIES, PROTECTS
from skfairdp.privacy.sizes import Sizes
from skfairdp.receipts.rendering import html_page, text_table
from skfairdp.receipts.room import LedgerRoom, room_after
from skfairdp.receipts.verdict import Verdict, verdict_on
from skfairdp.records.facts import RowFacts

# What a ledger is charged for a fit that protects nothing.
NOISELESS = PrivacyGuarantee.void("a fit without noise (epsilon=inf)")


@dataclass(frozen=True)
class PlannedRelease:
    """One kind of noisy release of a plan.

    Parameters
    ----------
    name : str
        What is released.
    times : int
        How often.
    noise : {"Gaussian", "discrete Gaussian", "Laplace", "discrete Laplace"}
        Law of the noise.
    noise_std : float
        Standard deviation of the noise on one released number, in the units of the release.
    of_a_record : float
        Most that one record changes the release, in the same units: in L2 norm for Gaussian
        noise, in L1 norm for Laplace noise.
    multiplier : float
        Noise multiplier (Gaussian), or epsilon of one release (Laplace).
    expected_records : float
        Expected records in one release; 0 where the plan does not know it.
    """

    name: str
    times: int
    noise: str
    noise_std: float
    of_a_record: float
    multiplier: float
    expected_records: float


@dataclass(frozen=True, eq=False)
class Quote:
    """Cost and promise of a fit that is not made yet, from public facts alone.

    Parameters
    ----------
    estimator : str
        Name of the estimator.
    facts : RowFacts or None
        What was said of the rows; None in the receipt of a fit, which keeps no private number.
    privacy : PrivacyGuarantee or None
        What the fit will promise; None without noise. Where sizes are bought, the budget.
    plan : Plan or None
        Everything that the fit releases; None where it is made from an answer that is bought
        first, or where the mechanism has no plan.
    noise_multiplier : float or None
        Calibrated noise multiplier, for mechanisms that have one.
    charge : PrivacyGuarantee or None
        What a ledger is charged before a row is used; None: nothing.
    bought : float
        Part of epsilon, in nats, that buys sizes before the plan is made.
    expected_plan : Plan or None
        Where `plan` follows from bought sizes: the plan for the sizes in `facts`.
    crowd : float or None
        Records or voters behind a release whose plan does not know how many there are.
    steps : tuple of Quote
        Quotes of the steps of a Pipeline, of the fits of a search, or of the models inside.
    ledger : LedgerRoom or None
        What the ledger of the estimator has left afterwards; None without a ledger.
    note : str
        Remarks that readers of the figures need.
    sizes : Sizes or None
        Public sizes that the plan was made for.
    """

    estimator: str
    facts: RowFacts | None
    privacy: PrivacyGuarantee | None
    plan: Plan | None = None
    noise_multiplier: float | None = None
    charge: PrivacyGuarantee | None = None
    bought: float = 0.0
    expected_plan: Plan | None = None
    crowd: float | None = None
    steps: tuple[Quote, ...] = ()
    ledger: LedgerRoom | None = None
    note: str = ""
    sizes: Sizes | None = field(default=None, repr=False)

    @property
    def epsilon(self) -> float:
        """Epsilon in nats; infinite where nothing is promised."""
        return math.inf if self.privacy is None else self.privacy.epsilon

    @property
    def delta(self) -> float:
        """Probability with which the loss may be exceeded."""
        return 0.0 if self.privacy is None else self.privacy.delta

    @property
    def releases(self) -> tuple[PlannedRelease, ...]:
        """Every kind of noisy release, in order."""
        return tuple(_releases(self.plan or self.expected_plan))

    @property
    def verdict(self) -> Verdict | None:
        """Sentence about noise that exceeds the signal; None without a plan."""
        plan = self.plan or self.expected_plan
        if plan is None:
            inner = [step.verdict for step in self.steps if step.verdict is not None]
            return max(inner, key=lambda one: one.ratio, default=None)
        n_features = None if self.facts is None else self.facts.n_features
        return verdict_on(plan, n_features=n_features, crowd=self.crowd)

    def without_rows(self) -> Quote:
        """Quote that a model may keep: without facts about rows, of which some may be private.

        Returns
        -------
        Quote
            Plan, promise and the public sizes.
        """
        if self.facts is None:
            return self
        crowd = self.crowd if self.sizes is not None else None
        return replace(self, facts=None, crowd=crowd, steps=(), ledger=None, note="")

    def with_ledger(self, ledger: Any, planned: list[PrivacyGuarantee] | None = None) -> Quote:
        """Add what a ledger would have left; the ledger is read, never written.

        Parameters
        ----------
        ledger : None, path or PrivacyLedger
            Where the fit would be charged.
        planned : list of PrivacyGuarantee or None, default=None
            What would be charged there; None: `charge`.

        Returns
        -------
        Quote
        """
        charged = [self.charge] if self.charge is not None else []
        return replace(self, ledger=room_after(ledger, charged if planned is None else planned))

    def to_dict(self) -> dict[str, Any]:
        """Write the quote down as plain numbers, texts and lists, fit for JSON.

        Returns
        -------
        dict
            Infinity is the text "inf".
        """
        facts, verdict, room = self.facts, self.verdict, self.ledger
        groups = None if facts is None else facts.groups
        return {
            "estimator": self.estimator,
            "n_records": None if facts is None else facts.n,
            "unit": None if facts is None else facts.unit,
            "groups": None
            if groups is None
            else [[repr(k), n] for k, n in zip(groups.labels, groups.counts.tolist(), strict=True)],
            "privacy": None if self.privacy is None else self.privacy.to_dict(),
            "charge": None if self.charge is None else self.charge.to_dict(),
            "noise_multiplier": self.noise_multiplier,
            "bought": self.bought,
            "releases": [_plain(vars(release)) for release in self.releases],
            "verdict": None if verdict is None else _plain(vars(verdict)),
            "ledger": None
            if room is None
            else {
                "data_set": room.data_set,
                "budget": room.budget,
                "before": [total.to_dict() for total in room.before],
                "after": [total.to_dict() for total in room.after],
                "left": room.left,
                "refusal": room.refusal,
            },
            "note": self.note,
            "steps": [step.to_dict() for step in self.steps],
        }

    def statements(self) -> list[str]:
        """Say what the fit costs.

        Returns
        -------
        list of str
            Sentences.
        """
        said = [f"Quote for {self.estimator}, as its fit kept to it."]
        if self.facts is not None:
            said = [f"Quote for {self.estimator} on {_records(self.facts)}: no row was looked at."]
        stated = self.privacy
        if stated is None:
            said.append("Trains without noise: nothing is protected.")
        elif stated.is_void:
            said.append(f"Promises nothing: {stated.assumptions[0]}")
        else:
            said.append(
                f"Costs ε = {significant_up(stated.epsilon)} at δ = {as_given(stated.delta)}, "
                f"under {stated.adjacency} ({ADJACENCIES[stated.adjacency]}); protects "
                f"{PROTECTS[stated.protects]}."
            )
        if self.bought:
            said.append(
                f"ε = {as_given(self.bought)} of it buys sizes first. The plan is made from them; "
                "the figures below are those for the sizes that were given here."
            )
        if self.note:
            said.append(self.note)
        verdict = self.verdict
        if verdict is not None:
            said.append(verdict.text)
        if self.ledger is not None:
            said += _of_ledger(self.ledger)
        return said

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Lay out the releases as a table.

        Returns
        -------
        tuple of (list of str, list of list of str)
            Header, and the cells row by row.
        """
        header = ["release", "times", "noise", "std of noise", "of a record", "multiplier or ε"]
        header.append("expected records")
        rows = [
            [
                one.name,
                f"{one.times:,}",
                one.noise,
                f"{one.noise_std:.4g}",
                f"{one.of_a_record:.4g}",
                f"{one.multiplier:.4g}",
                f"{one.expected_records:,.1f}" if one.expected_records else "all",
            ]
            for one in self.releases
        ]
        return header, rows

    def __str__(self) -> str:
        """Sentences, then a table of the releases, then the quotes of the steps."""
        return "\n\n".join([text_table(self.statements(), *self.table()), *map(str, self.steps)])

    def _repr_html_(self) -> str:
        parts = [step._repr_html_() for step in self.steps]
        return html_page(self.statements(), *self.table()) + "".join(parts)


def _records(facts: RowFacts) -> str:
    unit = "persons" if facts.unit == "person" else "rows"
    said = f"{facts.n:,} {unit}"
    if facts.n_features is not None:
        said += f" of {facts.n_features:,} features"
    if facts.groups is not None:
        sizes = zip(facts.groups.labels, facts.groups.counts.tolist(), strict=True)
        said += " in groups " + ", ".join(f"{label!r} ({n:,})" for label, n in sizes)
    return said


def _of_ledger(room: LedgerRoom) -> Iterator[str]:
    for total in room.after:
        yield (
            f"Ledger {room.data_set!r} afterwards: ε = {significant_up(total.epsilon)} at δ = "
            f"{as_given(total.delta)} ({total.adjacency}) in all."
        )
    if room.refusal is not None:
        yield f"The ledger would refuse this fit: {room.refusal}"
    elif room.budget is not None and room.left is not None:
        yield (
            f"Of its budget of ε = {as_given(room.budget[0])}, ε = {room.left:.4g} would be left "
            "if no later plan depends on an earlier release."
        )


def _releases(plan: Plan | None) -> Iterator[PlannedRelease]:
    if plan is None:
        return
    for segment in plan.segments:
        for block in segment.blocks:
            if segment.steps == 0:
                continue
            weights = [weight * block.max_norm for weight in block.weights]
            most = max(range(len(weights)), key=lambda cell: weights[cell])
            yield PlannedRelease(
                name=block.name,
                times=segment.steps,
                noise="discrete Gaussian" if plan.exact_noise else "Gaussian",
                noise_std=block.noise_std,
                of_a_record=weights[most],
                multiplier=block.multiplier(most),
                expected_records=float(sum(segment.expected_sizes)),
            )
    for table in plan.counts:
        yield PlannedRelease(
            name=table.name,
            times=table.releases,
            noise="discrete Laplace",
            noise_std=_of_laplace(table.epsilon),
            of_a_record=1.0,
            multiplier=table.epsilon,
            expected_records=0.0,
        )
    for released in plan.sums:
        heaviest = max(released.weights)
        yield PlannedRelease(
            name=released.name,
            times=1,
            noise="Laplace",
            noise_std=math.sqrt(2.0) * released.scale,
            of_a_record=heaviest * released.max_norm,
            multiplier=max(map(released.epsilon, range(len(released.weights)))),
            expected_records=0.0,
        )


def _of_laplace(epsilon: float) -> float:
    """Standard deviation of discrete Laplace noise of a count; 0 without noise."""
    if math.isinf(epsilon):
        return 0.0
    ratio = math.exp(-epsilon)
    return math.sqrt(2.0 * ratio) / (1.0 - ratio)


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    infinite = (k for k, v in values.items() if isinstance(v, float) and math.isinf(v))
    return values | dict.fromkeys(infinite, "inf")
