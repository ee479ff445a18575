"""A fitted classifier as a function of its parameters, with Gaussian noise on them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.random import Generator
from scipy.special import ndtr
from torch import nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from skfairdp.engine.exact_products import exact_matmul
from skfairdp.engine.inference import features_and_output, outputs, probabilities
from skfairdp.engine.inspection import find_head
from skfairdp.engine.nets import module_dtype
from skfairdp.engine.optimizers import copy_module
from skfairdp.postprocessing.group_models import UNREADABLE

_NO_HEAD = (
    "part='head' needs a net whose single logit is the output of its last linear layer; set "
    "part='all'."
)


@dataclass(frozen=True, eq=False)
class LinearScore:
    """A score that is linear in its parameters: ``<theta, xi(x)> > 0`` decides."""

    vector: np.ndarray  # (p,): theta
    # Maps rows to xi, shape (n, p), the constant that a bias goes with among its coordinates
    embed: Callable[[np.ndarray], np.ndarray]
    exact = True

    def moved(self, vector: np.ndarray) -> LinearScore:
        return replace(self, vector=np.asarray(vector, dtype=np.float64))

    def positive(self, X: np.ndarray, std: float, rng: Generator, n_draws: int) -> np.ndarray:
        """Probability that ``<theta + nu, xi> > 0``: a normal tail, without draws."""
        rows = self.embed(X)
        scale = std * np.sqrt(np.square(rows).sum(axis=1))
        scores = exact_matmul(rows, self.vector)
        # A row of zeros scores 0 whatever the noise: a coin.
        scores = np.divide(scores, scale, out=np.zeros_like(scores), where=scale > 0)
        return np.asarray(ndtr(scores))


@dataclass(frozen=True, eq=False)
class NetScore:
    """A net with noise on all of its parameters."""

    module: nn.Module
    link: str
    exact = False

    @property
    def vector(self) -> np.ndarray:
        return np.asarray(parameters_to_vector(self.module.parameters()).detach().double().cpu())

    def moved(self, vector: np.ndarray) -> NetScore:
        return NetScore(_written(copy_module(self.module).eval(), vector), self.link)

    def positive(self, X: np.ndarray, std: float, rng: Generator, n_draws: int) -> np.ndarray:
        """Share of the draws that give a row the second class."""
        centre, module = self.vector, copy_module(self.module).eval()
        votes = np.zeros(len(X))
        for _ in range(n_draws):
            _written(module, centre + std * rng.standard_normal(len(centre)))
            proba = probabilities(outputs(module, X), self.link)
            votes += proba[:, 1] > proba[:, 0]
        return votes / n_draws


# Parameters, and the probability over noise on them that a row is given the second class; `exact`
# where that is computed without draws.
SmoothModel = LinearScore | NetScore


@dataclass(frozen=True, eq=False)
class _HeadInputs:
    """Rows as they enter a net's linear head, with the constant of its bias."""

    module: nn.Module
    head_name: str

    def __call__(self, X: np.ndarray) -> np.ndarray:
        features, head, decides = self._read(X)
        if not decides:
            raise ValueError(_NO_HEAD)
        return with_constant(features) if head.bias is not None else features

    def decide(self, row_shape: tuple[int, ...]) -> bool:
        """Whether the head's output is the net's, for rows of zeros and of ones."""
        return self._read(np.stack([np.zeros(row_shape), np.ones(row_shape)]))[2]

    def _read(self, X: np.ndarray) -> tuple[np.ndarray, nn.Linear, bool]:
        """What enters the head, the head, and whether its single logit is the net's output."""
        _, head = find_head(self.module, self.head_name)
        features, output = features_and_output(self.module, head, X)
        score = features @ np.asarray(head.weight.detach().double().cpu()).T
        if head.bias is not None:
            score = score + np.asarray(head.bias.detach().double().cpu())
        alike = score.shape == output.shape and np.allclose(score, output, rtol=1e-3, atol=1e-4)
        return features, head, head.out_features == 1 and alike


def with_constant(X: np.ndarray) -> np.ndarray:
    return np.column_stack([np.asarray(X, dtype=np.float64), np.ones(len(X))])


def refuse_unsmoothed_net(
    estimator: Any, part: str, row_shape: tuple[int, ...], *, averaged: bool
) -> None:
    """Refuse a net of which `part` cannot be smoothed, by made-up rows, before it is trained.

    `averaged`: whether parameters are averaged over nets of several groups.
    """
    from skfairdp.engine.nets import prepare_net

    if part != "head" or not hasattr(estimator, "_net"):
        return
    n_features = int(np.prod(row_shape))
    module = prepare_net(estimator._net(), n_features=n_features, n_classes=2, seed=0).module
    net_model(module, "", part, row_shape)
    if averaged and not isinstance(net_model(module, "", "all", row_shape), LinearScore):
        raise ValueError(
            "part='head' cannot be averaged over groups whose nets have different features; "
            "set part='all', or a net without hidden layers."
        )


def smooth_model(fitted: Any, part: str, row_shape: tuple[int, ...]) -> SmoothModel:
    """Take the parameters out of a fitted binary classifier.

    `fitted`: with a released linear score (the functional mechanism), a net, or scikit-learn's
    ``coef_`` and ``intercept_``. `part`: what of a net gets noise.
    """
    if hasattr(fitted, "theta_") and hasattr(fitted, "rows_"):
        return LinearScore(fitted.theta_, fitted.rows_.transform)
    if isinstance(getattr(fitted, "module_", None), nn.Module):
        return net_model(fitted.module_, fitted.link_, part, row_shape)
    coef = getattr(fitted, "coef_", None)
    if coef is not None and np.shape(coef)[0] == 1 and np.ndim(coef) == 2:
        weights = np.append(np.ravel(coef), np.ravel(getattr(fitted, "intercept_", 0.0))[:1])
        return LinearScore(weights.astype(np.float64), with_constant)
    raise ValueError(UNREADABLE.format(type(fitted).__name__))


def net_model(module: nn.Module, link: str, part: str, row_shape: tuple[int, ...]) -> SmoothModel:
    """Take the parameters of a net, or of its head where that alone decides or gets noise."""
    layers = [layer for layer in module.modules() if isinstance(layer, nn.Linear)]
    if part == "head" or (layers and {*module.parameters()} == {*layers[-1].parameters()}):
        name, head = find_head(module)
        inputs = _HeadInputs(module, name)
        if inputs.decide(row_shape):
            parts = [head.weight, *([] if head.bias is None else [head.bias])]
            theta = parameters_to_vector(parts).detach().double().cpu()
            return LinearScore(np.asarray(theta), inputs)
        if part == "head":
            raise ValueError(_NO_HEAD)
    return NetScore(module, link)


def _written(module: nn.Module, vector: np.ndarray) -> nn.Module:
    values = next(module.parameters()).new_tensor(vector, dtype=module_dtype(module))
    vector_to_parameters(values, module.parameters())
    return module
