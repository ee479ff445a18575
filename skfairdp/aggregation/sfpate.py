"""PATE that protects the sensitive attribute alone, for fair learners that need it."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.cluster import contingency_matrix
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted, column_or_1d

from skfairdp.aggregation.query_rows import (
    Lesson,
    PrivateRows,
    PublicRows,
    Queries,
    VotingRun,
    queries_of,
)
from skfairdp.aggregation.vote_classifier import AggregatedClassifier
from skfairdp.base.predictors import expecting
from skfairdp.foundation.assumptions import ATTRIBUTE_VOTES, closed_sets
from skfairdp.foundation.documentation import complete_docstrings
from skfairdp.foundation.parameters import Choice
from skfairdp.receipts import Charge, Receipt, RowFacts
from skfairdp.records import Given
from skfairdp.records.labels import positions

if TYPE_CHECKING:
    from skfairdp.aggregation.student import Student


class ReweighedClassifier(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    """Fit a classifier on rows weighted so that label and group are independent.

    A row of group a and label y gets the weight P(a) P(y) / P(a, y). Not private by
    itself: it is a teacher or a student of `SFPATEClassifier`.

    Parameters
    ----------
    estimator : classifier or None, default=None
        Its `fit` takes ``sample_weight``. None is a logistic regression.

    References
    ----------
    Kamiran and Calders, "Data preprocessing techniques for classification without
    discrimination", Knowledge and Information Systems, 2012.

    Examples
    --------
    >>> import numpy as np
    >>> from skfairdp.aggregation import ReweighedClassifier
    >>> X, y, a = np.array([[0.0], [1.0], [2.0], [3.0]]), [0, 0, 1, 1], [0, 1, 0, 1]
    >>> ReweighedClassifier().fit(X, y, sensitive_features=a).predict(X).tolist()
    [0, 0, 1, 1]
    """

    def __init__(self, estimator: Any = None) -> None:
        self.estimator = estimator

    def fit(
        self, X: ArrayLike, y: ArrayLike, *, sensitive_features: ArrayLike
    ) -> ReweighedClassifier:
        """Weight the rows and fit.

        Parameters
        ----------
        X : array-like, shape (n_samples, n_features)
            Rows.
        y : array-like, shape (n_samples,)
            Labels.
        sensitive_features : array-like, shape (n_samples,)
            Groups.

        Returns
        -------
        self
        """
        if y is None:
            raise ValueError(
                "ReweighedClassifier requires y to be passed, but the target y is None."
            )
        y = column_or_1d(y, warn=True)
        labels = np.unique(y, return_inverse=True)[1]
        groups = np.unique(np.asarray(sensitive_features), return_inverse=True)[1]
        table = contingency_matrix(groups, labels)
        expected = table.sum(axis=1, keepdims=True) * table.sum(axis=0) / table.sum()
        weights = expected[groups, labels] / table[groups, labels]
        self.estimator_ = clone(self._base).fit(X, y, sample_weight=weights)
        self.classes_ = self.estimator_.classes_
        return self

    def predict(self, X: ArrayLike) -> np.ndarray:
        check_is_fitted(self)
        return self.estimator_.predict(X)

    def predict_proba(self, X: ArrayLike) -> np.ndarray:
        check_is_fitted(self)
        return self.estimator_.predict_proba(X)

    @property
    def n_features_in_(self) -> int:
        """Number of columns at fit."""
        return int(self.estimator_.n_features_in_)

    @property
    def _base(self) -> Any:
        return LogisticRegression(max_iter=1000) if self.estimator is None else self.estimator

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = get_tags(self._base).input_tags.sparse
        return expecting(tags)


complete_docstrings(ReweighedClassifier)


class GroupTeacher(ClassifierMixin, BaseEstimator):
    """Teacher that takes the groups of its rows from their last column."""

    def __init__(self, estimator: Any, random_state: int | None = None) -> None:
        self.estimator = estimator
        self.random_state = random_state

    def fit(self, X: np.ndarray, y: np.ndarray) -> GroupTeacher:
        groups = X[:, -1].astype(np.int64)
        self.estimator_ = clone(self.estimator)
        self.estimator_.fit(X[:, :-1], y, sensitive_features=groups)
        self.classes_ = np.unique(y)
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        drawn = "random_state" in inspect.signature(self.estimator_.predict).parameters
        settings = {"random_state": self.random_state} if drawn else {}
        return self.estimator_.predict(X[:, :-1], **settings)


class SFPATEClassifier(AggregatedClassifier):
    """Fair learner that sees sensitive attributes through noisy votes only (SF-PATE).

    Protects who has which sensitive attribute, and nothing else: features and labels of
    all rows have no protection, and a feature that predicts the attribute reveals it.

    ``variant="fair_student"`` (SF_S): teachers predict the *group* of a row, and a fair
    learner is trained on the student's rows with their labels and the noisy groups.
    ``variant="fair_teachers"`` (SF_T): each teacher is a fair learner on its shard and
    predicts the label; the student learns from the noisy answers.

    Parameters
    ----------
    teacher : classifier, skorch.NeuralNet or None, default=None
        Cloned for each shard. "fair_student": None is a small perceptron.
        "fair_teachers": its `fit` must take ``sensitive_features``; None is
        `ReweighedClassifier`.
    student : classifier, skorch.NeuralNet or None, default=None
        "fair_student": its `fit` must take ``sensitive_features``; None is
        `ReweighedClassifier`, and reductions of fairlearn will do. "fair_teachers": any
        classifier; None is a linear net.
    variant : {"fair_student", "fair_teachers"}, default="fair_student"
        Who is fair.
    classes : sequence or None, default=None
        Class labels. None takes them from `y`, which is not protected.

    Notes
    -----
    When one person's attribute changes, one teacher changes: a query costs as much as it does
    for a record. Noise in the groups of "fair_student" hides part of a gap from the
    learner, which therefore removes less of it than it believes; and nothing bounds what
    "fair_teachers" hand on of their fairness. Certify the model with held-out rows.

    References
    ----------
    Tran, Zhu, Fioretto and Van Hentenryck, "SF-PATE: Scalable, Fair, and Private
    Aggregation of Teacher Ensembles", IJCAI 2023 (arXiv 2204.05157).

    Examples
    --------
    >>> from skfairdp import SFPATEClassifier
    >>> from skfairdp.datasets import make_biased_gaussians
    >>> data = make_biased_gaussians(n_samples=3000, random_state=0)
    >>> model = SFPATEClassifier(epsilon=2.0, n_answers=300, progress=False)
    >>> _ = model.fit(data.data, data.target, sensitive_features=data.sensitive_features)
    >>> model.privacy_.protects, model.privacy_.adjacency
    ('sensitive_features', 'change-attribute')
    """

    variant: str = "fair_student"
    groups: Sequence[Any] | None = None

    _parameters = {"variant": (Choice(("fair_student", "fair_teachers")),)}
    _adjacency = "change-attribute"
    _protects = "sensitive_features"
    _takes_persons = False
    _learns_from_own = True
    _needs_groups = "it protects the group"
    __metadata_request__fit: ClassVar[dict[str, bool]] = {"X_public": True, "y_public": True}

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        *,
        sensitive_features: ArrayLike | None = None,
        person_ids: ArrayLike | None = None,
        X_public: ArrayLike | PublicRows | None = None,
        y_public: ArrayLike | None = None,
    ) -> Self:
        """Train teachers, let them answer, train the student.

        Parameters
        ----------
        X : array-like, shape (n_samples, n_features)
            Rows whose attribute is protected; numbers, no missing values.
        y : array-like, shape (n_samples,)
            Labels, not protected.
        sensitive_features : array-like, shape (n_samples,) or (n_samples, k)
            The protected attribute; several columns form intersections.
        person_ids : None
            Refused: the promise is about the attribute of one row.
        X_public : array-like or PublicRows, shape (n_public, n_features), optional
            Rows that the student learns from. None takes `X` and `y`, which this
            guarantee takes as public anyway.
        y_public : array-like, shape (n_public,), optional
            Their labels, for ``variant="fair_student"``.

        Raises
        ------
        ValueError
            There are no sensitive features or one group only, public rows have no
            labels, or something else is invalid. The estimator is left
            unfitted.
        TypeError
            The learner that has to be fair takes no groups.
        """
        from skfairdp.aggregation.student import takes_groups

        def train(given: Given, charge: Charge) -> Receipt:
            learner = getattr(self, self._fair)
            if learner is not None and not (hasattr(learner, "fit") and takes_groups(learner)):
                raise TypeError(
                    f"variant={self.variant!r} needs a {self._fair!r} whose fit takes "
                    "sensitive_features, e.g. ReweighedClassifier or a reduction of fairlearn; got "
                    f"{learner!r}."
                )
            rows = self._check_rows(given)
            assert rows.groups is not None
            if len(rows.groups.labels) < 2:
                raise ValueError(
                    "SFPATEClassifier needs at least two groups in sensitive_features."
                )
            return self._train_on(rows, self._queries(X_public, y_public, rows), charge)

        given = Given(X, y, sensitive_features, person_ids)
        return self._fit_under(given, Charge(self), train)

    def _queries(self, public: Any, labels: Any, rows: PrivateRows) -> Queries:
        if public is None:
            if labels is not None:
                raise ValueError("y_public was given without X_public; give both or none.")
            return Queries(rows.X, None, rows.labels, own=True)
        public = public if isinstance(public, PublicRows) else PublicRows(public)
        queries = queries_of(self, public)
        if self.variant == "fair_teachers":
            return Queries(queries.X, None)
        if labels is None:
            raise ValueError(
                "variant='fair_student' learns from labels: give y_public with X_public, or leave "
                "both out to learn from X and y."
            )
        labels = column_or_1d(labels)
        found = positions(labels, rows.classes.tolist())
        if len(labels) != len(queries.X):
            raise ValueError(
                f"y_public has {len(labels)} entries, and X_public has {len(queries.X)} rows: give "
                "one label for each row."
            )
        if (found < 0).any():
            raise ValueError(
                f"y_public has labels other than {rows.classes.tolist()!r}; drop these rows."
            )
        return Queries(queries.X, None, found)

    @property
    def _fair(self) -> str:
        return "student" if self.variant == "fair_student" else "teacher"

    def _n_options(self, rows: PrivateRows) -> int:
        assert rows.groups is not None
        return len(rows.groups.labels if self.variant == "fair_student" else rows.classes)

    def _lesson(self, rows: PrivateRows, queries: Queries) -> Lesson:
        assert rows.groups is not None
        if self.variant == "fair_student":
            return self.teacher, rows.X, rows.groups.codes, queries.X
        teacher = ReweighedClassifier() if self.teacher is None else self.teacher
        X = np.column_stack([rows.X, rows.groups.codes])
        targets = np.where(rows.groups.codes < 0, -1, rows.labels)
        # No answer depends on these groups; a trial of the teacher wants some of each.
        made_up = np.arange(len(queries.X)) // len(rows.classes) % len(rows.groups.labels)
        return GroupTeacher(teacher), X, targets, np.column_stack([queries.X, made_up])

    def _learn(self, run: VotingRun, answered: np.ndarray, answers: np.ndarray) -> Student:
        from skfairdp.aggregation.student import train_student

        if self.variant == "fair_teachers":
            return super()._learn(run, answered, answers)
        assert run.queries.labels is not None
        X, labels = run.queries.X[answered], run.queries.labels[answered]
        usable = labels >= 0
        student = ReweighedClassifier() if self.student is None else self.student
        return train_student(
            student,
            X[usable],
            labels[usable],
            len(run.rows.classes),
            seed=run.seed,
            sensitive_features=answers[usable],
        )

    def _public_things(self, facts: RowFacts) -> tuple[str, ...]:
        learned = (
            "the student learns from the same rows, and their attributes reach it through the "
            "noisy votes alone"
            if facts.n_public is None
            else "the student learns from public rows, whose attributes are not used"
        )
        sets = closed_sets(groups=self.groups is not None)
        return (*sets, ATTRIBUTE_VOTES.format(learned=learned))

    def _default_of(self, name: str) -> Any:
        return ReweighedClassifier() if name == self._fair else super()._default_of(name)
