"""Held-out rows as one (group x label x prediction) table."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Hashable
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.utils import get_tags

from skfairdp.certificate.evaluation_settings import EvaluationSettings, holdout_assumptions
from skfairdp.certificate.replayed_draws import SINGLE, replayed_answers
from skfairdp.certificate.score_counts import ScoreCounts
from skfairdp.exceptions import FairnessWarning, warn_user
from skfairdp.fairness.guarantee import json_label
from skfairdp.fairness.smallest_gap import USEFUL, certifiable
from skfairdp.foundation.assumptions import (
    ANSWERS_ALIKE,
    ANSWERS_ASSUMED,
    ANSWERS_DRAWN,
    ANSWERS_ONE_BY_ONE,
    ANSWERS_REPLAYED,
)
from skfairdp.protocol import answers_of
from skfairdp.receipts.unwrap import Deployed, charges_privacy, releases_rows
from skfairdp.records.given import trained_on
from skfairdp.records.groups import Groups, encode_groups, groups_of_records, groups_of_training
from skfairdp.records.labels import count_rows, label_column, positions, take_rows
from skfairdp.records.one_column import columns_of
from skfairdp.records.persons import encode_persons

_LONG = 10.0  # seconds
_ALIKE = 1e-6  # scores that differ by less are one: blocks of other sizes round otherwise
_CALLS = 20  # a model that tosses one coin a call, for all its rows, passes with chance 2**-20


@dataclass(frozen=True, eq=False, repr=False)
class GroupedRows:
    """Rows with labels and groups as they were given, and the group code of each row."""

    X: Any
    y: Any  # None where labels are not known
    sensitive_features: Any
    groups: Groups

    def __len__(self) -> int:
        return len(self.groups.codes)

    def part(self, where: NDArray[np.int64]) -> GroupedRows:
        """Some of the rows, by their positions."""
        values = (self.X, self.y, self.sensitive_features)
        X, y, own = (None if given is None else take_rows(given, where) for given in values)
        return GroupedRows(X, y, own, replace(self.groups, codes=self.groups.codes[where]))


def one_row_each(X: Any, y: Any, sensitive_features: Any, person_ids: Any) -> tuple[Any, ...]:
    """Take one row of each person, with its label and group; several groups are refused."""
    n_rows = count_rows(X)
    persons = encode_persons(person_ids, n_rows)
    if sensitive_features is not None:
        groups = encode_groups(sensitive_features, n_rows=n_rows, on_missing="drop")
        groups_of_records(groups, persons)
    drawn = persons.same_row_each(person_ids)  # of several draws the best could be picked
    given = (X.tocsr() if hasattr(X, "tocsr") else X, y, sensitive_features)
    return tuple(part if part is None else take_rows(part, drawn) for part in given)


def refuse_training_rows(deployed: Deployed, X: Any, settings: EvaluationSettings) -> None:
    """Refuse rows that the model was trained on, among others too, where this process knows."""
    steps = [step for _, step in (*deployed.leaves(), *deployed.trained.leaves())]
    steps += [deployed.final, deployed.trained.final]
    # A step that releases rows, inside a container too, would release these once more.
    if settings.of_training or any(map(releases_rows, steps)):
        return
    try:
        transform = deployed.transform if deployed.stages else None
        known = trained_on(deployed.trained.final, X, transform)
    except Exception:  # rows that the model cannot take are refused in its own words
        known = False
    if known:
        raise ValueError(
            "The model was trained on many of these rows, so they give no bound for other people: "
            "a model is usually better on its training rows. Certify on held-out rows; or say "
            "holdout='training', with count_epsilon, for a remark on these rows without a bound."
        )


def comparable_groups(
    deployed: Deployed, X: Any, sensitive_features: Any, settings: EvaluationSettings
) -> Groups | str:
    """Sort held-out rows into the groups declared, or seen at fit; or say why not."""
    n_rows = count_rows(X)
    if sensitive_features is None:
        return "No sensitive_features were given, so nothing is claimed about groups."
    if not hasattr(deployed.final, "predict"):
        return "The model predicts nothing by itself, so no rates were compared on these rows."
    if deployed.order_dependent:
        return (
            "The answer to one row depends on the rows before it, so held-out rows bound nothing "
            "about this model, and none was asked. For a bound on what would be answered without "
            "a gate, certify the estimator inside."
        )
    fitted = getattr(deployed.final, "groups_", None)
    labels = fitted if settings.groups is None else settings.groups
    if settings.private and labels is None:
        raise ValueError(
            "count_epsilon protects the held-out rows, but the model was fitted without groups "
            "and the groups that occur among these rows are private; declare them as groups=[...]."
        )
    groups = groups_of_training(
        sensitive_features,
        n_rows,
        labels,
        on_missing="drop",
        # An error about one private row would reveal it: such rows are left out in silence. Others
        # are named where groups were declared for this claim.
        on_unknown="drop" if settings.private or settings.groups is not None else "raise",
    )
    if settings.private:  # which others occur among these rows is private
        outside = tuple(label for label in fitted or () if label not in groups.labels)
        groups = replace(groups, outside=outside)
    if not all(isinstance(label, str) and label.isascii() for label in groups.labels):
        _refuse_unwritable(groups.labels)
    if len(groups.labels) < 2:
        return "Only one group is known: no gap can be claimed."
    if settings.private and settings.public_sizes:
        found = certifiable(
            dict(zip(groups.labels, groups.counts.tolist(), strict=True)),
            USEFUL,
            confidence_level=settings.confidence_level,
            rate=0.0,  # of equal rates the one with the smallest bound
            n_claims=settings.claims,
            count_epsilon=settings.count_epsilon,
            cell_sizes=settings.cell_sizes,
        )
        if not found.possible:
            return f"No counts were bought, for equal rates would give no useful bound. {found}"
    return groups


def _refuse_unwritable(labels: tuple[Hashable, ...]) -> None:
    """Refuse groups that a certificate cannot hold, before anything is charged."""
    written = [json_label(label) for label in labels]
    try:
        texts = {json.dumps(label, allow_nan=False, ensure_ascii=False) for label in written}
        "".join(texts).encode()
    except ValueError:  # of Unicode, too
        texts = set()
    if len(texts) < len(labels):
        raise ValueError(
            f"The groups {list(labels)!a} cannot be distinguished, or not be written, in a "
            "certificate: it holds texts in Unicode, finite numbers and booleans, and turns other "
            "labels, such as dates, into texts. Give each group a text of its own."
        )


@dataclass(frozen=True, eq=False, repr=False)
class HeldOut:
    """Answers to held-out rows, and the cell of each row."""

    classes: list
    answers: NDArray[np.int64]  # positions among the classes
    cells: NDArray[np.int64]  # group times number of labels plus label; -1 outside the claim
    shape: tuple[int, int, int]  # (n_groups, n_labels, n_classes)
    how: str  # what is known about how the answers were given
    rows: GroupedRows
    turned: bool = False  # whether the model's first class comes last here

    def assumptions(self, settings: EvaluationSettings, how: str | None = None) -> tuple[str, ...]:
        """List the assumptions of a bound from these rows; `how` says how rates are counted."""
        how, labelled = self.how if how is None else how, self.rows.y is not None
        groups = self.rows.groups
        return tuple(holdout_assumptions(settings, groups, labelled, how, self.classes))

    @property
    def table(self) -> NDArray[np.int64]:
        """Counts of the answers, of the shape `shape`."""
        kept = self.cells >= 0
        flat = self.cells[kept] * self.shape[2] + self.answers[kept]
        return np.bincount(flat, minlength=math.prod(self.shape)).reshape(self.shape)

    def scores(self, deployed: Deployed, private: bool) -> ScoreCounts:
        """Count probabilities of the positive class by group and label, without noise."""

        def ask(X: Any, n_rows: int) -> NDArray[np.float64]:
            chances = _chances(deployed, X, n_rows)
            return chances[:, 0 if self.turned else 1].astype(np.float64)

        X, n_rows = self.rows.X, len(self.rows)
        positive = ask(deepcopy(X), n_rows)  # a copy, as some models change what they are given
        if not private:  # of private rows an error would reveal one
            if not np.all((positive >= -_ALIKE) & (positive <= 1.0 + _ALIKE)):
                raise ValueError(
                    "scores=True counts probabilities, but predict_proba gives some held-out rows "
                    "a missing number, or one outside of 0 to 1: leave it out."
                )
            table = X.tocsr() if hasattr(X, "tocsr") else X
            parts = np.array_split(np.arange(n_rows)[::-1], min(_CALLS, n_rows))
            asked = [ask(take_rows(table, part), len(part)) for part in parts]
            again = np.concatenate(asked)[::-1]
            if not np.allclose(positive, again, rtol=0.0, atol=_ALIKE):
                raise ValueError(
                    "scores=True needs a predict_proba whose answer to a row does not depend on "
                    "the other rows; that of this model does. Leave it out."
                )
        return ScoreCounts.of_rows(self.rows.groups.labels, self.cells, self.shape[1], positive)

    def averaged(self, scores: ArrayLike) -> NDArray[np.float64]:
        """Sum probabilities of the model's second class, one a row, in place of answers."""
        kept, n_cells = self.cells >= 0, self.shape[0] * self.shape[1]
        weights = np.clip(np.asarray(scores, dtype=np.float64), 0.0, 1.0)[kept]
        rows = np.bincount(self.cells[kept], minlength=n_cells)
        positive = np.bincount(self.cells[kept], weights=weights, minlength=n_cells)
        both = [positive, rows - positive] if self.turned else [rows - positive, positive]
        return np.stack(both, axis=-1).reshape(self.shape)


def ask_holdout(
    deployed: Deployed, rows: GroupedRows, private: bool, positive: Any = None
) -> HeldOut:
    """Let the model answer held-out rows, as it will answer those to come.

    Without labels the label axis has length 1. Private rows without a label among the classes have
    one of their own, the last: a rate that compares no labels counts them as well.
    """
    y, groups, n_rows = rows.y, rows.groups, len(rows)
    predicted, how = answers_to(deployed, rows, private)
    classes = _classes(deployed, predicted, y, private)
    turned = positive is not None and positive == classes[0]
    classes = classes[::-1] if turned else classes  # notions compare rates of the second of two
    # An answer that is no class must not take a private row out of a cell: cells may be public.
    answers = np.maximum(_codes(predicted, classes, n_rows, "predict(X)", private), 0)
    labels = np.zeros(n_rows, dtype=np.int64)
    if y is not None:
        labels = _codes(y, classes, n_rows, "y", private)
        labels = np.where(labels < 0, len(classes), labels)
    shape = (len(groups.labels), 1 if y is None else len(classes) + private, len(classes))
    cells = np.where(groups.codes >= 0, groups.codes * shape[1] + labels, -1)
    return HeldOut(classes, answers, cells, shape, how, rows, turned)


def draws_afresh(deployed: Deployed) -> bool:
    """Whether a model is known to draw anew, for each row by itself, whenever it is asked."""
    parts = [*(step for _, step in deployed.leaves()), deployed.final]
    return any(releases_rows(part) or answers_of(part)._draws_afresh for part in parts)


def answers_to(deployed: Deployed, given: GroupedRows, private: bool) -> tuple[NDArray, str]:
    """Answers, and how they were given: see docs/theory/certificate.md.

    Counts are binomial if an answer depends on its row and its own draws alone. A model that
    answers otherwise in other company and another order is asked for one row at a time, unless
    replayed random numbers show that each row has draws of its own.
    """
    X, groups, n_rows = given.X, given.sensitive_features, len(given)
    # A model that predicts with groups refuses a row without one, which must not end a claim
    # about the others, and would reveal the row where rows are private.
    known = given.groups.codes >= 0
    everybody = not deployed.group_aware or bool(known.all())
    rows = np.arange(n_rows) if everybody else np.flatnonzero(known)
    if not len(rows):
        nobody = np.asarray(getattr(deployed.final, "classes_", [0.0]))[:1]
        return np.repeat(nobody, n_rows), ANSWERS_ASSUMED

    def one_after_another(calls: int) -> NDArray[Any]:
        parts = np.array_split(rows[::-1], min(calls, len(rows)))
        return np.concatenate([deployed.predict(X, groups, part) for part in parts])[::-1]

    started = time.monotonic()
    found = deployed.predict(X, groups, None if everybody else rows)
    if draws_afresh(deployed):
        how = ANSWERS_DRAWN
    elif private:
        how = ANSWERS_ASSUMED  # asking again would reveal whether one of their rows differs
    elif np.array_equal(found, one_after_another(_CALLS)):
        how = ANSWERS_ALIKE.format(calls=_CALLS)
    else:
        asking = time.monotonic() - started
        deployed, X = deployed.after_declared_steps(X)
        replayed = replayed_answers(partial(deployed.predict, X, groups), rows, _CALLS)
        if replayed is None:
            _warn_of_waiting(len(rows), asking)
            how, found = ANSWERS_ONE_BY_ONE.format(calls=_CALLS), one_after_another(len(rows))
        else:
            how, found = ANSWERS_REPLAYED.format(single=SINGLE, calls=_CALLS), replayed
    if len(found) != len(rows) or everybody:
        return found, how
    answers = np.repeat(found[:1], n_rows)  # of others any answer: none counts
    answers[rows] = found
    return answers, how


def _warn_of_waiting(n_rows: int, seconds: float) -> None:
    """Warn where asking each row by itself takes long; `seconds`: of the calls so far."""
    expected = seconds * n_rows / _CALLS
    if expected > _LONG:
        warn_user(
            "The model answers some rows differently in other company, as one that draws does. "
            f"So each of the {n_rows} rows is asked by itself, which takes about "
            f"{expected:.0f} s. Fewer held-out rows take less, and give a wider bound.",
            FairnessWarning,
        )


def _classes(deployed: Deployed, predicted: Any, y: ArrayLike | None, private: bool) -> list:
    known = getattr(deployed.final, "classes_", None)
    if known is not None:
        return np.asarray(known).tolist()
    if private:
        raise ValueError(
            "count_epsilon protects the held-out rows, but the model has no classes_, and the "
            "labels that occur among these rows are private; certify a classifier with classes_."
        )
    given = [columns_of(values) for values in (predicted, y) if values is not None]
    return sorted({label for (column,) in given for label in column.tolist()})


def _codes(values: ArrayLike, classes: list, n_rows: int, name: str, private: bool) -> NDArray:
    """Position of each value among the classes; -1 for others, which only private rows may be."""
    codes = positions(label_column(values, n_rows, declared=True, name=name), classes)
    if not private and bool(np.any(codes < 0)):
        raise ValueError(
            f"{name} has a missing value or a label that is not among the model's classes, "
            f"{classes}; use these labels, or drop the rows with others."
        )
    return codes


def check_positive(deployed: Deployed, positive: Any) -> bool:
    """Whether the model's first class is the positive one; refuses a label of neither class."""
    if positive is None:
        return False
    classes = np.asarray(getattr(deployed.final, "classes_", ())).tolist()
    if len(classes) != 2 or positive not in classes:
        raise ValueError(f"pos_label={positive!r} must be one of two classes: {classes}.")
    return bool(positive == classes[0])


def check_answerable(
    deployed: Deployed, X: Any, y: ArrayLike | None, settings: EvaluationSettings
) -> None:
    """Refuse, before a charge, everything that an evaluation would refuse for any rows."""
    check_columns(deployed, X)
    classes: list = [0, 1]  # stand for those of a model that tells them by its answers alone
    if settings.private or getattr(deployed.final, "classes_", None) is not None:
        classes = _classes(deployed, None, y, settings.private)
        if y is not None:
            _codes(y, classes, count_rows(X), "y", settings.private)
    for notion in settings.notions:
        notion.strata(classes, with_labels=y is not None)
    if settings.scores:
        _check_scores(deployed, classes, X, y)


def _check_scores(deployed: Deployed, classes: list, X: Any, y: ArrayLike | None) -> None:
    if y is None:
        raise ValueError("scores=True compares scores with labels: pass y.")
    plain = hasattr(deployed.model, "predict_proba") and not deployed.group_aware
    if len(classes) != 2 or not plain or draws_afresh(deployed):
        raise ValueError(
            "scores=True needs a classifier of two classes whose predict_proba takes rows alone "
            "and gives the same answer to a row every time; leave it out."
        )
    few = np.arange(min(2, count_rows(X)))  # the form of their scores depends on no cell
    _chances(deployed, take_rows(X.tocsr() if hasattr(X, "tocsr") else X, few), len(few))


def _chances(deployed: Deployed, X: Any, n_rows: int) -> NDArray[Any]:
    """Probabilities of both classes; no message shows a cell or a number of rows."""
    chances = np.asarray(deployed.model.predict_proba(X))
    if chances.shape != (n_rows, 2) or chances.dtype.kind not in "biuf":
        raise ValueError(
            "scores=True needs a predict_proba that returns an array of two columns of numbers, "
            "with one line for each row."
        )
    return chances


def check_columns(deployed: Deployed, X: Any) -> None:
    first = deployed.stages[0][1] if deployed.stages else deployed.final
    try:
        shape = np.shape(X)
    except ValueError:  # rows of different lengths, which predict refuses without their number
        shape = ()
    # Steps that pick columns by name take more than they need; ours do so for ids alone.
    if not charges_privacy(first) or hasattr(first, "id_column"):
        return
    if len(shape) < 2 or (issparse(X) and not get_tags(first).input_tags.sparse):
        raise ValueError(
            "X must be a dense table, with a row for each person and a column for each feature: an "
            "array of two dimensions or a DataFrame."
        )
    if len(shape) == 2 and shape[1] != first.n_features_in_:
        raise ValueError(
            f"X has {shape[1]} features, but {type(first).__name__} was fitted with "
            f"{first.n_features_in_}; pass the columns that it was fitted with."
        )
