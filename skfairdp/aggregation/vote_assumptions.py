"""What certificates say about votes, in words."""

from __future__ import annotations

from typing import Any

from skfairdp.fairness.bounds.gated_answers import coverage_sentence
from skfairdp.privacy.noise import NoiseSource, noise_text


def spent(estimator: Any) -> tuple[str, ...]:
    """Say what epsilon pays for, and what came of the queries.

    `estimator`: has its plan and the description of its queries.
    """
    *tests, votes = estimator.plan_.segments
    counted = "".join(f"{segment.steps} noisy threshold tests and " for segment in tests)
    coverage = f"Coverage: {estimator.n_answered_} of {estimator.n_asked_} queries were answered."
    if estimator.public_groups_ is not None:
        answers = estimator.answers_by_group_.sum(axis=1)
        coverage = coverage_sentence(estimator.public_groups_, answers, estimator.asked_by_group_)
    return (
        f"epsilon is that of {counted}{votes.steps} noisy votes, numbers fixed in advance, "
        "however many took place; an answer that a gate refused is charged like any other",
        "the number of teachers and the noise were fixed in advance; each record drew its teacher "
        "by itself, so that it reaches one teacher alone",
        coverage[0].lower() + coverage[1:].removesuffix("."),
    )


def public_things(grouped: bool, *, labels_declared: bool) -> tuple[str, ...]:
    """Say what is public.

    `grouped`: whether private rows came with groups. `labels_declared`: whether the set of labels
    was declared.
    """
    read_off = "taken from the rows and public"
    return (
        f"the set of class labels is {'declared' if labels_declared else read_off}",
        *((f"the set of groups is {read_off}",) if grouped else ()),
        "the public rows and their groups need no protection, and nothing protects them",
    )


def conditions(noise: NoiseSource) -> tuple[str, ...]:
    """Say what every guarantee about votes assumes."""
    return (
        noise_text(noise),
        "one row is one person; rows reach the model through the noisy votes alone, and running "
        "time is not part of what is released",
        "the guarantee starts at the array passed to fit",
        "each teacher has random numbers of its own, and one that fails votes for the first class "
        "in silence; its kind of model was tried on public rows, about as many as two average "
        "shards hold, and delta is below 1/n for the true n",
    )
