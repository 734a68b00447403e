"""Events: counted, limited and best effort."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.resources import EVENTS
from jobflow.controller.apply import events
from jobflow.controller.apply.events import Recorder
from jobflow.controller.hooks import Hooks
from jobflow.core.planning.actions import Event, EventType
from jobflow.sandbox.apiserver.requests.failures import failure
from support.sandbox.running_controller import NAMESPACE, Cluster, cluster, flow


class Dropped(Hooks):
    count = 0

    def event_dropped(self) -> None:
        self.count += 1


class Recording:
    def __init__(self, cluster: Cluster, subject: JobFlow) -> None:
        self.cluster = cluster
        self.subject = subject
        self.dropped = Dropped()
        self.recorder = Recorder(cluster.client, hooks=self.dropped)

    def record(self, *messages: str) -> None:
        for message in messages:
            self.recorder.record(self.subject, Event(EventType.WARNING, "Trouble", message))

    async def send(self, *messages: str) -> None:
        self.record(*messages)
        await self.recorder.flush()

    async def counts(self) -> dict[str, int]:
        return {event["message"]: event["count"] for event in await self.cluster.events()}


@pytest.fixture
async def world() -> AsyncIterator[Recording]:
    async with cluster() as servers:
        await servers.apply(flow("f", {"a": ""}))
        yield Recording(servers, await servers.flow("f"))


async def test_equal_events_are_counted(world: Recording) -> None:
    await world.send("x", "x")
    await world.send("x")
    await world.send("y")
    assert await world.counts() == {"x": 3, "y": 1}


async def test_waiting_events_of_one_object_and_reason_become_one(world: Recording) -> None:
    await world.send("x", "y", "x")
    assert await world.counts() == {"x; y": 3}


async def test_events_of_another_reason_type_or_object_stay_apart(world: Recording) -> None:
    await world.cluster.apply(flow("g", {"a": ""}))
    for subject, kind, reason in (
        (world.subject, EventType.WARNING, "Trouble"),
        (world.subject, EventType.NORMAL, "Trouble"),
        (world.subject, EventType.WARNING, "Other"),
        (await world.cluster.flow("g"), EventType.WARNING, "Trouble"),
    ):
        world.recorder.record(subject, Event(kind, reason, "x"))
    await world.recorder.flush()
    assert [event["count"] for event in await world.cluster.events()] == [1] * 4


async def test_messages_without_room_are_counted(world: Recording) -> None:
    await world.send(*(f"step {number:03}: completed" for number in range(100)))
    ((message, count),) = (await world.counts()).items()
    *shown, more = message.split("; ")
    assert shown == [f"step {number:03}: completed" for number in range(len(shown))]
    assert (more, count) == (f"and {100 - len(shown)} more", 100)
    assert 900 < len(message) <= 1024


@pytest.mark.long
async def test_the_next_process_continues_the_count(world: Recording) -> None:
    for _ in range(2):
        await Recording(world.cluster, world.subject).send("x")
    assert await world.counts() == {"x": 2}


async def test_an_event_that_has_expired_is_created_again(world: Recording) -> None:
    await world.send("x")
    (event,) = await world.cluster.events()
    await world.cluster.client.delete(EVENTS, NAMESPACE, event["metadata"]["name"])
    await world.send("x")
    assert await world.counts() == {"x": 1}


async def test_an_event_is_about_the_flow(world: Recording) -> None:
    await world.send("x" * 5000)
    (event,) = await world.cluster.events()
    assert event["involvedObject"]["uid"] == world.subject.metadata.uid
    assert event["type"] == "Warning"
    assert len(event["message"]) == 1024
    assert event["firstTimestamp"] == event["lastTimestamp"]


async def test_an_event_is_tried_three_times_and_then_dropped(world: Recording) -> None:
    busy = world.cluster.fails("", "/events", failure(500, "", "no"), times=2)
    await world.send("x")
    for _ in range(2):
        await world.send()
    assert await world.counts() == {"x": 1}
    busy.times = None
    await world.send("y")
    for _ in range(4):
        await world.send()
    assert world.dropped.count == 1


async def test_an_event_that_is_tried_again_takes_in_later_ones(world: Recording) -> None:
    world.cluster.fails("", "/events", failure(500, "", "no"), times=1)
    await world.send("x", "y")
    await world.send("y", "z", "z")
    assert await world.counts() == {"x; y; z": 5}


async def test_the_oldest_events_of_a_full_queue_are_dropped(
    world: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "PENDING", 3)
    for number in range(5):
        event = Event(EventType.NORMAL, f"Reason{number}", "x")
        world.recorder.record(world.subject, event)
    await world.recorder.flush()
    reasons = {event["reason"] for event in await world.cluster.events()}
    assert reasons == {"Reason2", "Reason3", "Reason4"}
    assert world.dropped.count == 2


async def test_run_sends_events(world: Recording) -> None:
    sending = asyncio.create_task(world.recorder.run())
    for count, message in enumerate("xy", start=1):
        world.record(message)
        await world.cluster.seen(EVENTS, JobFlow, lambda stored, count=count: len(stored) == count)
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)


async def test_an_event_waits_for_others_of_its_kind(world: Recording) -> None:
    sending = asyncio.create_task(world.recorder.run())
    for message in "xyz":
        world.record(message)
        await asyncio.sleep(0.01)
    await world.cluster.seen(EVENTS, JobFlow, bool)
    assert await world.counts() == {"x; y; z": 3}
    world.recorder.stop()
    await sending


async def test_stop_does_not_cancel_a_request_in_progress(
    world: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be unknown whether the request was executed, and a new leader would have to wait."""
    begun = asyncio.Event()
    create = world.cluster.client.create

    async def slow_create(*request: Any) -> bytes:
        begun.set()
        await asyncio.sleep(0.01)
        return await create(*request)

    monkeypatch.setattr(world.cluster.client, "create", slow_create)
    monkeypatch.setattr(events, "FOLD_SECONDS", 0.0)
    world.record("x")
    sending = asyncio.create_task(world.recorder.run())
    await begun.wait()
    world.recorder.stop()
    await sending
    assert len(await world.cluster.events()) == 1


async def test_flush_sends_nothing_after_its_deadline(world: Recording) -> None:
    world.record("x")
    await world.recorder.flush(seconds=0)
    assert await world.cluster.events() == []
