"""Every estimator charges a ledger once a fit, before it uses rows."""

from __future__ import annotations

import inspect

import pytest
from sklearn.exceptions import NotFittedError

import skfairdp
from skfairdp import certify
from skfairdp.base import PrivateClassifier
from skfairdp.exceptions import BudgetExceededError
from tests.common.ledgers import EVERY, build, fitted, forbid_rows
from tests.common.roster import APART, SMOOTHED, people
from tests.privacy.ledger.statements import ledger_in

every = pytest.mark.parametrize("name", EVERY)


@every
def test_a_fit_is_one_committed_entry_with_its_guarantee(name, tmp_path) -> None:
    ledger = ledger_in(tmp_path)
    model = fitted(name, ledger=ledger)
    (entry,) = ledger.entries()
    assert (entry.activity, entry.state, entry.ordinal) == ("fit", "committed", 1)
    together = name in SMOOTHED and model.training == "together"
    assert entry.estimator == type(model.estimator if together else model).__name__
    privacy = certify(model).privacy
    assert privacy is not None
    for figure in ("epsilon", "delta", "adjacency", "protects", "event"):
        assert getattr(entry.guarantee, figure) == getattr(privacy, figure), figure
    assert "_reservation" not in vars(model)


@every
def test_a_full_budget_refuses_before_rows_are_used(name, tmp_path, monkeypatch) -> None:
    ledger = ledger_in(tmp_path, budget=(0.5, 1e-5))
    forbid_rows(monkeypatch)
    model = build(name, ledger=ledger)
    X, y, groups = people()
    with pytest.raises(BudgetExceededError, match="'people'"):
        model.fit(X, y, sensitive_features=groups)
    assert ledger.entries() == ()
    with pytest.raises(NotFittedError):
        model.predict(X)
    with pytest.raises(AssertionError, match="rows were used"):  # the trap works
        build(name).fit(X, y, sensitive_features=groups)


@every
def test_a_fit_that_breaks_off_stays_charged(name, tmp_path, monkeypatch) -> None:
    ledger = ledger_in(tmp_path)
    X, y, groups = people()
    model = build(name, ledger=ledger)
    with monkeypatch.context() as broken:
        forbid_rows(broken)
        with pytest.raises(AssertionError, match="rows were used"):
            model.fit(X, y, sensitive_features=groups)
    assert len(ledger) == 0
    assert [entry.state for entry in ledger.entries()] == ["reserved"]
    assert "_reservation" not in vars(model)
    model.fit(X, y, sensitive_features=groups)
    assert [entry.state for entry in ledger.entries()] == ["reserved", "committed"]


@pytest.mark.parametrize("name", [name for name in EVERY if name not in APART])
def test_repeatable_noise_is_charged_as_no_guarantee(name, tmp_path) -> None:
    ledger = ledger_in(tmp_path)
    model = fitted(name, ledger=ledger, reproducible_noise=True, random_state=0)
    assert certify(model).privacy.is_void
    assert ledger.totals()[0].is_void


def test_every_public_estimator_takes_a_ledger_itself_or_inside() -> None:
    for name in skfairdp.__all__:
        value = getattr(skfairdp, name)
        if not (isinstance(value, type) and issubclass(value, PrivateClassifier)):
            continue
        takes = "ledger" in value._get_param_names()
        # Post-processing leaves the charge to the estimator inside.
        assert takes != hasattr(value, "_post_processes"), name
        signature = inspect.signature(value)
        assert not takes or signature.parameters["ledger"].default is None
        assert not takes or "ledger : None, path or PrivacyLedger" in (value.__doc__ or ""), name
        assert not takes or "ledger" in value._parameters, name
