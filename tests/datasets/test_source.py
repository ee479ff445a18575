"""Tests of the sources of rows, and of the message where no source has them."""

from __future__ import annotations

from urllib.error import URLError

import pandas as pd
import pytest

import skfairdp.datasets
import skfairdp.datasets.source as source
from skfairdp.datasets import (
    fetch_abalone,
    fetch_adult,
    fetch_bank,
    fetch_compas,
    fetch_default_credit,
    fetch_diabetes130,
    fetch_hsls,
    fetch_law_school,
    fetch_oulad,
    fetch_utkface,
)

ALL = [
    (fetch_abalone, "abalone.csv.gz"),
    (fetch_adult, "adult.csv.gz"),
    (fetch_bank, "bank_full.csv.gz"),
    (fetch_compas, "compas.csv.gz"),
    (fetch_default_credit, "default_ccc.csv.gz"),
    (fetch_diabetes130, "diabetes130.csv.gz"),
    (fetch_hsls, "hsls_dropout.csv.gz"),
    (fetch_law_school, "law_school_clean.csv.gz"),
    (fetch_oulad, "oulad.csv.gz"),
    (fetch_utkface, "utkface48.npz"),
]
NOT_ON_OPENML = (fetch_compas, fetch_hsls, fetch_law_school, fetch_oulad, fetch_utkface)


def test_every_loader_is_under_these_checks():
    loaders = {name for name in skfairdp.datasets.__all__ if name.startswith("fetch_")}
    assert {fetch.__name__ for fetch, _ in ALL} == loaders


@pytest.fixture(autouse=True)
def without_network_and_environment(monkeypatch):
    def unreachable(**kwargs):
        raise URLError("no network in tests")

    monkeypatch.setattr(source, "fetch_openml", unreachable)
    monkeypatch.delenv("SKFAIRDP_DATA", raising=False)


@pytest.mark.parametrize(("fetch", "name"), ALL)
def test_error_says_which_file_where_to_put_it_and_where_to_get_it(fetch, name):
    with pytest.raises(FileNotFoundError) as error:
        fetch()
    for part in (name, "data_home=", "SKFAIRDP_DATA", "https://"):
        assert part in str(error.value)
    assert ("openml.org could not be read" in str(error.value)) == (fetch not in NOT_ON_OPENML)


@pytest.mark.parametrize(("fetch", "name"), ALL)
def test_named_folder_without_the_file_is_an_error_not_a_download(fetch, name, tmp_path):
    with pytest.raises(FileNotFoundError, match=name):
        fetch(data_home=tmp_path)


def test_download_can_be_forbidden(monkeypatch):
    asked = []
    monkeypatch.setattr(source, "fetch_openml", lambda **kwargs: asked.append(kwargs))
    with pytest.raises(FileNotFoundError):
        fetch_adult(download_if_missing=False)
    assert asked == []


def test_another_table_of_the_same_name_is_refused(tmp_path):
    pd.DataFrame({"age": [1]}).to_csv(tmp_path / "adult.csv.gz", index=False)
    with pytest.raises(ValueError, match=r"lacks the columns.*get it again"):
        fetch_adult(data_home=tmp_path)


def test_checksum_is_compared_on_request(tmp_path):
    pd.DataFrame({"age": [1]}).to_csv(tmp_path / "adult.csv.gz", index=False)
    with pytest.raises(ValueError, match=r"SHA-256 .* expected ae0655a6"):
        fetch_adult(data_home=tmp_path, verify=True)


@pytest.mark.parametrize(
    ("fetch", "arguments"),
    [
        (fetch_abalone, {"subset": "infants"}),
        (fetch_bank, {"subset": "small"}),
        (fetch_bank, {"age_groups": 4}),
        (fetch_utkface, {"target": "race"}),
        (fetch_utkface, {"pixel_range": (1, 0)}),
    ],
)
def test_unknown_choice_is_named_with_the_allowed_ones(fetch, arguments):
    with pytest.raises(ValueError, match=rf"{next(iter(arguments))} is .*Allowed"):
        fetch(**arguments)
