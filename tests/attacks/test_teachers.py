"""Teachers: one record reaches one of them, and none says what its shard holds."""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import random
import re
import sys
import warnings
from collections.abc import Callable, Collection, Iterator

import joblib
import numpy as np
import pytest
import torch
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, ShuffleSplit, StratifiedKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier
from skorch import NeuralNetClassifier
from skorch.callbacks import Checkpoint
from torch import nn

from skfairdp import PATEClassifier, PrivacyLedger, SFPATEClassifier
from skfairdp.aggregation import train_teachers
from skfairdp.aggregation import vote_classifier as aggregated
from skfairdp.aggregation.teachers import isolation, parallel
from skfairdp.aggregation.teachers.parallel import SeparateTeachers
from tests.aggregation.rows import Private, private_rows

N_TEACHERS = 6
PUBLIC = np.random.default_rng(99).normal(size=(150, 5)).astype(np.float32)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 2))

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """Logits; in training, of rows with a number drawn for each entry."""
        # Dropout alone takes one number of some torch's generator, however many rows there are.
        return self.layers(X + 0.1 * torch.rand(X.shape) if self.training else X)


class HeldGenerator(Net):
    """Draws from a generator that is one of its parameters."""

    def __init__(self, generator: torch.Generator) -> None:
        super().__init__()
        self.generator = generator

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """Logits."""
        return self.layers(X) + 0.3 * torch.rand((len(X), 2), generator=self.generator)


def skorch_net(module: type[nn.Module] = Net, **settings) -> NeuralNetClassifier:
    known = {"max_epochs": 2, "lr": 0.1, "verbose": 0, "train_split": None, "batch_size": 8}
    return NeuralNetClassifier(module, criterion=nn.CrossEntropyLoss, **(known | settings))


class PythonCoin(ClassifierMixin, BaseEstimator):
    """Learns from rows drawn with Python's and numpy's global generators, answers with them."""

    def fit(self, X, y):
        kept = [i for i in range(len(X)) if random.random() < 0.7]
        self.tree_ = DecisionTreeClassifier(max_depth=2).fit(X[kept], y[kept])
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        flips = np.random.random(len(X)) < 0.2  # noqa: NPY002
        return self.tree_.predict(X) ^ flips


TEACHERS: dict[str, Callable[[], object]] = {
    "folds": lambda: CalibratedClassifierCV(
        DecisionTreeClassifier(), cv=StratifiedKFold(3, shuffle=True)
    ),
    "search": lambda: GridSearchCV(
        DecisionTreeClassifier(max_features=1), {"max_depth": [1, 3]}, cv=ShuffleSplit(3), n_jobs=2
    ),
    "generator in a parameter": lambda: GridSearchCV(
        DecisionTreeClassifier(random_state=np.random.RandomState(3)),
        {"max_features": [1, 2]},
        cv=ShuffleSplit(3, random_state=np.random.RandomState(4)),
    ),
    "net in a pipeline": lambda: make_pipeline(StandardScaler(), skorch_net()),
    "net with a generator": lambda: make_pipeline(
        StandardScaler(), skorch_net(HeldGenerator, module__generator=torch.Generator())
    ),
    "bare net": lambda: skorch_net(batch_size=128, max_epochs=10),
    "numpy and Python": PythonCoin,
    "scaler in place": lambda: make_pipeline(StandardScaler(copy=False), LogisticRegression()),
}


def train(teacher: object, rows: Private, **settings) -> SeparateTeachers:
    known = {"seed": 3, "n_steps": 12, "batch_size": 8, "progress": False}
    teachers = train_teachers(
        teacher, rows.X, rows.y, rows.shards, N_TEACHERS, 2, **(known | settings)
    )
    assert isinstance(teachers, SeparateTeachers)
    return teachers


def rows_in_single() -> Private:
    """Rows whose labels are uncertain: what a teacher answers then hangs on every draw."""
    rows = private_rows(n=150, n_teachers=N_TEACHERS)
    flipped = np.random.default_rng(5).random(150) < 0.3
    return Private(rows.X.astype(np.float32), rows.y ^ flipped, rows.shards)


def changed_by_a_record(teacher: Callable[[], object], record: int = 0, seed: int = 0) -> set[int]:
    """Teachers that answer otherwise without one record; global generators seeded alike."""
    rows = rows_in_single()
    answers = []
    for part in (rows, rows.without(record)):
        np.random.seed(seed)  # noqa: NPY002
        random.seed(seed)
        torch.manual_seed(seed)
        answers.append(train(teacher(), part).predictions(PUBLIC))
    return set(np.flatnonzero((answers[0] != answers[1]).any(axis=1)).tolist())


@pytest.mark.parametrize("name", TEACHERS)
def test_one_record_changes_one_teacher(name: str) -> None:
    rows = rows_in_single()
    first = int(np.flatnonzero(rows.shards == 0)[0])
    assert changed_by_a_record(TEACHERS[name], first) <= {0}


@pytest.mark.parametrize("name", ["folds", "net in a pipeline", "numpy and Python"])
def test_without_generators_of_their_own_one_record_changes_many(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(isolation, "own_globals", lambda _: contextlib.nullcontext())
    rows = rows_in_single()
    first = int(np.flatnonzero(rows.shards == 0)[0])
    # Shuffles of n and n - 1 rows take equally many numbers for some seeds.
    assert any(len(changed_by_a_record(TEACHERS[name], first, seed)) > 1 for seed in range(4))


class Uncopied(np.ndarray):
    """Rows of which every teacher gets the same memory."""

    def copy(self, order="C"):
        """Itself."""
        return self


def test_rows_that_teachers_write_into_would_tell_later_ones_of_a_record() -> None:
    rows = rows_in_single()
    record = int(np.flatnonzero(rows.shards == 0)[0])
    answers = []
    for part in (rows, rows.without(record)):
        shared = PUBLIC.copy().view(Uncopied)
        answers.append(train(TEACHERS["scaler in place"](), part).predictions(shared))
    changed = np.flatnonzero((answers[0] != answers[1]).any(axis=1))
    assert set(changed.tolist()) - {0}


def states() -> tuple[bytes, str, str]:
    return (
        torch.get_rng_state().numpy().tobytes(),
        str(np.random.get_state(legacy=False)),  # noqa: NPY002
        str(random.getstate()),
    )


@pytest.mark.parametrize("name", TEACHERS)
def test_a_teacher_depends_on_seed_and_number_alone(name: str) -> None:
    rows, found = rows_in_single(), []
    for seed in (0, 1):
        np.random.seed(seed)  # noqa: NPY002
        random.seed(seed)
        torch.manual_seed(seed)
        before = states()
        teachers = train(TEACHERS[name](), rows)
        found.append(teachers.predictions(PUBLIC))
        assert states() == before
    assert all(np.array_equal(found[0], other) for other in found[1:])


def everywhere(names: Collection[str], elsewhere: str) -> pytest.MarkDecorator:
    """All in this thread, and one of them in other threads and processes too."""
    cases = [(name, "sequential") for name in names]
    cases += [(elsewhere, backend) for backend in ("threading", "loky")]
    return pytest.mark.parametrize(("name", "backend"), cases)


@everywhere((), "net in a pipeline")
def test_teachers_are_the_same_wherever_they_are_trained(name: str, backend: str) -> None:
    rows = rows_in_single()
    alone = train(TEACHERS[name](), rows).predictions(PUBLIC)
    with joblib.parallel_config(backend=backend, n_jobs=2):
        np.testing.assert_array_equal(train(TEACHERS[name](), rows).predictions(PUBLIC), alone)


def test_votes_of_a_fit_move_by_what_is_charged(monkeypatch: pytest.MonkeyPatch) -> None:
    """A whole fit of a pipeline with dropout, in a script that seeds torch once."""
    rows, votes = rows_in_single(), []
    honest = aggregated.release_labels

    def watched(counts: np.ndarray, *args, **kwargs):
        votes.append(counts.copy())
        return honest(counts, *args, **kwargs)

    monkeypatch.setattr(aggregated, "release_labels", watched)
    for part in (rows, rows.without(0)):
        monkeypatch.setattr(aggregated, "assign_shards", lambda *_, s=part.shards: s)
        torch.manual_seed(0)
        PATEClassifier(
            TEACHERS["net in a pipeline"](), n_teachers=N_TEACHERS, epsilon=1.0, n_answers=50,
            random_state=0, progress=False,
        ).fit(part.X, part.y, X_public=PUBLIC)  # fmt: skip
    assert 0 < np.linalg.norm(votes[0] - votes[1], axis=1).max() <= np.sqrt(2.0)


# What clones share is refused before anything is charged.

SHARED = np.random.RandomState(0)


class GlobalVariable(DecisionTreeClassifier):
    """Draws from a generator that all its clones share."""

    def fit(self, X, y):
        kept = SHARED.random(len(X)) < 0.5
        kept[:2] = True
        return super().fit(X[kept], y[kept])


class Itself(DecisionTreeClassifier):
    """Is its own clone, and goes on from its last fit."""

    def __sklearn_clone__(self):
        return self

    def fit(self, X, y):
        seen = [*getattr(self, "seen_", []), (X, y)]
        super().fit(*(np.concatenate(part) for part in zip(*seen, strict=True)))
        self.seen_ = seen
        return self


class Fresh(GlobalVariable):
    """Says that no two fits are alike."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True
        return tags


def fit_pate(teacher: object, rows: Private, **settings) -> PATEClassifier:
    known = {"n_teachers": N_TEACHERS, "epsilon": 1.0, "n_answers": 20, "progress": False}
    model = PATEClassifier(teacher, **(known | settings))
    return model.fit(rows.X, rows.y, X_public=PUBLIC)


@pytest.mark.parametrize("make", [GlobalVariable, Itself])
def test_teachers_that_share_something_are_refused_before_the_charge(make, tmp_path) -> None:
    ledger = PrivacyLedger(tmp_path / "ledger")
    with pytest.raises(ValueError, match="answers differently after another of its clones"):
        fit_pate(make(), rows_in_single(), ledger=ledger)
    assert not ledger.entries()


def test_that_is_why() -> None:
    assert len(changed_by_a_record(GlobalVariable)) > 1


def test_a_teacher_with_fresh_randomness_says_so() -> None:
    assert fit_pate(Fresh(), rows_in_single()).n_answered_ == 20


def test_a_teacher_that_cannot_be_fitted_is_refused_before_the_charge(tmp_path) -> None:
    ledger = PrivacyLedger(tmp_path / "ledger")
    for teacher in (KNeighborsClassifier(200), GaussianNB(priors=[0.1, 0.1])):
        with pytest.raises(ValueError, match="fails on 75 public rows.*Nothing was charged"):
            fit_pate(teacher, rows_in_single(), ledger=ledger)
        with pytest.raises(ValueError, match="fails on 40 .*twice as many as a shard holds"):
            fit_pate(teacher, rows_in_single(), ledger=ledger, dataset_size=120)
    assert not ledger.entries()


def test_a_teacher_that_writes_its_shard_to_files_is_refused_before_the_charge(tmp_path) -> None:
    files, ledger = tmp_path / "cache", PrivacyLedger(tmp_path / "spent.db")
    cached = make_pipeline(StandardScaler(), LogisticRegression(), memory=str(files))
    net = NeuralNetClassifier(
        Net, criterion=nn.CrossEntropyLoss, callbacks=[("saved", Checkpoint(dirname=str(files)))]
    )
    for teacher, said in (
        (cached, "sets memory, a cache"),
        (make_pipeline(StandardScaler(), cached), "sets pipeline__memory"),
        (make_pipeline(StandardScaler(), net), "callback Checkpoint in neuralnetclassifier"),
    ):
        model = PATEClassifier(teacher, n_teachers=4, ledger=ledger, progress=False)
        with pytest.raises(ValueError, match=said):
            model.fit(np.eye(60, 5), np.arange(60) % 2, X_public=PUBLIC)
    assert not files.exists()
    assert not ledger.path.exists()


@pytest.mark.parametrize("n", [149, 150])
def test_whether_a_teacher_is_refused_does_not_depend_on_the_secret_number_of_rows(n) -> None:
    """Of 149 and of 150 private rows, one shard held 298 and 300 rows on average, twice."""
    rows = rows_in_single()
    rows = Private(rows.X[:n], rows.y[:n], rows.shards[:n])
    assert fit_pate(KNeighborsClassifier(50), rows, n_teachers=1).n_answered_ == 20
    with pytest.raises(ValueError, match="fails on 75 public rows") as refused:
        fit_pate(KNeighborsClassifier(299), rows, n_teachers=1)
    assert "14" not in str(refused.value).replace("n_samples = 75", "")


# A teacher that fails votes for the first class, whatever else happens.


class Codes(nn.Module):
    """The first column is one of five categories."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.head = nn.Embedding(5, 4), nn.Linear(8, 2)

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """Logits."""
        return self.head(torch.cat([self.table(X[:, 0].long()), X[:, 1:]], 1))


def rows_with_codes() -> Private:
    rows = rows_in_single()
    rows.X[:, 0] = np.arange(len(rows.X)) % 5
    return rows


class Leaving(DecisionTreeClassifier):
    """Ends the process, or answers in a strange shape, where its rows are large."""

    def __init__(self, how: str = "exit") -> None:
        super().__init__()
        self.how = how

    def fit(self, X, y):
        if self.how == "exit" and X.max() > 50:
            sys.exit("a row is large")
        self.large_ = X.max() > 50
        return super().fit(X, y)

    def predict(self, X):
        answers = super().predict(X)
        if self.large_ and self.how == "raise":
            raise RuntimeError("a row was large")
        return answers[:-1] if self.large_ else answers


FAILING: dict[str, Callable[[], object]] = {
    "bare net": lambda: skorch_net(Codes, batch_size=128, max_epochs=10),
    "net in a pipeline": lambda: make_pipeline("passthrough", skorch_net(Codes)),
    "exit": Leaving,
    "fails to answer": lambda: Leaving("raise"),
    "answers too few": lambda: Leaving("few"),
}


@everywhere(FAILING, "bare net")
def test_a_teacher_that_fails_votes_for_the_first_class(name: str, backend: str) -> None:
    rows = rows_with_codes()
    public = rows.X[:40].copy()
    sound = train(FAILING[name](), rows).predictions(public)
    record = int(np.flatnonzero(rows.shards == 2)[0])
    rows.X[record, 0] = 77  # no such category, and large
    with joblib.parallel_config(backend=backend, n_jobs=2):
        broken = train(FAILING[name](), rows).predictions(public)
    assert (broken[2] == 0).all()
    assert sound[2].any()
    np.testing.assert_array_equal(np.delete(broken, 2, 0), np.delete(sound, 2, 0))


def test_a_fit_says_nothing_if_all_teachers_fail() -> None:
    rows = rows_with_codes()
    rows.X[:, 0] = 77
    teachers = train(FAILING["bare net"](), rows)
    assert (teachers.fixed == 0).all()
    assert (teachers.votes(PUBLIC)[:, 0] == N_TEACHERS).all()


# Nothing is shown of a shard: no count, no word.


def totals_shown(capfd: pytest.CaptureFixture) -> set[str]:
    return set(re.findall(r"\d+/(\d+)", capfd.readouterr().err))


def test_the_bar_does_not_count_shards_with_two_classes(capfd: pytest.CaptureFixture) -> None:
    rows = rows_in_single()
    one_class = np.where(rows.shards < 2, 0, rows.y)
    for labels in (rows.y, one_class):
        train(DecisionTreeClassifier(), Private(rows.X, labels, rows.shards), progress=True)
        assert totals_shown(capfd) == {str(N_TEACHERS)}


def test_the_bar_does_not_show_a_protected_attribute(capfd: pytest.CaptureFixture) -> None:
    rows = rows_in_single()
    groups = np.full(len(rows.X), "a", dtype=object)
    for others in (3, 4):
        groups[:others] = "b"
        SFPATEClassifier(
            DecisionTreeClassifier(), n_teachers=30, groups=["a", "b"], epsilon=1.0, n_answers=30,
            progress=True,
        ).fit(rows.X, rows.y, sensitive_features=groups)  # fmt: skip
        assert totals_shown(capfd) == {"30"}


class Talking(DecisionTreeClassifier):
    """Says in every way that there is how many rows it got."""

    def fit(self, X, y):
        said = f"secret {len(X)}\n"
        print(said)
        print(said, file=sys.stderr)
        sys.__stderr__.write(said)
        os.write(1, said.encode())
        os.write(2, said.encode())
        logging.getLogger("talking").critical(said)
        logging.getLogger("talking").log(99, said)
        warnings.warn(said, stacklevel=1)
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.warn(said, stacklevel=1)
        if os.name == "posix":
            ctypes.CDLL(None).printf(said.encode())
        return super().fit(X, y)

    def predict(self, X):
        print("secret")
        return super().predict(X)


TALKING: dict[str, Callable[[], object]] = {
    "every way": Talking,
    "losses": lambda: make_pipeline(StandardScaler(), skorch_net(verbose=1)),
    "code in C": lambda: SVC(verbose=True),
    "code in C++": lambda: LogisticRegression(solver="liblinear", verbose=1),
}


@contextlib.contextmanager
def logged() -> Iterator[list[logging.LogRecord]]:
    records: list[logging.LogRecord] = []
    handler = logging.Handler(level=0)
    handler.emit = records.append  # type: ignore[method-assign]
    logging.getLogger().addHandler(handler)
    try:
        yield records
    finally:
        logging.getLogger().removeHandler(handler)


@everywhere(TALKING, "every way")
def test_teachers_say_nothing(name: str, backend: str, capfd: pytest.CaptureFixture) -> None:
    with logged() as records, joblib.parallel_config(backend=backend, n_jobs=2):
        train(TALKING[name](), rows_in_single()).predictions(PUBLIC)
    assert capfd.readouterr() == ("", "")
    assert records == []
    print("seen")
    logging.getLogger("after").error("heard")
    assert capfd.readouterr().out == "seen\n"


@pytest.mark.parametrize("name", TALKING)
def test_teachers_that_talk_are_heard(
    name: str, capfd: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parallel, "alone", lambda _: contextlib.nullcontext())
    with logged() as records, warnings.catch_warnings(record=True):
        train(TALKING[name](), rows_in_single())
    ctypes.CDLL(None).fflush(None)
    shown = capfd.readouterr()
    assert shown.out
    if name == "every way":
        assert shown.out.count("secret") >= 2 * N_TEACHERS
        assert shown.err.count("secret") >= 2 * N_TEACHERS
        assert len(records) == 2 * N_TEACHERS


# What certificates say of the rows that a student learns from.


@pytest.mark.parametrize("variant", ["fair_student", "fair_teachers"])
@pytest.mark.parametrize("with_public", [False, True])
def test_the_sentence_about_the_students_rows_is_true(variant: str, with_public: bool) -> None:
    rows = rows_in_single()
    groups = np.where(rows.X[:, 1] > 0, "a", "b")
    public = {}
    if with_public:
        public = {"X_public": PUBLIC}
        if variant == "fair_student":
            public["y_public"] = (PUBLIC[:, 0] > PUBLIC[:, 1]).astype(int)
    model = SFPATEClassifier(
        n_teachers=8, variant=variant, epsilon=1.0, n_answers=40, progress=False
    ).fit(rows.X, rows.y, sensitive_features=groups, **public)
    said = " ".join(model.privacy_.assumptions)
    used, unused = (
        "the student learns from the same rows, and their attributes reach it through the noisy "
        "votes alone",
        "the student learns from public rows, whose attributes are not used",
    )
    assert (used in said) == (not with_public)
    assert (unused in said) == with_public
    assert "is not used" not in said


def test_clones_of_a_teacher_start_alike() -> None:
    """A generator in a parameter is copied, so that no teacher moves that of another."""
    teacher = TEACHERS["net with a generator"]()
    held = [clone(teacher)[-1].module__generator for _ in range(2)]
    assert held[0] is not held[1]
    assert torch.equal(held[0].get_state(), held[1].get_state())
