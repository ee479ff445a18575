"""Parts of a deployed model (Pipeline, fitted search), and whether they learned from rows."""

from __future__ import annotations

import inspect
import platform
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import preprocessing
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from skfairdp.exceptions import IncomparableModelError, UnboundModelError
from skfairdp.foundation.parameters import CALLBACKS
from skfairdp.protocol import answers_of
from skfairdp.receipts.digests.code import library_name, replaced_methods
from skfairdp.receipts.digests.digest import Bound, bind
from skfairdp.receipts.digests.state import shadows
from skfairdp.receipts.harmless_steps import CONTAINERS, HARMLESS
from skfairdp.receipts.step_rules import (
    WATCHED,
    changed_parameters,
    is_fixed,
    reason_to_learn,
    reasons_of_container,
)
from skfairdp.records.labels import take_rows

# What they make of sparse rows is sparse.
PASSING_ON = (
    preprocessing.FunctionTransformer,
    preprocessing.Binarizer,
    preprocessing.Normalizer,
    preprocessing.PolynomialFeatures,
)


# Attributes that the fit of a fixed threshold around a frozen estimator leaves.
_LEFT_BY_THRESHOLD = frozenset({"estimator_", "feature_names_in_", "n_features_in_"})


@dataclass(frozen=True, eq=False)
class ContainerChoice:
    """Choice of a container that may depend on training rows or keep them."""

    what: str  # the choice and its reason
    only_of_sparse_rows: bool = False


def is_transparent(wrapper: object) -> bool:
    """Whether a Pipeline or search predicts as its class in the library, by no other methods."""
    return library_name(type(wrapper)) is not None and not shadows(wrapper)


def post_processed(final: Any) -> str | None:
    """Name the fitted attribute with the model whose answers an estimator changes, or None.

    A threshold that was set by hand, around a frozen estimator of this package, learns nothing
    of the rows of its fit. One around an estimator that it fits is a model of its own.
    """
    if type(final) is not FixedThresholdClassifier or not is_transparent(final):
        return answers_of(final)._post_processes
    if replaced_methods(FixedThresholdClassifier):
        return None
    inner, left = final.estimator_, set(vars(final)) - set(final.get_params(deep=False))
    frozen = type(inner) is FrozenEstimator and not shadows(inner)
    known = left <= _LEFT_BY_THRESHOLD and is_private(inner.estimator) if frozen else False
    return "estimator_" if known else None


def is_private(model: Any) -> bool:
    """Whether a fitted estimator, or the last step of a Pipeline, states its privacy cost."""
    return charges_privacy(unwrap(model).trained.final)


def charges_privacy(step: object) -> bool:
    """Whether a step is an estimator of this package that states its privacy cost."""
    return answers_of(step)._charges_privacy is True


def kind_of(step: object) -> str:
    """Name the kind of a step for a message."""
    return step.what if isinstance(step, ContainerChoice) else type(step).__name__


def takes_groups(step: Any, method: str) -> bool:
    """Whether a method of a step needs the groups of the rows."""
    takes = "sensitive_features" in inspect.signature(getattr(step, method)).parameters
    return takes and not answers_of(step)._group_blind


def releases_rows(step: object) -> bool:
    """Whether a step shows people only through releases that are private by themselves."""
    return answers_of(step)._releases_representation is True


def why_learned(step: Any) -> str | None:
    """Say why a step without noise may have learned from rows; None where it learned nothing.

    Names parameters and types, never a value.
    """
    if shadows(step):
        return f"it holds its own {', '.join(sorted(shadows(step)))} in place of its class's"
    if isinstance(step, ContainerChoice):
        return None if step.only_of_sparse_rows else step.what
    if answers_of(step)._learns_from_rows is False:
        return None
    return reason_to_learn(step)


def learns_from_rows(step: Any) -> bool:
    """Whether fitting a step may take more from the rows than the number of columns."""
    return why_learned(step) is not None


def reads_by_itself(step: Any) -> bool:
    """Whether a step that learns nothing reads rows by code of another library.

    Such code chooses one type for many cells.
    """
    if isinstance(step, ContainerChoice) or charges_privacy(step):
        return False
    return answers_of(step)._learns_from_rows is not False and not learns_from_rows(step)


def leaves_of(name: str, stage: Any) -> Iterator[tuple[str, Any]]:
    """Steps inside containers, recursively; what passes columns on or drops them is left out.

    A ColumnTransformer that is not fitted has the steps that it was given, and its remainder.
    """
    if type(stage) is FrozenEstimator and charges_privacy(stage.estimator) and not shadows(stage):
        stage = stage.estimator  # it has paid
    if stage is None or isinstance(stage, str):
        return
    kind = type(stage)
    if kind not in CONTAINERS or shadows(stage) or replaced_methods(kind):
        yield name, stage  # a subclass may learn what its parent does not
        return
    for parameter, reason in reasons_of_container(stage):
        yield f"{name}__{parameter}", ContainerChoice(f"{kind.__name__}: {reason}")
    if type(stage) is not ColumnTransformer:
        inner = list(stage.steps if type(stage) is Pipeline else stage.transformer_list)
    else:
        inner = [(key, transformer) for key, transformer, _ in _parts_of(stage)]
        inner += [
            (key, ContainerChoice(f"columns chosen by {_chooser(columns)}"))
            for key, _, columns in stage.transformers
            if not is_fixed(columns)
        ]
        inner += _changed_by_fit(stage)
        steps = [step for key, part in inner for _, step in leaves_of(key, part)]
        # What is sparse by class or settings, or came out so. A table with names is dense until a
        # step makes an array of it.
        sparse = getattr(stage, "sparse_output_", False) or any(
            isinstance(step, FeatureHasher | HashingVectorizer)
            or getattr(step, "sparse_output", False) is True
            for step in steps
        )
        passing = [step for step in steps if isinstance(step, PASSING_ON)]
        named = hasattr(stage, "feature_names_in_")
        maybe = not named or any(getattr(step, "validate", True) for step in passing)
        if stage.sparse_threshold > 0.0 and (sparse or (passing and maybe)):
            how = "sparse or dense by the zeros in the rows; set sparse_threshold=0"
            inner.append(("sparse_threshold", ContainerChoice(how, only_of_sparse_rows=not sparse)))
    for key, step in inner:
        yield from leaves_of(f"{name}__{key}", step)


def _chooser(columns: Any) -> str:
    return "a function" if callable(columns) else f"a {type(columns).__name__}"


def _parts_of(stage: ColumnTransformer) -> list[tuple[str, Any, Any]]:
    """Name, transformer and columns of each part: the fitted ones, or those that were given."""
    given = [*stage.transformers, ("remainder", stage.remainder, None)]
    return list(getattr(stage, "transformers_", given))


def _changed_by_fit(stage: ColumnTransformer) -> Iterator[tuple[str, ContainerChoice]]:
    """Fitted copies of listed steps with other parameters than those that were given."""
    given = {key: step for key, step, _ in (*stage.transformers, ("remainder", stage.remainder, 0))}
    for key, fitted, _ in _parts_of(stage):
        before = given.get(key)
        if type(before) is type(fitted) and type(fitted) in HARMLESS:
            moved = changed_parameters(before, fitted)
            if moved:
                yield key, ContainerChoice(f"{type(fitted).__name__}: {'; '.join(moved)}")


@dataclass(frozen=True, eq=False)
class Deployed:
    """A fitted model and the parts that it is made of."""

    model: Any  # what predicts, without a search around it
    final: Any  # its last estimator
    stages: tuple[tuple[str, Any], ...]  # the earlier steps in order, each with its name
    searches: tuple[Any, ...]  # fitted ones around the model or its last step
    pipelines: tuple[Pipeline, ...] = ()  # that the stages were taken from

    @property
    def name(self) -> str:
        """Class names of the parts, in order."""
        parts = [*(stage for _, stage in self.stages if not isinstance(stage, str)), self.final]
        names = [type(part).__name__ for part in parts]
        if self._post_processes:
            names.insert(-1, self._inner.name)
        return " → ".join(names)

    def leaves(self) -> tuple[tuple[str, Any], ...]:
        """Earlier steps without containers, named "outer__inner"; and choices of containers."""
        choices = tuple(
            (parameter, ContainerChoice(f"Pipeline: {reason}"))
            for pipeline in self.pipelines
            for parameter, reason in reasons_of_container(pipeline)
        ) + tuple(
            ("callbacks", ContainerChoice(f"{type(search).__name__}: {WATCHED}"))
            for search in self.searches
            if getattr(search, CALLBACKS, None)
        )
        inner = (leaf for name, stage in self.stages for leaf in leaves_of(name, stage))
        return (*choices, *inner)

    @property
    def release(self) -> tuple[int, Any]:
        """The first part that releases rows, the last one included, and its place; or None.

        A release is the only input of later parts. Its place is below the number of stages, unless
        the last part releases rows, or none does.
        """
        # A step inside a container does not count, since columns may bypass it.
        parts = [*(stage for _, stage in self.stages), self.final]
        found = ((i, part) for i, part in enumerate(parts) if releases_rows(part))
        return next(found, (len(parts), None))

    @property
    def bound(self) -> Bound:
        """Digest of everything that predictions depend on; an UnboundModelError if none."""
        return bind([*self.stages, self.final])

    def matches(self, digest: str, python: str = "") -> bool:
        """Whether a digest, made under a version of Python if it is known, is that of this model.

        False for a model that no digest can cover. Raises an IncomparableModelError where the
        model has your own functions or classes, whose byte code another Python made.
        """
        try:
            own = self.bound
        except UnboundModelError:
            return False
        same, here = own.digest == digest, platform.python_version()
        comparable = not own.with_code or not digest.startswith("sha256:") or python in ("", here)
        if not (same or comparable):
            raise IncomparableModelError(
                f"The certificate was made under Python {python}, and this is {here}: functions "
                "and classes are compared by their byte code, which may differ. "
                f"Verify under Python {python}, or certify anew."
            )
        return same

    @property
    def changes(self) -> tuple[str, ...]:
        """Name the attributes of a part of skfairdp that changed after its fit."""
        return tuple(
            f"{where}{type(part).__name__} was changed after its fit ({'; '.join(changed)}), and "
            "what was promised is about what the fit left. Fit it again, or undo the change."
            for where, part in self._ours()
            if (changed := answers_of(part)._changed_since_fit())
        )

    def _ours(self) -> Iterator[tuple[str, Any]]:
        """Parts of this package: those with a guarantee, and their post-processing."""
        for name, step in self.leaves():
            if charges_privacy(step):
                yield f"Step {name!r}, a ", step
        for search in self.searches:
            if charges_privacy(search):
                yield "The ", search
        if charges_privacy(self.final) or answers_of(self.final)._post_processes:
            yield "The ", self.final
        if self._post_processes:
            yield from self._inner._ours()

    @property
    def group_aware(self) -> bool:
        """Whether predictions need the groups of the rows."""
        # A post-processor of skfairdp that was fitted without groups predicts without them.
        blind = answers_of(self.final)._post_processes and self.final.groups_ is None
        return takes_groups(self.final, "predict") and not blind

    @property
    def order_dependent(self) -> bool:
        """Whether the answer to one row depends on the rows before it."""
        return self._post_processes and self.group_aware

    @property
    def trained(self) -> Deployed:
        """The parts that may have seen training rows: without post-processing at the end."""
        if not self._post_processes:
            return self
        inner = self._inner.trained
        stages, searches = (*self.stages, *inner.stages), (*self.searches, *inner.searches)
        pipelines = (*self.pipelines, *inner.pipelines)
        return Deployed(inner.model, inner.final, stages, searches, pipelines)

    @property
    def charged(self) -> Any:
        """Search or last estimator whose guarantee covers the training of this model."""
        return next((search for search in self.searches if charges_privacy(search)), self.final)

    @property
    def ledger(self) -> Any:
        """Ledger that training charged: that of a search goes before its estimator's."""
        parts = (*self.trained.searches, self.trained.final)
        return next((p.ledger for p in parts if getattr(p, "ledger", None) is not None), None)

    @property
    def _post_processes(self) -> bool:
        return post_processed(self.final) is not None

    @property
    def _inner(self) -> Deployed:
        """The model whose answers the last estimator changes."""
        name = post_processed(self.final)
        assert name is not None
        return unwrap(getattr(self.final, name))

    def predict(
        self, X: Any, sensitive_features: Any, rows: NDArray[np.int64] | None = None
    ) -> NDArray[Any]:
        """Predict as deployed; groups go only to a model that asks for them.

        `rows`: positions of the rows to ask for; None: all.
        """
        groups = sensitive_features if self.group_aware else None
        if rows is not None:
            X = take_rows(X.tocsr() if hasattr(X, "tocsr") else X, rows)
            groups = None if groups is None else take_rows(groups, rows)
        given = {"sensitive_features": groups} if self.group_aware else {}
        # A copy: steps such as StandardScaler(copy=False) write into what they are given.
        return np.atleast_1d(np.asarray(self.model.predict(deepcopy(X), **given)))

    def after_declared_steps(self, X: Any) -> tuple[Deployed, Any]:
        """The model after leading steps that treat each row alike every time, and its rows."""
        n = 0
        if type(self.model) is Pipeline and is_transparent(self.model):
            alike = (
                is_transparent(step)
                and answers_of(step)._learns_from_rows is False
                and not releases_rows(step)
                for _, step in self.model.steps[:-1]
            )
            n = sum(takewhile(bool, alike))
        if not n:
            return self, X
        rows = Pipeline(self.model.steps[:n]).transform(deepcopy(X))
        return unwrap(Pipeline(self.model.steps[n:])), rows

    def transform(self, X: Any, before: int | None = None) -> Any:
        """Push a copy of the rows through the earlier steps, or those before the given place."""
        X = deepcopy(X)
        for _, stage in self.stages[:before]:
            if stage is not None and not isinstance(stage, str):
                X = stage.transform(X)
        return X


def unwrap(model: object) -> Deployed:
    """Take a fitted model apart: an estimator, Pipeline or search."""
    check_is_fitted(model)
    predictor, searches = _best(model, ())
    final, stages, pipelines = predictor, [], []
    while type(final) is Pipeline and is_transparent(final):
        stages += [(name, step) for name, step in final.steps[:-1]]
        pipelines.append(final)
        final, searches = _best(final.steps[-1][1], searches)
    check_is_fitted(final)
    return Deployed(predictor, final, tuple(stages), searches, tuple(pipelines))


def _best(model: Any, searches: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
    while is_transparent(model):
        if isinstance(model, FrozenEstimator):
            model = model.estimator
        elif hasattr(model, "best_estimator_"):
            model, searches = model.best_estimator_, (*searches, model)
        elif hasattr(model, "cv_results_"):
            raise NotFittedError(
                f"This {type(model).__name__} has no best_estimator_, because refit=False; set "
                "refit=True, or certify the estimator that you deploy."
            )
        else:
            break
    return model, searches
