"""Search over parameters at a known cost: the best of a random number of candidates."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import is_regressor
from sklearn.metrics import r2_score
from sklearn.utils import RegressorTags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from skfairdp.base import PrivateClassifier
from skfairdp.base.predictors import FRESH_FITS, FRESH_REGRESSIONS, expecting
from skfairdp.exceptions import PrivacyWarning, warn_user
from skfairdp.fairness.notions import NOTIONS, Notion, get_notion
from skfairdp.fairness.number_notions import NUMBER_NOTIONS, get_number_notions
from skfairdp.foundation.assumptions import (
    LABELS_PUBLIC,
    ONE_TABLE_EACH,
    SET,
    SETS_PUBLIC,
    TABLES_OF_NUMBERS,
    TARGET_BOUNDS_DECLARED,
)
from skfairdp.foundation.figures import significant_down
from skfairdp.foundation.parameters import (
    MAPPING,
    NONE,
    PROBABILITY,
    SEQUENCE,
    Choice,
    Kind,
    Number,
    check_parameters,
)
from skfairdp.model_selection import candidates
from skfairdp.model_selection.budget import SearchBudget, search_budget
from skfairdp.model_selection.holding_out import divide
from skfairdp.model_selection.number_of_runs import NumberOfRuns
from skfairdp.model_selection.number_scores import ABSOLUTE, SQUARED
from skfairdp.privacy.noise import NoiseSource
from skfairdp.privacy.plan import Plan
from skfairdp.receipts import Charge, Quote, Receipt, RowFacts
from skfairdp.receipts.quoted import NOISELESS
from skfairdp.records import Given


class PrivateSearchCV(PrivateClassifier):
    """Random search whose whole cost, choice included, meets one privacy budget.

    Each record is assigned to training or hold-out by its own draw, or each person with all rows,
    of which one is held out. A random number of
    candidates, drawn independently from a fixed prior, are trained with noise on the
    first part and scored by noisy counts of the second. The best one is released, and
    nothing about the others: neither their scores nor how many there were. Papernot and
    Steinke showed that this costs far less than all the fits together.

    Parameters
    ----------
    estimator : private classifier or regressor, or Pipeline that ends in one
        What is searched over; trains on noisy gradients and protects records, such as
        `skfairdp.DPSGDClassifier`. A regressor declares `target_bounds`, between which errors are
        compared. Its own epsilon, delta and noise multiplier are not
        used. Its plan, with the parameters it has here, is the one event that all
        candidates are charged as; others get the noise that keeps them below it. Give it
        the smallest batch size of the search, or small batches get more noise than they
        need. Earlier steps must learn nothing from rows.
    param_distributions : mapping of str to list or scipy distribution, or list of mappings
        The prior, as in scikit-learn's RandomizedSearchCV; drawn with replacement.
    n_iter : float >= 1, default=10
        Expected number of candidates. Their actual number is random, secret and without
        an upper limit: a geometric one with mean 10 is above 43 once in a hundred searches.
    shape : float >= 0, default=1
        Shape of the (truncated negative binomial) distribution of the number of
        candidates: 1 is geometric; 0 is logarithmic, cheaper for the same mean, and half
        of the searches then run at most 4 candidates.
    epsilon : float, default=1.0
        Budget of the whole search in nats, at least 0.01. Infinity searches without noise.
    scoring : str or None, default=None
        What is maximised. Of classes: "accuracy", the default, or "roc_auc" (of two), from noisy
        counts. Of numbers: "neg_mean_absolute_error", the default, or "neg_mean_squared_error",
        from noisy sums of errors, where targets are clipped to `target_bounds`.
    tolerance : float or None, default=None
        Largest acceptable noisy gap between groups, in [0, 1]. Among candidates that
        keep it the best score wins; if none does, the smallest gap. None: no limit.
    notion : str or Notion, default="demographic_parity"
        Which gap: a name of `skfairdp.fairness.notions.NOTIONS`, or your own notion. Of numbers:
        "distribution_gap" (the default means it too), at 15 even thresholds between the bounds,
        or "mean_gap", as a share of the range of the bounds.
    holdout_fraction : float, default=0.25
        Chance of each record to be held out for scoring.
    score_epsilon : float or None, default=None
        Pure cost of one table of held-out counts. None takes the most that leaves the
        search as cheap for held-out records as for training ones; more is refused.
    ledger : None, path or PrivacyLedger, default=None
        Where the search is charged, once and before it uses rows.

    Attributes
    ----------
    best_estimator_ : estimator or Pipeline
        The chosen model, trained on the training part alone.
    best_params_ : dict
        Its searched parameters.
    best_score_ : float
        Its noisy score; flattering, because it won by it. Of numbers in units of the target, or
        in squares of them.
    best_gap_ : float or None
        Its noisy gap, where there are groups; of numbers only with a `tolerance`.
    noisy_counts_ : ndarray of int64, shape (n_groups, n_labels, n_classes, n_bins), or dict
        The noisy table behind both. Of numbers: "errors", shape (2,), in units of 1/1024 record,
        and with a `tolerance` "predictions", shape (n_groups, 16), in records, or (n_groups, 2) of
        means, in units of 1/1024 record.
    score_epsilon_ : float
        Pure cost of the table, or of both together.

    References
    ----------
    Papernot and Steinke, "Hyperparameter Tuning with Renyi Differential Privacy", ICLR 2022
    (arXiv 2110.03620), theorem 2; accounted by dp_accounting's ``RepeatAndSelectDpEvent``.

    Examples
    --------
    >>> from skfairdp import DPSGDClassifier
    >>> from skfairdp.datasets import make_biased_gaussians
    >>> from skfairdp.model_selection import PrivateSearchCV
    >>> data = make_biased_gaussians(n_samples=2000, random_state=0)
    >>> search = PrivateSearchCV(
    ...     DPSGDClassifier(max_epochs=2), {"max_grad_norm": [0.3, 1.0]}, n_iter=2, tolerance=0.2
    ... )
    >>> _ = search.fit(data.data, data.target, sensitive_features=data.sensitive_features)
    >>> bool(search.privacy_.epsilon <= 1.0), sorted(search.best_params_)
    (True, ['max_grad_norm'])
    """

    estimator: Any = field(kw_only=False)
    param_distributions: Any = field(kw_only=False)
    n_iter: float = 10
    shape: float = 1
    epsilon: float = 1.0
    delta: float = 1e-6
    scoring: str | None = None
    tolerance: float | None = None
    notion: str | Notion = "demographic_parity"
    holdout_fraction: float = 0.25
    score_epsilon: float | None = None

    _parameters = {
        "param_distributions": (MAPPING, SEQUENCE),
        "n_iter": (Number(1.0, 1e6),),
        "shape": (Number(0.0, 1e3),),
        "epsilon": (Number(0.01, finite=False),),
        "scoring": (Choice(("accuracy", "roc_auc", ABSOLUTE, SQUARED)), NONE),
        "tolerance": (Number(0.0, 1.0), NONE),
        "notion": (Choice((*NOTIONS, *NUMBER_NOTIONS)), Kind((Notion,), "a Notion")),
        "holdout_fraction": (PROBABILITY,),
        "score_epsilon": (Number(1e-4, 1e3), NONE),
    }
    _released: ClassVar[tuple[str, ...]] = (
        *PrivateClassifier._released,
        "best_estimator_",
        "best_gap_",
        "best_params_",
        "best_score_",
        "noisy_counts_",
        "score_epsilon_",
    )
    _nets: ClassVar[tuple[str, ...]] = ()
    _takes_persons: ClassVar[bool] = True
    _activity: ClassVar[str] = "search"

    best_estimator_: Any = field(init=False)

    def _fit(self, given: Given, charge: Charge) -> Receipt:
        sensitive_features = given.sensitive_features
        check_parameters(self, self._parameters)
        candidates.check_estimator(self.estimator)
        candidate = candidates.check_distributions(self.estimator, self.param_distributions)
        self._check_scoring()
        final = candidates.final_of(self.estimator)
        final._check_takes(sensitive_features, persons=given.unit == "person")
        if self.tolerance is not None and sensitive_features is None:
            raise ValueError(
                "'tolerance' is set, but fit got sensitive_features=None: pass the group of each "
                "row, or leave 'tolerance' out."
            )
        X, y = candidates.checked_rows(self, candidate, given.X, given.y)
        seed, noise = self._randomness()
        # Parameters of the winner are published: their draws come from another generator.
        prior = NoiseSource(seed + 1 if self.reproducible_noise else None).sampling

        part = float(self.holdout_fraction)
        parts = divide(X, y, sensitive_features, part, noise, given.person_ids)
        estimator = candidates.with_public_sets(self.estimator, y, parts.groups)
        runs = NumberOfRuns(float(self.n_iter), float(self.shape))
        budget, price = self._terms(
            runs,
            lambda: candidates.planner(
                estimator, None, self.delta, parts.training, parts.person_ids
            ),
        )
        names = self._rests_on(bool(parts.groups))
        stated = None
        if budget is not None:
            stated = budget.guarantee(noise, price, self.holdout_fraction, names, given.unit)
        charge(stated)  # before a candidate sees a row
        n_runs = runs.draw(noise.sampling)
        best = candidates.best_of(self, estimator, budget, price, n_runs, parts, noise, prior)
        final = candidates.final_of(best.model)
        # The model states what its rows have spent, also when it is taken out of here.
        groups = candidates.groups_to_state(final, parts.groups)
        final._state(stated, one_of_several=True, groups=groups)
        self.best_estimator_, self.best_params_ = best.model, best.parameters
        self.best_score_, self.best_gap_ = best.score.value, best.gap
        self.noisy_counts_, self.score_epsilon_ = best.table, price
        if not self._of_numbers:
            self.classes_ = final.classes_
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(best.model, name):
                setattr(self, name, getattr(best.model, name))
        facts = RowFacts.of(len(X), None, given.persons(len(X)), unit=given.unit)
        quote = Quote(type(self).__name__, facts, stated, charge=stated or NOISELESS)
        return Receipt(quote, parts.groups)

    def _check_settings(self) -> None:
        super()._check_settings()
        candidates.check_estimator(self.estimator)
        candidates.check_distributions(self.estimator, self.param_distributions)
        self._check_scoring()

    def _check_scoring(self) -> None:
        """Refuse a score or a gap of classes for numbers, and the other way round."""
        known = (ABSOLUTE, SQUARED) if self._of_numbers else ("accuracy", "roc_auc")
        predicts = "numbers" if self._of_numbers else "classes"
        if self.scoring is not None and self.scoring not in known:
            raise ValueError(
                f"The 'scoring' parameter of a search over models that predict {predicts} must be "
                f"one of {[*known]} or None. Got {self.scoring!r} instead."
            )
        if self._of_numbers:
            get_number_notions([self.notion])
        else:
            get_notion(self.notion)

    @property
    def _of_numbers(self) -> bool:
        """Whether the search is over regressors."""
        return is_regressor(candidates.final_of(self.estimator))

    def _priced(self, facts: RowFacts, noise: NoiseSource) -> Quote:
        """Price the search for the expected number of training rows; a fit draws them."""
        share = 1.0 - float(self.holdout_fraction)
        groups = facts.groups
        if groups is not None:
            drawn = np.maximum(np.rint(share * groups.counts), 1).astype(np.int64)
            groups = dataclasses.replace(groups, totals=drawn)
        training = dataclasses.replace(facts, n=max(1, round(share * facts.n)), groups=groups)
        runs = NumberOfRuns(float(self.n_iter), float(self.shape))
        budget, price = self._terms(
            runs, lambda: candidates.planner_for(self.estimator, self.delta, training)
        )
        names = self._rests_on(groups is not None)
        stated = None
        if budget is not None:
            stated = budget.guarantee(noise, price, self.holdout_fraction, names, facts.unit)
        records = "rows" if facts.unit == "record" else "persons"
        note = (
            f"About {training.n:,} {records} train, drawn by chance; without declared sizes the "
            "fit is charged for the number that is drawn, under the same epsilon."
        )
        return Quote(type(self).__name__, facts, stated, charge=stated or NOISELESS, note=note)

    def _rests_on(self, with_groups: bool) -> tuple[str, ...]:
        """Assumptions about the tables of held-out rows, and about facts that are public."""
        if self._of_numbers:
            groups = SET.format(name="groups", known="public")
            public = (TARGET_BOUNDS_DECLARED, groups) if with_groups else (TARGET_BOUNDS_DECLARED,)
            return (TABLES_OF_NUMBERS, *public)
        return ONE_TABLE_EACH, SETS_PUBLIC if with_groups else LABELS_PUBLIC

    def _terms(
        self, runs: NumberOfRuns, planner: Callable[[], Callable[[float], Plan]]
    ) -> tuple[SearchBudget | None, float]:
        """Budget of a run, and price of one table of held-out counts."""
        if math.isinf(self.epsilon):
            warn_user("epsilon=inf searches without noise: nothing is protected.", PrivacyWarning)
            return None, math.inf
        budget = search_budget(planner(), runs, float(self.epsilon), float(self.delta))
        price = budget.score_epsilon if self.score_epsilon is None else float(self.score_epsilon)
        if price > budget.score_epsilon:
            raise ValueError(
                f"'score_epsilon' = {price:g} would make the search cost more for "
                "held-out records than for training ones; at most "
                f"{significant_down(budget.score_epsilon, 4)} is "
                f"allowed at epsilon={self.epsilon:g} and n_iter={self.n_iter:g}. Leave it "
                "at None."
            )
        return budget, price

    @property
    def _objective(self) -> str:
        """Name of the score in tables of results."""
        if self.scoring is None:
            return ABSOLUTE if self._of_numbers else "accuracy"
        return "auc" if self.scoring == "roc_auc" else self.scoring

    def predict(self, X: ArrayLike) -> NDArray:
        check_is_fitted(self)
        return self.best_estimator_.predict(X)

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Compute the accuracy of `predict`, or R² where it predicts numbers."""
        if self._of_numbers:
            return float(r2_score(y, self.predict(X), sample_weight=sample_weight))
        return super().score(X, y, sample_weight)

    @available_if(lambda self: hasattr(candidates.final_of(self.estimator), "predict_proba"))
    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        check_is_fitted(self)
        return self.best_estimator_.predict_proba(X)

    @available_if(lambda self: hasattr(candidates.final_of(self.estimator), "decision_function"))
    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """Compute the scores that the chosen model decides by."""
        check_is_fitted(self)
        return self.best_estimator_.decision_function(X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if self._of_numbers:
            tags.estimator_type, tags.classifier_tags = "regressor", None
            tags.regressor_tags = RegressorTags(poor_score=True)
            fresh = FRESH_FITS | FRESH_REGRESSIONS if tags.non_deterministic else {}
            return expecting(tags, fresh)
        tags.classifier_tags.multi_class = getattr(
            candidates.final_of(self.estimator), "_multiclass", True
        )
        return tags
