"""Fairness claim: a bound with its scope, method, counts and assumptions."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

from numpy.typing import NDArray

from skfairdp.fairness.derivation import Derivation
from skfairdp.fairness.kinds import KINDS
from skfairdp.fairness.notions import NOTIONS, Stratum, get_notion, meaning_of
from skfairdp.fairness.scopes import DEPLOYED, FROM_ROWS, SCOPES
from skfairdp.fairness.smallest_gap import USEFUL, certifiable
from skfairdp.foundation.figures import rounded_up
from skfairdp.foundation.parameters import NONE, PROBABILITY, Number, check_arguments, check_values

RARE = 0.01  # selection rates below this, or above one minus this, make a model nearly constant
_UNIT = Number(0.0, 1.0)


@dataclass(frozen=True)
class CellCount:
    """Counts of one cell behind a claim.

    Parameters
    ----------
    group : hashable
        Group label.
    stratum : str
        What the rate is conditioned on; empty where on nothing.
    successes : float
        Rows that count as a success; a sum of probabilities for a randomised predictor,
        a noisy count where `noisy`.
    trials : float
        Rows of the cell.
    noisy : bool, default=False
        Whether noise protects the rows behind the counts.
    low, high : float or None, default=None
        Interval of 95 % of this cell's rate, where the counts alone don't give it, for noise.
    """

    group: Hashable
    stratum: str
    successes: float
    trials: float
    noisy: bool = False
    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        number = Number() if self.noisy else Number(0.0)
        check_arguments(vars(self), successes=number, trials=number)
        if not self.noisy and self.successes > self.trials * (1 + 1e-12):
            raise ValueError(f"{self.successes!r} successes of {self.trials!r} are impossible.")
        if (self.low is None) is not (self.high is None):
            raise ValueError("An interval needs both 'low' and 'high'.")
        if self.low is not None and self.high is not None:
            check_arguments(vars(self), high=_UNIT)
            check_arguments(vars(self), low=Number(0.0, self.high))
        object.__setattr__(self, "group", label_from_json(json_label(self.group)))

    @property
    def rate(self) -> float | None:
        """Successes over rows, limited to [0, 1], beyond which noise can move it; None: no rows."""
        if self.trials <= 0:
            return None
        return min(max(self.successes / self.trials, 0.0), 1.0)


def cell_counts(
    strata: Sequence[Stratum], labels: tuple, *figures: NDArray, noisy: bool = False
) -> tuple[CellCount, ...]:
    """Counts of every group in every stratum, as claims store them.

    `figures`: successes and rows; if they are noisy, lower and upper ends of intervals too.
    """
    cells = itertools.product(strata, labels)
    figures_of = zip(*(figure.ravel().tolist() for figure in figures), strict=True)
    return tuple(
        CellCount(label, stratum.name, hits, rows, noisy, *ends)
        for (stratum, label), (hits, rows, *ends) in zip(cells, figures_of, strict=True)
    )


@dataclass(frozen=True)
class FairnessGuarantee:
    """An upper bound on the largest difference of rates between two groups.

    Parameters
    ----------
    notion : str
        Which rates: a name of `skfairdp.fairness.notions.NOTIONS`, or of your own notion.
    bound : float in [0, 1]
        The largest difference is at most this.
    scope : str
        What the claim is about. "deployed model": this very model's answers to people like those
        held out, counted. "averaged over its draws", "any population": the average over all keys
        that its draws could have had, for such people or for all. "training mechanism": the average
        over the noise of training. "any downstream predictor", or "... of such people": whatever is
        predicted from a private release, or from one fair code, averaged over its noise. "answered
        queries": the answers that a parity gate let pass. See docs/theory/certificate.md.
    method : str
        How the bound was derived.
    estimate : float or None
        Largest observed difference, where rows were observed.
    confidence_level : float or None
        Probability that the bound holds over the draw of the held-out rows; None for a claim
        without statistical error.
    groups : tuple
        Labels of the groups that are compared.
    counts : tuple of CellCount
        The counts behind the bound.
    assumptions : tuple of str
        What must be true for the claim to hold.
    derivation : Derivation or None
        How the bound follows from the counts, so that it can be computed again.
    words : tuple of two str, or None
        Rates and meaning of your own notion, `Notion.words`; None for a known name.

    Raises
    ------
    ValueError
        For a name that is not known, and for figures that no claim can have.

    Examples
    --------
    >>> from skfairdp.fairness.guarantee import FairnessGuarantee
    >>> claim = FairnessGuarantee("demographic_parity", 0.1042, "deployed model", "exact",
    ...                           confidence_level=0.95, groups=("F", "M"))
    >>> claim.informative, claim.figure
    (True, '0.105')
    """

    notion: str
    bound: float
    scope: str
    method: str
    estimate: float | None = None
    confidence_level: float | None = None
    groups: tuple[Hashable, ...] = ()
    counts: tuple[CellCount, ...] = ()
    assumptions: tuple[str, ...] = ()
    derivation: Derivation | None = None
    words: tuple[str, str] | None = None

    def __post_init__(self) -> None:
        if self.words is None:
            get_notion(self.notion)
        else:
            object.__setattr__(self, "words", _checked_words(self.notion, self.words))
        scope, level, how = self.scope, self.confidence_level, self.derivation
        if scope not in SCOPES:
            raise ValueError(f"scope={scope!r} is not known; use one of {[*SCOPES]}.")
        if (level is None) is (scope in FROM_ROWS):
            raise ValueError(
                f"confidence_level={level!r} contradicts scope={scope!r}: bounds of the scopes "
                f"{FROM_ROWS} are estimated from rows, and no others are."
            )
        if how is not None and scope not in KINDS[how.kind].methods:
            raise ValueError(f"A bound of kind {how.kind!r} contradicts scope={scope!r}.")
        if scope == DEPLOYED and any(not c.noisy and c.successes % 1 for c in self.counts):
            raise ValueError(
                f"Successes that are not whole numbers contradict scope={scope!r}: it counts them."
            )
        optional = (NONE, PROBABILITY), (NONE, _UNIT)
        check_arguments(vars(self), bound=_UNIT, confidence_level=optional[0], estimate=optional[1])
        # At less confidence than one half a bound may lie below what was observed.
        sure = level is None or level >= 0.5
        if sure and self.estimate is not None and self.estimate > self.bound + 1e-9:
            raise ValueError(
                f"bound={self.bound!r} lies below what was observed, estimate={self.estimate!r}."
            )
        # Labels that JSON does not know are kept as text, so that a stored claim equals itself.
        labels = tuple(label_from_json(json_label(group)) for group in self.groups)
        object.__setattr__(self, "groups", labels)
        object.__setattr__(self, "counts", tuple(self.counts))
        object.__setattr__(self, "assumptions", tuple(self.assumptions))

    @property
    def informative(self) -> bool:
        """Whether the bound is below one half, at the printed precision."""
        return float(rounded_up(self.bound)) < USEFUL

    @property
    def nearly_constant(self) -> bool:
        """Whether counted decisions are almost all alike, so that equal rates say little."""
        if self.notion != "demographic_parity" or self.scope != DEPLOYED:
            return False
        sums = [
            (sum(cell.successes for cell in cells), sum(cell.trials for cell in cells))
            for cells in self._by_stratum.values()
        ]
        rates = [hits / rows for hits, rows in sums if rows > 0]
        # Of several classes each is rare; one that is nearly always given makes it constant.
        return max(rates, default=0.5) > 1.0 - RARE or (len(rates) == 1 and rates[0] < RARE)

    @property
    def _by_stratum(self) -> dict[str, list[CellCount]]:
        found: dict[str, list[CellCount]] = {}
        for count in self.counts:
            found.setdefault(count.stratum, []).append(count)
        return found

    @property
    def remarks(self) -> tuple[str, ...]:
        """Remarks for readers in addition to the bound: rates, shifts, ways to a smaller bound."""
        if self.scope != DEPLOYED or not self.counts or self.confidence_level is None:
            return ()
        texts = []
        if self.nearly_constant:
            texts.append(
                "NEARLY CONSTANT: almost all people get the same decision (selection rate below "
                "1 % or above 99 %). Equal rates are then no merit."
            )
        word = "Noisy" if any(count.noisy for count in self.counts) else "Observed"
        for stratum, cells in self._by_stratum.items():
            where = f" ({stratum})" if stratum else ""
            shown = (
                f"{group_text(c.group)} {'none' if c.rate is None else f'{c.rate:.3f}'}"
                for c in cells
            )
            limited = any(not 0.0 <= c.successes <= c.trials for c in cells if c.trials > 0)
            note = " (limited to [0, 1]: noise moved a count beyond)" * limited
            texts.append(f"{word} {self.rates}{where}{note}: {', '.join(shown)}.")
        if self.informative:
            texts.append(
                "If the people change: as long as each group differs from its people held out by "
                "a total-variation distance of at most v (within each true label, for rates given "
                f"one), the gap by {self.notion.replace('_', ' ')} is at most {self.figure} + 2 v: "
                f"{rounded_up(round(self.shifted(0.05), 12))} for v = 0.05."
            )
        else:
            texts.append(f"{self.notion}: no useful bound. {self._remedy()}")
        return tuple(texts)

    def shifted(self, distance: float) -> float:
        """Bound on the gap among people that differ from those held out.

        Parameters
        ----------
        distance : float in [0, 1]
            Total-variation distance of each group's people (for rates given a label, among
            those with the same one) from those of the claim. A rate moves by that at most.

        Returns
        -------
        float
        """
        check_values(distance=(distance, _UNIT))
        return min(1.0, self.bound + 2.0 * distance)

    def _remedy(self) -> str:
        """Remark on the changes that would make a bound from counts useful."""
        assert self.confidence_level is not None
        strata = self._by_stratum.values()
        sizes = min(([max(0, round(c.trials)) for c in cells] for cells in strata), key=min)
        values = {} if self.derivation is None else self.derivation.values
        noise = any(count.noisy for count in self.counts)
        if len(sizes) > 1:
            found = certifiable(
                dict(zip(self.groups, sizes, strict=True)),
                USEFUL,
                confidence_level=self.confidence_level,
                n_claims=values.get("claims", 1),
                count_epsilon=values.get("epsilon") if noise else None,
                cell_sizes="public" if values.get("public_sizes") else "private",
            )
            if not found.possible:
                return str(found)
        if self.estimate is not None and self.estimate < USEFUL:
            return "More rows, or less noise, would help." if noise else "More rows would help."
        return "What was observed is that far apart: more rows alone would not help."

    @property
    def figure(self) -> str:
        """The bound for printing: rounded up, or "no useful bound"."""
        return rounded_up(self.bound) if self.informative else "no useful bound"

    @property
    def rates(self) -> str:
        """The compared rates in words."""
        return get_notion(self.notion).rates if self.words is None else self.words[0]

    @property
    def meaning(self) -> str:
        """Explain the comparison in one sentence for readers who are not statisticians."""
        if self.words is not None:
            return self.words[1]
        return meaning_of(self.notion, len({count.stratum for count in self.counts}))

    def to_dict(self) -> dict[str, Any]:
        """Return a dict of JSON types."""
        document = asdict(self) | {
            "groups": [json_label(group) for group in self.groups],
            "counts": [asdict(one) | {"group": json_label(one.group)} for one in self.counts],
            "assumptions": list(self.assumptions),
            "derivation": None if self.derivation is None else self.derivation.to_dict(),
        }
        words = document.pop("words")
        return document if words is None else document | {"words": list(words)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Rebuild a guarantee from `to_dict`.

        Parameters
        ----------
        values : mapping
            What `to_dict` returned, perhaps after a round trip through JSON.

        Returns
        -------
        FairnessGuarantee
        """
        content = dict(values)
        content["groups"] = tuple(label_from_json(group) for group in content["groups"])
        content["counts"] = tuple(
            CellCount(**(one | {"group": label_from_json(one["group"])}))
            for one in content["counts"]
        )
        how = content.pop("derivation", None)  # earlier versions did not store it
        return cls(**content, derivation=None if how is None else Derivation.from_dict(how))


def _checked_words(notion: object, words: object) -> tuple[str, str]:
    """Rates and meaning of a notion that has no known name."""
    texts = (notion, *words) if isinstance(words, tuple | list) else ()
    if len(texts) != 3 or not all(isinstance(text, str) and text.strip() for text in texts):
        raise ValueError(f"'words' of {notion!r} must be its rates and meaning; got {words!r}.")
    if notion in NOTIONS:
        raise ValueError(
            f"'words' of {notion!r} are those of skfairdp; got {words!r}. Leave them out, or give "
            "your notion a name of its own."
        )
    return texts[1], texts[2]


def group_text(group: Hashable) -> str:
    """Print a group label; an intersection as its parts."""
    return " & ".join(map(str, group)) if isinstance(group, tuple) else str(group)


def json_label(label: Hashable) -> Any:
    """Group label as JSON types; anything but text, numbers and tuples becomes text."""
    if isinstance(label, tuple):
        return [json_label(part) for part in label]
    return label if isinstance(label, str | int | float | bool | None) else str(label)


def label_from_json(value: Any) -> Hashable:
    """Group label from its JSON form; inverse of `json_label`."""
    return tuple(label_from_json(part) for part in value) if isinstance(value, list) else value
