"""Mixin for `fit`: reserves the cost in the ledger, rejects weights and process groups.

A fit that fails leaves the estimator unfitted.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from os import PathLike
from typing import Any, ClassVar, TypeVar, cast

from skfairdp.exceptions import PrivacyWarning, warn_user
from skfairdp.foundation.figures import significant_up
from skfairdp.privacy.guarantee import PrivacyGuarantee
from skfairdp.privacy.ledger import PrivacyLedger
from skfairdp.receipts.charge import Charge
from skfairdp.receipts.receipt import receipt_of

Fit = TypeVar("Fit", bound=Callable[..., Any])


def refusing_weights(fit: Fit) -> Fit:
    """Let a fit say why it takes no weights; its signature stays without them."""

    @wraps(fit)
    def unweighted(self: Any, *args: Any, **given: Any) -> Any:
        if given.pop("sample_weight", None) is not None:
            raise TypeError(
                f"{type(self).__name__}.fit takes no sample_weight: noise is made for records that "
                "count alike, and a weight would let one of them count for more. Leave it out. To "
                "let small groups count for more, give sensitive_features to "
                "ImportanceSamplingDPSGDClassifier or PrivateThinningClassifier; for several rows "
                "of a person, give person_ids."
            )
        return fit(self, *args, **given)

    return cast(Fit, unweighted)


def processes_of_torch() -> int:
    """Count the processes of torch's default process group; 1 where there is none."""
    distributed = sys.modules.get("torch.distributed")  # without it nobody has started a group
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return 1
    return int(distributed.get_world_size())


class ChargedFit:
    """Mixin of estimators that reserve the cost of a fit in a ledger, if they have one."""

    ledger: str | PathLike[str] | PrivacyLedger | None
    # Whether rows may be sparse, lie on disk, or with several processes: they are read in batches.
    _in_parts: ClassVar[bool] = False
    _activity: ClassVar[str] = "fit"  # what a ledger calls a fit
    # What the groups are for, where a fit must have them.
    _needs_groups: ClassVar[str | None] = None
    _learns_from_rows: bool
    _post_processes: str | None
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
                f"This {type(self).__name__} is being fitted already, as in another thread: one "
                "charge would be for both fits. Fit a copy of it, from sklearn.base.clone."
            )
        self._forget()
        try:
            self._refuse_processes()
            yield
        except BaseException as error:
            self._forget()
            charge.note(error)
            raise
        finally:
            del self._fitting

    def _refuse_processes(self) -> None:
        """Refuse a process group, unless its processes train one model or this one is left out."""
        alone = getattr(self, "distributed", "auto") is None
        if self._in_parts or alone or processes_of_torch() == 1:
            return
        leave = "set distributed=None, or " if hasattr(self, "distributed") else ""
        raise ValueError(
            f"{type(self).__name__} is fitted by one process alone: {leave}fit it outside torch's "
            "process group. Each process of the group would charge, and fit its own model."
        )

    def _check_has_groups(self, sensitive_features: Any) -> None:
        if sensitive_features is None and self._needs_groups is not None:
            raise ValueError(
                f"{type(self).__name__} got sensitive_features=None, and needs the group of every "
                f"row: {self._needs_groups}. Call fit(X, y, sensitive_features=...), in a Pipeline "
                "with the name of the step and two underscores in front; DPSGDClassifier trains "
                "without groups."
            )

    def _warn_of_another_fit(self) -> None:
        """Warn that a second fit without a ledger spends again; no trace of rows is kept."""
        fitted = vars(self).get(self._post_processes or "", self)
        own, found = vars(fitted), []
        if self._learns_from_rows:  # where releases cost as well, the fit has its own figure
            found.append(_promised(fitted))
        if "releases_" in own and fitted.releases_.total:
            found.append(fitted.privacy_)  # the next fit counts releases from none
        spent = next((one for one in found if one is not None and not one.is_void), None)
        if spent is not None and fitted.ledger is None:
            epsilon = significant_up(spent.epsilon)
            warn_user(
                f"{type(self).__name__}.fit was called again without a ledger. A person in both "
                f"data sets has now spent the total of both fits; the first was ε = {epsilon}. "
                "Pass ledger= to count all fits; fit clone(estimator) to the rows of other people.",
                PrivacyWarning,
            )


def _promised(model: object) -> PrivacyGuarantee | None:
    """Promise of the last fit of an estimator; None before it."""
    receipt = receipt_of(model)
    return None if receipt is None or receipt.quote is None else receipt.quote.privacy
