"""The operating system's random bits, the same in every run of a test.

What is protected is keyed by the operating system, so a test would see other noise each time, and
one that fails once in a thousand would fail in every other run of some thousand tests. Here each
test draws from a generator that is seeded with its name, in the test's process; processes that it
starts draw honestly. SKFAIRDP_TEST_SEED chooses another seed, "system" the operating system.
"""

from __future__ import annotations

import contextlib
import os
import random
import secrets
import sys
from collections.abc import Iterator

import numpy as np

SEED = os.environ.get("SKFAIRDP_TEST_SEED", "0")


@contextlib.contextmanager
def repeated(name: str) -> Iterator[None]:
    """Give the test of that name the random bits that it always gets."""
    if SEED == "system":
        yield
        return
    bits, here = random.Random(f"{SEED} {name}"), os.getpid()
    honest = secrets.randbits, secrets.token_bytes

    def randbits(k: int) -> int:
        # A forked child would repeat those of its parent.
        return bits.getrandbits(k) if os.getpid() == here else honest[0](k)

    def token_bytes(nbytes: int | None = None) -> bytes:
        return (
            bits.randbytes(32 if nbytes is None else nbytes)
            if os.getpid() == here
            else (honest[1](nbytes))
        )

    np.random.seed(bits.getrandbits(32))  # noqa: NPY002 - what check_random_state(None) draws from
    if (torch := sys.modules.get("torch")) is not None:
        # torch.manual_seed writes down the stack for devices that are not there.
        torch.default_generator.manual_seed(bits.getrandbits(32))
    secrets.randbits, secrets.token_bytes = randbits, token_bytes
    try:
        yield
    finally:
        secrets.randbits, secrets.token_bytes = honest
