"""Differentially private stochastic gradient descent, for classes and for numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skfairdp.foundation.assumptions import PARITY_ROWS
from skfairdp.foundation.parameters import Kind
from skfairdp.inprocessing.class_weights import CostSensitive
from skfairdp.inprocessing.gradient import NONE, Run
from skfairdp.inprocessing.public_parity import PublicParity
from skfairdp.inprocessing.regressor import GradientRegressor
from skfairdp.privacy.plan import Plan

if TYPE_CHECKING:
    from skfairdp.engine.nets import PreparedNet


class DPSGDClassifier(CostSensitive):
    """Neural network trained by differentially private gradient descent.

    Each step draws every record with the same probability, clips every drawn
    record's gradient to an L2 norm, sums them, adds Gaussian noise and divides by
    the expected batch size. It protects records and promises nothing about groups:
    they are checked and named in `groups_`, and not used in training. `certify` states
    what gap its predictions have.

    Parameters
    ----------
    public_parity : PublicParity or None, default=None
        Penalty on the gap between groups among *public* rows, which costs no privacy.

    References
    ----------
    Abadi et al., "Deep Learning with Differential Privacy", CCS 2016, Algorithm 1,
    with Poisson batches and the expected batch size as the divisor. With
    `public_parity`: FairDP-SGD of Yaghini et al., "Learning to Walk Impartially on the
    Pareto Frontier of Fairness, Privacy, and Utility", 2023 (arXiv 2302.09183).

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from skfairdp import DPSGDClassifier
    >>> X, y = make_classification(2000, random_state=0)
    >>> model = DPSGDClassifier(epsilon=1.0).fit(X, y)
    >>> model.predict_proba(X).shape
    (2000, 2)
    >>> bool(model.privacy_.epsilon <= 1.0)
    True
    """

    public_parity: PublicParity | None = None

    _in_parts = True
    _parameters = {"public_parity": (Kind((PublicParity,), "a PublicParity"), NONE)}

    def _check_net(self, prepared: PreparedNet, plan: Plan, row_shape: tuple[int, ...]) -> None:
        if self.public_parity is not None:
            self.public_parity.bind(prepared, row_shape)

    def _train(self, run: Run) -> None:
        parity = self.public_parity
        adjust = None if parity is None else parity.bind(run.prepared, run.release.row_shape)
        steps = run.plan.segments if self.costs is None else run.plan.segments[:1]
        run.descend(steps, adjust_gradient=adjust)
        if self.costs is not None:
            self._choose_threshold(run)

    def _assumed_at_last(self) -> tuple[str, ...]:
        return () if self.public_parity is None else (PARITY_ROWS,)


class DPSGDRegressor(GradientRegressor):
    """Neural network for numbers, trained by differentially private gradient descent.

    Trained as :class:`DPSGDClassifier` is, on targets that public or bought bounds map to [-1, 1].
    It protects records and promises nothing about groups.

    Parameters
    ----------
    net : skorch.NeuralNet or None, default=None
        Module, criterion, optimizer, learning rate and device; the module has one output. The
        criterion is ``torch.nn.MSELoss`` or ``torch.nn.HuberLoss``, whose `delta` is in units of
        half of the distance of the bounds. None is a multilayer perceptron with Adam and the
        squared loss; ``net__criterion=torch.nn.HuberLoss`` sets the other one.

    Notes
    -----
    Predictions are clipped to ``target_bounds_``. What a target beyond the bounds is clipped to is
    all that the net sees of it, so that no record's size changes how another is scaled.

    References
    ----------
    Abadi et al., "Deep Learning with Differential Privacy", CCS 2016, Algorithm 1, with Poisson
    batches and the expected batch size as the divisor.

    Examples
    --------
    >>> from sklearn.datasets import make_regression
    >>> from skfairdp import DPSGDRegressor
    >>> X, y = make_regression(2000, 5, random_state=0)
    >>> model = DPSGDRegressor(target_bounds=(-300, 300), epsilon=1.0).fit(X, y)
    >>> model.predict(X).shape
    (2000,)
    >>> bool(model.privacy_.epsilon <= 1.0)
    True
    """

    _in_parts = True
