"""The covariance-constrained yardstick: its optimum, its constraints, its honesty."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LogisticRegression

from skfairdp import CovarianceConstrainedClassifier, certify
from skfairdp.comparators.covariance import _covariances
from tests.common.roster import people
from tests.common.test_nothing_private_is_kept import traces
from tests.common.test_refusals import BAD_ROWS, PLANTED_AS_SHOWN, SECRET, planted_people
from tests.common.test_scikit_learn_checks import unexpected

Model = CovarianceConstrainedClassifier
NOTIONS = ("demographic_parity", "equal_opportunity", "equalized_odds", "accuracy_parity")


def crowd(n: int = 3000, seed: int = 0, n_groups: int = 2) -> tuple:
    """Rows whose second feature tells of the group, which says much about the label."""
    rng = np.random.default_rng(seed)
    group = rng.integers(n_groups, size=n)
    X = rng.normal(size=(n, 3))
    X[:, 1] += 1.5 * group
    noise = rng.logistic(scale=np.where(group == 0, 0.5, 1.5))
    return X, (X[:, 0] + 0.7 * X[:, 1] + noise > 0.8).astype(int), group


def covariances(model: Model, X: np.ndarray, y: np.ndarray, group: np.ndarray) -> np.ndarray:
    """Constrained covariances, from their definition."""
    d = model.decision_function(X)
    sign = 2 * y - 1
    wrong = np.minimum(0.0, sign * d)
    member = np.eye(group.max() + 1)[group]
    cases = {
        "demographic_parity": [(d, np.ones(len(y), bool))],
        "accuracy_parity": [(wrong, np.ones(len(y), bool))],
        "equal_opportunity": [(wrong, y == 1)],
        "equalized_odds": [(wrong, y == 0), (wrong, y == 1)],
    }[model.notion]
    return np.concatenate(
        [((member[r] - member[r].mean(axis=0)) * g[r, None]).mean(axis=0) for g, r in cases]
    )


@pytest.mark.parametrize("n_groups", [2, 4])
@pytest.mark.parametrize("share", [0.0, 0.5])
@pytest.mark.parametrize("notion", NOTIONS)
def test_covariances_are_within_the_bound(notion: str, share: float, n_groups: int) -> None:
    X, y, group = crowd(n_groups=n_groups)
    free = Model(notion=notion, max_covariance=1e6).fit(X, y, sensitive_features=group)
    before = np.abs(covariances(free, X, y, group)).max()
    tol = min(1e-3, 0.05 * before)
    model = Model(notion=notion, max_covariance=share * before, tol=tol)
    model.fit(X, y, sensitive_features=group)
    after = np.abs(covariances(model, X, y, group)).max()
    assert after <= share * before + tol
    assert after >= share * before - 0.2 * before  # no further than needed


@pytest.mark.parametrize("n_groups", [2, 4])
@pytest.mark.parametrize("bound", [0.0, 0.05])
def test_parity_is_solved_to_the_optimum(bound: float, n_groups: int) -> None:
    X, y, group = crowd(1000, n_groups=n_groups)
    # Columns that add up to the constant one: without the penalty no optimum is the only one.
    X = np.column_stack([X, np.eye(3)[np.digitize(X[:, 1], [0.0, 1.0])]])
    model = Model(max_covariance=bound, tol=1e-8).fit(X, y, sensitive_features=group)
    design = np.column_stack([X, np.ones(len(X))])
    member = np.eye(n_groups)[group]
    matrix = (member - member.mean(axis=0)).T @ design / len(y)

    def loss(w: np.ndarray) -> float:
        margin = design @ w
        return float(np.mean(np.logaddexp(0, margin) - y * margin) + 0.5e-6 * w[:-1] @ w[:-1])

    slack = {"type": "ineq", "fun": lambda w: np.concatenate([bound - matrix @ w,
                                                              bound + matrix @ w])}  # fmt: skip
    other = minimize(loss, np.zeros(7), constraints=[slack], method="SLSQP", tol=1e-12,
                     options={"maxiter": 500})  # fmt: skip
    ours = np.append(model.coef_[0], model.intercept_)
    # SLSQP ends within about 1e-7 of the optimum; ours must not be worse.
    assert loss(ours) <= other.fun + 1e-6
    assert np.abs(matrix @ ours).max() <= bound + 1e-7


@pytest.mark.parametrize("notion", NOTIONS)
def test_gradients_of_the_covariances_are_those_of_finite_differences(notion: str) -> None:
    X, y, group = crowd(400, n_groups=3)
    design = np.column_stack([X, np.ones(len(X))])
    linearised = _covariances(design, y, np.eye(3)[group].T, notion)
    rng = np.random.default_rng(0)
    for _ in range(5):
        w, direction = rng.normal(size=(2, 4))
        step = 1e-7 * direction

        def value(v: np.ndarray) -> np.ndarray:
            return linearised(design @ v) @ v

        slope = (value(w + step) - value(w - step)) / 2e-7
        # No row changes sides within 1e-7 but with a chance of about 1e-5.
        assert np.allclose(linearised(design @ w) @ direction, slope, atol=1e-6)


def test_without_constraints_it_is_logistic_regression() -> None:
    X, y, group = crowd()
    reference = LogisticRegression(C=1 / (1e-6 * len(y)), tol=1e-10, max_iter=1000).fit(X, y)
    model = Model(max_covariance=9.0).fit(X, y, sensitive_features=group)
    assert np.allclose(model.coef_, reference.coef_, atol=1e-4)
    assert np.allclose(model.predict_proba(X), reference.predict_proba(X), atol=1e-4)


@pytest.mark.parametrize("notion", ["demographic_parity", "equalized_odds"])
def test_rates_come_closer(notion: str) -> None:
    X, y, group = crowd(6000)

    def gap(model: Model) -> float:
        rows = [np.ones(len(y), bool)] if notion == "demographic_parity" else [y == 1, y == 0]
        positive = model.predict(X) == 1
        rates = [[positive[r & (group == g)].mean() for g in (0, 1)] for r in rows]
        return max(np.ptp(pair) for pair in rates)

    free = Model(notion=notion, max_covariance=1e6).fit(X, y, sensitive_features=group)
    fair = Model(notion=notion).fit(X, y, sensitive_features=group)
    assert gap(fair) < 0.6 * gap(free)


def test_it_says_that_it_is_not_private() -> None:
    X, y, groups = people()
    model = Model().fit(X, y, sensitive_features=groups)
    certificate = certify(model, X, y, sensitive_features=groups, holdout="public")
    assert certificate.privacy.is_void
    assert "without noise" in certificate.privacy.assumptions[0]
    assert not certificate.satisfies(epsilon=1e9)
    assert certificate.fairness[0].bound <= 1.0


def test_a_run_cut_short_says_so() -> None:
    X, y, groups = people()
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        Model(max_iter=1).fit(X, y, sensitive_features=groups)


def test_no_row_is_in_a_pickle() -> None:
    X, y, groups = people()
    model = Model().fit(X, y, sensitive_features=groups)
    stored = pickle.dumps(model)
    assert traces(stored, X, y, groups) == []
    assert np.array_equal(pickle.loads(stored).predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize("case", BAD_ROWS)
def test_bad_rows(case: str) -> None:
    change, message = BAD_ROWS[case]
    X, y, groups = change(*planted_people())
    model = Model()
    with pytest.raises((ValueError, TypeError), match=message) as caught:
        model.fit(X, y, sensitive_features=groups)
    assert SECRET not in str(caught.value)
    assert not PLANTED_AS_SHOWN.search(str(caught.value))
    with pytest.raises(NotFittedError):
        model.predict(people()[0])


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"notion": "calibration"}, "'notion'"),
        ({"max_covariance": -1.0}, "'max_covariance'"),
        ({"alpha": 0.0}, "'alpha'"),
        ({"max_iter": 0}, "'max_iter'"),
        ({"tol": 0.0}, "'tol'"),
    ],
    ids=str,
)
def test_bad_parameters(parameters: dict, message: str) -> None:
    X, y, groups = people()
    with pytest.raises(ValueError, match=message):
        Model(**parameters).fit(X, y, sensitive_features=groups)


def test_one_group_and_a_group_without_one_label_go_through() -> None:
    X, y, groups = people()
    Model().fit(X, y, sensitive_features=np.full(300, "a"))
    y = np.where(groups == "b", "no", y)
    for notion in NOTIONS:
        model = Model(notion=notion, alpha=1e-3).fit(X, y, sensitive_features=groups)
        assert np.isfinite(model.coef_).all()


@pytest.mark.slow
def test_scikit_learns_checks_pass() -> None:
    assert unexpected(Model(max_covariance=9.0, alpha=1e-4)) == []
