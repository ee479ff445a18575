"""Random generators of noise and batches, which cannot be seeded by accident."""

from __future__ import annotations

import math
import secrets
from typing import NoReturn

import numpy as np

from skfairdp.foundation.assumptions import ATTACKER, FLOAT_NOISE, GRID_NOISE, LAPLACE_GRID, NOISE
from skfairdp.privacy.mechanisms.integer_noise import (
    RESOLUTION,
    SCALE_BITS,
    geometric,
    rounded_gaussian,
    units_of,
)
from skfairdp.privacy.streams import GENERATOR, Stream, secret_stream, seeded_streams


class NoiseSource:
    """Noise, sampling and masks of one fit, from independent generators.

    Parameters
    ----------
    generator_seed : int or None, default=None
        None takes a key and a starting counter of 128 bits each from the operating
        system for every generator, anew for every object. An integer makes all of them
        reproducible, which is for tests only: with the seed, anyone can
        subtract the noise, so nothing is private then.

    Raises
    ------
    ValueError
        If `generator_seed` is negative.

    Notes
    -----
    The generators are AES-128 in counter mode (`skfairdp.privacy.streams`): outputs, however
    many, tell neither the key nor other outputs unless AES-128 is broken. A program that reads the
    process's memory reads the key, and with it all noise of the fit, past noise too.

    Neither a source nor one of its generators can be pickled or copied, since a copy would
    repeat the noise. Threads that share one get different draws. In a forked process every
    source that is not reproducible has new keys.

    Examples
    --------
    >>> from skfairdp.privacy import NoiseSource
    >>> noise = NoiseSource()
    >>> noise.gaussian((2, 3), std=1.5).shape
    (2, 3)
    >>> noise.reproducible
    False
    """

    def __init__(self, generator_seed: int | None = None) -> None:
        if generator_seed is not None and generator_seed < 0:
            raise ValueError(
                f"generator_seed={generator_seed!r} is not allowed: give None, or an "
                "integer >= 0 in a test"
            )
        self._generator_seed = generator_seed
        if generator_seed is None:
            streams = [secret_stream() for _ in range(3)]
        else:
            streams = seeded_streams(int(generator_seed), 3)
        self._sampling, self._noise, self._masks = streams

    @property
    def name(self) -> str:
        """Describe the generator for a certificate."""
        if self.reproducible:
            return "AES-128 in counter mode with a fixed seed: not private"
        return GENERATOR

    @property
    def reproducible(self) -> bool:
        """True when the noise can be repeated, and protects no record."""
        return self._generator_seed is not None

    @property
    def sampling(self) -> Stream:
        """Generator for batches and other secret choices among rows."""
        return self._sampling

    @property
    def masks(self) -> Stream:
        """Generator for a module's draws in training, such as dropout masks."""
        return self._masks

    def key(self) -> bytes:
        """Draw bytes that may be published, from the operating system and no generator.

        Returns
        -------
        bytes
            32 of them; the same at every call of a reproducible source.
        """
        if self._generator_seed is None:
            return secrets.token_bytes(32)
        seed = np.random.SeedSequence([int(self._generator_seed), 1], pool_size=8)
        return seed.generate_state(8).tobytes()

    def gaussian(
        self, size: int | tuple[int, ...], std: float, out: np.ndarray | None = None
    ) -> np.ndarray:
        """Draw Gaussian noise.

        Parameters
        ----------
        size : int or tuple of int
            Shape of the result.
        std : float
            Standard deviation, >= 0.
        out : ndarray of float64 or None, default=None
            Array of that shape to fill; None makes a new one.

        Returns
        -------
        ndarray of float64
            Independent draws with mean 0. They are floating-point numbers: a
            guarantee for real-valued noise holds for them up to rounding.

        Raises
        ------
        ValueError
            If `std` is negative or not finite, or `out` has another shape or dtype.
        """
        if not 0.0 <= std < math.inf:
            raise ValueError(f"std={std!r} is not allowed: give a finite number >= 0")
        shape = (size,) if isinstance(size, int) else tuple(size)
        if out is None:
            out = np.empty(shape)
        elif out.shape != shape or out.dtype != np.float64:
            raise ValueError(
                f"out has shape {out.shape} and dtype {out.dtype}: give shape {shape}, float64"
            )
        self._noise.standard_normal(out=out)
        out *= std
        return out

    def noisy(self, sums: np.ndarray, std: float, *, exact: bool = True) -> np.ndarray:
        """Add Gaussian noise to sums.

        Parameters
        ----------
        sums : ndarray of float64 of any shape
            What the noise is added to.
        std : float
            Standard deviation of the noise; 0 adds none.
        exact : bool, default=True
            Add it as `on_grid` does. False draws it as `gaussian` does: which numbers can come out
            then depends on the sums.

        Returns
        -------
        ndarray of float64
            Of the shape of the sums; a new array.
        """
        if std == 0.0:
            return sums.copy()
        return self.on_grid(sums, std) if exact else self.gaussian(sums.shape, std) + sums

    def on_grid(self, sums: np.ndarray, std: float) -> np.ndarray:
        """Add Gaussian noise in whole numbers of a grid, exact given uniform bits.

        Parameters
        ----------
        sums : ndarray of float64 of any shape
            What the noise is added to. Rounded to a grid of ``2**-38 * std``, by at most one
            step, and cut at ``2**52`` steps: 16,384 standard deviations.
        std : float
            Standard deviation of the noise, at least ``2**-900``.

        Returns
        -------
        ndarray of float64
            A function of whole numbers: the rounded sum and independent draws of
            ``skfairdp.privacy.mechanisms.integer_noise.RoundedGaussian``. Which numbers
            can come out does not depend on the sum.

        Raises
        ------
        ValueError
            If `std` is too small or not finite.
        """
        step = grid_step(std)
        units = whole_steps(sums, step)
        # Whole numbers below 2**53 in float64: their sum is exact.
        self.add_whole(units)
        units *= step
        return units

    def add_whole(self, units: np.ndarray) -> None:
        """Add whole numbers of a Gaussian of standard deviation 2**38, in place.

        Parameters
        ----------
        units : ndarray of float64 of any shape
            Whole numbers, up to ``2**52`` in size: steps of `grid_step`.
        """
        rounded_gaussian().add_to(units.reshape(-1), self._noise.bit_generator.random_raw)

    def laplace_on_grid(self, sums: np.ndarray, scale: float) -> np.ndarray:
        """Add Laplace noise in whole numbers of a grid, exact given uniform bits.

        Parameters
        ----------
        sums : ndarray of float64 of any shape
            What the noise is added to. Rounded to a grid of ``2**-32 * scale``, by at most one
            step, and cut at ``2**52`` steps.
        scale : float
            Scale of the noise; 0 adds none, else at least ``2**-900``.

        Returns
        -------
        ndarray of float64
            The rounded sums and independent draws k of steps with probability proportional to
            ``exp(-abs(k) / 2**32)``, as of `discrete_laplace`.

        Raises
        ------
        ValueError
            If `scale` is too small or not finite.
        """
        if scale == 0.0:
            return sums.copy()
        step = grid_step(scale, 32)
        units = whole_steps(sums, step)
        units += self.discrete_laplace(1.0 / RESOLUTION, sums.shape)
        units *= step
        return units

    def integers(self, high: int, size: int) -> np.ndarray:
        """Draw uniform integers for a randomised answer.

        Parameters
        ----------
        high : int
            Upper end, not reached; at most 2**63.
        size : int
            How many.

        Returns
        -------
        ndarray of int64, shape (size,)
            Independent draws from ``0 .. high-1``, without modulo bias.
        """
        return self._noise.integers(high, size=size, dtype=np.int64)

    def discrete_laplace(self, epsilon: float, size: int | tuple[int, ...]) -> np.ndarray:
        """Draw integers k with probability proportional to ``exp(-epsilon * abs(k))``.

        Parameters
        ----------
        epsilon : float
            Privacy cost, in nats, of a table of counts to which one record adds at
            most one. Between 2**-32 and 2**20.
        size : int or tuple of int
            Shape of the result.

        Returns
        -------
        ndarray of int64
            Independent draws with mean 0.

        Raises
        ------
        ValueError
            If `epsilon` is out of range.

        Notes
        -----
        Each draw is the difference of two geometric numbers, built from uniform integers alone
        (Canonne, Kamath and Steinke, "The Discrete Gaussian for Differential Privacy", 2020,
        algorithm 2), so the law is exact. `epsilon` is rounded down to a multiple of 2**-32, which
        can only add noise.

        Examples
        --------
        >>> from skfairdp.privacy import NoiseSource
        >>> NoiseSource().discrete_laplace(0.5, size=4).dtype
        dtype('int64')
        """
        units = units_of(epsilon)
        total = math.prod((size,) if isinstance(size, int) else size)
        drawn = geometric(lambda high, at: self.integers(high, at.size), units, 2 * total)
        return (drawn[:total] - drawn[total:]).reshape(size)

    def __repr__(self) -> str:
        """Name the generator, never its state."""
        return f"NoiseSource({self.name})"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a NoiseSource cannot be pickled or copied, because the copy would repeat its "
            "noise: make a new one"
        )


def grid_step(std: float, bits: int = SCALE_BITS) -> float:
    """Step of the grid of noise of a standard deviation, or scale: ``2**-bits`` of it."""
    if not 2.0**-900 <= std < math.inf:
        raise ValueError(f"std={std!r} is not allowed for exact noise: give at least 2**-900")
    return std * 2.0**-bits  # exactly: a power of two


def whole_steps(sums: np.ndarray, step: float | np.ndarray) -> np.ndarray:
    """Round sums to whole numbers of steps, cut at 2**52 of them; a new array."""
    units = np.ascontiguousarray(sums / step)
    np.rint(units, out=units)
    return np.clip(units, -(2.0**52), 2.0**52, out=units)


def noise_floor(epsilon: float) -> int:
    """Level, at least 1, that the noise of a count exceeds with a probability of at most 1e-3."""
    return max(1, math.ceil(math.log(1e3) / epsilon))


def noise_text(noise: NoiseSource, *, exact: bool = True, laplace: bool = False) -> str:
    """Say where noise is from.

    `exact`: whether it was added on a grid. `laplace`: by `NoiseSource.laplace_on_grid`.
    """
    grid = LAPLACE_GRID if laplace else GRID_NOISE.format(bits=SCALE_BITS)
    how = grid if exact else FLOAT_NOISE
    return NOISE.format(name=noise.name, attacker=ATTACKER, how=how)
