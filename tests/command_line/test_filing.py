"""Runs that break off: what stays charged is said, and files are whole or not there."""

from __future__ import annotations

import errno
import json
import os
import pickle
import signal
import sys
import time
from configparser import ConfigParser
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest

from skfairdp import Certificate, PrivacyLedger
from skfairdp.certificate.signing import check_signature, load_public_key
from skfairdp.command_line import main
from skfairdp.command_line.files import check_outputs, write_whole
from tests.command_line.files import report, table, written

DRAWS_PICTURES = True  # in tests that take the fixture `pictures`
FILES = ["--certificate", "c.json", "--card", "card.md", "--model", "m.pkl", "--ledger", "l.db"]
DOLLARS = ("$0_to_$50k", "$50k_to_$90k")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    written(tmp_path)
    return tmp_path


def broken_at(monkeypatch: pytest.MonkeyPatch, place: str, error: BaseException) -> None:
    def broken(*args: Any, **kwargs: Any) -> None:
        raise error

    monkeypatch.setattr(place, broken)


def run(capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    code = main(report("--mechanism", "dpsgd", *FILES))
    said = capsys.readouterr().err
    assert "Traceback" not in said
    return code, said


def there() -> set[str]:
    names = {path.name for path in Path().iterdir()}
    return names - {"data.csv", "schema.json", "l.db", "l.db.key"}


def test_a_page_that_fails_costs_neither_model_nor_certificate(capsys, monkeypatch) -> None:
    """Files are written in the order of what it would cost to make them again."""
    broken_at(monkeypatch, "skfairdp.certificate.certificate.html_page", RuntimeError("no page"))
    code, said = run(capsys)
    assert code == 4
    assert there() == {"m.pkl", "c.json", "card.md"}
    assert "Files written: m.pkl, c.json, card.md." in said
    assert "What was charged stays charged: entry 1 (fit 1, DPSGDClassifier: ε = 2.0" in said
    assert "entry 2" not in said
    certificate = Certificate.from_json(Path("c.json").read_text(encoding="utf-8"))
    assert certificate.verify(pickle.loads(Path("m.pkl").read_bytes()))


def test_a_certificate_that_fails_leaves_the_model_and_says_what_it_cost(
    capsys, monkeypatch
) -> None:
    broken_at(monkeypatch, "skfairdp.command_line.filing.certify", KeyboardInterrupt())
    code, said = run(capsys)
    assert code == 130
    assert said.startswith("skfairdp: Interrupted.\n")
    assert there() == {"m.pkl"}
    assert "Files written: m.pkl." in said
    assert "entry 1 (fit 1, DPSGDClassifier" in said
    assert len(PrivacyLedger("l.db", "data").entries()) == 1


def test_a_request_to_end_is_heard(capsys, monkeypatch) -> None:
    def ends(*args: Any, **kwargs: Any) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr("skfairdp.command_line.filing.certify", ends)
    code, said = run(capsys)
    assert code == 143
    assert said.startswith("skfairdp: Terminated.\n")
    assert "What was charged stays charged: entry 1" in said
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize("given", [["--ledger", "l.db"], ["--no-ledger"]])
def test_one_account_is_given_of_what_a_run_has_charged(given, capsys, monkeypatch) -> None:
    """The classifier is charged with the run; by itself it would say that nothing counts it."""
    broken_at(monkeypatch, "skfairdp.receipts.receipt.Charge.commit", KeyboardInterrupt())
    assert main(report("--mechanism", "dpsgd", *given)) == 130
    said = capsys.readouterr().err
    assert said.count("ε = 2") == 1
    assert ("no ledger keeps account" in said) is (given == ["--no-ledger"])
    assert ("entry 1 (fit 1, DPSGDClassifier" in said) is (given != ["--no-ledger"])


def test_without_a_ledger_the_whole_budget_counts(capsys, monkeypatch) -> None:
    broken_at(monkeypatch, "skfairdp.command_line.filing.trained", KeyboardInterrupt())
    assert main(report("--no-ledger")) == 130
    said = capsys.readouterr().err
    assert "no ledger keeps account, so count ε = 2, δ = 1e-5 as spent" in said
    assert "Files written: none." in said


def test_before_anything_is_charged_nothing_is_said_of_charges(capsys, monkeypatch) -> None:
    broken_at(monkeypatch, "skfairdp.command_line.reporting.read_rows", KeyboardInterrupt())
    code, said = run(capsys)
    assert (code, said) == (130, "skfairdp: Interrupted.\n")


def test_a_full_disk_leaves_no_part_of_a_file(capsys, monkeypatch) -> None:
    Path("m.pkl").write_bytes(b"before")
    really = os.fsync

    def full(handle: int) -> None:
        if sys._getframe(1).f_code.co_filename.endswith(str(Path("command_line", "files.py"))):
            raise OSError(errno.ENOSPC, "No space left on device")
        really(handle)  # the ledger has room

    monkeypatch.setattr(os, "fsync", full)
    code, said = run(capsys)
    assert code == 2
    assert "m.pkl cannot be written: No space left on device." in said
    assert "Files written: none." in said
    assert there() == {"m.pkl"}
    assert Path("m.pkl").read_bytes() == b"before"


def test_files_are_replaced_as_a_whole(folder, monkeypatch) -> None:
    kept, link = folder / "kept", folder / "link"
    kept.write_text("before")
    kept.chmod(0o640)
    link.symlink_to(kept)
    write_whole(link, "after")
    assert (kept.read_text(), link.is_symlink()) == ("after", True)
    assert kept.stat().st_mode & 0o777 == 0o640
    write_whole(Path(os.devnull), "anything")
    assert not Path(os.devnull).is_file()
    broken_at(monkeypatch, "os.replace", KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        write_whole(kept, "never")
    assert kept.read_text() == "after"
    assert {path.name for path in folder.iterdir()} >= {"kept", "link"}
    assert not [path for path in folder.iterdir() if path.name.startswith(".")]


def test_the_next_run_removes_what_a_killed_one_left_unfinished(folder, monkeypatch) -> None:
    page = folder / "page.html"
    with monkeypatch.context() as killed:
        killed.setattr(Path, "unlink", lambda *_, **__: None)  # nothing is tidied up
        broken_at(killed, "os.replace", KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            write_whole(page, "part")
    (left,) = folder.glob(".page.html.*")
    beside = folder / ".page.html.20261128"
    beside.write_text("a copy of somebody's")
    for file, age in ((left, 60), (beside, 6_000)):
        os.utime(file, (time.time() - age,) * 2)
    check_outputs({"--out": page}, {})
    assert left.exists()  # another run may still write it
    os.utime(left, (time.time() - 6_000,) * 2)
    check_outputs({"--out": page}, {})
    assert not left.exists()
    assert beside.exists()


def test_a_folder_that_cannot_be_written_is_found_before_anything_is_charged(
    capsys, monkeypatch
) -> None:
    broken_at(monkeypatch, "tempfile.TemporaryFile", OSError(errno.EROFS, "Read-only file system"))
    code, said = run(capsys)
    assert code == 2
    assert "cannot be written: Read-only file system" in said
    assert PrivacyLedger("l.db", "data").entries() == ()


def with_dollars(folder: Path) -> None:
    rows = table()
    written(folder, rows.assign(white=np.where(rows["white"] == "a", *DOLLARS)))


def test_a_dollar_in_a_label_is_no_mathematics(folder, capsys, pictures) -> None:
    with_dollars(folder)
    assert main(report("--held-out-is-public")) == 0
    page = Path("report.html").read_text(encoding="utf-8")
    assert "could not be drawn" not in page
    assert page.count("<svg") == 3  # rates, bounds, and what a shift does
    for label in DOLLARS:
        assert f">{label}</text>" in page


def test_a_picture_that_fails_costs_no_page(folder, capsys, monkeypatch, pictures) -> None:
    """The twin: with mathematics in labels, matplotlib refuses these."""
    real = mpl.rc_context

    def mathematical(style: dict[str, Any]) -> Any:
        return real({**style, "text.parse_math": True})

    with_dollars(folder)
    monkeypatch.setattr(mpl, "rc_context", mathematical)
    assert main(report("--held-out-is-public")) == 0
    page = Path("report.html").read_text(encoding="utf-8")
    assert "The picture of it could not be drawn: ValueError." in page
    assert page.count("<svg") == 2
    assert "Traceback" not in capsys.readouterr().err


def test_a_signed_report_verifies_with_the_public_key(capsys) -> None:
    assert main(["keygen", "--out", "k.pem"]) == 0
    assert main(report("--mechanism", "dpsgd", *FILES, "--sign", "k.pem")) == 0
    text = Path("c.json").read_text(encoding="utf-8")
    assert check_signature(text, load_public_key(Path("k.public.pem")))
    assert json.loads(text)["model_file"] is not None
    assert main(["verify", "c.json", "m.pkl", "--key", "k.public.pem", "--strict"]) == 0
    Path("other.pkl").write_bytes(Path("m.pkl").read_bytes() + b" ")
    assert main(["verify", "c.json", "other.pkl", "--key", "k.public.pem"]) == 1


def test_a_key_that_cannot_sign_is_found_before_anything_is_charged(capsys) -> None:
    for arguments, message in (
        (["--sign", "k.pem"], "say by --certificate where it goes"),
        ([*FILES, "--sign", "k.pem"], "The key k.pem cannot be read"),
        ([*FILES, "--sign", "schema.json"], "holds no private key in PEM form"),
    ):
        assert main(report(*arguments)) == 2
        assert message in capsys.readouterr().err
    assert not Path("l.db").exists()


def test_the_script_is_the_module() -> None:
    settings = ConfigParser()
    settings.read(Path(__file__).parents[2] / "setup.cfg")
    name, value = settings["options.entry_points"]["console_scripts"].split(" = ")
    script = EntryPoint(name.strip(), value.strip(), "console_scripts")
    assert script.name == "skfairdp"
    assert script.load() is main  # what python -m skfairdp calls too
