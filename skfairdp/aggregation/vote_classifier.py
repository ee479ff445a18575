"""Base class of classifiers that learn from noisy votes of teachers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.metaestimators import available_if

from skfairdp.aggregation.query_rows import (
    Lesson,
    PrivateRows,
    Queries,
    VotingRun,
    description,
    spent,
)
from skfairdp.aggregation.shards import assign_shards
from skfairdp.aggregation.voting import ConfidentGNMax, release_labels
from skfairdp.aggregation.voting_plan import check_settings, make_plan
from skfairdp.base import Planned, PrivateClassifier
from skfairdp.exceptions import UtilityWarning, warn_user
from skfairdp.fairness.gate import ParityGate
from skfairdp.foundation import assumptions
from skfairdp.foundation.parameters import BOOLEAN, COUNT, NONE, POSITIVE, Number, check_parameters
from skfairdp.privacy.accounting.plan_cost import guarantee
from skfairdp.privacy.guarantee import PrivacyGuarantee
from skfairdp.privacy.noise import NoiseSource, noise_text
from skfairdp.privacy.plan import Plan
from skfairdp.privacy.sizes import check_delta
from skfairdp.receipts import Charge, Quote, Receipt, RowFacts
from skfairdp.receipts.quoted import NOISELESS
from skfairdp.records import Given
from skfairdp.records.groups import Groups, groups_of_records, groups_of_training

if TYPE_CHECKING:
    from skfairdp.aggregation.student import Student


class AggregatedClassifier(Planned, PrivateClassifier):
    """Template: teachers on disjoint shards vote, noisy answers train a student.

    A mechanism says how many things can be voted for (`_n_options`), who learns what
    to vote (`_lesson`), what may refuse an answer (`_gate`) and how the student learns
    (`_learn`).

    Parameters
    ----------
    teacher : classifier, skorch.NeuralNet or None
        Cloned for each shard. None is a small perceptron; perceptrons are trained all
        in one pass.
    student : classifier, skorch.NeuralNet or None
        Trained on answered public rows; a search chooses by them alone. None is a
        linear net, see `skfairdp.aggregation.default_student`.
    n_teachers : int
        Number of shards. More teachers stand more noise, and know less each.
    epsilon : float or None
        Privacy budget in nats, at least 1e-4. The noise is calibrated to it for
        `n_answers`; or the number of answers, for given noise. Infinity votes without
        noise, for comparison. None takes noise and `n_answers` as they are.
    threshold : float or None
        Votes that the largest count must reach in a noisy test before a query is
        answered (Confident-GNMax). None answers every query (GNMax).
    threshold_noise : float or None
        Standard deviation of the test's noise, in votes.
    vote_noise : float or None
        Standard deviation of the noise on every count, in votes.
    noise_ratio : float
        `threshold_noise` over `vote_noise` where they are calibrated.
    n_queries : int or None
        Public rows that are put to the teachers, the largest number of tests that is
        paid for. None takes all.
    n_answers : int or None
        Stop after this many queries have passed the test; those that a gate refuses
        count, because a refusal reveals the answer. None: what
        `epsilon` pays for at the given noise, or at noise of half the number of teachers
        (but at least 100); without `epsilon`, or without noise, all queries.
    shuffle : bool
        Ask in an order drawn with `random_state`, else in that of the public rows; what a
        gate lets pass depends on the order.
    dataset_size : int or None
        Declared number of records that `delta` is compared with. None compares with the
        number of rows. Nothing else depends on it.
    n_jobs : int or None
        Workers that train teachers one by one, where they are not trained in one pass;
        ``joblib.parallel_config`` chooses where they are.
    random_state : int, RandomState or None
        Seeds initial weights, teachers, student and order; never noise or shards.

    Attributes
    ----------
    groups_ : tuple or None
        Groups named at fit, of the public rows if those have groups.
    student_ : Student
        What predicts.
    n_asked_, n_charged_, n_answered_ : int
        Queries that were asked, that passed the test, and that were answered.
    coverage_ : float
        Share of answered queries.
    public_groups_ : tuple or None
        Groups of the public rows; None where they were not given, as the following.
    coverage_by_group_ : dict or None
        Share of answered queries of each group.
    asked_by_group_ : ndarray or None, shape (n_groups,)
        Queries of each group.
    answers_by_group_ : ndarray or None, shape (n_groups, n_classes)
        Answers by group and class.
    threshold_noise_, vote_noise_ : float
        Noise used, in votes; the first is None without a threshold.
    plan_ : Plan
        Everything the accountant charged.
    """

    teacher: Any = field(default=None, kw_only=False)
    student: Any = field(default=None, kw_only=False)
    n_teachers: int = field(default=100, kw_only=False)
    epsilon: float | None = 1.0
    delta: float = 1e-6
    threshold: float | None = None
    threshold_noise: float | None = None
    vote_noise: float | None = None
    noise_ratio: float = 40 / 15
    n_queries: int | None = None
    n_answers: int | None = None
    shuffle: bool = True
    dataset_size: int | None = None
    n_jobs: int | None = None
    classes: Sequence[Any] | None = None
    progress: bool | None = None

    _parameters = {
        "n_teachers": (COUNT,),
        "threshold": (Number(0.0), NONE),
        "threshold_noise": (POSITIVE, NONE),
        "vote_noise": (POSITIVE, NONE),
        "noise_ratio": (POSITIVE,),
        "n_queries": (COUNT, NONE),
        "n_answers": (COUNT, NONE),
        "shuffle": (BOOLEAN,),
        "n_jobs": (Number(integer=True), NONE),
    }
    _nets = ("teacher", "student")
    _adjacency: ClassVar[str] = "add-remove"
    _protects: ClassVar[str] = "record"  # or all rows of a person
    _takes_persons = True
    _views: ClassVar[tuple[str, ...]] = ("groups_", "plan_", "privacy_")
    _learns_from_own: ClassVar[bool] = False  # where no public rows are given

    student_: Student = field(init=False)
    n_asked_: int = field(init=False)
    n_charged_: int = field(init=False)
    n_answered_: int = field(init=False)
    coverage_: float = field(init=False)
    public_groups_: tuple | None = field(init=False)
    coverage_by_group_: dict[Any, float] | None = field(init=False)
    asked_by_group_: np.ndarray | None = field(init=False)
    answers_by_group_: np.ndarray | None = field(init=False)
    threshold_noise_: float | None = field(init=False)
    vote_noise_: float = field(init=False)

    def _n_options(self, rows: PrivateRows) -> int:
        """How many answers there are to vote for."""
        return len(rows.classes)

    def _lesson(self, rows: PrivateRows, queries: Queries) -> Lesson:
        """Training data and queries of the teachers."""
        return self.teacher, rows.X, rows.labels, queries.X

    def _gate(self, run: VotingRun) -> ParityGate | None:
        """Gate that may refuse answers."""
        return None

    def _learn(self, run: VotingRun, answered: np.ndarray, answers: np.ndarray) -> Student:
        """Train the student on the answered queries, given by their positions."""
        from skfairdp.aggregation.student import train_student

        return train_student(
            self.student, run.queries.X[answered], answers, len(run.rows.classes), seed=run.seed
        )

    def _train_on(self, rows: PrivateRows, queries: Queries, charge: Charge) -> Receipt:
        """Carry out the fit once rows and queries are checked."""
        from skfairdp.aggregation.teachers.training import train_teachers, try_teacher

        persons, n_options = rows.persons, self._n_options(rows)
        seed, noise = self._randomness()
        n_public = len(queries.X)
        facts = RowFacts.of(
            len(rows.X),
            rows.groups,
            persons,
            unit=rows.unit,
            n_public=None if queries.own else n_public,
            public_groups=queries.groups is not None,
        )
        n = facts.n if self.dataset_size is None else int(self.dataset_size)
        quote = self._priced(facts, noise)
        plan, verdict = quote.plan, quote.verdict
        assert plan is not None
        # Of public rows and teachers. Teachers agree more than records, so that doubt is no news.
        if verdict is not None and verdict.level == "too small":
            warn_user(verdict.text, UtilityWarning)
        shuffled = np.random.default_rng([seed, 0]).permutation(n_public)
        order = shuffled if self.shuffle else np.arange(n_public)
        queries = queries.picked(order[: self.n_queries])
        run = VotingRun(rows, queries, seed, noise)
        gate = self._gate(run)
        teacher, X, targets, X_queries = self._lesson(rows, queries)
        known = self.dataset_size is not None or self._adjacency != "add-remove"
        try_teacher(teacher, X_queries, n if known else None, self.n_teachers, n_options)
        charge(quote.charge)  # before a teacher sees a row
        shards = assign_shards(facts.n, self.n_teachers, noise.sampling)
        votes = train_teachers(
            teacher,
            X,
            targets,
            shards if persons is None else shards[persons.codes],
            self.n_teachers,
            n_options,
            seed=seed,
            n_jobs=self.n_jobs,
            progress=self.progress,
        ).votes(X_queries)  # the teachers end here
        transcript = release_labels(
            votes,
            ConfidentGNMax.planned(self.threshold, plan, noise),
            max_answers=plan.segments[-1].steps,
            gate=gate,
            groups=None if queries.groups is None else queries.groups.codes,
        )
        answered = np.flatnonzero(transcript.answered)
        self.student_ = self._learn(run, answered, transcript.outcomes[answered])
        for name, value in description(transcript, queries.groups, n_options).items():
            setattr(self, name, value)
        self.classes_ = rows.classes
        stds = [segment.blocks[0].noise_std for segment in plan.segments]
        self.threshold_noise_ = None if self.threshold is None else stds[0]
        self.vote_noise_ = stds[-1]
        named = queries.groups or rows.groups
        stated = self._guarantee(plan, facts, noise, spent(self, plan))
        return Receipt(replace(quote, privacy=stated), None if named is None else named.labels)

    def _priced(self, facts: RowFacts, noise: NoiseSource) -> Quote:
        n = facts.n if self.dataset_size is None else int(self.dataset_size)
        check_delta(self.delta, n, public=self.dataset_size is not None)
        n_public = facts.n if facts.n_public is None else facts.n_public
        _, plan = make_plan(self, n_public, adjacency=self._adjacency)
        stated = self._guarantee(plan, facts, noise)
        return Quote(
            type(self).__name__,
            facts,
            stated,
            plan,
            charge=stated or NOISELESS,
            crowd=float(self.n_teachers),
            note=f"A teacher learns from {facts.n / self.n_teachers:,.1f} records on average.",
        )

    def _facts_of_fit(self, facts: RowFacts) -> RowFacts:
        facts = super()._facts_of_fit(facts)
        if facts.n_public is None and not self._learns_from_own:
            raise ValueError(
                f"'n_public' is needed: {type(self).__name__} asks its teachers about public rows."
            )
        return facts

    def _check_settings(self) -> None:
        super()._check_settings()
        check_settings(self)

    def _check_rows(self, given: Given) -> PrivateRows:
        check_parameters(self, self._parameters)
        self._check_settings()
        X, classes, labels = self._rows_of_fit(given.X, given.y, self.classes)
        groups, persons = None, given.persons(len(X))
        if given.sensitive_features is not None:
            groups = self._encode_groups(given.sensitive_features, len(X))
        groups_of_records(groups, persons)  # refuses a person in two
        return PrivateRows(X, labels, classes, groups, persons, given.unit)

    def _encode_groups(self, sensitive_features: Any, n: int) -> Groups:
        return groups_of_training(sensitive_features, n, getattr(self, "groups", None))

    def _guarantee(
        self,
        plan: Plan,
        facts: RowFacts,
        noise: NoiseSource,
        came_of_it: tuple[str, ...] = (),
    ) -> PrivacyGuarantee | None:
        if plan.noiseless:
            return None
        persons = facts.unit == "person"
        protects = "person" if persons else self._protects
        if noise.reproducible:
            seed, relation = assumptions.seed_known(), self._adjacency
            return PrivacyGuarantee.void(seed, adjacency=relation, protects=protects)
        return guarantee(
            plan,
            protects=protects,
            budget=self.epsilon,
            assumptions=(
                *came_of_it,
                *self._public_things(facts),
                noise_text(noise),
                assumptions.through_noise("votes", persons=persons),
                assumptions.starts(),
                assumptions.TEACHERS,
            ),
        )

    def _public_things(self, facts: RowFacts) -> tuple[str, ...]:
        named = False if not facts.public_groups and facts.groups is not None else None
        sets = assumptions.closed_sets(labels=self.classes is not None, groups=named)
        return (*sets, assumptions.QUERIES_PUBLIC)

    def predict(self, X: ArrayLike) -> np.ndarray:
        X = self._features(X)
        return self.classes_[self.student_.codes(X)]

    @available_if(lambda self: not hasattr(self, "student_") or self.student_.has_probabilities)
    def predict_proba(self, X: ArrayLike) -> np.ndarray:
        X = self._features(X)
        return self.student_.probabilities(X)

    def _default_of(self, name: str) -> Any:
        from skfairdp.aggregation.student import default_student
        from skfairdp.aggregation.teachers.training import default_teacher

        return default_teacher() if name == "teacher" else default_student()
