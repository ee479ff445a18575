"""Private learning under rate constraints: records are protected, gaps are driven to a target."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

import numpy as np
import torch
from numpy.random import RandomState
from numpy.typing import ArrayLike
from torch import Tensor

from skfairdp.engine.objectives import Objective
from skfairdp.fairness.groups import Groups, encode_groups
from skfairdp.inprocessing.constrained import ConstrainedClassifier, DualAscent, Lagrangian
from skfairdp.inprocessing.gradient import GRADIENT_PARAMETERS, NONE, Run
from skfairdp.inprocessing.rate_constraints import RateConstraints
from skfairdp.inprocessing.rate_objective import CostObjective, RateObjective
from skfairdp.parameters import MAPPING, SEQUENCE, Kind, Number
from skfairdp.privacy.ledger import PrivacyLedger
from skfairdp.privacy.noise import NoiseSource
from skfairdp.privacy.plan import Block, Plan, Segment
from skfairdp.privacy.sizes import Sizes, expected_batch_size, steps_for

__all__ = ["RateConstrainedClassifier"]


class RateConstrainedClassifier(ConstrainedClassifier):
    """Draft."""

    _parameters = {
        **GRADIENT_PARAMETERS,
        "notion": (Kind((str,), "a notion's name"), SEQUENCE),
        "tolerance": (Number(0.0, 1.0, high_open=True), MAPPING),
        "histogram_share": (Number(0.0, 1.0, low_open=True, high_open=True),),
        "sharpness": (Number(0.0, low_open=True),),
        "dual_rate": (Number(0.0, low_open=True),),
        "penalty": (Number(0.0),),
        "max_multiplier": (Number(0.0, low_open=True),),
        "memory": (Number(0.0, 1.0, high_open=True),),
        "averaged_share": (Number(0.0, 1.0),),
        "groups": (SEQUENCE, NONE),
    }

    def __init__(
        self,
        net: Any = None,
        *,
        notion: str | Sequence[str] = "demographic_parity",
        tolerance: float | Mapping[str, float] = 0.02,
        epsilon: float | None = 1.0,
        delta: float = 1e-6,
        noise_multiplier: float | None = None,
        max_grad_norm: float = 1.0,
        histogram_share: float = 0.3,
        sharpness: float = 3.0,
        dual_rate: float = 0.05,
        penalty: float = 0.0,
        max_multiplier: float = 5.0,
        memory: float = 0.9,
        averaged_share: float = 0.3,
        batch_size: int | str = "auto",
        max_epochs: int = 20,
        dataset_size: int | None = None,
        groups: Sequence[Any] | None = None,
        classes: Sequence[Any] | None = None,
        learning_rate_schedule: Any = "linear",
        random_state: int | RandomState | None = None,
        reproducible_noise: bool = False,
        progress: bool | None = None,
        ledger: str | PathLike[str] | PrivacyLedger | None = None,
    ) -> None:
        self.net = net
        self.notion = notion
        self.tolerance = tolerance
        self.epsilon = epsilon
        self.delta = delta
        self.noise_multiplier = noise_multiplier
        self.max_grad_norm = max_grad_norm
        self.histogram_share = histogram_share
        self.sharpness = sharpness
        self.dual_rate = dual_rate
        self.penalty = penalty
        self.max_multiplier = max_multiplier
        self.memory = memory
        self.averaged_share = averaged_share
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.dataset_size = dataset_size
        self.groups = groups
        self.classes = classes
        self.learning_rate_schedule = learning_rate_schedule
        self.random_state = random_state
        self.reproducible_noise = reproducible_noise
        self.progress = progress
        self.ledger = ledger

    def fit(
        self, X: ArrayLike, y: ArrayLike, *, sensitive_features: ArrayLike | None = None
    ) -> RateConstrainedClassifier:
        super().fit(X, y, sensitive_features=sensitive_features)
        return self

    def _encode_groups(self, sensitive_features: Any, n: int) -> Groups:
        if sensitive_features is None:
            raise ValueError(
                "'sensitive_features' must hold the group of each row: rates are compared between "
                "groups; got None. DPSGDClassifier trains without groups."
            )
        if self.groups is not None:
            groups = encode_groups(
                sensitive_features, n_rows=n, labels=self.groups, on_unknown="drop"
            )
        else:
            groups = encode_groups(sensitive_features, n_rows=n)
        if len(groups.labels) < 2:
            raise ValueError(
                "'sensitive_features' must hold at least two groups, whose rates are compared; "
                "got one. DPSGDClassifier trains without groups."
            )
        return groups

    def _sizes(self, groups: Groups | None, n: int, noise: NoiseSource) -> Sizes:
        if self.dataset_size is None:
            return Sizes(("all",), (n,), "zero-out")
        return Sizes(("all",), (int(self.dataset_size),), "add-remove")

    def _cells(self, plan: Plan, groups: Groups | None) -> np.ndarray | None:
        return None if groups is None else np.where(groups.codes < 0, -1, 0)

    def _batch(self, n: int) -> int:
        if self.batch_size == "auto":
            return min(1024, -(-n // 16))
        return expected_batch_size(self.batch_size, n)

    def _plan(self, sizes: Sizes, noise_multiplier: float) -> Plan:
        batch_size = self._batch(sizes.total)
        weight = 1.0 / batch_size
        clip, share = float(self.max_grad_norm), float(self.histogram_share)
        std = noise_multiplier * weight
        segment = Segment(
            steps=steps_for(self.max_epochs, sizes.total, batch_size),
            rates=(batch_size / sizes.total,),
            expected_sizes=(float(batch_size),),
            blocks=(
                Block("gradient", clip, (weight,), std * clip / math.sqrt(1.0 - share**2)),
                Block("histogram", 1.0, (weight,), std / share),
            ),
        )
        return Plan(sizes.cells, (segment,), (), sizes.adjacency, float(self.delta))

    def _targets(self, labels: torch.Tensor, groups: np.ndarray | None) -> tuple[Tensor, ...]:
        assert groups is not None
        n_labels = int(labels.max()) + 1 if self.classes is None else len(self.classes)
        codes = torch.from_numpy(groups).to(labels.device)
        cells = codes * n_labels + labels.long()
        n_cells = n_labels * (len(self.groups) if self.groups is not None else int(codes.max()) + 1)
        return labels, torch.where(codes < 0, n_cells, cells)

    def _rate_objective(self, base: Objective, constraints: RateConstraints) -> RateObjective:
        if self.sharpness == 99:
            return CostObjective(base, constraints)
        return RateObjective(base, base, constraints, self.sharpness)

    def _average_from(self, steps: int) -> int:
        return steps - int(self.averaged_share * steps)

    def _lagrangian(self, run: Run, constraints: RateConstraints) -> Lagrangian:
        dual = DualAscent(
            constraints.tolerances,
            rate=self.dual_rate,
            penalty=self.penalty,
            limit=self.max_multiplier,
        )
        std = run.plan.segments[0].blocks[1].noise_std
        dual.factors = np.array(run.learning_rates) / max(run.learning_rates)
        dual.settle = getattr(type(self), "SETTLE", np.inf)
        lag = Lagrangian(constraints, dual, memory=self.memory, noise_std=std)
        lag.trace = type(self).TRACE = []
        return lag

    def _release(
        self, run: Run, segment: Segment, lagrangian: Lagrangian
    ) -> tuple[Tensor, Tensor | None]:
        objective = run.objective
        return run.release.gradient_and_statistic(segment, objective.statistic)
