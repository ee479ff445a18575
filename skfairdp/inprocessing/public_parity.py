"""A penalty on the gap between groups that only public rows enter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_array

from skfairdp.foundation.parameters import POSITIVE, Number, WithParameters, check_parameters
from skfairdp.records.groups import encode_groups

if TYPE_CHECKING:
    from torch import Tensor, nn

    from skfairdp.engine.nets import PreparedNet


class PublicParity(WithParameters):
    """Demographic-parity penalty, evaluated on public rows in every training step.

    The gradient of ``weight * max(0, gap - tolerance)`` is added to each *released*
    gradient of `DPSGDClassifier`. It depends on public rows and released weights alone,
    so it is post-processing: the privacy cost is that without the penalty.

    Parameters
    ----------
    X_public : array-like, shape (n_public, n_features)
        Public rows, as the classifier gets them: with all earlier steps applied. All of
        them are used in every step, and they are stored with the classifier. A net can
        overfit a few of them: on Adult (epsilon 1) the gap on other rows fell
        from .17 to .11 with 100 of them, .07 with 300 and .01 with 1000.
    sensitive_features : array-like, shape (n_public,) or (n_public, k)
        Group of each public row; at least two groups.
    weight : float, default=1.0
        Factor on the penalty, >= 0; the loss is a mean over records.
    temperature : float, default=1.0
        Divides logits before they become probabilities, > 0. Small values come close to
        counting decisions, but leave rows far from the boundary without gradient.
    tolerance : float, default=0.0
        Gap on the public rows, in [0, 1], below which nothing is penalised.

    References
    ----------
    The penalty of FairDP-SGD in Yaghini et al., "Learning to Walk Impartially on the
    Pareto Frontier of Fairness, Privacy, and Utility", 2023 (arXiv 2302.09183).

    Examples
    --------
    >>> from skfairdp import DPSGDClassifier
    >>> from skfairdp.datasets import make_biased_gaussians
    >>> from skfairdp.inprocessing import PublicParity
    >>> data = make_biased_gaussians(n_samples=2000, random_state=0)
    >>> public = make_biased_gaussians(n_samples=300, random_state=1)
    >>> parity = PublicParity(public.data, public.sensitive_features, weight=2.0)
    >>> model = DPSGDClassifier(public_parity=parity).fit(data.data, data.target)
    >>> bool(model.privacy_.epsilon <= 1.0)
    True
    """

    X_public: ArrayLike = field(kw_only=False)
    sensitive_features: ArrayLike = field(kw_only=False)
    weight: float = field(default=1.0, kw_only=False)
    temperature: float = field(default=1.0, kw_only=False)
    tolerance: float = field(default=0.0, kw_only=False)

    _parameters = {
        "weight": (Number(0.0),),
        "temperature": (POSITIVE,),
        "tolerance": (Number(0.0, 1.0),),
    }

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        """Show the settings, not the rows."""
        return (
            f"PublicParity(<rows of shape {np.shape(self.X_public)}>, weight={self.weight!r}, "
            f"temperature={self.temperature!r}, tolerance={self.tolerance!r})"
        )

    def bind(self, prepared: PreparedNet, row_shape: tuple[int, ...]) -> Callable[[Tensor], Tensor]:
        """Check everything and return a function that adds the penalty to a released gradient.

        Parameters
        ----------
        prepared : PreparedNet
            The net that is trained.
        row_shape : tuple of int
            Shape of one private row.

        Returns
        -------
        callable
            From a gradient, float64 of shape (p,), to another.

        Raises
        ------
        ValueError
            A setting is out of range, the public rows have another shape or no numbers,
            or hold fewer than two groups.
        """
        import torch
        from torch import nn

        from skfairdp.engine.nets import as_tensor

        check_parameters(self, self._parameters)
        X = check_array(
            self.X_public, dtype=[np.float64, np.float32], allow_nd=True, input_name="X_public"
        )
        if X.shape[1:] != tuple(row_shape):
            raise ValueError(
                f"'X_public' of PublicParity has rows of shape {X.shape[1:]}; the training rows "
                f"have {tuple(row_shape)}. Apply the steps before the classifier to it first."
            )
        groups = encode_groups(self.sensitive_features, n_rows=len(X))
        if len(groups.labels) < 2:
            raise ValueError(
                "'sensitive_features' of PublicParity must hold at least two groups; got "
                f"{len(groups.labels)}."
            )
        module = prepared.module
        parameters = [p for p in module.parameters() if p.requires_grad]
        rows = as_tensor(X, module)
        member = nn.functional.one_hot(torch.from_numpy(groups.codes)).to(rows)

        def adjust(gradient: Tensor) -> Tensor:
            mode = module.training
            module.eval()
            try:
                gap = soft_gap(module(rows), member, prepared.criterion, self.temperature)
            finally:
                module.train(mode)
            if not bool(gap > self.tolerance):
                return gradient
            parts = torch.autograd.grad(gap, parameters, allow_unused=True, materialize_grads=True)
            return gradient + self.weight * torch.cat([p.flatten() for p in parts]).to(gradient)

        return adjust


def soft_gap(output: Tensor, member: Tensor, criterion: nn.Module, temperature: float) -> Tensor:
    """Largest difference between a group's soft rate of a class and that of all others.

    `member` (n, n_groups): one-hot groups; every group has a row. `criterion`: says what the
    output means, under skorch's conventions.
    """
    import torch
    from torch import nn

    if type(criterion) is nn.BCEWithLogitsLoss:
        score = output.reshape(-1, 1)
        output = torch.cat([torch.zeros_like(score), score], dim=1)
    elif type(criterion) is nn.NLLLoss:  # skorch's convention: the module returns probabilities
        output = (output + torch.finfo(output.dtype).eps).log()
    chances = torch.softmax(output / temperature, dim=1)
    counts, sizes = member.T @ chances, member.sum(dim=0)[:, None]
    others = (counts.sum(dim=0) - counts) / (sizes.sum() - sizes)
    return (counts / sizes - others).max()
