"""Fitted estimators as skops files, which hold no code that reading them would run.

skops knows scikit-learn's and numpy's types and asks about all others. What it cannot write by
itself, tensors and read-only mappings, is written here as the arrays and dicts that they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pkgutil import resolve_name
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["load_skops", "save_skops"]

# Rooms whose classes only hold data and compute: none of them opens, runs or fetches anything
# when skops fills it with what a file says.
_TRUSTED = ("skfairdp.", "torch.nn.modules.", "dp_accounting.dp_event.")


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

    Classes of this package, layers of torch and events of dp-accounting are trusted, besides what
    skops trusts. `skops.io.get_untrusted_types` lists all that a file names.

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
    io = _skops()
    known = [name for name in io.get_untrusted_types(file=path) if _is_ours(name)]
    return io.load(path, trusted=[*known, *trusted])


def _is_ours(name: str) -> bool:
    """Whether a name is that of a class in the trusted rooms, or of a method: of no function."""
    if not name.startswith(_TRUSTED):
        return False
    try:
        found = resolve_name(name)
        of_class = "." in getattr(found, "__qualname__", "")
    except (ImportError, AttributeError):
        return False
    return (isinstance(found, type) or of_class) and f"{found.__module__}.".startswith(_TRUSTED)


def _skops() -> Any:
    """skops, told how tensors and read-only mappings are written."""
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
        """A value that another one is made into."""

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

    def wrapped(node: type[Wrapped], value: Any, content: Any, context: Any) -> dict[str, Any]:
        return {
            "__class__": type(value).__name__,
            "__module__": type(value).__module__,
            "__loader__": node.__name__,
            "content": get_state(content, context),
        }

    @_get_state.register(Tensor)
    def of_tensor(value: Tensor, context: Any) -> dict[str, Any]:
        return wrapped(TensorNode, value, value.detach().cpu().numpy(), context)

    @_get_state.register(MappingProxyType)
    def of_mapping(value: Any, context: Any) -> dict[str, Any]:
        return wrapped(MappingNode, value, dict(value), context)

    for node in (TensorNode, MappingNode):
        NODE_TYPE_MAPPING[(node.__name__, PROTOCOL)] = node
    return io
