"""Every fit is charged before it uses rows, however it ends; certificates are counted."""

from __future__ import annotations

import copy
import dataclasses
import math
import pickle
from typing import Any

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline

from skfairdp import (
    AbstainingClassifier,
    DPSGDClassifier,
    FairDPClassifier,
    PrivacyLedger,
    PrivateThinningClassifier,
    certify,
)
from skfairdp.base import PrivateClassifier
from skfairdp.exceptions import BudgetExceededError, LedgerError, PrivacyWarning
from skfairdp.preprocessing import PublicScaler
from skfairdp.privacy.noise import NoiseSource
from skfairdp.receipts import Receipt
from tests.common.ledgers import fitted, forbid_rows
from tests.common.roster import build, people
from tests.privacy.ledger.statements import ledger_in
from tests.privacy.oracle import oracle_epsilon
from tests.processes import in_one_worker

HANDLE = {"path", "data_set", "_budget"}


@pytest.mark.parametrize("name", ["DP-SGD", "FairDP", "thinning before FairDP", "PATE"])
def test_fits_without_noise_make_the_total_infinite(name, tmp_path) -> None:
    ledger = ledger_in(tmp_path)
    with pytest.warns(PrivacyWarning):
        fitted(name, ledger=ledger, **_free(name))
    fitted(name, ledger=ledger)
    assert [total.epsilon for total in ledger.totals()] == [math.inf]


def _free(name: str) -> dict[str, Any]:
    if "thinning" in name:
        return {"estimator__epsilon": math.inf}
    return {"epsilon": math.inf, **({"n_answers": None} if name == "PATE" else {})}


def test_totals_of_real_plans_agree_with_the_oracle(tmp_path) -> None:
    ledger = ledger_in(tmp_path)
    settings = {"delta": 1e-5, "ledger": ledger, "max_epochs": 2, "progress": False}
    X, y, _ = people(2000)
    models = [DPSGDClassifier(epsilon=e, **settings).fit(X, y) for e in (1.0, 0.5, 1.0)]
    plans = [model.plan_ for model in models]
    whole = dataclasses.replace(plans[0], segments=sum((p.segments for p in plans), ()))
    assert ledger.totals()[0].epsilon == pytest.approx(oracle_epsilon(whole, 1e-5), rel=0.01)


@in_one_worker
@pytest.mark.slow
def test_every_fit_of_a_search_with_workers_is_charged(tmp_path) -> None:
    X, y, _ = people()
    ledger = ledger_in(tmp_path)
    model = make_pipeline(
        PublicScaler((-5.0, 5.0)), DPSGDClassifier(max_epochs=1, progress=False, ledger=ledger)
    )
    grid = {"dpsgdclassifier__epsilon": [0.5, 1.0]}
    search = GridSearchCV(model, grid, cv=3, n_jobs=2).fit(X, y)
    assert len(ledger) == 2 * 3 + 1
    dearest = max(entry.guarantee.epsilon for entry in ledger.entries())
    assert 1.5 * dearest < ledger.totals()[0].epsilon < 5.5
    assert certify(search, X, sensitive_features=people()[2], holdout="public").fairness
    assert [entry.activity for entry in ledger.entries()][-1] == "certify"


@in_one_worker
@pytest.mark.parametrize("backend", ["loky", "threading"])
def test_folds_in_workers_charge_a_ledger_named_by_its_path(tmp_path, monkeypatch, backend) -> None:
    X, y, _ = people()
    monkeypatch.chdir(tmp_path)
    model = DPSGDClassifier(max_epochs=1, progress=False, ledger=str(tmp_path / "spent.db"))
    with joblib.parallel_config(backend):
        cross_val_score(model, X, y, cv=3, n_jobs=2)
    assert len(PrivacyLedger("spent.db")) == 3


def test_clones_copies_and_pickles_charge_the_same_ledger(tmp_path) -> None:
    X, y, _ = people()
    ledger = ledger_in(tmp_path)
    model = DPSGDClassifier(max_epochs=1, progress=False, ledger=ledger).fit(X, y)
    for other in (clone(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert other.ledger == ledger
        other.fit(X, y)
    assert len(ledger) == 4
    assert set(vars(pickle.loads(pickle.dumps(model.ledger)))) == HANDLE


def test_the_digest_does_not_know_the_ledger(tmp_path) -> None:
    model = fitted("DP-SGD", ledger=ledger_in(tmp_path))
    digest = model.certify().model_digest
    model.set_params(ledger=None)
    assert model.certify().model_digest == digest


def test_a_mechanism_that_forgets_to_charge_is_found(tmp_path) -> None:
    class Forgetful(PrivateClassifier):
        def __init__(self, ledger=None):
            self.ledger = ledger

        def _fit(self, given, charge):
            self.classes_ = np.unique(given.y)
            return Receipt()

    X, y, _ = people()
    Forgetful().fit(X, y)
    with pytest.raises(RuntimeError, match="charged nothing"):
        Forgetful(tmp_path / "ledger.db").fit(X, y)


def test_bought_sizes_are_charged_before_they_are_bought(tmp_path, monkeypatch) -> None:
    X, y, groups = people(2000)
    settings = {"group_sizes_epsilon": 0.1, "max_epochs": 1, "progress": False}
    ledger = ledger_in(tmp_path)
    model = FairDPClassifier(ledger=ledger, **settings).fit(X, y, sensitive_features=groups)
    (entry,) = ledger.entries()
    assert (entry.guarantee.epsilon, entry.guarantee.adjacency) == (1.0, "add-remove")
    assert (model.privacy_.epsilon, model.privacy_.adjacency) == (1.0, "add-remove")
    full = ledger_in(tmp_path, "full", budget=(0.5, 1e-5))
    forbid_rows(monkeypatch)
    with pytest.raises(BudgetExceededError):
        FairDPClassifier(ledger=full, **settings).fit(X, y, sensitive_features=groups)


def test_bought_sizes_with_fixed_noise_have_no_bound(tmp_path) -> None:
    X, y, groups = people(2000)
    ledger = ledger_in(tmp_path)
    model = FairDPClassifier(
        epsilon=None, noise_multiplier=2.0, group_sizes_epsilon=0.1, max_epochs=1, ledger=ledger
    )
    assert model.fit(X, y, sensitive_features=groups).privacy_.is_void
    assert ledger.totals()[0].is_void


def test_thinning_charges_table_and_training_once(tmp_path) -> None:
    ledger = ledger_in(tmp_path)
    model = fitted("thinning before DP-SGD", ledger=ledger)
    assert model.privacy_.epsilon == pytest.approx(1.0)
    assert [entry.guarantee.epsilon for entry in ledger.entries()] == [pytest.approx(1.0)]
    assert model.estimator_.ledger is None
    inner = PrivateThinningClassifier(DPSGDClassifier(ledger=ledger))
    X, y, groups = people()
    with pytest.raises(ValueError, match="set 'ledger' on PrivateThinningClassifier"):
        inner.fit(X, y, sensitive_features=groups)
    assert len(ledger) == 1


def test_abstaining_leaves_the_charge_to_the_estimator_inside(tmp_path) -> None:
    X, y, groups = people()
    ledger = ledger_in(tmp_path)
    inner = DPSGDClassifier(max_epochs=1, progress=False, ledger=ledger)
    model = AbstainingClassifier(inner).fit(X, y, sensitive_features=groups)
    assert len(ledger) == 1
    AbstainingClassifier(FrozenEstimator(model.estimator_)).fit(X, y, sensitive_features=groups)
    assert len(ledger) == 1
    model.certify(
        X, y, sensitive_features=groups, holdout="public"
    )  # about answers given: no row is looked at
    assert len(ledger) == 1


def test_wrong_settings_are_found_before_anything_is_charged(tmp_path) -> None:
    X, y, groups = people()
    ledger = ledger_in(tmp_path)
    for model in (
        DPSGDClassifier(epsilon=-1.0, ledger=ledger),
        DPSGDClassifier(ledger=ledger).set_params(net__module__no_such_thing=1),
        DPSGDClassifier(delta=0.1, ledger=ledger),
        build("FairPATE", cold_start=1, tolerance=0.05, ledger=ledger),
    ):
        with pytest.raises((ValueError, TypeError)):
            model.fit(X, y, sensitive_features=groups)
    assert ledger.entries() == ()


def test_a_wrong_ledger_is_an_error_of_the_fit(tmp_path) -> None:
    X, y, _ = people()
    with pytest.raises(ValueError, match="'ledger' parameter of DPSGDClassifier must be"):
        DPSGDClassifier(ledger=3).fit(X, y)
    model = DPSGDClassifier(ledger=tmp_path / "no" / "ledger.db", progress=False)
    with pytest.raises(LedgerError, match="Cannot write"):
        model.fit(X, y)
    with pytest.raises(NotFittedError):
        model.predict(X)


def test_a_fit_whose_commit_fails_is_no_fit(tmp_path, monkeypatch) -> None:
    X, y, _ = people()
    ledger = ledger_in(tmp_path)

    def full(self: Any, entry: Any) -> None:
        raise LedgerError("disk is full")

    monkeypatch.setattr(PrivacyLedger, "commit", full)
    model = DPSGDClassifier(max_epochs=1, progress=False, ledger=ledger)
    with pytest.raises(LedgerError, match="full"):
        model.fit(X, y)
    with pytest.raises(NotFittedError):
        model.predict(X)
    assert [entry.state for entry in ledger.entries()] == ["reserved"]


@pytest.fixture(scope="module")
def model():
    X, y, groups = people()
    return DPSGDClassifier(max_epochs=1, progress=False).fit(X, y, sensitive_features=groups)


def numbers(certificate) -> list[str]:
    texts = certificate.fairness[0].assumptions
    return [text for text in texts if text.startswith("This is certificate number")]


def test_each_certificate_says_which_one_it_is(model, tmp_path) -> None:
    X, y, groups = people(seed=1)
    ledger = ledger_in(tmp_path, "held out")
    for j in (1, 2, 3):
        (text,) = numbers(
            certify(model, X, y, sensitive_features=groups, ledger=ledger, holdout="public")
        )
        assert text.startswith(f"This is certificate number {j} on these held-out rows")
        assert "not for the best of several" in text
    assert numbers(certify(model, X, y, sensitive_features=groups, holdout="public")) == []
    assert len(ledger) == 3
    assert ledger.totals() == ()  # rows that were declared public


def test_planned_certificates_end(model, tmp_path) -> None:
    X, _, groups = people(seed=1)
    ledger = ledger_in(tmp_path)
    for _ in range(2):
        certify(
            model, X, sensitive_features=groups, n_certificates=2, ledger=ledger, holdout="public"
        )
    with pytest.raises(ValueError, match="a ledger counts the certificates"):
        certify(
            model, X, sensitive_features=groups, n_certificates=2, ledger=ledger, holdout="public"
        )


@pytest.mark.parametrize("form", [np.ravel, lambda X: X[:, :2], lambda X: X[0, 0]])
def test_rows_of_another_form_are_refused_before_the_charge(model, tmp_path, form) -> None:
    X, y, groups = people(seed=1)
    X = form(X)
    n = np.shape(X)[0] if np.shape(X) else 1
    y, groups = np.resize(y, n), np.resize(groups, n)
    ledger = ledger_in(tmp_path)
    with pytest.raises((ValueError, TypeError)):
        certify(model, X, y, sensitive_features=groups, count_epsilon=0.5, ledger=ledger)
    assert ledger.entries() == ()


def test_private_counts_are_charged(model, tmp_path) -> None:
    X, y, groups = people(seed=1)
    ledger = ledger_in(tmp_path)
    settings = {"sensitive_features": groups, "ledger": ledger}
    for _ in range(12):
        certify(model, X, y, count_epsilon=0.5, **settings)
    (total,) = ledger.totals()
    assert (total.adjacency, total.delta) == ("add-remove", 0.0)
    assert total.epsilon == pytest.approx(6.0)
    assert ledger.totals(delta=1e-6)[0].epsilon < 6.0
    certify(model, X, y, count_epsilon=0.5, cell_sizes="public", **settings)
    (total,) = ledger.totals()
    assert (total.adjacency, total.epsilon) == ("zero-out", pytest.approx(6.5))


def test_repeatable_counts_void_the_total(model, tmp_path) -> None:
    X, _, groups = people(seed=1)
    ledger = ledger_in(tmp_path)
    certify(
        model,
        X,
        sensitive_features=groups,
        count_epsilon=0.1,
        count_noise=NoiseSource(3),
        ledger=ledger,
    )
    assert ledger.totals()[0].epsilon == math.inf


def test_a_budget_refuses_counts_before_rows_are_looked_at(model, tmp_path, monkeypatch) -> None:
    X, _, groups = people(seed=1)
    ledger = ledger_in(tmp_path, budget=(0.15, 0.0))

    def touched(*args, **kwargs):
        raise AssertionError("rows were used")

    settings = {"sensitive_features": groups, "count_epsilon": 0.1, "ledger": ledger}
    certify(model, X, **settings)
    monkeypatch.setattr("skfairdp.certificate.certifying.evaluate", touched)
    with pytest.raises(BudgetExceededError):
        certify(model, X, **settings)
    assert len(ledger.entries()) == 1


def test_the_models_own_ledger_is_used_where_no_other_is_given(tmp_path) -> None:
    X, y, groups = people()
    own, other = ledger_in(tmp_path, "own"), ledger_in(tmp_path, "other")
    model = DPSGDClassifier(max_epochs=1, progress=False, ledger=own)
    model.fit(X, y, sensitive_features=groups)
    model.certify(X, y, sensitive_features=groups, holdout="public")
    assert [entry.activity for entry in own.entries()] == ["fit", "certify"]
    certify(model, X, y, sensitive_features=groups, ledger=other, holdout="public")
    assert (len(own), len(other)) == (2, 1)


def test_certificates_that_look_at_no_row_are_not_counted(tmp_path) -> None:
    X, y, groups = people()
    ledger = ledger_in(tmp_path)
    model = DPSGDClassifier(max_epochs=1, progress=False, ledger=ledger)
    model.fit(X, y, sensitive_features=groups)
    model.certify()
    model.certify(X, y, holdout="public")
    assert len(ledger) == 1
