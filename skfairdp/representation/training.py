"""Training of an encoder: on raw rows without a guarantee, or by a plan of noisy sums."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from sklearn.base import clone
from torch import Tensor, nn

from skfairdp.engine.clipping.base import Clipper
from skfairdp.engine.clipping.clippers import make_clipper
from skfairdp.engine.inspection import refuse_mixed_block, refuse_unstable_rows
from skfairdp.engine.modules import linear_stack
from skfairdp.engine.nets import PreparedNet, as_tensor, check_net, prepare_net
from skfairdp.engine.optimizers import flatten, unflatten
from skfairdp.engine.randomness import OwnDraws, own_draws
from skfairdp.engine.rehearsal import rehearse
from skfairdp.engine.release import NoisyRelease, Rows
from skfairdp.engine.row_blocks import few_threads
from skfairdp.engine.run import Progress, run_segment
from skfairdp.privacy.noise import NoiseSource
from skfairdp.privacy.plan import Plan
from skfairdp.privacy.sizes import expected_batch_size
from skfairdp.receipts import Charge, Quote, RowFacts
from skfairdp.records import Given
from skfairdp.records.facts import records_of
from skfairdp.records.groups import Groups, groups_of_records
from skfairdp.records.labels import encode_labels
from skfairdp.representation.networks import RepresentationModule, representation_net
from skfairdp.representation.objective import (
    ColumnTypes,
    LaplaceChannel,
    ResponseChannel,
    VariationalLoss,
)
from skfairdp.representation.planning import fitting_quote, randomizer_of, resolved_epochs
from skfairdp.representation.randomizers import LaplaceRandomizer, ResponseRandomizer


@dataclass(frozen=True)
class Task:
    """Training task of an encoder: networks, a randomiser between them, and a loss."""

    encoder: Any
    randomizer: LaplaceRandomizer | ResponseRandomizer
    types: ColumnTypes
    n_features: int  # n_features, n_classes, n_groups: columns of a row, classes, groups
    n_classes: int
    n_groups: int

    def prepare(self, seed: int) -> PreparedNet:
        """Initialise the networks; the module of the result is the loss of each row."""
        own = self.encoder
        net = representation_net() if own.net is None else check_net(own.net)
        net = clone(net).set_params(
            criterion=nn.CrossEntropyLoss,
            module__n_components=self.randomizer.n_components,
            module__n_groups=self.n_groups,
        )
        prepared = prepare_net(net, n_features=self.n_features, n_classes=self.n_classes, seed=seed)
        refuse_mixing_encoder(prepared.module, self.n_features)
        channel: LaplaceChannel | ResponseChannel = (
            LaplaceChannel(self.randomizer)
            if isinstance(self.randomizer, LaplaceRandomizer)
            else ResponseChannel(self.randomizer, float(own.bound), float(own.commitment))
        )
        weights: Any = {"n_samples": own.n_samples, "label_law": own.label_law}
        loss = VariationalLoss(
            prepared.module, channel, self.types, self.n_groups, beta=float(own.beta), **weights
        )
        loss = loss.to(next(prepared.module.parameters()))
        return replace(prepared, module=loss, flat=flatten(loss))

    def rows(self, X: np.ndarray, groups: np.ndarray | None, labels: np.ndarray) -> np.ndarray:
        """Put features, one-hot groups and one-hot classes (none where negative) side by side."""
        known = np.arange(self.n_classes) == labels[:, None]
        parts = [X, known] if groups is None else [X, np.eye(self.n_groups)[groups], known]
        return np.concatenate(parts, axis=1, dtype=X.dtype)


class Encoder(nn.Module):
    """The part of a module that a release passes through."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: Tensor) -> Tensor:
        return self.module.encode(x)  # type: ignore[operator]


def encoder_of(module: nn.Module) -> nn.Module:
    """The encoder of a module: the plain stack of layers that it is, where that is known."""
    own = type(module) is RepresentationModule
    stack: Any = module.encoder if own and "encode" not in vars(module) else None
    return stack if stack is not None and linear_stack(stack) else Encoder(module)


def refuse_mixing_encoder(module: nn.Module, n_features: int) -> None:
    """Refuse an encoder whose output for a row depends on other rows.

    A release hides what is encoded of one row. With rows mixed, a person would be in the
    releases of all others of a call too, at a cost that no one release states.
    """
    encoder = encoder_of(module)
    refuse_unstable_rows(encoder, (n_features,))
    refuse_mixed_block(encoder, (n_features,))


def plain_batch_size(batch_size: int | str, n: int) -> int:
    """Resolve the batch size of training without noise, on `n` rows with a known label."""
    if n == 0:
        raise ValueError("no row has a label that is one of 'classes': nothing can be learned.")
    return expected_batch_size(batch_size, n, 512, 64)


def descend(
    prepared: PreparedNet,
    rows: np.ndarray,
    *,
    batch_size: int,
    max_epochs: int,
    progress: Progress,
    generator: np.random.Generator,
) -> None:
    """Train on shuffled batches of raw rows; nothing protects them.

    `generator`: shuffles, and seeds the draws of representations.
    """
    loss, optimizer = prepared.module, prepared.optimizer()
    parameters = [p for p in loss.parameters() if p.requires_grad]
    table = as_tensor(rows, loss)  # one tensor: a batch is one look-up
    draws = torch.Generator(table.device).manual_seed(int(generator.integers(2**63)))
    loss.channel.generator = draws  # type: ignore[union-attr]
    per_epoch = -(-len(table) // batch_size)
    rates = prepared.learning_rates(max_epochs * per_epoch, per_epoch)
    with few_threads(batch_size, rows.shape[1:], prepared.flat.vector.numel()):
        for _ in range(max_epochs):
            order = torch.from_numpy(generator.permutation(len(table))).to(table.device)
            for batch in order.split(batch_size):
                optimizer.set_lr(rates[progress.step])
                mean: Tensor = loss(table.index_select(0, batch)).mean()
                gradients = torch.autograd.grad(mean, parameters)
                optimizer.step(torch.cat([gradient.flatten() for gradient in gradients]))
                progress.advance()


def descend_privately(
    prepared: PreparedNet,
    records: Rows,
    clipper: Clipper,
    *,
    plan: Plan,
    noise: NoiseSource,
    max_epochs: int,
    progress: Progress,
) -> None:
    """Train by clipped per-record gradients with noise, as planned.

    The draws that randomise representations in training are secret and each record's
    own: given all draws, a record moves a sum by no more than the clipping norm.
    """
    release = NoisyRelease(records, plan, clipper, noise)
    (segment,) = plan.segments
    rates = prepared.learning_rates(segment.steps, max(1, segment.steps // max_epochs)).__getitem__
    with OwnDraws(noise.masks):
        run_segment(segment, release, prepared.optimizer(), progress=progress, learning_rate=rates)
    release.meter.finish()


def fit_networks(
    encoder: Any, given: Given, groups: Groups | None, charge: Charge
) -> tuple[LaplaceRandomizer | ResponseRandomizer, Quote]:
    """Fit the networks of an encoder by its settings.

    Result: what its releases go through, and the quote that training kept to.
    """
    X, y = given.X, given.y
    randomizer, bound = randomizer_of(encoder), float(encoder.bound)
    classes, labels = encode_labels(y, encoder.classes, multiclass=True)
    persons = given.persons(len(X), int(encoder.max_rows_per_person))
    if persons is not None and not encoder.train_privately:
        raise ValueError(
            "PrivateFairEncoder got person_ids, but nothing protects its training rows: set "
            "train_privately=True, or leave person_ids out. To name the person of each row "
            "of a release, pass ids to transform."
        )
    groups_of_records(groups, persons)  # refuses a person in two
    names = list(getattr(encoder, "feature_names_in_", range(X.shape[1])))
    types = (
        ColumnTypes.from_rows(X)
        if encoder.column_types is None and not encoder.train_privately
        else ColumnTypes.declared(encoder.column_types or "gaussian", names)
    )
    n_groups = 0 if groups is None else len(groups.labels)
    task = Task(encoder, randomizer, types, X.shape[1], len(classes), n_groups)
    seed, noise = encoder._randomness()
    quote = fitting_quote(encoder, RowFacts.of(len(X), groups, persons, unit=given.unit), noise)
    plan = quote.plan
    prepared = task.prepare(seed)
    loss: Any = prepared.module
    rows = task.rows(X, None if groups is None else groups.codes, labels)
    loss.channel.eval()  # has its own draws
    draws = own_draws(loss, rows.shape[1:], noise)
    loss.channel.train()
    name, epochs, known = type(encoder).__name__, resolved_epochs(encoder), labels >= 0
    if plan is not None:
        # Refuses what `descend_privately` could not do; no entry of the rows is read.
        refuse_unstable_rows(loss, rows.shape[1:])
        clipper = make_clipper(loss, prepared.flat, lambda output: output)
        records = Rows(as_tensor(rows, loss), (), np.where(known, 0, -1), persons)
        n_records, most = records_of(persons, len(X))
        seen = rehearse(loss, clipper, records.X, (), plan, most, n_records)
        quote = replace(quote, privacy=quote.privacy and quote.privacy.assuming(seen))
    charge(quote.charge)  # before a row reaches a network
    size = 1 if plan else plain_batch_size(encoder.batch_size, int(known.sum()))
    steps = plan.steps if plan else epochs * -(-int(known.sum()) // size)
    with draws, closing(Progress(steps, encoder.progress, name)) as bar:
        passes: Any = {"max_epochs": epochs, "progress": bar}
        if plan is None:
            descend(prepared, rows[known], batch_size=size, generator=noise.masks, **passes)
        else:
            descend_privately(prepared, records, clipper, plan=plan, noise=noise, **passes)
    unflatten(loss)
    if not all(bool(p.isfinite().all()) for p in loss.parameters()):
        raise ValueError(
            f"{name} diverged: its weights are no longer finite. Lower the learning rate "
            f"(net__lr) or 'beta' (now {encoder.beta!r})."
        )
    # In double precision other machines too seldom disagree about a point of the grid.
    encoder.module_ = loss.module.double().eval()
    refuse_mixing_encoder(encoder.module_, X.shape[1])  # it may have learned to
    encoder.bound_, encoder.output_ = bound, encoder.output
    encoder.codebook_, encoder.column_types_ = loss.channel.words(), types
    encoder.classes_, encoder.path_ = classes, None
    return randomizer, quote
