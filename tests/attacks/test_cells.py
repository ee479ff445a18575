"""One changed cell reaches the engine in its own row alone, whatever held it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from skfairdp.aggregation.teachers import training
from skfairdp.certificate import certify
from skfairdp.command_line import reading
from skfairdp.command_line.reading import read_rows
from skfairdp.engine.batch_sums import Rows
from skfairdp.engine.moment_sums import MomentSums
from skfairdp.engine.release import NoisyRelease
from skfairdp.engine.table_release import TableRelease
from skfairdp.preprocessing import PrivateTableEncoder, thinning
from skfairdp.privacy.noise import NoiseSource
from skfairdp.records import one_column
from skfairdp.records.persons import encode_persons
from tests.common.roster import EVERY, SETTINGS, build_small, once, people

N = 60
LARGE = 2**53 + 1
ZONED = pd.Timestamp("2026-03-01", tz="Asia/Tokyo")
ANY = [None, float("nan"), 0.5, LARGE, True, "", "text", "new\0", ZONED]
# Containers, and the cells that each of them can hold in addition to those of its own type.
NUMBERS: dict[str, tuple[Callable[[list[list[Any]]], Any], list[Any]]] = {
    "lists": (lambda rows: rows, ANY),
    "objects": (lambda rows: np.array(rows, dtype=object), ANY),
    "frame of objects": (lambda rows: pd.DataFrame(rows, dtype=object), ANY),
    "nullable frame": (lambda rows: pd.DataFrame(rows, dtype="Float64"), [None, 0.5, LARGE]),
    "array": (lambda rows: np.array(rows, dtype=np.float64), [float("nan"), 0.5, LARGE]),
    "arrow": (lambda rows: pa.table(dict(zip("abcd", arrow_columns(rows), strict=True))), [None]),
    "dictionaries": (
        lambda rows: pa.table(
            {n: c.dictionary_encode() for n, c in zip("abcd", arrow_columns(rows), strict=True)}
        ),
        [None, 0.5, float(LARGE)],  # arrow refuses a whole number that no float is
    ),
    "polars": (lambda rows: polars_frame(rows), [None, 0.5]),
}
TEXTS: dict[str, tuple[Callable[[list[Any]], Any], list[Any]]] = {
    "list": (list, ANY),
    "objects": (lambda cells: np.array(cells, dtype=object), ANY),
    "Series of objects": (lambda cells: pd.Series(cells, dtype=object), ANY),
    "categories": (lambda cells: pd.Series(pd.Categorical(cells)), [None, "", "new"]),
    "string": (lambda cells: pd.Series(cells, dtype="string"), [None, "", "new"]),
    "arrow": (lambda cells: pa.array(cells, type=pa.string()), [None, "", "new"]),
    "dictionary": (lambda cells: pa.array(cells).dictionary_encode(), [None, "", "new"]),
    "polars": (lambda cells: polars_series(cells), [None, "", "new"]),
}
IDS: dict[str, tuple[Callable[[list[Any]], Any], list[Any]]] = {
    "list": (list, [-1.0, "text", LARGE]),
    "objects": (lambda cells: np.array(cells, dtype=object), ["text", LARGE]),
    "Int64": (lambda cells: pd.Series(cells, dtype="Int64"), [LARGE]),
    "categories": (lambda cells: pd.Series(pd.Categorical(cells)), [LARGE]),
    "arrow": (lambda cells: pa.chunked_array([pa.array(cells, pa.int64())]), [LARGE]),
    "dictionary": (lambda cells: pa.array(cells, pa.int64()).dictionary_encode(), [LARGE]),
    "runs": (lambda cells: pc.run_end_encode(pa.array(cells, pa.int64())), [LARGE]),
    "decimals": (lambda cells: pa.array(cells).cast(pa.decimal128(30, 0)), [LARGE]),
    "texts": (lambda cells: pa.array(map(str, cells), pa.large_string()), [LARGE, ""]),
    "bytes": (lambda cells: [str(cell).encode() for cell in cells], [LARGE, ""]),
    "polars": (lambda cells: polars_series(cells), [LARGE]),
}
# The first setting of each class whose rows go through one of the doors below.
DOORS = [
    next(iter(named))
    for kind, named in SETTINGS.values()
    if kind not in {"answering", "apart", "releasing", "smoothed"}
]


def arrow_columns(rows: list[list[Any]]) -> list[Any]:
    return [pa.array(column, type=pa.float64()) for column in zip(*rows, strict=True)]


def polars_frame(rows: list[list[Any]]) -> Any:
    polars = pytest.importorskip("polars")
    return polars.DataFrame(
        {name: list(column) for name, column in zip("abcd", zip(*rows, strict=True), strict=True)},
        schema=dict.fromkeys("abcd", polars.Float64),
    )


def polars_series(cells: list[Any]) -> Any:
    return pytest.importorskip("polars").Series("texts", cells, dtype=None)


class Received(Exception):
    """Ends a fit where rows enter, with the rows that came through."""

    def __init__(self, *columns: Any) -> None:
        self.rows = [np.asarray(column) for column in columns]


def _first_rows(codes: np.ndarray) -> np.ndarray:
    _, first, places = np.unique(codes, return_index=True, return_inverse=True)
    return np.asarray(first[places])


def _of_rows(_: Any, rows: Rows, *rest: Any, **named: Any) -> None:
    targets = [target.numpy() for target in rows.targets]
    # The first row of each person: which code a person gets is of no account.
    persons = [] if rows.persons is None else [_first_rows(rows.persons.codes)]
    raise Received(rows.X.numpy(), *targets, rows.codes, *persons)


def _of_columns(_: Any, cells_of: Any, *rest: Any) -> None:
    parts = []
    for place in range(4):
        cells = cells_of(place)
        texts = [cells.distinct[code] if code >= 0 else None for code in cells.texts]
        parts += [cells.numbers, np.array(texts, dtype=object)]
    raise Received(*parts)


def _of_moments(_: Any, rows: Any, linear: Any, codes: Any, *rest: Any, **named: Any) -> None:
    # Those of no cell are left out, whatever they hold.
    inside = codes >= 0
    raise Received(np.where(inside[:, None], rows, 0.0), np.where(inside, linear, 0.0), codes)


def _of_teachers(_: Any, X: Any, targets: Any, *rest: Any, **named: Any) -> None:
    raise Received(X, targets)


def _of_table(codes: Any, found: Any, *rest: Any, **named: Any) -> None:
    raise Received(codes, found)


@contextmanager
def doors() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(NoisyRelease, "__init__", _of_rows)
        patch.setattr(TableRelease, "__init__", _of_columns)
        patch.setattr(MomentSums, "__init__", _of_moments)
        patch.setattr(training, "train_teachers", _of_teachers)
        patch.setattr(thinning, "release_table", _of_table)
        yield


def received(
    name: str, X: Any, y: Any, groups: Any, ids: Any = None, public: Any = None
) -> list[np.ndarray] | None:
    """Rows as the engine gets them; None where a fit refuses them."""
    model = build_small(name)
    given: dict[str, Any] = {} if ids is None else {"person_ids": ids}
    if EVERY[name][0] == "voting":
        model = type(model).__bases__[0](**model.get_params(deep=False))
        given["X_public"] = public
        if name.startswith("SF-PATE"):
            given["y_public"] = people(300, seed=5)[1]
        if name == "FairPATE":
            given["sensitive_features_public"] = people(300, seed=5)[2]
    if EVERY[name][0] != "tables" and name not in {"PATE", "FairPATE"}:
        given["sensitive_features"] = groups
    facts = {"classes": ["no", "yes"], "groups": ["a", "b"], "group_sizes": {"a": 30, "b": 30}}
    known = model.get_params(deep=False)
    model.set_params(**{key: value for key, value in facts.items() if key in known})
    try:
        model.fit(X, y, **given)
    except Received as door:
        return door.rows
    except (TypeError, ValueError):
        return None
    raise AssertionError(f"{name} was fitted through none of the doors")


def differing(first: list[np.ndarray], second: list[np.ndarray]) -> set[int]:
    """Rows that the engine gets otherwise."""
    found: set[int] = set()
    for before, after in zip(first, second, strict=True):
        assert before.shape == after.shape
        assert before.dtype == after.dtype
        for row, (one, other) in enumerate(zip(before, after, strict=True)):
            if isinstance(one, str | None) or isinstance(other, str | None):
                same = one == other
            else:
                same = np.asarray(one).tobytes() == np.asarray(other).tobytes()
            if not same:
                found.add(row)
    return found


def rows_of_people(name: str) -> dict[str, list[Any]]:
    X, y, groups = people(N)
    numbers = EVERY[name][0] == "numbers"
    return {
        "X": X.tolist(),
        "y": (y == "yes").astype(float).tolist() if numbers else y.tolist(),
        "groups": groups.tolist(),
        "ids": list(range(N)),
    }


def kinds_of(name: str, place: str) -> dict[str, Any]:
    if place == "y" and EVERY[name][0] == "numbers":
        return {key: TEXTS[key] for key in ("list", "objects", "Series of objects")}
    return {"X": NUMBERS, "y": TEXTS, "groups": TEXTS, "ids": IDS}[place]


def takes_persons(name: str) -> bool:
    return bool(getattr(EVERY[name][1], "_takes_persons", False)) and EVERY[name][0] != "voting"


def check(name: str, draw: Callable[[st.SearchStrategy[Any]], Any]) -> bool:
    """Change one cell of one record; whether the fit took it."""
    places = ["X", "y", "groups"]
    if takes_persons(name):
        places.append("ids")
    if EVERY[name][0] == "tables":
        places = ["X", "ids"]
    elif name in {"PATE", "FairPATE"}:
        places = ["X", "y"]
    place = draw(st.sampled_from(places))
    container, cells = draw(st.sampled_from(sorted(kinds_of(name, place).items())))[1]
    cell, row = draw(st.sampled_from(cells)), draw(st.integers(0, N - 1))
    table = rows_of_people(name)
    if place != "ids":
        table["ids"] = []
    changed = {key: list(column) for key, column in table.items()}
    if place == "X":
        changed["X"][row] = [*changed["X"][row][:2], cell, changed["X"][row][3]]
    else:
        changed[place][row] = cell
    public = people(300, seed=5)[0]
    if place == "X":
        public = container(public.tolist())
    with doors():
        both = []
        for one in (table, changed):
            made = {
                "X": np.array(table["X"]),
                "y": np.array(table["y"]),
                "groups": np.array(table["groups"]),
                "ids": table["ids"] or None,
            }
            made[place] = container(one[place])
            both.append(received(name, **made, public=public))
    before, after = both
    assert before is not None, f"{name} refuses its rows as {place} in this container"
    if after is None:
        return False
    if EVERY[name][0] == "attribute" and len(after[0]) < len(before[0]):
        before = [np.delete(column, row, axis=0) for column in before]  # its label is public
        row = -1
    assert differing(before, after) <= {row}, (name, place, cell)
    return True


@pytest.mark.parametrize("name", DOORS)
@settings(
    max_examples=4,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(data=st.data())
def test_the_engine_gets_one_changed_row(name: str, data: st.DataObject) -> None:
    check(name, data.draw)


@pytest.mark.slow
@pytest.mark.parametrize("name", DOORS)
@settings(max_examples=30, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_the_engine_gets_one_changed_row_in_every_container(name: str, data: st.DataObject) -> None:
    check(name, data.draw)


def test_most_cells_are_taken_and_not_refused() -> None:
    labels, groups = people(N)[1].tolist(), people(N)[2].tolist()
    taken = 0
    for container, cells in TEXTS.values():
        for cell in cells:
            with doors():
                X = people(N)[0]
                found = received("DP-SGD", X, container([cell, *labels[1:]]), groups)
            taken += found is not None
    assert taken > 0.8 * sum(len(cells) for _, cells in TEXTS.values())


def test_a_reader_that_lets_numpy_choose_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(one_column, "column_cells", np.asarray)
    X, _, groups = people(N)
    # Two labels that are one float: numpy makes floats of all where one of them is.
    labels: list[Any] = [LARGE, LARGE - 1] * (N // 2)

    def codes(cells: list[Any]) -> np.ndarray:
        model = build_small("DP-SGD", classes=[LARGE - 1, LARGE])
        with doors(), pytest.raises(Received) as door:
            model.fit(X, cells, sensitive_features=groups)
        return door.value.rows[1]

    assert len(np.flatnonzero(codes(labels) != codes([0.5, *labels[1:]]))) > 1
    monkeypatch.undo()
    assert len(np.flatnonzero(codes(labels) != codes([0.5, *labels[1:]]))) <= 1


@pytest.mark.parametrize("place", ["y", "groups"])
@pytest.mark.parametrize("kind", TEXTS)
def test_counts_of_a_certificate_move_by_one(
    kind: str, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        NoiseSource, "discrete_laplace", lambda self, epsilon, size: np.zeros(size, dtype=np.int64)
    )
    model = once("DP-SGD")
    X, y, groups = people(N, seed=3)
    container, cells = TEXTS[kind]

    def counts(cell: Any) -> np.ndarray:
        columns = {"y": y.tolist(), "groups": groups.tolist()}
        if cell is not ...:
            columns[place][7] = cell
        certificate = certify(
            model,
            X,
            container(columns["y"]),
            sensitive_features=container(columns["groups"]),
            count_epsilon=1.0,
            groups=["a", "b"],
        )
        (claim,) = certificate.fairness
        return np.array([(one.trials, one.successes) for one in claim.counts])

    before = counts(...)
    for cell in cells:
        try:
            after = counts(cell)
        except (TypeError, ValueError):
            continue  # refused by name
        # A trial and a success in the cell that the record leaves, and in the one that it joins.
        assert np.abs(before - after).sum() <= 4, cell


def columns_that_libraries_convert_in_part() -> Iterator[Any]:
    views = pa.array(["no", "yes"] * (N // 2), type=pa.string_view())
    yield views.dictionary_encode()
    yield pa.RunEndEncodedArray.from_arrays(pa.array([N // 2, N], pa.int32()), pa.array([1, 2]))
    with suppress(ImportError):
        import polars as pl

        yield pl.Series("x", [2, 1] * (N // 2), dtype=pl.Int128)


@pytest.mark.parametrize("column", [*columns_that_libraries_convert_in_part()], ids=type)
def test_types_that_numpy_lacks_are_read_cell_by_cell_or_refused_by_name(column: Any) -> None:
    X, groups = np.random.default_rng(0).normal(size=(N, 2)), np.arange(N) % 2
    with suppress(ValueError):  # whole numbers of more than 64 bits name no classes
        build_small("DP-SGD").fit(X, column, sensitive_features=groups)
    build_small("FairDP").fit(X, groups, sensitive_features=column)
    table = column.to_frame() if hasattr(column, "to_frame") else pa.table({"x": column})
    PrivateTableEncoder(epsilon=1.0, delta=1e-5).fit(table)
    with suppress(ValueError):  # texts are no numbers
        build_small("DP-SGD").fit(table, groups, sensitive_features=groups)


def test_a_column_that_cannot_be_read_is_refused_by_the_name_of_its_type() -> None:
    class Unreadable:
        type, null_count = "a type of tomorrow", 0

        def to_pylist(self) -> list[Any]:
            raise NotImplementedError("cell 7 is secret")

    with pytest.raises(TypeError, match="a type of tomorrow") as raised:
        one_column.column_cells(Unreadable())
    assert raised.value.__context__ is None


def test_a_missing_entry_of_a_dictionary_is_not_another_rows_value() -> None:
    cells = pa.array([1.0, None, None, 2.0] * 15).dictionary_encode()
    with pytest.raises(ValueError, match="contains NaN"):
        build_small("DP-SGD").fit(pa.table({"a": cells}), np.arange(60) % 2)


@pytest.mark.parametrize("missing", [False, True])
def test_categories_of_32_bit_floats_keep_their_type_where_the_command_line_reads(
    missing: bool, tmp_path: Path
) -> None:
    """As ids they would be refused, since two persons may have become one."""
    ids = np.arange(60, dtype=np.float32)
    ids[:1] = np.nan if missing else 0.0
    rows = pd.DataFrame({"id": pd.Series(ids).astype("category"), "x": np.arange(60.0)})
    rows.to_parquet(tmp_path / "t.parquet")
    read = read_rows(tmp_path / "t.parquet")
    assert read["id"].dtype == np.float32
    with pytest.raises(ValueError, match="32"):
        encode_persons(read["id"][1:], 59)


@pytest.mark.parametrize("first", ["a\0b", "a"])
def test_texts_that_differ_behind_a_nul_are_different_where_the_command_line_reads(first) -> None:
    """Fails with pandas 2 where a column is factorized without regard to what is behind a NUL."""
    texts = [first, "a" if first != "a" else "a\0b", "c"]
    assert reading.of_one_type(pd.Series(texts, dtype=object)).tolist() == texts


def test_categories_that_do_not_occur_are_dropped_where_the_command_line_reads(
    tmp_path: Path,
) -> None:
    """Texts of people who are held out would stay in the dtype of those trained on."""
    rows = pd.DataFrame({"city": pd.Series(["Oslo", "secret"], dtype="category"), "x": [1.0, 2.0]})
    rows.to_parquet(tmp_path / "t.parquet")
    assert "secret" in rows[:1]["city"].dtype.categories
    read = read_rows(tmp_path / "t.parquet")
    assert read["city"].tolist() == ["Oslo", "secret"]
    assert not isinstance(read["city"].dtype, pd.CategoricalDtype)
    encoder = PrivateTableEncoder(epsilon=1e4, delta=1e-6)
    crowd = rows.iloc[[0] * 3000]  # its dtype lists both
    assert "secret" in crowd["city"].dtype.categories
    assert "secret" not in str(encoder.fit(crowd).levels_)
