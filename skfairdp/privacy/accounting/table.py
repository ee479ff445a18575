"""Kinds of events: the accountant of each under each relation, and its form in JSON.

Accounting looks every release up here, by the exact class of its event and the relation, and runs
what the entry holds: a function that makes its privacy losses, and one that states the event which
dp_accounting's Renyi divergences charge in its place. A pair without an entry has no answer; no
accountant is asked whether it would take one. ``tests/privacy/accounting/test_table.py`` compares
every entry with an enumeration of outputs, and the page ``docs/theory/accounting.md`` shows this
table. `KINDS` lists the events that certificates and ledgers store.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import attr
import numpy as np
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


# Only these are read back: a document cannot name a class of its own choice.
KINDS: dict[str, type[DpEvent]] = {
    kind.__name__: kind
    for kind in (
        dp_event.ComposedDpEvent,
        dp_event.DiscreteLaplaceDpEvent,
        FailureDpEvent,
        dp_event.GaussianDpEvent,
        dp_event.LaplaceDpEvent,
        dp_event.NoOpDpEvent,
        dp_event.NonPrivateDpEvent,
        dp_event.PoissonSampledDpEvent,
        dp_event.RepeatAndSelectDpEvent,
        dp_event.SelfComposedDpEvent,
    )
}

# What numbers of an event may be; others are at least 0.
LIMITS = {
    "mean": (1.0, math.inf),
    "probability": (0.0, 1.0),
    "sampling_probability": (0.0, 1.0),
}


def event_to_dict(event: DpEvent) -> dict[str, Any]:
    """Write an event as nested dictionaries, ``{"kind": class name, field: value, ...}``."""
    kind = type(event).__name__
    if KINDS.get(kind) is not type(event):
        raise ValueError(f"cannot write a {kind}: supported events are {sorted(KINDS)}")
    values = {field.name: _value(getattr(event, field.name)) for field in attr.fields(type(event))}
    return {"kind": kind, **values}


def event_from_dict(document: Mapping[str, Any]) -> DpEvent:
    """Read an event written by `event_to_dict`, with tuples for lists."""
    kind = document.get("kind")
    if kind not in KINDS:
        raise ValueError(f"cannot read an event of kind {kind!r}: known are {sorted(KINDS)}")
    names = {field.name for field in attr.fields(KINDS[kind])}
    odd = sorted({*document} - {"kind"} ^ names)
    if odd:
        raise ValueError(f"an event of kind {kind!r} has the fields {sorted(names)}; not so: {odd}")
    return KINDS[kind](**{name: _read(name, document[name]) for name in sorted(names)})


def _value(value: Any) -> Any:
    if isinstance(value, DpEvent):
        return event_to_dict(value)
    if isinstance(value, (list, tuple)):
        return [_value(item) for item in value]
    return number_to_json(value)


def _read(name: str, value: Any) -> Any:
    if name in ("event", "events"):
        if isinstance(value, Mapping) and name == "event":
            return event_from_dict(value)
        if isinstance(value, list) and name == "events":
            return tuple(map(event_from_dict, value))
        raise ValueError(f"cannot read {value!r} as an event")
    number = number_from_json(value)
    low, high = LIMITS.get(name, (0.0, math.inf))
    whole = name != "count" or isinstance(number, int)
    if isinstance(number, bool) or not whole or not low <= number <= high:
        raise ValueError(f"cannot read an event with {name}={value!r}")
    return number


def number_to_json(value: float) -> float | str:
    """Write infinity as the string "inf", because JSON has none; keep other numbers."""
    if isinstance(value, np.generic):
        value = value.item()
    return "inf" if value == math.inf else value


def number_from_json(value: float | str) -> float:
    if isinstance(value, str) and value != "inf":
        raise ValueError(f"expected a number or 'inf', got {value!r}")
    return math.inf if isinstance(value, str) else value
