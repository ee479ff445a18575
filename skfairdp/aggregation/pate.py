"""Private aggregation of teacher ensembles."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Any, ClassVar

from numpy.random import RandomState
from numpy.typing import ArrayLike

from skfairdp.aggregation.public_rows import PublicRows, public_rows
from skfairdp.aggregation.vote_classifier import AggregatedClassifier
from skfairdp.privacy.ledger import PrivacyLedger

__all__ = ["PATEClassifier"]


class PATEClassifier(AggregatedClassifier):
    """Student of teachers that vote with noise (PATE).

    Private records are spread over shards, each record by a draw of its own, and a
    teacher is trained on each. For public rows the teachers vote; noisy answers train the
    student, which is all that remains. It protects records and promises nothing about
    groups.

    Parameters
    ----------
    teacher : classifier, skorch.NeuralNet or None, default=None
        Cloned for each shard. None is a small perceptron; perceptrons are trained all
        in one pass.
    student : classifier, skorch.NeuralNet or None, default=None
        Trained on answered public rows; a search chooses by them alone. None is a
        linear net, see `skfairdp.aggregation.default_student`.
    n_teachers : int, default=100
        Number of shards. More teachers stand more noise, and know less each.
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
        Public rows that are put to the teachers, the largest number of tests that is
        paid for. None takes all.
    n_answers : int or None, default=None
        Stop after this many queries have passed the test. None: what
        `epsilon` pays for at the given noise, or at noise of half the number of teachers
        (but at least 100); without `epsilon`, or without noise, all queries.
    shuffle : bool, default=True
        Ask in an order drawn with `random_state`, else in that of the public rows.
    classes : sequence or None, default=None
        Declared class labels. None takes them from `y`; they are then public.
    dataset_size : int or None, default=None
        Declared number of records that `delta` is compared with. None compares with the
        number of rows. Nothing else depends on it.
    n_jobs : int or None, default=None
        Workers that train teachers one by one, where they are not trained in one pass;
        ``joblib.parallel_config`` chooses where they are.
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
    privacy_ : PrivacyGuarantee or None
        What is guaranteed; None after ``epsilon=inf``.
    n_features_in_ : int
        Number of features.

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
    ) -> PATEClassifier:
        """Train teachers, let them answer, train the student.

        Parameters
        ----------
        X : array-like, shape (n_samples, n_features)
            Private training rows; numbers, no missing values.
        y : array-like, shape (n_samples,)
            Labels.
        sensitive_features : array-like, optional
            Groups of the private rows; checked, and not used in training.
        X_public : array-like or PublicRows, shape (n_public, n_features)
            Rows of the same kind that need no protection. In a search give `PublicRows`.
        sensitive_features_public : array-like, shape (n_public,) or (n_public, k), optional
            Their groups; several columns form intersections.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            There are no public rows, or something is not what it should be. The
            estimator is left unfitted.
        """
        with self._all_or_nothing():
            public = public_rows(X_public, sensitive_features_public, type(self).__name__)
            self._fit_with(X, y, sensitive_features, public)
        return self

    def _fit_with(self, X: Any, y: Any, sensitive_features: Any, public: PublicRows) -> None:
        rows = self._check_rows(X, y, sensitive_features)
        self._train_on(rows, self._check_public(public))
