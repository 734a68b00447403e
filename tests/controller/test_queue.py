"""A work queue: each key once, one worker for a key, delays and backoffs by an injected clock."""

import asyncio
from unittest.mock import Mock

import pytest

from jobflow.controller.hooks import Hooks
from jobflow.controller.queue import WorkQueue


class Timed:
    def __init__(self) -> None:
        self.now = 0.0
        self.hooks = Mock(spec=Hooks)
        self.queue = WorkQueue[str](hooks=self.hooks, clock=lambda: self.now, dice=lambda: 0.0)

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.queue.release()

    async def take(self) -> list[str]:
        taken = []
        while self.queue._ready:
            key = await self.queue.get()
            assert key is not None
            self.queue.done(key)
            taken.append(key)
        return taken


@pytest.fixture
async def timed() -> Timed:
    return Timed()


async def test_a_key_is_queued_once_in_the_order_of_additions(timed: Timed) -> None:
    for key in "abacb":
        timed.queue.add(key)
    assert await timed.take() == ["a", "b", "c"]


async def test_the_earliest_of_several_times_counts(timed: Timed) -> None:
    timed.queue.add_after("a", 5)
    timed.queue.add_after("a", 2)
    timed.queue.add_after("a", 9)
    timed.pass_time(1.9)
    assert await timed.take() == []
    timed.pass_time(0.1)
    assert await timed.take() == ["a"]
    timed.pass_time(100)
    assert await timed.take() == []


async def test_an_event_that_may_wait_comes_after_its_delay_also_in_a_backoff(
    timed: Timed,
) -> None:
    timed.queue.add("a")
    assert await timed.queue.get() == "a"
    timed.queue.retry("a")
    timed.queue.done("a")
    timed.queue.add_soon("a", 0.05)
    timed.pass_time(0.04)
    assert await timed.take() == []
    timed.pass_time(0.01)
    assert await timed.take() == ["a"]


async def test_taking_a_key_cancels_its_requeue(timed: Timed) -> None:
    timed.queue.add_after("a", 5)
    timed.queue.add("a")
    assert await timed.take() == ["a"]
    timed.pass_time(100)
    assert await timed.take() == []


async def test_events_of_a_resting_key_wait_and_are_one(timed: Timed) -> None:
    timed.queue.add("a")
    timed.queue.add("b")
    assert await timed.queue.get() == "a"
    timed.queue.rest("a", 2)
    timed.queue.add("a")
    timed.queue.done("a")
    timed.queue.add("a")
    assert await timed.take() == ["b"]
    timed.pass_time(1.9)
    assert await timed.take() == []
    timed.pass_time(0.1)
    assert await timed.take() == ["a"]
    timed.queue.add("a")
    assert await timed.take() == ["a"], "it rests once"


async def test_outdated_times_are_not_kept(timed: Timed) -> None:
    timed.queue.add_after("b", 86400.0)
    for _ in range(1000):
        timed.now += 1.0
        timed.queue.add("a")
        assert await timed.take() == ["a"]
        timed.queue.add_after("a", 86400.0 * 30)
    assert len(timed.queue._later) < 100
    timed.pass_time(86400.0 - 1000.0)
    assert await timed.take() == ["b"]
    timed.pass_time(86400.0 * 29 + 1000.0)
    assert await timed.take() == ["a"]


async def test_a_delay_may_be_many_years(timed: Timed) -> None:
    timed.queue.add_after("a", 2.0**31)
    timed.queue.add_after("b", 2.0**40)
    timed.pass_time(2.0**31 - 1)
    assert await timed.take() == []
    timed.pass_time(1.0)
    assert await timed.take() == ["a"]


async def test_the_backoff_of_each_key_doubles_until_it_succeeds(timed: Timed) -> None:
    assert [timed.queue.retry("a") for _ in range(3)] == [0.2, 0.4, 0.8]
    assert timed.queue.retry("b") == 0.2
    assert timed.queue.retry("b", at_least=7) == 7
    timed.queue.forget("a")
    assert timed.queue.retry("a") == 0.2
    assert timed.hooks.retried.call_count == 6


async def test_the_backoff_has_a_limit(timed: Timed) -> None:
    assert max(timed.queue.retry("a") for _ in range(100)) == 60


async def test_work_that_succeeds_ends_the_backoff(timed: Timed) -> None:
    timed.queue.retry("a", at_least=5)
    timed.queue.add("a")
    timed.pass_time(5)
    assert await timed.queue.get() == "a"
    timed.queue.forget("a")
    timed.queue.add_after("a", 1)
    timed.queue.done("a")
    assert timed.queue.backoff("a") == 0
    timed.pass_time(1)
    assert await timed.take() == ["a"]
    timed.pass_time(100)
    assert await timed.take() == []


async def test_a_new_key_wakes_a_waiting_worker(timed: Timed) -> None:
    getting = asyncio.create_task(timed.queue.get())
    await asyncio.sleep(0)
    timed.queue.add("a")
    assert await getting == "a"


async def test_a_key_passes_on_if_its_worker_is_cancelled(timed: Timed) -> None:
    first, second = (asyncio.create_task(timed.queue.get()) for _ in range(2))
    await asyncio.sleep(0)
    timed.queue.add("a")
    first.cancel()
    assert await second == "a"
    assert first.cancelled() or await asyncio.gather(first, return_exceptions=True)


class Yielding(Timed):
    """A queue in which keys in capitals give way, and at most two of them are worked on."""

    def __init__(self) -> None:
        super().__init__()
        self.queue = WorkQueue[str](gives_way=str.isupper, most_yielding=2)

    async def begin(self, keys: int) -> str:
        """Take some keys without giving them back."""
        return "".join([str(await self.queue.get()) for _ in range(keys)])


@pytest.fixture
async def yielding() -> Yielding:
    return Yielding()


async def test_keys_that_give_way_come_after_the_others(yielding: Yielding) -> None:
    for key in "ABCxyz":
        yielding.queue.add(key)
    assert await yielding.begin(5) == "AxyzB"


async def test_one_key_that_gives_way_is_always_worked_on(yielding: Yielding) -> None:
    for key in "ABxyz":
        yielding.queue.add(key)
    assert await yielding.begin(2) == "Ax"
    yielding.queue.done("A")
    assert await yielding.begin(3) == "Byz"


async def test_keys_that_give_way_leave_workers_to_the_others(yielding: Yielding) -> None:
    for key in "ABC":
        yielding.queue.add(key)
    assert await yielding.begin(2) == "AB"
    third = asyncio.create_task(yielding.queue.get())
    await asyncio.sleep(0)
    yielding.queue.add("x")
    assert await third == "x"
    fourth = asyncio.create_task(yielding.queue.get())
    await asyncio.sleep(0)
    yielding.queue.done("B")
    assert await fourth == "C"


async def test_a_closed_queue_ends_its_workers(timed: Timed) -> None:
    workers = [asyncio.create_task(timed.queue.get()) for _ in range(3)]
    await asyncio.sleep(0)
    timed.queue.add_after("later", 5)
    timed.queue.close()
    assert await asyncio.gather(*workers) == [None, None, None]
    timed.queue.add("a")
    timed.queue.add_after("b", 1)
    assert await timed.queue.get() is None


async def test_hooks_are_called_with_depth_and_waiting_time(timed: Timed) -> None:
    timed.queue.add("a")
    timed.queue.add("b")
    timed.pass_time(3)
    await timed.take()
    assert [call.args for call in timed.hooks.depth.call_args_list] == [(1,), (2,), (1,), (0,)]
    assert [call.args for call in timed.hooks.waited.call_args_list] == [(3,), (3,)]


async def test_the_queue_uses_the_clock_of_the_loop() -> None:
    queue = WorkQueue[str]()
    queue.add_after("a", 0.01)
    async with asyncio.timeout(5):
        assert await queue.get() == "a"
    queue.close()


async def test_other_tasks_run_between_two_keys() -> None:
    queue, turns, seen = WorkQueue[int](), 0, list[int]()

    async def beat() -> None:
        nonlocal turns
        while len(seen) < 100:
            turns += 1
            await asyncio.sleep(0)

    async def work() -> None:
        while (key := await queue.get()) is not None:
            seen.append(turns)
            queue.done(key)

    for key in range(100):
        queue.add(key)
    async with asyncio.TaskGroup() as group:
        beating = group.create_task(beat())
        for _ in range(8):
            group.create_task(work())
        await beating
        queue.close()
    assert len(set(seen)) == 100
