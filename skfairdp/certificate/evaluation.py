"""The deployed-model half of a certificate: held-out rows to bounds."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import _num_samples

from skfairdp.certificate.holdout import encode_holdout_groups, holdout_table
from skfairdp.certificate.unwrap import Deployed
from skfairdp.fairness.groups import Groups
from skfairdp.fairness.guarantee import CellCount, FairnessGuarantee
from skfairdp.fairness.intervals import gap_estimate, gap_upper_bound, score_gap_upper_bound
from skfairdp.fairness.noisy_counts import NoisyCells, noisy_gap_estimate, private_gap_upper_bound
from skfairdp.fairness.notions import Notion, Stratum
from skfairdp.privacy.noise import NoiseSource

__all__ = ["Evaluation", "Terms", "evaluate"]


DRAWN = (
    "Rates are averaged over the predictor's own random draws; each person's prediction is a draw "
    "of its own."
)


@dataclass(frozen=True)
class Terms:
    """How an evaluation is made; fixed before the rows are looked at.

    Parameters
    ----------
    notions : tuple of Notion
        What is compared.
    confidence_level : float
        Probability that all bounds of all planned certificates hold.
    bound : {"exact", "difference"}
        Interval of one pair of cells.
    count_epsilon : float or None
        Privacy cost of the table of counts; None for counts without noise.
    public_sizes : bool
        Whether the numbers of rows of the (group, label) cells are public.
    groups : tuple or None
        Declared groups.
    n_certificates : int
        Number of certificates planned on these rows.
    certificate_index : int or None
        Which of several this one is, from 1.
    """

    notions: tuple[Notion, ...]
    confidence_level: float
    bound: str
    count_epsilon: float | None
    public_sizes: bool
    groups: tuple[Hashable, ...] | None
    n_certificates: int
    certificate_index: int | None

    @property
    def claims(self) -> int:
        """Number of claims that share the error probability."""
        return self.n_certificates * len(self.notions)

    @property
    def level_of_one_claim(self) -> float:
        """Confidence of one claim, such that all of them hold together."""
        return 1.0 - (1.0 - self.confidence_level) / self.claims


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
    n_rows = _num_samples(X)
    if sensitive_features is None:
        return Evaluation(
            (),
            None if private else n_rows,
            ("No sensitive_features were given, so nothing is claimed about groups.",),
        )
    groups = encode_holdout_groups(sensitive_features, n_rows, deployed, terms.groups, private)
    if len(groups.labels) < 2:
        return Evaluation(
            (), None if private else n_rows, ("Only one group is known: no gap can be claimed.",)
        )
    classes, table = holdout_table(deployed, X, y, sensitive_features, groups, private, source)
    with_labels = y is not None
    strata = [notion.strata(classes, with_labels=with_labels) for notion in terms.notions]
    assumptions = _assumptions(terms, groups, with_labels)
    if private:
        assert terms.count_epsilon is not None
        noise = source.discrete_laplace(terms.count_epsilon, table.shape)
        claims = [
            _noisy_claim(notion, cells, table, table + noise, groups.labels, terms, assumptions)
            for notion, cells in zip(terms.notions, strata, strict=True)
        ]
        return Evaluation(tuple(claims), None)
    claims = [
        _claim(notion, cells, table, groups.labels, terms, assumptions)
        for notion, cells in zip(terms.notions, strata, strict=True)
    ]
    return Evaluation(tuple(claims), round(float(table.sum())))


def _stack(strata: Sequence[Stratum], table: NDArray) -> tuple[NDArray, NDArray]:
    """Successes and failures, two arrays of shape (n_strata, n_groups)."""
    counts = [stratum.count(table) for stratum in strata]
    return np.stack([hit for hit, _ in counts]), np.stack([miss for _, miss in counts])


def _cell_counts(
    strata: Sequence[Stratum], labels: tuple, hits: NDArray, rows: NDArray, *, noisy: bool
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
        counts=_cell_counts(strata, labels, hits, rows, noisy=False),
        assumptions=assumptions,
    )


def _noisy_claim(
    notion: Notion,
    strata: Sequence[Stratum],
    table: NDArray,
    noisy: NDArray,
    labels: tuple,
    terms: Terms,
    assumptions: tuple[str, ...],
) -> FairnessGuarantee:
    """Make a claim from the noisy table; of the true one only public sizes are used."""
    assert terms.count_epsilon is not None
    hits, misses = _stack(strata, noisy)
    sizes = sum(_stack(strata, table)) if terms.public_sizes else None
    cells = NoisyCells(
        hits,
        misses,
        np.array([stratum.successes.sum() for stratum in strata]),
        np.array([stratum.failures.sum() for stratum in strata]),
        sizes,  # type: ignore[arg-type]
    )
    kind = "public" if terms.public_sizes else "private"
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
        counts=_cell_counts(strata, labels, hits, hits + misses, noisy=True),
        assumptions=assumptions,
    )


def _assumptions(terms: Terms, groups: Groups, with_labels: bool) -> tuple[str, ...]:
    private = terms.count_epsilon is not None
    texts = [
        "The held-out rows are independent draws from the population that the claim is about, one "
        "row a person.",
        "They were used neither to train nor to select the model: figures from such rows would "
        "bound nothing.",
        ("Labels and groups are" if with_labels else "Groups are") + " as recorded.",
        "The numbers of rows of the cells are conditioned on.",
        "The model is deployed with the preprocessing, threshold and way of predicting that were "
        "certified.",
    ]
    dropped = int((groups.codes < 0).sum())
    if private:
        texts.append("Rows without a listed group are outside the claim; their number is private.")
    elif dropped:
        texts.append(f"Rows without a group are outside the claim: {dropped} were left out.")
    if private:
        assert terms.count_epsilon is not None
        texts.append(
            "Estimate and counts are the noisy ones; the bound allows for the noise "
            f"(ε = {terms.count_epsilon:g} for each held-out row)."
        )
        if terms.public_sizes:
            texts.append("The numbers of rows of the (group, label) cells are public.")
    else:
        texts.append("The held-out rows were declared public: nothing here protects them.")
    if terms.claims > 1:
        texts.append(
            f"The error probability is shared by {terms.claims} claims on these rows (planned "
            "certificates times notions), so all of them hold together with the stated confidence."
        )
    if terms.certificate_index is not None:
        texts.append(
            f"This is certificate number {terms.certificate_index} on these held-out rows"
            + (
                f" of {terms.n_certificates} that were planned."
                if terms.n_certificates > 1
                else "; the confidence is that of one certificate fixed beforehand, not of the "
                "best among several."
            )
        )
    return tuple(texts)
