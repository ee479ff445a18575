"""PATE teachers trained and asked in one pass, against one after the other."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from skorch import NeuralNet
from torch import nn

from skfairdp.aggregation import Teachers, assign_shards, default_teacher, train_teachers
from skfairdp.aggregation.shards import batches, rows_by_shard, teacher_generator
from skfairdp.aggregation.teachers.stacked_training import BatchedTeachers
from skfairdp.engine.modules import MLP
from tests.benchmarks.adult import as_tensors
from tests.benchmarks.rounds import interleaved, report

__all__ = ["benchmark_teachers"]

N_TEACHERS, STEPS, BATCH = 250, 30, 32


def _perceptron(n_features: int, hidden: tuple[int, ...]) -> nn.Module:
    return MLP(n_features, hidden_sizes=hidden, activation=nn.ReLU)


def _sequential(
    X: torch.Tensor, y: torch.Tensor, shards: np.ndarray, hidden: tuple[int, ...]
) -> Callable[[], list[nn.Module]]:
    """Plain torch, teacher by teacher, on minibatches drawn alike."""
    rows = rows_by_shard(shards, np.ones(len(shards), dtype=bool), N_TEACHERS)

    def train() -> list[nn.Module]:
        modules = []
        for index, own in enumerate(rows):
            module, criterion = _perceptron(X.shape[1], hidden), nn.BCEWithLogitsLoss()
            optimizer = torch.optim.Adam(module.parameters(), lr=0.01, weight_decay=0.01)
            generator = teacher_generator(0, index)
            for picked in batches([own], [generator], STEPS, BATCH):
                chosen = torch.from_numpy(picked)
                optimizer.zero_grad()
                output = module(X.index_select(0, chosen)).squeeze(1)
                criterion(output, y.index_select(0, chosen)).backward()
                optimizer.step()
            modules.append(module)
        return modules

    return train


def _votes(modules: list[nn.Module], X: torch.Tensor) -> Callable[[], torch.Tensor]:
    def votes() -> torch.Tensor:
        with torch.inference_mode():
            ones = torch.zeros(len(X), dtype=torch.int64)
            for module in modules:
                ones += module(X).squeeze(1) > 0
            return torch.stack([len(modules) - ones, ones], 1)

    return votes


def benchmark_teachers(X: np.ndarray, y: np.ndarray) -> list[bool]:
    """Train 250 teachers on Adult and let them vote.

    On a thousand rows the votes of perceptrons are arithmetic that both ways do alike;
    one pass saves the cost of 250 calls, which is nearly all of a single query's.
    """
    features, target = as_tensors(X, y)
    shards = assign_shards(len(X), N_TEACHERS, np.random.default_rng(0))
    held = []
    for hidden, limit, limits in (
        ((64, 64), 1 / 3, {1: 1 / 5}),
        ((16, 16), 1 / 8, {1: 1 / 5, 1000: 1}),
        ((), 1 / 8, {1: 1 / 5, 1000: 1 / 5}),
    ):
        net = default_teacher().set_params(module__hidden_sizes=hidden)
        ours = _in_one_pass(net, X, y, shards)
        teachers, sequential = ours(), _sequential(features, target, shards, hidden)
        assert isinstance(teachers, BatchedTeachers)
        modules = sequential()
        times = interleaved({"ours": ours, "apart": sequential}, rounds=3)
        name = "-".join(map(str, hidden)) or "linear"
        work = f"{N_TEACHERS} teachers, {name}, in one pass / one by one in torch"
        held.append(report(work, times["ours"] / times["apart"], limit))
        for n_rows, limit_of_votes in limits.items():
            rows = X[:n_rows]
            asked = interleaved(
                {
                    "ours": lambda t=teachers, r=rows: t.votes(r),
                    "apart": _votes(modules, torch.from_numpy(rows)),
                }
            )
            work = f"their votes on {n_rows} row{'s' if n_rows > 1 else ''}"
            held.append(report(work, asked["ours"] / asked["apart"], limit_of_votes))
    return held


def _in_one_pass(
    net: NeuralNet, X: np.ndarray, y: np.ndarray, shards: np.ndarray
) -> Callable[[], Teachers]:
    def train() -> Teachers:
        settings = dict(seed=0, n_steps=STEPS, batch_size=BATCH, progress=False)
        return train_teachers(net, X, y, shards, N_TEACHERS, 2, **settings)

    return train
