"""Fairness notions by name: which rows count, and what counts as a success.

Every notion here is a largest difference of rates between two groups. A rate is
taken over a stratum: the rows whose (label, prediction) pair lies in a fixed set of
*trials*; the pairs of a smaller set are *successes*. So all notions are read off one
table of counts, (group x label x prediction), which is also what is released when the
counts are private.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Stratum:
    """One rate of a notion, as masks over the (label, prediction) pairs."""

    name: str  # What the rate is conditioned on, in words; empty where on nothing
    # successes, failures: (n_labels, n_classes): disjoint sets of (label, prediction) pairs;
    # together they are the trials
    successes: NDArray[np.bool_]
    failures: NDArray[np.bool_]

    def count(self, table: NDArray) -> tuple[NDArray, NDArray]:
        """Return successes and failures of each group, two arrays of shape (n_groups,).

        `table` has the shape (n_groups, n_labels, n_classes).
        """
        return table[:, self.successes].sum(axis=1), table[:, self.failures].sum(axis=1)


@dataclass(frozen=True)
class Notion:
    """A fairness notion: the largest difference of certain rates between groups.

    Parameters
    ----------
    name : str
        The name by which functions take it.
    rates : str
        The rates that are compared, in words.
    meaning : str
        One sentence for readers who are not statisticians.
    needs_labels : bool
        Whether true labels are needed to evaluate it.
    """

    name: str
    rates: str
    meaning: str
    needs_labels: bool
    _cells: Callable[[Sequence], list[tuple[str, NDArray[np.bool_], NDArray[np.bool_]]]]

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
            When the notion needs labels and there are none.
        """
        if self.needs_labels and not with_labels:
            raise ValueError(
                f"notion={self.name!r} compares rates given the true label, but y is None; pass "
                "the labels of the held-out rows as y."
            )
        # Without labels the table has one label row, and the masks are alike in all of them.
        rows = slice(None) if with_labels else slice(0, 1)
        return tuple(
            Stratum(name, (trials & successes)[rows], (trials & ~successes)[rows])
            for name, trials, successes in self._cells(classes)
        )


def _watched(classes: Sequence) -> Iterable[int]:
    """Classes whose rate is compared; of two, one rate determines the other."""
    return (1,) if len(classes) == 2 else range(len(classes))


def _where(
    classes: Sequence, *, label: int | None = None, prediction: int | None = None
) -> NDArray:
    """Mask of the (label, prediction) pairs with the given label, prediction, or both."""
    mask = np.zeros((len(classes), len(classes)), dtype=bool)
    mask[
        slice(None) if label is None else label, slice(None) if prediction is None else prediction
    ] = True
    return mask


def _demographic_parity(classes: Sequence) -> list[tuple[str, NDArray, NDArray]]:
    return [
        (
            "" if len(classes) == 2 else f"prediction {classes[c]}",
            _where(classes),
            _where(classes, prediction=c),
        )
        for c in _watched(classes)
    ]


def _equal_opportunity(classes: Sequence) -> list[tuple[str, NDArray, NDArray]]:
    return [
        (f"label {classes[c]}", _where(classes, label=c), _where(classes, prediction=c))
        for c in _watched(classes)
    ]


def _equalized_odds(classes: Sequence) -> list[tuple[str, NDArray, NDArray]]:
    return [
        (
            f"label {classes[y]}" + ("" if len(classes) == 2 else f", prediction {classes[c]}"),
            _where(classes, label=y),
            _where(classes, prediction=c),
        )
        for y in range(len(classes))
        for c in _watched(classes)
    ]


def _accuracy_parity(classes: Sequence) -> list[tuple[str, NDArray, NDArray]]:
    return [("", _where(classes), np.eye(len(classes), dtype=bool))]


NOTIONS: dict[str, Notion] = {
    notion.name: notion
    for notion in (
        Notion(
            "demographic_parity",
            "selection rates",
            "The share of people who are given the positive outcome is compared between groups.",
            False,
            _demographic_parity,
        ),
        Notion(
            "equal_opportunity",
            "true positive rates",
            "Among people whose true label is positive, the share who are given the positive "
            "outcome is compared between groups.",
            True,
            _equal_opportunity,
        ),
        Notion(
            "equalized_odds",
            "true and false positive rates",
            "Among people whose true label is positive, and among the others, the share who are "
            "given the positive outcome is compared between groups.",
            True,
            _equalized_odds,
        ),
        Notion(
            "accuracy_parity",
            "rates of correct predictions",
            "The share of people for whom the prediction is right is compared between groups.",
            True,
            _accuracy_parity,
        ),
    )
}


def get_notion(name: str) -> Notion:
    """Look up a notion.

    Parameters
    ----------
    name : {"demographic_parity", "equal_opportunity", "equalized_odds", "accuracy_parity"}
        Name of the notion.

    Returns
    -------
    Notion

    Raises
    ------
    ValueError
        For any other name.

    Examples
    --------
    >>> from skfairdp.fairness.notions import get_notion
    >>> get_notion("equal_opportunity").rates
    'true positive rates'
    """
    if name not in NOTIONS:
        raise ValueError(f"notion={name!r} is not known; use one of {sorted(NOTIONS)}.")
    return NOTIONS[name]


def get_notions(names: str | Sequence[str]) -> tuple[Notion, ...]:
    """Look up one or several notions.

    `names`: a name or several different ones.

    Examples
    --------
    >>> from skfairdp.fairness.notions import get_notions
    >>> [notion.name for notion in get_notions("demographic_parity")]
    ['demographic_parity']
    """
    chosen = (names,) if isinstance(names, str) else tuple(names)
    if not chosen or len(set(chosen)) != len(chosen):
        raise ValueError(
            f"notion={list(chosen)!r} is empty or names a notion twice; give each notion once."
        )
    return tuple(get_notion(name) for name in chosen)
