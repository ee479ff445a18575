"""Parameters of estimators: declared in the class body, and checked by a table.

Every estimator lists what each of its parameters may be; the list is checked at
the start of ``fit`` (never in ``__init__``, where scikit-learn expects parameters
to be stored as they are).
"""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Hashable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import MISSING, Field, dataclass, field, make_dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Protocol, dataclass_transform, get_origin

import numpy as np
import pandas as pd

from skfairdp.foundation.documentation import complete_docstrings
from skfairdp.foundation.scikit_learn import BaseEstimator

# Attribute in which estimators of scikit-learn keep callbacks, which see every row of a fit.
CALLBACKS = "_skl_callbacks"


class Check(Protocol):
    """Condition on the value of a parameter."""

    def accepts(self, value: Any) -> bool:
        """Whether `value` is allowed."""

    def describe(self) -> str:
        """Describe the allowed values for an error message."""


@dataclass(frozen=True)
class Number:
    """A real number (or an integer) in an interval; NaN and bool never pass."""

    low: float = -math.inf
    high: float = math.inf
    low_open: bool = False
    high_open: bool = False
    integer: bool = False
    finite: bool = True

    def accepts(self, value: Any) -> bool:
        kind = Integral if self.integer else Real
        if isinstance(value, bool | np.bool_) or not isinstance(value, kind):
            return False
        try:
            number = float(value)
        except OverflowError:  # an integer beyond the floats
            return False
        if math.isnan(number) or (self.finite and math.isinf(number)):
            return False
        above = number > self.low if self.low_open else number >= self.low
        below = number < self.high if self.high_open else number <= self.high
        return above and below

    def describe(self) -> str:
        kind = "an integer" if self.integer else "a number"
        ends = (self.low, ">", self.low_open), (self.high, "<", self.high_open)
        finite = (
            (end, sign if out else f"{sign}=") for end, sign, out in ends if math.isfinite(end)
        )
        parts = [f"{sign} {end:g}" for end, sign in finite]
        return f"{kind} {' and '.join(parts)}" if parts else kind


@dataclass(frozen=True)
class Choice:
    """One of a few listed values."""

    values: tuple

    def accepts(self, value: Any) -> bool:
        return any(value is v or (type(value) is type(v) and value == v) for v in self.values)

    def describe(self) -> str:
        return " | ".join(repr(v) for v in self.values)


@dataclass(frozen=True)
class Kind:
    """An instance of one of a few types."""

    types: tuple[type, ...]
    words: str

    def accepts(self, value: Any) -> bool:
        return isinstance(value, self.types)

    def describe(self) -> str:
        return self.words


@dataclass(frozen=True)
class Labels:
    """A list of distinct public labels."""

    # Whether they name groups: labels of any hashable type, tuples for intersections of
    # attributes. Else they name classes: at least two, all texts or all numbers
    of_groups: bool = False

    def accepts(self, value: Any) -> bool:
        if not isinstance(value, Sequence | np.ndarray) or isinstance(value, str | bytes):
            return False
        if isinstance(value, np.ndarray) and value.ndim != 1:
            return False
        try:
            distinct = len(set(value)) == len(value)
        except TypeError:  # unhashable
            return False
        if self.of_groups:
            return distinct and len(value) > 0 and not any(map(is_missing, value))
        texts = all(isinstance(label, str) for label in value)
        numbers = all(isinstance(v, Real | np.bool_) and math.isfinite(v) for v in value)
        return distinct and len(value) > 1 and (texts or numbers)

    def describe(self) -> str:
        if self.of_groups:
            return "a list of different groups (such as ['a', 'b'], none of them missing)"
        return "a list of at least two different classes (all texts or all numbers, such as [0, 1])"


def is_missing(value: Any) -> bool:
    """Whether a label, or a part of one, is None, NaN, NaT or ``pd.NA``."""
    if isinstance(value, tuple | list):
        return any(map(is_missing, value))
    return value is None or pd.isna(value) is True


def plain_label(label: Hashable) -> Hashable:
    """Turn numpy scalars, also inside tuples, into Python ones."""
    if isinstance(label, tuple):
        return tuple(plain_label(part) for part in label)
    return label.item() if isinstance(label, np.generic) else label


NONE = Choice((None,))
# Below the limit the noise drowns any sum, and accounting takes minutes.
EPSILON = Number(1e-4, finite=False)
PROBABILITY = Number(0.0, 1.0, low_open=True, high_open=True)
CHANCE = Number(0.0, 1.0, high_open=True)
SHARE = Number(0.0, 1.0)
NOT_NEGATIVE = Number(0.0, finite=False)
PRICE = Number(0.0, low_open=True, finite=False)
POSITIVE = Number(0.0, low_open=True)
COUNT = Number(1, integer=True)
BOOLEAN = Kind((bool, np.bool_), "True or False")
MAPPING = Kind((Mapping,), "a mapping")
SEQUENCE = Kind((Sequence, np.ndarray), "a sequence")
CLASSES = Labels()
GROUPS = Labels(of_groups=True)
# Below the first limit epsilon is in the ten thousands and accountants overflow; above the
# second the model is noise.
NOISE_MULTIPLIER = Number(1e-2, 1e6)
# Squares and products with the noise stay far from where float32 ends.
NORM = Number(1e-12, 1e12)
# More than there are people, hundredfold.
DATASET_SIZE = Number(2, 1e12, integer=True)
GROUP_SIZE = Number(1, 1e12, integer=True)
RANDOM_STATE = (
    NONE,
    Number(low=0, high=2**32 - 1, integer=True),
    Kind((np.random.RandomState,), "a numpy RandomState"),
)


# What parameters may be that mean the same in every estimator.
SHARED: Mapping[str, Iterable[Check]] = {
    "epsilon": (EPSILON, NONE),
    "delta": (PROBABILITY,),
    "dataset_size": (DATASET_SIZE, NONE),
    "groups": (GROUPS, NONE),
    "classes": (CLASSES, NONE),
    "random_state": RANDOM_STATE,
    "reproducible_noise": (BOOLEAN,),
    "exact_noise": (BOOLEAN,),
    "progress": (BOOLEAN, NONE),
}

# Every signature ends with them, in this order: with those above from the groups on.
_LAST = (*list(SHARED)[3:], "ledger")


@dataclass(frozen=True)
class _Fixed:
    """Fixed value of a class attribute that is no parameter."""

    value: Any


def fixed(value: Any) -> Any:
    """Make an inherited parameter an attribute of a class, with one value for all instances."""
    return _Fixed(value)


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(field,))
class WithParameters(BaseEstimator):
    """Base of estimators that declare parameters in the class body, as dataclasses do.

    ``epsilon: float = 1.0`` is a parameter by keyword, ``field(kw_only=False)`` one by place; a
    subclass has those of its bases, and declares its own and those with another default.
    ``rate = fixed(0.5)``, or a property of that name, makes an inherited parameter an attribute of
    the class; a plain ``rate = 0.5`` is an error, since it reads like another default.
    ``field(init=False)`` is a fitted attribute: `_released` has those of a class and of its bases,
    unless the body lists all of them. Names with an underscore in front and a ``ClassVar`` are
    attributes of the class; a list or dict as a default is an error. An ``__init__``
    in the body is kept as it is, with all that it says; who inherits it writes another one.

    The constructor is written by `dataclasses`; the class is none, or a table of results that
    holds an estimator would take it apart (`dataclasses.asdict`, pandas).
    """

    _parameters: ClassVar[Mapping[str, Iterable[Check]]] = {}
    _released: ClassVar[tuple[str, ...]] = ()
    _fields: ClassVar[Mapping[str, tuple[Any, Any]]] = {}  # type and field of each parameter

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Write the constructor; add the bases' descriptions of parameters."""
        super().__init_subclass__(**kwargs)
        # Of several bases each has its own, and the first does not stand for all.
        names = [name for base in cls.__bases__ for name in getattr(base, "_released", ())]
        own = {name: given for name, given in vars(cls).items() if isinstance(given, Field)}
        names += [name for name, given in own.items() if not given.init and name[0] != "_"]
        cls._released = (*dict.fromkeys(vars(cls).get("_released", names)),)
        if "__init__" not in vars(cls):
            _write_constructor(cls)
        cls._parameters = _inherited_checks(cls)
        complete_docstrings(cls)


def _write_constructor(cls: Any) -> None:
    body = vars(cls)
    aside = {name: given.value for name, given in body.items() if isinstance(given, _Fixed)}
    for name, value in aside.items():
        setattr(cls, name, value)
    own: dict[str, tuple[Any, Any]] = {}
    for name, kind in _annotations(cls).items():
        given = body.get(name, MISSING)
        of_class = ClassVar in (kind, get_origin(kind))
        if of_class or str(kind).removeprefix("typing.").startswith("ClassVar"):
            continue
        if isinstance(given, Field):
            own[name] = kind, given
        elif given is not MISSING and name[0] != "_":
            own[name] = kind, field(default=given)
    fields: dict[str, tuple[Any, Any]] = {}
    for base in reversed(cls.__mro__[1:]):
        known = vars(base).get("_fields", {})
        # What a base gives otherwise is no parameter of those that come before it.
        fields = {n: f for n, f in fields.items() if n in known or n not in vars(base)} | known
    maker = next(base for base in cls.__mro__[1:] if "__init__" in vars(base))
    by_hand = maker is not object and "_fields" not in vars(maker)
    for name in body.get("_parameters", {}).keys() & body.keys() - own.keys() - aside.keys():
        if not by_hand and name not in fields and not isinstance(body[name], property):
            raise TypeError(
                f"{cls.__name__} checks {name!r} in _parameters and sets it without an annotation, "
                f"so that it would be no parameter: write '{name}: <type> = ...', or "
                f"'{name} = fixed(...)' for an attribute that is none."
            )
    inherited = fields == vars(maker).get("_fields", fields)  # not those of several bases
    if not own and (by_hand or (inherited and fields.keys().isdisjoint(body))):
        return
    if by_hand:
        raise TypeError(
            f"{cls.__name__} declares parameters in its body and inherits the __init__ that "
            f"{maker.__name__} wrote by hand, which does not know them: write one in "
            f"{cls.__name__} too."
        )
    for name, (_, given) in own.items():
        if type(given.default).__hash__ is None:
            raise TypeError(
                f"{cls.__name__} gives the parameter {name!r} a {type(given.default).__name__} as "
                "its default, which all instances would share: use a tuple or None, "
                "field(default_factory=...), or annotate it as ClassVar."
            )
    for name in fields.keys() & body.keys() - own.keys():
        if name not in aside and not isinstance(body[name], property):
            raise TypeError(
                f"{cls.__name__} sets {name!r} without an annotation, which would take the "
                f"parameter away that its bases have: write '{name}: <type> = ...' for another "
                f"default, or '{name} = fixed(...)' for an attribute that is no parameter."
            )
    fields = {n: known for n, known in fields.items() if n in own or n not in body} | own
    for name in own:
        delattr(cls, name)
    cls._fields = {name: known for name, known in fields.items() if known[1].init}
    order = sorted(cls._fields, key=lambda name: _LAST.index(name) + 1 if name in _LAST else 0)
    specified: list[tuple[str, Any, Any]] = []
    for name in order:
        kind, known = cls._fields[name]
        # A field of its own for each class, by keyword unless it says otherwise.
        specified.append((name, kind, copy(known)))
        specified[-1][2].kw_only = known.kw_only is MISSING or known.kw_only
    written: Any = make_dataclass(cls.__name__, specified)
    cls.__init__ = written.__init__
    cls.__init__.__qualname__ = f"{cls.__qualname__}.__init__"


def _annotations(cls: type) -> Mapping[str, Any]:
    if sys.version_info >= (3, 14):
        from annotationlib import Format, get_annotations

        return get_annotations(cls, format=Format.FORWARDREF)
    return vars(cls).get("__annotations__", {})


def _inherited_checks(cls: Any) -> dict[str, Iterable[Check]]:
    """Table of a class: its own entries and, for its other parameters, its bases'."""
    table: dict[str, Iterable[Check]] = {}
    for base in reversed(cls.__mro__):
        table |= vars(base).get("_parameters", {})
    used = {*inspect.signature(cls.__init__).parameters, *vars(cls).get("_parameters", {})}
    return {name: checks for name, checks in table.items() if name in used}


def check_parameters(estimator: Any, table: Mapping[str, Iterable[Check]]) -> None:
    """Check the parameters of an estimator: each is right if any of its checks accepts it.

    Estimators among them, at any depth, must have no callbacks.
    """
    for name, value in estimator.get_params(deep=True).items():
        if getattr(value, CALLBACKS, None):
            raise ValueError(
                f"The {name!r} parameter of {type(estimator).__name__} holds an estimator with "
                "callbacks of scikit-learn, which see every row of a fit, and keep rows or exact "
                "scores of them. Call set_callbacks() without arguments to remove them."
            )
    for name, checks in table.items():
        value = getattr(estimator, name)
        allowed = _unmet(value, checks)
        if allowed is not None:
            raise ValueError(
                f"The {name!r} parameter of {type(estimator).__name__} must be {allowed}; "
                f"got {given_text(value)}."
            )


def check_arguments(given: Mapping[str, Any], **table: Check | tuple[Check, ...]) -> None:
    """Check entries of a mapping, such as the fields of an object, against their checks."""
    for name, checks in table.items():
        check_values(**{name: (given[name], *(checks if isinstance(checks, tuple) else (checks,)))})


def check_values(**given: Any) -> None:
    """Check arguments of a function.

    Each keyword is an argument's name with a tuple of its value and the checks, of which one must
    accept it: ``check_values(share=(share, NONE, PROBABILITY))``.
    """
    for name, (value, *checks) in given.items():
        allowed = _unmet(value, checks)
        if allowed is not None:
            raise ValueError(f"{name}={given_text(value)} is not allowed: give {allowed}.")


_MOST_PARTS, _LONGEST_TEXT = 20, 200  # of a list, and letters of a text, that a message prints


def given_text(value: Any) -> str:
    """Print a value that was given, or its type alone where it may hold rows."""
    return f"a {type(value).__name__}" if _may_hold_rows(value) else repr(value)


def _may_hold_rows(value: Any) -> bool:
    """Whether a value is a table, a column, a long list or a long text, or has one in it.

    Of what has a length, or a shape, only short lists, sets, mappings and texts are printed.
    """
    if isinstance(value, str | bytes):
        return len(value) > _LONGEST_TEXT
    if isinstance(value, Mapping | list | tuple | set | frozenset):
        parts = (*value, *value.values()) if isinstance(value, Mapping) else value
        return len(value) > _MOST_PARTS or any(map(_may_hold_rows, parts))
    if isinstance(value, type):
        return False
    return hasattr(value, "__len__") or bool(getattr(value, "shape", ()))


def _unmet(value: Any, checks: Iterable[Check]) -> str | None:
    """Describe the allowed values if no check accepts `value`; None if one does."""
    checks = tuple(checks)
    if any(check.accepts(value) for check in checks):
        return None
    return " or ".join(check.describe() for check in checks)
