"""Two ways to train an encoder: what each touches, and what the private one promises."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.datasets import make_blobs

from skfairdp import PrivateFairEncoder
from skfairdp.engine.clipping.clippers import make_clipper
from skfairdp.engine.nets import PreparedNet
from skfairdp.engine.randomness import OwnDraws
from skfairdp.engine.release import Rows
from skfairdp.engine.run import Progress
from skfairdp.foundation.assumptions import ALONE
from skfairdp.privacy.accounting.plan_cost import guarantee
from skfairdp.privacy.noise import NoiseSource
from skfairdp.privacy.plan import Plan
from skfairdp.privacy.sizes import Sizes
from skfairdp.representation import training
from skfairdp.representation.objective import ColumnTypes
from skfairdp.representation.randomizers import (
    LaplaceRandomizer,
    ResponseRandomizer,
)
from skfairdp.representation.training import (
    Task,
    descend,
    descend_privately,
    plain_batch_size,
)
from tests.common.roster import people
from tests.privacy.oracle import oracle_epsilons
from tests.representation.encoders import FAST

N = 60
SIZES = Sizes(("all",), (N,), "zero-out")


def task(codes: bool = False) -> tuple[Task, np.ndarray]:
    randomizer = ResponseRandomizer(5.0, 2, 4) if codes else LaplaceRandomizer(5.0, 2, 0.5)
    X = np.random.default_rng(0).normal(size=(N, 4))
    encoder = PrivateFairEncoder(beta=10.0, n_samples=2, label_law="categorical")
    one = Task(encoder, randomizer, ColumnTypes((0, 1, 2, 3), ()), 4, 2, 2)
    return one, one.rows(X, np.arange(N) % 2, np.arange(N) % 3 - 1)


def plan(noise_multiplier: float, **settings: float):
    chosen = {"batch_size": 20, "max_epochs": 2, "max_grad_norm": 0.7, "delta": 1e-5} | settings
    clip = chosen["max_grad_norm"]
    gradient = ("gradient", clip, noise_multiplier * clip)
    segment = SIZES.batches(chosen["max_epochs"], chosen["batch_size"], gradient)
    return SIZES.plan(segment, delta=chosen["delta"])


def privately(prepared: PreparedNet, rows: np.ndarray, contributes: np.ndarray, planned: Plan):
    records = Rows(torch.from_numpy(rows).float(), (), np.where(contributes, 0, -1))
    clipper = make_clipper(prepared.module, prepared.flat, lambda output: output)
    noise, progress = NoiseSource(0), Progress(6, False, "test")
    descend_privately(
        prepared, records, clipper, plan=planned, noise=noise, max_epochs=2, progress=progress
    )


def test_rows_hold_features_groups_and_labels() -> None:
    _, rows = task()
    assert rows.shape == (N, 4 + 2 + 2)
    assert rows[1, 4:].tolist() == [0.0, 1.0, 1.0, 0.0]
    assert rows[0, 6:].tolist() == [0.0, 0.0]  # a label that is none of the classes


def test_the_plan_is_what_an_independent_integral_says() -> None:
    planned = plan(1.1)
    (expected,) = oracle_epsilons(planned, 1e-5).values()
    assert guarantee(planned).epsilon == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize("codes", [False, True])
def test_a_record_moves_a_sum_by_no_more_than_the_clip_norm(codes: bool) -> None:
    """With all draws of the representation given, as the promise needs it."""
    one, rows = task(codes)
    prepared = one.prepare(0)
    clipper = make_clipper(prepared.module, prepared.flat, lambda output: output)
    table = torch.from_numpy(rows).float()
    weights = torch.ones(1)
    for row in table[:10] * torch.tensor([1e3] * 4 + [1.0] * 4):
        with OwnDraws(np.random.default_rng(0)):
            alone = clipper.clipped_sums(row.unsqueeze(0), (), 0.7, weights)
        assert 0.0 < alone.double().norm().item() <= 0.7
        assert alone.double().norm().item() > 0.69  # clipped, not lost


@pytest.mark.parametrize("codes", [False, True])
def test_private_training_adds_the_planned_noise_and_nothing_else_reaches_the_weights(
    codes: bool,
) -> None:
    one, rows = task(codes)
    outcomes = []
    for contributes in (np.ones(N, dtype=bool), np.zeros(N, dtype=bool)):
        prepared = one.prepare(0)
        before = prepared.flat.vector.clone()
        privately(prepared, rows, contributes, plan(1.0))
        outcomes.append(prepared.flat.vector - before)
    # Without a record the weights still move: noise alone, the code book's too.
    assert (outcomes[1] != 0).all()
    assert not torch.equal(*outcomes)


def test_noiseless_private_training_without_records_moves_nothing() -> None:
    one, rows = task()
    prepared = one.prepare(0)
    before = prepared.flat.vector.clone()
    privately(prepared, rows, np.zeros(N, dtype=bool), plan(0.0))
    assert torch.equal(prepared.flat.vector, before)


def test_what_the_rehearsal_decides_holds_in_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """A net that rounds a row by its place goes one by one, as it did on made-up rows."""
    seen = []

    def one_by_one(_, clipper, *of: object) -> str:
        while not clipper.one_by_one:
            clipper.retreat()
        return clipper.arithmetic

    monkeypatch.setattr(training, "rehearse", one_by_one)
    monkeypatch.setattr(
        training, "descend_privately", lambda _, rows, clipper, **of: seen.append(clipper)
    )
    X, y, _ = people(60)
    encoder = PrivateFairEncoder(train_privately=True, **FAST).fit(X, y)
    assert [clipper.one_by_one for clipper in seen] == [True]
    assert ALONE in encoder.training_privacy_.assumptions


def test_plain_training_lowers_the_loss_in_whole_passes() -> None:
    one, rows = task()
    prepared = one.prepare(0)
    loss = prepared.module.eval()
    table = torch.from_numpy(rows).float()
    before = loss(table).mean().item()
    progress = Progress(40 * 3, False, "test")
    descend(
        prepared,
        rows,
        batch_size=25,
        max_epochs=40,
        progress=progress,
        generator=np.random.default_rng(0),
    )
    assert progress.step == 40 * 3
    assert loss(table).mean().item() < before - 1.0


def test_batch_sizes_of_plain_training() -> None:
    assert [plain_batch_size("auto", n) for n in (10, 4320, 32561, 10**6)] == [1, 68, 509, 512]
    with pytest.raises(ValueError, match="'batch_size'"):
        plain_batch_size(11, 10)


@pytest.mark.slow
def test_private_training_learns_at_large_epsilon() -> None:
    X, y = make_blobs(1000, centers=[[-1, -1], [1, 1]], cluster_std=0.5, random_state=0)
    model = PrivateFairEncoder(
        epsilon=30.0, beta=100.0, train_privately=True, training_epsilon=8.0, max_epochs=10,
        progress=False,
    )  # fmt: skip
    assert (model.fit(X, y).predict(X) == y).mean() > 0.8


def test_one_step_costs_the_same_whatever_the_rows_are() -> None:
    X, y, groups = people()
    plans = [
        PrivateFairEncoder(train_privately=True, **FAST)
        .fit(factor * X, y, sensitive_features=groups)
        .plan_
        for factor in (1.0, 1e3)
    ]
    assert plans[0] == plans[1]
