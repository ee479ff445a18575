"""A table and a classifier are one plan for a ledger: checked before it, and charged together."""

from __future__ import annotations

import math
import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from dp_accounting.dp_event import GaussianDpEvent
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline

from skfairdp import (
    DPAdditiveClassifier,
    DPSGDClassifier,
    FairPathClassifier,
    FunctionalMechanismClassifier,
    PrivacyLedger,
    PrivateTableEncoder,
    certify,
    quote,
)
from skfairdp.exceptions import BudgetExceededError
from skfairdp.foundation.assumptions import ALONE, AS_TORCH_MULTIPLIES, EXACTLY
from skfairdp.model_selection import PrivateSearchCV, fit_within
from skfairdp.preprocessing import PublicEncoder
from skfairdp.privacy import PrivacyGuarantee
from skfairdp.privacy.ledger.filter import filtered_epsilon
from skfairdp.privacy.ledger.totals import Budget, covered
from tests.stored import ArrayRows

N = 1200
RNG = np.random.default_rng(0)
ROWS = pd.DataFrame({"income": RNG.normal(size=N), "city": RNG.choice(["Oslo", "Bonn"], N)})
Y = np.where(ROWS["income"] + RNG.normal(size=N) > 0, "yes", "no")
GROUPS = ROWS["city"]


def steps(ledger: PrivacyLedger, final: type = DPSGDClassifier, **settings: Any) -> Pipeline:
    settings = {"ledger": ledger, **settings}
    return make_pipeline(PrivateTableEncoder(encoding="onehot", ledger=ledger), final(**settings))


def fitted(ledger: PrivacyLedger, final: type = DPSGDClassifier, **settings: Any) -> Pipeline:
    made = steps(ledger, final, **{"max_epochs": 1, "progress": False, **settings})
    return fit_within(made, ROWS, Y, epsilon=1.0, sensitive_features=GROUPS)


@pytest.fixture
def ledger(tmp_path) -> PrivacyLedger:
    return PrivacyLedger(tmp_path / "spent.db", "rows", budget=(1.0, 1e-5))


@pytest.mark.parametrize(
    "wrong",
    [
        {"notion": "nope"},
        {"batch_size": -1},
        {"delta": 0.1},
        {"delta": "small"},
        {"tolerance": 2},
        {"net": "x"},
        {"path_share": 3},
        {"classes": ["yes"]},
    ],
)
def test_parameters_are_refused_before_the_table_is_charged(ledger, wrong) -> None:
    with pytest.raises((ValueError, TypeError), match=next(iter(wrong))):
        fitted(ledger, FairPathClassifier, **wrong)
    assert ledger.entries() == ()


@pytest.mark.parametrize("settings", [{}, {"dataset_size": N, "classes": ["no", "yes"]}])
def test_a_budget_of_the_same_size_has_room_for_both_and_for_no_more(ledger, settings) -> None:
    model = fitted(ledger, **settings)
    stated = certify(model).privacy
    adjacency = "add-remove" if settings else "zero-out"
    (total,) = ledger.totals()
    assert (total.adjacency, stated.adjacency) == (adjacency, adjacency)
    assert total.epsilon == pytest.approx(stated.epsilon, rel=1e-9)
    assert 0.99 <= total.epsilon <= 1.0
    assert [entry.state for entry in ledger.entries()] == ["committed"] * 2
    charged = ledger.entries()[1].guarantee
    # How this processor multiplies is known once the fit has charged, and nothing else.
    assert set(charged.assumptions) <= set(model[-1].privacy_.assumptions)
    later = set(model[-1].privacy_.assumptions) - set(charged.assumptions)
    assert later <= {AS_TORCH_MULTIPLIES, EXACTLY, ALONE}
    assert charged == replace(model[-1].privacy_, assumptions=charged.assumptions)
    # What comes later was chosen by looking, and the filter counts all three.
    with pytest.raises(BudgetExceededError, match="and 1 of it is spent"):
        PrivateTableEncoder(epsilon=0.01, ledger=ledger).fit(ROWS)


def test_private_steps_inside_of_others_are_refused_before_a_charge(ledger) -> None:
    table = PrivateTableEncoder(encoding="onehot", ledger=ledger)
    inner = ColumnTransformer([("t", table, ["income"])], remainder="passthrough")
    final = DPSGDClassifier(max_epochs=1, progress=False, ledger=ledger)
    for made in (
        make_pipeline(inner, table, final),
        make_pipeline(table, FeatureUnion([("t", table)]), final),
        make_pipeline(make_pipeline(table), table, final),
    ):
        with pytest.raises(ValueError, match="private or contain"):
            fit_within(made, ROWS, Y, epsilon=1.0, sensitive_features=GROUPS)
    assert ledger.entries() == ()


@pytest.mark.parametrize("named_by", [0, 1])
def test_two_handles_of_one_ledger_are_one(ledger, named_by) -> None:
    handles = [PrivacyLedger(ledger.path, "rows")] * 2
    handles[named_by] = ledger
    final = DPSGDClassifier(max_epochs=1, progress=False, ledger=handles[0])
    table = PrivateTableEncoder(encoding="onehot", ledger=handles[1])
    fit_within(make_pipeline(table, final), ROWS, Y, epsilon=1.0, sensitive_features=GROUPS)
    assert [entry.state for entry in ledger.entries()] == ["committed"] * 2
    assert ledger.budget == (1.0, 1e-5)
    other = PrivacyLedger(ledger.path.with_name("new.db"), "rows", budget=(1.0, 1e-5))
    final.ledger = PrivacyLedger(other.path, "rows", budget=(2.0, 1e-5))
    table.ledger = other
    with pytest.raises(ValueError, match="A budget is fixed once"):
        fit_within(make_pipeline(table, final), ROWS, Y, epsilon=1.0, sensitive_features=GROUPS)
    assert other.entries() == ()


def test_without_room_for_both_neither_is_charged(tmp_path) -> None:
    ledger = PrivacyLedger(tmp_path / "spent.db", "rows", budget=(0.8, 1e-5))
    with pytest.raises(BudgetExceededError, match=r"the budget is 0\.8, and 0 of it"):
        fitted(ledger)
    assert ledger.entries() == ()


def test_behind_another_entry_both_are_counted_by_the_filter(tmp_path) -> None:
    ledger = PrivacyLedger(tmp_path / "spent.db", "rows", budget=(1.0, 1e-5), adjacency="zero-out")
    PrivateTableEncoder(epsilon=0.01, ledger=ledger).fit(ROWS)
    with pytest.raises(BudgetExceededError):
        fitted(ledger)
    assert len(ledger.entries()) == 1


def test_parts_of_one_plan_compose_and_are_not_fewer_for_what_follows() -> None:
    table = PrivacyGuarantee(1.0, 1e-6, "add-remove", event=GaussianDpEvent(5.0))
    model = PrivacyGuarantee(1.0, 1e-6, "zero-out", event=GaussianDpEvent(5.0))
    parts = covered([table, model], "zero-out", "record")
    charged = filtered_epsilon(parts, 1.0, 1e-6, "zero-out")
    composed = filtered_epsilon(
        [PrivacyGuarantee(9.0, 1e-6, "zero-out", event=GaussianDpEvent(5.0 / math.sqrt(2)))],
        1.0,
        1e-6,
        "zero-out",
    )
    between = Budget((composed + charged) / 2, 1e-6)
    between.refuse([], [table, model], "people")
    assert between.for_first(table, model).adjacency == "zero-out"
    with pytest.raises(BudgetExceededError):  # one by one, the second may have been chosen
        between.for_first(model).refuse([table], [model], "people")
    with pytest.raises(BudgetExceededError):
        Budget(composed * 0.99, 1e-6).refuse([], [table, model], "people")
    with pytest.raises(BudgetExceededError, match="about 'record' under 'add-remove'"):
        Budget(9.0, 1e-6, "add-remove").refuse([], [table, model], "people")


def test_an_error_after_the_charge_says_what_was_charged(ledger, monkeypatch) -> None:
    def broken(self, run) -> None:
        raise MemoryError

    monkeypatch.setattr(DPSGDClassifier, "_train", broken)
    with pytest.raises(MemoryError) as caught:
        fitted(ledger)
    notes = "\n".join(caught.value.__notes__)
    assert "The table was fitted before this error: count ε = 0.29" in notes
    assert notes.count("Entry 2 of the privacy ledger") == 1
    assert [entry.state for entry in ledger.entries()] == ["committed", "reserved"]


@pytest.mark.parametrize("budget", [None, (1.0, 1e-5), (9.0, 1e-5)])
def test_a_plan_that_follows_from_the_levels_is_not_charged_as_one_plan(tmp_path, budget) -> None:
    ledger = PrivacyLedger(tmp_path / "spent.db", "rows", budget=budget)
    # Its shares of epsilon depend on the number of columns.
    settings = {"noise": "laplace", "sensitivity": "published", "feature_bounds": (0, 1)}
    made = steps(ledger, FunctionalMechanismClassifier, **settings)
    if budget == (1.0, 1e-5):
        with pytest.raises(BudgetExceededError) as caught:
            fit_within(made, ROWS, Y, epsilon=1.0)
        assert any("Entry 2" in note for note in caught.value.__notes__)
    else:
        model = fit_within(made, ROWS, Y, epsilon=1.0)
        assert 0.99 <= certify(model).privacy.epsilon <= 1.0
        assert ledger.entries()[-1].guarantee == model[-1].privacy_
    # With a budget, what was planned at first stays charged.
    states = [entry.state for entry in ledger.entries()]
    assert states[:2] == ["committed", "reserved" if budget else "returned"]


def around(ledger: PrivacyLedger | None, **settings: Any) -> Pipeline:
    """A table as a part of a ColumnTransformer, with a public step."""
    table = PrivateTableEncoder(encoding="onehot", ledger=ledger)
    public = PublicEncoder({"city": ["Oslo", "Bonn"]})
    columns = ColumnTransformer([("t", table, ["income"]), ("p", public, ["city"])])
    return make_pipeline(columns, DPSGDClassifier(ledger=ledger, max_epochs=1, **settings))


def test_a_table_may_be_a_part_of_a_column_transformer(ledger: PrivacyLedger) -> None:
    made = around(ledger)
    model = fit_within(made, ROWS, Y, epsilon=1.0)
    table, classifier = (entry.guarantee for entry in ledger.entries())
    parts = [model[0].transformers_[0][1].estimator, model[-1]]
    assert [part.privacy_.epsilon for part in parts] == [table.epsilon, classifier.epsilon]
    stated = certify(model)
    assert 0.99 <= stated.privacy.epsilon <= 1.0
    assert ledger.totals()[0].epsilon == stated.privacy.epsilon
    assert stated.verify(pickle.loads(pickle.dumps(model)))
    assert not hasattr(made[0], "transformers_")  # the given Pipeline is left as it was
    # Table and public step: both parts reach the classifier.
    width = parts[0].transform(ROWS[["income"]]).shape[1]
    assert model[0].transform(ROWS).shape == (N, width + 2)


def test_a_quote_of_it_is_what_its_fit_is_charged(tmp_path) -> None:
    ledger = PrivacyLedger(tmp_path / "spent.db", "rows")
    made = around(ledger)
    asked = quote(made, n_rows=N, columns=list(ROWS))
    assert not asked.privacy.is_void
    made.fit(ROWS, Y)
    charged = [entry.guarantee.epsilon for entry in ledger.entries()]
    assert [step.charge.epsilon for step in asked.steps] == charged
    assert asked.privacy.epsilon == certify(made).privacy.epsilon


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"transformers": [("t", PrivateTableEncoder(), [0])]}, "list of its columns by name"),
        ({"transformers": [("t", PrivateTableEncoder(), "income")]}, "list of its columns"),
        ({"transformers": [("t", PrivateTableEncoder(), ["rent"])]}, "list of its columns"),
        ({"transformers": [("p", "passthrough", ["income"])]}, "Set epsilon on the last step"),
        (
            {"transformers": [(n, PrivateTableEncoder(), [n]) for n in ROWS]},
            "must have one PrivateTableEncoder",
        ),
    ],
)
def test_columns_that_are_not_known_beforehand_are_refused(
    change: dict, said: str, ledger: PrivacyLedger
) -> None:
    made = around(ledger)
    made[0].set_params(**change)
    with pytest.raises(ValueError, match=said):
        fit_within(made, ROWS, Y, epsilon=1.0)
    assert ledger.entries() == ()


def test_a_model_without_a_pipeline_is_refused_with_how_to_make_one() -> None:
    with pytest.raises(ValueError, match=r"is a DPSGDClassifier.*make_pipeline\(Priv"):
        fit_within(DPSGDClassifier(), ROWS, Y, epsilon=1.0)


def test_a_search_behind_a_table_is_told_how_to_be_fitted() -> None:
    search = PrivateSearchCV(DPSGDClassifier(max_epochs=1), {"max_grad_norm": [0.5, 1.0]})
    with pytest.raises(ValueError, match="Give both their own epsilon and call fit"):
        fit_within(make_pipeline(PrivateTableEncoder(), search), ROWS, Y, epsilon=1.0)


@pytest.mark.parametrize("within", [False, True])
def test_levels_for_a_classifier_of_numbers_are_refused_before_a_charge(
    within: bool, ledger: PrivacyLedger
) -> None:
    table = PrivateTableEncoder(ledger=ledger)
    first = ColumnTransformer([("t", table, ["income"])]) if within else table
    made = make_pipeline(first, DPSGDClassifier(ledger=ledger, max_epochs=1))
    with pytest.raises(ValueError, match='encoding="onehot"'):
        fit_within(made, ROWS, Y, epsilon=1.0)
    assert ledger.entries() == ()


@pytest.mark.slow
@pytest.mark.parametrize("persons", [None, np.arange(N) // 2], ids=["records", "persons"])
def test_rows_on_disk_bring_their_labels_and_cost_what_rows_in_memory_cost(ledger, persons) -> None:
    frame = pd.DataFrame({"income": ROWS["income"], "rent": RNG.normal(size=N)})
    rows = ArrayRows(frame.to_numpy(), list(frame))
    rows.target = pd.Categorical(Y)
    made = make_pipeline(
        PrivateTableEncoder(ledger=ledger, columns={"income": "number"}),
        DPAdditiveClassifier(max_epochs=1, progress=False, ledger=ledger),
    )
    model = fit_within(made, rows, epsilon=1.0, person_ids=persons)
    memory = clone(made).set_params(**dict.fromkeys(LEDGERS))
    memory = fit_within(memory, frame, Y, epsilon=1.0, person_ids=persons)
    assert certify(model).privacy == certify(memory).privacy
    assert len(ledger.entries()) == 2
    assert model.predict(rows).tolist() == model.predict(frame).tolist()


LEDGERS = ("privatetableencoder__ledger", "dpadditiveclassifier__ledger")
