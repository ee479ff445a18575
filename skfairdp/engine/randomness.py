"""Random numbers for torch without its global generators, which belong to the process.

Whatever torch draws inside the blocks of this module, in this thread and in whatever way
(a dropout layer, ``torch.rand`` in a forward pass, an initialiser), is drawn from a
generator of the block's own. Other threads, and torch's global state, notice nothing.
"""

from __future__ import annotations

import math
import pickle
import random
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from skfairdp.engine.exact_products import DispatchMode, is_on
from skfairdp.engine.modules import linear_stack
from skfairdp.engine.optimizers import copy_module
from skfairdp.privacy.noise import NoiseSource

_DRAWS = torch.Tag.nondeterministic_seeded
_WITH_GENERATOR = {"default": "generator", "low": "low_generator"}


def are_served() -> bool:
    """Whether torch's draws in this thread come from a generator of our own."""
    return is_on(OwnDraws)


class OwnDraws(DispatchMode):
    """Draw torch's random numbers from a generator of numpy inside the block."""

    def __init__(self, generator: np.random.Generator) -> None:
        super().__init__()
        self._generator = generator
        self.used = False

    def _answer(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return self._serve(func, args, kwargs) if _DRAWS in func.tags else func(*args, **kwargs)

    def _serve(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        given = _arguments(func, args, kwargs)
        name = func._schema.name.removeprefix("aten::")
        like: Any = given.get("self")
        if given.get("dropout_p") == 0.0:
            return func(*args, **kwargs)  # attention that drops nothing
        self.used = True
        if name in ("rand", "randn", "rand_like", "randn_like"):
            kind = {"dtype": given["dtype"], "device": given["device"]}
            alike = name in ("rand_like", "randn_like")
            out = torch.empty_like(like, **kind) if alike else torch.empty(given["size"], **kind)
            return self._normal(out) if name.startswith("randn") else self._uniform(out)
        if name == "uniform_":
            low, high = given["from"], given["to"]
            return self._uniform(like).mul_(high - low).add_(low)
        if name == "normal_":
            return self._normal(like).mul_(given["std"]).add_(given["mean"])
        if name == "exponential_":
            numbers = (self._generator.integers(2**53, size=tuple(like.shape)) + 0.5) * 2.0**-53
            return like.copy_(torch.from_numpy(-np.log(numbers))).div_(given["lambd"])
        if name == "bernoulli_":
            return like.copy_(self._successes(like, given["p"]))
        if name == "bernoulli":
            p: Any = given.get("p")
            return self._successes(like, like if p is None else p).to(like.dtype)
        if name == "native_dropout":
            rows, p = given["input"], given["p"]
            if given["train"] is False:
                return rows.clone(), torch.ones_like(rows, dtype=torch.bool)
            kept = self._successes(rows, 1.0 - p)
            return rows * kept * (0.0 if p == 1.0 else 1.0 / (1.0 - p)), kept
        if name in ("randint", "randperm"):
            if name == "randint":
                shape = tuple(given["size"])
                drawn = self._generator.integers(given.get("low", 0), given["high"], size=shape)
            else:
                drawn = self._generator.permutation(given["n"])
            # The schema's default dtype is a number.
            dtype = given["dtype"] if isinstance(given["dtype"], torch.dtype) else torch.int64
            out = torch.empty(drawn.shape, dtype=dtype, device=given["device"])
            return out.copy_(torch.from_numpy(drawn))
        raise ValueError(
            f"The net draws random numbers by torch's {name!r}, for which a fit cannot choose the "
            "generator. Use dropout layers, torch.rand, torch.randn or torch.bernoulli instead."
        )

    def _uniform(self, out: Tensor) -> Tensor:
        # As many digits as the dtype holds below 1, so that no number is rounded up to 1.
        digits = 1 - int(math.log2(torch.finfo(out.dtype).eps))
        drawn = self._generator.integers(2**digits, size=tuple(out.shape)) * 2.0**-digits
        return out.copy_(torch.from_numpy(np.asarray(drawn)))

    def _normal(self, out: Tensor) -> Tensor:
        drawn = self._generator.standard_normal(tuple(out.shape))
        return out.copy_(torch.from_numpy(np.asarray(drawn)))

    def _successes(self, like: Tensor, p: float | Tensor) -> Tensor:
        drawn = np.asarray(self._generator.random(tuple(like.shape)))
        return torch.from_numpy(drawn).to(like.device) < p


class SeededDraws(OwnDraws):
    """Draw torch's random numbers as its global generators would after ``manual_seed``.

    For initial weights and other things that no protection rests on.
    """

    def __init__(self, seed: int) -> None:
        super().__init__(np.random.default_rng(seed))
        self._seed = seed
        self._by_device: dict[str, torch.Generator] = {}

    def _serve(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        given = _arguments(func, args, kwargs)
        if "generator" not in given:
            name = _WITH_GENERATOR.get(func._overloadname, "")
            seeded = getattr(func.overloadpacket, name, None) if name else None
            if seeded is None:
                return super()._serve(func, args, kwargs)
            func = seeded
        elif given["generator"] is not None:
            return func(*args, **kwargs)  # a generator of the module's own
        where = next((a.device for a in args if isinstance(a, Tensor)), given.get("device"))
        device = torch.device("cpu" if where is None else where)
        if str(device) not in self._by_device:
            self._by_device[str(device)] = torch.Generator(device).manual_seed(self._seed)
        self.used = True
        return func(*args, **(kwargs | {"generator": self._by_device[str(device)]}))


def own_draws(
    module: nn.Module, row_shape: tuple[int, ...], noise: NoiseSource
) -> AbstractContextManager[Any]:
    """Give a module that draws while it trains the noise source's generator for masks.

    The module is run on rows of zeros first. One that draws nothing is left alone, for
    serving costs time at every operation of torch.

    Result: training goes inside. A module that draws for the first time in there is refused by
    the engine.

    Notes
    -----
    The draws of one record are independent of those of all others, for every row of a batch
    has its own numbers, and they are never shown. For fixed draws a record moves a sum by no
    more than the clipping norm; privacy loss of a mixture is at most the mean of its parts', so
    the guarantee holds as it does for batches: for the law of the draws.
    """
    stack = linear_stack(module)
    if stack is not None and not stack.dropouts:
        return nullcontext()
    reference = next(module.parameters())
    rows = torch.zeros((2, *row_shape), dtype=reference.dtype, device=reference.device)
    watch = OwnDraws(np.random.default_rng(0))
    # Other threads may draw from the global generators meanwhile, but hardly three times.
    if all(_moves_python(lambda: _run_twice(module, rows, watch)) for _ in range(3)):
        raise ValueError(
            f"The module {type(module).__name__} draws from the global generator of numpy or "
            "Python, which any code can seed. Use torch's functions, e.g. torch.rand: they are "
            "served from a secret generator."
        )
    return OwnDraws(noise.masks) if watch.used else nullcontext()


def _run_twice(module: nn.Module, rows: Tensor, watch: OwnDraws) -> None:
    """Run a copy of a module as in training, and as at prediction."""
    with torch.no_grad(), watch:
        copied = copy_module(module)
        copied(rows)
        copied.eval()(rows)


def _moves_python(run: Callable[[], None]) -> bool:
    """Whether something draws from the global generators of Python or numpy."""
    before = _python_states()
    run()
    return before != _python_states()


def _python_states() -> bytes:
    return pickle.dumps((random.getstate(), np.random.get_state(legacy=False)))  # noqa: NPY002


def _arguments(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """All arguments of a function of torch by name, defaults too."""
    named = func._schema.arguments
    given = dict(zip((argument.name for argument in named), args, strict=False)) | kwargs
    return {argument.name: given.get(argument.name, argument.default_value) for argument in named}
