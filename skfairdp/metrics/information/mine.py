"""Mutual information by a neural critic (MINE), with the value taken on held-out rows."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from skfairdp.fairness.information import MutualInformation, numeric_rows, standardised
from skfairdp.foundation.documentation import completed_by
from skfairdp.foundation.parameters import (
    COUNT,
    POSITIVE,
    PROBABILITY,
    check_arguments,
    check_values,
)
from skfairdp.metrics.information.estimates import estimated, nearest_neighbours, other_numbers
from skfairdp.records.groups import encode_groups

_HIDDEN = (100, 100)
_AVERAGED = 100
# Continuous s: held-out pairs of the product are made of this many random orders.
_ORDERS = 4


@completed_by(nearest_neighbours)
def mine(
    Z: ArrayLike,
    s: ArrayLike | pd.Series | pd.DataFrame,
    *,
    continuous_s: bool = False,
    iterations: int = 50_000,
    batch_size: int = 256,
    learning_rate: float = 1e-3,
    averaging_rate: float = 0.01,
    held_out: float | ArrayLike = 0.3,
    units: str = "nats",
    random_state: int | None = None,
) -> MutualInformation:
    r"""Estimate I(S; Z) by the mutual information neural estimator.

    A critic T is trained to raise the Donsker-Varadhan bound
    I >= E[T(Z, S)] - log E[exp T(Z, S')], S' an independent copy of S.

    Parameters
    ----------
    continuous_s : bool, default=False
        Whether `s` is numeric; otherwise it is one-hot encoded.
    iterations : int, default=50_000
        Steps of Adam; about half a minute per 50,000 on one core.
    batch_size : int, default=256
        Pairs of each kind in a step.
    learning_rate : float, default=1e-3
        Step size of Adam.
    averaging_rate : float, default=0.01
        Rate of the moving average of E[exp T], the denominator of the gradient's second term.
    held_out : float in (0, 1) or array-like of bool, shape (n_rows,), default=0.3
        Share of the rows on which the reported value is computed, or a mark at each of them.
    random_state : int or None, default=None
        Seed of split, weights and batches.

    Returns
    -------
    MutualInformation
        With method "mine".

    Raises
    ------
    ValueError
        For non-finite or non-numeric `Z`, fewer than 20 rows, fewer than two groups, or an
        argument that is not allowed.

    Notes
    -----
    The value is the Donsker-Varadhan one on held-out rows, averaged over the last 100 steps, of a
    critic with two hidden layers of 100 ReLU6 units. In expectation it is too low, down to negative
    values for independent variables (see `unclipped`). docs/theory/information.md says what differs
    from common code, and why.

    References
    ----------
    Belghazi et al., "Mutual Information Neural Estimation", ICML 2018, section 3.2 and algorithm 1.

    Examples
    --------
    >>> import numpy as np
    >>> from skfairdp.metrics import mine
    >>> s = np.tile([0, 1], 500)
    >>> mine(s[:, None] * 2.0, s, iterations=300, units="bits", random_state=0).value > 0.8
    True
    """
    check_values(
        iterations=(iterations, COUNT),
        batch_size=(batch_size, COUNT),
        averaging_rate=(averaging_rate, PROBABILITY),
    )
    check_values(learning_rate=(learning_rate, POSITIVE))
    rows = standardised(numeric_rows(Z))
    others = _other_side(s, len(rows), continuous_s)
    if len(rows) < 20:
        raise ValueError(
            f"Z has {len(rows)} rows; at least 20 are needed, as the critic is trained on some and "
            "evaluated on the others."
        )
    rng = np.random.default_rng(random_state)
    train_rows, value_rows = _split(held_out, len(rows), rng)
    evaluation = _evaluation_pairs(rows[value_rows], others[value_rows], continuous_s, rng)
    # Here, not above: torch belongs to the rooms that train models, and a user who only reads a
    # table of counts should wait for it.
    import torch

    from skfairdp.engine.modules import MLP
    from skfairdp.engine.randomness import SeededDraws

    given = (rows[train_rows], others[train_rows], *evaluation)
    tensors = (torch.as_tensor(x, dtype=torch.float32) for x in given)
    z_rows, s_rows, joint, product, log_weights = tensors
    seed = int(rng.integers(2**62))
    generator = torch.Generator().manual_seed(seed)
    with SeededDraws(seed):
        critic = MLP(z_rows.shape[1] + s_rows.shape[1], 1, _HIDDEN, torch.nn.ReLU6)
    optimizer = torch.optim.Adam(critic.parameters(), lr=learning_rate, fused=True)
    log_average: torch.Tensor | None = None
    values = []
    for step in range(iterations):
        picks = torch.randint(len(z_rows), (3, batch_size), generator=generator)
        left, right = z_rows[picks[:2].flatten()], s_rows[picks[::2].flatten()]
        scores = critic(torch.cat([left, right], dim=1))[:, 0]
        log_mean = torch.logsumexp(scores[batch_size:], 0) - math.log(batch_size)
        now = log_mean.detach()
        if log_average is not None:
            kept = log_average + math.log1p(-averaging_rate)
            now = torch.logaddexp(kept, now + math.log(averaging_rate))
        log_average = now
        # The surrogate whose gradient is the corrected one; its value means nothing.
        loss = torch.exp(log_mean - log_average) - scores[:batch_size].mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step >= iterations - _AVERAGED:
            with torch.no_grad():
                second = torch.logsumexp(critic(product)[:, 0] + log_weights, 0)
                values.append(float(critic(joint).mean() - second))
    reason = (
        f"Donsker-Varadhan value of a neural critic after {iterations} steps, on "
        f"{len(value_rows)} held-out rows; tends to be too low."
    )
    return estimated(float(np.mean(values)), "mine", reason, len(rows), units)


def _split(
    held_out: float | ArrayLike, n_rows: int, rng: np.random.Generator
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Positions of the rows to train on and of those that the value comes from."""
    if np.ndim(held_out) == 0:
        check_arguments({"held_out": held_out}, held_out=PROBABILITY)
        order = rng.permutation(n_rows)
        n_value = max(2, round(float(held_out) * n_rows))  # type: ignore[arg-type]
        return order[n_value:], order[:n_value]
    marks = np.asarray(held_out)
    if marks.shape != (n_rows,) or marks.dtype != bool or not 2 <= marks.sum() <= n_rows - 2:
        raise ValueError(
            f"held_out has shape {marks.shape} and type {marks.dtype}. Allowed are {n_rows} "
            "booleans, with two rows or more on either side, or a number between 0 and 1."
        )
    return np.flatnonzero(~marks), np.flatnonzero(marks)


def _evaluation_pairs(
    rows: NDArray, others: NDArray, continuous_s: bool, rng: np.random.Generator
) -> tuple[NDArray, NDArray, NDArray]:
    """Held-out pairs, pairs of the product, and the log-weights of the latter (sum one)."""
    joint = np.hstack([rows, others])
    if continuous_s:
        shuffled = np.concatenate([others[rng.permutation(len(others))] for _ in range(_ORDERS)])
        product = np.hstack([np.tile(rows, (_ORDERS, 1)), shuffled])
        return joint, product, np.full(len(product), -math.log(len(product)))
    shares = others.mean(axis=0)
    present = np.flatnonzero(shares)
    groups = np.repeat(np.eye(others.shape[1])[present], len(rows), axis=0)
    product = np.hstack([np.tile(rows, (len(present), 1)), groups])
    return joint, product, np.log(np.repeat(shares[present], len(rows)) / len(rows))


def _other_side(s: ArrayLike, n_rows: int, continuous_s: bool) -> NDArray[np.float64]:
    if continuous_s:
        return standardised(other_numbers(s, n_rows))
    groups = encode_groups(s, n_rows=n_rows, name="s")
    if len(groups.labels) < 2:
        raise ValueError(f"s has {len(groups.labels)} group(s); information needs at least two.")
    return np.eye(len(groups.labels))[groups.codes]
