"""torch's random numbers without touching its global state."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

__all__ = ["seeded_torch"]


@contextmanager
def seeded_torch(seed: int) -> Iterator[None]:
    """Seed torch inside the block and put its global generators back afterwards.

    For initial weights, and for dropout with a seed that nobody knows: masks are drawn for
    a batch, so one record less shifts those of all others, and a clip norm bounds the change
    only on average over masks. Noise and batches never come from torch.

    Parameters
    ----------
    seed : int
        Seed of the block.
    """
    devices = list(range(torch.cuda.device_count())) if torch.cuda.is_available() else []
    with torch.random.fork_rng(devices=devices):
        torch.random.default_generator.manual_seed(seed)
        for device in devices:
            with torch.cuda.device(device):
                torch.cuda.manual_seed(seed)
        yield
