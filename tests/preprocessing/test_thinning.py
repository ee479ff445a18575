"""Thinning by a bought table: one guarantee for both, and one record changes one kept row."""

from __future__ import annotations

import pickle
from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline

from skfairdp import (
    DPSGDClassifier,
    FairDPClassifier,
    PATEClassifier,
    PrivateThinningClassifier,
    SFPATEClassifier,
    certify,
)
from skfairdp.exceptions import PrivacyWarning
from skfairdp.foundation.figures import significant_down
from skfairdp.preprocessing import PublicScaler, thinning
from skfairdp.privacy.inclusion_probabilities import SamplingRates
from tests.common import test_fairlearn as fairlearn_checks
from tests.common import test_kinds_of_input as kinds
from tests.common import test_nothing_private_is_kept as kept_checks
from tests.common.roster import AROUND, FAST, build, each, people
from tests.common.test_scikit_learn_checks import unexpected

both_around = each(AROUND)


class Seen(DPSGDClassifier):
    """DP-SGD that shows the test what it was given."""

    given: tuple

    def fit(self, X, y, *, sensitive_features=None):
        Seen.given = (X, y, sensitive_features, self.get_params(deep=False))
        return super().fit(X, y, sensitive_features=sensitive_features)


class SeenWithGroups(FairDPClassifier):
    """The same for an estimator that gets the groups."""

    given: tuple

    def fit(self, X, y, *, sensitive_features=None):
        SeenWithGroups.given = (X, y, sensitive_features, self.get_params(deep=False))
        return super().fit(X, y, sensitive_features=sensitive_features)


@both_around
def test_the_epsilon_asked_for_is_that_of_table_and_training_together(name: str) -> None:
    X, y, groups = people()
    model = build(name, epsilon_histogram=0.3).fit(X, y, sensitive_features=groups)
    privacy = certify(model).privacy
    assert privacy.epsilon == 1.0, "what was fixed before, not what the table led to"
    assert (model.estimator.epsilon, model.estimator_.epsilon) == (1.0, 0.7)
    assert privacy.delta == model.estimator.delta
    assert privacy.adjacency == "add-remove"
    assert privacy.protects == "record"
    assert privacy.event is None, "no single event covers a plan made from a private answer"
    assert model.plan_.prior_epsilon == 0.3
    text = " ".join(privacy.assumptions)
    assert "0.3 of it bought the noisy sizes" in text
    assert "kept by a draw of its own" in text
    assert "the set of class labels is taken from the rows and public" in text
    assert "the set of groups is taken from the rows and public" in text
    assert model.certify().satisfies(epsilon=1.0, adjacency="add-remove")
    assert not model.certify().satisfies(epsilon=0.99, adjacency="add-remove")


@both_around
def test_the_clone_taken_out_states_the_whole_cost(name: str) -> None:
    X, y, groups = people()
    model = build(name).fit(X, y, sensitive_features=groups)
    assert certify(model.estimator_).privacy == certify(model).privacy
    assert not hasattr(model.estimator, "privacy_")


def test_the_table_is_bought_at_the_price_that_is_charged(monkeypatch) -> None:
    X, y, groups = people()
    asked = []
    original = thinning.release_table

    def watched(codes, labels, shape, epsilon, noise):
        asked.append((shape, epsilon))
        return original(codes, labels, shape, epsilon, noise)

    monkeypatch.setattr(thinning, "release_table", watched)
    model = build("thinning before DP-SGD", epsilon_histogram=0.25)
    model.fit(X, y, sensitive_features=groups)
    assert asked == [((2, 2), 0.25)]


class Fixed:
    """Noise source whose draws belong to records, not to places."""

    name = "fixed draws"
    reproducible = False

    def __init__(self, draws: np.ndarray) -> None:
        self.draws = draws
        self.sampling = self

    def random(self, n: int) -> np.ndarray:
        assert n == len(self.draws)
        return self.draws


@pytest.mark.parametrize("kind", [Seen, pytest.param(SeenWithGroups, marks=pytest.mark.slow)])
def test_one_record_changes_one_kept_row_and_nothing_that_the_clone_is_told(
    kind: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y, groups = people()
    draws = np.random.default_rng(0).random(300)
    table = np.array([[100, 400], [400, 100]])  # the same answer for both data sets

    def fit(rows: np.ndarray) -> tuple:
        model = PrivateThinningClassifier(kind(**FAST), groups=("a", "b"), classes=("no", "yes"))
        monkeypatch.setattr(thinning, "release_table", lambda *_: table)
        monkeypatch.setattr(
            PrivateThinningClassifier, "_randomness", lambda _: (0, Fixed(draws[rows]))
        )
        model.fit(X[rows], y[rows], sensitive_features=groups[rows])
        return kind.given, model

    everybody = np.arange(300)
    (X_all, y_all, groups_all, told_all), whole = fit(everybody)
    assert 80 < len(X_all) < 240
    changed = []
    for removed in range(8):
        (X_less, y_less, groups_less, told), model = fit(np.delete(everybody, removed))
        assert told == told_all
        assert model.plan_ == whole.plan_
        assert model.privacy_ == whole.privacy_
        assert model.rates_ == whole.rates_
        stays = ~(X_all == X[removed]).all(axis=1)
        assert np.array_equal(X_less, X_all[stays])
        assert np.array_equal(y_less, y_all[stays])
        if kind is SeenWithGroups:
            assert groups_less.tolist() == groups_all[stays].tolist()
        changed.append(int((~stays).sum()))
    assert sorted(set(changed)) == [0, 1]


def test_the_clone_is_told_sizes_from_the_table_and_never_how_many_rows_there_are() -> None:
    X, y, groups = people()
    for kind in (Seen, SeenWithGroups):
        model = PrivateThinningClassifier(kind(**FAST)).fit(X, y, sensitive_features=groups)
        _, codes, names, told = kind.given
        assert told["classes"] == [0, 1]
        assert set(codes) <= {-1, 0, 1}
        if kind is Seen:
            assert told["dataset_size"] == sum(model.rates_.group_sizes.values())
            assert names is None, "groups_ of the clone would show which groups are left"
            assert model.estimator_.groups_ is None
        else:
            assert told["group_sizes"] == model.rates_.group_sizes
            assert told["dataset_size"] is None
        assert model.groups_ == ("a", "b")


@pytest.mark.parametrize("kind", [DPSGDClassifier, FairDPClassifier])
def test_an_empty_rest_trains_without_a_word(kind: type) -> None:
    X, y, _ = people()
    strangers = np.full(300, "elsewhere")
    model = PrivateThinningClassifier(kind(**FAST), groups=("a", "b"))
    model.fit(X, y, sensitive_features=strangers)
    assert np.isfinite(model.predict_proba(X)).all()
    assert model.certify().satisfies(epsilon=1.0, adjacency="add-remove")


def test_rows_that_only_fill_up_contribute_nothing() -> None:
    X, y, _ = people()
    settings = {"random_state": 0, "reproducible_noise": True, **FAST}
    model = PrivateThinningClassifier(DPSGDClassifier(**settings), tolerance=1.0).fit(X, y)
    alone = DPSGDClassifier(
        epsilon=model.estimator_.epsilon,
        classes=[0, 1],
        dataset_size=sum(model.rates_.group_sizes.values()),
        **settings,
    ).fit(X, (y == "yes").astype(int))
    assert np.array_equal(model.predict_proba(X), alone.predict_proba(X))


def test_label_rates_of_the_kept_rows_are_equal_up_to_noise_and_the_draws() -> None:
    X, y, groups = people(20_000)
    model = PrivateThinningClassifier(SeenWithGroups(epsilon=2.0, **FAST), epsilon_histogram=1.0)
    model.fit(X, y, sensitive_features=groups)
    _, codes, names, _ = SeenWithGroups.given
    positive = {g: (codes[(names == g) & (codes >= 0)] == 1).mean() for g in ("a", "b")}
    assert (y[groups == "a"] == "yes").mean() - (y[groups == "b"] == "yes").mean() > 0.17
    # At least 4000 rows a group are left: the standard error of the difference is < .011.
    assert abs(positive["a"] - positive["b"]) < 0.06


def test_the_gap_of_the_predictions_shrinks_where_the_group_itself_was_the_reason() -> None:
    rng = np.random.default_rng(0)
    n = 6000
    group = rng.integers(2, size=n)
    y = (rng.random(n) < np.where(group == 0, 0.75, 0.25)).astype(int)
    X = np.column_stack([rng.normal(size=n) + y, group])
    train, held = slice(0, 3000), slice(3000, None)

    def gap(model) -> float:
        model.fit(X[train], y[train], sensitive_features=group[train])
        positive = model.predict(X[held])
        return abs(positive[group[held] == 0].mean() - positive[group[held] == 1].mean())

    settings = {"epsilon": 3.0, "max_epochs": 8, "progress": False, "random_state": 0}
    # Without the group the rule that is left has a gap of .19 here (half of the base rates'
    # .5 times what x tells); 3000 rows know a gap to .02.
    assert gap(DPSGDClassifier(**settings)) > 0.5
    assert gap(PrivateThinningClassifier(DPSGDClassifier(**settings))) < 0.35


def test_without_noise_or_with_repeatable_noise_nothing_is_promised() -> None:
    X, y, groups = people()
    with pytest.warns(PrivacyWarning, match="epsilon=inf"):
        free = PrivateThinningClassifier(DPSGDClassifier(epsilon=float("inf"), **FAST)).fit(X, y)
    assert free.privacy_ is None
    repeatable = [
        PrivateThinningClassifier(DPSGDClassifier(**FAST), reproducible_noise=True),
        PrivateThinningClassifier(DPSGDClassifier(reproducible_noise=True, **FAST)),
    ]
    for model in repeatable:
        model.fit(X, y, sensitive_features=groups)
        assert model.privacy_.is_void
        assert "reproducible_noise" in model.privacy_.assumptions[0]


def test_a_fixed_noise_multiplier_promises_nothing_because_the_rates_are_private_answers() -> None:
    X, y, _ = people()
    inner = DPSGDClassifier(epsilon=None, noise_multiplier=2.0, **FAST)
    model = PrivateThinningClassifier(inner).fit(X, y)
    assert model.privacy_.is_void
    assert "set epsilon instead" in model.privacy_.assumptions[0]


def test_two_fits_share_neither_table_nor_draws() -> None:
    X, y, groups = people()
    fits = [
        build("thinning before DP-SGD", epsilon_histogram=0.01, random_state=0)
        .fit(X, y, sensitive_features=groups)
        .rates_
        for _ in range(3)
    ]
    # Equal tables of four counts with noise of scale 100: below 1e-8 a pair.
    assert len({rates.counts for rates in fits} | {((460, 460), (460, 460))}) > 1
    repeatable = [
        build("thinning before DP-SGD", reproducible_noise=True, random_state=0)
        .fit(X, y, sensitive_features=groups)
        .rates_
        for _ in range(2)
    ]
    assert repeatable[0] == repeatable[1]


@both_around
def test_declared_groups_and_classes_are_stated_and_strangers_contribute_nothing(name: str) -> None:
    X, y, groups = people()
    wild = np.where(np.arange(300) < 40, "elsewhere", groups)
    labels = y.astype(object)
    labels[40:60] = "other"
    model = build(name, groups=["b", "a"], classes=["no", "yes"])
    model.fit(X, labels, sensitive_features=wild)
    assert model.groups_ == ("b", "a")
    assert model.classes_.tolist() == ["no", "yes"]
    text = " ".join(model.privacy_.assumptions)
    assert "the set of class labels is declared" in text
    assert "the set of groups is declared" in text
    assert text.count("the set of") == 2


def test_intersections_of_two_attributes_reach_the_clone() -> None:
    X, y, groups = people()
    both = pd.DataFrame({"sex": groups, "age": np.where(np.arange(300) % 2, "old", "young")})
    model = build("thinning before FairDP").fit(X, y, sensitive_features=both)
    assert model.groups_ == (("a", "old"), ("a", "young"), ("b", "old"), ("b", "young"))
    assert model.estimator_.groups_ == model.groups_
    assert model.plan_.cells == model.groups_


@both_around
def test_common_checks_of_what_is_kept(name: str, tmp_path, monkeypatch) -> None:
    # The checks plant something in the module, which here is the clone's.
    module = property(lambda model: model.estimator_.module_)
    monkeypatch.setattr(PrivateThinningClassifier, "module_", module, raising=False)
    kept_checks.test_no_row_is_in_a_pickle_or_a_copy(name)
    kept_checks.test_a_row_that_was_kept_would_be_found(name)
    kept_checks.test_what_is_not_released_does_not_travel(name)
    kept_checks.test_joblib_and_copies_predict_the_same(name, tmp_path)


@both_around
def test_common_checks_of_inputs_and_metrics(name: str) -> None:
    for labels, values in (["no", "yes"], ["a", "b"]), ([-1, 3], [True, False]):
        kinds.test_labels_and_groups_of_any_type(name, labels, values)
    kinds.test_a_group_that_training_never_saw_is_refused(name)
    kinds.test_feature_names_are_remembered(name)
    fairlearn_checks.test_metric_frame_takes_predictions(name)


def test_an_estimator_that_was_fitted_elsewhere_stays_there() -> None:
    X, y, groups = people()
    used = DPSGDClassifier(**FAST).fit(X, y)
    model = PrivateThinningClassifier(used).fit(X, y, sensitive_features=groups)
    assert hasattr(used, "module_")
    assert not hasattr(pickle.loads(pickle.dumps(model)).estimator, "module_")


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"estimator": LogisticRegression()}, "'estimator'.*a private classifier of skfairdp"),
        ({"estimator": make_pipeline(DPSGDClassifier())}, "'estimator'.*a private classifier"),
        ({"estimator__dataset_size": 300}, "'estimator' sets dataset_size=300"),
        ({"estimator__classes": [0, 1]}, "'estimator' sets classes=.*set 'classes' here"),
        ({"epsilon_histogram": 0.0}, "'epsilon_histogram'"),
        ({"epsilon_histogram": 1.0}, "'epsilon_histogram' = 1 uses up"),
        ({"epsilon_histogram": float("inf")}, "'epsilon_histogram'"),
        ({"tolerance": -0.1}, "'tolerance'"),
        ({"minimum_rate": 1.1}, "'minimum_rate'"),
        ({"groups": ("a", "b")}, "'groups' is set"),
        ({"estimator": PrivateThinningClassifier(DPSGDClassifier())}, "lacks dataset_size, delta"),
        ({"estimator__delta": 0.5}, "'delta' must be below 1/n"),
        ({"estimator__batch_size": 10_001}, "10,000 rows either.*'batch_size' must be at most"),
        ({"estimator__batch_size": 10_000}, "cannot be trained on this number of rows"),
    ],
    ids=lambda value: ", ".join(value) if isinstance(value, dict) else None,
)
def test_bad_settings_are_refused_and_leave_nothing_behind(parameters, message) -> None:
    X, y, _ = people()
    model = build("thinning before DP-SGD").set_params(**parameters)
    with pytest.raises(ValueError, match=message):
        model.fit(X, y)
    assert not [name for name in vars(model) if name.endswith("_")]


@pytest.mark.parametrize(
    "settings",
    [{"delta": 0.01}, {"batch_size": 5000}, {"batch_size": 20_000}, {"max_epochs": 10**9}],
    ids=str,
)
@pytest.mark.parametrize("kind", [DPSGDClassifier, FairDPClassifier])
def test_a_refusal_does_not_depend_on_the_number_of_rows(kind, settings) -> None:
    """Their number is private: the promise is about a record that is added or removed."""
    said = set()
    for n in (317, 333):
        X, y, groups = people(n)
        model = PrivateThinningClassifier(kind(**FAST | settings))
        with pytest.raises(ValueError, match="1/n|private") as refused:
            model.fit(X, y, sensitive_features=groups)
        said.add(str(refused.value))
        assert refused.value.__context__ is None
    assert len(said) == 1


def test_a_warning_of_delta_does_not_show_how_many_rows_there_are() -> None:
    X, y, groups = people(317)
    model = PrivateThinningClassifier(DPSGDClassifier(**FAST | {"delta": 1e-3}))
    with pytest.warns(PrivacyWarning, match="'delta' = 0.001 is above") as heard:
        model.fit(X, y, sensitive_features=groups)
    assert "1/(10 n) for n records" in str(heard[0].message)
    # The second one is of the released table.
    assert f"{significant_down(0.1 / model.rates_.total, 3)}:" in str(heard[1].message)


def test_bought_or_declared_sizes_of_the_clone_are_refused() -> None:
    X, y, groups = people()
    for parameters in ({"group_sizes": {"a": 200, "b": 100}}, {"group_sizes_epsilon": 0.1}):
        model = PrivateThinningClassifier(FairDPClassifier(**parameters, **FAST))
        with pytest.raises(ValueError, match=f"'estimator' sets {next(iter(parameters))}="):
            model.fit(X, y, sensitive_features=groups)


@pytest.fixture
def routing() -> Iterator[None]:
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def pipeline() -> Pipeline:
    scale = PublicScaler(dict.fromkeys(range(4), (-5.0, 5.0)))
    return Pipeline([("scale", scale), ("clf", build("thinning before FairDP"))])


@pytest.mark.usefixtures("routing")
def test_groups_reach_it_in_a_pipeline_and_a_search() -> None:
    X, y, groups = people()
    model = pipeline().fit(X, y, sensitive_features=groups)
    assert model["clf"].groups_ == ("a", "b")
    assert certify(model).privacy.epsilon == 1.0
    search = GridSearchCV(pipeline(), {"clf__estimator__net__lr": [0.01, 0.02]}, cv=2)
    search.fit(X, y, sensitive_features=groups)
    assert search.best_estimator_["clf"].groups_ == ("a", "b")
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_groups_reach_it_by_the_prefix_with_routing_off() -> None:
    X, y, groups = people()
    model = pipeline().fit(X, y, clf__sensitive_features=groups)
    assert model["clf"].groups_ == ("a", "b")
    held = certify(model, X, y, sensitive_features=groups, holdout="public")
    deployed = [claim for claim in held.fairness if claim.scope == "deployed model"]
    assert deployed[0].groups == ("a", "b")


@pytest.mark.slow
def test_scikit_learns_checks() -> None:
    repeatable = {"reproducible_noise": True, "random_state": 0}
    model = PrivateThinningClassifier(DPSGDClassifier(**FAST, **repeatable), **repeatable)
    assert unexpected(model) == []
    assert unexpected(PrivateThinningClassifier(DPSGDClassifier(**FAST))) == []


@pytest.mark.parametrize("inner", [PATEClassifier(), SFPATEClassifier()])
def test_an_estimator_with_public_rows_is_refused_before_the_table_is_bought(inner) -> None:
    X, y, groups = people()
    with pytest.raises(ValueError, match="asks public rows"):
        PrivateThinningClassifier(inner).fit(X, y, sensitive_features=groups)


def test_rates_tell_how_many_records_a_group_has() -> None:
    X, y, groups = people()
    model = build("thinning before DP-SGD").fit(X, y, sensitive_features=groups)
    assert isinstance(model.rates_, SamplingRates)
    assert sum(sum(row) for row in model.rates_.counts) == model.rates_.total


def test_the_clone_is_fitted_by_one_process_whatever_its_parameter_says() -> None:
    X, y, groups = people()
    model = build("thinning before DP-SGD")
    assert model.estimator.distributed == "auto"
    assert model.fit(X, y, sensitive_features=groups).estimator_.distributed is None


def test_another_model_in_place_of_the_clone_has_no_guarantee() -> None:
    X, y, groups = people()
    model = build("thinning before DP-SGD").fit(X, y, sensitive_features=groups)
    model.estimator_ = LogisticRegression().fit(X, y)
    certificate = certify(model)
    assert certificate.privacy is not None
    assert certificate.privacy.is_void
    assert "estimator_ is not what it left" in certificate.privacy.assumptions[0]
