"""
Privacy cost of a grid search, and the models that it shows
===========================================================

Every fit on the same people is another release about them, and a search makes many. This
example searches over the privacy budget ε, the clipping norm and the learning rate of a private
model with scikit-learn's ``GridSearchCV``, passes the groups to it in both ways that
scikit-learn has, and then asks what is left of the privacy.

Run it with ``python examples/plot_grid_search_privacy.py``; ``--out FOLDER`` saves the picture.
"""

# %%
# The words: **ε** (epsilon) limits how much one record may change what anybody can learn from
# whatever was released, smaller is stronger; it may fail with probability **δ** (delta). Every
# record's pull on the model is cut off at the **clipping norm** and drowned in noise. The **gap**
# is the largest difference in approval rates between two groups. A fit's ε is its own alone: the ε
# of several fits on the same people add up (a little more slowly than numbers do), which is
# called **composition**.

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
import sklearn
import torch
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import Pipeline

from skfairdp import FairDPClassifier, certify, default_net
from skfairdp.datasets import load_mortgage_approvals
from skfairdp.exceptions import UtilityWarning
from skfairdp.metrics import demographic_parity_scorer
from skfairdp.preprocessing import PublicEncoder, PublicScaler

parser = argparse.ArgumentParser(description="A grid search over private models, and its cost.")
parser.add_argument("--out", type=Path, help="folder for the picture")
out = parser.parse_args().out
# One of the groups has few records for so small an ε: fits warn that they are doubtful. Here they
# are compared, and the pictures show how good they are.
warnings.simplefilter("ignore", UtilityWarning)

# %%
# A pipeline on 994 mortgage applications; the other half is held out. Bounds and categories come
# from the data set's codebook, so the first two steps learn nothing from the rows. The net is
# linear: a thousand rows carry no more through the noise.

loans = load_mortgage_approvals()
# The split looks at no row: a split that balances labels or groups would move other people
# when one person's record changes.
X, X_held, y, y_held, race, race_held = train_test_split(
    loans.data, loans.target, loans.sensitive_features, test_size=0.5, random_state=0
)
linear = default_net().set_params(module__hidden_sizes=(), optimizer=torch.optim.SGD, lr=0.01)
model = Pipeline(
    [
        ("scale", PublicScaler(loans.bounds, log_columns=loans.log_columns)),
        ("encode", PublicEncoder(loans.categories)),
        (
            "clf",
            FairDPClassifier(
                linear,
                epsilon=2.0,
                delta=1e-5,
                batch_size=len(X) // 2,
                max_head_norm=2.0,
                group_update="sum",
                sgd_learning_rate=0.003,
            ),
        ),
    ]
)

# %%
# Groups through a search, the first way
# --------------------------------------
# By default scikit-learn's *metadata routing* is off. A parameter of ``fit`` is then addressed to
# a step by its name. Settings of the skorch net behind the classifier are searched as
# ``clf__net__...``, those of its module as ``clf__net__module__...``.

search = GridSearchCV(model, {"clf__net__lr": [0.003, 0.01]}, cv=2)
search.fit(X, y, clf__sensitive_features=race)
print("routing off, best:", search.best_params_)

# %%
# The second way
# --------------
# With routing on, ``sensitive_features`` finds its way by itself: to the classifier, and to
# scorers that ask for it. Only so can a search score the gap. (The prefix is refused then.)

grid = {
    "clf__epsilon": [1.0, 2.0, 4.0],
    "clf__max_grad_norm": [0.3, 1.0],
    "clf__net__lr": [0.01, 0.03],
}
with sklearn.config_context(enable_metadata_routing=True):
    search = GridSearchCV(
        model,
        grid,
        scoring={"accuracy": "accuracy", "gap": demographic_parity_scorer},
        refit="accuracy",
        cv=2,
    )
    search.fit(X, y, sensitive_features=race)
print("routing on, best: ", search.best_params_, "\n")

# %%
# What it cost
# ------------
# The model that the search kept says of itself what its own fit cost. That is true, and it is not
# the answer: eleven other candidates saw the same people, and the winner was chosen by exact
# scores on them.

own = search.best_estimator_["clf"].privacy_
print(f"the kept fit alone: ε = {own.epsilon:.3g}, δ = {own.delta:g}\n")

certificate = certify(search, X_held, sensitive_features=race_held, holdout="public")
print(certificate.sentence)
print("Reason:", certificate.privacy.assumptions[0], "\n")
assert certificate.privacy.epsilon == float("inf")
assert not certificate.satisfies(epsilon=own.epsilon)

# %%
# Two different things are in that reason. *Composition*: each person was in the training rows of
# half of the fits and of the final one, and all those costs add up; the certificate names
# the sum. *Scores*: ``GridSearchCV`` compares exact accuracies of held-out folds. They carry no
# noise, so no finite ε covers the choice. Hence ε = inf, whatever the fits cost.
#
# The bound on the gap is not touched: the held-out half saw neither training nor search.

# %%
# What to do instead
# ------------------
# Choose parameters without the people you protect: on public or simulated data of the same shape,
# from experience, or by the package's defaults. Then fit once. Here we pretend that the
# parameters came from elsewhere; the certificate can't know where they came from, but those who
# sign it do.

fixed = clone(model).set_params(clf__epsilon=2.0, clf__max_grad_norm=1.0, clf__net__lr=0.01)
fixed.fit(X, y, clf__sensitive_features=race)
print(certify(fixed, X_held, sensitive_features=race_held, holdout="public").sentence)

# %%
# Accuracy against gap
# --------------------
# The best candidate at each ε, mean and standard deviation over the two folds. With strong noise
# a model approves nearly all, which closes the gap and is of no use: a small gap by itself
# is no merit. The dotted line is the accuracy of approving all.

results = pd.DataFrame(search.cv_results_)
best = results.loc[results.groupby("param_clf__epsilon")["mean_test_accuracy"].idxmax()]
figure, axis = plt.subplots(figsize=(6.4, 4.0), layout="constrained")
for _, row in best.iterrows():
    axis.errorbar(
        -row["mean_test_gap"], row["mean_test_accuracy"], xerr=row["std_test_gap"],
        yerr=row["std_test_accuracy"], marker="o", capsize=3, linestyle="none",
        label=f"ε = {row['param_clf__epsilon']:g} for one fit",
    )  # fmt: skip
axis.axhline(max(y.mean(), 1 - y.mean()), color="grey", linestyle=":")
axis.set(xlabel="gap in approval rates", ylabel="accuracy", xlim=(0, None))
axis.legend()

if out is not None:
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / "grid_search_privacy.png", dpi=150)
    print(f"\nsaved grid_search_privacy.png in {out}")
plt.show()
