"""From what users deploy (Pipelines, fitted searches) to its parts."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from skfairdp.certificate.digest import Bound, bind
from skfairdp.certificate.steps import (
    charges_privacy,
    is_transparent,
    leaves_of,
    releases_rows,
    takes_groups,
)
from skfairdp.exceptions import IncomparableModelError, UnboundModelError
from skfairdp.protocol import answers_of


@dataclass(frozen=True, eq=False)
class Deployed:
    """A fitted model and the parts that it is made of."""

    model: Any  # what predicts, without a search around it
    final: Any  # its last estimator
    stages: tuple[tuple[str, Any], ...]  # the earlier steps in order, each with its name
    searches: tuple[Any, ...]  # fitted ones around the model or its last step

    @property
    def name(self) -> str:
        """Class names of the parts, in order."""
        parts = [*(stage for _, stage in self.stages if not isinstance(stage, str)), self.final]
        names = [type(part).__name__ for part in parts]
        if self._post_processes:
            names.insert(-1, unwrap(getattr(self.final, self.final._post_processes)).name)
        return " → ".join(names)

    def leaves(self) -> tuple[tuple[str, Any], ...]:
        """Earlier steps without containers, named "outer__inner"."""
        return tuple(leaf for name, stage in self.stages for leaf in leaves_of(name, stage))

    @property
    def place_of_release(self) -> int | None:
        """Place of the first step whose output, a private release, is all that later steps see."""
        # A step inside a container is none, since columns pass beside it.
        places = (i for i, (_, stage) in enumerate(self.stages) if releases_rows(stage))
        return next(places, None)

    @property
    def release(self) -> tuple[int, Any]:
        """The first part that releases rows, the last one included, and its place; or None."""
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
        model has functions or classes of yours, whose byte code another Python made.
        """
        try:
            own = self.bound
        except UnboundModelError:
            return False
        if own.digest == digest:
            return True
        here = platform.python_version()
        if own.with_code and digest.startswith("sha256:") and python not in ("", here):
            raise IncomparableModelError(
                f"The certificate was made under Python {python}, and this is {here}: functions "
                "and classes of yours are compared by their byte code, which may differ. "
                f"Verify under Python {python}, or certify anew."
            )
        return False

    @property
    def changes(self) -> tuple[str, ...]:
        """What of a part of ours is not as its fit left it: then nothing was promised for it."""
        return tuple(
            f"{where}{type(part).__name__} was changed after its fit ({'; '.join(changed)}), and "
            "what was promised is about what the fit left. Fit it again, or undo the change."
            for where, part in self._ours()
            if (changed := answers_of(part)._changed_since_fit())
        )

    def _ours(self) -> Iterator[tuple[str, Any]]:
        """Parts whose promises a certificate repeats, and what post-processes them."""
        for name, step in self.leaves():
            if charges_privacy(step):
                yield f"Step {name!r}, a ", step
        for search in self.searches:
            if charges_privacy(search):
                yield "The ", search
        if charges_privacy(self.final) or self._post_processes:
            yield "The ", self.final
        if self._post_processes:
            yield from unwrap(getattr(self.final, self.final._post_processes))._ours()

    @property
    def group_aware(self) -> bool:
        """Whether predictions need the groups of the rows."""
        # Post-processing of ours that was fitted without groups predicts without them.
        blind = self._post_processes and self.final.groups_ is None
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
        inner = unwrap(getattr(self.final, self.final._post_processes)).trained
        stages, searches = (*self.stages, *inner.stages), (*self.searches, *inner.searches)
        return Deployed(inner.model, inner.final, stages, searches)

    @property
    def ledger(self) -> Any:
        """Ledger that training charged: that of a search goes before its estimator's."""
        trained = self.trained
        held = (getattr(part, "ledger", None) for part in (*trained.searches, trained.final))
        return next((ledger for ledger in held if ledger is not None), None)

    @property
    def _post_processes(self) -> bool:
        return answers_of(self.final)._post_processes is not None

    def predict(self, X: Any, sensitive_features: Any) -> Any:
        """Predict as deployed; groups go only to a model that asks for them."""
        # A copy: steps such as StandardScaler(copy=False) write into what they are given.
        given = {"sensitive_features": sensitive_features} if self.group_aware else {}
        return self.model.predict(deepcopy(X), **given)

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
    final, stages = predictor, []
    while type(final) is Pipeline and is_transparent(final):
        stages += [(name, step) for name, step in final.steps[:-1]]
        final, searches = _best(final.steps[-1][1], searches)
    check_is_fitted(final)
    return Deployed(predictor, final, tuple(stages), searches)


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
