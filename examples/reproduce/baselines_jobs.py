"""Jobs of the comparison with other learners: what is fitted, and with which settings."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field

from fairdp_jobs import EPSILONS, PINNED, PINNED_FAIRDP, SETTINGS

import skfairdp

DATASETS = ("adult", "default")
OTHER_DATASETS = ("bank", "compas", "law", "mortgages")
ROW_SEEDS, FRONTIER_SEEDS = 5, 10
FRONTIER_EPSILONS = (0.5, 1.0)
ASKED = (0.05, 0.02, 0.01)  # tolerances of the tables
FRONTIER = (0.002, 0.005, *reversed(ASKED), 0.08)  # and those of the frontier
LOOSE = 0.2  # above DP-SGD's own gap, so that the constraint hardly binds
SHOWN = 0.02  # tolerance in figures 3 to 5, and for notions other than demographic parity
# The gaps that are measured, as `fairdp_measures` and as the package call them.
NOTIONS = {
    "parity": "demographic_parity",
    "opportunity": "equal_opportunity",
    "odds": "equalized_odds",
    "accuracy_parity": "accuracy_parity",
}
WORDS = {gap: notion.replace("_", " ") for gap, notion in NOTIONS.items()}
BOUNDS = (0.005, 0.01, 0.02, 0.05)  # difference_bound of ExponentiatedGradient
REDUCTION = "reduction"

# Settings of DP-SGD where the FairDP tables have none.
NETS = SETTINGS | {
    "bank": {"batch_size": 512, "max_epochs": 20, "lr": 0.02, "hidden_sizes": (64,)},
    "compas": {"batch_size": 512, "max_epochs": 20, "lr": 0.02, "hidden_sizes": (64,)},
    "mortgages": {"batch_size": 464, "max_epochs": 30, "lr": 0.02, "hidden_sizes": ()},
}


@dataclass(frozen=True)
class Method:
    """A row of the comparison.

    Parameters
    ----------
    title : str
        How tables call it.
    estimator : str
        Class in `skfairdp`.
    private : bool, default=True
        False has no budget.
    net : bool, default=True
        Whether it trains the net of the FairDP tables, with their settings.
    own : dict
        Parameters that only this method has.
    smooths : str or None
        The method whose model it smooths.
    """

    title: str
    estimator: str
    private: bool = True
    net: bool = True
    own: dict = field(default_factory=dict)
    smooths: str | None = None


# What the public preprocessing ends in.
FM = {"feature_bounds": (-1.0, 1.0)}
METHODS = {
    "clean": Method("clean", "DPSGDClassifier", private=False),
    "fairsmooth": Method(
        "FairSmooth",
        "SmoothedClassifier",
        private=False,
        own={"training": "per_group", "std": 0.1},
        smooths="clean",
    ),
    "dpsgd": Method("DPSGD", "DPSGDClassifier"),
    "dpsgd_smooth": Method("DPSGD-Smooth", "SmoothedClassifier", own={"std": 0.1}, smooths="dpsgd"),
    "dpsgdf": Method("DPSGD-F", "DPSGDFClassifier"),
    "dp_is_sgd": Method("DP-IS-SGD", "ImportanceSamplingDPSGDClassifier"),
    "fm": Method("FM", "FunctionalMechanismClassifier", net=False, own=FM),
    "fm_published": Method(
        "FM as published",
        "FunctionalMechanismClassifier",
        net=False,
        own={**FM, "noise": "laplace", "sensitivity": "published"},
    ),
    "fairfm": Method(
        "FairFM",
        "FunctionalMechanismClassifier",
        net=False,
        own={**FM, "objective": "group_average"},
    ),
    "fairfm_smooth": Method(
        "FairFM-Smooth", "SmoothedClassifier", own={"std": 0.1}, smooths="fairfm"
    ),
    "dp_fermi": Method("DP-FERMI, weight 2", "DPFermiClassifier"),
    "dp_fermi_strong": Method(
        "DP-FERMI, weight 10", "DPFermiClassifier", own={"fairness_weight": 10.0}
    ),
    "fairdp": Method("FairDP", "FairDPClassifier", own=PINNED_FAIRDP),
    # The package's own defaults for every data set: nothing is chosen but epsilon and tolerance.
    "rate": Method("RateConstrained", "RateConstrainedClassifier", net=False),
}


@dataclass(frozen=True)
class Job:
    """One fit.

    Parameters
    ----------
    dataset : str
    method : str
        A key of `METHODS`, or `REDUCTION`.
    seed : int
    epsilon : float or None
        None has no budget.
    tolerance : float or None
        What the learner is asked for: `tolerance` or `difference_bound`.
    notion : str or None
        RateConstrained: whose gap it is asked to keep small.
    """

    dataset: str
    method: str
    seed: int
    epsilon: float | None = None
    tolerance: float | None = None
    notion: str | None = None

    @property
    def settings(self) -> dict:
        """Hyperparameters, those that the package sets by default among them."""
        if self.method == REDUCTION:
            return {}
        method = METHODS[self.method]
        if method.smooths is not None:
            inner = Job(self.dataset, method.smooths, self.seed, self.epsilon)
            return {**_defaults(method.estimator), **method.own, "smooths": inner.settings}
        chosen = {**PINNED, **NETS[self.dataset]} if method.net else {}
        return {**_defaults(method.estimator), **chosen, **method.own}

    @property
    def key(self) -> str:
        """Identity in the cache; other hyperparameters make another job."""
        return json.dumps([asdict(self), self.settings], sort_keys=True, default=str)


def rate(
    dataset: str, seed: int, epsilon: float, tolerance: float, notion: str = "demographic_parity"
) -> Job:
    """Job of RateConstrained."""
    return Job(dataset, "rate", seed, epsilon, tolerance, notion)


def _defaults(estimator: str) -> dict:
    parameters = inspect.signature(getattr(skfairdp, estimator).__init__).parameters.values()
    return {p.name: p.default for p in parameters if p.default is not p.empty}


def present(method: str) -> bool:
    """Whether the package has what a method needs."""
    if method == REDUCTION:
        return True
    needed = METHODS[method]
    here = hasattr(skfairdp, needed.estimator)
    return here and (needed.smooths is None or present(needed.smooths))


def planned(datasets: list[str], n_rows: int, n_frontier: int) -> Iterator[Job]:
    """List all jobs, each once, the first seed of everything first.

    Parameters
    ----------
    datasets : list of str
    n_rows : int
        Seeds of the table of all rows, where epsilon is not 1.
    n_frontier : int
        Seeds of everything at epsilon 1, and of the frontiers.

    Yields
    ------
    Job
    """
    for seed in range(max(n_rows, n_frontier)):
        for dataset in datasets:
            jobs = []
            if dataset in DATASETS:
                budgets = EPSILONS if seed < n_rows else (1.0,)
                jobs += _rows(dataset, seed, budgets)
            if seed < n_frontier:
                jobs += _frontier(dataset, seed)
            yield from dict.fromkeys(job for job in jobs if present(job.method))


def _rows(dataset: str, seed: int, budgets: tuple[float, ...]) -> Iterator[Job]:
    for name, method in METHODS.items():
        for epsilon in budgets if method.private else (None,):
            if name != "rate":
                yield Job(dataset, name, seed, epsilon)
                continue
            for tolerance in (*ASKED, *((LOOSE,) if epsilon == 1.0 else ())):
                yield rate(dataset, seed, epsilon, tolerance)
            for notion in NOTIONS.values():
                yield rate(dataset, seed, epsilon, SHOWN, notion)


def _frontier(dataset: str, seed: int) -> Iterator[Job]:
    if dataset not in DATASETS:
        yield Job(dataset, "dpsgd", seed, 1.0)
        for tolerance in ASKED:
            yield rate(dataset, seed, 1.0, tolerance)
        return
    for epsilon in FRONTIER_EPSILONS:
        for tolerance in FRONTIER:
            yield rate(dataset, seed, epsilon, tolerance)
    # Nothing is random in it but the split, and Adult's is given.
    if dataset != "adult" or seed == 0:
        for bound in BOUNDS:
            yield Job(dataset, REDUCTION, seed, None, bound)
