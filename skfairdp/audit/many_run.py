"""An audit that trains many times, with one canary."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils.parallel import Parallel, delayed

from skfairdp.audit.canaries import Canaries, Score, log_odds
from skfairdp.audit.declared import claim_about, declare_sizes, fit_with
from skfairdp.audit.many_run_bound import many_run_epsilon, many_run_p_value
from skfairdp.audit.one_run import audit_one_run
from skfairdp.audit.result import AuditResult
from skfairdp.documentation import completed_by


@completed_by(audit_one_run)
def audit_many_runs(
    estimator: Any,
    X: ArrayLike,
    y: ArrayLike,
    canary: Canaries,
    *,
    sensitive_features: ArrayLike | None = None,
    n_runs: int = 500,
    n_threshold_runs: int = 100,
    score: Score = log_odds,
    confidence_level: float = 0.95,
    n_jobs: int | None = None,
) -> AuditResult:
    """Test a privacy claim with many training runs and one canary.

    `n_runs` clones are fitted on the rows and the canary, as many on the rows alone,
    all under one declared plan. Whether the canary was there is guessed by comparing
    its score with a threshold that was chosen on separate runs.

    Parameters
    ----------
    canary : Canaries
        Exactly one record.
    sensitive_features : array-like, Series or DataFrame of shape (n,) or (n, k), optional
        Groups of the rows of `X`; the canary then needs a group too.
    n_runs : int, default=500
        Runs of each kind that are counted. A perfect attack with N of each shows no
        more than about ``log(N / 3.7)``.
    n_threshold_runs : int, default=100
        Further runs of each kind, only to choose the threshold.
    score : callable, default=log_odds
        ``score(fitted, canary.X, canary.y)`` returns one number, larger for "in".
    n_jobs : int or None, default=None
        Fits that run side by side (joblib).

    Returns
    -------
    AuditResult
        Its claim as in `audit_one_run`.

    Raises
    ------
    ValueError
        If there is not exactly one canary, sizes cannot be declared, groups are missing,
        or an argument is outside what is allowed.

    Notes
    -----
    What a bound proves and what it does not: see `audit_one_run`.

    References
    ----------
    M. Nasr et al., "Adversary Instantiation: Lower Bounds for Differentially Private
    Machine Learning", IEEE S&P 2021 (arXiv 2101.04535).

    Examples
    --------
    >>> import numpy as np
    >>> from skfairdp import DPSGDClassifier
    >>> from skfairdp.audit import audit_many_runs, orthogonal_canaries
    >>> rng = np.random.default_rng(0)
    >>> X, canary = orthogonal_canaries(rng.normal(size=(100, 4)), 1)
    >>> model = DPSGDClassifier(epsilon=2.0, delta=1e-5, max_epochs=1)
    >>> y = rng.integers(0, 2, 100)
    >>> result = audit_many_runs(model, X, y, canary, n_runs=4, n_threshold_runs=2)
    >>> result.epsilon_lower_bound
    0.0
    """
    if len(canary) != 1:
        raise ValueError(f"canary must hold exactly one record; got {len(canary)}.")
    for name, runs in (("n_runs", n_runs), ("n_threshold_runs", n_threshold_runs)):
        if runs < 1:
            raise ValueError(f"{name} must be at least 1; got {runs!r}.")
    model = declare_sizes(estimator, X, y, canary, sensitive_features)
    total = n_runs + n_threshold_runs
    outcomes = Parallel(n_jobs=n_jobs)(
        delayed(_one_score)(model, X, y, canary, present, sensitive_features, score)
        for present in [True] * total + [False] * total
    )
    scores = np.array([value for value, _ in outcomes]).reshape(2, total)
    claimed, delta = outcomes[0][1]
    threshold = _threshold(scores[0, n_runs:], scores[1, n_runs:], delta, confidence_level)
    hits, false_alarms = (int((part[:n_runs] >= threshold).sum()) for part in scores)
    counts = (hits, n_runs, false_alarms, n_runs)
    return AuditResult(
        method="many-run",
        epsilon_lower_bound=many_run_epsilon(
            *counts, delta=delta, confidence_level=confidence_level
        ),
        claimed_epsilon=claimed,
        delta=delta,
        confidence_level=confidence_level,
        p_value=many_run_p_value(*counts, epsilon=claimed, delta=delta),
        settings={
            "n_runs": n_runs,
            "n_threshold_runs": n_threshold_runs,
            "n_true_positives": hits,
            "n_false_positives": false_alarms,
        },
    )


def _one_score(
    model: Any,
    X: ArrayLike,
    y: ArrayLike,
    canary: Canaries,
    present: bool,
    sensitive_features: ArrayLike | None,
    score: Score,
) -> tuple[float, tuple[float, float]]:
    guest = canary.take(np.array([present]))
    fitted = fit_with(clone(model), X, y, guest, sensitive_features)
    value = float(np.asarray(score(fitted, canary.X, canary.y)).item())
    return value, claim_about(fitted, canary)


def _threshold(
    inside: NDArray[np.float64], outside: NDArray[np.float64], delta: float, confidence_level: float
) -> float:
    """Threshold with the largest bound on these runs; with few runs, the best separation."""
    runs = len(inside)

    def merit(threshold: float) -> tuple[float, int]:
        hits, alarms = int((inside >= threshold).sum()), int((outside >= threshold).sum())
        bound = many_run_epsilon(
            hits, runs, alarms, runs, delta=delta, confidence_level=confidence_level
        )
        return bound, hits - alarms

    return max(np.concatenate([inside, outside]).tolist(), key=merit)
