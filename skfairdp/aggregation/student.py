"""The model that is released: trained on public rows with the ensemble's noisy answers."""

from __future__ import annotations

import inspect
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from skorch import NeuralNet
from torch import nn

from skfairdp.aggregation.teachers.isolation import own_globals
from skfairdp.aggregation.teachers.parallel import descend
from skfairdp.engine.inference import outputs, probabilities
from skfairdp.engine.nets import default_net, link_of, prepare_net
from skfairdp.engine.optimizers import copy_module, copy_parameters
from skfairdp.foundation.documentation import completed_by


def default_student() -> NeuralNet:
    """Build the net that stands behind ``student=None``.

    A student sees few rows with noisy labels, hence a linear model with weight decay.

    Returns
    -------
    skorch.NeuralNet
        Not initialised. Unlike a net that trains on private rows it has its own
        ``batch_size`` and ``max_epochs``: public rows cost nothing.

    Examples
    --------
    >>> from skfairdp.aggregation import default_student
    >>> default_student().max_epochs
    60
    """
    return default_net().set_params(
        module__hidden_sizes=(), lr=0.02, batch_size=64, max_epochs=60, optimizer__weight_decay=0.01
    )


@dataclass(frozen=True, eq=False)
class Student:
    """A trained student that speaks in class codes.

    Parameters
    ----------
    model : nn.Module, classifier or int
        What predicts; an integer is a student that always answers this code.
    link : str
        What a module's outputs are; empty for other models.
    n_classes : int
        Number of classes.
    """

    model: Any
    link: str
    n_classes: int

    @property
    def has_probabilities(self) -> bool:
        """Whether the student estimates probabilities."""
        return isinstance(self.model, int | nn.Module) or hasattr(self.model, "predict_proba")

    def probabilities(self, X: np.ndarray) -> np.ndarray:
        """Estimate class probabilities.

        Parameters
        ----------
        X : ndarray, shape (n, n_features)
            Rows.

        Returns
        -------
        ndarray of float64, shape (n, n_classes)
        """
        if isinstance(self.model, nn.Module):
            return probabilities(outputs(self.model, X), self.link)
        result = np.zeros((len(X), self.n_classes))
        if isinstance(self.model, int):
            result[:, self.model] = 1.0
        else:
            known = np.asarray(self.model.classes_, dtype=np.int64)
            result[:, known] = self.model.predict_proba(X)
        return result

    @completed_by(probabilities)
    def codes(self, X: np.ndarray) -> np.ndarray:
        """Predict a class code for each row.

        Returns
        -------
        ndarray of int64, shape (n,)
        """
        if isinstance(self.model, int | nn.Module):
            return self.probabilities(X).argmax(axis=1)
        return np.asarray(self.model.predict(X)).astype(np.int64)


def train_student(
    student: Any,
    X: np.ndarray,
    codes: np.ndarray,
    n_classes: int,
    *,
    seed: int,
    sensitive_features: np.ndarray | None = None,
) -> Student:
    """Train on answered public rows, without noise.

    Parameters
    ----------
    student : None, skorch.NeuralNet or scikit-learn classifier
        None stands for `default_student`. Cloned, never changed. A search as student
        chooses among models by answered rows alone.
    X : ndarray, shape (n_answered, n_features)
        Answered rows.
    codes : ndarray of int64, shape (n_answered,)
        Their noisy answers.
    n_classes : int
        Number of classes.
    seed : int
        Seeds what protects no record.
    sensitive_features : ndarray, shape (n_answered,), optional
        Given to a student whose `fit` takes groups.

    Returns
    -------
    Student
        One that always gives the same answer where only one class was answered.

    Raises
    ------
    ValueError
        No row was answered.
    """
    if len(codes) == 0:
        raise ValueError(
            "No query was answered, so there is nothing to learn from; the queries were asked and "
            "their privacy cost is spent. Lower 'threshold' (in votes), use more teachers, or "
            "raise 'epsilon'."
        )
    if len(np.unique(codes)) == 1:
        return Student(int(codes[0]), "", n_classes)
    student = default_student() if student is None else clone(student)
    with own_globals(np.random.default_rng([seed, 2])):
        if isinstance(student, NeuralNet):
            return _train_net(student, X, codes, n_classes, seed)
        parameters = student.get_params()
        names = [n for n in parameters if n.rpartition("__")[2] == "random_state"]
        state = int(np.random.default_rng([seed, 1]).integers(2**31))
        student.set_params(**{name: state for name in names if parameters[name] is None})
        grouped = sensitive_features is not None and takes_groups(student)
        student.fit(X, codes, **({"sensitive_features": sensitive_features} if grouped else {}))
        return Student(student, "", n_classes)


def takes_groups(model: Any) -> bool:
    """Whether a model's `fit` makes use of ``sensitive_features``; that of a net does not."""
    if isinstance(model, NeuralNet):
        return False
    parameters = inspect.signature(model.fit).parameters.values()
    return any(p.name == "sensitive_features" or p.kind is p.VAR_KEYWORD for p in parameters)


def _train_net(
    net: NeuralNet, X: np.ndarray, codes: np.ndarray, n_classes: int, seed: int
) -> Student:
    batch_size = min(net.batch_size, len(X)) if net.batch_size > 0 else len(X)
    n_steps = net.max_epochs * math.ceil(len(X) / batch_size)
    generator = np.random.default_rng([seed, 1])
    net.set_params(batch_size=128, max_epochs=10)  # skorch's defaults
    prepared = prepare_net(
        net, n_features=int(np.prod(X.shape[1:])), n_classes=n_classes, seed=seed
    )
    link = link_of(prepared.criterion)
    released = copy_module(prepared.module)
    descend(prepared, X, codes, generator, n_steps, batch_size)
    copy_parameters(prepared.module, released)
    return Student(released.eval(), link, n_classes)
