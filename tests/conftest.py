"""Set-up of all tests: signals are delivered, no task outlives its test, CI has every tool."""

import asyncio
import gc
import inspect
import os
import shutil
import signal
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from hypothesis import is_hypothesis_test

from support.laws import effort_of_laws as laws  # the profile of all laws, before any is defined
from support.page.browser import find_chromium
from support.sandbox.processes import Pids

pytest_plugins = ["support.cluster.real_cluster"]

for _signal, _handler in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGQUIT, signal.SIG_DFL),
):
    # `make test &` in a script ignores both, also in each process that a test interrupts
    if signal.getsignal(_signal) is signal.SIG_IGN:
        signal.signal(_signal, _handler)


def pytest_configure() -> None:
    """Deliver Ctrl-C to the programs that tests start. A shell that starts the tests in the
    background ignores it, and child processes would inherit that."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest_asyncio.fixture
async def no_task_left_behind() -> AsyncIterator[None]:
    """Fail a test that leaves asyncio tasks running."""
    before = asyncio.all_tasks()
    yield
    tasks = [task for task in asyncio.all_tasks() - before if task is not asyncio.current_task()]
    assert not tasks, f"tasks left behind: {tasks}"


@pytest.fixture
def pids(tmp_path: Path) -> Iterator[Pids]:
    """Provide a pipe through which processes report their ids."""
    pipe = Pids(tmp_path)
    yield pipe
    pipe.close()


def pytest_collection_finish() -> None:
    """Exclude what the collection has made from the search for cycles: it takes a fifth of the CPU
    time of the tests, and finds none."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


COVERING = ("tests/core/", "tests/webhook/", "tests/api/")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Add the check for tasks to async tests, exclude tests from coverage, mark what `make test`
    leaves out of a sample as `long`, leave out what CI does, and sort the tests.

    The examples in their own tests must cover core and webhook, because no assertion checks a line
    that only a law or another test runs. Tracing the other tests would also double their time. The
    same is true of flows with thousands of steps: their tests have the marker `no_cover`. The
    longest tests start first, because the other processes wait for one that starts last.
    """
    cases: Counter[tuple[Path, str]] = Counter()
    left_out: list[pytest.Item] = []
    for item in items:
        if not isinstance(item, pytest.Function):
            continue
        if (sampled := item.get_closest_marker("sampled")) is not None:
            test = (item.path, item.originalname)
            if cases[test] % sampled.args[0]:
                item.add_marker("long")
            if laws.IS_SAMPLED and cases[test] % sampled.kwargs.get("ci", 1):
                left_out.append(item)
            cases[test] += 1
        if inspect.iscoroutinefunction(item.obj):
            item.fixturenames.insert(0, "no_task_left_behind")
        if not item.nodeid.startswith(COVERING) or is_hypothesis_test(item.obj):
            item.add_marker("no_cover")
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        gone = {*map(id, left_out)}
        items[:] = [item for item in items if id(item) not in gone]
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip tests that need a missing kubectl; with JOBFLOW_REQUIRE_TOOLS=1, fail them instead. Skip
    tests that need a missing browser in any case, because not every machine can have one."""
    if item.get_closest_marker("kubectl") and shutil.which("kubectl") is None:
        if os.environ.get("JOBFLOW_REQUIRE_TOOLS") == "1":
            pytest.fail("kubectl is not on PATH and JOBFLOW_REQUIRE_TOOLS=1")
        pytest.skip("kubectl is not on PATH")
    if item.get_closest_marker("browser") and find_chromium() is None:
        pytest.skip("there is no chromium")
