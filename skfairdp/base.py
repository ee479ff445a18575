"""The contract of every estimator: fit, predict, certify."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
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
from skfairdp.digests.fit_digests import bind_each, changes
from skfairdp.digests.state import WITHOUT_EFFECT, Recipe
from skfairdp.documentation import completed_by
from skfairdp.exceptions import UnboundModelError
from skfairdp.expected_checks import DRAWN_DECISIONS, FRESH_FITS, FRESH_REGRESSIONS, expecting
from skfairdp.fairness.notions import Notion
from skfairdp.labels import encode_labels
from skfairdp.numbers import check_numbers
from skfairdp.parameters import SHARED, Check, WithParameters
from skfairdp.privacy.guarantee import PrivacyGuarantee
from skfairdp.privacy.ledger import LEDGER, PrivacyLedger
from skfairdp.privacy.noise import NoiseSource
from skfairdp.privacy.plan import Plan
from skfairdp.protocol import Certifiable
from skfairdp.receipts import Charge, Quote, Receipt, RowFacts, quote
from skfairdp.receipts.charged_fit import ChargedFit, refusing_weights
from skfairdp.records import Given
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
        Also seed the noise and all other draws, for tests; this voids the privacy guarantee.
    exact_noise : bool
        Round sums to a grid and draw their noise in whole numbers, exactly. False draws noise in
        float64, in up to a fifth less time: the guarantee then assumes that nobody reads the last
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
    _released: ClassVar[tuple[str, ...]] = ("classes_", "feature_names_in_", "n_features_in_")
    # Views of the receipt of a fit, whose digests are kept one by one.
    _views: ClassVar[tuple[str, ...]] = ("groups_", "privacy_")
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

    receipt_: Receipt = field(init=False)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Wrap `fit`: store digests of the fitted state, and explain why it takes no weights."""
        if "fit" in vars(cls):
            setattr(cls, "fit", refusing_weights(vars(cls)["fit"]))  # noqa: B010
        super().__init_subclass__(**kwargs)
        cls._released = (*dict.fromkeys((*cls._released, "receipt_")),)

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
        return self._fit_under(Given(X, y, sensitive_features, person_ids), Charge(self))

    def _fit_under(
        self,
        given: Given,
        charge: Charge,
        train: Callable[[Given, Charge], Receipt] | None = None,
    ) -> Self:
        """Train on rows under a charge, and keep the receipt. `train`: in place of `_fit`."""
        self._warn_of_another_fit()
        with self._all_or_nothing(charge):
            given = given.read()
            self._check_has_groups(given.sensitive_features)
            if given.person_ids is not None:
                self._check_takes_persons()
            self._keep_receipt((train or self._fit)(given, charge), charge)
        remember_rows(self, given.X)
        return self

    def _check_takes_persons(self) -> None:
        if not self._takes_persons:
            raise ValueError(
                f"{type(self).__name__} got person_ids, but its guarantee is about one row, not "
                "about a person with several rows. Fit it without person_ids on one "
                "row of each person, drawn by chance, or use an estimator that takes them, such as "
                "DPSGDClassifier."
            )

    def _protected(self, unit: str) -> str:
        """What a fit protects, on rows about which a promise for this unit may be made."""
        return unit

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
        unit = self._protected(facts.unit)
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
        holdout: str | None = None,
    ) -> Certificate:
        """Certify privacy and fairness of the model; see `skfairdp.certify` for all options."""
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
        """Net that stands behind None."""
        from skfairdp.engine.nets import default_net  # torch only where a net is used

        return default_net()

    def __sklearn_is_fitted__(self) -> bool:
        """Whether the estimator holds a released state."""
        return "receipt_" in vars(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take what `__getstate__` kept; refuse a fitted model from before there were receipts."""
        if "fit_digests_" in state:
            raise UnboundModelError(
                f"This {type(self).__name__} was fitted by a development version of skfairdp that "
                "left no receipt_, in which this version looks for its promise. Fit it again."
            )
        super().__setstate__(state)

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
        kept = {n: own[n] for n in self._released if n in own and n != "receipt_"}
        kept |= {n: getattr(self, n) for n in self._views if hasattr(self, n)}
        counted = set(parameters) - WITHOUT_EFFECT - set(self._served_the_fit)
        # Attributes that replace a method or setting of the class; nothing else is checked.
        aside = {n: v for n, v in own.items() if n not in parameters and hasattr(type(self), n)}
        return kept | aside | {f"parameter {n}": Recipe(parameters[n]) for n in counted}

    def _bound_state(self) -> dict[str, Any]:
        """Return the state that no use of the fitted model changes."""
        state = self._digest_state()
        return {name: part for name, part in state.items() if name not in self._changes_by_use}

    def _keep_receipt(
        self, receipt: Receipt, charge: Charge, known: dict[Any, Any] | None = None
    ) -> None:
        """Keep the receipt of a fit with the digests of what it left, and commit its charge.

        `known`: of models that are bound together, as in `bind_each`.
        """
        self.receipt_ = receipt
        digests = bind_each(self._bound_state(), known)
        self.receipt_ = receipt.settled(digests, charge.commit())

    def _bind(self) -> None:
        """Digest anew what a fitted model holds, after a change that its fit stands behind."""
        self.receipt_ = self.receipt_.settled(bind_each(self._bound_state()))

    def _state(self, privacy: PrivacyGuarantee | None, *, one_of_several: bool = False) -> None:
        """Let a fitted model state what its rows have spent beyond its own fit.

        `one_of_several`: whether it was chosen among others.
        """
        self.receipt_ = self.receipt_.stating(privacy, one_of_several=one_of_several)
        self._bind()

    def _changed_since_fit(self) -> tuple[str, ...]:
        """List, in words, the parts that changed since `fit`; empty for an unchanged model."""
        receipt = vars(self).get("receipt_")
        return changes(None if receipt is None else receipt.digests, self._bound_state())

    @property
    def _left(self) -> Receipt:
        """The receipt of the fit; an AttributeError before it."""
        receipt = vars(self).get("receipt_")
        if receipt is None:
            raise AttributeError(f"This {type(self).__name__} is not fitted: it has no receipt_.")
        return receipt

    @property
    def privacy_(self) -> PrivacyGuarantee | None:  # type: ignore[override]
        return self._left.stated.privacy

    @property
    def groups_(self) -> tuple | None:
        return self._left.groups

    def _forget(self) -> None:
        for name in [n for n in vars(self) if n.endswith("_") and not n.startswith("__")]:
            delattr(self, name)

    def _randomness(self) -> tuple[int, NoiseSource]:
        """Return a seed for draws that protect no record, and a source for noise and batches."""
        if self.random_state is None:
            seed = secrets.randbits(31)
        else:
            seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        return seed, NoiseSource(seed if self.reproducible_noise else None)


class Planned:
    """Mixin of estimators whose fit releases what a plan lists."""

    _left: Receipt

    @property
    def plan_(self) -> Plan:
        plan = self._left.stated.plan
        assert plan is not None  # or there is no receipt
        return plan


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
        fresh = FRESH_REGRESSIONS if tags.non_deterministic else {}
        return expecting(tags, tags.expected_failed_checks, fresh)
