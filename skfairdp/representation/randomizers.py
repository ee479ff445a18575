"""Randomisers that a representation passes through before it is released."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from dp_accounting.dp_event import DiscreteLaplaceDpEvent, DpEvent, NoOpDpEvent
from numpy.typing import ArrayLike, NDArray

from skfairdp.foundation.documentation import complete_docstrings
from skfairdp.foundation.figures import significant_up
from skfairdp.foundation.parameters import COUNT, Number, check_arguments
from skfairdp.privacy.mechanisms.integer_noise import RESOLUTION
from skfairdp.privacy.mechanisms.randomized_response import RandomizedResponse
from skfairdp.privacy.noise import NoiseSource
from skfairdp.representation.release_memory import RowStreams, in_chunks

_BOUND = Number(1e-100, 1e100)
_COIN = 2**62  # a power of two, so that the generator's bits are used as they come


@dataclass(frozen=True)
class Randomizer:
    """Randomiser of a vector at a pure local epsilon.

    Parameters
    ----------
    n_components : int
        d, the length of a vector, >= 1.

    Raises
    ------
    ValueError
        A parameter is outside what is allowed.
    """

    epsilon: float
    n_components: int
    _released = ()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        complete_docstrings(cls)

    @property
    def event(self) -> DpEvent | None:
        """Cost of one release, for composition; None without noise.

        It costs at least as much as any pure release, in every composition.
        """
        if math.isinf(self.epsilon):
            return None
        return NoOpDpEvent() if self.epsilon == 0.0 else DiscreteLaplaceDpEvent(self.epsilon, 1)

    def release(self, hidden: Any, noise: NoiseSource | RowStreams) -> NDArray[Any]:
        """Release vectors, each by itself.

        Parameters
        ----------
        noise : NoiseSource or RowStreams
            Where the noise comes from: fresh, or derived for each row.

        Raises
        ------
        ValueError
            If the shape is another one.
        """
        raise NotImplementedError

    def points(self, hidden: Any) -> NDArray[np.int64]:
        """Convert vectors to all that a release hides of them, in whole numbers.

        Parameters
        ----------
        hidden : array-like, shape (n, d)
            Vectors, as `release` takes them.

        Returns
        -------
        ndarray of int64, shape (n, d)
            Equal for vectors whose releases have one law.
        """
        raise NotImplementedError

    def log_density(self, released: ArrayLike, hidden: ArrayLike) -> NDArray[np.float64]:
        """Log probability of released vectors given the hidden ones.

        Returns
        -------
        ndarray of float64, shape (m, n)
            In nats, with respect to the points that can be released; minus infinity where
            impossible.
        """
        raise NotImplementedError

    def _check(self, **allowed: Number) -> None:
        """Check parameters, and keep each as a plain number."""
        check_arguments(vars(self), **allowed)
        for name, number in allowed.items():
            kind = int if number.integer else float
            object.__setattr__(self, name, kind(getattr(self, name)))

    def _refuse_shape(self, name: str, values: NDArray[Any]) -> None:
        if values.ndim != 2 or values.shape[1] != self.n_components:
            raise ValueError(
                f"{name} has shape {values.shape}; allowed is (n, {self.n_components}), the number "
                "of components"
            )


@dataclass(frozen=True)
class LaplaceRandomizer(Randomizer):
    """Add Laplace noise to vectors in a cube, exactly epsilon-private as they are stored.

    Each coordinate is truncated to ``[-bound, bound]``, rounded to a public grid and
    moved by a discrete Laplace number of grid steps.

    Parameters
    ----------
    epsilon : float
        Cost of one released vector in nats, > 0 (pure, local). Infinity releases the
        truncated vector without noise, for comparison.
    bound : float
        t, half the width of the cube, > 0.

    Raises
    ------
    ValueError
        A parameter is outside what is allowed; also an epsilon too small for the exact
        sampler, below about ``1.5e-8 * n_components``.

    Notes
    -----
    Laplace noise of scale ``2 t d / epsilon`` (Xie et al., arXiv 2402.10473, eq. (53)) is
    epsilon-private for real numbers, but not for floating-point ones (Mironov, 2012); in whole
    steps of a grid it is. The documentation's page on private representations has the proof.

    Examples
    --------
    >>> import numpy as np
    >>> from skfairdp.representation import LaplaceRandomizer
    >>> from skfairdp.privacy import NoiseSource
    >>> randomizer = LaplaceRandomizer(epsilon=8.0, n_components=2, bound=0.5)
    >>> randomizer.scale
    0.25
    >>> randomizer.release(np.array([[0.1, 99.0]]), NoiseSource()).shape
    (1, 2)
    """

    bound: float

    def __post_init__(self) -> None:
        if not Number(0.0, low_open=True, finite=False).accepts(self.epsilon):
            raise ValueError(
                f"epsilon={self.epsilon!r} is not allowed for Laplace noise: give a number > 0 "
                "(for 0, which must reveal nothing, use randomised response)"
            )
        self._check(epsilon=Number(finite=False), n_components=COUNT, bound=_BOUND)
        if not math.isinf(self.epsilon) and self._units < 1:
            raise ValueError(
                f"epsilon={self.epsilon!r} is too small for n_components={self.n_components!r}: "
                f"give at least {significant_up(1.5e-8 * self.n_components, 2)}"
            )

    @cached_property
    def _steps(self) -> int:
        """M: grid steps between the two ends of a coordinate, a power of two."""
        share = min(self.epsilon, 1e30) / self.n_components
        return int(2 ** min(max(math.ceil(math.log2(share)) + 12, 6), 48))

    @cached_property
    def _units(self) -> int:
        """Cost of one grid step in units of 2**-32 nats, rounded down."""
        exact = Fraction(self.epsilon) * RESOLUTION / (self._steps * self.n_components)
        return min(math.floor(exact), 2**20 * RESOLUTION)

    @property
    def _step(self) -> float:
        return 2.0 * self.bound / self._steps

    @property
    def scale(self) -> float:
        """Scale of the noise in the units of the vectors, ``2 t d / epsilon``."""
        return 2.0 * self.bound * self.n_components / self.epsilon

    @property
    def identity(self) -> str:
        """Name of the randomiser and all it depends on, for a release memory."""
        return f"laplace:{self.epsilon.hex()}:{self.n_components}:{self.bound.hex()}"

    def truncate(self, values: ArrayLike) -> NDArray[np.float64]:
        """Bring vectors into the cube.

        Parameters
        ----------
        values : array-like, shape (n, d)
            Any numbers. Infinite ones go to the nearest end, NaN to 0.

        Returns
        -------
        ndarray of float64, shape (n, d)
        """
        values = np.asarray(values, dtype=np.float64)
        self._refuse_shape("values", values)
        return np.clip(np.where(np.isnan(values), 0.0, values), -self.bound, self.bound)

    def release(self, truncated: ArrayLike, noise: NoiseSource | RowStreams) -> NDArray[np.float64]:
        """Release vectors, each by itself.

        Parameters
        ----------
        truncated : array-like, shape (n, d)
            Vectors; what lies outside the cube is truncated here in any case.

        Returns
        -------
        ndarray of float64, shape (n, d)
            On the grid, and not within the cube.
        """
        truncated = self.truncate(truncated)
        if math.isinf(self.epsilon):
            return truncated
        steps = self.snapped(truncated)
        for rows, source in in_chunks(noise, steps):
            for column in range(self.n_components):
                part = steps[rows, column]
                part += source.discrete_laplace(self._units / RESOLUTION, len(part))
        return np.asarray(steps * self._step)

    def log_density(self, released: ArrayLike, truncated: ArrayLike) -> NDArray[np.float64]:
        """Log probability of released vectors given the hidden ones.

        Parameters
        ----------
        released : array-like, shape (m, d)
            What `release` returned; other numbers are rounded to the grid.
        truncated : array-like, shape (n, d)
            Hidden vectors.
        """
        truncated, seen = self.truncate(truncated), np.asarray(released, dtype=float)
        if math.isinf(self.epsilon):
            same = (seen[:, None, :] == truncated[None, :, :]).all(axis=2)
            return np.where(same, 0.0, -np.inf)
        rate = self._units / RESOLUTION
        far = np.zeros((len(seen), len(truncated)))
        grid = np.rint(seen / self._step).T
        for points, hidden in zip(grid, self.snapped(truncated).T, strict=True):
            far += np.abs(points[:, None] - hidden)
        return np.asarray(self.n_components * math.log(math.tanh(rate / 2)) - rate * far)

    def points(self, truncated: ArrayLike) -> NDArray[np.int64]:
        """Convert vectors to points of the public grid.

        Parameters
        ----------
        truncated : array-like, shape (n, d)
            Vectors; those outside the cube are truncated first.
        """
        return self.snapped(self.truncate(truncated))

    def snapped(self, truncated: NDArray[np.float64]) -> NDArray[np.int64]:
        """Round vectors to the public grid: all that a release hides.

        Parameters
        ----------
        truncated : ndarray of float64, shape (n, d)
            Vectors in the cube.

        Returns
        -------
        ndarray of int64, shape (n, d)
            Steps from the middle of the cube.
        """
        half = self._steps // 2
        return np.clip(np.rint(truncated / self._step), -half, half).astype(np.int64)


@dataclass(frozen=True)
class ResponseRandomizer(Randomizer):
    """Answer each of several codes by randomised response, at an equal share of epsilon.

    Parameters
    ----------
    epsilon : float
        Cost of one released vector of codes in nats, >= 0 (pure, local). At 0 the codes
        are uniform whatever is hidden; infinity releases them as they are.
    n_values : int
        k, values of a code, >= 1.
    constant_share : float, default=0.0
        Chance, in [0, 1), that a code is released as `constant` instead, whatever is hidden:
        a mixture of two channels of which one shows nothing. What is left of the
        differences between hidden codes shrinks by it.
    constant : int, default=0
        That value.

    Notes
    -----
    A code is kept with probability ``e^(epsilon/d) / (e^(epsilon/d) + k - 1)``, else
    replaced by one of the others, all equally likely (Kairouz, Bonawitz and Ramage, 2016).
    It is drawn by comparing integers: no rounding weakens the promise.

    Examples
    --------
    >>> import numpy as np
    >>> from skfairdp.representation import ResponseRandomizer
    >>> from skfairdp.privacy import NoiseSource
    >>> randomizer = ResponseRandomizer(epsilon=2.0, n_components=2, n_values=8)
    >>> randomizer.release(np.array([[3, 5]]), NoiseSource()).shape
    (1, 2)
    """

    n_values: int
    constant_share: float = 0.0
    constant: int = 0

    def __post_init__(self) -> None:
        self._check(epsilon=Number(0.0, finite=False), n_components=COUNT, n_values=COUNT)
        constants = Number(0, self.n_values - 1, integer=True)
        self._check(constant_share=Number(0.0, 1.0, high_open=True), constant=constants)
        _ = self.attenuation  # what is cached is there from the start, as digests see it

    @cached_property
    def _response(self) -> RandomizedResponse | None:
        """Mechanism for one code; None where it shows nothing."""
        share = self.epsilon / self.n_components
        if not math.isinf(share) and Fraction(share) * self.n_components > Fraction(self.epsilon):
            share = math.nextafter(share, 0.0)
        # Below that, a probability in units of 2**-62 cannot follow e^share any more.
        if self.n_values == 1 or share < self.n_values * 2.0**-50:
            return None
        return RandomizedResponse(share, self.n_values)

    @property
    def identity(self) -> str:
        """Name of the randomiser and all it depends on, for a release memory."""
        mixed = f":{self.constant_share.hex()}:{self.constant}" if self.constant_share else ""
        settings = f"{self.epsilon.hex()}:{self.n_components}:{self.n_values}"
        return f"randomized response:{settings}{mixed}"

    @property
    def keep_probability(self) -> float:
        """Probability that randomised response keeps a code as it is."""
        return 1.0 / self.n_values if self._response is None else self._response.keep_probability

    @property
    def change_probability(self) -> float:
        """Probability of each other value."""
        return 1.0 / self.n_values if self._response is None else self._response.change_probability

    @property
    def attenuation(self) -> float:
        """Factor by which a release shrinks a difference between laws of one hidden code."""
        kept = 0.0 if self._response is None else self._response.attenuation
        return (1.0 - self.constant_share) * kept

    def release(
        self, codes: NDArray[np.int64], noise: NoiseSource | RowStreams
    ) -> NDArray[np.int64]:
        """Release codes, each by itself.

        Parameters
        ----------
        codes : ndarray of int, shape (n, d)
            Hidden values in ``0 .. k-1``.

        Returns
        -------
        ndarray of int64, shape (n, d)
            In ``0 .. k-1``.

        Raises
        ------
        ValueError
            If the shape is another one, or codes are not integers in ``0 .. k-1``.
        """
        codes = self._checked(codes)
        released = np.empty_like(codes)
        for rows, source in in_chunks(noise, codes):
            for column in range(self.n_components):
                part = codes[rows, column]
                if self._response is None:
                    answer = source.integers(self.n_values, len(part))
                else:
                    answer = self._response.report(part, source)
                if self.constant_share:
                    drawn = source.integers(_COIN, len(part)) < int(self.constant_share * _COIN)
                    answer = np.where(drawn, self.constant, answer)
                released[rows, column] = answer
        return released

    def log_density(self, released: ArrayLike, codes: ArrayLike) -> NDArray[np.float64]:
        """Log probability of released codes given the hidden ones.

        Parameters
        ----------
        released : array-like of int, shape (m, d)
            Released codes.
        codes : array-like of int, shape (n, d)
            Hidden codes.
        """
        seen, hidden = self._checked(released), self._checked(codes)
        same = seen[:, None, :] == hidden[None, :, :]
        chances = np.where(same, self.keep_probability, self.change_probability)
        chances = (1.0 - self.constant_share) * chances
        chances += self.constant_share * (seen == self.constant)[:, None, :]
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(chances).sum(axis=2))

    def points(self, codes: ArrayLike) -> NDArray[np.int64]:
        """Return codes, which are all that a release hides.

        Parameters
        ----------
        codes : array-like of int, shape (n, d)
            Hidden values in ``0 .. k-1``.
        """
        return self._checked(codes)

    def _checked(self, codes: ArrayLike) -> NDArray[np.int64]:
        codes = np.asarray(codes)
        self._refuse_shape("codes", codes)
        if codes.dtype.kind not in "iu":
            raise ValueError(f"codes has dtype {codes.dtype}; allowed are integers")
        codes = codes.astype(np.int64, copy=False)
        if codes.size and not 0 <= codes.min() <= codes.max() < self.n_values:
            raise ValueError(
                f"codes has values outside 0 .. {self.n_values - 1}, of which n_values speaks"
            )
        return codes
