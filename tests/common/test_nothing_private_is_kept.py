"""A fitted estimator, its copies and its pickles hold released values and nothing else."""

from __future__ import annotations

import copy
import pickle
import random
from pathlib import Path

import joblib
import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from skfairdp import default_net
from skfairdp.engine.modules import MLP
from tests.common.roster import ROSTER, build, every_class, every_estimator, once, people
from tests.processes import in_one_worker, run_fresh


def weights(model) -> np.ndarray:
    return torch.cat([p.reshape(-1) for p in model.module_.state_dict().values()]).numpy()


def fitted_names(model) -> set[str]:
    return {name for name in vars(model) if name.endswith("_")}


def traces(stored: bytes, X: np.ndarray, y: np.ndarray, groups: np.ndarray) -> list[str]:
    """Which private values occur among the bytes."""
    found = [f"row {i}" for i, row in enumerate(X) for v in row if v.tobytes() in stored]
    # Four bytes alone could occur by chance, so two neighbours in float32.
    single = X.astype(np.float32)
    found += [f"row {i} in float32" for i, row in enumerate(single) if row[:2].tobytes() in stored]
    for what, values in (("label", y), ("group", groups)):
        codes = np.unique(values, return_inverse=True)[1]
        for dtype in ("int64", "int32", "int8", "bool", "float32", "float64"):
            if codes[:24].astype(dtype).tobytes() in stored:
                found.append(f"{what} codes as {dtype}")
        if values[:24].tobytes() in stored or values[:24].astype(object).tobytes() in stored:
            found.append(f"{what} values")
    return found


@every_estimator
def test_no_row_is_in_a_pickle_or_a_copy(name: str) -> None:
    X, y, groups = people()
    model = once(name)
    model.predict(X[:50])
    for stored in (pickle.dumps(model), pickle.dumps(copy.deepcopy(model))):
        assert traces(stored, X, y, groups) == []
    for p in model.module_.parameters():
        assert p.grad is None
    assert set(vars(copy.deepcopy(model))) <= set(model.get_params(deep=False)) | set(
        model._released
    )


@every_class
def test_a_row_that_was_kept_would_be_found(name: str) -> None:
    X, y, groups = people()
    model = copy.deepcopy(once(name))
    for kept in (X[:3], X.astype(np.float32)[7], np.unique(y, return_inverse=True)[1], groups):
        model.module_.kept_by_accident = kept
        assert traces(pickle.dumps(model), X, y, groups) != []


@every_estimator
def test_what_is_not_released_does_not_travel(name: str) -> None:
    model = copy.deepcopy(once(name))
    model.secret_ = people()[0]
    assert not hasattr(pickle.loads(pickle.dumps(model)), "secret_")
    assert not hasattr(copy.deepcopy(model), "secret_")


@in_one_worker
def test_pickles_predict_the_same_in_a_fresh_process(tmp_path: Path) -> None:
    X = people()[0]
    models = {name: once(name) for name in ROSTER}
    expected = {name: (m.predict(X), m.predict_proba(X)) for name, m in models.items()}
    (tmp_path / "all.pickle").write_bytes(pickle.dumps((models, X, expected)))
    script = (
        "import pickle, sys, numpy as np\n"
        "models, X, expected = pickle.load(open(sys.argv[1], 'rb'))\n"
        "for name, model in models.items():\n"
        "    label, probability = expected[name]\n"
        "    assert np.array_equal(model.predict(X), label), name\n"
        "    assert np.allclose(model.predict_proba(X), probability, atol=1e-12), name\n"
        "    assert model.privacy_.epsilon <= 1.0, name\n"
    )
    ended = run_fresh(script, str(tmp_path / "all.pickle"), warnings_are_errors=True)
    assert ended.returncode == 0, ended.stderr


@every_estimator
def test_joblib_and_copies_predict_the_same(name: str, tmp_path: Path) -> None:
    X = people()[0]
    model = once(name)
    joblib.dump(model, tmp_path / "model.joblib")
    for other in (joblib.load(tmp_path / "model.joblib"), copy.deepcopy(model)):
        assert np.array_equal(other.predict(X), model.predict(X))
        assert other.certify().model_digest == model.certify().model_digest


@every_estimator
def test_a_clone_starts_fresh(name: str) -> None:
    X, y, groups = people()
    model = once(name, random_state=0, reproducible_noise=True)
    other = clone(model)
    assert fitted_names(other) == set()
    other.fit(X, y, sensitive_features=groups)
    assert np.array_equal(weights(other), weights(model))


@every_estimator
def test_two_fits_with_one_seed_share_no_noise(name: str) -> None:
    X, y, groups = people()
    first = once(name, random_state=0)
    second = build(name, random_state=0).fit(X, y, sensitive_features=groups)
    # Every weight gets its own noise in every step: equal ones have probability zero.
    assert np.all(weights(first) != weights(second))
    assert not np.array_equal(getattr(first, "heads_", 0.0), getattr(second, "heads_", 1.0))


@every_estimator
def test_repeatable_noise_repeats_bit_for_bit(name: str) -> None:
    X, y, groups = people()
    np.random.seed(11)  # noqa: NPY002 - global state must have no influence
    torch.manual_seed(11)
    random.seed(11)
    again = build(name, random_state=0, reproducible_noise=True)
    again.fit(X, y, sensitive_features=groups)
    fits = [once(name, random_state=0, reproducible_noise=True), again]
    assert np.array_equal(weights(fits[0]), weights(fits[1]))
    assert np.array_equal(fits[0].predict(X), fits[1].predict(X))
    other = build(name, random_state=1, reproducible_noise=True)
    other.fit(X, y, sensitive_features=groups)
    assert not np.array_equal(weights(fits[0]), weights(other))


@every_estimator
@pytest.mark.parametrize("repeatable", [False, True])
def test_global_generators_are_left_alone(name: str, repeatable: bool) -> None:
    X, y, groups = people()
    # One draw each: a state that a seed has just set would hide being seeded once more.
    np.random.rand(), torch.rand(1), random.random()  # noqa: NPY002
    before = np.random.get_state(), torch.get_rng_state(), random.getstate()  # noqa: NPY002
    model = build(name, random_state=0, reproducible_noise=repeatable)
    model.fit(X, y, sensitive_features=groups)
    model.predict(X)
    model.predict_proba(X)
    model.certify(X, sensitive_features=groups, holdout="public")
    after = np.random.get_state(), torch.get_rng_state(), random.getstate()  # noqa: NPY002
    assert all(np.array_equal(a, b) for a, b in zip(before[0], after[0], strict=True))
    assert torch.equal(before[1], after[1])
    assert before[2] == after[2]


@every_estimator
def test_the_users_net_and_rows_are_untouched(name: str) -> None:
    X, y, groups = people()
    net = default_net().set_params(module__hidden_sizes=(8,), lr=0.02)
    parameters, attributes = net.get_params(deep=False), set(vars(net))
    members = set(vars(MLP))
    X_before = X.copy()
    X.flags.writeable = False
    model = build(name, net=net).fit(X, y, sensitive_features=groups)
    model.predict(X)
    assert model.net is net
    assert not net.initialized_
    assert net.get_params(deep=False) == parameters
    assert set(vars(net)) == attributes
    assert set(vars(MLP)) == members
    assert np.array_equal(X, X_before)


class Interrupted(torch.optim.SGD):
    """Takes a few steps and then fails."""

    taken = 0

    def step(self, closure=None):
        Interrupted.taken += 1
        if Interrupted.taken == 5:
            raise RuntimeError("interrupted")
        return super().step(closure)


@every_estimator
def test_a_failed_fit_leaves_nothing_behind(name: str) -> None:
    X, y, groups = people()
    broken = default_net().set_params(optimizer=Interrupted)
    Interrupted.taken = 0
    model = copy.deepcopy(once(name))
    model.set_params(net=broken)
    with pytest.raises(RuntimeError, match="interrupted"):
        model.fit(X, y, sensitive_features=groups)
    assert fitted_names(model) == set()
    with pytest.raises(NotFittedError):
        model.predict(X)
    with pytest.raises(NotFittedError):
        model.certify()
    assert traces(pickle.dumps(model), X, y, groups) == []
    model.set_params(net=None).fit(X, y, sensitive_features=groups)
    X_bad = X.copy()
    X_bad[0, 0] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        model.fit(X_bad, y, sensitive_features=groups)
    assert fitted_names(model) == set()
