"""LaplaceTransformer: what it releases, counts, charges, states and refuses."""

from __future__ import annotations

import contextlib
import copy
import math
import pickle
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from skfairdp.certificate import Certificate
from skfairdp.exceptions import BudgetExceededError, PrivacyWarning
from skfairdp.privacy.ledger import PrivacyLedger
from skfairdp.representation import LaplaceTransformer, downstream_bound
from skfairdp.representation.release_memory import ReleaseMemory

X = np.random.default_rng(0).normal(size=(60, 3))
IDS = np.arange(60)


@pytest.mark.filterwarnings("ignore:epsilon=inf")
@parametrize_with_checks(
    [LaplaceTransformer(reproducible_noise=True, random_state=0), LaplaceTransformer(math.inf)]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_releases_are_clipped_rows_under_laplace_noise():
    n = 20_000
    transformer = LaplaceTransformer(2.0, bound=0.5).fit(np.zeros((1, 2)))
    released = transformer.transform(np.tile([[0.1, 55.0]], (n, 1)))
    noise = (released - [0.1, 0.5]) / 1.0  # scale 2 * .5 * 2 / 2
    for column in noise.T:
        # The grid is about 1/4000 of the scale, too fine to be seen with this many rows.
        assert stats.kstest(column, "laplace").pvalue > 1e-9


def test_fit_learns_the_number_of_columns_and_nothing_else():
    one, two = (LaplaceTransformer().fit(rows) for rows in (X, 1e6 * X[:2] + 3))
    assert one._learns_from_rows is False
    apart = ("memory_", "releases_", "receipt_")
    states = [
        {name: value for name, value in vars(t).items() if name not in apart} for t in (one, two)
    ]
    assert states[0] == states[1]
    digests = [{**t.receipt_.digests, "memory_": ""} for t in (one, two)]
    assert digests[0] == digests[1]
    frame = pd.DataFrame(X, columns=list("abc"))
    assert LaplaceTransformer().fit(frame).get_feature_names_out().tolist() == ["a", "b", "c"]


def test_every_call_without_ids_is_another_release():
    transformer = LaplaceTransformer(0.5).fit(X)
    assert transformer.privacy_.epsilon == 0.5  # what the first release will promise
    assert not (transformer.transform(X) == transformer.transform(X)).all(axis=1).any()
    stated = transformer.certify().privacy
    assert stated.epsilon == 1.0
    assert stated.delta == 0.0
    assert (stated.adjacency, stated.protects) == ("local", "released_representation")
    assert any("called 2 times without ids" in text for text in stated.assumptions)
    assert not transformer.certify().satisfies(epsilon=0.9)


def test_calls_with_ids_are_one_release_together():
    transformer = LaplaceTransformer(0.5).fit(X)
    first = transformer.transform(X, ids=IDS)
    assert np.array_equal(transformer.transform(X[:5], ids=IDS[:5]), first[:5])
    assert transformer.privacy_.epsilon == 0.5
    transformer.transform(X)
    assert transformer.privacy_.epsilon == 1.0
    # Another fit has another key.
    assert not (clone(transformer).fit_transform(X, ids=IDS) == first).all(axis=1).any()


def test_what_clipping_makes_equal_is_released_equally():
    """The release hides the clipped row; an unclipped one in the hash would add nothing."""
    transformer = LaplaceTransformer(1.0, bound=0.5).fit(X)
    rows = [[7.0, math.nan, -math.inf], [0.5, 0.0, -0.5]]
    released = transformer.transform(rows, ids=["ann", "ann"])
    assert np.array_equal(*released)
    fresh = transformer.transform(rows)
    assert np.isfinite(fresh).all()


def test_the_last_digits_of_an_encoder_make_no_other_row():
    transformer = LaplaceTransformer(0.5).fit(X)
    first = transformer.transform(X, ids=IDS)
    assert np.array_equal(transformer.transform(X * (1.0 + 1e-15), ids=IDS), first)
    small, moved = (transformer.transform(X / 100 + by, ids=IDS) for by in (0.0, 0.01))
    assert not (small == moved).all(axis=1).any()


def test_the_certificate_states_the_downstream_bounds_of_one_release():
    transformer = LaplaceTransformer(0.5).fit(X)
    transformer.transform(X)
    transformer.transform(X)
    certificate = transformer.certify()
    assert [claim.notion for claim in certificate.fairness] == [
        "demographic_parity",
        "equal_opportunity",
        "equalized_odds",
    ]
    for claim in certificate.fairness:
        assert claim.scope == "any downstream predictor"
        assert claim.bound == downstream_bound(0.5)
        assert any("not fitted on the person" in text for text in claim.assumptions)
        assert any("tanh(kε/2)" in text for text in claim.assumptions)
    assert any(
        "0.1225 nats" in text and "0.0303 nats" in text for text in certificate.privacy.assumptions
    )
    assert not certificate.satisfies(epsilon=1.0, tolerance=0.25), "there is no deployed model"
    assert certificate.satisfies(epsilon=1.0, tolerance=0.25, scope="any downstream predictor")
    assert Certificate.from_json(certificate.to_json()) == certificate
    assert certificate.verify(transformer)
    transformer.transform(X)
    assert certificate.verify(transformer)  # one more release changes no release


def test_no_fairness_is_claimed_for_accuracy_or_without_noise():
    transformer = LaplaceTransformer(0.5).fit(X)
    assert transformer._mechanism_fairness("accuracy_parity") == []
    with pytest.warns(PrivacyWarning, match="epsilon=inf") as caught:
        without = LaplaceTransformer(math.inf).fit(X)
    assert caught[0].filename == __file__
    assert np.array_equal(without.transform(X), np.clip(X, -0.5, 0.5))
    assert without.certify().privacy is None
    assert without.certify().fairness == ()


def test_reproducible_noise_voids_everything_for_good():
    transformer = LaplaceTransformer(0.5, reproducible_noise=True, random_state=3).fit(X)
    assert np.array_equal(transformer.transform(X), transformer.transform(X))
    assert transformer.certify().privacy.is_void
    assert transformer.certify().fairness == ()
    transformer.set_params(reproducible_noise=False)
    assert transformer.certify().privacy.is_void


def test_random_state_alone_repeats_no_noise():
    one, two = (LaplaceTransformer(random_state=3).fit(X).transform(X) for _ in "ab")
    assert not (one == two).all(axis=1).any()


def test_changed_parameters_wait_for_the_next_fit():
    transformer = LaplaceTransformer(0.5).fit(X).set_params(epsilon=0.1)
    transformer.transform(X)
    assert transformer.certify().privacy.epsilon == 0.5


@pytest.mark.parametrize("duplicate", [lambda t: pickle.loads(pickle.dumps(t)), copy.deepcopy])
def test_a_pickle_repeats_releases_only_with_its_key(duplicate):
    kept = LaplaceTransformer(export_key=True).fit(X)
    first = kept.transform(X, ids=IDS)
    assert np.array_equal(duplicate(kept).transform(X, ids=IDS), first)
    assert duplicate(kept).releases_.remembered
    lost = LaplaceTransformer().fit(X)
    key = lost.memory_._secret
    assert key not in pickle.dumps(lost)
    with pytest.raises(ValueError, match="not exported"):
        duplicate(lost).transform(X, ids=IDS)
    duplicate(lost).transform(X)  # fresh noise needs no key


def test_nothing_shows_the_key_or_a_row():
    rows = np.full((4, 3), 0.4371829)
    transformer = LaplaceTransformer(export_key=False).fit(rows)
    transformer.transform(rows, ids=["someone"] * 4)
    key, certificate = transformer.memory_._secret, transformer.certify()
    shown = repr(vars(transformer)) + repr(transformer) + certificate.to_json()
    for private in (key.hex(), repr(key), "0.4371829", "someone"):
        assert private not in shown
    assert b"someone" not in pickle.dumps(transformer)


def test_each_release_is_charged_before_rows_are_used(tmp_path, monkeypatch):
    ledger = PrivacyLedger(tmp_path / "ledger.db", budget=(1.2, 1e-9), adjacency="local")
    transformer = LaplaceTransformer(0.5, ledger=ledger).fit(X)
    assert len(ledger.entries()) == 0
    transformer.transform(X)
    transformer.transform(X, ids=IDS)
    transformer.transform(X, ids=IDS)
    assert [entry.activity for entry in ledger.entries()] == ["transform"] * 2
    used = []
    monkeypatch.setattr(
        type(transformer.randomizer_), "release", lambda *arguments: used.append(arguments)
    )
    with pytest.raises(BudgetExceededError):
        transformer.transform(X)
    assert not used
    assert transformer.releases_.fresh == 1
    (total,) = ledger.totals()
    assert total.epsilon == pytest.approx(1.0)
    assert total.adjacency == "local"


def test_a_release_that_fails_on_its_way_is_counted_and_charged(tmp_path, monkeypatch):
    ledger = PrivacyLedger(tmp_path / "ledger.db")
    transformer = LaplaceTransformer(0.5, ledger=ledger).fit(X)

    def fail(*arguments):
        raise RuntimeError("interrupted")

    monkeypatch.setattr(type(transformer.randomizer_), "release", fail)
    with pytest.raises(RuntimeError, match="interrupted"):
        transformer.transform(X)
    assert transformer.releases_.fresh == 1
    assert len(ledger.entries()) == 1


@pytest.mark.parametrize("ids", [["ann"] * 3, None])
def test_threads_that_release_at_once_are_all_counted_and_charged(ids, tmp_path, monkeypatch):
    """Three hidden values of one person, or three calls without ids, are three releases."""
    ledger = PrivacyLedger(tmp_path / "ledger.db")
    transformer = LaplaceTransformer(0.5, ledger=ledger).fit(X)
    together = threading.Barrier(3)
    count, reserve = ReleaseMemory.count, PrivacyLedger.reserve

    def meet() -> None:  # nobody else comes where threads take turns
        with contextlib.suppress(threading.BrokenBarrierError):
            together.wait(0.1)

    def counted(memory, streams):
        found = count(memory, streams)
        meet()
        return found

    def reserved(ledger, *stated, **said):
        entry = reserve(ledger, *stated, **said)
        meet()
        return entry

    monkeypatch.setattr(ReleaseMemory, "count", counted)
    monkeypatch.setattr(PrivacyLedger, "reserve", reserved)
    rows = [np.full((3, 3), 0.1 * place) for place in range(3)]
    with ThreadPoolExecutor(3) as pool:
        released = list(pool.map(lambda own: transformer.transform(own, ids=ids), rows))
    assert len(released) == 3
    assert transformer.releases_.total == 3
    assert transformer.privacy_.epsilon == 1.5
    (total,) = ledger.totals()
    assert total.epsilon == pytest.approx(1.5)


def test_releases_without_noise_are_charged_as_such(tmp_path):
    ledger = PrivacyLedger(tmp_path / "ledger.db")
    with pytest.warns(PrivacyWarning):
        LaplaceTransformer(math.inf, ledger=ledger).fit_transform(X)
    assert ledger.totals()[0].is_void


def test_it_works_in_pipelines_and_searches():
    y = (X[:, 0] > 0).astype(int)
    pipeline = make_pipeline(LaplaceTransformer(8.0), LogisticRegression())
    search = GridSearchCV(pipeline, {"laplacetransformer__epsilon": [1.0, 100.0]}, cv=2)
    assert search.fit(X, y).predict(X).shape == (60,)


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"epsilon": 0.0}, "'epsilon'"),
        ({"epsilon": -1.0}, "'epsilon'"),
        ({"epsilon": math.nan}, "'epsilon'"),
        ({"bound": 0.0}, "'bound'"),
        ({"bound": -1.0}, "'bound'"),
        ({"bound": math.inf}, "'bound'"),
        ({"export_key": 1}, "'export_key'"),
        ({"ledger": 3}, "'ledger'"),
        ({"epsilon": 1e-9}, "too small"),
    ],
)
def test_senseless_parameters_are_refused_and_leave_it_unfitted(parameters, said):
    transformer = LaplaceTransformer().fit(X).set_params(**parameters)
    with pytest.raises(ValueError, match=said):
        transformer.fit(X)
    with pytest.raises(NotFittedError):
        transformer.transform(X)


def test_it_refuses_before_fit_and_other_rows():
    with pytest.raises(NotFittedError):
        LaplaceTransformer().transform(X)
    with pytest.raises(NotFittedError):
        LaplaceTransformer().certify()
    transformer = LaplaceTransformer().fit(X)
    with pytest.raises(ValueError, match="2 features"):
        transformer.transform(X[:, :2])
    with pytest.raises(ValueError, match="convert|float"):
        transformer.transform(np.full((2, 3), "secret"))
    with pytest.raises(ValueError, match="missing"):
        transformer.transform(X[:2], ids=["a", None])
    assert transformer.releases_.total == 0


def test_warnings_are_none():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LaplaceTransformer().fit_transform(PCA(2).fit_transform(X))


def test_held_out_rows_measure_what_a_release_tells_about_the_group():
    rng = np.random.default_rng(0)
    groups = rng.integers(2, size=2000)
    rows = groups[:, None] + rng.normal(scale=0.1, size=(2000, 2)) - 0.5
    transformer = LaplaceTransformer(4.0).fit(rows)
    certificate = transformer.certify(rows, sensitive_features=groups, holdout="public")
    told = [text for text in certificate.remarks if "nats about the group" in text]
    assert len(told) == 1
    assert transformer.releases_.fresh == 1
    assert certificate.privacy.epsilon == 4.0
    assert any("predicts nothing" in text for text in certificate.remarks)
    assert [claim.scope for claim in certificate.fairness] == ["any downstream predictor"] * 3
