"""Names of data sets that reveal nothing about their rows."""

from __future__ import annotations

import hashlib
import hmac
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

__all__ = ["data_set_name"]

_KEY_BYTES = 32


def data_set_name(rows: ArrayLike | pd.DataFrame, key: bytes) -> str:
    """Name a data set by a keyed digest of its rows.

    Prefer a name of your own ("loans-2026"): it can't reveal anything, and it stays
    when a row is corrected. This is for data sets that arrive without a name. Call
    it once on *all* rows, before any split: a fold has another digest than the whole.

    Parameters
    ----------
    rows : array-like or DataFrame, shape (n_rows, n_columns)
        All rows, in the order in which they are stored.
    key : bytes
        At least 32 random bytes (``secrets.token_bytes(32)``), kept apart from the
        ledger, as a password is. Whoever has both a name and its key can test a
        guess of the rows.

    Returns
    -------
    str
        "rows-" and 32 hexadecimal digits. Without the key they are as good as random;
        equal names under one key show that rows are equal.

    Raises
    ------
    ValueError
        `key` is too short.

    Notes
    -----
    A digest without a key would tell whoever reads the ledger whether a guess of the
    rows is right, and with it whether one person is among otherwise known rows: the
    very question that differential privacy leaves open. The same holds for a key that
    is stored in the ledger. Hence the ledger holds no key and makes no names.

    Examples
    --------
    >>> import secrets
    >>> from skfairdp.privacy.ledger import data_set_name
    >>> name = data_set_name([[1.0, 2.0]], secrets.token_bytes(32))
    >>> len(name)
    37
    """
    if not isinstance(key, bytes) or len(key) < _KEY_BYTES:
        got = f"{len(key)} bytes" if isinstance(key, bytes) else f"a {type(key).__name__}"
        raise ValueError(
            f"'key' must be at least {_KEY_BYTES} random bytes, e.g. secrets.token_bytes(32); "
            f"got {got}."
        )
    return f"rows-{hmac.new(key, _content(rows), hashlib.sha256).hexdigest()[:32]}"


def _content(rows: Any) -> bytes:
    """Every value with its type, in an encoding that no other rows share."""
    frame = rows if isinstance(rows, pd.DataFrame) else pd.DataFrame(np.asarray(rows))
    columns = [str(name) for name in frame.columns]
    values = [[_text(value) for value in frame.iloc[:, j]] for j in range(frame.shape[1])]
    return repr((columns, values)).encode()


def _text(value: Any) -> str:
    value = value.item() if isinstance(value, np.generic) else value
    return f"{type(value).__name__}:{value!r}"
