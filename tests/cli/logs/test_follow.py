"""`jobflow logs -f` and `jobflow submit --log`: logs that are followed."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest

from jobflow.api.resources import JOBFLOWS, PODS
from jobflow.cli.logs import follow as flow_logs
from jobflow.cli.logs.follow import follow_logs
from jobflow.client.errors import CommandError
from jobflow.client.logs.selection import LogSelection
from jobflow.runtime.logs import configure
from jobflow.sandbox.apiserver.requests.failures import failure
from support.sandbox.api_server import InjectedFault
from support.sandbox.command_line import logging_restored
from support.sandbox.flow_commands import set_status
from support.sandbox.logged_pods import LoggedPods, running_flow
from support.sandbox.running_controller import NAMESPACE, Cluster

SUCCEED = {"state": {"phase": "Succeed"}}
Follow = Callable[..., AbstractAsyncContextManager[list[str]]]


@pytest.fixture
def pods() -> LoggedPods:
    return LoggedPods()


@pytest.fixture
async def world(pods: LoggedPods) -> AsyncIterator[Cluster]:
    async with running_flow(pods) as world:
        yield world


@pytest.fixture
def follow(world: Cluster, capsys: pytest.CaptureFixture[str]) -> Iterator[Follow]:
    """Return a context in which the logs of f are followed until it ends; it yields the lines,
    which are known after it."""

    @asynccontextmanager
    async def following(**selection: Any) -> AsyncIterator[list[str]]:
        lines: list[str] = []
        flow = await world.flow("f")
        async with asyncio.timeout(20), asyncio.TaskGroup() as tasks:
            tasks.create_task(follow_logs(world.client, flow, LogSelection(**selection)))
            yield lines
        lines += capsys.readouterr().out.splitlines()

    with logging_restored():
        configure(level=logging.CRITICAL)
        yield following


async def test_following_ends_with_the_flow(
    world: Cluster, pods: LoggedPods, follow: Follow
) -> None:
    await pods.create(world, "f-a-0", "a", text="one\n")
    async with follow() as lines:
        await pods.of("f-a-0").opened.wait()
        pods.of("f-a-0").text += b"two\n"
        await pods.create(world, "f-b-0", "b", started=False)
        pods.of("f-b-0").text = b"later\n"
        await pods.start(world, "f-b-0")
        await pods.of("f-b-0").opened.wait()
        for pod in ("f-a-0", "f-b-0"):
            await pods.end(world, pod)
        await set_status(world, SUCCEED)
    assert sorted(lines) == ["a/f-a-0 │ one", "a/f-a-0 │ two", "b/f-b-0 │ later"]


async def test_following_a_step_ends_with_the_step(
    world: Cluster, pods: LoggedPods, follow: Follow
) -> None:
    await pods.create(world, "f-a-0", "a", text="one\n")
    await pods.create(world, "f-b-0", "b", text="of another step\n")
    async with follow(step="a") as lines:
        await pods.of("f-a-0").opened.wait()
        await pods.end(world, "f-a-0")
        await set_status(world, {"conditions": {"f-a": {"phase": "Completed"}}})
    assert lines == ["a/f-a-0 │ one"]


async def test_following_a_pod_ends_with_the_pod(
    world: Cluster, pods: LoggedPods, follow: Follow
) -> None:
    await pods.create(world, "f-a-0", "a", text="one\n")
    async with follow(pod="f-a-0") as lines:
        await pods.of("f-a-0").opened.wait()
        await pods.end(world, "f-a-0")
    assert lines == ["a/f-a-0 │ one"]


async def test_a_log_goes_on_after_a_broken_connection(
    world: Cluster, pods: LoggedPods, follow: Follow
) -> None:
    await pods.create(world, "f-a-0", "a", text="one\ntwo\n")
    log = pods.of("f-a-0")
    async with follow() as lines:
        await log.opened.wait()
        log.opened.clear()
        world.server.storage.close_watches()
        log.text += b"three\n"
        await log.opened.wait()
        await pods.end(world, "f-a-0")
        await set_status(world, SUCCEED)
    assert lines == [f"a/f-a-0 │ {word}" for word in ("one", "two", "three")]


async def test_only_present_logs_are_cut_by_tail(
    world: Cluster, pods: LoggedPods, follow: Follow
) -> None:
    await pods.create(world, "f-a-0", "a", text="one\ntwo\n")
    async with follow(tail=1) as lines:
        await pods.of("f-a-0").opened.wait()
        await pods.create(world, "f-b-0", "b", text="three\nfour\n")
        await pods.of("f-b-0").opened.wait()
        for pod in ("f-a-0", "f-b-0"):
            await pods.end(world, pod)
        await set_status(world, SUCCEED)
    assert lines == ["a/f-a-0 │ two", "b/f-b-0 │ three", "b/f-b-0 │ four"]


async def test_a_pod_that_never_starts_does_not_keep_the_command(
    world: Cluster, pods: LoggedPods, follow: Follow
) -> None:
    await pods.create(world, "f-a-0", "a", text="one\n")
    await pods.create(world, "f-b-0", "b", started=False)
    async with follow() as lines:
        await pods.of("f-a-0").opened.wait()
        await pods.end(world, "f-a-0")
        await set_status(world, SUCCEED)
    assert lines == ["a/f-a-0 │ one"]


async def test_a_deleted_flow_ends_the_command(
    world: Cluster, pods: LoggedPods, follow: Follow
) -> None:
    await pods.create(world, "f-a-0", "a", text="one\n")
    async with follow() as lines:
        await pods.of("f-a-0").opened.wait()
        await world.client.delete(JOBFLOWS, NAMESPACE, "f")
        pods.of("f-a-0").ended = True
        await world.client.delete(PODS, NAMESPACE, "f-a-0")
        confirmed = json.dumps({"gracePeriodSeconds": 0}).encode()
        await world.client.request("DELETE", PODS.path(NAMESPACE, "f-a-0"), body=confirmed)
    assert lines == ["a/f-a-0 │ one"]


async def test_a_finished_flow_is_read_without_waiting(
    world: Cluster, pods: LoggedPods, follow: Follow
) -> None:
    await pods.create(world, "f-a-0", "a", text="one\n")
    await pods.end(world, "f-a-0")
    await set_status(world, SUCCEED)
    async with follow() as lines:
        pass
    assert lines == ["a/f-a-0 │ one"]


async def test_many_logs_share_few_connections(
    world: Cluster, pods: LoggedPods, follow: Follow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flow_logs, "MOST_STREAMS", 2)
    names = [f"f-a-{number}" for number in range(5)]
    for name in names:
        await pods.create(world, name, "a", text=f"{name}\n")
    async with follow() as lines:
        for name in names:
            await pods.of(name).opened.wait()
            await pods.end(world, name)
        await set_status(world, SUCCEED)
    assert sorted(lines) == [f"a/{name} │ {name}" for name in names]


async def test_without_the_right_to_watch_pods_following_is_an_error(
    world: Cluster, pods: LoggedPods
) -> None:
    await pods.create(world, "f-a-0", "a", text="one\n")
    world.server.faults.append(
        InjectedFault(
            lambda request: request.path.endswith("/pods") and "watch" in request.query,
            failure(403, "Forbidden", "alice must not"),
            times=None,
        )
    )
    with pytest.raises(CommandError, match="this needs the right to watch pods") as caught:
        await follow_logs(world.client, await world.flow("f"))
    assert caught.value.code == 1


async def test_a_step_without_pods_is_an_error_once_it_has_ended(world: Cluster) -> None:
    following = asyncio.create_task(
        follow_logs(world.client, await world.flow("f"), LogSelection(step="b"))
    )
    skipped = {"phase": "Skipped", "message": "a failed"}
    await set_status(world, {"conditions": {"f-b": skipped}})
    with pytest.raises(CommandError, match='step "b" has no pods, because it was skipped'):
        await following
