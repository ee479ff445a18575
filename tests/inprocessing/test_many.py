"""Linear models that are trained in one pass: each as if it were alone."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.base import clone
from torch import nn

from skfairdp import (
    DPSGDClassifier,
    FairDPClassifier,
    PrivacyLedger,
    certify,
    default_net,
    fit_many,
)
from skfairdp.engine import many_releases
from skfairdp.engine.many_releases import ManyReleases
from skfairdp.engine.nets import prepare_net
from skfairdp.exceptions import BudgetExceededError, PlanError, PrivacyWarning
from skfairdp.inprocessing.many import _linear_layer

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 5)).astype(np.float32)
Y = (X[:, 0] + 0.5 * RNG.normal(size=300) > 0).astype(int)
GROUPS = np.where(X[:, 1] > 0, "a", "b")


def linear(optimizer: type = torch.optim.SGD, lr: float = 1.0, **parameters: object):
    net = default_net().set_params(module__hidden_sizes=(), optimizer=optimizer, lr=lr)
    settings = {"batch_size": 20, "max_epochs": 2, "progress": False} | parameters
    return DPSGDClassifier(net, delta=1e-5, **settings)


def weights(model: DPSGDClassifier) -> np.ndarray:
    return np.concatenate([p.detach().numpy().ravel() for p in model.module_.parameters()])


SETTINGS = [
    {"random_state": 0},
    {"random_state": 1, "max_grad_norm": 0.1},
    {"random_state": 1, "net__lr": 0.3, "learning_rate_schedule": None},
    {"random_state": 2, "epsilon": 2.0},
]
# Exact noise is drawn for many steps in one call, and has other seeded numbers than alone.
SEEDED = {"reproducible_noise": True, "exact_noise": False}


@pytest.mark.filterwarnings("ignore:epsilon=inf")
@pytest.mark.parametrize(
    ("optimizer", "batch_size", "classes", "epsilon"),
    [
        (torch.optim.SGD, 20, 2, 1.0),
        (torch.optim.Adam, 20, 3, np.inf),
        (torch.optim.SGD, 300, 3, 1.0),
        (torch.optim.SGD, 300, 2, np.inf),
    ],
    ids=["SGD", "Adam, no noise", "all rows, three classes", "all rows, no noise"],
)
def test_each_is_what_it_is_alone(optimizer, batch_size, classes, epsilon) -> None:
    y = Y if classes == 2 else Y + (X[:, 2] > 1)
    rate = 1.0 if optimizer is torch.optim.SGD else 0.05
    base = linear(optimizer, rate, batch_size=batch_size, epsilon=epsilon, **SEEDED)
    settings = SETTINGS if epsilon == 1.0 else SETTINGS[:-1]
    models = fit_many(base, settings, X, y, sensitive_features=GROUPS)
    for model, own in zip(models, settings, strict=True):
        alone = clone(base).set_params(**own).fit(X, y, sensitive_features=GROUPS)
        np.testing.assert_allclose(weights(model), weights(alone), rtol=1e-4, atol=1e-5)
        assert model.plan_ == alone.plan_
        assert vars(model).keys() == vars(alone).keys()
        assert model.groups_ == alone.groups_
        assert model.get_params().keys() == alone.get_params().keys()


def test_class_weights_count_as_in_a_lone_fit() -> None:
    base = linear(class_weight={0: 1.0, 1: 9.0}, **SEEDED)
    for model, own in zip(fit_many(base, SETTINGS[:2], X, Y), SETTINGS[:2], strict=True):
        alone, unweighted = (clone(base).set_params(**own) for _ in range(2))
        np.testing.assert_allclose(weights(model), weights(alone.fit(X, Y)), rtol=1e-4, atol=1e-5)
        unweighted.set_params(class_weight=None).fit(X, Y)
        assert np.abs(weights(model) - weights(unweighted)).max() > 1e-3


def test_models_are_whole() -> None:
    base = linear(classes=np.array([0, 1]))
    models = fit_many(base, [{"epsilon": e} for e in (0.5, 2.0)], X, Y)
    for model, epsilon in zip(models, (0.5, 2.0), strict=True):
        assert 0.98 * epsilon < model.privacy_.epsilon <= epsilon
        certificate = certify(model, X, sensitive_features=GROUPS, holdout="public")
        assert certificate.privacy.epsilon == model.privacy_.epsilon
        assert certificate.verify(model)
        again = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert certificate.verify(again)
    assert not certificate.verify(models[0])


def noise_of(models: list[DPSGDClassifier]) -> np.ndarray:
    """What one step of descent at rate 1 adds to weights that start alike."""
    return np.stack([weights(model) for model in models])


def one_step(n: int, **parameters: object) -> list[DPSGDClassifier]:
    base = linear(
        epsilon=None, noise_multiplier=3.0, batch_size=300, max_epochs=1, random_state=0,
        learning_rate_schedule=None, **parameters,
    )  # fmt: skip
    return fit_many(base, n, X, Y)


def test_noise_has_its_variance_and_is_each_models_own() -> None:
    drawn = noise_of(one_step(100))
    std = 3.0 / 300  # of the mean over the expected batch, at learning rate 1
    z = (drawn - drawn.mean(axis=0)) / std
    # 100 draws of 6 numbers: 594 degrees of freedom.
    assert 1 - 5 * (2 / 594) ** 0.5 < (z**2).sum() / 594 < 1 + 5 * (2 / 594) ** 0.5
    between = np.corrcoef(z) - np.eye(100)
    assert abs(between[np.triu_indices(100, 1)].mean()) < 0.05
    assert len(np.unique(drawn[:, 0])) == 100


def test_noise_ahead_is_the_noise_of_each_step(monkeypatch: pytest.MonkeyPatch) -> None:
    base = linear(**SEEDED)
    ahead = fit_many(base, SETTINGS, X, Y)
    monkeypatch.setattr(many_releases, "_NOISE_AHEAD", 1)
    for model, other in zip(ahead, fit_many(base, SETTINGS, X, Y), strict=True):
        np.testing.assert_array_equal(weights(model), weights(other))


def test_sums_are_on_a_grid_where_noise_is_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    released: list[np.ndarray] = []
    sound = ManyReleases.gradients

    def watched(self: ManyReleases) -> torch.Tensor:
        found = sound(self)
        released.append(found.numpy().copy())
        return found

    monkeypatch.setattr(ManyReleases, "gradients", watched)
    models = fit_many(linear(), [{}, {"exact_noise": False}, {"epsilon": 2.0}], X, Y)
    for place, model in enumerate(models):
        step = model.plan_.segments[0].blocks[0].noise_std * 2.0**-38
        steps = np.stack([each[place] for each in released]) / step
        on_grid = np.abs(steps - np.rint(steps)).max() <= np.abs(steps).max() * 2.0**-50
        assert on_grid == model.plan_.exact_noise == (place != 1)


def test_no_step_has_the_noise_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[ManyReleases] = []
    released: list[torch.Tensor] = []

    def watched(self: ManyReleases) -> torch.Tensor:
        steps.append(self)
        released.append(sound(self).clone())
        return released[-1]

    sound = ManyReleases.gradients
    monkeypatch.setattr(ManyReleases, "gradients", watched)
    monkeypatch.setattr(many_releases, "_NOISE_AHEAD", 18 * 7)  # 60 steps, 7 at a time
    fit_many(linear(epsilon=None, noise_multiplier=1e6, max_epochs=4), 3, X, Y)
    numbers = torch.stack(released).numpy()
    assert len(np.unique(numbers)) == numbers.size
    # Next to the noise, sums are nothing: 1,770 products of steps of 18 numbers.
    z = numbers.reshape(60, 18) / numbers.std()
    assert abs((z @ z.T)[np.triu_indices(60, 1)].mean()) < 5 * (18 / 1770) ** 0.5
    assert not len(steps[-1]._noise)  # nothing is left over
    with pytest.raises(PlanError, match="0 are left"):
        sound(steps[-1])


def test_a_forked_process_does_not_use_the_noise_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    def elsewhere(self: ManyReleases) -> torch.Tensor:
        released = sound(self)
        monkeypatch.setattr(many_releases.os, "getpid", lambda: 0)
        return released

    sound = ManyReleases.gradients
    monkeypatch.setattr(ManyReleases, "gradients", elsewhere)
    with pytest.raises(PlanError, match="0 are left"):  # the steps ahead are metered
        fit_many(linear(), 2, X, Y)


def test_a_shared_noise_would_show(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: ManyReleases) -> torch.Tensor:
        gradients = sound(self)
        return gradients[:1].expand(gradients.shape)

    sound = ManyReleases.gradients
    monkeypatch.setattr(ManyReleases, "gradients", broken)
    drawn = noise_of(one_step(5))
    assert len(np.unique(drawn[:, 0])) == 1


def test_batches_are_each_models_own(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[np.ndarray]] = []

    def watched(self: ManyReleases, part: slice, drawn: list[np.ndarray], *others: object) -> None:
        seen.append(drawn)
        return sound(self, part, drawn, *others)

    sound = ManyReleases._of_drawn
    monkeypatch.setattr(ManyReleases, "_of_drawn", watched)
    fit_many(linear(batch_size=30, max_epochs=5), 2, X, Y)
    member = np.zeros((2, len(seen), 300))
    for step, drawn in enumerate(seen):
        for model, rows in enumerate(drawn):
            member[model, step, rows] = 1.0
    # 15,000 coins of probability .1 for each model, independent between models.
    assert abs(member.mean() - 0.1) < 5 * (0.09 / member.size) ** 0.5
    together = (member[0] * member[1]).mean()
    assert abs(together - 0.01) < 5 * (0.01 / member[0].size) ** 0.5


@pytest.mark.filterwarnings("ignore:epsilon=inf")
@pytest.mark.parametrize("dense", [0.0, 2.0], ids=["all rows", "drawn rows"])
@pytest.mark.parametrize("outputs", [1, 3])
def test_what_a_row_adds_is_its_own(dense, outputs, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums of neighbours differ by no more than the norm, and rows far away do not round them."""
    monkeypatch.setattr(many_releases, "_DENSE", dense)
    rows = X
    y = Y if outputs == 1 else Y + (X[:, 2] > 1)
    sums: list[torch.Tensor] = []

    def watched(self: ManyReleases) -> torch.Tensor:
        sums.append(sound(self))
        return sums[-1]

    sound = ManyReleases.gradients
    monkeypatch.setattr(ManyReleases, "gradients", watched)
    base = linear(
        epsilon=np.inf, batch_size=300, max_epochs=1, random_state=0,
        dataset_size=300, classes=[0, 1, 2][: max(2, outputs)],
    )  # fmt: skip
    norms = (0.01, 0.02)  # every gradient is clipped
    for n in (300, 299):
        fit_many(base, [{"max_grad_norm": c} for c in norms], rows[:n], y[:n])
    for norm, whole, without in zip(norms, *sums, strict=True):
        moved = float((whole - without).norm()) * 300
        assert 0.9 * norm < moved <= norm


def test_each_is_charged(tmp_path) -> None:
    ledger = PrivacyLedger(tmp_path / "spent.db", budget=(10.0, 1e-3))
    models = fit_many(linear(ledger=ledger, epsilon=1.0), 3, X, Y)
    assert len(ledger) == 3
    assert {entry.state for entry in ledger.entries()} == {"committed"}
    assert models[0].privacy_.epsilon < ledger.totals()[0].epsilon


def test_no_room_for_all_leaves_none(tmp_path) -> None:
    ledger = PrivacyLedger(tmp_path / "spent.db", budget=(3.0, 1e-3))
    with pytest.raises(BudgetExceededError):
        fit_many(linear(ledger=ledger, epsilon=1.0), 12, X, Y)
    assert {entry.state for entry in ledger.entries()} == {"returned"}


def test_a_failure_while_rows_are_used_stays_charged(tmp_path, monkeypatch) -> None:
    def broken(self: ManyReleases) -> torch.Tensor:
        raise KeyError("lost")

    monkeypatch.setattr(ManyReleases, "gradients", broken)
    ledger = PrivacyLedger(tmp_path / "spent.db", budget=(10.0, 1e-3))
    with pytest.raises(KeyError, match="lost"):
        fit_many(linear(ledger=ledger), 3, X, Y)
    assert [entry.state for entry in ledger.entries()] == ["reserved"] * 3


@pytest.mark.parametrize(
    ("base", "settings", "said"),
    [
        (linear(), [], "is not allowed: give a whole number"),
        (DPSGDClassifier(progress=False), 2, "one linear layer"),
        (linear(torch.optim.RMSprop), 2, "plain SGD"),
        (linear(), [{}, {"net__optimizer": torch.optim.Adam}], "plain SGD"),
        (linear(), [{}, {"max_epochs": 3}], "number of steps"),
        (linear(), [{}, {"net__module__hidden_sizes": (3,)}], "one linear layer"),
        (linear(), [{}, {"net__criterion": nn.CrossEntropyLoss}], "one shape and criterion"),
        (linear(), [{}, {"epsilon": -1.0}], "epsilon"),
        (linear(), [{}, {"classes": [0, 1]}], "classes"),
        (linear(), [{}, {"class_weight": {0: 1.0, 1: 2.0}}], "class_weight"),
    ],
)
def test_what_does_not_go_together_is_refused_before_a_charge(
    base, settings, said, tmp_path
) -> None:
    ledger = PrivacyLedger(tmp_path / "spent.db", budget=(10.0, 1e-3))
    with pytest.raises(ValueError, match=said):
        fit_many(clone(base).set_params(ledger=ledger), settings, X, Y)
    assert len(ledger) == 0


def test_rows_on_disk_and_groups_of_processes_are_refused(tmp_path, monkeypatch) -> None:
    X.tofile(tmp_path / "rows")
    stored = np.memmap(tmp_path / "rows", np.float32, "r", shape=X.shape)
    with pytest.raises(ValueError, match="in the memory of one process"):
        fit_many(linear(), 2, stored, Y)
    for name, value in {"is_initialized": True, "get_world_size": 2, "get_rank": 0}.items():
        monkeypatch.setattr(torch.distributed, name, lambda value=value: value)
    with pytest.raises(ValueError, match="in the memory of one process"):
        fit_many(linear(), 2, X, Y)
    assert len(fit_many(linear(distributed=None), 2, X, Y)) == 2


def test_a_net_on_another_device_is_refused() -> None:
    prepared = prepare_net(linear()._net(), n_features=3, n_classes=2, seed=0)
    _linear_layer(prepared, (3,))
    prepared.module.to("meta")
    with pytest.raises(ValueError, match="on the CPU"):
        _linear_layer(prepared, (3,))


def test_other_mechanisms_are_refused() -> None:
    with pytest.raises(ValueError, match="one by one"):
        fit_many(FairDPClassifier(), 2, X, Y)


@pytest.mark.parametrize(
    "settings", [2.0, 0, -1, True, "ab", None, [], ["ab"], [{}, 1], {"epsilon": 1.0}], ids=repr
)
def test_settings_of_another_form_are_refused(settings: object, tmp_path: Path) -> None:
    ledger = PrivacyLedger(tmp_path / "ledger.json")
    with pytest.raises(ValueError, match=r"settings=.* is not allowed: give a whole number of"):
        fit_many(linear(ledger=ledger), settings, X, Y)
    assert not ledger.entries()


def test_a_number_of_models_may_be_numpys() -> None:
    assert len(fit_many(linear(), np.int64(2), X, Y)) == 2


@pytest.mark.parametrize("settings", [[{"net__lr": "0.1"}], [{}, {"net__lr": "0.1"}]], ids=repr)
def test_a_learning_rate_that_is_no_number_is_refused(settings: list, tmp_path: Path) -> None:
    ledger = PrivacyLedger(tmp_path / "ledger.json")
    with pytest.raises(ValueError, match="'net' sets lr='0.1', which must be a number >= 0"):
        fit_many(linear(ledger=ledger), settings, X, Y)
    assert not ledger.entries()


@pytest.mark.filterwarnings("default:.*without a ledger", "ignore:epsilon=inf")
def test_models_that_no_ledger_counts_are_warned_of_once(tmp_path: Path) -> None:
    with pytest.warns(PrivacyWarning, match="fit_many trains 3 models without a ledger") as said:
        fit_many(linear(), [{"epsilon": e} for e in (0.5, 1.0, 2.0)], X, Y)
    assert len(said) == 1
    assert said[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyWarning)
        fit_many(linear(ledger=PrivacyLedger(tmp_path / "ledger.json")), 2, X, Y)
        fit_many(linear(), 1, X, Y)
        fit_many(linear(reproducible_noise=True), 2, X, Y)
