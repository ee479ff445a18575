"""Error messages of the command line."""

from __future__ import annotations

import linecache
import re
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import skfairdp
from skfairdp.exceptions import BudgetExceededError, SkfairdpError

# Parameters of estimators that the command takes under the same name.
_OPTIONS = re.compile("'(delta|epsilon|tolerance|threshold)'")


class CommandError(SkfairdpError):
    """An argument of the command line is invalid."""

    def __init__(self, *complaints: str) -> None:
        several = f"{len(complaints)} things have to be mended:\n- " + "\n- ".join(complaints)
        super().__init__(complaints[0] if len(complaints) == 1 else several)
        self.complaints = complaints


def all_of(*checks: Callable[[], Any]) -> list[Any]:
    """Return the results of several checks, or raise all of their errors at once."""
    results, found = [], list[str]()
    for check in checks:
        try:
            results.append(check())
        except CommandError as error:
            found += error.complaints
    if found:
        raise CommandError(*found)
    return results


class Terminated(BaseException):
    """The process was asked to end."""


@contextmanager
def terminable() -> Iterator[None]:
    """Turn a request to end into an exception, so that a run can report its state."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may ask for signals
        return

    def end(*_: object) -> None:
        raise Terminated

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def explained(error: BaseException) -> tuple[int, str]:
    """Exit code and message of a failed command; messages of other packages may quote a row."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    unworded = f"{type(error).__name__} ({place.filename}, line {place.lineno})"
    match error:
        case BudgetExceededError():
            return 3, str(error)
        case SkfairdpError():
            return 2, str(error)
        case OSError():
            named = [text for text in (error.strerror, error.filename) if text]
            return 2, ": ".join(map(str, named)) or unworded
        case ValueError():
            return 2, str(error) if _worded_here(place) else f"That cannot be used: {unworded}."
        case Terminated():
            return 128 + signal.SIGTERM, "Terminated."
        case KeyboardInterrupt():
            return 128 + signal.SIGINT, "Interrupted."
        case _:  # Python's own exit code would be 1: "it doesn't hold"
            return 4, (
                f"{unworded}: this is a fault of this program, and no answer. Run it again with "
                "--debug to see where, and report that to the maintainers, without lines that "
                "quote your rows."
            )


def _worded_here(place: traceback.FrameSummary) -> bool:
    """Whether a ``raise`` of this package made an error, and not a function that it called.

    Python's own ValueErrors, as of ``float(cell)``, quote a cell and come from the same files.
    `place`: where the error was raised.
    """
    own = Path(place.filename).is_relative_to(Path(skfairdp.__file__).parent)
    if not own or place.lineno is None or place.colno is None:
        return False
    # Of a call inside of a raise statement, the place is that of the call.
    return linecache.getline(place.filename, place.lineno)[place.colno :].startswith("raise ")


def show_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, *_: Any, **__: Any
) -> None:
    """Print a warning as a note; like errors, those of other packages may quote a row."""
    own = category.__module__.startswith("skfairdp")
    said = (
        _OPTIONS.sub(r"--\1", str(message))
        if own
        else f"{category.__name__} ({filename}, line {lineno})"
    )
    print(f"skfairdp: note: {said}", file=sys.stderr)
