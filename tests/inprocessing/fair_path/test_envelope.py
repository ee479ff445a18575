"""Of several classes the best fair answer is on the upper envelope of a line for each class."""

from __future__ import annotations

import itertools
import math
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.optimize import linprog
from scipy.sparse import csr_array
from sklearn.pipeline import make_pipeline

from skfairdp import FairPathClassifier, PrivacyLedger, PrivateTableEncoder, certify, quote
from skfairdp.engine.release import NoisyRelease
from skfairdp.exceptions import FairnessWarning, PrivacyWarning
from skfairdp.fairness.notions import NOTIONS
from skfairdp.inprocessing.fair_path.compared_rates import Rates
from skfairdp.inprocessing.fair_path.envelope import Envelopes, lines
from skfairdp.inprocessing.fair_path.path import AROUND_ONE, MULTIPLIERS, around
from skfairdp.inprocessing.fair_path.scores import ScoresObjective
from skfairdp.inprocessing.fair_path.tables import planned
from skfairdp.interchange import load_skops, save_onnx, save_skops
from skfairdp.model_selection import fit_within, specify
from skfairdp.privacy.ledger.records import charges
from skfairdp.privacy.mechanisms.prefix_sums import PrefixSums, prefix_norm
from skfairdp.privacy.noise import NoiseSource
from tests.inprocessing.redrawn import Redrawn, released_path, without_noise

FAST = {"max_epochs": 3, "progress": False}
NAMES = np.array(["low", "middle", "high", "top"])


# -- the theorem, against a linear programme ------------------------------------------


def population(seed: int, n_points: int, n_groups: int, n_classes: int, *, aware: bool):
    """P(x, a, y); with the group at prediction, x tells it."""
    rng = np.random.default_rng(seed)
    shape = n_points, n_groups, n_classes
    p = rng.dirichlet(np.full(math.prod(shape), 0.7)).reshape(shape)
    if aware:
        known = np.arange(n_points) % n_groups
        p = np.where(known[:, None, None] == np.arange(n_groups)[None, :, None], p, 0.0)
    return p / p.sum()


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("aware", [False, True], ids=["blind", "aware"])
@pytest.mark.parametrize("n_groups", [2, 3])
@pytest.mark.parametrize("n_classes", [3, 4])
@pytest.mark.parametrize("notion", sorted(NOTIONS))
def test_the_best_classifier_is_on_the_envelope(notion, n_classes, n_groups, aware, seed) -> None:
    """Multipliers of the programme over all randomised answers give the rule of the page."""
    p = population(seed, 18, n_groups, n_classes, aware=aware)
    tolerance, n_points = 0.05, len(p)
    sizes = p.sum(axis=0)
    rates = Rates.of(notion, range(n_classes))
    trials = rates.trials @ sizes.T
    # Slopes (n_rates, n_groups, n_points, n_classes) of each rate in the chances of the answers.
    weights = rates.successes.astype(float)
    slopes = np.einsum("xgl,rlk->rgxk", p, weights) / trials[..., None, None]
    gain = p.sum(axis=1)
    pairs = list(itertools.permutations(range(n_groups), 2))
    above = np.concatenate([slopes[:, u] - slopes[:, v] for u, v in pairs])
    one_answer = np.kron(np.eye(n_points), np.ones(n_classes))
    found = linprog(
        -gain.ravel(),
        A_ub=above.reshape(len(above), -1),
        b_ub=np.full(len(above), tolerance),
        A_eq=one_answer,
        b_eq=np.ones(n_points),
        bounds=(0.0, 1.0),
    )
    assert found.success
    prices = -found.ineqlin.marginals
    # The direction of the page, with the multiplier 1.
    costs = np.zeros((len(rates.names), n_groups))
    for (u, v), price in zip(pairs, prices.reshape(len(pairs), -1), strict=True):
        costs[:, u] += price
        costs[:, v] -= price
    direction = np.einsum("rg,rlk->glk", costs / trials, weights)
    mass = p.sum(axis=(1, 2))
    chances = np.column_stack([gain, p.reshape(n_points, -1)]) / mass[:, None]
    gains, s = lines(direction, chances)
    adjusted = gains - s
    h = found.x.reshape(n_points, n_classes)
    worse = adjusted < adjusted.max(axis=1, keepdims=True) - 1e-7
    assert np.abs(h[worse]).max() < 1e-9
    answers = Envelopes(gains, s).answers(1.0)
    alone = (~worse).sum(axis=1) == 1
    # Draws are for ties, and there are no more of them than multipliers.
    assert (h.max(axis=1) < 1.0 - 1e-9).sum() <= (prices > 1e-9).sum()
    assert (h[np.arange(n_points), answers][alone] > 1.0 - 1e-9).all()
    # Strong duality: no fair classifier is better, whatever it looks like.
    dual = (adjusted.max(axis=1) * mass).sum() + tolerance * prices.sum()
    assert dual == pytest.approx(-found.fun, abs=1e-9)


@pytest.mark.parametrize("n_answers", [2, 3, pytest.param(10, marks=pytest.mark.slow)])
@pytest.mark.parametrize("multipliers", [MULTIPLIERS, AROUND_ONE, around(-2.5)], ids=len)
def test_answers_change_less_often_than_there_are_answers(n_answers, multipliers) -> None:
    rng = np.random.default_rng(n_answers)
    rough = np.round(rng.normal(size=(2, 300, n_answers)), 1)  # ties, and parallel lines
    fine = rng.normal(size=(2, 300, n_answers)) * 10.0 ** rng.integers(-9, 9, size=(300, 1))
    near = rough + 1e-16 * rng.integers(-3, 4, size=rough.shape)  # rounding decides
    for gains, costs in (rough, fine, near):
        envelopes = Envelopes(gains, costs)
        table = np.array([envelopes.answers(m) for m in multipliers]).T
        walked = np.array([envelopes._last_passed(m) for m in multipliers]).T
        assert np.array_equal(table, walked)
        best = np.array([gains - m * costs for m in multipliers]).transpose(1, 0, 2)
        taken = np.take_along_axis(best, table[..., None], axis=2)[..., 0]
        scale = np.abs(gains).max(axis=1)[:, None] + np.abs(multipliers) * np.abs(costs).max(
            axis=1, keepdims=True
        )
        assert (taken >= best.max(axis=2) - 1e-14 * scale).all()
        of_path = np.abs(np.diff(table, axis=1)) > 0
        assert of_path.sum(axis=1).max() <= n_answers - 1
        # An answer that was left does not come back.
        for row, moved in zip(table[:100], of_path[:100], strict=True):
            visited = row[np.append(True, moved)]
            assert len(set(visited)) == len(visited)
        again = rebuilt(envelopes, multipliers)
        assert np.array_equal(table, again)


def rebuilt(envelopes: Envelopes, multipliers: np.ndarray) -> np.ndarray:
    """Answers at all multipliers, from those in the middle and the changes."""
    side = len(multipliers) // 2
    found, middle = envelopes.changes(multipliers), envelopes.answers(multipliers[side])
    table = np.zeros((len(middle), int(middle.max()) + envelopes.gains.shape[1], 2, side), int)
    rows = np.arange(len(middle))
    for places, left, entered in zip(found.places.T, found.left.T, found.entered.T, strict=True):
        kept = places >= 0
        on, place = np.divmod(places[kept], side)
        np.add.at(table, (rows[kept], left[kept], on, place), -1)
        np.add.at(table, (rows[kept], entered[kept], on, place), 1)
    counted = table.cumsum(axis=-1)
    counted[rows, middle] += 1
    assert ((counted == 0) | (counted == 1)).all()
    answers = counted.argmax(axis=1)
    return np.concatenate([answers[:, 0, ::-1], middle[:, None], answers[:, 1]], axis=1)


# -- the estimator ----------------------------------------------------------------------


def crowd(n: int, n_classes: int = 3, seed: int = 0) -> tuple:
    """Rows of two groups whose classes differ in frequency."""
    rng = np.random.default_rng(seed)
    groups = rng.integers(0, 2, n)
    X = rng.normal(size=(n, 3)) + groups[:, None] * [0.8, -0.6, 1.5]
    pull = np.random.default_rng(5).normal(size=(3, 4))[:, :n_classes]
    y = (X @ pull + rng.gumbel(size=(n, n_classes))).argmax(axis=1)
    return X, NAMES[y], np.array(["a", "b"])[groups]


@pytest.mark.parametrize("protects", ["record", "sensitive_features"])
@pytest.mark.parametrize("n_classes", [3, 4])
@pytest.mark.parametrize("notion", sorted(NOTIONS))
def test_without_noise_the_path_is_what_the_classifier_does(notion, n_classes, protects) -> None:
    X, y, groups = crowd(500, n_classes)
    model = without_noise(
        X, y, groups, notion=notion, protects=protects, tolerance=0.9, max_epochs=2
    )
    path = model._path_of(model.plan_)
    classes = model.classes_.tolist()
    codes, of_group = np.searchsorted(model.classes_, y), np.searchsorted(["a", "b"], groups)
    for j in range(0, len(path.multipliers), 51 if protects == "record" else 4):
        model.multiplier_ = path.multipliers[j]
        answers = np.searchsorted(model.classes_, model.predict(X))
        table = np.zeros((2, n_classes, n_classes))
        np.add.at(table, (of_group, codes, answers), 1)
        for s, stratum in enumerate(NOTIONS[notion].strata(classes)):
            hit, miss = stratum.count(table)
            assert path.levels[s, :, j].tolist() == (hit / (hit + miss)).tolist()
        assert path.accuracies[j] == pytest.approx((answers == codes).mean())
        scores = model.decision_function(X)
        assert scores.shape == (500, n_classes)
        assert (answers == scores.argmax(axis=1)).mean() > 0.999


@pytest.mark.parametrize("n_groups", [2, 3])
@pytest.mark.parametrize("n_classes", [3, 5])
@pytest.mark.parametrize("notion", sorted(NOTIONS))
def test_the_gradient_is_the_losss(notion: str, n_classes: int, n_groups: int) -> None:
    rates = Rates.of(notion, range(n_classes))
    objective = ScoresObjective(rates, n_groups)
    rng = np.random.default_rng(0)
    output = torch.from_numpy(rng.normal(size=(8, rates.n_logits(n_groups)))).requires_grad_()
    counts = n_classes, n_groups
    targets = tuple(torch.from_numpy(rng.integers(0, k, 8).astype(float)) for k in counts)
    (expected,) = torch.autograd.grad(objective(output, *targets).sum(), output)
    assert torch.allclose(objective.gradient(output.detach(), *targets), expected)


@pytest.mark.parametrize("notion", sorted(NOTIONS))
def test_a_record_moves_no_table_by_more_than_is_charged(notion, monkeypatch) -> None:
    """Of a record with all changes that it can have, in units of the planned norm of each table."""
    X, y, groups = crowd(300, 4)
    model = without_noise(X, y, groups, notion=notion, tolerance=0.9, max_epochs=2)
    redrawn = Redrawn(model, X, np.searchsorted(model.classes_, y), groups, 0.0)
    tables = redrawn.tables(NoiseSource(0))
    moved: dict[str, list[float]] = {}
    honest = NoisyRelease.prefix_sums

    def watched(self, segment, assign, shape, n_entries=1):
        entries, signs = assign(self._rows)
        entries, signs = entries.reshape(len(X), -1), signs.reshape(len(X), -1)
        factor = PrefixSums(shape[-1], 1.0)._matrix / 2.0**38
        (block,) = segment.blocks
        for own, sign in zip(entries, signs, strict=True):
            counts = np.zeros(math.prod(shape))
            np.add.at(counts, own[own >= 0], sign[own >= 0])
            norm = float(np.linalg.norm(counts.reshape(-1, shape[-1]) @ factor.T))
            moved.setdefault(block.name, []).append(norm / block.max_norm)
        return honest(self, segment, assign, shape, n_entries)

    monkeypatch.setattr(NoisyRelease, "prefix_sums", watched)
    # Scores of many crossings, in the place of the net's.
    rng = np.random.default_rng(1)
    tables._known = rng.random(redrawn.told.shape)
    direction = rng.normal(size=(2, 4, 4))
    released_path(tables, direction, 0.0)
    assert {name: max(norms) <= 1.0 for name, norms in moved.items()} == dict.fromkeys(moved, True)
    # The bound is not far from what happens, and a bound for two classes would be passed.
    assert max(moved["path"]) > 0.6
    alone = max(moved["path"]) * model_norm(model, "path") / prefix_norm(127)
    assert alone > 1.2


def model_norm(model, name: str) -> float:
    return planned(model.plan_)[name].blocks[0].max_norm


def test_all_tolerances_of_several_classes_are_one_release(tmp_path) -> None:
    X, y, groups = crowd(3000)
    ledger = PrivacyLedger(tmp_path / "ledger.db", "people")
    model = FairPathClassifier(tolerance=0.5, epsilon=8.0, ledger=ledger, max_epochs=8)
    price = quote(model, n_rows=3000, groups=["a", "b"], classes=3)
    model.set_params(progress=False).fit(X, y, sensitive_features=groups)
    # The price is that of the fit, to the last bit.
    assert repr(price.plan) == repr(model.plan_)
    assert price.epsilon == model.privacy_.epsilon == ledger.entries()[0].guarantee.epsilon
    assert quote(model, n_rows=3000, groups=["a", "b"]).plan != price.plan
    path = model.path()
    assert {"rate of a (prediction high)", "rate of b (prediction low)"} <= set(path.columns)
    assert path["multiplier"].iloc[-1] == 0.0
    other = model.at(0.3)
    assert other.privacy_ == model.privacy_
    assert set(other.predict(X)) <= set(NAMES[:3])
    assert np.allclose(other.predict_proba(X).sum(axis=1), 1.0)
    held = crowd(2000, seed=3)
    proofs = model.certify_path(
        held[0], held[1], sensitive_features=held[2], tolerances=(0.3, 0.6), holdout="public"
    )
    claim = proofs[0.3].fairness[0]
    answers = model.at(0.3).predict(held[0])
    shares = pd.crosstab(answers, held[2], normalize="columns")
    assert claim.estimate == pytest.approx((shares["a"] - shares["b"]).abs().max())
    assert claim.estimate < claim.bound < 1.0
    assert proofs[0.3].verify(model.at(0.3))
    assert len(charges(ledger.entries())) == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": np.arange(3000) % 11}, "at most 10 classes"),
        ({"y": np.repeat("low", 3000)}, "1 class"),
        ({"y": np.linspace(0.0, 1.0, 3000)}, "continuous.*FairPathRegressor"),
        ({"y": np.where(np.arange(3000) % 2, np.inf, 1.0)}, "infinity"),
        ({"y": np.where(np.arange(3000) % 2, None, "low")}, "NaN"),
        ({"sensitive_features": np.zeros(3000)}, "at least two groups, whose rates are compared"),
        ({"classes": ["high", "low", "middle", "never"]}, "'classes' declares 'never'"),
    ],
    ids=["eleven", "constant", "numbers", "infinite", "missing", "one group", "without rows"],
)
def test_classes_that_cannot_be_compared_are_refused_before_the_charge(
    change, message, tmp_path
) -> None:
    X, y, groups = crowd(3000)
    ledger = PrivacyLedger(tmp_path / "ledger.db", "people")
    model = FairPathClassifier(classes=change.get("classes"), ledger=ledger, **FAST)
    with pytest.raises(ValueError, match=message):
        model.fit(
            X, change.get("y", y), sensitive_features=change.get("sensitive_features", groups)
        )
    assert not ledger.entries()
    assert not hasattr(model, "classes_")


def test_eleven_classes_have_no_price() -> None:
    with pytest.raises(ValueError, match="at most 10 classes"):
        quote(FairPathClassifier(), n_rows=3000, groups=["a", "b"], classes=11)


def test_a_refused_fit_leaves_no_trace_in_the_next() -> None:
    X, y, groups = crowd(600)
    model = FairPathClassifier(tolerance=0.9, epsilon=30.0, **FAST)
    with pytest.raises(ValueError, match="at most 10 classes"):
        model.fit(X, np.arange(600) % 11, sensitive_features=groups)
    model.fit(X, y, sensitive_features=groups)
    model.fit(X, y == "low", sensitive_features=groups)
    assert model.direction_.shape == (2, 2)
    assert model.predict(X).dtype == np.bool_


def test_a_table_of_several_classes_goes_through_one_budget() -> None:
    X, y, groups = crowd(3000)
    frame = pd.DataFrame(X, columns=["one", "two", "three"])
    model = make_pipeline(
        PrivateTableEncoder(encoding="onehot"), FairPathClassifier(tolerance=0.9, **FAST)
    )
    fitted = fit_within(model, frame, y, epsilon=4.0, sensitive_features=groups)
    assert set(fitted.predict(frame)) <= set(NAMES[:3])
    held = crowd(500, seed=3)
    rows = pd.DataFrame(held[0], columns=["one", "two", "three"])
    proof = certify(fitted, rows, held[1], sensitive_features=held[2], holdout="public")
    assert 3.9 < proof.privacy.epsilon <= 4.0


def test_a_specification_of_several_classes_pays_for_one_fit() -> None:
    X, y, groups = crowd(4000)
    grid = {"tolerance": [0.3, 0.8]}
    model = FairPathClassifier(**FAST)
    answer = specify(model, grid, X, y, sensitive_features=groups, epsilon=6.0, tolerance=0.9)
    assert answer.verify()
    assert answer.privacy.epsilon <= 6.0
    assert [attempt.model.tolerance for attempt in answer.attempts] == [0.3, 0.8]


@pytest.mark.slow  # torch's exporter takes seconds
def test_files_of_several_classes_answer_as_the_model(tmp_path) -> None:
    reference = pytest.importorskip("onnx.reference")
    pytest.importorskip("onnxscript")
    X, y, groups = crowd(1500)
    X = X.astype(np.float32)
    model = FairPathClassifier(tolerance=0.5, epsilon=20.0, **FAST)
    model.fit(X, y, sensitive_features=groups)
    save_onnx(model, tmp_path / "model.onnx")
    session = reference.ReferenceEvaluator(str(tmp_path / "model.onnx"))
    places, chances = session.run(None, {"X": X})
    assert (model.classes_[places] == model.predict(X)).mean() > 0.995
    assert np.allclose(chances, model.predict_proba(X), atol=1e-4)
    save_skops(model, tmp_path / "model.skops")
    read = load_skops(tmp_path / "model.skops")
    assert np.array_equal(read.predict(X), model.predict(X))
    assert read.at(0.4).multiplier_ == model.at(0.4).multiplier_


def test_rows_on_disk_give_what_the_same_rows_in_memory_give() -> None:
    X, y, groups = crowd(900)
    settings = {"tolerance": 0.9, "epsilon": 30.0, "random_state": 3, "reproducible_noise": True}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        memory, stored = (
            FairPathClassifier(**settings, **FAST).fit(rows, y, sensitive_features=groups)
            for rows in (X, csr_array(X))
        )
    assert np.array_equal(memory.changed_, stored.changed_)
    assert np.array_equal(memory.predict(X), stored.predict(X))


@pytest.mark.slow
def test_persons_and_three_groups_have_paths_of_several_classes() -> None:
    X, y, groups = crowd(3000)
    groups = np.where(np.random.default_rng(2).random(3000) < 0.3, "c", groups)
    model = FairPathClassifier(notion="equalized_odds", tolerance=0.9, epsilon=20.0, **FAST)
    ids = np.arange(3000)
    model.fit(X, y, sensitive_features=groups, person_ids=ids)
    assert model.privacy_.protects == "person"
    assert model.decided_.shape == (3, 3, 3)
    assert model.direction_.shape == (3, 3, 3)


def test_two_classes_of_one_net_cannot_have_the_loss_of_three() -> None:
    from skfairdp import default_net

    X, y, groups = crowd(600)
    net = default_net().set_params(criterion=torch.nn.CrossEntropyLoss)
    with pytest.raises(ValueError, match="BCEWithLogitsLoss"):
        FairPathClassifier(net, **FAST).fit(X, y == "low", sensitive_features=groups)


def test_more_noise_than_the_gap_is_said(recwarn) -> None:
    X, y, groups = crowd(500)
    model = FairPathClassifier(tolerance=0.001, epsilon=1.0, **FAST)
    with pytest.warns(FairnessWarning, match="keep to 'tolerance' = 0.001"):
        model.fit(X, y, sensitive_features=groups)
    assert model.kept_tolerance_ > 0.001
