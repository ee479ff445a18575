"""dp_accounting events, labels and infinite numbers as JSON, without loss."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from typing import Any

import attr
import numpy as np
from dp_accounting import dp_event as events

from skfairdp.foundation.parameters import plain_label
from skfairdp.privacy.accounting.events import FailureDpEvent

# Only these are read back: a document cannot name a class of its own choice.
KINDS: dict[str, type[events.DpEvent]] = {
    kind.__name__: kind
    for kind in (
        events.ComposedDpEvent,
        events.DiscreteLaplaceDpEvent,
        FailureDpEvent,
        events.GaussianDpEvent,
        events.LaplaceDpEvent,
        events.NoOpDpEvent,
        events.NonPrivateDpEvent,
        events.PoissonSampledDpEvent,
        events.RepeatAndSelectDpEvent,
        events.SelfComposedDpEvent,
    )
}

# What numbers of an event may be; others are at least 0.
LIMITS = {
    "mean": (1.0, math.inf),
    "probability": (0.0, 1.0),
    "sampling_probability": (0.0, 1.0),
}


def event_to_dict(event: events.DpEvent) -> dict[str, Any]:
    """Write an event as nested dictionaries, ``{"kind": class name, field: value, ...}``."""
    kind = type(event).__name__
    if KINDS.get(kind) is not type(event):
        raise ValueError(f"cannot write a {kind}: supported events are {sorted(KINDS)}")
    values = {field.name: _value(getattr(event, field.name)) for field in attr.fields(type(event))}
    return {"kind": kind, **values}


def event_from_dict(document: Mapping[str, Any]) -> events.DpEvent:
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
    if isinstance(value, events.DpEvent):
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


def label_to_json(label: Hashable) -> Any:
    """Write a group label; an intersection (a tuple) becomes a list."""
    label = plain_label(label)
    if isinstance(label, tuple):
        return [label_to_json(part) for part in label]
    if isinstance(label, float) and not math.isfinite(label):
        raise ValueError(f"cannot write the group label {label!r}: give finite numbers")
    if isinstance(label, str) and any("\ud800" <= letter <= "\udfff" for letter in label):
        raise ValueError(f"cannot write the group label {label!a}: give text in Unicode")
    if label is None or isinstance(label, (str, bool, int, float)):
        return label
    raise ValueError(
        f"cannot write a group label of type {type(label).__name__}: use str, bool, int or float"
    )


def label_from_json(document: Any) -> Hashable:
    if isinstance(document, list):
        return tuple(label_from_json(part) for part in document)
    label: Hashable = document
    return label
