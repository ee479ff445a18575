"""An audit that trains once, with many canaries."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from skfairdp.audit.canaries import Canaries, Score, log_odds
from skfairdp.audit.declared import claim_about, declare_sizes, fit_with
from skfairdp.audit.one_run_bound import count_correct_guesses, one_run_epsilon, one_run_p_value
from skfairdp.audit.result import AuditResult


def audit_one_run(
    estimator: Any,
    X: ArrayLike,
    y: ArrayLike,
    canaries: Canaries,
    *,
    sensitive_features: ArrayLike | None = None,
    n_guesses: int | None = None,
    score: Score = log_odds,
    confidence_level: float = 0.95,
    random_state: int | np.random.Generator | None = None,
) -> AuditResult:
    """Test a privacy claim with one training run and many canaries.

    Each canary joins the training rows by a fair coin of its own. A clone of the
    estimator is fitted on them; then the coins are guessed from the scores of all
    canaries: `n_guesses`/2 largest "in", as many smallest "out".

    The sizes that the plan is made from are declared to the clone, all canaries
    counted, so that the plan is the same whatever the coins show.

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
        Even number of guesses. Fix it before any audit is run: the smallest p-value
        of several choices is none. None guesses a fifth of the canaries.
    score : callable, default=log_odds
        ``score(fitted, canaries.X, canaries.y)`` returns m numbers, larger for "in". It
        may look into the fitted model (a white-box audit is stronger), but never at the
        coins.
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
    A bound above the claim proves, at the confidence level, that the implementation or
    its accounting is wrong. A bound below the claim proves nothing: it says that this
    attack failed. Audits are a tool for testing. One-run audits are weak below about a
    thousand canaries, and cannot see more than ``log(r)`` or so with r guesses.

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
    correct = count_correct_guesses(
        score(fitted, canaries.X, canaries.y), included, n_guesses=guesses
    )
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
