"""Draws that belong to a row: the same for the same row, in every process and order."""

from __future__ import annotations

import hashlib

import numpy as np


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
