"""Abstention at inference under a parity gate (IDP³ of FairPATE)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import field, replace
from os import PathLike
from typing import Any, ClassVar, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn import get_config
from sklearn.base import clone
from sklearn.utils import get_tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.validation import check_is_fitted

from skfairdp.base import PrivateClassifier
from skfairdp.base.predictors import FRESH_FITS, expecting
from skfairdp.exceptions import FairnessWarning, warn_user
from skfairdp.fairness.bounds.gated_answers import answered_guarantee
from skfairdp.fairness.gate import ParityGate, smallest_cold_start
from skfairdp.fairness.guarantee import FairnessGuarantee
from skfairdp.foundation.assumptions import QUERIERS
from skfairdp.foundation.parameters import NONE, Choice, Kind, Number, check_parameters, fixed
from skfairdp.postprocessing import passing_groups
from skfairdp.postprocessing.query_state import Turnstile
from skfairdp.privacy.noise import NoiseSource
from skfairdp.receipts import Charge, Quote, Receipt, RowFacts
from skfairdp.receipts.quoted import inner_quote
from skfairdp.records import Given
from skfairdp.records.groups import encode_groups
from skfairdp.records.labels import count_rows
from skfairdp.records.rows import refuse_other_order

# The largest that was published; shorter cold starts begin with a more uneven table.
_USUAL_COLD_START = 25


class AbstainingClassifier(PrivateClassifier):
    """Answer only while the answers stay even between groups; abstain otherwise.

    Parameters
    ----------
    estimator : classifier
        Makes the predictions. A clone of it is fitted, with the groups if its ``fit``
        takes them; one in ``sklearn.frozen.FrozenEstimator`` is used as it is.
    tolerance : float in [0, 1], default=0.05
        γ: share of a label among the answers of a group, minus its share among those of
        all other groups together, must be at most this for every label and
        group. 0 is possible with ``gate="queried_cell"`` only.
    cold_start : "auto" or int, default="auto"
        M: nothing is gated until every group has this many answers. ``gate="all_cells"``
        needs at least ⌈1/tolerance⌉. "auto" is the larger of that and 25.
    gate : {"all_cells", "queried_cell"}, default="all_cells"
        Rule of `skfairdp.fairness.ParityGate`; the second is the published one and
        keeps no promise with three groups or more.
    groups : sequence or None, default=None
        All groups that may query. None takes those that the fitted estimator knows,
        or those given to fit, and the set of them is then public.
    abstention_label : scalar or "auto", default="auto"
        What `predict` returns in place of an answer. "auto": −1 for numbers (the
        smallest class minus 1 where −1 is a class), "abstained" for text.
    table : path or None, default=None
        SQLite file in which all copies of the fitted model count their answers: pickles,
        workers, other processes that see the file. Every fit begins its own table in
        it. None counts in memory, where each copy keeps its promise for its own answers
        only.

    Attributes
    ----------
    estimator_ : classifier
        The fitted one.
    classes_ : ndarray, shape (n_classes,)
        Its labels; the abstention label is none of them.
    groups_ : tuple or None
        Declared groups. None when fitted without any: then nothing is compared, and
        every query is answered.
    abstention_label_ : scalar or None
        What stands for an abstention; None if there are no groups and none was given.
    turnstile_ : Turnstile or None
        All that is remembered of the queries: ``coverage``, ``coverage_by_group``,
        ``save()``, ``restore()``, ``reset()``. Pickles carry it, or with `table` the name
        of its file; `scope` says which.

    Notes
    -----
    `predict` changes the state: the same row may be answered once and refused later. There is
    no ``predict_proba``, which would answer where `predict` refuses, and ``score`` takes no
    groups; count the answered rows with `skfairdp.metrics.answered` or
    `skfairdp.metrics.fairness_report`.

    The certificate speaks of the answers given when it is issued (scope "answered
    queries"), with coverage and coverage by group, and `verify` is False after further
    queries. Held-out rows bound nothing about a model whose answers depend on each
    other; certify ``estimator_`` for such a bound on what would be answered without a
    gate. Privacy of the training records is that of ``estimator_``: abstaining is
    post-processing.

    Source: Yaghini, Liu, Boenisch and Papernot (2023), with the rule over all cells.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from skfairdp.postprocessing import AbstainingClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(600, 1))
    >>> groups = np.where(X[:, 0] + rng.normal(size=600) > 0, "a", "b")
    >>> model = AbstainingClassifier(LogisticRegression(), tolerance=0.1)
    >>> _ = model.fit(X, (X[:, 0] > 0).astype(int), sensitive_features=groups)
    >>> answers = model.predict(X, sensitive_features=groups)
    >>> np.unique(answers).tolist(), model.turnstile_.coverage < 1
    ([-1, 0, 1], True)
    >>> [claim.scope for claim in model.certify().fairness]
    ['answered queries']
    """

    estimator: Any = field(kw_only=False)
    tolerance: float = 0.05
    cold_start: Literal["auto"] | int = "auto"
    gate: Literal["all_cells", "queried_cell"] = "all_cells"
    groups: Sequence[Hashable] | None = None
    abstention_label: Any = "auto"
    table: str | PathLike[str] | None = None

    # They are of the model inside.
    random_state = fixed(None)
    reproducible_noise = fixed(False)
    ledger = fixed(None)

    _charges_privacy = False
    _changes_by_use: ClassVar[tuple[str, ...]] = ("turnstile_",)
    _served_the_fit: ClassVar[tuple[str, ...]] = ("estimator", "table")
    _post_processes = "estimator_"  # certify looks there for the privacy of the training rows
    _parameters = {
        "tolerance": (Number(0.0, 1.0),),
        "cold_start": (Choice(("auto",)), Number(0, integer=True)),
        "gate": (Choice(("all_cells", "queried_cell")),),
        "table": (NONE, Kind((str, PathLike), "a path")),
    }
    _released: ClassVar = (
        "abstention_label_",
        "classes_",
        "estimator_",
        "feature_names_in_",
        "n_features_in_",
        "turnstile_",
    )
    __metadata_request__predict: ClassVar[dict[str, bool]] = {"sensitive_features": True}

    def _fit(self, given: Given, charge: Charge) -> Receipt:
        X, y, sensitive_features = given.X, given.y, given.sensitive_features
        check_parameters(self, self._parameters)
        if not hasattr(self.estimator, "fit") or not hasattr(self.estimator, "predict"):
            raise ValueError(
                "The 'estimator' parameter of AbstainingClassifier must be a classifier with fit "
                f"and predict; got {self.estimator!r}."
            )
        self._new_gate(1, 2)  # wrong settings show before anything is spent on training
        if sensitive_features is not None:
            encode_groups(sensitive_features, n_rows=count_rows(X), on_missing="drop")
        inner = clone(self.estimator)
        inner.fit(X, y, **self._routed(inner, "fit", sensitive_features))
        classes = np.asarray(inner.classes_ if hasattr(inner, "classes_") else np.unique(y))
        groups = passing_groups.known_groups(inner, self.groups, sensitive_features, count_rows(X))
        self.abstention_label_ = self.turnstile_ = None
        # Without groups every query is answered, and two truth values need no third.
        if groups is not None or self.abstention_label != "auto":
            self.abstention_label_, _ = passing_groups.abstention_marker(
                classes, self.abstention_label
            )
        if groups is not None:
            gate = self._new_gate(len(groups), max(len(classes), 2))
            self.turnstile_ = Turnstile(gate, self.table)
        elif self.table is not None:
            raise ValueError(
                f"'table' is {str(self.table)!r}, but no groups are known, so nothing is gated or "
                "counted. Fit with sensitive_features=, declare groups=, or leave 'table' None."
            )
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(inner, name):
                setattr(self, name, getattr(inner, name))
        self.classes_ = classes
        self.estimator_ = inner
        return Receipt(groups=groups)

    def _priced(self, facts: RowFacts, noise: NoiseSource) -> Quote:
        """The quote of the model inside; a fit of it is charged, and abstaining costs nothing."""
        return inner_quote(self, self.estimator, facts)

    def predict(self, X: ArrayLike, *, sensitive_features: ArrayLike | None = None) -> NDArray[Any]:
        """Answer rows in their order, or abstain; counts them.

        Parameters
        ----------
        X : array-like, shape (n_samples, n_features)
            Rows to classify, as `estimator` takes them.
        sensitive_features : array-like, Series or DataFrame, shape (n_samples,) or \
(n_samples, k), optional
            Group of each row. Needed if the model knows groups; a row with a missing
            value is not answered.

        Returns
        -------
        ndarray, shape (n_samples,)
            Entries of ``classes_`` or ``abstention_label_``, of the dtype of the classes
            (of text, wide enough).

        Raises
        ------
        UnknownGroupError
            A row's group is not among ``groups_``. No row of the call is counted.
        ValueError
            Groups are missing though the model knows some, or given though it knows none.
        """
        check_is_fitted(self)
        refuse_other_order(X=X, sensitive_features=sensitive_features)
        if self.groups_ is None or self.turnstile_ is None:
            if sensitive_features is not None:
                raise ValueError(
                    "predict got sensitive_features, but this model was fitted without groups and "
                    "gates nothing. Fit with sensitive_features=, or declare groups=."
                )
            return np.asarray(self.estimator_.predict(X))
        if sensitive_features is None:
            raise ValueError(
                "predict needs sensitive_features: this model was fitted with the groups "
                f"{list(self.groups_)!r} and answers only while they are treated evenly. Pass one "
                "value per row; rows with a missing value are not answered."
            )
        codes = encode_groups(
            sensitive_features, n_rows=count_rows(X), labels=self.groups_, on_missing="drop"
        ).codes
        passed_on = self._routed(self.estimator_, "predict", sensitive_features)
        predicted = np.asarray(self.estimator_.predict(X, **passed_on))
        labels = pd.Index(self.classes_).get_indexer(predicted)
        if (labels < 0).any():
            raise ValueError("The estimator predicted a label that is not among its classes_.")
        answered = self.turnstile_.admit(codes, labels.astype(np.int64))
        if not answered.all() and self.turnstile_.gate.stuck:
            warn_user(
                "The parity gate is deadlocked: no answer of any group can pass any more, so every "
                "further query will be refused. Call turnstile_.reset() to start anew; a larger "
                "tolerance or cold_start makes this rarer.",
                FairnessWarning,
            )
        marker, dtype = passing_groups.abstention_marker(self.classes_, self.abstention_label_)
        answers = np.full(len(answered), marker, dtype=dtype)
        answers[answered] = predicted[answered]
        return answers

    def get_metadata_routing(self) -> MetadataRouter:
        """Say which metadata goes where."""
        mapping = MethodMapping().add(caller="fit", callee="fit")
        mapping = mapping.add(caller="predict", callee="predict")
        router = MetadataRouter(owner=self).add_self_request(self)
        return router.add(estimator=self.estimator, method_mapping=mapping)

    def _routed(self, inner: Any, method: str, sensitive_features: Any) -> dict[str, Any]:
        """Groups in the words of the inner estimator's fit or predict."""
        if sensitive_features is None:
            return {}
        if get_config()["enable_metadata_routing"]:
            routed = process_routing(self, method, sensitive_features=sensitive_features)
            return dict(routed["estimator"][method])
        if method == "fit":
            return passing_groups.fit_parameters(inner, sensitive_features)
        given = passing_groups.accepts_groups(inner, "predict")
        return {"sensitive_features": sensitive_features} if given else {}

    def _new_gate(self, n_groups: int, n_classes: int) -> ParityGate:
        if self.cold_start == "auto":
            needed = smallest_cold_start(self.tolerance) if self.gate == "all_cells" else 0
            cold_start = max(needed, _USUAL_COLD_START)
        else:
            cold_start = int(self.cold_start)
        return ParityGate(
            n_groups, n_classes, tolerance=self.tolerance, cold_start=cold_start, rule=self.gate
        )

    def _mechanism_fairness(self, notion: str) -> list[FairnessGuarantee]:
        """State the claim of the gate; claims about `estimator_` do not hold behind it."""
        if notion != "demographic_parity" or self.groups_ is None or self.turnstile_ is None:
            return []
        gate, asked, without = self.turnstile_.snapshot()
        classes = self.classes_.tolist()
        claim = answered_guarantee(gate, groups=self.groups_, classes=classes, asked=asked)
        texts = [*claim.assumptions, self.turnstile_.scope, QUERIERS]
        if without:
            texts.append(f"In addition, {without} queries had no group and were refused.")
        return [replace(claim, assumptions=tuple(texts))]

    def __sklearn_is_fitted__(self) -> bool:
        return "classes_" in vars(self)

    def _digest_state(self) -> dict[str, Any]:
        """Return the state of predictions: the fitted estimator, and the table of answers."""
        state = super()._digest_state()
        state["turnstile_"] = None if self.turnstile_ is None else self.turnstile_.save()
        return state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if not hasattr(self.estimator, "__sklearn_tags__"):
            return tags  # fit says what is wrong with it
        inner = get_tags(self.estimator)
        tags.input_tags = inner.input_tags
        tags.classifier_tags = inner.classifier_tags or tags.classifier_tags
        tags.non_deterministic = inner.non_deterministic
        return expecting(tags, FRESH_FITS if tags.non_deterministic else {})
