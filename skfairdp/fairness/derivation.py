"""Derivation of a claim's bound: its kind, and the inputs it follows from."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from skfairdp.fairness.kinds import KINDS
from skfairdp.foundation.parameters import COUNT, check_arguments


@dataclass(frozen=True)
class Derivation:
    """Derivation of a bound, from which a reader of the claim can recompute it."""

    kind: str  # A name of `KINDS`
    # What the bound was computed from, in addition to the counts of the claim: numbers, texts,
    # truth values, None, and tuples of them
    inputs: tuple[tuple[str, Any], ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.kind, str) or self.kind not in KINDS:
            raise ValueError(f"A bound of kind {self.kind!r} is not known; use one of {[*KINDS]}.")
        found = tuple((name, _plain(value)) for name, value in self.inputs)
        if sorted(name for name, _ in found) != sorted(KINDS[self.kind].inputs):
            raise ValueError(
                f"A bound of kind {self.kind!r} follows from {list(KINDS[self.kind].inputs)}, got "
                f"{[name for name, _ in found]}."
            )
        check_arguments({"claims": 1} | dict(found), claims=COUNT)
        object.__setattr__(self, "inputs", tuple(sorted(found)))

    @classmethod
    def of(cls, kind: str, **inputs: Any) -> Self:
        """Name a kind, a name of `KINDS`, and its inputs."""
        return cls(kind, tuple(inputs.items()))

    @property
    def values(self) -> dict[str, Any]:
        """Inputs by name."""
        return dict(self.inputs)

    def to_dict(self) -> dict[str, Any]:
        """Return JSON types."""
        return {"kind": self.kind, **{name: _listed(value) for name, value in self.inputs}}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """Rebuild a derivation from `to_dict`, perhaps after a round trip through JSON."""
        content = dict(document)
        return cls(content.pop("kind"), tuple(content.items()))


def level_of_one(confidence_level: float, claims: int) -> float:
    """Confidence of one of several claims that share the error, so that all hold together."""
    return 1.0 - (1.0 - confidence_level) / claims


def _plain(value: Any) -> Any:
    """Convert NumPy scalars and arrays to Python numbers and tuples."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return tuple(map(_plain, value))
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    raise ValueError(f"An input of a bound must be a finite number or a text; got {value!r}.")


def _listed(value: Any) -> Any:
    return [_listed(item) for item in value] if isinstance(value, tuple) else value
