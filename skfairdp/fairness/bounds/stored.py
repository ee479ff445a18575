"""Bounds and estimates that follow from the counts and inputs that a claim stores."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import erf

from skfairdp.fairness.bounds import noisy_counts as noisy
from skfairdp.fairness.bounds import rate_gaps
from skfairdp.fairness.bounds.total_variation import total_variation, total_variation_bound
from skfairdp.fairness.scopes import ANSWERED

if TYPE_CHECKING:
    from skfairdp.fairness.guarantee import CellCount, FairnessGuarantee

ANSWERED_OF_ASKED = "answered"  # Stratum of the counts of answered among all queries

_Two = tuple[NDArray[np.float64], NDArray[np.float64]]


def largest_gap(claim: FairnessGuarantee) -> float | None:
    """Largest observed difference of rates; None where two groups lack rows."""
    hits, rows = _grid(claim, rates_of(claim))
    rows = np.maximum(rows, 0.0)
    return rate_gaps.gap_estimate(np.clip(hits, 0.0, rows), rows)


def exact(claim: FairnessGuarantee, level: float) -> float:
    """Bound by an exact test of each pair of groups."""
    hits, rows = map(_whole, _plain_counts(claim))
    return float(rate_gaps.gap_upper_bound(hits, rows, confidence_level=level))


def hoeffding(claim: FairnessGuarantee, level: float) -> float:
    """Bound by Hoeffding's inequality, also for sums of probabilities."""
    hits, rows = _plain_counts(claim)
    return float(rate_gaps.score_gap_upper_bound(hits, rows, confidence_level=level))


def noisy_counts(
    claim: FairnessGuarantee, level: float, *, epsilon: float, public_sizes: bool, terms: Any
) -> float:
    """Bound from counts with discrete Laplace noise."""
    cells = _noisy_cells(claim, public_sizes, terms)
    return noisy.private_gap_upper_bound(cells, epsilon, confidence_level=level)


def noisy_intervals(claim: FairnessGuarantee, confidence_level: float) -> _Two:
    """Interval of each cell's rate from noisy counts, in the order of the claim's counts."""
    assert claim.derivation is not None
    inputs = claim.derivation.values
    cells = _noisy_cells(claim, inputs["public_sizes"], inputs["terms"])
    ends = noisy.private_rate_intervals(cells, inputs["epsilon"], confidence_level=confidence_level)
    return ends[0].ravel(), ends[1].ravel()


def rates_of(claim: FairnessGuarantee) -> tuple[CellCount, ...]:
    """Counts that are rates of the notion."""
    if claim.scope != ANSWERED:
        return claim.counts
    # How many of the queries a gate answered is no rate of the notion.
    return tuple(count for count in claim.counts if count.stratum != ANSWERED_OF_ASKED)


def _grid(claim: FairnessGuarantee, counts: tuple[CellCount, ...]) -> _Two:
    """Successes and trials, two arrays of shape (n_strata, n_groups)."""
    strata = list(dict.fromkeys(count.stratum for count in counts))
    wanted = [(stratum, group) for stratum in strata for group in claim.groups]
    if not counts or [(count.stratum, count.group) for count in counts] != wanted:
        raise ValueError("the claim must hold one count for each group in each stratum")
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
        raise ValueError("the counts are noisy, and a bound of this kind does not allow for noise")
    return _grid(claim, claim.counts)


def _noisy_cells(claim: FairnessGuarantee, public_sizes: bool, terms: Any) -> noisy.NoisyCells:
    if not all(count.noisy for count in claim.counts):
        raise ValueError("a bound from noisy counts needs counts that are marked as noisy")
    hits, rows = _grid(claim, claim.counts)
    summed = _whole(terms)
    if summed.shape != (len(hits), 2) or np.any(summed < 1):
        raise ValueError("'terms' must hold two numbers >= 1 for each stratum")
    if not public_sizes:
        return noisy.NoisyCells(_whole(hits), _whole(rows - hits), *summed.T)
    # With known rows only the difference of the two noisy counts is used, and it is stored.
    contrast = _whole(2.0 * hits - rows)
    nothing = np.zeros_like(contrast)
    return noisy.NoisyCells(contrast, nothing, summed[:, 0], summed[:, 1], _whole(rows))


def own_models(claim: FairnessGuarantee, level: float, *, n_draws: int | None, **of: Any) -> float:
    """Bound from the rates of each group's own smoothed model."""
    hits, rows, apart = (
        np.asarray(of[name], dtype=np.float64) for name in ("sums", "trials", "distances")
    )
    if hits.ndim != 2 or hits.shape != rows.shape or apart.shape != hits.shape[1:]:
        raise ValueError("'sums', 'trials' and 'distances' must have an entry for every group")
    if np.any(hits < 0) or np.any(hits > rows) or np.any(apart < 0):
        raise ValueError("'sums' must lie between 0 and 'trials', and 'distances' above 0")
    return rate_gaps.own_models_bound(hits, rows, apart, error=1.0 - level, n_draws=n_draws)


def counted_gap(claim: FairnessGuarantee) -> float | None:
    """Largest difference of counted shares; None where a group has no answer."""
    _, rows = _grid(claim, rates_of(claim))
    return largest_gap(claim) if rows.all() else None


def counted(claim: FairnessGuarantee) -> float:
    """Largest difference of the shares of a label among counted answers; 1 without answers."""
    hits, rows = _grid(claim, rates_of(claim))
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
        raise ValueError("the claim must hold one count for each code in each stratum")
    shape = -1, n_codes, hits.shape[1]
    if np.any(hits.reshape(shape).sum(axis=1, keepdims=True) != rows.reshape(shape)):
        raise ValueError("the codes of a group must add up to its rows")
    return hits.reshape(shape)


def codes_estimate(claim: FairnessGuarantee) -> float:
    """Observed total variation of released codes."""
    assert claim.derivation is not None
    return float(claim.derivation.values["attenuation"] * total_variation(_codes(claim)))


def codes(claim: FairnessGuarantee, level: float, *, attenuation: float, n_codes: int) -> float:
    """Bound on the total variation of released codes."""
    if not 0.0 <= attenuation <= 1.0:
        raise ValueError("'attenuation' must lie between 0 and 1")
    return attenuation * total_variation_bound(_codes(claim), confidence_level=level)


def local_release(claim: FairnessGuarantee, *, epsilon: float) -> float:
    """Bound on the total variation of locally private releases of any two people."""
    if not epsilon >= 0.0:
        raise ValueError("'epsilon' of a release must be >= 0")
    return math.tanh(epsilon / 2.0)


def weight_length(claim: FairnessGuarantee, *, norm: float, std: float) -> float:
    """Bound on the shift of a smoothed model's rates from weights of a known length."""
    if not (norm >= 0.0 and std > 0.0):
        raise ValueError("'norm' must be >= 0 and 'std' > 0")
    return float(erf(norm / std / math.sqrt(2.0)))
