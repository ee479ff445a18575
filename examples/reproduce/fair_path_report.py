"""The page of the fair path, its tables and its picture, from what `fair_path.py` measured.

``python examples/reproduce/fair_path_report.py FOLDER docs/results`` reads figures.csv and
attribute.csv in the folder.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from fair_path import METHODS, PATH, TOLERANCES
from fair_path_texts import HEAD, HOW, TITLES
from pages import write_pages

GAPS = (0.018, 0.048, 0.064, 0.02, 0.05, 0.07)
PROTOTYPE = (".8366", ".8452", ".8484", "", "", "")  # Known at the first three gaps
NOTIONS = {
    "demographic_parity": "demographic parity",
    "equal_opportunity": "equal opportunity",
    "equalized_odds": "equalised odds",
    "accuracy_parity": "accuracy parity",
}
PRIVATE = [method for method, (_, kind, _) in METHODS.items() if kind != "once"]


def spread(values: pd.Series, places: int = 4) -> str:
    """Mean and standard deviation over fits."""
    if len(values) == 1:
        return f"{values.iloc[0]:.{places}f}".replace("0.", ".")
    return f"{values.mean():.{places}f} ± {values.std():.{places}f}".replace("0.", ".")


def table(columns: Sequence[str], rows: list[Sequence[str]]) -> str:
    """Lay out Markdown."""
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    return "\n".join([*lines, *("| " + " | ".join(map(str, row)) + " |" for row in rows)]) + "\n"


def at_gaps(rows: pd.DataFrame, gaps: Sequence[float]) -> np.ndarray:
    """Accuracy of each fit at some gaps, shape (n_fits, n); nan beyond the points of its path."""
    found = []
    for _, fit in rows.groupby("seed"):
        points = fit.sort_values("gap")
        found.append(np.interp(gaps, points["gap"], points["accuracy"], np.nan, np.nan))
    return np.array(found)


def adult(figures: pd.DataFrame) -> str:
    """Every method on Adult under demographic parity."""
    rows = []
    for method, fits in figures.groupby("method", sort=False):
        name = f"{method}, ε = 1" if method in PRIVATE else f"{method}; not private"
        for tolerance, some in fits.groupby("tolerance"):
            if tolerance in (*TOLERANCES, 0.0):
                place = f"{tolerance:g}".lstrip("0") or "0"
                rows.append((name, len(some), place, spread(some["accuracy"]), spread(some["gap"])))
    return table(("Adult", "fits", "tolerance", "accuracy", "gap"), rows)


def equal_gaps(figures: pd.DataFrame) -> str:
    """Accuracies at equal gaps, those of a prototype among them."""
    rows: list[Sequence[str]] = []
    for (method, epsilon), fits in figures.groupby(["method", "epsilon"], sort=False):
        if fits["tolerance"].nunique() < 3:
            continue
        found = at_gaps(fits, GAPS)
        errors = found.std(axis=0, ddof=1) / len(found) ** 0.5 if len(found) > 1 else 0 * found[0]
        cells = [
            f"{mean:.4f} ± {error:.4f}".replace("0.", ".").replace(" ± .0000", "")
            if np.isfinite(mean)
            else ""
            for mean, error in zip(found.mean(axis=0), errors, strict=True)
        ]
        name = f"{method}, ε = {epsilon:g}" if method in PRIVATE else f"{method}; not private"
        rows.append((name, len(found), *cells))
    rows.append(("prototype of this path, ε = 1", "1 to 3", *PROTOTYPE))
    return table(("Adult", "fits", *(f"at {gap:g}" for gap in GAPS)), rows)


def kept(figures: pd.DataFrame, tolerance: float) -> str:
    """How many of ten fits keep a tolerance, by released values and on test rows."""
    rows = []
    for (name, notion), fits in figures.groupby(["set", "notion"], sort=False):
        some = fits[fits["tolerance"] == tolerance]
        sure = (some["kept_tolerance"] <= tolerance).sum()
        below = (some["gap"] <= tolerance).sum()
        rows.append(
            (TITLES[name], NOTIONS[notion], f"{sure} of {len(some)}", f"{below} of {len(some)}")
            + (spread(some["gap"]), f"{some['gap'].max():.4f}".replace("0.", "."))
            + (spread(some["accuracy"]),)
        )
    columns = ("data", "notion", "keep it", "below it on test rows", "gap", "largest", "accuracy")
    return table(columns, rows)


def everything(figures: pd.DataFrame) -> str:
    """Every data set, notion, method and budget."""
    rows = []
    keys = ["set", "notion", "method", "epsilon", "tolerance"]
    for (name, notion, method, epsilon, tolerance), some in figures.groupby(keys, sort=False):
        if tolerance not in (*TOLERANCES, 0.0):
            continue
        sure = ""
        if method == PATH:
            sure = f"{(some['kept_tolerance'] <= tolerance).sum()} of {len(some)}"
        budget = f"{epsilon:g}" if method in PRIVATE else "∞"
        rows.append(
            (TITLES[name], NOTIONS[notion], method, budget, f"{tolerance:g}", len(some), sure)
            + (spread(some["accuracy"]), spread(some["gap"]))
        )
    columns = ("data", "notion", "method", "ε", "tolerance", "fits", "keep it", "accuracy", "gap")
    return table(columns, rows)


def verdict(folds: pd.DataFrame) -> str:
    """How one cell of Table 2 of PF-LD compares with what was published."""
    means = folds.mean(numeric_only=True)
    ahead = means["accuracy"] - means["published accuracy"]
    closer = means["published violation"] - means["violation"]
    if min(ahead, closer) > 0.0:
        return "better in both"
    return "within .005" if min(ahead, closer) >= -0.005 else "behind"


def attribute(folds: pd.DataFrame) -> tuple[str, dict[str, int]]:
    """Table 2 of PF-LD; how many cells are met and better in both, and are met without noise."""
    rows, found = [], []
    for (name, notion), both in folds.groupby(["dataset", "notion"], sort=False):
        some, free = both[both["budget"] == 1.0], both[both["budget"] == np.inf]
        means = some.mean(numeric_only=True)
        found.append((verdict(some), verdict(free)))
        rows.append(
            (TITLES[name], NOTIONS[notion], spread(some["accuracy"], 3))
            + (f"{means['published accuracy']:.3f}", spread(some["violation"], 3))
            + (f"{means['published violation']:.3f}", f"{means['kept_tolerance']:.2f}")
            + (found[-1][0], spread(free["accuracy"], 3), spread(free["violation"], 3))
            + (found[-1][1],)
        )
    counts = {
        "met": sum(cell != "behind" for cell, _ in found),
        "better": sum(cell == "better in both" for cell, _ in found),
        "met_free": sum(cell != "behind" for _, cell in found),
    }
    columns = ("data", "notion", "accuracy", "published", "violation", "published", "keeps", "")
    without = ("accuracy without noise", "violation without noise", "")
    return table((*columns, *without), rows), counts


def picture(figures: pd.DataFrame, file: Path) -> None:
    """Accuracy against the gap, of test rows."""
    figure, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
    for method, rows in figures[figures["epsilon"].isin([1.0, np.inf])].groupby("method"):
        means = rows.groupby("tolerance")[["gap", "accuracy"]].mean()
        at_one = method in PRIVATE
        label = f"{method}, ε = 1" if at_one else f"{method}; not private"
        style = "o-" if at_one else "s--"
        ax.plot(means["gap"], means["accuracy"], style, label=label, alpha=1 if at_one else 0.6)
    known = [float(value) for value in PROTOTYPE if value]
    ax.plot(GAPS[: len(known)], known, "kx", label="prototype of this path, ε = 1")
    ax.set(xlabel="parity gap, test rows", ylabel="accuracy, test rows", xlim=(0, 0.11))
    figure.legend(fontsize=8, loc="outside lower center", ncols=2)
    figure.savefig(file, dpi=130)


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("measured", type=Path)
    parser.add_argument("docs", type=Path)
    options = parser.parse_args()
    figures = pd.read_csv(options.measured / "figures.csv")
    order = {name: place for place, name in enumerate([*TITLES, *NOTIONS, *METHODS])}
    keys = ["set", "notion", "method", "epsilon", "tolerance", "seed"]
    figures = figures.sort_values(
        keys, key=lambda column: column.map(order) if column.dtype == object else column
    )
    parity = figures[(figures["set"] == "adult") & (figures["notion"] == "demographic_parity")]
    at_one = parity[parity["epsilon"].isin([1.0, np.inf])]
    paths = figures[(figures["method"] == PATH) & (figures["epsilon"] == 1.0)]
    cells, counts = attribute(pd.read_csv(options.measured / "attribute.csv"))
    reached = at_gaps(parity[(parity["method"] == PATH) & (parity["epsilon"] == 1.0)], GAPS[:3])
    errors = reached.std(axis=0, ddof=1) / len(reached) ** 0.5
    shown = [
        f"{mean:.4f} ± {error:.4f}".replace("0.", ".")
        for mean, error in zip(reached.mean(axis=0), errors, strict=True)
    ]
    at_five = paths[(paths["notion"] == "demographic_parity") & (paths["tolerance"] == 0.05)]
    sure = (at_five["kept_tolerance"] <= 0.05).groupby(at_five["set"], sort=False).mean() >= 0.9
    picture(at_one, options.docs / "fair_path_adult.png")
    text = (
        HEAD.format(
            *(*shown, ", ".join(TITLES[name] for name in sure[sure].index)),
            **counts,
            fits=len(reached),
        )
        + f"\n## Adult at equal gaps\n\n{EQUAL}\n\n{equal_gaps(parity)}"
        + "\n## Adult at equal tolerances\n\nMean ± standard deviation over fits.\n\n"
        + adult(at_one)
        + f"\n## How often a tolerance is kept\n\n{KEPT}\n\n### At .02\n\n{kept(paths, 0.02)}"
        + f"\n### At .05\n\n{kept(paths, 0.05)}"
        + f"\n{HOW}\n## The attribute alone\n\n{CELLS}\n\n{cells}"
        + f"\n## Every data set, notion and budget\n\n{everything(figures)}"
    )
    write_pages(options.docs / "fair_path.md", text)


EQUAL = (
    "Accuracy where a path passes a gap, on test rows, by straight lines between its points: mean "
    "± standard error over fits. Compare at equal gaps, not at equal tolerances: a path stops "
    "short of its tolerance by a margin for noise, and the reduction does not."
)
KEPT = (
    'Fits at ε = 1. "Keep it": from released tables, about training rows. On test rows the gap '
    "has an error of its own: .0067 on Adult, .026 on Compas."
)
CELLS = (
    "PF-LD's protocol: the five folds, ε = 1 for the attribute and δ = 1e-5, features of [its "
    'page](pfld.md), `FairPathClassifier(protects="sensitive_features")` by its defaults. The '
    'tolerance asked of each cell is the violation that was published for it. "Keeps": the '
    "tolerance that the released tables say is kept, in the mean; where it is above the published "
    "violation, rows are too few to tell at this ε, and the smallest estimated gap is used. Met: "
    "no worse by more than .005 in either figure. Without noise: the same fits at ε = ∞."
)


if __name__ == "__main__":
    main()
