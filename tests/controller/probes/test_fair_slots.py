"""Slots: a budget in any period, owners in rotation, no slot lost to a cancellation."""

import asyncio
from collections import Counter
from unittest.mock import patch

import pytest

from jobflow.controller.probes.fair_slots import FairSlots
from support.time.virtual_time import in_virtual_time


class Crowd:
    """Takes turns, each for `lasts` seconds, and notes who began when."""

    def __init__(self, turns: FairSlots[str], lasts: float = 0.0) -> None:
        self.turns = turns
        self.lasts = lasts
        self.begun: list[tuple[float, str]] = []
        self.most = 0
        self._now = 0

    async def take(self, whose: str) -> None:
        async with self.turns.slot(whose):
            self._now += 1
            self.most = max(self.most, self._now)
            self.begun.append((asyncio.get_running_loop().time(), whose))
            try:
                await asyncio.sleep(self.lasts)
            finally:
                self._now -= 1

    async def all_take(self, *wishes: str) -> None:
        async with asyncio.TaskGroup() as group:
            for whose in wishes:
                group.create_task(self.take(whose))

    @property
    def order(self) -> str:
        return "".join(whose for _, whose in self.begun)


def busiest(times: list[float], seconds: float) -> int:
    """The most of them in any stretch of so many seconds."""
    return max(sum(begin <= time < begin + seconds for time in times) for begin in times)


def taken(turns: FairSlots[str], wishes: str, lasts: float = 0.0) -> Crowd:
    """Take turns, a letter for each wish."""
    crowd = Crowd(turns, lasts)
    in_virtual_time(crowd.all_take(*wishes))
    return crowd


def test_no_stretch_of_time_has_more_than_the_budget() -> None:
    times = [time for time, _ in taken(FairSlots(most=10, seconds=0.1), "a" * 95).begun]
    assert len(times) == 95
    assert busiest(times, 0.1 - 1e-9) == 10
    assert busiest(times, 1.0 - 1e-9) <= 100
    assert max(times) == pytest.approx(0.9)


def test_an_event_loop_that_is_a_little_too_early_is_no_trouble() -> None:
    """asyncio's timers fire up to a nanosecond, uvloop's up to half a millisecond too early."""

    async def main() -> Crowd:
        loop = asyncio.get_running_loop()
        call_at = loop.call_at
        with patch.object(loop, "call_at", lambda at, *call: call_at(at - 0.0005, *call)):
            crowd = Crowd(FairSlots(most=1, seconds=0.1))
            await crowd.all_take(*("a" * 20))
        return crowd

    assert len(in_virtual_time(main()).begun) == 20


def test_a_budget_that_was_not_used_is_not_saved_up() -> None:
    async def main() -> Crowd:
        crowd = Crowd(FairSlots(most=3, seconds=1))
        await crowd.take("a")
        await asyncio.sleep(100)
        await crowd.all_take(*("b" * 7))
        return crowd

    assert [round(time) for time, _ in in_virtual_time(main()).begun] == [
        *(0, 100, 100, 100),
        *(101, 101, 101, 102),
    ]


def test_turns_at_once_are_limited() -> None:
    crowd = taken(FairSlots(most=1000, seconds=0.1, at_once=7), "abcdefghij" * 3, lasts=5)
    assert (len(crowd.begun), crowd.most) == (30, 7)


def test_everyone_is_served_in_rotation() -> None:
    assert taken(FairSlots(most=1, seconds=1), "aaaaaabbc").order == "aabcabaaa"


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

    assert [(round(time), who) for time, who in in_virtual_time(main()).begun] == [
        (0, "a"),
        (1, "b"),
        (2, "b"),
    ]


def test_a_turn_given_to_one_who_is_cancelled_at_that_moment_passes_on() -> None:
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


def test_a_body_that_fails_gives_its_turn_back() -> None:
    async def main() -> str:
        turns: FairSlots[str] = FairSlots(at_once=1)
        try:
            async with turns.slot("a"):
                raise ValueError
        except ValueError:
            pass
        async with turns.slot("b"):
            return "b"

    assert in_virtual_time(main()) == "b"
