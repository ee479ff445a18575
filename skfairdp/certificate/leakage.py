"""What held-out rows show of a step that releases representations."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import _safe_indexing

from skfairdp.certificate.unwrap import Deployed, takes_groups
from skfairdp.fairness.bounds.leakage import classifier_lower_bound
from skfairdp.fairness.groups import encode_groups
from skfairdp.figures import as_given, rounded_down
from skfairdp.labels import count_rows

# Where a group has fewer held-out rows, a classifier cannot show anything.
_LEAST = 20


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
