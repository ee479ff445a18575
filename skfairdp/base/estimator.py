"""The contract of every estimator: fit, predict, certify."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.random import RandomState
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from skfairdp.base.fitted_state import (
    ChargedFit,
    FittedState,
    refusing_weights,
    warn_of_another_fit,
    warn_of_steps_before,
)
from skfairdp.fairness.notions import Notion
from skfairdp.foundation.documentation import completed_by
from skfairdp.foundation.parameters import SHARED, Check
from skfairdp.privacy.ledger import LEDGER, PrivacyLedger
from skfairdp.privacy.noise import NoiseSource
from skfairdp.privacy.plan import Plan
from skfairdp.protocol import CERTIFY
from skfairdp.receipts import Charge, Quote, Receipt, RowFacts, quote
from skfairdp.records import Given
from skfairdp.records.given import remember_rows

if TYPE_CHECKING:
    from skfairdp.certificate import Certificate


class PrivateEstimator(ChargedFit, FittedState):
    """Base class of all private estimators; `Certifiable` lists the requirements of certificates.

    A subclass lists its parameters in ``_parameters``, declares its fitted attributes (each
    either released under the plan or public; nothing else survives pickling) and trains in
    ``_fit``. What `fit` leaves is bound by digests, so that a promise is not made of what was
    put in its place. A subclass's docstring and ``_parameters`` name what is its own; the rest
    comes from here and from the bases between.

    Parameters
    ----------
    delta : float
        Probability in (0, 1/n) that the privacy loss exceeds `epsilon`.
    classes : sequence or None
        Declared class labels. None takes them from `y`; they are then public.
    groups : sequence or None
        Declared groups; rows of others contribute nothing. None takes them from the rows;
        the set is then public.
    random_state : int, RandomState or None
        Used with `reproducible_noise` only.
    reproducible_noise : bool
        Also seed the noise and all other draws, for tests; this voids the privacy guarantee.
    exact_noise : bool
        Round sums to a grid and draw their noise in whole numbers, exactly. False draws noise in
        float64, in about a tenth less time: the guarantee then assumes that nobody reads the last
        bits of released sums, which can show a record that ε does not account for.
    progress : bool or None
        Show a progress bar; None shows it on a terminal.
    ledger : None, path or PrivacyLedger
        Where fits are charged before they use rows, see `skfairdp.PrivacyLedger`.

    Attributes
    ----------
    groups_ : tuple or None
        Groups named at fit.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray, shape (n_features,)
        Column labels, when all of them are strings.
    privacy_ : PrivacyGuarantee or None
        What is guaranteed; None after ``epsilon=inf``.
    receipt_ : Receipt
        Record of the fit: the quote that it kept to, and digests of its state.
    """

    random_state: int | RandomState | None = None
    reproducible_noise: bool = False
    ledger: str | PathLike[str] | PrivacyLedger | None = None

    _parameters: ClassVar[Mapping[str, Iterable[Check]]] = {**SHARED, "ledger": LEDGER}
    _charges_privacy = True
    _protected: ClassVar[str | None] = None  # what a fit protects, if not records or persons
    # Class-level request: with metadata routing on, groups and persons reach fit without a call.
    __metadata_request__fit: ClassVar[dict[str, bool]] = {
        "sensitive_features": True,
        "person_ids": True,
    }

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Wrap `fit`: let it explain why it takes no weights."""
        if "fit" in vars(cls):
            setattr(cls, "fit", refusing_weights(vars(cls)["fit"]))  # noqa: B010
        super().__init_subclass__(**kwargs)

    @refusing_weights
    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        *,
        sensitive_features: ArrayLike | None = None,
        person_ids: ArrayLike | None = None,
    ) -> Self:
        """Train under the plan.

        Parameters
        ----------
        X : array-like, shape (n_samples, n_features)
            Private training rows; numbers, no missing values. Mechanisms that learn by gradients
            leave a `numpy.memmap` and `skfairdp.datasets.ParquetRows` on disk, and most of them
            make sparse rows dense a batch at a time.
        y : array-like, shape (n_samples,)
            Labels. None for rows that come with them.
        sensitive_features : array-like, Series or DataFrame, shape (n_samples,) or \
(n_samples, k), optional
            Group of each row; several columns form intersections. None: one group,
            and no fairness claim about training is possible.
        person_ids : array-like, shape (n_samples,), optional
            Whose row it is, where a person may have several: whole numbers or texts. The promise
            is then about all rows of a person, who is in one group; sizes, batches and ``1 / n``
            count persons. None: each row is a person. Refused where it cannot be kept.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            A parameter, the rows or the groups are invalid. The
            estimator is left unfitted.
        BudgetExceededError
            The ledger's budget has no room for this fit. No row was used.
        LedgerError
            The ledger cannot be written.
        """
        return self._fit_under(Given(X, y, sensitive_features, person_ids), Charge(self))

    def _fit_under(
        self,
        given: Given,
        charge: Charge,
        train: Callable[[Given, Charge], Receipt] | None = None,
    ) -> Self:
        """Train on rows under a charge, and keep the receipt. `train`: in place of `_fit`."""
        warn_of_another_fit(self)
        warn_of_steps_before(self)
        with self._all_or_nothing(charge):
            given = given.read()
            remember_rows(self, given.X)
            self._check_takes(given.sensitive_features, persons=given.unit == "person")
            self._keep_receipt((train or self._fit)(given, charge), charge)
        return self

    def _try_out(
        self, quote: Quote, row_shape: tuple[int, ...], classes: np.ndarray | None
    ) -> None:
        """Refuse, before anything is charged, what training could not use; no row is needed.

        `row_shape`: of one row. `classes`: None for a regressor.
        """

    def _fit(self, given: Given, charge: Charge) -> Receipt:
        """Check, charge and train; return the receipt of it."""
        raise NotImplementedError

    def _check_settings(self) -> None:
        """Check parameters that depend on each other, beyond the parameter table."""

    def _facts_of_fit(self, facts: RowFacts) -> RowFacts:
        """Public facts as a fit reads them: declared groups, classes and the protected unit."""
        declared = getattr(self, "group_sizes", None) or getattr(self, "groups", None)
        classes = getattr(self, "classes", None)
        n_classes = facts.n_classes if classes is None else len(set(classes))
        unit = self._protected or facts.unit
        facts = replace(facts.among(declared), unit=unit, n_classes=n_classes)
        named = None if facts.groups is None else facts.groups.labels
        if self._needs_groups is not None and named is not None and len(named) < 2:
            raise ValueError(
                f"'groups' must name at least two groups for {type(self).__name__}; got "
                f"{len(named)}."
            )
        return facts

    def _priced(self, facts: RowFacts, noise: NoiseSource) -> Quote:
        """Price a fit from public facts. A fit starts with it, and so does `quote`."""
        raise NotImplementedError(f"{type(self).__name__} has no quote: its _priced is missing.")

    def _expected_plan(self, facts: RowFacts, noise: NoiseSource) -> Plan | None:
        """Plan for these facts, where a fit makes its plan from sizes that it buys."""
        return None

    @completed_by(quote)
    def quote(
        self,
        *,
        n_rows: int | None = None,
        groups: Mapping[Any, int] | Sequence[Any] | None = None,
        n_features: int | None = None,
        classes: Sequence[Any] | int | None = None,
        n_persons: int | None = None,
        n_public: int | None = None,
        columns: Sequence[Hashable] | None = None,
        public_groups: bool = False,
    ) -> Quote:
        """Price a fit from public facts: no row is needed, and none is looked at."""
        return quote(
            self,
            n_rows=n_rows,
            groups=groups,
            n_features=n_features,
            classes=classes,
            n_persons=n_persons,
            n_public=n_public,
            columns=columns,
            public_groups=public_groups,
        )

    @completed_by(CERTIFY)
    def certify(
        self,
        X: ArrayLike | None = None,
        y: ArrayLike | None = None,
        *,
        sensitive_features: ArrayLike | None = None,
        person_ids: ArrayLike | None = None,
        notion: str | Notion | Sequence[str | Notion] = "demographic_parity",
        confidence_level: float = 0.95,
        bound: str = "exact",
        count_epsilon: float | None = None,
        holdout: str | None = None,
    ) -> Certificate:
        """Certify privacy and fairness of the model; see `skfairdp.certify` for all options."""
        from skfairdp.certificate import certify  # so that no fit loads it

        check_is_fitted(self)
        return certify(
            self,
            X,
            y,
            sensitive_features=sensitive_features,
            person_ids=person_ids,
            notion=notion,
            confidence_level=confidence_level,
            bound=bound,
            count_epsilon=count_epsilon,
            holdout=holdout,
        )

    def set_params(self, **params: Any) -> Self:
        """Set parameters; ``net__...`` keys work from ``net=None`` too."""
        for name in self._nets:
            nested = any(key.startswith(f"{name}__") for key in params)
            if nested and params.get(name, getattr(self, name, ())) is None:
                params = {**params, name: self._default_of(name)}
        return super().set_params(**params)

    def _default_of(self, name: str) -> Any:
        """Net that stands behind None, of each parameter in `_nets`."""
        raise NotImplementedError

    def _randomness(self) -> tuple[int, NoiseSource]:
        """Return a seed for draws that protect no record, and a source for noise and batches."""
        if self.random_state is None:
            seed = secrets.randbits(31)
        else:
            seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        return seed, NoiseSource(seed if self.reproducible_noise else None)
