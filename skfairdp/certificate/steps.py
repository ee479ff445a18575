"""What single steps of a deployed model do with rows."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sklearn import preprocessing
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion, Pipeline

from skfairdp.certificate.code import is_elementwise, library_name
from skfairdp.certificate.state import shadows
from skfairdp.protocol import answers_of

CONTAINERS = (ColumnTransformer, FeatureUnion, Pipeline)

# Exact types: a subclass may learn what its parent does not.
STATELESS = (
    FeatureHasher,
    HashingVectorizer,
    preprocessing.Binarizer,
    preprocessing.Normalizer,
    preprocessing.PolynomialFeatures,
)


@dataclass(frozen=True, eq=False)
class SparseChoice:
    """Whether columns are joined as a sparse table, which numbers of zeros in the rows decided."""


@dataclass(frozen=True, eq=False)
class ColumnChoice:
    """Columns that a function of yours chose after it saw the training rows."""

    by: Any


def is_transparent(wrapper: object) -> bool:
    """Whether a Pipeline or search predicts as its class in the library does.

    One of a class of yours may predict by methods of its own, and so may one with functions put
    in place of its methods.
    """
    return library_name(type(wrapper)) is not None and not shadows(wrapper)


def charges_privacy(step: object) -> bool:
    """Whether a step is an estimator of this package that states its privacy cost."""
    return answers_of(step)._charges_privacy is True


def kind_of(step: object) -> str:
    """What a step is, in a message."""
    if isinstance(step, SparseChoice):
        return "a sparse_threshold, which rows are compared with; set sparse_threshold=0"
    chosen = isinstance(step, ColumnChoice)
    return "columns chosen by a function" if chosen else type(step).__name__


def takes_groups(step: Any, method: str) -> bool:
    """Whether a method of a step needs the groups of the rows."""
    takes = "sensitive_features" in inspect.signature(getattr(step, method)).parameters
    return takes and not answers_of(step)._group_blind


def releases_rows(step: object) -> bool:
    """Whether a step shows people only through releases that are private by themselves."""
    return answers_of(step)._releases_representation is True


def learns_from_rows(step: Any) -> bool:
    """Whether fitting a step of others takes more from the rows than the number of columns."""
    if shadows(step):
        return True
    if answers_of(step)._learns_from_rows is False:
        return False
    if type(step) in STATELESS:
        # What a function of yours does with the rows is not known, e.g. an `analyzer`.
        given = step.get_params(deep=False).values()
        return any(callable(value) and not isinstance(value, type) for value in given)
    if type(step) is preprocessing.FunctionTransformer:
        # Any other function may mix rows, as centring by the mean of the column does.
        return not (step.func is None or is_elementwise(step.func))
    if type(step) in (preprocessing.OneHotEncoder, preprocessing.OrdinalEncoder):
        limits = (step.min_frequency, step.max_categories)
        return isinstance(step.categories, str) or limits != (None, None)
    if type(step) is SimpleImputer:
        # Without keep_empty_features the rows decide which columns remain.
        constant = step.strategy == "constant" and step.keep_empty_features
        return not constant or step.add_indicator
    return True


def leaves_of(name: str, stage: Any) -> Iterator[tuple[str, Any]]:
    """Steps inside containers, recursively; what passes columns on or drops them is left out."""
    if stage is None or isinstance(stage, str):
        return
    if type(stage) not in CONTAINERS or shadows(stage):
        yield name, stage  # a subclass may learn what its parent does not
        return
    if type(stage) is Pipeline:
        inner = list(stage.steps)
    elif type(stage) is FeatureUnion:
        inner = list(stage.transformer_list)
    else:
        inner = [(key, transformer) for key, transformer, _ in stage.transformers_]
        chosen = [(key, columns) for key, _, columns in stage.transformers if callable(columns)]
        inner += [(key, ColumnChoice(columns)) for key, columns in chosen]
        # What is sparse by its class or settings; of sparse rows passed on, what came of them.
        sparse = getattr(stage, "sparse_output_", False) or any(
            isinstance(step, FeatureHasher | HashingVectorizer)
            or getattr(step, "sparse_output", False) is True
            for key, transformer in inner
            for _, step in leaves_of(key, transformer)
        )
        if sparse and stage.sparse_threshold > 0.0:
            inner.append(("sparse_threshold", SparseChoice()))
    for key, step in inner:
        yield from leaves_of(f"{name}__{key}", step)
