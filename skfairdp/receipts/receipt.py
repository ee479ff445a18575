"""Receipt of a fit: the quote that it kept to, and digests of what it left."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from skfairdp.privacy.guarantee import PrivacyGuarantee
from skfairdp.privacy.ledger import Entry
from skfairdp.receipts.quoted import Quote


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

    @property
    def stated(self) -> Quote:
        """The quote; an AttributeError where there is none."""
        if self.quote is None:
            raise AttributeError("This model has no guarantee of its own; see the model inside it.")
        return self.quote

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
        return replace(
            self,
            quote=replace(self.stated, privacy=privacy),
            one_of_several=one_of_several,
        )

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
