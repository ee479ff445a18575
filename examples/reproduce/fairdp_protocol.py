"""One fit of the FairDP tables, and what is measured.

Measurements are plain numbers, kept as one line of JSON for each fit, so that tables and
pictures can be made again without fitting again.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from fairdp_data import IMAGES, Task, load_task, thin_majority
from fairdp_emp import released_tau
from fairdp_images import linear_net, trained_cnn
from fairdp_jobs import DELTA, N_HEADS, SHARES, Job
from fairlearn.postprocessing import ThresholdOptimizer
from fairlearn.reductions import DemographicParity, ExponentiatedGradient
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, roc_auc_score

from skfairdp import DPSGDClassifier, FairDPClassifier, certify, default_net
from skfairdp.engine.inference import features_and_output


def read_cache(folder: Path) -> dict[str, dict]:
    """Read measured rows, by `Job.key`."""
    rows = {}
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text().splitlines():
            row = json.loads(line)
            rows[row["key"]] = row
    return rows


def append_cache(folder: Path, job: Job, row: dict) -> None:
    """Add a measured row to the cache."""
    with (folder / f"{job.dataset}.jsonl").open("a") as lines:
        lines.write(json.dumps(row) + "\n")


def run(job: Job, data_home: str | None, cache: Path) -> dict:
    """Fit and measure.

    Parameters
    ----------
    job : Job
    data_home : str or None
    cache : Path
        Where features of images are kept.

    Returns
    -------
    dict
        Plain numbers and lists; `table` counts test rows by (group, label, prediction).
    """
    torch.set_num_threads(1)
    task = load_task(job.dataset, data_home, job.seed, cache, images=job.part == "cnn")
    if job.ratio is not None:
        task = thin_majority(task, job.ratio, job.seed)
    start, wall = time.process_time(), time.perf_counter()
    if job.method in ("exponentiated_gradient", "threshold_optimizer"):
        predicted, score, fitted = _yardstick(job, task)
        took = time.process_time() - start
        row = {}
    else:
        model = _estimator(job)
        model.fit(task.X, task.y, sensitive_features=task.groups)
        took = time.process_time() - start
        predicted, score = model.predict(task.X_test), model.predict_proba(task.X_test)[:, 1]
        fitted = model
        row = _ours(job, model, task, score)
    return {
        "key": job.key,
        **asdict(job),
        "seconds": took,
        "wall_seconds": time.perf_counter() - wall,
        "groups": sorted(set(task.groups_test.tolist())),
        "n_train": len(task.y),
        "table": count_table(task, predicted),
        "accuracy": float(np.mean(predicted == task.y_test)),
        "auc": float(roc_auc_score(task.y_test, score)),
        "auc_pr": float(average_precision_score(task.y_test, score)),
        "model": type(fitted).__name__,
        **row,
    }


def _estimator(job: Job) -> DPSGDClassifier | FairDPClassifier:
    settings = dict(job.settings)
    lr = settings.pop("lr")
    net = linear_net() if job.dataset in IMAGES else default_net()
    if job.part == "cnn":
        net = trained_cnn()
    if "hidden_sizes" in settings:
        net.set_params(module__hidden_sizes=settings.pop("hidden_sizes"))
    common = {
        "net": net.set_params(lr=lr),
        "epsilon": float("inf") if job.epsilon is None else job.epsilon,
        "delta": DELTA,
        "random_state": job.seed,
        "progress": False,
    }
    if job.method != "fairdp":
        return DPSGDClassifier(**common, **settings)
    settings["max_head_norm"] = job.max_head_norm
    if job.part == "heads":
        settings.update(n_heads=N_HEADS, prediction="gibbs")
    return FairDPClassifier(**common, **settings)


def _ours(job: Job, model, task: Task, score: np.ndarray) -> dict:
    """What only our estimators can say."""
    certificate = certify(
        model, task.X_test, task.y_test, sensitive_features=task.groups_test,
        notion="demographic_parity", confidence_level=0.95,
        holdout="public",
    )  # fmt: skip
    by_scope = {part.scope: part.bound for part in certificate.fairness}
    spent = None if certificate.privacy is None else certificate.privacy.epsilon
    row = {
        "epsilon_spent": spent,
        "adjacency": None if spent is None else certificate.privacy.adjacency,
        "noise_multiplier": float(model.noise_multiplier_),
        "certified_bound": by_scope.get("averaged over its draws", by_scope.get("deployed model")),
        "theorem2": by_scope.get("training mechanism"),
        "mean_abs_logit": float(np.mean(np.abs(model.decision_function(task.X_test)))),
    }
    if job.method == "clean":
        cuts = np.quantile(score, [1.0 - share for share in SHARES])
        row["curve"] = [count_table(task, score > cut) for cut in cuts]
    if job.part == "main" and job.method == "fairdp" and job.max_head_norm == 1.0 and job.epsilon:
        row["tau_emp"] = released_tau(model, task.X, task.y, task.groups)
    if job.part == "heads":
        head = dict(model.module_.named_modules())[model.head_name_]
        hidden, _ = features_and_output(model.module_, head, task.X_test)
        positive = hidden @ model.heads_[:, :-1].T + model.heads_[:, -1] > 0.0
        row["head_tables"] = [count_table(task, column) for column in positive.T]
    return row


def _yardstick(job: Job, task: Task) -> tuple[np.ndarray, np.ndarray, object]:
    """Fit fairlearn's non-private learners, parity as the constraint."""
    base = LogisticRegression(max_iter=2000)
    groups, test = task.groups, task.groups_test
    # ThresholdOptimizer cannot store float32 probabilities in a pandas 3 frame.
    X, X_test = task.X.astype(np.float64), task.X_test.astype(np.float64)
    if job.method == "exponentiated_gradient":
        model = ExponentiatedGradient(base, DemographicParity(difference_bound=0.01))
        model.fit(X, task.y, sensitive_features=groups)
        predicted = model.predict(X_test, random_state=job.seed)
        return predicted, model._pmf_predict(X_test)[:, 1], model
    model = ThresholdOptimizer(
        estimator=base, constraints="demographic_parity", predict_method="predict_proba"
    )
    model.fit(X, task.y, sensitive_features=groups)
    predicted = model.predict(X_test, sensitive_features=test, random_state=job.seed)
    return predicted, model._pmf_predict(X_test, sensitive_features=test)[:, 1], model


def count_table(task: Task, positive: np.ndarray) -> list:
    """Count test rows by (group, label, prediction).

    Parameters
    ----------
    task : Task
    positive : ndarray, shape (n_test,)
        Predictions, or probabilities of a positive one; counts are then expected ones.

    Returns
    -------
    list, shape (n_groups, 2, 2)
    """
    labels = np.unique(task.groups_test)
    cell = np.searchsorted(labels, task.groups_test) * 2 + task.y_test
    positive = np.asarray(positive, dtype=np.float64)
    counts = [
        np.bincount(cell, weights=share, minlength=2 * len(labels))
        for share in (1.0 - positive, positive)
    ]
    return np.stack(counts, axis=-1).reshape(-1, 2, 2).tolist()
