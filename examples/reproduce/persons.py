"""Cost of a guarantee for all stays of a patient, on Diabetes 130-US Hospitals.

Run from the root of the repository, with ``SKFAIRDP_DATA`` set::

    python examples/reproduce/persons.py [EPSILON ...]

Prints the tables of docs/guides/persons.md: what a guarantee for one row is worth to a patient with
several, and how well models rank held-out patients, three seeds each. A fifth of the patients is
held out, with all their stays.
"""

from __future__ import annotations

import sys
import warnings

import numpy as np
from dp_accounting import dp_event
from dp_accounting.pld import PLDAccountant
from scipy.stats import binom
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline

from skfairdp import DPSGDClassifier, default_net
from skfairdp.datasets import fetch_diabetes130
from skfairdp.exceptions import PrivacyWarning
from skfairdp.preprocessing import PublicEncoder, PublicScaler

SEEDS = (0, 1, 2)
EPSILONS = (0.5, 1.0, 2.0, float("inf"))


def epsilon_of_patient(model: DPSGDClassifier, stays: int) -> float:
    """Epsilon of a patient with several rows that follows from a guarantee for one row.

    A step draws each of the patient's rows by itself, so the sum moves by as many clipping norms as
    rows were drawn: a mixture of Gaussians.
    """
    (segment,) = model.plan_.segments
    drawn = np.arange(stays + 1)
    step = dp_event.MixtureOfGaussiansDpEvent(
        segment.multiplier(0), drawn.tolist(), binom.pmf(drawn, stays, segment.rates[0]).tolist()
    )
    accountant = PLDAccountant(value_discretization_interval=1e-3)
    accountant.compose(dp_event.SelfComposedDpEvent(step, segment.steps))
    return float(accountant.get_epsilon(model.delta))


def main(epsilons: tuple[float, ...]) -> int:
    """Fit, measure and print."""
    warnings.simplefilter("ignore", PrivacyWarning)
    bunch = fetch_diabetes130()
    rows = make_pipeline(
        PublicScaler(bunch.bounds, log_columns=bunch.log_columns), PublicEncoder(bunch.categories)
    )
    X = np.asarray(rows.fit_transform(bunch.data), dtype=np.float32)
    y, patients = np.asarray(bunch.target).astype(int), np.asarray(bunch.owners)
    stays = np.bincount(patients)
    first = np.unique(patients, return_index=True)[1]
    print(f"{len(X)} stays of {len(stays)} patients, {X.shape[1]} columns; stays of a patient:")
    few = (stays > 1) & (stays < 4)
    print(f"  1: {np.mean(stays == 1):.3f}, 2 or 3: {np.mean(few):.3f}, more: ", end="")
    print(f"{np.mean(stays > 3):.3f}, at most {stays.max()}")

    def fitted(kind: str, epsilon: float, seed: int) -> tuple[DPSGDClassifier, list[float]]:
        out = np.random.default_rng(seed).random(len(stays)) < 0.2
        train = ~out[patients]
        if kind == "first stay":
            train &= np.isin(np.arange(len(X)), first)
        net = default_net().set_params(module__hidden_sizes=(), lr=0.01)
        model = DPSGDClassifier(net, epsilon=epsilon, batch_size=1024, random_state=seed)
        ids = patients[train] if kind == "person" else None
        model.fit(X[train], y[train], person_ids=ids)
        held = np.flatnonzero(out[patients])
        scores = model.predict_proba(X[held])[:, 1]
        shuffled = np.random.default_rng(seed).permutation(len(held))
        each = shuffled[np.unique(patients[held[shuffled]], return_index=True)[1]]
        return model, [
            float(roc_auc_score(y[held], scores)),
            float(roc_auc_score(y[held[each]], scores[each])),
        ]

    print("\nAUC among held-out stays, and among one stay of each held-out patient:")
    for epsilon in epsilons:
        for kind in ("row", "person", "first stay"):
            found = [fitted(kind, epsilon, seed) for seed in SEEDS]
            by_row, by_person = np.mean([auc for _, auc in found], axis=0)
            spread = np.std([auc[0] for _, auc in found])
            named = f"epsilon {epsilon:<4} by {kind:<10}"
            print(f"  {named}: {by_row:.4f} (sd {spread:.4f}), {by_person:.4f}")
            if kind == "row" and epsilon < float("inf"):
                costs = {r: epsilon_of_patient(found[0][0], r) for r in (1, 2, 3, 5, 10, 40)}
                stated = ", ".join(f"{r}: {cost:.2f}" for r, cost in costs.items())
                print(f"    what it promises to a patient by number of stays: {stated}")
            sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(tuple(map(float, sys.argv[1:])) or EPSILONS))
