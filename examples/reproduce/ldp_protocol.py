"""Run and measurement of one job."""

from __future__ import annotations

import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from ldp_codes import cross_validated, fitted_codes
from ldp_data import Part, parts, without_validation
from ldp_jobs import COMPARATORS, OURS, Job
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import balanced_accuracy_score, roc_auc_score
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skfairdp import PrivateFairEncoder, certify
from skfairdp.fairness.scopes import DOWNSTREAM_LIKE
from skfairdp.metrics import classifier_lower_bound, group_gap, mine, mutual_information
from skfairdp.representation import LaplaceTransformer

# Their encoders read the group, so at release it is needed.
READ_GROUPS = ("ppvae", "vfae")
TREES = 50


def read_results(folder: Path) -> dict[str, dict[str, Any]]:
    """Measured jobs of a cache folder, by `Job.key`."""
    lines = [line for path in sorted(folder.glob("*.jsonl")) for line in path.open()]
    return {row["key"]: row for row in map(json.loads, lines)}


def append_result(folder: Path, row: dict[str, Any]) -> None:
    """Add a measured job to the file of its part."""
    with (folder / f"{row['part']}.jsonl").open("a") as lines:
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
        Figures, and the seconds that the fit took.
    """
    train, test = (
        part.widened(job.settings.get("scale", 1.0)) for part in parts(job.dataset, data_home)
    )
    start = time.perf_counter()
    if job.part == "codes sweep":
        figures = cross_validated(job, train)
    elif job.part == "codes":
        figures = _codes(job, train, test)
    elif job.method not in OURS:
        figures = _comparator(job, train, test)
    elif job.part == "sweep":
        figures = _swept(job, train, test)
    else:
        encoder = _fitted(job, train)
        released = [encoder.transform(part.X) for part in (train, test)]
        if job.part == "mine":
            figures = {"mine": _critic(released, train, test, job.seed)}
        else:
            predicted = encoder.predict_from(released[1])
            figures = _fairness(predicted, test) | _leaks(released, train, test, job.seed)
    seconds = round(time.perf_counter() - start, 1)
    return {"key": job.key, "part": job.part, "seconds": seconds, **figures}


def _codes(job: Job, train: Part, test: Part) -> dict[str, Any]:
    """Figures of one release of each test row, and what the test rows prove of all predictors."""
    encoder = fitted_codes(train, job.seed, job.epsilon, **job.settings)
    seeing = job.settings["encoder_sees_group"]
    released = [
        encoder.transform(part.X, sensitive_features=part.s if seeing else None)
        for part in (train, test)
    ]
    notions = ["demographic_parity", "equalized_odds"]
    claims = certify(
        encoder, test.X, test.u, sensitive_features=test.s, notion=notions, holdout="public"
    ).fairness
    proved = {c.notion: c.bound for c in claims if c.scope == DOWNSTREAM_LIKE}
    attacker = RandomForestClassifier(TREES, random_state=job.seed).fit(released[0], train.s)
    chances = attacker.predict_proba(released[1])[:, 1]
    return {
        **_fairness(encoder.predict_from(released[1]), test),
        **_leaks(released, train, test, job.seed),
        "bound_parity": proved["demographic_parity"],
        "bound_odds": proved["equalized_odds"],
        "balanced_attack": balanced_accuracy_score(test.s, attacker.predict(released[1])),
        "auc_attack": roc_auc_score(test.s == attacker.classes_[1], chances),
    }


def _fitted(job: Job, rows: Part) -> PrivateFairEncoder:
    # The paper's law of the label, unless a variant has another.
    settings = {"label_law": "categorical"} | job.settings
    settings.pop("scale", None)
    encoder = PrivateFairEncoder(
        noise="laplace" if job.method == "con" else "randomized_response",
        epsilon=job.epsilon,
        beta=job.beta,
        random_state=job.seed,
        progress=False,
        **settings,
    )
    return encoder.fit(rows.X, rows.u, sensitive_features=rows.s)


def _swept(job: Job, train: Part, test: Part) -> dict[str, Any]:
    """Figures of the test rows, and accuracy and gap of the rows that settings are chosen on."""
    fitting, validation = without_validation(train)
    encoder = _fitted(job, fitting)
    released = encoder.transform(test.X)
    chosen = _fairness(encoder.predict(validation.X), validation)
    return {
        **_fairness(encoder.predict_from(released), test),
        "information": mutual_information(released, test.s, units="bits", random_state=0).unclipped,
        "utility": mutual_information(released, test.u, units="bits", random_state=0).unclipped,
        **{f"validation_{name}": value for name, value in chosen.items()},
    }


def _comparator(job: Job, train: Part, test: Part) -> dict[str, Any]:
    """Figures without noise, and with noise behind the representation."""
    if job.method == "raw":
        plain = [train.X, test.X]
    else:
        weights = {name: value for name, value in job.settings.items() if name != "bound"}
        model = COMPARATORS[job.method](**weights, random_state=job.seed, progress=False)
        model.fit(train.X, train.u, sensitive_features=train.s)
        plain = [
            model.transform(part.X, sensitive_features=part.s)
            if job.method in READ_GROUPS
            else model.transform(part.X)
            for part in (train, test)
        ]
        # Their scales differ by orders of magnitude, and noise has the scale of the bound.
        scaler = StandardScaler().fit(plain[0])
        plain = [scaler.transform(part) for part in plain]
    noise = LaplaceTransformer(epsilon=job.epsilon, bound=job.settings["bound"]).fit(plain[0])
    noisy = [noise.transform(part) for part in plain]
    figures = {}
    for name, released in (("", plain), ("noisy_", noisy)):
        predicted = _downstream(released, train, job.seed)
        measured = _fairness(predicted, test) | _leaks(released, train, test, job.seed)
        figures |= {name + measure: value for measure, value in measured.items()}
    return figures


def _downstream(released: list[np.ndarray], train: Part, seed: int) -> np.ndarray:
    """Predictions of a network with one hidden layer for the test rows."""
    network = make_pipeline(
        StandardScaler(), MLPClassifier((100,), batch_size=256, max_iter=15, random_state=seed)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return network.fit(released[0], train.u).predict(released[1])


def _fairness(predicted: np.ndarray, test: Part) -> dict[str, float]:
    gaps = {"parity": "demographic_parity", "odds": "equalized_odds"}
    return {
        "accuracy": float((predicted == test.u).mean()),
        **{
            name: group_gap(
                test.u, predicted, sensitive_features=test.s, notion=notion, classes=[0, 1]
            )
            for name, notion in gaps.items()
        },
    }


def _leaks(
    released: list[np.ndarray], train: Part, test: Part, seed: int
) -> dict[str, float | str]:
    """Information about the group in test rows, bits, and what an attacker gets right."""
    estimate = mutual_information(released[1], test.s, units="bits", random_state=seed)
    bound = classifier_lower_bound(released[1], test.s, units="bits", random_state=seed)
    # The attacker of the paper has no stated settings; scikit-learn's, with half of its trees.
    attacker = RandomForestClassifier(TREES, random_state=seed).fit(released[0], train.s)
    return {
        "information": estimate.unclipped,
        "information_method": estimate.method,
        "information_bound": bound.lower_bound,
        "attack": float(attacker.score(released[1], test.s)),
        "larger_group": float(np.unique(test.s, return_counts=True)[1].max() / len(test.s)),
    }


def _critic(released: list[np.ndarray], train: Part, test: Part, seed: int) -> float:
    """MINE's value on the test rows, bits; its critic learns on the training rows."""
    marks = np.repeat([False, True], [len(train.s), len(test.s)])
    everything, groups = np.concatenate(released), np.concatenate([train.s, test.s])
    return mine(everything, groups, held_out=marks, units="bits", random_state=seed).unclipped
