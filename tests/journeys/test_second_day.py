"""A second day with the command: what people type, and what they then read."""

from __future__ import annotations

import bz2
import gzip
import lzma
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import make_pipeline

from skfairdp import Certificate, DPSGDClassifier, PrivacyLedger, PrivateTableEncoder
from skfairdp.certificate.outcomes import Accuracy
from skfairdp.certificate.render import html
from skfairdp.command_line import filing, main, path_points, planning
from skfairdp.command_line.reading import read_rows
from skfairdp.command_line.request import estimator_of
from skfairdp.model_selection import PrivateSearchCV, fit_within

ASKED = ["--target", "default payment", "--positive", "0", "--sensitive", "sex", "--epsilon", "2"]


def customers(n: int = 3_000, seed: int = 0) -> pd.DataFrame:
    """Customers of a bank, some with several rows, in columns with names as they come."""
    rng = np.random.default_rng(seed)
    limit = rng.lognormal(10.0, 1.0, n)
    sex = np.where(rng.random(n) < 0.45, "m", "f")
    late = limit * np.where(sex == "m", 0.8, 1.0) < rng.lognormal(9.0, 1.0, n)
    return pd.DataFrame(
        {
            "customer": rng.integers(0, n // 2, n).astype(str),
            "self": limit.round(2),
            "has_phone": rng.integers(0, 2, n),
            "contract no": np.arange(n),
            "region": rng.choice(["north", "south", "east"], n, p=[0.6, 0.396, 0.004]),
            "sex": sex,
            "default payment": late.astype(int),
        }
    )


@pytest.fixture(autouse=True)
def brief(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Train for a few epochs and draw no pictures, in a folder of one's own."""
    made = estimator_of

    def of_few(*asked: Any) -> Any:
        return made(*asked).set_params(max_epochs=4)

    for module in (filing, planning):
        monkeypatch.setattr(module, "estimator_of", of_few)
    monkeypatch.setattr(html, "svg", lambda picture: "<svg></svg>")
    monkeypatch.chdir(tmp_path)
    rows = customers()
    rows.drop(columns=["customer", "has_phone", "contract no"]).to_csv("bank.csv", index=False)
    rows.to_csv("raw.csv", index=False)


@pytest.fixture
def told(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Run a command, and return its code and what it printed."""

    def run(*words: str) -> tuple[int, str, str]:
        code = main(list(words))
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def test_a_plan_tells_rows_chances_noise_schema_and_ledger_and_spends_nothing(told) -> None:
    code, plan, _ = told("plan", "bank.csv", *ASKED, "--tolerance", ".1")
    assert code == 0
    for part in (
        "in all       train     certify",
        "a tolerance of 0.1 would be shown with a probability of",
        "at rates near 0.1 or 0.9",
        "noise multiplier",
        "Fewer records than were shown to be enough: 2,1",
        "The noise itself allows learning: in the release",
        "2 columns are not declared",
        "Ledger before: nothing spent; after: ε = 2",
        "Nothing was spent, and nothing was written.",
    ):
        assert part in plan
    assert sorted(path.name for path in Path().iterdir()) == ["bank.csv", "raw.csv"]
    assert told("report", "bank.csv", *ASKED, "--tolerance", ".1", "--plan")[1] == plan


def test_a_first_run_is_not_said_to_use_up_the_delta_of_the_budget(told) -> None:
    budget = ("--delta", "1e-6", "--ledger", "spent.db", "--data-set", "b", "--budget", "4", "1e-4")
    _, plan, _ = told("plan", "bank.csv", *ASKED, "--tolerance", ".1", *budget)
    (line,) = (each for each in plan.splitlines() if each.startswith("Ledger before"))
    assert line.endswith("of a budget of ε = 4 (all at the budget's δ = 0.0001).")
    assert line.count("δ") == 1


def test_a_plan_for_odds_counts_each_group_and_label(told) -> None:
    asked = ("plan", "bank.csv", *ASKED, "--notion", "equalized_odds")
    _, plan, _ = told(*asked, "--base-rate", ".98")
    assert "favourable       other" in plan
    fewest = re.search(r"about (\d+) of the smallest group \(by --base-rate 0.98\)", plan)
    assert fewest is not None
    assert int(fewest[1]) < 10  # 2 % of some 400 rows: no 181 that suffice
    assert "numbers of outcomes are private, and none was looked at" in told(*asked)[1]


def test_a_run_that_can_hardly_show_its_tolerance_needs_anyway(told) -> None:
    code, _, said = told("report", "bank.csv", *ASKED, "--tolerance", ".01")
    assert code == 2
    assert "these rows can hardly show the requested tolerance" in said
    assert "Nothing was spent." in said
    assert not Path("bank.skfairdp-ledger.db").exists()


@pytest.mark.slow
def test_runs_add_up_without_a_ledger_being_named_and_under_another_name(told) -> None:
    run = (*ASKED, "--tolerance", ".2", "--quiet", "--certificate", "c.json")
    code, _, said = told("report", "bank.csv", *[a for a in run if a != "--quiet"])
    assert code in (0, 1)
    assert "charged to the ledger" in said
    assert "--no-ledger keeps no account" in said
    rows = pd.read_csv("bank.csv", dtype=str)
    rows.sample(frac=1.0, random_state=0).to_csv("renamed.csv", index=False)
    plan = told("plan", "renamed.csv", *ASKED)[1]
    assert "as 'bank'" in plan
    assert "before: ε = 2" in plan
    told("report", "renamed.csv", *run, "--scores")
    assert not Path("renamed.skfairdp-ledger.db").exists()
    scored = Path("report.html").read_text(encoding="utf-8")
    for part in ("Scores and what came true, by group", "Scoring rates", "(a noisy count"):
        assert part in scored
    key = Path("bank.skfairdp-ledger.db.key")
    assert key.stat().st_mode & 0o077 == 0  # for its owner alone, and not in the ledger
    assert key.read_bytes() not in Path("bank.skfairdp-ledger.db").read_bytes()
    book = PrivacyLedger("bank.skfairdp-ledger.db", "bank")
    assert len(book.entries()) == 2
    assert len(repr(book.totals())) < 400
    assert "total, record under zero-out" in str(book)
    _, _, said = told("report", "bank.csv", *run, "--ledger", "bank.skfairdp-ledger.db",
                      "--data-set", "other")  # fmt: skip
    assert "knows these people as 'bank'" in said
    whole = key.read_bytes()
    key.unlink()
    for table in ("bank.csv", "renamed.csv"):  # the key was deleted: nobody is taken for new
        code, _, said = told("report", table, *run)
        assert code == 2
        assert "key is missing. So these people may be those of 'bank'" in said
    remedy = re.search(r"--ledger \S+ --data-set NAME --new-ledger-key", said)
    assert remedy is not None
    named = remedy[0].replace("NAME", "bank").split()
    assert "Ledger before: ε = 4" in told("plan", "renamed.csv", *ASKED, *named)[1]
    assert not key.exists()
    key.write_bytes(whole)
    assert len(book.entries()) == 2
    page = Path("report.html").read_text(encoding="utf-8")
    assert "default payment = 0 (declared)" in page
    for part in ("In plain words", "Who is affected", "What next", "Limits of an attacker"):
        assert part in page
    assert "counts with noise, at ε = 2 (bought)" in page
    shown = Certificate.from_json(Path("c.json").read_text(encoding="utf-8"))
    assert all(0.0 <= rate.rate <= 1.0 for rate in shown.outcomes.rates)


def test_public_hold_outs_compose_as_two_fits_in_python_do(told) -> None:
    run = ("report", "bank.csv", *ASKED, "--tolerance", ".3", "--quiet", "--held-out-is-public")
    for _ in range(2):
        told(*run, "--mechanism", "dpsgd")
    (total,) = PrivacyLedger("bank.skfairdp-ledger.db", "bank").totals()
    assert total.epsilon < 3.3  # and not 4, as of two statements without events


def test_identifiers_lead_to_persons_first_and_names_that_are_none_can_be_kept(told) -> None:
    code, _, said = told("report", "raw.csv", *ASKED)
    assert code == 2
    assert "--person-ids customer" in said
    assert "has_phone" not in said  # a flag
    assert said.index("--person-ids") < said.index("--drop") < said.index("--keep")
    _, _, said = told("plan", "raw.csv", *ASKED, "--person-ids", "customer")
    assert "Leave them out: --drop 'contract no'. If they are not" in said
    more = ("--keep", "contract no", "--person-ids", "customer")
    _, _, said = told("plan", "raw.csv", *ASKED, *more)
    assert "Some person has rows of different groups" in said
    assert "Write one group into all rows of a person" in said
    _, plan, said = told("plan", "raw.csv", *ASKED, "--keep", "contract no", "--drop", "customer")
    assert said.count("\n") == 1  # Reading raw.csv
    assert "4 columns are not declared" in plan


def test_small_groups_are_named_merged_and_left_out(told) -> None:
    asked = [*ASKED, "--sensitive", "region"]
    asked.remove("--sensitive")
    asked.remove("sex")
    asked += ["--features", "self"]
    _, _, said = told("plan", "raw.csv", *asked)
    assert "1 of them with fewer than 20 rows: too few to say anything about: east." in said
    assert "--merge other=east" in said
    _, plan, _ = told("plan", "raw.csv", *asked, "--merge", "elsewhere=south,east")
    assert "  elsewhere" in plan
    assert "  east" not in plan
    _, plan, _ = told("plan", "raw.csv", *asked, "--leave-out", "east")
    assert re.findall(r"^  (\w+)  +\d", plan, re.MULTILINE) == ["north", "south"]
    _, _, said = told("plan", "raw.csv", *asked, "--leave-out", "West")
    assert "names 'West', which is no value of 'region'" in said


def test_files_as_people_have_them_are_read(told) -> None:
    text = Path("bank.csv").read_text(encoding="utf-8")
    lines = [re.sub(r"(\d)\.(\d)", r"\1,\2", line.replace(",", ";")) for line in text.split("\n")]
    Path("excel.csv").write_bytes("\n".join(lines).replace("south", "süd").encode("latin-1"))
    expected = told("plan", "bank.csv", *ASKED)[1]
    assert (
        told("plan", "excel.csv", *ASKED)[1].split("\nThis run")[0]
        == (expected.split("\nThis run")[0])
    )
    body = text.split("\n", 1)[1]
    Path("bare.csv").write_text("1.5,7,3,0\n" + body, encoding="utf-8")
    _, _, said = told("plan", "bare.csv", *ASKED)
    assert "say --no-header" in said
    blanks = text.replace(",f,0\n", ", f , \n", 3)
    Path("blank.csv").write_text(blanks, encoding="utf-8")
    _, _, said = told("plan", "blank.csv", *ASKED)
    assert "is missing in some rows" in said
    assert "--skip-blank" in said
    code, plan, _ = told("plan", "blank.csv", *ASKED, "--skip-blank")
    assert code == 0
    assert re.findall(r"^  (\w+)  +\d", plan, re.MULTILINE) == ["f", "m"]
    Path("empty.csv").write_text("", encoding="utf-8")
    assert "empty.csv is empty" in told("plan", "empty.csv", *ASKED)[2]


def test_packed_files_are_read_as_those_inside_them(told) -> None:
    text = Path("bank.csv").read_text(encoding="utf-8").replace(",", ";").encode()
    expected = told("plan", "bank.csv", *ASKED)[1].split("\nThis run")[0]
    for suffix, packed in (("gz", gzip), ("bz2", bz2), ("xz", lzma)):
        Path(f"bank.csv.{suffix}").write_bytes(packed.compress(text))
        code, plan, said = told("plan", f"bank.csv.{suffix}", *ASKED)
        assert (code, plan.split("\nThis run")[0]) == (0, expected), said
    Path("bank.zip").write_bytes(b"PK")
    code, _, said = told("plan", "bank.zip", *ASKED)
    assert code == 2
    assert "unpack it" in said
    assert ".gz, .bz2, .xz are read" in said


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("bank.xlsx", b"PK\x03\x04 and more", "a workbook"),
        ("bank.csv", b"\xef\xbb\xbfPK\x03\x04 and more", "a workbook"),
        ("bank.json", b'{"sex": {"0": "m", "1": "f"}}', "a JSON file"),
        ("rows.csv", b'[{"sex": "m"}, {"sex": "f"}]', "a JSON file"),
    ],
)
def test_files_of_other_programs_are_refused_with_what_to_do(told, name, content, kind) -> None:
    Path(name).write_bytes(content)
    code, _, said = told("plan", name, *ASKED)
    assert code == 2
    assert f"{name} is {kind}" in said
    assert "export the table as CSV" in said


def test_a_feature_with_the_name_of_the_target_is_pointed_out(told) -> None:
    rows = pd.read_csv("bank.csv")
    rows.assign(default_flag=rows["default payment"], def_=1).to_csv("twin.csv", index=False)
    asked = ("--target", "default payment", *ASKED[2:], "--keep", "default_flag")
    assert "note: the feature" not in told("plan", "twin.csv", *asked)[2]
    rows.assign(default_payment_2=rows["default payment"]).to_csv("twin.csv", index=False)
    _, _, said = told("plan", "twin.csv", *asked[:-2])
    assert said.count("note: the feature 'default_payment_2' is named like the target") == 1
    assert "--drop default_payment_2" in said


def test_targets_and_columns_as_people_name_them_lead_to_the_option(told) -> None:
    asked = ("--positive", "1", "--sensitive", "sex", "--epsilon", "1")
    _, _, said = told("plan", "bank.csv", "--target", "self", *asked)
    assert "--numeric LOW HIGH" in said
    asked = ("--target", "default payment", "--positive", "0", "--epsilon", "1")
    _, _, said = told("plan", "bank.csv", *asked, "--sensitive", "sex, region")
    assert "name several by --sensitive sex --sensitive region" in said
    several = ("--sensitive", "sex", "--sensitive", "region", "--leave-out", "east")
    _, plan, _ = told("plan", "bank.csv", *asked, *several)
    assert plan.startswith("Rows of each group by sex and region (those drawn")


def test_odd_files_are_read_or_refused_with_what_to_do(told) -> None:
    text = Path("bank.csv").read_text(encoding="utf-8")
    expected = told("plan", "bank.csv", *ASKED)[1].split("\nThis run")[0]
    lines = text.strip().split("\n")
    header, *rows = lines

    def grouped(line: str) -> str:  # 12345.5,... as 12.345,5;...
        number, *others = line.split(",")
        return ";".join([f"{float(number):,.2f}".translate(str.maketrans(",.", ".,")), *others])

    alike = {
        "trailing": [f"{line}," for line in lines],
        "single": [",".join(f"'{cell}'" for cell in line.split(",")) for line in lines],
        "thousands": [header.replace(",", ";"), *map(grouped, rows)],
    }
    for name, written in alike.items():
        Path(f"{name}.csv").write_text("\n".join(written), encoding="utf-8")
        code, plan, said = told("plan", f"{name}.csv", *ASKED)
        assert (code, plan.split("\nThis run")[0]) == (0, expected), said
    numbers = read_rows(Path("thousands.csv"))["self"]
    assert numbers.tolist() == pd.read_csv("bank.csv")["self"].tolist()
    refused = {
        "columns 1 and 2; give each column its own name": [header.replace("region", "self"), *rows],
        "a title above the names of columns?": ["Loans of 2026", *lines],
        "--sensitive sex --sensitive": [line.replace(",m,", ",f,") for line in lines],
    }
    for said, written in refused.items():
        Path("odd.csv").write_text("\n".join(written), encoding="utf-8")
        code, _, complaint = told("plan", "odd.csv", *ASKED)
        assert code == 2
        assert said in complaint
    # Cells between blanks, and rows in place of names, of which two are alike
    Path("odd.csv").write_text("sex   default\nm     1\nf     0\n", encoding="utf-8")
    assert "Save the table with commas" in told("plan", "odd.csv", *ASKED)[2]
    Path("odd.csv").write_text("m,1,1\nf,0,2\n", encoding="utf-8")
    assert "say --no-header" in told("plan", "odd.csv", *ASKED)[2]


def test_a_drafted_schema_is_taken_as_it_is_and_a_partial_one_is_completed(told) -> None:
    Path("s.json").write_text(told("schema", "bank.csv")[1], encoding="utf-8")
    code, plan, _ = told("plan", "bank.csv", *ASKED, "--schema", "s.json")
    assert code == 0
    assert "2 columns are not declared" in plan
    Path("s.json").write_text('{"columns": {"self": {"bounds": [0, 100000]}}}', encoding="utf-8")
    _, plan, _ = told("plan", "bank.csv", *ASKED, "--schema", "s.json")
    assert "1 column is not declared" in plan
    more = ("--schema", "s.json", "--certificate", "c.json", "--tolerance", ".3", "--quiet")
    assert told("report", "bank.csv", *ASKED, *more)[0] in (0, 1)
    shown = Certificate.from_json(Path("c.json").read_text(encoding="utf-8"))
    assert shown.satisfies(epsilon=2.0)


def test_refusals_name_the_pipeline_that_does_what_was_asked() -> None:
    rows = customers(200)[["self", "sex"]]
    table, classifier = PrivateTableEncoder(), DPSGDClassifier()
    over_all = PrivateSearchCV(
        make_pipeline(table, classifier), {"dpsgdclassifier__max_epochs": [1]}
    )
    with pytest.raises(ValueError, match=r"make_pipeline\(PrivateTableEncoder\(\), PrivateSearch"):
        over_all.fit(rows, rows["sex"])
    chosen = ColumnTransformer([("table", PrivateTableEncoder(), [0])])
    with pytest.raises(ValueError, match=r"PrivateTableEncoder\(columns=\{'name': 'drop'\}\)"):
        fit_within(make_pipeline(chosen, classifier), rows, rows["sex"], epsilon=1.0)


def test_a_ratio_is_asked_for_with_the_publicly_known_share(told) -> None:
    asked = ("report", "bank.csv", *ASKED, "--ratio", ".5", "--quiet")
    assert "--ratio needs --base-rate" in told(*asked)[2]
    _, said, _ = told(*asked, "--base-rate", ".7")
    assert "differences ≤ 0.35" in said
    assert re.search(r"a ratio of selection rates of at least 0.5\. (NOT s|S)hown: each is", said)
    assert "leave out --tolerance" in told(*asked, "--base-rate", ".7", "--tolerance", ".1")[2]


def answered(**more: Any) -> int:
    """Exit code of a run with a ratio that is shown, and with `more` in its certificate."""
    certificate = {
        "sentence": "",
        "satisfies": lambda epsilon, tolerance: True,
        "impact_ratios": [SimpleNamespace(low=0.85)],
        "almost_alike": False,
        "nearly_constant": False,
        "accuracy": None,
    }
    asked = {"epsilon": 1.0, "tolerance": 0.1, "tolerance_is_named": True, "ratio": 0.8}
    run: Any = SimpleNamespace(request=SimpleNamespace(**asked), ledger=None)
    return filing.ChargedReport._answer(run, SimpleNamespace(**certificate | more))  # type: ignore[arg-type]


def test_a_model_with_the_answer_among_its_features_is_not_called_good(capsys) -> None:
    assert answered(accuracy=Accuracy(1000.0, 999.0, 600.0, 22.0, noisy=True)) == 0
    assert "HARDLY EVER WRONG: " in capsys.readouterr().out


@pytest.mark.parametrize("differ", [True, False])
def test_a_ratio_that_is_shown_without_a_difference_that_is_not_is_no_success(capsys, differ):
    shown = {"satisfies": lambda epsilon, tolerance: differ}
    assert answered(**shown) == (0 if differ else 1)
    said = capsys.readouterr().out
    assert "at least 0.8. Shown: each is at least 0.85" in said
    assert ("NOT shown by this certificate" in said) is not differ


def test_groups_that_are_spelt_alike_are_asked_about(told) -> None:
    rows = pd.read_csv("bank.csv")
    rows["sex"] = np.where(rows.index % 3 == 0, rows["sex"].str.upper(), rows["sex"])
    rows.to_csv("spelt.csv", index=False)
    asked = ("plan", "spelt.csv", *ASKED)
    said = told(*asked)[1]
    assert "if they are one group: --merge F=f)" in said
    assert "--merge M=m)" in said
    merged = told(*asked, "--merge", "F=f", "--merge", "M=m")[1]
    assert "one group" not in merged
    assert re.findall(r"^  (\w+)  +\d", merged, re.MULTILINE) == ["F", "M"]


def test_a_tolerance_that_nobody_named_is_called_the_default(told) -> None:
    asked = ("plan", "bank.csv", *ASKED)
    assert "a tolerance of 0.05 (the default of --tolerance) would" in told(*asked)[1]
    assert "a tolerance of 0.05 would" in told(*asked, "--tolerance", ".05")[1]


def test_a_fault_of_the_program_can_be_traced(told, monkeypatch) -> None:
    def fault(*_: Any) -> Any:
        raise AttributeError("a cell")

    monkeypatch.setattr("skfairdp.command_line.reporting.people_of", fault)
    code, _, said = told("plan", "bank.csv", *ASKED)
    assert code == 4
    assert "--debug to see where" in said
    assert "a cell" not in said
    assert "Traceback" in told("plan", "bank.csv", *ASKED, "--debug")[2]


@pytest.mark.slow
def test_a_threshold_is_that_of_the_favourable_outcome_for_every_path_and_rate(
    told, monkeypatch
) -> None:
    made = []
    of_few = filing.estimator_of

    def watched(*asked: Any) -> Any:
        made.append(of_few(*asked))
        return made[-1]

    monkeypatch.setattr(filing, "estimator_of", watched)
    favourable = ["--threshold", ".7", "--tolerance", ".3", "--anyway", "--no-ledger", "--quiet"]
    for mechanism in ("fair-path", "rates", "fairdp"):
        asked = [*ASKED, *favourable, "--mechanism", mechanism]  # 0, the first class, is favourable
        assert told("report", "bank.csv", *asked)[0] in (0, 1)
        assert made[-1].threshold == pytest.approx(0.3)
    code, _, said = told("plan", "bank.csv", *ASKED, "--threshold", ".7", "--mechanism", "dpsgd")
    assert code == 2
    assert "--threshold has no meaning for --mechanism dpsgd" in said
    rows = customers()
    rows.assign(band=np.arange(len(rows)) % 3)[["self", "sex", "band"]].to_csv(
        "three.csv", index=False
    )
    of_three = ["--target", "band", "--sensitive", "sex", "--epsilon", "2", "--threshold", ".7"]
    code, _, said = told("plan", "three.csv", *of_three)
    assert code == 2
    assert "--threshold and --scores are about one favourable outcome of two" in said
    of_numbers = ["--target", "self", "--numeric", "0", "1e6", "--sensitive", "sex"]
    code, _, said = told("plan", "bank.csv", *of_numbers, "--epsilon", "2", "--threshold", ".7")
    assert code == 2
    assert "--numeric contradicts --threshold" in said


def test_a_plan_names_groups_that_are_too_small_and_the_options_that_help(told) -> None:
    rows = customers().drop(columns=["customer", "contract no", "has_phone"])
    sizes = {"north": 1_500, "south": 1_380, "far east": 80, "west": 40}
    rows["region"] = np.repeat([*sizes], [*sizes.values()])
    rows.to_csv("regions.csv", index=False)
    asked = [word if word != "sex" else "region" for word in ASKED]
    _, plan, _ = told("plan", "regions.csv", *asked, "--tolerance", ".15")
    assert (
        "Too small against every other group: “far east”, “west”. What helps: put them together "
        "with groups that are treated like them (--merge NEW='far east,west'), or leave them "
        "out of the training and of the claim (--leave-out 'far east')"
    ) in plan
    _, plan, _ = told("plan", "bank.csv", *ASKED, "--tolerance", ".01")
    assert "Too small" not in plan  # of all groups, so that none can be left out


def test_a_plan_names_the_tolerance_that_the_rows_can_show(told) -> None:
    _, plan, _ = told("plan", "bank.csv", *ASKED, "--tolerance", ".02")
    named = re.search(r"would show a tolerance of (0\.\d+) at rates near one half", plan)
    assert named is not None
    _, plan, _ = told("plan", "bank.csv", *ASKED, "--tolerance", named[1])
    chance = re.search(r"with a probability of about (\d+) % at rates near one half", plan)
    assert chance is not None
    assert 90 <= int(chance[1]) < 95  # at the named tolerance, rounded up
    code, _, said = told("report", "bank.csv", *ASKED, "--tolerance", ".02")
    assert (code, f"would show a tolerance of {named[1]}" in said) == (2, True)
    assert "is charged to the ledger" not in said  # nothing was


def test_messages_can_be_typed_as_they_are(told, capsys) -> None:
    rows = customers().drop(columns=["customer", "contract no", "has_phone"])
    rows["default payment"] = rows["default payment"].map({0: "1. no", 1: "2. yes"})
    rows.to_csv("spaced.csv")  # with a column of row numbers, as R and pandas write it
    asked = [word for word in ASKED if word not in ("--positive", "0")]
    _, _, said = told("plan", "spaced.csv", *asked)
    assert "--positive '1. no' or --positive '2. yes'." in said
    assert "(The column without a name in the first line is called 'Unnamed: N' here" in said
    assert "--drop 'Unnamed: 0'" in said
    with pytest.raises(SystemExit):
        told("plan", "bank.csv", *ASKED[:-2])
    assert "required: --epsilon. --epsilon limits the privacy loss" in capsys.readouterr().err


def test_groups_of_very_few_rows_are_counted_and_not_named(told) -> None:
    rows = customers().drop(columns=["customer", "contract no", "has_phone", "region"])
    rows["party"] = np.repeat(
        ["left", "right", "other", "no", "x", "y"], [1_500, 1_477, 10, 7, 3, 3]
    )
    rows.to_csv("parties.csv", index=False)
    asked = [word if word != "sex" else "party" for word in ASKED]
    _, _, said = told("plan", "parties.csv", *asked)
    assert "about: no; other; and 2 of fewer than 5, which are not named here." in said
    assert "(--merge NEW=no,other)" in said
    _, _, said = told("plan", "parties.csv", *asked, "--merge", "other=other,no")
    assert "about: and 2" not in said
    assert "(--merge NEW=other,ANOTHER), or leave them out (--leave-out other)" in said


def test_accuracies_of_other_tolerances_stay_within_1() -> None:
    rows = {"tolerance": [0.1, 0.2], "gap": [0.05, 0.1], "gap_std": [0.01, 0.01]}
    frame = pd.DataFrame({**rows, "accuracy": [0.97, 1.01], "accuracy_std": [0.02, 0.02]})
    model: Any = SimpleNamespace(path=lambda: frame)
    said = path_points.other_tolerances(model)
    assert "Noise took some accuracies above 1; they are written as 1." in said
    assert "1.010" not in said
    assert "1.000" in said
    frame.loc[1, "accuracy"] = 0.98
    assert "Noise took" not in path_points.other_tolerances(model)
    frame["tolerance"], frame["gap"], frame["gap_std"] = 0.9, 1.24, 37.0
    said = path_points.other_tolerances(model)
    assert "at the strictest point of the path noise hides it" in said.lower()
    assert "37" not in said
