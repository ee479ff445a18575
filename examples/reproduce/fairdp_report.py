"""The Markdown page of the FairDP tables."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

import numpy as np
from fairdp_against import explanation, first_table_3, published
from fairdp_comparisons import heads, ratios, relative, segments, shift, trained_cnn
from fairdp_data import DESCRIPTIONS, TABULAR, TITLES
from fairdp_jobs import (
    DELTA,
    EPSILONS,
    HEAD_NORMS,
    PINNED,
    PINNED_FAIRDP,
    SEGMENTS,
    SETTINGS,
)
from fairdp_measures import chosen, column, parity_bound, spread, table
from fairdp_summary import summary
from pages import write_pages

LIBRARIES = ("skfairdp", "torch", "scikit-learn", "fairlearn", "dp-accounting", "numpy", "scipy")
COMMAND = 'python examples/reproduce/fairdp_tables.py --data-home "$SKFAIRDP_DATA"'


def write_report(rows: list[dict], pictures: dict[str, str], out: Path, *, seeds: int) -> Path:
    """Write ``fairdp_tables.md``.

    Parameters
    ----------
    rows : list of dict
        Measured fits.
    pictures : dict of str to str
        File names of the figures.
    out : Path
        Folder of the page.
    seeds : int
        Number of seeds, for the text.

    Returns
    -------
    Path
        Of the page.
    """
    parts = [
        "# FairDP: the papers' tables, with sound accounting",
        summary(rows).rstrip(),
        explanation(rows, pictures),
        published(rows),
        _tables(rows),
        relative(rows),
        ratios(rows, pictures),
        shift(rows, pictures),
        heads(rows),
        segments(rows, pictures),
        first_table_3(rows),
        trained_cnn(rows),
        _measured(rows, seeds),
        _settings(rows),
    ]
    path = out / "fairdp_tables.md"
    write_pages(path, "\n\n".join(part for part in parts if part) + "\n")
    return path


def _measured(rows: list[dict], seeds: int) -> str:
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in LIBRARIES)
    spent = [row["epsilon_spent"] / row["epsilon"] for row in rows if row.get("epsilon_spent")]
    sets = "\n".join(
        f"* **{title}.** {DESCRIPTIONS[name]}"
        for name, title in TITLES.items()
        if any(row["dataset"] == name for row in rows)
    )
    return f"""## How it was measured

    {COMMAND}

{len(rows)} fits; {versions}.

* Figures are mean ± standard deviation over {seeds} seeds, on test rows that no training saw.
* **parity** gap: largest difference between groups in the share of positive predictions;
  **opportunity**: the same among rows with label 1; **false positive**: among rows with label 0;
  **odds**: the larger of the last two. (The papers do not define theirs. Their odds gap is below
  their opportunity gap, so it is not a maximum; it may be the false positive gap.)
* **bound**: the certificate's 95 % upper bound on the parity gap of the deployed model in the
  population of the test rows; with several heads, on rates averaged over which head decides. Each
  bound holds by itself; of twenty, one may fail. Test rows have no privacy protection here.
* **seconds**: processor time of `fit` on one core, calibration of the noise included (it is kept
  between seeds); for faces without the fixed layers, about 2 ms an image.
* "clean" is `DPSGDClassifier(epsilon=inf)`: the same path without noise. ε is for δ = {DELTA:g}
  and one record replaced by an empty one (sizes are taken from the rows: "zero-out"). Spent is at
  most the ε named (largest share: {max(spent):.4f}). FairDP charges for the average over groups
  that leaves a step, not for every group's model.
* Preprocessing is public: columns are scaled by declared bounds, categories come from declared
  lists, nothing is learned from rows. Pixels are normalised image by image.
* Settings are at the end. They were chosen on a fifth of the training part with other seeds (the
  synthetic set: on other draws), never on test rows, and that search is not charged.

Data sets:

{sets}"""


def _tables(rows: list[dict]) -> str:
    blocks = []
    for name, title in TITLES.items():
        cases = [("clean", {"part": "main", "method": "clean"})]
        cases += [
            (f"DPSGD, ε = {e:g}", {"part": "main", "method": "dpsgd", "epsilon": e})
            for e in EPSILONS
        ]
        cases.append(("FairDP, no noise, M = 1",
                      {"part": "main", "method": "fairdp", "epsilon": None}))  # fmt: skip
        cases += [
            (
                f"FairDP, ε = {e:g}, M = {m:g}",
                {"part": "main", "method": "fairdp", "epsilon": e, "max_head_norm": m},
            )
            for e in EPSILONS
            for m in HEAD_NORMS
        ]
        if name in TABULAR:
            cases.append(("ExponentiatedGradient, not private",
                          {"method": "exponentiated_gradient"}))  # fmt: skip
            cases.append(("ThresholdOptimizer, not private",
                          {"method": "threshold_optimizer"}))  # fmt: skip
        precision = name == "default"
        lines = [
            _line(label, fits, precision=precision)
            for label, wanted in cases
            if (fits := chosen(rows, dataset=name, **wanted))
        ]
        if lines:
            heading = ["model", "accuracy", "AUC", *(["AUC-PR"] if precision else []), "parity gap",
                       "opportunity", "false positive", "odds", "bound", "seconds"]  # fmt: skip
            blocks.append(f"### {title}\n\n{table(heading, lines)}")
    return (
        "## All rows\n\nThe non-private rows are fairlearn's, on logistic regression, with parity "
        "as the constraint (`difference_bound=0.01`); their predictions are drawn at random, so "
        "their AUC, that of the probability of a positive answer, is not a measure of ranking. "
        "ThresholdOptimizer asks for the group at prediction.\n\n" + "\n\n".join(blocks)
    )


def _line(label: str, fits: list[dict], *, precision: bool) -> list[str]:
    bounds = column(fits, "certified_bound")
    if len(bounds) == 0:
        bounds = np.array([parity_bound(np.array(fit["table"])) for fit in fits])
    return [
        label,
        spread(column(fits, "accuracy")),
        spread(column(fits, "auc")),
        *([spread(column(fits, "auc_pr"))] if precision else []),
        *(spread(column(fits, n)) for n in ("parity", "opportunity", "false_positive", "odds")),
        spread(bounds),
        f"{column(fits, 'seconds').mean():.1f}",
    ]


def _settings(rows: list[dict]) -> str:
    lines = [
        [TITLES.get(name, "UTK-Face, trained CNN"), *(f"{settings[key]:g}" for key in
                                   ("batch_size", "max_epochs", "lr"))]
        for name, settings in SETTINGS.items()
    ]  # fmt: skip
    noise = []
    for name in TITLES:
        for epsilon in EPSILONS:
            wanted = {"part": "main", "dataset": name, "epsilon": epsilon}
            ours = column(chosen(rows, method="fairdp", **wanted), "noise_multiplier")
            dpsgd = column(chosen(rows, method="dpsgd", **wanted), "noise_multiplier")
            if len(ours) and len(dpsgd):
                noise.append([TITLES[name], f"{epsilon:g}", f"{dpsgd.mean():.2f}",
                              f"{ours.mean():.2f}"])  # fmt: skip
    pinned = ", ".join(f"{key}={value!r}" for key, value in SEGMENTS.items())
    return f"""## Settings

Clipping norm {PINNED["max_grad_norm"]:g}; Adam, its learning rate falling linearly to 0. FairDP
takes the last {100 * PINNED_FAIRDP["sgd_fraction"]:.0f} % of its steps by plain gradient descent
at learning rate {PINNED_FAIRDP["sgd_learning_rate"]:g}. Tables: one hidden layer of 64 tanh units.
Faces: two layers of fixed wavelets (public, see `fairdp_images.py`) under one trained linear layer.

{table(["data", "batch", "epochs", "learning rate"], lines)}

001's synthetic set: {pinned}.

Noise multipliers that the calibration found (FairDP's is per group sum; a record's own, on the
average, is larger):

{table(["data", "ε", "DPSGD", "FairDP"], noise)}

The other methods of the papers (DPSGD-F, DP-IS-SGD, the functional mechanism, FairSmooth and its
variants) are in [their own table](baselines.md); here "best baseline" is DPSGD. Figure-only
results of the papers have no numbers to compare with."""
