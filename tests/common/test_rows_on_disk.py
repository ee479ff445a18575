"""Every estimator reads rows from disk in parts, or refuses them before a charge."""

from __future__ import annotations

import pytest

from skfairdp import PrivacyLedger
from tests.common.roster import ANSWERING, EVERY, build, people
from tests.common.test_process_groups import IN_PARTS, exported, named_in
from tests.stored import ArrayRows

FROM_DISK = {
    name for name, (_, estimator) in EVERY.items() if getattr(estimator, "_from_disk", False)
}
# What is around a mechanism that reads them, and looks at no row itself.
AROUND_OTHERS = {*ANSWERING}


@pytest.mark.parametrize("name", sorted({*EVERY} - FROM_DISK - IN_PARTS - AROUND_OTHERS))
def test_rows_on_disk_are_refused_before_a_charge(name, tmp_path) -> None:
    X, y, groups = people()
    estimator, ledger = build(name), PrivacyLedger(tmp_path / "ledger.db")
    ledgers = [one for one in estimator.get_params() if one.rpartition("__")[2] == "ledger"]
    estimator.set_params(**{min(ledgers, key=len): ledger})
    with pytest.raises((TypeError, ValueError), match="in memory"):
        estimator.fit(ArrayRows(X), y, sensitive_features=groups)
    assert not ledger.entries()
    assert not [attribute for attribute in vars(estimator) if attribute.endswith("_")]


@pytest.mark.parametrize("name", sorted(FROM_DISK))
def test_answers_for_rows_on_disk_are_those_for_rows_in_memory(name) -> None:
    X, y, _ = people()
    fitted = build(name).fit(ArrayRows(X), y)
    answer = fitted.predict if hasattr(fitted, "predict") else fitted.transform
    rows, memory = answer(ArrayRows(X)), answer(X)
    assert rows.equals(memory) if hasattr(rows, "equals") else (rows == memory).all()


def test_the_documentation_lists_those_that_read_rows_from_disk_alone() -> None:
    public = {"PublicBinner"}  # which learns from no row
    listed = named_in("rows on disk alone work for", "Other estimators refuse")
    assert listed == public | exported(FROM_DISK - IN_PARTS)
