"""Process group that fits one model, each process with its own rows.

The processes are a process group of torch.distributed, started by the user. Every process draws
its own rows with the one rate that the plan states for all, so together they draw a Poisson batch
of all rows. Sums are added up in float64 at the first process, which bounds what has to be bounded
as a whole, adds the noise, once, and hands on what is released. What follows a release is computed
everywhere from the same numbers.

All processes are trusted by the holder of the rows: on their way to the first, parts of
plain sums may pass through others, and the first can subtract its noise.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Self
from weakref import finalize

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, distributed

from skfairdp.engine.overlap import hold_copies, sketch


class Processes:
    """Two or more processes that fit one model together; a fit of one process has none.

    Inside its own block they have their own group, which ends with the block: one that
    fails closes its connections, and the others fail at once instead of waiting for it.
    """

    def __init__(self) -> None:
        self.size = distributed.get_world_size()
        self.rank = distributed.get_rank()
        self._group: Any = None
        self._watched: tuple[Tensor, int] | None = None
        self._released = 0

    def __enter__(self) -> Self:
        with _naming_others():  # one that has failed already closes the connections being made
            self._group = distributed.new_group(backend="gloo")
        # A group that is freed ends its threads, in torch 2.6 and 2.7 while it holds Python's
        # lock. A thread that has not freed the tensors of an exchange yet needs that lock, and
        # both would wait forever. A backend gives the lock back before it ends its threads, so
        # it has to outlive the group, wherever the last reference to the group is. No public
        # function hands it out.
        backend = self._group._get_backend(torch.device("cpu"))
        finalize(self._group, lambda backend: None, backend).atexit = False
        return self

    def __exit__(self, *reason: Any) -> None:
        if reason[0] is None:
            self._meet()
        distributed.destroy_process_group(self._group)
        self._group = None

    @property
    def leads(self) -> bool:
        """Whether this process draws the noise."""
        return self.rank == 0

    def agree(self, facts: Mapping[str, str]) -> None:
        """Refuse facts that are not the same in all processes; messages say their names alone."""
        found = self._gathered(dict(facts))
        names = sorted({name for one in found for name in one})
        apart = [name for name in names if len({one.get(name) for one in found}) > 1]
        if apart:
            self._meet()
            raise ValueError(
                f"The processes of this fit differ in: {', '.join(apart)}. All fit one model: give "
                "them the same class and parameters, and declare 'classes', 'groups' or "
                "'group_sizes' where a process may lack some. Processes that fit models of their "
                "own set distributed=None."
            )

    def refuse_copies(self, chunks: Callable[[], Iterable[NDArray[np.floating]]]) -> None:
        """Refuse processes that hold copies of the same rows; `chunks` reads all rows of this."""
        key = self.first(secrets.token_bytes(32))
        if hold_copies(self._gathered(sketch(chunks(), key))):
            self._meet()
            raise ValueError(
                "Two processes of this fit hold the same rows, which would count twice while they "
                "are charged once: give each process its own part. Where equal rows are of "
                "different people, deal the rows out to the processes at random."
            )

    def watch(self, weights: Tensor, every: int) -> None:
        """Compare weights between processes now, and at regular numbers of releases."""
        self._watched = weights, every
        self.compare()

    def compare(self) -> None:
        if self._watched is not None:
            self.agree({"weights": _digest(self._watched[0])})

    def first(self, value: Any) -> Any:
        return self._gathered(value if self.leads else None)[0]

    def total(self, numbers: Tensor) -> Tensor:
        """Add up public whole numbers of all processes."""
        self._call(distributed.all_reduce, numbers)
        return numbers

    def released(
        self, part: Tensor, noisy: Callable[[Tensor], Tensor], like: Tensor | None = None
    ) -> Tensor:
        """Release a sum over the rows of all processes, with noise that is drawn once.

        `part`: sum over the rows of this process. `noisy`: adds the noise, at the first process.
        `like`: form of its result; None: that of the sum.
        """
        whole = self.add_up(part)
        of_others = whole if like is None else like
        return self.hand_on(noisy(whole) if self.leads else of_others, part.device)

    def add_up(self, part: Tensor) -> Tensor:
        """Add up the parts of a private sum, float64 or whole numbers, at the first process.

        In the others the result has the form of the sum, and means nothing.
        """
        whole = part.detach().cpu().clone()
        self._call(distributed.reduce, whole, dst=0)
        return whole

    def hand_on(self, released: Tensor, device: torch.device | None = None) -> Tensor:
        """Hand on what the first process releases, its noise included.

        `released`: in the others, any tensor of the same form. `device`: where it is wanted.
        """
        out = released.contiguous()
        self._call(distributed.broadcast, out, src=0)
        self._released += 1
        if self._watched is not None and self._released % self._watched[1] == 0:
            self.compare()
        return out.to(device or out.device)

    def _meet(self) -> None:
        """Wait for all processes: the first to leave an exchange must not close it."""
        # No public function hands out the store that the group was made with; the processes of
        # tests/common/test_process_groups.py and tests/engine/test_processes.py meet here.
        store = distributed.distributed_c10d._get_default_store()
        place = f"skfairdp/{self._group.group_name}"  # one meeting for each group
        if store.add(place, 1) == self.size:
            store.set(f"{place}/all", "here")
        store.wait([f"{place}/all"])

    def _gathered(self, value: Any) -> list[Any]:
        found = [value] * self.size
        self._call(distributed.all_gather_object, found, value)
        return found

    def _call(self, operation: Callable[..., Any], *arguments: Any, **options: Any) -> None:
        with _naming_others():
            operation(*arguments, **options, group=self._group)


@contextmanager
def _naming_others() -> Iterator[None]:
    """Say that another process ended the fit, where an exchange with it fails."""
    try:
        yield
    except RuntimeError as error:
        raise RuntimeError(
            "Another process of this fit failed or is gone; its own message says why. Nothing "
            "is fitted in any process, and what was charged stays charged."
        ) from error


def _digest(values: Tensor) -> str:
    raw = values.detach().cpu().contiguous().view(torch.uint8).numpy()
    return f"{tuple(values.shape)} {hashlib.blake2b(raw.tobytes()).hexdigest()}"
