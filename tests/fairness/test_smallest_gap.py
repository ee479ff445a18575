from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier

from skfairdp import PrivacyLedger, certifiable, certify
from skfairdp.fairness import guarantee, smallest_gap
from skfairdp.fairness.bounds.rate_gaps import gap_upper_bound
from skfairdp.fairness.guarantee import CellCount, FairnessGuarantee
from skfairdp.fairness.smallest_gap import USEFUL


def test_smallest_tolerance_is_the_bound_of_equal_rates():
    found = certifiable([200, 300], rate=0.2)
    assert found.smallest == gap_upper_bound([40, 60], [200, 300])
    assert found.possible
    assert certifiable([200, 0]).smallest == 1.0


@pytest.mark.parametrize("tolerance", [0.3, 0.1, 0.03])
def test_rows_needed_are_enough_and_a_tenth_fewer_are_not(tolerance):
    found = certifiable([5, 5], tolerance)
    assert not found.possible
    assert certifiable([found.rows_needed] * 2, tolerance).possible
    assert not certifiable([found.rows_needed * 9 // 10] * 2, tolerance).possible


def test_noise_is_part_of_what_is_needed():
    needed = certifiable([5, 5], USEFUL, count_epsilon=0.2).rows_needed
    assert needed > 3 * certifiable([5, 5], USEFUL).rows_needed
    assert certifiable([needed] * 2, count_epsilon=0.2).possible
    assert not certifiable([needed * 9 // 10] * 2, count_epsilon=0.2).possible
    public = certifiable([needed] * 2, count_epsilon=0.2, cell_sizes="public")
    assert certifiable([needed] * 2).smallest < public.smallest < USEFUL


def test_advice_about_noisy_counts_asks_for_the_rows_that_noise_takes(monkeypatch):
    model, X, groups = held_out({"a": 40, "b": 40})
    certificate = certify(
        model, X, sensitive_features=groups, groups=["a", "b"], count_epsilon=0.02
    )
    asked = []

    def recorded(sizes, tolerance, **settings):
        asked.append(settings)
        return certifiable([5, 5], tolerance)

    monkeypatch.setattr(guarantee, "certifiable", recorded)
    assert "rows in each group" in certificate.fairness[0].remarks[-1]
    assert (asked[0]["count_epsilon"], asked[0]["cell_sizes"]) == (0.02, "private")


def test_the_group_that_is_too_small_is_named_with_what_to_do():
    found = certifiable({"a": 900, "b": 800, "rare": 12}, 0.1)
    assert found.too_small == ("rare",)
    assert "rare" in str(found)
    assert "merge" in str(found)


def test_an_unreachable_tolerance_is_said_to_be_so(monkeypatch):
    monkeypatch.setattr(smallest_gap, "_MOST_ROWS", 10**4)  # of ten million every bound takes long
    assert certifiable([50, 50], 0.05).rows_needed < 10**4
    found = certifiable([50, 50], 0.01)
    assert found.rows_needed is None
    assert "more than ten million" in str(found)


def test_claims_share_the_error():
    assert certifiable([99, 99], n_claims=3).smallest > certifiable([99, 99]).smallest


@pytest.mark.parametrize(
    ("sizes", "options", "match"),
    [
        ([5], {}, "two groups"),
        ([5, -1], {}, ">= 0"),
        ([5, 2.5], {}, "whole"),
        ([5, 5], {"tolerance": 1.5}, "tolerance"),
        ([5, 5], {"rate": -0.1}, "rate"),
    ],
)
def test_impossible_arguments_are_refused(sizes, options, match):
    with pytest.raises(ValueError, match=match):
        certifiable(sizes, **options)


def claim(hits, rows, bound):
    counts = tuple(CellCount(g, "", k, n) for g, k, n in zip("ab", hits, rows, strict=True))
    return FairnessGuarantee(
        "demographic_parity",
        bound,
        "deployed model",
        "exact",
        confidence_level=0.95,
        groups=("a", "b"),
        counts=counts,
    )


def test_a_useless_bound_says_what_would_help():
    few = claim([2, 2], [4, 4], 0.7)
    assert few.figure == "no useful bound"
    assert few.bound == 0.7
    assert "rows in each group" in few.remarks[-1]
    far = claim([900, 100], [1000, 1000], 0.83)
    assert "more rows alone would not help" in far.remarks[-1]
    assert "no useful bound" not in " ".join(claim([2, 2], [40, 40], 0.2).remarks)


def test_what_was_observed_is_blamed_only_where_it_is_to_blame():
    near = replace(claim([550, 450], [1000, 1000], 0.6), estimate=0.1)
    assert near.remarks[-1].endswith("More rows would help.")
    counts = tuple(replace(count, noisy=True) for count in near.counts)
    assert "or less noise" in replace(near, counts=counts).remarks[-1]
    far = replace(claim([900, 100], [1000, 1000], 0.83), estimate=0.8)
    assert "more rows alone would not help" in far.remarks[-1]


def test_rates_and_a_shift_are_told():
    told = claim([30, 20], [100, 100], 0.2)
    assert told.remarks[0] == "Observed selection rates: a 0.300, b 0.200."
    assert "at most 0.200 + 2 v: 0.300 for v = 0.05" in told.remarks[1]
    assert told.shifted(0.1) == pytest.approx(0.4)
    assert told.shifted(0.6) == 1.0
    with pytest.raises(ValueError, match="distance"):
        told.shifted(-0.1)


def test_no_shift_within_the_distance_exceeds_the_line():
    # Two groups of three kinds of people; the model selects one kind. Moving mass v raises a
    # rate by v at most, and by v exactly where it all moves into that kind.
    told = claim([30, 30], [100, 100], 0.1)
    rng = np.random.default_rng(0)
    for _ in range(200):
        people = rng.dirichlet(np.ones(3), size=2)
        later = rng.dirichlet(np.ones(3), size=2)
        v = np.abs(people - later).sum(axis=1).max() / 2
        gap = abs(people[0, 0] - people[1, 0])
        if gap <= told.bound:
            assert abs(later[0, 0] - later[1, 0]) <= told.shifted(v) + 1e-12


@pytest.mark.parametrize(
    ("hits", "constant"),
    [([0, 1], True), ([1000, 995], True), ([20, 5], False), ([500, 500], False)],
)
def test_nearly_constant_decisions_are_flagged(hits, constant):
    told = claim(hits, [1000, 1000], 0.03)
    assert told.nearly_constant is constant
    assert told.remarks[0].startswith("NEARLY CONSTANT") is constant


def test_a_certificate_prints_rates_shift_and_flag():
    X, groups = np.zeros((400, 1)), np.repeat(["a", "b"], 200)
    model = DummyClassifier().fit(X, np.tile([0, 1, 1, 1], 100))
    certificate = certify(model, X, sensitive_features=groups, holdout="public")
    for text in (str(certificate), certificate.to_html(), certificate.to_json()):
        assert "NEARLY CONSTANT" in text
        assert "Observed selection rates: a 1.000, b 1.000" in text
        assert "total-variation distance" in text


def held_out(sizes):
    groups = np.repeat(list(sizes), list(sizes.values()))
    X = np.zeros((len(groups), 1))
    return DummyClassifier().fit(X, np.arange(len(X)) % 2), X, groups


def test_no_counts_are_bought_that_could_show_nothing(tmp_path):
    model, X, groups = held_out({"a": 900, "b": 3})
    ledger = PrivacyLedger(tmp_path / "l.db", "people")
    settings = dict(sensitive_features=groups, count_epsilon=0.5, ledger=ledger)
    certificate = certify(model, X, groups=["a", "b"], cell_sizes="public", **settings)
    assert certificate.fairness == ()
    assert "No counts were bought" in certificate.remarks[0]
    assert "Too small against every other group: b" in certificate.remarks[0]
    assert ledger.entries() == ()
    # Where sizes are private a refusal would reveal them: the noisy counts tell.
    assert certify(model, X, groups=["a", "b"], **settings).fairness
    assert len(ledger.entries()) == 1


@pytest.mark.parametrize("n", [4, 5])
def test_only_the_hopeless_is_refused(n):
    # With 5 rows and no success in either group the bound is 1 - .05 ** (1 / 5) = .451.
    model, X, groups = held_out({"a": 900, "b": n})
    settings = dict(sensitive_features=groups, groups=["a", "b"], cell_sizes="public")
    certificate = certify(model, X, count_epsilon=50.0, **settings)
    assert bool(certificate.fairness) is (n == 5)


def test_groups_left_out_by_declaration_are_named():
    model, X, groups = held_out({"a": 300, "b": 300, "rare": 7})
    certificate = certify(model, X, sensitive_features=groups, groups=["a", "b"], holdout="public")
    assert certificate.n_rows == 600
    assert "Outside the claim, because other groups were declared: rare." in str(certificate)
    model.groups_ = ("a", "b", "rare")
    noisy = certify(model, X, sensitive_features=groups, groups=["a", "b"], count_epsilon=1.0)
    assert "were declared: rare." in str(noisy)
