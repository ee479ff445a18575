"""Modules that are refused by name before they see private rows."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from skorch import NeuralNetClassifier
from torch import nn

from skfairdp import DPSGDClassifier
from skfairdp.engine.inspection import refuse_unstable_rows
from skfairdp.engine.randomness import SeededDraws
from skfairdp.privacy import PrivacyLedger

ROWS = np.random.default_rng(0).integers(0, 4, (60, 4))
LABELS = ROWS[:, 0] % 2


class Codes(nn.Module):
    """An embedding, and a linear layer on top."""

    def __init__(self, layer=nn.Embedding, max_norm=None, sparse=False):
        super().__init__()
        self.codes = layer(4, 2, max_norm=max_norm, sparse=sparse)
        self.out = nn.Linear(8 if layer is nn.Embedding else 2, 1)

    def forward(self, rows):
        return self.out(self.codes(rows.long()).flatten(1))


class Spectral(nn.Module):
    """Power iteration moves two buffers in every forward pass of training."""

    def __init__(self, normed=torch.nn.utils.parametrizations.spectral_norm):
        super().__init__()
        self.inner, self.out = normed(nn.Linear(4, 8)), nn.Linear(8, 1)

    def forward(self, rows):
        return self.out(torch.relu(self.inner(rows.float())))


class Counting(nn.Module):
    """Counts its calls in a buffer."""

    def __init__(self):
        super().__init__()
        self.out = nn.Linear(4, 1)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, rows):
        if self.training:
            self.calls += 1
        return self.out(rows.float())


class Tried(nn.Module):
    """Tries its encoder at prediction, with dropout, while it is made."""

    def __init__(self):
        super().__init__()
        self.code = nn.Linear(1, 8)
        self.encoder = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.out = nn.Linear(8, 1)
        self.eval()
        self(torch.zeros(2, 4))
        self.train()
        with torch.enable_grad():
            nn.Dropout(0.5)(torch.ones(3, requires_grad=True))

    def forward(self, rows):
        return self.out(self.encoder(self.code(rows.float().unsqueeze(-1))).mean(1))


def fitted(module, ledger=None, **settings):
    settings = {f"module__{name}": value for name, value in settings.items()}
    net = NeuralNetClassifier(module, criterion=nn.BCEWithLogitsLoss, verbose=0, **settings)
    return DPSGDClassifier(
        net=net, epsilon=3.0, delta=1e-4, max_epochs=1, batch_size=30, ledger=ledger
    ).fit(ROWS, LABELS)


@pytest.mark.parametrize(
    ("module", "settings", "named"),
    [
        (Codes, {"max_norm": 1.0}, r"'codes' \(Embedding\) has max_norm=1.0"),
        (Codes, {"sparse": True}, r"'codes' \(Embedding\) has sparse=True"),
        (Codes, {"layer": nn.EmbeddingBag, "max_norm": 1.0}, r"\(EmbeddingBag\) has max_norm"),
        (Spectral, {}, r"Spectral changes its state in training mode: .*inner.*_u"),
        (Spectral, {"normed": nn.utils.spectral_norm}, "Spectral changes its state"),
        (Counting, {}, r"Counting changes its state in training mode: calls"),
    ],
)
def test_what_changes_in_a_forward_pass_is_refused_before_a_charge(
    module, settings, named, tmp_path
):
    ledger = PrivacyLedger(tmp_path / "ledger.db")
    with pytest.raises(ValueError, match=named):
        fitted(module, ledger, **settings)
    assert ledger.entries() == ()


def test_state_that_stays_is_allowed():
    for normed in (nn.utils.parametrizations.weight_norm, nn.utils.parametrizations.orthogonal):
        refuse_unstable_rows(Spectral(normed), (4,))
    refuse_unstable_rows(Codes(), (4,))


def test_the_trial_leaves_the_module_as_it_was():
    module = Counting()
    with pytest.raises(ValueError, match="calls"):
        refuse_unstable_rows(module, (4,))
    assert module.calls == 0


def test_a_net_may_be_tried_while_it_is_made():
    with SeededDraws(0):
        Tried()
