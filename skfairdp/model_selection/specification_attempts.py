"""Attempts at a specification: what each may spend, and what it showed."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from dp_accounting.dp_event import ComposedDpEvent, DpEvent
from numpy.typing import NDArray

from skfairdp.assumptions import ANSWERS_ASSUMED
from skfairdp.certificate import Certificate, certify
from skfairdp.certificate.counted_claims import noisy_cells, noisy_claim
from skfairdp.certificate.evaluation_settings import EvaluationSettings, holdout_assumptions
from skfairdp.fairness.bounds.noisy_counts import (
    NoisyCells,
    private_gap_lower_bound,
    private_gap_upper_bound,
)
from skfairdp.fairness.guarantee import FairnessGuarantee
from skfairdp.model_selection.budget import MakePlan
from skfairdp.model_selection.candidates import final_of
from skfairdp.model_selection.holding_out import Divided
from skfairdp.model_selection.scoring import noisy_table, score_of
from skfairdp.privacy.accounting.accountants import accountant_name, event_epsilon
from skfairdp.privacy.accounting.calibration import noise_multiplier_for
from skfairdp.privacy.accounting.events import canonical, covering_event
from skfairdp.privacy.guarantee import PrivacyGuarantee
from skfairdp.privacy.noise import NoiseSource
from skfairdp.privacy.plan import Plan


@dataclass(frozen=True, eq=False)
class Attempt:
    """One model that was trained and measured; paid for, so all of it may be shown.

    Parameters
    ----------
    parameters : dict
        What it was trained with.
    value : float
        Noisy accuracy on the held-out rows, or area under the curve.
    claim : FairnessGuarantee
        Upper bound on its gap; the bounds of all attempts hold together.
    lower : float
        Lower bound on its gap; those of all attempts hold together too.
    attainable : float
        Bound that a model without any gap would have got on as many rows.
    verdict : {"kept", "broken", "undecided"}
        "kept": the upper bound is within the tolerance. "broken": the lower one is above
        it. "undecided": the held-out rows are too few to tell.
    model : estimator or Pipeline
        The trained model.
    certificate : Certificate
        The claim, bound to the model, with the privacy of all attempts together.
    noisy_counts : ndarray of int64, shape (n_groups, n_labels, n_classes, n_bins)
        The noisy table that all figures are computed from.
    """

    parameters: dict[str, Any]
    value: float
    claim: FairnessGuarantee
    lower: float
    attainable: float
    verdict: str
    model: Any = field(repr=False)
    certificate: Certificate = field(repr=False)
    noisy_counts: NDArray[np.int64] = field(repr=False)


@dataclass(frozen=True)
class Shares:
    """How a budget is shared by attempts."""

    multipliers: tuple[float, ...]
    count_epsilon: float  # Pure cost of each table of held-out counts
    privacy: PrivacyGuarantee


def share_budget(plans: Sequence[MakePlan], epsilon: float, delta: float, n_tables: int) -> Shares:
    """Let every fit have the same share of a budget, and every table of held-out counts.

    A record is either in the training rows of all attempts or in the held-out rows of
    all: the fits compose, the tables compose, and the larger of the two is the cost.

    `plans`: maps a noise multiplier to the plan of a fit. `delta`: probability in (0, 1).
    Raises ValueError: if no noise is enough.
    """
    n = len(plans)
    adjacency = plans[0](1.0).adjacency
    target = epsilon
    while True:
        # n fits of one plan are one plan with n times the steps.
        multipliers = tuple(
            noise_multiplier_for(target, delta, _repeated_plan(plan, n)) for plan in plans
        )
        fits = all_fits(p(s) for p, s in zip(plans, multipliers, strict=True))
        spent = event_epsilon(fits, delta, adjacency)
        if spent <= epsilon:
            break
        target *= 0.995 * epsilon / spent  # plans of different shapes, a little over
    price = epsilon / n_tables  # pure, and they add up
    return Shares(
        multipliers,
        price,
        PrivacyGuarantee(
            epsilon=max(spent, price * n_tables),
            delta=delta,
            adjacency=adjacency,
            accountant=accountant_name(fits, delta, adjacency),
            # A record is in one part or the other, and no one event says so: further
            # releases compose with epsilon and delta themselves.
            event=None,
        ),
    )


def all_fits(plans: Iterable[Plan]) -> DpEvent:
    """Composition of fits on the same records."""
    return canonical(ComposedDpEvent([covering_event(plan) for plan in plans]))


def _repeated_plan(make_plan: MakePlan, times: int) -> MakePlan:
    return lambda multiplier: _repeated(make_plan(multiplier), times)


def _repeated(plan: Plan, times: int) -> Plan:
    segments = tuple(dataclasses.replace(s, steps=s.steps * times) for s in plan.segments)
    counts = tuple(dataclasses.replace(c, releases=c.releases * times) for c in plan.counts)
    return dataclasses.replace(plan, segments=segments, counts=counts)


def verdict_on(upper: float, lower: float, tolerance: float) -> str:
    """Say whether bounds on a gap keep a tolerance."""
    if upper <= tolerance:
        return "kept"
    return "broken" if lower > tolerance else "undecided"


def attempt_of(
    model: Any,
    point: dict[str, Any],
    parts: Divided,
    terms: EvaluationSettings,
    tolerance: float,
    objective: str,
    privacy: PrivacyGuarantee,
    source: NoiseSource,
) -> Attempt:
    """Measure a trained model on the held-out rows, with noise.

    `terms`: at which price and level, `privacy`: what all attempts cost together.
    """
    assert terms.count_epsilon is not None
    price, level, (notion,) = terms.count_epsilon, terms.level_of_one_claim, terms.notions
    final = final_of(model)
    noisy = noisy_table(model, parts.held_out, price, source, with_scores=objective == "auc")
    flat = noisy.sum(axis=-1)
    score, _ = score_of(
        noisy, objective=objective, notion=notion, classes=final.classes_, tolerance=None
    )
    strata = notion.strata(final.classes_)
    classes = np.asarray(final.classes_).tolist()
    groups = parts.held_out.groups
    rests_on = tuple(holdout_assumptions(terms, groups, True, ANSWERS_ASSUMED, classes))
    # Sizes are private: of the first table nothing is read.
    claim = noisy_claim(notion, strata, flat, flat, groups.labels, terms, rests_on)
    cells = noisy_cells(strata, flat)
    lower = private_gap_lower_bound(cells, price, confidence_level=level)
    final._state(privacy)  # what its rows have spent, not this fit alone
    return Attempt(
        parameters=point,
        value=score.value,
        claim=claim,
        lower=lower,
        attainable=private_gap_upper_bound(_even(cells), price, confidence_level=level),
        verdict=verdict_on(claim.bound, lower, tolerance),
        model=model,
        certificate=dataclasses.replace(certify(model), privacy=privacy, fairness=(claim,)),
        noisy_counts=noisy,
    )


def _even(cells: NoisyCells) -> NoisyCells:
    """Cells as they would be if all groups had the same rates."""
    hit, miss = np.maximum(cells.successes, 0), np.maximum(cells.failures, 0)
    rows = hit + miss
    share = hit.sum(axis=1, keepdims=True) / np.maximum(rows.sum(axis=1, keepdims=True), 1)
    level = np.rint(rows * share).astype(np.int64)
    return dataclasses.replace(cells, successes=level, failures=rows - level)


def as_text(parameters: Mapping[str, Any]) -> str:
    """Parameters in one line."""
    return ", ".join(f"{key}={value!r}" for key, value in parameters.items()) or "as given"
