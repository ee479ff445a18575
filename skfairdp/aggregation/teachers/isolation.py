"""Isolation of users' models: their random numbers, output and warnings stay separate.

A teacher may draw from the global generators of numpy, Python and torch, and may print what
it learns. The first would make one record change all teachers that come later; the second
reveals the rows of a shard.
"""

from __future__ import annotations

import ctypes
import logging
import os
import random
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from types import FrameType
from typing import Any

import numpy as np
import torch
from joblib import parallel_config

# Global generators, streams and loggers are one a process: threads take turns.
_TURN = threading.RLock()


@contextmanager
def own_globals(generator: np.random.Generator) -> Iterator[None]:
    """Seed the global generators of numpy, Python and torch in the block, and put them back.

    The seeds are not secret: other threads of the process can see them while the block runs, and
    their draws from global generators move it.
    """
    devices = list(range(torch.cuda.device_count())) if torch.cuda.is_available() else []
    with _TURN, torch.random.fork_rng(devices=devices):
        before = np.random.get_state(legacy=False), random.getstate()  # noqa: NPY002
        try:
            np.random.seed(generator.integers(2**32, size=4))  # noqa: NPY002
            random.seed(int(generator.integers(2**63)))
            torch.random.default_generator.manual_seed(int(generator.integers(2**63)))
            for device in devices:
                with torch.cuda.device(device):
                    torch.cuda.manual_seed(int(generator.integers(2**63)))
            yield
        finally:
            np.random.set_state(before[0])  # noqa: NPY002
            random.setstate(before[1])


@contextmanager
def alone(generator: np.random.Generator) -> Iterator[None]:
    """Let users' code run by itself: with its own random numbers, and without output.

    What is printed (by C code too), logged and warned of in the block is dropped, and joblib
    starts no workers in it, for their generators would remember earlier blocks. In other
    threads of this process nothing is printed or logged either meanwhile.
    """
    with (
        own_globals(generator),
        open(os.devnull, "w") as nowhere,
        _descriptors_to(nowhere.fileno()),
        redirect_stdout(nowhere),
        redirect_stderr(nowhere),
        warnings.catch_warnings(record=True),
        _no_logs(),
        parallel_config(backend="sequential"),
    ):
        warnings.simplefilter("ignore")
        yield


@contextmanager
def noting_interrupts() -> Iterator[Callable[[], bool]]:
    """Distinguish an interrupt by the user from a KeyboardInterrupt that a teacher raises.

    Yields a function that says whether this process got SIGINT since the block began. Python
    delivers it to the main thread alone, so in other threads the answer is no.
    """
    came: list[int] = []
    before = None
    if threading.current_thread() is threading.main_thread():
        before = signal.getsignal(signal.SIGINT)
    if before is None or not callable(before):  # another thread, or nobody listens
        yield lambda: False
        return

    def note(number: int, frame: FrameType | None) -> Any:
        came.append(number)
        return before(number, frame)

    signal.signal(signal.SIGINT, note)
    try:
        yield lambda: bool(came)
    finally:
        if signal.getsignal(signal.SIGINT) is note:
            signal.signal(signal.SIGINT, before)


@contextmanager
def _descriptors_to(target: int) -> Iterator[None]:
    """Send file descriptors 1 and 2, which code in C writes to, somewhere else."""
    saved = {}
    for descriptor in (1, 2):
        with suppress(OSError):  # closed: nothing can be printed there
            saved[descriptor] = os.dup(descriptor)
    streams = {sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__}
    _flush(streams)
    try:
        for descriptor in saved:
            os.dup2(target, descriptor)
        yield
    finally:
        _flush(streams)  # what waits in buffers came from the block
        for descriptor, copy in saved.items():
            os.dup2(copy, descriptor)
            os.close(copy)


def _flush(streams: set) -> None:
    for stream in streams:
        with suppress(AttributeError, OSError, ValueError):  # absent, broken or closed
            stream.flush()
    if os.name == "posix":
        ctypes.CDLL(None).fflush(None)


@contextmanager
def _no_logs() -> Iterator[None]:
    before = logging.root.manager.disable
    logging.disable(sys.maxsize)
    try:
        yield
    finally:
        logging.disable(before)
