"""Bounds for the answers that a parity gate let pass."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skfairdp.fairness.bounds.stored import ANSWERED_OF_ASKED
from skfairdp.fairness.derivation import Derivation
from skfairdp.fairness.gate import ParityGate
from skfairdp.fairness.guarantee import CellCount, FairnessGuarantee
from skfairdp.fairness.kinds import COUNTED, KINDS
from skfairdp.fairness.scopes import ANSWERED
from skfairdp.foundation import assumptions
from skfairdp.foundation.figures import as_given, rounded_up


def answered_guarantee(
    gate: ParityGate, *, groups: Sequence[Hashable], classes: Sequence[Hashable], asked: ArrayLike
) -> FairnessGuarantee:
    """Bound the gap of the answers that a gate let pass.

    The bound is the largest difference between two groups in the share of any label among their
    answers, counted on the gate's table: without error, and 1 while a group has no answer.

    Parameters
    ----------
    gate : ParityGate
        The gate, after its last query.
    groups : sequence, length n_groups
        Group labels.
    classes : sequence, length n_classes
        Class labels.
    asked : array-like of int, shape (n_groups,)
        Queries of each group, answered or not.

    Returns
    -------
    FairnessGuarantee
        Of scope "answered queries". The stratum "answered" counts the answered of all queries.

    Raises
    ------
    ValueError
        `groups`, `classes` or `asked` do not fit the gate.

    Examples
    --------
    >>> from skfairdp.fairness import ParityGate, answered_guarantee
    >>> gate = ParityGate(2, 2, tolerance=0.5, cold_start=2)
    >>> passed = [gate.offer(z, k) for z, k in [(0, 0), (0, 1), (1, 0), (1, 0)]]
    >>> claim = answered_guarantee(gate, groups=("a", "b"), classes=(0, 1), asked=[2, 2])
    >>> claim.bound, claim.scope
    (0.5, 'answered queries')
    """
    queries, table = np.asarray(asked), gate.counts
    answers = table.sum(axis=1)
    shapes = (len(groups), len(classes), queries.shape)
    if shapes != (gate.n_groups, gate.n_classes, (gate.n_groups,)) or (queries < answers).any():
        raise ValueError(
            f"groups, classes and asked must describe a gate of {gate.n_groups} groups and "
            f"{gate.n_classes} classes, with at least as many queries as answers of each group."
        )
    checked = "every cell" if gate.rule == "all_cells" else "the queried cell"
    defined = len(groups) > 1 and bool(answers.all())
    shares = table / np.maximum(answers, 1)[:, np.newaxis]
    gap = float(np.ptp(shares, axis=0).max()) if defined else 1.0
    counts = [
        CellCount(group, ANSWERED_OF_ASKED, int(n), int(of))
        for group, n, of in zip(groups, answers, queries, strict=True)
    ]
    counts += [
        CellCount(group, f"prediction {label}", int(n), int(of))
        for label, column in zip(classes, table.T, strict=True)
        for group, n, of in zip(groups, column, answers, strict=True)
    ]
    return FairnessGuarantee(
        notion="demographic_parity",
        bound=gap,
        scope=ANSWERED,
        method=KINDS[COUNTED]
        .methods[ANSWERED]
        .format(checked=checked, tolerance=as_given(gate.tolerance), cold_start=gate.cold_start),
        estimate=gap if defined else None,
        groups=tuple(groups),
        counts=tuple(counts),
        assumptions=_texts(gate, groups, classes, queries),
        derivation=Derivation.of(COUNTED),
    )


def answered_of_asked(groups: Sequence[Hashable], answered: ArrayLike, asked: ArrayLike) -> str:
    """Say how many queries were answered, over all and by group."""
    given, of = np.asarray(answered), np.asarray(asked)
    parts = zip([*given, given.sum()], [*of, of.sum()], strict=True)
    *shares, whole = (f"{n / m:.3f}" if m else "no query" for n, m in parts)
    by_group = ", ".join(f"{group}: {share}" for group, share in zip(groups, shares, strict=True))
    return f"{given.sum()} of {of.sum()} queries were answered ({whole}); by group {by_group}"


def _texts(
    gate: ParityGate, groups: Sequence[Hashable], classes: Sequence[Hashable], asked: NDArray
) -> tuple[str, ...]:
    answers, gaps = gate.counts.sum(axis=1), gate.gaps()
    z, k = divmod(int(gaps.argmax()), gate.n_classes)
    texts = [
        assumptions.ANSWERS_SO_FAR.format(answers=int(answers.sum())),
        f"Worst cell of the table: Γ = {rounded_up(float(gaps[z, k]))}, the share of label "
        f"{classes[k]} in group {groups[z]} minus its share in all other groups together; "
        f"the gate allows at most {as_given(gate.tolerance)}.",
        _invariant(gate, groups, answers),
    ]
    if gate.stuck:
        deadlock = "no answer of any group can pass any more, so every further query is refused."
        texts.append(f"The gate is deadlocked: {deadlock}")
    texts += [
        f"Coverage: {answered_of_asked(groups, answers, asked)}. {assumptions.REFUSALS}",
        assumptions.ORDER_OF_QUERIES,
        assumptions.RECORDED.format(what="Groups are"),
    ]
    return tuple(texts)


def _invariant(gate: ParityGate, groups: Sequence[Hashable], answers: NDArray) -> str:
    if gate.n_groups < 2:
        return "With one group nothing is compared: every answer passed."
    short = [group for group, n in zip(groups, answers, strict=True) if n < gate.cold_start]
    if gate.rule == "queried_cell":
        return (
            "Only the cell of each query was checked, and no answer of a group before it had "
            f"{gate.cold_start}: with three groups or more other cells may drift above γ, so "
            "nothing follows for later answers."
        )
    if short:
        return (
            "The cold start is not over, so every answer passed and nothing follows for later "
            f"ones. Fewer than {gate.cold_start} answers: {', '.join(map(str, short))}."
        )
    ceiling = rounded_up(min(gate.tolerance + gate.excess, 1.0))
    return (
        f"Excess Σ max(Γ − γ, 0) = {rounded_up(gate.excess)}. The gate never lets it grow after "
        f"the cold start, so no cell can exceed {ceiling} whatever is asked next."
    )
