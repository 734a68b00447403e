"""Work beside a program that may have an event loop of its own."""

import asyncio
import os
import signal
import sys
import threading
import traceback

import pytest

from jobflow.runtime.event_loop import run_beside


async def thread_id() -> int:
    await asyncio.sleep(0)
    return threading.get_ident()


def test_work_runs_in_this_thread_without_an_event_loop() -> None:
    assert run_beside(thread_id) == threading.get_ident()


async def test_work_runs_in_another_thread_beside_an_event_loop() -> None:
    assert run_beside(thread_id) != threading.get_ident()


async def test_an_error_of_the_work_is_raised() -> None:
    async def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        run_beside(fail)


def waits_for_a_result(thread: threading.Thread) -> bool:
    frame = sys._current_frames().get(thread.ident or 0)
    names = [each.name for each in traceback.extract_stack(frame)]
    return names[-2:] == ["result", "wait"]


def test_ctrl_c_cancels_the_work_in_the_other_thread() -> None:
    ended: list[str] = []

    async def work() -> None:
        try:
            while not waits_for_a_result(threading.main_thread()):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    async def cell() -> None:
        run_beside(work)

    loop = asyncio.new_event_loop()
    try:
        with pytest.raises(KeyboardInterrupt):
            loop.run_until_complete(cell())
    finally:
        loop.close()
    assert ended == ["cancelled"]
