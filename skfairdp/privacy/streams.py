"""Secret random streams, AES-128 in counter mode, and draws that belong to a row."""

from __future__ import annotations

import hashlib
import os
import secrets
import weakref
from typing import Any, NoReturn

import numpy as np
from randomgen import AESCounter

GENERATOR = (
    "AES-128 in counter mode, each stream with a 128-bit key and a 128-bit starting counter from "
    "the operating system"
)


def _refuse(*_: Any, **__: Any) -> NoReturn:
    raise TypeError(
        "a NoiseSource and its generators cannot be pickled or copied, and don't show their "
        "state, because a copy would repeat its noise: make a new NoiseSource"
    )


class _Counter(AESCounter):
    """AES-128 in counter mode that hands out no state."""

    state = property(_refuse, _refuse)
    __reduce__ = __reduce_ex__ = __getstate__ = __setstate__ = jumped = spawn = _refuse

    def rekey(self) -> None:
        """Take a new key and counter from the operating system."""
        fresh = AESCounter(key=secrets.randbits(128), counter=secrets.randbits(128)).state
        own = AESCounter.state.__get__(self)["bit_generator"]
        AESCounter.state.__set__(self, fresh | {"bit_generator": own})


class Stream(np.random.Generator):
    """A generator of numpy that can be neither pickled nor copied."""

    __reduce__ = __reduce_ex__ = __getstate__ = __setstate__ = spawn = _refuse


# Streams that a forked process would repeat. Numbers of a child come from keys of its own.
_SECRET: weakref.WeakSet[_Counter] = weakref.WeakSet()


def _rekey_all() -> None:
    for counter in list(_SECRET):
        counter.rekey()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_rekey_all)


def secret_stream() -> Stream:
    """Start a stream that cannot be repeated, with 256 bits of the operating system."""
    counter = _Counter(key=secrets.randbits(128), counter=secrets.randbits(128))
    _SECRET.add(counter)
    return Stream(counter)


def seeded_streams(seed: int, n_streams: int) -> list[Stream]:
    """Start streams that can be repeated with the seed; they protect no record."""
    children = np.random.SeedSequence(seed, pool_size=8).spawn(n_streams)
    return [stream_of(child.generate_state(8).tobytes()) for child in children]


def stream_of(key: bytes) -> Stream:
    """Start the stream of a key that may be public: AES key and counter, little-endian."""
    words = np.frombuffer(key, dtype="<u8")
    return Stream(_Counter(key=words[:2], counter=words[2:]))


def row_uniforms(X: np.ndarray, key: bytes) -> np.ndarray:
    """Draw one number in [0, 1) a row that depends on the row and a key, up to 64 bytes, alone.

    -0.0 and 0.0, and float32 and float64, are the same value.
    """
    canonical = np.ascontiguousarray(X.reshape(len(X), -1), dtype=np.float64) + 0.0
    words = [
        int.from_bytes(hashlib.blake2b(row.tobytes(), key=key, digest_size=8).digest(), "little")
        for row in canonical
    ]
    return np.array([word >> 11 for word in words], dtype=np.float64) * 2.0**-53
