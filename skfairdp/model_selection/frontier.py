"""Pareto frontier of models: accuracy and coverage up, gaps and epsilon down."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import moocore
import numpy as np
import pandas as pd

from skfairdp.fairness.notions import NOTIONS
from skfairdp.model_selection.candidates import final_of
from skfairdp.receipts.unwrap import charges_privacy

UP = ("accuracy", "auc", "coverage", "value")
DOWN = ("gap", "epsilon", *NOTIONS)


def as_results(results: Any) -> pd.DataFrame:
    """Results in one frame, one row a model."""
    if isinstance(results, pd.DataFrame):
        frame = results.copy()
    elif hasattr(results, "to_frame"):
        frame = results.to_frame()
    elif isinstance(results, Iterable) and not isinstance(results, (str, Mapping)):
        frame = pd.DataFrame(list(results))
    else:
        raise ValueError(
            "results must be a DataFrame, a list of mappings or a Specification; got "
            f"{type(results).__name__}."
        )
    if frame.empty:
        raise ValueError("results is empty: there is no model to compare.")
    return frame


def directions(
    frame: pd.DataFrame, maximize: Iterable[str] | None, minimize: Iterable[str] | None
) -> dict[str, bool]:
    """Choose the columns to compare, and their directions; None takes those of known meaning."""
    if maximize is None:
        maximize = [name for name in frame.columns if name in UP]
    if minimize is None:
        minimize = [name for name in frame.columns if name in DOWN or str(name).startswith("gap_")]
    chosen = dict.fromkeys(maximize, True) | dict.fromkeys(minimize, False)
    if not chosen:
        raise ValueError(
            f"no column has a known meaning among {list(frame.columns)}: name some in maximize "
            "and minimize."
        )
    refuse_absent(frame, chosen)
    for name in chosen:
        values = frame[name]
        if not pd.api.types.is_numeric_dtype(values) or values.isna().any():
            raise ValueError(
                f"column {name!r} must hold a number in every row; drop or fill the others."
            )
        if name != "epsilon" and not np.isfinite(values.to_numpy(dtype=np.float64)).all():
            raise ValueError(f"column {name!r} must hold finite numbers; only epsilon may be inf.")
    return chosen


def refuse_absent(frame: pd.DataFrame, names: Iterable[str]) -> None:
    for name in names:
        if name not in frame.columns:
            raise ValueError(f"{name!r} is not a column of the results: {list(frame.columns)}.")


def measured(
    results: Any, gaps: Sequence[str] | None, values: Sequence[str] | None
) -> tuple[pd.DataFrame, list[str], list[str]]:
    """Results, their gaps and objectives; None takes columns with a known meaning."""
    frame = as_results(results)
    known = directions(frame, None, None)
    if gaps is None:
        gaps = [name for name, up in known.items() if not up and name != "epsilon"]
    if values is None:
        values = [name for name in UP if name in known]
    if not gaps or not values:
        raise ValueError(
            f"results need a gap and an accuracy; got the columns {list(frame.columns)}. Name them."
        )
    return frame, list(gaps), list(values)


def pareto_frontier(
    results: Any,
    *,
    maximize: Iterable[str] | None = None,
    minimize: Iterable[str] | None = None,
    all_ranks: bool = False,
) -> pd.DataFrame:
    """Models that no other one beats in one respect without losing in another.

    Parameters
    ----------
    results : DataFrame, iterable of mappings, or object with ``to_frame``
        One row a model.
    maximize : iterable of str, optional
        Columns of which more is better. None: those of "accuracy", "auc", "coverage" and
        "value" that are there.
    minimize : iterable of str, optional
        Columns of which less is better. None: "gap", "epsilon", names of fairness notions
        and columns that start with ``gap_``.
    all_ranks : bool, default=False
        Keep every row, in layers: rank 0 is the frontier, rank 1 what would be the
        frontier without it, and so on.

    Returns
    -------
    DataFrame
        Rows of the results with their index and a column "rank", ordered by rank and then
        by the first compared column. Of equal rows all are kept.

    Raises
    ------
    ValueError
        If the results or the columns are invalid.

    Notes
    -----
    The sorting is done by `moocore <https://multi-objective.github.io/moocore/python>`_.
    Points of a frontier are chosen by their figures: where these were measured on the rows
    that the choice was made with, they flatter, and the cost of measuring is not included.

    Examples
    --------
    >>> from skfairdp.model_selection import pareto_frontier
    >>> models = [
    ...     {"model": "a", "accuracy": 0.83, "gap": 0.02, "epsilon": 1.0},
    ...     {"model": "b", "accuracy": 0.85, "gap": 0.16, "epsilon": 1.0},
    ...     {"model": "c", "accuracy": 0.82, "gap": 0.03, "epsilon": 2.0},
    ... ]
    >>> pareto_frontier(models)["model"].tolist()
    ['b', 'a']
    """
    frame = as_results(results)
    chosen = directions(frame, maximize, minimize)
    points = frame[list(chosen)].to_numpy(dtype=np.float64)
    # An infinite epsilon is a worst value like any other.
    points = np.nan_to_num(points, posinf=np.finfo(np.float64).max / 4)
    frame["rank"] = moocore.pareto_rank(points, maximise=list(chosen.values()))
    first, up = next(iter(chosen.items()))
    frame = frame.sort_values(["rank", first], ascending=[True, not up], kind="stable")
    return frame if all_ranks else frame[frame["rank"] == 0]


def results_of_search(search: Any) -> pd.DataFrame:
    """Points of a fitted search: scores, gaps, parameters, epsilon; of a private one the best."""
    if charges_privacy(search) and hasattr(search, "best_score_"):
        point = {
            **_leaves(search.best_params_),
            search._objective: search.best_score_,
            "gap": search.best_gap_,
            "epsilon": _epsilon_of(search),
        }
        return pd.DataFrame([{key: value for key, value in point.items() if value is not None}])
    if not hasattr(search, "cv_results_"):
        raise TypeError(f"from_search takes a fitted search; got {type(search).__name__}.")
    results = search.cv_results_
    frame = pd.DataFrame([_leaves(parameters) for parameters in results["params"]])
    for key, values in results.items():
        if key.startswith("mean_test_"):
            name = key.removeprefix("mean_test_")
            # Scorers turn what should be small into what should be large.
            small = name in DOWN or name.startswith("gap_")
            frame["accuracy" if name == "score" else name] = -values if small else values
    if "epsilon" not in frame:
        frame["epsilon"] = _epsilon_of(final_of(search.best_estimator_))
    return frame


def _epsilon_of(model: Any) -> float:
    privacy = getattr(model, "privacy_", None)
    return float("inf") if privacy is None else float(privacy.epsilon)


def _leaves(parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {key.rsplit("__", 1)[-1]: value for key, value in parameters.items()}
