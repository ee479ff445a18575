"""Released representations: no attack refutes their epsilon, attacks refute a quarter of the noise.

The attacker knows two rows, that the release is of one of them, and everything but the
noise. The rows lie in opposite corners, where they can be distinguished best, and the events
are those of the largest likelihood ratio.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from skfairdp.privacy import NoiseSource
from skfairdp.privacy.mechanisms.randomized_response import RandomizedResponse
from skfairdp.representation import (
    LaplaceTransformer,
    ReleaseMemory,
    ResponseRandomizer,
    RowStreams,
    group_information_bound,
    information_bound,
)
from tests.audit.fixed_number import epsilon_shown

pytestmark = pytest.mark.slow

N = 200_000
BOUND = 0.5
# A right claim is refuted with chance at most 1e-9 a test.
REFUTED = 1e-9
KINDS = ["laplace", "laplace, with ids", "response", "response, with ids"]
SETTINGS = [(0.5, 1), (1.0, 2), (3.0, 2)]


def releases(kind: str, epsilon: float, n_components: int) -> list[np.ndarray]:
    """N releases of each of the two rows."""
    ids = np.arange(N) if "ids" in kind else None
    if kind.startswith("laplace"):
        corners = [np.full((N, n_components), at) for at in (BOUND, -BOUND)]
        transformer = LaplaceTransformer(epsilon, BOUND).fit(corners[0])
        return [transformer.transform(corner, ids=ids) for corner in corners]
    randomizer, memory = ResponseRandomizer(epsilon, n_components, 3), ReleaseMemory()
    released = []
    for code in (0, 1):
        codes = np.full((N, n_components), code)
        noise = NoiseSource()
        if ids is not None:
            noise = memory.streams(ids, codes, "encoder", randomizer.identity)
        released.append(randomizer.release(codes, noise))
    return released


def cells(kind: str, released: np.ndarray) -> np.ndarray:
    """Coarse cells of the releases, 0 .. 3^d - 1; cell 0 speaks most for the first row."""
    if kind.startswith("laplace"):
        released = np.where(released >= BOUND, 0, np.where(released <= -BOUND, 1, 2))
    return released @ (3 ** np.arange(released.shape[1]))


def both_cells(kind: str, epsilon: float, n_components: int) -> list[np.ndarray]:
    return [cells(kind, z) for z in releases(kind, epsilon, n_components)]


def counts(first: np.ndarray, second: np.ndarray) -> tuple[int, int, int, int]:
    return int((first == 0).sum()), N, int((second == 0).sum()), N


@pytest.fixture
def a_quarter_of_the_noise(monkeypatch):
    for source in (NoiseSource, RowStreams):
        honest = source.discrete_laplace
        monkeypatch.setattr(
            source,
            "discrete_laplace",
            lambda self, epsilon, size, honest=honest: honest(self, 4 * epsilon, size),
        )
    report = RandomizedResponse.report
    monkeypatch.setattr(
        RandomizedResponse,
        "report",
        lambda self, codes, noise: report(
            RandomizedResponse(4 * self.epsilon, self.n_values), codes, noise
        ),
    )


def information(first: np.ndarray, second: np.ndarray, n_components: int) -> float:
    """Plug-in estimate of what a coarse release tells about which row it is of, in nats."""
    table = np.array([np.bincount(z, minlength=3**n_components) for z in (first, second)])
    both, each = stats.entropy(table.ravel()), stats.entropy(table.sum(axis=0))
    return math.log(2.0) + each - both


def error(epsilon: float, n_components: int) -> float:
    """Seven standard errors of log ratios within epsilon, and the bias of the cells."""
    return 7 * epsilon / math.sqrt(2 * N) + 3**n_components / (2 * N)


@pytest.mark.parametrize(("epsilon", "n_components"), SETTINGS)
@pytest.mark.parametrize("kind", KINDS)
def test_releases_show_no_more_than_epsilon_and_nearly_that(kind, epsilon, n_components):
    both = both_cells(kind, epsilon, n_components)
    seen = counts(*both)
    assert epsilon_shown(*seen, error=REFUTED) <= epsilon
    # The audit is a strong one: its lower bound comes close.
    assert epsilon_shown(*seen, error=0.01) > 0.8 * epsilon
    estimate = information(*both, n_components)
    assert estimate <= information_bound(epsilon) + error(epsilon, n_components)
    assert estimate <= group_information_bound(epsilon) + error(epsilon, n_components)


@pytest.mark.parametrize(("epsilon", "n_components"), SETTINGS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.usefixtures("a_quarter_of_the_noise")
def test_a_quarter_of_the_noise_is_caught(kind, epsilon, n_components):
    both = both_cells(kind, epsilon, n_components)
    assert epsilon_shown(*counts(*both), error=1e-9) > epsilon
    if n_components == 1:
        estimate = information(*both, 1)
        assert estimate > group_information_bound(epsilon) + error(4 * epsilon, 1)
