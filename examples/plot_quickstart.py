"""
Who gets the mortgage? Two private models, one fair one, and what each can prove
================================================================================

A lender wants to train a model on 1,989 mortgage applications from Boston, 1990. Two things
should hold. The model should not reveal what is in one applicant's file
(*privacy*), and approvals should not depend much on race (*fairness*). This example trains
three models on one half of the applications and writes on the other half what each of them
guarantees. It takes a few seconds.

Run it with ``python examples/plot_quickstart.py``. With ``--out FOLDER`` the picture and the
certificate (a web page) are saved there.
"""

# %%
# The words
# ---------
# ε (epsilon)
#     How much one record may change what anybody can learn from the model: any conclusion is
#     at most exp(ε) times as likely with the record as without it. Smaller is stronger. δ (delta)
#     is a tiny probability with which this may fail.
# group
#     Here the applicant's race as recorded, "white" or "other". Groups are used in training and
#     in the test; they are never needed to decide about an applicant.
# gap
#     The largest difference in approval rates between two groups. 0 would be *demographic
#     parity*.
# bound
#     The gap above is an estimate from a few hundred people. The bound is what the gap among
#     *all* people like them stays below, with 95 % confidence.
# certificate
#     ε, δ and the bound of one model, with everything they rest on.

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import torch
from fairlearn.reductions import DemographicParity, ExponentiatedGradient
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import Pipeline

from skfairdp import DPSGDClassifier, FairDPClassifier, certify, default_net
from skfairdp.datasets import load_mortgage_approvals
from skfairdp.preprocessing import PublicEncoder, PublicScaler

parser = argparse.ArgumentParser(description="Three models of mortgage approvals, compared.")
parser.add_argument("--out", type=Path, help="folder for the picture and the certificate")
out = parser.parse_args().out

# %%
# The applications
# ----------------
# The target is 1 for an approval. Race and other attributes that the law forbids a lender to use
# are not among the columns. Half of the rows are held out: no model sees them in training.

loans = load_mortgage_approvals()
# The split looks at no row: a split that balances labels or groups would move other people
# when one person's record changes.
X, X_held, y, y_held, race, race_held = train_test_split(
    loans.data, loans.target, loans.sensitive_features, test_size=0.5, random_state=0
)
print(f"{len(X)} applications to train on, {len(X_held)} held out; approved by the lenders:")
print(y.groupby(race).mean().round(3).to_string(), "\n")


# %%
# Three models
# ------------
# Each model is a pipeline. Its first two steps bring numbers to a common scale and turn
# categories into columns. They use *public* bounds and categories from the data set's codebook.
# A ``StandardScaler`` would compute means from the rows and so tell something about each of them.


def pipeline(classifier):
    """Put the public preprocessing before a classifier."""
    return Pipeline(
        [
            ("scale", PublicScaler(loans.bounds, log_columns=loans.log_columns)),
            ("encode", PublicEncoder(loans.categories)),
            ("clf", classifier),
        ]
    )


# %%
# *DP-SGD* adds noise to every step of training, enough for ε = 2. A thousand applications
# carry little signal through that noise, hence the simplest settings: a linear model, 40 steps
# of plain gradient descent, every step on all rows. (At ε = 1 the AUC in the table below is on
# average .01 to .02 lower, and scatters more from run to run.)

BUDGET = {"epsilon": 2.0, "delta": 1e-5, "batch_size": len(X), "max_epochs": 40}


def linear(lr):
    """Build a linear model that is trained by plain gradient descent."""
    return default_net().set_params(module__hidden_sizes=(), optimizer=torch.optim.SGD, lr=lr)


models = {
    "DP-SGD": pipeline(DPSGDClassifier(linear(15.0), max_grad_norm=0.3, **BUDGET)),
    # FairDP sums each group's gradients by themselves and keeps the weights of the last layer
    # short, which pulls all scores together.
    "FairDP": pipeline(
        FairDPClassifier(
            linear(0.01), max_grad_norm=1.0, max_head_norm=2.0, group_update="sum",
            sgd_learning_rate=0.003, **BUDGET,
        )
    ),
    # fairlearn's reduction searches for a mixture of models whose approval rates in training
    # differ by at most 0.05. It protects no record.
    "ExponentiatedGradient": pipeline(
        ExponentiatedGradient(
            LogisticRegression(max_iter=1000), DemographicParity(difference_bound=0.05)
        )
    ),
}  # fmt: skip
for model in models.values():
    model.fit(X, y, clf__sensitive_features=race)

# %%
# One table
# ---------
# Three certificates on the same held-out rows share one error probability of 5 %
# (``n_certificates=3``), so all three bounds hold together with 95 % confidence.


def scores(model):
    """Probability of an approval; for the reduction, averaged over its mixture."""
    if not isinstance(model["clf"], ExponentiatedGradient):
        return model.predict_proba(X_held)[:, 1]
    mixture = model["clf"]
    parts = zip(mixture.weights_, mixture.predictors_, strict=True)
    features = model[:-1].transform(X_held)
    return sum(w * part.predict_proba(features)[:, 1] for w, part in parts if w > 0)


rows, certificates = {}, {}
for index, (name, model) in enumerate(models.items(), start=1):
    certificate = certify(
        model, X_held, sensitive_features=race_held, n_certificates=3, certificate_index=index
    )
    # The reduction draws from its mixture at every call; the seed only makes the table repeatable.
    seed = {"random_state": 0} if name == "ExponentiatedGradient" else {}
    decisions = pd.Series(model.predict(X_held, **seed), index=X_held.index)
    approvals = decisions.groupby(race_held).mean()
    rows[name] = {
        "accuracy": accuracy_score(y_held, decisions),
        "AUC": roc_auc_score(y_held, scores(model)),
        **{f"approved, {group}": rate for group, rate in approvals.items()},
        "gap": approvals.max() - approvals.min(),
        "bound": certificate.fairness[0].bound,
        "ε": certificate.privacy.epsilon,
    }
    certificates[name] = certificate
    # A model that approves all has no gap and no use.
    assert rows[name]["AUC"] >= 0.78, f"{name} ranks badly: {rows[name]}"
    assert approvals.between(0, 1, inclusive="neither").all(), f"{name} is constant: {rows[name]}"

table = pd.DataFrame(rows).T
print(table.round(3).to_string(), "\n")

# %%
# *AUC* is the probability that an approved applicant scores higher than a rejected one. Read the
# last columns first. The reduction has the smallest gap and ε = inf: its weights promise nothing
# about any record. Both private models keep most of the accuracy. FairDP's short weights
# take a little off the gap on average and do not close it: whatever a method is called, believe
# the bound. The noise is fresh in every run, so your figures differ a little from another's.

# %%
# The certificate
# ---------------
# The first line is for the person who has to sign; the rest says what it rests on.

certificate = certificates["FairDP"]
print(certificate)

# %%
# The certificate belongs to these very weights, and it can be asked.

assert certificate.verify(models["FairDP"])
assert certificate.satisfies(epsilon=2.0)
assert not certificate.satisfies(tolerance=0.01)

# %%
# One picture
# -----------
# Left: who is approved. The dotted lines are the lenders' own decisions on the held-out rows.
# Right: the gap that was seen (dot) and the bound (bar). No bar is short: 147 held-out
# applicants of the smaller group do not prove more.

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
groups = sorted(race.unique())
positions = np.arange(len(models))
for shift, (group, colour) in enumerate(zip(groups, ("tab:orange", "tab:blue"), strict=True)):
    left.bar(
        positions + 0.38 * (shift - 0.5), table[f"approved, {group}"], 0.36, label=group,
        color=colour,
    )  # fmt: skip
    approved = y_held[race_held == group].mean()
    left.axhline(
        approved, color=("saddlebrown", "navy")[shift], linestyle=":", label=f"{group}, by lenders"
    )
names = [name.replace("Exponentiated", "Exponentiated-\n") for name in models]
left.set(ylabel="approval rate", ylim=(0, 1), xticks=positions, xticklabels=names)
left.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=2, frameon=False)
right.barh(positions, table["bound"], 0.5, color="lightgrey", label="bound (95 % confidence)")
right.plot(table["gap"], positions, "o", color="black", label="gap seen")
right.set(xlabel="difference in approval rates", yticks=positions)
spent = [f"ε = {e:.3g}" if np.isfinite(e) else "not private" for e in table.loc[list(models), "ε"]]
right.set_yticklabels([f"{name}\n{cost}" for name, cost in zip(models, spent, strict=True)])
right.invert_yaxis()
right.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=2, frameon=False)

if out is not None:
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / "quickstart.png", dpi=150)
    (out / "certificate.html").write_text(certificate._repr_html_(), encoding="utf-8")
    (out / "certificate.json").write_text(certificate.to_json(), encoding="utf-8")
    print(f"\nsaved quickstart.png, certificate.html and certificate.json in {out}")
plt.show()
