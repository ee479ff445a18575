"""Logistic regression with bounded covariance between decisions and groups."""

from __future__ import annotations

from dataclasses import field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from skfairdp.base import PrivateClassifier
from skfairdp.comparators.constrained_logistic import Linearised, fit_constrained
from skfairdp.engine.exact_products import exact_matmul
from skfairdp.exceptions import warn_user
from skfairdp.fairness.groups import encode_groups
from skfairdp.fairness.notions import NOTIONS, get_notion
from skfairdp.labels import encode_labels
from skfairdp.parameters import COUNT, POSITIVE, Choice, Number, check_parameters
from skfairdp.privacy.guarantee import PrivacyGuarantee
from skfairdp.rows import check_features, check_rows


class CovarianceConstrainedClassifier(PrivateClassifier):
    """Fair logistic regression without any privacy, to compare private ones with.

    Minimises the logistic loss while the covariance between membership in each group and
    the signed distance to the decision boundary stays within a bound: of all rows for
    demographic parity, of the misclassified ones (all of them, or those with one label)
    for the notions that look at errors.

    Parameters
    ----------
    notion : {"demographic_parity", "equal_opportunity", "equalized_odds", \
"accuracy_parity"}, default="demographic_parity"
        What is equalised between groups.
    max_covariance : float, default=0.0
        Largest absolute covariance, in units of the log-odds. It is a proxy: 0 does not
        mean that rates are equal, since they depend on the sign of the log-odds alone.
    alpha : float, default=1e-6
        Strength of the L2 penalty ``alpha / 2 * ||coef||**2`` on the mean loss.
    max_iter : int, default=100
        Largest number of Newton steps.
    tol : float, default=1e-3
        Training ends when a full Newton step moves no coefficient by more, or when the
        penalised loss falls by less than ``tol**2``. A covariance may exceed
        `max_covariance` by as much without a warning.
    ledger : None, path or PrivacyLedger, default=None
        Where fits are charged: as releases that nothing bounds. A ledger with a budget refuses
        them.

    Attributes
    ----------
    coef_ : ndarray, shape (1, n_features)
        Coefficients.
    groups_ : tuple or None
        Groups; None when fitted without any.
    intercept_ : ndarray, shape (1,)
        Intercept.
    n_iter_ : int
        Newton steps taken.
    privacy_ : PrivacyGuarantee
        Void.

    Notes
    -----
    For the error notions the covariances are those with ``g = min(0, ±log-odds)``, the
    negative distance of misclassified rows, and centred within the label at hand. They
    are differences of convex functions; both parts are linearised at each Newton step,
    where the papers linearise one and hand the rest to a convex solver. The result is a
    stationary point, and may depend on where the steps lead.

    References
    ----------
    M. B. Zafar, I. Valera, M. Gomez Rodriguez and K. P. Gummadi, "Fairness Constraints:
    Mechanisms for Fair Classification", AISTATS 2017 (arXiv 1507.05259); "Fairness
    Beyond Disparate Treatment and Disparate Impact", WWW 2017 (arXiv 1610.08452).

    Examples
    --------
    >>> import numpy as np
    >>> from skfairdp import CovarianceConstrainedClassifier
    >>> rng = np.random.default_rng(0)
    >>> group = np.repeat(["a", "b"], 500)
    >>> X = rng.normal(size=(1000, 2)) + (group == "a")[:, None]
    >>> y = (X[:, 0] + rng.normal(size=1000) > 0.5).astype(int)
    >>> model = CovarianceConstrainedClassifier().fit(X, y, sensitive_features=group)
    >>> rates = [float(model.predict(X[group == g]).mean()) for g in ("a", "b")]
    >>> abs(rates[0] - rates[1]) < 0.05
    True
    >>> model.certify().privacy.is_void
    True
    """

    notion: str = "demographic_parity"
    max_covariance: float = 0.0
    alpha: float = 1e-6
    max_iter: int = 100
    tol: float = 1e-3

    # Nothing is drawn.
    random_state = None
    reproducible_noise = False

    _multiclass = False
    _nets = ()
    _parameters = {
        "notion": (Choice(tuple(NOTIONS)),),
        "max_covariance": (Number(0.0),),
        "alpha": (POSITIVE,),
        "max_iter": (COUNT,),
        "tol": (POSITIVE,),
    }
    _released: ClassVar = (
        "classes_",
        "coef_",
        "feature_names_in_",
        "groups_",
        "intercept_",
        "n_features_in_",
        "n_iter_",
        "privacy_",
    )

    coef_: NDArray[np.float64] = field(init=False)
    intercept_: NDArray[np.float64] = field(init=False)

    def _fit(self, X: Any, y: Any, sensitive_features: Any) -> None:
        check_parameters(self, self._parameters)
        X, y = check_rows(self, X, y)
        classes, labels = encode_labels(y, None, multiclass=False)
        self.groups_, membership = None, np.zeros((0, len(X)))
        if sensitive_features is not None:
            groups = encode_groups(sensitive_features, n_rows=len(X))
            self.groups_ = groups.labels
            membership = np.eye(len(groups.labels))[:, groups.codes]
        stated = PrivacyGuarantee.void(
            "CovarianceConstrainedClassifier trains without noise: it is a yardstick for private "
            "learners, and protects neither rows nor groups"
        )
        self._charge(stated)
        design = np.column_stack([X.astype(np.float64), np.ones(len(X))])
        # An intercept that is all but free, yet keeps the Hessian regular.
        ridge = np.append(np.full(X.shape[1], float(self.alpha)), 1e-10)
        fitted = fit_constrained(
            design,
            labels,
            _covariances(design, labels, membership, self.notion),
            float(self.max_covariance),
            ridge=ridge,
            max_iter=int(self.max_iter),
            tol=float(self.tol),
        )
        if not fitted.converged:
            warn_user(
                f"CovarianceConstrainedClassifier did not converge to tol={self.tol:g} "
                f"in {fitted.n_iter} steps; a covariance exceeds max_covariance by "
                f"{fitted.violation:.2g}. Scale the features, or raise max_iter, alpha or tol.",
                ConvergenceWarning,
            )
        self.classes_ = classes
        self.coef_ = fitted.weights[np.newaxis, :-1]
        self.intercept_ = fitted.weights[-1:]
        self.n_iter_ = fitted.n_iter
        self.privacy_ = stated

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """Compute the log-odds of the second class."""
        check_is_fitted(self)
        X = check_features(self, X).astype(np.float64)
        return exact_matmul(X, self.coef_[0]) + self.intercept_[0]

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        positive = expit(self.decision_function(X))
        return np.stack([1.0 - positive, positive], axis=1)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        positive = self.decision_function(X) > 0.0
        return np.asarray(self.classes_[positive.astype(np.int64)])

    def __sklearn_tags__(self) -> Any:
        """Describe the estimator to scikit-learn: nothing is drawn."""
        tags = super().__sklearn_tags__()
        tags.non_deterministic = False
        tags.classifier_tags.poor_score = False
        return tags


def _covariances(
    design: NDArray[np.float64],
    labels: NDArray[np.int64],
    membership: NDArray[np.float64],
    notion: str,
) -> Linearised:
    """Gradients of the constrained covariances as a function of the margins."""
    if notion == "demographic_parity":
        centred = membership - membership.mean(axis=1, keepdims=True)
        fixed = centred @ design / len(labels)
        return lambda margins: fixed
    sign = 2.0 * labels - 1.0
    parts = []
    for stratum in get_notion(notion).strata((0, 1)):
        asked = np.flatnonzero((stratum.successes | stratum.failures).any(axis=1))
        rows = np.isin(labels, asked)
        inside = membership[:, rows]
        centred = np.zeros_like(membership)
        # Centred among the rows that count: else a group's share of errors would be mixed
        # up with its share of these rows.
        if rows.any():
            centred[:, rows] = (inside - inside.mean(axis=1, keepdims=True)) / rows.sum()
        parts.append(centred * sign)
    signed = np.concatenate(parts)

    def at(margins: NDArray[np.float64]) -> NDArray[np.float64]:
        wrong = np.flatnonzero(sign * margins < 0.0)
        return np.asarray(signed[:, wrong] @ design[wrong])

    return at
