"""The deployed-model half of a certificate: held-out rows to bounds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import _safe_indexing

from skfairdp.assumptions import (
    AVERAGED_RATES,
    CODES_COUNTED,
    ERROR_APART,
    NOT_FITTED_ON,
    ONE_CODE,
)
from skfairdp.certificate.accuracy import Accuracy
from skfairdp.certificate.evaluation_settings import EvaluationSettings, holdout_assumptions
from skfairdp.certificate.group_rates import LEVEL
from skfairdp.certificate.holdout import HeldOut, ask_holdout, comparable_groups, draws_afresh
from skfairdp.certificate.unwrap import Deployed
from skfairdp.fairness.bounds.noisy_cells import noise_variance
from skfairdp.fairness.bounds.noisy_counts import (
    NoisyCells,
    noisy_gap_estimate,
    private_gap_upper_bound,
    private_rate_intervals,
)
from skfairdp.fairness.bounds.rate_gaps import gap_estimate, gap_upper_bound, score_gap_upper_bound
from skfairdp.fairness.bounds.total_variation import total_variation, total_variation_bound
from skfairdp.fairness.derivation import (
    EXACT,
    HOEFFDING,
    NOISY_COUNTS,
    TOTAL_VARIATION,
    Derivation,
)
from skfairdp.fairness.groups import Groups
from skfairdp.fairness.guarantee import CellCount, FairnessGuarantee
from skfairdp.fairness.notions import Notion, Stratum
from skfairdp.fairness.scopes import AVERAGED, DEPLOYED, DOWNSTREAM_LIKE
from skfairdp.figures import rounded_up
from skfairdp.labels import count_rows
from skfairdp.privacy.noise import NoiseSource
from skfairdp.protocol import Certifiable, answers_of

_FORMS = {
    "exact": ("exact, of each pair of groups", EXACT),
    "difference": ("difference (Hoeffding)", HOEFFDING),
}


@dataclass(frozen=True)
class Evaluation:
    """What held-out rows show: claims about the deployed model, then about averages over its draws.

    `n_rows` is None where the number of rows inside the claim is private; `remarks` say why there
    is not a claim.
    """

    fairness: tuple[FairnessGuarantee, ...]
    n_rows: int | None
    remarks: tuple[str, ...] = ()
    accuracy: Accuracy | None = None


def evaluate(
    deployed: Deployed,
    X: Any,
    y: ArrayLike | None,
    sensitive_features: ArrayLike | None,
    settings: EvaluationSettings,
    source: NoiseSource,
) -> Evaluation:
    """Bound the differences between groups from held-out rows; arguments as of `certify`.

    Raises a ValueError for rows, labels or groups that do not fit together, and an
    UnknownGroupError for a group that the model does not know, unless the counts are private.
    """
    groups = comparable_groups(deployed, X, sensitive_features, settings)
    if isinstance(groups, str):
        return Evaluation((), None if settings.private else count_rows(X), (groups,))
    held = ask_holdout(
        deployed, X, y, sensitive_features, groups, settings.private, settings.positive
    )
    table, with_labels = held.table, y is not None
    strata = [notion.strata(held.classes, with_labels=with_labels) for notion in settings.notions]
    if settings.private and with_labels:
        strata = [
            tuple(stratum.beside_unlabelled(not notion.needs_labels) for stratum in of_notion)
            for notion, of_notion in zip(settings.notions, strata, strict=True)
        ]
    notions = tuple(zip(settings.notions, strata, strict=True))
    rests_on = tuple(holdout_assumptions(settings, groups, with_labels, held.how, held.classes))
    if settings.count_epsilon is not None:
        noisy = table + source.discrete_laplace(settings.count_epsilon, table.shape)
        claims = [
            noisy_claim(notion, cells, table, noisy, groups.labels, settings, rests_on)
            for notion, cells in notions
        ]
        noise = noise_variance(settings.count_epsilon)
        accuracy = Accuracy.of_table(noisy[:, : len(held.classes)], noise)
        return Evaluation(tuple(claims), None, _remarks(claims), accuracy)
    claims = [_claim(n, cells, table, groups.labels, settings, rests_on) for n, cells in notions]
    if not draws_afresh(deployed):  # else each row would be released once more, for an average
        claims += _averages(deployed, X, groups, held, notions, settings, with_labels)
    claims += _downstream(deployed, X, sensitive_features, groups, held, notions, settings)
    n_rows = int(table.sum())
    return Evaluation(tuple(claims), n_rows, _remarks(claims), Accuracy.of_table(table))


def _remarks(claims: Sequence[FairnessGuarantee]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text for claim in claims for text in claim.remarks))


def _averages(
    deployed: Deployed,
    X: Any,
    groups: Groups,
    held: HeldOut,
    notions: Sequence[tuple[Notion, Sequence[Stratum]]],
    settings: EvaluationSettings,
    with_labels: bool,
) -> list[FairnessGuarantee]:
    """Bounds on rates averaged over the keys that a model's draws could have had."""
    final = answers_of(deployed.final)
    if type(final)._success_scores is Certifiable._success_scores:
        return []  # nothing to ask; pushing rows through the steps might release them once more
    rows = deployed.transform(X)
    scores = final._success_scores(rows)
    if scores is None:
        return []
    own = final._own_models(groups.labels)
    settings = replace(settings, bounds_each=1 if own is None else 2)
    texts = holdout_assumptions(settings, groups, with_labels, AVERAGED_RATES, held.classes)
    rests_on = (*texts, ERROR_APART)
    table = held.averaged(scores)
    claims = [_claim(n, cells, table, groups.labels, settings, rests_on) for n, cells in notions]
    if own is not None:
        # Every row is scored by the model of its own group, and else counted alike.
        own_table = held.averaged(own.scores(rows, groups.codes))
        claims += [
            own.claim(
                notion,
                _stack(cells, own_table),
                groups=groups.labels,
                claims=settings.claims,
                confidence_level=settings.confidence_level,
                assumptions=rests_on,
            )
            for notion, cells in notions
        ]
    return claims


def _downstream(
    deployed: Deployed,
    X: Any,
    sensitive_features: Any,
    groups: Groups,
    held: HeldOut,
    notions: Sequence[tuple[Notion, Sequence[Stratum]]],
    settings: EvaluationSettings,
) -> list[FairnessGuarantee]:
    """Bounds on what anybody can predict from the one code that is released of a person."""
    place, release = deployed.release
    inside = np.flatnonzero(groups.codes >= 0)
    if release is None or not len(inside):
        return []
    if release is not deployed.final and deployed.group_aware:
        return []  # what also sees the group sees more than a code
    rows = deployed.transform(_safe_indexing(X, inside), before=place)
    given = _safe_indexing(sensitive_features, inside)
    hidden, n_codes, attenuation = answers_of(release)._hidden_codes(rows, given)
    if n_codes < 2:
        return []
    cells = held.cells[inside] * n_codes + hidden
    shape = (*held.shape[:2], n_codes)
    table = np.bincount(cells, minlength=math.prod(shape)).reshape(shape)
    how = CODES_COUNTED.format(left=rounded_up(attenuation, 4))
    texts = holdout_assumptions(settings, groups, held.shape[1] > 1, how, held.classes)
    rests_on = (*texts, NOT_FITTED_ON, ERROR_APART)
    found = []
    for notion, rates in notions:
        if not notion.compares_predictions:
            continue
        masks = np.unique([(s.successes | s.failures).any(axis=1) for s in rates], axis=0)
        strata = [
            Stratum(f"{_given(held.classes, mask)}code {code}", rows & is_code, rows & ~is_code)
            for mask in masks
            for rows in [np.tile(mask[:, None], n_codes)]
            for code, is_code in enumerate(np.eye(n_codes, dtype=bool))
        ]
        hits, misses = _stack(strata, table)
        counts = hits.reshape(len(masks), n_codes, -1)
        bound = total_variation_bound(counts, confidence_level=settings.level_of_one_claim)
        found.append(
            FairnessGuarantee(
                notion=notion.name,
                words=notion.words,
                bound=attenuation * bound,
                scope=DOWNSTREAM_LIKE,
                method="total variation of one code, by an exact test of each event",
                estimate=attenuation * total_variation(counts),
                confidence_level=settings.confidence_level,
                groups=groups.labels,
                counts=_cell_counts(strata, groups.labels, hits, hits + misses),
                assumptions=(*rests_on, ONE_CODE.format(hidden=rounded_up(bound))),
                derivation=Derivation.of(
                    TOTAL_VARIATION,
                    claims=settings.claims,
                    attenuation=attenuation,
                    n_codes=n_codes,
                ),
            )
        )
    return found


def _given(classes: Sequence[Any], mask: NDArray[np.bool_]) -> str:
    """Name the labels of the rows that a rate is about; nothing where it is about all."""
    return "" if mask.all() else f"label {', '.join(map(str, compress(classes, mask)))}, "


def _stack(strata: Sequence[Stratum], table: NDArray) -> tuple[NDArray, NDArray]:
    """Successes and failures, two arrays of shape (n_strata, n_groups)."""
    counts = [stratum.count(table) for stratum in strata]
    return np.stack([hit for hit, _ in counts]), np.stack([miss for _, miss in counts])


def noisy_cells(strata: Sequence[Stratum], table: NDArray) -> NoisyCells:
    """Cells of noisy counts of shape (n_groups, n_labels, n_classes), their sizes private."""
    terms = np.array([(s.successes.sum(), s.failures.sum()) for s in strata])
    return NoisyCells(*_stack(strata, table), terms[:, 0], terms[:, 1])


def _cell_counts(
    strata: Sequence[Stratum], labels: tuple, hits: NDArray, rows: NDArray, *, noisy: bool = False
) -> tuple[CellCount, ...]:
    return tuple(
        CellCount(label, stratum.name, hits[s, g].item(), rows[s, g].item(), noisy)
        for s, stratum in enumerate(strata)
        for g, label in enumerate(labels)
    )


def _claim(
    notion: Notion,
    strata: Sequence[Stratum],
    table: NDArray,
    labels: tuple,
    settings: EvaluationSettings,
    rests_on: tuple[str, ...],
) -> FairnessGuarantee:
    hits, misses = _stack(strata, table)
    rows = hits + misses
    level = settings.level_of_one_claim
    averaged = table.dtype.kind == "f"
    if averaged:
        value = score_gap_upper_bound(hits, rows, confidence_level=level)
        method, kind = "Hoeffding, on the probabilities of the random predictions", HOEFFDING
    else:
        value = gap_upper_bound(hits, rows, confidence_level=level, bound=settings.bound)  # type: ignore[arg-type]
        method, kind = _FORMS[settings.bound]
    return FairnessGuarantee(
        notion=notion.name,
        words=notion.words,
        bound=float(value),
        scope=AVERAGED if averaged else DEPLOYED,
        method=method,
        estimate=gap_estimate(hits, rows),
        confidence_level=settings.confidence_level,
        groups=labels,
        counts=_cell_counts(strata, labels, hits, rows),
        assumptions=rests_on,
        derivation=Derivation.of(kind, claims=settings.claims),
    )


def noisy_claim(
    notion: Notion,
    strata: Sequence[Stratum],
    table: NDArray,
    noisy: NDArray,
    labels: tuple,
    settings: EvaluationSettings,
    rests_on: tuple[str, ...],
) -> FairnessGuarantee:
    """Make a claim from the noisy table; the true one is read for public sizes alone.

    Both tables have the shape (n_groups, n_labels, n_classes), and `settings` a `count_epsilon`.
    """
    assert settings.count_epsilon is not None
    cells = noisy_cells(strata, noisy)
    hits, misses = cells.successes, cells.failures
    successes, rows = hits, hits + misses
    if settings.public_sizes:
        rows = np.add(*_stack(strata, table))
        # Both noisy counts of a cell measure the same number when its rows are known.
        successes, cells = (rows + hits - misses) / 2, replace(cells, trials=rows)
    kind = "public" if settings.public_sizes else "private"
    lower, upper = private_rate_intervals(cells, settings.count_epsilon, confidence_level=LEVEL)
    return FairnessGuarantee(
        notion=notion.name,
        words=notion.words,
        bound=private_gap_upper_bound(
            cells, settings.count_epsilon, confidence_level=settings.level_of_one_claim
        ),
        scope=DEPLOYED,
        method=f"exact, from noisy counts of answers with {kind} cell sizes",
        estimate=noisy_gap_estimate(cells),
        confidence_level=settings.confidence_level,
        groups=labels,
        counts=tuple(
            replace(count, low=float(lower.flat[i]), high=float(upper.flat[i]))
            for i, count in enumerate(_cell_counts(strata, labels, successes, rows, noisy=True))
        ),
        assumptions=rests_on,
        derivation=Derivation.of(
            NOISY_COUNTS,
            claims=settings.claims,
            epsilon=settings.count_epsilon,
            public_sizes=settings.public_sizes,
            terms=np.stack([cells.success_terms, cells.failure_terms], axis=1),
        ),
    )
