"""Tests of scores by group: calibration, scoring rates, and the price of their counts."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import jsonschema
import matplotlib.pyplot as plt
import numpy as np
import pytest
from dp_accounting.dp_event import ComposedDpEvent, DiscreteLaplaceDpEvent
from scipy import stats
from sklearn.base import BaseEstimator, ClassifierMixin

from skfairdp import Certificate, PrivacyLedger, certify
from skfairdp.certificate.evaluation_settings import parts_of_epsilon
from skfairdp.certificate.examination import examine
from skfairdp.certificate.released_events import uncounted_tables
from skfairdp.certificate.render.plot import draw_calibration
from skfairdp.certificate.score_counts import BINS, ScoreCounts
from skfairdp.fairness.bounds.noisy_counts import NoisyCells, noise_variance, private_rate_intervals
from skfairdp.privacy.accounting.exposure import Exposure
from skfairdp.privacy.guarantee import PrivacyGuarantee
from skfairdp.privacy.noise import NoiseSource
from skfairdp.protocol import Certifiable
from tests.certificate.fakes import stated

SCHEMA = Path(__file__).parents[2] / "docs/_static/certificate.schema.json"
N = 4_000
RNG = np.random.default_rng(0)
GROUPS = np.where(RNG.random(N) < 0.4, "a", "b")
SCORES = RNG.random(N)
# Scores mean what they say in group b; people of group a do worse than theirs say.
LABELS = (RNG.random(N) < np.where(GROUPS == "a", 0.5 * SCORES, SCORES)).astype(int)
X = SCORES[:, None]


class Scores(ClassifierMixin, BaseEstimator):
    """Answers with the first column as its probability."""

    def fit(self, X: object, y: object = None) -> Scores:
        self.classes_ = np.array([0, 1])
        return self

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        return np.c_[1.0 - X[:, 0], X[:, 0]]

    def predict(self, X: np.ndarray) -> np.ndarray:
        return (X[:, 0] > 0.5).astype(int)


def certified(rows: np.ndarray = X, **asked: object) -> Certificate:
    model = Scores().fit(X)
    given = {"sensitive_features": GROUPS, "scores": True, "groups": ["a", "b"]}
    if "count_epsilon" not in asked:
        given["holdout"] = "public"
    return certify(model, rows, LABELS, **given | asked)


@pytest.fixture(scope="module")
def exact() -> Certificate:
    return certified(holdout="public")


@pytest.fixture(scope="module")
def bought() -> Certificate:
    return certified(count_epsilon=2.0)


def test_calibration_and_scoring_rates_follow_from_counts(exact: Certificate) -> None:
    for line in exact.scores.calibration:
        own = (line.group == GROUPS) & (np.floor(SCORES * 5) == round(line.least * 5))
        assert line.rows == own.sum()
        assert line.rate == pytest.approx(LABELS[own].mean())
        assert line.low < line.rate < line.high
    wrong = {(line.group, line.verdict) for line in exact.scores.calibration if line.least > 0.3}
    assert wrong == {("a", "too high"), ("b", "not shown to be wrong")}
    edge, share = exact.scores.median
    assert share == (edge / BINS <= SCORES).mean()
    assert abs(share - 0.5) < 0.03
    for rate in exact.scores.scoring_rates:
        assert rate.rate == (edge / BINS <= SCORES[rate.group == GROUPS]).mean()
        assert rate.low < rate.rate < rate.high
        assert rate.ratio_low <= rate.ratio <= rate.ratio_high <= 1.0


def test_rows_of_unknown_group_are_counted_and_in_no_line() -> None:
    groups = GROUPS.astype(object)
    groups[:7] = None
    found = certified(sensitive_features=groups, holdout="public")
    assert found.scores.unknown == 7
    assert sum(line.rows for line in found.scores.calibration) == N - 7
    assert "rows of unknown group: 7, outside of the claim (public)" in str(found)
    assert "who are in no line: 7." in found.to_model_card()


def test_counts_of_scores_are_paid_for_out_of_the_counts_of_answers(bought: Certificate) -> None:
    for epsilon in (2.0, 0.1, 0.3, 1e-4, 7.7):
        of_answers, of_scores = parts_of_epsilon(epsilon, scores=True)
        assert Fraction(of_answers) + Fraction(of_scores) == Fraction(epsilon)
    assert bought.outcomes.count_epsilon == 1.5
    assert bought.scores.count_epsilon == 0.5
    assert any("1.5 is that of the counts by group" in t for t in bought.privacy.assumptions) or (
        bought.privacy.is_void  # the model itself promises nothing
    )
    rates = {line.group: line for line in bought.scores.calibration if line.most == 1.0}
    assert rates["a"].verdict == "too high"


def test_every_count_is_released_with_one_draw_of_noise_at_the_epsilon_that_pays_for_it(
    monkeypatch: pytest.MonkeyPatch, exact: Certificate
) -> None:
    """Those of answers, of scores, and that of rows of unknown group."""
    asked: list[float] = []

    def marks(self: NoiseSource, epsilon: float, size: tuple[int, ...]) -> np.ndarray:
        asked.append(epsilon)
        return (1 + np.arange(np.prod(size)).reshape(size)) * len(asked)

    monkeypatch.setattr(NoiseSource, "discrete_laplace", marks)
    found = certified(count_epsilon=2.0)
    assert asked == [1.5, 0.5]
    assert (found.outcomes.count_epsilon, found.scores.count_epsilon) == (1.5, 0.5)
    answers = np.array(found.outcomes.counts).ravel()
    without = np.pad(np.array(exact.outcomes.counts), ((0, 0), (0, 1), (0, 0))).ravel()
    assert (answers - without).tolist() == [*range(1, 13)]
    bins = np.pad(np.array(exact.scores.counts), ((0, 0), (0, 1), (0, 0))).ravel()
    scores = np.array([*np.ravel(found.scores.counts), found.scores.unknown])
    assert (scores - [*bins, 0.0]).tolist() == [*range(2, 244, 2)]


def test_a_record_is_charged_for_the_counts_of_answers_and_of_scores(tmp_path: Path) -> None:
    class Private(Certifiable, Scores):
        _charges_privacy = True

        def fit(self, X: object, y: object = None) -> Private:
            self.privacy_, self.groups_, self.n_features_in_ = stated(), ("a", "b"), 1
            return super().fit(X, y)

        def _changed_since_fit(self) -> tuple[str, ...]:
            return ()

    model, asked = Private().fit(X), {"scores": True, "count_epsilon": 2.0}
    ledger = PrivacyLedger(tmp_path / "ledger", "rows")
    given = {"sensitive_features": GROUPS, "ledger": ledger}
    apart, together = (
        certify(model, X, LABELS, holdout=how, **asked, **given)
        for how in ("per_record", "by_index")
    )
    tables = ComposedDpEvent(tuple(DiscreteLaplaceDpEvent(each, 1) for each in (1.5, 0.5)))
    for entry in ledger.entries():
        assert entry.guarantee.event == tables
        assert entry.guarantee.epsilon == 2.0
    assert apart.privacy.epsilon == 2.0  # of records that are in no more than one part
    assert together.privacy.epsilon > 2.5
    for certificate in (apart, together):
        assert list(uncounted_tables(certificate.privacy, (1.5, 0.5))) == []
    missing = list(uncounted_tables(apart.privacy, (1.5, 0.25)))
    assert missing == ["the noisy counts at ε = 0.25 are not among the stated events"]


@pytest.mark.parametrize("noisy", [False, True])
def test_intervals_share_an_error_of_one_in_twenty(
    noisy: bool, exact: Certificate, bought: Certificate
) -> None:
    """Ten lines of calibration; two groups and the nineteen edges that may be the median."""
    scores = (bought if noisy else exact).scores
    table, (edge, _) = np.array(scores.counts), scores.median
    lines = table.reshape(*table.shape[:2], 5, 4).sum(axis=-1)
    found = [
        ((line.low, line.high), lines[place // 5, 1::-1, place % 5], (4, 4), 0.05 / 10)
        for place, line in enumerate(scores.calibration)
    ]
    for rate, of_group in zip(scores.scoring_rates, table.sum(axis=1), strict=True):
        counts = of_group[edge:].sum(), of_group[:edge].sum()
        terms = table.shape[1] * (BINS - edge), table.shape[1] * edge
        found.append(((rate.low, rate.high), counts, terms, 0.05 / 38))
    assert len(found) == 12
    for ends, (hits, misses), terms, error in found:
        if noisy:
            of_cells = (np.array([[each]], dtype=int) for each in (hits, misses))
            cells = NoisyCells(*of_cells, *(np.array([each]) for each in terms))
            expected = private_rate_intervals(cells, 0.5, confidence_level=1.0 - error)
        else:
            expected = (
                stats.beta.ppf(error / 2, hits, misses + 1),
                stats.beta.ppf(1 - error / 2, hits + 1, misses),
            )
        assert ends == pytest.approx(np.ravel(expected), abs=1e-6)


def test_each_count_carries_the_noise_that_is_paid_for() -> None:
    empty = ScoreCounts(("a", "b"), np.zeros((2, 3, BINS)).tolist(), 0.0)

    def variance(epsilon: float) -> float:
        noise = NoiseSource().discrete_laplace(epsilon, (empty.size,))
        return float(np.var([*np.ravel(empty.with_noise(noise, 0.5).counts)]))

    # 120 draws of excess kurtosis 3: a factor of 2 is six standard errors or more.
    assert 0.5 < variance(0.5) / noise_variance(0.5) < 2.0
    assert not 0.5 < variance(2.0) / noise_variance(0.5) < 2.0  # a quarter of the noise


def test_files_hold_scores_and_are_checked(exact: Certificate, bought: Certificate) -> None:
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    for certificate in (exact, bought):
        text = certificate.to_json()
        jsonschema.Draft202012Validator(schema).validate(json.loads(text))
        assert Certificate.from_json(text).scores == certificate.scores
        assert "calibration and scoring rates by group" in examine(certificate).recomputed
        document = json.loads(text)
        document["derived"]["scoring_rates"][0]["rate"] = 0.9
        with pytest.raises(ValueError, match="do not follow"):
            Certificate.from_json(json.dumps(document))
        page = certificate.to_html()
        assert "Scores and what came true, by group" in page
        assert "scores of 0.8 to 1 are too high" in page
    counts = [[[*bins] for bins in labels] for labels in exact.scores.counts]
    counts[0][0][3] += 1
    other = replace(exact, scores=ScoreCounts(("a", "b"), counts, 0.0))
    assert examine(other).wrong == ("scores count other rows than outcomes",)


def test_the_price_of_scores_is_no_part_of_a_promise_of_another_kind(bought: Certificate) -> None:
    promise = PrivacyGuarantee(
        epsilon=0.2,
        delta=0.0,
        adjacency="zero-out",
        protects="sensitive_features",
        accountant="pure",
        event=DiscreteLaplaceDpEvent(0.2, 1),
    )
    assert not examine(replace(bought, privacy=promise)).wrong
    # Of records the same promise leaves the counts out, or counts them in shares of other people.
    assert examine(replace(bought, privacy=replace(promise, protects="record"))).wrong
    tables = [DiscreteLaplaceDpEvent(each, 1) for each in (1.5, 0.5)]
    apart = PrivacyGuarantee(
        epsilon=2.0,
        delta=0.0,
        adjacency="add-remove",
        protects="record",
        accountant="pure",
        event=ComposedDpEvent(tables),
        exposures=tuple(map(Exposure, tables)),
    )
    together = replace(apart, exposures=(Exposure(ComposedDpEvent(tables)),))
    assert not examine(replace(bought, privacy=together)).wrong
    wrong = examine(replace(bought, privacy=apart)).wrong
    assert wrong == ("the noisy counts of a record are stated as of different records",)


def test_an_edited_certificate_gets_no_new_digest(exact: Certificate) -> None:
    document = json.loads(exact.to_json()) | {"model_name": "another"}
    edited = Certificate.from_json(json.dumps(document)).with_monitor("watch.db")
    assert edited.edited
    assert not edited.examine().holds
    assert "EDITED" in edited.to_model_card()
    assert "EDITED" not in exact.to_model_card()
    with pytest.raises(ValueError, match="was edited, so it cannot be written"):
        edited.to_json()


def test_the_epsilon_of_the_counts_is_the_one_that_is_stated(bought: Certificate) -> None:
    assert bought.examine().holds
    other = tuple(
        replace(fact, value=fact.value.replace("ε = 2", "ε = 0.2")) for fact in bought.facts
    )
    assert other != bought.facts
    wrong = replace(bought, facts=other).examine().wrong
    assert any("counted with noise, at ε = 0.2" in text for text in wrong)


def test_a_file_of_scores_of_one_group_is_refused(exact: Certificate) -> None:
    document = json.loads(exact.to_json())
    for name in ("groups", "counts"):
        document["scores"][name] = document["scores"][name][:1]
    with pytest.raises(ValueError, match="two groups"):
        Certificate.from_json(json.dumps(document))


@pytest.mark.parametrize("count_epsilon", [None, 1.0])
@pytest.mark.parametrize("shape", ["one column", "a row less", "text"])
def test_scores_of_another_shape_are_refused_without_a_charge_or_a_number_of_rows(
    shape: str, count_epsilon: float | None, tmp_path: Path
) -> None:
    class Odd(Scores):
        def predict_proba(self, X: np.ndarray) -> np.ndarray:
            found = super().predict_proba(X)
            forms = {"one column": found[:, 1], "a row less": found[1:], "text": found.astype(str)}
            return forms[shape]

    asked = {"sensitive_features": GROUPS, "groups": ["a", "b"], "count_epsilon": count_epsilon}
    asked["holdout"] = "by_index" if count_epsilon else "public"
    book = PrivacyLedger(tmp_path / "ledger.db", "people")
    with pytest.raises(ValueError, match="two columns of numbers") as refused:
        certify(Odd().fit(X), X, LABELS, scores=True, ledger=count_epsilon and book, **asked)
    assert not re.search(r"\d{2}", str(refused.value))
    assert book.entries() == ()


@pytest.mark.parametrize("score", [np.inf, -np.inf, np.nan, 1e308, -1e308])
def test_no_private_score_shows_by_an_error_or_a_warning(score: float) -> None:
    one = X.copy()
    one[0] = score
    assert sum(map(np.sum, certified(one, count_epsilon=1e3).scores.counts)) == N


def test_nothing_is_said_to_be_bought_where_nothing_was_counted() -> None:
    found = certified(count_epsilon=1.0, groups=["a"])
    assert not found.fairness
    assert "held-out rows are counted" not in {fact.name for fact in found.facts}


def test_a_file_without_its_digest_was_edited(exact: Certificate) -> None:
    document = json.loads(exact.to_json())
    assert not Certificate.from_json(json.dumps(document)).edited
    del document["content_digest"]
    assert Certificate.from_json(json.dumps(document)).edited


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"y": None}, "pass y"),
        ({"count_epsilon": 1.0, "cell_sizes": "public"}, "cell_sizes='private'"),
        ({"model": "decides"}, "whose predict_proba takes rows alone"),
        ({"model": "ranks"}, "does not depend on the other rows"),
        ({"X": np.where(X < 0.9, X, np.nan)}, "a missing number"),
        ({"X": 2.0 * X - 0.5}, "outside of 0 to 1"),
    ],
)
def test_what_has_no_scores_is_refused(asked: dict, said: str) -> None:
    class Decides(Scores):
        predict_proba = None

        def __getattribute__(self, name: str) -> object:
            if name == "predict_proba":
                raise AttributeError(name)
            return super().__getattribute__(name)

    class Ranks(Scores):
        def predict_proba(self, X: np.ndarray) -> np.ndarray:
            return super().predict_proba(X[:, 0].argsort().argsort()[:, None] / len(X))

    given = {"X": X, "y": LABELS, "sensitive_features": GROUPS, "groups": ["a", "b"]} | asked
    given["holdout"] = "by_index" if "count_epsilon" in asked else "public"
    model = {"decides": Decides, "ranks": Ranks, None: Scores}[given.pop("model", None)]()
    with pytest.raises(ValueError, match=said):
        certify(model.fit(X), scores=True, **given)


@pytest.mark.parametrize(
    "template",
    [
        "bias-scenario",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("eu-ai-act", "nist-800-226")),
    ],
)
def test_templates_put_scores_under_a_heading_of_theirs(exact: Certificate, template: str) -> None:
    assert "<h2>Scores by group</h2>" in exact.to_html()
    page = exact.to_html(template=template)
    assert "<h3>Scores by group</h3>" in page
    assert page.index("<h3>Who is affected</h3>") < page.index("<h3>Scores by group</h3>")


def test_intervals_stay_in_one_line_where_there_is_room(exact: Certificate) -> None:
    page = exact.to_html()
    assert re.search(r"<td class='number short'>0\.\d{3} to 0\.\d{3}</td>", page)
    assert ".short{white-space:nowrap}" in page


def test_lines_whose_interval_is_everything_have_no_share_on_the_page(bought: Certificate) -> None:
    scores = bought.scores
    assert scores is not None
    empty = replace(scores.calibration[0], rows=-6.0, rate=1.0, low=0.0, high=1.0)
    assert not empty.informative
    assert replace(empty, high=0.9).informative
    figure, ax = plt.subplots()
    draw_calibration([empty, *scores.calibration[1:]], ax)
    drawn = sum(len(line.get_xdata()) for line in ax.lines if line.get_marker() == "o")
    assert drawn == sum(line.informative for line in scores.calibration[1:])
    plt.close(figure)
