"""Noise derived from a secret key, a person's id and the hidden value, so that releases repeat."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from skfairdp.foundation.documentation import completed_by
from skfairdp.privacy.mechanisms.integer_noise import geometric, units_of
from skfairdp.privacy.noise import NoiseSource
from skfairdp.records.one_column import unmasked
from skfairdp.records.persons import refuse_rounded

_CHUNK = 2**16  # rows whose streams are held at a time, and fewer where they are wide:
_NUMBERS = 2**22  # numbers of theirs that are copied at a time
_WORDS = 8  # 64-bit words in one block of BLAKE2b
_KIND_AT = slice(8, 9)  # of an encoded id, behind its length: whether it is a text or a number
_MIXED = (
    "{where}: 7 and '7' would be two people, whose releases are counted apart. Turn all ids into "
    "text, or all into whole numbers, in every call."
)
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
    so neither the order of the rows nor other rows change it.

    Parameters
    ----------
    state : hashlib object
        Keyed hash that has already taken in what all rows share.
    people : list of bytes
        Encoded ids of the rows; none is the beginning of another one.
    hidden : ndarray of int64, shape (n, d)
        Values that the noise hides.

    Notes
    -----
    Block b of a row is BLAKE2b(key; shared, id, hidden value, b) with b in eight bytes. Integers
    are drawn by rejection, without modulo bias.
    """

    def __init__(self, state: Any, people: list[bytes], hidden: NDArray[np.int64]) -> None:
        self._state, self._people, self._hidden = state, people, hidden
        self._blocks = np.zeros(len(people), dtype=np.int64)
        self._next = np.full(len(people), _WORDS)
        self._begun: dict[int, Any] = {}  # hashes that have taken in their row
        self._words: NDArray[np.uint64] | None = None  # made when the first integer is drawn

    def __len__(self) -> int:
        return len(self._people)

    @property
    def people(self) -> list[bytes]:
        """Encoded ids of the rows."""
        return self._people

    def __repr__(self) -> str:
        """Say how many rows there are, and nothing about them."""
        return f"RowStreams({len(self)} rows)"

    def __reduce__(self) -> Any:
        """Refuse to be pickled or copied: the key is inside."""
        raise TypeError("RowStreams cannot be pickled or copied: make them anew from the memory")

    def chunk(self, rows: slice, hidden: NDArray[np.int64]) -> RowStreams:
        """Begin the streams of some of the rows.

        Parameters
        ----------
        rows : slice
            Which ones.
        hidden : ndarray of int64, shape (len(rows), d)
            Values that the noise hides.

        Returns
        -------
        RowStreams

        Raises
        ------
        ValueError
            The streams were derived for other values: with the same noise, the difference of two
            releases would be the difference of the hidden values.
        """
        if not np.array_equal(self._hidden[rows], hidden):
            raise ValueError(
                "the noise of these streams belongs to other hidden values: make the streams anew"
            )
        return RowStreams(self._state, self._people[rows], self._hidden[rows])

    def digests(self) -> NDArray[np.uint64]:
        """Name each row's person and hidden value, under the key: equal for equal noise.

        Returns
        -------
        ndarray of uint64, shape (n,)
        """
        found = (self._begin(row).digest()[:8] for row in range(len(self)))
        return np.frombuffer(b"".join(found), dtype="<u8").astype(np.uint64)

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
                self._begun[row] = self._begin(row)
            state = self._begun[row].copy()
            state.update(block.to_bytes(8, "little"))
            digests.append(state.digest())
        self._blocks[where] += 1
        words = np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)
        return words.reshape(-1, _WORDS)

    def _begin(self, row: int) -> Any:
        state = self._state.copy()
        state.update(self._people[row])
        state.update(self._hidden[row].astype("<i8", copy=False).tobytes())
        return state


def in_chunks(
    noise: NoiseSource | RowStreams, hidden: NDArray[np.int64]
) -> Iterator[tuple[slice, NoiseSource | RowStreams]]:
    """Cut rows into chunks, each with its noise, so that memory does not grow with their draws."""
    size, step = len(hidden), _CHUNK
    if isinstance(noise, RowStreams):
        if len(noise) != size:
            raise ValueError(f"noise has streams for {len(noise)} rows; there are {size} rows")
        step = max(1, min(step, _NUMBERS // max(1, hidden.shape[1])))
    for start in range(0, size, step):
        rows = slice(start, min(start + step, size))
        yield rows, noise.chunk(rows, hidden[rows]) if isinstance(noise, RowStreams) else noise


@dataclass(frozen=True, repr=False)
class Counted:
    """Releases by id that are about to be counted.

    Parameters
    ----------
    most : int
        Distinct hidden values that a person of them has released then, at most.
    releases : ndarray of uint64
        Digests of new releases.
    people : ndarray of uint64
        Digest of the person of each.
    kind : bytes or None
        Kind of the ids, texts or numbers; None where nobody has released.
    """

    most: int
    releases: NDArray[np.uint64]
    people: NDArray[np.uint64]
    kind: bytes | None


class ReleaseMemory:
    """Memory that repeats a person's release without storing values.

    The noise of a row is drawn from a stream that a keyed hash derives from the person's
    id, the hidden value, the encoder and the randomiser. So asking twice for the same person's
    release of one hidden value gets the same one, however the row was written, and learns nothing
    new; two people, two hidden values, two encoders or two randomisers never share noise, whose
    difference would be the difference of the hidden values. The key is stored, and for each
    release keyed digests of 16 bytes, which count the hidden values of a person.

    Parameters
    ----------
    export_key : bool, default=False
        Whether the key goes into pickles and copies. A holder of the key can subtract
        the noise of every release made with it, so keep such a pickle like the raw rows.
        Without the key, the restored object refuses to make releases.

    Notes
    -----
    The promise is one epsilon for each distinct (hidden value, encoder, randomiser) of a person,
    if BLAKE2b with a secret key cannot be distinguished from a random function. Whether two rows
    of a person hide the same value is not protected.

    Examples
    --------
    >>> import numpy as np
    >>> from skfairdp.representation.release_memory import ReleaseMemory
    >>> memory, hidden = ReleaseMemory(), np.array([[1, 2], [3, 4]])
    >>> def drawn(ids):
    ...     return memory.streams(ids, hidden, "encoder", "mechanism").integers(2**60, 2)
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
        self._forget()

    def _forget(self) -> None:
        # Of all releases, each in order: digests of (person, hidden value), and of the person.
        self._released = np.empty(0, dtype=np.uint64)
        self._people = np.empty(0, dtype=np.uint64)
        self._kind: bytes | None = None  # of the ids: texts, or numbers

    @property
    def has_key(self) -> bool:
        """False after a pickle or copy that left the key out."""
        return self._secret is not None

    def streams(
        self, ids: ArrayLike, hidden: NDArray[np.int64], encoder_digest: str, mechanism: str
    ) -> RowStreams:
        """Derive the streams from which the releases of rows are drawn.

        Parameters
        ----------
        ids : array-like, shape (n_samples,)
            Who each row is about: integers or texts. The integer 1, the float 1.0 and
            numpy's 1 are one id, the text "1" is another.
        hidden : ndarray of int, shape (n_samples, d)
            Values that the noise hides, as the randomiser's `points` gives them.
        encoder_digest : str
            Digest of everything that decides which value is hidden.
        mechanism : str
            The randomiser's ``identity``, epsilon included.

        Returns
        -------
        RowStreams

        Raises
        ------
        ValueError
            If an id is missing or neither integer nor text, if `hidden` holds no integers, if
            lengths differ, or if the key was not exported.
        """
        if self._secret is None:
            raise ValueError(
                "the key of the release memory was not exported, so that releases cannot be "
                "repeated: pickle with export_key=True, or fit anew (each person's next release "
                "then costs another epsilon)"
            )
        if hidden.ndim != 2 or hidden.dtype.kind not in "iu":
            raise ValueError(
                f"hidden has dtype {hidden.dtype} and {hidden.ndim} dimensions; allowed are whole "
                "numbers, a row for each person"
            )
        people = _encoded_ids(ids)
        if len(people) != len(hidden):
            raise ValueError(f"ids has {len(people)} entries; X has {len(hidden)} rows")
        state = hashlib.blake2b(key=self._secret)
        for shared in (encoder_digest, mechanism, str(hidden.shape[1])):
            state.update(_prefixed(shared.encode()))
        return RowStreams(state, people, hidden.astype(np.int64))

    def count(self, streams: RowStreams) -> Counted:
        """Count the releases of each person if `streams` are released; nothing is noted yet.

        Parameters
        ----------
        streams : RowStreams
            Of this memory.

        Returns
        -------
        Counted

        Raises
        ------
        ValueError
            If ids were texts in an earlier release, and are numbers now, or the reverse.
        """
        assert self._secret is not None
        key = self._secret
        kind = streams.people[0][_KIND_AT] if streams.people else self._kind
        if self._kind not in (None, kind):
            raise ValueError(
                _MIXED.format(where="ids are texts in one call and numbers in another")
            )
        made = (hashlib.blake2b(one, digest_size=8, key=key).digest() for one in streams.people)
        people = np.frombuffer(b"".join(made), dtype="<u8").astype(np.uint64)
        releases, where = np.unique(streams.digests(), return_index=True)
        new = ~_among(releases, self._released)
        asked, added = np.unique(people, return_inverse=True)
        fresh = np.zeros(len(asked), dtype=np.int64)
        np.add.at(fresh, added[where[new]], 1)
        before = np.searchsorted(self._people, asked, "right")
        before = before - np.searchsorted(self._people, asked, "left")
        most = int((before + fresh).max(initial=0))
        return Counted(most, releases[new], people[where[new]], kind)

    def note(self, counted: Counted) -> None:
        """Remember releases that `count` looked at.

        Parameters
        ----------
        counted : Counted
            Of this memory, with nothing noted in between.
        """
        self._kind = counted.kind
        if len(counted.releases):
            self._released = np.sort(np.concatenate([self._released, counted.releases]))
            self._people = np.sort(np.concatenate([self._people, counted.people]))

    def __repr__(self) -> str:
        """Say whether the key is exported, never the key."""
        lost = "" if self.has_key else ", without a key"
        return f"ReleaseMemory(export_key={self.export_key!r}{lost})"

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the key and the values under it, unless they were asked for."""
        if self.export_key:
            return dict(vars(self))
        return {"export_key": self.export_key, "_secret": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore; without a key nothing can be released by id, and nothing is counted."""
        self._forget()
        vars(self).update(state)

    def _digest_state(self) -> dict[str, Any]:
        """Nothing: a certificate's digest is published and needs no trace of the key."""
        return {}


def _among(values: NDArray[np.uint64], known: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Whether each value is among known ones, which are in order."""
    if not len(known):
        return np.zeros(len(values), dtype=bool)
    at = np.minimum(np.searchsorted(known, values), len(known) - 1)
    return np.asarray(known[at] == values)


def _prefixed(content: bytes) -> bytes:
    """Put the length before bytes, so that no two sequences of fields look alike."""
    return len(content).to_bytes(8, "little") + content


def _encoded_ids(ids: ArrayLike) -> list[bytes]:
    """Ids as bytes, each with its kind and its length."""
    refuse_rounded(ids, "ids")
    column = np.asarray(unmasked(ids), dtype=object)
    if column.ndim != 1:
        raise ValueError(f"ids has {column.ndim} dimensions; allowed is one id for each row")
    if pd.isna(column).any():
        raise ValueError("ids has missing entries; every row needs the id of its person")
    encoded = [_encoded(value) for value in column.tolist()]
    if len({one[:1] for one in encoded}) > 1:
        raise ValueError(_MIXED.format(where="ids mixes texts and numbers"))
    return list(map(_prefixed, encoded))


def _encoded(value: Any) -> bytes:
    """One id as bytes, with its kind."""
    if isinstance(value, str):
        return b"s" + value.encode("utf-8", "surrogatepass")
    if isinstance(value, float | np.floating):
        # A whole number in a float, as pandas makes it of integers with missing values.
        number = float(value)
        if isinstance(value, np.float16 | np.float32):
            raise ValueError(
                "ids has floats of 16 or 32 bits, whose rounding could make one person of two; "
                "allowed are integers and texts"
            )
        if not (number.is_integer() and abs(number) < 2**53):
            raise ValueError(
                "ids has floats that are not whole numbers; allowed are integers and texts"
            )
    elif isinstance(value, bool) or not isinstance(value, int | np.integer):
        kind = type(value).__name__
        raise ValueError(f"ids has an entry of type {kind}; allowed are integers and texts")
    return b"i%d" % int(value)
