"""Aggregators and students on cached votes: every combination of epsilon, tolerance and answers.

Noise, gate, accounting and student are the package's own, as `FairPATEClassifier` calls
them; only the teachers' votes come from the cache instead of a new fit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from operator import truediv

import numpy as np
from fairpate_votes import SETTINGS, Rows
from sklearn.linear_model import LogisticRegression

from skfairdp.aggregation import (
    ConfidentGNMax,
    VotingNoise,
    release_labels,
    train_student,
    voting_plan,
)
from skfairdp.aggregation.voting_plan import affordable_answers, calibrated_noise
from skfairdp.fairness import ParityGate
from skfairdp.fairness.gate import disparities
from skfairdp.postprocessing import Turnstile
from skfairdp.privacy import NoiseSource, epsilon

DELTA = 1e-6
EPSILONS = (1.0, 2.0, 3.0, 5.0, 10.0)
TOLERANCES = (0.01, 0.02, 0.05, 0.1, 0.2)
ANSWERS = (300, 1000, 3000)
# T, sigma_1 and sigma_2 as published for 250 and for 100 teachers, and the queries put here.
PUBLISHED = {"adult": (300.0, 200.0, 40.0, 1500), "utkface": (50.0, 40.0, 15.0, 500)}
# The first rows of the test part, in random order, query the abstaining classifier.
N_STREAM = 5000


@dataclass(frozen=True)
class Cell:
    """One aggregator with its student.

    Parameters
    ----------
    dataset : str
    seed : int
    epsilon : float
    tolerance : float or None
        None is PATE: no gate.
    n_answers : int or None
        GNMax with noise calibrated to this number of answers. None is Confident-GNMax with the
        published noise, and as many answers as epsilon pays for.
    rule : str
    """

    dataset: str
    seed: int
    epsilon: float
    tolerance: float | None
    n_answers: int | None
    rule: str = "all_cells"


def planned_cells(dataset: str, seed: int) -> Iterator[Cell]:
    """List the cells of one data set and seed."""
    if dataset == "utkface5":
        for tolerance in TOLERANCES:
            for rule in ("all_cells", "queried_cell"):
                yield Cell(dataset, seed, 10.0, tolerance, 3000, rule)
        return
    for budget in EPSILONS:
        for tolerance in (None, *TOLERANCES):
            for n_answers in (*ANSWERS, None):
                yield Cell(dataset, seed, budget, tolerance, n_answers)


def cold_start(tolerance: float) -> int:
    """M, the published 25 or as much as the rule over all cells needs."""
    return max(25, math.ceil(round(1 / tolerance, 9)))


def run_cell(cell: Cell, rows: Rows, votes: np.ndarray) -> dict | None:
    """Ask, train the student, measure.

    Parameters
    ----------
    cell : Cell
    rows : Rows
    votes : ndarray of int64, shape (n_public, n_classes)

    Returns
    -------
    dict or None
        Plain numbers. None where the budget does not pay for one answer.
    """
    X, y, groups = rows.public
    order = np.random.default_rng([cell.seed, 8]).permutation(len(y))
    try:
        threshold, noise, n_queries, n_answers = _noise(cell, len(y))
    except ValueError:
        return None  # the published tests alone cost more than this epsilon
    if n_answers < 1:
        return None
    order = order[:n_queries]
    n_groups, n_classes = len(rows.group_names), votes.shape[1]
    gate = None
    if cell.tolerance is not None:
        gate = _gate(n_groups, n_classes, cell.tolerance, cell.rule)
    aggregator = ConfidentGNMax(threshold, noise.threshold, noise.votes, NoiseSource(None))
    transcript = release_labels(
        votes[order], aggregator, max_answers=n_answers, gate=gate, groups=groups[order]
    )
    asked, answered = order[: transcript.n_asked], transcript.answered
    labels, kept = transcript.outcomes[answered], asked[answered]
    table = _table(groups[kept], labels, n_groups, n_classes)
    row = {
        **asdict(cell),
        "spent": epsilon(voting_plan(n_queries, n_answers, noise, delta=DELTA)),
        "vote_noise": noise.votes,
        "asked": transcript.n_asked,
        "charged": transcript.n_charged,
        "answered": int(answered.sum()),
        "query_coverage": transcript.coverage,
        "query_coverage_by_group": [
            float(answered[groups[asked] == g].mean()) for g in range(n_groups)
        ],
        "worst_cell": _worst(table),
        "gate_opened": None if gate is None else gate.open,
        "gate_stuck": None if gate is None else gate.stuck,
        "label_accuracy": float(np.mean(labels == y[kept])),
    }
    setting = SETTINGS[cell.dataset.rstrip("5")]
    student = train_student(
        LogisticRegression(C=setting.student_c, max_iter=500),
        X[kept], labels, n_classes, seed=cell.seed,
    )  # fmt: skip
    tolerances = TOLERANCES if cell.tolerance is None else (cell.tolerance,)
    return row | measured(student.codes(rows.test[0]), rows, tolerances, cell.seed, cell.rule)


def measured(
    predicted: np.ndarray,
    rows: Rows,
    tolerances: tuple[float, ...],
    seed: int,
    rule: str = "all_cells",
) -> dict:
    """Measure predictions on the test rows, all of them and behind an abstaining gate.

    Parameters
    ----------
    predicted : ndarray of int64, shape (n_test,)
    rows : Rows
    tolerances : tuple of float
        Of the gate at inference.
    seed : int
        Order of the queries.
    rule : str

    Returns
    -------
    dict
    """
    _, y, groups = rows.test
    n_groups, n_classes = len(rows.group_names), 2
    stream = np.random.default_rng([seed, 9]).permutation(len(y))[:N_STREAM]
    right = predicted == y
    abstaining = {}
    for tolerance in tolerances:
        turnstile = Turnstile(_gate(n_groups, n_classes, tolerance, rule))
        passed = turnstile.admit(groups[stream], predicted[stream])
        abstaining[str(tolerance)] = {
            "accuracy": float(right[stream][passed].mean()),
            "coverage": turnstile.coverage,
            "coverage_by_group": turnstile.coverage_by_group.tolist(),
            "gap": turnstile.gate.worst,
            "stuck": turnstile.gate.stuck,
        }
    return {
        "accuracy": float(right.mean()),
        "positive": float(predicted.mean()),
        "gap": _worst(_table(groups, predicted, n_groups, n_classes)),
        "abstaining": abstaining,
    }


def _noise(cell: Cell, n_public: int) -> tuple[float | None, VotingNoise, int, int]:
    """Threshold, noise, queries and answers of a cell: from public numbers alone."""
    if cell.n_answers is not None:
        n = cell.n_answers
        return None, calibrated_noise(cell.epsilon, DELTA, n, n, ratio=None), n, n
    threshold, std, votes, n_queries = PUBLISHED[cell.dataset]
    noise = VotingNoise(std, votes)
    return threshold, noise, n_queries, affordable_answers(cell.epsilon, DELTA, n_queries, noise)


def _gate(n_groups: int, n_classes: int, tolerance: float, rule: str) -> ParityGate:
    return ParityGate(
        n_groups,
        n_classes,
        tolerance=tolerance,
        cold_start=cold_start(tolerance),
        rule=rule,  # type: ignore[arg-type]
    )


def _table(groups: np.ndarray, labels: np.ndarray, n_groups: int, n_classes: int) -> list:
    table = np.zeros((n_groups, n_classes), dtype=np.int64)
    np.add.at(table, (groups, labels), 1)
    return table.tolist()


def _worst(table: list) -> float:
    return float(max(disparities(table, truediv)))
