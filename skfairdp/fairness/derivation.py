"""Scope of a claim, and the evidence that its bound follows from in addition to its counts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from skfairdp.parameters import COUNT, check_arguments

EXACT = "exact test"
HOEFFDING = "Hoeffding"
NOISY_COUNTS = "noisy counts"
OWN_MODELS = "models of the groups"
COUNTED = "counted"
RELEASE = "local release"
TOTAL_VARIATION = "total variation of codes"
LAST_STEP = "last head step"
WEIGHT_LENGTH = "length of the weights"

_OF_LAST_STEP = (
    "max_head_norm", "max_grad_norm", "learning_rate", "noise_std", "n_heads", "prediction",
    "group_update", "expected_batch_size", "n_groups",
)  # fmt: skip
# Inputs of each kind. "claims": how many claims share the error probability.
KINDS: Mapping[str, tuple[str, ...]] = {
    EXACT: ("claims",),
    HOEFFDING: ("claims",),
    NOISY_COUNTS: ("claims", "epsilon", "public_sizes", "terms"),
    OWN_MODELS: ("claims", "sums", "trials", "distances", "n_draws"),
    COUNTED: (),
    RELEASE: ("epsilon",),
    TOTAL_VARIATION: ("claims", "attenuation", "n_codes"),
    LAST_STEP: _OF_LAST_STEP,
    WEIGHT_LENGTH: ("norm", "std"),
}
DEPLOYED = "deployed model"
AVERAGED = "averaged over its draws"
ANY_POPULATION = "any population"
TRAINING = "training mechanism"
DOWNSTREAM = "any downstream predictor"
DOWNSTREAM_LIKE = "any downstream predictor of such people"
ANSWERED = "answered queries"
# What each kind of derivation can show.
SHOWN: Mapping[str, tuple[str, ...]] = {
    DEPLOYED: (EXACT, HOEFFDING, NOISY_COUNTS),
    AVERAGED: (HOEFFDING, OWN_MODELS),
    ANY_POPULATION: (WEIGHT_LENGTH,),
    TRAINING: (LAST_STEP,),
    DOWNSTREAM: (RELEASE,),
    DOWNSTREAM_LIKE: (TOTAL_VARIATION,),
    ANSWERED: (COUNTED,),
}
SCOPES = tuple(SHOWN)
# Statements about people like those who were held out; the others hold for all people.
FROM_ROWS = (DEPLOYED, AVERAGED, DOWNSTREAM_LIKE)


@dataclass(frozen=True)
class Derivation:
    """Derivation of a bound, from which a reader of the claim can recompute it."""

    kind: str  # A key of `KINDS`
    # What the bound was computed from, beside the counts of the claim: numbers, texts, truth
    # values, None, and tuples of them
    inputs: tuple[tuple[str, Any], ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.kind, str) or self.kind not in KINDS:
            raise ValueError(f"A bound of kind {self.kind!r} is not known; use one of {[*KINDS]}.")
        found = tuple((name, _plain(value)) for name, value in self.inputs)
        if sorted(name for name, _ in found) != sorted(KINDS[self.kind]):
            raise ValueError(
                f"A bound of kind {self.kind!r} follows from {list(KINDS[self.kind])}, got "
                f"{[name for name, _ in found]}."
            )
        check_arguments({"claims": 1} | dict(found), claims=COUNT)
        object.__setattr__(self, "inputs", tuple(sorted(found)))

    @classmethod
    def of(cls, kind: str, **inputs: Any) -> Self:
        """Name a kind, a key of `KINDS`, and its inputs."""
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
    """Python numbers and tuples for whatever holds them."""
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
