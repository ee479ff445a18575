"""Checks of skorch nets, and the parts of a net that a mechanism uses."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from sklearn.base import clone
from skorch import NeuralNet
from skorch.callbacks import LRScheduler
from skorch.dataset import ValidSplit
from torch import Tensor, nn

from skfairdp.engine.inspection import refuse_mixing_modules
from skfairdp.engine.modules import MLP
from skfairdp.engine.optimizers import (
    FlatOptimizer,
    FlatParameters,
    flat_optimizer,
    flatten,
    make_optimizer,
)
from skfairdp.engine.randomness import SeededDraws
from skfairdp.foundation.parameters import Number
from skfairdp.records.numbers import LOSSES

_CRITERIA = ({"criterion": nn.MSELoss}, {"criterion": nn.HuberLoss, "criterion__delta": 0.25})
# Criteria of the losses of numbers, by name.
NUMBER_LOSSES: dict[str, dict[str, Any]] = dict(zip(LOSSES, _CRITERIA, strict=True))
_OURS = {"batch_size": 128, "max_epochs": 10}  # skorch's defaults
# Methods by which skorch trains, and a private fit does not.
_NOT_CALLED = (
    *("fit_loop", "run_single_epoch", "train_step", "train_step_single", "validation_step"),
    *("evaluation_step", "infer", "forward", "forward_iter", "get_loss", "get_dataset"),
    *("get_iterator", "get_split_datasets"),
)
_LINKS = {nn.BCEWithLogitsLoss: "logit", nn.CrossEntropyLoss: "softmax", nn.NLLLoss: "identity"}
_NUMBER_LINKS = dict.fromkeys((nn.MSELoss, nn.HuberLoss), "number")


def default_net() -> NeuralNet:
    """Build the net that stands behind ``net=None``.

    A multilayer perceptron trained by Adam; its criterion and its numbers of
    inputs and outputs are filled in at fit. Its parameters can be set and
    searched through an estimator as ``net__lr``, ``net__module__hidden_sizes``,
    ``net__optimizer``, ``net__device`` and so on.

    Returns
    -------
    skorch.NeuralNet
        Not initialised.

    Examples
    --------
    >>> from skfairdp import DPSGDClassifier, default_net
    >>> net = default_net().set_params(module__hidden_sizes=(32, 32), lr=0.003)
    >>> DPSGDClassifier(net=net).net.lr
    0.003
    """
    return NeuralNet(
        MLP,
        criterion=nn.BCEWithLogitsLoss,
        optimizer=torch.optim.Adam,
        lr=0.01,
        train_split=None,
        callbacks=None,
        verbose=0,
    )


@dataclass
class PreparedNet:
    """An initialised module with its parameters in one vector."""

    module: nn.Module  # Initialised, on its device, in training mode where that matters
    criterion: nn.Module
    flat: FlatParameters  # View of the trainable parameters as one vector
    net: NeuralNet  # The private clone that made them; dropped after training
    schedulers: tuple[LRScheduler, ...]  # Learning-rate policies of the user's net
    n_classes: int | None  # None where targets are numbers

    @property
    def learning_rate(self) -> float:
        return float(self.net.lr)

    def optimizer(self) -> FlatOptimizer:
        """Build the net's optimizer on the flat parameter vector."""
        named = [(n, p) for n, p in self.module.named_parameters() if p.requires_grad]
        args, kwargs = self.net.get_params_for_optimizer("optimizer", named)
        kwargs = {"lr": self.learning_rate, **kwargs}
        return flat_optimizer(self.net.optimizer, args, kwargs, dict(named), self.flat)

    def plain_sgd(self, lr: float) -> FlatOptimizer:
        """Build plain gradient descent: no momentum, no decay."""
        return flat_optimizer(torch.optim.SGD, (), {"lr": lr}, {}, self.flat)

    def learning_rates(self, steps: int, steps_per_epoch: int) -> list[float]:
        """List the net's learning rate at every step.

        An LRScheduler is run ahead on a dummy parameter: its policy cannot depend on the rows then.
        """
        if not self.schedulers:
            return [self.learning_rate] * steps
        dummy = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=self.learning_rate)
        policies = []
        for callback in self.schedulers:
            callback.initialize()
            policy = callback.policy_(dummy, **callback.kwargs)
            policies.append((policy, 1 if callback.step_every == "batch" else steps_per_epoch))
        rates = []
        for step in range(1, steps + 1):
            rates.append(float(dummy.param_groups[0]["lr"]))
            dummy.step()
            for policy, every in policies:
                if step % every == 0:
                    policy.step()
        return rates


def check_net(net: Any) -> NeuralNet:
    """Refuse a net whose settings would publish or change private training."""
    if not isinstance(net, NeuralNet):
        raise TypeError(
            f"'net' must be a skorch NeuralNet or None; got {type(net).__name__}. "
            "Wrap a torch module class as skorch.NeuralNet(module=...)."
        )
    if isinstance(net.module, nn.Module):
        raise TypeError(
            f"'net' holds an instance of {type(net.module).__name__}, which would carry trained "
            "weights from one fit to the next; pass the class and its arguments as module__name."
        )
    for name in _NOT_CALLED:
        if not getattr(net, name).__module__.startswith("skorch."):
            raise ValueError(
                f"'net' is a {type(net).__name__} with a {name} of its own, which a private fit "
                "does not call: it would train for something else. Use skorch.NeuralNet, and put "
                "what the method does into the module or the estimator's parameters."
            )
    for name, default in _OURS.items():
        if getattr(net, name) != default:
            raise ValueError(
                f"'net' sets {name}={getattr(net, name)!r}; leave it at skorch's default "
                f"({default!r}) and use the estimator's {name}: it determines the privacy cost."
            )
    if not (Number(0).accepts(net.lr) or isinstance(net.lr, Tensor)):
        raise ValueError(f"'net' sets lr={net.lr!r}, which must be {Number(0).describe()}.")
    if net.warm_start:
        raise ValueError(
            "'net' sets warm_start=True; leave it out: every fit starts afresh, because training "
            "that continues on private rows would spend privacy without a message."
        )
    if net.train_split is not None and not (
        type(net.train_split) is ValidSplit and net.train_split.cv == 5
    ):
        raise ValueError(
            f"'net' sets train_split={net.train_split!r}; leave it out: a validation split of "
            "private rows would publish their losses. Evaluate on held-out rows with certify."
        )
    if net.iterator_train is not torch.utils.data.DataLoader:
        raise ValueError(
            f"'net' sets iterator_train={net.iterator_train!r}; leave it out: batches are Poisson "
            "samples set by the estimator's batch_size."
        )
    for inner in _callbacks(net):
        if not isinstance(inner, LRScheduler):
            raise ValueError(
                f"'net' sets the callback {type(inner).__name__}; only LRScheduler with a policy "
                "that does not look at losses is allowed, other callbacks see private rows."
            )
        if "Plateau" in str(inner.policy) or inner.monitor != "train_loss":
            raise ValueError(
                f"'net' sets LRScheduler(policy={inner.policy!r}), which follows private losses; "
                "use a policy that depends on the step alone."
            )
    return net


def prepare_net(
    net: NeuralNet | None,
    *,
    n_features: int,
    n_classes: int | None,
    seed: int,
    n_logits: int | None = None,
) -> PreparedNet:
    """Clone and initialise a net with seeded weights and flat parameters.

    `net`: none stands for `default_net`. `n_features`: given to modules that take an argument of
    that name and have none set. `n_classes`: None where targets are numbers. Those that take
    ``n_outputs`` and have none set get one logit for two classes under BCEWithLogitsLoss, one
    output for numbers, else one a class. `seed`: of the initial weights; torch's global generator
    is left alone. `n_logits`: number of outputs of a mechanism whose criterion,
    BCEWithLogitsLoss, has several binary targets; None: what `n_classes` says.
    """
    working = default_net() if net is None else clone(check_net(net))
    schedulers = tuple(map(clone, _callbacks(working)))
    settings: dict[str, Any] = {"verbose": 0, "train_split": None}
    if working.callbacks != "disable":  # skorch fails when it is disabled twice
        settings["callbacks"] = "disable"
    n_answers = 1 if n_classes is None else n_classes
    if n_classes is None:
        if working.criterion is nn.BCEWithLogitsLoss and working.module is MLP:
            settings["criterion"] = nn.MSELoss
    elif n_classes > 2 and working.criterion is nn.BCEWithLogitsLoss:
        if working.module is not MLP:
            raise ValueError(
                f"'net' has the criterion BCEWithLogitsLoss, which is for two classes; there are "
                f"{n_classes}. Use CrossEntropyLoss and a module with a logit a class."
            )
        settings["criterion"] = nn.CrossEntropyLoss
    one_logit = n_classes == 2 and working.criterion is nn.BCEWithLogitsLoss
    n_outputs = n_logits or (1 if one_logit else n_answers)
    module: Any = working.module
    name = getattr(module, "__name__", module)
    accepted = inspect.signature(module.__init__ if inspect.isclass(module) else module).parameters
    given = working.get_params(deep=False)
    for key, value in (("n_features", n_features), ("n_outputs", n_outputs)):
        if key in accepted and f"module__{key}" not in given:
            settings[f"module__{key}"] = value
    working.set_params(**settings)
    asked = [key.removeprefix("module__") for key in given if key.startswith("module__")]
    unknown = [key for key in asked if key not in accepted]
    if unknown and all(p.kind is not p.VAR_KEYWORD for p in accepted.values()):
        allowed = ", ".join(sorted(set(accepted) - {"self"})) or "none"
        raise ValueError(
            f"'net' sets module__{unknown[0]}, but {name} takes no argument {unknown[0]!r}; its "
            f"arguments are: {allowed}."
        )
    # In place of skorch's own method.
    working.initialize_optimizer = partial(_initialize_optimizer, working)
    with SeededDraws(seed):
        try:
            working.initialize()
        except RecursionError as error:
            raise ValueError(
                f"The module {name} contains itself: one of its layers has it, or a layer above, "
                "as an attribute. Hand over what the layer needs in forward instead."
            ) from error
        finally:
            del working.initialize_optimizer
    refuse_mixing_modules(working.module_)
    flat = flatten(working.module_)
    return PreparedNet(working.module_, working.criterion_, flat, working, schedulers, n_classes)


def module_dtype(module: nn.Module) -> torch.dtype:
    """Dtype of the module's floating-point parameters."""
    kinds = (parameter.dtype for parameter in module.parameters())
    return next((kind for kind in kinds if kind.is_floating_point), torch.float32)


def as_tensor(X: Any, module: nn.Module) -> Tensor:
    """Copy rows, as layers may work in place, to a tensor of the module's dtype and device."""
    device = next(module.parameters()).device
    # torch warns of memory it may not write to, e.g. rows that joblib mapped from a file.
    rows = np.require(X, requirements=["C_CONTIGUOUS", "WRITEABLE"])
    return torch.as_tensor(rows).to(device=device, dtype=module_dtype(module), copy=True)


def _initialize_optimizer(net: NeuralNet) -> NeuralNet:
    args, kwargs = net.get_params_for_optimizer("optimizer", net.get_all_learnable_params())
    net.optimizer_ = make_optimizer(net.optimizer, *args, **kwargs)
    return net


def _callbacks(net: NeuralNet) -> list[Any]:
    given = net.callbacks if net.callbacks not in (None, "disable") else []
    return [callback[1] if isinstance(callback, tuple) else callback for callback in given]


def link_of(criterion: nn.Module, *, of_numbers: bool = False) -> str:
    """Return the kind of outputs of a module trained with a criterion.

    What `probabilities` takes; "number" for one scaled number a row, where `of_numbers`.
    """
    links: dict[type[nn.Module], str] = _NUMBER_LINKS if of_numbers else _LINKS
    if type(criterion) in links:
        return links[type(criterion)]
    allowed = ", ".join(kind.__name__ for kind in links)
    raise ValueError(
        f"'net' has the criterion {type(criterion).__name__}; allowed are {allowed}: their loss of "
        "a record depends on that record alone."
    )
