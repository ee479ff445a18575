"""``python -m skfairdp verify`` and ``ledger``."""

from __future__ import annotations

import hashlib
import json
import pickle
from pathlib import Path

import joblib
import pytest

from skfairdp import DPSGDClassifier, PrivacyLedger, certify
from skfairdp.command_line import main
from skfairdp.exceptions import BudgetExceededError
from skfairdp.privacy import PrivacyGuarantee
from tests.common.roster import people

X, Y, GROUPS = people()


@pytest.fixture(scope="module")
def model() -> DPSGDClassifier:
    return DPSGDClassifier(max_epochs=1, progress=False).fit(X, Y, sensitive_features=GROUPS)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: DPSGDClassifier) -> Path:
    monkeypatch.chdir(tmp_path)
    certificate = certify(model, X, sensitive_features=GROUPS, holdout="public")
    (tmp_path / "c.json").write_text(certificate.to_json(), encoding="utf-8")
    (tmp_path / "m.pkl").write_bytes(pickle.dumps(model))
    return tmp_path


def test_a_certificate_and_its_model(folder, capsys, model) -> None:
    joblib.dump(model, folder / "m.joblib")
    for file in ("m.pkl", "m.joblib"):
        assert main(["verify", "c.json", file]) == 0
        said = capsys.readouterr()
        assert said.out.startswith("Yes: c.json names the model in m.")
        assert "With 95 % confidence" in said.out
        assert "runs whatever code the file holds" in said.err


def test_recomputed_ends_of_intervals_are_counted_and_not_listed(folder, capsys, model) -> None:
    noisy = certify(model, X, sensitive_features=GROUPS, count_epsilon=1.0)
    (folder / "c.json").write_text(noisy.to_json(), encoding="utf-8")
    assert main(["verify", "c.json", "m.pkl"]) == 0
    said = capsys.readouterr().out
    assert ", 4 ends of intervals of demographic_parity (deployed model)" in said
    assert "lower end" not in said


def test_another_model_exits_with_one(folder, capsys, model) -> None:
    other = DPSGDClassifier(max_epochs=1, progress=False).fit(X, Y, sensitive_features=GROUPS)
    (folder / "m.pkl").write_bytes(pickle.dumps(other))
    assert main(["verify", "c.json", "m.pkl"]) == 1
    said = capsys.readouterr().out
    assert said.startswith("No: c.json does not hold for m.pkl.")
    assert "The model is another one, or in another state" in said


class Trap:
    """Leaves a mark when it is loaded."""

    def __reduce__(self):
        return Path.touch, (Path("sprung"),)


def test_a_digest_is_compared_before_anything_is_loaded(folder, capsys) -> None:
    digest = hashlib.sha256((folder / "m.pkl").read_bytes()).hexdigest()
    assert main(["verify", "c.json", "m.pkl", "--sha256", digest.upper()]) == 0
    (folder / "m.pkl").write_bytes(pickle.dumps(Trap()))
    assert main(["verify", "c.json", "m.pkl", "--sha256", digest]) == 2
    assert "It was not loaded." in capsys.readouterr().err
    assert not Path("sprung").exists()


def test_files_that_are_not_what_they_should_be(folder, capsys) -> None:
    def said(*arguments: str) -> str:
        assert main(["verify", *arguments]) == 2
        return capsys.readouterr().err

    assert "nothing.json does not exist" in said("nothing.json", "m.pkl")
    assert "nothing.pkl does not exist" in said("c.json", "nothing.pkl")
    (folder / "c2.json").write_text("{}")
    assert "c2.json is not a certificate" in said("c2.json", "m.pkl")
    (folder / "c2.json").write_text("hello")
    assert "c2.json is not a certificate" in said("c2.json", "m.pkl")
    (folder / "bad.pkl").write_bytes(b"hello")
    assert "cannot be loaded as a model" in said("c.json", "bad.pkl")
    (folder / "bad.pkl").write_bytes(pickle.dumps([1]))
    assert "holds a list, which is not a model" in said("c.json", "bad.pkl")


def test_a_ledger_is_printed_for_every_data_set(tmp_path, capsys, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("loans", "cards"):
        ledger = PrivacyLedger("l.db", name)
        with ledger.charge(PrivacyGuarantee(0.5, 0.0, "zero-out"), activity="fit", estimator="E"):
            pass
    assert main(["ledger", "l.db"]) == 0
    out = capsys.readouterr().out
    assert out.index("'cards'") < out.index("'loans'")
    assert out.count("ε = 0.5000") == 2
    assert main(["ledger", "l.db", "--data-set", "loans"]) == 0
    assert "'cards'" not in capsys.readouterr().out
    assert main(["ledger", "l.db", "--json"]) == 0
    documents = json.loads(capsys.readouterr().out)
    assert [document["data_set"] for document in documents] == ["cards", "loans"]
    assert main(["ledger", "l.db", "--data-set", "houses"]) == 2
    assert "it knows 'cards', 'loans'" in capsys.readouterr().err


def test_ledgers_that_are_missing_empty_or_none(tmp_path, capsys, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["ledger", "l.db"]) == 2
    assert "There is no privacy ledger l.db" in capsys.readouterr().err
    Path("l.db").touch()
    assert main(["ledger", "l.db"]) == 2
    assert "l.db' is empty or cut short (0 bytes)" in capsys.readouterr().err
    Path("l.db").unlink()
    too_much = PrivacyGuarantee(0.5, 0.0, "zero-out")
    with pytest.raises(BudgetExceededError):
        PrivacyLedger("l.db", budget=(0.1, 0.0)).reserve(too_much, activity="fit", estimator="E")
    assert main(["ledger", "l.db"]) == 0
    assert "The ledger is empty." in capsys.readouterr().out
    Path("l.db").write_text("notes " * 100)
    assert main(["ledger", "l.db"]) == 2
    assert "not a readable privacy ledger" in capsys.readouterr().err
