"""Rows to certify on."""

from __future__ import annotations

import pytest

from tests.certificate.fakes import Rows, ThresholdClassifier, people


@pytest.fixture(scope="session")
def rows() -> Rows:
    return people()


@pytest.fixture
def model(rows: Rows) -> ThresholdClassifier:
    return ThresholdClassifier().fit(rows.X, rows.y, sensitive_features=rows.groups)
