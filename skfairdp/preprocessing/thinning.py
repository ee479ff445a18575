"""Private pre-processing that lets every group have the same label rates."""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Sequence
from dataclasses import field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils.metaestimators import available_if

from skfairdp.base import Planned, PrivateClassifier
from skfairdp.base.predictors import FRESH_FITS, expecting
from skfairdp.exceptions import PrivacyWarning
from skfairdp.fairness.guarantee import FairnessGuarantee
from skfairdp.foundation import assumptions
from skfairdp.foundation.figures import significant_up
from skfairdp.foundation.parameters import Kind, Number, check_parameters
from skfairdp.preprocessing.thinned import inner_settings, refuse_other_promises, refuse_unfit
from skfairdp.privacy.accounting.plan_cost import budget_guarantee, guarantee
from skfairdp.privacy.guarantee import PrivacyGuarantee
from skfairdp.privacy.inclusion_probabilities import SamplingRates, release_table
from skfairdp.privacy.noise import NoiseSource
from skfairdp.privacy.plan import Plan
from skfairdp.privacy.sizes import check_delta
from skfairdp.protocol import answers_of
from skfairdp.receipts import Charge, Quote, Receipt, RowFacts
from skfairdp.receipts.quoted import NOISELESS, priced
from skfairdp.records import Given
from skfairdp.records.groups import Groups, groups_of_records, groups_of_training
from skfairdp.records.labels import encode_labels
from skfairdp.records.rows import check_rows


class PrivateThinningClassifier(Planned, PrivateClassifier):
    """Train a private classifier on rows thinned to equal label rates.

    Buys a noisy (group x label) table, makes keep-probabilities from it, keeps every
    record by its own draw, and fits a clone of `estimator` on what is left. The
    `epsilon` of `estimator` is that of table and training together: the clone trains with
    what ``epsilon_histogram`` leaves of it.

    Parameters
    ----------
    estimator : private classifier of skfairdp
        Fitted on the kept rows, as a clone, by one process. It gets its sizes and labels from
        here, as declared ones; leave out ``dataset_size``, ``group_sizes`` and ``classes``.
    epsilon_histogram : float, default=0.1
        Price of the table in nats, in [1e-4, 1000]; a part of the `epsilon` of `estimator`.
    tolerance : float, default=0.0
        Largest difference between the label rates of two groups after thinning, in
        [0, 1]; on average and up to the noise of the table.
    minimum_rate : float, default=0.0
        Lower limit of every keep-probability, in [0, 1].
    ledger : None, path or PrivacyLedger, default=None
        Where fits are charged, table and training together, before they use rows, see
        `skfairdp.PrivacyLedger`. That of `estimator` must be None.

    Attributes
    ----------
    groups_ : tuple or None
        Groups; None after a fit without them, which keeps every row.
    estimator_ : estimator
        Fitted on the kept rows; its classes are positions in `classes_`.
    plan_ : Plan
        Plan of `estimator_`, with the price of the table.
    rates_ : SamplingRates
        The released table, floored, and the keep-probabilities.

    Notes
    -----
    Each record's fate depends on its own cell, the released table and its own draw, so a
    neighbouring data set changes at most one kept row. How many rows are kept is secret:
    the clone receives the sizes that table and rates predict. Which plan it makes depends on
    the table, hence basic composition. Equal label rates in training do not make
    predictions equal: `certify` states the gap.

    Examples
    --------
    >>> from skfairdp import DPSGDClassifier, PrivateThinningClassifier
    >>> from skfairdp.datasets import make_biased_gaussians
    >>> data = make_biased_gaussians(n_samples=2000, random_state=0)
    >>> model = PrivateThinningClassifier(DPSGDClassifier(epsilon=1.0), epsilon_histogram=0.1)
    >>> _ = model.fit(data.data, data.target, sensitive_features=data.sensitive_features)
    >>> round(model.privacy_.epsilon, 6), model.privacy_.adjacency
    (1.0, 'add-remove')
    """

    estimator: Any = field(kw_only=False)
    epsilon_histogram: float = 0.1
    tolerance: float = 0.0
    minimum_rate: float = 0.0
    groups: Sequence[Any] | None = None
    classes: Sequence[Any] | None = None

    _parameters = {
        "estimator": (Kind((PrivateClassifier,), "a private classifier of skfairdp"),),
        "epsilon_histogram": (Number(1e-4, 1e3),),
        "tolerance": (Number(0.0, 1.0),),
        "minimum_rate": (Number(0.0, 1.0),),
    }
    _takes_persons = True
    _views: ClassVar[tuple[str, ...]] = ("groups_", "plan_", "privacy_")

    estimator_: Any = field(init=False)
    rates_: SamplingRates = field(init=False)

    def _fit(self, given: Given, charge: Charge) -> Receipt:
        check_parameters(self, self._parameters)
        self._check_settings()
        X, y = check_rows(
            self,
            given.X,
            given.y,
            allow_nd=self._takes_images,
            labels_declared=self.classes is not None,
        )
        classes, labels = encode_labels(y, self.classes, multiclass=self.estimator._multiclass)
        groups = self._encode_groups(given.sensitive_features, len(X))
        grouped, noise = given.sensitive_features is not None, self._randomness()[1]
        if (persons := given.persons(len(X))) is not None:
            groups_of_records(groups, persons)  # refuses a person in two
            drawn = persons.one_row_each(noise.sampling.integers)
            X, labels = X[drawn], labels[drawn]
            groups = dataclasses.replace(groups, codes=groups.codes[drawn])
        shape = (len(groups.labels), len(classes))
        # What the estimator would refuse of any table, it refuses now: of one with even cells.

        def even(n: int) -> SamplingRates:
            cells = np.full(shape, max(1, n // (shape[0] * shape[1])))
            return SamplingRates.equal_label_rates(cells, groups.labels, classes.tolist())

        check_delta(self.estimator.delta, even(len(X)).total, public=False)
        shape_of_row = tuple(X.shape[1:])
        refuse_other_promises(
            lambda n: self._told(even(n), shape_of_row, grouped=grouped), shape_of_row, len(X)
        )
        facts = RowFacts(len(X), groups if grouped else None, unit=given.unit)
        quote = self._priced(facts, noise)
        charge(quote.charge)
        table = release_table(groups.codes, labels, shape, self.epsilon_histogram, noise)
        rates = SamplingRates.equal_label_rates(
            table,
            groups.labels,
            classes.tolist(),
            tolerance=self.tolerance,
            minimum_rate=self.minimum_rate,
            epsilon=self.epsilon_histogram,
        )
        check_delta(self.estimator.delta, rates.total)
        kept = rates.keep(groups.codes, labels, noise.sampling.random(len(X)))
        inner, facts = self._told(rates, shape_of_row, grouped=grouped)
        # Two rows without a label contribute nothing: no clone can fail because it has no rows.
        rows = np.concatenate([X[kept], np.zeros_like(X, shape=(2, *X.shape[1:]))])
        targets = np.append(labels[kept], [-1, -1])
        names = None
        if facts.groups is not None:
            names = np.empty(len(groups.labels), dtype=object)
            names[:] = groups.labels
            names = names[np.append(groups.codes[kept], [0, 0])]
        with warnings.catch_warnings():
            # Said above already, with the number of all records.
            warnings.filterwarnings("ignore", message="'delta' = ", category=PrivacyWarning)
            inner.fit(rows, targets, sensitive_features=names)
        self.rates_ = rates
        self.classes_ = classes
        plan = dataclasses.replace(
            inner.plan_, prior_epsilon=inner.plan_.prior_epsilon + float(self.epsilon_histogram)
        )
        stated = self._guarantee(inner, plan, noise, given.unit, grouped=grouped)
        # The clone states what its rows have spent, also when it is taken out of here.
        inner._state(stated)
        self.estimator_ = inner
        sizes = dataclasses.replace(inner.receipt_.quote.sizes, prior_epsilon=plan.prior_epsilon)
        quote = dataclasses.replace(quote, privacy=stated, plan=plan, sizes=sizes)
        return Receipt(quote, groups.labels if grouped else None)

    def _guarantee(
        self, inner: Any, plan: Plan, noise: NoiseSource, unit: str, *, grouped: bool
    ) -> PrivacyGuarantee | None:
        stated: PrivacyGuarantee | None = inner.privacy_
        if stated is None:
            return None
        if noise.reproducible:
            seed = assumptions.seed_known("table and thinning", "subtract the noise")
            return PrivacyGuarantee.void(seed, protects=unit)
        if stated.is_void:
            return dataclasses.replace(stated, protects=unit)
        price, budget = float(self.epsilon_histogram), self.estimator.epsilon
        groups = self.groups is not None if grouped else None
        # The thinning declared these to the inner estimator; nobody declared them to the thinning.
        others = [text for text in stated.assumptions if text not in assumptions.CLOSED_SETS]
        if unit == "person":  # the estimator saw one row of each
            alone, of_persons = assumptions.through_noise(), assumptions.through_noise(persons=True)
            others = [of_persons if text == alone else text for text in others]
            others.insert(0, assumptions.DRAWN_ROW)
        return guarantee(
            plan,
            protects=unit,
            budget=None if budget is None else float(budget),
            assumptions=(
                *assumptions.closed_sets(labels=self.classes is not None, groups=groups),
                assumptions.THINNED.format(epsilon=significant_up(price)),
                *others,
            ),
        )

    def _priced(self, facts: RowFacts, noise: NoiseSource) -> Quote:
        repeats = noise.reproducible or getattr(self.estimator, "reproducible_noise", False)
        epsilon, delta = self.estimator.epsilon, self.estimator.delta
        stated = budget_guarantee(epsilon, delta, reproducible=repeats, protects=facts.unit)
        return Quote(
            type(self).__name__,
            facts,
            stated,
            charge=stated or NOISELESS,
            bought=float(self.epsilon_histogram),
        )

    def _expected_plan(self, facts: RowFacts, noise: NoiseSource) -> Plan | None:
        """Plan of the estimator where labels are even in every group: all rows are kept."""
        labels = ("all",) if facts.groups is None else facts.groups.labels
        counts = [facts.n] if facts.groups is None else facts.groups.counts.tolist()
        names = list(self.classes) if self.classes is not None else list(range(facts.n_classes))
        even = np.array([[max(1, n // len(names))] * len(names) for n in counts])
        rates = SamplingRates.equal_label_rates(even, labels, names)
        price = float(self.epsilon_histogram)
        quote = priced(*self._told(rates, (facts.n_features,), grouped=facts.groups is not None))
        if quote.plan is None:
            return quote.expected_plan
        return dataclasses.replace(quote.plan, prior_epsilon=quote.plan.prior_epsilon + price)

    def _check_settings(self) -> None:
        super()._check_settings()
        refuse_unfit(self.estimator)

    @property
    def _takes_images(self) -> bool:
        return getattr(self.estimator, "net", None) is not None

    def _encode_groups(self, sensitive_features: Any, n: int) -> Groups:
        if sensitive_features is None:
            if self.groups is not None:
                raise ValueError(
                    "'groups' is set, but fit got sensitive_features=None: pass the group of each "
                    "row, or leave 'groups' out."
                )
            return Groups(("all",), np.zeros(n, dtype=np.int64))
        return groups_of_training(sensitive_features, n, self.groups)

    def _told(
        self, rates: SamplingRates, row_shape: tuple[int | None, ...], *, grouped: bool
    ) -> tuple[Any, RowFacts]:
        """A clone that knows sizes and labels, and the facts about its rows that are public."""
        inner, groups = clone(self.estimator), None
        price = float(self.epsilon_histogram)
        inner.set_params(**inner_settings(inner, rates, price, grouped=grouped))
        # Where they cannot be declared, it would find, and show, those that are left.
        if grouped and (hasattr(inner, "group_sizes") or hasattr(inner, "groups")):
            totals = np.array([*rates.group_sizes.values()], dtype=np.int64)
            groups = Groups(rates.groups, np.zeros(0, dtype=np.int64), totals=totals)
        n_features = None if None in row_shape else math.prod(map(int, row_shape))  # type: ignore[arg-type]
        facts = RowFacts(
            max(2, sum(rates.group_sizes.values())),
            groups,
            n_features,
            n_classes=len(rates.classes),
        )
        return inner, facts

    def predict(self, X: ArrayLike) -> np.ndarray:
        X = self._features(X)
        return self.classes_[self.estimator_.predict(X)]

    @available_if(lambda self: hasattr(self.estimator, "predict_proba"))
    def predict_proba(self, X: ArrayLike) -> np.ndarray:
        X = self._features(X)
        return self.estimator_.predict_proba(X)

    @available_if(lambda self: hasattr(self.estimator, "decision_function"))
    def decision_function(self, X: ArrayLike) -> np.ndarray:
        """Compute the scores that `estimator_` decides by."""
        X = self._features(X)
        return self.estimator_.decision_function(X)

    def _mechanism_fairness(self, notion: str) -> list[FairnessGuarantee]:
        return answers_of(self.estimator_)._mechanism_fairness(notion)

    def _success_scores(self, X: ArrayLike) -> np.ndarray | None:
        return answers_of(self.estimator_)._success_scores(self._features(X))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        repeatable = getattr(self.estimator, "reproducible_noise", False)
        tags.non_deterministic = not (self.reproducible_noise and repeatable)
        tags.classifier_tags.multi_class = getattr(self.estimator, "_multiclass", True)
        return expecting(tags, FRESH_FITS if tags.non_deterministic else {})
