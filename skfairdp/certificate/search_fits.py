"""Cost of a parameter search, in addition to the one fit that it kept."""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from dp_accounting.dp_event import ComposedDpEvent, DpEvent, SelfComposedDpEvent
from sklearn.base import clone
from sklearn.model_selection import KFold, PredefinedSplit, StratifiedGroupKFold, StratifiedKFold

from skfairdp.foundation.assumptions import FOLDS_BY_POSITION, FOLDS_IN_PROPORTION
from skfairdp.foundation.figures import epsilon_text, significant_up
from skfairdp.privacy.accounting.accountants import accountant_name, event_epsilon
from skfairdp.privacy.accounting.events import canonical, covering_event
from skfairdp.privacy.guarantee import PrivacyGuarantee
from skfairdp.privacy.plan import Plan
from skfairdp.privacy.sizes import Sizes
from skfairdp.receipts import Receipt, RowFacts
from skfairdp.receipts.quoted import priced
from skfairdp.receipts.receipt import receipt_of
from skfairdp.receipts.unwrap import charges_privacy, is_transparent, unwrap
from skfairdp.records.groups import Groups

# Splitters that train on a row in all folds but one.
_FOLDS = (KFold, StratifiedKFold, StratifiedGroupKFold)


@dataclasses.dataclass(frozen=True)
class FitsOfSearch:
    """Cost of the fits of a search, without its scores."""

    n_candidates: int
    folds: int  # that one row is trained on in, at most
    privacy: PrivacyGuarantee  # the composition of the fits of all candidates and the refit

    @property
    def n_fits(self) -> int:
        """Fits that a row takes part in, the refit included."""
        return self.n_candidates * self.folds + 1

    def costs(self, compose: str = "compose") -> str:
        """State the composition of these fits, with a form of the verb."""
        return (
            f"Its {self.n_fits} fits on overlapping rows ({self.n_candidates} candidates times "
            f"{self.folds} folds a row is in, and the refit) {compose} to ε = "
            f"{epsilon_text(self.privacy.epsilon)} at δ = {significant_up(self.privacy.delta)}, "
            f"{self.privacy.adjacency}"
        )


def fits_of_search(search: Any, final: Any) -> FitsOfSearch | None:
    """Compose the fits of a search that kept `final`; None where their cost cannot be read off."""
    if any(charges_privacy(step) for _, step in unwrap(search).leaves()):
        return None  # a step that was fitted, and charged, as often as the last one
    stated: PrivacyGuarantee | None = getattr(final, "privacy_", None)
    results = getattr(search, "cv_results_", {})
    candidates = results.get("params", ())
    if stated is None or stated.is_void or stated.event is None or not len(candidates):
        return None
    if not _knows_folds(search.cv):
        return None
    # In how many folds a person is does not show.
    if stated.protects == "person" or not isinstance(getattr(final, "plan_", None), Plan):
        return None
    others = _others(search, final, candidates, results)
    if others is None:
        return None
    event = ComposedDpEvent([stated.event, *others])
    by_index = not _moves_nobody(search)
    # With declared sizes blanking a record has the cost of removing it.
    moved = by_index and stated.adjacency == "add-remove"
    adjacency = "zero-out" if moved else stated.adjacency
    return FitsOfSearch(
        len(candidates),
        _fits_per_row(search),
        dataclasses.replace(
            stated,
            epsilon=event_epsilon(event, stated.delta, adjacency),
            adjacency=adjacency,
            accountant=accountant_name(event, stated.delta, adjacency),
            per_group=None,
            event=canonical(event),
            exposures=(),
            assumptions=(
                *stated.assumptions,
                FOLDS_IN_PROPORTION,
                *([FOLDS_BY_POSITION] if by_index and adjacency == "zero-out" else []),
            ),
        ),
    )


def search_reason(search: Any, final: Any) -> str:
    """Say why a search voids privacy, and state the composition of its fits alone."""
    reason = (
        f"{type(search).__name__} chose this model by scores of its training rows without noise, "
        "and those have no finite cost."
    )
    fits = fits_of_search(search, final)
    return reason if fits is None else f"{reason} {fits.costs('would alone compose')}."


def _fits_per_row(search: Any) -> int:
    """Training folds that one row is in: all but one of k folds, else at most all splits."""
    return search.n_splits_ - 1 if _in_folds(search) else search.n_splits_


def _knows_folds(cv: Any) -> bool:
    """Whether no row is in a training fold more than once.

    A list of folds, and a class of one's own, may name a row many times. The row then counts as
    often in one fit.
    """
    if cv is None or isinstance(cv, int):
        return True
    listed = not hasattr(cv, "split") or type(cv).__name__.startswith("_")  # as scikit-learn wraps
    return not listed and is_transparent(cv)


def _in_folds(search: Any) -> bool:
    own = getattr(search.cv, "in_folds", False) is True
    return search.cv is None or isinstance(search.cv, int) or type(search.cv) in _FOLDS or own


def _moves_nobody(search: Any) -> bool:
    """Whether all other rows stay in their folds when one is removed."""
    if getattr(search, "resource", None) == "n_samples":
        return False  # a halving search draws rows by position
    # With one predefined fold every other row is trained on, wherever it stands.
    fixed = type(search.cv) is PredefinedSplit and search.n_splits_ == 1
    return fixed or getattr(search.cv, "assigns_each_record", False) is True


def _others(
    search: Any, final: Any, candidates: list[Mapping[str, Any]], results: Mapping[str, Any]
) -> list[DpEvent] | None:
    """Events of all fits that a row takes part in, but for the refit."""
    refit = final.privacy_.event
    named = {key.rsplit("__", 1)[-1] for point in candidates for key in point}
    if not final.plan_.segments and not named & {"epsilon", "delta"}:
        # Nothing is sampled, so the cost of a fit does not depend on the number of rows.
        return [SelfComposedDpEvent(refit, len(candidates) * _fits_per_row(search))]
    receipt = receipt_of(final)
    if receipt is None or receipt.quote is None or (whole := receipt.quote.sizes) is None:
        return None
    known = _facts(receipt, whole, final)
    kept, stated = _event(search, final, search.best_params_, known), final.privacy_
    cost = math.nan if kept is None else event_epsilon(kept, stated.delta, stated.adjacency)
    if not math.isclose(cost, stated.epsilon, rel_tol=1e-6):
        return None  # the plan depends on more than is known here
    events = []
    for i, point in enumerate(candidates):
        # Declared sizes are those of every fit.
        trained_on: list[int] | None = [whole.total] * _fits_per_row(search)
        if whole.adjacency != "add-remove":
            halving = getattr(search, "resource", None) == "n_samples"
            most = int(results["n_resources"][i]) if halving else whole.total
            trained_on = _training_sizes(search, min(whole.total, most))
        if trained_on is None:
            return None
        for rows in trained_on:
            counts = tuple(max(1, count * rows // whole.total) for count in whole.counts)
            fewer = dataclasses.replace(whole, counts=counts)
            event = _event(search, final, point, _facts(receipt, fewer, final))
            if event is None:
                return None
            events.append(event)
    return events


def _facts(receipt: Receipt, sizes: Sizes, final: Any) -> RowFacts:
    """Public facts about rows of these sizes; groups that are no cells of them are even."""
    groups = None
    if receipt.groups is not None:
        n_groups = len(receipt.groups)
        even = [max(1, sizes.total // n_groups)] * n_groups
        known = sizes.counts if sizes.cells == receipt.groups else even
        totals = np.array(known if len(known) == n_groups else even, dtype=np.int64)
        groups = Groups(receipt.groups, np.zeros(0, dtype=np.int64), totals=totals)
    n_classes = len(getattr(final, "classes_", (0, 1)))
    return RowFacts(sizes.total, groups, final.n_features_in_, n_classes=n_classes)


def _training_sizes(search: Any, n: int) -> list[int] | None:
    """Rows of each fit that one row takes part in; None where the splitter needs the rows."""
    if getattr(search.cv, "assigns_each_record", False) is True:
        return None
    if type(search.cv) is StratifiedGroupKFold:
        return None  # its folds are of any size
    if _in_folds(search):
        return [n - math.ceil(n / search.n_splits_)] * (search.n_splits_ - 1)
    if not hasattr(search.cv, "split"):
        return None
    try:
        return [len(train) for train, _ in search.cv.split(np.zeros((n, 1)))]
    except (TypeError, ValueError):
        return None


def _event(search: Any, final: Any, point: Mapping[str, Any], facts: RowFacts) -> DpEvent | None:
    """Event of a fit with a candidate's parameters; None where it is unknown."""
    candidate = clone(search.estimator).set_params(
        **{key: clone(value, safe=False) for key, value in point.items()}
    )
    while hasattr(candidate, "steps"):
        candidate = candidate.steps[-1][1]
    if type(candidate) is not type(final):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # its fits have said it
            quote = priced(candidate, facts)
    except (TypeError, ValueError):
        return None  # such a fit fails too, and may have released something before
    # Noise that a seed repeats, or a plan from sizes that each fit buys, has no event here.
    stated, bought = quote.privacy, quote.plan is None or quote.plan.prior_epsilon
    if stated is None or stated.is_void or bought:
        return None
    assert quote.plan is not None
    return covering_event(quote.plan)
