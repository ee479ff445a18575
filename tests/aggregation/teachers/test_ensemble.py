"""One record touches one teacher, and odd shards vote for a stated class."""

from __future__ import annotations

import warnings
from functools import cache

import joblib
import numpy as np
import pytest
import torch
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from torch import nn

from skfairdp import default_net
from skfairdp.aggregation import Teachers, default_teacher, train_teachers
from skfairdp.aggregation.shards import teacher_generator
from skfairdp.aggregation.teachers.parallel import NetTeacher, SeparateTeachers
from skfairdp.aggregation.teachers.stacked_training import BatchedTeachers
from tests.aggregation.rows import Private, private_rows


class Bent(nn.Module):
    """A module that is no stack of layers, with dropout."""

    def __init__(self, n_features: int, n_outputs: int = 1) -> None:
        super().__init__()
        self.inner = nn.Linear(n_features, 4)
        self.dropout = nn.Dropout(0.2)
        self.head = nn.Linear(4, n_outputs)

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """Logits."""
        return self.head(self.dropout(self.inner(X).tanh()) ** 2)


def linear() -> object:
    return default_teacher().set_params(module__hidden_sizes=())


def deep() -> object:
    return (
        default_teacher()
        .set_params(
            module__hidden_sizes=(7, 3), module__activation=nn.GELU, optimizer=torch.optim.SGD
        )
        .set_params(optimizer__weight_decay=0.0, optimizer__momentum=0.9)
    )


BATCHED = {"default": lambda: None, "linear": linear, "deep": deep}
SEPARATE = {
    "logistic": LogisticRegression,
    "tree": lambda: DecisionTreeClassifier(max_features=2),
    "pipeline": lambda: make_pipeline(StandardScaler(), DecisionTreeClassifier(max_depth=3)),
    "net": lambda: default_net().set_params(module=Bent, criterion=nn.CrossEntropyLoss),
}
PATTERNS = BATCHED | SEPARATE
PUBLIC = np.random.default_rng(99).normal(size=(200, 5))


def train(teacher, rows: Private, n_teachers: int = 8, n_classes: int = 2, **settings) -> Teachers:
    settings = {"seed": 3, "n_steps": 30, "batch_size": 16, "progress": False} | settings
    return train_teachers(teacher, rows.X, rows.y, rows.shards, n_teachers, n_classes, **settings)


@cache
def trained(name: str, n_classes: int = 2) -> Teachers:
    """Teachers of `private_rows`, for tests that train others to compare them with."""
    return train(PATTERNS[name](), private_rows(n_classes=n_classes), n_classes=n_classes)


def parameters(teachers: Teachers) -> list[bytes]:
    """What each teacher is, bit for bit."""
    if isinstance(teachers, BatchedTeachers):
        tensors = [t for la in teachers.layers for t in (la.weight, la.bias) if t is not None]
        return [
            b"".join(t[i].numpy().tobytes() for t in tensors) for i in range(teachers.n_teachers)
        ]
    assert isinstance(teachers, SeparateTeachers)
    return [_bits(model) for model in teachers.models]


def _bits(model: object) -> bytes:
    if isinstance(model, NetTeacher):
        return b"".join(p.detach().numpy().tobytes() for p in model.module.parameters())
    return joblib.hash(model).encode()


@pytest.mark.parametrize("n_classes", [2, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "name",
    [
        *BATCHED,
        "tree",
        *(pytest.param(name, marks=pytest.mark.slow) for name in SEPARATE if name != "tree"),
    ],
)
def test_a_record_that_leaves_changes_one_teacher(name: str, n_classes: int) -> None:
    rows, before = private_rows(n_classes=n_classes), trained(name, n_classes)
    for record in (0, 17, 299):
        after = train(PATTERNS[name](), rows.without(record), n_classes=n_classes)
        own = rows.shards[record]
        pairs = zip(parameters(before), parameters(after), strict=True)
        assert [i for i, (a, b) in enumerate(pairs) if a != b] == [own]
        others = np.arange(8) != own
        np.testing.assert_array_equal(
            before.predictions(PUBLIC)[others], after.predictions(PUBLIC)[others]
        )
        moved = before.votes(PUBLIC) - after.votes(PUBLIC)
        assert np.abs(moved).max() <= 1
        assert np.square(moved).sum(axis=1).max() <= 2


@pytest.mark.parametrize("size", [1, 2, 40])
def test_a_shard_may_empty_or_become_the_smallest_or_largest(size: int) -> None:
    """Padding, if there were any, would change with it, and with it the others' sums."""
    rows = private_rows()
    shards = np.where(rows.shards == 2, 3, rows.shards)
    shards[np.flatnonzero(rows.y == 1)[:size]] = 2
    rows = Private(rows.X, rows.y, shards)
    record = int(np.flatnonzero(shards == 2)[0])
    before, after = train(None, rows), train(None, rows.without(record))
    changed = [
        i
        for i, (a, b) in enumerate(zip(parameters(before), parameters(after), strict=True))
        if a != b
    ]
    # One record of a single class is drawn again and again, as one of two equal ones is not.
    assert set(changed) == {2}


@pytest.mark.parametrize("name", PATTERNS)
def test_a_record_moved_to_another_shard_changes_two_teachers(name: str) -> None:
    """The check above can fail: this is what a cut permutation does for many records."""
    rows = private_rows()
    shards = rows.shards.copy()
    shards[0] = (shards[0] + 1) % 8
    before = parameters(trained(name))
    after = parameters(train(PATTERNS[name](), Private(rows.X, rows.y, shards)))
    assert sum(a != b for a, b in zip(before, after, strict=True)) == 2


@pytest.mark.parametrize("name", PATTERNS)
def test_teachers_learn_and_votes_count_their_predictions(name: str) -> None:
    rows = private_rows(n=1200)
    teachers = train(PATTERNS[name](), rows, n_steps=200)
    kind = BatchedTeachers if name in BATCHED else SeparateTeachers
    assert isinstance(teachers, kind)
    predictions, votes = teachers.predictions(PUBLIC), teachers.votes(PUBLIC)
    assert predictions.shape == (8, 200)
    assert predictions.dtype == votes.dtype == np.int64
    for k in range(2):
        np.testing.assert_array_equal(votes[:, k], (predictions == k).sum(axis=0))
    assert (votes.sum(axis=1) == teachers.n_teachers).all()
    truth = PUBLIC[:, :2].argmax(axis=1)
    assert (votes.argmax(axis=1) == truth).mean() > (0.7 if name == "net" else 0.9)


@pytest.mark.parametrize("name", PATTERNS)
def test_a_seed_fixes_the_teachers_and_leaves_global_generators_alone(name: str) -> None:
    rows, first = private_rows(), parameters(trained(name))
    np.random.seed(0)  # noqa: NPY002 - the global state is what is watched
    torch.manual_seed(0)
    states = str(np.random.get_state()), torch.get_rng_state()  # noqa: NPY002
    assert parameters(train(PATTERNS[name](), rows)) == first
    assert str(np.random.get_state()) == states[0]  # noqa: NPY002
    assert torch.equal(torch.get_rng_state(), states[1])
    if name not in ("logistic", "pipeline"):
        other = parameters(train(PATTERNS[name](), rows, seed=4))
        assert all(a != b for a, b in zip(first, other, strict=True))


def test_every_random_state_of_a_classifier_is_set_from_the_teachers_number() -> None:
    pattern = make_pipeline(StandardScaler(), DecisionTreeClassifier(random_state=0))
    teachers = train(pattern, private_rows())
    assert isinstance(teachers, SeparateTeachers)
    states = [model[-1].random_state for model in teachers.models]
    assert states == [int(teacher_generator(3, index).integers(2**31)) for index in range(8)]
    assert len(set(states)) == 8


@pytest.mark.parametrize("name", PATTERNS)
def test_fewer_records_than_teachers_is_no_error(name: str) -> None:
    """Empty shards vote for class 0, shards of one class for theirs, without a message."""
    rows = private_rows(n=6, n_teachers=20, n_classes=3, seed=4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        teachers = train(PATTERNS[name](), rows, n_teachers=20, n_classes=3)
    predictions = teachers.predictions(PUBLIC)
    assert len(set(rows.shards)) < 7
    for shard in range(20):
        classes = set(rows.y[rows.shards == shard])
        if len(classes) < 2:
            assert set(predictions[shard]) == (classes or {0})
    assert (teachers.votes(PUBLIC).sum(axis=1) == 20).all()


@pytest.mark.parametrize("name", PATTERNS)
def test_unusable_labels_are_left_out(name: str) -> None:
    rows = private_rows()
    codes = np.where((rows.shards == 1) | (np.arange(300) % 7 == 0), -1, rows.y)
    marked = train(PATTERNS[name](), Private(rows.X, codes, rows.shards))
    kept = codes >= 0
    left = train(PATTERNS[name](), Private(rows.X[kept], codes[kept], rows.shards[kept]))
    assert parameters(marked) == parameters(left)
    assert (marked.predictions(PUBLIC)[1] == 0).all()


@pytest.mark.parametrize("name", PATTERNS)
def test_a_class_that_no_teacher_knows_gets_few_votes_or_none(name: str) -> None:
    teachers = train(PATTERNS[name](), private_rows(n_classes=2), n_classes=4, n_steps=70)
    votes = teachers.votes(PUBLIC)
    assert votes.shape == (200, 4)
    assert (votes.sum(axis=1) == 8).all()
    if name in ("logistic", "tree", "pipeline"):
        assert votes[:, 2:].sum() == 0
    else:
        assert votes[:, 2:].sum() < 0.1 * votes.sum()


@pytest.mark.slow
def test_separate_nets_agree_with_batched_ones() -> None:
    """The same initial weights, minibatches and steps, by automatic differentiation."""
    from skfairdp.aggregation.shards import rows_by_shard
    from skfairdp.aggregation.teachers.ensemble import Lessons
    from skfairdp.aggregation.teachers.parallel import train_separately
    from skfairdp.engine.run import Progress

    rows = private_rows(n=2000)
    net = default_teacher()
    own = rows_by_shard(rows.shards, rows.y >= 0, 8)
    lessons = Lessons(rows.X, rows.y, own, 2, 3, 200, 16, Progress(8, False, ""))
    apart = train_separately(net, lessons, None)
    together = train(net, rows, n_steps=200)
    assert (apart.predictions(PUBLIC) == together.predictions(PUBLIC)).mean() > 0.97


def test_votes_do_not_depend_on_how_rows_are_cut() -> None:
    teachers = train(None, private_rows())
    rows = np.vstack([PUBLIC] * 3)
    whole = teachers.votes(rows)
    np.testing.assert_array_equal(whole[:200], teachers.votes(PUBLIC))
    np.testing.assert_array_equal(whole[:1], teachers.votes(PUBLIC[:1]))
    assert teachers.votes(PUBLIC[:0]).shape == (0, 2)


def test_the_pattern_is_never_fitted_or_changed() -> None:
    for name, make in PATTERNS.items():
        teacher = make()
        if teacher is None:
            continue
        before = str(teacher.get_params(deep=False))
        train(teacher, private_rows())
        assert str(teacher.get_params(deep=False)) == before, name
        assert not hasattr(teacher, "classes_")
        assert not getattr(teacher, "initialized_", False)


@pytest.mark.parametrize("teacher", [LinearRegression(), LogisticRegression, "tree", 3])
def test_what_is_no_classifier_is_refused(teacher: object) -> None:
    with pytest.raises(TypeError, match="'teacher' must be None, a skorch NeuralNet or"):
        train(teacher, private_rows())


@pytest.mark.parametrize("setting", [{"batch_size": 64}, {"max_epochs": 3}])
def test_a_net_with_sizes_of_its_own_is_refused(setting: dict) -> None:
    with pytest.raises(ValueError, match=f"'teacher' sets {next(iter(setting))}"):
        train(default_teacher().set_params(**setting), private_rows())


def test_a_net_that_cannot_be_trained_is_refused() -> None:
    net = default_net().set_params(module=Bent, module__width=3)
    with pytest.raises(ValueError, match="'teacher' holds a net.*module__width"):
        train(net, private_rows())


@pytest.mark.parametrize("teacher", [KNeighborsClassifier(200), GaussianNB(priors=[0.1, 0.1])])
def test_teachers_that_all_fail_say_nothing_and_vote_for_class_zero(teacher: object) -> None:
    votes = train(teacher, private_rows()).votes(PUBLIC)
    assert votes.tolist() == [[8, 0]] * len(PUBLIC)


class Fussy(DecisionTreeClassifier):
    """Fails on shards of an odd number of rows."""

    def fit(self, X, y):
        if len(X) % 2:
            raise RuntimeError("odd")
        return super().fit(X, y)


def test_a_teacher_that_fails_alone_votes_for_class_zero_and_ends_nothing() -> None:
    teachers = train(Fussy(), private_rows())
    failed = teachers.fixed == 0
    assert 0 < failed.sum() < len(failed)
    assert (teachers.predictions(PUBLIC)[failed] == 0).all()


def test_warnings_about_a_shard_stay_inside() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        train(LogisticRegression(max_iter=1), private_rows())


@pytest.mark.parametrize("teacher", [None, DecisionTreeClassifier()])
def test_a_progress_bar_is_shown_when_asked_for(teacher, capfd: pytest.CaptureFixture) -> None:
    train(teacher, private_rows(), progress=True)
    assert "teachers: 100%" in capfd.readouterr().err
    train(teacher, private_rows(), progress=None)
    assert capfd.readouterr().err == ""
