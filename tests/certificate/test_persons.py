"""Certificates from held-out rows of which a person has several."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

from skfairdp import DPSGDClassifier, PrivacyLedger, certify
from skfairdp.certificate.holdout import one_row_each
from skfairdp.exceptions import PrivacyWarning
from skfairdp.records.persons import warn_of_ids

PEOPLE = 400


@pytest.fixture(scope="module")
def rows():
    """Group "b" is always selected, in group "a" all rows but those of one person with many."""
    rng = np.random.default_rng(0)
    ids = np.repeat(np.arange(PEOPLE), np.where(np.arange(PEOPLE) == 0, 1000, 2))
    groups = np.where(ids % 2, "b", "a")
    X = rng.normal(size=(len(ids), 3))
    return X, (X[:, 0] > 0).astype(int), groups, ids


@pytest.fixture(scope="module")
def model(rows):
    X, y, groups, ids = rows
    fitted = DPSGDClassifier(max_epochs=2, progress=False, delta=1e-5)
    return fitted.fit(X, y, sensitive_features=groups, person_ids=ids)


def test_one_row_of_each_person_is_counted(model, rows):
    X, _, groups, ids = rows
    certificate = model.certify(X, sensitive_features=groups, person_ids=ids, holdout="public")
    (claim,) = certificate.fairness
    assert sorted(count.trials for count in claim.counts) == [PEOPLE // 2] * 2
    assert certificate.n_rows == PEOPLE
    assert any("weighted by person" in text for text in claim.assumptions)
    assert not any("one row a person" in text for text in claim.assumptions)
    by_row = model.certify(X, sensitive_features=groups, holdout="public")
    assert max(count.trials for count in by_row.fairness[0].counts) > PEOPLE
    assert "the people behind the training records, with all their rows" in str(certificate)


def drawn(ids) -> np.ndarray:
    """The row that counts of each person: its number."""
    (numbers, *_) = one_row_each(np.arange(len(ids)), None, None, ids)
    return numbers


@pytest.mark.parametrize("held", [2, 5])
def test_rows_of_a_person_are_drawn_alike(held):
    places = drawn(np.repeat([f"person {i}" for i in range(2000)], held)) % held
    counts = np.bincount(places, minlength=held)
    # Five standard errors of fair dice.
    assert np.abs(counts - 2000 / held).max() < 5 * np.sqrt(2000 / held * (1 - 1 / held))


def test_the_row_of_a_person_depends_on_nobody_else(rows):
    ids = rows[3]
    own = {whose: np.flatnonzero(ids == whose).tolist() for whose in range(PEOPLE)}
    places = {ids[row]: own[ids[row]].index(row) for row in drawn(ids)}
    assert len(set(list(places.values())[1:])) == 2
    mixed = np.random.default_rng(1).permutation(ids)[:700]
    seen = {whose: np.flatnonzero(mixed == whose).tolist() for whose in set(mixed.tolist())}
    alike = [whose for whose in seen if len(seen[whose]) == len(own[whose])]
    found = {mixed[row]: seen[mixed[row]].index(row) for row in drawn(mixed)}
    assert len(alike) > 20
    assert [found[whose] for whose in alike] == [places[whose] for whose in alike]


@pytest.mark.parametrize(
    "ids", [np.float64, str, object, "category", list], ids=["float", "str", "object", "cat", "ls"]
)
def test_the_same_ids_of_another_type_draw_the_same_rows(rows, ids):
    plain = rows[3][990:1100]
    given = plain.tolist() if ids is list else pd.Series(plain).astype(ids)
    assert drawn(given).tolist() == drawn(plain).tolist()


def test_the_same_rows_have_the_same_certificate_and_its_words_say_so(model, rows):
    X, _, groups, ids = rows
    given = {"sensitive_features": groups, "person_ids": ids, "holdout": "public"}
    claims = [model.certify(X, **given).fairness[0] for _ in range(2)]
    assert claims[0].counts == claims[1].counts
    assert claims[0].bound == claims[1].bound
    assert any("public hash of the person's id" in text for text in claims[0].assumptions)


def test_noisy_counts_move_by_one_with_a_person(rows):
    ids = rows[3]
    whole = dict(zip(ids[drawn(ids)].tolist(), drawn(ids).tolist(), strict=True))
    for whose in (0, 1, PEOPLE - 1):
        others = np.flatnonzero(ids != whose)
        left = others[drawn(ids[others])]
        assert sorted(left.tolist()) == sorted(row for key, row in whole.items() if key != whose)


def test_noisy_counts_of_persons_and_the_fit_cost_the_larger_of_the_two(model, rows, tmp_path):
    X, _, groups, ids = rows
    ledger = PrivacyLedger(tmp_path / "ledger.db")
    given = {"sensitive_features": groups, "person_ids": ids, "count_epsilon": 0.5}
    by_person = certify(model, X, holdout="by_person", groups=["a", "b"], ledger=ledger, **given)
    assert by_person.privacy.protects == "person"
    assert by_person.privacy.epsilon == model.privacy_.epsilon
    assert [entry.guarantee.protects for entry in ledger.entries()] == ["person"]
    composed = certify(model, X, groups=["a", "b"], **given)
    assert composed.privacy.epsilon > model.privacy_.epsilon


def test_counts_of_rows_and_a_promise_about_persons_have_no_sentence(model, rows, tmp_path):
    X, y, groups, ids = rows
    ledger = PrivacyLedger(tmp_path / "ledger.db")
    given = {"sensitive_features": groups, "count_epsilon": 0.5, "ledger": ledger}
    with pytest.raises(ValueError, match="about persons: give person_ids"):
        certify(model, X, groups=["a", "b"], **given)
    of_rows = DPSGDClassifier(max_epochs=1, progress=False).fit(X, y)
    with pytest.raises(ValueError, match="about rows, and person_ids"):
        certify(of_rows, X, groups=["a", "b"], person_ids=ids, **given)
    assert not ledger.entries()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"holdout": "by_person"}, "give person_ids"),
        ({"holdout": "per_record", "count_epsilon": 1.0, "ids": True}, "by_person"),
        ({"cell_sizes": "public", "count_epsilon": 1.0, "ids": True}, "cell_sizes"),
        ({"ids": "short", "holdout": "public"}, "person_ids"),
        ({"ids": "two groups", "holdout": "public"}, "different groups"),
    ],
)
def test_what_does_not_fit_together_is_refused(model, rows, options, message, tmp_path):
    X, _, groups, ids = rows
    kind = options.pop("ids", None) if (options := dict(options)) else None
    chosen = {None: None, True: ids, "short": ids[1:], "two groups": np.zeros(len(ids), dtype=int)}
    ledger = PrivacyLedger(tmp_path / "ledger.db")
    with pytest.raises(ValueError, match=message):
        certify(
            model, X, sensitive_features=groups, person_ids=chosen[kind], ledger=ledger, **options
        )
    assert not ledger.entries()
    with pytest.raises(ValueError, match="without X"):
        certify(model, person_ids=ids)


def found(X, **options):
    """What is said of the columns of X; empty for nothing."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_of_ids(X, **({"persons_known": False} | options))
    return "".join(str(warning.message) for warning in caught)


def test_columns_that_look_like_identifiers_are_named():
    n = np.arange(100)
    table = pd.DataFrame(
        {
            "patient_nbr": n // 50,  # by its name
            "number": n // 2 + 0.0,  # by its values
            "row": [f"row {i}" for i in n],
            "age": n // 4,
            "income": n + 0.5,
            "as text": [f"{i}.5" for i in n],
            "day": pd.date_range("2020-01-01", periods=100),
            "infinite": np.where(n % 2, np.inf, n // 8),
            "empty": [None] * 100,
            "beyond float64": pd.Series([10**400 + int(i) // 2 for i in n], dtype=object),
        }
    )
    said = found(table)
    assert (
        "with several rows each, as it seems: 'patient_nbr', 'number', 'beyond float64'. " in said
    )
    assert "Another value in every row: 'row'. " in said
    said = found(table, persons_known=True)
    assert "'row'" in said
    assert "'patient_nbr'" not in said
    assert found(table[["age", "income", "as text", "day", "infinite", "empty"]]) == ""
    assert found(table[:19][["row"]]) == ""
    assert "'0'" not in found(np.random.default_rng(0).normal(size=(50, 2)))
    assert ": 1. " in found(np.c_[n % 3, n])


def test_certificates_look_for_identifiers_only_when_told_to(model, rows):
    X, _, groups, ids = rows
    table = np.c_[X[:, :2], np.arange(len(X)) // 2]
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyWarning)
        certify(model, table, sensitive_features=groups, holdout="public")
        certify(
            model,
            table,
            sensitive_features=groups,
            person_ids=ids,
            check_ids=True,
            holdout="public",
        )
    with pytest.warns(PrivacyWarning, match="several rows each, as it seems: 2. Epsilon is about"):
        looked = certify(model, table, sensitive_features=groups, check_ids=True, holdout="public")
    assert "as it seems" not in looked.to_json()
    for other in (csr_array(table), X[:, 0], None):
        with pytest.raises(ValueError, match="columns of a dense table"):
            certify(model, other, check_ids=True, holdout="public")
