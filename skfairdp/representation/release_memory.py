"""One release per person: noise that is derived from who the person is and what the row says."""

from __future__ import annotations

import hashlib
import math
import secrets
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from skfairdp.documentation import completed_by
from skfairdp.one_column import unmasked
from skfairdp.privacy.mechanisms.geometric import geometric, units_of
from skfairdp.privacy.noise import NoiseSource

_CHUNK = 2**16  # rows whose streams are held at a time, and fewer where they are wide:
_NUMBERS = 2**22  # numbers of theirs that are copied at a time
_WORDS = 8  # 64-bit words in one block of BLAKE2b
_OF_EACH_ROW = """
Parameters
----------
size : int
    The number of rows.

Raises
------
ValueError
    If `size` is not the number of rows, or another argument is out of range.
"""


class RowStreams:
    """An endless stream of uniform integers for each row, each derived from a keyed hash.

    It offers the two draws of a :class:`~skfairdp.privacy.NoiseSource` that randomisers
    need, with the same laws; `size` is always the number of rows, and a second call
    continues the stream of every row. What a row draws depends on nothing but its own key,
    so neither the order of the rows nor the rows beside it change it.

    Parameters
    ----------
    state : hashlib object
        Keyed hash that has already taken in what all rows share.
    people : list of bytes
        Encoded ids of the rows; none is the beginning of another one.
    content : ndarray of float64, shape (n, ...)
        The rows.

    Notes
    -----
    Block b of a row is BLAKE2b(key; shared, id, row, b) with b in eight bytes; in a release the
    row is followed by what is hidden. Integers are drawn by rejection, without modulo bias.
    """

    def __init__(self, state: Any, people: list[bytes], content: NDArray[np.float64]) -> None:
        self._state, self._people, self._content = state, people, content
        self._blocks = np.zeros(len(people), dtype=np.int64)
        self._next = np.full(len(people), _WORDS)
        self._begun: dict[int, Any] = {}  # hashes that have taken in their row
        self._words: NDArray[np.uint64] | None = None  # made when the first integer is drawn

    def __len__(self) -> int:
        return len(self._people)

    def __repr__(self) -> str:
        """Say how many rows there are, and nothing about them."""
        return f"RowStreams({len(self)} rows)"

    def __reduce__(self) -> Any:
        """Refuse to be pickled or copied: the key is inside."""
        raise TypeError("RowStreams cannot be pickled or copied: make them anew from the memory")

    @property
    def width(self) -> int:
        """Numbers of a row."""
        return math.prod(self._content.shape[1:])

    def chunk(self, rows: slice, hidden: NDArray[np.int64]) -> RowStreams:
        """Begin the streams of some of the rows, for what is to be hidden.

        Parameters
        ----------
        rows : slice
            Which ones.
        hidden : ndarray of int64, shape (len(rows), d)
            What the noise will hide, of size 2**53 at most. It is hashed too: should an
            encoder ever give other numbers for the same row (another machine, another
            batch), they get other noise. With the same one, the difference of two
            releases would be the difference of what they hide.

        Returns
        -------
        RowStreams
        """
        content = self._content[rows]
        parts = (content.reshape(len(content), -1), hidden.astype(np.float64))
        return RowStreams(self._state, self._people[rows], np.concatenate(parts, axis=1))

    @completed_by(_OF_EACH_ROW, NoiseSource.integers.__doc__ or "")
    def integers(self, high: int, size: int) -> NDArray[np.int64]:
        """Draw a uniform integer for each row."""
        self._check(size)
        return self._draw(high, np.arange(size))

    @completed_by(_OF_EACH_ROW, NoiseSource.discrete_laplace.__doc__ or "")
    def discrete_laplace(self, epsilon: float, size: int) -> NDArray[np.int64]:
        """Draw an integer k for each row, with weight ``exp(-epsilon |k|)``."""
        self._check(size)
        units = units_of(epsilon)
        return geometric(self._draw, units, size) - geometric(self._draw, units, size)

    def _check(self, size: int) -> None:
        if size != len(self):
            raise ValueError(f"size={size!r} is not the number of rows, {len(self)}")

    def _draw(self, high: int, where: NDArray[np.intp]) -> NDArray[np.int64]:
        drawn = np.empty(where.size, dtype=np.int64)
        # The largest word that is kept: one below the last multiple of `high`.
        last = np.uint64(2**64 - 2**64 % high - 1)
        pending = np.arange(where.size)
        while pending.size:
            words = self._take(where[pending])
            kept = words <= last
            drawn[pending[kept]] = (words[kept] % np.uint64(high)).astype(np.int64)
            pending = pending[~kept]
        return drawn

    def _take(self, where: NDArray[np.intp]) -> NDArray[np.uint64]:
        """Next word of the streams at distinct positions."""
        if self._words is None:
            self._words = np.empty((len(self), _WORDS), dtype=np.uint64)
        empty = where[self._next[where] == _WORDS]
        if empty.size:
            self._words[empty] = self._next_blocks(empty)
            self._next[empty] = 0
        taken = self._words[where, self._next[where]]
        self._next[where] += 1
        return taken

    def _next_blocks(self, where: NDArray[np.intp]) -> NDArray[np.uint64]:
        digests = []
        for row, block in zip(where.tolist(), self._blocks[where].tolist(), strict=True):
            if row not in self._begun:
                begun = self._begun[row] = self._state.copy()
                begun.update(self._people[row])
                begun.update(self._content[row].astype("<f8", copy=False).tobytes())
            state = self._begun[row].copy()
            state.update(block.to_bytes(8, "little"))
            digests.append(state.digest())
        self._blocks[where] += 1
        words = np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)
        return words.reshape(-1, _WORDS)


def in_chunks(
    noise: NoiseSource | RowStreams, hidden: NDArray[np.int64]
) -> Iterator[tuple[slice, NoiseSource | RowStreams]]:
    """Cut rows into chunks, each with its noise, so that memory does not grow with their draws."""
    size, step = len(hidden), _CHUNK
    if isinstance(noise, RowStreams):
        if len(noise) != size:
            raise ValueError(f"noise has streams for {len(noise)} rows; there are {size} rows")
        step = max(1, min(step, _NUMBERS // (noise.width + hidden.shape[1])))
    for start in range(0, size, step):
        rows = slice(start, min(start + step, size))
        yield rows, noise.chunk(rows, hidden[rows]) if isinstance(noise, RowStreams) else noise


class ReleaseMemory:
    """Gives a person the same release again, without remembering people.

    The noise of a row is drawn from a stream that a keyed hash derives from the person's
    id, the row, what is hidden of it, the encoder and the randomiser. So asking twice for
    the same person's release gets the same one, and learns nothing new; two people, two rows, two
    encoders or two randomisers never share noise, whose difference would be the difference
    of what it hides. Nothing is stored but the key.

    Parameters
    ----------
    export_key : bool, default=False
        Whether the key goes into pickles and copies. A holder of the key can subtract
        the noise of every release made with it, so keep such a pickle like the raw rows.
        Without the key, the restored object refuses to make releases.

    Notes
    -----
    The promise is one epsilon for each distinct (row, encoder, randomiser) of a person, if
    BLAKE2b with a secret key can't be told from a random function. That a person's row
    changed, and how often, is not protected.

    Examples
    --------
    >>> import numpy as np
    >>> from skfairdp.representation.release_memory import ReleaseMemory
    >>> memory, rows = ReleaseMemory(), np.array([[1.0, 2.0], [3.0, 4.0]])
    >>> def drawn(ids):
    ...     return memory.streams(ids, rows, "encoder", "mechanism").integers(2**60, 2)
    >>> bool((drawn(["a", "b"]) == drawn(["a", "b"])).all())
    True
    >>> bool((drawn(["a", "b"]) == drawn(["c", "d"])).any())
    False
    >>> memory
    ReleaseMemory(export_key=False)
    """

    def __init__(self, export_key: bool = False) -> None:
        self.export_key = export_key
        self._secret: bytes | None = secrets.token_bytes(32)

    @property
    def has_key(self) -> bool:
        """False after a pickle or copy that left the key out."""
        return self._secret is not None

    def streams(
        self, ids: ArrayLike, X: ArrayLike, encoder_digest: str, mechanism: str
    ) -> RowStreams:
        """Derive the streams from which the releases of rows are drawn.

        Parameters
        ----------
        ids : array-like, shape (n_samples,)
            Who each row is about: integers or texts. The integer 1, the float 1.0 and
            numpy's 1 are one id, the text "1" is another.
        X : array-like, shape (n_samples, ...)
            The rows as the encoder takes them, as numbers. Values that are equal as
            float64 are the same: -0.0 and 0, integers, float32.
        encoder_digest : str
            Digest of everything that decides what is hidden in the noise.
        mechanism : str
            The randomiser's ``identity``, epsilon included.

        Returns
        -------
        RowStreams

        Raises
        ------
        ValueError
            If an id is missing or neither integer nor text, if `X` holds NaN or no
            numbers, if lengths differ, or if the key was not exported.
        """
        if self._secret is None:
            raise ValueError(
                "the key of the release memory was not exported, so that releases cannot be "
                "repeated: pickle with export_key=True, or fit anew (each person's next release "
                "then costs another epsilon)"
            )
        rows = _canonical(X)
        people = _encoded_ids(ids)
        if len(people) != len(rows):
            raise ValueError(f"ids has {len(people)} entries; X has {len(rows)} rows")
        shape = ",".join(map(str, rows.shape[1:]))
        state = hashlib.blake2b(key=self._secret)
        for shared in (encoder_digest, mechanism, shape):
            state.update(_prefixed(shared.encode()))
        return RowStreams(state, people, rows)

    def __repr__(self) -> str:
        """Say whether the key is exported, never the key."""
        lost = "" if self.has_key else ", without a key"
        return f"ReleaseMemory(export_key={self.export_key!r}{lost})"

    def __getstate__(self) -> dict[str, Any]:
        """Leave the key out unless it was asked for."""
        secret = self._secret if self.export_key else None
        return {"export_key": self.export_key, "_secret": secret}

    def _digest_state(self) -> dict[str, Any]:
        """Nothing: a certificate's digest is published and needs no trace of the key."""
        return {}


def _prefixed(content: bytes) -> bytes:
    """Put the length before bytes, so that no two sequences of fields look alike."""
    return len(content).to_bytes(8, "little") + content


def _canonical(X: ArrayLike) -> NDArray[np.float64]:
    """Rows as float64 with one bit pattern for every value."""
    try:
        rows = np.asarray(X)
        if rows.dtype.kind not in "biufO":
            raise TypeError
        rows = np.ascontiguousarray(rows, dtype="<f8")
    except (TypeError, ValueError):
        raise ValueError("X must hold real numbers only, to be recognised again") from None
    if rows.ndim < 2:
        raise ValueError(f"X has {rows.ndim} dimensions; allowed are two or more")
    if np.isnan(rows).any():
        raise ValueError("X contains NaN, and a release is remembered for complete rows only")
    return rows + 0.0  # -0.0 becomes 0.0


def _encoded_ids(ids: ArrayLike) -> list[bytes]:
    """Ids as bytes, each with its kind and its length."""
    column = np.asarray(unmasked(ids), dtype=object)
    if column.ndim != 1:
        raise ValueError(f"ids has {column.ndim} dimensions; allowed is one id for each row")
    if pd.isna(column).any():
        raise ValueError("ids has missing entries; every row needs the id of its person")
    return [_prefixed(_encoded(value)) for value in column.tolist()]


def _encoded(value: Any) -> bytes:
    """One id as bytes, with its kind."""
    if isinstance(value, str):
        return b"s" + value.encode("utf-8", "surrogatepass")
    if isinstance(value, float | np.floating):
        # A whole number in a float, as pandas makes it of integers beside missing values.
        number = float(value)
        if not (number.is_integer() and abs(number) < 2**53):
            raise ValueError(
                "ids has floats that are not whole numbers; allowed are integers and texts"
            )
    elif isinstance(value, bool) or not isinstance(value, int | np.integer):
        kind = type(value).__name__
        raise ValueError(f"ids has an entry of type {kind}; allowed are integers and texts")
    return b"i%d" % int(value)
