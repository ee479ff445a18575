"""Tests that a row is encoded by itself, whatever the other rows and whatever the net."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from skfairdp import PrivacyLedger
from skfairdp.engine import inference
from skfairdp.representation import forward as decoding
from skfairdp.representation import training
from skfairdp.representation.networks import (
    ConvRepresentationModule,
    RepresentationModule,
    representation_net,
)
from tests.common.roster import people
from tests.representation.encoders import build, fitted


def images() -> Any:
    net = representation_net().set_params(
        module=ConvRepresentationModule, module__image_shape=(1, 2, 2), module__channels=5
    )
    X, y, _ = people()
    return build("laplace", net=net, n_components=4).fit(X, y)


@pytest.mark.parametrize(
    "name", ["laplace", "codes", pytest.param("images", marks=pytest.mark.slow)]
)
def test_a_row_is_encoded_to_the_last_bit_alike_in_any_company(name: str) -> None:
    """Equal noise on hidden values that differ in a bit would show where they lie."""
    model = images() if name == "images" else fitted(name)
    X = np.random.default_rng(0).normal(size=(700, 4))
    hidden = model._hidden(X)
    for size in (1, 2, 7, 255, 256, 257, 699):
        parts = [model._hidden(X[i : i + size]) for i in range(0, min(700, 2 * size), size)]
        together = np.concatenate(parts)
        assert np.array_equal(together, hidden[: len(together)])
    order = np.random.default_rng(1).permutation(700)
    assert np.array_equal(model._hidden(X[order]), hidden[order])
    assert np.array_equal(model._hidden(np.asfortranarray(X)[::-1]), hidden[::-1])


class Centred(RepresentationModule):
    """Encodes rows relative to the mean of the batch."""

    def encode(self, x: torch.Tensor) -> torch.Tensor:
        return self.encoder(x - x.mean(dim=0))


class LearnsToMix(RepresentationModule):
    """Mixes rows once its weights have moved."""

    def __init__(self, n_features: int, n_components: int = 2, n_groups: int = 0) -> None:
        super().__init__(n_features, n_components, n_groups=n_groups)
        self.gate = nn.Parameter(torch.zeros(1))

    def encode(self, x: torch.Tensor) -> torch.Tensor:
        return self.encoder(x) + 100.0 * self.gate * x.mean()


@pytest.mark.parametrize("private", [False, True])
@pytest.mark.parametrize("module", [Centred, LearnsToMix])
def test_an_encoder_that_mixes_rows_is_refused(module: type[nn.Module], private: bool) -> None:
    """Else a person would be in the releases of others, at a cost that nobody counts."""
    X, y, _ = people()
    model = build(
        "laplace", net=representation_net().set_params(module=module), train_privately=private
    )
    with pytest.raises(ValueError, match="mixes the records of a batch"):
        model.fit(X, y)
    assert not hasattr(model, "module_")


class MixesLargeBatches(RepresentationModule):
    """Encodes up to three rows by themselves, and more relative to their mean."""

    def encode(self, x: torch.Tensor) -> torch.Tensor:
        return self.encoder(x if len(x) <= 3 else x - x.mean(dim=0))


class MixesALittle(RepresentationModule):
    def encode(self, x: torch.Tensor) -> torch.Tensor:
        return self.encoder(x) + 1e-4 * torch.tanh(x).sum(dim=0)[:1]


class Draws(RepresentationModule):
    def encode(self, x: torch.Tensor) -> torch.Tensor:
        return self.encoder(x) + torch.rand(())


HIDDEN = [MixesLargeBatches, MixesALittle, Draws]


@pytest.mark.parametrize("private", [False, True])
@pytest.mark.parametrize("module", HIDDEN)
def test_mixing_that_two_or_three_rows_do_not_show_is_refused_before_a_charge(
    module: type[nn.Module], private: bool, tmp_path: Path
) -> None:
    X, y, _ = people()
    ledger = PrivacyLedger(tmp_path / "ledger.db", "people")
    net = representation_net().set_params(module=module)
    model = build("laplace", net=net, train_privately=private, ledger=ledger)
    with pytest.raises(ValueError, match="mixes the records of a batch"):
        model.fit(X, y)
    assert ledger.entries() == ()


def moved_by_others(model: Any, n: int = 256) -> bool:
    X = np.random.default_rng(0).normal(size=(n, 4))
    others = X + 5.0
    others[17] = X[17]
    return not np.array_equal(model._hidden(X)[17], model._hidden(others)[17])


@pytest.mark.parametrize("module", HIDDEN[:2])
def test_an_encoder_that_was_not_refused_cannot_mix_either(
    module: type[nn.Module], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broken twins: without the check such a net trains, without vectorising it mixes."""
    X, y, _ = people()
    monkeypatch.setattr(training, "refuse_mixing_encoder", lambda module, n_features: None)
    model = build("laplace", net=representation_net().set_params(module=module)).fit(X, y)
    assert not moved_by_others(model)
    monkeypatch.setattr(decoding, "_each_by_itself", lambda module, rows: module.encode(rows))
    assert not moved_by_others(model)  # seen on made-up rows: each is asked by itself
    monkeypatch.setattr(inference, "_alike_everywhere", lambda *_: True)
    assert moved_by_others(model)


class Chooses(RepresentationModule):
    """Looks at values before it goes on, which cannot be vectorised."""

    def encode(self, x: torch.Tensor) -> torch.Tensor:
        return self.encoder(x if x.isfinite().all() else x.nan_to_num())


@pytest.mark.slow
def test_a_net_that_cannot_be_vectorised_sees_rows_one_by_one() -> None:
    X, y, _ = people(60)
    model = build("laplace", net=representation_net().set_params(module=Chooses)).fit(X, y)
    assert not moved_by_others(model, 20)
    assert np.array_equal(model._hidden(X[5:6]), model._hidden(X)[5:6])


def test_rows_do_not_decide_the_laws_of_columns_where_they_are_protected() -> None:
    X, y, groups = people()
    X[:, 0] = X[:, 0] > 0
    assert fitted("laplace").column_types_.bernoulli == ()
    for private, expected in ((False, (0,)), (True, ())):
        model = build("laplace", train_privately=private).fit(X, y, sensitive_features=groups)
        assert model.column_types_.bernoulli == expected
    declared = build("trained privately", column_types={"bernoulli": [0]}).fit(X, y)
    assert declared.column_types_.bernoulli == (0,)
    assert not any("zeros and ones" in text for text in model.training_privacy_.assumptions)
