"""A certificate's number counts looks at the rows, not at a name of theirs.

The attack: certify model after model on one hold-out, under a new name or in a new order each
time, and show the smallest bound as the first.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression

from skfairdp import DPSGDClassifier, PrivacyLedger, certify
from skfairdp.datasets import ParquetRows
from skfairdp.privacy.ledger.row_digests import row_set_digest

RNG = np.random.default_rng(0)
X = RNG.integers(-3, 4, size=(300, 3)).astype(float)
GROUPS = RNG.integers(0, 2, 300)
Y = (X[:, 0] > 0).astype(int)
MODEL = LogisticRegression().fit(X[:100], Y[:100])
HELD, OF = X[100:], GROUPS[100:]


@pytest.fixture
def ledger(tmp_path) -> PrivacyLedger:
    return PrivacyLedger(tmp_path / "spent.db", "loans")


def number(ledger, rows=HELD, of=OF, **more) -> int:
    asked = {"sensitive_features": of, "ledger": ledger, "holdout": "public", **more}
    claim = certify(MODEL, rows, **asked).fairness[0]
    (text,) = (t for t in claim.assumptions if t.startswith("This is certificate number"))
    return int(text.split()[4])


def test_the_same_rows_count_on_under_another_name_and_in_another_order(ledger):
    order = np.random.default_rng(1).permutation(len(HELD))
    assert number(ledger) == 1
    assert number(ledger.on("another name")) == 2
    assert number(ledger, HELD[order], OF[order]) == 3
    assert number(ledger, np.asfortranarray(HELD, dtype=np.float32)) == 4
    # Another group of the same people, or their labels, is one more look at them.
    assert number(ledger, HELD, HELD[:, 1] > 0) == 5
    assert number(ledger, HELD, y=Y[100:], notion="equalized_odds") == 6


def test_other_rows_start_anew_and_sets_that_share_some_are_counted_apart(ledger):
    assert number(ledger) == 1
    assert number(ledger, X[:100], GROUPS[:100]) == 1
    assert number(ledger, HELD[1:], OF[1:]) == 1
    assert number(ledger, np.repeat(HELD, 2, axis=0), np.repeat(OF, 2)) == 1
    assert number(ledger) == 2
    claim = certify(MODEL, HELD, sensitive_features=OF, ledger=ledger, holdout="public").fairness[0]
    assert any("others that share some of them are counted apart" in t for t in claim.assumptions)


def test_nothing_of_protected_rows_is_kept_for_the_count(ledger):
    private = {"count_epsilon": 1.0, "groups": [0, 1]}
    claims = [
        certify(MODEL, rows, sensitive_features=of, ledger=ledger, **private).fairness[0]
        for rows, of in ((HELD, OF), (X[:100], GROUPS[:100]))
    ]
    assert [entry.rows for entry in ledger.entries()] == [None, None]
    said = "This is certificate number 2 from protected rows under the ledger's name"
    assert any(text.startswith(said) for text in claims[1].assumptions)
    with closing(sqlite3.connect(ledger.path)) as file:
        key = file.execute("SELECT content FROM records").fetchone()[0].split('"random": "')[1][:32]
    with open(ledger.path, "rb") as raw:
        assert row_set_digest(HELD, key.encode()).encode() not in raw.read()
    assert number(ledger) == 1
    with open(ledger.path, "rb") as raw:
        assert row_set_digest(HELD, key.encode()).encode() in raw.read(), "the search would find it"


def test_two_files_say_nothing_of_each_other(ledger, tmp_path):
    other = PrivacyLedger(tmp_path / "other.db", "loans")
    assert (number(ledger), number(other)) == (1, 1)
    (one,), (two,) = ledger.entries(), other.entries()
    assert one.rows != two.rows
    assert one == PrivacyLedger(ledger.path, "loans").entries()[0]


def test_containers_and_kinds_of_numbers_make_no_difference():
    key = b"a key"
    frame = pd.DataFrame(HELD, columns=["a", "b", "c"])
    same = [
        frame,
        frame.astype("int64"),
        frame.astype(object),
        csr_matrix(HELD),
        HELD.tolist(),
        -0.0 * HELD + HELD,
        HELD.reshape(-1, 3, 1),
    ]
    assert {row_set_digest(rows, key) for rows in same} == {row_set_digest(HELD, key)}
    words = pd.DataFrame({"job": ["nurse", "cook", None], "age": [40, 50.5, 60]})
    assert row_set_digest(words, key) == row_set_digest(words.to_numpy()[::-1], key)
    others = [HELD[:, ::-1], HELD[:-1], HELD[:, :2], np.c_[HELD, np.zeros(200)], HELD + 1e-9, words]
    assert len({row_set_digest(rows, key) for rows in (HELD, *others)}) == len(others) + 1
    assert row_set_digest(HELD, b"another key") != row_set_digest(HELD, key)
    assert row_set_digest(["a text", "another"], key) == row_set_digest(["another", "a text"], key)


@pytest.mark.parametrize(
    "rows",
    [3.0, [], [[1.0, 2.0], [3.0]], [[1 + 2j]], [[10**400]], [[object]], [["1", None]], "words"],
    ids=str,
)
def test_no_rows_are_refused_by_the_count(rows):
    assert len(row_set_digest(rows, b"a key")) == 32


def test_a_count_by_name_would_be_found(ledger, monkeypatch):
    original = PrivacyLedger.reserve

    def by_name(self, guarantee, *, public_rows=None, **more):
        return original(self, guarantee, **more)

    monkeypatch.setattr(PrivacyLedger, "reserve", by_name)
    with pytest.raises(AssertionError):
        test_the_same_rows_count_on_under_another_name_and_in_another_order(ledger)


def test_rows_that_are_read_in_parts_are_known_again(ledger):
    pa = pytest.importorskip("pyarrow", reason="needs pyarrow")
    columns = {f"x{j}": X[:, j].astype(np.float32) for j in range(3)}
    table = pa.table(columns | {"group": GROUPS})
    given = {"features": [*columns], "sensitive": "group"}
    held, others = (ParquetRows(table[part], **given) for part in (slice(100, 300), slice(100)))
    model = DPSGDClassifier(max_epochs=1, delta=1e-3).fit(others[:], Y[:100])

    def count(book, rows):
        claim = certify(model, rows, ledger=book, holdout="public").fairness[0]
        (text,) = (t for t in claim.assumptions if t.startswith("This is certificate number"))
        return int(text.split()[4])

    assert number(ledger) == 1
    assert count(ledger.on("another name"), held) == 2
    assert count(ledger, others) == 1
    assert count(ledger, held) == 3
