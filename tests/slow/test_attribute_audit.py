"""An audit that flips people's groups does not refute the claim, but refutes too little noise.

Every one of 4,000 people has their own feature and a group drawn by a coin; the attacker
knows everything but the coins. The model is linear and starts at zero, the batch is everybody,
other rows keep the multipliers at their limit: so a person's weight is their loss, the same for all
with their label, plus a push whose sign is their group's, plus noise. The 800 most extreme
weights are guessed. One coin a person is what the one-run audit (Steinke, Nasr and Jagielski,
2023) asks for; its bound holds whatever the two alternatives are.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from skorch import NeuralNet
from torch import nn

from skfairdp import LagrangianDualClassifier
from skfairdp.audit import one_run_p_value
from skfairdp.privacy.noise import NoiseSource
from tests.slow.test_audit_claims import LinearFromZero

pytestmark = pytest.mark.slow

N_PEOPLE, N_OTHERS, N_GUESSES = 4000, 2000, 800
CLAIM = {"epsilon": 2.0, "delta": 1e-7}
REFUTED = 1e-9


def right_guesses() -> int:
    rng = np.random.default_rng()
    n = N_PEOPLE + N_OTHERS
    X = np.zeros((n, 1 + N_PEOPLE), dtype=np.float32)
    X[np.arange(N_PEOPLE), 1 + np.arange(N_PEOPLE)] = 10.0
    y = np.arange(n) % 2
    groups = np.where(np.arange(n) % 2 == 0, "a", "b")  # of the others: as their labels
    X[N_PEOPLE:, 0] = np.where(y[N_PEOPLE:] == 1, 1.0, -1.0)
    coins = rng.random(N_PEOPLE) < 0.5
    groups[:N_PEOPLE] = np.where(coins, "b", "a")
    net = NeuralNet(
        LinearFromZero,
        criterion=nn.BCEWithLogitsLoss,
        optimizer=torch.optim.SGD,
        lr=0.1,
        train_split=None,
    )
    model = LagrangianDualClassifier(
        net,
        **CLAIM,
        batch_size=n,
        loss_batch_size=n,
        warmup_epochs=1,
        max_epochs=10,
        max_grad_norm=0.1,
        histogram_share=0.2,
        dual_rate=100.0,
        max_multiplier=1.0,
        memory=0.0,
        averaged_share=0.0,
        learning_rate_schedule=None,
        progress=False,
    ).fit(X, y, sensitive_features=groups)
    assert 1.9 < model.privacy_.epsilon <= 2.0
    own = model.module_.head.weight.detach().double().numpy()[0, 1:]
    for label in (0, 1):
        same = y[:N_PEOPLE] == label
        own[same] -= np.median(own[same])
    # Group "b" has the larger rate, and is pushed down.
    extreme = np.argsort(-np.abs(own))[:N_GUESSES]
    return int(((own[extreme] < 0) == coins[extreme]).sum())


def p_value(right: int) -> float:
    return one_run_p_value(N_PEOPLE, N_GUESSES, right, **CLAIM)


def test_flipping_groups_stays_below_the_claim() -> None:
    right = right_guesses()
    assert p_value(right) > REFUTED, right
    # Guessing without any information is right 453 times or more with chance below 2e-4.
    assert right > 452, right


def test_a_quarter_of_the_noise_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = NoiseSource.noisy
    monkeypatch.setattr(
        NoiseSource,
        "noisy",
        lambda self, sums, std, exact=True: honest(self, sums, std / 4.0, exact=exact),
    )
    right = right_guesses()
    assert p_value(right) < 1e-3, right
