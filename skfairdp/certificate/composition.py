"""Privacy of a certificate: composition of the costs of all steps of a deployed model."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

from dp_accounting.dp_event import ComposedDpEvent, DiscreteLaplaceDpEvent, DpEvent

from skfairdp.certificate.evaluation_settings import EvaluationSettings
from skfairdp.certificate.search_fits import search_reason
from skfairdp.foundation import assumptions
from skfairdp.foundation.figures import as_given, significant_up
from skfairdp.privacy.accounting.exposure import Exposure
from skfairdp.privacy.accounting.plan_cost import compose
from skfairdp.privacy.guarantee import PrivacyGuarantee
from skfairdp.privacy.ledger.totals import covered
from skfairdp.privacy.noise import NoiseSource
from skfairdp.privacy.relations import PROTECTS
from skfairdp.receipts.unwrap import (
    ContainerChoice,
    Deployed,
    charges_privacy,
    kind_of,
    learns_from_rows,
    reads_by_itself,
    why_learned,
)

Steps = Sequence[tuple[str, Any]]  # each with its name
_SEEDED = "The noise of the counts is reproducible: anyone who knows its seed can subtract it."


def model_privacy(deployed: Deployed, public_steps: Sequence[str]) -> PrivacyGuarantee | None:
    """Compose the guarantees of the parts of a deployed model.

    Void, with the reasons first among its assumptions, when a part is not covered; None when a
    part was trained with ``epsilon=inf``.
    """
    shown, deployed = deployed, deployed.trained
    leaves, (place, _), charged = deployed.leaves(), deployed.release, deployed.charged
    if isinstance(public_steps, str):
        raise ValueError(f"public_steps={public_steps!r} must be a list of names of steps.")
    names = [name for name, _ in leaves]
    for listed in public_steps:
        if not any(_listed(name, (listed,)) for name in names):
            raise ValueError(
                f"public_steps names {listed!r}, which is not an earlier step of the model; its "
                f"earlier steps are {names}."
            )
    # Rows that post-processing learns from, in addition to its inner model, are not examined here.
    if place < len(deployed.stages) and shown is deployed:
        return _of_releases(deployed, place, public_steps)
    other, declared = sorted_steps(leaves, public_steps)
    stated = [step.privacy_ for _, step in other if charges_privacy(step)]
    if charges_privacy(charged):
        stated.append(charged.privacy_)
    if None in stated:
        return None

    for unit in ("record", "person"):
        if _relations(stated) == {("add-remove", unit), ("zero-out", unit)}:
            # A promise for removal, as of a table, is one for blanked records too.
            stated = covered(stated, "zero-out", unit)
    reasons = [*shown.changes, *_unpaid(other)]
    if not charges_privacy(deployed.final):
        reasons.append(_foreign(deployed.final))
    else:  # one around a search of skfairdp, too: that states what one fit of it spent
        others = [search for search in deployed.searches if not charges_privacy(search)]
        reasons += [search_reason(search, deployed.final) for search in others]
    relations = sorted(_relations(stated))
    if len(relations) > 1:
        kinds = "; ".join(f"{protects} under {adjacency}" for adjacency, protects in relations)
        reasons.append(f"The steps make promises of different kinds, which have no total: {kinds}")
    if reasons:
        return _void(reasons, stated, declared)
    total = stated[0] if len(stated) == 1 else compose(stated)
    if not declared:
        return total
    return dataclasses.replace(total, assumptions=total.assumptions + declared)


def with_counts(
    privacy: PrivacyGuarantee | None, settings: EvaluationSettings, source: NoiseSource | None
) -> PrivacyGuarantee | None:
    """Add the cost of a noisy table of counts of held-out rows, where they are protected.

    A record, or person, that found its side by its own draw is in one of the two: the larger
    cost counts. Cut "by_index" the costs compose, for records that are blanked in their place.
    """
    if privacy is None or settings.count_epsilon is None:
        return privacy
    assert source is not None
    count_epsilon, unit = float(settings.count_epsilon), settings.unit
    by_index = settings.holdout not in ("per_record", "by_person")
    tables = _tables(settings.parts_of_epsilon)
    notes = _notes(settings.parts_of_epsilon, source)
    if privacy.is_void or privacy.protects != unit:
        # Another relation: the two costs stand side by side and are never added.
        return dataclasses.replace(privacy, assumptions=(*privacy.assumptions, *notes))
    if source.reproducible:
        return _void([_SEEDED], [privacy], ())
    # Counts with public sizes speak of blanked records; so does, at the same cost, a
    # guarantee for removal under declared sizes. Cut by position, the parts of other records
    # move when one is removed, not when it is blanked.
    moved = by_index and privacy.adjacency == "add-remove"
    adjacency = "zero-out" if settings.public_sizes or moved else privacy.adjacency
    model = dataclasses.replace(privacy, adjacency=adjacency)
    alone = counts_guarantee(
        settings.parts_of_epsilon,
        public_sizes=settings.public_sizes,
        source=source,
        protects=unit,
    )
    counts = dataclasses.replace(alone, adjacency=adjacency)
    assert counts.event is not None
    if by_index:
        total = compose([model, counts])
        if settings.of_training:
            return total
        return dataclasses.replace(
            total, assumptions=(*total.assumptions, assumptions.HELD_OUT_BY_POSITION)
        )
    per_group = model.per_group
    shares = model.exposures
    if shares == () and model.event is not None:
        shares = (Exposure(model.event),)
    return dataclasses.replace(
        model,
        epsilon=max(model.epsilon, count_epsilon),
        per_group=per_group and {k: max(v, count_epsilon) for k, v in per_group.items()},
        # Covers a record of either part, for composition with further releases.
        event=None if model.event is None else ComposedDpEvent((model.event, *tables)),
        exposures=shares and (*shares, Exposure(counts.event)),
        assumptions=(
            *model.assumptions,
            *notes,
            assumptions.HELD_OUT_BY_PERSON if settings.persons else assumptions.HELD_OUT_BY_DRAW,
        ),
    )


def refuse_other_unit(privacy: PrivacyGuarantee | None, settings: EvaluationSettings) -> None:
    """Refuse noisy counts of rows with a guarantee for persons, and the reverse."""
    units = ("record", "person")
    if not settings.private or privacy is None or privacy.is_void or privacy.protects not in units:
        return
    if privacy.protects != settings.unit:
        raise ValueError(
            "The model's promise is about persons: give person_ids of the held-out rows too."
            if settings.unit == "record"
            else "The model's promise is about rows, and person_ids with count_epsilon would "
            "protect persons: fit the model with person_ids, or leave them out here."
        )


def counts_guarantee(
    epsilons: Sequence[float],
    *,
    public_sizes: bool,
    source: NoiseSource,
    protects: str = "record",
) -> PrivacyGuarantee:
    """State the guarantee of tables of counts of held-out rows alone, each with its epsilon."""
    if source.reproducible:
        return PrivacyGuarantee.void(_SEEDED)
    events = _tables(epsilons)
    several = len(events) > 1
    return PrivacyGuarantee(
        epsilon=math.fsum(epsilons),
        delta=0.0,
        adjacency="zero-out" if public_sizes else "add-remove",
        protects=protects,
        accountant=f"pure: {'two tables' if several else 'one table'} of L1 sensitivity 1",
        event=ComposedDpEvent(events) if several else events[0],
        assumptions=_notes(epsilons, source),
    )


def _tables(epsilons: Sequence[float]) -> tuple[DpEvent, ...]:
    """Releases of noisy tables: of answers, and of scores where they are counted."""
    return tuple(DiscreteLaplaceDpEvent(each, 1) for each in epsilons)


def _notes(epsilons: Sequence[float], source: NoiseSource) -> tuple[str, ...]:
    epsilon, parts = as_given(math.fsum(epsilons)), map(as_given, epsilons)
    released = assumptions.COUNTS_RELEASED.format(name=source.name, epsilon=epsilon)
    if len(epsilons) == 1:
        return (released,)
    named = dict(zip(("table", "scores"), parts, strict=True))
    return released, assumptions.SCORES_RELEASED.format(epsilon=epsilon, **named)


def _of_releases(deployed: Deployed, place: int, public: Sequence[str]) -> PrivacyGuarantee | None:
    """State the guarantee of people whose rows reach later steps through releases alone."""
    name, step = deployed.stages[place]
    own: PrivacyGuarantee | None = step.privacy_
    if own is None:
        return None
    earlier = dataclasses.replace(deployed, stages=deployed.stages[:place]).leaves()
    later = dataclasses.replace(deployed, stages=deployed.stages[place + 1 :]).leaves()
    other, declared = sorted_steps(earlier, public)
    reasons = [*deployed.changes, *_unpaid(other)]
    reasons += [
        f"Step {where!r} ({type(one).__name__}) comes before the releases of {name!r} and learned "
        "from rows under a promise of another kind; the two have no total. Certify each by itself."
        for where, one in other
        if charges_privacy(one)
    ]
    reasons += [
        f"A {type(search).__name__} released every row again for each of its fits, and these "
        "releases are not counted; search on public rows, or on one release made before."
        for search in deployed.searches
    ]
    if reasons:
        return _void(reasons, [own], declared)
    beside = [*later, (type(deployed.final).__name__, deployed.final)]
    texts = [
        assumptions.LATER_STEPS.format(name=name),
        *(_beside(where, one.privacy_) for where, one in beside if charges_privacy(one)),
    ]
    return dataclasses.replace(own, assumptions=(*own.assumptions, *texts, *declared))


def _beside(name: str, stated: PrivacyGuarantee | None) -> str:
    """Describe a guarantee of another kind, of a later step, which is never composed."""
    if stated is None or stated.is_void:
        return f"step {name!r} itself promises nothing"
    return (
        f"in addition to this, and not composed with it, step {name!r} guarantees ε = "
        f"{significant_up(stated.epsilon)}, δ = {significant_up(stated.delta, 3)} for "
        f"{PROTECTS[stated.protects]}, labels included, under {stated.adjacency}, to those who see "
        "the model and no release"
    )


def _unpaid(steps: Steps) -> list[str]:
    """Why steps leave rows uncovered that they learned from without noise."""
    return [
        f"Step {name!r} ({kind_of(step)}) learned from rows without noise, so every row can "
        f"show in the features of every other{_because(step)}. Use declared bounds and categories "
        "(PublicScaler, PublicEncoder), or list the step in public_steps if it never saw protected "
        "rows."
        for name, step in steps
        if not charges_privacy(step) and learns_from_rows(step)
    ]


def _because(step: Any) -> str:
    """Why a step may have learned, unless its name says so already."""
    return "" if isinstance(step, ContainerChoice) else f": {why_learned(step)}"


def sorted_steps(leaves: Steps, public_steps: Sequence[str]) -> tuple[Steps, tuple[str, ...]]:
    """Steps that were not declared public, and the assumptions about all steps."""
    other = [leaf for leaf in leaves if not _listed(leaf[0], public_steps)]
    typed = any(reads_by_itself(step) for _, step in other)
    return other, ((assumptions.TYPED_CELLS,) if typed else ()) + tuple(
        assumptions.DECLARED_PUBLIC.format(name=name, kind=kind_of(step))
        for name, step in leaves
        if _listed(name, public_steps) and (charges_privacy(step) or learns_from_rows(step))
    ) + tuple(
        assumptions.DENSE_ROWS.format(name=name)
        for name, step in other
        if isinstance(step, ContainerChoice) and not learns_from_rows(step)
    )


def _listed(name: str, public_steps: Sequence[str]) -> bool:
    """Whether a step, or a container around it, is listed."""
    return any(name == listed or name.startswith(f"{listed}__") for listed in public_steps)


def _foreign(final: Any) -> str:
    name = type(final).__name__
    parts = final.get_params(deep=True).values() if hasattr(final, "get_params") else ()
    if any(charges_privacy(part) for part in parts):
        return (
            f"{name} is a model around an estimator of skfairdp, and what it makes of the rows is "
            "not accounted for; certify the inner estimator, or a Pipeline that ends in it. These "
            "speak of the rows they got: of one given twice, as by a bootstrap, as of two people."
        )
    return (
        f"{name} is not an estimator of skfairdp: nothing bounds what it reveals about its "
        "training rows."
    )


def _relations(stated: list[PrivacyGuarantee]) -> set[tuple[str, str]]:
    return {(item.adjacency, item.protects) for item in stated if not item.is_void}


def _void(
    reasons: list[str], stated: list[PrivacyGuarantee], declared: tuple[str, ...]
) -> PrivacyGuarantee:
    last = stated[-1] if stated else PrivacyGuarantee.void()
    # Only reasons: what the other steps assume is not a reason for the lack of a claim.
    inherited = tuple(text for item in stated if item.is_void for text in item.assumptions)
    texts = dict.fromkeys((*reasons, *inherited, *declared))
    return PrivacyGuarantee.void(
        *texts, delta=last.delta, adjacency=last.adjacency, protects=last.protects
    )
