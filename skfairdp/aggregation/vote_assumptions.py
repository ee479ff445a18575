"""What certificates say about votes, in words."""

from __future__ import annotations

from typing import Any

from skfairdp.assumptions import (
    ONE_TEACHER,
    QUERIES_PUBLIC,
    TEACHERS,
    VOTES_PLANNED,
    closed_sets,
    starts,
    through_noise,
)
from skfairdp.fairness.bounds.gated_answers import answered_of_asked
from skfairdp.privacy.noise import NoiseSource, noise_text


def spent(estimator: Any) -> tuple[str, ...]:
    """Say what epsilon pays for, and what came of the queries.

    `estimator`: has its plan and the description of its queries.
    """
    *tests, votes = estimator.plan_.segments
    counted = "".join(f"{segment.steps} noisy threshold tests and " for segment in tests)
    answered = f"{estimator.n_answered_} of {estimator.n_asked_} queries were answered"
    if estimator.public_groups_ is not None:
        answers = estimator.answers_by_group_.sum(axis=1)
        answered = answered_of_asked(estimator.public_groups_, answers, estimator.asked_by_group_)
    return (
        VOTES_PLANNED.format(tests=counted, votes=votes.steps),
        ONE_TEACHER,
        f"coverage: {answered}",
    )


def public_things(grouped: bool, *, labels_declared: bool) -> tuple[str, ...]:
    """Say what is public.

    `grouped`: whether private rows came with groups. `labels_declared`: whether the set of labels
    was declared.
    """
    sets = closed_sets(labels=labels_declared, groups=False if grouped else None)
    return (*sets, QUERIES_PUBLIC)


def conditions(noise: NoiseSource) -> tuple[str, ...]:
    """Say what every guarantee about votes assumes."""
    return (noise_text(noise), through_noise("votes"), starts(), TEACHERS)
