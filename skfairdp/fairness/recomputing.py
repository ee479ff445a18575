"""Recomputation of a claim's figures from its stored counts and inputs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skfairdp.fairness.bounds.stored import largest_gap, rates_of
from skfairdp.fairness.derivation import Derivation, level_of_one
from skfairdp.fairness.guarantee import FairnessGuarantee
from skfairdp.fairness.kinds import KINDS


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
