"""Base class of all clipping methods: blocks of rows, their norms, and sums over them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch.nn.functional import pad

from skfairdp.engine.exact_products import AS_TORCH, EXACT, Products
from skfairdp.engine.row_blocks import DEFAULT_ROWS, PairwiseSum, blocks, fill
from skfairdp.foundation.assumptions import ALONE
from skfairdp.records.sampling import PersonRows


class Block(NamedTuple):
    """Rows that go through a module together, filled up to a whole block."""

    X: torch.Tensor
    targets: tuple[torch.Tensor, ...]
    n: int  # Number of records; the others are padding
    units: slice  # Positions of these records
    persons: PersonRows | None  # Persons of the rows, where records are persons
    alone: bool  # Whether it is all of a batch


class Clipper:
    """Weighted sums of clipped per-record gradients.

    A subclass computes what a block of rows adds. `_of_block`: vectors whose products are the
    gradients of the records, upper bounds of their squared norms, and the module's outputs.
    `_block_sums`: from vectors, squared norms, clipping norms, weights (S, B) and the block. Both
    may be overwritten by the next block.
    """

    path: str  # ``"fused"`` or ``"functional"``; both give the same sums
    # The clipping norm is lowered by this fraction, so that no rounding lifts a record's vector
    # above `max_norm` (:func:`skfairdp.engine.clipping.norms.rounding_margin`)
    margin: float
    # Products that are added to an inner product of gradients, where norms of means come from these
    product_terms: int
    # Of rows and weights. Those of torch have to be seen to keep rows apart first, in a rehearsal.
    products: Products = EXACT
    one_by_one: bool = False  # Whether records go through the module in batches of one
    _size: int  # Number of trained weights
    _rows_of_block: Callable[[int], int]
    # From the largest number of rows of a person, and the rows of a block: rows of the largest
    # block of persons, and the padded size of a block
    _person_blocks: Callable[[int, int], tuple[int, Callable[[int], int]]]
    _of_block: Callable[[Block], tuple[list[torch.Tensor], torch.Tensor, torch.Tensor]]
    _block_sums: Callable[..., torch.Tensor]

    def clipped_sums(
        self,
        X: torch.Tensor,
        targets: tuple[torch.Tensor, ...],
        max_norm: float | torch.Tensor,
        weights: torch.Tensor,
        outputs: list[torch.Tensor] | None = None,
        rows: int = DEFAULT_ROWS,
        persons: PersonRows | None = None,
    ) -> torch.Tensor:
        """Return ``sum_i weights[s, i] * clip(gradient of record i)``.

        `X` (B, ...): rows, in the dtype and on the device of the parameters; zeros may follow, up
        to a whole block. `targets`: each of shape (B, ...); passed to the objective. `max_norm`
        (B,): l2 bound of one record's gradient over all trainable parameters, > 0; one for all
        records or one for each. `weights` (B,): weight of each record in each of S sums.
        `outputs`: gets the module's outputs appended, in the order of the rows (in several pieces
        for a large batch). They cost nothing: the same forward pass. `rows`: rows of the blocks
        that go through the module (fewer where a row is large): a public number, see
        :mod:`skfairdp.engine.row_blocks`. `persons`: whose rows they are: a record is then a
        person, whose gradient is the mean of its rows'; `max_norm` and `weights` are of persons,
        `outputs` still of rows.
        Result (p,): in the order of the flat parameter vector. The next call may overwrite it. A
        record whose gradient is not finite contributes exactly 0; an empty batch gives zeros.
        """
        single = weights.dim() == 1
        weights = weights.unsqueeze(0) if single else weights
        total = PairwiseSum(self._in_turn(rows, persons))
        for block in self._blocks(X, targets, rows, persons, weights.shape[1]):
            vectors, squares, output = self._of_block(block)
            if outputs is not None:
                outputs.append(output[: block.n])
            of_block, limit = weights if block.alone else weights[:, block.units], max_norm
            if isinstance(limit, torch.Tensor):
                limit = limit[block.units]
                limit = pad(limit, (0, len(squares) - len(limit)), value=1.0)
            total.add(self._block_sums(vectors, squares, limit, of_block, block))
        sums = total.total()
        if sums is None:
            sums = weights.new_zeros(len(weights), self._size, dtype=torch.float64)
        return sums[0] if single else sums

    def norms(
        self,
        X: torch.Tensor,
        targets: tuple[torch.Tensor, ...],
        rows: int = DEFAULT_ROWS,
        persons: PersonRows | None = None,
        watch: Callable[[list[torch.Tensor], torch.Tensor], None] | None = None,
    ) -> torch.Tensor:
        """Return the norms of the records' gradients, which must not leave the engine.

        `X` (B, ...): rows. `rows`, `persons`: as in `clipped_sums`. `watch`: is shown the gradients
        of each block, or the vectors that they are products of, and its outputs. Result: (B,):
        upper bounds, tight up to rounding; NaN or infinite for a gradient that is not finite.
        """
        found = [X.new_zeros(0, dtype=torch.float64)]
        for block in self._blocks(X, targets, rows, persons, len(X)):
            vectors, squares, output = self._of_block(block)
            if watch is not None:
                watch([vector[: block.n] for vector in vectors], output[: block.n])
            n = block.n if block.persons is None else len(block.persons)
            found.append(squares[:n].sqrt())
        return torch.cat(found)

    def draws_nothing(self, X: torch.Tensor) -> bool:
        """Return whether it is certain that no layer draws random numbers for such rows."""
        return False

    @property
    def arithmetic(self) -> str:
        """What keeps the arithmetic of a record its own, for a certificate."""
        return ALONE if self.one_by_one else self.products.assumed

    def retreat(self) -> None:
        """Compute in a slower way, in which a row's place plays less of a part.

        First by products that do not round, then with records in batches of one.
        """
        self.one_by_one = self.one_by_one or self.products is not AS_TORCH
        self.products = EXACT

    def serving(self, X: torch.Tensor) -> Clipper:
        """Return the clipper that would sum the gradients of these rows."""
        return self

    def _blocks(
        self,
        X: torch.Tensor,
        targets: tuple[torch.Tensor, ...],
        rows: int,
        persons: PersonRows | None,
        n_records: int,
    ) -> Iterator[Block]:
        """Cut rows into blocks of `rows` rows, or of whole persons."""
        size, tables = self._rows_of_block(rows), (X, *targets)
        if persons is None:
            for part in blocks(n_records, size):
                n = part.stop - part.start
                # What follows the records are zeros, and fills the last block up.
                whole, *others = [fill(t[part.start : part.start + size], size) for t in tables]
                yield Block(whole, tuple(others), n, part, None, n == n_records)
            return
        largest, filled = self._person_blocks(persons.most, size)
        for part, units, own in persons.blocks(largest):
            n = part.stop - part.start
            whole, *others = [fill(table[part], filled(n)) for table in tables]
            yield Block(whole, tuple(others), n, units, own, len(own) == n_records)

    def _in_turn(self, rows: int, persons: PersonRows | None) -> int:
        """Blocks that are added one after the other before pairs are: of `rows` rows in all."""
        size = self._rows_of_block(rows)
        largest = size if persons is None else self._person_blocks(persons.most, size)[0]
        return max(1, rows // largest)
