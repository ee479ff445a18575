"""The auditor of jax-privacy on models trained here: its lower limit of epsilon against the claim.

Its module of audits needs numpy, scipy and dp_accounting alone. It is read from its file, so that
jax need not be installed: ``pip install --no-deps jax-privacy``.
"""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from skfairdp.audit import orthogonal_canaries
from skfairdp.privacy.noise import NoiseSource
from tests.slow.test_audit_claims import N_CANARIES, N_ROWS, estimator, own_weight

pytestmark = pytest.mark.campaign

# A right claim is refuted with chance at most 1e-6 a test, whatever the model does.
SIGNIFICANCE = 1e-6


@pytest.fixture
def auditing(monkeypatch) -> ModuleType:
    package = find_spec("jax_privacy")
    if package is None or package.origin is None:
        pytest.skip("jax-privacy is not installed: pip install --no-deps jax-privacy")
    spec = spec_from_file_location("auditing_of_jax", Path(package.origin).with_name("auditing.py"))
    assert isinstance(spec, ModuleSpec)
    assert spec.loader is not None
    module = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)  # its dataclasses look themselves up there
    spec.loader.exec_module(module)
    return module


def limits(auditing: ModuleType, kind: str, rate: float, steps: int) -> tuple[float, float, float]:
    """The claimed epsilon, and its lower limits by both one-run audits of the other package."""
    X, canaries = orthogonal_canaries(np.zeros((N_ROWS, 1), dtype=np.float32), N_CANARIES)
    included = np.random.default_rng().random(N_CANARIES) < 0.5
    trained = canaries.take(included)
    model = estimator(kind, rate, steps).set_params(dataset_size=N_ROWS + N_CANARIES)
    model.fit(np.vstack([X, trained.X]), np.concatenate([np.arange(N_ROWS) % 2, trained.y]))
    scores = np.asarray(own_weight(model, canaries.X, canaries.y))
    auditor = auditing.CanaryScoreAuditor(scores[included], scores[~included])
    delta = model.privacy_.delta
    return (
        model.privacy_.epsilon,
        auditor.epsilon_one_run(SIGNIFICANCE, delta),
        auditor.epsilon_one_run_fdp(SIGNIFICANCE, delta),
    )


@pytest.mark.parametrize("kind", ["dpsgd", "exact"])
@pytest.mark.parametrize(("rate", "steps"), [(1.0, 4), (0.5, 20)])
def test_no_audit_of_another_package_refutes_a_claim(auditing, kind, rate, steps):
    claimed, by_counts, by_trade_off = limits(auditing, kind, rate, steps)
    assert 1.9 < claimed <= 2.0
    assert max(by_counts, by_trade_off) > 0.0, "the audit sees nothing"
    assert max(by_counts, by_trade_off) <= claimed


@pytest.mark.parametrize(("rate", "steps"), [(1.0, 4), (0.5, 20)])
def test_a_quarter_of_the_noise_is_caught_by_another_package(auditing, monkeypatch, rate, steps):
    honest = NoiseSource.gaussian
    monkeypatch.setattr(
        NoiseSource,
        "gaussian",
        lambda self, size, std, out=None: honest(self, size, std / 4.0, out),
    )
    claimed, by_counts, by_trade_off = limits(auditing, "dpsgd", rate, steps)
    assert 1.9 < claimed <= 2.0
    assert max(by_counts, by_trade_off) > claimed
