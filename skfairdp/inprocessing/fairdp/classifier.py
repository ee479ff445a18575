"""FairDP: equally weighted per-group clipped gradients, Gaussian noise, bounded last layer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, cast

from skfairdp.fairness.bounds.head_claim import THEOREM2_NOTIONS, theorem2_guarantee
from skfairdp.fairness.bounds.head_noise import GroupUpdate, Prediction
from skfairdp.fairness.guarantee import FairnessGuarantee
from skfairdp.fairness.notions import DERIVED
from skfairdp.foundation.parameters import (
    COUNT,
    MAPPING,
    NOISE_MULTIPLIER,
    NORM,
    POSITIVE,
    Choice,
    Number,
)
from skfairdp.inprocessing.budgeted import refuse_price
from skfairdp.inprocessing.fairdp.head_ensembles import EnsembleClassifier, logit
from skfairdp.inprocessing.fairdp.plan import fairdp_plan
from skfairdp.inprocessing.gradient import NONE, Run
from skfairdp.inprocessing.grouped import GroupedClassifier
from skfairdp.privacy.plan import CountRelease, Plan
from skfairdp.privacy.sizes import Sizes

if TYPE_CHECKING:
    from skfairdp.engine.nets import PreparedNet


class FairDPClassifier(GroupedClassifier, EnsembleClassifier):
    """FairDP: every group's clipped gradients enter with equal weight, under noise.

    Each step draws a Poisson batch of every group, clips and sums the group's
    gradients, divides by the group's expected batch size, averages the groups and
    adds noise. The linear head's weights, its bias among them, are clipped to a
    small norm before every step. Small norms pull scores towards the threshold;
    they do not in general equalise groups, so look at the certificate.

    Parameters
    ----------
    net : skorch.NeuralNet or None, default=None
        Module with one logit and a linear head, BCEWithLogitsLoss, optimizer,
        learning rate and device. None is a multilayer perceptron with Adam.
    noise_multiplier : float, mapping or None, default=None
        Noise standard deviation over `max_grad_norm` on each group's sum, instead
        of `epsilon`; a mapping gives it a group.
    max_head_norm : float or None, default=1.0
        Largest L2 norm M of the head's weights and bias. None does not clip.
    sampling : {"proportional", "balanced"} or mapping, default="proportional"
        One sampling rate for all groups, the same expected number of records of
        every group, or a rate a group.
    group_update : {"mean", "sum"}, default="mean"
        Whether a group's sum is divided by its expected batch size (the later paper)
        or not (the first version).
    releases : {"average", "group_models"}, default="average"
        What leaves a step. "average" charges for the average over groups;
        "group_models" charges as published, for every group's noisy sum, which
        costs up to sqrt(K) more noise.
    sgd_fraction : float, default=0.1
        Share of the steps, at the end, that use plain gradient descent. The last
        step always does.
    sgd_learning_rate : float, default=0.005
        Learning rate of those steps.
    final_batch_size : int or None, default=None
        Expected records in their batches. None keeps `batch_size`.
    n_heads : int, default=1
        Micro-batches of the last step, each of which trains its own head.
    dataset_size : int or None, default=None
        Declared number of records; must be the sum of `group_sizes`. Without `group_sizes` it
        has no effect: sizes and adjacency then come from the rows.
    stop_tolerance : float or None, default=None
        Target of the gap on the training rows: a noisy (group x label x prediction)
        table is bought every `check_every` epochs, training ends when the noisy gap passes
        the target, and the last model whose noisy gap is within it is kept. That model was
        chosen among noisy gaps, so no bound on its true gap follows: certify it. The privacy
        printed is that of all planned steps and tables.
    stop_notion : str, default="demographic_parity"
        Which gap is watched.
    check_every : int, default=5
        Epochs between two tables.
    check_epsilon : float, default=0.02
        Price of one table in nats, part of `epsilon`.
    head : str or None, default=None
        Name of the module's linear head. None finds it.

    Attributes
    ----------
    heads_ : ndarray, shape (n_heads, p)
        Weights of the heads, their bias last.
    last_step_ : dict
        Norm of the head before the last step, its learning rate, and the group update.
    module_ : torch.nn.Module
        The trained network; its head is the mean of `heads_`.
    noise_multiplier_ : float
        Calibrated noise multiplier on each group's sum.
    released_gaps_ : tuple of float
        Gaps read off the bought tables, in order.

    References
    ----------
    Tran et al., FairDP, Algorithms 1 and 2; accounting for the average and the
    corrected constant of its Theorem 2 are derived in ``docs/theory``.

    Examples
    --------
    >>> from skfairdp import FairDPClassifier
    >>> from skfairdp.datasets import make_biased_gaussians
    >>> data = make_biased_gaussians(n_samples=2000, random_state=0)
    >>> model = FairDPClassifier(epsilon=2.0)
    >>> _ = model.fit(data.data, data.target, sensitive_features=data.sensitive_features)
    >>> sorted(model.privacy_.per_group) == sorted(model.groups_)
    True
    """

    noise_multiplier: float | Mapping[Any, float] | None = None  # type: ignore[assignment]
    max_head_norm: float | None = 1.0
    sampling: str | Mapping[Any, float] = "proportional"
    group_update: str = "mean"
    releases: str = "average"
    sgd_fraction: float = 0.1
    sgd_learning_rate: float = 0.005
    final_batch_size: int | None = None
    n_heads: int = 1
    stop_tolerance: float | None = None
    stop_notion: str = "demographic_parity"
    check_every: int = 5
    check_epsilon: float = 0.02
    head: str | None = None

    _parameters = {
        "noise_multiplier": (NOISE_MULTIPLIER, MAPPING, NONE),
        "max_head_norm": (NORM, NONE),
        "sampling": (Choice(("proportional", "balanced")), MAPPING),
        "group_update": (Choice(("mean", "sum")),),
        "releases": (Choice(("average", "group_models")),),
        "sgd_fraction": (Number(0.0, 1.0),),
        "sgd_learning_rate": (POSITIVE,),
        "final_batch_size": (COUNT, NONE),
        "n_heads": (Number(1, 10_000, integer=True),),
        "stop_tolerance": (Number(0.0, 1.0), NONE),
        "stop_notion": (Choice(DERIVED),),
        "check_every": (COUNT,),
        "check_epsilon": (POSITIVE,),
    }
    _in_parts = True

    last_step_: dict[str, Any] = field(init=False)
    released_gaps_: tuple[float, ...] = field(init=False)

    def _check_settings(self) -> None:
        super()._check_settings()
        if self.smoothing is not None and self.prediction != "score_mean":
            raise ValueError(
                f"'smoothing' works on the mean head; got prediction={self.prediction!r}, "
                "allowed is 'score_mean'."
            )
        price, tables = self.check_epsilon, self._tables
        said = f"'check_epsilon' = {price:g} for {tables} tables"
        cure = "set it lower, or 'check_every' higher"
        refuse_price(self.epsilon, tables * price, said, cure)

    @property
    def _tables(self) -> int:
        """How many tables are bought; none after the last step, when nothing can be stopped."""
        return 0 if self.stop_tolerance is None else (self.max_epochs - 1) // self.check_every

    def _plan(self, sizes: Sizes, noise_multiplier: float) -> Plan:
        counts: tuple[CountRelease, ...] = ()
        if self._tables > 0:
            table, price = "group x label x prediction", float(self.check_epsilon)
            counts = (CountRelease(name=table, epsilon=price, releases=self._tables),)
        return fairdp_plan(self, sizes, noise_multiplier, counts)

    def _check_net(self, prepared: PreparedNet, plan: Plan, row_shape: tuple[int, ...]) -> None:
        from skfairdp.engine.inspection import find_head
        from skfairdp.inprocessing.fairdp.checks import check_head

        check_head(prepared.module, find_head(prepared.module, self.head)[1], row_shape)
        if plan.counts and len(plan.cells) < 2:
            raise ValueError("'stop_tolerance' needs sensitive_features with at least two groups.")

    def _train(self, run: Run) -> None:
        from skfairdp.engine.inspection import find_head
        from skfairdp.engine.run import run_segment
        from skfairdp.inprocessing.fairdp.checks import GapStop

        prepared = run.prepared
        name, _ = find_head(prepared.module, self.head)
        where = prepared.flat.positions(name) if name else slice(0, len(prepared.flat.vector))
        vector = prepared.flat.vector
        first, second, last = run.plan.segments
        stop = GapStop(run, self, logit(self.threshold)) if run.plan.counts else None

        def clip_head() -> None:
            if self.max_head_norm is not None:
                head = vector[where]
                limit = self.max_head_norm * (1.0 - 1e-6)  # rounding cannot lift it above then
                head.mul_((limit / head.norm().clamp_min(1e-30)).clamp(max=1.0))

        watch: Any = {"before_step": clip_head, "after_step": stop and stop.after_step}
        rate = float(self.sgd_learning_rate)
        if run.descend([first], **watch):
            sgd = prepared.plain_sgd(rate)
            run_segment(second, run.release, sgd, progress=run.progress, **watch)
        if stop is not None:
            stop.restore()
        clip_head()
        # One plain gradient step for the body and one for each head (DP-MC). A cell's head sum of a
        # micro-batch is projected on the ball of radius b_k C / n_heads. Means divide by expected
        # batch sizes; a micro-batch is then divided by its own, n_heads times smaller, one.
        sums = run.release.heads(
            last,
            where,
            radii=tuple(float(self.max_grad_norm) * size for size in last.expected_sizes),
            head_scale=float(last.n_heads) if self.group_update == "mean" else 1.0,
        )
        heads = vector[where].double() - rate * sums.heads
        body = vector.double() - rate * sums.vector
        body[where] = heads.mean(dim=0)
        vector.copy_(body)
        run.progress.advance()
        self.heads_ = heads.cpu().numpy()
        self.head_name_ = name
        self.last_step_ = {
            "max_head_norm": self.max_head_norm,
            "learning_rate": rate,
            "group_update": self.group_update,
        }
        key, processes = run.noise.key(), run.release.processes
        self.key_ = key if processes is None else processes.first(key)
        self.released_gaps_ = () if stop is None else tuple(stop.gaps)

    def _mechanism_fairness(self, notion: str) -> list[FairnessGuarantee]:
        if (
            notion not in THEOREM2_NOTIONS
            or self.groups_ is None
            or self.last_step_["max_head_norm"] is None
            or self.threshold != 0.5
            or self.smoothing is not None
            or self.privacy_ is None
            or self._head().bias is None  # else features of zero would score exactly 0
        ):
            return []
        # What was trained with, not what the parameters have been set to since.
        last, step = self.plan_.segments[-1], self.last_step_
        return [
            theorem2_guarantee(
                notion,
                groups=self.groups_,
                max_head_norm=float(step["max_head_norm"]),
                max_grad_norm=last.blocks[0].max_norm,
                learning_rate=step["learning_rate"],
                noise_std=last.blocks[0].noise_std,
                n_heads=last.n_heads,
                prediction=cast(Prediction, self.prediction),
                group_update=cast(GroupUpdate, step["group_update"]),
                expected_batch_size=sum(last.expected_sizes),
                n_groups=len(self.groups_),
            )
        ]
