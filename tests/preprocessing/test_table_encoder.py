"""Levels of any table, learned under a charged plan; hostile columns."""

from __future__ import annotations

import math
import pickle
import warnings
from datetime import date
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, PredefinedSplit
from sklearn.pipeline import make_pipeline

from skfairdp import DPAdditiveClassifier, DPSGDClassifier, PrivacyLedger, certify
from skfairdp.engine.table_release import TableRelease
from skfairdp.exceptions import PrivacyWarning, UtilityWarning
from skfairdp.model_selection import search_cost
from skfairdp.preprocessing import PrivateTableEncoder, PublicBinner, PublicScaler
from skfairdp.preprocessing.cells import read_cells
from skfairdp.preprocessing.levels import OTHER, Categories, Intervals, level_names
from skfairdp.preprocessing.table_levels import EDGES, N_CELLS, bins, divided
from tests.common.test_scikit_learn_checks import unexpected
from tests.stored import ArrayRows

N = 4000
RNG = np.random.default_rng(0)
TABLE = pd.DataFrame(
    {
        "age": RNG.integers(17, 91, N),
        "gain": np.where(RNG.random(N) < 0.9, 0.0, RNG.lognormal(8.0, 1.0, N)),
        "city": RNG.choice(["Oslo", "Bonn", "Rome"], N, p=[0.5, 0.3, 0.2]),
        "year": RNG.integers(1950, 2020, N),
        "member": RNG.random(N) < 0.5,
    }
)

EPSILON = 5.0


def levels(encoder: PrivateTableEncoder) -> dict:
    return dict(encoder.levels_)


@pytest.fixture(scope="module")
def fitted() -> PrivateTableEncoder:
    return PrivateTableEncoder(EPSILON).fit(TABLE)


def test_every_kind_of_column_gets_its_levels(fitted) -> None:
    found = levels(fitted)
    assert found["city"] == Categories(("Bonn", "Oslo", "Rome"))
    assert found["age"].count >= 20
    assert found["year"].count >= 20
    assert 0.0 < min(edge for edge in found["gain"].edges if edge > 0.0) < 1000.0  # zeros apart
    assert found["gain"].count >= 4
    assert 1.0 in found["member"].edges


def test_the_output_is_a_frame_of_levels_with_its_index(fitted) -> None:
    rows = TABLE.iloc[[5, 3]].assign(city=["Oslo", "Nowhere"], age=[np.nan, 30.0])
    table = fitted.transform(rows)
    assert list(table.index) == [5, 3]
    assert list(table.columns) == fitted.get_feature_names_out().tolist() == list(TABLE)
    assert table["city"].tolist() == ["Oslo", OTHER]
    assert table["age"].isna().tolist() == [True, False]
    assert 30.0 in table["age"].iloc[1]


@pytest.mark.parametrize("encoding", ["onehot", "thermometer"])
def test_numbers_for_other_nets(encoding: str) -> None:
    encoder = PrivateTableEncoder(EPSILON, encoding=encoding).fit(TABLE)
    encoded = encoder.transform(TABLE)
    assert encoded.shape == (N, len(encoder.get_feature_names_out()))
    assert set(np.unique(encoded)) == {0.0, 1.0}
    if encoding == "onehot":
        assert np.all(encoded.sum(axis=1) == TABLE.shape[1])
    DPSGDClassifier(max_epochs=1, progress=False).fit(encoded, TABLE["age"] > 40)


def test_arrays_are_encoded_as_frames_are() -> None:
    given = dict.fromkeys(("age", "gain"), "number")
    frame = PrivateTableEncoder(math.inf, columns=given).fit_transform(TABLE[["age", "gain"]])
    array = PrivateTableEncoder(math.inf, columns={0: "number", 1: "number"})
    table = array.fit_transform(TABLE[["age", "gain"]].to_numpy())
    assert list(table.columns) == ["x0", "x1"]
    assert table.set_axis(frame.columns, axis=1).equals(frame)


def test_the_plan_is_what_is_charged_and_speaks_of_removal(fitted) -> None:
    assert fitted.privacy_.epsilon <= EPSILON
    assert fitted.privacy_.adjacency == "add-remove"
    assert fitted.privacy_.event is not None
    failure = sum(segment.failure for segment in fitted.plan_.segments)
    assert failure == pytest.approx(0.5 * fitted.delta)
    assert str(N) not in repr(fitted.plan_)  # the number of rows is not public


def test_every_release_is_drawn_from_the_plan(monkeypatch) -> None:
    """The broken twin: a categories' release that is not made leaves something of the plan."""
    monkeypatch.setattr(TableRelease, "frequent", lambda *_: ["Oslo"])
    with pytest.raises(Exception, match="never released"):
        PrivateTableEncoder(EPSILON).fit(TABLE)


def test_no_text_of_one_row_becomes_a_category() -> None:
    names = [f"Zenobia {i}" for i in range(N)]
    table = TABLE.assign(city=names)
    encoder = PrivateTableEncoder(EPSILON).fit(table)
    assert levels(encoder)["city"] == Categories(())
    assert b"Zenobia" not in pickle.dumps(encoder)


def test_one_value_moves_no_edge_to_itself() -> None:
    """A huge value of one row is no edge, whatever the bins of the others."""
    for value in (1e300, math.inf, 123456.789):
        table = TABLE.assign(gain=[value, *TABLE["gain"][1:]])
        edges = levels(PrivateTableEncoder(1.0).fit(table))["gain"].edges
        assert all(edge < 1e5 for edge in edges)


HOSTILE = {
    "one value": np.full(N, 7),
    "all missing": np.full(N, np.nan),
    "all missing, objects": np.full(N, None),
    "nearly a million categories": np.array([f"{i:x} g" for i in range(N)]),
    "mixed types": np.array([1, "a", None, 2.5, b"x", True, (1, 2), [3]] * (N // 8), dtype=object),
    "infinite": np.where(np.arange(N) % 2, np.inf, -np.inf),
    "huge": np.where(np.arange(N) % 2, 1e300, -1e300),
    "negative zero": np.where(np.arange(N) % 2, 0.0, -0.0),
    "smallest": np.full(N, 5e-324),
    "whole numbers beyond the floats": np.array([10**400, -(10**400)] * (N // 2), dtype=object),
    "nullable": pd.array([1, None] * (N // 2), dtype="Int64"),
    "categorical": pd.Categorical(["a", "b"] * (N // 2), categories=["b", "c", "a"]),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_columns_are_treated_as_stated(case: str) -> None:
    # Before pandas 3.1 a Series without a dtype fails on such numbers by itself.
    dtype = object if case == "whole numbers beyond the floats" else None
    table = pd.DataFrame({"odd": pd.Series(list(HOSTILE[case]), dtype=dtype)})
    if case in ("nullable", "categorical"):
        table = pd.DataFrame({"odd": HOSTILE[case]})
    encoder = PrivateTableEncoder(EPSILON).fit(table)
    encoded = encoder.transform(table)["odd"]
    missing = {"all missing": N, "all missing, objects": N, "nullable": N // 2}.get(case)
    level = levels(encoder)["odd"]
    if missing is not None:
        assert encoded.isna().sum() == missing
    if case == "negative zero":
        assert encoded.nunique() == 1
    if case in ("infinite", "huge", "whole numbers beyond the floats"):
        assert encoded.nunique() == 2
    if case == "categorical":
        assert level == Categories(("a", "b"))
    if case in ("one value", "all missing", "nearly a million categories"):
        assert encoded.nunique() <= 1


def test_the_reading_of_a_cell_depends_on_no_other() -> None:
    column = pd.Series(
        [
            1,
            2,
            None,
            3.5,
            True,
            " 7 ",
            "n/a",
            "1e3",
            "TRUE",
            "1_0",
            "(1,234)",
            "1,234",
            "- 5",
            "12%",
        ],
        dtype=object,
    )
    whole = read_cells(column)
    for place in range(len(column)):
        alone = read_cells(column.iloc[[place]])
        assert np.array_equal(alone.numbers, whole.numbers[[place]], equal_nan=True)
        said = [
            cells.distinct[cells.texts[at]] if cells.texts[at] >= 0 else None
            for cells, at in ((alone, 0), (whole, place))
        ]
        assert said[0] == said[1]
    read = read_cells(pd.Series([1, 2]))
    other = read_cells(pd.Series(["1", "2", "n/a"]))
    assert np.array_equal(read.numbers, other.numbers[:2])


def test_one_text_does_not_turn_numbers_into_categories() -> None:
    texts = TABLE["age"].astype(str)
    texts[0] = "n/a"
    found = levels(PrivateTableEncoder(EPSILON).fit(TABLE.assign(age=texts)))["age"]
    assert isinstance(found, Intervals)
    assert found.count >= 20


@pytest.mark.parametrize(
    ("change", "columns", "match"),
    [
        ({"patient_nbr": 1}, {}, "patient_nbr.*identifiers"),
        ({"customerID": 1}, {}, "customerID.*identifiers"),
        ({"when": pd.Timedelta("1h")}, {}, "'when' has the dtype timedelta"),
        ({}, {"age": "numeric"}, "numeric"),
        ({}, {"weight": "number"}, "absent from X"),
    ],
)
def test_what_is_refused_is_refused_before_a_charge(tmp_path, change, columns, match) -> None:
    ledger = PrivacyLedger(tmp_path / "ledger.db", "people")
    encoder = PrivateTableEncoder(columns=columns or None, ledger=ledger)
    with pytest.raises(ValueError, match=match):
        encoder.fit(TABLE.assign(**change))
    assert ledger.entries() == ()


def test_identifiers_and_dropped_columns_are_not_looked_at() -> None:
    table = TABLE.assign(patient_nbr=range(N), note=pd.Timestamp("2020-01-01"))
    encoder = PrivateTableEncoder(
        EPSILON, id_columns=["patient_nbr"], columns={"note": "drop"}
    ).fit(table)
    assert set(levels(encoder)) == set(TABLE)
    for name in ("Unnamed: 0", "Unnamed: 0.1", "index", "ssn", "SocialSecurityNumber"):
        with pytest.raises(ValueError, match="names of identifiers"):
            PrivateTableEncoder(EPSILON).fit(TABLE.assign(**{name: range(N)}))


def test_negative_numbers_are_told_apart_as_positive_ones_are() -> None:
    table = pd.DataFrame({"owed": -TABLE["age"], "owned": TABLE["age"]})
    found = levels(PrivateTableEncoder(EPSILON).fit(table))
    assert min(found["owed"].count, found["owned"].count) >= 20


def test_dates_become_days_months_and_weekdays_and_each_is_read_by_itself() -> None:
    when = pd.Series(pd.date_range("1899-12-01", periods=N, freq="D"))
    texts = when.dt.strftime("%Y-%m-%d").astype(object)
    texts[:3] = ["1900-02-29", "n/a", None]
    table = pd.DataFrame({"dtype": when, "text": texts, "time": when.dt.tz_localize("UTC")})
    encoder = PrivateTableEncoder(EPSILON).fit(table)
    assert encoder.date_columns_ == ("dtype", "text", "time")
    found = encoder.transform(table)
    for name in table:
        days = levels(encoder)[f"{name} (days since 1970)"]
        assert len(days.edges) > 5
        shown = level_names(days.dtype(), f"{name} (days since 1970)")
        dates = [
            date.fromisoformat(one.removeprefix("< ")[:10]) for one in (shown[0], shown[-2][3:])
        ]
        whole = [math.ceil(edge) for edge in (days.edges[0], days.edges[-1])]
        assert [(day - date(1970, 1, 1)).days for day in dates] == whole
        for part, form in (("month", "%b"), ("weekday", "%a")):
            column = found[f"{name} ({part})"]
            assert (column[3:].astype(str) == when[3:].dt.strftime(form)).all()
    assert found.filter(like="text").iloc[:3].isna().all(axis=None)
    alone = encoder.transform(table.iloc[[9]])
    assert (alone.iloc[0].astype(str) == found.iloc[9].astype(str)).all()
    declared = dict.fromkeys(table, "date")
    known = PrivateTableEncoder(EPSILON, columns=declared).fit(table)
    assert len(known.plan_.segments) == 3  # no kind is counted
    assert {segment.failure for segment in known.plan_.segments} == {0.0}  # and no text


def test_a_pipeline_composes_events_under_one_relation() -> None:
    y = TABLE["age"] > 50
    model = make_pipeline(
        PrivateTableEncoder(0.5), DPAdditiveClassifier(max_epochs=3, progress=False)
    ).fit(TABLE, y)
    table, final = (step.privacy_ for _, step in model.steps)
    stated = certify(model).privacy
    assert (stated.adjacency, stated.protects) == ("zero-out", "record")
    assert max(table.epsilon, final.epsilon) < stated.epsilon < table.epsilon + final.epsilon
    assert stated.delta == final.delta
    assert certify(pickle.loads(pickle.dumps(model))).model_digest == certify(model).model_digest


@pytest.mark.filterwarnings("ignore:.* may have learned from the rows")
def test_other_steps_of_a_pipeline_still_void_or_pass() -> None:
    from sklearn.preprocessing import StandardScaler

    X, y = TABLE[["age", "gain"]], TABLE["age"] > 50
    last = DPAdditiveClassifier(max_epochs=2, progress=False)
    public = make_pipeline(PublicScaler({"age": (0, 100)}), PrivateTableEncoder(), last)
    assert not certify(public.fit(X, y)).privacy.is_void
    private = make_pipeline(
        StandardScaler().set_output(transform="pandas"), PrivateTableEncoder(), clone(last)
    )
    assert certify(private.fit(X, y)).privacy.is_void


def test_the_fits_of_a_search_are_not_counted_without_their_tables() -> None:
    """Each fit of a search bought a table too: its last steps alone are no total."""
    y = (TABLE["age"] > 50).to_numpy()
    steps = make_pipeline(PrivateTableEncoder(), DPAdditiveClassifier(max_epochs=1, progress=False))
    split = PredefinedSplit(np.where(np.arange(N) < 1000, 0, -1))
    grid = {"dpadditiveclassifier__max_grad_norm": [0.5, 1.0]}
    search = GridSearchCV(steps, grid, cv=split).fit(TABLE, y)
    cost = search_cost(search, public_validation=True)
    assert cost.privacy.is_void
    assert certify(search).privacy.is_void


def test_a_changed_encoder_promises_nothing(fitted) -> None:
    model = pickle.loads(pickle.dumps(fitted))
    model.levels_ = (("age", Intervals((1.0,))), *model.levels_[1:])
    assert certify(model).privacy.is_void


def test_without_noise_nothing_is_promised() -> None:
    assert PrivateTableEncoder(math.inf).fit(TABLE).privacy_ is None
    with pytest.warns(PrivacyWarning):
        PrivateTableEncoder(EPSILON, delta=1e-4).fit(TABLE)
    with pytest.raises(ValueError, match="1/n"):
        PrivateTableEncoder(EPSILON, delta=1e-3).fit(TABLE)


def test_the_grid_has_a_cell_for_every_float() -> None:
    values = [-math.inf, -1e300, -3.0, -5e-324, 0.0, -0.0, 5e-324, 1.0, 3.0, 1e300, math.inf]
    cells = np.searchsorted(EDGES, values, side="right")
    assert np.all(np.diff(np.delete(cells, 5)) >= 0)
    assert cells[4] == cells[5] == cells[6]
    assert cells.min() == 0
    assert cells.max() == N_CELLS - 1
    assert np.all(np.diff(EDGES) > 0)


@pytest.mark.parametrize(
    "estimator",
    [
        PrivateTableEncoder(100.0, encoding="onehot", reproducible_noise=True, random_state=0),
        PublicBinner((-10, 10), encoding="onehot", n_bins=4),
        pytest.param(
            DPAdditiveClassifier(
                (-10, 10), n_bins=8, max_epochs=8, reproducible_noise=True, random_state=0
            ),
            marks=pytest.mark.slow,
        ),
    ],
    ids=["table", "binner", "additive"],
)
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_scikit_learns_own_checks(estimator) -> None:
    assert unexpected(estimator) == []


def test_parts_follow_the_counts_and_heavy_cells_stand_alone() -> None:
    counts = np.zeros(N_CELLS)
    cell = int(np.searchsorted(EDGES, 1000.0, side="right"))
    counts[cell] = 10_000.0
    edges = divided(EDGES, counts, 10.0, 8)
    assert np.allclose(edges, np.linspace(512, 1024, 9))
    assert len(divided(EDGES, counts / 400.0, 10.0, 8)) == 0
    masses = np.zeros(10)
    masses[[2, 5]] = 500.0, 900.0
    masses[6:9] = 100.0
    found = bins(edges, masses, 1.0, 4)
    assert found.edges == (float(edges[4]), float(edges[5]), *map(float, edges[6:8]))


def test_equal_values_of_other_kinds_do_not_change_how_a_cell_is_read() -> None:
    for first in (Decimal(1), 1 + 0j, np.datetime64("2020-01-01")):
        column = pd.Series([first, 1, 1, date(2020, 1, 1), pd.NaT, None], dtype=object)
        read = read_cells(column)
        assert read.numbers[1:3].tolist() == [1.0, 1.0]
        assert read.distinct == ("2020-01-01",)
        assert read.texts[3:].tolist() == [0, -1, -1]
    decimals = pd.Series([Decimal("1.5"), Decimal("NaN"), Decimal("sNaN"), None], dtype=object)
    assert np.array_equal(read_cells(decimals).numbers, [1.5, *[np.nan] * 3], equal_nan=True)


def test_dates_with_the_day_first_are_dates_and_with_slashes_are_not() -> None:
    """A slash may be followed by the day or the month, so that nothing is guessed."""
    when = pd.Series(pd.date_range("2020-01-01", periods=N, freq="D"))
    table = pd.DataFrame(
        {
            "usual": when.dt.strftime("%Y-%m-%d"),
            "day first": when.dt.strftime("%d.%m.%Y"),
            "short": [f"{one.day}.{one.month}.{one.year} 10:15" for one in when],
            "slashes": when.dt.strftime("%m/%d/%Y"),
        }
    )
    encoder = PrivateTableEncoder(epsilon=1.0)
    with pytest.warns(UtilityWarning, match="Nothing was learned of 'slashes': none") as warned:
        encoder.fit(table)
    assert encoder.date_columns_ == ("usual", "day first", "short")
    (said,) = [str(w.message) for w in warned if isinstance(w.message, UtilityWarning)]
    assert "dates as 2026-03-01 or 1.3.2026" in said
    encoder.set_params(epsilon=math.inf)
    found = encoder.fit(table).transform(table)
    for name in ("day first", "short"):
        for part in (" (days since 1970)", " (month)", " (weekday)"):
            assert (found[name + part].astype(str) == found["usual" + part].astype(str)).all()
    never = pd.DataFrame({name: ["31.2.2020"] for name in table})
    assert encoder.transform(never)["day first (month)"].isna().all()


def test_a_column_of_which_something_was_learned_is_not_warned_of() -> None:
    table = pd.DataFrame({"a": np.arange(2_000) % 7, "b": np.tile(["x", "y"], 1_000)})
    with warnings.catch_warnings():
        warnings.simplefilter("error", UtilityWarning)
        PrivateTableEncoder(epsilon=1.0).fit(table)


# -- rows on disk -----------------------------------------------------------------------------

NUMBERS = TABLE[["age", "gain", "year"]].to_numpy(dtype=np.float64)
NUMBERS[::9, 1] = np.nan


@pytest.mark.parametrize("persons", [None, np.arange(N) // 3], ids=["records", "persons"])
def test_counts_of_rows_on_disk_are_those_of_rows_in_memory(persons, monkeypatch) -> None:
    """Each column is read once for all its counts; the noise is that of the seed."""
    monkeypatch.setattr(ArrayRows, "cache_bytes", 1 << 15)  # 1,365 rows at once
    seeded = {"random_state": 0, "reproducible_noise": True}
    rows, read = ArrayRows(NUMBERS), []
    column = rows.column
    monkeypatch.setattr(rows, "column", lambda place: read.append(place) or column(place))
    stored = PrivateTableEncoder(EPSILON, **seeded).fit(rows, person_ids=persons)
    memory = PrivateTableEncoder(EPSILON, **seeded).fit(NUMBERS, person_ids=persons)
    assert stored.levels_ == memory.levels_
    assert stored.plan_ == memory.plan_
    assert stored.privacy_ == memory.privacy_
    assert read == [0, 1, 2]
    pd.testing.assert_frame_equal(stored.transform(rows), memory.transform(NUMBERS))
    for encoding in ("onehot", "thermometer") if persons is None else ():
        numbers = memory.set_params(encoding=encoding).transform(NUMBERS)
        found = stored.set_params(encoding=encoding).transform(rows)
        np.testing.assert_array_equal(found, numbers)


def test_rows_that_change_while_they_are_counted_end_the_fit_and_keep_the_charge(tmp_path) -> None:
    ledger, rows = PrivacyLedger(tmp_path / "ledger.db"), ArrayRows(NUMBERS)
    column = rows.column

    def changed(place):
        rows.state = 1
        return column(place)

    rows.column = changed
    encoder = PrivateTableEncoder(EPSILON, ledger=ledger)
    with pytest.raises(ValueError, match="was changed while it was read"):
        encoder.fit(rows)
    assert not hasattr(encoder, "levels_")
    assert len(ledger.entries()) == 1
