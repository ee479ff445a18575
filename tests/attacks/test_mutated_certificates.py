"""Every leaf of a certificate is changed, for every kind of bound; no changed claim verifies."""

from __future__ import annotations

import json
import pickle
import warnings
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from skfairdp import (
    AbstainingClassifier,
    Certificate,
    DPSGDClassifier,
    DPSGDRegressor,
    FairDPClassifier,
    FunctionalMechanismClassifier,
    PrivateFairEncoder,
    SmoothedClassifier,
    certify,
)
from skfairdp.base import fitted_state
from skfairdp.fairness.kinds import KINDS
from skfairdp.fairness.notions import NOTIONS
from skfairdp.fairness.scopes import SCOPES
from skfairdp.receipts import unwrap
from tests.certificate.forged import forged_text

RNG = np.random.default_rng(0)
N = 2000
X = RNG.normal(size=(N, 3))
GROUPS = np.where(RNG.random(N) < 0.4, "a", "b")
Y = (X[:, 0] + 0.3 * (GROUPS == "a") + RNG.normal(size=N) > 0).astype(int)
FIT, HELD = slice(0, N // 2), slice(N // 2, None)
FAST: dict[str, Any] = {"epsilon": 1.0, "max_epochs": 2, "delta": 1e-5, "progress": False}

# Leaves that are no claim: how a bound came about in words, conditions and remarks, which no
# file can prove, and the circumstances.
WORDS = ("accountant", "method", "assumptions", "remarks", "created", "library_versions", "format")
# An error may be stated too large. Releases of rows go on after the certificate, so that a model
# has spent more than it says: how often it was called is not compared.
WEAKER = (("accuracy", "error"),)
OF_RELEASES = (("privacy", "event"), ("privacy", "exposures"))


# Of predicted numbers a file holds moments, not counts by group: names of groups, single
# observations of 1/200 of the rows, and errors of errors do not change the recomputed bound. The
# theory page of certificates about numbers says so; a signature protects them.
OF_NUMBERS = ("groups", "words", "derivation", "errors")


def fitted(model: Any) -> Any:
    return model.fit(X[FIT], Y[FIT], sensitive_features=GROUPS[FIT])


def held(model: Any, labels: bool = True, **settings: Any) -> tuple[Any, Certificate]:
    y = {"y": Y[HELD]} if labels else {}
    if "count_epsilon" not in settings:
        settings |= {"holdout": "public"}
    return model, certify(model, X[HELD], **y, sensitive_features=GROUPS[HELD], **settings)


def noisy() -> tuple[Any, Certificate]:
    notion = ["demographic_parity", "equalized_odds"]
    model = fitted(DPSGDClassifier(**FAST))
    return held(model, notion=notion, count_epsilon=0.5, groups=["a", "b"])


def group_models() -> Any:
    bounds: Any = (-6.0, 6.0)
    return FunctionalMechanismClassifier(
        bounds, objective="group_average", releases="group_models", delta=1e-5
    )


def answering() -> tuple[Any, Certificate]:
    model = fitted(AbstainingClassifier(LogisticRegression(), tolerance=0.3, cold_start=20))
    model.predict(X[HELD], sensitive_features=GROUPS[HELD])
    return model, certify(model)


def releasing() -> tuple[Any, Certificate]:
    encoder = fitted(
        PrivateFairEncoder(
            objective="fair_codes", noise="randomized_response", max_epochs=2, progress=False
        )
    )
    return encoder, encoder.certify(X[HELD], sensitive_features=GROUPS[HELD], holdout="public")


def numbers(notion: Any, **settings: Any) -> tuple[Any, Certificate]:
    """A regressor on 200 rows, so that each leaf of its counts is tried in a short time."""
    y = np.clip(X[:, 0], -2.0, 2.0)
    model = DPSGDRegressor(target_bounds=(-2.0, 2.0), **FAST).fit(X[FIT], y[FIT])
    few = slice(N // 2, N // 2 + 200)
    if "count_epsilon" not in settings:
        settings |= {"holdout": "public"}
    settings = {"sensitive_features": GROUPS[few], "notion": notion, **settings}
    return model, certify(model, X[few], y[few], **settings)


MADE = {
    "means of numbers": lambda: numbers("mean_gap"),
    "distributions of numbers": lambda: numbers("distribution_gap"),
    "noisy distributions": lambda: numbers(
        "distribution_gap", count_epsilon=1.0, groups=["a", "b"]
    ),
    "noisy counts": noisy,
    "averages": lambda: held(fitted(SmoothedClassifier(group_models(), std=5.0))),
    "two notions": lambda: held(
        fitted(SmoothedClassifier(FunctionalMechanismClassifier((-6.0, 6.0)), std=5.0)),
        notion=["equal_opportunity", "accuracy_parity"],
    ),
    "last step": lambda: held(fitted(FairDPClassifier(**FAST)), labels=False),
    "answers": answering,
    "release": releasing,
}


@cache
def issued(name: str) -> tuple[Any, str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model, certificate = MADE[name]()
    return model, certificate.to_json()


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    if isinstance(value, dict | list):
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(part, (*path, key))
    else:
        yield path, value


def others(path: tuple[Any, ...], value: Any) -> list[Any]:
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int | float):
        return [value * 0.5, value * 2, value + 1, 0, None]
    if isinstance(value, str):
        known = {"scope": SCOPES, "notion": NOTIONS}.get(path[-1], ("x",))
        return [other for other in known if other != value]
    return [0.5, "x"]


def put(document: Any, path: tuple[Any, ...], value: Any, *, digest: bool = True) -> Any:
    """Change a leaf, as a forger does who writes the digest of the contents anew, or as an editor.

    `digest`: False for the editor.
    """
    forged = pickle.loads(pickle.dumps(document))  # a copy, in a tenth of the time
    place = forged
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return json.loads(forged_text(forged)) if digest else forged


def verified(document: Any, model: Any) -> bool:
    """Whether a file is read, verifies, and all its figures follow."""
    try:
        certificate = Certificate.from_json(json.dumps(document))
        return certificate.verify(model) and not certificate.examine().missing
    except (ValueError, TypeError, KeyError):
        return False


@pytest.fixture
def models_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Digest each model once: files change here, and models do not."""
    known: dict[tuple[int, ...], tuple[Any, Any]] = {}
    of_models, unchanged = unwrap.bind, fitted_state.changes

    def bind(parts: list[Any]) -> Any:
        key = tuple(map(id, parts))
        if key not in known:
            known[key] = parts, of_models(parts)
        return known[key][1]

    def changes(kept: Any, parts: Any) -> tuple[str, ...]:
        key = (id(kept), *(id(getattr(part, "of", part)) for part in parts.values()))
        if key not in known:
            known[key] = (kept, *parts.values()), unchanged(kept, parts)
        found: tuple[str, ...] = known[key][1]
        return found

    monkeypatch.setattr(unwrap, "bind", bind)
    monkeypatch.setattr(fitted_state, "changes", changes)


def unnoticed(name: str, free: tuple[str, ...] = ()) -> list[tuple[tuple[Any, ...], Any]]:
    """Leaves that a forger can change, and to what."""
    model, text = issued(name)
    document = json.loads(text)
    assert verified(document, model)
    found, spared = [], WEAKER + OF_RELEASES * (name == "release")
    for path, value in leaves(document):
        if any(word in path for word in (*WORDS, *free)) or path[:2] in spared:
            continue
        if path == ("content_digest",):  # which a forger writes anew
            continue
        for other in others(path, value):
            # 1 and True, 1.0 and 1 are one value.
            if other != value and verified(put(document, path, other), model):
                found.append((path, other))
    return found


@pytest.mark.slow
@pytest.mark.usefixtures("models_stay")
@pytest.mark.parametrize("name", MADE)
def test_no_changed_leaf_of_a_claim_verifies(name: str) -> None:
    # A larger epsilon or delta than the events cost is a weaker claim.
    weaker = {("privacy", "epsilon"), ("privacy", "delta")}
    free = OF_NUMBERS if "numbers" in name or name == "noisy distributions" else ()
    found = [one for one in unnoticed(name, free) if one[0] not in weaker]
    assert found == []


@pytest.mark.slow
@pytest.mark.usefixtures("models_stay")
@pytest.mark.parametrize("name", MADE)
def test_no_edited_leaf_verifies_not_even_one_that_is_no_claim(name: str) -> None:
    model, text = issued(name)
    document = json.loads(text)
    for path, value in leaves(document):
        for other in others(path, value):
            edited = put(document, path, other, digest=False)
            # 1 and True, 1.0 and 1 are one value here, and others in the file.
            assert other == value or not verified(edited, model), (path, other)


@pytest.mark.slow
def test_every_kind_of_bound_is_among_them() -> None:
    texts = (json.loads(issued(name)[1]) for name in MADE)
    found = {claim["derivation"]["kind"] for text in texts for claim in text["fairness"]}
    assert found == set(KINDS)


def test_a_notion_of_another_claim_is_found() -> None:
    """Two bounds of .07 on selection rates passed for bounds on both error rates."""
    model, text = issued("averages")
    document = json.loads(text)
    places = [at for at, c in enumerate(document["fairness"]) if c["scope"] != "deployed model"]
    assert len(places) >= 2
    for at in places:
        for notion in set(NOTIONS) - {"demographic_parity"}:
            forged = put(document, ("fairness", at, "notion"), notion)
            certificate = Certificate.from_json(json.dumps(forged))
            assert not certificate.verify(model)
            assert not certificate.examine().holds
