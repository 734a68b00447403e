"""A flow in backoff: its failing requests are repeated after the backoff and not before."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.resources import JOBS
from jobflow.controller.queue import FIRST_RETRY
from jobflow.sandbox.apiserver.requests.failures import RequestFailure, failure
from jobflow.sandbox.apiserver.requests.http import Request
from support.sandbox.api_server import InjectedFault
from support.sandbox.running_controller import (
    Cluster,
    cluster,
    flow,
    merge,
    set_phase,
    template,
)
from support.time.leaping_loop import clock

LONG = 60.0
"""Seconds for which a server fails; the shortest backoffs are a half of 0.2, 0.4, 0.8 …"""
BACKOFFS = 10
"""The most tries in LONG: the ends of the shortest backoffs are at 0.1, 0.3, 0.7 … 51.1."""
BROKEN = failure(500, "InternalError", "etcdserver: mvcc: database space exceeded")


@dataclass
class Failing:
    """Requests that fail, and their times."""

    method: str
    ending: str
    how: RequestFailure = BROKEN
    name: str = ""
    """Only creates of this object."""
    at: list[float] = field(default_factory=list)

    def __call__(self, request: Request) -> bool:
        if request.method != self.method or not request.path.endswith(self.ending):
            return False
        if self.name and json.loads(request.body)["metadata"]["name"] != self.name:
            return False
        self.at.append(clock())
        return True


@pytest.fixture
async def world() -> AsyncIterator[Cluster]:
    async with cluster() as servers, servers.controller():
        await servers.apply(*(template(name) for name in "abc"))
        yield servers


def fail(world: Cluster, failing: Failing) -> Failing:
    world.server.faults.append(InjectedFault(failing, failing.how, times=None))
    return failing


async def cause_events(world: Cluster, job: str, seconds: float) -> None:
    end = clock() + seconds
    while clock() < end:
        await merge(
            world.client, JOBS, job, {"metadata": {"annotations": {"test/news": str(clock())}}}
        )
        await asyncio.sleep(0.5)


async def test_a_due_requeue_does_not_shorten_the_backoff(world: Cluster) -> None:
    await world.apply(flow("f", {"a": ""}, timeout="5s"))
    await world.until_jobs(f_a="")
    await set_phase(world.client, "f-a", "Running")
    await world.until("f", lambda flow: flow.status.state.phase == "Running")
    await asyncio.sleep(1)
    failing = fail(world, Failing("PATCH", "/f/status"))
    await set_phase(world.client, "f-a", "Completed")
    await asyncio.sleep(LONG)
    assert 5 <= len(failing.at) <= BACKOFFS


@pytest.mark.long
async def test_events_do_not_repeat_failed_requests(world: Cluster) -> None:
    await world.apply(flow("f", {"a": ""}))
    await world.until_jobs(f_a="")
    failing = fail(world, Failing("PATCH", "/f/status"))
    await set_phase(world.client, "f-a", "Running")
    await cause_events(world, "f-a", LONG)
    assert 5 <= len(failing.at) <= BACKOFFS


async def test_events_continue_the_steps_that_did_not_fail(world: Cluster) -> None:
    """The create of b keeps failing while a and its dependant c end."""
    failing = fail(world, Failing("POST", "/jobs", name="f-b"))
    await world.apply(flow("f", {"a": "", "b": "", "c": "a"}))
    await world.until_jobs(f_a="")
    await asyncio.sleep(LONG)
    tried = len(failing.at)
    await set_phase(world.client, "f-a", "Completed")
    before = clock()
    await world.until_jobs(f_c="", f_a="Completed")
    assert clock() - before < FIRST_RETRY
    assert len(failing.at) == tried <= BACKOFFS


async def test_a_request_is_repeated_after_the_backoff_despite_events(world: Cluster) -> None:
    failing = fail(world, Failing("POST", "/jobs", name="f-b"))
    await world.apply(flow("f", {"a": "", "b": ""}))
    await world.until_jobs(f_a="")
    await cause_events(world, "f-a", 10)
    world.server.faults.clear()
    await world.until_jobs(f_a="", f_b="")
    assert len(failing.at) <= BACKOFFS


@pytest.mark.long
async def test_a_flow_sends_nothing_while_a_server_asks_it_to_wait(world: Cluster) -> None:
    later = failure(429, "TooManyRequests", "later", retryAfterSeconds=30)
    await world.apply(flow("f", {"a": "", "b": "a"}))
    await world.until_jobs(f_a="")
    failing = fail(world, Failing("POST", "/jobs", later))
    await set_phase(world.client, "f-a", "Completed")
    await cause_events(world, "f-a", 100)
    pauses = [later - first for first, later in zip(failing.at, failing.at[1:], strict=False)]
    assert len(pauses) in (2, 3)
    assert min(pauses) >= 30


@pytest.mark.parametrize(
    ("how", "text"),
    [
        (BROKEN, "the API server answers with an error: 500 InternalError: etcdserver: mvcc"),
        (None, "the API server does not answer: "),
    ],
)
async def test_an_error_of_a_create_is_shown_after_five_seconds(
    world: Cluster, how: RequestFailure | None, text: str
) -> None:
    def waits(flow: JobFlow, reason: str) -> bool:
        found = (flow.status.conditions or {}).get("f-a")
        return found is not None and found.reason == reason

    failing = Failing("POST", "/jobs", name="f-a")
    world.server.faults.append(InjectedFault(failing, how, times=None))
    await world.apply(flow("f", {"a": ""}))
    await world.until("f", lambda flow: waits(flow, "Starting"))
    shown = await world.until("f", lambda flow: waits(flow, "CreateRefused"))
    assert 5 <= clock() - failing.at[0] < 5.5
    assert (shown.status.conditions or {})["f-a"].message.startswith(text)
    assert shown.status.state.message.startswith(f"step a: {text}")
    await asyncio.sleep(1)
    warned = [each["message"] for each in await world.events() if each["reason"] == "CreateRefused"]
    assert [each.startswith(f"step a: {text}") for each in warned] == [True]
    world.server.faults.clear()
    await world.until_jobs(f_a="")
    shown = await world.until("f", lambda flow: not waits(flow, "CreateRefused"))
    assert shown.status.state.reason == ""


async def test_an_error_of_the_create_of_a_claim_is_shown_too(world: Cluster) -> None:
    fail(world, Failing("POST", "/persistentvolumeclaims"))
    mounting = template("mounting")
    (container,) = mounting["spec"]["tasks"][0]["template"]["spec"]["containers"]
    container["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    data = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    await world.apply(mounting, flow("f", {"mounting": ""}, volumeClaims={"data": data}))
    text = "the volume claim f-data cannot be created: the API server answers with an error: 500"
    shown = await world.until("f", lambda flow: text in str(flow.status.conditions))
    assert (shown.status.conditions or {})["f-mounting"].reason == "CreateRefused"
