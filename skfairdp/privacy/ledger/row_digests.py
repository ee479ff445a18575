"""Keyed digests of rows: names of data sets, and how a set of public rows is found again."""

from __future__ import annotations

import hashlib
import hmac
import itertools
import os
import secrets
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_matrix, issparse

KEY_BYTES = 32


def data_set_name(rows: ArrayLike | pd.DataFrame, key: bytes) -> str:
    """Name a data set by a keyed digest of its rows.

    Prefer a name of your own ("loans-2026"): it can't reveal anything, and it stays
    when a row is corrected. This is for data sets that arrive without a name. Call
    it once on *all* rows, before any split: a fold has another digest than the whole.

    `rows` (n_rows, n_columns): all rows, in the order in which they are stored. `key`: at least
    32 random bytes (``secrets.token_bytes(32)``), kept apart from the ledger, as a password is:
    with a name and its key one can test a guess of the rows. Result: "rows-" and 32 hexadecimal
    digits; equal names under one key show that rows are equal. See "What the file gives away" in
    ``docs/theory/ledger.md``.

    Examples
    --------
    >>> import secrets
    >>> from skfairdp.privacy.ledger import data_set_name
    >>> name = data_set_name([[1.0, 2.0]], secrets.token_bytes(32))
    >>> len(name)
    37
    """
    _check_key(key)
    return f"rows-{hmac.new(key, _content(rows), hashlib.sha256).hexdigest()[:32]}"


def _check_key(key: bytes) -> None:
    if not isinstance(key, bytes) or len(key) < KEY_BYTES:
        got = f"{len(key)} bytes" if isinstance(key, bytes) else f"a {type(key).__name__}"
        raise ValueError(
            f"'key' must be at least {KEY_BYTES} random bytes, e.g. secrets.token_bytes(32); "
            f"got {got}."
        )


def row_set_digest(rows: Any, key: bytes) -> str:
    """Digest of a set of rows that need no protection, whatever their order.

    With digest and key one can test a guess of the *whole* set, and of nothing less: there
    are not digests of single rows, so that sets which share some rows are not recognised.
    Containers, names of columns and kinds of numbers make no difference; columns in another order
    do, and so do values in another precision.
    """
    chunks = getattr(rows, "chunks", None)  # of rows that are not in memory
    parts = chunks() if callable(chunks) else [rows]
    each = sorted(
        hashlib.blake2b(row, key=key, digest_size=16).digest()
        for part in parts
        for row in _encoded_rows(part)
    )
    return hashlib.blake2b(b"".join(each), key=key, digest_size=16).hexdigest()


def people_digest(people: pd.DataFrame, key: bytes) -> dict[str, str]:
    """Digest of all rows of a table, or of all ids, whatever the order of rows and columns.

    With "digest" *and* key one can test a guess of the whole table, also one that knows all of it
    but a row: the key has to stay where the rows are. "key" names the key, so that digests of
    different keys are not compared; nobody can find 32 random bytes from it.
    """
    _check_key(key)
    names = sorted(people.columns, key=str)
    texts = pd.DataFrame({str(name): people[name].astype(str) for name in names})
    short = hashlib.blake2b(key[:64], digest_size=8).hexdigest()  # 16 letters, as pandas wants
    each = pd.util.hash_pandas_object(texts, index=False, hash_key=short).to_numpy()
    rows = np.sort(each).tobytes()
    return {
        "digest": hashlib.blake2b(rows, key=key[:64], digest_size=16).hexdigest(),
        "key": hashlib.blake2b(key, digest_size=16, person=b"name of a key").hexdigest(),
    }


def key_of(ledger: Path) -> tuple[Path, bytes | None]:
    """Path and content of the key next to a ledger, without which its digests reveal nothing.

    None where the file is missing, or holds a part of a key.
    """
    path = ledger.with_name(f"{ledger.name}.key")
    key = path.read_bytes() if path.is_file() else b""
    return path, key if len(key) >= KEY_BYTES else None


def new_key(path: Path) -> bytes:
    """Make a key where there is none, or part of one, for its owner alone.

    The file gets its name only once it is whole, so that a broken run leaves no part.
    """
    key = secrets.token_bytes(KEY_BYTES)
    descriptor, whole = tempfile.mkstemp(dir=path.parent, prefix=f"{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(key)
            file.flush()
            os.fsync(file.fileno())
        os.replace(whole, path)
    finally:
        Path(whole).unlink(missing_ok=True)
    return key


def _encoded_rows(rows: Any) -> list[bytes]:
    """Every row by itself: numbers by what is not zero, others value by value.

    Whatever the rows are, nothing is raised: what a model can't take, it refuses itself.
    """
    table = rows if issparse(rows) else _numbers(rows)
    if table is None:
        plain = rows.to_numpy(dtype=object) if isinstance(rows, pd.DataFrame) else rows
        cells = np.atleast_1d(np.asarray(plain, dtype=object))
        return [repr([*map(_value, np.atleast_1d(row).ravel())]).encode() for row in cells]
    table = csr_matrix(table, dtype=np.float64, copy=True)
    table.sum_duplicates()
    table.eliminate_zeros()
    width = table.shape[1].to_bytes(8, "little")
    return [
        width + table.indices[a:b].astype("<i8").tobytes() + table.data[a:b].astype("<f8").tobytes()
        for a, b in itertools.pairwise(table.indptr)
    ]


def _numbers(rows: Any) -> NDArray[np.float64] | None:
    """Rows as a table of real numbers; None where they are something else."""
    try:
        given = np.atleast_1d(np.asarray(rows))
        if given.dtype.kind in "cMm" or not given.size:
            return None
        return given.astype(np.float64).reshape(len(given), -1)
    except (TypeError, ValueError, OverflowError):
        return None


def _value(value: Any) -> str | None:
    """Text of a value, the same for equal numbers of all kinds; None for a missing one."""
    if pd.api.types.is_scalar(value) and pd.isna(value):
        return None
    try:
        return repr(float(value))
    except (TypeError, ValueError, OverflowError):
        return str(value)


def _content(rows: Any) -> bytes:
    """Every value with its type, in an encoding that no other rows share."""
    frame = rows if isinstance(rows, pd.DataFrame) else pd.DataFrame(np.asarray(rows))
    columns = [str(name) for name in frame.columns]
    values = [[_text(value) for value in frame.iloc[:, j]] for j in range(frame.shape[1])]
    return repr((columns, values)).encode()


def _text(value: Any) -> str:
    value = value.item() if isinstance(value, np.generic) else value
    return f"{type(value).__name__}:{value!r}"
