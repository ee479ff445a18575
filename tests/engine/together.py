"""Program of each of two processes that train together; prints its findings as JSON."""

from __future__ import annotations

import faulthandler
import hashlib
import json
import os
import sys
import warnings
from pathlib import Path

import numpy as np
import torch
from torch import distributed

import skfairdp
from skfairdp.audit import count_correct_guesses, one_run_p_value, orthogonal_canaries
from skfairdp.audit.declared import claim_about, declare_sizes, fit_with
from skfairdp.engine.clipping.clippers import make_clipper
from skfairdp.engine.modules import MLP
from skfairdp.engine.objectives import objective_for
from skfairdp.engine.optimizers import flatten
from skfairdp.engine.processes import Processes
from skfairdp.engine.release import NoisyRelease, Rows
from skfairdp.exceptions import PrivacyWarning
from skfairdp.privacy import Block, CountRelease, NoiseSource, Plan, Segment
from skfairdp.privacy.mechanisms.prefix_sums import prefix_norm
from skfairdp.privacy.plan import GRID_FAILURE
from tests.inprocessing.rows import two_groups
from tests.slow import test_audit_claims as claims

warnings.simplefilter("ignore", PrivacyWarning)
FOLDER, TASK = Path(sys.argv[1]), sys.argv[2]
RANK = int(os.environ["RANK"])
X, Y, GROUPS = two_groups(900)
THREE = np.where(X[:, 0] > 0.5, 2, Y)  # labels of three classes
# The same rows for both, in another order.
COPIES = np.random.default_rng(RANK).permutation(300)
MINE = slice(0, 300) if RANK == 0 else slice(300, None)
# Every row is in every batch, so that sums do not depend on coins.
ALL = {"batch_size": 900, "max_epochs": 4, "delta": 1e-5, "random_state": 3}
LEDGER = FOLDER / "ledger.json"
# Settings with tables of counts.
TABLES = {
    "FairDPClassifier": {"stop_tolerance": 0.5, "check_every": 1},
    "DPFermiClassifier": {"notion": "equalized_odds"},
    "FairPathClassifier": {"tolerance": 0.9},
    "FairPathRegressor": {"tolerance": 0.9, "target_bounds": (0, 1)},
    "DPSGDClassifier": {"costs": {0: 1, 1: 5}},
}


def weights(model):
    return np.concatenate([p.detach().numpy().ravel() for p in model.module_.parameters()])


def mine(model, part=MINE, y=Y, **more):
    return model.fit(X[part], y[part], sensitive_features=GROUPS[part], **more)


def failure(model, part=MINE, y=Y, **more):
    """How a fit ends that must not succeed."""
    try:
        mine(model, part, y, **more)
    except Exception as error:
        return [type(error).__name__, str(error), hasattr(model, "module_")]
    return None


def same_as_alone(*names, y=Y):
    """How far fits without noise are from those of one process, and whether plans agree."""
    found = {}
    for name in names:
        kind = getattr(skfairdp, name)
        options = ALL | {"epsilon": float("inf")}
        options |= TABLES.get(name, {})
        together = mine(kind(**options), y=y)
        alone = kind(distributed=None, **options)
        alone.fit(X, y, sensitive_features=GROUPS)
        apart = float(np.abs(weights(together) - weights(alone)).max())
        if hasattr(alone, "changed_"):
            tables = [(one.decided_, one.changed_, one.improved_) for one in (together, alone)]
            moved = [np.abs(a - b).max() for a, b in zip(*tables, strict=True)]
            apart += float(max(moved) > 1)  # a row at the edge may fall to the other side
        if hasattr(alone, "score_counts_"):
            apart += float(np.abs(together.score_counts_ - alone.score_counts_).max() > 1)
            apart += float(alone.score_counts_.sum() != len(X))
        if hasattr(alone, "scored_"):
            tables = [np.stack([one.scored_, *one.moved_]) for one in (together, alone)]
            apart += float(np.abs(tables[0] - tables[1]).max() > 1)
        found[name] = [apart, together.plan_ == alone.plan_]
    return found


def private():
    """Fits with noise; of rows on disk, where batches of the first process are mostly empty."""
    options = ALL | {"batch_size": 30, "max_epochs": 1, "epsilon": 2.0, "exact_noise": True}
    part = slice(898, None) if RANK == 0 else slice(0, 898)
    model = skfairdp.DPSGDClassifier(ledger=LEDGER, classes=[0, 1], **options)
    stored = np.memmap(FOLDER / f"rows{RANK}", mode="w+", dtype=X.dtype, shape=X[part].shape)
    stored[:] = X[part]
    model.fit(stored, Y[part])
    bought = skfairdp.FairDPClassifier(ledger=LEDGER, group_sizes_epsilon=0.5, **options)
    alone = skfairdp.DPSGDClassifier(distributed=None, classes=[0, 1], **options).fit(X, Y)
    return {
        "epsilon": [model.privacy_.epsilon, alone.privacy_.epsilon],
        "assumptions": model.privacy_.assumptions,
        "weights": [hashlib.sha256(weights(one)).hexdigest() for one in (model, mine(bought))],
        "charges": len(skfairdp.PrivacyLedger(LEDGER).entries()),
    }


def noise():
    """Variance of a release of nothing, over that of its plan."""
    module = MLP(20, hidden_sizes=(200, 80))
    flat = flatten(module)
    clipper = make_clipper(module, flat, objective_for(torch.nn.BCEWithLogitsLoss()))
    block = Block(name="gradient", max_norm=1.0, weights=(0.1,), noise_std=3.0)
    segment = Segment(steps=1, rates=(0.5,), expected_sizes=(10.0,), blocks=(block,))
    plan = Plan(cells=("all",), segments=(segment,), adjacency="zero-out", delta=1e-5)
    rows = Rows(torch.zeros(20, 20), (torch.zeros(20),), np.full(20, -1))
    with Processes() as processes:
        release = NoisyRelease(rows, plan, clipper, NoiseSource(), processes)
        released = release.gradient(segment).numpy()
    return [len(released), float(np.mean((released / 3.0) ** 2)), released[:3].tolist()]


def tables():
    """Tables of all rows without noise, and of none: variance of the noise over the plan's."""
    found = {}
    for kind, n in (("exact", 3 + RANK), ("noisy", 0)):
        std = 4.0 if kind == "noisy" else 0.0
        block = Block(name="sums", max_norm=prefix_norm(1), weights=(1.0,), noise_std=std)
        step = {"steps": 1, "rates": (1.0,), "expected_sizes": (7.0,), "blocks": (block,)}
        segment = Segment(**step, failure=GRID_FAILURE if std else 0.0)
        price = CountRelease(name="counts", epsilon=0.5 if std else float("inf"))
        plan = Plan(
            cells=("all",), segments=(segment,), counts=(price,), adjacency="zero-out", delta=1e-5
        )
        rows = Rows(torch.zeros(n, 20), (torch.zeros(n),), np.zeros(n, dtype=int))
        module = MLP(20)
        clipper = make_clipper(module, flatten(module), objective_for(torch.nn.BCEWithLogitsLoss()))
        with Processes() as processes:
            release = NoisyRelease(rows, plan, clipper, NoiseSource(), processes)
            places = np.arange(n) + RANK
            counts = release.counts(price, lambda rows, places=places: places, 4000)
            signed = places, np.full(n, 1 - 2 * RANK)
            sums, _ = release.prefix_sums(segment, lambda rows, signed=signed: signed, (4000, 1))
        found[kind] = [counts[:6].tolist(), sums[:6, 0].tolist()]
    of_laplace = 2 * np.exp(-0.5) / (1 - np.exp(-0.5)) ** 2
    return found | {"variances": [counts.var() / of_laplace, sums.var() / 16.0]}


def on_disk(model, part):
    """How a fit of rows in a mapped file ends, and whether it was charged."""
    before = len(skfairdp.PrivacyLedger(LEDGER).entries())
    rows = np.memmap(FOLDER / f"copies{RANK}", mode="w+", dtype=X.dtype, shape=X[part].shape)
    rows[:] = X[part]
    try:
        model.fit(rows, Y[part])
    except ValueError as error:
        charged = len(skfairdp.PrivacyLedger(LEDGER).entries()) > before
        return [type(error).__name__, str(error), charged]
    return None


def refusals():
    """Errors of fits that must not happen, by what is wrong."""
    plain = skfairdp.DPSGDClassifier
    three = np.where(np.arange(900) < 10, 2, Y)
    poor = skfairdp.PrivacyLedger(FOLDER / "poor.json", budget=(0.5, 1e-4)) if RANK == 0 else LEDGER
    return {
        "parameters": failure(plain(max_grad_norm=1.0 + RANK, **ALL)),
        "class": failure([plain, skfairdp.DPSGDFClassifier][RANK](**ALL)),
        "copies": failure(plain(delta=1e-5), slice(0, 300)),
        "shuffled": failure(plain(delta=1e-5), COPIES),
        "all but one": failure(plain(delta=1e-5), np.r_[COPIES[1:], 300 + RANK]),
        "copies on disk": on_disk(plain(delta=1e-5, ledger=LEDGER), COPIES),
        "classes": failure(plain(**ALL), y=three),
        "rows": failure(plain(**ALL), slice(0, 300 if RANK == 0 else 0)),
        "persons": failure(plain(**ALL), person_ids=np.arange(900)[MINE] % 90 if RANK else None),
        "mechanism": failure(skfairdp.LagrangianDualClassifier(delta=1e-5)),
        "budget": failure(plain(ledger=poor, **ALL)),
    }


def ended():
    """End groups whose threads get a processor only while this process waits; count them."""
    can = hasattr(os, "SCHED_IDLE")  # of Linux
    if can:
        allowed = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {allowed[RANK % len(allowed)]})
    faulthandler.dump_traceback_later(120, exit=True)
    n_ended = 0
    for _ in range(5):
        before = set(threads())
        with Processes() as processes:
            for one in set(threads()) - before:
                os.sched_setscheduler(one, os.SCHED_IDLE, os.sched_param(0))
            processes.agree({"the": "same"})
        n_ended += 1
    faulthandler.cancel_dump_traceback_later()
    if can:
        os.sched_setaffinity(0, allowed)
    return n_ended


def threads():
    """Numbers of the threads of this process, where the system says them."""
    folder = Path("/proc/self/task")
    return [int(one.name) for one in folder.iterdir()] if folder.exists() else []


def death():
    """Message of the first process when the other one dies in a step, or fails."""
    calls, add_up = [], Processes.add_up

    def dying(self, *arguments):
        calls.append(1)
        if RANK == 1 and len(calls) == 3:
            if TASK == "kill":
                os._exit(9)
            raise KeyError("something of its own")
        return add_up(self, *arguments)

    Processes.add_up = dying
    found = failure(skfairdp.DPSGDClassifier(ledger=LEDGER, **ALL))
    return [found, len(skfairdp.PrivacyLedger(LEDGER).entries())]


def audited(divisor):
    """An audit in one run, as in tests/slow/test_audit_claims.py; canaries and rows are shared out.

    Each canary's score is how far its own weight moved towards its label.

    `divisor`: of the noise that is drawn. Result: claimed epsilon, right guesses, p-value.
    """
    X, canaries = orthogonal_canaries(np.zeros((claims.N_ROWS, 1)), claims.N_CANARIES)
    X[:, 0] = np.random.default_rng(0).normal(size=len(X))
    y, coins = np.arange(len(X)) % 2, np.random.default_rng(1).random(len(canaries)) < 0.5
    model = declare_sizes(claims.estimator("dpsgd", 1.0, 4), X, y, canaries, None)
    own, guests = slice(RANK, None, 2), coins & (np.arange(len(coins)) % 2 == RANK)
    gaussian = NoiseSource.gaussian
    NoiseSource.gaussian = lambda self, size, std, out=None: gaussian(
        self, size, std / divisor, out
    )
    fit_with(model, X[own], y[own], canaries.take(guests), None)
    NoiseSource.gaussian = gaussian
    guesses = claims.N_GUESSES
    score = model.module_.head.weight.detach().numpy()[0, 1:] * (2 * canaries.y - 1)
    right = count_correct_guesses(score, coins, n_guesses=guesses)
    epsilon, delta = claim_about(model, canaries)
    p_value = one_run_p_value(len(coins), guesses, right, epsilon=epsilon, delta=delta)
    return [epsilon, right, p_value]


TASKS = {
    "audit": lambda: [audited(1.0), audited(4.0)],
    "same": lambda: [
        same_as_alone("DPSGDFClassifier", "FairDPClassifier", "RateConstrainedClassifier"),
        private(),
        noise(),
        refusals(),
        tables(),
        ended(),
    ],
    "others": lambda: (
        same_as_alone(
            "DPSGDClassifier",
            "ImportanceSamplingDPSGDClassifier",
            "DPFermiClassifier",
            "FairPathClassifier",
            "FairPathRegressor",
        )
        | {"three classes": same_as_alone("FairPathClassifier", y=THREE)["FairPathClassifier"]}
    ),
    "kill": death,
    "fail": death,
}
if __name__ == "__main__":
    torch.set_num_threads(1)
    store = f"file://{FOLDER}/store"
    distributed.init_process_group("gloo", store, rank=RANK, world_size=2)
    print(json.dumps(TASKS[TASK]()), flush=True)
    os._exit(0)  # without waiting for one that was killed
