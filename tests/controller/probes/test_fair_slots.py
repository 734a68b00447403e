"""Slots: a budget for any period, owners in rotation, no slot lost by a cancellation."""

import asyncio
from collections import Counter
from unittest.mock import patch

import pytest

from jobflow.controller.probes.fair_slots import FairSlots
from support.time.virtual_time import in_virtual_time


class Crowd:
    """Takes slots, each for `lasts` seconds, and records the owner and time of each start."""

    def __init__(self, slots: FairSlots[str], lasts: float = 0.0) -> None:
        self.slots = slots
        self.lasts = lasts
        self.starts: list[tuple[float, str]] = []
        self.most = 0
        self._now = 0

    async def take(self, owner: str) -> None:
        async with self.slots.slot(owner):
            self._now += 1
            self.most = max(self.most, self._now)
            self.starts.append((asyncio.get_running_loop().time(), owner))
            try:
                await asyncio.sleep(self.lasts)
            finally:
                self._now -= 1

    async def all_take(self, *owners: str) -> None:
        async with asyncio.TaskGroup() as group:
            for owner in owners:
                group.create_task(self.take(owner))

    @property
    def order(self) -> str:
        return "".join(owner for _, owner in self.starts)


def busiest(times: list[float], seconds: float) -> int:
    """The maximum number of times in any period of this length."""
    return max(sum(begin <= time < begin + seconds for time in times) for begin in times)


def take_all(slots: FairSlots[str], owners: str, lasts: float = 0.0) -> Crowd:
    """Take a slot for each letter, which is its owner."""
    crowd = Crowd(slots, lasts)
    in_virtual_time(crowd.all_take(*owners))
    return crowd


def test_no_period_exceeds_the_budget() -> None:
    times = [time for time, _ in take_all(FairSlots(most=10, seconds=0.1), "a" * 95).starts]
    assert len(times) == 95
    assert busiest(times, 0.1 - 1e-9) == 10
    assert busiest(times, 1.0 - 1e-9) <= 100
    assert max(times) == pytest.approx(0.9)


def test_timers_of_the_event_loop_may_fire_slightly_early() -> None:
    """Timers of asyncio fire up to a nanosecond too early, those of uvloop half a millisecond."""

    async def main() -> Crowd:
        loop = asyncio.get_running_loop()
        call_at = loop.call_at
        with patch.object(loop, "call_at", lambda at, *call: call_at(at - 0.0005, *call)):
            crowd = Crowd(FairSlots(most=1, seconds=0.1))
            await crowd.all_take(*("a" * 20))
        return crowd

    assert len(in_virtual_time(main()).starts) == 20


def test_an_unused_budget_is_not_saved() -> None:
    async def main() -> Crowd:
        crowd = Crowd(FairSlots(most=3, seconds=1))
        await crowd.take("a")
        await asyncio.sleep(100)
        await crowd.all_take(*("b" * 7))
        return crowd

    assert [round(time) for time, _ in in_virtual_time(main()).starts] == [
        *(0, 100, 100, 100),
        *(101, 101, 101, 102),
    ]


def test_the_number_of_slots_at_once_is_limited() -> None:
    crowd = take_all(FairSlots(most=1000, seconds=0.1, at_once=7), "abcdefghij" * 3, lasts=5)
    assert (len(crowd.starts), crowd.most) == (30, 7)


def test_owners_are_served_in_rotation() -> None:
    assert take_all(FairSlots(most=1, seconds=1), "aaaaaabbc").order == "aabcabaaa"


def test_a_new_owner_waits_for_one_slot_of_each_other() -> None:
    async def main() -> Crowd:
        crowd = Crowd(FairSlots(most=1, seconds=1))
        async with asyncio.TaskGroup() as group:
            group.create_task(crowd.all_take(*("a" * 50 + "b" * 50)))
            await asyncio.sleep(10.5)
            group.create_task(crowd.take("z"))
        return crowd

    order = in_virtual_time(main()).order
    assert order.index("z") <= 13


def test_a_cancelled_request_takes_no_slot() -> None:
    async def main() -> Crowd:
        crowd = Crowd(FairSlots(most=1, seconds=1))
        async with asyncio.TaskGroup() as group:
            leaving = [group.create_task(crowd.take("a")) for _ in range(20)]
            group.create_task(crowd.all_take(*"bb"))
            await asyncio.sleep(0.5)
            for task in leaving:
                task.cancel()
        return crowd

    assert [(round(time), who) for time, who in in_virtual_time(main()).starts] == [
        (0, "a"),
        (1, "b"),
        (2, "b"),
    ]


def test_a_slot_of_an_owner_that_is_just_cancelled_passes_on() -> None:
    async def main() -> Counter[str]:
        crowd = Crowd(FairSlots(most=100, seconds=1, at_once=1), lasts=1)
        async with asyncio.TaskGroup() as group:
            group.create_task(crowd.take("a"))
            await asyncio.sleep(0)
            second = group.create_task(crowd.take("b"))
            group.create_task(crowd.take("c"))
            # after the first has ended, and before the second has started
            loop = asyncio.get_running_loop()
            loop.call_later(1.0, lambda: loop.call_soon(second.cancel))
        return Counter(crowd.order)

    assert in_virtual_time(main()) == {"a": 1, "c": 1}


def test_a_body_that_fails_releases_its_slot() -> None:
    async def main() -> str:
        slots: FairSlots[str] = FairSlots(at_once=1)
        try:
            async with slots.slot("a"):
                raise ValueError
        except ValueError:
            pass
        async with slots.slot("b"):
            return "b"

    assert in_virtual_time(main()) == "b"
