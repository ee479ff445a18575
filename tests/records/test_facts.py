"""Facts that quotes are made from."""

from __future__ import annotations

import numpy as np
import pytest

from skfairdp import (
    DPSGDClassifier,
    FairPathClassifier,
    FunctionalMechanismClassifier,
    PATEClassifier,
    PrivateTableEncoder,
    quote,
)
from skfairdp.receipts import RowFacts
from skfairdp.records import Given
from skfairdp.records.groups import encode_groups


def test_facts_hold_no_code_of_a_row() -> None:
    groups = encode_groups(["a", "b", "b"], n_rows=3)
    kept = RowFacts(3, groups).groups
    assert kept is not None
    assert (len(kept.codes), kept.counts.tolist()) == (0, [1, 2])


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({}, "'n_rows' is needed"),
        ({"n_rows": 0}, "'n_rows' must be an integer >= 1"),
        ({"n_rows": True}, "'n_rows' must be an integer >= 1"),
        ({"n_rows": 10, "groups": {"a": 8, "b": 8}}, "at most 10 records in all"),
        ({"groups": {"a": 8, "b": -1}}, "must map every group to"),
        ({"groups": ["a", "b"]}, "names groups without sizes"),
        ({"n_rows": 10, "classes": ["yes"]}, "two classes or more"),
        ({"n_rows": 10, "n_features": 3, "columns": ["a"]}, "names 1 columns"),
        ({"n_rows": 10, "n_features": -1}, "'n_features' must be"),
    ],
)
def test_wrong_facts_are_refused_by_name(facts, words) -> None:
    with pytest.raises(ValueError, match=words):
        quote(DPSGDClassifier(), **facts)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (FairPathClassifier(), "needs the group of every row"),
        (PATEClassifier(), "'n_public' is needed"),
        (PrivateTableEncoder(), "'columns' is needed"),
        (FunctionalMechanismClassifier((-1, 1), noise="laplace"), "'n_features' is needed"),
        (DPSGDClassifier(epsilon=-1.0), "'epsilon' parameter"),
        (DPSGDClassifier(delta=0.5), "'delta' must be below 1/n"),
        (DPSGDClassifier(batch_size=900), "'batch_size' must be at most"),
    ],
)
def test_what_a_fit_would_refuse_a_quote_refuses(model, words) -> None:
    with pytest.raises(ValueError, match=words):
        model.quote(n_rows=500)


def test_named_groups_have_equal_sizes() -> None:
    facts = quote(DPSGDClassifier(), n_rows=11, groups=["b", "a"]).facts
    assert facts.groups is not None
    assert facts.groups.labels == ("a", "b")
    assert sorted(facts.groups.counts.tolist()) == [5, 6]


def test_declared_sizes_are_those_of_the_quote() -> None:
    declared = DPSGDClassifier(dataset_size=4000).quote(n_rows=3900)
    assert declared.privacy is not None
    assert declared.privacy.adjacency == "add-remove"
    assert declared.plan == DPSGDClassifier(dataset_size=4000).quote(n_rows=4100).plan


def test_persons_are_counted_and_protected() -> None:
    price = DPSGDClassifier().quote(n_persons=500)
    assert price.privacy is not None
    assert price.privacy.protects == "person"
    with pytest.raises(ValueError, match="not about a person with several rows"):
        FunctionalPersons().quote(n_persons=500, groups={"a": 250, "b": 250})


class FunctionalPersons(FairPathClassifier):
    """Takes no persons: it protects the attribute alone."""

    protects: str = "sensitive_features"


def test_a_quote_leaves_the_estimator_as_it_is() -> None:
    model = DPSGDClassifier(random_state=np.random.RandomState(0))
    before = model.random_state.get_state()[1].tolist()
    model.quote(n_rows=500)
    assert model.random_state.get_state()[1].tolist() == before
    assert {name for name in vars(model) if name.endswith("_")} == set()


def test_facts_are_about_persons_where_these_have_several_rows() -> None:
    groups = encode_groups(["a", "b", "b", "b"], n_rows=4)
    persons = Given(np.zeros((4, 1)), person_ids=[7, 8, 8, 9]).persons(4)
    alone, several = RowFacts.of(4, groups, None), RowFacts.of(4, groups, persons, unit="person")
    assert alone.groups is not None
    assert several.groups is not None
    assert (alone.n, alone.groups.counts.tolist()) == (4, [1, 3])
    assert (several.n, several.groups.counts.tolist(), several.unit) == (3, [1, 2], "person")
    with pytest.raises(ValueError, match="rows of different groups"):
        RowFacts.of(4, encode_groups(["a", "b", "a", "b"], n_rows=4), persons)
