"""Fresh Python processes: forks of one that has imported the package, and done nothing else.

Importing torch, scikit-learn and the package takes seconds, which many tests would pay for
anew. A server process pays once; what it forks has a state of its own from there on.
"""

from __future__ import annotations

import contextlib
import io
import json
import multiprocessing
import os
import runpy
import socket
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
# With `pytest -n 2 --dist loadgroup` one worker runs all tests that start processes, so that
# there is one server, and one pool of joblib.
in_one_worker = pytest.mark.xdist_group("processes")

_METHODS = multiprocessing.get_all_start_methods()
_CONTEXT: Any = multiprocessing.get_context("forkserver" if "forkserver" in _METHODS else "spawn")
# The package imports what a name needs with the name: these have nearly all of it.
_CONTEXT.set_forkserver_preload(
    [
        "fairlearn.reductions",
        "skfairdp.certificate.certifying",
        "skfairdp.inprocessing.dpsgd",
        "skfairdp.model_selection.search",
        "skfairdp.representation.encoder",
    ]
)


@dataclass(frozen=True)
class Ended:
    """How a process ended and what it said."""

    returncode: int
    stdout: str
    stderr: str


def run_fresh(
    script: str | Path,
    *arguments: str,
    environment: Mapping[str, str | None] | None = None,
    warnings_are_errors: bool = False,
) -> Ended:
    """Run a script in its own process.

    Parameters
    ----------
    script : str or Path
        Python code, or a file of it.
    *arguments : str
        What it finds in ``sys.argv[1:]``.
    environment : mapping, optional
        Added to this process's environment, or taken out of it where None.
    warnings_are_errors : bool, default=False
        Whether it runs under ``-W error``.

    Returns
    -------
    Ended
    """
    return _run_each(script, arguments, [dict(environment or {})], warnings_are_errors)[0]


def run_together(script: Path, *arguments: str, n: int = 2) -> list[Ended]:
    """Run a script in several processes at once, each of which finds its RANK.

    Parameters
    ----------
    script : Path
        A file of Python code.
    *arguments : str
        What it finds in ``sys.argv[1:]``.
    n : int, default=2
        How many.

    Returns
    -------
    list of Ended
    """
    return _run_each(script, arguments, [{"RANK": str(rank)} for rank in range(n)], False)


@contextlib.contextmanager
def _other_hashes() -> Iterator[None]:
    """A server that starts reads this: sets have other orders in what it forks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONHASHSEED", "77")
        yield


def _run_each(
    script: str | Path,
    arguments: Sequence[str],
    environments: Sequence[dict[str, str | None]],
    warnings_are_errors: bool,
) -> list[Ended]:
    with tempfile.TemporaryDirectory() as folder, _other_hashes():
        started = []
        for i, environment in enumerate(environments):
            files = [str(Path(folder) / f"{name}{i}") for name in ("out", "err")]
            task = (script, arguments, environment, warnings_are_errors, files)
            process = _CONTEXT.Process(target=_run, args=task)
            process.start()
            started.append((process, files))
        for process, _ in started:
            process.join(600)
            assert process.exitcode is not None, "the process hangs"
        return [
            Ended(process.exitcode, *(Path(file).read_text(encoding="utf-8") for file in files))
            for process, files in started
        ]


def _run(
    script: str | Path,
    arguments: Sequence[str],
    environment: dict[str, str | None],
    warnings_are_errors: bool,
    files: Sequence[str],
) -> Any:
    for stream, file in zip((1, 2), files, strict=True):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT), stream)
    sys.stdout = io.TextIOWrapper(os.fdopen(1, "wb", 0), encoding="utf-8", write_through=True)
    sys.stderr = io.TextIOWrapper(os.fdopen(2, "wb", 0), encoding="utf-8", write_through=True)
    for name, value in environment.items():
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value
    os.chdir(ROOT)
    sys.path.insert(0, str(ROOT))
    if warnings_are_errors:
        warnings.simplefilter("error")
    if isinstance(script, Path):
        sys.argv = [str(script), *arguments]
        sys.path.insert(0, str(script.parent))
        runpy.run_path(str(script), run_name="__main__")
    else:
        sys.argv = ["-c", *arguments]
        exec(compile(script, "<script>", "exec"), {"__name__": "__main__"})


# A program that hands its arguments, folder, environment and streams to the process of a test.
_ASKS = """import json, os, socket, sys
asked = socket.socket(socket.AF_UNIX)
asked.connect(sys.argv[1])
request = json.dumps([sys.argv[2:], os.getcwd(), dict(os.environ)]).encode()
socket.send_fds(asked, [len(request).to_bytes(8, "big")], [0, 1, 2])
asked.sendall(request)
sys.exit(asked.recv(1)[0])
"""


@contextlib.contextmanager
def commands_without_imports() -> Iterator[str]:
    """Let the commands ``skfairdp`` and ``python`` be forks of the server of fresh processes.

    Yields
    ------
    str
        A shell command to put before ``skfairdp`` or ``python`` and its arguments. Python runs a
        file, or with ``-`` its input.
    """
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as server:
        address = f"{folder}/asked"  # short: a socket's name has 107 bytes at most
        server.bind(address)
        server.listen()
        threading.Thread(target=_serve, args=(server,), daemon=True).start()
        program = Path(folder) / "ask.py"
        program.write_text(_ASKS, encoding="utf-8")
        yield f"{sys.executable} -S -E {program} {address}"
        with socket.socket(socket.AF_UNIX) as last:  # ends the thread
            last.connect(address)


def _serve(server: socket.socket) -> None:
    while True:
        asked = server.accept()[0]
        with asked:
            size, streams, *_ = socket.recv_fds(asked, 8, 3)
            if not size:
                return
            with asked.makefile("rb") as sent:
                request = json.loads(sent.read(int.from_bytes(size, "big")))
            held = [Connection(stream) for stream in streams]
            with _other_hashes():
                process = _CONTEXT.Process(target=_command, args=(*request, held))
                process.start()
            for each in held:
                each.close()
            process.join(600)
            asked.sendall(bytes([1 if process.exitcode is None else process.exitcode % 256]))


def _command(
    arguments: list[str], folder: str, environment: dict[str, str], streams: list[Connection]
) -> None:
    for stream, held in enumerate(streams):
        os.dup2(held.fileno(), stream)
    sys.stdin = os.fdopen(0, encoding="utf-8")
    for name, stream in (("stdout", 1), ("stderr", 2)):
        raw = os.fdopen(stream, "wb", 0)
        setattr(sys, name, io.TextIOWrapper(raw, encoding="utf-8", write_through=True))
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    program, *sys.argv = arguments
    if program == "python" and sys.argv[0] == "-":
        sys.path.insert(0, "")
        exec(compile(sys.stdin.read(), "<stdin>", "exec"), {"__name__": "__main__"})
    elif program == "python":
        sys.path.insert(0, str(Path(sys.argv[0]).parent))
        runpy.run_path(sys.argv[0], run_name="__main__")
    else:
        from skfairdp.command_line import main

        sys.argv = arguments
        sys.exit(main())


def fork_for_joblib() -> None:
    """Let workers of joblib's loky be forks of the server too."""
    from multiprocessing import forkserver

    from joblib.externals.loky.backend import context

    if _CONTEXT.get_start_method() == "forkserver" and context.get_start_method() is None:
        with _other_hashes():
            forkserver.ensure_running()
        context.set_start_method("forkserver")


def as_one_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let torch say that this process is one of a group of two; nothing can be sent to another."""
    import torch

    for name, said in (("is_initialized", True), ("get_world_size", 2), ("get_rank", 0)):
        monkeypatch.setattr(torch.distributed, name, lambda *_, said=said: said)
