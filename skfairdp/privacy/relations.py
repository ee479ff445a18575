"""Names of neighbouring relations and of what a guarantee protects."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

__all__ = ["ADJACENCIES", "PROTECTS", "check_name"]

ADJACENCIES: Mapping[str, str] = MappingProxyType(
    {
        "add-remove": "one record is added or removed; sizes were declared as public constants",
        "zero-out": (
            "one record is replaced by an empty record of the same group that contributes "
            "nothing; who is in which group, the group sizes and the set of class labels are "
            "treated as public"
        ),
        "replace-one": "one record is replaced by another record of the same group",
        "change-attribute": "the sensitive attribute of one record changes",
        "local": "one record is replaced by any other before it leaves its owner",
    }
)
PROTECTS: Mapping[str, str] = MappingProxyType(
    {
        "record": "everything about one training record",
        "sensitive_features": (
            "the sensitive attribute only; features and labels have no protection, and a "
            "feature that predicts the attribute reveals it"
        ),
        "released_representation": "one record behind its released representation",
    }
)


def check_name(parameter: str, name: str, allowed: Mapping[str, str]) -> None:
    """Raise a ValueError that names the parameter unless `name` is one of `allowed`."""
    if name not in allowed:
        raise ValueError(f"{parameter}={name!r} is not known: use one of {sorted(allowed)}")
