"""Tests that files written by version 0.1.0 are read with the same meaning and written alike."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest

from skfairdp import Certificate

STORED = Path(__file__).parent / "stored"
stored = pytest.mark.parametrize("name", ["public", "protected"])


@stored
def test_a_file_is_read_holds_and_is_written_alike(name: str) -> None:
    text = (STORED / f"{name}.json").read_text(encoding="utf-8")
    certificate = Certificate.from_json(text)
    assert certificate.sentence == json.loads(text)["sentence"]
    assert certificate.examine().holds
    assert not certificate.examine().missing
    assert certificate.to_json() == text


@stored
def test_a_pickle_is_read_as_the_file_is(name: str) -> None:
    certificate = pickle.loads((STORED / f"{name}.pickle").read_bytes())
    assert type(certificate) is Certificate
    assert certificate == Certificate.from_json((STORED / f"{name}.json").read_text("utf-8"))


@stored
def test_a_new_pickle_names_no_file_of_the_package(name: str) -> None:
    certificate = Certificate.from_json((STORED / f"{name}.json").read_text("utf-8"))
    again = pickle.dumps(certificate)
    assert pickle.loads(again) == certificate
    assert b"skfairdp.certificate.certificate" not in again
