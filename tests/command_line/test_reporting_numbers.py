"""``report --numeric``: a target that is a number, declared to be one."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from skfairdp import Certificate
from skfairdp.command_line import main
from skfairdp.fairness.smallest_gap import showing


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    sex = np.where(np.arange(1200) % 3 == 0, "f", "m")
    age = rng.integers(18, 70, size=1200)
    pay = (20 + 0.5 * age + 6 * (sex == "m") + 5 * rng.normal(size=1200)).round(1)
    pd.DataFrame({"age": age, "sex": sex, "pay": pay}).to_csv("pay.csv", index=False)
    return tmp_path


def report(*more: str) -> list[str]:
    asked = "report pay.csv --target pay --sensitive sex --epsilon 2 --tolerance 0.9 --no-ledger"
    return [*asked.split(), "--quiet", *more]


def test_a_number_is_learned_and_its_distributions_are_certified(folder, capsys):
    more = ("--certificate", "c.json", "--model", "m.pkl", "--held-out-is-public")
    assert main(report("--numeric", "0", "100", *more)) in (0, 1)
    assert "shares of predictions up to any one number" in capsys.readouterr().out
    certificate = Certificate.from_json((folder / "c.json").read_text())
    assert certificate.fairness[0].notion == "distribution_gap"
    assert certificate.errors.rows == certificate.n_rows
    assert "declared to be between 0 and 100" in certificate.fairness[0].assumptions[-1]
    assert "Predictions by group" in (folder / "report.html").read_text()
    assert main(["verify", "c.json", "m.pkl"]) == 0


def test_a_plan_for_a_number_speaks_of_distributions_and_of_all_numbers_compared(folder, capsys):
    asked = report("--numeric", "0", "100")[1:]
    assert main(["plan", *asked]) == 0
    plan = capsys.readouterr().out
    assert "Distributions of predictions: if they were the same in all groups" in plan
    assert "parity" not in plan
    # One rate of as many people would leave more room: .9 less one margin instead of fifteen.
    aim = float(re.search(r"Trained for distributions at most ([.\d]+) apart", plan)[1])
    counts = pd.read_csv("pay.csv")["sex"].value_counts()
    sizes = {name: int(size * 0.3) for name, size in counts.items()}
    assert aim < showing(sizes, 0.9, count_epsilon=2.0).largest_gap()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ((), "more than 10 values"),
        (("--numeric", "100", "0"), "the first below the second"),
        (("--numeric", "0", "100", "--positive", "40"), "--numeric contradicts --positive"),
        (("--numeric", "0", "100", "--notion", "equalized_odds"), "contradicts --notion"),
        (("--numeric", "0", "100", "--mechanism", "dpsgd"), "contradicts --mechanism"),
    ],
)
def test_a_target_is_never_guessed_to_be_a_number_and_options_of_outcomes_are_refused(
    more, said, capsys
):
    assert main(report(*more)) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("cell", ["", "much"])
def test_a_cell_that_is_no_number_is_refused(cell, capsys):
    rows = pd.read_csv("pay.csv", dtype=str)
    rows.loc[3, "pay"] = cell
    rows.to_csv("pay.csv", index=False)
    assert main(report("--numeric", "0", "100")) == 2
    assert "no number, in some rows" in capsys.readouterr().err
