"""Noisy counts of table columns. No other module of the encoders reads private cells."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import ndtri

from skfairdp.exceptions import PlanError
from skfairdp.privacy.meter import Meter
from skfairdp.privacy.noise import NoiseSource
from skfairdp.privacy.plan import Plan, Segment


@dataclass(frozen=True)
class Cells:
    """The private cells of one column: each is a number, a text, or missing."""

    numbers: NDArray[np.float64]  # (n,): NaN where there is none
    texts: NDArray[np.int64]  # (n,): position in `distinct`; -1 where there is none
    distinct: tuple[str, ...] = ()  # The texts that occur

    def as_texts(self) -> tuple[NDArray[np.int64], list[str]]:
        """All cells as texts: position of each in the second value, -1 for a missing one."""
        numbers, values = pd.factorize(self.numbers)
        where = {text: place for place, text in enumerate(self.distinct)}
        written = [where.setdefault(f"{value:.17g}", len(where)) for value in values]
        found = np.append(np.asarray(written, dtype=np.int64), -1)[numbers]
        return np.where(self.texts >= 0, self.texts, found), list(where)


class TableRelease:
    """Turn private columns into noisy counts, as the plan says.

    `cells_of`: cells of a column by its place. `plan`: what was charged, with steps that draw every
    row and exact noise. Every release is drawn from it; `meter`: what is still to be released.
    Raises PlanError: the plan is not like that, or does not hold what is released.
    """

    def __init__(self, cells_of: Callable[[int], Cells], plan: Plan, noise: NoiseSource) -> None:
        if not plan.exact_noise or any(segment.rates != (1.0,) for segment in plan.segments):
            raise PlanError(
                "Tables are counted over all rows, with exact noise: plan exact_noise=True, and a "
                "sampling rate of 1 in every segment."
            )
        self.meter = Meter(plan)
        self._cells_of = cells_of
        self._noise = noise

    def histograms(
        self,
        segment: Segment,
        column: int,
        first: Callable[[Cells], NDArray[np.int64]],
        size: int,
        then: Callable[[NDArray[np.float64]], tuple[Callable[[Cells], NDArray[np.int64]], int]]
        | None = None,
    ) -> list[NDArray[np.float64]]:
        """Release one histogram of a column for each block of a segment.

        Each may depend on the noisy counts of those before it: the blocks of a step are charged
        together whatever was answered.

        `first`: maps the cells to the count that each adds one to, negative for none; it depends
        on nothing but the cell itself and on what was released. `size`: number of counts. `then`:
        maps noisy counts to the next such map and number.
        """
        self._draw(segment)
        released: list[NDArray[np.float64]] = []
        for block in segment.blocks:
            if released and then is not None:
                first, size = then(released[-1])
            codes = first(self._cells_of(column))
            exact = np.bincount(codes[codes >= 0], minlength=size).astype(np.float64)
            released.append(self._noisy(exact, block.noise_std))
        return released

    def frequent(self, segment: Segment, column: int) -> list[str]:
        """Release which texts of a column have a noisy count above the segment's threshold.

        Noise is added to the texts that occur, all in one query with the noise of the whole
        step. That alone would show who brought a text that no other row has; the threshold is
        such that it does with the probability `segment.failure`, which is charged. Result:
        sorted, as their order in the rows is private.
        """
        self._draw(segment)
        codes, texts = self._cells_of(column).as_texts()
        exact = np.bincount(codes[codes >= 0], minlength=len(texts)).astype(np.float64)
        noisy = self._noisy(exact, segment.multiplier(0))
        kept = np.flatnonzero(noisy >= threshold(segment.multiplier(0), segment.failure))
        return sorted(texts[place] for place in kept)

    def _draw(self, segment: Segment) -> None:
        if any((b.max_norm, b.weights) != (1.0, (1.0,)) for b in segment.blocks):
            raise PlanError(
                "A cell adds one to one count: plan a norm of 1 and a weight of 1 in every block."
            )
        self.meter.draw(segment)

    def _noisy(self, exact: NDArray[np.float64], std: float) -> NDArray[np.float64]:
        """Add the noise: the only way that a count leaves."""
        return exact if std == 0.0 else self._noise.on_grid(exact, std)


def threshold(std: float, failure: float) -> float:
    """Noisy count that a text of one row reaches with a probability of at most `failure`.

    Raises PlanError: there is noise, and no probability is set aside.
    """
    if std == 0.0:
        return 1.0
    if not 0.0 < failure < 1.0:
        raise PlanError(
            "The texts of a column are private, and one that a single row holds must stay out: "
            f"plan a failure probability between 0 and 1; got {failure!r}."
        )
    # One count is rounded, and shifted by one; a part in 2**30 covers grid and round-off.
    return 1.0 + std * (-float(ndtri(failure)) + 2.0**-30)
