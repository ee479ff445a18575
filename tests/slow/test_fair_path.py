"""FairPathClassifier keeps to its claim: the net's noise and the table's are each audited.

The net is audited as the other gradient mechanisms are, in one run, with nearly all of the budget
in its hands; the table by pairs of trainings, with nearly all of the budget in its own. Each is
caught with a quarter of its noise while the other keeps all of it.
"""

from __future__ import annotations

import numpy as np
import pytest

from skfairdp import FairPathClassifier
from skfairdp.audit import Canaries, audit_one_run, orthogonal_canaries
from skfairdp.inprocessing.fair_path.path import MULTIPLIERS, table_entries
from skfairdp.privacy.mechanisms.prefix_sums import PrefixSums
from skfairdp.privacy.noise import NoiseSource
from tests.sequential import Audited, audit_pairs
from tests.slow.test_audit_claims import N_CANARIES, N_GUESSES, N_ROWS, REFUTED, net

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:'delta'"),
    pytest.mark.filterwarnings("ignore:No point of the path"),
]


def divided(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Divide one kind of noise by four: training's is in floats, the tables' in whole numbers."""
    honest = getattr(NoiseSource, name)
    if name == "gaussian":
        changed = lambda self, size, std, out=None: honest(self, size, std / 4.0, out)  # noqa: E731
    else:
        changed = lambda self, sums, std: np.rint(honest(self, sums, std) / 4.0)  # noqa: E731
    monkeypatch.setattr(NoiseSource, name, changed)


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
    divided(monkeypatch, "gaussian")
    result = audit_net(rate, steps)
    assert 1.9 < result.claimed_epsilon <= 2.0
    assert result.p_value < 1e-3, result


# -- the table ------------------------------------------------------------------------

N_OTHERS = 60
TABLE = {
    "tolerance": 0.9,
    "path_share": 0.9,
    "epsilon": 2.0,
    "delta": 1e-5,
    "batch_size": N_OTHERS,
    "max_epochs": 1,
    "progress": False,
}


def others():
    rng = np.random.default_rng(0)
    X = np.hstack([rng.normal(size=(N_OTHERS, 3)), np.zeros((N_OTHERS, 1))])
    return X, np.arange(N_OTHERS) % 2, np.arange(N_OTHERS) // 2 % 2


def matched(model, X, y):
    """Likelihood ratio of the canary's entry, all other records known."""
    factored = PrefixSums(len(MULTIPLIERS), model.plan_.segments[2].blocks[0].noise_std)
    X_all = np.vstack([others()[0], X])
    labels, groups = np.append(others()[1], y), np.append(others()[2], 1)
    entries = table_entries(model._scores(X_all), groups, labels)
    known = np.bincount(entries[:-1][entries[:-1] >= 0], minlength=model.table_.size)
    if entries[-1] < 0:  # never selected: the table does not know it
        return np.zeros(1)
    noisy = np.linalg.solve(factored._decoder, model.table_.reshape(-1, len(MULTIPLIERS)).T).T
    rest = noisy - known.reshape(noisy.shape) @ factored._matrix.T
    family, place = divmod(int(entries[-1]), len(MULTIPLIERS))
    column = factored._matrix[:, place].astype(float)
    # In standard deviations of the noise: 0 without the canary, its norm with it.
    return np.array([rest[family] @ column / np.linalg.norm(column) / 2.0**38])


def audit_table(error: float, n_pairs: int) -> Audited:
    X, y, groups = others()
    canary = Canaries(np.array([[0.0, 0.0, 0.0, 9.0]]), np.array([1]), np.array([1]))
    return audit_pairs(
        FairPathClassifier(**TABLE),
        X,
        y,
        canary,
        sensitive_features=groups,
        score=matched,
        error=error,
        n_pairs=n_pairs,
    )


def test_the_table_stays_below_the_claim() -> None:
    honest = audit_table(REFUTED, 120)
    assert 1.9 < honest.claimed_epsilon <= 2.0
    assert not honest.refuted, honest
    # The attack sees something: the canary moves its score by about half a deviation.
    assert honest.p_value_of_no_difference() < 1e-2


def test_a_quarter_of_the_tables_noise_alone_is_caught(monkeypatch) -> None:
    divided(monkeypatch, "on_grid")
    twin = audit_table(1e-3, 400)
    assert 1.9 < twin.claimed_epsilon <= 2.0
    assert twin.refuted, twin
