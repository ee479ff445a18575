"""Fair learning from a sensitive attribute that each person randomised first."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import field
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from skfairdp.base import PrivateClassifier
from skfairdp.exceptions import PrivacyWarning, warn_user
from skfairdp.fairness.notions import get_notion
from skfairdp.foundation import assumptions
from skfairdp.foundation.documentation import completed_by
from skfairdp.foundation.parameters import COUNT, Choice, Number, check_parameters
from skfairdp.inprocessing.attribute.group_estimates import estimated_joint, even_decisions
from skfairdp.inprocessing.attribute.reduction import MOMENTS, positive_votes, reduced
from skfairdp.privacy.guarantee import PrivacyGuarantee
from skfairdp.privacy.mechanisms.randomized_response import RandomizedResponse
from skfairdp.privacy.noise import NoiseSource
from skfairdp.privacy.streams import row_uniforms
from skfairdp.receipts import Charge, Quote, Receipt, RowFacts
from skfairdp.receipts.quoted import NOISELESS
from skfairdp.records import Given
from skfairdp.records.groups import Groups, encode_groups, groups_of_training
from skfairdp.records.labels import encode_labels
from skfairdp.records.rows import check_features, check_rows

_KIND: Any = {"adjacency": "change-attribute", "protects": "sensitive_features"}
# What happens to the group of a person who is predicted.
_LATER = {
    "none": "predictions need no group",
    "randomized": "the group of a person who is predicted is randomised as well, and "
    "costs that person epsilon at each prediction",
    "raw": "the group of a person who is predicted is used as it is: nothing protects it",
}


class RandomizedAttributeClassifier(PrivateClassifier):
    """Fair classifier that sees a randomised sensitive attribute only.

    The sensitive attribute of every row is replaced by the answer of k-ary randomised
    response before anything looks at it; features and labels are used as they are. On
    these answers fairlearn's exponentiated gradient trains a randomised mixture of
    classifiers, with a bound that is tightened by as much as the answers blur
    differences between groups. On request a second half of the rows then chooses how
    predictions are revised by group.

    It protects the attribute, and nothing else: features and labels have no protection,
    and a feature that predicts the attribute reveals it.

    Parameters
    ----------
    estimator : classifier or None, default=None
        Takes ``sample_weight`` in fit. None is
        ``LogisticRegression(solver="newton-cholesky")``, which suits many rows and up to
        a few hundred features.
    epsilon : float, default=1.0
        Privacy of one person's attribute in nats, at least 1e-4 (pure, local). Infinity
        uses the attribute as it is, for comparison.
    notion : {"demographic_parity", "equal_opportunity", "equalized_odds", \
"accuracy_parity"}, default="demographic_parity"
        The notion to equalise between groups.
    tolerance : float in [0, 1), default=0.02
        Largest difference of rates between two true groups that is aimed at on the
        training rows.
    group_at_predict : {"none", "randomized", "raw"}, default="none"
        "none": only the first step, on all rows; prediction needs no group.
        "randomized" and "raw": both steps, on half of the rows each; prediction then
        takes `sensitive_features` and either randomises them, anew at each call and
        with the same `epsilon`, or uses them as they are.
    groups : sequence or None, default=None
        Declared groups. None takes those that occur, and the set of them is then
        public. With declared ones a row of any other group gets an answer at random.
    max_iter : int, default=50
        Largest number of iterations of exponentiated gradient, each of one fit.
    random_state : int, RandomState or None, default=None
        Splits the rows into halves; never seeds the randomised response.

    Attributes
    ----------
    classes_ : ndarray, shape (2,)
        Class labels.
    decision_rates_ : ndarray, shape (2, n_groups), or None
        Probability of a positive decision by prediction and group seen; None without
        the second step.
    difference_bound_ : float
        Bound that exponentiated gradient was given.
    group_use_ : {"none", "randomized", "raw"}
        `group_at_predict` at fit, which predictions and the guarantee keep to.
    groups_ : tuple
        The groups.
    key_ : bytes
        Makes a drawn prediction a function of the row.
    n_iter_ : int
        Iterations of exponentiated gradient.
    predictors_ : list of classifiers
        What the mixture is made of.
    response_ : RandomizedResponse
        How answers were made: the one object that both the randomiser and the guarantee
        read.
    weights_ : ndarray, shape (n_predictors,)
        Probability of each predictor.

    Raises
    ------
    ValueError
        At fit: a parameter, the rows or the groups are invalid.

    See Also
    --------
    SFPATEClassifier : Also protects the group alone, with a trusted curator.

    Notes
    -----
    Each fit asks all people anew and so spends `epsilon` once more; so does each group at
    prediction with ``group_at_predict="randomized"``, for the person it belongs to.
    With "raw" the decisions depend on the group that is handed over, which nothing
    protects. Both are held to the same tolerance; but a revision by randomised group
    moves true groups apart only a little, so at small `epsilon` "randomized" can even
    out groups by random decisions alone, and loses accuracy.

    Rates among true groups are estimated from those among answers, whose errors are
    ``1 / (pi - pi')`` times as large (pi the probability of the truth, pi' that of each
    other answer): for two groups 2.2 times at epsilon = 1, 20 times at 0.1. The tolerance
    is met up to such an error; nothing is certified by training, only by `certify`.

    Predictions of the mixture are drawn, each as a keyed function of its row, so that
    asking again gives the same answer.

    References
    ----------
    H. Mozannar, M. Ohannessian and N. Srebro, "Fair Learning with Private Demographic
    Data", ICML 2020 (arXiv 2002.11651), with K groups, tolerances and an estimated joint
    law that is projected on the probability simplex. A. Agarwal et al., "A Reductions
    Approach to Fair Classification", ICML 2018.

    Examples
    --------
    >>> import numpy as np
    >>> from skfairdp import RandomizedAttributeClassifier
    >>> rng = np.random.default_rng(0)
    >>> group = np.repeat(["a", "b"], 1000)
    >>> X = rng.normal(size=(2000, 2)) + (group == "a")[:, None]
    >>> y = (X[:, 0] + rng.normal(size=2000) > 0.5).astype(int)
    >>> model = RandomizedAttributeClassifier(epsilon=2.0, tolerance=0.05)
    >>> model = model.fit(X, y, sensitive_features=group)
    >>> model.privacy_.adjacency, model.privacy_.delta, bool(model.privacy_.epsilon <= 2)
    ('change-attribute', 0.0, True)
    >>> set(model.predict(X)) == {0, 1}
    True
    """

    estimator: Any = field(default=None, kw_only=False)
    epsilon: float = 1.0
    notion: str = "demographic_parity"
    tolerance: float = 0.02
    group_at_predict: Literal["none", "randomized", "raw"] = "none"
    groups: Sequence[Hashable] | None = None
    max_iter: int = 50

    _multiclass = False
    _needs_groups = "decisions are evened out between groups, and the group is protected"
    _nets = ("estimator",)
    _parameters = {
        "epsilon": (Number(1e-4, finite=False),),
        "notion": (Choice(tuple(MOMENTS)),),
        "tolerance": (Number(0.0, 1.0, high_open=True),),
        "group_at_predict": (Choice(tuple(_LATER)),),
        "max_iter": (COUNT,),
    }
    __metadata_request__predict: ClassVar[dict[str, bool]] = {"sensitive_features": True}
    __metadata_request__predict_proba: ClassVar[dict[str, bool]] = {"sensitive_features": True}

    decision_rates_: NDArray[np.float64] | None = field(init=False)
    difference_bound_: float = field(init=False)
    group_use_: str = field(init=False)
    key_: bytes = field(init=False)
    n_iter_: int = field(init=False)
    predictors_: list[Any] = field(init=False)
    response_: RandomizedResponse = field(init=False)
    weights_: NDArray[np.float64] = field(init=False)

    def _default_of(self, name: str) -> Any:
        """Classifier that stands behind None."""
        return LogisticRegression(solver="newton-cholesky")

    def _fit(self, given: Given, charge: Charge) -> Receipt:
        check_parameters(self, self._parameters)
        base = self._base()
        X, y = check_rows(self, given.X, given.y)
        classes, labels = encode_labels(y, None, multiclass=False)
        seed, noise = self._randomness()
        groups = self._encode_groups(given.sensitive_features, len(X))
        response = RandomizedResponse(float(self.epsilon), len(groups.labels))
        quote = self._priced(RowFacts(len(X), groups, unit=given.unit), noise)
        charge(quote.charge)  # before an attribute is randomised
        # From here on the attribute is known by its randomised answers alone.
        reports = response.report(groups.codes, noise)
        # Rows of the first and of the second step; positions and a seed alone decide.
        first, second = np.arange(len(X)), np.arange(0)
        if self.group_at_predict != "none":
            first, second = np.split(np.random.default_rng(seed).permutation(first), [len(X) // 2])
        self.predictors_, self.weights_, self.difference_bound_, self.n_iter_ = reduced(
            base,
            X[first],
            labels[first],
            reports[first],
            response,
            notion=self.notion,
            tolerance=float(self.tolerance),
            max_iter=int(self.max_iter),
        )
        self.decision_rates_ = None
        if self.group_at_predict != "none":
            scores = positive_votes(self.predictors_, self.weights_, X[second])
            joint = estimated_joint(scores, labels[second], reports[second], response)
            raw = self.group_at_predict == "raw"
            seen = np.eye(response.n_values) if raw else response.matrix
            strata = get_notion(self.notion).strata((0, 1))
            self.decision_rates_ = even_decisions(joint, strata, float(self.tolerance), seen)
        self.classes_ = classes
        self.group_use_ = self.group_at_predict
        self.key_ = noise.key()
        self.response_ = response
        return Receipt(quote, groups.labels)

    def _base(self) -> Any:
        base = self._default_of("estimator") if self.estimator is None else clone(self.estimator)
        if not (hasattr(base, "predict") and has_fit_parameter(base, "sample_weight")):
            raise ValueError(
                "The 'estimator' parameter of RandomizedAttributeClassifier must be a classifier "
                f"whose fit takes sample_weight; got {self.estimator!r}. Exponentiated gradient "
                "trains on weighted rows."
            )
        return base

    def _encode_groups(self, sensitive_features: Any, n: int) -> Groups:
        groups = groups_of_training(sensitive_features, n, self.groups)
        if len(groups.labels) < 2:
            raise ValueError(
                "sensitive_features must hold at least two groups to compare; got "
                f"{len(groups.labels)}. Declare groups= if not all of them occur."
            )
        if math.isinf(self.epsilon):
            warn_user(
                "epsilon=inf uses the sensitive attribute as it is: nothing is protected.",
                PrivacyWarning,
            )
        return groups

    def _priced(self, facts: RowFacts, noise: NoiseSource) -> Quote:
        assert facts.groups is not None
        response = RandomizedResponse(float(self.epsilon), len(facts.groups.labels))
        stated = self._guarantee(response, noise)
        kept = response.matrix[0, 0]
        note = f"A group is answered truly with probability {kept:.4g}, before anything sees it."
        return Quote(type(self).__name__, facts, stated, charge=stated or NOISELESS, note=note)

    def _guarantee(
        self, response: RandomizedResponse, noise: NoiseSource
    ) -> PrivacyGuarantee | None:
        if math.isinf(response.epsilon):
            return None
        if noise.reproducible:
            seed = assumptions.seed_known("the randomised response", "undo it")
            return PrivacyGuarantee.void(seed, **_KIND)
        (groups_known,) = assumptions.closed_sets(groups=self.groups is not None)
        attacker = assumptions.ATTACKER
        return PrivacyGuarantee(
            epsilon=response.spent,
            delta=0.0,
            **_KIND,
            accountant="pure: k-ary randomised response, exact in integers",
            assumptions=(
                assumptions.RANDOMIZED_FIRST,
                f"{groups_known}; {assumptions.OTHERS_PUBLIC}",
                assumptions.RANDOMNESS.format(name=noise.name, attacker=attacker),
                assumptions.ASKED_ANEW,
                _LATER[self.group_at_predict],
                assumptions.VALIDATION,
            ),
        )

    def predict_proba(
        self, X: ArrayLike, *, sensitive_features: ArrayLike | None = None
    ) -> NDArray[np.float64]:
        """Probability with which each class is answered.

        Parameters
        ----------
        X : array-like, shape (n_samples, n_features)
            Rows to score.
        sensitive_features : array-like, Series or DataFrame, optional
            Groups of the rows. Needed, and looked at, unless
            ``group_at_predict="none"``. With "randomized" they are randomised anew.

        Returns
        -------
        ndarray of float64, shape (n_samples, 2)
            Share of the mixture that is for a class, not an estimate of its probability.

        Raises
        ------
        ValueError
            Groups are missing though the decisions depend on them.
        UnknownGroupError
            A group is not among `groups_`.
        """
        check_is_fitted(self)
        X = check_features(self, X)
        scores = self._scores(X, sensitive_features)
        return np.stack([1.0 - scores, scores], axis=1)

    @completed_by(predict_proba)
    def predict(self, X: ArrayLike, *, sensitive_features: ArrayLike | None = None) -> NDArray[Any]:
        """Draw the class of each row from the mixture.

        Returns
        -------
        ndarray, shape (n_samples,)
            Entries of ``classes_``. The draw is a keyed function of the row, so the
            same row gets the same answer (with "randomized": for the same answer of the
            randomised response).
        """
        check_is_fitted(self)
        X = check_features(self, X)
        scores = self._scores(X, sensitive_features)
        positive = row_uniforms(X, self.key_) < scores
        return np.asarray(self.classes_[positive.astype(np.int64)])

    def _scores(self, X: NDArray, sensitive_features: Any) -> NDArray[np.float64]:

        scores = positive_votes(self.predictors_, self.weights_, X)
        if self.decision_rates_ is None or self.response_ is None:
            return scores
        if sensitive_features is None:
            raise ValueError(
                "predict needs sensitive_features: the decisions of this model depend on the "
                f"group (group_at_predict={self.group_use_!r}). Pass one value per row, or "
                "fit with group_at_predict='none'."
            )
        codes = encode_groups(sensitive_features, n_rows=len(X), labels=self.groups_).codes
        if self.group_use_ == "randomized":
            # What was promised at fit does not change with parameters that are set later.
            promised = self.privacy_ is None or not self.privacy_.is_void
            noise = NoiseSource() if promised else self._randomness()[1]
            codes = self.response_.report(codes, noise)
        rates = self.decision_rates_[:, codes]
        return np.asarray((1.0 - scores) * rates[0] + scores * rates[1])

    @property
    def _draws_afresh(self) -> bool:  # type: ignore[override]
        """Whether the group of each row is randomised anew whenever the row is predicted."""
        return self.decision_rates_ is not None and self.group_use_ == "randomized"

    def _success_scores(self, X: ArrayLike) -> NDArray[np.float64] | None:
        if self.decision_rates_ is not None:
            return None  # depends on the group
        return self._scores(check_features(self, X), None)
