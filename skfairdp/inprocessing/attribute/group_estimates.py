"""Figures about true groups from randomised ones, and decisions that equalise them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from skfairdp.exceptions import SkfairdpError
from skfairdp.fairness.notions import Stratum
from skfairdp.privacy.mechanisms.randomized_response import RandomizedResponse

# Share of a uniform table mixed into an estimated one, so that no rate divides by nothing:
# a group without any mass is taken to behave like all rows.
_FLOOR = 1e-3


def onto_simplex(table: NDArray[np.float64]) -> NDArray[np.float64]:
    """Nearest tables without negative entries, each with the sum it had.

    `table` (..., K): the last axis is projected; its sums must not be negative. Result: (..., K):
    euclidean projections.

    Examples
    --------
    >>> import numpy as np
    >>> from skfairdp.inprocessing.attribute.group_estimates import onto_simplex
    >>> onto_simplex(np.array([1.5, -0.5, 0.0])).tolist()
    [1.0, 0.0, 0.0]
    """
    mass = table.sum(axis=-1, keepdims=True)
    falling = -np.sort(-table, axis=-1)
    ranks = np.arange(1, table.shape[-1] + 1)
    # What all entries lose if the first r of them stay positive; the largest r that keeps
    # its own entry positive is the right one.
    losses = (np.cumsum(falling, axis=-1) - mass) / ranks
    last = (falling > losses).sum(axis=-1, keepdims=True).clip(min=1) - 1
    return np.asarray((table - np.take_along_axis(losses, last, axis=-1)).clip(min=0.0))


def _estimated(table: NDArray[np.float64], response: RandomizedResponse) -> NDArray[np.float64]:
    """Invert, project, and mix in a little of the even table."""
    likely = onto_simplex(response.invert(table))
    return (1.0 - _FLOOR) * likely + _FLOOR * table.sum(axis=-1, keepdims=True) / table.shape[-1]


def attenuated_bound(
    reported: NDArray[np.float64], response: RandomizedResponse, tolerance: float
) -> float:
    """Bound on the gap between reported groups that keeps the gap of true groups at the tolerance.

    A predictor that does not see the reports has, among those who report z, a rate that
    differs from the overall one by ``c_z = (pi - pi') p_z / q_z`` times what it differs
    by in the true group z, where p and q are the shares of true groups and of reports:
    differences look smaller than they are.

    `reported` (K,): number, or share, of rows by report. `tolerance`: largest accepted difference
    of rates between two true groups. Result: largest ``|rate among reports z - overall rate|``,
    for every z, under which any two true groups differ by at most the tolerance.
    """
    reported = np.asarray(reported, dtype=np.float64)
    if reported.sum() == 0.0:
        return tolerance  # no group to compare
    true = _estimated(reported / reported.sum(), response)
    shown = response.matrix @ true
    if len(true) == 2:
        # The two deviations balance each other, so one number decides both.
        return float(tolerance * response.attenuation * true.prod() / shown.min())
    left = np.sort(response.attenuation * true / shown)
    return float(tolerance / (1.0 / left[:2]).sum())


def estimated_joint(
    scores: NDArray[np.float64],
    labels: NDArray[np.int64],
    reports: NDArray[np.int64],
    response: RandomizedResponse,
) -> NDArray[np.float64]:
    """Estimate the joint law of prediction, label and true group.

    `scores` (n,): probability with which each row gets a positive prediction. `labels` (n,): 0 or
    1. `reports` (n,): randomised groups. Result (2, 2, K): prediction x label x true group; sums
    to one, nothing negative.
    """
    n_groups = response.n_values
    cells = labels * n_groups + reports
    table = np.stack(
        [
            np.bincount(cells, weights=weight, minlength=2 * n_groups).reshape(2, n_groups)
            for weight in (1.0 - scores, scores)
        ]
    )
    return _estimated(table / len(scores), response)


def even_decisions(
    joint: NDArray[np.float64],
    strata: tuple[Stratum, ...],
    tolerance: float,
    seen: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Find the most accurate randomised revision of predictions that is even enough.

    A linear program (Hardt, Price and Srebro, "Equality of Opportunity in Supervised
    Learning", 2016) over the probability of a positive decision given the prediction and
    the group that is seen at prediction. There always is a solution: the same coin for
    all people is even under every notion.

    `joint` (2, 2, K): prediction x label x true group. `strata`: rates that are compared between
    groups, for two classes. `tolerance`: largest difference of each rate between two true groups.
    `seen` (K, K): probability of each group seen (row) given the true one (column). Result (2,
    K): probability of a positive decision by prediction and group seen.
    """
    n_groups = joint.shape[2]
    # Column (prediction, seen), row (prediction, true): the decision rate a true group meets.
    met = np.kron(np.eye(2), seen.T)
    cost = np.einsum("pyk,y->pk", joint, np.array([1.0, -1.0])).ravel() @ met
    rows: list[NDArray] = []
    limits: list[float] = []
    for s, stratum in enumerate(strata):
        gain = stratum.successes[:, 1].astype(float) - stratum.successes[:, 0]
        trials = (stratum.successes | stratum.failures).any(axis=1).astype(float)
        mass = np.einsum("pyk,y->k", joint, trials)
        if mass.sum() == 0.0:
            continue  # no row has this label
        slope = np.einsum("pyk,y->pk", joint, gain) / mass
        start = np.einsum("pyk,y->k", joint, stratum.successes[:, 0].astype(float)) / mass
        for k in range(n_groups):
            own = np.zeros((2, n_groups))
            own[:, k] = slope[:, k]
            level = -np.eye(len(strata))[s]
            upper = np.concatenate([own.ravel() @ met, level])
            # level <= rate <= level + tolerance
            rows += [upper, -upper]
            limits += [tolerance - start[k], start[k]]
    n_decisions = 2 * n_groups
    solution = linprog(
        np.concatenate([cost, np.zeros(len(strata))]),
        A_ub=np.array(rows) if rows else None,
        b_ub=np.array(limits) if rows else None,
        bounds=[(0.0, 1.0)] * n_decisions + [(None, None)] * len(strata),
        method="highs",
    )
    if solution.status != 0:
        raise SkfairdpError(
            "The linear program of the decisions by group was not solved although it has a "
            f"solution ({solution.message}) Use another tolerance, or group_at_predict='none'."
        )
    return np.asarray(solution.x[:n_decisions]).reshape(2, n_groups).clip(0.0, 1.0)
