"""One private model for each group, each trained on its own group's rows alone."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone

from skfairdp.base import PrivateEstimator
from skfairdp.foundation.assumptions import CLOSED_SETS, MODEL_EACH, closed_sets
from skfairdp.privacy.accounting.exposure import Exposure
from skfairdp.privacy.guarantee import PrivacyGuarantee
from skfairdp.privacy.sizes import check_group_sizes
from skfairdp.receipts import Charge, Quote, RowFacts
from skfairdp.receipts.quoted import NOISELESS, priced
from skfairdp.receipts.unwrap import charges_privacy
from skfairdp.records import Given
from skfairdp.records.groups import Groups, groups_of_training

# An estimator of one group, and the rows and labels that it will be fitted on.
GroupPart = tuple[Any, np.ndarray, np.ndarray]

UNREADABLE = (
    "'estimator' must be a classifier whose parameters can be read: one trained by gradients whose "
    "answers are those of one net, a FunctionalMechanismClassifier, or a linear model of "
    "scikit-learn; got {}."
)


def group_parts(
    model: Any, X: np.ndarray, codes: np.ndarray, sensitive_features: Any, seed: int
) -> tuple[Groups, list[GroupPart]]:
    """Hand a clone of a `SmoothedClassifier`'s estimator the rows of each group; none is fitted.

    `codes` (n,): of classes, 0 and 1; negative for rows of no class. `seed`: same initial
    weights for all clones, as the average of nets that began elsewhere is not a net. Result: the
    groups, and a part for each.
    """
    sizes = None if model.group_sizes is None else check_group_sizes(model.group_sizes)
    groups = groups_of_training(sensitive_features, len(X), None if sizes is None else [*sizes])
    if sizes is None and len(groups.labels) < 2:
        raise ValueError(
            "training='per_group' needs at least two groups in sensitive_features; got one."
        )
    parts = []
    for code, label in enumerate(groups.labels):
        inner = _of_group(model, None if sizes is None else sizes[label], seed)
        member = groups.codes == code
        rows, targets = X[member], codes[member]
        if sizes is not None:
            # Two rows without a class contribute nothing: a declared group that has no rows,
            # or one fewer than its neighbour, trains like any other.
            rows = np.concatenate([rows, np.zeros_like(X, shape=(2, *X.shape[1:]))])
            targets = np.append(targets, [-1, -1])
        parts.append((inner, rows, targets))
    return groups, parts


def _of_group(model: Any, size: int | None, seed: int) -> Any:
    """Clone the estimator for one group of a declared size, or of one that its rows show."""
    inner = clone(model.estimator)
    known = inner.get_params(deep=False)
    # Every clone would charge a ledger as if all of them shared their rows.
    settings: dict[str, Any] = {"classes": [0, 1], "random_state": seed, "ledger": None}
    if size is not None:
        settings["dataset_size"] = max(2, size)
    return inner.set_params(**{name: v for name, v in settings.items() if name in known})


def refuse_unreadable(estimator: Any) -> None:
    """Refuse models that are not classifiers, or have parameters that cannot be smoothed."""
    if not all(hasattr(estimator, name) for name in ("fit", "predict", "get_params")):
        raise ValueError(
            "The 'estimator' parameter of SmoothedClassifier must be a classifier with fit and "
            f"predict; got {estimator!r}."
        )
    if hasattr(estimator, "steps") or hasattr(estimator, "cv_results_"):
        raise ValueError(
            f"'estimator' must be the classifier itself, not a {type(estimator).__name__} around "
            "it: put SmoothedClassifier at the end of the Pipeline, or search over it."
        )
    if hasattr(estimator, "smoothing"):
        raise ValueError(f"{type(estimator).__name__} smooths its own head: set its 'smoothing'.")
    # For estimators of other packages nothing is charged before the fitted parameters are read.
    ours = isinstance(estimator, PrivateEstimator)
    if ours and getattr(estimator, "costs", None) is not None:
        raise ValueError(
            "SmoothedClassifier answers by smoothed scores, for which the threshold of 'costs' is "
            "not chosen: leave 'costs' out of 'estimator'."
        )
    if ours and not getattr(estimator, "_decides_by_parameters", False):
        raise ValueError(UNREADABLE.format(type(estimator).__name__))


def refuse_unfit(estimator: Any, *, sizes_declared: bool) -> None:
    """Refuse an estimator that can't be trained a group at a time."""
    known = estimator.get_params(deep=False)
    serves = getattr(estimator, "_needs_groups", None)
    if serves is not None:
        raise ValueError(
            "training='per_group' trains on one group at a time, but 'estimator' "
            f"({type(estimator).__name__}) compares groups in training ({serves}); set "
            "training='together', or take an estimator that trains without groups."
        )
    if "X_public" in inspect.signature(estimator.fit).parameters:
        raise ValueError(
            f"'estimator' must learn from a group's rows alone, but {type(estimator).__name__} "
            "asks public rows."
        )
    for name, value in estimator.get_params().items():
        if name.endswith("__ledger") and value is not None:
            raise ValueError(
                f"'estimator' sets {name}, which every clone would charge by itself, though a "
                f"record meets one of them; set 'ledger' of {type(estimator).__name__} itself."
            )
    if sizes_declared and "classes" not in known:
        raise ValueError(
            f"'group_sizes' is for estimators with declared 'classes'; {type(estimator).__name__} "
            "has no such parameter, and would take rows that stand for no person for a class."
        )
    for name in ("dataset_size", "group_sizes"):
        if known.get(name) is not None:
            raise ValueError(
                f"'estimator' sets {name}={known[name]!r}, but every clone sees one group; declare "
                "'group_sizes' here and leave it at None."
            )


def parallel_quote(model: Any, facts: RowFacts) -> Quote:
    """Price models of disjoint groups, from the sizes of the groups."""
    assert facts.groups is not None
    sizes = None if model.group_sizes is None else check_group_sizes(model.group_sizes)
    parts = []
    if charges_privacy(model.estimator):
        for label, n in zip(facts.groups.labels, facts.groups.counts.tolist(), strict=True):
            inner = _of_group(model, None if sizes is None else sizes[label], 0)
            parts.append(priced(inner, replace(facts, n=max(1, n), groups=None, unit="record")))
    stated = parallel_statement(
        model.estimator,
        [part.privacy for part in parts],
        facts.groups.labels,
        classes_declared=getattr(model.estimator, "classes", None) is not None,
        groups_declared=sizes is not None,
    )
    name, charge = type(model).__name__, stated or NOISELESS
    return Quote(name, facts, stated, charge=charge, steps=tuple(parts))


def fit_parts(
    parts: Sequence[GroupPart], stated: PrivacyGuarantee | None, charge: Charge
) -> Iterator[Any]:
    """Fit the model of each group; all of them are one charge, `stated`, before the first."""
    for inner, rows, targets in parts:
        if charges_privacy(inner):
            yield inner._fit_under(
                Given(rows, targets), Charge(inner, within=charge, stated=stated)
            )
        else:
            charge(stated)
            yield inner.fit(rows, targets)


def also_assumed(stated: PrivacyGuarantee | None, models: Sequence[Any]) -> PrivacyGuarantee | None:
    """Add what the fitted models assume beyond their quotes, such as how products are computed."""
    if stated is None or stated.is_void:
        return stated
    found = dict.fromkeys(text for model in models for text in model.privacy_.assumptions)
    new = [text for text in found if text not in (*stated.assumptions, *CLOSED_SETS)]
    return replace(stated, assumptions=(*stated.assumptions, *new))


def parallel_statement(
    estimator: Any,
    stated: Sequence[PrivacyGuarantee | None],
    labels: tuple,
    *,
    classes_declared: bool,
    groups_declared: bool,
) -> PrivacyGuarantee | None:
    """State the guarantee of models of disjoint groups together; `stated` is that of each.

    A record is in one group, and under the relations used here it stays there, so it meets
    one model: the largest figure holds for all people.

    Result: none after ``epsilon=inf``; void if one of them is, or is not one of this package, or
    if it protects the group: whose rows train which model is then decided without noise.
    """
    if not charges_privacy(estimator):
        return PrivacyGuarantee.void(
            f"{type(estimator).__name__} is not an estimator of skfairdp: nothing bounds what it "
            "reveals about its training rows."
        )
    bounded = [item for item in stated if item is not None]
    if len(bounded) < len(stated):
        return None
    void = next((item for item in bounded if item.is_void), None)
    if void is not None:
        return void
    first = bounded[0]
    if first.protects != "record":
        return PrivacyGuarantee.void(
            f"{type(estimator).__name__} protects the group of each person, but every group's "
            "model was trained on just the rows of that group, without noise on who they are",
            adjacency=first.adjacency,
            protects=first.protects,
        )
    each = list(zip(labels, bounded, strict=True))
    same = len({repr(item.event) for item in bounded}) == 1
    return replace(
        first,
        epsilon=max(item.epsilon for item in bounded),
        delta=max(item.delta for item in bounded),
        per_group={label: item.epsilon for label, item in each},
        # Groups of different size have different events; then epsilon and delta compose.
        event=first.event if same else None,
        exposures=tuple(
            Exposure(item.event, (label,)) for label, item in each if item.event is not None
        ),
        assumptions=(
            *closed_sets(labels=classes_declared, groups=groups_declared),
            MODEL_EACH,
            # What was declared to a clone was declared by us.
            *(text for text in first.assumptions if text not in CLOSED_SETS),
        ),
    )
