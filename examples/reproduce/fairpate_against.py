"""Other private classifiers on the same private rows: DP-SGD, FairDP-SGD and FairDP."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass

import numpy as np
import torch
from fairdp_images import linear_net
from fairdp_jobs import SETTINGS as FAIRDP_SETTINGS
from fairpate_sweep import DELTA, TOLERANCES, measured
from fairpate_votes import Rows

from skfairdp import DPSGDClassifier, FairDPClassifier, default_net
from skfairdp.inprocessing import PublicParity

EPSILONS = (1.0, 3.0, 10.0)
# Lambda of FairDP-SGD; the penalty sees this many of the public rows.
WEIGHTS = (0.25, 1.0, 4.0)
N_PENALISED = 1000


@dataclass(frozen=True)
class Fit:
    """One fit of another method.

    Parameters
    ----------
    dataset : str
    seed : int
    epsilon : float
    method : {"DP-SGD", "FairDP-SGD", "FairDP"}
    weight : float or None
        Lambda of FairDP-SGD.
    """

    dataset: str
    seed: int
    epsilon: float
    method: str
    weight: float | None = None


def planned_fits(dataset: str, seed: int) -> Iterator[Fit]:
    """List the fits of one data set and seed."""
    for budget in EPSILONS:
        yield Fit(dataset, seed, budget, "DP-SGD")
        yield Fit(dataset, seed, budget, "FairDP")
        for weight in WEIGHTS:
            yield Fit(dataset, seed, budget, "FairDP-SGD", weight)


def run_fit(fit: Fit, rows: Rows) -> dict:
    """Fit and measure, without and with an abstaining gate.

    Parameters
    ----------
    fit : Fit
    rows : Rows

    Returns
    -------
    dict
        Plain numbers.
    """
    torch.set_num_threads(1)
    X, y, groups = rows.private
    settings = dict(FAIRDP_SETTINGS[fit.dataset])
    net = (linear_net() if fit.dataset == "utkface" else default_net()).set_params(
        lr=settings.pop("lr")
    )
    if "hidden_sizes" in settings:
        net.set_params(module__hidden_sizes=settings.pop("hidden_sizes"))
    common = {"epsilon": fit.epsilon, "delta": DELTA, "random_state": fit.seed, "progress": False}
    names = np.asarray(rows.group_names)
    if fit.method == "FairDP":
        model = FairDPClassifier(
            net, sgd_fraction=0.1, sgd_learning_rate=0.005, **settings, **common
        )
        model.fit(X, y, sensitive_features=names[groups])
    else:
        parity = None
        if fit.weight is not None:
            X_public, _, public_groups = rows.public
            parity = PublicParity(
                X_public[:N_PENALISED], names[public_groups[:N_PENALISED]], weight=fit.weight
            )
        model = DPSGDClassifier(net, public_parity=parity, **settings, **common).fit(X, y)
    spent = model.privacy_.epsilon
    predicted = model.predict(rows.test[0])
    return asdict(fit) | {"spent": spent} | measured(predicted, rows, TOLERANCES, fit.seed)
