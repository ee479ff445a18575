"""Common checks of every exported estimator: one fit, many checks."""

from __future__ import annotations

import inspect
import pickle
import warnings
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import has_fit_parameter

import skfairdp
from skfairdp import certify
from skfairdp.base import Certifiable, PrivateEstimator
from skfairdp.foundation.figures import significant_up
from tests.common import halves, roster
from tests.common.roster import EVERY, SETTINGS, build, exported, once, people, settings_of

every = roster.each(EVERY)
X, Y, GROUPS = people()


@cache
def stored(name: str) -> bytes:
    """A fitted estimator; each check gets a copy of its own."""
    return pickle.dumps(once(name))


def fitted(name: str) -> Any:
    return pickle.loads(stored(name))


def test_every_exported_estimator_is_under_these_checks() -> None:
    assert len(exported()) >= 17
    assert set(exported().values()) == set(SETTINGS)
    for kind, (_, settings) in SETTINGS.items():
        assert settings
        assert all(isinstance(estimator, kind) for estimator in settings.values())


@pytest.mark.parametrize("change", ["one more", "one less"])
def test_an_estimator_without_settings_is_found(change: str) -> None:
    package = ModuleType("skfairdp")
    names = list(skfairdp.__all__)
    vars(package).update({name: getattr(skfairdp, name) for name in names})
    if change == "one more":
        package.NewClassifier = type("NewClassifier", (BaseEstimator,), {})
        names.append("NewClassifier")
    else:
        names.remove("DPSGDClassifier")
    package.__all__ = names
    with pytest.raises(AssertionError, match="NewClassifier|DPSGDClassifier"):
        settings_of(package)


@every
def test_a_constructor_stores_its_parameters_and_nothing_else(name: str) -> None:
    estimator = build(name)
    parameters = estimator.get_params(deep=False)
    assert set(vars(estimator)) == set(parameters)
    assert set(inspect.signature(type(estimator)).parameters) == set(parameters)
    for parameter, value in clone(estimator).get_params(deep=False).items():
        assert type(value) is type(parameters[parameter])


@every
def test_no_row_is_in_a_pickle(name: str) -> None:
    for rows in (X, X.astype(np.float32)):
        kept = [row for row in rows if row[:2].tobytes() in stored(name)]
        assert not kept


@every
def test_a_certificate_states_what_the_estimator_states(name: str) -> None:
    model = fitted(name)
    assert isinstance(model, Certifiable)
    certificate = certify(model)
    texts = str(certificate), certificate.to_html(), certificate.to_model_card()
    assert all(type(model).__name__ in text for text in texts[1:])
    assert certificate.model_digest == certify(fitted(name)).model_digest
    for claim in certificate.fairness:
        assert any(claim.bound == own.bound for own in model._mechanism_fairness(claim.notion))


def rows_told(model: Any) -> list[str]:
    return [str(fact) for fact in certify(model).facts if "trained on" in fact.name]


@every
def test_a_certificate_tells_as_many_rows_as_there_were_or_none(name: str) -> None:
    kind, told = EVERY[name][0], rows_told(fitted(name))
    if kind == "around":  # of the rows that it drew
        assert [text.endswith(" (bought)") for text in told] == [True]
    else:
        assert told in ([], [f"{len(X)} (public)"])
        assert told or kind not in ("rows", "grouped", "attribute", "constrained")


@pytest.mark.parametrize("name", [*roster.ATTRIBUTE, "fair path"])
def test_so_it_does_where_groups_alone_are_protected(name: str) -> None:
    parameters = {} if name in roster.ATTRIBUTE else {"protects": "sensitive_features"}
    model = build(name, max_epochs=1, **parameters)
    rows = people(301)  # no multiple of the number of groups
    assert rows_told(model.fit(*rows[:2], sensitive_features=rows[2])) == ["301 (public)"]


@every
def test_a_new_fit_forgets_the_old_one_and_only_what_is_released_travels(name: str) -> None:
    model = fitted(name)
    assert isinstance(model, PrivateEstimator)
    model.left_over_ = 1
    assert model.fit(X, Y, sensitive_features=GROUPS) is model
    left = {attribute for attribute in vars(model) if attribute.endswith("_")}
    assert left <= set(model._released), f"{left - set(model._released)}"
    model.secret_ = X
    assert not hasattr(pickle.loads(pickle.dumps(model)), "secret_")


# Those of the roster that vote take halves of the rows, and fail before their fit begins.
@roster.each(name for name in EVERY if name not in roster.VOTING)
def test_a_fit_that_fails_leaves_nothing_behind(name: str) -> None:
    model = fitted(name)
    with pytest.raises((TypeError, ValueError)):
        model.fit(X[:, 0], Y, sensitive_features=GROUPS)
    assert not [attribute for attribute in vars(model) if attribute.endswith("_")]


# These train without groups, or get those that they compare in another way.
GROUPS_ARE_OPTIONAL = {
    "AbstainingClassifier",
    "DPAdditiveClassifier",
    "DPAdditiveRegressor",
    "DPSGDClassifier",
    "DPSGDRegressor",
    "FairPATEClassifier",
    "FunctionalMechanismClassifier",
    "LaplaceTransformer",
    "PATEClassifier",
    "PrivateFairEncoder",
    "PrivateTableEncoder",
    "PrivateThinningClassifier",
    "SmoothedClassifier",
}


@pytest.mark.parametrize("kind", [*exported().values()], ids=lambda kind: kind.__name__)
def test_who_needs_groups_and_gets_none_says_so_before_any_charge(kind: type, tmp_path) -> None:
    estimators = [clone(one) for one in SETTINGS[kind][1].values()]
    needing = [one for one in estimators if one._needs_groups is not None]
    assert (len(needing) == len(estimators)) == (kind.__name__ not in GROUPS_ARE_OPTIONAL)
    for estimator in needing:
        if takes_ledger(estimator):
            estimator.set_params(ledger=tmp_path / "ledger.db")
        if roster.SETTINGS[kind][0] == "voting":  # which makes up groups
            estimator = kind(ledger=tmp_path / "ledger.db")
        with pytest.raises(
            ValueError, match=rf"{type(estimator).__name__} got sensitive_features=None, and n"
        ):
            estimator.fit(X, Y)
        assert not [*tmp_path.iterdir()]
        assert not hasattr(estimator, "privacy_")


@pytest.mark.parametrize("kind", [*exported().values()], ids=lambda kind: kind.__name__)
def test_weights_of_rows_are_refused_with_the_reason_and_not_claimed(kind: type, tmp_path) -> None:
    assert not has_fit_parameter(kind, "sample_weight")
    assert "sensitive_features" in inspect.signature(kind.fit).parameters
    (estimator,) = [clone(one) for one in [*SETTINGS[kind][1].values()][:1]]
    with pytest.raises(TypeError, match=r"fit takes no sample_weight: .* Leave it out\."):
        estimator.fit(X, Y, sensitive_features=GROUPS, sample_weight=np.ones(len(X)))
    with pytest.raises(TypeError, match=r"takes no groups. .* as sensitive_features=\."):
        estimator.fit(X, Y, groups=GROUPS)
    assert not hasattr(estimator, "privacy_")
    if hasattr(estimator, "fit_transform"):
        with pytest.raises(TypeError, match="takes no sample_weight"):
            estimator.fit_transform(X, Y, sample_weight=np.ones(len(X)))


@roster.each(name for name in EVERY if name not in roster.VOTING)
def test_a_second_fit_without_a_ledger_is_warned_of_and_that_of_a_clone_is_not(
    name: str, tmp_path
) -> None:
    model = fitted(name)
    spent = getattr(model, "training_privacy_", certify(model).privacy)
    costs = spent is not None and not spent.is_void and model._learns_from_rows
    with_ledger = fitted(name).set_params(ledger=tmp_path / "l.db") if takes_ledger(model) else None
    for again, warned in ((model, costs), (clone(model), False), (with_ledger, False)):
        if again is None:
            continue
        assert len(told_of_another_fit(again)) == warned


def told_of_another_fit(model: Any) -> list[str]:
    """What is said of another fit, on rows that no fit takes."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with pytest.raises((TypeError, ValueError)):
            model.fit(X[:, 0], Y[:-1], sensitive_features=GROUPS)
    told = [w for w in caught if "called again without a ledger" in str(w.message)]
    # The line that called fit, or that of a subclass made for these tests.
    assert {w.filename for w in told} <= {__file__, halves.__file__}
    return [str(w.message) for w in told]


@pytest.mark.parametrize("name", roster.RELEASING)
def test_so_is_one_after_releases_which_the_next_fit_does_not_count(name: str, tmp_path) -> None:
    plain, counted = fitted(name), fitted(name).set_params(ledger=tmp_path / "l.db")
    for model in (plain, counted):
        for _ in range(2):
            model.transform(X[:5], sensitive_features=GROUPS[:5])
    of_fit = getattr(plain, "training_privacy_", None)
    spent = plain.privacy_ if of_fit is None or of_fit.is_void else of_fit
    (said,) = told_of_another_fit(plain)
    assert f" the first was ε = {significant_up(spent.epsilon)}. " in said
    assert not told_of_another_fit(counted)


def takes_ledger(model: Any) -> bool:
    return "ledger" in model.get_params(deep=False)


def test_kinds_are_those_of_the_roster() -> None:
    kinds = {kind for kind, _ in SETTINGS.values()}
    assert roster.of(*kinds) == {name: estimator for name, (_, estimator) in EVERY.items()}
