"""Checks of FairDP: its head before training, and a gap bought during training."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from skfairdp.engine.inference import outputs_by_row
from skfairdp.engine.randomness import SeededDraws
from skfairdp.engine.release import Rows
from skfairdp.engine.run import Run
from skfairdp.fairness.notions import Notion, get_notion


def check_head(module: nn.Module, head: nn.Linear, row_shape: tuple[int, ...]) -> None:
    """Refuse a head that does not return the module's single logit."""
    if head.out_features != 1:
        raise ValueError(
            f"FairDPClassifier needs a 'net' with one logit; its head has {head.out_features}."
        )
    trained = list(head.parameters())
    own = [head.weight] if head.bias is None else [head.weight, head.bias]
    elsewhere = {
        id(parameter)
        for layer in module.modules()
        if layer is not head
        for parameter in layer.parameters(recurse=False)
    }
    if not all(p.requires_grad for p in own) or len(trained) != len(own):
        raise ValueError(
            "'head' must be a plain linear layer whose weight and bias are both trained; got one "
            "that is frozen or has other parameters."
        )
    if any(id(p) in elsewhere for p in own):
        raise ValueError("'head' shares its weights with another layer; give it its own.")
    reference = next(module.parameters())
    # Not zeros: a connection around the head would not show.
    generator = torch.Generator().manual_seed(0)
    rows = torch.rand((4, *row_shape), generator=generator) * 3.0
    rows = rows.to(dtype=reference.dtype, device=reference.device)
    seen: list[tuple[Tensor, Tensor]] = []
    handle = head.register_forward_hook(lambda _m, i, output: seen.append((i[0], output)))
    try:
        with torch.no_grad(), SeededDraws(0):
            output = module(rows)
            linear = [torch.nn.functional.linear(i, head.weight, head.bias) for i, _ in seen]
    finally:
        handle.remove()
    if (
        len(seen) != 1
        or not torch.equal(seen[0][1].reshape(-1), output.reshape(-1))
        or not torch.allclose(seen[0][1], linear[0], rtol=1e-3, atol=1e-4)
    ):
        raise ValueError(
            "'head' must be the module's last layer, whose output is the logit. Name that "
            "layer, or remove the layers after it."
        )


def released_gap(table: np.ndarray, notion: Notion) -> float:
    """Largest difference of rates read off a noisy (group x label x prediction) table.

    Negative counts are read as zero, and a group without rows in a stratum is left out.
    """
    gap = 0.0
    for stratum in notion.strata((0, 1)):
        successes, failures = stratum.count(table.clip(min=0))
        seen = successes + failures > 0
        rates = successes[seen] / (successes + failures)[seen]
        if len(rates) > 1:
            gap = max(gap, float(rates.max() - rates.min()))
    return gap


class GapStop:
    """Watch a bought gap every few epochs and go back to the last model within target.

    `model`: a `FairDPClassifier`, whose settings say what is watched. `cut`: logit above which the
    second class is predicted.
    """

    def __init__(self, run: Run, model: Any, cut: float) -> None:
        self._run, self._model, self._cut = run, model, cut
        self._kept: Tensor | None = None
        self.gaps: list[float] = []

    def after_step(self, step: int) -> bool:
        """Buy a table where one is due; stop once the gap is above a tolerance that it met.

        Before that, the model with the smallest gap is kept.
        """
        run, (price,) = self._run, self._run.plan.counts
        every = int(self._model.check_every) * run.steps_per_epoch
        if step % every or len(self.gaps) >= price.releases:
            return False
        n_groups, tolerance = len(run.plan.cells), float(self._model.stop_tolerance)
        table = run.release.counts(price, self._cell, n_groups * 4).reshape(n_groups, 2, 2)
        gap = released_gap(table, get_notion(self._model.stop_notion))
        best = min(self.gaps, default=float("inf"))
        self.gaps.append(gap)
        if gap <= tolerance or (best > tolerance and gap < best):
            self._kept = run.prepared.flat.vector.clone()
            return False
        return best <= tolerance

    def restore(self) -> None:
        if self._kept is not None:
            self._run.prepared.flat.vector.copy_(self._kept)

    def _cell(self, rows: Rows) -> np.ndarray:
        scores = outputs_by_row(self._run.prepared.module, rows.X)
        predicted = self._run.decisions(scores - self._cut).long().cpu().numpy()
        label = rows.targets[0].long().cpu().numpy()
        cell = (rows.codes * 2 + label) * 2 + predicted
        return np.where(rows.codes >= 0, cell, -1)
