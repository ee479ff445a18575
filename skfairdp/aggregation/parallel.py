"""Teachers of any kind, trained one by one over joblib's workers.

A worker gets the records of one shard and nothing else. ``joblib.parallel_config``
chooses where the workers are: this process, other processes, a Dask or Ray cluster.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from sklearn.base import clone
from sklearn.utils.parallel import Parallel, delayed
from skorch import NeuralNet
from torch import nn

from skfairdp.aggregation.ensemble import Teachers
from skfairdp.aggregation.minibatches import batches
from skfairdp.aggregation.shards import teacher_generator
from skfairdp.engine.inference import outputs
from skfairdp.engine.nets import PreparedNet, as_tensor, prepare_net
from skfairdp.engine.objectives import BinaryObjective, objective_for
from skfairdp.engine.training import Progress

__all__ = ["SeparateTeachers", "descend", "train_separately"]

# torch has one generator a process, which initial weights and dropout are drawn from:
# threads take turns.
_TORCH_GENERATOR = threading.Lock()


class NetTeacher:
    """A trained module that answers class codes."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Class code of each row."""
        scores = outputs(self.module, X)
        return (scores[:, 0] > 0).astype(int) if scores.shape[1] == 1 else scores.argmax(axis=1)


class SeparateTeachers(Teachers):
    """Teachers that share nothing, None where one has nothing to learn."""

    def __init__(
        self, models: list[Any], fixed: np.ndarray, n_classes: int, n_jobs: int | None
    ) -> None:
        super().__init__(fixed, n_classes)
        self.models = models
        self.n_jobs = n_jobs

    def _trained_predictions(self, X: np.ndarray) -> np.ndarray:
        answers = np.zeros((self.n_teachers, len(X)), dtype=np.int64)
        trained = [(i, model) for i, model in enumerate(self.models) if model is not None]
        tasks = (delayed(_predict)(model, X) for _, model in trained)
        results = _run(tasks, self.n_jobs)
        _refuse_if_all_failed(results, "answer for the public rows", trained)
        for (index, _), codes in zip(trained, results, strict=True):
            if not isinstance(codes, Failure):  # else it keeps its votes for class 0
                answers[index] = codes
        return answers


def train_separately(
    teacher: Any,
    X: np.ndarray,
    y_codes: np.ndarray,
    rows: list[np.ndarray],
    fixed: np.ndarray,
    n_classes: int,
    *,
    seed: int,
    n_steps: int,
    batch_size: int,
    n_jobs: int | None,
    progress: Progress,
) -> SeparateTeachers:
    """Fit a clone of a classifier, or of a net, on every shard.

    Parameters
    ----------
    teacher : estimator or skorch.NeuralNet
        The pattern, never fitted itself.
    X : ndarray, shape (n_rows, ...)
        Private rows.
    y_codes : ndarray of int64, shape (n_rows,)
        Their class codes.
    rows : list of ndarray of int64
        Records of each shard.
    fixed : ndarray of int64, shape (n_teachers,)
        -1 for the teachers to train.
    n_classes : int
        Number of classes.
    seed : int
        With its number, it determines what a teacher draws at random.
    n_steps, batch_size : int
        Steps of a net and records in each; not used for other classifiers.
    n_jobs : int or None
        Workers, as joblib counts them.
    progress : Progress
        Counts teachers.

    Returns
    -------
    SeparateTeachers

    Raises
    ------
    ValueError
        No teacher could be fitted. One that fails on its shard votes for class 0, as
        one without rows does: whether a fit ends early must not depend on one shard.
    """
    if isinstance(teacher, NeuralNet):
        task = delayed(_train_net)
        settings: tuple = (n_classes, n_steps, batch_size)
    else:
        task, settings = delayed(_fit), ()
    wanted = [index for index in range(len(rows)) if fixed[index] < 0]
    tasks = (task(clone(teacher), X[rows[i]], y_codes[rows[i]], seed, i, *settings) for i in wanted)
    models: list[Any] = [None] * len(rows)
    results = _run(tasks, n_jobs, progress)
    _refuse_if_all_failed(results, "be fitted on its shard", [(0, teacher)])
    fixed = fixed.copy()
    for index, model in zip(wanted, results, strict=True):
        if isinstance(model, Failure):
            fixed[index] = 0
        else:
            models[index] = model
    return SeparateTeachers(models, fixed, n_classes, n_jobs)


class Failure(str):
    """Name of the exception that ended a task in a worker."""

    __slots__ = ()


class _Counted(Parallel):
    """Workers that move a progress bar; joblib calls it after each batch of tasks."""

    progress: Progress | None = None

    def print_progress(self) -> None:
        if self.progress is not None:
            while self.progress.step < self.n_completed_tasks:
                self.progress.advance()


def _run(tasks: Iterable, n_jobs: int | None, progress: Progress | None = None) -> list[Any]:
    """Run tasks and return their results in order, without a word about private shards."""
    with warnings.catch_warnings():
        # A warning, e.g. of a solver that did not converge, tells of one shard. The
        # filter goes to the workers too.
        warnings.simplefilter("ignore")
        parallel = _Counted(n_jobs=n_jobs)
        parallel.progress = progress
        return parallel(tasks)


def _refuse_if_all_failed(results: list[Any], task: str, named: list[tuple[int, Any]]) -> None:
    """Raise where nobody succeeded; one record can only decide that where all others failed."""
    if results and all(isinstance(result, Failure) for result in results):
        raise ValueError(
            f"No teacher ({type(named[0][1]).__name__}) could {task}: the first raised "
            f"{results[0]}. Its message may quote private rows and is not shown; fit the teacher "
            "on public rows of about a shard's size to see it, or use one that takes shards of "
            "every size."
        )


def _fit(teacher: Any, X: np.ndarray, y_codes: np.ndarray, seed: int, index: int) -> Any:
    state = int(teacher_generator(seed, index).integers(2**31))
    names = [n for n in teacher.get_params() if n.rpartition("__")[2] == "random_state"]
    try:
        return teacher.set_params(**dict.fromkeys(names, state)).fit(X, y_codes)
    except Exception as error:  # named, or a vote for class 0, in the process that asked
        return Failure(type(error).__name__)


def _predict(model: Any, X: np.ndarray) -> np.ndarray | Failure:
    try:
        return np.asarray(model.predict(X)).astype(np.int64)
    except Exception as error:  # named, or a vote for class 0, in the process that asked
        return Failure(type(error).__name__)


def _train_net(
    net: NeuralNet,
    X: np.ndarray,
    y_codes: np.ndarray,
    seed: int,
    index: int,
    n_classes: int,
    n_steps: int,
    batch_size: int,
) -> NetTeacher:
    generator = teacher_generator(seed, index)
    devices = range(torch.cuda.device_count()) if torch.cuda.is_available() else ()
    with _TORCH_GENERATOR, torch.random.fork_rng(devices=list(devices)):
        torch.manual_seed(int(generator.integers(2**63)))  # for dropout
        prepared = prepare_net(
            net,
            n_features=int(np.prod(X.shape[1:])),
            n_classes=n_classes,
            seed=int(generator.integers(2**63)),
        )
        descend(prepared, X, y_codes, generator, n_steps, batch_size)
    return NetTeacher(prepared.module.eval())


def descend(
    prepared: PreparedNet,
    X: np.ndarray,
    y_codes: np.ndarray,
    generator: np.random.Generator,
    n_steps: int,
    batch_size: int,
) -> None:
    """Train one net in the plain way, without noise.

    Parameters
    ----------
    prepared : PreparedNet
        Changed in place.
    X : ndarray, shape (n_rows, ...)
        Rows.
    y_codes : ndarray of int64, shape (n_rows,)
        Class codes.
    generator : numpy.random.Generator
        Draws minibatches.
    n_steps, batch_size : int
        Steps, and records in each.
    """
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
