"""One training step: ours, plain torch, and opacus with hooks and ghost clipping."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from opacus import GradSampleModule
from opacus.grad_sample import GradSampleModuleFastGradientClipping
from opacus.optimizers import DPOptimizer, DPOptimizerFastGradientClipping
from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping
from torch import nn

from skfairdp.engine.clipping.clippers import make_clipper
from skfairdp.engine.modules import MLP, SmallCNN
from skfairdp.engine.objectives import objective_for
from skfairdp.engine.optimizers import flat_optimizer, flatten
from skfairdp.engine.rehearsal import rehearse
from skfairdp.engine.release import NoisyRelease, Rows
from skfairdp.privacy.noise import NoiseSource
from skfairdp.privacy.plan import Block, Segment
from skfairdp.records.facts import records_of
from skfairdp.records.persons import Persons
from skfairdp.records.sampling import PoissonSampler
from tests.benchmarks.adult import as_tensors
from tests.benchmarks.rounds import clock_of, interleaved, report
from tests.privacy.plans import empty_plan, unlimited

__all__ = [
    "benchmark_cnn",
    "benchmark_default_steps",
    "benchmark_groups",
    "benchmark_persons",
    "benchmark_steps",
    "our_step",
]

RATE = 0.01
Make = Callable[[], nn.Module]


def our_step(
    X: torch.Tensor,
    y: torch.Tensor,
    codes: np.ndarray,
    batch: int,
    make: Make,
    optimizer: type[torch.optim.Optimizer] = torch.optim.SGD,
    *,
    exact_noise: bool = True,
    persons: Persons | None = None,
) -> Callable[[], None]:
    """One private step with `batch` expected rows, or persons, over all groups together."""
    module = make().to(X.device)
    flat = flatten(module)
    n_groups = int(codes.max()) + 1
    clipper = make_clipper(module, flat, objective_for(nn.BCEWithLogitsLoss()))
    plan = empty_plan(n_groups, exact_noise=exact_noise)
    release = unlimited(NoisyRelease(Rows(X, (y,), codes, persons), plan, clipper, NoiseSource()))
    share = batch / n_groups
    of_records = codes if persons is None else persons.one_each(codes, "several groups")
    rates = tuple(share / np.count_nonzero(of_records == group) for group in range(n_groups))
    weights = (1.0 / batch,) * n_groups
    block = Block(name="gradient", max_norm=1.0, weights=weights, noise_std=1.0 / batch)
    segment = Segment(steps=1, rates=rates, expected_sizes=(share,) * n_groups, blocks=(block,))
    updates = flat_optimizer(optimizer, (), {"lr": RATE}, {}, flat)
    n_records, most = records_of(persons, len(X))
    # As a fit does, which may find that products have to be exact.
    rehearse(module, clipper, X, (y,), replace(plan, segments=(segment,)), most, n_records)

    def step() -> None:
        updates.step(release.gradient(segment))

    return step


def benchmark_persons(X: np.ndarray, y: np.ndarray, device: str = "cpu") -> list[bool]:
    """Steps by person against steps of about as many rows unbound."""
    rows, labels = as_tensors(X, y, device)
    codes, generator = np.zeros(len(X), dtype=np.int64), np.random.default_rng(0)
    held = []
    for name, make in (("default net", lambda: MLP(X.shape[1])), ("300-128-64", _wide)):
        width = X.shape[1] if name == "default net" else 300
        table = rows if width == X.shape[1] else torch.randn(len(X), width, device=device)
        for each in (1.4, 3.0):
            persons = Persons(*_ids(len(X), each, generator), 8)
            size = 256 * len(X) // persons.count
            tasks = {
                "person": our_step(table, labels, codes, 256, make, persons=persons),
                "row": our_step(table, labels, codes, size, make),
            }
            times = interleaved(tasks, repeats=20, clock=clock_of(device))
            work = f"256 persons of {each} rows on average, {name}: by person / by row"
            held.append(report(work, times["person"] / times["row"], 1.3))
    return held


def _ids(n: int, each: float, generator: np.random.Generator) -> tuple[np.ndarray, int]:
    sizes = 1 + generator.poisson(each - 1.0, n)
    ids = np.repeat(np.arange(n), sizes)[:n]
    return ids, int(ids[-1]) + 1


def _wide() -> nn.Module:
    return MLP(300, 1, (128, 64))


def plain_step(
    X: torch.Tensor,
    y: torch.Tensor,
    batch: int,
    make: Make,
    kind: type[torch.optim.Optimizer] = torch.optim.SGD,
) -> Callable[[], None]:
    """The same step of plain torch, on batches from the same sampler."""
    module, criterion = make().to(X.device), nn.BCEWithLogitsLoss()
    optimizer = kind(module.parameters(), lr=RATE)
    draw = _drawer(X, batch)

    def step() -> None:
        rows = draw()
        optimizer.zero_grad()
        output = module(X.index_select(0, rows)).squeeze(1)
        criterion(output, y.index_select(0, rows)).backward()
        optimizer.step()

    return step


def floor_step(batch: int, make: Make, device: str = "cpu") -> Callable[[], None]:
    """What no private step of this kind can leave out, on operands that lie ready.

    The products of the layers in float32 forward and backward and in float64 for the sum, one draw
    of exact noise, one pass over the weights. The activations, the gathering of rows, the norms,
    the casts and what torch and Python take for a call are not in it.
    """
    module = make().to(device)
    weights = [w.detach() for w in module.parameters() if w.dim() == 2]
    sides = [torch.randn(batch, w.shape[1], device=device) for w in weights]
    deltas = [torch.randn(batch, len(w), device=device) for w in weights]
    doubled = [  # with a column for the bias, in widths that fill the kernels
        (side.new_zeros(batch, -(-(side.shape[1] + 1) // 24) * 24).double(), delta.double())
        for side, delta in zip(sides, deltas, strict=True)
    ]
    vector = torch.zeros(sum(p.numel() for p in module.parameters()), device=device)
    sums, source = np.zeros(vector.numel()), NoiseSource()

    def step() -> None:
        with torch.inference_mode():
            for index, (weight, side, delta) in enumerate(zip(weights, sides, deltas, strict=True)):
                torch.mm(side, weight.t())
                torch.mm(doubled[index][1].t(), doubled[index][0])
                if index:
                    torch.mm(delta, weight)
            noise = source.noisy(sums, 1.0)
            vector.sub_(torch.from_numpy(noise).to(vector), alpha=RATE)

    return step


def beside_plain(work: str, times: dict[str, float], limit: float) -> bool:
    """Report a private step and a plain one; where it is too slow, the floor of this run too."""
    holds = report(work, times["ours"] / times["plain"], limit)
    if not holds:
        share = times["floor"] / times["plain"]
        print(f"{'    its floor / plain torch step, in this run':<72} {share:7.2f}")
    return holds


def opacus_hooks_step(
    X: torch.Tensor, y: torch.Tensor, batch: int, make: Make
) -> Callable[[], None]:
    """The same private step by opacus with per-record gradients."""
    module, criterion = GradSampleModule(make().to(X.device)), nn.BCEWithLogitsLoss()
    optimizer = DPOptimizer(
        torch.optim.SGD(module.parameters(), lr=RATE),
        noise_multiplier=1.0,
        max_grad_norm=1.0,
        expected_batch_size=batch,
    )
    draw = _drawer(X, batch)

    def step() -> None:
        rows = draw()
        optimizer.zero_grad()
        output = module(X.index_select(0, rows)).squeeze(1)
        criterion(output, y.index_select(0, rows)).backward()
        optimizer.step()

    return step


def opacus_ghost_step(
    X: torch.Tensor, y: torch.Tensor, batch: int, make: Make
) -> Callable[[], None]:
    """The same private step by opacus with ghost clipping."""
    module = GradSampleModuleFastGradientClipping(
        make().to(X.device), max_grad_norm=1.0, use_ghost_clipping=True
    )
    optimizer = DPOptimizerFastGradientClipping(
        torch.optim.SGD(module.parameters(), lr=RATE),
        noise_multiplier=1.0,
        max_grad_norm=1.0,
        expected_batch_size=batch,
    )
    criterion = DPLossFastGradientClipping(module, optimizer, nn.BCEWithLogitsLoss())
    draw = _drawer(X, batch)

    def step() -> None:
        rows = draw()
        optimizer.zero_grad()
        output = module(X.index_select(0, rows)).squeeze(1)
        criterion(output, y.index_select(0, rows)).backward()
        optimizer.step()

    return step


def _drawer(X: torch.Tensor, batch: int) -> Callable[[], torch.Tensor]:
    sampler = PoissonSampler(np.zeros(len(X), dtype=int), 1, np.random.default_rng())
    return lambda: torch.from_numpy(sampler.draw((batch / len(X),)).rows).to(X.device)


def benchmark_steps(X: np.ndarray, y: np.ndarray, device: str = "cpu") -> list[bool]:
    """Private steps against plain torch and opacus."""
    features, target = as_tensors(X, y, device)
    one_group = np.zeros(len(X), dtype=int)
    held = []
    for batch, width, plain_limit, hooks_limit, ghost_limit in (
        (256, 64, 1.5, 6, 2.4),
        (1024, 64, 1.5, 12, 1.8),
        (256, 256, 2.1, 25, None),
    ):

        def make(width: int = width) -> nn.Module:
            return MLP(X.shape[1], hidden_sizes=(width, width), activation=nn.ReLU)

        times = interleaved(
            {
                "ours": our_step(features, target, one_group, batch, make),
                "float": our_step(features, target, one_group, batch, make, exact_noise=False),
                "plain": plain_step(features, target, batch, make),
                "hooks": opacus_hooks_step(features, target, batch, make),
                "ghost": opacus_ghost_step(features, target, batch, make),
                "floor": floor_step(batch, make, device),
            },
            rounds=41,
            repeats=10,
            clock=clock_of(device),
        )
        where = f"(B={batch}, W={width})"
        ours = times["ours"]
        float_noise = times["float"]
        held.append(
            report(f"step with exact noise / with float noise {where}", ours / float_noise, 1.15)
        )
        held.append(beside_plain(f"private step / plain torch step {where}", times, plain_limit))
        held.append(
            report(
                f"opacus hooks / ours {where}", times["hooks"] / ours, hooks_limit, at_least=True
            )
        )
        if ghost_limit is not None:
            held.append(
                report(
                    f"opacus ghost / ours {where}",
                    times["ghost"] / ours,
                    ghost_limit,
                    at_least=True,
                )
            )
    return held


def benchmark_default_steps(X: np.ndarray, y: np.ndarray, device: str = "cpu") -> list[bool]:
    """Steps of the default net, in microseconds too: compare them between two versions."""
    features, target = as_tensors(X, y, device)
    one_group = np.zeros(len(X), dtype=int)
    held = []
    for batch, limit in ((256, 1.2), (1024, 1.3), (4096, 1.6)):

        def make() -> nn.Module:
            return MLP(X.shape[1])

        times = interleaved(
            {
                "ours": our_step(features, target, one_group, batch, make, torch.optim.Adam),
                "plain": plain_step(features, target, batch, make, torch.optim.Adam),
                "floor": floor_step(batch, make, device),
            },
            rounds=41,
            repeats=max(1, 2560 // batch),
            clock=clock_of(device),
        )
        print(f"{f'default step, Adam (B={batch})':<72} {1e6 * times['ours']:7.1f} us")
        held.append(
            beside_plain(f"default step / plain torch step, Adam (B={batch})", times, limit)
        )
    return held


def benchmark_groups(X: np.ndarray, y: np.ndarray, device: str = "cpu") -> list[bool]:
    """Several groups in one pass against one group, with the same total batch."""
    features, target = as_tensors(X, y, device)
    groups = np.random.default_rng(0)

    def make() -> nn.Module:
        return MLP(X.shape[1], hidden_sizes=(64, 64), activation=nn.ReLU)

    counts = (1, 2, 4, 10)
    steps = {
        f"{k}": our_step(features, target, groups.integers(0, k, len(X)), 256, make) for k in counts
    }
    times = interleaved(steps, rounds=41, repeats=5, clock=clock_of(device))
    limits = {2: 1.2, 4: 1.2, 10: 1.15}
    return [
        report(f"FairDP step, {k} groups / 1 group", times[f"{k}"] / times["1"], limit)
        for k, limit in limits.items()
    ]


def benchmark_cnn(device: str = "cpu") -> list[bool]:
    """The default convolutional network on grey images of 48 x 48 pixels."""
    generator = torch.Generator().manual_seed(0)
    X = torch.rand(2048, 1, 48, 48, generator=generator).to(device)
    y = torch.randint(0, 2, (2048,), generator=generator).float().to(device)
    times = interleaved(
        {
            "ours": our_step(X, y, np.zeros(len(X), dtype=int), 128, SmallCNN),
            "plain": plain_step(X, y, 128, SmallCNN),
            "hooks": opacus_hooks_step(X, y, 128, SmallCNN),
        },
        rounds=15,
        repeats=2,
        clock=clock_of(device),
    )
    print(f"{'opacus hooks / plain torch step, CNN':<72} {times['hooks'] / times['plain']:7.2f}")
    return [
        report("private CNN step / plain torch step (B=128)", times["ours"] / times["plain"], 1.6)
    ]
