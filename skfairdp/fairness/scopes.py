"""What a fairness claim is about."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from skfairdp.fairness import derivation as by

DEPLOYED = "deployed model"
AVERAGED = "averaged over its draws"
ANY_POPULATION = "any population"
TRAINING = "training mechanism"
DOWNSTREAM = "any downstream predictor"
DOWNSTREAM_LIKE = "any downstream predictor of such people"
ANSWERED = "answered queries"
# What each kind of derivation can show.
_SHOWN: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        DEPLOYED: (by.EXACT, by.HOEFFDING, by.NOISY_COUNTS),
        AVERAGED: (by.HOEFFDING, by.OWN_MODELS),
        ANY_POPULATION: (by.WEIGHT_LENGTH,),
        TRAINING: (by.LAST_STEP,),
        DOWNSTREAM: (by.RELEASE,),
        DOWNSTREAM_LIKE: (by.TOTAL_VARIATION,),
        ANSWERED: (by.COUNTED,),
    }
)
SCOPES = tuple(_SHOWN)
# Statements about people like those who were held out; the others hold for all people.
FROM_ROWS = (DEPLOYED, AVERAGED, DOWNSTREAM_LIKE)


def check_scope(
    scope: str, *, confidence_level: float | None, kind: str | None, whole_counts: bool
) -> None:
    """Refuse a scope that a claim cannot have, with successes that are whole numbers or noisy."""
    if scope not in SCOPES:
        raise ValueError(f"scope={scope!r} is not known; use one of {SCOPES}.")
    if (confidence_level is None) is (scope in FROM_ROWS):
        raise ValueError(
            f"confidence_level={confidence_level!r} contradicts scope={scope!r}: bounds of the "
            f"scopes {FROM_ROWS} are estimated from rows, and no others are."
        )
    if kind is not None and kind not in _SHOWN[scope]:
        raise ValueError(f"A bound of kind {kind!r} contradicts scope={scope!r}.")
    if scope == DEPLOYED and not whole_counts:
        raise ValueError(
            f"successes that are not whole numbers contradict scope={scope!r}, which counts "
            "answers."
        )
