"""Randomisers that a representation passes through before it is released."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from dp_accounting.dp_event import DiscreteLaplaceDpEvent, DpEvent, NoOpDpEvent
from numpy.typing import ArrayLike, NDArray

from skfairdp.figures import significant_up
from skfairdp.parameters import COUNT, Number
from skfairdp.privacy.mechanisms.geometric import RESOLUTION
from skfairdp.privacy.mechanisms.randomized_response import RandomizedResponse
from skfairdp.privacy.noise import NoiseSource
from skfairdp.representation.release_memory import RowStreams, in_chunks

if TYPE_CHECKING:
    import torch

_BOUND = Number(1e-100, 1e100)


@dataclass(frozen=True)
class LaplaceRandomizer:
    """Add Laplace noise to vectors in a cube, exactly epsilon-private as they are stored.

    Each coordinate is truncated to ``[-bound, bound]``, rounded to a public grid and
    moved by a discrete Laplace number of grid steps.

    Parameters
    ----------
    epsilon : float
        Cost of one released vector in nats, > 0 (pure, local). Infinity releases the
        truncated vector without noise, for comparison.
    n_components : int
        d, the length of a vector, >= 1.
    bound : float
        t, half the width of the cube, > 0.

    Raises
    ------
    ValueError
        A parameter is outside what is allowed; also an epsilon too small for the exact
        sampler, below about ``1.5e-8 * n_components``.

    Notes
    -----
    Laplace noise of scale ``2 t d / epsilon`` (Dwork et al., 2006; Xie et al., arXiv
    2402.10473, eq. (53)) is epsilon-private for real numbers, but not for floating-point ones,
    whose gaps give the hidden value away (Mironov, 2012). Here the noise is an integer: with
    M a power of two and a grid step ``2 t / M``, a coordinate is an integer k with
    ``|k| <= M / 2``, and ``k + noise`` is released with noise of cost
    ``floor(2**32 epsilon / (M d)) / 2**32`` a step. Two vectors differ by at most M steps in
    each of d coordinates, so no released vector is more than ``exp(epsilon)`` times as likely
    under one as under the other. M is chosen from `epsilon` and `n_components` alone so that
    one step is at most 1/4096 of the scale; multiplying by the step afterwards is
    post-processing.

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

    epsilon: float
    n_components: int
    bound: float

    def __post_init__(self) -> None:
        """Refuse parameters that make no sense."""
        if not Number(0.0, low_open=True, finite=False).accepts(self.epsilon):
            raise ValueError(
                f"epsilon={self.epsilon!r} is not allowed for Laplace noise: give a number > 0 "
                "(for 0, which must reveal nothing, use randomised response)"
            )
        _check_count("n_components", self.n_components)
        if not _BOUND.accepts(self.bound):
            raise ValueError(f"bound={self.bound!r} is not allowed: give {_BOUND.describe()}")
        for name, kind in (("epsilon", float), ("n_components", int), ("bound", float)):
            object.__setattr__(self, name, kind(getattr(self, name)))
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
    def event(self) -> DpEvent | None:
        """What one release costs, for composition; None without noise."""
        return _pure(self.epsilon)

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

        Raises
        ------
        ValueError
            If the shape is another one.
        """
        values = np.asarray(values, dtype=np.float64)
        if values.ndim != 2 or values.shape[1] != self.n_components:
            raise ValueError(
                f"values has shape {values.shape}; allowed is (n, {self.n_components}), the "
                "number of components"
            )
        return np.clip(np.where(np.isnan(values), 0.0, values), -self.bound, self.bound)

    def release(self, truncated: ArrayLike, noise: NoiseSource | RowStreams) -> NDArray[np.float64]:
        """Release vectors, each by itself.

        Parameters
        ----------
        truncated : array-like, shape (n, d)
            Vectors; what lies outside the cube is truncated here in any case.
        noise : NoiseSource or RowStreams
            Where the noise comes from: fresh, or derived for each row.

        Returns
        -------
        ndarray of float64, shape (n, d)
            On the grid, and not within the cube.

        Raises
        ------
        ValueError
            If the shape is another one.
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

        Returns
        -------
        ndarray of float64, shape (m, n)
            In nats, with respect to the grid's points; minus infinity where impossible.
        """
        hidden, seen = self.snapped(self.truncate(truncated)), np.asarray(released, dtype=float)
        if math.isinf(self.epsilon):
            same = (seen[:, None, :] == self.truncate(truncated)[None, :, :]).all(axis=2)
            return np.where(same, 0.0, -np.inf)
        rate = self._units / RESOLUTION
        far = np.zeros((len(seen), len(hidden)))
        for column in range(self.n_components):
            points = np.rint(seen[:, column] / self._step)
            far += np.abs(points[:, None] - hidden[:, column][None, :])
        return np.asarray(self.n_components * math.log(math.tanh(rate / 2)) - rate * far)

    def perturb(self, values: torch.Tensor, generator: torch.Generator | None) -> torch.Tensor:
        """Add float noise of the same scale while an encoder trains.

        Parameters
        ----------
        values : Tensor, shape (n, d)
            Truncated vectors.
        generator : torch.Generator or None
            Source of the noise; None: that of the training. It protects no row: what is
            released goes through `release`.

        Returns
        -------
        Tensor, shape (n, d)
            Differentiable with respect to `values`.
        """
        if math.isinf(self.epsilon):
            return values
        first, second = (values.detach().clone().exponential_(generator=generator) for _ in "ab")
        return values + self.scale * (first - second)

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
class ResponseRandomizer:
    """Answer each of several codes by randomised response, at an equal share of epsilon.

    Parameters
    ----------
    epsilon : float
        Cost of one released vector of codes in nats, >= 0 (pure, local). At 0 the codes
        are uniform whatever is hidden; infinity releases them as they are.
    n_components : int
        d, codes in a vector, >= 1.
    n_values : int
        k, values of a code, >= 1.

    Raises
    ------
    ValueError
        A parameter is outside what is allowed.

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

    epsilon: float
    n_components: int
    n_values: int

    def __post_init__(self) -> None:
        """Refuse parameters that make no sense."""
        if not Number(0.0, finite=False).accepts(self.epsilon):
            raise ValueError(f"epsilon={self.epsilon!r} is not allowed: give a number >= 0")
        _check_count("n_components", self.n_components)
        _check_count("n_values", self.n_values)
        for name, kind in (("epsilon", float), ("n_components", int), ("n_values", int)):
            object.__setattr__(self, name, kind(getattr(self, name)))

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
    def event(self) -> DpEvent | None:
        """What one release costs, for composition; None without noise."""
        return _pure(self.epsilon)

    @property
    def identity(self) -> str:
        """Name of the randomiser and all it depends on, for a release memory."""
        return f"randomized response:{self.epsilon.hex()}:{self.n_components}:{self.n_values}"

    @property
    def keep_probability(self) -> float:
        """Probability that a code is released as it is."""
        return 1.0 / self.n_values if self._response is None else self._response.keep_probability

    @property
    def change_probability(self) -> float:
        """Probability of each other value."""
        return 1.0 / self.n_values if self._response is None else self._response.change_probability

    def release(
        self, codes: NDArray[np.int64], noise: NoiseSource | RowStreams
    ) -> NDArray[np.int64]:
        """Release codes, each by itself.

        Parameters
        ----------
        codes : ndarray of int, shape (n, d)
            Hidden values in ``0 .. k-1``.
        noise : NoiseSource or RowStreams
            Where the randomness comes from: fresh, or derived for each row.

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
                released[rows, column] = self._answer(codes[rows, column], source)
        return released

    def log_density(self, released: ArrayLike, codes: ArrayLike) -> NDArray[np.float64]:
        """Log probability of released codes given the hidden ones.

        Parameters
        ----------
        released : array-like of int, shape (m, d)
            Released codes.
        codes : array-like of int, shape (n, d)
            Hidden codes.

        Returns
        -------
        ndarray of float64, shape (m, n)
            In nats; minus infinity where impossible.
        """
        seen, hidden = self._checked(released), self._checked(codes)
        kept = (seen[:, None, :] == hidden[None, :, :]).sum(axis=2)
        with np.errstate(divide="ignore", invalid="ignore"):
            log_keep, log_change = np.log([self.keep_probability, self.change_probability])
            changed = self.n_components - kept
            return np.asarray(kept * log_keep + np.where(changed > 0, changed * log_change, 0.0))

    def perturb(self, codes: torch.Tensor, generator: torch.Generator | None) -> torch.Tensor:
        """Change codes by the same law while an encoder trains.

        Parameters
        ----------
        codes : Tensor of int64, shape (n, d)
            Hidden codes.
        generator : torch.Generator or None
            Source of the randomness; None: that of the training. It protects no row: what is
            released goes through `release`.

        Returns
        -------
        Tensor of int64, shape (n, d)
        """
        import torch  # only where an encoder trains

        if self.n_values == 1:
            return codes
        device = codes.device
        drawn = torch.rand(codes.shape, generator=generator, device=device)
        shift = torch.randint(1, self.n_values, codes.shape, generator=generator, device=device)
        return torch.where(drawn < self.keep_probability, codes, (codes + shift) % self.n_values)

    def _answer(
        self, codes: NDArray[np.int64], source: NoiseSource | RowStreams
    ) -> NDArray[np.int64]:
        if self._response is None:
            return source.integers(self.n_values, len(codes))
        return self._response.report(codes, source)

    def _checked(self, codes: ArrayLike) -> NDArray[np.int64]:
        codes = np.asarray(codes)
        if codes.ndim != 2 or codes.shape[1] != self.n_components:
            raise ValueError(
                f"codes has shape {codes.shape}; allowed is (n, {self.n_components}), the number "
                "of components"
            )
        if codes.dtype.kind not in "iu":
            raise ValueError(f"codes has dtype {codes.dtype}; allowed are integers")
        codes = codes.astype(np.int64, copy=False)
        if codes.size and not 0 <= codes.min() <= codes.max() < self.n_values:
            raise ValueError(
                f"codes has values outside 0 .. {self.n_values - 1}, of which n_values speaks"
            )
        return codes


def _check_count(name: str, value: int) -> None:
    if not COUNT.accepts(value):
        raise ValueError(f"{name}={value!r} is not allowed: give {COUNT.describe()}")


def _pure(epsilon: float) -> DpEvent | None:
    """One event that costs at least as much as any pure release, in every composition."""
    if math.isinf(epsilon):
        return None
    return NoOpDpEvent() if epsilon == 0.0 else DiscreteLaplaceDpEvent(epsilon, 1)
