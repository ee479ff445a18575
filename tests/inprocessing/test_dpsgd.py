"""DP-SGD."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from skorch import NeuralNet
from torch import nn

from skfairdp import DPSGDClassifier, FairDPClassifier, default_net
from skfairdp.engine.release import NoisyRelease
from skfairdp.exceptions import PrivacyWarning
from tests.inprocessing.rows import two_groups


@pytest.mark.usefixtures("accounted_finely")
def test_the_certificate_reads_the_reference_epsilon():
    X, y, _ = two_groups(200)
    model = DPSGDClassifier(
        dataset_size=10_000,
        batch_size=100,
        max_epochs=10,
        epsilon=None,
        noise_multiplier=1.1,
        delta=1e-5,
    ).fit(X, y)
    assert model.privacy_.epsilon == pytest.approx(1.5154, abs=5e-5)
    assert model.privacy_.adjacency == "add-remove"


@pytest.mark.parametrize(("n", "batch_size", "steps"), [(49, 1, 49), (50, 7, 8), (400, "auto", 10)])
def test_steps_are_counted_in_integers(n, batch_size, steps):
    X, y, _ = two_groups(n)
    model = DPSGDClassifier(batch_size=batch_size, max_epochs=1).fit(X, y)
    assert model.plan_.steps == steps


def test_the_loop_does_what_the_plan_says(monkeypatch):
    X, y, _ = two_groups()
    seen = []
    original = NoisyRelease.gradient

    def watched(self, segment):
        seen.append(segment)
        return original(self, segment)

    monkeypatch.setattr(NoisyRelease, "gradient", watched)
    model = DPSGDClassifier(max_epochs=3).fit(X, y)
    assert seen == [model.plan_.segments[0]] * model.plan_.steps
    segment = model.plan_.segments[0]
    assert segment.multiplier(0) == pytest.approx(model.noise_multiplier_)


def test_more_privacy_costs_accuracy_and_none_gives_it_back():
    X, y, _ = two_groups(1500)
    held_out, truth, _ = two_groups(3000, seed=1)
    accuracy = {}
    for epsilon in (0.02, 2.0, float("inf")):
        model = DPSGDClassifier(epsilon=epsilon, max_epochs=5, random_state=0)
        if epsilon == float("inf"):
            with pytest.warns(PrivacyWarning, match="epsilon=inf"):
                model.fit(X, y)
            assert model.privacy_ is None
        else:
            model.fit(X, y)
            assert model.privacy_.epsilon <= epsilon
        accuracy[epsilon] = (model.predict(held_out) == truth).mean()
    # The Bayes rule reaches about .86 here; ordering with a margin of many
    # standard errors (0.006 each).
    assert accuracy[float("inf")] > 0.82
    assert accuracy[2.0] > 0.78
    assert accuracy[0.02] < accuracy[2.0]


def test_three_classes_with_string_labels():
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=900)
    X = rng.normal(size=(900, 3)) + 2.5 * np.eye(3)[y]
    names = np.array(["low", "mid", "top"])
    model = DPSGDClassifier(epsilon=5.0).fit(X, names[y])
    assert model.classes_.tolist() == ["low", "mid", "top"]
    assert model.predict_proba(X).shape == (900, 3)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
    assert (model.predict(X) == names[y]).mean() > 0.8


def test_a_row_of_an_undeclared_label_contributes_nothing():
    X, y, _ = two_groups(300)
    X_more = np.vstack([X, np.full((1, 5), 3.0)])
    settings = dict(
        classes=[0, 1], dataset_size=300, random_state=0, reproducible_noise=True, max_epochs=2
    )
    with_stranger = DPSGDClassifier(**settings).fit(X_more, np.append(y, 7))
    without = DPSGDClassifier(**settings).fit(X, y)
    assert with_stranger.classes_.tolist() == [0, 1]
    for a, b in zip(with_stranger.module_.parameters(), without.module_.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=0)


@pytest.mark.parametrize(("classes", "y"), [(["a", "b"], [0, 1]), ([0, 1], ["a", "b"])])
def test_declared_labels_of_another_kind_are_refused(classes, y):
    X, _, _ = two_groups(100)
    with pytest.raises(ValueError, match="'classes' declares"):
        DPSGDClassifier(classes=classes).fit(X, y * 50)


def test_a_large_delta_is_refused_and_a_doubtful_one_warned_about():
    X, y, _ = two_groups(100)
    with pytest.raises(ValueError, match="'delta' must be below 1/n"):
        DPSGDClassifier(delta=0.01).fit(X, y)
    with pytest.warns(PrivacyWarning, match="'delta'"):
        DPSGDClassifier(delta=0.005).fit(X, y)


def test_a_convolutional_net_and_images():
    from skorch import NeuralNet

    from skfairdp.engine.modules import SmallCNN

    rng = np.random.default_rng(0)
    y = rng.integers(2, size=120)
    images = rng.normal(size=(120, 1, 16, 16)).astype(np.float32) + y[:, None, None, None]
    net = NeuralNet(
        SmallCNN,
        criterion=torch.nn.BCEWithLogitsLoss,
        optimizer=torch.optim.Adam,
        lr=0.01,
        train_split=None,
        module__image_shape=(1, 16, 16),
    )
    model = DPSGDClassifier(net, epsilon=8.0, max_epochs=5).fit(images, y)
    assert model.predict(images).shape == (120,)


@pytest.mark.parametrize("reproducible", [False, True])
def test_random_state_seeds_dropout_in_tests_alone(monkeypatch, reproducible):
    # With masks that are known, a record less moves those of all others in the batch, and so
    # the sum by many times the clipping norm.
    X, y, _ = two_groups(100)
    seen = []

    def draw(self, run):
        seen.append(torch.rand(3).tolist())
        run.release.meter.stop()

    monkeypatch.setattr(DPSGDClassifier, "_train", draw)
    net = default_net().set_params(module__activation=nn.Dropout)
    model = DPSGDClassifier(net, random_state=0, reproducible_noise=reproducible, max_epochs=1)
    for _ in range(2):
        model.fit(X, y)
    assert (seen[0] == seen[1]) == reproducible


class Remembering(nn.Module):
    """Keeps the rows that it saw in attributes."""

    def __init__(self, n_features=5):
        super().__init__()
        self.rows = []
        self.head = nn.Linear(n_features, 1)

    def forward(self, X):
        if self.training:
            self.last = X
            self.rows.append(X)
        return self.head(X)


class Averaging(nn.Module):
    """Keeps the mean of the rows that it saw in a buffer."""

    def __init__(self, n_features=5):
        super().__init__()
        self.register_buffer("mean", torch.zeros(n_features))
        self.head = nn.Linear(n_features, 1)

    def forward(self, X):
        if self.training:
            self.mean = X.mean(dim=0)
        return self.head(X)


@pytest.mark.parametrize("kind", [DPSGDClassifier, FairDPClassifier])
def test_rows_that_a_module_keeps_in_attributes_are_not_released(kind, monkeypatch):
    X, y, groups = two_groups(200)
    net = NeuralNet(Remembering, criterion=nn.BCEWithLogitsLoss)
    model = kind(net, delta=1e-4, max_epochs=1)
    with pytest.raises(ValueError, match="Remembering keeps what it computed of its rows in last"):
        model.fit(X, y, sensitive_features=groups)
    # Also where it is not refused, the module that leaves is another one.
    monkeypatch.setattr("skfairdp.engine.inspection.refuse_kept_rows", lambda *_: None)
    model.fit(X, y, sensitive_features=groups)
    assert model.module_.rows == []
    assert not hasattr(model.module_, "last")
    pickle.loads(pickle.dumps(model)).predict(X)


@pytest.mark.parametrize("kind", [DPSGDClassifier, FairDPClassifier])
def test_a_module_that_keeps_traits_of_rows_in_a_buffer_is_refused(kind):
    X, y, groups = two_groups(200)
    net = NeuralNet(Averaging, criterion=nn.BCEWithLogitsLoss)
    model = kind(net, delta=1e-4, max_epochs=1)
    with pytest.raises(ValueError, match=r"Averaging changes its state in training mode: mean\."):
        model.fit(X, y, sensitive_features=groups)
    assert not hasattr(model, "module_")


def test_an_error_of_torch_does_not_quote_the_size_of_a_batch():
    X, y, _ = two_groups(200)
    net = NeuralNet(
        nn.Linear, module__in_features=7, module__out_features=1, criterion=nn.BCEWithLogitsLoss
    )
    with pytest.raises(ValueError, match="fails on 2 rows of zeros"):
        DPSGDClassifier(net, delta=1e-4).fit(X, y)


@pytest.mark.parametrize(("kind", "label"), [(float, 0.5), (object, "neither")])
def test_an_unlisted_label_of_another_kind_raises_nothing(kind, label):
    X, y, _ = two_groups(200)
    labels = y.astype(kind)
    labels[3] = label
    model = DPSGDClassifier(classes=[0, 1], delta=1e-4, max_epochs=1).fit(X, labels)
    assert model.classes_.tolist() == [0, 1]


def test_the_guarantee_says_where_the_groups_came_from():
    X, y, groups = two_groups(200)
    model = DPSGDClassifier(dataset_size=200, delta=1e-4, max_epochs=1)
    model.fit(X, y, sensitive_features=groups)
    assert "the set of groups is taken from the rows and public" in model.privacy_.assumptions
