"""Upper bound on the information about a group in a released representation."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from skfairdp.fairness.bounds.binomial_cells import Floats, Ints, clopper_pearson
from skfairdp.fairness.information import MutualInformation, nats_per, numeric_rows
from skfairdp.foundation.parameters import PROBABILITY, check_values
from skfairdp.records.groups import Groups, encode_groups

# Shares of the prior in the mixed prediction that are tried; one is chosen on training rows.
_SHARES = (0.02, 0.05, 0.1, 0.2, 0.4, 0.7, 0.95)


def classifier_lower_bound(
    Z: ArrayLike,
    s: ArrayLike | pd.Series | pd.DataFrame,
    *,
    classifier: Any = None,
    confidence_level: float = 0.95,
    test_size: float = 0.5,
    units: str = "nats",
    random_state: int | None = None,
) -> MutualInformation:
    """Bound I(S; Z) from below by a classifier's accuracy in predicting the group of held-out rows.

    Parameters
    ----------
    Z : array-like of shape (n_rows, ...)
        Numeric representation; further axes are flattened.
    s : array-like, Series or DataFrame of shape (n_rows,) or (n_rows, k)
        Groups; several columns are intersected.
    classifier : estimator or None, default=None
        Anything with ``fit`` and ``predict_proba``; it is cloned. None takes a small gradient
        boosting. A bad one gives a weak bound, never a false one.
    confidence_level : float in (0, 1), default=0.95
        Probability, over the draw of all rows, that the bound holds.
    test_size : float in (0, 1), default=0.5
        Share of the rows that the bound is computed on.
    units : {"nats", "bits"}, default="nats"
        Unit of the result.
    random_state : int or None, default=None
        Seed of the split and of the default classifier.

    Returns
    -------
    MutualInformation
        `value` estimates H(S) - cross-entropy, which is at most I(S; Z); `lower_bound` is the
        bound, never below 0.

    Raises
    ------
    ValueError
        For fewer than two groups, a group with fewer than 20 rows, non-finite or non-numeric
        `Z`, or an argument outside what is allowed.

    Notes
    -----
    Rows must be i.i.d., all groups must occur in `s`, and an encoder must have been trained on
    other rows. docs/theory/information.md derives the bound.

    References
    ----------
    Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting", Journal of
    the Royal Statistical Society B 86 (2024).

    Examples
    --------
    >>> import numpy as np
    >>> from skfairdp.metrics import classifier_lower_bound
    >>> s = np.tile([0, 1], 500)
    >>> bound = classifier_lower_bound(s[:, None] + 0.0, s, units="bits", random_state=0)
    >>> 0.5 < bound.lower_bound < 1.0
    True
    """
    from sklearn.model_selection import train_test_split  # so that no certificate loads it

    nats_per(units)
    check_values(
        confidence_level=(confidence_level, PROBABILITY), test_size=(test_size, PROBABILITY)
    )
    error = 1.0 - confidence_level
    rows, groups = numeric_rows(Z), encode_groups(s, n_rows=len(np.asarray(Z)), name="s")
    _enough(groups)
    fresh = partial(np.random.RandomState, random_state)
    # Not stratified: strata would tie the held-out shares to the training shares.
    train, test = train_test_split(np.arange(len(rows)), test_size=test_size, random_state=fresh())
    codes, n_groups = groups.codes, len(groups.labels)
    seen = np.bincount(codes[train], minlength=n_groups) + 0.5
    prior: Floats = seen / seen.sum()
    model = clone(classifier) if classifier is not None else _default_classifier(random_state)
    fitting, tuning = train_test_split(
        train, test_size=1 / 3, stratify=codes[train], random_state=fresh()
    )
    guess = _predicted(model, rows, groups, fitting, tuning)
    share = max(
        _SHARES,
        key=lambda w: _promise(
            _gains(guess, prior, codes[tuning], w), _width(prior, w), error / 2, len(test)
        ),
    )
    guess = _predicted(clone(model), rows, groups, train, test)
    gains = _gains(guess, prior, codes[test], share)
    held_out = np.bincount(codes[test], minlength=n_groups) / len(test)
    unclipped = float(gains.mean() - _divergence(held_out, prior).sum())
    lowest, width = math.log(share), _width(prior, share)
    # Half of the error is for the mean of the gains, half for the shares of the groups.
    mean = _mean_below(np.clip((gains - lowest) / width, 0.0, 1.0), error / 2)
    bound = lowest + width * mean - _prior_error(groups.counts, prior, error / 2)
    return MutualInformation(
        value=max(0.0, unclipped),
        method="classifier",
        units="nats",
        reason=(
            f"Lower bound: entropy of s minus the cross-entropy of a classifier on {len(test)} "
            "held-out rows; valid for every representation, weak where the classifier is."
        ),
        n_rows=len(rows),
        unclipped=unclipped,
        lower_bound=max(0.0, bound),
        confidence_level=float(confidence_level),
    ).to(units)


def held_out_prediction(
    rows: Floats, groups: Groups, *, random_state: int | None
) -> tuple[Floats, Ints]:
    """Positive probabilities of the groups for half of the rows, and the positions of that half."""
    from sklearn.model_selection import train_test_split

    _enough(groups)
    train, test = train_test_split(
        np.arange(len(rows)), test_size=0.5, random_state=np.random.RandomState(random_state)
    )
    guess = _predicted(_default_classifier(random_state), rows, groups, train, test)
    return 0.95 * guess + 0.05 / len(groups.labels), test


def _enough(groups: Groups) -> None:
    if len(groups.labels) < 2:
        raise ValueError(f"s has {len(groups.labels)} group(s); information needs at least two.")
    if groups.counts.min() < 20:
        rare = groups.labels[int(np.argmin(groups.counts))]
        raise ValueError(f"s has a group with fewer than 20 rows ({rare!r}); merge it or add rows.")


def _default_classifier(random_state: int | None) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(
        max_iter=60, max_leaf_nodes=8, learning_rate=0.1, early_stopping=False,
        random_state=np.random.RandomState(random_state),
    )  # fmt: skip


def _predicted(model: Any, rows: NDArray, groups: Groups, train: NDArray, test: NDArray) -> Floats:
    """Probabilities with a column for every group, also for one that training rows lack."""
    model.fit(rows[train], groups.codes[train])
    full = np.zeros((len(test), len(groups.labels)))
    full[:, model.classes_] = model.predict_proba(rows[test])
    return full


def _gains(guess: Floats, prior: Floats, codes: Ints, share: float) -> Floats:
    """Log of predicted over prior probability of the true group, nats, shape (n_rows,)."""
    right = np.clip(guess[np.arange(len(codes)), codes], 0.0, 1.0)
    return np.log((1.0 - share) * right / prior[codes] + share)


def _width(prior: Floats, share: float) -> float:
    """Width of the interval from log(share) on that gains lie in, nats."""
    return float(np.log((1.0 - share) / prior.min() + share) - np.log(share))


def _promise(gains: Floats, width: float, error: float, n_rows: int) -> float:
    """Approximate bound on the mean with `n_rows` like these; only used to choose."""
    cost = math.log(1.0 / error) / n_rows
    return float(gains.mean() - math.sqrt(2.0 * gains.var() * cost) - width * cost / 3.0)


def _mean_below(values: Floats, error: float) -> float:
    """Largest mean of values in [0, 1] that a bet refutes: see docs/theory/information.md."""
    n = len(values)
    seen = np.arange(1, n + 1)
    means = (0.5 + np.cumsum(values)) / (seen + 1)
    before = np.append(0.25, ((0.25 + np.cumsum((values - means) ** 2)) / (seen + 1))[:-1])
    stakes = np.minimum(np.sqrt(2.0 * math.log(1.0 / error) / (n * before)), 0.9)
    low, high = 0.0, 1.0
    # The fortune falls with m: halve the interval, and keep the end at which the claim is refuted.
    for _ in range(50):
        middle = (low + high) / 2
        fortune = np.cumsum(np.log1p(stakes * (values - middle))).max()
        low, high = (middle, high) if fortune >= math.log(1.0 / error) else (low, middle)
    return low


def _divergence(p: Floats, r: Floats) -> Floats:
    """Terms of the generalised Kullback-Leibler divergence, nats."""
    return np.where(p > 0, p * np.log(np.maximum(p, 1e-300) / r), 0.0) - p + r


def _prior_error(counts: Ints, prior: Floats, error: float) -> float:
    """Upper confidence bound on KL(p_S || prior), nats."""
    # With two groups one interval says all, for the shares sum to one.
    intervals = 1 if len(counts) == 2 else len(counts)
    lower, upper = clopper_pearson(counts, counts.sum() - counts, error / (2 * intervals))
    return float(np.maximum(_divergence(lower, prior), _divergence(upper, prior)).sum())
