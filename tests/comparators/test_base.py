"""The comparators as scikit-learn transformers that promise no privacy."""

from __future__ import annotations

import pickle
import random

import numpy as np
import pandas as pd
import pytest
import sklearn
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.utils.estimator_checks import check_estimator

from skfairdp import DPSGDClassifier, certify
from skfairdp.comparators import (
    CFAIREncoder,
    CFBEncoder,
    FFVAEEncoder,
    LAFTREncoder,
    PPVAEEncoder,
    VFAEEncoder,
)
from skfairdp.exceptions import UnknownGroupError
from skfairdp.receipts.unwrap import learns_from_rows

from .makings import EVERY, GROUP_AWARE, WITH_LABELS, encode, people, small

every_one = pytest.mark.parametrize("kind", EVERY, ids=lambda kind: kind.__name__)
with_labels = pytest.mark.parametrize("kind", WITH_LABELS, ids=lambda kind: kind.__name__)
group_aware = pytest.mark.parametrize("kind", GROUP_AWARE, ids=lambda kind: kind.__name__)


@every_one
def test_groups_whose_index_is_in_another_order_are_refused(kind):
    X, y, s = people()
    with pytest.raises(ValueError, match="'X' and 'sensitive_features' hold the same labels"):
        small(kind).fit(pd.DataFrame(X), y, sensitive_features=pd.Series(s)[::-1])


@every_one
def test_a_representation_has_as_many_components_as_asked_for(kind):
    X, y, s = people()
    encoder = small(kind, n_components=3).fit(X, y, sensitive_features=s)
    Z = encode(encoder, X[:50], s[:50])
    assert Z.shape == (50, 3)
    assert Z.dtype == np.float64
    assert np.isfinite(Z).all()
    assert list(encoder.get_feature_names_out()) == [
        f"{kind.__name__.lower()}{j}" for j in range(3)
    ]


@every_one
def test_the_same_seed_gives_the_same_encoder(kind):
    X, y, s = people()
    one, two = (small(kind).fit(X, y, sensitive_features=s) for _ in range(2))
    other = small(kind, random_state=1).fit(X, y, sensitive_features=s)
    assert np.array_equal(encode(one, X, s), encode(two, X, s))
    assert not np.allclose(encode(one, X, s), encode(other, X, s))


@every_one
def test_no_global_random_state_is_touched(kind):
    X, y, s = people()
    states = torch.random.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()  # noqa: NPY002
    encode(small(kind, random_state=None).fit(X, y, sensitive_features=s), X, s)
    assert torch.equal(torch.random.get_rng_state(), states[0])
    assert np.array_equal(np.random.get_state()[1], states[1])  # noqa: NPY002
    assert random.getstate() == states[2]


@every_one
def test_clone_and_pickle_keep_parameters_and_encoder_and_nothing_else(kind):
    X, y, s = people()
    encoder = small(kind).fit(X, y, sensitive_features=s)
    copy = clone(encoder)
    assert copy.get_params() == encoder.get_params()
    with pytest.raises(NotFittedError):
        encode(copy, X, s)
    encoder.rows_ = X
    restored = pickle.loads(pickle.dumps(encoder))
    assert not hasattr(restored, "rows_")
    assert np.array_equal(encode(restored, X, s), encode(encoder, X, s))


@every_one
def test_a_failed_fit_leaves_nothing_behind(kind):
    X, y, s = people()
    encoder = small(kind).fit(X, y, sensitive_features=s)
    with pytest.raises(ValueError, match="sensitive_features"):
        encoder.fit(X, y, sensitive_features=s[:-1])
    assert not [name for name in vars(encoder) if name.endswith("_")]
    with pytest.raises(NotFittedError):
        encode(encoder, X, s)


@every_one
def test_three_groups_and_intersections_are_taken(kind):
    X, y, s = people(n_groups=3)
    both = pd.DataFrame({"s": s, "coin": X[:, 2]})
    for groups in (s, both, both.to_numpy()):
        encoder = small(kind).fit(X, y, sensitive_features=groups)
        assert encode(encoder, X, groups).shape == (200, 2)


@with_labels
def test_three_classes_are_taken(kind):
    X, y, s = people(n_classes=3)
    labels = np.array(["low", "middle", "high"])[y]
    encoder = small(kind).fit(X, labels, sensitive_features=s)
    assert list(encoder.classes_) == ["high", "low", "middle"]
    assert encode(encoder, X, s).shape == (200, 2)


@pytest.mark.parametrize("kind", [FFVAEEncoder, PPVAEEncoder])
def test_methods_without_labels_need_none(kind):
    X, y, s = people()
    without = small(kind).fit(X, sensitive_features=s)
    assert np.array_equal(
        encode(without, X, s), encode(small(kind).fit(X, y, sensitive_features=s), X, s)
    )


@group_aware
def test_an_encoder_that_sees_the_group_asks_for_it(kind):
    X, y, s = people()
    encoder = small(kind).fit(X, y, sensitive_features=s)
    with pytest.raises(ValueError, match="sensitive_features=None"):
        encoder.transform(X)
    with pytest.raises(UnknownGroupError):
        encoder.transform(X, sensitive_features=s + 5)
    moved = encoder.transform(X, sensitive_features=1 - s)
    assert not np.allclose(moved, encoder.transform(X, sensitive_features=s))
    joint = small(kind).fit_transform(X, y, sensitive_features=s)
    assert np.array_equal(joint, encoder.transform(X, sensitive_features=s))


@pytest.mark.parametrize("kind", [VFAEEncoder, FFVAEEncoder, CFBEncoder, PPVAEEncoder])
def test_the_mean_is_what_draws_scatter_around(kind):
    X, y, s = people()
    encoder = small(kind).fit(X, y, sensitive_features=s)
    drawn = encode(encoder, np.repeat(X[:1], 4000, axis=0), np.repeat(s[:1], 4000))
    mean = encode(encoder.set_params(output="mean"), X[:1], s[:1])
    error = drawn.std(0) / np.sqrt(4000)
    assert (drawn.std(0) > 0.01).all()
    assert (np.abs(drawn.mean(0) - mean[0]) < 6 * error).all()  # 2e-9 a component


@every_one
def test_scale_and_shift_of_a_column_change_nothing(kind):
    X, y, s = people()
    moved = X * [1000.0, 0.001, 1.0] + [5.0, -7.0, 0.0]
    one = small(kind).fit(X, y, sensitive_features=s)
    two = small(kind).fit(moved, y, sensitive_features=s)
    np.testing.assert_allclose(encode(one, X, s), encode(two, moved, s), atol=1e-3)


@every_one
def test_constant_columns_are_harmless(kind):
    X, y, s = people()
    X = np.column_stack([X, np.full(len(X), 7.5), np.zeros(len(X)), np.ones(len(X))])
    encoder = small(kind).fit(X, y, sensitive_features=s)
    assert np.isfinite(encode(encoder, X, s)).all()


@every_one
@pytest.mark.parametrize(
    "settings",
    [
        {"n_components": 0},
        {"hidden_sizes": (0,)},
        {"hidden_sizes": 8},
        {"max_epochs": 0},
        {"batch_size": 0.5},
        {"learning_rate": 0.0},
        {"random_state": -1},
        {"progress": "yes"},
    ],
)
def test_a_wrong_parameter_is_named_with_what_is_allowed(kind, settings):
    X, y, s = people()
    (name,) = settings
    with pytest.raises(ValueError, match=rf"'{name}' parameter of {kind.__name__} must be"):
        small(kind, **settings).fit(X, y, sensitive_features=s)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (LAFTREncoder, "alpha"),
        (LAFTREncoder, "beta"),
        (LAFTREncoder, "gamma"),
        (CFAIREncoder, "mu"),
        (VFAEEncoder, "alpha"),
        (VFAEEncoder, "beta"),
        (FFVAEEncoder, "alpha"),
        (FFVAEEncoder, "gamma"),
        (CFBEncoder, "beta"),
        (PPVAEEncoder, "beta"),
    ],
)
@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf"), "1"])
def test_a_weight_is_a_finite_number_from_zero(kind, name, value):
    X, y, s = people()
    with pytest.raises(ValueError, match=f"'{name}' parameter"):
        small(kind, **{name: value}).fit(X, y, sensitive_features=s)


def test_other_choices_are_checked_too():
    X, y, s = people()
    for encoder, words in (
        (small(LAFTREncoder, notion="parity"), "'notion' parameter"),
        (small(LAFTREncoder, adversary_loss="l2"), "'adversary_loss' parameter"),
        (small(LAFTREncoder, adversary_steps=0), "'adversary_steps' parameter"),
        (small(CFBEncoder, output="draw"), "'output' parameter"),
        (small(VFAEEncoder, bandwidth=0.0), "'bandwidth' parameter"),
        (small(VFAEEncoder, n_random_features=0), "'n_random_features' parameter"),
        (small(CFAIREncoder, balanced="no"), "'balanced' parameter"),
    ):
        with pytest.raises(ValueError, match=words):
            encoder.fit(X, y, sensitive_features=s)


def test_equal_opportunity_is_for_two_classes():
    X, y, s = people(n_classes=3)
    with pytest.raises(ValueError, match="two classes; y holds 3"):
        small(LAFTREncoder, notion="equal_opportunity").fit(X, y, sensitive_features=s)


@every_one
def test_groups_are_needed_and_more_than_one(kind):
    X, y, s = people()
    with pytest.raises(ValueError, match="got sensitive_features=None"):
        small(kind).fit(X, y)
    with pytest.raises(ValueError, match="holds 1 group"):
        small(kind).fit(X, y, sensitive_features=np.zeros_like(s))
    gaps = s.astype(object)
    gaps[3] = None
    with pytest.raises(ValueError, match="missing values"):
        small(kind).fit(X, y, sensitive_features=gaps)


@with_labels
def test_labels_are_needed_and_more_than_one(kind):
    X, y, s = people()
    with pytest.raises(ValueError, match="requires y"):
        small(kind).fit(X, sensitive_features=s)
    with pytest.raises(ValueError, match="1 class"):
        small(kind).fit(X, np.ones_like(y), sensitive_features=s)


def test_training_that_diverges_is_refused():
    X, y, s = people()
    encoder = small(LAFTREncoder, alpha=1e38, beta=1e38, learning_rate=1e30)
    with pytest.raises(ValueError, match="LAFTREncoder diverged"):
        encoder.fit(X, y, sensitive_features=s)
    assert not hasattr(encoder, "encoder_")


@every_one
def test_a_certificate_behind_such_a_step_is_void_and_names_it(kind):
    X, y, s = people(400)
    encoder = small(kind).fit(X, y, sensitive_features=s)
    assert learns_from_rows(encoder)
    head = DPSGDClassifier(epsilon=1.0, delta=1e-5, progress=False)
    head.fit(encode(encoder, X, s), y, sensitive_features=s)
    model = Pipeline([("fair", encoder), ("head", head)])
    privacy = certify(model).privacy
    assert privacy.is_void
    assert any(f"'fair' ({kind.__name__})" in reason for reason in privacy.assumptions)


@pytest.mark.parametrize("kind", [LAFTREncoder, CFAIREncoder, CFBEncoder])
def test_a_pipeline_hands_the_groups_on(kind):
    X, y, s = people()
    model = Pipeline([("fair", small(kind)), ("head", LogisticRegression())])
    model.fit(X, y, fair__sensitive_features=s)
    assert model.predict(X).shape == y.shape


@group_aware
def test_with_metadata_routing_a_pipeline_hands_them_to_transform_too(kind):
    X, y, s = people()
    with sklearn.config_context(enable_metadata_routing=True):
        model = Pipeline([("fair", small(kind)), ("head", LogisticRegression())])
        model.fit(X, y, sensitive_features=s)
        assert model.predict(X, sensitive_features=s).shape == y.shape


def with_groups(kind: type) -> type:
    """A subclass that has groups where none are given, for checks that know of no groups."""

    def given(X, groups, values):
        n = X.shape[0] if hasattr(X, "shape") else len(np.asarray(X))
        return np.resize(values, n) if groups is None else groups

    def fit(self, X, y=None, *, sensitive_features=None):
        return kind.fit(self, X, y, sensitive_features=given(X, sensitive_features, [0, 1]))

    def transform(self, X, *, sensitive_features=None):
        groups = given(X, sensitive_features, [0])
        return kind.transform(self, X, sensitive_features=groups)

    def fit_transform(self, X, y=None):
        return self.fit(X, y).transform(X)

    members = {"fit": fit, "__init__": kind.__init__}
    if kind in GROUP_AWARE:
        members |= {"transform": transform, "fit_transform": fit_transform}
    return type(f"Grouped{kind.__name__}", (kind,), {"__module__": __name__, **members})


GROUPED = {kind: with_groups(kind) for kind in EVERY}
globals().update({grouped.__name__: grouped for grouped in GROUPED.values()})  # for pickle


@pytest.mark.parametrize(
    "kind", [EVERY[0], *(pytest.param(kind, marks=pytest.mark.slow) for kind in EVERY[1:])]
)
def test_scikit_learns_own_checks_pass(kind):
    encoder = small(GROUPED[kind], max_epochs=1)
    if "output" in encoder.get_params():
        encoder.set_params(output="mean")  # a check compares subsets of rows with all of them
    results = check_estimator(encoder, on_fail=None, on_skip=None)
    assert len(results) > 30
    failed = [
        (result["check_name"], repr(result["exception"]))
        for result in results
        if result["status"] not in {"passed", "skipped"}
    ]
    assert failed == []
