"""PrivateFairEncoder: what it releases, decodes, remembers, states and keeps."""

from __future__ import annotations

import copy
import json
import logging
import math
import pickle
import random
import warnings
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import pytest
import sklearn
import torch
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline

from skfairdp import PrivacyLedger, PrivateFairEncoder, certify
from skfairdp.engine.nets import default_net
from skfairdp.exceptions import BudgetExceededError, PrivacyWarning, UnknownGroupError
from skfairdp.representation import downstream_bound
from skfairdp.representation.networks import (
    ConvRepresentationModule,
    representation_net,
)
from tests.common.roster import people
from tests.common.test_nothing_private_is_kept import Interrupted, fitted_names, traces, weights
from tests.common.test_scikit_learn_checks import unexpected
from tests.processes import in_one_worker, run_fresh
from tests.representation.encoders import ENCODERS, build, fitted, once

IDS = np.arange(300)
BRIEFLY = ("laplace", "codes", "codes, trained privately")  # others among the slow tests
every_encoder = pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in BRIEFLY else pytest.mark.slow) for name in ENCODERS],
)


def unforeseen(model: PrivateFairEncoder) -> list[str]:
    """Checks that fail and should not; scikit-learn skips some for their own reasons."""
    model.set_params(batch_size="auto")  # some checks have few rows
    return [line for line in unexpected(model) if "is non deterministic" not in line]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["laplace", "codes"])
def test_scikit_learns_checks_pass_with_repeatable_noise(name: str) -> None:
    model = build(name, reproducible_noise=True, random_state=0, max_epochs=1)
    assert unforeseen(model) == []


@pytest.mark.slow
def test_scikit_learns_checks_fail_only_where_two_releases_are_compared() -> None:
    assert unforeseen(build("laplace")) == []


@every_encoder
def test_releases_and_predictions_have_the_right_form(name: str) -> None:
    X, _, _ = people()
    model = once(name)
    d = model.n_components
    Z = model.transform(X[:50])
    assert Z.shape == (50, d)
    assert Z.dtype == (np.int64 if model.output == "codes" else np.float64)
    assert model.predict(X[:50]).shape == (50,)
    proba = model.predict_proba(X[:50])
    assert proba.shape == (50, 2)
    assert proba.dtype == np.float64
    assert np.allclose(proba.sum(axis=1), 1.0)
    assert model.classes_.tolist() == ["no", "yes"]
    assert model.groups_ == ("a", "b")
    names = model.get_feature_names_out().tolist()
    assert names == [f"privatefairencoder{i}" for i in range(d)]
    frame = copy.deepcopy(model).set_output(transform="pandas").transform(X[:3])
    assert frame.columns.tolist() == names


@every_encoder
def test_a_release_is_decoded_without_another_release(name: str) -> None:
    X, _, groups = people()
    model = fitted(name)
    Z = model.transform(X, ids=IDS)
    spent = model.privacy_.epsilon
    assert np.array_equal(model.predict_from(Z), model.classes_[model.decode(Z).argmax(axis=1)])
    assert model.reconstruct(Z, sensitive_features=groups).shape == X.shape
    assert model.privacy_.epsilon == spent
    # With ids the prediction reads the same release.
    assert np.array_equal(model.predict(X, ids=IDS), model.predict_from(Z))
    assert np.array_equal(model.predict_proba(X, ids=IDS), model.decode(Z))
    assert model.privacy_.epsilon == spent == model.epsilon


def test_codes_are_words_of_the_codebook() -> None:
    X, _, _ = people()
    codes, words = once("codes as codes"), once("codes")
    assert set(np.unique(codes.transform(X))) <= {0, 1, 2, 3}
    Z = words.transform(X)
    for j in range(2):
        assert set(Z[:, j]) <= set(words.codebook_[j])
    with pytest.raises(ValueError, match="codes are 0 to 3"):
        codes.decode([[0, 4]])


@pytest.mark.parametrize("name", ["laplace", "codes"])
def test_what_is_randomised_is_in_the_box_whatever_the_encoder_says(name: str) -> None:
    """Infinite, huge and undefined outputs of the networks are truncated."""
    X, _, _ = people()
    model = fitted(name)
    for extreme in (1e30, -1e30, math.inf, -math.inf, math.nan):
        with torch.no_grad():
            model.module_.encoder.head.bias.fill_(extreme)
        hidden = model._hidden(X[:20])
        if name == "laplace":
            assert (np.abs(hidden) <= model.bound).all()
        else:
            assert ((hidden >= 0) & (hidden < model.n_values)).all()
        assert np.isfinite(model.transform(X[:20])).all()


def test_noise_of_a_release_has_the_stated_scale() -> None:
    X, _, _ = people()
    model = fitted("laplace", epsilon=2.0)
    rows = np.tile(X[:1], (20_000, 1))
    noise = model.transform(rows) - model._hidden(X[:1])
    scale = 2 * 0.5 * 2 / 2.0
    # |Laplace| has mean and deviation 1 in units of the scale: six errors, once in 10**8.
    assert abs(np.abs(noise).mean() / scale - 1.0) <= 6 / math.sqrt(40_000)


@pytest.mark.slow
def test_a_signal_survives_at_large_epsilon_and_none_at_zero() -> None:
    X, y, groups = people(900)
    good = build("laplace", epsilon=50.0, max_epochs=60, batch_size=90).fit(
        X, y, sensitive_features=groups
    )
    assert (good.predict(X) == y).mean() > 0.7
    blind = build("codes", epsilon=0.0, max_epochs=5).fit(X, y, sensitive_features=groups)
    assert blind.privacy_.epsilon == 0.0
    counts = np.unique(np.rint(1e6 * blind.transform(X)), return_counts=True, axis=0)[1]
    # Sixteen equally likely words for 900 rows: a chi-squared test at 1e-9.
    assert ((counts - 56.25) ** 2 / 56.25).sum() + 56.25 * (16 - len(counts)) < 75.0
    assert blind.certify().fairness[0].bound == 0.0


def test_several_classes_groups_and_no_groups() -> None:
    X, _, _ = people()
    y, groups = np.arange(300) % 3, np.array(["p", "q", "r", "s"])[np.arange(300) % 4]
    model = build("laplace").fit(X, y, sensitive_features=groups)
    assert model.predict_proba(X).shape == (300, 3)
    assert model.reconstruct(model.transform(X), sensitive_features=groups).shape == X.shape
    both = pd.DataFrame({"one": groups, "two": np.arange(300) % 2})
    assert len(build("laplace").fit(X, y, sensitive_features=both).groups_) == 4
    alone = build("laplace").fit(X, y)
    assert alone.groups_ is None
    assert alone.reconstruct(alone.transform(X)).shape == X.shape
    assert alone.certify().fairness[0].scope == "any downstream predictor"


# -- ids ------------------------------------------------------------------------------------


def test_the_same_person_with_the_same_row_gets_the_same_release() -> None:
    X, _, _ = people()
    model = once("laplace")
    Z = model.transform(X, ids=IDS)
    backwards = model.transform(X[::-1], ids=IDS[::-1])[::-1]
    assert np.array_equal(Z, backwards)
    assert np.array_equal(Z[7:8], model.transform(X[7:8], ids=IDS[7:8]))
    single = X.astype(np.float32)
    assert np.array_equal(
        model.transform(single, ids=IDS), model.transform(single.astype(float), ids=IDS)
    )
    others = model.transform(X, ids=IDS + 1), fitted("laplace").transform(X, ids=IDS)
    for other, again in ((Z, others[0]), (Z, others[1]), (model.transform(X), model.transform(X))):
        # Two numbers on the grid agree once in 10**4 by chance, two pairs once in 10**8.
        assert not (other == again).all(axis=1).any()


def test_another_encoder_with_the_same_key_draws_other_noise() -> None:
    """Else the difference of two releases would show f2(x) - f1(x) without noise."""
    X, _, _ = people()
    model = fitted("laplace", export_key=True)
    other = pickle.loads(pickle.dumps(model))
    with torch.no_grad():
        other.module_.encoder.head.bias.add_(0.01)
    noises = [m.transform(X, ids=IDS) - m._hidden(X) for m in (model, other)]
    # Shared noise would leave a step of the grid, 6e-5.
    assert np.abs(noises[0] - noises[1]).max(axis=1).min() > 1e-4


def test_one_person_who_hides_two_values_has_two_releases() -> None:
    X, _, _ = people()
    model = once("laplace")
    twice = model.transform(X[:2], ids=[-1, -1])
    noise = twice - model._hidden(X[:2])
    assert np.abs(noise[0] - noise[1]).max() > 1e-4  # a grid step is 6e-5
    # Stated: a person pays for each distinct value.
    assert any("each distinct value that is hidden" in text for text in model.privacy_.assumptions)


@pytest.mark.parametrize("kind", ["frame", "array"])
def test_a_column_of_ids_is_no_feature(kind: str) -> None:
    X, y, groups = people()
    if kind == "frame":
        table = pd.DataFrame(X, columns=list("pqrs")).assign(who=[f"p{i}" for i in IDS])
        model = build("laplace", id_column="who")
        ids = table["who"]
    else:
        table = np.column_stack([X[:, :1], IDS, X[:, 1:]])
        model = build("laplace", id_column=1)
        ids = IDS
    model.fit(table, y, sensitive_features=groups)
    assert model.n_features_in_ == 4
    Z = model.transform(table)
    assert np.array_equal(Z, model.transform(table))
    assert model.privacy_.epsilon == 5.0
    assert np.array_equal(model.predict(table), model.predict_from(Z))
    with pytest.raises(ValueError, match="'ids' were given, and 'id_column'"):
        model.transform(table, ids=ids)
    with pytest.raises(ValueError, match="'id_column' is"):
        build("laplace", id_column="nobody").fit(table, y)


def test_the_key_is_in_a_pickle_only_if_it_is_exported() -> None:
    X, _, _ = people()
    for export in (False, True):
        model = fitted("laplace", export_key=export)
        Z = model.transform(X, ids=IDS)
        key = model.memory_._secret
        stored = pickle.dumps(model)
        assert (key in stored) is export
        other = pickle.loads(stored)
        if export:
            assert np.array_equal(other.transform(X, ids=IDS), Z)
        else:
            with pytest.raises(ValueError, match="not exported"):
                other.transform(X, ids=IDS)
            assert other.transform(X).shape == Z.shape  # fresh noise needs no key


def test_the_key_is_shown_nowhere(logged: list[logging.LogRecord]) -> None:
    X, y, groups = people()
    model = fitted("laplace", export_key=True)
    model.transform(X, ids=IDS)
    certificate = model.certify(X, y, sensitive_features=groups, holdout="public")
    key = model.memory_._secret
    shown = repr(model) + model._repr_html_() + str(certificate) + certificate.to_json()
    shown += (
        "".join(record.getMessage() for record in logged)
        + repr(vars(model))
        + json.dumps(str(model.get_params()))
    )
    for form in (key.hex(), repr(key)[2:-1], str(list(key))):
        assert form not in shown


@in_one_worker
def test_releases_are_the_same_in_another_process(tmp_path: Path) -> None:
    X, _, _ = people()
    models = {name: fitted(name, export_key=True) for name in ("laplace", "codes")}
    expected = {name: model.transform(X, ids=IDS) for name, model in models.items()}
    (tmp_path / "all.pickle").write_bytes(pickle.dumps((models, X, IDS, expected)))
    script = (
        "import pickle, sys, numpy as np\n"
        "models, X, ids, expected = pickle.load(open(sys.argv[1], 'rb'))\n"
        "for name, model in models.items():\n"
        "    assert np.array_equal(model.transform(X, ids=ids), expected[name]), name\n"
    )
    ended = run_fresh(script, str(tmp_path / "all.pickle"), warnings_are_errors=True)
    assert ended.returncode == 0, ended.stderr


# -- statements -----------------------------------------------------------------------------


def test_the_certificate_states_releases_training_rows_and_bounds() -> None:
    X, y, groups = people()
    model = fitted("laplace", epsilon=0.5)
    before = model.certify(notion=["demographic_parity", "accuracy_parity"])
    assert (before.privacy.epsilon, before.privacy.delta) == (0.5, 0.0)
    assert before.privacy.adjacency == "local"
    assert before.privacy.protects == "released_representation"
    (claim,) = before.fairness
    assert claim.notion == "demographic_parity"
    assert claim.bound == pytest.approx(math.tanh(0.25), abs=1e-12)
    assert claim.bound == downstream_bound(0.5)
    text = str(before)
    assert "the training rows are not covered" in text
    assert "I(X;Z) ≤ 0.1225 nats, and I(S;Z) ≤ 0.0303 nats" in text
    after = model.certify(X, y, sensitive_features=groups, holdout="public")
    # The prediction and the measurement were a release each.
    assert after.privacy.epsilon == 1.0
    assert {claim.scope for claim in after.fairness} == {
        "deployed model",
        "any downstream predictor",
    }
    assert any("release reveals at least" in remark for remark in after.remarks)
    assert type(after).from_json(after.to_json()) == after
    assert before.satisfies(epsilon=0.5, protects="released_representation")
    assert not before.satisfies(epsilon=0.5, protects="record")


@pytest.mark.slow
def test_a_leaking_release_is_measured_and_rows_without_a_group_are_left_out() -> None:
    rng = np.random.default_rng(0)
    s = rng.integers(2, size=1200)
    X = np.column_stack([s, s, rng.normal(size=1200)]).astype(float)
    groups = np.array(["f", "m"], dtype=object)[s]
    model = PrivateFairEncoder(epsilon=50.0, beta=100.0, max_epochs=20, progress=False)
    model.fit(X[:600], s[:600])
    groups[600:610] = None
    certificate = model.certify(X[600:], sensitive_features=groups[600:], holdout="public")
    (remark,) = (r for r in certificate.remarks if "Measured on 590 held-out rows" in r)
    measured = float(remark.split("at least ")[1].split(" nats")[0])
    assert 0.3 < measured <= math.log(2)
    few = model.certify(X[600:630], sensitive_features=groups[600:630], holdout="public")
    assert any("was not measured" in remark for remark in few.remarks)


def test_private_held_out_rows_are_measured_by_noisy_counts_alone() -> None:
    X, y, groups = people()
    certificate = once("laplace").certify(X, y, sensitive_features=groups, count_epsilon=0.5)
    assert not any("Measured" in remark for remark in certificate.remarks)
    assert certificate.privacy.protects == "released_representation"


def test_private_training_has_a_statement_of_its_own() -> None:
    model = fitted("trained privately", training_epsilon=2.0, classes=["no", "yes"])
    training = model.training_privacy_
    assert training.epsilon <= 2.0
    assert training.delta == 1e-6
    assert (training.adjacency, training.protects) == ("zero-out", "record")
    assert training.event is not None
    assert model.privacy_.protects == "released_representation"
    assert model.privacy_.epsilon == 5.0
    assert any("their own promise" in text for text in model.privacy_.assumptions)
    declared = fitted("trained privately", dataset_size=300)
    assert declared.training_privacy_.adjacency == "add-remove"
    assert once("laplace").training_privacy_.is_void
    repeatable = once("trained privately", random_state=0, reproducible_noise=True)
    assert repeatable.training_privacy_.is_void
    assert repeatable.privacy_.is_void
    assert repeatable.certify().fairness == ()


def test_without_noise_there_is_a_warning_and_no_promise() -> None:
    X, y, _ = people()
    with pytest.warns(PrivacyWarning, match="epsilon=inf") as caught:
        model = build("laplace", epsilon=math.inf).fit(X, y)
    assert caught[0].filename == __file__
    assert model.privacy_ is None
    assert np.array_equal(model.transform(X), model._hidden(X))
    assert model.certify().privacy is None
    assert model.certify().fairness == ()


def test_fits_and_releases_are_charged(tmp_path: Path) -> None:
    X, y, groups = people()
    ledger = PrivacyLedger(tmp_path / "ledger.db", "people")
    model = build("trained privately", ledger=ledger)
    model.fit(X, y, sensitive_features=groups)
    model.transform(X)
    model.predict(X, ids=IDS)
    model.transform(X, ids=IDS)
    activities = [entry.activity for entry in ledger.entries()]
    assert activities == ["fit", "transform", "transform"]
    # A net that does not fit is found before anything is paid.
    with pytest.raises(ValueError, match="module__n_components"):
        build("laplace", ledger=ledger, net=default_net()).fit(X, y)
    assert len(ledger.entries()) == 3
    # Raw rows cannot be paid for: a budget refuses the fit before a network sees them.
    limited = PrivacyLedger(tmp_path / "limited.db", "people", budget=(10.0, 1e-5))
    raw = build("laplace", ledger=limited)
    with pytest.raises(BudgetExceededError):
        raw.fit(X, y)
    assert fitted_names(raw) == set()


# -- nothing private is kept ----------------------------------------------------------------


@every_encoder
def test_no_row_is_in_a_pickle_or_a_copy(name: str) -> None:
    X, y, groups = people()
    model = once(name)
    model.transform(X, ids=IDS)
    model.predict(X)
    for stored in (pickle.dumps(model), pickle.dumps(copy.deepcopy(model))):
        assert traces(stored, X, y, groups) == []
    assert all(p.grad is None for p in model.module_.parameters())
    assert "loss" not in " ".join(vars(model))
    allowed = set(model.get_params(deep=False)) | set(model._released)
    assert set(vars(copy.deepcopy(model))) <= allowed
    model.secret_ = X
    stored = pickle.dumps(model)
    del model.secret_
    assert not hasattr(pickle.loads(stored), "secret_")


def test_a_fit_says_nothing_about_losses_or_rows(
    capsys: pytest.CaptureFixture[str], logged: list[logging.LogRecord]
) -> None:
    with warnings.catch_warnings(record=True) as caught:
        fitted("laplace", progress=True)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert logged == []
    assert caught == []
    assert "loss" not in shown.err


@every_encoder
def test_joblib_and_copies_hold_the_same_encoder(name: str, tmp_path: Path) -> None:
    X, _, _ = people()
    model = once(name)
    joblib.dump(model, tmp_path / "model.joblib")
    for other in (joblib.load(tmp_path / "model.joblib"), copy.deepcopy(model)):
        assert np.array_equal(other._hidden(X), model._hidden(X))
        assert other.certify().model_digest == model.certify().model_digest
    model.transform(X)
    assert other.certify().model_digest == model.certify().model_digest


@every_encoder
def test_repeatable_noise_repeats_and_fresh_noise_does_not(name: str) -> None:
    X, _, _ = people()
    fits = []
    for seed, fit in ((11, once), (12, fitted)):
        np.random.seed(seed)  # noqa: NPY002 - global state must have no influence
        torch.manual_seed(seed)
        fits.append(fit(name, random_state=0, reproducible_noise=True))
    assert np.array_equal(weights(fits[0]), weights(fits[1]))
    assert np.array_equal(fits[0].transform(X), fits[1].transform(X))
    fresh = [fitted(name, random_state=0) for _ in range(2)]
    assert not np.array_equal(weights(fresh[0]), weights(fresh[1]))


def test_global_generators_are_left_alone() -> None:
    np.random.rand(), torch.rand(1), random.random()  # noqa: NPY002
    before = np.random.get_state(), torch.get_rng_state(), random.getstate()  # noqa: NPY002
    X, _, groups = people()
    fitted("trained privately")
    fitted("codes").certify(X, sensitive_features=groups, holdout="public")
    after = np.random.get_state(), torch.get_rng_state(), random.getstate()  # noqa: NPY002
    assert all(np.array_equal(a, b) for a, b in zip(before[0], after[0], strict=True))
    assert torch.equal(before[1], after[1])
    assert before[2] == after[2]


@pytest.mark.parametrize("name", ["laplace", "trained privately"])
def test_a_failed_fit_leaves_nothing_behind(name: str) -> None:
    X, y, groups = people()
    model = fitted(name)
    Interrupted.taken = 0
    model.set_params(net=representation_net().set_params(optimizer=Interrupted))
    with pytest.raises(RuntimeError, match="interrupted"):
        model.fit(X, y, sensitive_features=groups)
    assert fitted_names(model) == set()
    assert traces(pickle.dumps(model), X, y, groups) == []


def test_the_users_net_is_untouched_and_can_be_searched() -> None:
    X, y, groups = people()
    net = representation_net().set_params(module__hidden_sizes=(8,), lr=0.02)
    parameters = net.get_params(deep=False)
    model = build("laplace", net=net).fit(X, y, sensitive_features=groups)
    assert net.get_params(deep=False) == parameters
    assert not net.initialized_
    assert model.module_.encoder.features[0].out_features == 8
    from_default = build("laplace").set_params(net__module__utility_sizes=(3,))
    from_default.fit(X, y)
    assert from_default.module_.utility.features[0].out_features == 3
    with pytest.raises(ValueError, match="module__hiden"):
        build("laplace").set_params(net__module__hiden=(3,)).fit(X, y)
    with pytest.raises(ValueError, match="module__n_components"):
        build("laplace", net=default_net()).fit(X, y)


# -- in scikit-learn ------------------------------------------------------------------------


def pipeline(**parameters: object) -> Pipeline:
    return Pipeline([("encode", build("laplace", **parameters)), ("clf", LogisticRegression())])


def test_a_search_over_epsilon_and_beta_in_front_of_any_classifier() -> None:
    X, y, groups = people()
    grid = {"encode__epsilon": [1.0, 5.0], "encode__beta": [1.0, 10.0]}
    search = GridSearchCV(pipeline(), grid, cv=2)
    search.fit(X, y, encode__sensitive_features=groups)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.best_estimator_["encode"].groups_ == ("a", "b")
    assert certify(search).privacy.is_void
    assert clone(search.best_estimator_)["encode"].get_params()["progress"] is False


def test_groups_and_ids_are_routed() -> None:
    X, y, groups = people()
    with sklearn.config_context(enable_metadata_routing=True):
        model = pipeline().fit(X, y, sensitive_features=groups)
        assert model["encode"].groups_ == ("a", "b")
        first = model.predict(X, ids=IDS)
        assert np.array_equal(first, model.predict(X, ids=IDS))
        search = GridSearchCV(pipeline(), {"encode__beta": [1.0, 2.0]}, cv=2)
        search.fit(X, y, sensitive_features=groups)
        assert search.best_estimator_["encode"].groups_ == ("a", "b")


def test_a_pipeline_promises_what_the_release_promises() -> None:
    X, y, groups = people()
    model = pipeline(epsilon=0.5).fit(X, y, encode__sensitive_features=groups)
    certificate = certify(model, X, y, sensitive_features=groups, holdout="public")
    assert certificate.privacy.protects == "released_representation"
    assert certificate.privacy.epsilon == 0.5 * model["encode"].releases_.total
    claims = {claim.scope: claim for claim in certificate.fairness}
    assert claims["any downstream predictor"].bound == downstream_bound(0.5)
    assert claims["deployed model"].estimate <= 1.0
    assert any("release reveals at least" in remark for remark in certificate.remarks)


# -- images ---------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("private", [False, True])
def test_images_have_representations_of_their_own_shape(private: bool) -> None:
    rng = np.random.default_rng(0)
    X = rng.random((20, 3, 3, 3))
    y, groups = np.arange(20) % 4, np.array(["r", "g", "b"])[np.arange(20) % 3]
    net = representation_net().set_params(
        module=ConvRepresentationModule, module__image_shape=(3, 3, 3), module__channels=5
    )
    model = PrivateFairEncoder(
        net, n_components=27, epsilon=100.0, column_types="bernoulli", max_epochs=1,
        train_privately=private, progress=False,
    ).fit(X, y, sensitive_features=groups)  # fmt: skip
    Z = model.transform(X)
    assert Z.shape == (20, 27)
    assert model.predict(X).shape == (20,)
    rebuilt = model.reconstruct(Z, sensitive_features=groups)
    assert rebuilt.shape == (20, 27)
    assert ((rebuilt >= 0) & (rebuilt <= 1)).all()
    assert model.transform(X.reshape(20, 27)[:2].reshape(2, 3, 3, 3)).shape == (2, 27)
    with pytest.raises(ValueError, match="image_shape"):
        clone(model).set_params(n_components=2).fit(X, y)


def test_unknown_groups_cannot_be_rebuilt() -> None:
    X, _, _ = people()
    model = once("laplace")
    Z = model.transform(X)
    with pytest.raises(ValueError, match="'sensitive_features' are needed"):
        model.reconstruct(Z)
    with pytest.raises(UnknownGroupError):
        model.reconstruct(Z, sensitive_features=np.full(300, "c"))


def test_parameters_that_are_set_after_a_fit_change_no_release() -> None:
    X, y, groups = people()
    model = PrivateFairEncoder(noise="randomized_response", max_epochs=1, progress=False)
    model.fit(X, y, sensitive_features=groups)
    before = model.transform(X, ids=range(len(X)))
    model.set_params(bound=0.01, output="codes", export_key=True)
    assert not model._changed_since_fit()
    np.testing.assert_array_equal(model.transform(X, ids=range(len(X))), before)
    assert model.releases_.total == 1
