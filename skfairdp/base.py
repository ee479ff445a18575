"""The contract of every estimator: fit, predict, certify."""

from __future__ import annotations

import secrets
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from os import PathLike
from typing import Any, ClassVar, Self

import numpy as np
from numpy.random import RandomState
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from skfairdp.certificate import Certificate, certify
from skfairdp.certificate.fit_digests import bind_each, changes
from skfairdp.certificate.state import WITHOUT_EFFECT, Recipe
from skfairdp.charging import ChargedFit, refusing_weights
from skfairdp.datasets.stored_rows import with_columns_of
from skfairdp.documentation import completed_by
from skfairdp.expected_checks import DRAWN_DECISIONS, FRESH_FITS, expecting
from skfairdp.fairness.notions import Notion
from skfairdp.labels import encode_labels
from skfairdp.numbers import check_numbers
from skfairdp.parameters import SHARED, Check, WithParameters
from skfairdp.persons import Persons, encode_persons, refuse_other_order
from skfairdp.privacy.guarantee import PrivacyGuarantee
from skfairdp.privacy.ledger import LEDGER, PrivacyLedger
from skfairdp.privacy.noise import NoiseSource
from skfairdp.privacy.plan import Plan
from skfairdp.protocol import Certifiable
from skfairdp.receipts import Quote, RowFacts, quote
from skfairdp.rows import check_features, check_rows
from skfairdp.scikit_learn import ClassifierMixin, RegressorMixin
from skfairdp.trained_rows import remember_rows


class PrivateEstimator(ChargedFit, Certifiable, WithParameters):
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
        Also seeds the noise and everything else that is drawn, for tests; voids the privacy
        guarantee.
    exact_noise : bool
        Round sums to a grid and draw their noise in whole numbers, exactly: no last bit of a
        float64 then tells anything that the guarantee does not cover. Takes up to 1.3 times as
        long.
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
    """

    random_state: int | RandomState | None = None
    reproducible_noise: bool = False
    ledger: str | PathLike[str] | PrivacyLedger | None = None

    _parameters: ClassVar[Mapping[str, Iterable[Check]]] = {**SHARED, "ledger": LEDGER}
    _released: ClassVar[tuple[str, ...]] = (
        "classes_",
        "feature_names_in_",
        "groups_",
        "n_features_in_",
        "plan_",
        "privacy_",
    )
    # Parameters that hold a net (or another model), or None for a default one.
    _nets: ClassVar[tuple[str, ...]] = ("net",)
    # Released attributes that predicting may change, and parameters that only served the fit.
    _changes_by_use: ClassVar[tuple[str, ...]] = ()
    _served_the_fit: ClassVar[tuple[str, ...]] = ()
    _charges_privacy = True
    # Whether a fit takes person_ids; who does not refuses them.
    _takes_persons: ClassVar[bool] = False
    # Class-level request: with metadata routing on, groups and persons reach fit without a call.
    __metadata_request__fit: ClassVar[dict[str, bool]] = {
        "sensitive_features": True,
        "person_ids": True,
    }

    groups_: tuple | None = field(init=False)
    fit_digests_: dict[str, str] = field(init=False)
    _person_ids: Any = field(init=False)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Keep the digests of what was fitted with it; its fit explains why it takes no weights."""
        if "fit" in vars(cls):
            setattr(cls, "fit", refusing_weights(vars(cls)["fit"]))  # noqa: B010
        super().__init_subclass__(**kwargs)
        cls._released = (*dict.fromkeys((*cls._released, "fit_digests_")),)

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
            leave a `numpy.memmap` and `skfairdp.datasets.ParquetRows` on disk, and make sparse
            rows dense a batch at a time.
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
            A parameter, the rows or the groups are not what they should be. The
            estimator is left unfitted.
        BudgetExceededError
            The ledger's budget has no room for this fit. No row was used.
        LedgerError
            The ledger cannot be written.
        """
        self._warn_of_another_fit()
        with self._all_or_nothing():
            y, sensitive_features = with_columns_of(X, y, sensitive_features)
            with self._about(X, y, sensitive_features, person_ids):
                self._fit(X, y, sensitive_features)
        remember_rows(self, X)
        return self

    @contextmanager
    def _about(self, X: Any, y: Any, sensitive_features: Any, person_ids: Any) -> Iterator[None]:
        """Keep the ids of the persons for as long as a fit takes; refuse one without its groups."""
        self._check_has_groups(sensitive_features)
        refuse_other_order(X=X, y=y, sensitive_features=sensitive_features, person_ids=person_ids)
        if person_ids is not None:
            self._check_takes_persons()
        self._person_ids = person_ids
        try:
            yield
        finally:
            del self._person_ids

    def _check_takes_persons(self) -> None:
        if not self._takes_persons:
            raise ValueError(
                f"{type(self).__name__} got person_ids, and has no promise about a person with "
                "several rows: what it promises is about one row. Fit it without person_ids on one "
                "row of each person, drawn by chance, or use an estimator that takes them, such as "
                "DPSGDClassifier."
            )

    def _persons(self, n_rows: int) -> Persons | None:
        """Whose rows are fitted; None where each is a person."""
        ids = vars(self).get("_person_ids")
        most = int(getattr(self, "max_rows_per_person", 1))
        return None if ids is None else encode_persons(ids, n_rows, most)

    @property
    def _unit(self) -> str:
        """What the fit that is running protects."""
        return "record" if vars(self).get("_person_ids") is None else "person"

    def _fit(self, X: Any, y: Any, sensitive_features: Any) -> None:
        raise NotImplementedError

    def _check_settings(self) -> None:
        """Check what the parameter table cannot say."""

    def _facts_of_fit(self, facts: RowFacts) -> RowFacts:
        """Public facts as a fit reads them: declared groups alone, and what is protected."""
        declared = getattr(self, "group_sizes", None) or getattr(self, "groups", None)
        facts = replace(facts.among(declared), unit=self._unit)
        named = None if facts.groups is None else facts.groups.labels
        if self._needs_groups is not None and named is not None and len(named) < 2:
            raise ValueError(
                f"'groups' must name at least two groups for {type(self).__name__}; got {named!r}."
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

    @completed_by(certify)
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
    ) -> Certificate:
        """State what is guaranteed; see `skfairdp.certify` for all options."""
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
        )

    def set_params(self, **params: Any) -> Self:
        """Set parameters; ``net__...`` keys work from ``net=None`` too."""
        for name in self._nets:
            nested = any(key.startswith(f"{name}__") for key in params)
            if nested and params.get(name, getattr(self, name, ())) is None:
                params = {**params, name: self._default_of(name)}
        return super().set_params(**params)

    def _default_of(self, name: str) -> Any:
        """Net that stands behind None."""
        from skfairdp.engine.nets import default_net  # torch only where a net is wanted

        return default_net()

    def __sklearn_is_fitted__(self) -> bool:
        """Whether the estimator holds a released state."""
        return "privacy_" in vars(self)

    def __getstate__(self) -> dict[str, Any]:
        """Keep parameters and released attributes, nothing else."""
        state = dict(super().__getstate__())
        allowed = set(self.get_params(deep=False)) | set(self._released) | {"_sklearn_version"}
        state = {name: value for name, value in state.items() if name in allowed}
        for name in (*self._nets, "estimator"):
            if hasattr(state.get(name), "get_params"):
                state[name] = clone(state[name])  # what was trained elsewhere stays there
        return state

    def _digest_state(self) -> dict[str, Any]:
        """Return everything that predictions depend on."""
        own = vars(self)
        parameters = self.get_params(deep=False)
        kept = {n: own[n] for n in self._released if n in own and n != "fit_digests_"}
        counted = set(parameters) - WITHOUT_EFFECT - set(self._served_the_fit)
        # What stands in place of a method or setting of the class; nothing else is looked at.
        aside = {n: v for n, v in own.items() if n not in parameters and hasattr(type(self), n)}
        return kept | aside | {f"parameter {n}": Recipe(parameters[n]) for n in counted}

    def _bound_state(self) -> dict[str, Any]:
        """Return what no use of the fitted model changes."""
        state = self._digest_state()
        return {name: part for name, part in state.items() if name not in self._changes_by_use}

    def _bind(self, known: dict[Any, Any] | None = None) -> None:
        """Store digests of fitted attributes, so that later changes are detected."""
        self.fit_digests_ = bind_each(self._bound_state(), known)

    def _state(self, privacy: PrivacyGuarantee | None) -> None:
        """Let a fitted model state what its rows have spent beyond its own fit."""
        self.privacy_ = privacy
        self._bind()

    def _changed_since_fit(self) -> tuple[str, ...]:
        """Return what is not as `fit` left it, in words; empty for a model that is."""
        return changes(getattr(self, "fit_digests_", None), self._bound_state())

    def _forget(self) -> None:
        for name in [n for n in vars(self) if n.endswith("_") and not n.startswith("__")]:
            delattr(self, name)

    def _randomness(self) -> tuple[int, NoiseSource]:
        """Return a seed for what protects no record, and a source for noise and batches."""
        if self.random_state is None:
            seed = secrets.randbits(31)
        else:
            seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        return seed, NoiseSource(seed if self.reproducible_noise else None)


class PrivatePredictor(PrivateEstimator):
    """Base class of all private classifiers and regressors."""

    @property
    def _takes_images(self) -> bool:
        """Whether a row may have further dimensions."""
        return getattr(self, "net", None) is not None

    def _features(self, X: ArrayLike) -> np.ndarray:
        check_is_fitted(self)
        return check_features(self, X, allow_nd=self._takes_images)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = not self.reproducible_noise
        tags.input_tags.sparse = self._in_parts
        return expecting(tags, FRESH_FITS if tags.non_deterministic else {})


class PrivateClassifier(ClassifierMixin, PrivatePredictor):
    """Base class of all private classifiers.

    Attributes
    ----------
    classes_ : ndarray, shape (n_classes,)
        Class labels.
    """

    _multiclass: ClassVar[bool] = True

    classes_: np.ndarray = field(init=False)

    def _rows_of_fit(
        self, X: Any, y: Any, declared: Any
    ) -> tuple[NDArray, NDArray, NDArray[np.int64]]:
        """Rows of a fit, its classes, and a code of each label; -1 for one outside `declared`."""
        images, known = self._takes_images, declared is not None
        X, y = check_rows(self, X, y, allow_nd=images, labels_declared=known)
        return X, *encode_labels(y, declared, multiclass=self._multiclass)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True
        tags.classifier_tags.multi_class = self._multiclass
        drawn = DRAWN_DECISIONS if self._draws_decisions else {}
        return expecting(tags, tags.expected_failed_checks, drawn)

    @property
    def _draws_decisions(self) -> bool:
        """Whether `predict` draws, so that a row may get the less likely class."""
        return False

    @property
    def _decides_by_parameters(self) -> bool:
        """Whether the parameters of `module_`, or `theta_`, alone decide about a row."""
        return False


class PrivateRegressor(RegressorMixin, PrivatePredictor):
    """Base class of all private regressors."""

    def _numbers_of_fit(self, X: Any, y: Any) -> tuple[NDArray, NDArray[np.float64]]:
        """Rows of a fit and the number of each."""
        X = check_features(self, X, allow_nd=self._takes_images, reset=True)
        return X, check_numbers(self, y, len(X))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags
