"""Fixtures of all tests: one torch thread, and the benchmark data where present."""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import shutil
import sys
from collections.abc import Generator, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from tests.entropy import repeated
from tests.processes import fork_for_joblib, in_one_worker

# Two pytest workers with two torch threads each run many times slower than with one. Said before
# torch is imported, which the process that hands out tests to workers never does.
os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"
collect_ignore = ["engine/together.py"]  # a program
# Where single slow tests take longest.
LONG = ("tests/docs/", "tests/slow/", "tests/test_")
# Where the figures are checked, or shown as users see them.
FIGURES = ("tests/privacy/", "tests/outside/", "tests/docs/", "tests/test_readme.py", "skfairdp/")
# The same examples everywhere, at whatever speed.
hypothesis.settings.register_profile("here", derandomize=True, deadline=None)
hypothesis.settings.load_profile("here")
# Imports and collection make millions of objects that all stay; looking through them takes seconds.
gc.disable()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium without a window; the test is skipped where there is none."""
    api = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("needs a browser: neither chromium nor google-chrome is on the path")
    with api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield started
        started.close()


class _Kept(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@pytest.fixture
def logged() -> Iterator[list[logging.LogRecord]]:
    """All that is logged from here on; pytest's own catcher takes a millisecond of every test."""
    root, handler = logging.getLogger(), _Kept()
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield handler.records
    root.setLevel(before)
    root.removeHandler(handler)


@pytest.fixture(scope="session")
def data_home() -> Path:
    """Folder with the benchmark files; the test is skipped where there is none."""
    folder = os.environ.get("SKFAIRDP_DATA")
    if not folder:
        pytest.skip("needs benchmark data: set SKFAIRDP_DATA to the folder that holds them")
    path = Path(folder)
    if not path.is_dir():
        pytest.fail(f"SKFAIRDP_DATA={folder!r} is not a folder: unset it, or name the right one")
    return path


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Say which tests one worker runs together: they share what is started or fitted once.

    Those that start joblib's processes or a browser, those of tests/common, those of each file;
    slow ones go wherever a worker is free, the longer ones first, so that both end together.
    """
    items.sort(key=lambda item: not item.nodeid.startswith(LONG))
    grouped = getattr(config.option, "loadgroup", False)  # a worker under --dist loadgroup
    without_arrow = pytest.mark.skipif(find_spec("pyarrow") is None, reason="needs pyarrow")
    for item in items:
        if item.nodeid.startswith("skfairdp/datasets/parquet_rows"):  # examples of docstrings
            item.add_marker(without_arrow)
        of_browser = "browser" in getattr(item, "fixturenames", ())
        if of_browser or "loky" in item.name:
            item.add_marker(in_one_worker)
            item.add_marker(pytest.mark.slow)  # to start either takes seconds
        group = _group_of(item)
        if grouped and group and hasattr(item, "_id"):
            # xdist 3.8 says the group in an attribute that pytest 9.2 does not read any more, and
            # so scatters groups.
            item._id = type(item._id).parse(f"{item.nodeid}@{group}")


def _group_of(item: pytest.Item) -> str:
    file = item.nodeid.partition("::")[0]
    if _starts_processes(item):
        return "processes"
    if item.get_closest_marker("slow"):
        return ""
    if file.startswith("tests/common/"):
        return "tests/common"
    # Those of the whole package read all of its files.
    return "tests" if file.count("/") == 1 and file.startswith("tests/") else file


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Let joblib's workers be forks of the server of fresh processes, not import all anew."""
    if _starts_processes(item):
        fork_for_joblib()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Repeat each test's random bits, but those of campaigns, whose figures are for all bits."""
    with contextlib.ExitStack() as stack:
        if item.get_closest_marker("campaign") is None:
            stack.enter_context(repeated(f"{item.location[0]} {item.name}"))
        return (yield)


def pytest_collection_finish() -> None:
    """Tell the garbage collector that what is imported and collected by now stays.

    It looks seldom: at the usual rate it takes a twentieth of all time.
    """
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()


def _starts_processes(item: pytest.Item) -> bool:
    return item.get_closest_marker("xdist_group") is not None


def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Send joblib's workers home after the last of several tests that start processes.

    Idle ones leave after 5 minutes, and a pool whose workers leave in the moment that it is
    used again waits for them forever.
    """
    if nextitem is not None and _starts_processes(nextitem):
        return
    pool = sys.modules.get("joblib.externals.loky.reusable_executor")
    if pool is not None and pool._executor is not None:
        pool._executor.shutdown(wait=True)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Fail a test that needs data and was skipped although SKFAIRDP_REQUIRE_DATA=1."""
    report = yield
    needs_data = "data_home" in getattr(item, "fixturenames", ())
    if needs_data and report.skipped and os.environ.get("SKFAIRDP_REQUIRE_DATA") == "1":
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"a test that needs data was skipped, but data is required: {reason}"
    return report


@pytest.fixture(scope="module", autouse=True)
def rows_seen_before(request: pytest.FixtureRequest) -> Iterator[None]:
    """Let tests certify on the rows trained on, which saves a fit.

    A module that checks that such rows are refused says CHECKS_TRAINING_ROWS = True.
    """
    with pytest.MonkeyPatch.context() as patch:
        if not getattr(request.module, "CHECKS_TRAINING_ROWS", False):
            patch.setattr("skfairdp.certificate.holdout.trained_on", lambda *_: False)
        yield


@pytest.fixture(scope="module", autouse=True)
def rehearsed_before(request: pytest.FixtureRequest) -> Iterator[None]:
    """Let fits and predictions take over what was found for a net of the same kind.

    A module that checks how this is found says REHEARSES_ANEW = True.
    """
    with pytest.MonkeyPatch.context() as patch:
        # Modules that need no torch are not made to wait for it.
        if "torch" in sys.modules and not getattr(request.module, "REHEARSES_ANEW", False):
            from tests.rehearsals import remember

            remember(patch)
        yield


@pytest.fixture(scope="module", autouse=True)
def attackers_at_delta_alone(request: pytest.FixtureRequest) -> Iterator[None]:
    """Bound the attackers of pages by the guarantee's own epsilon and delta: a valid bound.

    The sharper one asks for epsilon at 21 deltas, which takes half of the time of a page. A module
    that checks it says BOUNDS_ATTACKERS = True.
    """
    with pytest.MonkeyPatch.context() as patch:
        if not getattr(request.module, "BOUNDS_ATTACKERS", False):
            patch.setattr("skfairdp.privacy.accounting.tradeoff._smallest", lambda *_: 1.0)
        yield


@pytest.fixture(scope="module", autouse=True)
def accounted_coarsely(request: pytest.FixtureRequest) -> Iterator[None]:
    """Round privacy losses up to multiples of 1e-3, not 1e-4: a valid bound, found sooner.

    Epsilon is larger by less than one part in a thousand. Slow tests, those of accounting, pages
    and examples keep the package's own grid, and so do a module that says ACCOUNTS_FINELY = True
    and a test that takes `accounted_finely`.
    """
    with pytest.MonkeyPatch.context() as patch:
        fast = "not slow" in request.config.option.markexpr
        fine = not fast or request.node.nodeid.startswith(FIGURES)
        if not fine and not getattr(request.module, "ACCOUNTS_FINELY", False):
            from tests.coarse_accounting import account_coarsely

            account_coarsely(patch)
        yield


@pytest.fixture(scope="module", autouse=True)
def pictures_left_out(request: pytest.FixtureRequest) -> Iterator[None]:
    """Leave pictures out of pages, which are drawn in half of the time that a page takes.

    Slow tests and those of pages and examples have them, and so do modules that say
    DRAWS_PICTURES = True.
    """
    with pytest.MonkeyPatch.context() as patch:
        fast = "not slow" in request.config.option.markexpr
        shown = request.node.nodeid.startswith(FIGURES) or not fast
        html = sys.modules.get("skfairdp.certificate.render.html")
        if html is not None and not (shown or getattr(request.module, "DRAWS_PICTURES", False)):
            patch.setattr(html, "svg", lambda picture: "<svg></svg>")
        yield


@pytest.fixture
def accounted_finely(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a test of a module that is accounted coarsely see the figures that users see."""
    from tests.coarse_accounting import account_finely

    account_finely(monkeypatch)
