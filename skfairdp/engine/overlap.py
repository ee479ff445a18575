"""Test whether two processes hold copies of the same rows, whatever their order.

Each process hashes all its rows with a key that the processes share, and sends the `SKETCH`
smallest distinct digests with their multiplicities. Below the smallest of the largest digests
that were sent, the multiplicities of every process are known. A hash picks these rows, so the
pick says nothing about how rows were dealt to processes.

Equal rows are not always copies: tables have duplicates. Let a value occur t times in two
processes together, c times in the first. If equal records were dealt to processes independently
and with equal probabilities, c is binomial, and ``(2 c - t)**2 / t`` is stochastically smallest
for fair coins. Copies have c = t / 2 instead. So the sum of these terms over all values with
t >= 2 is compared with its law under fair coins, by a Chernoff bound on the probability of so
small a sum. Parts of fixed sizes n and m are coins that happened to fall so: an event of
probability at least ``sqrt(2 / (pi (n + m)))``, by which the bound is divided.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

SKETCH = 1 << 14  # distinct rows of each process that are compared
FALSE_ALARM = 1e-6  # probability to refuse rows that were dealt out at random, at most
_FIXED_SIZES = math.sqrt(math.pi * 2.0**32)  # for 2**33 rows of two processes
_SLOPES = np.geomspace(1e-2, 30.0, 40)  # of Chernoff bounds; any set of them is valid
# More equal rows than this count as this many. The log transform of their term is then at most this
# factor of the other one, so the bound stays one.
_MANY, _SMALLER = 512, 0.999


@dataclass(frozen=True)
class Sketch:
    """Smallest distinct keyed digests of a process's rows, in order, and how often each occurs.

    `whole`: whether these are all distinct rows of the process.
    """

    digests: NDArray[np.uint64]
    counts: NDArray[np.int64]
    whole: bool


def sketch(chunks: Iterable[NDArray[np.floating]], key: bytes, size: int = SKETCH) -> Sketch:
    """Sketch rows that come in parts.

    Parameters
    ----------
    chunks : iterable of ndarray, each of shape (n, ...)
        All rows, in the dtype in which the model reads them. 0.0 and -0.0 are equal.
    key : bytes
        Secret that all processes share.
    size : int
        Number of digests that are kept.

    Returns
    -------
    Sketch
    """
    digests, counts = np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.int64)
    whole = True
    for chunk in chunks:
        found, how_often = np.unique(_digests(chunk, key), return_counts=True)
        both = np.concatenate([digests, found])
        digests, where = np.unique(both, return_inverse=True)
        sums = np.bincount(where, np.concatenate([counts, how_often]), len(digests))
        whole = whole and len(digests) <= size
        digests, counts = digests[:size], sums[:size].astype(np.int64)
    return Sketch(digests, counts, whole)


def hold_copies(sketches: list[Sketch]) -> bool:
    """Whether two of the sketched processes hold copies of the same rows.

    Parameters
    ----------
    sketches : list of Sketch
        One of each process, all with one key.

    Returns
    -------
    bool
        True with probability at most `FALSE_ALARM` for rows that were dealt out at random.
    """
    allowed = math.log(FALSE_ALARM / _FIXED_SIZES / max(1, math.comb(len(sketches), 2)))
    return any(log_chance(*pair) <= allowed for pair in combinations(sketches, 2))


def log_chance(first: Sketch, second: Sketch) -> float:
    """Bound the log probability of splits as even as those of two processes.

    Parameters
    ----------
    first, second : Sketch
        Of two processes, with one key.

    Returns
    -------
    float
        At most 0; far below it for copies.
    """
    ends = [one.digests[-1] for one in (first, second) if not one.whole]
    kept = [one.digests <= min(ends) if ends else slice(None) for one in (first, second)]
    digests = [one.digests[keep] for one, keep in zip((first, second), kept, strict=True)]
    counts = [one.counts[keep] for one, keep in zip((first, second), kept, strict=True)]
    values, where = np.unique(np.concatenate(digests), return_inverse=True)
    cut = len(digests[0])
    own = np.bincount(where[:cut], counts[0], len(values))
    other = np.bincount(where[cut:], counts[1], len(values))
    total = own + other
    several = total >= 2
    if not several.any():
        return 0.0
    total, apart = total[several], (own - other)[several] ** 2
    seen = float((apart / total).sum())
    times, how_many = np.unique(np.minimum(total, _MANY).astype(np.int64), return_counts=True)
    bounds = _SLOPES * seen
    for t, number in zip(times.tolist(), how_many.tolist(), strict=True):
        bounds = bounds + number * _log_transform(t) * (_SMALLER if t == _MANY else 1.0)
    return min(0.0, float(bounds.min()))


def _log_transform(t: int) -> NDArray[np.float64]:
    """Log Laplace transform of a value's term under fair coins, at each slope."""
    c = np.arange(t + 1)
    log_coins = gammaln(t + 1) - gammaln(c + 1) - gammaln(t - c + 1) - t * math.log(2.0)
    terms = log_coins - _SLOPES[:, None] * ((2.0 * c - t) ** 2 / t)
    return np.asarray(np.logaddexp.reduce(terms, axis=1))


def _digests(rows: NDArray[np.floating], key: bytes) -> NDArray[np.uint64]:
    plain = np.ascontiguousarray(rows + rows.dtype.type(0)).reshape(len(rows), -1)
    state = hashlib.blake2b(key=key, digest_size=8)
    found = bytearray()
    for row in plain:
        one = state.copy()
        one.update(row.data)
        found += one.digest()
    return np.frombuffer(bytes(found), dtype="<u8").astype(np.uint64)
