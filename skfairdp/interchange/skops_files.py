"""Fitted estimators as skops files, which hold no code that reading them would run.

skops knows scikit-learn's and numpy's types and asks about all others. What it cannot write by
itself, tensors and read-only mappings, is written here as the arrays and dicts that they are.
"""

from __future__ import annotations

import io as streams
import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from os import PathLike
from pathlib import Path
from pkgutil import resolve_name
from types import MappingProxyType
from typing import Any
from zipfile import ZipFile

import torch
from torch import Tensor, nn

# Rooms whose objects are made by filling them with what a file says. Their classes are not called,
# and their methods are not handed out: a constructor, or a method that is called for it, may open
# or write a file that the sender chose.
_TRUSTED = ("skfairdp.", "torch.nn.modules.", "dp_accounting.dp_event.")
_COMMANDS = "skfairdp.command_line."
# Classes of these may be named, as nets do.
_LAYERS = ("torch.nn.modules.", "skfairdp.engine.modules.")
_METHODS = ("skfairdp.inprocessing.functional.unit_ball.BoundedRows.transform",)


def save_skops(model: Any, path: str | PathLike[str]) -> None:
    """Write a fitted estimator, or a pipeline that holds one, as a skops file.

    Parameters
    ----------
    model : estimator
        Fitted or not. What it holds stays with it: a guarantee and, where it was given one, the
        ledger.
    path : str or path
        File to write.

    Raises
    ------
    ImportError
        Without skops.
    skops.io.exceptions.UnsupportedTypeException
        For a part that skops cannot write, such as a lambda in a net of one's own.

    Examples
    --------
    >>> from skfairdp.interchange import load_skops, save_skops
    >>> save_skops(model, "model.skops")  # doctest: +SKIP
    >>> model = load_skops("model.skops")  # doctest: +SKIP
    """
    _skops().dump(model, path)


def load_skops(path: str | PathLike[str], *, trusted: Sequence[str] = ()) -> Any:
    """Read an estimator from a skops file.

    Objects of this package, layers of torch and events of dp-accounting are trusted, and what
    skops trusts, where a file only fills them: what would call a class, or hands out a method or a
    class that is no layer, is not. `skops.io.get_untrusted_types` lists all that a file names. A
    model may hold the place of a ledger or of a shared table, which it opens when it is used: look
    at its parameters.

    Parameters
    ----------
    path : str or path
        File that `save_skops` wrote.
    trusted : sequence of str, default=()
        Further types that may be made, such as the class of a net of one's own. Look at their
        code first.

    Returns
    -------
    estimator
        Predicts what the saved one does; a certificate of that one verifies it.

    Raises
    ------
    ImportError
        Without skops.
    skops.io.exceptions.UntrustedTypesFoundException
        For a file with any other type. Nothing is made.
    """
    io, data = _skops(), Path(path).read_bytes()
    with ZipFile(streams.BytesIO(data)) as packed:
        called = set(_not_filled(json.loads(packed.read("schema.json"))))
    named = set(io.get_untrusted_types(data=data)) - called
    known = [name for name in named if name in _METHODS or _is_ours(name)]
    return io.loads(data, trusted=[*known, *trusted])


def _not_filled(node: Any) -> Iterator[str]:
    """Names of classes that a schema would do more with than fill an object."""
    if isinstance(node, dict):
        whose = f"{node.get('__module__')}.{node.get('__class__')}"
        kind, content = node.get("__loader__"), node.get("content")
        if kind == "MethodNode" and isinstance(content, dict):
            handed_out = f"{whose}.{content.get('func')}"
            if handed_out not in _METHODS:
                yield from (whose, handed_out)
        elif kind not in (None, "ObjectNode") and (
            kind != "TypeNode" or not whose.startswith(_LAYERS)
        ):
            yield whose
    children = node.values() if isinstance(node, dict) else node
    for child in children if isinstance(node, dict | list) else ():
        yield from _not_filled(child)


def _is_ours(name: str) -> bool:
    """Whether a name is that of a class in the trusted rooms."""
    if not name.startswith(_TRUSTED) or name.startswith(_COMMANDS):
        return False
    try:
        found = resolve_name(name)
    except (ImportError, AttributeError, ValueError):
        return False
    return isinstance(found, type) and f"{found.__module__}.".startswith(_TRUSTED)


def _skops() -> Any:
    """skops with functions that write tensors and read-only mappings."""
    # skops has no public way to add a type: see tests/interchange/test_skops_files.py.
    try:
        from skops import io
        from skops.io._audit import NODE_TYPE_MAPPING, Node, get_tree
        from skops.io._protocol import PROTOCOL
        from skops.io._utils import _get_state, get_state
    except ImportError as error:
        raise ImportError("skops files need pip install skfairdp[skops]") from error
    if ("TensorNode", PROTOCOL) in NODE_TYPE_MAPPING:
        return io

    class Wrapped(Node):
        """Node for a value that is stored as one of another type."""

        kinds: tuple[type, ...]

        def __init__(self, state: Any, context: Any, trusted: Any = None) -> None:
            super().__init__(state, context, trusted)
            self.trusted = self._get_trusted(trusted, list(self.kinds))
            self.children = {"content": get_tree(state["content"], context, trusted=trusted)}

    class TensorNode(Wrapped):
        kinds = (Tensor, nn.Parameter)

        def _construct(self) -> Tensor:
            tensor = torch.from_numpy(self.children["content"].construct())
            return nn.Parameter(tensor) if self.class_name == "Parameter" else tensor

    class MappingNode(Wrapped):
        kinds = (MappingProxyType,)

        def _construct(self) -> Any:
            return MappingProxyType(self.children["content"].construct())

    def wrapped(node: str, content: Callable[[Any], Any], value: Any, context: Any) -> dict:
        return {
            "__class__": type(value).__name__,
            "__module__": type(value).__module__,
            "__loader__": node,
            "content": get_state(content(value), context),
        }

    contents: dict[type[Wrapped], Any] = {TensorNode: lambda tensor: tensor.detach().cpu().numpy()}
    for node, content in (contents | {MappingNode: dict}).items():
        _get_state.register(node.kinds[0], partial(wrapped, node.__name__, content))
        NODE_TYPE_MAPPING[(node.__name__, PROTOCOL)] = node
    return io
