"""Noisy answers: their law, their order, and what is counted as spent."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom, norm

from skfairdp.aggregation import ConfidentGNMax, release_labels
from skfairdp.aggregation.voting_plan import VotingNoise, voting_plan
from skfairdp.exceptions import PlanError
from skfairdp.fairness import ParityGate
from skfairdp.privacy import NoiseSource

# Two-sided failure probability of every frequency below.
FAILURE = 1e-6


def aggregator(
    threshold: float | None = None, threshold_noise: float | None = None, vote_noise: float = 3.0
) -> ConfidentGNMax:
    return ConfidentGNMax(threshold, threshold_noise, vote_noise, NoiseSource(0))


def within(successes: int, trials: int, chance: float) -> bool:
    low, high = binom.interval(1 - FAILURE, trials, chance)
    return low <= successes <= high


def test_answers_follow_the_gaussian_law() -> None:
    votes = np.tile([55, 45], (4000, 1))
    outcomes = release_labels(votes, aggregator(vote_noise=12.0)).outcomes
    # The difference of two noises has sqrt(2) times their standard deviation.
    assert within((outcomes == 0).sum(), 4000, norm.cdf(10 / (12.0 * math.sqrt(2))))


def test_the_test_follows_the_gaussian_law() -> None:
    votes = np.tile([55, 45], (4000, 1))
    passed = release_labels(votes, aggregator(60, 8.0)).n_charged
    assert within(passed, 4000, norm.cdf((55 - 60) / 8.0))


def test_without_a_threshold_every_query_is_answered() -> None:
    transcript = release_labels(np.tile([1, 1, 1], (50, 1)), aggregator())
    assert transcript.n_asked == transcript.n_charged == transcript.answered.sum() == 50
    assert transcript.coverage == 1.0


def test_three_classes_are_told_apart() -> None:
    votes = np.array([[90, 5, 5], [5, 90, 5], [5, 5, 90]])
    assert release_labels(votes, aggregator()).outcomes.tolist() == [0, 1, 2]


def test_noise_of_zero_answers_the_first_of_equal_classes() -> None:
    plain = ConfidentGNMax(3, 0.0, 0.0, NoiseSource())
    assert [plain.answer(np.array(v)) for v in ([3, 3], [2, 4], [2, 2])] == [0, 1, None]


def test_stops_when_the_answers_are_used_up() -> None:
    transcript = release_labels(np.tile([95, 5], (50, 1)), aggregator(), max_answers=7)
    assert transcript.n_asked == transcript.n_charged == 7


def test_queries_that_fail_the_test_use_up_no_answers() -> None:
    votes = np.array([[50, 50], [95, 5]] * 10)
    transcript = release_labels(votes, aggregator(75, 2.0), max_answers=4)
    assert transcript.outcomes.tolist() == [-1, 0] * 4
    assert transcript.coverage == 0.5


def test_a_refused_answer_is_charged_and_counts_towards_the_limit() -> None:
    gate = ParityGate(2, 2, tolerance=0.5, cold_start=2)
    votes = np.array([[95, 5]] * 4 + [[5, 95]] * 20)
    groups = np.array([0, 0, 1, 1] + [0] * 20)
    transcript = release_labels(votes, aggregator(), max_answers=12, gate=gate, groups=groups)
    refused = int((transcript.outcomes == -2).sum())
    assert refused > 0
    assert transcript.n_asked == transcript.n_charged == 12
    assert transcript.answered.sum() == 12 - refused == gate.counts.sum()


def test_a_gate_does_not_change_what_is_spent() -> None:
    votes = np.random.default_rng(0).multinomial(100, [0.5, 0.5], size=300)
    groups = np.arange(300) % 2

    def spent(gate: ParityGate | None) -> tuple[int, int]:
        found = release_labels(votes, aggregator(55, 5.0), max_answers=90, gate=gate, groups=groups)
        return found.n_asked, found.n_charged

    strict = ParityGate(2, 2, tolerance=0.01, cold_start=0, rule="queried_cell")
    assert spent(None) == spent(strict)
    assert strict.counts.sum() < 90


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((None, None, -1.0), "'vote_noise' must be a number >= 0; got -1.0"),
        ((50, None, 1.0), "'threshold_noise' must be"),
        ((50, math.inf, 1.0), "'threshold_noise' must be"),
    ],
)
def test_bad_noise_is_refused(arguments: tuple, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ConfidentGNMax(*arguments, NoiseSource())


def test_tests_and_votes_are_drawn_from_the_plan() -> None:
    plan = voting_plan(3, 2, VotingNoise(threshold=2.0, votes=3.0), delta=1e-6)
    planned = ConfidentGNMax.planned(10.0, plan, NoiseSource(0))
    assert (planned.threshold_noise, planned.vote_noise) == (2.0, 3.0)
    clear, close = np.array([90, 0]), np.array([-90, -90])
    assert [planned.answer(votes) for votes in (clear, close)] == [0, None]
    assert planned.answer(clear) == 0
    with pytest.raises(PlanError, match="3 releases of 'threshold'"):
        planned.answer(close)
    always = ConfidentGNMax.planned(None, voting_plan(2, 2, VotingNoise(None, 3.0), delta=1e-6),
                                    NoiseSource(0))  # fmt: skip
    assert release_labels(np.tile(clear, (2, 1)), always).n_charged == 2
    with pytest.raises(PlanError, match="2 releases of 'votes'"):
        always.answer(clear)


def test_a_gate_needs_groups() -> None:
    gate = ParityGate(2, 2, tolerance=0.5, cold_start=2)
    for groups in (None, np.zeros(3, dtype=int)):
        with pytest.raises(ValueError, match="group of each of the 4 queries"):
            release_labels(np.ones((4, 2), dtype=int), aggregator(), gate=gate, groups=groups)
