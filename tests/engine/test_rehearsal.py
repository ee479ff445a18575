"""Tests of the rehearsal on made-up rows: a net trains, or is refused before any charge."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.base import clone
from skorch import NeuralNet
from torch import nn

from skfairdp import DPSGDClassifier, FairPathClassifier, PrivacyLedger, certify
from skfairdp.engine import inference, rehearsal
from skfairdp.engine.clipping.clippers import make_clipper
from skfairdp.engine.clipping.fused import FusedClipper
from skfairdp.engine.clipping.norms import rows_of
from skfairdp.engine.exact_products import exactly
from skfairdp.engine.modules import MLP
from skfairdp.engine.objectives import objective_for
from skfairdp.engine.optimizers import flatten
from skfairdp.exceptions import PlanError
from skfairdp.protocol import asked_many_times
from tests import rehearsals
from tests.engine.per_record import clipped_sum
from tests.rehearsals import remember

pytestmark = pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning")
REHEARSES_ANEW = True


class Recurrent(nn.Module):
    kind = "GRU"

    def __init__(self) -> None:
        super().__init__()
        self.layer = getattr(nn, self.kind)(1, 3, batch_first=True)
        self.head = nn.Linear(3, 1)

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        return self.head(self.layer(X.unsqueeze(-1))[0][:, -1])


class Elman(Recurrent):
    kind = "RNN"


class LongShort(Recurrent):
    kind = "LSTM"


class Cell(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.head = nn.GRUCell(4, 3), nn.Linear(3, 1)

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        return self.head(self.layer(X))


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Linear(1, 4), nn.Linear(4, 1)
        self.layer = nn.MultiheadAttention(4, 2, batch_first=True)

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        h = self.embed(X.unsqueeze(-1))
        return self.head(self.layer(h, h, h)[0].mean(1))


class Scaled(nn.Module):
    """Has a parameter without dimensions."""

    def __init__(self) -> None:
        super().__init__()
        self.head, self.scale = nn.Linear(4, 1), nn.Parameter(torch.tensor(0.5))

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        return self.head(X) * self.scale


class Fresh(nn.Module):
    """Writes rows in place, into a tensor that lives no longer than the call."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(4, 1)

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        padded = torch.zeros(X.shape, dtype=X.dtype)
        padded[:, 1:] = X[:, 1:]
        return self.head(padded)


class Plain(nn.Module):
    """Has an attribute that contains itself."""

    def __init__(self) -> None:
        super().__init__()
        self.head, self.notes = nn.Linear(4, 1), {}
        self.notes["notes"] = self.notes

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        return self.head(X)


class Circular(Plain):
    """Is a layer of its own layer."""

    def __init__(self) -> None:
        super().__init__()
        self.head.parent = self


NETS = [Recurrent, Elman, LongShort, Cell, Attention, Scaled, Fresh, Plain]


@pytest.mark.parametrize("make", NETS, ids=lambda make: make.__name__)
def test_sums_equal_a_loop_over_records(make):
    torch.manual_seed(0)
    module = make().double()
    clipper = make_clipper(module, flatten(module), objective_for(nn.BCEWithLogitsLoss()))
    X, y = torch.randn(7, 4).double(), torch.randint(0, 2, (7,)).double()
    weights = torch.rand(7).double()
    for max_norm in (0.05, 50.0):
        got = clipper.clipped_sums(X, (y,), max_norm, weights, rows=32)
        loss = objective_for(nn.BCEWithLogitsLoss())
        want = clipped_sum(module, loss, X, (y,), max_norm, weights)
        torch.testing.assert_close(got, want, rtol=1e-10, atol=1e-12)


def fit(make, ledger, **settings):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 4)).astype(np.float32)
    net = NeuralNet(make, nn.BCEWithLogitsLoss, train_split=None, callbacks=None, verbose=0)
    settings = {"max_epochs": 1, "batch_size": 20, "delta": 1e-3, "ledger": ledger} | settings
    return DPSGDClassifier(net, **settings).fit(X, X[:, 0] > 0), X


@pytest.fixture
def ledger(tmp_path):
    return PrivacyLedger(tmp_path / "ledger.db")


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(make, marks=pytest.mark.slow) if make in (Recurrent, Elman) else make
        for make in NETS
    ],
    ids=lambda make: make.__name__,
)
def test_nets_of_many_kinds_are_trained(make, ledger):
    model, X = fit(make, ledger)
    assert model.predict_proba(X).shape == (40, 2)
    assert len(ledger) == 1


def test_a_net_that_contains_itself_is_refused_before_anything_is_charged(ledger):
    with pytest.raises(ValueError, match="Circular contains itself"):
        fit(Circular, ledger)
    assert len(ledger) == 0


def test_autocast_is_refused_before_anything_is_charged(ledger):
    with (
        torch.autocast("cpu", dtype=torch.bfloat16),
        pytest.raises(ValueError, match="autocast is switched on"),
    ):
        fit(Plain, ledger)
    assert len(ledger) == 0


@pytest.mark.parametrize("precision", ["high", "medium"])
def test_products_in_lower_precision_train(precision, ledger):
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision(precision)
        model, _ = fit(Plain, ledger)
    finally:
        torch.set_float32_matmul_precision(before)
    assert model.privacy_.epsilon <= 1.0


@pytest.mark.parametrize(
    "settings", [{"max_grad_norm": 1e-40}, {"noise_multiplier": 1e-160}], ids=str
)
def test_numbers_beyond_what_floats_hold_are_refused_before_anything_is_charged(settings, ledger):
    if "noise_multiplier" in settings:
        settings = settings | {"epsilon": None}
    with pytest.raises(ValueError, match=next(iter(settings))):
        fit(Plain, ledger, **settings)
    assert len(ledger) == 0


def test_verdicts_that_tests_share_are_of_the_same_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of other code in the place of what multiplies or clips there is none yet."""
    tried: list[int] = []
    honest, linear = rehearsal._Trial._same_in_all, nn.functional.linear

    def same_in_all(trial: rehearsal._Trial, sizes: set[int]) -> bool:
        tried.append(len(sizes))
        return honest(trial, sizes)

    X, y = np.random.default_rng(0).normal(size=(60, 3)), np.arange(60) % 2

    def trials(width: int = 3) -> int:
        tried.clear()
        DPSGDClassifier(max_epochs=1, progress=False).fit(X[:, :width], y)
        return len(tried)

    remember(monkeypatch)
    monkeypatch.setattr(rehearsals, "_VERDICTS", {})
    monkeypatch.setattr(rehearsal._Trial, "_same_in_all", same_in_all)
    trials()
    assert trials() == 0
    with monkeypatch.context() as patch:
        patch.setattr(nn.functional, "linear", lambda *of_layer: linear(*of_layer))
        assert trials() > 0
    with monkeypatch.context() as patch:
        patch.setattr(FusedClipper, "margin", 0.5, raising=False)
        assert trials() > 0
    assert trials() == 0
    assert trials(width=2) > 0


def test_verdicts_on_answers_that_tests_share_are_of_the_same_module(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried: list[object] = []
    honest, forward = inference._alike_everywhere, MLP.forward

    def alike_everywhere(*asked: object) -> bool:
        tried.append(asked)
        return honest(*asked)

    def trials(module: nn.Module, **attributes: int) -> int:
        tried.clear()
        vars(module).update(attributes)
        inference.outputs_by_row(module, torch.zeros(4, 3))
        return len(tried)

    monkeypatch.setattr(inference, "_alike_everywhere", alike_everywhere)
    monkeypatch.setattr(rehearsals, "_VERDICTS", {})
    remember(monkeypatch)
    assert trials(MLP(3)) == 1
    assert trials(MLP(3)) == 0
    assert trials(MLP(3), told=2) == 1
    assert trials(MLP(3, hidden_sizes=(5,))) == 1
    monkeypatch.setattr(MLP, "forward", lambda *of_rows: forward(*of_rows))
    assert trials(MLP(3)) == 1


# -- one model that is asked many times ---------------------------------------------------

X = np.random.default_rng(1).normal(size=(40, 3)).astype(np.float32)


@pytest.fixture
def trials(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Blocks of made-up rows that were tried before predictions."""
    tried: list[object] = []
    honest = inference._alike_everywhere

    def alike_everywhere(*asked: object) -> bool:
        tried.append(asked)
        return honest(*asked)

    monkeypatch.setattr(inference, "_alike_everywhere", alike_everywhere)
    return tried


def test_a_certificate_tries_the_kernels_of_its_model_once(trials: list[object]) -> None:
    y, groups = (X[:, 0] > 0).astype(int), np.arange(40) % 2
    model = DPSGDClassifier(max_epochs=1, progress=False, dataset_size=40, delta=1e-3).fit(X, y)
    trials.clear()
    asked = X + 1
    want = model.predict(asked)
    alone = len(trials)
    trials.clear()
    certificates = [
        certify(model, asked, sensitive_features=groups, holdout="public") for _ in range(2)
    ]
    assert len(trials) == 2 * alone  # not 2 * 21, and none is kept for the second
    for each in certificates:
        found = [count.successes for count in each.fairness[0].counts]
        assert found == [int(want[groups == g].sum()) for g in (0, 1)]
    trials.clear()
    model.predict(asked)
    assert len(trials) == alone


class Foreign(MLP):
    """A net from elsewhere, whose code may do anything."""


def test_other_kernels_are_tried_anew(trials: list[object]) -> None:
    net, tables = MLP(3).eval(), torch.zeros(5, 3)

    def tried(module: nn.Module, rows: np.ndarray = X) -> bool:
        trials.clear()
        inference.outputs(module, rows)
        return bool(trials)

    assert tried(net)
    assert tried(net)  # nothing is kept here
    with asked_many_times():
        assert tried(net)
        assert not tried(net)
        assert not tried(net, X[:7])  # in blocks of the same size
        assert not tried(MLP(3))  # weights alone differ
        with torch.no_grad():
            net.head.weight += 1.0
        assert not tried(net)
        assert tried(MLP(2), X[:, :2])
        assert tried(MLP(3, hidden_sizes=(5,)))
        assert tried(MLP(3).double())
        assert tried(nn.Sequential(nn.Linear(3, 2), nn.LeakyReLU(0.1)))
        assert tried(nn.Sequential(nn.Linear(3, 2), nn.LeakyReLU(0.2)))
        with exactly():
            assert tried(net)
        threads = torch.get_num_threads()
        torch.set_num_threads(threads + 1)
        try:
            assert tried(net)
        finally:
            torch.set_num_threads(threads)
        assert not tried(net)
        # Code of others is tried each time.
        for module in (Foreign(3), nn.Sequential(net, Foreign(1))):
            assert tried(module)
            assert tried(module)
        hook = net.register_forward_hook(lambda *_: None)
        assert tried(net)
        assert tried(net)
        hook.remove()
        net.forward = lambda rows: rows + tables[:1]  # type: ignore[method-assign]
        assert tried(net)
        assert tried(net)
        with asked_many_times():
            assert tried(MLP(3))
    assert tried(MLP(3))


@pytest.mark.parametrize("told_apart", [True, False])
def test_a_verdict_on_one_shape_does_no_harm_to_another(told_apart: bool, monkeypatch) -> None:
    """Of a processor that rounds layers of five inputs by the place of a row, and no others."""
    linear = nn.functional.linear

    def by_place(rows, weight, bias=None):
        product = linear(rows, weight, bias).clone()
        if rows.shape[-1] == 5:
            product[1::2] += 2.0**-10
        return product

    monkeypatch.setattr(nn.functional, "linear", by_place)
    if not told_apart:  # the broken twin
        monkeypatch.setattr(inference, "_described", lambda value: None)
    wide = np.random.default_rng(2).normal(size=(9, 5)).astype(np.float32)
    torch.manual_seed(0)
    of_three, of_five = nn.Linear(3, 1), nn.Linear(5, 1)
    with asked_many_times():
        inference.outputs(of_three, X)
        found = inference.outputs(of_five, wide)
        turned = inference.outputs(of_five, np.roll(wide, 1, axis=0))
    assert np.array_equal(np.roll(turned, -1, axis=0), found) == told_apart


# -- tables --------------------------------------------------------------------------------


def test_blocks_of_tables_are_not_rehearsed_and_give_no_gradient(monkeypatch) -> None:
    tried: set[int] = set()
    honest = rehearsal._Trial.keeps_rows_apart

    def keeps_rows_apart(trial, of_steps):
        tried.update(*of_steps.values())
        return honest(trial, of_steps)

    monkeypatch.setattr(rehearsal._Trial, "keeps_rows_apart", keeps_rows_apart)
    n = 1500
    rows = np.random.default_rng(0).normal(size=(n, 2)).astype(np.float32)
    y, groups = (rows[:, 0] > 0).astype(int), np.arange(n) % 2
    model = FairPathClassifier(
        max_epochs=1, batch_size=50, progress=False, epsilon=4.0, tolerance=0.9, delta=1e-5
    )
    other = clone(model)
    plan = model.fit(rows, y, sensitive_features=groups).plan_
    assert tried == {rows_of(plan.segments[0])}
    assert rows_of(plan.segments[1]) not in tried
    tables = plan.segments[1:]
    training = other._train

    def train(run) -> None:
        with pytest.raises(PlanError, match="was not rehearsed for gradients"):
            run.release.gradient(tables[0])
        with pytest.raises(PlanError, match="was not rehearsed for gradients"):
            run.release.heads(tables[0], slice(0, 1), radii=(1.0,), head_scale=1.0)
        training(run)

    monkeypatch.setattr(other, "_train", train)
    other.fit(rows, y, sensitive_features=groups)
