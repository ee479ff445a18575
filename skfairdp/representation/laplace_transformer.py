"""Laplace noise on any representation."""

from __future__ import annotations

import math
from dataclasses import field
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from skfairdp.base.predictors import FRESH_RELEASES, NOISE_BY_PLACE, expecting
from skfairdp.foundation.parameters import Number, check_parameters
from skfairdp.foundation.scikit_learn import OneToOneFeatureMixin
from skfairdp.privacy.noise import NoiseSource
from skfairdp.receipts import Charge, Quote, Receipt, RowFacts
from skfairdp.records import Given
from skfairdp.records.rows import validated
from skfairdp.representation.randomizers import LaplaceRandomizer
from skfairdp.representation.releasing import NOTIONS_OF_RELEASES, ReleasesRepresentation

if TYPE_CHECKING:
    from skfairdp.certificate import Certificate


class LaplaceTransformer(OneToOneFeatureMixin, ReleasesRepresentation):
    """Clip every column to ``[-bound, bound]`` and release rows under Laplace noise.

    Put it behind an encoder that was made by others, or straight behind the columns. Each
    row is randomised by itself, so it may happen on the device of the person whose row it
    is. Whatever is computed from the released rows afterwards is private for their people,
    and a predictor that sees one of them alone cannot treat groups more differently than
    the certificate says.

    Parameters
    ----------
    epsilon : float, default=5.0
        Cost of one released row in nats, > 0 (pure, local). Infinity clips without noise,
        for comparison.
    bound : float, default=0.5
        t, where columns are clipped, > 0. The noise of a column has scale
        ``2 t d / epsilon`` for d columns. It must not come from the rows. Infinite numbers go
        to the nearest bound and NaN to 0, because an error about one row would tell something
        about it.

    Attributes
    ----------
    randomizer_ : LaplaceRandomizer
        What rows pass through.

    Notes
    -----
    Xie et al. (arXiv 2402.10473, Table 2) put this noise on the representations of other
    methods, at epsilon = 8. The steps before it must be fixed for the person who is released: an
    encoder that was fitted on that person's row may give it away to those who see the
    encoder, and is not covered. With ids, a step that draws at random gives another row, and so
    another release, at every call.

    Examples
    --------
    >>> import numpy as np
    >>> from skfairdp.representation import LaplaceTransformer
    >>> rows = np.array([[0.1, -0.3], [0.2, 7.0]])
    >>> released = LaplaceTransformer(epsilon=1.0, bound=0.5).fit(rows)
    >>> released.transform(rows).shape
    (2, 2)
    >>> first = released.transform(rows, ids=["ann", "bob"])
    >>> bool((first == released.transform(rows, ids=["ann", "bob"])).all())
    True
    >>> released.privacy_.epsilon
    2.0
    """

    epsilon: float = field(default=5.0, kw_only=False)
    bound: float = field(default=0.5, kw_only=False)

    _learns_from_rows = False
    _group_blind = True
    _served_the_fit: ClassVar[tuple[str, ...]] = ("bound", "epsilon", "export_key")
    _nets: ClassVar[tuple[str, ...]] = ()
    _parameters = {
        "epsilon": (Number(0.0, low_open=True, finite=False),),
        "bound": (Number(1e-100, 1e100),),
    }

    randomizer_: LaplaceRandomizer = field(init=False)

    def fit(
        self,
        X: ArrayLike,
        y: object = None,
        *,
        sensitive_features: object = None,
        person_ids: ArrayLike | None = None,
    ) -> Self:
        """Learn the number of columns, and draw a key for calls with ids.

        Parameters
        ----------
        X : array-like, shape (n_samples, n_features)
            Numbers. Only the form is looked at.
        y, sensitive_features : None
            Ignored.
        person_ids : None
            Refused: a fit looks at no row. Whose row is released is said to `transform`, as `ids`.

        Raises
        ------
        ValueError
            A parameter is not allowed, or `X` is not a table of numbers. The transformer is
            left unfitted.
        """
        return super().fit(X, y, sensitive_features=None, person_ids=person_ids)  # type: ignore[arg-type]

    def _fit(self, given: Given, charge: Charge) -> Receipt:
        check_parameters(self, self._parameters)
        self._checked(given.X, reset=True)
        self._start_releasing(LaplaceRandomizer(self.epsilon, self.n_features_in_, self.bound))
        charge.nothing_here()  # the form of rows alone was looked at; releases are charged
        return Receipt()

    def _priced(self, facts: RowFacts, noise: NoiseSource) -> Quote:
        if facts.n_features is None:
            raise ValueError(
                "'n_features' is needed, as the noise of a column grows with it: give the number "
                "of columns."
            )
        randomizer = LaplaceRandomizer(self.epsilon, facts.n_features, self.bound)
        return self._release_quote(randomizer, facts)

    def _release(self, X: Any, ids: Any, sensitive_features: Any = None) -> NDArray[np.float64]:
        check_is_fitted(self)
        truncated = self.randomizer_.truncate(self._checked(X, reset=False))
        with self._releasing(ids, truncated, type(self).__name__) as noise:
            return self.randomizer_.release(truncated, noise)

    def certify(  # type: ignore[override]
        self,
        X: ArrayLike | None = None,
        *,
        sensitive_features: ArrayLike | None = None,
        holdout: str | None = None,
    ) -> Certificate:
        """State what the releases so far promise, and what follows for every predictor.

        Parameters
        ----------
        X : array-like, shape (n_samples, n_features), optional
            Rows that need no protection, and that no step before this one was fitted on:
            they are released once more, to measure the information of a release about the group.
        sensitive_features : array-like, shape (n_samples,), optional
            Their groups.
        holdout : {"public"}, optional
            Required with `X`: that these rows need no protection.

        Returns
        -------
        Certificate
            Privacy of all counted releases together; bounds on parity, opportunity and
            odds for any predictor from one release. Among its remarks, with rows, a
            lower bound in nats on the information of a release about the group.
        """
        from skfairdp.certificate import certify  # so that no release loads it

        check_is_fitted(self)
        notions = list(NOTIONS_OF_RELEASES)
        return certify(
            self, X, sensitive_features=sensitive_features, notion=notions, holdout=holdout
        )

    def _checked(self, X: ArrayLike, *, reset: bool) -> NDArray[np.float64]:
        return np.asarray(
            validated(self, X, reset=reset, dtype=np.float64, ensure_all_finite=False)
        )

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        # Also with repeatable noise, which depends on a row's place among the rows.
        tags.non_deterministic = self.epsilon != math.inf
        tags.input_tags.allow_nan = True
        tags.requires_fit = True
        tags.target_tags.required = False
        if not tags.non_deterministic:
            return expecting(tags)
        fresh = {} if self.reproducible_noise else FRESH_RELEASES
        return expecting(tags, NOISE_BY_PLACE, fresh)
