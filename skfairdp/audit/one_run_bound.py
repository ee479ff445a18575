"""Lower bound on epsilon from guesses about one training run."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import binom

from skfairdp.audit.betting import largest
from skfairdp.foundation.documentation import completed_by
from skfairdp.foundation.parameters import COUNT, PROBABILITY, Number, check_values


def one_run_p_value(
    n_canaries: int, n_guesses: int, n_correct: int, *, epsilon: float, delta: float = 0.0
) -> float:
    """P-value of "the mechanism is (epsilon, delta)-DP" after one training run.

    Each of `n_canaries` records was put into the training rows by a fair coin of its
    own. An attacker who sees the released model guesses `n_guesses` of these coins and abstains
    on the others.

    Parameters
    ----------
    n_canaries : int
        Number of coins, m >= 1.
    n_guesses : int
        Number of guesses made, r, between 0 and `n_canaries`.
    n_correct : int
        Number of right guesses, v, between 0 and `n_guesses`.
    epsilon : float
        Privacy loss of the hypothesis, in nats, >= 0.
    delta : float, default=0.0
        Failure probability of the hypothesis, in [0, 1].

    Returns
    -------
    float
        Upper bound on the probability of at least `n_correct` right guesses under the
        hypothesis, for every rule of guessing.

    Raises
    ------
    ValueError
        If a count or a probability is outside its range.

    References
    ----------
    T. Steinke, M. Nasr, M. Jagielski, "Privacy Auditing with One (1) Training Run",
    NeurIPS 2023, Theorem 5.2.

    Examples
    --------
    >>> from skfairdp.audit import one_run_p_value
    >>> round(one_run_p_value(100, 100, 90, epsilon=1.0, delta=1e-5), 6)
    0.000109
    """
    check_values(
        n_canaries=(n_canaries, COUNT),
        n_guesses=(n_guesses, Number(0, n_canaries, integer=True)),
        n_correct=(n_correct, Number(0, n_guesses, integer=True)),
        epsilon=(epsilon, Number(0.0, finite=False)),
        delta=(delta, Number(0.0, 1.0)),
    )
    if n_correct == 0:
        return 1.0
    # Under the hypothesis a guess is right with probability e^eps / (1 + e^eps).
    success = 1.0 / (1.0 + math.exp(-epsilon))
    tail = float(binom.sf(n_correct - 1, n_guesses, success))
    if delta == 0.0:
        return min(1.0, tail)
    below = binom.cdf(np.arange(-1, n_correct), n_guesses, success)
    lost = np.arange(1, n_correct + 1)
    # P(v - i <= B < v) / i for i = 1..v; a larger i adds nothing to the numerator.
    share = float(np.max((below[-1] - below[n_correct - lost]) / lost))
    return min(1.0, tail + 2.0 * n_canaries * delta * share)


@completed_by(one_run_p_value)
def one_run_epsilon(
    n_canaries: int,
    n_guesses: int,
    n_correct: int,
    *,
    delta: float = 0.0,
    confidence_level: float = 0.95,
) -> float:
    """Lower confidence bound on epsilon from one training run; see `one_run_p_value`.

    Parameters
    ----------
    n_guesses : int
        Number of guesses made, r, fixed before the scores are seen.
    confidence_level : float, default=0.95
        Probability, over coins and training, that the bound is not above the true
        epsilon.

    Returns
    -------
    float
        Largest epsilon (in nats, >= 0) that the guesses refute; 0 if they refute none.

    Examples
    --------
    >>> from skfairdp.audit import one_run_epsilon
    >>> print(f"{one_run_epsilon(1000, 100, 95, delta=1e-5):.4f}")
    2.1652
    """
    check_values(confidence_level=(confidence_level, PROBABILITY))

    def refuted(epsilon: float) -> bool:
        p_value = one_run_p_value(n_canaries, n_guesses, n_correct, epsilon=epsilon, delta=delta)
        return p_value < 1.0 - confidence_level

    # An audit never needs to tell epsilon = 60 from more: the evidence for that would take about
    # e**60 guesses.
    return largest(refuted, 60.0)


def count_correct_guesses(
    scores: ArrayLike, included: ArrayLike, *, n_guesses: int | None = None
) -> int:
    """Guess which canaries were trained on, and count the right guesses.

    The ``n_guesses // 2`` canaries with the largest scores are guessed "in", as many
    with the smallest scores "out"; ties go by position.

    Parameters
    ----------
    scores : array-like of shape (m,)
        Score of every canary, computed without a look at `included`. Larger means
        "more likely trained on".
    included : array-like of shape (m,), bool
        The coins.
    n_guesses : int or None, default=None
        Number of guesses, fixed before the scores were seen; even. None: all that there can be.

    Returns
    -------
    int
        Number of right guesses.

    Raises
    ------
    ValueError
        If the arrays don't match, a score is not a number, or `n_guesses` is not allowed.

    Examples
    --------
    >>> from skfairdp.audit import count_correct_guesses
    >>> count_correct_guesses([0.1, 2.0, 0.3, 1.5], [False, True, False, True])
    4
    """
    score = np.asarray(scores, dtype=np.float64)
    coins = np.asarray(included, dtype=bool)
    if score.ndim != 1 or score.shape != coins.shape:
        raise ValueError(
            "scores and included must hold one entry for each canary; got the shapes "
            f"{score.shape} and {coins.shape}."
        )
    if np.isnan(score).any():
        raise ValueError("scores holds NaN: give a number for every canary.")
    guesses = len(score) // 2 * 2 if n_guesses is None else n_guesses
    if guesses < 0 or guesses > len(score) or guesses % 2:
        raise ValueError(
            f"n_guesses={n_guesses!r} must be an even number from 0 to {len(score)}, the number of "
            "canaries."
        )
    order = np.argsort(score, kind="stable")
    half = guesses // 2
    guessed_out, guessed_in = order[:half], order[len(order) - half :]
    return int(coins[guessed_in].sum() + (~coins[guessed_out]).sum())
