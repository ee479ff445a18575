"""No message tells of a row: bad rows and settings at every door, and what is said about them.

Whether rows are accepted is assumed public (`VALIDATION`, printed with every guarantee); a
cell, a label or group that nobody declared, the place of a row and the number of rows are not.
"""

from __future__ import annotations

import datetime
import decimal
import logging
import re
import traceback
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from scipy.sparse import csr_array
from skorch import NeuralNet
from skorch.callbacks import LRScheduler
from torch import nn

import skfairdp
from skfairdp import (
    AbstainingClassifier,
    DPSGDClassifier,
    FairDPClassifier,
    FairPATEClassifier,
    LaplaceTransformer,
    PATEClassifier,
    PrivateFairEncoder,
    RateConstrainedClassifier,
    SFPATEClassifier,
    certifiable,
    certify,
    default_net,
)
from skfairdp.comparators import (
    CFAIREncoder,
    FFVAEEncoder,
    LAFTREncoder,
    VFAEEncoder,
)
from skfairdp.engine import inspection
from skfairdp.foundation.assumptions import VALIDATION
from skfairdp.inprocessing.public_parity import PublicParity
from skfairdp.metrics import fairness_report, group_gap
from skfairdp.model_selection import PrivateSearchCV
from skfairdp.preprocessing import PublicEncoder, PublicScaler
from skfairdp.receipts import Charge
from skfairdp.records import rows
from tests.common.ledgers import EVERY, build
from tests.common.roster import FAST, FIRST, SMOOTHED, VOTING, each, people
from tests.privacy.ledger.statements import ledger_in

N, ROW = 307, 211  # neither may show
CELL, TEXT, GROUP = 31337.125, "secret-42", "rare-group-77"
SHOWS = re.compile(r"31337|3\.1337|secret|rare-group|\b30[67]\b|\b211\b")

Parts = tuple[Any, Any, Any]


def private_rows() -> Parts:
    """Rows whose every cell of column 2 is the marked one, and the place of the bad row."""
    X, y, groups = people(N)
    X[:, 2] = CELL
    return X, y, groups.astype(object)


class NoNumber:
    def __repr__(self) -> str:
        return TEXT

    def __float__(self) -> float:
        raise RuntimeError(TEXT)


def cell(value: Any) -> Callable[[Parts], Parts]:
    def change(parts: Parts) -> Parts:
        X, y, groups = parts
        X = X.astype(float if isinstance(value, float) else object)
        X[ROW, 1] = value
        return X, y, groups

    return change


def label(value: Any) -> Callable[[Parts], Parts]:
    def change(parts: Parts) -> Parts:
        y = parts[1].astype(object)
        y[ROW] = value
        return parts[0], y, parts[2]

    return change


def group(value: Any) -> Callable[[Parts], Parts]:
    def change(parts: Parts) -> Parts:
        groups = parts[2].copy()
        groups[ROW] = value
        return parts[0], parts[1], groups

    return change


def features(make: Callable[[Any], Any]) -> Callable[[Parts], Parts]:
    return lambda parts: (make(parts[0]), *parts[1:])


def labels(make: Callable[[Any], Any]) -> Callable[[Parts], Parts]:
    return lambda parts: (parts[0], make(parts[1]), parts[2])


def grouped(make: Callable[[Any], Any]) -> Callable[[Parts], Parts]:
    return lambda parts: (*parts[:2], make(parts[2]))


def first(n: int) -> Callable[[Parts], Parts]:
    return lambda parts: tuple(part[:n] for part in parts)


def frame(X: Any) -> pd.DataFrame:
    return pd.DataFrame(X, columns=list("pqrs"))


DATE = np.datetime64("2020-01-01")
BAD_FEATURES = {
    "NaN": cell(np.nan),
    "infinity": cell(-np.inf),
    "huge": cell(CELL * 1e30),
    "integer beyond floats": cell(10**400),
    "text": cell(TEXT),
    "bytes": cell(TEXT.encode()),
    "None": cell(None),
    "pd.NA": cell(pd.NA),
    "list": cell([TEXT]),
    "dict": cell({TEXT: 1}),
    "complex number": cell(CELL + 1j),
    "date": cell(datetime.date(2020, 1, 1)),
    "decimal": cell(decimal.Decimal("sNaN")),
    "no number": cell(NoNumber()),
    "dates": features(lambda X: np.full(X.shape, DATE)),
    "complex": features(lambda X: X + 1j),
    "text array": features(lambda X: np.full(X.shape, TEXT)),
    "bytes array": features(lambda X: np.full(X.shape, TEXT.encode())),
    "one dimension": features(lambda X: X[:, 2]),
    "a single number": features(lambda X: CELL),
    "a text": features(lambda X: TEXT),
    "no X": features(lambda X: None),
    "a mapping": features(lambda X: {TEXT: X}),
    "three dimensions": features(lambda X: X[:, :, None]),
    "ragged": features(lambda X: [*X.tolist()[:-1], [CELL]]),
    "no column": features(lambda X: X[:, :0]),
    "sparse": features(csr_array),
    "a column of text": features(lambda X: frame(X).assign(job=TEXT)),
    "a column of dates": features(lambda X: frame(X).assign(day=DATE)),
    "categories": features(lambda X: frame(X).assign(job=pd.Categorical([TEXT] * len(X)))),
    "nullable": features(lambda X: frame(X).assign(p=pd.array([pd.NA] * len(X), dtype="Int64"))),
    "two columns of a name": features(lambda X: pd.DataFrame(X, columns=["p", "p", "q", "r"])),
    "names of two kinds": features(lambda X: pd.DataFrame(X, columns=["p", 1, "q", "r"])),
    "a series": features(lambda X: pd.Series(X[:, 2])),
    "no rows": first(0),
    "one row": first(1),
}
BAD_LABELS = {
    "no y": labels(lambda y: None),
    "y too short": labels(lambda y: y[:-1]),
    "y a text": labels(lambda y: TEXT),
    "y a number": labels(lambda y: CELL),
    "y a table": labels(lambda y: np.column_stack([y, y])),
    "y ragged": labels(lambda y: [[1], *y.tolist()[1:]]),
    "y sparse": labels(lambda y: csr_array((y == "yes").astype(float)[:, None])),
    "y continuous": labels(lambda y: np.full(len(y), CELL) + np.arange(len(y)) / 7),
    "y complex": labels(lambda y: (y == "yes") + 1j),
    "y dates": labels(lambda y: np.where(y == "yes", DATE, DATE + 1)),
    "y bytes": labels(lambda y: np.array([TEXT.encode(), b"no"])[(y == "yes").astype(int)]),
    "y one class": labels(lambda y: np.full(len(y), TEXT)),
    "y infinite": labels(lambda y: np.where(y == "yes", np.inf, 0.0)),
    "label None": label(None),
    "label NaN": label(np.nan),
    "label pd.NA": label(pd.NA),
    "label list": label([TEXT]),
    "label number": label(31337),
    "label of a third kind": label(datetime.date(2020, 1, 1)),
}
BAD_GROUPS = {
    "groups too short": grouped(lambda a: a[:-1]),
    "groups a text": grouped(lambda a: TEXT),
    "groups a number": grouped(lambda a: CELL),
    "groups of three dimensions": grouped(lambda a: a.reshape(-1, 1, 1)),
    "groups without a column": grouped(lambda a: np.empty((len(a), 0))),
    "groups sparse": grouped(lambda a: csr_array((a == "a").astype(float)[:, None])),
    "one group": grouped(lambda a: np.full(len(a), GROUP)),
    "group None": group(None),
    "group NaN": group(np.nan),
    "group pd.NA": group(pd.NA),
    "group list": group([GROUP]),
    "group dict": group({GROUP: 1}),
    "all groups missing": grouped(lambda a: np.full(len(a), None)),
}
BAD = {**BAD_FEATURES, **BAD_LABELS, **BAD_GROUPS}


class ReachedTheChargeError(BaseException):
    """The rows were accepted; no message can come from training them."""


@pytest.fixture
def stop_at_the_charge(monkeypatch: pytest.MonkeyPatch) -> None:
    def charge(self: Any, promised: Any) -> None:
        raise ReachedTheChargeError

    monkeypatch.setattr(Charge, "__call__", charge)


@pytest.fixture
def everything_said(
    capfd: pytest.CaptureFixture[str], logged: list[logging.LogRecord]
) -> Iterator[Callable[[BaseException | None], str]]:
    """All that was said since, with the whole chain of an exception."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")

        def said(error: BaseException | None) -> str:
            told = [str(each.message) for each in caught]
            told += [record.getMessage() for record in logged]
            told += [*capfd.readouterr(), *chain(error)]
            caught.clear()
            logged.clear()
            return "\n".join(told)

        yield said


def chain(error: BaseException | None) -> Iterator[str]:
    """Every message that hangs on an exception, also what ``from None`` only hides."""
    seen: list[BaseException | None] = [error]
    while seen:
        one = seen.pop()
        if one is not None:
            yield " ".join([str(one), repr(one.args), *getattr(one, "__notes__", ())])
            seen += [one.__cause__, one.__context__]


def complaints(
    fit: Callable[[Any, Any, Any], Any],
    bad: dict[str, Callable[[Parts], Parts]],
    said: Callable[[BaseException | None], str],
    model: Any = None,
) -> Iterator[str]:
    """What is wrong about how a door takes bad rows."""
    said(None)
    for case, change in bad.items():
        parts = change(private_rows())
        error: BaseException | None = None
        try:
            fit(*parts)
        except (ReachedTheChargeError, Exception) as caught:
            error = caught
        text = said(error)
        if found := SHOWS.search(text):
            yield f"{case}: shows {found[0]!r} in: {text[:300]}"
        if error is None or isinstance(error, ReachedTheChargeError):
            continue
        *_, (deepest, _) = traceback.walk_tb(error.__traceback__)
        where = deepest.f_code.co_filename
        if not isinstance(error, ValueError | TypeError) or "skfairdp" not in where:
            yield f"{case}: {type(error).__name__} from {where}: {str(error)[:200]}"
        kept = [name for name in attributes(model) if name.endswith("_") and name[0] != "_"]
        if kept:
            yield f"{case}: half-fitted, with {kept}"


def assert_quiet(found: Iterator[str]) -> None:
    lines = list(found)
    assert not lines, "\n".join(lines)


def slowly(names: Iterable[str], *long: str) -> list[Any]:
    """Names of settings, of which some are left to the slow tests."""
    return [pytest.param(n, marks=pytest.mark.slow) if n in long else n for n in names]


def attributes(model: Any) -> dict[str, Any]:
    return getattr(model, "__dict__", {})


def without_noise(name: str) -> Any:
    """An estimator of the roster that needs no accounting: the checks of rows are the same."""
    model = build(name)
    key = "estimator__epsilon" if name in SMOOTHED else "epsilon"
    return model.set_params(**{key: float("inf")}) if key in model.get_params() else model


DECLARED: dict[str, Any] = {"dataset_size": 300, "classes": ["no", "yes"]}
FREE: dict[str, Any] = {**FAST, "epsilon": float("inf")}
SIZES: dict[str, Any] = {"group_sizes": {"a": 200, "b": 100}, "classes": ["no", "yes"]}
OTHERS: dict[str, Callable[[], Any]] = {
    "DP-SGD, all declared": lambda: DPSGDClassifier(**DECLARED, **FREE),
    "FairDP, all declared": lambda: FairDPClassifier(**SIZES, **FREE),
    "rate constraints, all declared": lambda: RateConstrainedClassifier(
        groups=["a", "b"], **DECLARED, **FREE
    ),
    "encoder": lambda: PrivateFairEncoder(max_epochs=1, epsilon=float("inf")),
    "encoder, declared": lambda: PrivateFairEncoder(max_epochs=1, classes=["no", "yes"]),
    "abstaining": lambda: AbstainingClassifier(DPSGDClassifier(**FREE)),
    "abstaining, declared": lambda: AbstainingClassifier(
        DPSGDClassifier(**FREE), groups=["a", "b"]
    ),
    "search": lambda: PrivateSearchCV(
        DPSGDClassifier(**FAST), {"max_grad_norm": [0.5, 1.0]}, epsilon=float("inf"), n_iter=2
    ),
}
VOTES: dict[str, Any] = {"n_teachers": 5, "epsilon": float("inf"), "progress": False}
OTHERS |= {
    "PATE": lambda: PATEClassifier(**VOTES),
    "PATE, declared": lambda: PATEClassifier(**VOTES, **DECLARED),
    "FairPATE": lambda: FairPATEClassifier(tolerance=0.2, cold_start=5, **VOTES),
    "SF-PATE, fair student": lambda: SFPATEClassifier(**VOTES),
    "SF-PATE, fair teachers": lambda: SFPATEClassifier(variant="fair_teachers", **VOTES),
    "SF-PATE, declared": lambda: SFPATEClassifier(
        variant="fair_teachers", groups=["a", "b"], **VOTES, **DECLARED
    ),
}
TRANSFORMERS: dict[str, Callable[[], Any]] = {
    "scaler": lambda: PublicScaler((-2, 2)),
    "scaler by position": lambda: PublicScaler({0: (-2, 2), 1: (-2, 2)}, fill=0.0),
    "scaler by name": lambda: PublicScaler({"p": (-2, 2), "q": (0, 1)}),
    "encoder of nothing": lambda: PublicEncoder({}),
    "encoder by position": lambda: PublicEncoder({1: [0, 1]}, handle_unknown="error"),
    "encoder by name": lambda: PublicEncoder({"p": [0, 1]}),
    "noise": lambda: LaplaceTransformer(epsilon=float("inf")),
}
BASELINES = {
    "LAFTR": LAFTREncoder,
    "CFair": CFAIREncoder,
    "FFVAE": FFVAEEncoder,
    "VFAE": VFAEEncoder,
}


# The public rows of those that learn from votes; here no row is both.
PUBLIC: dict[str, Any] = {"X_public": np.zeros((20, 4))}
AS_PUBLIC: dict[str, dict[str, Any]] = {
    "PATE": PUBLIC,
    "PATE, declared": PUBLIC,
    "FairPATE": {**PUBLIC, "sensitive_features_public": ["a", "b"] * 10},
    "SF-PATE, fair student": {**PUBLIC, "y_public": ["no", "yes"] * 10},
    "SF-PATE, fair teachers": PUBLIC,
    "SF-PATE, declared": PUBLIC,
}


# Other settings of a class have its doors.
LONGER = [name for name in EVERY if name not in FIRST]


@pytest.mark.parametrize(
    "name", slowly([*(name for name in EVERY if name not in VOTING), *OTHERS], *LONGER)
)
@pytest.mark.usefixtures("stop_at_the_charge")
def test_fits_say_nothing_of_a_row(name: str, everything_said: Any) -> None:
    model = OTHERS[name]() if name in OTHERS else without_noise(name)
    public = AS_PUBLIC.get(name, {})

    def fit(X: Any, y: Any, groups: Any) -> None:
        model.fit(X, y, sensitive_features=groups, **public)

    assert_quiet(complaints(fit, BAD, everything_said, model))


@pytest.mark.parametrize("name", BASELINES)
def test_baselines_say_nothing_of_a_row(name: str, everything_said: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(BASELINES[name], "_train", lambda *_: None)
    model = BASELINES[name]()

    def fit(X: Any, y: Any, groups: Any) -> None:
        model.fit(X, y, sensitive_features=groups)
        model._forget()

    assert_quiet(complaints(fit, BAD, everything_said, model))


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_transformers_say_nothing_of_a_row(name: str, everything_said: Any) -> None:
    model, other = TRANSFORMERS[name](), TRANSFORMERS[name]()
    X = np.zeros((4, 4))
    other.fit(frame(X) if "name" in name else X)

    def fit(X: Any, y: Any, groups: Any) -> None:
        model.fit(X)
        model.__dict__.pop("n_features_in_")
        model.__dict__.pop("feature_names_in_", None)

    def transform(X: Any, y: Any, groups: Any) -> None:
        other.transform(X)

    named = {
        case: (lambda parts, change=change: features(_named)(change(parts)))
        for case, change in BAD_FEATURES.items()
    }
    bad = {**BAD_FEATURES, **{f"{case}, named": change for case, change in named.items()}}
    assert_quiet(complaints(fit, bad, everything_said, model))
    assert_quiet(complaints(transform, bad, everything_said))


def _named(X: Any) -> Any:
    table = isinstance(X, np.ndarray) and X.ndim == 2 and X.shape[1] == 4
    return frame(X) if table else X


@pytest.fixture(scope="module")
def fitted() -> dict[str, Any]:
    X, y, groups = people()
    free: dict[str, Any] = {**FAST, "epsilon": float("inf")}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        models = {
            "DP-SGD": DPSGDClassifier(**free),
            "FairDP, one head drawn": FairDPClassifier(n_heads=3, prediction="gibbs", **free),
            "FM": build("FM", epsilon=float("inf")),
            "PATE": build("PATE", epsilon=float("inf")),
            "randomised attribute": build("randomised attribute, two steps"),
            "smoothed": build("DPSGD-Smooth", estimator__epsilon=float("inf")),
            "abstaining": AbstainingClassifier(DPSGDClassifier(**free)),
        }
        return {name: model.fit(X, y, sensitive_features=groups) for name, model in models.items()}


@pytest.mark.parametrize(
    "name",
    ["DP-SGD", "FairDP, one head drawn", "FM", "PATE", "randomised attribute", "smoothed"],
)
def test_predictions_say_nothing_of_a_row(name: str, fitted: Any, everything_said: Any) -> None:
    model = fitted[name]
    wants_groups = name == "randomised attribute"
    for method in ("predict", "predict_proba"):

        def ask(X: Any, y: Any, groups: Any, method: str = method) -> None:
            given = {"sensitive_features": groups} if wants_groups else {}
            getattr(model, method)(X, **given)

        bad = {**BAD_FEATURES, **BAD_GROUPS} if wants_groups else BAD_FEATURES
        assert_quiet(complaints(ask, bad, everything_said))


@pytest.mark.parametrize("name", ["DP-SGD", "randomised attribute", "abstaining"])
@pytest.mark.parametrize("count_epsilon", [None, pytest.param(1.0, marks=pytest.mark.slow)])
def test_certificates_say_nothing_of_a_row(
    name: str, count_epsilon: float | None, fitted: Any, everything_said: Any
) -> None:
    def ask(X: Any, y: Any, groups: Any) -> None:
        certify(
            fitted[name],
            X,
            y,
            sensitive_features=groups,
            notion="equalized_odds",
            count_epsilon=count_epsilon,
            holdout="by_index" if count_epsilon else "public",
        )

    # The number of held-out rows is a part of a certificate.
    bad = {case: change for case, change in BAD.items() if case != "no rows"}
    assert_quiet(complaints(ask, bad, everything_said))


@pytest.mark.parametrize("measure", [group_gap, fairness_report])
def test_metrics_say_nothing_of_a_row(measure: Any, everything_said: Any) -> None:
    def ask(X: Any, y: Any, groups: Any) -> None:
        measure(y, y, sensitive_features=groups)

    bad = {**BAD_LABELS, **BAD_GROUPS}
    del bad["y continuous"]  # many classes, which it compares one by one
    assert_quiet(complaints(ask, bad, everything_said))


SECRET = "Ms Doe"
ROWS = pd.DataFrame({"name": [SECRET] * 30, "income": np.arange(30.0)})


@pytest.mark.parametrize(
    "given",
    [
        ROWS,
        ROWS["name"],
        ROWS["name"].to_numpy(),
        ROWS["name"].tolist(),
        {"a": ROWS["name"]},
        pa.array(ROWS["name"]),
        deque(ROWS["name"]),
        ROWS.to_csv(),
    ],
    ids=["table", "column", "array", "list", "mapping", "Arrow", "deque", "text"],
)
def test_rows_in_the_place_of_a_setting_are_not_quoted(given: Any) -> None:
    X, y = np.arange(60.0).reshape(30, 2) / 60, np.tile([0, 1], 15)
    doors: list[Callable[[], Any]] = [
        lambda: DPSGDClassifier(epsilon=given).fit(X, y),
        lambda: DPSGDClassifier(classes=given).fit(X, y),
        lambda: DPSGDClassifier().quote(n_rows=given),
        lambda: DPSGDClassifier().quote(n_rows=60, n_features=given),
        lambda: FairDPClassifier().quote(groups={"a": given, "b": 3}),
        lambda: certifiable([30, 30], given),
    ]
    for door in doors:
        with pytest.raises((ValueError, TypeError)) as caught:
            door()
        said = "".join(traceback.format_exception(caught.value))
        assert SECRET not in said
        assert len(str(caught.value)) < 600


def test_the_checks_of_this_page_notice_a_quoted_cell(
    everything_said: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "_without_rows", lambda error: error)
    model = DPSGDClassifier(**FREE)

    def fit(X: Any, y: Any, groups: Any) -> None:
        model.fit(X, y, sensitive_features=groups)

    found = list(complaints(fit, {"text": cell(TEXT)}, everything_said, model))
    assert any("shows 'secret'" in line for line in found)

    def hides(X: Any, y: Any, groups: Any) -> None:
        try:
            float(TEXT)
        except ValueError:
            raise ValueError("'X' holds text") from None

    found = list(complaints(hides, {"text": cell(TEXT)}, everything_said))
    assert any("shows 'secret'" in line for line in found), "the chain behind `from None` counts"


# -- one row in no declared group, or of no declared class, is as good as absent ----------

NOBODY = {
    "unlisted": GROUP,
    "None": None,
    "NaN": float("nan"),
    "pd.NA": pd.NA,
    "list": [GROUP],
    "number": 31337,
    "tuple": ("a", "b"),
}
REPEATABLE: dict[str, Any] = {"random_state": 0, "reproducible_noise": True}
TELL_GROUPS = {
    "FairDP": lambda: FairDPClassifier(**SIZES, **FAST, **REPEATABLE),
    "rate constraints": lambda: build("rate constraints", groups=["a", "b"], **REPEATABLE),
    "PF-LD": lambda: build("PF-LD", groups=["a", "b"], **REPEATABLE),
    "FairFM": lambda: build("FairFM", group_sizes={"a": 200, "b": 100}, **REPEATABLE),
    "SF-PATE": lambda: build(
        "SF-PATE, fair teachers", groups=["a", "b"], n_teachers=10, **REPEATABLE
    ),
    "thinning": lambda: build(
        "thinning before FairDP",
        groups=["a", "b"],
        estimator__random_state=0,
        estimator__reproducible_noise=True,
        **REPEATABLE,
    ),
    "randomised attribute": lambda: build("randomised attribute", groups=["a", "b"], **REPEATABLE),
    "FairSmooth": lambda: build(
        "FairSmooth of FM",
        group_sizes={"a": 200, "b": 100},
        random_state=0,
        estimator__reproducible_noise=True,
        estimator__random_state=0,
    ),
}
TELL_CLASSES = {
    "DP-SGD": lambda: DPSGDClassifier(**DECLARED, **FAST, **REPEATABLE),
    "FM": lambda: build("FM", **DECLARED, **REPEATABLE),
    "PATE": lambda: build("PATE", classes=["no", "yes"], n_teachers=10, **REPEATABLE),
    "PF-LD": lambda: build("PF-LD", classes=["no", "yes"], **REPEATABLE),
    "thinning": lambda: build(
        "thinning before DP-SGD",
        classes=["no", "yes"],
        estimator__random_state=0,
        estimator__reproducible_noise=True,
        **REPEATABLE,
    ),
    "DPSGD-Smooth": lambda: build(
        "DPSGD-Smooth",
        random_state=0,
        estimator__classes=["no", "yes"],
        estimator__random_state=0,
        estimator__reproducible_noise=True,
    ),
}


@pytest.mark.parametrize("name", slowly(TELL_GROUPS, "SF-PATE", "randomised attribute"))
def test_rows_of_no_declared_group_are_all_alike(name: str) -> None:
    X, y, groups = people()
    answers = []
    for value in NOBODY.values():
        told = groups.astype(object)
        told[200] = value
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = TELL_GROUPS[name]().fit(X, y, sensitive_features=told)
        assert model.groups_ == ("a", "b")
        answers.append(model.predict_proba(X))
    assert all(np.array_equal(answers[0], answer) for answer in answers)


@pytest.mark.parametrize("name", slowly(TELL_CLASSES, "PATE", "PF-LD"))
def test_rows_of_no_declared_class_are_all_alike(name: str) -> None:
    X, y, groups = people()
    answers = []
    for value in NOBODY.values():
        told = y.astype(object)
        told[200] = value
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = TELL_CLASSES[name]().fit(X, told, sensitive_features=groups)
        assert model.classes_.tolist() == ["no", "yes"]
        answers.append(model.predict_proba(X))
    assert all(np.array_equal(answers[0], answer) for answer in answers)
    other = TELL_CLASSES[name]
    told[200] = "no"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        counted = other().fit(X, told, sensitive_features=groups).predict_proba(X)
    if name != "PATE":  # one row seldom changes a noisy vote
        assert not np.array_equal(answers[0], counted), "the row would matter if it counted"


# -- settings are refused before anything is charged -------------------------------------


class Codes(nn.Module):
    """Takes codes from 0 to 9."""

    def __init__(self, n_features: int, n_outputs: int = 1) -> None:
        super().__init__()
        self.table = nn.Embedding(10, 4)
        self.head = nn.Linear(4 * n_features, n_outputs)

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        return self.head(self.table(X.long()).flatten(1))


class TwoTensors(nn.Module):
    """Returns a pair."""

    def __init__(self, n_features: int) -> None:
        super().__init__()
        self.head = nn.Linear(n_features, 1)

    def forward(self, X: torch.Tensor) -> Any:
        return self.head(X), X


class NeedsMore(TwoTensors):
    """Wants a second argument."""

    def forward(self, X: torch.Tensor, more: torch.Tensor) -> Any:
        return self.head(X) + more


def net(module: Any, **settings: Any) -> NeuralNet:
    return NeuralNet(
        module, criterion=nn.BCEWithLogitsLoss, train_split=None, callbacks=None
    ).set_params(**settings)


def wide(**settings: Any) -> NeuralNet:
    return default_net().set_params(criterion=nn.CrossEntropyLoss, **settings)


THREE = {"classes": ["no", "perhaps", "yes"]}
UNFIT: dict[str, tuple[Any, dict[str, Any], str]] = {
    "fewer outputs than classes": (
        DPSGDClassifier,
        {"net": wide(module__n_outputs=2), **THREE},
        r"outputs of shape \(2,\) a row, but there are 3 classes",
    ),
    "more outputs than classes": (
        DPSGDClassifier,
        {"net": wide(module__n_outputs=4)},
        r"outputs of shape \(4,\) a row, but there are 2 classes",
    ),
    "two logits for one": (
        DPSGDClassifier,
        {"net": default_net().set_params(module__n_outputs=2)},
        "with one logit a row",
    ),
    "a pair of outputs": (DPSGDClassifier, {"net": net(TwoTensors)}, "returns tuple"),
    "another argument": (DPSGDClassifier, {"net": net(NeedsMore)}, "fails on 2 rows of zeros"),
    "a wrong width": (
        DPSGDClassifier,
        {"net": default_net().set_params(module__n_features=9)},
        "fails on 2 rows of zeros",
    ),
    "codes beyond the embedding": (
        DPSGDClassifier,
        {"net": net(Codes)},
        "not all rows of 'X'. Codes for an Embedding",
    ),
    "schedule": (
        DPSGDClassifier,
        {"learning_rate_schedule": [(2.0, 1.0)]},
        "'learning_rate_schedule' must be",
    ),
    "policy": (
        DPSGDClassifier,
        {"net": default_net().set_params(callbacks=[LRScheduler("StepLR", step_size="x")])},
        ".",
    ),
    "optimizer": (
        DPSGDClassifier,
        {"net": default_net().set_params(optimizer=torch.optim.LBFGS)},
        "optimizer LBFGS, which takes no step",
    ),
    "public rows of another width": (
        DPSGDClassifier,
        {"public_parity": PublicParity(np.zeros((4, 9)), ["a", "b"] * 2)},
        "'X_public' of PublicParity has rows of shape",
    ),
    "no such head": (FairDPClassifier, {"head": "tail"}, "has no layer 'tail'"),
    "noise far too small": (
        DPSGDClassifier,
        {"epsilon": None, "noise_multiplier": 1e-160},
        "'noise_multiplier' .* >= 0.01",
    ),
    "noise far too large": (
        DPSGDClassifier,
        {"epsilon": None, "noise_multiplier": 1e200},
        "'noise_multiplier' .* <= 1e",
    ),
    "clipping to nothing": (DPSGDClassifier, {"max_grad_norm": 1e-40}, "'max_grad_norm' .* >= 1e"),
    "no clipping": (DPSGDClassifier, {"max_grad_norm": 1e300}, "'max_grad_norm' .* <= 1e"),
    "epsilon beyond floats": (DPSGDClassifier, {"epsilon": 10**400}, "."),
    "size beyond people": (DPSGDClassifier, {"dataset_size": 10**30}, "'dataset_size' .* <= 1e"),
    "size beyond floats": (DPSGDClassifier, {"dataset_size": 10**400}, "'dataset_size' .* <= 1e"),
    "steps without end": (DPSGDClassifier, {"max_epochs": 10**30}, "'max_epochs' .* steps"),
    "group size beyond people": (
        FairDPClassifier,
        {"group_sizes": {"a": 10**30, "b": 3}},
        "'group_sizes' must map every group to an integer >= 1 and <= 1e",
    ),
    "size of nobody's group": (
        FairDPClassifier,
        {"group_sizes": {"a": 200, np.float32("nan"): 3}},
        "'group_sizes' names a missing value",
    ),
    "class None": (DPSGDClassifier, {"classes": ["no", None]}, "'classes' parameter"),
    "class NaN": (DPSGDClassifier, {"classes": [0.0, np.nan]}, "'classes' parameter"),
    "classes of two kinds": (DPSGDClassifier, {"classes": ["no", 1]}, "'classes' parameter"),
    "classes nested": (DPSGDClassifier, {"classes": [["no"], ["yes"]]}, "'classes' parameter"),
    "class of bytes": (DPSGDClassifier, {"classes": [b"no", b"yes"]}, "'classes' parameter"),
    "classes in a table": (DPSGDClassifier, {"classes": np.eye(2)}, "'classes' parameter"),
    "group None": (RateConstrainedClassifier, {"groups": ["a", None]}, "'groups' parameter"),
    "group list": (RateConstrainedClassifier, {"groups": ["a", ["b"]]}, "'groups' parameter"),
}


@pytest.mark.parametrize("case", UNFIT)
def test_settings_are_refused_before_anything_is_charged(case: str, tmp_path: Any) -> None:
    kind, settings, message = UNFIT[case]
    X, y, groups = people()
    ledger = ledger_in(tmp_path)
    model = kind(**{**FAST, "delta": 1e-6, "ledger": ledger, **settings})
    X = X + 20.0  # codes beyond ten
    with pytest.raises((ValueError, TypeError), match=message) as caught:
        model.fit(X, y, sensitive_features=groups)
    assert ledger.entries() == ()
    where = traceback.extract_tb(caught.value.__traceback__)[-1].filename
    assert message == "." or "skfairdp" in where
    assert not [name for name in attributes(model) if name.endswith("_")]


def test_a_check_that_is_left_out_is_noticed(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inspection, "refuse_wrong_outputs", lambda *_: None)
    X, y, _ = people()
    ledger = ledger_in(tmp_path)
    model = DPSGDClassifier(wide(module__n_outputs=1), **FAST, ledger=ledger)
    with pytest.raises(Exception, match="."):
        model.fit(X, y)
    assert len(ledger.entries()) == 1, "charged, then failed"


def test_numpy_sizes_and_labels_are_as_good_as_python_ones() -> None:
    X, y, groups = people()
    codes = (groups == "b").astype(np.int32)
    sizes = {np.int64(0): np.int32(200), np.int64(1): np.uint8(100)}
    model = FairDPClassifier(group_sizes=sizes, classes=np.array(["no", "yes"]), **FREE)
    with pytest.warns(skfairdp.exceptions.PrivacyWarning):
        model.fit(X, y, sensitive_features=codes)
    assert model.groups_ == (0, 1)
    assert [type(label) for label in model.groups_] == [int, int]


@each(n for n in EVERY if n != "covariance, not private")
def test_every_guarantee_prints_the_assumption(name: str, monkeypatch: Any) -> None:
    X, y, groups = people()
    stated = []

    def charge(self: Any, promise: Any) -> None:
        stated.append(promise)
        raise ReachedTheChargeError

    monkeypatch.setattr(Charge, "__call__", charge)
    with pytest.raises(ReachedTheChargeError):
        build(name).fit(X, y, sensitive_features=groups)
    assert stated[0].assumptions.count(VALIDATION) == 1
