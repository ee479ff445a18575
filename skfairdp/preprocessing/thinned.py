"""Requirements on an estimator that is fitted on thinned rows, and its settings."""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from skfairdp.foundation.figures import as_given
from skfairdp.privacy.guarantee import PrivacyGuarantee
from skfairdp.privacy.inclusion_probabilities import SamplingRates
from skfairdp.receipts import RowFacts
from skfairdp.receipts.quoted import priced

# Declared to an estimator where its message must not depend on the private number of rows.
_PUBLIC_SIZE = 10_000


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
            "'estimator' has its own ledger, which would not record the table; set 'ledger' "
            "on PrivateThinningClassifier, which charges table and training together."
        )
    here = {"classes": "classes", "groups": "groups", "group_sizes": "groups"}
    for parameter in (*here, "dataset_size", "group_sizes_epsilon"):
        if known.get(parameter) is not None:
            instead = f"set {here[parameter]!r} here" if parameter in here else "leave it at None"
            raise ValueError(
                f"'estimator' sets {parameter}={known[parameter]!r}, but it is trained on thinned "
                f"rows and receives their sizes and labels; {instead}."
            )


def refuse_other_promises(
    told: Callable[[int], tuple[Any, RowFacts]], row_shape: tuple[int, ...], n: int
) -> None:
    """Refuse an estimator that won't train on thinned rows, or promises otherwise.

    `told`: makes the estimator, and facts about its rows, for a declared number of records. `n`:
    number of private rows, which no message may show: an estimator that refuses it is asked again
    with a public number, and its message is about that.
    """
    stated, refused, said = None, False, ""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the fit will say it
        try:
            stated = _promise_of(*told(n), row_shape)
        except ValueError:
            refused = True
        if refused:
            try:
                _promise_of(*told(_PUBLIC_SIZE), row_shape)
            except ValueError as error:
                said = str(error)
    name = type(told(_PUBLIC_SIZE)[0]).__name__
    if refused:  # out here, so that the chain of exceptions does not show the first message
        raise ValueError(
            f"'estimator' cannot be trained on {_PUBLIC_SIZE:,} rows either (the number of "
            f"yours is private): {said}"
            if said
            else f"'estimator' ({name}) cannot be trained on this number of rows, "
            f"which is private; on {_PUBLIC_SIZE:,} rows it can. Look at its batch_size, "
            "max_epochs and delta, and try it alone with a declared dataset_size near your number "
            "of rows."
        )
    if stated is None or stated.is_void:
        return
    if (stated.adjacency, stated.protects) != ("add-remove", "record"):
        raise ValueError(
            f"'estimator' ({name}) protects {stated.protects} under "
            f"{stated.adjacency}; thinning needs one that protects a record that is added or "
            "removed, with declared sizes."
        )


def _promise_of(inner: Any, facts: RowFacts, row_shape: tuple[int, ...]) -> PrivacyGuarantee | None:
    quote = priced(inner, facts)
    inner._try_out(quote, row_shape, np.arange(facts.n_classes))
    return quote.privacy


def inner_settings(
    estimator: Any, rates: SamplingRates, price: float, *, grouped: bool
) -> dict[str, Any]:
    """Parameters of the inner estimator, from the released table and its price alone."""
    settings: dict[str, Any] = {"classes": list(range(len(rates.classes)))}
    if estimator.epsilon is not None:
        epsilon = float(estimator.epsilon)
        if price >= epsilon:
            raise ValueError(
                f"'epsilon_histogram' = {as_given(price)} uses up the estimator's "
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
