"""Scores where features and labels are public, and only the groups are private.

The label's score is learned without noise. That of the groups is a softmax on what enters the
net's last layer, which so is public too. Its log likelihood takes who is in which group from one
table alone: the sum of these features over each group. The table is released once, with noise.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import numpy as np
import torch
from scipy.optimize import minimize
from scipy.special import logsumexp
from torch import Tensor, nn

from skfairdp.engine.clipping.clippers import make_clipper
from skfairdp.engine.inspection import find_head
from skfairdp.engine.modules import MLP
from skfairdp.engine.optimizers import copy_module
from skfairdp.engine.public_features import PublicFeatures
from skfairdp.engine.randomness import SeededDraws
from skfairdp.engine.release import Statistic
from skfairdp.inprocessing.fair_path.compared_rates import Rates
from skfairdp.inprocessing.fair_path.scores import LabelObjective, within
from skfairdp.inprocessing.gradient import Run
from skfairdp.inprocessing.rates.constraints import Floats
from skfairdp.inprocessing.rates.training import TailAverage


def learn_in_public(run: Run, rates: Rates, n_groups: int, average: TailAverage) -> PublicFeatures:
    """Train the net of a run: the label's logit without noise, those of the groups from a table.

    Result: the rows.
    """
    training, of_table, *_ = run.plan.segments
    module = run.prepared.module
    name, head = find_head(module)
    flat, objective = run.prepared.flat, LabelObjective(rates)
    rows = run.release.public_rows(make_clipper(module, flat, objective))
    size = round(sum(training.expected_sizes))
    run.descend(
        [training],
        released_gradient=lambda _: rows.plain_gradient(module, flat, objective, size),
        after_step=average.after_step,
    )
    average.restore()
    body = _Body(module, name)
    body.standardise(rows.outputs(body))

    def vectors(features: Tensor, label: Tensor) -> Tensor:
        """Features of rows whose group a softmax learns, and a one for that softmax."""
        own = torch.stack([within(labels, label.to(features)) for labels in rates.heads], dim=1)
        return torch.cat([features * own.sum(dim=1, keepdim=True), own], dim=1)

    known = vectors(rows.outputs(body), rows.labels).double()
    norms = known.norm(dim=1)
    bound = float(norms[norms > 0.0].median())
    known, weights = known / bound, bound / norms.clamp(min=bound)

    def by_group(output: Tensor, *targets: Tensor) -> Tensor:
        label, group = targets
        codes = torch.arange(n_groups, device=output.device)
        own = (group.long().unsqueeze(1) == codes).to(output)
        of_row = vectors(output, label)
        # Rows with long vectors count for less, as they do below.
        of_row = of_row / of_row.norm(dim=1, keepdim=True).clamp(min=bound)
        return torch.einsum("bg,bd->bgd", own, of_row).flatten(1)

    shape = n_groups, known.shape[1]
    statistic = Statistic(int(np.prod(shape)), by_group)
    sums = run.release.statistic(of_table, statistic, body).cpu().numpy().reshape(shape)
    std = of_table.blocks[0].noise_std
    found = _softmax_from_sums(known.cpu().numpy(), weights.cpu().numpy(), sums, std / bound)
    slopes, starts = torch.from_numpy(found / bound).split([body.width, len(rates.heads)], dim=1)
    slopes = slopes * body.scale.cpu()
    starts = starts - (slopes @ body.mean.cpu()).unsqueeze(1)
    with torch.no_grad():
        first = rates.n_label_logits
        head.weight[first:] = slopes.repeat(len(rates.heads), 1).to(head.weight)
        head.bias[first:] = starts.T.flatten().to(head.bias)
    return rows


def refuse_other_heads(module: nn.Module, row_shape: tuple[int, ...], rates: Rates) -> None:
    """Refuse a net whose logits of the groups are not those of its linear head, biases included.

    `module`: takes such rows. Left as it is.
    """
    try:
        name, head = find_head(module)
        probe = copy_module(module).eval()
        with torch.no_grad(), SeededDraws(0):
            rows = torch.zeros((2, *row_shape)).to(head.weight)
            expected = nn.functional.linear(_Body(probe, name)(rows), head.weight, head.bias)
            first = rates.n_label_logits
            alike = torch.allclose(probe(rows)[:, first:], expected[:, first:], atol=1e-4)
            linear = head.bias is not None and alike
    except (RuntimeError, TypeError, ValueError):
        linear = False
    if not linear:
        raise ValueError(
            f"The logits of the groups that {type(module).__name__} returns must be those of a "
            "torch.nn.Linear with a bias, called `head` or defined last: their weights come from a "
            "table."
        )


def _softmax_from_sums(features: Floats, weights: Floats, sums: Floats, ridge: float) -> Floats:
    """Most likely softmax given noisy weighted sums of features by group; the first logit is 0.

    All sums together are public: what noise adds to them is taken away. `ridge` keeps slopes
    small where the noise is larger than what it hides.
    """
    n_groups, width = sums.shape
    sums = sums + (weights @ features - sums.sum(axis=0)) / n_groups

    def loss(flat: Floats) -> tuple[float, Floats]:
        slopes = flat.reshape(n_groups - 1, width)
        logits = np.hstack([np.zeros((len(features), 1)), features @ slopes.T])
        total = logsumexp(logits, axis=1)
        value = weights @ total - (slopes * sums[1:]).sum() + 0.5 * ridge * (slopes**2).sum()
        chances = weights[:, None] * np.exp(logits[:, 1:] - total[:, None])
        return value, (chances.T @ features - sums[1:] + ridge * slopes).ravel()

    found = minimize(loss, np.zeros((n_groups - 1) * width), jac=True, method="L-BFGS-B")
    return np.asarray(found.x.reshape(n_groups - 1, width))


class Beside(nn.Module):
    """A perceptron that adds to the first logits of a linear net.

    Where the label is learned without noise it may be bent; groups, whose weights come from a
    noisy table, are linear in the features.

    `n_features`: number of columns of the input. `n_outputs`: number of logits. `hidden_sizes`:
    widths of the perceptron's hidden layers. `n_bent`: number of logits that it adds to.
    """

    def __init__(
        self,
        n_features: int,
        n_outputs: int = 2,
        hidden_sizes: Sequence[int] = (64, 64),
        n_bent: int = 1,
    ) -> None:
        super().__init__()
        self.features = nn.Identity()
        self.head = nn.Linear(n_features, n_outputs)
        self.bent = MLP(n_features, n_bent, hidden_sizes, nn.ReLU)

    def forward(self, X: Tensor) -> Tensor:
        """Return logits, shape (B, n_outputs)."""
        logits: Tensor = self.head(X)
        bent: Tensor = self.bent(X)
        return logits + nn.functional.pad(bent, (0, logits.shape[-1] - bent.shape[-1]))


class _Body(nn.Module):
    """Inputs of a module's head, standardised or not."""

    def __init__(self, module: nn.Module, head: str) -> None:
        super().__init__()
        features = getattr(module, "features", None)
        if isinstance(features, nn.Module) and head == "head":
            self.body = features
        else:
            self.body = nn.Sequential(copy.deepcopy(module))
            self.body.set_submodule(f"0.{head}".rstrip("."), nn.Identity())
        self.mean = self.scale = torch.tensor([])
        self.width = 0

    def standardise(self, features: Tensor) -> None:
        """Take units from public rows, between those of the columns and those of their spreads.

        Noise is the same on every sum. In the columns' own units it drowns rare levels, in units
        of spreads these take most of the norm.
        """
        spread = features.double().var(dim=0, correction=0)
        self.mean, self.width = features.double().mean(dim=0), features.shape[1]
        self.scale = (spread + 0.1 * spread.mean() + 1e-12) ** -0.25

    def forward(self, X: Tensor) -> Tensor:
        """Return features of rows, shape (B, width)."""
        features = self.body(X).flatten(1)
        return (features.double() - self.mean) * self.scale if self.width else features
