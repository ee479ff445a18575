"""
A year of decisions: the gap, its bounds, and the alarm
=======================================================

A bank scores its clients and calls those with a high score. In May and June 2008 a model was
trained and certified: married clients and others are called about equally often. A certificate
speaks of that time. This example follows the decisions of the twelve months after, row by row in
their real order (UCI Bank Marketing), with a :class:`skfairdp.GapMonitor`. Half a year in, a
rule is put behind the model that was not certified. It takes a few seconds.

Run it with ``python examples/plot_monitor.py``. With ``--out FOLDER`` the picture is saved there.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skfairdp import GapMonitor, certifiable, certify
from skfairdp.datasets import fetch_bank

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--out", type=Path, help="folder to save the picture in")
out = parser.parse_known_args()[0].out

# %%
# Two months to train and to certify
# ----------------------------------
# Rows are in the order of the calls. Features leave out the marital status, by which groups are
# compared, and age.

bank = fetch_bank(subset="full")
rows, labels = bank.data.drop(columns=["marital", "month", "day"]), bank.target
groups = np.where(bank.data["marital"] == "married", "married", "other")
month = bank.data["month"]
starts = np.flatnonzero(month != month.shift())
first, year = slice(0, starts[2]), slice(starts[2], starts[14])

categories = [name for name in rows if rows[name].dtype.kind not in "if"]
model = make_pipeline(
    make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), categories), remainder=StandardScaler()
    ),
    LogisticRegression(class_weight="balanced", max_iter=1000),
)
held_out = np.random.default_rng(0).random(starts[2]) < 0.5
model.fit(rows[first][~held_out], labels[first][~held_out])

# %%
# Are there enough rows held out to show anything? This looks at sizes alone.

tolerance = 0.1
names, sizes = np.unique(groups[first][held_out], return_counts=True)
print(certifiable(dict(zip(names, sizes, strict=True)), tolerance))

# %%
# Looking at all times takes more rows: these are expected in half a year.

print(GapMonitor(tolerance=tolerance).certifiable({"married": 8000, "other": 5000}))

# %%
certificate = certify(
    model, rows[first][held_out], sensitive_features=groups[first][held_out], holdout="public"
)
print(certificate.fairness[0].figure, certificate.satisfies(tolerance=tolerance))

# %%
# Twelve months of decisions
# --------------------------
# The monitor may be looked at after every batch: its 95 % cover all looks together.

decisions = model.predict(rows[year])
real = GapMonitor(tolerance=tolerance)
batches = np.array_split(np.arange(len(decisions)), 50)
for batch in batches:
    real.update(decisions[batch], groups[year][batch])
print(real)

# %%
# The average of the year is below the tolerance, and the alarm is silent. But there was a drift:
# in August 2008 other clients than before were in the file.

for name in ("jul", "aug", "nov"):
    part = (month[year] == name).to_numpy() & (np.arange(len(decisions)) < len(decisions) // 2)
    rates = [decisions[part & (groups[year] == group)].mean() for group in names]
    print(name, "married {:.2f}, other {:.2f}".format(*rates))

# %%
# A rule that was not certified
# -----------------------------
# A second monitor begins after that summer. From February on, four of ten of those who are not
# married are no longer called.

later = np.arange(starts[5] - starts[2], len(decisions))
begins = starts[8] - starts[2]
skipped = np.random.default_rng(1).random(len(decisions)) < 0.4
skipped &= (groups[year] == "other") & (np.arange(len(decisions)) >= begins)
changed = np.where(skipped, 0, decisions)
watched = GapMonitor(tolerance=tolerance)
for batch in np.array_split(later, 50):
    watched.update(changed[batch], groups[year][batch])
print(watched)

# %%
# Bounds are about the average since the beginning, which moves slowly; drift looks for a change.
# A monitor is cleared once each direction of the gap has been below the tolerance at some time.

figure, axes = plt.subplots(2, 1, figsize=(7, 6.5))
for monitor, ax, title in ((real, axes[0], "as it was"), (watched, axes[1], "with the rule")):
    monitor.plot(ax)
    ax.set_title(title)
axes[1].axvline(begins - later[0], color="grey", linestyle=":", label="the rule begins")
axes[1].legend()
figure.tight_layout()
if out is not None:
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / "monitor.png", dpi=120)
plt.show()
