"""Scorers that see the groups, for scikit-learn's searches and cross-validation."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.utils.metadata_routing import MetadataRequest

from skfairdp.fairness.number_notions import DISTRIBUTION_GAP, NUMBER_NOTIONS
from skfairdp.foundation.parameters import Choice, Number, WithParameters, check_values
from skfairdp.metrics.gaps import group_gap
from skfairdp.metrics.number_gaps import finite_numbers


class _GroupScorer(WithParameters):
    """A callable ``scorer(estimator, X, y)`` that scores rows together with their groups.

    The request for groups is written out because ``set_score_request`` raises while routing is
    off, and because scikit-learn reads ``__metadata_request__score`` only of classes that have a
    method `score`.

    Parameters
    ----------
    notion : str
        Notion to compare; see `group_gap`.
    pos_label : scalar or None
        Favourable label; None as in `group_gap`.
    sensitive_column : column label, list of them, or None
        Where to find the groups in `X` (a DataFrame) when no ``sensitive_features`` are routed,
        that is when scikit-learn's metadata routing is off. A list means intersections.
    """

    notion: str = field(default="demographic_parity", kw_only=False)
    pos_label: Hashable | None = None
    sensitive_column: Hashable | list[Hashable] | None = None

    def __call__(
        self, estimator: Any, X: Any, y: ArrayLike, *, sensitive_features: ArrayLike | None = None
    ) -> float:
        """Score a fitted estimator; larger is better. Without groups, or a gap, it raises."""
        groups = self._groups(X, sensitive_features)
        y_pred, classes = np.asarray(estimator.predict(X)), getattr(estimator, "classes_", None)
        how: dict[str, Any] = {"notion": self.notion, "pos_label": self.pos_label}
        gap = group_gap(y, y_pred, sensitive_features=groups, classes=classes, **how)
        return self._score(np.asarray(y), y_pred, gap)

    def _score(self, y_true: np.ndarray, y_pred: np.ndarray, gap: float) -> float:
        raise NotImplementedError

    def _groups(self, X: Any, sensitive_features: ArrayLike | None) -> ArrayLike:
        if sensitive_features is not None:
            return sensitive_features
        name = type(self).__name__
        if self.sensitive_column is None:
            raise ValueError(
                f"{name} got no sensitive_features and never scores all rows as one group. Either "
                "call sklearn.set_config(enable_metadata_routing=True) and pass "
                "sensitive_features= to the search, or name the column of X that holds the "
                f'groups: {name}(sensitive_column="...").'
            )
        if not isinstance(X, pd.DataFrame):
            raise ValueError(
                f"{name}(sensitive_column={self.sensitive_column!r}) reads a column of a "
                f"DataFrame; X is {type(X).__name__}. Pass X as a DataFrame."
            )
        named = self.sensitive_column
        if not set(named if isinstance(named, list) else [named]) <= {*X.columns}:
            raise ValueError(f"sensitive_column={named!r} is not in X, which has {list(X)!r}.")
        return X[named]

    def get_metadata_routing(self) -> MetadataRequest:
        """Declare to scikit-learn's router that this scorer takes ``sensitive_features``."""
        request = MetadataRequest(owner=self)
        request.score.add_request(param="sensitive_features", alias=True)
        return request

    def _accept_sample_weight(self) -> bool:
        # scikit-learn asks every scorer of a multi-metric search when it was given weights.
        return False


class GapScorer(_GroupScorer):
    """Minus the gap between groups: 0 is perfect, larger is better.

    Notes
    -----
    With ``sklearn.set_config(enable_metadata_routing=True)`` the scorer asks for
    ``sensitive_features`` by itself; without groups it raises. A score is without noise: a
    search that selects by it has read the rows, and no privacy guarantee covers that.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn.dummy import DummyClassifier
    >>> from skfairdp.metrics import GapScorer
    >>> X, y = pd.DataFrame({"sex": ["F", "F", "M", "M"]}), [0, 1, 0, 0]
    >>> model = DummyClassifier(strategy="most_frequent").fit(X, y)
    >>> GapScorer("accuracy_parity", sensitive_column="sex")(model, X, y)
    -0.5
    """

    def _score(self, y_true: np.ndarray, y_pred: np.ndarray, gap: float) -> float:
        return -gap


class AccuracyUnderGapScorer(_GroupScorer):
    """Accuracy of models whose gap is tolerable; all others rank below them.

    A model whose gap is at most `tolerance` scores its accuracy. Any other scores minus
    its excess, ``tolerance - gap < 0``, so that a search in which nothing is tolerable
    still moves towards smaller gaps.

    Parameters
    ----------
    tolerance : float, default=0.05
        Largest tolerable gap, in [0, 1].

    Notes
    -----
    The gap is the estimate on the scored rows, not a certified bound: a model chosen by
    it needs a certificate on rows that the search never saw.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn.dummy import DummyClassifier
    >>> from skfairdp.metrics import AccuracyUnderGapScorer
    >>> X, y = pd.DataFrame({"sex": ["F", "F", "M", "M"]}), [0, 1, 0, 0]
    >>> model = DummyClassifier(strategy="most_frequent").fit(X, y)
    >>> AccuracyUnderGapScorer(tolerance=0.1, sensitive_column="sex")(model, X, y)
    0.75
    """

    tolerance: float = 0.05

    def _score(self, y_true: np.ndarray, y_pred: np.ndarray, gap: float) -> float:
        if self.notion in NUMBER_NOTIONS:
            raise ValueError(
                f"notion={self.notion!r} compares numbers, which have no accuracy. Use "
                f"ErrorUnderGapScorer({self.notion!r}, tolerance=...)."
            )
        if not 0.0 <= self.tolerance <= 1.0:
            raise ValueError(f"tolerance must lie between 0 and 1; got {self.tolerance!r}.")
        return float(np.mean(y_true == y_pred)) if gap <= self.tolerance else self.tolerance - gap


class ErrorUnderGapScorer(_GroupScorer):
    """Errors of regressors whose gap is tolerable; all others rank below them.

    A model whose gap is at most `tolerance` scores ``c / (c + e)``, where e is its error on the
    scored rows and c that of the best constant answer to them: 1 without errors, 1/2 for the
    constant, and 0 where targets are all equal and some answer is wrong. Squared errors make it
    ``1 / (2 - R2)``. Any other model scores minus its excess, ``tolerance - gap < 0``.

    Parameters
    ----------
    notion : {"distribution_gap", "mean_gap"}, default="distribution_gap"
        Gap of predicted numbers; see `group_gap`.
    tolerance : float, default=0.1
        Largest tolerable gap: a Kolmogorov-Smirnov distance in [0, 1], or a difference of means in
        units of the predictions.
    error : {"absolute", "squared"}, default="absolute"
        Error whose mean is compared: with the median of the targets as the constant, or the mean.

    Notes
    -----
    The gap is the estimate on the scored rows, not a certified bound: a model chosen by it needs a
    certificate on rows that the search never saw. `PrivateSearchCV` has a tolerance of its own,
    and scores with noise.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn.dummy import DummyRegressor
    >>> from skfairdp.metrics import ErrorUnderGapScorer
    >>> X, y = pd.DataFrame({"sex": ["F", "F", "M", "M"]}), [1.0, 2.0, 3.0, 4.0]
    >>> model = DummyRegressor(strategy="median").fit(X, y)
    >>> ErrorUnderGapScorer(tolerance=0.1, sensitive_column="sex")(model, X, y)
    0.5
    """

    notion: str = field(default="distribution_gap", kw_only=False)
    tolerance: float = 0.1
    error: str = "absolute"

    def _score(self, y_true: np.ndarray, y_pred: np.ndarray, gap: float) -> float:
        largest = 1.0 if self.notion == DISTRIBUTION_GAP else math.inf
        check_values(
            notion=(self.notion, Choice((*NUMBER_NOTIONS,))),
            tolerance=(self.tolerance, Number(0.0, largest)),
            error=(self.error, Choice(("absolute", "squared"))),
        )
        if gap > self.tolerance:
            return self.tolerance - gap
        truth = finite_numbers(y_true, "y_true", f"notion={self.notion!r}")
        if self.error == "absolute":
            error, constant = np.abs(truth - y_pred).mean(), np.abs(truth - np.median(truth)).mean()
        else:
            error, constant = ((truth - y_pred) ** 2).mean(), truth.var()
        return float(constant / (constant + error)) if error > 0.0 else 1.0


demographic_parity_scorer = GapScorer("demographic_parity")
equal_opportunity_scorer = GapScorer("equal_opportunity")
equalized_odds_scorer = GapScorer("equalized_odds")
accuracy_parity_scorer = GapScorer("accuracy_parity")
