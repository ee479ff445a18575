"""Secret draws: who could know, repeat or shift them.

The noise, the batches and the masks of a fit are secret streams of AES-128 in counter mode.
Statistical checks hold with probability 1 - 1e-9 each: six standard errors.
"""

from __future__ import annotations

import contextlib
import copy
import gc
import os
import pickle
import random
import threading
import warnings
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from randomgen import AESCounter
from skorch import NeuralNet
from torch import nn

from skfairdp import DPSGDClassifier, FairDPClassifier, PATEClassifier, PrivacyLedger
from skfairdp.engine import randomness
from skfairdp.engine.clipping.clippers import make_clipper
from skfairdp.engine.objectives import objective_for
from skfairdp.engine.optimizers import flatten
from skfairdp.engine.randomness import OwnDraws, SeededDraws, own_draws
from skfairdp.engine.release import NoisyRelease
from skfairdp.privacy import NoiseSource, streams
from skfairdp.privacy.streams import Stream, stream_of
from skfairdp.records.sampling import PoissonSampler

SIX = 6.0
BINARY = nn.BCEWithLogitsLoss
GIVEN: dict = {"epsilon": None, "noise_multiplier": 1.0, "delta": 1e-4, "progress": False}


# AES-128 in counter mode, with all the bits of the operating system.


def aes_words(key: int, counter: int, n: int) -> np.ndarray:
    """Outputs by an independent implementation: AES of counter, counter + 1, ..."""
    encryptor = Cipher(algorithms.AES(key.to_bytes(16, "little")), modes.ECB()).encryptor()
    blocks = (((counter + i) % 2**128).to_bytes(16, "little") for i in range(-(-n // 2)))
    return np.frombuffer(b"".join(map(encryptor.update, blocks)), dtype="<u8")[:n]


@pytest.mark.parametrize("in_hardware", [False, True])
@pytest.mark.parametrize(
    ("key", "counter"),
    [(0, 0), (2**128 - 1, 2**128 - 2), (0x2B7E151628AED2A6ABF7158809CF4F3C, 2**64 - 3)],
)
def test_the_generator_is_aes_in_counter_mode(key: int, counter: int, in_hardware: bool) -> None:
    generator = AESCounter(key=key, counter=counter)
    if in_hardware and not generator.use_aesni:
        pytest.skip("this processor has no instructions for AES")
    generator.use_aesni = in_hardware
    np.testing.assert_array_equal(generator.random_raw(41), aes_words(key, counter, 41))


def test_every_stream_is_keyed_with_all_bits_of_the_operating_system(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[int] = []
    honest = streams.secrets.randbits

    def recorded(n: int) -> int:
        assert n == 128
        asked.append(honest(n))
        return asked[-1]

    monkeypatch.setattr(streams.secrets, "randbits", recorded)
    source = NoiseSource()
    assert len(asked) == 6
    drawn = [g.bit_generator.random_raw(9) for g in (source.sampling, source._noise, source.masks)]
    for words, key, counter in zip(drawn, asked[::2], asked[1::2], strict=True):
        np.testing.assert_array_equal(words, aes_words(key, counter, 9))


def test_certificates_name_the_generator() -> None:
    assert "AES-128 in counter mode" in NoiseSource().name
    assert "128-bit key and a 128-bit starting counter" in NoiseSource().name
    X, y = rows()
    model = DPSGDClassifier(max_epochs=1, **GIVEN).fit(X, y)
    assert any(NoiseSource().name in text for text in model.privacy_.assumptions)


def biased_digits(generator: np.random.Generator) -> int:
    """Worst deviation of a binary digit of uniform numbers, in standard errors."""
    n = 100_000
    digits = (generator.random(n) * 2.0**53).astype(np.uint64)
    ones = [np.count_nonzero(digits >> np.uint64(k) & np.uint64(1)) for k in range(53)]
    return max(abs(2 * count - n) for count in ones) / np.sqrt(n)


def correlated_draws(generator: np.random.Generator) -> float:
    """Worst correlation of normal draws with later ones, in standard errors."""
    z = generator.standard_normal(100_000)
    return max(abs(z[:-lag] @ z[lag:]) / np.sqrt(len(z) - lag) for lag in (1, 2, 4, 8, 64))


def test_draws_look_independent_to_the_last_digit() -> None:
    source = NoiseSource()
    for generator in (source.sampling, source.masks):
        assert biased_digits(generator) < SIX
        assert correlated_draws(generator) < SIX


def test_digits_that_are_cut_and_draws_that_come_twice_are_seen() -> None:
    class Cut:
        def random(self, n: int) -> np.ndarray:
            return np.random.default_rng(0).random(n, dtype=np.float32).astype(float)

        def standard_normal(self, n: int) -> np.ndarray:
            return np.repeat(np.random.default_rng(0).standard_normal(n // 4), 4)

    assert biased_digits(Cut()) > SIX  # type: ignore[arg-type]
    assert correlated_draws(Cut()) > SIX  # type: ignore[arg-type]


# Nobody gets the same numbers a second time.


def the_parts(source: NoiseSource) -> list[object]:
    generators = [source.sampling, source.masks, source._noise]
    return [source, *generators, *(generator.bit_generator for generator in generators)]


@pytest.mark.parametrize("seed", [None, 0])
@pytest.mark.parametrize("duplicate", [pickle.dumps, copy.copy, copy.deepcopy])
def test_no_part_of_a_source_can_be_duplicated(duplicate: Callable, seed: int | None) -> None:
    for part in the_parts(NoiseSource(seed)):
        with pytest.raises(TypeError, match="repeat its noise"):
            duplicate(part)


def test_no_part_of_a_source_shows_its_state() -> None:
    source = NoiseSource()
    for generator in (source.sampling, source.masks):
        for leak in (
            lambda g=generator: g.bit_generator.state,
            lambda g=generator: setattr(g.bit_generator, "state", {}),
            lambda g=generator: g.bit_generator.jumped(),
            lambda g=generator: g.spawn(1),
            lambda g=generator: g.bit_generator.spawn(1),
        ):
            with pytest.raises(TypeError, match="state"):
                leak()


def test_a_generator_of_numpy_would_be_copied_without_a_word() -> None:
    plain = np.random.Generator(AESCounter(key=1, counter=2))
    copied = pickle.loads(pickle.dumps(plain))
    assert copied.random() == plain.random()


def in_a_child(draw: Callable[[], np.ndarray]) -> np.ndarray:
    """What a forked process draws next."""
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # newer Pythons warn of threads
        child = os.fork()
    if child == 0:
        try:
            os.write(write, draw().astype(np.float64).tobytes())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        drawn = np.frombuffer(pipe.read())
    os.waitpid(child, 0)
    return drawn


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


@needs_fork
def test_a_forked_process_has_noise_batches_and_masks_of_its_own() -> None:
    source = NoiseSource()
    draws: list[Callable[[], np.ndarray]] = [
        lambda: source.gaussian(20, 1.0),
        lambda: source.sampling.random(20),
        lambda: source.masks.random(20),
    ]
    for draw in draws:
        draw()
        there = in_a_child(draw)
        assert len(there) == 20
        assert not np.intersect1d(there, in_a_child(draw)).size
        assert not np.intersect1d(there, draw()).size


@needs_fork
def test_a_forked_process_repeats_what_has_no_new_key() -> None:
    seeded = NoiseSource(0)
    there = in_a_child(lambda: seeded.gaussian(20, 1.0))
    np.testing.assert_array_equal(there, seeded.gaussian(20, 1.0))


def batches_ahead() -> Callable[[], np.ndarray]:
    """Rounds of coins are drawn ahead: these would be the same in both processes."""
    sampler = PoissonSampler(np.zeros(500, dtype=int), 1, NoiseSource().sampling)
    sampler.draw((0.2,))
    return lambda: sampler.draw((0.2,)).rows


@needs_fork
def test_a_forked_process_draws_batches_of_its_own() -> None:
    draw = batches_ahead()
    # Two batches of 500 coins are equal with a chance below 1e-80.
    assert not np.array_equal(in_a_child(draw), draw())


@needs_fork
def test_rounds_drawn_ahead_would_be_used_in_both_processes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("skfairdp.records.sampling.os.getpid", lambda: 1)
    draw = batches_ahead()
    np.testing.assert_array_equal(in_a_child(draw), draw())


def drawn_by_threads(draw: Callable[[], np.ndarray]) -> np.ndarray:
    drawn: list[np.ndarray] = []
    start = threading.Barrier(4)

    def work() -> None:
        start.wait()
        drawn.extend(draw() for _ in range(300))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return np.concatenate(drawn)


def test_threads_that_share_a_source_never_draw_the_same() -> None:
    source = NoiseSource()
    for draw in (
        lambda: source.gaussian(50, 1.0),
        lambda: source.sampling.integers(2**63, size=50),
        lambda: source.masks.random(50),
    ):
        drawn = drawn_by_threads(draw)
        # 60,000 draws of 52 random bits or more: two are equal by chance once in 10^6 runs.
        assert len(np.unique(drawn)) == len(drawn) == 60_000


def test_threads_that_draw_the_same_are_seen() -> None:
    drawn = drawn_by_threads(lambda: NoiseSource(0).gaussian(50, 1.0))
    assert len(np.unique(drawn)) < len(drawn)


# Fits: nothing of a secret in global generators, nothing kept, nothing refused too late.


class Dropping(nn.Module):
    """No stack of layers, with dropout."""

    def __init__(self, n_features: int, n_outputs: int = 1) -> None:
        super().__init__()
        self.first, self.head = nn.Linear(n_features, 8), nn.Linear(8, n_outputs)
        self.dropout = nn.Dropout(0.5)

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """Logits."""
        return self.head(self.dropout(torch.tanh(self.first(X))))


class Functional(Dropping):
    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """Dropout without a layer, noise without one."""
        hidden = nn.functional.dropout(torch.tanh(self.first(X)), 0.5, self.training)
        return self.head(hidden + 0.1 * torch.rand_like(hidden))


def net_of(module: type[nn.Module]) -> NeuralNet:
    return NeuralNet(module, criterion=BINARY, optimizer=torch.optim.SGD, lr=0.1, train_split=None)


def rows(n: int = 200) -> tuple[np.ndarray, np.ndarray]:
    X = np.random.default_rng(0).normal(size=(n, 4))
    return X, (X[:, 0] > 0).astype(int)


def model_of(module: type[nn.Module], **settings: object) -> DPSGDClassifier:
    return DPSGDClassifier(net_of(module), **(GIVEN | {"max_epochs": 3} | settings))


def global_states() -> tuple[bytes, int, str, str]:
    return (
        torch.get_rng_state().numpy().tobytes(),
        torch.initial_seed(),
        str(np.random.get_state(legacy=False)),  # noqa: NPY002
        str(random.getstate()),
    )


@contextlib.contextmanager
def states_seen_in_training(monkeypatch: pytest.MonkeyPatch) -> Iterator[list]:
    """What anybody sees of the global generators while steps are made."""
    seen: list = []
    honest = NoisyRelease.gradient

    def watched(self: NoisyRelease, *args: object, **kwargs: object) -> torch.Tensor:
        seen.append(global_states())
        return honest(self, *args, **kwargs)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(NoisyRelease, "gradient", watched)
        yield seen


def fits_in_threads(n: int = 3) -> None:
    X, y = rows()
    failed: list[BaseException] = []

    def fit() -> None:
        try:
            model_of(Dropping, random_state=0).fit(X, y)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=fit) for _ in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


def test_fits_in_threads_neither_move_nor_show_global_generators(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    torch.manual_seed(123)
    before = global_states()
    with states_seen_in_training(monkeypatch) as seen:
        fits_in_threads()
    assert len(seen) > 9
    assert set(seen) == {before}
    assert global_states() == before


def test_a_fit_that_seeds_the_global_generator_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextlib.contextmanager
    def seeded(*_: object) -> Iterator[None]:
        with torch.random.fork_rng(), OwnDraws(np.random.default_rng(0)):
            torch.manual_seed(7)
            yield

    monkeypatch.setattr(randomness, "own_draws", seeded)
    before = global_states()
    with states_seen_in_training(monkeypatch) as seen:
        model_of(Dropping).fit(*rows())
    assert set(seen) != {before}


@pytest.mark.parametrize("module", [pytest.param(Dropping, marks=pytest.mark.slow), Functional])
def test_masks_come_from_the_fit_alone(module: type[nn.Module]) -> None:
    X, y = rows()

    def weights(seed: int, **settings: object) -> torch.Tensor:
        torch.manual_seed(seed)
        fitted = model_of(module, random_state=0, **settings).fit(X, y)
        return torch.cat([p.detach().flatten() for p in fitted.module_.parameters()])

    one = weights(0, reproducible_noise=True)
    assert torch.equal(one, weights(1, reproducible_noise=True))
    assert not torch.equal(weights(0), weights(0))


def masks_of(source: np.random.Generator, n: int = 400, width: int = 30) -> torch.Tensor:
    """Which weights of the last layer each record's gradient leaves out."""
    module = nn.Sequential(nn.Linear(2, width), nn.Dropout(0.4), nn.Linear(width, 1))
    with torch.no_grad():
        module[0].bias.fill_(1.0)
    flat = flatten(module)
    clipper = make_clipper(module, flat, objective_for(BINARY()))
    where = next(s.slice for s in flat.layout if s.name == "2.weight")
    with OwnDraws(source):
        sums = clipper.clipped_sums(
            torch.zeros(n, 2), (torch.ones(n),), 1.0, torch.eye(n, dtype=torch.float64)
        )
    return sums[:, where] == 0


def test_masks_are_independent_between_records_and_have_their_law() -> None:
    dropped = masks_of(NoiseSource().masks).double()
    assert abs(dropped.mean() - 0.4) < SIX * np.sqrt(0.24 / dropped.numel())
    centred = (dropped - 0.4) / np.sqrt(0.24)
    n, width = dropped.shape
    between = torch.triu(centred @ centred.T, 1).abs().max() / np.sqrt(width)
    # 80,000 correlations of 30 bits each: Hoeffding at 1e-9 over all of them is 6.6 / .49.
    assert between < 13.5
    # Sums over all pairs have mean 0 and variance n (n - 1) / 2 * width.
    together = torch.triu(centred @ centred.T, 1).sum()
    assert abs(together) < SIX * np.sqrt(n * (n - 1) / 2 * width)


def test_one_mask_for_a_whole_batch_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = OwnDraws._successes

    def shared(self: OwnDraws, like: torch.Tensor, p: float) -> torch.Tensor:
        return honest(self, like[:1], p).expand_as(like)

    monkeypatch.setattr(OwnDraws, "_successes", shared)
    dropped = masks_of(NoiseSource().masks).double()
    centred = (dropped - 0.4) / np.sqrt(0.24)
    n, width = dropped.shape
    assert abs(torch.triu(centred @ centred.T, 1).sum()) > SIX * np.sqrt(n * (n - 1) / 2 * width)


def test_for_given_masks_a_record_moves_a_sum_by_no_more_than_the_norm() -> None:
    module = Dropping(4)
    flat = flatten(module)
    clipper = make_clipper(module, flat, objective_for(BINARY()))
    X, y = (torch.from_numpy(part).float() for part in rows(40))
    weights = torch.ones(40, dtype=torch.float64)

    def total(left_out: int | None) -> torch.Tensor:
        chosen = weights.clone()
        if left_out is not None:
            chosen[left_out] = 0.0
        with OwnDraws(stream_of(bytes(32))):
            return clipper.clipped_sums(X, (y,), 0.05, chosen).double()

    moved = [(total(None) - total(i)).norm() for i in range(0, 40, 7)]
    assert 0.049 < max(moved) < 0.05 + 1e-6


FITS: dict[str, Callable] = {
    "dropout": lambda: model_of(Dropping, max_epochs=1),
    "groups": lambda: FairDPClassifier(max_epochs=1, **GIVEN),
    "votes": lambda: PATEClassifier(
        n_teachers=5, epsilon=None, vote_noise=5.0, n_answers=9, delta=1e-4, progress=False
    ),
}


@pytest.mark.parametrize("make", FITS.values(), ids=FITS)
def test_no_stream_outlives_its_fit(make: Callable) -> None:
    X, y = rows()
    groups = np.where(X[:, 1] > 0, "a", "b")
    gc.collect()
    before = len(streams._SECRET)
    model = make()
    public = {"X_public": X[:30]} if isinstance(model, PATEClassifier) else {}
    model.fit(X, y, sensitive_features=groups, **public)
    gc.collect()
    assert len(streams._SECRET) == before
    model.kept = NoiseSource()  # a fit that kept its source would be seen
    assert len(streams._SECRET) == before + 3


# Everything that torch draws in training is served, or refused before the charge.


@pytest.mark.parametrize("mode", [torch.enable_grad, torch.inference_mode])
@pytest.mark.parametrize(
    "layer",
    [
        nn.Dropout(0.5), nn.Dropout1d(0.5), nn.AlphaDropout(0.5),
        nn.FeatureAlphaDropout(0.5), nn.LSTM(3, 4, 2, dropout=0.5), nn.GRU(3, 4, 2, dropout=0.5),
        nn.TransformerEncoderLayer(3, 1, 8, dropout=0.5),
    ],
    ids=lambda layer: type(layer).__name__,
)  # fmt: skip
def test_dropout_of_every_kind_is_served(layer: nn.Module, mode: Callable) -> None:
    X = torch.ones(6, 5, 3)
    before = global_states()
    outputs = []
    for seed in (0, 0, 1):
        with OwnDraws(np.random.default_rng(seed)) as draws, mode():
            out = layer(X)
            outputs.append(out[0] if isinstance(out, tuple) else out)
        assert draws.used
    assert global_states() == before
    assert torch.equal(outputs[0], outputs[1])
    assert not torch.equal(outputs[0], outputs[2])


def test_draws_have_their_laws() -> None:
    n = 40_000
    with OwnDraws(np.random.default_rng(3)):
        for drawn, mean, std in [
            (torch.rand(n), 0.5, 12**-0.5),
            (torch.rand_like(torch.zeros(n)), 0.5, 12**-0.5),
            (torch.empty(n).uniform_(-1, 3), 1.0, 4 * 12**-0.5),
            (torch.randn(n), 0.0, 1.0),
            (torch.randn_like(torch.zeros(n)), 0.0, 1.0),
            (torch.empty(n).normal_(2, 3), 2.0, 3.0),
            (torch.empty(n).exponential_(0.5), 2.0, 2.0),
            (torch.bernoulli(torch.full((n,), 0.3)), 0.3, 0.21**0.5),
            (torch.empty(n).bernoulli_(0.3), 0.3, 0.21**0.5),
            (torch.randint(2, 6, (n,)).float(), 3.5, 1.25**0.5),
            (torch.ops.aten.native_dropout(torch.ones(n), 0.2, True)[0], 1.0, 0.5),
        ]:
            assert abs(drawn.mean() - mean) < SIX * std / np.sqrt(n)
            assert abs(drawn.std() / std - 1) < 0.05
        assert sorted(torch.randperm(9).tolist()) == list(range(9))
        # Rounded up to 1 such a number would make a logarithm infinite.
        assert torch.rand(n, dtype=torch.bfloat16).max() < 1


def test_initial_weights_are_those_of_the_global_generator_without_it() -> None:
    before = global_states()
    with SeededDraws(5):
        mine = [*nn.Linear(3, 2).parameters(), torch.randn(3), torch.randperm(5)]
    assert global_states() == before
    with torch.random.fork_rng():
        torch.manual_seed(5)
        theirs = [*nn.Linear(3, 2).parameters(), torch.randn(3), torch.randperm(5)]
    assert all(torch.equal(a, b) for a, b in zip(mine, theirs, strict=True))


class Multinomial(Dropping):
    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """A draw that cannot be served."""
        return self.head(self.first(X)) + torch.multinomial(torch.ones(3), 1)


class FromNumpy(Dropping):
    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """A draw from a generator that everybody can seed."""
        return self.head(self.first(X)) * np.random.random()  # noqa: NPY002


class FromPython(Dropping):
    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """The same."""
        return self.head(self.first(X)) * random.random()


@pytest.mark.parametrize(
    ("module", "match"),
    [(Multinomial, "'multinomial'"), (FromNumpy, "numpy or Python"), (FromPython, "numpy or")],
)
def test_other_draws_are_refused_before_anything_is_charged(
    module: type[nn.Module], match: str, tmp_path
) -> None:
    ledger = PrivacyLedger(tmp_path / "ledger")
    with pytest.raises(ValueError, match=match):
        model_of(module, ledger=ledger).fit(*rows())
    assert not ledger.entries()


class LaterThanThought(Dropping):
    """Draws when it has been called more often than by all checks together."""

    calls = 0

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """Logits."""
        type(self).calls += 1
        hidden = self.first(X)
        return self.head(self.dropout(hidden) if type(self).calls > 60 else hidden)


def test_a_module_that_hides_its_draws_is_refused_by_the_engine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = global_states()
    with pytest.raises(ValueError, match="draws random numbers in training"):
        model_of(LaterThanThought, max_epochs=12).fit(*rows())
    assert global_states() == before
    # An engine that believed the first impression would draw from the global generator.
    monkeypatch.setattr("skfairdp.engine.clipping.functional.are_served", lambda: True)
    LaterThanThought.calls = 0
    model_of(LaterThanThought, max_epochs=12).fit(*rows())
    assert global_states() != before


def test_a_module_that_draws_nothing_is_left_alone() -> None:
    module = nn.Sequential(nn.Linear(3, 2), nn.Dropout(0.0))
    assert isinstance(own_draws(module, (3,), NoiseSource(0)), contextlib.nullcontext)
    assert isinstance(own_draws(Dropping(3), (3,), NoiseSource(0)), OwnDraws)
    assert not randomness.are_served()


def test_streams_are_those_of_their_keys() -> None:
    key = bytes(range(32))
    words = aes_words(int.from_bytes(key[:16], "little"), int.from_bytes(key[16:], "little"), 5)
    stream = stream_of(key)
    assert isinstance(stream, Stream)
    np.testing.assert_array_equal(stream.bit_generator.random_raw(5), words)
