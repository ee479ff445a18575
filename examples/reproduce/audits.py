"""Simulate what docs/theory/audit.md reports: pairs until a wrong claim is refuted.

The release is one Gaussian number whose noise is smaller than the claim allows for.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import brentq
from scipy.stats import beta, norm

from skfairdp.audit.betting import PairBets

AUDITS, LARGEST = 40, 2000
FIXED = (100, 130, 160, 200, 250, 300, 400, 500, 650, 800, 1000, 1300, 1600, 2000, 3000)


def distance(epsilon, delta):
    """Sensitivity over noise of the Gaussian release that costs (epsilon, delta)."""

    def excess(mu):
        first, second = mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu
        return norm.cdf(first) - math.exp(epsilon) * norm.cdf(second) - delta

    return brentq(excess, 1e-3, 20.0)


def stopped_after(rng, apart, epsilon, delta, error):
    scores = rng.normal(size=(LARGEST + 20, 2)) + (apart, 0.0)
    bets = PairBets(np.quantile(scores[:20], np.linspace(0.05, 0.95, 13)), delta)
    for count, pair in enumerate(scores[20:], start=1):
        bets.add(*pair)
        if count % 5 == 0 and bets.log_evidence(epsilon) >= -math.log(error):
            return count
    return LARGEST


def upper_rate(events, runs, error):
    """Limit of Clopper and Pearson, at half of the error."""
    return np.where(
        events == runs, 1.0, beta.isf(error / 2, events + 1, np.maximum(runs - events, 1))
    )


def power(rng, runs, apart, epsilon, delta, error):
    """Share of refutations with the best of several thresholds."""
    best = 0.0
    for threshold in np.linspace(0.0, apart + 1.5, 8):
        hits = rng.binomial(runs, norm.sf(threshold - apart), 60)
        alarms = rng.binomial(runs, norm.sf(threshold), 60)
        false_alarm, missed = upper_rate(alarms, runs, error), upper_rate(runs - hits, runs, error)
        # The claim: 1 - missed <= e^epsilon false_alarm + delta, and with the worlds exchanged.
        refuted = (1 - missed - delta > math.exp(epsilon) * false_alarm) | (
            1 - false_alarm - delta > math.exp(epsilon) * missed
        )
        best = max(best, float(refuted.mean()))
    return best


def main():
    rng = np.random.default_rng(0)
    for epsilon, delta in ((1.0, 1e-5), (1.0, 0.004), (2.0, 1e-5)):
        for factor in (4.0, 2.0):
            apart = factor * distance(epsilon, delta)
            for error in (1e-3, 1e-5):
                claim = (apart, epsilon, delta, error)
                stops = [stopped_after(rng, *claim) for _ in range(AUDITS)]
                fixed = next((n for n in FIXED if power(rng, n, *claim) >= 0.9), None)
                print(
                    f"epsilon {epsilon:g}, delta {delta:g}, noise / {factor:g}, error {error:g}: "
                    f"median {np.median(stops):g}, nine of ten {np.quantile(stops, 0.9):g}, "
                    f"fixed {fixed}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
