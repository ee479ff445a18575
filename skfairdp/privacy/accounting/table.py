"""Table of event, relation and accountant: exact, upper bound or refused.

Accounting looks every release up here, by the exact class of its event and the relation, and runs
what the entry holds: a function that makes its privacy losses, and one that states the event which
dp_accounting's Renyi divergences charge in its place. A pair without an entry has no answer; no
accountant is asked whether it would take one. ``tests/privacy/accounting/test_table.py`` compares
every entry with an enumeration of outputs, and the page ``docs/theory/accounting.md`` shows this
table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from dp_accounting import NeighboringRelation, dp_event
from dp_accounting.dp_event import DpEvent

from skfairdp.privacy.accounting import loss_distributions as pairs
from skfairdp.privacy.accounting.events import FailureDpEvent, rewritten

ONE, BLANK, REPLACED = (
    NeighboringRelation.ADD_OR_REMOVE_ONE,
    NeighboringRelation.REPLACE_SPECIAL,
    NeighboringRelation.REPLACE_ONE,
)

# Class of an event; for a sample of records, that of the release on the sample too.
Kind = tuple[type[DpEvent], ...]


class Answer(StrEnum):
    """Tightness of an accountant's figure, rounding not counted."""

    EXACT = "exact"  # Attained by two neighbouring data sets
    UPPER_BOUND = "upper bound"
    REFUSED = "refused"


@dataclass(frozen=True)
class Entry:
    """Answers for one kind of event under one relation."""

    # By loss distributions: a function that makes both directions; None where refused
    losses: pairs.PairMaker | None = None
    # Whether two neighbours attain what `losses` charges
    attained: bool = True
    # By Renyi divergences: the event that dp_accounting charges; None where refused
    renyi: Callable[[Any], DpEvent] | None = None
    note: str = ""  # Reason or reading, for the page of the table

    @property
    def by_losses(self) -> Answer:
        """Answer of privacy loss distributions."""
        if self.losses is None:
            return Answer.REFUSED
        return Answer.EXACT if self.attained else Answer.UPPER_BOUND

    @property
    def by_divergences(self) -> Answer:
        """Answer of Renyi divergences."""
        return Answer.REFUSED if self.renyi is None else Answer.UPPER_BOUND


def _same(event: DpEvent) -> DpEvent:
    return event


def _twice_gaussian(event: Any) -> DpEvent:
    return dp_event.GaussianDpEvent(event.noise_multiplier / 2.0)


def _twice_laplace(event: Any) -> DpEvent:
    return dp_event.LaplaceDpEvent(event.noise_multiplier / 2.0)


def _counts(event: Any) -> DpEvent:
    return pure_divergence(float(event.noise_parameter) * int(event.sensitivity))


def _twice_counts(event: Any) -> DpEvent:
    return pure_divergence(2.0 * float(event.noise_parameter) * int(event.sensitivity))


def _twice_drawn_gaussian(event: Any) -> DpEvent:
    inner = _twice_gaussian(event.event)
    sizes = event.source_dataset_size, event.sample_size
    return dp_event.SampledWithoutReplacementDpEvent(*sizes, inner)


def pure_divergence(epsilon: float) -> DpEvent:
    """State an event with divergences of at least those of any pure release.

    dp_accounting's divergences know no discrete Laplace noise. What is pure at epsilon has a
    divergence of at most ``order * epsilon**2 / 2``, and of at most epsilon: the first is charged
    up to epsilon = 0.2, beyond which it wastes more at the orders that count.
    """
    if epsilon <= 0.2:
        return dp_event.ZCDpEvent(rho=epsilon**2 / 2)
    return dp_event.ZCDpEvent(rho=0.0, xi=epsilon)


_BLANK_LIBRARY = pairs.of_the_library(BLANK)
_GAUSSIAN, _POISSON = dp_event.GaussianDpEvent, dp_event.PoissonSampledDpEvent
_DRAWN = dp_event.SampledWithoutReplacementDpEvent
_HISTOGRAM = "randomised response at twice the figure; 2 ε for counts at ε"
_TWO_DRAWN = "the sum moves by twice the norm"
_BOTH_CURVES = "the larger δ of both directions, in each"

TABLE: Mapping[tuple[Kind, NeighboringRelation], Entry] = {
    ((_GAUSSIAN,), ONE): Entry(pairs.gaussian_sum, renyi=_same),
    ((_GAUSSIAN,), BLANK): Entry(pairs.gaussian_sum, renyi=_same),
    ((_GAUSSIAN,), REPLACED): Entry(
        pairs.replaced_gaussian_sum, renyi=_twice_gaussian, note=_TWO_DRAWN
    ),
    ((_POISSON, _GAUSSIAN), ONE): Entry(pairs.sampled_gaussian_sum, renyi=_same),
    ((_POISSON, _GAUSSIAN), BLANK): Entry(pairs.sampled_gaussian_sum, renyi=_same),
    ((_POISSON, _GAUSSIAN), REPLACED): Entry(pairs.replaced_sampled_gaussian_sum, note=_TWO_DRAWN),
    ((dp_event.DiscreteLaplaceDpEvent,), ONE): Entry(pairs.counts, renyi=_counts),
    ((dp_event.DiscreteLaplaceDpEvent,), BLANK): Entry(pairs.counts, renyi=_counts),
    ((dp_event.DiscreteLaplaceDpEvent,), REPLACED): Entry(
        pairs.replaced_counts, attained=False, renyi=_twice_counts, note=_HISTOGRAM
    ),
    ((dp_event.LaplaceDpEvent,), ONE): Entry(pairs.laplace_sum, renyi=_same),
    ((dp_event.LaplaceDpEvent,), BLANK): Entry(pairs.laplace_sum, renyi=_same),
    ((dp_event.LaplaceDpEvent,), REPLACED): Entry(
        pairs.replaced_laplace_sum, renyi=_twice_laplace, note=_TWO_DRAWN
    ),
    ((_POISSON, dp_event.LaplaceDpEvent), ONE): Entry(
        pairs.of_the_library(ONE), attained=False, note=_BOTH_CURVES
    ),
    ((_POISSON, dp_event.LaplaceDpEvent), BLANK): Entry(
        _BLANK_LIBRARY, attained=False, note=_BOTH_CURVES
    ),
    ((dp_event.RandomizedResponseDpEvent,), BLANK): Entry(
        _BLANK_LIBRARY, attained=False, renyi=_same, note="the blank record answers uniformly"
    ),
    ((dp_event.RandomizedResponseDpEvent,), REPLACED): Entry(
        pairs.of_the_library(REPLACED), renyi=_same
    ),
    ((dp_event.MixtureOfGaussiansDpEvent,), ONE): Entry(
        pairs.of_the_library(ONE), attained=False, note=_BOTH_CURVES
    ),
    ((dp_event.MixtureOfGaussiansDpEvent,), BLANK): Entry(
        _BLANK_LIBRARY, attained=False, note=_BOTH_CURVES
    ),
    ((dp_event.TruncatedSubsampledGaussianDpEvent,), ONE): Entry(
        pairs.of_the_library(ONE), attained=False, note=_BOTH_CURVES
    ),
    ((dp_event.TruncatedSubsampledGaussianDpEvent,), BLANK): Entry(
        _BLANK_LIBRARY, attained=False, note=_BOTH_CURVES
    ),
    ((dp_event.TruncatedSubsampledGaussianDpEvent,), REPLACED): Entry(
        pairs.of_the_library(REPLACED), attained=False, note=_BOTH_CURVES
    ),
    ((_DRAWN, _GAUSSIAN), REPLACED): Entry(renyi=_twice_drawn_gaussian, note=_TWO_DRAWN),
    ((dp_event.SingleEpochTreeAggregationDpEvent,), BLANK): Entry(renyi=_same),
    # A statement about divergences between the two data sets, whichever relation is meant.
    ((dp_event.ZCDpEvent,), ONE): Entry(renyi=_same, note="as stated"),
    ((dp_event.ZCDpEvent,), BLANK): Entry(renyi=_same, note="as stated"),
    ((dp_event.ZCDpEvent,), REPLACED): Entry(
        renyi=_same, note="as stated: ρ and ξ must be about a replaced record"
    ),
}

NO_ANSWER = Entry()

# Sampled releases are distinguished by the release of the sample.
_SAMPLES = (_POISSON, _DRAWN, dp_event.SampledWithReplacementDpEvent)
# Events that are made of others, cost nothing, everything, or a share of delta.
STRUCTURE: Mapping[type[DpEvent], str] = {
    dp_event.ComposedDpEvent: "its parts, composed",
    dp_event.SelfComposedDpEvent: "its part, composed with itself",
    dp_event.RepeatAndSelectDpEvent: "Rényi divergences of its part, where these are known",
    dp_event.NoOpDpEvent: "0",
    dp_event.NonPrivateDpEvent: "∞",
    FailureDpEvent: "its probability, taken from δ",
}


def kind_of(event: DpEvent) -> Kind:
    """Class of an event, and of the release of a sample."""
    if isinstance(event, _SAMPLES):
        return type(event), type(event.event)
    return (type(event),)


def entry_of(event: DpEvent, relation: NeighboringRelation) -> Entry:
    """Entry for one release; the one without an answer where the table has none."""
    return TABLE.get((kind_of(event), relation), NO_ANSWER)


def name_of(kind: Kind) -> str:
    """Name of a kind of event, such as ``PoissonSampled(Gaussian)``."""
    first, *rest = (part.__name__.removesuffix("DpEvent") for part in kind)
    return f"{first}({rest[0]})" if rest else first


def renyi_form(event: DpEvent, relation: NeighboringRelation = ONE) -> DpEvent | None:
    """Rewrite an event so that dp_accounting's Renyi divergences charge it; None where refused.

    The result costs at least as much, failures apart: they cost no divergence, and delta covers
    them.
    """
    refused = False

    def of_part(part: DpEvent) -> DpEvent:
        nonlocal refused
        if isinstance(part, FailureDpEvent):
            return dp_event.NoOpDpEvent()
        if isinstance(part, (dp_event.NoOpDpEvent, dp_event.NonPrivateDpEvent)):
            return part
        reading = entry_of(part, relation).renyi
        if reading is None:
            refused = True
            return part
        return reading(part)

    charged = rewritten(event, of_part)
    return None if refused else charged


def rows() -> Iterator[tuple[str, NeighboringRelation, Entry]]:
    """Name, relation and entry of each kind of event under every relation, refused ones too."""
    listed = dict.fromkeys(kind for kind, _ in TABLE)
    known = {kind[0] for kind in listed} | set(STRUCTURE)
    others = (
        (kind,)
        for _, kind in sorted(vars(dp_event).items())
        if isinstance(kind, type) and issubclass(kind, DpEvent) and kind is not DpEvent
        if kind not in known
    )
    for kind in (*listed, *others):
        for relation in (ONE, BLANK, REPLACED):
            yield name_of(kind), relation, TABLE.get((kind, relation), NO_ANSWER)
