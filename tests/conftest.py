"""What every test gets: signals that arrive, no task that outlives it. In CI no tool is missing."""

import asyncio
import inspect
import os
import shutil
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from hypothesis import is_hypothesis_test

from support.laws import effort_of_laws as laws  # noqa: F401  # the profile of all laws, before any is made
from support.sandbox.processes import Pids

pytest_plugins = ["support.cluster.real_cluster"]

for _signal, _handler in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGQUIT, signal.SIG_DFL),
):
    # a script's `make test &` has both ignored, here and in every process that a test interrupts
    if signal.getsignal(_signal) is signal.SIG_IGN:
        signal.signal(_signal, _handler)


def pytest_configure() -> None:
    """Ctrl-C reaches the programs that tests start, also where the shell that started the tests in
    the background has it ignored, which children would inherit."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest_asyncio.fixture
async def no_task_left_behind() -> AsyncIterator[None]:
    """Fail a test that leaves asyncio tasks running."""
    before = asyncio.all_tasks()
    yield
    left = [task for task in asyncio.all_tasks() - before if task is not asyncio.current_task()]
    assert not left, f"tasks left behind: {left}"


@pytest.fixture
def pids(tmp_path: Path) -> Iterator[Pids]:
    """Provide a pipe through which processes report their ids."""
    made = Pids(tmp_path)
    yield made
    made.close()


COVERING = ("tests/core/", "tests/webhook/", "tests/api/")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Async tests get the fixture; others have no loop that a task could be left in.

    Core and webhook have to be covered by the examples in their own tests: a line that only a law
    or a test of something else has run through is not one that anybody looked at. Tracing the
    others would also double what they cost, as it would with flows of thousands of steps: their
    tests say `no_cover` where they stand. The longest tests begin first, because a process that
    gets one last keeps the others waiting.
    """
    for item in items:
        if not isinstance(item, pytest.Function):
            continue
        if inspect.iscoroutinefunction(item.obj):
            item.fixturenames.insert(0, "no_task_left_behind")
        if not item.nodeid.startswith(COVERING) or is_hypothesis_test(item.obj):
            item.add_marker("no_cover")
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what needs kubectl where there is none; fail instead under JOBFLOW_REQUIRE_TOOLS=1."""
    if item.get_closest_marker("kubectl") and shutil.which("kubectl") is None:
        if os.environ.get("JOBFLOW_REQUIRE_TOOLS") == "1":
            pytest.fail("kubectl is not on PATH and JOBFLOW_REQUIRE_TOOLS=1")
        pytest.skip("kubectl is not on PATH")
