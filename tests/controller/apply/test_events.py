"""Events: counted, limited and best effort."""

import asyncio
from collections.abc import AsyncIterator

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
    await world.send("x", "y", "x")
    await world.send("x")
    assert await world.counts() == {"x": 3, "y": 1}


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


async def test_events_of_a_full_queue_become_one(
    world: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "PENDING", 3)
    await world.send(*map(str, range(9)))
    combined = "(combined from similar events): 6"
    assert await world.counts() == {combined: 7, "7": 1, "8": 1}
    assert world.dropped.count == 0


async def test_events_that_cannot_be_folded_are_dropped(
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


async def test_stop_does_not_cancel_a_request_in_progress(world: Recording) -> None:
    """It would be unknown whether the request was executed, and a new leader would have to wait."""
    world.record("x")
    sending = asyncio.create_task(world.recorder.run())
    await asyncio.sleep(0)
    world.recorder.stop()
    await sending
    assert len(await world.cluster.events()) == 1


async def test_flush_sends_nothing_after_its_deadline(world: Recording) -> None:
    world.record("x")
    await world.recorder.flush(seconds=0)
    assert await world.cluster.events() == []
