"""Teachers of any kind, trained one by one over joblib's workers.

A worker gets the records of one shard and nothing else. ``joblib.parallel_config``
chooses where the workers are: this process, other processes, a Dask or Ray cluster.
"""

from __future__ import annotations

import os
import pickle
import platform
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from joblib.externals.loky.cloudpickle_wrapper import dumps
from sklearn.base import clone
from sklearn.utils.parallel import Parallel, delayed
from skorch import NeuralNet
from torch import nn

from skfairdp.aggregation.shards import batches, teacher_generator
from skfairdp.aggregation.teachers.ensemble import Lessons, Teachers
from skfairdp.aggregation.teachers.isolation import alone, noting_interrupts
from skfairdp.engine.inference import outputs
from skfairdp.engine.nets import PreparedNet, as_tensor, prepare_net
from skfairdp.engine.objectives import BinaryObjective, objective_for
from skfairdp.engine.run import Progress

# Random streams of a teacher in addition to that of its own parameters.
_FITTING, _ANSWERING = 1, 2


@dataclass(eq=False, repr=False)
class NetTeacher:
    """A trained module that answers class codes."""

    module: nn.Module

    def predict(self, X: np.ndarray) -> np.ndarray:
        scores = outputs(self.module, X)
        return (scores[:, 0] > 0).astype(int) if scores.shape[1] == 1 else scores.argmax(axis=1)


@dataclass(eq=False, repr=False)
class SeparateTeachers(Teachers):
    """Independent teachers; None for one that has nothing to learn or has failed.

    Those that other processes fitted are pickles, which this one does not read.
    """

    models: list[Any]
    seed: int
    n_jobs: int | None

    def _trained_predictions(self, X: np.ndarray) -> np.ndarray:
        answers = np.zeros((self.n_teachers, len(X)), dtype=np.int64)
        tasks = ((model, X, self.seed, index) for index, model in enumerate(self.models))
        for index, codes in enumerate(_run(answer, tasks, self.n_jobs)):
            if codes is not None:  # else it keeps its votes for class 0
                answers[index] = codes
        return answers


def train_separately(teacher: Any, lessons: Lessons, n_jobs: int | None) -> SeparateTeachers:
    """Fit a clone of a classifier, or of a net, on every shard.

    A teacher that fails on its shard or at answering votes for class 0, as one without rows
    does, and so does each of them if all fail: no error depends on what a shard holds.
    """
    X, y_codes, fixed, seed = lessons.X, lessons.y_codes, lessons.fixed, lessons.seed
    sizes = (lessons.n_classes, lessons.n_steps, lessons.batch_size)
    tasks = (
        (clone(teacher) if fixed[i] < 0 else None, X[own], y_codes[own], seed, i, *sizes)
        for i, own in enumerate(lessons.rows)
    )
    models = _run(teach, tasks, n_jobs, lessons.progress)
    failed = np.array([model is None for model in models]) & (fixed < 0)
    return SeparateTeachers(np.where(failed, 0, fixed), lessons.n_classes, models, seed, n_jobs)


class _Counted(Parallel):
    """Workers that move a progress bar; joblib calls it after each batch of tasks."""

    progress: Progress | None = None

    def print_progress(self) -> None:
        if self.progress is not None:
            while self.progress.step < self.n_completed_tasks:
                self.progress.advance()


def _here() -> tuple[str, int]:
    """Name this process among those of all machines."""
    return platform.node(), os.getpid()


def _run(
    call: Callable[..., Any],
    tasks: Iterable[tuple[Any, ...]],
    n_jobs: int | None,
    progress: Progress | None = None,
) -> list[Any]:
    """Run tasks and return their results in order, without output about private shards.

    A worker that dies takes the tasks of others with it. Then each task is done again by itself,
    to the same result, and None is left to those whose worker dies again.
    """
    home, waiting = _here(), list(tasks)

    def results(some: list[tuple[Any, ...]], shown: Progress | None) -> list[Any]:
        parallel = _Counted(n_jobs=n_jobs)
        parallel.progress = shown
        found: list[Any] = parallel(delayed(_or_none)(home, call, *task) for task in some)
        return found

    def by_itself(task: tuple[Any, ...]) -> Any:
        try:
            return results([task], None)[0]
        except Exception:
            return None

    with warnings.catch_warnings():
        # A warning, e.g. of a solver that did not converge, tells of one shard. The
        # filter goes to the workers too.
        warnings.simplefilter("ignore")
        try:
            return results(waiting, progress)
        except Exception:  # of a worker: tasks themselves raise nothing
            return [by_itself(task) for task in waiting]


def teach(
    teacher: Any,
    X: np.ndarray,
    y_codes: np.ndarray,
    seed: int,
    index: int,
    n_classes: int,
    n_steps: int,
    batch_size: int,
) -> Any:
    """Fit one teacher on its shard, with its own random numbers and without output."""
    generator = teacher_generator(seed, index)
    with alone(teacher_generator(seed, index, _FITTING)):
        if isinstance(teacher, NeuralNet):
            prepared = prepare_net(
                teacher,
                n_features=int(np.prod(X.shape[1:])),
                n_classes=n_classes,
                seed=int(generator.integers(2**63)),
            )
            descend(prepared, X, y_codes, generator, n_steps, batch_size)
            return NetTeacher(prepared.module.eval())
        state = int(generator.integers(2**31))
        names = [n for n in teacher.get_params() if n.rpartition("__")[2] == "random_state"]
        return teacher.set_params(**dict.fromkeys(names, state)).fit(X, y_codes)


def answer(model: Any, X: np.ndarray, seed: int, index: int) -> np.ndarray:
    """Let one teacher classify public rows, with its own random numbers."""
    with alone(teacher_generator(seed, index, _ANSWERING)):
        # Its own copy: what a teacher writes into its rows must not reach the next one.
        codes = np.asarray(model.predict(X.copy())).astype(np.int64)
    if codes.shape != (len(X),):
        raise ValueError(
            f"predict must return one label for each of {len(X)} rows; got the shape {codes.shape}"
        )
    return codes


# How a teacher fails on its shard is private: it costs the teacher its vote.
def _or_none(home: tuple[str, int], call: Callable[..., Any], model: Any, *arguments: Any) -> Any:
    """Call a function of a model; None if there is none, or if anything goes wrong.

    `home`: process that waits for the result. In others models come and go as pickles, which are
    made and read here, so that a model that cannot be pickled fails like any other.
    """
    if model is None:
        return None
    away, result, failed = _here() != home, None, False
    with noting_interrupts() as interrupted:
        try:
            result = call(pickle.loads(model) if isinstance(model, bytes) else model, *arguments)
            if away and not isinstance(result, np.ndarray):
                result = dumps(result)
        except BaseException:
            failed = True
        if interrupted() and not away:
            raise KeyboardInterrupt  # of the user, wherever it struck
    return None if failed else result


def descend(
    prepared: PreparedNet,
    X: np.ndarray,
    y_codes: np.ndarray,
    generator: np.random.Generator,
    n_steps: int,
    batch_size: int,
) -> None:
    """Train one net in the plain way, without noise."""
    module, objective = prepared.module.train(), objective_for(prepared.criterion)
    rows = as_tensor(X, module)
    target = torch.from_numpy(y_codes).to(rows.device)
    if isinstance(objective, BinaryObjective):
        target = target.to(rows.dtype)
    trainable = [p for p in module.parameters() if p.requires_grad]
    optimizer = prepared.optimizer()
    rates = prepared.learning_rates(n_steps, max(1, n_steps // 10))
    for rate, picked in zip(
        rates, batches([np.arange(len(X))], [generator], n_steps, batch_size), strict=True
    ):
        chosen = torch.from_numpy(picked).to(rows.device)
        output = module(rows.index_select(0, chosen))
        loss = objective(output, target.index_select(0, chosen)).mean()
        pieces = torch.autograd.grad(loss, trainable)
        optimizer.set_lr(rate)
        optimizer.step(torch.cat([piece.reshape(-1) for piece in pieces]))
