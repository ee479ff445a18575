"""Training of one teacher for each shard, by the fastest way for its kind."""

from __future__ import annotations

import math
from contextlib import closing
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.utils import get_tags
from skorch import NeuralNet
from skorch.callbacks import EarlyStopping, GradientNormClipping, LRScheduler
from torch import nn

from skfairdp.aggregation.shards import rows_by_shard
from skfairdp.aggregation.teachers.ensemble import Lessons, Teachers
from skfairdp.aggregation.teachers.parallel import answer, teach, train_separately
from skfairdp.aggregation.teachers.stacked_training import can_be_batched, train_batched
from skfairdp.engine.inspection import refuse_unstable_rows
from skfairdp.engine.nets import PreparedNet, default_net, prepare_net
from skfairdp.engine.run import Progress

# Of the trial of a teacher.
_N_STEPS, _BATCH_SIZE = 3, 4
_MOST_ANSWERS = 1000


def default_teacher() -> NeuralNet:
    """Build the net that stands behind ``teacher=None``.

    A perceptron with one small hidden layer: shards are small, and all teachers of this
    kind are trained in one pass.

    Returns
    -------
    skorch.NeuralNet
        Not initialised.

    Examples
    --------
    >>> from skfairdp.aggregation import default_teacher
    >>> default_teacher().module__hidden_sizes
    (16,)
    """
    return default_net().set_params(
        module__hidden_sizes=(16,),
        module__activation=nn.ReLU,
        lr=0.01,
        optimizer__weight_decay=0.01,
    )


def train_teachers(
    teacher: Any,
    X: np.ndarray,
    y_codes: np.ndarray,
    shards: np.ndarray,
    n_teachers: int,
    n_classes: int,
    *,
    seed: int,
    n_steps: int = 200,
    batch_size: int = 32,
    n_jobs: int | None = None,
    progress: bool | None = None,
) -> Teachers:
    """Train one teacher on every shard.

    A teacher depends on its own shard, on `seed` and on its number, and on nothing else: a record
    that leaves changes one teacher and leaves the others equal to the last bit. On a shard
    without usable records, or where it fails, it always votes for class 0; on one of a single
    class, for that. Nothing is raised, printed or warned of: what a shard holds is private.

    Parameters
    ----------
    teacher : None, skorch.NeuralNet or scikit-learn classifier
        None stands for `default_teacher`. Nets of linear layers and elementwise activations
        are trained together, in batched matrix products; all else one by one over joblib's
        workers. Parameters called ``random_state`` are set for each teacher from `seed` and
        its number, and so are the global generators of numpy, Python and torch meanwhile.
    X : ndarray, shape (n_rows, n_features)
        Private rows; (n_rows, ...) for nets that take images.
    y_codes : ndarray of int64, shape (n_rows,)
        Class codes in [0, n_classes); -1 marks a record that is not used.
    shards : ndarray of int64, shape (n_rows,)
        Shard of each record, see `assign_shards`.
    n_teachers : int
        Number of shards.
    n_classes : int
        Number of classes.
    seed : int
        Seeds initial weights, minibatches and ``random_state``; they protect no record.
    n_steps : int, default=200
        Training steps of a net.
    batch_size : int, default=32
        Records in each step of a net.
    n_jobs : int or None, default=None
        Workers, as joblib counts them. Batched training does not use it.
    progress : bool or None, default=None
        Whether a progress bar is shown; None shows it on a terminal.

    Returns
    -------
    Teachers
        Private: it must not outlive the fit.

    Raises
    ------
    TypeError
        `teacher` is not a classifier.
    ValueError
        The net has settings that teachers cannot take.

    Examples
    --------
    >>> import numpy as np
    >>> from skfairdp.aggregation import assign_shards, train_teachers
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(600, 2))
    >>> y = (X[:, 0] > 0).astype(int)
    >>> shards = assign_shards(600, 5, rng)
    >>> teachers = train_teachers(None, X, y, shards, 5, 2, seed=0, progress=False)
    >>> teachers.votes(np.array([[-2.0, 0.0], [2.0, 0.0]]))
    array([[5, 0],
           [0, 5]])
    """
    rows = rows_by_shard(shards, y_codes >= 0, n_teachers)
    teacher, prepared = check_teacher(teacher, X.shape[1:], n_classes)
    # Not how many shards there are something to learn from: that is private.
    n_tasks = n_teachers if prepared is None else n_steps
    with closing(Progress(n_tasks, progress, "teachers")) as bar:
        lessons = Lessons(X, y_codes, rows, n_classes, seed, n_steps, batch_size, bar)
        if prepared is not None:
            return train_batched(prepared, lessons)
        return train_separately(teacher, lessons, n_jobs)


def check_teacher(
    teacher: Any, row_shape: tuple[int, ...], n_classes: int
) -> tuple[Any, PreparedNet | None]:
    """Refuse invalid teachers; return the pattern of all, and one for a single pass."""
    teacher = default_teacher() if teacher is None else teacher
    if not isinstance(teacher, NeuralNet):
        instance = hasattr(teacher, "__sklearn_tags__") and not isinstance(teacher, type)
        if instance and is_classifier(teacher):
            _refuse_files(teacher)
            return teacher, None
        raise TypeError(
            "'teacher' must be None, a skorch NeuralNet or an instance of a scikit-learn "
            f"classifier; got {teacher!r}."
        )
    for name, default in (("batch_size", 128), ("max_epochs", 10)):
        if getattr(teacher, name) != default:
            raise ValueError(
                f"'teacher' sets {name}={getattr(teacher, name)!r}; leave it at skorch's default "
                f"({default}): all teachers take the same number of steps, on equally many "
                "records each, whatever their shards hold."
            )
    try:
        pattern = prepare_net(teacher, n_features=math.prod(row_shape), n_classes=n_classes, seed=0)
        batchable = can_be_batched(pattern, row_shape)
        refuse_unstable_rows(pattern.module, row_shape)
    except (TypeError, ValueError) as error:
        raise type(error)(f"'teacher' holds a net that cannot be used: {error}") from error
    return teacher, pattern if batchable else None


def _refuse_files(teacher: Any) -> None:
    """Refuse a teacher that writes its shard, or what it learned of it, to files."""
    for name, value in teacher.get_params(deep=True).items():
        if name.rpartition("__")[2] == "memory" and value is not None:
            raise ValueError(
                f"'teacher' sets {name}, a cache that keeps private rows in files, which no "
                "guarantee covers. Leave it at None."
            )
        given = value.callbacks if isinstance(value, NeuralNet) else None
        for one in given if isinstance(given, list) else ():
            callback = one[1] if isinstance(one, tuple) else one
            if type(callback) not in (EarlyStopping, GradientNormClipping, LRScheduler):
                raise ValueError(
                    f"'teacher' sets the callback {type(callback).__name__} in {name}; allowed are "
                    "EarlyStopping, GradientNormClipping and LRScheduler, as others may write what "
                    "is private to files."
                )


def try_teacher(
    teacher: Any, X_public: np.ndarray, n_rows: int | None, n_teachers: int, n_classes: int
) -> None:
    """Refuse a teacher that cannot be fitted, or that remembers earlier fits.

    A teacher that fails on private rows is silent and votes for class 0. So one is fitted on
    public rows with made-up labels first, then on others, and on the first ones again: if it
    answers otherwise than before, something in it outlived the fit in between (a generator or a
    cache that all its clones share), and one record would change other teachers too.

    `n_rows`: public number of private rows; None where it is secret, and nothing here may depend on
    it.
    """
    pattern, prepared = check_teacher(teacher, X_public.shape[1:], n_classes)
    if prepared is not None:
        return  # of a kind that is known to draw from its own stream and to remember nothing
    half = max(1, len(X_public) // 2)
    of_shard = 0 if n_rows is None else -(-n_rows // n_teachers)
    size = max(half, 2 * n_classes) if n_rows is None else 2 * max(of_shard, n_classes)
    of_shards = "" if n_rows is None else ", twice as many as a shard holds on average"
    first, second = np.arange(size) % half, len(X_public) - 1 - np.arange(size) % half
    labels = np.arange(size, dtype=np.int64) % n_classes
    given = []
    try:
        for rows in (first, second, first):
            model = teach(
                clone(pattern), X_public[rows], labels, 0, 0, n_classes, _N_STEPS, _BATCH_SIZE
            )
            given.append(answer(model, X_public[:_MOST_ANSWERS], 0, 0))
    except (Exception, SystemExit) as error:
        raise ValueError(
            f"'teacher' ({type(pattern).__name__}) fails on {size} public rows with made-up "
            f"labels{of_shards}: {error!r}. Nothing was charged. "
            "Use fewer teachers, or one that takes shards of every size."
        ) from error
    fresh = not isinstance(pattern, NeuralNet) and get_tags(pattern).non_deterministic
    if not fresh and not np.array_equal(given[0], given[2]):
        raise ValueError(
            f"'teacher' ({type(pattern).__name__}) answers differently after another of its clones "
            "was fitted: they share a generator, a cache or a global variable, so that one record "
            "would reach several teachers. Nothing was charged. Let it draw from its random_state "
            "or from a global generator of numpy, torch or Python, which each teacher has for "
            "itself; if its randomness is fresh in every fit, let its tags say non_deterministic."
        )
