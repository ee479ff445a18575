"""What a search promises, in words and numbers."""

from __future__ import annotations

from skfairdp.figures import as_given, significant_up
from skfairdp.model_selection.budget import SearchBudget
from skfairdp.privacy.accounting.accountants import accountant_name
from skfairdp.privacy.guarantee import VALIDATION, PrivacyGuarantee
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
        return PrivacyGuarantee.void(
            "reproducible_noise=True ties noise, split and number of runs to random_state: "
            "whoever knows or guesses the seed can subtract it"
        )
    event = budget.runs.event(budget.event)
    sets = "the sets of class labels and of groups" if with_groups else "the set of class labels"
    return PrivacyGuarantee(
        epsilon=budget.epsilon,
        delta=budget.delta,
        adjacency=budget.adjacency,
        accountant=accountant_name(event, budget.delta, budget.adjacency),
        event=event,
        assumptions=(
            f"the best of a random number of candidates (mean {as_given(budget.runs.mean)}, "
            "truncated "
            f"negative binomial of shape {as_given(budget.runs.shape)}), each drawn from the same "
            "prior "
            "with noise of its own; the number was drawn before, and neither it nor anything of "
            "the other candidates is released",
            "every candidate costs at most the one event that is repeated, at every order of the "
            "accountant",
            "each record was held out by its own draw with probability "
            f"{as_given(holdout_fraction)}; "
            f"held-out records reach the search through one table of counts a candidate, at "
            f"epsilon {significant_up(score_epsilon, 4)}, whose search costs no more at any order",
            f"{sets} are public",
            f"{noise_text(noise)} (counts get noise in integers)",
            "one row is one person; running time and memory, which grow with the number of "
            "candidates, are not part of what is released",
            "the guarantee starts at the array passed to fit",
            VALIDATION,
        ),
    )
