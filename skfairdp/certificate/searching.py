"""What a search over parameters cost, beside the one fit that it kept."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from dp_accounting.dp_event import ComposedDpEvent, DpEvent, SelfComposedDpEvent
from sklearn.model_selection import KFold, StratifiedGroupKFold, StratifiedKFold

from skfairdp.privacy.accountants import accountant_name, event_epsilon
from skfairdp.privacy.accounting import covering_event
from skfairdp.privacy.calibration import noise_multiplier_for
from skfairdp.privacy.events import canonical
from skfairdp.privacy.guarantee import PrivacyGuarantee
from skfairdp.privacy.plan import Block, Plan

__all__ = ["FitsOfSearch", "fits_of_search", "search_reason"]

FOLD_SPLITTERS = (int, KFold, StratifiedGroupKFold, StratifiedKFold)
# Parameters that change a fit's cost in ways that cannot be read off the search.
OPAQUE = {"check_epsilon", "delta", "group_sizes_epsilon", "noise_multiplier", "steps"}


@dataclasses.dataclass(frozen=True)
class FitsOfSearch:
    """What the fits of a search cost, its scores left aside.

    Parameters
    ----------
    n_candidates : int
        Points that were fitted.
    folds : int
        Training folds that one row is in, at most.
    privacy : PrivacyGuarantee
        Composition of these fits and the refit.
    """

    n_candidates: int
    folds: int
    privacy: PrivacyGuarantee

    @property
    def n_fits(self) -> int:
        """Fits that a row takes part in, the refit included."""
        return self.n_candidates * self.folds + 1


def fits_of_search(search: Any, final: Any) -> FitsOfSearch | None:
    """Compose the fits of a search of scikit-learn.

    Parameters
    ----------
    search : fitted search
        With ``cv_results_`` and ``refit``.
    final : estimator
        The last step of the model that it kept.

    Returns
    -------
    FitsOfSearch or None
        None where the cost of the other candidates cannot be read off their parameters.
    """
    costs = _candidate_costs(search, final)
    if costs is None:
        return None
    folds = _fits_per_row(search)
    stated = final.privacy_
    event = ComposedDpEvent(_parts(costs, folds, final))
    note = "each of the fits followed the plan of the refit, at its own epsilon"
    return FitsOfSearch(
        len(costs),
        folds,
        dataclasses.replace(
            stated,
            epsilon=event_epsilon(event, stated.delta, stated.adjacency),
            accountant=accountant_name(event, stated.delta, stated.adjacency),
            per_group=None,
            event=canonical(event),
            assumptions=(*stated.assumptions, note),
        ),
    )


def search_reason(search: Any, final: Any) -> str:
    """Say why a search voids privacy, and what its fits alone compose to.

    Parameters
    ----------
    search : fitted search
        A search of scikit-learn.
    final : estimator
        The last step of the model that it kept.

    Returns
    -------
    str
    """
    reason = (
        f"{type(search).__name__} chose this model by scores of its training rows without noise, "
        "and those have no finite cost."
    )
    fits = fits_of_search(search, final)
    if fits is None:
        return reason
    return (
        f"{reason} Its {fits.n_fits} fits on overlapping rows ({fits.n_candidates} candidates "
        f"times {fits.folds} folds a row is in, and the refit) would alone compose to ε = "
        f"{fits.privacy.epsilon:.4g} at δ = {fits.privacy.delta:g}, if each followed the plan of "
        "the refit."
    )


def _candidate_costs(search: Any, final: Any) -> list[float] | None:
    """Epsilon of each candidate; None where it cannot be read off its parameters."""
    privacy: PrivacyGuarantee | None = getattr(final, "privacy_", None)
    if privacy is None or privacy.is_void or not isinstance(getattr(final, "plan_", None), Plan):
        return None
    if privacy.event is None:
        return None  # made from bought sizes: no event stands for the other fits
    costs = []
    for parameters in getattr(search, "cv_results_", {}).get("params", ()):
        leaf = {key.rsplit("__", 1)[-1]: value for key, value in parameters.items()}
        cost = leaf.get("epsilon", privacy.epsilon)
        if OPAQUE & set(leaf) or cost is None or not math.isfinite(cost):
            return None
        # The budget of the model that was kept stands for itself, not for its calibration.
        kept = cost in (privacy.epsilon, getattr(final, "epsilon", None))
        if not kept and final.plan_.counts:
            return None  # bought tables do not scale with the noise of the steps
        costs.append(privacy.epsilon if kept else float(cost))
    return costs or None


def _fits_per_row(search: Any) -> int:
    """Training folds that one row is in: all but one of k folds, else at most all splits."""
    folds = search.cv is None or isinstance(search.cv, FOLD_SPLITTERS)
    return search.n_splits_ - 1 if folds else search.n_splits_


def _parts(costs: list[float], folds: int, final: Any) -> list[DpEvent]:
    """Events of all fits: the refit, and each candidate as often as a row was in it."""
    privacy = final.privacy_
    parts: list[DpEvent] = [privacy.event]
    for cost in sorted(set(costs)):
        event = privacy.event
        if cost != privacy.epsilon:
            event = covering_event(_calibrated(final.plan_, cost, privacy.delta))
        parts.append(SelfComposedDpEvent(event, costs.count(cost) * folds))
    return parts


def _calibrated(plan: Plan, epsilon: float, delta: float) -> Plan:
    """The plan with all noise scaled so that it costs another epsilon."""
    return _scaled(plan, noise_multiplier_for(epsilon, delta, lambda f: _scaled(plan, f)))


def _scaled(plan: Plan, factor: float) -> Plan:
    segments = tuple(
        dataclasses.replace(segment, blocks=tuple(_louder(b, factor) for b in segment.blocks))
        for segment in plan.segments
    )
    return dataclasses.replace(plan, segments=segments)


def _louder(block: Block, factor: float) -> Block:
    charged = block.charged_multipliers
    return dataclasses.replace(
        block,
        noise_std=block.noise_std * factor,
        charged_multipliers=None if charged is None else tuple(m * factor for m in charged),
    )
