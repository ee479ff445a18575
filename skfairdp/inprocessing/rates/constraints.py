"""Rate constraints: from a histogram of predictions to gaps and to a record's share in them.

Every notion of `skfairdp.fairness.notions` compares rates between groups, and all rates
are read off one table: the mass of each (group, label, prediction). A gap is a difference
of two rates; its derivative with respect to the mass of an entry says what a record of a
(group, label) cell adds to the Lagrangian by being predicted into a class.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skfairdp.fairness.notions import Notion, Stratum, get_notions
from skfairdp.foundation.parameters import Number
from skfairdp.records.groups import Groups, groups_of_training

if TYPE_CHECKING:
    import torch

Floats = NDArray[np.float64]
TINY = float(np.finfo(np.float64).tiny)
_TOLERANCE = Number(0.0, 1.0, high_open=True)


class RateConstraints:
    """Limits on differences of rates between groups.

    A constraint belongs to a stratum of a notion and to two groups ("pairs"), or to one
    group and all rows ("population"). Its gap is signed; the constraint holds when the
    size of the gap is at most the tolerance. A stratum that several notions share is
    constrained once, by the smallest of their tolerances.

    `classes`: of two, the rates of the second are compared, of more those of each. `shape`: of the
    histograms, (n_groups, n_labels, n_classes). `tolerances` (n_constraints,). `names`: stratum
    name, group position, position of the other group (-1: the population).

    Examples
    --------
    >>> import numpy as np
    >>> from skfairdp.inprocessing.rates.constraints import RateConstraints
    >>> constraints = RateConstraints("demographic_parity", ["no", "yes"], 2, 0.05)
    >>> histogram = np.array([[[0.2, 0.1], [0.0, 0.2]], [[0.3, 0.0], [0.1, 0.1]]])
    >>> masses = constraints.masses(histogram)
    >>> constraints.gaps_of(constraints.successes(histogram) / masses, masses).round(3).tolist()
    [0.4]
    >>> constraints.coefficients_of(masses, [1.0])[:, 0, 1].round(3).tolist()
    [2.0, -2.0]
    """

    def __init__(
        self,
        notions: str | Notion | Sequence[str | Notion],
        classes: Sequence[Any],
        n_groups: int,
        tolerances: float | Mapping[str, float],
        *,
        against: str = "pairs",
    ) -> None:
        if n_groups < 2:
            raise ValueError(f"Rates are compared between at least two groups; got {n_groups}.")
        limits = tolerance_of_notions(notions, tolerances)
        strata: dict[bytes, tuple[Stratum, float]] = {}
        for notion in get_notions(notions):
            for stratum in notion.strata(classes):
                key = stratum.successes.tobytes() + stratum.failures.tobytes()
                limit = min(limits[notion.name], strata.get(key, (stratum, 1.0))[1])
                strata[key] = (stratum, limit)
        self._strata = [stratum for stratum, _ in strata.values()]
        self._against = against
        self.shape = (n_groups, len(classes), len(classes))
        if against not in ("pairs", "population"):
            raise ValueError(f"'against' must be 'pairs' or 'population'; got {against!r}.")
        first, second = np.triu_indices(n_groups, k=1)
        if against == "population":
            first, second = np.arange(n_groups), np.full(n_groups, -1)
        everyone = np.eye(n_groups)[None, :, :, None, None]  # (-, group, group, label, class)
        successes = np.stack([s.successes for s in self._strata])[:, None, None]
        failures = np.stack([s.failures for s in self._strata])[:, None, None]
        # As matrices, because they meet a small vector in every training step.
        n_rates = len(self._strata) * n_groups
        self._successes = (everyone * successes).reshape(n_rates, -1)
        self._trials = (everyone * (successes | failures)).reshape(n_rates, -1)
        self._contrasts = np.zeros((n_groups, len(first)))
        self._contrasts[first, np.arange(len(first))] = 1.0
        if against == "pairs":
            self._contrasts[second, np.arange(len(first))] = -1.0
        self.tolerances = np.repeat([limit for _, limit in strata.values()], len(first))
        self.names = tuple(
            (stratum.name, int(u), int(v))
            for stratum in self._strata
            for u, v in zip(first, second, strict=True)
        )

    def __len__(self) -> int:
        return len(self.tolerances)

    def masses(self, histogram: ArrayLike) -> Floats:
        """Mass of the trials of each stratum and group, shape (n_strata, n_groups)."""
        return self._sums(self._trials, histogram)

    def successes(self, histogram: ArrayLike) -> Floats:
        """Mass of the successes of each stratum and group, shape (n_strata, n_groups)."""
        return self._sums(self._successes, histogram)

    def _sums(self, which: Floats, histogram: ArrayLike) -> Floats:
        entries = np.asarray(histogram, dtype=np.float64).ravel()
        return np.asarray((which @ entries).reshape(-1, self.shape[0]))

    def gaps_of(self, rates: Floats, masses: Floats, *, floor: float = 0.0) -> Floats:
        """Signed gap of every constraint, from released rates and masses (n_strata, n_groups).

        Where the mass of a side is at most `floor`, nothing can be said about its rate, and the
        gap counts as 0: such a constraint never binds.
        """
        gaps = rates @ self._contrasts
        if self._against == "population":
            gaps -= (_shares(masses) * rates).sum(axis=1, keepdims=True)
        unknown = masses <= floor
        if unknown.any():
            gaps[unknown @ np.abs(self._contrasts) > 0.0] = 0.0
        return np.asarray(gaps.ravel())

    def spread_of(self, stds: Floats) -> Floats:
        """Standard deviation of every gap, from those of independent rates.

        Against the population, the group's own rate is all that counts.
        """
        return np.asarray(np.sqrt(stds**2 @ np.abs(self._contrasts)).ravel())

    def coefficients_of(
        self, masses: Floats, multipliers: ArrayLike, *, floor: float = 0.0
    ) -> Floats:
        """Derivative of ``sum_j multipliers[j] * gap_j`` with respect to predicted mass.

        With masses as shares of a batch (sums over its expected size), a record of cell
        (g, y) with the prediction vector p adds ``result[g, y] @ p`` to the mean loss of the
        batch. A cell's mass is taken as fixed: predictions move mass within a cell only.

        `multipliers` (n_constraints,): positive to lower the gap, negative to raise it. `floor`:
        masses below it count as so much, which bounds the result.
        """
        pull = np.asarray(multipliers, dtype=np.float64).reshape(len(self._strata), -1)
        masses = np.maximum(masses, max(floor, TINY))
        of_rates = pull @ self._contrasts.T  # derivative with respect to the rates
        if self._against == "population":
            of_rates -= _shares(masses) * pull.sum(axis=1, keepdims=True)
        return np.asarray(((of_rates / masses).ravel() @ self._successes).reshape(self.shape))


def tolerance_of_notions(
    notions: str | Notion | Sequence[str | Notion], tolerances: float | Mapping[str, float]
) -> dict[str, float]:
    """Give every notion its tolerance: one for all, or one for each by name."""
    names = [notion.name for notion in get_notions(notions)]
    if isinstance(tolerances, Mapping):
        if set(tolerances) != set(names):
            raise ValueError(
                f"'tolerance' must map exactly the notions {names!r} to numbers; got "
                f"{dict(tolerances)!r}."
            )
    else:
        tolerances = dict.fromkeys(names, tolerances)
    for name in names:
        if not _TOLERANCE.accepts(tolerances[name]):
            raise ValueError(
                f"'tolerance' must be a gap in [0, 1), e.g. 0.02; got {tolerances[name]!r} for "
                f"{name}."
            )
    return {name: float(tolerances[name]) for name in names}


def _shares(masses: Floats) -> Floats:
    masses = np.maximum(masses, TINY)
    return masses / masses.sum(axis=1, keepdims=True)


def compared_groups(
    sensitive_features: Any, n: int, declared: Any, *, of_numbers: bool = False
) -> Groups:
    """Groups of training rows, two at least, whose rates or predicted numbers are compared."""
    groups = groups_of_training(sensitive_features, n, declared)
    if len(groups.labels) < 2:
        compared = "predictions" if of_numbers else "rates"
        other = "DPSGDRegressor" if of_numbers else "DPSGDClassifier"
        raise ValueError(
            f"'sensitive_features' must hold at least two groups, whose {compared} are compared; "
            f"got one. {other} trains without groups."
        )
    return groups


def label_cells(labels: torch.Tensor, groups: np.ndarray | None, classes: Any) -> torch.Tensor:
    """Cell ``group * n_labels + label`` of each row; rows of no group are never drawn: any."""
    import torch

    assert groups is not None
    n_labels = int(labels.max()) + 1 if classes is None else len(classes)
    codes = torch.from_numpy(groups).long().to(labels.device)
    return (codes * n_labels + labels.long()).clamp(min=0)
