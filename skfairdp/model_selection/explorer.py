"""The frontier as an interactive page: one file, no network."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
import pandas as pd

from skfairdp.foundation.figures import significant_up
from skfairdp.model_selection.frontier import directions, measured, refuse_absent

INTRO = (
    "Every trained model has an accuracy, a gap between groups and a privacy loss ε (smaller is "
    "stronger). Name the ε and the gap that you accept; what remains is shown filled, and the "
    "table lists the models that no other one beats."
)
NOTES = (
    "Figures are estimates on rows that the models were not trained on, unless said otherwise. To "
    "choose by them is a choice made with those rows: certify the model that you choose on others."
)


def explorer_page(
    results: Any,
    *,
    title: str = "Privacy, fairness, accuracy",
    label: str | None = None,
    names: str | None = None,
    paths: str | None = None,
    gaps: Sequence[str] | None = None,
    values: Sequence[str] | None = None,
    notes: str = NOTES,
) -> str:
    """Write an interactive page about results.

    Parameters
    ----------
    results : DataFrame of shape (n_models, n_columns), iterable of mappings, or object with \
            ``to_frame``
        One row a model, with "epsilon" (in nats), at least one gap (a difference of rates, from
        0 to 1) and at least one of "accuracy", "auc", "coverage", "value". They are published by
        the page as they are.
    title : str, default="Privacy, fairness, accuracy"
        Heading of the page.
    label : str, optional
        Column that the marks distinguish, such as the mechanism.
    names : str, optional
        Column that names a model. None: the label and the other columns that vary. Models of
        one name get their epsilon or a number added.
    paths : str, optional
        Column that identifies the models that are points of one fit, such as those of
        `skfairdp.FairPathClassifier.at`: they are joined by a line. Missing: of none.
    gaps, values : sequence of str, optional
        Columns that hold gaps, and those to aim for. None: all with a known name.
    notes : str, optional
        What the figures rest on; plain text at the foot of the page. By default it says that they
        are estimates on rows that the models were not trained on.

    Returns
    -------
    str
        HTML without a single external reference. Sliders set the limits on epsilon and
        gap; models can be pointed at, stepped through with the arrow keys, or read in a
        table.

    Raises
    ------
    ValueError
        If a column is missing, or one of epsilon, gaps and values holds no numbers; the message
        names it.

    Examples
    --------
    >>> from skfairdp.model_selection import explorer_page
    >>> models = [
    ...     {"mechanism": "a", "accuracy": 0.83, "gap": 0.02, "epsilon": 1.0},
    ...     {"mechanism": "b", "accuracy": 0.85, "gap": 0.16, "epsilon": 0.5},
    ... ]
    >>> page = explorer_page(models, label="mechanism")
    >>> page.startswith("<!doctype html>"), "http://www.example" in page
    (True, False)
    """
    frame, gaps, values = measured(results, gaps, values)
    directions(frame, values, [*gaps, "epsilon"])
    refuse_absent(frame, (name for name in (label, names, paths) if name is not None))
    figures = [*values, *gaps, "epsilon"]
    titles = _names(frame, figures, label, paths) if names is None else _texts(frame, names)
    lines = zip(_distinct(titles, frame), _texts(frame, label), _texts(frame, paths), strict=True)
    rows = [
        {"name": title, "kind": kind, "path": path, **{n: _number(row[n]) for n in figures}}
        for (title, kind, path), (_, row) in zip(lines, frame.iterrows(), strict=True)
    ]
    data = json.dumps({"rows": rows, "gaps": list(gaps), "values": list(values)}, allow_nan=False)
    template = resources.files(__package__).joinpath("explorer.html").read_text(encoding="utf-8")
    # The script has $ in it, so only our own names are filled in.
    return Filled(template).safe_substitute(
        title=html.escape(title),
        intro=html.escape(INTRO),
        notes=html.escape(notes),
        # No text can end the script element.
        data=data.replace("<", "\\u003c"),
    )


def save_explorer(results: Any, path: str | Path, **options: Any) -> Path:
    """Save the page of `explorer_page`.

    Parameters
    ----------
    results : DataFrame, iterable of mappings, or object with ``to_frame``
        One row a model.
    path : str or Path
        The file, such as "frontier.html".
    **options : dict
        See `explorer_page`.

    Returns
    -------
    Path
    """
    target = Path(path)
    target.write_text(explorer_page(results, **options), encoding="utf-8")
    return target


class Filled(Template):
    """HTML template that is filled with exactly the four names of the page."""

    idpattern = "(?a:title|intro|notes|data)"
    flags = re.RegexFlag(0)


def _texts(frame: pd.DataFrame, name: str | None) -> list[str]:
    if name is None:
        return [""] * len(frame)
    return ["" if pd.isna(value) else str(value) for value in frame[name]]


def _distinct(names: Sequence[str], frame: pd.DataFrame) -> list[str]:
    """Distinguish models of one name by epsilon, and where that is the same, by number."""
    found = pd.Series(names)
    epsilons = [significant_up(e, 4) for e in frame["epsilon"].astype(float)]
    with_epsilon = found + ", ε " + pd.Series(epsilons)
    found = found.where(~found.duplicated(keep=False), with_epsilon)
    number = " (" + (found.groupby(found).cumcount() + 1).astype(str) + ")"
    return found.where(~found.duplicated(keep=False), found + number).tolist()


def _names(
    frame: pd.DataFrame, figures: Sequence[str], label: str | None, paths: str | None
) -> list[str]:
    """Name of each model: its label, and further settings that distinguish it."""
    others = [name for name in frame.columns if name not in (*figures, label, paths, "rank")]
    others = [name for name in others if 1 < frame[name].astype(str).nunique() <= 20]
    names = []
    for i, (_, row) in enumerate(frame.iterrows(), 1):
        parts = [] if label is None else [str(row[label])]
        for name, value in row[others].items():
            parts.append(f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}")
        names.append(", ".join(parts) or f"model {i}")
    return names


def _number(value: Any) -> float | str:
    number = float(value)
    return "inf" if np.isposinf(number) else number
