from __future__ import annotations

import pickle
import re
from pathlib import Path

import numpy as np
import pytest
from fairlearn.metrics import (
    demographic_parity_difference,
    equal_opportunity_difference,
    equalized_odds_difference,
)
from sklearn.base import clone

import skfairdp
from skfairdp.certificate.render import sections
from skfairdp.fairness.bounds.rate_gaps import gap_estimate
from skfairdp.fairness.notions import (
    DERIVED,
    NOTIONS,
    Notion,
    get_notion,
    get_notions,
    meaning_of,
    pairs,
)


def table_of(group, label, prediction, shape):
    table = np.zeros(shape, dtype=int)
    np.add.at(table, (group, label, prediction), 1)
    return table


def estimate(notion, table, classes, **kwargs):
    strata = get_notion(notion).strata(classes, **kwargs)
    counts = [stratum.count(table) for stratum in strata]
    successes = np.array([hit for hit, _ in counts])
    return gap_estimate(successes, successes + np.array([miss for _, miss in counts]))


@pytest.fixture(scope="module")
def binary():
    rng = np.random.default_rng(0)
    return rng.integers(3, size=500), rng.integers(2, size=500), rng.integers(2, size=500)


@pytest.mark.parametrize(
    ("notion", "oracle"),
    [
        ("demographic_parity", demographic_parity_difference),
        ("equal_opportunity", equal_opportunity_difference),
        ("equalized_odds", equalized_odds_difference),
    ],
)
def test_binary_estimates_equal_fairlearns(binary, notion, oracle):
    group, label, prediction = binary
    expected = oracle(label, prediction, sensitive_features=group)
    found = estimate(notion, table_of(group, label, prediction, (3, 2, 2)), [0, 1])
    assert found == pytest.approx(expected)


def test_accuracy_parity_compares_shares_of_right_predictions(binary):
    group, label, prediction = binary
    accuracy = [(label == prediction)[group == g].mean() for g in range(3)]
    found = estimate("accuracy_parity", table_of(group, label, prediction, (3, 2, 2)), [0, 1])
    assert found == pytest.approx(max(accuracy) - min(accuracy))


def test_many_classes_take_the_worst_class():
    rng = np.random.default_rng(1)
    group, label, prediction = (rng.integers(3, size=900) for _ in range(3))
    table = table_of(group, label, prediction, (3, 3, 3))

    def gap(rows_of):
        rates = [[rows_of(g, c) for g in range(3)] for c in range(3)]
        return max(max(r) - min(r) for r in rates)

    parity = gap(lambda g, c: (prediction == c)[group == g].mean())
    opportunity = gap(lambda g, c: (prediction == c)[(group == g) & (label == c)].mean())
    odds = max(
        gap(lambda g, c, y=y: (prediction == c)[(group == g) & (label == y)].mean())
        for y in range(3)
    )
    classes = ["a", "b", "c"]
    assert estimate("demographic_parity", table, classes) == pytest.approx(parity)
    assert estimate("equal_opportunity", table, classes) == pytest.approx(opportunity)
    assert estimate("equalized_odds", table, classes) == pytest.approx(odds)


def test_strata_names_say_what_the_rate_is_conditioned_on():
    names = [s.name for s in get_notion("equalized_odds").strata(["{no}", "yes"])]
    assert names == ["label {no}", "label yes"]
    assert [s.name for s in get_notion("demographic_parity").strata([0, 1])] == [""]
    assert len(get_notion("equalized_odds").strata("abc")) == 9


@pytest.mark.parametrize("name", NOTIONS)
def test_each_pair_is_at_most_once_in_a_stratum(name):
    for classes in ("ab", "abc"):
        for stratum in NOTIONS[name].strata(classes):
            assert not np.any(stratum.successes & stratum.failures)


def test_without_labels_only_demographic_parity_is_possible():
    table = np.array([[[3, 7]], [[5, 5]]])
    found = estimate("demographic_parity", table, [0, 1], with_labels=False)
    assert found == pytest.approx(0.2)
    with pytest.raises(ValueError, match="y is None"):
        get_notion("equal_opportunity").strata([0, 1], with_labels=False)


@pytest.mark.parametrize("names", ["fairness", [], ["demographic_parity"] * 2])
def test_unknown_missing_and_repeated_names_are_refused(names):
    with pytest.raises(ValueError, match="notion="):
        get_notions(names)


# Notions of one's own.


def negatives(classes):
    return [(f"label {classes[0]}", pairs(classes, label=0), pairs(classes, prediction=1))]


FACTS = {
    "name": "predictive_equality",
    "rates": "false positive rates",
    "meaning": "Among people whose true label is negative, the positive share is compared.",
    "needs_labels": True,
    "cells": negatives,
}


def notion(**changes):
    return Notion(**(FACTS | changes))


def test_a_notion_of_ones_own_is_taken_where_names_are():
    own = notion()
    assert get_notion(own) is own
    assert [n.name for n in get_notions([own, "accuracy_parity"])] == [own.name, "accuracy_parity"]
    assert own.words == (own.rates, own.meaning)
    assert get_notion("accuracy_parity").words is None
    rng = np.random.default_rng(0)
    table = rng.integers(1, 50, size=(3, 2, 2))
    rates = table[:, 0, 1] / table[:, 0].sum(axis=1)
    assert gap_of(own, table) == pytest.approx(rates.max() - rates.min())
    assert pickle.loads(pickle.dumps(own)) == own == clone(own, safe=False)


def gap_of(own, table):
    (stratum,) = own.strata([0, 1])
    hits, misses = stratum.count(table)
    return np.ptp(hits / (hits + misses))


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "Predictive equality"},
        {"name": ""},
        {"name": None},
        {"rates": " "},
        {"meaning": 7},
        {"cells": [1]},
    ],
    ids=str,
)
def test_a_notion_without_facts_is_refused(changes):
    (name,) = changes
    with pytest.raises(ValueError, match=name):
        notion(**changes)


def rate(trials, successes, words="all"):
    return lambda classes: [(words, trials(classes), successes(classes))]


def positive(classes):
    return pairs(classes, prediction=1)


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        (lambda classes: [], "at least one rate"),
        (lambda classes: negatives(classes) * 2, "a name of its own"),
        (rate(lambda c: pairs(c, label=0).astype(int), positive), "masks of truth values"),
        (rate(lambda c: pairs([*c, 2], label=0), positive), "masks of truth values"),
        # The share of true positives among the predicted ones: who counts is not fixed.
        (rate(positive, lambda c: pairs(c, label=1)), "selects rows by their predictions"),
        (rate(lambda c: pairs(c, label=0), lambda c: pairs(c, label=0)), "for every model"),
        (rate(lambda c: pairs(c, label=0), lambda c: pairs(c, label=1)), "for every model"),
    ],
)
def test_rates_that_bounds_are_not_proved_for_are_refused(cells, words):
    with pytest.raises(ValueError, match=words):
        notion(cells=cells).strata(["no", "yes"])


def test_a_notion_cannot_claim_that_it_needs_no_labels():
    with pytest.raises(ValueError, match="depends on true labels: set"):
        notion(needs_labels=False).strata(["no", "yes"], with_labels=False)
    same = notion(needs_labels=False, cells=rate(pairs, positive))
    assert [s.successes.shape for s in same.strata([0, 1], with_labels=False)] == [(1, 2)]


def test_a_known_name_means_what_it_means():
    impostor = notion(name="demographic_parity")
    for looked_up in (get_notion, get_notions):
        with pytest.raises(ValueError, match="a notion of skfairdp"):
            looked_up(impostor)
    assert get_notion(NOTIONS["demographic_parity"]) is NOTIONS["demographic_parity"]
    with pytest.raises(ValueError, match="names a notion twice"):
        get_notions([notion(), notion()])
    with pytest.raises(ValueError, match="not known"):
        get_notions([3])


def test_estimators_that_take_names_alone_do_not_take_a_new_one_by_themselves():
    assert DERIVED == (
        "demographic_parity", "equal_opportunity", "equalized_odds", "accuracy_parity"
    )  # fmt: skip
    package = Path(skfairdp.__file__).parent
    found = {
        file.relative_to(package).as_posix()
        for file in package.rglob("*.py")
        if re.search(r"Choice\((tuple\(|\(\*)NOTIONS\b", file.read_text(encoding="utf-8"))
    }
    assert found == {"model_selection/search.py"}  # which takes any notion


@pytest.mark.parametrize("name", sorted(NOTIONS))
def test_a_known_notion_is_explained_wherever_there_are_lists_of_them(name: str) -> None:
    docs = Path(skfairdp.__file__).parents[1] / "docs"
    listed = (docs / "guides/own_notion.md").read_text(encoding="utf-8").split("Any other one")[0]
    assert f"`{name}`" in listed
    table = (docs / "guides/fairness_for_privacy_people.md").read_text(encoding="utf-8")
    assert f"| {name.replace('_', ' ')} |" in table
    assert name in get_notion.__doc__
    assert name in sections._COMPARED


def test_which_notions_compare_predictions_follows_from_their_cells():
    found = {n.name for n in NOTIONS.values() if n.compares_predictions}
    assert found == {"demographic_parity", "equal_opportunity", "equalized_odds"}
    assert notion().compares_predictions
    right = rate(pairs, lambda c: np.eye(len(c), dtype=bool))
    assert not notion(cells=right).compares_predictions


@pytest.mark.parametrize("name", sorted(NOTIONS))
def test_the_meaning_speaks_of_a_positive_outcome_only_where_there_are_two(name: str) -> None:
    strata = [{stratum for stratum, _, _ in NOTIONS[name].cells(range(n))} for n in (2, 3)]
    two, three = (meaning_of(name, len(each)) for each in strata)
    assert two == NOTIONS[name].meaning
    assert "positive" not in three
    assert "compared between groups" in three
