"""Events for `kubectl describe`: counted, bounded, never in the way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from jobflow.api.jobflow import JobFlow
from jobflow.api.resources import EVENTS
from jobflow.controller.apply import events
from jobflow.controller.apply.events import Recorder
from jobflow.controller.hooks import Hooks
from jobflow.core.planning.actions import Event, EventType
from jobflow.sandbox.apiserver.requests.failures import failure
from jobflow.sandbox.apiserver.server import InjectedFault
from support.sandbox.running_controller import NAMESPACE, Cluster, cluster, flow


class Dropped(Hooks):
    """Counts what was given up."""

    def __init__(self) -> None:
        self.count = 0

    def event_dropped(self) -> None:
        self.count += 1


def note(message: str) -> Event:
    return Event(EventType.WARNING, "Trouble", message)


@pytest.fixture
async def world() -> AsyncIterator[Cluster]:
    async with cluster() as world:
        await world.apply(flow("f", {"a": ""}))
        yield world


async def counts(world: Cluster) -> dict[str, int]:
    return {event["message"]: event["count"] for event in await world.events()}


async def test_the_same_again_raises_the_count(world: Cluster) -> None:
    subject, recorder = await world.flow("f"), Recorder(world.client)
    for message in ("x", "y", "x"):
        recorder.record(subject, note(message))
    await recorder.flush()
    recorder.record(subject, note("x"))
    await recorder.flush()
    assert await counts(world) == {"x": 3, "y": 1}


async def test_the_next_process_counts_on(world: Cluster) -> None:
    subject = await world.flow("f")
    for _ in range(2):
        recorder = Recorder(world.client)
        recorder.record(subject, note("x"))
        await recorder.flush()
    assert await counts(world) == {"x": 2}


async def test_an_event_that_has_expired_is_made_anew(world: Cluster) -> None:
    subject, recorder = await world.flow("f"), Recorder(world.client)
    recorder.record(subject, note("x"))
    await recorder.flush()
    (made,) = await world.events()
    await world.client.delete(EVENTS, NAMESPACE, made["metadata"]["name"])
    recorder.record(subject, note("x"))
    await recorder.flush()
    assert await counts(world) == {"x": 1}


async def test_kubectl_finds_it_by_the_flow(world: Cluster) -> None:
    subject, recorder = await world.flow("f"), Recorder(world.client)
    recorder.record(subject, note("x" * 5000))
    await recorder.flush()
    (made,) = await world.events()
    assert made["involvedObject"]["uid"] == subject.metadata.uid
    assert made["type"] == "Warning"
    assert len(made["message"]) == 1024
    assert made["firstTimestamp"] == made["lastTimestamp"]


async def test_it_tries_again_and_gives_up_in_the_end(world: Cluster) -> None:
    subject, dropped = await world.flow("f"), Dropped()
    recorder = Recorder(world.client, hooks=dropped)
    busy = InjectedFault(
        lambda request: request.path.endswith("/events"), failure(500, "", "no"), times=2
    )
    world.server.faults.append(busy)
    recorder.record(subject, note("x"))
    for _ in range(3):
        await recorder.flush()
    assert await counts(world) == {"x": 1}
    busy.times = None
    recorder.record(subject, note("y"))
    for _ in range(5):
        await recorder.flush()
    assert dropped.count == 1


async def test_what_waits_is_bounded_and_the_oldest_goes(
    world: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "PENDING", 3)
    subject, dropped = await world.flow("f"), Dropped()
    recorder = Recorder(world.client, hooks=dropped)
    for number in range(5):
        recorder.record(subject, note(str(number)))
    await recorder.flush()
    assert (await counts(world)).keys() == {"2", "3", "4"}
    assert dropped.count == 2


async def test_it_sends_by_itself(world: Cluster) -> None:
    subject, recorder = await world.flow("f"), Recorder(world.client)
    sending = asyncio.create_task(recorder.run())
    recorder.record(subject, note("x"))
    await world.seen(EVENTS, JobFlow, lambda made: len(made) == 1)
    recorder.record(subject, note("y"))
    await world.seen(EVENTS, JobFlow, lambda made: len(made) == 2)
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)


async def test_an_event_that_is_being_sent_is_not_broken_off(world: Cluster) -> None:
    """Nobody would know whether it was written, and a new leader would have to wait."""
    subject, recorder = await world.flow("f"), Recorder(world.client)
    recorder.record(subject, note("x"))
    sending = asyncio.create_task(recorder.run())
    await asyncio.sleep(0)
    recorder.stop()
    await sending
    assert len(await world.events()) == 1


async def test_a_slow_api_server_gets_no_more_events_at_the_end(world: Cluster) -> None:
    subject, recorder = await world.flow("f"), Recorder(world.client)
    recorder.record(subject, note("x"))
    await recorder.flush(seconds=0)
    assert await world.events() == []
