"""Predictions that hold abstentions: rates among answered and among all, coverage."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from fairlearn.metrics import MetricFrame, selection_rate

from skfairdp.metrics import answered, fairness_report


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 400)
    guess = np.where(rng.random(400) < 0.8, y, 1 - y)
    groups = rng.choice(["a", "b", "c"], 400)
    refused = rng.random(400) < np.where(groups == "a", 0.5, 0.1)
    return y, np.where(refused, -1, guess), groups, rng.random(400)


def test_answered_keeps_rows_order_and_types(rows) -> None:
    y, p, a, _ = rows
    kept = p != -1
    found = answered(y, p, abstention_label=-1, sensitive_features=a)
    for part, whole in zip(found, (y, p, a), strict=True):
        assert (part == whole[kept]).all()
    frame = pd.DataFrame({"a": a, "b": y}, index=np.arange(400) + 7)
    framed = answered(pd.Series(y), list(p), abstention_label=-1, sensitive_features=frame)
    assert framed.sensitive_features.equals(frame[kept])
    assert isinstance(framed.y_true, pd.Series)
    assert answered(y, p, abstention_label=-1).sensitive_features is None
    # What it is for: fairlearn alone takes an abstention for "not selected".
    alone = MetricFrame(metrics=selection_rate, y_true=y, y_pred=p, sensitive_features=a)
    among = MetricFrame(metrics=selection_rate, **found._asdict())
    assert alone.by_group["a"] < 0.6 * among.by_group["a"]


def test_report_shows_answered_all_and_coverage(rows) -> None:
    y, p, a, score = rows
    report = fairness_report(y, p, sensitive_features=a, y_score=score, abstention_label=-1)
    table = report.to_frame()
    given = p != -1
    for name in ["a", "b", "c", "overall"]:
        mask = np.ones(400, dtype=bool) if name == "overall" else a == name
        row = table.loc[name]
        assert (row["count"], row["answered"]) == (mask.sum(), (mask & given).sum())
        assert row["coverage"] == pytest.approx(given[mask].mean())
        assert row["selection_rate"] == pytest.approx((p == 1)[mask & given].mean())
        assert row["selection_rate_among_all"] == pytest.approx((p == 1)[mask].mean())
        assert row["accuracy"] == pytest.approx((p == y)[mask & given].mean())
        assert row["accuracy_among_all"] == pytest.approx((p == y)[mask].mean())
        hit = mask & (y == 1)
        assert row["true_positive_rate"] == pytest.approx((p == 1)[hit & given].mean())
        assert row["true_positive_rate_among_all"] == pytest.approx((p == 1)[hit].mean())
    groups = table.iloc[:3]
    assert report.gaps["coverage"] == pytest.approx(np.ptp(groups["coverage"]))
    assert report.gaps["demographic_parity"] == pytest.approx(np.ptp(groups["selection_rate"]))
    assert report.gaps["demographic_parity_among_all"] == pytest.approx(
        np.ptp(groups["selection_rate_among_all"])
    )
    assert report.pos_label == 1, "an abstention is no label, and never the favourable one"
    for text in (str(report), report._repr_html_()):
        assert "coverage" in text


def test_rates_among_answered_are_those_of_the_answered_rows_alone(rows) -> None:
    y, p, a, score = rows
    whole = fairness_report(y, p, sensitive_features=a, y_score=score, abstention_label=-1)
    kept = answered(y, p, abstention_label=-1, sensitive_features=a)
    alone = fairness_report(**kept._asdict(), y_score=score[p != -1])
    rates = [c for c in alone.to_frame().columns if c != "count"]
    pd.testing.assert_frame_equal(whole.to_frame()[rates], alone.to_frame()[rates])
    assert {k: whole.gaps[k] for k in alone.gaps} == pytest.approx(alone.gaps)


def test_groups_without_any_answer_have_coverage_zero_and_no_rates(rows) -> None:
    y, p, a, _ = rows
    some = fairness_report(
        y, np.where(a == "b", -1, p), sensitive_features=a, abstention_label=-1
    ).to_frame()
    assert some.loc["b", "coverage"] == 0.0
    assert np.isnan(some.loc["b", "selection_rate"])
    assert some.loc["b", "selection_rate_among_all"] == 0.0
    nobody = fairness_report(y, np.full(400, -1), sensitive_features=a, abstention_label=-1)
    assert (nobody.to_frame()["coverage"] == 0.0).all()
    assert np.isnan(nobody.gaps["demographic_parity"])
    assert nobody.gaps["demographic_parity_among_all"] == 0.0


def test_text_markers_and_multiclass() -> None:
    y = ["x", "y", "z", "x", "y", "z"]
    p = ["x", "no answer", "z", "y", "no answer", "no answer"]
    report = fairness_report(
        y, p, sensitive_features=[*"aaabbb"], pos_label="x", abstention_label="no answer"
    )
    assert report.to_frame()["coverage"].tolist() == pytest.approx([2 / 3, 1 / 3, 1 / 2])


def test_a_marker_that_is_a_true_label_is_refused(rows) -> None:
    y, p, a, _ = rows
    with pytest.raises(ValueError, match="abstention_label=1 is a true label"):
        answered(y, p, abstention_label=1)
    with pytest.raises(ValueError, match="abstention_label=1 is a true label"):
        fairness_report(y, p, sensitive_features=a, abstention_label=1)
    with pytest.raises(ValueError, match="one value per row"):
        answered(y, p, abstention_label=-1, sensitive_features=a[1:])
