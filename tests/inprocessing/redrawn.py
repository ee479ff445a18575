"""Tables of a fair path with their noise drawn anew, by the package's own door and plan."""

from __future__ import annotations

import math
import warnings

import numpy as np
import torch

from skfairdp import FairPathClassifier
from skfairdp.engine.clipping.clippers import make_clipper
from skfairdp.engine.inference import outputs_by_row
from skfairdp.engine.optimizers import flatten
from skfairdp.engine.release import NoisyRelease, Rows
from skfairdp.inprocessing.fair_path.path import SIDE, ReleasedPath
from skfairdp.inprocessing.fair_path.scores import Chances, Rates, ScoresObjective
from skfairdp.inprocessing.fair_path.tables import Tables, plan_tables, planned
from skfairdp.privacy.mechanisms.prefix_sums import PrefixSums
from skfairdp.privacy.noise import NoiseSource
from skfairdp.privacy.plan import Plan
from skfairdp.privacy.sizes import Sizes


def released_path(
    tables: Tables, direction: np.ndarray, middle: float | None = None
) -> ReleasedPath:
    """All that a fit releases after the direction; `middle` takes the place of the start."""
    plan = tables.release.meter.plan
    start = tables.start(direction, tables.first()) if middle is None else middle
    multipliers = tables.multipliers(start)
    released = tables.decided(direction, start), *tables.along(direction, multipliers)
    stds = {name: each.blocks[0].noise_std for name, each in planned(plan).items()}
    of_path, of_right = (PrefixSums(SIDE, stds[name]).stds for name in ("path", "accuracy"))
    of_sums = of_path * tables.rates.balanced_std, of_right
    return ReleasedPath(
        tables.rates, multipliers, *released, stds["decisions"], *of_sums,
        start=SIDE, direction=direction,
    )  # fmt: skip


class Redrawn:
    """All tables of a fit with noise drawn anew; net and rows stay as they are."""

    def __init__(self, model, X, y, groups, multiplier: float) -> None:
        self.model, self.tolerance = model, float(model.tolerance)
        self.rates = Rates.of(model.notion, range(len(model.classes_)))
        self.n_groups = len(model.groups_)
        self.ascent = len(self.rates.names) > 1 or self.n_groups > 2
        codes = np.searchsorted(np.array(model.groups_), groups)
        sizes = Sizes.of_all(len(y), len(y))
        tables = plan_tables(sizes, multiplier, self.rates, ascent=self.ascent)
        self.plan = sizes.plan(*tables, delta=1e-12)
        chances = Chances(model.module_, self.rates, self.n_groups, model.threshold)
        features = torch.from_numpy(np.asarray(X, dtype=np.float32))
        self.chances, self.told = chances, outputs_by_row(chances, features).numpy()
        targets = torch.from_numpy(y), torch.from_numpy(codes)
        self.rows = Rows(features, targets, np.zeros(len(y), dtype=np.int64))
        flat = flatten(model.module_)
        objective = ScoresObjective(self.rates, self.n_groups)
        self.clipper = make_clipper(model.module_, flat, objective)

    def tables(self, noise: NoiseSource, plan: Plan | None = None) -> Tables:
        release = NoisyRelease(self.rows, plan or self.plan, self.clipper, noise)
        tables = Tables(release, self.chances, self.rates, self.model.notion, self.n_groups)
        tables._known = self.told  # the same for all, and asked of the net once
        return tables

    def path(
        self, noise: NoiseSource, middle: float | None = None
    ) -> tuple[ReleasedPath, np.ndarray]:
        """Draw a path, and its true gaps. `middle` takes the place of the start."""
        tables = self.tables(noise)
        first = tables.first()
        if self.ascent:
            direction = tables.ascend(first, self.tolerance)
        else:
            direction = self.rates.direction(first.sum(axis=2))
        start = tables.start(direction, first) if middle is None else middle
        return released_path(tables, direction, start), self.exact(direction, start).gaps

    def exact(self, direction: np.ndarray, start: float) -> ReleasedPath:
        """Draw the same without noise."""
        sizes = Sizes.of_all(len(self.told), len(self.told))
        exact = plan_tables(sizes, 0.0, self.rates, ascent=self.ascent)
        plan = sizes.plan(*exact, delta=1e-12)
        return released_path(self.tables(NoiseSource(0), plan), direction, start)


def without_noise(X, y, groups, **settings) -> FairPathClassifier:
    model = FairPathClassifier(epsilon=math.inf, random_state=0, progress=False, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # neither private nor, everywhere, fair
        return model.fit(X, y, sensitive_features=groups)
