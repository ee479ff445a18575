"""A digest that binds a certificate to everything that one model's predictions depend on."""

from __future__ import annotations

import builtins
import hashlib
import struct
import types
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import Bunch

from skfairdp.exceptions import UnboundModelError
from skfairdp.receipts.digests import code, state

_LENGTH, _SHORT = struct.Struct("<q"), 4096  # bytes from which on a part is not copied
_MAPPINGS = (dict, Bunch, OrderedDict, types.MappingProxyType)
# Names of things that have moved since, as digests of earlier models have them.
_FORMER = {"skfairdp.receipts.digests.state.Recipe": "skfairdp.digests.state.Recipe"}
_CALLABLES = (type, types.FunctionType, types.BuiltinFunctionType, types.MethodType, np.ufunc)
_SLOTS = (
    types.ClassMethodDescriptorType,
    types.MethodDescriptorType,
    types.MethodWrapperType,
    types.WrapperDescriptorType,
)


class Bound(NamedTuple):
    """A digest, with the parts that it covers."""

    digest: str
    with_code: bool  # whether it covers byte code, which other versions of Python write otherwise
    libraries: frozenset[str]  # packages whose classes and functions are covered by their names


def state_digest(value: object) -> str:
    """SHA-256 over a value with all its parts, as "sha256:...": see docs/theory/certificate.md."""
    return bind(value).digest


def bind(value: object) -> Bound:
    """Digest a value; an UnboundModelError names parts that cannot be covered."""
    walk = _Walk()
    try:
        digest = walk.digest(value)
    except RecursionError:
        raise UnboundModelError("The model cannot be bound: its parts nest too deeply.") from None
    return Bound("sha256:" + digest.hex(), walk.with_code, frozenset(walk.libraries))


class _Walk:
    """One pass over a value; functions and classes are numbered as they are met."""

    def __init__(self) -> None:
        self.with_code = False
        self.libraries: set[str] = set()
        self._evaluating = False  # within what puts its nets into evaluation mode by itself
        self._depths: dict[int, int] = {}  # of the objects around the one that is looked at
        self._met: dict[int, tuple[int, Any]] = {}  # kept alive, so that no id comes twice
        self._of_libraries: dict[int, list[bytes]] = {}
        self._path: list[str] = []

    def digest(self, value: Any, label: str = "") -> bytes:
        """Digest of a value; `label` names it in messages."""
        atom = _atom(value)
        if atom is not None:
            return _joined(*atom)
        if id(value) in self._depths:
            return _joined(b"around", str(len(self._depths) - self._depths[id(value)]).encode())
        self._depths[id(value)] = len(self._depths)
        self._path += [label] if label else []
        try:
            return _joined(*self._parts(value))
        finally:
            del self._depths[id(value)], self._path[len(self._path) - bool(label) :]

    def _parts(self, value: Any) -> list[bytes]:
        kind = type(value)
        if kind in (list, tuple):
            return [kind.__name__.encode(), *map(self.digest, value)]
        if kind in _MAPPINGS:
            return [b"mapping", *self._pairs(value)]
        if kind in (set, frozenset):
            return [b"set", *sorted(self._alone(item) for item in value)]
        scalar = isinstance(value, np.generic) and kind.__module__ == "numpy"
        if scalar or kind in (np.ndarray, np.memmap):
            header, parts = state.content_of_array(value)
            return [header, *(p if isinstance(p, bytes) else self.digest(p) for p in parts)]
        content = state.content_of_pandas(value)
        if content is not None:
            return [kind.__name__.encode(), *map(self.digest, content)]
        if state.is_a(value, "torch", "Tensor"):
            return self._tensor(value)
        if isinstance(value, types.ModuleType):
            if not code.is_library(value.__name__):
                raise self._unbound(f"the whole module {value.__name__!r}")
            return [b"module", self._library(value.__name__)]
        if isinstance(value, types.CodeType):
            return [b"code", *map(self.digest, code.code_parts(value))]
        if isinstance(value, _CALLABLES) or code.library_name(value) is not None:
            return self._callable(value)
        if isinstance(value, _SLOTS):
            # The object that it is bound to, or its class.
            owner = "__self__" if isinstance(value, types.MethodWrapperType) else "__objclass__"
            return [b"slot", value.__name__.encode(), self.digest(getattr(value, owner))]
        inside = code.wrapped(value)
        if inside is not None:
            return [kind.__name__.encode(), *map(self.digest, inside)]
        return self._object(value)

    def _pairs(self, items: Mapping[Any, Any]) -> list[bytes]:
        parts = []
        for key, item in items.items():
            parts += [self.digest(key), self.digest(item, key if isinstance(key, str) else "")]
        return parts

    def _named(self, items: Mapping[str, Any]) -> list[bytes]:
        """Attributes: their names count, their order does not."""
        return self._pairs({name: items[name] for name in sorted(items)})

    def _alone(self, value: Any) -> bytes:
        """Digest that does not depend on values met before."""
        other = _Walk()
        other._path = [*self._path]
        digest = other.digest(value)
        self.with_code |= other.with_code
        self.libraries |= other.libraries
        return digest

    def _tensor(self, value: Any) -> list[bytes]:
        content = state.content_of_tensor(value)
        if content is None:
            raise self._unbound(f"a tensor of layout {value.layout} and type {value.dtype}")
        return [b"tensor", self.digest(type(value)), *content, *self._named(vars(value))]

    def _library(self, name: str) -> bytes:
        self.libraries.add(name.partition(".")[0])
        return _FORMER.get(name, name).encode()

    def _callable(self, value: Any) -> list[bytes]:
        if id(value) in self._of_libraries:
            return self._of_libraries[id(value)]
        if any(value is getattr(builtins, name) for name in code.UNKNOWABLE):
            raise self._unbound(f"a call of {value.__name__}, whose effect cannot be known")
        name = code.library_name(value)
        if name is not None:
            parts = [b"library", self._library(name)]
            if isinstance(value, type):
                parts += self._named(code.replaced_methods(value))
                self._of_libraries[id(value)] = parts
            return parts
        if isinstance(value, types.MethodType):
            return [b"method", self.digest(value.__func__), self.digest(value.__self__)]
        if isinstance(value, types.BuiltinFunctionType):
            if value.__self__ is None or isinstance(value.__self__, types.ModuleType):
                raise self._unbound(f"the compiled function {value.__name__!r}")
            return [b"method", value.__name__.encode(), self.digest(value.__self__)]
        if isinstance(value, np.ufunc):
            raise self._unbound(
                f"the ufunc {value.__name__!r}, which is neither numpy's nor scipy's: what it "
                "computes cannot be read"
            )
        if id(value) in self._met:
            return [b"met", str(self._met[id(value)][0]).encode()]
        self._met[id(value)] = (len(self._met), value)
        self.with_code = True
        function = isinstance(value, types.FunctionType)
        return self._function(value) if function else self._class(value)

    def _function(self, function: types.FunctionType) -> list[bytes]:
        try:
            used = code.names_used(function.__code__)
        except LookupError as error:
            raise self._unbound(
                f"the module {error.args[0]!r}, which {function.__qualname__} imports when it is "
                "called; import it before"
            ) from None
        own = {
            "code": function.__code__,
            "closure": [_contents(cell) for cell in function.__closure__ or ()],
            "defaults": function.__defaults__,
            "keywords": function.__kwdefaults__,
            "attributes": {k: v for k, v in vars(function).items() if k != "__wrapped__"},
        }
        known = [name for name in sorted(used) if name in function.__globals__]
        parts = [b"function", *self._named(own)]
        for name in known:
            for chain in sorted(used[name]):
                found = self._reached(function.__globals__[name], chain)
                parts += [".".join((name, *chain)).encode(), self.digest(found, name)]
        held: Mapping[str, Any] = getattr(function, "__builtins__", vars(builtins))
        for name in sorted(set(used) - set(known)):
            parts += [name.encode(), self.digest(held.get(name), function.__qualname__)]
        return parts

    def _reached(self, value: Any, chain: tuple[str, ...]) -> Any:
        """Objects that code reads from the user's modules; others unchanged."""
        for name in chain:
            if not isinstance(value, types.ModuleType) or code.is_library(value.__name__):
                break
            value = getattr(value, name, None)
        return value

    def _class(self, kind: type) -> list[bytes]:
        if not hasattr(kind, "__mro__") or not kind.__flags__ & (1 << 9):
            raise self._unbound(f"the compiled class {kind.__qualname__!r}")
        parts = [b"class", kind.__qualname__.encode(), self.digest(type(kind))]
        parts += map(self.digest, kind.__bases__)
        return [*parts, *self._named(code.class_members(kind))]

    def _object(self, value: Any) -> list[bytes]:
        evaluating, name = self._evaluating, code.library_name(type(value)) or ""
        # They put the nets in them into evaluation mode whenever they predict.
        self._evaluating = evaluating or name.startswith(("skfairdp.", "skorch."))
        try:
            attributes, stored = state.state_of(value, training=not self._evaluating)
        except Exception as error:  # whatever an object raises that refuses to be stored
            raise self._unbound(
                f"a {type(value).__module__}.{type(value).__qualname__} ({error})"
            ) from error
        parts = [b"object", self.digest(type(value)), *self._named(attributes)]
        parts += [self.digest(part) for part in stored]
        self._evaluating = evaluating
        return parts

    def _unbound(self, what: str) -> UnboundModelError:
        where = ".".join(self._path)
        return UnboundModelError(
            f"The model cannot be bound, because its predictions may depend on {what}"
            + (f" (found at {where})." if where else ".")
        )


def _atom(value: Any) -> tuple[bytes, bytes] | None:
    """Kind and content of a value without parts."""
    kind = type(value)
    if value is None or kind in (bool, int, type(Ellipsis), type(NotImplemented)):
        return kind.__name__.encode(), str(value).encode()
    if kind is float:
        return b"float", struct.pack("<d", value)
    if kind is complex:
        return b"complex", struct.pack("<dd", value.real, value.imag)
    if kind is str:
        return b"str", value.encode("utf-8", "surrogatepass")
    if kind in (bytes, bytearray):
        return kind.__name__.encode(), bytes(value)
    return None


def _joined(*parts: bytes) -> bytes:
    """Digest of parts, each with its length, so that no two sequences look alike."""
    digest = hashlib.sha256()
    for part in parts:
        length = _LENGTH.pack(len(part))
        if len(part) < _SHORT:  # one call is faster than two
            digest.update(length + part)
        else:
            digest.update(length)
            digest.update(part)
    return digest.digest()


def _contents(cell: Any) -> Any:
    try:
        return [cell.cell_contents]
    except ValueError:  # a name that was never given a value
        return []
