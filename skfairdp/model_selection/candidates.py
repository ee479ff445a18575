"""Candidates of a search, drawn from the prior with their share of the budget, and silent.

Only the best so far is ever kept.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import sklearn
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import ParameterSampler
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import get_tags

from skfairdp.certificate.holdout import GroupedRows
from skfairdp.exceptions import warn_user
from skfairdp.fairness.notions import get_notion
from skfairdp.foundation.parameters import NONE, check_parameters, check_values
from skfairdp.inprocessing.gradient import GradientPredictor
from skfairdp.model_selection.budget import SearchBudget
from skfairdp.model_selection.holding_out import Divided, Score, noisy_table, score_of
from skfairdp.model_selection.number_scores import NumberScoring
from skfairdp.privacy.noise import NoiseSource
from skfairdp.privacy.plan import Plan
from skfairdp.receipts import RowFacts
from skfairdp.receipts.receipt import bind_each, changes
from skfairdp.receipts.unwrap import charges_privacy, kind_of, unwrap, why_learned
from skfairdp.records.labels import (
    SECRET_PART,
    count_rows,
    encode_labels,
    factorized,
    label_column,
    refuse_labels,
)
from skfairdp.records.numbers import INTERVAL, check_numbers
from skfairdp.records.persons import encode_persons
from skfairdp.records.rows import check_features, check_rows

# What the search sets, or what would make candidates differ in what they are promised.
OWNED = {
    "classes",
    "dataset_size",
    "delta",
    "epsilon",
    "group_sizes",
    "group_sizes_epsilon",
    "ledger",
    "noise_multiplier",
    "progress",
    "reproducible_noise",
    "verbose",
}
# Of regressors: errors are compared between the same bounds, and predicted from rows alone.
OF_NUMBERS = {"group_at_predict", "outside_epsilon", "target_bounds", "target_bounds_epsilon"}
PRIOR = "'param_distributions'"


def final_of(model: Any) -> Any:
    """Last step of a Pipeline, or the estimator itself."""
    while isinstance(model, Pipeline):
        model = model.steps[-1][1]
    return model


def check_estimator(estimator: Any) -> None:
    """Refuse an estimator whose cost is not known before it sees a row."""
    final = final_of(estimator)
    name = type(final).__name__
    if not isinstance(final, GradientPredictor):
        raise ValueError(
            f"'estimator' must be, or be a Pipeline that ends in, an estimator of skfairdp that "
            f"trains on noisy gradients, e.g. DPSGDClassifier or DPSGDRegressor; got {name}, whose "
            "cost is not known before it is fitted."
        )
    if is_regressor(final):
        _check_regressor(final)
    settings = final.get_params(deep=False)
    if settings.get("group_sizes_epsilon") is not None:
        raise ValueError(
            f"'estimator' sets group_sizes_epsilon={settings['group_sizes_epsilon']!r}: each run "
            "would buy its own sizes, and no one event would cover them all; declare group_sizes."
        )
    for key, value in estimator.get_params(deep=True).items():
        leaf = key.rsplit("__", 1)[-1]
        if leaf == "ledger" and value is not None:
            raise ValueError(
                "'estimator' has its own ledger, whose entries would show how often the "
                "search ran; set 'ledger' on the search, which charges itself once."
            )
        if leaf == "reproducible_noise" and value is True:
            raise ValueError(
                "'estimator' has reproducible_noise=True, so runs would share their noise; set "
                "it on the search, in a test."
            )


def _check_regressor(final: Any) -> None:
    """Refuse a regressor whose errors have no public bound, or that predicts with groups."""
    settings = final.get_params(deep=False)
    check_values(target_bounds=(settings["target_bounds"], INTERVAL, NONE))
    if settings["target_bounds"] is None:
        raise ValueError(
            "'estimator' has target_bounds=None, so each candidate would buy its own bounds, and "
            "their errors could not be compared. Declare target_bounds=(low, high)."
        )
    if settings["outside_epsilon"] is not None:
        raise ValueError(
            f"'estimator' sets outside_epsilon={settings['outside_epsilon']!r}: each candidate "
            "would buy the count again. Leave it at None."
        )
    if settings.get("group_at_predict", "none") != "none":
        raise ValueError(
            f"'estimator' has group_at_predict={settings['group_at_predict']!r}, and the search "
            "predicts from the rows alone. Use group_at_predict='none'."
        )


def check_distributions(
    estimator: Any, distributions: Mapping[str, Any] | Sequence[Mapping[str, Any]]
) -> Any:
    """Refuse a prior with parameters that cannot be searched; else return some candidate."""
    parts = [distributions] if isinstance(distributions, Mapping) else list(distributions)
    if not parts or not all(isinstance(part, Mapping) for part in parts):
        raise ValueError(
            f"{PRIOR} must be a mapping of parameter to list or distribution, or a list of these "
            f"mappings; got {distributions!r}."
        )
    for part in parts:
        names = OWNED | OF_NUMBERS if is_regressor(final_of(estimator)) else OWNED
        owned = sorted(key for key in part if key.rsplit("__", 1)[-1] in names)
        if owned:
            raise ValueError(
                f"{PRIOR} names {', '.join(owned)}, which the search sets alike for all "
                "candidates; search over batch_size, max_epochs, max_grad_norm, learning rates, "
                "nets, tolerances."
            )
        # Unknown names are found before a row is looked at.
        drawn = next(iter(ParameterSampler(part, 1, random_state=0)))
        candidate = clone(estimator).set_params(**drawn)
        # So are values that a candidate refuses, and estimators that the search cannot take.
        listed = [(k, v) for k, vs in part.items() if not hasattr(vs, "rvs") for v in vs]
        for changed in ({}, *({key: value} for key, value in listed)):
            final = final_of(with_settings(estimator, {**drawn, **changed}))
            check_parameters(final, final._parameters)
            final._check_settings()
    return candidate


def _check_kind(model: Any, estimator: Any) -> None:
    """Refuse a candidate whose score cannot be compared with those of the others."""
    kinds = [is_regressor(final_of(each)) for each in (model, estimator)]
    if kinds[0] != kinds[1]:
        raise ValueError(
            f"{PRIOR} mixes classifiers and regressors, which have no score in common. Search over "
            "one kind."
        )
    if kinds[0]:
        given = [tuple(map(float, final_of(each).target_bounds)) for each in (model, estimator)]
        if given[0] != given[1]:
            raise ValueError(
                f"{PRIOR} has a regressor with target_bounds={given[0]}, where 'estimator' has "
                f"{given[1]}: errors are compared between the same bounds. Give all the same."
            )


def with_settings(estimator: Any, parameters: Mapping[str, Any] | None, **settings: Any) -> Any:
    """Clone with a candidate's parameters, silent, its last step with its share of the budget."""
    model = clone(estimator)
    if parameters:
        # Cloned as in scikit-learn's searches: candidates share no object.
        model.set_params(**{key: clone(value, safe=False) for key, value in parameters.items()})
    check_estimator(model)
    _check_kind(model, estimator)
    for key, value in model.get_params(deep=True).items():
        leaf = key.rsplit("__", 1)[-1]
        # One progress bar for each candidate would count them.
        if leaf == "progress" or (leaf == "verbose" and value):
            model.set_params(**{key: False})
    final_of(model).set_params(**{"epsilon": 1.0, "noise_multiplier": None, **settings})
    return model


def checked_rows(search: Any, candidate: Any, X: Any, y: Any) -> tuple[Any, Any]:
    """Rows as candidates will take them; those of a Pipeline, whose steps are tried, as are.

    `search`: an estimator that holds the candidates' `estimator`, and is given the names of the
    features. Refuses what a candidate would refuse, before anything is charged.
    """
    if y is None:
        name = type(search).__name__
        raise ValueError(f"{name} requires y to be passed, but the target y is None.")
    rows, in_pipeline = X, isinstance(candidate, Pipeline)
    while isinstance(candidate, Pipeline):
        *steps, (_, last) = candidate.steps
        if steps:
            refuse_charging(steps)  # before one is fitted
            # A copy: what a step writes into its rows must not reach the candidates.
            rows = candidate[:-1].fit_transform(deepcopy(rows))
            check_steps(Pipeline([*steps, ("rest", FunctionTransformer())]))
        candidate = last
    of_levels = get_tags(candidate).input_tags.categorical  # a table of levels
    images = getattr(candidate, "net", None) is not None
    if is_regressor(candidate):
        if of_levels:
            return X, check_numbers(search, y, count_rows(X))
        checked = check_features(search, rows, allow_nd=images, reset=True)
        as_given = in_pipeline or isinstance(X, pd.DataFrame)
        return X if as_given else checked, check_numbers(search, y, len(checked))
    if rows is not X and of_levels:
        return X, y
    checked, labels = check_rows(
        search,
        rows,
        y,
        allow_nd=images,
        labels_declared=getattr(candidate, "classes", None) is not None,
    )
    if in_pipeline:
        return X, y
    return (X if isinstance(X, pd.DataFrame) else checked), labels


def with_public_sets(estimator: Any, y: Any, groups: Sequence[Any] | None) -> Any:
    """Clone that is given the sets of classes and groups of all rows, where none are declared.

    A candidate sees the rows that chance assigned to training. Which labels are left among these
    depends on single records, and so must not decide which classes it has.
    """
    model = clone(estimator)
    final = final_of(model)
    known = final.get_params(deep=False)
    if "classes" in known and known["classes"] is None and is_classifier(final):
        labels = label_column(y, count_rows(y), declared=False)
        refuse_labels(labels)
        final.set_params(classes=encode_labels(labels, None, multiclass=final._multiclass)[0])
    # With sizes from the rows the group of each record is public, and so are those of the part.
    declared = known.get("dataset_size") is not None
    if groups is not None and declared and "groups" in known and known["groups"] is None:
        final.set_params(groups=list(groups))
    return model


def groups_to_state(final: Any, groups: tuple | None) -> tuple | None:
    """Groups of all rows, for a model that trains without groups and has declared sizes.

    Where the relation adds and removes records, those of the training part depend on single ones.
    """
    known = final.get_params(deep=False)
    declared = known.get("dataset_size") is not None
    return groups if declared and not {"groups", "group_sizes"} & set(known) else None


def planner(
    estimator: Any,
    parameters: Mapping[str, Any] | None,
    delta: float,
    rows: GroupedRows,
    person_ids: Any = None,
) -> Callable[[float], Plan]:
    """Plan of a candidate for each noise multiplier, from the number and groups of its records."""
    final = final_of(with_settings(estimator, parameters, delta=delta))
    groups = final._encode_groups(rows.sensitive_features, len(rows))
    persons = None if person_ids is None else encode_persons(person_ids, len(rows))
    facts = RowFacts.of(len(rows), groups, persons)
    if is_classifier(final):
        facts = replace(facts, n_classes=_n_classes(final, rows.y))
    return _planner(final, facts)


def planner_for(estimator: Any, delta: float, facts: RowFacts) -> Callable[[float], Plan]:
    """Plan of a candidate for each noise multiplier, from public facts alone."""
    final = final_of(with_settings(estimator, None, delta=delta))
    return _planner(final, final._facts_of_fit(facts))


def _planner(final: Any, facts: RowFacts) -> Callable[[float], Plan]:
    # Sizes are declared or taken from the rows; none are bought, so the noise is not used.
    n_groups = None if facts.groups is None else len(facts.groups.labels)
    sizes = final._sizes(facts.groups, facts.n, NoiseSource())
    sizes = replace(sizes, n_groups=n_groups, n_classes=facts.n_classes)
    if sizes.adjacency not in ("add-remove", "zero-out"):
        raise ValueError(
            f"'estimator' ({type(final).__name__}) makes a promise under {sizes.adjacency!r}; "
            "choosing is accounted for where one record is added, removed or blanked. Use a "
            "mechanism that protects records."
        )
    return lambda multiplier: final._plan(sizes, multiplier)


def _n_classes(final: Any, y: Any) -> int:
    """Number of classes of a fit: of those declared, or of the labels."""
    declared = getattr(final, "classes", None)
    return len(factorized(y)[1] if declared is None else set(declared))


def fit_on(model: Any, rows: GroupedRows, person_ids: Any = None) -> Any:
    """Fit on a copy: changes that a step makes to its rows must not reach the next candidate."""
    given, prefix, last = rows.sensitive_features, "", model
    if not sklearn.get_config()["enable_metadata_routing"]:
        while isinstance(last, Pipeline):
            step, last = last.steps[-1]
            prefix += f"{step}__"
    named = {"sensitive_features": given, "person_ids": person_ids}
    more = {f"{prefix}{name}": value for name, value in named.items() if value is not None}
    kept = bind_each(_settings_of_steps(model))
    secret = SECRET_PART.set(True)
    try:
        fitted = model.fit(deepcopy(rows.X), rows.y, **more)
    finally:
        SECRET_PART.reset(secret)
    moved = changes(kept, _settings_of_steps(model))
    if moved:
        raise ValueError(
            f"A fit changed parameters of earlier steps ({'; '.join(moved)}), so the search would "
            "not be private: they may hold rows. Use steps that leave their parameters as they are."
        )
    return fitted


def _settings_of_steps(model: Any) -> dict[str, Any]:
    """Parameters of the steps before the last one, by name, without the steps themselves."""
    if not isinstance(model, Pipeline):
        return {}
    return {
        f"{name}__{parameter}": value
        for name, step in model.steps[:-1]
        if hasattr(step, "get_params")
        for parameter, value in step.get_params(deep=True).items()
        if not (hasattr(value, "get_params") or isinstance(value, list))
    }


def refuse_charging(steps: Iterable[tuple[str, Any]]) -> None:
    """Refuse steps, fitted or not, with their own privacy cost."""
    for name, step in steps:
        if charges_privacy(step):
            raise ValueError(
                f"Step {name!r} ({type(step).__name__}) has a privacy cost of its own; the search "
                "accounts for its last step alone. Put the search into the Pipeline, as its last "
                "step: make_pipeline(PrivateTableEncoder(), PrivateSearchCV(classifier, ...)). Its "
                "certificate states the total of both."
            )


def check_steps(model: Any) -> None:
    """Refuse a fitted candidate with a step that learned from rows without noise."""
    leaves = list(unwrap(model).leaves())
    refuse_charging(leaves)
    for name, step in leaves:
        reason = why_learned(step)
        if reason is not None and type(step) is not FrozenEstimator:
            raise ValueError(
                f"Step {name!r} ({kind_of(step)}) learned from rows without noise, so the "
                f"search would not be private ({reason}). Use declared bounds and "
                "categories (PublicScaler, PublicEncoder), or fit the step on public rows and wrap "
                "it in FrozenEstimator."
            )


@dataclass(frozen=True, eq=False)
class Best:
    """The winning candidate and its score."""

    score: Score
    gap: float | None
    model: Any
    parameters: dict[str, Any]
    table: NDArray[np.int64] | dict[str, NDArray[np.int64]]


def best_of(
    search: Any,
    estimator: Any,
    budget: SearchBudget | None,
    price: float,
    n_runs: int,
    parts: Divided,
    noise: NoiseSource,
    prior: np.random.Generator,
) -> Best:
    """Run candidates of a `PrivateSearchCV` that are drawn from the prior.

    `estimator`: that of the search, `with_public_sets`. `budget`: none for a search without noise.
    `price`: of one table of held-out counts, in nats.
    `prior`: not the generator that noise and the number of runs come from: the parameters of the
    winner are published, and few outputs of a generator give its state away.
    """
    best: Best | None = None
    said: list[warnings.WarningMessage] = []
    objective, final = search._objective, final_of(estimator)
    numbers = NumberScoring.of(search, final.target_bounds) if is_regressor(final) else None
    for _ in range(n_runs):
        seed = int(prior.integers(2**32))
        drawn = ParameterSampler(search.param_distributions, 1, random_state=seed)
        parameters = dict(next(iter(drawn)))
        # A warning for each candidate would count them: those of the winner are passed on.
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            model = trained(search, estimator, budget, parameters, parts, prior)
            table: Any
            if numbers is not None:
                table = numbers.tables(model, parts.held_out, price, noise)
            else:
                of_scores = objective == "auc"
                table = noisy_table(model, parts.held_out, price, noise, with_scores=of_scores)
        check_steps(model)
        if numbers is not None:
            score, gap = numbers.score_of(table)
        else:
            notion, classes = get_notion(search.notion), final_of(model).classes_
            score, gap = score_of(table, objective, notion, classes, tolerance=search.tolerance)
        # Of equal scores the first stays, as likely any of them as any other.
        if best is None or score > best.score:
            best, said = Best(score, gap, model, parameters, table), heard
    assert best is not None
    for warning in said:
        warn_user(warning.message, warning.category)
    return best


def trained(
    search: Any,
    estimator: Any,
    budget: SearchBudget | None,
    parameters: Mapping[str, Any],
    parts: Divided,
    prior: np.random.Generator,
) -> Any:
    """Train one candidate at its share of the budget."""
    settings: dict[str, Any] = {"delta": search.delta}
    if search.reproducible_noise:
        settings |= {"reproducible_noise": True, "random_state": int(prior.integers(2**31))}
    if budget is None:
        settings["epsilon"] = math.inf
    else:
        plans = planner(estimator, parameters, search.delta, parts.training, parts.person_ids)
        multiplier = budget.multiplier_for(plans)
        settings |= {"epsilon": None, "noise_multiplier": multiplier}
    model = with_settings(estimator, parameters, **settings)
    return fit_on(model, parts.training, parts.person_ids)
