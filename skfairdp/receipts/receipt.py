"""Charge of a fit in a ledger, and receipt: the quote that it kept to, digests of its state."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, Self

from skfairdp.exceptions import UnboundModelError
from skfairdp.foundation.figures import significant_up
from skfairdp.privacy.guarantee import PrivacyGuarantee
from skfairdp.privacy.ledger import Entry, PrivacyLedger, as_ledger
from skfairdp.receipts.brought_along import assuming_parts, parts_of
from skfairdp.receipts.digests.digest import bind
from skfairdp.receipts.digests.state import Recipe
from skfairdp.receipts.quoted import NOISELESS, Quote

_PLAIN = (type(None), bool, int, float, str)
_PYTHON = "python"  # no attribute or parameter is called so, as they end in _ or have a prefix


@dataclass(eq=False)
class Charge:
    """Charge of one fit, which is handed to whatever uses the rows.

    A mechanism calls it with the promise, when its plan is made: before the first release, and
    before sizes are bought that the plan is made from. The first call counts.

    Parameters
    ----------
    model : estimator
        The estimator that is fitted; its ledger is charged, under its name.
    within : Charge or None, default=None
        Charge of a wrapper around this model, which stands for that of the model.
    stated : PrivacyGuarantee or None, default=None
        What is charged in place of what the mechanism says.
    """

    model: Any
    _: KW_ONLY
    within: Charge | None = None
    stated: PrivacyGuarantee | None = None
    uncounted: PrivacyGuarantee | None = field(default=None, init=False)  # spent without a ledger
    _entry: Entry | None = field(default=None, init=False)
    _second: Charge | None = field(default=None, init=False)
    _book: PrivacyLedger | None = field(default=None, init=False)  # None: that of the model
    _elsewhere: bool = field(default=False, init=False)

    def __call__(self, promised: PrivacyGuarantee | None) -> None:
        """Enter what the fit is about to spend; None for a fit without noise."""
        stated = promised if self.stated is None else self.stated
        if self.within is not None:
            self.within(stated)
            return
        ledger = self._ledger
        if self._entry is not None or self._elsewhere:
            return
        if ledger is None:
            self.uncounted = stated
            return
        planned = [(stated or NOISELESS, type(self.model).__name__)]
        if self._second is not None:
            planned.append((self._second.stated or NOISELESS, type(self._second.model).__name__))
        activity = self.model._activity
        self._entry, *others = ledger._reserve_together(*planned, activity=activity)
        if self._second is not None:
            (self._second._entry,) = others

    def together_with(self, second: Charge) -> None:
        """Enter this charge and that of a later fit, whose promise is known, at once or not at all.

        Where both have one ledger they are then one plan.

        Parameters
        ----------
        second : Charge
            That of the later fit, made with what it will promise.
        """
        own, other = self._ledger, second._ledger
        if own is not None and other is not None and _place(own) == _place(other):
            self._second = second
            if other._agreed(own._budget) is not own._budget:
                self._book = other  # which names the budget

    def nothing_here(self) -> None:
        """Charge nothing: another process charges this fit, or it costs nothing."""
        self._elsewhere = True

    def give_back(self) -> None:
        """Take back the charge of a fit that ends before it uses rows."""
        ledger, entry = self._ledger, self._entry
        if ledger is not None and entry is not None:
            ledger.give_back(entry)
            self._entry = None

    def commit(self) -> Entry | None:
        """Commit the charge of a fit that is done; a fit with a ledger has to have charged."""
        ledger = self._ledger
        if ledger is None or self._elsewhere or self.within is not None:
            return None
        if self._entry is None:
            raise RuntimeError(
                f"{type(self.model).__name__} has a ledger and charged nothing: its _fit must "
                "call the charge that it is given before it uses rows."
            )
        return ledger.commit(self._entry)

    def note(self, error: BaseException) -> None:
        """Add to an error what counts as spent.

        Parameters
        ----------
        error : BaseException
            What ended the fit; a note shows below its message.
        """
        ledger = self._ledger if self._entry is not None else None
        if ledger is not None and self._entry is not None:
            ledger.note_charge(self._entry, error)
        elif self.uncounted is not None and not self.uncounted.is_void:
            error.add_note(
                f"Count ε = {significant_up(self.uncounted.epsilon)} as spent on these rows: "
                "something may have been released before this error, and no ledger was named."
            )

    @property
    def _ledger(self) -> PrivacyLedger | None:
        given = self.model.ledger if self._book is None else self._book
        return None if given is None else as_ledger(given)


def _place(ledger: PrivacyLedger) -> tuple[object, str]:
    """File and data set."""
    return ledger.path, ledger.data_set


@dataclass(frozen=True, eq=False)
class Receipt:
    """Record of a fit; `privacy_`, `plan_`, `groups_` and others are views of it.

    Parameters
    ----------
    quote : Quote or None, default=None
        Promise, plan and public sizes of the fit. It knows no facts about rows: of declared or
        bought sizes the number of rows is private. None for an estimator without a promise of
        its own, such as a wrapper.
    groups : tuple or None, default=None
        Labels of the groups.
    digests : mapping of str to str, default={}
        Digest of each fitted attribute and parameter, by name.
    entry : tuple of (str, int) or None, default=None
        Data set and number of the entry in the ledger; None where nothing was charged here.
    one_of_several : bool, default=False
        Whether a search of this package chose the model, so that `quote` states what the whole
        search has spent.
    """

    quote: Quote | None = None
    groups: tuple[Any, ...] | None = None
    digests: Mapping[str, str] = field(default_factory=dict)
    entry: tuple[str, int] | None = None
    one_of_several: bool = False

    def __post_init__(self) -> None:
        """Leave the facts about rows, of which some are private."""
        if self.quote is not None:
            object.__setattr__(self, "quote", self.quote.without_rows())

    def views(self, names: Sequence[str]) -> dict[str, Any]:
        """Values of fitted attributes that are views of the receipt.

        Parameters
        ----------
        names : sequence of str
            Names of the attributes.

        Returns
        -------
        dict
            Value of each, by name; without a quote, of ``groups_`` alone.
        """
        known: dict[str, Any] = {"groups_": self.groups}
        if self.quote is None:
            return {name: known[name] for name in names if name in known}
        known |= {
            "noise_multiplier_": self.quote.noise_multiplier,
            "plan_": self.quote.plan,
            "privacy_": self.quote.privacy,
            "training_privacy_": self.quote.privacy,
        }
        return {name: known[name] for name in names}

    def stating(self, privacy: PrivacyGuarantee | None, *, one_of_several: bool) -> Self:
        """Make the receipt of a model whose rows have spent more than its own fit.

        Parameters
        ----------
        privacy : PrivacyGuarantee or None
            What they have spent; None without noise.
        one_of_several : bool
            Whether the model was chosen among others.

        Returns
        -------
        Receipt
        """
        assert self.quote is not None  # of a model that has no promise none is changed
        return replace(
            self,
            quote=replace(self.quote, privacy=privacy),
            one_of_several=one_of_several,
        )

    def assuming_parts_of(self, model: Any) -> Self:
        """Add what the promise assumes about nets and other estimators among the parameters.

        Parameters
        ----------
        model : estimator
            The estimator that was fitted.

        Returns
        -------
        Receipt
        """
        if self.quote is None or self.quote.privacy is None:
            return self
        stated = assuming_parts(self.quote.privacy, parts_of(model))
        return replace(self, quote=replace(self.quote, privacy=stated))

    def settled(self, digests: Mapping[str, str], entry: Entry | None = None) -> Self:
        """Add the digests of what a fit left, and its entry in a ledger.

        Parameters
        ----------
        digests : mapping of str to str
            Digest of each fitted attribute and parameter, by name.
        entry : Entry or None, default=None
            What was committed; None keeps the one that is known.

        Returns
        -------
        Receipt
        """
        charged = self.entry if entry is None else (entry.data_set, entry.number)
        return replace(self, digests=digests, entry=charged)


def receipt_of(model: object) -> Receipt | None:
    """Receipt of a fitted estimator of this package; None of any other."""
    found = getattr(model, "__dict__", {}).get("receipt_")
    return found if isinstance(found, Receipt) else None


def bind_each(
    parts: Mapping[str, Any], known: dict[str | int, tuple[Any, str]] | None = None
) -> dict[str, str]:
    """Digest each part of a fitted model, by name.

    For a part that no digest can cover, the reason; "+" after the digest of one that byte code is
    in, and the version of Python that wrote it. `known`: digests of models that are bound together,
    which is filled: of plain parameters by their text, of parts that they share by what they are.
    """
    found = {_PYTHON: platform.python_version()}
    known = {} if known is None else known
    for name, part in parts.items():
        plain = isinstance(part, Recipe) and type(part.of) in _PLAIN
        key = repr(part.of) if plain else id(part)
        if key not in known:
            try:
                bound = bind(part)
                text = bound.digest + "+" * bound.with_code
            except UnboundModelError as error:
                text = str(error)
            known[key] = part, text  # kept, so that no other part has its id
        found[name] = known[key][1]
    return found


def changes(kept: Mapping[str, str] | None, parts: Mapping[str, Any]) -> tuple[str, ...]:
    """List the changes since `bind_each` returned `kept`, in words; empty without changes."""
    if kept is None:
        return ("what its fit left was not noted",)
    now = bind_each(parts)
    found = []
    for name in sorted({*kept, *now} - {_PYTHON}):
        then, here = kept.get(name, "absent"), now.get(name, "absent")
        if not here.startswith("sha256:") and name in now:
            found.append(f"{name} is not known to be what it left: {here}")
        elif then == here:
            continue
        elif then.endswith("+") and here.endswith("+") and kept[_PYTHON] != now[_PYTHON]:
            found.append(
                f"{name} holds your own code, which Python {kept[_PYTHON]} wrote then and Python "
                f"{now[_PYTHON]} cannot compare"
            )
        else:
            found.append(f"{name} is not what it left")
    return tuple(found)
