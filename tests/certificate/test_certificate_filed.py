"""Tests of filed certificates: facts and sources, utility, impact ratios, templates, schema."""

from __future__ import annotations

import itertools
import json
import tomllib
from dataclasses import asdict, replace
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from jsonschema import Draft202012Validator, ValidationError
from scipy import stats
from sklearn.dummy import DummyClassifier, DummyRegressor

from skfairdp import Certificate, DPSGDClassifier, PrivacyLedger, certify
from skfairdp.certificate import render
from skfairdp.certificate.examination import examine
from skfairdp.certificate.facts import Fact
from skfairdp.certificate.group_rates import impact_ratios
from skfairdp.certificate.outcomes import Accuracy
from skfairdp.certificate.registry import ANSWERED, answers
from skfairdp.certificate.render.elements import PLAIN, Table, arranged, template_names
from skfairdp.certificate.render.html import _table
from skfairdp.certificate.signing import sign_certificate
from skfairdp.fairness.derivation import recomputed_intervals
from skfairdp.fairness.guarantee import CellCount
from skfairdp.privacy.guarantee import PrivacyGuarantee
from tests.certificate.fakes import ThresholdClassifier
from tests.certificate.forged import forged_text
from tests.certificate.render.test_html import CASES, claim, every_case

ROOT = Path(__file__).parents[2]
SCHEMA = Draft202012Validator(
    json.loads((ROOT / "docs/_static/certificate.schema.json").read_text(encoding="utf-8"))
)
RNG = np.random.default_rng(0)
N = 1200
ROWS = pd.DataFrame(RNG.normal(size=(N, 2)), columns=["income", "debt"])
LABELS = pd.Series(np.where(ROWS["income"] + RNG.normal(size=N) > 0, 1, 0), name="approved")
GROUPS = pd.DataFrame(
    {"sex": RNG.choice(["f", "m"], N), "region": RNG.choice(["n", "s"], N)}, index=ROWS.index
)


def fitted(**changes: Any) -> ThresholdClassifier:
    model = ThresholdClassifier(**changes)
    return model.fit(ROWS, LABELS, sensitive_features=[*GROUPS.itertuples(index=False, name=None)])


@pytest.fixture(scope="module")
def public() -> Certificate:
    return certify(fitted(), ROWS, LABELS, sensitive_features=GROUPS, pos_label=1, holdout="public")


@pytest.fixture(scope="module")
def page(public: Certificate) -> str:
    return public.to_html(template="eu-ai-act")


@pytest.fixture(scope="module")
def private() -> Certificate:
    return certify(
        fitted(),
        ROWS,
        LABELS,
        sensitive_features=GROUPS,
        count_epsilon=1.0,
        notion=["demographic_parity", "equalized_odds"],
    )


def facts_of(certificate: Certificate) -> dict[str, str]:
    return {fact.name: str(fact) for fact in certificate.facts}


# -- facts ----------------------------------------------------------------------------


def test_what_is_decided_about_whom_is_named_on_every_artefact(
    public: Certificate, page: str
) -> None:
    known = facts_of(public)
    assert known["target column"] == "approved (declared)"
    assert known["positive outcome"] == "approved = 1 (declared)"
    assert known["group columns"] == "sex, region (declared)"
    for text in (str(public), page, public.to_model_card(), public._repr_html_()):
        for value in ("approved = 1", "sex, region"):
            assert value in text
    stored = json.loads(public.to_json())["facts"]
    assert {"name": "group columns", "value": "sex, region", "source": "declared"} in stored
    assert Certificate.from_json(public.to_json()).facts == public.facts


def test_the_outcome_0_can_be_the_positive_one_and_is_named() -> None:
    found = facts_of(certify(fitted(), pos_label=0))
    assert found["positive outcome"] == "0 (declared)"
    assert facts_of(certify(fitted()))["positive outcome"] == "1 (assumed)"


@pytest.mark.parametrize(
    ("declared", "source"), [({}, "public"), ({"dataset_size": 100}, "declared")]
)
def test_training_rows_are_marked_by_how_they_are_known(declared: Any, source: str) -> None:
    model = DPSGDClassifier(max_epochs=1, **declared).fit(ROWS[:120], LABELS[:120])
    known = facts_of(certify(model))
    assert known["rows trained on"] == f"{declared.get('dataset_size', 120)} ({source})"
    assert known["features"] == "2: income, debt (public)"


def test_facts_of_another_model_do_not_verify(public: Certificate) -> None:
    assert public.verify(fitted())
    wrong = tuple(replace(f, value="9") if f.name == "features" else f for f in public.facts)
    assert not replace(public, facts=wrong).verify(fitted())


def test_a_fact_says_how_it_is_known() -> None:
    with pytest.raises(ValueError, match="one of"):
        Fact("rows", "10", "guessed")


# -- utility --------------------------------------------------------------------------


def test_utility_stands_beside_one_answer_for_everybody(public: Certificate, page: str) -> None:
    answers = fitted().predict(ROWS)
    measured = {name: model for name, model, _ in public.accuracy.measures}
    table = pd.crosstab(LABELS.to_numpy(), answers).to_numpy()
    recalls = table.diagonal() / table.sum(axis=1)
    assert measured == pytest.approx(
        {
            "accuracy": (answers == LABELS).mean(),
            "balanced accuracy (the AUC of yes or no)": recalls.mean(),
            "positive labels among positive answers": table[1, 1] / table[:, 1].sum(),
            "positive labels among negative answers": table[1, 0] / table[:, 0].sum(),
            "positive labels among all (base rate)": LABELS.mean(),
        }
    )
    assert "Utility: counts without noise" in page


def test_bought_utility_is_read_off_the_noisy_table_alone(private: Certificate) -> None:
    counted = [sum(map(sum, private.accuracy.table)), private.accuracy.rows]
    assert counted[0] == counted[1]
    assert private.accuracy.noisy
    assert abs(counted[0] - N) < 200
    assert private.n_rows is None
    assert "Utility: counts with noise, at ε = " in private.to_model_card()


def test_a_table_that_says_otherwise_than_its_figures_is_refused() -> None:
    with pytest.raises(ValueError, match="does not follow"):
        Accuracy(10, 9, 5, 1.0, noisy=False, table=((4, 1), (1, 4)))


IMPOSSIBLE = [
    (10, 11, 5, 3.0, False, None),
    (10, 9, -5, 9.0, False, None),
    (100, 90, 50, 1.0, False, None),  # 40 rows differ at least
    (10, 9, 5, 1.0, False, ((5, 0), (1, 4))),  # four do
    (100, 90, 50, 1.0, True, ((50, 0), (10, 40))),
    (10, 9, 5, 3.0, "no", None),
]


@pytest.mark.parametrize(("rows", "right", "constant", "error", "noisy", "table"), IMPOSSIBLE)
def test_accuracies_that_no_rows_have_are_refused(
    rows: Any, right: Any, constant: Any, error: Any, noisy: Any, table: Any
) -> None:
    with pytest.raises(ValueError, match="'accuracy'"):
        Accuracy(rows, right, constant, error, noisy, table)


def test_accuracy_of_other_rows_than_those_counted_is_found(public: Certificate) -> None:
    document = json.loads(public.to_json())
    assert examine(public).holds
    accuracy = dict.fromkeys(("rows", "right", "constant"), 7.0) | {"error": 1.0, "noisy": False}
    measure = {"measure": "accuracy", "model": 1.0, "constant_answer": 1.0}
    document["accuracy"] = accuracy
    document["derived"] |= {"utility": [measure], "nearly_constant": True}
    del document["outcomes"]  # which would contradict it, too
    document["derived"] |= {"outcomes": []}
    (wrong,) = examine(Certificate.from_json(forged_text(document))).wrong
    assert "accuracy counts 7" in wrong


@pytest.mark.parametrize("fact", [{"value": ["x"]}, {"name": 3}, {"value": ""}])
def test_facts_are_texts(public: Certificate, fact: dict[str, Any]) -> None:
    document = json.loads(public.to_json())
    document["facts"][0] |= fact
    with pytest.raises(ValueError, match="A fact needs"):
        Certificate.from_json(json.dumps(document))


def test_a_constant_model_is_flagged_wherever_it_is_shown() -> None:
    constant = certify(
        fitted(threshold=-1e9),
        ROWS,
        LABELS,
        sensitive_features=GROUPS["sex"],
        groups=["f", "m"],
        holdout="public",
    )
    assert "NEARLY CONSTANT" in str(constant)
    for text in (constant.to_model_card(), constant._repr_html_()):
        assert "Nearly constant" in text
    assert json.loads(constant.to_json())["derived"]["nearly_constant"] is True


# -- impact ratios --------------------------------------------------------------------


def test_ratios_are_of_every_group_and_of_every_column(public: Certificate) -> None:
    (deployed,) = (c for c in public.fairness if c.scope == "deployed model")
    found = {item.group: item.ratio for item in impact_ratios(deployed)}
    answers = pd.Series(fitted().predict(ROWS))
    both = answers.groupby([GROUPS["sex"], GROUPS["region"]]).mean()
    wanted = {" & ".join(group): rate / both.max() for group, rate in both.items()}
    for i, column in enumerate(GROUPS):
        rates = answers.groupby(GROUPS[column]).mean()
        for value, rate in rates.items():
            parts = [value if i == j else "any" for j in range(2)]
            wanted[" & ".join(parts)] = rate / rates.max()
    assert found == pytest.approx(wanted)


def test_intervals_of_ratios_hold_together() -> None:
    """True rates .2 and .3: all intervals hold in 95 % of samples, but for chance."""
    rng, rates, rows = np.random.default_rng(1), np.array([0.2, 0.3]), np.array([900, 800])
    failed, n = 0, 400
    for _ in range(n):
        hits = rng.binomial(rows, rates).tolist()
        counts = tuple(map(CellCount, "ab", ("", ""), hits, rows.tolist()))
        first, second = impact_ratios(claim(groups=("a", "b"), counts=counts, bound=1.0))
        failed += not (first.low <= 2 / 3 <= first.high and second.low <= 1.0 <= second.high)
    assert failed <= stats.binom.isf(1e-4, n, 0.05)
    assert first.low > 0.3
    assert first.high < 1.0


def test_intervals_of_noisy_ratios_are_those_of_the_rates_put_together(private) -> None:
    deployed = private.fairness[0]
    low, high = recomputed_intervals(deployed, 1.0 - 0.05 / 4)  # of four groups
    found = {item.group: item for item in impact_ratios(deployed)}
    for i, group in enumerate(deployed.groups):
        others = [j for j in range(4) if j != i]
        item = found[" & ".join(group)]
        assert item.low == pytest.approx(min(1.0, low[i] / high[others].max()))
        assert item.high == pytest.approx(min(1.0, high[i] / low[others].max()))


def test_noisy_margins_count_the_noise_of_all_their_parts(private: Certificate) -> None:
    whole = private.fairness[0]
    ratios = {item.group: item for item in impact_ratios(whole)}
    sexes, regions = ("f", "m", "any"), ("n", "s", "any")
    assert {*ratios, "any & any"} == {f"{sex} & {region}" for sex in sexes for region in regions}
    assert all(0.0 < item.low <= item.ratio <= item.high == 1.0 for item in ratios.values())
    # Of twice the rows and twice the noise the interval is narrower, and wider than without noise.
    exact = tuple(replace(c, noisy=False, low=None, high=None) for c in whole.counts)
    plain = {i.group: i for i in impact_ratios(replace(whole, counts=exact, derivation=None))}
    assert ratios["f & n"].low < ratios["f & any"].low <= plain["f & any"].low


def test_only_selection_rates_of_the_deployed_model_have_ratios() -> None:
    assert impact_ratios(claim("equal_opportunity")) == ()
    assert impact_ratios(claim(scope="averaged over its draws")) == ()
    assert impact_ratios(claim(counts=())) == ()


# -- templates ------------------------------------------------------------------------


def documents() -> list[Any]:
    folder = resources.files(render).joinpath("templates")
    return [tomllib.loads(file.read_text(encoding="utf-8")) for file in folder.iterdir()]


def test_templates_put_every_section_somewhere_once(public: Certificate, tmp_path: Path) -> None:
    from skfairdp.certificate.render.sections import certificate_sections

    ledger = PrivacyLedger(tmp_path / "l.db", "people")
    plain = [part.title for part in certificate_sections(public, ledger=ledger)][1:]
    annex = "Annex: random numbers and arithmetic"
    sometimes = {annex, "Other tolerances", "Scores by group", "Since then", "Who is affected"}
    assert template_names() == (PLAIN, "bias-scenario", "eu-ai-act", "nist-800-226")
    for document in documents():
        held = [title for heading in document["heading"] for title in heading["holds"]]
        assert sorted(held) == sorted({*plain, *sometimes})
        names = {line.get("fact") for h in document["heading"] for line in h.get("line", ())}
        assert names <= {
            None,
            "target column",
            "positive outcome",
            "group columns",
            "features",
            "rows trained on",
            "persons trained on",
            "alternatives",
            "reason codes",
            *(name for name, _ in answers(public, dict.fromkeys(ANSWERED, ("x",)))),
        }


@pytest.mark.parametrize("template", template_names())
def test_a_template_keeps_what_the_plain_page_says(public: Certificate, template: str) -> None:
    card = public.to_model_card(template=template, epsilon=1.0).replace("\\", "")
    assert public.sentence in card
    for assumption in (*public.privacy.assumptions, *public.fairness[0].assumptions):
        assert assumption in card
    levels = [len(line.split()[0]) for line in card.splitlines() if line.startswith("#")]
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
    assert ("Annex IV" in card) is (template == "eu-ai-act")
    if template != PLAIN:
        assert "not stated" in card
        assert "approved = 1 (declared)." in card


def test_a_template_that_there_is_not_is_refused(public: Certificate) -> None:
    with pytest.raises(ValueError, match="eu-ai-act"):
        public.to_html(template="gdpr")
    assert arranged((), PLAIN, (), ()) == ()


def test_alternatives_of_a_search_stand_beside_those_of_the_ledger(
    public: Certificate, tmp_path: Path
) -> None:
    ledger = PrivacyLedger(tmp_path / "ledger.db", "people")
    spent = PrivacyGuarantee(0.1, 0.0, "zero-out")
    with ledger.charge(spent, activity="fit", estimator="E"):
        pass
    searched = replace(public, facts=(Fact("alternatives", "12 by Search", "public"),))
    told = "12 by Search (public); the ledger below lists 1 fit or search on these data (public)."
    for template in set(template_names()) - {PLAIN}:
        assert told in searched.to_html(template=template, ledger=ledger)


# -- the published schema -------------------------------------------------------------


@every_case
def test_every_certificate_fits_the_schema(case: Certificate) -> None:
    SCHEMA.validate(json.loads(case.to_json()))


def test_certificates_that_were_made_fit_the_schema(public, private) -> None:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    Draft202012Validator.check_schema(SCHEMA.schema)
    noted = public.with_monitor("watch.json")
    texts = [public.to_json(), private.to_json(), noted.to_json(), certify(fitted()).to_json()]
    numbers = DummyRegressor().fit(ROWS, ROWS["debt"])
    errors = certify(
        numbers, ROWS, ROWS["income"], sensitive_features=GROUPS["sex"], holdout="public"
    )
    assert errors.errors is not None
    texts.append(errors.to_json())
    texts.append(sign_certificate(texts[0], Ed25519PrivateKey.generate()))
    texts += [path.read_text("utf-8") for path in (Path(__file__).parent / "stored").glob("*.json")]
    for text in texts:
        SCHEMA.validate(json.loads(text))


@pytest.mark.parametrize(
    "change",
    [
        {"privacy": {}},
        {"sentence": None},
        {"extra": 1},
        {"n_rows": -1},
        {"facts": [{"name": "rows", "value": "1", "source": "guessed"}]},
    ],
)
def test_what_is_no_certificate_does_not_fit(public: Certificate, change: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        SCHEMA.validate(json.loads(public.to_json()) | change)


def test_what_a_file_calls_derived_must_follow(public: Certificate) -> None:
    document = json.loads(public.to_json())
    assert Certificate.from_json(json.dumps(document)) == public
    document["derived"]["impact_ratios"][0]["low"] += 0.2
    with pytest.raises(ValueError, match="do not follow"):
        Certificate.from_json(json.dumps(document))
    document["derived"] = asdict(public.accuracy)
    with pytest.raises(ValueError, match="do not follow"):
        Certificate.from_json(json.dumps(document))


def test_other_cases_have_no_facts_and_are_written_as_before() -> None:
    assert "derived" not in json.loads(CASES["ordinary"].to_json())


def test_a_template_takes_answers_that_only_people_know(public: Certificate) -> None:
    about = {"justification": "Decided by the board.", "intended_use": "Hiring"}
    nist = public.to_model_card(template="nist-800-226", about=about)
    assert "were chosen: Decided by the board." in nist
    assert "Intended purpose: Hiring." in public.to_html(template="eu-ai-act", about=about)
    for template in ("nist-800-226", "plain"):
        with pytest.raises(ValueError, match="'about' names reason"):
            public.to_html(template=template, about={"reason": "x"})


def test_plain_words_name_no_favourable_outcome_of_several() -> None:
    X = np.repeat(np.arange(3), 200)[:, None]
    model = DummyClassifier(strategy="stratified", random_state=0).fit(X, X[:, 0])
    asked = {"notion": "equal_opportunity", "holdout": "public"}
    groups = np.tile(["a", "b"], 300)
    card = certify(model, X, X[:, 0], sensitive_features=groups, **asked).to_model_card()
    assert "all with the same outcome in the records. Count for how many" in card
    assert "the favourable outcome in the records" not in card


@pytest.mark.parametrize("template", sorted(set(template_names()) - {PLAIN}))
def test_the_note_of_a_template_is_one_paragraph(public: Certificate, template: str) -> None:
    assert "\\n" not in public.to_model_card(template=template)


def test_the_heading_of_names_stands_over_them_also_where_they_are_figures() -> None:
    table = Table("Suspicions", (("1 %", "2.8 %"),), ("wrongly", "rightly"), 0)
    page = _table(table)
    assert "<th scope='col'>wrongly</th>" in page
    assert "<th scope='col' class='number'>rightly</th>" in page
