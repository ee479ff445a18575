"""Held-out rows: the positive label, groups that no certificate holds, rows of one person."""

from __future__ import annotations

import warnings
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.dummy import DummyClassifier

from skfairdp import DPSGDClassifier, FairDPClassifier, PrivacyLedger, certify
from skfairdp.certificate.holdout import GroupedRows, HeldOut, one_row_each
from skfairdp.exceptions import PrivacyWarning
from skfairdp.fairness.guarantee import FairnessGuarantee
from skfairdp.fairness.notions import NOTIONS
from skfairdp.fairness.scopes import TRAINING
from skfairdp.protocol import Certifiable
from skfairdp.records.groups import encode_groups
from skfairdp.records.persons import warn_of_ids

NOTIONS_OF_TWO = ["demographic_parity", "equal_opportunity", "equalized_odds", "accuracy_parity"]
RNG = np.random.default_rng(0)
X = RNG.normal(size=(600, 2))
GROUPS = np.where(RNG.random(600) < 0.4, "a", "b")
TRUTH = X[:, 0] + 0.5 * (GROUPS == "a") + RNG.normal(size=600) > 0.0


class Above(Certifiable, ClassifierMixin, BaseEstimator):
    """Answers by the sign of the first column; promises equal opportunity in training."""

    def __init__(self, names: tuple[str, str] = ("no", "yes")) -> None:
        self.names = names

    def fit(self, X: Any, y: Any = None) -> Above:
        """Fit."""
        self.classes_ = np.unique(self.names)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Predict."""
        return np.where(np.asarray(X)[:, 0] > 0.0, self.names[1], self.names[0])

    def _success_scores(self, X: Any) -> np.ndarray:
        upper = np.where(np.asarray(X)[:, 0] > 0.0, 0.9, 0.2)
        return upper if self.names[1] == self.classes_[1] else 1.0 - upper

    def _mechanism_fairness(self, notion: str) -> list[FairnessGuarantee]:
        return [FairnessGuarantee(notion=notion, bound=0.5, scope=TRAINING, method="said")]


@pytest.mark.parametrize("private", [False, True])
def test_rates_are_those_of_the_positive_class_wherever_it_is_sorted(private: bool) -> None:
    """The same answers under names that sort the other way round."""
    found = []
    for names in (("no", "yes"), ("refused", "approved")):
        bought = {"count_epsilon": 1e3, "groups": ["a", "b"]}
        asked: dict[str, Any] = bought if private else {"holdout": "public"}
        found.append(
            certify(
                Above(names).fit(X),
                X,
                np.where(TRUTH, names[1], names[0]),
                sensitive_features=GROUPS,
                notion=NOTIONS_OF_TWO,
                pos_label=names[1],
                **asked,
            )
        )
    usual, turned = ([c for c in each.fairness if c.scope != TRAINING] for each in found)
    assert len(usual) == len(turned) == (4 if private else 8)
    for one, other in zip(usual, turned, strict=True):
        assert (one.notion, one.scope) == (other.notion, other.scope)
        assert one.bound == pytest.approx(other.bound, abs=2e-3 if private else 1e-12)
        rates = [[c.successes / c.trials for c in claim.counts] for claim in (one, other)]
        if one.notion != "equalized_odds":  # whose two rates come in the other order
            assert rates[0] == pytest.approx(rates[1], abs=1e-2 if private else 1e-12)
        assert any("The positive outcome is 'approved'" in text for text in other.assumptions)
    promised = {c.notion for c in found[1].fairness if c.scope == TRAINING}
    assert promised == {*NOTIONS_OF_TWO} - {"equal_opportunity"}


def test_only_one_of_two_known_classes_can_be_positive() -> None:
    for wrong in ("maybe", 1):
        with pytest.raises(ValueError, match="must be one of two classes"):
            certify(Above().fit(X), pos_label=wrong)
    assert [name for name in NOTIONS if NOTIONS[name].alike_for_both] == [
        "demographic_parity",
        "equalized_odds",
        "accuracy_parity",
    ]


def test_averages_are_turned_with_the_classes() -> None:
    answers, cells = np.array([1, 0]), np.array([0, 1])
    rows = GroupedRows(None, ["b", "a"], None, encode_groups(["a", "a"], n_rows=2))
    held = HeldOut(["b", "a"], answers, cells, (1, 2, 2), "", rows, turned=True)
    assert held.averaged([0.75, 0.75]).tolist() == [[[0.75, 0.25], [0.75, 0.25]]]


def test_held_out_rows_show_nothing_in_their_text() -> None:
    rows = GroupedRows([["secret"]], ["secret"], ["secret"], encode_groups(["secret"], n_rows=1))
    none = np.array([], dtype=np.int64)
    held = HeldOut(["secret"], none, none, (1, 1, 1), "", rows)
    assert "secret" not in repr(rows) + repr(held)


@pytest.mark.parametrize(
    "labels",
    [(date(2026, 1, 1), "2026-01-01"), (b"a", "b'a'"), ("a", "\ud800"), (1.0, float("inf"))],
    ids=ascii,
)
def test_groups_that_a_certificate_cannot_hold_cost_nothing(labels: Any, tmp_path: Path) -> None:
    X, groups = np.zeros((40, 1)), np.empty(40, dtype=object)
    groups[::2], groups[1::2] = labels
    model = DummyClassifier().fit(X, np.tile([0, 1], 20))
    ledger = PrivacyLedger(tmp_path / "spent.db")
    with pytest.raises(ValueError, match=r"cannot be distinguished.*Give each group a text"):
        certify(model, X, sensitive_features=groups, count_epsilon=1.0, groups=labels,
                ledger=ledger)  # fmt: skip
    assert ledger.entries() == ()


def test_a_fit_refuses_a_group_that_no_file_holds(tmp_path: Path) -> None:
    X, groups = np.random.default_rng(0).normal(size=(40, 2)), ["a", "\ud800"] * 20
    ledger = PrivacyLedger(tmp_path / "spent.db")
    model = FairDPClassifier(max_epochs=1, delta=1e-3, progress=False, ledger=ledger)
    with pytest.raises(ValueError, match=r"cannot write the group label '\\ud800'"):
        model.fit(X, X[:, 0] > 0, sensitive_features=groups)
    assert ledger.entries() == ()


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
