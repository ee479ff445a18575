"""Default modules, what is refused, and where the head is."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from skfairdp.engine.inspection import find_head, refuse_mixing_modules, refuse_unstable_rows
from skfairdp.engine.modules import MLP, SmallCNN


def test_mlp_is_features_then_head():
    module = MLP(5, n_outputs=3, hidden_sizes=(8, 4), activation=nn.ReLU)
    X = torch.randn(6, 5)
    assert module(X).shape == (6, 3)
    assert torch.equal(module(X), module.head(module.features(X)))
    assert module.features(X).shape == (6, 4)
    assert [type(m) for m in module.features] == [nn.Linear, nn.ReLU, nn.Linear, nn.ReLU]


def test_mlp_without_hidden_layers_is_linear():
    module = MLP(5, hidden_sizes=())
    assert sum(p.numel() for p in module.parameters()) == 6
    assert module(torch.randn(2, 5)).shape == (2, 1)


@pytest.mark.parametrize("image_shape", [(1, 48, 48), (3, 28, 31), (1, 5, 7), (1, 64, 50)])
def test_cnn_takes_images_and_flat_rows(image_shape):
    module = SmallCNN(image_shape, n_outputs=2)
    X = torch.randn(3, *image_shape)
    assert module(X).shape == (3, 2)
    assert torch.equal(module(X), module(X.flatten(1)))
    assert torch.equal(module(X), module.head(module.features(X)))
    assert module(X[:0]).shape == (0, 2)


def test_modules_draw_nothing_in_forward():
    X = torch.randn(2, 48 * 48)
    for module in (SmallCNN(), MLP(48 * 48)):
        module.train()
        state = torch.get_rng_state()
        module(X)
        assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize(
    "layer",
    [
        nn.BatchNorm1d(4),
        nn.BatchNorm2d(4),
        nn.LazyBatchNorm1d(),
        nn.SyncBatchNorm(4),
        nn.InstanceNorm1d(4, track_running_stats=True),
    ],
    ids=lambda layer: type(layer).__name__,
)
def test_layers_that_mix_or_remember_records_are_refused_by_name(layer):
    module = nn.Sequential(nn.Linear(4, 4), nn.Sequential(layer))
    with pytest.raises(ValueError, match=rf"'1\.0' \({type(layer).__name__}\).*GroupNorm"):
        refuse_mixing_modules(module)


def test_batch_normalisation_is_refused_in_evaluation_mode_too():
    with pytest.raises(ValueError, match="BatchNorm1d"):
        refuse_mixing_modules(nn.BatchNorm1d(3).eval())


def test_layers_that_keep_records_apart_are_accepted():
    refuse_mixing_modules(
        nn.Sequential(nn.GroupNorm(1, 4), nn.LayerNorm(4), nn.InstanceNorm1d(4), nn.Dropout(0.5))
    )


def test_head_is_the_attribute_of_that_name():
    module = MLP(3)
    module.add_module("later", nn.Linear(1, 1))
    assert find_head(module) == ("head", module.head)


def test_head_is_else_the_last_linear_layer():
    module = nn.Sequential(nn.Linear(3, 2), nn.Sequential(nn.Linear(2, 2), nn.ReLU()))
    assert find_head(module) == ("1.0", module[1][0])
    module = nn.Linear(3, 1)
    assert find_head(module) == ("", module)


def test_head_can_be_named():
    module = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1))
    assert find_head(module, "0") == ("0", module[0])


def test_missing_heads_are_refused_with_the_choice():
    module = nn.Sequential(nn.Linear(3, 2), nn.ReLU())
    with pytest.raises(ValueError, match="no layer 'top'; its linear layers are: '0'"):
        find_head(module, "top")
    with pytest.raises(ValueError, match="'1' is a ReLU"):
        find_head(module, "1")
    with pytest.raises(ValueError, match="no torch.nn.Linear"):
        find_head(nn.ReLU())


class Centred(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(3, 1)

    def forward(self, X):
        return self.head(X - X.mean(dim=0))


def test_a_module_whose_output_for_a_row_depends_on_other_rows_is_refused():
    with pytest.raises(ValueError, match="mixes the records"):
        refuse_unstable_rows(Centred(), (3,))


def test_a_module_that_does_not_return_one_output_a_row_is_refused():
    with pytest.raises(ValueError, match="one output a row"):
        refuse_unstable_rows(nn.Sequential(nn.Linear(3, 1), nn.Flatten(0), nn.Linear(2, 1)), (3,))


@pytest.mark.parametrize("module", [MLP(3), nn.Sequential(nn.Linear(3, 2), nn.Dropout(0.5))])
def test_modules_that_keep_rows_apart_pass_and_stay_as_they_are(module):
    module.train()
    refuse_unstable_rows(module, (3,))
    assert module.training
