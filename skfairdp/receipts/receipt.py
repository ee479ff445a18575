"""Receipt of a fit: the quote that it kept to, and digests of the fitted state."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from skfairdp.exceptions import UnboundModelError
from skfairdp.privacy.guarantee import PrivacyGuarantee
from skfairdp.privacy.ledger import Entry
from skfairdp.receipts.digests.digest import bind
from skfairdp.receipts.digests.state import Recipe
from skfairdp.receipts.quoted import Quote

_PLAIN = (type(None), bool, int, float, str)
_PYTHON = "python"  # no attribute or parameter is called so, as they end in _ or have a prefix


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
