"""Quotes of Pipelines, searches and ledgers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from skfairdp import (
    DPAdditiveClassifier,
    DPSGDClassifier,
    FairDPClassifier,
    FunctionalMechanismClassifier,
    PrivacyLedger,
    PrivateTableEncoder,
    SmoothedClassifier,
    certify,
    quote,
)
from skfairdp.model_selection import PrivateSearchCV
from skfairdp.preprocessing import PublicScaler
from skfairdp.privacy import CountRelease, Plan
from skfairdp.receipts import Quote

# Many fits here follow a step that learns from rows, which warns.
pytestmark = pytest.mark.filterwarnings("ignore:.* may have learned from the rows")

FAST = {"max_epochs": 2, "progress": False}


def rows(n: int = 400) -> tuple[np.ndarray, np.ndarray]:
    X = np.random.default_rng(0).normal(size=(n, 3))
    return X, (X[:, 0] > 0).astype(int)


def test_a_pipeline_costs_what_its_certificate_says() -> None:
    X, y = rows()
    bounds = dict.fromkeys(range(3), (-4.0, 4.0))
    pipeline = make_pipeline(PublicScaler(bounds), DPSGDClassifier(**FAST))
    quoted = quote(pipeline, n_rows=400, n_features=3)
    stated = certify(pipeline.fit(X, y)).privacy
    assert quoted.privacy is not None
    assert (quoted.epsilon, quoted.delta) == (stated.epsilon, stated.delta)


def test_several_private_steps_are_composed_as_a_certificate_composes_them() -> None:
    X, y = rows()
    steps = make_pipeline(PrivateTableEncoder(epsilon=0.5), DPAdditiveClassifier(**FAST))
    quoted = quote(steps, n_rows=400, n_features=3)
    stated = certify(steps.fit(X, y)).privacy
    assert quoted.epsilon == stated.epsilon
    assert len(quoted.steps) == 2


def test_a_step_that_learns_without_noise_voids_the_quote() -> None:
    quoted = quote(make_pipeline(StandardScaler(), DPSGDClassifier(**FAST)), n_rows=400)
    assert quoted.privacy is not None
    assert quoted.privacy.is_void
    assert "StandardScaler" in quoted.privacy.assumptions[0]
    assert "StandardScaler" in str(quoted)


def test_a_search_quotes_each_candidate_and_promises_nothing() -> None:
    search = GridSearchCV(DPSGDClassifier(**FAST), {"epsilon": [0.5, 1.0]})
    quoted = quote(search, n_rows=400)
    assert quoted.privacy is not None
    assert quoted.privacy.is_void
    assert all(s.epsilon <= e for s, e in zip(quoted.steps, (0.5, 1.0), strict=True))
    with pytest.raises(ValueError, match="101 candidates"):
        quote(GridSearchCV(DPSGDClassifier(), {"epsilon": list(range(1, 102))}), n_rows=400)


def test_a_search_that_draws_its_candidates_is_quoted_by_its_estimator() -> None:
    search = RandomizedSearchCV(DPSGDClassifier(**FAST), {"epsilon": [0.5, 1.0]})
    quoted = quote(search, n_rows=400)
    assert quoted.privacy is not None
    assert quoted.privacy.is_void
    assert [step.epsilon <= 1.0 for step in quoted.steps] == [True]
    assert "drawn later" in str(quoted)


def test_a_step_without_noise_voids_the_quote_of_a_pipeline_and_its_ledger_is_read(
    tmp_path: Any,
) -> None:
    ledger = PrivacyLedger(tmp_path / "spent.db", budget=(9.0, 1e-4))
    free = DPSGDClassifier(epsilon=float("inf"), ledger=ledger, **FAST)
    steps = Pipeline([("bins", PrivateTableEncoder(epsilon=0.5)), ("none", None), ("net", free)])
    with pytest.warns(match="epsilon=inf"):
        quoted = quote(steps, n_rows=400, n_features=3)
    assert quoted.privacy is not None
    assert quoted.privacy.is_void
    assert "Step 'net' trains without noise." in quoted.privacy.assumptions
    assert quoted.privacy.adjacency == quoted.steps[0].privacy.adjacency  # type: ignore[union-attr]
    assert quoted.ledger is not None


def test_tables_and_laplace_sums_are_listed_with_their_noise() -> None:
    model = FunctionalMechanismClassifier((-3.0, 3.0), noise="laplace")
    quoted = model.quote(n_rows=400, n_features=3)
    assert {release.noise for release in quoted.releases} == {"Laplace"}
    for release in quoted.releases:
        scale = release.noise_std / math.sqrt(2.0)
        assert release.multiplier == pytest.approx(release.of_a_record / scale)
    table = PrivateTableEncoder(epsilon=0.5).quote(n_rows=400, n_features=3).releases
    assert all(release.noise_std > 0.0 for release in table)
    with pytest.warns(match="epsilon=inf"):
        free = DPSGDClassifier(epsilon=float("inf")).quote(n_rows=400)
    assert "Trains without noise: nothing is protected." in str(free)


def test_models_of_other_libraries_have_no_quote() -> None:
    with pytest.raises(TypeError, match="LogisticRegression"):
        quote(LogisticRegression(), n_rows=400)


def test_a_ledger_says_what_is_left_and_what_it_would_refuse(tmp_path) -> None:
    X, y = rows()
    ledger = PrivacyLedger(tmp_path / "spent.db", budget=(1.5, 1e-6))
    model = DPSGDClassifier(ledger=ledger, **FAST)
    first = model.quote(n_rows=400).ledger
    assert first.refusal is None
    assert first.left == pytest.approx(0.5, abs=0.02)
    model.fit(X, y)
    assert [t.epsilon for t in ledger.totals()] == [t.epsilon for t in first.after]
    second = model.quote(n_rows=400).ledger
    assert "Nothing was released" in second.refusal
    assert "would refuse" in str(model.quote(n_rows=400))
    assert len(ledger.entries()) == 1


def test_bought_sizes_are_charged_before_a_plan_is_known() -> None:
    model = FairDPClassifier(group_sizes_epsilon=0.2, **FAST)
    quoted = model.quote(groups={"a": 300, "b": 200})
    assert quoted.plan is None
    assert (quoted.bought, quoted.epsilon) == (0.2, 1.0)
    assert quoted.expected_plan.prior_epsilon == 0.2


def test_models_of_groups_are_quoted_from_the_sizes_of_the_groups() -> None:
    model = SmoothedClassifier(DPSGDClassifier(**FAST), training="per_group")
    quoted = model.quote(groups={"a": 300, "b": 200})
    assert [step.facts.n for step in quoted.steps] == [300, 200]


def test_epsilon_of_infinity_promises_nothing() -> None:
    with pytest.warns(match="epsilon=inf"):
        quoted = DPSGDClassifier(epsilon=float("inf")).quote(n_rows=400)
    assert quoted.privacy is None
    assert quoted.charge is not None
    assert quoted.charge.is_void
    assert quoted.verdict.level == "no noise"


def test_a_private_search_of_declared_size_charges_its_quote(tmp_path) -> None:
    X, y = rows()
    ledger = PrivacyLedger(tmp_path / "spent.db")
    model = DPSGDClassifier(dataset_size=300, **FAST)
    search = PrivateSearchCV(model, {"max_grad_norm": [0.5, 1.0]}, n_iter=2, ledger=ledger)
    quoted = quote(search, n_rows=400)
    search.fit(X, y)
    (entry,) = ledger.entries()
    assert entry.guarantee == quoted.charge
    assert quoted.epsilon == search.privacy_.epsilon <= 1.0


def test_a_private_search_is_quoted_for_the_rows_that_it_expects_to_train_on() -> None:
    search = PrivateSearchCV(DPSGDClassifier(**FAST), {"max_grad_norm": [0.5, 1.0]}, n_iter=2)
    quoted = search.quote(n_rows=400)
    assert 0.9 < quoted.epsilon <= 1.0
    assert "About 300 rows train" in str(quoted)


def scaled_columns(**settings: Any) -> ColumnTransformer:
    return ColumnTransformer([("kept", "passthrough", [0])], **settings)


class Subclass(Pipeline):
    """May do more than its steps."""


class Columns(list):  # type: ignore[type-arg]
    """May keep what it is compared with."""


# Pipelines before the private step that learn, or may learn, from rows.
LEARNING: dict[str, Callable[[Any, str], Pipeline]] = {
    "a cache": lambda last, folder: Pipeline([("p", PUBLIC), ("d", last)], memory=folder),
    "a cache inside": lambda last, folder: make_pipeline(
        Pipeline([("p", PUBLIC)], memory=folder), last
    ),
    "a scaler": lambda last, _: make_pipeline(StandardScaler(), last),
    "a scaler of the remainder": lambda last, _: make_pipeline(
        scaled_columns(remainder=StandardScaler()), last
    ),
    "columns by a function": lambda last, _: make_pipeline(
        ColumnTransformer([("k", "passthrough", lambda X: [0])]), last
    ),
    "columns of a class": lambda last, _: make_pipeline(
        ColumnTransformer([("k", "passthrough", Columns([0]))]), last
    ),
    "a scaler in a union": lambda last, _: make_pipeline(
        FeatureUnion([("a", "passthrough"), ("b", StandardScaler())]), last
    ),
    "a subclass of Pipeline": lambda last, _: make_pipeline(Subclass([("p", PUBLIC)]), last),
    "a subclass around all": lambda last, _: Subclass([("p", PUBLIC), ("d", last)]),
}
PUBLIC = PublicScaler(dict.fromkeys(range(3), (-6.0, 6.0)))


@pytest.mark.parametrize("name", LEARNING)
def test_no_quote_is_finite_where_the_certificate_is_void(name: str, tmp_path: Any) -> None:
    model = LEARNING[name](DPSGDClassifier(max_epochs=1, progress=False), str(tmp_path))
    quoted = quote(model, n_rows=400, n_features=3)
    model.fit(*rows())
    privacy = certify(model).privacy
    assert privacy is not None
    assert privacy.is_void
    assert quoted.privacy is not None
    assert quoted.privacy.is_void
    assert "Promises nothing" in str(quoted)


@pytest.mark.parametrize(
    "inner", [scaled_columns(), Pipeline([("p", PUBLIC)])], ids=["columns", "pipeline"]
)
def test_harmless_containers_leave_the_price(inner: Any) -> None:
    model = make_pipeline(inner, DPSGDClassifier(max_epochs=1, progress=False))
    quoted = quote(model, n_rows=400, n_features=3)
    promised = certify(model.fit(*rows())).privacy
    assert promised is not None
    assert quoted.epsilon == promised.epsilon
    assert not promised.is_void


def encoder(epsilon: float) -> PrivateTableEncoder:
    return PrivateTableEncoder(epsilon=epsilon, encoding="onehot")


@pytest.mark.parametrize(
    "parts",
    [
        FeatureUnion([("a", encoder(0.2)), ("b", encoder(0.3))]),
        scaled_columns(remainder=encoder(0.3), sparse_threshold=0.0),
        ColumnTransformer([("a", encoder(0.2), [1])], remainder=encoder(0.3), sparse_threshold=0.0),
    ],
    ids=["union", "remainder", "columns and remainder"],
)
def test_private_parts_of_a_step_cost_what_its_certificate_says(parts: Any) -> None:
    model = make_pipeline(parts, DPSGDClassifier(**FAST))
    quoted = quote(model, n_rows=400, n_features=3)
    stated = certify(model.fit(*rows())).privacy
    assert stated is not None
    assert not stated.is_void
    assert (quoted.epsilon, quoted.delta) == (stated.epsilon, stated.delta)


def test_a_remainder_has_a_price_only_where_all_columns_are_known() -> None:
    parts = scaled_columns(remainder=encoder(0.3), sparse_threshold=0.0)
    assert math.isinf(quote(make_pipeline(PUBLIC, parts, DPSGDClassifier()), n_rows=400).epsilon)


@pytest.mark.parametrize(("epsilon", "std"), [(math.log(2.0), 2.0), (math.inf, 0.0)])
def test_the_noise_of_a_table_is_that_of_discrete_laplace_draws(epsilon, std) -> None:
    table = CountRelease(name="table", epsilon=epsilon, releases=3)
    plan = Plan(cells=("all",), segments=(), counts=(table,), adjacency="zero-out", delta=0.0)
    (found,) = Quote("a table", None, None, plan=plan).releases
    assert (found.times, found.of_a_record) == (3, 1.0)
    assert found.noise_std == pytest.approx(std)


def test_a_ledger_without_a_budget_has_no_end_and_says_its_total(tmp_path: Any) -> None:
    room = DPSGDClassifier(ledger=PrivacyLedger(tmp_path / "spent.db"), **FAST)
    quoted = room.quote(n_rows=400)
    assert quoted.ledger is not None
    assert quoted.ledger.left is None
    assert "afterwards: ε = " in str(quoted)
