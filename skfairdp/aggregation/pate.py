"""Private aggregation of teacher ensembles, plain and with a parity gate."""

from __future__ import annotations

from dataclasses import field, replace
from typing import ClassVar, Self

from numpy.typing import ArrayLike

from skfairdp.aggregation.query_rows import PublicRows, VotingRun, public_rows, queries_of
from skfairdp.aggregation.vote_classifier import AggregatedClassifier
from skfairdp.fairness.bounds.gated_answers import answered_guarantee
from skfairdp.fairness.gate import ParityGate
from skfairdp.fairness.guarantee import FairnessGuarantee
from skfairdp.foundation.assumptions import STUDENT
from skfairdp.foundation.parameters import Choice, Number
from skfairdp.receipts import Charge, Receipt, RowFacts
from skfairdp.records import Given


class PATEClassifier(AggregatedClassifier):
    """Student of teachers that vote with noise (PATE).

    Private records are spread over shards, each record by its own draw, and a
    teacher is trained on each. For public rows the teachers vote; noisy answers train the
    student, which is all that remains. It protects records and promises nothing about
    groups.

    Notes
    -----
    The cost does not depend on how well the teachers agree: data-dependent figures are
    private themselves. Neither noise nor numbers are computed from the private rows, so the
    guarantee is one for adding or removing a record.

    References
    ----------
    Papernot et al., "Semi-supervised Knowledge Transfer for Deep Learning from Private
    Training Data", ICLR 2017; "Scalable Private Learning with PATE", ICLR 2018.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from skfairdp import PATEClassifier
    >>> X, y = make_classification(5000, random_state=0)
    >>> model = PATEClassifier(n_teachers=250, epsilon=2.0, n_answers=200, progress=False)
    >>> model.fit(X[:4000], y[:4000], X_public=X[4000:]).predict_proba(X).shape
    (5000, 2)
    >>> model.n_answered_, bool(model.privacy_.epsilon <= 2.0), model.privacy_.adjacency
    (200, True, 'add-remove')
    """

    __metadata_request__fit: ClassVar[dict[str, bool]] = {
        "X_public": True,
        "sensitive_features_public": True,
    }

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        *,
        sensitive_features: ArrayLike | None = None,
        person_ids: ArrayLike | None = None,
        X_public: ArrayLike | PublicRows | None = None,
        sensitive_features_public: ArrayLike | None = None,
    ) -> Self:
        """Train teachers, let them answer, train the student.

        Parameters
        ----------
        sensitive_features : array-like, optional
            Groups of the private rows; checked, and not used in training.
        person_ids : array-like, shape (n_samples,), optional
            Whose row it is, where a person may have several: all of them go to one teacher.
        X_public : array-like or PublicRows, shape (n_public, n_features)
            Rows of the same kind that need no protection. In a search give `PublicRows`.
        sensitive_features_public : array-like, shape (n_public,) or (n_public, k), optional
            Their groups; several columns form intersections.
        """

        def train(given: Given, charge: Charge) -> Receipt:
            public = public_rows(X_public, sensitive_features_public, type(self).__name__)
            rows = self._check_rows(given)
            return self._train_on(rows, queries_of(self, public), charge)

        given = Given(X, y, sensitive_features, person_ids)
        return self._fit_under(given, Charge(self), train)


class FairPATEClassifier(PATEClassifier):
    """Student of teachers whose answers pass a parity gate (FairPATE).

    `PATEClassifier` with a gate behind the noisy votes: an answer that would make the
    rates of a class too uneven between the groups of the answered public rows is
    refused. The student learns from the answers that pass. Its own gap is not bounded by
    the gate: certify it with held-out rows.

    Parameters
    ----------
    tolerance : float, default=0.05
        γ in [0, 1]: largest allowed difference between the share of a class among the
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

    gate_: ParityGate = field(init=False)

    def _facts_of_fit(self, facts: RowFacts) -> RowFacts:
        # It has no fit without the groups of its public rows.
        return replace(super()._facts_of_fit(facts), public_groups=True)

    def _gate(self, run: VotingRun) -> ParityGate:
        if run.queries.groups is None:
            raise ValueError(
                "FairPATEClassifier needs the groups of the public rows: give "
                "sensitive_features_public, or PublicRows(X_public, groups)."
            )
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
