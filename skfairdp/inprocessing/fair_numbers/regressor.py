"""Fair regressor: one private fit for every tolerance between the groups' predictions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from skfairdp.exceptions import FairnessWarning, warn_user
from skfairdp.foundation.figures import significant_up
from skfairdp.foundation.parameters import Choice, Number
from skfairdp.inprocessing.every_tolerance import OPEN, EveryTolerance
from skfairdp.inprocessing.fair_numbers import tables
from skfairdp.inprocessing.fair_numbers.points import NumberPath
from skfairdp.inprocessing.fair_numbers.tables import MULTIPLIERS, Table
from skfairdp.inprocessing.gradient import Run
from skfairdp.inprocessing.rates.constraints import Floats
from skfairdp.inprocessing.regressor import GradientRegressor
from skfairdp.privacy.plan import Plan
from skfairdp.privacy.sizes import Sizes
from skfairdp.receipts import RowFacts
from skfairdp.records.groups import Groups, encode_groups
from skfairdp.records.numbers import TargetBounds
from skfairdp.records.stored_rows import in_chunks

if TYPE_CHECKING:
    from torch import Tensor

    from skfairdp.engine.nets import PreparedNet
    from skfairdp.engine.objectives import Objective
    from skfairdp.engine.release import Rows


class FairPathRegressor(EveryTolerance, GradientRegressor):
    """Regressors whose predictions are alike between groups, for all tolerances, from one fit.

    A net learns the target with private records. Then tables of its scores by group are released,
    and every tolerance is read off them, at no further cost. Where groups are known at prediction,
    scores are moved as little as possible in squared error. A blind model, the default, never asks
    for a group: the net also learns how likely each group is, and scores are shifted by what is
    expected of the group, as far as the tolerance needs.

    Parameters
    ----------
    net : skorch.NeuralNet or None, default=None
        Module, criterion, optimizer, learning rate and device; of a blind model its outputs are the
        number and logits of the group. The criterion is ``torch.nn.MSELoss`` or
        ``torch.nn.HuberLoss``. None is a linear net with Adam and the squared loss.
    notion : {"distribution_gap", "mean_gap"}, default="distribution_gap"
        What shall be alike: the distributions of predictions, whose largest Kolmogorov-Smirnov
        distance between two groups is compared, or their means.
    tolerance : float, default=0.1
        Largest distance among the training rows, in (0, 1). Of means: as a share of the range of
        the target's bounds.
    group_at_predict : {"none", "raw"}, default="none"
        "raw": `predict` needs the groups, and moves scores less. "none": it never sees them.
    path_share : float or "auto", default="auto"
        Share of the budget, in (0, 1), that the tables get; "auto" is 0.2.
    max_grad_norm : float, default=2.0
        Largest L2 norm of one record's gradient, of all outputs together.
    averaged_share : float, default=0.3
        Share of the steps, at the end, over which weights are averaged.
    batch_size : int or "auto", default="auto"
        Expected records in a batch; "auto" is ``min(2048, ceil(n / 8))``.
    groups : sequence or None, default=None
        The groups, two at least; rows of others contribute nothing. None takes them from the
        rows; the set is then public.

    Attributes
    ----------
    groups_ : tuple
        All groups.
    scored_ : ndarray of float64, shape (n_groups, 64)
        Released number of scores of each group up to the end of each of 64 even cells between the
        bounds of the target.
    unit_ : float
        How many times expected moves make up for what a blind model does not know of the group.
    moved_ : ndarray of float64, shape (4, n_groups, 64)
        As `scored_`, of scores that were moved 1/4, 1/2, 3/4 and 1 times as far as `unit_` says;
        empty where groups are known at prediction.
    aim_ : float
        Distance that is aimed at in `scored_` where groups are known at prediction.
    multiplier_ : float
        How far a blind model moves scores, in units of `unit_`.
    kept_tolerance_ : float
        The gap among the training rows is at most this in nine fits of ten: `tolerance` or less,
        or a larger figure where the tables cannot show it.

    Raises
    ------
    ValueError
        At fit, before anything is charged: no sensitive features, fewer than two groups, or another
        invalid parameter.

    Warns
    -----
    FairnessWarning
        The tables cannot show that the tolerance is kept.

    Notes
    -----
    The tolerance speaks of the training rows, spread evenly over the cells of the grid; see
    ``docs/theory/fair_numbers.md``. `certify` bounds the gap of new rows at every threshold.

    References
    ----------
    Xian, Li, Kamath and Zhao, "Differentially Private Post-Processing for Fair Regression", ICML
    2024, for the problem. The maps here are in closed form, and blind where wanted.

    Examples
    --------
    >>> import numpy as np
    >>> from skfairdp import FairPathRegressor
    >>> rng = np.random.default_rng(0)
    >>> group = rng.integers(0, 2, size=4000)
    >>> X = np.column_stack([rng.uniform(size=4000) + 0.3 * group, rng.uniform(size=4000)])
    >>> model = FairPathRegressor(target_bounds=(0, 2), tolerance=0.2, epsilon=4.0)
    >>> _ = model.fit(X, X.sum(axis=1), sensitive_features=group)
    >>> bool(model.privacy_.epsilon <= 4.0)
    True
    >>> model.at(0.3).privacy_.epsilon == model.privacy_.epsilon
    True
    """

    notion: str = "distribution_gap"
    tolerance: float = 0.1
    group_at_predict: str = "none"
    path_share: float | str = "auto"
    max_grad_norm: float = 2.0
    averaged_share: float = 0.3
    max_epochs: int = 40
    groups: Sequence[Any] | None = None
    learning_rate_schedule: Any = None

    _parameters = {
        "notion": (Choice((tables.DISTRIBUTIONS, tables.MEANS)),),
        "tolerance": (OPEN,),
        "group_at_predict": (Choice(("none", "raw")),),
        "path_share": (OPEN, Choice(("auto",))),
        "averaged_share": (Number(0.0, 1.0),),
    }
    __metadata_request__predict: ClassVar[dict[str, bool]] = {"sensitive_features": True}

    _in_parts = True
    _needs_groups = "predictions are compared between groups"

    scored_: Floats = field(init=False)
    unit_: float = field(init=False)
    moved_: Floats = field(init=False)
    aim_: float = field(init=False)
    multiplier_: float = field(init=False)
    kept_tolerance_: float = field(init=False)

    @property
    def _group_blind(self) -> bool:  # type: ignore[override]
        return self.group_at_predict == "none"

    def _n_logits(self, facts: RowFacts) -> int | None:
        assert facts.groups is not None
        return len(facts.groups.labels) if self._group_blind else None

    def _default_of(self, name: str) -> Any:
        from torch import nn

        from skfairdp.engine.nets import default_net

        return default_net().set_params(module__hidden_sizes=(), lr=0.02, criterion=nn.MSELoss)

    def _plan(self, sizes: Sizes, noise_multiplier: float) -> Plan:
        n, size = sizes.total, self._batch_size(sizes.total)
        share = 0.2 if self.path_share == "auto" else float(self.path_share)
        clip = float(self.max_grad_norm)
        training = sizes.batches(self.max_epochs, size, ("gradient", clip, noise_multiplier * clip))
        overall = self._multiplier_of_tables(noise_multiplier, n, share)
        released = tables.plan_tables(sizes, overall, blind=self._group_blind)
        return sizes.plan(
            training,
            *released,
            counts=self._bought(),
            delta=self.delta,
            exact_noise=self.exact_noise,
        )

    def _check_net(self, prepared: PreparedNet, plan: Plan, row_shape: tuple[int, ...]) -> None:
        self._refuse_noise_of_tables(plan.segments[1:])

    def _objective(self, base: Objective, groups: Groups | None, classes: Any) -> Objective:
        from skfairdp.engine.objectives import NumberObjective
        from skfairdp.inprocessing.fair_numbers.objective import NumberAndGroupObjective

        plain = super()._objective(base, groups, classes)
        assert isinstance(plain, NumberObjective)
        assert groups is not None
        return NumberAndGroupObjective(plain.delta, plain.bounds) if self._group_blind else plain

    def _targets(self, labels: Tensor, groups: np.ndarray | None) -> tuple[Tensor, ...]:
        import torch

        assert groups is not None
        # Rows of no group are never drawn; any code will do.
        return labels, torch.from_numpy(groups).to(labels.device).long().clamp(min=0)

    def _descend(self, run: Run) -> None:
        from skfairdp.engine.inference import outputs_by_row
        from skfairdp.inprocessing.fair_numbers.objective import NumberAndChances

        average = self._tail_average(run)
        run.descend([run.plan.segments[0]], after_step=average.after_step)
        average.restore()
        module, n_groups = NumberAndChances(run.prepared.module), run.n_groups
        planned = {segment.blocks[0].name: segment for segment in run.plan.segments}

        def known(rows: Rows) -> Floats:
            return outputs_by_row(module, rows.X).cpu().numpy().clip(-1e6, 1e6)

        def count(name: str, numbers: Callable[[Rows], Floats], *of_groups: int) -> Floats:
            return tables.released(run.release, planned[name], numbers, *of_groups)

        self.scored_ = count("scores by group", lambda rows: known(rows)[:, 0], n_groups)
        self.unit_, self.moved_ = 0.0, np.zeros((0, *self.scored_.shape))
        if self._group_blind:
            certainty = count("certainty", lambda rows: (known(rows)[:, 1:] ** 2).sum(axis=1))
            self.unit_ = tables.unit_of(certainty, self._table().scores.shares)
            moved = [lambda rows, m=m: self._moved(known(rows), m) for m in MULTIPLIERS]
            found = [count("moved scores by group", numbers, n_groups) for numbers in moved]
            self.moved_ = np.stack(found)
        self._stand_at(self._path_of(run.plan))

    def _table(self, noise_std: float = 0.0) -> Table:
        return Table(self.scored_, noise_std)

    def _moved(self, known: Floats, multiplier: float) -> Floats:
        """Scores of a blind model: moved by what is expected of the group, between -1 and 1."""
        moves = tables.expected_moves(self._table().scores, known[:, 1:])
        return (known[:, 0].clip(-1.0, 1.0) + multiplier * self.unit_ * moves).clip(-1.0, 1.0)

    def _path_of(self, plan: Plan) -> NumberPath:
        stds = {s.blocks[0].name: s.blocks[0].noise_std for s in plan.segments}
        moved = [Table(counts, stds["moved scores by group"]) for counts in self.moved_]
        return NumberPath(self.notion, self._table(stds["scores by group"]), tuple(moved))

    def _stand_at(self, path: NumberPath) -> None:
        point = path.choose(float(self.tolerance))
        self.aim_, self.multiplier_, self.kept_tolerance_ = point.aim, point.multiplier, point.kept
        if point.kept > self.tolerance + 1e-12:
            figure = significant_up(point.kept, 3)
            warn_user(
                f"The tables do not show that 'tolerance' = {self.tolerance:g} is kept: among the "
                f"training rows predictions of two groups may be {figure} apart. More rows, a "
                "larger 'epsilon' or a larger 'path_share' help.",
                FairnessWarning,
            )

    def path(self) -> pd.DataFrame:
        """List points of the path, from the smallest gap to no constraint.

        Returns
        -------
        DataFrame
            A row a point: the smallest tolerance that is kept there, in nine fits of ten for all
            rows together; ``aim`` or ``multiplier``, which say where the point is, as `aim_` and
            `multiplier_`; the gap in the table; the mean prediction of each group, in units of the
            target; and ``squared_move``, the mean squared change of predictions, which no table
            tells for a blind model. All are about the training rows. Where groups are known at
            prediction there is a point for every tolerance, and 21 are listed.
        """
        check_is_fitted(self)
        assert self.groups_ is not None
        bounds = TargetBounds(*self.target_bounds_)
        return self._path_of(self.plan_).frame(self.groups_, bounds)

    def predict(self, X: ArrayLike, *, sensitive_features: ArrayLike | None = None) -> np.ndarray:
        """Predict the target of each row.

        Parameters
        ----------
        X : array-like, shape (n_samples, n_features)
            Rows to predict.
        sensitive_features : array-like of shape (n_samples,) or (n_samples, n_columns), optional
            Their groups: needed with ``group_at_predict="raw"``, and not looked at otherwise.

        Returns
        -------
        ndarray of float64, shape (n_samples,)
            In units of the target, between `target_bounds_`.

        Raises
        ------
        ValueError
            Groups are missing though the model was fitted to see them.
        UnknownGroupError
            A group is not among `groups_`.
        """
        check_is_fitted(self)
        bounds = TargetBounds(*self.target_bounds_)
        if self._group_blind:
            return bounds.unscaled(self._moved(self._known(X), self.multiplier_))
        if sensitive_features is None:
            raise ValueError(
                "predict needs sensitive_features: the model was fitted with "
                "group_at_predict='raw'. Pass the groups of the rows, or fit with 'none'."
            )
        numbers = self._known(X)[:, 0].clip(-1.0, 1.0)
        groups = encode_groups(sensitive_features, n_rows=len(numbers), labels=self.groups_)
        scores = self._table().scores
        moved = tables.with_groups(scores, numbers, groups.codes, self.notion, self.aim_)
        return bounds.unscaled(moved)

    def score(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        sensitive_features: ArrayLike | None = None,
    ) -> float:
        """Compute R² of `predict`.

        Parameters
        ----------
        X : array-like, shape (n_samples, n_features)
            Rows.
        y : array-like, shape (n_samples,)
            Their targets.
        sample_weight : array-like, shape (n_samples,), optional
            Weights of the rows.
        sensitive_features : array-like of shape (n_samples,) or (n_samples, n_columns), optional
            As of `predict`.

        Returns
        -------
        float
        """
        from sklearn.metrics import r2_score

        predicted = self.predict(X, sensitive_features=sensitive_features)
        return float(r2_score(y, predicted, sample_weight=sample_weight))

    @in_chunks
    def _known(self, X: ArrayLike) -> Floats:
        return self._asked_once(X, self._outputs)

    def _outputs(self, X: np.ndarray) -> Floats:
        from skfairdp.engine.inference import outputs
        from skfairdp.inprocessing.fair_numbers.objective import NumberAndChances

        return outputs(NumberAndChances(self.module_), X)
