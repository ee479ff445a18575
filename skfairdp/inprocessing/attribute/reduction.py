"""Reduction of fair learning to weighted learning, on groups that were randomised."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
from fairlearn.reductions import (
    DemographicParity,
    EqualizedOdds,
    ErrorRateParity,
    ExponentiatedGradient,
    TruePositiveRateParity,
    UtilityParity,
)
from numpy.typing import NDArray

from skfairdp.inprocessing.attribute.group_estimates import attenuated_bound
from skfairdp.privacy.mechanisms.randomized_response import RandomizedResponse

MOMENTS = {
    "demographic_parity": DemographicParity,
    "equal_opportunity": TruePositiveRateParity,
    "equalized_odds": EqualizedOdds,
    "accuracy_parity": ErrorRateParity,
}
# Labels among which each notion compares groups; all of them at once where it does not ask.
_LABELS_APART: dict[str, tuple[tuple[int, ...], ...]] = {
    "demographic_parity": ((0, 1),),
    "equal_opportunity": ((1,),),
    "equalized_odds": ((0,), (1,)),
    "accuracy_parity": ((0, 1),),
}


def reduced(
    base: Any,
    X: NDArray[Any],
    labels: NDArray[np.int64],
    reports: NDArray[np.int64],
    response: RandomizedResponse,
    *,
    notion: str,
    tolerance: float,
    max_iter: int,
) -> tuple[list[Any], NDArray[np.float64], float, int]:
    """Exponentiated gradient on the answers `reports`, with a bound made for them.

    Result: predictors of the mixture, their weights, the bound, and the number of iterations.
    """
    counts = np.zeros((2, response.n_values))
    np.add.at(counts, (labels, reports), 1.0)
    bound = min(
        attenuated_bound(counts[list(apart)].sum(axis=0), response, tolerance)
        for apart in _LABELS_APART[notion]
    )
    moment: UtilityParity = MOMENTS[notion](difference_bound=bound)
    reduction = ExponentiatedGradient(base, moment, max_iter=max_iter)
    with warnings.catch_warnings():
        # fairlearn's own use of pandas; nothing that a user could change.
        warnings.filterwarnings("ignore", category=DeprecationWarning, module="fairlearn")
        reduction.fit(X, pd.Series(labels), sensitive_features=pd.Series(reports))
    # The reduction itself holds the rows; the mixture is all that is needed.
    chosen = reduction.weights_[reduction.weights_ > 0.0]
    predictors = [reduction.predictors_[i] for i in chosen.index]
    weights = chosen.to_numpy(dtype=np.float64)
    return predictors, weights / weights.sum(), bound, int(reduction.last_iter_) + 1


def positive_votes(
    predictors: list[Any], weights: NDArray[np.float64], X: NDArray[Any]
) -> NDArray[np.float64]:
    """Probability of a positive prediction."""
    from skfairdp.engine.exact_products import exact_matmul

    votes = np.stack([np.asarray(p.predict(X), dtype=np.float64) for p in predictors], axis=1)
    return exact_matmul(votes, weights).clip(0.0, 1.0)
