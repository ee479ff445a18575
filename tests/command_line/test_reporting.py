"""``python -m skfairdp report``: from a table to a page, and what it refuses."""

from __future__ import annotations

import json
import pickle
import sys
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from skfairdp import Certificate, GapMonitor, PrivacyLedger
from skfairdp.command_line import filing, main, reading, reporting
from skfairdp.command_line.errors import CommandError
from skfairdp.command_line.parsing import _parser
from skfairdp.command_line.reading import read_rows
from skfairdp.command_line.request import Request
from skfairdp.command_line.table import _categories, people_of
from skfairdp.foundation.assumptions import GROUPS_SEEN
from tests.command_line.files import SCHEMA, report, table, written
from tests.processes import in_one_worker, run_fresh

NAMED = ("--positive", "yes")
ZONES = ("Asia/Tokyo", "America/Lima")

pytestmark = pytest.mark.filterwarnings("ignore:The path does not keep")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refused(capsys: pytest.CaptureFixture[str], arguments: list[str], code: int = 2) -> str:
    """Run a command that can't be done, and return what it says."""
    assert main(arguments) == code
    said = capsys.readouterr().err
    assert said.startswith("skfairdp: ")
    assert "Traceback" not in said
    assert not Path("report.html").exists()
    return said


def test_everything_is_written_and_fits_together(folder, capsys) -> None:
    written(folder)
    more = ["--certificate", "c.json", "--card", "card.md", "--model", "m.pkl", "--ledger", "l.db"]
    code = main(report(*more, "--notion", "demographic_parity", "--notion", "equal_opportunity"))
    said = capsys.readouterr()
    assert code == 0
    assert "Shown." in said.out
    assert said.err == ""
    certificate = Certificate.from_json((folder / "c.json").read_text())
    assert {c.notion for c in certificate.fairness} == {"demographic_parity", "equal_opportunity"}
    assert certificate.satisfies(epsilon=2.0, delta=1e-5)
    assert certificate.n_rows is None  # the rows held out are protected too
    assert all(count.noisy for claim in certificate.fairness for count in claim.counts)
    page = (folder / "report.html").read_text()
    for shown in ("What was asked for", "Privacy ledger", certificate.model_digest):
        assert shown in page
    assert (folder / "card.md").read_text().startswith("# Certificate of privacy and fairness")
    model = pickle.loads((folder / "m.pkl").read_bytes())
    assert certificate.verify(model)
    assert "l.db" not in str(model.get_params())
    assert set(model.predict(table()[["income", "debt", "purpose"]])) <= {0, 1}
    ledger = PrivacyLedger("l.db", "data")
    assert [entry.activity for entry in ledger.entries()] == ["fit"]


@pytest.mark.slow
@pytest.mark.usefixtures("all_epochs")
def test_a_target_of_several_values_needs_no_favourable_one(folder, capsys) -> None:
    rows = table(2400)
    grades = np.array(["refused", "reduced", "granted"])
    grade = grades[rows["approve"] + (np.arange(len(rows)) % 3 == 0)]
    written(folder, rows.assign(approve=grade))
    files = "--certificate", "c.json", "--model", "m.pkl"
    asked = report(*files, tolerance="0.6", epsilon="8", mechanism=None)
    place = asked.index("--positive")
    del asked[place : place + 2]
    assert main(asked) == 0
    assert "The same model at other tolerances" in capsys.readouterr().out
    certificate = Certificate.from_json((folder / "c.json").read_text())
    (claim,) = certificate.fairness
    assert {count.stratum for count in claim.counts} == {f"prediction {g}" for g in grades}
    assert "The outcomes of approve are granted, reduced, refused" in str(claim.assumptions)
    model = pickle.loads((folder / "m.pkl").read_bytes())
    assert certificate.verify(model)
    assert set(model.predict(table()[["income", "debt", "purpose"]])) <= {*grades}
    Path("report.html").unlink()
    said = refused(capsys, [*asked, "--mechanism", "fairdp"])
    assert "fairdp takes a target of two values" in said


def test_what_is_not_shown_is_said_and_exits_with_one(folder, capsys) -> None:
    written(folder)
    assert main(report(tolerance="0.001")) == 1
    said = capsys.readouterr()
    assert "NOT shown by this certificate" in said.out
    assert said.err == ""
    assert "at most 0.001: NOT shown" in (folder / "report.html").read_text()


def test_a_run_that_can_hardly_show_its_tolerance_is_not_made_without_being_asked_for(
    folder, capsys, monkeypatch
) -> None:
    written(folder)
    asked = [a for a in report("--ledger", "l.db", tolerance="0.03") if a != "--anyway"]
    said = refused(capsys, asked)
    assert "these rows can hardly show the requested tolerance" in said
    assert "--anyway runs all the same" in said
    assert not (folder / "l.db").exists()
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys.stdin, "readline", lambda: "n\n", raising=False)
    assert main(asked) == 2
    assert capsys.readouterr().err.endswith("[y/N] skfairdp: Nothing was spent.\n")
    monkeypatch.setattr(sys.stdin, "readline", lambda: "y\n", raising=False)
    assert main(asked) == 1
    assert len(PrivacyLedger("l.db", "data").entries()) == 1


@pytest.mark.usefixtures("all_epochs")
def test_by_default_one_notion_is_held_to_what_will_be_shown_on_a_path(folder, capsys) -> None:
    written(folder, table(5000))  # at an epsilon of 2
    main(report("--model", "m.pkl", "--ledger", "l.db", tolerance="0.5", mechanism=None))
    model = pickle.loads((folder / "m.pkl").read_bytes())[-1]
    assert type(model).__name__ == "FairPathClassifier"
    assert model.notion == "demographic_parity"
    assert model.multiplier_ == 0.0  # no constraint is needed for so large a tolerance
    said = capsys.readouterr().out
    assert "at other tolerances, at no further privacy loss" in said
    told = [line.split() for line in said.splitlines() if line.strip().startswith("0.")]
    path = model.path()
    assert told
    for tolerance, gap, *_ in told:
        point = model.at(float(tolerance)).multiplier_
        assert f"{path['gap'][path['multiplier'] == point].iloc[0]:.3f}" == gap
    assert [e.activity for e in PrivacyLedger("l.db", "data").entries()] == ["fit"]


def test_few_rows_are_held_by_rate_constraints(folder) -> None:
    written(folder)
    main(report("--model", "m.pkl", mechanism=None))
    model = pickle.loads((folder / "m.pkl").read_bytes())[-1]
    assert type(model).__name__ == "RateConstrainedClassifier"


def test_several_notions_are_held_by_rate_constraints(folder, capsys) -> None:
    written(folder)
    two = ["--notion", "equalized_odds", "--notion", "demographic_parity"]
    main(report("--model", "m.pkl", *two, tolerance="0.1", mechanism=None))
    model = pickle.loads((folder / "m.pkl").read_bytes())[-1]
    assert type(model).__name__ == "RateConstrainedClassifier"
    assert (model.notion, model.tolerance) == (("equalized_odds", "demographic_parity"), 0.025)
    (folder / "report.html").unlink()
    capsys.readouterr()
    said = refused(capsys, report("--mechanism", "fair-path", *two))
    assert "takes one --notion" in said
    main(report("--model", "m.pkl", "--mechanism", "fairdp", "--threshold", "0.7"))
    assert pickle.loads((folder / "m.pkl").read_bytes())[-1].threshold == 0.7


def test_progress_goes_to_standard_error(folder, capsys) -> None:
    written(folder)
    arguments = [a for a in report("--mechanism", "dpsgd") if a != "--quiet"]
    assert main(arguments) == 0
    said = capsys.readouterr()
    for step in ("Reading data.csv", "Training dpsgd", "Certifying", "Wrote report.html"):
        assert step in said.err
    assert said.out.count("\n") == 2


PROGRAM = """
import os, runpy, sys
os.chdir(sys.argv.pop(1))
runpy.run_module("skfairdp", run_name="__main__", alter_sys=True)
"""


@pytest.mark.slow
@in_one_worker
def test_the_module_runs_as_a_program(folder) -> None:
    written(folder)
    arguments = report("--held-out-is-public")
    done = run_fresh(PROGRAM, str(folder), *arguments, warnings_are_errors=True)
    assert done.returncode == 0, done.stderr
    assert "people like the " in done.stdout


def test_a_full_budget_exits_with_three_before_training(folder, capsys) -> None:
    written(folder)
    assert main(report("--ledger", "l.db", "--budget", "5", "1e-4")) == 0
    (folder / "report.html").unlink()
    said = refused(capsys, report("--ledger", "l.db", "--data-set", "data", epsilon="4"), code=3)
    assert "the budget is 5" in said
    assert len(PrivacyLedger("l.db", "data").entries()) == 1
    assert "A budget is fixed once" in refused(
        capsys, report("--ledger", "l.db", "--budget", "9", "1e-5")
    )


def test_a_run_costs_what_was_asked_for_counts_of_held_out_rows_included(folder, capsys) -> None:
    written(folder)
    charged = report("--ledger", "l.db", "--budget", "2", "1e-5", "--certificate", "c.json")
    assert main(charged) == 0
    (total,) = PrivacyLedger("l.db", "data").totals()
    assert (total.epsilon, total.delta) == (2.0, 1e-5)
    certificate = Certificate.from_json(Path("c.json").read_text(encoding="utf-8"))
    assert 1.9 < certificate.privacy.epsilon <= 2.0
    assert all(claim.counts[0].noisy for claim in certificate.fairness)
    (folder / "report.html").unlink()
    assert "is spent" in refused(capsys, charged, code=3)
    assert len(PrivacyLedger("l.db", "data").entries()) == 1


def test_a_ledger_counts_the_runs_that_certified_the_same_people(folder) -> None:
    written(folder)
    for number in (1, 2):
        main(report("--ledger", "l.db", "--certificate", "c.json", "--mechanism", "dpsgd"))
        assert f"certificate number {number} about" in Path("c.json").read_text(encoding="utf-8")


def test_a_run_that_spends_more_than_was_charged_ends_without_a_page(
    folder, capsys, monkeypatch
) -> None:
    written(folder)
    honest = filing.certify

    def dearer(*args: Any, **kwargs: Any) -> Certificate:
        found = honest(*args, **kwargs)
        return replace(found, privacy=replace(found.privacy, epsilon=2.1))

    monkeypatch.setattr(filing, "certify", dearer)
    assert "was charged" in refused(capsys, report("--ledger", "l.db"))


def test_groups_are_public_wherever_a_run_was_refused_by_them(folder, capsys, monkeypatch) -> None:
    """A refusal that looks at groups conditions the draw on them: removal is never promised."""
    written(folder)
    assert main(report("--ledger", "l.db", "--certificate", "c.json")) == 0
    stated = Certificate.from_json(Path("c.json").read_text(encoding="utf-8")).privacy
    (entry,) = PrivacyLedger("l.db", "data").entries()
    charged = entry.guarantee
    assert stated.adjacency == charged.adjacency == "zero-out"
    assert GROUPS_SEEN in stated.assumptions
    assert GROUPS_SEEN in charged.assumptions
    assert "groups and their sizes are public" in Path("report.html").read_text(encoding="utf-8")
    Path("report.html").unlink()
    honest = filing.certify

    def of_removal(*args: Any, **kwargs: Any) -> Certificate:
        found = honest(*args, **kwargs)
        return replace(found, privacy=replace(found.privacy, adjacency="add-remove"))

    monkeypatch.setattr(filing, "certify", of_removal)
    assert "under another relation" in refused(capsys, report())


def test_what_is_refused_by_groups_depends_on_nothing_else(folder) -> None:
    """Neighbours of zero-out agree in groups, so the law of accepted draws is the same for both."""
    people = people_of_table(table())
    emptied = replace(people, X=people.X.iloc[:0], y=people.y[:0])
    for seed in range(20):
        held = np.random.default_rng(seed).random(len(people.y)) < 0.004
        assert raises(people, held) == raises(emptied, held)
    assert raises(people, np.zeros(len(people.y), dtype=bool))
    assert not raises(people, np.arange(len(people.y)) < 400)


def people_of_table(rows: pd.DataFrame) -> Any:
    return people_of(rows.drop(columns=["id"]), asked("approve", "white"), None)


def asked(target: str, sensitive: str) -> Request:
    """Ask for a report on a table; what else is asked for is as usual."""
    options = ["--target", target, "--sensitive", sensitive, "--positive", "1", "--epsilon", "1"]
    return Request.of(_parser().parse_args(["report", "data.csv", *options]))


def raises(people: Any, held: np.ndarray) -> bool:
    try:
        reporting._check_parts(people, held)
    except CommandError:
        return True
    return False


def test_page_and_card_can_have_the_headings_of_an_authority(folder) -> None:
    written(folder)
    more = ["--template", "nist-800-226", "--card", "c.md", "--certificate", "c.json"]
    main(report("--mechanism", "dpsgd", *more))
    card = Path("c.md").read_text(encoding="utf-8")
    for text in (card, Path("report.html").read_text(encoding="utf-8")):
        assert "The guarantee: ε, δ and the unit of privacy" in text
        assert "approve = 1 (declared)" in text
        assert "not stated" in text
    stored = Certificate.from_json(Path("c.json").read_text(encoding="utf-8"))
    known = {fact.name: fact.value for fact in stored.facts}
    assert (known["target column"], known["group columns"]) == ("approve", "white")
    assert 0 < int(known["rows trained on"]) < 800


def test_what_is_not_declared_is_learned_with_noise_unless_it_is_public(folder, capsys) -> None:
    schema = {"columns": {"id": {"drop": True}, "income": {"bounds": [0, 10], "fill": 5}}}
    written(folder, schema=schema)
    main(report("--certificate", "c.json"))
    assert "PrivateTableEncoder" in (folder / "c.json").read_text()
    assert main(report("--bounds-are-public")) == 0
    assert (
        "Bounds and categories of the features were read off the rows"
        in (folder / "report.html").read_text()
    )


def test_columns_of_one_value_and_of_truth_values_can_be_public(folder) -> None:
    rows = table().assign(constant=3, truth=np.arange(800) % 2 == 0)
    written(folder, rows)
    assert main(report("--bounds-are-public")) == 0


def test_a_schema_may_be_yaml(folder, capsys, monkeypatch) -> None:
    yaml = pytest.importorskip("yaml")
    written(folder)
    (folder / "schema.yaml").write_text(yaml.safe_dump(SCHEMA))
    arguments = [a.replace("schema.json", "schema.yaml") for a in report()]
    assert main(arguments) == 0
    (folder / "report.html").unlink()
    monkeypatch.setitem(sys.modules, "yaml", None)
    assert "pip install PyYAML, or write the same as JSON" in refused(capsys, arguments)


def test_parquet_needs_a_reader(folder, capsys, monkeypatch) -> None:
    written(folder)
    (folder / "data.parquet").write_bytes(b"PAR1")

    def absent(path):
        raise ImportError("no pyarrow")

    monkeypatch.setattr(reading, "_parquet", absent)
    arguments = [a.replace("data.csv", "data.parquet") for a in report()]
    assert "pip install pyarrow, or give a CSV file" in refused(capsys, arguments)
    monkeypatch.setattr(reading, "_parquet", lambda path: table())
    assert main(arguments) == 0


def test_a_truth_value_is_taken_as_other_programs_write_it(folder, capsys) -> None:
    rows = table()
    rows["approve"] = np.where(rows["approve"] == 1, "TRUE", "FALSE")
    written(folder, rows)
    assert main(["plan", *report("--positive", "TRUE")[1:]]) == 0
    assert "--positive False or --positive True" in refused(capsys, report("--positive", "T"))


def test_a_second_value_of_an_option_is_told_to_repeat_it(folder, capsys) -> None:
    with pytest.raises(SystemExit):
        main([*report("--sensitive", "white", "black")])
    said = capsys.readouterr().err
    assert "unrecognized arguments: black. An option takes one value: repeat it" in said


def test_the_favourable_value_is_asked_for_and_never_guessed(folder, capsys) -> None:
    rows = table()
    rows["approve"] = np.where(rows["approve"] == 1, "yes", "no")
    written(folder, rows)
    said = refused(capsys, [part for part in report("--positive", "yes") if part not in NAMED])
    assert (
        "Name the favourable outcome of the target 'approve': --positive no or --positive yes."
        in said
    )
    assert "as the table spells it: --positive no or" in refused(
        capsys, report("--positive", "YES")
    )
    assert main(report("--positive", "yes")) == 0
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert (
        "The positive outcome is approve = yes, and the other one approve = no; the groups are "
        "the values of white." in page
    )


def test_a_saved_model_speaks_in_the_values_of_the_file(folder, capsys) -> None:
    """The lesser value is the favourable one: classes stay sorted, and rates are its rates."""
    rows = table()
    rows["approve"] = np.where(rows["approve"] == 1, "approved", "refused")
    rows["white"] = np.where(rows["white"] == "a", "x", "y")
    written(folder, rows)
    files = ["--model", "m.pkl", "--certificate", "c.json", "--held-out-is-public"]
    notions = ["--notion", "equal_opportunity", "--notion", "demographic_parity"]
    assert main(report("--positive", "approved", *files, *notions)) == 0
    model = pickle.loads((folder / "m.pkl").read_bytes())
    assert model.classes_.tolist() == ["approved", "refused"]
    assert model.positive_ == "approved"
    assert model[-1].notion == ("equalized_odds", "demographic_parity")
    answers = model.predict(rows[["income", "debt", "purpose"]])
    assert set(answers) <= {"approved", "refused"}
    assert (rows["income"][answers == "approved"]).mean() > 5.0
    certificate = Certificate.from_json((folder / "c.json").read_text(encoding="utf-8"))
    assert certificate.verify(model)
    chance, parity = certificate.fairness
    assert {count.stratum for count in chance.counts} == {"label approved"}
    told = " ".join(chance.assumptions)
    assert "The positive outcome is 'approved', and the other one 'refused'." in told
    approved = sum(count.successes for count in parity.counts)
    assert approved / sum(count.trials for count in parity.counts) == pytest.approx(
        (answers == "approved").mean(), abs=0.1
    )


def test_several_sensitive_columns_make_intersections(folder) -> None:
    rows = table().assign(old=np.where(np.arange(800) % 3 == 0, "old", "young"))
    written(folder, rows)
    assert main(report("--sensitive", "old", "--certificate", "c.json", "--monitor", "m.db")) == 0
    certificate = Certificate.from_json((folder / "c.json").read_text())
    assert len(certificate.fairness[0].groups) == 4
    # Decisions are watched in the file that it names, by the same columns.
    rows.assign(decision=np.arange(800) % 2).to_csv("d.csv", index=False)
    watch = ["monitor", "--certificate", "c.json", "--sensitive", "white", "--sensitive", "old"]
    assert main([*watch, "--tolerance", "0.5", "d.csv"]) == 0
    assert GapMonitor.from_file("m.db").n_rows_ == 800


def test_only_the_columns_with_gaps_are_called_missing(folder, capsys) -> None:
    written(folder, table().assign(old=[None, *["yes", "no"] * 399, "yes"]))
    said = refused(capsys, report("--sensitive", "old"))
    assert "'old' is missing in some rows" in said
    assert "'white'" not in said


def test_small_intersections_are_named_by_column_with_what_helps(folder, capsys) -> None:
    rows = table()
    old = np.where(np.arange(len(rows)) % 80 < 1, "yes", "no")
    written(folder, rows.assign(white=np.arange(len(rows)) % 3 % 2, old=old))
    said = refused(capsys, report("--sensitive", "old"))
    assert "'white' and 'old' together make 4 groups" in said
    assert "too few to say anything about: white = " in said
    assert " and old = yes" in said
    assert "--leave-out yes leaves all rows with this value out" in said


def changed(**columns: object) -> pd.DataFrame:
    return table().assign(**columns)


UNIQUE = [f"group {i}" for i in range(800)]
ONE_ROW = ["only"] + ["a"] * 300 + ["b"] * 499


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (table().drop(columns="approve"), "--target names 'approve', which is not a column"),
        (table().drop(columns="white"), "--sensitive names 'white', which is not a column"),
        (table().drop(columns="debt"), "schema names columns that the table lacks: debt"),
        (changed(approve=np.arange(800) % 11), "has more than 10 values; it must have two"),
        (changed(approve=np.minimum(np.arange(800) % 50, 3) % 4), "put rare values together"),
        (changed(approve=1), "has one value; it must have two"),
        (changed(approve=np.arange(800) % 50), "an age has to be cut into a few first"),
        (changed(approve=[np.nan] + [0, 1] * 399 + [1]), "'approve' is missing in some rows"),
        (changed(white="a"), "'white' makes one group; two are needed"),
        (changed(white=UNIQUE), "makes 800 groups; at most 20"),
        (changed(white=ONE_ROW), "makes 3 groups, 1 of them with fewer than 20 rows"),
        (changed(white=[None] + ["a", "b"] * 399 + ["a"]), "'white' is missing in some rows"),
        (changed(income="much"), "'income' has bounds in the schema, but holds text"),
        (changed(debt=np.nan), "'debt' has missing values"),
        (table().head(0), "data.csv has no rows"),
    ],
)
def test_tables_that_cannot_be_used_are_refused(folder, capsys, rows, message) -> None:
    written(folder, rows)
    assert message in refused(capsys, report("--ledger", "l.db"))
    assert not (folder / "l.db").exists()


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ([], "A schema is an object of columns"),
        ({}, "A schema is an object of columns"),
        ({"columns": {}}, "A schema is an object of columns"),
        ({"columns": {"a": {"bounds": [0, 1]}}, "more": 1}, "A schema is an object of columns"),
        ({"columns": {"a": [0, 1]}}, "entry for the column 'a'; allowed is 'bounds'"),
        ({"columns": {"a": {"bound": [0, 1]}}}, "entry for the column 'a'; allowed is 'bounds'"),
        ({"columns": {"a": {}}}, "must give the column 'a' one of"),
        ({"columns": {"a": {"bounds": [0, 1], "categories": ["x"]}}}, "must give the column"),
        ({"columns": {"a": {"bounds": [0, 1], "drop": True}}}, "must give the column"),
        ({"columns": {"a": {"bounds": [1, 0]}}}, "must be two numbers, [low, high]"),
        ({"columns": {"a": {"bounds": [0, "x"]}}}, "must be two numbers"),
        ({"columns": {"a": {"bounds": [0, 1], "fill": "x"}}}, "'fill' of the column 'a'"),
        ({"columns": {"a": {"bounds": [0, 1], "log": 1}}}, "'log' of the column 'a'"),
        ({"columns": {"a": {"categories": "xy"}}}, "must be a list of values"),
        ({"columns": {"a": {"categories": [["x"]]}}}, "must be a list of values"),
        ({"columns": {"a": {"categories": [{"x": 1}]}}}, "must be a list of values"),
    ],
)
def test_schemas_that_say_nothing_clear_are_refused(folder, capsys, schema, message) -> None:
    written(folder, schema=schema)
    assert message in refused(capsys, report())


def test_files_that_are_not_there_are_named(folder, capsys) -> None:
    assert "schema.json does not exist" in refused(capsys, report())
    (folder / "schema.json").write_text("{")
    assert "schema.json is not JSON" in refused(capsys, report())
    (folder / "schema.json").write_text(json.dumps(SCHEMA))
    assert "data.csv does not exist" in refused(capsys, report())
    (folder / "data.csv").write_bytes(b"\xff\xfe,\x00\x00secret")
    said = refused(capsys, report())
    assert "could not be read as a table" in said
    assert "secret" not in said
    (folder / "data.csv").write_text("a,a.1,a\n1,2,3\n")
    assert "columns 1 and 3; give each column its own name" in refused(capsys, report())


def test_outputs_are_checked_before_anything_is_spent(folder, capsys) -> None:
    written(folder)
    arguments = report("--ledger", "l.db", "--model", "no/m.pkl")
    assert "the folder no does not exist" in refused(capsys, arguments)
    assert "is a folder" in refused(capsys, report("--ledger", "l.db", "--card", "."))
    assert not (folder / "l.db").exists()


@pytest.mark.parametrize("share", ["1e-9", "0.999999999"])
def test_a_part_without_rows_is_refused_before_anything_is_spent(folder, capsys, share) -> None:
    written(folder)
    said = refused(capsys, report("--ledger", "l.db", "--held-out", share))
    assert "left a group without rows" in said
    assert not (folder / "l.db").exists()


@pytest.mark.parametrize("name", ["data.csv", "schema.json", "l.db", "./l.db", "report.html"])
def test_no_output_overwrites_another_file_of_the_command(folder, capsys, name) -> None:
    written(folder)
    spent = PrivacyLedger("l.db", "data")
    spent.reserve(None, activity="fit", estimator="Test")
    before = (folder / name).read_bytes() if (folder / name).exists() else None
    for option in ("--certificate", "--card", "--model", "--out"):
        if (option, name) == ("--out", "report.html"):
            continue
        said = refused(capsys, report("--ledger", "l.db", option, name))
        assert "give each output its own file" in said
    assert len(spent.entries()) == 1
    assert ((folder / name).read_bytes() if (folder / name).exists() else None) == before


def test_what_is_named_twice_is_refused_before_anything_is_spent(folder, capsys) -> None:
    written(folder)
    for option, name in (("--sensitive", "white"), ("--notion", "demographic_parity")):
        twice = report("--ledger", "l.db", "--mechanism", "dpsgd", option, name, option, name)
        assert f"{option} names {name!r} twice" in refused(capsys, twice)
    assert not (folder / "l.db").exists()


def test_a_fault_of_the_program_is_no_answer(folder, capsys, monkeypatch) -> None:
    def broken(*args, **kwargs):
        raise TypeError("secret")

    written(folder)
    monkeypatch.setattr("skfairdp.command_line.filing.certify", broken)
    said = refused(capsys, report(), code=4)
    assert "TypeError" in said
    assert "a fault of this program" in said
    assert "secret" not in said  # what another library says may quote a row


def test_options_that_do_not_go_together_are_refused(folder, capsys) -> None:
    written(folder)
    wrong = report("--mechanism", "dpsgd", "--threshold", "0.9")
    assert "--threshold has no meaning for --mechanism dpsgd" in refused(capsys, wrong)
    wrong = report("--no-ledger", "--budget", "1", "1e-5")
    assert "--no-ledger contradicts --ledger, --budget" in refused(capsys, wrong)


def test_a_file_that_is_no_ledger_is_refused(folder, capsys) -> None:
    written(folder)
    (folder / "l.db").write_text("notes " * 100)
    assert "not a readable privacy ledger" in refused(capsys, report("--ledger", "l.db"))


@pytest.mark.parametrize(
    "wrong",
    [
        ["--epsilon", "0"],
        ["--epsilon", "inf"],
        ["--tolerance", "1.5"],
        ["--delta", "x"],
        ["--notion", "kindness"],
        ["--mechanism", "magic"],
    ],
)
def test_wrong_options_are_usage_errors(folder, capsys, wrong) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*report(), *wrong])
    assert ended.value.code == 2
    assert wrong[0] in capsys.readouterr().err


def test_help_names_commands_and_exit_codes(capsys) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    said = capsys.readouterr().out
    for word in ("report", "verify", "ledger", "exit codes"):
        assert word in said


WITHOUT_SCHEMA = (
    *("report", "data.csv", "--target", "approve", "--positive", "1", "--sensitive", "white"),
    *("--epsilon", "1", "--quiet"),
)


def test_without_a_schema_a_part_of_epsilon_learns_the_table(folder, capsys) -> None:
    rows = table(6000)
    rows["purpose"] = rows["purpose"].where(np.arange(6000) > 0, "to pay Ms Svolvær")
    rows.to_csv("data.csv", index=False)
    more = ["--drop", "id", "--certificate", "c.json", "--model", "m.pkl", "--ledger", "l.db"]
    assert main([*WITHOUT_SCHEMA, *more]) in (0, 1)
    said = capsys.readouterr()
    assert "differences ≤ 0.05" in said.out
    certificate = Certificate.from_json((folder / "c.json").read_text())
    assert certificate.satisfies(epsilon=1.0, delta=1e-6)
    model = pickle.loads((folder / "m.pkl").read_bytes())
    assert certificate.verify(model)
    assert "id" not in model[0].feature_names_in_
    written_down = [(folder / name).read_bytes() for name in ("report.html", "c.json", "m.pkl")]
    assert all("Svolvær".encode() not in content for content in written_down)
    entries = PrivacyLedger("l.db", "data").entries()
    assert [entry.activity for entry in entries] == ["fit"]
    assert entries[0].guarantee.epsilon == 1.0


def test_all_that_is_wrong_with_a_table_is_said_at_once(folder, capsys) -> None:
    rows = table()
    rows["income"] = rows["income"].astype(object)
    rows.loc[3, "income"] = "much"
    rows["debt"] = rows["debt"].where(rows.index > 5)
    rows["approve"] = rows["approve"].map({0: "no", 1: "yes"})
    written(folder, rows)
    said = refused(capsys, report("--ledger", "l.db"))
    assert "3 things have to be mended" in said
    for column in ("'income'", "'debt'", "'approve'"):
        assert said.count(column) == 1
    assert "much" not in said
    assert not Path("l.db").exists()


def test_a_misspelt_category_is_named_and_no_value_of_the_table(folder, capsys) -> None:
    schema = json.loads(json.dumps(SCHEMA))
    listed = schema["columns"]["purpose"]["categories"]
    right, listed[0] = listed[0], "Carr"
    written(folder, schema=schema)
    said = refused(capsys, report())
    assert "'purpose'" in said
    assert "never 'Carr'" in said
    assert right not in said.replace("Carr", "")


def test_how_one_cell_spells_a_number_shows_nowhere(folder) -> None:
    rows = table().astype({"approve": str})
    rows["white"] = (rows["white"] == "a").astype(int).astype(str)
    rows.loc[0, ["approve", "white"]] = [f"{rows.loc[0, n]}.0" for n in ("approve", "white")]
    written(folder, rows)
    assert main(report("--certificate", "c.json")) == 0
    text = Path("c.json").read_text(encoding="utf-8")
    assert "The positive outcome is approve = 1, and the other one approve = 0;" in text
    assert Certificate.from_json(text).fairness[0].groups == (0, 1)


def test_identifiers_are_refused_before_anything_is_charged(folder, capsys) -> None:
    written(folder)
    said = refused(capsys, [*WITHOUT_SCHEMA, "--ledger", "l.db"])
    assert "names of identifiers" in said
    assert said.index("--person-ids id.") < said.index("--drop id.")
    assert not Path("l.db").exists()
    assert "not two" in refused(capsys, [*WITHOUT_SCHEMA, "--drop", "white"])


@pytest.mark.parametrize(
    "name",
    ["self", "class", *(pytest.param(name, marks=pytest.mark.slow) for name in ("X", "rows"))],
)
def test_a_column_may_have_any_name(folder, name) -> None:
    columns = {**SCHEMA["columns"], name: SCHEMA["columns"]["income"]}
    del columns["income"]
    written(folder, table().rename(columns={"income": name}), {"columns": columns})
    assert main(report()) == 0


def test_a_draft_tells_names_and_types_alone(folder, capsys) -> None:
    written(folder)
    assert main(["schema", "data.csv"]) == 0
    drafted = json.loads(capsys.readouterr().out)["columns"]
    assert drafted["id"] == {"drop": True}
    assert drafted["income"] == {"bounds": [None, None]}
    assert drafted["purpose"] == {"categories": []}
    (folder / "schema.json").write_text(json.dumps({"columns": drafted}))
    # As it was drafted it declares nothing; half filled in it is refused.
    drafted["income"] = {"bounds": [0, None]}
    (folder / "schema.json").write_text(json.dumps({"columns": drafted}))
    assert "'bounds' of the column 'income'" in refused(capsys, report())


@pytest.mark.parametrize("last", ["7", "abc", ""])
@pytest.mark.parametrize("declared", [None, ["1", "2"], [1, 2], [0, 9]])
def test_no_row_changes_how_others_are_read(folder, declared, last) -> None:
    cells = [*["1", "2", "inf" if declared is None else "1", "0.1234567890123456789"] * 50, last]
    rows = pd.DataFrame({"x": cells, "sex": ["f", "m", "m"] * 67, "y": [0, 1, 1] * 67})
    schema = {}
    if declared == [0, 9]:
        schema = {"x": {"bounds": (0.0, 9.0), "fill": 0.0}}
        rows["x"] = rows["x"].where(rows["x"] != "abc", "3")  # which is refused
    elif declared is not None:
        schema = {"x": {"categories": tuple(declared)}}
    others = []
    for some in (rows, rows[:-1]):
        some.to_csv("data.csv", index=False)
        people = people_of(
            read_rows(Path("data.csv"), inferred=["sex", "y"]),
            asked("y", "sex"),
            None if declared is None else schema,
        )
        others.append(people.X["x"][:200])
    pd.testing.assert_series_equal(*others)
    if declared in (["1", "2"], [1, 2]):
        counts = others[0].value_counts().to_dict()
        assert counts == {declared[0]: 100, declared[1]: 50}


def test_a_missing_cell_does_not_rename_the_categories_of_a_parquet_file(folder) -> None:
    rows = pd.DataFrame({"x": [1.0, 2.0] * 100, "sex": ["f", "m"] * 100, "y": [0, 1, 1, 0] * 50})
    for name in ("int64", "float64"):
        people = people_of(
            rows.astype({"x": name}),
            asked("y", "sex"),
            {"x": {"categories": ("1", "2")}},
        )
        assert people.X["x"].value_counts().to_dict() == {"1": 100, "2": 100}


def by_person(name: str = "id") -> list[str]:
    return [*report("--ledger", "ledger.db", "--certificate", "c.json"), "--person-ids", name]


@pytest.mark.parametrize("declared", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_a_report_by_person_promises_charges_and_holds_out_persons(
    folder, capsys, monkeypatch, declared
) -> None:
    rows = pd.concat([table(), table(seed=0)]).assign(id=lambda rows: [f"p{i}" for i in rows["id"]])
    written(folder, rows)
    seen = []
    made = filing.certify

    def watch(model, X, y, **options):
        seen.append(options["person_ids"])
        return made(model, X, y, **options)

    monkeypatch.setattr(filing, "certify", watch)
    command = by_person()
    if not declared:
        at = command.index("--schema")
        del command[at : at + 2]
    main(command)
    (entry,) = PrivacyLedger(folder / "ledger.db", "data").entries()
    assert entry.guarantee.protects == "person"
    document = json.loads((folder / "c.json").read_text())
    assert document["privacy"]["protects"] == "person"
    (ids,) = seen
    assert 2 * ids.nunique() == len(ids)  # all rows of those held out
    assert 0.15 < ids.nunique() / 800 < 0.45


@pytest.mark.filterwarnings("always::skfairdp.exceptions.PrivacyWarning")
def test_identifiers_are_looked_for_when_asked(folder, capsys) -> None:
    written(folder, table().assign(id=np.arange(800) // 2))
    broken = ["--positive", "none of them"]
    said = refused(capsys, [*report(), *broken, "--check-ids"])
    assert "several rows each, as it seems: 'id'. Epsilon is about one row" in said
    assert "'debt'" not in said
    assert "as it seems" not in refused(capsys, [*report(), *broken])


@pytest.mark.parametrize(
    ("change", "name", "message"),
    [
        ({"id": [None, *range(799)]}, "id", "missing"),
        ({"id": 0}, "id", "rows of different groups"),
        ({"id": np.arange(800) // 2, "white": ["a", "b"] * 400}, "id", "rows of different groups"),
        ({}, "white", "not two"),
        ({}, "nobody", "--person-ids names 'nobody'"),
    ],
)
def test_ids_of_persons_that_do_not_fit_are_refused_before_a_charge(
    folder, capsys, change, name, message
) -> None:
    written(folder, table().assign(**change))
    assert main(by_person(name)) == 2
    assert message in capsys.readouterr().err
    assert not (folder / "ledger.db").exists() or not PrivacyLedger("ledger.db", "data").entries()


ODD = {
    "infinite": ("inf", "1"),
    "huge": ("1e300", "-1e300"),
    "one huge value": ("1e300",),
    "negative zero": ("-0.0", "0"),
    "missing": ("",),
    "old": ("1799-12-31", "2020-02-29"),
}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow)
        if name in ("huge", "old", "negative zero")
        else name
        for name in ODD
    ],
)
def test_odd_columns_read_off_public_rows_are_taken_or_refused_before_a_charge(
    folder, capsys, name
) -> None:
    values = ODD[name]
    written(folder, table().assign(odd=[values[i % len(values)] for i in range(800)]))
    command = report("--bounds-are-public", "--ledger", "l.db", mechanism="dpsgd")
    at = command.index("--schema")
    code = main([*command[:at], *command[at + 2 :]])
    if name == "infinite":
        assert code == 2
        assert "'odd' has infinite values" in capsys.readouterr().err
        assert not PrivacyLedger("l.db", "data").entries()
    else:
        assert code in (0, 1)


@pytest.mark.parametrize("first", [1, Decimal(1), True, "1", None])
def test_equal_values_of_other_kinds_do_not_change_which_category_a_cell_is(first) -> None:
    """In a Parquet file columns may mix kinds; each cell is read by itself."""
    east, west = (pd.Timestamp("2026-01-01", tz="UTC").tz_convert(zone) for zone in ZONES)
    column = pd.Series([first, 1, Decimal(2), east, west, "x", None], dtype=object, name="c")
    read = _categories(column, [1, 2, "x", str(west), str(east)])
    assert read[1:].tolist() == [1, 2, str(east), str(west), "x", None]
    assert read[0] == (None if first is None else 1)
