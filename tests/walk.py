"""Walks through six flows, in the order in which a reader meets their functions.

    python -m tests.walk

Each flow runs once, on 600 rows. A function and its file count when they are first entered; bodies
of modules and classes, lambdas and comprehensions do not. A change of room is counted where a
function that is first entered lies in another folder of the package than the one before.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import io
import json
import pkgutil
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np

import skfairdp
from tests.entropy import repeated

# Imported first, as nothing that runs at an import is a step of a flow.
for module in pkgutil.walk_packages(skfairdp.__path__, "skfairdp."):
    if module.name.split(".")[1] not in {"__main__", "interchange", "comparators"}:
        importlib.import_module(module.name)
PACKAGE = str(Path(skfairdp.__file__).parent) + "/"


@dataclass
class Walk:
    """Code that was entered, in order, and the rooms that it lies in."""

    entered: list[CodeType] = field(default_factory=list)
    rooms: list[str] = field(default_factory=list)

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        """Note a call, as `sys.settrace` hands it over; no line of the frame is asked for."""
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(PACKAGE):
            return
        if not code.co_flags & inspect.CO_OPTIMIZED or code.co_name.startswith("<"):
            return  # a body of a module or class, or a part of a function
        if code in self._known:
            return
        self._known.add(code)
        self.entered.append(code)
        self.rooms.append(room_of(code))

    def __post_init__(self) -> None:
        self._known: set[CodeType] = set()

    @property
    def files(self) -> list[str]:
        """Files in the order in which they are entered."""
        return [*dict.fromkeys(code.co_filename.removeprefix(PACKAGE) for code in self.entered)]

    @property
    def changes(self) -> int:
        """Changes of room from one function that is entered to the next."""
        return sum(a != b for a, b in zip(self.rooms, self.rooms[1:], strict=False))

    @property
    def counts(self) -> dict[str, int]:
        """Numbers of files, functions and changes of room."""
        return {"files": len(self.files), "functions": len(self.entered), "changes": self.changes}

    @property
    def rooms_entered(self) -> list[str]:
        """Rooms in the order in which they are entered."""
        return [*dict.fromkeys(self.rooms)]


def room_of(code: CodeType) -> str:
    """Name the room of a function: the folder below the package, or the file."""
    return code.co_filename.removeprefix(PACKAGE).split("/")[0].removesuffix(".py")


@contextlib.contextmanager
def walking() -> Iterator[Walk]:
    """Count what is entered in a block."""
    walk, before = Walk(), sys.gettrace()
    sys.settrace(walk)  # a profile would hear of the calls of compiled functions too
    try:
        yield walk
    finally:
        sys.settrace(before)


def flows(folder: Path) -> Iterator[tuple[str, Callable[[], object]]]:
    """Six flows on 600 rows, each with its name."""
    rng = np.random.default_rng(0)
    groups = np.array(["a", "a", "b"])[np.arange(600) % 3]
    y = (rng.random(600) < np.where(groups == "a", 0.6, 0.4)).astype(int)
    X = rng.normal(size=(600, 4)) + y[:, None] * np.array([1.5, 1.0, 0.0, 0.0])
    fast: dict[str, Any] = {"max_epochs": 2, "progress": False}
    model = skfairdp.DPSGDClassifier(**fast)
    yield "DPSGDClassifier.fit", lambda: model.fit(X, y, sensitive_features=groups)
    charged = skfairdp.DPSGDClassifier(ledger=folder / "ledger.jsonl", **fast)
    yield "the same with a ledger", lambda: charged.fit(X, y, sensitive_features=groups)
    path = skfairdp.FairPathClassifier(**fast)
    yield "FairPathClassifier.fit", lambda: path.fit(X, y, sensitive_features=groups)
    held_out: list[Any] = []
    given = (X[:300] + 1e-3, y[:300])  # other people's, who are like those trained on
    yield (
        "certify",
        lambda: held_out.append(
            skfairdp.certify(model, *given, sensitive_features=groups[:300], holdout="public")
        ),
    )
    yield "str of the certificate", lambda: str(held_out[0])
    table = folder / "people.csv"
    lines = (f"{row[0]:.1f},{row[1]:.1f},{g},{t}" for row, g, t in zip(X, groups, y, strict=True))
    table.write_text("\n".join(["first,second,group,target", *lines]))
    from skfairdp.command_line import main

    arguments = [
        "report", str(table), "--target", "target", "--sensitive", "group", "--positive", "1",
        "--epsilon", "1", "--anyway",
        "--out", str(folder / "report.html"), "--quiet",
    ]  # fmt: skip
    yield "skfairdp report", lambda: main(arguments)


def measured() -> dict[str, Walk]:
    """Walk through all flows."""
    found = {}
    # With the same noise each time, on which it may depend what is entered.
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(), repeated("walk"):
        warnings.simplefilter("ignore")
        for name, flow in flows(Path(folder)):
            with contextlib.redirect_stdout(io.StringIO()), walking() as walk:
                flow()
            found[name] = walk
    return found


def main() -> None:
    """Print every step of each flow, and what they count; with ``--counts`` these alone."""
    walks = measured()
    if "--counts" not in sys.argv:
        for name, walk in walks.items():
            print(f"== {name}: {walk.counts}")
            for code, room in zip(walk.entered, walk.rooms, strict=True):
                where = f"{code.co_filename.removeprefix(PACKAGE)}:{code.co_firstlineno}"
                print(f"  {room:16s} {where:48s} {code.co_qualname}")
        return
    found = {name: walk.counts | {"rooms": walk.rooms_entered} for name, walk in walks.items()}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
