"""Fairness of a certificate: bounds from held-out rows, and the information of a release."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skfairdp.certificate import counted_claims as counted
from skfairdp.certificate.evaluation_settings import EvaluationSettings
from skfairdp.certificate.holdout import GroupedRows, HeldOut, ask_holdout, draws_afresh
from skfairdp.certificate.number_errors import NumberErrors
from skfairdp.certificate.outcomes import Accuracy, Outcomes
from skfairdp.certificate.score_counts import ScoreCounts
from skfairdp.fairness.bounds.leakage import classifier_lower_bound
from skfairdp.fairness.bounds.noisy_counts import noise_variance
from skfairdp.fairness.bounds.rate_gaps import own_models_bound
from skfairdp.fairness.bounds.total_variation import total_variation, total_variation_bound
from skfairdp.fairness.guarantee import FairnessGuarantee, cell_counts, group_text
from skfairdp.fairness.kinds import OWN_MODELS, TOTAL_VARIATION
from skfairdp.fairness.notions import Notion, Stratum, stack
from skfairdp.fairness.scopes import AVERAGED, DOWNSTREAM_LIKE, TRAINING
from skfairdp.foundation import assumptions
from skfairdp.foundation.figures import as_given, rounded_down, rounded_up
from skfairdp.privacy.noise import NoiseSource
from skfairdp.protocol import Certifiable, answers_of
from skfairdp.receipts.receipt import receipt_of
from skfairdp.receipts.unwrap import Deployed, charges_privacy, takes_groups
from skfairdp.records.groups import encode_groups
from skfairdp.records.labels import count_rows, take_rows

_LEAST = 20  # where a group has fewer held-out rows, a classifier cannot show anything


@dataclass(frozen=True)
class Evaluation:
    """Claims from held-out rows: first about the deployed model, then about averages."""

    fairness: tuple[FairnessGuarantee, ...]
    n_rows: int | None  # inside the claim; None where their number is private
    reasons: tuple[str, ...] = ()  # why there is not a claim
    accuracy: Accuracy | None = None
    outcomes: Outcomes | None = None
    errors: NumberErrors | None = None
    scores: ScoreCounts | None = None


def evaluate(
    deployed: Deployed, rows: GroupedRows, settings: EvaluationSettings, source: NoiseSource | None
) -> Evaluation:
    """Bound the differences between the groups of held-out rows; noise is for private ones."""
    held = ask_holdout(deployed, rows, settings.private, settings.positive)
    table, labelled = held.table, rows.y is not None
    notions: list[counted.Rates] = []
    for notion in settings.notions:
        strata = notion.strata(held.classes, with_labels=labelled)
        if settings.private and labelled:
            strata = tuple(s.beside_unlabelled(not notion.needs_labels) for s in strata)
        notions.append((notion, strata))
    basis = counted.Basis(settings, rows.groups.labels, held.assumptions(settings))
    scores = held.scores(deployed, settings.private) if settings.scores else None
    if settings.private:
        assert source is not None
        epsilon, *rest = settings.parts_of_epsilon
        noisy = table + source.discrete_laplace(epsilon, table.shape)
        if scores is not None:
            (of_scores,) = rest
            noise_of_scores = source.discrete_laplace(of_scores, (scores.size,))
            scores = scores.with_noise(noise_of_scores, of_scores)
        claims = [counted.noisy_claim(rates, table, noisy, basis) for rates in notions]
        noise = noise_variance(epsilon)
        accuracy = Accuracy.of_table(noisy[:, : len(held.classes)], noise)
        outcomes = _outcomes(held, noisy, settings)
        return Evaluation(tuple(claims), None, (), accuracy, outcomes, scores=scores)
    claims = [counted.exact_claim(rates, table, basis) for rates in notions]
    if not draws_afresh(deployed):  # else each row would be released once more, for an average
        claims += _averages(deployed, held, notions, settings)
    claims += _downstream_claims(deployed, held, notions, settings)
    accuracy, outcomes = Accuracy.of_table(table), _outcomes(held, table, settings)
    return Evaluation(tuple(claims), int(table.sum()), (), accuracy, outcomes, scores=scores)


def _outcomes(held: HeldOut, table: NDArray, settings: EvaluationSettings) -> Outcomes | None:
    """Counts by group, label and answer, as they are released; None without two of either."""
    labelled = held.rows.y is not None and len(held.classes) == 2
    if not labelled or settings.public_sizes:  # then counts of a cell are not independent
        return None
    epsilon = settings.parts_of_epsilon[0] if settings.private else None
    return Outcomes.of_table(held.rows.groups.labels, table, epsilon)


def without_bounds(evaluation: Evaluation) -> Evaluation:
    """Turn claims about rows that were trained on into remarks: nothing follows for others."""
    remarks = [
        f"Noisy {claim.rates} of the rows that the model was trained on, from which no bound for "
        "other people follows: "
        + ", ".join(
            f"{group_text(count.group)}{count.stratum and f' ({count.stratum})'} {count.rate:.3f}"
            for count in claim.counts
            if count.rate is not None
        )
        + "."
        for claim in evaluation.fairness
    ]
    return Evaluation((), None, (*evaluation.reasons, *remarks))


def _averages(
    deployed: Deployed, held: HeldOut, notions: list[counted.Rates], settings: EvaluationSettings
) -> list[FairnessGuarantee]:
    """Bounds on rates averaged over the keys that a model's draws could have had."""
    final, groups = answers_of(deployed.final), held.rows.groups
    if type(final)._success_scores is Certifiable._success_scores:
        return []  # nothing to ask; pushing rows through the steps might release them once more
    rows = deployed.transform(held.rows.X)
    scores = final._success_scores(rows)
    if scores is None:
        return []
    own = final._own_models(groups.labels)
    settings = replace(settings, bounds_each=1 if own is None else 2)
    rests_on = (*held.assumptions(settings, assumptions.AVERAGED_RATES), assumptions.ERROR_APART)
    table, basis = held.averaged(scores), counted.Basis(settings, groups.labels, rests_on)
    claims = [counted.exact_claim(rates, table, basis) for rates in notions]
    if own is not None:
        # Every row is scored by the model of its own group, and else counted alike.
        own_table = held.averaged(own.scores(rows, groups.codes))
        for notion, cells in notions:
            sums, misses = stack(cells, own_table)
            given: dict[str, Any] = {"sums": sums, "trials": sums + misses}
            given |= {"distances": own.distances, "n_draws": own.n_draws}
            claimed = {
                "bound": own_models_bound(**given, error=1.0 - settings.level_of_one_claim),
            }
            claims.append(basis.claim(notion, AVERAGED, OWN_MODELS, claimed, **given))
    return claims


def _downstream_claims(
    deployed: Deployed, held: HeldOut, notions: list[counted.Rates], settings: EvaluationSettings
) -> list[FairnessGuarantee]:
    """Bounds on the gap of any predictor from the one code that is released of a person."""
    (place, release), rows = deployed.release, held.rows
    inside = np.flatnonzero(rows.groups.codes >= 0)
    if release is None or not len(inside):
        return []
    if release is not deployed.final and deployed.group_aware:
        return []  # what also sees the group sees more than a code
    X = deployed.transform(take_rows(rows.X, inside), before=place)
    given = take_rows(rows.sensitive_features, inside)
    hidden, n_codes, attenuation = answers_of(release)._hidden_codes(X, given)
    if n_codes < 2:
        return []
    shape = (*held.shape[:2], n_codes)
    codes = held.cells[inside] * n_codes + hidden
    table = np.bincount(codes, minlength=math.prod(shape)).reshape(shape)
    how = assumptions.CODES_COUNTED.format(left=rounded_up(attenuation, 4))
    texts = (assumptions.NOT_FITTED_ON, assumptions.ERROR_APART)
    basis = counted.Basis(settings, rows.groups.labels, (*held.assumptions(settings, how), *texts))
    found = []
    for notion, rates in notions:
        if not notion.compares_predictions:
            continue
        masks = np.unique([(s.successes | s.failures).any(axis=1) for s in rates], axis=0)
        strata = []
        for mask in masks:
            # Named by the labels of the rows that a rate is about, unless it is about all.
            labels = ", ".join(map(str, compress(held.classes, mask)))
            given_label = "" if mask.all() else f"label {labels}, "
            of_mask = np.tile(mask[:, None], n_codes)
            strata += [
                Stratum(f"{given_label}code {code}", of_mask & is_code, of_mask & ~is_code)
                for code, is_code in enumerate(np.eye(n_codes, dtype=bool))
            ]
        hits, misses = stack(strata, table)
        counts = hits.reshape(len(masks), n_codes, -1)
        bound = total_variation_bound(counts, confidence_level=settings.level_of_one_claim)
        claimed = {
            "bound": attenuation * bound,
            "estimate": attenuation * total_variation(counts),
            "counts": cell_counts(strata, basis.labels, hits, hits + misses),
            "assumptions": (*basis.rests_on, assumptions.ONE_CODE.format(hidden=rounded_up(bound))),
        }
        inputs = {"attenuation": attenuation, "n_codes": n_codes}
        found.append(basis.claim(notion, DOWNSTREAM_LIKE, TOTAL_VARIATION, claimed, **inputs))
    return found


def leakage_remarks(
    deployed: Deployed, X: Any, sensitive_features: ArrayLike | None, confidence_level: float
) -> tuple[str, ...]:
    """Measure how much a release of public rows reveals about the group; empty without one."""
    place, release = deployed.release
    if release is None or sensitive_features is None:
        return ()
    groups = encode_groups(sensitive_features, n_rows=count_rows(X), on_missing="drop")
    inside = np.flatnonzero(groups.codes >= 0)
    if len(groups.labels) < 2 or groups.counts.min() < _LEAST:
        return (
            "The information of a release about the group was not measured: that needs two groups, "
            f"and {_LEAST} held-out rows of each.",
        )
    rows = deployed.transform(take_rows(X, inside), before=place)
    seen = takes_groups(release, "transform")
    given = {"sensitive_features": take_rows(sensitive_features, inside)} if seen else {}
    Z = release.transform(rows, **given)
    measured = classifier_lower_bound(
        np.asarray(Z), groups.codes[inside], confidence_level=confidence_level, random_state=0
    )
    return (
        f"Measured on {len(inside)} held-out rows: with {as_given(confidence_level)} confidence a "
        f"release reveals at least {rounded_down(measured.lower_bound or 0.0, 4)} nats about the "
        f"group (estimate {measured.value:.4f}), shown by a classifier that guesses it; this "
        "confidence is apart from that of other claims.",
    )


def claims_of_mechanism(
    deployed: Deployed, notions: Sequence[Notion], turned: bool
) -> tuple[FairnessGuarantee, ...]:
    """Collect the bounds that a fitted model states before any evaluation.

    `turned`: whether the first of two classes is the positive one.
    """
    # What mechanisms promise about the second class is not said of the first.
    notions = tuple(n for n in notions if not turned or n.alike_for_both)
    hooks = [answers_of(deployed.final)._mechanism_fairness]
    place, release = deployed.release
    # A model that also sees the group of a row sees more than its release.
    predicts = hasattr(deployed.final, "predict") and not deployed.group_aware
    if place < len(deployed.stages) and predicts:
        hooks.append(release._mechanism_fairness)
    claims = tuple(claim for hook in hooks for n in notions for claim in hook(n.name))
    searched = any(charges_privacy(search) for search in deployed.searches)
    receipt = receipt_of(deployed.final)  # of a model that was taken out of a search, too
    searched |= receipt is not None and receipt.one_of_several
    if claims and (searched or deployed.changes):
        # True of one fit over its noise, not of the best of several, nor of what was put in
        # its place.
        claims = tuple(claim for claim in claims if claim.scope != TRAINING)
    return claims
