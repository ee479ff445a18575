"""Predictions smoothed over Gaussian noise on a model's parameters."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import erf
from sklearn.base import clone
from sklearn.utils import get_tags

from skfairdp.base import PrivateClassifier
from skfairdp.base.predictors import DRAWN_DECISIONS, FRESH_FITS, expecting
from skfairdp.fairness.bounds.rate_gaps import OwnModels, smoothing_distance
from skfairdp.fairness.derivation import Derivation
from skfairdp.fairness.guarantee import FairnessGuarantee
from skfairdp.fairness.kinds import KINDS, WEIGHT_LENGTH
from skfairdp.fairness.scopes import ANY_POPULATION
from skfairdp.foundation.assumptions import AVERAGED_RATES, NO_CERTAIN_ROW
from skfairdp.foundation.parameters import (
    MAPPING,
    NONE,
    POSITIVE,
    Choice,
    Number,
    check_parameters,
    fixed,
)
from skfairdp.postprocessing.group_models import (
    also_assumed,
    fit_parts,
    group_parts,
    parallel_quote,
    refuse_unfit,
    refuse_unreadable,
)
from skfairdp.postprocessing.passing_groups import fit_parameters
from skfairdp.privacy.noise import NoiseSource
from skfairdp.privacy.streams import row_uniforms
from skfairdp.receipts import Charge, Quote, Receipt, RowFacts
from skfairdp.receipts.quoted import inner_quote
from skfairdp.records import Given
from skfairdp.records.groups import encode_groups, groups_of_training

if TYPE_CHECKING:
    from skfairdp.postprocessing.smooth_models import SmoothModel


class SmoothedClassifier(PrivateClassifier):
    """Decide as a model with fresh noise on its parameters would (FairSmooth, "-Smooth").

    The smoothed decision of a row, ``h(x)``, is the probability that the model, with
    independent Gaussian noise on every parameter, gives the row the second class. Noise
    larger than the parameters turns every decision into a coin: smoothing trades accuracy
    for closeness between groups, and says by how much.

    Parameters
    ----------
    estimator : classifier, binary
        Makes the model; a clone is fitted. One trained by gradients
        (`DPSGDClassifier`: "DPSGD-Smooth"), a `FunctionalMechanismClassifier`
        ("FairFM-Smooth" with ``objective="group_average"``), or a linear model of
        scikit-learn, which has no privacy. Its `ledger` is charged once, also where
        several clones are fitted.
    std : float, default=1.0
        Standard deviation of the noise on each parameter, in the units of the parameters.
    training : {"together", "per_group"}, default="together"
        "together" fits one clone on all rows, with the groups if it takes them.
        "per_group" is FairSmooth: one clone for each group, on that group's rows, and the
        average of their parameters.
    decision : {"draw", "threshold"}, default="draw"
        "draw" gives a row the second class with probability ``h(x)``, by a draw that is a
        keyed function of the row: smoothing bounds its rates, averaged over the key.
        "threshold" does when ``h(x) > 1/2``, which for a linear model is what it does
        without smoothing.
    part : {"all", "head"}, default="all"
        Whether all parameters of a net get noise, or its last linear layer. No effect on
        linear models, whose ``h`` is exact, as is that of a head.
    n_draws : int, default=200
        Draws of the noise on a net with ``part="all"``, made once per fitted model.
    group_sizes : mapping or None, default=None
        Declared number of records of each group, for "per_group": fixes the groups, and
        makes the guarantee one for adding or removing a record.
    random_state : int, RandomState or None, default=None
        Seeds the draws and initial weights for "per_group", which protect no record; noise
        for privacy is `estimator`'s.

    Attributes
    ----------
    distances_ : ndarray, shape (n_groups,) or None
        L2 distance of each group's released parameters from the common ones; None where
        groups have no models of their own.
    estimator_ : classifier
        The fitted one, with "together".
    estimators_ : tuple of classifier
        One for each group, with "per_group"; they predict positions in `classes_`.
    model_ : object
        The parameters that predict, before noise.
    own_models_ : tuple
        The groups' own; empty where there are none.
    privacy_ : PrivacyGuarantee or None
        With "per_group"; with "together" that of `estimator_` is the one.

    Raises
    ------
    ValueError
        At fit: more than two classes, an estimator whose parameters can't be read, no
        sensitive_features with "per_group".

    Notes
    -----
    Smoothing is post-processing: it costs no privacy. With held-out rows `certify` bounds
    the gap of the deployed model by counting its answers. With ``decision="draw"`` it also
    prints bounds on rates *averaged over the draws*, which do not bound the one model that is
    deployed. See ``docs/theory/smoothing.md``.

    References
    ----------
    Jin, Zhang, Zhou, Wu, "Input-agnostic Certified Group Fairness via Gaussian Parameter
    Smoothing", ICML 2022 (FairSmooth), whose certificate is replaced by a derived one;
    baselines DPSGD-Smooth and FairFM-Smooth of FairDP (Tran et al.).

    Examples
    --------
    >>> from skfairdp import FunctionalMechanismClassifier, SmoothedClassifier
    >>> from skfairdp.datasets import make_biased_gaussians
    >>> data = make_biased_gaussians(n_samples=2000, random_state=0)
    >>> model = SmoothedClassifier(FunctionalMechanismClassifier((-4, 4)), std=2.0)
    >>> _ = model.fit(data.data, data.target, sensitive_features=data.sensitive_features)
    >>> model.predict_proba(data.data).shape
    (2000, 2)
    >>> bool(model.certify().privacy.epsilon <= 1.0)
    True
    """

    estimator: Any = field(kw_only=False)
    std: float = 1.0
    training: str = "together"
    decision: str = "draw"
    part: str = "all"
    n_draws: int = 200
    group_sizes: Mapping[Any, int] | None = None

    # They are of the model inside.
    reproducible_noise = fixed(False)

    _multiclass: ClassVar[bool] = False
    _served_the_fit: ClassVar[tuple[str, ...]] = ("estimator",)
    _nets: ClassVar[tuple[str, ...]] = ()
    _parameters = {
        "std": (POSITIVE,),
        "training": (Choice(("together", "per_group")),),
        "decision": (Choice(("draw", "threshold")),),
        "part": (Choice(("all", "head")),),
        "n_draws": (Number(1, 1_000_000, integer=True),),
        "group_sizes": (MAPPING, NONE),
    }
    _released: ClassVar[tuple[str, ...]] = (
        *PrivateClassifier._released,
        "distances_",
        "estimator_",
        "estimators_",
        "key_",
        "model_",
        "own_models_",
    )

    model_: SmoothModel = field(init=False)
    own_models_: tuple[SmoothModel, ...] = field(init=False)
    distances_: np.ndarray | None = field(init=False)
    key_: bytes = field(init=False)

    def _fit(self, given: Given, charge: Charge) -> Receipt:
        from skfairdp.postprocessing.smooth_models import refuse_unsmoothed_net

        check_parameters(self, self._parameters)
        self._check_settings()
        declared = getattr(self.estimator, "classes", None)
        checked, classes, codes = self._rows_of_fit(given.X, given.y, declared)
        each = self.training == "per_group"
        refuse_unsmoothed_net(self.estimator, self.part, checked.shape[1:], averaged=each)
        seed = self._randomness()[0]
        if each:
            receipt = self._fit_per_group(checked, codes, given.sensitive_features, seed, charge)
        else:
            receipt = self._fit_together(given, checked)
        self.classes_ = classes
        self.key_ = seed.to_bytes(8, "little")
        centre = self.model_.vector
        moved = [float(np.linalg.norm(model.vector - centre)) for model in self.own_models_]
        self.distances_ = np.array(moved) if moved else None
        return receipt

    @property
    def _needs_groups(self) -> str | None:  # type: ignore[override]
        if self.training == "per_group":
            return "training='per_group' trains a model for each group"
        return getattr(self.estimator, "_needs_groups", None)

    @property
    def _takes_images(self) -> bool:
        return getattr(self.estimator, "net", None) is not None

    def _fit_together(self, rows: Given, checked: np.ndarray) -> Receipt:
        from skfairdp.postprocessing.smooth_models import smooth_model

        inner = clone(self.estimator)
        given: dict[str, Any] = {}
        names, n, sensitive_features = None, len(checked), rows.sensitive_features
        if sensitive_features is not None:
            given = fit_parameters(inner, sensitive_features)
            if given:  # the estimator says which groups it takes
                names = encode_groups(sensitive_features, n_rows=n, on_missing="drop").labels
            else:
                names = groups_of_training(sensitive_features, n).labels
        inner.fit(rows.X, rows.y, **given)
        # An estimator that was fitted with groups knows which of them were declared, and what
        # becomes of rows without one.
        known = getattr(inner, "groups_", None) if given else None
        self.model_ = smooth_model(inner, self.part, checked.shape[1:])
        thetas = getattr(inner, "group_thetas_", None)
        self.own_models_ = () if thetas is None else tuple(map(self.model_.moved, thetas))
        self.estimator_ = inner
        return Receipt(groups=names if known is None else known)

    def _priced(self, facts: RowFacts, noise: NoiseSource) -> Quote:
        """The quote of the models inside; smoothing costs nothing."""
        if self.training != "per_group":
            return inner_quote(self, self.estimator, facts)
        assert facts.groups is not None
        return parallel_quote(self, facts)

    def _check_settings(self) -> None:
        super()._check_settings()
        refuse_unreadable(self.estimator)
        if self.training == "per_group":
            refuse_unfit(self.estimator, sizes_declared=self.group_sizes is not None)
        elif self.group_sizes is not None:
            raise ValueError(
                "'group_sizes' is for training='per_group'; declare sizes to 'estimator' itself."
            )

    def _fit_per_group(
        self, X: np.ndarray, codes: np.ndarray, sensitive_features: Any, seed: int, charge: Charge
    ) -> Receipt:
        from skfairdp.postprocessing.smooth_models import smooth_model

        groups, parts = group_parts(self, X, codes, sensitive_features, seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the fits will say it
            quote = parallel_quote(self, RowFacts(len(X), groups))
        models = tuple(fit_parts(parts, quote.privacy, charge))
        own = tuple(smooth_model(model, self.part, X.shape[1:]) for model in models)
        self.own_models_ = own
        self.model_ = own[0].moved(np.mean([model.vector for model in own], axis=0))
        self.estimators_ = models
        return Receipt(replace(quote, privacy=also_assumed(quote.privacy, models)), groups.labels)

    @property  # type: ignore[misc]
    def ledger(self) -> Any:  # type: ignore[override]
        """Ledger of `estimator`, where models of groups are charged: once for all of them.

        None with ``training="together"``: the fit inside charges it.
        """
        return getattr(self.estimator, "ledger", None) if self.training == "per_group" else None

    def predict_proba(self, X: ArrayLike) -> np.ndarray:
        """Compute smoothed decisions.

        Returns
        -------
        ndarray of float64, shape (n_samples, 2)
            Second column: probability, over the noise on the parameters, of the second class.
        """
        positive = self._smoothed(self._features(X), self.model_)
        return np.column_stack([1.0 - positive, positive])

    def predict(self, X: ArrayLike) -> np.ndarray:
        """Predict the class of each row; with ``decision="draw"`` the same row the same class."""
        X = self._features(X)
        positive = self._smoothed(X, self.model_)
        cut = row_uniforms(X, self.key_) if self.decision == "draw" else 0.5
        return self.classes_[(positive > cut).astype(np.int64)]

    def _smoothed(self, X: np.ndarray, model: SmoothModel) -> np.ndarray:
        # The same draws for every call, and for the models of all groups.
        rng = np.random.default_rng([int.from_bytes(self.key_, "little"), 1])
        return model.positive(X, float(self.std), rng, int(self.n_draws))

    def _success_scores(self, X: ArrayLike) -> np.ndarray | None:
        return self._smoothed(self._features(X), self.model_) if self.decision == "draw" else None

    def _mechanism_fairness(self, notion: str) -> list[FairnessGuarantee]:
        if self.decision != "draw" or self.groups_ is None or not self.model_.exact:
            return []
        norm, std = float(np.linalg.norm(self.model_.vector)), float(self.std)
        return [
            FairnessGuarantee(
                notion=notion,
                bound=float(erf(norm / std / math.sqrt(2.0))),
                scope=ANY_POPULATION,
                method=KINDS[WEIGHT_LENGTH].methods[ANY_POPULATION],
                groups=self.groups_,
                assumptions=(AVERAGED_RATES, NO_CERTAIN_ROW),
                derivation=Derivation.of(WEIGHT_LENGTH, norm=norm, std=std),
            )
        ]

    def _own_models(self, labels: tuple[Any, ...]) -> OwnModels | None:
        """Models of the groups, for the certificate's second bound on held-out rows."""
        if self.decision != "draw" or self.distances_ is None or labels != self.groups_:
            return None
        return OwnModels(
            scores=self._own_scores,
            distances=smoothing_distance(self.distances_, float(self.std)),
            n_draws=None if self.model_.exact else int(self.n_draws),
        )

    def _own_scores(self, X: ArrayLike, codes: np.ndarray) -> np.ndarray:
        """Smoothed decisions, each by the model of the row's own group."""
        X = self._features(X)
        scores = np.zeros(len(X))
        for code, model in enumerate(self.own_models_):
            member = codes == code
            if member.any():
                scores[member] = self._smoothed(X[member], model)
        return scores

    @property
    def _charges_privacy(self) -> bool:  # type: ignore[override]
        receipt = vars(self).get("receipt_")
        return receipt is not None and receipt.quote is not None

    @property
    def _post_processes(self) -> str | None:  # type: ignore[override]
        # With "together" the certificate finds the training rows' privacy at estimator_.
        return None if self._charges_privacy else "estimator_"

    def __sklearn_is_fitted__(self) -> bool:
        return "key_" in vars(self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if not hasattr(self.estimator, "__sklearn_tags__"):
            return tags  # fit says what is wrong with it
        tags.non_deterministic = get_tags(self.estimator).non_deterministic
        fresh = FRESH_FITS if tags.non_deterministic else {}
        return expecting(tags, fresh, DRAWN_DECISIONS if self._draws_decisions else {})

    @property
    def _draws_decisions(self) -> bool:
        return self.decision == "draw"
