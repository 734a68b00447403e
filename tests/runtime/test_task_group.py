"""Parts end together if one of them dies, and the first cause is reported."""

import asyncio

import pytest

from jobflow.runtime.event_loop import PartDied, all_of, together


async def endless() -> None:
    await asyncio.Event().wait()


async def die() -> None:
    raise OSError("disk on fire")


async def end() -> None:
    return


async def test_parts_end_with_the_body() -> None:
    async with together() as parts:
        task = parts.start("endless", endless)
    assert task.cancelled()


async def test_a_part_that_raises_ends_the_body_and_the_others() -> None:
    with pytest.raises(PartDied, match="^the pump died: disk on fire$") as raised:
        async with together() as parts:
            other = parts.start("endless", endless)
            parts.start("the pump", die)
            await asyncio.Event().wait()
    assert isinstance(raised.value.__cause__, OSError)
    assert other.cancelled()


async def test_a_part_that_ends_by_itself_counts_as_dead() -> None:
    with pytest.raises(PartDied, match="^the pump ended before it was told to$"):
        async with together() as parts:
            parts.start("the pump", end)
            await asyncio.Event().wait()


async def test_a_part_may_end_after_stopping_was_set() -> None:
    async with together() as parts:
        parts.stopping = True
        await parts.start("the pump", end)


async def test_an_exception_of_the_body_is_raised_unchanged() -> None:
    with pytest.raises(ZeroDivisionError):
        async with together() as parts:
            parts.start("endless", endless)
            raise ZeroDivisionError


async def test_nested_groups_report_the_innermost_cause() -> None:
    with pytest.raises(PartDied, match="^the pump died"):
        async with together() as outer:
            outer.start("endless", endless)
            async with together() as inner:
                inner.start("the pump", die)
                await asyncio.Event().wait()


async def test_the_first_cause_of_a_group_is_reported() -> None:
    async def group() -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(die())

    with pytest.raises(PartDied, match="^the pump died: disk on fire$"):
        async with together() as parts:
            parts.start("the pump", group)
            await asyncio.Event().wait()


async def test_results_have_the_order_of_the_works() -> None:
    async def number(value: int) -> int:
        await asyncio.sleep(0.01 if value == 1 else 0)
        return value

    assert await all_of(number(1), number(2)) == [1, 2]


async def test_the_others_have_ended_when_an_error_is_raised() -> None:
    ended = []

    async def slow() -> None:
        try:
            await endless()
        finally:
            await asyncio.sleep(0)
            ended.append("slow")

    with pytest.raises(OSError, match="disk on fire"):
        await all_of(slow(), die())
    assert ended == ["slow"]
