"""Tests of an encoder's certificate in each form, and of the people that it does not protect."""

from __future__ import annotations

from typing import Any

import pytest

from skfairdp.certificate import Certificate
from tests.common.roster import people
from tests.representation.encoders import fitted

FORMS = {
    "text": str,
    "HTML": lambda c: c.to_html(),
    "model card": lambda c: c.to_model_card(),
    "page": lambda c: c._repr_html_(),
}


@pytest.fixture(scope="module")
def certificate() -> Certificate:
    X, y, groups = people()
    return fitted("laplace", epsilon=0.5).certify(X, y, sensitive_features=groups, holdout="public")


@pytest.mark.parametrize("form", FORMS)
def test_no_form_promises_anything_to_the_training_rows(form: str, certificate: Any) -> None:
    shown = FORMS[form](certificate)
    assert "the training rows are not covered" in shown
    for claim in ("Privacy of the training records", "learns from the model", "records are prot"):
        assert claim not in shown


def test_the_claim_in_one_sentence_ends_with_its_limits(certificate: Any) -> None:
    assert certificate.sentence.endswith(
        "each person is protected in what was released of them, and in nothing else, "
        "with ε = 1.0, δ = 0."
    )


def test_what_is_not_claimed_names_training_rows_labels_and_groups(certificate: Any) -> None:
    card = certificate.to_model_card()
    assert "whose rows the weights were learned from" in card
    assert "labels, groups, further columns" in card
    assert "only scored" not in card  # such rows are what releases protect
