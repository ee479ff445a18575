"""Protocol of estimators that certificates, searches and post-processing rely on."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skfairdp.fairness.guarantee import FairnessGuarantee
from skfairdp.privacy.guarantee import PrivacyGuarantee

# Arguments that every `certify` takes, and the result.
CERTIFY = """Parameters
----------
X : array-like, shape (n_rows, n_features), optional
    Held-out rows, as ``model.predict`` takes them.
y : array-like, shape (n_rows,), optional
    Their labels, not needed for demographic parity; of a regressor their targets, by which
    errors are measured.
sensitive_features : array-like, Series or DataFrame, optional
    Their groups, shape (n_rows,) or (n_rows, k); several columns form
    intersections. Rows with a missing value are outside the claim.
person_ids : array-like, shape (n_rows,), optional
    Whose row it is, where a person may have several: one of each, drawn by a hash of the id, is
    counted, for rows of one person are not independent. Rates are then weighted by person.
notion : str, Notion or list of them, default="demographic_parity"
    Notion to compare: "demographic_parity", "equal_opportunity",
    "equalized_odds", "accuracy_parity". Several share the error probability, so
    that all their bounds hold together. Of numbers: "distribution_gap", the largest
    Kolmogorov-Smirnov distance of predictions, for which "demographic_parity" stands too, and
    "mean_gap", the largest difference of means as a share of the range of ``target_bounds_``.
confidence_level : float in (0, 1), default=0.95
    Probability that the bounds hold.
bound : {"exact", "difference"}, default="exact"
    Bound for one pair of groups: an exact test, or Hoeffding's inequality, which is
    wider. Choose before seeing the predictions.
count_epsilon : float, optional
    Protects the held-out rows: all counts are released once with discrete Laplace
    noise at this cost, in nats, which is added to the model's own as `holdout`
    says. Without it, exact counts are stated, which takes ``holdout="public"``.
holdout : {"public", "per_record", "by_index", "by_person", "training"}, optional
    Required with rows, unless `count_epsilon` buys noisy counts. "public": the rows need no
    protection, and their exact counts may be published. Otherwise, with `count_epsilon`, how a
    record went to training or hold-out: by a draw of its own ("per_record"), so that the larger
    of the two costs counts; by its position ("by_index"), as in ``train_test_split``, so that
    they compose (default with `count_epsilon`); with its person ("by_person"), which needs
    `person_ids`. "training": these are the rows that the model was trained on. Their rates
    are then a remark without a bound, for `count_epsilon` more. See
    docs/theory/certificate.md.

Returns
-------
Certificate

Raises
------
sklearn.exceptions.NotFittedError
    When the model, or the best model of a search, is not fitted.
UnknownGroupError
    When a row's group is not one the model was fitted with.
ValueError
    When arguments contradict each other; when rows are given without `holdout` or
    `count_epsilon`; when the model was trained on these rows, as far as this process knows, and
    `holdout` does not say so.
"""

# What is found out about a model's arithmetic, while it is asked many times; None: nothing is kept.
FOUND_OUT: ContextVar[dict[Hashable, Any] | None] = ContextVar("FOUND_OUT", default=None)


@contextmanager
def asked_many_times() -> Iterator[None]:
    """Let what is found out about a model's arithmetic hold until the end of the block.

    In this thread, and for calls of the same kind alone: who keeps something states what it
    depends on.
    """
    before = FOUND_OUT.set({})
    try:
        yield
    finally:
        FOUND_OUT.reset(before)


class Certifiable:
    """The questions that a certificate asks a fitted estimator, each with an answer.

    The answers below promise nothing, and stand for every estimator of another library. A
    subclass overrides those to which it has another one. An override is a promise to the
    reader of a certificate: nothing checks that an answer is true, except that figures are
    computed again from the events and derivations that come with them.

    All estimators of this package are subclasses by `skfairdp.base.PrivateEstimator`, which
    also says what their fits left (`_changed_since_fit`).

    Attributes
    ----------
    _charges_privacy : bool
        Whether ``privacy_``, a `PrivacyGuarantee` or None after a fit, states what was spent
        on the rows that this estimator was fitted with. A step of a Pipeline that does not,
        and learns from rows, voids the Pipeline's privacy.
    _learns_from_rows : bool
        Whether a fit takes anything from the rows but the number of columns.
    _releases_representation : bool
        Whether what follows sees people through private releases of this step alone.
    _post_processes : str or None
        Name of the fitted attribute with the model whose answers this estimator changes; the
        training rows are those of that model.
    _group_blind : bool
        Whether it needs no groups although its methods take some.
    _draws_afresh : bool
        Whether two predictions of one row may differ.

    Examples
    --------
    >>> from sklearn.base import BaseEstimator, TransformerMixin
    >>> from skfairdp.protocol import Certifiable, answers_of
    >>> class Halves(Certifiable, TransformerMixin, BaseEstimator):
    ...     _learns_from_rows = False
    ...     def fit(self, X, y=None):
    ...         return self
    ...     def transform(self, X):
    ...         return X / 2
    >>> answers_of(Halves())._learns_from_rows, answers_of(object())._learns_from_rows
    (False, True)
    """

    privacy_: PrivacyGuarantee | None
    _charges_privacy: bool = False
    _learns_from_rows: bool = True
    _releases_representation: bool = False
    _post_processes: str | None = None
    _group_blind: bool = False
    _draws_afresh: bool = False

    def _mechanism_fairness(self, notion: str) -> list[FairnessGuarantee]:
        """Bounds on a notion's gap that are known before any evaluation."""
        return []

    def _success_scores(self, X: ArrayLike) -> NDArray[Any] | None:
        """Probability of the second class over the predictor's own randomness.

        None for a predictor without randomness that a key fixes.
        """
        return None

    def _own_models(self, labels: tuple[Any, ...]) -> Any:
        """Models of the groups `labels`, for a second bound on held-out rows, or None.

        See `skfairdp.fairness.bounds.rate_gaps.OwnModels`.
        """
        return None

    def _hidden_codes(self, X: ArrayLike, groups: ArrayLike) -> tuple[NDArray[Any], int, float]:
        """Codes and attenuation of a release of one code, for a bound on all predictors from it.

        The code of each row, the number of codes, and what randomised response leaves of a
        difference. One code for all, where nothing is released but by other means.
        """
        return np.zeros(0, dtype=np.int64), 1, 0.0

    def _changed_since_fit(self) -> tuple[str, ...]:
        """Changes since the fit, in words; a changed model has no guarantee."""
        return ("what its fit left was not noted",)


_SILENT = Certifiable()


def answers_of(step: object) -> Certifiable:
    """Return a step if its own class says that it answers; else one that promises nothing."""
    # Not isinstance: a wrapper may pass for the class of what it holds.
    return cast(Certifiable, step) if issubclass(type(step), Certifiable) else _SILENT
