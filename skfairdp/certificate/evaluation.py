"""The deployed-model half of a certificate: held-out rows to bounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skfairdp.certificate.holdout import encode_holdout_groups, holdout_table
from skfairdp.certificate.rates import LEVEL
from skfairdp.certificate.terms import DRAWN, Terms, holdout_assumptions
from skfairdp.certificate.unwrap import Deployed
from skfairdp.fairness.guarantee import CellCount, FairnessGuarantee
from skfairdp.fairness.intervals import gap_estimate, gap_upper_bound, score_gap_upper_bound
from skfairdp.fairness.noisy_counts import (
    NoisyCells,
    noisy_gap_estimate,
    private_gap_upper_bound,
    private_rate_intervals,
)
from skfairdp.fairness.notions import Notion, Stratum
from skfairdp.fairness.smoothing import OwnModels
from skfairdp.privacy.noise import NoiseSource
from skfairdp.rows import count_rows

__all__ = ["Evaluation", "evaluate", "noisy_claim"]


@dataclass(frozen=True)
class Evaluation:
    """What held-out rows show.

    Parameters
    ----------
    fairness : tuple of FairnessGuarantee
        One claim a notion; empty where no claim is possible.
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
    classes, table = holdout_table(deployed, X, y, sensitive_features, groups, private, source)
    with_labels = y is not None
    strata = [notion.strata(classes, with_labels=with_labels) for notion in terms.notions]
    assumptions = holdout_assumptions(terms, groups, with_labels)
    hook = None if private else getattr(deployed.final, "_own_models", None)
    own: OwnModels | None = None if hook is None else hook(groups.labels)
    if private:
        assert terms.count_epsilon is not None
        noise = source.discrete_laplace(terms.count_epsilon, table.shape)
        claims = [
            noisy_claim(notion, cells, table, table + noise, groups.labels, terms, assumptions)
            for notion, cells in zip(terms.notions, strata, strict=True)
        ]
        return Evaluation(tuple(claims), None)
    if own is not None:
        terms = replace(terms, bounds_each=2)
        assumptions = holdout_assumptions(terms, groups, with_labels)
    claims = [
        _claim(notion, cells, table, groups.labels, terms, assumptions)
        for notion, cells in zip(terms.notions, strata, strict=True)
    ]
    if own is not None:
        # Every row is scored by the model of its own group, and else counted alike.
        scored = replace(deployed, final=own.scorer(groups.codes))
        own_table = holdout_table(scored, X, y, sensitive_features, groups, private, source)[1]
        claims += [
            own.claim(
                notion,
                _stack(cells, own_table),
                groups=groups.labels,
                error=1.0 - terms.level_of_one_claim,
                confidence_level=terms.confidence_level,
                assumptions=(*assumptions, DRAWN),
            )
            for notion, cells in zip(terms.notions, strata, strict=True)
        ]
    return Evaluation(tuple(claims), round(float(table.sum())))


def _stack(strata: Sequence[Stratum], table: NDArray) -> tuple[NDArray, NDArray]:
    """Successes and failures, two arrays of shape (n_strata, n_groups)."""
    counts = [stratum.count(table) for stratum in strata]
    return np.stack([hit for hit, _ in counts]), np.stack([miss for _, miss in counts])


def _cell_counts(
    strata: Sequence[Stratum], labels: tuple, hits: NDArray, rows: NDArray
) -> tuple[CellCount, ...]:
    return tuple(
        CellCount(label, stratum.name, hits[s, g].item(), rows[s, g].item())
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
    if table.dtype.kind == "f":
        value = score_gap_upper_bound(hits, rows, confidence_level=level)
        method = "Hoeffding, on the probabilities of the random predictions"
        assumptions = (*assumptions, DRAWN)
    else:
        form = "exact" if terms.bound == "exact" else "difference"
        value = gap_upper_bound(hits, rows, confidence_level=level, bound=form)  # type: ignore[arg-type]
        method = "exact (Clopper-Pearson)" if form == "exact" else "difference (Hoeffding)"
    return FairnessGuarantee(
        notion=notion.name,
        bound=float(value),
        scope="deployed model",
        method=method,
        estimate=gap_estimate(hits, rows),
        confidence_level=terms.confidence_level,
        groups=labels,
        counts=_cell_counts(strata, labels, hits, rows),
        assumptions=assumptions,
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
    cells = NoisyCells(
        hits,
        misses,
        np.array([stratum.successes.sum() for stratum in strata]),
        np.array([stratum.failures.sum() for stratum in strata]),
        sizes,
    )
    kind = "public" if terms.public_sizes else "private"
    lower, upper = private_rate_intervals(cells, terms.count_epsilon, confidence_level=LEVEL)
    return FairnessGuarantee(
        notion=notion.name,
        bound=private_gap_upper_bound(
            cells, terms.count_epsilon, confidence_level=terms.level_of_one_claim
        ),
        scope="deployed model",
        method=f"exact, from noisy counts with {kind} cell sizes",
        estimate=noisy_gap_estimate(cells),
        confidence_level=terms.confidence_level,
        groups=labels,
        counts=tuple(
            replace(count, noisy=True, low=float(lower.flat[i]), high=float(upper.flat[i]))
            for i, count in enumerate(_cell_counts(strata, labels, successes, rows))
        ),
        assumptions=assumptions,
    )
