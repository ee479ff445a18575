"""State of objects, as far as predictions depend on it, for digests."""

from __future__ import annotations

import copyreg
import struct
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from operator import attrgetter
from types import BuiltinFunctionType
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse
from sklearn.base import BaseEstimator

from skfairdp.receipts.digests.code import library_name

# Parameters of estimators of scikit-learn and of this package that change no prediction of a
# fitted one: where to log, how many workers to use, where fits are cached and charged.
# `random_state` counts among them for ours, whose predictions use a key drawn at fit; there
# are predictors elsewhere that draw from it when they predict.
WITHOUT_EFFECT = {
    "distributed", "ledger", "memory", "n_jobs", "progress", "random_state", "verbose"
}  # fmt: skip
_OF_OTHERS = WITHOUT_EFFECT - {"random_state"}
_STORING = ("__getstate__", "__reduce__", "__reduce_ex__")  # how a class says what is stored
_METHODS = ("decision_function", "predict", "predict_proba", "score", "transform")
# What a net of skorch keeps of its training.
_TRAINING = {"callbacks_", "history_", "init_context_", "verbose", "virtual_params_"}
# Hooks that never run when a module predicts.
_NO_FORWARD = ("_backward", "_state_dict", "_load_state_dict", "_is_full_backward_hook")


@dataclass(frozen=True, eq=False)
class Recipe:
    """Estimator that is digested by its class and parameters alone, fitted or not."""

    of: Any


def state_of(value: Any, *, training: bool = True) -> tuple[Mapping[str, Any], tuple[Any, ...]]:
    """Take an object apart that is neither a container nor an array, tensor, function or class.

    Result: attributes by name, and the state that compiled code stores in addition. `training`:
    whether the mode of a net counts. An object that cannot be stored raises its own error.
    """
    kind, name = type(value), library_name(type(value)) or ""
    if kind is Recipe:
        return _recipe(value.of), ()
    if name.startswith("skfairdp.") and hasattr(kind, "_digest_state"):
        return value._digest_state(), ()
    if is_a(value, "skorch", "NeuralNet"):
        left_out = {*_TRAINING, *(f"{name}_" for name in getattr(value, "_optimizers", ()))}
        return _without(_attributes(value), left_out), ()
    if is_a(value, "torch", "nn.Module"):
        return _without(_of_module(value), set() if training else {"training"}), ()
    if scipy.sparse.issparse(value):
        names = ("_shape", "data", "indices", "indptr", "row", "col", "coords", "offsets")
        return {name: vars(value)[name] for name in names if name in vars(value)}, ()
    if name and hasattr(value, "get_tree_stats"):  # a search tree counts its queries
        stored = value.__getstate__()
        return {}, (stored[:7], stored[11:])
    if isinstance(value, BaseEstimator):
        known = name.startswith(("sklearn.", "skfairdp."))
        return _without(_attributes(value), _OF_OTHERS if known else set()), ()
    own = any(getattr(kind, how) is not getattr(object, how) for how in _STORING)
    if name and (own or kind in copyreg.dispatch_table or _has_compiled_state(kind)):
        return shadows(value), _stored(value)
    return _attributes(value), _stored(value) if _has_compiled_state(kind) else ()


def shadows(value: Any) -> dict[str, Any]:
    """Functions that an object holds in place of its class's methods."""
    held = getattr(value, "__dict__", {})
    # Some classes pass calls on without having a method of that name.
    names = {name for name in held if name in _METHODS or hasattr(type(value), name)}
    return {name: held[name] for name in names if callable(held[name])}


def _recipe(value: Any) -> dict[str, Any]:
    if isinstance(value, list | tuple):
        return {"parts": [Recipe(item) for item in value]}
    if isinstance(value, type) or not hasattr(value, "get_params"):
        return {"value": value}
    parameters = _without(value.get_params(deep=False), WITHOUT_EFFECT)
    return {"class": type(value)} | {f"_{name}": Recipe(v) for name, v in parameters.items()}


def _without(state: Mapping[str, Any], names: set[str]) -> dict[str, Any]:
    return {name: item for name, item in state.items() if name not in names}


def _attributes(value: Any) -> dict[str, Any]:
    """Attributes in ``__dict__`` and in slots."""
    found: dict[str, Any] = {}
    for base in type(value).__mro__:
        slots = vars(base).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            private = name.startswith("__") and not name.endswith("__")
            name = f"_{base.__name__.lstrip('_')}{name}" if private else name
            if name not in ("__dict__", "__weakref__") and hasattr(value, name):
                found[name] = getattr(value, name)
    return found | getattr(value, "__dict__", {})


def _has_compiled_state(kind: type) -> bool:
    """Whether objects hold more than attributes: compiled code made some class of theirs."""
    while kind is not object:
        base, own = kind.__base__, vars(kind)
        assert base is not None
        slots = own.get("__slots__", ())
        pointers = 1 if isinstance(slots, str) else len(tuple(slots))
        pointers += ("__dict__" in own) + ("__weakref__" in own)
        room = base.__basicsize__ + pointers * struct.calcsize("P")
        if kind.__basicsize__ > room or kind.__itemsize__ != base.__itemsize__:
            return True
        if isinstance(own.get("__new__"), BuiltinFunctionType):
            return True
        kind = base
    return False


def _stored(value: Any) -> tuple[Any, ...]:
    """State of an object as pickle would store it."""
    said = copyreg.dispatch_table.get(type(value))
    reduced: Any = value.__reduce_ex__(4) if said is None else said(value)
    if isinstance(reduced, str):
        if library_name(type(value)) is None:
            raise TypeError(f"it is stored by its name alone, {reduced!r}")
        return (reduced,)
    return tuple(list(part) if hasattr(part, "__next__") else part for part in reduced)


def content_of_array(array: Any) -> tuple[bytes, list[Any]]:
    """Header and content of an array or scalar of numpy, of any dtype; bytes are final."""
    scalar = "scalar" if isinstance(array, np.generic) else "array"
    array = np.asarray(array)
    header = f"{scalar} {array.dtype.newbyteorder('<')!r} {array.shape}".encode()
    if array.dtype.names is not None:  # records may have padding between their fields
        return header, [array[name] for name in array.dtype.names]
    if array.dtype.hasobject:
        return header, [*array.ravel()]
    return header, [np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).tobytes()]


def content_of_pandas(value: Any) -> list[Any] | None:
    """Labels, types and values of a frame, series, index or array of pandas itself."""
    own = isinstance(value, pd.DataFrame | pd.Series | pd.Index | pd.api.extensions.ExtensionArray)
    if not own or library_name(type(value)) is None:
        return None
    if isinstance(value, pd.DataFrame):
        columns = [value.iloc[:, j].array for j in range(value.shape[1])]
        return [value.columns, value.index, columns, value.attrs]
    if isinstance(value, pd.Series):
        return [value.name, value.index, value.array, value.attrs]
    if isinstance(value, pd.MultiIndex):
        return [list(value.names), value.to_list()]
    if isinstance(value, pd.Index):
        return [value.name, value.array]
    if isinstance(value, pd.Categorical):
        return [value.codes, value.categories, value.ordered]
    return [repr(value.dtype), np.asarray(value)]


def is_a(value: object, library: str, kind: str) -> bool:
    """Whether a value is of a class of a library, which is not imported for this."""
    found = sys.modules.get(library)
    return found is not None and isinstance(value, attrgetter(kind)(found))


def content_of_tensor(tensor: Any) -> list[bytes] | None:
    """Type, shape and bytes of a tensor; None for one that is not stored number by number."""
    torch = sys.modules["torch"]
    if tensor.layout is not torch.strided or tensor.is_quantized or tensor.is_meta:
        return None
    plain = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous()
    content = plain.reshape(-1).view(torch.uint8).numpy().tobytes() if plain.numel() else b""
    return [str(plain.dtype).encode(), str(tuple(plain.shape)).encode(), content]


def _of_module(module: Any) -> dict[str, Any]:
    """Weights, buffers, parts and forward hooks; numbers of hooks differ between processes."""
    state = {n: v for n, v in _attributes(module).items() if not n.startswith(_NO_FORWARD)}
    for name in [name for name in state if name.startswith("_forward")]:
        hooks = state.pop(name)
        if name in ("_forward_hooks", "_forward_pre_hooks") and hooks:
            options = [n for n in vars(module) if n.startswith(name) and n != name]
            state[name] = [
                [hook, [key in vars(module)[option] for option in options]]
                for key, hook in hooks.items()
            ]
    return state
