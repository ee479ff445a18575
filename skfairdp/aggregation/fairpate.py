"""PATE with a parity gate: Confident and fair aggregation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from os import PathLike
from typing import Any

from numpy.random import RandomState
from numpy.typing import ArrayLike

from skfairdp.aggregation.pate import PATEClassifier
from skfairdp.aggregation.public_rows import PublicRows
from skfairdp.aggregation.query_rows import Queries, Run
from skfairdp.aggregation.vote_parameters import AGGREGATION_PARAMETERS
from skfairdp.assumptions import STUDENT
from skfairdp.fairness.bounds.gated_answers import answered_guarantee
from skfairdp.fairness.gate import ParityGate
from skfairdp.fairness.guarantee import FairnessGuarantee
from skfairdp.parameters import Choice, Number
from skfairdp.privacy.ledger import PrivacyLedger

__all__ = ["FairPATEClassifier"]


class FairPATEClassifier(PATEClassifier):
    """Student of teachers whose answers pass a parity gate (FairPATE).

    `PATEClassifier` with a gate behind the noisy votes: an answer that would make the
    rates of a class too uneven between the groups of the answered public rows is
    refused. The student learns from the answers that pass. Its own gap is not bounded by
    the gate: certify it with held-out rows.

    Parameters
    ----------
    teacher : classifier, skorch.NeuralNet or None, default=None
        Cloned for each shard. None is a small perceptron; perceptrons are trained all
        in one pass.
    student : classifier, skorch.NeuralNet or None, default=None
        Trained on answered public rows; a search chooses by them alone. None is a
        linear net, see `skfairdp.aggregation.default_student`.
    n_teachers : int, default=100
        Number of shards.
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
    epsilon : float or None, default=1.0
        Privacy budget in nats, at least 1e-4. The noise is calibrated to it for
        `n_answers`; or the number of answers, for given noise. Infinity votes without
        noise, for comparison. None takes noise and `n_answers` as they are.
    delta : float, default=1e-6
        Probability in (0, 1/n) that the privacy loss exceeds `epsilon`.
    threshold : float or None, default=None
        Votes that the largest count must reach in a noisy test before a query is
        answered (Confident-GNMax). None answers every query (GNMax).
    threshold_noise : float or None, default=None
        Standard deviation of the test's noise, in votes.
    vote_noise : float or None, default=None
        Standard deviation of the noise on every count, in votes.
    noise_ratio : float, default=40/15
        `threshold_noise` over `vote_noise` where they are calibrated.
    n_queries : int or None, default=None
        Public rows that are put to the teachers. None takes all.
    n_answers : int or None, default=None
        Stop after this many queries have passed the test; those that the gate refuses
        count, for a refusal shows what the answer was. None: what
        `epsilon` pays for at the given noise, or at noise of half the number of teachers
        (but at least 100); without `epsilon`, or without noise, all queries.
    shuffle : bool, default=True
        Ask in an order drawn with `random_state`, else in that of the public rows; what
        the gate lets pass depends on the order.
    classes : sequence or None, default=None
        Declared class labels. None takes them from `y`; they are then public.
    dataset_size : int or None, default=None
        Declared number of records that `delta` is compared with. None compares with the
        number of rows. Nothing else depends on it.
    n_jobs : int or None, default=None
        Workers that train teachers one by one, where they are not trained in one pass.
    random_state : int, RandomState or None, default=None
        Seeds initial weights, teachers, student and order; never noise or shards.
    reproducible_noise : bool, default=False
        Also seeds noise and shards, for tests; voids the privacy guarantee.
    progress : bool or None, default=None
        Show a progress bar; None shows it on a terminal.
    ledger : None, path or PrivacyLedger, default=None
        Where fits are charged before they use rows, see `skfairdp.PrivacyLedger`.

    Attributes
    ----------
    classes_ : ndarray, shape (n_classes,)
        Class labels.
    groups_ : tuple
        Groups of the public rows.
    gate_ : ParityGate
        The gate after the last query.
    student_ : Student
        What predicts.
    n_asked_, n_charged_, n_answered_ : int
        Queries that were asked, that passed the test, and that were answered.
    coverage_ : float
        Share of answered queries.
    coverage_by_group_ : dict
        Share of answered queries of each group.
    asked_by_group_ : ndarray, shape (n_groups,)
        Queries of each group.
    answers_by_group_ : ndarray, shape (n_groups, n_classes)
        Answers by group and class.
    threshold_noise_, vote_noise_ : float
        Noise used, in votes; the first is None without a threshold.
    plan_ : Plan
        Everything the accountant charged.
    privacy_ : PrivacyGuarantee or None
        What is guaranteed; None after ``epsilon=inf``.
    n_features_in_ : int
        Number of features.

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

    _parameters = {
        **AGGREGATION_PARAMETERS,
        "tolerance": (Number(0.0, 1.0),),
        "cold_start": (Number(0, integer=True),),
        "gate": (Choice(("all_cells", "queried_cell")),),
    }
    _released = (*PATEClassifier._released, "gate_")

    gate_: ParityGate

    def __init__(
        self,
        teacher: Any = None,
        student: Any = None,
        n_teachers: int = 100,
        *,
        tolerance: float = 0.05,
        cold_start: int = 20,
        gate: str = "all_cells",
        epsilon: float | None = 1.0,
        delta: float = 1e-6,
        threshold: float | None = None,
        threshold_noise: float | None = None,
        vote_noise: float | None = None,
        noise_ratio: float = 40 / 15,
        n_queries: int | None = None,
        n_answers: int | None = None,
        shuffle: bool = True,
        classes: Sequence[Any] | None = None,
        dataset_size: int | None = None,
        n_jobs: int | None = None,
        random_state: int | RandomState | None = None,
        reproducible_noise: bool = False,
        progress: bool | None = None,
        ledger: str | PathLike[str] | PrivacyLedger | None = None,
    ) -> None:
        super().__init__(
            teacher,
            student,
            n_teachers,
            epsilon=epsilon,
            delta=delta,
            threshold=threshold,
            threshold_noise=threshold_noise,
            vote_noise=vote_noise,
            noise_ratio=noise_ratio,
            n_queries=n_queries,
            n_answers=n_answers,
            shuffle=shuffle,
            classes=classes,
            dataset_size=dataset_size,
            n_jobs=n_jobs,
            random_state=random_state,
            reproducible_noise=reproducible_noise,
            progress=progress,
            ledger=ledger,
        )
        self.tolerance = tolerance
        self.cold_start = cold_start
        self.gate = gate

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
        sensitive_features: ArrayLike | None = None,
        X_public: ArrayLike | PublicRows | None = None,
        sensitive_features_public: ArrayLike | None = None,
    ) -> FairPATEClassifier:
        """Train teachers, let them answer behind the gate, train the student.

        Parameters
        ----------
        X : array-like, shape (n_samples, n_features)
            Private training rows; numbers, no missing values.
        y : array-like, shape (n_samples,)
            Labels.
        sensitive_features : array-like, optional
            Groups of the private rows; checked, and not used: the gate reads those of
            the public rows.
        X_public : array-like or PublicRows, shape (n_public, n_features)
            Rows of the same kind that need no protection. In a search give `PublicRows`.
        sensitive_features_public : array-like, shape (n_public,) or (n_public, k)
            Their groups; several columns form intersections.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            There are no public rows or they have no groups, `cold_start` is too short
            for `tolerance`, or something else is not what it should be. The estimator is
            left unfitted.
        """
        super().fit(
            X,
            y,
            sensitive_features=sensitive_features,
            X_public=X_public,
            sensitive_features_public=sensitive_features_public,
        )
        return self

    def _check_public(self, public: PublicRows) -> Queries:
        queries = super()._check_public(public)
        if queries.groups is None:
            raise ValueError(
                "FairPATEClassifier needs the groups of the public rows: give "
                "sensitive_features_public, or PublicRows(X_public, groups)."
            )
        return queries

    def _gate(self, run: Run) -> ParityGate:
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
