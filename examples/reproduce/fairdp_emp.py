"""tau_emp of FairDP (Proposition 3), released so that the release is really private.

The paper averages, over training rows, the chance that a row is approved when the head's
last noise is drawn again,

    phi(x) = Pr(<w, xi> >= 0),  w ~ N(w_bar, sigma0^2 I),  xi = (hidden features, 1),

and adds Lap(1/epsilon') to the gap. Two things prevent calling that private.
w_bar, the head before its noise, is not released, and removing a record moves it and with
it phi of *every* row; and a gap of means moves by up to 1/n_u + 1/n_v, not by 1.

Here w_bar is replaced by the released head: then phi depends on released values and the
row alone. Sums are released instead of means: with phi rounded to thousandths, a record
adds (k, 1000 - k) thousandths to the two counts of its (group, label) cell, so removing it,
or replacing it by an empty record, moves the whole table by 1000 thousandths in L1, that
is, by 1. Discrete Laplace noise with parameter epsilon'/1000 per thousandth makes the table
epsilon'-private, for all groups and labels together; gaps of any notion are read off it.
This is the second of the three ways that the theory page gives, and not the third
(tau_emp with w_bar itself), whose sensitivity has no useful bound.

The rows were trained on, so the figure is what the paper reports and no certificate.
"""

from __future__ import annotations

import copy
import dataclasses
import math

import numpy as np

from skfairdp import FairDPClassifier
from skfairdp.privacy.accounting.plan_cost import epsilon
from skfairdp.privacy.noise import NoiseSource
from skfairdp.privacy.plan import CountRelease

EPSILON = 0.1  # the paper's epsilon'
UNITS = 1000  # a score is a whole number of thousandths
ERROR = 0.05  # 0.01 for the noise, 0.04 for the rows
NOISE_ERROR = 0.01
NOTIONS = {
    "parity": ((0, 1),),
    "opportunity": ((1,),),
    "odds": ((0,), (1,)),
}


def released_tau(
    model: FairDPClassifier, X: np.ndarray, y: np.ndarray, groups: np.ndarray
) -> dict[str, object]:
    """Release tau_emp and the gaps it is about, at `EPSILON` more.

    Parameters
    ----------
    model : FairDPClassifier
        Fitted on these rows.
    X, y, groups : ndarray
        The private training rows, their labels (0, 1) and groups.

    Returns
    -------
    dict
        "gap" and "tau" by notion, the total "epsilon" of training and release, and
        "sigma0", the standard deviation of the head's last noise.
    """
    last = model.plan_.segments[-1]
    sigma0 = model.sgd_learning_rate * last.blocks[0].noise_std
    smoothed = copy.deepcopy(model).set_params(smoothing=sigma0)
    score = np.rint(UNITS * smoothed.predict_proba(X)[:, 1]).astype(np.int64)

    labels = list(model.groups_)
    cell = np.array([labels.index(group) for group in groups]) * 2 + y
    hit = np.zeros(2 * len(labels), dtype=np.int64)
    miss = hit.copy()
    np.add.at(hit, cell, score)
    np.add.at(miss, cell, UNITS - score)
    noise = NoiseSource().discrete_laplace(EPSILON / UNITS, 2 * len(hit)).reshape(2, -1)
    hit, miss = ((part + n).reshape(-1, 2) for part, n in zip((hit, miss), noise, strict=True))

    # Pr(|noise| > t) <= 2 exp(-t epsilon' / 1000) for one count; all counts together.
    t = math.log(2 * 2 * hit.size / NOISE_ERROR) * UNITS / EPSILON
    plan = model.plan_
    release = CountRelease(name="smoothed group x label", epsilon=EPSILON)
    total = epsilon(dataclasses.replace(plan, counts=(*plan.counts, release)))
    gaps, taus = {}, {}
    for notion, strata in NOTIONS.items():
        both = [_gap(hit, miss, stratum, t) for stratum in strata]
        gaps[notion] = max(gap for gap, _ in both)
        taus[notion] = max(tau for _, tau in both)
    return {"gap": gaps, "tau": taus, "epsilon": total, "sigma0": sigma0}


def _gap(hit: np.ndarray, miss: np.ndarray, stratum: tuple, t: float) -> tuple[float, float]:
    """Noisy gap, and a bound on the gap of the population the rows were drawn from.

    k/(k + m) grows in k and falls in m: with each count off by at most t it lies between
    (k - t)/(k + m) and (k + t)/(k + m). Hoeffding's inequality covers the draw of the rows;
    no union over pairs is needed, because the worst pair is a fixed one. A rounded score is
    off by at most half a thousandth, a difference of two means by one.
    """
    k, m = hit[:, stratum].sum(axis=1), miss[:, stratum].sum(axis=1)
    slack = t * len(stratum)
    rows = np.maximum(k + m, 1.0)
    rate = k / rows
    n = np.maximum((k + m - 2 * slack) / UNITS, 1e-9)
    upper, lower = (k + slack) / rows, (k - slack) / rows
    draw = np.sqrt(np.log(1 / (ERROR - NOISE_ERROR)) * (1 / n[:, None] + 1 / n[None, :]) / 2)
    bound = upper[:, None] - lower[None, :] + draw + 1 / UNITS
    np.fill_diagonal(bound, -np.inf)
    return float(np.ptp(rate.clip(0, 1))), float(min(1.0, max(0.0, bound.max())))
