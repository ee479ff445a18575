"""Batches of the rows of a fit, whether rows or persons are records, in memory or not."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from skfairdp.records.persons import Persons
from skfairdp.records.stored_rows import LARGEST, StoredRows, refuse_changes


class PersonRows:
    """Number of rows of each person in a batch, where the rows of a person are adjacent.

    `counts` (P,): at least 1. `most`: no count is larger; a public number.
    """

    def __init__(self, counts: np.ndarray, most: int) -> None:
        self.most = most
        self.counts = counts
        self.starts = np.cumsum(counts) - counts
        self.largest = int(counts.max(initial=1))

    def __len__(self) -> int:
        return len(self.counts)

    def with_rows(self, kept: np.ndarray) -> tuple[np.ndarray, PersonRows]:
        """Take rows out: which persons have others, and these persons.

        `kept` (rows,): whether each row stays.
        """
        owners = np.repeat(np.arange(len(self)), self.counts)
        counts = np.bincount(owners[kept], minlength=len(self))
        return counts > 0, PersonRows(counts[counts > 0], self.most)

    def blocks(self, rows: int) -> Iterator[tuple[slice, slice, PersonRows]]:
        """Cut a batch into blocks of at most `rows` rows that hold whole persons.

        Yields the slice of the rows, that of the persons, and the persons of the block.
        """
        ends, first = self.starts + self.counts, 0
        while first < len(self):
            begin = int(self.starts[first])
            stop = int(np.searchsorted(ends, begin + rows, side="right"))
            part = slice(first, stop)
            yield slice(begin, int(ends[stop - 1])), part, PersonRows(self.counts[part], self.most)
            first = stop


@dataclass(frozen=True)
class Batch:
    """Rows of one Poisson batch. Its size is secret and must not leave the engine."""

    rows: np.ndarray  # (B,): their places among the rows that batches are drawn from
    sizes: tuple[int, ...]  # How many of the rows, or of the persons, belong to each cell
    persons: PersonRows | None = None  # Persons of the rows, where one has several

    def __len__(self) -> int:
        """Return the number of records: rows, or persons."""
        return sum(self.sizes)

    def spread(self, per_cell: tuple[float, ...]) -> np.ndarray:
        """Give every record the value of its cell, as an array of shape (B,)."""
        if len(per_cell) == 1:
            return np.full(len(self), per_cell[0])
        return np.repeat(np.asarray(per_cell, dtype=np.float64), self.sizes)


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
    """Draw Poisson batches of several cells: every record is drawn by its own coin.

    The gaps between successes of a row of coins are geometric, so drawing the gaps has
    the same law as tossing one coin for every row, and costs time in proportion to the
    batch, not to the data. Rows come in order, which reads memory faster.

    `codes` (n,): cell of each row; rows with a negative code are never drawn. `n_cells`: number
    of cells; a cell may be empty. `generator`: source of the coins, seeded by the operating
    system unless the run is a reproducible test.
    """

    most = 1  # Rows of a record

    def __init__(self, codes: np.ndarray, n_cells: int, generator: np.random.Generator) -> None:
        # None for a cell of all rows, which takes no list of them.
        kind = np.int32 if len(codes) < 2**31 else np.int64  # half the memory
        cells = (codes == cell for cell in range(n_cells))
        self._members = tuple(
            None if inside.all() else np.flatnonzero(inside).astype(kind) for inside in cells
        )
        self._n_rows = self.count = len(codes)
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

    def counted(self, places: np.ndarray | slice) -> np.ndarray | bool:
        """Mask of the rows at these places that count in tables, one of each record."""
        return True


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
        self._n_all = len(codes)
        self._rows = used[np.argsort(persons.codes[used], kind="stable")]
        self._counts = np.bincount(persons.codes[used], minlength=persons.count)
        self._starts = np.cumsum(self._counts) - self._counts
        self.most = persons.most
        self._chosen: np.ndarray | None = None

    def draw(self, rates: tuple[float, ...]) -> Batch:
        drawn = super().draw(rates)
        held = self._counts[drawn.rows]
        taken = np.minimum(held, self.most)
        first = np.repeat(np.cumsum(taken) - taken, taken)
        place = np.arange(len(first)) - first
        many = held > self.most
        if many.any():
            place[np.repeat(many, taken)] = self._some(held[many]).ravel()
        rows = self._rows[np.repeat(self._starts[drawn.rows], taken) + place]
        # Where none has several, rows go the way of rows.
        several = len(rows) > len(taken)
        return Batch(rows, drawn.sizes, PersonRows(taken, self.most) if several else None)

    def counted(self, places: np.ndarray | slice) -> np.ndarray | bool:
        """Mask of one row of each person, drawn by chance: the same for all tables."""
        if self._chosen is None:
            held = self._counts > 0
            place = self._generator.integers(self._counts[held])
            self._chosen = np.zeros(self._n_all, dtype=bool)
            self._chosen[self._rows[self._starts[held] + place]] = True
        return self._chosen[places]

    def _some(self, counts: np.ndarray) -> np.ndarray:
        """Choose a uniform subset of given size below each count (Floyd's algorithm)."""
        chosen = np.empty((len(counts), self.most), dtype=np.int64)
        for k in range(self.most):
            last = counts - self.most + k
            place = self._generator.integers(last + 1)
            known = (chosen[:, :k] == place[:, None]).any(axis=1)
            chosen[:, k] = np.where(known, last, place)
        chosen.sort(axis=1)
        return chosen


class Part(NamedTuple):
    """Some rows, or all."""

    places: np.ndarray | slice  # Their numbers
    counted: np.ndarray | bool  # Whether each counts in tables, in which a record counts once
    tables: tuple[Any, ...]  # Their features, then their targets


class Batches:
    """Batches of rows that are all in memory.

    `tables`: features, then targets, with a row for each of the fit. `held`: tables that hold
    the rows of the next batch, by its places. `count`: number of records. `most`: rows that a
    record brings to a batch, at most.
    """

    def __init__(self, tables: Sequence[Any], sampler: PoissonSampler) -> None:
        self.held = tuple(tables)
        self.sampler = sampler
        self.count, self.most = sampler.count, sampler.most

    def draw(self, rates: tuple[float, ...], left: Callable[[], int]) -> Batch:
        """Draw the next batch.

        `rates`: probability that a row of each cell is drawn. `left`: counts the batches of these
        rates that are still to be drawn after this one.
        """
        return self.sampler.draw(rates)

    def parts(self) -> Iterator[Part]:
        """All rows that may be in a batch, a part at a time."""
        whole = slice(None)
        yield Part(whole, self.sampler.counted(whole), self.held)

    def recode(self, make: Callable[[Any], Any]) -> None:
        """Give every row other features from now on: those that `make` makes of all of them."""
        self.held = make(self.held[0]), *self.held[1:]


class StoredBatches(Batches):
    """Batches that are drawn ahead, whose rows are read in one pass, in the order of the file.

    The batches have the law that they have one by one: nothing is drawn otherwise. A row with a
    value that is not finite, or too large, is in none.

    `tables`: tensors; that of the features has no rows. `as_table`: makes such a tensor of an
    array.
    """

    def __init__(
        self,
        tables: Sequence[Any],
        sampler: PoissonSampler,
        stored: StoredRows,
        as_table: Callable[[np.ndarray], Any],
    ) -> None:
        super().__init__(tables, sampler)
        self._targets = tables[1:]
        self._stored, self._as_table = stored, as_table
        self._dtype = tables[0].cpu().numpy().dtype
        self._row_bytes = max(1, int(np.prod(stored.shape[1:]))) * self._dtype.itemsize
        self._batches: list[Batch] = []
        self._rates: tuple[float, ...] = ()

    def draw(self, rates: tuple[float, ...], left: Callable[[], int]) -> Batch:
        if not self._batches or self._rates != rates:
            self._rates, self._batches = rates, []
            steps, room = 1 + left(), self._stored.cache_bytes
            while not self._batches or (len(self._batches) < steps and room > 0):
                self._batches.append(self.sampler.draw(rates))
                room -= len(self._batches[-1].rows) * self._row_bytes
            self._batches.reverse()
            self._read()
        return self._batches.pop()

    def _read(self) -> None:
        """Read the rows of all batches, and number these by what was read."""
        self.held = ()  # makes room
        places = np.unique(np.concatenate([batch.rows for batch in self._batches]))
        rows, whole = self._values(places)
        refuse_changes(self._stored)
        self.held = self._with_targets(places, rows)
        batches = self._batches
        if not whole.all():
            batches = [_without(batch, places[~whole]) for batch in batches]
        self._batches = [replace(b, rows=np.searchsorted(places, b.rows)) for b in batches]

    def parts(self) -> Iterator[Part]:
        for places in self._stored.places():
            rows, whole = self._values(places)
            rows, places = (rows, places) if whole.all() else (rows[whole], places[whole])
            yield Part(places, self.sampler.counted(places), self._with_targets(places, rows))
        refuse_changes(self._stored)

    def recode(self, make: Callable[[Any], Any]) -> None:
        raise TypeError(
            "Rows on disk cannot be recoded, as they are read anew for each batch: load them "
            "into memory."
        )

    def _with_targets(self, places: np.ndarray, rows: np.ndarray) -> tuple[Any, ...]:
        where = self._as_table(places)
        return self._as_table(rows), *(target[where] for target in self._targets)

    def _values(self, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rows, and which of them are whole."""
        rows = self._stored.take(places, self._dtype)
        flat = rows.reshape(len(rows), int(np.prod(rows.shape[1:])))  # there may be none
        # NaN is neither.
        return rows, (flat.max(axis=1) <= LARGEST) & (flat.min(axis=1) >= -LARGEST)


def batches_of(
    tables: Sequence[Any],
    codes: np.ndarray,
    n_cells: int,
    generator: np.random.Generator,
    persons: Persons | None,
    stored: StoredRows | None,
    as_table: Callable[[np.ndarray], Any],
) -> Batches:
    """Return the batches of the rows of a fit.

    `codes`, `n_cells`, `generator`: as of `PoissonSampler`. `persons`: None where each row is a
    record. `stored`: where the features are, None for rows in memory. `as_table`: as of
    `StoredBatches`.
    """
    if persons is None:
        sampler = PoissonSampler(codes, n_cells, generator)
    else:
        sampler = PersonSampler(codes, n_cells, generator, persons)
    if stored is None:
        return Batches(tables, sampler)
    return StoredBatches(tables, sampler, stored, as_table)


def _without(batch: Batch, rows: np.ndarray) -> Batch:
    """Take rows out of a batch, with persons who have no other row in it."""
    kept = np.isin(batch.rows, rows, invert=True)
    left, persons = kept, batch.persons
    if persons is not None:
        left, persons = persons.with_rows(kept)
    cells = np.repeat(np.arange(len(batch.sizes)), batch.sizes)[left]
    sizes = np.bincount(cells, minlength=len(batch.sizes)).tolist()
    return Batch(batch.rows[kept], tuple(sizes), persons)
