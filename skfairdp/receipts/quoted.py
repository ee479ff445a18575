"""Quote: cost and guarantee of a future fit, and a verdict on its signal and noise.

The verdict follows from the plan and epsilon alone. Over all steps, the noise that is added to a
sum grows like a random walk, and the sum itself at most like the number of steps. Their quotient,
if all records agree, is the best case. Whether the records are enough is then judged by
measurements on public tables; ``docs/theory/quotes.md`` derives the first and states the second.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from typing import Any

from skfairdp.foundation.figures import significant_down, significant_up
from skfairdp.foundation.parameters import check_parameters
from skfairdp.privacy.guarantee import PrivacyGuarantee
from skfairdp.privacy.noise import NoiseSource
from skfairdp.privacy.plan import Plan
from skfairdp.privacy.sizes import Sizes
from skfairdp.receipts.brought_along import assuming_parts, parts_of
from skfairdp.receipts.rendering import (
    PlannedRelease,
    document_of,
    html_page,
    releases_of,
    statements_of,
    table_of,
    text_table,
)
from skfairdp.receipts.room import LedgerRoom, room_after
from skfairdp.records.facts import RowFacts

# What a ledger is charged for a fit that protects nothing.
NOISELESS = PrivacyGuarantee.void("a fit without noise (epsilon=inf)")
# Noise over the largest possible signal: from the first on the noise is the longer of the two;
# from the second on a signal of a tenth of the largest, as records rarely agree, is.
TOO_SMALL, DOUBTFUL = 1.0, 0.1
# Records at epsilon 1, as docs/results/learners.md has them. Up to the first, no private classifier
# came within 0.03 of the best area under the curve without privacy; from the second on, the best
# private one did.
NOT_ENOUGH, ENOUGH = 1_600, 4_900
_CLOSE = (
    "the best private classifier came within 0.03 (area under the ROC curve) of the best one "
    "without privacy"
)
# Levels at which a fit warns.
WEAK = ("doubtful", "too small")


@dataclass(frozen=True)
class Verdict:
    """Comparison of the noise with the largest possible signal, and of records with experience.

    Parameters
    ----------
    level : {"useful", "few", "doubtful", "too small", "no noise"}
        "too small": even where all records agree, the noise is longer than their sum. "doubtful":
        it is longer than a tenth of that. "few": the noise would allow learning, but fewer records
        were not shown to be enough for a classifier of tables.
    ratio : float
        Length of the noise over that of the largest possible signal, of the worst release.
    release : str
        Name of that release.
    text : str
        The same as a sentence.
    """

    level: str
    ratio: float
    release: str
    text: str


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
        return tuple(releases_of(self.plan or self.expected_plan))

    @property
    def verdict(self) -> Verdict | None:
        """Sentence about noise that exceeds the signal; None without a plan."""
        plan = self.plan or self.expected_plan
        if plan is None:
            inner = [step.verdict for step in self.steps if step.verdict is not None]
            return max(inner, key=lambda one: one.ratio, default=None)
        n_features = None if self.facts is None else self.facts.n_features
        promised = math.inf if self.privacy is None else self.privacy.epsilon
        # So much noise that delta alone covers it, epsilon = 0, was measured on no table.
        epsilon = promised if 0.0 < promised < math.inf else None
        return verdict_on(plan, n_features=n_features, crowd=self.crowd, epsilon=epsilon)

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
        return document_of(self)

    def statements(self) -> list[str]:
        """Say what the fit costs.

        Returns
        -------
        list of str
            Sentences.
        """
        return statements_of(self)

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Lay out the releases as a table.

        Returns
        -------
        tuple of (list of str, list of list of str)
            Header, and the cells row by row.
        """
        return table_of(self.releases)

    def __str__(self) -> str:
        """Sentences, then a table of the releases, then the quotes of the steps."""
        return "\n\n".join([text_table(self.statements(), *self.table()), *map(str, self.steps)])

    def _repr_html_(self) -> str:
        parts = [step._repr_html_() for step in self.steps]
        return html_page(self.statements(), *self.table()) + "".join(parts)


def verdict_on(
    plan: Plan,
    *,
    n_features: int | None = None,
    crowd: float | None = None,
    epsilon: float | None = None,
) -> Verdict:
    """Compare the noise of each release with its largest possible signal.

    `n_features`: a gradient has at least one number for each, and one more; None: it has one.
    `crowd`: records, or voters, behind a release whose plan does not know how many there are.
    `epsilon`: that of the fit, which decides how many records were shown to be enough; None: it is
    not known, and the noise alone decides.
    """
    if plan.noiseless:
        return Verdict("no noise", 0.0, "", "Nothing is protected, and nothing is lost to noise.")
    ratios = noise_ratios(plan, n_features=n_features, crowd=crowd)
    if not ratios:
        return Verdict("useful", 0.0, "", "No release with noise depends on the number of records.")
    (release, cell), ratio = max(ratios.items(), key=lambda item: item[1])
    whom = "all records" if cell is None else f"all records of group {cell!r}"
    least = significant_up(ratio, 2)
    if ratio >= TOO_SMALL:
        text = (
            f"Too few records for a useful model: even if {whom} agreed in every step, the noise "
            f"on {release!r} would be {_times(significant_down(ratio, 2))} as their sum. "
            f"Use more rows{_enough(plan, ratio, epsilon)}, a larger epsilon, larger batches, or "
            "fewer features or groups."
        )
        return Verdict("too small", ratio, release, text)
    if ratio >= DOUBTFUL:
        text = (
            f"Doubtful: the noise on {release!r} is {_times(least)} as the longest sum that "
            f"{whom} can reach together, and sums rarely reach a tenth of that. Expect a weak "
            f"model, or use more rows{_enough(plan, ratio, epsilon)}."
        )
        return Verdict("doubtful", ratio, release, text)
    allowed = f"in the release {release!r}, it is at most {least} of the largest sum of {whom}"
    n, needed = _records(plan, epsilon)
    if not needed:
        return Verdict("useful", ratio, release, f"The noise allows learning: {allowed}.")
    scaled = f" At this ε, about {needed:,.0f} records have as little noise." * (needed > ENOUGH)
    if n < needed:
        text = (
            f"Fewer records than were shown to be enough: {math.floor(n):,}. On public tables "
            f"(docs/results/learners) of {ENOUGH:,} records and more, {_CLOSE} at ε = 1; on those "
            f"of up to {NOT_ENOUGH:,}, no private classifier did; none between was measured."
            f"{scaled} Expect a weaker model than without privacy. The noise itself allows "
            f"learning: {allowed}."
        )
        return Verdict("few", ratio, release, text)
    text = (
        f"Enough records to learn from: on public tables (docs/results/learners) of {ENOUGH:,} "
        f"records and more, {_CLOSE} at ε = 1.{scaled} The noise: {allowed}."
    )
    return Verdict("useful", ratio, release, text)


def _records(plan: Plan, epsilon: float | None) -> tuple[float, float]:
    """Records behind the steps of a plan, and the number that was shown to be enough.

    Below epsilon 1 that is the number with as little noise. A larger epsilon asks for no fewer: at
    epsilon 4, no private classifier was close on 1,591. 0: steps like these were not measured.
    """
    most, by_gradients = 0.0, False
    for segment in plan.segments:
        n = 0.0
        for size, rate in zip(segment.expected_sizes, segment.rates, strict=True):
            n += size / rate
        most = max(most, n)
        for block in segment.blocks:
            by_gradients = by_gradients or block.name == "gradient"
    if epsilon is None or not by_gradients:
        return most, 0.0
    needed = ENOUGH / min(epsilon, 1.0)
    return most, float(f"{needed:.2g}")  # two digits, as the rule is one of thumb


def _times(figure: str) -> str:
    """Say how many times as long; once as long needs no number."""
    return "as long" if float(figure) == 1.0 else f"{figure} times as long"


def _enough(plan: Plan, ratio: float, epsilon: float | None) -> str:
    """Name the number of records from which on both rules would be kept, where it is known.

    At the same budget and sampling rates, the noise stays and signals grow with the records.
    """
    n, needed = _records(plan, epsilon)
    n = max(n * ratio / DOUBTFUL, needed)
    if not 0 < n < 1e12:
        return ""
    # Two digits: it is a rule of thumb.
    return f" ({math.ceil(float(significant_up(n, 2))):,} records would be enough by this rule)"


def noise_ratios(
    plan: Plan, *, n_features: int | None = None, crowd: float | None = None
) -> dict[tuple[str, Hashable | None], float]:
    """Noise over the largest possible signal, of each release and cell."""
    signals: dict[str, list[float]] = defaultdict(lambda: [0.0] * len(plan.cells))
    variances: dict[str, float] = defaultdict(float)
    # Where it is private who is in which cell, a cell's share of the records says nothing.
    several = len(plan.cells) > 1 and plan.adjacency != "change-attribute"
    for segment in plan.segments:
        for block in segment.blocks:
            if segment.steps == 0 or block.noise_std == 0.0:
                continue
            d = 1 + (n_features or 0) if block.name == "gradient" else 1
            known = sum(segment.expected_sizes) > 0.0
            steps = segment.steps if known else 1  # each answer stands alone
            if not known and crowd is None:
                continue
            variances[block.name] += steps * d * block.noise_std**2
            sizes = segment.expected_sizes if known else [float(crowd or 0.0)]
            for cell, (size, weight) in enumerate(zip(sizes, block.weights, strict=True)):
                signals[block.name][cell] += steps * size * weight * block.max_norm
    for released in plan.sums:
        if released.scale > 0.0 and crowd is not None:
            variances[released.name] += 2.0 * released.scale**2
            share = crowd / len(plan.cells)
            for cell, weight in enumerate(released.weights):
                signals[released.name][cell] += share * weight * released.max_norm
    found: dict[tuple[str, Hashable | None], float] = {}
    for name, variance in variances.items():
        own = signals[name] if several else [sum(signals[name])]
        labels = plan.cells if several else (None,)
        for label, signal in zip(labels, own, strict=True):
            found[name, label] = math.inf if signal == 0.0 else math.sqrt(variance) / signal
    return found


def has_price(model: Any) -> bool:
    """Whether a model is an estimator of this package, whose fit has a plan to price."""
    return hasattr(type(model), "_priced")


def priced_alone(model: Any, facts: RowFacts) -> Quote:
    """Price one estimator of this package, with what its ledger has left after it."""
    return priced(model, facts).with_ledger(getattr(model, "ledger", None))


def priced(model: Any, facts: RowFacts) -> Quote:
    """Price one estimator of this package; its ledger is not read."""
    # A copy: plans may note public facts on the estimator.
    model = type(model)(**model.get_params(deep=False))
    check_parameters(model, model._parameters)
    model._check_settings()
    model._check_takes(facts.groups, persons=facts.unit == "person")
    noise = NoiseSource(0 if model.reproducible_noise else None)
    facts = model._facts_of_fit(facts)
    found: Quote = model._priced(facts, noise)
    if found.plan is None and found.bought:
        found = replace(found, expected_plan=model._expected_plan(facts, noise))
    for name in (*model._nets, "estimator"):
        if found.privacy is not None and getattr(model, name, None) is not None:
            found = replace(found, privacy=assuming_parts(found.privacy, parts_of(model)))
    return found


def inner_quote(outer: Any, inner: Any, facts: RowFacts) -> Quote:
    """Price the inner fit of an estimator that adds no cost."""
    if not has_price(inner):
        stated = PrivacyGuarantee.void(
            f"{type(inner).__name__} is not an estimator of skfairdp: nothing bounds what it "
            "reveals about its training rows."
        )
        return Quote(type(outer).__name__, facts, stated, charge=None)
    found = priced(inner, facts)
    return replace(found, estimator=f"{type(outer).__name__} around {found.estimator}")
