"""Many private linear models over the same rows, trained in one pass."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.base import clone
from torch import nn

from skfairdp.datasets.stored_rows import stored_rows
from skfairdp.engine.many_releases import ManyReleases, one_linear_layer, refuse_unbounded
from skfairdp.engine.nets import PreparedNet, prepare_net
from skfairdp.engine.objectives import BinaryObjective, objective_for
from skfairdp.engine.optimizers import ManyOptimizers
from skfairdp.engine.parameter_vector import flatten, unflatten
from skfairdp.engine.processes import Processes
from skfairdp.engine.randomness import SeededDraws
from skfairdp.engine.row_blocks import few_threads
from skfairdp.engine.training import schedule_factors
from skfairdp.exceptions import PrivacyWarning, warn_user
from skfairdp.inprocessing.dpsgd import DPSGDClassifier
from skfairdp.inprocessing.gradient import Run
from skfairdp.parameters import COUNT, check_parameters
from skfairdp.privacy.guarantee import PrivacyGuarantee
from skfairdp.privacy.noise import NoiseSource
from skfairdp.privacy.plan import Plan
from skfairdp.receipts import RowFacts

# Parameters that no plan and no guarantee is made from.
_NOT_PLANNED = {"net", "random_state", "learning_rate_schedule", "progress", "ledger"}


def fit_many(
    estimator: DPSGDClassifier,
    settings: int | Iterable[Mapping[str, Any]],
    X: ArrayLike,
    y: ArrayLike,
    *,
    sensitive_features: ArrayLike | None = None,
) -> list[DPSGDClassifier]:
    """Fit many linear models to the same rows at once, each as if it were fitted alone.

    Every model draws its own batches and noise, and has its own plan, guarantee and entry
    in the ledger. All of them are releases about the same people: what they cost together is
    what the ledger adds up, as for fits one after the other; without one a warning says so.

    Parameters
    ----------
    estimator : DPSGDClassifier
        Of a linear net, ``module__hidden_sizes=()``, trained by plain SGD or Adam. Not fitted.
    settings : int or iterable of dict
        What `set_params` gets for each model: seeds, budgets, clip norms, learning rates,
        batch sizes with the same number of steps. A number asks for that many equal models.
    X, y, sensitive_features : array-like
        As of `DPSGDClassifier.fit`.

    Returns
    -------
    list of DPSGDClassifier
        The fitted models, in the order of `settings`.

    Raises
    ------
    ValueError
        A model cannot be trained with the others: fit it alone. Or as of `fit`. No
        model is fitted then.
    BudgetExceededError
        A ledger has no room for all of them. Nothing is charged, and no row was used.

    Notes
    -----
    Each model's batches are drawn for it alone, so that costs add up as in any adaptive
    composition. With one batch for all, the chance of not being drawn would protect a record once,
    not once a model.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from skfairdp import DPSGDClassifier, fit_many
    >>> X, y = make_classification(500, random_state=0)
    >>> linear = DPSGDClassifier(max_epochs=2).set_params(net__module__hidden_sizes=())
    >>> models = fit_many(linear, [{"epsilon": e} for e in (0.5, 1.0, 2.0)], X, y)
    >>> [model.privacy_.epsilon <= model.epsilon for model in models]
    [True, True, True]
    """
    if type(estimator) is not DPSGDClassifier or estimator.public_parity is not None:
        raise ValueError(
            "fit_many takes a DPSGDClassifier without public_parity; got "
            f"{type(estimator).__name__}. Fit others one by one."
        )
    number: list[Any] = [{}] * int(cast(int, settings)) if COUNT.accepts(settings) else []
    each = [*settings] if isinstance(settings, Iterable) else number
    if not each or not all(isinstance(own, Mapping) for own in each):
        raise ValueError(
            f"settings={settings!r} is not allowed: give a whole number of models, 1 or more, or "
            "a dictionary of parameters for each, such as [{'epsilon': 0.5}, {'epsilon': 1.0}]."
        )
    models = [clone(estimator).set_params(**own) for own in each]
    several = any(Processes(model.distributed is not None).size > 1 for model in models)
    if several or stored_rows(X) is not None:
        raise ValueError(
            "fit_many takes dense rows in the memory of one process: load them (X.toarray() of "
            "sparse ones), and set distributed=None in a process group."
        )
    own_nets = [any(name.startswith("net") for name in own) for own in each]
    own_nets = [own or own_nets[0] for own in own_nets[1:]]
    with _Together(models, own_nets, len(X), sensitive_features) as together:  # type: ignore[arg-type]
        together.fit(X, y)
    return models


@dataclass(frozen=True)
class _Own:
    """State of one of the models, before it is charged."""

    plan: Plan
    prepared: PreparedNet
    noise: NoiseSource
    rates: list[float]
    stated: PrivacyGuarantee | None = None
    multiplier: float = 0.0


class _Together(ExitStack):
    """Fits of models of which the first checks the rows, and takes all others along.

    Whether they leave what was trained, or nothing, is settled when the block ends.
    """

    def __init__(
        self, models: list[DPSGDClassifier], own_nets: list[bool], n_rows: int, groups: Any
    ) -> None:
        super().__init__()
        self._own_nets = own_nets
        self._first, *self._others = models
        self._n_rows, self._sensitive_features = n_rows, groups
        self._own: list[_Own] = []
        self._known: dict[Any, Any] = {}

    def fit(self, X: Any, y: Any) -> None:
        first = self._first
        # In place of two methods, until the first model's rows are checked and it is charged.
        first.__dict__.update(_check_net=self._plan_all, _train=self._train)
        try:
            first.fit(X, y, sensitive_features=self._sensitive_features)
        finally:
            self._unhook()
        for model, own in zip(self._others, self._own, strict=True):
            for name in ("n_features_in_", "feature_names_in_", "link_", "classes_", "groups_"):
                if name in vars(first):
                    setattr(model, name, getattr(first, name))
            unflatten(own.prepared.module)
            model.module_ = own.prepared.module.eval()
            model.noise_multiplier_ = own.multiplier
            model.plan_, model.privacy_ = own.plan, own.stated

    def _unhook(self) -> None:
        for name in ("_check_net", "_train"):
            self._first.__dict__.pop(name, None)

    def _plan_all(self, prepared: PreparedNet, plan: Plan, row_shape: tuple[int, ...]) -> None:
        """Plan every model; refuse models that cannot be trained together, before any charge."""
        DPSGDClassifier._check_net(self._first, prepared, plan, row_shape)
        layer = _linear_layer(prepared, row_shape)
        refuse_unbounded(plan.segments[0], self._n_rows)
        groups = self._first._encode_groups(self._sensitive_features, self._n_rows)
        seen = self._first._plan(self._first._sizes(groups, self._n_rows, NoiseSource(0)), 1.0)
        step, planned = seen.segments[0], plan.segments[0]
        if (step.rates, step.expected_sizes) != (planned.rates, planned.expected_sizes):
            raise ValueError(
                "The plan of the first model counts others than the rows that fit_many was given, "
                "as a group of processes would; fit such models one by one."
            )
        nets = [prepared]
        # Models that differ in nothing that a plan is made from have one plan and one guarantee.
        known: dict[str, tuple[Plan, float, PrivacyGuarantee | None]] = {}
        for model, own_net in zip(self._others, self._own_nets, strict=True):
            check_parameters(model, model._parameters)
            model._check_settings()
            alike = np.array_equal(model.classes, self._first.classes)  # type: ignore[arg-type]
            if model.public_parity is not None or not alike:
                raise ValueError("Models that differ in classes or public_parity: fit them apart.")
            seed, noise = model._randomness()
            parameters = model.get_params(deep=False).items()
            key = repr([(n, v) for n, v in parameters if n not in _NOT_PLANNED])
            if key not in known:
                quote = model._priced(RowFacts(self._n_rows, groups), noise)
                assert quote.plan is not None
                assert quote.noise_multiplier is not None
                refuse_unbounded(quote.plan.segments[0], self._n_rows)
                quote.plan.check_exact_noise(prepared.flat.vector.numel())
                known[key] = quote.plan, quote.noise_multiplier, quote.privacy
            own, multiplier, stated = known[key]
            if own_net:
                net = prepare_net(
                    model._net(),
                    n_features=row_shape[0],
                    n_classes=max(2, layer.out_features),
                    seed=seed,
                )
                nets.append(net)
            else:
                net = _again(prepared, seed)
            if own.steps != plan.steps or not _alike(net, prepared, row_shape):
                raise ValueError(
                    "Models that are trained together take the same number of steps and have nets "
                    f"of one shape and criterion; one has {own.steps:,} steps and a "
                    f"{type(net.module).__name__}, the first {plan.steps:,} and a "
                    f"{type(prepared.module).__name__}. Fit them apart."
                )
            factors = schedule_factors(model.learning_rate_schedule, own.steps)
            rates = net.learning_rates(own.steps, max(1, own.steps // model.max_epochs))
            rates = [r * f for r, f in zip(rates, factors, strict=True)]
            self._own.append(_Own(own, net, noise, rates, stated, multiplier))
        ManyOptimizers(torch.empty(0), [net.optimizer() for net in nets])

    def _train(self, run: Run) -> None:
        """Charge the other models, and train all."""
        self._unhook()
        try:
            for model, own in zip(self._others, self._own, strict=True):
                self.enter_context(model._all_or_nothing(self._known))
                model._charge(own.stated)
            uncounted = [m for m in (self._first, *self._others) if "_uncounted" in vars(m)]
            if len(uncounted) > 1:
                warn_user(
                    f"fit_many trains {len(uncounted)} models without a ledger. Every person in "
                    "the rows spends the total of all models. Pass ledger= to count them together.",
                    PrivacyWarning,
                )
        except BaseException:  # no row has been used
            for model in (self._first, *self._others):
                model._give_back()
            raise
        everybody = [_Own(run.plan, run.prepared, run.noise, run.learning_rates), *self._own]
        releases = [run.release, *(run.release.beside(o.plan, o.noise) for o in self._own)]
        nets = [own.prepared for own in everybody]
        vectors = torch.stack([net.flat.vector.detach() for net in nets])
        optimizer = ManyOptimizers(vectors, [run.prepared.optimizer()])
        shape = one_linear_layer(run.prepared.module).weight.shape  # type: ignore[union-attr]
        weights, biases = vectors.split([shape.numel(), shape[0]], dim=1)
        many = ManyReleases(
            releases,
            [own.plan.segments[0] for own in everybody],
            objective_for(run.prepared.criterion),
            weights.view(len(nets), *shape),
            biases,
        )
        rates = torch.tensor([own.rates for own in everybody], dtype=torch.float64).t()
        with few_threads(1, (1,), 1):
            for of_step in rates:
                optimizer.step(many.gradients(), of_step.unsqueeze(1))
                run.progress.advance()
        for net, vector in zip(nets, vectors, strict=True):
            net.flat.vector.copy_(vector)
        for release in releases[1:]:
            release.meter.finish()


def _again(prepared: PreparedNet, seed: int) -> PreparedNet:
    """Make the module of a net anew, with initial weights of another seed."""
    net = prepared.net
    with SeededDraws(seed):
        module = net.initialized_instance(net.module, net.get_params_for("module"))
    module = module.to(prepared.flat.vector.device)
    return replace(prepared, module=module, flat=flatten(module))


def _alike(net: PreparedNet, first: PreparedNet, row_shape: tuple[int, ...]) -> bool:
    criteria = [objective_for(each.criterion) for each in (net, first)]
    layers = [_linear_layer(each, row_shape) for each in (net, first)]
    same_loss = type(criteria[0]) is type(criteria[1]) and vars(criteria[0]) == vars(criteria[1])
    return same_loss and layers[0].weight.shape == layers[1].weight.shape


def _linear_layer(prepared: PreparedNet, row_shape: tuple[int, ...]) -> nn.Linear:
    """Return the one layer of a net, or refuse it."""
    layer = one_linear_layer(prepared.module)
    output = torch.zeros(1, 1 if layer is None else layer.out_features)
    objective = objective_for(prepared.criterion)
    target = torch.zeros(1, dtype=None if isinstance(objective, BinaryObjective) else torch.int64)
    placed = layer is not None and layer.weight.device.type == "cpu" and len(row_shape) == 1
    if not placed or objective.gradient(output, target) is None:
        raise ValueError(
            "Models are trained together if each is one linear layer with a bias, in float32, on "
            "the CPU, of rows without further dimensions (net__module__hidden_sizes=()), and its "
            "criterion has no weights; fit others one by one."
        )
    assert layer is not None
    return layer
