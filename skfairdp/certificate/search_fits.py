"""Cost of a parameter search, in addition to the one fit that it kept."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from dp_accounting.dp_event import ComposedDpEvent, DpEvent, SelfComposedDpEvent
from sklearn.base import clone
from sklearn.model_selection import KFold, PredefinedSplit, StratifiedGroupKFold, StratifiedKFold

from skfairdp.assumptions import FOLDS_BY_POSITION, FOLDS_IN_PROPORTION
from skfairdp.certificate.unwrap import charges_privacy, unwrap
from skfairdp.figures import epsilon_text, significant_up
from skfairdp.privacy.accounting.accountants import accountant_name, event_epsilon
from skfairdp.privacy.accounting.events import canonical, covering_event
from skfairdp.privacy.guarantee import PrivacyGuarantee
from skfairdp.privacy.plan import Plan
from skfairdp.privacy.sizes import Sizes
from skfairdp.protocol import answers_of

FOLD_SPLITTERS = (int, KFold, StratifiedGroupKFold, StratifiedKFold)


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
    # In how many folds a person is does not show.
    if stated.protects == "person" or not isinstance(getattr(final, "plan_", None), Plan):
        return None
    others = _others(search, final, candidates, results)
    if others is None:
        return None
    event = ComposedDpEvent([stated.event, *others])
    by_index = not _moves_nobody(search)
    # With declared sizes blanking a record costs what removing it does.
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


def _in_folds(search: Any) -> bool:
    own = getattr(search.cv, "in_folds", False) is True
    return search.cv is None or isinstance(search.cv, FOLD_SPLITTERS) or own


def _moves_nobody(search: Any) -> bool:
    """Whether all other rows stay in their folds when one is removed."""
    if getattr(search, "resource", None) == "n_samples":
        return False  # a halving search draws rows by position
    # With one predefined fold every other row is trained on, wherever it stands.
    fixed = isinstance(search.cv, PredefinedSplit) and search.n_splits_ == 1
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
    if not answers_of(final)._plans_ahead or (whole := sizes_of(final.plan_)) is None:
        return None
    kept, stated = _event(search, final, search.best_params_, whole), final.privacy_
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
            event = _event(search, final, point, dataclasses.replace(whole, counts=counts))
            if event is None:
                return None
            events.append(event)
    return events


def sizes_of(plan: Plan) -> Sizes | None:
    """Sizes that all releases of a plan are made for: expected records of a batch by rate."""
    found: set[tuple[int, ...]] = set()
    for segment in plan.segments:
        counts = np.divide(segment.expected_sizes, segment.rates)
        if plan.adjacency == "change-attribute":  # it is private who is in which cell
            counts = counts.sum(keepdims=True)
        if segment.blocks:  # others are of public rows
            found.add(tuple(map(round, counts.tolist())))
    agreed = len(found) == 1 and all(*found)
    return Sizes(plan.cells, found.pop(), plan.adjacency) if agreed else None


def _training_sizes(search: Any, n: int) -> list[int] | None:
    """Rows of each fit that one row takes part in; None where the splitter needs the rows."""
    if getattr(search.cv, "assigns_each_record", False) is True:
        return None
    if _in_folds(search):
        return [n - math.ceil(n / search.n_splits_)] * (search.n_splits_ - 1)
    if not hasattr(search.cv, "split"):
        return None
    try:
        return [len(train) for train, _ in search.cv.split(np.zeros((n, 1)))]
    except (TypeError, ValueError):
        return None


def _event(search: Any, final: Any, point: Mapping[str, Any], sizes: Sizes) -> DpEvent | None:
    """Event of a fit with a candidate's parameters; None where it is unknown."""
    candidate = clone(search.estimator).set_params(
        **{key: clone(value, safe=False) for key, value in point.items()}
    )
    while hasattr(candidate, "steps"):
        candidate = candidate.steps[-1][1]
    settings = candidate.get_params(deep=False) if type(candidate) is type(final) else {}
    opaque = settings.get("group_sizes_epsilon") is not None or settings.get("reproducible_noise")
    if not settings or opaque or settings.get("epsilon") == math.inf:
        return None
    n_groups = None if final.groups_ is None else len(final.groups_)
    try:
        candidate._note(n_groups, len(getattr(final, "classes_", (0, 1))))
        plan = candidate._plan(sizes, candidate._calibrate(sizes))
    except (TypeError, ValueError):
        return None  # such a fit fails too, and may have released something before
    return None if plan.noiseless else covering_event(plan)
