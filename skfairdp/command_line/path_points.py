"""Point of a path that a report uses, and the figures of other points."""

from __future__ import annotations

import numpy as np
import pandas as pd

from skfairdp import FairPathClassifier
from skfairdp.command_line.planning import Outlook
from skfairdp.fairness.smallest_gap import rate_variance, showing

# What a path is printed at.
TOLERANCES = (0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2)
# Rates at which margins are computed; those between follow by interpolation.
_RATES = (0.01, 0.05, 0.1, 0.2, 0.35, 0.5)


def largest_shown(model: FairPathClassifier, outlook: Outlook) -> FairPathClassifier:
    """Stand as far from the start as the tolerance will be shown with the usual probability.

    From the start on, a point is passed if at its estimated gap, and at those of all points before
    it, held-out rows show the tolerance in nine of ten runs, with the noise of the released tables
    and the draw of both parts counted in. As in `ReleasedPath.choose` gaps from too much correction
    may be looked at from no constraint on in place of the start, and the first point that should
    not be passed is fixed before the noise of the tables is drawn, so passing it takes an error of
    its own noise, and not the best of many.
    """
    request, path = outlook.request, model._path_of(model.plan_)
    points = path.way
    gaps, stds = path.under, path.differences[1][:, points]
    trials = path.rates.trials_of(path.sizes)  # of each rate and group, among rows trained on
    levels = np.clip(path.levels[:, :, points], 0.0, 1.0)
    n_pairs = len(gaps) // len(trials)
    share = request.held_out / (1.0 - request.held_out)
    inwards, outwards = np.ones((2, len(points)), dtype=bool)
    for at, of_groups in enumerate(trials):
        sizes = {str(i): max(1, int(n * share)) for i, n in enumerate(of_groups)}
        planned = [
            showing(
                sizes,
                request.tolerance,
                rate=rate,
                confidence_level=request.confidence,
                n_claims=len(request.notion),
                count_epsilon=request.answers_epsilon,
            )
            for rate in _RATES
        ]
        mean = levels[at].mean(axis=0)
        rates = np.minimum(mean, 1.0 - mean)
        margins = np.interp(rates, _RATES, [each.margin for each in planned])
        deviations = np.interp(rates, _RATES, [each.deviation for each in planned])
        fewest = np.sort(of_groups)[:2]
        drawn = sum(rate_variance(rates, n) for n in fewest)
        of_rate = slice(at * n_pairs, (at + 1) * n_pairs)
        spread = np.sqrt(stds[of_rate] ** 2 + deviations**2 + drawn)
        room = request.tolerance - margins - planned[0].quantile() * spread
        inwards &= (gaps[of_rate] <= room).all(axis=0)
        outwards &= (-gaps[of_rate] <= room).all(axis=0)
    both = np.logical_and.accumulate(inwards & outwards)
    outwards = np.logical_and.accumulate(outwards[::-1])[::-1]
    passed = both | (np.logical_and.accumulate(inwards) & outwards)
    _, tolerances = path.points()
    ends = np.array([path.choose(float(each))[0] for each in tolerances], dtype=np.int64)
    last = tolerances[passed[np.abs(ends - path.start)]]
    chosen = float(last[-1] if len(last) else tolerances.min())
    return model.at(min(max(chosen, 1e-9), 1.0 - 1e-9))


def other_tolerances(model: FairPathClassifier) -> str:
    """Say what other tolerances would give, which costs these people nothing more."""
    path = model.path().drop_duplicates("tolerance", keep="last")
    reached = [path[path["tolerance"] <= t].tail(1).assign(tolerance=t) for t in TOLERANCES]
    found = pd.concat(reached)[["tolerance", "gap", "gap_std", "accuracy", "accuracy_std"]]
    if found.empty:
        strictest = path.loc[path["tolerance"].idxmin()]
        estimate = (
            f"it is estimated as {min(strictest['gap'], 1.0):.3f}, with a standard error of "
            f"{strictest['gap_std']:.2g} from noise"
            if strictest["gap_std"] < TOLERANCES[-1]
            else "noise hides it, as some group has too few rows"
        )
        return (
            "Other tolerances: among the rows trained on no gap of at most "
            f"{TOLERANCES[-1]:g} is kept in nine fits of ten. At the strictest point of the path "
            f"{estimate}. The certificate's bound is about other rows, those held out, and does "
            "not depend on this estimate."
        )
    noise = ""
    if (found["accuracy"] > 1.0).any():
        found["accuracy"] = found["accuracy"].clip(upper=1.0)
        noise = " Noise took some accuracies above 1; they are written as 1."
    named = found.set_axis(["tolerance", "gap", "error", "accuracy", "error"], axis="columns")
    table = named.to_string(index=False, float_format="{:.3f}".format)
    return (
        "The same model at other tolerances, at no further privacy loss (estimates of its own "
        "noisy tables, about the rows it was trained on; not certified). The column after an "
        f"estimate is its standard error.{noise}\n{table}"
    )
