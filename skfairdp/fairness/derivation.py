"""Derivation of a claim's bound: its kind, the inputs it follows from, and its recomputation."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from numpy.typing import NDArray

from skfairdp.fairness.bounds.stored import largest_gap, rates_of
from skfairdp.fairness.kinds import KINDS
from skfairdp.foundation.parameters import COUNT, check_arguments

if TYPE_CHECKING:
    import numpy as np

    from skfairdp.fairness.guarantee import FairnessGuarantee


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


def recomputed_bound(claim: FairnessGuarantee, derivation: Derivation | None = None) -> float:
    """Bound that follows from a claim's counts and a derivation; None takes the claim's own."""
    how = derivation or claim.derivation
    if how is None:
        raise ValueError("the claim does not say what its bound follows from")
    inputs = how.values
    if "claims" in inputs:
        if claim.confidence_level is None:
            raise ValueError("a bound from counts of rows needs a confidence level")
        inputs["level"] = level_of_one(claim.confidence_level, inputs.pop("claims"))
    return KINDS[how.kind].bound(claim, **inputs)


def recomputed_estimate(claim: FairnessGuarantee) -> float | None:
    """Largest observed difference, from a claim's counts; None where two groups lack rows."""
    how = claim.derivation
    if not rates_of(claim) and not (how is not None and KINDS[how.kind].counts_in_inputs):
        return None
    return largest_gap(claim) if how is None else KINDS[how.kind].estimate(claim)


def recomputed_intervals(
    claim: FairnessGuarantee, confidence_level: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """Lower and upper ends of an interval of each cell, in the order of the claim's counts.

    None where the claim does not say what intervals follow from.
    """
    how = claim.derivation
    intervals = None if how is None else KINDS[how.kind].intervals
    return None if intervals is None else intervals(claim, confidence_level)


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
