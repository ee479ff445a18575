"""Modules that keep rows, or what they computed of them, are refused before a charge."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from skorch import NeuralNetBinaryClassifier
from torch import nn

from skfairdp import DPSGDClassifier
from skfairdp.engine.inspection import refuse_kept_rows
from skfairdp.privacy import PrivacyLedger

ROWS = np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32)
LABELS = (ROWS[:, 0] > 0).astype(int)
KEPT: list[torch.Tensor] = []


class Plain(nn.Module):
    """A linear layer, and what a subclass does with its rows before."""

    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(4, 1)

    def forward(self, rows):
        self.meet(rows)
        return self.out(rows).squeeze(-1)

    def meet(self, rows):
        pass


class InAnAttribute(Plain):
    def meet(self, rows):
        self.last = rows


class AtPrediction(Plain):
    def meet(self, rows):
        if not self.training:
            self.seen = rows[:, :2]


class AsANumber(Plain):
    def meet(self, rows):
        self.mean = rows.detach().mean().item()


class InAList(Plain):
    def meet(self, rows):
        KEPT.append(rows.sum(1))


class InAHook(Plain):
    def __init__(self) -> None:
        super().__init__()
        kept: list[torch.Tensor] = []
        self.out.register_forward_hook(lambda _module, _rows, output: kept.append(output))


class InACode(Plain):
    def __init__(self) -> None:
        super().__init__()
        self.codes = nn.Embedding(2, 1)

    def forward(self, rows):
        self.last = rows.long()
        return self.codes(self.last).sum((1, 2))


class AMask(Plain):
    def meet(self, rows):
        self.calls = getattr(self, "calls", 0) + 1
        self.mask = torch.ones(rows.shape[1])


class ACycle(Plain):
    def meet(self, rows):
        around: list[object] = [rows]
        around.append(around)


class Backward(Plain):
    def __init__(self) -> None:
        super().__init__()
        self.out.register_full_backward_hook(lambda _module, into, _out: into)


def fitted(module: type[nn.Module], ledger: PrivacyLedger | None = None) -> DPSGDClassifier:
    net = NeuralNetBinaryClassifier(module, verbose=0)
    settings = {"delta": 1e-4, "max_epochs": 1, "batch_size": 30, "progress": False}
    return DPSGDClassifier(net=net, epsilon=3.0, ledger=ledger, **settings).fit(ROWS, LABELS)


@pytest.mark.parametrize(
    ("module", "where"),
    [
        (InAnAttribute, "in last"),
        (AtPrediction, "in seen"),
        (AsANumber, "in mean"),
        (InAList, "outside itself"),
        (InAHook, "outside itself"),
        (InACode, "in last"),
    ],
)
def test_a_module_that_keeps_rows_is_refused_before_a_charge(module, where, tmp_path) -> None:
    ledger = PrivacyLedger(tmp_path / "ledger.db")
    with pytest.raises(ValueError, match=rf"{module.__name__} keeps .* {where}"):
        fitted(module, ledger)
    assert ledger.entries() == ()


@pytest.mark.parametrize("module", [Plain, AMask, ACycle])
def test_what_follows_from_no_row_may_be_kept(module) -> None:
    refuse_kept_rows(module(), (4,))


def test_a_backward_hook_is_refused_by_name_before_a_charge(tmp_path) -> None:
    ledger = PrivacyLedger(tmp_path / "ledger.db")
    with pytest.raises(ValueError, match="Backward has a backward hook"):
        fitted(Backward, ledger)
    assert ledger.entries() == ()
