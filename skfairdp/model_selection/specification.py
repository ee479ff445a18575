"""Search for a certified model at a named (epsilon, tolerance), with a record of every attempt."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from copy import copy
from os import PathLike
from typing import Any

from numpy.typing import ArrayLike
from sklearn.base import clone, is_regressor
from sklearn.model_selection import ParameterGrid
from sklearn.pipeline import Pipeline

from skfairdp.certificate.evaluation_settings import EvaluationSettings
from skfairdp.fairness.notions import DERIVED, Notion, get_notion
from skfairdp.fairness.number_notions import (
    DISTRIBUTION_GAP,
    NumberNotion,
    get_number_notions,
)
from skfairdp.foundation import assumptions
from skfairdp.foundation.figures import as_given, significant_up
from skfairdp.foundation.parameters import NONE, PROBABILITY, Choice, Number, check_values
from skfairdp.inprocessing.every_tolerance import EveryTolerance
from skfairdp.model_selection.budget import MakePlan
from skfairdp.model_selection.candidates import (
    check_distributions,
    check_estimator,
    check_steps,
    checked_rows,
    final_of,
    fit_on,
    planner,
    with_public_sets,
    with_settings,
)
from skfairdp.model_selection.holding_out import divide
from skfairdp.model_selection.number_scores import ABSOLUTE, PREDICTIONS_SHARE, SQUARED
from skfairdp.model_selection.specification_result import (
    Attempt,
    Specification,
    all_fits,
    attempt_of,
    best_of,
)
from skfairdp.privacy.accounting.accountants import accountant_name, event_epsilon
from skfairdp.privacy.accounting.calibration import noise_multiplier_for
from skfairdp.privacy.guarantee import PrivacyGuarantee
from skfairdp.privacy.ledger import PrivacyLedger, as_ledger
from skfairdp.privacy.noise import NoiseSource, noise_text
from skfairdp.privacy.plan import Plan
from skfairdp.receipts.brought_along import assuming_parts


def specify(
    estimator: Any,
    candidates: Mapping[str, Sequence[Any]] | Iterable[Mapping[str, Any]],
    X: ArrayLike,
    y: ArrayLike,
    *,
    sensitive_features: ArrayLike,
    epsilon: float,
    tolerance: float,
    delta: float = 1e-6,
    notion: str = "demographic_parity",
    objective: str | None = None,
    confidence_level: float = 0.95,
    holdout_fraction: float = 0.4,
    ledger: str | PathLike[str] | PrivacyLedger | None = None,
) -> Specification:
    """Find the best model that keeps a named privacy loss and a named gap.

    Every candidate is trained once, on one part of the rows, and its gap is bounded by one
    noisy table of counts of the other. All tolerances of a `FairPathClassifier` or
    `FairPathRegressor` are one fit.
    Nothing is free: the fits share the budget of the training records, the tables that of the
    held-out ones, and the bounds the error probability. In return all attempts may be shown,
    and "not found" says what was tried, what each model's gap is at least and at most, and
    whether the rows could have been enough. With many candidates a `PrivateSearchCV` is
    cheaper, and shows the winner alone.

    Parameters
    ----------
    estimator : private classifier or regressor, or Pipeline that ends in one
        Trains on noisy gradients and protects records. Its own epsilon, delta and noise
        multiplier are not used. A regressor declares `target_bounds`.
    candidates : mapping of str to sequence, or iterable of mappings
        A grid, of which every point is tried, or a list of single points; fixed before the
        rows were looked at.
    X : array-like or DataFrame, shape (n_samples, n_features)
        Private rows, none of them used before.
    y : array-like, shape (n_samples,)
        Labels, or numbers for a regressor.
    sensitive_features : array-like of shape (n_samples,) or (n_samples, n_columns)
        Group of each row.
    epsilon : float
        Largest acceptable privacy loss of everything together, in nats.
    tolerance : float
        Largest acceptable gap, in [0, 1].
    delta : float, default=1e-6
        Probability in (0, 1/n).
    notion : str, default="demographic_parity"
        Which gap: a name of `skfairdp.fairness.notions.NOTIONS`. Of numbers "distribution_gap",
        which the default means too: the largest difference in the share of predictions up to any
        of 15 even thresholds between the bounds.
    objective : str or None, default=None
        What is best among models that keep both. Of classes: "accuracy", the default, or "auc". Of
        numbers: "neg_mean_absolute_error", the default, or "neg_mean_squared_error", from noisy
        sums of errors, where targets are clipped to the bounds.
    confidence_level : float in (0, 1), default=0.95
        Probability that the bounds of all attempts hold together.
    holdout_fraction : float, default=0.4
        Chance of each record to be held out for the bounds.
    ledger : None, path or PrivacyLedger, default=None
        Where all of it is charged, before a row is used.

    Returns
    -------
    Specification

    Raises
    ------
    ValueError
        A parameter, the rows or the groups are invalid.

    Examples
    --------
    >>> from skfairdp import DPSGDClassifier
    >>> from skfairdp.datasets import make_biased_gaussians
    >>> from skfairdp.model_selection import specify
    >>> data = make_biased_gaussians(n_samples=3000, random_state=0)
    >>> answer = specify(
    ...     DPSGDClassifier(max_epochs=2), {"max_grad_norm": [0.3, 1.0]}, data.data, data.target,
    ...     sensitive_features=data.sensitive_features, epsilon=2.0, tolerance=0.01,
    ... )
    >>> answer.found, len(answer.attempts), answer.verify()
    (False, 2, True)
    """
    check_values(
        epsilon=(epsilon, Number(0.01, 1e3)),
        tolerance=(tolerance, Number(0.0, 1.0)),
        delta=(delta, PROBABILITY),
        confidence_level=(confidence_level, PROBABILITY),
        holdout_fraction=(holdout_fraction, PROBABILITY),
    )
    if sensitive_features is None:
        raise ValueError("A gap needs groups: give sensitive_features.")
    check_estimator(estimator)
    numbers = is_regressor(final_of(estimator))
    compared = _compared(notion, numbers=numbers)
    known = (ABSOLUTE, SQUARED) if numbers else ("accuracy", "auc")
    check_values(objective=(objective, Choice(known), NONE))
    best_by = objective or known[0]
    points = _points(estimator, candidates)
    asking = clone(final_of(estimator))  # of which rows are checked, before a charge
    X, y = checked_rows(asking, with_settings(estimator, points[0]), X, y)
    firsts = _firsts(estimator, points)
    source = NoiseSource()
    parts = divide(X, y, sensitive_features, float(holdout_fraction), source)
    if parts.groups is None or len(parts.groups) < 2:
        raise ValueError("A gap needs two groups: sensitive_features holds one.")
    estimator = with_public_sets(estimator, y, parts.groups)
    plans = [planner(estimator, points[n], delta, parts.training) for n in sorted(set(firsts))]
    exact = all(plan(1.0).exact_noise for plan in plans)
    price = float(epsilon) / len(points)  # of a table: pure, and they add up
    figures = {"fits": len(plans), "n": len(points), "epsilon": significant_up(price, 4)}
    of_tables: tuple[str, ...] = (assumptions.ALL_COMPOSE.format(**figures),)
    public: tuple[str, ...] = (assumptions.SETS_PUBLIC,)
    if numbers:
        of_tables = (assumptions.NUMBERS_COMPOSE.format(**figures),)
        groups = assumptions.SET.format(name="groups", known="public")
        public = assumptions.TARGET_BOUNDS_DECLARED, groups
    drawn = assumptions.HELD_OUT_WITH_CHANCE.format(fraction=as_given(holdout_fraction))
    rests_on = (
        *of_tables,
        f"{drawn}, so the larger of the two costs holds for every record",
        *public,
        f"{noise_text(source, exact=exact)} (counts get noise in integers)",
        assumptions.TIME_OF_MANY,
        assumptions.starts("specify"),
    )
    multipliers, privacy = share_budget(plans, float(epsilon), float(delta), price * len(points))
    privacy = dataclasses.replace(privacy, assumptions=rests_on)
    privacy = assuming_parts(privacy, {"estimator": estimator})
    book = as_ledger(ledger)
    name = type(final_of(estimator)).__name__
    terms = EvaluationSettings(
        notions=compared[0],
        number_notions=compared[1],
        confidence_level=float(confidence_level),
        count_epsilon=price * (PREDICTIONS_SHARE if numbers else 1.0),
        groups=parts.groups,
        n_certificates=len(points),
    )
    attempts: list[Attempt] = []
    charge = book.charge(privacy, activity="search", estimator=name) if book else nullcontext()
    with charge:
        fits: dict[int, Any] = {}
        for number, (point, first) in enumerate(zip(points, firsts, strict=True), 1):
            if first in fits:
                model = _at(fits[first], with_settings(estimator, point, delta=delta))
            else:
                noise = {"epsilon": None, "noise_multiplier": multipliers[len(fits)]}
                model = fits[first] = with_settings(estimator, point, delta=delta, **noise)
                check_steps(fit_on(model, parts.training))
            at = dataclasses.replace(terms, certificate_index=number)
            what = model, point, parts.held_out, at, tolerance, best_by, privacy, source
            attempts.append(attempt_of(*what))
    tried, level = tuple(attempts), float(confidence_level)
    return Specification(float(epsilon), float(tolerance), privacy, tried, level, best_of(tried))


def _compared(notion: str, *, numbers: bool) -> tuple[tuple[Notion, ...], tuple[NumberNotion, ...]]:
    """Notions of classes, and of numbers, that certificates compare: one of one kind."""
    if not numbers:
        check_values(notion=(notion, Choice(DERIVED)))
        return (get_notion(notion),), ()
    found = get_number_notions([notion])
    if found[0].name != DISTRIBUTION_GAP:
        raise ValueError(
            f"notion={notion!r} has no bound from noisy counts; use 'distribution_gap', whose "
            "bound times the range of target_bounds is one for means too."
        )
    return (), found


def _points(
    estimator: Any, candidates: Mapping[str, Sequence[Any]] | Iterable[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    grid: list[Any] = [candidates]
    if not isinstance(candidates, Mapping):
        grid = [{key: [value] for key, value in point.items()} for point in candidates]
    if not grid:
        raise ValueError("'candidates' is empty: name at least one point, e.g. [{}].")
    check_distributions(estimator, grid)
    return [dict(point) for point in ParameterGrid(grid)]


def _firsts(estimator: Any, points: list[dict[str, Any]]) -> list[int]:
    """First point that the fit of each serves: of a path, one that differs in tolerance alone."""
    if not isinstance(final_of(estimator), EveryTolerance):
        return list(range(len(points)))

    def rest(point: dict[str, Any]) -> list[tuple[str, Any]]:
        named = (name for name in sorted(point) if name.rsplit("__", 1)[-1] != "tolerance")
        return [(name, point[name]) for name in named]

    rests = list(map(rest, points))
    return [next(i for i, other in enumerate(rests) if _same(own, other)) for own in rests]


def _same(one: Any, other: Any) -> bool:
    """Whether two settings are certainly equal: the printed form of nets does not decide it."""
    if type(one) is not type(other):
        return False
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    plain = one is None or isinstance(one, bool | int | float | str)
    return one is other or (plain and bool(one == other))


def _at(fitted: Any, asked: Any) -> Any:
    """Choose the point for the tolerance that another model asks for."""
    if not isinstance(fitted, Pipeline):
        return fitted.at(asked.tolerance)
    moved = copy(fitted)
    name, final = fitted.steps[-1]
    moved.steps = [*fitted.steps[:-1], (name, _at(final, final_of(asked)))]
    return moved


def share_budget(
    plans: Sequence[MakePlan], epsilon: float, delta: float, of_tables: float
) -> tuple[tuple[float, ...], PrivacyGuarantee]:
    """Give every fit the same share of a budget: noise multipliers, and the cost of all.

    A record is either in the training rows of all attempts or in the held-out rows of all: the
    fits compose, the tables compose (to `of_tables`), and the larger of the two is the cost.
    """
    n = len(plans)
    adjacency = plans[0](1.0).adjacency
    target = epsilon
    while True:
        # n fits of one plan are one plan with n times the steps.
        multipliers = tuple(noise_multiplier_for(target, delta, _repeated(p, n)) for p in plans)
        fits = all_fits(p(s) for p, s in zip(plans, multipliers, strict=True))
        spent = event_epsilon(fits, delta, adjacency)
        if spent <= epsilon:
            break
        target *= 0.995 * epsilon / spent  # plans of different shapes, a little over
    return multipliers, PrivacyGuarantee(
        epsilon=max(spent, of_tables),
        delta=delta,
        adjacency=adjacency,
        accountant=accountant_name(fits, delta, adjacency),
        # A record is in one part or the other, and no one event says so: further
        # releases compose with epsilon and delta themselves.
        event=None,
    )


def _repeated(make_plan: MakePlan, times: int) -> MakePlan:
    def made(multiplier: float) -> Plan:
        plan = make_plan(multiplier)
        segments = tuple(dataclasses.replace(s, steps=s.steps * times) for s in plan.segments)
        counts = tuple(dataclasses.replace(c, releases=c.releases * times) for c in plan.counts)
        return dataclasses.replace(plan, segments=segments, counts=counts)

    return made
