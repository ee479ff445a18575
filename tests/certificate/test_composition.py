from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from dp_accounting import dp_event
from fairlearn.postprocessing import ThresholdOptimizer
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import SelectKBest
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    StandardScaler,
)

from skfairdp import DPSGDClassifier, certify
from skfairdp.certificate.released_events import unlike_training
from skfairdp.fairness.bounds.rate_gaps import gap_upper_bound
from skfairdp.foundation.assumptions import TYPED_CELLS
from skfairdp.model_selection import PrivateSearchCV
from skfairdp.privacy import NoiseSource, PrivacyGuarantee, compose
from skfairdp.privacy.accounting.exposure import Exposure
from tests.certificate.fakes import Doubler, PrivateCenterer, Rows, ThresholdClassifier, stated

# Many fits here follow a step that learns from rows, which warns.
pytestmark = pytest.mark.filterwarnings("ignore:.* may have learned from the rows")

DIGITS = [[0.0, 1.0], [0.0, 1.0]]


def pipeline(*steps, rows: Rows):
    return make_pipeline(*steps, ThresholdClassifier()).fit(rows.X, rows.y)


@pytest.mark.parametrize(
    ("step", "assumed"),
    [
        (Doubler(), ()),
        (Normalizer(), (TYPED_CELLS,)),
        (FunctionTransformer(np.abs), (TYPED_CELLS,)),
        ("passthrough", ()),
        (None, ()),
        (
            SimpleImputer(strategy="constant", fill_value=0, keep_empty_features=True),
            (TYPED_CELLS,),
        ),
        (FeatureUnion([("one", Doubler()), ("two", "drop")]), ()),
        (
            ColumnTransformer(
                [("one", Normalizer(), [0, 1])], remainder="passthrough", sparse_threshold=0
            ),
            (TYPED_CELLS,),
        ),
        (Pipeline([("inner", Doubler()), ("last", Normalizer())]), (TYPED_CELLS,)),
    ],
    ids=str,
)
def test_steps_that_learn_nothing_keep_the_privacy_claim(step, assumed, rows):
    certificate = certify(pipeline(step, rows=rows))
    assert certificate.privacy == stated(assumptions=assumed)


@pytest.mark.parametrize(
    ("step", "name"),
    [
        (StandardScaler(), "standardscaler"),
        (MinMaxScaler(), "minmaxscaler"),
        (SimpleImputer(), "simpleimputer"),
        (PCA(), "pca"),
        (SelectKBest(k=2), "selectkbest"),
        (
            FeatureUnion([("a", Doubler()), ("b", StandardScaler())]),
            "featureunion__b",
        ),
        (
            ColumnTransformer([("a", Normalizer(), [0]), ("b", StandardScaler(), [1])]),
            "columntransformer__b",
        ),
        (Pipeline([("in", Doubler()), ("deep", StandardScaler())]), "pipeline__deep"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_step_that_learned_from_rows_voids_privacy_and_is_named(step, name, rows):
    weights = (1.0,) * (4 if isinstance(step, FeatureUnion) else 2)
    model = make_pipeline(step, ThresholdClassifier(weights)).fit(rows.X, rows.y)
    privacy = certify(model).privacy
    assert math.isinf(privacy.epsilon)
    assert repr(name) in privacy.assumptions[0]
    declared = certify(model, public_steps=[name]).privacy
    assert declared.epsilon == stated().epsilon
    assert any(name in text and "declared public" in text for text in declared.assumptions)


def test_a_void_claim_lists_reasons_and_no_assumptions_of_other_steps(rows):
    model = pipeline(StandardScaler(), rows=rows)
    model[-1].privacy_ = dataclasses.replace(stated(), assumptions=("one row is one person",))
    (reason,) = certify(model).privacy.assumptions
    assert "'standardscaler'" in reason


def test_declaring_a_container_public_covers_what_is_in_it(rows):
    union = FeatureUnion([("a", MinMaxScaler()), ("b", StandardScaler())])
    model = make_pipeline(union, ThresholdClassifier((1.0,) * 4)).fit(rows.X, rows.y)
    assert certify(model, public_steps=["featureunion"]).privacy.epsilon == stated().epsilon


@pytest.mark.parametrize(
    ("encoder", "void"),
    [
        (OneHotEncoder(categories=DIGITS), False),
        (OneHotEncoder(), True),
        (OneHotEncoder(categories=DIGITS, min_frequency=2), True),
        (OrdinalEncoder(categories=DIGITS), False),
        (OrdinalEncoder(), True),
    ],
)
def test_encoders_need_given_categories(encoder, void):
    X = np.random.default_rng(0).integers(2, size=(50, 2)).astype(float)
    encoder.set_output(transform="default")
    encoded = encoder.fit_transform(X)
    model = make_pipeline(encoder, ThresholdClassifier((1.0,) * encoded.shape[1]))
    if hasattr(encoded, "toarray"):
        encoder.set_params(sparse_output=False)
    assert certify(model.fit(X, X[:, 0])).privacy.is_void is void


def test_subclasses_of_harmless_steps_are_not_trusted(rows):
    class Learner(Normalizer):
        pass

    assert certify(pipeline(Learner(), rows=rows)).privacy.is_void


def test_private_steps_are_composed_by_their_events(rows):
    privacy = certify(pipeline(PrivateCenterer(), rows=rows)).privacy
    expected = compose([stated(10.0), stated()])
    assert privacy.epsilon == expected.epsilon
    assert stated().epsilon < privacy.epsilon < stated().epsilon + stated(10.0).epsilon


def test_a_model_without_noise_has_no_privacy_claim(rows):
    model = ThresholdClassifier().fit(rows.X, rows.y)
    model.privacy_ = None
    certificate = certify(model)
    assert certificate.privacy is None
    assert not certificate.satisfies(epsilon=1e9)
    assert "not protected" in certificate.sentence


def test_a_void_claim_stays_void_and_satisfies_nothing(rows):
    model = ThresholdClassifier().fit(rows.X, rows.y)
    model.privacy_ = PrivacyGuarantee.void("the noise was reproducible")
    certificate = certify(
        model, rows.X, sensitive_features=rows.groups, count_epsilon=1.0, groups=["a", "b"]
    )
    assert certificate.privacy.assumptions[0] == "the noise was reproducible"
    assert not certificate.satisfies(epsilon=1e9)


def test_a_foreign_estimator_gets_fairness_but_no_privacy(rows):
    model = LogisticRegression().fit(rows.X, rows.y)
    certificate = certify(model, rows.X, sensitive_features=rows.groups, holdout="public")
    assert (
        "LogisticRegression is not an estimator of skfairdp" in certificate.privacy.assumptions[0]
    )
    assert certificate.fairness[0].informative


def test_a_wrapper_around_ours_is_void_and_says_why(rows):
    inner = ThresholdClassifier().fit(rows.X, rows.y)
    wrapper = ThresholdOptimizer(
        estimator=inner, prefit=True, predict_method="predict", constraints="demographic_parity"
    ).fit(rows.X, rows.y, sensitive_features=rows.groups)
    certificate = certify(wrapper, rows.X, rows.y, sensitive_features=rows.groups, holdout="public")
    assert "around an estimator of skfairdp" in certificate.privacy.assumptions[0]
    assert certificate.fairness[0].informative


def test_a_search_is_void_and_names_what_its_fits_cost(rows):
    search = GridSearchCV(
        make_pipeline(Doubler(), ThresholdClassifier()),
        {"thresholdclassifier__threshold": [0.0, 0.1]},
        cv=3,
    ).fit(rows.X, rows.y)
    certificate = certify(search, rows.X, sensitive_features=rows.groups, holdout="public")
    assert certificate.privacy.is_void
    assert certificate.privacy.assumptions[0].startswith("GridSearchCV chose this model")
    hits = [search.predict(rows.X)[rows.groups == g].sum() for g in ("a", "b")]
    assert certificate.fairness[0].bound == gap_upper_bound(hits, [300, 300])


def test_a_search_inside_a_pipeline_is_unwrapped(rows):
    search = GridSearchCV(ThresholdClassifier(), {"threshold": [0.0, 0.1]}, cv=2)
    model = make_pipeline(Doubler(), search).fit(rows.X, rows.y)
    certificate = certify(model, rows.X, sensitive_features=rows.groups, holdout="public")
    assert "GridSearchCV" in certificate.privacy.assumptions[0]
    assert certificate.verify(model)


def test_a_search_that_pays_for_itself_states_its_own_cost(rows):
    mechanism = DPSGDClassifier(max_epochs=1, progress=False)
    search = PrivateSearchCV(mechanism, {"max_grad_norm": [0.5, 1.0]}, random_state=0)
    search.fit(rows.X, rows.y)
    certificate = certify(search, rows.X, sensitive_features=rows.groups, holdout="public")
    assert certificate.privacy == search.privacy_
    (alternatives,) = (fact for fact in certificate.facts if fact.name == "alternatives")
    assert alternatives.value == "10 expected candidates, compared by PrivateSearchCV"
    search.receipt_ = dataclasses.replace(search.receipt_, digests={})
    assert "PrivateSearchCV was changed after its fit" in certify(search).privacy.assumptions[0]


def test_a_search_without_refit_has_no_model(rows):
    search = GridSearchCV(ThresholdClassifier(), {"threshold": [0.0]}, cv=2, refit=False)
    with pytest.raises(NotFittedError):
        certify(search.fit(rows.X, rows.y))


@pytest.mark.parametrize("adjacency", ["zero-out", "add-remove"])
def test_counts_of_rows_split_by_index_compose_with_training(rows, adjacency):
    model = ThresholdClassifier().fit(rows.X, rows.y, sensitive_features=rows.groups)
    model.privacy_ = stated(adjacency=adjacency)
    privacy = certify(model, rows.X, sensitive_features=rows.groups, count_epsilon=0.4).privacy
    assert privacy.adjacency == "zero-out"  # parts of others move when a record is removed
    assert not privacy.satisfies(1e9, adjacency="add-remove")
    assert any("no finite ε follows under add-remove" in text for text in privacy.assumptions)
    assert stated().epsilon < privacy.epsilon <= stated().epsilon + 0.4 + 1e-9
    assert any("ε = 0.4" in text and "AES-128" in text for text in privacy.assumptions)


@pytest.mark.parametrize("count_epsilon", [0.1, 3.0])
def test_counts_of_rows_assigned_one_by_one_cost_the_larger(rows, count_epsilon):
    model = ThresholdClassifier().fit(rows.X, rows.y, sensitive_features=rows.groups)
    privacy = certify(
        model,
        rows.X,
        sensitive_features=rows.groups,
        count_epsilon=count_epsilon,
        holdout="per_record",
    ).privacy
    assert privacy.epsilon == max(stated().epsilon, count_epsilon)
    assert privacy.delta == 1e-6
    assert PrivacyGuarantee.from_dict(privacy.to_dict()) == privacy


@pytest.mark.parametrize("part", ["event", "exposures"])
def test_releases_of_the_model_that_a_certificate_leaves_out_are_found(rows, part):
    """Its epsilon is as before: a file of fewer releases than the model made is not its own."""
    model = ThresholdClassifier().fit(rows.X, rows.y, sensitive_features=rows.groups)
    certificate = certify(model, rows.X, sensitive_features=rows.groups, count_epsilon=0.4)
    privacy = certificate.privacy
    assert certificate.verify(model)
    counts = dp_event.DiscreteLaplaceDpEvent(0.4, 1)
    shares = {"event": counts, "exposures": (Exposure(counts),)}
    forged = dataclasses.replace(privacy, **{part: shares[part]})
    assert list(unlike_training(privacy, model.privacy_, others=False)) == []
    found = list(unlike_training(forged, model.privacy_, others=False))
    assert found == [
        f"the stated {'events' if part == 'event' else part} are not those of the model's training"
    ]
    assert not dataclasses.replace(certificate, privacy=forged).verify(model)
    # Nor may it add releases that are no counts, but where other steps were charged too.
    more = compose([privacy, stated()])
    assert list(unlike_training(more, model.privacy_, others=False)) != []
    assert list(unlike_training(more, model.privacy_, others=True)) == []


def test_a_file_without_the_events_that_its_model_has_is_not_its_own(rows):
    """Of counts that compose with the training it could state any epsilon from the model's on."""
    model = ThresholdClassifier().fit(rows.X, rows.y, sensitive_features=rows.groups)
    certificate = certify(model, rows.X, sensitive_features=rows.groups, count_epsilon=0.4)
    privacy = certificate.privacy
    assert privacy.epsilon > model.privacy_.epsilon
    without = {"event": None, "exposures": ()}
    for epsilon in (privacy.epsilon, model.privacy_.epsilon):
        forged = dataclasses.replace(privacy, epsilon=epsilon, **without)
        assert not dataclasses.replace(certificate, privacy=forged).verify(model)
    # A model of which no events are known, as of a rule of its own, has such a total.
    model.privacy_ = dataclasses.replace(model.privacy_, **without)
    own = certify(model, rows.X, sensitive_features=rows.groups, holdout="public")
    assert own.privacy.event is None
    assert own.verify(model)


def test_public_cell_sizes_turn_the_relation_into_zero_out(rows):
    model = ThresholdClassifier().fit(rows.X, rows.y, sensitive_features=rows.groups)
    model.privacy_ = stated(adjacency="add-remove")
    privacy = certify(
        model, rows.X, sensitive_features=rows.groups, count_epsilon=0.4, cell_sizes="public"
    ).privacy
    assert privacy.adjacency == "zero-out"


def test_costs_of_different_kinds_are_not_added(rows):
    model = ThresholdClassifier().fit(rows.X, rows.y, sensitive_features=rows.groups)
    model.privacy_ = stated(protects="sensitive_features")
    privacy = certify(
        model,
        rows.X,
        sensitive_features=rows.groups,
        count_epsilon=0.4,
        count_noise=NoiseSource(),
    ).privacy
    assert privacy.epsilon == stated().epsilon
    assert any("ε = 0.4" in text for text in privacy.assumptions)
    mixed = pipeline(PrivateCenterer(), rows=rows)
    mixed[-1].privacy_ = stated(protects="sensitive_features")
    assert "no total" in certify(mixed).privacy.assumptions[0]


def centred(X):
    return X - np.mean(X, axis=0)


@pytest.mark.parametrize(("func", "void"), [(None, False), (np.tanh, False), (centred, True)])
def test_a_function_that_may_mix_rows_voids_privacy(func, void, rows):
    model = pipeline(FunctionTransformer(func), rows=rows)
    assert certify(model).privacy.is_void is void
