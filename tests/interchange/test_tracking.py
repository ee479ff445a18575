"""A certificate logged to MLflow is there, whole."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from skfairdp import Certificate, certify
from skfairdp.interchange import log_certificate
from tests.common.roster import once, people


@pytest.mark.slow  # MLflow makes a database
@pytest.mark.filterwarnings("ignore")  # of its own parts
def test_a_run_holds_the_certificate_and_its_figures(tmp_path: Path) -> None:
    mlflow = pytest.importorskip("mlflow", reason="MLflow is not installed")
    X, y, groups = people()
    certificate = certify(once("DP-SGD"), X, y, sensitive_features=groups, holdout="public")
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path / 'runs.db'}")
    mlflow.create_experiment("here", artifact_location=(tmp_path / "files").as_uri())
    mlflow.set_experiment("here")
    with mlflow.start_run() as run:
        log_certificate(certificate)
    kept = mlflow.get_run(run.info.run_id).data
    (claim,) = certificate.fairness
    assert kept.metrics["gap_bound_demographic_parity"] == claim.bound
    assert ("epsilon" in kept.metrics) is not certificate.privacy.is_void
    assert kept.metrics.get("epsilon", math.inf) == certificate.privacy.epsilon
    assert kept.tags["skfairdp.model_digest"] == certificate.model_digest
    (stored,) = (tmp_path / "files").rglob("certificate.json")
    assert Certificate.from_json(stored.read_text()).to_json() == certificate.to_json()


def test_bounds_of_other_scopes_do_not_stand_for_the_deployed_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    logged: dict[str, float] = {}
    others = dict.fromkeys(("set_tags", "log_text"), lambda *given: None)
    monkeypatch.setitem(sys.modules, "mlflow", SimpleNamespace(log_metrics=logged.update, **others))
    X, y, groups = people()
    certificate = certify(once("FM-Smooth"), X, y, sensitive_features=groups, holdout="public")
    log_certificate(certificate)
    assert logged["epsilon"] == certificate.privacy.epsilon
    deployed, averaged, any_ = certificate.fairness
    assert len({deployed.bound, averaged.bound, any_.bound}) == 3
    name = "gap_bound_demographic_parity"
    assert logged[name] == deployed.bound
    assert logged[f"{name}_averaged_over_its_draws"] == averaged.bound
    assert logged[f"{name}_any_population"] == any_.bound


def test_a_void_promise_is_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    logged: dict[str, float] = {}
    others = dict.fromkeys(("set_tags", "log_text"), lambda *given: None)
    monkeypatch.setitem(sys.modules, "mlflow", SimpleNamespace(log_metrics=logged.update, **others))
    X, y, groups = people()
    log_certificate(
        certify(once("covariance, not private"), X, y, sensitive_features=groups, holdout="public")
    )
    assert list(logged) == ["gap_bound_demographic_parity"]
