"""Certificates from held-out rows are counted, and private counts are charged."""

from __future__ import annotations

import math

import numpy as np
import pytest

from skfairdp import DPSGDClassifier, certify
from skfairdp.exceptions import BudgetExceededError
from skfairdp.privacy.noise import NoiseSource
from tests.common.roster import people
from tests.privacy.ledger.statements import ledger_in


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
