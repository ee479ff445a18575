"""Claim of FairDP's Theorem 2, with its scope and its conditions."""

from __future__ import annotations

from typing import Any

from skfairdp.fairness.bounds.head_noise import GroupUpdate, Prediction, theorem2_bound
from skfairdp.fairness.derivation import Derivation
from skfairdp.fairness.guarantee import FairnessGuarantee
from skfairdp.fairness.kinds import KINDS, LAST_STEP
from skfairdp.fairness.notions import NOTIONS
from skfairdp.fairness.scopes import TRAINING
from skfairdp.foundation import assumptions
from skfairdp.foundation.documentation import completed_by

# Notions whose events do not depend on the true label; accuracy parity's do.
THEOREM2_NOTIONS = tuple(n.name for n in NOTIONS.values() if n.compares_predictions)


@completed_by(theorem2_bound)
def theorem2_guarantee(
    notion: str,
    *,
    groups: tuple,
    max_head_norm: float,
    max_grad_norm: float,
    learning_rate: float,
    noise_std: float,
    n_heads: int = 1,
    prediction: Prediction = "score_mean",
    group_update: GroupUpdate = "mean",
    expected_batch_size: float | None = None,
    n_groups: int | None = None,
) -> FairnessGuarantee:
    """State `theorem2_bound` as a guarantee with its scope and conditions.

    Parameters
    ----------
    notion : {"demographic_parity", "equal_opportunity", "equalized_odds"}
        The notion; the theorem does not cover accuracy parity.
    groups : tuple
        Group labels that the statement is about.

    Returns
    -------
    FairnessGuarantee
        With the scope "training mechanism" and no statistical error.

    Raises
    ------
    ValueError
        For a notion that the theorem does not cover, and as of `theorem2_bound`.
    """
    if notion not in THEOREM2_NOTIONS:
        raise ValueError(f"notion={notion!r} is not covered by Theorem 2: {[*THEOREM2_NOTIONS]}.")
    inputs: dict[str, Any] = {
        "max_head_norm": max_head_norm,
        "max_grad_norm": max_grad_norm,
        "learning_rate": learning_rate,
        "noise_std": noise_std,
        "n_heads": n_heads,
        "prediction": prediction,
        "group_update": group_update,
        "expected_batch_size": expected_batch_size,
        "n_groups": n_groups,
    }
    return FairnessGuarantee(
        notion=notion,
        bound=theorem2_bound(**inputs),
        scope=TRAINING,
        method=KINDS[LAST_STEP].methods[TRAINING],
        groups=groups,
        assumptions=assumptions.LAST_STEP,
        derivation=Derivation.of(LAST_STEP, **inputs),
    )
