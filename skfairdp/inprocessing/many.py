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

from skfairdp.base.fitted_state import processes_of_torch
from skfairdp.engine.many_releases import ManyReleases, one_linear_layer, refuse_unbounded
from skfairdp.engine.nets import PreparedNet, prepare_net
from skfairdp.engine.objectives import BinaryObjective, objective_for
from skfairdp.engine.optimizers import ManyOptimizers, flatten, unflatten
from skfairdp.engine.randomness import SeededDraws
from skfairdp.engine.row_blocks import few_threads
from skfairdp.engine.run import ReadRows, Run, schedule_factors
from skfairdp.exceptions import PrivacyWarning, UtilityWarning, warn_user
from skfairdp.foundation.parameters import COUNT, check_parameters
from skfairdp.inprocessing.dpsgd import DPSGDClassifier
from skfairdp.privacy.noise import NoiseSource
from skfairdp.privacy.plan import Plan
from skfairdp.receipts import Charge, Quote, Receipt
from skfairdp.receipts.quoted import WEAK
from skfairdp.records import Given
from skfairdp.records.stored_rows import stored_rows

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
        What `set_params` gets for each model: seeds, budgets, clipping norms, learning rates,
        batch sizes with the same number of steps. A number asks for that many equal models.
    X : array-like of shape (n_samples, n_features)
        Private rows, as of `DPSGDClassifier.fit`.
    y : array-like of shape (n_samples,)
        Their labels.
    sensitive_features : array-like of shape (n_samples,) or (n_samples, n_columns), optional
        Their groups.

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
    if any(model.costs is not None for model in models):
        raise ValueError("fit_many buys no tables of scores: leave 'costs' out, or fit one by one.")
    together = any(model.distributed is not None for model in models)
    if (together and processes_of_torch() > 1) or stored_rows(X) is not None:
        raise ValueError(
            "fit_many takes dense rows in the memory of one process: load them (X.toarray() of "
            "sparse ones), and set distributed=None in a process group."
        )
    own_nets = [any(name.startswith("net") for name in own) for own in each]
    own_nets = [own or own_nets[0] for own in own_nets[1:]]
    _fit_together(models, own_nets, Given(X, y, sensitive_features))
    return models


def _fit_together(models: list[DPSGDClassifier], own_nets: list[bool], given: Given) -> None:
    """Fit models of which the first reads the rows: all of them, or none."""
    first, *others = models
    charges = [Charge(model) for model in models]
    with ExitStack() as fits:
        for model, charge in zip(models, charges, strict=True):
            fits.enter_context(model._all_or_nothing(charge))
            check_parameters(model, model._parameters)
            model._check_settings()
        read = first._read(given.read(), None, charges[0])
        quote = first._priced(read.facts, read.noise)
        ready = first._prepare(quote, read.row_shape, read.classes, read.seed)
        own = _planned(first, others, own_nets, quote, ready.prepared, read)
        training = first._made_ready(ready, quote, read, None)
        own.insert(0, _Own(quote, ready.prepared, read.noise, training.learning_rates))
        verdicts = [mine.quote.verdict for mine in own]
        weak = [verdict for verdict in verdicts if verdict is not None and verdict.level in WEAK]
        if weak:
            warn_user(max(weak, key=lambda each: each.ratio).text, UtilityWarning)
        _charge_all(charges, own)
        first._trained(training, lambda run: _train_all(run, own))
        for model, mine in zip(others, own[1:], strict=True):
            for name in ("n_features_in_", "feature_names_in_", "link_", "classes_"):
                if name in vars(first):
                    setattr(model, name, getattr(first, name))
            unflatten(mine.prepared.module)
            model.module_ = mine.prepared.module.eval()
        known: dict[Any, Any] = {}
        groups = None if read.groups is None else read.groups.labels
        for model, mine, charge in zip(models, own, charges, strict=True):
            model._keep_receipt(Receipt(mine.quote, groups), charge, known)


@dataclass(frozen=True)
class _Own:
    """State of one of the models, before it is charged."""

    quote: Quote
    prepared: PreparedNet
    noise: NoiseSource
    rates: list[float]

    @property
    def plan(self) -> Plan:
        """What the model releases."""
        assert self.quote.plan is not None
        return self.quote.plan


def _planned(
    first: DPSGDClassifier,
    others: list[DPSGDClassifier],
    own_nets: list[bool],
    quote: Quote,
    prepared: PreparedNet,
    read: ReadRows,
) -> list[_Own]:
    """Plan the other models, and refuse what cannot be trained with the first."""
    plan, n_rows = quote.plan, read.facts.n
    assert plan is not None
    layer = _linear_layer(prepared, read.row_shape)
    refuse_unbounded(plan.segments[0], n_rows)
    nets, found = [prepared], list[_Own]()
    # Models that differ in nothing that a plan is made from have one quote.
    known: dict[str, Quote] = {}
    for model, own_net in zip(others, own_nets, strict=True):
        alike = np.array_equal(model.classes, first.classes)  # type: ignore[arg-type]
        alike = alike and model.class_weight == first.class_weight
        if model.public_parity is not None or not alike:
            raise ValueError(
                "Models that are trained together have the same 'classes' and 'class_weight', and "
                "no 'public_parity'; one differs: fit it apart."
            )
        seed, noise = model._randomness()
        parameters = model.get_params(deep=False).items()
        key = repr([(n, v) for n, v in parameters if n not in _NOT_PLANNED])
        if key not in known:
            known[key] = model._priced(read.facts, noise)
            own_plan = known[key].plan
            assert own_plan is not None
            refuse_unbounded(own_plan.segments[0], n_rows)
            own_plan.check_exact_noise(prepared.flat.vector.numel())
        if own_net:
            net = prepare_net(
                model._net(),
                n_features=read.row_shape[0],
                n_classes=max(2, layer.out_features),
                seed=seed,
            )
            nets.append(net)
        else:
            net = _again(prepared, seed)
        own = _Own(known[key], net, noise, [])
        if own.plan.steps != plan.steps or not _alike(net, prepared, read.row_shape):
            raise ValueError(
                "Models that are trained together take the same number of steps and have nets "
                f"of one shape and criterion; one has {own.plan.steps:,} steps and a "
                f"{type(net.module).__name__}, the first {plan.steps:,} and a "
                f"{type(prepared.module).__name__}. Fit them apart."
            )
        factors = schedule_factors(model.learning_rate_schedule, plan.steps)
        rates = net.learning_rates(plan.steps, max(1, plan.steps // model.max_epochs))
        found.append(replace(own, rates=[r * f for r, f in zip(rates, factors, strict=True)]))
    ManyOptimizers(torch.empty(0), [net.optimizer() for net in nets])
    return found


def _charge_all(charges: list[Charge], own: list[_Own]) -> None:
    """Charge every model, or none."""
    try:
        for charge, mine in zip(charges, own, strict=True):
            charge(mine.quote.privacy)
        kept = (charge.uncounted for charge in charges)
        uncounted = sum(one is not None and not one.is_void for one in kept)
        if uncounted > 1:
            warn_user(
                f"fit_many trains {uncounted} models without a ledger. Every person in "
                "the rows spends the total of all models. Pass ledger= to count them together.",
                PrivacyWarning,
            )
    except BaseException:  # no row has been used
        for charge in charges:
            charge.give_back()
        raise


def _train_all(run: Run, own: list[_Own]) -> None:
    """Take the steps of all models, of which `run` is the first."""
    releases = [run.release, *(run.release.beside(o.plan, o.noise) for o in own[1:])]
    nets = [mine.prepared for mine in own]
    vectors = torch.stack([net.flat.vector.detach() for net in nets])
    optimizer = ManyOptimizers(vectors, [run.prepared.optimizer()])
    shape = one_linear_layer(run.prepared.module).weight.shape  # type: ignore[union-attr]
    weights, biases = vectors.split([shape.numel(), shape[0]], dim=1)
    many = ManyReleases(
        releases,
        [mine.plan.segments[0] for mine in own],
        run.objective,
        weights.view(len(nets), *shape),
        biases,
    )
    rates = torch.tensor([mine.rates for mine in own], dtype=torch.float64).t()
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
