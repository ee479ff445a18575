"""Fairness notions: the rows that count, and the successes among them.

Every notion is a largest difference of rates between two groups. A rate is
taken over a stratum: the rows whose (label, prediction) pair lies in a fixed set of
*trials*; the pairs of a smaller set are *successes*. So all notions are read off one
table of counts, (group x label x prediction), which is also what is released when the
counts are private. Four have names of their own; any other is a `Notion` that you write.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_Rates = Iterable[tuple[str, NDArray[np.bool_], NDArray[np.bool_]]]
_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")


@dataclass(frozen=True, eq=False)
class Stratum:
    """One rate of a notion, as disjoint masks (n_labels, n_classes) that are trials together."""

    name: str  # what the rate is conditioned on, in words; empty where on nothing
    successes: NDArray[np.bool_]
    failures: NDArray[np.bool_]

    def count(self, table: NDArray) -> tuple[NDArray, NDArray]:
        """Successes and failures of each group, of counts (n_groups, n_labels, n_classes)."""
        return table[:, self.successes].sum(axis=1), table[:, self.failures].sum(axis=1)

    def beside_unlabelled(self, counted: bool) -> Stratum:
        """The same rate of a table whose last label stands for rows without one, counted or not."""
        masks = self.successes, self.failures
        return Stratum(self.name, *(np.vstack([mask, mask[:1] & counted]) for mask in masks))


def stack(strata: Sequence[Stratum], table: NDArray) -> tuple[NDArray, NDArray]:
    """Successes and failures, two arrays of shape (n_strata, n_groups)."""
    counts = [stratum.count(table) for stratum in strata]
    return np.stack([hit for hit, _ in counts]), np.stack([miss for _, miss in counts])


@dataclass(frozen=True, kw_only=True)
class Notion:
    """A fairness notion: the largest difference of certain rates between groups.

    `RateConstrainedClassifier`, `LagrangianDualClassifier`, `PrivateSearchCV`, `group_gap`
    and `certify` take one wherever they take a name; other estimators take names
    alone. Certificates' bounds hold for every notion that passes the checks below: each rate is
    taken among people with certain labels, which exist before any model.

    Parameters
    ----------
    name : str
        Name in lower case with underscores, not one of `NOTIONS`.
    rates : str
        The rates that are compared, in words, e.g. ``"selection rates"``.
    meaning : str
        One sentence for readers who are not statisticians.
    needs_labels : bool
        Whether true labels are needed to evaluate it.
    cells : callable
        Maps the class labels to one (words, trials, successes) for every rate: on what it
        is conditioned, in words, and two masks, bool of shape (n_classes, n_classes), over
        (label, prediction) pairs. Trials are all pairs of certain labels, successes are some
        of the trials; what else `successes` holds is ignored. See `pairs`. A function of a
        module, where models that hold the notion are pickled.

    Examples
    --------
    >>> from skfairdp.fairness.notions import Notion, pairs
    >>> def false_positives(classes):
    ...     return [(f"label {classes[0]}", pairs(classes, label=0), pairs(classes, prediction=1))]
    >>> notion = Notion(
    ...     name="predictive_equality",
    ...     rates="false positive rates",
    ...     meaning="Among people whose true label is negative, the share who are given the "
    ...     "positive outcome is compared between groups.",
    ...     needs_labels=True,
    ...     cells=false_positives,
    ... )
    >>> [stratum.name for stratum in notion.strata(["no", "yes"])]
    ['label no']
    """

    name: str
    rates: str
    meaning: str
    needs_labels: bool
    cells: Callable[[Sequence], _Rates]

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or _NAME.fullmatch(self.name) is None:
            raise ValueError(
                f"'name' of a notion must be in lower case, with underscores; got {self.name!r}."
            )
        for name in ("rates", "meaning"):
            if not isinstance(getattr(self, name), str) or not getattr(self, name).strip():
                raise ValueError(f"{name!r} of the notion {self.name!r} must be a text.")
        if not callable(self.cells):
            raise ValueError(f"'cells' of the notion {self.name!r} must be a function.")

    @property
    def words(self) -> tuple[str, str] | None:
        """Rates and meaning for claims; None for a notion with a known name."""
        return None if self.name in NOTIONS else (self.rates, self.meaning)

    @property
    def compares_predictions(self) -> bool:
        """Whether its rates are shares of predictions among people with certain labels.

        What bounds how far predictions about two groups can differ, for any population, then
        bounds its gap. Not so where a success also depends on the label.
        """
        return all(
            (stratum.successes == stratum.successes[counted].any(axis=0))[counted].all()
            for stratum in self.strata((0, 1))
            for counted in [(stratum.successes | stratum.failures).any(axis=1)]
        )

    @property
    def alike_for_both(self) -> bool:
        """Whether its gap is the same, whichever of two classes is the positive one."""
        rates = [(s.successes, s.failures) for s in self.strata((0, 1))]
        turned = [(s[::-1, ::-1], f[::-1, ::-1]) for s, f in rates]
        as_sets = [
            {frozenset(mask.tobytes() for mask in both) for both in found}
            for found in (rates, turned)
        ]
        return as_sets[0] == as_sets[1]

    def strata(self, classes: Sequence, *, with_labels: bool = True) -> tuple[Stratum, ...]:
        """Return the strata whose rates are compared between groups.

        Two classes: the rates of the second, positive, one. More: every class in its
        turn, so that the largest difference is over classes too.

        Parameters
        ----------
        classes : sequence, length n_classes
            Class labels, in the order of the table's axes.
        with_labels : bool, default=True
            False when the table has a label axis of length 1, because true labels
            were not given.

        Returns
        -------
        tuple of Stratum

        Raises
        ------
        ValueError
            When the notion needs labels and there are none, or its `cells` are not rates.
        """
        if self.needs_labels and not with_labels:
            raise ValueError(
                f"notion={self.name!r} compares rates given the true label, but y is None; pass "
                "the labels of the held-out rows as y."
            )
        # Without labels the table has one label row, and the masks are alike in all of them.
        rows = slice(None) if with_labels else slice(0, 1)
        found = [
            (words, np.asarray(trials), np.asarray(successes))
            for words, trials, successes in self.cells(classes)
        ]
        self._check(found, len(classes))
        return tuple(
            Stratum(words, (trials & successes)[rows], (trials & ~successes)[rows])
            for words, trials, successes in found
        )

    def _check(self, found: list[tuple[str, NDArray, NDArray]], n: int) -> None:
        """Refuse masks that are not rates, or that bounds are not proved for."""
        words = [name for name, _, _ in found]
        if not found or len(set(words)) < len(words):
            raise ValueError(
                f"The notion {self.name!r} needs at least one rate, and a name of its own for "
                f"each; got the rates {words}."
            )
        for name, trials, successes in found:
            masks = trials, successes
            if any(mask.shape != (n, n) or mask.dtype != np.bool_ for mask in masks):
                raise ValueError(
                    f"The notion {self.name!r} needs masks of truth values of shape {(n, n)}, for "
                    f"(label, prediction) pairs; got others for its rate {name!r}."
                )
            if not (trials == trials[:, :1]).all():
                raise ValueError(
                    f"The rate {name!r} of the notion {self.name!r} selects rows by their "
                    "predictions. Select them by the true label alone: 'trials' must be True for "
                    "all predictions of a label, or for none."
                )
            hits = trials & successes
            if not hits.any() or (hits == trials).all():
                raise ValueError(  # without its name, which may hold a label of the rows
                    f"A rate of the notion {self.name!r} is 0, or 1, for every model: let "
                    "'successes' hold some of the 'trials', and not all."
                )
            if not self.needs_labels and not all((mask == mask[0]).all() for mask in masks):
                raise ValueError(
                    f"The rate {name!r} of the notion {self.name!r} depends on true labels: set "
                    "needs_labels=True."
                )


def _watched(classes: Sequence) -> Iterable[int]:
    """Classes whose rate is compared; of two, one rate determines the other."""
    return (1,) if len(classes) == 2 else range(len(classes))


def pairs(
    classes: Sequence, *, label: int | None = None, prediction: int | None = None
) -> NDArray[np.bool_]:
    """Mask of the (label, prediction) pairs with a label, a prediction, or both.

    Parameters
    ----------
    classes : sequence, length n_classes
        Class labels.
    label, prediction : int or None, default=None
        Positions in `classes`; None for any.

    Returns
    -------
    ndarray of bool, shape (n_classes, n_classes)

    Examples
    --------
    >>> from skfairdp.fairness.notions import pairs
    >>> pairs(["no", "yes"], label=1).astype(int).tolist()
    [[0, 0], [1, 1]]
    """
    every = slice(None)
    mask = np.zeros((len(classes), len(classes)), dtype=bool)
    mask[every if label is None else label, every if prediction is None else prediction] = True
    return mask


def _demographic_parity(classes: Sequence) -> _Rates:
    names = [f"prediction {label}" * (len(classes) != 2) for label in classes]
    return [(names[c], pairs(classes), pairs(classes, prediction=c)) for c in _watched(classes)]


def _equal_opportunity(classes: Sequence) -> _Rates:
    return [
        (f"label {classes[c]}", pairs(classes, label=c), pairs(classes, prediction=c))
        for c in _watched(classes)
    ]


def _equalized_odds(classes: Sequence) -> _Rates:
    return [
        (
            f"label {classes[y]}" + ("" if len(classes) == 2 else f", prediction {classes[c]}"),
            pairs(classes, label=y),
            pairs(classes, prediction=c),
        )
        for y in range(len(classes))
        for c in _watched(classes)
    ]


def _accuracy_parity(classes: Sequence) -> _Rates:
    return [("", pairs(classes), np.eye(len(classes), dtype=bool))]


_KNOWN = {  # rates that are compared, the share that each is, and its cells
    "demographic_parity": (
        "selection rates",
        "The share of people who are given the positive outcome",
        _demographic_parity,
    ),
    "equal_opportunity": (
        "true positive rates",
        "Among people whose true label is positive, the share who are given the positive outcome",
        _equal_opportunity,
    ),
    "equalized_odds": (
        "true and false positive rates",
        "Among people whose true label is positive, and among the others, the share who are given "
        "the positive outcome",
        _equalized_odds,
    ),
    "accuracy_parity": (
        "rates of correct predictions",
        "The share of people for whom the prediction is right",
        _accuracy_parity,
    ),
}
# The shares where there are more than two outcomes, and none is the positive one.
_OF_SEVERAL = {
    "demographic_parity": "The share of people who are given an outcome, for each outcome,",
    "equal_opportunity": "Among people of each true label, the share who are given that label",
    "equalized_odds": "Among people of each true label, the share who are given each outcome",
}
NOTIONS: dict[str, Notion] = {
    name: Notion(
        name=name,
        rates=rates,
        meaning=f"{share} is compared between groups.",
        needs_labels=name != "demographic_parity",
        cells=cells,
    )
    for name, (rates, share, cells) in _KNOWN.items()
}

# Notions for which training and proofs are derived in every place that takes a notion by its name
# alone. Add a new one only after deriving them in each place that reads this list.
DERIVED = ("demographic_parity", "equal_opportunity", "equalized_odds", "accuracy_parity")


def meaning_of(name: str, n_rates: int) -> str:
    """Explain a notion with a known name, from its number of rates: two outcomes have fewest."""
    notion = NOTIONS[name]
    if name in _OF_SEVERAL and n_rates > len([*notion.cells((0, 1))]):
        return f"{_OF_SEVERAL[name]} is compared between groups."
    return notion.meaning


def get_notion(notion: str | Notion) -> Notion:
    """Look up a notion.

    Parameters
    ----------
    notion : {"demographic_parity", "equal_opportunity", "equalized_odds", "accuracy_parity"} or \
Notion
        Name of the notion, or your own.

    Returns
    -------
    Notion

    Raises
    ------
    ValueError
        For any other name, and for your own notion with one of these names.

    Examples
    --------
    >>> from skfairdp.fairness.notions import get_notion
    >>> get_notion("equal_opportunity").rates
    'true positive rates'
    """
    if isinstance(notion, Notion):
        if NOTIONS.get(notion.name, notion) != notion:
            raise ValueError(
                f"The name {notion.name!r} belongs to a notion of skfairdp: give yours another "
                "name."
            )
        return notion
    if not isinstance(notion, str) or notion not in NOTIONS:
        raise ValueError(
            f"notion={notion!r} is not known; use one of {sorted(NOTIONS)}, or your own Notion."
        )
    return NOTIONS[notion]


def get_notions(notions: str | Notion | Sequence[str | Notion]) -> tuple[Notion, ...]:
    """Look up one or several different notions, by name or yours."""
    chosen = (notions,) if isinstance(notions, str | Notion) else tuple(notions)
    found = tuple(get_notion(notion) for notion in chosen)
    names = [notion.name for notion in found]
    if not found or len(set(names)) != len(names):
        raise ValueError(f"notion={names} is empty or names a notion twice; give each notion once.")
    return found
