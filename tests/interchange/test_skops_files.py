"""Estimators written by skops come back as they were, and nothing else comes with them."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from skops import io
from skops.io.exceptions import UntrustedTypesFoundException
from torch import nn

from skfairdp import DPSGDClassifier, certify
from skfairdp.interchange import load_skops, save_skops
from tests.common.roster import EVERY, once, people

# Subclasses that the tests bring along, as users would.
HALVES = "tests.common.halves."


# One of each way to hold a model; the others are read back among the slow tests.
SOON = {"DP-SGD", "FairDP, five heads that vote", "fair path", "FM-Smooth", "FairPATE", "table"}


@pytest.mark.parametrize(
    "name", [n if n in SOON else pytest.param(n, marks=pytest.mark.slow) for n in EVERY]
)
def test_every_estimator_comes_back_with_its_weights(name: str, tmp_path: Path) -> None:
    model = once(name)
    save_skops(model, tmp_path / "model.skops")
    own = [t for t in io.get_untrusted_types(file=tmp_path / "model.skops") if HALVES in t]
    back = load_skops(tmp_path / "model.skops", trusted=own)
    assert type(back) is type(model)
    assert back.get_params().keys() == model.get_params().keys()
    for key, value in vars(model).items():
        if isinstance(value, np.ndarray):
            np.testing.assert_array_equal(getattr(back, key), value)
        if isinstance(value, nn.Module):
            loaded = getattr(back, key).state_dict()
            assert all((loaded[k] == v).all() for k, v in value.state_dict().items())


def test_a_certificate_verifies_the_model_that_was_read(tmp_path: Path) -> None:
    X, y, groups = people()
    model = once("DP-SGD")
    certificate = certify(model, X, y, sensitive_features=groups, holdout="public")
    save_skops(model, tmp_path / "model.skops")
    back = load_skops(tmp_path / "model.skops")
    assert certificate.verify(back)
    np.testing.assert_array_equal(back.predict_proba(X), model.predict_proba(X))
    next(back.module_.parameters()).data += 1.0
    assert not certificate.verify(back)


class Stranger:
    """A type that nobody trusts."""


@pytest.mark.parametrize("stranger", [Stranger(), np.testing.assert_equal])
def test_a_file_with_other_types_is_refused(stranger: Any, tmp_path: Path) -> None:
    save_skops(DPSGDClassifier(epsilon=1.0, net=stranger), tmp_path / "model.skops")
    with pytest.raises(UntrustedTypesFoundException, match="Untrusted types"):
        load_skops(tmp_path / "model.skops")


@pytest.mark.parametrize("function", ["warn_user", "no_such_name"])
def test_functions_of_the_package_are_not_trusted(function: str, tmp_path: Path) -> None:
    from skfairdp import exceptions

    file = tmp_path / "model.skops"
    save_skops(DPSGDClassifier(epsilon=1.0, net=exceptions.warn_user), file)
    if function == "no_such_name":
        with zipfile.ZipFile(file) as packed:
            schema = packed.read("schema.json").replace(b"warn_user", b"no_such_name")
        with zipfile.ZipFile(file, "w") as packed:
            packed.writestr("schema.json", schema)
    with pytest.raises(UntrustedTypesFoundException, match=function):
        load_skops(file)


@pytest.mark.parametrize("kind", ["ConstructorFromReduceNode", "SetNode", "TypeNode", "MethodNode"])
def test_reading_calls_no_class_and_hands_out_no_method(kind: str, tmp_path: Path) -> None:
    # The store of a monitor makes a file at the place that it is told.
    file, planted = tmp_path / "model.skops", tmp_path / "planted"
    save_skops(DPSGDClassifier(epsilon=1.0, net="here"), file)
    with zipfile.ZipFile(file) as packed:
        schema = json.loads(packed.read("schema.json"))
    texts = [
        {"__class__": "str", "__module__": "builtins", "__loader__": "JsonNode", "content": text}
        for text in (json.dumps(str(planted)), "{}")
    ]
    content: Any = {"__class__": "tuple", "__module__": "builtins", "__loader__": "TupleNode"}
    content |= {"content": texts}
    store = {"__class__": "FileStore", "__module__": "skfairdp.monitoring.store"}
    if kind == "SetNode":
        content = texts[:1]
    if kind == "MethodNode":
        content = {"func": "change", "obj": store | {"__loader__": "ObjectNode"}}
    schema["content"]["content"]["net"] = store | {"__loader__": kind, "content": content}
    with zipfile.ZipFile(file, "w") as packed:
        packed.writestr("schema.json", json.dumps(schema))
    with pytest.raises(UntrustedTypesFoundException, match="FileStore"):
        load_skops(file)
    assert not planted.exists()


def test_a_net_may_name_the_class_of_its_layers(tmp_path: Path) -> None:
    save_skops(DPSGDClassifier(epsilon=1.0, net=nn.Linear), tmp_path / "model.skops")
    assert load_skops(tmp_path / "model.skops").net is nn.Linear
