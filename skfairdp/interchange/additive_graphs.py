"""Graphs of additive models: bins, one table a column, and a sum, all in float64."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from skfairdp.additive import DPAdditiveClassifier, DPAdditiveRegressor
from skfairdp.additive.model import AdditiveModel
from skfairdp.preprocessing import PrivateTableEncoder, PublicBinner
from skfairdp.preprocessing.levels import OTHER, Categories, Intervals, Levels

if TYPE_CHECKING:
    from onnx import ModelProto

_Value = tuple[str, int, list[int | str]]  # name, type and shape of an input or output
# Versions of the operators, as old as all that are used here.
_OPERATORS = (("", 17), ("ai.onnx.ml", 3))
_FILE_FORMAT = 8
# What decides about a row: a class that answers by its own methods is another model.
_DECIDES = (
    "_chances",
    "_known",
    "_scores",
    "_sums_of_parts",
    "_table",
    "_tables",
    "explain",
    "predict",
    "predict_proba",
)


def additive_model(model: Any) -> Any:
    """Return the additive model of an estimator or a Pipeline; None for any other model.

    Raises TypeError: the steps before it, or its own methods, are none that the file can repeat.
    """
    steps = [step for _, step in model.steps] if isinstance(model, Pipeline) else [model]
    *before, last = steps
    if not isinstance(last, AdditiveModel):
        return None
    check_is_fitted(last)
    kinds = DPAdditiveClassifier, DPAdditiveRegressor
    (own,) = [kind for kind in kinds if isinstance(last, kind)] or (None,)
    if any(getattr(type(last), n, None) is not getattr(own, n, None) for n in _DECIDES):
        raise TypeError(
            f"'model' is a {type(last).__name__}, which answers by methods of its own. Pass a "
            "DPAdditiveClassifier or a DPAdditiveRegressor."
        )
    if [type(step) for step in before] not in ([], [PublicBinner], [PrivateTableEncoder]):
        raise TypeError(
            "Steps of 'model' before the additive model are not part of the file, but for one "
            "PublicBinner or PrivateTableEncoder. Pass a Pipeline of that and the model."
        )
    if not before and not last._declares():
        raise TypeError(
            "'model' takes the levels of a step before it, which may have a cost of its own. Pass "
            "the Pipeline of both."
        )
    return last


def additive_graph(model: Any) -> ModelProto:
    """Write the answers of a fitted additive model as a graph."""
    from onnx import TensorProto, checker, helper

    graph = _Graph()
    codes, places = [], {"X": 0, "texts": 0}
    for name, level in model.levels_:
        source = _source(name, level)
        codes.append(graph.level_of(level, graph.column(source, places[source])))
        places[source] += 1
    intercept, tables, maps = model._tables()
    # The intercept has as many rows as the first column.
    parts = [graph.looked_up(np.full(model.levels_[0][1].count + 1, intercept), codes[0])]
    parts += [graph.looked_up(table, code) for table, code in zip(tables, codes, strict=True)]
    for pair, values in zip(model._design.pairs, maps, strict=True):
        first, second = (
            graph.looked_up(np.array(cells), codes[place])
            for cells, place in zip(pair.cells, pair.columns, strict=True)
        )
        line = graph.node("Mul", first, graph.constant(pair.shape[1]))
        parts.append(graph.looked_up(values.ravel(), graph.node("Add", line, second)))
    # In the order of `AdditiveModel._sums_of_parts`, so that sums are equal to the last bit.
    score = parts[0]
    for part in parts[1:]:
        score = graph.node("Add", score, part)
    outputs = _answers(graph, model, score)
    one = graph.constant([1])
    columns = [graph.node("Unsqueeze", part, one) for part in parts]
    graph.node("Concat", *columns, into="contributions", axis=1)
    outputs.append(("contributions", TensorProto.DOUBLE, ["n", len(parts)]))
    kinds = {"X": TensorProto.DOUBLE, "texts": TensorProto.STRING}
    inputs: list[_Value] = [(name, kinds[name], ["n", n]) for name, n in places.items() if n]
    made = helper.make_graph(
        graph.nodes,
        type(model).__name__,
        [helper.make_tensor_value_info(name, kind, shape) for name, kind, shape in inputs],
        [helper.make_tensor_value_info(name, kind, shape) for name, kind, shape in outputs],
        initializer=graph.constants,
    )
    operators = [helper.make_opsetid(*each) for each in _OPERATORS]
    file = helper.make_model(
        made, opset_imports=operators, ir_version=_FILE_FORMAT, producer_name="skfairdp"
    )
    checker.check_model(file, full_check=True)
    return file


def columns_of_inputs(model: Any) -> dict[str, str]:
    """Names of the columns of each input, as JSON."""
    named: dict[str, list[str]] = {"X": [], "texts": []}
    for name, level in model.levels_:
        named[_source(name, level)].append(name)
    return {"columns": json.dumps({key: names for key, names in named.items() if names})}


def _source(name: str, level: Levels) -> str:
    """Input of a column: numbers, or texts."""
    if isinstance(level, Intervals):
        return "X"
    known = _listed(level)
    if all(isinstance(value, str) for value in known):
        if "" in known:
            raise ValueError(
                f"Column {name!r} has the empty text as a category, which stands for a missing "
                "value in ONNX files. Give that category another name."
            )
        return "texts"
    numbers = bool | int | float | np.bool_ | np.number
    if all(isinstance(value, numbers) and float(value) == value for value in known):
        return "X"
    raise ValueError(
        f"Column {name!r} has categories that are neither all texts nor all numbers of float64, "
        "which no column of an ONNX file can hold. Turn them into texts before 'fit'."
    )


def _listed(level: Categories) -> list[Any]:
    """Categories without the level of all others."""
    return [value for value in level.known if value != OTHER]


def _answers(graph: _Graph, model: Any, score: str) -> list[_Value]:
    """Add the outputs of a score; return name, type and shape of each."""
    from onnx import TensorProto

    if isinstance(model, DPAdditiveRegressor):
        bounds = (graph.constant(bound, np.float64) for bound in model.target_bounds_)
        graph.node("Clip", score, *bounds, into="prediction")
        return [("prediction", TensorProto.DOUBLE, ["n"])]
    limit = graph.constant(max(model._limit, 0.5), np.float64)
    unit, axis = graph.constant(1.0, np.float64), graph.constant([1])
    sides = []
    for signed in (score, graph.node("Neg", score)):  # expit(-score), then expit(score)
        beyond = graph.node("Add", unit, graph.node("Exp", signed))
        sides.append(graph.node("Min", graph.node("Div", unit, beyond), limit))
    total = graph.node("Add", *sides)
    first, second = (graph.node("Div", side, total) for side in sides)
    columns = (graph.node("Unsqueeze", side, axis) for side in (first, second))
    graph.node("Concat", *columns, into="probabilities", axis=1)
    threshold = vars(model).get("threshold_")
    least = first if threshold is None else graph.constant(threshold, np.float64)
    decided = graph.node("Greater", second, least)
    graph.node("Cast", decided, into="place", to=TensorProto.INT64)
    return [("place", TensorProto.INT64, ["n"]), ("probabilities", TensorProto.DOUBLE, ["n", 2])]


class _Graph:
    """Nodes and constants of a graph, with names of their own."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self._numbers = count()

    def node(self, kind: str, *inputs: str, into: str = "", domain: str = "", **given: Any) -> str:
        """Add a node, and return the name of its output."""
        from onnx import helper

        into = into or f"value{next(self._numbers)}"
        self.nodes.append(helper.make_node(kind, [*inputs], [into], domain=domain, **given))
        return into

    def constant(self, value: Any, dtype: type = np.int64) -> str:
        """Add a constant, and return its name."""
        from onnx import numpy_helper

        name = f"constant{next(self._numbers)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value, dtype=dtype), name))
        return name

    def column(self, source: str, place: int) -> str:
        """One column of an input, shape (n,)."""
        return self.node("Gather", source, self.constant(place), axis=1)

    def looked_up(self, table: np.ndarray, codes: str) -> str:
        """Entry of a table for each code."""
        return self.node("Gather", self.constant(table, table.dtype.type), codes)

    def level_of(self, level: Levels, values: str) -> str:
        """Place of each value's level, a missing value last."""
        if isinstance(level, Intervals):
            return self._of_numbers(values, self._number_of(values, level.edges), level)
        known = _listed(level)
        other = level.known.index(OTHER) if OTHER in level.known else len(known)
        codes = [code for code, value in enumerate(level.known) if value != OTHER]
        if all(isinstance(value, str) for value in known):
            return self.node(
                "LabelEncoder",
                values,
                domain="ai.onnx.ml",
                keys_strings=[*known, ""],
                values_int64s=[*codes, level.count],
                default_int64=other,
            )
        found = self.constant(other)
        for code, value in zip(codes, known, strict=True):
            same = self.node("Equal", values, self.constant(float(value), np.float64))
            found = self.node("Where", same, self.constant(code), found)
        return self._of_numbers(values, found, level)

    def _number_of(self, values: str, edges: Sequence[float]) -> str:
        """Number of edges that a value reaches; NaN reaches none."""
        from onnx import TensorProto

        axis = self.constant([1])
        # A graph has no empty list of edges; nothing reaches NaN.
        ends = self.constant(edges or [np.nan], np.float64)
        reached = self.node("GreaterOrEqual", self.node("Unsqueeze", values, axis), ends)
        ones = self.node("Cast", reached, to=TensorProto.INT64)
        return self.node("ReduceSum", ones, axis, keepdims=0)

    def _of_numbers(self, values: str, codes: str, level: Levels) -> str:
        """Codes, but for NaN, which is a missing value."""
        known = self.node("Equal", values, values)
        return self.node("Where", known, codes, self.constant(level.count))
