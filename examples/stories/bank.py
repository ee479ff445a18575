"""Draw selection rates and impact ratios of groups from a filed certificate.

``docs/stories/bank.md`` tells which report writes the certificate.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("certificate", type=Path, help="file that `skfairdp report` wrote (JSON)")
parser.add_argument("--out", type=Path, default=Path("bank.png"), help="picture to write")
parser.add_argument("--line", type=float, default=0.8, help="smallest ratio that was asked for")
arguments = parser.parse_args()

document = json.loads(arguments.certificate.read_text(encoding="utf-8"))
(claim,) = document["fairness"]
counts = pd.DataFrame(claim["counts"])
# The group of an intersection is a list: such as women, and single.
counts["group"] = [g if isinstance(g, str) else ",\n".join(g) for g in counts["group"]]
counts = counts.set_index("group")
rates = counts["successes"] / counts["trials"]
ratios = rates / rates.max()
table = pd.DataFrame({"selection rate": rates, "impact ratio": ratios})
print(table.rename(lambda group: group.replace("\n", " ")).round(3).to_string())
print(document["sentence"])

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.2), layout="constrained", sharey=True)
names = list(counts.index)
left.barh(names, rates, color="tab:blue")
left.hlines(range(len(names)), counts["low"], counts["high"], color="black", linewidth=2)
left.set(xlabel="selection rate (line: interval)", xlim=(0, 1))
left.invert_yaxis()
right.barh(names, ratios, color="tab:green")
right.axvline(arguments.line, color="black", linestyle=":")
right.text(arguments.line, 3.35, f"{arguments.line:g} ", ha="right", color="white")
right.set(xlabel="impact ratio: rate ÷ highest rate", xlim=(0, 1.05))
figure.savefig(arguments.out, dpi=150)
