"""A fitted net answers in its own precision, also in a block of torch.autocast."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from skfairdp import DPSGDClassifier, FairDPClassifier
from skfairdp.engine.inference import outputs_by_row
from skfairdp.engine.modules import MLP

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(300, 40))
LABELS = (ROWS[:, 0] > 0).astype(int)
GROUPS = np.resize(["a", "b"], 300)


def reduced() -> torch.autocast:
    return torch.autocast("cpu", dtype=torch.bfloat16)


def test_a_model_answers_as_it_was_certified() -> None:
    """What was certified outside of the block, and asked within, decided otherwise for some."""
    for model in (DPSGDClassifier(max_epochs=1), FairDPClassifier(max_epochs=1)):
        model.fit(ROWS, LABELS, sensitive_features=GROUPS)
        scores = model.predict_proba(ROWS)
        with reduced():
            np.testing.assert_array_equal(model.predict_proba(ROWS), scores)
            assert torch.is_autocast_enabled("cpu")


def test_rows_by_themselves_are_answered_in_full_precision() -> None:
    module, rows = MLP(40, 1, (8,), nn.ReLU), torch.from_numpy(ROWS).float()
    answers = outputs_by_row(module, rows)
    with reduced():
        assert torch.equal(outputs_by_row(module, rows), answers)
