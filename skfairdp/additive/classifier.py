"""A private glass box for two classes."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from skfairdp.additive.design import NORM
from skfairdp.additive.model import AdditiveModel
from skfairdp.additive.pairs import LOG_ODDS, Link, second_labels
from skfairdp.foundation.parameters import Number
from skfairdp.inprocessing.class_weights import CostSensitive
from skfairdp.preprocessing.levels import level_names

if TYPE_CHECKING:
    from skfairdp.additive.descent import Slopes
    from skfairdp.engine.release import Rows
    from skfairdp.inprocessing.gradient import Run


class DPAdditiveClassifier(AdditiveModel, CostSensitive):
    """Sum of one step function for each column, trained by private gradient descent.

    The score is an intercept and a number for each column, which depends on the bin or the
    category that the row has there. So every prediction can be read off the tables of
    ``shape_functions_``: the model is a glass box, and all that is read is post-processing of
    released weights. Bins come from declared bounds, or from the step before it in a Pipeline.

    Parameters
    ----------
    bounds : mapping of column to (low, high), (low, high) or None, default=None
        Declared bounds of the columns, as :class:`skfairdp.preprocessing.PublicBinner` takes
        them. None, without `categories` too, takes a table of levels from a ``PublicBinner`` or
        a ``PrivateTableEncoder`` as it is.
    categories : mapping of column to sequence of categories, or None, default=None
        Declared categories of the columns that are not numbers.
    n_bins : int, default=16
        Bins of each of the two scales (linear and logarithmic) between declared bounds.
    batch_size : int or "auto", default="auto"
        Expected records in a batch; "auto" is ``min(65536, ceil(n / 4))``.
    random_state : int, RandomState or None, default=None
        Used with `reproducible_noise` only.

    Attributes
    ----------
    intercept_ : float
        Score where every column contributes nothing.
    levels_ : tuple of (str, Intervals or Categories)
        Name and levels of each column.
    shape_functions_ : dict from str to DataFrame
        For each column its levels and what each contributes to the score. Contributions of a column
        are centred: their mean over its levels, a missing value included, is 0. (A mean over rows
        would have to be bought.) For each chosen pair, by the name "a × b", a map: cells of the
        one column in the index, of the other in the columns. Its rows and columns have the mean 0
        if cells count by their noisy numbers of rows.

    See Also
    --------
    skfairdp.PrivateTableEncoder : Learns bins and categories under ε.

    Notes
    -----
    A row has one entry for each column at each of several resolutions, in which 4, 16 …
    neighbouring bins are one, and all entries have one size, so that every row has the norm 4
    and the gradient of the logistic loss at most √17. Noise averages where many bins move
    together, and edges stay sharp where there are enough rows. No rate is to be chosen: each step
    goes a part of the way to the posterior mean of the weights, and how far they are shrunk
    follows from the noise, which is known, and from noisy counts of the levels, for which a tenth
    of the budget is spent: see ``docs/theory/additive.md``. Two classes only.

    `max_grad_norm` clips the derivative of a record's loss by the score, at 2.0616 to a half. The
    sign of a score stays what it is without clipping; chances follow from scores by the clipped
    loss, so that the score is not their log-odds.

    References
    ----------
    H. Nori, R. Caruana, Z. Bu, J. H. Shen and J. Kulkarni, "Accuracy, Interpretability, and
    Differential Privacy via Explainable Boosting", ICML 2021, for what it is compared with:
    there bins are bought and trees are boosted; here a convex problem is solved.

    Examples
    --------
    >>> import numpy as np
    >>> from skfairdp import DPAdditiveClassifier
    >>> X = np.random.default_rng(0).uniform(size=(3000, 2))
    >>> model = DPAdditiveClassifier((0, 1), n_bins=8).fit(X, X[:, 0] > 0.5)
    >>> model.explain(X[:2]).columns.tolist()
    ['intercept', 'x0', 'x1']
    >>> bool(model.privacy_.epsilon <= 1.0)
    True
    """

    _multiclass = False
    _predicts = "score"
    _prior = 0.5

    @property
    def _limit(self) -> float:
        """Largest derivative of a record's loss by the score: the rest is clipped."""
        return min(float(self.max_grad_norm) / math.sqrt(NORM**2 + 1.0), 1.0)

    @property
    def _with_gradients(self) -> slice:  # type: ignore[override]
        return slice(-1) if self.costs is not None and self.threshold_share > 0.0 else slice(None)

    def _train(self, run: Run) -> None:
        super()._train(run)
        if self.costs is not None:
            self._choose_threshold(run)

    def _slopes(self) -> Slopes:
        from skfairdp.additive.descent import Slopes, clipped_logistic

        limit = self._limit
        largest = 0.25 if limit >= 0.5 else limit * (1.0 - limit)
        return Slopes(partial(clipped_logistic, limit), largest)

    def _labels_of_pairs(self, run: Run) -> tuple[Callable[[Rows], NDArray[np.bool_]], Link]:
        return second_labels, LOG_ODDS

    def decision_function(self, X: ArrayLike) -> np.ndarray:
        """Add up the intercept and the contribution of each column.

        Returns
        -------
        ndarray of float64, shape (n_samples,)
            Scores; above 0 the second class is predicted. Without `costs` that is the likelier
            class. With `costs`, the score of a chance of ``threshold_`` is subtracted.
        """
        score = self._scores(X)
        threshold = vars(self).get("threshold_")
        return score if threshold is None else score - self._score_at(threshold)

    def predict_proba(self, X: ArrayLike) -> np.ndarray:
        return self._chances(self._scores(X))

    def _scores(self, X: ArrayLike) -> np.ndarray:
        return self._sums_of_parts(X)

    def _chances(self, score: np.ndarray) -> np.ndarray:
        # Of a record that is surely wrong, the clipped derivative is the limit, not 1: chances
        # are those at which the clipped derivatives of both labels cancel.
        limit = max(self._limit, 0.5)
        first, second = (np.minimum(expit(sign * score), limit) for sign in (-1.0, 1.0))
        return np.column_stack([first, second]) / (first + second)[:, None]

    def _score_at(self, chance: float) -> float:
        """Score of a chance: the inverse of `_chances`."""
        limit = max(self._limit, 0.5)
        sign, odds = (1.0, chance / (1.0 - chance)) if chance >= 0.5 else (-1.0, 1.0 / chance - 1.0)
        clipped = odds > limit / (1.0 - limit) if limit < 1.0 else False
        return sign * math.log(odds / limit - 1.0 if clipped else odds)

    def _asked(self, run: Run, X: Any) -> np.ndarray:
        from skfairdp.engine.inference import outputs_by_row

        score = outputs_by_row(run.prepared.module, X).reshape(-1).double().cpu().numpy()
        return np.asarray(self._chances(score)[:, 1])

    def reason_codes(self, X: ArrayLike, n: int = 4) -> pd.DataFrame:
        """Name the columns, or pairs of them, that contribute most to the first class, row by row.

        Parameters
        ----------
        X : array-like or DataFrame, shape (n_samples, n_features)
            Rows to explain.
        n : int, default=4
            Most reasons for a row.

        Returns
        -------
        DataFrame of str, shape (n_samples, n)
            The columns with the lowest contributions, lowest first, each with the row's level;
            empty where no further column contributes less than 0.
        """
        if not Number(1, integer=True).accepts(n):
            raise ValueError(f"'n' must be an integer of at least 1; got {n!r}.")
        parts = self.explain(X).drop(columns="intercept")
        found = self._design.codes(self._known(X))
        said = [
            np.array([f"{name}: {one}" for one in level_names(level.dtype(), name)], object)[codes]
            for (name, level), codes in zip(self.levels_, found, strict=True)
        ]
        for pair in self._design.pairs:
            first, second = pair.columns
            said.append(said[first] + ", " + said[second])
        words = np.column_stack(said)
        values = parts.to_numpy()
        order = np.argsort(values, axis=1, kind="stable")[:, :n]
        reasons = np.take_along_axis(words, order, axis=1)
        reasons[np.take_along_axis(values, order, axis=1) >= 0.0] = ""
        columns = [f"reason {i + 1}" for i in range(reasons.shape[1])]
        return pd.DataFrame(reasons, index=parts.index, columns=columns)
