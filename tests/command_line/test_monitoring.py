"""``python -m skfairdp monitor``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.dummy import DummyClassifier

from skfairdp import GapMonitor, certify
from skfairdp.command_line import main


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    X, groups = np.zeros((2000, 1)), np.repeat(["a", "b"], 1000)
    model = DummyClassifier().fit(X, np.tile([0, 1], 1000))
    certificate = certify(model, X, sensitive_features=groups)
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
