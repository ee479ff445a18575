from __future__ import annotations

import json

import pandas as pd
import pytest

from skfairdp.fairness.derivation import Derivation, recomputed_bound, recomputed_estimate
from skfairdp.fairness.guarantee import CellCount, FairnessGuarantee
from skfairdp.foundation.figures import rounded_up


def claim(**changes):
    values = {
        "notion": "equalized_odds",
        "bound": 0.1041,
        "scope": "deployed model",
        "method": "exact",
        "estimate": 0.05,
        "confidence_level": 0.95,
        "groups": (("F", 1), ("M", 2)),
        "counts": (CellCount(("F", 1), "label 1", 3, 10),),
        "assumptions": ("rows are independent",),
    }
    return FairnessGuarantee(**(values | changes))


def test_round_trip_through_json_gives_an_equal_claim():
    original = claim()
    assert FairnessGuarantee.from_dict(json.loads(json.dumps(original.to_dict()))) == original


def test_labels_that_json_does_not_know_become_text():
    day = pd.Timestamp("2020-01-01")
    original = claim(groups=(day,), counts=(CellCount(day, "", 1, 2),))
    assert original.groups == ("2020-01-01 00:00:00",)
    assert FairnessGuarantee.from_dict(json.loads(json.dumps(original.to_dict()))) == original


def test_printed_bounds_are_rounded_up():
    assert claim(bound=0.1041).figure == "0.105"
    assert rounded_up(0.3) == "0.300"
    assert rounded_up(0.30001) == "0.301"


@pytest.mark.parametrize(
    ("bound", "informative"), [(1.0, False), (0.5, False), (0.4991, False), (0.499, True)]
)
def test_a_bound_of_one_half_or_more_is_of_no_use(bound, informative):
    assert claim(bound=bound).informative is informative
    assert (claim(bound=bound).figure == "no useful bound") is not informative


@pytest.mark.parametrize("bad", [{"scope": "everything"}, {"bound": 1.1}, {"notion": "niceness"}])
def test_impossible_claims_are_refused(bad):
    with pytest.raises(ValueError, match=f"{next(iter(bad))}="):
        claim(**bad)


def test_claims_cannot_be_changed():
    with pytest.raises(AttributeError):
        claim().bound = 0.0


def test_no_printed_rate_is_above_one_where_noise_made_successes_exceed_rows():
    cells = (
        CellCount("a", "", 206.0, 205.0, noisy=True),
        CellCount("b", "", -1.0, 9.0, noisy=True),
    )
    said = " ".join(claim(groups=("a", "b"), counts=cells).remarks)
    assert "limited to [0, 1]: noise moved a count beyond): a 1.000, b 0.000." in said
    assert "limited" not in " ".join(claim().remarks)


def test_a_bound_is_computed_again_from_what_the_claim_states_or_not_at_all():
    with pytest.raises(ValueError, match="does not say what its bound follows from"):
        recomputed_bound(claim())
    exact = Derivation.of("exact test", claims=1)
    proven = claim(scope="any population", confidence_level=None, counts=(), estimate=None)
    with pytest.raises(ValueError, match="needs a confidence"):
        recomputed_bound(proven, exact)
    counts = (CellCount(("F", 1), "label 1", 3, 10), CellCount(("M", 2), "label 1", 8, 10))
    stated = claim(bound=1.0, counts=counts, estimate=0.5)
    once, twice = (recomputed_bound(stated, Derivation.of("exact test", claims=k)) for k in (1, 2))
    assert 0.5 < once < twice < 1.0
    assert recomputed_estimate(stated) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"successes": 11.0}, "11.0 successes of 10.0 are impossible"),
        ({"low": 0.1}, "needs both 'low' and 'high'"),
    ],
)
def test_counts_that_cannot_be_are_refused(change, words):
    given = {"group": "F", "stratum": "", "successes": 3.0, "trials": 10.0}
    with pytest.raises(ValueError, match=words):
        CellCount(**(given | change))


@pytest.mark.parametrize(
    ("kind", "inputs", "words"),
    [
        ("wishful thinking", {}, "is not known"),
        ("exact test", {"share": 1}, "follows from"),
        ("exact test", {"claims": 0}, "claims"),
    ],
)
def test_a_derivation_of_an_unknown_kind_or_from_other_inputs_is_refused(kind, inputs, words):
    with pytest.raises(ValueError, match=words):
        Derivation.of(kind, **inputs)


def cells(noisy=False, **changes):
    given = {"successes": 3.0, "trials": 10.0, "noisy": noisy} | changes
    return tuple(CellCount(group, "label 1", **given) for group in (("F", 1), ("M", 2)))


NOISY = {"claims": 1, "epsilon": 1.0, "public_sizes": False, "terms": ((1, 1),)}


@pytest.mark.parametrize(
    ("kind", "inputs", "counts", "words"),
    [
        ("exact test", {"claims": 1}, cells()[:1], "one count for each group in each stratum"),
        ("exact test", {"claims": 1}, (), "one count for each group in each stratum"),
        ("exact test", {"claims": 1}, cells(noisy=True), "does not allow for noise"),
        ("noisy counts", NOISY, cells(), "counts that are marked as noisy"),
        ("noisy counts", NOISY | {"terms": ((1,),)}, cells(noisy=True), "two numbers >= 1"),
        ("noisy counts", NOISY | {"terms": ((0, 1),)}, cells(noisy=True), "two numbers >= 1"),
        ("noisy counts", NOISY, cells(noisy=True, successes=2.5), "must be whole numbers"),
    ],
)
def test_a_stored_claim_whose_counts_do_not_fit_its_bound_is_not_computed(
    kind, inputs, counts, words
):
    stated = claim(bound=1.0, counts=counts, estimate=None)
    with pytest.raises(ValueError, match=words):
        recomputed_bound(stated, Derivation.of(kind, **inputs))


def test_a_bound_from_noisy_counts_is_wider_than_the_exact_one():
    exact = recomputed_bound(
        claim(counts=cells(), bound=1.0), Derivation.of("exact test", claims=1)
    )
    for public in (False, True):
        how = Derivation.of("noisy counts", **(NOISY | {"public_sizes": public}))
        assert exact < recomputed_bound(claim(counts=cells(noisy=True), bound=1.0), how) <= 1.0
