"""Sections of the report that compare fits with each other or with a formula."""

from __future__ import annotations

import math

import numpy as np
from fairdp_data import TITLES
from fairdp_jobs import EPSILONS, N_HEADS, RATIOS, SYNTHETIC_EPSILONS
from fairdp_measures import (
    DISTANCES,
    DRAWS,
    chosen,
    column,
    gaps,
    shift_estimates,
    spread,
    table,
    welch,
)
from fairdp_published import SYNTHETIC, TABLE_2

NOTIONS = ("parity", "opportunity", "odds")


def relative(rows: list[dict]) -> str:
    """Utility drop and fairness gain of FairDP, with t-tests."""
    lines = []
    for name, title in TITLES.items():
        main = {"part": "main", "dataset": name}
        for epsilon in EPSILONS:
            ours = chosen(rows, method="fairdp", epsilon=epsilon, max_head_norm=1.0, **main)
            for label, base in (
                ("clean", chosen(rows, method="clean", **main)),
                ("DPSGD", chosen(rows, method="dpsgd", epsilon=epsilon, **main)),
            ):
                if not ours or not base:
                    continue
                cells = [title, f"{epsilon:g}", label]
                for what in ("accuracy", "auc", "parity", "opportunity"):
                    a, b = column(ours, what), column(base, what)
                    change = 100 * (b.mean() - a.mean()) / max(b.mean(), 1e-9)
                    cells += [f"{change:+.1f} %", welch(a, b)]
                lines.append(cells)
    if not lines:
        return ""
    heading = ["data", "ε", "against", "accuracy drop", "p", "AUC drop", "p",
               "parity gain", "p", "opportunity gain", "p"]  # fmt: skip
    return (
        "## Relative utility drop and fairness gain (M = 1)\n\nDrop: how much lower the figure is, "
        "in percent of the other model's; gain: how much smaller the gap is. Negative: better "
        "utility, or a larger gap. p: two-tailed Welch t-test over seeds; many tests stand here, "
        "so a single p below .05 says little.\n\n" + table(heading, lines)
    )


def ratios(rows: list[dict], pictures: dict[str, str]) -> str:
    """Thinned majority groups."""
    lines = []
    for name in ("adult", "default", "law"):
        for epsilon in EPSILONS:
            for ratio in RATIOS:
                fits = chosen(rows, part="ratio", dataset=name, epsilon=epsilon, ratio=ratio)
                if fits:
                    lines.append(
                        [TITLES[name], f"{epsilon:g}", f"{ratio:g}",
                         f"{column(fits, 'n_train').mean():.0f}",
                         *(spread(column(fits, what)) for what in
                           ("accuracy", "auc", "parity", "opportunity", "certified_bound"))]
                    )  # fmt: skip
    if not lines:
        return ""
    heading = ["data", "ε", "ρ", "rows", "accuracy", "AUC", "parity gap", "opportunity gap",
               "bound"]  # fmt: skip
    picture = f"\n\n![Accuracy and parity gap]({pictures['ratio']})" if "ratio" in pictures else ""
    return (
        "## Group sizes: ρ, the largest over the smallest (FairDP, M = 1)\n\nThe largest training "
        "group is thinned at random; test rows stay. Default-CCC's own ρ is 1.52, Adult's 2.02, "
        "Law School's 5.29, so ρ = 2 does not exist for Default-CCC.\n\n"
        + table(heading, lines)
        + picture
    )


def shift(rows: list[dict], pictures: dict[str, str]) -> str:
    """Estimate, certificate and tau_emp while the test shares move."""
    lines = []
    for name in ("adult", "default", "utkface", "law", "abalone", "synthetic"):
        for epsilon in EPSILONS:
            fits = chosen(rows, part="main", dataset=name, method="fairdp", epsilon=epsilon,
                          max_head_norm=1.0)  # fmt: skip
            if not fits:
                continue
            moved = shift_estimates(rows, name, "fairdp", epsilon)
            bound = column(fits, "certified_bound").mean()
            tau = np.array([fit["tau_emp"]["tau"]["parity"] for fit in fits])
            total = np.array([fit["tau_emp"]["epsilon"] for fit in fits])
            lines.append(
                [TITLES[name], f"{epsilon:g}", *(f"{value:.3f}" for value in moved.mean(axis=1)),
                 spread(column(fits, "certified_bound")), spread(tau), f"{total.max():.2f}",
                 f"{100 * np.mean(moved[2] > bound):.0f} %",
                 f"{100 * np.mean(moved[2] > tau.mean()):.0f} %"]
            )  # fmt: skip
    if not lines:
        return ""
    heading = ["data", "ε", *(f"gap at {d:g}" for d in DISTANCES), "certificate", "τ_emp",
               "ε with τ_emp", "above certificate at 0.2", "above τ_emp at 0.2"]  # fmt: skip
    picture = f"\n\n![Shift]({pictures['shift']})" if "shift" in pictures else ""
    return (
        "## Distribution shift (M = 1, parity)\n\nTest rows are resampled so that the shares of "
        "the (label, group) cells move by a total variation distance of 0 to 0.3, along "
        f"{DRAWS} random directions for each seed. The certificate speaks of the population of the "
        "*unmoved* test rows; nothing covers another one, and the last columns show how often the "
        "gap on moved rows was above. Moving the shares of these cells changes no rate inside a "
        "cell, so the opportunity and odds gaps do not move at all.\n\n"
        "τ_emp (000, Proposition 3) is released for ε' = 0.1 by discrete Laplace noise on sums "
        "over the training rows of the acceptance probability of the *released* head smoothed by "
        "its last noise, (Σφ, Σ(1−φ)) per group and label, whose L1 sensitivity is 1 "
        "(`fairdp_emp.py` derives it). The published recipe, Lap(1/ε') on the gap with the head "
        "before its noise, is not private: that head is not released, and removing one record "
        "moves it and with it every row's probability. The price is in the column \"ε with "
        "τ_emp\". It is the paper's quantity, about rows the model was trained on, and no "
        "certificate; where it is above the certificate, that is the noise and Hoeffding's "
        "inequality.\n\n" + table(heading, lines) + picture
    )


def heads(rows: list[dict]) -> str:
    """Monte-Carlo error of DP-MC: the published formula, the right one, and a measurement."""
    lines = []
    confidence = math.sqrt(2 * math.log(1 / 0.05) / N_HEADS)
    for name in (*TABLE_2, "synthetic"):
        fits = chosen(rows, part="heads", dataset=name)
        if not fits:
            continue
        counts = np.array(fits[0]["table"], dtype=float).sum(axis=2)
        per_stratum = {"parity": [counts.sum(axis=1)], "opportunity": [counts[:, 1]],
                       "odds": [counts[:, 0], counts[:, 1]]}  # fmt: skip
        for index, notion in enumerate(NOTIONS):
            formula = sum((0.5 / n / math.sqrt(N_HEADS)).sum() for n in per_stratum[notion])
            errors = []
            for fit in fits:
                of_heads = [gaps(np.array(t, dtype=float))[notion] for t in fit["head_tables"]]
                errors.append(np.std(of_heads, ddof=1) / math.sqrt(N_HEADS))
            printed = f"{TABLE_2[name][index]:.2e}" if name in TABLE_2 else "–"
            lines.append([TITLES[name], notion, printed, f"{formula:.2e}",
                          f"{np.mean(errors):.1e}", f"{confidence:.2f}"])  # fmt: skip
    if not lines:
        return ""
    heading = ["data", "notion", "published", "1/(2n√N), our n", "measured standard error",
               "95 % bound √(2 log 20 / N)"]  # fmt: skip
    return (
        "## Monte-Carlo error of DP-MC (000, Table II: N = 10 heads, ε = 1)\n\nThe published error "
        "is 1/(2n√N), summed over the two groups (and over labels for the odds), as if every test "
        "row had heads of its own. (The printed figures follow from sizes of test parts alone: "
        "Adult's official one, a fifth of Default-CCC, not 30 %, and White against all other races "
        "for UTK-Face.) All rows share the same N heads, so the error of a rate falls with √N "
        'alone, however many rows there are. "Measured": standard deviation of the gap over the '
        "heads, over √N. The last column holds whatever the heads do. After an ordinary last step "
        "the heads differ little, which the formula does not know; on the synthetic set, whose "
        "last step is noisy enough for Theorem 2 to say something (next section), the error of "
        "the parity gap is more than a hundred times the formula's.\n\n" + table(heading, lines)
    )


def segments(rows: list[dict], pictures: dict[str, str]) -> str:
    """001's synthetic data, where Theorem 2 says something."""
    lines = []
    for epsilon in SYNTHETIC_EPSILONS:
        fits = chosen(rows, part="segments", epsilon=epsilon)
        if not fits:
            continue
        auc, parity, opportunity, odds, tau = SYNTHETIC[epsilon]
        values = column(fits, "auc")
        turned = np.mean(values < 0.5)
        theirs, bound = f"{(1 + tau) / 2:.2f}", column(fits, "theorem2").mean()
        lines.append(
            [f"{epsilon:g}", f"{auc:.2f}", spread(values, 2), f"{100 * turned:.0f} %",
             f"{tau:.2f}", f"{bound:.2f}", theirs, f"{(1 + bound) / 2:.2f}",
             f"{parity:.2f}", spread(column(fits, "parity"), 2), f"{opportunity:.3f}",
             spread(column(fits, "opportunity")), f"{odds:.3f}", spread(column(fits, "odds"))]
        )  # fmt: skip
    if not lines:
        return ""
    clean = chosen(rows, part="main", dataset="synthetic", method="clean")
    clean_text = f" Clean: AUC published 0.91, ours {spread(column(clean, 'auc'), 3)}; parity gap "
    clean_text += f"published 0.41, ours {spread(column(clean, 'parity'), 3)}." if clean else ""
    heading = ["ε", "AUC published", "ours", "AUC < .5", "τ published", "ours", "cap, published τ",
               "cap, our τ", "parity published", "ours", "opportunity published", "ours",
               "odds published", "ours"]  # fmt: skip
    n_fits = len(chosen(rows, part="segments", epsilon=SYNTHETIC_EPSILONS[-1]))
    picture = (
        f"\n\n![Theorem 2's bound against the noise]({pictures['theorem2']})"
        if "theorem2" in pictures
        else ""
    )
    return (
        "## 001's synthetic data: a bound that says something (Table 2)\n\nThe last tenth of the "
        "steps uses batches of 4, learning rate 1 and sums instead of means, so that the noise of "
        f"the last step is large against the head; {n_fits} models for each ε, settings below.\n\n"
        "Theorem 2 (τ) bounds the gap of rates averaged over the last noise. It does so by making "
        "the head a coin toss: the chance that a pair of rows is ranked rightly is Φ(⟨w̄, Δξ⟩ / "
        "(σ₀‖Δξ‖)) ≤ Φ(R/σ₀) = (1 + τ)/2, so **the AUC averaged over that noise is at most "
        '(1 + τ)/2** ("cap"). Two of the four published AUCs are above the cap of their own τ, '
        'so they are no such averages. A single model ranks well or the wrong way round ("AUC < '
        '.5"), which the standard deviations show, and its own gap is not bounded by τ.'
        f"{clean_text}\n\n" + table(heading, lines) + picture + "\n\nAt the settings of the other "
        "tables the bound is 1 (left picture): σ would have to be above ten thousand."
    )


def trained_cnn(rows: list[dict]) -> str:
    """UTK-Face with a network whose convolutions are trained, too."""
    lines = []
    for part, label in (("cnn", "all layers trained"), ("main", "fixed wavelets, linear layer")):
        for method, epsilon, norm in (
            ("clean", None, None), ("dpsgd", 1.0, None), ("fairdp", 1.0, 1.0),
        ):  # fmt: skip
            fits = chosen(rows, part=part, dataset="utkface", method=method, epsilon=epsilon,
                          max_head_norm=norm)  # fmt: skip
            if fits and chosen(rows, part="cnn"):
                lines.append([label, {"clean": "clean", "dpsgd": "DPSGD, ε = 1",
                                      "fairdp": "FairDP, ε = 1, M = 1"}[method],
                              *(spread(column(fits, n)) for n in ("accuracy", "auc", "parity")),
                              f"{column(fits, 'seconds').mean():.0f}"])  # fmt: skip
    if not lines:
        return ""
    heading = ["network", "model", "accuracy", "AUC", "parity gap", "seconds"]
    return (
        "## UTK-Face: trained convolutions\n\nThe package's `SmallCNN`, trained end to end (batch "
        "512, 6 epochs), compared with the network of the tables above. With noise, filters that "
        "need not be learned are worth more than learned ones.\n\n" + table(heading, lines)
    )
