"""Parameters of classifiers that learn from votes, and the plan that follows from them."""

from __future__ import annotations

import math
from typing import Any

from skfairdp.aggregation.voting_plan import (
    VotingNoise,
    affordable_answers,
    calibrated_noise,
    voting_plan,
)
from skfairdp.exceptions import PrivacyWarning, warn_user
from skfairdp.privacy.plan import Plan

# A test at T passes by noise alone with chance 1e-3 where T is this many noise standard
# deviations above all the votes there are. Published settings have T above the number of
# teachers, with noise to match.
_OUT_OF_REACH = 3.0
# Where the number of answers is left open, as many are bought as leave the noise of a vote
# at half the number of teachers: on Adult (100 to 1000 teachers, epsilon 1 to 4) a student
# learns best from noise of a third to two thirds, and the optimum is flat.
_USEFUL_NOISE, _FEWEST_ANSWERS = 0.5, 100


def check_settings(estimator: Any) -> None:
    """Check what the parameter table cannot say.

    `estimator`: an `AggregatedClassifier`.
    """
    epsilon, threshold = estimator.epsilon, estimator.threshold
    own = {"vote_noise": estimator.vote_noise, "threshold_noise": estimator.threshold_noise}
    if threshold is None and estimator.threshold_noise is not None:
        raise ValueError(
            "'threshold_noise' is set, but 'threshold' is None: no test is made then. Set both or "
            "none."
        )
    needed = ["vote_noise"] if threshold is None else ["vote_noise", "threshold_noise"]
    names = " and ".join(map(repr, needed))
    given = [name for name in needed if own[name] is not None]
    if given and given != needed:
        raise ValueError(f"Set {names} together, or none of them; got {own!r}.")
    if epsilon is None and not given:
        raise ValueError(
            "Set 'epsilon' (the noise is calibrated to it, or with the noise given the number of "
            f"answers), or epsilon=None and {names}."
        )
    if epsilon is not None and math.isinf(epsilon) and given:
        raise ValueError(f"epsilon=inf means no noise; leave {names} None.")
    if epsilon is not None and given and estimator.n_answers is not None:
        raise ValueError(
            f"'epsilon' and {names} fix how many answers are paid for; got n_answers="
            f"{estimator.n_answers} as well. Leave 'n_answers', the noise, or 'epsilon' None."
        )


def make_plan(estimator: Any, n_public: int, *, adjacency: str) -> tuple[VotingNoise, Plan]:
    """Fix noise, queries and answers from public numbers alone.

    `estimator`: checked by `check_settings`. Raises ValueError: more queries than public rows,
    more answers than queries, a budget too small for one answer, or a threshold out of reach.
    """
    n_queries = _at_most(estimator, "n_queries", n_public, "the number of public rows")
    n_answers = _at_most(estimator, "n_answers", n_queries, "the number of queries")
    tested = estimator.threshold is not None
    epsilon, delta = estimator.epsilon, float(estimator.delta)
    if estimator.vote_noise is not None:
        tests = float(estimator.threshold_noise) if tested else None
        noise = VotingNoise(tests, float(estimator.vote_noise))
        if epsilon is not None:
            n_answers = affordable_answers(epsilon, delta, n_queries, noise)
            if n_answers == 0:
                _refuse_budget(estimator, n_queries, noise)
    elif math.isinf(epsilon):
        warn_user("epsilon=inf trains without noise: nothing is protected.", PrivacyWarning)
        noise = VotingNoise(0.0 if tested else None, 0.0)
    else:
        ratio = float(estimator.noise_ratio) if tested else None
        if estimator.n_answers is None:
            std = _USEFUL_NOISE * estimator.n_teachers
            useful = VotingNoise(None if ratio is None else ratio * std, std)
            paid = affordable_answers(epsilon, delta, n_queries, useful)
            n_answers = min(n_queries, max(_FEWEST_ANSWERS, paid))
        noise = calibrated_noise(epsilon, delta, n_queries, n_answers, ratio=ratio)
    if noise.threshold is not None:
        _refuse_threshold_out_of_reach(estimator, noise.threshold)
    return noise, voting_plan(n_queries, n_answers, noise, delta=delta, adjacency=adjacency)


def _at_most(estimator: Any, name: str, limit: int, what: str) -> int:
    value = getattr(estimator, name)
    if value is not None and value > limit:
        raise ValueError(f"{name!r} must be at most {what}, {limit}; got {value}.")
    return limit if value is None else int(value)


def _refuse_budget(estimator: Any, n_queries: int, noise: VotingNoise) -> None:
    tests = f" after {n_queries} threshold tests (n_queries)" if noise.threshold else ""
    raise ValueError(
        f"'epsilon' = {estimator.epsilon:g} is too small for a single answer with vote_noise="
        f"{noise.votes:g}{tests}. Raise 'epsilon' or the noise, ask fewer queries, or leave "
        "the noise None to have it calibrated."
    )


def _refuse_threshold_out_of_reach(estimator: Any, std: float) -> None:
    if estimator.threshold > estimator.n_teachers + _OUT_OF_REACH * std:
        raise ValueError(
            f"'threshold' = {estimator.threshold:g} is above the number of teachers, "
            f"{estimator.n_teachers}, by more than {_OUT_OF_REACH:g} standard deviations of the "
            f"test's noise ({std:.4g}): hardly any query would pass. Set it to a number of votes "
            "that the teachers can reach."
        )
