"""Transformers of scikit-learn that learn nothing from rows, each with its harmless settings.

A class that is not listed learns. So does a listed class with a parameter that is not listed, or
with a value that its parameter does not allow: a callable, a buffer, an open file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType, NoneType
from typing import Any

import numpy as np
import pandas as pd
from sklearn import preprocessing
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion, Pipeline

from skfairdp.receipts.digests.code import is_elementwise, library_name

# Exact types everywhere: an object of a subclass may keep what it is compared with.
_NUMBERS = {int, float, *(kind for kind in np.sctypeDict.values() if issubclass(kind, np.number))}
_PLAIN = {*_NUMBERS, bool, np.bool_, str, np.str_, bytes, NoneType, type(pd.NA)}
_ARRAYS = (list, tuple, np.ndarray, pd.Index)


@dataclass(frozen=True)
class Allowed:
    """Values that a parameter may have.

    Attributes
    ----------
    words : str
        The values, for people; a page and messages print it.
    holds : callable
        Tests a value, whatever it is, without calling or changing it.
    """

    words: str
    holds: Callable[[Any], bool]

    def __post_init__(self) -> None:
        """Refuse a rule that nobody can read or that allows everything."""
        if not self.words.strip():
            raise ValueError("words is empty. Allowed is a text that names the allowed values.")
        for outside in (object(), lambda rows: rows, {"out": [0.0]}):
            if self.holds(outside) is not False:
                raise ValueError(f"The rule {self.words!r} allows objects, functions or buffers.")

    def __or__(self, other: Allowed) -> Allowed:
        """Allow the values of either rule."""
        return Allowed(
            f"{self.words}, {other.words}", lambda value: self.holds(value) or other.holds(value)
        )


def _one_of(*values: Any) -> Allowed:
    """Allow the listed texts, flags and None, by type and value."""
    words = ", ".join(
        "None" if v is None else f'"{v}"' if type(v) is str else str(v) for v in values
    )
    return Allowed(words, lambda v: any(type(v) is type(one) and v == one for one in values))


def _is_plain(value: Any) -> bool:
    return type(value) in _PLAIN


def _is_list(value: Any, depth: int) -> bool:
    """Whether a value is a list or array of plain values, nested at most `depth` deep."""
    if type(value) is np.ndarray and not value.dtype.hasobject:
        return value.dtype.kind in "biufUS" and value.dtype.metadata is None
    if not (type(value) in _ARRAYS or (isinstance(value, pd.Index) and library_name(type(value)))):
        return False
    return all(_is_plain(item) or (depth > 1 and _is_list(item, depth - 1)) for item in value)


def _is_number_type(value: Any) -> bool:
    if isinstance(value, np.dtype):
        return value.kind in "biuf" and value.metadata is None
    return isinstance(value, type) and (value in _NUMBERS or value in (bool, np.bool_))


NOTHING = _one_of(None)
NO_CACHE = Allowed(
    "None (a cache keeps the rows of every step in its files)", lambda value: value is None
)
FLAG = Allowed("True, False", lambda value: type(value) in (bool, np.bool_))
NUMBER = Allowed("a number", lambda value: type(value) in _NUMBERS)
TEXT = Allowed("a text", lambda value: type(value) in (str, np.str_))
NUMBER_TYPE = Allowed("a numeric type", _is_number_type)
PAIR = Allowed(
    "a pair of integers",
    lambda value: type(value) is tuple and len(value) == 2 and all(type(v) is int for v in value),
)
VALUES = Allowed("a list of texts or numbers", lambda value: _is_list(value, 1))
TEXTS = Allowed(
    "a list of texts",
    lambda value: type(value) in (list, tuple) and all(TEXT.holds(item) for item in value),
)
LISTS = Allowed(
    "a list of texts or numbers for each column",
    lambda value: type(value) in _ARRAYS and _is_list(value, 2),
)
FUNCTION = NOTHING | Allowed("a ufunc of numpy or scipy of one argument", is_elementwise)
NO_ARGUMENTS = NOTHING | Allowed("{}", lambda value: type(value) is dict and not value)
WEIGHTS = NOTHING | Allowed(
    "a dict of numbers",
    lambda value: (
        type(value) is dict and all(type(k) is str and NUMBER.holds(v) for k, v in value.items())
    ),
)
# Columns that a ColumnTransformer picks; not a rule for a parameter, but read in the same way.
COLUMNS = (
    TEXT
    | NUMBER
    | VALUES
    | Allowed(
        "a slice",
        lambda value: (
            type(value) is slice and all(map(_is_plain, (value.start, value.stop, value.step)))
        ),
    )
)

# Fitted attributes that follow from the table's form.
_NAMES = Allowed(
    "names of columns",
    lambda value: type(value) is np.ndarray and value.dtype == object and _is_list(value, 1),
)
_CONFIG = Allowed(
    "the kind of table to make",
    lambda value: (
        type(value) is dict
        and all(type(k) is str and type(v) in (str, NoneType) for k, v in value.items())
    ),
)
_TABLE_TYPE = Allowed("a type of columns", lambda v: isinstance(v, np.dtype) and v.metadata is None)
STATE: Mapping[str, Allowed] = MappingProxyType(
    {"n_features_in_": NUMBER, "feature_names_in_": _NAMES, "_sklearn_output_config": _CONFIG}
)

# What `set_output` leaves in a Pipeline, and the label that the command writes down as positive.
OF_PIPELINES: Mapping[str, Allowed] = MappingProxyType(
    {"_sklearn_output_config": _CONFIG, "positive_": TEXT | NUMBER | FLAG}
)


@dataclass(frozen=True, eq=False)
class HarmlessStep:
    """A class of scikit-learn, and the settings with which it learns nothing from rows.

    Attributes
    ----------
    kind : type
        The class itself; a subclass is another class.
    parameters : mapping of str to Allowed
        Harmless values of each parameter. A parameter that is not listed learns.
    public_rows : callable
        Makes rows that anybody may see, of the form that a fitted step took. A fit on them has to
        leave the same attributes.
    state : mapping of str to Allowed
        Further fitted attributes that follow from the form of the table, not from its rows.
    """

    kind: type
    parameters: Mapping[str, Allowed]
    public_rows: Callable[[Any], Any]
    state: Mapping[str, Allowed] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse a class that cannot be identified by its name, and entries that are no rules."""
        if not isinstance(self.kind, type) or library_name(self.kind) is None:
            raise TypeError(f"kind is {self.kind!r}. Allowed is a class of an installed library.")
        if not hasattr(self.kind, "get_params"):
            raise TypeError(
                f"kind is {self.kind.__name__}. Allowed is an estimator, with get_params."
            )
        for name, rule in {**self.parameters, **self.state}.items():
            if type(rule) is not Allowed:
                raise TypeError(
                    f"The rule for {name!r} must be an Allowed; got a {type(rule).__name__}."
                )
        object.__setattr__(self, "parameters", MappingProxyType(dict(self.parameters)))
        object.__setattr__(self, "state", MappingProxyType({**STATE, **self.state}))

    @property
    def path(self) -> str:
        """Public name of the class, e.g. "sklearn.preprocessing.Binarizer"."""
        return f"{self.kind.__module__.partition('._')[0]}.{self.kind.__name__}"


def _numbers(step: Any) -> Any:
    return np.ones((1, step.n_features_in_))


def _first_categories(step: Any) -> Any:
    columns = {str(place): listed[:1] for place, listed in enumerate(step.categories_)}
    return pd.DataFrame(columns)


def _of_its_type(step: Any) -> Any:
    return np.zeros((1, step.n_features_in_), dtype=step._fit_dtype)


_HASHED = {"n_features": NUMBER, "alternate_sign": FLAG, "dtype": NUMBER_TYPE}
_ENCODED = {
    "categories": LISTS,
    "dtype": NUMBER_TYPE,
    "min_frequency": NOTHING,
    "max_categories": NOTHING,
}
_LISTED = (
    HarmlessStep(
        preprocessing.Binarizer, {"threshold": NUMBER, "copy": FLAG}, public_rows=_numbers
    ),
    HarmlessStep(
        preprocessing.Normalizer,
        {"norm": _one_of("l1", "l2", "max"), "copy": FLAG},
        public_rows=_numbers,
    ),
    HarmlessStep(
        preprocessing.PolynomialFeatures,
        {
            "degree": NUMBER | PAIR,
            "interaction_only": FLAG,
            "include_bias": FLAG,
            "order": _one_of("C", "F"),
        },
        public_rows=_numbers,
    ),
    HarmlessStep(
        preprocessing.FunctionTransformer,
        {
            "func": FUNCTION,
            # A fit calls it with rows, where check_inverse=True.
            "inverse_func": NOTHING,
            "validate": FLAG,
            "accept_sparse": FLAG,
            "check_inverse": FLAG,
            "feature_names_out": _one_of(None, "one-to-one"),
            # out= is a buffer, and where= leaves memory of the process in the columns.
            "kw_args": NO_ARGUMENTS,
            "inv_kw_args": NO_ARGUMENTS,
        },
        public_rows=_numbers,
    ),
    HarmlessStep(
        preprocessing.OneHotEncoder,
        {
            **_ENCODED,
            "drop": _one_of(None, "first", "if_binary") | VALUES,
            "sparse_output": FLAG,
            "handle_unknown": _one_of("error", "ignore", "infrequent_if_exist", "warn"),
            "feature_name_combiner": _one_of("concat"),
        },
        public_rows=_first_categories,
    ),
    HarmlessStep(
        preprocessing.OrdinalEncoder,
        {
            **_ENCODED,
            "handle_unknown": _one_of("error", "use_encoded_value"),
            "unknown_value": NOTHING | NUMBER,
            "encoded_missing_value": NUMBER,
        },
        public_rows=_first_categories,
    ),
    HarmlessStep(
        SimpleImputer,
        {
            "missing_values": Allowed("a number, a text, None, pandas.NA", _is_plain),
            "strategy": _one_of("constant"),
            "fill_value": Allowed("a number, a text, None", _is_plain),
            "copy": FLAG,
            # True: the columns with missing values are found in the rows.
            "add_indicator": _one_of(False),
            # False: a column whose values are all missing is dropped.
            "keep_empty_features": _one_of(True),
        },
        public_rows=_of_its_type,
        state={"_fit_dtype": _TABLE_TYPE, "_fill_dtype": _TABLE_TYPE},
    ),
    HarmlessStep(
        FeatureHasher,
        {**_HASHED, "input_type": _one_of("dict", "pair", "string")},
        public_rows=lambda step: [{"a": 1}],
    ),
    HarmlessStep(
        HashingVectorizer,
        {
            **_HASHED,
            "input": _one_of("content"),  # "file" and "filename" read files
            "encoding": TEXT,
            "decode_error": _one_of("strict", "ignore", "replace"),
            "strip_accents": _one_of(None, "ascii", "unicode"),
            "lowercase": FLAG,
            "preprocessor": NOTHING,
            "tokenizer": NOTHING,
            "stop_words": _one_of(None, "english") | VALUES,
            "token_pattern": NOTHING | TEXT,
            "ngram_range": PAIR,
            "analyzer": _one_of("word", "char", "char_wb"),
            "binary": FLAG,
            "norm": _one_of(None, "l1", "l2"),
        },
        public_rows=lambda step: ["a"],
        state={"_stop_words_id": NUMBER},  # an address; set where stop words were checked
    ),
)
# By class, in the order of the page.
HARMLESS: Mapping[type, HarmlessStep] = MappingProxyType({one.kind: one for one in _LISTED})

# Containers are taken apart, so that their steps are looked at one by one. Estimators and lists of
# estimators among their parameters are those steps.
_WORKERS = NOTHING | NUMBER
_NAMING = {
    "n_jobs": _WORKERS,
    "transformer_weights": WEIGHTS,
    "verbose": FLAG | NUMBER,
    "verbose_feature_names_out": FLAG | TEXT,
}
CONTAINERS: Mapping[type, Mapping[str, Allowed]] = MappingProxyType(
    {
        ColumnTransformer: MappingProxyType(
            {
                **_NAMING,
                "sparse_threshold": NUMBER,
                "force_int_remainder_cols": FLAG | _one_of("deprecated"),  # until scikit-learn 1.8
            }
        ),
        FeatureUnion: MappingProxyType(_NAMING),
        Pipeline: MappingProxyType(
            {"memory": NO_CACHE, "transform_input": NOTHING | TEXTS, "verbose": FLAG | NUMBER}
        ),
    }
)
STEPS_OF: Mapping[type, frozenset[str]] = MappingProxyType(
    {
        ColumnTransformer: frozenset({"transformers", "remainder"}),
        FeatureUnion: frozenset({"transformer_list"}),
        Pipeline: frozenset({"steps"}),
    }
)
