"""Facts of a certificate that are public, declared or bought: columns, rows, terms."""

from __future__ import annotations

import re
from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from skfairdp.exceptions import FairnessWarning, warn_user
from skfairdp.receipts.receipt import receipt_of

if TYPE_CHECKING:
    from skfairdp.receipts.unwrap import Deployed

PUBLIC, DECLARED, ASSUMED, BOUGHT = SOURCES = ("public", "declared", "assumed", "bought")

COUNTED = "held-out rows are counted"
# Value and source of that fact; after WITH_NOISE comes the ε of all counts together.
AS_PUBLIC_ROWS = "without noise, as public rows", DECLARED
WITH_NOISE = "with noise, at ε = "
UNKNOWN = "rows of unknown group"
# Names of outcomes that somebody would rather not have.
_HARMFUL = re.compile(
    r"default|delinq|fail|churn|recid|arrest|convict|fraud|reject|refus|denied|denial|dropout|"
    r"drop out|bad|risk|death|died|readmi|dismiss"
)


@dataclass(frozen=True)
class Fact:
    """A fact and its source: public, declared, assumed, or bought with a part of epsilon."""

    name: str
    value: str
    source: str

    def __post_init__(self) -> None:
        texts = all(isinstance(text, str) and text for text in (self.name, self.value))
        if not texts or self.source not in SOURCES:
            raise ValueError(f"A fact needs two texts and one of {SOURCES}; got {self!r}.")

    def __str__(self) -> str:
        return f"{self.value} ({self.source})"


def known_facts(
    deployed: Deployed, y: Any, sensitive_features: Any, positive: Hashable | None
) -> tuple[Fact, ...]:
    """Collect the public facts about columns, rows and terms; arguments as of `certify`."""
    from skfairdp.receipts.unwrap import charges_privacy  # so that no plan of a report loads it

    final, trained = deployed.final, deployed.trained.final
    known: Any = getattr(final, "classes_", ())
    if len(known) and np.ndim(known[0]):
        raise ValueError(
            f"{type(final).__name__} answers with several outputs for each row (its classes_ lists "
            "the classes of each), and a certificate is about one answer for each row: certify a "
            "classifier of one output, such as one fitted for each column of y."
        )
    classes = np.asarray(known).tolist()
    target = _names(y)
    found: list[tuple[str, object, str]] = [("target column", target, DECLARED)]
    if len(classes) == 2:
        value = classes[1] if positive is None else positive
        shown = f"{target} = {value}" if target else str(value)
        found.append(("positive outcome", shown, ASSUMED if positive is None else DECLARED))
    found.append(("group columns", _names(sensitive_features), DECLARED))
    names = getattr(deployed.model, "feature_names_in_", None)
    n_features = getattr(deployed.model, "n_features_in_", None)
    listed = f": {', '.join(map(str, names))}" if names is not None else ""
    found.append(("features", n_features and f"{n_features}{listed}", PUBLIC))
    found.append(_trained_on(trained))
    if hasattr(trained, "reason_codes"):
        codes = "reason_codes(X) names the terms that spoke most against a decision"
        found.append(("reason codes", codes, PUBLIC))
    for search in deployed.searches:
        by_whom = f"candidates, compared by {type(search).__name__}"
        if charges_privacy(search):  # how many there were is a secret of its own
            found.append(("alternatives", f"{search.n_iter} expected {by_whom}", DECLARED))
        elif hasattr(search, "cv_results_"):
            found.append(("alternatives", f"{len(search.cv_results_['params'])} {by_whom}", PUBLIC))
    return tuple(Fact(name, str(value), source) for name, value, source in found if value)


def warn_of_guessed_outcome(deployed: Deployed, y: Any, positive: Hashable | None) -> None:
    """Warn where nobody said which outcome is the favourable one, and no convention does.

    Scikit-learn's conventions are 0 and 1, -1 and 1, False and True: the second is the positive
    one, unless its column sounds like a harm.
    """
    classes = np.asarray(getattr(deployed.final, "classes_", ())).tolist()
    if positive is not None or len(classes) != 2:
        return
    harmful = [name for name in (_names(y), str(classes[1])) if _HARMFUL.search(name.lower())]
    if not harmful and classes in ([0, 1], [-1, 1]):  # False and True equal the former
        return
    why = f": {harmful[0]!r} sounds like a harm" if harmful else ""
    warn_user(
        f"Nobody said which of {classes} is the favourable outcome, so the certificate takes "
        f"{classes[1]!r}{why}. A larger code or a later word is not always better for a person. "
        "Give pos_label.",
        FairnessWarning,
    )


def _names(given: Any) -> str:
    """Names of columns that came with their values."""
    named = getattr(given, "columns", None)
    names = [getattr(given, "name", None)] if named is None else list(named)
    return ", ".join(name for name in names if isinstance(name, str))


def _trained_on(final: Any) -> tuple[str, object, str]:
    """Number of records or persons that the model was trained on, where its plan knows it."""
    receipt = receipt_of(final)
    if receipt is None or receipt.quote is None or (sizes := receipt.quote.sizes) is None:
        return "rows trained on", None, PUBLIC
    stated = receipt.quote.privacy
    unit = "persons" if stated is not None and stated.protects == "person" else "rows"
    source = DECLARED if sizes.adjacency == "add-remove" else PUBLIC
    return f"{unit} trained on", f"{sum(sizes.counts):,}", BOUGHT if sizes.prior_epsilon else source
