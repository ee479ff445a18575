"""One fit of the comparison, and what is measured."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from baselines_jobs import METHODS, NETS, REDUCTION, Job
from fairdp_data import Task, load_task
from fairdp_jobs import DELTA, PINNED, SHARES
from fairdp_protocol import count_table
from fairlearn.reductions import DemographicParity, ExponentiatedGradient
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import StandardScaler

import skfairdp
from skfairdp import certify, default_net

# Methods whose threshold is moved: a table of counts for every share of positive predictions.
CURVES = ("clean", "dpsgd")


def run(job: Job, data_home: str | None) -> dict:
    """Fit and measure.

    Parameters
    ----------
    job : Job
    data_home : str or None
        Folder with the data files.

    Returns
    -------
    dict
        Plain numbers and lists; `table` counts test rows by (group, label, prediction).
    """
    torch.set_num_threads(1)
    if job.method == REDUCTION:
        task = load_task(job.dataset, data_home, job.seed, None, columns="raw")
        measured = _reduction(job, task)
    else:
        task = load_task(job.dataset, data_home, job.seed, None, columns="clipped")
        model = estimator(job)
        start = time.process_time()
        model.fit(task.X, task.y, sensitive_features=task.groups)
        measured = {"seconds": time.process_time() - start, **_measured(job, model, task)}
    return {"key": job.key, **asdict(job), "n_train": len(task.y), **measured}


def estimator(job: Job) -> Any:
    """Build the unfitted estimator of a job of this package."""
    method = METHODS[job.method]
    kind = getattr(skfairdp, method.estimator)
    if method.smooths is not None:
        return kind(estimator(Job(job.dataset, method.smooths, job.seed, job.epsilon)),
                    random_state=job.seed, **method.own)  # fmt: skip
    common = {
        "epsilon": float("inf") if job.epsilon is None else job.epsilon,
        "delta": DELTA,
        "random_state": job.seed,
        **method.own,
    }
    if "progress" in job.settings:
        common["progress"] = False
    if job.method == "rate":
        common |= {"tolerance": job.tolerance, "notion": job.notion}
    if not method.net:
        return kind(**common)
    settings = {**PINNED, **NETS[job.dataset]}
    net = default_net().set_params(
        lr=settings.pop("lr"), module__hidden_sizes=settings.pop("hidden_sizes")
    )
    return kind(net, **settings, **common)


def _measured(job: Job, model: Any, task: Task) -> dict:
    predicted, score = model.predict(task.X_test), model.predict_proba(task.X_test)[:, 1]
    certificate = certify(
        model, task.X_test, task.y_test, sensitive_features=task.groups_test,
        notion="demographic_parity", confidence_level=0.95,
        holdout="public",
    )  # fmt: skip
    # Of models that draw the table shows the direct bound on averages, as their papers do.
    averaged = [part for part in certificate.fairness if part.scope == "averaged over its draws"]
    direct = [part.bound for part in averaged or certificate.fairness if part.estimate is not None]
    privacy = certificate.privacy
    measured = {
        "table": count_table(task, predicted),
        "auc": float(roc_auc_score(task.y_test, score)),
        "certified_bound": direct[0],
        "bounds": {part.method: part.bound for part in certificate.fairness},
        "epsilon_spent": None if privacy is None else privacy.epsilon,
        "protects": None if privacy is None else privacy.protects,
        "adjacency": None if privacy is None else privacy.adjacency,
    }
    if job.method in CURVES:
        cuts = np.quantile(score, [1.0 - share for share in SHARES])
        measured["curve"] = [count_table(task, score > cut) for cut in cuts]
    return measured


def _reduction(job: Job, task: Task) -> dict:
    """Fit fairlearn's reduction, which protects no record, on standardized columns.

    Its predictions are drawn at random; what is counted is their expectation, so a table
    has no error from the draw.
    """
    start = time.process_time()
    scale = StandardScaler().fit(task.X)
    model = ExponentiatedGradient(
        LogisticRegression(max_iter=2000), DemographicParity(difference_bound=job.tolerance)
    ).fit(scale.transform(task.X), task.y, sensitive_features=task.groups)
    seconds = time.process_time() - start
    positive = model._pmf_predict(scale.transform(task.X_test))[:, 1]
    return {
        "seconds": seconds,
        "table": count_table(task, positive),
        "auc": float(roc_auc_score(task.y_test, positive)),
    }
