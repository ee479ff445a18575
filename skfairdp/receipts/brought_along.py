"""Nets, teachers and other estimators among parameters, and the data that they may hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator

from skfairdp.foundation.assumptions import BROUGHT_ALONG
from skfairdp.privacy.guarantee import PrivacyGuarantee
from skfairdp.receipts.digests.code import library_name

_PLAIN = bool | int | float | str | bytes | np.number | np.bool_ | None
# A parameter with more numbers than this may be a statistic of rows, or rows.
_FEW_NUMBERS = 8
# Parameters of a skorch net that a private fit uses; it replaces or refuses the others.
_OF_NETS = ("module", "criterion", "optimizer", "lr")
# Objects of libraries that hold no data.
_SETTINGS = ("numpy.dtype", "numpy.random.mtrand.RandomState", "torch.device", "torch.dtype")


def parts_of(model: Any) -> dict[str, Any]:
    """Parameters of an estimator of this package that hold other estimators, or nets."""
    return {name: getattr(model, name, None) for name in (*model._nets, "estimator")}


def assuming_parts(stated: PrivacyGuarantee, parts: Mapping[str, Any]) -> PrivacyGuarantee:
    """Add what a guarantee assumes about estimators among the parameters, by name."""
    found = [text for name, part in parts.items() for text in _may_hold_data(part, name)]
    if not found:
        return stated
    said = BROUGHT_ALONG.format(parts=", ".join(dict.fromkeys(found)))
    return stated if said in stated.assumptions else stated.assuming(said)


def _may_hold_data(value: Any, name: str) -> Iterator[str]:
    """List, with their types, the parts of a value that may be made of rows; no value is named."""
    kind = type(value)
    own = library_name(kind) or ""
    if isinstance(value, _PLAIN) or f"{kind.__module__}.{kind.__name__}" in _SETTINGS:
        return
    if kind is FrozenEstimator:
        yield f"{name} ({type(value.estimator).__name__}, fitted before)"
    elif own.startswith("skfairdp."):
        for inner_name, part in parts_of(value).items() if hasattr(value, "_nets") else ():
            yield from _may_hold_data(part, f"{name}__{inner_name}")
    elif hasattr(kind, "get_params"):
        if not own:
            yield f"{name} ({kind.__name__}, code of your own)"
        given = value.get_params(deep=False)
        of_net = {"module", "criterion"} <= given.keys()
        for key, inner in given.items():
            if not of_net or key.partition("__")[0] in _OF_NETS:
                yield from _may_hold_data(inner, f"{name}__{key}")
    elif kind in (list, tuple, dict):
        yield from _may_hold_data_within(value, name)
    elif isinstance(value, type) or (callable(value) and not hasattr(value, "state_dict")):
        if library_name(value) is None:
            shown = getattr(value, "__name__", kind.__name__)
            yield f"{name} ({shown}, code of your own)"
    elif not (own and hasattr(value, "state_dict") and not value.state_dict()):
        yield f"{name} ({kind.__name__})"


def _may_hold_data_within(
    values: list[Any] | tuple[Any, ...] | dict[Any, Any], name: str
) -> Iterator[str]:
    items = list(values.items() if isinstance(values, Mapping) else enumerate(values))
    if sum(isinstance(one, int | float | np.number) for _, one in items) > _FEW_NUMBERS:
        yield f"{name} (a {type(values).__name__} of numbers)"
        return
    for key, one in items:
        # A step of a Pipeline, or the like, has a name.
        named = type(one) is tuple and len(one) > 1 and type(one[0]) is str
        yield from _may_hold_data(one[1] if named else one, f"{name}__{one[0] if named else key}")
