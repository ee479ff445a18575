from __future__ import annotations

import dataclasses
import re

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline

from skfairdp import certify
from skfairdp.exceptions import UnknownGroupError
from skfairdp.fairness import Notion
from skfairdp.fairness.bounds.rate_gaps import gap_upper_bound, score_gap_upper_bound
from skfairdp.fairness.notions import pairs
from skfairdp.preprocessing import PublicScaler
from skfairdp.privacy import NoiseSource
from tests.certificate.fakes import ThresholdClassifier


def rates(rows, selected):
    hits = [int(selected[rows.groups == g].sum()) for g in ("a", "b")]
    return hits, [int((rows.groups == g).sum()) for g in ("a", "b")]


def test_deployed_bound_is_that_of_the_counts(model, rows):
    certificate = certify(model, rows.X, sensitive_features=rows.groups, holdout="public")
    hits, sizes = rates(rows, model.predict(rows.X))
    claim = certificate.fairness[0]
    assert claim.bound == gap_upper_bound(hits, sizes)
    assert claim.estimate == pytest.approx(abs(hits[0] / sizes[0] - hits[1] / sizes[1]))
    assert [(c.group, c.successes, c.trials) for c in claim.counts] == [
        ("a", hits[0], sizes[0]),
        ("b", hits[1], sizes[1]),
    ]
    assert claim.scope == "deployed model"
    assert certificate.n_rows == 600
    assert certificate.satisfies(tolerance=claim.bound)
    assert not certificate.satisfies(tolerance=claim.bound - 1e-9)


def test_difference_form_is_the_other_bound(model, rows):
    claim = certify(
        model, rows.X, sensitive_features=rows.groups, bound="difference", holdout="public"
    ).fairness[0]
    hits, sizes = rates(rows, model.predict(rows.X))
    assert claim.bound == gap_upper_bound(hits, sizes, bound="difference")


@pytest.mark.parametrize("convert", [list, np.asarray, pd.Series, pd.DataFrame])
def test_groups_and_labels_come_in_every_container(model, rows, convert):
    expected = certify(
        model,
        rows.X,
        rows.y,
        sensitive_features=rows.groups,
        notion="equalized_odds",
        holdout="public",
    )
    labels = rows.y.tolist() if convert is list else rows.y
    found = certify(
        model,
        rows.X,
        pd.Series(labels, index=np.arange(600) + 7) if convert is pd.Series else labels,
        sensitive_features=convert(rows.groups),
        notion="equalized_odds",
        holdout="public",
    )
    assert found == expected


def test_several_notions_share_the_error(model, rows):
    notions = ["demographic_parity", "equal_opportunity"]
    certificate = certify(
        model, rows.X, rows.y, sensitive_features=rows.groups, notion=notions, holdout="public"
    )
    hits, sizes = rates(rows, model.predict(rows.X))
    claim = certificate.fairness[0]
    assert claim.bound == gap_upper_bound(hits, sizes, confidence_level=0.975)
    assert claim.confidence_level == 0.95
    assert any("shared by 2 claims" in text for text in claim.assumptions)


def test_planned_certificates_share_the_error_and_say_which_they_are(model, rows):
    claim = certify(
        model,
        rows.X,
        sensitive_features=rows.groups,
        n_certificates=5,
        certificate_index=2,
        holdout="public",
    ).fairness[0]
    hits, sizes = rates(rows, model.predict(rows.X))
    assert claim.bound == pytest.approx(gap_upper_bound(hits, sizes, confidence_level=0.99))
    assert any("number 2" in text and "of 5" in text for text in claim.assumptions)
    later = certify(
        model, rows.X, sensitive_features=rows.groups, certificate_index=3, holdout="public"
    )
    assert any("not for the best of several" in text for text in later.fairness[0].assumptions)


@pytest.mark.parametrize("check_ids", ["yes", 1, None])
def test_whether_to_look_for_ids_is_true_or_false(model, rows, check_ids):
    with pytest.raises(ValueError, match="check_ids=.* give True or False"):
        certify(model, rows.X, check_ids=check_ids, holdout="public")


def test_unknown_group_raises(model, rows):
    with pytest.raises(UnknownGroupError):
        certify(
            model,
            rows.X,
            sensitive_features=np.where(rows.groups == "a", "c", "b"),
            holdout="public",
        )


def test_a_known_group_without_rows_leaves_no_useful_bound(model, rows):
    half = slice(0, 300)
    certificate = certify(
        model, rows.X[half], sensitive_features=rows.groups[half], holdout="public"
    )
    assert certificate.fairness[0].bound == 1.0
    assert certificate.sentence.startswith("No useful bound")
    assert "1.0000" not in str(certificate)


def test_rows_without_a_group_are_outside_the_claim(model, rows):
    groups = rows.groups.astype(object)
    groups[:7] = None
    certificate = certify(model, rows.X, sensitive_features=groups, holdout="public")
    assert certificate.n_rows == 593
    assert any("7 were left out" in text for text in certificate.fairness[0].assumptions)
    kept = certify(model, rows.X[7:], sensitive_features=groups[7:], holdout="public")
    assert kept.fairness[0].bound == certificate.fairness[0].bound


def test_without_groups_nothing_is_claimed_about_them(model, rows):
    certificate = certify(model, rows.X, rows.y, holdout="public")
    assert all(claim.scope != "deployed model" for claim in certificate.fairness)
    assert "No sensitive_features" in certificate.remarks[0]


def test_a_model_fitted_without_groups_can_be_evaluated_with_them(rows):
    model = ThresholdClassifier().fit(rows.X, rows.y)
    certificate = certify(model, rows.X, sensitive_features=rows.groups, holdout="public")
    assert certificate.fairness[0].groups == ("a", "b")


def test_declared_groups_replace_those_of_the_fit(model, rows):
    other = np.where(rows.X[:, 1] > 0, "north", "south")
    certificate = certify(
        model, rows.X, sensitive_features=other, groups=["north", "south"], holdout="public"
    )
    assert certificate.fairness[0].groups == ("north", "south")


def test_one_group_allows_no_claim(rows):
    model = ThresholdClassifier().fit(rows.X, rows.y)
    certificate = certify(model, rows.X, sensitive_features=["x"] * 600, holdout="public")
    assert certificate.fairness == ()
    assert "Only one group" in certificate.remarks[0]


def test_string_labels_and_many_classes_are_evaluated():
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(900, 2)), rng.choice(["red", "green", "blue"], 900)
    model = LogisticRegression().fit(X, y)
    certificate = certify(
        model,
        X,
        y,
        sensitive_features=rng.integers(2, size=900),
        notion="equalized_odds",
        holdout="public",
    )
    strata = {count.stratum for count in certificate.fairness[0].counts}
    assert len(strata) == 9
    assert "label red, prediction blue" in strata


def negatives(classes):
    return [("those to be refused", pairs(classes, label=0), pairs(classes, prediction=1))]


def test_rows_of_a_notion_of_yours_are_a_part_whatever_it_calls_them(model, rows):
    notion = Notion(
        name="predictive_equality",
        rates="false positive rates",
        meaning="The share of those to be refused who are not.",
        needs_labels=True,
        cells=negatives,
    )
    certificate = certify(
        model, rows.X, rows.y, sensitive_features=rows.groups, notion=notion, holdout="public"
    )
    assert certificate.examine().holds
    # Those who have no part in the notion are known where all answers are counted, and only there.
    assert not dataclasses.replace(certificate, n_rows=601).examine().holds
    assert dataclasses.replace(certificate, n_rows=601, accuracy=None).examine().holds
    assert not dataclasses.replace(certificate, n_rows=9).examine().holds
    known = certify(model, rows.X, sensitive_features=rows.groups, holdout="public")
    assert known.examine().holds
    assert not dataclasses.replace(known, n_rows=601).examine().holds


def test_random_predictions_are_counted_and_their_probabilities_averaged_apart(rows):
    model = ThresholdClassifier(spread=1.0).fit(rows.X, rows.y, sensitive_features=rows.groups)
    deployed, averaged, _ = certify(
        model, rows.X, sensitive_features=rows.groups, holdout="public"
    ).fairness
    hits, sizes = rates(rows, model.predict(rows.X))
    assert deployed.scope == "deployed model"
    assert deployed.bound == gap_upper_bound(hits, sizes)
    scores = model._success_scores(rows.X)
    sums = [scores[rows.groups == g].sum() for g in ("a", "b")]
    assert averaged.scope == "averaged over its draws"
    assert averaged.bound == pytest.approx(score_gap_upper_bound(sums, [300, 300]))
    assert any("people with equal rows share it" in text for text in averaged.assumptions)
    assert any("in addition to that of the bound" in text for text in averaged.assumptions)


def test_private_counts_are_of_the_answers_and_not_of_draws_made_for_the_count(rows):
    model = ThresholdClassifier(spread=1.0).fit(rows.X, rows.y, sensitive_features=rows.groups)
    certificate = certify(
        model, rows.X, sensitive_features=rows.groups, count_epsilon=900.0, cell_sizes="public"
    )
    claim = certificate.fairness[0]
    hits, _ = rates(rows, model.predict(rows.X))
    # At 900 nats a count is off with probability 2 exp(-900).
    assert [count.successes for count in claim.counts] == hits
    assert {c.scope for c in certificate.fairness} == {"deployed model", "training mechanism"}


@pytest.mark.parametrize("spread", [None, pytest.param(1.0, marks=pytest.mark.slow)])
@pytest.mark.parametrize("cell_sizes", ["private", "public"])
def test_private_counts_show_only_noisy_figures(rows, spread, cell_sizes):
    model = ThresholdClassifier(spread=spread).fit(rows.X, rows.y, sensitive_features=rows.groups)
    certificate = certify(
        model,
        rows.X,
        rows.y,
        sensitive_features=rows.groups,
        count_epsilon=0.5,
        cell_sizes=cell_sizes,
        notion=["demographic_parity", "equalized_odds", "equal_opportunity"],
    )
    plain = certify(model, rows.X, sensitive_features=rows.groups, holdout="public")
    claim, odds, opportunity = certificate.fairness[:3]
    assert certificate.n_rows is None
    assert re.search(r"(?<![.\d])600\b", str(certificate)) is None  # 0.600 is no count
    assert all(count.noisy for count in claim.counts + odds.counts)
    if cell_sizes == "private":
        assert claim.bound > plain.fairness[0].estimate
    # One table serves all notions: the same noisy entries are in the counts of two of them.
    shared = {(c.group, c.successes, c.trials) for c in odds.counts}
    assert {(c.group, c.successes, c.trials) for c in opportunity.counts} <= shared
    # Of parity too, but for that of rows without a label, of which there are none (noise above 60
    # has a probability of 1e-13).
    for group in ("a", "b"):
        parity = sum(c.successes for c in claim.counts if c.group == group)
        assert abs(parity - sum(c.successes for c in odds.counts if c.group == group)) < 60


def test_noise_of_private_counts_is_fresh_and_reproducible_only_by_request(model, rows):
    few, groups = rows.X[:60], rows.groups[:60]

    def successes(**kwargs):
        certificate = certify(model, few, sensitive_features=groups, count_epsilon=0.2, **kwargs)
        return [count.successes for count in certificate.fairness[0].counts], certificate

    # Four fresh pairs agree with probability below 1e-7.
    fresh = {tuple(successes()[0]) for _ in range(4)}
    assert len(fresh) > 1
    one, certificate = successes(count_noise=NoiseSource(0))
    assert one == successes(count_noise=NoiseSource(0))[0]
    assert certificate.privacy.is_void
    assert "reproducible" in certificate.privacy.assumptions[0]


def test_private_rows_of_unknown_groups_or_labels_raise_nothing(model, rows):
    groups = rows.groups.astype(object)
    groups[:5] = "other"
    labels = rows.y.astype(object)
    labels[10] = 7
    certify(
        model,
        rows.X,
        labels,
        sensitive_features=groups,
        count_epsilon=1.0,
        notion="equal_opportunity",
    )


@pytest.mark.parametrize("given", [False, True])
def test_private_rows_without_a_label_count_where_no_label_is_compared(model, rows, given):
    """Labels that are known of those alone who were accepted would make selection rates equal."""
    labels = np.where(model.predict(rows.X) == 1, rows.y, np.nan)
    certificate = certify(
        model, rows.X, labels if given else None, sensitive_features=rows.groups, count_epsilon=50.0
    )
    selected = model.predict(rows.X) == 1
    rates = [selected[rows.groups == group].mean() for group in np.unique(rows.groups)]
    claim = certificate.fairness[0]
    assert claim.estimate == pytest.approx(max(rates) - min(rates))  # no noise at this epsilon
    assert claim.bound > claim.estimate > 0.0


def test_private_rows_without_a_label_are_outside_what_compares_labels(model, rows):
    labels = np.where(model.predict(rows.X) == 1, rows.y, np.nan)
    (claim,) = certify(
        model, rows.X, labels, sensitive_features=rows.groups, count_epsilon=50.0,
        notion="equal_opportunity",
    ).fairness  # fmt: skip
    assert claim.estimate == 0.0
    assert any("true labels leave out" in told for told in claim.assumptions)


class Refuses(ThresholdClassifier):
    """Answers some rows with what is none of its classes."""

    def predict(self, X):
        found = super().predict(X)
        return np.where(np.asarray(X)[:, 0] < -0.5, -1, found)


@pytest.mark.parametrize("cell_sizes", ["private", "public"])
def test_private_answers_that_are_no_class_stay_in_their_cells(rows, cell_sizes):
    """Else a public size would be the exact number of answers, and rates those among them."""
    model = Refuses().fit(rows.X, rows.y, sensitive_features=rows.groups)
    selected = model.predict(rows.X) == 1
    assert (model.predict(rows.X) == -1).any()
    (claim, *_) = certify(
        model, rows.X, sensitive_features=rows.groups, count_epsilon=900.0, cell_sizes=cell_sizes
    ).fairness
    hits, sizes = rates(rows, selected)
    assert [(c.successes, c.trials) for c in claim.counts] == list(zip(hits, sizes, strict=True))
    assert "An answer that is not one of the model's classes counts as 0." in claim.assumptions


def test_private_groups_must_be_declared(rows):
    model = ThresholdClassifier().fit(rows.X, rows.y)
    with pytest.raises(ValueError, match="groups=\\[...\\]"):
        certify(model, rows.X, sensitive_features=rows.groups, count_epsilon=1.0)
    certify(model, rows.X, sensitive_features=rows.groups, count_epsilon=1.0, groups=["a", "b"])


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"confidence_level": 95}, "confidence_level"),
        ({"bound": "wald"}, "bound="),
        ({"count_epsilon": 0.0}, "count_epsilon"),
        ({"count_epsilon": 1.0, "bound": "difference"}, "noisy counts"),
        ({"count_epsilon": 1.0, "holdout": "public"}, "contradicts"),
        ({"holdout": "per_record"}, "contradicts"),
        ({"holdout": "elsewhere"}, "holdout="),
        ({"cell_sizes": "secret"}, "cell_sizes"),
        ({"n_certificates": 0}, "n_certificates"),
        ({"n_certificates": 2, "certificate_index": 3}, "certificate_index"),
        ({"notion": "niceness"}, "notion="),
        ({"notion": "equal_opportunity"}, "y is None"),
        ({"public_steps": ["scale"]}, "not an earlier step"),
        ({"public_steps": "scale"}, "must be a list"),
        ({"sensitive_features": ["a"]}, "another number of rows than X"),
    ],
)
def test_contradicting_arguments_are_refused(model, rows, arguments, match):
    given = {"sensitive_features": rows.groups, "holdout": "public"}
    with pytest.raises(ValueError, match=match):
        certify(model, rows.X, **given | arguments)


def test_labels_outside_the_classes_are_refused_without_being_shown(model, rows):
    labels = rows.y.copy()
    labels[3] = 94231
    with pytest.raises(ValueError, match="y has") as caught:
        certify(model, rows.X, labels, sensitive_features=rows.groups, holdout="public")
    assert "94231" not in str(caught.value)
    with pytest.raises(ValueError, match="one label for each row"):
        certify(model, rows.X, labels[:5], sensitive_features=rows.groups, holdout="public")


def test_declared_groups_without_the_group_of_each_row_are_refused(model, rows):
    """Fails where they are taken in silence, and a certificate without a claim comes of it."""
    with pytest.raises(ValueError, match="pass it as sensitive_features"):
        certify(model, rows.X, rows.y, groups=rows.groups, holdout="public")


def test_labels_without_rows_are_refused(model, rows):
    with pytest.raises(ValueError, match="without X"):
        certify(model, y=rows.y)


def test_an_unfitted_model_is_refused():
    with pytest.raises(NotFittedError):
        certify(ThresholdClassifier())


@pytest.mark.parametrize(
    "wrong",
    [
        {"confidence_level": "0.95"},
        {"confidence_level": None},
        {"count_epsilon": True},
        {"n_certificates": 1.5},
        {"n_certificates": True},
        {"certificate_index": 1.5, "n_certificates": 3},
    ],
)
def test_terms_of_a_wrong_kind_are_refused_by_name(model, rows, wrong):
    asked = {"holdout": "by_index" if "count_epsilon" in wrong else "public", **wrong}
    with pytest.raises(ValueError, match=next(iter(wrong))):
        certify(model, rows.X, sensitive_features=rows.groups, **asked)


class Coins(ClassifierMixin, BaseEstimator):
    """Draws once a call, so that it has to be asked row by row."""

    def fit(self, X, y):
        self.classes_, self.calls_ = np.unique(y), 0
        return self

    def predict(self, X):
        self.calls_ += 1
        return np.full(len(X), np.random.default_rng(self.calls_).integers(2))


class CountingScaler(PublicScaler):
    def transform(self, X):
        type(self).calls = getattr(type(self), "calls", 0) + 1
        return super().transform(X)


@pytest.mark.parametrize("kind", [PublicScaler, CountingScaler])
def test_declared_steps_run_once_where_rows_are_asked_alone(kind, monkeypatch):
    calls = []
    sound = PublicScaler._read
    monkeypatch.setattr(
        PublicScaler, "_read", lambda self, X, **k: [calls.append(len(X)), sound(self, X, **k)][1]
    )
    table = pd.DataFrame({"a": np.linspace(0.0, 1.0, 60)})
    y, groups = np.arange(60) % 2, np.arange(60) // 30
    model = Pipeline([("scale", kind({"a": (0.0, 1.0)})), ("coin", Coins())]).fit(table, y)
    calls.clear()
    certify(model, table, sensitive_features=groups, holdout="public")
    # A subclass of somebody's may do anything with the rows of one call.
    assert (calls.count(1) == 0) is (kind is PublicScaler)
    assert model["coin"].calls_ >= 60
