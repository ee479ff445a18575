"""One fit of the PF-LD tables, and what is measured.

Measurements are plain numbers, kept as one line of JSON for each fit, so that the page can
be written again without fitting again.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from fairlearn.reductions import (
    DemographicParity,
    EqualizedOdds,
    ErrorRateParity,
    ExponentiatedGradient,
)
from pfld_data import Task, load_task
from pfld_jobs import CLASSES, DELTA, Job
from sklearn.linear_model import LogisticRegression

import skfairdp
from skfairdp import (
    CovarianceConstrainedClassifier,
    DPSGDClassifier,
    RandomizedAttributeClassifier,
    default_net,
)

MOMENTS = {
    "accuracy_parity": ErrorRateParity,
    "demographic_parity": DemographicParity,
    "equalized_odds": EqualizedOdds,
}


def read_results(path: Path) -> dict[str, dict[str, Any]]:
    """Read measured rows, by `Job.key`."""
    if not path.exists():
        return {}
    rows = (json.loads(line) for line in path.read_text().splitlines())
    return {row["key"]: row for row in rows}


def append_result(path: Path, row: dict[str, Any]) -> None:
    """Add a measured row."""
    with path.open("a") as lines:
        lines.write(json.dumps(row) + "\n")


def run(job: Job, data_home: str | None) -> dict[str, Any]:
    """Fit and measure.

    Parameters
    ----------
    job : Job
    data_home : str or None
        Folder with the data files.

    Returns
    -------
    dict
        Plain numbers and lists; `table` holds the test rows by (group, label,
        prediction): counts, or for predictions drawn at random their expectations.
    """
    torch.set_num_threads(1)
    task = load_task(job.dataset, data_home, job.fold)
    start = time.process_time()
    model, positive, spent = _fit(job, task)
    row = {**asdict(job), "key": job.key, "settings": job.settings}
    row["seconds"] = round(time.process_time() - start, 2)
    row["epsilon_spent"] = spent
    row["table"] = np.round(_table(task, positive), 3).tolist()
    if job.method == "pfld":
        row["clipped"] = _clipped(model, task, job.primal_clip)
    return row


def _fit(job: Job, task: Task) -> tuple[Any, np.ndarray, float | None]:
    """Model, probability of a positive prediction for each test row, and epsilon."""
    settings = dict(job.settings)
    if job.method == "a":
        bound = settings.pop("difference_bound")
        base = LogisticRegression(solver="newton-cholesky")
        moment = MOMENTS[job.notion](difference_bound=bound)
        model = ExponentiatedGradient(base, moment, **settings)
        X, X_test = task.X.astype(np.float64), task.X_test.astype(np.float64)
        model.fit(X, pd.Series(task.y), sensitive_features=pd.Series(task.groups))
        return model, model._pmf_predict(X_test)[:, 1], None
    model = _estimator(job, settings)
    groups = task.groups.astype(object)
    if job.missing > 0.0:
        hidden = np.random.default_rng(job.fold).random(len(groups)) < job.missing
        groups[hidden] = None
    model.fit(task.X, task.y, sensitive_features=groups)
    spent = None if model.privacy_ is None or model.privacy_.is_void else model.privacy_.epsilon
    if job.method in ("m", "m_two_steps"):
        positive = model.predict_proba(task.X_test, sensitive_features=task.groups_test)[:, 1]
    else:
        positive = np.asarray(model.predict(task.X_test), dtype=np.float64)
    return model, positive, spent


def _estimator(job: Job, settings: dict[str, Any]) -> Any:
    if job.method == "z":
        return CovarianceConstrainedClassifier(notion=job.notion, **settings)
    if job.method in ("m", "m_two_steps"):
        return RandomizedAttributeClassifier(notion=job.notion, epsilon=job.epsilon, **settings)
    net = None
    if "hidden_sizes" in settings:
        hidden, rate = settings.pop("hidden_sizes"), settings.pop("lr")
        net = default_net().set_params(
            module__hidden_sizes=hidden, module__activation=torch.nn.ReLU, lr=rate
        )
    common = {"net": net, "delta": DELTA, "progress": False, **settings}
    if job.method == "clf":
        return DPSGDClassifier(epsilon=float("inf"), **common)
    common |= {"epsilon": job.epsilon, "notion": job.notion}
    if job.method == "pfld":
        common |= {"max_grad_norm": job.primal_clip, "max_constraint_norm": job.dual_clip}
    return getattr(skfairdp, CLASSES[job.method])(**common)


def _clipped(model: Any, task: Task, clip: float) -> dict[str, float]:
    """Share of each group's training rows whose gradient of a soft rate is clipped.

    At the final weights, on up to 500 rows a group. It looks at private rows without any
    noise: a diagnostic of the experiment, nothing that a private release may contain.
    """
    module = model.module_
    weights = {name: value.detach() for name, value in module.named_parameters()}
    slope = float(getattr(model, "sharpness", 1.0))

    def soft_rate(weights: dict[str, torch.Tensor], row: torch.Tensor) -> torch.Tensor:
        logit = torch.func.functional_call(module, weights, (row.unsqueeze(0),)).squeeze()
        return torch.sigmoid(slope * logit)

    each = torch.func.vmap(torch.func.grad(soft_rate), in_dims=(None, 0), chunk_size=128)
    shares = {}
    for name in np.unique(task.groups):
        rows = torch.from_numpy(task.X[task.groups == name][:500])
        gradients = each(weights, rows)
        squares = sum(g.flatten(1).square().sum(dim=1) for g in gradients.values())
        shares[str(name)] = round(float((squares.sqrt() > clip).double().mean()), 4)
    return shares


def _table(task: Task, positive: np.ndarray) -> np.ndarray:
    labels, code = np.unique(task.groups_test, return_inverse=True)
    cell = code * 2 + task.y_test
    sums = [
        np.bincount(cell, weights=weight, minlength=2 * len(labels))
        for weight in (1.0 - positive, positive)
    ]
    return np.stack(sums, axis=-1).reshape(len(labels), 2, 2)
