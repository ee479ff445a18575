"""Private aggregation of teacher ensembles."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Any, ClassVar, Self

from numpy.random import RandomState
from numpy.typing import ArrayLike

from skfairdp.aggregation.public_rows import PublicRows, public_rows
from skfairdp.aggregation.vote_classifier import AggregatedClassifier
from skfairdp.privacy.ledger import PrivacyLedger


class PATEClassifier(AggregatedClassifier):
    """Student of teachers that vote with noise (PATE).

    Private records are spread over shards, each record by a draw of its own, and a
    teacher is trained on each. For public rows the teachers vote; noisy answers train the
    student, which is all that remains. It protects records and promises nothing about
    groups.

    Notes
    -----
    The cost does not depend on how well the teachers agree: data-dependent figures are
    private themselves (`skfairdp.aggregation.data_dependent_rdp`). Neither noise nor
    numbers are computed from the private rows, so the guarantee is one for adding or
    removing a record.

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

    def __init__(
        self,
        teacher: Any = None,
        student: Any = None,
        n_teachers: int = 100,
        *,
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
        self.teacher = teacher
        self.student = student
        self.n_teachers = n_teachers
        self.epsilon = epsilon
        self.delta = delta
        self.threshold = threshold
        self.threshold_noise = threshold_noise
        self.vote_noise = vote_noise
        self.noise_ratio = noise_ratio
        self.n_queries = n_queries
        self.n_answers = n_answers
        self.shuffle = shuffle
        self.classes = classes
        self.dataset_size = dataset_size
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.reproducible_noise = reproducible_noise
        self.progress = progress
        self.ledger = ledger

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
        sensitive_features: ArrayLike | None = None,
        X_public: ArrayLike | PublicRows | None = None,
        sensitive_features_public: ArrayLike | None = None,
    ) -> Self:
        """Train teachers, let them answer, train the student.

        Parameters
        ----------
        sensitive_features : array-like, optional
            Groups of the private rows; checked, and not used in training.
        X_public : array-like or PublicRows, shape (n_public, n_features)
            Rows of the same kind that need no protection. In a search give `PublicRows`.
        sensitive_features_public : array-like, shape (n_public,) or (n_public, k), optional
            Their groups; several columns form intersections.
        """
        with self._all_or_nothing():
            public = public_rows(X_public, sensitive_features_public, type(self).__name__)
            rows = self._check_rows(X, y, sensitive_features)
            self._train_on(rows, self._check_public(public))
        return self
