"""What held-out rows show of a step that releases representations."""

from __future__ import annotations

import math
from itertools import compress
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import _safe_indexing

from skfairdp import assumptions
from skfairdp.certificate.counted_claims import cell_counts, counted_claim, stack
from skfairdp.certificate.evaluation_settings import EvaluationSettings
from skfairdp.certificate.holdout import HeldOut, NotionStrata
from skfairdp.certificate.steps import takes_groups
from skfairdp.certificate.unwrap import Deployed
from skfairdp.fairness.bounds.leakage import classifier_lower_bound
from skfairdp.fairness.bounds.total_variation import total_variation, total_variation_bound
from skfairdp.fairness.derivation import TOTAL_VARIATION
from skfairdp.fairness.groups import encode_groups
from skfairdp.fairness.guarantee import FairnessGuarantee
from skfairdp.fairness.notions import Stratum
from skfairdp.fairness.scopes import DOWNSTREAM_LIKE
from skfairdp.figures import as_given, rounded_down, rounded_up
from skfairdp.labels import count_rows
from skfairdp.protocol import answers_of

# Where a group has fewer held-out rows, a classifier cannot show anything.
_LEAST = 20


def downstream_claims(
    deployed: Deployed,
    X: Any,
    sensitive_features: Any,
    held: HeldOut,
    notions: NotionStrata,
    settings: EvaluationSettings,
) -> list[FairnessGuarantee]:
    """Bounds on what anybody can predict from the one code that is released of a person."""
    place, release = deployed.release
    inside = np.flatnonzero(held.groups.codes >= 0)
    if release is None or not len(inside):
        return []
    if release is not deployed.final and deployed.group_aware:
        return []  # what also sees the group sees more than a code
    rows = deployed.transform(_safe_indexing(X, inside), before=place)
    given = _safe_indexing(sensitive_features, inside)
    hidden, n_codes, attenuation = answers_of(release)._hidden_codes(rows, given)
    if n_codes < 2:
        return []
    shape = (*held.shape[:2], n_codes)
    codes = held.cells[inside] * n_codes + hidden
    table = np.bincount(codes, minlength=math.prod(shape)).reshape(shape)
    how = assumptions.CODES_COUNTED.format(left=rounded_up(attenuation, 4))
    texts = (assumptions.NOT_FITTED_ON, assumptions.ERROR_APART)
    rests_on = (*held.assumptions(settings, how), *texts)
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
        found.append(
            counted_claim(
                notion,
                settings,
                TOTAL_VARIATION,
                {"attenuation": attenuation, "n_codes": n_codes},
                bound=attenuation * bound,
                scope=DOWNSTREAM_LIKE,
                method="total variation of one code, by an exact test of each event",
                estimate=attenuation * total_variation(counts),
                groups=held.groups.labels,
                counts=cell_counts(strata, held.groups.labels, hits, hits + misses),
                assumptions=(*rests_on, assumptions.ONE_CODE.format(hidden=rounded_up(bound))),
            )
        )
    return found


def leakage_remarks(
    deployed: Deployed, X: Any, sensitive_features: ArrayLike | None, confidence_level: float
) -> tuple[str, ...]:
    """Measure how much a release of held-out rows tells about the group.

    The rows must need no protection; those without a group are left out. Empty for a model that
    releases nothing.
    """
    place, release = deployed.release
    if release is None or sensitive_features is None:
        return ()
    groups = encode_groups(sensitive_features, n_rows=count_rows(X), on_missing="drop")
    inside = np.flatnonzero(groups.codes >= 0)
    if len(groups.labels) < 2 or groups.counts.min() < _LEAST:
        return (
            "How much a release tells about the group was not measured: that needs two groups, "
            f"and {_LEAST} held-out rows of each.",
        )
    rows = deployed.transform(_safe_indexing(X, inside), before=place)
    seen = takes_groups(release, "transform")
    given = {"sensitive_features": _safe_indexing(sensitive_features, inside)} if seen else {}
    Z = release.transform(rows, **given)
    measured = classifier_lower_bound(
        np.asarray(Z), groups.codes[inside], confidence_level=confidence_level, random_state=0
    )
    return (
        f"Measured on {len(inside)} held-out rows: with {as_given(confidence_level)} confidence a "
        f"release tells at least {rounded_down(measured.lower_bound or 0.0, 4)} nats about the "
        f"group (estimate {measured.value:.4f}), shown by a classifier that guesses it; this "
        "confidence is apart from that of other claims.",
    )
