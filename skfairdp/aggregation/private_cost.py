"""Data-dependent cost of votes: a diagnostic for those who may see the votes, no guarantee."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import log_ndtr, logsumexp

from skfairdp.aggregation.voting_plan import VotingNoise


def data_dependent_rdp(
    votes: np.ndarray,
    noise: VotingNoise,
    orders: Sequence[float],
    *,
    threshold: float | None = None,
    charged: np.ndarray | None = None,
) -> np.ndarray:
    """Renyi divergence of each query for the votes that were cast: a private diagnostic.

    Where the teachers agree, an answer costs less than the plan charges. How much less
    is computed from the private votes and **must not be published**: it is no
    protection, is part of no certificate, and must not decide when to stop.

    Parameters
    ----------
    votes : ndarray of int64, shape (n_queries, n_classes)
        Votes of the teachers.
    noise : VotingNoise
        Noise of test and votes.
    orders : sequence of float
        Orders above 1.
    threshold : float or None, default=None
        T of the test; needed where `noise` has a test.
    charged : ndarray of bool, shape (n_queries,), optional
        Which queries passed the test; None takes all.

    Returns
    -------
    ndarray of float64, shape (n_queries, n_orders)
        In nats; never above what the plan charges.

    References
    ----------
    Papernot et al., "Scalable Private Learning with PATE", ICLR 2018, theorem 6 and
    propositions 7, 8 and 10.

    Examples
    --------
    >>> import numpy as np
    >>> from skfairdp.aggregation import VotingNoise, data_dependent_rdp
    >>> agreed, split = np.array([[250, 0], [130, 120]])
    >>> noise = VotingNoise(threshold=None, votes=40.0)
    >>> data_dependent_rdp(np.array([agreed, split]), noise, [2.0]).round(8).ravel().tolist()
    [1.89e-06, 0.00125]
    """
    votes = np.asarray(votes, dtype=np.float64)
    at = np.asarray(orders, dtype=np.float64)
    if votes.ndim != 2 or votes.shape[1] < 2:
        raise ValueError(
            f"'votes' must have one row a query and a column for each of two classes or more; got "
            f"the shape {votes.shape}."
        )
    if (at <= 1.0).any():
        raise ValueError("'orders' must all be above 1.")
    if (threshold is None) != (noise.threshold is None):
        raise ValueError("'threshold' and the threshold noise belong together: give both or none.")
    cost = _bound(_log_wrong(votes, noise.votes), noise.votes, at)
    if charged is not None:
        cost[~np.asarray(charged, dtype=bool)] = 0.0
    if noise.threshold is not None and threshold is not None:
        # A yes or no: noise of one number, sensitivity 1, is the case sigma * sqrt(2) above.
        margin = (votes.max(axis=1) - threshold) / noise.threshold
        rarer = np.minimum(log_ndtr(margin), log_ndtr(-margin))
        cost += _bound(rarer, np.sqrt(2.0) * noise.threshold, at)
    return cost


def _log_wrong(votes: np.ndarray, std: float) -> np.ndarray:
    """Log of a bound on the chance that another class than the first one wins."""
    ordered = np.sort(votes, axis=1)
    gaps = ordered[:, -1:] - ordered[:, :-1]
    bound = logsumexp(log_ndtr(-gaps / (np.sqrt(2.0) * std)), axis=1)
    return np.minimum(bound, np.log1p(-1.0 / votes.shape[1]))


def _bound(log_q: np.ndarray, std: float, orders: np.ndarray) -> np.ndarray:
    """Bound for outcomes of which all but one have the chance q, shape (n_queries, n_orders)."""
    log_q = log_q[:, None]
    general = np.broadcast_to(orders / std**2, (len(log_q), len(orders))).copy()
    mu2 = std * np.sqrt(-log_q)
    mu1 = mu2 + 1.0
    eps1, eps2 = mu1 / std**2, mu2 / std**2
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        limit = (mu2 - 1.0) * eps2 - mu2 * np.log(mu1 / (mu1 - 1.0) * mu2 / (mu2 - 1.0))
        valid = (orders < mu1) & (mu2 > 1.0) & (log_q < -eps2) & (log_q <= limit)
        likely = np.log1p(-np.exp(log_q))
        log_a = likely - np.log1p(-np.exp((log_q + eps2) * (mu2 - 1.0) / mu2))
        log_b = eps1 - log_q / (mu1 - 1.0)
        terms = likely + (orders - 1.0) * log_a, log_q + (orders - 1.0) * log_b
        bound = np.logaddexp(*terms) / (orders - 1.0)
    return np.where(valid, np.minimum(bound, general), general)
