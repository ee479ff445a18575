"""A quote, made without rows, is what the fit on such rows then charges, bit for bit."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

import skfairdp
from skfairdp import PrivacyLedger
from tests.common.roster import EVERY, build, each, people

# They have public rows, which are half of those that a fit gets, or no fit that costs anything.
HALVES = {name for name, (kind, _) in EVERY.items() if kind == "voting"}


def facts_of(name: str, model: Any) -> dict[str, Any]:
    """What is public of `people`, for an estimator."""
    X, _, groups = people()
    labels, counts = np.unique(groups, return_counts=True)
    if name in HALVES:  # every other row is public
        labels, counts = np.unique(groups[::2], return_counts=True)
    facts: dict[str, Any] = {
        "groups": dict(zip(labels.tolist(), counts.tolist(), strict=True)),
        "n_features": X.shape[1],
        "classes": ["no", "yes"],
    }
    if name == "fair path, three classes":
        facts["classes"] = ["no", "perhaps", "yes"]
    if name in HALVES:
        facts |= {"n_public": len(X) - len(X[::2])}
    return facts


def with_ledger(model: Any, ledger: PrivacyLedger) -> Any:
    inner = getattr(model, "estimator", None)
    if "ledger" in model.get_params(deep=False):
        return model.set_params(ledger=ledger)
    if inner is not None and hasattr(inner, "get_params") and "ledger" in inner.get_params():
        model.set_params(estimator__ledger=ledger)
    return model


@each(EVERY)
def test_the_quote_is_what_the_fit_charges(name: str, tmp_path: Any) -> None:
    X, y, groups = people()
    ledger = PrivacyLedger(tmp_path / "spent.db")
    model = with_ledger(build(name), ledger)
    declared = {"classes": ["no", "yes"]} if name in HALVES else {}  # as the halves do
    quoted = clone(model).set_params(**declared).quote(**facts_of(name, model))
    assert not ledger.path.exists()  # a quote writes nothing
    assert not hasattr(model, "privacy_")
    model.fit(X, y, sensitive_features=groups)
    entries = ledger.entries() if ledger.path.exists() else ()
    assert [quoted.charge] * (quoted.charge is not None) == [e.guarantee for e in entries]
    if quoted.charge is not None:
        (entry,) = entries
        assert entry.guarantee.to_dict() == quoted.charge.to_dict()
    plan = getattr(model, "plan_", None) or getattr(
        getattr(model, "estimator_", None), "plan_", None
    )
    if quoted.expected_plan is None:
        assert quoted.plan == plan
    if quoted.noise_multiplier is not None and hasattr(model, "noise_multiplier_"):
        assert quoted.noise_multiplier == model.noise_multiplier_
    if not hasattr(model, "releases_"):
        stated = getattr(model, "privacy_", None) or model.estimator_.privacy_
        assert (quoted.epsilon, quoted.delta) == (stated.epsilon, stated.delta)
        assert quoted.privacy.adjacency == stated.adjacency
        assert quoted.privacy.protects == stated.protects


@pytest.mark.parametrize("name", ["DP-SGD", "additive", "DP-SGD, numbers", "FairDP"])
def test_a_quote_refuses_the_noise_that_a_fit_refuses(name: str, tmp_path: Any) -> None:
    """So large an epsilon leaves less noise than exact noise is proved for."""
    X, y, groups = people()
    ledger = PrivacyLedger(tmp_path / "spent.db")
    model = build(name, epsilon=100.0, ledger=ledger)
    said = []
    for attempt in (
        lambda: model.quote(**facts_of(name, model)),
        lambda: model.fit(X, y, sensitive_features=groups),
    ):
        with pytest.raises(ValueError, match="Exact noise is proved for noise multipliers") as why:
            attempt()
        said.append(str(why.value))
    assert said[0] == said[1]
    assert not ledger.path.exists()
    assert build(name, epsilon=100.0, exact_noise=False).quote(**facts_of(name, model)).plan


@each(EVERY)
def test_a_quote_prints_as_text_html_and_json(name: str) -> None:
    model = build(name)
    quoted = model.quote(**facts_of(name, model))
    assert quoted.estimator in str(quoted)
    shown = quoted._repr_html_()
    assert shown.startswith("<div>")
    assert shown.count("<th scope=") == shown.count("<th ")
    assert shown.count("<caption>") == shown.count("<table")
    assert json.loads(json.dumps(quoted.to_dict()))["n_records"] == quoted.facts.n
    for release in quoted.releases:
        assert release.name in str(quoted)


def test_a_broken_quote_is_noticed(tmp_path: Any) -> None:
    """The check works: other facts give another charge."""
    X, y, groups = people()
    model = build("FairDP").set_params(ledger=PrivacyLedger(tmp_path / "spent.db"))
    quoted = model.quote(groups={"a": 201, "b": 99})
    model.fit(X, y, sensitive_features=groups)
    assert quoted.charge != model.ledger.entries()[0].guarantee
    assert quoted.plan != model.plan_


WITHOUT_TORCH = """
import sys
import numpy as np
import skfairdp
estimators = [
    value
    for name in skfairdp.__all__
    if name not in {"fit_many", "default_net"}
    and isinstance(value := getattr(skfairdp, name), type)
    and hasattr(value, "quote")
]
facts = {"groups": {"f": 9_000, "m": 21_000}, "n_features": 5, "n_public": 2_000}
given = {
    "AbstainingClassifier": [skfairdp.DPSGDClassifier()],
    "FunctionalMechanismClassifier": [(-4, 4)],
    "PrivateThinningClassifier": [skfairdp.DPSGDClassifier()],
    "SmoothedClassifier": [skfairdp.FunctionalMechanismClassifier((-4, 4))],
    "PrivateFairEncoder": [],
}
for kind in estimators:
    quoted = kind(*given.get(kind.__name__, [])).quote(**facts)
    print(kind.__name__, len(str(quoted)))
found = {"torch", "skorch"} & set(sys.modules)
assert not found, found
"""


@pytest.mark.slow
def test_every_estimator_is_quoted_without_torch() -> None:
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", WITHOUT_TORCH],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    quoted = {line.split()[0] for line in ran.stdout.splitlines()}
    public = {*skfairdp.__all__}
    named = ([kind.__name__ for kind in type(model).__mro__] for _, model in EVERY.values())
    assert quoted == {next(name for name in names if name in public) for names in named}
