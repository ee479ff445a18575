"""Loss of one record: likelihood of its columns and label given its representation."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from skfairdp.representation.randomizers import LaplaceRandomizer, ResponseRandomizer

_KINDS = ("gaussian", "bernoulli", "categorical")


@dataclass(frozen=True)
class ColumnTypes:
    """Laws of the columns of a row, given its representation and group."""

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
    """Log-likelihood of rows under laws that a decoder states: a mean, or a logit, a column."""

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


class Channel(nn.Module):
    """Map from the output of the encoder to the input of the decoders, and its cost.

    `hidden` maps what an encoder gives to what a randomiser takes. A call randomises that, in
    training, in `n_samples` draws for each record, next to each other. Result: what the decoders
    take, and the loss of the channel itself.
    """

    # Draws in training, where nothing protects the rows; None leaves them to the engine.
    generator: torch.Generator | None = None

    def words(self) -> NDArray[np.float64] | None:
        """Return the code words, shape (d, k), or None where there are none."""
        return None


class LaplaceChannel(Channel):
    """Truncation and additive noise, which protects no row, for continuous representations."""

    def __init__(self, randomizer: LaplaceRandomizer) -> None:
        super().__init__()
        self.randomizer = randomizer

    def hidden(self, raw: Tensor) -> Tensor:
        """Truncate smoothly: a hard truncation has no gradient outside of the box."""
        return self.randomizer.bound * torch.tanh(raw)

    def forward(self, raw: Tensor, n_samples: int) -> tuple[Tensor, Tensor]:
        z = self.hidden(raw).repeat_interleave(n_samples, dim=0)
        if self.training and not math.isinf(self.randomizer.epsilon):
            draws = (z.detach().clone().exponential_(generator=self.generator) for _ in "ab")
            z = z + self.randomizer.scale * (next(draws) - next(draws))
        return z, raw.new_zeros(len(raw))


class ResponseChannel(Channel):
    """Vector quantisation and randomised response, for discrete representations.

    Each component has k code its own words, numbers in ``[-bound, bound]``. The
    decoders see the word of the *released* code; their gradient skips quantisation and
    randomised response (straight-through) on its way to the encoder. Nothing here protects.
    """

    def __init__(self, randomizer: ResponseRandomizer, bound: float, commitment: float) -> None:
        super().__init__()
        self.randomizer = randomizer
        self.bound = bound
        self.commitment = commitment
        words = torch.linspace(-bound, bound, randomizer.n_values)
        self.codebook = nn.Parameter(words.repeat(randomizer.n_components, 1))

    def hidden(self, raw: Tensor) -> Tensor:
        off = (self.bound * torch.tanh(raw)).unsqueeze(2) - self.codebook
        return off.detach().abs().argmin(dim=2)

    def words(self) -> NDArray[np.float64]:
        return self.codebook.detach().double().cpu().numpy().copy()

    def embed(self, released: Tensor) -> Tensor:
        d = len(self.codebook)
        words = self.codebook.flatten()
        first = torch.arange(d, device=released.device) * self.codebook.shape[1]
        return words[released + first]

    def forward(self, raw: Tensor, n_samples: int) -> tuple[Tensor, Tensor]:
        smooth = self.bound * torch.tanh(raw)
        codes = self.hidden(raw)
        words = self.embed(codes)
        penalty = (smooth.detach() - words).square().sum(dim=1)
        penalty = penalty + self.commitment * (smooth - words.detach()).square().sum(dim=1)
        codes = codes.repeat_interleave(n_samples, dim=0)
        if self.training and self.randomizer.n_values > 1:
            codes = self._answered(codes)
        smooth = smooth.repeat_interleave(n_samples, dim=0)
        # The value of the released word, the gradient of the encoder's output.
        return smooth + (self.embed(codes) - smooth).detach(), penalty

    def _answered(self, codes: Tensor) -> Tensor:
        k, device = self.randomizer.n_values, codes.device
        drawn = torch.rand(codes.shape, generator=self.generator, device=device)
        shift = torch.randint(1, k, codes.shape, generator=self.generator, device=device)
        return torch.where(drawn < self.randomizer.keep_probability, codes, (codes + shift) % k)


class VariationalLoss(nn.Module):
    """Negative variational bound of each record, and the terms of the channel.

    ``-log q(x | z, s) - beta log q(u | z)``, averaged over L draws of z, plus for codes
    the two terms of vector quantisation. The loss of a record depends on this record
    and on its own draws alone. Equations (51), (52) and (74) of the paper.

    `n_samples`: L. `label_law`: of a label given a release, "categorical" or "gaussian", a normal
    law of variance 1/2 around the predicted probabilities.
    """

    def __init__(
        self,
        module: nn.Module,
        channel: Channel,
        types: ColumnTypes,
        n_groups: int,
        *,
        beta: float,
        n_samples: int = 1,
        label_law: str = "categorical",
    ) -> None:
        super().__init__()
        self.module = module
        self.channel = channel
        self.likelihood = ColumnsLikelihood(types)
        self.n_groups, self.beta = n_groups, beta
        self.n_samples, self.label_law = n_samples, label_law
        self.n_features = sum(map(len, (types.gaussian, types.bernoulli, *types.categorical)))

    def forward(self, rows: Tensor) -> Tensor:
        """Compute the loss of each record, in nats, from its parts side by side."""
        n_classes = rows.shape[1] - self.n_features - self.n_groups
        x, s, u = rows.split([self.n_features, self.n_groups, n_classes], dim=1)
        n_samples = self.n_samples
        z, penalty = self.channel(self.module.encode(x), n_samples)  # type: ignore[operator]
        if n_samples > 1:
            x, s, u = (part.repeat_interleave(n_samples, dim=0) for part in (x, s, u))
        stated = self.module.reconstruct(z, s)  # type: ignore[operator]
        logits = self.module.predict_utility(z)  # type: ignore[operator]
        bound = self.likelihood(stated, x)
        if self.label_law == "gaussian":
            # A label that is none of the classes has no law either.
            off = u - u.sum(dim=1, keepdim=True) * logits.softmax(dim=1)
            of_label = -off.square().sum(dim=1)
        else:
            of_label = (u * logits.log_softmax(dim=1)).sum(dim=1)
        bound = bound + self.beta * of_label
        return penalty - bound.reshape(-1, n_samples).mean(dim=1)
