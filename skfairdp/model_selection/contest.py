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
from skfairdp.fairness.notions import Notion
from skfairdp.model_selection.budget import SearchBudget
from skfairdp.model_selection.candidates import (
    check_steps,
    draw,
    final_of,
    groups_by_name,
    planner,
    told,
)
from skfairdp.model_selection.holding_out import Divided, SearchRows
from skfairdp.model_selection.scoring import Score, noisy_table, score_of
from skfairdp.privacy.noise import NoiseSource


@dataclass(frozen=True, eq=False)
class Best:
    """The candidate that won, and what it won by."""

    score: Score
    gap: float | None
    model: Any
    parameters: dict[str, Any]
    table: NDArray[np.int64]


@dataclass(frozen=True, eq=False, kw_only=True)
class Contest:
    """Train candidates and score them, each at its share of the budget."""

    estimator: Any
    distributions: Any
    settings: Mapping[str, Any]  # alike for all candidates
    budget: SearchBudget | None  # None for a search without noise
    price: float  # of one table of held-out counts, in nats
    objective: str
    notion: Notion
    tolerance: float | None
    reproducible: bool  # whether a candidate's own noise is seeded, in a test

    def best_of(
        self, n_runs: int, parts: Divided, noise: NoiseSource, prior: np.random.Generator
    ) -> Best:
        """Run candidates that are drawn from the prior."""
        best: Best | None = None
        said: list[warnings.WarningMessage] = []
        for _ in range(n_runs):
            parameters = draw(self.distributions, prior)
            # A warning for each candidate would count them: those of the winner are passed on.
            with warnings.catch_warnings(record=True) as heard:
                warnings.simplefilter("always")
                model = self._trained(parameters, parts.training, prior)
                with_scores = self.objective == "auc"
                table = noisy_table(
                    model, parts.held_out, self.price, noise, with_scores=with_scores
                )
            check_steps(model)
            score, gap = score_of(
                table,
                objective=self.objective,
                notion=self.notion,
                classes=final_of(model).classes_,
                tolerance=self.tolerance,
            )
            # Of equal scores the first stays, as likely any of them as any other.
            if best is None or score > best.score:
                best, said = Best(score, gap, model, parameters, table), heard
        assert best is not None
        for warning in said:
            warn_user(warning.message, warning.category)
        return best

    def _trained(
        self, parameters: Mapping[str, Any], rows: SearchRows, prior: np.random.Generator
    ) -> Any:
        settings: dict[str, Any] = {**self.settings}
        if self.reproducible:
            settings |= {"reproducible_noise": True, "random_state": int(prior.integers(2**31))}
        if self.budget is None:
            settings["epsilon"] = math.inf
        else:
            final = final_of(told(self.estimator, parameters, **self.settings))
            multiplier = self.budget.multiplier_for(planner(final, rows))
            settings |= {"epsilon": None, "noise_multiplier": multiplier}
        model = told(self.estimator, parameters, **settings)
        # A copy: what a step writes into its rows must not reach the next candidate.
        own = deepcopy(rows.X)
        return model.fit(own, rows.y, **groups_by_name(model, rows.sensitive_features))
