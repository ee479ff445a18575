"""Poisson batches: every record is drawn by its own coin, also of rows that are not in memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from skfairdp.engine.person_rows import PersonRows
from skfairdp.privacy.plan import Segment
from skfairdp.records.persons import Persons
from skfairdp.records.stored_rows import LARGEST, StoredRows, refuse_changes


@dataclass(frozen=True)
class Batch:
    """Rows of one Poisson batch. Its size is secret and must not leave the engine."""

    rows: np.ndarray  # (B,): row numbers, cell after cell
    sizes: tuple[int, ...]  # How many of the rows, or of the persons, belong to each cell
    persons: PersonRows | None = None  # Whose rows they are; None: each is its own record

    def __len__(self) -> int:
        """Return the number of records: rows, or persons."""
        return sum(self.sizes)

    def spread(self, per_cell: tuple[float, ...]) -> np.ndarray:
        """Give every record the value of its cell, as an array of shape (B,)."""
        if len(per_cell) == 1:
            return np.full(len(self), per_cell[0])
        return np.repeat(np.asarray(per_cell, dtype=np.float64), self.sizes)

    def parts(self, records: int) -> Iterator[Batch]:
        """Cut a batch into parts of this number of adjacent records, the last one of fewer."""
        if len(self) <= records:
            yield self
            return
        ends = np.cumsum(self.sizes)
        for start in range(0, len(self), records):
            part = slice(start, min(start + records, len(self)))
            sizes = np.diff(ends.clip(part.start, part.stop), prepend=part.start).tolist()
            rows, persons = (part, None) if self.persons is None else self.persons.part(part)
            yield Batch(self.rows[rows], tuple(sizes), persons)


class _Coins:
    """Rounds of independent coins of one probability for some rows, drawn several rounds ahead.

    `members`: the rows, None for all `n`.
    """

    def __init__(
        self, members: np.ndarray | None, n: int, rate: float, generator: np.random.Generator
    ) -> None:
        self._members, self._n = members, n if members is None else len(members)
        self._rate = rate
        self._generator = generator
        self._ahead = max(1, min(64, int(8192 / (self._n * rate + 1.0))))
        self._rows, self._cuts = np.empty(0, dtype=np.int64), [0]
        if rate == 1.0:
            self._rows = np.arange(n) if members is None else members
        self._left, self._process = 0, os.getpid()

    def successes(self) -> np.ndarray:
        """Rows whose coins succeed in the next round."""
        if self._rate == 1.0:
            return self._rows
        # A forked process must not go through the rounds that its parent has yet to use.
        if not self._left or self._process != os.getpid():
            self._draw()
            self._left, self._process = self._ahead, os.getpid()
        self._left -= 1
        first, stop = self._cuts[self._left : self._left + 2]
        return self._rows[first:stop]

    def _draw(self) -> None:
        end = self._n * self._ahead
        found: list[np.ndarray] = []
        last = -1
        while last < end - 1 and end > 0:
            left = (end - last) * self._rate
            # Six standard deviations more than are expected: one pass is nearly always enough.
            gaps = self._generator.geometric(self._rate, int(left + 6.0 * left**0.5) + 8)
            # No overflow at tiny rates; and no gap of 0, which numpy draws once in 2**53 times, and
            # with which a row would be in the batch twice.
            places = last + np.cumsum(np.clip(gaps, 1, end + 1))
            last = int(places[-1])
            found.append(places)
        places = np.concatenate(found) if found else np.empty(0, dtype=np.int64)
        starts = np.arange(self._ahead + 1) * self._n
        cuts = np.searchsorted(places, starts)
        rows = places[: cuts[-1]] - np.repeat(starts[:-1], np.diff(cuts))
        self._rows = rows if self._members is None else self._members[rows]
        self._cuts = cuts.tolist()


class PoissonSampler:
    """Draw Poisson batches of several cells.

    The gaps between successes of a row of coins are geometric, so drawing the gaps has
    the same law as tossing one coin for every row, and costs time in proportion to the
    batch, not to the data. Rows come in order, which reads memory faster.

    `codes` (n,): cell of each row; rows with a negative code are never drawn. `n_cells`: number
    of cells; a cell may be empty. `generator`: source of the coins, seeded by the operating
    system unless the run is a reproducible test.
    """

    def __init__(self, codes: np.ndarray, n_cells: int, generator: np.random.Generator) -> None:
        # None for a cell of all rows, which takes no list of them.
        self._members = tuple(_members(codes == cell) for cell in range(n_cells))
        self._n_rows = len(codes)
        self._generator = generator
        self._rates: tuple[float, ...] = ()
        self._drawing: list[Callable[[], np.ndarray]] = []

    def draw(self, rates: tuple[float, ...]) -> Batch:
        """Draw one batch.

        `rates`: probability that a row of each cell is drawn.
        """
        if rates != self._rates:
            self._rates, self._drawing = rates, self.drawing(rates)
        drawn = [rows() for rows in self._drawing]
        rows = drawn[0] if len(drawn) == 1 else np.concatenate(drawn)
        return Batch(rows, tuple(len(part) for part in drawn))

    def drawing(self, rates: tuple[float, ...]) -> list[Callable[[], np.ndarray]]:
        """Make the sampler of the rows of each cell, one batch at a time."""
        return [
            _Coins(members, self._n_rows, rate, self._generator).successes
            for members, rate in zip(self._members, rates, strict=True)
        ]

    def slots(self, size: int, n_slots: int) -> np.ndarray:
        """Draw a slot in ``range(n_slots)`` for each of `size` rows, independently."""
        return self._generator.integers(n_slots, size=size)


class PersonSampler(PoissonSampler):
    """Draw Poisson batches of persons, each with some of its rows.

    A drawn person brings all its rows, or ``persons.most`` of them, chosen anew at each draw, any
    of them alike. Where each has one row, batches are those of `PoissonSampler`.

    `codes` (n,): cell of each row, one for all rows of a person that are in any; other rows are
    never drawn, nor persons without another. `persons`: whose rows they are.
    """

    def __init__(
        self, codes: np.ndarray, n_cells: int, generator: np.random.Generator, persons: Persons
    ) -> None:
        own = persons.one_each(codes, "the rows of a person are in several cells of the plan")
        super().__init__(own, n_cells, generator)
        used = np.flatnonzero(codes >= 0)
        self._rows = used[np.argsort(persons.codes[used], kind="stable")]
        self._counts = np.bincount(persons.codes[used], minlength=persons.count)
        self._starts = np.cumsum(self._counts) - self._counts
        self._most = persons.most

    def draw(self, rates: tuple[float, ...]) -> Batch:
        drawn = super().draw(rates)
        held = self._counts[drawn.rows]
        taken = np.minimum(held, self._most)
        first = np.repeat(np.cumsum(taken) - taken, taken)
        place = np.arange(len(first)) - first
        many = held > self._most
        if many.any():
            place[np.repeat(many, taken)] = self._some(held[many]).ravel()
        rows = self._rows[np.repeat(self._starts[drawn.rows], taken) + place]
        # Where none has several, rows go the way of rows.
        several = len(rows) > len(taken)
        return Batch(rows, drawn.sizes, PersonRows(taken, self._most) if several else None)

    def one_row_each(self) -> np.ndarray:
        """Draw one row of every person that has any: row numbers."""
        held = self._counts > 0
        place = self._generator.integers(self._counts[held])
        return np.asarray(self._rows[self._starts[held] + place])

    def _some(self, counts: np.ndarray) -> np.ndarray:
        """Choose a uniform subset of given size below each count (Floyd's algorithm)."""
        chosen = np.empty((len(counts), self._most), dtype=np.int64)
        for k in range(self._most):
            last = counts - self._most + k
            place = self._generator.integers(last + 1)
            known = (chosen[:, :k] == place[:, None]).any(axis=1)
            chosen[:, k] = np.where(known, last, place)
        chosen.sort(axis=1)
        return chosen


class MadeRows:
    """Features of the rows of a batch, made a block at a time; a clipper takes them as a tensor.

    `places` (B,): of the rows. `make`: features of the rows at some places. `dim`: number of
    dimensions of the features.
    """

    def __init__(self, places: np.ndarray, make: Callable[[np.ndarray], Tensor], dim: int) -> None:
        self._places, self._make, self._dim = places, make, dim

    def dim(self) -> int:
        """Return the number of dimensions, as of a tensor."""
        return self._dim

    def __getitem__(self, part: slice) -> Tensor:
        return self._make(self._places[part])


class StoredBatches:
    """Draw batches ahead, and read the rows of all of them in one pass, in the order of the file.

    The batches have the law that they have one by one: nothing is drawn otherwise. A row with a
    value that is not finite, or too large, is in none.

    `like` (0, ...): dtype and device of the rows.
    """

    def __init__(self, stored: StoredRows, sampler: PoissonSampler, like: Tensor) -> None:
        self._stored, self.from_memory = stored, stored.from_memory
        self._sampler = sampler
        self._like = like
        self._row_bytes = max(1, int(np.prod(stored.shape[1:]))) * like.element_size()
        self._batches: list[Batch] = []
        self._of: Segment | None = None
        self._places = np.empty(0, dtype=np.int64)
        self._rows = like
        self._recoding: list[Callable[[Tensor], Tensor]] = []

    def draw(self, segment: Segment, steps: int) -> Batch:
        """Draw the next batch of a segment."""
        if self.from_memory:
            return self._sampler.draw(segment.rates)
        if not self._batches or self._of != segment:
            self._of, self._batches, room = segment, [], self._stored.cache_bytes
            while not self._batches or (len(self._batches) < steps and room > 0):
                self._batches.append(self._sampler.draw(segment.rates))
                room -= len(self._batches[-1].rows) * self._row_bytes
            self._batches.reverse()
            self._read()
        return self._batches.pop()

    def holding(self, batch: Batch) -> Batch:
        """Read the rows of a batch, in place of those that were read before."""
        if self.from_memory:
            return batch
        self._of, self._batches = None, [batch]
        self._read()
        return self._batches.pop()

    def recode(self, made: Callable[[Tensor], Tensor]) -> None:
        """Give every row other features from now on: what a function makes of some rows."""
        self._recoding.append(made)
        self._rows = made(self._rows) if len(self._rows) else self._rows

    def made(self, rows: np.ndarray) -> MadeRows:
        """Rows that follow from memory, made when they are asked for."""
        return MadeRows(rows, lambda places: self._values(places)[0], self._like.dim())

    def take(self, rows: np.ndarray) -> tuple[Tensor, Tensor]:
        """Rows that were read, and the places of some of them among these."""
        places = torch.from_numpy(np.searchsorted(self._places, rows))
        return self._rows, places.to(self._rows.device)

    def _read(self) -> None:
        self._rows = self._like  # makes room
        places = np.unique(np.concatenate([batch.rows for batch in self._batches]))
        rows, whole = self._values(places)
        refuse_changes(self._stored)
        self._places, self._rows = places, rows
        if not whole.all():
            self._batches = [_without(batch, places[~whole]) for batch in self._batches]

    def parts(self) -> Iterator[tuple[np.ndarray, Tensor]]:
        """All rows that may be in a batch, a part at a time: their places, and the rows."""
        for places in self._stored.places():
            rows, whole = self._values(places)
            if not whole.all():
                rows, places = rows[torch.from_numpy(whole).to(rows.device)], places[whole]
            yield places, rows
        refuse_changes(self._stored)

    def _values(self, places: np.ndarray) -> tuple[Tensor, np.ndarray]:
        """Rows as they are now, and which of them are whole."""
        kind = torch.empty(0, dtype=self._like.dtype).numpy().dtype
        read = self._stored.take(places, kind)
        flat = read.reshape(len(read), int(np.prod(read.shape[1:])))  # there may be none
        rows = torch.from_numpy(read).to(self._like.device)
        for made in self._recoding if len(rows) else ():
            rows = made(rows)
        # NaN is neither.
        return rows, (flat.max(axis=1) <= LARGEST) & (flat.min(axis=1) >= -LARGEST)


def _without(batch: Batch, rows: np.ndarray) -> Batch:
    """Take rows out of a batch, with persons who have no other row in it."""
    kept = np.isin(batch.rows, rows, invert=True)
    left, persons = kept, batch.persons
    if persons is not None:
        left, persons = persons.with_rows(kept)
    cells = np.repeat(np.arange(len(batch.sizes)), batch.sizes)[left]
    sizes = np.bincount(cells, minlength=len(batch.sizes)).tolist()
    return Batch(batch.rows[kept], tuple(sizes), persons)


def _members(inside: np.ndarray) -> np.ndarray | None:
    if inside.all():
        return None
    small = len(inside) < 2**31  # half the memory
    return np.flatnonzero(inside).astype(np.int32 if small else np.int64)
