"""Charge of one fit: entered in a ledger before rows are used, and committed at the end."""

from __future__ import annotations

from typing import Any

from skfairdp.foundation.figures import significant_up
from skfairdp.privacy.guarantee import PrivacyGuarantee
from skfairdp.privacy.ledger import Entry, PrivacyLedger, as_ledger
from skfairdp.receipts.quoted import NOISELESS


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

    def __init__(
        self,
        model: Any,
        *,
        within: Charge | None = None,
        stated: PrivacyGuarantee | None = None,
    ) -> None:
        self._model, self._within, self._stated = model, within, stated
        self._entry: Entry | None = None
        self._second: Charge | None = None
        self._book: PrivacyLedger | None = None  # None: that of the model
        self._elsewhere = False
        self.uncounted: PrivacyGuarantee | None = None  # what is spent where there is no ledger

    def __call__(self, promised: PrivacyGuarantee | None) -> None:
        """Enter what the fit is about to spend; None for a fit without noise."""
        stated = promised if self._stated is None else self._stated
        if self._within is not None:
            self._within(stated)
            return
        ledger = self._ledger
        if self._entry is not None or self._elsewhere:
            return
        if ledger is None:
            if stated is not None and not stated.is_void:
                self.uncounted = stated
            return
        planned = [(stated or NOISELESS, type(self._model).__name__)]
        if self._second is not None:
            planned.append((self._second._stated or NOISELESS, type(self._second._model).__name__))
        activity = self._model._activity
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
        if ledger is None or self._elsewhere or self._within is not None:
            return None
        if self._entry is None:
            raise RuntimeError(
                f"{type(self._model).__name__} has a ledger and charged nothing: its _fit must "
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
        elif self.uncounted is not None:
            error.add_note(
                f"Count ε = {significant_up(self.uncounted.epsilon)} as spent on these rows: "
                "something may have been released before this error, and no ledger was named."
            )

    @property
    def _ledger(self) -> PrivacyLedger | None:
        given = self._model.ledger if self._book is None else self._book
        return None if given is None else as_ledger(given)


def _place(ledger: PrivacyLedger) -> tuple[object, str]:
    """File and data set."""
    return ledger.path, ledger.data_set
