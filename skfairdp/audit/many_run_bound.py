"""What guesses about many training runs say about epsilon."""

from __future__ import annotations

import math

from scipy.stats import beta

from skfairdp.audit.hypothesis import boundary, check_count, check_loss, error_of
from skfairdp.documentation import completed_by

_LOG_SMALLEST_ERROR = -600.0


def many_run_epsilon(
    n_true_positives: int,
    n_with: int,
    n_false_positives: int,
    n_without: int,
    *,
    delta: float = 0.0,
    confidence_level: float = 0.95,
) -> float:
    """Lower confidence bound on epsilon from many independent training runs.

    The model was trained `n_with` times with one canary among its rows and `n_without`
    times without it; a rule fixed before guesses "with" or "without" for each run.

    Parameters
    ----------
    n_true_positives : int
        Runs with the canary that were guessed "with".
    n_with : int
        Runs with the canary, >= 1.
    n_false_positives : int
        Runs without the canary that were guessed "with".
    n_without : int
        Runs without the canary, >= 1.
    delta : float, default=0.0
        Declared failure probability of the mechanism.
    confidence_level : float, default=0.95
        Probability that the bound is not above the true epsilon. Each of the two error
        rates gets an exact one-sided bound (Clopper and Pearson) at half the error.

    Returns
    -------
    float
        Lower bound on epsilon in nats, >= 0.

    Raises
    ------
    ValueError
        If a count, a probability or the level is outside its range.

    References
    ----------
    M. Nasr et al., "Adversary Instantiation: Lower Bounds for Differentially Private
    Machine Learning", IEEE S&P 2021 (arXiv 2101.04535).

    Examples
    --------
    >>> from skfairdp.audit import many_run_epsilon
    >>> print(f"{many_run_epsilon(900, 1000, 100, 1000):.4f}")
    1.9897
    """
    _check_runs(n_true_positives, n_with, n_false_positives, n_without)
    check_loss(0.0, delta)
    counts = (n_true_positives, n_with, n_false_positives, n_without)
    return _many_run_bound(counts, delta, error_of(confidence_level))


@completed_by(many_run_epsilon)
def many_run_p_value(
    n_true_positives: int,
    n_with: int,
    n_false_positives: int,
    n_without: int,
    *,
    epsilon: float,
    delta: float = 0.0,
) -> float:
    """P-value of "the mechanism is (epsilon, delta)-DP" after many training runs.

    It is the smallest error at which `many_run_epsilon` exceeds `epsilon`.

    Parameters
    ----------
    epsilon : float
        Privacy loss of the hypothesis, in nats, >= 0.
    delta : float, default=0.0
        Failure probability of the hypothesis, in [0, 1].

    Returns
    -------
    float
        A valid p-value in (0, 1].

    Examples
    --------
    >>> from skfairdp.audit import many_run_p_value
    >>> many_run_p_value(900, 1000, 100, 1000, epsilon=1.5) < 1e-6
    True
    """
    _check_runs(n_true_positives, n_with, n_false_positives, n_without)
    check_loss(epsilon, delta)
    counts = (n_true_positives, n_with, n_false_positives, n_without)

    def not_refuted(log_error: float) -> bool:
        return _many_run_bound(counts, delta, math.exp(log_error)) <= epsilon

    return math.exp(boundary(not_refuted, _LOG_SMALLEST_ERROR, 0.0)[1])


def _many_run_bound(counts: tuple[int, int, int, int], delta: float, error: float) -> float:
    true_positives, n_with, false_positives, n_without = counts
    missed = _upper_rate(n_with - true_positives, n_with, error / 2.0)
    false_alarm = _upper_rate(false_positives, n_without, error / 2.0)
    # (eps, delta)-DP: 1 - missed <= e^eps false_alarm + delta, and with the worlds swapped.
    ratios = ((1.0 - missed - delta) / false_alarm, (1.0 - false_alarm - delta) / missed)
    return max([0.0, *(math.log(ratio) for ratio in ratios if ratio > 0.0)])


def _upper_rate(events: int, trials: int, error: float) -> float:
    """One-sided Clopper-Pearson bound: the true rate is above it with chance <= error."""
    return 1.0 if events == trials else float(beta.isf(error, events + 1, trials - events))


def _check_runs(n_true_positives: int, n_with: int, n_false_positives: int, n_without: int) -> None:
    for name, runs in (("n_with", n_with), ("n_without", n_without)):
        if runs < 1:
            raise ValueError(f"{name} must be at least 1; got {runs!r}.")
    check_count("n_true_positives", n_true_positives, "n_with", n_with)
    check_count("n_false_positives", n_false_positives, "n_without", n_without)
