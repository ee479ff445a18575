"""Classifier with every point of the frontier between accuracy and a gap, by one private fit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from skfairdp.fairness.notions import DERIVED
from skfairdp.foundation.parameters import Choice, Number
from skfairdp.inprocessing.budgeted import ATTRIBUTE
from skfairdp.inprocessing.class_weights import refuse_threshold_of_several
from skfairdp.inprocessing.every_tolerance import OPEN
from skfairdp.inprocessing.fair_path.compared_rates import Rates
from skfairdp.inprocessing.fair_path.points import PathClassifier
from skfairdp.inprocessing.fair_path.tables import Tables, plan_in_public, plan_tables
from skfairdp.inprocessing.gradient import Run
from skfairdp.privacy.noise import NoiseSource
from skfairdp.privacy.plan import Plan
from skfairdp.privacy.sizes import Sizes, steps_for
from skfairdp.receipts import RowFacts
from skfairdp.records.groups import Groups
from skfairdp.records.labels import SECRET_PART

if TYPE_CHECKING:
    from torch import Tensor

    from skfairdp.engine.nets import PreparedNet
    from skfairdp.engine.objectives import Objective

MOST_CLASSES = 10


class FairPathClassifier(PathClassifier):
    """Optimal fair classifiers for all tolerances, from one private fit.

    Among classifiers that do not see the group, the most accurate one with a given gap between
    groups weighs two scores: how likely each label is, and what answering it costs in gaps, from
    how likely each group is. A net learns both, with private records; then small tables of counts
    are released, which say what every multiplier between the two scores does. All tolerances are
    read off these tables, at no further cost.

    Parameters
    ----------
    net : skorch.NeuralNet or None, default=None
        Module, criterion, optimizer, learning rate and device; its outputs are logits of the
        label and of the group. The criterion is BCEWithLogitsLoss for two classes, and
        CrossEntropyLoss for more. None is a linear net with Adam, which suits one-hot bins and
        scaled columns; where the sensitive features alone are protected, a perceptron adds to its
        logits of the label.
    notion : {"demographic_parity", "equal_opportunity", "equalized_odds", \
"accuracy_parity"}, default="demographic_parity"
        Which rates shall be alike in all groups: of two classes those of the second, of more
        those of each.
    tolerance : float, default=0.05
        Largest difference of rates among the training rows, in (0, 1).
    threshold : float, default=0.5
        Chance of the second of two classes, in (0, 1), above which it is predicted where there is
        no constraint: the cost of a false positive over that of both mistakes. A public number. The
        path then leads to the least cost for each tolerance; its accuracy stays the share of right
        answers.
    protects : {"record", "sensitive_features"}, default="record"
        The unit of protection. With "sensitive_features", features and labels are public
        and only who is in which group is protected: the label's score is learned without noise,
        that of the groups from one noisy table of sums over the last layer's features.
    path_share : float or "auto", default="auto"
        Share of the budget, in (0, 1), that the tables of the path get; "auto" is 0.2, of more
        than two classes 0.35, and 0.5 where the sensitive features alone are protected.
    max_grad_norm : float, default=2.0
        Largest L2 norm of one record's gradient, of all logits together.
    averaged_share : float, default=0.3
        Share of the steps, at the end, over which weights are averaged.
    batch_size : int or "auto", default="auto"
        Expected records in a batch; "auto" is ``min(2048, ceil(n / 8))``.
    dataset_size : int or None, default=None
        Declared number of records, for ``protects="record"``.
    groups : sequence or None, default=None
        The groups, two at least; rows of others contribute nothing. None takes them from the
        rows; the set is then public, and where the sensitive features alone are protected the
        tables get less noise, as all groups together are known.

    Attributes
    ----------
    classes_ : ndarray, shape (n_classes,)
        Class labels, 10 at most; of two the second is the positive one.
    groups_ : tuple
        All groups.
    decided_ : ndarray of float64, shape (n_groups, n_classes, n_classes)
        Released number of records of each group, label and answer at `start_`; at multiplier 1
        where the sensitive features alone are protected. Where records are, and there are more
        than two classes, pairs of label and answer that are equal for the notion, and are both
        right or both wrong, are counted in the first of them.
    direction_ : ndarray of float64, shape (n_groups, 2) or (n_groups, n_classes, n_classes)
        What selecting a person of each group and label costs in the score s of gaps; of more than
        two classes, what each answer costs. Known for two groups and one rate, found by dual
        ascent otherwise and where the sensitive features alone are protected.
    changed_ : ndarray of float64, shape (2, n_rates, n_groups, 127)
        Released prefix sums, for multipliers below `start_` and above it: how the successes of
        each rate change with the multiplier. Where the sensitive features alone are protected, for
        multipliers below 1 and above it, 8 each.
    improved_ : ndarray of float64, shape (2, 127)
        The same of right answers; without noise where features and labels are public.
    start_ : float
        Multiplier of the smallest gap, by a table that is used for nothing else, of more than
        two classes by those of the ascent too, and under equal opportunity of two classes and
        groups by a curve that is fitted to it and to three tables of decisions. Every tolerance
        is looked for between here and 0.
    multiplier_ : float
        The point in use; the rule is ``2 (eta - threshold) - multiplier_ * s > 0``, and of more
        than two classes the largest ``eta_k - multiplier_ * s_k``.
    kept_tolerance_ : float
        The gap among the training rows is at most this in nine fits of ten: `tolerance`, or a
        larger figure where no point is shown to keep to it; then the start is in use.

    Raises
    ------
    ValueError
        At fit, before anything is charged: no sensitive features, fewer than two groups, more
        than 10 classes, of more than two a declared one without rows, or another invalid
        parameter.

    Warns
    -----
    FairnessWarning
        No point is shown to keep to the tolerance; the start is used.

    Notes
    -----
    The tolerance speaks of the training rows. Where no warning says otherwise, it holds in nine
    fits of ten, if it was fixed before the path was looked at: see ``docs/theory/fair_path.md``.
    `certify` bounds the gap of new rows.
    The noise of tables of counts is exact, also without `exact_noise`.
    `predict_proba` states the chances of the labels; `predict` follows `decision_function`, which
    the tolerance adjusts.

    References
    ----------
    Menon and Williamson, "The cost of fairness in binary classification", FAT* 2018; Chen,
    Klochkov and Liu, "Post-hoc bias scoring is optimal for fair classification", ICLR 2024.

    Examples
    --------
    >>> from skfairdp import FairPathClassifier
    >>> from skfairdp.datasets import make_biased_gaussians
    >>> data = make_biased_gaussians(n_samples=5000, random_state=0)
    >>> model = FairPathClassifier(tolerance=0.3, epsilon=4.0)
    >>> _ = model.fit(data.data, data.target, sensitive_features=data.sensitive_features)
    >>> bool(model.privacy_.epsilon <= 4.0)
    True
    >>> model.at(0.25).privacy_.epsilon == model.privacy_.epsilon
    True
    """

    notion: str = "demographic_parity"
    tolerance: float = 0.05
    threshold: float = 0.5
    protects: str = "record"
    path_share: float | str = "auto"
    max_grad_norm: float = 2.0
    averaged_share: float = 0.3
    max_epochs: int = 40
    groups: Sequence[Any] | None = None
    learning_rate_schedule: Any = None

    _parameters = {
        "notion": (Choice(DERIVED),),
        "tolerance": (OPEN,),
        "threshold": (OPEN,),
        "protects": (Choice(("record", "sensitive_features")),),
        "path_share": (OPEN, Choice(("auto",))),
        "averaged_share": (Number(0.0, 1.0),),
    }

    _needs_groups = "rates are compared between groups"

    def _rates_among(self, n_classes: int) -> Rates:
        """Rates that a fit compares; names of classes are for a fitted path."""
        return Rates.of(self.notion, range(n_classes))

    def _n_logits(self, facts: RowFacts) -> int:
        assert facts.groups is not None
        return self._rates_among(facts.n_classes).n_logits(len(facts.groups.labels))

    @property
    def _takes_persons(self) -> bool:  # type: ignore[override]
        return self._protected is None  # which learns from all rows in public

    _in_parts = _takes_persons

    @property
    def _everybody_is_public(self) -> bool:
        # Of declared groups some row may be in none, which is private.
        return self._protected == ATTRIBUTE and self.groups is None

    @property
    def _protected(self) -> str | None:  # type: ignore[override]
        return ATTRIBUTE if self.protects == ATTRIBUTE else None

    def _default_of(self, name: str) -> Any:
        from skfairdp.engine.nets import default_net
        from skfairdp.inprocessing.fair_path.public_scores import Beside

        if self._protected:
            return default_net().set_params(module=Beside, module__hidden_sizes=(64, 64), lr=0.001)
        return default_net().set_params(module__hidden_sizes=(), lr=0.02)

    def _net(self, n_classes: int | None = None) -> Any:
        from torch import nn

        net = super()._net(n_classes)
        if self.net is None and self._protected and n_classes is not None and n_classes > 2:
            net.set_params(criterion=nn.CrossEntropyLoss, module__n_bent=n_classes)
        return net

    def _check_settings(self) -> None:
        super()._check_settings()
        if self._protected and self.dataset_size is not None:
            raise ValueError(
                "'dataset_size' has no meaning with protects='sensitive_features', where the "
                f"number of rows is public; got {self.dataset_size!r}."
            )

    def _check_net(self, prepared: PreparedNet, plan: Plan, row_shape: tuple[int, ...]) -> None:
        from torch import nn

        from skfairdp.inprocessing.fair_path.public_scores import refuse_other_heads

        criterion = prepared.criterion
        weighted = [getattr(criterion, n, None) is not None for n in ("weight", "pos_weight")]
        assert prepared.n_classes is not None
        needed = nn.BCEWithLogitsLoss if prepared.n_classes == 2 else nn.CrossEntropyLoss
        weighted.append(getattr(criterion, "label_smoothing", 0.0) != 0.0)
        if type(criterion) is not needed or any(weighted):
            raise ValueError(
                f"'net' has the criterion {type(criterion).__name__}; the scores need "
                f"{needed.__name__} without weights, as the chances of labels and groups are used."
            )
        self._refuse_noise_of_tables(plan.segments[1:])
        if self._protected:
            rates = self._rates_among(prepared.n_classes)
            refuse_other_heads(prepared.module, row_shape, rates)

    def _sizes(self, groups: Groups | None, n: int, noise: NoiseSource) -> Sizes:
        assert groups is not None
        if self._protected:
            return Sizes(groups.labels, (n,), "change-attribute")
        return super()._sizes(groups, n, noise)

    def _encoded(self, X: Any, y: Any) -> tuple[Any, np.ndarray | None, np.ndarray]:
        X, classes, labels = super()._encoded(X, y)
        declared = [] if self.classes is None else np.unique(np.asarray(self.classes)).tolist()
        if len(declared) > 2 and not SECRET_PART.get():
            found = np.unique(labels).tolist()
            without = [label for code, label in enumerate(declared) if code not in found]
            if without:
                raise ValueError(
                    f"'classes' declares {without[0]!r}, which no row of y holds, so its rates "
                    "cannot be compared: leave it out."
                )
        return X, classes, labels

    def _plan(self, sizes: Sizes, noise_multiplier: float) -> Plan:
        if sizes.n_classes > MOST_CLASSES:
            raise ValueError(
                f"y must hold at most {MOST_CLASSES} classes, whose rates are compared between "
                f"groups; got {sizes.n_classes}. Put rare ones together."
            )
        if self.threshold != 0.5:
            refuse_threshold_of_several(self.threshold, sizes.n_classes)
        rates = self._rates_among(sizes.n_classes)
        # Tables of several classes carry more noise.
        auto = 0.5 if self._protected else 0.2 if rates.n_answers == 2 else 0.35
        share = auto if self.path_share == "auto" else float(self.path_share)
        n, size = sizes.total, self._batch_size(sizes.total)
        if self._protected:
            steps = steps_for(self.max_epochs, n, size)
            first = plan_in_public(sizes, steps, size, noise_multiplier / math.sqrt(1.0 - share))
            overall = noise_multiplier / math.sqrt(share)
        else:
            clip = float(self.max_grad_norm)
            gradient = ("gradient", clip, noise_multiplier * clip)
            first = [sizes.batches(self.max_epochs, size, gradient)]
            overall = self._multiplier_of_tables(noise_multiplier, n, share)
        # Two groups, unless the rows name more.
        ascent = len(rates.names) > 1 or (sizes.n_groups or 2) > 2
        public = self._everybody_is_public
        tables = plan_tables(sizes, overall, rates, ascent=ascent, public=public)
        return sizes.plan(*first, *tables, delta=self.delta, exact_noise=self.exact_noise)

    def _objective(self, base: Objective, groups: Groups | None, classes: np.ndarray) -> Objective:
        from skfairdp.inprocessing.fair_path.scores import ScoresObjective

        assert groups is not None
        return ScoresObjective(self._rates_among(len(classes)), len(groups.labels))

    def _targets(self, labels: Tensor, groups: np.ndarray | None) -> tuple[Tensor, ...]:
        import torch

        assert groups is not None
        # Rows of no group are never drawn; any code will do.
        return labels, torch.from_numpy(groups).to(labels).clamp(min=0)

    def _train(self, run: Run) -> None:
        from skfairdp.inprocessing.fair_path.public_scores import learn_in_public
        from skfairdp.inprocessing.fair_path.scores import Chances

        training, *_ = run.plan.segments
        average = self._tail_average(run)
        module, n_groups, n_classes = run.prepared.module, run.n_groups, run.prepared.n_classes
        assert n_classes is not None
        rates = self._rates_among(n_classes)
        public = None
        if self._protected:
            public = learn_in_public(run, rates, n_groups, average)
        else:
            run.descend([training], after_step=average.after_step)
            average.restore()
        chances = Chances(module, rates, n_groups, float(self.threshold))
        public = public if self._everybody_is_public else None
        tables = Tables(run.release, chances, rates, self.notion, n_groups, public)
        unconstrained = tables.first()
        if public is not None or len(rates.names) > 1 or n_groups > 2:
            self.direction_ = tables.ascend(unconstrained, float(self.tolerance))
        else:
            self.direction_ = rates.direction(unconstrained.sum(axis=2))
        self.start_ = tables.start(self.direction_, unconstrained)
        # From here on with noise that neither direction nor start has seen.
        multipliers = tables.multipliers(self.start_)
        middle = float(multipliers[len(multipliers) // 2])
        self.decided_ = tables.decided(self.direction_, middle)
        self.changed_, self.improved_ = tables.along(self.direction_, multipliers)
        self._stand_at(self._path_of(run.plan, rates))
