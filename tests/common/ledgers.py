"""Fits of the roster that charge a ledger, and a trap on every way to their rows."""

from __future__ import annotations

from typing import Any

import pytest

from skfairdp.engine.moment_sums import MomentSums
from skfairdp.engine.release import NoisyRelease
from skfairdp.engine.table_release import TableRelease
from skfairdp.privacy.mechanisms.randomized_response import RandomizedResponse
from skfairdp.privacy.noise import NoiseSource
from tests.common import roster
from tests.common.roster import SMOOTHED, people

# What releases rows is charged as it releases, and what decides about answers by the estimator
# inside: their own tests see to it.
EVERY = [n for n in roster.EVERY if n not in roster.RELEASING and n not in roster.ANSWERING]


def build(name: str, **parameters: Any) -> Any:
    """Return a fresh estimator of the roster; post-processing charges by the one inside."""
    inside = ("ledger", "reproducible_noise")
    if name in SMOOTHED:
        parameters = {f"estimator__{k}" if k in inside else k: v for k, v in parameters.items()}
    return roster.build(name, **parameters)


def fitted(name: str, **parameters: Any) -> Any:
    """Return an estimator of the roster, fitted."""
    X, y, groups = people()
    return build(name, **parameters).fit(X, y, sensitive_features=groups)


def forbid_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every way from rows to a release fail."""

    def touched(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("rows were used")

    monkeypatch.setattr(NoisyRelease, "__init__", touched)
    monkeypatch.setattr(MomentSums, "__init__", touched)
    monkeypatch.setattr(TableRelease, "__init__", touched)
    monkeypatch.setattr(RandomizedResponse, "report", touched)
    monkeypatch.setattr("skfairdp.aggregation.vote_classifier.assign_shards", touched)
    monkeypatch.setattr("skfairdp.comparators.covariance.fit_constrained", touched)
    monkeypatch.setattr("skfairdp.preprocessing.thinning.release_table", touched)
    monkeypatch.setattr(NoiseSource, "discrete_laplace", touched)
    for drawing in ("gaussian", "on_grid", "laplace_on_grid"):
        monkeypatch.setattr(NoiseSource, drawing, touched)
