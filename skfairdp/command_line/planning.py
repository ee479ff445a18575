"""``plan``: the tolerance that a run could show, and its cost, before anything is spent."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from shlex import quote as quote_word
from typing import Any

import numpy as np
import pandas as pd

from skfairdp import PrivacyLedger, certifiable, quote
from skfairdp.command_line.accounts import default_note
from skfairdp.command_line.request import Request, encoder_of, estimator_of
from skfairdp.command_line.table import People
from skfairdp.fairness.notions import NOTIONS
from skfairdp.fairness.number_notions import GRID_CELLS
from skfairdp.fairness.smallest_gap import USEFUL, Showing, rate_variance, showing
from skfairdp.foundation import assumptions
from skfairdp.foundation.figures import as_given, rounded_up, significant_up
from skfairdp.privacy.guarantee import PrivacyGuarantee
from skfairdp.receipts import Quote
from skfairdp.receipts.room import LedgerRoom, room_after

# Share of epsilon that learns bins and categories, as `fit_within` has it.
TABLE_SHARE = 0.3
# Below this chance a run is not made without being asked for.
LIKELY = 0.5
# Mechanisms that train for no tolerance.
NO_TOLERANCE = ("dpsgd", "fairdp")
# Rates at which rows show least, and at which they show much.
_HALF, _EXTREME = 0.5, 0.1
# Notions that compare rates among rows with one true label.
BY_LABEL = {n for n, each in NOTIONS.items() if each.needs_labels and each.compares_predictions}


@dataclass(frozen=True, eq=False)
class Outlook:
    """Prospects of a report, from public numbers of rows; no label and no feature is looked at.

    `held`: which rows are held out, where these are public; else only how many to expect.
    """

    request: Request
    people: People
    held: np.ndarray | None = None
    # Certificates that were planned, by notion and rate; a bound of noisy counts takes time.
    _planned: dict[tuple[str, float], Showing] = field(default_factory=dict)

    @cached_property
    def sizes(self) -> dict[str, int]:
        """Rows of each group, or persons."""
        return self._counted(np.ones(len(self.people.y), dtype=bool))

    @cached_property
    def certified_on(self) -> dict[str, int]:
        """Rows of each group that are held out, or persons: expected ones where that is secret."""
        if self.held is not None:
            return self._counted(self.held)
        share = self.request.held_out
        return {name: math.floor(size * share) for name, size in self.sizes.items()}

    @property
    def trained_on(self) -> dict[str, int]:
        return {name: size - self.certified_on[name] for name, size in self.sizes.items()}

    def _counted(self, chosen: np.ndarray) -> dict[str, int]:
        _, first = np.unique(self.people.persons.codes, return_index=True)  # a row of each person
        groups = pd.DataFrame(self.people.groups.iloc[first[chosen[first]]])
        sizes = groups.groupby(list(groups), observed=True).size()
        return {
            " and ".join(map(str, n)) if isinstance(n, tuple) else str(n): int(size)
            for n, size in sizes.items()
        }

    def shares(self, notion: str) -> tuple[float, ...]:
        """Shares of a group's rows that the notion compares: all, or those of each label."""
        if notion not in BY_LABEL:
            return (1.0,)
        n_outcomes = len(self.people.outcomes)
        if n_outcomes > 2:
            return (1.0 / n_outcomes,)
        base = _HALF if self.request.base_rate is None else self.request.base_rate
        return (base,) if notion == "equal_opportunity" else (base, 1.0 - base)

    def showing(self, notion: str, rate: float = _HALF) -> Showing:
        """Plan the certificate of one notion; of several labels, that which shows least."""
        if (notion, rate) in self._planned:
            return self._planned[notion, rate]
        found = []
        for share in self.shares(notion):
            sizes = {name: max(1, int(n * share)) for name, n in self.certified_on.items()}
            found.append(
                showing(
                    sizes,
                    self.request.tolerance,
                    rate=rate,
                    confidence_level=self.request.confidence,
                    n_claims=self._n_compared,
                    count_epsilon=self.request.answers_epsilon,
                )
            )
        least = min(found, key=lambda each: each.chance(0.0))
        return self._planned.setdefault((notion, rate), least)

    @property
    def _n_compared(self) -> int:
        """Rates that share the error probability; of numbers, shares up to each end of a cell."""
        return len(self.request.notion) if self.request.numeric is None else GRID_CELLS - 1

    def spread(self, notion: str, rate: float = _HALF) -> float:
        """Standard deviation of the gap among the rows trained on around the true one."""
        share = min(self.shares(notion))
        smallest = sorted(max(1.0, n * share) for n in self.trained_on.values())[:2]
        return math.sqrt(sum(rate_variance(rate, n) for n in smallest))

    @cached_property
    def aim(self) -> float:
        """Largest gap of the rows trained on with which the tolerance is shown in nine of ten runs.

        At rates of one half, where rows show least. Not below a quarter of the tolerance: smaller
        gaps cost accuracy, and the noise of the training leaves them no meaning.
        """
        wanted = [self.showing(n).largest_gap(spread=self.spread(n)) for n in self.request.notion]
        return max(min(wanted), self.request.tolerance / 4.0)

    def chances(self, gap: float, rate: float) -> float:
        """Chance that all notions are shown at a true gap."""
        return min(
            self.showing(notion, rate).chance(gap, self.spread(notion, rate) if gap else 0.0)
            for notion in self.request.notion
        )

    @cached_property
    def is_likely(self) -> bool:
        """Whether rows can show the tolerance, at the rates that need the fewest of them."""
        return self.chances(0.0, _EXTREME) >= LIKELY

    @cached_property
    def fits(self) -> tuple[Quote, ...]:
        """Quotes of the training."""
        people, request = self.people, self.request
        epsilon = request.epsilon
        model = estimator_of(request, people, self.aim, None)
        found = []
        if people.learned:
            table = encoder_of(people, None)
            table.set_params(
                epsilon=TABLE_SHARE * epsilon, delta=min(table.delta, request.delta / 10.0)
            )
            columns: list[Any] = list(people.X.columns)
            found.append(quote(table, n_rows=sum(self.trained_on.values()), columns=columns))
            model.set_params(epsilon=epsilon * math.sqrt(1.0 - TABLE_SHARE**2))
        groups = None if request.mechanism == "dpsgd" else self.trained_on
        given: dict[str, Any] = {"n_rows": sum(self.trained_on.values()), "groups": groups}
        found.append(quote(model, n_features=len(people.X.columns), **given))
        return tuple(found)

    def lines(self, ledger: PrivacyLedger | None) -> Iterator[str]:
        """Say it all."""
        yield from self._rows()
        for notion in self.request.notion:
            yield from self.shown(notion)
        yield self._trained_for()
        yield from self._training()
        yield from self._ledger(ledger)
        yield "Nothing was spent, and nothing was written."

    @property
    def _unit(self) -> str:
        return "rows" if self.people.ids is None else "persons"

    def _rows(self) -> Iterator[str]:
        width = max(map(len, (*self.sizes, "all")))
        columns = " and ".join(self.request.sensitive)
        yield (
            f"{self._unit.capitalize()} of each group by {columns} (those drawn for either part "
            "are expected):"
        )
        head = f"  {'':{width}}  {'in all':>10}  {'train':>10}  {'certify':>10}"
        base = self.request.base_rate
        labelled = base is not None and BY_LABEL & {*self.request.notion}
        yield head + (f"  {'favourable':>10}  {'other':>10}" if labelled else "")
        for name, size in self.sizes.items():
            held = self.certified_on[name]
            line = f"  {name:{width}}  {size:>10,}  {self.trained_on[name]:>10,}  {held:>10,}"
            if labelled and base is not None:
                line += f"  {int(held * base):>10,}  {held - int(held * base):>10,}"
            yield line
        yield from self._spelt_alike()
        if labelled and base is not None:
            yield f"  (labels by the declared --base-rate {as_given(base)}; none was looked at)"

    def _spelt_alike(self) -> Iterator[str]:
        """Ask about values of groups that differ in capitals and blanks alone."""
        for name, column in pd.DataFrame(self.people.groups).items():
            found = defaultdict[str, list[str]](list)
            for value in column.unique():
                found["".join(str(value).casefold().split())].append(str(value))
            for first, *others in (sorted(values) for values in found.values()):
                if others:
                    merged = quote_word(f"{first}={','.join(others)}")
                    yield (
                        f"  (values of {name} differ in capitals or blanks alone; if they are one "
                        f"group: --merge {merged})"
                    )

    def shown(self, notion: str) -> Iterator[str]:
        tolerance = self.request.tolerance
        usual = "" if self.request.tolerance_is_named else " (the default of --tolerance)"
        half, extreme = (self.showing(notion, rate) for rate in (_HALF, _EXTREME))
        words = notion.replace("_", " ")
        if self.request.numeric is None:
            yield (
                f"{words.capitalize()}: if all groups had the same rate, a tolerance of "
                f"{tolerance:g}{usual} would be shown with a probability of "
                f"{_percent(half.chance(0.0))} at rates near one half, and of "
                f"{_percent(extreme.chance(0.0))} at rates near 0.1 or 0.9."
            )
        else:
            yield (
                "Distributions of predictions: if they were the same in all groups, a tolerance "
                f"of {tolerance:g}{usual} would be shown with a probability of "
                f"{_percent(half.chance(0.0))}."
            )
        if half.chance(0.0) < LIKELY and tolerance >= 0.01:
            needed = certifiable(
                self.certified_on,
                tolerance,
                confidence_level=self.request.confidence,
                n_claims=self._n_compared,
                count_epsilon=self.request.answers_epsilon,
            )
            if needed.rows_needed is not None:
                where = "At rates near one half that" if self.request.numeric is None else "That"
                yield (
                    f"{where} takes at least about {needed.rows_needed:,} {self._unit} to certify "
                    "on in each group."
                )
            yield from self._too_small(needed.too_small)
            yield from self._can_be_shown(notion)
        if notion in BY_LABEL:
            each = "the favourable" if len(self.shares(notion)) == 1 else "either"
            fewest = int(min(self.certified_on.values()) * min(self.shares(notion)))
            base = self.request.base_rate
            unknown = "numbers of outcomes are private, and none was looked at"
            if len(self.people.outcomes) > 2:
                each, basis = "each", f"if all are as frequent; {unknown}"
            elif base is None:
                basis = f"if half of each group have it; {unknown}: say --base-rate if the share "
                basis += "is publicly known"
            else:
                basis = f"by --base-rate {as_given(base)}"
            yield (
                f"{words.capitalize()} compares {self._unit} of {each} true outcome by themselves: "
                f"about {fewest:,} of the smallest group ({basis})."
            )

    def _can_be_shown(self, notion: str) -> Iterator[str]:
        """Name the tolerance that would be shown in nine runs of ten, under the same assumption."""
        half, extreme = (self.showing(notion, rate).smallest for rate in (_HALF, _EXTREME))
        if half >= USEFUL:
            return
        if self.request.numeric is not None:
            equal, where = "distributions", "."
        else:
            equal, where = "rates", f" at rates near one half, and of {rounded_up(extreme, 2)} at "
            where += "rates near 0.1 or 0.9."
        yield (
            f"With equal {equal}, nine runs of ten would show a tolerance of "
            f"{rounded_up(half, 2)}{where}"
        )

    def _too_small(self, groups: tuple[Hashable, ...]) -> Iterator[str]:
        """Name groups that are too small against every other one, and the options that help."""
        if not groups or len(self.sizes) == len(groups):
            return  # all are too small: no choice of groups helps
        names = [str(group) for group in groups]
        ways = "a larger --held-out gives all groups more rows to certify on"
        if len(self.sizes) > 2 and len(self.request.sensitive) == 1:
            merged, left = (quote_word(",".join(names[:2])), quote_word(names[0]))
            merged = merged if len(names) > 1 else f"{left},ANOTHER"
            ways = (
                f"put them together with groups that are treated like them (--merge "
                f"NEW={merged}), or leave them out of the training and of the claim "
                f"(--leave-out {left}); {ways}"
            )
        elif len(self.sizes) > 2:
            ways = (
                "compare fewer columns of --sensitive at a time, put values together (--merge "
                f"NEW=A,B), or leave them out (--leave-out VALUE); {ways}"
            )
        named = ", ".join(f"“{name}”" for name in names)  # a group may be called 0
        yield f"Too small against every other group: {named}. What helps: {ways}."

    def _trained_for(self) -> str:
        aim = self.aim
        if self.request.mechanism in NO_TOLERANCE:
            return (
                f"{self.request.mechanism} trains for no tolerance: what gap results is not known."
            )
        chance = _percent(self.chances(aim, _HALF))
        if self.request.numeric is not None:
            return (
                f"Trained for distributions at most {aim:.3f} apart among the rows trained on. "
                "Where the model reaches that, the tolerance is shown with a probability of "
                f"{chance}. It does not see the group when it predicts, so it may not."
            )
        return (
            f"Trained for a gap of at most {aim:.3f} among the rows trained on: then the tolerance "
            f"is shown with a probability of {chance} at rates near one half, the worst ones. "
            + (
                "One fit then offers a model for every gap, and noisy rates of its decisions show "
                "which of these models to take, by the same rule."
                if self.request.mechanism == "fair-path"
                else ""
            )
        ).strip()

    def _training(self) -> Iterator[str]:
        *tables, model = self.fits
        for release in model.releases[:1]:
            yield (
                f"Training: {model.estimator}, {release.times:,} noisy steps of about "
                f"{release.expected_records:,.0f} {self._unit} each, noise multiplier "
                f"{release.multiplier:.3g}."
            )
        if model.verdict is not None:
            yield model.verdict.text
        for table in tables:
            n = len(self.people.learned)
            spent, left = (significant_up(each.epsilon, 3) for each in (table, model))
            columns = "1 column is" if n == 1 else f"{n} columns are"
            yield (
                f"{columns} not declared: their bins and categories are learned with ε = {spent}, "
                f"and the model is trained with ε = {left}. Together that costs ε = "
                f"{as_given(self.request.epsilon)}, which is less than the sum. A value of a "
                f"column that fewer than about {_shown_from(table):,} {self._unit} have becomes "
                "“(other)”. A schema (skfairdp schema) would save this part of ε and keep rare "
                "values, and is worth its work below some 10,000 rows."
            )

    def _ledger(self, ledger: PrivacyLedger | None) -> Iterator[str]:
        note = default_note(self.request, ledger)
        if note is not None:
            yield note
        room = room_after(ledger, [whole_charge(self.request, self.people)])
        if room is None:
            yield "No ledger: nothing remembers what these people have spent."
            return
        yield f"Ledger before: {_sums(room)}."
        if room.refusal is not None:
            yield f"The ledger would refuse the run: {room.refusal}"


def whole_charge(request: Request, people: People) -> PrivacyGuarantee:
    """State the cost of a run whose held-out rows are protected, which is charged as one."""
    person = people.ids is not None
    drawn = assumptions.HELD_OUT_BY_PERSON if person else assumptions.HELD_OUT_BY_DRAW
    return PrivacyGuarantee(
        epsilon=request.epsilon,
        delta=request.delta,
        adjacency="zero-out",
        protects="person" if person else "record",
        accountant="the larger of the training and the counts of held-out rows",
        assumptions=(drawn, assumptions.GROUPS_SEEN),
    )


def _shown_from(table: Quote) -> int:
    from skfairdp.engine.table_release import threshold

    assert table.plan is not None
    segment = max(table.plan.segments, key=lambda each: each.failure)
    return math.ceil(threshold(segment.multiplier(0), segment.failure)) if segment.failure else 1


def _percent(chance: float) -> str:
    if chance > 0.99:
        return "more than 99 %"
    return "less than 1 %" if chance < 0.01 else f"about {chance:.0%}".replace("%", " %")


def _sums(room: LedgerRoom) -> str:
    """Print the totals before and after; at the delta of the budget, it is named once."""
    sums = [*room.before, *room.after]
    if room.budget is None:
        return f"{_total(room.before)}; after: {_total(room.after)}; no budget is set"
    epsilon, delta = room.budget
    if any(each.delta != delta for each in sums):
        whole = f"ε = {as_given(epsilon)}, δ = {as_given(delta)}"
        return f"{_total(room.before)}; after: {_total(room.after)}, of a budget of {whole}"
    before, after = (_total(each, with_delta=False) for each in (room.before, room.after))
    return (
        f"{before}; after: {after}, of a budget of ε = {as_given(epsilon)} (all at the budget's "
        f"δ = {as_given(delta)})"
    )


def _total(totals: tuple[PrivacyGuarantee, ...], *, with_delta: bool = True) -> str:
    if not totals:
        return "nothing spent"
    return ", ".join(
        f"ε = {significant_up(each.epsilon, 4)}"
        + (f", δ = {significant_up(each.delta)}" if with_delta else "")
        + f" ({each.protects}, {each.adjacency})"
        for each in totals
    )
