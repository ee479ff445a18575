"""Whole epochs, fits and searches."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable

import joblib
import numpy as np
import torch
from fairlearn.reductions import DemographicParity, ExponentiatedGradient
from opacus import PrivacyEngine
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from skorch import NeuralNetBinaryClassifier
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from skfairdp import DPSGDClassifier, default_net, fit_many
from skfairdp.engine.modules import MLP
from skfairdp.privacy.accounting.accountants import _cost
from skfairdp.privacy.accounting.calibration import _solve, noise_multiplier_for
from skfairdp.privacy.accounting.plan_cost import epsilon
from skfairdp.privacy.plan import Block, Plan, Segment
from tests.benchmarks.adult import as_tensors
from tests.benchmarks.frontier import peak_memory
from tests.benchmarks.rounds import interleaved, report
from tests.benchmarks.steps import our_step

__all__ = [
    "benchmark_calibration",
    "benchmark_epochs",
    "benchmark_fits",
    "benchmark_many",
    "benchmark_search",
    "benchmark_whole",
]

BATCH, EPOCHS = 256, 4


def _opacus_epoch(X: torch.Tensor, y: torch.Tensor, mode: str):
    module = MLP(X.shape[1], hidden_sizes=(64, 64), activation=nn.ReLU)
    made = PrivacyEngine().make_private(
        module=module,
        optimizer=torch.optim.SGD(module.parameters(), lr=0.01),
        criterion=nn.BCEWithLogitsLoss(),
        data_loader=DataLoader(TensorDataset(X, y), batch_size=BATCH),
        noise_multiplier=1.0,
        max_grad_norm=1.0,
        grad_sample_mode=mode,
    )
    module, optimizer, loader = made[0], made[1], made[-1]
    criterion = made[2] if mode == "ghost" else nn.BCEWithLogitsLoss()

    def epoch() -> None:
        for rows, target in loader:
            optimizer.zero_grad()
            criterion(module(rows).squeeze(1), target).backward()
            optimizer.step()

    return epoch


def benchmark_epochs(X: np.ndarray, y: np.ndarray) -> list[bool]:
    """A whole epoch, each library with its own loader."""
    features, target = as_tensors(X, y)

    def make() -> nn.Module:
        return MLP(X.shape[1], hidden_sizes=(64, 64), activation=nn.ReLU)

    step = our_step(features, target, np.zeros(len(X), dtype=int), BATCH, make)

    def ours() -> None:
        for _ in range(-(-len(X) // BATCH)):
            step()

    net = NeuralNetBinaryClassifier(
        MLP,
        module__n_features=X.shape[1],
        module__hidden_sizes=(64, 64),
        module__activation=nn.ReLU,
        batch_size=BATCH,
        train_split=None,
        verbose=0,
        warm_start=True,
        max_epochs=1,
    )
    labels = y.astype(np.float32)
    times = interleaved(
        {
            "ours": ours,
            "skorch": lambda: net.fit(X, labels),
            "hooks": _opacus_epoch(features, target, "hooks"),
            "ghost": _opacus_epoch(features, target, "ghost"),
        },
        rounds=5,
    )
    limits = {"hooks": 10, "ghost": 5, "skorch": 3}
    names = {"hooks": "opacus hooks", "ghost": "opacus ghost", "skorch": "plain skorch"}
    return [
        report(f"epoch of {names[key]} / ours", times[key] / times["ours"], limit, at_least=True)
        for key, limit in limits.items()
    ]


def benchmark_fits(X: np.ndarray, y: np.ndarray, groups: np.ndarray) -> list[bool]:
    """A whole fit against its bare steps, and fairlearn's reduction against it."""
    features, target = as_tensors(X, y)
    epochs = 10
    model = DPSGDClassifier(epsilon=1.0, batch_size=BATCH, max_epochs=epochs, progress=False)
    step = our_step(
        features,
        target,
        np.zeros(len(X), dtype=int),
        BATCH,
        lambda: MLP(X.shape[1]),
        optimizer=torch.optim.Adam,
    )

    def bare() -> None:
        for _ in range(epochs * -(-len(X) // BATCH)):
            step()

    def reduction() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ExponentiatedGradient(LogisticRegression(max_iter=1000), DemographicParity()).fit(
                X, y, sensitive_features=groups
            )

    times = interleaved(
        {"fit": lambda: model.fit(X, y), "bare": bare, "reduction": reduction}, rounds=3
    )
    return [
        report("whole fit / bare loop of its steps", times["fit"] / times["bare"], 1.3),
        report(
            "fairlearn ExponentiatedGradient / whole fit",
            times["reduction"] / times["fit"],
            3,
            at_least=True,
        ),
    ]


def benchmark_whole(X: np.ndarray, y: np.ndarray) -> list[bool]:
    """Whole fits of four epochs: ours, a plain loop, and the loop that opacus recommends."""
    features, target = as_tensors(X, y)
    net = default_net().set_params(module__hidden_sizes=(64, 64))
    model = DPSGDClassifier(net, batch_size=BATCH, max_epochs=EPOCHS, progress=False)

    def make() -> tuple[nn.Module, torch.optim.Optimizer]:
        module = MLP(X.shape[1], hidden_sizes=(64, 64))
        return module, torch.optim.Adam(module.parameters(), lr=1e-3)

    def plain() -> None:
        module, optimizer = make()
        step = stepper(module, optimizer)
        for _ in range(EPOCHS):
            for rows in torch.randperm(len(features)).split(BATCH):
                step(features[rows], target[rows])

    def opacus() -> None:
        module, optimizer = make()
        data = DataLoader(TensorDataset(features, target), batch_size=BATCH)
        module, optimizer, loader = PrivacyEngine().make_private_with_epsilon(
            module=module,
            optimizer=optimizer,
            data_loader=data,
            epochs=EPOCHS,
            target_epsilon=1.0,
            target_delta=1e-6,
            max_grad_norm=1.0,
        )
        step = stepper(module, optimizer)
        for _ in range(EPOCHS):
            for rows, labels in loader:
                step(rows, labels)

    def stepper(
        module: nn.Module, optimizer: torch.optim.Optimizer
    ) -> Callable[[torch.Tensor, torch.Tensor], None]:
        def step(rows: torch.Tensor, labels: torch.Tensor) -> None:
            optimizer.zero_grad()
            nn.functional.binary_cross_entropy_with_logits(module(rows)[:, 0], labels).backward()
            optimizer.step()

        return step

    tasks = {"ours": lambda: model.fit(X, y), "plain": plain, "opacus": opacus}
    for name, task in tasks.items():
        print(f"{f'memory of a whole fit, {name}':<72} {peak_memory(task):7.0f} MB")
    times = interleaved(tasks, rounds=3)
    work = f"whole fit of {EPOCHS} epochs"
    return [
        report(f"{work} / plain loop", times["ours"] / times["plain"], 1.25),
        report(f"opacus' loop / {work}", times["opacus"] / times["ours"], 6, at_least=True),
    ]


def benchmark_calibration() -> list[bool]:
    """Noise for a target epsilon, in evaluations of the exact accountant."""

    def make_plan(multiplier: float) -> Plan:
        block = Block(name="gradient", max_norm=1.0, weights=(1.0,), noise_std=multiplier)
        return Plan(
            cells=("all",),
            segments=(
                Segment(
                    steps=1280, rates=(256 / 32_561,), expected_sizes=(256.0,), blocks=(block,)
                ),
            ),
            delta=1e-6,
            adjacency="zero-out",
        )

    multiplier = noise_multiplier_for(1.0, 1e-6, make_plan)

    def evaluate() -> None:
        _cost.cache_clear()
        epsilon(make_plan(multiplier), 1e-6)

    def calibrate() -> None:
        _solve.cache_clear()
        _cost.cache_clear()
        noise_multiplier_for(1.0, 1e-6, make_plan)

    times = interleaved(
        {"calibrate": calibrate, "evaluate": evaluate},
        rounds=5,
    )
    return [
        report("noise for a target / one evaluation", times["calibrate"] / times["evaluate"], 6)
    ]


def benchmark_search(X: np.ndarray, y: np.ndarray) -> list[bool]:
    """A grid search with two warm workers against one process, in wall-clock time."""
    net = default_net().set_params(module__hidden_sizes=(64,))
    model = DPSGDClassifier(
        net, epsilon=None, noise_multiplier=1.0, max_epochs=5, batch_size=BATCH, progress=False
    )
    grid = {"max_grad_norm": [0.3, 1.0, 3.0, 10.0]}

    def search(n_jobs: int) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            GridSearchCV(model, grid, cv=3, n_jobs=n_jobs, refit=False).fit(X, y)

    with joblib.parallel_config("loky", inner_max_num_threads=1):
        search(2)
        times = interleaved(
            {"two": lambda: search(2), "one": lambda: search(1)},
            rounds=3,
            clock=time.perf_counter,
        )
    return [report("grid search, two workers / one (wall)", times["two"] / times["one"], 0.8)]


def benchmark_many(X: np.ndarray, y: np.ndarray) -> list[bool]:
    """64 linear models in one pass, compared with one fit after the other."""
    X, y, held = X[:3000], y[:3000], []
    net = default_net().set_params(module__hidden_sizes=(), optimizer=torch.optim.SGD, lr=1.0)
    for batch_size, epochs in ((64, 20), (256, 20), (3000, 40)):
        model = DPSGDClassifier(
            net, delta=1e-5, batch_size=batch_size, max_epochs=epochs, progress=False
        )
        runs = {
            "alone": lambda model=model: [model.fit(X, y) for _ in range(4)],
            "together": lambda model=model: fit_many(model, 64, X, y),
        }
        times = interleaved(runs, rounds=3)
        ratio = times["together"] / times["alone"] * 4 / 64
        held.append(report(f"64 linear models, batches of {batch_size}, in one pass", ratio, 0.1))
    return held
