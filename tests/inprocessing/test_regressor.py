"""Private regressors: bounds, what a record can move, messages, and what they keep."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from skorch import NeuralNetRegressor
from torch import nn

from skfairdp import (
    DPAdditiveRegressor,
    DPSGDClassifier,
    DPSGDRegressor,
    PrivacyLedger,
    PrivateTableEncoder,
    certify,
    default_net,
)
from skfairdp.engine.objectives import NumberObjective
from skfairdp.engine.release import NoisyRelease
from skfairdp.exceptions import PrivacyWarning
from skfairdp.inprocessing import target_bounds as bounds_module
from skfairdp.model_selection import fit_within
from skfairdp.preprocessing import PublicScaler
from skfairdp.privacy.noise import NoiseSource
from skfairdp.records.numbers import TargetBounds

QUICK = {"max_epochs": 2, "progress": False}


def amounts(n: int = 600, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows in [0, 1] and a number in [0, 100] for each."""
    X = np.random.default_rng(seed).uniform(size=(n, 3))
    return X, 20.0 + 60.0 * X[:, 0] - 20.0 * X[:, 1] ** 2


REGRESSORS = {
    "dense": DPSGDRegressor(target_bounds=(0.0, 100.0)),
    "additive": DPAdditiveRegressor(target_bounds=(0.0, 100.0), bounds=(0, 1), n_bins=8),
    "Huber": DPAdditiveRegressor(target_bounds=(0.0, 100.0), bounds=(0, 1), n_bins=8, loss="huber"),
}


@pytest.mark.parametrize("name", REGRESSORS)
def test_numbers_are_learned_under_the_budget(name):
    X, y = amounts(3000)
    model = REGRESSORS[name].set_params(progress=False).fit(X, y)
    assert model.score(*amounts(1000, seed=1)) > 0.8
    assert 0.99 <= model.privacy_.epsilon <= 1.0
    found = model.predict(X)
    assert found.dtype == np.float64
    assert found.min() >= 0.0
    assert found.max() <= 100.0


def sum_of_gradients(model, X, y, monkeypatch) -> tuple[np.ndarray, float]:
    """Sum of the first step without its noise, of all records, and its bound."""
    seen: list[torch.Tensor] = []

    def first(self, total, std):
        seen.append(total.clone())
        return total * 0.0

    monkeypatch.setattr(NoisyRelease, "_noisy", first)
    model.set_params(batch_size=len(X), max_epochs=1, reproducible_noise=True, random_state=0)
    model.set_params(dataset_size=len(X), progress=False).fit(X, y)
    return seen[0].numpy(), float(model.max_grad_norm)


def moved(model_of, y_of_record, monkeypatch) -> float:
    """How far one record's target moves the first clipped sum, over the clipping norm.

    The first step takes every record, and its sum is divided by their number.
    """
    X, y = amounts(40)
    y = 60.0 + 0.4 * y
    other = y.copy()
    other[7] = y_of_record
    full, bound = sum_of_gradients(model_of(), X, y, monkeypatch)
    changed, _ = sum_of_gradients(model_of(), X, other, monkeypatch)
    return len(X) * float(np.linalg.norm(full - changed)) / bound


@pytest.mark.parametrize("target", [0.0, 100.0, -1e9, 1e90])
@pytest.mark.parametrize("delta", [None, 0.25])
def test_a_target_moves_the_clipped_sum_by_twice_the_norm_at_most(target, delta, monkeypatch):
    def model():
        net = default_net().set_params(module__hidden_sizes=(), criterion=nn.MSELoss)
        if delta is not None:
            net.set_params(criterion=nn.HuberLoss, criterion__delta=delta)
        return DPSGDRegressor(net, target_bounds=(0.0, 100.0), max_grad_norm=0.5)

    # One record in place of another: it leaves, and comes.
    assert moved(model, target, monkeypatch) <= 2.0


def test_bounds_read_off_the_rows_would_be_seen(monkeypatch):
    """The broken twin: where one target sets the bounds, it moves what all others add."""
    original = DPSGDRegressor._encoded

    def read_off(self, X, y):
        X, classes, numbers = original(self, X, y)
        self.target_bounds = float(numbers.min()), float(numbers.max())
        return X, classes, numbers

    monkeypatch.setattr(DPSGDRegressor, "_encoded", read_off)
    linear = default_net().set_params(module__hidden_sizes=())

    def model():
        return DPSGDRegressor(linear, target_bounds=(0.0, 100.0), max_grad_norm=0.5)

    assert moved(model, 1e6, monkeypatch) > 4.0


@pytest.mark.parametrize("target", [150.0, 1e12, 1e90])
def test_a_target_beyond_the_bounds_counts_as_the_bound(target):
    X, y = amounts(100)
    settings = {**QUICK, "reproducible_noise": True, "random_state": 0}
    fits = []
    for last in (100.0, target):
        y[-1] = last
        fits.append(DPSGDRegressor(target_bounds=(0.0, 100.0), **settings).fit(X, y).predict(X))
    assert np.array_equal(*fits)


@pytest.mark.parametrize("shape", [(5,), (5, 1)])
@pytest.mark.parametrize("delta", [None, 0.3])
def test_the_closed_gradient_is_that_of_autograd(shape, delta):
    objective = NumberObjective(delta, TargetBounds(0.0, 10.0))
    output = torch.linspace(-2.0, 2.0, 5).view(shape).requires_grad_()
    target = torch.tensor([0.0, 3.0, 5.0, 11.0, -4.0], dtype=torch.float64)
    losses = objective(output, target)
    assert losses.shape == (5,)
    criterion = nn.MSELoss(reduction="none") if delta is None else nn.HuberLoss("none", delta)
    scaled = torch.tensor([-1.0, -0.4, 0.0, 1.0, -1.0])
    assert torch.allclose(losses, criterion(output.view(-1), scaled))
    (expected,) = torch.autograd.grad(losses.sum(), output)
    assert torch.allclose(objective.gradient(output.detach(), target), expected)


def test_bounds_are_bought_within_the_budget_and_hold_most_targets():
    X, y = amounts(5000)
    model = DPSGDRegressor(**QUICK, outside_epsilon=0.1).fit(X, y)
    table, counted = model.plan_.counts
    assert table.epsilon * table.releases == pytest.approx(0.1)
    assert counted.epsilon == 0.1
    assert 0.98 <= model.privacy_.epsilon <= 1.0
    low, high = model.target_bounds_
    inside = np.mean((y >= low) & (y <= high))
    # Noise moves ends by whole bins; below 90 % has chance < 1e-6 at this size.
    assert inside > 0.9
    assert high - low <= 1024.0
    # Discrete Laplace of scale 10: beyond 200 with chance 2e-9.
    assert abs(model.outside_ - np.sum((y < low) | (y > high))) < 200
    assert "target_bounds was declared" not in " ".join(model.privacy_.assumptions)


def test_bought_bounds_that_are_not_charged_would_be_seen(monkeypatch):
    """The broken twin: a plan without the tables refuses their release."""
    X, y = amounts()
    monkeypatch.setattr(DPSGDRegressor, "_bought", lambda self: ())
    with pytest.raises(IndexError):
        DPSGDRegressor(**QUICK).fit(X, y)


@pytest.mark.parametrize("n", [50, 200])
def test_what_a_record_adds_to_the_tables_is_one(n, monkeypatch):
    """Without noise, one target more changes one count of each table by one."""
    X, y = amounts(n)
    tables = []

    def seen(release, table, ends, of):
        counts, threshold = original(release, table, ends, of)
        tables.append(counts)
        return counts, threshold

    original = bounds_module._counts
    monkeypatch.setattr(bounds_module, "_counts", seen)
    monkeypatch.setattr(
        NoiseSource, "discrete_laplace", lambda self, epsilon, size: np.zeros(size, dtype=np.int64)
    )
    for rows in (slice(None), slice(1, None)):
        model = DPSGDRegressor(epsilon=math.inf, target_bounds_epsilon=50.0, **QUICK)
        with pytest.warns(PrivacyWarning, match="epsilon=inf"):
            model.fit(X[rows], y[rows])
    assert np.abs(tables[0] - tables[2]).sum() == 1
    assert np.abs(tables[1] - tables[3]).sum() == 1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"target_bounds": (5, 5)}, "target_bounds"),
        ({"target_bounds": (1e12, 1e12 + 1000)}, "a billionth of their size apart .subtract"),
        ({"target_bounds": (-1e300, 1e300)}, "from -1e100 to 1e100"),
        ({"target_bounds": (0, 1), "target_bounds_epsilon": 0.1}, "not both"),
        ({"epsilon": None, "noise_multiplier": 1.0}, "declare target_bounds"),
        ({"target_bounds_epsilon": 1.0}, "uses up"),
        ({"target_bounds": (0, 1), "outside_epsilon": 2.0}, "uses up"),
    ],
)
def test_bounds_that_cannot_be_are_refused_before_a_charge(settings, message, tmp_path):
    ledger = PrivacyLedger(tmp_path / "ledger.db")
    with pytest.raises(ValueError, match=message):
        DPSGDRegressor(ledger=ledger, **QUICK, **settings).fit(*amounts(100))
    assert not ledger.entries()


@pytest.mark.parametrize("name", REGRESSORS)
def test_a_constant_target_is_refused_before_a_charge(name, tmp_path):
    X, _ = amounts(100)
    ledger = PrivacyLedger(tmp_path / "ledger.db")
    model = clone(REGRESSORS[name]).set_params(ledger=ledger)
    with pytest.raises(ValueError, match="y is constant"):
        model.fit(X, np.full(100, 3.0))
    assert not ledger.entries()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, "secret-42", None])
@pytest.mark.parametrize("name", REGRESSORS)
def test_a_target_that_is_no_number_is_refused_before_a_charge(name, bad, tmp_path):
    X, y = amounts(100)
    ledger = PrivacyLedger(tmp_path / "ledger.db")
    model = REGRESSORS[name].set_params(ledger=None)
    model = type(model)(**{**model.get_params(deep=False), "ledger": ledger})
    with pytest.raises(ValueError, match="y") as caught:
        model.fit(X, [bad, *y[1:].tolist()])
    assert "secret" not in str(caught.value)
    assert not ledger.entries()
    assert not hasattr(model, "target_bounds_")


def test_nets_of_other_losses_and_shapes_are_refused_by_name():
    X, y = amounts(100)
    wide = default_net().set_params(module__n_outputs=2)
    with pytest.raises(ValueError, match="one output a row"):
        DPSGDRegressor(wide, target_bounds=(0, 100)).fit(X, y)
    absolute = NeuralNetRegressor(nn.Linear, criterion=nn.L1Loss)
    absolute.set_params(module__in_features=3, module__out_features=1)
    with pytest.raises(ValueError, match="L1Loss.*MSELoss, HuberLoss"):
        DPSGDRegressor(absolute, target_bounds=(0, 100)).fit(X, y)
    absolute.set_params(criterion=nn.MSELoss)
    assert DPSGDRegressor(absolute, target_bounds=(0, 100), **QUICK).fit(X, y).predict(X).shape == (
        100,
    )


def test_a_classifier_names_the_regressors_for_numbers_with_fractions():
    X, y = amounts(100)
    named = "DPSGDRegressor or DPAdditiveRegressor, and FairPathRegressor"
    with pytest.raises(ValueError, match=named) as caught:
        DPSGDClassifier().fit(X, y)
    assert "astype" not in str(caught.value)


def test_a_certificate_states_privacy_and_compares_predictions():
    X, y = amounts(200)
    model = DPSGDRegressor(target_bounds=(0, 100), **QUICK).fit(X, y)
    stated = certify(model)
    assert stated.privacy == model.privacy_
    assert stated.verify(model)
    assert any("target_bounds was declared" in text for text in stated.privacy.assumptions)
    groups = np.where(X[:, 0] > 0.5, "high", "low")
    compared = certify(model, X, y, sensitive_features=groups, holdout="public")
    assert compared.fairness[0].notion == "distribution_gap"
    assert compared.errors.rows == 200
    model.target_bounds_ = (0.0, 1000.0)
    assert not stated.verify(model)


def test_shape_functions_add_up_to_predictions_in_units_of_the_target():
    X, y = amounts(2000)
    model = DPAdditiveRegressor(
        target_bounds=(0, 100), bounds=(0, 1), n_bins=8, progress=False
    ).fit(X, y)
    total = model.explain(X).to_numpy().sum(axis=1).clip(0, 100)
    assert np.allclose(model.predict(X), total)
    scaled = model._scaled(X)  # of the net itself
    assert np.allclose(TargetBounds(0.0, 100.0).unscaled(scaled), total, atol=1e-4)
    rise = model.shape_functions_["x0"]["contribution"].to_numpy()[:-1]
    # The function rises by 60 units of the target over the column.
    assert rise.max() - rise.min() == pytest.approx(60.0, rel=0.4)


def test_pipelines_within_one_budget_and_searches_take_numbers():
    X, y = amounts(3000)
    steps = make_pipeline(
        PrivateTableEncoder(), DPAdditiveRegressor(target_bounds=(0, 100), max_epochs=5)
    )
    model = fit_within(steps, pd.DataFrame(X, columns=list("abc")), y, epsilon=1.0)
    assert 0.99 <= certify(model).privacy.epsilon <= 1.0
    assert model.score(pd.DataFrame(X, columns=list("abc")), y) > 0.2
    scaled = make_pipeline(PublicScaler((0, 1)), DPSGDRegressor(target_bounds=(0, 100), **QUICK))
    search = GridSearchCV(scaled, {"dpsgdregressor__max_grad_norm": [0.5, 1.0]}, cv=2)
    assert search.fit(X, y).best_score_ > 0.0
    assert certify(search).privacy.is_void  # scores without noise


@pytest.mark.parametrize("name", ["dense", "additive"])
def test_rows_on_disk_and_persons_are_taken(name, tmp_path):
    X, y = amounts(300)
    stored = np.memmap(tmp_path / "rows", dtype=np.float64, mode="w+", shape=X.shape)
    stored[:] = X
    settings = {**QUICK, "reproducible_noise": True, "random_state": 0}
    on_disk = clone(REGRESSORS[name]).set_params(**settings).fit(stored, y)
    in_memory = clone(REGRESSORS[name]).set_params(**settings).fit(X, y)
    assert np.array_equal(on_disk.predict(X), in_memory.predict(X))
    by_person = clone(REGRESSORS[name]).set_params(**QUICK)
    by_person.fit(X, y, person_ids=np.arange(300) // 3)
    assert by_person.privacy_.protects == "person"


def test_no_target_is_in_a_pickle():
    X, y = amounts(200)
    stored = pickle.dumps(DPSGDRegressor(target_bounds=(0, 100), **QUICK).fit(X, y))
    assert not any(v.tobytes() in stored for v in y)
    assert y.astype(np.float32)[:2].tobytes() not in stored
