"""Common base of the additive classifier and the additive regressor."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from skfairdp.additive.design import Design, levels_of
from skfairdp.foundation.assumptions import LEVELS
from skfairdp.foundation.parameters import MAPPING, SEQUENCE, Number, check_parameters, fixed
from skfairdp.inprocessing.gradient import NONE, GradientPredictor, Run
from skfairdp.preprocessing.binner import PublicBinner
from skfairdp.preprocessing.columns import checked
from skfairdp.preprocessing.levels import Intervals, Levels, level_names
from skfairdp.privacy.plan import CountRelease, Plan
from skfairdp.privacy.sizes import Sizes
from skfairdp.receipts import Charge, Quote, Receipt
from skfairdp.records import Given

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from skfairdp.additive.descent import Slopes

# Share of the budget, as one Gaussian release, that buys the counts of levels.
_LEVELS_SHARE = 0.1


class AdditiveModel(GradientPredictor):
    """Template of a sum of one step function for each column, trained by private gradient descent.

    Parameters
    ----------
    bounds : mapping of column to (low, high), (low, high) or None
        Declared bounds of the columns, as :class:`skfairdp.preprocessing.PublicBinner` takes
        them. None, without `categories` too, takes a table of levels from a ``PublicBinner`` or
        a ``PrivateTableEncoder`` as it is.
    categories : mapping of column to sequence of categories, or None
        Declared categories of the columns that are not numbers.
    n_bins : int
        Bins of each of the two scales (linear and logarithmic) between declared bounds.
    batch_size : int or "auto"
        Expected records in a batch; "auto" is ``min(65536, ceil(n / 4))``.
    random_state : int, RandomState or None
        Used with `reproducible_noise` only.

    Attributes
    ----------
    levels_ : tuple of (str, Intervals or Categories)
        Name and levels of each column.
    """

    bounds: Mapping[Any, tuple[float, float]] | tuple[float, float] | None = field(
        default=None, kw_only=False
    )
    categories: Mapping[Any, Sequence[Hashable]] | None = field(default=None, kw_only=False)
    n_bins: int = 16
    max_grad_norm: float = 2.0616  # clips the derivative of the loss by the output at a half
    max_epochs: int = 15

    learning_rate_schedule = fixed(None)

    _parameters = {
        "bounds": (MAPPING, SEQUENCE, NONE),
        "categories": (MAPPING, NONE),
        "n_bins": (Number(2, 4096, integer=True),),
    }
    _nets: ClassVar[tuple[str, ...]] = ()
    _predicts: ClassVar[str]  # what contributions add up to
    _prior: ClassVar[float]  # variance of the outputs that is believed in beforehand
    _auto_batch = 65536, 4

    levels_: tuple[tuple[str, Levels], ...] = field(init=False)

    @property  # type: ignore[misc]
    def net(self) -> Any:
        """The linear net, as skorch has it."""
        from skfairdp.engine.nets import default_net

        return default_net().set_params(module__hidden_sizes=())

    def _fit(self, given: Given, charge: Charge) -> Receipt:
        check_parameters(self, self._parameters)
        X = checked(self, given.X, reset=True, mixed=True)
        table = self._table(X)
        self.levels_ = levels_of(table)
        receipt = super()._fit(replace(given, X=self._design.rows(table)), charge)
        checked(self, X, reset=True, mixed=True)  # the columns, not the inputs of the net
        return receipt

    def _try_out(
        self, quote: Quote, row_shape: tuple[int, ...], classes: np.ndarray | None
    ) -> None:
        if self._declares():
            levels_of(self._table(np.zeros((2, *row_shape))))

    def _plan_sums(
        self, sizes: Sizes, *sums: tuple[str, float, float], counts: tuple[CountRelease, ...] = ()
    ) -> Plan:
        """Plan the counts of levels, the sums of each batch, and further tables."""
        size = self._batch_size(sizes.total)
        steps = sizes.batches(self.max_epochs, size, *sums)
        _, norm, std = sums[0]
        # All steps are about one Gaussian release of this multiplier.
        overall = std / norm * sizes.total / (size * math.sqrt(steps.steps))
        of_levels = overall * math.sqrt((1.0 - _LEVELS_SHARE) / _LEVELS_SHARE)
        levels = sizes.whole(("levels", 1.0, of_levels))
        return sizes.plan(
            levels, steps, counts=counts, delta=self.delta, exact_noise=self.exact_noise
        )

    def _descend(self, run: Run) -> None:
        from skfairdp.additive.descent import PosteriorDescent
        from skfairdp.engine.modules import SomeInputs
        from skfairdp.engine.release import Statistic
        from skfairdp.engine.training import run_segment

        levels, steps = run.plan.segments
        design, (block,) = self._design, steps.blocks
        n_rows = steps.expected_sizes[0] / steps.rates[0]
        finest, root = design.finest.tolist(), math.sqrt(len(design.levels))
        # Of a row: a vector of norm 1.
        entries = SomeInputs(finest, 1.0 / (design.value * root)).to(run.prepared.flat.vector)
        statistic = Statistic(len(finest), lambda output, *targets: output)
        counts = run.release.statistic(levels, statistic, entries).cpu().numpy()
        run.progress.advance()
        run.prepared.flat.vector.data.zero_()
        descent = PosteriorDescent(
            design,
            counts * root,
            n_rows=round(n_rows),
            noise_variance=(n_rows * block.noise_std) ** 2,
            n_steps=steps.steps,
            slopes=self._slopes(),
            prior=self._prior,
        )

        def moved(gradient: Any) -> Any:
            return gradient.new_tensor(descent.move(gradient.cpu().numpy()))

        optimizer = run.prepared.plain_sgd(1.0)
        run_segment(steps, run.release, optimizer, progress=run.progress, adjust_gradient=moved)

    def _slopes(self) -> Slopes:
        """Say how the clipped loss bends."""
        raise NotImplementedError

    def _assumed_at_last(self) -> tuple[str, ...]:
        how = "were declared" if self._declares() else "were declared or released before"
        return () if self.reproducible_noise else (LEVELS.format(how=how),)

    @property
    def _design(self) -> Design:
        return Design([level for _, level in self.levels_])

    @property
    def intercept_(self) -> float:
        return self._tables()[0]

    @property
    def shape_functions_(self) -> dict[str, pd.DataFrame]:
        """Levels of each column and the contribution of each; see the class."""
        _, tables = self._tables()
        shapes = {}
        for (name, level), table in zip(self.levels_, tables, strict=True):
            shape = pd.DataFrame({"level": level_names(level.dtype(), name), "contribution": table})
            if isinstance(level, Intervals):
                shape.insert(1, "edge", [-math.inf, *level.edges, math.nan])
            shapes[name] = shape
        return shapes

    def _tables(self) -> tuple[float, list[np.ndarray]]:
        """Intercept and centred contributions, in float64 and in units of the prediction."""
        check_is_fitted(self)
        state = self.module_.state_dict()
        unit, start = self._unit_of_outputs()
        weights = unit * state["head.weight"].cpu().double().numpy()[0]
        tables = self._design.contributions(weights)
        means = [float(table.mean()) for table in tables]
        bias = start + unit * float(state["head.bias"].cpu().double().numpy()[0])
        intercept = bias + math.fsum(means)
        return intercept, [table - mean for table, mean in zip(tables, means, strict=True)]

    def _unit_of_outputs(self) -> tuple[float, float]:
        """Slope and intercept of predictions as a function of outputs."""
        return 1.0, 0.0

    def explain(self, X: ArrayLike) -> pd.DataFrame:
        """Split the prediction for each row into the contributions of columns.

        Parameters
        ----------
        X : array-like or DataFrame, shape (n_samples, n_features)
            Rows to explain.

        Returns
        -------
        DataFrame, shape (n_samples, n_features + 1)
            The intercept and the columns' contributions. Their sum is the score of a
            classifier (`decision_function`), and the number that a regressor predicts before it
            is clipped to its bounds.
        """
        intercept, tables = self._tables()
        table = self._known(X)
        parts = {"intercept": np.full(len(table), intercept)}
        found = self._design.codes(table)
        for (name, _), values, codes in zip(self.levels_, tables, found, strict=True):
            parts[name] = values[codes]
        return pd.DataFrame(parts, index=table.index)

    def plot_shapes(self) -> Figure:
        """Draw the function of each column.

        Returns
        -------
        matplotlib.figure.Figure
        """
        import matplotlib.pyplot as plt

        shapes = self.shape_functions_
        across = min(4, len(shapes))
        down = -(-len(shapes) // across)
        figure, axes = plt.subplots(
            down, across, figsize=(3.2 * across, 2.6 * down), squeeze=False, layout="constrained"
        )
        for axis in axes.flat[len(shapes) :]:
            axis.set_axis_off()
        for axis, (name, shape) in zip(axes.flat, shapes.items(), strict=False):
            values = shape["contribution"].to_numpy()
            if "edge" in shape and len(shape) > 2:
                edges = shape["edge"].to_numpy()[1:-1]
                axis.stairs(values[1:-2], edges, baseline=None)
                # The outer bins have no end; they are drawn a little beyond the inner ones.
                reach = 0.05 * float(edges[-1] - edges[0]) or 1.0
                axis.hlines(values[0], edges[0] - reach, edges[0], color="C0")
                axis.hlines(values[-2], edges[-1], edges[-1] + reach, color="C0")
            else:
                axis.barh(shape["level"], values)
                axis.invert_yaxis()
            axis.set_title(name)
        figure.supylabel(f"contribution to the {self._predicts}")
        return figure

    def _declares(self) -> bool:
        return self.bounds is not None or self.categories is not None

    def _table(self, X: Any) -> Any:
        """Rows as a table of levels; columns that are not declared must hold levels already."""
        if not self._declares():
            return X
        bounds = {} if self.bounds is None else self.bounds
        binner = PublicBinner(bounds, self.categories, n_bins=self.n_bins)
        return binner.fit_transform(X)

    def _known(self, X: Any) -> pd.DataFrame:
        """Table of the levels of fit."""
        check_is_fitted(self)
        table = self._table(checked(self, X, reset=False, mixed=True))
        if levels_of(table) != self.levels_:
            raise ValueError(
                "'X' has other levels than the rows of fit: use the same fitted binner or encoder."
            )
        return table

    def _features(self, X: ArrayLike) -> np.ndarray:
        return self._design.rows(self._known(X))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        return tags
