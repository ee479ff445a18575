"""Turning a clean table into the Bunch that every loader returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils import Bunch

from .source import Card


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
    card: Card,
    *,
    target: pd.Series,
    sensitive: str | Sequence[str],
    available: Mapping[str, pd.Series],
    include_sensitive: bool,
    drop_leaks: bool,
    source: str,
    target_names: Sequence[str] | None = None,
    excluded: Sequence[str] = (),
    split: NDArray[np.object_] | None = None,
) -> Bunch:
    """Select columns and put declarations, text and rows together.

    `available`: sensitive features by name; their columns are left out of the features unless
    `include_sensitive`. Columns of `table` that the card declares neither bounds nor categories for
    are a mistake of the loader, except for those in `excluded`; so a Bunch never has a feature
    without a declaration.
    """
    groups = chosen_sensitive(sensitive, available)
    dropped = {*excluded, *(card.leaks if drop_leaks else ())}
    if not include_sensitive:
        names = [sensitive] if isinstance(sensitive, str) else sensitive
        dropped |= {card.columns_of.get(name, name) for name in names}
    features = [column for column in table.columns if column not in dropped]
    undeclared = [c for c in features if c not in card.bounds and c not in card.categories]
    if undeclared:
        raise AssertionError(f"no bounds and no categories declared for {undeclared!r}")
    data = table[features].reset_index(drop=True)
    target = target.astype("int64").reset_index(drop=True)
    groups = groups.reset_index(drop=True)
    leaks = "\n".join(f"    {name}: {why}" for name, why in card.leaks.items()) or "    none"
    text = (
        f"{card.description.strip()}\n\n"
        f"Leak columns ({'dropped' if drop_leaks else 'KEPT, drop_leaks=False'}):\n{leaks}\n\n"
        f"Rows read from: {source}. {len(data)} rows, {len(features)} columns in data."
    )
    return Bunch(
        data=data,
        target=target,
        sensitive_features=groups,
        frame=pd.concat([data, _absent_from(data, groups), target], axis=1),
        feature_names=features,
        target_names=list(target_names or card.target_names),
        bounds={name: card.bounds[name] for name in features if name in card.bounds},
        categories={n: list(card.categories[n]) for n in features if n in card.categories},
        log_columns=tuple(name for name in card.log_columns if name in features),
        leak_columns=tuple(card.leaks),
        split=split,
        DESCR=text,
    )


def _absent_from(data: pd.DataFrame, sensitive: pd.Series | pd.DataFrame) -> pd.DataFrame:
    columns = sensitive.to_frame() if isinstance(sensitive, pd.Series) else sensitive
    return columns[[column for column in columns if column not in data.columns]]
