"""Batches of rows that are not in memory, read many batches at a time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from skfairdp.datasets.stored_rows import LARGEST, StoredRows, refuse_changes
from skfairdp.engine.sampling import Batch, PoissonSampler
from skfairdp.privacy.plan import Segment


class StoredBatches:
    """Draw batches ahead, and read the rows of all of them in one pass, in the order of the file.

    The batches have the law that they have one by one: nothing is drawn otherwise. A row with a
    value that is not finite, or too large, is in none.

    `like` (0, ...): dtype and device of the rows.
    """

    def __init__(self, stored: StoredRows, sampler: PoissonSampler, like: Tensor) -> None:
        self._stored = stored
        self._sampler = sampler
        self._like = like
        self._row_bytes = max(1, int(np.prod(stored.shape[1:]))) * like.element_size()
        self._batches: list[Batch] = []
        self._of: Segment | None = None
        self._places = np.empty(0, dtype=np.int64)
        self._rows = like

    def draw(self, segment: Segment, steps: int) -> Batch:
        """Draw the next batch of a segment that has so many steps to go."""
        if not self._batches or self._of != segment:
            self._of, self._batches, room = segment, [], self._stored.cache_bytes
            while not self._batches or (len(self._batches) < steps and room > 0):
                self._batches.append(self._sampler.draw(segment.rates))
                room -= len(self._batches[-1].rows) * self._row_bytes
            self._batches.reverse()
            self._read()
        return self._batches.pop()

    def take(self, rows: np.ndarray) -> tuple[Tensor, Tensor]:
        """Rows that were read, and the places of some of them among these."""
        places = torch.from_numpy(np.searchsorted(self._places, rows))
        return self._rows, places.to(self._rows.device)

    def _read(self) -> None:
        self._rows = self._like  # makes room
        places = np.unique(np.concatenate([batch.rows for batch in self._batches]))
        rows, whole = self._values(places)
        refuse_changes(self._stored)
        self._places, self._rows = places, torch.from_numpy(rows).to(self._like.device)
        if not whole.all():
            self._batches = [_without(batch, places[~whole]) for batch in self._batches]

    def parts(self) -> Iterator[tuple[np.ndarray, Tensor]]:
        """All rows that may be in a batch, a part at a time: their places, and the rows."""
        for places in self._stored.places():
            rows, whole = self._values(places)
            rows, places = (rows, places) if whole.all() else (rows[whole], places[whole])
            yield places, torch.from_numpy(rows).to(self._like.device)
        refuse_changes(self._stored)

    def _values(self, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rows, and which of them are whole."""
        kind = torch.empty(0, dtype=self._like.dtype).numpy().dtype
        rows = self._stored.take(places, kind)
        flat = rows.reshape(len(rows), int(np.prod(rows.shape[1:])))  # there may be none
        # NaN is neither.
        return rows, (flat.max(axis=1) <= LARGEST) & (flat.min(axis=1) >= -LARGEST)


def _without(batch: Batch, rows: np.ndarray) -> Batch:
    """Take rows out of a batch, and persons who have no other one in it."""
    kept = np.isin(batch.rows, rows, invert=True)
    left, persons = kept, batch.persons
    if persons is not None:
        left, persons = persons.with_rows(kept)
    cells = np.repeat(np.arange(len(batch.sizes)), batch.sizes)[left]
    sizes = np.bincount(cells, minlength=len(batch.sizes)).tolist()
    return Batch(batch.rows[kept], tuple(sizes), persons)
