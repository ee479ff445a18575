"""Requirements on an estimator that is fitted on thinned rows."""

from __future__ import annotations

import inspect
import math
import re
import warnings
from typing import Any

from skfairdp.figures import as_given
from skfairdp.privacy.inclusion_probabilities import SamplingRates


def refuse_unfit(estimator: Any) -> None:
    """Refuse an estimator that would read sizes or labels off the kept rows."""
    name = type(estimator).__name__
    known = estimator.get_params(deep=False)
    missing = sorted({"classes", "dataset_size", "delta"} - set(known))
    if missing:
        raise ValueError(
            f"'estimator' must have the parameters classes, dataset_size and delta; {name} lacks "
            f"{', '.join(missing)}. How many rows of which class are left after thinning is "
            "private, so sizes and classes must be declared to it: use DPSGDClassifier or "
            "FairDPClassifier."
        )
    if "X_public" in inspect.signature(estimator.fit).parameters:
        raise ValueError(
            f"'estimator' must learn from the kept rows alone, but {name} asks public rows, and "
            "thinning hands on none: use DPSGDClassifier or FairDPClassifier."
        )
    if known.get("ledger") is not None:
        raise ValueError(
            "'estimator' has a ledger of its own, which would not hear of the table; set 'ledger' "
            "on PrivateThinningClassifier, which charges table and training together."
        )
    here = {"classes": "classes", "groups": "groups", "group_sizes": "groups"}
    for parameter in (*here, "dataset_size", "group_sizes_epsilon"):
        if known.get(parameter) is not None:
            instead = f"set {here[parameter]!r} here" if parameter in here else "leave it at None"
            raise ValueError(
                f"'estimator' sets {parameter}={known[parameter]!r}, but it is trained on thinned "
                f"rows and is told their sizes and labels; {instead}."
            )


def refuse_other_promises(inner: Any, X: Any, y: Any, sensitive_features: Any) -> None:
    """Refuse, by made-up rows, an estimator that won't train or promises otherwise."""
    # It was told how many rows there are, which is private: no message of it may show that.
    told = (getattr(inner, "group_sizes", None) or {"all": inner.dataset_size}).values()
    secret = rf"\b(?:{'|'.join(map(str, (*told, sum(told))))})\b|\d+(?= steps)"
    stated = refused = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the fit will say it
        try:
            stated = inner._quote(X, y, sensitive_features)
        except ValueError as error:
            refused = re.sub(secret, "n", str(error))
            if refused == str(error):
                raise
    if refused is not None:  # out here, so that the chain of exceptions does not show it either
        raise ValueError(refused)
    if stated is None or stated.is_void:
        return
    if (stated.adjacency, stated.protects) != ("add-remove", "record"):
        raise ValueError(
            f"'estimator' ({type(inner).__name__}) protects {stated.protects} under "
            f"{stated.adjacency}; thinning needs one that protects a record that is added or "
            "removed, with declared sizes."
        )


def inner_settings(
    estimator: Any, rates: SamplingRates, price: float, *, grouped: bool
) -> dict[str, Any]:
    """What ``set_params`` tells of the kept rows, from the released table and its price alone."""
    settings: dict[str, Any] = {"classes": list(range(len(rates.classes)))}
    if estimator.epsilon is not None:
        epsilon = float(estimator.epsilon)
        if price >= epsilon:
            raise ValueError(
                f"'epsilon_histogram' = {as_given(price)} leaves nothing of the estimator's "
                f"'epsilon' = {as_given(epsilon)}, which is that of table and training together; "
                "set it lower."
            )
        settings["epsilon"] = epsilon - price
        while settings["epsilon"] + price > epsilon:  # both add up to no more
            settings["epsilon"] = math.nextafter(settings["epsilon"], 0.0)
    if hasattr(estimator, "distributed"):
        settings["distributed"] = None  # how many rows a process keeps is secret
    if grouped and hasattr(estimator, "groups"):
        settings["groups"] = list(rates.groups)
    if grouped and hasattr(estimator, "group_sizes"):
        settings["group_sizes"] = rates.group_sizes
    else:
        settings["dataset_size"] = max(2, sum(rates.group_sizes.values()))
    return settings
