"""Train one private model on the rows of several processes.

Run as ``torchrun --nproc-per-node 2 train_together.py``; on several machines as torchrun's
documentation says, one process a core. No process sees another's rows, but all of them are
trusted: see docs/scale.md.
"""

from torch import distributed

from skfairdp import DPSGDClassifier, certify
from skfairdp.datasets import make_biased_gaussians

distributed.init_process_group("gloo")
rank, size = distributed.get_rank(), distributed.get_world_size()

# Each process would read files of its own; here each takes its share of one table.
rows = make_biased_gaussians(n_samples=10_000, random_state=0)
mine = slice(rank, None, size)
model = DPSGDClassifier(epsilon=1.0, max_epochs=5)
model.fit(rows.data[mine], rows.target[mine])

if rank == 0:  # the model is the same everywhere
    held_out = make_biased_gaussians(n_samples=4_000, random_state=1)
    print(
        certify(
            model, held_out.data, sensitive_features=held_out.sensitive_features, holdout="public"
        )
    )
    print(f"accuracy {model.score(held_out.data, held_out.target):.2f}")
distributed.destroy_process_group()
