"""Base class of mechanisms that train by noisy clipped gradients."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logit

from skfairdp.base.fitted_state import processes_of_torch
from skfairdp.engine.run import (
    Progress,
    ReadRows,
    ReadyNet,
    Run,
    Training,
    joined,
    refuse_idle_optimizer,
    rows_of,
    schedule_factors,
    watched,
)
from skfairdp.foundation.parameters import (
    COUNT,
    NONE,
    NORM,
    SEQUENCE,
    Choice,
    Number,
    check_parameters,
)
from skfairdp.inprocessing.budgeted import ATTRIBUTE, BudgetedClassifier, BudgetedPredictor
from skfairdp.privacy.guarantee import PrivacyGuarantee
from skfairdp.privacy.noise import NoiseSource
from skfairdp.privacy.plan import CountRelease, Plan
from skfairdp.privacy.sizes import Sizes, expected_batch_size
from skfairdp.receipts import Charge, Quote, Receipt, RowFacts
from skfairdp.receipts.receipt import bind_each
from skfairdp.records import Given
from skfairdp.records.facts import records_of
from skfairdp.records.groups import Groups, groups_of_training, of_known_labels
from skfairdp.records.persons import refuse_several_processes
from skfairdp.records.stored_rows import held_and_stored, in_chunks

if TYPE_CHECKING:
    import torch
    from torch import nn

    from skfairdp.engine.nets import PreparedNet
    from skfairdp.engine.objectives import Objective
    from skfairdp.engine.processes import Processes


class GradientPredictor(BudgetedPredictor):
    """Template of an estimator trained by noisy clipped gradients.

    A mechanism says how sizes become cells (`_sizes`: all records are one), what its plan looks
    like for a noise multiplier (`_plan`: noisy mean gradients in passes over all records) and what
    it does with the releases (`_train`: takes the net's steps). Classifiers and regressors differ
    in what they read of the targets (`_encoded`) and leave after a fit (`_keep`).

    Parameters
    ----------
    net : skorch.NeuralNet or None
        Module, criterion, optimizer, learning rate and device. None is a
        multilayer perceptron with Adam, see `skfairdp.default_net`.
    noise_multiplier : float or None
        Noise standard deviation over `max_grad_norm`, instead of `epsilon`.
    max_grad_norm : float
        Largest L2 norm of one record's gradient: of a row's, or of the mean over a person's rows.
    max_rows_per_person : int
        With `person_ids`: most rows of a person in a batch; of more, this number is
        chosen anew at each draw. A public number.
    batch_size : int or "auto"
        Expected records (rows, or persons) in a batch; "auto" is ``min(256, ceil(n / 10))``.
    max_epochs : int
        Passes over the data, each of ``ceil(n / batch_size)`` steps.
    learning_rate_schedule : None, "linear", "cosine" or sequence of pairs
        Factor on the learning rate over the steps; pairs are (fraction of steps,
        factor).
    random_state : int, RandomState or None
        Seeds the initial weights; never noise or batches.
    distributed : "auto" or None
        With "auto", processes of an initialised group of torch.distributed train one model: each
        calls `fit` with its own rows, and sizes count the rows of all. None trains on the
        rows of this process alone, as where there is no such group.

    Attributes
    ----------
    module_ : torch.nn.Module
        The trained network.
    """

    net: Any = field(default=None, kw_only=False)
    max_grad_norm: float = 1.0
    batch_size: int | str = "auto"
    max_epochs: int = 20
    learning_rate_schedule: Any = "linear"
    max_rows_per_person: int = 8
    exact_noise: bool = True
    progress: bool | None = None
    distributed: str | None = "auto"

    _takes_persons = True
    _auto_batch: ClassVar[tuple[int, int]] = (256, 10)  # min(256, ceil(n / 10))
    _with_gradients: ClassVar[slice] = slice(None)  # Segments that gradients are released from
    _parameters = {
        "max_grad_norm": (NORM,),
        "batch_size": (COUNT, Choice(("auto",))),
        "max_epochs": (COUNT,),
        "max_rows_per_person": (Number(1, 4096, integer=True),),
        "learning_rate_schedule": (Choice(("linear", "cosine")), SEQUENCE, NONE),
        "distributed": (Choice(("auto",)), NONE),
    }

    link_: str = field(init=False)
    module_: nn.Module = field(init=False)

    def _plan(self, sizes: Sizes, noise_multiplier: float) -> Plan:
        clip = float(self.max_grad_norm)
        return self._plan_sums(sizes, ("gradient", clip, noise_multiplier * clip))

    def _plan_sums(
        self, sizes: Sizes, *sums: tuple[str, float, float], counts: tuple[CountRelease, ...] = ()
    ) -> Plan:
        """Plan sums of each batch, and further tables; `sums` as of `Sizes.batches`."""
        segment = sizes.batches(self.max_epochs, self._batch_size(sizes.total), *sums)
        return sizes.plan(segment, counts=counts, delta=self.delta, exact_noise=self.exact_noise)

    def _batch_size(self, n: int) -> int:
        return expected_batch_size(self.batch_size, n, *self._auto_batch)

    def _default_of(self, name: str) -> Any:
        from skfairdp.engine.nets import default_net  # torch only where a net is used

        return default_net()

    def _train(self, run: Run) -> None:
        self._descend(run)

    def _descend(self, run: Run) -> None:
        """Take all steps."""
        run.descend()

    def _n_logits(self, facts: RowFacts) -> int | None:
        """Outputs of a net, where they are not those of the classes."""
        return None

    def _rows_beside(self, n: int) -> int:
        """Number of public rows that may join the batch of a step."""
        return 0

    def _net(self, n_classes: int | None = None) -> Any:
        """Net of a fit on rows of this number of classes; None for numbers, or any."""
        return self._default_of("net") if self.net is None else self.net

    def _encoded(self, X: Any, y: Any) -> tuple[Any, np.ndarray | None, np.ndarray]:
        """Checked rows, the classes, and a code of each label; None and numbers for a regressor."""
        raise NotImplementedError

    def _keep(self, classes: np.ndarray | None, run: Run) -> None:
        """Store attributes about the targets, from public or released values."""
        raise NotImplementedError

    def _objective(self, base: Objective, groups: Groups | None, classes: Any) -> Objective:
        """Loss of each record, from the output and what `_targets` gives.

        Of `groups` the labels are known here, and no code of a row.
        What a mechanism changes about it while it trains follows from released values.
        """
        return base

    def _targets(self, labels: torch.Tensor, groups: np.ndarray | None) -> tuple[torch.Tensor, ...]:
        """Targets of the objective and of statistics: the labels first."""
        return (labels,)

    def _cells(self, plan: Plan, groups: Groups | None) -> np.ndarray | None:
        """Cell of each row, negative for one that contributes nothing; None: all in one."""
        if groups is None or plan.cells == groups.labels:
            return None if groups is None else groups.codes
        return np.minimum(groups.codes, 0).astype(np.int8)

    def _encode_groups(self, sensitive_features: Any, n: int) -> Groups | None:
        if sensitive_features is None:
            return None
        return groups_of_training(sensitive_features, n)

    def _check_net(self, prepared: PreparedNet, plan: Plan, row_shape: tuple[int, ...]) -> None:
        """Check the mechanism's own requirements for its net, before anything is charged."""

    def _fit(self, given: Given, charge: Charge) -> Receipt:
        from skfairdp.engine.processes import Processes

        several = self.distributed is not None and processes_of_torch() > 1
        with Processes() if several else nullcontext() as processes:
            check_parameters(self, self._parameters)
            self._check_settings()
            read = self._read(given, processes, charge)
            quote = self._settled(read.facts, read.noise, charge, processes)
            prepared = self._prepare(quote, read.row_shape, read.classes, read.seed)
            training = self._made_ready(prepared, quote, read, processes)
            named = None if read.groups is None else read.groups.labels
            del read  # labels and groups are as large as what was made of them
            charge(training.stated)  # before a row reaches the engine
            stated = self._trained(training)
        return Receipt(replace(quote, privacy=stated), named)

    def _read(self, given: Given, processes: Processes | None, charge: Charge) -> ReadRows:
        """Check and encode rows, labels, groups and persons; agree on them with other processes."""
        X, classes, labels = self._encoded(given.X, given.y)
        groups = self._encode_groups(given.sensitive_features, len(X))
        persons = given.persons(len(X), int(self.max_rows_per_person))
        if self._protected == ATTRIBUTE:
            X, labels, groups = of_known_labels(X, labels, groups)
        n = len(X)
        if processes is not None:
            refuse_several_processes(persons)
            if not processes.leads:
                charge.nothing_here()
            n, groups = joined(self, processes, X, classes, groups)
        shape, unit = tuple(X.shape[1:]), self._protected or given.unit
        n_classes = 2 if classes is None else len(classes)
        numbers = {"n_features": math.prod(shape), "n_classes": n_classes}
        facts = RowFacts.of(n, groups, persons, unit=unit, **numbers)
        _, most = records_of(persons, n)
        held, stored = held_and_stored(X)
        seed, noise = self._randomness()
        if processes is not None:
            seed = processes.first(seed)
            if noise.reproducible:  # another stream of batches in each process
                noise = NoiseSource(seed + processes.rank * 2**32)
        return ReadRows(
            held, stored, shape, labels, groups, persons, most, classes, facts, seed, noise
        )

    def _prepare(
        self, quote: Quote, row_shape: tuple[int, ...], classes: np.ndarray | None, seed: int
    ) -> ReadyNet:
        """Make the net of a fit, and refuse one that the plan or the mechanism cannot use.

        No row is needed: what is refused here is refused before anything is charged. `row_shape`:
        of one row. `classes`: None for a regressor. `seed`: of the initial weights.
        """
        from skfairdp.engine.inspection import refuse_unstable_rows, refuse_wrong_outputs
        from skfairdp.engine.nets import link_of, prepare_net
        from skfairdp.engine.optimizers import copy_module

        assert quote.plan is not None
        assert quote.facts is not None
        n_logits = self._n_logits(quote.facts)
        n_classes = None if classes is None else len(classes)
        prepared = prepare_net(
            self._net(n_classes),
            n_features=int(np.prod(row_shape)),
            n_classes=n_classes,
            seed=seed,
            n_logits=n_logits,
        )
        # State that rows leave on a module in addition to its weights is not released.
        released = copy_module(prepared.module)
        refuse_unstable_rows(prepared.module, row_shape)
        link = link_of(prepared.criterion, of_numbers=classes is None)
        refuse_idle_optimizer(prepared)
        refuse_wrong_outputs(prepared.module, row_shape, n_classes, link, n_logits)
        quote.plan.check_exact_noise(prepared.flat.vector.numel())
        self._check_net(prepared, quote.plan, row_shape)
        return ReadyNet(prepared, released, link)

    def _try_out(
        self, quote: Quote, row_shape: tuple[int, ...], classes: np.ndarray | None
    ) -> None:
        self._prepare(quote, row_shape, classes, 0)

    def _made_ready(
        self, ready: ReadyNet, quote: Quote, read: ReadRows, processes: Processes | None
    ) -> Training:
        """Bring net and rows together, and rehearse on made-up rows; no entry of a row is used."""
        from skfairdp.engine.clipping.clippers import make_clipper
        from skfairdp.engine.inspection import refuse_rows_it_cannot_take
        from skfairdp.engine.objectives import objective_for
        from skfairdp.engine.randomness import own_draws
        from skfairdp.engine.rehearsal import rehearse

        plan, prepared, groups = quote.plan, ready.prepared, read.groups
        assert plan is not None
        module, n = prepared.module, read.facts.n
        cells, beside = self._cells(plan, groups), self._rows_beside(n)
        rows = rows_of(read, cells, module, ready.link)
        refuse_rows_it_cannot_take(module, rows.parts)
        draws = own_draws(module, read.row_shape, read.noise)
        objective = objective_for(prepared.criterion)
        of_groups = None if groups is None else groups.codes
        rows = replace(rows, targets=self._targets(rows.targets[0], of_groups))
        if groups is not None:  # codes are in the targets, or the cells
            groups = replace(groups, codes=groups.codes[:0].copy())
        objective = self._objective(objective, groups, read.classes)
        clipper = make_clipper(module, prepared.flat, objective)
        own = plan.segments[self._with_gradients]
        seen = rehearse(module, clipper, rows.X, rows.targets, plan, read.most, n, beside, own)
        epoch = max(1, plan.steps // self.max_epochs)
        factors = schedule_factors(self.learning_rate_schedule, plan.steps)
        rates = prepared.learning_rates(plan.steps, epoch)
        rates = [r * f for r, f in zip(rates, factors, strict=True)]
        stated = quote.privacy
        if processes is not None:
            processes.agree(bind_each({"plan": repr(plan), "state": ready.released}))
            also = watched(processes, rows, prepared.flat.vector, epoch)
            stated = stated and stated.assuming(also)
        return Training(
            plan=plan,
            ready=ready,
            rows=rows,
            classes=read.classes,
            n_groups=1 if groups is None else len(groups.labels),
            objective=objective,
            clipper=clipper,
            noise=read.noise,
            draws=draws,
            learning_rates=rates,
            steps_per_epoch=epoch,
            stated=stated,
            arithmetic=seen,
            processes=processes,
        )

    def _trained(
        self, training: Training, train: Callable[[Run], None] | None = None
    ) -> PrivacyGuarantee | None:
        """Train on the noisy sums that the plan allows, and keep the net.

        `train`: in place of `_train`, for models that are trained together. Result: what is
        promised about it.
        """
        from skfairdp.engine.optimizers import copy_parameters
        from skfairdp.engine.release import NoisyRelease

        plan, ready, processes = training.plan, training.ready, training.processes
        own = plan.segments[self._with_gradients]
        given = training.rows, plan, training.clipper, training.noise, processes
        shown = self.progress if processes is None or processes.leads else False
        progress = Progress(plan.steps, shown, type(self).__name__)
        try:
            release = NoisyRelease(*given, own)
            run = Run(
                plan=plan,
                prepared=ready.prepared,
                objective=training.objective,
                release=release,
                noise=training.noise,
                learning_rates=training.learning_rates,
                progress=progress,
                steps_per_epoch=training.steps_per_epoch,
                n_groups=training.n_groups,
                classes=training.classes,
            )
            with training.draws:
                (train or self._train)(run)
        finally:
            progress.close()
        if processes is not None:
            processes.compare()
        copy_parameters(ready.prepared.module, ready.released)
        release.meter.finish()
        stated = training.stated and training.stated.assuming(training.arithmetic)
        self.module_ = ready.released.eval()
        self.link_ = ready.link
        self._keep(training.classes, run)
        return stated


class GradientClassifier(GradientPredictor, BudgetedClassifier):
    """Template of a classifier trained by noisy clipped gradients."""

    def _encoded(self, X: Any, y: Any) -> tuple[Any, np.ndarray | None, np.ndarray]:
        return self._rows_of_fit(X, y, self.classes)

    def _keep(self, classes: np.ndarray | None, run: Run) -> None:
        assert classes is not None
        self.classes_ = classes

    def decision_function(self, X: ArrayLike) -> np.ndarray:
        proba = self.predict_proba(X)
        tiny = np.finfo(np.float64).tiny
        logs = np.log(proba.clip(min=tiny))
        if len(self.classes_) > 2:
            return logs
        threshold = vars(self).get("threshold_")  # of a fit with costs
        odds = logs[:, 1] - logs[:, 0]
        return odds if threshold is None else odds - logit(threshold)

    @in_chunks
    def predict_proba(self, X: ArrayLike) -> np.ndarray:
        from skfairdp.engine.inference import outputs, probabilities

        X = self._features(X)
        return probabilities(outputs(self.module_, X), self.link_)

    def predict(self, X: ArrayLike) -> np.ndarray:
        proba, threshold = self.predict_proba(X), vars(self).get("threshold_")
        best = proba.argmax(axis=1) if threshold is None else (proba[:, 1] > threshold).astype(int)
        return self.classes_[best]

    @property
    def _decides_by_parameters(self) -> bool:
        # A class that answers by its own methods is another model.
        methods = ("predict_proba", "predict")
        return all(getattr(type(self), m) is getattr(GradientClassifier, m) for m in methods)
