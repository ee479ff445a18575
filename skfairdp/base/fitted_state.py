"""Fitted state of estimators: released attributes, bound by the digests of a receipt."""

from __future__ import annotations

from dataclasses import field
from typing import Any, ClassVar

from sklearn.base import clone

from skfairdp.exceptions import UnboundModelError
from skfairdp.foundation.parameters import WithParameters
from skfairdp.privacy.guarantee import PrivacyGuarantee
from skfairdp.protocol import Certifiable
from skfairdp.receipts import Charge, Receipt
from skfairdp.receipts.digests.state import WITHOUT_EFFECT, Recipe
from skfairdp.receipts.receipt import bind_each, changes


class FittedState(Certifiable, WithParameters):
    """Base class of estimators whose fit leaves a receipt, with digests of the fitted state.

    Each fitted attribute is either released under the plan or public; nothing else survives
    pickling. Digests keep a promise from being made of what was put in its place.
    """

    _released: ClassVar[tuple[str, ...]] = ("classes_", "feature_names_in_", "n_features_in_")
    # Views of the receipt of a fit, whose digests are kept one by one.
    _views: ClassVar[tuple[str, ...]] = ("groups_", "privacy_")
    # Parameters that hold a net (or another model), or None for a default one.
    _nets: ClassVar[tuple[str, ...]] = ("net",)
    # Released attributes that predicting may change, and parameters that only served the fit.
    _changes_by_use: ClassVar[tuple[str, ...]] = ()
    _served_the_fit: ClassVar[tuple[str, ...]] = ()

    receipt_: Receipt = field(init=False)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Keep the receipt with the released attributes."""
        super().__init_subclass__(**kwargs)
        cls._released = (*dict.fromkeys((*cls._released, "receipt_")),)

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
