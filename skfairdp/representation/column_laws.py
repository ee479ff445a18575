"""From the type of a column to the law that the side decoder gives it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

_KINDS = ("gaussian", "bernoulli", "categorical")


@dataclass(frozen=True)
class ColumnTypes:
    """Which law each column of a row has, given its representation and group."""

    gaussian: tuple[int, ...]  # Positions of columns with a normal law of variance 1
    bernoulli: tuple[int, ...]  # Positions of columns of zeros and ones
    # Positions of one-hot columns, one tuple for each categorical variable
    categorical: tuple[tuple[int, ...], ...] = ()

    @classmethod
    def from_rows(cls, X: np.ndarray) -> ColumnTypes:
        """Take columns of zeros and ones as Bernoulli: a fact about rows, public from then on."""
        binary = np.isin(X, (0.0, 1.0)).all(axis=0)
        where = np.arange(X.shape[1])
        return cls(tuple(where[~binary].tolist()), tuple(where[binary].tolist()))

    @classmethod
    def declared(
        cls, declaration: str | Mapping[str, Sequence[Any]], names: Sequence[Hashable]
    ) -> ColumnTypes:
        """Read the `column_types` parameter of an encoder, for columns of these names."""
        everything = tuple(range(len(names)))
        if isinstance(declaration, str):
            if declaration == "gaussian":
                return cls(everything, ())
            if declaration == "bernoulli":
                return cls((), everything)
        if not isinstance(declaration, Mapping) or not set(declaration) <= set(_KINDS):
            raise ValueError(
                f"'column_types' must be None, 'gaussian', 'bernoulli' or a mapping with keys "
                f"among {list(_KINDS)}; got {declaration!r}."
            )
        position = {name: index for index, name in enumerate(names)} | {
            index: index for index in everything if index not in names
        }
        taken: set[int] = set()

        def place(column: Hashable) -> int:
            index = position.get(column, -1)
            if index < 0:
                raise ValueError(f"'column_types' names {column!r}, which is not a column of X.")
            if index in taken:
                raise ValueError(f"'column_types' names the column {column!r} twice.")
            taken.add(index)
            return index

        blocks = tuple(tuple(map(place, block)) for block in declaration.get("categorical", ()))
        if not all(blocks):
            raise ValueError("'column_types' has an empty list under 'categorical'; remove it.")
        bernoulli = tuple(map(place, declaration.get("bernoulli", ())))
        tuple(map(place, declaration.get("gaussian", ())))
        gaussian = tuple(
            i for i in everything if i not in bernoulli and not any(i in b for b in blocks)
        )
        return cls(gaussian, bernoulli, blocks)


class ColumnsLikelihood(nn.Module):
    """Log-likelihood of rows under the laws that a side decoder states.

    It states a number a column: the mean of a normal law, or a logit.
    """

    gaussian: Tensor
    bernoulli: Tensor
    block: Tensor
    outside: Tensor

    def __init__(self, types: ColumnTypes) -> None:
        super().__init__()
        self.register_buffer("gaussian", torch.tensor(types.gaussian, dtype=torch.long))
        self.register_buffer("bernoulli", torch.tensor(types.bernoulli, dtype=torch.long))
        # All categorical variables at once, the narrow ones filled up to the widest.
        width = max((len(block) for block in types.categorical), default=0)
        block = torch.zeros(len(types.categorical), width, dtype=torch.long)
        outside = torch.ones(len(types.categorical), width, dtype=torch.bool)
        for row, columns in enumerate(types.categorical):
            block[row, : len(columns)] = torch.tensor(columns)
            outside[row, : len(columns)] = False
        self.register_buffer("block", block)
        self.register_buffer("outside", outside)

    def forward(self, stated: Tensor, x: Tensor) -> Tensor:
        """Compute the log-likelihood of each row, without the constant of the normal law.

        A block of zeros is a category that was not declared, and adds nothing.
        """
        total = stated.new_zeros(len(stated))
        if len(self.gaussian):
            off = x.index_select(1, self.gaussian) - stated.index_select(1, self.gaussian)
            total = total - 0.5 * off.square().sum(dim=1)
        if len(self.bernoulli):
            logit = stated.index_select(1, self.bernoulli)
            value = x.index_select(1, self.bernoulli)
            total = total - (nn.functional.softplus(logit) - value * logit).sum(dim=1)
        if len(self.block):
            shape = (-1, *self.block.shape)
            logits = stated.index_select(1, self.block.flatten()).reshape(shape)
            logits = logits.masked_fill(self.outside, -torch.inf)
            value = x.index_select(1, self.block.flatten()).reshape(shape)
            value = value.masked_fill(self.outside, 0.0)
            logs = logits.log_softmax(dim=2).masked_fill(self.outside, 0.0)
            total = total + (value * logs).sum(dim=(1, 2))
        return total

    def mean(self, stated: Tensor) -> Tensor:
        """Compute the mean of each column under the stated laws."""
        mean = stated.clone()
        mean[:, self.bernoulli] = stated[:, self.bernoulli].sigmoid()
        for columns, outside in zip(self.block, self.outside, strict=True):
            inside = columns[~outside]
            mean[:, inside] = stated[:, inside].softmax(dim=1)
        return mean
