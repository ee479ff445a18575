"""Noise in whole numbers, exact given uniform bits: geometric and Gaussian.

Geometric numbers come from uniform integers alone. For Gaussian noise the sum is rounded to a grid
first, and the noise is a whole number Z of grid steps with

    P(Z = j) = P(j - 1/2 < X <= j + 1/2),    X ~ N(0, sigma**2).

Why, and why not a discrete Gaussian: "Noise on a computer" in ``docs/theory/privacy.md``.

Gaussian draws are made by rejection. A cell of ``2**33`` numbers is chosen with a probability that
is a whole number of 2**-15, in it a number, uniformly, and that is kept with the ratio of its
exact probability and the cell's. Integers settle that for 97 in 100 draws, float64 for
nearly all others, and as many digits as it takes where a float64 is too near to tell.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import mpmath

# Exact samplers need a rational epsilon: a multiple of this one.
RESOLUTION = 2**32

# (high, where) -> one uniform integer in 0 .. high-1 for each position in `where`, in which no
# position occurs twice.
Draw = Callable[[int, NDArray[np.intp]], NDArray[np.int64]]


def units_of(epsilon: float) -> int:
    """Round epsilon down to a whole number of units of 2**-32, which can only add noise."""
    if not 1.0 / RESOLUTION <= epsilon <= 2.0**20:
        raise ValueError(
            f"epsilon={epsilon!r} is not allowed for noisy counts: give a number "
            "between 2**-32 and 2**20"
        )
    return math.floor(epsilon * RESOLUTION)


def geometric(draw: Draw, units: int, size: int) -> NDArray[np.int64]:
    """Draw k >= 0 with probability proportional to ``exp(-k * units / 2**32)``.

    `units`: what `units_of` returned. Exact in law, given uniform integers: no logarithm, no
    division of random numbers and no rounding (Canonne, Kamath and Steinke, "The Discrete Gaussian
    for Differential Privacy", 2020, algorithm 2).
    """
    # First with a rate of one per RESOLUTION: remainder and quotient are independent.
    remainder = np.empty(size, dtype=np.int64)
    pending = np.arange(size)
    while pending.size:
        candidate = draw(RESOLUTION, pending)
        kept = _bernoulli_exp(draw, candidate, pending)
        remainder[pending[kept]] = candidate[kept]
        pending = pending[~kept]
    quotient = np.zeros(size, dtype=np.int64)
    running = np.arange(size)
    while running.size:
        running = running[_bernoulli_exp(draw, np.full(running.size, RESOLUTION), running)]
        quotient[running] += 1
    return (remainder + RESOLUTION * quotient) // units


def _bernoulli_exp(
    draw: Draw, numerator: NDArray[np.int64], where: NDArray[np.intp]
) -> NDArray[np.bool_]:
    """Toss coins that succeed with probability exp(-numerator / RESOLUTION), exactly."""
    # With x in [0, 1]: the first k at which a coin of probability x / k fails is odd
    # with probability 1 - x + x**2 / 2! - ... = exp(-x).
    odd = np.zeros(numerator.size, dtype=bool)
    running = np.arange(numerator.size)
    k = 1
    while running.size:
        succeeded = draw(RESOLUTION * k, where[running]) < numerator[running]
        odd[running[~succeeded]] = k % 2 == 1
        running = running[succeeded]
        k += 1
    return odd


Integers = NDArray[np.int64]
Words = Callable[[int], NDArray[np.uint64]]

# The standard deviation is 2**SCALE_BITS grid steps, and has 2**CELL_BITS cells.
SCALE_BITS, CELL_BITS = 38, 5
# Numbers in a cell, as a logarithm.
SHIFT = SCALE_BITS - CELL_BITS
# Cells of each sign: numbers beyond 16 standard deviations are never drawn.
N_CELLS = 16 << CELL_BITS
# A word of 64 uniform bits: its slot, the position in a cell, and the first bits of the decision
# whether the number is kept.
SLOT_BITS, KEEP_BITS = 15, 16
# Relative distance at which two float64 probabilities are distinguished.
NEAR = 2.0**-40
# Numbers that are drawn at once: few enough for the processor's cache.
CHUNK = 2**14


class RoundedGaussian:
    """Sampler of a Gaussian of standard deviation 2**38, rounded to whole numbers.

    `unit`: weight of a number over the integral of the density, 1 at 0 and not normalised, from
    half below it to half above it. `weights`: slots of each cell from 0 up, and of its mirror
    image below 0: at least the weight of any number in it. Slots that are left are rejected.
    """

    def __init__(self) -> None:
        import mpmath  # here and below, so that no quote loads it

        with mpmath.workprec(200):
            edges = [self._density(max((c << SHIFT) - 0.5, 0.0)) for c in range(N_CELLS)]
            # A float, and from here on exactly that.
            share = (2**SLOT_BITS - 2 * N_CELLS) / (2 * mpmath.fsum(edges))
            self.unit = float(share) * (1.0 - 2.0**-50)
            self.weights = tuple(int(mpmath.ceil(self.unit * edge)) for edge in edges)
            least = [self._density(((c + 1) << SHIFT) + 0.5) for c in range(N_CELLS)]
            surely = [
                int(mpmath.floor(self.unit * low / weight * 2**KEEP_BITS))
                for low, weight in zip(least, self.weights, strict=True)
            ]
        # Cell c holds the numbers from c << SHIFT on; the one after the last holds none. In tables
        # cells are counted from the lowest one, as a sign in an index would be guessed wrong by the
        # processor half of the time. Few bytes a slot: tables have to share its cache.
        both = [*reversed(self.weights), *self.weights]
        left = 2**SLOT_BITS - sum(both)
        self._places = np.repeat(np.arange(2 * N_CELLS + 1, dtype=np.int16), [*both, left])
        # First bits below this are kept whatever the position; below 2**16, as a position is.
        self._surely = np.array([*reversed(surely), *surely, 0], dtype=np.uint16)
        self._chances = self.unit / np.array([*both, math.inf])

    def add_to(self, numbers: NDArray[Any], words: Words) -> None:
        """Add a number to each entry of an array, in place; exact where sums are below 2**53.

        `words` returns a number of independent words, uniform on 0 .. 2**64 - 1.
        """
        for start in range(0, len(numbers), CHUNK):
            part = numbers[start : start + CHUNK]
            part += self._some(len(part), words)

    def _some(self, size: int, words: Words) -> Integers:
        # A few more than needed: they take the places of those that are rejected.
        values, rejected = self.propose(words(size + size // 20 + 24), words)
        inside = int(rejected.searchsorted(size))
        good = np.ones(len(values) - size, dtype=bool)
        good[rejected[inside:] - size] = False
        spare = values[size:][good][:inside]
        values[rejected[: len(spare)]] = spare
        if len(spare) < inside:
            values[rejected[len(spare) : inside]] = self._some(inside - len(spare), words)
        return values[:size]

    def propose(self, word: NDArray[np.uint64], words: Words) -> tuple[Integers, NDArray[np.intp]]:
        """Read one number from each word, and the ascending positions of those rejected.

        `word` (n,): independent and uniform; overwritten. `words`: for what these leave open.
        """
        bits = word.view(np.int64)
        slot = (word >> (64 - SLOT_BITS)).view(np.int64)
        place = self._places.take(slot, mode="clip").astype(np.int64)
        first = word.astype(np.uint16)  # the last KEEP_BITS
        (unsure,) = (first >= self._surely.take(place, mode="clip")).nonzero()
        first = first[unsure]
        # In place, as most of the time goes into fetching memory.
        bits >>= KEEP_BITS
        bits &= (1 << SHIFT) - 1
        place -= N_CELLS
        place <<= SHIFT
        bits |= place
        values = bits[unsure]
        return bits, unsure[self._rejected(values, values >> SHIFT, first, words)]

    def _rejected(
        self, values: Integers, cell: Integers, first: NDArray[np.uint16], words: Words
    ) -> NDArray[np.bool_]:
        """Whether a uniform number, of which the first bits are known, is not below the chance."""
        finer = words(len(values))
        chance = self.chance(values, cell)
        ahead = chance - (first + finer * 2.0**-64) * 2.0**-KEEP_BITS
        rejected = ahead <= 0.0
        for i in (np.abs(ahead) < NEAR * chance).nonzero()[0]:
            bits = (int(first[i]) << 64) + int(finer[i])
            rejected[i] = not self._decide_exactly(int(values[i]), int(cell[i]), bits, words)
        return rejected

    def chance(self, values: Integers, cell: NDArray[np.integer]) -> NDArray[np.float64]:
        """Probability with which a number of a cell is kept, right to a part in 1e13.

        `cell` (n,): their cells; the one after the last holds none, and its chance is 0.
        """
        # The density at the number: its mean over a grid step differs by a part in 1e20.
        z = values * 2.0**-SCALE_BITS
        z *= z
        z *= -0.5
        return np.asarray(np.exp(z, out=z) * self._chances.take(cell + N_CELLS))

    def _decide_exactly(self, value: int, cell: int, bits: int, words: Words) -> bool:
        """The same in digits, of which there are always enough."""
        import mpmath

        weight = self.weights[cell if cell >= 0 else ~cell]
        known = KEEP_BITS + 64
        while True:
            # The tails of the integral cancel, by at most the square of the last cell.
            with mpmath.workprec(2 * known + 4 * SCALE_BITS + 800):
                limit = self._integral(value) * self.unit / weight * mpmath.mpf(2) ** known
                if abs(limit - bits - 0.5) > 0.75:
                    return bool(bits < limit)
            bits = (bits << 64) + int(words(1)[0])
            known += 64

    def _density(self, value: float) -> mpmath.mpf:
        import mpmath

        return mpmath.exp(-((mpmath.mpf(value) / 2**SCALE_BITS) ** 2) / 2)

    def _integral(self, value: int) -> mpmath.mpf:
        """Of the density, from half below a number to half above it."""
        import mpmath

        width = mpmath.sqrt(2) * 2**SCALE_BITS
        low, high = (mpmath.erfc((abs(value) + side) / width) for side in (-0.5, 0.5))
        return width * mpmath.sqrt(mpmath.pi) / 2 * (low - high)


@lru_cache(maxsize=1)
def rounded_gaussian() -> RoundedGaussian:
    """Return the sampler that noise is drawn with; its tables take a moment to make."""
    return RoundedGaussian()
