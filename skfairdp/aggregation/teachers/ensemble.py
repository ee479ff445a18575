"""Votes of an ensemble of teachers of any kind."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from skfairdp.engine.run import Progress
from skfairdp.foundation.documentation import completed_by


@dataclass(eq=False, repr=False)
class Teachers(ABC):
    """An ensemble trained on disjoint shards; it holds models and no rows.

    Everything about it is private: it lives while `fit` runs and is then dropped.

    Parameters
    ----------
    fixed : ndarray of int64, shape (n_teachers,)
        Class that a teacher answers whatever it is asked, -1 where it was trained.
    n_classes : int
        Number of classes.
    """

    fixed: np.ndarray
    n_classes: int

    @property
    def n_teachers(self) -> int:
        """Number of teachers."""
        return len(self.fixed)

    @abstractmethod
    def _trained_predictions(self, X: np.ndarray) -> np.ndarray:
        """Class of each row by each teacher; rows of `fixed` teachers are overwritten."""

    def predictions(self, X: np.ndarray) -> np.ndarray:
        """Let every teacher classify every row.

        Parameters
        ----------
        X : ndarray, shape (n_rows, n_features)
            Public rows.

        Returns
        -------
        ndarray of int64, shape (n_teachers, n_rows)
            Class codes in [0, n_classes).
        """
        answers = self._trained_predictions(X)
        constant = self.fixed >= 0
        answers[constant] = self.fixed[constant, None]
        return answers

    @completed_by(predictions)
    def votes(self, X: np.ndarray) -> np.ndarray:
        """Count the teachers that answer each class.

        Returns
        -------
        ndarray of int64, shape (n_rows, n_classes)
            Every row sums to the number of teachers. A record of the training set moves
            one teacher, so each row changes by at most one vote taken away and one
            given: sqrt(2) in the L2 norm.
        """
        answers = self.predictions(X)
        return np.stack([np.count_nonzero(answers == k, axis=0) for k in range(self.n_classes)], 1)


@dataclass(frozen=True, eq=False, repr=False)
class Lessons:
    """Training rows of every teacher, and the length of training; dropped with the fit."""

    X: np.ndarray
    y_codes: np.ndarray
    rows: list[np.ndarray]  # Positions of the usable records of each shard
    n_classes: int
    seed: int
    n_steps: int
    batch_size: int
    progress: Progress

    @cached_property
    def fixed(self) -> np.ndarray:
        """Answer of each teacher with nothing to learn: the only class, or 0; -1 for others."""
        shards = [np.unique(self.y_codes[own]) for own in self.rows]
        fixed = [-1 if len(found) > 1 else int(found[0]) if len(found) else 0 for found in shards]
        return np.array(fixed, dtype=np.int64)
