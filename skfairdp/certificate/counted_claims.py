"""Claims about differences between groups, from tables of counted answers."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skfairdp.certificate.evaluation_settings import EvaluationSettings
from skfairdp.certificate.group_rates import LEVEL
from skfairdp.fairness.bounds.noisy_counts import (
    NoisyCells,
    noisy_gap_estimate,
    private_gap_upper_bound,
    private_rate_intervals,
)
from skfairdp.fairness.bounds.rate_gaps import gap_estimate, gap_upper_bound
from skfairdp.fairness.bounds.stored_numbers import TESTS, TESTS_OF_MEANS
from skfairdp.fairness.derivation import Derivation
from skfairdp.fairness.guarantee import FairnessGuarantee, cell_counts
from skfairdp.fairness.kinds import EXACT, HOEFFDING, KINDS, NOISY_COUNTS
from skfairdp.fairness.notions import Notion, Stratum, stack
from skfairdp.fairness.number_notions import NumberNotion
from skfairdp.fairness.scopes import AVERAGED, DEPLOYED

Rates = tuple[Notion, Sequence[Stratum]]  # those of a notion, as masks of a table


def noisy_cells(strata: Sequence[Stratum], table: NDArray, noises: int = 1) -> NoisyCells:
    """Cells of noisy counts of shape (n_groups, n_labels, n_classes), their sizes private.

    `noises`: how many draws of noise each count holds.
    """
    terms = noises * np.array([(s.successes.sum(), s.failures.sum()) for s in strata])
    return NoisyCells(*stack(strata, table), terms[:, 0], terms[:, 1])


@dataclass(frozen=True, eq=False)
class Basis:
    """Common basis of claims from the same counts."""

    settings: EvaluationSettings
    labels: tuple[Hashable, ...]  # of the groups
    rests_on: tuple[str, ...]

    def claim(
        self,
        notion: Notion | NumberNotion,
        scope: str,
        kind: str,
        claimed: dict[str, Any],
        **inputs: Any,
    ) -> FairnessGuarantee:
        """Make a claim of a scope, with a bound of a kind.

        `claimed`: the fields of the claim that depend on counts; `inputs` to the bound, in addition
        to the counts.
        """
        method = (
            KINDS[kind]
            .methods[scope]
            .format(
                cell_sizes=self.settings.cell_sizes,
                test=TESTS[self.settings.bound],
                test_of_means=TESTS_OF_MEANS[self.settings.bound],
            )
        )
        common: dict[str, Any] = {
            "groups": self.labels,
            "assumptions": self.rests_on,
            "derivation": Derivation.of(kind, claims=self.settings.claims, **inputs),
        }
        return FairnessGuarantee(
            notion=notion.name,
            words=notion.words,
            scope=scope,
            method=method,
            confidence_level=self.settings.confidence_level,
            **common | claimed,
        )


def exact_claim(rates: Rates, table: NDArray, basis: Basis) -> FairnessGuarantee:
    """Make a claim from counts without noise, or from sums of probabilities."""
    (notion, strata), settings = rates, basis.settings
    level = settings.level_of_one_claim
    hits, misses = stack(strata, table)
    rows = hits + misses
    averaged = table.dtype.kind == "f"
    bound: Any = "difference" if averaged else settings.bound
    value = gap_upper_bound(hits, rows, confidence_level=level, bound=bound)
    claimed = {
        "bound": float(value),
        "estimate": gap_estimate(hits, rows),
        "counts": cell_counts(strata, basis.labels, hits, rows),
    }
    scope, kind = AVERAGED if averaged else DEPLOYED, EXACT if bound == "exact" else HOEFFDING
    return basis.claim(notion, scope, kind, claimed)


def noisy_claim(
    rates: tuple[Notion | NumberNotion, Sequence[Stratum]],
    table: NDArray,
    noisy: NDArray,
    basis: Basis,
    noises: int = 1,
) -> FairnessGuarantee:
    """Make a claim from the noisy table; the true one is read for public sizes alone."""
    (notion, strata), settings = rates, basis.settings
    epsilon, *_ = settings.parts_of_epsilon
    cells = noisy_cells(strata, noisy, noises)
    hits, misses = cells.successes, cells.failures
    successes, rows = hits, hits + misses
    if settings.public_sizes:
        rows = np.add(*stack(strata, table))
        # Both noisy counts of a cell measure the same number when its rows are known.
        successes, cells = (rows + hits - misses) / 2, replace(cells, trials=rows)
    lower, upper = private_rate_intervals(cells, epsilon, confidence_level=LEVEL)
    terms = np.stack([cells.success_terms, cells.failure_terms], axis=1)
    level, figures = settings.level_of_one_claim, (successes, rows, lower, upper)
    claimed = {
        "bound": private_gap_upper_bound(cells, epsilon, confidence_level=level),
        "estimate": noisy_gap_estimate(cells),
        "counts": cell_counts(strata, basis.labels, *figures, noisy=True),
    }
    inputs = {"epsilon": epsilon, "public_sizes": settings.public_sizes, "terms": terms}
    return basis.claim(notion, DEPLOYED, NOISY_COUNTS, claimed, **inputs)
