"""Comparison of the events that a certificate states with the releases of its model and counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from dp_accounting.dp_event import DiscreteLaplaceDpEvent, DpEvent, NoOpDpEvent

from skfairdp.foundation.figures import as_given
from skfairdp.privacy.accounting.events import canonical, parts_of
from skfairdp.privacy.accounting.exposure import Exposure
from skfairdp.privacy.guarantee import PrivacyGuarantee


def unlike_training(
    stated: PrivacyGuarantee, own: PrivacyGuarantee, *, others: bool
) -> Iterator[str]:
    """Name releases of a model that a certificate leaves out, and those that it adds.

    `others`: whether other steps were charged too, so that their releases are added. Tables of
    counts always may be. Totals without an event, and files of earlier versions, are not compared.
    """
    if stated.event is None or own.event is None:
        return
    if not _follows(stated.event, own.event, others):
        yield "the stated events are not those of the model's training"
    if not stated.exposures or own.exposures is None:
        return
    for share in own.exposures or (Exposure(own.event),):
        same = (one.event for one in stated.exposures if one.groups == share.groups)
        if not any(_follows(event, share.event, others) for event in same):
            yield "the stated exposures are not those of the model's training"
            return


def uncounted_tables(stated: PrivacyGuarantee, prices: Iterable[float]) -> Iterator[str]:
    """Name noisy tables of counts, given by their cost, that are not among the stated events."""
    tables = {price: DiscreteLaplaceDpEvent(price, 1) for price in prices}
    if stated.event is None or not tables:
        return
    whole = _counted(stated.event)
    shares = [_counted(share.event) for share in stated.exposures or ()] or [whole]
    missing = [
        price
        for price, table in tables.items()
        if table not in whole or not any(table in share for share in shares)
    ]
    for price in missing:
        yield f"the noisy counts at ε = {as_given(price)} are not among the stated events"
    # A record is in all of them.
    if not missing and not any(all(one in share for one in tables.values()) for share in shares):
        yield "the noisy counts of a record are stated as of different records"


def _follows(whole: DpEvent, part: DpEvent, others: bool) -> bool:
    """Whether an event holds another one, and in addition only what is allowed."""
    rest = _counted(whole)
    rest.subtract(_counted(part))
    added = [one for one, count in rest.items() if count > 0]
    tables = all(isinstance(one, DiscreteLaplaceDpEvent) for one in added)
    return all(count >= 0 for count in rest.values()) and (others or tables)


def _counted(event: DpEvent) -> Counter[DpEvent]:
    found: Counter[DpEvent] = Counter()
    for part, count in parts_of(canonical(event)):
        found[part] += count
    del found[NoOpDpEvent()]
    return found
