"""The deployed-model half of a certificate: held-out rows to bounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skfairdp.certificate.holdout import (
    HeldOut,
    ask_holdout,
    draws_afresh,
    encode_holdout_groups,
)
from skfairdp.certificate.rates import LEVEL
from skfairdp.certificate.terms import Terms, holdout_assumptions
from skfairdp.certificate.unwrap import Deployed
from skfairdp.fairness.bounds.noisy_counts import (
    NoisyCells,
    noisy_gap_estimate,
    private_gap_upper_bound,
    private_rate_intervals,
)
from skfairdp.fairness.bounds.rate_gaps import gap_estimate, gap_upper_bound, score_gap_upper_bound
from skfairdp.fairness.derivation import (
    EXACT,
    EXACT_NOISY,
    HOEFFDING,
    NOISY_COUNTS,
    Derivation,
)
from skfairdp.fairness.groups import Groups
from skfairdp.fairness.guarantee import CellCount, FairnessGuarantee
from skfairdp.fairness.notions import Notion, Stratum
from skfairdp.fairness.scopes import AVERAGED, AVERAGED_RATES, DEPLOYED
from skfairdp.privacy.noise import NoiseSource
from skfairdp.rows import count_rows

__all__ = ["Evaluation", "evaluate", "noisy_claim"]

_APART = "The error probability is apart from that of the bound on the deployed model."


@dataclass(frozen=True)
class Evaluation:
    """What held-out rows show.

    Parameters
    ----------
    fairness : tuple of FairnessGuarantee
        One claim a notion about the deployed model, then those about averages over its
        draws; empty where no claim is possible.
    n_rows : int or None
        Held-out rows inside the claim; None where their number is private.
    remarks : tuple of str
        Why there is no claim.
    """

    fairness: tuple[FairnessGuarantee, ...]
    n_rows: int | None
    remarks: tuple[str, ...] = ()


def evaluate(
    deployed: Deployed,
    X: Any,
    y: ArrayLike | None,
    sensitive_features: ArrayLike | None,
    terms: Terms,
    source: NoiseSource,
) -> Evaluation:
    """Bound the differences between groups from held-out rows.

    Parameters
    ----------
    deployed : Deployed
        The model.
    X : array-like, shape (n_rows, n_features)
        Held-out rows, as the deployed model takes them.
    y : array-like, shape (n_rows,), or None
        Their labels.
    sensitive_features : array-like or None
        Their groups.
    terms : Terms
        How the evaluation is made.
    source : NoiseSource
        Noise for private counts.

    Returns
    -------
    Evaluation

    Raises
    ------
    ValueError
        For rows, labels or groups that do not fit together.
    UnknownGroupError
        For a group that the model does not know, unless the counts are private.
    """
    private = terms.count_epsilon is not None
    n_rows = count_rows(X)
    if sensitive_features is None:
        return Evaluation(
            (),
            None if private else n_rows,
            ("No sensitive_features were given, so nothing is claimed about groups.",),
        )
    if not hasattr(deployed.final, "predict"):
        return Evaluation(
            (),
            None if private else n_rows,
            ("The model predicts nothing by itself, so no rates were compared on these rows.",),
        )
    if deployed.order_dependent:
        return Evaluation(
            (),
            None if private else n_rows,
            (
                "The answer to one row depends on the rows before it, so held-out rows bound "
                "nothing about this model, and none was asked. For a bound on what would be "
                "answered without a gate, certify the estimator inside.",
            ),
        )
    groups = encode_holdout_groups(sensitive_features, n_rows, deployed, terms.groups, private)
    if len(groups.labels) < 2:
        return Evaluation(
            (), None if private else n_rows, ("Only one group is known: no gap can be claimed.",)
        )
    held = ask_holdout(deployed, X, y, sensitive_features, groups, private)
    table, with_labels = held.table, y is not None
    strata = [notion.strata(held.classes, with_labels=with_labels) for notion in terms.notions]
    assumptions = holdout_assumptions(terms, groups, with_labels, held.how, held.classes)
    if private:
        assert terms.count_epsilon is not None
        noise = source.discrete_laplace(terms.count_epsilon, table.shape)
        claims = [
            noisy_claim(notion, cells, table, table + noise, groups.labels, terms, assumptions)
            for notion, cells in zip(terms.notions, strata, strict=True)
        ]
        return Evaluation(tuple(claims), None, _remarks(claims))
    claims = [
        _claim(notion, cells, table, groups.labels, terms, assumptions)
        for notion, cells in zip(terms.notions, strata, strict=True)
    ]
    if not draws_afresh(deployed):  # else each row would be released once more, for an average
        claims += _averages(deployed, X, groups, held, strata, terms, with_labels)
    return Evaluation(tuple(claims), int(table.sum()), _remarks(claims))


def _remarks(claims: Sequence[FairnessGuarantee]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text for claim in claims for text in claim.remarks))


def _averages(
    deployed: Deployed,
    X: Any,
    groups: Groups,
    held: HeldOut,
    strata: Sequence[Sequence[Stratum]],
    terms: Terms,
    with_labels: bool,
) -> list[FairnessGuarantee]:
    """Bounds on rates averaged over the keys that a model's draws could have had."""
    final = deployed.final
    if not hasattr(final, "_success_scores"):
        return []
    rows = deployed.transform(X)
    scores = final._success_scores(rows)
    if scores is None:
        return []
    own = final._own_models(groups.labels) if hasattr(final, "_own_models") else None
    terms = replace(terms, bounds_each=1 if own is None else 2)
    rests_on = holdout_assumptions(terms, groups, with_labels, AVERAGED_RATES, held.classes)
    assumptions = (*rests_on, _APART)
    notions = tuple(zip(terms.notions, strata, strict=True))
    table = held.averaged(scores)
    claims = [_claim(n, cells, table, groups.labels, terms, assumptions) for n, cells in notions]
    if own is not None:
        # Every row is scored by the model of its own group, and else counted alike.
        own_table = held.averaged(own.scores(rows, groups.codes))
        claims += [
            own.claim(
                notion,
                _stack(cells, own_table),
                groups=groups.labels,
                claims=terms.claims,
                confidence_level=terms.confidence_level,
                assumptions=assumptions,
            )
            for notion, cells in notions
        ]
    return claims


def _stack(strata: Sequence[Stratum], table: NDArray) -> tuple[NDArray, NDArray]:
    """Successes and failures, two arrays of shape (n_strata, n_groups)."""
    counts = [stratum.count(table) for stratum in strata]
    return np.stack([hit for hit, _ in counts]), np.stack([miss for _, miss in counts])


def _cell_counts(
    strata: Sequence[Stratum], labels: tuple, hits: NDArray, rows: NDArray, *, noisy: bool = False
) -> tuple[CellCount, ...]:
    return tuple(
        CellCount(label, stratum.name, hits[s, g].item(), rows[s, g].item(), noisy)
        for s, stratum in enumerate(strata)
        for g, label in enumerate(labels)
    )


def _claim(
    notion: Notion,
    strata: Sequence[Stratum],
    table: NDArray,
    labels: tuple,
    terms: Terms,
    assumptions: tuple[str, ...],
) -> FairnessGuarantee:
    hits, misses = _stack(strata, table)
    rows = hits + misses
    level = terms.level_of_one_claim
    scope = AVERAGED if table.dtype.kind == "f" else DEPLOYED
    if scope == AVERAGED:
        value = score_gap_upper_bound(hits, rows, confidence_level=level)
        method, kind = "Hoeffding, on the probabilities of the random predictions", HOEFFDING
    else:
        form = "exact" if terms.bound == "exact" else "difference"
        value = gap_upper_bound(hits, rows, confidence_level=level, bound=form)  # type: ignore[arg-type]
        method, kind = {
            "exact": ("exact, of each pair of groups", EXACT),
            "difference": ("difference (Hoeffding)", HOEFFDING),
        }[form]
    return FairnessGuarantee(
        notion=notion.name,
        bound=float(value),
        scope=scope,
        method=method,
        estimate=gap_estimate(hits, rows),
        confidence_level=terms.confidence_level,
        groups=labels,
        counts=_cell_counts(strata, labels, hits, rows),
        assumptions=assumptions,
        derivation=Derivation.of(kind, claims=terms.claims),
    )


def noisy_claim(
    notion: Notion,
    strata: Sequence[Stratum],
    table: NDArray,
    noisy: NDArray,
    labels: tuple,
    terms: Terms,
    assumptions: tuple[str, ...],
) -> FairnessGuarantee:
    """Make a claim from the noisy table; of the true one only public sizes are used.

    Parameters
    ----------
    notion : Notion
        What is compared.
    strata : sequence of Stratum
        Its strata for the table's classes.
    table : ndarray of int64, shape (n_groups, n_labels, n_classes)
        The true counts; read for public sizes alone.
    noisy : ndarray of int64, of the same shape
        The counts with noise.
    labels : tuple
        Group labels.
    terms : Terms
        How the evaluation is made, with ``count_epsilon``.
    assumptions : tuple of str
        What the claim rests on.

    Returns
    -------
    FairnessGuarantee
    """
    assert terms.count_epsilon is not None
    hits, misses = _stack(strata, noisy)
    successes, rows = hits, hits + misses
    sizes = None
    if terms.public_sizes:
        true_hits, true_misses = _stack(strata, table)
        sizes = true_hits + true_misses
        # Both noisy counts of a cell measure the same number when its rows are known.
        successes, rows = (sizes + hits - misses) / 2, sizes
    added = np.array([[part.sum() for part in (s.successes, s.failures)] for s in strata])
    cells = NoisyCells(hits, misses, added[:, 0], added[:, 1], sizes)
    kind = "public" if terms.public_sizes else "private"
    lower, upper = private_rate_intervals(cells, terms.count_epsilon, confidence_level=LEVEL)
    return FairnessGuarantee(
        notion=notion.name,
        bound=private_gap_upper_bound(
            cells, terms.count_epsilon, confidence_level=terms.level_of_one_claim
        ),
        scope=DEPLOYED,
        method=f"exact, from noisy counts of answers with {kind} cell sizes",
        estimate=noisy_gap_estimate(cells),
        confidence_level=terms.confidence_level,
        groups=labels,
        counts=tuple(
            replace(count, low=float(lower.flat[i]), high=float(upper.flat[i]))
            for i, count in enumerate(_cell_counts(strata, labels, successes, rows, noisy=True))
        ),
        assumptions=assumptions,
        derivation=Derivation.of(
            EXACT_NOISY if terms.public_sizes else NOISY_COUNTS,
            claims=terms.claims,
            epsilon=terms.count_epsilon,
            public_sizes=terms.public_sizes,
            terms=added,
        ),
    )
