"""A digest that binds a certificate to the fitted state of one model."""

from __future__ import annotations

import dataclasses
import hashlib
import struct
from collections.abc import Callable, Mapping
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator

__all__ = ["state_digest"]

# Settings that change no prediction of a fitted model.
WITHOUT_EFFECT = {"ledger", "memory", "n_jobs", "progress", "random_state", "verbose"}


def state_digest(value: object) -> str:
    """SHA-256 over a value, such as a fitted estimator with all its parts.

    Equal for a pickled and restored model; another weight, threshold or state of an
    earlier pipeline step gives another digest.

    Parameters
    ----------
    value : object
        Estimators, arrays, frames, and lists, dicts and objects of them.

    Returns
    -------
    str
        "sha256:" and 64 hexadecimal digits.

    Examples
    --------
    >>> from sklearn.preprocessing import Normalizer
    >>> from skfairdp.certificate.digest import state_digest
    >>> state_digest(Normalizer("l1")) == state_digest(Normalizer("l2"))
    False
    """
    return "sha256:" + _digest(value, ()).hex()


def _digest(value: Any, above: tuple[int, ...]) -> bytes:
    """Digest of a value; `above` holds the ids of the objects that contain it."""
    if id(value) in above:
        return hashlib.sha256(b"cycle").digest()
    tag, parts = _canonical(value)
    digest = hashlib.sha256()
    _feed(digest.update, tag.encode())
    inside = (*above, id(value))
    for part in parts:
        _feed(digest.update, part if isinstance(part, bytes) else _digest(part, inside))
    return digest.digest()


def _feed(update: Callable[[bytes], None], content: bytes) -> None:
    update(struct.pack("<q", len(content)))
    update(content)


class _Ordered(list):
    """Parts whose order has no meaning; sorted by their digests."""


def _canonical(value: Any) -> tuple[str, list[Any]]:
    """Type tag and parts of a value; bytes are final, all else is digested in its turn."""
    if value is None or isinstance(value, bool | int | str | np.bool_ | np.integer):
        kind = type(value).__name__ if isinstance(value, str) or value is None else "number"
        return kind, [str(value).encode()]
    if isinstance(value, float | np.floating):
        return "float", [struct.pack("<d", float(value))]
    if isinstance(value, bytes | bytearray):
        return "bytes", [bytes(value)]
    if isinstance(value, np.ndarray):
        return _array(value)
    if isinstance(value, pd.DataFrame | pd.Series | pd.Index):
        return _pandas(value)
    if isinstance(value, list | tuple):
        return "sequence", list(value)
    if isinstance(value, Mapping):
        return "mapping", _sorted([_pair(k, v) for k, v in value.items()])
    if isinstance(value, set | frozenset):
        return "set", _sorted([_digest(item, ()) for item in value])
    if isinstance(value, type | FunctionType | BuiltinFunctionType | MethodType | np.ufunc):
        return "code", _code(value)
    if isinstance(value, np.random.RandomState | np.random.Generator | np.dtype):
        return "named", [repr(type(value)).encode()]
    if hasattr(value, "detach") and hasattr(value, "cpu"):  # a torch tensor, unseen by name
        return _array(value.detach().cpu().numpy())
    return _name(type(value)), [_state(value)]


def _pair(key: Any, value: Any) -> bytes:
    return _digest(key, ()) + _digest(value, ())


def _sorted(digests: list[bytes]) -> list[bytes]:
    return sorted(digests)


def _array(array: np.ndarray) -> tuple[str, list[Any]]:
    if array.dtype.hasobject:
        return f"objects {array.shape}", list(array.ravel())
    if array.dtype.names is not None:  # records may have padding between their fields
        return f"record {array.shape}", [(name, array[name]) for name in array.dtype.names]
    plain = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    return f"array {plain.dtype.str} {array.shape}", [plain.tobytes()]


def _pandas(value: Any) -> tuple[str, list[Any]]:
    if isinstance(value, pd.DataFrame):
        columns = [value.iloc[:, j].to_numpy() for j in range(value.shape[1])]
        return "frame", [value.columns.to_numpy(), value.index.to_numpy(), *columns]
    if isinstance(value, pd.Series):
        return "series", [value.index.to_numpy(), value.to_numpy()]
    return "index", [value.to_numpy()]


def _code(value: Any) -> list[Any]:
    """Name of a class or function, with the byte code of one that has no importable name."""
    parts: list[Any] = [_name(value).encode()]
    if isinstance(value, MethodType):
        parts.append(value.__self__)
    function = getattr(value, "__func__", value)
    if isinstance(function, FunctionType) and "<" in function.__qualname__:
        cells = [cell.cell_contents for cell in function.__closure__ or ()]
        parts += [function.__code__.co_code, list(map(repr, function.__code__.co_consts)), cells]
    return parts


def _name(value: Any) -> str:
    return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', repr(value))}"


def _state(value: Any) -> Any:
    """What an object consists of, without settings that change no prediction."""
    if hasattr(value, "_digest_state"):
        state = dict(value._digest_state())
        state["parameters"] = _effective(state.get("parameters", {}))
        return state
    if hasattr(value, "get_params") and hasattr(value, "initialize"):
        return _effective(value.get_params(deep=False))  # a net: its recipe, not its history
    if isinstance(value, BaseEstimator):
        return _effective(vars(value))
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if vars_of := getattr(value, "__dict__", None):
        return vars_of
    return _reduced(value)


def _effective(state: Mapping[str, Any]) -> dict[str, Any]:
    return {name: item for name, item in state.items() if name not in WITHOUT_EFFECT}


def _reduced(value: Any) -> Any:
    """What pickle would store of an object without a __dict__, e.g. a compiled tree."""
    reduced = value.__reduce_ex__(4)
    if isinstance(reduced, str):
        return reduced
    function, arguments, *rest = reduced
    items = [list(part) if hasattr(part, "__next__") else part for part in rest]
    return [_name(function), list(arguments), *items]
