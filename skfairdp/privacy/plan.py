"""The immutable plan of a private computation.

One object holds everything that the privacy cost depends on: sampling rates,
clipping norms, weights, noise and the number of steps. The training loop does
what the plan says and the accountant charges what the plan says; neither keeps
figures of its own, so the two cannot disagree. `skfairdp.privacy.meter` sees to the first.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass

from skfairdp.foundation.documentation import completed_by
from skfairdp.foundation.parameters import CHANCE, COUNT, POSITIVE, PRICE, Number
from skfairdp.privacy.relations import NEIGHBOURS, check_name

# Limits with exact noise: numbers that a step releases, and the smallest noise multiplier.
MOST_NUMBERS, LEAST_MULTIPLIER = 2**24, 0.25
# Each number is rounded to a grid of 2**-38 of its noise, by at most one step: see
# `skfairdp.privacy.noise.NoiseSource.on_grid`. Two data sets may be rounded apart, so that the
# sum moves by this many more standard deviations of its noise.
GRID_MARGIN = 2.0 * MOST_NUMBERS**0.5 * 2.0**-38
# Probability that the noise of any number of a step is beyond the 16 standard deviations that
# are ever drawn, less the 4 by which a record shifts it at most: 2**25 tails beyond 12.
GRID_FAILURE = 2.0**-83

_NUMBER, _RATE, _COUNT = Number(0.0), Number(0.0, 1.0, low_open=True), Number(0, integer=True)


@dataclass(frozen=True, kw_only=True)
class Block:
    """One Gaussian query of a step: a weighted sum of clipped vectors plus noise.

    The released value is ``sum_k weights[k] * sum_{i in batch of cell k} v_i +
    N(0, noise_std**2 I)`` where every record's vector satisfies
    ``||v_i||_2 <= max_norm``.

    Parameters
    ----------
    name : str
        What is summed, e.g. ``"gradient"``.
    max_norm : float
        L2 bound of one record's vector before weighting.
    weights : tuple of float
        Weight of each cell's sum; one per cell of the segment, >= 0.
    noise_std : float
        Standard deviation of the Gaussian noise on every coordinate of the weighted sum of
        all cells, in its units. 0 means no noise (``epsilon=inf``). A release that reveals
        every cell's own sum reads it as `cell_noise_std`.
    charged_multipliers : tuple of float or None
        Noise multiplier to charge for each cell. None charges what the sum as a
        whole provides, ``noise_std / (weights[k] * max_norm)``. A mechanism that
        reveals every cell's noisy sum, and not only their weighted total, states
        the smaller multiplier of each cell's own noise here.
    """

    name: str
    max_norm: float
    weights: tuple[float, ...]
    noise_std: float
    charged_multipliers: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        _check(self, max_norm=POSITIVE, weights=[_NUMBER], noise_std=_NUMBER)
        charged = self.charged_multipliers
        if charged is None:
            return
        _check(self, charged_multipliers=[_NUMBER])
        _check_cells("charged_multipliers", charged, len(self.weights))
        for weight, stated in zip(self.weights, charged, strict=True):
            if stated * weight * self.max_norm > self.noise_std * (1.0 + 1e-9):
                raise ValueError(
                    f"'charged_multipliers' must be at most what the noise of the sum provides; "
                    f"got {stated!r} for noise_std={self.noise_std!r} and a sensitivity of "
                    f"{weight * self.max_norm!r}."
                )

    @property
    def cell_noise_std(self) -> float:
        """Standard deviation of the noise on every coordinate of each cell's own weighted sum.

        For releases that reveal every cell (``gradient(cell_weights=...)``,
        ``gaussian(each_cell=True)``). The same figure as `noise_std`: a record is in one cell,
        and is charged for the noise of that cell's sum.
        """
        return self.noise_std

    def multiplier(self, cell: int) -> float:
        """Noise standard deviation over the L2 sensitivity to a record of one cell.

        Parameters
        ----------
        cell : int
            Position of the cell in the plan's `cells`.

        Returns
        -------
        float
            Infinite when the block does not depend on the cell's records.
        """
        if self.charged_multipliers is not None:
            return float(self.charged_multipliers[cell])
        sensitivity = self.weights[cell] * self.max_norm
        return math.inf if sensitivity == 0.0 else float(self.noise_std / sensitivity)


@dataclass(frozen=True, kw_only=True)
class Segment:
    """Consecutive steps that share rates, norms, weights and noise.

    In every step each record of cell ``k`` is drawn by itself with probability
    ``rates[k]`` (one Poisson batch), and all `blocks` are computed on that batch.

    Parameters
    ----------
    steps : int
        Number of steps, >= 0.
    rates : tuple of float
        Poisson sampling rate of each cell, in (0, 1].
    expected_sizes : tuple of float
        Expected number of records of each cell in a batch, in records; 0 where that is not
        known. Sums are normalised by these, never by the realised (secret) sizes.
    blocks : tuple of Block
        The Gaussian queries of a step. All of them read the same batch, so a step
        is charged once with the combined noise multiplier
        ``(sum_j sigma_j**-2)**-0.5``.
    n_heads : int, default=1
        Number of micro-batches whose head sums are released separately. Each
        sampled record falls into one of them, uniformly and by itself; a head's
        sum gets weight ``n_heads * weights[k]`` and noise ``n_heads * noise_std``,
        so the multiplier of the step does not change.
    failure : float, default=0.0
        Probability with which one step is not what the rest of the plan says (a batch too
        large for the rounding margin, a tail of the noise that is cut off); taken from delta.
    """

    steps: int
    rates: tuple[float, ...]
    expected_sizes: tuple[float, ...]
    blocks: tuple[Block, ...]
    n_heads: int = 1
    failure: float = 0.0

    def __post_init__(self) -> None:
        _check(self, steps=_COUNT, rates=[_RATE], expected_sizes=[_NUMBER])
        _check_cells("expected_sizes", self.expected_sizes, len(self.rates))
        _check(self, n_heads=COUNT, failure=CHANCE, blocks=Block)
        for block in self.blocks:
            _check_cells("weights", block.weights, len(self.rates))

    @completed_by(Block.multiplier)
    def multiplier(self, cell: int) -> float:
        """Combined noise multiplier of one step for a record of one cell.

        Returns
        -------
        float
            ``(sum_j sigma_j**-2)**-0.5`` over the blocks; 0 when one has no noise.
        """
        precision = 0.0
        for block in self.blocks:
            sigma = block.multiplier(cell)
            if sigma == 0.0:
                return 0.0
            precision += 0.0 if math.isinf(sigma) else sigma**-2
        return math.inf if precision == 0.0 else float(precision**-0.5)


@dataclass(frozen=True, kw_only=True)
class CountRelease:
    """A table of counts over all rows, released with discrete Laplace noise.

    Every record adds one to at most one count, so the L1 sensitivity of the whole
    table is 1 and one release costs `epsilon` (pure).

    Parameters
    ----------
    name : str
        What is counted, e.g. ``"group x label x prediction"``.
    epsilon : float
        Privacy cost of one release, in nats.
    releases : int
        How many times a table is released.
    """

    name: str
    epsilon: float
    releases: int = 1

    def __post_init__(self) -> None:
        _check(self, epsilon=PRICE, releases=_COUNT)


@dataclass(frozen=True, kw_only=True)
class LaplaceSum:
    """A weighted sum over all rows of bounded vectors, released once with Laplace noise.

    The released value is ``sum_k weights[k] * sum_{i in cell k} v_i`` plus independent
    Laplace noise on every coordinate, where ``||v_i||_1 <= max_norm``. Where every cell's
    noisy sum is revealed by itself, the weights are 1 and the noise is drawn for each cell:
    a record is in one cell, so the cost is the same.

    Parameters
    ----------
    name : str
        What is summed, e.g. ``"quadratic"``.
    max_norm : float
        L1 bound of one record's vector before weighting.
    weights : tuple of float
        Weight of each cell's sum; one per cell of the plan, >= 0.
    scale : float
        Scale b of the noise, in the units of the weighted sum: its density is
        ``exp(-abs(z) / b) / (2 b)``. 0 means no noise (``epsilon=inf``).
    numbers : int, default=2**18
        How many coordinates the sum of a cell has, at most: exact noise rounds each to a grid.
    """

    name: str
    max_norm: float
    weights: tuple[float, ...]
    scale: float
    numbers: int = 2**18

    def __post_init__(self) -> None:
        _check(self, max_norm=POSITIVE, weights=[_NUMBER], scale=_NUMBER, numbers=_COUNT)

    @completed_by(Block.multiplier)
    def epsilon(self, cell: int) -> float:
        """Pure epsilon, in nats, for a record of one cell.

        Returns
        -------
        float
            0 for a cell without weight; infinite without noise.
        """
        moved = self.weights[cell] * self.max_norm
        if moved == 0.0:
            return 0.0
        return math.inf if self.scale == 0.0 else float(moved / self.scale)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """All releases of one fit, fixed before a row is used.

    A mechanism writes it with `skfairdp.privacy.sizes.Sizes.plan`, which knows cells,
    adjacency and what buying the sizes cost.

    Parameters
    ----------
    cells : tuple
        Labels of the cells (groups) that the rates refer to; ``("all",)`` when the
        mechanism does not tell groups apart.
    segments : tuple of Segment
        The training steps, in order.
    counts : tuple of CountRelease, default=()
        Noisy count tables bought in addition to the steps.
    adjacency : str
        What distinguishes neighbouring data sets, a key of ``ADJACENCIES``: "add-remove"
        when sizes were declared, "zero-out" when they were taken from the rows.
    delta : float
        The declared delta, a probability.
    prior_epsilon : float, default=0.0
        Pure epsilon (nats) of a release that the plan itself was computed from, such
        as noisy group sizes. It is added by basic composition, which holds whatever
        plan the answer led to.
    sums : tuple of LaplaceSum
        Sums over all rows that are released with Laplace noise, in addition to the steps.
    exact_noise : bool, default=False
        Whether the sums of the steps are rounded to a grid and their noise is drawn in whole
        numbers, exactly. The rounding, and the tails that are never drawn, are charged.
    """

    cells: tuple[Hashable, ...]
    segments: tuple[Segment, ...]
    counts: tuple[CountRelease, ...] = ()
    adjacency: str
    delta: float
    prior_epsilon: float = 0.0
    sums: tuple[LaplaceSum, ...] = ()
    exact_noise: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.cells, tuple) or len(set(self.cells)) != max(1, len(self.cells)):
            raise ValueError(f"'cells' must be a tuple of distinct labels; got {self.cells!r}.")
        _check(self, segments=Segment, counts=CountRelease, sums=LaplaceSum)
        for segment in self.segments:
            _check_cells("rates", segment.rates, len(self.cells))
        for released in self.sums:
            _check_cells("weights", released.weights, len(self.cells))
        check_name("adjacency", self.adjacency, NEIGHBOURS)
        _check(self, delta=CHANCE, prior_epsilon=_NUMBER)

    def charged_multiplier(self, segment: Segment, cell: int) -> float:
        """Noise multiplier that a step of a segment is charged with for a record of a cell.

        Parameters
        ----------
        segment : Segment
            One of the plan's.
        cell : int
            Position of the cell in `cells`.

        Returns
        -------
        float
            The segment's, lowered for the rounding to a grid where noise is exact.
        """
        multiplier = segment.multiplier(cell)
        if not self.exact_noise or math.isinf(multiplier):
            return multiplier
        # Of n blocks, the inverse multipliers add up to at most sqrt(n) times their norm.
        moved = math.sqrt(len(segment.blocks)) * GRID_MARGIN
        if NEIGHBOURS[self.adjacency].two_cells:  # whose sums may be rounded as one
            moved *= math.sqrt(2.0)
        lowered = multiplier * moved
        return float(multiplier / (1.0 + lowered))

    def charged_epsilon(self, released: LaplaceSum, cell: int) -> float:
        """Pure epsilon that a sum is charged with for a record of a cell.

        Parameters
        ----------
        released : LaplaceSum
            One of the plan's.
        cell : int
            Position of the cell in `cells`.

        Returns
        -------
        float
            The sum's, raised for the rounding to a grid where noise is exact: two data sets may
            be rounded apart by up to two steps in each number.
        """
        epsilon = released.epsilon(cell)
        rounding = 2.0 * released.numbers * 2.0**-32 if self.exact_noise else 0.0
        return epsilon + rounding if 0.0 < epsilon < math.inf else epsilon

    def check_exact_noise(self, n_parameters: int) -> None:
        """Refuse a net, or noise, for which the margins of exact noise are not proved.

        Parameters
        ----------
        n_parameters : int
            How many numbers a gradient has.

        Raises
        ------
        ValueError
            With exact noise: if a step releases more than 2**24 numbers, or if a multiplier is
            below 1/4.
        """
        if not self.exact_noise or self.noiseless:
            return
        # The heads of a step have at most all parameters each; a statistic has few numbers.
        released = n_parameters * (1 + max((s.n_heads for s in self.segments), default=1))
        if released > MOST_NUMBERS - 2**16:
            raise ValueError(
                f"exact_noise=True is proved for steps of up to {MOST_NUMBERS:,} numbers; "
                f"this net has {n_parameters:,} parameters. Use a smaller net, or "
                "exact_noise=False."
            )
        blocks = [block for segment in self.segments for block in segment.blocks]
        of_cells = (block.multiplier(cell) for block in blocks for cell in range(len(self.cells)))
        least = min(of_cells, default=math.inf)
        if least < LEAST_MULTIPLIER:
            raise ValueError(
                f"Exact noise is proved for noise multipliers from {LEAST_MULTIPLIER}; got "
                f"{least!r}. Use more noise (a smaller 'epsilon'), or exact_noise=False where the "
                "estimator has it."
            )

    @completed_by(charged_multiplier)
    def charged_failure(self, segment: Segment) -> float:
        """Probability of failure that a step of a segment is charged with.

        Returns
        -------
        float
        """
        return segment.failure + (GRID_FAILURE if self.exact_noise else 0.0)

    @property
    def steps(self) -> int:
        """Total number of training steps."""
        return sum(segment.steps for segment in self.segments)

    @property
    def noiseless(self) -> bool:
        """True when nothing is protected (``epsilon=inf``)."""
        cells, taken = range(len(self.cells)), [s for s in self.segments if s.steps > 0]
        bare = any(segment.multiplier(cell) == 0.0 for segment in taken for cell in cells)
        return bare or any(released.scale == 0.0 for released in self.sums)


def _check(part: object, **table: Number | list[Number] | type) -> None:
    """Check fields by name; [a check] is for all of a tuple, a type for those of one."""
    for name, allowed in table.items():
        value = getattr(part, name)
        if isinstance(allowed, Number):
            right = allowed.accepts(value)
        elif isinstance(allowed, list):
            several = isinstance(value, tuple) and value != ()
            right = several and all(map(allowed[0].accepts, value))
        else:
            right = isinstance(value, tuple) and all(isinstance(one, allowed) for one in value)
        if right:
            continue
        if isinstance(allowed, Number):
            words = allowed.describe()
        elif isinstance(allowed, list):
            words = f"a tuple with {allowed[0].describe()}"
        else:
            words = f"a tuple of {allowed.__name__}"
        raise ValueError(f"{name!r} must be {words}; got {value!r}.")


def _check_cells(name: str, values: tuple[float, ...], n: int) -> None:
    if len(values) != n:
        raise ValueError(f"{name!r} must hold a number for each cell, {n} in all; got {values!r}.")
