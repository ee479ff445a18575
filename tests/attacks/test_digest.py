"""Two models that predict differently have different digests, or none."""

from __future__ import annotations

import collections
import copy
import datetime
import decimal
import enum
import functools
import json
import operator
import pickle
import re
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch
from fairlearn.metrics import MetricFrame
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import VotingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer
from skorch import NeuralNetClassifier
from torch import nn
from torch.nn.utils import parametrize

from skfairdp import DPSGDClassifier, FairDPClassifier, certify
from skfairdp.exceptions import IncomparableModelError, UnboundModelError
from skfairdp.receipts.digests import digest
from skfairdp.receipts.digests.digest import bind, state_digest
from skfairdp.receipts.digests.state import state_of
from tests.certificate.forged import forged_text
from tests.processes import in_one_worker, run_fresh

_rng = np.random.default_rng(0)
X = _rng.normal(size=(80, 3)).astype(np.float32)
Y = (X[:, 0] > 0).astype(int)
GROUPS = np.where(X[:, 1] > 0, "a", "b")

SIGN = 1.0  # read by functions below
TABLE = {"sign": 1.0}
own = types.ModuleType("own_module_of_a_user")
own.sign = 1.0  # type: ignore[attr-defined]


class Rule(ClassifierMixin, BaseEstimator):
    """Calls a function."""

    def __init__(self, function: Any = None, verbose: int = 0) -> None:
        self.function = function
        self.verbose = verbose

    def fit(self, X: Any, y: Any) -> Rule:
        self.classes_ = np.unique(y)
        return self

    def predict(self, X: Any) -> Any:
        return self.classes_[(np.asarray(self.function(X)) > 0).astype(int)]


class Flipped(Rule):
    def predict(self, X: Any) -> Any:
        return self.classes_[(np.asarray(self.function(X)) <= 0).astype(int)]


class Loud(Rule):
    """Predicts by what is no more than a setting elsewhere."""

    def predict(self, X: Any) -> Any:
        return np.full(len(X), self.classes_[int(self.verbose > 0)])


class Hidden:
    __slots__ = ("_Hidden__own", "sign")

    def __init__(self, sign: float) -> None:
        self.sign = sign
        self._Hidden__own = sign  # type: ignore[attr-defined]

    def __call__(self, X: Any) -> Any:
        return X[:, 0] * self.sign

    def __getstate__(self) -> Any:
        return None  # says that there is nothing to keep


class Listed(list):
    def __call__(self, X: Any) -> Any:
        return X[:, 0] * self[0] * getattr(self, "extra", 1.0)


class Forged:
    """Says that it belongs to this package, which is not so."""

    __module__ = "skfairdp.receipts.digests.digest"

    def __init__(self, sign: float) -> None:
        self.sign = sign

    def _digest_state(self) -> dict[str, Any]:
        return {}


class Pair(NamedTuple):
    first: int
    second: int


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


def noted(sign: float) -> torch.Tensor:
    tensor = torch.ones(1)
    tensor.sign_of_mine = sign  # type: ignore[attr-defined]
    return tensor


class Softmax(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)
        self.register_buffer("shift", torch.zeros(2), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.layer(x) + self.shift, -1)


class Reversed(Softmax):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x).flip(-1)


def first(X: Any) -> Any:
    return X[:, 0]


def scaled(X: Any, by: float = 1.0, *, also: float = 1.0) -> Any:
    return X[:, 0] * by * also


def with_global(X: Any) -> Any:
    return X[:, 0] * SIGN


def with_table(X: Any) -> Any:
    return [row[0] * TABLE["sign"] for row in X]  # a list in a function of its own until 3.12


def with_module(X: Any) -> Any:
    return X[:, 0] * own.sign


def calls_global(X: Any) -> Any:
    return with_global(X)


def enclosing(factor: Any) -> Callable:
    def inner(X: Any) -> Any:
        return X[:, 0] * factor

    return inner


def enclosing_call(factor: Callable) -> Callable:
    return lambda X: X[:, 0] * factor(0)


@functools.cache
def factor_of(name: str) -> float:
    return TABLE[name]


def with_cached(X: Any) -> Any:
    return X[:, 0] * factor_of("sign")


def even(n: int) -> bool:
    return n == 0 or odd(n - 1)


def odd(n: int) -> bool:
    return n != 0 and even(n - 1)


def with_recursion(X: Any) -> Any:
    return X[:, 0] * (1.0 if even(4) else -1.0)


def rule(function: Any) -> Rule:
    return Rule(function).fit(X, Y)


def net(module: type[nn.Module] = Softmax) -> NeuralNetClassifier:
    torch.manual_seed(0)
    made = NeuralNetClassifier(module, max_epochs=1, verbose=0, train_split=None, lr=0.5)
    return made.fit(X, Y.astype(np.int64))


def attribute(function: Callable, name: str, value: Any) -> Callable:
    made = types.FunctionType(
        function.__code__, function.__globals__, None, function.__defaults__, function.__closure__
    )
    made.__kwdefaults__ = function.__kwdefaults__
    setattr(made, name, value)
    return made


def reads_itself(X: Any) -> Any:
    return X[:, 0] * getattr(reads_itself, "sign", 1.0)


def neighbours(rows: Any) -> Any:
    return KNeighborsClassifier(1, algorithm="kd_tree").fit(rows, Y)


def built_in(function: Callable) -> Callable:
    names = {"__builtins__": {"max": function}}
    return types.FunctionType((lambda X: [max(*row) for row in X]).__code__, names)


def acting(name: str, sign: float) -> type:
    body = {"__call__": lambda self, X: X[:, 0] * sign, "__module__": __name__}
    return type(name, (), body)


def changed(model: Any, change: Callable[[Any], Any]) -> tuple[Any, Any]:
    other = copy.deepcopy(model)
    change(other)
    return model, other


def reversed_by(module: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return Softmax.forward(module, x).flip(-1)  # type: ignore[arg-type]


def hook(module: nn.Module) -> None:
    module.register_forward_hook(lambda module, inputs, output: output.flip(-1))


class Negated(nn.Module):
    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        return -weight


def weights(m: Any) -> None:
    with torch.no_grad():
        m.module_.layer.weight.mul_(-50.0)


def stepped(function: Any) -> Any:
    return make_pipeline(FunctionTransformer(function), LogisticRegression()).fit(X, Y)


def same_end(one: Any, other: Any) -> tuple[Any, Any]:
    other.steps[-1] = one.steps[-1]
    return one, other


class OwnPipeline(Pipeline):
    def predict(self, X: Any, **params: Any) -> Any:
        return (np.asarray(X)[:, 1] > 0).astype(int)


def trained(name: str = "dpsgd") -> Any:
    if name == "dpsgd":
        model = DPSGDClassifier(max_epochs=1, delta=1e-3, progress=False)
        return model.fit(X, Y)
    model = FairDPClassifier(max_epochs=1, delta=1e-3, progress=False, n_heads=3)
    return model.fit(X, Y, sensitive_features=GROUPS)


MUTATIONS: dict[str, Callable[[], tuple[Any, Any]]] = {
    "body of a lambda": lambda: (rule(lambda X: X[:, 0]), rule(lambda X: -X[:, 0])),
    # Numbers without a sign: Python 3.14 keeps negative ones elsewhere, so that the code differs.
    "constant": lambda: (rule(lambda X: X[:, 0] - 0.5), rule(lambda X: X[:, 0] - 1.5)),
    "signed zero": lambda: (
        rule(lambda X: np.copysign(1.0, [0.0] * len(X))),
        rule(lambda X: np.copysign(1.0, [-0.0] * len(X))),
    ),
    "constant of an inner function": lambda: (
        rule(lambda X: [(lambda v: v * 1.0)(row[0]) for row in X]),
        rule(lambda X: [(lambda v: v * -1.0)(row[0]) for row in X]),
    ),
    "name of an attribute": lambda: (
        rule(lambda X: np.asarray(X).max(axis=1)),
        rule(lambda X: np.asarray(X).min(axis=1)),
    ),
    "function of a library": lambda: (
        rule(lambda X: np.log(abs(X[:, 0]))),
        rule(lambda X: np.exp(X[:, 0])),
    ),
    "default": lambda: (rule(scaled), rule(attribute(scaled, "__defaults__", (-1.0,)))),
    "keyword default": lambda: (
        rule(scaled),
        rule(attribute(scaled, "__kwdefaults__", {"also": -1.0})),
    ),
    "closure over a number": lambda: (rule(enclosing(1.0)), rule(enclosing(-1.0))),
    "closure over an array": lambda: (
        rule(enclosing(np.array(1.0))),
        rule(enclosing(np.array(-1.0))),
    ),
    "other builtins": lambda: (rule(built_in(max)), rule(built_in(min))),
    "partial": lambda: (
        rule(functools.partial(scaled, by=1.0)),
        rule(functools.partial(scaled, by=-1.0)),
    ),
    "getter": lambda: (
        rule(operator.itemgetter((slice(None), 0))),
        rule(operator.itemgetter((slice(None), 1))),
    ),
    "bound method": lambda: (rule(Hidden(1.0).__call__), rule(Hidden(-1.0).__call__)),
    "bound builtin method": lambda: (
        rule(enclosing_call({0: 1.0}.get)),
        rule(enclosing_call({0: -1.0}.get)),
    ),
    "slots": lambda: (rule(Hidden(1.0)), rule(Hidden(-1.0))),
    "list with a call": lambda: (rule(Listed([1.0])), rule(Listed([-1.0]))),
    "attribute of a list": lambda: changed(
        rule(Listed([1.0])), lambda m: setattr(m.function, "extra", -1.0)
    ),
    "attribute of a function": lambda: (
        rule(first),
        rule(attribute(first, "__code__", (lambda X: X[:, 1]).__code__)),
    ),
    "methods of a class": lambda: (rule(first), Flipped(first).fit(X, Y)),
    "a setting that another class ignores": lambda: (
        Loud(first).fit(X, Y),
        Loud(first, 1).fit(X, Y),
    ),
    "method of the instance": lambda: changed(
        rule(first), lambda m: setattr(m, "predict", functools.partial(Flipped.predict, m))
    ),
    "method of an instance of ours": lambda: changed(
        trained(), lambda m: setattr(m, "predict", lambda X: 1 - type(m).predict(m, X))
    ),
    "weights of a skorch net": lambda: changed(net(), weights),
    "buffer that is not stored": lambda: changed(
        net(), lambda m: setattr(m.module_, "shift", torch.tensor([0.0, 50.0]))
    ),
    "forward of a skorch net": lambda: changed(
        net(), lambda m: setattr(m.module_, "__class__", Reversed)
    ),
    "forward of one class": lambda: (rule(acting("Act", 1.0)()), rule(acting("Act", -1.0)())),
    "forward of one module": lambda: changed(
        net(), lambda m: setattr(m.module_, "forward", lambda x: reversed_by(m.module_, x))
    ),
    "hook": lambda: changed(net(), lambda m: hook(m.module_)),
    "hook before": lambda: changed(
        net(), lambda m: m.module_.register_forward_pre_hook(lambda module, inputs: (-inputs[0],))
    ),
    "parametrization": lambda: changed(
        net(), lambda m: parametrize.register_parametrization(m.module_.layer, "weight", Negated())
    ),
    "weights of ours": lambda: changed(trained(), lambda m: m.module_.head.bias.data.fill_(1e6)),
    "heads of an ensemble": lambda: changed(trained("fairdp"), lambda m: m.heads_.__imul__(-1e6)),
    "ending of a Pipeline": lambda: changed(stepped(np.abs), lambda m: m[-1].coef_.__imul__(-1.0)),
    "function of a step": lambda: same_end(stepped(lambda Z: Z), stepped(lambda Z: -Z)),
    "ufunc of a step": lambda: same_end(stepped(np.positive), stepped(np.negative)),
    "subclass of a Pipeline": lambda: (
        (p := make_pipeline(Normalizer(), LogisticRegression()).fit(X, Y)),
        OwnPipeline(p.steps),
    ),
    "method of a Pipeline": lambda: changed(
        stepped(np.abs), lambda m: setattr(m, "predict", lambda X: np.zeros(len(X), dtype=int))
    ),
    "state of a generator": lambda: (
        DummyClassifier(strategy="uniform", random_state=np.random.RandomState(0)).fit(X, Y),
        DummyClassifier(strategy="uniform", random_state=np.random.RandomState(1)).fit(X, Y),
    ),
    "seed that is drawn from": lambda: (
        DummyClassifier(strategy="uniform", random_state=0).fit(X, Y),
        DummyClassifier(strategy="uniform", random_state=1).fit(X, Y),
    ),
    "rows of neighbours": lambda: (
        KNeighborsClassifier(1).fit(X, Y),
        KNeighborsClassifier(1).fit(X, 1 - Y),
    ),
    "search tree of neighbours": lambda: changed(
        neighbours(X),
        lambda m: setattr(m, "_tree", neighbours(X[::-1])._tree),
    ),
    "sparse table": lambda: (
        rule(enclosing(scipy.sparse.csr_matrix([[1.0]]).toarray()[0])),
        rule(enclosing(scipy.sparse.csr_matrix([[-1.0]]).toarray()[0])),
    ),
    "frame": lambda: (
        rule(enclosing(pd.Series([1.0]).iloc[0])),
        rule(enclosing(pd.Series([-1.0]).iloc[0])),
    ),
    "member of a vote": lambda: changed(
        VotingClassifier([("a", LogisticRegression())]).fit(X, Y),
        lambda m: m.estimators_[0].coef_.__imul__(-1.0),
    ),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_model_that_predicts_otherwise_is_not_the_certified_one(name: str) -> None:
    model, other = MUTATIONS[name]()
    assert (model.predict(X) != other.predict(X)).any()
    certificate = certify(model)
    assert certificate.verify(model)
    assert not certificate.verify(other)


@pytest.mark.parametrize(
    ("function", "where", "value"),
    [
        (with_global, globals(), ("SIGN", -1.0)),
        (calls_global, globals(), ("SIGN", -1.0)),
        (with_table, TABLE, ("sign", -1.0)),
        (with_cached, TABLE, ("sign", -1.0)),
        (with_module, vars(own), ("sign", -1.0)),
        (with_recursion, globals(), ("odd", lambda n: False)),
        (with_recursion, globals(), ("even", lambda n: False)),
        (calls_global, globals(), ("with_global", lambda X: -X[:, 0])),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_globals_that_a_function_reads_are_covered(
    function: Callable, where: Any, value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = rule(function)
    certificate = certify(model)
    assert certificate.verify(model)
    before = model.predict(X)
    monkeypatch.setitem(where, *value)
    factor_of.cache_clear()
    assert (model.predict(X) != before).any()
    assert not certificate.verify(model)
    monkeypatch.undo()
    factor_of.cache_clear()
    assert certificate.verify(model)


def test_a_method_put_in_place_of_a_librarys_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    model = LogisticRegression().fit(X, Y)
    certificate = certify(model)
    monkeypatch.setattr(LogisticRegression, "predict", lambda self, X: np.zeros(len(X)))
    assert not certificate.verify(model)
    monkeypatch.undo()
    assert certificate.verify(model)


def reads_code(X: Any) -> Any:
    return eval("X[:, 0]")


def reads_a_file(X: Any) -> Any:
    with open("weights") as file:
        return X[:, 0] * float(file.read())


def takes_a_module(X: Any) -> Any:
    return vars(own)["sign"] * X[:, 0]


def imports_late(X: Any) -> Any:
    import own_module_of_a_user  # type: ignore[import-not-found]

    return X[:, 0] * own_module_of_a_user.sign


@pytest.mark.parametrize(
    ("function", "named"),
    [
        (np.frompyfunc(float, 1, 1), "ufunc"),
        (reads_code, "eval"),
        (reads_a_file, "open"),
        (takes_a_module, "the whole module"),
        (imports_late, "own_module_of_a_user"),
        ((row for row in X), "generator"),
    ],
    ids=["ufunc", "eval", "file", "module", "import", "generator"],
)
def test_what_cannot_be_covered_is_named_and_verifies_nothing(function: Any, named: str) -> None:
    model = rule(function)
    with pytest.raises(UnboundModelError, match=named):
        bind(model)
    certificate = certify(model)
    assert certificate.model_digest == "unbound"
    (said,) = [text for text in certificate.remarks if "cannot be bound" in text]
    assert named in said
    assert "function" in said  # where it was found
    assert not certificate.verify(model)
    assert not certify(rule(first)).verify(model)
    assert not certificate.verify(rule(first))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ([1], (1,)),
        (1, True),
        (float("nan"), np.frombuffer(b"\x01\0\0\0\0\0\xf8\x7f")[0].item()),
        (np.float32(0.1), float(np.float32(0.1))),
        (np.longdouble("0.1"), np.longdouble(0.1)),
        (np.ma.array([1.0, 2.0], mask=[0, 1]), np.ma.array([1.0, 2.0], mask=[1, 0])),
        (pd.Series([1, 2], index=["a", "b"]), pd.Series([1, 2], index=["b", "a"])),
        (pd.Categorical(["a"], ["a", "b"]), pd.Categorical(["a"], ["b", "a"])),
        (pd.Series([1], dtype="int8"), pd.Series([1], dtype="int16")),
        (scipy.sparse.csr_matrix([[0.0, 1.0]]), scipy.sparse.csr_matrix([[1.0, 0.0]])),
        (torch.tensor([1.0]), torch.tensor([1.0], dtype=torch.float64)),
        (torch.tensor([1.0]).bfloat16(), torch.tensor([2.0]).bfloat16()),
        (np.random.default_rng(0), np.random.default_rng(1)),
        (np.dtype("f4"), np.dtype("f8")),
        (b"a", bytearray(b"a")),
        (np.array([["a"]], dtype=object), np.array(["a"], dtype=object)),
        (str.upper, str.lower),
        (re.compile("a"), re.compile("b")),
        (Pair(1, 2), Pair(2, 1)),
        (Level.LOW, Level.HIGH),
        (datetime.date(2020, 1, 1), datetime.date(2020, 1, 2)),
        (decimal.Decimal(1), decimal.Decimal(2)),
        (collections.deque([1]), collections.deque([2])),
        (range(3), range(4)),
        (slice(1), slice(2)),
        (Forged(1.0), Forged(-1.0)),
        (noted(1.0), noted(-1.0)),
        (np.log, np.exp),
        (first, with_global),
        (Rule, Flipped),
    ],
)
def test_values_that_behave_differently_differ(one: Any, other: Any) -> None:
    assert state_digest(one) != state_digest(other)
    assert state_digest(one) == state_digest(copy.deepcopy(one))


def recipe_alone(value: Any, **options: Any) -> Any:
    """What was once taken of a net: what it is made from, not what it has learned."""
    made = isinstance(value, NeuralNetClassifier)
    return (value.get_params(deep=False), ()) if made else state_of(value, **options)


@pytest.mark.parametrize(
    ("part", "weaker", "mutation"),
    [
        ("code.code_parts", lambda code: [code.co_code], "constant"),
        ("_contents", lambda cell: [], "closure over a number"),
        ("code.class_members", lambda kind: {}, "forward of one class"),
        ("state.state_of", recipe_alone, "weights of a skorch net"),
    ],
)
def test_a_digest_that_leaves_something_out_would_be_found(
    part: str, weaker: Callable, mutation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"skfairdp.receipts.digests.digest.{part}", weaker)
    model, other = MUTATIONS[mutation]()
    assert (model.predict(X) != other.predict(X)).any()
    assert certify(model).verify(other)


def test_a_digest_without_globals_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digest.code, "names_used", lambda code: {})
    certificate = certify(model := rule(with_global))
    monkeypatch.setitem(globals(), "SIGN", -1.0)
    assert certificate.verify(model)


SCRIPT = """
import pickle, sys
from skfairdp.receipts.digests.digest import state_digest
print(hash("a text"), *[state_digest(model) for model in pickle.load(open(sys.argv[1], "rb"))])
"""


@in_one_worker
def test_digests_are_the_same_in_other_processes_and_hash_seeds(tmp_path: Path) -> None:
    models = [
        rule(first), rule(with_global), rule(with_table), rule(calls_global), rule(with_recursion),
        rule(functools.partial(scaled, by=2.0)), Flipped(first).fit(X, Y), net(), net(Reversed),
        rule({"words", "in", "a", "set"}), trained(), trained("fairdp"), stepped(np.abs),
        KNeighborsClassifier(3).fit(X, Y), rule(Hidden(1.0)), rule(Listed([1.0])),
    ]  # fmt: skip
    models[-2].function = 1.0  # Hidden says that it has nothing to keep
    certificates = [certify(model) for model in models]
    expected = [state_digest(model) for model in models]
    for model in models[:9]:
        if not isinstance(model, NeuralNetClassifier):
            model.predict(X)
    (tmp_path / "models").write_bytes(pickle.dumps(models))
    for certificate, model in zip(certificates, models, strict=True):
        assert certificate.verify(pickle.loads(pickle.dumps(model)))
    done = run_fresh(SCRIPT, str(tmp_path / "models"))
    assert done.returncode == 0, done.stderr
    hashed, *found = done.stdout.split()
    assert hashed != str(hash("a text"))
    assert found == expected


def test_another_python_is_not_called_another_model(monkeypatch: pytest.MonkeyPatch) -> None:
    model = rule(first)
    certificate = certify(model)
    document = json.loads(certificate.to_json())
    document["library_versions"]["python"] = "3.99.1"
    document["model_digest"] = "sha256:" + "0" * 64
    elsewhere = type(certificate).from_json(forged_text(document))
    with pytest.raises(IncomparableModelError, match=r"Python 3\.99\.1"):
        elsewhere.verify(model)
    assert not elsewhere.verify(LogisticRegression().fit(X, Y))  # holds no code of a user


def test_versions_of_the_libraries_that_predict_are_stated() -> None:
    table = MetricFrame(metrics=accuracy_score, y_true=Y, y_pred=Y, sensitive_features=GROUPS)
    assert "fairlearn" not in certify(rule(first)).library_versions
    assert certify(rule(enclosing(table))).library_versions["fairlearn"]


def test_predicting_changes_no_digest() -> None:
    models = [net(), trained(), trained("fairdp"), rule(first), KNeighborsClassifier(3).fit(X, Y)]
    for model in models:
        before = state_digest(model)
        model.predict(X)
        assert state_digest(model) == before
