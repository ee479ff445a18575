"""Jobs of the PF-LD table and sweeps: what is fitted, and with which settings."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pfld_data import TABLE_2
from pfld_published import NOTIONS

import skfairdp

DELTA = 1e-5
EPSILON = 1.0
# The paper's C_p and C_d are 10 and 5. Ours bound other vectors: the gradient of a soft rate
# with saturating units, and a row of a table whose norm is 1 anyway.
PRIMAL_CLIP, DUAL_CLIP = 1.0, 1.0
PARTS = ("table", "missing", "primal_clip", "dual_clip", "epsilon")
METHODS = ("clf", "z", "a", "m", "m_two_steps", "pfld", "rate_constrained")
TITLES = {
    "clf": "CLF",
    "z": "Z",
    "a": "A",
    "m": "M",
    "m_two_steps": "M, two steps",
    "pfld": "PF-LD",
    "rate_constrained": "RateConstrained",
}
PRIVATE = ("m", "m_two_steps", "pfld", "rate_constrained")
# Methods whose estimators may not be there yet.
CLASSES = {"pfld": "LagrangianDualClassifier", "rate_constrained": "RateConstrainedClassifier"}

MISSING = (0.0, 0.2, 0.4, 0.6)
PRIMAL_CLIPS = (0.1, 0.3, 1.0, 3.0, 10.0, 20.0, 100.0)
DUAL_CLIPS = (0.1, 0.5, 1.0, 5.0, 10.0, 100.0)
EPSILONS = (0.1, 0.5, 1.0, 2.0, 5.0)
RUNS = 10
# Figures 1 to 5 of the paper use these two.
SWEPT = ("bank", "income")

NET = {"hidden_sizes": (64, 64), "lr": 0.01}
# Pinned, so that a change of the package's defaults does not change published tables.
SETTINGS: dict[str, dict[str, Any]] = {
    "clf": {**NET, "max_epochs": 10, "batch_size": 256, "max_grad_norm": 10.0},
    "z": {"max_covariance": 0.0, "alpha": 1e-6},
    "a": {"difference_bound": 0.01, "max_iter": 30},
    "m": {"tolerance": 0.02, "group_at_predict": "none", "max_iter": 30},
    "m_two_steps": {"tolerance": 0.02, "group_at_predict": "raw", "max_iter": 30},
    "pfld": {
        **NET,
        "tolerance": 0.01,
        "penalty": 3.0,
        "dual_rate": 0.05,
        "max_multiplier": 2.0,
        "memory": 0.97,
        "batch_size": "auto",
        "loss_batch_size": "auto",
        "warmup_epochs": 8,
        "max_epochs": 30,
    },
    "rate_constrained": {"tolerance": 0.02},  # and its own default network
}
# Other tolerances asked of the two networks, by method, data set and notion.
TOLERANCES: dict[tuple[str, str, str], float] = {}


@dataclass(frozen=True)
class Job:
    """One fit.

    Parameters
    ----------
    part : str
        One of `PARTS`.
    dataset : str
    method : str
        One of `METHODS`.
    notion : str or None
        None for the method that knows none; its fits serve all notions.
    fold : int
    epsilon : float or None
        None for a method that has no budget.
    missing : float
        Share of training rows whose group is not disclosed.
    primal_clip, dual_clip : float or None
        The paper's C_p and C_d, for PF-LD.
    """

    part: str
    dataset: str
    method: str
    notion: str | None
    fold: int
    epsilon: float | None = None
    missing: float = 0.0
    primal_clip: float | None = None
    dual_clip: float | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """Hyperparameters of the fit."""
        settings = dict(SETTINGS[self.method])
        asked = TOLERANCES.get((self.method, self.dataset, self.notion or ""))
        return settings if asked is None else {**settings, "tolerance": asked}

    @property
    def key(self) -> str:
        """Identity in the file of results; other hyperparameters make another job.

        The part is not in it: points that sweeps share with the table are fitted once.
        """
        fields = {name: value for name, value in asdict(self).items() if name != "part"}
        return json.dumps([fields, self.settings], sort_keys=True)


def available(method: str) -> bool:
    """Whether the package has the method's estimator."""
    return hasattr(skfairdp, CLASSES.get(method, "certify"))


def planned(
    parts: Sequence[str], datasets: Sequence[str], methods: Sequence[str], folds: int
) -> Iterator[Job]:
    """List the jobs of the chosen parts, the first fold of everything first.

    Parameters
    ----------
    parts, datasets, methods : sequence of str
        What to list; methods without an estimator are left out.
    folds : int
        Number of folds of the table.

    Yields
    ------
    Job
    """
    methods = [method for method in methods if available(method)]
    for fold in range(folds):
        for dataset in datasets:
            if "table" in parts:
                yield from _table(dataset, methods, fold)
            if "pfld" in methods and dataset in SWEPT:
                yield from _clips(parts, dataset, fold)
            if "missing" in parts and "pfld" in methods:
                for share in MISSING:
                    for notion in NOTIONS:
                        yield pfld_job("missing", dataset, notion, fold, missing=share)
    if "epsilon" in parts:
        for run in range(RUNS):
            for dataset in (name for name in datasets if name in SWEPT):
                for notion in NOTIONS:
                    for epsilon in EPSILONS:
                        for method in (m for m in ("m", "pfld") if m in methods):
                            yield (
                                pfld_job("epsilon", dataset, notion, run, epsilon=epsilon)
                                if method == "pfld"
                                else Job("epsilon", dataset, method, notion, run, epsilon)
                            )


def pfld_job(part: str, dataset: str, notion: str, fold: int, **changes: float) -> Job:
    """Make a job of PF-LD with the paper's settings, some of them changed.

    Parameters
    ----------
    part, dataset, notion, fold
        As in `Job`.
    **changes : float
        Fields of `Job`.

    Returns
    -------
    Job
    """
    fields = {"epsilon": EPSILON, "primal_clip": PRIMAL_CLIP, "dual_clip": DUAL_CLIP, **changes}
    return Job(part, dataset, "pfld", notion, fold, **fields)


def _table(dataset: str, methods: Sequence[str], fold: int) -> Iterator[Job]:
    whole = dataset in TABLE_2
    for method in methods:
        if method == "clf":
            yield Job("table", dataset, method, None, fold)
            continue
        for notion in NOTIONS if whole else ("demographic_parity",):
            if method == "pfld":
                yield pfld_job("table", dataset, notion, fold)
            else:
                epsilon = EPSILON if method in PRIVATE else None
                yield Job("table", dataset, method, notion, fold, epsilon)


def _clips(parts: Sequence[str], dataset: str, fold: int) -> Iterator[Job]:
    # The paper varies the bounds for demographic parity and says that others look alike.
    for clip in PRIMAL_CLIPS if "primal_clip" in parts else ():
        yield pfld_job("primal_clip", dataset, "demographic_parity", fold, primal_clip=clip)
    for clip in DUAL_CLIPS if "dual_clip" in parts else ():
        yield pfld_job("dual_clip", dataset, "demographic_parity", fold, dual_clip=clip)
