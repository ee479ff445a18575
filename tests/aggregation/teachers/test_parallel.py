"""Teachers fitted by workers: other threads, other processes, a Dask cluster."""

from __future__ import annotations

import os
import pickle
import signal
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import joblib
import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier
from torch import nn

from skfairdp import default_net
from skfairdp.aggregation import train_teachers
from skfairdp.aggregation.teachers.parallel import SeparateTeachers
from skfairdp.engine.modules import MLP
from tests.aggregation.rows import private_rows
from tests.processes import in_one_worker

pytestmark = in_one_worker
PUBLIC = np.random.default_rng(99).normal(size=(50, 5))


def votes(teacher, n_jobs: int | None = None, progress: bool | None = False) -> np.ndarray:
    rows = private_rows()
    return train_teachers(
        teacher,
        rows.X,
        rows.y,
        rows.shards,
        8,
        2,
        seed=3,
        n_steps=20,
        n_jobs=n_jobs,
        progress=progress,
    ).votes(PUBLIC)


def predictions(teacher, rows) -> np.ndarray:
    teachers = train_teachers(
        teacher, rows.X, rows.y, rows.shards, 8, 2, seed=3, n_steps=20, progress=False
    )
    return teachers.predictions(PUBLIC)


def tree() -> DecisionTreeClassifier:
    return DecisionTreeClassifier(max_features=2)


def net():
    """Trained one by one: its loss is not one of those with a known derivative."""
    return default_net().set_params(
        module=MLP, criterion=nn.CrossEntropyLoss, criterion__label_smoothing=0.1
    )


@pytest.mark.parametrize(
    "backend", ["threading", "loky", pytest.param("multiprocessing", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("make", [tree, net])
def test_votes_do_not_depend_on_the_workers(backend: str, make) -> None:
    alone = votes(make())
    with joblib.parallel_config(backend=backend, n_jobs=2):
        np.testing.assert_array_equal(votes(make()), alone)


@pytest.mark.slow
def test_the_bar_counts_teachers_of_other_processes(capfd: pytest.CaptureFixture) -> None:
    with joblib.parallel_config(backend="loky"):
        votes(tree(), n_jobs=2, progress=True)
    assert "8/8" in capfd.readouterr().err


@pytest.mark.slow
def test_failures_in_other_processes_say_nothing() -> None:
    with joblib.parallel_config(backend="loky", n_jobs=2):
        assert votes(KNeighborsClassifier(200)).tolist() == [[8, 0]] * len(PUBLIC)


class Failing(DecisionTreeClassifier):
    """Fails in one of many ways if a row of its shard is large."""

    def __init__(self, how: str = "killed") -> None:
        super().__init__()
        self.how = how

    def fit(self, X, y):
        self.large_ = bool(X.max() > 50)
        if self.large_ and self.how == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.large_ and self.how == "interrupted":
            raise KeyboardInterrupt
        if self.large_ and self.how == "cannot be pickled":
            self.lock_ = threading.Lock()
        return super().fit(X, y)

    def __setstate__(self, state):
        if state.get("large_") and state["how"] == "cannot be restored":
            raise RuntimeError("a row was large")
        super().__setstate__(state)

    def predict(self, X):
        if self.large_ and self.how == "killed at answering":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.large_ and self.how == "interrupted at answering":
            raise KeyboardInterrupt
        return super().predict(X)


HERE = ("interrupted", "interrupted at answering")
ELSEWHERE = ("killed", "cannot be pickled", "cannot be restored", "killed at answering")


@pytest.mark.parametrize(
    ("how", "backend"),
    [(how, backend) for how in HERE for backend in ("sequential", "threading", "loky")]
    + [(how, "loky") for how in ELSEWHERE],
)
def test_a_teacher_votes_for_the_first_class_however_it_fails(how: str, backend: str) -> None:
    rows = private_rows()
    sound = predictions(Failing("not at all"), rows)
    rows.X[np.flatnonzero(rows.shards == 2)[0], 0] = 99.0
    other = predictions(Failing("not at all"), rows)
    with joblib.parallel_config(backend=backend, n_jobs=2):
        failed = predictions(Failing(how), rows)
    assert sound[2].any()
    assert (failed[2] == 0).all()
    np.testing.assert_array_equal(np.delete(failed, 2, 0), np.delete(other, 2, 0))


class Interrupted(DecisionTreeClassifier):
    """The user presses Ctrl-C while it is fitted; it may catch what is raised."""

    def __init__(self, catches: bool = False) -> None:
        super().__init__()
        self.catches = catches

    def fit(self, X, y):
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            if not self.catches:
                raise
        return super().fit(X, y)


@pytest.fixture
def heeded_interrupts() -> Iterator[None]:
    """Heed interrupts, which a shell lets its background jobs ignore."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heeded_interrupts")
@pytest.mark.parametrize("catches", [False, True])
def test_an_interrupt_by_the_user_ends_the_fit(catches: bool) -> None:
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        predictions(Interrupted(catches), private_rows())
    assert signal.getsignal(signal.SIGINT) is before


@contextmanager
def local_cluster() -> Iterator[object]:
    """Two worker processes on this machine, reached over the loopback address."""
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address=None,
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.mark.slow
def test_teachers_are_fitted_on_a_dask_cluster() -> None:
    class Located(DecisionTreeClassifier):
        """A tree that knows the process that fitted it."""

        def fit(self, X: np.ndarray, y: np.ndarray) -> Located:
            """Fit."""
            self.process_ = os.getpid()
            return super().fit(X, y)

    rows = private_rows()
    alone = [votes(make()) for make in (tree, LogisticRegression, net)]
    with warnings.catch_warnings():
        # Of distributed's own sockets and event loops while it shuts down.
        warnings.simplefilter("ignore", ResourceWarning)
        warnings.simplefilter("ignore", DeprecationWarning)
        with local_cluster() as client, joblib.parallel_config(backend="dask"):
            there = [votes(make()) for make in (tree, LogisticRegression, net)]
            teachers = train_teachers(
                Located(), rows.X, rows.y, rows.shards, 8, 2, seed=3, progress=False
            )
            workers = set(client.run(os.getpid).values())
    assert isinstance(teachers, SeparateTeachers)
    assert {pickle.loads(model).process_ for model in teachers.models} == workers
    assert os.getpid() not in workers
    for one, other in zip(alone, there, strict=True):
        np.testing.assert_array_equal(one, other)
