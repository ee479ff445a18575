"""Additive models as ONNX files: the same bins, sums and decisions, with all of their costs."""

from __future__ import annotations

import json
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pandas as pd
import pytest
from onnx.reference import ReferenceEvaluator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skfairdp import DPAdditiveClassifier, DPAdditiveRegressor, PrivateTableEncoder, certify
from skfairdp.interchange import save_onnx
from skfairdp.preprocessing import PublicBinner
from tests.common.roster import once, people


def run(path: Path, **inputs: Any) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Outputs of a file by name, and its metadata; by onnxruntime too, where it is installed."""
    file = onnx.load(path)
    with np.errstate(over="ignore"):
        found = ReferenceEvaluator(file).run(None, inputs)
    names = [output.name for output in file.graph.output]
    if find_spec("onnxruntime") is not None:
        runtime = import_module("onnxruntime").InferenceSession(path)
        for name, first, second in zip(names, found, runtime.run(None, inputs), strict=True):
            exact = name != "probabilities"
            np.testing.assert_allclose(first, second, rtol=0.0 if exact else 1e-14, strict=True)
    facts = {entry.key: entry.value for entry in file.metadata_props}
    return dict(zip(names, found, strict=True)), facts


def numbers_around(model: Any, n: int = 400) -> np.ndarray:
    """Rows with values on, just below and between the edges, beyond them, and missing ones."""
    rng = np.random.default_rng(0)
    columns = []
    for _, level in model.levels_:
        edges = np.array(level.edges)
        near = [edges, np.nextafter(edges, -np.inf), rng.uniform(-9, 9, 50)]
        values = np.concatenate([*near, [np.nan, np.inf, -np.inf, -0.0, 1e300]])
        columns.append(rng.choice(values, n))
    return np.column_stack(columns)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("additive, pairs", marks=pytest.mark.slow),
        pytest.param("additive, costs", marks=pytest.mark.slow),
        "additive",
    ],
)
def test_classes_are_those_of_the_model_to_the_last_bit_of_the_score(
    name: str, tmp_path: Path
) -> None:
    model = once(name)
    save_onnx(model, tmp_path / "model.onnx")
    rows = numbers_around(model)
    found, facts = run(tmp_path / "model.onnx", X=rows)
    assert np.array_equal(model.classes_[found["place"]], model.predict(rows))
    np.testing.assert_allclose(found["probabilities"], model.predict_proba(rows), rtol=1e-14)
    parts = model.explain(rows)
    assert np.array_equal(found["contributions"], parts.to_numpy())
    assert json.loads(facts["columns"]) == {"X": [name for name, _ in model.levels_]}
    assert json.loads(facts["classes"]) == model.classes_.tolist()
    assert facts["privacy"] == certify(model).sentence


@pytest.mark.slow
def test_pairs_add_up_in_the_order_of_the_model(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(20_000, 3))
    y = (X[:, 0] > 0.5) ^ (X[:, 1] > 0.5)
    model = DPAdditiveClassifier((0, 1), pairs=3, epsilon=8.0, progress=False).fit(X, y)
    assert model.pairs_
    save_onnx(model, tmp_path / "model.onnx")
    rows = numbers_around(model)
    found, _ = run(tmp_path / "model.onnx", X=rows)
    assert np.array_equal(model.classes_[found["place"]], model.predict(rows))
    assert np.array_equal(found["contributions"], model.explain(rows).to_numpy())


@pytest.mark.slow
def test_numbers_are_those_of_the_regressor_to_the_last_bit(tmp_path: Path) -> None:
    X, _, _ = people()
    model = DPAdditiveRegressor((-6, 6), target_bounds=(-2, 5), n_bins=8, epsilon=20.0)
    model.fit(X, 3 * X[:, 0])
    save_onnx(model, tmp_path / "model.onnx")
    rows = numbers_around(model)
    found, facts = run(tmp_path / "model.onnx", X=rows)
    assert np.array_equal(found["prediction"], model.predict(rows))
    assert {-2.0, 5.0} & {*found["prediction"]}  # some were clipped
    assert json.loads(facts["target_bounds"]) == [-2.0, 5.0]


def flats(n: int = 3000) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(0)
    city = rng.choice(["Oslo", "Bonn", "Bern"], n).astype(object)
    city[::50] = None
    size, rooms = rng.uniform(20, 120, n), rng.choice([1.0, 2.0, 3.0], n)
    table = pd.DataFrame({"city": city, "size": size, "rooms": rooms})
    table.loc[::40, "size"] = np.nan
    return table, (table["city"] == "Oslo") ^ (table["size"] > 70)


def inputs_of(table: pd.DataFrame, columns: dict[str, list[str]]) -> dict[str, np.ndarray]:
    """Both inputs of a file, as the metadata name their columns."""
    texts = table[columns["texts"]].astype(object).fillna("")
    return {"X": table[columns["X"]].to_numpy(dtype=float), "texts": texts.to_numpy(dtype=str)}


@pytest.mark.slow
@pytest.mark.parametrize("step", ["declared", "binner", "encoder"])
def test_texts_numbers_as_categories_and_missing_values_are_those_of_the_model(
    step: str, tmp_path: Path
) -> None:
    table, y = flats()
    bounds, categories = {"size": (0, 150)}, {"city": ["Bonn", "Oslo"], "rooms": [3, 1]}
    model: Any = DPAdditiveClassifier(epsilon=8.0, progress=False)
    if step == "declared":
        model.set_params(bounds=bounds, categories=categories)
    elif step == "binner":
        model = make_pipeline(PublicBinner(bounds, categories), model)
    else:
        model = make_pipeline(PrivateTableEncoder(epsilon=2.0), model)
    model.fit(table, y)
    certificate = certify(model)
    save_onnx(model, tmp_path / "model.onnx", certificate=certificate)
    unseen, _ = flats(500)
    unseen.loc[:20, "city"] = "Rome"
    unseen.loc[5:30, "rooms"] = 7
    unseen.loc[:3, "size"] = [-np.inf, np.inf, 1e30, -0.0]
    facts = run_facts(tmp_path / "model.onnx")
    columns = json.loads(facts["columns"])
    found, _ = run(tmp_path / "model.onnx", **inputs_of(unseen, columns))
    assert np.array_equal(model.classes_[found["place"]], model.predict(unseen))
    np.testing.assert_allclose(found["probabilities"], model.predict_proba(unseen), rtol=1e-14)
    assert len({*found["place"]}) == 2
    # The cost of the encoder is in the file.
    assert facts["privacy"] == certificate.sentence
    assert (certificate.privacy.epsilon > 8.1) == (step == "encoder")
    assert columns == {"texts": ["city"], "X": ["size", "rooms"]} or step == "encoder"


def run_facts(path: Path) -> dict[str, str]:
    return {entry.key: entry.value for entry in onnx.load(path).metadata_props}


@pytest.mark.slow
def test_what_the_file_cannot_repeat_is_refused(tmp_path: Path) -> None:
    table, y = flats(600)
    quick = {"max_epochs": 1, "progress": False, "delta": 1e-4}
    levels = PublicBinner({"size": (0, 150)}, {"city": ["Oslo"], "rooms": [1]}).fit(table)
    alone = DPAdditiveClassifier(**quick).fit(levels.transform(table), y)
    with pytest.raises(TypeError, match="Pass the Pipeline of both"):
        save_onnx(alone, tmp_path / "model.onnx")
    same = FunctionTransformer()
    with pytest.raises(TypeError, match="one PublicBinner or PrivateTableEncoder"):
        save_onnx(make_pipeline(same, levels, alone), tmp_path / "model.onnx")

    class Lenient(DPAdditiveClassifier):
        def predict(self, X):
            return self.classes_[(self.predict_proba(X)[:, 1] > 0.1).astype(int)]

    declared = {"bounds": {"size": (0, 150)}, "categories": {"city": ["Oslo"], "rooms": [1]}}
    lenient = Lenient(**declared, **quick).fit(table, y)
    with pytest.raises(TypeError, match="methods of its own"):
        save_onnx(lenient, tmp_path / "model.onnx")
    for city, message in (["Oslo", ""], "empty text"), (["Oslo", 3], "neither all texts"):
        mixed = {**declared, "categories": {"city": city, "rooms": [1]}}
        model = DPAdditiveClassifier(**mixed, **quick).fit(table, y)
        with pytest.raises(ValueError, match=message):
            save_onnx(model, tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())
