"""Docstrings of classes, completed from those of their bases.

A parameter, attribute or method that means the same in every class is described once, in the
docstring of the base that they share. A subclass describes what is its own, or what it means
otherwise; the rest is filled in when the class is made, in the order of the signature and
with the defaults of the signature.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])
_OF_ROWS = """{}

    Parameters
    ----------
    X : array-like, shape (n_samples, n_features)
        Rows to {}.

    Returns
    -------
    ndarray"""
# What is said of methods that several families have and no common base defines.
_METHODS = {
    "predict": _OF_ROWS.format("Predict the class of each row.", "classify")
    + """, shape (n_samples,)
        Entries of ``classes_``.""",
    "predict_proba": _OF_ROWS.format("Estimate class probabilities.", "score")
    + """ of float64, shape (n_samples, n_classes)
        Columns in the order of ``classes_``.""",
    "transform": """Transform rows.

    Parameters
    ----------
    X : array-like or DataFrame, shape (n_samples, n_features)
        Rows with the columns of ``fit``.""",
    "decision_function": _OF_ROWS.format(
        "Compute the logit of the second class, or log-probabilities of classes.", "score"
    )
    + " of float64, shape (n_samples,) or (n_samples, n_classes)",
}
_ORDER = (
    "", "Parameters", "Attributes", "Returns", "Yields", "Raises", "Warns", "See Also", "Notes",
    "References", "Examples",
)  # fmt: skip
Sections = dict[str, list[str]]  # lines of each section; those before the first one under ""


def complete_docstrings(cls: Any) -> None:
    """Fill in what the docstrings of a class and of its public methods leave to the bases.

    Attributes are taken over where the class lists them in ``_released`` or computes them.
    """
    bases = cls.__mro__[1:]
    names = (n for n in dir(cls) if not n.startswith("_"))
    computed = [n for n in names if isinstance(inspect.getattr_static(cls, n), property)]
    if cls.__dict__.get("__doc__"):
        constructor = None if cls.__init__ is object.__init__ else cls.__init__
        above = [base.__doc__ for base in bases]
        cls.__doc__ = _completed(
            cls.__doc__, constructor, above, (*getattr(cls, "_released", ()), *computed)
        )
    for name, member in vars(cls).items():
        method = getattr(member, "fn", member)  # what scikit-learn's available_if wraps
        if not inspect.isfunction(method) or name.startswith("_"):
            continue
        above = [getattr(base, name).__doc__ for base in bases if name in vars(base)]
        above.append(_METHODS.get(name))
        if doc := method.__doc__ or next(filter(None, above), None):
            method.__doc__ = _completed(doc, method, above)


def completed_by(*above: str | Callable[..., Any]) -> Callable[[Function], Function]:
    """Decorator: complete a docstring from other functions or a text, the first one first."""

    def complete(function: Function) -> Function:
        if function.__doc__:
            texts = [text if isinstance(text, str) else text.__doc__ for text in above]
            function.__doc__ = _completed(function.__doc__, function, texts)
        return function

    return complete


def _completed(
    doc: str,
    function: Callable[..., Any] | None,
    above: Iterable[str | None],
    released: Iterable[str] = (),
) -> str:
    sections = _sections(doc)
    inherited = [_sections(text) for text in above if text]
    if function is not None:
        own = known = _entries(sections.get("Parameters", []))
        for base in inherited:
            known = _entries(base.get("Parameters", [])) | known
        key_of = {name: key for key in known for name in key.split(", ")}
        lines = [
            line
            for parameter in inspect.signature(function).parameters.values()
            if key_of.get(parameter.name) in known
            for key in [key_of[parameter.name]]
            for line in _with_default(known.pop(key), parameter, inherited=key not in own)
        ]
        lines += [line for name, entry in known.items() if name in own for line in entry]
        sections["Parameters"] = lines
        for base in inherited:
            for title in {"Returns", "Raises"} & {*base} - {*sections}:
                sections[title] = base[title]
    attributes: dict[str, list[str]] = {}
    for part in reversed(inherited):
        entries = _entries(part.get("Attributes", []))
        attributes |= {k: v for k, v in entries.items() if {*k.split(", ")} & {*released}}
    attributes |= _entries(sections.get("Attributes", []))
    sections["Attributes"] = [line for entry in attributes.values() for line in entry]
    text = []
    for title in sorted(sections, key=_ORDER.index):
        lines = sections[title]
        if lines:
            text += [title, "-" * len(title), *lines, ""] if title else [*lines, ""]
    return "\n".join(text).rstrip() + "\n"


def _sections(doc: str) -> Sections:
    sections: Sections = {"": []}
    lines = inspect.cleandoc(doc).splitlines()
    current = sections[""]
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if line and following and set(following) == {"-"} and len(following) == len(line):
            current = sections.setdefault(line, [])
        elif current or (line and set(line) != {"-"}):  # no blank line or underline first
            current.append(line)
    for part in sections.values():
        while part and not part[-1]:
            part.pop()
    return sections


def _entries(lines: Iterable[str]) -> dict[str, list[str]]:
    """Lines of each entry by the names on its first line; "a, b : int" stands for both."""
    entries: dict[str, list[str]] = {}
    for line in lines:
        if line and not line[0].isspace():
            entries[line.split(" : ")[0].lstrip("*")] = [line]
        elif entries:
            entries[next(reversed(entries))].append(line)
    return entries


def _with_default(
    entry: list[str], parameter: inspect.Parameter, *, inherited: bool
) -> Iterator[str]:
    first, *rest = entry
    if inherited:
        first = first.split(", default=")[0]
    given = parameter.default is not parameter.empty
    if given and "default" not in first and "optional" not in first:
        default = parameter.default
        words = f'"{default}"' if isinstance(default, str) else repr(default)
        first += f", default={words}"
    yield first
    yield from rest
