"""The same on the workers of a Dask cluster, one process each.

Run as ``python train_on_dask.py``; ``Client(address)`` uses a cluster that is there.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from dask.distributed import Client

from skfairdp import DPSGDClassifier
from skfairdp.datasets import make_biased_gaussians


def train(rank: int, size: int, meeting: str) -> DPSGDClassifier:
    """Meet the other workers, and fit one model with them on rows of this one."""
    from torch import distributed

    distributed.init_process_group("gloo", init_method=meeting, rank=rank, world_size=size)
    try:
        rows = make_biased_gaussians(n_samples=10_000, random_state=0)
        mine = slice(rank, None, size)  # a worker would read files of its own
        model = DPSGDClassifier(epsilon=1.0, max_epochs=5)
        return model.fit(rows.data[mine], rows.target[mine])
    finally:
        distributed.destroy_process_group()


if __name__ == "__main__":
    with (
        tempfile.TemporaryDirectory() as folder,
        Client(n_workers=2, threads_per_worker=1, dashboard_address=None) as client,
    ):
        # On several machines: tcp://address:port of the first worker.
        meeting = (Path(folder) / "meeting").as_uri()
        workers = list(client.scheduler_info()["workers"])
        fits = [
            client.submit(train, rank, len(workers), meeting, workers=[worker], pure=False)
            for rank, worker in enumerate(workers)
        ]
        model, same = client.gather(fits)
    print(*model.privacy_.assumptions, sep="\n")
    print("one model:", model.receipt_.digests["module_"] == same.receipt_.digests["module_"])
