"""Nets as ONNX files answer as in Python, and name their certificate."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx.reference import ReferenceEvaluator
from skorch import NeuralNet
from torch import nn

import skfairdp
from skfairdp import DPSGDClassifier, DPSGDRegressor, FairPathRegressor, certify
from skfairdp.exceptions import PrivacyWarning
from skfairdp.interchange import save_onnx
from tests.common.roster import once, people


def unreadable(X: np.ndarray) -> np.ndarray:
    """Rows that an estimator refuses, each by one value."""
    rows = X[:4].astype(np.float32)
    rows[np.arange(4), np.arange(4) % rows.shape[1]] = [np.nan, np.inf, -np.inf, 3e38]
    return rows


@pytest.mark.slow  # torch's exporter takes seconds
def test_a_threshold_for_stated_costs_is_kept(tmp_path: Path) -> None:
    X, y, _ = people()
    model = DPSGDClassifier(max_epochs=2, progress=False, costs={"no": 1.0, "yes": 9.0}).fit(X, y)
    save_onnx(model, tmp_path / "model.onnx")
    places, found = ReferenceEvaluator(onnx.load(tmp_path / "model.onnx")).run(
        None, {"X": X.astype(np.float32)}
    )
    far = np.abs(model.decision_function(X)) > 1e-5  # from the threshold
    assert far.mean() > 0.9
    np.testing.assert_array_equal(model.classes_[places][far], model.predict(X)[far])
    assert (places != found.argmax(axis=1)).mean() > 0.05


@pytest.mark.slow  # torch's exporter takes seconds
@pytest.mark.parametrize("name", ["DP-SGD", "fair path"])
def test_answers_are_those_of_the_estimator(name: str, tmp_path: Path) -> None:
    X, y, groups = people()
    model = once(name)
    certificate = certify(model, X, y, sensitive_features=groups, holdout="public")
    save_onnx(model, tmp_path / "model.onnx", certificate=certificate)
    file = onnx.load(tmp_path / "model.onnx")
    places, found = ReferenceEvaluator(file).run(None, {"X": X.astype(np.float32)})
    np.testing.assert_allclose(found, model.predict_proba(X), rtol=0, atol=1e-5)
    far = np.abs(model.decision_function(X)) > 1e-5  # from the threshold
    assert far.mean() > 0.9
    np.testing.assert_array_equal(model.classes_[places][far], model.predict(X)[far])
    facts = {entry.key: entry.value for entry in file.metadata_props}
    assert json.loads(facts["classes"]) == model.classes_.tolist()
    assert facts["model_digest"] == certificate.model_digest
    assert facts["certificate"] == certificate.to_json()
    assert facts["privacy"] == certificate.sentence
    # The evaluator's sigmoid computes both of its branches.
    with np.errstate(over="ignore", invalid="ignore"):
        places, found = ReferenceEvaluator(file).run(None, {"X": unreadable(X)})
    assert (places == len(model.classes_)).all()
    assert np.isnan(found).all()
    # Nothing tells where on this machine the code lies that made it.
    content = (tmp_path / "model.onnx").read_bytes()
    assert str(Path(torch.__file__).parent).encode() not in content
    assert str(Path(skfairdp.__file__).parent).encode() not in content


@pytest.mark.slow  # torch's exporter takes seconds
def test_a_path_with_a_threshold_answers_as_the_estimator(tmp_path: Path) -> None:
    X, y, groups = people()
    settings = {"tolerance": 0.9, "epsilon": 50.0, "max_epochs": 4, "progress": False}
    model = skfairdp.FairPathClassifier(threshold=0.2, **settings)
    model.fit(X, y, sensitive_features=groups)
    save_onnx(model, tmp_path / "model.onnx")
    file = onnx.load(tmp_path / "model.onnx")
    places, found = ReferenceEvaluator(file).run(None, {"X": X.astype(np.float32)})
    np.testing.assert_allclose(found, model.predict_proba(X), rtol=0, atol=1e-5)
    far = np.abs(model.decision_function(X)) > 1e-5
    np.testing.assert_array_equal(model.classes_[places][far], model.predict(X)[far])
    assert (places != (found[:, 1] > 0.5)).mean() > 0.1


@pytest.mark.slow  # torch's exporter takes seconds
@pytest.mark.parametrize("kind", [DPSGDRegressor, FairPathRegressor])
@pytest.mark.filterwarnings("ignore:The tables do not show")
def test_numbers_are_those_of_the_regressor_in_units_of_the_target(
    kind: type, tmp_path: Path
) -> None:
    X, _, groups = people()
    X[:, 3] += 4.0 * (groups == "b")  # so that the group is expected from the rows, and matters
    model = kind(target_bounds=(-20.0, 60.0), epsilon=100.0, max_epochs=10, progress=False)
    model.fit(X, 20.0 + 5.0 * X[:, 0] + 5.0 * X[:, 3], sensitive_features=groups)
    assert kind is DPSGDRegressor or model.multiplier_ > 0.0
    save_onnx(model, tmp_path / "model.onnx")
    file = onnx.load(tmp_path / "model.onnx")
    (found,) = ReferenceEvaluator(file).run(None, {"X": X.astype(np.float32)})
    np.testing.assert_allclose(found, model.predict(X), rtol=0, atol=1e-3)
    with np.errstate(over="ignore", invalid="ignore"):
        (found,) = ReferenceEvaluator(file).run(None, {"X": unreadable(X)})
    assert np.isnan(found).all()
    facts = {entry.key: entry.value for entry in file.metadata_props}
    assert json.loads(facts["target_bounds"]) == [-20.0, 60.0]
    assert "classes" not in facts


@pytest.mark.slow  # torch's exporter takes seconds
def test_a_model_without_noise_says_so(tmp_path: Path) -> None:
    X, y, _ = people()
    with pytest.warns(PrivacyWarning, match="epsilon=inf"):
        model = DPSGDClassifier(epsilon=math.inf, max_epochs=1, progress=False).fit(X, y)
    save_onnx(model, tmp_path / "model.onnx")
    facts = {e.key: e.value for e in onnx.load(tmp_path / "model.onnx").metadata_props}
    assert "not protected (trained with epsilon=inf)" in facts["privacy"]
    assert facts["model_digest"] == certify(model).model_digest


def test_the_certificate_of_another_model_is_refused(tmp_path: Path) -> None:
    X, y, groups = people()
    certificate = certify(once("fair path"), X, y, sensitive_features=groups, holdout="public")
    with pytest.raises(ValueError, match="'certificate' is not that of 'model'"):
        save_onnx(once("DP-SGD"), tmp_path / "model.onnx", certificate=certificate)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["FairDP, five heads that vote", "FM", "FairPATE"])
def test_models_of_several_nets_or_none_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="not those of one net"):
        save_onnx(once(name), tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


@pytest.mark.filterwarnings("ignore:The tables do not show")
def test_a_regressor_that_needs_groups_is_refused(tmp_path: Path) -> None:
    X, _, groups = people()
    settings = {"target_bounds": (0.0, 1.0), "max_epochs": 1, "progress": False}
    model = FairPathRegressor(group_at_predict="raw", **settings)
    model.fit(X, X[:, 0].clip(0.0, 1.0), sensitive_features=groups)
    with pytest.raises(TypeError, match="predicts with the groups"):
        save_onnx(model, tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


def test_a_class_that_decides_by_itself_is_refused(tmp_path: Path) -> None:
    class Lenient(DPSGDClassifier):
        def predict(self, X):
            return self.classes_[(self.predict_proba(X)[:, 1] > 0.1).astype(int)]

    X, y, _ = people()
    model = Lenient(max_epochs=1, progress=False).fit(X, y)
    with pytest.raises(TypeError, match="not those of one net"):
        save_onnx(model, tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


class Draws(nn.Linear):
    def forward(self, X: torch.Tensor) -> torch.Tensor:
        return super().forward(X) + torch.randn(len(X), 1)


class Counts(nn.Linear):
    def forward(self, X: torch.Tensor) -> torch.Tensor:
        return super().forward(X) * (1.0 if len(X) < 100 else -1.0)


class OneAxis(nn.Linear):
    def forward(self, X: torch.Tensor) -> torch.Tensor:
        return super().forward(X).squeeze(-1)


class NoAxisOfOneRow(nn.Linear):
    def forward(self, X: torch.Tensor) -> torch.Tensor:
        return super().forward(X).squeeze()


@pytest.mark.slow  # torch's exporter takes seconds
def test_a_net_that_returns_one_number_a_row_answers_as_the_estimator(tmp_path: Path) -> None:
    X, y, _ = people()
    net = NeuralNet(
        OneAxis, nn.BCEWithLogitsLoss, module__in_features=X.shape[1], module__out_features=1
    )
    model = DPSGDClassifier(net=net, max_epochs=1, progress=False).fit(X, y)
    save_onnx(model, tmp_path / "model.onnx")
    run = ReferenceEvaluator(onnx.load(tmp_path / "model.onnx")).run
    for rows in (X, X[:1]):
        _, found = run(None, {"X": rows.astype(np.float32)})
        np.testing.assert_allclose(found, model.predict_proba(rows), rtol=0, atol=1e-5)


@pytest.mark.slow  # torch's exporter takes seconds
@pytest.mark.parametrize("kind", [Draws, Counts, NoAxisOfOneRow])
def test_a_file_that_answers_otherwise_than_the_model_is_refused(
    kind: type, tmp_path: Path
) -> None:
    X, y, _ = people()
    net = NeuralNet(
        kind, nn.BCEWithLogitsLoss, module__in_features=X.shape[1], module__out_features=1
    )
    model = DPSGDClassifier(net=net, max_epochs=1, progress=False).fit(X, y)
    with pytest.raises(ValueError, match="otherwise than 'model'"):
        save_onnx(model, tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


class OfImages(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(8, 2))


@pytest.mark.slow  # torch's exporter takes seconds
def test_a_net_of_images_is_refused(tmp_path: Path) -> None:
    net = NeuralNet(OfImages, nn.CrossEntropyLoss)
    rng = np.random.default_rng(0)
    images = rng.normal(size=(100, 1, 4, 4)).astype(np.float32)
    model = DPSGDClassifier(net=net, delta=1e-3, max_epochs=1, progress=False)
    model.fit(images, np.arange(100) % 2)
    with pytest.raises(ValueError, match="exporter does not take it"):
        save_onnx(model, tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())
