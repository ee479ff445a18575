"""One private fit, and every point of the frontier between accuracy and a gap."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Sequence
from dataclasses import field
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from skfairdp.certificate import Certificate, certify
from skfairdp.engine.inference import outputs, outputs_by_row
from skfairdp.engine.nets import PreparedNet, default_net
from skfairdp.engine.objectives import Objective
from skfairdp.engine.release import Rows
from skfairdp.exceptions import FairnessWarning, warn_user
from skfairdp.fairness.groups import Groups, encode_groups
from skfairdp.figures import significant_up
from skfairdp.inprocessing.fair_path.display import FairPathDisplay
from skfairdp.inprocessing.fair_path.path import (
    MULTIPLIERS,
    N_FAMILIES,
    ReleasedPath,
    decisions,
    table_entries,
)
from skfairdp.inprocessing.fair_path.scores import (
    ONE_MULTIPLIER,
    Rate,
    Scores,
    ScoresObjective,
)
from skfairdp.inprocessing.gradient import GradientClassifier, Run
from skfairdp.inprocessing.rates.training import TailAverage
from skfairdp.parameters import Choice, Number
from skfairdp.privacy.mechanisms.prefix_sums import PrefixSums, prefix_norm
from skfairdp.privacy.noise import NoiseSource
from skfairdp.privacy.plan import GRID_FAILURE, LEAST_MULTIPLIER, Block, Plan, Segment
from skfairdp.privacy.sizes import Sizes, expected_batch_size, steps_for

__all__ = ["FairPathClassifier"]

_OPEN = Number(0.0, 1.0, low_open=True, high_open=True)
# Of what the releases after training get, the part of the sizes: their noise is three times
# that of the table.
_OF_SIZES = 0.1


class FairPathClassifier(GradientClassifier):
    """Optimal fair classifiers for all tolerances, from one private fit.

    Among classifiers that do not see the group, the most accurate one with a given gap between
    two groups is a threshold on two scores: how likely the positive label is, and how likely
    each group. A net learns both, with private records; then one small table of counts is
    released, which says what every multiplier between the two scores does. All tolerances are
    read off that table, at no further cost.

    Parameters
    ----------
    net : skorch.NeuralNet or None, default=None
        Module, criterion, optimizer, learning rate and device; its outputs are logits of the
        label and of the group. The criterion is BCEWithLogitsLoss. None is a linear net with
        Adam, which suits one-hot bins and scaled columns.
    notion : {"demographic_parity", "equal_opportunity", "accuracy_parity"}, \
default="demographic_parity"
        Which rate shall be alike in both groups.
    tolerance : float, default=0.05
        Largest difference of rates among the training rows, in (0, 1).
    path_share : float, default=0.2
        Share of the budget, in (0, 1), that the table gets.
    max_grad_norm : float, default=2.0
        Largest L2 norm of one record's gradient, of all logits together.
    averaged_share : float, default=0.3
        Share of the steps, at the end, over which weights are averaged.
    batch_size : int or "auto", default="auto"
        Expected records in a batch; "auto" is ``min(2048, ceil(n / 8))``.
    max_epochs : int, default=40
        Passes over the data, each of ``ceil(n / batch_size)`` steps.
    groups : sequence or None, default=None
        The two groups; rows of others contribute nothing. None takes them from the
        rows; the set is then public.
    classes : sequence or None, default=None
        The two class labels. None takes them from `y`; they are then public.
    exact_noise : bool, default=False
        Round sums to a grid and draw their noise in whole numbers, exactly: no last bit of a
        float64 then tells anything that the guarantee does not cover. Takes up to 1.3 times as
        long. The table's noise is exact in any case.

    Attributes
    ----------
    classes_ : ndarray, shape (2,)
        Class labels; the second is the positive one.
    groups_ : tuple
        Both groups.
    sizes_ : ndarray of float64, shape (2, 2)
        Released number of records of each group and label.
    table_ : ndarray of float64, shape (2, 2, 2, 1023)
        Released prefix sums of the table, by sign of the group's score, group and label.
    multiplier_ : float
        What one unit of the group's score costs; the rule is
        ``2 eta - 1 - multiplier_ * score > 0``.
    kept_tolerance_ : float
        Smallest tolerance that this multiplier keeps to, from released values. Above
        `tolerance` where none does; then it has the smallest gap.

    Raises
    ------
    ValueError
        At fit, before anything is charged: no sensitive features, not two groups, not two
        classes, a notion that needs more than one multiplier, or another parameter that is
        not what it should be.

    Warns
    -----
    FairnessWarning
        No point of the path keeps to the tolerance; the smallest gap is used.

    Notes
    -----
    The tolerance speaks of the training rows, and holds but for the table's noise, in nine
    tables of ten: see ``docs/theory/fair_path.md``. `certify` bounds the gap of new rows.
    `predict_proba` states the chance of the positive label; `predict` follows
    `decision_function`, which the tolerance adjusts.

    References
    ----------
    Menon and Williamson, "The cost of fairness in binary classification", FAT* 2018; Chen,
    Klochkov and Liu, "Post-hoc bias scoring is optimal for fair classification", ICLR 2024.

    Examples
    --------
    >>> from skfairdp import FairPathClassifier
    >>> from skfairdp.datasets import make_biased_gaussians
    >>> data = make_biased_gaussians(n_samples=5000, random_state=0)
    >>> model = FairPathClassifier(tolerance=0.3, epsilon=4.0)
    >>> _ = model.fit(data.data, data.target, sensitive_features=data.sensitive_features)
    >>> bool(model.privacy_.epsilon <= 4.0)
    True
    >>> model.at(0.25).privacy_.epsilon == model.privacy_.epsilon
    True
    """

    notion: str = "demographic_parity"
    tolerance: float = 0.05
    path_share: float = 0.2
    max_grad_norm: float = 2.0
    averaged_share: float = 0.3
    max_epochs: int = 40
    groups: Sequence[Any] | None = None
    learning_rate_schedule: Any = None

    _parameters = {
        "notion": (Choice(ONE_MULTIPLIER),),
        "tolerance": (_OPEN,),
        "path_share": (_OPEN,),
        "averaged_share": (Number(0.0, 1.0),),
    }
    _released: ClassVar[tuple[str, ...]] = (
        *GradientClassifier._released,
        "sizes_",
        "table_",
        "multiplier_",
        "kept_tolerance_",
    )
    _multiclass = False

    sizes_: np.ndarray = field(init=False)
    table_: np.ndarray = field(init=False)

    # -- what is released -------------------------------------------------------------

    @property
    def _rate(self) -> Rate:
        return Rate.of(self.notion)

    @property
    def _n_logits(self) -> int:
        return self._rate.n_logits

    def _default_of(self, name: str) -> Any:
        return default_net().set_params(module__hidden_sizes=(), lr=0.02)

    def _net(self) -> Any:
        return self._default_of("net") if self.net is None else self.net

    def _check_net(self, prepared: PreparedNet, plan: Plan, row_shape: tuple[int, ...]) -> None:
        criterion = prepared.criterion
        weighted = [getattr(criterion, n, None) is not None for n in ("weight", "pos_weight")]
        if type(criterion) is not nn.BCEWithLogitsLoss or any(weighted):
            raise ValueError(
                f"'net' has the criterion {type(criterion).__name__}; the scores need "
                "BCEWithLogitsLoss without weights, as the chances of labels and groups are used."
            )
        least = min(segment.multiplier(0) for segment in plan.segments[1:])
        if 0.0 < least < LEAST_MULTIPLIER:
            raise ValueError(
                f"The table's exact noise is proved for multipliers from {LEAST_MULTIPLIER}; got "
                f"{least:.3g}. Use a smaller 'path_share' or 'epsilon'."
            )
        super()._check_net(prepared, plan, row_shape)

    def _encode_groups(self, sensitive_features: Any, n: int) -> Groups:
        if sensitive_features is None:
            raise ValueError(
                "'sensitive_features' must hold the group of each row: rates are compared between "
                "groups; got None. DPSGDClassifier trains without groups."
            )
        groups = encode_groups(
            sensitive_features,
            n_rows=n,
            labels=self.groups,
            on_unknown="raise" if self.groups is None else "drop",
        )
        if len(groups.labels) != 2:
            raise ValueError(
                f"'sensitive_features' must hold two groups; got {len(groups.labels)}. More groups "
                "need a multiplier each: RateConstrainedClassifier takes any number."
            )
        return groups

    def _sizes(self, groups: Groups | None, n: int, noise: NoiseSource) -> Sizes:
        return Sizes.of_all(n, self.dataset_size)

    def _cells(self, plan: Plan, groups: Groups | None) -> np.ndarray | None:
        return None if groups is None else np.where(groups.codes < 0, -1, 0)

    def _plan(self, sizes: Sizes, noise_multiplier: float) -> Plan:
        n = sizes.total
        size = min(2048, -(-n // 8)) if self.batch_size == "auto" else self.batch_size
        size = expected_batch_size(size, n)
        steps, weight = steps_for(self.max_epochs, n, size), 1.0 / size
        clip, share = float(self.max_grad_norm), float(self.path_share)
        training = Segment(
            steps=steps,
            rates=(size / n,),
            expected_sizes=(float(size),),
            blocks=(
                Block(
                    name="gradient",
                    max_norm=clip,
                    weights=(weight,),
                    noise_std=noise_multiplier * clip * weight,
                ),
            ),
        )
        # All steps are about one Gaussian release of this multiplier.
        overall = noise_multiplier * n / (size * math.sqrt(steps))
        overall *= math.sqrt((1.0 - share) / share)
        of_sizes = _everyone("sizes", n, 1, overall / math.sqrt(_OF_SIZES))
        of_path = _everyone("path", n, len(MULTIPLIERS), overall / math.sqrt(1.0 - _OF_SIZES))
        return sizes.plan(
            training, of_sizes, of_path, delta=self.delta, exact_noise=self.exact_noise
        )

    # -- training ---------------------------------------------------------------------

    def _objective(self, base: Objective, groups: Groups | None, classes: np.ndarray) -> Objective:
        return ScoresObjective(self._rate)

    def _targets(self, labels: Tensor, groups: np.ndarray | None) -> tuple[Tensor, ...]:
        assert groups is not None
        # Rows of no group are never drawn; any code will do.
        return labels, torch.from_numpy(groups).to(labels).clamp(min=0)

    def _train(self, run: Run) -> None:
        training, of_sizes, of_path = run.plan.segments
        first = training.steps - int(self.averaged_share * training.steps)
        average = TailAverage(run.prepared.flat.vector, first)
        run.descend([training], after_step=average.after_step)
        average.restore()
        rate, module = self._rate, run.prepared.module

        def cells(rows: Rows) -> np.ndarray:
            labels, groups = (target.long().cpu().numpy() for target in rows.targets)
            return groups * 2 + labels

        self.sizes_ = run.release.prefix_sums(of_sizes, cells, (2, 2, 1))[0][..., 0]
        share = rate.share_of(self.sizes_)

        def entries(rows: Rows) -> np.ndarray:
            scores = outputs_by_row(Scores(module, rate, share), rows.X)
            labels, groups = (target.long().cpu().numpy() for target in rows.targets)
            return table_entries(scores.cpu().numpy(), groups, labels)

        shape = (*N_FAMILIES, len(MULTIPLIERS))
        self.table_, _ = run.release.prefix_sums(of_path, entries, shape)
        self._stand_at(self._path_of(run.plan))

    def _path_of(self, plan: Plan) -> ReleasedPath:
        of_sizes, of_path = (segment.blocks[0].noise_std for segment in plan.segments[1:])
        stds = PrefixSums(len(MULTIPLIERS), of_path).stds
        return ReleasedPath(self._rate, self.sizes_, self.table_, of_sizes, stds)

    def _stand_at(self, path: ReleasedPath) -> None:
        point, kept = path.choose(self.tolerance)
        self.multiplier_, self.kept_tolerance_ = float(MULTIPLIERS[point]), kept
        if kept > self.tolerance:
            warn_user(
                f"No point of the path keeps to 'tolerance' = {self.tolerance:g}: the smallest gap "
                f"is estimated as {abs(path.gaps[point]):.3g}, with a standard error of "
                f"{path.gap_stds[point]:.2g}, and is used. It keeps to a tolerance of "
                f"{significant_up(kept, 3)}; more rows, a larger 'epsilon' or 'path_share' help.",
                FairnessWarning,
            )

    # -- the path ---------------------------------------------------------------------

    def at(self, tolerance: float) -> FairPathClassifier:
        """Stand at another tolerance.

        Parameters
        ----------
        tolerance : float
            Largest difference of rates among the training rows, in (0, 1).

        Returns
        -------
        FairPathClassifier
            Fitted, with the same net, table and guarantee: all of them are one release, and
            cost what one costs. Its digest is its own.
        """
        check_is_fitted(self)
        if not _OPEN.accepts(tolerance):
            raise ValueError(f"'tolerance' must be {_OPEN.describe()}; got {tolerance!r}.")
        if changed := self._changed_since_fit():
            raise ValueError(
                f"The model is not as fit left it ({', '.join(changed)}), so it is not known what "
                "its table is about: fit again, or undo the change."
            )
        other = copy.copy(self)
        other.tolerance = tolerance
        other._stand_at(other._path_of(other.plan_))
        other._bind()
        return other

    def path(self) -> pd.DataFrame:
        """List the points of the path, from the smallest gap to no constraint.

        Returns
        -------
        DataFrame
            A row a point: the smallest tolerance that `at` answers with it, its multiplier, the
            estimated gap, rate of each group and accuracy, and their standard errors
            (``gap_std``, ``accuracy_std``), which are those of the released table's noise: all
            are about the training rows.
        """
        check_is_fitted(self)
        assert self.groups_ is not None
        return self._path_of(self.plan_).frame(self.groups_)

    def plot_path(self, **options: Any) -> FairPathDisplay:
        """Draw the path, and where on it the classifier stands.

        Parameters
        ----------
        **options : dict
            Those of `skfairdp.inprocessing.FairPathDisplay.from_estimator`.

        Returns
        -------
        FairPathDisplay
        """
        return FairPathDisplay.from_estimator(self, **options)

    def certify_path(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        *,
        sensitive_features: ArrayLike,
        tolerances: Sequence[float] = (0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15),
        confidence_level: float = 0.95,
        bound: str = "exact",
    ) -> dict[float, Certificate]:
        """Certify several tolerances at once.

        Parameters
        ----------
        X : array-like, shape (n_samples, n_features)
            Rows held out from training and selection.
        y : array-like, shape (n_samples,), optional
            Their labels; not needed for demographic parity.
        sensitive_features : array-like
            Their groups.
        tolerances : sequence of float
            Fixed before these rows are looked at.
        confidence_level : float, default=0.95
            Probability that all bounds hold together, in (0, 1).
        bound : {"exact", "difference"}, default="exact"
            Interval for one pair of groups.

        Returns
        -------
        dict of float to Certificate
            Of the model that `at` returns for each tolerance. Whichever is picked afterwards,
            its bound holds.
        """
        with warnings.catch_warnings():
            # What a tolerance did not reach, its certificate says.
            warnings.simplefilter("ignore", FairnessWarning)
            models = {float(tolerance): self.at(float(tolerance)) for tolerance in tolerances}
        return {
            tolerance: certify(
                model,
                X,
                y,
                sensitive_features=sensitive_features,
                notion=self.notion,
                confidence_level=confidence_level,
                bound=bound,
                n_certificates=len(models),
                certificate_index=place,
            )
            for place, (tolerance, model) in enumerate(models.items(), start=1)
        }

    # -- prediction -------------------------------------------------------------------

    def decision_function(self, X: ArrayLike) -> np.ndarray:
        """Compute the adjusted score: positive for rows that get the second class.

        Parameters
        ----------
        X : array-like, shape (n_samples, n_features)
            Rows to score. Their groups are not needed.

        Returns
        -------
        ndarray of float64, shape (n_samples,)
            ``2 eta - 1 - multiplier_ * s``, see ``docs/theory/fair_path.md``.
        """
        return decisions(self._scores(X), self.multiplier_)

    def predict_proba(self, X: ArrayLike) -> np.ndarray:
        """Estimate class probabilities, which no tolerance adjusts.

        Parameters
        ----------
        X : array-like, shape (n_samples, n_features)
            Rows to score.

        Returns
        -------
        ndarray of float64, shape (n_samples, 2)
            Columns in the order of ``classes_``.
        """
        positive = 0.5 * (1.0 + self._scores(X)[:, 0])
        return np.column_stack([1.0 - positive, positive])

    def predict(self, X: ArrayLike) -> np.ndarray:
        """Predict the class of each row at the tolerance in use.

        Parameters
        ----------
        X : array-like, shape (n_samples, n_features)
            Rows to classify. Their groups are not needed.

        Returns
        -------
        ndarray, shape (n_samples,)
            Entries of ``classes_``.
        """
        selected = self.decision_function(X) > 0.0
        return self.classes_[selected.astype(np.int64)]

    def _scores(self, X: ArrayLike) -> np.ndarray:
        X = self._features(X)
        share = self._rate.share_of(self.sizes_)
        return outputs(Scores(self.module_, self._rate, share), X)


def _everyone(name: str, n: int, length: int, multiplier: float) -> Segment:
    """One release of prefix sums over all records."""
    norm = prefix_norm(length)
    block = Block(name=name, max_norm=norm, weights=(1.0,), noise_std=multiplier * norm)
    return Segment(
        steps=1,
        rates=(1.0,),
        expected_sizes=(float(n),),
        blocks=(block,),
        failure=GRID_FAILURE if multiplier > 0.0 else 0.0,
    )
