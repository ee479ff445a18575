"""``python -m skfairdp monitor``."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.dummy import DummyClassifier

from skfairdp import Certificate, GapMonitor, certify
from skfairdp.command_line import main
from skfairdp.exceptions import MonitorError


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    X, groups = np.zeros((2000, 1)), np.repeat(["a", "b"], 1000)
    model = DummyClassifier().fit(X, np.tile([0, 1], 1000))
    certificate = certify(model, X, sensitive_features=groups, holdout="public")
    (tmp_path / "c.json").write_text(certificate.to_json(), encoding="utf-8")
    return tmp_path


def decisions(path: str, rates: tuple[float, float], seed: int, n: int = 3000) -> None:
    rng = np.random.default_rng(seed)
    codes = rng.integers(2, size=n)
    decided = (rng.random(n) < np.array(rates)[codes]).astype(int)
    pd.DataFrame({"decision": decided, "group": np.array(["a", "b"])[codes]}).to_csv(
        path, index=False
    )


def monitor(file: str, *more: str) -> int:
    return main(["monitor", file, "--certificate", "c.json", "--state", "m.db", *more])


def test_equal_decisions_exit_with_0_and_unequal_ones_with_1(folder, capsys) -> None:
    decisions("calm.csv", (0.4, 0.4), 0)
    assert monitor("calm.csv", "--tolerance", "0.1") == 0
    assert "cleared" in capsys.readouterr().out
    decisions("apart.csv", (0.2, 0.8), 1)
    assert monitor("apart.csv", "--tolerance", "0.1") == 1
    assert "ALARM" in capsys.readouterr().out
    assert len(GapMonitor(tolerance=0.1, state="m.db").history_) == 2


def test_what_clearing_takes_is_said_while_there_are_fewer_rows(folder, capsys) -> None:
    decisions("few.csv", (0.4, 0.4), 0, 100)
    assert monitor("few.csv", "--tolerance", "0.1") == 0
    assert "To be cleared" in capsys.readouterr().out
    decisions("near.csv", (0.4, 0.5), 1)
    assert monitor("near.csv", "--tolerance", "0.1") == 0
    told = capsys.readouterr().out
    assert "Not cleared by 3,100 rows: the gap is near 0.1" in told
    assert "To be cleared" not in told


def test_a_file_is_used_once(folder, capsys) -> None:
    decisions("calm.csv", (0.4, 0.4), 0)
    assert monitor("calm.csv") == 0
    assert monitor("calm.csv") == 2
    assert "in the monitor already" in capsys.readouterr().err
    assert len(GapMonitor(tolerance=0.003, state="m.db").history_) == 1


@pytest.mark.parametrize(
    ("frame", "more", "match"),
    [
        ({"decision": [0, 2], "group": ["a", "b"]}, [], "0 and 1"),
        ({"decision": [0, None], "group": ["a", "b"]}, [], "missing values"),
        ({"decision": [0, 1], "group": ["a", "c"]}, [], "not among"),
        ({"decision": [0, 1], "sex": ["a", "b"]}, [], "no column 'group'"),
        ({"decision": ["x", "y"], "group": ["a", "b"]}, [], "0 and 1"),
        ({"decision": [0, 1], "group": ["a", "b"]}, ["--notion", "equalized_odds"], "no such"),
    ],
)
def test_what_cannot_be_used_is_said(folder, capsys, frame, more, match) -> None:
    pd.DataFrame(frame).to_csv("d.csv", index=False)
    assert monitor("d.csv", *more) == 2
    assert match in capsys.readouterr().err


def test_other_names_and_values(folder, capsys) -> None:
    decisions("calm.csv", (0.4, 0.4), 0)
    rows = pd.read_csv("calm.csv").rename(columns={"decision": "loan", "group": "sex"})
    rows["loan"] = rows["loan"].map({0: "no", 1: "yes"})
    rows.to_csv("named.csv", index=False)
    more = ["--decision", "loan", "--sensitive", "sex", "--positive", "yes"]
    assert monitor("named.csv", *more, "--tolerance", "0.1") == 0
    assert "largest gap is between 0.000" in capsys.readouterr().out


def test_the_favourable_outcome_is_the_certified_one(tmp_path, monkeypatch, capsys) -> None:
    """The lesser of two values here: who takes the other one would compare other rates."""
    monkeypatch.chdir(tmp_path)
    groups, labels = np.tile(["a", "b"], 1000), np.repeat(["granted", "refused"], 1000)
    X = np.zeros((2000, 1))
    model = DummyClassifier(strategy="constant", constant="granted").fit(X, labels)
    asked = {"sensitive_features": groups, "notion": "equal_opportunity", "holdout": "public"}
    certificate = certify(model, X, labels, pos_label="granted", **asked)
    Path("c.json").write_text(certificate.to_json(), encoding="utf-8")
    rows = pd.DataFrame({"group": groups, "decision": "granted", "label": labels})
    # All of those who deserve it get it; of the others, only those of one group.
    rows.loc[(rows["label"] == "refused") & (groups == "b"), "decision"] = "refused"
    rows.to_csv("d.csv", index=False)
    assert monitor("d.csv", "--tolerance", "0.1") == 0
    assert "largest gap is between 0.000" in capsys.readouterr().out
    rows.assign(decision=1, label=1).to_csv("e.csv", index=False)
    assert monitor("e.csv", "--tolerance", "0.1") == 2
    assert "holds other values than granted and refused" in capsys.readouterr().err


@pytest.fixture
def labelled(folder: Path) -> Path:
    X, groups, y = np.zeros((2000, 1)), np.repeat(["a", "b"], 1000), np.tile([0, 1], 1000)
    model = DummyClassifier(strategy="constant", constant=1).fit(X, y)
    certificate = certify(
        model, X, y, sensitive_features=groups, notion="equal_opportunity", holdout="public"
    )
    (folder / "c.json").write_text(certificate.to_json(), encoding="utf-8")
    return folder


def test_labels_come_late(labelled, capsys) -> None:
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"person": range(600), "group": rng.choice(["a", "b"], 600)})
    rows["decision"], labels = rng.integers(2, size=600), rng.integers(2, size=600)
    tolerance = ("--tolerance", "0.3")
    rows.to_csv("d.csv", index=False)
    assert monitor("d.csv", *tolerance) == 2  # neither labels nor names of rows
    assert "no column 'label'" in capsys.readouterr().err
    assert monitor("d.csv", *tolerance, "--id", "person") == 0
    assert "over 0 rows" in capsys.readouterr().out
    late = pd.DataFrame({"person": range(600), "label": labels}).sample(frac=1, random_state=0)
    late["label"] = late["label"].astype(float).where(late["person"] != 7)  # never to be known
    late.to_csv("late.csv", index=False)
    assert monitor("late.csv", *tolerance, "--id", "person", "--late") == 0
    out = capsys.readouterr().out
    assert "over 599 rows" in out
    assert "cleared" in out
    assert monitor("late.csv", *tolerance, "--id", "person", "--late") == 2
    assert "no row that waits" in capsys.readouterr().err


def test_a_certificate_names_its_monitor(folder, capsys) -> None:
    named = Certificate.from_json(Path("c.json").read_text(encoding="utf-8")).with_monitor("n.db")
    Path("named.json").write_text(named.to_json(), encoding="utf-8")
    assert "watched by" in named.to_html()
    told = ["monitor", "--certificate", "named.json"]
    assert main(told) == 2
    assert "no monitor's file" in capsys.readouterr().err
    decisions("calm.csv", (0.4, 0.4), 0)
    assert main([*told, "calm.csv", "--tolerance", "0.05"]) == 0
    out = capsys.readouterr().out
    assert "take some 1,9" in out
    assert main([*told, "--out", "page.html"]) == 0  # with what is known, and the file's tolerance
    assert capsys.readouterr().out == out
    assert "over 3,000 rows" in Path("page.html").read_text(encoding="utf-8")
    assert main(["monitor", "--certificate", "c.json"]) == 2
    assert "--state" in capsys.readouterr().err
    Path("n.db").unlink()
    GapMonitor(groups=["a", "x"], state="n.db")
    assert main([*told, "--out", "page.html"]) == 2
    assert "does not claim" in capsys.readouterr().err
    with pytest.raises(MonitorError, match="does not claim"):
        named.to_model_card(monitor=GapMonitor("equal_opportunity"))


def test_certificate_and_monitor_stand_on_one_page(folder, capsys) -> None:
    decisions("apart.csv", (0.2, 0.8), 1)
    assert monitor("apart.csv", "--tolerance", "0.1", "--out", "page.html") == 1
    out = capsys.readouterr().out
    assert out.startswith("Certified: ")
    page = Path("page.html").read_text(encoding="utf-8")
    assert "Since then" in page
    assert "ALARM: the gap exceeds 0.1 (batch 1)" in page
    assert "<td>alarm, drift</td>" in re.sub(r"<td[^>]*>", "<td>", page)
    assert "If the people change" in page
    assert monitor("apart.csv", "--out", "no/page.html") == 2
