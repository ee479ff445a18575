"""Fair codes: their channel, the bound on all that is predicted from them, the encoder."""

from __future__ import annotations

import itertools
import json
import math
import pickle
from typing import Any

import numpy as np
import pytest
from scipy import stats
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from skfairdp import PrivacyLedger, PrivateFairEncoder, certify
from skfairdp.certificate import Certificate
from skfairdp.certificate.examination import examine
from skfairdp.datasets import make_biased_gaussians
from skfairdp.fairness.bounds.binomial_cells import BinomialCell
from skfairdp.fairness.bounds.binomial_pairs import CellPair
from skfairdp.fairness.bounds.rate_gaps import gap_upper_bound
from skfairdp.fairness.bounds.total_variation import (
    largest_event_bound,
    standing_for,
    total_variation,
    total_variation_bound,
)
from skfairdp.fairness.scopes import DOWNSTREAM, DOWNSTREAM_LIKE
from skfairdp.foundation.figures import rounded_up
from skfairdp.privacy import NoiseSource
from skfairdp.representation import ResponseRandomizer, TotalVariationDisplay, downstream_bound
from tests.certificate.forged import forged_text

DATA = make_biased_gaussians(n_samples=800, random_state=0)
X, Y, GROUPS = DATA.data.to_numpy(), DATA.target.to_numpy(), DATA.sensitive_features.to_numpy()
FIT, HELD = slice(0, 600), slice(600, None)
SETTINGS: dict[str, Any] = {
    "objective": "fair_codes",
    "noise": "randomized_response",
    "tolerance": 0.2,
    "max_epochs": 5,
    "batch_size": 100,
    "random_state": 0,
    "progress": False,
}


def fitted(**settings: Any) -> PrivateFairEncoder:
    encoder = PrivateFairEncoder(**SETTINGS | settings)
    return encoder.fit(X[FIT], Y[FIT], sensitive_features=GROUPS[FIT])


@pytest.fixture(scope="module")
def blind() -> PrivateFairEncoder:
    return fitted()


@pytest.fixture(scope="module")
def seeing() -> PrivateFairEncoder:
    return fitted(encoder_sees_group=True, n_codes=4, majority_share=0.3, epsilon=2.0)


@pytest.fixture(scope="module")
def certificate(seeing: PrivateFairEncoder) -> Certificate:
    notions = ["demographic_parity", "equalized_odds", "accuracy_parity"]
    return seeing.certify(
        X[HELD], Y[HELD], sensitive_features=GROUPS[HELD], notion=notions, holdout="public"
    )


def downstream(certificate: Certificate) -> dict[str, Any]:
    return {c.notion: c for c in certificate.fairness if c.scope == DOWNSTREAM_LIKE}


# -- the channel ----------------------------------------------------------------------


def law(randomizer: ResponseRandomizer) -> np.ndarray:
    """Chance of each release (row) of each hidden code (column), of one component."""
    codes = np.arange(randomizer.n_values)[:, None]
    return np.exp(randomizer.log_density(codes, codes))


CHANNELS = list(itertools.product((0.1, 1.0, 5.0), (2, 3, 16), (0.0, 0.34, 0.9)))


@pytest.mark.parametrize(("epsilon", "k", "share"), CHANNELS)
def test_a_mixture_with_a_constant_is_exactly_private_and_shrinks_every_difference(
    epsilon: float, k: int, share: float
) -> None:
    chances = law(ResponseRandomizer(epsilon, 1, k, share, k - 1))
    assert chances.sum(axis=0) == pytest.approx(1.0, abs=1e-12)
    ratios = np.log(chances.max(axis=1) / chances.min(axis=1))
    assert ratios.max() == pytest.approx(epsilon, abs=1e-9)  # and it is spent
    left = ResponseRandomizer(epsilon, 1, k, share).attenuation
    assert left == pytest.approx((1 - share) * math.expm1(epsilon) / (math.exp(epsilon) + k - 1))
    for one, other in itertools.combinations(chances.T, 2):
        assert np.abs(one - other).sum() / 2 == pytest.approx(left, rel=1e-9)
    half = law(ResponseRandomizer(4 * epsilon, 1, k, share, k - 1))
    assert np.log(half.max(axis=1) / half.min(axis=1)).max() > 2 * epsilon  # the twin


def test_a_constant_is_one_of_the_codes() -> None:
    with pytest.raises(ValueError, match="constant=3"):
        ResponseRandomizer(1.0, 1, 3, 0.1, 3)


def test_releases_follow_the_law_that_is_stated() -> None:
    randomizer, n = ResponseRandomizer(1.0, 1, 3, 0.4, 2), 30_000
    released = randomizer.release(np.zeros((n, 1), dtype=np.int64), NoiseSource())
    seen, wanted = np.bincount(released[:, 0], minlength=3), n * law(randomizer)[:, 0]
    assert stats.chisquare(seen, wanted).pvalue > 1e-6
    others = n * law(ResponseRandomizer(1.0, 1, 3, 0.3, 2))[:, 0]
    assert stats.chisquare(seen, others).pvalue < 1e-6


@pytest.mark.parametrize("k", [2, 3, 5])
def test_no_rule_on_released_codes_exceeds_the_total_variation_and_one_attains_it(k: int) -> None:
    rng, randomizer = np.random.default_rng(k), ResponseRandomizer(1.5, 1, k, 0.2)
    rules = np.array(list(itertools.product((0.0, 1.0), repeat=k)))
    for _ in range(20):
        hidden = rng.dirichlet(np.ones(k), size=2)
        gaps = np.abs(rules @ law(randomizer) @ (hidden[0] - hidden[1]))
        counts = np.rint(1e9 * hidden.T)[None].astype(np.int64)
        bound = randomizer.attenuation * total_variation(counts)
        assert gaps.max() == pytest.approx(bound, abs=1e-8)
        # Several releases tell more than one, and no more than what they hide.
        twice = np.einsum("zh,wh,gh->gzw", law(randomizer), law(randomizer), hidden)
        both = np.abs(twice[0] - twice[1]).sum() / 2
        assert bound - 1e-8 < both <= bound / randomizer.attenuation + 1e-8


# -- the bound from counts -------------------------------------------------------------


def all_events(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    k = len(first)
    members = [list(e) for size in range(1, k) for e in itertools.combinations(range(k), size)]
    return np.array([[first[e].sum(), second[e].sum()] for e in members])


@pytest.mark.parametrize("k", [2, 3, 4])
def test_the_bound_is_the_largest_of_all_events_each_at_the_full_level(k: int) -> None:
    rng = np.random.default_rng(k)
    first, second = (rng.multinomial(n, rng.dirichlet(np.ones(k))) for n in (90, 60))
    cells = [
        (BinomialCell(int(a), 90), BinomialCell(int(b), 60)) for a, b in all_events(first, second)
    ]
    every = max(CellPair(u, v, 0.05).bound() for u, v in cells)
    assert largest_event_bound(first, second, 0.05) == pytest.approx(every, abs=1e-4)


@pytest.mark.parametrize(("n", "m"), [(500, 90), (60, 410)])
def test_what_excludes_some_large_events_at_once_excludes_each(n: int, m: int) -> None:
    rng = np.random.default_rng(n)
    first, second = (rng.multinomial(size, rng.dirichlet(np.ones(4))) for size in (n, m))
    events = all_events(first, second)
    pairs = [CellPair(BinomialCell(int(a), n), BinomialCell(int(b), m), 0.05) for a, b in events]
    together = standing_for(events, n, m, 0.05)
    low, high = np.array([pair._ranges for pair in pairs]).reshape(-1, 2, 2).transpose(2, 0, 1)
    least, most = np.array(together._ranges).reshape(2, 2).T
    assert (least <= low).all()
    assert (most >= high).all()
    assert together.place >= max(pair.place for pair in pairs)
    assert {together._level} == {pair._level for pair in pairs}
    alone = standing_for(events[[np.argmax(events[:, 0])]], n, m, 0.05)
    assert not (np.array(alone._ranges) == together._ranges).all(), "rates depend on the counts"
    bound = largest_event_bound(first, second, 0.05)
    assert all(bound >= pair.observed and pair.excludes(bound) for pair in pairs)


def test_for_a_bit_it_is_the_exact_bound_on_the_gap() -> None:
    counts = np.array([[[70, 80, 40], [30, 70, 60]]])
    exact = gap_upper_bound(counts[0, 0], counts[0].sum(axis=0))
    assert total_variation_bound(counts) == pytest.approx(float(exact), abs=1e-4)
    assert total_variation(counts) == pytest.approx(0.7 - 0.4)


def test_groups_without_rows_have_no_bound() -> None:
    assert total_variation_bound(np.array([[[5, 0], [5, 0]]])) == 1.0
    assert total_variation(np.array([[[5, 0], [5, 0]]])) == 0.0


# -- the encoder -----------------------------------------------------------------------


def test_a_bit_hides_the_answer_of_the_path(blind: PrivateFairEncoder) -> None:
    hidden, k, left = blind._hidden_codes(X, GROUPS)
    assert blind.path_ is not None
    assert (blind.classes_[hidden] == blind.path_.predict(X)).all()
    assert (k, left) == (2, pytest.approx(math.tanh(2.5)))
    released = blind.transform(X)
    assert released.shape == (len(X), 1)
    changed = int((released[:, 0] != hidden).sum())
    assert stats.binomtest(changed, len(X), 1 / (1 + math.exp(5))).pvalue > 1e-6
    assert (blind.predict_from(released) == blind.classes_[released[:, 0]]).all()


def test_levels_cut_the_score_and_the_middle_one_is_the_decision(
    seeing: PrivateFairEncoder,
) -> None:
    assert seeing.path_ is not None
    rows = np.hstack([X, GROUPS[:, None] == np.array(seeing.groups_)])
    score = seeing.path_.decision_function(rows)
    hidden = seeing._hidden_codes(X, GROUPS)[0]
    levels = np.clip(np.floor(2.0 * (score + 1.0)), 0, 3)
    assert (hidden == levels).mean() > 0.99  # but for float32
    assert ((hidden >= 2) == (score > 0)).mean() > 0.99
    assert seeing.decode([[0], [3]])[:, 1].tolist() == pytest.approx([1 / 8, 7 / 8])


def test_the_constant_is_the_code_of_the_more_frequent_class() -> None:
    for rare, code in ((1, 0), (0, 1)):
        kept = np.flatnonzero((Y[FIT] != rare) | (np.arange(600) % 4 == 0))
        encoder = PrivateFairEncoder(**SETTINGS | {"majority_share": 0.9, "max_epochs": 1})
        encoder.fit(X[kept], Y[kept], sensitive_features=GROUPS[kept])
        assert encoder.randomizer_.constant == code
        assert (encoder.transform(X) == code).mean() > 0.8


def test_an_encoder_that_sees_the_group_needs_it_and_hides_it_too(
    seeing: PrivateFairEncoder,
) -> None:
    with pytest.raises(ValueError, match="'sensitive_features' are needed to release"):
        seeing.transform(X)
    one, other = (seeing._hidden_codes(X, np.full(len(X), g))[0] for g in seeing.groups_)
    assert (one != other).any()
    again = clone(seeing).fit_transform(X, Y, sensitive_features=GROUPS)
    assert again.shape == (len(X), 1)
    ids = np.arange(len(X))
    released = [seeing.transform(X, ids=ids, sensitive_features=GROUPS) for _ in "ab"]
    assert (released[0] == released[1]).all()
    (bound,) = seeing.certify().fairness
    assert bound.bound == downstream_bound(2.0)
    assert any("together with the person's group" in text for text in bound.assumptions)


def test_copies_release_the_same_codes_and_verify(
    seeing: PrivateFairEncoder, certificate: Certificate
) -> None:
    copy = pickle.loads(pickle.dumps(seeing))
    assert (copy._hidden_codes(X, GROUPS)[0] == seeing._hidden_codes(X, GROUPS)[0]).all()
    assert certificate.verify(copy)
    assert not certificate.verify(fitted(tolerance=0.3))
    assert "path_" not in vars(clone(seeing))


def test_training_with_noise_has_a_promise_and_a_charge(tmp_path: Any) -> None:
    ledger = PrivacyLedger(tmp_path / "ledger.json")
    encoder = fitted(
        train_privately=True, training_epsilon=2.0, ledger=ledger, delta=1e-5, tolerance=0.9
    )
    assert encoder.training_privacy_ is not None
    assert encoder.plan_ is not None
    assert 1.9 < encoder.training_privacy_.epsilon <= 2.0
    (entry,) = ledger.entries()
    assert entry.guarantee.epsilon == encoder.training_privacy_.epsilon
    void = fitted(train_privately=True, reproducible_noise=True, tolerance=0.9)
    assert void.training_privacy_ is not None
    assert void.training_privacy_.is_void
    assert (
        void.certify(X[HELD], sensitive_features=GROUPS[HELD], holdout="public").fairness[1:] == ()
    )


@pytest.mark.parametrize(
    ("settings", "groups", "message"),
    [
        ({"noise": "laplace"}, GROUPS[FIT], "set noise='randomized_response'"),
        ({"n_codes": 17}, GROUPS[FIT], "n_codes"),
        ({"tolerance": 1.0}, GROUPS[FIT], "tolerance"),
        ({"notion": "unknown"}, GROUPS[FIT], "notion"),
        ({"majority_share": 1.0}, GROUPS[FIT], "majority_share"),
        ({}, None, "needs the group of every row"),
        ({}, np.zeros(600), "at least two groups"),
    ],
)
def test_what_makes_no_sense_is_refused_before_the_charge(
    settings: dict[str, Any], groups: Any, message: str, tmp_path: Any
) -> None:
    ledger = PrivacyLedger(tmp_path / "ledger.json")
    encoder = PrivateFairEncoder(**SETTINGS | settings, ledger=ledger, train_privately=True)
    with pytest.raises(ValueError, match=message):
        encoder.fit(X[FIT], Y[FIT], sensitive_features=groups)
    assert not ledger.entries()


def test_codes_are_not_promised_to_persons_with_several_rows(tmp_path: Any) -> None:
    ledger = PrivacyLedger(tmp_path / "ledger.db")
    encoder = PrivateFairEncoder(**SETTINGS, train_privately=True, ledger=ledger)
    with pytest.raises(ValueError, match="got person_ids, but fair codes"):
        encoder.fit(X[FIT], Y[FIT], sensitive_features=GROUPS[FIT], person_ids=np.arange(600) // 2)
    assert not ledger.entries()


def test_rows_cannot_be_rebuilt(blind: PrivateFairEncoder) -> None:
    with pytest.raises(ValueError, match="cannot rebuild"):
        blind.reconstruct([[0]], sensitive_features=GROUPS[:1])


# -- the certificate -------------------------------------------------------------------


def test_held_out_rows_bound_whatever_is_predicted(
    seeing: PrivateFairEncoder, certificate: Certificate
) -> None:
    claims = downstream(certificate)
    # Whether a prediction is right depends on the label too.
    assert list(claims) == ["demographic_parity", "equalized_odds"]
    hidden, k, left = seeing._hidden_codes(X[HELD], GROUPS[HELD])
    masks = {"": Y[HELD] >= 0, "label 0, ": Y[HELD] == 0, "label 1, ": Y[HELD] == 1}
    for notion, names in (("demographic_parity", [""]), ("equalized_odds", [*masks][1:])):
        counts = np.array(
            [
                [[(masks[m] & (GROUPS[HELD] == g) & (hidden == c)).sum() for g in seeing.groups_]
                 for c in range(k)]
                for m in names
            ]
        )  # fmt: skip
        claim = claims[notion]
        assert claim.estimate == pytest.approx(left * total_variation(counts))
        level = 1 - 0.05 / 3
        bound = left * total_variation_bound(counts, confidence_level=level)
        assert claim.bound == pytest.approx(bound)
        assert claim.bound < 0.7 * downstream_bound(2.0)
        named = {count.stratum for count in claim.counts}
        assert named == {f"{m}code {c}" for m in names for c in range(k)}
    assert certificate.satisfies(tolerance=0.5, scope=DOWNSTREAM_LIKE, notion="demographic_parity")
    hidden_bound = rounded_up(claims["demographic_parity"].bound / left)
    assert any(f"at most {hidden_bound}" in t for t in claims["demographic_parity"].assumptions)


def test_the_bound_is_computed_again_from_what_the_file_stores(certificate: Certificate) -> None:
    document = json.loads(certificate.to_json())
    read = Certificate.from_json(certificate.to_json())
    assert read == certificate
    found = examine(read)
    assert found.holds
    assert not found.missing or all("epsilon" in text for text in found.missing)
    assert any(DOWNSTREAM_LIKE in text for text in found.recomputed)
    claims = [c for c in document["fairness"] if c["scope"] == DOWNSTREAM_LIKE]
    claims[0]["derivation"]["attenuation"] /= 2
    assert not examine(Certificate.from_json(forged_text(document))).holds


def test_a_pipeline_behind_codes_has_the_bound_and_one_beside_the_group_has_not(
    blind: PrivateFairEncoder,
) -> None:
    model = make_pipeline(blind, LogisticRegression())
    model[-1].fit(blind.transform(X[FIT]), Y[FIT])
    found = certify(model, X[HELD], sensitive_features=GROUPS[HELD], holdout="public")
    (claim,) = downstream(found).values()
    hidden, _, left = blind._hidden_codes(X[HELD], GROUPS[HELD])
    table = [[((GROUPS[HELD] == g) & (hidden == c)).sum() for g in "AB"] for c in (0, 1)]
    assert claim.bound == left * total_variation_bound(np.array([table]))
    assert found.fairness[-1].scope == DOWNSTREAM
    assert "whatever is predicted" not in found.sentence  # the deployed model's bound comes first
    options = {"sensitive_features": GROUPS[HELD], "groups": ["A", "B"], "count_epsilon": 1.0}
    protected = certify(model, X[HELD], **options)
    assert not downstream(protected)
    strangers = {"sensitive_features": np.full(200, "C"), "groups": ["A", "B"]}
    assert not downstream(certify(model, X[HELD], **strangers, holdout="public"))


def test_the_picture_has_a_bar_for_each_code_and_group(certificate: Certificate) -> None:
    display = TotalVariationDisplay.from_certificate(certificate)
    assert len(display.ax_.patches) == 2 * 4
    assert display.any_population == downstream_bound(2.0)
    odds = TotalVariationDisplay.from_certificate(certificate, notion="equalized_odds")
    assert len(odds.ax_.patches) == 2 * 2 * 4
    with pytest.raises(ValueError, match="certify fair codes with held-out rows"):
        TotalVariationDisplay.from_certificate(certificate, notion="accuracy_parity")
