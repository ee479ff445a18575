"""Gaussian noise in whole numbers, exact given uniform bits.

A float Gaussian added to a float sum is not the Gaussian mechanism: which floats can come out
depends on the sum (Mironov, "On Significance of the Least Significant Bits for Differential
Privacy", 2012; Jin et al., "Are We There Yet? Timing and Floating-Point Attacks on
Differential Privacy Systems", 2022). Here the sum is rounded to a grid first, and the noise is
a whole number Z of grid steps with

    P(Z = j) = P(j - 1/2 < X <= j + 1/2),    X ~ N(0, sigma**2).

For a whole number s, s + Z has the law of s + X rounded. So the release is a function of the
Gaussian mechanism on whole numbers, and every theorem on that one (sampled, composed, in any
relation) holds for it as it stands. A discrete Gaussian (Canonne, Kamath and Steinke, "The
Discrete Gaussian for Differential Privacy", 2020) would need theorems of its own under
sampling, and is no easier to draw.

Draws are made by rejection. A cell of ``2**shift`` numbers is chosen with a probability that
is a whole number of units, in it a number, uniformly, and that is kept with the ratio of its
exact probability and the cell's. Integers settle that for 98 in 100 draws, float64 for
nearly all others, and as many digits as it takes where a float64 is too near to tell.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import mpmath
import numpy as np
from numpy.typing import NDArray

__all__ = ["RoundedGaussian", "SCALE_BITS", "rounded_gaussian"]

Integers = NDArray[np.int64]
Words = Callable[[int], NDArray[np.uint64]]

# The standard deviation is 2**SCALE_BITS grid steps.
SCALE_BITS = 40
# Relative distance at which two float64 probabilities are told apart.
NEAR = 2.0**-40
# So many numbers are drawn at once: their words stay in the processor's cache.
CHUNK = 2**14


class RoundedGaussian:
    """Sampler of a Gaussian, rounded to whole numbers, of standard deviation 2**scale_bits.

    Parameters
    ----------
    scale_bits : int, default=40
        Logarithm of the standard deviation.
    cell_bits : int, default=6
        A standard deviation has ``2**cell_bits`` cells.
    n_cells : int, default=2048
        Cells of each sign; numbers beyond the last are never drawn. With the default their
        probability is below 1e-220.
    slot_bits : int, default=16
        The first bits of a word say which cell: all but a few slots belong to one.
    word_bits : int, default=64
        Uniform bits of a word, at most 64: slot, sign, position in the cell, and the first
        bits of the decision whether the number is kept.

    Notes
    -----
    The weight of a number is `unit` times the integral of the density, 1 at 0 and not
    normalised, from half below to half above it. `weights` holds what each cell is chosen
    with, in units of ``2**-word_bits``: at least the weight of any number in it. What is
    left of the units is rejected.
    """

    def __init__(
        self,
        scale_bits: int = SCALE_BITS,
        cell_bits: int = 6,
        n_cells: int = 2048,
        slot_bits: int = 16,
        word_bits: int = 64,
    ) -> None:
        self.scale_bits, self.slot_bits, self.word_bits = scale_bits, slot_bits, word_bits
        # Numbers of one sign in a cell, as a logarithm; and bits left for the decision.
        self.shift = scale_bits - cell_bits
        self.keep_bits = word_bits - slot_bits - 1 - self.shift
        with mpmath.workprec(4 * word_bits):
            edges = [self._density(max((c << self.shift) - 0.5, 0.0)) for c in range(n_cells)]
            self.unit = int(((1 << word_bits) - n_cells) / mpmath.fsum(edges))
            self.weights = tuple(int(mpmath.ceil(self.unit * edge)) for edge in edges)
            least = [self._density(((c + 1) << self.shift) + 0.5) for c in range(n_cells)]
            surely = [
                int(mpmath.floor(self.unit * low / weight * (1 << self.keep_bits)))
                for low, weight in zip(least, self.weights, strict=True)
            ]
        rest_bits = word_bits - slot_bits
        slots = [weight >> rest_bits for weight in self.weights]
        # Slots beyond those of one cell are open: their words choose among what is left.
        self._cells = np.full(1 << slot_bits, n_cells, dtype=np.uint16)
        self._cells[: sum(slots)] = np.repeat(np.arange(n_cells), slots)
        self._open = np.uint64(sum(slots) << rest_bits)
        left = [weight - (s << rest_bits) for weight, s in zip(self.weights, slots, strict=True)]
        self._left = np.array(left, dtype=np.uint64).cumsum()
        # First bits below this are kept whatever the position, in any slot of one cell.
        self._surely = np.array([*surely, 0], dtype=np.int64)[self._cells]
        self._float_weights = np.array(self.weights, dtype=np.float64)

    def draw(self, size: int, words: Words) -> Integers:
        """Draw independent numbers.

        Parameters
        ----------
        size : int
            How many.
        words : callable
            Returns a given number of independent words, uniform on 0 .. 2**word_bits - 1.

        Returns
        -------
        ndarray of int64, shape (size,)
        """
        drawn = np.empty(size, dtype=np.int64)
        for start in range(0, size, CHUNK):
            self._fill(drawn[start : start + CHUNK], words)
        return drawn

    def _fill(self, out: Integers, words: Words) -> None:
        # A few more than are wanted: they take the places of those that are rejected.
        size = len(out)
        values, kept = self.propose(words(size + size // 64 + 24), words)
        out[:] = values[:size]
        empty = np.flatnonzero(~kept[:size])
        spare = values[size:][kept[size:]][: len(empty)]
        out[empty[: len(spare)]] = spare
        if len(spare) < len(empty):
            out[empty[len(spare) :]] = self.draw(len(empty) - len(spare), words)

    def propose(
        self, word: NDArray[np.uint64], words: Words
    ) -> tuple[Integers, NDArray[np.bool_]]:
        """Read one number from each word, and whether it is kept.

        Parameters
        ----------
        word : ndarray of uint64, shape (n,)
            Independent and uniform.
        words : callable
            As in `draw`, for what these words leave open.

        Returns
        -------
        values : ndarray of int64, shape (n,)
        kept : ndarray of bool, shape (n,)
        """
        bits = word.view(np.int64)
        slot = bits >> (self.word_bits - self.slot_bits)
        slot &= (1 << self.slot_bits) - 1
        cell = self._cells.take(slot, mode="clip")
        kept = self._first_bits(bits) < self._surely.take(slot, mode="clip")
        values = self._numbers(cell, bits)
        unsure = np.flatnonzero(~kept)
        if len(unsure):
            values[unsure], kept[unsure] = self._settle(word[unsure], cell[unsure], words)
        return values, kept

    def _numbers(self, cell: NDArray[np.uint16], bits: Integers) -> Integers:
        """Position in the cell; for a negative sign minus one less it, so that 0 is there once."""
        position = bits >> self.keep_bits
        position &= (1 << self.shift) - 1
        place = cell.astype(np.int64)
        place <<= self.shift
        place |= position
        sign = np.left_shift(bits, 64 - self.word_bits + self.slot_bits, out=position)
        sign >>= 63
        place ^= sign
        return place

    def _first_bits(self, bits: Integers) -> Integers:
        return bits & ((1 << self.keep_bits) - 1)

    def _settle(
        self, word: NDArray[np.uint64], cell: NDArray[np.uint16], words: Words
    ) -> tuple[Integers, NDArray[np.bool_]]:
        """Choose the cell of open slots, and decide what first bits cannot."""
        fresh, finer = words(2 * len(word)).reshape(2, -1)
        opened = cell == len(self.weights)
        place = word[opened] - self._open
        cell[opened] = np.searchsorted(self._left, place, side="right")
        bits = np.where(opened, fresh, word).view(np.int64)
        values = self._numbers(cell, bits)
        inside = np.flatnonzero(cell < len(self.weights))  # the others are units of no cell
        first = self._first_bits(bits[inside])
        uniform = (first + finer[inside] * 2.0**-self.word_bits) * 2.0**-self.keep_bits
        chance = self.chance(values[inside], cell[inside])
        kept = np.zeros(len(word), dtype=bool)
        kept[inside] = uniform < chance
        for i in np.flatnonzero(np.abs(uniform - chance) <= NEAR * chance):
            at = inside[i]
            uniform_bits = (int(first[i]) << self.word_bits) + int(finer[at])
            kept[at] = self._exactly(int(values[at]), int(cell[at]), uniform_bits, words)
        return values, kept

    def chance(self, values: Integers, cell: NDArray[np.integer]) -> NDArray[np.float64]:
        """Probability with which a number of a cell is kept, right to a part in 1e13.

        Parameters
        ----------
        values : ndarray of int64, shape (n,)
            The numbers.
        cell : ndarray of int, shape (n,)
            Their cells.

        Returns
        -------
        ndarray of float64, shape (n,)
        """
        z = values * 2.0**-self.scale_bits
        # Mean of the density over a grid step, but for a fourth power of its width.
        density = np.exp(-0.5 * z * z) * (1.0 + 4.0**-self.scale_bits / 24.0 * (z * z - 1.0))
        return np.asarray(density * (float(self.unit) / self._float_weights[cell]))

    def _exactly(self, value: int, cell: int, uniform_bits: int, words: Words) -> bool:
        """Whether a uniform number, of which the first bits are known, is below the chance."""
        known = self.keep_bits + self.word_bits
        while True:
            # The tails of the integral cancel, by at most the square of the last cell.
            z = abs(value) / 2.0**self.scale_bits
            with mpmath.workprec(2 * known + 4 * self.scale_bits + int(2 * z * z) + 64):
                mass = self._integral(value) * self.unit / self.weights[cell]
                limit = mass * mpmath.mpf(2) ** known
                if abs(limit - uniform_bits - 0.5) > 0.75:
                    return bool(uniform_bits < limit)
            uniform_bits = (uniform_bits << self.word_bits) + int(words(1)[0])
            known += self.word_bits

    def _density(self, value: float) -> mpmath.mpf:
        return mpmath.exp(-((mpmath.mpf(value) / 2**self.scale_bits) ** 2) / 2)

    def _integral(self, value: int) -> mpmath.mpf:
        """Of the density, from half below a number to half above it."""
        width = mpmath.sqrt(2) * 2**self.scale_bits
        low, high = (mpmath.erfc((abs(value) + side) / width) for side in (-0.5, 0.5))
        return width * mpmath.sqrt(mpmath.pi) / 2 * (low - high)


@lru_cache(maxsize=1)
def rounded_gaussian() -> RoundedGaussian:
    """Return the sampler that noise is drawn with; its tables take a moment to make."""
    return RoundedGaussian()
