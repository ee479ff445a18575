"""Private aggregation of teacher ensembles."""

from __future__ import annotations

from typing import ClassVar, Self

from numpy.typing import ArrayLike

from skfairdp.aggregation.query_rows import PublicRows, public_rows
from skfairdp.aggregation.vote_classifier import AggregatedClassifier


class PATEClassifier(AggregatedClassifier):
    """Student of teachers that vote with noise (PATE).

    Private records are spread over shards, each record by a draw of its own, and a
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
        with self._all_or_nothing(), self._about(person_ids):
            public = public_rows(X_public, sensitive_features_public, type(self).__name__)
            rows = self._check_rows(X, y, sensitive_features)
            self._train_on(rows, self._check_public(public))
        return self
