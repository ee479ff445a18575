"""Held-out rows: the positive label, and groups that a certificate cannot hold."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.dummy import DummyClassifier

from skfairdp import FairDPClassifier, certify
from skfairdp.certificate.holdout import GroupedRows, HeldOut
from skfairdp.fairness.guarantee import FairnessGuarantee
from skfairdp.fairness.notions import NOTIONS
from skfairdp.fairness.scopes import TRAINING
from skfairdp.privacy import PrivacyLedger
from skfairdp.protocol import Certifiable
from skfairdp.records.groups import encode_groups

NOTIONS_OF_TWO = ["demographic_parity", "equal_opportunity", "equalized_odds", "accuracy_parity"]
RNG = np.random.default_rng(0)
X = RNG.normal(size=(600, 2))
GROUPS = np.where(RNG.random(600) < 0.4, "a", "b")
TRUTH = X[:, 0] + 0.5 * (GROUPS == "a") + RNG.normal(size=600) > 0.0


class Above(Certifiable, ClassifierMixin, BaseEstimator):
    """Answers by the sign of the first column; promises equal opportunity in training."""

    def __init__(self, names: tuple[str, str] = ("no", "yes")) -> None:
        self.names = names

    def fit(self, X: Any, y: Any = None) -> Above:
        """Fit."""
        self.classes_ = np.unique(self.names)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Predict."""
        return np.where(np.asarray(X)[:, 0] > 0.0, self.names[1], self.names[0])

    def _success_scores(self, X: Any) -> np.ndarray:
        upper = np.where(np.asarray(X)[:, 0] > 0.0, 0.9, 0.2)
        return upper if self.names[1] == self.classes_[1] else 1.0 - upper

    def _mechanism_fairness(self, notion: str) -> list[FairnessGuarantee]:
        return [FairnessGuarantee(notion=notion, bound=0.5, scope=TRAINING, method="said")]


@pytest.mark.parametrize("private", [False, True])
def test_rates_are_those_of_the_positive_class_wherever_it_is_sorted(private: bool) -> None:
    """The same answers under names that sort the other way round."""
    found = []
    for names in (("no", "yes"), ("refused", "approved")):
        bought = {"count_epsilon": 1e3, "groups": ["a", "b"]}
        asked: dict[str, Any] = bought if private else {"holdout": "public"}
        found.append(
            certify(
                Above(names).fit(X),
                X,
                np.where(TRUTH, names[1], names[0]),
                sensitive_features=GROUPS,
                notion=NOTIONS_OF_TWO,
                pos_label=names[1],
                **asked,
            )
        )
    usual, turned = ([c for c in each.fairness if c.scope != TRAINING] for each in found)
    assert len(usual) == len(turned) == (4 if private else 8)
    for one, other in zip(usual, turned, strict=True):
        assert (one.notion, one.scope) == (other.notion, other.scope)
        assert one.bound == pytest.approx(other.bound, abs=2e-3 if private else 1e-12)
        rates = [[c.successes / c.trials for c in claim.counts] for claim in (one, other)]
        if one.notion != "equalized_odds":  # whose two rates come in the other order
            assert rates[0] == pytest.approx(rates[1], abs=1e-2 if private else 1e-12)
        assert any("The positive outcome is 'approved'" in text for text in other.assumptions)
    promised = {c.notion for c in found[1].fairness if c.scope == TRAINING}
    assert promised == {*NOTIONS_OF_TWO} - {"equal_opportunity"}


def test_only_one_of_two_known_classes_can_be_positive() -> None:
    for wrong in ("maybe", 1):
        with pytest.raises(ValueError, match="must be one of two classes"):
            certify(Above().fit(X), pos_label=wrong)
    assert [name for name in NOTIONS if NOTIONS[name].alike_for_both] == [
        "demographic_parity",
        "equalized_odds",
        "accuracy_parity",
    ]


def test_averages_are_turned_with_the_classes() -> None:
    answers, cells = np.array([1, 0]), np.array([0, 1])
    rows = GroupedRows(None, ["b", "a"], None, encode_groups(["a", "a"], n_rows=2))
    held = HeldOut(["b", "a"], answers, cells, (1, 2, 2), "", rows, turned=True)
    assert held.averaged([0.75, 0.75]).tolist() == [[[0.75, 0.25], [0.75, 0.25]]]


def test_held_out_rows_show_nothing_in_their_text() -> None:
    rows = GroupedRows([["secret"]], ["secret"], ["secret"], encode_groups(["secret"], n_rows=1))
    none = np.array([], dtype=np.int64)
    held = HeldOut(["secret"], none, none, (1, 1, 1), "", rows)
    assert "secret" not in repr(rows) + repr(held)


@pytest.mark.parametrize(
    "labels",
    [(date(2026, 1, 1), "2026-01-01"), (b"a", "b'a'"), ("a", "\ud800"), (1.0, float("inf"))],
    ids=ascii,
)
def test_groups_that_a_certificate_cannot_hold_cost_nothing(labels: Any, tmp_path: Path) -> None:
    X, groups = np.zeros((40, 1)), np.empty(40, dtype=object)
    groups[::2], groups[1::2] = labels
    model = DummyClassifier().fit(X, np.tile([0, 1], 20))
    ledger = PrivacyLedger(tmp_path / "spent.db")
    with pytest.raises(ValueError, match=r"cannot be distinguished.*Give each group a text"):
        certify(model, X, sensitive_features=groups, count_epsilon=1.0, groups=labels,
                ledger=ledger)  # fmt: skip
    assert ledger.entries() == ()


def test_a_fit_refuses_a_group_that_no_file_holds(tmp_path: Path) -> None:
    X, groups = np.random.default_rng(0).normal(size=(40, 2)), ["a", "\ud800"] * 20
    ledger = PrivacyLedger(tmp_path / "spent.db")
    model = FairDPClassifier(max_epochs=1, delta=1e-3, progress=False, ledger=ledger)
    with pytest.raises(ValueError, match=r"cannot write the group label '\\ud800'"):
        model.fit(X, X[:, 0] > 0, sensitive_features=groups)
    assert ledger.entries() == ()
