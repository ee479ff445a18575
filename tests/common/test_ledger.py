"""Every estimator charges a ledger once a fit, before it uses rows."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

import skfairdp
from skfairdp import FunctionalMechanismClassifier, PrivacyLedger, certify
from skfairdp.base import PrivateClassifier
from skfairdp.engine.moment_sums import MomentSums
from skfairdp.engine.release import NoisyRelease
from skfairdp.exceptions import BudgetExceededError
from skfairdp.privacy import PrivacyGuarantee
from tests.common.ledgers import EVERY, build, fitted, forbid_rows
from tests.common.roster import APART, SMOOTHED, TABLES, each, people
from tests.privacy.ledger.statements import ledger_in

every = each(EVERY)


def is_committed(entry: Any, name: str, model: Any, ordinal: int) -> None:
    assert (entry.activity, entry.state, entry.ordinal) == ("fit", "committed", ordinal)
    together = name in SMOOTHED and model.training == "together"
    assert entry.estimator == type(model.estimator if together else model).__name__
    privacy = certify(model).privacy
    assert privacy is not None
    for figure in ("epsilon", "delta", "adjacency", "protects", "event"):
        assert getattr(entry.guarantee, figure) == getattr(privacy, figure), figure


def test_a_fit_that_is_broken_off_without_a_ledger_says_what_counts_as_spent(monkeypatch) -> None:
    X, y, groups = people()
    for wrong, told in ((X, True), (X[:, :0], False)):  # before anything is charged: nothing
        with monkeypatch.context() as broken:
            broken.setattr(MomentSums, "gaussian", interrupted)
            with pytest.raises((KeyboardInterrupt, ValueError)) as caught:
                FunctionalMechanismClassifier((-6.0, 6.0)).fit(wrong, y, sensitive_features=groups)
        notes = getattr(caught.value, "__notes__", [])
        assert ["as spent on these rows" in note for note in notes] == [True] * told
        assert not told or notes[0].startswith("Count ε = ")


def interrupted(*args: Any, **kwargs: Any) -> None:
    raise KeyboardInterrupt


@every
def test_a_full_budget_refuses_before_rows_are_used(name, tmp_path, monkeypatch) -> None:
    ledger = ledger_in(tmp_path, budget=(0.5, 1e-5))
    forbid_rows(monkeypatch)
    model = build(name, ledger=ledger)
    X, y, groups = people()
    with pytest.raises(BudgetExceededError, match="'people'"):
        model.fit(X, y, sensitive_features=groups)
    assert ledger.entries() == ()
    with pytest.raises(NotFittedError):
        (model.transform if name in TABLES else model.predict)(X)
    with pytest.raises(AssertionError, match="rows were used"):  # the trap works
        build(name).fit(X, y, sensitive_features=groups)


@every
def test_a_fit_is_one_entry_with_its_guarantee_and_one_that_breaks_off_stays_charged(
    name, tmp_path, monkeypatch
) -> None:
    ledger = ledger_in(tmp_path)
    X, y, groups = people()
    model = build(name, ledger=ledger)
    with monkeypatch.context() as broken:
        forbid_rows(broken)
        with pytest.raises(AssertionError, match="rows were used"):
            model.fit(X, y, sensitive_features=groups)
    assert len(ledger) == 0
    assert [entry.state for entry in ledger.entries()] == ["reserved"]
    model.fit(X, y, sensitive_features=groups)
    broken_off, entry = ledger.entries()
    assert broken_off.state == "reserved"
    is_committed(entry, name, model, 2)


def _with(values: Any, place: Any, value: Any) -> Any:
    values = np.array(values, dtype=object if isinstance(value, str) else None)
    values[place] = value
    return values


BAD_ROWS: dict[str, Callable[[Any, Any, Any], tuple[Any, Any, Any]]] = {
    "NaN": lambda X, y, a: (_with(X, (2, 1), np.nan), y, a),
    "infinity": lambda X, y, a: (_with(X, (2, 1), np.inf), y, a),
    "text": lambda X, y, a: (_with(X, (2, 1), "secret"), y, a),
    "one dimension": lambda X, y, a: (X[:, 0], y, a),
    "no rows": lambda X, y, a: (X[:0], y[:0], a[:0]),
    "no columns": lambda X, y, a: (X[:, :0], y, a),
    "labels of other length": lambda X, y, a: (X, y[:-1], a),
    "no labels": lambda X, y, a: (X, None, a),
    "a label of its own": lambda X, y, a: (X, _with(y, 3, "perhaps"), a),
    "a missing label": lambda X, y, a: (X, _with((y == "yes").astype(float), 3, np.nan), a),
    "continuous labels": lambda X, y, a: (X, X[:, 0], a),
    "one class": lambda X, y, a: (X, np.full(len(X), "yes"), a),
    "groups of other length": lambda X, y, a: (X, y, a[:-1]),
    "groups with three dimensions": lambda X, y, a: (X, y, a.reshape(-1, 1, 1)),
    "a missing group": lambda X, y, a: (X, y, np.array([None, *a[1:]], dtype=object)),
    "one group": lambda X, y, a: (X, y, np.full(len(X), "a")),
    "a group of one": lambda X, y, a: (X, y, _with(a, 3, "c")),
    "no groups": lambda X, y, a: (X, y, None),
}
BAD_PARAMETERS: dict[str, Any] = {
    "epsilon": -1.0,
    "delta": 0.5,
    "noise_multiplier": 0.0,
    "max_grad_norm": 0.0,
    "batch_size": 10_000,
    "max_epochs": 0,
    "classes": ["yes", "yes"],
    "groups": ["a", "a"],
    "group_sizes": {"a": 3},
    "dataset_size": 1,
    "learning_rate_schedule": [0.5, -1.0],
    "net": "a net",
    "net__module__no_such_thing": 1,
    "net__optimizer__no_such_thing": 1,
    "net__lr": -1.0,
    "net__optimizer": None,
    "bounds": (2.0, 1.0),
    "bound": -1.0,
    "tolerance": 7.0,
    "notion": "kindness",
    "n_teachers": 0,
    "n_answers": -1,
    "teacher": "a teacher",
    "student": "a student",
    "random_state": "x",
    "part": "tail",
    "n_draws": 0,
    "std": -1.0,
}


def _wrong(name: str, ledger: PrivacyLedger) -> Iterator[tuple[str, Callable[[], object]]]:
    people_ = people()
    for case, change in BAD_ROWS.items():
        X, y, groups = change(*people_)
        yield case, partial(build(name, ledger=ledger).fit, X, y, sensitive_features=groups)
    X, y, groups = people_
    known = build(name).get_params()
    for parameter, value in BAD_PARAMETERS.items():
        for prefix in ("", "estimator__"):
            root = (prefix + parameter).partition("__net__")[0].removesuffix("__" + parameter)
            if prefix + parameter in known or (
                parameter.startswith("net__") and f"{prefix}net" in known and root
            ):
                model = build(name, ledger=ledger)
                yield (
                    f"{prefix}{parameter} = {value!r}",
                    lambda m=model, p=prefix + parameter, v=value: m.set_params(**{p: v}).fit(
                        X, y, sensitive_features=groups
                    ),
                )


def test_a_fit_that_charges_before_it_checks_is_found(tmp_path, monkeypatch) -> None:
    fit = FunctionalMechanismClassifier._fit

    def hasty(self: Any, given: Any, charge: Any) -> Any:
        charge(PrivacyGuarantee(1.0, 0.0, "zero-out"))
        return fit(self, given, charge)

    forbid_rows(monkeypatch)
    monkeypatch.setattr(FunctionalMechanismClassifier, "_fit", hasty)
    refused, charged = refused_and_charged("FM", ledger_in(tmp_path))
    assert len(charged) == len(refused) >= 12


def refused_and_charged(name: str, ledger: PrivacyLedger) -> tuple[list[str], list[str]]:
    """Bad input that a fit refuses before it uses rows, and that which it charges for."""
    refused, charged = [], []
    for case, fit in _wrong(name, ledger):
        before = len(ledger.entries())
        try:
            fit()
        except AssertionError:
            continue  # rows were used: it takes this input
        except Exception as error:
            refused.append(case)
            if len(ledger.entries()) > before:
                charged.append(f"{case}: {type(error).__name__}: {error}")
    return refused, charged


# One of each class at every run, its other settings where there is time.
FIRST = {type(build(name)): name for name in reversed(EVERY)}.values()


@pytest.mark.parametrize(
    "name",
    [name if name in FIRST else pytest.param(name, marks=pytest.mark.slow) for name in EVERY],
)
@pytest.mark.filterwarnings("ignore")
def test_a_refused_fit_charges_nothing(name, tmp_path, monkeypatch) -> None:
    made = NoisyRelease.__init__
    forbid_rows(monkeypatch)
    # What is still checked when the rows are at hand would be a charge for nothing.
    monkeypatch.setattr(NoisyRelease, "__init__", made)
    for method, value in vars(NoisyRelease).items():
        if callable(value) and not method.startswith("__"):
            monkeypatch.setattr(NoisyRelease, method, MomentSums.__init__)
    refused, charged = refused_and_charged(name, ledger_in(tmp_path))
    # A table takes any cells and no labels.
    assert len(refused) >= (3 if name in TABLES else 12), refused
    assert charged == []


@each(name for name in EVERY if name not in APART)
def test_repeatable_noise_is_charged_as_no_guarantee(name, tmp_path) -> None:
    ledger = ledger_in(tmp_path)
    model = fitted(name, ledger=ledger, reproducible_noise=True, random_state=0)
    assert [(entry.state, entry.ordinal) for entry in ledger.entries()] == [("committed", 1)]
    assert certify(model).privacy.is_void
    assert ledger.totals()[0].is_void


def test_every_public_estimator_takes_a_ledger_itself_or_inside() -> None:
    for name in skfairdp.__all__:
        value = getattr(skfairdp, name)
        if not (isinstance(value, type) and issubclass(value, PrivateClassifier)):
            continue
        takes = "ledger" in value._get_param_names()
        # Post-processing leaves the charge to the estimator inside.
        assert takes != (value._post_processes is not None), name
        signature = inspect.signature(value)
        assert not takes or signature.parameters["ledger"].default is None
        assert not takes or "ledger : None, path or PrivacyLedger" in (value.__doc__ or ""), name
        assert not takes or "ledger" in value._parameters, name
