"""Costs of mistakes that differ by class, as public numbers."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from skfairdp.foundation.parameters import MAPPING, POSITIVE, Choice, Number
from skfairdp.inprocessing.cost_thresholds import (
    StatedCosts,
    counted_scores,
    refuse_costs,
    with_table,
)
from skfairdp.inprocessing.gradient import NONE, GradientClassifier, Run
from skfairdp.privacy.plan import Plan
from skfairdp.privacy.sizes import Sizes
from skfairdp.records.groups import Groups

if TYPE_CHECKING:
    from torch import Tensor

    from skfairdp.engine.objectives import Objective

_BALANCED = "balanced"


def refuse_threshold_of_several(threshold: float, n_classes: int) -> None:
    """Refuse a threshold between two classes where there are more."""
    if n_classes > 2 and threshold != 0.5:
        raise ValueError(
            f"'threshold' has a meaning for two classes alone; got {threshold!r} and "
            f"{n_classes} classes. Leave it out, or put classes together."
        )


class CostSensitive(GradientClassifier):
    """Template of a classifier that takes costs of mistakes, in training or for its threshold.

    Parameters
    ----------
    class_weight : mapping of class to positive number, or None, default=None
        What a mistake about a record of each class costs, which multiplies its loss; ratios alone
        count, as the largest is made 1. Each gradient is clipped after that, so that the privacy
        guarantee is the same. They are public: declare them, and do not compute them from the rows
        ("balanced" would).
    costs : mapping of class to positive number, or None, default=None
        What a wrong answer about a record of each of two classes costs. Training stays as it is;
        the second class is predicted where its chance is above ``threshold_``. Public numbers:
        declare them. None predicts the likelier class.
    threshold_share : float, default=0.1
        With `costs`: share of the budget, in [0, 1), for a noisy table of scores by label, which
        shows where another threshold costs less than the one that is right for exact chances. 0
        buys none, and takes that one.

    Attributes
    ----------
    threshold_ : float
        With `costs`: chance of the second class above which it is predicted. If a table was bought:
        with a probability of 95 % over its noise, it costs the training records (of a person's
        rows one counts) no more than the threshold that is right for exact chances.
    score_counts_ : ndarray of float64, shape (34, 2)
        With `costs`, if bought: noisy number of records between two neighbouring thresholds of
        ``threshold_table_``, the lowest scores first, by class.
    threshold_table_ : DataFrame of shape (33, 4)
        With `costs`, if bought: for each of 33 public ``threshold`` values the noisy ``cost`` of a
        record, in units of the larger cost; its ``change`` from the middle one, which is right for
        exact chances; and a ``margin``. With a probability of 95 % over the noise, the true changes
        among the training records are within the margins of the noisy ones, all at once.
    """

    class_weight: Mapping[Hashable, float] | None = None
    costs: Mapping[Hashable, float] | None = None
    threshold_share: float = 0.1

    _parameters = {
        "class_weight": (MAPPING, NONE, Choice((_BALANCED,))),
        "costs": (MAPPING, NONE),
        "threshold_share": (Number(0.0, 1.0, high_open=True),),
    }

    threshold_: float = field(init=False)
    score_counts_: np.ndarray = field(init=False)

    def _check_settings(self) -> None:
        super()._check_settings()
        if self.costs is not None:
            refuse_costs(self.costs)
        given: Any = self.class_weight
        if given == _BALANCED:
            raise ValueError(
                "class_weight='balanced' would use the sizes of the classes, which are private. "
                "Declare weights from what is known publicly, such as {0: 1, 1: 5}."
            )
        weights = {} if given is None else dict(given)
        wrong = {label: weight for label, weight in weights.items() if not POSITIVE.accepts(weight)}
        if wrong:
            raise ValueError(
                f"'class_weight' must map classes to {POSITIVE.describe()}; got {wrong!r}."
            )

    def _plan(self, sizes: Sizes, noise_multiplier: float) -> Plan:
        clip = float(self.max_grad_norm)
        plan = self._plan_sums(sizes, ("gradient", clip, noise_multiplier * clip))
        return plan if self.costs is None else with_table(plan, sizes, float(self.threshold_share))

    def _objective(self, base: Objective, groups: Groups | None, classes: Any) -> Objective:
        from skfairdp.engine.objectives import WeightedObjective

        objective = super()._objective(base, groups, classes)
        labels = classes.tolist()
        if self.costs is not None and set(self.costs) != set(labels):
            raise ValueError(
                f"'costs' must have one cost for each class, {labels!r}; got costs for "
                f"{list(self.costs)!r}."
            )
        if self.class_weight is None:
            return objective
        weights = dict(self.class_weight)
        if set(weights) != set(labels):
            raise ValueError(
                f"'class_weight' must have one weight for each class, {labels!r}; got weights for "
                f"{list(weights)!r}."
            )
        largest = max(weights.values())
        return WeightedObjective(objective, [float(weights[one] / largest) for one in labels])

    def _choose_threshold(self, run: Run) -> None:
        """Take the threshold for the stated costs, by the table of scores if there is one."""
        assert run.classes is not None
        costs = self._stated_costs(run.classes)
        self.threshold_ = costs.middle
        if self.threshold_share > 0.0:
            self.score_counts_ = counted_scores(run.release, costs, partial(self._asked, run))
            self.threshold_ = costs.chosen(costs.table(self.score_counts_, run.plan))
            run.progress.advance()

    def _asked(self, run: Run, X: Tensor) -> np.ndarray:
        """Chance of the second class of each row (n,), as `predict_proba` has it."""
        from skfairdp.engine.inference import outputs_by_row

        outputs = outputs_by_row(run.prepared.module, X)
        return run.scores(outputs.reshape(len(X), -1))[:, 1].double().cpu().numpy()

    def _stated_costs(self, classes: np.ndarray) -> StatedCosts:
        assert self.costs is not None
        return StatedCosts.of(self.costs, self.class_weight or {}, classes.tolist())

    @property
    def threshold_table_(self) -> pd.DataFrame:
        """Noisy costs of all thresholds; see the class."""
        check_is_fitted(self)
        if "score_counts_" not in vars(self):
            raise AttributeError(
                "This model has no table of scores: set 'costs', with a 'threshold_share' above "
                "0, and fit again."
            )
        return self._stated_costs(self.classes_).table(self.score_counts_, self.plan_)
