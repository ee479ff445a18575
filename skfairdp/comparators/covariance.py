"""Logistic regression with bounded covariance between decisions and groups."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cho_solve, cholesky, solve_triangular
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Lasso

from skfairdp.base import PrivateClassifier
from skfairdp.base.predictors import UNCORRELATED_DECISIONS, expecting
from skfairdp.exceptions import warn_user
from skfairdp.fairness.notions import DERIVED, get_notion
from skfairdp.foundation.parameters import COUNT, POSITIVE, Choice, Number, check_parameters, fixed
from skfairdp.privacy.guarantee import PrivacyGuarantee
from skfairdp.privacy.noise import NoiseSource
from skfairdp.receipts import Charge, Quote, Receipt, RowFacts
from skfairdp.records import Given
from skfairdp.records.groups import groups_of_training

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
# Linearised(margins) -> matrix: gradients of the constrained covariances at a model with
# these margins. The covariances are homogeneous in the weights, so they are matrix @ weights.
Linearised = Callable[[Floats], Floats]

_SUFFICIENT = 1e-4  # share of the predicted decrease that a step has to bring
_SHORTEST = 2.0**-12


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
        The notion to equalise between groups.
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
    >>> from skfairdp import CovarianceConstrainedClassifier
    >>> from skfairdp.datasets import make_biased_gaussians
    >>> rows = make_biased_gaussians(n_samples=1000, random_state=0)
    >>> model = CovarianceConstrainedClassifier()
    >>> _ = model.fit(rows.data, rows.target, sensitive_features=rows.sensitive_features)
    >>> model.certify().privacy.is_void
    True
    """

    notion: str = "demographic_parity"
    max_covariance: float = 0.0
    alpha: float = 1e-6
    max_iter: int = 100
    tol: float = 1e-3

    # Nothing is drawn.
    random_state = fixed(None)
    reproducible_noise = fixed(False)

    _multiclass = False
    _nets = ()
    _parameters = {
        "notion": (Choice(DERIVED),),
        "max_covariance": (Number(0.0),),
        "alpha": (POSITIVE,),
        "max_iter": (COUNT,),
        "tol": (POSITIVE,),
    }
    _needs_groups = "scores are made uncorrelated with them"

    coef_: NDArray[np.float64] = field(init=False)
    intercept_: NDArray[np.float64] = field(init=False)
    n_iter_: int = field(init=False)

    def _fit(self, given: Given, charge: Charge) -> Receipt:
        check_parameters(self, self._parameters)
        X, self.classes_, labels = self._rows_of_fit(given.X, given.y, None)
        groups = groups_of_training(given.sensitive_features, len(X))
        quote = self._priced(RowFacts(len(X), groups), self._randomness()[1])
        charge(quote.charge)
        design = np.column_stack([X.astype(np.float64), np.ones(len(X))])
        # An intercept that is all but free, yet keeps the Hessian regular.
        ridge = np.append(np.full(X.shape[1], float(self.alpha)), 1e-10)
        membership = np.eye(len(groups.labels))[:, groups.codes]
        covariances = _covariances(design, labels, membership, self.notion)
        found = fit_constrained(self, design, labels, covariances, ridge)
        weights, self.n_iter_, violation, converged = found
        if not converged:
            warn_user(
                f"CovarianceConstrainedClassifier did not converge to tol={self.tol:g} "
                f"in {self.n_iter_} steps; a covariance exceeds max_covariance by "
                f"{violation:.2g}. Scale the features, or raise max_iter, alpha or tol.",
                ConvergenceWarning,
            )
        self.coef_, self.intercept_ = weights[np.newaxis, :-1], weights[-1:]
        return Receipt(quote, groups.labels)

    def _priced(self, facts: RowFacts, noise: NoiseSource) -> Quote:
        stated = PrivacyGuarantee.void(
            "CovarianceConstrainedClassifier trains without noise: it is a yardstick for private "
            "learners, and protects neither rows nor groups"
        )
        return Quote(type(self).__name__, facts, stated, charge=stated)

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """Compute the log-odds of the second class."""
        from skfairdp.engine.exact_products import exact_matmul

        X = self._features(X).astype(np.float64)
        return exact_matmul(X, self.coef_[0]) + self.intercept_[0]

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        positive = expit(self.decision_function(X))
        return np.stack([1.0 - positive, positive], axis=1)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        positive = self.decision_function(X) > 0.0
        return np.asarray(self.classes_[positive.astype(np.int64)])

    @property
    def _decides_by_parameters(self) -> bool:
        return type(self).predict is CovarianceConstrainedClassifier.predict

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = False
        tags.classifier_tags.poor_score = False
        return expecting(tags, UNCORRELATED_DECISIONS)


def _covariances(design: Floats, labels: Codes, membership: Floats, notion: str) -> Linearised:
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

    def at(margins: Floats) -> Floats:
        wrong = np.flatnonzero(sign * margins < 0.0)
        return np.asarray(signed[:, wrong] @ design[wrong])

    return at


def fit_constrained(
    model: Any, X: Floats, y: Codes, linearised: Linearised, ridge: Floats
) -> tuple[Floats, int, float, bool]:
    """Minimise the mean logistic loss subject to bounded covariances.

    Sequential quadratic programming: each step minimises the loss' quadratic model (with
    its full Hessian) subject to the constraints linearised at the current weights, and
    goes as far along as an exact penalty falls. With constraints that are linear anyway
    this is Newton's method and converges to the optimum; with those of misclassified
    rows, which are differences of convex functions, to a stationary point. Result: weights,
    steps, largest excess of a covariance over its bound, and whether it converged.

    `ridge` (d,): strength of the penalty ``ridge @ weights**2 / 2``. `model`: its ``tol`` ends this
    when a full step would move no weight by more, or when loss and penalty fall by less than
    ``tol**2``; it counts as converged if no covariance exceeds its bound by more than that then.
    """
    bound, tol = float(model.max_covariance), float(model.tol)
    weights = np.zeros(X.shape[1])
    margins = X @ weights
    penalty, violation, n_iter, at_rest = 1.0, 0.0, 0, False
    while n_iter < model.max_iter and not at_rest:
        n_iter += 1
        chance = expit(margins)
        gradient = X.T @ (chance - y) / len(y) + ridge * weights
        scaled = X * np.sqrt(chance * (1.0 - chance) / len(y))[:, None]
        hessian = scaled.T @ scaled
        hessian[np.diag_indices_from(hessian)] += ridge
        matrix = linearised(margins)
        covariances = matrix @ weights
        move, prices = _quadratic_step(hessian, gradient, matrix, weights, bound)
        # Exact if above the multipliers' largest sum, which a convex bound rounds up.
        penalty = max(penalty, 2.0 * np.abs(prices).sum())
        excess = _excess(covariances, bound)
        expected = gradient @ move - penalty * excess
        now = _loss(margins, y) + ridge @ weights**2 / 2 + penalty * excess
        length, drift = 1.0, X @ move
        while length > _SHORTEST:
            nearer = weights + length * move
            there = margins + length * drift
            outside = _excess(linearised(there) @ nearer, bound)
            value = _loss(there, y) + ridge @ nearer**2 / 2 + penalty * outside
            if value <= now + _SUFFICIENT * length * min(expected, 0.0):
                break
            length /= 2.0
        else:
            at_rest, violation = True, excess
            break
        weights, margins, violation = nearer, there, outside
        # The covariances of misclassified rows have a kink at each row's boundary, and the
        # steps may end among kinks, where only shorter and shorter ones lead down.
        at_rest = bool(np.abs(move).max() <= tol or now - value <= tol**2)
    return weights, n_iter, float(violation), at_rest and violation <= tol


def _loss(margins: NDArray, y: NDArray) -> float:
    return float(np.mean(np.logaddexp(0.0, margins) - y * margins))


def _excess(covariances: NDArray, bound: float) -> float:
    return float((np.abs(covariances) - bound).max(initial=0.0))


def _quadratic_step(
    hessian: NDArray, gradient: NDArray, matrix: NDArray, weights: NDArray, bound: float
) -> tuple[NDArray, NDArray]:
    """Minimise the quadratic model where ``|matrix @ (weights + move)| <= bound``.

    There are few constraints, so the dual is solved: a lasso in their multipliers. They are not
    unique, because memberships add up to one.
    """
    root = cholesky(hessian, lower=True)
    newton = -cho_solve((root, True), gradient)
    reach = solve_triangular(root, matrix.T, lower=True)
    goal = root.T @ (weights + newton)
    if bound == 0.0:
        prices = np.linalg.lstsq(reach, goal, rcond=1e-12)[0]
    else:
        lasso = Lasso(bound / len(goal), fit_intercept=False, tol=1e-12, max_iter=10_000)
        with warnings.catch_warnings():  # it is the whole that has to converge
            warnings.simplefilter("ignore", ConvergenceWarning)
            prices = lasso.fit(reach, goal).coef_
    return newton - solve_triangular(root, reach @ prices, lower=True, trans="T"), prices
