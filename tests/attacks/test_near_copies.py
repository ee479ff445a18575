"""Rows written a little differently give no fresh noise for the value that they hide."""

from __future__ import annotations

import pickle
from functools import cache

import numpy as np
import pandas as pd
import pytest

from skfairdp import LaplaceTransformer, PrivacyLedger, PrivateFairEncoder
from skfairdp.representation.release_memory import RowStreams

N, RELEASES = 200, 50
X = np.round(np.random.default_rng(0).normal(size=(N, 3)), 2)
IDS = np.arange(N)


@cache
def codes_under_response() -> PrivateFairEncoder:
    return PrivateFairEncoder(
        objective="fair_codes", noise="randomized_response", epsilon=1.0, max_epochs=2,
        export_key=True, progress=False,
    ).fit(X, X[:, 0] > 0, sensitive_features=IDS % 2)  # fmt: skip


def near_copies():
    """The same people, again and again, as other types, in other formats and a little moved."""
    yield X
    yield X.astype(np.float32)
    yield X.astype(object)
    yield pd.DataFrame(X)
    yield pd.DataFrame(X).astype("Float64")
    for step in range(5, RELEASES):
        yield X * (1.0 + step * 1e-13)


def guessed(encoder: PrivateFairEncoder) -> float:
    """Share of hidden codes that are guessed from the votes of all releases."""
    hidden = encoder._hidden(encoder._entering(X, None))[:, 0]
    votes = np.zeros((N, 2))
    for place, rows in enumerate(near_copies()):
        asked = pickle.loads(pickle.dumps(encoder)) if place == 3 else encoder
        assert np.array_equal(asked._hidden(asked._entering(rows, None))[:, 0], hidden)
        votes[IDS, asked.transform(rows, ids=IDS)[:, 0]] += 1
    assert votes.sum() == N * RELEASES
    return float((votes.argmax(axis=1) == hidden).mean())


@pytest.mark.slow
def test_releases_of_near_copies_tell_no_more_than_one() -> None:
    encoder = codes_under_response()
    once = encoder.randomizer_.keep_probability
    assert once < 0.732
    # Six standard errors: overstepped by chance once in 10**9.
    assert guessed(encoder) < once + 6.0 * np.sqrt(once * (1.0 - once) / N)
    assert encoder.privacy_.epsilon == 1.0


@pytest.mark.slow
def test_noise_that_follows_the_row_would_tell_all(monkeypatch) -> None:
    """As noise was keyed before: on what the row says as well."""
    begin, calls = RowStreams._begin, iter(range(10**9))

    def with_the_row(self, row):
        state = begin(self, row)
        state.update(next(calls).to_bytes(8, "little"))
        return state

    monkeypatch.setattr(RowStreams, "_begin", with_the_row)
    assert guessed(codes_under_response()) > 0.97


@pytest.mark.parametrize("moved", [1e-13, 1e-3])
def test_values_that_move_are_counted_and_charged(moved, tmp_path) -> None:
    ledger = PrivacyLedger(tmp_path / "ledger.db")
    transformer = LaplaceTransformer(0.5, ledger=ledger).fit(X)
    points = set()
    for step in range(6):
        rows = X[:20] * 0.1 + step * moved
        transformer.transform(rows, ids=IDS[:20])
        hidden = transformer.randomizer_.points(rows)
        points |= {(person, *value) for person, value in enumerate(hidden.tolist())}
    most = int(np.bincount([point[0] for point in points]).max())
    assert (most > 1) == (moved > 1e-6)
    assert transformer.privacy_.epsilon == pytest.approx(0.5 * most)
    charged = [entry for entry in ledger.entries() if entry.activity == "transform"]
    assert sum(entry.guarantee.epsilon for entry in charged) == pytest.approx(0.5 * most)
