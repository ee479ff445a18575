"""All prefix sums of a histogram under Gaussian noise, through a factorisation.

Let A be the lower-triangular matrix of ones, so that A h are the prefix sums of a histogram h.
With A = L L, L lower-triangular Toeplitz with the coefficients ``C(2k, k) / 4**k``, the release
is ``L h + z``; a record moves it by one column of L, whose norm grows like
``sqrt(log(length) / pi)``. ``L (L h + z)`` estimates all prefix sums, and costs nothing more
(Fichtenberger, Henzinger and Upadhyay, "Constant Matters: Fine-grained Error Bound on
Differentially Private Continual Observation", ICML 2023).

Counts are whole numbers and stay so: L is rounded down to a grid of ``2**-38`` of the noise,
and the noise is a whole number of grid steps
(:mod:`skfairdp.privacy.mechanisms.integer_noise`), without a floating-point side channel. The
estimates undo the rounded matrix, not the ideal one.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular, toeplitz

from skfairdp.privacy.mechanisms.integer_noise import SCALE_BITS
from skfairdp.privacy.noise import NoiseSource


def _first_column(length: int) -> NDArray[np.float64]:
    k = np.arange(1, length)
    return np.concatenate([[1.0], np.cumprod((2.0 * k - 1.0) / (2.0 * k))])


def _factor(length: int) -> NDArray[np.float64]:
    return np.asarray(np.tril(toeplitz(_first_column(length))), dtype=np.float64)


@lru_cache(maxsize=16)  # a fair path has six
def _matrices(
    length: int, noise_std: float
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    """L in whole grid steps of the noise, its decoder to sums, and the sums' deviations."""
    # Down: no column gets longer than the ideal one's.
    whole = np.floor(_factor(length) * (2.0**SCALE_BITS / noise_std)).astype(np.int64)
    sums = np.tril(np.ones((length, length)))
    decoder = solve_triangular(whole.T.astype(np.float64), sums.T, lower=False).T
    stds = np.linalg.norm(decoder, axis=1) * 2.0**SCALE_BITS
    for matrix in (whole, decoder, stds):
        matrix.flags.writeable = False
    return whole, decoder, stds


def prefix_norm(length: int, n_entries: int = 1) -> float:
    """L2 norm of what one record adds to the factored histograms of `length` bins, at most.

    `n_entries`: most entries that it adds 1 or -1 to, as `within_norm` keeps them. Of one entry,
    the norm of L's first column, and a millionth for the rounding of its computation. Columns of L
    have no negative entry, so two of opposite signs in one histogram have a negative product, and
    squared norms add up to no more than those of the entries.
    """
    norm = float(np.linalg.norm(_first_column(length))) * (1.0 + 2.0**-20)
    return norm * math.sqrt(n_entries)


def within_norm(
    entries: NDArray[np.int64], signs: NDArray[np.int64], length: int, n_entries: int
) -> NDArray[np.int64]:
    """Keep of each record's entries those that `prefix_norm` bounds; the others become -1.

    In one histogram of `length` bins it is the first of either sign, and `n_entries` in all.

    `entries`, `signs` (n, n_columns): as `NoisyRelease.prefix_sums` takes them.
    """
    counts = entries >= 0
    own = np.where(counts, entries // length * 2 + (signs > 0), -1)
    for column in range(1, entries.shape[1]):
        again = own[:, :column] == own[:, column, None]
        counts[:, column] &= ~(again & counts[:, :column]).any(axis=1)
    counts &= np.cumsum(counts, axis=1) <= n_entries
    return np.where(counts, entries, -1)


LARGEST_STD = 2.0**30  # of the noise on an entry, so that sums stay exact


class PrefixSums:
    """Noisy release of prefix sums of histograms of one length.

    `noise_std`: on each entry of ``L h``; 0 for none. `stds` (length,): of the released sums.
    """

    def __init__(self, length: int, noise_std: float) -> None:
        self._matrix: NDArray[np.int64] | None = None
        self.stds = np.zeros(length)
        if noise_std == 0.0:
            return
        if not noise_std <= LARGEST_STD:
            raise ValueError(f"noise_std={noise_std!r} is not allowed: give at most 2**30.")
        self._matrix, self._decoder, self.stds = _matrices(length, float(noise_std))

    def release(self, counts: NDArray[np.int64], noise: NoiseSource) -> NDArray[np.float64]:
        """Estimate the prefix sums of histograms, to which a record adds as `prefix_norm` says."""
        if self._matrix is None:
            return np.cumsum(counts, axis=-1).astype(np.float64)
        # Whole numbers; where a sum leaves 64 bits both wrap, which is a function of their sum.
        factored = counts.astype(np.int64) @ self._matrix.T
        drawn = noise.on_grid(np.zeros(factored.shape), 2.0**SCALE_BITS).astype(np.int64)
        return np.asarray((factored + drawn).astype(np.float64) @ self._decoder.T)

    def decoded(self, noise: NDArray[np.float64]) -> NDArray[np.float64]:
        """Turn noise of deviation 1 on each entry, last axis, into that of the sums.

        For the law of the noise alone, which is public.
        """
        if self._matrix is None:
            return np.zeros_like(noise)
        return np.asarray(noise @ self._decoder.T) * 2.0**SCALE_BITS
