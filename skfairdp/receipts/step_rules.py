"""Reasons why a step of scikit-learn may have learned from rows."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from skfairdp.foundation.parameters import CALLBACKS
from skfairdp.receipts.digests.code import replaced_methods
from skfairdp.receipts.harmless_steps import (
    COLUMNS,
    CONTAINERS,
    HARMLESS,
    OF_PIPELINES,
    STEPS_OF,
    Allowed,
    HarmlessStep,
)
from skfairdp.receipts.receipt import bind_each, changes

WATCHED = "callbacks of scikit-learn see every row of a fit"


def reason_to_learn(step: Any) -> str | None:
    """Say which part of a step may hold something of the rows; None where no part does.

    Names parameters and types, never a value: values may be rows.
    """
    record = HARMLESS.get(type(step))
    if record is None:
        return "its class is not among those known to learn nothing"
    watched = WATCHED if getattr(step, CALLBACKS, None) else None
    reason = watched or "; ".join(_outside(step, record.parameters)) or None
    if reason is None and replaced_methods(type(step)):
        reason = "methods of its class were replaced"
    return reason or _left_by_fit(step, record)


def reasons_of_container(container: Any) -> Iterator[tuple[str, str]]:
    """Name parameters of a container that may hold rows, each with the reason."""
    if getattr(container, CALLBACKS, None):
        yield "callbacks", WATCHED
    rules = CONTAINERS[type(container)]
    steps = STEPS_OF[type(container)]
    own = {n: v for n, v in container.get_params(deep=False).items() if n not in steps}
    for name, value in own.items():
        reason = _disallowed(name, value, rules.get(name))
        if reason is not None:
            yield name, reason
    if type(container) is Pipeline:  # whose fit leaves nothing; it is pickled with what it holds
        for name in sorted(vars(container).keys() - own.keys() - steps):
            if name not in OF_PIPELINES or not OF_PIPELINES[name].holds(vars(container)[name]):
                yield name, f"its attribute {name!r} was set by hand, and may hold rows"


def changed_parameters(before: Any, after: Any) -> tuple[str, ...]:
    """Name the parameters of a step that differ between two states of it."""
    kept = bind_each(before.get_params(deep=False))
    return changes(kept, after.get_params(deep=False))


def is_fixed(columns: Any) -> bool:
    """Whether columns are named by plain values, so that no row decides which they are."""
    return COLUMNS.holds(columns)


def _outside(step: Any, rules: Mapping[str, Allowed]) -> Iterator[str]:
    for name, value in step.get_params(deep=False).items():
        reason = _disallowed(name, value, rules.get(name))
        if reason is not None:
            yield reason


def _disallowed(name: str, value: Any, rule: Allowed | None) -> str | None:
    if rule is None:
        return f"its parameter {name!r} is not among those known to learn nothing"
    if rule.holds(value):
        return None
    kind = f'"{value}"' if _is_setting(value) else f"a {type(value).__name__}"
    return f"its parameter {name!r} is {kind}, and only {rule.words} is known to learn nothing"


def _is_setting(value: Any) -> bool:
    """Whether a value is one of scikit-learn's own short settings, for example "mean" or True."""
    return type(value) is bool or value is None or (type(value) is str and value in _SETTINGS)


# Texts that a message may repeat; any other text could be a cell.
_SETTINGS = {"auto", "mean", "median", "most_frequent", "file", "filename"}


def _left_by_fit(step: Any, record: HarmlessStep) -> str | None:
    """Compare a fitted step with one of the same settings that was fitted on public rows.

    Its fit on other rows has to leave the same attributes, except those that follow from the
    form of the table, and has to leave its parameters as they were.
    """
    parameters = step.get_params(deep=False)
    found = {name: value for name, value in vars(step).items() if name not in parameters}
    for name in [name for name in found if name in record.state]:
        if not record.state[name].holds(found.pop(name)):
            return f"its attribute {name!r} is not {record.state[name].words}"
    names, width = vars(step).get("feature_names_in_"), vars(step).get("n_features_in_")
    if names is not None and len(names) != width:
        return "its attribute 'feature_names_in_' does not hold one name for each column"
    if not (found or hasattr(step, "n_features_in_")):
        return None
    try:
        twin = clone(step)
        before = bind_each(twin.get_params(deep=False))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            twin.fit(record.public_rows(step))
    except Exception as error:  # whatever a step raises whose state is not what a fit leaves
        kind = type(error).__name__
        return f"its state cannot be compared with that of a fit on public rows ({kind})"
    moved = changes(before, twin.get_params(deep=False))
    if moved:
        return f"a fit changes its parameters ({'; '.join(moved)})"
    expected = {n: v for n, v in vars(twin).items() if n not in parameters}
    expected = {n: _plain(v) for n, v in expected.items() if n not in record.state}
    differing = changes(bind_each(expected), {n: _plain(v) for n, v in found.items()})
    if differing:
        return f"its state is not that of a fit on public rows ({'; '.join(differing)})"
    return None


def _plain(value: Any) -> Any:
    """Arrays as lists: their types follow those of the table's columns."""
    if type(value) is np.ndarray:
        return [_plain(item) for item in value.tolist()]
    if type(value) in (list, tuple):
        return [_plain(item) for item in value]
    return value.item() if isinstance(value, np.generic) else value
