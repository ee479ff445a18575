"""Pairs whose mutual information is known by another way."""

from __future__ import annotations

import numpy as np
from scipy import integrate, stats


def gaussian_pair(n_rows, correlation, rng):
    """Two correlated normal columns, and their information in nats."""
    left = rng.normal(size=n_rows)
    right = correlation * left + np.sqrt(1 - correlation**2) * rng.normal(size=n_rows)
    return left, right, -0.5 * np.log1p(-(correlation**2))


def shifted_normals(n_rows, shift, rng, n_noise=0):
    """A normal column shifted in one of two groups, columns of noise, and information in nats."""
    s = rng.integers(0, 2, n_rows)
    z = rng.normal(size=(n_rows, 1 + n_noise))
    z[:, 0] += shift * s

    def integrand(x):
        densities = stats.norm.pdf(x - np.array([0.0, shift]))
        return sum(0.5 * d * np.log(d / densities.mean()) for d in densities)

    information, _ = integrate.quad(integrand, -9.0, shift + 9.0)
    return z, s, information


def noisy_channel(n_rows, flip, n_values, rng):
    """A uniform symbol that is replaced by another one, and information in nats."""
    s = rng.integers(0, n_values, n_rows)
    other = (s + rng.integers(1, n_values, n_rows)) % n_values
    z = np.where(rng.random(n_rows) < flip, other, s)
    row = np.r_[1 - flip, np.full(n_values - 1, flip / (n_values - 1))]
    return z, s, np.log(n_values) + (row[row > 0] * np.log(row[row > 0])).sum()
