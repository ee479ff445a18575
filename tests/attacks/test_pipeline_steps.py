"""No way of a step to learn from rows passes as one that learned nothing."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.special
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.ensemble import BaggingClassifier, StackingClassifier, VotingClassifier
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    TunedThresholdClassifierCV,
)
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    KBinsDiscretizer,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    SplineTransformer,
    StandardScaler,
    TargetEncoder,
)

from skfairdp import DPSGDClassifier, PrivateTableEncoder, certify
from skfairdp.exceptions import PrivacyWarning
from skfairdp.model_selection import PrivateSearchCV, search_cost
from skfairdp.preprocessing import PublicScaler
from skfairdp.receipts import unwrap
from skfairdp.receipts.digests.code import is_elementwise
from tests.certificate.fakes import ThresholdClassifier

# Many fits here follow a step that learns from rows, which warns.
pytestmark = pytest.mark.filterwarnings("ignore:.* may have learned from the rows")

X = np.random.default_rng(0).normal(size=(60, 3))
Y = (X[:, 0] > 0).astype(int)
OUTLIER = X.copy()
OUTLIER[17, 2] = 1000.0


def test_a_fit_behind_a_step_that_learned_from_rows_warns_before_it_is_charged(tmp_path) -> None:
    file = tmp_path / "ledger.db"
    private = DPSGDClassifier(max_epochs=1, ledger=file)
    columns = ColumnTransformer([("scale", StandardScaler(), [0])], remainder="passthrough")
    open_to_all = PublicScaler((-5, 5)), Normalizer()
    seeded = DPSGDClassifier(max_epochs=1, random_state=0, reproducible_noise=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyWarning)
        for learned, named in (
            (StandardScaler(), r"'standardscaler' \(StandardScaler\)"),
            (columns, r"'columntransformer__scale' \(StandardScaler\)"),
        ):
            with pytest.raises(PrivacyWarning, match=f"{named} of the Pipeline around this fit"):
                make_pipeline(learned, private).fit(X, Y)
        assert not file.exists()
        make_pipeline(*open_to_all, private.set_params(ledger=None)).fit(X, Y)
        make_pipeline(StandardScaler(), seeded).fit(X, Y)
        # Our encoder has paid for what it learned, also as a part of a ColumnTransformer.
        table = pd.DataFrame(X, columns=["a", "b", "c"])
        encoder = PrivateTableEncoder(encoding="onehot")
        for paid in (encoder, ColumnTransformer([("t", clone(encoder), ["a"])])):
            make_pipeline(paid, clone(private)).fit(table, Y)


class Sum(ThresholdClassifier):
    """Takes any number of columns."""

    def _score(self, X: Any) -> Any:
        return np.asarray(X, dtype=float).sum(axis=1)

    def predict_proba(self, X: Any) -> Any:
        positive = 1.0 / (1.0 + np.exp(-self._score(X)))
        return np.column_stack([1.0 - positive, positive])


def small(Z: Any) -> list[int]:
    return [j for j in range(Z.shape[1]) if np.abs(np.asarray(Z)[:, j]).max() < 10]


class Remembers:
    """Learns the first rows that it is called with."""

    def __call__(self, Z: Any) -> Any:
        self.mean = getattr(self, "mean", np.mean(Z, axis=0))
        return Z - self.mean


class LearningUnion(FeatureUnion):
    def fit_transform(self, X: Any, y: Any = None, **params: Any) -> Any:
        self.mean_ = np.mean(X, axis=0)
        return super().fit_transform(X - self.mean_, y, **params)


class LearningPipeline(Pipeline):
    def predict(self, X: Any, **params: Any) -> Any:
        return np.resize(Y, len(X))


def method_in_place() -> Normalizer:
    step = Normalizer()
    step.transform = lambda Z: Z - X.mean(axis=0)  # type: ignore[method-assign]
    return step


def kept(columns: Any, step: Any = "passthrough") -> ColumnTransformer:
    return ColumnTransformer([("kept", step, columns)])


LEARNING: dict[str, Callable[[], Any]] = {
    "columns by a function": lambda: kept(small),
    "columns by their types": lambda: kept(make_column_selector(dtype_include="number")),
    "columns by a function, then a harmless step": lambda: kept(small, Normalizer()),
    "columns by a function are dropped": lambda: ColumnTransformer(
        [("dropped", "drop", small)], remainder="passthrough"
    ),
    "columns by a function, deep": lambda: FeatureUnion([("in", make_pipeline(kept(small)))]),
    "ufunc of a function": lambda: FunctionTransformer(np.frompyfunc(float, 1, 1)),
    "function": lambda: FunctionTransformer(lambda Z: Z - X.mean(axis=0)),
    "function that remembers": lambda: FunctionTransformer(Remembers()),
    "function of a library that mixes rows": lambda: FunctionTransformer(np.cumsum),
    "vectorised function": lambda: FunctionTransformer(np.vectorize(float)),
    "method in place of another": method_in_place,
    "subclass of a union": lambda: LearningUnion([("a", Normalizer())]),
    "subclass of a Pipeline": lambda: LearningPipeline([("a", Normalizer())]),
    "bins": lambda: KBinsDiscretizer(3, encode="ordinal", quantile_method="averaged_inverted_cdf"),
    "splines": lambda: SplineTransformer(),
    "target encoder": lambda: TargetEncoder(),
    "frozen scaler": lambda: FrozenEstimator(StandardScaler().fit(X)),
    "scaler of what remains": lambda: ColumnTransformer(
        [("a", "passthrough", [0])], remainder=StandardScaler()
    ),
}

HARMLESS: dict[str, Callable[[], Any]] = {
    "columns by name": lambda: kept([0, 2]),
    "columns by a slice": lambda: kept(slice(0, 2)),
    "columns by a mask": lambda: kept([True, False, True]),
    "ufunc of numpy": lambda: FunctionTransformer(np.tanh),
    "ufunc of scipy": lambda: FunctionTransformer(scipy.special.expit),
    "binarizer": lambda: Binarizer(),
    "polynomials": lambda: PolynomialFeatures(2),
    "nothing": lambda: "passthrough",
    "union": lambda: FeatureUnion([("a", Normalizer()), ("b", "passthrough"), ("c", "drop")]),
}


@pytest.mark.parametrize("name", LEARNING)
def test_a_step_that_may_learn_voids_privacy_unless_it_is_named_public(name: str) -> None:
    model = make_pipeline(LEARNING[name](), Sum()).fit(frame(name), Y)
    privacy = certify(model).privacy
    assert privacy.is_void
    (step,) = {text.split("'")[1] for text in privacy.assumptions if text.startswith("Step")}
    assert step in privacy.assumptions[0]
    declared = certify(model, public_steps=[step]).privacy
    assert math.isfinite(declared.epsilon)
    assert any("declared public" in text for text in declared.assumptions)


@pytest.mark.parametrize("name", HARMLESS)
def test_a_step_that_learns_nothing_keeps_the_claim(name: str) -> None:
    privacy = certify(make_pipeline(HARMLESS[name](), Sum()).fit(X, Y)).privacy
    assert math.isfinite(privacy.epsilon)


def frame(name: str) -> Any:
    return pd.DataFrame(X, columns=list("abc")) if "types" in name else X


def test_one_record_that_decides_the_columns_is_no_secret() -> None:
    shapes = [
        make_pipeline(kept(small), Sum()).fit(rows, Y)[0].transform(rows).shape[1]
        for rows in (X, OUTLIER)
    ]
    assert shapes == [3, 2]
    assert certify(make_pipeline(kept(small), Sum()).fit(OUTLIER, Y)).privacy.is_void


def test_a_ufunc_that_mixes_rows_is_not_elementwise() -> None:
    assert is_elementwise(np.abs)
    for mixing in (np.matmul, np.linalg._umath_linalg.inv, np.add, np.cumsum):
        assert not is_elementwise(mixing)


def test_functions_inside_stateless_steps_count_too() -> None:
    texts = np.array(["a b", "c d"] * 30, dtype=object)

    def words(text: str) -> list[str]:
        return text.split()

    for step, void in (
        (HashingVectorizer(n_features=4), False),
        (HashingVectorizer(n_features=4, analyzer=words), True),
        (HashingVectorizer(n_features=4, tokenizer=words, token_pattern=None), True),
    ):
        to_dense = ColumnTransformer([("words", step, 0)], sparse_threshold=0.0)
        model = make_pipeline(to_dense, Sum()).fit(
            pd.DataFrame({"text": texts}).to_numpy()[:, [0]], Y
        )
        assert certify(model).privacy.is_void is void


@pytest.mark.parametrize("known", [54, 53])
def test_the_density_of_rows_decides_nothing_that_a_certificate_passes_over(known: int) -> None:
    """One record more of a declared category, and the columns were joined as a dense table."""
    words = np.where(np.arange(60) < known, "abc"[0], "?").astype(object)[:, None]
    encoder = OneHotEncoder(categories=[["a", "b", "c"]], handle_unknown="ignore")
    dense = clone(encoder).set_params(sparse_output=False)
    for step, threshold, void in ((encoder, 0.3, True), (encoder, 0, False), (dense, 0.3, False)):
        joined = ColumnTransformer([("words", step, [0])], sparse_threshold=threshold)
        model = make_pipeline(joined, DPSGDClassifier(max_epochs=1, delta=1e-3)).fit(words, Y)
        assert not threshold or step is dense or joined.sparse_output_ is (known < 54)
        stated = certify(model).privacy
        assert stated.is_void is void
        assert not void or "set sparse_threshold=0" in stated.assumptions[0]


def test_that_steps_read_cells_of_fixed_types_is_assumed() -> None:
    """In a list, a record's .5 turns whole numbers into floats, and 1/3 is no longer 0."""
    step = FunctionTransformer(np.reciprocal)
    rows = [[2, 3], [4, 5], [6, 7]]
    read = step.fit_transform(rows)[1], step.fit_transform([*rows[:2], [0.5, 7]])[1]
    assert [row.tolist() for row in read] == [[0, 0], [0.25, 0.2]]
    for steps, assumed in (([step], True), ([PublicScaler((-9, 9))], False), ([], False)):
        fitted = make_pipeline(*steps, Sum()).fit(X[:, :2] + 5.0, Y)
        stated = certify(fitted).privacy
        assert ("cells of fixed types" in " ".join(stated.assumptions)) is assumed


@pytest.mark.parametrize("threshold", [0.3, 0])
def test_that_rows_passed_on_are_dense_is_assumed_where_it_matters(threshold: float) -> None:
    """Of sparse rows, the number of entries decides whether the table that comes out is dense."""
    columns = ColumnTransformer([("all", "passthrough", [0, 1])], sparse_threshold=threshold)
    model = make_pipeline(columns, DPSGDClassifier(max_epochs=1, delta=1e-3))
    rows = np.column_stack([np.arange(60) < 40, np.ones(60)]).astype(float)
    dense = certify(model.fit(rows, Y)).privacy
    assert not dense.is_void
    assert ("passed to fit were dense" in " ".join(dense.assumptions)) is (threshold > 0)
    named = certify(
        clone(model)
        .set_params(columntransformer__transformers=[("all", "passthrough", ["a", "b"])])
        .fit(pd.DataFrame(rows, columns=["a", "b"]), Y)
    ).privacy
    assert "passed to fit were dense" not in " ".join(named.assumptions)


@pytest.mark.parametrize("step", [Normalizer(), FunctionTransformer(np.tanh, validate=True)])
def test_a_table_with_names_may_be_sparse_too(step: Any) -> None:
    """Of columns that are sparse to pandas, one record more decided what came out."""
    step = clone(step).set_params(**{"accept_sparse": True} if hasattr(step, "func") else {})
    joined = ColumnTransformer([("all", step, ["a", "b"])])
    for filled in (40, 10):
        full = (np.arange(60) < filled).astype(float)
        rows = pd.DataFrame({name: pd.arrays.SparseArray(full, fill_value=0.0) for name in "ab"})
        model = make_pipeline(joined, DPSGDClassifier(max_epochs=1, delta=1e-3)).fit(rows, Y)
        assert joined.sparse_output_ is (filled == 10)
        stated = certify(model).privacy
        assert stated.is_void is (filled == 10)
        assert stated.is_void or "passed to fit were dense" in " ".join(stated.assumptions)


def test_what_a_frozen_step_of_ours_learned_is_composed() -> None:
    table = PrivateTableEncoder(encoding="onehot").fit(X)
    frozen = make_pipeline(FrozenEstimator(table), Sum()).fit(X, Y)
    stated = certify(frozen).privacy
    assert not stated.is_void
    assert stated == certify(Pipeline([("a", table), *frozen.steps[1:]])).privacy
    searched = make_pipeline(FrozenEstimator(table), DPSGDClassifier(max_epochs=1))
    grid = {"dpsgdclassifier__max_grad_norm": [0.5, 1.0]}
    with pytest.raises(ValueError, match="privacy cost of its own"):
        PrivateSearchCV(searched, grid, delta=1e-3).fit(X, Y)


class Wrapper(TransformerMixin, BaseEstimator):
    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    def fit(self, X: Any, y: Any = None) -> Wrapper:
        self.estimator_ = self.estimator.fit(X, y)
        return self

    def predict(self, X: Any) -> Any:
        return self.estimator_.predict(X)


class OwnSearch(GridSearchCV):
    def predict(self, X: Any) -> Any:
        return np.resize(Y, len(X))


def answering(model: Any) -> Any:
    model.predict = lambda X: np.resize(Y, len(X))
    return model


AROUND: dict[str, Callable[[], Any]] = {
    "calibrated": lambda: CalibratedClassifierCV(Sum(), cv=2),
    "tuned threshold": lambda: TunedThresholdClassifierCV(Sum(), cv=2, response_method="auto"),
    "fixed threshold": lambda: FixedThresholdClassifier(Sum()),
    "voting": lambda: VotingClassifier([("a", Sum()), ("b", Sum())]),
    "stacking": lambda: StackingClassifier([("a", Sum())], cv=2),
    "bagging": lambda: BaggingClassifier(Sum(), n_estimators=2),
    "own wrapper": lambda: Wrapper(Sum()),
    "subclass of a Pipeline": lambda: LearningPipeline([("n", Normalizer()), ("c", Sum())]),
    "subclass of a search": lambda: OwnSearch(Sum(), {"threshold": [0.0]}, cv=2),
}


@pytest.mark.parametrize("name", AROUND)
def test_models_around_ours_promise_nothing(name: str) -> None:
    assert certify(AROUND[name]().fit(X, Y)).privacy.is_void


def test_methods_put_in_place_of_a_pipelines_or_searchs_void() -> None:
    for model in (
        make_pipeline(Normalizer(), Sum()),
        make_pipeline(make_pipeline(Normalizer(), Sum())),
        FrozenEstimator(Sum().fit(X, Y)),
    ):
        assert not certify(model.fit(X, Y)).privacy.is_void
        assert certify(answering(model)).privacy.is_void


def test_encoders_with_given_categories_hold_as_before() -> None:
    digits = (X > 0).astype(float)
    for encoder, void in (
        (OneHotEncoder(categories=[[0.0, 1.0]] * 3, sparse_output=False), False),
        (OneHotEncoder(sparse_output=False), True),
        (OrdinalEncoder(categories=[[0.0, 1.0]] * 3), False),
        (OrdinalEncoder(), True),
    ):
        assert certify(make_pipeline(encoder, Sum()).fit(digits, Y)).privacy.is_void is void


def test_a_private_search_refuses_steps_with_functions_of_the_rows() -> None:
    search = PrivateSearchCV(
        make_pipeline(kept(small), DPSGDClassifier(max_epochs=1, delta=1e-3, progress=False)),
        {"dpsgdclassifier__max_grad_norm": [1.0]},
        n_iter=1,
        delta=1e-3,
    )
    with pytest.raises(ValueError, match="columns chosen by a function"):
        search.fit(X, Y)


def test_a_search_around_a_private_one_promises_nothing() -> None:
    inner = PrivateSearchCV(
        DPSGDClassifier(max_epochs=1), {"max_grad_norm": [1.0]}, n_iter=1, delta=1e-3
    )
    search = GridSearchCV(inner, {"holdout_fraction": [0.2]}, cv=2).fit(X, Y)
    # The step learns nothing: around the fitted search it makes a fitted pipeline.
    for model in (search, FrozenEstimator(search), make_pipeline(Normalizer(), search)):
        stated = certify(model).privacy
        assert stated.is_void
        assert "scores of its training rows without noise" in stated.assumptions[0]
    assert search_cost(search).privacy.is_void
    assert not certify(search.best_estimator_).privacy.is_void


def test_a_selector_that_is_left_out_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken twin: containers whose functions nobody looks at."""
    model = make_pipeline(kept(small), Sum()).fit(X, Y)
    monkeypatch.setattr(unwrap, "is_fixed", lambda columns: True)
    assert not certify(model).privacy.is_void


@pytest.mark.parametrize("settings", [{"handle_unknown": "warn"}, {"drop": "first"}], ids=str)
def test_a_warning_of_a_step_about_one_row_is_among_the_assumptions(settings: dict) -> None:
    step = OneHotEncoder(
        categories=[[0.0, 1.0]] * 3, sparse_output=False, **{"handle_unknown": "ignore"} | settings
    )
    rows = (X > 0).astype(float)
    rows[17, 2] = 2.0
    model = make_pipeline(step, DPSGDClassifier(max_epochs=1, delta=1e-3, progress=False))
    with pytest.warns(UserWarning, match="unknown categories in columns"):
        model.fit(rows, Y)
    stated = certify(model).privacy
    assert not stated.is_void
    assert "Warnings of these steps" in " ".join(stated.assumptions)
