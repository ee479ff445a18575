"""Colored MNIST under Laplace noise: what a release shows of colour and digit (figure 4).

Run it as

    python examples/reproduce/ldp_digits.py --data-home "$SKFAIRDP_DATA"

The representation has the shape of the image, 3 x 10 x 10, so its 300 numbers share the budget and
epsilon has to be large for anything to be seen: such values protect no one. Two encoders
for
each epsilon: one keeps the digit (sensitive: colour), the other the colour (sensitive: digit).
"""

from __future__ import annotations

import argparse
import json
import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import torch
from ldp_table2 import CACHE
from sklearn.ensemble import RandomForestClassifier
from tqdm import tqdm

from skfairdp import PrivateFairEncoder
from skfairdp.datasets import make_colored_mnist
from skfairdp.representation.networks import (
    ConvRepresentationModule,
    representation_net,
)

SIZE, N_SHOWN, N_TEST = 10, 8, 2_000


@dataclass(frozen=True)
class Job:
    """One encoder."""

    utility: str
    epsilon: float
    beta: float = 100.0
    n_train: int = 3_000
    epochs: int = 6
    batch_size: int = 64

    @property
    def key(self) -> str:
        """Identity in the file of results."""
        return json.dumps(asdict(self), sort_keys=True)


JOBS = [Job(u, e) for u in ("digit", "color") for e in (3000.0, 1000.0, 300.0)]


def fitted(job: Job, data_home: str | None) -> dict:
    """Fit one encoder; accuracies, and what its releases of some test images look like."""
    start = time.perf_counter()
    train, test = (
        make_colored_mnist(
            utility=job.utility, size=SIZE, part=part, n_samples=n, data_home=data_home
        )
        for part, n in (("train", job.n_train), ("test", N_TEST))
    )
    net = representation_net().set_params(module=ConvRepresentationModule)
    encoder = PrivateFairEncoder(
        net=net,
        epsilon=job.epsilon,
        beta=job.beta,
        n_components=3 * SIZE**2,
        column_types="gaussian",
        batch_size=job.batch_size,
        max_epochs=job.epochs,
        random_state=0,
        progress=False,
    ).fit(train.data, train.target, sensitive_features=train.sensitive_features)
    released = {name: encoder.transform(b.data) for name, b in (("train", train), ("test", test))}
    attacker = RandomForestClassifier(50, random_state=0)
    attacker.fit(released["train"], train.sensitive_features)
    shown = slice(0, N_SHOWN)
    rebuilt = encoder.reconstruct(
        released["test"][shown], sensitive_features=test.sensitive_features[shown]
    )
    return {
        "key": job.key,
        "seconds": round(time.perf_counter() - start, 1),
        "accuracy": float((encoder.predict_from(released["test"]) == test.target).mean()),
        "attack": float(attacker.score(released["test"], test.sensitive_features)),
        "images": test.data[shown].reshape(N_SHOWN, -1).round(3).tolist(),
        "released": released["test"][shown].round(3).tolist(),
        "rebuilt": rebuilt.round(3).tolist(),
    }


def draw(results: dict[str, dict], path: Path) -> None:
    """A grid: images above; below, for each encoder, releases and what is rebuilt from them."""
    jobs = [job for job in JOBS if job.key in results]
    figure, axes = plt.subplots(
        1 + 2 * len(jobs), N_SHOWN, figsize=(9.5, 1.0 + 1.5 * len(jobs)), layout="constrained"
    )
    lines = [("images", "image", jobs[0])]
    for job in jobs:
        kept = "digit" if job.utility == "digit" else "colour"
        hidden = "colour" if job.utility == "digit" else "digit"
        found = results[job.key]
        text = (
            f"{kept} kept, ε = {job.epsilon:g}\n{kept} right: {found['accuracy']:.2f}\n"
            f"{hidden} right: {found['attack']:.2f}"
        )
        lines += [("released", text, job), ("rebuilt", "rebuilt, group given", job)]
    for line, (name, text, job) in zip(axes, lines, strict=True):
        pictures = np.array(results[job.key][name]).reshape(-1, 3, SIZE, SIZE)
        # A release lies around [-t, t] = [-0.5, 0.5]; what noise leads out of [-1, 1] is cut here.
        shown = (pictures + 1) / 2 if name == "released" else pictures
        for axis, picture in zip(line, np.clip(shown, 0, 1), strict=True):
            axis.imshow(picture.transpose(1, 2, 0))
            axis.set(xticks=[], yticks=[])
        line[0].set_ylabel(text, rotation=0, ha="right", va="center", fontsize=8)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main() -> None:
    """Fit what is missing, then draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-home", default=os.environ.get("SKFAIRDP_DATA"))
    parser.add_argument("--cache", type=Path, default=CACHE / "digits")
    parser.add_argument(
        "--picture", type=Path, default=Path("docs/results/representations_digits.png")
    )
    parser.add_argument("--report-only", action="store_true", help="fit nothing")
    options = parser.parse_args()
    options.cache.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    path = options.cache / "digits.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    results = {row["key"]: row for row in map(json.loads, lines)}
    missing = [] if options.report_only else [job for job in JOBS if job.key not in results]
    for job in tqdm(missing, desc="encoders"):
        row = fitted(job, options.data_home)
        results[row["key"]] = row
        with path.open("a") as lines_out:
            lines_out.write(json.dumps(row) + "\n")
    draw(results, options.picture)
    print(options.picture)


if __name__ == "__main__":
    main()
