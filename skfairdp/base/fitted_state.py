"""Start and end of a fit: its charge in a ledger, and the state and receipt that it leaves."""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import field, replace
from functools import wraps
from os import PathLike
from typing import Any, ClassVar, TypeVar, cast

import numpy as np
from sklearn.base import clone, is_regressor

from skfairdp.exceptions import PrivacyWarning, UnboundModelError, warn_user
from skfairdp.foundation.figures import significant_up
from skfairdp.foundation.parameters import WithParameters
from skfairdp.privacy.guarantee import PrivacyGuarantee
from skfairdp.privacy.ledger import PrivacyLedger
from skfairdp.protocol import Certifiable
from skfairdp.receipts import Charge, Quote, Receipt
from skfairdp.receipts.digests.state import WITHOUT_EFFECT, Recipe
from skfairdp.receipts.receipt import bind_each, changes, receipt_of

Fit = TypeVar("Fit", bound=Callable[..., Any])


def refusing_weights(fit: Fit) -> Fit:
    """Let a fit say why it takes no weights, and no groups; its signature stays without them."""

    @wraps(fit)
    def unweighted(self: Any, *args: Any, **given: Any) -> Any:
        if given.pop("sample_weight", None) is not None:
            raise TypeError(
                f"{type(self).__name__}.fit takes no sample_weight: the noise is calibrated for "
                "records of equal weight, and a larger weight would break the guarantee. Leave it "
                "out. To let small groups count for more, give sensitive_features to "
                "ImportanceSamplingDPSGDClassifier or PrivateThinningClassifier; for several rows "
                "of a person, give person_ids."
            )
        if given.pop("groups", None) is not None:
            raise TypeError(
                f"{type(self).__name__}.fit takes no groups. Give the group of each row as "
                "sensitive_features=. Groups that are declared, and public, are a parameter of "
                "estimators that need them: groups= or group_sizes= where the estimator is made."
            )
        return fit(self, *args, **given)

    return cast(Fit, unweighted)


def processes_of_torch() -> int:
    """Count the processes of torch's default process group; 1 where there is none."""
    distributed = sys.modules.get("torch.distributed")  # without it nobody has started a group
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return 1
    return int(distributed.get_world_size())


def refuse_processes(model: Any) -> None:
    """Refuse a process group, unless its processes train one model or this one is left out."""
    alone = getattr(model, "distributed", "auto") is None
    if processes_of_torch() == 1 or model._in_parts or alone:
        return
    leave = "set distributed=None, or " if hasattr(model, "distributed") else ""
    raise ValueError(
        f"{type(model).__name__} is fitted by one process alone: {leave}fit it outside torch's "
        "process group. Each process of the group would charge, and fit its own model."
    )


def warn_of_another_fit(model: Any) -> None:
    """Warn that a second fit without a ledger spends again; no trace of rows is kept."""
    fitted = vars(model).get(model._post_processes or "", model)
    own, found = vars(fitted), []
    receipt = own.get("receipt_")
    if model._learns_from_rows and receipt is not None and receipt.quote is not None:
        found.append(receipt.quote.privacy)  # where releases cost as well, that of the fit
    if "releases_" in own and fitted.releases_.total:
        found.append(fitted.privacy_)  # the next fit counts releases from none
    spent = next((one for one in found if one is not None and not one.is_void), None)
    if spent is not None and fitted.ledger is None:
        epsilon = significant_up(spent.epsilon)
        warn_user(
            f"{type(model).__name__}.fit was called again without a ledger. A person in both "
            f"data sets has now spent the total of both fits; the first was ε = {epsilon}. "
            "Pass ledger= to count all fits; fit clone(estimator) to the rows of other people.",
            PrivacyWarning,
        )


def warn_of_steps_before(model: Any) -> None:
    """Warn, before a fit is charged, that an earlier step of its Pipeline learned from the rows.

    A help, and no guarantee: a certificate looks at the fitted Pipeline itself. A Pipeline shows
    its last step no others, so it is looked for among the callers of the fit.
    """
    given = vars(model)
    if given.get("epsilon") == math.inf or given.get("reproducible_noise"):
        return  # there is no guarantee to lose
    from sklearn.pipeline import Pipeline  # quotes, which load this module, need none

    caller = inspect.currentframe()
    while caller is not None:
        around = caller.f_locals.get("self") if caller.f_code.co_name == "fit" else None
        if isinstance(around, Pipeline) and around.steps[-1][1] is model:
            break
        caller = caller.f_back
    else:
        return
    from sklearn.frozen import FrozenEstimator

    from skfairdp.receipts.unwrap import (
        ContainerChoice,
        charges_privacy,
        learns_from_rows,
        leaves_of,
    )

    saw_no_row = (ContainerChoice, FrozenEstimator)
    before = [leaf for name, step in around.steps[:-1] for leaf in leaves_of(name, step)]
    found = [
        f"{name!r} ({type(step).__name__})"
        for name, step in before
        if not (isinstance(step, saw_no_row) or charges_privacy(step)) and learns_from_rows(step)
    ]
    if found:
        warn_user(
            f"{', '.join(found)} of the Pipeline around this fit may have learned from the rows "
            "without noise. The fit costs its epsilon, but a certificate of the Pipeline will "
            "state no privacy, unless such steps saw public rows alone (public_steps=). Use "
            "PrivateTableEncoder, or PublicScaler and PublicEncoder of skfairdp.preprocessing.",
            PrivacyWarning,
        )


def defaults_of(model: Any) -> dict[str, Any]:
    """Return parameters with their defaults: a model of an earlier version may lack some."""
    parameters = inspect.signature(type(model)).parameters.values()
    return {p.name: p.default for p in parameters if p.default is not p.empty}


def bound_state_of(model: Any) -> dict[str, Any]:
    """Return the state that no use of a fitted model changes."""
    state = model._digest_state()
    return {name: part for name, part in state.items() if name not in model._changes_by_use}


class ChargedFit:
    """Mixin of estimators that reserve the cost of a fit in a ledger, if they have one."""

    ledger: str | PathLike[str] | PrivacyLedger | None
    # Whether rows may be sparse, lie on disk, or with several processes: they are read in batches.
    _in_parts: ClassVar[bool] = False
    _activity: ClassVar[str] = "fit"  # what a ledger calls a fit
    # What the groups are for, where a fit must have them.
    _needs_groups: ClassVar[str | None] = None
    # Whether a fit takes person_ids; who does not refuses them.
    _takes_persons: ClassVar[bool] = False
    fit: Callable[..., Any]
    _forget: Callable[[], None]
    _fitting: object  # stands while a fit runs

    @contextmanager
    def _all_or_nothing(self, charge: Charge) -> Iterator[None]:
        """Leave nothing behind if a fit fails, but for its charge in the ledger.

        Every fit passes here, so processes that cannot train one model are refused here, before
        they connect, look at rows or charge.
        """
        token = object()
        if self.__dict__.setdefault("_fitting", token) is not token:
            raise RuntimeError(
                f"This {type(self).__name__} is being fitted already, for example in another "
                "thread, and both fits would share one charge. Fit a copy from sklearn.base.clone."
            )
        self._forget()
        try:
            refuse_processes(self)
            # A warning or an error of numpy's about one number would reveal a row.
            with np.errstate(all="ignore"):
                yield
        except BaseException as error:
            self._forget()
            charge.note(error)
            raise
        finally:
            del self._fitting

    def _check_takes(self, sensitive_features: Any, *, persons: bool) -> None:
        """Refuse rows without groups that a fit needs, and persons that it does not take."""
        if sensitive_features is None and self._needs_groups is not None:
            other = "DPSGDRegressor" if is_regressor(self) else "DPSGDClassifier"
            raise ValueError(
                f"{type(self).__name__} got sensitive_features=None, and needs the group of every "
                f"row: {self._needs_groups}. Call fit(X, y, sensitive_features=...), in a Pipeline "
                f"with the name of the step and two underscores in front; {other} trains "
                "without groups."
            )
        if persons and not self._takes_persons:
            raise ValueError(
                f"{type(self).__name__} got person_ids, but its guarantee is about one row, not "
                "about a person with several rows. Fit it without person_ids on one "
                "row of each person, drawn by chance, or use an estimator that takes them, such as "
                "DPSGDClassifier."
            )


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
                "stored no receipt_, so its guarantee is not known. Fit it again."
            )
        super().__setstate__({**defaults_of(self), **state})

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
        own, receipt = vars(self), receipt_of(self)
        parameters = self.get_params(deep=False)
        counted = set(parameters) - WITHOUT_EFFECT - set(self._served_the_fit)
        if receipt is not None and receipt.digests:
            # A parameter that an earlier version lacked decides nothing at its default.
            for name, default in defaults_of(self).items():
                if f"parameter {name}" not in receipt.digests and own[name] is default:
                    counted.discard(name)
        state: dict[str, Any] = {f"parameter {n}": Recipe(parameters[n]) for n in counted}
        state |= {n: own[n] for n in self._released if n in own and n != "receipt_"}
        if receipt is not None:
            state |= receipt.views(self._views)
        # Attributes that replace a method or setting of the class; nothing else is checked.
        aside = {n: v for n, v in own.items() if n not in parameters and hasattr(type(self), n)}
        return state | aside

    def _keep_receipt(
        self, receipt: Receipt, charge: Charge, known: dict[Any, Any] | None = None
    ) -> None:
        """Keep the receipt of a fit with the digests of what it left, and commit its charge.

        `known`: of models that are bound together, as in `bind_each`.
        """
        for name in (*self._nets, "estimator"):
            if getattr(self, name, None) is not None:
                receipt = receipt.assuming_parts_of(self)
        self.receipt_ = receipt
        digests = bind_each(bound_state_of(self), known)
        self.receipt_ = receipt.settled(digests, charge.commit())

    def _bind(self) -> None:
        """Digest anew what a fitted model holds, after a change that its fit stands behind."""
        self.receipt_ = self.receipt_.settled(bind_each(bound_state_of(self)))

    def _state(
        self,
        privacy: PrivacyGuarantee | None,
        *,
        one_of_several: bool = False,
        groups: tuple | None = None,
    ) -> None:
        """Let a fitted model state what its rows have spent beyond its own fit.

        `one_of_several`: whether it was chosen among others. `groups`: of all rows, where it was
        fitted on some of them; None keeps those of the fit.
        """
        stated = self.receipt_.stating(privacy, one_of_several=one_of_several)
        self.receipt_ = stated.assuming_parts_of(self)
        if groups is not None:
            self.receipt_ = replace(self.receipt_, groups=groups)
        self._bind()

    def _changed_since_fit(self) -> tuple[str, ...]:
        """List, in words, the parts that changed since `fit`; empty for an unchanged model."""
        receipt, state = vars(self).get("receipt_"), bound_state_of(self)
        if receipt is None:
            return changes(None, state)
        return changes(receipt.digests, state)

    @property
    def _left(self) -> Receipt:
        """The receipt of the fit; an AttributeError before it."""
        receipt = vars(self).get("receipt_")
        if receipt is None:
            raise AttributeError(f"This {type(self).__name__} is not fitted: it has no receipt_.")
        return receipt

    @property
    def _quote_kept(self) -> Quote:
        """The quote that the fit kept to; an AttributeError where there is none."""
        quote = self._left.quote
        if quote is None:
            raise AttributeError("This model has no guarantee of its own; see the model inside it.")
        return quote

    @property
    def privacy_(self) -> PrivacyGuarantee | None:  # type: ignore[override]
        return self._quote_kept.privacy

    @property
    def groups_(self) -> tuple | None:
        return self._left.groups

    def _forget(self) -> None:
        for name in [n for n in vars(self) if n.endswith("_") and not n.startswith("__")]:
            delattr(self, name)
