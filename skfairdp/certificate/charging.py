"""What a certificate charges to a ledger, and what it tells the ledger of its training."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from skfairdp.certificate.holdout import check_holdout_labels, encode_holdout_groups
from skfairdp.certificate.spending import DECLARED_PUBLIC, model_privacy
from skfairdp.certificate.terms import Terms
from skfairdp.certificate.unwrap import Deployed, charges_privacy
from skfairdp.privacy.guarantee import PrivacyGuarantee
from skfairdp.privacy.ledger import PrivacyLedger, as_ledger
from skfairdp.privacy.ledger.findings import declare_public, record_void
from skfairdp.rows import count_rows

__all__ = ["charged", "makes_claims", "tell_ledgers"]


def makes_claims(
    deployed: Deployed,
    X: Any,
    y: ArrayLike | None,
    sensitive_features: ArrayLike | None,
    terms: Terms,
) -> bool:
    """Whether an evaluation will look at the rows; what it would refuse is refused here.

    All that can be said without asking the model about a row is said before anything is
    charged.

    Parameters
    ----------
    deployed : Deployed
        The model.
    X : array-like, shape (n_rows, n_features)
        Held-out rows.
    y : array-like, shape (n_rows,), or None
        Their labels.
    sensitive_features : array-like or None
        Their groups.
    terms : Terms
        How the evaluation is made.

    Returns
    -------
    bool
        False where no claim is possible: then no count is released.

    Raises
    ------
    ValueError
        For rows, labels or groups that do not fit together, or not to the model.
    UnknownGroupError
        For a group that the model does not know, unless the counts are private.
    """
    private = terms.count_epsilon is not None
    n_rows = count_rows(X)
    nothing_to_count = deployed.order_dependent or not hasattr(deployed.final, "predict")
    if sensitive_features is None or nothing_to_count:
        return False
    groups = encode_holdout_groups(sensitive_features, n_rows, deployed, terms.groups, private)
    if len(groups.labels) < 2:
        return False
    _check_columns(deployed, X)
    classes = check_holdout_labels(deployed, y, n_rows, private)
    for notion in terms.notions:
        notion.strata((0, 1) if classes is None else classes, with_labels=y is not None)
    return True


def _check_columns(deployed: Deployed, X: Any) -> None:
    first = deployed.stages[0][1] if deployed.stages else deployed.final
    try:
        shape = np.shape(X)
    except ValueError:  # rows of different lengths, which predict refuses without their number
        shape = ()
    # Steps that pick columns by name take more than they need; ours do so for ids alone.
    if not charges_privacy(first) or hasattr(first, "id_column") or len(shape) != 2:
        return
    if shape[1] != first.n_features_in_:
        raise ValueError(
            f"X has {shape[1]} features, but {type(first).__name__} was fitted with "
            f"{first.n_features_in_}; pass the columns that it was fitted with."
        )


@contextmanager
def charged(
    book: PrivacyLedger,
    cost: PrivacyGuarantee | None,
    name: str,
    public_rows: Any,
    check: Callable[[int], None],
) -> Iterator[int]:
    """Charge an evaluation before a block, and commit after it.

    Parameters
    ----------
    book : PrivacyLedger
        The ledger.
    cost : PrivacyGuarantee or None
        What the counts promise; None where nothing is protected.
    name : str
        Name of the model.
    public_rows : array-like or None
        The held-out rows where they need no protection: certificates are then counted on
        these rows, else under the ledger's name.
    check : callable
        Takes how many certificates the ledger has seen, this one included; what it refuses
        is given back, as the model was not asked yet.

    Yields
    ------
    int
        That number.
    """
    entry = book.reserve(cost, activity="certify", estimator=name, public_rows=public_rows)
    try:
        check(entry.ordinal)
    except BaseException:
        book.give_back(entry)
        raise
    with book.finishing(entry):
        yield entry.ordinal


def tell_ledgers(
    deployed: Deployed, privacy: PrivacyGuarantee | None, public_steps: Sequence[str]
) -> None:
    """Tell the ledgers that training charged where their totals do not hold.

    A fit knows nothing of a step before it that learned from rows without noise, or of
    exact scores that a search has shown: it charged its own cost. The totals are void from
    when that is found out, until such steps are declared public.

    Parameters
    ----------
    deployed : Deployed
        The model.
    privacy : PrivacyGuarantee or None
        What its certificate promises.
    public_steps : sequence of str
        Names of steps that were declared public.
    """
    for ledger in _ledgers(deployed.trained):
        if privacy is not None and privacy.is_void:
            # What was put into a model after its fit says nothing about what the fit has shown.
            reasons = tuple(
                text
                for text in privacy.assumptions
                if text not in deployed.changes and not text.endswith(DECLARED_PUBLIC)
            )
            if reasons:
                found = dataclasses.replace(privacy, assumptions=reasons)
                record_void(ledger, found, deployed.name)
        elif public_steps:
            without = model_privacy(deployed, ())
            if without is not None and without.is_void:
                declare_public(ledger, without, deployed.name)


def _ledgers(deployed: Deployed) -> tuple[PrivacyLedger, ...]:
    """Ledgers of all parts, also where another estimator holds one of ours."""
    found: dict[PrivacyLedger, None] = {}
    for part in (*deployed.searches, *(step for _, step in deployed.leaves()), deployed.final):
        parameters = part.get_params(deep=True) if hasattr(part, "get_params") else {}
        for name, value in parameters.items():
            if name.rpartition("__")[2] == "ledger" and value is not None:
                book = as_ledger(value)
                assert book is not None
                found[book] = None
    return tuple(found)
