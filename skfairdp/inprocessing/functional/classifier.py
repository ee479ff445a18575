"""Functional mechanism: noise on the coefficients of the objective, then a closed form."""

from __future__ import annotations

import math
from dataclasses import field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from skfairdp.engine.moment_bounds import l1_bounds, l2_bounds
from skfairdp.foundation.assumptions import BOUNDS_DECLARED
from skfairdp.foundation.parameters import NORM, PROBABILITY, Choice, Number, check_parameters
from skfairdp.inprocessing.functional.unit_ball import BoundedRows
from skfairdp.inprocessing.grouped import SizedByGroup
from skfairdp.privacy.noise import NoiseSource
from skfairdp.privacy.plan import LaplaceSum, Plan
from skfairdp.privacy.sizes import Sizes
from skfairdp.receipts import Charge, Quote, Receipt, RowFacts
from skfairdp.records import Given
from skfairdp.records.groups import Groups, groups_of_training

if TYPE_CHECKING:
    from skfairdp.engine.moment_sums import Moments


class FunctionalMechanismClassifier(SizedByGroup):
    """Logistic regression whose objective, not its training, is made private (FM, FairFM).

    The logistic loss is replaced by its second-order expansion at zero. Its coefficients
    are two sums over all rows, a vector and a matrix; they get noise once, and the weights
    follow in closed form. There is no net, no batch and no learning rate, and a fit takes
    milliseconds.

    Parameters
    ----------
    feature_bounds : pair (lower, upper)
        Bounds that have to be declared, each a number for all features or a sequence of shape
        (n_features,), finite. Rows are clipped to them, here and in prediction. After
        `PublicScaler` and `PublicEncoder` they are ``(-1, 1)``.
    noise_multiplier : float or None, default=None
        Instead of `epsilon`. "gaussian": standard deviation over sensitivity, of both sums
        together; "laplace": 1 / epsilon.
    noise : {"gaussian", "laplace"}, default="gaussian"
        Law of the noise. Gaussian noise does not grow with the number of features.
    sensitivity : {"tight", "published"}, default="tight"
        L1 bound that Laplace noise is scaled to: the exact one for rows in the unit ball, or
        the paper's ``d**2 / 4 + 3 d``, which is many times larger. Gaussian noise always
        has the exact L2 bound.
    objective : {"pooled", "group_average"}, default="pooled"
        "pooled" is FM: every row has equal weight. "group_average" is FairFM: every group
        has equal weight, whatever its size; needs sensitive_features.
    releases : {"average", "group_models"}, default="average"
        What FairFM releases: the average over groups, or, as published, the coefficients
        of every group, which takes more noise. The latter also gives `group_thetas_`.
    max_row_norm : float, default=3.0
        Rows are shortened to this L2 norm after every feature was divided by its larger
        bound in absolute value. Never more than the square root of the number of features
        is used, since no row is longer. Keep it near the norm of a usual row: noise is
        relative to it.
    intercept_scale : float, default=0.5
        Share of a full-length row's norm that its constant coordinate takes, in [0, 1).
        0 fits no intercept.
    quadratic_share : float, default=0.75
        Share of the budget for the matrix, in (0, 1).
    repair : {"floor", "trim", "ridge"}, default="floor"
        How a noisy matrix becomes positive: small eigenvalues are raised, their directions
        left out, or all eigenvalues raised.
    repair_strength : float, default=0.5
        Smallest eigenvalue over the expected spectral norm of the noise, >= 0.
    group_sizes : mapping or None, default=None
        Declared number of records of each group; rows of others contribute nothing. A pooled
        objective uses their total alone.

    Attributes
    ----------
    group_thetas_ : ndarray, shape (n_groups, d) or None
        Each group's own weights, with ``releases="group_models"``.
    rows_ : BoundedRows
        The map from features to rows in the unit ball, from declared figures only.
    theta_ : ndarray, shape (d,)
        Weights of these rows, the intercept's last where there is one.

    Raises
    ------
    ValueError
        At fit: more than two classes, bounds that are missing, infinite or of a wrong
        shape, and values that the parameter table refuses. No message quotes a row.

    References
    ----------
    Zhang, Zhang, Xiao, Yang, Winslett, "Functional Mechanism", PVLDB 5(11), 2012; FairFM
    is a baseline of FairDP (Tran et al.), appendix A. Sensitivities are derived, and the
    published ones discussed, in ``docs/theory/functional_mechanism.md``.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from skfairdp import FunctionalMechanismClassifier
    >>> X, y = make_classification(2000, random_state=0)
    >>> model = FunctionalMechanismClassifier(feature_bounds=(-4, 4)).fit(X, y)
    >>> bool(model.privacy_.epsilon <= 1.0), model.score(X, y) > 0.7
    (True, True)
    """

    feature_bounds: Any = field(default=None, kw_only=False)
    noise: str = "gaussian"
    sensitivity: str = "tight"
    objective: str = "pooled"
    releases: str = "average"
    max_row_norm: float = 3.0
    intercept_scale: float = 0.5
    quadratic_share: float = 0.75
    repair: str = "floor"
    repair_strength: float = 0.5

    _multiclass: ClassVar[bool] = False
    _takes_persons = True
    _nets: ClassVar[tuple[str, ...]] = ()
    _parameters = {
        "noise": (Choice(("gaussian", "laplace")),),
        "sensitivity": (Choice(("tight", "published")),),
        "objective": (Choice(("pooled", "group_average")),),
        "releases": (Choice(("average", "group_models")),),
        "max_row_norm": (NORM,),
        "intercept_scale": (Number(0.0, 1.0, high_open=True),),
        "quadratic_share": (PROBABILITY,),
        "repair": (Choice(("floor", "trim", "ridge")),),
        "repair_strength": (Number(0.0),),
    }

    group_thetas_: np.ndarray | None = field(init=False)
    rows_: BoundedRows = field(init=False)
    theta_: np.ndarray = field(init=False)

    def _fit(self, given: Given, charge: Charge) -> Receipt:
        from skfairdp.engine.moment_sums import Moments, MomentSums, moment_margin

        check_parameters(self, self._parameters)
        self._check_settings()
        X, classes, labels = self._rows_of_fit(given.X, given.y, self.classes)
        bounded = self._bounded(X.shape[1])
        groups = self._encode_groups(given.sensitive_features, len(X))
        noise, persons = self._randomness()[1], given.persons(len(X))
        unit = self._protected or given.unit
        facts = RowFacts.of(len(X), groups, persons, n_features=X.shape[1], unit=unit)
        quote = self._settled(facts, noise, charge)
        plan, sizes = quote.plan, quote.sizes
        assert plan is not None
        assert sizes is not None
        weighted = plan.segments[0].blocks if plan.segments else plan.sums
        d, n_sums = bounded.d, len(plan.cells) if self._each_cell else 1
        plan.check_exact_noise(n_sums * (d + d * (d + 1) // 2))
        moment_margin(weighted[0].weights, sizes.total, facts.n)  # refuses what it can't bound
        charge(quote.privacy)  # before a row enters a sum

        codes = np.zeros(len(X), dtype=np.int64) if groups is None else groups.codes.copy()
        if self.objective == "pooled":
            codes = np.minimum(codes, 0)  # one cell; rows of undeclared groups stay outside
        codes[labels < 0] = -1
        rows = bounded.transform(X)
        sums = MomentSums(
            rows, 0.5 - labels, codes, plan, noise, expected=sizes.total, persons=persons
        )
        each = self._each_cell and len(plan.cells) > 1
        if plan.segments:
            moments = sums.gaussian(plan.segments[0], each_cell=each)
        else:
            moments = sums.laplace(*plan.sums, each_cell=each)
        sums.meter.finish()
        smallest = float(self.repair_strength) * noise_norm(plan, bounded.d)
        self.group_thetas_ = None
        if each:
            self.group_thetas_ = self._solve(moments, smallest)
            # Every cell was released unweighted, with its own noise.
            shares = np.asarray(cell_weights(sizes))
            parts = (moments.linear, moments.quadratic)
            moments = Moments(*(np.tensordot(shares, part, axes=1)[None] for part in parts))
            smallest *= float(np.linalg.norm(shares))
        self.theta_ = self._solve(moments, smallest)[0]
        self.rows_ = bounded
        self.classes_ = classes
        return Receipt(quote, None if groups is None else groups.labels)

    def _bounded(self, n_features: int) -> BoundedRows:
        return BoundedRows.declared(
            self.feature_bounds,
            n_features,
            max_norm=float(self.max_row_norm),
            intercept=float(self.intercept_scale),
        )

    def _try_out(
        self, quote: Quote, row_shape: tuple[int, ...], classes: np.ndarray | None
    ) -> None:
        self._bounded(*row_shape)

    def _check_settings(self) -> None:
        super()._check_settings()
        if self.sensitivity == "published" and self.noise != "laplace":
            raise ValueError(
                "sensitivity='published' is a bound for Laplace noise; got noise="
                f"{self.noise!r}. Set noise='laplace', or sensitivity='tight'."
            )
        if self.objective == "pooled" and self.group_sizes_epsilon is not None:
            raise ValueError(
                "'group_sizes_epsilon' is for objective='group_average'; a pooled objective needs "
                "no group sizes."
            )

    def _encode_groups(self, sensitive_features: Any, n: int) -> Groups | None:
        if self.objective == "group_average" or self.group_sizes is not None:
            return super()._encode_groups(sensitive_features, n)
        if sensitive_features is None:
            return None
        return groups_of_training(sensitive_features, n)

    def _buys(self, groups: Groups | None) -> bool:
        return self.objective != "pooled" and super()._buys(groups)

    def _refuse_one(self, groups: Groups) -> None:
        if self.objective == "group_average" or self.group_sizes is not None:
            super()._refuse_one(groups)

    def _facts_of_fit(self, facts: RowFacts) -> RowFacts:
        facts = super()._facts_of_fit(facts)
        if facts.n_features is not None:
            self._bounded(facts.n_features)  # refuses bounds that a fit would refuse
            self.n_features_in_ = facts.n_features
        elif self.noise == "laplace":
            raise ValueError(
                "'n_features' is needed, as Laplace noise grows with it: give the number of "
                "columns."
            )
        return facts

    @property
    def _needs_groups(self) -> str | None:  # type: ignore[override]
        averages = self.objective == "group_average"
        return "objective='group_average' gives every group the same weight" if averages else None

    @property
    def _each_cell(self) -> bool:
        return self.objective == "group_average" and self.releases == "group_models"

    def _sizes(self, groups: Groups | None, n: int, noise: NoiseSource) -> Sizes:
        if self.objective != "pooled":
            return super()._sizes(groups, n, noise)
        if self.group_sizes is None:
            return Sizes.of_all(n, self.dataset_size)
        return Sizes.of_all(n, max(2, sum(self._declared_sizes().values())))

    def _plan(self, sizes: Sizes, noise_multiplier: float) -> Plan:
        """Lay out the release of the linear and of the quadratic coefficients.

        Their shares are of epsilon for "laplace", of the squared inverse multiplier for
        "gaussian". The published bound has one scale for both.
        """

        n_cells, names = len(sizes.counts), ("linear", "quadratic")
        weights = (1.0,) * n_cells if self._each_cell else cell_weights(sizes)
        shares = 1.0 - float(self.quadratic_share), float(self.quadratic_share)
        if self.noise == "gaussian":
            parts = zip(names, l2_bounds(), shares, strict=True)
            segment = sizes.whole(
                *((name, x, noise_multiplier * x / math.sqrt(share)) for name, x, share in parts),
                weights=weights,
            )
            return sizes.plan(segment, delta=self.delta, exact_noise=True)
        d = self.n_features_in_ + int(self.intercept_scale > 0.0)  # coordinates of a row
        norms = l1_bounds(d)
        scales = [norm / share for norm, share in zip(norms, shares, strict=True)]
        if self.sensitivity == "published":
            norms = 3.0 * d, d * d / 4.0
            scales = [sum(norms)] * 2
        sums = tuple(
            LaplaceSum(
                name=name,
                max_norm=norm,
                weights=weights,
                scale=noise_multiplier * scale,
                numbers=numbers,
            )
            for name, norm, scale, numbers in zip(
                names, norms, scales, (d, d * (d + 1) // 2), strict=True
            )
        )
        return sizes.plan(sums=sums, delta=self.delta, exact_noise=True)

    def _solve(self, moments: Moments, smallest: float) -> np.ndarray:
        pairs = zip(moments.linear, moments.quadratic, strict=True)
        return np.stack([solve(a, M, repair=self.repair, smallest=smallest) for a, M in pairs])

    def _also_assumed(self) -> tuple[str, ...]:
        return (BOUNDS_DECLARED,)

    def decision_function(self, X: ArrayLike) -> np.ndarray:
        """Compute the logit of the second class, for rows clipped to the declared bounds."""
        from skfairdp.engine.exact_products import exact_matmul

        X = self._features(X)  # first: refuses where nothing is fitted
        return exact_matmul(self.rows_.transform(X), self.theta_)

    def predict_proba(self, X: ArrayLike) -> np.ndarray:
        positive = expit(self.decision_function(X))
        return np.column_stack([1.0 - positive, positive])

    def predict(self, X: ArrayLike) -> np.ndarray:
        positive = self.decision_function(X) > 0.0
        return self.classes_[positive.astype(np.int64)]

    @property
    def _decides_by_parameters(self) -> bool:
        own = FunctionalMechanismClassifier
        return type(self).predict is own.predict


def cell_weights(sizes: Sizes) -> tuple[float, ...]:
    """Weights ``min(n) / n_k`` that give every cell the same weight.

    Up to a factor their sum is the average over groups of each group's mean objective, and
    a plain sum for one cell.
    """
    smallest = min(sizes.counts)
    return tuple(smallest / count for count in sizes.counts)


def noise_norm(plan: Plan, d: int) -> float:
    """Spectral norm expected of the noise of one released quadratic sum.

    It is ``2 s sqrt(d)`` for entries of standard deviation s off the diagonal (Wigner).
    """
    if plan.segments:
        deviation = plan.segments[0].blocks[1].noise_std / math.sqrt(2.0)
    else:
        deviation = math.sqrt(2.0) * plan.sums[1].scale
    return 2.0 * deviation * math.sqrt(d)


def solve(linear: np.ndarray, quadratic: np.ndarray, *, repair: str, smallest: float) -> np.ndarray:
    """Minimise ``theta^T M theta + a^T theta`` after making M positive.

    `repair`: raise eigenvalues below `smallest` to it; leave out their directions; or set negative
    ones to 0 and add `smallest` to all. The result is zero where no direction is left.
    """
    values, vectors = np.linalg.eigh(quadratic)
    # Without noise directions that no row has must not be divided by rounding errors.
    smallest = max(smallest, 1e-9 * float(np.abs(values).max(initial=0.0)))
    if smallest == 0.0:
        return np.zeros_like(linear)
    if repair == "trim":
        inverse = np.where(values > smallest, 1.0 / np.maximum(values, smallest), 0.0)
    elif repair == "ridge":
        inverse = 1.0 / (np.maximum(values, 0.0) + smallest)
    else:
        inverse = 1.0 / np.maximum(values, smallest)
    return np.asarray(-0.5 * vectors @ (inverse * (vectors.T @ linear)))
