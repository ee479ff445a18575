"""Every estimator trains one model in all processes of a group, or refuses before a charge."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from skfairdp import PrivacyLedger
from tests.common.roster import EVERY, build, people
from tests.processes import as_one_of_two

SCALE = " ".join(
    (Path(__file__).parents[2] / "docs" / "scale.md").read_text(encoding="utf-8").split()
)
IN_PARTS = {name for name, (_, estimator) in EVERY.items() if estimator._in_parts}


@pytest.mark.parametrize("name", [name for name in EVERY if name not in IN_PARTS])
def test_a_process_group_is_refused_before_a_charge(name, monkeypatch, tmp_path) -> None:
    X, y, groups = people()
    estimator, ledger = build(name), PrivacyLedger(tmp_path / "ledger.db")
    for parameter in estimator.get_params():
        if parameter.rpartition("__")[2] == "ledger":
            estimator.set_params(**{parameter: ledger})
    as_one_of_two(monkeypatch)
    with pytest.raises(ValueError, match="is fitted by one process alone") as refused:
        estimator.fit(X, y, sensitive_features=groups)
    assert not ledger.entries()
    assert not [attribute for attribute in vars(estimator) if attribute.endswith("_")]
    own = "distributed" in estimator.get_params(deep=False)
    assert ("set distributed=None" in str(refused.value)) == own


def named_in(start: str, end: str) -> set[str]:
    """Names of estimators that the documentation lists between two phrases."""
    listed = SCALE.split(start)[1].split(end)[0]
    return set(re.findall(r"`(\w+)`", listed))


def exported(names: set[str]) -> set[str]:
    """Names of the exported classes behind some settings."""
    found = {type(EVERY[name][1]).__mro__ for name in names}
    return {next(c.__name__ for c in mro if c.__module__.startswith("skf")) for mro in found}


def test_the_documentation_lists_those_that_train_in_parts() -> None:
    listed = named_in("several processes work for", "rows on disk alone work for")
    assert exported(IN_PARTS) == listed
