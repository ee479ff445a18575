"""What a run tells a mechanism about its plan and its outputs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from skfairdp import DPSGDClassifier
from skfairdp.engine.objectives import BinaryObjective
from skfairdp.engine.run import Run, schedule_factors
from skfairdp.privacy.sizes import Sizes

GROUPS = Sizes(("a", "b"), (300, 77), "add-remove")


def run_of(plan: Any) -> Run:
    unused: Any = None
    return Run(plan, unused, BinaryObjective(), *[unused] * 4, 1, 2)


@pytest.mark.parametrize(
    ("segment", "sizes"),
    [
        (GROUPS.batches(3, 50, ("gradient", 1.0, 1.0)), (300, 77)),
        (GROUPS.whole(("histogram", 1.0, 1.0)), (300, 77)),
        (Sizes.of_all(377, None).batches(3, 50, ("gradient", 1.0, 1.0)), (377,)),
    ],
    ids=["batches", "whole", "one cell"],
)
def test_sizes_of_cells_are_those_that_the_plan_was_made_for(segment: Any, sizes: Any) -> None:
    found = run_of(SimpleNamespace(segments=(segment,))).cell_sizes
    np.testing.assert_allclose(found, sizes, rtol=1e-12)


def test_decisions_are_codes_of_classes_whatever_the_number_of_logits() -> None:
    output = torch.tensor([[-1.0], [2.0], [0.0]])
    decided = run_of(None).decisions(output)
    assert decided.dtype == torch.long
    assert decided.tolist() == [0, 1, 0]
    assert run_of(None).scores(output).argmax(dim=1).tolist() == [0, 1, 0]


def test_an_objective_knows_the_labels_of_the_groups_and_no_code_of_a_row() -> None:
    seen = []

    class Looking(DPSGDClassifier):
        def _objective(self, base: Any, groups: Any, classes: Any) -> Any:
            seen.append(groups)
            return super()._objective(base, groups, classes)

    rng = np.random.default_rng(0)
    X, codes = rng.normal(size=(40, 2)), np.arange(40) % 2
    Looking(max_epochs=1, delta=1e-3).fit(X, codes, sensitive_features=np.array(["a", "b"])[codes])
    assert [(groups.labels, len(groups.codes)) for groups in seen] == [(("a", "b"), 0)]


def test_pairs_set_the_factor_from_a_fraction_on_in_any_order():
    assert schedule_factors([(0.5, 0.1), (0, 2)], 4) == [2.0, 2.0, 0.1, 0.1]


@pytest.mark.parametrize(
    "bad", ["fast", 3, [1, 2], [(0.5,)], [(2, 1)], [(0, 0)], [("a", 1)], [(0, float("nan"))]]
)
def test_other_schedules_are_refused_with_what_is_allowed(bad):
    with pytest.raises(ValueError, match="learning_rate_schedule.*sequence of pairs"):
        schedule_factors(bad, 4)
