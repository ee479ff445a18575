"""Rows to certify on."""

from __future__ import annotations

import numpy as np
import pytest

from tests.certificate.fakes import Rows, ThresholdClassifier


@pytest.fixture(scope="session")
def rows() -> Rows:
    """600 rows of two groups that differ in the first feature."""
    rng = np.random.default_rng(0)
    groups = np.repeat(["a", "b"], 300)
    X = rng.normal(size=(600, 2))
    X[:300, 0] += 0.2
    y = (X[:, 0] + rng.normal(size=600) > 0).astype(int)
    return Rows(X, y, groups)


@pytest.fixture
def model(rows: Rows) -> ThresholdClassifier:
    return ThresholdClassifier().fit(rows.X, rows.y, sensitive_features=rows.groups)
