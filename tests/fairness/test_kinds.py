"""Tests of the records of kinds of bounds and of scopes."""

from __future__ import annotations

import math

import pytest

from skfairdp.certificate.sentence import certainty, certificate_sentence, population
from skfairdp.fairness.derivation import Derivation, recomputed_bound
from skfairdp.fairness.guarantee import CellCount, FairnessGuarantee
from skfairdp.fairness.kinds import KINDS, BoundKind
from skfairdp.fairness.scopes import DEPLOYED, SCOPES


def claim_of(scope: str, **changed: object) -> FairnessGuarantee:
    level = 0.95 if SCOPES[scope].from_rows else None
    return FairnessGuarantee(
        "demographic_parity", 0.1, scope, "a method", confidence_level=level, **changed
    )


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_proves_something_and_says_how(kind):
    methods = KINDS[kind].methods
    assert methods
    assert set(methods) <= set(SCOPES)
    assert all(text.strip() for text in methods.values())


@pytest.mark.parametrize("scope", SCOPES)
def test_every_scope_has_a_kind_and_a_sentence(scope):
    assert any(scope in kind.methods for kind in KINDS.values())
    claim = claim_of(scope)
    sentence = certificate_sentence(None, [claim], 100)
    lead = SCOPES[scope].lead.format(certainty=certainty(claim))
    assert sentence.startswith(f"{lead} the selection rates of any two groups differ")
    assert ("held out" in population(claim, 100)) is SCOPES[scope].from_rows


def test_a_kind_of_bound_is_one_record(monkeypatch):
    """A record is all that storing, checking and recomputing a new kind of bound takes."""
    half = BoundKind(
        methods={DEPLOYED: "half of a figure"},
        inputs=("claims", "figure"),
        bound=lambda claim, level, figure: figure / 2.0,
    )
    with pytest.raises(ValueError, match="not known"):
        Derivation.of("half", claims=1, figure=0.2)
    monkeypatch.setitem(KINDS, "half", half)
    claim = claim_of(
        DEPLOYED,
        groups=("a", "b"),
        counts=(CellCount("a", "", 1, 2), CellCount("b", "", 1, 2)),
        derivation=Derivation.of("half", claims=1, figure=0.2),
    )
    again = FairnessGuarantee.from_dict(claim.to_dict())
    assert again == claim
    assert math.isclose(recomputed_bound(again), 0.1)
    with pytest.raises(ValueError, match="contradicts scope"):
        claim_of("any population", derivation=claim.derivation)
