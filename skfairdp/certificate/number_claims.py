"""Claims about the predicted numbers of groups: distributions, means, and errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skfairdp.certificate import counted_claims as counted
from skfairdp.certificate.evaluation import Evaluation
from skfairdp.certificate.evaluation_settings import EvaluationSettings, holdout_assumptions
from skfairdp.certificate.holdout import GroupedRows, answers_to, check_columns
from skfairdp.certificate.number_errors import NumberErrors
from skfairdp.fairness.bounds.number_gaps import (
    NumberCells,
    distribution_gap_upper_bound,
    mean_gap,
    mean_gap_upper_bound,
)
from skfairdp.fairness.guarantee import FairnessGuarantee, group_text
from skfairdp.fairness.kinds import DISTRIBUTIONS, MEANS
from skfairdp.fairness.number_notions import (
    DISTRIBUTION_GAP,
    GRID_CELLS,
    MEAN_GAP,
    NumberGrid,
    NumberNotion,
)
from skfairdp.fairness.scopes import DEPLOYED
from skfairdp.privacy.noise import NoiseSource
from skfairdp.receipts.unwrap import Deployed
from skfairdp.records.numbers import INTERVAL, number_column

Floats = NDArray[np.float64]
_LARGEST = 1e100  # so that no sum of numbers overflows


@dataclass(frozen=True, eq=False, repr=False)
class AskedNumbers:
    """Predictions for held-out rows, with their targets and bounds."""

    predicted: Floats
    targets: Floats | None  # None where errors are not measured
    bounds: tuple[float, float] | None  # of all predictions; None where no claim needs them
    how: str  # what is known about how the predictions were made


def ask_numbers(
    deployed: Deployed, rows: GroupedRows, settings: EvaluationSettings
) -> AskedNumbers:
    """Ask a model about held-out rows, and refuse before a charge what cannot be evaluated."""
    check_columns(deployed, rows.X)
    compared = [notion.name for notion in settings.number_notions]
    if settings.private and MEAN_GAP in compared:
        raise ValueError(
            "notion='mean_gap' has no form for noisy counts (count_epsilon); use "
            "'distribution_gap', whose bound times the range of the target bounds means too."
        )
    bounds = _bounds_of(deployed) if settings.private or MEAN_GAP in compared else None
    targets = None
    if rows.y is not None and not settings.private:
        targets = _finite(number_column(rows.y, len(rows)), "y")
    answers, how = answers_to(deployed, rows, settings.private)
    predicted = number_column(answers, len(rows), "predict(X)")
    if not settings.private:  # of private rows an error would reveal one
        _finite(predicted, "predict(X)")
        if bounds is not None and not _between(predicted[rows.groups.codes >= 0], bounds):
            raise ValueError(
                f"predict(X) holds numbers outside of target_bounds_ {bounds} of "
                f"{type(deployed.final).__name__}, between which the bound on means takes them to "
                "lie: clip predictions to target_bounds_, or compare 'distribution_gap'."
            )
    return AskedNumbers(predicted, targets, bounds, how)


def _bounds_of(deployed: Deployed) -> tuple[float, float]:
    known, name = getattr(deployed.final, "target_bounds_", None), type(deployed.final).__name__
    if known is None:
        raise ValueError(
            f"{name} has no target_bounds_ (low, high) between which its predictions lie, which "
            "noisy counts and notion='mean_gap' need; use 'distribution_gap' without "
            "count_epsilon."
        )
    if not INTERVAL.accepts(known):
        raise ValueError(f"target_bounds_ of {name} must be {INTERVAL.describe()}; got {known!r}.")
    return float(known[0]), float(known[1])


def _between(numbers: Floats, bounds: tuple[float, float]) -> bool:
    return bool(np.all((bounds[0] <= numbers) & (numbers <= bounds[1])))


def _finite(numbers: Floats, name: str) -> Floats:
    if not _between(numbers, (-_LARGEST, _LARGEST)):  # NaN lies between no bounds
        raise ValueError(
            f"{name} holds missing or infinite numbers, or ones beyond ±{_LARGEST:g}; leave those "
            "rows out."
        )
    return numbers


def evaluate_numbers(
    asked: AskedNumbers, rows: GroupedRows, settings: EvaluationSettings, source: NoiseSource | None
) -> Evaluation:
    """Bound the differences between the groups' predictions on held-out rows."""
    predicted, codes = asked.predicted, rows.groups.codes
    rests_on = tuple(
        holdout_assumptions(settings, rows.groups, with_labels=False, how=asked.how, classes=())
    )
    basis = counted.Basis(settings, rows.groups.labels, rests_on)
    if settings.count_epsilon is not None:
        assert asked.bounds is not None
        assert source is not None
        claim = _noisy_claim(predicted, codes, asked.bounds, basis, source)
        return Evaluation((claim,), None, (_NO_ERRORS,))
    cells = NumberCells.of(predicted, codes, len(rows.groups.labels))
    claims = tuple(_claim(notion, cells, asked.bounds, basis) for notion in settings.number_notions)
    inside, errors = codes >= 0, None
    if asked.targets is not None:
        errors = NumberErrors.of(asked.targets[inside], predicted[inside])
    return Evaluation(claims, int(inside.sum()), _means(cells, basis.labels), errors=errors)


_NO_ERRORS = "Errors of the predictions were not measured: that would need noisy sums of its own."


def _means(cells: NumberCells, labels: tuple) -> tuple[str, ...]:
    sizes = cells.sizes
    if not sizes.any():
        return ()
    shown = (
        f"{group_text(label)} {mean:.4g} ({n} rows)" if n else f"{group_text(label)} no rows"
        for label, mean, n in zip(labels, cells.means.tolist(), sizes.tolist(), strict=True)
    )
    return (f"Observed mean predictions: {', '.join(shown)}.",)


def _claim(
    notion: NumberNotion,
    cells: NumberCells,
    bounds: tuple[float, float] | None,
    basis: counted.Basis,
) -> FairnessGuarantee:
    """Make a claim from predictions on public rows."""
    test, level = basis.settings.bound, basis.settings.level_of_one_claim
    inputs: dict[str, Any] = {"test": test} | vars(cells)
    if notion.name == DISTRIBUTION_GAP:
        claimed = {
            "bound": distribution_gap_upper_bound(cells, confidence_level=level, bound=test),
            "estimate": cells.observed_gap,
        }
        return basis.claim(notion, DEPLOYED, DISTRIBUTIONS, claimed, **inputs)
    assert bounds is not None
    inputs |= {"low": bounds[0], "high": bounds[1]}
    claimed = {
        "bound": mean_gap_upper_bound(cells, *bounds, confidence_level=level, bound=test),
        "estimate": mean_gap(cells, *bounds),
    }
    return basis.claim(notion.between(*bounds), DEPLOYED, MEANS, claimed, **inputs)


def _noisy_claim(
    predicted: Floats,
    codes: NDArray,
    bounds: tuple[float, float],
    basis: counted.Basis,
    source: NoiseSource,
) -> FairnessGuarantee:
    """Make a claim about thresholds of a public grid, from noisy counts of its cells."""
    (notion,), epsilon = basis.settings.number_notions, basis.settings.count_epsilon
    assert epsilon is not None
    grid = NumberGrid(*bounds, GRID_CELLS)
    # What is no number counts as the smallest, so that no private row leaves a cell.
    places = grid.places(predicted)
    table = np.zeros((len(basis.labels), 1, GRID_CELLS), dtype=np.int64)
    inside = codes >= 0
    np.add.at(table[:, 0], (codes[inside], places[inside]), 1)
    noisy = table + source.discrete_laplace(epsilon, table.shape)
    return counted.noisy_claim((notion.on_grid(GRID_CELLS - 1), grid.strata), table, noisy, basis)
