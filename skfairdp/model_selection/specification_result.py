"""Result of a search for a named (epsilon, tolerance), attempt by attempt."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import pandas as pd
from dp_accounting.dp_event import ComposedDpEvent, DpEvent
from numpy.typing import NDArray

from skfairdp.certificate import Certificate, certify
from skfairdp.certificate.counted_claims import Basis, noisy_cells, noisy_claim
from skfairdp.certificate.evaluation_settings import EvaluationSettings, holdout_assumptions
from skfairdp.certificate.holdout import GroupedRows
from skfairdp.fairness.bounds import noisy_counts as bounds
from skfairdp.fairness.derivation import level_of_one
from skfairdp.fairness.guarantee import FairnessGuarantee
from skfairdp.fairness.notions import Notion, Stratum, get_notion
from skfairdp.fairness.number_notions import (
    GRID_CELLS,
    NumberGrid,
    NumberNotion,
    get_number_notions,
)
from skfairdp.foundation.assumptions import ANSWERS_ASSUMED
from skfairdp.foundation.figures import (
    as_given,
    epsilon_text,
    percent_text,
    rounded_up,
    significant_up,
)
from skfairdp.model_selection.candidates import final_of, groups_to_state
from skfairdp.model_selection.holding_out import noisy_table, score_of
from skfairdp.model_selection.number_scores import PREDICTIONS_SHARE, NumberScoring
from skfairdp.privacy.accounting.accountants import event_epsilon
from skfairdp.privacy.accounting.events import canonical, covering_event
from skfairdp.privacy.guarantee import PrivacyGuarantee
from skfairdp.privacy.noise import NoiseSource
from skfairdp.privacy.plan import Plan
from skfairdp.records.numbers import TargetBounds

NoisyTables = NDArray[np.int64] | dict[str, NDArray[np.int64]]


@dataclass(frozen=True, eq=False)
class Attempt:
    """One model that was trained and measured; paid for, so all of it may be shown.

    Parameters
    ----------
    parameters : dict
        What it was trained with.
    value : float
        Noisy accuracy on the held-out rows, area under the curve, or minus the mean error of
        numbers.
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
    noisy_counts : ndarray of int64, shape (n_groups, n_labels, n_classes, n_bins), or dict
        The noisy table that all figures are computed from. Of numbers: "errors", shape (2,), in
        units of 1/1024 record, and "predictions", shape (n_groups, 16).
    """

    parameters: dict[str, Any]
    value: float
    claim: FairnessGuarantee
    lower: float
    attainable: float
    verdict: str
    model: Any = field(repr=False)
    certificate: Certificate = field(repr=False)
    noisy_counts: NoisyTables = field(repr=False)


@dataclass(frozen=True, eq=False)
class Specification:
    """Answer to a specification, with everything it rests on.

    Parameters
    ----------
    epsilon : float
        Privacy loss that was allowed, in nats.
    tolerance : float
        Gap that was allowed.
    privacy : PrivacyGuarantee
        What all attempts cost together.
    attempts : tuple of Attempt
        Every model that was trained, in the order in which it was named.
    confidence_level : float
        Probability that the upper bounds of all attempts hold together; that their lower
        bounds do is as likely.
    best : int or None
        Position of the chosen attempt; None if no attempt kept the tolerance.
    """

    epsilon: float
    tolerance: float
    privacy: PrivacyGuarantee
    attempts: tuple[Attempt, ...]
    confidence_level: float
    best: int | None

    @property
    def found(self) -> bool:
        """Whether a model keeps both."""
        return self.best is not None

    @property
    def model(self) -> Any:
        """The best model that keeps both; None if there is none."""
        return None if self.best is None else self.attempts[self.best].model

    @property
    def certificate(self) -> Any:
        """Certificate of that model; None if there is none."""
        return None if self.best is None else self.attempts[self.best].certificate

    @property
    def nearest(self) -> tuple[Attempt, ...]:
        """Attempts that no other beats in bound and objective; that of the smallest bound first."""
        order = sorted(self.attempts, key=lambda a: (a.claim.bound, -a.value))
        kept: list[Attempt] = []
        for attempt in order:
            if not kept or attempt.value > kept[-1].value:
                kept.append(attempt)
        return tuple(kept)

    @property
    def sentence(self) -> str:
        """The answer in words."""
        level = percent_text(self.confidence_level)
        asked = f"ε = {as_given(self.epsilon)} and a gap of at most {as_given(self.tolerance)}"
        cost = (
            f"All {len(self.attempts)} attempts together cost ε = "
            f"{epsilon_text(self.privacy.epsilon)} at "
            f"δ = {significant_up(self.privacy.delta)}, and share the error probability."
        )
        if self.best is not None:
            chosen = self.attempts[self.best]
            return (
                f"Found: with {level} confidence the model with {as_text(chosen.parameters)} keeps "
                f"{asked}: its gap is at most {rounded_up(chosen.claim.bound)}. {cost}"
            )
        first = self.nearest[0]
        broken = sum(attempt.verdict == "broken" for attempt in self.attempts)
        text = (
            f"Not found: none of {len(self.attempts)} models could be shown to keep {asked}. "
            f"{broken} of them break it with {level} confidence, "
            f"{len(self.attempts) - broken} are undecided. The nearest, with "
            f"{as_text(first.parameters)}, has a gap of at most {rounded_up(first.claim.bound)}. "
        )
        if first.attainable > self.tolerance:
            text += (
                "The held-out rows are too few for this tolerance: a model without any gap would "
                f"have got {rounded_up(first.attainable)}. "
            )
        return f"{text}{cost} This is no proof about models that were not tried."

    def verify(self) -> bool:
        """Compute all figures anew: bounds from noisy counts, epsilon from plans.

        Returns
        -------
        bool
            Whether they agree with what is stated, and each certificate with its model.
        """
        n = len(self.attempts)
        level = level_of_one(self.confidence_level, n)
        price = self.epsilon / n
        for attempt in self.attempts:
            counted = Counted.of(attempt.model, attempt.claim.notion, attempt.noisy_counts)
            cells, own = counted.cells, price * counted.share
            upper = bounds.private_gap_upper_bound(cells, own, confidence_level=level)
            lower = bounds.private_gap_lower_bound(cells, own, confidence_level=level)
            stated = attempt.claim.bound, attempt.lower, attempt.verdict
            found = upper, lower, verdict_on(upper, lower, self.tolerance)
            if stated != found or not attempt.certificate.verify(attempt.model):
                return False
        finals = [final_of(attempt.model) for attempt in self.attempts]
        # Points of one path are one fit, and share its released tables.
        tables = (getattr(f, "changed_", getattr(f, "scored_", None)) for f in finals)
        which = {n if t is None else t.tobytes(): finals[n] for n, t in enumerate(tables)}
        fits = all_fits(final.plan_ for final in which.values())
        spent = event_epsilon(fits, self.privacy.delta, self.privacy.adjacency)
        return self.best == best_of(self.attempts) and spent <= self.privacy.epsilon <= self.epsilon

    def to_frame(self) -> pd.DataFrame:
        """Return one row an attempt, for `pareto_frontier` and tables.

        Returns
        -------
        DataFrame
            Columns epsilon, value, bound, estimate, lower, attainable, verdict and one
            for each parameter.
        """
        return pd.DataFrame(
            {
                **attempt.parameters,
                "epsilon": self.privacy.epsilon,
                "value": attempt.value,
                "gap": attempt.claim.bound,
                "estimate": attempt.claim.estimate,
                "lower": attempt.lower,
                "attainable": attempt.attainable,
                "verdict": attempt.verdict,
            }
            for attempt in self.attempts
        )

    def __str__(self) -> str:
        return self.sentence


def best_of(attempts: tuple[Attempt, ...]) -> int | None:
    """Position of the best attempt that keeps the tolerance."""
    kept = [i for i, attempt in enumerate(attempts) if attempt.verdict == "kept"]
    return max(kept, key=lambda i: attempts[i].value, default=None)


def all_fits(plans: Iterable[Plan]) -> DpEvent:
    """Composition of fits on the same records."""
    return canonical(ComposedDpEvent([covering_event(plan) for plan in plans]))


def verdict_on(upper: float, lower: float, tolerance: float) -> str:
    """Say whether bounds on a gap keep a tolerance."""
    if upper <= tolerance:
        return "kept"
    return "broken" if lower > tolerance else "undecided"


@dataclass(frozen=True, eq=False)
class Counted:
    """Noisy counts of one model's answers, and the rates that they tell about.

    `notion`: with its words for a claim. `table`: (n_groups, n_labels, n_classes); each count holds
    the noise of `noises` draws. `share`: part of the price of all tables that this one cost.
    """

    notion: Notion | NumberNotion
    strata: Sequence[Stratum]
    table: NDArray[np.int64]
    noises: int
    share: float

    @classmethod
    def of(cls, model: Any, notion: str, noisy: NoisyTables) -> Self:
        """Read the tables of a trained model; `notion`: the name of the compared one."""
        final = final_of(model)
        if not isinstance(noisy, dict):
            chosen, bins = get_notion(notion), noisy.shape[-1]
            return cls(chosen, chosen.strata(final.classes_), noisy.sum(axis=-1), bins, 1.0)
        low, high = final.target_bounds_
        grid = NumberGrid(low, high, GRID_CELLS)
        (numbers,) = get_number_notions([notion])
        words, table = numbers.on_grid(GRID_CELLS - 1), noisy["predictions"][:, None, :]
        return cls(words, grid.strata, table, 1, PREDICTIONS_SHARE)

    @property
    def rates(self) -> tuple[Notion | NumberNotion, Sequence[Stratum]]:
        """Notion and rates, as a claim takes them."""
        return self.notion, self.strata

    @property
    def cells(self) -> bounds.NoisyCells:
        """Successes and failures of each rate; sizes are private."""
        return noisy_cells(self.strata, self.table, self.noises)


def attempt_of(
    model: Any,
    point: dict[str, Any],
    held: GroupedRows,
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
    price, level, final = terms.count_epsilon, terms.level_of_one_claim, final_of(model)
    noisy: NoisyTables
    classes: list[Any] = []
    if terms.number_notions:
        (name,) = (notion.name for notion in terms.number_notions)
        bounded = TargetBounds(*final.target_bounds_)
        scoring = NumberScoring(bounded, objective, tolerance, name)
        noisy = scoring.tables(model, held, price / PREDICTIONS_SHARE, source)
        score, _ = scoring.score_of(noisy)
    else:
        (notion,) = terms.notions
        name, classes = notion.name, np.asarray(final.classes_).tolist()
        noisy = noisy_table(model, held, price, source, with_scores=objective == "auc")
        score, _ = score_of(noisy, objective, notion, final.classes_, tolerance=None)
    counted = Counted.of(model, name, noisy)
    with_labels = not terms.number_notions
    rests_on = holdout_assumptions(terms, held.groups, with_labels, ANSWERS_ASSUMED, classes)
    # Sizes are private: of the first table nothing is read.
    basis, rates = Basis(terms, held.groups.labels, tuple(rests_on)), counted.rates
    claim = noisy_claim(rates, counted.table, counted.table, basis, counted.noises)
    cells = counted.cells
    lower = bounds.private_gap_lower_bound(cells, price, confidence_level=level)
    # What its rows have spent, not this fit alone.
    groups = groups_to_state(final, held.groups.labels)
    final._state(privacy, one_of_several=True, groups=groups)
    return Attempt(
        parameters=point,
        value=score.value,
        claim=claim,
        lower=lower,
        attainable=bounds.private_gap_upper_bound(_even(cells), price, confidence_level=level),
        verdict=verdict_on(claim.bound, lower, tolerance),
        model=model,
        certificate=dataclasses.replace(certify(model), privacy=privacy, fairness=(claim,)),
        noisy_counts=noisy,
    )


def _even(cells: bounds.NoisyCells) -> bounds.NoisyCells:
    """Cells as they would be if all groups had the same rates."""
    hit, miss = np.maximum(cells.successes, 0), np.maximum(cells.failures, 0)
    rows = hit + miss
    share = hit.sum(axis=1, keepdims=True) / np.maximum(rows.sum(axis=1, keepdims=True), 1)
    level = np.rint(rows * share).astype(np.int64)
    return dataclasses.replace(cells, successes=level, failures=rows - level)


def as_text(parameters: Mapping[str, Any]) -> str:
    """Parameters in one line."""
    return ", ".join(f"{key}={value!r}" for key, value in parameters.items()) or "as given"
