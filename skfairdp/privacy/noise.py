"""Where noise and batches come from: generators that nobody can seed by accident."""

from __future__ import annotations

import math
import secrets
from typing import NoReturn

import numpy as np

from skfairdp.privacy.geometric import geometric, units_of

__all__ = ["NoiseSource"]


class NoiseSource:
    """Noise and sampling of one fit, from two independent generators.

    Parameters
    ----------
    generator_seed : int or None, default=None
        None draws 256 bits for each generator from the operating system, anew for
        every object. An integer makes both reproducible, which is for tests only:
        whoever knows or repeats the seed can subtract the noise, so nothing is
        private then.

    Raises
    ------
    ValueError
        If `generator_seed` is negative.

    Notes
    -----
    The generators are numpy's SFC64, seeded through a ``SeedSequence`` with a pool of
    256 bits. They are fast and pass statistical tests, but are not cryptographic: the
    guarantee assumes that nobody recovers their state from released values.

    A source can be neither pickled nor copied, since a copy would repeat the noise.

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
        self._reproducible = generator_seed is not None
        if generator_seed is None:
            seeds = [np.random.SeedSequence(secrets.randbits(256), pool_size=8) for _ in "ab"]
        else:
            if generator_seed < 0:
                raise ValueError(
                    f"generator_seed={generator_seed!r} is not allowed: give None, or an "
                    "integer >= 0 in a test"
                )
            seeds = np.random.SeedSequence(int(generator_seed), pool_size=8).spawn(2)
        self._generator_seed = generator_seed
        self._sampling, self._noise = (np.random.Generator(np.random.SFC64(s)) for s in seeds)

    @property
    def name(self) -> str:
        """What a certificate says about the generator."""
        if self._reproducible:
            return "numpy SFC64 with a fixed seed: not private"
        return "numpy SFC64, seeded with 256 bits of operating-system entropy"

    @property
    def reproducible(self) -> bool:
        """True when the noise can be repeated, and protects nobody."""
        return self._reproducible

    @property
    def sampling(self) -> np.random.Generator:
        """Generator for batches and other secret choices among rows."""
        return self._sampling

    def key(self) -> bytes:
        """Draw 32 bytes that may be published.

        They come from the operating system, never from the two generators: whoever
        sees a few consecutive outputs of SFC64 can compute its state, run it
        backwards, and knows every batch.

        Returns
        -------
        bytes
            The same for every call of a reproducible source.
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

    def laplace(self, size: int | tuple[int, ...], scale: float) -> np.ndarray:
        """Draw Laplace noise for sums of real vectors.

        Parameters
        ----------
        size : int or tuple of int
            Shape of the result.
        scale : float
            Scale b of the density ``exp(-abs(z) / b) / (2 b)``, >= 0.

        Returns
        -------
        ndarray of float64
            Independent draws with mean 0. They are floating-point numbers: which of them
            can occur depends on what they are added to, so the promise for real-valued
            noise is not a pure one for these. Counts take `discrete_laplace`.

        Raises
        ------
        ValueError
            If `scale` is negative or not finite.
        """
        if not 0.0 <= scale < math.inf:
            raise ValueError(f"scale={scale!r} is not allowed: give a finite number >= 0")
        return self._noise.laplace(0.0, scale, size)

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
        Each draw is the difference of two geometric numbers, built from uniform
        integers alone (Canonne, Kamath and Steinke, "The Discrete Gaussian for
        Differential Privacy", 2020, algorithm 2): no logarithm, no division and no
        rounding, so the law is exact given uniform integers. The only floating-point
        operation is made on public input: `epsilon` is rounded down to a multiple of
        2**-32, which can only add noise.

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
        """Refuse to be pickled or copied."""
        raise TypeError(
            "a NoiseSource cannot be pickled or copied, because the copy would repeat its "
            "noise: make a new one"
        )
