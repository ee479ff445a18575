"""Try a teacher on public rows before anything is charged."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import get_tags
from skorch import NeuralNet

from skfairdp.aggregation.teachers.parallel import answer, teach
from skfairdp.aggregation.teachers.training import check_teacher

_N_STEPS, _BATCH_SIZE = 3, 4
_MOST_ANSWERS = 1000


def try_teacher(
    teacher: Any, X_public: np.ndarray, n_rows: int, n_teachers: int, n_classes: int
) -> None:
    """Refuse a teacher that cannot be fitted, or that remembers earlier fits.

    A teacher that fails on private rows is silent and votes for class 0. So that not all of
    them do, one is fitted on public rows with made-up labels, twice as many as an average
    shard holds. It is fitted on others then, and on the first ones again: if it answers
    otherwise than before, something in it outlived the fit in between (a generator or a
    cache that all its clones share), and one record would change other teachers too.

    `X_public` (n_public, ...): at least one row. `n_rows`, `n_teachers`, `n_classes`: numbers of
    records, of shards and of classes. Raises TypeError: `teacher` is not a classifier.
    """
    pattern, prepared = check_teacher(teacher, X_public.shape[1:], n_classes)
    if prepared is not None:
        return  # of a kind that is known to draw from its own stream and to remember nothing
    half = max(1, len(X_public) // 2)
    size = 2 * max(-(-n_rows // n_teachers), n_classes)
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
            f"labels, twice as many as a shard holds on average: {error!r}. Nothing was charged. "
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
