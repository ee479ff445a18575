"""Base classes of scikit-learn, with the types that scikit-learn does not ship.

To a type checker, a class with a base of unknown type takes any argument. With these declarations
a misspelt parameter of an estimator is an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike

    class BaseEstimator:
        """Base of all estimators."""

        n_features_in_: int

        def get_params(self, deep: bool = True) -> dict[str, Any]: ...
        def set_params(self, **params: Any) -> Self: ...
        def get_metadata_routing(self) -> Any: ...
        def set_fit_request(self, **requests: bool | str | None) -> Self: ...
        def set_predict_request(self, **requests: bool | str | None) -> Self: ...
        def __getstate__(self) -> dict[str, Any]: ...
        def __setstate__(self, state: dict[str, Any]) -> None: ...
        def __sklearn_tags__(self) -> Any: ...

    class ClassifierMixin:
        """Mixin of classifiers."""

        _estimator_type: str

        def score(self, X: Any, y: Any, sample_weight: Any = None) -> float: ...

    class RegressorMixin:
        """Mixin of regressors."""

        _estimator_type: str

        def score(self, X: Any, y: Any, sample_weight: Any = None) -> float: ...

    class TransformerMixin:
        """Mixin of transformers."""

        fit_transform: Any  # with the arguments of each `fit`

        def __sklearn_tags__(self) -> Any: ...
        def set_output(self, *, transform: str | None = None) -> Self: ...

    class OneToOneFeatureMixin:
        """Mixin of transformers that keep the columns."""

        def get_feature_names_out(self, input_features: ArrayLike | None = None) -> np.ndarray: ...

    class ClassNamePrefixFeaturesOutMixin:
        """Mixin of transformers that name their columns after themselves."""

        def get_feature_names_out(self, input_features: ArrayLike | None = None) -> np.ndarray: ...

else:
    from sklearn.base import (
        BaseEstimator,
        ClassifierMixin,
        ClassNamePrefixFeaturesOutMixin,
        OneToOneFeatureMixin,
        RegressorMixin,
        TransformerMixin,
    )

__all__ = [
    "BaseEstimator",
    "ClassNamePrefixFeaturesOutMixin",
    "ClassifierMixin",
    "OneToOneFeatureMixin",
    "RegressorMixin",
    "TransformerMixin",
]
