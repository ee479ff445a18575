"""Non-dominated models, against the definition; pictures and results of searches."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.model_selection import GridSearchCV

from skfairdp import DPSGDClassifier
from skfairdp.metrics import demographic_parity_scorer
from skfairdp.model_selection import ParetoDisplay, PrivateSearchCV, pareto_frontier
from skfairdp.model_selection.frontier import results_of_search
from tests.common.roster import FAST, people

mpl = pytest.importorskip("matplotlib")
mpl.use("agg")

POINTS = st.lists(
    st.tuples(*[st.integers(0, 4)] * 3, st.sampled_from([0.5, 1.0, float("inf")])),
    min_size=1, max_size=25,
)  # fmt: skip


def frame(points: list[tuple]) -> pd.DataFrame:
    return pd.DataFrame(points, columns=["accuracy", "coverage", "gap", "epsilon"], dtype=float)


def beaten(row: np.ndarray, others: np.ndarray) -> bool:
    """By the definition: no worse anywhere, better somewhere."""
    gains = (others - row) * np.array([1, 1, -1, -1])
    return bool(np.any(np.all(gains >= 0, axis=1) & np.any(gains > 0, axis=1)))


@given(POINTS)
def test_the_frontier_is_what_no_other_model_beats(points: list[tuple]) -> None:
    results = frame(points)
    values = results.replace(np.inf, 1e9).to_numpy()
    expected = {i for i, row in enumerate(values) if not beaten(row, values)}
    assert set(pareto_frontier(results).index) == expected
    layers = pareto_frontier(results, all_ranks=True)
    assert len(layers) == len(points)
    rest = results.drop(index=list(expected))
    if len(rest):
        assert set(layers.index[layers["rank"] == 1]) == set(pareto_frontier(rest).index)


def test_columns_can_be_named_and_are_ordered() -> None:
    results = pd.DataFrame({"f1": [0.1, 0.3, 0.2], "seconds": [1, 3, 4], "accuracy": [3, 2, 1]})
    found = pareto_frontier(results, maximize=["f1"], minimize=["seconds"])
    assert found.index.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("results", "message"),
    [
        ([], "results is empty"),
        ("models.csv", "results must be a DataFrame"),
        ([{"f1": 0.3}], "no column has a known meaning"),
        ([{"accuracy": 0.3, "gap": None}], "column 'gap' must hold a number"),
        ([{"accuracy": "high"}], "column 'accuracy' must hold a number"),
        ([{"accuracy": -math.inf, "gap": 0.1}], "column 'accuracy' must hold finite numbers"),
    ],
)
def test_bad_results_are_refused(results, message) -> None:
    with pytest.raises(ValueError, match=message):
        pareto_frontier(results)
    with pytest.raises(ValueError, match="'auc' is not a column"):
        pareto_frontier([{"accuracy": 1.0}], maximize=["auc"])


def test_one_panel_for_each_notion_and_one_entry_for_each_mechanism() -> None:
    results = [
        {"mechanism": m, "accuracy": a, "demographic_parity": a / 5, "equal_opportunity": a / 9,
         "epsilon": e}
        for m, a, e in [("x", 0.8, 1.0), ("x", 0.82, 2.0), ("y", 0.7, 1.0), ("y", 0.9, np.inf)]
    ]  # fmt: skip
    display = ParetoDisplay.from_results(results, label="mechanism")
    assert [axis.get_xlabel() for axis in display.axes_] == [
        "demographic parity", "equal opportunity",
    ]  # fmt: skip
    legend = display.figure_.legends[0]
    assert [text.get_text() for text in legend.get_texts()] == ["x", "y"]
    with pytest.raises(ValueError, match="ax holds one panel, but there are 2 gaps"):
        display.plot(ax=display.axes_[0])
    alone = ParetoDisplay.from_results(
        results[:1], gaps=["demographic_parity"], ax=mpl.figure.Figure().subplots()
    )
    assert alone.axes_[0].get_ylabel() == "accuracy"
    with pytest.raises(ValueError, match="need a gap and an accuracy"):
        ParetoDisplay.from_results([{"epsilon": 1.0}])


@pytest.mark.slow
def test_points_of_a_grid_search_and_of_a_private_one() -> None:
    import sklearn

    X, y, groups = people()
    scoring = {"accuracy": "accuracy", "gap": demographic_parity_scorer}
    with sklearn.config_context(enable_metadata_routing=True):
        grid = GridSearchCV(
            DPSGDClassifier(**FAST), {"epsilon": [1.0, 2.0]}, scoring=scoring, refit="accuracy",
            cv=2,
        ).fit(X, y, sensitive_features=groups)  # fmt: skip
    shown = ParetoDisplay.from_search(grid).results
    assert shown["epsilon"].tolist() == [1.0, 2.0]
    assert (shown["gap"] >= 0).all()
    # Counts with little noise: no group of held-out rows is lost in it, so there is a gap.
    clear = {"n_iter": 1, "epsilon": 50.0}
    own = PrivateSearchCV(DPSGDClassifier(**FAST), {"max_grad_norm": [1.0]}, **clear)
    own.fit(X, y, sensitive_features=groups)
    shown = ParetoDisplay.from_search(own).results
    assert len(shown) == 1
    assert shown["accuracy"][0] == own.best_score_
    assert shown["epsilon"][0] == own.privacy_.epsilon
    own.set_params(scoring="roc_auc").fit(X, y, sensitive_features=groups)
    assert results_of_search(own)["auc"][0] == own.best_score_
    with pytest.raises(TypeError, match="takes a fitted search"):
        ParetoDisplay.from_search(DPSGDClassifier())
