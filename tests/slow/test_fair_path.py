"""FairPathClassifier keeps to its claim: the net's noise and the table's are each audited.

The net is audited as the other gradient mechanisms are, in one run, with nearly all of the budget
in its hands; the table by many releases for the same scores. Each is caught with a quarter of its
noise while the other keeps all of it. Where groups alone are protected, all that is released is
audited together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import norm

from skfairdp import FairPathClassifier
from skfairdp.audit import Canaries, audit_one_run, orthogonal_canaries
from skfairdp.engine.clipping.clippers import make_clipper
from skfairdp.engine.inference import outputs_by_row
from skfairdp.engine.optimizers import flatten
from skfairdp.engine.release import NoisyRelease, Rows
from skfairdp.inprocessing.fair_path.envelope import Envelopes
from skfairdp.inprocessing.fair_path.path import SIDE, around
from skfairdp.inprocessing.fair_path.scores import Rates, ScoresObjective
from skfairdp.inprocessing.fair_path.tables import plan_tables
from skfairdp.privacy import epsilon
from skfairdp.privacy.mechanisms.prefix_sums import PrefixSums
from skfairdp.privacy.noise import NoiseSource
from skfairdp.privacy.plan import Plan
from skfairdp.privacy.sizes import Sizes
from tests.audit.fixed_number import epsilon_shown
from tests.slow.test_audit_claims import N_CANARIES, N_GUESSES, N_ROWS, REFUTED, net

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:'delta'"),
    pytest.mark.filterwarnings("ignore:The path does not keep"),
]


def divided(monkeypatch: pytest.MonkeyPatch, *kinds: str) -> None:
    """Divide noise of training or of the tables by four; the tables' is in whole numbers."""
    on_grid, divisor = NoiseSource.on_grid, 4.0 if "training" in kinds else 1.0
    monkeypatch.setattr(
        NoiseSource, "noisy", lambda self, sums, std, exact=True: on_grid(self, sums, std / divisor)
    )
    if "tables" in kinds:
        monkeypatch.setattr(
            NoiseSource, "on_grid", lambda self, sums, std: np.rint(on_grid(self, sums, std) / 4.0)
        )


# -- the net --------------------------------------------------------------------------


def audit_net(rate: float, steps: int):
    n = N_ROWS + N_CANARIES
    model = FairPathClassifier(
        net(n / (20.0 * steps)),
        tolerance=0.9,
        path_share=0.02,
        epsilon=2.0,
        delta=1e-7,
        max_grad_norm=1.0,
        averaged_share=0.0,
        batch_size=round(rate * n),
        max_epochs=round(rate * steps),
    )
    X, canaries = orthogonal_canaries(np.zeros((N_ROWS, 1), dtype=np.float32), N_CANARIES)
    member = np.arange(N_CANARIES) // 2 % 2

    def both_weights(model, X, y):
        """How far a canary's two weights moved towards its label and group."""
        weight = model.module_.head.weight.detach().double().numpy()
        own = X @ weight.T
        return own[:, 0] * (2 * y - 1) + own[:, 1] * (2 * member[: len(y)] - 1)

    return audit_one_run(
        model,
        X,
        np.arange(N_ROWS) % 2,
        Canaries(canaries.X, canaries.y, member),
        sensitive_features=np.arange(N_ROWS) // 2 % 2,
        n_guesses=N_GUESSES,
        score=both_weights,
        confidence_level=1 - REFUTED,
    )


SETTINGS = [(1.0, 4), (0.5, 20)]


@pytest.mark.parametrize(("rate", "steps"), SETTINGS)
def test_the_net_stays_below_the_claim(rate, steps) -> None:
    result = audit_net(rate, steps)
    assert 1.9 < result.claimed_epsilon <= 2.0
    assert not result.refutes_claim, result
    assert result.settings["n_correct"] > 480, result


@pytest.mark.parametrize(("rate", "steps"), SETTINGS)
def test_a_quarter_of_trainings_noise_alone_is_caught(monkeypatch, rate, steps) -> None:
    divided(monkeypatch, "training")
    result = audit_net(rate, steps)
    assert 1.9 < result.claimed_epsilon <= 2.0
    assert result.p_value < 1e-3, result


# -- the table ------------------------------------------------------------------------

N_RUNS = 2000


def shown_by(
    score: Callable[[bool, NoiseSource], float], plan: Plan, error: float
) -> tuple[float, float, float]:
    """Lower bound on epsilon from scores of a record that is there or not, with fixed thresholds.

    Result: the bound, what the plan is charged, and how many standard errors apart the means are.
    """
    noise = NoiseSource()
    there, gone = (np.array([score(p, noise) for _ in range(N_RUNS)]) for p in (True, False))
    shown = []
    for threshold in (1.0, 1.25):
        hits = int((there >= threshold).sum()), N_RUNS, int((gone >= threshold).sum()), N_RUNS
        shown.append(epsilon_shown(*hits, delta=plan.delta, error=error))
    seen = (there.mean() - gone.mean()) / np.hypot(there.std(), gone.std()) * N_RUNS**0.5
    return max(shown), epsilon(plan), float(seen)


def audit_table(error: float) -> tuple[float, float, float]:
    """Lower bound on the table's epsilon, from many releases, and what its plan is charged.

    The estimator's own segment, door and entries; scores and other records are known to the
    attacker, who looks at the canary's entry with a matched filter and has fixed his threshold.
    """
    n = 60
    model = FairPathClassifier(epsilon=2.0, delta=1e-5, batch_size=n, max_epochs=1)
    sizes = Sizes.of_all(n, n)
    table = next(s for s in model._plan(sizes, 0.8).segments if s.blocks[0].name == "path")
    plan = sizes.plan(table, delta=model.delta)
    rng = np.random.default_rng(0)
    scores = rng.uniform(-1, 1, size=(n, 2))
    scores[-1] = (0.9, 0.5)  # not selected from a multiplier of 1.8 on
    lines = Envelopes(*(np.column_stack([np.zeros(n), part]) for part in scores.T))
    found = lines.changes(around(0.0))
    places, changes = found.places[:, 0], 2 * found.entered[:, 0] - 1
    side, place = divmod(int(places[-1]), SIDE)
    assert side == 1
    assert place < 100
    # What other rows of the table get tells nothing about this one.
    bins = np.where(places // SIDE == side, places % SIDE, -1)
    known = np.zeros(SIDE)
    np.add.at(known, bins[:-1][bins[:-1] >= 0], changes[:-1][bins[:-1] >= 0])
    matrix = PrefixSums(SIDE, table.blocks[0].noise_std)._matrix.astype(float)
    column = matrix[:, place] / np.linalg.norm(matrix[:, place])
    # The filter on prefix sums: differences are counts, and the matrix brings back the noise's
    # own coordinates.
    of_counts = matrix.T @ column / 2.0**38
    module = torch.nn.Linear(1, 1)
    objective = ScoresObjective(Rates.of("equal_opportunity"), 2)
    clipper = make_clipper(module, flatten(module), objective)

    def score(present: bool, noise: NoiseSource) -> float:
        codes = np.append(np.zeros(n - 1, dtype=int), 0 if present else -1)
        rows = Rows(torch.zeros(n, 1), (torch.zeros(n),) * 2, codes)
        release = NoisyRelease(rows, plan, clipper, noise)
        sums, _ = release.prefix_sums(table, lambda _: (bins, changes), (SIDE,))
        return float(of_counts @ (known - np.diff(sums, prepend=0.0)) / of_counts[place])

    return shown_by(score, plan, error)


def test_the_table_stays_below_the_claim() -> None:
    found, claimed, seen = audit_table(REFUTED)
    assert 1.5 < claimed < 2.0
    assert found <= claimed
    # The attack sees the canary: its score moves by .43 standard deviations, in 2,000 runs.
    assert seen > 6.0


def test_a_quarter_of_the_tables_noise_alone_is_caught(monkeypatch) -> None:
    divided(monkeypatch, "tables")
    found, claimed, _ = audit_table(1e-3)
    assert 1.5 < claimed < 2.0
    assert found > claimed


# -- the table of several classes -------------------------------------------------------


def audit_changes(error: float) -> tuple[float, float, float]:
    """The same of a table of four classes, for a record whose answer changes three times."""
    n_classes, n, multiplier = 4, 40, 1.34
    rates = Rates.of("demographic_parity", range(n_classes))
    sizes = Sizes.of_all(n, n)
    tables = plan_tables(sizes, multiplier, rates, ascent=True)
    table = next(s for s in tables if s.blocks[0].name == "path")
    plan = sizes.plan(table, delta=1e-5)
    rng = np.random.default_rng(0)
    gains, costs = rng.normal(size=(2, n, n_classes))
    gains[-1], costs[-1] = (0.0, 3.0, 4.0, 3.0), (3.0, 1.0, -1.0, -3.0)
    found = Envelopes(gains, costs).changes(around(0.0))
    assert (found.places[-1] >= 0).sum() == n_classes - 1
    side, place = np.divmod(found.places, SIDE)
    parts = [(side * n_classes + answers) * SIDE + place for answers in (found.left, found.entered)]
    entries = np.hstack([np.where(found.places < 0, -1, part) for part in parts])
    signs = np.hstack([-np.ones_like(found.places), np.ones_like(found.places)])
    shape = 2, n_classes, SIDE
    matrix = PrefixSums(SIDE, table.blocks[0].noise_std)._matrix / 2.0**38

    def counted(rows: slice) -> np.ndarray:
        counts = np.zeros(shape)
        kept = entries[rows] >= 0
        np.add.at(counts.reshape(-1), entries[rows][kept], signs[rows][kept])
        return counts @ matrix.T

    own, known = counted(slice(-1, None)), counted(slice(None, -1))
    # The record moves what is charged, but for signs that pull against each other.
    assert 0.7 < np.linalg.norm(own) * table.multiplier(0) < 1.0
    module = torch.nn.Linear(1, 1)
    clipper = make_clipper(
        module, flatten(module), ScoresObjective(Rates.of("equal_opportunity"), 2)
    )

    def score(present: bool, noise: NoiseSource) -> float:
        codes = np.append(np.zeros(n - 1, dtype=int), 0 if present else -1)
        rows = Rows(torch.zeros(n, 1), (torch.zeros(n),) * 2, codes)
        release = NoisyRelease(rows, plan, clipper, noise)
        sums, _ = release.prefix_sums(table, lambda _: (entries, signs), shape, rates.n_entries())
        seen = np.diff(sums, axis=-1, prepend=0.0) @ matrix.T - known
        return float((seen * own).sum() / (own**2).sum())

    return shown_by(score, plan, error)


def test_the_table_of_several_classes_stays_below_the_claim() -> None:
    found, claimed, seen = audit_changes(REFUTED)
    assert 1.5 < claimed < 2.0
    assert found <= claimed
    assert seen > 6.0


def test_a_quarter_of_the_noise_of_several_classes_is_caught(monkeypatch) -> None:
    divided(monkeypatch, "tables")
    found, claimed, _ = audit_changes(1e-3)
    assert found > claimed


# -- the attribute alone ----------------------------------------------------------------

N_TOLD = 400


def audit_attribute(monkeypatch: pytest.MonkeyPatch) -> tuple[np.ndarray, np.ndarray, Plan]:
    """Log likelihood ratios of one person's two groups, over all that a fit releases.

    Everybody else's group is known. Each release of one fit is made many times in either world,
    with its own noise, and compared with its noiseless values in both.
    """
    rng = np.random.default_rng(0)
    X, groups = rng.normal(size=(40, 2)), np.arange(40) % 2
    X[-1] = 3.0, 2.0
    found, shifts = np.zeros((2, N_TOLD)), []
    honest = {name: getattr(NoisyRelease, name) for name in ("statistic", "prefix_sums")}

    def worlds(release: NoisyRelease) -> list[Rows]:
        rows = release._rows
        others = []
        for code in (0, 1):
            group, codes = rows.targets[1].clone(), rows.codes.copy()
            group[-1] = codes[-1] = code
            others.append(replace(rows, targets=(rows.targets[0], group), codes=codes))
        return others

    def look(release, name, arguments, of_rows, coordinates, std) -> None:
        """Add the part of one release: what is seen, in units of its noise, along the move."""
        rows, noise = worlds(release), NoiseSource()
        one, other = (of_rows(own) / std for own in rows)
        shifts.append(other - one)
        for world, own in enumerate(rows):
            for run in range(N_TOLD):
                again = NoisyRelease(own, release.meter.plan, release._clipper, noise)
                seen = coordinates(honest[name](again, *arguments)) / std
                found[world, run] += ((seen - 0.5 * (one + other)) * shifts[-1]).sum()

    def statistic(self, segment, statistic, module):
        told = outputs_by_row(module, self._rows.X)

        def exact(rows: Rows) -> np.ndarray:
            return statistic.of(told, *rows.targets).double().sum(dim=0).numpy()

        arguments, std = (segment, statistic, module), segment.blocks[0].noise_std
        look(self, "statistic", arguments, exact, lambda seen: seen.numpy(), std)
        return honest["statistic"](self, *arguments)

    def prefix_sums(self, segment, assign, shape, n_entries=1):
        matrix = PrefixSums(shape[-1], segment.blocks[0].noise_std)._matrix / 2.0**38

        def exact(rows: Rows) -> np.ndarray:
            entries, signs = assign(rows)
            counts = np.zeros(shape)
            np.add.at(counts.reshape(-1), entries[entries >= 0], signs[entries >= 0])
            return counts @ matrix.T

        def undone(seen) -> np.ndarray:
            return np.diff(seen[0], axis=-1, prepend=0.0) @ matrix.T

        arguments = segment, assign, shape, n_entries
        look(self, "prefix_sums", arguments, exact, undone, 1.0)
        return honest["prefix_sums"](self, *arguments)

    monkeypatch.setattr(NoisyRelease, "statistic", statistic)
    monkeypatch.setattr(NoisyRelease, "prefix_sums", prefix_sums)
    settings = {"tolerance": 0.9, "epsilon": 1.5, "delta": 0.01, "max_epochs": 1}
    model = FairPathClassifier(protects="sensitive_features", progress=False, **settings)
    model.fit(X, (X[:, 0] > 0).astype(int), sensitive_features=groups)
    moved = [float(np.linalg.norm(shift)) for shift in shifts]
    assert len(moved) == 4
    assert min(moved[:3]) > 0.1, moved  # the person's decision may change nowhere on the path
    return found, np.array(moved), model.plan_


def shown_of(found: np.ndarray, moved: np.ndarray, plan: Plan, error: float) -> float:
    """Epsilon that thresholds show, which are fixed beforehand."""
    shown = []
    for threshold in (0.5, 1.0):  # in units of the squared move
        hits, alarms = (found[::-1] >= threshold * (moved**2).sum()).sum(axis=1).tolist()
        shown.append(epsilon_shown(hits, N_TOLD, alarms, N_TOLD, delta=plan.delta, error=error))
    return max(shown)


def test_who_is_in_which_group_stays_below_the_claim(monkeypatch) -> None:
    found, moved, plan = audit_attribute(monkeypatch)
    claimed, mu = epsilon(plan), float(np.linalg.norm(moved))
    assert 1.4 < claimed <= 1.5
    # Moves are what is charged for: together a Gaussian release, of a known delta.
    delta = norm.cdf(mu / 2 - claimed / mu) - np.exp(claimed) * norm.cdf(-mu / 2 - claimed / mu)
    assert 0.0 < delta <= plan.delta
    assert shown_of(found, moved, plan, REFUTED) <= claimed
    # The attack sees the person.
    apart = (found[1].mean() - found[0].mean()) / np.hypot(*found.std(axis=1)) * N_TOLD**0.5
    assert apart > 4.0


def test_a_quarter_of_the_noise_about_groups_is_caught(monkeypatch) -> None:
    divided(monkeypatch, "training", "tables")
    found, moved, plan = audit_attribute(monkeypatch)
    assert shown_of(found, moved, plan, 1e-3) > epsilon(plan)
