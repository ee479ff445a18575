"""Draw the shares of several answers by group, and what each gap would cost.

``docs/stories/university.md`` tells which lines write the certificate and the path.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

TOLERANCES = (0.02, 0.03, 0.05, 0.07, 0.1, 0.15)

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("certificate", type=Path, help="file that `certificate.to_json` wrote")
parser.add_argument("path", type=Path, help="file that `path().to_csv` wrote")
parser.add_argument("--out", type=Path, default=Path("university.png"), help="picture to write")
arguments = parser.parse_args()

document = json.loads(arguments.certificate.read_text(encoding="utf-8"))
(claim,) = document["fairness"]
counts = pd.DataFrame(claim["counts"])
counts["answer"] = counts["stratum"].str.removeprefix("prediction ")
counts["share"] = counts["successes"] / counts["trials"]
shares = counts.pivot(index="answer", columns="group", values="share")
print(shares.round(3).to_string())
print(document["sentence"])

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
shares.plot.bar(ax=left, rot=0, width=0.8)
left.set(xlabel="", ylabel="share of students", ylim=(0, None))
path = pd.read_csv(arguments.path)
# The path's last point whose gap is within each tolerance.
kept = [path[path["tolerance"] <= t].tail(1).assign(tolerance=t) for t in TOLERANCES]
reached = pd.concat(kept).set_index("tolerance")
print(reached[["gap", "accuracy"]].round(3).to_string())
right.errorbar(reached.index, reached["accuracy"], reached["accuracy_std"], fmt="o-", color="black")
right.set(xlabel="tolerance", ylabel="accuracy (estimate)", ylim=(0.3, 0.6))
right.set(xlim=(0, None), title="One fit at ε = 1, every tolerance")
figure.savefig(arguments.out, dpi=150)
