"""Costs of mistakes that differ by class, as public numbers."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Any

from skfairdp.foundation.parameters import MAPPING, POSITIVE, Choice
from skfairdp.inprocessing.gradient import NONE, GradientClassifier
from skfairdp.records.groups import Groups

if TYPE_CHECKING:
    from skfairdp.engine.objectives import Objective

_BALANCED = "balanced"


def refuse_threshold_of_several(threshold: float, n_classes: int) -> None:
    """Refuse a threshold between two classes where there are more."""
    if n_classes > 2 and threshold != 0.5:
        raise ValueError(
            f"'threshold' has a meaning for two classes alone; got {threshold!r} and "
            f"{n_classes} classes. Leave it out, or put classes together."
        )


class ClassWeighted(GradientClassifier):
    """Template of a classifier whose loss may weigh classes by public numbers.

    Parameters
    ----------
    class_weight : mapping of class to positive number, or None, default=None
        What a mistake about a record of each class costs, which multiplies its loss; ratios alone
        count, as the largest is made 1. Each gradient is clipped after that, so that the privacy
        guarantee is the same. They are public: declare them, and do not compute them from the rows
        ("balanced" would).
    """

    class_weight: Mapping[Hashable, float] | None = None

    _parameters = {"class_weight": (MAPPING, NONE, Choice((_BALANCED,)))}

    def _check_settings(self) -> None:
        super()._check_settings()
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

    def _objective(self, base: Objective, groups: Groups | None, classes: Any) -> Objective:
        from skfairdp.engine.objectives import WeightedObjective

        objective = super()._objective(base, groups, classes)
        if self.class_weight is None:
            return objective
        labels = classes.tolist()
        weights = dict(self.class_weight)
        if set(weights) != set(labels):
            raise ValueError(
                f"'class_weight' must have one weight for each class, {labels!r}; got weights for "
                f"{list(weights)!r}."
            )
        largest = max(weights.values())
        return WeightedObjective(objective, [float(weights[one] / largest) for one in labels])
