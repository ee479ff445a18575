"""Draw the distributions of predicted numbers of two groups from a filed certificate.

``docs/stories/hospital.md`` tells which lines write the certificate.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("certificate", type=Path, help="file that `certificate.to_json` wrote")
parser.add_argument("--out", type=Path, default=Path("hospital.png"), help="picture to write")
parser.add_argument("--bounds", type=float, nargs=2, default=(1, 14), help="bounds of the target")
arguments = parser.parse_args()

document = json.loads(arguments.certificate.read_text(encoding="utf-8"))
(claim,) = document["fairness"]
counts = pd.DataFrame(claim["counts"])
counts["days"] = counts["stratum"].str.rsplit(n=1).str[-1].astype(float)
counts["share"] = (counts["successes"] / counts["trials"]).clip(0, 1)
shares = counts.pivot(index="days", columns="group", values="share")
distance = (shares.iloc[:, 0] - shares.iloc[:, 1]).abs()
print(shares.assign(difference=distance).round(3).to_string())
print(document["sentence"])

figure, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
low, high = arguments.bounds
for name, line in zip(shares, ("-", "--"), strict=True):
    x, y = [low, *shares.index, high], [0.0, *shares[name], 1.0]
    axes.plot(x, y, line, marker=".", label=name)
widest = distance.idxmax()
axes.vlines(widest, *sorted(shares.loc[widest]), color="black", linewidth=3)
bound = math.ceil(1000 * claim["bound"]) / 1000  # a bound is rounded up
axes.annotate(
    f"largest difference {distance.max():.3f},\nwith 95 % confidence at most {bound:.3f}",
    (widest, shares.loc[widest].min()), (25, -25), textcoords="offset points",
    arrowprops={"arrowstyle": "-"},
)  # fmt: skip
axes.set(xlabel="predicted days", ylabel="share of people up to this number", xlim=(low, high))
axes.set_ylim(0, 1.02)
axes.legend(loc="lower right")
figure.savefig(arguments.out, dpi=150)
