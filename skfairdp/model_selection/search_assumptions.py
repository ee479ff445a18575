"""What a search promises, in words and numbers."""

from __future__ import annotations

from skfairdp.assumptions import (
    BEST_OF_MANY,
    DEAREST_REPEATED,
    HELD_OUT_WITH_CHANCE,
    LABELS_PUBLIC,
    ONE_TABLE_EACH,
    SETS_PUBLIC,
    TIME_OF_SEARCH,
    VALIDATION,
    seed_known,
    starts,
)
from skfairdp.figures import as_given, significant_up
from skfairdp.model_selection.budget import SearchBudget
from skfairdp.privacy.accounting.accountants import accountant_name
from skfairdp.privacy.guarantee import PrivacyGuarantee
from skfairdp.privacy.noise import NoiseSource, noise_text


def search_guarantee(
    budget: SearchBudget | None,
    *,
    noise: NoiseSource,
    score_epsilon: float,
    holdout_fraction: float,
    with_groups: bool,
) -> PrivacyGuarantee | None:
    """State what a whole search promises.

    `budget`: none for a search without noise. `noise`: where noise, split and number of runs come
    from. `score_epsilon`: cost of one table of held-out counts, in nats. `holdout_fraction`:
    chance of a record to be held out.
    """
    if budget is None:
        return None
    if noise.reproducible:
        return PrivacyGuarantee.void(seed_known("noise, split and number of runs"))
    event = budget.runs.event(budget.event)
    return PrivacyGuarantee(
        epsilon=budget.epsilon,
        delta=budget.delta,
        adjacency=budget.adjacency,
        accountant=accountant_name(event, budget.delta, budget.adjacency),
        event=event,
        assumptions=(
            BEST_OF_MANY.format(mean=as_given(budget.runs.mean), shape=as_given(budget.runs.shape)),
            DEAREST_REPEATED,
            f"{HELD_OUT_WITH_CHANCE.format(fraction=as_given(holdout_fraction))}; "
            f"{ONE_TABLE_EACH.format(epsilon=significant_up(score_epsilon, 4))}",
            SETS_PUBLIC if with_groups else LABELS_PUBLIC,
            f"{noise_text(noise)} (counts get noise in integers)",
            TIME_OF_SEARCH,
            starts(),
            VALIDATION,
        ),
    )
