"""The deployed-model half of a certificate: held-out rows to bounds."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import _num_samples

from skfairdp.certificate.unwrap import Deployed
from skfairdp.fairness.groups import Groups, encode_groups
from skfairdp.fairness.guarantee import CellCount, FairnessGuarantee
from skfairdp.fairness.intervals import gap_estimate, gap_upper_bound, score_gap_upper_bound
from skfairdp.fairness.noisy_counts import NoisyCells, noisy_gap_estimate, private_gap_upper_bound
from skfairdp.fairness.notions import Notion, Stratum
from skfairdp.privacy.noise import NoiseSource

__all__ = ["Evaluation", "Terms", "evaluate"]


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
    groups = _groups(sensitive_features, n_rows, deployed, terms)
    if len(groups.labels) < 2:
        return Evaluation(
            (), None if private else n_rows, ("Only one group is known: no gap can be claimed.",)
        )
    classes, table = _table(deployed, X, y, groups, private, source)
    with_labels = y is not None
    strata = [notion.strata(classes, with_labels=with_labels) for notion in terms.notions]
    assumptions = _assumptions(deployed, terms, groups, with_labels)
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
    return Evaluation(tuple(claims), int(round(table.sum())))


def _groups(values: ArrayLike, n_rows: int, deployed: Deployed, terms: Terms) -> Groups:
    labels = terms.groups if terms.groups is not None else getattr(deployed.final, "groups_", None)
    private = terms.count_epsilon is not None
    if private and labels is None:
        raise ValueError(
            "count_epsilon protects the held-out rows, but the model was fitted without groups "
            "and the groups that occur among these rows are private; declare them as groups=[...]."
        )
    # An error about one private row would reveal it: such rows are left out in silence.
    on_unknown = "drop" if private else "raise"
    return encode_groups(
        values, n_rows=n_rows, labels=labels, on_missing="drop", on_unknown=on_unknown
    )


def _table(
    deployed: Deployed,
    X: Any,
    y: ArrayLike | None,
    groups: Groups,
    private: bool,
    source: NoiseSource,
) -> tuple[list, NDArray]:
    """Class labels and the (group x label x prediction) table.

    A randomised predictor's rows count by the probabilities of its predictions; where the
    table must be one of counts, each row's prediction is drawn once.
    """
    scores = _scores(deployed, X)
    classes = _classes(deployed, X, y, private)
    if scores is not None and private:
        scores = (source.sampling.random(scores.shape) < scores).astype(np.float64)
    n_rows = groups.codes.size
    labels = np.zeros(n_rows, dtype=np.int64)
    if y is not None:
        labels = _codes(y, classes, n_rows, "y", private)
    kept = (groups.codes >= 0) & (labels >= 0)
    shape = (len(groups.labels), 1 if y is None else len(classes), len(classes))
    cell = groups.codes[kept] * shape[1] + labels[kept]
    n_cells = shape[0] * shape[1]
    if scores is None:
        predictions = _codes(deployed.model.predict(X), classes, n_rows, "predict(X)", private)
        flat = cell * shape[2] + np.maximum(predictions[kept], 0)
        flat = flat[predictions[kept] >= 0]
        return classes, np.bincount(flat, minlength=n_cells * shape[2]).reshape(shape)
    rows = np.bincount(cell, minlength=n_cells)
    positive = np.bincount(cell, weights=scores[kept], minlength=n_cells)
    table = np.stack([rows - positive, positive], axis=-1).reshape(shape)
    return classes, np.rint(table).astype(np.int64) if private else table


def _scores(deployed: Deployed, X: Any) -> NDArray[np.float64] | None:
    """Probabilities of the second class for a predictor that decides at random."""
    hook = getattr(deployed.final, "_success_scores", None)
    scores = None if hook is None else hook(deployed.transform(X))
    return None if scores is None else np.clip(np.asarray(scores, dtype=np.float64), 0.0, 1.0)


def _classes(deployed: Deployed, X: Any, y: ArrayLike | None, private: bool) -> list:
    known = getattr(deployed.final, "classes_", None)
    if known is not None:
        return np.asarray(known).tolist()
    if private:
        raise ValueError(
            "count_epsilon protects the held-out rows, but the model has no classes_, and the "
            "labels that occur among these rows are private; certify a classifier with classes_."
        )
    found = set(np.asarray(deployed.model.predict(X)).tolist())
    if y is not None:
        found |= set(np.asarray(y).ravel().tolist())
    return sorted(found)


def _codes(values: ArrayLike, classes: list, n_rows: int, name: str, private: bool) -> NDArray:
    """Position of each value among the classes; -1 for others, which only private rows may be."""
    column = values if isinstance(values, pd.Series) else np.asarray(values)
    flat = pd.Series(np.asarray(column, dtype=object).reshape(-1), dtype=object)
    if len(flat) != n_rows:
        raise ValueError(f"{name} has {len(flat)} entries, but X has {n_rows} rows.")
    codes = pd.Index(pd.array(classes, dtype=object), dtype=object).get_indexer(flat)
    if not private and bool(np.any(codes < 0)):
        raise ValueError(
            f"{name} has a missing value or a label that is not among the model's classes, "
            f"{classes}; use these labels, or drop the rows with others."
        )
    return codes.astype(np.int64)


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


def _assumptions(
    deployed: Deployed, terms: Terms, groups: Groups, with_labels: bool
) -> tuple[str, ...]:
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
