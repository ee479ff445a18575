"""Rows of the FairPATE tables, and the votes of teachers that were fitted on them.

Votes are what is slow to get and what all settings of the aggregator share, so they are
kept on disk: one file for each data set, seed and number of teachers.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from fairdp_data import Task, load_task
from skorch import NeuralNet

from skfairdp.aggregation import assign_shards, default_teacher, train_teachers
from skfairdp.privacy import NoiseSource

# A fifth of the training part plays the public rows: its labels are never used.
PUBLIC_SHARE = 0.2
# First seed of the search for settings; tables use 0, 1, ...
FIRST_SEARCH_SEED = 100


@dataclass(frozen=True)
class Setting:
    """What differs between data sets.

    Parameters
    ----------
    n_teachers : int
    hidden_sizes : tuple of int
        Hidden layers of a teacher.
    weight_decay : float
        Of a teacher.
    student_c : float
        Inverse strength of the L2 penalty of the student, a logistic regression.
    """

    n_teachers: int
    hidden_sizes: tuple[int, ...]
    weight_decay: float
    student_c: float


SETTINGS = {
    "adult": Setting(250, (16,), 0.01, 1.0),
    "utkface": Setting(100, (), 0.01, 0.001),
}


@dataclass(frozen=True)
class Rows:
    """Private rows, public rows and rows that measure, with integer groups.

    Parameters
    ----------
    private, public, test : tuple of ndarray
        Features, labels, group codes.
    group_names : tuple of str
    """

    private: tuple[np.ndarray, np.ndarray, np.ndarray]
    public: tuple[np.ndarray, np.ndarray, np.ndarray]
    test: tuple[np.ndarray, np.ndarray, np.ndarray]
    group_names: tuple[str, ...]


def load_rows(dataset: str, data_home: str | None, seed: int, cache: Path) -> Rows:
    """Split the training part into private and public rows.

    Parameters
    ----------
    dataset : str
        A key of `SETTINGS`.
    data_home : str or None
        Folder with the data files.
    seed : int
        Draws the public rows. From `FIRST_SEARCH_SEED` on the test rows are left out, and a
        fifth of the private rows measures in their place.
    cache : Path
        Where features of images are kept.

    Returns
    -------
    Rows
    """
    task = load_task(dataset, data_home, 0, cache)
    names, codes = np.unique(np.r_[task.groups, task.groups_test], return_inverse=True)
    own, codes_test = codes[: len(task.y)], codes[len(task.y) :]
    order = np.random.default_rng([seed, 7]).permutation(len(task.y))
    n_public = round(PUBLIC_SHARE * len(order))
    public, private = order[:n_public], order[n_public:]
    test = (task.X_test, task.y_test, codes_test)
    if seed >= FIRST_SEARCH_SEED:
        measuring, private = private[: len(private) // 5], private[len(private) // 5 :]
        test = _picked(task, own, measuring)
    return Rows(
        _picked(task, own, private), _picked(task, own, public), test, tuple(names.tolist())
    )


def _picked(task: Task, codes: np.ndarray, rows: np.ndarray) -> tuple:
    return task.X[rows], task.y[rows], codes[rows]


def teacher_for(setting: Setting) -> NeuralNet:
    """Net of one teacher."""
    return default_teacher().set_params(
        module__hidden_sizes=setting.hidden_sizes, optimizer__weight_decay=setting.weight_decay
    )


def cached_votes(
    dataset: str, rows: Rows, seed: int, cache: Path, setting: Setting | None = None
) -> np.ndarray:
    """Votes on all public rows, from the cache or from newly fitted teachers.

    Shards are drawn from the operating system's entropy, as in a real fit, so votes that
    are made anew differ from those that were kept.

    Parameters
    ----------
    dataset : str
    rows : Rows
    seed : int
    cache : Path
    setting : Setting or None
        None takes that of the data set.

    Returns
    -------
    ndarray of int64, shape (n_public, 2)
    """
    setting = setting or SETTINGS[dataset]
    shape = "x".join(map(str, setting.hidden_sizes)) or "linear"
    name = f"{dataset}_{seed}_{setting.n_teachers}_{shape}_{setting.weight_decay:g}.npy"
    path = cache / "votes" / name
    if path.exists():
        return np.load(path)
    X, y, _ = rows.private
    shards = assign_shards(len(X), setting.n_teachers, NoiseSource(None).sampling)
    teachers = train_teachers(
        teacher_for(setting), X, y, shards, setting.n_teachers, 2, seed=seed, progress=False
    )
    votes = teachers.votes(rows.public[0])
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, votes)
    return votes
