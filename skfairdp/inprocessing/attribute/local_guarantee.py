"""What a fit promises in which each person randomised the attribute first."""

from __future__ import annotations

import math
from functools import partial

from skfairdp.assumptions import (
    ASKED_ANEW,
    ATTACKER,
    OTHERS_PUBLIC,
    RANDOMIZED_FIRST,
    RANDOMNESS,
    VALIDATION,
    closed_sets,
    seed_known,
)
from skfairdp.privacy.guarantee import PrivacyGuarantee
from skfairdp.privacy.mechanisms.randomized_response import RandomizedResponse
from skfairdp.privacy.noise import NoiseSource


def local_guarantee(
    response: RandomizedResponse,
    noise: NoiseSource,
    group_at_predict: str,
    *,
    declared: bool,
) -> PrivacyGuarantee | None:
    """State it; `declared` says whether the set of groups was."""
    void = partial(
        PrivacyGuarantee.void, adjacency="change-attribute", protects="sensitive_features"
    )
    if math.isinf(response.epsilon):
        return None
    if noise.reproducible:
        return void(seed_known("the randomised response", "undo it"))
    (groups_known,) = closed_sets(groups=declared)
    later = {
        "none": "predictions need no group",
        "randomized": "the group of a person who is predicted is randomised as well, and "
        "costs that person epsilon at each prediction",
        "raw": "the group of a person who is predicted is used as it is: nothing protects it",
    }[group_at_predict]
    return PrivacyGuarantee(
        epsilon=response.spent,
        delta=0.0,
        adjacency="change-attribute",
        protects="sensitive_features",
        accountant="pure: k-ary randomised response, exact in integers",
        assumptions=(
            RANDOMIZED_FIRST,
            f"{groups_known}; {OTHERS_PUBLIC}",
            RANDOMNESS.format(name=noise.name, attacker=ATTACKER),
            ASKED_ANEW,
            later,
            VALIDATION,
        ),
    )
