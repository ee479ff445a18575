"""Audits by training: one run with many canaries, or many with one canary and an early stop."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone, is_regressor
from sklearn.utils.parallel import Parallel, delayed

from skfairdp.audit.betting import PairBets
from skfairdp.audit.canaries import Canaries, Score, closeness, log_odds
from skfairdp.audit.declared import claim_about, declare_sizes, fit_with, profile_of
from skfairdp.audit.one_run_bound import count_correct_guesses, one_run_epsilon, one_run_p_value
from skfairdp.audit.result import AuditResult
from skfairdp.foundation.documentation import completed_by
from skfairdp.foundation.parameters import COUNT, PROBABILITY, check_values

_Costs = tuple[tuple[float, float], ...]  # epsilon and delta, the stated one first


def audit_one_run(
    estimator: Any,
    X: ArrayLike,
    y: ArrayLike,
    canaries: Canaries,
    *,
    sensitive_features: ArrayLike | None = None,
    n_guesses: int | None = None,
    score: Score | None = None,
    confidence_level: float = 0.95,
    random_state: int | np.random.Generator | None = None,
) -> AuditResult:
    """Test a privacy claim with one training run and many canaries.

    Each canary joins the training rows by its own fair coin. A clone of the
    estimator is fitted on them; then the coins are guessed from the scores of all
    canaries: `n_guesses`/2 largest "in", as many smallest "out". Sizes are declared to the
    clone, all canaries counted, so that the plan is the same whatever the coins show.

    Parameters
    ----------
    estimator : estimator of this package
        Cloned, never changed. It must take `dataset_size` or `group_sizes`.
    X : array-like or DataFrame of shape (n, n_features)
        Rows that are always trained on.
    y : array-like of shape (n,)
        Their labels.
    canaries : Canaries
        The m records to hide; see `orthogonal_canaries`. No two may be one person.
    sensitive_features : array-like, Series or DataFrame of shape (n,) or (n, k), optional
        Groups of the rows of `X`; the canaries then need groups too.
    n_guesses : int or None, default=None
        Even number of guesses, fixed before any audit is run. None guesses a fifth of the canaries.
    score : callable or None, default=None
        None is `log_odds` of a classifier, and `closeness` of a regressor.
        ``score(fitted, canaries.X, canaries.y)`` returns m numbers, larger for "in". It may look
        into the fitted model (a white-box audit is stronger), but never at the coins.
    confidence_level : float, default=0.95
        Level of the lower bound.
    random_state : int, Generator or None, default=None
        Draws the coins.

    Returns
    -------
    AuditResult
        If all canaries are of one group and the guarantee states an epsilon for it,
        that is the claim; otherwise it is the guarantee's epsilon.

    Raises
    ------
    ValueError
        If sizes cannot be declared, groups are missing, or an argument is outside what
        is allowed.

    Notes
    -----
    What a bound proves and what it does not: see `skfairdp.audit`. One-run audits are weak
    below about a thousand canaries, and cannot see more than ``log(r)`` or so with r guesses.

    References
    ----------
    T. Steinke, M. Nasr, M. Jagielski, "Privacy Auditing with One (1) Training Run",
    NeurIPS 2023.

    Examples
    --------
    >>> import numpy as np
    >>> from skfairdp import DPSGDClassifier
    >>> from skfairdp.audit import audit_one_run, orthogonal_canaries
    >>> rng = np.random.default_rng(0)
    >>> X, canaries = orthogonal_canaries(rng.normal(size=(200, 4)), 100)
    >>> model = DPSGDClassifier(epsilon=2.0, delta=1e-5, max_epochs=2)
    >>> result = audit_one_run(model, X, rng.integers(0, 2, 200), canaries, confidence_level=0.999)
    >>> result.refutes_claim
    False
    """
    m = len(canaries)
    if m < 2:
        raise ValueError(f"canaries must hold at least two records; got {m}.")
    guesses = max(2, m // 5 // 2 * 2) if n_guesses is None else n_guesses
    included = np.random.default_rng(random_state).random(m) < 0.5
    model = declare_sizes(estimator, X, y, canaries, sensitive_features)
    fitted = fit_with(model, X, y, canaries.take(included), sensitive_features)
    scores = (score or _usual(model))(fitted, canaries.X, canaries.y)
    correct = count_correct_guesses(scores, included, n_guesses=guesses)
    claimed, delta = claim_about(fitted, canaries)
    return AuditResult(
        method="one-run",
        epsilon_lower_bound=one_run_epsilon(
            m, guesses, correct, delta=delta, confidence_level=confidence_level
        ),
        claimed_epsilon=claimed,
        delta=delta,
        confidence_level=confidence_level,
        p_value=one_run_p_value(m, guesses, correct, epsilon=claimed, delta=delta),
        settings={"n_canaries": m, "n_guesses": guesses, "n_correct": correct},
    )


@completed_by(audit_one_run)
def audit_many_runs(
    estimator: Any,
    X: ArrayLike,
    y: ArrayLike,
    canary: Canaries,
    *,
    sensitive_features: ArrayLike | None = None,
    n_runs: int = 500,
    n_threshold_runs: int = 20,
    score: Score | None = None,
    confidence_level: float = 0.95,
    n_jobs: int | None = None,
) -> AuditResult:
    """Test a privacy claim with many training runs and one canary.

    Clones are fitted in pairs, on the rows with the canary and on the rows alone, all under
    one declared plan. Each pair is a bet against the claim on how the canary's scores compare
    with thresholds from separate runs. Claimed is epsilon at delta, and what the stated event
    costs at deltas of .01 to .3, where fewer pairs tell. The audit stops when this is refuted.

    Parameters
    ----------
    canary : Canaries
        Exactly one record.
    n_runs : int, default=500
        Pairs at most. A perfect attack with N of them shows no more than about
        ``log(N / 4)``.
    n_threshold_runs : int, default=20
        Further pairs, only to choose the thresholds.
    score : callable or None, default=None
        None is `log_odds` of a classifier, and `closeness` of a regressor.
        ``score(fitted, canary.X, canary.y)`` returns one number, larger for "in".
    confidence_level : float, default=0.95
        Level of the lower bound, whenever the audit stops.
    n_jobs : int or None, default=None
        Fits that run side by side (joblib).

    Returns
    -------
    AuditResult
        The bound is about the claim's own delta: it may be below a claim that was refuted at
        another one, and is little above it otherwise. The settings count the pairs, and those
        whose score was larger, or smaller, with the canary.

    Notes
    -----
    What a bound proves and what it does not: see `skfairdp.audit`. docs/theory/audit.md derives it.

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
    check_values(
        n_runs=(n_runs, COUNT),
        n_threshold_runs=(n_threshold_runs, COUNT),
        confidence_level=(confidence_level, PROBABILITY),
    )
    model = declare_sizes(estimator, X, y, canary, sensitive_features)
    attack, error = score or _usual(model), 1.0 - confidence_level

    def scored(present: bool) -> tuple[float, _Costs]:
        fitted = fit_with(clone(model), X, y, canary.take(np.array([present])), sensitive_features)
        value = float(np.asarray(attack(fitted, canary.X, canary.y)).item())
        return value, (claim_about(fitted, canary), *profile_of(fitted, canary))

    def pairs(n: int) -> list[tuple[float, float]]:
        found = Parallel(n_jobs=n_jobs)(delayed(scored)(one) for one in (True, False) * n)
        stated.update(claims for _, claims in found)
        scores = [value for value, _ in found]
        return list(zip(scores[::2], scores[1::2], strict=True))

    stated: set[_Costs] = set()
    first = pairs(n_threshold_runs)
    claims = [max(found) for found in zip(*stated, strict=False)]
    claimed, delta = claims[0]
    bets = PairBets(np.quantile(first, np.linspace(0.05, 0.95, 13)))
    seen: list[tuple[float, float]] = []
    largest = 0.0
    together = 1 if n_jobs in (None, 1) else 8
    while len(seen) < n_runs and largest < -math.log(error):
        for pair in pairs(min(together, n_runs - len(seen))):
            seen.append(pair)
            bets.add(*pair)
            largest = max(largest, bets.log_evidence(claims))
    apart = np.array([present - absent for present, absent in seen])
    return AuditResult(
        method="many-run",
        epsilon_lower_bound=bets.epsilon_lower_bound(error, delta),
        claimed_epsilon=claimed,
        delta=delta,
        confidence_level=confidence_level,
        p_value=math.exp(-largest),
        settings={
            "n_runs": len(seen),
            "n_threshold_runs": n_threshold_runs,
            "n_larger": int((apart > 0).sum()),
            "n_smaller": int((apart < 0).sum()),
        },
    )


def _usual(model: Any) -> Score:
    """Score of the canaries where none is given."""
    return closeness if is_regressor(model) else log_odds
