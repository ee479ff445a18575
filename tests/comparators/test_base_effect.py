"""Each method lowers what it says it lowers: more weight on fairness, less of the group."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from skfairdp.comparators import (
    CFAIREncoder,
    CFBEncoder,
    FFVAEEncoder,
    LAFTREncoder,
    PPVAEEncoder,
    VFAEEncoder,
)

from .makings import encode, small

pytestmark = pytest.mark.slow


def leaky(n: int = 1500) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of which one column tells the label and three the group, and a skewed label."""
    rng = np.random.default_rng(0)
    s = rng.integers(2, size=n)
    y = np.where(rng.random(n) < 0.8, s, 1 - s)
    columns = [3 * y, 2 * s, 2 * s, 2 * s]
    return np.column_stack([c + rng.normal(size=n) for c in columns]), y, s


def recognised(Z: np.ndarray, codes: np.ndarray) -> float:
    """Share of rows whose code a quadratic attacker finds, each code counting alike."""
    half = np.arange(len(Z)) % 2 == 0
    attacker = make_pipeline(
        StandardScaler(), PolynomialFeatures(2), LogisticRegression(class_weight="balanced")
    )
    hit = attacker.fit(Z[half], codes[half]).predict(Z[~half]) == codes[~half]
    return float(np.mean([hit[codes[~half] == code].mean() for code in np.unique(codes)]))


def attacked(kind: type, **settings: Any) -> tuple[float, float]:
    """How well group and label are recognised in a representation."""
    X, y, s = leaky()
    encoder = small(kind, max_epochs=25, batch_size=100, hidden_sizes=(30,), **settings)
    Z = encode(encoder.fit(X, y, sensitive_features=s), X, s)
    return recognised(Z, s), recognised(Z, y)


@pytest.mark.parametrize(
    ("kind", "careless", "careful"),
    [
        (LAFTREncoder, {"gamma": 0.0}, {"gamma": 1.0}),
        (CFBEncoder, {"beta": 100.0}, {"beta": 2.0}),
        (VFAEEncoder, {"alpha": 30.0, "beta": 0.0}, {"alpha": 30.0, "beta": 1000.0}),
        (PPVAEEncoder, {"beta": 30.0, "n_components": 4}, {"beta": 0.2, "n_components": 4}),
        (
            FFVAEEncoder,
            {"alpha": 0.0, "gamma": 0.0, "n_components": 3},
            {"alpha": 30.0, "gamma": 5.0, "n_components": 3},
        ),
    ],
)
def test_more_weight_on_fairness_leaves_an_attacker_less(kind, careless, careful):
    before, _ = attacked(kind, **careless)
    after, _ = attacked(kind, **careful)
    assert after < before - 0.05


def test_cfair_hides_the_group_among_rows_of_one_class():
    """What it aligns is z given y: a group that the label gives away is not hidden."""
    found = []
    for mu in (0.0, 3.0):
        X, y, s = leaky()
        encoder = small(CFAIREncoder, max_epochs=25, batch_size=100, hidden_sizes=(30,), mu=mu)
        Z = encode(encoder.fit(X, y, sensitive_features=s), X, s)
        found.append(np.mean([recognised(Z[y == c], s[y == c]) for c in (0, 1)]))
    assert found[1] < found[0] - 0.05
