"""
Noisy numbers instead of rows: three users, and the bound on all gaps
=====================================================================

To let others build models on people's rows, for purposes not known yet, you need not hand
on the rows. A ``PrivateFairEncoder`` turns each row into two numbers and adds noise before others
see them. A model that works with these numbers alone learns little about any person, and cannot
treat two groups more differently than a bound that is known beforehand, whatever the model. This
example trains encoders on made-up people whose groups differ a lot, releases the rows of
others, and fits three classifiers of scikit-learn to the release; one of them only
tells the groups apart. Then it compares their gaps with the bound. It takes a few seconds.

Run it with ``python examples/plot_private_representation.py``. With ``--out FOLDER`` the picture is
saved there.
"""

# %%
# The words
# ---------
# ε (epsilon)
#     How much more likely the released numbers of one person can be than they would be for any
#     other person: at most e^ε times. Smaller is stronger.
# release
#     The numbers of one person, with their noise. Drawing them again is another release and
#     costs another ε; with ``ids=`` the same person gets the same numbers again.
# gap
#     Difference between the shares of positive predictions in two groups.

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score
from sklearn.tree import DecisionTreeClassifier

from skfairdp import PrivateFairEncoder
from skfairdp.datasets import make_biased_gaussians
from skfairdp.metrics import group_gap

parser = argparse.ArgumentParser(description="What others can do with released representations.")
parser.add_argument("--out", type=Path, help="folder for the picture")
out = parser.parse_args().out

# %%
# Three parts of the people
# -------------------------
# The first part trains the encoder, in clear: these people agreed. The second is released, and
# others train on it. The third is released too, and shows what they do.

people = make_biased_gaussians(n_samples=9_000, random_state=0)
X, y, groups = (np.asarray(v) for v in (people.data, people.target, people.sensitive_features))
part = np.random.default_rng(0).integers(3, size=len(X))
agreed, shown, fresh = (np.flatnonzero(part == k) for k in range(3))

# %%
# Who uses the release, and what for
# ----------------------------------
# Each is given the released numbers and something to predict: the label, or the group itself.

first = np.unique(groups)[0]
PURPOSES = {"label": y, "group": (groups == first).astype(int)}
USERS = {
    "logistic regression, for the label": (LogisticRegression(), "label"),
    "random forest, for the label": (
        RandomForestClassifier(30, min_samples_leaf=20, random_state=0),
        "label",
    ),
    "a tree, to tell the groups apart": (
        DecisionTreeClassifier(max_depth=4, class_weight="balanced", random_state=0),
        "group",
    ),
}

# %%
# One encoder for each ε
# ----------------------
# The bound on the gap is tanh(ε/2). Row numbers serve as ids: asked again, no person pays twice.

EPSILONS = (0.25, 0.5, 1.0, 2.0, 3.0)
bounds: list[float] = []
gaps: dict[str, list[float]] = {name: [] for name in USERS}
for epsilon in EPSILONS:
    encoder = PrivateFairEncoder(
        epsilon=epsilon, beta=10.0, max_epochs=15, batch_size=256, progress=False
    )
    encoder.fit(X[agreed], y[agreed], sensitive_features=groups[agreed])
    Z, Z_fresh = encoder.transform(X[shown], ids=shown), encoder.transform(X[fresh], ids=fresh)
    claim = encoder.certify().fairness[0]
    bounds.append(claim.bound)
    print(f"epsilon = {epsilon:g}: no gap above {claim.figure}, for {claim.scope}")
    for name, (classifier, purpose) in USERS.items():
        wanted = PURPOSES[purpose]
        predicted = classifier.fit(Z, wanted[shown]).predict(Z_fresh)
        gaps[name].append(group_gap(wanted[fresh], predicted, sensitive_features=groups[fresh]))
        right = accuracy_score(wanted[fresh], predicted)
        print(f"    {name}: right {right:.2f}, gap {gaps[name][-1]:.3f}")

# %%
# What the last encoder promises
# ------------------------------
# The certificate counts the releases, and says what is not covered: the rows that the encoder was
# trained on. ``train_privately=True`` would protect these as well.

print(encoder.certify())

# %%
# One picture
# -----------
# All users stay to the left of the line, the hostile one included.

figure, axis = plt.subplots(figsize=(6.4, 4.0), layout="constrained")
grid = np.linspace(0.0, max(EPSILONS), 100)
axis.plot(np.tanh(grid / 2), grid, color="black", label="bound for all: tanh(ε/2)")
for marker, (name, values) in zip("osv", gaps.items(), strict=True):
    axis.plot(values, EPSILONS, marker=marker, label=name)
axis.set(xlabel="gap among fresh people", ylabel="ε of one release", xlim=(0, 1))
axis.legend(loc="lower right")
figure.suptitle("Whatever is predicted from a release, the gap is bounded")
assert all(gap <= bound for v in gaps.values() for gap, bound in zip(v, bounds, strict=True))

if out is not None:
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / "private_representation.png", dpi=150)
    print(f"saved private_representation.png in {out}")
plt.show()
