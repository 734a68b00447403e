"""`pods/NAME/log` of containers in each state; the log itself comes from a fake runner."""

import asyncio
from collections.abc import AsyncIterator, Generator
from datetime import UTC, datetime
from typing import Any

import aiohttp
import pytest

from support.sandbox.rest_client import PODS, Rest, failure_status, rest

RUNNING = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
ENDED = {"terminated": {"exitCode": 1}}


def waiting(reason: str) -> dict[str, Any]:
    return {"waiting": {"reason": reason}}


class FakeLogs:
    """A source whose logs are what they were asked for, and then `more` until `over`."""

    def __init__(self) -> None:
        self.more: list[bytes] = []
        self.over = False
        self.closed = asyncio.Event()

    def log(self, pod_uid: str, container: str, run: int) -> "FakeLog | None":
        return FakeLog(self, f"{container} {run}")


class FakeLog:
    def __init__(self, source: FakeLogs, text: str) -> None:
        self.source, self.text = source, text

    def read(self, *, follow: bool, **options: Any) -> Generator[bytes, None, None]:
        given = " ".join(f"{name}={value}" for name, value in options.items() if value)
        try:
            yield f"{self.text} {given}\n".encode()
            while follow and not (self.source.over and not self.source.more):
                yield self.source.more.pop(0) if self.source.more else b""
        finally:
            self.source.closed.set()


@pytest.fixture
def source() -> FakeLogs:
    return FakeLogs()


@pytest.fixture
async def api(source: FakeLogs) -> AsyncIterator[Rest]:
    async with rest(logs=source) as client:
        yield client


async def create_pod(api: Rest, *, init: bool = False, **status: Any) -> str:
    """Create a pod on a node with this status of its container; return the path of its log."""
    containers = [{"name": "c", "image": "busybox"}]
    spec: dict[str, Any] = {"nodeName": "sandbox", "containers": containers}
    if init:
        spec["initContainers"] = [{"name": "i", "image": "busybox"}]
    await api.create(PODS, {"metadata": {"name": "p"}, "spec": spec})
    if status:
        await set_status(api, **status)
    return f"{PODS}/p/log"


async def set_status(api: Rest, **status: Any) -> None:
    statuses = [{"name": "c", "restartCount": 0, **status}]
    await api.patch(f"{PODS}/p/status", {"status": {"containerStatuses": statuses}})


@pytest.mark.parametrize(
    ("status", "previous", "text"),
    [
        ({"state": RUNNING}, "false", "c 0 "),
        ({"state": ENDED}, "false", "c 0 "),
        ({"state": RUNNING, "restartCount": 2, "lastState": ENDED}, "false", "c 2 "),
        ({"state": RUNNING, "restartCount": 2, "lastState": ENDED}, "true", "c 1 "),
        ({"state": waiting("CrashLoopBackOff"), "lastState": ENDED}, "false", "c 0 "),
        ({"state": waiting("CrashLoopBackOff"), "lastState": ENDED}, "true", "c 0 "),
    ],
)
async def test_the_log_of_the_present_or_previous_run_is_read(
    api: Rest, status: dict[str, Any], previous: str, text: str
) -> None:
    log = await create_pod(api, **status)
    assert (await api.get(log, previous=previous)).json == text + "\n"


@pytest.mark.parametrize(
    ("status", "init", "message"),
    [
        ({}, False, "is waiting to start: ContainerCreating"),
        ({}, True, "is waiting to start: PodInitializing"),
        ({"state": waiting("Slow")}, False, "is waiting to start: Slow"),
        (
            {"state": waiting("ImagePullBackOff")},
            False,
            "is waiting to start: trying and failing to pull image",
        ),
        ({"state": waiting("ErrImagePull")}, False, "is waiting to start: image can't be pulled"),
    ],
)
async def test_a_container_that_has_not_started_has_no_log(
    api: Rest, status: dict[str, Any], init: bool, message: str
) -> None:
    log = await create_pod(api, init=init, **status)
    message = f'container "c" in pod "p" {message}'
    assert (await api.get(log)).json == failure_status(400, "BadRequest", message)


async def test_a_first_run_has_no_previous_log(api: Rest) -> None:
    log = await create_pod(api, state=RUNNING)
    message = 'previous terminated container "c" in pod "p" not found'
    assert (await api.get(log, previous="true")).json == failure_status(400, "BadRequest", message)


async def test_the_options_reach_the_runner(api: Rest) -> None:
    log = await create_pod(api, state=RUNNING)
    answer = await api.get(log, tailLines="3", sinceTime="2026-01-01T00:00:00Z", timestamps="1")
    assert answer.json == f"c 0 tail=3 since={datetime(2026, 1, 1, tzinfo=UTC)} timestamps=True\n"
    assert (await api.get(log, limitBytes="2")).json == "c "


async def test_a_followed_log_is_streamed_until_the_run_ends(api: Rest, source: FakeLogs) -> None:
    log = await create_pod(api, state=RUNNING)
    async with open_log(api, log) as response:
        assert response.content_type == "text/plain"
        assert await response.content.readline() == b"c 0 \n"
        source.more += [b"one\n", b"two\n"]
        assert await response.content.readline() == b"one\n"
        source.over = True
        assert await response.content.read() == b"two\n"


async def test_a_reader_that_leaves_ends_its_stream(api: Rest, source: FakeLogs) -> None:
    log = await create_pod(api, state=RUNNING)
    async with open_log(api, log) as response:
        await response.content.readline()
    async with asyncio.timeout(10):
        await source.closed.wait()


async def test_a_server_that_stops_ends_the_stream(api: Rest) -> None:
    log = await create_pod(api, state=RUNNING)
    async with open_log(api, log) as response:
        await response.content.readline()
        api.server.storage.close_watches()
        assert await response.content.read() == b""


async def test_without_a_runner_a_log_is_empty_and_ends_with_the_container() -> None:
    async with rest() as api:
        log = await create_pod(api, state=RUNNING)
        assert (await api.get(log)).json == ""
        async with open_log(api, log) as response:
            await set_status(api, state=ENDED)
            assert await response.content.read() == b""


def open_log(api: Rest, log: str) -> Any:
    return api._session.get(log, params={"follow": "true"}, timeout=aiohttp.ClientTimeout(20))
