"""The deployed-model half of a certificate: held-out rows to bounds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import ArrayLike

from skfairdp.assumptions import AVERAGED_RATES, ERROR_APART
from skfairdp.certificate.accuracy import Accuracy
from skfairdp.certificate.counted_claims import exact_claim, noisy_claim, stack
from skfairdp.certificate.evaluation_settings import EvaluationSettings
from skfairdp.certificate.holdout import HeldOut, NotionStrata, ask_holdout, draws_afresh
from skfairdp.certificate.released_rows import downstream_claims
from skfairdp.certificate.unwrap import Deployed
from skfairdp.fairness.bounds.noisy_cells import noise_variance
from skfairdp.fairness.groups import Groups
from skfairdp.fairness.guarantee import FairnessGuarantee
from skfairdp.privacy.noise import NoiseSource
from skfairdp.protocol import Certifiable, answers_of


@dataclass(frozen=True)
class Evaluation:
    """What held-out rows show: claims about the deployed model, then about averages over its draws.

    `n_rows` is None where the number of rows inside the claim is private; `reasons` say why there
    is not a claim.
    """

    fairness: tuple[FairnessGuarantee, ...]
    n_rows: int | None
    reasons: tuple[str, ...] = ()
    accuracy: Accuracy | None = None

    @property
    def remarks(self) -> tuple[str, ...]:
        """What to know beside the claims, each once."""
        return (*dict.fromkeys(t for claim in self.fairness for t in claim.remarks), *self.reasons)


def evaluate(
    deployed: Deployed,
    X: Any,
    y: ArrayLike | None,
    sensitive_features: ArrayLike | None,
    groups: Groups,
    settings: EvaluationSettings,
    source: NoiseSource,
) -> Evaluation:
    """Bound the differences between `groups` from held-out rows; other arguments as of `certify`.

    Raises a ValueError for rows and labels that do not fit together, unless counts are private.
    """
    held = ask_holdout(
        deployed, X, y, sensitive_features, groups, settings.private, settings.positive
    )
    table, labels = held.table, groups.labels
    strata = [notion.strata(held.classes, with_labels=held.labelled) for notion in settings.notions]
    if settings.private and held.labelled:
        strata = [
            tuple(stratum.beside_unlabelled(not notion.needs_labels) for stratum in of_notion)
            for notion, of_notion in zip(settings.notions, strata, strict=True)
        ]
    notions = tuple(zip(settings.notions, strata, strict=True))
    rests_on = held.assumptions(settings)
    if settings.count_epsilon is not None:
        noisy = table + source.discrete_laplace(settings.count_epsilon, table.shape)
        claims = [
            noisy_claim(notion, cells, table, noisy, labels, settings, rests_on)
            for notion, cells in notions
        ]
        noise = noise_variance(settings.count_epsilon)
        accuracy = Accuracy.of_table(noisy[:, : len(held.classes)], noise)
        return Evaluation(tuple(claims), None, accuracy=accuracy)
    claims = [exact_claim(n, cells, table, labels, settings, rests_on) for n, cells in notions]
    if not draws_afresh(deployed):  # else each row would be released once more, for an average
        claims += _averages(deployed, X, held, notions, settings)
    claims += downstream_claims(deployed, X, sensitive_features, held, notions, settings)
    return Evaluation(tuple(claims), int(table.sum()), accuracy=Accuracy.of_table(table))


def _averages(
    deployed: Deployed,
    X: Any,
    held: HeldOut,
    notions: NotionStrata,
    settings: EvaluationSettings,
) -> list[FairnessGuarantee]:
    """Bounds on rates averaged over the keys that a model's draws could have had."""
    final, groups = answers_of(deployed.final), held.groups
    if type(final)._success_scores is Certifiable._success_scores:
        return []  # nothing to ask; pushing rows through the steps might release them once more
    rows = deployed.transform(X)
    scores = final._success_scores(rows)
    if scores is None:
        return []
    own = final._own_models(groups.labels)
    settings = replace(settings, bounds_each=1 if own is None else 2)
    rests_on = (*held.assumptions(settings, AVERAGED_RATES), ERROR_APART)
    table = held.averaged(scores)
    claims = [exact_claim(n, c, table, groups.labels, settings, rests_on) for n, c in notions]
    if own is not None:
        # Every row is scored by the model of its own group, and else counted alike.
        own_table = held.averaged(own.scores(rows, groups.codes))
        claims += [
            own.claim(
                notion,
                stack(cells, own_table),
                groups=groups.labels,
                claims=settings.claims,
                confidence_level=settings.confidence_level,
                assumptions=rests_on,
            )
            for notion, cells in notions
        ]
    return claims
