"""The one door: rows reach released state only through the functions here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from skfairdp.engine.clipping import Clipper
from skfairdp.engine.sampling import Batch, PoissonSampler
from skfairdp.privacy.noise import NoiseSource
from skfairdp.privacy.plan import CountRelease, Segment

__all__ = ["HeadSums", "NoisyRelease", "Rows"]


@dataclass(frozen=True)
class Rows:
    """The private training rows, kept only while a model is trained.

    Parameters
    ----------
    X : Tensor, shape (n, ...)
        Features, in the dtype and on the device of the module.
    targets : tuple of Tensor, each with n rows
        What the per-record objective takes besides the module's output.
    codes : ndarray of int, shape (n,)
        Cell of each row; negative for rows that contribute to nothing.
    """

    X: Tensor
    targets: tuple[Tensor, ...]
    codes: np.ndarray


@dataclass(frozen=True)
class HeadSums:
    """Released sums of a step whose head is trained on micro-batches.

    Parameters
    ----------
    vector : Tensor of float64, shape (p,)
        Noisy weighted sum for all parameters; its head part is not used.
    heads : Tensor of float64, shape (n_heads, p_head)
        Noisy weighted sum of each micro-batch for the head's parameters.
    """

    vector: Tensor
    heads: Tensor


class NoisyRelease:
    """Turn private rows into noisy clipped sums, as the plan says.

    Parameters
    ----------
    rows : Rows
        Private rows.
    n_cells : int
        Number of cells in the plan.
    clipper : Clipper
        Computes weighted sums of clipped per-record gradients.
    noise : NoiseSource
        Draws noise and batches.

    Notes
    -----
    The noise is drawn and added in float64. Nothing else in the package reads
    training rows once a plan has been made.
    """

    def __init__(self, rows: Rows, n_cells: int, clipper: Clipper, noise: NoiseSource) -> None:
        self._rows = rows
        self._clipper = clipper
        self._noise = noise
        self._sampler = PoissonSampler(rows.codes, n_cells, noise.sampling)

    @property
    def row_shape(self) -> tuple[int, ...]:
        """Shape of one row's features, which is public."""
        return tuple(self._rows.X.shape[1:])

    def gradient(self, segment: Segment) -> Tensor:
        """Release the noisy weighted sum of clipped gradients of a fresh batch.

        Parameters
        ----------
        segment : Segment
            Rates, weights, norm and noise of the step.

        Returns
        -------
        Tensor of float64, shape (p,)
            On the device of the module.
        """
        block = segment.blocks[0]
        batch = self._sampler.draw(segment.rates)
        total = self._sums(batch.rows, block.max_norm, self._spread(batch, block.weights))
        return self._noisy(total, block.noise_std)

    def heads(
        self,
        segment: Segment,
        head: slice,
        *,
        radii: tuple[float, ...],
        head_scale: float,
    ) -> HeadSums:
        """Release a step whose head is trained on ``segment.n_heads`` micro-batches.

        Every sampled record draws its micro-batch uniformly and by itself before
        any gradient is computed. The head part of each cell's sum in each
        micro-batch is projected on its own ball, which cannot raise the
        sensitivity: body and projected head together are a projection on a convex
        set.

        Parameters
        ----------
        segment : Segment
            Rates, weights, norm and noise of the step.
        head : slice
            Positions of the head's parameters in the parameter vector.
        radii : tuple of float
            Largest norm of each cell's head sum over a whole batch, before
            weighting; a micro-batch gets the n_heads-th part.
        head_scale : float
            Factor on the weights and on the noise of the micro-batch sums.

        Returns
        -------
        HeadSums
        """
        block = segment.blocks[0]
        n_heads, n_cells = segment.n_heads, len(segment.rates)
        batch = self._sampler.draw(segment.rates)
        slot = self._sampler.slots(len(batch.rows), n_heads)
        cell = np.repeat(np.arange(n_cells), batch.sizes)
        member = np.zeros((n_heads * n_cells, len(batch.rows)))
        member[slot * n_cells + cell, np.arange(len(batch.rows))] = 1.0
        sums = self._sums(batch.rows, block.max_norm, self._tensor(member)).double()
        sums = sums.reshape(n_heads, n_cells, -1)
        cell_weights = torch.tensor(block.weights, dtype=torch.float64, device=sums.device)
        limits = torch.tensor(radii, dtype=torch.float64, device=sums.device) / n_heads
        head_sums = sums[:, :, head]
        norms = head_sums.norm(dim=2)
        shrink = torch.where(norms > limits, limits / norms.clamp_min(1e-300), 1.0)
        weighted = (head_sums * shrink[:, :, None] * cell_weights[None, :, None]).sum(dim=1)
        vector = (sums.sum(dim=0) * cell_weights[:, None]).sum(dim=0)
        return HeadSums(
            vector=self._noisy(vector, block.noise_std),
            heads=self._noisy(weighted * head_scale, block.noise_std * head_scale),
        )

    def counts(
        self, release: CountRelease, assign: Callable[[Rows], np.ndarray], n_counts: int
    ) -> np.ndarray:
        """Release a table of counts over all rows with discrete Laplace noise.

        Parameters
        ----------
        release : CountRelease
            States the epsilon of one table.
        assign : callable
            Maps the rows to the count that each one adds to (negative for none); a
            row's count depends on that row and on released values alone.
        n_counts : int
            Length of the table.

        Returns
        -------
        ndarray of int64, shape (n_counts,)
        """
        labels = assign(self._rows)
        exact = np.bincount(labels[labels >= 0], minlength=n_counts).astype(np.int64)
        if np.isinf(release.epsilon):
            return exact
        return exact + self._noise.discrete_laplace(release.epsilon, n_counts)

    def _sums(self, rows: np.ndarray, max_norm: float, weights: Tensor) -> Tensor:
        index = torch.from_numpy(rows).to(self._rows.X.device)
        X = self._rows.X.index_select(0, index)
        targets = tuple(target.index_select(0, index) for target in self._rows.targets)
        return self._clipper.clipped_sums(X, targets, max_norm, weights)

    def _spread(self, batch: Batch, weights: tuple[float, ...]) -> Tensor:
        if len(weights) == 1:
            return self._rows.X.new_full(batch.rows.shape, weights[0], dtype=torch.float64)
        return self._tensor(batch.spread(weights))

    def _tensor(self, values: np.ndarray) -> Tensor:
        # Weights meet clip factors, which are float64: one dtype is faster than two.
        return torch.from_numpy(values).to(self._rows.X.device)

    def _noisy(self, total: Tensor, std: float) -> Tensor:
        if std == 0.0:
            return total.double()
        noise = torch.from_numpy(self._noise.gaussian(tuple(total.shape), std))
        return noise.to(total.device).add_(total)
