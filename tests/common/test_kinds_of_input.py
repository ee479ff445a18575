"""The same rows in any container give the same model."""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.base import is_regressor
from sklearn.utils import get_tags

from skfairdp import FairDPClassifier, GapMonitor, PrivacyLedger, PublicRows, certify
from skfairdp.aggregation.query_rows import queries_of
from skfairdp.exceptions import UnknownGroupError
from skfairdp.model_selection import PrivateSearchCV, specify
from tests.common.roster import (
    EVERY,
    FAST,
    FIRST,
    SETTINGS,
    build,
    build_small,
    costs_of,
    each,
    every_class,
    every_estimator,
    once,
    people,
)

CONTAINERS = {
    "lists": (np.ndarray.tolist, list, list),
    "float32": (lambda X: X.astype(np.float32), np.asarray, np.asarray),
    "Fortran order": (np.asfortranarray, np.asarray, np.asarray),
    "pandas": (
        lambda X: pd.DataFrame(X, columns=list("pqrs"), index=np.arange(len(X)) + 3),
        lambda y: pd.Series(y, index=np.arange(len(y)) + 7),
        lambda groups: pd.Series(groups, dtype="category"),
    ),
    "objects": (
        lambda X: X.astype(object),
        lambda y: y.astype(object),
        lambda groups: pd.DataFrame({"group": groups}),
    ),
}


@cache
def on_single_precision(name: str) -> Any:
    X, y, groups = people()
    model = build(name, random_state=0, reproducible_noise=True)
    return model.fit(X.astype(np.float32).astype(np.float64), y, sensitive_features=groups)


@every_class
@pytest.mark.parametrize("container", CONTAINERS)
def test_containers_do_not_matter(name: str, container: str) -> None:
    X, y, groups = people()
    # float32 rows in all containers: conversions are exact then.
    X = X.astype(np.float32).astype(np.float64)
    convert_X, convert_y, convert_groups = CONTAINERS[container]
    plain = on_single_precision(name)
    other = build(name, random_state=0, reproducible_noise=True)
    other.fit(convert_X(X), convert_y(y), sensitive_features=convert_groups(groups))
    assert other.groups_ == ("a", "b")
    assert np.array_equal(plain.predict_proba(X), other.predict_proba(convert_X(X)))
    assert other.predict_proba(convert_X(X)).dtype == np.float64


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            name, marks=pytest.mark.slow if kind in ("rows", "grouped") or name not in FIRST else ()
        )
        for name, (kind, _) in EVERY.items()
        if name not in ("DP-SGD", "FairDP")
    ]
    + ["DP-SGD", "FairDP"],
)
def test_sparse_rows_are_taken_or_refused_before_a_charge(name: str, tmp_path: Path) -> None:
    X, y, groups = people()
    X = np.where(np.abs(X) > 1, X, 0.0)
    model, taken = build(name), get_tags(EVERY[name][1]).input_tags.sparse
    around = "estimator__" if name == "abstaining" else ""
    repeat = {f"{around}random_state": 0, f"{around}reproducible_noise": True} if taken else {}
    ledger = PrivacyLedger(tmp_path / "ledger.json")
    ledgers = [key for key in model.get_params() if key.rpartition("__")[2] == "ledger"]
    charged = dict.fromkeys(sorted(ledgers, key=len)[:1], ledger)  # the outermost
    model.set_params(**charged, **repeat)
    if not taken:
        with pytest.raises((TypeError, ValueError), match=r"dense.*X\.toarray\(\)"):
            model.fit(csr_array(X), y, sensitive_features=groups)
        assert not ledger.entries()
        return
    dense = build(name, **repeat).fit(X, y, sensitive_features=groups)
    model.fit(csr_array(X), y, sensitive_features=groups)
    assert len(ledger.entries()) == 1
    model, dense = (one.estimator_ if around else one for one in (model, dense))
    assert model.plan_ == dense.plan_
    if is_regressor(model):
        assert np.array_equal(model.predict(csr_array(X)), dense.predict(X))
        return
    assert np.array_equal(model.predict_proba(csr_array(X)), dense.predict_proba(X))
    sparse = certify(
        model, csr_array(X), y, sensitive_features=groups, ledger=None, holdout="public"
    )
    same = certify(model, X, y, sensitive_features=groups, certificate_index=1, holdout="public")
    assert [claim.bound for claim in sparse.fairness] == [claim.bound for claim in same.fairness]


def in_pandas() -> dict[str, Any]:
    """Rows, labels, groups and ids of which all are indexed alike."""
    X, y, groups = people()
    table = pd.DataFrame(X, index=np.arange(len(X)) + 5)
    columns = {"y": y, "sensitive_features": groups, "person_ids": np.arange(len(X))}
    return {"X": table} | {n: pd.Series(c, index=table.index) for n, c in columns.items()}


@pytest.mark.parametrize("kind", SETTINGS)
def test_an_index_in_another_order_is_refused_before_a_charge(kind: type, tmp_path: Path) -> None:
    given = in_pandas()
    ledger = PrivacyLedger(tmp_path / "ledger.json")
    model = kind(**next(iter(SETTINGS[kind][1].values())).get_params(deep=False))
    if "ledger" in model.get_params():
        model.set_params(ledger=ledger)
    with pytest.raises(ValueError, match=r"'X' and 'y' .*y\.loc\[X\.index\].*y\.to_numpy\(\)"):
        model.fit(given["X"], given["y"][::-1], sensitive_features=given["sensitive_features"])
    assert not ledger.entries()


@pytest.mark.parametrize("turned", ["y", "sensitive_features", "person_ids"])
def test_an_index_in_another_order_is_refused_of_every_argument(turned: str) -> None:
    given = in_pandas()
    given[turned] = given[turned].sample(frac=1.0, random_state=0)
    for ask in (build("DP-SGD").fit, partial(certify, once("DP-SGD"), holdout="public")):
        with pytest.raises(ValueError, match=f"'X' and '{turned}' hold the same labels"):
            ask(**given)
        others = given | {"X": given["X"].to_numpy()}
        with pytest.raises(ValueError, match=f"'{turned}'.* hold the same labels"):
            ask(**others)


def test_an_index_in_another_order_is_refused_of_what_is_asked_later(tmp_path: Path) -> None:
    X, y, groups = people()
    table = pd.DataFrame(X, index=np.arange(len(X)) + 5)
    turned = pd.Series(groups, index=table.index)[::-1]
    answering = build("abstaining").fit(X, y, sensitive_features=groups)
    public = PublicRows(table, turned)
    named, seen = {"sensitive_features": turned}, PrivacyLedger(tmp_path / "ledger.db")
    found = {**named, "epsilon": 1.0, "tolerance": 0.1, "ledger": seen}
    search = PrivateSearchCV(build("DP-SGD"), {"max_grad_norm": [0.5, 1.0]}, ledger=seen)
    for ask in (
        partial(specify, build("DP-SGD"), [{}], table, y, **found),
        partial(search.fit, table, y, **named),
        partial(GapMonitor().update, table[0] > 0, turned),
        partial(build("Laplace noise").fit(X).transform, table, ids=turned),
        partial(answering.predict, table, **named),
        partial(queries_of, once("DP-SGD"), public),
    ):
        with pytest.raises(ValueError, match="hold the same labels in another order"):
            ask()
    assert not seen.entries()


def test_an_index_that_says_nothing_about_places_is_paired_by_place() -> None:
    X, _, groups = people()
    given = in_pandas()
    table, column = given["X"], given["sensitive_features"]
    bound = (
        certify(once("DP-SGD"), X, sensitive_features=groups, holdout="public").fairness[0].bound
    )
    numbers = np.arange(len(X))
    for index in (numbers, numbers[::-1], numbers % 7, numbers.astype(str), [numbers, numbers]):
        renamed = pd.Series(column.to_numpy(), index=index)
        claim = certify(
            once("DP-SGD"), table, sensitive_features=renamed, holdout="public"
        ).fairness[0]
        assert claim.bound == bound
    with pytest.raises(ValueError, match="sensitive_features has another number of rows"):
        certify(once("DP-SGD"), table, sensitive_features=column[:-1], holdout="public")


@every_estimator
@pytest.mark.parametrize(
    ("labels", "values"),
    [(["no", "yes"], ["a", "b"]), ([False, True], [1, 0]), ([-1, 3], [True, False])],
    ids=str,
)
def test_labels_and_groups_of_any_type(name: str, labels: list, values: list) -> None:
    X, y, groups = people()
    y = np.array(labels)[(y == "yes").astype(int)]
    groups = np.array(values)[(groups == "b").astype(int)]
    model = build(name, **costs_of(name, labels)).fit(X, y, sensitive_features=groups)
    assert model.classes_.tolist() == labels
    assert model.groups_ == tuple(sorted(values))
    assert model.predict(X).dtype == y.dtype
    assert set(model.predict(X).tolist()) <= set(labels)
    probability = model.predict_proba(X)
    assert probability.shape == (len(X), 2)
    assert probability.dtype == np.float64
    assert np.allclose(probability.sum(axis=1), 1.0)
    claim = certify(model, X, sensitive_features=groups, holdout="public").fairness[0]
    assert claim.groups == model.groups_
    assert claim.estimate <= claim.bound <= 1.0


@every_class
def test_two_attributes_mean_their_intersections(name: str) -> None:
    X, y, groups = people()
    both = pd.DataFrame({"sex": groups, "age": np.where(np.arange(300) % 2, "old", "young")})
    model = build(name).fit(X, y, sensitive_features=both)
    expected = (("a", "old"), ("a", "young"), ("b", "old"), ("b", "young"))
    assert model.groups_ == expected
    assert (
        certify(model, X, sensitive_features=both, holdout="public").fairness[0].groups == expected
    )
    if name == "FairDP":
        assert set(model.privacy_.per_group) == set(expected)


# Many values by mistake, such as incomes, and many intersections of columns with few.
_ROWS = np.arange(300)
MANY = {"numbers": _ROWS * 97.5, "columns": np.stack([_ROWS % 21, _ROWS % 20], axis=1)}


@each(name for name in EVERY if name not in ("table", "Laplace noise"))
@pytest.mark.parametrize("many", MANY)
def test_many_undeclared_groups_are_refused_before_a_charge(
    name: str, many: str, tmp_path: Path
) -> None:
    X, y, _ = people()
    ledger = PrivacyLedger(tmp_path / "ledger.json")
    model = build(name)
    if "ledger" in model.get_params():
        model.set_params(ledger=ledger)
    with pytest.raises(ValueError, match=r"holds (150|300) different groups.*pandas\.cut"):
        model.fit(X, y, sensitive_features=MANY[many])
    assert not ledger.entries()


def test_many_undeclared_groups_are_refused_by_certify_and_few_declared_ones_taken() -> None:
    X, y, _ = people()
    model = build("DP-SGD").fit(X, y)
    for many in MANY.values():
        with pytest.raises(ValueError, match=r"holds 300 different groups.* groups="):
            certify(model, X, sensitive_features=many, holdout="public")
    incomes, declared = np.repeat(MANY["numbers"][:150], 2), (0.0, 97.5)
    certificate = certify(model, X, sensitive_features=incomes, groups=declared, holdout="public")
    assert certificate.fairness[0].groups == declared
    taken = build_small("FairDP", group_sizes=dict.fromkeys(declared, 2))
    assert taken.fit(X, y, sensitive_features=incomes).groups_ == declared


@every_estimator
def test_a_group_that_training_never_saw_is_refused(name: str) -> None:
    X, _, groups = people()
    model = once(name)
    others = groups.copy()
    others[5] = "z"
    with pytest.raises(UnknownGroupError, match=r"\['a', 'b'\]") as caught:
        certify(model, X, sensitive_features=others, holdout="public")
    assert "'z'" not in str(caught.value)
    assert set(model.predict(X)) <= {"no", "yes"}, "predict never asks for groups"


def test_without_groups_no_claim_is_made() -> None:
    X, y, _ = people()
    certificate = certify(build("DP-SGD").fit(X, y), X, holdout="public")
    assert certificate.fairness == ()
    assert not certificate.satisfies(tolerance=1.0)


@every_class
def test_feature_names_are_remembered(name: str) -> None:
    X, y, groups = people()
    frame = pd.DataFrame(X, columns=list("pqrs"))
    model = build(name).fit(frame, y, sensitive_features=groups)
    assert model.feature_names_in_.tolist() == list("pqrs")
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(frame[list("srqp")])


def test_an_empty_cell_of_group_and_label_trains_and_claims_nothing_about_it() -> None:
    X, y, groups = people()
    y = np.where(groups == "b", "no", y)
    model = FairDPClassifier(**FAST).fit(X, y, sensitive_features=groups)
    certificate = certify(
        model, X, y, sensitive_features=groups, notion="equal_opportunity", holdout="public"
    )
    deployed = [claim for claim in certificate.fairness if claim.scope == "deployed model"]
    assert not any(claim.informative for claim in deployed)
    assert not certificate.satisfies(tolerance=0.99)
