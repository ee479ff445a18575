"""Tests of accuracy and that of a constant answer: counted, flagged, kept in JSON."""

from __future__ import annotations

import dataclasses
import json
import math

import numpy as np
import pytest
from scipy import stats
from sklearn.dummy import DummyClassifier

from skfairdp import Certificate, certify
from skfairdp.certificate.outcomes import Accuracy
from tests.certificate.fakes import ThresholdClassifier

TABLE = np.array([[[400, 20], [60, 120]], [[300, 40], [30, 30]]])


def test_a_table_is_counted():
    found = Accuracy.of_table(TABLE)
    assert (found.rows, found.right, found.constant) == (1000, 850, 760)
    assert found.error == math.sqrt(20 + 40 + 120 + 30)
    assert not found.no_better
    assert Accuracy.of_table(TABLE.sum(axis=1, keepdims=True)) is None  # without labels
    assert Accuracy.of_table(TABLE, 100.0).error == math.sqrt(210 + 4 * 100)


def test_a_model_that_is_no_better_is_called_so_as_often_as_it_should():
    # Right where the constant answer is wrong as often as the other way round.
    rng = np.random.default_rng(0)
    beaten = 0
    for _ in range(2000):
        gained, lost = rng.multinomial(1000, [0.05, 0.05, 0.9])[:2]
        table = np.array([[[800 - lost, lost], [200 - gained, gained]]])
        beaten += not Accuracy.of_table(table).no_better
    assert 0.03 < beaten / 2000 < 0.07
    assert stats.norm.isf(0.05) == pytest.approx(1.645, abs=1e-3)


def test_a_model_must_beat_every_label_and_not_the_one_that_is_most_frequent_by_chance():
    """Its accuracy is that of the label that truly is: at most .05 of tables may say more."""
    rng = np.random.default_rng(0)
    # By (label, answer): as accurate as the second label for everybody, .501.
    chances = [0.499, 0.0, 0.499, 0.002]
    assert chances[0] + chances[3] == pytest.approx(chances[2] + chances[3])
    better = by_one_label = 0
    for _ in range(2000):
        found = Accuracy.of_table(rng.multinomial(10_000, chances).reshape(1, 2, 2))
        better += not found.no_better
        # The broken twin: the error of the one label that won.
        (_, false), (missed, positive) = found.table
        first = found.table[0][0] + false >= missed + positive
        error = math.sqrt(max(positive + false if first else found.table[0][0] + missed, 1.0))
        by_one_label += found.right - found.constant >= 1.645 * error
    assert better <= 0.05 * 2000 + 4 * (0.05 * 0.95 * 2000) ** 0.5  # fails with a chance of 3e-5
    assert by_one_label > 0.3 * 2000


def test_a_model_that_is_worse_is_not_called_as_good():
    worse, alike = [[600, 100], [250, 50]], [[690, 10], [290, 10]]
    assert "NO BETTER THAN A CONSTANT: it is worse." in str(Accuracy.of_table(np.array([worse])))
    assert "the difference is within its error." in str(Accuracy.of_table(np.array([alike])))


@pytest.mark.parametrize("count_epsilon", [None, pytest.param(1.0, marks=pytest.mark.slow)])
def test_certificates_show_it(count_epsilon):
    rng = np.random.default_rng(0)
    y = (rng.random(2000) < 0.3).astype(int)
    X, groups = y[:, None] + rng.normal(scale=0.3, size=(2000, 1)), np.tile(["a", "b"], 1000)
    settings = dict(sensitive_features=groups, count_epsilon=count_epsilon, groups=["a", "b"])
    model = ThresholdClassifier((1.0,), 0.5).fit(X, y)
    good = certify(model, X, y, **settings)
    constant = certify(DummyClassifier().fit(X, y), X, y, **settings)
    assert good.accuracy.right / good.accuracy.rows == pytest.approx(0.95, abs=0.02)
    assert not good.nearly_constant
    assert constant.nearly_constant
    assert certify(model, X, **settings).accuracy is None
    for text in (str(constant), constant.to_html(), constant.to_model_card()):
        assert "NO BETTER THAN A CONSTANT" in text
    again = Certificate.from_json(constant.to_json())
    assert again.accuracy == constant.accuracy
    coin = certify(ThresholdClassifier((1.0,), 0.5).fit(X, y), X, y[::-1], **settings)
    assert "No better than a constant" in coin.to_html()
    assert "Nearly constant" not in coin.to_html()
    document = json.loads(constant.to_json()) | {"accuracy": {"rows": -1}}
    with pytest.raises(ValueError, match="certificate"):
        Certificate.from_json(json.dumps(document))
    with pytest.raises(ValueError, match="rows"):
        dataclasses.replace(constant.accuracy, rows=0)
