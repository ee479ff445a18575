"""Tests of the consequences of epsilon for predictors and information, by exact computation.

Populations are finite and the randomisers' laws are known, so rates and information are
computed, not estimated. The only tolerance is for rounding and for a cut tail of 1e-8.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from skfairdp.representation import (
    LaplaceRandomizer,
    ResponseRandomizer,
    downstream_bound,
    group_information_bound,
    information_bound,
    leakage_bound,
)

TAIL = 1e-8
EPSILONS = (0.3, 1.0, 2.5, 6.0)
N_ROWS = 6  # different rows x of a population


class Encoded:
    """A random population, a random encoder and the exact law of what it releases.

    `joint` is Pr(x, group, label), shape (N_ROWS, n_groups, 2); `channel` is Pr(z | x),
    shape (n_releases, N_ROWS); `releases` are the values of z, as features.
    """

    def __init__(self, seed: int, epsilon: float, spent: float | None = None) -> None:
        rng = np.random.default_rng(seed)
        n_groups = int(rng.integers(2, 4))
        # Few rows carry most of a group, so that groups can be told apart.
        self.joint = rng.dirichlet(np.full(N_ROWS * n_groups * 2, 0.2))
        self.joint = self.joint.reshape(N_ROWS, n_groups, 2)
        used = epsilon if spent is None else spent
        make = self._response if seed % 2 else self._laplace
        self.releases, self.channel = make(rng, used)

    @staticmethod
    def _response(rng, epsilon):
        n_components, n_values = int(rng.integers(1, 3)), int(rng.integers(2, 5))
        randomizer = ResponseRandomizer(epsilon, n_components, n_values)
        codes = rng.integers(n_values, size=(N_ROWS, n_components))
        seen = np.indices((n_values,) * n_components).reshape(n_components, -1).T
        features = np.concatenate([seen == value for value in range(n_values)], axis=1)
        return features.astype(float), np.exp(randomizer.log_density(seen, codes))

    @staticmethod
    def _laplace(rng, epsilon):
        randomizer = LaplaceRandomizer(epsilon, 1, 0.5)
        # Most values lie beyond the bound, where truncation brings them to the corners.
        hidden = rng.normal(scale=1.5, size=(N_ROWS, 1))
        far = 0.5 + 20 * randomizer.scale
        steps = math.ceil(far / randomizer._step)
        # Every 32nd point stands for its neighbours, among which the law hardly changes.
        seen = (np.arange(-steps, steps + 1) * randomizer._step)[::32, None]
        channel = np.exp(randomizer.log_density(seen, hidden))
        channel /= channel.sum(axis=0)
        return np.concatenate([seen, seen**2, np.abs(seen)], axis=1), channel

    def strata(self) -> list[tuple[NDArray, NDArray]]:
        """Pr(z | group) of any two groups, in everybody and in both labels."""
        tables = [self.joint.sum(axis=2), self.joint[:, :, 0], self.joint[:, :, 1]]
        pairs = []
        for table in tables:
            laws = self.channel @ (table / table.sum(axis=0))
            n = table.shape[1]
            pairs += [(laws[:, a], laws[:, b]) for a in range(n) for b in range(n) if a != b]
        return pairs

    @property
    def groups(self) -> NDArray:
        """Pr(x, group)."""
        return self.joint.sum(axis=2)

    def information(self, given: NDArray) -> float:
        """I(V; Z) in nats for a variable V, from Pr(x, v)."""
        return mutual_information(self.channel @ given)


def mutual_information(joint: NDArray) -> float:
    """Information between the two axes of a table of probabilities, in nats."""
    product = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0, keepdims=True)
    kept = joint > 0
    return float(np.sum(joint[kept] * np.log(joint[kept] / product[kept])))


def optimal_gap(first: NDArray, second: NDArray) -> float:
    """Gap of the predictor that says 1 where the likelihood ratio exceeds one."""
    chosen = first > second
    return float(first[chosen].sum() - second[chosen].sum())


def logistic_gap(features: NDArray, first: NDArray, second: NDArray) -> float:
    """Gap of a logistic regression trained to tell the groups apart."""
    weights = np.concatenate([first, second])
    kept = weights > 1e-12
    labels = np.repeat([1, 0], len(first))
    model = LogisticRegression(C=1e6, max_iter=50, tol=1e-2)
    model.fit(np.tile(features, (2, 1))[kept], labels[kept], weights[kept])
    said = model.predict(features)
    return float(abs(first[said == 1].sum() - second[said == 1].sum()))


@pytest.mark.parametrize(("epsilon", "figure"), [(5.0, 0.9866), (0.5, 0.2449), (0.0, 0.0)])
def test_downstream_bound_has_its_reference_figures(epsilon, figure):
    assert round(downstream_bound(epsilon), 4) == figure
    assert downstream_bound(epsilon / 2, n_releases=2) == pytest.approx(downstream_bound(epsilon))


@pytest.mark.parametrize(
    ("epsilon", "figure"), [(0.5, 0.0303), (1.0, 0.1109), (2.0, 0.3278), (5.0, 0.6530)]
)
def test_group_information_bound_has_its_reference_figures(epsilon, figure):
    assert round(group_information_bound(epsilon), 4) == figure
    bits = group_information_bound(epsilon, units="bits")
    assert bits == pytest.approx(group_information_bound(epsilon) / math.log(2.0))


@pytest.mark.parametrize("epsilon", [1e-12, 1e-3, 0.5, 5.0, 40.0])
def test_one_bit_of_randomised_response_attains_both_group_bounds(epsilon):
    randomizer = ResponseRandomizer(epsilon, 1, 2)
    law = np.exp(randomizer.log_density([[0], [1]], [[0], [1]]))
    assert optimal_gap(law[:, 0], law[:, 1]) == pytest.approx(downstream_bound(epsilon), rel=1e-3)
    if epsilon >= 0.5:
        assert optimal_gap(law[:, 0], law[:, 1]) == pytest.approx(
            downstream_bound(epsilon), rel=1e-12
        )
        balanced = law / 2
        attained = mutual_information(balanced)
        assert attained == pytest.approx(group_information_bound(epsilon), rel=1e-9)
        assert attained <= group_information_bound(epsilon) + 1e-15


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_no_predictor_exceeds_the_downstream_bound_over_200_random_encoders(epsilon):
    bound, largest = downstream_bound(epsilon), 0.0
    for seed in range(50 * EPSILONS.index(epsilon), 50 * (EPSILONS.index(epsilon) + 1)):
        encoded = Encoded(seed, epsilon)
        strata = encoded.strata()
        gaps = [optimal_gap(first, second) for first, second in strata]
        worst = int(np.argmax(gaps))
        trained = logistic_gap(encoded.releases, *strata[worst])
        assert trained <= gaps[worst] + TAIL  # the first is optimal indeed
        assert gaps[worst] <= bound + TAIL
        largest = max(largest, gaps[worst])
    assert largest >= 0.8 * bound  # the adversary is a strong one


@pytest.mark.parametrize("epsilon", [0.3, 1.0])
def test_too_little_noise_would_exceed_the_bounds(epsilon):
    """At noise / 4 the tests above fail, so they are not vacuous."""
    encoded = [Encoded(seed, epsilon, spent=4 * epsilon) for seed in range(50)]
    gaps = [optimal_gap(*pair) for one in encoded for pair in one.strata()]
    assert max(gaps) > 1.5 * downstream_bound(epsilon)
    told = [one.information(np.diag(one.groups.sum(axis=1))) for one in encoded]
    assert max(told) > information_bound(epsilon)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_information_never_exceeds_its_bounds(epsilon):
    for seed in range(50):
        encoded = Encoded(seed, epsilon)
        rows = encoded.information(np.diag(encoded.groups.sum(axis=1)))
        outputs = len(encoded.channel)
        assert rows <= information_bound(epsilon, outputs) + TAIL
        assert rows < epsilon  # Lemma 2 of the paper, and never with equality
        groups = encoded.information(encoded.groups)
        assert groups <= rows + 1e-12
        two = np.stack([encoded.groups[:, 0], encoded.groups[:, 1:].sum(axis=1)], axis=1)
        assert encoded.information(two) <= group_information_bound(epsilon) + TAIL


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_leakage_is_at_most_epsilon_less_what_is_told_about_rows_of_known_group(epsilon):
    for seed in range(50):
        encoded = Encoded(seed, epsilon)
        within = 0.0
        for column in encoded.groups.T:
            share = column.sum()
            within += share * encoded.information(np.diag(column / share))
        leaked = encoded.information(encoded.groups)
        # The chain rule of the proof, and the theorem with the sharper constant.
        rows = encoded.information(np.diag(encoded.groups.sum(axis=1)))
        assert leaked == pytest.approx(rows - within, abs=1e-9)
        assert leaked <= leakage_bound(epsilon, within) + TAIL
        assert leakage_bound(epsilon, within) <= epsilon - within


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_bounds_hold_for_the_extreme_channels_of_their_epsilon(epsilon):
    """Channels whose columns take only the values c and c e^epsilon, 2 to 5 rows."""
    rng = np.random.default_rng(0)
    for _ in range(100):
        n_rows = int(rng.integers(2, 6))
        patterns = rng.integers(2, size=(8, n_rows))
        # Each pattern with all its rotations: every row then has the same total.
        staircase = np.concatenate([np.roll(patterns, turn, axis=1) for turn in range(n_rows)])
        channel = np.exp(epsilon * staircase)
        channel /= channel.sum(axis=0)
        law = rng.dirichlet(np.ones(n_rows))
        told = mutual_information(channel * law)
        assert told <= information_bound(epsilon, len(channel)) + 1e-12
        if n_rows == 2:
            assert told <= group_information_bound(epsilon) + 1e-12


def test_equality_of_information_and_epsilon_is_out_of_reach():
    """Corollary 1.2 supposes I(X; Z) = epsilon: then epsilon is 0."""
    for epsilon in np.geomspace(1e-6, 30.0, 60):
        assert information_bound(epsilon) < epsilon
    assert information_bound(0.0) == 0.0 == group_information_bound(0.0) == downstream_bound(0.0)
    assert leakage_bound(0.0, 0.0) == 0.0  # Corollary 1.1


def test_bounds_at_the_ends():
    assert downstream_bound(math.inf) == 1.0
    assert information_bound(math.inf) == math.inf
    assert information_bound(math.inf, 8, units="bits") == pytest.approx(3.0)
    assert information_bound(2.0, 1) == 0.0
    assert group_information_bound(math.inf) == pytest.approx(math.log(2.0))
    assert group_information_bound(1e-9) == pytest.approx(1e-18 / 8, rel=1e-6)


@pytest.mark.parametrize("epsilon", [-1.0, math.nan, "1"])
def test_senseless_arguments_are_refused(epsilon):
    for bound in (downstream_bound, information_bound, group_information_bound):
        with pytest.raises(ValueError, match="epsilon="):
            bound(epsilon)
    with pytest.raises(ValueError, match="n_releases="):
        downstream_bound(1.0, 0)
    with pytest.raises(ValueError, match="n_outputs="):
        information_bound(1.0, 0)
    with pytest.raises(ValueError, match="units='hartley'"):
        group_information_bound(1.0, units="hartley")
    with pytest.raises(ValueError, match=r"conditional_information=0\.9 is more"):
        leakage_bound(1.0, 0.9)
    with pytest.raises(ValueError, match="conditional_information=-0.1"):
        leakage_bound(1.0, -0.1)


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 5.0])
def test_information_bound_is_the_largest_divergence_of_two_rows(epsilon):
    # I(X;Z) is a mean of divergences from the mixture of rows, so none above the largest of two
    # rows; one randomised bit has that one.
    keep = 1.0 / (1.0 + math.exp(-epsilon))
    divergence = (2.0 * keep - 1.0) * math.log(keep / (1.0 - keep))
    assert information_bound(epsilon) == pytest.approx(divergence, rel=1e-9)
    assert information_bound(epsilon) >= divergence * (1.0 - 1e-12)
