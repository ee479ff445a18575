"""Ways to lose, hide or waste what a ledger has counted."""

from __future__ import annotations

import os
import pickle
import re
import shutil
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from skfairdp import (
    DPSGDClassifier,
    LagrangianDualClassifier,
    PrivacyLedger,
    PrivateThinningClassifier,
    RateConstrainedClassifier,
    certify,
)
from skfairdp.exceptions import BudgetExceededError, LedgerError
from skfairdp.preprocessing import PublicScaler
from skfairdp.privacy.ledger.store import writing
from skfairdp.representation import LaplaceTransformer
from tests.common.roster import FAST, people
from tests.privacy.ledger.statements import ledger_in, pure, spend, stated
from tests.privacy.ledger.test_store import ended

# Many fits here follow a step that learns from rows, which warns.
pytestmark = pytest.mark.filterwarnings("ignore:.* may have learned from the rows")

STORE = "skfairdp.privacy.ledger.store"

DIE_WRITING = """
import os, signal, sys
from pathlib import Path
from skfairdp.privacy.ledger.store import writing
from tests.privacy.ledger.statements import stated
with writing(Path(sys.argv[1])) as store:
    store._connection.execute("PRAGMA cache_size = 2")  # pages go to the file as they fill
    for _ in range(100):
        store.reserve("people", "fit", "Dying", stated())
    os.kill(os.getpid(), signal.SIGKILL)
"""

CHARGE_ONCE = """
import sys
from skfairdp.privacy.ledger import store
from tests.privacy.ledger.statements import PrivacyLedger, pure, spend
store.PATIENCE = 0.5
spend(PrivacyLedger(sys.argv[1], "people"), pure(0.1))
"""


def filled(folder: Path, n: int = 3) -> PrivacyLedger:
    """A ledger with a budget, `n` fits of ε = .5, and another data set."""
    ledger = ledger_in(folder, budget=(9.0, 1e-5))
    spend(ledger, *[stated()] * n)
    spend(ledger.on("others"), pure(0.5))
    return ledger


def everything(ledger: PrivacyLedger) -> Any:
    """All that can be read from a file, or the error that refuses it."""
    try:
        return (
            [(ledger.on(name).entries(), ledger.on(name).budget) for name in ledger.data_sets],
            ledger.head,
        )
    except LedgerError as error:
        return str(error)


# -- files that lose what they hold ---------------------------------------------------------


@pytest.mark.parametrize("cut", [1, 5, 100, 1000, 4095, 4096, 5000, -1, -100])
def test_a_shortened_or_lengthened_file_is_refused(tmp_path, cut) -> None:
    # SQLite reads the missing end of a page as zeros, and forgot the budget.
    ledger = filled(tmp_path)
    os.truncate(ledger.path, ledger.path.stat().st_size - cut)
    before = ledger.path.read_bytes()
    for action in (lambda: ledger.budget, ledger.totals, lambda: spend(ledger, stated())):
        with pytest.raises(LedgerError, match=r"not a readable privacy ledger: .*backup"):
            action()
    assert ledger.path.read_bytes() == before


def test_without_the_comparison_of_sizes_a_cut_goes_unseen(tmp_path, monkeypatch) -> None:
    ledger = filled(tmp_path)
    os.truncate(ledger.path, ledger.path.stat().st_size - 5)
    monkeypatch.setattr(f"{STORE}._check_size", lambda *args: None)
    monkeypatch.setattr("skfairdp.privacy.ledger.records._compare", lambda *args: None)
    spend(ledger, stated())  # the twin: a file that ends in the middle of a page is charged


@pytest.mark.parametrize("size", [0, 1, 99, 100, 4095])
def test_an_empty_or_short_file_is_no_new_ledger(tmp_path, size) -> None:
    ledger = filled(tmp_path)
    os.truncate(ledger.path, size)
    message = "empty or cut short .*only if nothing was charged"
    message = message if size < 512 else "not a readable privacy ledger"
    for action in (lambda: len(ledger), lambda: spend(ledger, stated()), lambda: ledger.head):
        with pytest.raises(LedgerError, match=message) as caught:
            action()
        assert str(ledger.path) in str(caught.value)
    assert ledger.path.stat().st_size == size


def test_every_flipped_byte_is_refused_or_changes_nothing(tmp_path) -> None:
    ledger, broken = filled(tmp_path), tmp_path / "broken.db"
    whole, content = everything(ledger), ledger.path.read_bytes()
    rng = np.random.default_rng(0)
    refused = 0
    for position in rng.choice(len(content), size=150, replace=False):
        changed = bytearray(content)
        changed[position] ^= 1 << int(rng.integers(8))
        broken.write_bytes(changed)
        found = everything(PrivacyLedger(broken, "people"))
        refused += isinstance(found, str)
        assert isinstance(found, str) or found == whole, position
    assert refused > 10  # most bytes of a page are free, and say nothing


CARELESS = {
    "an entry is made cheaper": (
        "UPDATE records SET content = replace(content, '\"epsilon\": 0.', '\"epsilon\": 0.0')"
        " WHERE entry = 2"
    ),
    "a budget is raised": (
        "UPDATE records SET content = replace(content, '9.0', '99.0') WHERE kind = 'budget'"
    ),
    "an entry is removed": "DELETE FROM records WHERE entry = 2",
    "the last entry is removed": "DELETE FROM records WHERE position >= 8",
    "all are removed": "DELETE FROM records",
    "all but the first are removed": "DELETE FROM records WHERE position > 1",
    "the budget is removed": "DELETE FROM records WHERE kind = 'budget'",
    "two entries change places": (
        "UPDATE records SET position = CASE position WHEN 3 THEN -5 WHEN 5 THEN -3 END"
        " WHERE position IN (3, 5); UPDATE records SET position = -position WHERE position < 0"
    ),
    "an entry moves to another data set": (
        "UPDATE records SET data_set = 'others' WHERE entry = 2"
    ),
    "a charge becomes one that was returned": (
        "UPDATE records SET kind = 'returned' WHERE kind = 'committed' AND entry = 2"
    ),
    "an entry is added": "INSERT INTO records SELECT 99, data_set, kind, 9, content, digest"
    " FROM records WHERE position = 3",
    "a blob stands for a text": "UPDATE records SET content = x'00' WHERE position = 3",
    "the head is set back": "UPDATE head SET position = position - 1",
    "the head is lost": "DELETE FROM head",
    "a table is lost": "DROP TABLE records",
}


def tampered(ledger: PrivacyLedger, statements: str) -> None:
    with closing(sqlite3.connect(ledger.path)) as connection, connection:
        connection.executescript(statements)
    connection.close()


@pytest.mark.parametrize("change", CARELESS)
def test_a_careless_edit_is_found_before_anything_is_read_or_charged(tmp_path, change) -> None:
    ledger = filled(tmp_path)
    tampered(ledger, CARELESS[change])
    before = ledger.path.read_bytes()
    for action in (ledger.summary, lambda: spend(ledger, stated()), lambda: ledger.head):
        with pytest.raises(LedgerError, match="not a readable privacy ledger: it"):
            action()
    assert ledger.path.read_bytes() == before


@pytest.mark.parametrize("change", ["an entry is made cheaper", "the budget is removed"])
def test_without_the_chain_an_edit_goes_unseen(tmp_path, monkeypatch, change) -> None:
    ledger = filled(tmp_path)
    total = ledger.totals()[0].epsilon, ledger.budget
    tampered(ledger, CARELESS[change])
    monkeypatch.setattr("skfairdp.privacy.ledger.records._compare", lambda *args: None)
    ledger = ledger_in(tmp_path)
    assert (sum(e.guarantee.epsilon for e in ledger.entries()), ledger.budget) != total


def test_a_file_that_was_set_back_is_found_by_a_head_that_was_noted(tmp_path) -> None:
    # Whoever may write the file can do anything to it; a note elsewhere shows it.
    ledger, old = filled(tmp_path), tmp_path / "old.db"
    shutil.copy(ledger.path, old)
    early = ledger.head
    spend(ledger, stated())
    late = ledger.head
    assert ledger.holds(early)
    assert ledger.holds(late)
    assert f'"head": "{late}"' in ledger.to_json()
    shutil.copy(old, ledger.path)
    assert ledger.holds(early)
    assert not ledger.holds(late)
    spend(ledger, stated(3.0))  # as many records as before, and others
    assert not ledger.holds(late)
    (printed,) = (line for line in ledger.statements() if line.startswith("state of the file"))
    assert ledger.holds(printed.partition("their digest): ")[2])
    with pytest.raises(ValueError, match="'head' must be"):
        ledger.holds("yesterday")


def test_a_journal_in_another_file_is_refused(tmp_path) -> None:
    ledger = filled(tmp_path)
    with closing(sqlite3.connect(ledger.path)) as connection, connection:
        connection.execute("PRAGMA journal_mode = WAL")
    connection.close()
    for action in (lambda: spend(ledger, stated()), lambda: len(ledger)):
        with pytest.raises(LedgerError, match="journal_mode = DELETE"):
            action()
    with closing(sqlite3.connect(ledger.path)) as connection, connection:
        connection.execute("PRAGMA journal_mode = DELETE")
    connection.close()
    assert len(ledger) == 3


@pytest.mark.slow
def test_a_write_cut_short_whose_journal_is_lost_is_refused(tmp_path) -> None:
    ledger = filled(tmp_path)
    before = ledger.path.stat().st_size
    assert ended(DIE_WRITING, ledger) < 0
    assert ledger.path.stat().st_size > before
    copy = shutil.copy(ledger.path, tmp_path / "without.db")
    with pytest.raises(LedgerError, match="not a readable privacy ledger"):
        PrivacyLedger(copy, "people").totals()
    assert len(ledger) == 3  # with its journal, what was half written is taken back
    assert ledger.path.stat().st_size == before


@pytest.mark.slow
def test_a_charge_is_not_lost_where_another_thread_closes_the_file(tmp_path, monkeypatch) -> None:
    ledger = filled(tmp_path)
    waits, goes_on = threading.Event(), threading.Event()

    def composed(*_: object) -> None:  # takes seconds in a large ledger
        waits.set()
        assert goes_on.wait(60)

    with monkeypatch.context() as slow, ThreadPoolExecutor(1) as pool:
        slow.setattr("skfairdp.privacy.ledger.totals.Budget.refuse", composed)
        charge = pool.submit(spend, ledger, stated())
        assert waits.wait(60)
        ledger.path.read_bytes()  # a backup: SQLite's lock of this process is gone
        other = ended(CHARGE_ONCE, ledger)
        goes_on.set()
        charge.result()
    assert other != 0  # the other process waited, and charged nothing
    assert len(ledger) == 4
    assert ended(CHARGE_ONCE, ledger) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["ledger.db"]


def test_a_writer_waits_for_the_other_also_without_sqlites_lock(tmp_path, monkeypatch) -> None:
    ledger = filled(tmp_path)
    monkeypatch.setattr(f"{STORE}.PATIENCE", 0.01)
    with writing(ledger.path):
        ledger.path.read_bytes()
        with pytest.raises(LedgerError, match=r"locked by another charge, with '.ledger.db.lock'"):
            spend(ledger, stated())
    spend(ledger, stated())
    assert len(ledger) == 4


def test_a_lock_that_a_killed_process_left_is_free(tmp_path) -> None:
    ledger = filled(tmp_path)
    (tmp_path / ".ledger.db.lock").touch()
    spend(ledger, stated())
    assert len(ledger) == 4
    assert [path.name for path in tmp_path.iterdir()] == ["ledger.db"]


def test_a_file_with_two_names_is_not_charged(tmp_path) -> None:
    ledger = filled(tmp_path)
    os.link(ledger.path, tmp_path / "other.db")
    for name in ("ledger.db", "other.db"):
        with pytest.raises(LedgerError, match="has 2 names"):
            spend(PrivacyLedger(tmp_path / name, "people"), stated())
    assert len(ledger) == 3
    (tmp_path / "other.db").unlink()
    os.link(ledger.path, tmp_path / ".ledger.db.0123456789abcdef")  # of a start that was killed
    spend(ledger, stated())
    assert len(ledger) == 4
    assert [path.name for path in tmp_path.iterdir()] == ["ledger.db"]


# -- totals that leave something out --------------------------------------------------------


def text_of(certificate: Any, ledger: PrivacyLedger) -> str:
    page = re.sub(r"<[^>]+>", " ", certificate.to_html(ledger=ledger))
    page = re.sub(r"\s+", " ", page)
    return page[page.index("Charges to the ledger") :]


def test_an_attribute_only_fit_voids_the_total_of_records(tmp_path) -> None:
    X, y, groups = people()
    ledger = ledger_in(tmp_path)
    model = DPSGDClassifier(ledger=ledger, **FAST).fit(X, y)
    LagrangianDualClassifier(ledger=ledger, **FAST).fit(X, y, sensitive_features=groups)
    record, attribute = ledger.totals()
    assert (record.protects, record.epsilon) == ("record", float("inf"))
    assert (attribute.protects, attribute.epsilon) == ("sensitive_features", float("inf"))
    text = text_of(certify(model), ledger)
    assert "total, record under zero-out: ε = ∞ (composition of 2 charges)" in text
    assert "because of entry 2 (LagrangianDualClassifier): what protects the sensitive" in text


def test_an_empty_or_foreign_ledger_is_not_said_to_hold_the_model(tmp_path) -> None:
    X, y, _ = people()
    certificate = DPSGDClassifier(ledger=ledger_in(tmp_path), **FAST).fit(X, y).certify()
    text = text_of(certificate, ledger_in(tmp_path, "nobody"))
    assert "the ledger is empty: nothing was charged to it for this data set" in text
    assert "total" not in text
    for page in (text, text_of(certificate, ledger_in(tmp_path))):
        assert "with this model among it" not in page
        assert "Everything that was released" not in page


def voided(ledger: PrivacyLedger) -> list[str]:
    return [entry.activity for entry in ledger.entries() if entry.activity in ("void", "declare")]


def test_a_step_that_learned_from_rows_voids_the_ledger_once(tmp_path) -> None:
    X, y, _ = people()
    ledger = ledger_in(tmp_path, budget=(9.0, 1e-5))
    model = make_pipeline(StandardScaler(), DPSGDClassifier(ledger=ledger, **FAST)).fit(X, y)
    assert ledger.totals()[0].epsilon == model[-1].privacy_.epsilon
    for _ in range(3):
        assert certify(model).privacy.is_void
    assert voided(ledger) == ["void"]
    (total,) = ledger.totals()
    assert total.is_void
    assert "Step 'standardscaler' (StandardScaler) learned from rows" in total.assumptions[0]
    assert "∞ because of entry 2 (StandardScaler → DPSGDClassifier): Step" in ledger.summary()
    with pytest.raises(BudgetExceededError, match="cannot be kept any more .*StandardScaler"):
        clone(model).fit(X, y)
    # Its steps never saw protected rows: an assumption, which is its own entry.
    certify(model, public_steps=["standardscaler"])
    certify(model, public_steps=["standardscaler"])
    assert voided(ledger) == ["void", "declare"]
    assert ledger.totals()[0].epsilon == model[-1].privacy_.epsilon
    assert "its steps were declared public" in ledger.summary()
    certify(model)  # and is not assumed any more
    assert voided(ledger) == ["void", "declare", "void"]
    assert ledger.totals()[0].is_void


def test_what_is_declared_of_one_model_does_not_clear_another(tmp_path) -> None:
    """Both have the same steps by name; only those of the first had learned from the rows."""
    X, y, _ = people()
    ledger = ledger_in(tmp_path)
    certify(make_pipeline(StandardScaler(), DPSGDClassifier(ledger=ledger, **FAST)).fit(X, y))
    scaler, other = StandardScaler().fit(-X), DPSGDClassifier(ledger=ledger, **FAST)
    sound = Pipeline(
        [("standardscaler", scaler), ("dpsgdclassifier", other.fit(scaler.transform(X), y))]
    )
    for public in (["standardscaler"], [], ["standardscaler"]):
        certify(sound, public_steps=public)
        assert ledger.totals()[0].is_void
    assert voided(ledger) == ["void", "void", "declare"]


def test_without_word_from_the_certificate_the_total_stays_finite(tmp_path, monkeypatch) -> None:
    X, y, _ = people()
    ledger = ledger_in(tmp_path)
    model = make_pipeline(StandardScaler(), DPSGDClassifier(ledger=ledger, **FAST)).fit(X, y)
    monkeypatch.setattr("skfairdp.certificate.certifying.tell_ledgers", lambda *args: None)
    assert certify(model).privacy.is_void
    assert not ledger.totals()[0].is_void  # the twin


def test_exact_scores_and_models_around_ours_void_the_ledger(tmp_path) -> None:
    X, y, _ = people()
    for name, around in {
        "search": lambda inner: GridSearchCV(inner, {"max_grad_norm": [0.5]}, cv=2),
        "around": lambda inner: CalibratedClassifierCV(inner, cv=2),
        "frozen": lambda inner: CalibratedClassifierCV(FrozenEstimator(inner.fit(X, y))),
    }.items():
        ledger = ledger_in(tmp_path, name)
        model = around(DPSGDClassifier(ledger=ledger, **FAST)).fit(X, y)
        assert not ledger.totals()[0].is_void
        certify(model)
        assert ledger.totals()[0].is_void
        assert voided(ledger) == ["void"]


def test_a_model_without_fault_and_a_ledger_elsewhere_are_left_alone(tmp_path) -> None:
    X, y, groups = people()
    ledger = ledger_in(tmp_path)
    sound = make_pipeline(PublicScaler((-6, 6)), DPSGDClassifier(ledger=ledger, **FAST))
    certify(sound.fit(X, y))
    assert voided(ledger) == []
    void = make_pipeline(StandardScaler(), DPSGDClassifier(**FAST)).fit(X, y)
    certify(void, X, sensitive_features=groups, ledger=ledger, holdout="public")  # of other rows
    assert voided(ledger) == []
    changed = DPSGDClassifier(ledger=ledger, **FAST).fit(X, y)
    changed.classes_ = changed.classes_[::-1]
    assert certify(changed).privacy.is_void
    assert voided(ledger) == []  # the fit has shown no more than it charged
    void[-1].ledger = str(tmp_path / "elsewhere.db")
    certify(void)
    assert not (tmp_path / "elsewhere.db").exists()


# -- charges for nothing --------------------------------------------------------------------


@pytest.fixture(scope="module")
def model() -> DPSGDClassifier:
    X, y, groups = people()
    return DPSGDClassifier(**FAST).fit(X, y, sensitive_features=groups)


REFUSED: dict[str, Callable[[Any, Any, Any], dict[str, Any]]] = {
    "groups of another length": lambda X, y, a: {"sensitive_features": a[:-1]},
    "groups in three dimensions": lambda X, y, a: {"sensitive_features": a.reshape(-1, 1, 1)},
    "declared groups twice": lambda X, y, a: {"groups": ["a", "a"]},
    "labels of another length": lambda X, y, a: {"y": y[:-1]},
    "labels in two columns": lambda X, y, a: {"y": np.c_[y, y]},
    "no labels for a notion that needs them": lambda X, y, a: {
        "y": None,
        "notion": ["demographic_parity", "equal_opportunity"],
    },
    "a column too few": lambda X, y, a: {"X": X[:, 1:]},
    "no table": lambda X, y, a: {"X": 3},
    "an index too large": lambda X, y, a: {"n_certificates": 2, "certificate_index": 3},
    "an unknown notion": lambda X, y, a: {"notion": "kindness"},
    "a step that does not exist": lambda X, y, a: {"public_steps": ["scale"]},
    "a kind of hold-out that does not exist": lambda X, y, a: {"holdout": "some"},
    "an epsilon below zero": lambda X, y, a: {"count_epsilon": -1.0},
    "a level above one": lambda X, y, a: {"confidence_level": 7.0},
    "another form of bound": lambda X, y, a: {"bound": "difference"},
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_refused_certificate_charges_nothing(model, tmp_path, case) -> None:
    ledger = ledger_in(tmp_path, budget=(9.0, 1e-5))
    X, y, groups = people(seed=1)
    given = {"X": X, "y": y, "sensitive_features": groups, "count_epsilon": 0.3, "ledger": ledger}
    given |= REFUSED[case](X, y, groups)
    with pytest.raises((ValueError, TypeError)):
        certify(model, **given)
    assert ledger.entries() == ()


def test_a_model_without_groups_is_told_to_declare_them_before_the_charge(tmp_path) -> None:
    X, y, groups = people()
    alone = DPSGDClassifier(**FAST).fit(X, y)
    ledger = ledger_in(tmp_path)
    asked = {"sensitive_features": groups, "count_epsilon": 0.3, "ledger": ledger}
    with pytest.raises(ValueError, match=r"declare them as groups=\[...\]"):
        certify(alone, X, **asked)
    assert ledger.entries() == ()
    # One group has no gap: no count is released, and none is charged.
    assert certify(alone, X, **asked, groups=["a"]).fairness == ()
    assert ledger.entries() == ()


def test_a_certificate_too_many_is_given_back(model, tmp_path) -> None:
    X, _, groups = people(seed=1)
    ledger = ledger_in(tmp_path)
    asked = {"sensitive_features": groups, "count_epsilon": 0.3, "n_certificates": 2}
    for _ in range(2):
        certify(model, X, ledger=ledger, **asked)
    spent = ledger.totals()
    for _ in range(3):
        with pytest.raises(ValueError, match="certificate_index=3 must lie between 1 and"):
            certify(model, X, ledger=ledger, **asked)
    assert [entry.state for entry in ledger.entries()] == ["committed"] * 2 + ["returned"] * 3
    assert ledger.totals() == spent


def test_without_giving_back_a_certificate_too_many_stays_charged(
    model, tmp_path, monkeypatch
) -> None:
    X, _, groups = people(seed=1)
    ledger = ledger_in(tmp_path)
    monkeypatch.setattr(PrivacyLedger, "give_back", lambda self, entry: entry)
    asked = {"sensitive_features": groups, "count_epsilon": 0.3, "n_certificates": 2}
    for _ in range(2):
        certify(model, X, ledger=ledger, **asked)
    with pytest.raises(ValueError, match="certificate_index=3"):
        certify(model, X, ledger=ledger, **asked)
    assert ledger.entries()[-1].state == "reserved"  # the twin


def test_an_error_after_the_model_was_asked_stays_charged_and_says_so(model, tmp_path) -> None:
    # Its text may depend on what stands in the rows.
    X, _, groups = people(seed=1)
    X[3, 1] = np.nan
    ledger = ledger_in(tmp_path)
    with pytest.raises(ValueError, match="NaN") as caught:
        certify(model, X, sensitive_features=groups, count_epsilon=0.3, ledger=ledger)
    assert [entry.state for entry in ledger.entries()] == ["reserved"]
    (note,) = caught.value.__notes__
    assert note.startswith("Entry 1 of the privacy ledger")
    assert "(certify by DPSGDClassifier, ε = 0.3000, δ = 0) stays charged" in note


def test_thinning_asks_its_estimator_before_it_charges(tmp_path) -> None:
    X, y, groups = people()
    ledger = ledger_in(tmp_path)
    constrained = RateConstrainedClassifier(**FAST)
    thinning = PrivateThinningClassifier(constrained, ledger=ledger)
    with pytest.raises(ValueError, match="needs the group of every row"):
        thinning.fit(X, y)
    for wrong in ({"net__module__no_such_thing": 1}, {"batch_size": 301}, {"delta": 0.01}):
        with pytest.raises(ValueError, match=next(iter(wrong)).rpartition("__")[2]):
            PrivateThinningClassifier(
                DPSGDClassifier(**FAST).set_params(**wrong), ledger=ledger
            ).fit(X, y, sensitive_features=groups)
    assert ledger.entries() == ()
    # An estimator that compares groups is told them, and learns.
    thinning.fit(X, y, sensitive_features=groups)
    assert thinning.estimator_.groups_ == ("a", "b")
    assert len(ledger) == 1


def test_without_the_question_thinning_charges_for_a_fit_that_fails(tmp_path, monkeypatch) -> None:
    X, y, _ = people()
    ledger = ledger_in(tmp_path)
    monkeypatch.setattr("skfairdp.preprocessing.thinning.refuse_other_promises", lambda *args: None)
    with pytest.raises(ValueError, match="needs the group of every row"):
        PrivateThinningClassifier(RateConstrainedClassifier(**FAST), ledger=ledger).fit(X, y)
    assert [entry.state for entry in ledger.entries()] == ["reserved"]  # the twin


# -- work that breaks off -------------------------------------------------------------------


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError, SystemExit, MemoryError])
def test_a_fit_that_breaks_off_says_once_what_stays_charged(tmp_path, monkeypatch, error) -> None:
    X, y, _ = people()
    ledger = ledger_in(tmp_path)

    def stop(*args: Any) -> None:
        raise error("stopped")

    monkeypatch.setattr(DPSGDClassifier, "_train", stop)
    with pytest.raises(error) as caught:
        DPSGDClassifier(ledger=ledger, **FAST).fit(X, y)
    (note,) = caught.value.__notes__
    assert re.match(
        rf"Entry 1 of the privacy ledger '{re.escape(str(ledger.path))}' \(fit by DPSGDClassifier, "
        r"ε = 0\.9\d+, δ = 1e-6\) stays charged to the data set 'people': something may have",
        note,
    )
    assert [entry.state for entry in ledger.entries()] == ["reserved"]
    # Without a ledger it says what counts as spent, and before the charge nothing.
    with pytest.raises(error) as plain:
        DPSGDClassifier(**FAST).fit(X, y)
    with pytest.raises(ValueError, match="epsilon") as early:
        DPSGDClassifier(epsilon=-1.0, ledger=ledger, **FAST).fit(X, y)
    (note,) = plain.value.__notes__
    assert re.match(r"Count ε = 0\.9\d+ as spent on these rows: .* no ledger was named\.", note)
    assert not hasattr(early.value, "__notes__")


def test_two_fits_of_one_object_at_once_are_not_one_charge(tmp_path, monkeypatch) -> None:
    X, y, _ = people()
    ledger, asked = ledger_in(tmp_path), []
    model, train = DPSGDClassifier(ledger=ledger, **FAST), DPSGDClassifier._train

    def with_another(self, run) -> None:
        if not asked:
            asked.append(None)
            with ThreadPoolExecutor() as pool:
                asked.append(pool.submit(self.fit, X, y).exception())
        train(self, run)

    monkeypatch.setattr(DPSGDClassifier, "_train", with_another)
    model.fit(X, y)
    assert "is being fitted already" in str(asked[1])
    assert [entry.state for entry in ledger.entries()] == ["committed"]
    assert not certify(model.fit(X, y)).privacy.is_void  # it may be fitted again afterwards
    assert len(ledger) == 2


def test_every_ledger_is_told_of_releases_that_repeat(tmp_path) -> None:
    """Releases by id are charged once: to each data set whose people they are about."""
    rows, first = np.zeros((3, 2)), ledger_in(tmp_path)
    second, model = first.on("others"), LaplaceTransformer(epsilon=1.0).fit(np.zeros((3, 2)))
    for book in (None, first, first, second, PrivacyLedger(first.path, "others"), first):
        model.set_params(ledger=book).transform(rows, ids=["a", "b", "c"])
    assert [[total.epsilon for total in book.totals()] for book in (first, second)] == [[1.0]] * 2
    assert model.releases_.total == 1
    model.memory_.export_key = True
    pickle.loads(pickle.dumps(model)).transform(rows, ids=["a", "b", "c"])
    assert [len(first), len(second)] == [1, 1]


@pytest.mark.parametrize(
    "name", ["donne\u0301es-26", "Donn\u00e9es-26", "donn\u00e9es-26 ", "donn\u00e9es\u200b-26",
             "donn\u00e9es-\uff12\uff16", "DONN\u00c9ES-26\ufeff",
             # Selectors of variants, joiners and fillers, which no text shows
             "donn\u00e9es-26\ufe0f", "donn\u00e9es-26\U000e0100", "donn\u00e9es\u034f-26",
             "donn\u00e9es-26\u3164", "donn\u00e9es-26\u115f", "donn\u00e9es-26\u17b5",
             "donn\u00e9es-26\u180b", "donn\u00e9es-26\u2800",
             # Other dashes, as editors write them, and letters of other alphabets
             "donn\u00e9es\u201026", "donn\u00e9es\u201326", "donn\u00e9es\u221226",
             "d\u043enn\u00e9es-26", "d\u03bfnn\u00e9es-26"]
)  # fmt: skip
def test_a_name_that_reads_alike_has_no_budget_of_its_own(name: str, tmp_path: Path) -> None:
    known = PrivacyLedger(tmp_path / "spent.db", "donn\u00e9es-26", budget=(1.0, 1e-5))
    spend(known, pure(0.9))
    other = PrivacyLedger(known.path, name, budget=(1.0, 1e-5))
    for use in (
        lambda: spend(other, pure(0.9)),
        other.entries,
        other.totals,
        lambda: other.budget,
    ):
        with pytest.raises(LedgerError, match=r"reads alike.*Use data_set='donn\\xe9es-26'"):
            use()
    assert known.data_sets == ("donn\u00e9es-26",)
    assert known.on("donn\u00e9es-27").entries() == ()
    assert len(known.entries()) == 1
