"""Simulate what docs/theory/audit.md reports: pairs until a wrong claim is refuted.

The release is one Gaussian number whose noise is smaller than the claim allows for.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import brentq
from scipy.stats import beta, norm

from skfairdp.audit.betting import PairBets
from skfairdp.audit.declared import LARGE_DELTAS

AUDITS, LARGEST = 40, 2000
FIXED = (20, 30, 40, 50, 65, 80, 100, 130, 160, 200, 250, 300, 400, 500, 650, 800, 1000, 1300)
FIXED += (1600, 2000, 2500, 3000)


def excess(mu, epsilon, delta):
    """Delta that a Gaussian release needs at epsilon, less the one given."""
    first, second = mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu
    return norm.cdf(first) - math.exp(epsilon) * norm.cdf(second) - delta


def distance(epsilon, delta):
    """Sensitivity over noise of the Gaussian release that costs (epsilon, delta)."""
    return brentq(excess, 1e-3, 20.0, args=(epsilon, delta))


def profile(mu):
    """What the release costs at large deltas."""
    return [
        (brentq(lambda e, d=d: excess(mu, e, d), 0.0, 50.0) if excess(mu, 0.0, d) > 0 else 0.0, d)
        for d in LARGE_DELTAS
    ]


def stopped_after(rng, apart, claims, error):
    scores = rng.normal(size=(LARGEST + 20, 2)) + (apart, 0.0)
    bets = PairBets(np.quantile(scores[:20], np.linspace(0.05, 0.95, 13)))
    for count, pair in enumerate(scores[20:], start=1):
        bets.add(*pair)
        if count % 5 == 0 and bets.log_evidence(claims) >= -math.log(error):
            return count
    return LARGEST


def upper_rate(events, runs, error):
    """Limit of Clopper and Pearson, at half of the error."""
    return np.where(
        events == runs, 1.0, beta.isf(error / 2, events + 1, np.maximum(runs - events, 1))
    )


def power(rng, runs, apart, claims, error):
    """Share of refutations with the best of several thresholds and claims."""
    best = 0.0
    for threshold in np.linspace(0.0, apart + 1.5, 8):
        hits = rng.binomial(runs, norm.sf(threshold - apart), 60)
        alarms = rng.binomial(runs, norm.sf(threshold), 60)
        false_alarm, missed = upper_rate(alarms, runs, error), upper_rate(runs - hits, runs, error)
        for epsilon, delta in claims:
            # 1 - missed <= e^epsilon false_alarm + delta, and with the worlds exchanged.
            refuted = (1 - missed - delta > math.exp(epsilon) * false_alarm) | (
                1 - false_alarm - delta > math.exp(epsilon) * missed
            )
            best = max(best, float(refuted.mean()))
    return best


def fixed_number(rng, *case):
    return next((n for n in FIXED if power(rng, n, *case) >= 0.9), None)


def main():
    rng = np.random.default_rng(0)
    for stated in ((1.0, 1e-5), (1.0, 0.004), (2.0, 1e-5), (4.0, 1e-5)):
        mu = distance(*stated)
        claims = [stated, *profile(mu)]
        for factor in (4.0, 2.0):
            for error in (1e-3, 1e-5):
                stops = [stopped_after(rng, factor * mu, claims, error) for _ in range(AUDITS)]
                alone, all_of_it = (
                    fixed_number(rng, factor * mu, some, error) for some in ([stated], claims)
                )
                print(
                    f"epsilon {stated[0]:g}, delta {stated[1]:g}, noise / {factor:g}, "
                    f"error {error:g}: median {np.median(stops):g}, "
                    f"nine of ten {np.quantile(stops, 0.9):g}; fixed number {alone}, "
                    f"with large deltas {all_of_it}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
