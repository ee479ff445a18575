"""PATE with a parity gate: Confident and fair aggregation."""

from __future__ import annotations

from dataclasses import field, replace

from skfairdp.aggregation.pate import PATEClassifier
from skfairdp.aggregation.query_rows import PublicRows, Queries, VotingRun
from skfairdp.assumptions import STUDENT
from skfairdp.fairness.bounds.gated_answers import answered_guarantee
from skfairdp.fairness.gate import ParityGate
from skfairdp.fairness.guarantee import FairnessGuarantee
from skfairdp.parameters import Choice, Number


class FairPATEClassifier(PATEClassifier):
    """Student of teachers whose answers pass a parity gate (FairPATE).

    `PATEClassifier` with a gate behind the noisy votes: an answer that would make the
    rates of a class too uneven between the groups of the answered public rows is
    refused. The student learns from the answers that pass. Its own gap is not bounded by
    the gate: certify it with held-out rows.

    Parameters
    ----------
    tolerance : float, default=0.05
        γ in [0, 1]: wanted largest difference between the share of a class among the
        answers of a group and its share among those of all other groups.
    cold_start : int, default=20
        M: answers of a group before the gate begins. "all_cells" needs at least
        ⌈1/tolerance⌉.
    gate : {"all_cells", "queried_cell"}, default="all_cells"
        "all_cells": after a joint cold start an answer passes iff afterwards every
        (group, class) cell is within `tolerance`, or the total excess over it strictly
        falls. "queried_cell", as published: only the cell of the query must stay below
        `tolerance`, after a cold start of its own group; with three groups or more the
        other cells can drift.

    Attributes
    ----------
    gate_ : ParityGate
        The gate after the last query.

    Notes
    -----
    The gate sees public groups and noisy answers alone, so it costs nothing by itself,
    and saves nothing where it refuses.

    References
    ----------
    Yaghini, Liu, Boenisch and Papernot, "Learning to Walk Impartially on the Pareto
    Frontier of Fairness, Privacy, and Utility", 2023 (arXiv 2302.09183), Algorithm 2.

    Examples
    --------
    >>> import numpy as np
    >>> from skfairdp import FairPATEClassifier
    >>> from skfairdp.datasets import make_biased_gaussians
    >>> data = make_biased_gaussians(n_samples=6000, random_state=0)
    >>> X, y, groups = data.data, data.target, data.sensitive_features
    >>> model = FairPATEClassifier(n_teachers=200, epsilon=3.0, n_answers=400, progress=False)
    >>> _ = model.fit(
    ...     X[:4000], y[:4000], X_public=X[4000:], sensitive_features_public=groups[4000:]
    ... )
    >>> bool(model.gate_.worst <= 0.05), model.n_charged_, model.n_answered_ < 400
    (True, 400, True)
    """

    tolerance: float = 0.05
    cold_start: int = 20
    gate: str = "all_cells"

    _parameters = {
        "tolerance": (Number(0.0, 1.0),),
        "cold_start": (Number(0, integer=True),),
        "gate": (Choice(("all_cells", "queried_cell")),),
    }
    _released = (*PATEClassifier._released, "gate_")

    gate_: ParityGate = field(init=False)

    def _check_public(self, public: PublicRows) -> Queries:
        queries = super()._check_public(public)
        if queries.groups is None:
            raise ValueError(
                "FairPATEClassifier needs the groups of the public rows: give "
                "sensitive_features_public, or PublicRows(X_public, groups)."
            )
        return queries

    def _gate(self, run: VotingRun) -> ParityGate:
        assert run.queries.groups is not None  # checked with the public rows
        self.gate_ = ParityGate(
            len(run.queries.groups.labels),
            len(run.rows.classes),
            tolerance=self.tolerance,
            cold_start=self.cold_start,
            rule=self.gate,  # type: ignore[arg-type]  # checked by the table
        )
        return self.gate_

    def _mechanism_fairness(self, notion: str) -> list[FairnessGuarantee]:
        if notion != "demographic_parity":
            return []
        assert self.public_groups_ is not None
        assert self.asked_by_group_ is not None
        claim = answered_guarantee(
            self.gate_,
            groups=self.public_groups_,
            classes=self.classes_.tolist(),
            asked=self.asked_by_group_,
        )
        return [replace(claim, assumptions=(STUDENT, *claim.assumptions))]
