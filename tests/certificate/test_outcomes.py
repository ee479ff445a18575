"""Accuracy and outcomes of a certificate: counts, their errors and how they are shown."""

from __future__ import annotations

import dataclasses
import json
import math
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from dp_accounting import dp_event
from scipy import stats
from scipy.stats import norm
from sklearn.dummy import DummyClassifier

from skfairdp import Certificate, DPSGDClassifier, certify
from skfairdp.certificate.facts import COUNTED, Fact
from skfairdp.certificate.outcomes import MEASURES, Accuracy, Outcomes
from skfairdp.certificate.registry import TO_BE_STATED, to_be_stated
from skfairdp.exceptions import FairnessWarning
from skfairdp.privacy import PrivacyGuarantee
from skfairdp.privacy.accounting.tradeoff import (
    FALSE_POSITIVES,
    largest_true_positive_rate,
    posterior,
)
from tests.certificate.fakes import ThresholdClassifier

TABLE = np.array([[[400, 20], [60, 120]], [[300, 40], [30, 30]]])


def test_a_table_is_counted():
    found = Accuracy.of_table(TABLE)
    assert (found.rows, found.right, found.constant) == (1000, 850, 760)
    assert found.error == math.sqrt(20 + 40 + 120 + 30)
    assert not found.no_better
    assert Accuracy.of_table(TABLE.sum(axis=1, keepdims=True)) is None  # without labels
    assert Accuracy.of_table(TABLE, 100.0).error == math.sqrt(210 + 4 * 100)


def test_a_model_that_is_no_better_is_called_so_as_often_as_it_should():
    # Right where the constant answer is wrong as often as the other way round.
    rng = np.random.default_rng(0)
    beaten = 0
    for _ in range(2000):
        gained, lost = rng.multinomial(1000, [0.05, 0.05, 0.9])[:2]
        table = np.array([[[800 - lost, lost], [200 - gained, gained]]])
        beaten += not Accuracy.of_table(table).no_better
    assert 0.03 < beaten / 2000 < 0.07
    assert stats.norm.isf(0.05) == pytest.approx(1.645, abs=1e-3)


def test_a_model_must_beat_every_label_and_not_the_one_that_is_most_frequent_by_chance():
    """Its accuracy is that of the label that truly is: at most .05 of tables may say more."""
    rng = np.random.default_rng(0)
    # By (label, answer): as accurate as the second label for everybody, .501.
    chances = [0.499, 0.0, 0.499, 0.002]
    assert chances[0] + chances[3] == pytest.approx(chances[2] + chances[3])
    better = by_one_label = 0
    for _ in range(2000):
        found = Accuracy.of_table(rng.multinomial(10_000, chances).reshape(1, 2, 2))
        better += not found.no_better
        # The broken twin: the error of the one label that won.
        (_, false), (missed, positive) = found.table
        first = found.table[0][0] + false >= missed + positive
        error = math.sqrt(max(positive + false if first else found.table[0][0] + missed, 1.0))
        by_one_label += found.right - found.constant >= 1.645 * error
    assert better <= 0.05 * 2000 + 4 * (0.05 * 0.95 * 2000) ** 0.5  # fails with a chance of 3e-5
    assert by_one_label > 0.3 * 2000


def test_a_model_that_is_worse_is_not_called_as_good():
    worse, alike = [[600, 100], [250, 50]], [[690, 10], [290, 10]]
    assert "NO BETTER THAN A CONSTANT: it is worse." in str(Accuracy.of_table(np.array([worse])))
    assert "the difference is within its error." in str(Accuracy.of_table(np.array([alike])))


def test_a_model_that_is_hardly_ever_wrong_is_said_to_have_seen_the_answer() -> None:
    def said(*table: list[int], noise: float = 0.0) -> str:
        return str(Accuracy.of_table(np.array([table]), noise))

    assert "HARDLY EVER WRONG: " in said([853, 1], [0, 1001])
    assert "HARDLY EVER WRONG: " in said([853, 1], [-2, 1001], noise=4.0)
    for honest in ([850, 60], [60, 1000]), ([990, 0], [10, 0]), ([960, 10], [20, 10]):
        assert "HARDLY EVER WRONG" not in said(*honest)


@pytest.mark.parametrize("count_epsilon", [None, pytest.param(1.0, marks=pytest.mark.slow)])
def test_certificates_show_it(count_epsilon):
    rng = np.random.default_rng(0)
    y = (rng.random(2000) < 0.3).astype(int)
    X, groups = y[:, None] + rng.normal(scale=0.3, size=(2000, 1)), np.tile(["a", "b"], 1000)
    bought = {"count_epsilon": count_epsilon, "groups": ["a", "b"]}
    settings = {"sensitive_features": groups}
    settings |= bought if count_epsilon else {"holdout": "public"}
    model = ThresholdClassifier((1.0,), 0.5).fit(X, y)
    good = certify(model, X, y, **settings)
    constant = certify(DummyClassifier().fit(X, y), X, y, **settings)
    assert good.accuracy.right / good.accuracy.rows == pytest.approx(0.95, abs=0.02)
    assert not good.nearly_constant
    assert constant.nearly_constant
    assert certify(model, X, **settings).accuracy is None
    for text in (str(constant), constant.to_html(), constant.to_model_card()):
        assert "NO BETTER THAN A CONSTANT" in text
    again = Certificate.from_json(constant.to_json())
    assert again.accuracy == constant.accuracy
    coin = certify(ThresholdClassifier((1.0,), 0.5).fit(X, y), X, y[::-1], **settings)
    assert "No better than a constant" in coin.to_html()
    assert "Nearly constant" not in coin.to_html()
    document = json.loads(constant.to_json()) | {"accuracy": {"rows": -1}}
    with pytest.raises(ValueError, match="certificate"):
        Certificate.from_json(json.dumps(document))
    with pytest.raises(ValueError, match="rows"):
        dataclasses.replace(constant.accuracy, rows=0)


CHECKS_TRAINING_ROWS = True
BOUNDS_ATTACKERS = True
N = 1_500


@pytest.fixture(scope="module")
def people() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    group = np.where(rng.random(2 * N) < 0.4, "a", "b")
    x = rng.uniform(-1.0, 1.0, 2 * N)
    label = (x + 0.4 * (group == "b") + rng.normal(0.0, 0.3, 2 * N) > 0.0).astype(int)
    return pd.DataFrame({"x": x, "group": group, "hired": label})


@pytest.fixture(scope="module")
def model(people: pd.DataFrame) -> DPSGDClassifier:
    trained = people[:N]
    fit = DPSGDClassifier(epsilon=1.0, max_epochs=3).fit
    return fit(trained[["x"]], trained["hired"], sensitive_features=trained["group"])


@pytest.fixture(scope="module")
def found(model: DPSGDClassifier, people: pd.DataFrame) -> Certificate:
    return certified(model, people[N:], count_epsilon=1.0, holdout="per_record")


def certified(model: DPSGDClassifier, rows: pd.DataFrame, **asked: object) -> Certificate:
    return certify(model, rows[["x"]], rows["hired"], sensitive_features=rows["group"], **asked)


def test_rates_by_group_follow_from_exact_counts(model, people) -> None:
    held = people[N:]
    counted = certified(model, held, holdout="public").outcomes
    answers = model.predict(held[["x"]])
    for rate in counted.rates:
        own = (held["group"] == rate.group).to_numpy()
        y, given = held["hired"].to_numpy()[own], answers[own]
        expected = {
            "gets": given.mean(),
            "positive": given[y == 1].mean(),
            "other": given[y == 0].mean(),
            "decided": (given == y).mean(),
        }[rate.measure.split()[0].rstrip(",")]
        assert rate.rate == pytest.approx(expected)
        assert rate.low <= expected <= rate.high


def test_noisy_outcomes_are_those_of_the_claim_and_survive_json(found) -> None:
    again = Certificate.from_json(found.to_json())
    assert again.outcomes == found.outcomes
    assert "rates of outcomes by group" in again.examine().recomputed
    first, *others = found.outcomes.counts
    (negative, positive), *labels = first
    other = ((negative, positive + 5.0), *labels), *others
    wrong = replace(found, outcomes=replace(found.outcomes, counts=other))
    assert any("outcomes" in text for text in wrong.examine().wrong)
    text = found.to_json().replace('"measure": "gets', '"measure": "lacks')
    with pytest.raises(ValueError, match="'derived' do not follow"):
        Certificate.from_json(text)


def test_intervals_of_all_groups_and_measures_hold_together() -> None:
    """200 tables: 25 misses of the 10 expected at most have a probability below 1e-4."""
    rng, missed = np.random.default_rng(1), 0
    truth = rng.dirichlet(np.ones(4), 2).reshape(2, 2, 2)
    for _ in range(200):
        table = np.stack([rng.multinomial(400, t.ravel()).reshape(2, 2) for t in truth])
        outcomes = Outcomes.of_table(("a", "b"), table, None)
        within = []
        for rate in outcomes.rates:
            of = truth["ab".index(rate.group)]
            hits, others = (
                sum(of[c] for c in cells if c[0] < 2) for cells in MEASURES[rate.measure]
            )
            within.append(rate.low <= hits / (hits + others) <= rate.high)
        missed += not all(within)
    assert missed < 25


@pytest.mark.parametrize("sigma", [0.7, 2.0, 5.0])
def test_an_attacker_of_gaussian_noise_reaches_what_its_trade_off_function_says(sigma) -> None:
    """Neyman and Pearson's test of two normal distributions, which no accountant computes."""
    event = dp_event.GaussianDpEvent(sigma)
    stated = PrivacyGuarantee(40.0, 1e-6, "zero-out", event=event)
    for alpha in FALSE_POSITIVES:
        exact = norm.cdf(norm.ppf(alpha) + 1.0 / sigma)
        reached = largest_true_positive_rate(stated, alpha)
        assert exact - 1e-9 <= reached <= exact + 1e-3
    broken = replace(stated, event=dp_event.GaussianDpEvent(sigma / 4.0))
    assert largest_true_positive_rate(broken, 0.1) > exact + 1e-3


def test_an_attacker_without_events_has_the_two_lines_of_epsilon_and_delta() -> None:
    stated = PrivacyGuarantee(1.0, 1e-6, "zero-out")
    assert largest_true_positive_rate(stated, 0.1) == pytest.approx(0.1 * math.e + 1e-6)
    assert largest_true_positive_rate(stated, 0.9) == pytest.approx(1 - 0.1 / math.e, abs=1e-6)
    assert posterior(stated) == pytest.approx(0.731, abs=1e-3)
    assert largest_true_positive_rate(PrivacyGuarantee.void("no noise"), 0.1) == 1.0


def test_a_registry_entry_is_valid_and_asks_for_one_field_alone(found, data_home) -> None:
    yaml, jsonschema = pytest.importorskip("yaml"), pytest.importorskip("jsonschema")
    schema = Path(data_home) / "deployments-schema.yaml"
    if not schema.exists():
        pytest.skip("the registry's schema is not there")
    checker = jsonschema.Draft7Validator(yaml.safe_load(schema.read_text(encoding="utf-8")))
    entry = found.to_registry()
    assert not list(checker.iter_errors(entry))
    basic = {"name", "data_curators", "intended_use", "data_product_region"}
    people_know = {"url_slug", "registry_authors", *basic}
    assert set(to_be_stated(entry)) - people_know == {"name", "justification"} - people_know
    about = {"name": "Hiring", "data_curators": ["A"], "justification": "By vote."}
    told = found.to_registry(about)
    assert not list(checker.iter_errors(told))
    assert told["deployment"]["basic"]["name"] == "Hiring"
    assert found.to_registry()["deployment"]["implementation"]["justification"] == TO_BE_STATED
    with pytest.raises(ValueError, match="'about' names nmae"):
        found.to_registry({"nmae": "x"})
    with pytest.raises(ValueError, match="must be a list of names"):
        found.to_registry({"data_curators": "A"})


def test_a_page_says_who_is_affected_what_is_next_and_what_an_attacker_reaches(found) -> None:
    card = found.to_model_card(tolerance=0.2, epsilon=1.0)
    for heading in ("In plain words", "Who is affected", "What next", "Limits of an attacker"):
        assert heading in card
    assert card.index("In plain words") < card.index("Not claimed")
    assert card.index("Annex: random numbers") > card.index("Not claimed")
    annex = card[card.index("Annex: random numbers") :]
    assert "noise from" in annex
    assert "the contribution of a row to a sum" in annex
    scenario = found.to_model_card(template="bias-scenario", tolerance=0.2)
    for row in ("Groups", "Hazard", "Measure", "Threshold", "Mitigation", "Review trigger"):
        assert f"| {row} | " in scenario  # one below the other: a phone has no room for six
    nist = found.to_model_card(template="nist-800-226")
    for answered in ("Variant of differential privacy: Approximate DP", "Side channels: timing"):
        assert answered in nist


def test_a_page_asks_for_another_look_at_features_where_the_model_hardly_errs(found) -> None:
    too_good = dataclasses.replace(found, accuracy=Accuracy(1000.0, 999.0, 600.0, 22.0, noisy=True))
    text = "Do not deploy it yet. HARDLY EVER WRONG: "
    assert text in too_good.to_model_card()
    assert text not in found.to_model_card()


@pytest.mark.slow
def test_tables_fit_a_phone_whatever_the_number_of_groups(model, people) -> None:
    held = people[N:]
    race = np.array(["w", "x", "y"])[np.arange(len(held)) % 3]
    several = pd.DataFrame({"sex": held["group"], "race": race})
    asked = {"scores": True, "count_epsilon": 1.0, "holdout": "per_record"}
    certificate = certify(
        model, held[["x"]], held["hired"], sensitive_features=several,
        groups=[(sex, race) for sex in "ab" for race in "wxy"], **asked,
    )  # fmt: skip
    card = certificate.to_model_card(template="bias-scenario", tolerance=0.2)
    heads = [line for line in card.splitlines() if line.startswith("| Group |")]
    shares = "gets the positive outcome | true-positive rate | false-positive rate | accuracy |"
    assert f"| Group | {shares}" in heads
    assert "false-positive rate: somebody with another label gets it." in card
    assert max(line.count("|") for line in heads) == 6  # five columns


def test_rows_that_were_trained_on_are_refused_unless_it_is_said(model, people) -> None:
    with pytest.raises(ValueError, match="trained on many of these rows"):
        certified(model, people[:N], holdout="public")
    with pytest.raises(ValueError, match="holdout='training' counts protected rows"):
        certified(model, people[:N], holdout="training")
    said = certified(model, people[:N], holdout="training", count_epsilon=0.5)
    assert not said.fairness
    assert not said.satisfies(tolerance=0.99)
    assert "from which no bound for other people follows" in str(said)
    assert 1.4 < said.privacy.epsilon <= 1.5  # the counts are of the same rows


@pytest.mark.parametrize("names", [("no", "yes"), (1, 2), (0, 1), (False, True), (-1, 1)])
def test_nobody_guesses_what_is_favourable_in_silence(people, names) -> None:
    labels = pd.Series(np.array(names)[people["hired"]], name="hired")
    model = DPSGDClassifier(epsilon=1.0, max_epochs=1)
    model.fit(people[:N][["x"]], labels[:N], sensitive_features=people["group"][:N])
    held = people[N:]
    asked = model, held[["x"]], labels[N:]
    options = {"sensitive_features": held["group"], "holdout": "public"}
    by_convention = names not in [("no", "yes"), (1, 2)]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        guessed = certify(*asked, **options)
    assert by_convention is not any("Nobody said which" in str(w.message) for w in caught)
    assert f"positive outcome: hired = {names[1]} (assumed)" in str(guessed)
    with pytest.warns(FairnessWarning, match="'default' sounds like a harm"):
        certify(*asked[:2], labels[N:].rename("default"), **options)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        said = certify(*asked, **options, pos_label=names[0])
    assert f"positive outcome: hired = {names[0]} (declared)" in str(said)


def test_exact_counts_are_said_to_be_public_or_bought(model, people) -> None:
    held = people[N:]
    plain = DummyClassifier().fit(held[["x"]], held["hired"])  # promises nothing to anybody
    for any_model in (model, plain):
        with pytest.raises(ValueError, match="holdout was not given") as refused:
            certified(any_model, held)
        for remedy in ("holdout='public'", "count_epsilon", "holdout='training'"):
            assert remedy in str(refused.value)
    with pytest.raises(ValueError, match="rows that need protection need count_epsilon"):
        certified(model, held, holdout="by_person", person_ids=np.arange(N))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        public = certified(model, held, holdout="public")
        bought = certified(model, held, holdout="per_record", count_epsilon=1.0)
        by_method = model.certify(
            held[["x"]], held["hired"], sensitive_features=held["group"], holdout="public"
        )
        certify(plain, held[["x"]], sensitive_features=held["group"], holdout="public")
    assert "without noise, as public rows (declared)" in str(public)
    assert "with noise, at ε = 1 (bought)" in str(bought)
    assert by_method == public


def test_a_certificate_stored_while_nobody_had_to_call_rows_public_still_verifies(
    model, people
) -> None:
    public = certified(model, people[N:], holdout="public")
    unsaid = Fact(COUNTED, "without noise; nobody said that they are public", "assumed")
    facts = tuple(unsaid if fact.name == COUNTED else fact for fact in public.facts)
    stored = Certificate.from_json(dataclasses.replace(public, facts=facts).to_json())
    assert stored.verify(model)
    assert "nobody said that they are public" in str(stored)
    other = dataclasses.replace(unsaid, value="without noise")
    facts = tuple(other if fact.name == COUNTED else fact for fact in public.facts)
    assert not dataclasses.replace(public, facts=facts).verify(model)
