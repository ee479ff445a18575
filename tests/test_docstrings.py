"""Public docstrings follow numpydoc: every parameter described, in order, nothing invented."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from typing import Self

from numpydoc.validate import validate

import skfairdp
from skfairdp.base import PrivateEstimator
from skfairdp.foundation.parameters import BOOLEAN

CHECKS = {
    "GL02",  # closing quotes on a line of their own
    "GL03",  # no double blank lines
    "GL05",  # no tabs
    "GL06",  # unknown section
    "GL07",  # order of sections
    "GL08",  # no docstring
    "GL10",  # directive syntax
    "PR01",  # parameter not documented
    "PR02",  # documented parameter that does not exist
    "PR03",  # order of parameters
    "PR04",  # parameter without type
    "PR07",  # parameter without description
    "PR10",  # space before the colon
    "RT01",  # no Returns section
    "SS01",  # no summary
    "YD01",  # no Yields section
}
# A property or a one-line accessor without parameters says all in its summary.
OPTIONAL_WITHOUT_PARAMETERS = {"RT01"}


def public_objects() -> Iterator[str]:
    """Dotted names of what the packages offer, and of the public methods that are ours."""
    packages = ["skfairdp"] + [
        f"skfairdp.{module.name}"
        for module in pkgutil.iter_modules(skfairdp.__path__)
        if module.ispkg and not module.name.startswith("_")
    ]
    seen: set[int] = set()
    for package in packages:
        module = importlib.import_module(package)
        for name in getattr(module, "__all__", ()):
            value = getattr(module, name)
            if not (inspect.isclass(value) or inspect.isfunction(value)) or id(value) in seen:
                continue
            seen.add(id(value))
            yield f"{value.__module__}.{value.__qualname__}"
            if inspect.isclass(value):
                for attribute, member in vars(value).items():
                    if inspect.isfunction(member) and not attribute.startswith("_"):
                        yield f"{value.__module__}.{value.__qualname__}.{attribute}"


def gaps_of(name: str) -> list[str]:
    """What the docstring of a public object lacks."""
    report = validate(name)
    errors = {code: text for code, text in report["errors"] if code in CHECKS}
    # Private fields of a dataclass are arguments of its __init__, but nobody's to give.
    if not re.search(r"[{ ]'[^_]", errors.get("PR01", "{'x'")):
        del errors["PR01"]
    if "PR01" not in errors and not report["docstring"].count("Parameters\n"):
        errors = {k: v for k, v in errors.items() if k not in OPTIONAL_WITHOUT_PARAMETERS}
    return [f"{name} ({report['file']}:{report['file_line']}): {errors}"] if errors else []


def test_public_docstrings_are_complete() -> None:
    names = sorted(public_objects())
    assert len(names) > 200
    assert [gap for name in names for gap in gaps_of(name)] == []


class Base(PrivateEstimator):
    """Template.

    Parameters
    ----------
    depth : int
        Of the base.
    width : int
        Of the base too.

    Attributes
    ----------
    plan_, privacy_ : object
        What is released.
    loss_ : float
        Not released.
    """

    _parameters = {"depth": (BOOLEAN,), "width": (BOOLEAN,)}


class Derived(Base):
    """What it is.

    Parameters
    ----------
    depth : int, default=3
        Its own words.

    Examples
    --------
    Left as it is.
    """

    _parameters = {"own": (BOOLEAN,)}

    def __init__(self, width: str = "a", *, depth: int = 3, own: bool = True) -> None: ...

    def set_params(self, **params: object) -> Self:
        return self


def test_a_docstring_is_completed_from_the_bases() -> None:
    assert (
        Derived.__doc__
        == """What it is.

Parameters
----------
width : int, default="a"
    Of the base too.
depth : int, default=3
    Its own words.

Attributes
----------
groups_ : tuple or None
    Groups named at fit.
n_features_in_ : int
    Number of features.
feature_names_in_ : ndarray, shape (n_features,)
    Column labels, when all of them are strings.
privacy_ : PrivacyGuarantee or None
    What is guaranteed; None after ``epsilon=inf``.
receipt_ : Receipt
    Record of the fit: the quote that it kept to, and digests of its state.
plan_, privacy_ : object
    What is released.

Examples
--------
Left as it is.
"""
    )
    assert Derived.set_params.__doc__ == inspect.cleandoc(Base.set_params.__doc__ or "") + "\n"


def test_checks_of_parameters_come_from_the_bases() -> None:
    """Those of the signature alone."""
    assert list(Derived._parameters) == ["depth", "width", "own"]
