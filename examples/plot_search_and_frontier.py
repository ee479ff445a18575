"""
Many models: accuracy against gap, and what it costs to choose
==============================================================

Which learning rate, which clipping norm, how many epochs: to choose is to fit many models on the
same people, and to look at how they did on some of them. Both cost privacy. This example shows what
is sold at which price: a search that keeps its winner alone, a frontier of many models on rows that
need no protection, and an answer to a request that names ε and a gap before any data is seen.

Run it with ``python examples/plot_search_and_frontier.py``; ``--out FOLDER`` saves the picture and
an interactive page.
"""

# %%
# The words: **ε** (epsilon) limits how much one record may change what anybody can learn from
# whatever was released, smaller is stronger; it may fail with probability **δ** (delta). The
# **gap** is the largest difference in approval rates between two groups of applicants.

from __future__ import annotations

import argparse
import tempfile
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy.stats import loguniform
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import Pipeline

from skfairdp import (
    DPSGDClassifier,
    FairDPClassifier,
    PrivacyLedger,
    certify,
    default_net,
    fit_many,
)
from skfairdp.datasets import load_mortgage_approvals
from skfairdp.exceptions import UtilityWarning
from skfairdp.metrics import group_gap
from skfairdp.model_selection import (
    ParetoDisplay,
    PrivateSearchCV,
    pareto_frontier,
    save_explorer,
    specify,
)
from skfairdp.preprocessing import PublicEncoder, PublicScaler

parser = argparse.ArgumentParser(description="A private search, a frontier, a specification.")
parser.add_argument("--out", type=Path, help="folder for the picture and the page")
out = parser.parse_args().out
# One of the groups has few records for so small an ε: fits warn that they are doubtful. Here they
# are compared, and the pictures show how good they are.
warnings.simplefilter("ignore", UtilityWarning)

# %%
# 1,989 mortgage applications; a third is set aside to judge what comes out. Bounds and categories
# come from the codebook, so the first two steps learn nothing from rows.

loans = load_mortgage_approvals()
X, X_test, y, y_test, race, race_test = train_test_split(
    loans.data, loans.target, loans.sensitive_features, test_size=0.33, random_state=0
)


def pipeline(classifier: FairDPClassifier | DPSGDClassifier) -> Pipeline:
    """Public preprocessing and a classifier."""
    scale = PublicScaler(loans.bounds, log_columns=loans.log_columns)
    return Pipeline(
        [("scale", scale), ("encode", PublicEncoder(loans.categories)), ("clf", classifier)]
    )


linear = default_net().set_params(module__hidden_sizes=())
settings = {"delta": 1e-5, "batch_size": 200, "max_epochs": 10, "progress": False}

# %%
# A search that includes its own privacy cost
# -------------------------------------------
# Each applicant is assigned to training or scoring by their own draw. A random number of
# candidates is trained with noise and scored by noisy counts, and nothing but the best is kept: no
# table of results, no other model, and not how many there were. What is promised holds for all of
# it together.

search = PrivateSearchCV(
    pipeline(FairDPClassifier(linear, **settings)),
    {"clf__net__lr": loguniform(0.001, 0.1), "clf__max_grad_norm": [0.3, 1.0]},
    n_iter=3,
    epsilon=4.0,
    delta=1e-5,
    tolerance=0.1,
)
search.fit(X, y, sensitive_features=race)
print(certify(search, X_test, sensitive_features=race_test, holdout="public").sentence)
print("chosen:", {key: round(float(value), 4) for key, value in search.best_params_.items()})
print(f"its own noisy accuracy, which flatters: {search.best_score_:.3f}\n")

# %%
# Many models side by side
# ------------------------
# To see all points of a search, and not its winner alone, the rows that judge them must need no
# protection, and every fit is its own release. Here the applicants set aside play that part.
# The figures say what each model can do; they don't say what it cost to compare them.
#
# ``fit_many`` trains the linear models of one kind in one pass; each is still charged by itself,
# here in a ledger that is thrown away.

EPSILONS = (1.0, 2.0, 8.0)
public = pipeline(DPSGDClassifier())[:-1]  # bounds and categories, nothing from the rows
rows, rows_test = public.fit_transform(X), public.transform(X_test)
folder = tempfile.TemporaryDirectory()
ledger = PrivacyLedger(f"{folder.name}/spent.db")
plain = DPSGDClassifier(linear, ledger=ledger, **settings)
models = {
    "DP-SGD": fit_many(plain, [{"epsilon": e} for e in EPSILONS], rows, y),
    "FairDP": [
        FairDPClassifier(linear, epsilon=e, **settings).fit(rows, y, sensitive_features=race)
        for e in EPSILONS
    ],
}
folder.cleanup()
results = []
for name, of_kind in models.items():
    for epsilon, model in zip(EPSILONS, of_kind, strict=True):
        sure = model.predict_proba(rows_test)[:, 1]
        # Where a trained model says yes is free to choose: nothing new is learned from rows.
        for threshold in (0.5, 0.7, 0.8, 0.85, 0.9, 0.95):
            predicted = (sure > threshold).astype(int)
            results.append(
                {
                    "mechanism": name,
                    "epsilon": epsilon,
                    "threshold": threshold,
                    "accuracy": float(np.mean(predicted == y_test)),
                    "gap": group_gap(y_test, predicted, sensitive_features=race_test),
                    "auc": roc_auc_score(y_test, sure),
                }
            )
results = pd.DataFrame(results)
print(pareto_frontier(results).drop(columns="rank").round(3).to_string(index=False), "\n")

# %%
# A model that approves all has no gap and is right nine times out of ten: the frontier begins
# there. The dotted line shows its accuracy.

display = ParetoDisplay.from_results(results, value="accuracy", label="mechanism")
display.axes_[0].axhline(y_test.mean(), color="grey", linestyle=":")

# %%
# Two limits, named before
# ------------------------
# A supervisor names ε and the gap and knows no data. ``specify`` tries what it was given, pays for
# every attempt, and answers with a certified model or with what it found out: what each model's gap
# is at least and at most, and whether so few people could have shown more.

answer = specify(
    pipeline(FairDPClassifier(linear, **settings)),
    [{"clf__max_grad_norm": 0.3}, {"clf__max_grad_norm": 1.0}],
    X,
    y,
    sensitive_features=race,
    epsilon=4.0,
    tolerance=0.2,
    delta=1e-5,
)
print(answer.sentence)
assert answer.verify()

# %%
# The page holds the same models with sliders for ε and the gap; it is one file and makes
# no requests over a network.

if out is not None:
    out.mkdir(parents=True, exist_ok=True)
    display.figure_.savefig(out / "search_and_frontier.png", dpi=150)
    save_explorer(results, out / "frontier.html", title="Mortgage approvals", label="mechanism")
    print(f"\nsaved search_and_frontier.png and frontier.html in {out}")
plt.show()
