"""Turning a clean table into the Bunch that every loader returns."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils import Bunch

__all__ = ["assemble", "chosen_sensitive"]

Bounds = Mapping[str, tuple[float, float]]
Categories = Mapping[str, Sequence[str | int]]


def chosen_sensitive(
    sensitive: str | Sequence[str], available: Mapping[str, pd.Series]
) -> pd.Series | pd.DataFrame:
    """The sensitive columns that the caller asked for: one as a Series, several as a DataFrame."""
    names = [sensitive] if isinstance(sensitive, str) else list(sensitive)
    unknown = [name for name in names if name not in available]
    if unknown or not names:
        raise ValueError(
            f"sensitive is {sensitive!r}. Allowed are {sorted(available)!r}, or a list of them."
        )
    columns = [available[name].rename(name) for name in names]
    return columns[0] if isinstance(sensitive, str) else pd.concat(columns, axis=1)


def assemble(
    table: pd.DataFrame,
    *,
    target: pd.Series,
    target_names: Sequence[str],
    sensitive_features: pd.Series | pd.DataFrame,
    excluded: Sequence[str],
    leak_columns: Mapping[str, str],
    drop_leaks: bool,
    bounds: Bounds,
    categories: Categories,
    log_columns: Sequence[str] = (),
    split: NDArray[np.object_] | None = None,
    description: str,
    source: str,
) -> Bunch:
    """Select columns and put declarations, text and rows together.

    Columns of `table` in neither `bounds` nor `categories` are a mistake of the loader, except for
    those in `excluded`; so a Bunch never has a feature without a declaration.
    """
    dropped = set(excluded) | (set(leak_columns) if drop_leaks else set())
    features = [column for column in table.columns if column not in dropped]
    undeclared = [c for c in features if c not in bounds and c not in categories]
    if undeclared:
        raise AssertionError(f"no bounds and no categories declared for {undeclared!r}")
    data = table[features].reset_index(drop=True)
    target = target.astype("int64").reset_index(drop=True)
    sensitive_features = sensitive_features.reset_index(drop=True)
    leaks = "\n".join(f"    {name}: {why}" for name, why in leak_columns.items()) or "    none"
    text = (
        f"{inspect.cleandoc(description)}\n\n"
        f"Leak columns ({'dropped' if drop_leaks else 'KEPT, drop_leaks=False'}):\n{leaks}\n\n"
        f"Rows read from: {source}. {len(data)} rows, {len(features)} columns in data."
    )
    return Bunch(
        data=data,
        target=target,
        sensitive_features=sensitive_features,
        frame=pd.concat([data, _absent_from(data, sensitive_features), target], axis=1),
        feature_names=features,
        target_names=list(target_names),
        bounds={name: tuple(bounds[name]) for name in features if name in bounds},
        categories={name: list(categories[name]) for name in features if name in categories},
        log_columns=tuple(name for name in log_columns if name in features),
        leak_columns=tuple(leak_columns),
        split=split,
        DESCR=text,
    )


def _absent_from(data: pd.DataFrame, sensitive: pd.Series | pd.DataFrame) -> pd.DataFrame:
    columns = sensitive.to_frame() if isinstance(sensitive, pd.Series) else sensitive
    return columns[[column for column in columns if column not in data.columns]]
