"""Candidates of a search: drawn from the prior, told what they may spend, and kept silent."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import sklearn
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import ParameterSampler
from sklearn.pipeline import Pipeline

from skfairdp.certificate.steps import charges_privacy, kind_of, learns_from_rows
from skfairdp.certificate.unwrap import unwrap
from skfairdp.model_selection.holding_out import SearchRows
from skfairdp.privacy.noise import NoiseSource
from skfairdp.privacy.plan import Plan
from skfairdp.protocol import answers_of

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
    if not answers_of(final)._plans_ahead:
        raise ValueError(
            f"'estimator' must be, or be a Pipeline that ends in, a classifier of skfairdp that "
            f"trains on noisy gradients, e.g. DPSGDClassifier; got {name}, whose cost is not "
            "known before it is fitted."
        )
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
                "'estimator' has a ledger of its own, whose entries would show how often the "
                "search ran; set 'ledger' on the search, which charges itself once."
            )
        if leaf == "reproducible_noise" and value is True:
            raise ValueError(
                "'estimator' has reproducible_noise=True, so runs would share their noise; set "
                "it on the search, in a test."
            )


def check_distributions(
    estimator: Any, distributions: Mapping[str, Any] | Sequence[Mapping[str, Any]]
) -> None:
    """Refuse a prior that names what cannot be searched."""
    parts = [distributions] if isinstance(distributions, Mapping) else list(distributions)
    if not parts or not all(isinstance(part, Mapping) for part in parts):
        raise ValueError(
            f"{PRIOR} must be a mapping of parameter to list or distribution, or a list of such "
            f"mappings; got {distributions!r}."
        )
    for part in parts:
        owned = sorted(key for key in part if key.rsplit("__", 1)[-1] in OWNED)
        if owned:
            raise ValueError(
                f"{PRIOR} names {', '.join(owned)}, which the search sets alike for all "
                "candidates; search over batch_size, max_epochs, max_grad_norm, learning rates, "
                "nets, tolerances."
            )
        # Unknown names are found before a row is looked at.
        clone(estimator).set_params(**next(iter(ParameterSampler(part, 1, random_state=0))))


def draw(
    distributions: Mapping[str, Any] | Sequence[Mapping[str, Any]], generator: np.random.Generator
) -> dict[str, Any]:
    """Draw one candidate's parameters from the prior.

    `distributions`: the prior, as scikit-learn's RandomizedSearchCV takes it. `generator`: not
    the one that noise and the number of runs come from: the parameters of the winner are
    published, and few outputs of a generator give its state away.
    """
    seed = int(generator.integers(2**32))
    return dict(next(iter(ParameterSampler(distributions, 1, random_state=seed))))


def told(estimator: Any, parameters: Mapping[str, Any] | None, **settings: Any) -> Any:
    """Clone with a candidate's parameters, told what is set alike for all, and silent.

    `**settings`: parameters of the last step: its share of the budget.
    """
    model = clone(estimator)
    if parameters:
        # Cloned as in scikit-learn's searches: candidates share no object.
        model.set_params(**{key: clone(value, safe=False) for key, value in parameters.items()})
    check_estimator(model)
    quiet: dict[str, Any] = {}
    for key, value in model.get_params(deep=True).items():
        leaf = key.rsplit("__", 1)[-1]
        # One progress bar for each candidate would count them.
        if leaf == "progress" or (leaf == "verbose" and value):
            quiet[key] = False
    model.set_params(**quiet)
    final_of(model).set_params(**{"epsilon": 1.0, "noise_multiplier": None, **settings})
    return model


def planner(final: Any, rows: SearchRows) -> Callable[[float], Plan]:
    """Plan of a candidate for each noise multiplier.

    `rows`: training rows; their number and groups are used. Result: maps a noise multiplier to a
    Plan.
    """
    groups = final._encode_groups(rows.sensitive_features, len(rows))
    # Sizes are declared or taken from the rows; none are bought, so the noise is not used.
    sizes = final._sizes(groups, len(rows), NoiseSource())
    if sizes.adjacency not in ("add-remove", "zero-out"):
        raise ValueError(
            f"'estimator' ({type(final).__name__}) makes a promise under {sizes.adjacency!r}; "
            "choosing is accounted for where one record is added, removed or blanked. Use a "
            "mechanism that protects records."
        )
    return lambda multiplier: final._plan(sizes, multiplier)


def groups_by_name(model: Any, sensitive_features: Any) -> dict[str, Any]:
    """Keyword under which fit takes the groups, with routing on and off."""
    if sensitive_features is None:
        return {}
    prefix = ""
    if not sklearn.get_config()["enable_metadata_routing"]:
        while isinstance(model, Pipeline):
            step, model = model.steps[-1]
            prefix += f"{step}__"
    return {f"{prefix}sensitive_features": sensitive_features}


def check_steps(model: Any) -> None:
    """Refuse a fitted candidate with a step that learned from rows without noise."""
    for name, step in unwrap(model).leaves():
        if charges_privacy(step):
            raise ValueError(
                f"Step {name!r} ({type(step).__name__}) pays for itself; the search accounts for "
                "its last step alone, so fit this one before and give its output."
            )
        if learns_from_rows(step) and not isinstance(step, FrozenEstimator):
            raise ValueError(
                f"Step {name!r} ({kind_of(step)}) learned from rows without noise, so the "
                "search would not be private. Use declared bounds and categories (PublicScaler, "
                "PublicEncoder), or fit the step on public rows and wrap it in FrozenEstimator."
            )
