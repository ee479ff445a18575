"""Only listed classes with listed settings learn nothing, and the reason names the parameter."""

from __future__ import annotations

import inspect
import io
import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn import preprocessing
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder
from sklearn.utils.discovery import all_estimators

from skfairdp import certify
from skfairdp.receipts import step_rules, unwrap
from skfairdp.receipts.digests.code import is_elementwise
from skfairdp.receipts.harmless_steps import (
    CONTAINERS,
    FLAG,
    HARMLESS,
    NUMBER,
    STEPS_OF,
    Allowed,
    HarmlessStep,
)
from skfairdp.receipts.step_rules import reason_to_learn, reasons_of_container
from skfairdp.receipts.unwrap import learns_from_rows
from tests.certificate.fakes import ThresholdClassifier

RNG = np.random.default_rng(26)
X = RNG.uniform(0.1, 1.0, size=(40, 3))
Y = (X[:, 0] > 0.5).astype(int)
DISCOVERED = dict(all_estimators(type_filter="transformer"))
UNLISTED = sorted(n for n, kind in DISCOVERED.items() if kind not in {*HARMLESS, *CONTAINERS})
# Settings of each listed class with which it learns nothing, if its defaults are others.
GIVEN: dict[type, dict[str, Any]] = {
    preprocessing.OneHotEncoder: {"categories": [[0.0, 1.0]]},
    preprocessing.OrdinalEncoder: {"categories": [[0.0, 1.0]]},
    SimpleImputer: {"strategy": "constant", "keep_empty_features": True},
}


class Text(str):
    """A text that can hold more than its letters."""


class Number(float):
    """A number that can hold more than its value."""


class Settings(dict):
    """A mapping that can note what it is asked for."""


def outside() -> list[Any]:
    """Values that may hold rows, or hand rows to what holds them."""
    buffer = np.zeros((40, 3), dtype=[("row", float)])
    return [
        lambda rows: rows,
        len,
        np.add,
        np.frompyfunc(float, 1, 1),
        buffer,
        [object()],
        {"out": np.zeros((40, 3))},
        {"where": np.ones(3, dtype=bool)},
        io.BytesIO(),
        Text("l2"),
        Number(1.0),
        Settings(),
        [[[[X]]]],
        X[0].data,
        np.dtype(float, metadata={"rows": X}),
        type("Chosen", (float,), {}),
        "median of a cell",
    ]


def fresh(kind: type) -> Any:
    return kind(**GIVEN.get(kind, {}))


@pytest.mark.parametrize("name", UNLISTED)
def test_a_transformer_that_is_not_listed_learns(name: str) -> None:
    assert learns_from_rows(object.__new__(DISCOVERED[name]))  # whatever its parameters


def test_every_listed_class_is_discovered() -> None:
    assert {kind.__name__ for kind in HARMLESS} <= set(DISCOVERED)
    assert len(HARMLESS) == 9


@pytest.mark.parametrize("kind", HARMLESS, ids=lambda kind: kind.__name__)
def test_every_parameter_of_a_listed_class_has_a_rule(kind: type) -> None:
    named = set(inspect.signature(kind).parameters)
    assert named == set(HARMLESS[kind].parameters)
    assert reason_to_learn(fresh(kind)) is None


@pytest.mark.parametrize("kind", CONTAINERS, ids=lambda kind: kind.__name__)
def test_every_parameter_of_a_container_has_a_rule_or_holds_steps(kind: type) -> None:
    named = set(inspect.signature(kind).parameters)
    assert named | GONE == {*CONTAINERS[kind], *STEPS_OF[kind]} | GONE


# A parameter of scikit-learn 1.8 that later versions do not have.
GONE = {"force_int_remainder_cols"}
# Parameters that take any text.
TEXTS = {"encoding", "token_pattern", "missing_values", "fill_value", "verbose_feature_names_out"}


@pytest.mark.parametrize(
    ("kind", "parameter"),
    [(kind, name) for kind, record in HARMLESS.items() for name in record.parameters],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_a_value_outside_the_list_learns_and_is_named(kind: type, parameter: str) -> None:
    for value in outside():
        if type(value) is str and parameter in TEXTS:
            continue
        reason = reason_to_learn(fresh(kind).set_params(**{parameter: value}))
        assert reason is not None, value
        assert repr(parameter) in reason
        assert "median of a cell" not in reason


@pytest.mark.parametrize("kind", CONTAINERS, ids=lambda kind: kind.__name__)
def test_a_setting_of_a_container_outside_the_list_is_named(kind: type) -> None:
    for parameter in CONTAINERS[kind].keys() & inspect.signature(kind).parameters:
        for value in outside():
            if type(value) is str and parameter in TEXTS:
                continue
            container = kind([("a", preprocessing.Normalizer())]).set_params(**{parameter: value})
            reasons = dict(reasons_of_container(container))
            assert list(reasons) == [parameter]


@pytest.mark.parametrize("attribute", ["positive_", "training_rows", "_training_rows"])
def test_an_attribute_that_was_set_on_a_pipeline_is_named(attribute: str) -> None:
    model = Pipeline([("a", preprocessing.Normalizer())]).set_output(transform="pandas")
    model.fit(np.ones((3, 2)))
    model.positive_ = "yes"  # as the command does
    assert list(reasons_of_container(model)) == []
    setattr(model, attribute, np.ones((3, 2)))
    ((name, reason),) = reasons_of_container(model)
    assert name == attribute
    assert "was set by hand, and may hold rows" in reason


def test_names_of_more_columns_than_there_are_may_hold_rows() -> None:
    step = preprocessing.FunctionTransformer().fit(pd.DataFrame({"a": [1.0], "b": [2.0]}))
    assert reason_to_learn(step) is None
    step.feature_names_in_ = np.array([f"cell {number}" for number in range(300)], dtype=object)
    assert reason_to_learn(step) == (
        "its attribute 'feature_names_in_' does not hold one name for each column"
    )


def test_a_parameter_that_a_newer_version_adds_learns() -> None:
    record = HARMLESS[preprocessing.Normalizer]
    older = HarmlessStep(record.kind, {"norm": record.parameters["norm"]}, record.public_rows)
    (reason,) = step_rules._outside(preprocessing.Normalizer(), older.parameters)
    assert "'copy' is not among" in reason


def test_a_subclass_is_another_class() -> None:
    for kind in HARMLESS:
        assert learns_from_rows(object.__new__(type(kind.__name__, (kind,), {})))


def test_a_rule_that_allows_everything_cannot_be_written() -> None:
    with pytest.raises(ValueError, match="allows objects"):
        Allowed("anything", lambda value: True)
    with pytest.raises(ValueError, match="allows objects"):
        Allowed("anything hashable", lambda value: value.__hash__ is not None)
    with pytest.raises(ValueError, match="words is empty"):
        Allowed(" ", lambda value: False)
    with pytest.raises(TypeError, match="installed library"):
        HarmlessStep(Text, {}, list)
    with pytest.raises(TypeError, match="get_params"):
        HarmlessStep(np.ndarray, {}, list)
    with pytest.raises(TypeError, match="'norm' must be an Allowed; got a function"):
        HarmlessStep(preprocessing.Normalizer, {"norm": FLAG.holds}, list)  # type: ignore[dict-item]
    assert HARMLESS[SimpleImputer].path == "sklearn.impute.SimpleImputer"
    assert (FLAG | NUMBER).words == "True, False, a number"


class Keeps:
    """A function that keeps every row."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def __call__(self, rows: Any, *given: Any, **named: Any) -> Any:
        self.seen.append(np.array(rows))
        return rows


def functions() -> dict[str, FunctionTransformer]:
    """Ways of a `FunctionTransformer` to keep rows."""
    found = {
        f"{ufunc.__name__} with out={kind.__name__}": FunctionTransformer(
            ufunc, kw_args={"out": kind(np.zeros_like(X))}
        )
        for ufunc in (np.positive, np.sqrt, np.log1p)
        for kind in (np.asarray, lambda buffer: (buffer,))
    }
    found |= {
        "where=": FunctionTransformer(np.positive, kw_args={"where": X > 0.0}),
        "out= and where=": FunctionTransformer(
            np.positive, kw_args={"out": np.zeros_like(X), "where": X > 0.5}
        ),
        "inverse": FunctionTransformer(np.log1p, inverse_func=Keeps()),
        "arguments of the inverse": FunctionTransformer(
            np.log1p, inverse_func=np.expm1, inv_kw_args={"out": np.zeros_like(X)}
        ),
        "inverse alone": FunctionTransformer(inverse_func=Keeps()),
        "names": FunctionTransformer(np.log1p, feature_names_out=Keeps()),
        "function": FunctionTransformer(Keeps()),
        "arguments of a subclass": FunctionTransformer(np.log1p, kw_args=Settings()),
    }
    return found


def kept_rows(model: Any) -> int:
    """Training rows that the pickle of a model holds, bit for bit."""
    stored = pickle.dumps(model)
    return sum(row.tobytes() in stored for row in X)


def around(step: Any) -> dict[str, Any]:
    """Containers of every kind with a step inside."""
    return {
        "alone": step,
        "Pipeline": make_pipeline(step),
        "union": FeatureUnion([("a", step)]),
        "columns": ColumnTransformer([("a", step, [0, 1, 2])], sparse_threshold=0),
        "remainder": ColumnTransformer([], remainder=step, sparse_threshold=0),
        "deep": make_pipeline(FeatureUnion([("a", make_pipeline(step))])),
    }


class First(ThresholdClassifier):
    """Looks at the first column alone, whatever their number."""

    def _score(self, X: Any) -> Any:
        return np.asarray(X, dtype=float)[:, 0]


@pytest.mark.filterwarnings("ignore:'where' used without 'out'")
@pytest.mark.filterwarnings("ignore:The provided functions are not strictly")
@pytest.mark.parametrize("name", functions())
@pytest.mark.parametrize("place", around(None))
def test_no_row_is_in_a_model_with_a_finite_epsilon(name: str, place: str) -> None:
    model = make_pipeline(around(functions()[name])[place], First()).fit(X, Y)
    stated = certify(model).privacy
    assert stated.is_void
    assert any(f"'{word}'" in stated.assumptions[0] for word in
               ("func", "kw_args", "inverse_func", "inv_kw_args", "feature_names_out"))  # fmt: skip
    listed = stated.assumptions[0].split("'")[1]
    assert math.isfinite(certify(model, public_steps=[listed]).privacy.epsilon)


def drawn(rng: np.random.Generator) -> FunctionTransformer:
    """A `FunctionTransformer` with arguments drawn from harmless and harmful ones."""

    def one(*values: Any) -> Any:
        return values[rng.integers(len(values))]

    buffered = {"out": np.zeros_like(X)}
    return FunctionTransformer(
        one(None, np.positive, np.sqrt, np.positive, Keeps()),
        one(None, None, None, np.square, Keeps()),
        validate=one(False, True),
        accept_sparse=one(False, True),
        check_inverse=one(False, True),
        feature_names_out=one(None, "one-to-one", Keeps()),
        kw_args=one(None, {}, buffered, {**buffered, "where": X > 0.5}),
        inv_kw_args=one(None, {}, buffered),
    )


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_finite_epsilon_is_never_printed_over_rows_in_a_pickle() -> None:
    rng, outcomes = np.random.default_rng(1), {"finite": 0, "void": 0, "void, with rows": 0}
    for _ in range(300):
        model = make_pipeline(drawn(rng), First())
        try:
            model.fit(X, Y)
        except (TypeError, ValueError):  # arguments that the function does not take
            continue
        finite, rows = not certify(model).privacy.is_void, kept_rows(model)
        assert not (finite and rows)
        outcomes["finite" if finite else "void, with rows" if rows else "void"] += 1
    assert min(outcomes.values()) > 5, outcomes


def test_looking_at_the_function_alone_would_let_rows_through(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The broken twin: the rule that read `func` and nothing else."""
    step = FunctionTransformer(np.positive, kw_args={"out": np.zeros_like(X)})
    model = make_pipeline(step, First()).fit(X, Y)
    assert kept_rows(model) == len(X)
    assert certify(model).privacy.is_void
    monkeypatch.setattr(
        unwrap, "reason_to_learn", lambda one: None if is_elementwise(one.func) else "func"
    )
    assert math.isfinite(certify(model).privacy.epsilon)


@pytest.mark.parametrize("deep", [False, True])
def test_a_cache_of_a_pipeline_voids_and_is_named(tmp_path: Path, deep: bool) -> None:
    steps = [("same", preprocessing.Normalizer()), ("last", First())]
    cached = Pipeline(steps, memory=str(tmp_path))
    if deep:
        inner = Pipeline([*steps[:1], ("b", "passthrough")], memory=str(tmp_path))
        cached = make_pipeline(inner, First())
    cached.fit(X, Y)
    files = b"".join(path.read_bytes() for path in tmp_path.rglob("*.pkl"))
    assert files
    stated = certify(cached).privacy
    assert stated.is_void
    assert "'memory' is a str, and only None (a cache keeps" in stated.assumptions[0]
    assert str(tmp_path) not in str(stated)
    name = "pipeline__memory" if deep else "memory"
    assert math.isfinite(certify(cached, public_steps=[name]).privacy.epsilon)


def test_what_a_fit_leaves_beyond_that_of_public_rows_voids() -> None:
    """The second check, for a class that is listed and learns all the same."""
    for name, value in (("rows_", X), ("n_features_in_", X), ("_fit_X", X[:1])):
        step = preprocessing.Normalizer().fit(X)
        setattr(step, name, value)
        assert name in (reason_to_learn(step) or "")
    step = preprocessing.PolynomialFeatures(2).fit(X)
    assert reason_to_learn(step) is None
    step.n_output_features_ = 7
    assert "n_output_features_ is not what it left" in (reason_to_learn(step) or "")


def test_a_listed_class_whose_fit_changes_its_parameters_learns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain = preprocessing.Binarizer.fit

    def fit(self: Any, rows: Any, y: Any = None) -> Any:
        plain(self, rows)
        self.threshold = float(np.mean(rows))
        return self

    monkeypatch.setattr(preprocessing.Binarizer, "fit", fit)
    step = preprocessing.Binarizer().fit(X)
    assert reason_to_learn(step) == "methods of its class were replaced"
    monkeypatch.setattr(step_rules, "replaced_methods", lambda kind: {})
    assert "a fit changes its parameters (threshold" in (reason_to_learn(step) or "")


def test_fitted_columns_with_other_parameters_than_given_void() -> None:
    columns = ColumnTransformer([("a", preprocessing.Binarizer(), [0, 1, 2])], sparse_threshold=0)
    model = make_pipeline(columns, First()).fit(X, Y)
    assert not certify(model).privacy.is_void
    columns.transformers_[0][1].threshold = float(X.mean())
    assert "threshold is not what it left" in certify(model).privacy.assumptions[0]


HONEST: dict[str, tuple[Any, Any]] = {
    "numbers": (preprocessing.PolynomialFeatures((1, 2), order="F"), X),
    "names": (preprocessing.Normalizer(), pd.DataFrame(X, columns=list("abc"))),
    "frames out": (
        FunctionTransformer(np.log1p, feature_names_out="one-to-one").set_output(
            transform="pandas"
        ),
        pd.DataFrame(X, columns=list("abc")),
    ),
    "no arguments": (FunctionTransformer(np.exp, kw_args={}), X),
    "texts": (
        OneHotEncoder(categories=[["a", "b"]], drop="first", sparse_output=False),
        np.array([["a"], ["b"]] * 20),
    ),
    "texts in a frame": (
        OneHotEncoder(categories=[np.array(["a", "b"]), pd.Index([0, 1])], sparse_output=False),
        pd.DataFrame({"t": ["a", "b"] * 20, "n": [0, 1] * 20}),
    ),
    "missing category": (
        preprocessing.OrdinalEncoder(categories=[[0.0, 1.0, math.nan]]),
        np.array([[0.0], [math.nan]] * 20),
    ),
    "unknown category": (
        preprocessing.OrdinalEncoder(
            categories=[["a", "b"]], handle_unknown="use_encoded_value", unknown_value=-1
        ),
        np.array([["a"], ["?"]] * 20, dtype=object),
    ),
    "imputed": (SimpleImputer(strategy="constant", keep_empty_features=True), X),
    "imputed texts": (
        SimpleImputer(strategy="constant", fill_value="?", keep_empty_features=True),
        np.array([["a"], [math.nan]] * 20, dtype=object),
    ),
    "imputed frame": (
        SimpleImputer(strategy="constant", fill_value=-1, keep_empty_features=True),
        pd.DataFrame({"a": [1, 2] * 20, "b": [0.5, math.nan] * 20}),
    ),
    "words": (HashingVectorizer(n_features=4, stop_words="english"), ["the word", "b"] * 20),
}


@pytest.mark.parametrize("name", HONEST)
def test_an_honest_step_learns_nothing_before_and_after_its_fit(name: str) -> None:
    step, rows = HONEST[name]
    assert reason_to_learn(step) is None
    step.fit_transform(rows)
    assert reason_to_learn(step) is None


def test_wrappers_around_a_harmless_step_learn() -> None:
    for wrapper in (TransformedTargetRegressor(transformer=preprocessing.Normalizer()), object()):
        assert learns_from_rows(wrapper)


PAGE = Path(__file__).parents[2] / "docs" / "theory" / "threats.md"


def table() -> str:
    """The list of harmless settings as a table of the page of threats."""
    lines = ["| class | parameter | known to learn nothing |", "|---|---|---|"]
    named = {record.path: record.parameters for record in HARMLESS.values()}
    named |= {
        f"sklearn.{k.__module__.split('.')[1]}.{k.__name__}": v for k, v in CONTAINERS.items()
    }
    for path, rules in named.items():
        by_words: dict[str, list[str]] = {}
        for parameter, rule in rules.items():
            by_words.setdefault(rule.words, []).append(f"`{parameter}`")
        for words, parameters in by_words.items():
            lines.append(f"| `{path}` | {', '.join(parameters)} | {words} |")
            path = "″"
    return "\n".join(lines).replace("`″`", "")


def test_the_page_of_threats_holds_the_list() -> None:
    assert table() in PAGE.read_text(encoding="utf-8"), table()
