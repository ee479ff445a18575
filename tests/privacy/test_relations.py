"""Every relation is accounted, composed, stated and printed from its one record."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from dp_accounting import NeighboringRelation, dp_event

from skfairdp import DPSGDClassifier, PrivacyLedger, certify
from skfairdp.certificate import Certificate
from skfairdp.privacy import ADJACENCIES, PROTECTS, Plan, PrivacyGuarantee, compose, epsilon
from skfairdp.privacy.accounting.plan_cost import guarantee
from skfairdp.privacy.ledger.totals import covered, totals
from skfairdp.privacy.relations import (
    IMPLIED,
    NEIGHBOURS,
    PROTECTED,
    Neighbours,
    Protected,
    accounted,
    neighbours_text,
    protected_text,
)
from tests.inprocessing.rows import two_groups
from tests.privacy.plans import sgd_plan

GAUSSIAN = dp_event.GaussianDpEvent(4.0)
ACCOUNTED = [name for name in NEIGHBOURS if accounted(name) is not None]


def stated(adjacency: str, protects: str) -> PrivacyGuarantee:
    event = None if accounted(adjacency) is None else GAUSSIAN
    cost = 0.5 if event is None else epsilon(event, 1e-5, adjacency)
    return PrivacyGuarantee(cost, 1e-5, adjacency, protects=protects, event=event)


def shown(certificate: Certificate, ledger: PrivacyLedger) -> dict[str, str]:
    """A certificate in all its forms, and the ledger that was charged."""
    return {
        "text": str(certificate),
        "notebook": certificate._repr_html_(),
        "report": certificate.to_html(),
        "model card": certificate.to_model_card(),
        "json": certificate.to_json(),
        "ledger": "\n".join(ledger.statements()),
    }


@pytest.mark.parametrize("protects", PROTECTED)
@pytest.mark.parametrize("adjacency", NEIGHBOURS)
def test_every_relation_can_be_stated_composed_and_printed(adjacency, protects, tmp_path):
    one = stated(adjacency, protects)
    both = compose([one, one])
    assert one.epsilon < both.epsilon <= 2 * one.epsilon
    assert (both.adjacency, both.protects) == (adjacency, protects)
    certificate = Certificate(one, (), "0" * 64)
    assert Certificate.from_json(certificate.to_json()) == certificate
    ledger = PrivacyLedger(tmp_path / "ledger.db")
    ledger.commit(ledger.reserve(one, activity="fit", estimator="Mechanism"))
    texts = shown(certificate, ledger)
    for form in ("text", "report", "ledger"):
        assert protected_text(protects, adjacency) in texts[form]
        assert neighbours_text(protects, adjacency) in texts[form]
    for text in (*PROTECTED[protects].not_claimed, *NEIGHBOURS[adjacency].not_claimed):
        assert text in texts["report"]


@pytest.mark.parametrize("adjacency", ACCOUNTED)
def test_a_record_that_is_seen_in_two_places_costs_more(adjacency):
    cost = epsilon(sgd_plan(0.02, 1.5, 500, adjacency=adjacency))
    alone = epsilon(sgd_plan(0.02, 1.5, 500, adjacency="add-remove"))
    if NEIGHBOURS[adjacency].places == 1:
        assert cost == alone
    else:
        assert 1.2 * alone < cost


@pytest.mark.parametrize(("pair", "how"), IMPLIED.items(), ids=str)
def test_what_one_relation_says_in_another_is_no_cheaper(pair, how):
    told, asked = pair
    item = stated(*told)
    (read,) = covered([item], *asked)
    assert read.epsilon == {"event": 1.0, "figures": 1.0, "twice": 2.0}[how] * item.epsilon
    assert read.delta >= item.delta
    assert (read.event is not None) == (how == "event")
    both = totals([item, stated(*asked)])
    assert [(total.adjacency, total.protects) for total in both] == (
        [asked] if how == "event" else [told, asked]
    )


def test_pairs_that_are_not_listed_say_nothing_of_each_other():
    relations = {relation for pair in IMPLIED for relation in pair}
    for told in relations:
        for asked in relations - {told}:
            (read,) = covered([stated(*told)], *asked)
            assert read.is_void == ((told, asked) not in IMPLIED)


class LabelDPSGD(DPSGDClassifier):
    """States what it costs to change a label: one record is replaced by another one."""

    def _guarantee(self, plan: Plan, *of_fit: Any) -> PrivacyGuarantee:
        return guarantee(dataclasses.replace(plan, adjacency="change-label"), protects="label")


def test_a_new_relation_passes_fit_and_every_form_of_its_certificate(monkeypatch, tmp_path):
    monkeypatch.setitem(
        NEIGHBOURS,
        "change-label",
        Neighbours(
            words="the label of one record changes",
            accounted=NeighboringRelation.REPLACE_ONE,
            places=2,
            not_claimed=("Secrecy of features and groups.",),
        ),
    )
    monkeypatch.setitem(
        PROTECTED,
        "label",
        Protected(
            words="the label of one training record",
            clause="the labels of the {records} are protected",
            subject="the labels",
            not_claimed=("Privacy of anything but labels.",),
        ),
    )
    X, y, groups = two_groups(200)
    ledger = PrivacyLedger(tmp_path / "ledger.db")
    settings = {"epsilon": None, "noise_multiplier": 2.0, "max_epochs": 1, "progress": False}
    model = LabelDPSGD(**settings, ledger=ledger).fit(X, y, sensitive_features=groups)
    certificate = certify(model)
    texts = shown(certificate, ledger)
    assert "the labels of the training records are protected" in texts["text"]
    for form in ("text", "report", "ledger"):
        assert "the label of one record changes" in texts[form]
        assert "the label of one training record" in texts[form]
    assert "Privacy of anything but labels." in texts["report"]
    assert "Secrecy of features and groups." in texts["report"]
    cost = certificate.privacy.epsilon
    assert cost == epsilon(model.plan_, adjacency="replace-one") > 1.2 * epsilon(model.plan_)
    assert certificate.satisfies(cost, adjacency="change-label", protects="label")
    assert not certificate.satisfies(cost, protects="record")


@pytest.mark.parametrize("field", ["adjacency", "protects"])
def test_an_unknown_relation_is_refused(field):
    words = {"adjacency": ADJACENCIES, "protects": PROTECTS}[field]
    assert "nobody" not in words
    with pytest.raises(KeyError):
        words["nobody"]
    assert len(words) == len(list(words))
    with pytest.raises(ValueError, match=f"{field}='nobody' is not known"):
        dataclasses.replace(stated("add-remove", "record"), **{field: "nobody"})
