"""A sum of one function a column, and all that is read off it."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline

from skfairdp import (
    DPAdditiveClassifier,
    DPAdditiveRegressor,
    FairPathClassifier,
    LagrangianDualClassifier,
    PrivacyLedger,
    PrivateTableEncoder,
    certify,
)
from skfairdp.additive.design import Design
from skfairdp.engine.inference import outputs
from skfairdp.model_selection import fit_within
from skfairdp.preprocessing import PublicBinner
from skfairdp.preprocessing.levels import Categories, Intervals

N = 6000
RNG = np.random.default_rng(0)
ROWS = pd.DataFrame(
    {
        "age": RNG.uniform(20, 80, N),
        "city": RNG.choice(["Oslo", "Bonn"], N),
        "noise": np.where(RNG.random(N) < 0.1, np.nan, RNG.normal(size=N)),
    }
)
LOGIT = np.where((ROWS["age"] > 35) & (ROWS["age"] < 60), 2.0, -2.0) + (ROWS["city"] == "Oslo")
Y = np.where(RNG.random(N) < expit(LOGIT), "yes", "no")
BOUNDS = {"age": (20, 80), "noise": (-3, 3)}


def additive(**options: object) -> DPAdditiveClassifier:
    options = {"n_bins": 16, "progress": False, **options}
    return DPAdditiveClassifier(BOUNDS, {"city": ["Oslo", "Bonn"]}, **options)


@pytest.fixture(scope="module")
def model() -> DPAdditiveClassifier:
    return additive(epsilon=4.0).fit(ROWS, Y)


def test_it_learns_a_hump_that_no_linear_model_does(model) -> None:
    assert roc_auc_score(Y == "yes", model.decision_function(ROWS)) > 0.85
    shape = model.shape_functions_["age"]
    middle = shape.loc[(shape["edge"] > 40) & (shape["edge"] < 55), "contribution"]
    ends = shape.loc[(shape["edge"] < 30) | (shape["edge"] > 65), "contribution"]
    assert middle.min() > ends[ends.index > 0].median() + 1.0


def test_contributions_add_up_to_the_net_and_are_centred(model) -> None:
    parts = model.explain(ROWS)
    assert parts.columns.tolist() == ["intercept", *ROWS]
    total = parts.sum(axis=1)
    assert np.allclose(total, model.decision_function(ROWS), rtol=0, atol=1e-12)
    net = outputs(model.module_, model._features(ROWS)).ravel()
    assert np.allclose(total, net, atol=1e-4)
    chance = model.predict_proba(ROWS)[:, 1]
    assert np.all(np.diff(chance[np.argsort(total)]) >= 0.0)
    assert np.all((total > 0) == (model.predict(ROWS) == "yes"))
    for shape in model.shape_functions_.values():
        assert abs(shape["contribution"].mean()) < 1e-12
        assert shape["level"].iloc[-1] == "missing"


def test_chances_are_those_of_the_clipped_loss() -> None:
    """Without noise, for 1 in 10 rows of the second class, whatever the columns say."""
    y = np.arange(N) % 10 == 0
    with pytest.warns(Warning, match="nothing is protected"):
        model = additive(epsilon=math.inf, max_epochs=60).fit(ROWS, y)
    assert model.predict_proba(ROWS)[:, 1].mean() == pytest.approx(0.1, abs=0.01)


def test_every_row_has_one_norm(model) -> None:
    rows = model._features(ROWS)
    assert np.allclose(np.linalg.norm(rows, axis=1), 4.0, atol=1e-5)
    assert np.all(np.count_nonzero(rows, axis=1) == np.count_nonzero(rows[0]))


def test_the_design_joins_neighbours_and_leaves_missing_values_apart() -> None:
    design = Design([Intervals(tuple(range(63))), Categories(("a",))])
    assert design.width == (64 + 1) + (16 + 1) + (4 + 1) + (2 + 1)
    first, second = design.contributions(np.arange(design.width, dtype=float))
    assert np.allclose(first[[0, 9, 64]] / design.value, [0 + 65 + 82, 9 + 67 + 82, 64 + 81 + 86])
    assert np.allclose(second / design.value, [87, 88, 89])


def test_reasons_are_the_lowest_contributions_in_words(model) -> None:
    rows = ROWS.head(200)
    parts = model.explain(rows).drop(columns="intercept")
    reasons = model.reason_codes(rows, n=2)
    assert reasons.shape == (200, 2)
    for (_, values), (_, said) in zip(parts.iterrows(), reasons.iterrows(), strict=True):
        lowest = values.sort_values()
        wanted = [name if lowest[name] < 0 else "" for name in lowest.index[:2]]
        assert [text.split(":")[0] for text in said] == wanted
    assert reasons.stack().str.contains(": ").any()
    with pytest.raises(ValueError, match="'n' must be"):
        model.reason_codes(rows, n=0)


def test_shapes_are_drawn(model) -> None:
    figure = model.plot_shapes()
    assert [axis.get_title() for axis in figure.axes[:3]] == list(ROWS)
    assert figure.axes[3:] == [] or not figure.axes[3].axison


def test_levels_come_from_the_step_before() -> None:
    binner = PublicBinner(BOUNDS, {"city": ["Oslo", "Bonn"]}, n_bins=16)
    piped = make_pipeline(binner, DPAdditiveClassifier(progress=False)).fit(ROWS, Y)
    assert piped[-1].levels_ == additive(max_epochs=1).fit(ROWS, Y).levels_
    assert list(piped[-1].shape_functions_) == list(ROWS)


@pytest.mark.parametrize(
    "X",
    [
        ROWS[["age"]].to_numpy(),
        ROWS[["age"]],
        ROWS[["city"]].astype("category"),
        pd.DataFrame({"age": pd.cut(ROWS["age"], 4)}),
    ],
    ids=["array", "numbers", "categories that pandas found", "bins that pandas found"],
)
def test_what_nobody_declared_is_refused(X: object) -> None:
    with pytest.raises(ValueError, match="not a table of levels"):
        DPAdditiveClassifier().fit(X, Y)


def test_other_levels_at_prediction_are_refused() -> None:
    one, other = (PublicBinner({"age": (20, high)}).fit(ROWS[["age"]]) for high in (80, 90))
    model = DPAdditiveClassifier(max_epochs=1, progress=False)
    model.fit(one.transform(ROWS[["age"]]), Y)
    with pytest.raises(ValueError, match="other levels"):
        model.predict(other.transform(ROWS[["age"]]))


def test_three_classes_are_refused() -> None:
    with pytest.raises(ValueError, match="binary"):
        additive().fit(ROWS, np.arange(N) % 3)


@pytest.mark.parametrize(("unit", "ids"), [("record", None), ("person", np.arange(N) // 2)])
def test_one_budget_for_table_and_classifier(tmp_path, unit, ids) -> None:
    ledger = PrivacyLedger(tmp_path / "ledger.db", "people")
    steps = make_pipeline(
        PrivateTableEncoder(ledger=ledger),
        DPAdditiveClassifier(max_epochs=5, ledger=ledger, progress=False),
    )
    model = fit_within(steps, ROWS, Y, epsilon=1.0, person_ids=ids)
    stated = certify(model).privacy
    assert stated.protects == unit
    assert 0.99 <= stated.epsilon <= 1.0
    assert stated.delta == 1e-6
    assert model[0].epsilon == 0.3
    # The ledger's total is the certificate's: events are composed, not epsilons.
    assert [entry.state for entry in ledger.entries()] == ["committed"] * 2
    assert ledger.totals()[0].epsilon == pytest.approx(stated.epsilon, rel=1e-9)
    assert steps[0].epsilon == 0.1  # cloned


@pytest.mark.parametrize(
    ("steps", "options", "match"),
    [
        ([DPAdditiveClassifier()], {}, "by a PrivateTableEncoder"),
        ([PrivateTableEncoder(), PrivateTableEncoder(), DPAdditiveClassifier()], {}, "one Private"),
        (
            [PrivateTableEncoder(), DPAdditiveClassifier()],
            {"epsilon": math.inf},
            "epsilon=inf is not allowed",
        ),
        (
            [PrivateTableEncoder(), DPAdditiveClassifier()],
            {"table_share": 1.0},
            "table_share=1.0 is not allowed",
        ),
        (
            [PrivateTableEncoder(), FairPathClassifier(protects="sensitive_features")],
            {},
            "has no total",
        ),
        (
            [PrivateTableEncoder(reproducible_noise=True), DPAdditiveClassifier()],
            {},
            "reproducible_noise",
        ),
    ],
)
def test_budgets_that_cannot_be_kept_are_refused(steps, options, match) -> None:
    with pytest.raises(ValueError, match=match):
        fit_within(make_pipeline(*steps), ROWS, Y, **{"epsilon": 1.0, **options})


@pytest.mark.parametrize(
    ("people", "match"),
    [
        ({"y": np.zeros(N)}, "1 class"),
        ({"y": Y[:-1]}, "inconsistent numbers of samples"),
        ({"sensitive_features": ["a", None] * (N // 2)}, "missing values"),
        ({"person_ids": np.arange(N - 1)}, "inconsistent numbers of samples"),
        ({"y": pd.Series(Y)[::-1]}, "'X' and 'y' hold the same labels"),
        (
            {"sensitive_features": ["a", "b"] * (N // 2), "person_ids": np.arange(N) // 2},
            "rows of different groups.*their own group",
        ),
    ],
)
def test_labels_groups_and_ids_are_refused_before_the_table_is_charged(
    tmp_path, people, match
) -> None:
    ledger = PrivacyLedger(tmp_path / "l.db", "rows")
    steps = make_pipeline(PrivateTableEncoder(ledger=ledger), DPAdditiveClassifier(ledger=ledger))
    with pytest.raises(ValueError, match=match):
        fit_within(steps, ROWS, **{"y": Y, "epsilon": 1.0, **people})
    assert ledger.entries() == ()


def test_an_attribute_and_the_records_of_a_table_have_no_budget_in_common(tmp_path) -> None:
    ledger = PrivacyLedger(tmp_path / "l.db", "rows")
    steps = make_pipeline(
        PrivateTableEncoder(encoding="onehot"), LagrangianDualClassifier(ledger=ledger)
    )
    with pytest.raises(ValueError, match="has no total"):
        fit_within(steps, ROWS, Y, epsilon=1.0, sensitive_features=ROWS["city"])
    assert ledger.entries() == ()


@pytest.mark.parametrize("kind", [DPAdditiveClassifier, DPAdditiveRegressor])
def test_a_row_has_the_same_score_alone_as_among_others(kind) -> None:
    X = np.random.default_rng(0).normal(size=(400, 23))
    y = X.sum(axis=1)
    of_numbers = kind is DPAdditiveRegressor
    options = {"target_bounds": (-20, 20)} if of_numbers else {}
    model = kind((-3, 3), epsilon=3.0, n_bins=8, max_epochs=2, progress=False, **options)
    model.fit(X, y if of_numbers else (y > 0).astype(int))
    scores = model.predict if of_numbers else model.decision_function
    # Summed in the order of one row, about two scores of three had another last bit.
    alone = np.concatenate([scores(X[i : i + 1]) for i in range(16)])
    np.testing.assert_array_equal(alone, scores(X)[:16])
