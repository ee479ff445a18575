"""Common base of the additive classifier and the additive regressor."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from skfairdp.additive.design import Design, Pair, levels_of
from skfairdp.additive.pairs import (
    MOST_PAIRS,
    PAIRS_SHARE,
    Link,
    cell_inputs,
    cell_names,
    choose_pairs,
)
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
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from skfairdp.additive.descent import Slopes
    from skfairdp.engine.release import Rows

# Share of the budget, as one Gaussian release, that buys the counts of levels.
_LEVELS_SHARE = 0.1
_TIMES = " × "  # between the names of the columns of a pair


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
    pairs : int
        Most pairs of columns, at most 8, whose cells contribute together. For a twentieth of the
        budget, noisy tables of all pairs say which of them deviate from a sum of two columns by
        more than noise does; there may be none.
    batch_size : int or "auto"
        Expected records in a batch; "auto" is ``min(65536, ceil(n / 4))``.
    random_state : int, RandomState or None
        Used with `reproducible_noise` only.

    Attributes
    ----------
    levels_ : tuple of (str, Intervals or Categories)
        Name and levels of each column.
    pairs_ : tuple of Pair
        With `pairs`: the chosen ones, each with the places of its ``columns``, the ``cells`` of
        their levels and the noisy ``shares`` of the rows in these.
    """

    bounds: Mapping[Any, tuple[float, float]] | tuple[float, float] | None = field(
        default=None, kw_only=False
    )
    categories: Mapping[Any, Sequence[Hashable]] | None = field(default=None, kw_only=False)
    n_bins: int = 16
    pairs: int = 0
    max_grad_norm: float = 2.0616  # clips the derivative of the loss by the output at a half
    max_epochs: int = 15

    learning_rate_schedule = fixed(None)

    _from_disk = True

    _parameters = {
        "bounds": (MAPPING, SEQUENCE, NONE),
        "categories": (MAPPING, NONE),
        "n_bins": (Number(2, 4096, integer=True),),
        "pairs": (Number(0, MOST_PAIRS, integer=True),),
    }
    _nets: ClassVar[tuple[str, ...]] = ()
    _predicts: ClassVar[str]  # what contributions add up to
    _prior: ClassVar[float]  # variance of the outputs that is believed in beforehand
    _auto_batch = 65536, 4

    levels_: tuple[tuple[str, Levels], ...] = field(init=False)
    pairs_: tuple[Pair, ...] = field(init=False)  # where pairs are looked for

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
        self._check_columns(len(self.levels_))
        receipt = super()._fit(replace(given, X=self._design.rows(table)), charge)
        checked(self, X, reset=True, mixed=True)  # the columns, not the inputs of the net
        return receipt

    def _try_out(
        self, quote: Quote, row_shape: tuple[int, ...], classes: np.ndarray | None
    ) -> None:
        self._check_columns(*row_shape)
        if self._declares():
            levels_of(self._table(np.zeros((2, *row_shape))))

    def _check_columns(self, n_columns: int) -> None:
        if self._most_pairs and n_columns < 2:
            raise ValueError(
                f"'pairs' = {self._most_pairs} needs at least two columns; got {n_columns}. Leave "
                "it out, or fit on more columns."
            )

    def _plan_sums(
        self, sizes: Sizes, *sums: tuple[str, float, float], counts: tuple[CountRelease, ...] = ()
    ) -> Plan:
        """Plan the counts of levels, the sums of each batch, and further tables."""
        size = self._batch_size(sizes.total)
        steps = sizes.batches(self.max_epochs, size, *sums)
        _, norm, std = sums[0]
        # All steps are about one Gaussian release of this multiplier.
        overall = std / norm * sizes.total / (size * math.sqrt(steps.steps))
        shares = {"levels": _LEVELS_SHARE} | ({"pairs": PAIRS_SHARE} if self._most_pairs else {})
        left = 1.0 - sum(shares.values())
        before = [
            sizes.whole((name, 1.0, overall * math.sqrt(left / share)))
            for name, share in shares.items()
        ]
        return sizes.plan(
            *before, steps, counts=counts, delta=self.delta, exact_noise=self.exact_noise
        )

    def _descend(self, run: Run) -> None:
        from skfairdp.additive.descent import PosteriorDescent
        from skfairdp.engine.modules import SomeInputs
        from skfairdp.engine.release import Statistic
        from skfairdp.engine.run import run_segment

        levels, *tables, steps = run.plan.segments[self._with_gradients]
        design, (block,) = self._design, steps.blocks
        n_rows = steps.expected_sizes[0] / steps.rates[0]
        finest, root = design.finest.tolist(), math.sqrt(len(design.levels))
        # Of a row: a vector of norm 1.
        entries = SomeInputs(finest, 1.0 / (design.value * root)).to(run.prepared.flat.vector)
        statistic = Statistic(len(finest), lambda output, *targets: output)
        counts = root * run.release.statistic(levels, statistic, entries).cpu().numpy()
        run.progress.advance()
        free: list[np.ndarray] = []
        for segment in tables:
            labels_of, link = self._labels_of_pairs(run)
            pairs, of_cells, free = choose_pairs(
                run.release, segment, design, counts, self._most_pairs, labels_of, link
            )
            run.progress.advance()
            self.pairs_, counts = tuple(pairs), np.concatenate([counts, *of_cells])
            if pairs:
                design = self._design
                run.release.recode(cell_inputs(design))
        run.prepared.flat.vector.data.zero_()
        descent = PosteriorDescent(
            design,
            counts,
            n_rows=round(n_rows),
            noise_variance=(n_rows * block.noise_std) ** 2,
            n_steps=steps.steps,
            slopes=self._slopes(),
            prior=self._prior,
            free=free,
        )

        used = np.append(np.arange(design.width), design.n_inputs)  # and the intercept

        def moved(gradient: Any) -> Any:
            fall = np.zeros(design.n_inputs + 1)
            fall[used] = descent.move(gradient.cpu().numpy()[used])
            return gradient.new_tensor(fall)

        optimizer = run.prepared.plain_sgd(1.0)
        run_segment(steps, run.release, optimizer, progress=run.progress, adjust_gradient=moved)

    def _slopes(self) -> Slopes:
        """Say how the clipped loss bends."""
        raise NotImplementedError

    def _labels_of_pairs(self, run: Run) -> tuple[Callable[[Rows], NDArray[np.bool_]], Link]:
        """Label of each row in the tables of pairs, and the link in which columns add up."""
        raise NotImplementedError

    def _assumed_at_last(self) -> tuple[str, ...]:
        how = "were declared" if self._declares() else "were declared or released before"
        return () if self.reproducible_noise else (LEVELS.format(how=how),)

    @property
    def _most_pairs(self) -> int:
        """Most pairs of columns that have inputs of their own."""
        return int(self.pairs)

    @property
    def _design(self) -> Design:
        pairs = vars(self).get("pairs_", ())
        return Design([level for _, level in self.levels_], pairs, self._most_pairs)

    def _named_pairs(self) -> Iterator[tuple[str, Pair]]:
        """Pairs with the names of their columns."""
        for pair in self._design.pairs:
            yield _TIMES.join(self.levels_[column][0] for column in pair.columns), pair

    @property
    def intercept_(self) -> float:
        return self._tables()[0]

    @property
    def shape_functions_(self) -> dict[str, pd.DataFrame]:
        """Levels of each column and the contribution of each; see the class."""
        _, tables, maps = self._tables()
        shapes = {}
        for (name, level), table in zip(self.levels_, tables, strict=True):
            shape = pd.DataFrame({"level": level_names(level.dtype(), name), "contribution": table})
            if isinstance(level, Intervals):
                shape.insert(1, "edge", [-math.inf, *level.edges, math.nan])
            shapes[name] = shape
        for (name, pair), values in zip(self._named_pairs(), maps, strict=True):
            sides = [
                pd.Index(cell_names(self.levels_[column][1], cells, named), name=named)
                for column, cells in zip(pair.columns, pair.cells, strict=True)
                for named in (self.levels_[column][0],)
            ]
            shapes[name] = pd.DataFrame(values, *sides)
        return shapes

    def _tables(self) -> tuple[float, list[np.ndarray], list[np.ndarray]]:
        """Intercept and centred contributions, in float64 and in units of the prediction.

        Of columns, by level, and of pairs, by cell. What a pair says about one column alone is
        added to that column: means of a map over the noisy shares of one column's cells are 0.
        """
        check_is_fitted(self)
        state = self.module_.state_dict()
        unit, start = self._unit_of_outputs()
        weights = unit * state["head.weight"].cpu().double().numpy()[0]
        design = self._design
        tables, maps = design.contributions(weights), design.maps(weights)
        for pair, values in zip(design.pairs, maps, strict=True):
            for side, axis in ((0, 1), (1, 0)):
                own = np.average(values, axis=axis, weights=pair.shares[axis])
                values -= np.expand_dims(own, axis)
                tables[pair.columns[side]] += own[list(pair.cells[side])]
        means = [float(table.mean()) for table in tables]
        bias = start + unit * float(state["head.bias"].cpu().double().numpy()[0])
        intercept = bias + math.fsum(means)
        return intercept, [table - mean for table, mean in zip(tables, means, strict=True)], maps

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
        DataFrame, shape (n_samples, n_features + 1 + n_pairs)
            The intercept and the columns' contributions, then those of pairs of columns, "a × b",
            if the model has some. Their sum is the score of a
            classifier (`decision_function`), and the number that a regressor predicts before it
            is clipped to its bounds.
        """
        table = self._known(X)
        return pd.DataFrame(dict(self._contributions(table)), index=table.index)

    def _contributions(self, table: pd.DataFrame) -> Iterator[tuple[str, NDArray[np.float64]]]:
        """Contributions to each row of a table of levels, one column or pair at a time."""
        intercept, tables, maps = self._tables()
        yield "intercept", np.full(len(table), intercept)
        found = list(self._design.codes(table))
        for (name, _), values, codes in zip(self.levels_, tables, found, strict=True):
            yield name, values[codes]
        for (name, pair), values in zip(self._named_pairs(), maps, strict=True):
            yield name, values.ravel()[pair.codes(found)]

    def _sums_of_parts(self, X: ArrayLike) -> np.ndarray:
        """Add up the contributions of each row, in the order of the columns."""
        # One column after the other: numpy's sum along rows takes another order where there is
        # one row, so that the last bit of a score would depend on the number of rows.
        table = self._known(X)
        sums = np.zeros(len(table))
        for _, part in self._contributions(table):
            sums += part
        return sums

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
            axis.set_title(name)
            if "contribution" not in shape:
                _draw_map(axis, shape)
                continue
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


def _draw_map(axis: Axes, values: pd.DataFrame) -> None:
    """Draw contributions of the cells of a pair."""
    most = float(np.abs(values.to_numpy()).max()) or 1.0
    image = axis.imshow(values, cmap="RdBu", vmin=-most, vmax=most, aspect="auto")
    axis.set_xticks(range(values.shape[1]), values.columns, rotation=30, ha="right", fontsize=7)
    axis.set_yticks(range(values.shape[0]), values.index, fontsize=7)
    axis.figure.colorbar(image, ax=axis)
