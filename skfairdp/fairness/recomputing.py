"""Compute again, from what a claim stores, the figures that it states."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import erf

from skfairdp.fairness import derivation as by
from skfairdp.fairness.bounds import noisy_counts as noisy
from skfairdp.fairness.bounds import rate_gaps
from skfairdp.fairness.bounds.gated_answers import ANSWERED_OF_ASKED
from skfairdp.fairness.bounds.head_noise import theorem2_bound
from skfairdp.fairness.bounds.total_variation import total_variation, total_variation_bound
from skfairdp.fairness.derivation import ANSWERED, Derivation, level_of_one
from skfairdp.fairness.guarantee import CellCount, FairnessGuarantee

_Two = tuple[NDArray[np.float64], NDArray[np.float64]]


def recomputed_bound(claim: FairnessGuarantee, derivation: Derivation | None = None) -> float:
    """Bound that follows from a claim's counts and a derivation; None takes the claim's own."""
    how = derivation or claim.derivation
    if how is None:
        raise ValueError("the claim does not say what its bound follows from")
    inputs = how.values
    if "claims" in inputs:
        if claim.confidence_level is None:
            raise ValueError("a bound from counts of rows needs a confidence")
        inputs["level"] = level_of_one(claim.confidence_level, inputs.pop("claims"))
    return _BOUNDS[how.kind](claim, **inputs)


def recomputed_estimate(claim: FairnessGuarantee) -> float | None:
    """Largest observed difference, from a claim's counts; None where two groups lack rows."""
    counts = _rates(claim)
    if not counts:
        return None
    hits, rows = _grid(claim, counts)
    how = claim.derivation
    if how is not None and how.kind == by.TOTAL_VARIATION:
        return how.values["attenuation"] * total_variation(_codes(claim))
    rows = np.maximum(rows, 0.0)
    if how is not None and how.kind == by.COUNTED and not rows.all():
        return None
    return rate_gaps.gap_estimate(np.clip(hits, 0.0, rows), rows)


def recomputed_intervals(claim: FairnessGuarantee, confidence_level: float) -> _Two:
    """Interval of each cell of a claim from noisy counts, in the order of its counts."""
    assert claim.derivation is not None
    inputs = claim.derivation.values
    cells = _noisy_cells(claim, inputs["public_sizes"], inputs["terms"])
    ends = noisy.private_rate_intervals(cells, inputs["epsilon"], confidence_level=confidence_level)
    return ends[0].ravel(), ends[1].ravel()


def _rates(claim: FairnessGuarantee) -> tuple[CellCount, ...]:
    if claim.scope != ANSWERED:
        return claim.counts
    # How many of the queries a gate answered is a count that no rate is made of.
    return tuple(count for count in claim.counts if count.stratum != ANSWERED_OF_ASKED)


def _grid(claim: FairnessGuarantee, counts: tuple[CellCount, ...]) -> _Two:
    """Successes and trials, two arrays of shape (n_strata, n_groups)."""
    strata = list(dict.fromkeys(count.stratum for count in counts))
    wanted = [(stratum, group) for stratum in strata for group in claim.groups]
    if not counts or [(count.stratum, count.group) for count in counts] != wanted:
        raise ValueError("its counts are not one of every group in every stratum")
    both = np.array([(count.successes, count.trials) for count in counts], dtype=np.float64)
    hits, rows = both.T.reshape(2, len(strata), len(claim.groups))
    return hits, rows


def _whole(values: Any) -> NDArray[np.int64]:
    found = np.asarray(values, dtype=np.float64)
    if np.any(found != np.rint(found)):
        raise ValueError("counts must be whole numbers")
    return found.astype(np.int64)


def _plain_counts(claim: FairnessGuarantee) -> _Two:
    if any(count.noisy for count in claim.counts):
        raise ValueError("counts with noise need a bound that allows for the noise")
    return _grid(claim, claim.counts)


def _exact(claim: FairnessGuarantee, level: float) -> float:
    hits, rows = map(_whole, _plain_counts(claim))
    return float(rate_gaps.gap_upper_bound(hits, rows, confidence_level=level))


def _noisy_cells(claim: FairnessGuarantee, public_sizes: bool, terms: Any) -> noisy.NoisyCells:
    if not all(count.noisy for count in claim.counts):
        raise ValueError("a bound from noisy counts needs counts that are marked so")
    hits, rows = _grid(claim, claim.counts)
    summed = _whole(terms)
    if summed.shape != (len(hits), 2) or np.any(summed < 1):
        raise ValueError("'terms' must hold two numbers of noise terms for every stratum")
    if not public_sizes:
        return noisy.NoisyCells(_whole(hits), _whole(rows - hits), *summed.T)
    # With known rows only the difference of the two noisy counts is used, and it is stored.
    contrast = _whole(2.0 * hits - rows)
    nothing = np.zeros_like(contrast)
    return noisy.NoisyCells(contrast, nothing, summed[:, 0], summed[:, 1], _whole(rows))


def _own_models(claim: FairnessGuarantee, level: float, *, n_draws: int | None, **of: Any) -> float:
    hits, rows, apart = (
        np.asarray(of[name], dtype=np.float64) for name in ("sums", "trials", "distances")
    )
    if hits.ndim != 2 or hits.shape != rows.shape or apart.shape != hits.shape[1:]:
        raise ValueError("'sums', 'trials' and 'distances' must have an entry for every group")
    if np.any(hits < 0) or np.any(hits > rows) or np.any(apart < 0):
        raise ValueError("'sums' must lie between 0 and 'trials', and 'distances' above 0")
    return rate_gaps.own_models_bound(hits, rows, apart, error=1.0 - level, n_draws=n_draws)


def _counted(claim: FairnessGuarantee) -> float:
    hits, rows = _grid(claim, _rates(claim))
    if np.any(hits.sum(axis=0) != rows) or np.any(rows != rows[0]):
        raise ValueError("the answers of a group must add up to their number")
    if len(claim.groups) < 2 or not rows.all():
        return 1.0
    return float(np.ptp(hits / rows, axis=1).max())


def _codes(claim: FairnessGuarantee) -> NDArray[np.int64]:
    """Counts of codes, (n_strata, n_codes, n_groups)."""
    assert claim.derivation is not None
    n_codes = claim.derivation.values["n_codes"]
    hits, rows = map(_whole, _plain_counts(claim))
    if n_codes < 2 or len(hits) % n_codes:
        raise ValueError("its counts are not one of every code in every stratum")
    shape = -1, n_codes, hits.shape[1]
    if np.any(hits.reshape(shape).sum(axis=1, keepdims=True) != rows.reshape(shape)):
        raise ValueError("the codes of a group must add up to its rows")
    return hits.reshape(shape)


def _total_variation(
    claim: FairnessGuarantee, level: float, *, attenuation: float, n_codes: int
) -> float:
    if not 0.0 <= attenuation <= 1.0:
        raise ValueError("'attenuation' must lie between 0 and 1")
    return attenuation * total_variation_bound(_codes(claim), confidence_level=level)


def _release(claim: FairnessGuarantee, *, epsilon: float) -> float:
    if not epsilon >= 0.0:
        raise ValueError("'epsilon' of a release must be >= 0")
    return math.tanh(epsilon / 2.0)


def _weight_length(claim: FairnessGuarantee, *, norm: float, std: float) -> float:
    if not (norm >= 0.0 and std > 0.0):
        raise ValueError("'norm' must be >= 0 and 'std' > 0")
    return float(erf(norm / std / math.sqrt(2.0)))


_BOUNDS: dict[str, Callable[..., float]] = {
    by.EXACT: _exact,
    by.HOEFFDING: lambda claim, level: float(
        rate_gaps.score_gap_upper_bound(*_plain_counts(claim), confidence_level=level)
    ),
    by.NOISY_COUNTS: lambda claim, level, epsilon, **of: noisy.private_gap_upper_bound(
        _noisy_cells(claim, **of), epsilon, confidence_level=level
    ),
    by.OWN_MODELS: _own_models,
    by.TOTAL_VARIATION: _total_variation,
    by.COUNTED: _counted,
    by.RELEASE: _release,
    by.LAST_STEP: lambda claim, **inputs: theorem2_bound(**inputs),
    by.WEIGHT_LENGTH: _weight_length,
}
