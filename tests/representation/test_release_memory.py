"""Noise by id and hidden value: the same again for the same, independent for anything else.

Statistical tolerances hold with probability 1 - 1e-9 a test.
"""

from __future__ import annotations

import copy
import math
import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from skfairdp.representation import (
    LaplaceRandomizer,
    LaplaceTransformer,
    ReleaseMemory,
    ResponseRandomizer,
)
from skfairdp.representation import release_memory as memory_module
from tests.processes import in_one_worker, run_fresh

KEY = bytes(range(32))
N = 20_000
LAPLACE, RESPONSE = LaplaceRandomizer(2.0, 2, 0.5), ResponseRandomizer(2.0, 2, 3)


def memory_of(key: bytes, export_key: bool = False) -> ReleaseMemory:
    memory = ReleaseMemory(export_key)
    memory._secret = key
    return memory


MEMORY = memory_of(KEY)
ROWS = np.random.default_rng(0).normal(size=(N, 2)) / 8
HIDDEN = np.random.default_rng(0).integers(-1000, 1000, size=(N, 2))


def released(memory=MEMORY, ids=None, digest="encoder", randomizer=RESPONSE, hidden=None):
    if hidden is None:
        hidden = np.zeros((N, randomizer.n_components), dtype=np.int64)
    ids = np.arange(len(hidden)) if ids is None else ids
    points = randomizer.points(hidden)
    return randomizer.release(hidden, memory.streams(ids, points, digest, randomizer.identity))


def words(memory=MEMORY, ids=None, hidden=HIDDEN, digest="encoder", mechanism="m"):
    ids = np.arange(len(hidden)) if ids is None else ids
    return memory.streams(ids, np.asarray(hidden), digest, mechanism).integers(2**62, len(hidden))


def test_laplace_releases_follow_their_law_over_people():
    noise = released(randomizer=LAPLACE, hidden=np.zeros((N, 2))) / LAPLACE.scale
    step = LAPLACE._step / LAPLACE.scale
    noise += np.random.default_rng(0).uniform(-step / 2, step / 2, noise.shape)
    for column in noise.T:
        assert stats.kstest(column, "laplace").pvalue > 5e-10
    assert abs(np.corrcoef(noise.T)[0, 1]) < 6.5 / math.sqrt(N)


def test_response_releases_follow_their_law_over_people():
    codes = released()
    counts = np.bincount(codes[:, 0] * 3 + codes[:, 1], minlength=9)
    seen = np.array([[a, b] for a in range(3) for b in range(3)])
    expected = np.exp(RESPONSE.log_density(seen, [[0, 0]]))[:, 0] * N
    assert stats.chisquare(counts, expected).pvalue > 1e-9


@pytest.mark.parametrize("high", [1, 2, 3, 1000, 2**32 * 3, 3 * 2**61, 2**62, 2**63])
def test_integers_are_uniform(high):
    drawn = MEMORY.streams(np.arange(N), HIDDEN, "e", "m").integers(high, N)
    assert drawn.dtype == np.int64
    assert 0 <= drawn.min() <= drawn.max() < high
    bins = min(high, 10)
    if bins == 1:
        return
    counts = np.bincount((drawn.astype(object) * bins // high).astype(int), minlength=bins)
    edges = np.array([-(-high * i // bins) for i in range(bins + 1)], dtype=object)
    expected = np.diff(edges).astype(float) / high * N
    assert stats.chisquare(counts, expected).pvalue > 1e-9


def test_draws_of_one_person_are_independent_of_each_other():
    """Thirty draws need several blocks; all pairs of 435 are looked at."""
    streams = MEMORY.streams(np.arange(N), HIDDEN, "e", "m")
    drawn = np.array([streams.integers(2**30, N) for _ in range(30)]) / 2**30
    correlations = np.corrcoef(drawn)[np.triu_indices(30, 1)]
    assert np.abs(correlations).max() < 7.2 / math.sqrt(N)
    assert stats.kstest(drawn.ravel(), "uniform").pvalue > 1e-9


OTHER = {
    "another person": {"ids": np.arange(N) + N},
    "another kind of id": {"ids": [str(i) for i in range(N)]},
    "another hidden value": {"hidden": HIDDEN + [1, 0]},
    "another key": {"memory": ReleaseMemory()},
    "another encoder": {"digest": "encoder 2"},
    "another length": {"hidden": np.hstack([HIDDEN, HIDDEN[:, :1]])},
}


@pytest.mark.parametrize("change", OTHER, ids=list(OTHER))
def test_what_differs_in_anything_gets_independent_noise(change):
    first, second = words(), words(**OTHER[change])
    assert not (first == second).any()
    assert abs(np.corrcoef(first / 2**62, second / 2**62)[0, 1]) < 6.5 / math.sqrt(N)


@pytest.mark.parametrize(
    "other", [ResponseRandomizer(2.0 + 1e-12, 2, 3), ResponseRandomizer(2.0, 2, 4), LAPLACE]
)
def test_another_randomiser_or_epsilon_gets_independent_noise(other):
    assert len({RESPONSE.identity, other.identity}) == 2
    first, second = words(mechanism=RESPONSE.identity), words(mechanism=other.identity)
    assert not (first == second).any()
    assert abs(np.corrcoef(first / 2**62, second / 2**62)[0, 1]) < 6.5 / math.sqrt(N)


def test_another_encoding_of_the_same_row_gets_independent_noise():
    """An encoder that rounds otherwise elsewhere must not show that with equal noise."""
    near = [released(randomizer=LAPLACE, hidden=np.full((N, 2), at)) for at in (0.0, LAPLACE._step)]
    assert abs(np.corrcoef(near[0][:, 0], near[1][:, 0])[0, 1]) < 6.5 / math.sqrt(N)
    zeros, ones = (released(hidden=np.full((N, 2), code))[:, 0] for code in (0, 1))
    both_kept = ((zeros == 0) & (ones == 1)).mean()
    assert abs(both_kept - RESPONSE.keep_probability**2) < 3.25 / math.sqrt(N)


def test_people_who_hide_the_same_get_independent_releases():
    codes = released(hidden=np.zeros((N, 2), dtype=np.int64))[:, 0]
    assert stats.chisquare(np.bincount(codes, minlength=3), expected_of_first()).pvalue > 1e-9
    pairs = np.bincount(codes[:-1] * 3 + codes[1:], minlength=9)[:9]
    share = expected_of_first() / N
    assert stats.chisquare(pairs, np.outer(share, share).ravel() * (N - 1)).pvalue > 1e-9


def expected_of_first() -> np.ndarray:
    keep, change = RESPONSE.keep_probability, RESPONSE.change_probability
    return np.array([keep, change, change]) * N


def test_one_person_with_different_values_gets_independent_noise():
    of_one = words(ids=["ann"] * 1000, hidden=np.arange(1000)[:, None])
    assert len(np.unique(of_one)) == 1000
    assert stats.kstest(of_one / 2**62, "uniform").pvalue > 1e-9


def test_one_person_with_one_value_gets_one_release():
    codes = released(ids=["ann"] * N)
    assert (codes == codes[0]).all()


def test_the_same_again_is_the_same_in_any_order_and_company():
    first = released(randomizer=LAPLACE, hidden=ROWS)
    order = np.random.default_rng(1).permutation(N)[:100]
    again = released(ids=order, randomizer=LAPLACE, hidden=ROWS[order])
    assert np.array_equal(first[order], again)


def test_chunks_change_nothing(monkeypatch):
    whole = released(randomizer=LAPLACE, hidden=ROWS)
    monkeypatch.setattr(memory_module, "_CHUNK", 777)
    assert np.array_equal(whole, released(randomizer=LAPLACE, hidden=ROWS))


@pytest.mark.slow
def test_values_that_hide_the_same_have_one_noise_whatever_their_type():
    expected = released(randomizer=LAPLACE, hidden=ROWS) - ROWS
    for same in (
        ROWS.astype(np.float32),
        ROWS + 1e-13,
        ROWS.astype(">f8"),
        np.asfortranarray(ROWS),
    ):
        released_again = released(randomizer=LAPLACE, hidden=same)
        moved = (LAPLACE.points(same) != LAPLACE.points(ROWS)).any(axis=1)
        assert moved.mean() < 0.01
        assert np.array_equal((released_again - ROWS)[~moved], expected[~moved])
    small = HIDDEN.astype(np.int16)
    assert np.array_equal(words(hidden=small), words())


def test_equal_ids_are_one_person_whatever_their_type():
    two = HIDDEN[:2]
    expected = words(ids=[7, 8], hidden=two)
    for same in (
        np.array([7, 8], dtype=np.uint8),
        [7.0, 8.0],
        pd.Series([7, 8], index=[5, 6]),
        [np.int64(7), np.float64(8)],
        pd.array([7, 8], dtype="Int64"),
    ):
        assert np.array_equal(words(ids=same, hidden=two), expected)
    text = words(ids=["7", "8"], hidden=two)
    assert not (text == expected).any()
    assert np.array_equal(words(ids=np.array(["7", "8"]), hidden=two), text)
    assert np.array_equal(words(ids=pd.Series(["7", "8"], dtype="category"), hidden=two), text)
    huge = [2**70, 2**70 + 1]
    assert len(set(words(ids=huge, hidden=np.ones((2, 1), dtype=int)).tolist())) == 2


def test_fields_cannot_run_into_each_other():
    one = np.array([[23]])
    assert not np.array_equal(words(ids=["1"], hidden=one), words(ids=["12"], hidden=[[3]]))
    first = words(digest="ab", mechanism="c", hidden=one)
    assert first != words(digest="a", mechanism="bc", hidden=one)
    # An id that ends in the bytes of a number, beside a value that is one number shorter.
    tail = np.array([1]).tobytes().decode("latin1")
    assert words(ids=["p" + tail], hidden=one) != words(ids=["p"], hidden=np.array([[1, 23]]))


@pytest.mark.parametrize("ids", [[1, None], [1.0, math.nan], ["a", pd.NA], pd.array([1, None])])
def test_a_missing_id_is_refused(ids):
    with pytest.raises(ValueError, match="missing"):
        words(ids=ids, hidden=HIDDEN[:2])


@pytest.mark.parametrize(
    ("ids", "said"),
    [
        ([True, False], "type bool"),
        ([1.5, 2.0], "not whole numbers"),
        ([1e300, 2.0], "not whole numbers"),
        ([b"a", b"b"], "type bytes"),
        # One person by two names would have two releases of one value, of which one is counted.
        ([7, "7"], "mixes texts and numbers"),
        # 16777217 is 16777216 there: two people would be one, whose equal rows show.
        (np.array([1.0, 2.0], dtype=np.float32), "floats of 16 or 32 bits"),
        (pd.array([1, 2], dtype="Float32"), "floats of 16 or 32 bits"),
        ([np.float32(1), np.float32(2)], "floats of 16 or 32 bits"),
        ([[1], [2]], "2 dimensions"),
        ([1, 2, 3], "3 entries; X has 2"),
        (1, "0 dimensions"),
    ],
)
def test_other_ids_are_refused_without_showing_them(ids, said):
    with pytest.raises(ValueError, match=said):
        words(ids=ids, hidden=HIDDEN[:2])


def test_ids_that_were_numbers_stay_numbers_in_every_call():
    # As from a file that was read with another type: each person would have two releases, and
    # one of them counted.
    rows = np.random.default_rng(0).normal(size=(3, 2))
    for first, then in (([1, 2, 3], ["1", "2", "3"]), (["1", "2", "3"], [1, 2, 3])):
        transformer = LaplaceTransformer(epsilon=1.0).fit(rows)
        released = transformer.transform(rows, ids=first)
        with pytest.raises(ValueError, match="texts in one call and numbers in another"):
            transformer.transform(rows, ids=then)
        assert transformer.releases_.remembered == 1
        assert np.array_equal(transformer.transform(rows, ids=first), released)


@pytest.mark.parametrize("hidden", [[[0.5]], [["secret"]], [1]])
def test_other_values_are_refused_without_showing_them(hidden):
    with pytest.raises(ValueError, match="allowed are whole numbers") as refused:
        words(ids=[1], hidden=hidden)
    assert "secret" not in str(refused.value)


def test_the_key_is_fresh_and_shown_nowhere():
    assert not (words(ReleaseMemory()) == words(ReleaseMemory())).any()
    streams = MEMORY.streams([1, 2], HIDDEN[:2], "e", "m")
    for shown in (repr(MEMORY), str(MEMORY), repr(streams), str(MEMORY._digest_state())):
        assert str(KEY) not in shown
        assert KEY.hex() not in shown


@pytest.mark.parametrize("duplicate", [lambda m: pickle.loads(pickle.dumps(m)), copy.deepcopy])
def test_a_copy_has_the_key_only_if_asked(duplicate):
    kept = duplicate(memory_of(KEY, export_key=True))
    assert np.array_equal(words(kept), words())
    assert KEY not in pickle.dumps(MEMORY)
    lost = duplicate(MEMORY)
    assert not lost.has_key
    with pytest.raises(ValueError, match="not exported"):
        words(lost)


def test_streams_cannot_be_pickled():
    with pytest.raises(TypeError, match="pickled"):
        pickle.dumps(MEMORY.streams([1], HIDDEN[:1], "e", "m"))


@pytest.mark.slow
@in_one_worker
def test_releases_agree_between_processes(tmp_path):
    path = tmp_path / "memory.pickle"
    memory = ReleaseMemory(export_key=True)
    path.write_bytes(pickle.dumps((memory, LAPLACE, ROWS[:5])))
    code = (
        "import pickle, sys; memory, r, X = pickle.load(open(sys.argv[1], 'rb'));"
        "s = memory.streams(list('abcde'), r.points(X), 'e', r.identity);"
        "print(r.release(X, s).tolist())"
    )
    elsewhere = [run_fresh(code, str(path)).stdout.strip() for _ in range(2)]
    here = released(memory, list("abcde"), "e", LAPLACE, ROWS[:5])
    assert elsewhere == [str(here.tolist())] * 2


def test_streams_are_for_their_rows_only():
    zeros = np.zeros((3, 2), dtype=int)
    streams = MEMORY.streams(np.arange(3), zeros, "e", RESPONSE.identity)
    with pytest.raises(ValueError, match="belongs to other hidden values"):
        RESPONSE.release(zeros + 1, streams)
    with pytest.raises(ValueError, match="streams for 3 rows"):
        RESPONSE.release(np.zeros((2, 2), dtype=int), streams)
    for draw in (lambda: streams.integers(4, 2), lambda: streams.discrete_laplace(1.0, 2)):
        with pytest.raises(ValueError, match="size=2"):
            draw()


def test_releases_are_pinned():
    """A stored key repeats releases with later versions of the package too."""
    codes = released(hidden=np.zeros((12, 2), dtype=int))
    assert "".join(map(str, codes.ravel())) == PINNED


def test_releases_of_a_person_are_counted_once_for_each_hidden_value():
    memory, zeros = memory_of(KEY), np.zeros((3, 1), dtype=int)

    def most(ids, hidden, digest="e"):
        counted = memory.count(memory.streams([*ids], np.asarray(hidden), digest, "m"))
        memory.note(counted)
        return counted.most

    assert [most("abc", zeros), most("abc", zeros), most("cab", zeros)] == [1, 1, 1]
    assert most("abd", zeros + [[0], [1], [0]]) == 2  # b hides another value
    assert most("ac", zeros[:2]) == 1
    assert most("bb", [[2], [3]]) == 4
    assert most("b", [[1]]) == 4
    assert most("a", zeros[:1], "another encoder") == 2
    assert pickle.loads(pickle.dumps(memory))._released.size == 0


PINNED = "000102010020000120002200"
