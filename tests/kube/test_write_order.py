"""Turns of writes: the most urgent first, as many as the server bears, and none waits for ever."""

import asyncio
import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobflow.kube import write_order
from jobflow.kube.answers import ApiError, Status
from jobflow.kube.write_order import (
    FIRST_PLACES,
    LEAST_PLACES,
    MOST_PLACES,
    CongestionWindow,
    Urgency,
    WriteOrder,
    urgency_of,
)

FLOWS = "jobflows/status"


class Writes:
    """Writes that a test begins and ends, with a number of places that does not change."""

    def __init__(self, places: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.order = WriteOrder(clock=clock)
        self.order.window.limit = places
        self.order.window.answered = lambda kind, seconds: None  # type: ignore[method-assign]
        self.began: list[str] = []
        self._ends: dict[str, asyncio.Event] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def send(self, name: str, urgency: Urgency) -> None:
        self._ends[name] = asyncio.Event()
        self._tasks[name] = asyncio.create_task(self._write(name, urgency))
        await settle()

    async def _write(self, name: str, urgency: Urgency) -> None:
        async with self.order.turn(urgency, "kind"):
            self.began.append(name)
            await self._ends[name].wait()

    async def end(self, name: str) -> None:
        self._ends[name].set()
        await settle()

    async def cancel(self, name: str) -> None:
        self._tasks[name].cancel()
        await settle()

    async def finish(self) -> None:
        for each in self._ends.values():
            each.set()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("method", "resource", "urgency"),
    [
        ("GET", "jobs", None),
        ("POST", "jobs", Urgency.NEEDED),
        ("POST", "jobflows", Urgency.NEEDED),
        ("POST", "commands", Urgency.NEEDED),
        ("PATCH", "jobflows/status", Urgency.NEEDED),
        ("DELETE", "jobs", Urgency.DELETE),
        ("PATCH", "jobtemplates/status", Urgency.TEMPLATE),
        ("PATCH", "cronjobflows/status", Urgency.SUMMARY),
        ("POST", "events", Urgency.EVENT),
        ("PATCH", "events", Urgency.EVENT),
    ],
)
def test_a_write_is_as_urgent_as_what_waits_for_it(
    method: str, resource: str, urgency: Urgency | None
) -> None:
    assert urgency_of(method, resource) is urgency


def test_a_create_of_a_flow_that_has_not_started_is_less_urgent() -> None:
    assert urgency_of("POST", "jobs", is_start=True) is Urgency.START
    assert urgency_of("PATCH", "jobflows/status", is_start=True) is Urgency.NEEDED
    assert urgency_of("POST", "events", is_start=True) is Urgency.EVENT


async def test_one_start_is_always_under_way_and_others_wait_for_what_is_needed() -> None:
    writes = Writes(places=2)
    await writes.send("a", Urgency.NEEDED)
    await writes.send("b", Urgency.NEEDED)
    for name, urgency in (
        ("start", Urgency.START),
        ("next start", Urgency.START),
        ("delete", Urgency.DELETE),
        ("c", Urgency.NEEDED),
        ("d", Urgency.NEEDED),
    ):
        await writes.send(name, urgency)
    await writes.end("a")
    await writes.end("b")
    assert writes.began == ["a", "b", "start", "c"]
    await writes.end("c")
    await writes.end("d")
    assert writes.began[4:] == ["d", "next start"]
    await writes.end("start")
    assert writes.began[6:] == ["delete"]
    await writes.finish()


async def test_a_start_that_is_given_up_leaves_its_place_to_the_next_start() -> None:
    writes = Writes(places=1)
    await writes.send("a", Urgency.NEEDED)
    for name, urgency in (("s", Urgency.START), ("t", Urgency.START), ("b", Urgency.NEEDED)):
        await writes.send(name, urgency)
    await writes.cancel("s")
    await writes.end("a")
    assert writes.began == ["a", "t"]
    await writes.finish()


async def test_the_most_urgent_write_is_next_and_equals_keep_their_order() -> None:
    writes = Writes(places=1)
    await writes.send("first", Urgency.EVENT)
    for name, urgency in (
        ("event", Urgency.EVENT),
        ("template", Urgency.TEMPLATE),
        ("summary", Urgency.SUMMARY),
        ("delete", Urgency.DELETE),
        ("a", Urgency.NEEDED),
        ("b", Urgency.NEEDED),
    ):
        await writes.send(name, urgency)
    expected = ["first", "a", "b", "delete", "summary", "event", "template"]
    for name in expected:
        await writes.end(name)
    assert writes.began == expected


async def test_a_write_that_is_given_up_leaves_its_place_to_the_next() -> None:
    writes = Writes(places=1)
    for name in "abc":
        await writes.send(name, Urgency.NEEDED)
    await writes.cancel("b")
    await writes.cancel("a")
    assert writes.began == ["a", "c"]
    await writes.finish()
    assert writes.order.has_room


async def test_a_write_that_waits_long_goes_beyond_the_places(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(write_order, "PATIENCE_SECONDS", 0.01)
    writes = Writes(places=1)
    await writes.send("create", Urgency.NEEDED)
    await writes.send("another", Urgency.NEEDED)
    await writes.send("event", Urgency.EVENT)
    await writes.send("another event", Urgency.EVENT)
    async with asyncio.timeout(10):
        while "event" not in writes.began:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert writes.began == ["create", "event"]
    await writes.finish()


@pytest.mark.parametrize("urgency", [Urgency.NEEDED, Urgency.START])
async def test_the_status_of_a_template_waits_for_creates_and_statuses_of_flows(
    urgency: Urgency,
) -> None:
    writes = Writes(places=9)
    await writes.send("a", urgency)
    await writes.send("template", Urgency.TEMPLATE)
    await writes.send("event", Urgency.EVENT)
    await writes.send("b", urgency)
    await writes.end("a")
    assert writes.began == ["a", "event", "b"]
    assert writes.order.has_room
    await writes.end("b")
    assert writes.began[3:] == ["template"]
    await writes.finish()


async def test_the_status_of_a_template_waits_for_a_time_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(write_order, "PATIENCE_SECONDS", 0.01)
    monkeypatch.setattr(write_order, "TEMPLATE_PATIENCE_SECONDS", 0.02)
    writes = Writes(places=9)
    await writes.send("a", Urgency.NEEDED)
    await writes.send("template", Urgency.TEMPLATE)
    async with asyncio.timeout(10):
        while "template" not in writes.began:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    await writes.finish()


async def test_the_order_tells_how_long_writes_have_waited() -> None:
    now = 0.0
    writes = Writes(places=1, clock=lambda: now)
    await writes.send("a", Urgency.NEEDED)
    await writes.send("b", Urgency.NEEDED)
    now = 3.0
    await writes.send("c", Urgency.NEEDED)
    await writes.send("event", Urgency.EVENT)
    now = 5.0
    waiting = writes.order.waiting()
    assert {urgency: waited for urgency, waited in waiting.items() if waited} == {
        Urgency.NEEDED: [5.0, 2.0],
        Urgency.EVENT: [2.0],
    }
    await writes.cancel("b")
    assert writes.order.waiting()[Urgency.NEEDED] == [2.0]
    await writes.finish()


async def test_those_that_wait_for_room_are_called_when_nothing_else_waits() -> None:
    writes = Writes(places=1)
    called: list[str] = []
    await writes.send("a", Urgency.NEEDED)
    await writes.send("b", Urgency.EVENT)
    for name in ("x", "x", "y"):
        writes.order.when_room(name, lambda name=name: called.append(name))
    await writes.end("a")
    assert called == []
    await writes.end("b")
    assert called == ["x"]
    await writes.send("c", Urgency.NEEDED)
    await writes.finish()
    assert called == ["x", "y"]


def grown() -> CongestionWindow:
    """A window whose limit is the highest, because answers have taken 0.01 s."""
    window = CongestionWindow()
    for _ in range(3000):
        window.waited()
        window.answered(FLOWS, 0.01)
    assert window.limit == MOST_PLACES
    return window


def test_places_grow_by_one_a_round_while_writes_wait() -> None:
    window = CongestionWindow()
    for _ in range(FIRST_PLACES):
        window.answered(FLOWS, 0.01)
    assert window.limit == FIRST_PLACES
    for rounds in range(1, 4):
        window.waited()
        while window.limit < FIRST_PLACES + rounds:
            window.answered(FLOWS, 0.01)
    for _ in range(100_000):
        window.waited()
        window.answered(FLOWS, 0.01)
    assert window.limit == MOST_PLACES


def test_places_shrink_while_answers_are_slow_but_not_below_those_at_first() -> None:
    window = grown()
    for _ in range(MOST_PLACES):
        window.answered(FLOWS, 0.1)
    assert window.limit == pytest.approx(MOST_PLACES * 0.9)
    for _ in range(600):
        window.waited()
        window.answered(FLOWS, 0.1)
    assert window.limit == FIRST_PLACES


def test_a_few_slow_answers_shrink_nothing() -> None:
    window = grown()
    for number in range(1000):
        window.answered(FLOWS, 10 if number % 3 == 0 else 0.01)
    assert window.limit == MOST_PLACES


def test_a_few_fast_answers_make_the_others_not_slow() -> None:
    window = CongestionWindow()
    for number in range(20_000):
        window.waited()
        window.answered(FLOWS, 0.003 if number % 10 == 0 else 0.1)
    assert window.limit == MOST_PLACES


def test_places_that_refusals_took_come_back_although_answers_are_slow() -> None:
    window = grown()
    for began in range(10):
        window.failed(began, now=began)
    assert window.limit == LEAST_PLACES
    for _ in range(200):
        window.waited()
        window.answered(FLOWS, 0.1)
    assert window.limit == FIRST_PLACES


def test_answers_are_compared_with_those_of_their_kind() -> None:
    window = CongestionWindow()
    for _ in range(10 * FIRST_PLACES):
        window.waited()
        window.answered(FLOWS, 0.01)
        window.answered("jobs", 0.2)
    assert window.limit > FIRST_PLACES


def test_a_server_that_is_slower_for_good_gets_its_places_back() -> None:
    window = CongestionWindow()
    window.answered(FLOWS, 0.001)
    for _ in range(20_000):
        window.waited()
        window.answered(FLOWS, 0.05)
    assert window.limit == MOST_PLACES


def test_failures_of_one_time_halve_the_places_once() -> None:
    window = CongestionWindow()
    for began in (1.0, 1.5, 2.0):
        window.failed(began, now=3.0)
    assert window.limit == FIRST_PLACES / 2
    window.failed(3.0, now=4.0)
    assert window.limit == FIRST_PLACES / 4


@pytest.mark.parametrize(
    ("code", "limit"), [(409, FIRST_PLACES), (500, FIRST_PLACES), (429, 8), (503, 8)]
)
async def test_a_refusal_for_load_shrinks_the_places(code: int, limit: int) -> None:
    order = WriteOrder()
    with pytest.raises(ApiError):
        async with order.turn(Urgency.NEEDED, "kind"):
            raise ApiError(Status(code=code))
    assert order.window.limit == limit
    assert order.has_room


@pytest.mark.law
@given(st.lists(st.tuples(st.sampled_from(Urgency), st.booleans()), max_size=40), st.integers(1, 4))
def test_every_write_gets_its_turn_and_no_more_than_the_places(
    sent: list[tuple[Urgency, bool]], places: int
) -> None:
    """`sent`: writes, each with whether it is given up while it waits or is under way."""

    async def run() -> None:
        writes = Writes(places)
        under_way = 0
        most = 0

        async def write(urgency: Urgency) -> None:
            nonlocal under_way, most
            async with writes.order.turn(urgency, "kind"):
                under_way += 1
                most = max(most, under_way)
                try:
                    await asyncio.sleep(0)
                finally:
                    under_way -= 1

        tasks = [asyncio.create_task(write(urgency)) for urgency, _ in sent]
        await asyncio.sleep(0)
        for task, is_given_up in zip(tasks, (each for _, each in sent), strict=True):
            if is_given_up:
                task.cancel()
        done = await asyncio.gather(*tasks, return_exceptions=True)
        assert most <= places
        assert all(result is None for result, (_, gone) in zip(done, sent, strict=True) if not gone)
        assert writes.order.has_room

    asyncio.run(run())
