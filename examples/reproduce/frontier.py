"""All mechanisms, several ε and tolerances, three data sets: frontier pictures and pages.

    python examples/reproduce/frontier.py --data FOLDER --out docs/results

Fits are kept as lines of ``frontier_fits.jsonl`` beside the pictures, so a run that was
stopped goes on where it was. ``--only mortgages --seeds 1`` is a first look of a few minutes.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
from frontier_mechanisms import Mechanism, present
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.utils import Bunch

from skfairdp.datasets import fetch_adult, fetch_default_credit, load_mortgage_approvals
from skfairdp.metrics import group_gap
from skfairdp.model_selection import ParetoDisplay, pareto_frontier, save_explorer
from skfairdp.preprocessing import PublicEncoder, PublicScaler

mpl.use("agg")

DELTA = 1e-5
EPSILONS = (0.5, 1.0, 2.0, 4.0)
TOLERANCES = (0.01, 0.02, 0.05, 0.1)
NOTIONS = ("demographic_parity", "equal_opportunity", "equalized_odds")
DATASETS = {
    "adult": ("Adult", {"batch_size": 1024, "max_epochs": 20}),
    "default": ("Default-CCC", {"batch_size": 512, "max_epochs": 20}),
    "mortgages": ("Mortgage approvals", {"batch_size": 300, "max_epochs": 20}),
}
# Nine of ten applications are approved, so at one half nearly everybody is. Where a trained
# model says yes is free to choose.
THRESHOLDS = {"mortgages": (0.5, 0.7, 0.8, 0.85, 0.9, 0.95)}
NOTES = (
    "Means over {seeds} seeds on test rows that no model was trained on; they are estimates, not "
    "certificates. ε is that of one fit under δ = 1e-5: to look at many models and choose one "
    "costs more. Columns are scaled by declared bounds and encoded by declared categories."
)


@dataclass(frozen=True)
class Job:
    """One fit."""

    dataset: str
    mechanism: str
    epsilon: float
    tolerance: float | None
    seed: int


def jobs(datasets: list[str], mechanisms: tuple[Mechanism, ...], seeds: int) -> Iterator[Job]:
    """Every fit, seeds outermost, so that a stopped run has whole pictures."""
    for seed in range(seeds):
        for dataset in datasets:
            for mechanism in mechanisms:
                for epsilon in EPSILONS:
                    for tolerance in TOLERANCES if mechanism.has_knob else (None,):
                        yield Job(dataset, mechanism.name, epsilon, tolerance, seed)


def load(dataset: str, data_home: str | None) -> Bunch:
    """Rows of a data set."""
    if dataset == "mortgages":
        return load_mortgage_approvals()
    fetch = {"adult": fetch_adult, "default": fetch_default_credit}[dataset]
    return fetch(data_home=data_home)


def split(rows: Bunch, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Positions of training and test rows: the official ones, or 30 % by position."""
    official = getattr(rows, "split", None)
    if official is not None:
        return np.flatnonzero(official == "train"), np.flatnonzero(official == "test")
    return tuple(train_test_split(np.arange(len(rows.target)), test_size=0.3, random_state=seed))


def run(job: Job, mechanism: Mechanism, rows: Bunch) -> Iterator[dict]:
    """Train one model and measure it on the test rows, at each threshold."""
    public = make_pipeline(
        PublicScaler(rows.bounds, log_columns=rows.log_columns), PublicEncoder(rows.categories)
    )
    X = np.asarray(public.fit_transform(rows.data), dtype=np.float32)
    y, groups = np.asarray(rows.target), np.asarray(rows.sensitive_features, dtype=str)
    train, test = split(rows, job.seed)
    common = {**DATASETS[job.dataset][1], "delta": DELTA, "progress": False}
    model = mechanism.build(job.epsilon, job.tolerance, random_state=job.seed, **common)
    began = time.perf_counter()
    model.fit(X[train], y[train], sensitive_features=groups[train])
    seconds = time.perf_counter() - began
    sure = model.predict_proba(X[test])[:, 1]
    for threshold in THRESHOLDS.get(job.dataset, (None,)):
        at_half = threshold is None
        predicted = model.predict(X[test]) if at_half else (sure > threshold).astype(int)
        yield asdict(job) | {
            "threshold": threshold,
            "accuracy": float(np.mean(predicted == y[test])),
            "auc": float(roc_auc_score(y[test], sure)),
            "stated_epsilon": float(model.privacy_.epsilon),
            "seconds": round(seconds, 2),
            **{
                notion: float(
                    group_gap(y[test], predicted, sensitive_features=groups[test], notion=notion)
                )
                for notion in NOTIONS
            },
        }


def kept(path: Path) -> pd.DataFrame:
    """Fits that were made before."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return pd.DataFrame([json.loads(line) for line in lines])


def report(fits: pd.DataFrame, dataset: str, out: Path) -> str:
    """Picture, page and table of one data set."""
    keys = ["mechanism", "epsilon", "tolerance", "threshold"]
    own = fits[fits["dataset"] == dataset].copy()
    for key in ("tolerance", "threshold"):
        own[key] = own[key].map(lambda value: "" if pd.isna(value) else f"{value:g}")
    figures = ["accuracy", "auc", *NOTIONS]
    means = own.groupby(keys, sort=False)[figures].mean().reset_index()
    title, seeds = DATASETS[dataset][0], own["seed"].nunique()
    display = ParetoDisplay.from_results(
        means, gaps=list(NOTIONS), value="accuracy", label="mechanism"
    )
    display.figure_.suptitle(title)
    display.figure_.savefig(out / f"frontier_{dataset}.png", dpi=120)
    page = f"frontier_{dataset}.html"
    save_explorer(
        means, out / page, title=f"{title}: privacy, fairness, accuracy", label="mechanism",
        notes=NOTES.format(seeds=seeds),
    )  # fmt: skip
    best = pareto_frontier(
        means, maximize=["accuracy"], minimize=["demographic_parity", "epsilon"]
    ).drop(columns="rank")
    return "\n".join(
        [
            f"## {title}",
            "",
            f"{len(means)} models, means over {seeds} seeds. [Look around]({page}).",
            "",
            f"![Frontiers on {title}](frontier_{dataset}.png)",
            "",
            "Beaten by no other in accuracy, demographic parity and ε:",
            "",
            best.round(3).to_markdown(index=False),
            "",
        ]
    )


def main() -> None:
    """Make what is missing, then the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--data", help="folder with the data files; None downloads")
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    parser.add_argument("--only", nargs="+", choices=DATASETS, default=list(DATASETS))
    parser.add_argument("--seeds", type=int, default=5)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    path = arguments.out / "frontier_fits.jsonl"
    mechanisms = present()
    by_name = {mechanism.name: mechanism for mechanism in mechanisms}
    done = kept(path)
    names = list(asdict(next(jobs(["adult"], mechanisms, 1))))
    made = set() if done.empty else {
        tuple(None if pd.isna(v) else v for v in row) for row in done[names].itertuples(index=False)
    }  # fmt: skip
    loaded: dict[str, Bunch] = {}
    for job in jobs(arguments.only, mechanisms, arguments.seeds):
        if tuple(asdict(job).values()) in made:
            continue
        if job.dataset not in loaded:
            loaded[job.dataset] = load(job.dataset, arguments.data)
        lines = [json.dumps(line) for line in run(job, by_name[job.mechanism], loaded[job.dataset])]
        with path.open("a", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
        print(*lines, sep="\n", flush=True)
    fits = kept(path)
    parts = [report(fits, d, arguments.out) for d in DATASETS if (fits["dataset"] == d).any()]
    head = [
        "# Frontiers",
        "",
        "Every mechanism that protects records, at ε from 0.5 to 4 (δ = 1e-5) and tolerances from "
        "0.01 to 0.1, made by `python examples/reproduce/frontier.py`. Shown are estimates on test "
        "rows; a filled mark of the pages keeps both limits that you set there.",
        "",
    ]
    (arguments.out / "frontier.md").write_text("\n".join([*head, *parts]), encoding="utf-8")


if __name__ == "__main__":
    main()
