"""Persons with several rows: every exported estimator keeps the promise, or refuses the ids."""

from __future__ import annotations

import inspect

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import BaseEstimator
from sklearn.pipeline import make_pipeline

from skfairdp import DPSGDClassifier, PrivacyLedger, PrivateTableEncoder
from skfairdp.exceptions import BudgetExceededError
from tests.common.roster import EVERY, build, exported, people, settings_of

X, Y, GROUPS = people()
# Three rows a person, of one group: groups repeat with period three.
PERSONS = np.arange(100).repeat(3)
OF_PERSONS = GROUPS[np.arange(300) // 3 % 3]
# What has no promise about a person yet, or none at all, and says so.
REFUSING = {
    "PF-LD",
    "PF-LD, dual steps by epochs",
    "SF-PATE, fair student",
    "SF-PATE, fair teachers",
    "randomised attribute",
    "randomised attribute, two steps",
    "covariance, not private",
    "Laplace noise",
    "encoder",
    "abstaining",
    *(name for name, (kind, _) in EVERY.items() if kind == "smoothed"),
}
# One setting of each class.
KEEPING = list(
    {type(EVERY[name][1]): name for name in [*EVERY][::-1] if name not in REFUSING}.values()
)


def fitted(name, person_ids, groups=OF_PERSONS, **parameters):
    return build(name, **parameters).fit(X, Y, sensitive_features=groups, person_ids=person_ids)


def test_every_exported_estimator_takes_person_ids_or_refuses_them():
    settings_of()  # fails where an estimator has no setting
    for name, kind in exported().items():
        if issubclass(kind, BaseEstimator) and hasattr(kind, "fit"):
            assert "person_ids" in inspect.signature(kind.fit).parameters, name


@pytest.mark.parametrize("name", sorted(REFUSING))
def test_what_cannot_keep_the_promise_says_so_before_anything_is_charged(name, tmp_path):
    ledger = PrivacyLedger(tmp_path / "ledger.db")
    known = build(name).get_params(deep=False)
    with pytest.raises(ValueError, match="person_ids"):
        fitted(name, PERSONS, **({"ledger": ledger} if "ledger" in known else {}))
    assert not ledger.entries()


@pytest.mark.parametrize("name", KEEPING)
def test_the_promise_is_about_a_person_and_sizes_count_persons(name, tmp_path):
    ledger = PrivacyLedger(tmp_path / "ledger.db")
    model = fitted(name, PERSONS, ledger=ledger)
    stated = getattr(model, "training_privacy_", None) or model.privacy_
    assert stated.protects == "person"
    assert not any("one row is one person" in text for text in stated.assumptions)
    assert any("person_ids" in text for text in stated.assumptions)
    (entry,) = ledger.entries()
    assert entry.guarantee.protects == "person"
    for segment in model.plan_.segments if stated.adjacency == "zero-out" else ():
        sizes = zip(segment.expected_sizes, segment.rates, strict=True)
        assert sum(size / rate for size, rate in sizes) <= 101.0
    if hasattr(model, "predict"):
        assert model.predict(X[:5]).shape == (5,)


@pytest.mark.parametrize("name", KEEPING)
def test_a_person_in_two_groups_is_refused_before_the_charge(name, tmp_path):
    if name == "table":
        return  # knows no groups
    ledger = PrivacyLedger(tmp_path / "ledger.db")
    with pytest.raises(ValueError, match="different groups") as caught:
        fitted(name, PERSONS, groups=np.where(np.arange(300) == 6, "b", "a"), ledger=ledger)
    assert not any(text in str(caught.value) for text in ("'a'", "'b'", "6"))
    assert not ledger.entries()


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (PERSONS[:-1], "one label for each row"),
        (np.where(PERSONS == 3, np.nan, PERSONS), "missing"),
        ([None, *PERSONS[1:].tolist()], "missing"),
        ([[1], *PERSONS[1:].tolist()], "person_ids"),
        (["secret-42", *PERSONS[1:].tolist()], "mixes kinds"),
        (PERSONS + 0.5, "whole numbers"),
        (PERSONS + 2.0**60, "whole numbers"),
        (np.stack([PERSONS, PERSONS], axis=1), "one dimension"),
    ],
)
def test_ids_that_do_not_tell_persons_apart_are_refused_and_not_quoted(ids, message, tmp_path):
    ledger = PrivacyLedger(tmp_path / "ledger.db")
    with pytest.raises(ValueError, match=message) as caught:
        DPSGDClassifier(max_epochs=1, ledger=ledger).fit(X, Y, person_ids=ids)
    assert "person_ids" in str(caught.value)
    assert "secret" not in str(caught.value)
    assert not ledger.entries()


def test_fits_are_equal_bit_for_bit_where_each_person_has_one_row():
    for name in ("DP-SGD", "FairDP, five heads that vote", "DPSGD-F", "FM", "fair path"):
        settings = {"reproducible_noise": True, "random_state": 0}
        groups = GROUPS
        by_row = build(name, **settings).fit(X, Y, sensitive_features=groups)
        ids = [f"person {i}" for i in range(300)]
        by_person = build(name, **settings).fit(X, Y, sensitive_features=groups, person_ids=ids)
        np.testing.assert_array_equal(by_row.predict_proba(X), by_person.predict_proba(X))


def test_persons_are_routed_and_a_pipeline_promises_by_person():
    with sklearn.config_context(enable_metadata_routing=True):
        model = make_pipeline(
            PrivateTableEncoder(1.0, encoding="onehot"), DPSGDClassifier(max_epochs=1)
        )
        model.fit(X, Y, person_ids=PERSONS, sensitive_features=OF_PERSONS)
    assert [step.privacy_.protects for _, step in model.steps] == ["person", "person"]


def test_a_ledger_adds_persons_to_persons_and_never_rows_to_persons(tmp_path):
    ledger = PrivacyLedger(tmp_path / "ledger.db", budget=(3.0, 1e-5))
    for _ in range(2):
        DPSGDClassifier(max_epochs=1, ledger=ledger).fit(X, Y, person_ids=PERSONS)
    (total,) = ledger.totals()
    assert total.protects == "person"
    assert 1.0 < total.epsilon < 3.0
    with pytest.raises(BudgetExceededError, match="person"):
        DPSGDClassifier(max_epochs=1, ledger=ledger).fit(X, Y)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("fair path", {"protects": "sensitive_features"}),
        ("encoder", {"objective": "fair_codes", "noise": "randomized_response"}),
        ("encoder, trained privately", {"train_privately": False}),
    ],
)
def test_settings_without_such_a_promise_refuse_persons(name, parameters):
    with pytest.raises(ValueError, match="got person_ids"):
        fitted(name, PERSONS, **parameters)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_ids_that_rounding_could_merge_are_refused(dtype):
    ids = PERSONS.astype(dtype)
    categories = [pd.Categorical(ids)] if dtype is np.float32 else []  # others have none
    for given in (ids, list(ids), pd.Series(ids), *categories):
        with pytest.raises(ValueError, match="person_ids"):
            fitted("DP-SGD", given)
