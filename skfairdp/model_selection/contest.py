"""The candidates of a search against each other; only the best so far is ever kept."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skfairdp.exceptions import warn_user
from skfairdp.fairness.notions import get_notion
from skfairdp.model_selection.budget import SearchBudget
from skfairdp.model_selection.candidates import (
    check_steps,
    draw,
    final_of,
    groups_by_name,
    planner,
    told,
)
from skfairdp.model_selection.holding_out import Divided, Score, SearchRows, noisy_table, score_of
from skfairdp.privacy.noise import NoiseSource


@dataclass(frozen=True, eq=False)
class Best:
    """The candidate that won, and what it won by."""

    score: Score
    gap: float | None
    model: Any
    parameters: dict[str, Any]
    table: NDArray[np.int64]


def best_of(
    search: Any,
    budget: SearchBudget | None,
    price: float,
    n_runs: int,
    parts: Divided,
    noise: NoiseSource,
    prior: np.random.Generator,
) -> Best:
    """Run candidates of a `PrivateSearchCV` that are drawn from the prior.

    `budget`: none for a search without noise. `price`: of one table of held-out counts, in nats.
    """
    best: Best | None = None
    said: list[warnings.WarningMessage] = []
    asked: dict[str, Any] = {"objective": search._objective, "notion": get_notion(search.notion)}
    for _ in range(n_runs):
        parameters = draw(search.param_distributions, prior)
        # A warning for each candidate would count them: those of the winner are passed on.
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            model = trained(search, budget, parameters, parts.training, prior)
            with_scores = asked["objective"] == "auc"
            table = noisy_table(model, parts.held_out, price, noise, with_scores=with_scores)
        check_steps(model)
        classes = final_of(model).classes_
        score, gap = score_of(table, classes=classes, tolerance=search.tolerance, **asked)
        # Of equal scores the first stays, as likely any of them as any other.
        if best is None or score > best.score:
            best, said = Best(score, gap, model, parameters, table), heard
    assert best is not None
    for warning in said:
        warn_user(warning.message, warning.category)
    return best


def trained(
    search: Any,
    budget: SearchBudget | None,
    parameters: Mapping[str, Any],
    rows: SearchRows,
    prior: np.random.Generator,
) -> Any:
    """Train one candidate at its share of the budget."""
    settings: dict[str, Any] = {"delta": search.delta}
    if search.reproducible_noise:
        settings |= {"reproducible_noise": True, "random_state": int(prior.integers(2**31))}
    if budget is None:
        settings["epsilon"] = math.inf
    else:
        final = final_of(told(search.estimator, parameters, delta=search.delta))
        multiplier = budget.multiplier_for(planner(final, rows))
        settings |= {"epsilon": None, "noise_multiplier": multiplier}
    model = told(search.estimator, parameters, **settings)
    # A copy: what a step writes into its rows must not reach the next candidate.
    own = deepcopy(rows.X)
    return model.fit(own, rows.y, **groups_by_name(model, rows.sensitive_features))
